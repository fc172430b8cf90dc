"""Projected SGD on strongly convex functions: 1/T for the last iterate and for averages.

Expectations are exact, over all sequences of up to five samples. All three bounds hold; Lemma 1 of
Rakhlin et al. is loose by a factor of 3.2, the weighted average of Lacoste-Julien et al. by 2, and
the 17 of Shamir and Zhang by 34. The wrong constant 1/2 in the place of Lemma 1's 4 is refuted.
The figure has runs beside the bounds of Lemma 1 and of the weighted average.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("sgd", "SGD", "arXiv 1109.5647 (Lemma 1), 1212.2002 and 1212.1824 (Theorem 1)")
SAMPLES = rc.Space(
    fields={  # sample s, of probability p_s, has the gradient h_s w + b_s at w in W = [-1, 1]
        "p": rc.simplex("S"),
        "h": rc.interval("S", high=2.0),
        "b": rc.reals("S"),
        "start": rc.interval(low=-1.0, high=1.0),
        "T": rc.whole_numbers(low=1, high=6),
    },
    sizes={"S": (2, 3)},
    given={"strongly convex": lambda i: i.p @ i.h > 0.001},
)


class Run:
    """All T-step runs of w <- P_W(w - step g): the last w, the mean with weights t, their laws."""

    def __init__(self, i: Any, step: Callable[[Any, int], Any]) -> None:
        self.i, self.strength = i, i.p @ i.h
        self.best = clipped(-(i.p @ i.b) / self.strength)
        self.G2 = max(i.p @ (i.h + i.b) ** 2, i.p @ (i.h - i.b) ** 2)  # of E g^2 over W
        w, self.law = i.start * np.ones(1), np.ones(1)
        total = 0 * w
        for t in range(1, int(i.T)):
            total = np.tile(total + t * w, len(i.p))
            w = clipped(w - step(self.strength, t) * (np.multiply.outer(i.h, w) + i.b[:, None]))
            w, self.law = w.reshape(-1), np.multiply.outer(i.p, self.law).reshape(-1)
        self.last, self.average = w, 2 * (total + i.T * w) / (i.T * (i.T + 1))

    def distance(self, w: Any) -> Any:
        """E (w - w_*)^2."""
        return self.law @ (w - self.best) ** 2

    def excess(self, w: Any) -> Any:
        """E F(w) - F(w_*)."""
        slope = self.strength * self.best + self.i.p @ self.i.b
        return self.strength * self.distance(w) / 2 + slope * (self.law @ (w - self.best))


def clipped(w: Any) -> Any:
    """The projection on W = [-1, 1]."""
    return np.minimum(np.maximum(w, -1), 1)


@PAPER.upper("lemma_1", ref="Rakhlin et al., Lemma 1", on=SAMPLES)
def lemma_1(i: Any, constant: int = 4) -> rc.Sides:
    """For steps 1 / (lambda t), E||w_T - w_*||^2 <= 4 G^2 / (lambda^2 T)."""
    run = Run(i, lambda strength, t: 1 / (strength * t))
    return run.distance(run.last), constant * run.G2 / (run.strength**2 * i.T)


@PAPER.upper("weighted_average", ref="Lacoste-Julien et al., Section 3", on=SAMPLES)
def weighted_average(i: Any) -> rc.Sides:
    """For steps 2 / (mu (t + 1)) the mean of w_1 .. w_T with weights t has E f - f_* <= 2 B^2 /
    (mu (T + 1)).
    """
    run = Run(i, lambda strength, t: 2 / (strength * (t + 1)))
    return run.excess(run.average), 2 * run.G2 / (run.strength * (i.T + 1))


@PAPER.upper("last_iterate", ref="Shamir and Zhang, Theorem 1", on=SAMPLES)
def last_iterate(i: Any) -> rc.Sides:
    """For steps 1 / (lambda t), E F(w_T) - F(w_*) <= 17 G^2 (1 + log T) / (lambda T)."""
    run = Run(i, lambda strength, t: 1 / (strength * t))
    return run.excess(run.last), 17 * run.G2 * (1 + np.log(i.T)) / (run.strength * i.T)


lemma_1.changed(
    "lemma_1_small",
    {"constant": 0.5},
    text="Lemma 1 with 1/2 in the place of 4.",
    note="At T = 1 the distance of w_1 = 1 from w_* = 0 is G / lambda if all samples are alike.",
)

STATED = -1.0  # the exponent of T in both
PANELS = {
    "last iterate": rc.Panel(x="$T$", y=r"$E(w_T-w_*)^2$", log="xy", slope=STATED),
    "weighted average": rc.Panel(x="$T$", y=r"$E\,F(\bar w_T)-F_*$", log="xy", slope=STATED),
}


class SGDConfig(rc.Config):
    """How many runs, and how long they are."""

    replicates: int = rc.param(400, low=rc.MIN_REPLICATES, doc="independent runs.")
    T: int = rc.param(4000, low=200, doc="steps of a run.")
    strength: float = rc.param(1.0, above=0, doc="lambda, or mu.")


def compute(config: SGDConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("samples", block["panel"]))
    averaged, strength = block["panel"] == "weighted average", config.strength
    times = np.unique(np.geomspace(10, config.T, 16).astype(int))
    w, total, values = np.ones(config.replicates), np.zeros(config.replicates), []
    for t in range(1, config.T + 1):  # F(w) = lambda w^2 / 2, so that w_* = 0
        total += t * w
        if t in times:
            mean = 2 * total / (t * (t + 1))
            values.append(strength * mean**2 / 2 if averaged else w**2)
        step = 2 / (strength * (t + 1)) if averaged else 1 / (strength * t)
        w = clipped(w - step * (strength * w + rng.normal(size=w.size)))
    G2 = strength**2 + 1  # E g^2 at w = 1 and at w = -1
    bound = 2 * G2 / (strength * (times + 1)) if averaged else 4 * G2 / (strength**2 * times)
    axes = {"replicate": np.arange(config.replicates), "T": times}
    return rc.long_table(axes, error=np.transpose(values), bound=np.tile(bound, (w.size, 1)))


def analyse(config: SGDConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for panel in PANELS:
        part = table.where(panel=panel)
        T, error, bound = part.unique("T"), part.grid("error", "replicate", "T"), part["bound"]
        series.append(rc.Series("SGD", panel, T, *rc.mean_band(error, log=True)))
        series.append(rc.Series("theory", panel, T, bound[: T.size]))
        late = T > 50  # the projection is still felt before
        slope = rc.slope_interval(T[late], error[:, late], rng=config.seed, level=0.99)
        checks.append(rc.rate_check(f"{panel}: exponent of T", STATED, slope, tolerance=0.02))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="sgd/rates",
    title="SGD on a strongly convex function",
    source="Rakhlin et al., Lemma 1; Lacoste-Julien et al., Section 3",
    variable="t",
    profiles={"quick": SGDConfig(), "paper": SGDConfig(replicates=2000, T=50_000)},
    blocks=rc.Grid({"panel": tuple(PANELS)}),
    compute=compute,
    analyse=analyse,
    panels=PANELS,
)
