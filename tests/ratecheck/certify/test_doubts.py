"""Nothing is called proved on a doubt: false identities that are true nearly everywhere."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from linsys.linalg import degrees, ranges
from linsys.linalg.branching import Branching
from linsys.linalg.degrees import Rational, rational_arithmetic
from linsys.linalg.ranges import NULL, Range
from ratecheck._certify import at_a_point
from ratecheck._certify.every_branch import Open, every_branch
from ratecheck._certify.identities import decide
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts.verdict import judge

FILE = Path(__file__).with_name("doubts.py")
ITEMS = {item.id.partition(".")[2]: item for item in find_claims([str(FILE)])}


def claim(name: str) -> Claim:
    entry = ITEMS[name].entry
    assert isinstance(entry, Claim)
    return entry


@pytest.mark.parametrize("name", ["infinite", "opposite"])
def test_an_infinite_side_is_equal_to_no_other(name: str) -> None:
    with pytest.raises(Open, match="the sides differ: inf and "):
        every_branch(claim(name), {}, secrets.randbelow)


def test_sides_that_are_infinite_alike_are_equal() -> None:
    outcome = decide(claim("alike"))
    assert (outcome.every, outcome.ways) == (({},), 2)


def test_a_side_that_is_not_compared_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_a_point, "_difference", lambda one, other, of_a_branch: 0)  # mutation
    assert every_branch(claim("infinite"), {}, secrets.randbelow).count == 4


def test_the_ends_of_an_interval_may_be_whole_numbers_of_python() -> None:
    assert decide(claim("ends")).chance < -100


def test_the_product_of_two_imaginary_roots_is_told() -> None:
    verdict = judge(claim("roots"))
    assert verdict.verdict == "error"
    assert "complex numbers: a root or logarithm of a negative one" in verdict.reason


def test_a_quotient_by_nothing_but_zero_has_any_value() -> None:
    nothing = Range(0.0, 0.0, NULL)
    assert ranges.over(Range(1.0, 2.0), nothing) == Range(-float("inf"), float("inf"))


def counted(same: bool) -> int:
    """What a product of two numbers adds to the chance, which are taken for one if they are equal.

    Of x x and y y one is taken for a square, and so for a number that is not negative.
    """
    with rational_arithmetic(Branching((), secrets.randbelow, 200, False)):
        x, y = Rational(3, 5, 1), Rational(3, 4, 2)
        before = degrees.compared()
        product = x * (x if same else y)
        assert product.range is not None
        return degrees.compared() - before


def test_that_two_numbers_are_taken_for_one_is_counted() -> None:
    """x - y has a numerator of degree 5 + 2 at most."""
    assert counted(same=True) == 0
    assert counted(same=False) == 7


def test_a_number_that_is_taken_for_one_that_was_compared_before_is_counted() -> None:
    branching = Branching((), secrets.randbelow, 200, False)
    with rational_arithmetic(branching):
        x, y = Rational(3, 50), Rational(3, 60)
        assert x > 0
        before = branching.compared
        assert y > 0
    assert branching.taken == [True]
    assert branching.compared - before >= 60 + 2 * 61
