"""From a violation to one that can be read: few agents, states and dimensions, and simple numbers.

Steps repeat until none succeeds: leave out one index of a named axis, replace numbers by simpler
ones (zero, one, equal entries, fewer digits), put small ones first. A step counts if the completed
instance still meets all assumptions, still violates the claim by a good part of what the first one
did, and is simpler; and if numbers stay credible and neighbours violate the claim as well, where
that was so before. Float64 decides on the way; at the end high precision has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ratecheck._claims.certificates import certify
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Fault, Fields
from ratecheck._search.neighbours import NEAR, measured, share, trust

#: A violation by so much is clear; of less, a step may give up a share.
CLEAR, _SHARE = 0.05, 0.5
#: The share of neighbours that violate the claim as well, from which a violation is generic; how
#: many are looked at in a step, and at how many of the instances that it could lead to.
GENERIC, _NEIGHBOURS, _LOOKED_AT = 0.5, 48, 6
#: A side below this share of the other one counts as zero.
_COLLAPSED = 1e-3
_ROUNDS = 400
_SIMPLE = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.1, -0.1, 0.25, 0.75, 3.0)
_DECIMALS = (0, 1, 2, 3, 4, 6)


@dataclass(frozen=True)
class Goal:
    """What a step must leave: tightness, and a bound that is not zero unless it was.

    Where it was, any other side violates it by as much; so that side must keep half of its
    ``size``, or rounder numbers would shrink it to nothing. ``trusted`` says whether float64 is
    taken at its word, see :func:`ratecheck._claims.certificates.evaluate`; ``credible`` and
    ``generic`` whether a step must leave the instance so.
    """

    tightness: float
    size: float | None
    trusted: bool
    credible: bool
    generic: bool

    def reached(self, tight: Numbers, larger: Numbers, smaller: Numbers) -> Numbers:
        """Which of B instances count, by their tightness and their sides."""
        kept = smaller >= _COLLAPSED * larger if self.size is None else larger >= self.size
        return (tight >= self.tightness) & kept


def shrink(claim: Claim, fields: Fields) -> Fields:
    """A small instance (B = 1) on which the claim is still violated.

    Args:
        claim: the claim.
        fields: a violation that high precision has confirmed, stacks of one.
    """
    # float64 may take this violation for rounding; high precision has shown that it is not
    trusted = trust(claim, fields)
    if trusted is None:  # float64 cannot tell whether a step keeps the violation
        return fields
    start, larger, smaller = measured(claim, fields, trusted=trusted)[:, 0].tolist()
    goal = Goal(
        tightness=1 + (CLEAR if start >= 1 + CLEAR else _SHARE * (start - 1)),
        # a bound of zero is kept out unless there was one: readers take it for a borderline case
        size=_SHARE * larger if smaller < _COLLAPSED * larger else None,
        trusted=trusted,
        credible=bool(claim.space.persuades(fields)[0]),
        generic=_is_generic(claim, fields),
    )
    trail = [fields]
    while len(trail) < _ROUNDS:
        now = trail[-1]
        step = (
            _smaller(claim, now, goal)
            or _simpler(claim, now, goal)
            or _small_numbers_first(claim, now, goal)
        )
        if step is None:
            break
        trail.append(step)
    return next(f for f in reversed(trail) if f is fields or _confirmed(claim, f))


def _confirmed(claim: Claim, fields: Fields) -> bool:
    try:
        return certify(claim, fields).violated
    except Fault:
        return False


def _tightness(claim: Claim, fields: Fields, goal: Goal) -> Numbers:
    """Tightness (B,), -inf where the goal is not reached."""
    tight, larger, smaller = measured(claim, fields, trusted=goal.trusted)
    kept = goal.reached(tight, larger, smaller)
    if goal.credible:
        kept &= claim.space.persuades(fields)
    return np.where(kept, tight, -np.inf)


def _is_generic(claim: Claim, fields: Fields) -> bool:
    return share(claim, fields, NEAR, _NEIGHBOURS) >= GENERIC


def _first(claim: Claim, batch: Fields, order: Numbers, goal: Goal) -> Fields | None:
    """The first instance of a batch in this order that is generic, if it has to be."""
    for row in order[:_LOOKED_AT].tolist():
        one = {name: values[row : row + 1] for name, values in batch.items()}
        if not goal.generic or _is_generic(claim, one):
            return one
    return None


def _smaller(claim: Claim, fields: Fields, goal: Goal) -> Fields | None:
    """The instance without one index of an axis, if that still violates the claim."""
    space = claim.space
    sizes = space.sizes_of(fields)
    for axis, length in sizes.items():
        if length <= space.sizes[axis][0]:
            continue
        options = [_without(claim, fields, axis, index) for index in range(length)]
        batch = space.complete({k: np.concatenate([o[k] for o in options]) for k in fields})
        tight = _tightness(claim, batch, goal)
        good = np.flatnonzero(np.isfinite(tight))
        step = _first(claim, batch, good[np.argsort(-tight[good], kind="stable")], goal)
        if step is not None:
            return step
    return None


def _without(claim: Claim, fields: Fields, axis: str, index: int) -> Fields:
    cut = {}
    for name, domain in claim.space.fields.items():
        cut[name] = fields[name]
        for place, own in enumerate(domain.axes):
            if own == axis:
                cut[name] = np.delete(cut[name], index, axis=1 + place)
    return cut


def _simpler(claim: Claim, fields: Fields, goal: Goal) -> Fields | None:
    """The simplest of all instances that differ in one field or one number."""
    batch = claim.space.complete(_options(claim, fields))
    batch = {name: values + 0.0 for name, values in batch.items()}  # no -0.0
    cost = sum(_reading_cost(values) for values in batch.values())
    now = sum(_reading_cost(values) for values in fields.values())
    assert not isinstance(cost, int)
    assert not isinstance(now, int)
    cheap = np.flatnonzero(cost < now[0] - 1e-9)
    if not cheap.size:
        return None
    tight = _tightness(claim, {name: values[cheap] for name, values in batch.items()}, goal)
    good = cheap[np.isfinite(tight)]
    return _first(claim, batch, good[np.argsort(cost[good], kind="stable")], goal)


def _small_numbers_first(claim: Claim, fields: Fields, goal: Goal) -> Fields | None:
    """The instance with two neighbours along an axis exchanged, if that puts small numbers first.

    So what does not depend on the order is found in the same order, whatever the search began with.
    """
    space = claim.space
    for axis, length in space.sizes_of(fields).items():
        for first in range(length - 1):
            order = np.arange(length)
            order[[first, first + 1]] = first + 1, first
            swapped = {name: values + 0.0 for name, values in fields.items()}
            for name, domain in space.fields.items():
                for place, own in enumerate(domain.axes):
                    if own == axis:
                        swapped[name] = np.take(swapped[name], order, axis=1 + place)
            if (
                _all_numbers(swapped) < _all_numbers(fields)
                and _all_numbers(space.complete(swapped)) == _all_numbers(swapped)
                and np.isfinite(_tightness(claim, swapped, goal))[0]
            ):
                return swapped
    return None


def _all_numbers(fields: Fields) -> list[float]:
    return [number for values in fields.values() for number in values.ravel().tolist()]


def _options(claim: Claim, fields: Fields) -> Fields:
    """Instances (B, *shape) that differ from one in one field each."""
    changed = {}
    for name, domain in claim.space.fields.items():
        values = fields[name]
        arrays = [*_simple_arrays(values), *(domain.rounded(values, k) for k in _DECIMALS)]
        numbers = [
            (place, number)
            for place in np.ndindex(values.shape[1:])
            for number in _simple_numbers(float(values[(0, *place)]), values)
        ]
        replaced = np.repeat(values, len(numbers), axis=0)
        for row, (place, number) in enumerate(numbers):
            replaced[(row, *place)] = number
        changed[name] = np.concatenate([*arrays, domain.settled(replaced)])
    counts = {name: len(stack) for name, stack in changed.items()}
    before, total = 0, sum(counts.values())
    options = {}
    for name, stack in changed.items():
        options[name] = np.repeat(fields[name], total, axis=0)
        options[name][before : before + counts[name]] = stack
        before += counts[name]
    return options


def _simple_arrays(values: Numbers) -> Iterator[Numbers]:
    """A field as a whole: constant, an identity, of size one, every row like the first."""
    for number in (0.0, 1.0):
        yield np.full_like(values, number)
    if values.ndim > 2 and values.shape[-1] == values.shape[-2]:
        yield np.broadcast_to(np.eye(values.shape[-1]), values.shape).copy()
    for size in (np.abs(values).max(initial=0.0), 10.0):
        yield values / (size or 1.0)
    for axis in range(1, values.ndim):
        yield np.broadcast_to(np.take(values, [0], axis=axis), values.shape).copy()


def _simple_numbers(number: float, values: Numbers) -> Iterator[float]:
    """Simpler numbers near one, or equal to others of the field."""
    yield from _SIMPLE
    for digits in _DECIMALS[1:]:
        yield float(f"{number:.{digits}g}")
    yield from (10.0 ** round(np.log10(abs(number))) * np.sign(number) for _ in range(number != 0))
    yield from np.unique(values)[:4].tolist()


def _reading_cost(values: Numbers) -> Numbers:
    """How much there is to read in each of B arrays, shape (B,)."""
    different, places = np.unique(values, return_inverse=True)  # of most numbers there are many
    costs = np.array([_digits(number) for number in different.tolist()])
    # from first to last: in another order rounding would break ties in another way
    return np.cumsum(costs[places].reshape(len(values), -1), axis=1)[:, -1]


@lru_cache(maxsize=1 << 14)  # of one instance to the next, most numbers stay
def _digits(number: float) -> float:
    if number == 0:
        return 0.0
    mantissa, _, exponent = f"{abs(number):e}".partition("e")
    digits = len(repr(float(mantissa)).rstrip("0").replace(".", ""))
    long = len(repr(abs(number)).replace(".", "").strip("0").partition("e")[0])
    first = int(mantissa[0])
    return max(digits, long) + 0.05 * first + 0.5 * (number < 0) + 0.25 * abs(int(exponent))
