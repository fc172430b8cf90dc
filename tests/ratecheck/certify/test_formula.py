"""A counterexample's formula, as a program, breaks its claim without the claim's code."""

from __future__ import annotations

import base64
import json
import math
import random
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import inverse, lambda_max, lambda_min, logistic, operator_norm, solve, stretch
from ratecheck._certify import check_formula
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.check_formula import Open, Wrong, counterexample, unpacked
from ratecheck._certify.enclosures import Unprovable, enclose
from ratecheck._certify.formula import at_instance, packed
from ratecheck._certify.prove import certify
from ratecheck._verdicts import certificates as kept
from tests._slow import slow_but
from tests.ratecheck.certify.test_check import KEPT, alone
from tests.ratecheck.certify.test_edited import FALSE, certificate

CHECKER = Path(check_formula.__file__)
#: False claims whose formula is no such program: roots of matrices of three rows.
WITHOUT = {"affpcl.ex6"}


def test_it_is_short_and_imports_python_flint_alone() -> None:
    lines = CHECKER.read_text().splitlines()
    assert len(lines) < 300
    imported = {line.split()[1] for line in lines if re.match("(from|import) [a-z_.]+( |$)", line)}
    assert "flint" in imported
    assert imported - {"flint", "collections.abc", "__future__"} < set(sys.stdlib_module_names)


@pytest.mark.parametrize("paper", KEPT)
def test_false_claims_of_papers_are_shown_false_from_their_file_alone(paper: str) -> None:
    status, said = alone(CHECKER, KEPT[paper] / kept.FILE)
    certificates = kept.read(KEPT[paper])["certificates"]
    assert status == 2, said
    false = {one["id"] for one in certificates if one["kind"] == "counterexample"}
    shown = {line.partition(":")[0] for line in said.splitlines() if check_formula.SHOWN in line}
    assert shown == false - WITHOUT
    assert len(said.splitlines()) == len(certificates)


CASE: dict[str, Any] = {"entry": 0, "measured": ["-9", "9"], "bound": ["-9", "9"]}


def given(text: str, **values: Any) -> dict[str, Any]:
    """A certificate with a program that somebody wrote."""
    content = {"format": 1, "kind": "counterexample", "relation": "<=", "instance": {"x": 0.25}}
    return {**content, "cases": [CASE], "formula": packed(text), **values}


