"""P-ShareLoRA, Definition A.3, Theorem 4.2 and its corollaries: what policies lose.

Policies and their choice are those of :mod:`experiments.psharelora.theory.pessimism`.
"""

from __future__ import annotations

import numpy as np

from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import Numbers

__all__ = ["confidence"]


def confidence(
    users: Adaptation, L1: Numbers, C: Numbers, share: Numbers
) -> tuple[Numbers, Numbers]:
    """b_i of all users, and ``share`` of (B.1) for N_p = oo."""
    inside = users.b.min(axis=-1) + np.sqrt(users.tail / users.users) / users.nu
    zeta = share * np.sqrt(C * inside / 2) / L1
    return users.b, zeta[..., None] + 0 * users.b
