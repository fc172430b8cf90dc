"""Instances that the statements of AffPCL are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._meaning import meaning
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import lambda_min, operator_norm


def monotone(matrices: Any, mu: Any, floor: Any) -> Any:
    """Add the smallest multiple of I with which sym(E_{mu^i} M) >= floor for every agent."""
    flat = matrices.reshape(*matrices.shape[:2], -1)
    means = (mu @ flat).reshape(*mu.shape[:2], *matrices.shape[2:])
    lowest = lambda_min(means).min(axis=1)
    lift = np.maximum(0, floor - lowest)
    return matrices + lift[:, None, None, None] * np.eye(matrices.shape[-1], dtype=int)


def standing(fields: rc.Fields) -> rc.Fields:
    """Make sym(Abar^i) > 0, sym(Phibar^i) > 0 and ||Phi(s)|| <= 1 true.

    A moves by a multiple of I. Phi moves to (1 - c) Phi + c I, which is monotone for some c in
    [0, 1] and stays a contraction, both being convex.
    """
    mu, floor = fields["mu"], fields["floor"]
    identity = np.eye(fields["Phi"].shape[-1], dtype=int)
    lowest = lambda_min(_means(mu, fields["Phi"])).min(axis=1)
    # (1 - c) lowest + c >= floor; floor < 1
    c = np.maximum(0, (floor - lowest) / (1 - np.minimum(lowest, floor)))[:, None, None, None]
    return {
        **fields,
        "A": monotone(fields["A"], mu, floor),
        "Phi": (1 - c) * fields["Phi"] + c * identity,
    }


def _means(mu: Any, matrices: Any) -> Any:
    flat = matrices.reshape(*matrices.shape[:2], -1)
    return (mu @ flat).reshape(*mu.shape[:2], *matrices.shape[2:])


SYSTEM: Mapping[str, rc.Field] = {
    "mu": rc.simplex("n", "S"),
    "A": rc.reals("S", "d", "d"),
    "Phi": rc.contraction("S", "d", "d"),
    "theta": rc.reals("n", "d"),
    "floor": rc.positive(low=0.001, high=0.5),
}
SIZES = {"n": (1, 4), "S": (1, 5), "d": (1, 3)}
ASSUMES = {
    "sym(Abar^i) > 0": lambda s: s.lambda_agent > 0,
    "sym(Phibar^i) > 0": lambda s: lambda_min(s.Phi_bar) > 0,
    # attained, so that rounding may be above it
    "||Phi(s)|| <= 1": lambda s: operator_norm(s.Phi) <= 1 + 1e-12,
}


def systems(
    extra: Mapping[str, rc.Field] | None = None, sizes: Mapping[str, tuple[int, int]] | None = None
) -> rc.Space:
    """Finite systems under the paper's standing assumptions, with further fields if given."""
    fields = {**SYSTEM, **(extra or {})}
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        repair=standing,
        view=FiniteStack,
        assumes=ASSUMES,
        batched=True,
        meaning=meaning(fields),
    )


SYSTEMS = systems()
