"""Intervals over instances: what to expect of a system that was not drawn yet.

A ratio of two methods is formed within an instance, on the same samples; Student's interval comes
from the spread over instances. (Intervals over whole replicates of one curve:
ratecheck._rates.rates.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import InputError, shown
from ratecheck._experiment.model import Check
from ratecheck._rates.rates import Interval, above

LEVEL = 0.95

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio(Interval):
    """Geometric mean over instances of a ratio, Student's interval of its logarithm, and wins.

    Attributes:
        value: the mean, and its interval from ``lo`` to ``hi``.
        below: on how many instances the ratio is below 1.
        instances: of all.

    >>> import ratecheck as rc
    >>> ratio = rc.paired_ratio([1.0, 1.1, 0.9], [2.0, 2.0, 2.0])
    >>> round(ratio.value, 2), ratio.below, ratio.instances
    (0.5, 3, 3)
    """

    below: int
    instances: int

    @property
    def wins(self) -> str:
        """The share of instances in which the ratio is below 1, in words."""
        return f"below 1 in {self.below} of {self.instances} instances"


def mean_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Mean of one value per instance, shape (instances,), and Student's interval.

    Raises:
        InputError: fewer than two instances, or a value that is no finite number.

    >>> found = mean_interval([1.0, 2.0, 3.0])
    >>> found.value, bool(found.lo < 2 < found.hi)
    (2.0, True)
    """
    from scipy.special import stdtrit

    numbers = _of_instances("values", values)
    half = float(stdtrit(numbers.size - 1, 0.5 + 0.5 * level)) * numbers.std(ddof=1)
    mean, half = float(numbers.mean()), float(half / np.sqrt(numbers.size))
    return Interval(mean, mean - half, mean + half)


def largest_mean(cells: ArrayLike, level: float = LEVEL) -> Interval:
    """The largest of many means over instances, (cells, instances), and an interval that covers it.

    The largest mean is below some number if every one is, so that its upper end needs no
    correction (an intersection-union test); it is above some number if any one is, so that its
    lower end needs Bonferroni's, for the number of cells.

    Raises:
        InputError: fewer than two instances, or a value that is no finite number.

    >>> import ratecheck as rc
    >>> largest = rc.largest_mean([[1.0, 1.1, 0.9], [2.0, 2.1, 1.9]])
    >>> largest.value, bool(largest.lo < 2 < largest.hi)
    (2.0, True)
    """
    rows = _of_instances("cells", cells, axes=2)
    plain = [mean_interval(cell, level) for cell in rows]
    strict = [mean_interval(cell, 1.0 - (1.0 - level) / len(rows)) for cell in rows]
    return Interval(
        max(v.value for v in plain), max(v.lo for v in strict), max(v.hi for v in plain)
    )


def exponential(logs: Interval) -> Interval:
    """The interval of a ratio from that of its logarithm.

    >>> exponential(Interval(0.0, 0.0, 0.0)).value
    1.0
    """
    return Interval(*(float(np.exp(v)) for v in (logs.value, logs.lo, logs.hi)))


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike, level: float = LEVEL) -> Ratio:
    """The ratio of two errors that were measured on the same instances, both (instances,).

    Raises:
        InputError: fewer than two instances, other ones of the two, or an error that is not
            positive.

    >>> paired_ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    Ratio(value=0.5, lo=0.5, hi=0.5, below=3, instances=3)
    """
    upper, lower = _pair({"numerator": numerator, "denominator": denominator})
    for name, errors in (("numerator", upper), ("denominator", lower)):
        if not (errors > 0).all():
            raise InputError(f"`{name}` must be positive; found {errors[errors <= 0][0]:g}")
    logs = np.log(upper) - np.log(lower)
    interval = exponential(mean_interval(logs, level))
    return Ratio(interval.value, interval.lo, interval.hi, int((logs < 0).sum()), logs.size)


def mean_above(
    name: str, predicted: str, ours: ArrayLike, theirs: ArrayLike, remark: str = ""
) -> Check:
    """The claim that a number of every instance, (instances,), is above another one on average.

    Raises:
        InputError: fewer than two instances, other ones of the two, or a value that is no finite
            number.

    >>> mean_above("gain", "above 0", [2.0, 3.0, 4.0], [0.0, 0.0, 0.0]).ok
    True
    """
    one, other = _pair({"ours": ours, "theirs": theirs})
    return above(name, predicted, mean_interval(one - other), remark=remark)


def _pair(named: dict[str, ArrayLike]) -> list[Values]:
    """Two arrays (instances,) of the same instances, given by their names."""
    pair = [_of_instances(name, values) for name, values in named.items()]
    if pair[0].size != pair[1].size:
        sizes = " and ".join(str(values.size) for values in pair)
        names = " and ".join(f"`{name}`" for name in named)
        raise InputError(f"{names} must be of the same instances; found {sizes} of them")
    return pair


def _of_instances(name: str, values: ArrayLike, axes: int = 1) -> Values:
    """Finite numbers, the last axis over at least two instances."""
    shape = "(instances,)" if axes == 1 else "(cells, instances)"
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of real numbers; found {shown(values)}"
        ) from None
    if numbers.ndim != axes or numbers.shape[-1] < 2 or not numbers.size:
        raise InputError(
            f"`{name}` must have shape {shape} with at least 2 instances; found {numbers.shape}"
        )
    if not np.isfinite(numbers).all():
        raise InputError(f"`{name}` must be finite; found {numbers[~np.isfinite(numbers)][0]:g}")
    return numbers
