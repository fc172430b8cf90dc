"""Reward models r_phi(x, y) on finite answer sets, with every constant of OOD-PL explicit.

Both are functions of phi . xi(x, y). *Constants*, on the ball ||phi|| <= R with X_i the largest
||xi(x, y)||; phi . xi takes every value of [-R ||xi||, R ||xi||], and so every constant below is
attained on the ball and cannot be smaller.

=========  ========================  ==========================================================
constant   linear: phi . xi          tanh: s tanh(phi . xi / s)
=========  ========================  ==========================================================
T (17)     X_i                       X_i, at phi = 0
P (18)     0                         (X_i^2 / s) 2 tanh(u) (1 - tanh(u)^2), u = min(R X_i / s, u_1)
b, B (19)  exp(-R X_i), exp(R X_i)   exp(-s tanh(R X_i / s)), exp(s tanh(R X_i / s))
=========  ========================  ==========================================================

2 tanh(u) (1 - tanh(u)^2), the absolute second derivative of tanh, grows up to u_1 with
tanh(u_1) = 1 / sqrt 3, where it is 4 / (3 sqrt 3).

The weights of the inner objective (10) then lie in [b^(1/beta), B^(1/beta)], and not in
[b / e^beta, B / e^beta]: r = 0 has weight one whatever beta is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linsys.bilevel.arrays import namespace, table, vector
from linsys.bilevel.policies import ALL
from linsys.validate import Array, InputError, check_number, real_array

__all__ = ["LinearReward", "Reward", "RewardConstants", "TanhReward"]

#: Where the second derivative of tanh is largest.
_STEEPEST = math.atanh(1.0 / math.sqrt(3.0))
#: Rewards beyond it have no exponential in double precision.
LARGEST = math.log(np.finfo(float).max)


class RewardConstants(NamedTuple):
    """Constants of Assumptions 2 and 3 for r_phi(x, y), for every x and y, on a ball."""

    T: float
    P: float
    b: float
    B: float


@dataclass(frozen=True, eq=False)
class Reward(ABC):
    """r_phi(x, y), a function of phi . xi(x, y).

    Methods take phi (q,) of any array namespace, and return arrays of it; ``prompts`` chooses some
    of the prompts, as an index array.

    Args:
        xi: features, shape (X, Y, q).
    """

    xi: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "xi", real_array("xi", self.xi, ("X", "Y", "q")))

    @property
    def q(self) -> int:
        """Number of parameters."""
        return int(self.xi.shape[-1])

    def value(self, phi: Any, prompts: Any = ALL) -> Any:
        """r_phi(x, y), shape (X, Y)."""
        return self._value(self._index(phi, prompts))

    def gradient(self, phi: Any, prompts: Any = ALL) -> Any:
        """grad_phi r_phi(x, y), shape (X, Y, q)."""
        xi = table(self, "xi", phi)[prompts, :, :]
        return self._slope(self._index(phi, prompts))[..., None] * xi

    def pullback(self, phi: Any, weights: Any, prompts: Any = ALL) -> Any:
        """sum_xy weights(x, y) grad_phi r_phi(x, y) for weights (..., X, Y), shape (..., q)."""
        xp = namespace(phi)
        xi = xp.reshape(table(self, "xi", phi)[prompts, :, :], (-1, self.q))
        steep = weights * self._slope(self._index(phi, prompts))
        return xp.reshape(steep, (*weights.shape[:-2], xi.shape[0])) @ xi

    def constants(self, R: float) -> RewardConstants:
        """T, P, b and B on the ball ||phi|| <= R; derived at the top of the module.

        Raises:
            InputError: R that is negative, not finite, or so large that exp(r) overflows.
        """
        radius, T = check_number("R", R, low=0.0), float(np.sqrt((self.xi**2).sum(axis=-1)).max())
        top = float(self._value(np.asarray(radius * T)))
        if top > LARGEST:
            raise InputError(f"`R` must keep exp(r) in the range of doubles; found r = {top:g}")
        return RewardConstants(T, self._bend(radius, T), math.exp(-top), math.exp(top))

    def _index(self, phi: Any, prompts: Any) -> Any:
        vector("phi", phi, self.q)
        return table(self, "xi", phi)[prompts, :, :] @ phi

    @abstractmethod
    def _value(self, index: Any) -> Any:
        """r as a function of phi . xi."""

    @abstractmethod
    def _slope(self, index: Any) -> Any:
        """Its derivative."""

    @abstractmethod
    def _bend(self, radius: float, T: float) -> float:
        """P on the ball."""


@dataclass(frozen=True, eq=False)
class LinearReward(Reward):
    """r_phi(x, y) = phi . xi(x, y).

    >>> reward = LinearReward(xi=[[[3.0, 4.0], [0.0, 1.0]]])
    >>> reward.value(np.array([1.0, 0.0])).tolist()
    [[3.0, 0.0]]
    >>> reward.constants(R=0.0)
    RewardConstants(T=5.0, P=0.0, b=1.0, B=1.0)
    """

    def _value(self, index: Any) -> Any:
        return index

    def _slope(self, index: Any) -> Any:
        return 0.0 * index + 1.0

    def _bend(self, radius: float, T: float) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class TanhReward(Reward):
    """r_phi(x, y) = s tanh(phi . xi(x, y) / s), bounded by s and linear around phi = 0.

    Args:
        xi: features, shape (X, Y, q).
        s: the bound, positive.

    >>> reward = TanhReward(xi=[[[1.0], [-2.0]]], s=2.0)
    >>> reward.value(np.array([2.0])).round(4).tolist()  # 2 tanh(1), -2 tanh(2)
    [[1.5232, -1.9281]]
    """

    s: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "s", check_number("s", self.s, low=0.0, low_open=True))

    def _value(self, index: Any) -> Any:
        return self.s * namespace(index).tanh(index / self.s)

    def _slope(self, index: Any) -> Any:
        return 1.0 - namespace(index).tanh(index / self.s) ** 2

    def _bend(self, radius: float, T: float) -> float:
        top = math.tanh(min(radius * T / self.s, _STEEPEST))
        return T**2 / self.s * 2.0 * top * (1.0 - top**2)
