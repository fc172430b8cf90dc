"""The two sides of a claim on instances: how tight, and whether truly violated.

*Tightness* is one where measured and bound agree and grows with measured / bound; it is measured /
bound below one and 2 - bound / measured above, so that it stays in a bounded range whatever the
instance. For a lower bound the sides are exchanged, for an identity it is one plus the relative
difference.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ratecheck._claims.precise_numbers  # noqa: F401  # high precision answers as float64 does
from linsys.linalg import is_precise, no_floats, precise, precision
from ratecheck._claims.claim import Claim, Relation
from ratecheck._claims.fields import Numbers, magnitude_of
from ratecheck._claims.instead import LEFT
from ratecheck._claims.samples import Batch
from ratecheck._claims.space import Fault, Fields, Imprecise, Unsettled, call, quiet

#: Tightness above which float64 makes a candidate; whether it is one, high precision decides.
CANDIDATE = 1 + 1e-9
#: The excess over one that high precision must confirm. Constants such as math.sqrt(2) enter a
#: measure as float64, so a smaller excess may come from them.
EXCESS = 1e-12
#: Sides below this share of the squared size of an instance are rounding.
_ROUNDING = 1e-13
#: The share of that rounding that counts against an instance: cancellation must not attract the
#: search.
_DOUBT = 0.1
#: How far tightness in float64 may be from that in high precision, or from that of the same call
#: a moment before, which differs only where threads add up in another order.
SAME = 1e-6
#: What a user does about an instance for which a statement says nothing.
_LEAVE_OUT = "`given=` leaves out instances that the statement is not about"
#: Two evaluations in high precision, which agree on an excess up to a relative _AGREE.
DIGITS = (40, 80)
_AGREE = 1e-15
#: Tightness so near to two is that of a bound that is nothing beside measured.
COLLAPSED = 1e-3
#: A third one where they do not. An excess that falls by this factor from the second is rounding,
#: which falls with the precision, by 1e-80; a true excess does not fall.
_FINEST, _VANISHED = 160, 1e-40
#: Larger sides are compared by their quotient: float64 may have no room for them.
_LARGEST = 1e300
#: A side of more digits than this, in float64 where high precision was given, was rounded.
_CONSTANT = 12
_LOST_PRECISION = (
    f"{LEFT}; use NumPy's arithmetic and rc.linalg in place of float(), math and np.linalg"
)
_ROUNDED = (
    "returned a side that is rounded to float64 also where the instance has more digits: "
    "Fraction(1, 3) in place of 1/3, or start from a number x of the instance, as in "
    "(1 + 0 * x) / 3 or np.sqrt(2 + 0 * x)"
)
#: Why two evaluations of one thing must agree.
STEADY = "it must depend on {} alone, not on random numbers or on what earlier calls left behind"
_UNSTEADY = (
    "measure returned {} and then {} for the same instance; "
    + STEADY.format("the instance")
    + " (a mean over random numbers is a claim of PAPER.statistical)"
)
#: Whole numbers below are float64's as well.
_EXACT = 2**53
#: Called before every call of a measure with the arrays and, where it is one at a time, its number.
Watch = Callable[[Fields, int | None], None]


@dataclass(frozen=True)
class EvaluatedSides:
    """Both sides on B instances, each reduced to its worst entry; all (B,).

    ``looseness`` is the smallest bound / trivial (exchanged for a lower bound) of each instance,
    inf where the claim states no trivial bound. ``doubtful`` are those whose sides may be rounding
    alone, and whose tightness says nothing.
    """

    measured: Numbers
    bound: Numbers
    tightness: NDArray[np.float64]
    looseness: NDArray[np.float64]
    doubtful: NDArray[np.bool_]

    def subset(self, rows: Numbers) -> EvaluatedSides:
        """The sides of some of the instances."""
        return EvaluatedSides(*(getattr(self, one.name)[rows] for one in dataclasses.fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[EvaluatedSides]) -> EvaluatedSides:
        """The sides of all instances of these parts."""
        names = [one.name for one in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def evaluate(
    claim: Claim, batch: Batch, watch: Watch | None = None, *, trusted: bool = False
) -> EvaluatedSides:
    """Both sides on B instances in float64.

    NaN that high precision resolves is rounding, and its instance counts as not tight.

    Args:
        claim: the claim.
        batch: the instances.
        watch: called before every call of the measure.
        trusted: take sides as they are, small as they may be beside the squared size of an
            instance; otherwise these could be what cancellation left.

    Raises:
        Fault: if measure raises, or returns NaN or something of another shape.
    """
    with quiet():
        # a copy, as a side may be an array that the instance keeps
        measured, bound = (side.astype(float) for side in _measure(claim, batch, watch))
        undefined = (np.isnan(measured) | np.isnan(bound)).any(axis=1)
        if some_undefined := bool(undefined.any()):
            first = int(undefined.argmax())
            _check_nan_is_rounding(claim, batch, first, _told_nan(measured[first], bound[first]))
        rounding = _ROUNDING * magnitude_of(list(batch.fields.values())) ** 2
        larger = np.maximum(np.abs(measured), np.abs(bound)).max(axis=1)
        doubtful = (larger <= rounding) & (larger > 0)
        scale = np.zeros(len(batch)) if trusted else rounding
        rows, tight = _tightest_entry(claim.relation, measured, bound, scale)
        loose = _looseness(claim, batch, bound)
        if some_undefined:
            tight, loose = np.where(undefined, 0.0, tight), np.where(undefined, np.inf, loose)
    return EvaluatedSides(measured[rows], bound[rows], tight, loose, doubtful)


def repeat(
    claim: Claim, batch: Batch, sides: EvaluatedSides, watch: Watch | None, *, trusted: bool
) -> None:
    """Evaluate these instances again, which must give the same sides as before.

    Where measure gets one instance at a time, their order is reversed, so that even state that
    alternates between calls is noticed.

    Raises:
        Unsettled: if a tightness differs.
    """
    rows = np.arange(len(batch))
    rows = rows if claim.space.batched else rows[::-1]
    # with new views, as views may keep what they computed
    again = evaluate(claim, batch.subset(rows), watch, trusted=trusted)
    apart = np.abs(again.tightness - sides.tightness[rows]) > SAME
    if apart.any():
        at = int(apart.argmax())
        first, second = (
            _sides_text(f"{s.measured[k]:.6g}", f"{s.bound[k]:.6g}")
            for s, k in ((sides, rows[at]), (again, at))
        )
        raise Unsettled(_UNSTEADY.format(first, second), int(rows[at]))


def _sides_text(measured: str, bound: str) -> str:
    return f"(measured, bound) = ({measured}, {bound})"


def _told_nan(measured: Numbers, bound: Numbers) -> str:
    """Which of the two sides of an instance, each (entries,), holds NaN; empty if none does."""
    sides = {"measured": measured, "bound": bound}
    names = [name for name, side in sides.items() if (side != side).any()]
    return f"measure returned NaN as {' and as '.join(names)}" if names else ""


def _check_nan_is_rounding(claim: Claim, batch: Batch, index: int, told: str) -> None:
    """Accept NaN in float64 where high precision gives numbers; a Fault that says it otherwise."""
    try:
        certify(claim, batch.subset(np.array([index])).fields)
    except Fault as fault:
        why = told if str(fault) == told else f"{told}; in high precision, {fault}"
        raise Fault(f"{why} ({_LEAVE_OUT})", index) from fault


def _looseness(claim: Claim, batch: Batch, bound: Numbers) -> NDArray[np.float64]:
    if claim.trivial is None:
        return np.full(len(batch), np.inf)
    if claim.space.batched:
        raw = np.asarray(call("trivial", claim.trivial, batch.views))
    else:
        raw = np.stack(
            [
                np.asarray(call("trivial", claim.trivial, one, index=k))
                for k, one in enumerate(batch.views)
            ]
        )
    flat = raw.reshape(len(batch), -1).astype(float)
    top, bottom = (flat, bound) if claim.relation == ">=" else (bound, flat)
    top, bottom = np.broadcast_arrays(top, bottom)
    # both zero: nothing to be loose about
    factor = np.where(top == bottom, 1.0, top / bottom)
    return np.asarray(np.where(np.isnan(factor), 1.0, factor).min(axis=1), dtype=float)


def _measure(claim: Claim, batch: Batch, watch: Watch | None) -> tuple[Numbers, Numbers]:
    """Sides as arrays (B, entries)."""
    count = len(batch)
    if claim.space.batched:
        if watch is not None:
            watch(batch.fields, None)
        return _entries(call("measure", claim.measure, batch.views), count)
    measured, bound = [], []
    for index, instance in enumerate(batch.views):
        if watch is not None:
            watch(batch.fields, index)
        answer = call("measure", claim.measure, instance, index=index)
        sides = _entries(answer, None, index)
        measured.append(sides[0][0])
        bound.append(sides[1][0])
    try:
        return np.stack(measured), np.stack(bound)
    except ValueError as error:
        raise Fault("measure returned different shapes for instances of equal shape") from error


def _entries(answer: Any, count: int | None, index: int = 0) -> tuple[Numbers, Numbers]:
    """The answer for ``count`` instances, or for a single one if None, as arrays (B, entries)."""
    if type(answer) is tuple and len(answer) == 2:
        # the most frequent answers, of which what follows would take longer than most measures
        measured, bound = answer
        if count is None and _is_plain(measured) and _is_plain(bound):
            return np.array([[measured]], float), np.array([[bound]], float)
        if _are_doubles(measured) and _are_doubles(bound) and measured.shape == bound.shape:
            if count is None:
                return measured.astype(float).reshape(1, -1), bound.astype(float).reshape(1, -1)
            if measured.ndim and len(measured) == count:
                return measured.reshape(count, -1), bound.reshape(count, -1)
    try:
        measured, bound = (np.asarray(side) for side in answer)
        if count is None:
            measured, bound = measured[None], bound[None]
        if told := _unlike(measured, bound, count):
            raise Fault(told, index)
        measured, bound = np.broadcast_arrays(*_aligned(measured, bound))
    except (TypeError, ValueError) as error:
        returned = _brief(answer)
        raise Fault(f"measure must return (measured, bound); found {returned}", index) from error
    if len(measured) != (count or 1) or not measured.size:
        raise Fault(
            f"measure must return one entry or more for each of {count or 1} instances, along the "
            f"first axis; found shape {measured.shape}",
            index,
        )
    for name, side in (("measured", measured), ("bound", bound)):
        if _are_truths(side):
            raise Fault(
                f"measure must return numbers; found {name} of True and False (return what is "
                "compared, or 1 * of it)",
                index,
            )
        if side.dtype.kind not in "fiuO" or not _are_numbers(side):
            raise Fault(f"measure must return real numbers; found {_brief(answer)}", index)
    return _flat(measured), _flat(bound)


def _is_plain(side: Any) -> bool:
    """Whether a side is one number that float64 has, of a type that is nothing else."""
    kind = type(side)
    if kind is np.ndarray:  # as np.where makes one
        return bool(side.ndim == 0 and side.dtype == np.float64)
    return kind is np.float64 or kind is float or (kind is int and abs(side) < _EXACT)


def _are_doubles(side: Any) -> bool:
    """Whether a side is an array of float64 with one entry or more."""
    return type(side) is np.ndarray and side.dtype == np.float64 and side.size > 0


def _unlike(measured: Numbers, bound: Numbers, count: int | None) -> str:
    """What is wrong with the shapes of two sides, of so many instances or, without, of one.

    Both have the instances first; empty if nothing is wrong.

    Each entry of one side stands beside one of the other: a single number, or an axis of length 1
    as ``keepdims=True`` leaves it, stands for all. Nothing else is broadcast, as NumPy would make
    all pairs of the entries of (3,) and (4, 1).
    """
    if measured.shape == bound.shape:
        return ""
    one, other = (side.shape[1:] for side in (measured, bound))
    alike = math.prod(one) == 1 or math.prod(other) == 1
    if len(one) == len(other):
        whole = tuple(map(max, one, other))
        alike |= whole in (one, other) and all(
            a in (1, w) and b in (1, w) for a, b, w in zip(one, other, whole, strict=True)
        )
    if alike and all(side.ndim == 0 or len(side) in (1, count) for side in (measured, bound)):
        return ""
    if count is not None:
        one, other = measured.shape, bound.shape
    return (
        "measure must return sides of one shape, or a number beside an array; found measured of "
        f"the shape {one} and bound of {other}"
    )


def _are_truths(side: Numbers) -> bool:
    """Whether a side holds True or False, which NumPy would take for numbers."""
    return side.dtype.kind == "b" or any(isinstance(v, bool | np.bool_) for v in _objects(side))


def _are_numbers(side: Numbers) -> bool:
    """Whether the entries of a side are numbers, perhaps complex, where they are objects."""
    return all(hasattr(value, "imag") for value in _objects(side))


def _objects(side: Numbers) -> Iterable[Any]:
    """The entries of a side that has no type of its own."""
    return side.flat if side.dtype == object else ()


def _brief(answer: Any) -> str:
    return " ".join(f"{answer!r:.80}".split())


def _flat(side: Numbers) -> Numbers:
    """A side as an array (B, entries) of numbers of one kind; fractions become such numbers."""
    if not is_precise(side):
        return side.astype(float).reshape(len(side), -1)
    numbers = side.flatten()
    fractions = np.array([isinstance(value, Fraction) for value in numbers])
    numbers[fractions] = precise(numbers[fractions])
    return numbers.reshape(len(side), -1)


def _aligned(measured: Numbers, bound: Numbers) -> tuple[Numbers, Numbers]:
    """Append axes of length one: (B,) against (B, n) means one value for all n."""
    width = max(measured.ndim, bound.ndim)
    return tuple(  # type: ignore[return-value]
        side.reshape(*side.shape, *[1] * (width - side.ndim)) for side in (measured, bound)
    )


def _tightest_entry(
    relation: Relation, measured: Numbers, bound: Numbers, scale: Numbers
) -> tuple[tuple[Numbers, Numbers], NDArray[np.float64]]:
    """Where each instance is tightest, as an index of (B, entries), and its tightness there."""
    with np.errstate(all="ignore"):
        top, bottom = _in_range(relation, measured, bound)
        tight = _tightness(relation, top.astype(float), bottom.astype(float), scale[:, None])
    rows = np.arange(len(tight))
    where = rows, tight.argmax(axis=1)
    return where, tight[where]


def _in_range(relation: Relation, measured: Numbers, bound: Numbers) -> tuple[Numbers, Numbers]:
    """Both sides (B, entries), divided by the larger one where that is too large for float64."""
    if not (is_precise(measured) or is_precise(bound)):
        return measured, bound
    larger = np.maximum(np.abs(measured), np.abs(bound))
    if relation == "==":
        larger = np.broadcast_to(larger.max(axis=1, keepdims=True), larger.shape)
    unit = np.where((larger > _LARGEST) & (larger < np.inf), larger, 1)
    return measured / unit, bound / unit


def _tightness(relation: Relation, measured: Numbers, bound: Numbers, scale: Numbers) -> Numbers:
    if relation == ">=":
        measured, bound = bound, measured
    if relation == "==":
        # of vectors: the difference relative to the longer one
        size = np.maximum(np.abs(measured), np.abs(bound)).max(axis=1, keepdims=True)
        gap = np.abs(measured - bound)
        share = np.where(np.isinf(size), 1.0, (gap - _DOUBT * scale) / np.maximum(size, scale))
        return np.asarray(np.where(measured == bound, 1.0, 1 + share))
    larger = np.maximum(np.abs(measured), np.abs(bound))
    excess = np.where(measured == bound, 0.0, measured - bound)
    score = (excess - _DOUBT * scale) / np.maximum(larger, scale)
    score = np.where(np.isinf(larger), np.sign(excess), score)
    # below the rounding of everything, the two sides say nothing
    return np.asarray(np.where(larger > scale, 1 + score, 0.0))


def collapsed(tightness: Numbers) -> NDArray[np.bool_]:
    """Whether a violated bound is below a thousandth of measured: a borderline case to readers."""
    return np.asarray(np.abs(tightness - 2) < COLLAPSED, dtype=bool)


def ratio(relation: Relation, sides: Certificate) -> float | None:
    """measured / bound (exchanged for a lower bound), None where that says nothing.

    It says nothing of a bound that is zero or negative, nor of two sides that are rounding, where
    one exceeds the other and nothing is violated. Of an identity: one plus the difference relative
    to the longer side.
    """
    if relation == "==":
        return sides.tightness
    top, bottom = sides.measured, sides.bound
    if relation == ">=":
        top, bottom = bottom, top
    if bottom <= 0 or not np.isfinite(top / bottom):
        return None
    if not sides.violated and top / bottom > 1 + EXCESS:
        return None
    return float(top / bottom) + 0.0  # no -0.0


@dataclass(frozen=True)
class Certificate:
    """What high precision says of one instance; ``text`` are the two sides' first digits."""

    violated: bool
    measured: float
    bound: float
    tightness: float
    text: tuple[str, str]


