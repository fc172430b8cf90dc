"""What one evaluation of a claim over many boxes says: by which constant it holds in each of them.

With T <= q B for the two sides of a bound, T the one that has to be the smaller one, the evaluation
gives first-order forms of T and B in each box. Where T - q B is at most 0 by them, the box is done.
Elsewhere the part of the box in which the form is at most 0 is cut off, and the rest is to be
divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes import Form, coordinates, without_common_factors
from linsys.linalg.boxes_arithmetic import box_arithmetic
from linsys.linalg.boxes_paths import NoBox, Paths, State, every_path
from ratecheck._certify.cover import Chart, Cover, Weights, independent, symmetric
from ratecheck._certify.enclosures import Unprovable, both_sides, told
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Fault, Sizes, quiet

__all__ = ["Examined", "Problem", "Unscaled", "problem"]

#: So many ways through a formula are followed for the boxes of one evaluation.
PATHS = 48
#: For sums of so many numbers :data:`linsys.linalg.boxes_rounding.GROW` makes up.
MOST_COORDINATES = 60
#: A part is cut off where that makes a side shorter by this share.
_WORTH = 0.1
#: Makes up for roundings where a part is cut off.
_MARGIN = 1e-9


class Unscaled(Unprovable):
    """The sides do not scale alike in some box, as they did before.

    Args:
        alike: differences of degrees that have to vanish there.
    """

    def __init__(self, alike: set[tuple[float, ...]]) -> None:
        super().__init__("the sides do not scale alike in all boxes")
        self.alike = alike


@dataclass
class Examined:
    """What is known of B boxes.

    Args:
        ratio: T <= ratio B in the box; infinite where none is known, (B,).
        closed: whether that is so with the constant that was asked for, (B,).
        low: lower ends of what is left of the box, (k, B).
        high: the upper ends.
        split: the coordinate along which the rest is best divided, (B,); -1: it is a point.
        negative: whether B may be negative in the part that is done, (B,).
    """

    ratio: Numbers
    closed: Numbers
    low: Numbers
    high: Numbers
    split: Numbers
    negative: Numbers


class Problem:
    """A bound over the boxes of a cover.

    Args:
        claim: an upper or a lower bound.
        cover: of its instances.

    Raises:
        Unprovable: it has more coordinates than roundings are allowed for.
    """

    def __init__(self, claim: Claim, cover: Cover) -> None:
        if (k := len(cover.coordinates)) > MOST_COORDINATES:
            raise Unprovable(f"at most {MOST_COORDINATES} coordinates are examined; there are {k}")
        self.claim, self.cover = claim, cover
        #: Differences of degrees that have to vanish for a scaling that the cover uses.
        self.alike: list[Weights] = []
        self._span = np.array([[c.high - c.low for c in cover.coordinates]]).T
        self._whole = np.array([c.kind == "whole" for c in cover.coordinates])

    def differences(self) -> set[tuple[float, ...]]:
        """Differences of degrees that have to vanish where the sides scale alike."""
        low, high = self.cover.roots()
        with box_arithmetic(), quiet():
            list(self._collect(low, high, Paths(low.shape[1])))
            return set(State.alike)

    def examine(self, low: Numbers, high: Numbers, target: float, closing: float) -> Examined:
        """Evaluate both sides over boxes.

        Args:
            low: lower ends, (k, B).
            high: upper ends.
            target: the constant with which parts are cut off.
            closing: the constant with which a box is closed, not smaller.

        Raises:
            Unprovable: the formula leaves the arithmetic.
        """
        count = low.shape[1]
        paths = Paths(count)
        kept = _Kept(low, high, target, closing)
        with box_arithmetic(), quiet():
            empty = self.cover.outside(low, high)
            for rows, active, pairs, of in self._collect(low, high, paths):
                kept.add(rows[active], active, pairs, of)
            if not all(symmetric(State.alike, weights) for weights in self.cover.symmetries):
                raise Unscaled(set(State.alike))
        kept.leave_open(paths.open)
        kept.close(empty)
        kept.of &= ~self.cover.idle(high)
        return kept.result(self._whole, self._span)

    def _collect(self, low: Numbers, high: Numbers, paths: Paths) -> Any:
        """The pairs of sides of all entries on every path: rows, which may go there, pairs."""

        def evaluate(rows: Any) -> Any:
            forms = coordinates(low[:, rows], high[:, rows])
            space = self.claim.space
            try:
                fields = self.cover.fields(forms)
                views = space.views(fields)
                view = views if space.batched else views[0]
                for predicate in space.given.values():
                    if not np.all(np.asarray(predicate(view)).astype(bool)):
                        return (), 0  # outside of what the claim is about
                sides = both_sides(self.claim, views, "an enclosure becomes a float")
                pairs = list(zip(*(side.ravel().tolist() for side in sides), strict=True))
            except (Fault, ArithmeticError, TypeError, ValueError, AttributeError) as error:
                cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
                if isinstance(cause, NoBox):
                    raise cause from None
                raise Unprovable(told(cause)) from error
            if self.claim.relation == ">=":
                pairs = [(bottom, top) for top, bottom in pairs]
            short = [
                (pair, without_common_factors(*pair))
                if all(isinstance(side, Form) for side in pair)
                else (pair, pair)
                for pair in pairs
            ]
            for (top, bottom), rest in short:
                if not (_is_unknown((top, bottom)) and _is_unknown(rest)):  # else none is done
                    _scale_alike(top, bottom, len(low))
            return short, State.path.of  # an open comparison is decided in smaller boxes

        for rows, active, (pairs, of) in every_path(evaluate, low.shape[1], PATHS, paths):
            if pairs and active.any():
                for pair, _ in pairs:
                    for side in pair:
                        of |= side.of if isinstance(side, Form) else 0
                yield rows, active, pairs, of


def _is_unknown(pair: Sequence[Any]) -> bool:
    """Whether of one of two sides nothing is known, in any box."""
    forms = [side for side in pair if isinstance(side, Form)]
    return any(bool(((one.lo == -np.inf) & (one.hi == np.inf)).all()) for one in forms)


def _scale_alike(top: Any, bottom: Any, k: int) -> None:
    """Note that two sides must scale alike; plain zero scales like anything."""
    if any(side.is_zero if isinstance(side, Form) else side == 0 for side in (top, bottom)):
        return
    degrees = [s.degree if isinstance(s, Form) else (0.0,) * k for s in (top, bottom)]
    if degrees[0] != degrees[1]:
        State.alike.add(tuple(p - q for p, q in zip(*degrees, strict=True)))


def problem(
    claim: Claim,
    sizes: Sizes,
    alike: Sequence[Weights] | None = None,
    charts: Sequence[Chart] = (),
) -> Problem:
    """The bound over all instances of these sizes, up to the scalings under which it is the same.

    Args:
        claim: an upper or a lower bound.
        sizes: of its instances.
        alike: differences of degrees that have to vanish, as in :attr:`Problem.alike`; by default
            those of an evaluation over one box. That they are enough is checked in every box.
        charts: other coordinates of the instances.

    Raises:
        Unprovable: the formula leaves the arithmetic, or there are no such charts.
    """
    plain = Problem(claim, Cover(claim.space, sizes, charts=charts))
    alike = independent(plain.differences()) if alike is None else list(alike)
    made = Problem(claim, Cover(claim.space, sizes, plain.cover.symmetries_of(alike), charts))
    made.alike = list(alike)
    return made


class _Kept:
    """What the entries and paths of one evaluation leave of B boxes."""

    def __init__(self, low: Numbers, high: Numbers, target: float, closing: float) -> None:
        self.low, self.high, self.target, self.closing = low, high, target, closing
        k, count = low.shape
        self.ratio = np.zeros(count)
        self.closed = np.ones(count, dtype=bool)
        self.left_low, self.left_high = np.full((k, count), np.inf), np.full((k, count), -np.inf)
        self.worst = np.full(count, -np.inf)
        self.score = np.zeros((k, count))
        self.error = np.zeros(count)
        self.of = np.zeros((k, count), dtype=bool)
        self.negative = np.zeros(count, dtype=bool)

    def add(self, rows: Any, active: Any, pairs: Any, of: int) -> None:
        """Take in the sides on one path, of the boxes that may go there."""
        k = len(self.low)
        self.of[:, rows] |= np.array([bool(of >> i & 1) for i in range(k)], dtype=bool)[:, None]
        unique = {tuple(map(id, whole)): (whole, short) for whole, short in pairs}
        for whole, short in unique.values():
            self._add(rows, _Sides(short, active, k), _Sides(whole, active, k))

    def _add(self, rows: Any, sides: _Sides, others: _Sides) -> None:
        self.negative[rows] |= ~(others.bottom[0] >= 0)
        above, by_form, a, e = sides.excess(self.target)
        above = np.where(others.excess(self.target)[0] <= 0, np.minimum(above, 0.0), above)
        left = ~(above <= 0)
        closing = above
        if self.closing != self.target:
            closing, done = sides.excess(self.closing)[0], others.excess(self.closing)[0] <= 0
            closing = np.where(done, np.minimum(closing, 0.0), closing)
        self.closed[rows] &= closing <= 0
        if not left.any():
            return
        rows, sides, a = rows[left], sides.of(left), a[:, left]
        above, by_form, e = above[left], by_form[left], e[left]
        self.ratio[rows] = np.maximum(self.ratio[rows], sides.ratio(self.target, above))
        low, high = _cut(self.low[:, rows], self.high[:, rows], by_form, a)
        self.left_low[:, rows] = np.minimum(self.left_low[:, rows], low)
        self.left_high[:, rows] = np.maximum(self.left_high[:, rows], high)
        above = np.where(np.isfinite(above), above, np.inf)
        worse = above > self.worst[rows]
        at = rows[worse]
        self.worst[at] = above[worse]
        self.score[:, at] = np.abs(a[:, worse])
        self.error[at] = np.where(np.isfinite(e[worse]), e[worse], 1e300)

    def leave_open(self, rows: Any) -> None:
        """Boxes of which not everything was evaluated."""
        self.ratio[rows], self.closed[rows], self.of[:, rows] = np.inf, False, True
        self.left_low[:, rows], self.left_high[:, rows] = self.low[:, rows], self.high[:, rows]
        self.score[:, rows], self.error[rows] = 0.0, 1e300

    def close(self, rows: Any) -> None:
        """Boxes in which there is no instance."""
        self.closed[rows], self.negative[rows] = True, False

    def result(self, whole: Any, span: Numbers) -> Examined:
        """All of it, with the coordinate along which each box is divided."""
        empty = (self.left_low > self.left_high).any(axis=0)  # nothing is left of it
        low = np.where(empty, self.low, np.maximum(self.left_low, self.low))
        high = np.where(empty, self.high, np.minimum(self.left_high, self.high))
        low[whole], high[whole] = np.ceil(low[whole]), np.floor(high[whole])
        self.closed |= (low > high).any(axis=0)  # no whole number is left in it
        width = high - low
        share = np.where(span > 0, width / np.where(span > 0, span, 1), 0.0)
        share = np.where(whole[:, None] & (width > 0), np.maximum(share, 1e-3), share)
        total = (share * self.of).sum(axis=0)
        part = share * self.of / np.where(total > 0, total, 1)
        score = self.score + self.error * part
        score = np.where((width > 0) & self.of, np.maximum(score, 1e-300 * (1 + part)), -1.0)
        split = np.where(score.max(axis=0) > 0, score.argmax(axis=0), -1)
        cut = (low > self.low).any(axis=0) | (high < self.high).any(axis=0)
        negative = self.negative & (self.closed | cut)
        ratio = np.where(self.closed, 0.0, self.ratio)
        return Examined(ratio, self.closed, low, high, split, negative)


class _Sides:
    """The forms of two sides in some boxes."""

    def __init__(self, pair: tuple[Any, Any], active: Any, k: int) -> None:
        count = int(np.count_nonzero(active))
        self.top, self.bottom = (_parts(side, active, k, count) for side in pair)

    def of(self, rows: Any) -> _Sides:
        """The forms of both sides in some of the boxes."""
        made = _Sides.__new__(_Sides)
        made.top, made.bottom = (
            tuple(part[..., rows] for part in side) for side in (self.top, self.bottom)
        )
        return made

    def excess(self, factor: Any) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Upper bounds of T - factor B: the best one, and that of the form, with its a and e."""
        _, hi, c, a, e = self.top
        low, _, centre, b, error = self.bottom
        up = rounding.up
        middle, slope = c - factor * centre, a - factor * b
        size = np.abs(c) + np.abs(factor * centre)
        size = size + (np.abs(a) + np.abs(factor * b)).sum(axis=0)
        left = (e + factor * error + 4 * rounding.UNIT * size + rounding.TINY) * rounding.GROW
        by_form = up(middle + up((np.abs(slope).sum(axis=0) + left) * rounding.GROW))
        apart = up(hi - rounding.down(factor * low))
        above = np.fmin(by_form, np.where(np.isnan(apart), np.inf, apart))
        return np.where(np.isnan(above), np.inf, above), by_form, slope, left

    def ratio(self, target: float, above: Numbers) -> Numbers:
        """Some factor with which T <= factor B, where one is known."""
        hi, low = self.top[1], self.bottom[0]
        best = np.where(low > 0, rounding.up(hi / np.where(low > 0, low, 1)), np.inf)
        best = np.maximum(best, target)
        smaller = np.full_like(best, target)
        for _ in range(3):
            at_best = self.excess(np.where(np.isfinite(best), best, 0.0))[0]
            # the excess is convex in the factor: it is not positive where its chord is 0
            with np.errstate(all="ignore"):
                trial = best - at_best * (best - smaller) / (at_best - above)
            usable = np.isfinite(best) & np.isfinite(trial) & (trial > target) & (trial < best)
            trial = np.where(usable, trial * (1 + 1e-12), target)
            holds = usable & (self.excess(trial)[0] <= 0)
            best = np.where(holds, np.minimum(trial, best), best)
        return best


