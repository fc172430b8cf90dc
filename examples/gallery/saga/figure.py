"""SAGA over its steps beside Corollary 1, and SGD with the same step."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Sum, start

import ratecheck as rc

SHARE = 1.0  # of the stated rate mu / (2 (mu n + L))


@dataclass(frozen=True, kw_only=True)
class StepsConfig(rc.Config):
    """A sum, and runs on it."""

    n: int = rc.param(10, low=2, doc="functions.")
    mu: float = rc.param(0.1, above=0, below=1, doc="strong convexity; L = 1.")
    k: int = rc.param(400, low=50, doc="steps.")
    replicates: int = rc.param(100, low=rc.MIN_REPLICATES, doc="runs.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng, n, d = np.random.default_rng(config.derive("functions")), config.n, 3
    C = rng.normal(size=(n, d, d))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    i = SimpleNamespace(C=C, c=rng.normal(size=(n, d)), mu=config.mu, x=np.zeros(d))
    i.phi, s, gamma = np.zeros((n, d)), Sum(i), 1 / (2 * (config.mu * n + 1))
    rng = np.random.default_rng(config.derive("runs", block["method"]))
    x, runs = np.zeros((config.replicates, d)), np.arange(config.replicates)
    table, distance = s.gradients(np.zeros((config.replicates, n, d))), []
    for _ in range(config.k):
        distance.append(((x - s.best) ** 2).sum(axis=1))
        j = rng.integers(n, size=config.replicates)
        new = s.gradients(np.repeat(x[:, None], n, axis=1))[runs, j]
        corrected = new - table[runs, j] + table.mean(axis=1)
        table[runs, j] = new
        x = x - gamma * (corrected if block["method"] == "SAGA" else new)
    axes = {"replicate": runs, "k": np.arange(config.k)}
    columns = rc.long_table(axes, distance=np.transpose(distance))
    return {**columns, "start": start(s, i, 2 * n * gamma), "rate": gamma * config.mu}


def analyse(config: StepsConfig, table: rc.Table) -> rc.Analysis:
    series = []
    for method in ("SAGA", "SGD"):
        part = table.where(method=method)
        k, grid = part.unique("k"), part.grid("distance", "replicate", "k")
        series.append(rc.Series(method, "distance", k, *rc.mean_band(grid, log=True)))
        if method == "SAGA":  # of every run, minus the slope of its logarithm
            rate = rc.mean_interval(-np.log(grid[:, -1] / grid[:, 0]) / k[-1])
    stated = SHARE * part["rate"][0]
    series.append(rc.Series("theory", "distance", k, part["start"][0] * (1 - stated) ** k))
    least = -np.log(1 - stated)
    return rc.Analysis(series, [rc.at_least("SAGA: rate", f"at least {least:.4g}", rate, least)])


EXPERIMENT = rc.Experiment(
    id="saga/steps",
    title="SAGA and SGD over steps",
    source="Defazio et al., Corollary 1",
    kind="figure",
    profiles={"quick": StepsConfig(), "paper": StepsConfig(n=100, mu=0.01, k=8000)},
    blocks=rc.Grid({"method": ("SAGA", "SGD")}),
    compute=compute,
    analyse=analyse,
    panels={"distance": rc.Panel(x="steps $k$", y=r"$E||x^k-x_*||^2$", log="y")},
)
