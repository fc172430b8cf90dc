"""Rates of one over t: as it is stated, faster, and slower."""

from __future__ import annotations

import ratecheck as rc


def rate(name: str, measured: float, expect: str = "consistent") -> rc.RateClaim:
    regime = rc.Regime("late", "t", -1.0, measured, measured - 0.01, measured + 0.01)
    return rc.RateClaim(
        id=f"speed.{name}", source="s", text="1/t", regimes=lambda: [regime], expect=expect
    )


SAME = rate("same", -1.0)
FASTER = rate("faster", -2.0, "faster than stated")
SLOWER = rate("slower", -0.5)
