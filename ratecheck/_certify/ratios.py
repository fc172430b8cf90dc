"""Constants from below: the ratio of the two sides of a bound at an instance.

Searches find instances whose ratio is large, and balls say what the ratio at one is not below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg.balls import Undecided
from linsys.validate import InputError
from ratecheck._certify.check import Interval, rational
from ratecheck._certify.enclosures import BITS, Unprovable, enclose
from ratecheck._certify.stated import check_met, check_sizes, sizes_of_instance
from ratecheck._claims.certificates import certify as in_high_precision, ratio
from ratecheck._claims.claim import Claim, Relation
from ratecheck._claims.space import Fault, Fields, Sizes
from ratecheck._processes.limit import TimeLimit
from ratecheck._search.search import EFFORTS, Effort, Search
from ratecheck._verdicts.verdict import plain, tightest_instance

__all__ = [
    "Largest",
    "at_least",
    "at_smallest_sizes",
    "found",
    "largest",
    "of_sizes",
    "rounded",
    "verify_found",
]

#: The search for a ratio from below.
EFFORT = Effort(random=1_500, examples=1, ascents=2, budget=1_500)
#: That of all sizes together.
_ALL = EFFORTS["normal"]
#: Combinations of sizes that are looked at for one at which the claim says something.
_SIZES = 12
#: A ratio from which on a bound that is proved is as good as attained; and one from which on its
#: constant is known to 1 %.
_NEAR, _KNOWN = Fraction(999, 1000), Fraction(100, 101)
#: A ratio from which on other searches at the same sizes may come near 1, and their seeds.
_CLIMBING, _SEEDS = Fraction(9, 10), range(1, 4)
#: What is said of a certificate is rounded to so many digits, outward.
_DIGITS = 12


class Largest:
    """The largest ratio that a search found at given sizes.

    Args:
        sizes: of the instance.
        ratio: of the two sides; 0 where no instance has two positive sides.
        instance: plain lists by field.
        surely: a rational that the ratio at the instance is not below, by balls; None where balls
            do not say so.
    """

    def __init__(
        self, sizes: Sizes, ratio: float, instance: Mapping[str, Any], surely: Fraction | None
    ) -> None:
        self.sizes, self.ratio, self.instance, self.surely = sizes, ratio, instance, surely


def of_sizes(claim: Claim, sizes: Sizes) -> Claim:
    """The claim about instances of these sizes alone.

    Raises:
        InputError: the space has other sizes.
    """
    check_sizes(claim, sizes)
    space = claim.space

    def fits(corner: Fields) -> bool:
        stacks = {name: np.asarray(corner[name], dtype=float)[None] for name in space.fields}
        try:
            return space.sizes_of(stacks) == sizes
        except InputError:
            return False

    corners = [corner for corner in space.corners if fits(corner)]  # type: ignore[arg-type]
    fixed = {name: (size, size) for name, size in sizes.items()}
    return replace(claim, space=replace(space, sizes=fixed, corners=corners), family=())


def at_smallest_sizes(claim: Claim) -> Largest:
    """The largest ratio found at the smallest sizes at which both sides are ever positive."""
    nothing = None
    for sizes in claim.space.all_sizes()[:_SIZES]:
        one = largest(claim, sizes)
        if one.ratio > 0:
            return one
        nothing = nothing or one
    assert nothing is not None
    return nothing


def largest(claim: Claim, sizes: Sizes | None, seed: int = 0) -> Largest:
    """The largest ratio of the two sides that a search finds at these sizes, or at all sizes."""
    effort = _ALL if sizes is None else EFFORT
    search = Search(replace(claim, family=()) if sizes is None else of_sizes(claim, sizes), seed)
    search.run(effort)
    if not search.instances:
        return Largest(sizes or {}, 0.0, {}, None)
    _, scored = tightest_instance(search, effort)
    found = ratio(claim.relation, in_high_precision(claim, scored.fields))
    instance = plain(scored.fields)
    if found is None or found <= 0:
        return Largest(scored.sizes, 0.0, instance, None)
    return Largest(scored.sizes, found, instance, at_least(claim, instance))


def at_least(claim: Claim, instance: Mapping[str, Any]) -> Fraction | None:
    """A rational that the ratio of the sides at an instance is not below, by balls.

    Of several entries it is the largest one; an entry whose bound may be zero has none.
    """
    best = None
    for bits in BITS[:3]:
        try:
            enclosed = enclose(claim, instance, bits, by=_quotient)
        except (Undecided, Unprovable, InputError):
            continue
        try:
            check_met(claim, instance, enclosed.assumptions)
        except Unprovable:  # what the claim is given, or assumes
            return None
        ratios = [
            max(_quotient(claim.relation, case.measured, case.bound), Fraction(0))
            for case in enclosed.cases
        ]
        best = max(min(ratios), best or Fraction(0))
        if min(ratios) > 0:
            return best
    return best or None


def _quotient(relation: Relation, measured: Interval, bound: Interval) -> Fraction:
    """What the ratio of two sides is not below; -1 where it has no sense."""
    top, bottom = (bound, measured) if relation == ">=" else (measured, bound)
    return top[0] / bottom[1] if bottom[0] > 0 else Fraction(-1)


def found(claim: Claim, known: Sequence[Any] = ()) -> dict[str, Any]:
    """What a proof that a bound holds says of its best constant: ``found``, or nothing.

    It is a ratio of the two sides that balls prove at an instance, with the instance and its sizes:
    the largest one that a search finds, the smallest sizes first, up to those at which the constant
    is known to 1 %. Where none of the smallest will do, as where a side is zero at all of them,
    there is a search of all sizes together. A limit of time ends the search, not the proof.

    Args:
        claim: an upper or a lower bound.
        known: instances that were found before, plain lists by field; what is none of the claim's
            space says nothing.
    """
    best: Largest | None = None
    try:
        before = [one for instance in known if (one := _evaluated(claim, instance))]
        for sizes in (*claim.space.all_sizes()[:_SIZES], None):
            best = max([best, *(one for one in before if sizes in (None, one.sizes))], key=_surely)
            best = _searched_from(best, claim, sizes)
            if _surely(best) >= _KNOWN:
                break
    except TimeLimit:
        pass
    if best is None:
        return {}
    exact = str(_surely(best))  # a quotient that rounding would put below what it is
    ratio = exact if len(exact) <= _DIGITS else rounded(_surely(best), ROUND_FLOOR)
    return {"found": {"ratio": ratio, "sizes": dict(best.sizes), "instance": dict(best.instance)}}


def _searched_from(best: Largest | None, claim: Claim, sizes: Sizes | None) -> Largest | None:
    """The largest ratio known, or what searches at these sizes, or all, find that is larger."""
    for seed in (0, *_SEEDS)[: 1 if sizes is None else None]:
        try:
            one = largest(claim, sizes, seed)
        except Fault:
            break
        best = max(best, one, key=_surely)
        if _surely(best) >= _NEAR or _surely(one) < _CLIMBING:
            break
    return best


def _evaluated(claim: Claim, instance: Any) -> Largest | None:
    """The ratio at an instance; None where it is none of the claim's space or balls prove none."""
    try:
        given = sizes_of_instance(claim, instance)
    except Unprovable:
        return None
    sizes, surely = {name: given[name] for name in claim.space.sizes}, at_least(claim, instance)
    return None if surely is None else Largest(sizes, float(surely), instance, surely)


