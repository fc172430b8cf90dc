"""How the figures of FSLoRA train on the tasks of ``_tasks``: runs, and the choice of step sizes.

*Step sizes.* The paper has one learning rate for all. The r / k of a sketch multiplies gradients,
though, and its square the change of W0 + B S A, so that one gamma is a different step for every
method, rank and ratio. Here every arm of a comparison has its own gamma: the power of two with the
best final accuracy, found by going down or up from the smallest k / r until it is worse, on
instances that are used for nothing else. A comparison at one gamma is shown beside it where the
paper's claim may hang on it. A run that explodes at the chosen gamma all the same stops, and counts
with the accuracy that it has then. B = 0 and A is normal with variance 1 / n at the start; local
steps are plain gradient steps, as in (4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ratecheck as rc
from experiments.fslora.figures._classifiers import Instance
from experiments.fslora.figures._tasks import TaskConfig, Values
from linsys.sketching import FSLoRA
from linsys.sketching.federated import Federated
from linsys.sketching.sketch import support

#: An algorithm of a step size and a seed.
Method = Callable[[float, int], Federated]

#: A run whose test loss is this many times that of guessing (log m) is lost, and not continued.
LOST = 20.0
#: Name of the average over tasks.
AVERAGE = "average"


@dataclass(frozen=True)
class Curve:
    """A training run.

    Attributes:
        accuracy, loss: on the test sets after each of the rounds asked for, (times, P).
        train: f, the mean loss on the devices' samples without a sketch, (times, P).
        up, down: mean bytes of a device up to there, (times,).
        lost: whether the loss exploded; what follows repeats the last values.
    """

    accuracy: Values
    loss: Values
    train: Values
    up: Values
    down: Values
    lost: bool


def train(algorithm: Federated, drawn: Instance, r: int, seed: int, times: Sequence[int]) -> Curve:
    """Run up to the last of the increasing rounds ``times`` from modules of rank r.

    Figures and tables have runs in common; one that was made is not made again.
    """
    return _trained(algorithm, drawn, r, seed, tuple(times))


@lru_cache(maxsize=512)
def _trained(
    algorithm: Federated, drawn: Instance, r: int, seed: int, times: tuple[int, ...]
) -> Curve:
    start = drawn.system.modules.start(r, np.random.default_rng(seed))
    state, up, down = algorithm.init(start, drawn.system), 0.0, 0.0
    limit = LOST * np.log(drawn.system.W0.shape[1])
    rows: list[tuple[Values, Values, Values, float, float]] = []
    lost = False
    for time in times:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what explodes is lost
            while state.t < time and not lost:
                state, report = algorithm.round(state, drawn.system)
                up, down = up + float(np.mean(report.up)), down + float(np.mean(report.down))
                lost = bool(report.missing)
            accuracy, loss = drawn.judge(state)
            on_devices = state.merged_into(drawn.system).mean_losses(state.X)
        if lost or not (loss < limit).all():
            lost, loss, on_devices = True, np.full(loss.shape, limit), np.full(loss.shape, limit)
        rows.append((accuracy, loss, on_devices, up, down))
    a, b, c, d, e = (np.array(part) for part in zip(*rows, strict=True))
    return Curve(a, b, c, d, e, lost)


def climb(score: Callable[[int], float], start: int) -> int:
    """The whole number at which a function with one peak is largest, searched from ``start``.

    A value of -inf counts as less than any other.

    >>> climb(lambda j: -((j - 3) ** 2), 0), climb(lambda j: -np.inf if j > -2 else j, 1)
    (3, -2)
    """
    here, value = start, score(start)
    while (below := score(here - 1)) > value or value == -np.inf:
        here, value = here - 1, below
    if here < start:
        return here
    while (above := score(here + 1)) > value:
        here, value = here + 1, above
    return here


def first_step(r: int, ranks: Sequence[int]) -> int:
    """The exponent of two nearest to the smallest k / r, where the search for a step begins.

    Along the leading components the sketched loss is about r / k times as curved as the loss.
    """
    return round(float(np.log2(min(ranks) / r)))


def tune(config: TaskConfig, method: Method, r: int, start: int, rounds: int) -> float:
    """The power of two with the best mean final accuracy on the tuning instances."""
    drawn = [config.draw("tuning", k) for k in range(config.tuning)]

    def score(j: int) -> float:
        accuracies = []
        for k, one in enumerate(drawn):
            seed = config.derive("run", "tuning", k)
            curve = train(method(2.0**j, seed), one, r, seed, [rounds])
            if curve.lost:
                return -np.inf
            accuracies.append(curve.accuracy[-1].mean())
        return float(np.mean(accuracies))

    return float(2.0 ** climb(score, start))


def columns(
    config: TaskConfig,
    method: Method,
    r: int,
    gamma: float,
    times: Sequence[int],
    at: Sequence[int] | None = None,
    **constants: Any,
) -> dict[str, rc.Column]:
    """All instances trained with a step size: one row per instance, task and time.

    Column t holds ``at`` in the place of the rounds ``times`` where it is given.
    """
    runs = []
    for k in range(config.instances):
        seed = config.derive("run", "test", k)
        runs.append(train(method(gamma, seed), config.draw("test", k), r, seed, times))
    axes: dict[str, ArrayLike] = {
        "instance": np.arange(config.instances),
        "t": list(times if at is None else at),
        "task": list(config.tasks),
    }
    return rc.long_table(
        axes,
        accuracy=np.stack([run.accuracy for run in runs]),
        loss=np.stack([run.loss for run in runs]),
        train=np.stack([run.train for run in runs]),
        up=np.stack([run.up for run in runs])[..., None],
        down=np.stack([run.down for run in runs])[..., None],
        lost=np.array([run.lost for run in runs])[:, None, None],
        gamma=gamma,
        **constants,
    )


def joined(parts: Sequence[Mapping[str, rc.Column]]) -> dict[str, rc.Column]:
    """The rows of several column sets with the same names."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def fslora(config: TaskConfig, ranks: Sequence[int], compression: float | None = None) -> Method:
    """FSLoRA with these ranks, as a method of step size and seed."""
    return lambda gamma, seed: _FSLoRA(
        gamma=gamma, H=config.H, ranks=ranks, seed=seed, compression=compression
    )


