"""The page of all results with the verdicts that the papers keep: its size, links and formulas."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ratecheck._discover.catalogue import find_claims
from ratecheck._report import page as pages
from ratecheck._report.kept import known_in, of_known, with_certificate
from ratecheck._report.stored import Stored
from ratecheck._verdicts.certificates import read

pytestmark = pytest.mark.slow  # of one paper of a few claims test_page.py tells the same

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    """The page of all claims; no experiment is stored."""
    known = {
        name: claim
        for folder in sorted((ROOT / "experiments").glob("*/results"))
        for name, claim in known_in(folder).items()
    }
    told = [
        {
            **with_certificate(of_known(item, known[item.id])),
            "current": True,
            "replay": "again",
            "instance": None,
        }
        for item in find_claims(())
        if item.id in known
    ]
    assert len(told) > 600
    return pages.page(Stored([], told, []), Path())


def test_it_is_small(page: str) -> None:
    assert len(page.encode()) < 1_300_000
    assert len(re.findall(r"<[a-z]", page)) < 45_000


def test_its_formulas_have_no_raw_latex(page: str) -> None:
    assert page.count("<math") > 300
    text = re.sub(r"<pre>.*?</pre>", "", page[: page.index("<script>")], flags=re.DOTALL)
    assert not re.findall(r"\\[A-Za-z]+", text)


def test_every_link_within_it_has_a_target(page: str) -> None:
    targets = re.findall(r' id="([^"]+)"', page)
    assert len(targets) == len(set(targets)) > 900
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(targets)
    rows = {name.removesuffix(":row") for name in targets if name.endswith(":row")}
    assert len(rows) > 600
    assert rows <= set(targets)  # whatever became of a claim, its id leads to it
    assert set(re.findall(r'<td><a href="#([^"]+)"><code>', page)) <= set(targets)


def test_papers_come_before_the_tables(page: str) -> None:
    papers = ("affpcl", "firm", "fslora", "ood", "psl")
    places = [page.index(f'id="paper-{name}"') for name in papers]
    assert max(places) < page.index('<section id="claims"')
    for name in papers:
        start = page.index(f'id="paper-{name}"')
        chapter = page[start : page.index("</section>", start)]
        first = "False under a second reading" if name == "fslora" else "False as printed"
        order = [chapter.index(title) for title in ("What holds", first)]
        assert order == sorted(order)
        assert "Where it breaks" in chapter
        assert "Corrected" in chapter


def test_what_certificates_prove_is_said_of_each_statement(page: str) -> None:
    row = re.search(r'<tr id="affpcl\.e1:row">.*?</tr>', page)
    assert row is not None
    assert "proved under assumptions, for all dimensions, by exact rationals" in row[0]
    chapter = page[page.index('id="paper-affpcl"') : page.index('id="paper-firm"')]
    told = re.search(r"Decided by: (.*?);", chapter)
    assert told is not None
    kinds = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z ]+)", told[1])}
    kept = Counter(
        one["kind"] for one in read(ROOT / "experiments" / "affpcl" / "results")["certificates"]
    )
    assert kinds["proved false"] == kept["counterexample"]
    assert kinds["proved under assumptions"] + kinds["proved from premises"] == kept["quadratic"]
    at_sizes = "proved at sizes", "proved but for ties", "holds on branches met"
    drawn = "proved for whole numbers drawn"
    of_constants = ("proved up to a factor", "enclosed")
    assert (
        sum(kinds.get(kind, 0) for kind in (*at_sizes, drawn, *of_constants))
        == kept["identity"] + kept["constant"]
    )
