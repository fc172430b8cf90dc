"""Confidence sets of rewards, and how large P-ShareLoRA makes them.

With b_i = ||Delta*_i - Theta_diamond_i||_F^2 and the symbols of Definition 4.1, all bounds of the
paper consist of the same four squared errors (:class:`ErrorTerms`); they differ in what they do
with the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linsys.preference.subspace import Diversity
from linsys.validate import Array, InputError, check_choice, check_integer, check_number, real_array

__all__ = ["ConfidenceSet", "ErrorTerms", "error_terms", "zeta"]

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


class ErrorTerms(NamedTuple):
    """The squared errors that bound a user's reward error in Theorems 4.2 and B.2.

    Attributes:
        approximation: max_i b_i, or min_i b_i.
        shared: log(bracketing number / delta) / (N N_p nu), for the shared factor.
        tail: sqrt(Sigma_tail / N) / nu, the bias of that factor.
        own: (k d2 + log(N / delta)) / N_p, for the user's own factor.
    """

    approximation: float
    shared: float
    tail: float
    own: float

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self)


def error_terms(
    diversity: Diversity,
    k: int,
    d2: int,
    N_p: int,
    log_bracketing: float,
    delta: float,
    *,
    b: str = "max",
) -> ErrorTerms:
    """The terms under the root of (B.1) and (C.3).

    Args:
        diversity: nu, Sigma_tail and b_i of the users, with the same k.
        k, d2: of the factors W_i (k, d2).
        N_p: comparisons of a user.
        log_bracketing: log N(1 / (N N_p)), say from :func:`linsys.preference.bracketing.bound`.
        delta: probability of failure, in (0, 1].
        b: ``"max"`` or ``"min"`` over the users. The paper prints the least b_i, but its proof
            needs every true reward in its set: with ``"min"`` a user far from the shared space is
            left out, and pessimism holds for it no longer.

    >>> users = Diversity(nu=0.5, tail=4.0, b=np.array([0.0, 4.0]))
    >>> error_terms(users, k=1, d2=1, N_p=10, log_bracketing=20.0, delta=1.0).total
    8.997...
    """
    check_choice("b", b, ("max", "min"))
    k, d2, N_p = (
        check_integer("k", k, low=1),
        check_integer("d2", d2, low=1),
        check_integer("N_p", N_p, low=1),
    )
    delta = check_number("delta", delta, low=0.0, high=1.0, low_open=True)
    check_number("log_bracketing", log_bracketing, low=0.0)
    nu, N = check_number("nu", diversity.nu, low=0.0, low_open=True), len(diversity.b)
    return ErrorTerms(
        approximation=float(diversity.b.max() if b == "max" else diversity.b.min()),
        shared=float((log_bracketing - np.log(delta)) / (N * N_p * nu)),
        tail=float(np.sqrt(diversity.tail / N) / nu),
        own=float((k * d2 + np.log(N / delta)) / N_p),
    )


def zeta(terms: ErrorTerms, c: float, *, form: str = "squared", L1: float = 1.0) -> float:
    """The level of (3.4), which is compared with a *squared* norm.

    ``"B.1"`` is sqrt(c / (2 L1^2) total) and ``"C.3"`` is c sqrt(total) as printed. But the terms
    bound a squared error, so the set that must contain the truth has the level ``"squared"``: c
    total. Below one the printed root is larger: the truth is still in the set, whose radius is then
    of the order total^(1/4), and so is what pessimism costs.

    >>> zeta(ErrorTerms(0.0, 0.01, 0.0, 0.0), 1.0), zeta(ErrorTerms(0.0, 0.01, 0.0, 0.0), 1.0,
    ...     form="C.3")
    (0.01, 0.1)
    """
    check_choice("form", form, ("squared", "B.1", "C.3"))
    c, L1 = (
        check_number("c", c, low=0.0, low_open=True),
        check_number("L1", L1, low=0.0, low_open=True),
    )
    if form == "squared":
        return c * terms.total
    if form == "B.1":
        return float(np.sqrt(c / (2.0 * L1**2) * terms.total))
    return float(c * np.sqrt(terms.total))
