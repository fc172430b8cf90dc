"""Identities are decided at random points, with degrees that are bounds."""

from __future__ import annotations

import copy
import json
import random
from fractions import Fraction
from typing import Any

import flint
import pytest

import ratecheck as rc
from linsys.linalg import degrees, precise, solve
from linsys.linalg.degree_arithmetic import rational_arithmetic
from linsys.linalg.degrees import NotRational, Rational
from ratecheck._certify import against_claims, at_a_point, every_branch, identities
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.identities import Broken, decide
from ratecheck._certify.prove import prove
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import find_claims
from ratecheck._processes.limit import TimeLimit
from tests.ratecheck.certify._files import ClaimsOf

claim = ClaimsOf("identities.py")
ITEMS = claim.items


@pytest.mark.parametrize("name", ["square", "cramer", "centred", "long", "root", "sigmoid"])
def test_a_true_identity_is_decided(name: str) -> None:
    outcome = decide(claim(name))
    assert outcome.chance < -100
    assert outcome.all_sizes
    assert len(outcome.sizes) == 3
    assert not outcome.compares
    assert outcome.formal == (name in ("root", "sigmoid"))


@pytest.mark.parametrize("name", ["unused", "branch", "softmax", "lengths"])
def test_a_true_identity_with_comparisons_is_decided_on_the_branches_met(name: str) -> None:
    """The sign of sqrt(x^2) + x is a comparison as well, without which sqrt(x^2) is not x."""
    outcome = decide(claim(name))
    assert outcome.all_sizes
    assert outcome.compares
    assert (outcome.every == outcome.sizes) == (name != "lengths")


def test_both_signs_of_a_vector_of_one_entry_are_tried() -> None:
    outcome = decide(claim("powers"))
    assert outcome.compares
    assert outcome.every == outcome.sizes


@pytest.mark.parametrize("name", ["signed", "logs", "square_of_e", "five", "one_branch", "off"])
def test_a_false_identity_is_seen(name: str) -> None:
    with pytest.raises(Broken, match="the sides differ"):
        decide(claim(name))


def test_sizes_that_nothing_decides_are_left_out() -> None:
    """Square roots of matrices of three rows have no closed form here."""
    outcome = decide(claim("parts"))
    assert outcome.sizes == ({"d": 1}, {"d": 2})
    assert not outcome.all_sizes
    assert outcome.left.startswith("1 others: ")
    with pytest.raises(Unprovable):
        decide(claim("parts"), sizes=[{"d": 2}, {"d": 3}])


def test_a_limit_of_time_leaves_sizes_out() -> None:
    with pytest.raises(TimeLimit):
        decide(claim("cramer"), limit=0.0)


def test_sizes_that_take_longer_than_their_share_say_what_takes_less() -> None:
    space = {"t": rc.whole_numbers(low=1, high=10**6), "e": rc.interval()}

    @rc.Paper("mine", "mine").identity("power", ref="1", on=space)
    def power(t: Any, e: Any) -> Any:
        """A power of a million factors."""
        return (1 - e) ** t / (1 + e), (1 - e) ** t / (1 + e)

    with pytest.raises(TimeLimit, match=r"a share of 1 s \(--limit\); smaller whole numbers"):
        decide(power, limit=1.0)