def certify(claim: Claim, fields: Fields) -> Certificate:
    """Evaluate one instance (B = 1) in high precision, twice; a violation must survive both.

    Where the two contradict each other, the second must be the same when it is repeated, and an
    excess over the bound must survive a third one of more digits, or vanish in it.

    Raises:
        Unsettled: if it does neither, or if the second comes out differently.
        Fault: if the claim cannot be evaluated in high precision, or if the instance breaks an
            assumption in high precision and in float64.
    """
    coarse, fine = (in_high_precision(claim, fields, digits) for digits in DIGITS)
    violated = fine.tightness > 1 + EXCESS
    doubtful = violated and not _agree(coarse, fine)
    if doubtful or abs(coarse.tightness - fine.tightness) > SAME:
        again = in_high_precision(claim, fields, DIGITS[1])
        if again.values != fine.values:
            raise Unsettled(_UNSTEADY.format(_sides_text(*fine.text), _sides_text(*again.text)))
    if doubtful:
        finest = in_high_precision(claim, fields, _FINEST)
        violated = _agree(fine, finest)
        vanished = fine.excess < np.inf and abs(finest.excess) <= _VANISHED * fine.excess
        if not violated and not vanished:
            told = zip((*DIGITS, _FINEST), (coarse, fine, finest), strict=True)
            excess = ", ".join(f"{float(e.excess):.6g} with {digits} digits" for digits, e in told)
            raise Unsettled(f"high precision does not settle the excess over the bound: {excess}")
        fine = finest
    return Certificate(
        violated=violated,
        measured=float(fine.measured),
        bound=float(fine.bound),
        # sides that are equal up to the rounding of any precision
        tightness=fine.tightness if violated else min(fine.tightness, 1 + EXCESS),
        text=fine.text,
    )


