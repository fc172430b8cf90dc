"""FIRM, equations (27) to (32): from one step of the averaged policy to the sum over time.

Objectives with known gradients and a known smoothness constant, as in
:mod:`experiments.firm.theory.descent`. Q_t is replaced by T_1 itself, the least that it may be.

>>> import numpy as np
>>> from experiments.firm.theory.descent import Round
>>> one = np.ones((1, 1, 1))
>>> line = Round(b=one, h=0 * one, o=0 * one, theta=one, g=one[None], lam=one, common=one[0])
>>> steps = np.ones((1, 3, 1))
>>> walk = Ascent(line, first=one[0], errors=0 * steps, lam=steps, a=one[0, 0])
>>> walk.J[0, :, 0].tolist(), walk.top.tolist()
([1.0, 2.0, 3.0, 4.0], [3.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.firm.theory.descent import Round
from linsys.linalg import Numbers, squared


@dataclass(frozen=True, eq=False)
class Ascent:
    """theta_{t+1} = theta_t + a (grad J(theta_t) lambda_t + e_t) on known objectives, t = 1 .. T.

    Attributes:
        objectives: the objectives, any round with them.
        first: theta_1, (B, d).
        errors: e_t = gbar_t - grad J(theta_t) lambda_t, (B, T, d).
        lam: lambda_1, ..., lambda_T, (B, T, M).
        a: (B,).
    """

    objectives: Round
    first: Numbers
    errors: Numbers
    lam: Numbers
    a: Numbers

    @cached_property
    def thetas(self) -> Numbers:
        """theta_1, ..., theta_{T+1}, (B, T + 1, d)."""
        path = [self.first]
        for t in range(self.lam.shape[1]):
            slopes = self.objectives.gradients(path[-1][:, None])[:, 0]
            g = (self.lam[:, t, :, None] * slopes).sum(axis=1) + self.errors[:, t]
            path.append(path[-1] + self.a[:, None] * g)
        return np.stack(path, axis=1)

    @cached_property
    def J(self) -> Numbers:
        """J(theta_t), (B, T + 1, M)."""
        times = range(self.thetas.shape[1])
        return np.stack([self.objectives.values(self.thetas[:, t]) for t in times], axis=1)

    @cached_property
    def top(self) -> Numbers:
        """The widest range of an objective along the path: r_max/(1-gamma) at least, (B,)."""
        return np.asarray((self.J.max(axis=1) - self.J.min(axis=1)).max(axis=-1))

    @cached_property
    def gradients(self) -> Numbers:
        """grad J^j(theta_t), (B, T, M, d)."""
        return self.objectives.gradients(self.thetas[:, :-1])

    @cached_property
    def weighed(self) -> Numbers:
        """grad J(theta_t) lambda_t, (B, T, d)."""
        return np.asarray((self.lam[..., None] * self.gradients).sum(axis=2))

    def averaged(self, values: Numbers) -> Numbers:
        """(1/T) sum_t, (B, T) to (B,)."""
        return np.asarray(values.sum(axis=1) / values.shape[1])

    @cached_property
    def error(self) -> Numbers:
        """(1/T) sum_t T_1, (B,)."""
        return self.averaged(squared(self.errors))

    @cached_property
    def stationarity(self) -> Numbers:
        """(1/T) sum_t ||grad J(theta_t) lambda_t||^2, (B,)."""
        return self.averaged(squared(self.weighed))
