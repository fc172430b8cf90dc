"""The stationary error of small steps: what the noise at the solutions costs, exactly.

With a constant step alpha, E||x^i - x_*^i||^2 settles at alpha tr X + O(alpha^2), where X solves

    Abar^i X + X (Abar^i)' = Cov(noise of x^i at all solutions).

The noise of AffPCL there is z^i = (1/n) sum_j rho^i(s^j) h(s^j) + v^i(s^i), that of an agent alone
g^i(x_*^i; s^i) = h(s^i) + v^i(s^i), with the central residual h(s) = A(s) x_*^c - Phi(s) theta_*^c
and v^i(s) = A(s)(x_*^i - x_*^c) - Phi(s)(theta_*^i - theta_*^c). The errors of x^c and theta^c
enter z^i times zero-mean matrices and so count at order alpha^2.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]
