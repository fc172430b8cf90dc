"""What one step of T-FIRM at theta_0 says of the disagreement drift later on, and of many clients.

Clients share theta_0 and draw independent gradients g = gbar + xi there. All laws below are exact
for noise of any law and any solution map lambda(g), smooth or not; ``tests`` compare them with
sums over all outcomes. Their moments are means over many drawn gradients, which cost no run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.firm._drift_laws import Moments
from experiments.firm.rates._runs import DifferentRunConfig, DriftRunConfig
from linsys.validate import Array
from mgda.firm import FIRM
from mgda.momdp import MOMDP

__all__ = ["OneStep"]


@dataclass(frozen=True, eq=False)
class OneStep:
    """Gradients of independent identical clients at theta_0, their solutions, and moments of both.

    With g = gbar + xi and lambda^* = lambda(g): Sigma = E[xi' xi] (M, M), Lambda = Cov lambda^*,
    a = lambda^* - E lambda^*, b = E lambda^* - lambda(gbar).

    Attributes:
        g: gradients, shape (n, d, M), n a multiple of C.
        gbar: their mean, exactly, shape (d, M).
        solutions: lambda(g), shape (n, M).
        target: lambda(gbar), shape (M,).
        clients: C.
    """

    g: Array
    gbar: Array
    solutions: Array
    target: Array
    clients: int

    @classmethod
    def draw(cls, config: DriftRunConfig, instance: int) -> OneStep:
        """``config.moment_draws`` gradients of identical clients, apart from those of the runs."""
        return cls._draw(config, config.momdp(instance), instance, config.moment_draws)

    @classmethod
    def each(cls, config: DifferentRunConfig, instance: int) -> list[OneStep]:
        """The moments of the clients that differ, one by one, from as many gradients in all."""
        momdps = config.different_clients(instance).momdps
        count = config.moment_draws // config.clients
        return [cls._draw(config, m, instance, count, c) for c, m in enumerate(momdps)]

    @classmethod
    def _draw(
        cls, config: DriftRunConfig, momdp: MOMDP, instance: int, count: int, *names: int
    ) -> OneStep:
        transition = Moments.of(momdp, config.theta0(instance, momdp.d))
        rng = np.random.default_rng(config.derive("moments", instance, *names))
        size = count // config.clients * config.clients
        shares = rng.multinomial(config.B, transition.law, size=size) / config.B
        g = transition.mean + np.tensordot(shares, transition.noise, axes=1)
        firm = FIRM.theory(alpha=1.0, beta=config.beta)
        return cls(g, transition.mean, firm.solve(g), firm.solve(transition.mean), config.clients)

    @cached_property
    def a(self) -> Array:
        """Deviations of the solutions from their mean, shape (n, M)."""
        return np.asarray(self.solutions - self.solutions.mean(axis=0))

    @cached_property
    def b(self) -> Array:
        """Bias of the solutions, shape (M,)."""
        return np.asarray(self.solutions.mean(axis=0) - self.target)

    @cached_property
    def spread(self) -> Array:
        """Lambda, shape (M, M)."""
        return np.asarray(self.a.T @ self.a / len(self.a))

    @cached_property
    def noise(self) -> Array:
        """Sigma, shape (M, M)."""
        xi = (self.g - self.gbar).reshape(-1, len(self.b))
        return np.asarray(xi.T @ xi / len(self.g))

    @cached_property
    def steps(self) -> Array:
        """Directions g lambda^* that clients step along, shape (n, d)."""
        return np.asarray((self.g @ self.solutions[..., None])[..., 0])

    @cached_property
    def kurtosis(self) -> float:
        """E|x|^4 of the noise x of ``steps`` over that of a Gaussian, less one."""
        x = self.steps - self.steps.mean(axis=0)
        square, covariance = (x**2).sum(axis=1), x.T @ x / len(x)
        gaussian = np.trace(covariance) ** 2 + 2.0 * np.sum(covariance**2)
        return float((square**2).mean() / gaussian - 1.0)

    @property
    def pace(self) -> float:
        """|E g lambda^*|, the length of a mean step over alpha."""
        return float(np.linalg.norm(self.steps.mean(axis=0)))

    @property
    def unsmoothed(self) -> float:
        """T_1 = E T_disagr around the mean weights without smoothing."""
        return float(self.many_clients(np.array([float(self.clients)]))[0][0])

    @cached_property
    def smoothed(self) -> float:
        """V = (1 - 1/C) tr(Sigma Lambda) / C: what old, independent deviations contribute."""
        C = self.clients
        return float((1.0 - 1.0 / C) / C * np.sum(self.noise * self.spread))

    def around_mean(self, now: Array, before: Array) -> Array:
        """E T_disagr around the mean weights: w_t^2 T_1 + V sum_{s<t} w_s^2.

        Args:
            now: w_t, the weight of the present solution.
            before: sum of the squared weights of the earlier ones.
        """
        return np.asarray(now**2 * self.unsmoothed + before * self.smoothed)

    def around_true(self, now: Array, before: Array, start: Array) -> Array:
        """E T_disagr around lambda(gbar).

        With w_0 = ``start`` left of lambda_0, equal weights, those of a client deviate by
        e = (1 - w_0) b + w_0 (lambda_0 - lambda(gbar)), common to all, and by its sum_s w_s a_s:

            e'(gbar'gbar + Sigma/C) e + 2 w_t X + w_t^2 Y + W sum_{s<t} w_s^2,

        W = tr((gbar'gbar + Sigma) Lambda) / C, and, with g a meaning the mean over C clients,
        X = E<g e, g a>, Y = E||g a||^2.
        """
        C, G, w0 = self.clients, self.gbar.T @ self.gbar, np.asarray(start)[:, None]
        e = (1.0 - w0) * self.b + w0 * (1.0 / len(self.b) - self.target)
        products = (self.g @ self.a[..., None])[..., 0]
        mean = products.mean(axis=0)
        own = np.einsum("ndi,nd->i", self.g, products) / len(products)
        cross = e @ (own / C + (1.0 - 1.0 / C) * self.gbar.T @ mean)
        square = (products**2).sum(axis=1).mean() / C + (1.0 - 1.0 / C) * mean @ mean
        floor = ((e @ (G + self.noise / C)) * e).sum(axis=1)
        old = np.sum((G + self.noise) * self.spread) / C
        return np.asarray(floor + 2.0 * now * cross + now**2 * square + before * old)

    def many_clients(self, counts: Array) -> tuple[Array, Array]:
        """E T_disagr without smoothing for ``counts`` = C >= 2 clients, both readings, (n,) each.

        Around lambda(gbar) it is the square of a mean of C independent vectors g (lambda^* -
        lambda(gbar)): E T = |mean|^2 + variance / C. Around the mean weights it is that of (1 -
        1/C) times a sample covariance of xi and lambda^*, a U-statistic, and with mu and v, mean
        and variance of xi a,

            E T = (1 - 1/C)^2 (|mu|^2 + v / C + (tr(Sigma Lambda) + kappa) / (C (C - 1))),

        kappa = sum_{j, k} E[xi_j a_k]' E[xi_k a_j]. Both are exact for noise of any law.
        """
        xi = self.g - self.gbar
        own, shifted = (
            (arrays @ moves[..., None])[..., 0]
            for arrays, moves in ((xi, self.a), (self.g, self.solutions - self.target))
        )
        cross = np.einsum("ndj,nk->djk", xi, self.a) / len(xi)
        pairs = np.sum(self.noise * self.spread) + np.sum(cross * np.swapaxes(cross, 1, 2))
        means, variances = zip(
            *((np.sum(x.mean(axis=0) ** 2), x.var(axis=0).sum()) for x in (own, shifted)),
            strict=True,
        )
        around_mean = means[0] + variances[0] / counts + pairs / (counts * (counts - 1.0))
        return (1.0 - 1.0 / counts) ** 2 * around_mean, means[1] + variances[1] / counts
