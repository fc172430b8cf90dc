"""Of many claims, proofs and checks one screen is printed, and all rows with -v."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._certify.prove import Proof
from ratecheck._certify.verifying import Checked
from ratecheck._claims.claim import VERDICTS
from ratecheck._commands import audits
from ratecheck._discover.catalogue import find_claims
from ratecheck._report import experiments, overview, proofs
from ratecheck._run.job import Outcome
from ratecheck._verdicts.records import Records, Result

Call = Callable[..., Any]
#: Claims of which each third is false, the first of these without anybody's expecting it.
CLAIMS = """import ratecheck as rc
PAPER = rc.Paper("many", "many claims")
def made(k):
    known = {"expect": "violated"} if k % 3 == 0 and k else {}
    @PAPER.upper(f"c{k}", ref=f"Lemma {k}", on={"x": rc.interval()}, **known)
    def claim(x):
        '''Stated.'''
        return x, x / 2 if k % 3 == 0 else x
    return claim
CLAIMS = [made(k) for k in range(24)]
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A file of 24 claims."""
    path = tmp_path / "many.py"
    path.write_text(CLAIMS)
    return path


def results(many: Path) -> list[Result]:
    """What an audit says of them."""
    said = []
    for item in find_claims([str(many)]):
        false = int(item.id.removeprefix("many.c")) % 3 == 0
        verdict = rc.Verdict(item.id, "violated" if false else "holds", instances=7)
        said.append(Result(item, verdict, "quick", 0))
    return said


def test_many_verdicts_are_counted_and_what_is_unexpected_is_told(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = results(many)
    assert len(judged) > overview.MANY
    audits.show(judged, tmp_path, in_full=False)
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert ["claims", "hold", "false", "unexpected"] in [
        line.split()[1:] for line in text.splitlines()
    ]
    assert [line.split()[-4:] for line in text.splitlines() if "24" in line.split()[-4:-3]] == [
        ["24", "16", "8", "1"]
    ]
    assert "many.c0: violated (expected: holds)" in text
    assert "24 claims: 16 hold, 8 false as stated; not as expected: many.c0" in text
    assert "many.c3" not in text
    audits.show(judged, tmp_path, in_full=True)
    text = capsys.readouterr().out
    assert all(result.item.id in text for result in judged)
    audits.show(judged[:20], tmp_path, in_full=False)
    assert "many.c3" in capsys.readouterr().out


def test_an_error_is_counted_as_one_even_where_the_claim_is_false(many: Path) -> None:
    item = next(item for item in find_claims([str(many)]) if item.id == "many.c3")
    numbers = overview._numbers([Result(item, rc.Verdict(item.id, "error"), "quick", 0)])
    assert numbers == {"claims": 1, "error": 1, "unexpected": 1}


def test_what_is_faster_than_stated_holds_and_the_rest_has_its_own_name(many: Path) -> None:
    item = next(item for item in find_claims([str(many)]) if item.id == "many.c1")
    for verdict, column in (("faster than stated", "hold"), ("not decided", "not decided")):
        numbers = overview._numbers([Result(item, rc.Verdict(item.id, verdict), "quick", 0)])
        assert numbers[column] == 1
        assert set(numbers) <= set(overview._COLUMNS)
    assert {overview._KINDS.get(name, name) for name in VERDICTS} < set(overview._COLUMNS)


def test_rows_of_one_paper_differ_and_do_not_repeat_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "62")  # so narrow that several names are cut alike
    items = find_claims(["firm"])
    judged = [Result(item, rc.Verdict(item.id, item.entry.expect), "quick", 0) for item in items]
    overview.show_verdicts(judged, Records(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    (first,) = (k for k, line in enumerate(lines) if line.split()[:2] == ["section", "claims"])
    sections = len({item.section for item in items})
    rows = [line.strip().split("  ")[0] for line in lines[first + 2 : first + 2 + sections]]
    assert not any(row.startswith("FIRM") for row in rows)
    assert len(set(rows)) == sections


def test_many_proofs_are_counted_by_what_they_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    false = {"kind": "counterexample", "cases": [{"measured": ["1"], "bound": ["0"]}]}
    false |= {"arithmetic": "exact rationals", "bits": 0}
    every = [Proof(f"mine.c{k}", false | {"id": f"mine.c{k}"}) for k in range(12)]
    every += [Proof(f"mine.d{k}", reason="searched") for k in range(7)]
    every += [Proof(f"mine.e{k}", reason=f"line {k}") for k in range(9)]
    proofs.show(every, tmp_path, in_full=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert lines[:4] == ["Proved:", "   12  proved false", "Not proved:", "    7  searched"]
    assert lines[4] == "    1  line 0 (mine.e0)"
    assert "    2  for other reasons" in lines
    assert f"12 of 28 claims have a certificate: {tmp_path}" in " ".join(lines)
    proofs.show(every, tmp_path, in_full=True)
    text = capsys.readouterr().out
    assert all(proof.id in text for proof in every)
    proofs.show(every[:20], tmp_path, in_full=False)
    assert "mine.c3" in capsys.readouterr().out


def test_of_many_certificates_those_that_are_refused_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = [Checked(f"mine.c{k}", "violated") for k in range(20)]
    every.append(Checked("mine.last", "", "`digits` must be 3; found 4"))
    proofs.show_checked(every, in_full=False)
    assert capsys.readouterr().out.splitlines() == [
        "mine.last: refused: `digits` must be 3; found 4",
        "20 of 21 certificates are verified.",
        overview.EVERY_ROW,
    ]
    proofs.show_checked(every, in_full=True)
    assert len(capsys.readouterr().out.splitlines()) == 21
    proofs.show_checked(every[1:], in_full=False)
    assert len(capsys.readouterr().out.splitlines()) == 20


@pytest.mark.slow
def test_commands_print_rows_of_many_with_v(ratecheck: Call, many: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out", "--threads", 1)
    for command in (["audit"], ["certify"], ["certify", "--constant", "--limit", 5]):
        if "--constant" in command:
            many.write_text(CLAIMS.replace("% 3 == 0 and k", "< 0").replace("% 3", "* 0 + 1"))
        said = ratecheck(*command, many, *out)
        assert len(said.out.splitlines()) <= 24, said.out
        assert "Every claim: the same command with --verbose (-v)" in said.out
        said = ratecheck(*command, many, *out, "-v")
        assert all(f"many.c{k}" in said.out for k in range(24))


def outcome(decay: rc.Experiment[Any], name: str, *answers: bool | None) -> Outcome:
    """An experiment of this name with checks that say so."""
    checks = [rc.Check(f"{name} {k}", "below 1", 1.0, 0.9, 1.1, ok) for k, ok in enumerate(answers)]
    experiment = dataclasses.replace(decay, id=f"toy/{name}")
    return Outcome(experiment, decay.profiles["quick"], rc.Analysis([], checks, ["a law"]))


def test_many_checks_are_counted_by_experiment(
    decay: rc.Experiment[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    every = [outcome(decay, f"e{k}", *[True] * 5) for k in range(4)]
    last = outcome(decay, "last", True, None, False)
    experiments.show_rates([*every, last], "Rates")
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    rows = [line.split() for line in text.splitlines()]
    assert ["toy/e3", "5", "0", "0", "0"] in rows
    assert ["toy/last", "1", "1", "0", "1"] in rows
    assert ["all", "21", "1", "0", "1"] in rows
    assert "Fails: toy/last: last 2\n" in text
    assert "Undecided: toy/last: last 1\n" in text
    assert "a law" not in text
    experiments.show_rates([*every, last], "Rates", in_full=True)
    text = capsys.readouterr().out
    assert "e3 4" in text
    experiments.show_rates(every, "Rates")
    assert "e3 4" in capsys.readouterr().out


def test_of_an_experiment_among_many_what_concerns_this_run_is_said(
    decay: rc.Experiment[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    one = outcome(decay, "one", True, None)
    notes = (*one.analysis.notes, "drawn from results of older source code")
    figures = (Path("figures/one.png"), Path("figures/one.svg"))
    experiments.show_line(dataclasses.replace(one, notes=notes, figures=figures))
    assert capsys.readouterr().out.splitlines() == [
        "toy/one: ok, 1 undecided: figures/one.png",
        "- drawn from results of older source code",
    ]
