"""What every rate of FSLoRA checks of measured floors, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_floors import LEVEL, Floor
from linsys.validate import Array

__all__ = ["LAW", "floor_checks", "floor_series", "slope_tolerance"]

#: Name of the laws in figures.
LAW = "theory"


def slope_tolerance(x: Array, floors: Sequence[Floor]) -> float:
    """How far the exponent of measured floors may differ from that of :attr:`Floor.total`.

    The known part of what the laws leave out changes the slope by a known amount, the rest by what
    a factor between 1 and 1 + ``relative_error`` at every point can do at most.
    """
    known = rc.exact_slope(x, [floor.refined / floor.total for floor in floors]).value
    return abs(known) + rc.slope_error(x, np.array([floor.relative_error for floor in floors]))


def floor_checks(
    name: str,
    x: Array,
    measured: Array,
    floors: Sequence[Floor],
    stated: float,
    *,
    against: str = "",
    law: Array | None = None,
) -> tuple[list[rc.Check], rc.Slope]:
    """Exponent and constants of measured floors (R, points) over x, and what the paper states.

    The prediction is ``Floor.total``, or an equal ``law``. With ``against``, the reason, the
    exponent is to be above the stated one.
    """
    slope = rc.slope_interval(x, measured, rng=0, level=LEVEL)
    tolerance = slope_tolerance(x, floors)
    totals = np.array([floor.total for floor in floors]) if law is None else law
    derived = rc.exact_slope(x, totals).value
    theory = rc.Law(None if against else stated, derived, tolerance)
    checks = theory.checks(name, slope)
    for at, words in ((0, "first"), (-1, "last")):
        size = rc.ratio(measured[:, at], floors[at].refined, LEVEL)
        what = f"{name}: floor / law, {words} point"
        checks.append(
            rc.our_own(rc.rate_check(what, 1.0, size, tolerance=floors[at].relative_error))
        )
    if against:
        what, words = f"{name}: exponent", f"above {stated:g}"
        checks.append(
            rc.our_own(
                rc.above(what, words, slope, stated, tolerance=tolerance, remark=against),
                paper=f"{stated:g}",
            )
        )
    return checks, slope


def floor_series(name: str, panel: str, x: Array, measured: Array, law: Array) -> list[rc.Series]:
    """Measured floors (R, points) with a band, and the law."""
    return [rc.Series(name, panel, x, *rc.mean_band(measured)), rc.Series(LAW, panel, x, law)]
