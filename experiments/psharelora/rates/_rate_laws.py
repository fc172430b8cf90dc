"""What dist(B_hat, B_diamond) is for many users and comparisons: derived, in closed form.

Let the span of B turn to that of B + B_perp C. A user's logit of a pair x moves along C by t, along
W_i by f; of t, only what W_i cannot follow counts: t~ = t - f J^-1 E[v f t], J = E[v f f'], v =
p (1 - p), E over pairs. The likelihood with the heads eliminated has the information

    M = mean over users of E[v t~ t~'],

and B_hat has C ~ M^-1 (score), so that without a tail

    E dist^2 = tr(M^-1) / (N N_p) + tr(M^-1 Q M^-1) / (N N_p^2) + |M^-1 b|^2 / N_p^2 + ...

*Variance.* The heads' k N d2 numbers are not in the first term: what they cost is the part of t
that they follow, and the printed k (d1 + N d2) / (N N_p nu) counts them as if they told of B. With
isotropic features (v about c for all pairs) M = c diag(sigma_j^2) / N and tr(M^-1) = (d1 - k) N
sum_j 1 / (c sigma_j^2) <= k (d1 - k) / (c nu).

*What heads cost.* W_hat - W ~ J^-1 / N_p turns each user's score by noise times noise: Q_i = E[v q~
J^-1 q~'], q the derivative of t by W. With isotropic features that is a factor 1 + d2 / (c N_p nu):
here, as a product with the first term, the d2 of the paper comes in.

*Bias.* N heads are estimated from N_p comparisons each, and the score at the true B has a mean
because of that (Neyman and Scott): with v' = v (1 - 2 p), the derivative of v by the logit,

    b_i = -1/2 sum_rs (J^-1)_rs E[v' t~ f_r f_s],

whatever N_p is; sums over users grow like N, as the information N N_p M does, so that B_hat is off
by M^-1 b / N_p however many users there are. It is zero for Gaussian noise (v' = 0), and where
features favour no side of B (t~ and -t~ alike).

*With a tail* B_hat approaches the population's estimate B_pop, at which residuals e = P* - p do not
vanish: :class:`Expansion` takes the Hessian and the covariance V of scores there, M^-1 V M^-1 / (N
N_p). B_pop itself has C = M^-1 E[v <E_i, x> t~] to first order in the tail E_i = Delta_i - B W_i:
dist^2 is of the order of Sigma_tail / (N nu), see :meth:`Expansion.floor_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.psharelora._rate_systems import Family
from linsys.preference.subspace import diversity
from linsys.validate import Array

__all__ = ["Expansion"]


@dataclass(frozen=True, eq=False)
class Expansion:
    """Moments of one comparison of an average user, at Delta_i = B W_i.

    Args:
        family: the users.
        B: orthonormal columns, shape (d1, k); B_diamond or B_pop.
        W: heads of the types at their best for B, shape (types, k, d2).
    """

    family: Family
    B: Array
    W: Array

    @classmethod
    def without_tail(cls, family: Family) -> Expansion:
        """The law at the true parameters."""
        return cls(family, family.best.B, family.best.W)

    @classmethod
    def of_population(cls, family: Family) -> Expansion:
        """The law at the estimate from infinitely many comparisons."""
        return cls(family, family.population.B, family.population.W)

    @cached_property
    def _perpendicular(self) -> Array:
        return np.linalg.qr(self.B, mode="complete")[0][:, self.B.shape[1] :]

    @cached_property
    def _directions(self) -> tuple[Array, Array]:
        """f (P, k d2) and q (P, m, k d2), m = (d1 - k) k; W_i and C row by row."""
        X, k = self.family.differences, self.B.shape[1]
        f = np.einsum("pab,ak->pkb", X, self.B).reshape(len(X), -1)
        h = np.einsum("pab,ac->pcb", X, self._perpendicular)
        q = np.einsum("pcb,jl->pcjlb", h, np.eye(k))
        return f, q.reshape(len(X), -1, f.shape[1])

    @cached_property
    def _types(self) -> tuple[Array, Array, Array, Array, Array]:
        """Means over types: M, V, Q, S (m, m) and b (m,), S as in :meth:`relative_error`."""
        from scipy.special import expit

        system = self.family.system
        w, truth = system.pair_weights, system.probabilities()
        (f, q), parts = self._directions, []
        for W, P in zip(self.W, truth, strict=True):
            p = expit(f @ W.ravel())
            v, e = p * (1.0 - p), P - p
            t = q @ W.ravel()
            J = (f * (w * v)[:, None]).T @ f
            inverse = np.linalg.inv(J)
            cross = (f * (w * v)[:, None]).T @ t - np.einsum("p,par->ra", w * e, q)
            residual = t - f @ (inverse @ cross)
            M = (t * (w * v)[:, None]).T @ t - cross.T @ inverse @ cross
            mean = (w * e) @ residual
            V = (residual * (w * (P * (1.0 - P) + e**2))[:, None]).T @ residual - np.outer(
                mean, mean
            )
            along = np.einsum("rs,ps,p,pac->rac", inverse, f, w * v, q, optimize=True)
            rest = q - np.einsum("pr,rac->pac", f, along)
            Q = np.einsum("p,par,rs,pcs->ac", w * v, rest, inverse, rest, optimize=True)
            moved = w * v * np.einsum("pr,rs,ps->p", f, inverse, f)
            S = (residual * moved[:, None]).T @ residual
            parts.append((M, V, Q, S, -0.5 * ((moved * (1.0 - 2.0 * p)) @ residual)))
        M, V, Q, S, b = (np.mean(part, axis=0) for part in zip(*parts, strict=True))
        return M, V, Q, S, b

    def _through(self, middle: Array) -> float:
        """tr(M^-1 middle M^-1)."""
        return float(
            np.trace(np.linalg.solve(self.information, np.linalg.solve(self.information, middle).T))
        )

    @property
    def information(self) -> Array:
        """The information M, shape (m, m)."""
        return self._types[0]

    @cached_property
    def variance(self) -> float:
        """N N_p times the variance to leading order."""
        return self._through(self._types[1])

    @cached_property
    def heads(self) -> float:
        """The contribution of the heads to the variance, times N N_p^2."""
        return self._through(self._types[2])

    @cached_property
    def bias(self) -> Array:
        """N_p times the mean of C for infinitely many users, shape (d1 - k, k)."""
        turn = np.linalg.solve(self.information, self._types[4])
        return np.asarray(turn.reshape(self._perpendicular.shape[1], -1), dtype=np.float64)

    @cached_property
    def next_order(self) -> float:
        """N_p times the terms beyond the leading orders, relative: see :meth:`relative_error`."""
        return (self.heads + self._through(self._types[3])) / self.variance

    def expected(self, N: float | Array, N_p: float | Array) -> Array:
        """E dist^2 from the law's B, without a tail that from B_diamond."""
        spread = (self.variance + self.heads / N_p) / (N * N_p)
        return np.asarray(spread + (self.bias**2).sum() / np.square(N_p))

    def relative_error(self, N: float | Array, N_p: float | Array) -> Array:
        """The estimated relative error of :meth:`expected`.

        Of relative order 1 / N_p are what heads cost, and that their noise moves logits, with
        variance f' J^-1 f / N_p, and the information with them: as |v''| <= v, by S / N_p = E[v t~
        t~' f' J^-1 f] / N_p or so. Sines are not tangents, which is of the order of dist^2.
        """
        return np.asarray(self.next_order / np.asarray(N_p) + self.expected(N, N_p))

    @cached_property
    def drift(self) -> Array:
        """C of B_pop to first order in the tail, at B_diamond: shape (d1 - k, k)."""
        system, best = self.family.system, self.family.best
        w, P = system.pair_weights, system.probabilities()
        (f, q), total = self._directions, 0.0
        tail = np.einsum("pab,nab->np", self.family.differences, self.family.Delta - best.Theta)
        M = 0.0
        for W, E, p in zip(self.W, tail, P, strict=True):
            v = w * p * (1.0 - p)
            t = q @ W.ravel()
            residual = t - f @ np.linalg.solve((f * v[:, None]).T @ f, (f * v[:, None]).T @ t)
            M = M + (residual * v[:, None]).T @ residual
            total = total + (v * E) @ residual
        turn = np.linalg.solve(M, total).reshape(self._perpendicular.shape[1], -1)
        return np.asarray(turn, dtype=np.float64)

    def floor_bound(self) -> float:
        """A bound of dist(B_pop, B_diamond)^2 for any tail, at B_pop: kappa Sigma_tail / (N nu).

        With z the logits, -log P* of a preference is on average the Kullback-Leibler divergence up
        to a constant, whose second derivative by the logit is v <= 1/4, and at least v_0 where |z|
        is no more than the largest of both models. Let lambda be eigenvalues of the Gram matrix.
        B_pop is at least as likely as B_diamond:

            v_0 lambda_min / 2 ||Delta_pop - Delta||_F^2 <= lambda_max / 8 Sigma_tail,

        and ||B_pop_perp' B_diamond||_F sigma_k <= ||B_pop_perp' Delta||_F = ||B_pop_perp' (Delta -
        Delta_pop)||_F. So kappa = lambda_max / (4 v_0 lambda_min). The paper's proof bounds the
        likelihood by its Lipschitz constant, hence the root of Sigma_tail there.
        """
        from scipy.special import expit

        system, X = self.family.system, self.family.differences
        X = X.reshape(len(X), -1)
        values = np.linalg.eigvalsh((X * system.pair_weights[:, None]).T @ X)
        models = np.concatenate([self.family.Delta, self.B @ self.W])
        largest = float(expit(np.abs(X @ models.reshape(len(models), -1).T).max()))
        kappa = values[-1] / values[0] / (4.0 * largest * (1.0 - largest))
        spread = diversity(self.family.Delta, self.B.shape[1])
        return float(kappa * spread.tail / (len(self.W) * spread.nu))
