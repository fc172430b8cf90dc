"""Statements and figures by what their paper calls them: "Lemma D.1 (f)", "Figure 5".

A text names what has this text in its ``source``. Letter case, white space, singular and plural
make no difference, and "Figures 4 to 6" and "Figures 4, 5 and 6" name Figure 5 as well. What has
parts is named with its parts: "Lemma D.1" is also "Lemma D.1 (f)", and "Section 5" is also
"Section 5.2". A text may begin with the name of a paper.

>>> names("lemma D.1", "AffPCL, Lemma D.1 (f), sharpened")
True
>>> names("Figure 5", "Figures 4 to 6, Section 5.3"), names("Figure 5", "Section 5.3")
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ratecheck._discover import papers

#: How the words begin for what is counted in a paper, and what that is.
_KINDS = {
    **{"fig": "figure", "tab": "table", "theorem": "theorem", "thm": "theorem", "lemma": "lemma"},
    **{"lem.": "lemma", "prop": "proposition", "corollar": "corollary", "cor.": "corollary"},
    **{"remark": "remark", "rem.": "remark", "definition": "definition", "def.": "definition"},
    **{"assumption": "assumption", "example": "example", "ex.": "example"},
    **{"equation": "equation", "eq": "equation", "section": "section", "sec.": "section"},
    **{"§": "section", "appendi": "appendix", "app.": "appendix", "algorithm": "algorithm"},
    "alg.": "algorithm",
}
#: So many ids fit into one line.
_LISTED = 8
#: The label of something, or of a part of it, as a word of its own.
_LABEL = re.compile(r"(?:[A-Za-z]\.)?\d+(?:\.\d+)*[a-z]?|[A-Z]|\(\w+(?:\.\w+)*\)")
#: What has parts with labels of their own: Section 5.2 is in Section 5.
_WHOLE_HAS_PARTS = ("section", "appendix")
#: A part that has no file of its own is in that of the whole.
_PART_IS_IN_WHOLE = ("figure", "table")
_TOKEN = re.compile(
    r"""
    \(\s*(?P<equation>[a-z]?\.?\d+(?:\.\d+)*[a-z]?)\s*\)  # (7), (B.3), (4a)
    | \(\s*(?P<part>[a-z]{1,4})\s*\)                      # (f), (iii)
    | (?P<label>(?:[a-z]\.)?\d+(?:\.\d+)*)(?P<letter>[a-z]?)(?!\w)  # 5, D.1, 5.2, 4a
    | (?P<capital>[a-z](?:\d+(?:\.\d+)*)?)(?![\w.(])      # C, D2
    | (?P<word>(?:figs?|tab|thm|lem|prop|cor|rem|def|ex|eqs?|sec|app|alg)\.|[^\W\d_]+|§)
    | (?P<mark>[^\s])
    """,
    re.VERBOSE,
)


class Named(NamedTuple):
    """One thing of a paper: Lemma D.1 (f) is a lemma, "d.1", "f"."""

    kind: str
    label: str
    part: str = ""


def names(text: str, source: str) -> bool:
    """Whether a text, without the name of a paper, names what has this source."""
    wanted, is_all = _named(text)
    if wanted and is_all:
        present, _ = _named(source)
        return all(any(_covers(one, other) for other in present) for one in wanted)
    return bool(re.search(rf"(?<!\w){re.escape(_squeezed(text))}(?!\w)", _squeezed(source)))


def is_reference(text: str) -> bool:
    """Whether a text may be one, and is no id, pattern or path."""
    if _figure(text) or _named(text)[0]:
        return True
    return re.fullmatch(r"[\w.*?/\\:\[\]!-]*", text) is None


def joined(texts: Sequence[str], others: Collection[str] = ()) -> list[str]:
    """The words of a reference that a shell has taken apart are one text, with a paper before it.

    Args:
        texts: the arguments.
        others: short names of papers that are not installed.

    >>> joined(["firm", "affpcl", "Lemma", "D.1", "(f)", "firm.eq17"])
    ['firm', 'affpcl Lemma D.1 (f)', 'firm.eq17']
    """
    known = {*papers.installed(), *others}
    texts_of_one: list[str] = []
    for text in texts:
        before = texts_of_one[-1] if texts_of_one else ""
        word = before.rpartition(" ")[2]
        is_label = _LABEL.fullmatch(text) is not None
        is_kind = text.isalpha() and bool(_kind(text))
        is_id = re.fullmatch(r"[\w-]+[./].*", text) is not None
        begins = before in known and (is_kind or (is_reference(text) and not is_id))
        goes_on = is_label and (bool(_kind(word)) or _LABEL.fullmatch(word) is not None)
        if begins or goes_on:
            text = f"{texts_of_one.pop()} {text}"
        texts_of_one.append(text)
    return texts_of_one


def split_paper(text: str, others: Mapping[str, str] | None = None) -> tuple[str | None, str]:
    """The short name of the paper that a text begins with, or ends with after "of", and the rest.

    Args:
        text: of a user's.
        others: short names of further papers, with the names that are printed.

    >>> split_paper("affpcl Lemma D.1"), split_paper("Figure 4 of FSLoRA")
    (('affpcl', 'Lemma D.1'), ('fslora', 'Figure 4'))
    >>> split_paper("fslora/fig5")
    ('fslora', 'Figure 5')
    """
    text = " ".join(text.split())
    if figure := _figure(text):
        paper, kind, label = figure
        return paper, f"{kind} {label}"
    printed = list((others or {}).items())
    folders = [(name, package.rpartition(".")[2]) for name, package in papers.installed().items()]
    called = {_letters(one): name for name, other in printed + folders for one in (name, other)}
    words = text.split(" ")
    for count in range(len(words), 0, -1):  # names may have several words
        if first := called.get(_letters("".join(words[:count]))):
            return first, " ".join(words[count:])
        last = called.get(_letters("".join(words[-count:])))
        if last and words[-count - 1 : -count] == ["of"]:
            return last, " ".join(words[: -count - 1])
    return None, text


def chosen(text: str, sources: Mapping[str, str]) -> list[str]:
    """The ids that a text without the name of a paper names, of these with their sources.

    Those come first whose source is nearest to the text. One alone where it is called exactly so,
    and the others of its paper are called so in part.
    """
    matching = [name for name, source in sources.items() if names(text, source)]
    matching.sort(key=lambda name: distance(text, sources[name]))
    exact = [name for name in matching if distance(text, sources[name]) == 0]
    of_papers = {re.split(r"[./]", name)[0] for name in matching}
    return exact if len(exact) == 1 and len(of_papers) == 1 else matching


def distance(text: str, source: str) -> int:
    """How much more a source says than a text that names it: what results are ordered by.

    0 for nothing but the paper's name, 1 for where it is, 2 for what comes after the text, 3 for
    what comes before it.

    >>> about = ["Lemma 1", "Lemma 1 (Section 5)", "Lemma 1, corrected", "the proof of Lemma 1"]
    >>> [distance("Lemma 1", f"FIRM, {one}") for one in about]
    [0, 1, 2, 3]
    """
    if _is_exactly(text, source):
        return 0
    wanted, own = _squeezed(text), source.partition(", ")[2]
    rest = [_squeezed(whole)[len(wanted) :] for whole in (own, source) if _begins(whole, wanted)]
    if not rest:
        return 3
    return 1 if re.fullmatch(r"\([^)]*\)", rest[0]) else 2


def one_of(what: str, text: str, ids: Sequence[str]) -> str | None:
    """The only one of these ids, None if there is none.

    Raises:
        InputError: there are more; it lists them.
    """
    if len(ids) > 1:
        from linsys.validate import InputError

        more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
        raise InputError(
            f"{what} must be one; found {text!r}, which names {', '.join(ids[:_LISTED])}{more}; "
            f'ratecheck list "{text}" shows all'
        )
    return ids[0] if ids else None


def _figure(text: str) -> tuple[str, str, str] | None:
    """The paper, kind and number of an id as figures have it, "fslora/fig5"."""
    match = re.fullmatch(r"([\w-]+)/(fig|table)(?:ure)?_?(\d+[a-z]?)", text.strip())
    if match is None:
        return None
    return match[1], {"fig": "Figure", "table": "Table"}[match[2]], match[3]


def _covers(wanted: Named, other: Named) -> bool:
    """Whether a thing is, or belongs to, the one that is wanted."""
    if wanted.kind != other.kind:
        return False
    if wanted.kind in _WHOLE_HAS_PARTS and other.label.startswith(f"{wanted.label}."):
        return True
    if wanted.label != other.label:
        return False
    whole = not other.part and other.kind in _PART_IS_IN_WHOLE
    return not wanted.part or wanted.part == other.part or whole


def _named(text: str) -> tuple[set[Named], bool]:
    """All that a text names, and whether it says nothing else."""
    named: set[Named] = set()
    is_all, is_range, kind = True, False, ""
    last: Named | None = None
    # "lemmaD.1" is two words
    for token in _TOKEN.finditer(re.sub(r"(?<=[a-z])(?=(?:[A-Z]\.)?\d)", " ", text).lower()):
        if token["word"] in ("and", "to") or token["mark"] in (",", "-", "–"):
            is_range = token["word"] == "to" or token["mark"] in ("-", "–")
            continue
        if token["word"]:
            kind = _kind(token["word"])
            is_all, last = is_all and bool(kind), None
            continue
        if token["part"] and last is not None:
            last = last._replace(part=token["part"])
        elif token["equation"]:
            kind = "equation"
            last = _next(named, last, Named(kind, token["equation"]), is_range)
        elif kind and (token["label"] or (token["capital"] and kind in _WHOLE_HAS_PARTS)):
            label = token["label"] or token["capital"]
            last = _next(named, last, Named(kind, label, token["letter"] or ""), is_range)
        else:
            is_all, kind, last = False, "", None
            continue
        named.add(last)
        is_range = False
    # a whole whose part is named was only the beginning of its name
    parts = {one._replace(part="") for one in named if one.part}
    return named - parts, is_all


def _kind(word: str) -> str:
    """What a word is the word for, "" if it is another one."""
    return next((kind for begin, kind in _KINDS.items() if word.lower().startswith(begin)), "")


def _next(named: set[Named], last: Named | None, one: Named, is_range: bool) -> Named:
    """The next of a list; adds what lies between it and the last one of a range."""
    if is_range and last is not None and last.kind == one.kind:
        named.update(_between(last, one))
    return one


def _between(first: Named, last: Named) -> Iterator[Named]:
    split = re.compile(r"(.*?)(\d+)$")
    one, other = split.match(first.label), split.match(last.label)
    if one and other and one[1] == other[1]:
        for number in range(int(one[2]) + 1, int(other[2])):
            yield Named(first.kind, f"{one[1]}{number}")


def _is_exactly(text: str, source: str) -> bool:
    """Whether a source says just this, after its paper's name or without one."""
    own = source.partition(", ")[2]
    if _squeezed(text) in (_squeezed(source), _squeezed(own)):
        return True
    return any(_named(text) == _named(whole) and _named(whole)[1] for whole in (source, own))


def _begins(source: str, wanted: str) -> bool:
    return _squeezed(source).startswith(wanted)


def _squeezed(text: str) -> str:
    return "".join(text.lower().split())


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
