"""A bound times a number, to be searched in place of the one that is stated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ratecheck._claims.claim import Claim

#: Digits of the number: enough that it is exact for a search, few enough for arrays of integers.
_DIGITS = 9


def as_numbers(side: Any) -> Any:
    """A side to compute with: a list or a tuple, which a measure may return, as an array."""
    return np.asarray(side) if isinstance(side, list | tuple) else side


def eased(claim: Claim, factor: float) -> Claim:
    """The claim with an upper bound ``factor`` times as large, or a lower one divided by it.

    It says nothing of a trivial bound, and is expected to hold or not as the caller says.

    >>> import ratecheck as rc
    >>> @rc.claim(id="my.a", source="", text="", kind="upper", fields={"x": rc.interval()})
    ... def a(x):
    ...     return x, x / 2
    >>> rc.judge(a).verdict, rc.judge(eased(a, 2.0)).verdict
    ('violated', 'holds')
    """
    # whole numbers keep high precision; one side stays as it is, as the search knows sizes
    part = Fraction(f"{factor:.{_DIGITS}g}")

    def times(side: Any) -> Any:
        return as_numbers(side) * part.numerator / part.denominator

    def measure(instance: Any) -> tuple[Any, Any]:
        measured, bound = claim.measure(instance)
        if claim.relation == ">=":
            return times(measured), bound
        return measured, times(bound)

    return replace(claim, measure=measure, trivial=None)
