"""How Sphinx builds the documentation: `make site`."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from links import PathLinks, link_names  # beside this file
from pages import write_pages
from signatures import as_written, not_a_field, with_arguments_of_bases

project = "ratecheck"
release = importlib.metadata.version("ratecheck")
copyright = "ratecheck developers"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
# Docstrings are written to be read in a terminal, with formulas as indented lines.
suppress_warnings = ["docutils", "ref.term", "ref.python"]
autodoc_mock_imports = ["flwr"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "Array", "Numbers": "Numbers"}  # of properties
python_maximum_signature_line_length = 88
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "ratecheck"
html_show_sourcelink = False


def escape_formulas(
    app: object, what: str, name: str, of: object, options: object, lines: list[str]
) -> None:
    """Keep Sphinx from reading ||x||, x_* and x_ in a docstring as marks of its own."""
    example = False
    for at, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            words = re.split(r"(``.*?``|`.*?`)", line)
            words[::2] = [
                re.sub(r"\||(?<=[_^{])\*|(?<=\w)_(?!\w)|\*(?=\*?\w+[),])", r"\\\g<0>", word)
                for word in words[::2]
            ]
            lines[at] = "".join(words)


def setup(app: Any) -> None:
    """Write the pages that are made from the papers, the gallery and the packages."""
    write_pages(Path(__file__).parent)
    # before napoleon reads the sections of a docstring
    app.connect("autodoc-process-docstring", with_arguments_of_bases, priority=400)
    app.connect("autodoc-process-docstring", escape_formulas)
    app.connect("autodoc-process-signature", as_written)
    app.connect("autodoc-skip-member", not_a_field)
    app.connect("html-page-context", link_names)
    app.add_transform(PathLinks)