class _FSLoRA(FSLoRA):
    """FSLoRA that remembers its sketches, as they are the same whatever the step size."""

    def rows(self, device: int, round_: int, r: int) -> NDArray[np.int64]:
        return _rows(self.seed, round_, device, r, self.ranks[device])


@lru_cache(maxsize=1 << 16)
def _rows(seed: int, round_: int, device: int, r: int, k: int) -> NDArray[np.int64]:
    """The components that a device trains in a round; all of them need no draw."""
    rows = np.arange(r) if k == r else support(seed, round_, device, r, k)
    rows.flags.writeable = False
    return rows


def over_tasks(table: rc.Table, value: str = "accuracy", **where: Any) -> Values:
    """A value averaged over tasks, (instances, times)."""
    return np.asarray(table.where(**where).grid(value, "instance", "t", "task").mean(axis=-1))


def step_notes(table: rc.Table, *names: str) -> list[str]:
    """The step size of every arm, named by the columns ``names``, and which runs were lost."""
    arms = dict.fromkeys(zip(*(table[name] for name in names), table["gamma"], strict=True))
    text = ", ".join(f"{' '.join(map(str, arm[:-1]))}: {arm[-1]:g}" for arm in arms)
    runs = set(zip(*(table[name] for name in (*names, "instance", "lost")), strict=True))
    lost = Counter(" ".join(map(str, run[:-2])) for run in runs if run[-1])
    where = ", ".join(f"{arm} ({count})" for arm, count in sorted(lost.items()))
    exploded = f"{lost.total()} of {len(runs)} runs exploded" + (f": {where}" if where else "")
    return [f"gamma: {text}", exploded]
