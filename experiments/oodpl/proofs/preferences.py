"""OOD-PL, Lemma 3: gradients of the preference loss, for policies of any dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.oodpl.theory.smoothness import Jet
from ratecheck import gram as g


def _pairs(jet: Jet) -> dict[str, Any]:
    """grad log pi of both answers of every pair, and the chance of the wrong one; (..., Y, Y)."""
    zero = np.zeros(jet.wrong.shape, dtype=int)[..., None]
    return {
        "first": jet.g[..., :, None, :] + zero,
        "second": jet.g[..., None, :, :] + zero,
        "chance": jet.wrong,
        "M": jet.M[..., None, None] + zero[..., 0],
    }


@g.theorem("ood.lpl_2M", at=_pairs, power=2)
def lpl_2M(p: g.Problem) -> None:
    """||sigma(-u) (grad log pi(y) - grad log pi(y'))|| <= 2 M, squared."""
    first, second = p.vectors("first second")
    chance, M = p.parameter("chance"), p.parameter("M")
    p.bounded(first, M, "(15), of y", factors=[1, chance, chance**2])
    p.bounded(second, M, "(15), of y'", factors=[1, chance, chance**2])
    p.assume(chance <= 1, "sigma <= 1", factors=[M**2, chance * M**2])
    p.show((chance * (first - second)).squared <= 4 * M**2)
