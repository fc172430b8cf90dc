"""The sum of Theorem 3.2 over the steps of CAGrad, for tasks that agree and for two that do not."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import theorem_3_2

import ratecheck as rc

SHARE = 1.0  # of the bound


@dataclass(frozen=True, kw_only=True)
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
    kind="figure",
    profiles={"quick": SumConfig(), "paper": SumConfig(c=(0.1, 0.2, 0.5, 0.8, 0.9, 0.95), T=300)},
    blocks=rc.Grid({"tasks": ("alike", "drawn"), "c": "c"}),
    compute=compute,
    analyse=analyse,
    panels={
        name: rc.Panel(x="steps $T$", y=r"$\sum_{t\leq T}||\nabla L_0(x_t)||^2$")
        for name in ("alike", "drawn")
    },
)
