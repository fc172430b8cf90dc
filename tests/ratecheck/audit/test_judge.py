"""Tightness, and the certificate that high precision gives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import precise
from ratecheck._claims.certificates import Certificate, certify, collapsed, evaluate, ratio
from ratecheck._claims.samples import Batch
from ratecheck._claims.space import Fault

PAIRS = rc.Space(fields={"m": rc.reals(), "b": rc.reals()}, batched=True)
VECTORS = rc.Space(
    fields={"x": rc.reals("d"), "y": rc.reals("d")}, sizes={"d": (1, 3)}, batched=True
)


def claim(kind: str = "upper", measure: Any = None, space: rc.Space = PAIRS) -> rc.Claim:
    return rc.Claim(
        id="mine.claim", source="", text="", kind=kind, space=space,  # type: ignore[arg-type]
        measure=measure or (lambda s: (s.m, s.b)),
    )  # fmt: skip


def batch(m: list[float], b: list[float]) -> Batch:
    return Batch(PAIRS, {"m": np.array(m), "b": np.array(b)}, {})


def one(m: float, b: float) -> dict[str, Any]:
    return {"m": np.array([m]), "b": np.array([b])}


@pytest.mark.parametrize(
    ("kind", "m", "b", "expected"),
    [
        ("upper", 1, 2, 0.5), ("upper", 2, 2, 1), ("upper", 4, 2, 1.5), ("upper", 4, 0, 2),
        ("upper", -1, 2, -0.5), ("upper", 0, 0, 0),
        ("lower", 2, 1, 0.5), ("lower", 1, 2, 1.5), ("lower", 0, 2, 2),
        ("identity", 2, 2, 1), ("identity", 1, 2, 1.5), ("identity", -2, 2, 3),
    ],
)  # fmt: skip
def test_tightness(kind: str, m: float, b: float, expected: float) -> None:
    tight = evaluate(claim(kind), batch([m], [b])).tightness
    assert tight == pytest.approx([expected], abs=1e-12)


def test_the_worst_entry_counts() -> None:
    sides = evaluate(
        claim(measure=lambda s: (s.x, np.abs(s.y)), space=VECTORS),
        Batch(VECTORS, {"x": np.array([[1.0, 3.0]]), "y": np.array([[2.0, 4.0]])}, {"d": 2}),
    )
    assert (sides.measured[0], sides.bound[0]) == (3, 4)


def test_vectors_are_compared_as_vectors() -> None:
    fields = {"x": np.array([[1e6, 1e-9]]), "y": np.array([[1e6, 2e-9]])}
    sides = evaluate(
        claim("identity", lambda s: (s.x, s.y), VECTORS), Batch(VECTORS, fields, {"d": 2})
    )
    assert sides.tightness[0] == pytest.approx(1, abs=1e-10)


def test_a_side_without_agents_counts_for_all() -> None:
    measured = claim(measure=lambda s: (np.abs(s.x), 10 + 0 * s.y[:, 0]), space=VECTORS)
    fields = {"x": np.array([[1.0, -5.0]] * 3), "y": np.ones((3, 2))}
    assert evaluate(measured, Batch(VECTORS, fields, {"d": 2})).tightness == pytest.approx(
        [0.5] * 3
    )


#: What a measure of one instance may return for 3 and 4, or for two entries: numbers of any type.
SIDES = [
    (3.0, 4.0), (np.float64(3), 4.0), (3, 4), (3.0, 4), [3.0, 4.0], np.array([3.0, 4.0]),
    (np.array(3.0), np.array(4.0)), (np.array([3.0]), np.array([[4.0]])), ([3.0], 4),
    (np.float32(3), np.int64(4)), (Fraction(3), Fraction(4)), (np.array([3.0, 1.0]), 4),
    (np.array([3.0, 1.0]), np.array([4.0, 4.0])), (np.array([3, 1]), np.array([4.0, 4.0])),
]  # fmt: skip


@pytest.mark.parametrize("sides", SIDES, ids=repr)
def test_equal_numbers_of_any_type_are_equal_sides(sides: Any) -> None:
    single = rc.Space(fields={"m": rc.reals(), "b": rc.reals()})
    found = evaluate(claim(measure=lambda s: sides, space=single), Batch(single, one(1.0, 1.0), {}))
    assert (found.measured.tolist(), found.bound.tolist()) == ([3.0], [4.0])
    assert found.measured.dtype == found.bound.dtype == np.float64
    assert found.tightness == pytest.approx([0.75])


@pytest.mark.parametrize(
    "sides",
    [
        (np.zeros(0), np.zeros(0)), (True, 1.0), (1.0, np.True_), (1.0, 1j), (1.0, "x"),
        (1.0,), (1.0, 2.0, 3.0), (np.zeros(2), np.zeros(3)), (np.float64("nan"), 1.0),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_number_is_a_fault(sides: Any) -> None:
    single = rc.Space(fields={"m": rc.reals(), "b": rc.reals()})
    with pytest.raises(Fault, match=r"^measure "):
        evaluate(claim(measure=lambda s: sides, space=single), Batch(single, one(1.0, 1.0), {}))


def test_instances_must_come_first() -> None:
    turned = claim(measure=lambda s: (s.x.T, s.y.T), space=VECTORS)
    fields = {"x": np.ones((3, 2)), "y": np.ones((3, 2))}
    with pytest.raises(Fault, match="for each of 3 instances, along the first axis"):
        evaluate(turned, Batch(VECTORS, fields, {"d": 2}))


def test_nan_that_high_precision_resolves_is_rounding() -> None:
    overflow = claim(measure=lambda s: ((1e200 * s.m) ** 2 / (1e200 * s.b) ** 2, 1 + s.b**2))
    sides = evaluate(overflow, batch([1.0, 0.0], [1.0, 1.0]))
    assert sides.tightness == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "sides"),
    [
        (lambda s: (np.where(s.m == 0, np.nan, s.m), s.b), "measured"),
        (lambda s: (s.b, np.where(s.m == 0, np.nan, s.m)), "bound"),
        (lambda s: [np.where(s.m == 0, np.nan, s.m)] * 2, "measured and as bound"),
    ],
)
def test_nan_that_stays_is_a_fault_that_names_the_side(measure: Any, sides: str) -> None:
    told = f"^measure returned NaN as {sides} \\(`given=` leaves out"
    with pytest.raises(Fault, match=told) as caught:
        evaluate(claim(measure=measure), batch([1.0, 0.0], [1.0, 1.0]))
    assert caught.value.index == 1
    with pytest.raises(Fault, match=f"^measure returned NaN as {sides}$"):
        certify(claim(measure=measure), one(0.0, 1.0))


def test_a_certificate_tells_a_violation_from_rounding() -> None:
    sums = claim(measure=lambda s: (s.m + s.b, 3 * s.m))
    assert 0.1 + 0.2 > 0.3  # in float64
    assert not certify(sums, one(0.1, 0.2)).violated
    assert certify(sums, one(0.1, 0.2001)).violated


def test_a_fraction_is_a_constant_of_every_precision() -> None:
    space = rc.Space(fields={"p": rc.simplex(3)})

    def smallest(p: Any, third: Any = Fraction(1, 3)) -> rc.Sides:
        return p.min(), third

    holds = claim(measure=smallest, space=space)
    assert rc.judge(holds).verdict == "holds"
    uniform = {"p": precise([[Fraction(1, 3)] * 3])}
    sides = certify(holds, uniform)
    assert (sides.violated, sides.tightness) == (False, 1.0)
    less = claim(measure=lambda p: smallest(p, Fraction(1, 3) - Fraction(1, 10**10)), space=space)
    assert certify(less, uniform).violated
    rounded = claim(measure=lambda p: smallest(p, 1 / 3), space=space)
    refused = rc.judge(rounded)
    assert (refused.verdict, refused.instances) == ("error", 2)  # before the search
    assert "Fraction(1, 3) in place of 1/3" in refused.reason
    with pytest.raises(Fault, match="rounded to float64"):
        certify(rounded, uniform)


def test_fractions_multiply_whole_arrays() -> None:
    third = Fraction(1, 3)
    fields = {"x": np.array([[1.0, 3.0]]), "y": np.array([[1.0, 1.0]])}
    equal = claim("identity", lambda s: (s.x * third, s.x / 3), VECTORS)
    assert evaluate(equal, Batch(VECTORS, fields, {"d": 2})).tightness == pytest.approx([1])
    assert certify(equal, fields).tightness == pytest.approx(1, abs=1e-30)
    other = claim("identity", lambda s: (s.x * third, s.x / 4), VECTORS)
    assert certify(other, fields).violated


def test_a_certificate_reads_floats_as_decimals() -> None:
    proof = certify(claim(), one(0.1, 0.3))
    assert proof.text == ("0.1", "0.3")
    assert (proof.measured, proof.bound, proof.violated) == (0.1, 0.3, False)


@pytest.mark.parametrize("kind", ["upper", "lower", "identity"])
def test_an_excess_like_that_of_a_rounded_constant_is_none(kind: str) -> None:
    shift = 1e-14 if kind == "upper" else -1e-14
    almost = claim(kind, lambda s: (s.m * (1 + precise([shift])[0]), s.m))
    assert not certify(almost, one(1.0, 1.0)).violated
    clear = claim(kind, lambda s: (s.m * (1 + precise([1e4 * shift])[0]), s.m))
    assert certify(clear, one(1.0, 1.0)).violated


@pytest.mark.parametrize(("kind", "sign"), [("upper", 1), ("lower", -1), ("identity", 1)])
def test_sides_beyond_float64_are_compared_all_the_same(kind: str, sign: int) -> None:
    """exp(1000 m) and exp(1000 b): infinite in float64, and told apart in high precision."""
    grown = claim(kind, lambda s: (np.exp(1000 * s.m), np.exp(1000 * s.b)))
    assert certify(grown, one(1.0 + 0.1 * sign, 1.0)).violated
    assert not certify(grown, one(1.0, 1.0)).violated
    if kind != "identity":
        assert not certify(grown, one(1.0 - 0.1 * sign, 1.0)).violated


def test_rounding_beyond_float64_is_rounding() -> None:
    def rounding(s: Any) -> Any:
        return np.exp(1000 * s.m) * np.abs(np.sqrt(s.b) ** 2 - s.b), 0 * s.m

    assert not certify(claim(measure=rounding), one(1.0, 2.0)).violated


def test_an_excess_that_shrinks_with_the_precision_is_rounding() -> None:
    magnified = claim("identity", lambda s: (1e60 * (np.sqrt(s.m) ** 2 - s.m), 0 * s.m))
    assert not certify(magnified, one(2.0, 1.0)).violated


def test_high_precision_must_not_be_left() -> None:
    with pytest.raises(Fault, match=r"leaves high precision, .* in place of s\.m\.astype"):
        certify(claim(measure=lambda s: (s.m.astype(float) * s.b, s.b)), one(1.0, 1.0))
    with pytest.raises(Fault, match="rounded to float64"):
        certify(claim(measure=lambda s: (np.full(1, 1 / 3), s.b)), one(1.0, 1.0))
    assert float(precise([1.5])[0]) == 1.5  # and is open again afterwards


def test_short_constants_may_be_floats() -> None:
    assert certify(claim(measure=lambda s: (s.m, np.full(1, 0.25))), one(1.0, 1.0)).violated


def test_an_instance_outside_its_domain_certifies_nothing() -> None:
    space = rc.Space(
        fields={"x": rc.interval()}, assumes={"x > 2": lambda s: s.x > 2}, batched=True
    )
    inside = claim(measure=lambda s: (s.x, 0 * s.x), space=space)
    with pytest.raises(Fault, match="breaks its assumption 'x > 2'"):
        certify(inside, {"x": np.array([0.5])})


def test_ratio() -> None:
    sides = Certificate(True, 3.0, 2.0, 1.5, ("3", "2"))
    assert ratio("<=", sides) == 1.5
    assert ratio(">=", sides) == pytest.approx(2 / 3)
    assert ratio("==", sides) == 1.5
    assert ratio("<=", Certificate(True, 1.0, 0.0, 2.0, ("1", "0"))) is None
    # a smaller quotient of negative numbers is not a smaller one of their sizes
    assert ratio("<=", Certificate(True, -1.0, -2.0, 1.5, ("-1", "-2"))) is None


def test_a_bound_of_nearly_zero_is_a_borderline_case() -> None:
    assert collapsed(np.array([1.5, 2.0, 1.9999, 2.5])).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("measure", "hint"),
    [
        (lambda s: (sum(range(s.x)), 1), "(int(n) makes an integer of a whole number that is "),
        (
            lambda s: (np.linalg.solve(s.x * np.eye(2), np.array([s.x, s.x])), 0.5),
            "use rc.linalg.solve in place of np.linalg.solve",
        ),
        (
            lambda s: (np.linalg.det(s.x * np.eye(2)), 0.5),
            "use NumPy's arithmetic and rc.linalg in place of np.linalg.det (",
        ),
    ],
)
def test_errors_that_most_users_meet_come_with_advice(measure: Any, hint: str) -> None:
    space = rc.Space(fields={"x": rc.interval(low=0.5)})
    assert hint in rc.judge(claim(measure=measure, space=space)).reason
