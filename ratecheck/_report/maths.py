"""Statements in LaTeX as MathML, which browsers show without a library."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

#: What the converter does not know, in words of its own: an operator, and delimiters that it leaves
#: raw behind sizes such as \Big.
_WRITTEN = {
    r"\\arg(?![a-z])": r"\\operatorname{arg}",
    r"\\langle(?![a-z])": "\N{MATHEMATICAL LEFT ANGLE BRACKET}",
    r"\\rangle(?![a-z])": "\N{MATHEMATICAL RIGHT ANGLE BRACKET}",
}
_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def mathml(latex: str) -> str:
    r"""A formula as MathML for HTML; empty where there is none or a command of it is unknown.

    >>> mathml(r"\arg\min_x x")
    '<math><mrow><mo>arg</mo><msub><mo>min</mo><mi>x</mi></msub><mi>x</mi></mrow></math>'
    >>> mathml(r"x_{a}")
    '<math><msub><mi>x</mi><mi>a</mi></msub></math>'
    >>> mathml(r"\unheard_x")
    ''
    """
    from latex2mathml.converter import convert_to_element

    if not latex:
        return ""
    for command, written in _WRITTEN.items():
        latex = re.sub(command, written, latex)
    try:
        element = convert_to_element(latex)
    except Exception:  # a user's LaTeX may be anything; the plain text stands in
        return ""
    for part in element.iter():
        part.attrib.pop("xmlns", None)
        part.tag = part.tag.removeprefix(_NAMESPACE)
        part.text = html.unescape(part.text or "")  # symbols come as references
        # an unknown command is left as it was written; text keeps what users write in it
        if part.tag != "mtext" and re.search(r"\\[A-Za-z]", part.text):
            return ""
        _join_letters(part)
    for part in list(element.iter()):
        for place, child in enumerate(part):
            part[place] = _without_rows_of_one(child)
    # the converter's own text form leaves what users write in \text{} as markup
    return ElementTree.tostring(element, encoding="unicode").replace(' display="inline"', "")


def _without_rows_of_one(part: ElementTree.Element) -> ElementTree.Element:
    """What a row holds that has one part alone, which means the same; else the part itself."""
    while part.tag == "mrow" and len(part) == 1 and not part.attrib:
        part = part[0]
    return part


def _join_letters(row: ElementTree.Element) -> None:
    """Make the upright letters of a word one element instead of one each."""
    upright = {"mathvariant": "normal"}
    if len(row) > 1 and all(one.tag.endswith("mi") and one.attrib == upright for one in row):
        row[0].text = html.unescape("".join(one.text or "" for one in row))
        del row[1:]
