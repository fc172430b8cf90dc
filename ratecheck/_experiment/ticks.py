"""Labels of logarithmic axes: powers of ten, and numbers between where those are too few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogFormatterMathtext

#: Between powers of ten these multiples come first.
_FIRST = (2, 5)
#: Numbers between these are written out, others with a power of ten.
_PLAIN = (1e-4, 1e5)


class LogTicks(LogFormatterMathtext):  # type: ignore[misc, unused-ignore]
    """Labels of the major and of the minor ticks of one logarithmic axis.

    Powers of ten are labelled alone where at least two are in view. Otherwise 2 and 5 times them
    are, too, and every tick where that still makes fewer than two.
    """

    def __init__(self) -> None:
        super().__init__()
        self._powers_suffice = self._needs_all = False

    def set_locs(self, locs: Any = None) -> None:
        """Decide by what is in view at these ticks."""
        super().set_locs(locs)
        axis: Any = self.axis  # None only before an axis has taken it
        low, high = sorted(axis.get_view_interval())
        # the ends, up to rounding, are in view
        powers = np.floor(np.log10(high) + 1e-9) - np.ceil(np.log10(low) - 1e-9) + 1
        shown: Sequence[float] = [x for x in (() if locs is None else locs) if low <= x <= high]
        self._powers_suffice = bool(powers >= 2)
        self._needs_all = bool(powers + sum(_leading(x) in _FIRST for x in shown) < 2)

    def __call__(self, x: float, pos: Any = None) -> str:
        """The label of the tick at x, or nothing."""
        digit = _leading(x)
        if self._powers_suffice:
            return str(super().__call__(x, pos)) if digit == 1 else ""
        if not (self._needs_all or digit in (1, *_FIRST)):
            return ""
        if _PLAIN[0] <= x <= _PLAIN[1]:
            return f"{x:.3g}"
        power = int(np.floor(np.log10(x) + 1e-9))
        factor = "" if digit == 1 else rf"{x / 10.0**power:.3g}\times"
        return rf"$\mathdefault{{{factor}10^{{{power}}}}}$"


def _leading(x: float) -> int:
    """The digit d of x = d 10^k, or 0 where x is not of this form."""
    mantissa = x / 10.0 ** np.floor(np.log10(x) + 1e-9) if x > 0 else 0.0
    return round(mantissa) if abs(mantissa - round(mantissa)) < 1e-6 else 0
