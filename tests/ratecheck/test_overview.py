"""Of many claims, proofs and checks one screen is printed, and all rows with -v."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._certify.prove import Proof
from ratecheck._certify.verify_many import Checked
from ratecheck._claims.claim import VERDICTS
from ratecheck._commands import audits
from ratecheck._discover import papers, registry
from ratecheck._discover.catalogue import find_claims
from ratecheck._report import experiments, overview, proofs, screen
from ratecheck._report.kept import check_again, known_in, of_known
from ratecheck._run.job import Outcome
from ratecheck._verdicts import certificates, certified
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


def test_the_table_counts_what_the_line_of_all_claims_counts(many: Path) -> None:
    item = next(item for item in find_claims([str(many)]) if item.id == "many.c1")
    same = {name: name for name in ("consistent", "not decided")}
    for verdict, column in {"holds": "hold", "faster than stated": "faster", **same}.items():
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
    every += [Proof(f"mine.e{k}", reason=f"line {k}") for k in range(29)]
    proofs.show(every, tmp_path, in_full=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= screen.ROOM
    assert lines[:4] == ["Proved:", "   12  proved false", "Not proved:", "    7  searched"]
    assert lines[4] == "    1  line 0 (mine.e0)"
    told = sum(line.endswith(")") and line.startswith("    1  line ") for line in lines)
    assert told >= 9
    assert f"{29 - told:>5}  for other reasons" in lines
    assert f"12 of 48 claims have a certificate: {tmp_path}" in " ".join(lines)
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
    experiments.show_rates(every[:2], "Rates")
    assert "e1 4" in capsys.readouterr().out
    experiments.show_rates(every[:1] * 2, "Rates")  # as many as fit
    assert len(capsys.readouterr().out.splitlines()) <= screen.ROOM
    experiments.show_rates([outcome(decay, "alone", *[True] * 50)], "Rates")
    assert "alone 49" in capsys.readouterr().out


def test_of_an_experiment_among_many_what_concerns_this_run_is_said(
    decay: rc.Experiment[Any],
) -> None:
    one = outcome(decay, "one", True, None)
    notes = (*one.analysis.notes, "drawn from results of older source code")
    figures = (Path("figures/one.png"), Path("figures/one.svg"))
    drawn = dataclasses.replace(one, notes=notes, figures=figures)
    assert experiments.of_runs([one, drawn]) == [
        "- drawn from results of older source code: toy/one",
        "Figures: figures",
    ]
    others = [
        dataclasses.replace(one, notes=(*one.analysis.notes, f"note {k}"), figures=figures)
        for k in range(9)
    ]
    assert experiments.of_runs(others)[2:] == [
        "- note 2: toy/one",
        "- 6 notes more",
        "Figures: figures",
    ]


def lines_at_80(text: str) -> int:
    """How many lines of a screen a text takes."""
    return sum(max(1, -(-len(line) // 80)) for line in text.splitlines())


def kept_results(paper: str) -> list[Result]:
    """What a paper keeps of its claims."""
    folder = certified.folder_of(paper)
    assert folder is not None
    known = known_in(folder)
    judged = [of_known(item, known[item.id]) for item in find_claims([paper]) if item.id in known]
    assert len(judged) > 100
    return judged


@pytest.mark.parametrize("paper", papers.installed())
def test_an_audit_of_every_paper_is_told_on_a_screen(
    paper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = kept_results(paper)
    records = Records(tmp_path, writable=False)
    overview.show_verdicts(judged, records)
    text = capsys.readouterr().out
    assert lines_at_80(text) <= screen.ROOM < screen.LINES, text
    assert f"{len(judged)} claims: " in text
    assert "all as expected" in text
    assert "Certificates: as the file says" in text
    numbers = [line.split()[-2:] for line in text.splitlines()[2:] if line.strip()[-1:].isdigit()]
    assert numbers
    for number in (1, 5, len(judged)):  # as many are not as expected
        for result in judged[-number:]:
            result.verdict.verdict = "not decided"
        overview.show_verdicts(judged, records)
        text = capsys.readouterr().out
        assert lines_at_80(text) <= screen.ROOM, text
        assert f"\n{judged[-number].item.id}: " in text  # the first of them is explained
        named = " ".join(text.split()).partition("not as expected: ")[2]
        assert (f" and {number - 8} more Verdicts: " in named) == (number > 8)


@pytest.mark.parametrize("columns", [1, 10, 30, 50])
def test_a_narrow_terminal_gets_an_overview_as_well(
    columns: int,
    decay: rc.Experiment[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    judged = kept_results("affpcl")
    judged[0].verdict.verdict = "not decided"
    overview.show_verdicts(judged, Records(tmp_path, writable=False))
    every = wrong_outcomes(decay, [f"toy/e{k}" for k in range(9)], False)
    experiments.show_counts(every, "Checks", experiments.of_runs(every))
    overview.show_proofs([Proof(f"mine.d{k}", reason=f"reason {k} " * k) for k in range(30)], "out")
    text = " ".join(capsys.readouterr().out.split())
    assert "30 claims" in text
    assert "230" in text


def test_rows_that_do_not_fit_are_counted_in_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = kept_results("affpcl")
    overview.show_verdicts(judged, Records(tmp_path, writable=False))
    lines = capsys.readouterr().out.splitlines()
    (end,) = (k for k, line in enumerate(lines) if line.split()[1:2] == ["others"])
    names = "claims   hold   consistent   false   not checked"
    assert lines[0].endswith(names)
    cells = [line.split()[-5:] for line in lines[2 : end + 1]]
    totals = dict(
        zip(names.split("   "), (sum(map(int, c)) for c in zip(*cells, strict=True)), strict=True)
    )
    assert totals.pop("claims") == len(judged) == sum(totals.values())
    del totals["false"]  # several words below
    said = " ".join(f"{number} {name}," for name, number in totals.items())
    assert f"{len(judged)} claims: {said}" in " ".join(lines)


@pytest.mark.parametrize("paper", papers.installed())
def test_proofs_of_every_paper_are_told_on_a_screen(
    paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = certified.folder_of(paper)
    assert folder is not None
    whole = certificates.read(folder)
    every = [Proof(one["id"], one) for one in whole["certificates"]]
    every += [Proof(one["id"], reason=one["reason"]) for one in whole["unproved"]]
    proofs.show(every, folder / "certificates", in_full=False)
    text = capsys.readouterr().out
    assert lines_at_80(text) <= screen.ROOM, text
    numbers = [int(line.split()[0]) for line in text.splitlines() if line[:5].strip().isdigit()]
    assert sum(numbers) == len(every)


def wrong_outcomes(decay: rc.Experiment[Any], names: list[str], ok: bool | None) -> list[Outcome]:
    """Experiments of these names, each with as many checks as rates have, that all say so."""
    made = []
    for name in names:
        one = outcome(decay, "e", *[ok] * 12)
        experiment = dataclasses.replace(one.experiment, id=name)
        notes = (*one.analysis.notes, f"a note of {name}")
        figures = (Path("results/figures/one.png"),)
        made.append(dataclasses.replace(one, experiment=experiment, notes=notes, figures=figures))
    return made


@pytest.mark.parametrize("ok", [True, None, False])
@pytest.mark.parametrize("paper", papers.installed())
def test_rates_and_runs_of_every_paper_are_told_on_a_screen(
    paper: str, ok: bool | None, decay: rc.Experiment[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    rates = wrong_outcomes(decay, list(registry.rates(paper)), ok)
    experiments.show_rates(rates, f"Rates of {paper}")
    text = capsys.readouterr().out
    assert lines_at_80(text) <= screen.ROOM, text
    every = wrong_outcomes(decay, registry.match([f"{paper}/*"], lambda fault: None), ok)
    assert len(every) > len(rates)
    experiments.show_counts(every, "Checks", experiments.of_runs(every))
    text = capsys.readouterr().out
    assert lines_at_80(text) <= screen.ROOM, text
    assert ["all", str(12 * len(every))] in [
        [line.split()[0], max(line.split()[1:], key=int)]
        for line in text.splitlines()
        if line.startswith("all ")
    ]
    if ok is False:
        assert f"Fails: {every[0].experiment.id}: e 0" in text
    assert "Figures: results/figures" in text


@pytest.mark.parametrize("ok", [True, None, False])
def test_what_was_reproduced_is_told_on_a_screen(
    ok: bool | None,
    decay: rc.Experiment[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = wrong_outcomes(decay, [name for name in registry.names() if "/" in name], ok)
    monkeypatch.chdir(tmp_path)
    experiments.show_summary(Path(), every, {f"toy/{k}": "no" for k in range(20)})
    judged = [result for paper in papers.installed() for result in kept_results(paper)]
    audits.show(judged, Path("results"), tables=False)
    text = capsys.readouterr().out
    assert lines_at_80(text) < screen.ROOM, text  # and a line on the page
    assert "Did not run: toy/0, " in text


def test_certificates_of_all_papers_are_named_by_one_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [item for paper in papers.installed() for item in find_claims([paper])]
    folders = {one: folder for one in papers.installed() if (folder := certified.folder_of(one))}
    root = folders["firm"].parents[1]
    monkeypatch.chdir(root.parent)
    said = check_again(items)
    assert said == f"ratecheck certify --check {root.name}/*/results/certificates.json"
    assert {*Path().glob(said.split()[-1])} == {
        (folder / "certificates.json").relative_to(root.parent) for folder in folders.values()
    }
    two = check_again(item for item in items if item.entry.paper in ("firm", "psl"))
    assert two.split()[3:] == [
        f"{root.name}/{name}/results/certificates.json" for name in ("firm", "psharelora")
    ]
