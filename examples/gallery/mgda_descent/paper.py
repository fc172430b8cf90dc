"""MGDA: the shortest vector in the hull of two gradients is a direction of descent for both.

Desideri's inequality holds and is attained; the descent by a step 1 / L that follows from it, and
the rate that follows from that, are attained as well. A descent twice as large is refuted.
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "mgda_descent",
    "MGDA",
    "Desideri: Multiple-gradient descent algorithm (MGDA) for multiobjective optimization (2012); "
    "Fliege, Vaz, Vicente: Complexity of gradient descent for multiobjective optimization (2019)",
)
PAIRS = rc.Space(
    fields={  # f_j(x) = (x - c_j)'A_j (x - c_j) / 2 with A_j = C_j C_j'
        "C": rc.contraction(2, "d", "d"),
        "c": rc.reals(2, "d"),
        "x": rc.reals("d"),
        "T": rc.whole_numbers(low=1, high=8),
    },
    sizes={"d": (1, 3)},
    given={
        "some curvature": lambda i: (
            rc.linalg.lambda_max(i.C @ rc.linalg.transpose(i.C)).max() > 0.001
        )
    },
)


class Pair:
    """Two objectives, and the direction of MGDA."""

    def __init__(self, i: Any) -> None:
        self.A, self.c = i.C @ rc.linalg.transpose(i.C), i.c
        self.L = rc.linalg.lambda_max(self.A).max()

    def values(self, x: Any) -> Any:
        """f_1 and f_2; both are zero at best."""
        return ((x - self.c) * rc.linalg.apply(self.A, x - self.c)).sum(axis=-1) / 2

    def direction(self, x: Any) -> tuple[Any, Any]:
        """The gradients u_j, and omega, the shortest vector between them."""
        u = rc.linalg.apply(self.A, x - self.c)
        between = rc.linalg.squared(u[0] - u[1])
        share = (u[1] - u[0]) @ u[1] / np.where(between > 0, between, 1)
        share = np.minimum(np.maximum(share, 0), 1)
        return u, u[1] + share * (u[0] - u[1])


@PAPER.lower("inequality", ref="Desideri, Theorem 2.2", on=PAIRS)
def inequality(i: Any) -> rc.Sides:
    """(u_j, omega) >= ||omega||^2 for every gradient u_j."""
    u, omega = Pair(i).direction(i.x)
    return u @ omega, rc.linalg.squared(omega)


@PAPER.lower(
    "descent",
    ref="Fliege et al., Section 3: a step of gradient descent",
    on=PAIRS,
    derivation="L-smoothness and (u_j, omega) >= ||omega||^2.",
)
def descent(i: Any, factor: int = 1) -> rc.Sides:
    """A step 1 / L along omega lowers every objective by ||omega||^2 / (2 L) at least."""
    pair = Pair(i)
    _, omega = pair.direction(i.x)
    lowered = pair.values(i.x) - pair.values(i.x - omega / pair.L)
    return lowered, factor * rc.linalg.squared(omega) / (2 * pair.L)


@PAPER.upper(
    "rate",
    ref="Fliege et al., Theorem 3.1, for the step 1 / L",
    on=PAIRS,
    derivation="The sum of the descents of T steps is at most f_j(x_0) - min f_j.",
)
def rate(i: Any) -> rc.Sides:
    """The smallest ||omega||^2 of T steps is at most 2 L (f_j(x_0) - min f_j) / T, for every j."""
    pair, x, lengths = Pair(i), i.x, []
    for _ in range(int(i.T)):
        _, omega = pair.direction(x)
        lengths.append(rc.linalg.squared(omega))
        x = x - omega / pair.L
    return min(lengths), 2 * pair.L * pair.values(i.x) / i.T


@PAPER.lower(
    "descent_twice",
    ref="Fliege et al., Section 3, with a wrong constant",
    on=PAIRS,
    expect="violated",
    printed_as="ours",
    note="Where both objectives are L x^2 / 2 a step 1 / L lowers them by ||omega||^2 / (2 L).",
    corrected="descent",
)
def descent_twice(i: Any) -> rc.Sides:
    """A step 1 / L along omega lowers every objective by ||omega||^2 / L at least."""
    return descent(i, factor=2)
