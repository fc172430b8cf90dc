"""A number together with how it was obtained and how far it may be off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import Array, InputError, check_integer

__all__ = ["Integration", "Measured", "MeasuredArray", "Method"]

#: Ordered from the most to the least certain; a combination is as certain as its least certain
#: part.
Method = Literal["exact", "closed form", "quadrature", "optimisation", "quasi-Monte Carlo"]

_ORDER: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class Integration:
    """How integrals without a closed form are computed.

    Args:
        points: Sobol points per scramble, a power of two; a quarter of them for nu,
            where every point costs an eigendecomposition.
        scrambles: independent scrambles, at least 2; their spread gives the standard error.
        seed: of the scrambles.

    Raises:
        InputError: points that are no power of two, fewer than two scrambles, a negative seed.
    """

    points: int = 1024
    scrambles: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        points = check_integer("points", self.points, low=2)
        if points & (points - 1):
            # Sobol nets are balanced only at 2^m points.
            raise InputError(f"`points` must be a power of two; found {points}")
        check_integer("scrambles", self.scrambles, low=2)
        check_integer("seed", self.seed, low=0)

    def coarser(self) -> Integration:
        """An integration with a quarter of the points."""
        return replace(self, points=max(2, self.points // 4))


@dataclass(frozen=True)
class Measured:
    """A value, its error and where it comes from.

    Args:
        value: the number.
        error: 0 where ``method`` is "exact" or "closed form" (rounding is not counted), the
            estimated absolute error for "quadrature" and "optimisation", one standard error for
            "quasi-Monte Carlo".
        method: how the value was obtained.

    >>> delta = Measured(0.25, 1e-5, "quasi-Monte Carlo")
    >>> float(delta), str(delta), f"{delta:.1f}"
    (0.25, '0.25 ± 1e-05 (quasi-Monte Carlo)', '0.2')
    """

    value: float
    error: float = 0.0
    method: Method = "exact"

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        spread = f" ± {self.error:.1g}" if self.error > 0 else ""
        return f"{self.value:.6g}{spread} ({self.method})"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)


@dataclass(frozen=True, eq=False)
class MeasuredArray:
    """Values with errors, mostly one per agent; indexing gives :class:`Measured` entries.

    Args:
        value: read-only array.
        error: of the same shape; see :class:`Measured`.
        method: how the values were obtained.

    >>> per_agent = MeasuredArray.of([0.1, 0.4])
    >>> per_agent[1], float(per_agent.max()), np.asarray(per_agent)
    (Measured(value=0.4, error=0.0, method='exact'), 0.4, array([0.1, 0.4]))
    """

    value: Array
    error: Array
    method: Method

    @classmethod
    def of(
        cls, value: ArrayLike, error: ArrayLike = 0.0, method: Method = "exact"
    ) -> MeasuredArray:
        """Make the arrays read-only and of one shape."""
        values = np.array(value, dtype=np.float64)
        errors = np.array(np.broadcast_to(np.asarray(error, dtype=np.float64), values.shape))
        values.setflags(write=False)
        errors.setflags(write=False)
        return cls(values, errors, method)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.value.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.value, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: int | tuple[int, ...]) -> Measured:
        return Measured(float(self.value[index]), float(self.error[index]), self.method)

    def __iter__(self) -> Iterator[Measured]:
        return (self[i] for i in range(len(self)))

    def max(self) -> Measured:
        """The largest value, with the largest error: |max a - max b| <= max |a - b|."""
        return Measured(float(self.value.max()), float(self.error.max()), self.method)

    def __str__(self) -> str:
        worst = float(self.error.max(initial=0.0))
        spread = f", error at most {worst:.1g}" if worst > 0 else ""
        return f"{np.array2string(self.value, precision=6)} ({self.method}{spread})"


def from_replicates(samples: Array) -> MeasuredArray:
    """Mean and standard error over independent scrambles, axis 0."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return MeasuredArray.of(samples.mean(axis=0), error, "quasi-Monte Carlo")


def from_centre(values: Array) -> Array:
    """Values minus their mean over agents, exactly zero where all agents agree."""
    gaps = values - values[0]
    return np.asarray(gaps - gaps.mean(axis=0))


def least_certain(*methods: Method) -> Method:
    """The method that a combination of quantities goes by."""
    return max(methods, key=_ORDER.index)


def maximum(first: MeasuredArray, second: ArrayLike) -> MeasuredArray:
    """Elementwise maximum with exact numbers; the error of the winner."""
    other = np.broadcast_to(np.asarray(second, dtype=np.float64), first.shape)
    error = np.where(first.value + first.error >= other, first.error, 0.0)
    return MeasuredArray.of(np.maximum(first.value, other), error, first.method)


def capped_product(factor: Measured, values: MeasuredArray) -> MeasuredArray:
    """min{1, factor * values}; errors add up, and a product far above the cap has none."""
    product = factor.value * values.value
    error = factor.value * values.error + factor.error * (values.value + values.error)
    error = np.where(product - error >= 1.0, 0.0, error)
    return MeasuredArray.of(
        np.minimum(1.0, product), error, least_certain(factor.method, values.method)
    )
