"""Claims that are made from others, which are false."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import ratecheck as rc

Stated = TypeVar("Stated", rc.Claim, rc.RateClaim)
#: What a false claim says of itself, taken back.
_UNSAID: dict[str, Any] = {
    "note": "",
    "corrected": None,
    "reading_of": None,
    "reading": "",
    "uses": (),
    "main": False,
}


def true_variant(claim: Stated, **changes: Any) -> Stated:
    """A false claim with changes that make it true: ours, unless they say what is printed."""
    said = {**_UNSAID, "expect": type(claim).expect, "printed_as": "ours"}
    if isinstance(claim, rc.Claim):
        said["family"] = ()
    return replace(claim, **{**said, **changes})
