"""OOD-PL, Lemma 3: gradients of the preference loss, for policies of any dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.oodpl.theory.smoothness import Jet
from linsys.linalg import lambda_min
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


def _fisher(jet: Jet) -> dict[str, Any]:
    """grad log pi of all answers, times the roots of their chances, and p mu."""
    slopes = np.sqrt(jet.pi)[..., None] * jet.g
    return {
        "slopes": slopes.reshape(*slopes.shape[:-2], -1),
        "least": jet.g.shape[-1] * lambda_min(-jet.H).min(axis=-1),
        "M": jet.M,
    }


@g.theorem("ood.A1_fisher", at=_fisher)
def A1_fisher(p: g.Problem) -> None:
    """p mu <= -E tr Hess log pi = E ||grad log pi||^2 <= M^2."""
    slopes = p.vector("slopes", "E R^p")
    least, M = p.value("least"), p.parameter("M")
    p.assume(
        least <= slopes.squared, "sum_y pi(y) = 1: -E Hess log pi is E g g', with the trace p mu"
    )
    p.assume(slopes.squared <= M**2, "(15), in the mean")
    p.show(least <= M**2)
