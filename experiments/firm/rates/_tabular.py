"""Exact ascent in a tabular process: the law of its gap, which has no constants of the process.

With one logit per pair the maximum of the mean objective lies at infinity; how policies approach it
is derived in :mod:`experiments.firm.rates.gap_time`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linsys.validate import Array
from mgda.constants import smoothness_everywhere
from mgda.momdp import MOMDP

__all__ = ["SPREAD", "Tabular"]

#: Standard deviation of the first logits, and a bound of what they add to t / tau on average:
#: E(o + 1/o + 2|ln o|) at odds o whose logarithm has twice that variance.
SPREAD, _START = 0.5, 4.0
#: A logit that takes an action away.
_FAR = 60.0


@dataclass(frozen=True, eq=False)
class Tabular:
    """A tabular process and the maximum of its mean objective."""

    momdp: MOMDP

    @cached_property
    def a(self) -> float:
        """The step size 1 / L_J."""
        return 1.0 / smoothness_everywhere(self.momdp, 1)

    @cached_property
    def values(self) -> Array:
        """Optimal values of the mean objective, shape (S,)."""
        value = np.zeros(self.momdp.n_states)
        for _ in range(int(np.ceil(np.log(1e-14) / np.log(max(self.momdp.gamma, 1e-14))))):
            value = self._after(value).max(axis=1)
        return value

    def _after(self, value: Array) -> Array:
        m = self.momdp
        return np.asarray(m.mean_r.mean(axis=-1) + m.gamma * m.P @ value)

    @cached_property
    def best(self) -> float:
        """max J_u."""
        return float(self.momdp.gamma * self.momdp.start @ self.values)

    @cached_property
    def tau(self) -> float:
        """The largest 1 / (A a D(s) D_b(s)) at the best policy."""
        m, Q = self.momdp, self._after(self.values)
        policy = m.at(np.where(Q.max(axis=1, keepdims=True) == Q, 0.0, -_FAR).ravel())
        occupancy = m.gamma / (1.0 - m.gamma) * policy.occupancy
        lacking = np.sort(Q.max(axis=1, keepdims=True) - Q, axis=1)[:, 1:]
        return float((1.0 / (m.n_actions * self.a * occupancy[:, None] * lacking)).max())

    def law(self, t: Array) -> Array:
        """The gap after t steps to leading order."""
        m = self.momdp
        return np.asarray(m.n_states * (1.0 - 1.0 / m.n_actions) / (self.a * t) ** 2)

    def room(self, t: float) -> float:
        """What the law leaves out after t steps, relative to it."""
        return float(2.0 * self.tau / t * (2.0 * np.log(t / self.tau) + _START))
