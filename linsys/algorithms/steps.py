"""Step sizes: constant, tuned to a horizon, diminishing, synchronised over modules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["StepSizes", "Steps", "WeightedAverage"]


class _Conditioned(Protocol):
    """What synchronised steps read off a system."""

    A_bar: Array
    A_bar0: Array
    Phi_bar0: Array


class StepSizes(NamedTuple):
    """Step sizes of the four modules in one round; ``x`` is a number or has shape (n, 1)."""

    x: Any
    center: float
    objective: float
    ratio: float


def _smallest_eigenvalue(matrices: Array) -> Array:
    symmetric = 0.5 * (matrices + np.swapaxes(matrices, -1, -2))
    return np.asarray(np.linalg.eigvalsh(symmetric)[..., 0], dtype=np.float64)


@dataclass(frozen=True)
class Steps:
    """alpha_t = numerator / (offset + slope t), times one multiplier per module.

    Args:
        numerator: positive.
        offset: positive.
        slope: 0 for a constant step, 1 for a linearly diminishing one.
        x: multiplier of the personal module, a number or one per agent.
        center: multiplier of central decision learning (22).
        objective: multiplier of central objective estimation (7).
        ratio: multiplier of density-ratio estimation.

    >>> Steps.constant(0.01).at(5).x
    0.01
    >>> Steps.diminishing(lam=2.0, t0=3).at(0).x  # 4 / (lam (t + t0 + 1))
    0.5
    """

    numerator: float
    offset: float = 1.0
    slope: float = 0.0
    x: float | tuple[float, ...] = 1.0
    center: float = 1.0
    objective: float = 1.0
    ratio: float = 1.0

    def __post_init__(self) -> None:
        check_number(
            "numerator", self.numerator, low=0.0, low_open=True, high=math.inf, high_open=True
        )
        check_number("offset", self.offset, low=0.0, low_open=True, high=math.inf, high_open=True)
        check_number("slope", self.slope, low=0.0, high=math.inf, high_open=True)
        for name in ("center", "objective", "ratio"):
            check_number(name, getattr(self, name), low=0.0, high=math.inf, high_open=True)
        if isinstance(self.x, tuple):
            for value in self.x:
                check_number("x", value, low=0.0, high=math.inf, high_open=True)
        else:
            check_number("x", self.x, low=0.0, high=math.inf, high_open=True)

    @classmethod
    def constant(cls, alpha: float) -> Steps:
        """alpha_t = alpha in every module."""
        return cls(
            check_number("alpha", alpha, low=0.0, low_open=True, high=math.inf, high_open=True)
        )

    @classmethod
    def for_horizon(cls, t: int, lam: float = 1.0) -> Steps:
        """alpha = ln t / (lam t) of Propositions 1, 2 and Theorem 1, for a run of t >= 2 rounds."""
        t = check_integer("t", t, low=2)
        return cls(math.log(t) / t / check_number("lam", lam, low=0.0, low_open=True))

    @classmethod
    def diminishing(cls, *, t0: float, lam: float = 1.0) -> Steps:
        """alpha_t = 4 / (lam (t + t0 + 1)); Lemma D.5 bounds the :class:`WeightedAverage`."""
        t0 = check_number("t0", t0, low=0.0, high=math.inf, high_open=True)
        return cls(
            4.0 / check_number("lam", lam, low=0.0, low_open=True), offset=t0 + 1.0, slope=1.0
        )

    def synchronised(self, system: _Conditioned, ratio: float = 1.0) -> Steps:
        """Set alpha^i lambda^i = alpha^c lambda^c = alpha^b lambda^b = alpha_t (Appendix G.1).

        ``ratio`` is lambda^rho of the density-ratio module, where there is one.

        Raises:
            InputError: a system without mean matrices, or a ``ratio`` that is not positive.
        """
        for name in ("A_bar", "A_bar0", "Phi_bar0"):
            if not hasattr(system, name):
                raise InputError(
                    "`system` must have mean matrices A_bar, A_bar0 and Phi_bar0; "
                    f"found {type(system).__name__}"
                )
        per_agent = 1.0 / _smallest_eigenvalue(np.asarray(system.A_bar))
        return replace(
            self,
            x=tuple(float(v) for v in per_agent),
            center=float(1.0 / _smallest_eigenvalue(np.asarray(system.A_bar0))),
            objective=float(1.0 / _smallest_eigenvalue(np.asarray(system.Phi_bar0))),
            ratio=1.0 / check_number("ratio", ratio, low=0.0, low_open=True),
        )

    def multipliers(self, n: int) -> Array:
        """The personal multipliers as an array of shape (n,)."""
        if isinstance(self.x, tuple):
            return real_array("x", self.x, (n,))
        return np.full(n, self.x)

    def base(self, t: int) -> float:
        """alpha_t before the multipliers."""
        return self.numerator / (self.offset + self.slope * t)

    def at(self, t: int) -> StepSizes:
        """Step sizes of round t = 0, 1, ..."""
        alpha = self.base(t)
        multiplier: Any = np.array(self.x)[:, None] if isinstance(self.x, tuple) else self.x
        x = alpha * multiplier
        return StepSizes(x, alpha * self.center, alpha * self.objective, alpha * self.ratio)


class WeightedAverage:
    """Running average sum_tau (tau + t0) z_tau / sum_tau (tau + t0) of Lemma D.5.

    >>> average = WeightedAverage(t0=1)
    >>> for z in (0.0, 3.0): average.update(z)
    >>> average.value  # (1 * 0 + 2 * 3) / 3
    2.0
    """

    def __init__(self, t0: float) -> None:
        self._next = check_number("t0", t0, low=0.0)
        self._total = 0.0
        self.value: Any = None

    def update(self, z: Any) -> None:
        """Add the next iterate, of any array namespace."""
        weight, self._next = self._next, self._next + 1.0
        self._total += weight
        if self.value is None:
            self.value = z * 1.0
        elif self._total > 0:
            self.value = self.value + (z - self.value) * (weight / self._total)
