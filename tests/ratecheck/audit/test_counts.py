"""Whole numbers of an instance: accepted where Python counts, and floats in arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import precise, precision
from ratecheck._claims import counts
from ratecheck._claims.counts import counting

PAPER = rc.Paper("mine", "my paper")
STEPS = {"K": rc.whole_numbers(low=0, high=40), "x": rc.interval()}


def declared(measure: Any, on: Any = STEPS, kind: str = "upper") -> Any:
    measure.__doc__ = "As stated."
    return getattr(PAPER, kind)("claim", ref="Lemma 1", on=on)(measure)


def summed(K: Any, x: Any) -> Any:
    total = 0 * x
    for _ in range(K):
        total = total + x
    return total


def test_a_range_is_one_in_a_search_and_in_high_precision() -> None:
    assert rc.judge(declared(lambda K, x: (summed(K, x), K * x))).verdict == "holds"
    short = rc.judge(declared(lambda K, x: (summed(K, x), (K - 1) * x)))
    assert short.verdict == "violated"
    assert short.evidence == "confirmed at 40 and 80 digits"


def test_other_places_that_take_integers() -> None:
    def everywhere(K: Any, x: Any) -> Any:
        powers = np.arange(41)[K] + len([0][:K]) + math.comb(K, 2)
        return powers * x + np.zeros((K, 2)).shape[0], K**2 * x + 2 * K + 1

    assert rc.judge(declared(everywhere)).verdict == "holds"


def test_proofs_take_a_range_as_well() -> None:
    assert rc.certify(declared(lambda K, x: (summed(K, x), K * x), kind="identity")).certificate
    assert rc.certify(declared(lambda K, x: (summed(K, x), K * x / 2))).certificate


def test_a_repair_gets_numbers_that_count() -> None:
    def repaired(one: dict[str, Any]) -> dict[str, Any]:
        return one | {"x": one["x"] / (1 + len(range(one["K"])))}

    space = rc.Space(fields=STEPS, repair=repaired)
    assert rc.judge(declared(lambda K, x: (x * (1 + K), 1 + 0 * x), on=space)).verdict == "holds"


def powers(K: Any, x: Any) -> Any:
    """Beyond 2^63, where NumPy's integers start again from below."""
    return K, np.array([K]) ** 20 + x


def test_powers_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rc.judge(declared(powers)).verdict == "holds"
    # as integers of Python they would, in the array
    seen: list[bool] = []

    def watched(K: Any, x: Any) -> Any:
        left, right = powers(K, x)
        seen.append(bool((left > right).any()) if isinstance(K, int) else False)
        return left, right

    monkeypatch.setattr("ratecheck._claims.space.counting", int)
    rc.judge(declared(watched))
    assert any(seen)


@pytest.mark.parametrize("number", [0.0, 3.0, 1e15])
def test_arithmetic_has_the_bits_of_floats(number: float) -> None:
    plain, one = np.float64(number), counting(np.float64(number))
    for value in (one + 0.1, one / 3, one**0.5, np.exp(-one), 2 * one, -one):
        assert type(value) is np.float64
    assert [one + 0.1, one / 3, np.exp(-one)] == [plain + 0.1, plain / 3, np.exp(-plain)]
    assert np.asarray([one, 0.5]).dtype == np.float64
    assert one.__index__() == int(number)


def test_high_precision_numbers_keep_their_digits() -> None:
    with precision(40):
        plain, tenth = precise([7, 0.1])
        one = counting(plain)
        assert list(range(one)) == list(range(7))
        assert type(one * tenth) is type(1 - one) is type(plain)
        assert one * tenth == plain * tenth
        assert np.exp(np.array([one]))[0] == np.exp(np.array([plain]))[0]


def test_other_numbers_stay_as_they_are() -> None:
    array = np.array([1.0, 2.0])
    assert counting(array) is array
    assert set(counts._KINDS) == {np.float64, type(precise([1.0])[0])}


def test_numbers_of_an_array_are_told_what_to_do() -> None:
    on = {"K": rc.whole_numbers("n", low=0, high=5)}
    said = rc.judge(declared(lambda K: (sum(range(K[0])), 10), on=on)).reason
    assert "(int(n) makes an integer of a whole number that is one of an array or was comp" in said
    assert rc.judge(declared(lambda K: (sum(range(int(K[0]))), 10), on=on)).verdict == "holds"
