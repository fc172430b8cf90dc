"""The two sides of a claim on instances: how tight, and whether truly violated.

*Tightness* is one where measured and bound agree and grows with measured / bound; it is measured /
bound below one and 2 - bound / measured above, so that it stays in a bounded range whatever the
instance. For a lower bound the sides are exchanged, for an identity it is one plus the relative
difference.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.audit._claim import Claim, Relation
from experiments.audit._fields import Numbers, magnitude_of
from experiments.audit._space import Fields
from linsys.linalg import is_precise, precision

#: Tightness above which float64 makes a candidate; whether it is one, high precision decides.
CANDIDATE = 1 + 1e-9
#: Sides below this share of the squared size of an instance are rounding.
_ROUNDING = 1e-13
#: Two evaluations in high precision; an excess that shrinks with the precision is rounding.
_DIGITS = (40, 80)
_AGREE = 1e-15


class Fault(Exception):
    """A user's claim that cannot be evaluated; ``index`` is the instance in its batch."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.reason, self.index = reason, index


@dataclass(frozen=True)
class Sides:
    """Both sides on B instances, each reduced to its worst entry; all (B,)."""

    measured: Numbers
    bound: Numbers
    tightness: NDArray[np.float64]


def evaluate(claim: Claim, fields: Fields) -> Sides:
    """Both sides on B instances in float64.

    Raises:
        Fault: if measure raises, or returns NaN or something of another shape.
    """
    pairs = _measure(claim, fields)
    scale = _ROUNDING * magnitude_of(list(fields.values())) ** 2
    return _worst(claim.relation, *pairs, scale)


def _measure(claim: Claim, fields: Fields) -> tuple[Numbers, Numbers]:
    """Sides as arrays (B, entries)."""
    count = len(next(iter(fields.values())))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if claim.space.batched:
            answer = _ask(claim, claim.space.instance(fields), 0)
            return _entries(claim, answer, count)
        measured, bound = [], []
        for index, instance in enumerate(claim.space.singles(fields)):
            sides = _entries(claim, _ask(claim, instance, index), 1, single=True, index=index)
            measured.append(sides[0][0])
            bound.append(sides[1][0])
        return np.stack(measured), np.stack(bound)


def _ask(claim: Claim, instance: Any, index: int) -> Any:
    try:
        return claim.measure(instance)
    except Exception as error:
        raise Fault(f"measure raised {type(error).__name__}: {error}", index) from error


def _entries(
    claim: Claim, answer: Any, count: int, *, single: bool = False, index: int = 0
) -> tuple[Numbers, Numbers]:
    """The answer as two arrays (count, entries), checked."""
    try:
        measured, bound = (np.asarray(side) for side in answer)
        if single:
            measured, bound = measured[None], bound[None]
        measured, bound = np.broadcast_arrays(*_aligned(measured, bound))
        sides = measured.reshape(count, -1), bound.reshape(count, -1)
    except (TypeError, ValueError) as error:
        raise Fault(
            f"measure must return (measured, bound); found {answer!r:.80}", index
        ) from error
    for name, side in zip(("measured", "bound"), sides, strict=True):
        bad = np.argwhere(side != side)  # NaN, in either arithmetic
        if bad.size:
            raise Fault(f"measure returned NaN for {name}", index if single else int(bad[0][0]))
    return sides


def _aligned(measured: Numbers, bound: Numbers) -> tuple[Numbers, Numbers]:
    """Append axes of length one: (B,) against (B, n) means one value for all n."""
    width = max(measured.ndim, bound.ndim)
    return tuple(  # type: ignore[return-value]
        side.reshape(*side.shape, *[1] * (width - side.ndim)) for side in (measured, bound)
    )


def _worst(relation: Relation, measured: Numbers, bound: Numbers, scale: Numbers) -> Sides:
    """Tightness of every entry, and the entry where it is largest."""
    with np.errstate(all="ignore"):
        tight = _tightness(relation, measured.astype(float), bound.astype(float), scale[:, None])
    rows = np.arange(len(tight))
    worst = tight.argmax(axis=1)
    return Sides(measured[rows, worst], bound[rows, worst], tight[rows, worst])


def _tightness(relation: Relation, measured: Numbers, bound: Numbers, scale: Numbers) -> Numbers:
    if relation == ">=":
        measured, bound = bound, measured
    if relation == "==":
        # of vectors: the difference relative to the longer one
        size = np.maximum(np.abs(measured), np.abs(bound)).max(axis=1, keepdims=True)
        gap = np.abs(measured - bound)
        gap = np.where(measured == bound, 0.0, gap)  # equal infinities
        return 1 + gap / np.maximum(size, scale)
    larger = np.maximum(np.abs(measured), np.abs(bound))
    excess = np.where(measured == bound, 0.0, measured - bound)
    score = np.where(np.isinf(larger), np.sign(excess), excess / np.maximum(larger, scale))
    # below the rounding of everything, the two sides say nothing
    return np.asarray(np.where(larger > scale, 1 + score, 0.0))


def ratio(relation: Relation, measured: Any, bound: Any) -> float | None:
    """measured / bound (exchanged for a lower bound), None where that says nothing."""
    top, bottom = (bound, measured) if relation == ">=" else (measured, bound)
    if bottom == 0:
        return 1.0 if top == 0 and relation == "==" else None
    value = float(top / bottom)
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class Certificate:
    """What high precision says of one instance."""

    violated: bool
    measured: float
    bound: float
    tightness: float
    text: tuple[str, str]


def certify(claim: Claim, fields: Fields) -> Certificate:
    """Evaluate one instance (B = 1) in high precision, twice; a violation must survive both.

    Raises:
        Fault: if the claim cannot be evaluated in high precision.
    """
    found = []
    for digits in _DIGITS:
        with precision(digits):
            exact = claim.space.precise(fields)
            if claim.space.first_broken(exact) is not None:
                raise Fault(f"instance breaks {claim.space.first_broken(exact)}", 0)
            measured, bound = _measure(claim, exact)
            if not (is_precise(measured) or is_precise(bound)):
                raise Fault(
                    "measure left high precision; use NumPy's arithmetic and linsys.linalg", 0
                )
            scale = np.full(1, 10.0 ** (-digits + 10))
            sides = _worst(claim.relation, measured, bound, scale)
            gap = sides.measured[0] - sides.bound[0]
            if claim.relation == ">=":
                gap = -gap
            elif claim.relation == "==":
                gap = abs(gap)
            text = tuple(_digits(side[0]) for side in (sides.measured, sides.bound))
            found.append((gap, sides, text))
    (coarse, *_), (fine, sides, text) = found
    real = bool(fine > 0 and coarse > 0 and abs(coarse - fine) <= _AGREE * fine)
    return Certificate(
        violated=real and float(sides.tightness[0]) > 1,
        measured=float(sides.measured[0]),
        bound=float(sides.bound[0]),
        tightness=float(sides.tightness[0]),
        text=(text[0], text[1]),
    )


def _digits(value: Any) -> str:
    return str(value)[:24]
