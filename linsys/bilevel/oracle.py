"""What the bilevel algorithms see: gradients and products of the inner and the outer loss.

Inner loss (10), of a sample z = (x, y):        l_FT = -exp(r_phi(x, y) / beta) log pi_theta(y|x);
outer loss (7), of a preference z = (x, y, y'): l_PL = -log sigma(u),
with u = log pi_theta(y|x) - log pi_theta(y'|x).

With the weights W(x, y) = P(x, y) exp(r / beta) of the data, Z(x) their sum over answers, and
a = psi . v with its mean under pi,

    grad_theta l_FT   = -sum_xy (W - Z pi) psi,
    grad^2_theta l_FT v = sum_x Z(x) Cov_pi(psi(x, .)) v,
    grad_phi <grad_theta l_FT, v> = -(1 / beta) sum_xy W (a - E_pi a) grad_phi r,
    grad_theta l_PL = -sigma(-u) (psi(x, y) - psi(x, y')).

The factor sigma(-u) = 1 - p_*(y over y') is the derivative of -log sigma, which (13) and (30) of
the paper leave out. u is affine in theta, so that the outer loss of an exponential family is convex
in theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from linsys.bilevel.arrays import namespace, table, vector
from linsys.bilevel.domains import Domain
from linsys.bilevel.policies import ALL
from linsys.bilevel.rewards import LARGEST
from linsys.validate import Array, InputError, check_integer, check_number, plain

__all__ = ["DomainOracle", "Oracle"]


class Oracle(Protocol):
    """Losses of one domain seen from flat vectors theta (p,) and phi (q,), of one namespace.

    A sample z is whatever ``draw_inner`` or ``draw_outer`` returns, or None for the expectation.
    """

    def inner_loss(self, phi: Any, theta: Any, z: Any) -> float:
        """l_FT."""

    def inner_grad(self, phi: Any, theta: Any, z: Any) -> Any:
        """grad_theta l_FT, shape (p,)."""

    def inner_hvp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad^2_theta l_FT v for vectors v (..., p), shape (..., p)."""

    def mixed_vjp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad_phi <grad_theta l_FT, v> for vectors v (..., p), shape (..., q)."""

    def outer_grads(self, phi: Any, theta: Any, z: Any) -> tuple[Any, Any]:
        """The gradients of l_PL by phi (q,) and by theta (p,)."""

    def draw_inner(self, k: int, t: int) -> Any:
        """z_{k,t}, or None where steps are exact."""

    def draw_outer(self, k: int) -> Any:
        """z_k, or None where steps are exact."""

    def stable_step(self, phi: Any) -> float:
        """A step size below which exact descent on L_FT cannot diverge; infinite if unknown."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DomainOracle:
    """The oracle of a finite domain.

    Args:
        domain: what it is about.
        beta: the factor of the reward, positive.
        inner_batch: samples (x, y) of a stochastic inner step; the exact expectation without it.
        outer_batch: pairs of a stochastic outer step; the exact expectation without it.
        seed: of the samples; z_{k,t} is a function of (seed, k, t) alone.

    Raises:
        InputError: beta <= 0, batches below one.

    >>> from linsys.bilevel import meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> phi, theta = np.zeros(4), np.zeros(4)
    >>> round(oracle.inner_loss(phi, theta, None), 3), oracle.inner_grad(phi, theta, None).shape
    (1.241, (4,))
    """

    domain: Domain
    beta: float
    inner_batch: int | None = None
    outer_batch: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("beta", self.beta, low=0.0, low_open=True)
        for label in ("inner_batch", "outer_batch"):
            if (size := getattr(self, label)) is not None:
                check_integer(label, size, low=1)
        check_integer("seed", self.seed, high=(1 << 128) - 1)

    @property
    def p(self) -> int:
        """Number of parameters of the policy."""
        return self.domain.policy.p

    @property
    def q(self) -> int:
        """Number of parameters of the reward."""
        return self.domain.reward.q

    def draw_inner(self, k: int, t: int) -> Any:
        """z_{k,t} = (x, y), index arrays (inner_batch,), or None without a batch."""
        if self.inner_batch is None:
            return None
        return self.domain.draw_inner(self.seed, k, t, self.inner_batch)

    def draw_outer(self, k: int) -> Any:
        """z_k = (x, y, y'), index arrays (outer_batch,), or None without a batch."""
        if self.outer_batch is None:
            return None
        return self.domain.draw_outer(self.seed, k, self.outer_batch)

    def inner_loss(self, phi: Any, theta: Any, z: Any) -> float:
        """L_FT, or the mean of l_FT over the samples z."""
        xp, (prompts, W) = self._namespace(phi, theta), self._weights(phi, z)
        return float(-xp.sum(W * self.domain.policy.log_prob(theta, prompts)))

    def inner_grad(self, phi: Any, theta: Any, z: Any) -> Any:
        """grad_theta l_FT, shape (p,)."""
        xp, (prompts, W) = self._namespace(phi, theta), self._weights(phi, z)
        pi, psi = self._policy(theta, prompts)
        excess = xp.sum(W, axis=-1, keepdims=True) * pi - W
        return xp.reshape(excess, (-1,)) @ xp.reshape(psi, (-1, self.p))

    def inner_hvp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad^2_theta l_FT v for v (..., p), shape (..., p)."""
        xp, (prompts, W) = self._namespace(phi, theta), self._weights(phi, z)
        pi, psi = self._policy(theta, prompts)
        flow = xp.sum(W, axis=-1, keepdims=True) * pi * _deviations(xp, psi, pi, v)
        flat = xp.reshape(psi, (-1, self.p))
        return xp.reshape(flow, (*v.shape[:-1], flat.shape[0])) @ flat

    def inner_hessian(self, phi: Any, theta: Any, z: Any = None) -> Any:
        """grad^2_theta l_FT, shape (p, p)."""
        xp, (prompts, W) = self._namespace(phi, theta), self._weights(phi, z)
        covariances = self.domain.policy.covariance(theta, prompts)
        return xp.sum(xp.sum(W, axis=-1)[:, None, None] * covariances, axis=0)

    def mixed_vjp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad_phi <grad_theta l_FT, v> for v (..., p), shape (..., q)."""
        xp, (prompts, W) = self._namespace(phi, theta), self._weights(phi, z)
        pi, psi = self._policy(theta, prompts)
        weights = (-1.0 / self.beta) * W * _deviations(xp, psi, pi, v)
        return self.domain.reward.pullback(phi, weights, prompts)

    def outer_loss(self, theta: Any, z: Any = None) -> float:
        """L_PL (7), or the mean of l_PL over the pairs z."""
        weights, u, _ = self._compare(theta, z)
        xp = namespace(u)
        # -log sigma(u) without overflow
        loss = xp.log1p(xp.exp(-xp.abs(u))) + (xp.abs(u) - u) / 2.0
        return float(xp.sum(weights * loss))

    def outer_grads(self, phi: Any, theta: Any, z: Any) -> tuple[Any, Any]:
        """The gradients of L_PL, or of the mean of l_PL over the pairs z, by phi and by theta.

        The one by phi is zero: l_PL depends on phi through theta alone.
        """
        xp = self._namespace(phi, theta)
        weights, u, contrasts = self._compare(theta, z)
        small = xp.exp(-xp.abs(u))
        wrong = xp.where(u > 0, small, xp.ones_like(u)) / (1.0 + small)  # sigma(-u)
        return xp.zeros_like(phi), -(weights * wrong) @ contrasts

    def stable_step(self, phi: Any) -> float:
        """2 over the smoothness of L_FT, whatever theta is: exact steps below decrease the loss.

        The Hessian of L_FT is sum_x Z(x) Cov(psi(x, .)), and a covariance is at most Delta_x^2 / 4
        (see :mod:`linsys.bilevel.policies`).

        Raises:
            InputError: exp(r / beta) overflows.
        """
        r = np.asarray(self.domain.reward.value(plain(phi)))
        if not r.max() / self.beta <= LARGEST:
            raise InputError(
                "`beta` must keep exp(r / beta) in the range of doubles; found "
                f"r up to {r.max():g} and beta = {self.beta:g}"
            )
        Z = (self.domain.law * np.exp(r / self.beta)).sum(axis=-1)
        smooth = float(Z @ self.domain.policy.diameters**2) / 4.0
        return 2.0 / smooth if smooth > 0.0 else math.inf

    @cached_property
    def marks(self) -> Array:
        """The identity (Y, Y), whose row y marks answer y."""
        return np.eye(self.domain.mu_hat.shape[1])

    @cached_property
    def contrasts(self) -> Array:
        """psi(x, y) - psi(x, y') of every preference, shape (n, p)."""
        x, y, y_other, _ = self.domain.pairs
        return np.asarray(self.domain.policy.psi[x, y] - self.domain.policy.psi[x, y_other])

    @cached_property
    def log_h_ratios(self) -> Array:
        """log h(x, y) - log h(x, y') of every preference, shape (n,)."""
        x, y, y_other, _ = self.domain.pairs
        return np.asarray(self.domain.policy.log_h[x, y] - self.domain.policy.log_h[x, y_other])

    @cached_property
    def pair_weights(self) -> Array:
        """Weights of the preferences, shape (n,)."""
        return self.domain.pairs.weights

    def _namespace(self, phi: Any, theta: Any) -> Any:
        """The array namespace of the parameters, after a check of their shapes."""
        vector("phi", phi, self.q)
        vector("theta", theta, self.p)
        try:
            return namespace(phi, theta)
        except TypeError as error:
            kinds = f"{type(phi).__name__} and {type(theta).__name__}"
            raise InputError(
                f"`phi` and `theta` must be arrays of one library; found {kinds}"
            ) from error

    def _compare(self, theta: Any, z: Any) -> tuple[Any, Any, Any]:
        """Weights of pairs, their u = log pi(y|x) - log pi(y'|x), and its gradient by theta.

        The normaliser of pi cancels in u, and the mean of psi in the gradient.
        """
        vector("theta", theta, self.p)
        if z is None:
            contrasts = table(self, "contrasts", theta)
            ratios, weights = table(self, "log_h_ratios", theta), table(self, "pair_weights", theta)
        else:
            (x, y, y_other), policy = z, self.domain.policy
            psi, log_h = table(policy, "psi", theta), table(policy, "log_h", theta)
            contrasts = psi[x, y, :] - psi[x, y_other, :]
            ratios, weights = log_h[x, y] - log_h[x, y_other], 1.0 / len(x)
        return weights, ratios + contrasts @ theta, contrasts

    def _weights(self, phi: Any, z: Any) -> tuple[Any, Any]:
        """The prompts that samples are about, and W on all their answers."""
        xp, reward = namespace(phi), self.domain.reward
        if z is None:
            return ALL, table(self.domain, "law", phi) * xp.exp(reward.value(phi) / self.beta)
        x, y = z
        marks = table(self, "marks", phi)[y, :] / len(x)
        return x, marks * xp.exp(reward.value(phi, x) / self.beta)

    def _policy(self, theta: Any, prompts: Any) -> tuple[Any, Any]:
        """pi and psi on some of the prompts."""
        policy = self.domain.policy
        pi = namespace(theta).exp(policy.log_prob(theta, prompts))
        return pi, table(policy, "psi", theta)[prompts, :, :]


def _deviations(xp: Any, psi: Any, pi: Any, v: Any) -> Any:
    """psi . v less its mean under pi, shape (..., X, Y), for v (..., p)."""
    flat = xp.reshape(psi, (-1, psi.shape[-1]))
    along = xp.reshape(v @ flat.T, (*v.shape[:-1], *psi.shape[:-1]))
    return along - xp.sum(pi * along, axis=-1, keepdims=True)
