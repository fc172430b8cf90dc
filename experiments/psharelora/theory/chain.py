"""P-ShareLoRA: Theorems 4.1, B.3 and 4.2 with constants, for linear rewards under coverage.

Everything is deterministic in the labels' noise Z_i = (1/n) sum_j V_ij x_ij, V = o - Phi(<Theta*,
x>), whose size psl.chain_noise_all and psl.chain_noise_own bound in probability. Coverage means
that (1/n) sum_j vec(x_ij) vec(x_ij)' is at least lambda I for every user i, which takes n >= d1 d2.
For a user's own head it is asked of the features in the learned basis only, (1/n) sum_j
vec(B_hat'x) vec(B_hat'x)' >= lambda_i I, which takes n >= k d2; lambda_i >= lambda.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.noise import every_outcome
from experiments.psharelora.theory.preference import slope
from experiments.psharelora.theory.proof import Shared
from experiments.psharelora.theory.subspace import flat, frobenius, inner
from linsys.linalg import Numbers, lambda_max, lambda_min, logistic, solve, transpose

__all__ = ["Chain", "noise"]


def _spectral(Z: Numbers) -> Numbers:
    """||Z|| of matrices that need not be square."""
    return np.asarray(np.sqrt(lambda_max(Z @ transpose(Z))))


@dataclass(frozen=True, eq=False)
class Chain:
    """Users, their comparisons, and an estimate of rank k that is most likely for its own basis.

    The labels are shares of wins in repeated comparisons: Phi(<Theta_hat_i, x>) plus residuals
    whose part along the user's k d2 features in the learned basis leaves W_hat_i optimal: none
    inside of the ball ||Theta_i||_F <= B, and one outwards on its edge. B is the largest norm of
    all Theta_hat_i and Theta*_i. Whether Theta_hat is as likely as Theta_diamond is for the caller
    to ask.

    Args:
        users: Theta*, Theta_diamond and all that.
        x: differences of features, (B, N, n, d1, d2).
        basis: B_hat, orthonormal in its first k of d1 columns and zero in the others, (B, d1, d1).
        W: W_hat_i, the rows after the k-th one unused, (B, N, d1, d2).
        residual: any numbers, (B, N, n).
        push: >= 0, the gradient by W_hat_i over W_hat_i before labels are cut, (B, N); used for
            users with ||Theta_hat_i||_F = B.
    """

    users: Shared
    x: Numbers
    basis: Numbers
    W: Numbers
    residual: Numbers
    push: Numbers

    @cached_property
    def hat(self) -> Numbers:
        """Theta_hat_i, (B, N, d1, d2)."""
        return np.asarray(self.basis[:, None] @ self.W)

    @property
    def radius(self) -> Numbers:
        """B, (B,)."""
        return np.asarray(np.maximum(frobenius(self.hat), frobenius(self.users.delta)).max(axis=1))

    @cached_property
    def _seen(self) -> tuple[Numbers, Numbers]:
        """Features in the learned basis, (B, N, n, d1 d2), and I on what lies across, else 0."""
        seen = flat(transpose(self.basis)[:, None, None] @ self.x)
        unused = np.repeat(1 - self.users.held, self.x.shape[-1], axis=1)[:, None, :, None]
        return seen, unused * np.eye(seen.shape[-1], dtype=int)

    @cached_property
    def labels(self) -> Numbers:
        """o in [0, 1], (B, N, n)."""
        seen, unused = self._seen
        gram = transpose(seen) @ seen + unused
        outwards = np.where(frobenius(self.hat) >= self.radius[:, None], self.push, 0 * self.push)
        wanted = self.x.shape[2] * outwards[..., None] * flat(self.W)
        along = solve(gram, (transpose(seen) @ self.residual[..., None])[..., 0] - wanted)
        rest = self.residual - (seen @ along[..., None])[..., 0]
        chance = logistic(inner(self.hat[:, :, None], self.x))
        room = np.where(rest > 0, 1 - chance, chance)
        size = np.abs(rest)
        share = np.where(size > room, room / np.where(size > 0, size, 1 + 0 * size), 1 + 0 * size)
        return np.asarray(chance + share.min(axis=2, keepdims=True) * rest)

    @cached_property
    def longest(self) -> Numbers:
        """max ||x||_F, which is at most 2 L1; (B,)."""
        return np.asarray(frobenius(self.x).max(axis=(1, 2)))

    @cached_property
    def c2(self) -> Numbers:
        """min Phi' over the differences of rewards of all parameters of size B."""
        return slope(self.longest * self.radius)

    @cached_property
    def coverage(self) -> Numbers:
        """lambda, the least eigenvalue of all users' second moments of features; (B,)."""
        rows = flat(self.x)
        least = lambda_min(transpose(rows) @ rows / self.x.shape[2]).min(axis=1)
        return np.asarray(np.maximum(least, 0 * least))

    @cached_property
    def own_coverage(self) -> Numbers:
        """lambda_i, the least eigenvalue of a user's features in the learned basis; (B, N)."""
        seen, unused = self._seen
        gram = transpose(seen) @ seen / self.x.shape[2]
        whole = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
        least = lambda_min(gram + whole * unused)
        return np.asarray(np.maximum(least, 0 * least))

    @cached_property
    def Z(self) -> Numbers:
        """(1/n) sum_j V_ij x_ij, (B, N, d1, d2)."""
        V = self.labels - logistic(inner(self.users.delta[:, :, None], self.x))
        return np.asarray((V[..., None, None] * self.x).mean(axis=2))

    @cached_property
    def distance(self) -> Numbers:
        """dist(B_hat, B_diamond) = ||(I - B_hat B_hat') B_diamond||_F, (B,)."""
        U = self.users.basis
        return frobenius(U - self.basis @ (transpose(self.basis) @ U))

    def theorem_4_1(self) -> rc.Sides:
        """c2 lambda sqrt(nu) dist against 2 (sqrt(2k/N) ||Z|| + sqrt(lambda Sigma_tail/N) L1/2)."""
        users = self.users
        whole = np.swapaxes(self.Z, 1, 2).reshape(len(self.x), self.x.shape[3], -1)
        noise = np.sqrt(2 * users.rank / users.N) * _spectral(whole)
        bias = np.sqrt(self.coverage * users.tail / users.N) * self.longest / 4
        return self.c2 * self.coverage * np.sqrt(users.nu) * self.distance, 2 * (noise + bias)

    def _parts(self, distance: Numbers) -> tuple[Numbers, Numbers]:
        """What noise and what the subspace and b_i add to a user's error, both (B, N)."""
        own = frobenius(transpose(self.users.basis)[:, None] @ self.Z)
        noise = own + distance[:, None] * _spectral(self.Z)
        return noise, np.sqrt(self.users.b) + frobenius(self.users.best) * distance[:, None]

    def theorem_B3(self) -> rc.Sides:
        """Root mean squared error in the sample, times c2 sqrt(lambda_i), against its bound."""
        error = inner((self.hat - self.users.delta)[:, :, None], self.x)
        c2, root = self.c2[:, None], np.sqrt(self.own_coverage)
        noise, rest = self._parts(self.distance)
        bound = noise + root * (c2 + 1 / (4 + 0 * c2)) * self.longest[:, None] * rest
        return c2 * root * np.sqrt((error**2).mean(axis=2)), bound

    def confidence(self) -> rc.Sides:
        """||Theta_hat_i - Theta*_i||_F and its bound epsilon_i without dist, both (B, N).

        Without coverage there is no bound, and the number is meaningless.
        """
        cover, own = (
            np.where(least > 0, least, 1 + 0 * least)
            for least in (self.coverage, self.own_coverage)
        )
        c2 = self.c2[:, None]
        _, limit = self.theorem_4_1()
        distance = limit / (self.c2 * cover * np.sqrt(self.users.nu))
        noise, rest = self._parts(np.minimum(distance, np.sqrt(self.users.rank)))
        weight = 1 + self.longest[:, None] / (4 * c2 * np.sqrt(own))
        bound = noise / (c2 * own) + weight * rest
        return frobenius(self.hat - self.users.delta), bound


def noise(gap: Numbers, x: Numbers) -> tuple[Numbers, Numbers]:
    """sum of V x over comparisons (B, m, d1, d2), for all 2^m data sets; and their chances."""
    V, chance = every_outcome(gap)
    return (V @ flat(x)).reshape(*V.shape[:2], *x.shape[2:]), chance
