"""CAGrad with two objectives: its direction is the best one, and the mean loss converges for c < 1.

Both hold. The sum of Theorem 3.2 is attained for every c, in the limit of many steps: by gradients
that agree, where d = (1 + c) g_0 and a step 1 / H goes too far. Without 1 - c^2 it is refuted.
The figure has that sum for tasks that agree and for two that do not.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "cagrad",
    "CAGrad",
    "Liu et al.: Conflict-Averse Gradient Descent for Multi-task Learning (arXiv 2110.14048v2)",
)


def hessians(i: Any) -> Any:
    """Of L_j(x) = (x - b_j)'A_j (x - b_j) / 2 with A_j = C_j C_j'."""
    return i.C @ i.C.mT


PAIRS = rc.Space(
    fields={
        "C": rc.contraction(2, "d", "d"),
        "b": rc.reals(2, "d"),
        "x": rc.reals("d"),
        "v": rc.ball("d"),  # of another direction
        "c": rc.interval(low=0.0, high=0.95),
        "share": rc.interval(low=0.1, high=1.0),  # of the longest step, 1 / H
        "T": rc.whole_numbers(low=0, high=8),
    },
    sizes={"d": (1, 3)},
    given={"one minimiser": lambda i: rc.linalg.lambda_min(hessians(i).mean(axis=0)) > 0.001},
)


def weight(g: Any, c: Any) -> Any:
    """Of g_1 in the mixture g_w that minimises g_w'g_0 + c ||g_0|| ||g_w||."""
    g0, gap = g.mean(axis=0), g[0] - g[1]
    slope, s, a = gap @ g0, c * rc.linalg.norm(g0), rc.linalg.squared(gap)
    a = np.where(a > 0, a, 1)  # for equal gradients any weight will do
    middle = gap @ g[1] / a
    rest = np.maximum(rc.linalg.squared(g[1]) - a * middle**2, 0)  # ||g_w||^2 - a (w + middle)^2
    discriminant = s**2 * a - slope**2
    inside = -slope * np.sqrt(rest / (a * np.where(discriminant > 0, discriminant, 1))) - middle
    w = np.where(discriminant > 0, inside, np.where(slope > 0, 0, 1))
    return np.minimum(np.maximum(w, 0), 1)


def direction(g: Any, c: Any) -> Any:
    """d of Algorithm 1; g_0 where g_w = 0."""
    g0, w = g.mean(axis=0), weight(g, c)
    mixed = g[1] + w * (g[0] - g[1])
    length = rc.linalg.norm(mixed)
    return g0 + c * rc.linalg.norm(g0) / np.where(length > 0, length, 1) * mixed


@PAPER.upper("direction", ref="equation (1) and Algorithm 1", on=PAIRS)
def best_direction(i: Any) -> rc.Sides:
    """Of all d' with ||d' - g_0|| <= c ||g_0||, d has the largest min_i g_i'd'."""
    g = rc.linalg.apply(hessians(i), i.x - i.b)
    g0 = g.mean(axis=0)
    other = g0 + i.c * rc.linalg.norm(g0) * i.v
    return (g @ other).min(), (g @ direction(g, i.c)).min()


@PAPER.upper("theorem_3_2", ref="Theorem 3.2, 2)", on=PAIRS)
def theorem_3_2(i: Any, power: int = 1) -> rc.Sides:
    """For 0 <= c < 1 and steps alpha <= 1 / H the sum of ||grad L_0(x_t)||^2 over t = 0 .. T is at
    most 2 (L_0(x_0) - min L_0) / (alpha (1 - c^2)).
    """
    A, mean = hessians(i), hessians(i).mean(axis=0)
    gap = i.x - rc.linalg.solve(mean, rc.linalg.apply(A, i.b).mean(axis=0))
    step, x, total = i.share / rc.linalg.lambda_max(A).max(), i.x, 0 * gap[0]
    for _ in range(int(i.T) + 1):
        g = rc.linalg.apply(A, x - i.b)
        total = total + rc.linalg.squared(g.mean(axis=0))
        x = x - step * direction(g, i.c)
    return total, gap @ mean @ gap / (step * (1 - i.c**2) ** power)


theorem_3_2.changed(
    "theorem_3_2_without_c",
    {"power": 0},
    text="Theorem 3.2 without the factor 1 - c^2.",
    note="Where gradients agree d = (1 + c) g_0, and a step 1 / H overshoots by c times the gap.",
)

SHARE = 1.0  # of the bound, in the figure


class SumConfig(rc.Config):
    """How far d may be from g_0, and how many steps are made."""

    c: tuple[float, ...] = rc.param((0.2, 0.5, 0.9), low=0, below=1, increasing=True, doc="c.")
    T: int = rc.param(60, low=4, doc="steps.")


def compute(config: SumConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("tasks"))
    C, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    if block["tasks"] == "alike":
        C, b = np.array([np.eye(3)] * 2), np.array([b[0]] * 2)
    one = {"C": C, "b": b, "x": np.zeros(3), "c": block["c"], "share": 1.0}
    times = range(config.T + 1)
    total, bound = np.transpose([theorem_3_2(SimpleNamespace(**one, T=T)) for T in times])
    return {"T": times, "total": total, "bound": bound}


def analyse(config: SumConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for tasks in ("alike", "drawn"):
        for c in config.c:
            part = table.where(tasks=tasks, c=c)
            bound = SHARE * part["bound"]
            series.append(rc.Series(f"c = {c:g}", tasks, part["T"], part["total"]))
            series.append(rc.Series("theory", tasks, part["T"], bound))
            ratio = rc.exact((part["total"] / bound).max())
            rounding = 1 + 1e-12  # tasks that are alike attain the bound
            checks.append(rc.at_most(f"{tasks}, c = {c:g}: / bound", "at most 1", ratio, rounding))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="cagrad/sums",
    title="CAGrad: squared gradients of the mean loss",
    source="Liu et al., Theorem 3.2",
    profiles={"quick": SumConfig(), "paper": SumConfig(c=(0.1, 0.2, 0.5, 0.8, 0.9, 0.95), T=300)},
    blocks=rc.Grid({"tasks": ("alike", "drawn"), "c": "c"}),
    compute=compute,
    analyse=analyse,
    panels=rc.Panel(x="steps $T$", y=r"$\sum_{t\leq T}||\nabla L_0(x_t)||^2$"),
)
