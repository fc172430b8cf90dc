"""Numbers as people write them, and instances: vectors in round brackets, matrices row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

#: Fractions with a larger denominator are no easier to read than decimals.
_DENOMINATOR = 99


def lines(instance: Mapping[str, Any] | None) -> list[str]:
    """One line per field; axes of length one at the end are left out, numbers are exact.

    >>> lines({"mu": [[0.5, 0.5], [1.0, -0.0]], "theta": [[1 / 3], [2.0]], "floor": 0.001})
    ['mu = [0.5 0.5; 1 0]', 'theta = (1/3, 2)', 'floor = 0.001']
    """
    return [f"{name} = {_values(value)}" for name, value in (instance or {}).items()]


def _values(values: Any) -> str:
    array = np.asarray(values, dtype=float) + 0.0  # no negative zero
    while array.ndim and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim == 0:
        return number(float(array))
    if array.ndim == 1:
        return f"({', '.join(number(v) for v in array.tolist())})"
    if array.ndim == 2:
        return f"[{'; '.join(' '.join(map(number, row)) for row in array.tolist())}]"
    return ", ".join(_values(part) for part in array)


def number(value: float) -> str:
    """The shortest of the decimal and the fraction that are exactly this float.

    >>> [number(v) for v in (2.0, 0.1, 1 / 3, 1e12, -0.99994)]
    ['2', '0.1', '1/3', '1e12', '-0.99994']
    """
    if not math.isfinite(value):
        return str(value)
    decimal = repr(value).removesuffix(".0").replace("e+", "e").replace("e-0", "e-")
    if value == int(value) and abs(value) >= 1e5:
        decimal = min(decimal, f"{value:g}".replace("e+", "e"), key=len)
        decimal = decimal if float(decimal) == value else repr(value)
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    simple = str(near)
    return simple if float(near) == value and len(simple) < len(decimal) else decimal


def ratio(value: float | None, digits: int = 4) -> str:
    """The ratio of a measured side to its bound; a million and more is no number to compare.

    >>> ratio(2 / 3), ratio(1.22e161), ratio(None)
    ('0.6667', '> 1e6', '')
    """
    if value is None:
        return ""
    return "> 1e6" if value > 1e6 else f"{value:.{digits}g}"


def short(value: Any) -> str:
    """A number in four digits; text as it is, and no text for nothing.

    >>> short(2 / 3), short("below 1"), short(None)
    ('0.6667', 'below 1', '')
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.4g}"


def ends(lo: float, hi: float) -> tuple[str, str]:
    """Both ends of an interval in four digits, or in as many as show two of how far it reaches.

    >>> ends(0.5, 2 / 3), ends(1.0000173, 1.0000283)
    (('0.5', '0.6667'), ('1.000017', '1.000028'))
    """
    apart, size = hi - lo, max(abs(lo), abs(hi))
    digits = 4
    if 0 < apart < size < math.inf:
        digits = min(max(4, math.ceil(math.log10(size / apart)) + 2), 15)
    return f"{lo:.{digits}g}", f"{hi:.{digits}g}"