ONE = "in\nconst 1\n"
TWICE = base64.b85encode(2 * zlib.compress(ONE.encode())).decode()
PLANTED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a claim that holds": (given(f"{ONE}= 0 0 1"), Open, "not apart"),
    "equal sides": (given(f"{ONE}= 0 0 0"), Open, "not apart"),
    "another relation": (given(f"{ONE}= 0 1 0", relation=">="), Open, "not apart"),
    "sides of other size": (
        given(f"{ONE}= 0 1 0", cases=[{"entry": 0, "measured": ["2", "3"], "bound": ["0", "1"]}]),
        Open,
        "not within",
    ),
    "another entry": (given(f"{ONE}= 1 1 0"), Open, "not within"),
    "no stated case": (given(f"{ONE}= 0 1 0", cases=[]), Open, "not within"),
    "a branch that is not taken": (
        given(f"{ONE}! > 0 1\n= 0 1 0"),
        Wrong,
        "must not say '! > 0 1'",
    ),
    "one of two branches": (
        given("in\nconst 2\nroot 1\n* 1 1\n? < 3 1\n= 0 1 0"),
        IndexError,
        "out of range",
    ),
    "an open branch on which it holds": (
        given("in\nconst 2\nroot 1\n* 1 1\n? < 3 1\n= 0 1 0\n= 0 0 1"),
        Open,
        "not apart",
    ),
    "an open condition": (
        given("in\nconst 2\nroot 1\n* 1 1\n! < 3 1\n= 0 1 0"),
        Open,
        "line 3 < line 1 is open",
    ),
    "a case that no leaf reaches": (
        given(f"{ONE}= 0 1 0", cases=[CASE, {**CASE, "entry": 1}]),
        Wrong,
        "`cases` must be those that are reached",
    ),
    "the length of a negative number": (
        given("in\nneg 1\nlength 1\nconst 1\n= 0 3 2"),
        Open,
        "no finite enclosure",
    ),
    "no root": (given("in\nneg 1\nroot 1\nconst 0\n= 0 2 3"), Open, "no finite enclosure"),
    "a division by zero": (given("in\nconst 0\n/ 2 1\n= 0 2 1"), Open, "no finite enclosure"),
    "what comes later": (given("in\n+ 1 0\n= 0 1 0"), Wrong, "on earlier ones"),
    "what comes before the first": (given("in\n+ 1 2\n= 0 1 0"), Wrong, "on earlier ones"),
    "a side before the first": (given(f"{ONE}= 0 -1 -2"), KeyError, "-1"),
    "a number compared before the first": (given(f"{ONE}! > -1 0\n= 0 1 0"), KeyError, "-1"),
    "an unknown operation": (given("in\nfloor 1\n= 0 1 0"), Wrong, "must be an operation"),
    "no leaf": (given("in"), IndexError, "out of range"),
    "too few numbers": (given(f"{ONE}= 0 1 0", instance={"x": []}), Wrong, "every number"),
    "too many numbers": (given(f"{ONE}= 0 1 0", instance={"x": [1, 2]}), Wrong, "every number"),
    "a long exponent": (given("in\nconst 1e99999\n= 0 1 0"), ValueError, "exponent below"),
    "two texts": (given(ONE, formula=TWICE), Wrong, "must be one"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_formula_shows_nothing(what: str, tmp_path: Path) -> None:
    content, error, reason = PLANTED[what]
    with pytest.raises(error, match=re.escape(reason)):
        counterexample(content)
    (tmp_path / "file.json").write_text(json.dumps({**content, "id": "mine.planted"}))
    ((said, code),) = check_formula.answers(tmp_path / "file.json")
    assert code == (2 if error is Open else 1)
    assert "\n" not in said


@pytest.mark.parametrize("line", ["root 1", "log 1", "/ 2 1"])
@pytest.mark.parametrize("relation", ["==", "<=", ">="])
def test_what_has_no_value_is_not_equal_to_itself(line: str, relation: str) -> None:
    start = "const 1\n- 1 1\n" if line[0] == "/" else "in\nneg 1\n"
    text = f"{start}{line}\nconst 1\nconst 0\n! {relation} 2 2\n= 0 3 4"
    instance = {"x": [] if line[0] == "/" else 0.25}
    with pytest.raises(Open, match=f"line 2 {relation} line 2 is open"):
        counterexample(given(text, instance=instance))


@pytest.mark.parametrize("text", ["1e-400", "0.25000000000000000000000001"])
def test_numbers_of_an_instance_are_read_exactly(text: str, tmp_path: Path) -> None:
    rounded = check_formula.Fraction(repr(float(text)))
    program = f"in\nconst {rounded}\nconst 1\nconst 0\n! == 0 1\n= 0 2 3"
    content = json.dumps({**given(program), "id": "mine.planted"})
    assert '"x": 0.25}' in content
    (tmp_path / "file.json").write_text(content.replace('"x": 0.25}', f'"x": {text}}}'))
    ((said, code),) = check_formula.answers(tmp_path / "file.json")
    assert (code, "must not say '! == 0 1'" in said) == (1, True), said


def test_a_true_formula_is_accepted_and_each_case_is_looked_at() -> None:
    assert counterexample(given(f"{ONE}= 0 1 0")) == 64
    both = "in\nconst 2\nroot 1\n* 1 1\n? < 3 1\n= 0 1 0\n= 0 1 0"
    assert counterexample(given(both)) == 64
    assert counterexample(given("in\nconst 2\n! < 0 1\n= 0 1 0")) == 64
    near = "in\nconst 2\nroot 1\n* 1 1\nconst 1/10000000000000000000000000000000000\n+ 2 1\n= 0 5 1"
    assert counterexample(given(near)) == 128


@pytest.mark.parametrize("name", FALSE)
def test_a_certificate_carries_its_formula_and_edits_of_it_are_refused(name: str) -> None:
    content = certificate(name)
    text = unpacked(content["formula"])
    assert counterexample(content) >= 64
    assert verify(content)
    rng = random.Random(0)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        words = line.split(" ")
        at = rng.randrange(len(words))
        others = [
            [
                *words[:at],
                rng.choice(["+", "-", "*", "max", "0", "1", "2", "-1", "<", "x"]),
                *words[at + 1 :],
            ],
            [*words, "1"],
            words[:-1],
        ]
        for edit in [*others, None]:
            new = [
                *lines[:number],
                *([" ".join(edit)] if edit is not None else []),
                *lines[number + 1 :],
            ]
            if new == lines:
                continue
            edited = {**content, "formula": packed("\n".join(new))}
            with pytest.raises(Refused, match="must be the program of the claim"):
                verify(edited)
            try:
                assert counterexample(edited) >= 64  # of another formula it may be true
            except (Wrong, Open, *check_formula.ILL):
                pass


def test_a_formula_is_checked_besides_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    content = certificate("mine.root")
    monkeypatch.setattr("ratecheck._certify.formula.check_formula.counterexample", _open)
    with pytest.raises(Refused, match="`formula` must break the claim by itself; found closed"):
        verify(content)


def _open(content: Any) -> int:
    raise Open("closed")


def matrix(x: Any) -> Any:
    return x.reshape(3, 3)


#: Formulas of nine numbers, with what is recorded of each.
FORMULAS: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: x.sum() - x[0] * x[1] / (1 + x[2] * x[2]),
    "powers": lambda x: (1 + x[0] ** 2) ** 5 + (2 + x[1]) ** -3 + (3 + x[2]) ** 0.5,
    "other powers": lambda x: (3 + x[0]) ** 0.3 + 2 ** x[1] + (3 + x[2]) ** 1.5,
    "functions": lambda x: np.exp(x[0]) + np.log(3 + x[1]) + np.tanh(x[2]) + np.expm1(x[3]),
    "angles": lambda x: (
        np.sin(x[0]) + np.cos(x[1]) + np.tan(x[2]) + np.arctan(x[3]) + np.arccos(x[4] / 2)
    ),
    "near one": lambda x: np.log1p(x[0] * x[0]) + logistic(x[1:3]).sum(),
    "extremes": lambda x: (
        np.maximum(x[0], x[1]) * np.minimum(x[2], 0.1) + x.max() - np.abs(x).min()
    ),
    "whole parts": lambda x: (
        np.floor(3 * x[0]) + np.ceil(5 * x[1]) + np.rint(7 * np.exp(x[2])) + np.trunc(9 * x[3])
    ),
    "remainders": lambda x: (7 * x[0]) % 0.75 + (5 * x[1]) // 0.5,
    "branches": lambda x: np.where(x > 0.1, x * x, 1 - x).sum() + (x[0] if x[1] < x[2] else x[3]),
    "solutions": lambda x: (
        solve(matrix(x) + 3 * np.eye(3), x[:3]).sum() + inverse(matrix(x) + 2 * np.eye(3))[0, 1]
    ),
    "norms": lambda x: operator_norm(matrix(x)) + operator_norm(x[:4].reshape(2, 2)),
    "eigenvalues": lambda x: (
        lambda_min(matrix(x)) * lambda_max(matrix(x)) + lambda_max(x[:4].reshape(2, 2))
    ),
    "stretches": lambda x: stretch(x[:4].reshape(2, 2)).sum() + stretch(x[:1].reshape(1, 1)).sum(),
    "constants": lambda x: x[0] * math.pi + 0.1 * x[1],
    "length": lambda x: np.sqrt((x * x).sum()) + np.sqrt(((x - x[0]) ** 2).sum()),
    "of nothing": lambda x: operator_norm(0 * matrix(x)) + np.sqrt(0 * x[0] * x[0]),
}


