"""MGDA over its steps: the shortest omega so far, beside what the theory says of it."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Pair

import ratecheck as rc

EXPONENT = -1.0  # of T in the bound


@dataclass(frozen=True, kw_only=True)
class StepsConfig(rc.Config):
    """Dimension and steps."""

    d: int = rc.param(20, low=2, doc="dimension.")
    T: int = rc.param(1000, low=50, doc="steps.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("objectives"))
    root = np.geomspace(0.01, 1, config.d)  # of the curvature, along axes of its own
    axes = np.linalg.qr(rng.normal(size=(2, config.d, config.d)))[0]
    pair = Pair(SimpleNamespace(C=axes * root, c=rng.normal(size=(2, config.d))))
    x, lengths = np.zeros(config.d), []
    first = pair.values(x).min()
    for _ in range(config.T):
        _, omega = pair.direction(x)
        lengths.append(omega @ omega)
        x = x - omega / pair.L
    return {"T": np.arange(1, config.T + 1), "length": lengths, "first": 2 * pair.L * first}


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
    profiles={"quick": StepsConfig(), "paper": StepsConfig(d=100, T=10_000)},
    blocks=rc.Grid({"run": (0,)}),
    compute=compute,
    analyse=analyse,
    panels={"omega": rc.Panel(x="steps $T$", y=r"$\min_{t<T}||\omega_t||^2$", log="xy")},
)
