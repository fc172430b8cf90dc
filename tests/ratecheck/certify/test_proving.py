"""Claims are proved by processes: a limit for each, and what does not return costs itself alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratecheck._certify import workers as workers_module
from ratecheck._certify.prove import Proof
from ratecheck._certify.prove_many import _proof_of, proving
from ratecheck._certify.unfinished import FOLDER
from ratecheck._certify.workers import Answer, Note, in_workers
from ratecheck._discover.catalogue import Item
from ratecheck._processes.interrupts import Interrupted
from tests.ratecheck.certify._files import ClaimsOf
from tests.ratecheck.conftest import CLAIMS

HERE = Path(__file__).parent
ODD = HERE / "misbehaving.py"
FALSE, BOUNDS = ClaimsOf("false_claims.py"), ClaimsOf("bounds.py")
LIMIT = 2
REASONS = {
    "crashes": "its process ended with signal 11",
    "crashes_late": "its process ended with signal 11",
    "leaves": "its process ended with exit code 3",
    "exits": "measure raised SystemExit: 4",
    "computes": f"no answer within {LIMIT} s of CPU time or of waiting .*; its process was killed",
    "turns": "no answer within 1 s of CPU time: the first call of the measure takes longer; a lar",
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[..., Any]]:
    """A folder with the certificates of the odd claims, and the command that made them."""
    from typer.testing import CliRunner

    from ratecheck._commands.app import app

    out = tmp_path_factory.mktemp("odd")

    def run(*words: object) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    result = run("certify", ODD, "--limit", LIMIT, "--threads", 2, "--out", out, "--json")
    (out / "said").write_text(result.stdout)
    return out, run


@pytest.mark.slow
@pytest.mark.parametrize("name", REASONS)
def test_what_does_not_return_costs_its_own_claim_alone(
    name: str, odd: tuple[Path, Callable[..., Any]]
) -> None:
    told = {one["id"]: one for one in json.loads((odd[0] / "said").read_text())}
    assert [one for one in told if told[one]["certificate"]] == ["odd.good", "odd.also_good"]
    assert re.search(REASONS[name], told[f"odd.{name}"]["reason"])
    assert [one.name for one in sorted(odd[0].glob("*.json"))] == [
        "odd.also_good.json",
        "odd.good.json",
    ]


@pytest.mark.slow
def test_a_check_that_does_not_return_refuses_its_own_certificate_alone(
    odd: tuple[Path, Callable[..., Any]], tmp_path: Path
) -> None:
    out, run = odd
    paths = []
    for name in ("crashes", "good", "computes", "turns"):
        content = json.loads((out / "odd.good.json").read_text())
        paths.append(tmp_path / f"odd.{name}.json")
        paths[-1].write_text(json.dumps({**content, "id": f"odd.{name}"}))
    result = run("certify", "--check", *paths, ODD, "--limit", LIMIT, "--threads", 2, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert [one["id"] for one in told] == ["odd.crashes", "odd.good", "odd.computes", "odd.turns"]
    assert told[1]["refused"] == ""
    assert told[0]["refused"] == "it must be verified; found that its process ended with signal 11"
    assert "its process was killed" in told[2]["refused"]
    assert f"found no answer within {LIMIT} s of CPU time (a larger" in told[3]["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("constant", [[], ["--constant", "--limit", "10"]])
def test_the_same_is_proved_by_any_number_of_processes(
    constant: list[str], tmp_path: Path, odd: tuple[Path, Callable[..., Any]]
) -> None:
    """But for the time that it took; files and lines are in the order of the claims."""
    file, paper = (BOUNDS.file, "bounds") if constant else (FALSE.file, "mine")
    names = ("product", "mean", "entries") if constant else ("square", "root", "tie", "holds")
    claims = [f"{file}::{paper}.{name}" for name in names]
    answers = []
    for threads in (1, 2):
        out = tmp_path / str(threads)
        options = ("--out", out, "--write", out, "--threads", threads, "--json")
        if constant:  # a folder for them has what was proved before
            assert odd[1]("certify", *claims, *options).exit_code == 0
        result = odd[1]("certify", *claims, *options, *constant)
        assert result.exit_code == 0, result.output
        files = sorted(path for path in out.iterdir() if path.suffix == ".json")
        texts = [result.stdout, *(path.read_text() for path in files)]
        answers.append([path.name for path in files] + [_timeless(text) for text in texts])
        assert [one["id"] for one in json.loads(result.stdout)] == [
            f"{paper}.{name}" for name in names
        ]
    assert answers[0] == answers[1]


def _timeless(text: str) -> str:
    """A text without the times in it."""
    assert '"seconds": ' in text
    return re.sub('"seconds": [0-9.]+', "", text)


def test_what_was_proved_before_its_process_ended_counts() -> None:
    found = {"certificate": {"kind": "identity"}, "reason": ""}
    ended: Answer[Proof] = Answer(None, "its process ended", found)
    assert _proof_of(ended, "a.b") == Proof("a.b", {"kind": "identity"})
    assert _proof_of(Answer(None, "its process ended"), "a.b") == Proof("a.b", None, ended.reason)


def test_notes_are_heard_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note, path = Note(tmp_path / "0"), tmp_path / "0"
    note.at("begun")
    note.at("a moment later")
    assert workers_module._told("a.b", path) == "a.b: begun"
    monkeypatch.setattr(workers_module, "_PAUSE", 0.0)
    later = Note(path)
    later.at("further")
    later.at("at last")
    assert workers_module._told("a.b", path) == "a.b: at last"
    later._compiling(True)
    assert workers_module._told("a.b", path) == "a.b: compiling"
    later._compiling(False)
    assert workers_module._told("a.b", path) == "a.b: at last"
    assert workers_module._told("a.b", tmp_path / "none") == "a.b"


def test_who_waits_is_told_what_workers_are_at() -> None:
    told: list[str] = []
    arguments = [(json.__name__,)]
    list(in_workers(_waits, arguments, ["a.b"], 1, limit=60.0, doing=told.append))
    assert any(one.startswith("a.b: ratio in [") for one in told)


def _waits(name: str, note: Note) -> str:
    import time

    for step in range(30):
        note.at(f"ratio in [{step}, 31]")
        time.sleep(0.1)
    return name


def proved_here(item: Item, text: str, limit: float, note: Note) -> Proof:
    """What the tests have proved; its calls are counted in a file."""
    with Path(text).open("a") as stream:
        stream.write(f"{item.id}\n")
    return Proof(item.id, {"id": item.id, "number": 0.1}, f"{limit:g}")


def test_what_a_stopped_command_has_proved_is_not_proved_again(tmp_path: Path) -> None:
    items = [FALSE.items[name] for name in ("square", "root", "tie")]
    calls = tmp_path / "calls"

    def prove(stop: int, given: str = "a", limit: float = 60.0) -> list[Proof | None]:
        proofs: list[Proof | None] = [None] * len(items)
        tasks = [(str(calls),)] * len(items)
        begun = proving(
            proved_here, items, tasks, 1, limit=limit, out=tmp_path, given=[given] * len(items)
        )
        with begun as each:
            for number, (position, proof) in enumerate(each(lambda what: None)):
                if number == stop:
                    raise KeyboardInterrupt
                proofs[position] = proof
        return proofs

    def counted() -> int:
        """Calls for the first claim; one for the next may begin before it is asked for."""
        return calls.read_text().split().count("mine.square")

    for done in (1, 2):  # the proof of the claim at which it was stopped is kept as well
        with pytest.raises(Interrupted):
            prove(done - 1)
        folder = tmp_path / FOLDER
        assert len(list(folder.iterdir())) == done
        assert counted() == 1
    whole = prove(3)
    assert [proof and (proof.id, proof.certificate) for proof in whole] == [
        (item.id, {"id": item.id, "number": 0.1}) for item in items
    ]
    assert counted() == 1
    assert not folder.exists()
    assert prove(3) == whole  # it was over: all is proved anew
    assert counted() == 2
    for others in ({"given": "b"}, {"limit": 61.0}):
        with pytest.raises(Interrupted):
            prove(0)
        before = counted()
        prove(3, **others)  # type: ignore[arg-type]
        assert counted() == before + 1
        assert not folder.exists()
    with pytest.raises(Interrupted):
        prove(0)
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace("0.1", "0.2"))
    before = counted()
    assert prove(3) == whole
    assert counted() == before + 1


def test_ctrl_c_says_how_many_claims_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(*arguments: Any, **options: Any) -> Iterator[tuple[int, Answer[Proof]]]:
        yield 0, Answer(Proof("mine.square"))
        raise KeyboardInterrupt

    monkeypatch.setattr("ratecheck._certify.prove_many.in_workers", struck)
    items = [FALSE.items[name] for name in ("square", "root")]
    begun = proving(proved_here, items, [()] * 2, 1, limit=1.0, out=tmp_path, given=[""] * 2)
    said = "1 of 2 claims are saved, the same command resumes"
    with pytest.raises(Interrupted, match=said), begun as each:
        list(each(lambda what: None))


@pytest.mark.parametrize("more", [(), ("--constant",)], ids=["", "constant"])
def test_a_file_in_the_place_of_the_folder_is_a_line(
    more: tuple[str, ...], tmp_path: Path, ratecheck: Callable[..., Any]
) -> None:
    (tmp_path / "mine.py").write_text(CLAIMS)
    path = tmp_path / "out" / FOLDER
    path.parent.mkdir()
    path.write_text("mine")
    done = ratecheck("certify", tmp_path / "mine.py", *more, "--out", path.parent)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert f"must be a folder; found the file {path}" in done.err
    assert path.read_text() == "mine"
