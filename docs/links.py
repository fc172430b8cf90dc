"""Links that no page has to write: of public names to the reference, of paths to what is there.

``rc.simplex`` and ``@PAPER.upper`` lead to the reference where a page first mentions them, in a
sentence or in code. A path of this repository leads to the page of that file, or downloads it.
"""

from __future__ import annotations

import inspect
import operator
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import ratecheck

ROOT = Path(__file__).parents[1]
#: A name in a sentence, and one in code with colours: ``rc``, a dot, and the name.
_SAID = re.compile(r'(<span class="pre">)(rc|PAPER)\.(\w+(?:\.\w+)*)')
_CODE = re.compile(
    r'<span class="(n|nd)">(rc|@PAPER)</span>'
    r'((?:<span class="o">\.</span><span class="n">\w+</span>)+)'
)
_PATH = re.compile(
    r"(docs|examples|experiments|lora_bridge|linsys|mgda|notebooks|ratecheck|tests)/"
)
#: Pages that are made of files; one of docs/ is called by its title, others by their paths.
_PAGES = {
    r"docs/([\w/]+)\.md": r"/\1",
    r"experiments/(\w+)/authors\.md": r"/papers/\1",
    r"examples/gallery": r"/gallery/index",
    r"examples/gallery/(\w+)(/.*)?": r"/gallery/\1",
}


class PathLinks(SphinxTransform):
    """Make a path in a sentence a link to its page, or a download."""

    default_priority = 400  # before the files to download are collected

    def apply(self, **_: Any) -> None:
        """Change the document."""
        for literal in list(self.document.findall(nodes.literal)):
            path = literal.astext()
            if isinstance(literal.parent, nodes.TextElement) and _PATH.match(path):
                link = _to(path, self.env.docname)
                if link is not None and not _inside_link(literal):
                    literal.replace_self(link)
                    link += literal


def _to(path: str, here: str) -> nodes.Element | None:
    """A link to what lies at a path of the repository, if there is anything to be shown."""
    for pattern, target in _PAGES.items():
        if match := re.fullmatch(pattern, path):
            named = {"refexplicit": "docs" not in pattern, "reftarget": match.expand(target)}
            return addnodes.pending_xref(
                "", refdomain="std", reftype="doc", refwarn=True, refdoc=here, **named
            )
    if (ROOT / path).is_file():
        return addnodes.download_reference("", reftarget=f"/../{path}", refdoc=here)
    return None


def _inside_link(node: nodes.Node) -> bool:
    """Whether a node is the text of a link, or of a heading."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.reference | addnodes.pending_xref | nodes.title):
            return True
    return False


def link_names(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make public names links to the reference, each where a page first has it."""
    if "body" not in context or page.startswith("api/"):
        return
    objects = app.env.get_domain("py").objects
    seen: set[str] = set()

    def linked(whole: str, first: str, name: str) -> str:
        full = _documented(f"Paper.{name}" if first.endswith("PAPER") else name, objects)
        if full is None or full in seen:
            return whole
        seen.add(full)
        where = app.builder.get_relative_uri(page, objects[full].docname)
        return f'<a class="reference internal" href="{where}#{objects[full].node_id}">{whole}</a>'

    def said(match: re.Match[str]) -> str:
        return match[1] + linked(f"{match[2]}.{match[3]}", match[2], match[3])

    def code(match: re.Match[str]) -> str:
        return linked(match[0], match[2], re.sub("<.*?>", "", match[3])[1:])

    parts = re.split(r"(<a\b.*?</a>)", context["body"], flags=re.DOTALL)
    parts[::2] = [_CODE.sub(code, _SAID.sub(said, part)) for part in parts[::2]]
    context["body"] = "".join(parts)


def _documented(name: str, objects: Any) -> str | None:
    """The name under which the reference describes ``rc.name``, if it does."""
    if f"ratecheck.{name}" in objects:
        return f"ratecheck.{name}"
    try:
        thing = operator.attrgetter(name)(ratecheck)
    except AttributeError:
        return None
    if inspect.ismodule(thing):
        full = thing.__name__
    else:
        full = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
    return full if full in objects else None
