"""Branches whose comparisons exclude each other are left out, and no others."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from linsys.linalg import branching
from ratecheck._certify import every_branch as module, no_instance
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.every_branch import Open, every_branch
from ratecheck._certify.on_a_branch import Branch
from ratecheck._certify.prove import prove
from ratecheck._certify.random_points import anywhere
from ratecheck._verdicts.evidence import Evidence, of_certificate
from tests.ratecheck.certify._files import ClaimsOf

claim = ClaimsOf("exclusions.py")
TRUE = ("square", "determinant", "divided", "circle", "ends", "given")
#: How equations are found, by the claims that need them.
NEEDED = {
    "_by_squares": ("determinant",),
    "_by_products": ("divided",),
    "_by_sums": ("circle", "ends"),
}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an instance is found, that takes far less."""
    monkeypatch.setattr(module, "_SECONDS", 0.5)


@pytest.mark.parametrize("name", TRUE)
def test_a_branch_whose_comparisons_exclude_each_other_is_left_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = every_branch(claim(name), {}, secrets.randbelow)
    assert found.empty >= 1
    assert found.chance < -100
    monkeypatch.setattr(module, "nowhere", lambda *arguments: None)  # mutation
    with pytest.raises(Open, match="no instance there is known"):
        every_branch(claim(name), {}, secrets.randbelow)


@pytest.mark.parametrize("way", NEEDED)
def test_each_kind_of_equation_is_needed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_instance, way, lambda *arguments: None)  # mutation
    for name in NEEDED[way]:
        with pytest.raises(Open, match="no instance there is known"):
            every_branch(claim(name), {}, secrets.randbelow)


def test_a_branch_with_an_instance_is_not_left_out() -> None:
    with pytest.raises(Broken, match="the sides differ at an instance"):
        every_branch(claim("indefinite"), {}, secrets.randbelow)


def test_an_equation_counts_only_in_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64 a number is a sum of squares that is not one, and its identity is false."""
    asked: list[Any] = []
    right = no_instance._Exact.__call__

    def noted(exact: Any, equation: Any, apart: Any = ()) -> bool:
        asked.append(right(exact, equation, apart))
        return bool(asked[-1])

    monkeypatch.setattr(no_instance._Exact, "__call__", noted)
    with pytest.raises((Open, Broken)):
        every_branch(claim("nearly"), {}, secrets.randbelow)
    assert False in asked
    monkeypatch.setattr(no_instance._Exact, "__call__", lambda *arguments: True)  # mutation
    assert every_branch(claim("nearly"), {}, secrets.randbelow).empty == 1


@pytest.mark.parametrize("name", ["square", "determinant"])
def test_signs_are_those_of_the_branch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the signs of other outcomes nothing is excluded."""
    right: Callable[..., Any] = no_instance._Sample

    def turned(branch: Any) -> Any:
        sample = right(branch)
        compared = range(sample.divisors.start)
        for place, sign in sample.signs.items():
            if place in compared:
                sample.signs[place] = no_instance._Sign(-sign.way, sign.strict, sign.after)
        return sample

    monkeypatch.setattr(no_instance, "_Sample", turned)  # mutation
    with pytest.raises(Open, match="no instance there is known"):
        every_branch(claim(name), {}, secrets.randbelow)


def test_an_equation_with_roots_may_need_all_signs_of_its_branch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the branch is excluded as a whole, and not all that begins like it."""
    with pytest.raises((Open, Broken)):
        every_branch(claim("later"), {}, secrets.randbelow)
    monkeypatch.setattr(no_instance._Exact, "after", lambda exact, after: after)  # mutation
    assert every_branch(claim("later"), {}, secrets.randbelow).empty >= 1


def test_what_is_not_negative_may_be_zero_everywhere() -> None:
    with pytest.raises((Open, Broken)):
        every_branch(claim("sure"), {"n": 2, "S": 1}, secrets.randbelow)


@pytest.mark.parametrize("name", ["vanishing", "huge"])
def test_what_is_no_finite_number_excludes_nothing(name: str) -> None:
    with pytest.raises((Open, Broken)):
        every_branch(claim(name), {}, secrets.randbelow)


def test_on_what_numbers_depend_is_not_said_where_there_are_others_at_each_point() -> None:
    branch = Branch(claim("determinant"), {}, anywhere, (), {}, False)
    sample = no_instance._Sample(branch)
    assert any(sample.needs().values())
    sample.count += 1  # as if there had been one more at the first point
    assert not any(sample.needs().values())


def test_where_only_a_null_set_is_left_the_word_says_so() -> None:
    """a = b is such a set: there the sides differ, and nothing is said of it."""
    found = every_branch(claim("edge"), {}, secrets.randbelow)
    assert found.ties
    strictly = every_branch(claim("square"), {}, secrets.randbelow)
    assert not strictly.ties


def test_where_a_root_or_a_logarithm_begins_is_such_a_null_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """a = 0.3: there is no way of its own there, and none that was looked at."""
    found = every_branch(claim("end"), {}, secrets.randbelow)
    assert found.empty >= 1
    assert found.ties
    monkeypatch.setattr(branching, "_may_vanish", lambda number: False)  # mutation
    assert not every_branch(claim("end"), {}, secrets.randbelow).ties


def test_a_certificate_says_how_often_and_is_verified() -> None:
    content = dict(prove(claim.items["circle"], None).certificate or {})
    assert (content["branches"], of_certificate(content)) == ("every one", Evidence.SIZES)
    assert content["empty"] >= 1
    assert verify(content).startswith("identity: true for all sizes")
    for name in ("empty", "ways"):
        with pytest.raises(Refused, match=f"`{name}` must"):
            verify({**content, name: 0})
    assert verify({**content, "ties": "left out"}) == verify(content)  # which says less
    with pytest.raises(Refused, match="`ties` must not be there"):
        verify({**content, "ties": 1})
