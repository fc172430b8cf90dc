"""Loss over rounds: a larger mu is slower, and ends nearer to the minimum."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from fedprox.method import FedProx
from linsys.rounds import rounds
from linsys.sketching import LeastSquares


@dataclass(frozen=True, kw_only=True)
class RoundsConfig(rc.Config):
    rounds: int = 60
    mu: tuple[float, ...] = (0.0, 1.0, 10.0)
    gamma: float = 0.05
    H: int = 20
    model: bool = False  # a language model that learns to add, in the place of a matrix


def devices(config: RoundsConfig) -> tuple[Any, Any, Any]:
    """The oracle, where X begins, and the mean loss at X."""
    rng = np.random.default_rng(config.derive("devices"))
    if config.model:
        from fedprox.bridge._sums import sums

        return sums(rng)
    inputs = tuple(rng.normal(size=(40, 4)) * scale for scale in (0.3, 1.0, 1.5))
    targets = tuple(x @ rng.normal(size=(4, 3)) for x in inputs)
    system = LeastSquares(np.zeros((3, 4)), inputs, targets)
    return system, system.modules.start(3, rng), system.mean_loss


def blocks(config: RoundsConfig) -> list[rc.Block]:
    return [{"mu": mu} for mu in config.mu]


def compute(config: RoundsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    oracle, X, mean_loss = devices(config)
    algorithm = FedProx(config.gamma, config.H, block["mu"])
    after = rounds(algorithm, oracle, algorithm.init(X, oracle), config.rounds)
    loss = [float(mean_loss(X)), *(float(mean_loss(state.X)) for state, _ in after)]
    return {"t": list(range(config.rounds + 1)), "loss": loss}


def analyse(config: RoundsConfig, table: rc.Table) -> rc.Analysis:
    series = [
        rc.Series(f"mu = {mu:g}", "mean loss", part["t"], part["loss"])
        for mu in config.mu
        for part in [table.where(mu=mu)]
    ]
    slower = [s.y[1] for s in series]
    learns = [s.y[-1] / s.y[0] for s in series]
    found = [
        ("a larger mu is slower", slower[-1] / slower[0], bool(np.all(np.diff(slower) > 0))),
        ("every mu learns", max(learns), max(learns) < 1),
    ]
    return rc.Analysis(series, [rc.Check(n, "", v, None, None, ok) for n, v, ok in found])


def draw(config: RoundsConfig, analysis: rc.Analysis) -> Any:
    figure, axes = rc.panels(analysis.series)
    rc.curves(axes, analysis.series)
    rc.legend(figure, axes)
    return figure


EXPERIMENT = rc.Experiment(
    id="fedprox/rounds",
    title="FedProx over rounds",
    source="FedProx, Figure 1",
    kind="figure",
    config_type=RoundsConfig,
    profiles={"quick": RoundsConfig(), "paper": RoundsConfig(rounds=400)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
)
