"""The fixed point of FedProx comes near to the minimiser like 1/mu.

For f_i(x) = (a_i/2) x^2 - b_i x it is mean(b_i/(a_i + mu)) / mean(a_i/(a_i + mu))."""

from dataclasses import dataclass

import numpy as np

import ratecheck as rc


@dataclass(frozen=True, kw_only=True)
class PenaltyConfig(rc.Config):
    draws: int = rc.param(3, low=1, doc="of a_i and b_i.")
    mu: tuple[float, ...] = rc.param((1e4, 1e5, 1e6), above=0, increasing=True, doc="penalties.")


def compute(config: PenaltyConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("devices", block["draw"]))
    a, b = rng.uniform(1, 5, 8), rng.normal(size=8)
    weights = 1 / (a + np.array(config.mu)[:, None])
    fixed, best = (weights @ b) / (weights @ a), b.mean() / a.mean()
    return {"mu": list(config.mu), "distance": np.abs(fixed - best)}


def analyse(config: PenaltyConfig, table: rc.Table) -> rc.Analysis:
    parts = {f"draw {k}": table.where(draw=k) for k in range(config.draws)}
    curves = {name: (part["mu"], part["distance"]) for name, part in parts.items()}
    slopes = {name: rc.exact_slope(*curve) for name, curve in curves.items()}
    return rc.Analysis(
        [rc.Series(name, "distance", *curve) for name, curve in curves.items()],
        [rc.rate_check(name, -1.0, slopes[name], tolerance=0.005) for name in slopes],  # 1/mu^2
    )


EXPERIMENT = rc.Experiment(
    id="fedprox/penalty",
    title="The bias of FedProx",
    source="FedProx, Section 3.2",
    kind="rate",
    variable="mu",
    profiles={"quick": PenaltyConfig(), "paper": PenaltyConfig(draws=30)},
    blocks=rc.Grid({"draw": "draws"}),
    compute=compute,
    analyse=analyse,
    panels={"distance": rc.Panel(r"$\mu$", r"$|x_\mu - x_*|$", log="xy", slope=-1.0)},
)
