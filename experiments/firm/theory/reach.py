"""FIRM, equation (33): what the explicit constants amount to at realistic values.

>>> import numpy as np
>>> scales = Scales(*np.array([[0.9], [0.1], [0.0], [2.0]]))
>>> print(f"{batch_needed(scales, np.array([0.01]))[0]:.1e}")
6.2e+13
>>> print(f"{batch_needed_corrected(scales, 8)[0]:.0f}")
433
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.firm.theory.client_gradients import Printed
from experiments.firm.theory.program import root
from linsys.linalg import Numbers


@dataclass(frozen=True, eq=False)
class Scales:
    """Constants of a process under an exact tabular critic, each (B,); r_max = 1, C_psi = sqrt(2).

    ``lambda_A`` <= 1 - gamma, see :func:`constants_in_span`; kappa = 1.
    """

    gamma: Numbers
    lambda_A: Numbers
    rho: Numbers
    M: Numbers

    @property
    def known(self) -> Printed:
        """The text's constants; no L_J, as the step size goes to zero."""
        one = 1 + 0 * self.gamma
        return Printed(one, 2 / self.lambda_A, self.rho, 0 * one, 0 * one, root(2, one), self.gamma)

    @property
    def trivial(self) -> Numbers:
        """(gamma C_psi r_max / (2 (1 - gamma)^2))^2 >= ||grad J lambda||^2."""
        return np.asarray((self.gamma / (1 - self.gamma) ** 2) ** 2 / 2)

    def disagreement(self, size: Numbers, beta: Numbers) -> Numbers:
        """(33)'s term 4 sqrt(./B) with its factor."""
        known = self.known
        noise = 4 * np.sqrt(known.noise(size, critics=1))
        return np.asarray(8 * known.R**3 * np.sqrt(self.M**3) / beta * noise)


def batch_needed(scales: Scales, beta: Numbers) -> Numbers:
    """The B at which (33)'s disagreement term falls to the trivial bound, (B,)."""
    return np.asarray((scales.disagreement(1 + 0 * beta, beta) / scales.trivial) ** 2)


def batch_needed_corrected(scales: Scales, clients: int) -> Numbers:
    """The B at which the corrected Q falls to the trivial bound on ||grad H lambda||^2, (B,).

    For exact critics, no local steps and any beta, also beta = 0.
    """
    R, one = scales.known.R, 1 + 0 * scales.gamma
    others = (clients - 1) / (one * clients)
    noise = 4 * scales.M * R**2 * (one / clients + others**2)
    return np.asarray(noise * 2 * (1 - scales.gamma) ** 2)
