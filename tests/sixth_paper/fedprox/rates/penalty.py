"""The fixed point of FedProx comes near to the minimiser like 1/mu.

For f_i(x) = (a_i/2) x^2 - b_i x it is mean(b_i/(a_i + mu)) / mean(a_i/(a_i + mu)).
"""

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from fedprox.figures import rounds


@dataclass(frozen=True, kw_only=True)
class PenaltyConfig(rc.Config):
    devices: int = 8
    draws: int = 3
    mu: tuple[float, ...] = (1e4, 1e5, 1e6)


def blocks(config: PenaltyConfig) -> list[rc.Block]:
    return [{"draw": k} for k in range(config.draws)]


def compute(config: PenaltyConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("devices", block["draw"]))
    a, b = rng.uniform(1, 5, config.devices), rng.normal(size=config.devices)
    weights = 1 / (a + np.array(config.mu)[:, None])
    fixed, best = (weights @ b) / (weights @ a), b.mean() / a.mean()
    return {"mu": list(config.mu), "distance": np.abs(fixed - best)}


def analyse(config: PenaltyConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for block in blocks(config):
        name, part = f"draw {block['draw']}", table.where(**block)
        series.append(rc.Series(name, "distance", part["mu"], part["distance"]))
        slope = rc.exact_slope(part["mu"], part["distance"])
        checks.append(rc.rate_check(name, -1.0, slope, tolerance=0.005))  # terms in 1/mu^2
    return rc.Analysis(series, checks)


def draw(config: PenaltyConfig, analysis: rc.Analysis) -> object:
    figure, axes = rc.panels(analysis.series)
    rc.curves(axes, analysis.series)
    rc.loglog(axes["distance"])
    rc.guide(axes["distance"], -1.0, (1e4, 1e6), 1e-5)
    return figure


EXPERIMENT = replace(
    rounds.EXPERIMENT,
    id="fedprox/penalty",
    title="The bias of FedProx",
    kind="rate",
    variable="mu",
    config_type=PenaltyConfig,
    profiles={"quick": PenaltyConfig(), "paper": PenaltyConfig(devices=64)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
)
