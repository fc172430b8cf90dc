"""CAGrad with two objectives: its direction is the best one, and the mean loss converges for c < 1.

Both hold. The sum of Theorem 3.2 is attained for every c, in the limit of many steps: by gradients
that agree, where d = (1 + c) g_0 and a step 1 / H goes too far. Without 1 - c^2 it is refuted.
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "cagrad",
    "CAGrad",
    "Liu et al.: Conflict-Averse Gradient Descent for Multi-task Learning (arXiv 2110.14048v2)",
)
PAIRS = rc.Space(
    fields={  # L_i(x) = (x - b_i)'A_i (x - b_i) / 2 with A_i = C_i C_i'
        "C": rc.contraction(2, "d", "d"),
        "b": rc.reals(2, "d"),
        "x": rc.reals("d"),
        "v": rc.ball("d"),  # of another direction
        "c": rc.interval(low=0.0, high=0.95),
        "share": rc.interval(low=0.1, high=1.0),  # of the longest step, 1 / H
        "T": rc.whole_numbers(low=0, high=8),
    },
    sizes={"d": (1, 3)},
    given={
        "one minimiser": lambda i: (
            rc.linalg.lambda_min((i.C @ rc.linalg.transpose(i.C)).mean(axis=0)) > 0.001
        )
    },
)


def weight(g: Any, c: Any) -> Any:
    """Of g_1 in the mixture g_w that minimises g_w'g_0 + c ||g_0|| ||g_w||."""
    g0, gap = g.mean(axis=0), g[0] - g[1]
    a, slope, s = rc.linalg.squared(gap), gap @ g0, c * rc.linalg.norm(g0)
    flat = a == 0
    a = np.where(flat, 1, a)
    middle = gap @ g[1] / a
    rest = np.maximum(
        rc.linalg.squared(g[1]) - a * middle**2, 0
    )  # ||g_w||^2 = a (w + middle)^2 + rest
    discriminant = s**2 * a - slope**2
    inside = -slope * np.sqrt(rest / (a * np.where(discriminant > 0, discriminant, 1))) - middle
    edge = np.where(slope > 0, 0, 1)
    return np.where(
        flat, 0 * a, np.minimum(np.maximum(np.where(discriminant > 0, inside, edge), 0), 1)
    )


def direction(g: Any, c: Any) -> Any:
    """d of Algorithm 1; g_0 where g_w = 0."""
    g0, w = g.mean(axis=0), weight(g, c)
    mixed = g[1] + w * (g[0] - g[1])
    length = rc.linalg.norm(mixed)
    return g0 + c * rc.linalg.norm(g0) / np.where(length > 0, length, 1) * mixed


def losses(i: Any) -> Any:
    """The Hessians, and the gradients at a point."""
    A = i.C @ rc.linalg.transpose(i.C)
    return A, lambda x: rc.linalg.apply(A, x - i.b)


@PAPER.upper("direction", ref="equation (1) and Algorithm 1", on=PAIRS)
def best_direction(i: Any) -> rc.Sides:
    """Of all d' with ||d' - g_0|| <= c ||g_0||, d has the largest min_i g_i'd'."""
    _, gradients = losses(i)
    g = gradients(i.x)
    g0 = g.mean(axis=0)
    other = g0 + i.c * rc.linalg.norm(g0) * i.v
    return (g @ other).min(), (g @ direction(g, i.c)).min()


@PAPER.upper("theorem_3_2", ref="Theorem 3.2, 2)", on=PAIRS)
def theorem_3_2(i: Any, factor: Any = None) -> rc.Sides:
    """For 0 <= c < 1 and steps alpha <= 1 / H the sum of ||grad L_0(x_t)||^2 over t = 0 .. T is at
    most 2 (L_0(x_0) - min L_0) / (alpha (1 - c^2)).
    """
    A, gradients = losses(i)
    mean = A.mean(axis=0)
    gap = i.x - rc.linalg.solve(mean, rc.linalg.apply(A, i.b).mean(axis=0))
    step, x, total = i.share / rc.linalg.lambda_max(A).max(), i.x, 0 * gap[0]
    for _ in range(int(i.T) + 1):
        g = gradients(x)
        total = total + rc.linalg.squared(g.mean(axis=0))
        x = x - step * direction(g, i.c)
    return total, gap @ mean @ gap / (step * (1 - i.c**2 if factor is None else factor))


@PAPER.upper(
    "theorem_3_2_without_c",
    ref="Theorem 3.2, 2) with a wrong constant",
    on=PAIRS,
    expect="violated",
    printed_as="ours",
    note="Where gradients agree d = (1 + c) g_0, and a step 1 / H overshoots by c times the gap.",
    corrected="theorem_3_2",
)
def theorem_3_2_without_c(i: Any) -> rc.Sides:
    """Theorem 3.2 without the factor 1 - c^2."""
    return theorem_3_2(i, factor=1)
