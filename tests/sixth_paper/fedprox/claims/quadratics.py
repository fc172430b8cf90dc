"""FedProx on quadratics whose Hessians are at least I."""

from typing import Any

import numpy as np

import ratecheck as rc
from fedprox.paper import PAPER
from linsys.linalg import norm, solve, transpose

FIELDS = {
    "C": rc.contraction("n", "d", "d"),  # device i has the Hessian A^i = I + C^i C^i'
    "b": rc.ball("n", "d"),
    "w": rc.ball("d"),
    "v": rc.ball("d"),
    "mu": rc.positive(low=0.1, high=10.0),
}
QUADRATICS = rc.Space(fields=FIELDS, sizes={"n": (1, 3), "d": (1, 2)})
ALIKE = rc.Space(fields={**FIELDS, "C": rc.contraction("d", "d")}, sizes=QUADRATICS.sizes)


def hessians(C: Any) -> Any:
    return np.eye(C.shape[-1], dtype=int) + C @ transpose(C)


def proximal(A: Any, b: Any, w: Any, mu: Any) -> Any:
    """Where every device's steps end: the minimiser of f_i(x) + (mu/2) ||x - w||^2."""
    return solve(A + mu * np.eye(A.shape[-1], dtype=int), b + mu * w)


@PAPER.upper(
    "contraction",
    ref="Section 3.2: the proximal map",
    tex=r"\|P_i(w)-P_i(v)\|\le\frac\mu{1+\mu}\|w-v\|",
    on=QUADRATICS,
    derivation="P_i(w) - P_i(v) = mu (A^i + mu I)^{-1} (w - v), and A^i >= I.",
)
def contraction(C: Any, b: Any, w: Any, v: Any, mu: Any) -> rc.Sides:
    """Minimisers from two global models are nearer to each other by mu / (1 + mu)."""
    A = hessians(C)
    return norm(proximal(A, b, w, mu) - proximal(A, b, v, mu)), mu / (1 + mu) * norm(w - v)


@PAPER.upper(
    "fixed_point",
    ref="Section 3.2: what the rounds converge to",
    on=QUADRATICS,
    expect="violated",
    note="The mean of (A^i + mu I)^{-1} (b^i - A^i w) weights devices by their Hessians.",
    corrected="fixed_point_corrected",
)
def fixed_point(C: Any, b: Any, mu: Any) -> rc.Sides:
    """The minimiser of the mean loss stays where it is in a round."""
    A = hessians(C)
    best = solve(A.mean(axis=0), b.mean(axis=0))
    return norm(proximal(A, b, best, mu).mean(axis=0) - best), 0 * mu


@PAPER.identity(
    "fixed_point_corrected",
    ref="Section 3.2: what the rounds converge to, for equal Hessians",
    on=ALIKE,
    derivation="(A + mu I)^{-1} then comes out of the mean, and mean b = A w.",
)
def fixed_point_corrected(C: Any, b: Any, mu: Any) -> rc.Sides:
    """The minimiser of the mean loss stays where it is if all devices have one Hessian."""
    A = hessians(C)
    best = solve(A, b.mean(axis=0))
    return proximal(A, b, best, mu).mean(axis=0), best
