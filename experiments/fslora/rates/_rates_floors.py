"""Where FSLoRA ends on the family of :mod:`experiments.fslora.rates._rates_systems`: the laws.

*Laws.* Near the minimiser a round is y -> y - gamma H P y - gamma xi, P the derivative of G, and xi
the mean over N devices of what H steps add in noise. One gradient has the covariance
Sigma_s from sketches and Sigma_g from batches: Cov xi = H (Sigma_s + Sigma_g)/N with a fresh sketch
in every step, (H^2 Sigma_s + H Sigma_g)/N with one for H steps. In the stationary state P C + C P =
gamma Cov xi / H, whose product with P has the trace

    E|grad f^S|^2 = (gamma/N) (m tr(P Sigma_s) + tr(P Sigma_g)),   m = 1 (fresh) or H (fixed).

A fixed sketch S has a bias as well: X^1 = X - gamma g_S(X) depends on it, and the H gradients sum
up to H G - gamma H (H - 1)/2 b with b = E g_S'(X)[g_S(X)], a mean over sketches and devices: G =
gamma (H - 1)/2 b where the mean round stands still. For fresh sketches b is the mean of G_i'[G_i],
the heterogeneity of FedAvg, zero where all f_i^S are the same; what is left is of order gamma^2.

*What these leave out* is known in two parts. Of first order in gamma H for N -> infinity: the point
where the mean round stands still is found exactly, from all sequences of sketches, and the
covariance from the linear recursion of rounds (:attr:`Floor.refined`). Of order gamma/N: in a
stationary state f^S is the same before and after a round, so that E|grad f^S|^2 is (gamma/N) times
the mean of m tr(P Sigma_s) + tr(P Sigma_g) over the stationary law, not its value at the minimiser;
and so E G is gamma (H - 1)/2 times the mean of b (:attr:`Floor.rest`, for the Gaussian law with
covariance C).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from experiments.fslora.rates._rates_systems import (
    Squares,
    local_steps,
    rounds,
    sketched,
    sketched_along,
)
from linsys.validate import Array, InputError

__all__ = ["LEVEL", "RELAX", "Floor"]

#: The largest number of sequences of sketches that are enumerated.
MANY = 20_000
#: Points drawn from the Gaussian law in :meth:`Floor.rest`: half of them are drawn, the others are
#: their negatives.
POINTS = 2000
#: The first relaxation times of a run, which are not counted.
RELAX = 2.5
#: Level of each confidence interval, high because an experiment judges about ten of them.
LEVEL = 0.995


@dataclass(frozen=True, kw_only=True)
class Floor:
    """E|grad f^S|^2 of the stationary state; see the module's text."""

    system: Squares
    gamma: float
    H: int
    devices: int
    fresh: bool

    @property
    def bias(self) -> float:
        """The bias of a round without noise, to leading order: (gamma (H - 1))^2 |b|^2 / 2."""
        b = self.drag(self.system.minimiser()[..., None])
        return float(0.5 * (self.gamma * (self.H - 1)) ** 2 * (b**2).sum())

    def drag(self, A: Array) -> Array:
        """b at A (r, n, Y), of the same shape."""
        system, at = self.system, A[:, :, None]
        b = np.zeros(A.shape)
        for S, d in zip(system.sketches, system.targets, strict=True):
            s = S.T[:, None, :, None]
            g = sketched(at, s, d)
            if self.fresh:
                g = np.broadcast_to(g.mean(axis=2, keepdims=True), g.shape)
            b += sketched_along(at, s, d, g).mean(axis=2)
        return b / len(system.ranks)

    @property
    def noise(self) -> float:
        """The contribution of noise, to leading order."""
        return float(
            self.gamma / self.devices * self.steepness(self.system.minimiser()[..., None])[0]
        )

    @property
    def total(self) -> float:
        """The floor to leading order."""
        return self.bias + self.noise

    @cached_property
    def exact_bias(self) -> float:
        """|grad f^S|^2 where the round of infinitely many devices stands still.

        By symmetry that is a multiple of Q. Without noise in y. At most ``MANY`` sequences of
        sketches.
        """
        return float(self.system.squared_norm(self._rest_point))

    @cached_property
    def _rest_point(self) -> Array:
        from scipy.optimize import newton

        Q, root = self.system.frame, np.sqrt((self.system.minimiser() ** 2).sum() / self.system.n)

        def moved(t: float) -> float:
            return float(((self._mean_round(t * Q) - t * Q) * Q).sum() / self.gamma)

        return np.asarray(newton(moved, float(root), tol=1e-12) * Q)

    def _ends(self, A: Array) -> list[Array]:
        """A after the local steps of every kind of device for all sketches, each (r, n, paths)."""
        ends = []
        for S, d in zip(self.system.sketches, self.system.targets, strict=True):
            draws = self.H if self.fresh else 1
            if len(S) ** draws > MANY:
                raise InputError(
                    f"`H` must leave at most {MANY} sequences of sketches; found {len(S)}^{draws}"
                )
            paths = np.array(list(product(range(len(S)), repeat=draws)))
            s = np.moveaxis(S[paths], 0, 2)  # (draws, r, paths)
            y = np.full((self.H, len(paths)), d)
            ends.append(local_steps(A[:, :, None], s, y, self.gamma))
        return ends

    def _mean_round(self, A: Array) -> Array:
        return np.asarray(np.mean([end.mean(axis=2) for end in self._ends(A)], axis=0))

    @cached_property
    def _matrices(self) -> tuple[Array, Array, Array]:
        """P, Sigma_s and Sigma_g at the minimiser."""
        return self._matrices_at(self.system.minimiser())

    def _matrices_at(self, A: Array) -> tuple[Array, Array, Array]:
        """P, Sigma_s and Sigma_g at A (r, n), taken as a vector."""
        system, size = self.system, A.size
        P = system.derivative(A[..., None], np.eye(size).reshape(*A.shape, size))
        sketch, batch = np.zeros((size, size)), np.zeros((size, size))
        for S, d in zip(system.sketches, system.targets, strict=True):
            s = S.T[:, None]
            g = sketched(A[..., None], s, d)
            for total, noise in (
                (sketch, g - g.mean(axis=2, keepdims=True)),
                (batch, system.noise * s * A[..., None]),
            ):
                flat = noise.reshape(size, -1)
                total += flat @ flat.T / flat.shape[1] / len(system.ranks)
        return P.reshape(size, size), sketch, batch

    @cached_property
    def refined(self) -> float:
        """The floor for any gamma H as N grows: the exact bias, and the noise to order 1/N.

        Raises:
            InputError: one sketch for several steps and noise in y.
        """
        draws = self.H if self.fresh else 1
        known = max(len(S) for S in self.system.sketches) ** draws <= MANY
        A = self._rest_point if known else self.system.minimiser()
        P, sketch, batch = self._matrices_at(A)
        size = len(P)
        if self.fresh or self.H == 1:
            step = np.eye(size) - self.gamma * P
            powers = [np.linalg.matrix_power(step, h) for h in range(self.H + 1)]
            J, parts = powers[-1], [K @ (sketch + batch) @ K.T for K in powers[:-1]]
            C = self.gamma**2 * np.sum(parts, axis=0)
        elif self.system.noise:
            raise InputError(f"`noise` must be 0 for fixed sketches; found {self.system.noise}")
        else:
            J, C = self._jacobian(A), np.zeros((size, size))
            for ends in self._ends(A):
                flat = (ends - ends.mean(axis=2, keepdims=True)).reshape(size, -1)
                C += flat @ flat.T / flat.shape[1] / len(self.system.ranks)
        for _ in range(60):  # sum of J^t C J'^t over t, doubling the number of terms
            more = J @ C @ J.T
            C, J = C + more, J @ J
            if np.abs(more).max() <= 1e-12 * np.abs(C).max():
                break
        return float(self.system.squared_norm(A) + 2.0 * np.trace(P @ C @ P.T) / self.devices)

    def _jacobian(self, A: Array) -> Array:
        """Derivative of the mean round at A, by central differences."""
        size, e = A.size, 1e-6
        columns = [
            (self._mean_round(A + e * Y) - self._mean_round(A - e * Y)).ravel() / (2.0 * e)
            for Y in np.eye(size).reshape(size, *A.shape)
        ]
        return np.array(columns).T

    def steepness(self, A: Array) -> Array:
        """m tr(P Sigma_s) + tr(P Sigma_g) at A (r, n, Y), shape (Y,)."""
        sketch, batch = self.system.steepness(A)
        return (1.0 if self.fresh else self.H) * sketch + batch

    @property
    def spread(self) -> float:
        """m tr Sigma_s + tr Sigma_g at the minimiser."""
        _, sketch, batch = self._matrices
        return float((1.0 if self.fresh else self.H) * np.trace(sketch) + np.trace(batch))

    @cached_property
    def rates(self) -> tuple[float, float]:
        """The smallest and largest eigenvalues of P but for zeros, which belong to rotations."""
        values = np.linalg.eigvalsh(self._matrices[0])
        return float(values[values > 1e-9].min()), float(values.max())

    @property
    def relative_error(self) -> float:
        """The estimated relative error of :attr:`refined`: of order gamma/N, and (gamma H)^2."""
        return self.rest + (self.refined / self.total - 1.0) ** 2 + float(np.exp(-2.0 * RELAX))

    def measured(self, replicates: int, span: float, rng: np.random.Generator) -> Array:
        """Means of |grad f^S|^2 over ``span`` of the slowest relaxation times, shape (R,).

        ``RELAX`` of them are left out at the start, which is the minimiser. Each has ten points.
        """
        time = 1.0 / (self.gamma * self.H * self.rates[0])
        count, every = int(np.ceil((RELAX + span) * time)), int(np.ceil(0.1 * time))
        A = np.repeat(self.system.minimiser()[..., None], replicates, axis=2)
        squared = rounds(
            self.system,
            A,
            count,
            gamma=self.gamma,
            H=self.H,
            devices=self.devices,
            fresh=self.fresh,
            rng=rng,
            every=every,
        )
        return np.asarray(squared[int(np.ceil(RELAX * time / every)) :].mean(axis=0))

    @cached_property
    def rest(self) -> float:
        """The change of bias and noise by the spread of the stationary law, relative to both."""
        P, sketch, batch = self._matrices
        values, vectors = np.linalg.eigh(P)
        inside = values > 1e-9
        p, V = values[inside], vectors[:, inside]
        m = 1.0 if self.fresh else self.H
        C = self.gamma / self.devices * (V.T @ (m * sketch + batch) @ V) / (p[:, None] + p)
        spread, axes = np.linalg.eigh(C)
        z = np.random.default_rng(0).standard_normal((len(p), POINTS // 2))
        y = V @ axes @ (np.sqrt(np.maximum(spread, 0.0))[:, None] * z)
        A = self.system.minimiser()[..., None]
        y = np.concatenate([y, -y], axis=1).reshape(*A.shape[:2], POINTS)
        noise = abs(self.steepness(A + y).mean() / self.steepness(A)[0] - 1.0) * self.noise
        before, after = ((b.mean(axis=2) ** 2).sum() for b in (self.drag(A), self.drag(A + y)))
        bias = 0.5 * (self.gamma * (self.H - 1)) ** 2 * abs(after - before)
        return float((noise + bias) / self.total)
