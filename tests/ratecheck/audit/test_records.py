"""Stored verdicts: kept, keyed by the code, noticed when damaged; errors are never kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands import audits
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._processes.interrupts import Interrupted
from ratecheck._report import export, kept as kept_module
from ratecheck._report.kept import kept
from ratecheck._report.verdicts import ratio
from ratecheck._store import revision
from ratecheck._verdicts import records as records_module
from ratecheck._verdicts.records import Records, Result, audit
from ratecheck._verdicts.replay import replay_file
from ratecheck._verdicts.verdict import judge

FILES = Path(__file__).parent / "files"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A claims file to be edited."""
    return Path(shutil.copy(FILES / "mine.py", tmp_path))


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of claims that were really judged; every one with the verdict it expects."""
    done: list[str] = []

    def judged(items: Sequence[Item], *arguments: Any, **options: Any) -> Iterator[Any]:
        for item in items:
            done.append(item.id)
            expect = item.entry.expect
            instance = {"p": [0.3, 0.7]} if expect == "violated" else None
            yield item, rc.Verdict(item.id, expect, ratio=0.1, counterexample=instance)

    monkeypatch.setattr(records_module, "judge_all", judged)
    return done


def run(path: Path, out: Path, **options: Any) -> list[Result]:
    given: dict[str, Any] = {"effort": "quick", "seed": 0, "workers": 1, **options}
    return audit(find_claims([str(path)]), Records(out), **given)


IDS = ["mine.norm", "mine.mass", "mine.mass_corrected", "mine.taste"]


def test_a_second_run_judges_nothing(mine: Path, tmp_path: Path, handed: list[str]) -> None:
    seen: list[tuple[int, int]] = []
    first = run(mine, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert handed == IDS
    assert seen == [(k, 4) for k in range(5)]
    second = run(mine, tmp_path / "out")
    assert handed == IDS
    assert [r.to_dict() for r in first] == [r.to_dict() for r in second]
    assert [r.item.id for r in second] == IDS
    assert all(r.ok for r in second)


def test_a_store_that_forgets_fails_that_test(
    mine: Path, tmp_path: Path, handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Records, "load", lambda *arguments: None)
    with pytest.raises(AssertionError):
        test_a_second_run_judges_nothing(mine, tmp_path, handed)


def test_effort_seed_and_source_are_the_key(mine: Path, tmp_path: Path, handed: list[str]) -> None:
    out = tmp_path / "out"
    run(mine, out)
    run(mine, out, effort="normal")
    run(mine, out, seed=1)
    assert len(handed) == 12
    mine.write_text(mine.read_text() + "\n# edited\n")
    run(mine, out)
    assert len(handed) == 16
    names = [p.name for p in (out / "audit" / "mine" / "norm").iterdir()]
    assert sorted(n.rpartition("-")[0] for n in names) == [
        "normal-0",
        "quick-0",
        "quick-0",
        "quick-1",
    ]


def test_the_engine_is_part_of_the_key_and_what_prints_is_not(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratecheck._discover.catalogue import module
    from ratecheck._verdicts import verdict as verdict_module

    seen: list[set[str]] = []
    modules = revision._imported

    def spy(roots: Any) -> dict[str, Path]:
        seen.append(set(modules(roots)))
        return modules(roots)

    monkeypatch.setattr(revision, "_imported", spy)
    records_module._revision(module(str(mine)))
    names = {n.rpartition(".")[2] for n in seen[0] if n.startswith("ratecheck.")}
    engine = {"search", "certificates", "samples", "shrink", "space", "fields", "claim"}
    assert names >= engine
    assert not names & {"pool", "records", "verdicts", "export", "catalogue", "command"}
    assert verdict_module.__name__ not in seen[0]  # it counts by its content, as a root


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "binary"])
def test_damaged_verdicts_are_judged_again(
    mine: Path, tmp_path: Path, handed: list[str], damage: str
) -> None:
    out = tmp_path / "out"
    whole = run(mine, out)
    records = Records(out)
    path = records.path(whole[0].item, "quick", 0)
    text = path.read_text()
    if damage == "cut":
        path.write_text(text[: len(text) // 2])
    elif damage == "changed":
        assert "0.1" in text
        path.write_text(text.replace("0.1", "0.2"))
    elif damage == "other":
        shutil.copy(records.path(whole[1].item, "quick", 0), path)
    else:
        path.write_bytes(b"\xff\x00")
    assert records.latest(whole[0].item) is None
    handed.clear()
    again = run(mine, out)
    assert handed == ["mine.norm"]
    assert [r.to_dict() for r in again] == [r.to_dict() for r in whole]


def test_errors_are_judged_again_and_never_stored(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(items: Sequence[Item], *arguments: Any, **options: Any) -> Iterator[Any]:
        for item in items:
            yield item, rc.Verdict(item.id, "error", reason="no", counterexample={"p": [1.0]})

    monkeypatch.setattr(records_module, "judge_all", failing)
    results = run(mine, tmp_path)
    assert not any(result.ok for result in results)
    assert not list(tmp_path.glob("audit/mine/**/*.json"))
    stated = json.loads((tmp_path / "audit/counterexamples/mine.norm.json").read_text())
    assert (stated["verdict"], stated["instance"]) == ("error", {"p": [1.0]})


def test_a_counterexample_lies_beside_until_the_claim_holds(
    mine: Path, tmp_path: Path, handed: list[str]
) -> None:
    results = run(mine, tmp_path)
    records = Records(tmp_path)
    replay = records.replay_path(results[1].item)
    stated = json.loads(replay.read_text())
    assert stated["id"] == "mine.mass"
    assert stated["file"] == str(mine)
    assert stated["instance"] == {"p": [0.3, 0.7]}
    records.save(Result(results[1].item, rc.Verdict("mine.mass", "holds"), "quick", 0))
    assert not replay.exists()


def test_the_counterexample_that_lies_beside_is_of_the_verdict_told_last(
    mine: Path, tmp_path: Path, handed: list[str]
) -> None:
    lines = run(mine, tmp_path)[1]
    records = Records(tmp_path)
    replay = records.replay_path(lines.item)
    first = replay.read_bytes()
    records.save(
        Result(lines.item, rc.Verdict("mine.mass", "error", reason="no time"), "normal", 0)
    )
    assert replay.read_bytes() == first  # an error says nothing against it
    undecided = rc.Verdict("mine.mass", "not decided", details={"unfinished": True})
    records.save(Result(lines.item, undecided, "normal", 0))
    assert replay.read_bytes() == first  # nor does a search that is not over, and is not kept
    assert records.load(lines.item, "normal", 0) is None
    records.save(Result(lines.item, rc.Verdict("mine.mass", "holds"), "quick", 1))
    handed.clear()
    assert not replay.exists()
    assert run(mine, tmp_path)[1].to_dict() == lines.to_dict()
    assert not handed
    assert replay.read_bytes() == first
    replay.write_bytes(b"damaged")
    run(mine, tmp_path)
    assert replay.read_bytes() == first


def test_a_weaker_search_does_not_take_a_counterexample_back(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(mine, tmp_path)[1]
    replay = Records(tmp_path).replay_path(first.item)
    stated = replay.read_bytes()

    def blind(items: Any, *rest: Any, **options: Any) -> Any:
        return [(item, rc.Verdict(item.id, "holds", instances=7)) for item in items]

    monkeypatch.setattr(records_module, "judge_all", blind)
    again = {result.item.id: result for result in run(mine, tmp_path, seed=1)}["mine.mass"]
    assert again.verdict.verdict == "violated"
    assert again.verdict.counterexample == {"p": [0.3, 0.7]}
    assert again.verdict.reason.startswith("known from a search before; this one tried 7 instances")
    assert again.verdict.evidence.startswith("confirmed")
    assert replay.read_bytes() == stated
    # one that breaks the claim no more goes
    content = json.loads(stated)
    replay.write_text(json.dumps({**content, "instance": {"p": [0.5, 0.5]}}))
    third = {result.item.id: result for result in run(mine, tmp_path, seed=2)}["mine.mass"]
    assert third.verdict.verdict == "holds"
    assert not replay.exists()


def test_ctrl_c_keeps_what_is_done(
    mine: Path, tmp_path: Path, handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="2 of 4 verdicts are saved, the same command resumes"):
        run(mine, tmp_path, progress=stop)
    handed.clear()
    run(mine, tmp_path)
    assert handed == IDS[2:]


def test_latest_is_the_one_stored_last(mine: Path, tmp_path: Path, handed: list[str]) -> None:
    import os

    item = run(mine, tmp_path)[0].item
    run(mine, tmp_path, effort="normal", seed=3)
    records = Records(tmp_path)
    os.utime(records.path(item, "quick", 0), (1, 1))
    last = records.latest(item)
    assert last is not None
    assert (last.effort, last.seed) == ("normal", 3)
    os.utime(records.path(item, "normal", 3), (0, 0))
    last = records.latest(item)
    assert last is not None
    assert (last.effort, last.seed) == ("quick", 0)


def test_the_data_files_repeat_and_keep_the_order(
    mine: Path, tmp_path: Path, handed: list[str]
) -> None:
    results = run(mine, tmp_path)
    export.write(results, tmp_path)
    data, table = (tmp_path / f"verdicts.{kind}" for kind in ("json", "md"))
    first = data.read_bytes(), table.read_bytes()
    content = json.loads(first[0])
    assert set(content) == {"date", "versions", "claims"}
    assert [claim["id"] for claim in content["claims"]] == IDS
    keys = {"id", "verdict", "ratio", "instances", "counterexample", "corrected", "expected"}
    assert all(keys <= set(claim) for claim in content["claims"])
    rows = [line for line in first[1].decode().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == IDS
    assert "- `mine.mass`, violated: the proof squares a number below one" in first[1].decode()
    export.write(run(mine, tmp_path), tmp_path)
    assert (data.read_bytes(), table.read_bytes()) == first


def test_a_folder_that_cannot_be_written_is_refused(
    mine: Path, tmp_path: Path, handed: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"output folder must be writable; found .*out/audit"):
        Records(tmp_path / "file" / "out")
    Records(tmp_path / "file" / "out", writable=False)
    with pytest.raises(InputError, match="folder of `--write` must be writable"):
        export.write(run(mine, tmp_path), tmp_path / "file")


@pytest.mark.parametrize(
    ("verdict", "shown"), [(("violated", 1.000001), "1.000001"), (("holds", 0.9999999), "1")]
)
def test_a_slight_violation_does_not_look_attained(verdict: tuple[str, float], shown: str) -> None:
    item = find_claims([str(FILES / "mine.py")])[0]
    assert ratio(Result(item, rc.Verdict(item.id, *verdict), "quick", 0)) == shown


@pytest.fixture(scope="module")
def three() -> list[Result]:
    """Verdicts on claims of one module of the catalogue."""
    items = find_claims(["ood.lemma_1", "ood.lemma_1_corrected", "ood.lemma_1_convexity"])
    results = [Result(item, judge(item.entry, "quick", 0), "quick", 0) for item in items]
    assert [result.verdict.verdict for result in results] == ["violated", "holds", "violated"]
    return results


def test_verdicts_of_the_same_code_and_effort_are_kept(
    three: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [result.item for result in three]
    assert kept(items, tmp_path, "quick", 0) == []
    export.write(three, tmp_path)
    again = kept(items, tmp_path, "quick", 0)
    assert [result.to_dict() | {"best": None} for result in three] == [
        result.to_dict() for result in again
    ]
    assert again[1].verdict.evidence == "derived"
    assert kept(items, tmp_path, "normal", 0) == []
    assert kept(items, tmp_path, "quick", 1) == []
    new = [Item(replace(items[0].entry, id="ood.other"), items[0].origin, items[0].section)]
    assert kept(new, tmp_path, "quick", 0) == []
    other = dict.fromkeys((item.id for item in items), "other")
    monkeypatch.setattr(kept_module, "revisions_of_claims", lambda claims: other)
    assert kept(items, tmp_path, "quick", 0) == []


def test_what_a_paper_keeps_is_shown_where_the_user_judged_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = find_claims(["ood.lemma_1"])
    records = Records(tmp_path)
    last = kept_module.latest(item, records)
    assert last is not None
    assert (last.effort, last.verdict.verdict) == ("hunt", "violated")
    assert replay_file(kept_module.replay_path(item, records), []).ok
    own = Result(item, judge(item.entry, "quick", 0), "quick", 0)
    records.save(own)
    assert kept_module.latest(item, records) == records.latest(item)
    assert kept_module.replay_path(item, records) == records.replay_path(item)
    monkeypatch.setattr(kept_module, "revisions_of_claims", lambda claims: {item.id: "other"})
    assert kept_module.latest(item, Records(tmp_path / "empty")) is None  # of other code


def test_a_verdict_that_is_kept_is_not_searched_again(
    three: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export.write(three, tmp_path)
    before = (tmp_path / "verdicts.json").read_bytes()
    ids = [result.item.id for result in three]

    def nothing_to_judge(missing: Sequence[Item], *rest: Any, **options: Any) -> Iterator[Any]:
        assert list(missing) == []
        return iter(())

    monkeypatch.setattr(records_module, "judge_all", nothing_to_judge)
    audits.judge(ids, tmp_path / "out", "quick", 0, 1, write=tmp_path, broken=pytest.fail)
    assert (tmp_path / "verdicts.json").read_bytes() == before


def test_counterexamples_are_written_and_those_of_what_holds_now_go(
    three: list[Result], tmp_path: Path
) -> None:
    stale = tmp_path / "counterexamples" / "ood.lemma_1_corrected.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    export.write(three, tmp_path)
    names = [path.name for path in sorted(stale.parent.iterdir())]
    assert names == ["ood.lemma_1.json", "ood.lemma_1_convexity.json"]
    assert replay_file(stale.parent / names[0]).ok


def test_verdicts_on_other_claims_of_the_paper_stay(three: list[Result], tmp_path: Path) -> None:
    export.write(three[1:], tmp_path)
    before = json.loads((tmp_path / "verdicts.json").read_bytes())["claims"]
    before[0]["revision"] = "older"
    (tmp_path / "verdicts.json").write_text(json.dumps({"claims": [*before, {"id": "ood.gone"}]}))
    export.write(three[:1], tmp_path)
    after = json.loads((tmp_path / "verdicts.json").read_bytes())["claims"]
    assert [claim["id"] for claim in after] == [result.item.id for result in three]
    assert after[1:] == before
    assert len(list((tmp_path / "counterexamples").iterdir())) == 2
    assert "`ood.lemma_1_convexity`" in (tmp_path / "findings.md").read_text()
