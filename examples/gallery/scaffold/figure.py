"""Rounds of SCAFFOLD and of FedAvg on the same clients, beside what the theory says of both."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Round

import ratecheck as rc

FACTOR = 0.5  # a round takes FACTOR mu eta~ from Phi, and more


@dataclass(frozen=True, kw_only=True)
class RoundsConfig(rc.Config):
    """Clients, and how often they meet."""

    rounds: int = rc.param(3000, low=100, doc="aggregations.")
    mu: float = rc.param(0.5, above=0, high=1, doc="strong convexity; beta = 1.")
    K: int = rc.param(10, low=2, doc="local steps in a round.")


def compute(config: RoundsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("clients"))
    C = rng.normal(size=(4, 3, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    one = {"C": C, "mu": config.mu, "b": rng.normal(size=(4, 3)), "K": config.K}
    i = SimpleNamespace(**one, share=1.0, eta_g=1.0)
    x, c, distance, phi = np.zeros(3), np.zeros((4, 3)), [], []
    for _ in range(config.rounds):
        round = Round(i, x, c)
        distance.append(((x - round.best) ** 2).sum())
        phi.append(round.Phi(x, c))
        x = round.next_x
        c = round.next_c if block["method"] == "SCAFFOLD" else c
    R = np.arange(config.rounds)
    return {"R": R, "distance": distance, "phi": phi, "step": round.step}


def analyse(config: RoundsConfig, table: rc.Table) -> rc.Analysis:
    series, end = [], {}
    for method in ("SCAFFOLD", "FedAvg"):
        part = table.where(method=method)
        end[method] = part["distance"][-1] / part["distance"][0]
        series.append(rc.Series(method, "distance", part["R"], part["distance"]))
    part = table.where(method="SCAFFOLD")
    bound = (1 - FACTOR * config.mu * part["step"]) ** part["R"] * part["phi"][0]
    series.append(rc.Series("theory", "distance", part["R"], bound))
    ratio = rc.exact((part["phi"] / bound).max())
    floor = rc.exact(end["FedAvg"])
    checks = [
        rc.at_most(
            "Phi / its bound", "at most 1", ratio, 1 + 1e-12
        ),  # 1 at R = 0, but for rounding
        rc.above("what FedAvg leaves", "above what SCAFFOLD leaves", floor, end["SCAFFOLD"]),
    ]
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="scaffold/rounds",
    title="SCAFFOLD and FedAvg over rounds",
    source="Karimireddy et al., one-round progress",
    kind="figure",
    profiles={"quick": RoundsConfig(), "paper": RoundsConfig(rounds=10_000)},
    blocks=rc.Grid({"method": ("SCAFFOLD", "FedAvg")}),
    compute=compute,
    analyse=analyse,
    panels={"distance": rc.Panel(x="rounds $R$", y=r"$||x_R-x_*||^2$", log="y")},
)
