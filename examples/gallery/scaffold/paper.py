"""SCAFFOLD on quadratics, with all clients and without noise: progress, drift, fixed point.

The lemmas behind its strongly convex rate hold: the progress of a round is stated half as large as
it is, the drift 13 times as large, and control variates that are gradients at x_* keep x_*. A
progress four times as large, 2 mu in the place of mu / 2, is refuted. The figure has
rounds of SCAFFOLD and of FedAvg on the same clients.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("scaffold", "SCAFFOLD", "Karimireddy et al. (arXiv 1910.06378, appendix)")
CLIENTS = rc.Space(
    fields={  # f_i(x) = x'A_i x / 2 - b_i'x with A_i = mu I + (1 - mu) C_i C_i', so that beta = 1
        "C": rc.contraction("n", "d", "d"),
        "mu": rc.interval(low=0.01, high=1.0),
        "b": rc.reals("n", "d"),
        "x": rc.reals("d"),
        "c": rc.reals("n", "d"),  # control variates
        "share": rc.interval(low=0.01, high=1.0),  # of the longest step allowed
        "eta_g": rc.interval(low=1.0, high=4.0),
        "K": rc.whole_numbers(low=1, high=8),
    },
    sizes={"n": (1, 3), "d": (1, 2)},
)


class Round:
    """One round from x with control variates c, or without any: that of FedAvg."""

    def __init__(self, i: Any, x: Any, c: Any) -> None:
        A = i.mu * np.eye(i.C.shape[-1]) + (1 - i.mu) * i.C @ i.C.mT
        self.f, K = rc.Quadratics(A, b=i.b), int(i.K)
        eta = i.share / (81 * K * i.eta_g)  # at most 1 / (81 beta K eta_g), 1 / (15 mu K eta_g)
        self.step, self.drift = K * i.eta_g * eta, 0 * eta  # eta~ and E
        y, gradients = 0 * c + x, 0 * c
        for _ in range(K):
            gradient = self.f.gradients(y)
            gradients = gradients + gradient
            y = y - eta * (gradient - c + c.mean(axis=0))
            self.drift = self.drift + rc.linalg.squared(y - x).mean() / K
        self.next_x, self.next_c = x + i.eta_g * (y - x).mean(axis=0), gradients / K

    def lag(self, c: Any) -> Any:
        """C_r: how far control variates are from the gradients at x_*."""
        return rc.linalg.squared(c - self.f.gradients(self.f.best)).mean()

    def Phi(self, x: Any, c: Any) -> Any:
        """What decreases: ||x - x_*||^2 + 9 eta~^2 C."""
        return rc.linalg.squared(x - self.f.best) + 9 * self.step**2 * self.lag(c)


@PAPER.lower("progress", ref="one-round progress, strongly convex", on=CLIENTS)
def progress(i: Any, factor: Any = 0.5) -> rc.Sides:
    """Phi = ||x - x_*||^2 + 9 eta~^2 C decreases by mu eta~ Phi / 2 + eta~ (f(x) - f_*) or more if
    eta~ = K eta_g eta_l <= 1 / (81 beta) and eta_g >= 1.
    """
    round = Round(i, i.x, i.c)
    before = round.Phi(i.x, i.c)
    stated = factor * i.mu * round.step * before + round.step * round.f.excess(i.x)
    return before - round.Phi(round.next_x, round.next_c), stated


@PAPER.upper("drift", ref="bound on the drift", on=CLIENTS)
def drift(i: Any) -> rc.Sides:
    """3 beta eta~ E <= 2/3 eta~^2 C + eta~ / (25 eta_g^2) (f(x) - f_*), for the mean squared
    distance E of local iterates from x.
    """
    round = Round(i, i.x, i.c)
    by_excess = round.step / (25 * i.eta_g**2) * round.f.excess(i.x)
    return 3 * round.step * round.drift, 2 * round.step**2 / 3 * round.lag(i.c) + by_excess


@PAPER.identity("fixed_point", ref="Section 4: control variates", on=CLIENTS)
def fixed_point(i: Any) -> rc.Sides:
    """A round leaves x_* where it is if c_i = grad f_i(x_*)."""
    f = Round(i, i.x, i.c).f
    return Round(i, f.best, f.gradients(f.best)).next_x, f.best


progress.changed(
    "progress_fourfold",
    {"factor": 2},
    text="Phi decreases by 2 mu eta~ Phi + eta~ (f(x) - f_*) or more.",
    note="For one client with A = mu I a round takes only 2 mu eta~ from ||x - x_*||^2.",
)

FACTOR = 0.5  # a round takes FACTOR mu eta~ from Phi, and more


class RoundsConfig(rc.Config):
    """Clients, and how often they meet."""

    rounds: int = rc.param(3000, low=100, doc="aggregations.")
    mu: float = rc.param(0.5, above=0, high=1, doc="strong convexity; beta = 1.")
    K: int = rc.param(10, low=2, doc="local steps in a round.")


def compute(config: RoundsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("clients"))
    C, b = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    i = SimpleNamespace(C=C, mu=config.mu, b=b, K=config.K, share=1.0, eta_g=1.0)
    x, c, distance, phi = np.zeros(3), np.zeros((4, 3)), [], []
    for _ in range(config.rounds):
        round = Round(i, x, c)
        distance.append(((x - round.f.best) ** 2).sum())
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
    ratio, floor = rc.exact((part["phi"] / bound).max()), rc.exact(end["FedAvg"])
    checks = [
        rc.at_most("Phi / its bound", "at most 1", ratio, 1 + 1e-12),  # rounding at R = 0
        rc.above("what FedAvg leaves", "above what SCAFFOLD leaves", floor, end["SCAFFOLD"]),
    ]
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="scaffold/rounds",
    title="SCAFFOLD and FedAvg over rounds",
    source="Karimireddy et al., one-round progress",
    profiles={"quick": RoundsConfig(), "paper": RoundsConfig(rounds=10_000)},
    blocks=rc.Grid({"method": ("SCAFFOLD", "FedAvg")}),
    compute=compute,
    analyse=analyse,
    panels={"distance": rc.Panel(x="rounds $R$", y=r"$||x_R-x_*||^2$", log="y")},
)
