"""The parts of an instance: arrays of a stated shape and domain, decoded from numbers in [0, 1].

A field turns *coordinates*, numbers in [0, 1], into values of its domain, whatever the coordinates
are: so an optimiser, hypothesis and a random generator can all search the same box, and every
instance meets the field's domain by construction. ``repair`` maps values back to the domain after
they were rounded or cut, exactly where they are high-precision numbers, and leaves values of the
domain alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys.linalg import is_precise, norm, operator_norm
from linsys.validate import InputError, check_flag

#: Arrays of float64, or of high-precision numbers with the dtype object.
Numbers = NDArray[Any]
#: An axis is named by a size of the space ("n", "S", "d") or has a fixed length.
Axis = str | int
#: So many values, or instances, can all be looked at.
FEW = 10_000


@dataclass(frozen=True)
class Field:
    """An array of real numbers in [-1, 1] times a common magnitude; base of the other domains.

    Args:
        axes: names of sizes, or fixed lengths; none for one number.
        magnitude: range of the common factor, drawn on a logarithmic scale; (1, 1) fixes it.

    Raises:
        InputError: an axis that is no name and no length, or a range that is none.

    >>> import ratecheck as rc
    >>> rc.Space({"x": rc.Field(("n", "d"), magnitude=(0.1, 10.0))}).all_sizes()[0]
    {'d': 1, 'n': 1}
    """

    axes: tuple[Axis, ...] = ()
    magnitude: tuple[float, float] = (1.0, 1.0)

    #: Coordinates beside one for every element: they shape the whole array.
    controls = 1
    #: Whether its numbers are whole.
    counts = False
    #: So many axes an array must have.
    least_axes = 0

    def __post_init__(self) -> None:
        for axis in self.axes:
            if not isinstance(axis, str) and not (isinstance(axis, Integral) and axis >= 1):
                is_end = isinstance(axis, Real) and hasattr(self, "low")
                raise InputError(
                    f"axes must be names or whole numbers of at least 1; found {axis!r}"
                    + " (ends of a range are given as `low=..., high=...`)" * is_end
                )
        if len(self.axes) < self.least_axes:
            names = ", ".join(['"d"'] * self.least_axes)
            raise InputError(
                f"{type(self).__name__.lower()} must have axes, such as ({names}); "
                f"found {self.axes}"
            )
        ends = self.magnitude if isinstance(self.magnitude, Sequence) else ()
        numbers = len(ends) == 2 and all(isinstance(end, Real) for end in ends)
        if not numbers or not 0 < ends[0] <= ends[1] < np.inf:
            raise InputError(
                "`magnitude` must be two positive numbers, the smaller one first; "
                f"found {self.magnitude!r}"
            )

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The array's shape under these sizes."""
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.axes)

    def decode(self, controls: Numbers, elements: Numbers) -> Numbers:
        """Values at coordinates: controls (B, 1) and elements (B, *shape) to values (B, *shape)."""
        low, high = self._logs
        factor = np.clip(np.exp(low + controls[:, 0] * (high - low)), *self.magnitude)
        return np.asarray(_along_first_axis(factor, elements) * (2 * elements - 1))

    @cached_property
    def _logs(self) -> Numbers:
        """Logarithms of both ends of ``magnitude``."""
        return np.asarray(np.log(self.magnitude))

    def repair(self, values: Numbers) -> Numbers:
        """The nearest values of the domain, shape (B, *shape) as given."""
        return values

    def rounded(self, values: Numbers, digits: int) -> Numbers:
        """Values of the domain with at most so many decimals, where that is possible."""
        return np.round(values, digits)

    def settled(self, values: Numbers) -> Numbers:
        """Values after one of them was replaced, where the others can make up for it."""
        return values

    def values(self) -> Numbers | None:
        """All values that an element may have, where these are few and do not depend on others."""
        return None

    def holds(self, values: Numbers) -> NDArray[np.bool_]:
        """Whether each of the B arrays lies in the domain, up to rounding in float64."""
        return np.asarray(np.isfinite(values.astype(float)).reshape(len(values), -1).all(axis=1))


