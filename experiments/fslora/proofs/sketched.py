"""FSLoRA, Section 3.1: what sketches add to a loss that is smooth or strongly convex.

All sketches are in one vector, each times the root of its chance: the inner product is a mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.fslora.claims.bias import kinked
from experiments.fslora.theory.sketching import sketches
from linsys.linalg import Numbers
from ratecheck import gram as g


def _sketched(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> dict[str, Any]:
    """W's change by each sketch, the gradient at W = BA, and what the loss grows by in the mean."""
    S, chance = sketches(k, A.shape[-2])
    root = np.sqrt(chance)[..., None, None]
    W = B @ A
    change = B[:, None] @ (S[..., None] * A[:, None]) - W[:, None]
    apart = W - o
    slope = L[:, None, None] * np.where(apart > 0, apart, share[:, None, None] * apart)
    arguments = A[:, None], o[:, None], L, share
    plain = kinked(B[:, None], 1 + 0 * S[:, :1], *arguments)[:, 0]
    return {
        "D": (root * change).reshape(len(W), -1),
        "G": (root * slope[:, None]).reshape(len(W), -1),
        "gap": (chance * kinked(B[:, None], S, *arguments)).sum(axis=-1) - plain,
        "L": L,
        "mu": share * L,
    }


def _unbiased(p: g.Problem) -> tuple[Any, ...]:
    D, G = p.vectors("D G", "W of every sketch")
    p.equal(G @ D, 0, "E S = I")
    return D, G, p.value("gap")


@g.theorem("fslora.loss_bias_smooth", at=_sketched)
def loss_bias_smooth(p: g.Problem) -> None:
    """f^S - f <= (L/2) E||B(S - I)A||^2."""
    D, G, gap = _unbiased(p)
    L = p.parameter("L")
    p.assume(gap <= G @ D + L * D.squared / 2, "the loss of W is L-smooth")
    p.show(gap <= L * D.squared / 2)


@g.theorem("fslora.loss_bias_strong", at=_sketched)
def loss_bias_strong(p: g.Problem) -> None:
    """f^S - f >= (mu/2) E||B(S - I)A||^2."""
    D, G, gap = _unbiased(p)
    mu = p.parameter("mu")
    p.assume(G @ D + mu * D.squared / 2 <= gap, "the loss of W is mu-strongly convex")
    p.show(mu * D.squared / 2 <= gap)
