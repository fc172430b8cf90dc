"""The folders of ``ratecheck certify``: places for files, two commands at once, odd values."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from ratecheck._certify.prove import Proof
from ratecheck._certify.unfinished import FOLDER
from ratecheck._commands import certify, certify_constants
from ratecheck._discover.catalogue import find_claims
from ratecheck._discover.papers import installed
from ratecheck._verdicts import certificates, certified
from tests.ratecheck.conftest import CLAIMS, Said

Call = Callable[..., Said]
NUMBER = 12


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with claims."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    return tmp_path


def constant(name: str, low: str = "1", high: str = "1.0001") -> dict[str, Any]:
    """A certificate of a constant."""
    about = {"id": name, "kind": "constant", "revision": "r", "arithmetic": "float64"}
    return {**about, "sizes": {"n": 1}, "ratio": [low, high], "boxes": 3, "tree": ""}


def unproved(name: str) -> dict[str, Any]:
    """What is kept of a bound without a certificate."""
    return {"id": name, "expected": "holds", "relation": "<=", "reason": "searched"}


def write(content: Mapping[str, Any], folder: str = "kept") -> Path:
    """Have a folder keep this."""
    path = Path(folder, certificates.FILE)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_a_folder_without_certificates_is_refused_before_anything_is_computed(
    ratecheck: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certify_constants, "claims_of_command", lambda references: 1 / 0)
    said = ratecheck("certify", "mine.py", "--constant", "--write", "new", "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "ratecheck: `--write` must name a folder with certificates.json; found none in new (it is "
        "written without `--constant`)\n"
    )
    assert not Path("new").exists()
    assert not Path("out").exists()


@pytest.mark.parametrize("more", [(), ("--constant",)], ids=["", "constant"])
@pytest.mark.parametrize(
    "name", ["mine.two.json", "mine.mass.constant.json", f"{FOLDER}/mine.mass.json"]
)
def test_a_folder_in_the_place_of_a_file_is_a_line(
    name: str, more: tuple[str, ...], ratecheck: Call
) -> None:
    names = [item.id for item in find_claims(["mine.py"])]
    bounds = [one for one in names if one != "mine.two"]
    name = name.replace("mine.mass", bounds[0])
    if "mine.two" in name and more:
        name = f"{bounds[0]}.json"
    Path("out", name).mkdir(parents=True)
    said = ratecheck("certify", "mine.py", *more, "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f" must be a file; found the folder {Path('out', name)}\n")
    assert said.err.count("\n") == 1


def test_claims_that_a_folder_does_not_lack_are_a_line(ratecheck: Call) -> None:
    write({"certificates": [], "unproved": [unproved("others.claim")]})
    command = ("certify", "mine.py", "--constant", "--write", "kept", "--out", "out")
    said = ratecheck(*command)
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(" bounds: kept names none of them without another certificate\n")
    assert ratecheck(*command, "--json").out == "[]\n"


def test_a_folder_in_the_place_of_the_table_is_a_line(ratecheck: Call) -> None:
    write({"certificates": [], "unproved": []})
    Path("kept", certificates.TABLES).mkdir()
    for more in ((), ("--constant",)):
        said = ratecheck("certify", "mine.py", *more, "--write", "kept", "--out", "out")
        assert (said.code, said.out) == (2, "")
        assert said.err == (
            "ratecheck: table of certificates must be a file; found the folder "
            "kept/certificates.md\n"
        )


def test_the_search_for_a_constant_is_a_file(ratecheck: Call) -> None:
    (first, *_) = (item.id for item in find_claims(["mine.py"]) if item.id != "mine.two")
    Path("out", f"{first}.npz").mkdir(parents=True)
    said = ratecheck("certify", "mine.py", "--constant", "--out", "out")
    assert said.code == 2
    assert "search for a constant must be a file; found the folder out/" in said.err


@contextlib.contextmanager
def nothing_held(folder: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    yield False


@pytest.mark.parametrize("locked", [True, False])
def test_two_commands_at_once_lose_no_line(locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"mine.c{k}" for k in range(NUMBER)]
    path = write({"certificates": [], "unproved": [unproved(name) for name in names]})
    read = certificates.read

    def slowly(folder: Path) -> certificates.Kept:
        content = read(folder)
        time.sleep(0.02)
        return content

    monkeypatch.setattr(certificates, "read", slowly)
    if not locked:  # the same fails then
        monkeypatch.setattr(certificates, "folder_lock", nothing_held)

    def merge(name: str) -> None:
        certify_constants._merge(path.parent, Proof(name, constant(name)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(merge, names))
    kept = read(path.parent)
    lost = {one["id"] for one in kept["unproved"]}
    assert ({one["id"] for one in kept["certificates"]} | lost) == {*names}
    assert bool(lost) == (not locked)
    if locked:
        tables = (path.parent / certificates.TABLES).read_text()
        assert all(name in tables for name in names)


@pytest.mark.slow
def test_what_another_command_proved_meanwhile_stays_if_it_is_verified(ratecheck: Call) -> None:
    ratecheck("certify", "mine.py", "--write", "kept", "--out", "out")
    whole = json.loads(Path("kept", certificates.FILE).read_text())
    (item,) = (item for item in find_claims(["mine.py"]) if item.id == "mine.two")
    (written,) = (one for one in whole["certificates"] if one["id"] == item.id)
    none = [Proof(item.id, reason="no time")]

    def left(before: list[Any]) -> Any:
        (proof,) = certify._with_those_since(Path("kept"), {item.id: before}, none, [item], 1)
        return proof.certificate

    assert left([]) == written
    assert left([written]) is None  # it was there, and has been looked at
    case = {**written["cases"][0], "measured": ["7", "7"], "bound": ["6", "6"]}
    write({**whole, "certificates": [{**written, "cases": [case]}]})
    assert left([]) is None


@pytest.mark.parametrize("paper", installed())
def test_what_papers_keep_has_values_that_certificates_have(paper: str) -> None:
    folder = certified.folder_of(paper)
    assert folder is not None
    assert len(certificates.read(folder)["certificates"]) > 60


#: Values of each kind that no certificate has, and what is said of them.
ODD: dict[str, list[tuple[str, Any, str]]] = {
    "constant": [
        (
            "ratio",
            ["2", "1"],
            "`ratio` must be two numbers of at least 0 in order; found ['2', '1']",
        ),
        ("ratio", ["-1", "1"], "two numbers of at least 0 in order; found ['-1', '1']"),
        ("ratio", ["1", "one"], "(ValueError: Invalid literal for Fraction: 'one')"),
        ("sizes", {"n": -1}, "`sizes` must be whole numbers of at least 0, `n` too; found -1"),
        ("sizes", {"n": 1.5}, "at least 0, `n` too; found 1.5"),
        ("sizes", {"n": True}, "at least 0, `n` too; found True"),
        ("boxes", 0, "`boxes` must be at least 1; found 0"),
        ("seconds", -1.0, "`seconds` must be a finite number of at least 0; found -1.0"),
        ("seconds", float("nan"), "must be a finite number of at least 0; found nan"),
        ("kind", "proof", "must have kinds among counterexample, "),
    ],
    "counterexample": [
        ("cases", [], "`cases` must be at least one; found []"),
        ("cases", [{"measured": ["1", "1"]}], "(KeyError: 'bound')"),
        (
            "cases",
            [{"measured": ["3", "2"], "bound": ["1", "1"]}],
            "`measured` must be an interval, its lower end first; found ['3', '2']",
        ),
        (
            "cases",
            [{"measured": ["2", "3"], "bound": ["1", "0"]}],
            "`bound` must be an interval, its lower end first; found ['1', '0']",
        ),
    ],
    "identity": [
        ("log2_chance", 0, "`log2_chance` must be below 0, as of a chance below 1; found 0"),
        ("sizes", [{"n": -1}], "`sizes` must be whole numbers of at least 0, `n` too; found -1"),
        ("every_branch", [{"n": 0.5}], "`every_branch` must be whole numbers of at least 0, `n` t"),
        ("log2_chance", "low", "(TypeError: "),
    ],
    "quadratic": [
        ("excess", "-1/2", "`excess` must be at least 0; found '-1/2'"),
        ("excess", "much", "(ValueError: Invalid literal for Fraction: 'much')"),
        ("theorem", [], "(TypeError: "),
    ],
}


@pytest.mark.parametrize("kind", ODD)
def test_values_that_no_certificate_has_are_a_line(kind: str) -> None:
    folder = certified.folder_of("firm")
    assert folder is not None
    whole = certificates.read(folder)
    one = next(one for one in whole["certificates"] if one["kind"] == kind)
    path = write({"certificates": [one], "unproved": []})
    assert certificates.read(path.parent)["certificates"] == [one]
    for name, value, said in ODD[kind]:
        write({"certificates": [{**one, name: value}], "unproved": []})
        with pytest.raises(InputError, match=r"certificates\.json must h") as error:
            certificates.read(path.parent)
        assert one["id"] in str(error.value)
        assert said in str(error.value)
        assert len(str(error.value).splitlines()) == 1


def test_sides_of_a_counterexample_have_to_be_apart() -> None:
    folder = certified.folder_of("firm")
    assert folder is not None
    every = certificates.read(folder)["certificates"]
    seen = set()
    for one in every:
        if one["kind"] != "counterexample" or one["relation"] in seen:
            continue
        seen.add(one["relation"])
        case = one["cases"][0]
        swapped = {**case, "measured": case["bound"], "bound": case["measured"]}
        for wrong in ({**case, "bound": case["measured"]}, swapped):
            write({"certificates": [{**one, "cases": [wrong]}], "unproved": []})
            if one["relation"] == "==" and wrong is swapped:
                certificates.read(Path("kept"))
                continue
            word = {"<=": "above", ">=": "below"}.get(one["relation"], "apart from")
            with pytest.raises(InputError, match=f"`measured` must be {word} `bound`; found "):
                certificates.read(Path("kept"))
    assert {"<=", ">="} <= seen


@pytest.mark.parametrize(
    "content",
    [
        {"certificates": [constant("a.b"), constant("a.b")], "unproved": []},
        {"certificates": [constant("a.b")], "unproved": [unproved("a.b")]},
        {"certificates": [], "unproved": [unproved("a.b"), unproved("a.b")]},
    ],
)
def test_a_claim_is_kept_once(content: Mapping[str, Any]) -> None:
    path = write(content)
    with pytest.raises(InputError, match=r"must have each claim once; found a\.b twice"):
        certificates.read(path.parent)


@pytest.mark.slow
def test_a_users_certificate_with_such_values_counts_as_absent(ratecheck: Call) -> None:
    ratecheck("certify", "mine.py", "--out", "out")
    origin, path = str(Path("mine.py")), Path("out", "mine.two.json")
    one = json.loads(path.read_text())
    assert certificates.left_by_certify(path.parent, origin, "mine.two") == [one]
    path.write_text(json.dumps({**one, "cases": []}))
    assert certificates.left_by_certify(path.parent, origin, "mine.two") == []