def float64_agrees(claim: Claim, fields: Fields) -> bool:
    """Whether the tightness of one instance (B = 1) in float64 is that in high precision."""
    try:
        batch = Batch(claim.space, fields, claim.space.sizes_of(fields))
        plain = evaluate(claim, batch, trusted=True).tightness[0]
        exact = in_high_precision(claim, fields, DIGITS[0]).tightness
    except Fault:
        return False
    return bool(abs(plain - exact) <= SAME)


class _PreciseSides(NamedTuple):
    """Excess over the bound, both sides and tightness of the worst entry in high precision."""

    excess: Any
    measured: Any
    bound: Any
    tightness: float

    @property
    def values(self) -> tuple[Any, Any]:
        return self.measured, self.bound

    @property
    def text(self) -> tuple[str, str]:
        return str(self.measured)[:24], str(self.bound)[:24]


def _agree(coarse: _PreciseSides, fine: _PreciseSides) -> bool:
    """Whether the bound is exceeded with both precisions, and by as much."""
    a, b = coarse.excess, fine.excess
    return bool(a > 0 and b > 0 and (b == np.inf or abs(a - b) <= _AGREE * b))


def in_high_precision(claim: Claim, fields: Fields, digits: int) -> _PreciseSides:
    """The tightest entry of one instance, evaluated with so many digits."""
    with precision(digits), quiet():
        exact = Batch(claim.space, claim.space.precise(fields), claim.space.sizes_of(fields))
        if exact.broken is not None:
            plain = claim.space.first_broken(fields)
            if plain is not None:
                raise Fault(f"the space's own instance breaks its assumption {plain[0]!r}")
        _ = exact.views  # built before, as a view may look at floats
        with no_floats(_LOST_PRECISION):
            measured, bound = _measure(claim, exact, None)
        if any(type(value) is not type(value.real) for s in (measured, bound) for value in s.flat):
            raise Fault("measure returned complex numbers in high precision")
        _refuse_rounded(measured, bound)
        scale = np.full(1, 10.0 ** (10 - digits))
        if told := _told_nan(measured, bound):
            raise Fault(told)
        where, tight = _tightest_entry(claim.relation, measured, bound, scale)
        sides = measured[where][0], bound[where][0]
        gap = sides[0] - sides[1] if sides[0] != sides[1] else 0 * tight[0]
        if claim.relation == ">=":
            gap = -gap
        elif claim.relation == "==":
            gap = abs(gap)
        return _PreciseSides(gap, *sides, float(tight[0]))


def _refuse_rounded(*sides: Numbers) -> None:
    """High precision is lost where a side comes back in float64, unless it is a short constant."""
    for side in sides:
        if not is_precise(side) and any(
            np.isfinite(value) and float(f"{value:.{_CONSTANT}g}") != value
            for value in side.ravel().astype(float)
        ):
            raise Imprecise(f"measure {_ROUNDED}")
