"""What every rate of FSLoRA checks of measured floors, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments._model import Check, Series
from experiments._rates import (
    Slope,
    above,
    exact_slope,
    mean_band,
    rate_check,
    ratio,
    slope_interval,
)
from experiments.fslora._rates_floors import LEVEL, Floor
from linsys._validate import Array

__all__ = ["LAW", "floor_checks", "floor_series", "slope_room", "uncertain"]

#: Name of the laws in figures.
LAW = "theory"


def slope_room(x: Array, floors: Sequence[Floor]) -> float:
    """How far the exponent of measured floors over x may be from that of :attr:`Floor.total`.

    The known part of what the laws leave out changes the slope by a known amount, the rest by what
    a factor between 1 and 1 + ``room`` at every point can do at most.
    """
    known = exact_slope(x, [floor.refined / floor.total for floor in floors]).value
    return abs(known) + uncertain(x, np.array([floor.room for floor in floors]))


def uncertain(x: Array, room: Array) -> float:
    """How far factors within 1 -+ ``room`` at every x can move a log-log slope."""
    centred = np.log(x) - np.log(x).mean()
    return float(np.abs(centred) @ room / (centred @ centred))


def floor_checks(
    name: str,
    x: Array,
    measured: Array,
    floors: Sequence[Floor],
    stated: float,
    *,
    against: str = "",
    law: Array | None = None,
) -> tuple[list[Check], Slope]:
    """Exponent and constants of measured floors (R, points) over x, and what the paper states.

    The prediction is ``Floor.total``, or an equal ``law``. With ``against``, the reason, the
    exponent is to be above the stated one.
    """
    slope = slope_interval(x, measured, rng=0, level=LEVEL)
    tolerance = slope_room(x, floors)
    totals = np.array([floor.total for floor in floors]) if law is None else law
    derived = exact_slope(x, totals).value
    checks = [rate_check(f"{name}: as derived", derived, slope, tolerance=tolerance)]
    for at, words in ((0, "first"), (-1, "last")):
        size = ratio(measured[:, at], floors[at].refined, LEVEL)
        what = f"{name}: floor / law, {words} point"
        checks.append(rate_check(what, 1.0, size, tolerance=floors[at].room))
    if against:
        what, words = f"{name}: exponent", f"above {stated:g}"
        checks.append(above(what, words, slope, stated, tolerance=tolerance, remark=against))
    else:
        what = f"{name}: as stated"
        checks.append(rate_check(what, stated, slope, tolerance=tolerance, bound=True))
    return checks, slope


def floor_series(name: str, panel: str, x: Array, measured: Array, law: Array) -> list[Series]:
    """Measured floors (R, points) with a band, and the law."""
    return [Series(name, panel, x, *mean_band(measured)), Series(LAW, panel, x, law)]