@pytest.mark.parametrize("what", FORMULAS)
@pytest.mark.parametrize("seed", slow_but([0], range(6)))
def test_the_program_is_the_formula(what: str, seed: int) -> None:
    """Its value lies where the claim's own function has it in balls, to as many digits."""
    function = FORMULAS[what]
    rng = np.random.default_rng(seed)

    @rc.Paper("mine", "mine").upper("value", ref="1", on={"x": rc.interval(9, low=-1, high=1)})
    def value(x: Any) -> Any:
        "The value is below it, minus 1."
        y = function(x)
        return y, y - 1

    instance = {"x": rng.uniform(-1, 1, 9).round(3).tolist()}
    formula = at_instance(value, instance, 64)
    (case,) = enclose(value, instance, 128).cases
    program = check_formula.Program(unpacked(formula))
    with check_formula.flint.ctx.workprec(256):
        values = check_formula.evaluated(program, [*check_formula.numbers_of(instance["x"])])
        ((_, measured, _),), _ = program.leaves(lambda *_: True)
        low, high = check_formula.ends(values[int(measured)])
    assert max(low, case.measured[0]) <= min(high, case.measured[1])
    assert high - low <= (1e-9 if what == "constants" else 1e-60)


def test_what_is_compared_is_written_down() -> None:
    @rc.Paper("mine", "mine").upper("step", ref="1", on={"k": rc.whole_numbers(low=1, high=9)})
    def step(k: Any) -> Any:
        "A sum is at most 1."
        return sum((1 / (i + 1) for i in range(k)), 0 * k), 1 + 0 * k

    text = unpacked(at_instance(step, {"k": 3}, 64)).split("\n")
    assert [line for line in text if line[0] in "!?="][:1] == ["! == 0 1"]
    assert "const 3" in text
    proof = certify(step, {"k": 3})
    assert proof.certificate is not None
    content = {**proof.certificate, "instance": {"k": 2.0}}
    with pytest.raises(Wrong, match="must not say '! == 0 1'"):
        counterexample(content)


def test_a_formula_that_is_no_program_is_left_out() -> None:
    @rc.Paper("mine", "mine").upper("root", ref="1", on={"x": rc.interval(9)})
    def root(x: Any) -> Any:
        "A trace is at most -1."
        return np.trace(stretch(matrix(x) + np.eye(3))), 0 * x[0] - 1

    instance = {"x": [0.1 * k for k in range(9)]}
    with pytest.raises(Unprovable, match="the root of a matrix of three rows"):
        at_instance(root, instance, 64)
    proof = certify(root, instance)
    assert proof.certificate is not None
    assert "formula" not in proof.certificate
