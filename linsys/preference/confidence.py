"""Confidence sets of rewards around an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError, check_number, real_array

__all__ = ["ConfidenceSet"]

#: Share of a length that rounding may add: two balls that touch up to this have one common point.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """R_i of (3.4): all Theta with ||Theta - Theta_hat||_F^2 <= zeta, inside the class if asked.

    Args:
        Theta_hat: the estimate Theta_init_i + Delta_hat_i, shape (d1, d2).
        zeta: bound of the squared length, so that the radius is sqrt(zeta).
        B: the set is cut with the ball of this radius: ||Theta||_F <= B as in (3.1).
        around: the centre of that ball; Theta_init_i gives the ||Delta_i||_F <= B of S_LoRA.

    Raises:
        InputError: negative zeta or B, shapes that do not fit, a set without elements.

    >>> full = ConfidenceSet([[2.0], [0.0]], zeta=1.0)
    >>> full.worst([[1.0], [0.0]]).tolist()
    [[1.0], [0.0]]
    >>> ConfidenceSet([[2.0], [0.0]], zeta=1.0, B=0.5)
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: the confidence set must not be empty; found `Theta_hat` at ...
    """

    Theta_hat: Array
    zeta: float
    B: float | None = None
    around: Any = None

    def __post_init__(self) -> None:
        store, sizes = object.__setattr__, dict[str, int]()
        store(self, "Theta_hat", real_array("Theta_hat", self.Theta_hat, ("d1", "d2"), sizes))
        around = np.zeros(self.Theta_hat.shape) if self.around is None else self.around
        store(self, "around", real_array("around", around, ("d1", "d2"), sizes))
        store(self, "zeta", check_number("zeta", self.zeta, low=0.0))
        if self.B is None:
            return
        store(self, "B", check_number("B", self.B, low=0.0))
        if self._distance > (self.radius + self.B) * (1.0 + _ROUNDING):
            raise InputError(
                f"the confidence set must not be empty; found `Theta_hat` at {self._distance:.6g} "
                f"from the centre of a ball of radius B = {self.B:g}, with sqrt(zeta) = "
                f"{self.radius:.6g}"
            )

    @property
    def radius(self) -> float:
        """sqrt(zeta)."""
        return float(np.sqrt(self.zeta))

    @cached_property
    def _distance(self) -> float:
        """The distance between the centres of the two balls."""
        return float(np.linalg.norm(self.Theta_hat - self.around))

    @cached_property
    def balls(self) -> list[tuple[Array, float]]:
        """Centres (d1, d2) and radii: the set is what these one or two balls have in common.

        A set of one element is a ball of radius 0.
        """
        first, apart = (self.Theta_hat, self.radius), self._distance
        if self.B is None or apart + self.radius <= self.B:
            return [first]
        if apart + self.B <= self.radius:
            return [(self.around, self.B)]
        if apart >= (self.radius + self.B) * (1.0 - _ROUNDING):
            share = self.radius / (self.radius + self.B)
            return [(self.Theta_hat + share * (self.around - self.Theta_hat), 0.0)]
        return [first, (self.around, self.B)]

    @cached_property
    def inside(self) -> Array:
        """An element at the centre of the set, (d1, d2)."""
        (centre, rho), *others = self.balls
        if not others:
            return centre
        [(other, B)] = others
        # on the way from one centre, at 0, to the other, at D = _distance, [D - B, rho] is inside
        low, high = max(self._distance - B, -rho), min(rho, self._distance + B)
        return centre + (low + high) / (2.0 * self._distance) * (other - centre)

    def worst(self, v: ArrayLike) -> Array:
        """An element with the smallest <v, Theta>, in closed form; any of them for v = 0."""
        v = real_array("v", v, self.Theta_hat.shape)
        length = float(np.linalg.norm(v))
        if length == 0.0:
            return self.inside
        for centre, radius in self.balls:
            lowest: Array = centre - radius / length * v
            if self.contains(lowest):
                return lowest
        # neither ball's own minimiser is in the other: the minimiser is on both spheres
        (centre, rho), (other, B) = self.balls
        towards = (other - centre) / self._distance
        along = (self._distance**2 + rho**2 - B**2) / (2.0 * self._distance)
        across = v - (v * towards).sum() * towards
        height = np.sqrt(max(rho**2 - along**2, 0.0))
        return np.asarray(
            centre + along * towards - height / max(np.linalg.norm(across), 1e-300) * across
        )

    def contains(self, Theta: Array) -> bool:
        """Whether Theta (d1, d2) is an element, up to rounding."""
        return all(
            np.linalg.norm(Theta - centre) <= radius + _ROUNDING * (radius + np.linalg.norm(centre))
            for centre, radius in self.balls
        )

    def pulled(self, Theta: Array) -> Array:
        """The point nearest to Theta (d1, d2) on the way from it to :attr:`inside`, in the set."""
        way, share = Theta - self.inside, 1.0
        square = float((way**2).sum())
        for centre, radius in self.balls:
            start = self.inside - centre
            # ||start + share way|| = radius, of which the positive root is wanted
            half, rest = float((start * way).sum()), radius**2 - float((start**2).sum())
            if square > 0.0:
                root = np.sqrt(max(half**2 + square * max(rest, 0.0), 0.0))
                share = min(share, (root - half) / square)
        return np.asarray(self.inside + share * way)
