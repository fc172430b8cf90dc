"""Loss over rounds: a larger mu is slower."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from fedprox.method import FedProx
from linsys.rounds import rounds
from linsys.sketching import LeastSquares


@dataclass(frozen=True, kw_only=True)
class RoundsConfig(rc.Config):
    rounds: int = rc.param(60, low=1, doc="aggregations.")
    mu: tuple[float, ...] = rc.param((0.0, 1.0, 10.0), low=0, increasing=True, doc="penalties.")
    gamma: float = rc.param(0.05, above=0, doc="step size.")
    H: int = rc.param(20, low=1, doc="local steps in a round.")
    model: bool = rc.param(False, doc="a language model in the place of a matrix.")


def devices(config: RoundsConfig) -> tuple[Any, Any, Any]:
    """The oracle, where X begins, and the mean loss at X."""
    rng = np.random.default_rng(config.derive("devices"))
    if config.model:
        from fedprox.bridge.sums import sums

        return sums(rng)
    inputs = tuple(rng.normal(size=(40, 4)) * scale for scale in (0.3, 1.0, 1.5))
    targets = tuple(x @ rng.normal(size=(4, 3)) for x in inputs)
    system = LeastSquares(np.zeros((3, 4)), inputs, targets)
    return system, system.modules.start(3, rng), system.mean_loss


def compute(config: RoundsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    oracle, X, mean_loss = devices(config)
    algorithm = FedProx(config.gamma, config.H, block["mu"])
    after = rounds(algorithm, oracle, algorithm.init(X, oracle), config.rounds)
    loss = [float(mean_loss(X)), *(float(mean_loss(state.X)) for state, _ in after)]
    return {"t": list(range(config.rounds + 1)), "loss": loss}


def analyse(config: RoundsConfig, table: rc.Table) -> rc.Analysis:
    loss = {mu: table.where(mu=mu)["loss"] for mu in config.mu}
    first = np.array([losses[1] for losses in loss.values()])
    left = max(losses[-1] / losses[0] for losses in loss.values())
    slower = bool((np.diff(first) > 0).all())
    checks = [
        rc.Check("a larger mu is slower", "above 1", first[-1] / first[0], None, None, slower),
        rc.Check("every mu learns", "below 1", left, None, None, left < 1),
    ]
    t = range(config.rounds + 1)
    return rc.Analysis([rc.Series(f"mu = {mu:g}", "loss", t, loss[mu]) for mu in loss], checks)


EXPERIMENT = rc.Experiment(
    id="fedprox/rounds",
    title="FedProx over rounds",
    source="FedProx, Figure 1",
    kind="figure",
    profiles={"quick": RoundsConfig(), "paper": RoundsConfig(rounds=400)},
    blocks=rc.Grid({"mu": "mu"}),
    compute=compute,
    analyse=analyse,
    panels={"loss": rc.Panel(x="rounds $t$", y="mean loss")},
)