def test_a_limit_that_ends_a_product_of_matrices_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy goes on with a product after an exception, and Python raises a SystemError for it."""

    def ended(*args: Any) -> Any:
        error = SystemError("returned a result with an exception set")
        error.__cause__ = TimeLimit("no answer")
        raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr(at_a_point, "_difference", ended)
    with pytest.raises(TimeLimit, match="no answer"):
        decide(claim("square"), limit=9.0)


def test_the_degree_is_that_of_the_difference() -> None:
    assert decide(claim("square")).degree == 2


def test_all_that_the_rules_compare_counts() -> None:
    outcome = decide(claim("sigmoid"))
    assert outcome.degree > 2**20
    assert outcome.chance < -100


def test_branches_are_named() -> None:
    outcome = decide(claim("largest"))
    assert outcome.compares
    assert outcome.branches > 3


def test_a_difference_beyond_every_float_is_seen() -> None:
    with pytest.raises(Broken, match="the sides differ by"):
        decide(claim("nearly"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("beyond", "neither rules nor enclosures say whether a number is zero"),
        ("constant", "the constant 1.414"),
    ],
)
def test_what_leaves_the_arithmetic_says_so(name: str, reason: str) -> None:
    with pytest.raises(Unprovable, match=reason):
        decide(claim(name))
    outcome = prove(ITEMS[name], None)
    assert outcome.certificate is None
    assert reason in outcome.reason


def test_the_chance_says_how_often_a_false_identity_passes() -> None:
    """With coordinates of 2 bits, x (x - 1/4) (x + 1/4) x = 0 is seen at one point in four."""
    from ratecheck import claim as declare, reals

    @declare(id="same.roots", source="", kind="identity", text="", fields={"x": reals()})
    def roots(x: Any) -> Any:
        return x * (x * x - Fraction(1, 4)), 0 * x

    with pytest.raises(Broken):
        decide(roots)
    zeros = iter([0, 2**164 // 4, 2**164 * 3 // 4] * 20)
    # coordinates 0, 1/4, 3/4 are x = -1, -1/2, 1/2
    with pytest.raises(Broken):
        decide(roots, lambda limit: next(zeros) % limit)
    zeros = iter([2**164 // 4, 2**164 * 3 // 4, 2**164 // 2] * 20)
    assert decide(roots, lambda limit: next(zeros) % limit).degree == 3


class Quotient:
    """A quotient of polynomials of one variable, in lowest terms."""

    def __init__(self, top: Any, bottom: Any = 1) -> None:
        top, bottom = flint.fmpq_poly(top), flint.fmpq_poly(bottom)
        common = top.gcd(bottom)
        self.top, self.bottom = top // common, bottom // common

    def __add__(self, other: Quotient) -> Quotient:
        top = self.top * other.bottom + other.top * self.bottom
        return Quotient(top, self.bottom * other.bottom)

    def __sub__(self, other: Quotient) -> Quotient:
        return self + other * Quotient(-1)

    def __mul__(self, other: Quotient) -> Quotient:
        return Quotient(self.top * other.top, self.bottom * other.bottom)

    def __truediv__(self, other: Quotient) -> Quotient:
        return Quotient(self.top * other.bottom, self.bottom * other.top)


def wrong_degrees(count: int) -> int:
    """Of so many random quotients in x, those with degrees beyond the bounds, or other values."""
    rng, wrong = random.Random(3), 0
    x = 7
    for _ in range(count):
        with rational_arithmetic():
            tracked, true = [Rational(x, 1), Rational(2)], [Quotient([0, 1]), Quotient(2)]
            for _ in range(6):
                i, j, name = rng.randrange(len(true)), rng.randrange(len(true)), rng.choice("+-*/")
                if name == "/" and tracked[j].value == 0:
                    continue
                for numbers in (tracked, true):
                    a, b = numbers[i], numbers[j]
                    method = {"+": "add", "-": "sub", "*": "mul", "/": "truediv"}[name]
                    numbers.append(getattr(a, f"__{method}__")(b))
            last, quotient = tracked[-1], true[-1]
        wrong += not (
            quotient.top.degree() <= last.top
            and quotient.bottom.degree() <= last.bottom
            and quotient.top(x) / quotient.bottom(x) == last.value
        )
    return wrong


def test_degrees_are_bounds() -> None:
    assert wrong_degrees(300) == 0


@pytest.mark.parametrize("name", ["_sum", "_product", "_quotient"])
def test_a_degree_that_is_too_small_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = getattr(degrees, name)

    def smaller(a: Rational, b: Rational) -> Rational:
        number = true(a, b)
        return Rational(number.value, max(a.top, b.top), max(a.bottom, b.bottom))

    monkeypatch.setattr(degrees, name, smaller)
    assert wrong_degrees(300) > 0


def test_the_degrees_of_a_solution_are_bounds() -> None:
    """The entries of A^-1 b for A = [[x, 1], [1, x^2]] and b = (1, x) are of degree 3 over 3."""
    with rational_arithmetic():
        x: Any = Rational(5, 1)
        outcome = solve(precise([[x, 1], [1, x * x]]), precise([1, x]))
    assert [entry.value for entry in outcome] == [flint.fmpq(20, 124), flint.fmpq(24, 124)]
    assert all(entry.top >= 3 and entry.bottom >= 3 for entry in outcome)


def test_what_depends_on_the_point_becomes_no_float() -> None:
    with rational_arithmetic():
        x = Rational(5, 1)
        with pytest.raises(NotRational, match="a float"):
            float(x)
        assert float(Rational(Fraction(1, 4))) == 0.25


def proved(name: str) -> dict[str, Any]:
    content = prove(ITEMS[name], None).certificate
    assert content is not None
    return dict(json.loads(json.dumps(content)))


def test_a_certificate_of_an_identity_is_accepted() -> None:
    said = "identity: true for all sizes, but for a chance below 2^-100"
    assert verify(proved("square")) == said
    assert "on every branch" in verify(proved("largest"))
    assert "on the branches that the points met" in verify(proved("lengths"))
    assert proved("powers")["whole"] == {"n": "every one"}
    assert proved("root")["arithmetic"].startswith("exact rationals, roots and exponentials")
    assert "left" not in proved("root")


def test_a_certificate_of_some_sizes_is_of_these() -> None:
    content = proved("parts")
    assert content["left"].startswith("1 others: ")
    assert verify(content).startswith("identity: true for 2 combinations of sizes on every")
    for change, reason in (
        ({"all_sizes": True}, "`all_sizes` must be False"),
        ({"sizes": [{"d": 2}, {"d": 3}]}, "the two sides must be equal"),
        ({"sizes": []}, "`sizes` must be combinations"),
        ({"sizes": [{"d": 4}]}, "`sizes` must be combinations"),
        ({"arithmetic": "exact rationals at random points"}, "`arithmetic` must be exact ration"),
    ):
        with pytest.raises(Refused, match=reason):
            verify(content | change)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": "same.nearly"}, "the two sides must be equal at random points"),
        ({"id": "same.signed"}, "the two sides must be equal at random points"),
        ({"sizes": [{"d": 4}]}, "`sizes` must be"),
        ({"all_sizes": False}, "`all_sizes` must be True"),
        ({"branches": "those that the points met"}, "`branches` must be none"),
        ({"drawn": ["n"]}, r"`drawn` must be \[\]"),
        ({"log2_chance": -200}, "`log2_chance` must be -100"),
        ({"arithmetic": "balls"}, "`arithmetic` must be exact rationals"),
        ({"revision": "0123456789abcdef"}, "`revision` must be"),
    ],
)
def test_a_false_certificate_of_an_identity_is_refused(change: dict[str, Any], reason: str) -> None:
    content = copy.deepcopy(proved("square")) | change
    with pytest.raises(Refused, match=reason):
        verify(content)


def test_a_checker_that_draws_no_points_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    content = proved("square")
    outcome = decide(claim("square"))
    monkeypatch.setattr(against_claims, "decide", lambda claim, sizes, every: outcome)
    with pytest.raises(Refused, match="`formula` must have the programs of the claim"):
        verify(content | {"id": "same.nearly"})
    del content["formula"]
    assert verify(content | {"id": "same.nearly"}).startswith("identity: true")


@pytest.mark.slow
def test_no_false_identity_of_the_papers_is_decided() -> None:
    """One of them is false on an open set that the points may miss, and a search does not."""
    tried = 0
    for item in find_claims([]):
        entry = item.entry
        if isinstance(entry, Claim) and entry.relation == "==" and entry.expect == "violated":
            tried += 1
            assert prove(item, None, limit=5.0).certificate is None, item.id
    assert tried >= 20


def below_half(limit: int) -> int:
    """Draws from the lower half, so that numbers from [0, 1] are below 1/2."""
    return random.Random(limit).randrange(limit // 2 or 1)


def test_a_false_identity_that_the_points_miss_is_found_by_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @rc.Paper("mine", "my paper").identity("above", ref="1", on={"x": rc.interval()})
    def above(x: Any) -> rc.Sides:
        """x = x, but above 3/4."""
        return x, 2 * x if x > 0.75 else x

    with pytest.raises(Broken, match="the sides differ at an instance that a search finds"):
        decide(above, below_half)
    monkeypatch.setattr(identities, "_search", lambda claim, seconds: None)  # mutation
    monkeypatch.setattr(every_branch, "instance_on", lambda *arguments: None)
    assert decide(above, below_half).differ


def test_the_search_is_of_identities_that_compare_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @rc.Paper("mine", "my paper").identity("slow", ref="1", on={"x": rc.interval()})
    def slow(x: Any) -> rc.Sides:
        """x = x, in float64 after a while."""
        while isinstance(x, float):
            pass
        return x, x + 0 if x > 0.75 else x

    monkeypatch.setattr(identities, "_SECONDS", 0.1)
    monkeypatch.setattr(at_a_point, "_check_floats", lambda *arguments: None)
    assert decide(slow).compares
    searched: list[Claim] = []
    monkeypatch.setattr(identities, "_search", lambda claim, seconds: searched.append(claim))
    decide(claim("square"))
    assert searched == []
    decide(claim("branch"))
    assert searched == [claim("branch")]
