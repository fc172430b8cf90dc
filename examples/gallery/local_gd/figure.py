"""Theorem 1 beside a run of local GD, and where runs end against the step size."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import Problem

import ratecheck as rc

STATED = 1.0  # the exponent of gamma in Theorem 4 of Li et al.


@dataclass(frozen=True, kw_only=True)
class FloorConfig(rc.Config):
    """Devices, steps between averages, and step sizes."""

    devices: int = rc.param(5, low=2, doc="M.")
    H: tuple[int, ...] = rc.param((2, 8), low=2, increasing=True, doc="steps between averages.")
    rounds: int = rc.param(2000, low=100, doc="averages in a run.")


def compute(config: FloorConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng, H = np.random.default_rng(config.derive("devices")), block["H"]
    C = rng.normal(size=(config.devices, 3, 3))
    C /= np.linalg.norm(C, ord=2, axis=(1, 2), keepdims=True)
    one = {"C": C, "c": rng.normal(size=(config.devices, 3)), "H": H, "start": np.zeros(3)}
    if block["panel"] == "floor":
        problems = [Problem(SimpleNamespace(**one, share=s)) for s in np.geomspace(1e-4, 1e-2, 12)]
        distance = [np.linalg.norm(p.limit() - p.best) for p in problems]
        return {"x": [p.step for p in problems], "y": distance, "bound": 0.0}
    p, T = Problem(SimpleNamespace(**one, share=1.0)), np.arange(1, config.rounds * H + 1)
    means, _ = p.run(one["start"], T[-1])
    bound = 2 * (p.best @ p.best) / (p.step * T) + 24 * p.floor * p.L
    excess = p.excess(np.cumsum(means, axis=0) / T[:, None])
    kept = np.unique(np.geomspace(1, T[-1], 40).astype(int)) - 1
    return {"x": T[kept], "y": excess[kept], "bound": bound[kept]}


def analyse(config: FloorConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for H in config.H:
        run, floor = (table.where(H=H, panel=panel) for panel in ("run", "floor"))
        series.append(rc.Series(f"H = {H}", "run", run["x"], run["y"]))
        series.append(rc.Series("theory", "run", run["x"], run["bound"]))
        series.append(rc.Series(f"H = {H}", "floor", floor["x"], floor["y"]))
        ratio = rc.exact((run["y"] / run["bound"]).max())
        checks.append(rc.at_most(f"H = {H}: excess / Theorem 1", "at most 1", ratio, 1))
        slope = rc.exact_slope(floor["x"], floor["y"])
        tolerance = 0.01  # steps of up to 1/100 of the longest add a term of relative order gamma
        checks.append(rc.rate_check(f"H = {H}: exponent", STATED, slope, tolerance=tolerance))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="local_gd/floor",
    title="Local GD and its floor",
    source="Khaled et al., Theorem 1; Li et al., Theorem 4",
    kind="rate",
    variable="gamma",
    profiles={"quick": FloorConfig(), "paper": FloorConfig(devices=20, rounds=20_000)},
    blocks=rc.Grid({"H": "H", "panel": ("run", "floor")}),
    compute=compute,
    analyse=analyse,
    panels={
        "run": rc.Panel(x="steps $T$", y=r"$f(\bar x_T)-f_*$", log="xy"),
        "floor": rc.Panel(x=r"$\gamma$", y=r"$||x_\infty-x_*||$", log="xy", slope=STATED),
    },
)
