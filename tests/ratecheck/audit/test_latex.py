"""The formulas of claims and of the pages for authors use commands that a reader's LaTeX knows."""

from __future__ import annotations

import re
from pathlib import Path

import ratecheck as rc
from ratecheck._discover import papers
from ratecheck._report.export import AUTHORS

ROOT = Path(__file__).resolve().parents[3]
#: Commands of plain LaTeX and amsmath that formulas here use; who needs another one adds it.
LETTERS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi
chi psi omega ell Gamma Delta Theta Lambda Pi Sigma Phi Psi nabla partial infty
"""
ALPHABETS = """
bar hat tilde widehat overline overset mathbb mathbf mathcal mathrm rm text operatorname textstyle
"""
OPERATORS = """
frac tfrac sqrt sum prod int lim min max inf sup arg log ln sin cos tanh dim angle cdot otimes wedge
vee star ast diamond top perp mid in notin le ge ne gg sim approx equiv propto prec preceq succeq
forall exists to mapsto leftarrow Rightarrow implies pm mp circ
"""
BRACKETS = r"""
left right big Big bigl bigr Bigl Bigr langle rangle lceil rceil lbrace rbrace lVert rVert lvert
rvert Vert vert begin end dots ldots vdots quad qquad | { } , ; # \
"""
KNOWN = {*LETTERS.split(), *ALPHABETS.split(), *OPERATORS.split(), *BRACKETS.split(), " "}


def unknown(latex: str) -> list[str]:
    """Commands of a formula that are not known, and what shows that its brackets do not match."""
    commands = re.findall(r"\\([A-Za-z]+|.)", latex)
    unknown_commands = [name for name in commands if name not in KNOWN]
    bare = re.sub(r"\\.", "", latex)
    depth = [bare[:k].count("{") - bare[:k].count("}") for k in range(len(bare) + 1)]
    unknown_commands += ["{ }"] * (min(depth) < 0 or depth[-1] != 0)
    return unknown_commands + ["left right"] * (commands.count("left") != commands.count("right"))


def formulas(page: str) -> list[str]:
    """The formulas of a page in Markdown."""
    return [one or two for one, two in re.findall(r"\$\$(.+?)\$\$|\$([^$]+)\$", page, re.DOTALL)]


def test_every_command_in_a_claims_formula_is_known() -> None:
    entries = [item.entry for item in rc.find_claims([])]
    assert {entry.id: bad for entry in entries if (bad := unknown(entry.latex))} == {}


def test_every_command_in_a_page_for_authors_is_known() -> None:
    for package in papers.installed().values():
        page = ROOT.joinpath(*package.split("."), AUTHORS).read_text()
        assert len(formulas(page)) > 20
        assert [bad for formula in formulas(page) if (bad := unknown(formula))] == [], package


def test_a_wrong_command_and_a_missing_bracket_are_seen() -> None:
    assert unknown(r"\frac{a}2,\quads_c=\max_j\|g\|") == ["quads"]
    assert unknown(r"\frac{a2") == unknown(r"a}{b") == ["{ }"]
    assert unknown(r"\left(a\Big)") == ["left right"]
    assert formulas(r"with $a$ and $$\quads b$$") == ["a", r"\quads b"]