def _surely(one: Largest | None) -> Fraction:
    """The ratio that balls prove; 0 where they prove none."""
    return Fraction(0) if one is None or one.surely is None else one.surely


def verify_found(content: Any, claim: Claim) -> None:
    """Evaluate the ratio of the two sides at a certificate's instance anew.

    Args:
        content: ``ratio``, ``sizes`` and ``instance``.
        claim: an upper or a lower bound.

    Raises:
        Unprovable: the ratio there is smaller, or the instance has other sizes.
        InputError: the claim has no such sizes.
    """
    try:
        low = rational(content["ratio"])
        sizes, instance = content["sizes"], content["instance"]
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Unprovable(
            f"`ratio`, `sizes` and `instance` must be those of an instance: {error!r}"
        ) from None
    check_sizes(claim, sizes)
    given = sizes_of_instance(claim, instance)
    if given != sizes:
        raise Unprovable(f"`instance` must be of the sizes {sizes}; found {given}")
    least_ratio = at_least(claim, instance)
    if least_ratio is None or least_ratio < low:
        shown = None if least_ratio is None else float(least_ratio)
        raise Unprovable(f"the ratio at `instance` must be {low} or more; found {shown}")


def rounded(value: Fraction, rounding: str) -> str:
    """A rational as a decimal of 12 digits, rounded up or down.

    >>> rounded(Fraction(1, 3), ROUND_FLOOR)
    '0.333333333333'
    """
    context = Context(prec=_DIGITS, rounding=rounding)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
