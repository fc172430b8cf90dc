"""Times at which a long run is looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linsys.validate import check_integer, increasing_times

__all__ = ["geometric_times"]


def geometric_times(
    horizon: int, *, per_decade: int = 10, also: Sequence[int] = ()
) -> NDArray[np.int64]:
    """Whole numbers from 1 to ``horizon``, evenly spaced in the logarithm, with 0 and any others.

    Args:
        horizon: the last time, at least 1; it is always included.
        per_decade: times per factor of ten, at least 1; fewer where whole numbers coincide.
        also: further times, in any order, that are to be recorded as well.

    Returns:
        Strictly increasing times, as :func:`simulate` and the exact engine take them.

    Raises:
        InputError: counts that are no whole numbers, or negative times.

    >>> geometric_times(1000, per_decade=2, also=[500])
    array([   0,    1,    3,   10,   32,  100,  316,  500, 1000])
    """
    horizon, per_decade = (
        check_integer("horizon", horizon, low=1),
        check_integer("per_decade", per_decade, low=1),
    )
    extra = [check_integer("also", t) for t in also]
    count = int(np.ceil(per_decade * np.log10(horizon))) + 1
    grid = np.round(np.geomspace(1.0, float(horizon), max(count, 2))).astype(np.int64)
    return increasing_times(np.unique([0, *grid.tolist(), horizon, *extra]))
