"""How much a round of FedProx lowers the loss, beside rho of Theorem 4, over mu."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Round

import ratecheck as rc

SHARE = 1.0  # of rho


@dataclass(frozen=True, kw_only=True)
class MuConfig(rc.Config):
    """Devices in all and in a round, and penalties."""

    devices: int = rc.param(50, low=2, doc="to draw from.")
    K: tuple[int, ...] = rc.param((4, 20, 200), low=3, increasing=True, doc="drawn in a round.")
    points: int = rc.param(25, low=5, doc="values of mu from 0.1 to 10000.")


def compute(config: MuConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("devices"))
    C = rng.normal(size=(config.devices, 3, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    one = {"p": np.full(config.devices, 1 / config.devices), "C": C, "w": np.ones(3)}
    one["b"] = 0.1 * rng.normal(size=(config.devices, 3))
    mu = np.geomspace(0.1, 1e4, config.points)
    rounds = [Round(SimpleNamespace(**one, K=float(block["K"]), mu=value)) for value in mu]
    decrease = [round.decrease / round.squared for round in rounds]
    return {"mu": mu, "decrease": decrease, "rho": [round.rho for round in rounds]}


def analyse(config: MuConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for K in config.K:
        part = table.where(K=K)
        mu, decrease, stated = part["mu"], part["decrease"], SHARE * part["rho"]
        series.append(rc.Series(f"K = {K}", "decrease", mu, decrease))
        says = stated > 0
        if says.any():
            series.append(rc.Series("theory", "decrease", mu[says], stated[says]))
        ratio = rc.exact((stated / decrease).max())
        checks.append(rc.at_most(f"K = {K}: rho / decrease", "at most 1", ratio, 1))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="fedprox/mu",
    title="FedProx: a round's decrease",
    source="Li et al., Theorem 4",
    kind="figure",
    profiles={"quick": MuConfig(), "paper": MuConfig(devices=1000, points=100)},
    blocks=rc.Grid({"K": "K"}),
    compute=compute,
    analyse=analyse,
    panels={
        "decrease": rc.Panel(x=r"$\mu$", y=r"$(f(w)-E\,f(w^+))\,/\,||\nabla f(w)||^2$", log="xy")
    },
)
