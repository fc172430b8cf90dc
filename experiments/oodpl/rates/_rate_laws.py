"""Linear laws of OOD-PL's loops near their optima, from which the rates predict.

*Inner loop.* With d_t = theta_t - theta_* and E_t = d theta_t / d phi - d theta_* / d phi, the
state (d, E) moves in first order by

    d <- (I - alpha H_z) d - alpha g_z,   E <- E (I - alpha H_z) - alpha (K[d] + J_z),

where z is a step's sample, g_z and H_z are gradient and Hessian of l_FT at theta_*, and J_z = G_z +
S H_z with S = d theta_* / d phi = -G H^{-1}, so that E J_z = 0; K is the derivative of G + S H by
theta. The error of the hypergradient is E v + S V d, v and V being gradient and Hessian of L_PL at
theta_*.

- Exact steps: d_D = c lambda^D u along the eigenvector u of the slowest factor lambda = 1 - alpha
  lambda_min(H). K[d] drives E at the factor with which E itself decays, and the error becomes

      -D lambda^(D-1) alpha c (v . u) K[u] u + O(lambda^D):

  the contraction of Lemma 4 is that of the inner loop, with a factor D.
- Sampled steps: a covariance Sigma with A Sigma + Sigma A' = alpha C in first order of alpha. The
  expected square of the error is of order alpha.

*Outer loop.* phi <- phi - eta (hypergradient), whose covariance at a minimum phi_* of L is C, ends
with A Sigma + Sigma A = eta C for the Hessian A of L, so that E ||grad L||^2 = tr(A Sigma A) =
(eta / 2) tr(A C): of order eta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.oodpl import _lanes as lanes
from experiments.oodpl.rates._rate_losses import exact_losses
from linsys.bilevel import DomainOracle, TanhReward, implicit, optimum_sensitivity
from linsys.validate import Array

__all__ = ["InnerLoop", "OuterLoop", "derivative"]

#: Step of the central differences, whose error is of the order of its square.
_STEP = 1e-5


def derivative(function: Callable[[Array], Array], x: Array) -> Array:
    """The derivative (..., n) of a function with values (...) at x (n,), by central differences.

    >>> derivative(lambda x: np.array([x @ x]), np.array([1.0, 2.0])).round(6)
    array([[2., 4.]])
    """
    steps = _STEP * np.eye(len(x))
    sides = [(function(x + step) - function(x - step)) / (2.0 * _STEP) for step in steps]
    return np.stack(sides, axis=-1)


@dataclass(frozen=True, eq=False)
class InnerLoop:
    """The inner loop of one domain at one reward.

    Args:
        oracle: of the domain.
        phi: the reward, shape (q,).
    """

    oracle: DomainOracle
    phi: Array

    @cached_property
    def theta(self) -> Array:
        """theta_*, shape (p,)."""
        return lanes.optimum(self.oracle, self.phi)

    @cached_property
    def gradient(self) -> Array:
        """d L_PL(theta_*) / d phi, shape (q,)."""
        return np.asarray(implicit(self.oracle, self.phi, self.theta))

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of H, the least one first, and its eigenvectors."""
        return np.linalg.eigh(self.oracle.inner_hessian(self.phi, self.theta))

    def factor(self, alpha: float) -> float:
        """The factor of theta - theta_* in an exact step, in the limit: max |1 - alpha H|."""
        return float(np.abs(1.0 - alpha * self.spectrum[0]).max())

    @cached_property
    def sensitivity(self) -> Array:
        """The sensitivity S, shape (q, p)."""
        return np.asarray(optimum_sensitivity(self.oracle, self.phi, self.theta))

    @cached_property
    def outer(self) -> tuple[Array, Array]:
        """Gradient v (p,) and Hessian V (p, p) of the outer loss."""

        def slope(theta: Array) -> Array:
            return np.asarray(self.oracle.outer_grads(self.phi, theta, None)[1])

        return slope(self.theta), derivative(slope, self.theta)

    @cached_property
    def bend(self) -> Array:
        """K, shape (q, p, p), the last axis that of d."""
        basis = np.eye(len(self.theta))

        def residual(theta: Array) -> Array:
            mixed = self.oracle.mixed_vjp(self.phi, theta, None, basis).T
            return np.asarray(mixed + self.sensitivity @ self.oracle.inner_hessian(self.phi, theta))

        return derivative(residual, self.theta)

    def growth(self, alpha: float, c: float) -> float:
        """The growth of ||error|| / lambda^D per step, for exact steps with d_D = c lambda^D u."""
        u = self.spectrum[1][:, 0]
        turned = np.linalg.norm(self.bend @ u @ u)
        return float(alpha * abs(c * (self.outer[0] @ u)) * turned / self.factor(alpha))

    def floor(self, alpha: float) -> tuple[float, float]:
        """E ||error||^2 for one sample per step: to first order in alpha, and beyond it.

        The second number includes further orders in alpha and the noise of H_z; it leaves out the
        noise of K and higher derivatives.
        """
        from scipy.linalg import solve_continuous_lyapunov

        p, q = len(self.theta), len(self.phi)
        v, V = self.outer
        seen = np.hstack([self.sensitivity @ V, np.kron(np.eye(q), v)])  # applied to (d, E by rows)
        drifts, noises, weights = self._samples
        drift = np.tensordot(weights, drifts, axes=1)
        C = np.einsum("s,si,sj->ij", weights, noises, noises)
        first = solve_continuous_lyapunov(drift, alpha * C)
        steps = np.eye(p + q * p) - alpha * drifts
        more = first
        for _ in range(_SWEEPS):  # the further terms of the fixed point, in powers of alpha
            moved = np.einsum("s,sij,jk,slk->il", weights, steps, more, steps, optimize=True)
            rest = (moved + alpha**2 * C - more) / alpha
            more = more + solve_continuous_lyapunov(drift, rest)
        return tuple(float(np.trace(seen @ S @ seen.T)) for S in (first, more))  # type: ignore[return-value]

    @cached_property
    def _samples(self) -> tuple[Array, Array, Array]:
        """Drifts (samples, n, n) and noises (samples, n) of the state, and chances (samples,)."""
        p, q = len(self.theta), len(self.phi)
        law, basis = self.oracle.domain.law, np.eye(p)
        drifts, noises = [], []
        for x, y in np.ndindex(law.shape):
            z = np.array([x]), np.array([y])
            H = self.oracle.inner_hessian(self.phi, self.theta, z)
            J = self.oracle.mixed_vjp(self.phi, self.theta, z, basis).T + self.sensitivity @ H
            g = self.oracle.inner_grad(self.phi, self.theta, z)
            drift = np.kron(np.eye(q + 1), H)
            drift[p:, :p] = self.bend.reshape(q * p, p)
            drifts.append(drift)
            noises.append(np.concatenate([g, J.ravel()]))
        return np.array(drifts), np.array(noises), law.ravel()


