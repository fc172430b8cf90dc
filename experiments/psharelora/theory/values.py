"""P-ShareLoRA, Definition A.3, Theorem 4.2 and its corollaries: what policies lose.

Policies and their choice are those of :mod:`experiments.psharelora.theory.pessimism`.
"""

from __future__ import annotations

import numpy as np

from linsys.linalg import Numbers

__all__ = ["confidence"]


def confidence(
    b: Numbers, nu: Numbers, spread: Numbers, L1: Numbers, C: Numbers
) -> tuple[Numbers, Numbers]:
    """b_i of all users (..., N), and (B.1) for N_p = oo with c3 = C, spread = Sigma_tail/N."""
    inside = b.min(axis=-1) + np.sqrt(spread) / nu
    zeta = np.sqrt(C * inside / 2) / L1
    return b, zeta[..., None] + 0 * b
