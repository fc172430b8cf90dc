"""SAGA on strongly convex quadratics: its Lyapunov function, and the linear rate from any start."""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("saga", "SAGA", "Defazio, Bach, Lacoste-Julien: SAGA (arXiv 1407.0202)")
SUMS = rc.Space(
    fields={  # f_i(x) = (x - c_i)'A_i (x - c_i) / 2, A_i = mu I + (1 - mu) C_i C_i', so that L = 1
        "C": rc.contraction("n", "d", "d"),
        "c": rc.reals("n", "d"),
        "mu": rc.positive(low=0.01, high=0.9),
        "x": rc.reals("d"),
        "phi": rc.reals("n", "d"),  # the points of the table
        "k": rc.whole_numbers(low=1, high=4),
    },
    sizes={"n": (1, 3), "d": (1, 2)},
)


class Sum:
    """The functions, all runs of SAGA on them, which are equally likely, and T of Theorem 1."""

    def __init__(self, i: Any) -> None:
        self.n, d = i.c.shape
        self.f = rc.Quadratics(i.mu * np.eye(d) + (1 - i.mu) * i.C @ i.C.mT, c=i.c)
        self.gamma = 1 / (2 * (i.mu * self.n + 1))
        self.c = 1 / (2 * self.gamma * (1 - self.gamma * i.mu) * self.n)

    def step(self, x: Any, phi: Any, gamma: Any) -> tuple[Any, Any]:
        """x (p, d) and phi (p, n, d) of p runs, after a step with each j: of p n runs."""
        table, here = self.f.gradients(phi), self.f.gradients(x[:, None])
        new = x[:, None] - gamma * (here - table + table.mean(axis=1, keepdims=True))
        points = np.where(np.eye(self.n, dtype=bool)[:, :, None], x[:, None, None], phi[:, None])
        return new.reshape(-1, x.shape[1]), points.reshape(-1, *phi.shape[1:])

    def distance(self, x: Any) -> Any:
        """||x - x_*||^2, the mean over runs."""
        return rc.linalg.squared(x - self.f.best).mean()

    def T(self, x: Any, phi: Any) -> Any:
        """c ||x - x_*||^2 + mean_i B_i(phi_i), the mean over runs."""
        gap = phi - self.f.best
        bregman = (gap * rc.linalg.apply(self.f.A, gap)).sum(axis=-1).mean() / 2
        return bregman + self.c * self.distance(x)

    def sides(self, i: Any, gamma: Any, rate: Any) -> rc.Sides:
        """E||x^k - x_*||^2 from a table of x^0, and the bound that falls by 1 - rate in a step."""
        x, phi = i.x[None], 0 * i.phi[None] + i.x
        start = self.distance(x) + 2 * self.n * gamma * self.f.excess(i.x)
        for _ in range(int(i.k)):
            x, phi = self.step(x, phi, gamma)
        return self.distance(x), (1 - rate) ** int(i.k) * start


@PAPER.upper("theorem_1", ref="Theorem 1", on=SUMS)
def theorem_1(i: Any, factor: int = 1) -> rc.Sides:
    """For gamma = 1 / (2 (mu n + L)), E T falls by 1 - gamma mu in a step: T = c ||x - x_*||^2 +
    mean_i B_i(phi_i), c = 1 / (2 gamma (1 - gamma mu) n), B_i the Bregman divergence from x_*.
    """
    s = Sum(i)
    after = s.T(*s.step(i.x[None], i.phi[None], s.gamma))
    return after, (1 - factor * s.gamma * i.mu) * s.T(i.x, i.phi)


@PAPER.upper("corollary_1", ref="Corollary 1", on=SUMS)
def corollary_1(i: Any) -> rc.Sides:
    """For that gamma and phi_i = x^0, E||x^k - x_*||^2 <= (1 - mu / (2 (mu n + L)))^k
    (||x^0 - x_*||^2 + n / (mu n + L) (f(x^0) - f_*)).
    """
    s = Sum(i)
    return s.sides(i, s.gamma, s.gamma * i.mu)


@PAPER.upper("other_step", ref="Section 2, for the step 1 / (3 L)", on=SUMS)
def other_step(i: Any) -> rc.Sides:
    """For gamma = 1 / (3 L), E||x^k - x_*||^2 <= (1 - min(1 / (4 n), mu / (3 L)))^k
    (||x^0 - x_*||^2 + 2 n / (3 L) (f(x^0) - f_*)).
    """
    s, third = Sum(i), (1 + 0 * i.mu) / 3
    return s.sides(i, third, np.minimum((1 + 0 * i.mu) / (4 * s.n), i.mu / 3))


theorem_1.changed(
    "theorem_1_fourfold",
    {"factor": 4},
    text="T falls by 1 - 4 gamma mu.",
    note="For n = 1 a step is one of gradient descent, by which ||x - x_*||^2 falls 2 gamma mu.",
)

SHARE = 1.0  # of the stated rate mu / (2 (mu n + L))


class StepsConfig(rc.Config):
    """A sum, and runs on it."""

    n: int = rc.param(10, low=2, doc="functions.")
    mu: float = rc.param(0.1, above=0, below=1, doc="strong convexity; L = 1.")
    k: int = rc.param(400, low=50, doc="steps.")
    replicates: int = rc.param(100, low=rc.MIN_REPLICATES, doc="runs.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng, n, runs = np.random.default_rng(config.derive("functions")), config.n, config.replicates
    C, c = rng.normal(size=(n, 3, 3)), rng.normal(size=(n, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    i = SimpleNamespace(C=C, c=c, mu=config.mu, x=np.zeros(3), phi=np.zeros((n, 3)), k=0)
    s, (_, start) = Sum(i), corollary_1(i)
    rng = np.random.default_rng(config.derive("runs", block["method"]))
    x, each, distance = np.zeros((runs, 3)), np.arange(runs), []
    table = s.f.gradients(x[:, None])
    for _ in range(config.k):
        distance.append(((x - s.f.best) ** 2).sum(axis=1))
        j = rng.integers(n, size=runs)
        new = s.f.gradients(x[:, None])[each, j]
        corrected = new - table[each, j] + table.mean(axis=1)
        table[each, j] = new
        x = x - s.gamma * (corrected if block["method"] == "SAGA" else new)
    axes = {"replicate": each, "k": np.arange(config.k)}
    return rc.long_table(axes, distance=np.transpose(distance), start=start, rate=s.gamma * i.mu)


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
    profiles={"quick": StepsConfig(), "paper": StepsConfig(n=100, mu=0.01, k=8000)},
    blocks=rc.Grid({"method": ("SAGA", "SGD")}),
    compute=compute,
    analyse=analyse,
    panels={"distance": rc.Panel(x="steps $k$", y=r"$E||x^k-x_*||^2$", log="y")},
)
