"""The checker is one file that runs alone: what it accepts, refuses, and leaves to the claim."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratecheck._certify import check, check_constant, check_formula, check_identity
from ratecheck._certify.stated import repeated
from ratecheck._discover import papers
from ratecheck._verdicts import certificates as kept

CHECKER = Path(check.__file__)
CHECKERS = [check, check_constant, check_formula, check_identity]
KEPT = {
    paper: Path(*package.split(".")) / "results" for paper, package in papers.installed().items()
}
#: Nothing can be imported after this but the standard library and python-flint.
BLOCKED = """
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "flint"}:
            raise ImportError(f"blocked: {name}")
sys.meta_path.insert(0, Blocked())
"""
ALONE = f"""{BLOCKED}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def alone(*arguments: str | Path, program: str = ALONE) -> tuple[int, str]:
    """The exit status and what was printed, both streams."""
    command = [sys.executable, "-I", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_is_short_and_imports_the_standard_library_alone() -> None:
    lines = CHECKER.read_text().splitlines()
    assert len(lines) < 300
    imported = {line.split()[1] for line in lines if re.match("(from|import) [a-z_.]+( |$)", line)}
    assert imported <= {*sys.stdlib_module_names, "collections.abc"}
    assert "blocked: numpy" in alone(CHECKER, program=f"{BLOCKED}\nimport numpy")[1]


@pytest.mark.parametrize("paper", KEPT)
def test_theorems_of_papers_are_verified_from_their_file_alone(paper: str) -> None:
    status, said = alone(CHECKER, KEPT[paper] / kept.FILE)
    certificates = kept.read(KEPT[paper])["certificates"]
    left = sum(one["kind"] in ("identity", "constant") for one in certificates)
    assert status == (2 if left else 0), said
    *lines, last = said.splitlines()
    assert last == f"Nothing was decided of {left} of {len(certificates)} certificates"
    for one, line in zip(certificates, lines, strict=True):
        begins = {
            "quadratic": f"follows for all dimensions: {one.get('theorem', {}).get('shows')}, if ",
            "counterexample": "the stated enclosures are apart. Not decided: that they are",
        }.get(one["kind"], check.UNDECIDED)
        assert line.startswith(f"{one['id']}: {begins}"), line
        if one["kind"] == "quadratic" and (parameters := one["theorem"]["parameters"]):
            assert f"{', '.join(parameters)} >= 0. Not decided: that this is the claim" in line
        assert line.endswith((". Nothing else was read", check.UNDECIDED))


def test_it_says_from_what_a_bound_follows_and_what_is_not_decided(tmp_path: Path) -> None:
    """An assumption that somebody added and a text that somebody changed are seen as such."""
    content = of_kind("quadratic", "firm.lemma1")
    content["theorem"]["assumes"]["99. it is false"] = "(-1) >= 0"
    content["theorem"]["text"] = "Everything holds."
    content["id"] = "firm.lemma1: follows\nfirm.all"
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"certificates": [content, 5]}))
    status, said = alone(CHECKER, path)
    assert status == 1
    assert said.count("\n") == 2
    assert "99. it is false: (-1) >= 0; " in said
    assert " >= 0. Not decided: that this is the claim, and that what" in said
    assert "Everything" not in said
    assert "None: refused: " in said


def test_that_parameters_are_not_negative_is_assumed(tmp_path: Path) -> None:
    """0 <= a follows from it alone."""
    told: dict[str, Any] = {"shows": "0 <= a", "assumes": {}, "parameters": ["a", "b"]}
    terms = [{"of": ["squares", "a", "1"], "multiplier": [["1"]]}]
    content = {"format": 1, "kind": "quadratic", "id": "mine.sign", "excess": "0"}
    path = tmp_path / "one.json"
    path.write_text(json.dumps({**content, "theorem": told, "terms": terms}))
    status, said = alone(CHECKER, path)
    assert status == 0
    assert "follows for all dimensions: 0 <= a, if a, b >= 0. Not decided" in said


def test_an_empty_side_is_none(tmp_path: Path) -> None:
    told: dict[str, Any] = {"shows": "1/2 <= ", "assumes": {}, "parameters": []}
    with pytest.raises(check.Wrong, match="must be made of forms; found ''"):
        check.prove(told, [], check.Fraction(0))


TWICE = {
    "a key twice": '{"format": 1, "kind": "quadratic", "kind": "identity"}',
    "a key twice within": '{"certificates": [{"theorem": {"shows": "", "shows": ""}}]}',
}


def test_many_keys_are_read_once() -> None:
    """Comparing each key to all others would take minutes."""
    keys = ", ".join(f'"{k}": 0' for k in range(300_000))
    assert repeated("{" + keys + "}") == ""
    assert repeated("{" + keys + ', "299999": 1}') == "299999"


#: Texts that are no file of certificates, for each of the checkers.
ILL = {
    "nothing": '{"certificates": null}',
    "a number": '{"certificates": 3}',
    "deep lists": "[" * 100_000 + "]" * 100_000,
}


