"""Exponential families on finite answer sets, with every constant that OOD-PL asks of a policy.

pi_theta(y|x) = h(x, y) exp(theta . psi(x, y)) / Z_theta(x) for prompts x and answers y. The score
is grad log pi(y|x) = psi(x, y) - E_pi psi(x, .), and the Hessian of -log pi(y|x) is the covariance
of psi(x, .) under pi(.|x), the same for all answers.

*Constants*, on the ball ||theta|| <= R. Let d(y, y') = ||psi(x, y) - psi(x, y')||, Delta the
largest of these over pairs and prompts, and

    floor(x, y) = 1 / sum_y' (h(x, y') / h(x, y)) exp(R d(y, y')),

which pi_theta(y|x) = 1 / sum_y' (h(y') / h(y)) exp(theta . (psi(y') - psi(y))) is never below.

* M (14): psi(y) - E psi = sum_{y' != y} pi(y') (psi(y) - psi(y')), so that its norm is at most
  (1 - floor(y)) max_y' d(y, y'). With two answers some theta on the sphere attains it, and as R
  grows it tends to Delta, which no smaller constant replaces: theta along psi(y') - psi(y), with y'
  farthest from y, takes all probability to y'.
* L (15): a variance of numbers in an interval of length Delta is at most Delta^2 / 4 (Popoviciu).
  Attained by two answers where both have probability 1/2.
* rho (16): the third derivative of log pi is a symmetric tensor, whose norm it takes along one
  direction (Banach): a third central moment of numbers in an interval of length Delta, at most
  Delta^3 / (6 sqrt 3). Attained by two answers of probabilities (3 +- sqrt 3) / 6.
* C (20): -log min floor. Attained by two answers.
* mu (Assumption 1): a variance is min_a E (u . psi - a)^2, and grows with every weight; mu is hence
  at least the least eigenvalue, over prompts, of the covariance with the weights floor(x, y) in the
  place of probabilities. Exact at R = 0. It tends to 0 as R grows, and so does every valid mu:
  Assumption 1 cannot hold on the whole space, where M is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from linsys.bilevel.arrays import namespace, table, vector
from linsys.linalg import lambda_min
from linsys.validate import Array, InputError, check_number, plain, real_array

__all__ = ["ExponentialPolicy", "PolicyConstants"]

#: All prompts, where a method takes some of them.
ALL = slice(None)


class PolicyConstants(NamedTuple):
    """Constants of Assumptions 1-3 for -log pi_theta(y|x), for every x and y, on a ball."""

    M: float
    L: float
    rho: float
    C: float
    mu: float


@dataclass(frozen=True, eq=False)
class ExponentialPolicy:
    """pi_theta(y|x) proportional to h(x, y) exp(theta . psi(x, y)).

    Methods take theta (p,) of any array namespace, and return arrays of it; ``prompts`` chooses
    some of the prompts, in any order, as an index array.

    Args:
        psi: features, shape (X, Y, p).
        log_h: log h, shape (X, Y); zeros are the uniform distribution at theta = 0.
        lengths: |y| of every answer, shape (X, Y), or one number for all, positive. Used by (26)
            alone.

    Raises:
        InputError: wrong shapes, numbers that are not finite, lengths that are not positive.

    >>> policy = ExponentialPolicy(psi=[[[0.0], [1.0]]], log_h=[[0.0, 0.0]])
    >>> np.exp(policy.log_prob(np.log([3.0]))).round(4)
    array([[0.25, 0.75]])
    >>> policy.constants(R=0.0)
    PolicyConstants(M=0.5, L=0.25, rho=0.096225, C=0.693147, mu=0.25)
    """

    psi: Array
    log_h: Array
    lengths: Array | float = 1.0

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        object.__setattr__(self, "psi", real_array("psi", self.psi, ("X", "Y", "p"), sizes))
        object.__setattr__(self, "log_h", real_array("log_h", self.log_h, ("X", "Y"), sizes))
        given = plain(self.lengths)
        same = given.ndim == 0 and given.dtype != object
        lengths = np.full(self.log_h.shape, self.lengths) if same else self.lengths
        checked = real_array("lengths", lengths, ("X", "Y"), sizes)
        if (checked <= 0).any():
            raise InputError(f"`lengths` must be positive; found {checked.min():g}")
        object.__setattr__(self, "lengths", checked)

    @property
    def p(self) -> int:
        """Number of parameters."""
        return int(self.psi.shape[-1])

    def log_prob(self, theta: Any, prompts: Any = ALL) -> Any:
        """log pi_theta(y|x), shape (X, Y)."""
        xp = namespace(vector("theta", theta, self.p))
        psi, log_h = table(self, "psi", theta), table(self, "log_h", theta)
        logits = log_h[prompts, :] + psi[prompts, :, :] @ theta
        logits = logits - xp.max(logits, axis=-1, keepdims=True)
        return logits - xp.log(xp.sum(xp.exp(logits), axis=-1, keepdims=True))

    def score(self, theta: Any, prompts: Any = ALL, pi: Any = None) -> Any:
        """grad log pi_theta(y|x), shape (X, Y, p); ``pi`` is pi_theta, where it is known."""
        psi = table(self, "psi", theta)[prompts, :, :]
        pi = self._prob(theta, prompts) if pi is None else pi
        return psi - pi[..., None, :] @ psi

    def covariance(self, theta: Any, prompts: Any = ALL) -> Any:
        """The Hessian of -log pi_theta(y|x), of whichever y, shape (X, p, p)."""
        pi = self._prob(theta, prompts)
        score = self.score(theta, prompts, pi)
        return namespace(theta).matrix_transpose(score) @ (pi[..., None] * score)

    def _prob(self, theta: Any, prompts: Any) -> Any:
        return namespace(theta).exp(self.log_prob(theta, prompts))

    def log_floor(self, R: float) -> Array:
        """What log pi_theta(y|x) is never below on the ball, shape (X, Y)."""
        radius = check_number("R", R, low=0.0)
        exponents = self.log_h[:, None, :] - self.log_h[:, :, None] + radius * self._distances
        largest = exponents.max(axis=-1)
        totals = np.exp(exponents - largest[..., None]).sum(axis=-1)
        return np.asarray(-largest - np.log(totals))

    def curvature(self, R: float, weights: Array | None = None) -> float:
        """A least eigenvalue of sum_x weights(x) Cov_theta psi(x, .) on the ball.

        Without weights (X,), the least over prompts, which is mu. A mean of covariances is often
        positive definite where each of them, of rank at most Y - 1, is not.
        """
        log_floor = self.log_floor(R)
        highest = log_floor.max(axis=-1, keepdims=True)
        floor = np.exp(log_floor - highest)  # on a large ball the floor itself is not a double
        centre = (floor[..., None, :] @ self.psi) / floor.sum(axis=-1)[:, None, None]
        spread = self.psi - centre
        covariances = np.swapaxes(spread, -1, -2) @ (floor[..., None] * spread)
        covariances = covariances * np.exp(highest)[..., None]
        if weights is not None:
            covariances = np.tensordot(np.asarray(weights, dtype=float), covariances, axes=1)
        # a singular covariance may come out as a tiny negative number
        return max(0.0, float(np.min(lambda_min(covariances))))

    def constants(self, R: float) -> PolicyConstants:
        """M, L, rho, C and mu on the ball ||theta|| <= R; derived at the top of the module.

        Raises:
            InputError: R that is negative or not finite.
        """
        log_floor, Delta = self.log_floor(R), float(self.diameters.max())
        return PolicyConstants(
            M=float((-np.expm1(log_floor) * self._distances.max(axis=-1)).max()),
            L=Delta**2 / 4.0,
            rho=Delta**3 / (6.0 * math.sqrt(3.0)),
            C=float(-log_floor.min()),
            mu=self.curvature(R),
        )

    @cached_property
    def psi_by_parameter(self) -> Array:
        """psi with its parameters before its answers, shape (X, p, Y), in one block."""
        return np.ascontiguousarray(np.swapaxes(self.psi, 1, 2))

    @cached_property
    def diameters(self) -> Array:
        """The largest distance between two answers' features, of every prompt, shape (X,)."""
        return np.asarray(self._distances.max(axis=(1, 2)))

    @cached_property
    def _distances(self) -> Array:
        """d(y, y') of every prompt, shape (X, Y, Y)."""
        differences = self.psi[:, :, None, :] - self.psi[:, None, :, :]
        return np.asarray(np.sqrt((differences**2).sum(axis=-1)))
