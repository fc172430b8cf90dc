"""A theorem is proved of its claim only where both are the same functions on every branch."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ratecheck._certify import formulas
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.gram import correspondence
from ratecheck._certify.gram.correspondence import known
from ratecheck._certify.gram.declared import Theorem, disagreement, theorem_of
from ratecheck._certify.prove import prove
from ratecheck._claims.claim import Claim
from ratecheck._processes.limit import TimeLimit
from ratecheck._verdicts.certificates import assumptions, in_words
from ratecheck._verdicts.evidence import Evidence, of_certificate
from tests.ratecheck.certify._files import ClaimsOf

ITEMS = ClaimsOf("rare_theorems.py").items
#: False near one point, where the function is another one; and where a sign is another one.
OTHER = ["disc", "branch", "equal", "maximum", "loop", "size", "order", "root", "three"]
OTHER += ["indicators", "at"]
SIGNS = {
    "scaled": ["scale"],
    "imaginary": ["numbers under roots"],
    "power": ["bound"],
    "parameter": ["parameter a"],
}


def both(name: str) -> tuple[Theorem, Claim]:
    claim, theorem = ITEMS[name].entry, theorem_of(ITEMS[name])
    assert isinstance(claim, Claim)
    assert theorem is not None
    return theorem, claim


@cache
def proved_once(name: str) -> str:
    return json.dumps(prove(ITEMS[name], None).certificate)


def proved(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(proved_once(name))
    return content


@pytest.mark.parametrize("name", [*OTHER, *SIGNS])
def test_drawn_instances_do_not_tell_these_from_theorems(name: str) -> None:
    assert disagreement(*both(name)) == ""


@pytest.mark.parametrize("name", OTHER)
def test_a_claim_that_is_another_function_at_rare_points_is_not_proved(name: str) -> None:
    # a loop without end is left open after any time
    found = known(*both(name), seconds=0.6 if name == "loop" else correspondence.SECONDS)
    content = {**proved("plain"), "agrees": found.stated()}
    sizes, word = ([], Evidence.MET) if name != "three" else ([1, 2, 4], Evidence.SIZES)
    assert [one["d"] for one in found.sizes] == sizes
    assert of_certificate(content) == word
    assert in_words(content).startswith(f"{word} by exact rationals")


@pytest.mark.parametrize("name", OTHER)
def test_without_the_comparison_of_functions_they_would_be_proved(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formulas, "check_one", lambda *_: None)  # mutation
    monkeypatch.setattr(formulas, "program", lambda *_, **__: "")
    content = {**proved("plain"), "agrees": known(*both(name)).stated()}
    assert of_certificate(content) == Evidence.ALL


def test_a_theorem_that_is_given_no_numbers_on_a_branch_is_not_its_claim() -> None:
    found = known(*both("nowhere"))
    assert found.sizes == []
    assert "`at` and `scale` must give numbers; found nan" in found.left


def test_an_assumption_with_the_name_of_a_proved_claim_is_one_all_the_same() -> None:
    content = proved("plain")
    content["theorem"]["assumes"] = {"1. rare.harmless": "w >= 0"}
    assert of_certificate(content, {"rare.harmless": Evidence.ALL}) == Evidence.ASSUMED


@pytest.mark.parametrize("name", SIGNS)
def test_signs_that_are_not_known_are_assumptions(name: str) -> None:
    found = known(*both(name))
    assert len(found.sizes) == found.of
    assert found.stated()["signs"] == SIGNS[name]


@pytest.mark.parametrize("name", ["plain", "harmless", "irrational"])
def test_a_theorem_that_is_its_claim_on_every_branch_keeps_its_word(name: str) -> None:
    content = proved(name)
    assert content["agrees"] == {"of": 4, "sizes": [{"d": d} for d in (1, 2, 3, 4)]}
    assert of_certificate(content) == Evidence.ALL
    assert verify(content).startswith("proved for all dimensions by exact rationals from no assum")


def test_what_is_open_is_said_in_words() -> None:
    content = proved("three")
    assert content["agrees"]["sizes"] == [{"d": 1}, {"d": 2}, {"d": 4}]
    said = in_words(content)
    assert said.startswith("proved at sizes by exact rationals")
    assert "; it is the claim on every branch at 3 of 4 combinations of sizes, and at oth" in said
    assert verify(content).startswith(said)


@pytest.mark.parametrize("name", ["spectral", "divided"])
def test_nan_beside_sides_and_nan_of_a_side_say_nothing(name: str) -> None:
    assert known(*both(name)).stated().keys() == {"of", "sizes"}


def test_why_no_branch_is_known_is_said_in_words() -> None:
    said = in_words({**proved("plain"), "agrees": known(*both("disc")).stated()})
    assert "instances meet, and elsewhere open: a side of the theorem is not shown to be" in said


def test_a_rounded_constant_is_named() -> None:
    """1 / 3 in float64 is another number: what is stated of x / 3 is not the claim."""
    assert "e-17 of it apart, as where 1 / 3 * x is rounded" in disagreement(*both("third"))
    assert "any number for a rounded constant (0.3333333333333333)" in known(*both("third")).left


def test_whatever_at_raises_is_named_with_its_line() -> None:
    reason = disagreement(*both("lost"))
    assert reason.startswith("`at` must be evaluated in 40 digits: rare_theorems.py:")
    assert "has no attribute 'value'" in reason


def test_an_assumed_sign_is_listed() -> None:
    content = proved("parameter")
    assert of_certificate(content) == Evidence.ASSUMED
    assert assumptions(content) == ["sign of parameter a: >= 0"]
    assert "; assumed are the signs of parameter a" in verify(content)


Change = Callable[[dict[str, Any]], Any]
FALSE: dict[str, tuple[str, Change, str]] = {
    "a size at which it is another function": (
        "three",
        lambda agrees: agrees.update(sizes=[{"d": d} for d in (1, 2, 3, 4)]),
        "the theorem must be the claim at the sizes {'d': 3}",
    ),
    "no reason": ("three", lambda agrees: agrees.pop("left"), "`left` must begin with '1 others"),
    "a reason for nothing": ("plain", lambda agrees: agrees.update(left="1"), "must not be there"),
    "fewer sizes": ("three", lambda agrees: agrees.update(of=3), "`of` must be 4; found 3"),
    "a size twice": (
        "plain",
        lambda agrees: agrees["sizes"].append({"d": 1}),
        "must be different combinations",
    ),
    "sizes of no space": (
        "plain",
        lambda agrees: agrees["sizes"].append({"d": 5}),
        "must be different combinations",
    ),
    "no sign": ("parameter", lambda agrees: agrees.pop("signs"), "`signs` must have parameter a"),
    "another key": ("plain", lambda agrees: agrees.update(every=True), "`agrees` must have of,"),
    "another name": ("plain", lambda agrees: agrees.update(signs=["z"]), "`signs` must be among"),
    "no list": ("plain", lambda agrees: agrees.update(sizes={}), "must have lists"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_certificate_that_states_more_of_it_is_refused(what: str) -> None:
    name, change, reason = FALSE[what]
    content = proved(name)
    change(content["agrees"])
    with pytest.raises(Refused, match=reason):
        verify(content)


def test_a_certificate_may_state_less_of_it() -> None:
    content = proved("plain")
    content["agrees"] = {"of": 4, "sizes": [], "left": "4 others: not tried"}
    assert verify(content).startswith("holds on branches met by exact rationals")


def test_a_certificate_of_a_users_theorem_must_state_it() -> None:
    content = proved("plain")
    del content["agrees"]
    assert of_certificate(content) == Evidence.MET
    with pytest.raises(Refused, match="`agrees` must have of, sizes; found None"):
        verify(content)


def test_what_the_functions_raise_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    left = known(*both("strict")).stated()["left"]
    assert left.startswith("4 others: rare_theorems.py:")
    assert left.endswith("RuntimeError: no such numbers")

    def late(*_: Any, **__: Any) -> str:
        try:
            raise TimeLimit("no answer within 2 s of CPU time")
        except TimeLimit as error:
            raise SystemError("a result with an exception set") from error

    monkeypatch.setattr(formulas, "program", late)  # as a product of matrices does
    assert known(*both("plain")).stated()["left"] == "4 others: no answer within 2 s of CPU time"
