"""Where the left side of Theorem 1 ends: its floor, exactly to leading order.

*Fixed points.* Let d = A lambda, A = grad J, with the solution lambda of (1). Its optimality says
<g^j, d> + (beta/2) lambda_j >= |d|^2 + (beta/2)|lambda|^2 for all j. Averaged over j, with J_u =
(1/M) sum_j J^j and |lambda|^2 >= 1/M,

    <grad J_u, d> >= |d|^2 + (beta/2)(|lambda|^2 - 1/M) >= |d|^2.

An exact step a <= 1/L_J therefore raises J_u by (a/2)|d|^2 at least, for any beta and without
smoothing. For beta > 0 weights go to 1/M: FIRM ends where J_u is stationary, and at no other
Pareto-stationary point. (For (3) it is sum_j p_j J^j, with Cauchy-Schwarz in the last step.)

*Noise.* Near a strict local maximum of J_u, client c sees A + X^c, Cov X = K_B for B transitions,
and solves for lambda + D[X^c] + ..., D of :mod:`mgda.sensitivity`. Let F be the derivative of
A lambda by theta; of A alone where eta_t = 1/t, whose lambda_t does not move any more. Theta is, to
leading order, an autoregression with covariance S = (I + aF) S (I + aF)' + a^2 N / C, N that of
X lambda + A D[X], around the point where A lambdabar = -m, m = E X D[X]. With the weights of the
same step on the left side of Theorem 1,

    E|grad J lambda_t|^2  =  tr F S F'  +  tr A D K_B D'A' / C  +  |m|^2  +  smaller
    of order                 a / (C B)     1 / (C B)               1 / B^2.

With eta_t = 1/t the noise of a step enters lambda_t with weight 1/t. The second and third term
vanish, a / (C B) is all that stays.

*What it needs.* A strict maximum at a finite theta. With one logit per pair maxima lie at infinity,
where gradients and noise vanish together: no C and B leave a floor (firm/gap_time).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from linsys.linalg import operator_norm
from linsys.validate import Array
from mgda.constants import score_bound, smoothness_at
from mgda.momdp import MOMDP
from mgda.sensitivity import sensitivity_matrix
from mgda.simplex import gram, simplex_qp

__all__ = ["Floor", "GapTerms"]

#: The steps of the ascent, which contracts by 1 - h / L, and the least h / L of a strict maximum.
_STEPS, _STRICT = 400, 0.2
#: Lags of the samples' covariance; it falls like gamma^lag.
_LAGS = 200


class GapTerms(NamedTuple):
    """The three terms of the module's text, and what they leave out.

    Attributes:
        theta, weights, bias: the terms.
        remainder: the size of the next order relative to all of it. Vectors are off by theta's
            variance over the squared scale 1 / D on which a softmax policy changes (D the diameter
            of its features) and by the noise of the Gram matrix over the curvature of the clients'
            problem; squares by twice as much.
    """

    theta: float
    weights: float
    bias: float
    remainder: float

    @property
    def total(self) -> float:
        """The sum of the floor's terms."""
        return self.theta + self.weights + self.bias


