"""What ``bridge/smoothness`` computes: a training run of FSLoRA, and what is measured on its way.

The measurements of one point are those of ``_smoothness``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import ratecheck as rc
from experiments.bridge._devices import RatiosConfig
from experiments.bridge._models import threads
from experiments.fslora.bridge._device_runs import SUMS, path
from experiments.fslora.bridge._smoothness import measure
from linsys import InputError
from linsys.sketching import FSLoRA
from linsys.sketching.federated import Federated, State
from linsys.validate import check_integer

if TYPE_CHECKING:
    from lora_bridge.tasks import Task


@dataclass(frozen=True, kw_only=True)
class SmoothnessConfig(RatiosConfig):
    """The set-up."""

    attention: ClassVar[str] = "eager"

    rank: int = 8
    seeds: int = 4
    gamma: float = rc.param(0.01, above=0.0, doc="step size of the run.")
    rounds: int = rc.param(96, low="points", doc="T.")
    points: int = rc.param(3, low=1, doc="rounds after the start at which all is measured.")
    factors: tuple[int, ...] = rc.param(
        (8, 4, 2), doc="r / k, decreasing, each a divisor of r; 1 is added."
    )
    draws: int = rc.param(
        8, low=1, doc="sketches of every r / k, in whole partitions of the components."
    )
    probe: int = rc.param(4, low=2, doc="samples of a device that make up its loss.")
    steps: int = rc.param(40, low=1, doc="products with a Hessian for one eigenvalue, at most.")
    tolerance: float = rc.param(
        0.01,
        above=0.0,
        high=0.5,
        doc="relative residual of an eigenvalue with which its products end.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for factor in self.factors:
            if check_integer("factors", factor, low=2) > self.rank or self.rank % factor:
                raise InputError(f"`factors` must divide rank = {self.rank}; found {factor}")
        if len(self.factors) < 2 or list(self.factors) != sorted(set(self.factors), reverse=True):
            raise InputError(f"`factors` must be two or more, decreasing; found {self.factors}")

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.rounds * i / self.points) for i in range(self.points + 1)]


def compute(config: SmoothnessConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Train, and measure on the way."""
    from lora_bridge.curvature import Precision

    k, precision = block["draw"], Precision(config.steps, config.tolerance)

    def method(gamma: float, seed: int) -> Federated:
        return FSLoRA(
            gamma=gamma, H=config.local_steps, ranks=config.ranks(), optimizer="adamw", seed=seed
        )

    drawn = config.draw("test", k)
    task, factors = probes(drawn.oracle.task, config.probe), [*config.factors, 1]

    def measured(state: State) -> dict[str, list[float]]:
        rng = np.random.default_rng(config.derive("sketches", k, state.t))
        rows = [measure(task, state.X, f, config.draws, precision, rng) for f in factors]
        return {name: [row[name] for row in rows] for name in rows[0]}

    with threads(context):
        r, gamma, times = config.rank, config.gamma, config.times
        found = path(config, context, method, r, gamma, "test", k, times, measured)
    columns = {name: value for name, value in found.items() if name not in SUMS}
    return rc.long_table({"t": times, "factor": factors}, **columns, what=drawn.name)


def probes(task: Task, size: int) -> Task:
    """The task with the first samples of every device alone, and without dropout."""
    for device in range(task.clients):
        if task.size(device) < size:
            raise InputError(
                f"`probe` must be at most the samples of every device; found {size} for "
                f"{task.size(device)} of device {device}"
            )
    first = [{name: value[:size] for name, value in shard.items()} for shard in task.shards]
    return replace(task, shards=first, bank=task.bank.with_options(dropout=0.0))
