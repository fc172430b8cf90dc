"""Intervals over instances: what to expect of a system that was not drawn yet.

A ratio of two methods is formed within an instance, on the same samples; Student's interval comes
from the spread over instances. (Intervals over whole replicates of one curve:
ratecheck._rates.rates.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratecheck._experiment.model import Check
from ratecheck._rates.rates import Interval, above

LEVEL = 0.95

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio(Interval):
    """Geometric mean over instances of a ratio, Student's interval of its logarithm, and wins."""

    below: int
    instances: int

    @property
    def wins(self) -> str:
        """The share of instances in which the ratio is below 1, in words."""
        return f"below 1 in {self.below} of {self.instances} instances"


def mean_interval(values: Values, level: float = LEVEL) -> Interval:
    """Mean of one value per instance, shape (instances,), and Student's interval.

    >>> found = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> found.value, bool(found.lo < 2 < found.hi)
    (2.0, True)
    """
    from scipy.special import stdtrit

    half = float(stdtrit(values.size - 1, 0.5 + 0.5 * level)) * values.std(ddof=1)
    mean, half = float(values.mean()), float(half / np.sqrt(values.size))
    return Interval(mean, mean - half, mean + half)


def largest_mean(cells: Values, level: float = LEVEL) -> Interval:
    """The largest of many means over instances, (cells, instances), and an interval that covers it.

    The largest mean is below some number if every one is, so that its upper end needs no
    correction (an intersection-union test); it is above some number if any one is, so that its
    lower end needs Bonferroni's, for the number of cells.
    """
    plain = [mean_interval(cell, level) for cell in cells]
    strict = [mean_interval(cell, 1.0 - (1.0 - level) / len(cells)) for cell in cells]
    return Interval(
        max(v.value for v in plain), max(v.lo for v in strict), max(v.hi for v in plain)
    )


def exponential(logs: Interval) -> Interval:
    """The interval of a ratio from that of its logarithm.

    >>> exponential(Interval(0.0, 0.0, 0.0)).value
    1.0
    """
    return Interval(*(float(np.exp(v)) for v in (logs.value, logs.lo, logs.hi)))


def paired_ratio(numerator: Values, denominator: Values, level: float = LEVEL) -> Ratio:
    """The ratio of two errors that were measured on the same instances, both (instances,).

    >>> paired_ratio(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    Ratio(value=0.5, lo=0.5, hi=0.5, below=3, instances=3)
    """
    logs = np.log(numerator) - np.log(denominator)
    interval = exponential(mean_interval(logs, level))
    return Ratio(interval.value, interval.lo, interval.hi, int((logs < 0).sum()), logs.size)


def mean_above(name: str, predicted: str, ours: Values, theirs: Values, remark: str = "") -> Check:
    """The claim that a number of every instance, (instances,), is above another one on average.

    >>> mean_above("gain", "above 0", np.array([2.0, 3.0, 4.0]), np.zeros(3)).ok
    True
    """
    return above(name, predicted, mean_interval(ours - theirs), remark=remark)
