"""Constants in a formula that were rounded before anybody saw them, such as ``math.sqrt(2)``."""

from __future__ import annotations

import math

__all__ = ["reach"]

#: A float64 of at most so many digits is the decimal that it is written as.
_DIGITS = 12
#: Any other one stands for a number within this share of it: some thousand roundings of float64.
_SHARE = 1e-12


def reach(value: float) -> float:
    """How far what a float64 in a formula stands for may be from it; 0 for a decimal.

    What is left of a difference, such as ``1 - n * (1 / n)``, is small and as uncertain as the
    numbers that it is left of. These are not known, and taken to be of order one.

    >>> reach(0.1), reach(2**0.5), reach(1 - 49 * (1 / 49))
    (0.0, 1.4142135623730951e-12, 1e-12)
    """
    if not math.isfinite(value) or float(f"{value:.{_DIGITS}g}") == value:
        return 0.0
    return max(1.0, abs(value)) * _SHARE