@dataclass(frozen=True, eq=False)
class Floor:
    """The fixed point of FIRM in a process, and the law of the floor around it.

    Attributes:
        momdp: the process.
        beta: the regularisation.
        theta: the strict maximum of J_u, shape (d,).
    """

    momdp: MOMDP
    beta: float
    theta: Array

    @classmethod
    def find(cls, momdp: MOMDP, beta: float) -> Floor | None:
        """Ascend J_u from the uniform policy; None unless that ends in a strict maximum."""
        floor = cls(momdp, beta, _ascend(momdp, lambda theta: momdp.jac(theta, 1)))
        small = np.linalg.norm(floor.A.mean(axis=-1)) <= 1e-9 * np.linalg.norm(floor.A)
        return floor if small and floor.curvature >= _STRICT * floor.L else None

    @cached_property
    def A(self) -> Array:
        """grad J, shape (d, M)."""
        return self.momdp.jac(self.theta, 1)

    @cached_property
    def hessian(self) -> Array:
        """grad^2 J^j, shape (M, d, d)."""
        return self.momdp.at(self.theta).hessian(1)

    @cached_property
    def L(self) -> float:
        """max_j ||grad^2 J^j||: L_J near the fixed point."""
        return float(smoothness_at(self.momdp.at(self.theta), 1).max())

    @cached_property
    def curvature(self) -> float:
        """h: the least eigenvalue of -grad^2 J_u."""
        return float(np.linalg.eigvalsh(-self.hessian.mean(axis=0))[0])

    @cached_property
    def biased(self) -> Array:
        """Where the paper's direction Delta, averaged over the objectives, is zero; shape (d,)."""

        def direction(theta: Array) -> Array:
            policy = self.momdp.at(theta)
            return policy.direction(policy.V)

        return _ascend(self.momdp, direction)

    @cached_property
    def bias(self) -> float:
        """||grad J_u||^2 there: what Markov sampling leaves, whatever C, B, a and T are."""
        return float((self.momdp.jac(self.biased, 1).mean(axis=-1) ** 2).sum())

    def noise(self, B: int) -> tuple[Array, Array]:
        """Covariance (d M, d M) of X, restarted sampling: of B transitions, and long-run over B."""
        m, policy = self.momdp, self.momdp.at(self.theta)
        error = m.r + m.gamma * policy.V - policy.V[:, None, None]
        X = policy.psi[:, :, None, :, None] * error[:, :, :, None, :]
        X = X.reshape(*m.P.shape, -1)
        joint = policy.pi[..., None] * m.P
        law = policy.occupancy[:, None, None] * joint
        X = X - np.einsum("sat,satk->k", law, X)
        single = np.einsum("sat,satk,satl->kl", law, X, X)
        first = np.einsum("sat,satk->tk", law, X)
        # E[X | s' of an earlier transition]: the next one starts at s', or afresh
        fresh = m.gamma * np.eye(m.n_states) + (1.0 - m.gamma) * m.start
        later = fresh @ np.einsum("sat,satk->sk", joint, X)
        batch, long_run = single, single
        for lag in range(1, _LAGS):
            pair = first.T @ later
            long_run = long_run + pair + pair.T
            batch = batch + max(0.0, 1.0 - lag / B) * (pair + pair.T)
            later = fresh @ policy.kernel @ later
        return batch / B, long_run / B

    def law(self, *, clients: int, B: int, a: float, eta: float | str = "1/t") -> GapTerms:
        """The floor with C clients, B transitions and step a; eta is 1 or "1/t"."""
        d, M = self.A.shape
        batch, long_run = self.noise(B)
        weights = simplex_qp(gram(self.A), beta=self.beta).weights
        H = sensitivity_matrix(gram(self.A) + 0.5 * self.beta * np.eye(M), weights)
        unit = np.eye(d * M).reshape(-1, d, M)
        cross = self.A.T @ unit
        D = (-(cross + np.swapaxes(cross, -1, -2)) @ weights @ H).T
        X = (unit @ weights).T
        F = np.einsum("jik,j->ik", self.hessian, weights)
        if eta == "1/t":
            D = np.zeros_like(D)
        F = F + self.A @ D @ np.moveaxis(self.hessian, 0, 1).reshape(d * M, d)
        N = (X + self.A @ D) @ long_run @ (X + self.A @ D).T / clients
        T = np.eye(d) + a * F
        S = np.linalg.solve(np.eye(d * d) - np.kron(T, T), a**2 * N.ravel()).reshape(d, d)
        moved = score_bound(self.momdp) ** 2 * np.trace(S)
        return GapTerms(
            theta=float(np.trace(F @ S @ F.T)),
            weights=float(np.trace(self.A @ D @ batch @ D.T @ self.A.T)) / clients,
            bias=float((np.einsum("jij->i", (D @ batch).reshape(M, d, M)) ** 2).sum()),
            remainder=2.0 * float(moved + operator_norm(H) * np.trace(batch)),
        )


def _ascend(momdp: MOMDP, direction: Callable[[Array], Array]) -> Array:
    """Follow the average of the columns of a field (d, M) from the uniform policy."""
    theta = np.zeros(momdp.d)
    L = float(smoothness_at(momdp.at(theta), 1).max())
    for _ in range(_STEPS):
        theta = theta + direction(theta).mean(axis=-1) / L
    return theta
