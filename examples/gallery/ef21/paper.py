"""EF21 with Top-1 on quadratics: Theorems 1 and 2, and the lemma behind both.

All three hold. Theorem 1 is attained at T = 1 without compression, Theorem 2 where its rate goes to
zero, and the lemma is off by a factor of 1.6. A rate three times that of Theorem 2 is refuted.
The figure has a run beside Theorem 2, and what the same compressor does without error feedback.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("ef21", "EF21", "Richtarik, Sokolov, Fatkhullin: EF21 (arXiv 2106.05203)")
NODES = rc.Space(
    fields={  # f_i(x) = x'A_i x / 2 - b_i'x with A_i = C_i C_i' + mu I, 0 <= C_i C_i' <= I
        "C": rc.contraction("n", "d", "d"),
        "mu": rc.positive(low=0.01, high=1.0),
        "b": rc.reals("n", "d"),
        "x": rc.reals("d"),
        "share": rc.interval(low=0.1, high=1.0),  # of the longest step allowed
        "T": rc.whole_numbers(low=1, high=8),
    },
    sizes={"n": (1, 3), "d": (1, 3)},
)


def top1(v: Any) -> Any:
    """The largest entry of every row; it leaves at most 1 - 1/d of the squared length."""
    size = np.abs(v)
    return np.where(np.arange(v.shape[-1]) == size.argmax(axis=-1)[..., None], v, 0 * v)


class Run:
    """EF21 from g_i = Top-1(grad f_i(x^0)), at t = 0 .. T, and the constants of the theorems.

    The longest step is that of Theorem 1, or that of Theorem 2 with ``doubled`` = 2.
    """

    def __init__(self, i: Any, doubled: int, feedback: bool = True) -> None:
        d = i.C.shape[-1]
        f = rc.Quadratics(i.C @ i.C.mT + i.mu * np.eye(d), b=i.b)
        rest = (d - 1 + 0 * i.mu) / d  # 1 - alpha
        self.theta, self.mu = 1 - np.sqrt(rest), f.mu
        self.beta = rest / self.theta
        self.L_tilde = np.sqrt((rc.linalg.lambda_max(f.A) ** 2).mean())
        longest = 1 / (f.L + self.L_tilde * np.sqrt(doubled * self.beta / self.theta))
        if doubled == 2:
            longest = np.minimum(longest, self.theta / (2 * f.mu))
        self.step, x, g, states = i.share * longest, i.x, 0 * i.b, []
        for _ in range(int(i.T) + 1):
            gradients = f.gradients(x)
            g = g + top1(gradients - g) if feedback else top1(gradients)
            states.append((x, g, gradients))
            x = x - self.step * g.mean(axis=0)
        self.x, g, gradients = (np.array(one) for one in zip(*states, strict=True))
        self.norms = rc.linalg.squared(gradients.mean(axis=1))  # ||grad f(x^t)||^2
        self.excess = f.excess(self.x)  # f(x^t) - f_*
        self.G = rc.linalg.squared(g - gradients).mean(axis=-1)
        self.Psi = self.excess + self.step / self.theta * self.G


@PAPER.upper("theorem_1", ref="Theorem 1", on=NODES)
def theorem_1(i: Any) -> rc.Sides:
    """For steps up to 1 / (L + L~ sqrt(beta / theta)) the average of ||grad f||^2 over t < T is
    at most 2 (f(x^0) - f_inf) / (gamma T) + G^0 / (theta T).
    """
    run = Run(i, 1)
    bound = 2 * run.excess[0] / (run.step * i.T) + run.G[0] / (run.theta * i.T)
    return run.norms[:-1].mean(), bound


@PAPER.upper("lemma", ref="Lemma 2, with smoothness", on=NODES)
def lemma(i: Any) -> rc.Sides:
    """G^{t+1} <= (1 - theta) G^t + beta L~^2 ||x^{t+1} - x^t||^2."""
    run = Run(i, 1)
    moved = rc.linalg.squared(run.x[-1] - run.x[-2])
    return run.G[-1], (1 - run.theta) * run.G[-2] + run.beta * run.L_tilde**2 * moved


@PAPER.upper("theorem_2", ref="Theorem 2", on=NODES)
def theorem_2(i: Any, power: int = 1) -> rc.Sides:
    """For steps up to 1 / (L + L~ sqrt(2 beta / theta)) and theta / (2 mu) Psi = f(x) - f_* +
    gamma / theta G falls by (1 - gamma mu)^T in T steps.
    """
    run = Run(i, 2)
    return run.Psi[-1], (1 - run.step * run.mu) ** (power * int(i.T)) * run.Psi[0]


theorem_2.changed(
    "theorem_2_threefold",
    {"power": 3},
    text="Theorem 2 with (1 - gamma mu)^(3 T).",
    note="In one dimension Top-1 is the identity and f - f_* falls by (1 - gamma mu)^2 in a step.",
)

POWER = 1  # of the rate 1 - gamma mu


class StepsConfig(rc.Config):
    """Nodes, dimension and steps."""

    nodes: int = rc.param(5, low=2, doc="n.")
    d: int = rc.param(4, low=2, doc="dimension, of which one entry is sent.")
    T: int = rc.param(800, low=100, doc="steps.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("nodes"))
    C = rng.normal(size=(config.nodes, config.d, config.d))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    b, x = rng.normal(size=(config.nodes, config.d)), np.zeros(config.d)
    i = SimpleNamespace(C=C, mu=0.2, b=b, x=x, share=1.0, T=config.T)
    run = Run(i, 2, feedback=block["method"] == "EF21")
    columns = {"t": range(config.T + 1), "excess": run.excess}
    return {**columns, "Psi": run.Psi[0], "rate": run.step * run.mu}


def analyse(config: StepsConfig, table: rc.Table) -> rc.Analysis:
    series, left = [], {}
    for method in ("EF21", "no feedback"):
        part = table.where(method=method)
        series.append(rc.Series(method, "excess", part["t"], part["excess"]))
        left[method] = rc.exact(part["excess"][-1] / part["excess"][0])
    bound = part["Psi"] * (1 - part["rate"]) ** (POWER * part["t"])
    series.append(rc.Series("theory", "excess", part["t"], bound))
    ratio = rc.exact((table.where(method="EF21")["excess"] / bound).max())
    checks = [
        rc.at_most("EF21 / Theorem 2", "at most 1", ratio, 1),
        rc.above("left without feedback", "more", left["no feedback"], left["EF21"].value),
    ]
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="ef21/steps",
    title="EF21 over its steps",
    source="Richtarik et al., Theorem 2",
    profiles={"quick": StepsConfig(), "paper": StepsConfig(nodes=20, d=20, T=20_000)},
    blocks=rc.Grid({"method": ("EF21", "no feedback")}),
    compute=compute,
    analyse=analyse,
    panels={"excess": rc.Panel(x="steps $t$", y=r"$f(x^t)-f_*$", log="y")},
)
