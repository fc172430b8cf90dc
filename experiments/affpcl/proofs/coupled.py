"""AffPCL, Example 2: density ratios that are estimated by samples of two coupled agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.theory.ratio_estimation import Coupling
from linsys.linalg import apply, lambda_min
from ratecheck import gram as g


def _mean_step(s: Coupling) -> dict[str, Any]:
    """eta - eta_*, the mean direction, and Psibar^0 (eta - eta_*)."""
    gap = s.eta - s.eta_star
    return {
        "gap": gap,
        "g": (s.joint[..., None] * s.residual(s.eta)).sum(axis=(1, 2)),
        "image": apply(s.Psi_bar, gap),
        "least": np.maximum(lambda_min(s.Psi_bar), 0),
    }


@g.theorem("affpcl.ex2_monotone", at=_mean_step)
def ex2_monotone(p: g.Problem) -> None:
    """<E g, eta - eta_*> >= lambda_min(Psibar^0) ||eta - eta_*||^2."""
    gap, own, image = p.vectors("gap g image")
    least = p.parameter("least")
    p.equal(own @ gap, image @ gap, "affpcl.ex2_mean")
    p.assume(least * gap.squared <= image @ gap, "lambda_min is the least of Psibar^0")
    p.show(least * gap.squared <= own @ gap)
