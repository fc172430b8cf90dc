"""The page for a paper's authors has its numbers from the verdicts, and its commands run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover.catalogue import find_claims
from ratecheck._report import export
from ratecheck._report.authors import fill
from ratecheck._verdicts.records import Result

LEMMA: dict[str, Any] = {
    "id": "my.lemma",
    "verdict": "violated",
    "expected": "violated",
    "measured": "2.5000000000000000000000",
    "bound": "1.23456789",
    "ratio": 2.025,
    "witness": {"near": 0.954, "far": 0.5, "credible": True, "clear": True},
    "details": {"family": [{"measured": "1.0", "bound": "0.25"}]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{lemma.measured}} > {{lemma.bound}}", "2.5 > 1.235"),
        ("{{my.lemma.bound:.1f}}", "1.2"),
        ("{{lemma.near:.0f}} %, {{lemma.far:.0f}} %", "95 %, 50 %"),
        ("{{lemma.family[0].bound}}", "0.25"),
        ("{{lemma.verdict}}; {{outcomes}}", "violated; 1 false as printed"),
        (r"$\\frac{{a}}{{b}}$ {{a}} {x}", r"$\\frac{{a}}{{b}}$ {{a}} {x}"),
    ],
)
def test_numbers_are_those_of_the_verdicts(text: str, expected: str) -> None:
    assert fill(text, [LEMMA]) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{lemme.bound}}", "a claim in {{lemme.bound}} must be one of the paper; found lemme"),
        ("{{lemma.family[1].bound}}", "must have 2; found 1"),
        ("{{lemma.colour}}", "must be a number in a format; found None"),
        ("{{lemma.bound:q}}", "must be a number in a format"),
    ],
)
def test_what_is_not_there_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        fill(text, [LEMMA])
    assert said in str(caught.value)


def test_the_page_is_written_with_the_verdicts(tmp_path: Path) -> None:
    (item,) = find_claims(["psl.eq_C1"])
    (tmp_path / "authors.md").write_text("It is {{eq_C1.verdict}}, {{eq_C1.ratio:.3f}} times.\n")
    (tmp_path / "results").mkdir()
    export.write([Result(item, rc.judge(item.entry), "quick", 0)], tmp_path / "results")
    written = (tmp_path / "results" / "authors.md").read_text()
    assert written == "It is violated, 1.414 times.\n"