@pytest.mark.parametrize("what", TWICE)
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_key_that_is_there_twice_is_refused(what: str, checker: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(TWICE[what])
    ((said, code),) = checker.answers(path)
    assert code == 1
    assert "a key must not be there twice" in said


@pytest.mark.parametrize("what", ILL)
@pytest.mark.parametrize("checker", CHECKERS)
def test_an_ill_file_is_refused_by_every_checker(what: str, checker: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(ILL[what])
    ((said, code),) = checker.answers(path)
    assert code == 1
    assert "must hold certificates" in said


def of_kind(kind: str, name: str = "") -> dict[str, Any]:
    """A certificate of this kind that a paper keeps."""
    for folder in KEPT.values():
        for one in kept.read(folder)["certificates"]:
            if one["kind"] == kind and name in one["id"]:
                return copy.deepcopy(dict(one))
    raise AssertionError(kind)


def tamper(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts a value at a place such as ``theorem shows``."""

    def change(content: dict[str, Any]) -> None:
        *above, last = path.split()
        for key in above:
            content = content[int(key) if key.isdigit() else key]
        content[int(last) if last.isdigit() else last] = value

    return change


def smaller_bound(content: dict[str, Any]) -> None:
    told = content["theorem"]
    assert told["shows"].count(" <= 16 ") == 1
    told["shows"] = told["shows"].replace(" <= 16 ", " <= 15 ")


def an_assumption_less(content: dict[str, Any]) -> None:
    del content["theorem"]["assumes"]["1. lambda* is optimal"]


def swapped(content: dict[str, Any]) -> None:
    case = content["cases"][0]
    case["measured"], case["bound"] = case["bound"], case["measured"]


FALSE: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "a smaller bound": ("quadratic", smaller_bound, "must be the sum of the terms"),
    "an assumption less": ("quadratic", an_assumption_less, "must be a part of the theorem"),
    "a multiplier": ("quadratic", tamper("terms 2 multiplier", [["5"]]), "must be the sum"),
    "a negative one": ("quadratic", tamper("terms 2 multiplier", [["-1"]]), "negative eigenvalue"),
    "no term": ("quadratic", tamper("terms", []), "must be the sum of the terms"),
    "a negative excess": ("quadratic", tamper("excess", "-1/2"), "`excess` must not be negative"),
    "no form": ("quadratic", tamper("theorem shows", "x y <= 1"), "must be made of forms"),
    "sides exchanged": ("counterexample", swapped, "each of which breaks the claim"),
    "no cases": ("counterexample", tamper("cases", []), "`cases` must be one or more"),
    "an endless number": (
        "counterexample",
        tamper("cases 0 measured", ["0", "1e30000000"]),
        "a rational must be text, its exponent below 10^4",
    ),
    "the ends exchanged": (
        "counterexample",
        tamper("cases 0 measured", ["2", "1"]),
        "the ends of an interval must be in order",
    ),
    "another kind": ("identity", tamper("kind", "proof"), "`kind` must be one"),
    "another format": ("constant", tamper("format", 2), "`format` must be 1; found 2"),
}


@pytest.mark.parametrize("what", FALSE)
def test_false_data_are_refused(what: str, tmp_path: Path) -> None:
    kind, change, said = FALSE[what]
    content = of_kind(kind, "firm.lemma1" if kind == "quadratic" else "")
    path = tmp_path / "one.json"
    path.write_text(json.dumps(content))
    assert alone(CHECKER, path)[0] == (2 if kind in ("identity", "constant") else 0)
    change(content)
    path.write_text(json.dumps(content))
    status, told = alone(CHECKER, path)
    assert status == 1
    assert told.startswith(f"{content['id']}: refused: ")
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("kind", ["identity", "constant"])
def test_where_nothing_is_decided_the_exit_says_so(kind: str, tmp_path: Path) -> None:
    """A script that asks for 0 must not take an unread certificate for a proof."""
    path, both = tmp_path / "one.json", tmp_path / "both.json"
    one, theorem = of_kind(kind), of_kind("quadratic", "firm.lemma1")
    path.write_text(json.dumps(one))
    status, said = alone(CHECKER, path)
    assert status == 2
    assert said.splitlines() == [
        f"{one['id']}: {check.UNDECIDED}",
        "Nothing was decided of 1 of 1 certificates",
    ]
    both.write_text(json.dumps({"certificates": [theorem, one]}))
    status, said = alone(CHECKER, both)
    assert (status, said.splitlines()[-1]) == (2, "Nothing was decided of 1 of 2 certificates")
    both.write_text(json.dumps({"certificates": [theorem, one, 5]}))
    assert alone(CHECKER, both)[0] == 1
    both.write_text(json.dumps(theorem))
    assert alone(CHECKER, both)[0] == 0


def test_what_is_no_file_of_certificates_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[1]")
    for path in (tmp_path / "missing.json", tmp_path / "none.json"):
        status, said = alone(CHECKER, path)
        assert (status, said.count("\n")) == (1, 1)
        assert said.startswith(f"file must hold certificates; found {path}")


def test_forms_are_read_as_they_are_written() -> None:
    """Every theorem of a paper survives the text, which is what its identity is checked from."""
    from ratecheck._certify.gram.declared import theorem_of
    from ratecheck._discover.catalogue import find_claims

    told = 0
    for item in find_claims(["psl"]):
        theorem = theorem_of(item)
        if theorem is None:
            continue
        problem = theorem.problem
        parameters = set(problem.parameters)
        assert problem.conclusion is not None
        forms = [problem.conclusion.measured, problem.conclusion.bound]
        forms += [form for one in problem.assumed for row in one.matrix for form in row]
        for form in forms:
            assert check.parsed(str(form), parameters) == dict(form.terms)
        told += 1
    assert told > 20
