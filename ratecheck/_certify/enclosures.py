"""Both sides of a claim at one instance, enclosed: where the enclosures are apart, it is proved.

The instance is exact: its numbers are the decimals of the file, moved into the domains of the
claim's space by exact arithmetic. The claim's own function is evaluated by
:mod:`linsys.linalg.balls`. A comparison that the balls leave open is taken both ways, and what is
proved has to hold both times.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from linsys.linalg import no_floats, precise, precision
from linsys.linalg.ball_arithmetic import ball_arithmetic, rounded_constants
from linsys.linalg.balls import Ball, Undecided, every_case, no_cases
from linsys.linalg.degrees import NotRational
from linsys.validate import InputError
from ratecheck._certify.check import Interval, apart
from ratecheck._claims.claim import Claim, Relation
from ratecheck._claims.fields import magnitude_of
from ratecheck._claims.places import place_of
from ratecheck._claims.space import Fault, Space, quiet

#: Bits of the midpoints of balls, in the order in which they are tried.
BITS = (64, 128, 256, 512, 1024)
#: So many outcomes of open comparisons are followed at most.
MOST = 256
#: An assumption that no ball decides and float64 confirms.
_OPEN = "checked in float64 only"
_LEFT = "a ball becomes a float"
#: A number for the enclosures of the two sides of a relation.
By = Callable[[Relation, Interval, Interval], Fraction]
#: An instance lies in the space where the nearest one, in so many digits, is as near as float64 is.
_DIGITS, _INSIDE = 40, 1e-9
#: At least so many digits are compared with balls. What rounding may take of a side, as a share of
#: its size: in float64, and of constants in so many digits; and of the instance's squared size.
_MANY, _LOST, _OF_MANY, _CANCELLED = 80, 1e-3, 1e-6, 1e-12


class Unprovable(Exception):
    """Why balls say nothing of a claim at an instance, in a line; more bits will not help."""


@dataclass(frozen=True)
class Case:
    """The entry of the two sides that is farthest apart, and its enclosures."""

    entry: int
    measured: Interval
    bound: Interval

    def violates(self, relation: Relation) -> bool:
        """Whether every pair of numbers in the two enclosures breaks the relation."""
        return apart(relation, self.measured, self.bound) > 0


@dataclass(frozen=True)
class Enclosed:
    """What balls say of a claim at an instance.

    Args:
        cases: one for every outcome of comparisons that are open.
        assumptions: of the space by name: "proved", or why balls do not prove that it is met.
        constants: float64 numbers of the formula that were taken for balls of radius 1e-12.
        bits: of the balls; 0 where both sides are exact rationals.
    """

    cases: tuple[Case, ...]
    assumptions: Mapping[str, str]
    constants: tuple[float, ...]
    bits: int

    def violates(self, relation: Relation) -> bool:
        """Whether the claim is violated, however the open comparisons come out."""
        return all(case.violates(relation) for case in self.cases)


def enclose(
    claim: Claim, instance: Mapping[str, Any], bits: int, most: int = MOST, by: By = apart
) -> Enclosed:
    """Both sides of a claim at one instance, in balls of so many bits.

    Args:
        claim: the claim.
        instance: plain lists by field, as in :attr:`Verdict.counterexample`.
        bits: of the midpoints of the balls.
        most: outcomes of open comparisons that are followed.
        by: what is largest of the entry that is shown; by default how far the claim is broken.

    Raises:
        Undecided: balls of this precision are too wide.
        Unprovable: the formula leaves the arithmetic, or the instance the space.

    >>> from ratecheck import claim, interval
    >>> @claim(id="mine.root", source="", kind="upper", text="", fields={"x": interval()})
    ... def root(x):
    ...     return np.sqrt(x), x
    >>> enclosed = enclose(root, {"x": 0.25}, 64)
    >>> enclosed.cases[0].measured[0], enclosed.violates("<=")
    (Fraction(1, 2), True)
    """
    _check_inside(claim.space, instance)
    try:
        with ball_arithmetic(bits), quiet():
            outcomes = every_case(lambda: _evaluated(claim, instance, bits, by), most)
    except (Fault, TypeError, ValueError, ZeroDivisionError) as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        if isinstance(cause, Undecided):
            raise cause from None
        raise Unprovable(told(cause)) from error
    assumptions: dict[str, str] = {}
    for outcome in outcomes:
        met = outcome.assumptions.items()
        assumptions |= {k: v for k, v in met if assumptions.get(k, "proved") == "proved"}
    constants = sorted({value for outcome in outcomes for value in outcome.constants})
    exact = not constants and not any(outcome.bits for outcome in outcomes)
    cases = tuple(case for outcome in outcomes for case in outcome.cases)
    _check_types(claim, instance, cases, bits)
    return Enclosed(cases, assumptions, tuple(constants), 0 if exact else bits)


def _check_inside(space: Space, instance: Mapping[str, Any]) -> None:
    """Refuse an instance that is not of the space: the nearest one that is would stand for it."""
    try:
        arrays = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
        space.sizes_of(arrays)
        with precision(_DIGITS), quiet():
            exact = space.precise(arrays)
        for name, given in arrays.items():
            inside = np.abs(exact[name].astype(float) - given) <= _INSIDE * (1 + np.abs(given))
            if not (inside & np.isfinite(given)).all():
                raise InputError(f"`{name}` must be of its domain; found {instance[name]!r:.80}")
    except (InputError, TypeError, ValueError, Fault) as error:
        raise Unprovable(f"`instance` must be of the claim's space: {error}") from None


def _check_types(
    claim: Claim, instance: Mapping[str, Any], cases: Sequence[Case], bits: int
) -> None:
    """Refuse a function that is another formula of float64, or of many digits, than of balls."""
    space = claim.space
    arrays = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
    magnitude = max(1.0, float(magnitude_of(list(arrays.values())).max())) ** 2
    digits = max(_MANY, math.ceil(bits * math.log10(2)))
    with precision(digits), quiet():
        for numbers, left, share in (("float64", "", _LOST), (f"{digits} digits", _LEFT, _OF_MANY)):
            try:
                views = space.views(space.precise(arrays) if left else arrays)
                sides = both_sides(claim, views, left)
            except Exception:  # balls go farther: nothing can be compared
                continue
            if not any(_is_near(case, sides, share, _CANCELLED * magnitude) for case in cases):
                raise Unprovable(
                    f"both sides must be the same in balls and in {numbers}, but for rounding; "
                    "found others: they depend on the type of numbers, or rounding is large there"
                )


def _is_near(case: Case, sides: Any, share: float, least: float) -> bool:
    """Whether both sides lie in their enclosures, widened by a share of their size and by least."""
    for side, ends in zip(sides, (case.measured, case.bound), strict=True):
        value, low, high = precise([side.ravel().tolist()[case.entry], *ends])
        room = share * max(abs(low), abs(high)) + least
        if abs(value) < math.inf and not low - room <= value <= high + room:
            return False
    return True


def _evaluated(claim: Claim, instance: Mapping[str, Any], bits: int, by: By) -> Enclosed:
    """One outcome of the open comparisons."""
    space = claim.space
    arrays = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
    views = space.views(space.precise(arrays))
    sides = both_sides(claim, views, _LEFT)
    constants = tuple(rounded_constants())  # before those of the predicates, such as a tolerance
    predicates = {**space.assumes, **space.given}
    met = {name: _met(claim, predicates[name], views) for name in predicates}
    measured, bound = ([_ball(x) for x in side.ravel().tolist()] for side in sides)
    case = worst(claim.relation, measured, bound, by)
    exact = measured[case.entry].exact and bound[case.entry].exact
    return Enclosed((case,), met, constants, 0 if exact else bits)


def both_sides(claim: Claim, views: Any, left: str = "") -> tuple[Any, ...]:
    """Both sides of a claim, as its function gives them, as arrays of the same shape.

    Args:
        claim: the claim.
        views: of instances, as the claim's space has them.
        left: what is said of a number that becomes a float, which then is an error.
    """
    with no_floats(left) if left else contextlib.nullcontext():
        answer = claim.measure(views if claim.space.batched else views[0])
    return np.broadcast_arrays(*aligned(*(np.asarray(side) for side in answer)))


def aligned(measured: Any, bound: Any) -> tuple[Any, Any]:
    """Axes of length one at the end: (B,) against (B, n) is one value for all n."""
    width = max(measured.ndim, bound.ndim)
    first, second = (s.reshape((*s.shape, *[1] * (width - s.ndim))) for s in (measured, bound))
    return first, second


def _ball(value: Any) -> Ball:
    """An entry of a side, which may be a plain number."""
    ball: Ball = Ball(0) + value
    return ball


def worst(
    relation: Relation, measured: Sequence[Ball], bound: Sequence[Ball], by: By = apart
) -> Case:
    """The entry of which this is largest, of those whose enclosures are bounded."""
    cases: list[Case] = []
    reason = "there is no entry"
    for entry, sides in enumerate(zip(measured, bound, strict=True)):
        try:
            cases.append(Case(entry, *(side.ends() for side in sides)))
        except Undecided as error:
            reason = str(error)
    if not cases:
        raise Undecided(reason)
    return max(cases, key=lambda case: by(relation, case.measured, case.bound))


def _met(claim: Claim, predicate: Any, views: Any) -> str:
    """Whether balls prove that the instance meets an assumption."""
    try:
        with no_cases():
            answer = predicate(views if claim.space.batched else views[0])
        return "proved" if bool(np.all(np.asarray(answer, dtype=bool))) else "not met"
    except Undecided as error:
        return f"{_OPEN}: {error}"
    except Exception as error:
        return f"{_OPEN}: {told(error)}"


def told(error: BaseException) -> str:
    """The error in a line, with the line of the formula that raised it."""
    plain = isinstance(error, Undecided | NotRational)
    what = " ".join((f"{error}" if plain else f"{type(error).__name__}: {error}").split())[:200]
    at = place_of(error)
    if at is None:
        return what
    return f"{Path(at.filename).name}:{at.lineno}, `{(at.line or '').strip()}`: {what}"