#: The number of orders in alpha beyond the first that the second value of a floor contains.
_SWEEPS = 4


@dataclass(frozen=True, eq=False)
class OuterLoop:
    """The outer loop over domains near a minimum phi of L.

    Args:
        oracles: of the domains, each as likely as the others; their factors beta may differ.
        phi: the minimum, shape (q,).
    """

    oracles: Sequence[DomainOracle]
    phi: Array

    @cached_property
    def hessian(self) -> Array:
        """The Hessian of L, shape (q, q)."""
        jacobian = derivative(self._slope, self.phi)
        return (jacobian + jacobian.T) / 2.0

    def _slope(self, phi: Array) -> Array:
        """The gradient of L, shape (q,)."""
        total = np.zeros_like(phi)
        for oracle in self.oracles:
            reward = oracle.domain.reward
            s = reward.s if isinstance(reward, TanhReward) else np.inf
            total += exact_losses([oracle.domain], oracle.beta, phi[None], s).gradients[0]
        return total / len(self.oracles)

    @cached_property
    def between(self) -> Array:
        """Covariance (q, q) of a random domain's exact hypergradient."""
        gradients = np.array([InnerLoop(oracle, self.phi).gradient for oracle in self.oracles])
        return np.asarray(np.cov(gradients.T, bias=True)).reshape(2 * (len(self.phi),))

    @cached_property
    def within(self) -> Array:
        """The mean covariance (q, q) that a random pair of answers adds, sigma_3^2 its trace."""
        total = np.zeros(2 * (len(self.phi),))
        for oracle in self.oracles:
            law, (x, y, other, weights) = InnerLoop(oracle, self.phi), oracle.domain.pairs
            pairs = [
                law.sensitivity
                @ oracle.outer_grads(self.phi, law.theta, (x[[i]], y[[i]], other[[i]]))[1]
                for i in range(len(weights))
            ]
            total += np.cov(np.array(pairs).T, aweights=weights, bias=True) / len(self.oracles)
        return total

    def floor(self, eta: float, noise: Array, rounds: Array | None = None) -> float:
        """E ||grad L||^2 for hypergradients of covariance ``noise`` (q, q), near phi.

        In first order of eta and after many rounds; or for a linear gradient and all eta, the mean
        over ``rounds`` of a run from phi.
        """
        values, vectors = np.linalg.eigh(self.hessian)
        spread = np.einsum("ji,jk,ki->i", vectors, noise, vectors)
        if rounds is None:
            return float(eta / 2.0 * values @ spread)
        decay = (1.0 - eta * values) ** 2
        reached = (1.0 - decay ** rounds[:, None]).mean(axis=0)
        return float((eta * values) ** 2 @ (spread * reached / (1.0 - decay)))