def _parts(side: Any, active: Any, k: int, count: int) -> tuple[Numbers, ...]:
    if isinstance(side, Form):
        rows = np.shape(active)
        flat = [np.broadcast_to(p, rows)[active] for p in (side.lo, side.hi, side.c, side.e)]
        a = np.broadcast_to(side.a, (k, *rows))[:, active]
        return flat[0], flat[1], flat[2], a, flat[3]
    zero = np.zeros(count)
    value = float(side)
    if value != value:
        return zero - np.inf, zero + np.inf, zero, np.zeros((k, count)), zero + np.inf
    low, high = float(rounding.down(np.float64(value))), float(rounding.up(np.float64(value)))
    return zero + low, zero + high, zero + value, np.zeros((k, count)), zero + (high - low)


def _cut(low: Numbers, high: Numbers, above: Numbers, a: Numbers) -> tuple[Numbers, Numbers]:
    """The smallest box that holds all points at which a form with this upper bound is positive."""
    size = np.abs(a)
    # at t_i = sign(a_i) - s it is at most above - |a_i| s: positive for s < above / |a_i| only
    with np.errstate(all="ignore"):
        reach = above / size * (1 + _MARGIN) + _MARGIN
    reach = np.where(np.isfinite(reach) & (reach < 2 * (1 - _WORTH)), reach, 2.0)
    half = (high - low) / 2
    extent = reach * half * (1 + _MARGIN)
    shorter = (reach < 2) & (high > low)
    new_low = np.where(shorter & (a > 0), np.maximum(low, high - extent), low)
    new_high = np.where(shorter & (a < 0), np.minimum(high, low + extent), high)
    # roundings of the subtraction, far below the margin of wide boxes
    scale = 1e-14 * np.maximum(np.abs(low), np.abs(high))
    return np.maximum(low, new_low - scale), np.minimum(high, new_high + scale)
