"""FedProx on convex quadratics: Theorem 4's decrease in a round, and Corollary 7's constant.

Theorem 4 holds, with exact expectations over the devices drawn, says something for more than 2 B^2
of them, and is false with 2 rho. Corollary 7's 1 / (24 L B^2) is no bound however large B is;
1 / (36 L B^2) is one from B = 10 on. The figure has the decrease beside rho, over mu.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("fedprox", "FedProx", "Li et al.: Federated Optimization (arXiv 1812.06127)")


def rho(L: Any, B: Any, mu: Any, K: Any) -> Any:
    """The factor of Theorem 4, for exact local solutions (gamma = 0) of convex losses."""
    drawn = L * B**2 / (mu**2 * K) * (2 * np.sqrt(2 * K) + 2)
    return 1 / mu - B * np.sqrt(2 / K) / mu - L * B / mu**2 - L * B**2 / (2 * mu**2) - drawn


class Round:
    """A round from w: the gradient, the dissimilarity B, and the expected decrease of f."""

    def __init__(self, i: Any) -> None:
        A = i.C @ i.C.mT
        f = rc.Quadratics(A, b=i.b)
        gradients = f.gradients(i.w)
        mean, self.L = np.tensordot(i.p, A, axes=1), f.L_max
        gradient = i.p @ gradients
        self.squared = rc.linalg.squared(gradient)
        size = np.where(self.squared > 0, self.squared, 1)
        self.B = np.sqrt((i.p @ rc.linalg.squared(gradients)) / size)
        # Local minimisers of F_k + (mu/2) ||x - w||^2, of which a round has the mean of K drawn.
        moves = -rc.linalg.solve(A + i.mu * np.eye(len(i.w)), gradients)
        move = i.p @ moves
        spread = i.p @ ((moves - move) * rc.linalg.apply(mean, moves - move)).sum(axis=-1) / i.K
        self.decrease = -(gradient @ move + move @ mean @ move / 2 + spread / 2)
        self.rho = rho(self.L, self.B, i.mu, i.K)


DEVICES = rc.Space(
    fields={  # F_k(x) = x'A_k x / 2 - b_k'x with A_k = C_k C_k', so that L_- = 0
        "p": rc.simplex("n"),  # of device k
        "C": rc.contraction("n", "d", "d"),
        "b": rc.reals("n", "d"),
        "w": rc.reals("d"),
        "mu": rc.positive(low=1.0, high=1000.0),
        "K": rc.whole_numbers(low=3, high=200),  # devices in a round, drawn with replacement
    },
    sizes={"n": (1, 3), "d": (1, 2)},
    given={
        "no stationary point": lambda i: Round(i).squared > 0,
        "rho > 0": lambda i: Round(i).rho > 0,
    },
)


@PAPER.lower("theorem_4", ref="Theorem 4", on=DEVICES)
def theorem_4(i: Any, factor: int = 1) -> rc.Sides:
    """f(w) - E f(w^+) >= rho ||grad f(w)||^2 where rho > 0."""
    round = Round(i)
    return round.decrease, factor * round.rho * round.squared


theorem_4.changed(
    "theorem_4_twice", {"factor": 2}, text="f(w) - E f(w^+) >= 2 rho ||grad f(w)||^2."
)

DISSIMILAR = {
    "L": rc.positive(low=0.1, high=10.0),
    "B": rc.positive(low=10.0, high=1000.0),
    "more": rc.positive(low=1.0, high=100.0),  # K / (4 B^2): B <= sqrt(K) / 2
}


@PAPER.lower(
    "corollary_7",
    ref="Corollary 7, with its 1 / (24 L B^2) as a bound",
    on=DISSIMILAR,
    expect="violated",
    printed_as="ours",
    note="At B = sqrt(K) / 2, L B^2 rho tends to (1 - sqrt(1/2) - 1/12) / 6 = 0.0349 for large B.",
    corrected="corollary_7_corrected",
)
def corollary_7(i: Any, factor: int = 24) -> rc.Sides:
    """For mu = 6 L B^2 and 10 <= B <= sqrt(K) / 2, rho is at least 1 / (24 L B^2)."""
    square = i.B**2
    return rho(i.L, i.B, 6 * i.L * square, 4 * square * i.more), 1 / (factor * i.L * square)


corollary_7.changed(
    "corollary_7_corrected",
    {"factor": 36},
    ref="Corollary 7 with a smaller constant",
    text="For mu = 6 L B^2 and 10 <= B <= sqrt(K) / 2, rho is at least 1 / (36 L B^2).",
    derivation="6 L B^2 rho increases in B and K, and is 0.168 for B = 10 and K = 400.",
    expect="holds",
)

SHARE = 1.0  # of rho


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
    profiles={"quick": MuConfig(), "paper": MuConfig(devices=1000, points=100)},
    blocks=rc.Grid({"K": "K"}),
    compute=compute,
    analyse=analyse,
    panels=rc.Panel(x=r"$\mu$", y=r"$(f(w)-E\,f(w^+))\,/\,||\nabla f(w)||^2$", log="xy"),
)
