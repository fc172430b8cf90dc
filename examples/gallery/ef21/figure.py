"""EF21 beside Theorem 2, and what the same compressor does without error feedback."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Run, top1

import ratecheck as rc

POWER = 1  # of the rate 1 - gamma mu


@dataclass(frozen=True, kw_only=True)
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
    run = Run(SimpleNamespace(C=C, mu=0.2, b=b, x=x, share=1.0, T=config.T), 2)
    t = range(config.T + 1)
    Psi = run.excess(0) + run.step / run.theta * run.G(0)
    bound = Psi * (1 - run.step * run.mu) ** np.arange(config.T + 1)
    if block["method"] == "no feedback":
        for k in t:
            run.states[k] = (x, None)
            x = x - run.step * top1(run.gradients(x)).mean(axis=0)
    return {"t": t, "excess": [run.excess(k) for k in t], "bound": bound}


def analyse(config: StepsConfig, table: rc.Table) -> rc.Analysis:
    series, left = [], {}
    for method in ("EF21", "no feedback"):
        part = table.where(method=method)
        series.append(rc.Series(method, "excess", part["t"], part["excess"]))
        left[method] = rc.exact(part["excess"][-1] / part["excess"][0])
    bound = part["bound"][0] * (part["bound"] / part["bound"][0]) ** POWER
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
    kind="figure",
    profiles={"quick": StepsConfig(), "paper": StepsConfig(nodes=20, d=20, T=20_000)},
    blocks=rc.Grid({"method": ("EF21", "no feedback")}),
    compute=compute,
    analyse=analyse,
    panels={"excess": rc.Panel(x="steps $t$", y=r"$f(x^t)-f_*$", log="y")},
)