def _along_first_axis(factor: Numbers, like: Numbers) -> Numbers:
    return factor.reshape(-1, *[1] * (like.ndim - 1))


def _one_up_to_rounding(size: Numbers) -> Numbers:
    """Sizes; exactly 1 where only rounding is missing, so that repair keeps its own results."""
    return size if is_precise(size) else np.where(np.abs(size - 1) <= 4e-15, 1.0, size)


@dataclass(frozen=True)
class Interval(Field):
    """Numbers in [low, high], uniform, or on a logarithmic scale if ``log``."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False

    controls = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = (self.low, self.high)
        numbers = all(isinstance(end, Real) for end in ends)
        if not numbers or not -np.inf < self.low <= self.high < np.inf:
            raise InputError(
                "`low` and `high` must be finite numbers, low at most high; "
                f"found low={self.low!r}, high={self.high!r}"
            )
        check_flag("log", self.log)
        if self.log and self.low <= 0 and not self.counts:
            raise InputError(f"`low` must be positive; found {self.low!r}")

    def decode(self, controls: Numbers, elements: Numbers) -> Numbers:
        """Values between the ends."""
        if self.log:
            return np.asarray(self.low * (self.high / self.low) ** elements)
        return np.asarray(self.low + elements * (self.high - self.low))

    def repair(self, values: Numbers) -> Numbers:
        """Clip to the ends."""
        return np.asarray(np.minimum(np.maximum(values, self.low), self.high))

    def holds(self, values: Numbers) -> NDArray[np.bool_]:
        """Between the ends."""
        flat = values.reshape(len(values), -1)
        return np.asarray(((flat >= self.low) & (flat <= self.high)).all(axis=1), dtype=bool)


@dataclass(frozen=True)
class Whole(Interval):
    """Whole numbers from low to high, stored as floats; small ones as often as large if ``log``."""

    counts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low % 1 or self.high % 1:
            raise InputError(
                "`low` and `high` must be whole numbers; "
                f"found low={self.low!r}, high={self.high!r}"
            )

    def decode(self, controls: Numbers, elements: Numbers) -> Numbers:
        """The nearest whole number."""
        if self.log:  # of the distance from low - 1, as low may be 0
            return np.asarray(np.round(self.low - 1 + (self.high - self.low + 1) ** elements))
        return np.asarray(np.round(super().decode(controls, elements)))

    def values(self) -> Numbers | None:
        """The whole numbers from low to high, as floats; none where they are more than a few."""
        if self.high - self.low >= FEW:
            return None
        return np.arange(self.low, self.high + 1, dtype=float)

    def repair(self, values: Numbers) -> Numbers:
        """Round, then clip."""
        if not is_precise(values):
            return super().repair(np.round(values) + 0)  # no -0.0
        rounded = np.vectorize(lambda v: v.__class__(round(float(v))), otypes=[values.dtype])
        return super().repair(rounded(values)) if values.size else values


@dataclass(frozen=True)
class Simplex(Field):
    """Probability distributions along the last axis; the control goes from uniform to peaked."""

    least_axes = 1

    def decode(self, controls: Numbers, elements: Numbers) -> Numbers:
        """Normalised powers of exponential variates: all of the simplex, corners included."""
        sharpness = np.exp(_along_first_axis(-2 + 5 * controls[:, 0], elements))
        weights = (-np.log(np.clip(elements, 1e-12, 1.0))) ** sharpness
        return self.repair(weights)

    def repair(self, values: Numbers) -> Numbers:
        """Drop negative parts and normalise; uniform where nothing is left."""
        positive = np.maximum(values, 0)
        total = _one_up_to_rounding(positive.sum(axis=-1, keepdims=True))
        if (total > 0).all():
            return np.asarray(positive / total)
        even = np.ones_like(positive) / positive.shape[-1]
        return np.where(total > 0, positive / np.where(total > 0, total, 1), even)

    def rounded(self, values: Numbers, digits: int) -> Numbers:
        """Round, and let the largest part of each row make up for the sum."""
        result = np.round(values, digits)
        rows = result.reshape(-1, result.shape[-1])
        rest = np.round(1 - rows.sum(axis=1), digits)
        rows[np.arange(len(rows)), rows.argmax(axis=1)] += rest
        return np.round(result, digits)

    def settled(self, values: Numbers) -> Numbers:
        """The largest part of a row makes up for its sum."""
        return self.rounded(values, 12)

    def holds(self, values: Numbers) -> NDArray[np.bool_]:
        """No negative part, and a sum of one to 1e-12."""
        low = values.reshape(len(values), -1).min(axis=1) >= 0
        gap = np.abs(values.sum(axis=-1) - 1).reshape(len(values), -1).max(axis=1)
        return np.asarray(low & (gap <= 1e-12), dtype=bool)


@dataclass(frozen=True)
class Ball(Field):
    """Vectors along the last axis of length at most one."""

    controls = 0
    least_axes = 1

    def decode(self, controls: Numbers, elements: Numbers) -> Numbers:
        """Points of the cube, pulled onto the ball."""
        return self.repair(2 * elements - 1)

    def size(self, values: Numbers) -> Numbers:
        """What must not exceed one, with as many axes as the values."""
        return norm(values)[..., None]

    def repair(self, values: Numbers) -> Numbers:
        """Divide by the length where it exceeds one."""
        return np.asarray(values / np.maximum(_one_up_to_rounding(self.size(values)), 1))

    def holds(self, values: Numbers) -> NDArray[np.bool_]:
        """Length at most one, to 1e-12."""
        flat = self.size(values).reshape(len(values), -1)
        return np.asarray(flat.max(axis=1) <= 1 + 1e-12, dtype=bool)


@dataclass(frozen=True)
class Sphere(Ball):
    """Vectors along the last axis of length one."""

    def repair(self, values: Numbers) -> Numbers:
        """Divide by the length; the first basis vector where there is none."""
        first = np.zeros(values.shape[-1], dtype=values.dtype)
        first[0] = 1
        length = _one_up_to_rounding(self.size(values))
        return np.where(length > 0, values / np.where(length > 0, length, 1), first)

    def holds(self, values: Numbers) -> NDArray[np.bool_]:
        """Length one, to 1e-12."""
        flat = np.abs(self.size(values) - 1).reshape(len(values), -1)
        return np.asarray(flat.max(axis=1) <= 1e-12, dtype=bool)


@dataclass(frozen=True)
class Contraction(Ball):
    """Matrices along the last two axes of operator norm at most one."""

    least_axes = 2

    def size(self, values: Numbers) -> Numbers:
        """||M||."""
        return operator_norm(values)[..., None, None]


def reals(*axes: Axis, magnitude: tuple[float, float] = (0.01, 100.0)) -> Field:
    """Real numbers, drawn from [-m, m], with m from ``magnitude`` on a logarithmic scale.

    Args:
        axes: names of sizes, or fixed lengths: of ("n", 3) an instance has shape (n, 3); without
            any it is a number.
        magnitude: the least and the largest m. Other real numbers are instances as well, which a
            certificate may name; for numbers that end somewhere take ``rc.interval``.

    Raises:
        InputError: an axis that is no name and no length, or a range that is empty or not positive.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").upper("triangle", ref="1", on={"x": rc.reals(2, "d")})
    ... def triangle(x):
    ...     "||x_1 + x_2|| <= ||x_1|| + ||x_2||."
    ...     return rc.linalg.norm(x.sum(axis=0)), rc.linalg.norm(x).sum()
    >>> rc.judge(triangle).verdict
    'holds'
    """
    return Field(axes, magnitude)


def interval(*axes: Axis, low: float = 0.0, high: float = 1.0) -> Field:
    """Numbers in [low, high]; axes and errors as of :func:`ratecheck.reals`.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").upper("variance", ref="1", on={"p": rc.interval()})
    ... def variance(p):
    ...     "A coin's variance is at most 1/5."
    ...     return p * (1 - p), 0.2
    >>> rc.judge(variance).counterexample
    {'p': 0.5}
    """
    return Interval(axes, low=low, high=high)


def positive(*axes: Axis, low: float = 0.01, high: float = 100.0) -> Field:
    """Positive numbers in [low, high], on a logarithmic scale; else as :func:`ratecheck.reals`.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").lower("mean", ref="1", on={"x": rc.positive("n")})
    ... def mean(x):
    ...     "The arithmetic mean is at least the harmonic one."
    ...     return x.mean(), len(x) / (1 / x).sum()
    >>> rc.judge(mean).verdict
    'holds'
    """
    return Interval(axes, low=low, high=high, log=True)


def whole_numbers(*axes: Axis, low: int, high: int, log: bool = False) -> Field:
    """Whole numbers from low to high, in arithmetic floats, whose powers do not overflow.

    A single one is accepted by ``range``, ``math.comb``, indices and shapes; one of an array, or
    where a space is ``batched``, needs ``int(n)``.

    All are drawn alike, so that of 0 to 1,000 few are below 10; on a logarithmic scale, with
    ``log``, a third are. Of a wider range than 64 a search that finds no violation is done again
    on a logarithmic scale, and half of the instances of a statistical claim are drawn so. Axes and
    errors are those of :func:`ratecheck.reals`.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").lower("power", ref="1", on={"k": rc.whole_numbers(low=0, high=9)})
    ... def power(k):
    ...     "2^k >= k^2."
    ...     return 2**k, k**2
    >>> rc.judge(power).counterexample
    {'k': 3.0}
    """
    return Whole(axes, low=low, high=high, log=log)


def simplex(*axes: Axis) -> Field:
    """Probability distributions along the last axis, of which there must be one.

    Args:
        axes: names of sizes, or fixed lengths: of ("n", "S") an instance has shape (n, S).

    Raises:
        InputError: no axis, or one that is no name and no length.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").upper("entropy", ref="1", on={"p": rc.simplex("S")})
    ... def entropy(p):
    ...     "The collision probability is at most the largest one."
    ...     return (p**2).sum(), p.max()
    >>> rc.judge(entropy).verdict
    'holds'
    """
    return Simplex(axes)


def ball(*axes: Axis) -> Field:
    """Vectors along the last axis with length at most one; else as :func:`ratecheck.simplex`.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").upper("scalar", ref="1", on={"x": rc.ball(2, "d")})
    ... def scalar(x):
    ...     "Two of them have a scalar product of at most 1."
    ...     return x[0] @ x[1], 1
    >>> rc.judge(scalar).verdict
    'holds'
    """
    return Ball(axes)


def sphere(*axes: Axis) -> Field:
    """Vectors along the last axis with length one; else as :func:`ratecheck.simplex`.

    >>> import ratecheck as rc
    >>> @rc.Paper("mine", "mine").identity("length", ref="1", on={"x": rc.sphere("n", "d")})
    ... def length(x):
    ...     "Every length is one."
    ...     return rc.linalg.norm(x), 1 + 0 * x[:, 0]
    >>> rc.judge(length).verdict
    'holds'
    """
    return Sphere(axes)


def contraction(*axes: Axis) -> Field:
    """Matrices along the last two axes with operator norm at most one.

    Args:
        axes: names of sizes, or fixed lengths: of ("n", "d", "d") an instance has shape (n, d, d).

    Raises:
        InputError: fewer than two axes, or one that is no name and no length.

    >>> import ratecheck as rc
    >>> on = {"C": rc.contraction("d", "d"), "x": rc.ball("d")}
    >>> @rc.Paper("mine", "mine").upper("shorter", ref="1", on=on)
    ... def shorter(C, x):
    ...     "C x is no longer than x."
    ...     return rc.linalg.norm(C @ x), rc.linalg.norm(x)
    >>> rc.judge(shorter).verdict
    'holds'
    """
    return Contraction(axes)


def magnitude_of(values: Sequence[Numbers]) -> Numbers:
    """The largest absolute entry of each of the B instances, at least one; shape (B,)."""
    columns = [_largest(v.astype(float) if is_precise(v) else v) for v in values if v.size]
    return np.maximum(1.0, reduce(np.maximum, columns)) if columns else np.ones(1)


def _largest(values: Numbers) -> Numbers:
    """The largest absolute entry of each of B arrays, shape (B,)."""
    size = np.abs(values)
    return np.asarray(size if size.ndim == 1 else size.reshape(len(size), -1).max(axis=1))
