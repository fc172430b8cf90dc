"""Claims that are false by a little: a search that is any good finds them out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ratecheck as rc


def tighten_bound(claim: rc.Claim, ratio: float = 1.0, tenths: int = 1) -> rc.Claim:
    """The claim with a bound that the tightest instance known misses by some tenths.

    ``ratio``: how close instances come to the bound as it is.
    """

    def measure(instance: Any) -> tuple[Any, Any]:
        measured, bound = claim.measure(instance)
        smaller, larger = (10 - tenths) * ratio, 10
        if claim.relation == ">=":
            return measured * smaller, bound * larger
        return measured * larger, bound * smaller

    return replace(claim, measure=measure, expect="violated")
