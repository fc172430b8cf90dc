"""MGDA with three objectives: the shortest omega so far, beside what the theory says of it."""

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from mgda.simplex import min_norm

EXPONENT = -1.0  # of T in the bound


@dataclass(frozen=True, kw_only=True)
class StepsConfig(rc.Config):
    """Objectives, dimension and steps."""

    objectives: int = rc.param(3, low=2, doc="how many.")
    d: int = rc.param(20, low=2, doc="dimension.")
    T: int = rc.param(1000, low=50, doc="steps.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("objectives"))
    curvature = np.geomspace(1e-4, 1, config.d)  # of all objectives, along axes of their own
    axes = np.linalg.qr(rng.normal(size=(config.objectives, config.d, config.d)))[0]
    A, c = axes * curvature @ axes.transpose(0, 2, 1), rng.normal(size=axes.shape[:2])
    x, lengths = np.zeros(config.d), []
    first = min(0.5 * e @ one @ e for one, e in zip(A, c, strict=True))  # f_j(x_0), and L = 1
    for _ in range(config.T):
        u = (A @ (x - c)[:, :, None])[:, :, 0]
        omega = min_norm(u.T).weights @ u
        lengths.append(omega @ omega)
        x = x - omega
    return {"T": np.arange(1, config.T + 1), "length": lengths, "first": 2 * first}


def analyse(config: StepsConfig, table: rc.Table) -> rc.Analysis:
    T, shortest = table["T"], np.minimum.accumulate(table["length"])
    bound = table["first"] * T**EXPONENT
    series = [
        rc.Series("MGDA", "omega", T, shortest),
        rc.Series("theory", "omega", T, bound),
    ]
    ratio = rc.exact((shortest / bound).max())
    slope = rc.exact_slope(T[9:], shortest[9:])
    checks = [
        rc.at_most("omega / bound", "at most 1", ratio, 1),
        rc.rate_check("exponent of T", EXPONENT, slope, bound=True),
    ]
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="mgda_descent/steps",
    title="MGDA over its steps",
    source="Fliege et al., Theorem 3.1",
    kind="rate",
    variable="t",
    profiles={"quick": StepsConfig(), "paper": StepsConfig(objectives=5, T=10_000)},
    blocks=rc.Grid({"run": (0,)}),
    compute=compute,
    analyse=analyse,
    panels={"omega": rc.Panel(x="steps $T$", y=r"$\min_{t<T}||\omega_t||^2$", log="xy")},
)
