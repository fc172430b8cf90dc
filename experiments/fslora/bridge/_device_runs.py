"""Runs of FSLoRA and its rivals on devices, as columns of a table.

Local steps are AdamW's, its moments zero in every round. A method runs with every step size on the
draws for tuning, and with the best of them on all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge._devices import ComparedConfig, DeviceConfig
from experiments.bridge._models import Values

if TYPE_CHECKING:
    from linsys.sketching.federated import Federated, State

#: An algorithm of a step size and a seed.
Method = Callable[[float, int], "Federated"]
#: What is summed over the rounds of a run: see :func:`path`.
SUMS = ("up", "down", "missing", "moved")


def path(
    config: DeviceConfig,
    context: rc.Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, Any]],
) -> dict[str, Values]:
    """One draw trained to the last of the increasing rounds ``times``, measured at each of them.

    Returns:
        What ``measure`` says of the states, (times, ..); besides, summed up to there, (times,):
        ``up`` and ``down``, mean bytes of a device, ``missing``, how often a device was left out,
        and ``moved``, how far the modules went in a round, the mean of |X^{t+1} - X^t| over their
        entries.
    """
    from lora_bridge.runs import repeated

    drawn, seed = config.draw(use, k), config.derive("run", use, k)
    start = drawn.oracle.modules.start(r, np.random.default_rng(seed))
    algorithm = method(gamma, seed)

    def advance(now: tuple[State, list[float]], t: int) -> tuple[State, list[float]]:
        state, sums = now
        after, report = algorithm.round(state)
        sent = [float(np.mean(report.up)), float(np.mean(report.down))]
        new = [*sent, float(len(report.missing)), float((after.X - state.X).abs().mean())]
        return after, [one + other for one, other in zip(sums, new, strict=True)]

    def seen(now: tuple[State, list[float]]) -> dict[str, Any]:
        return {**measure(now[0]), **dict(zip(SUMS, now[1], strict=True))}

    first = algorithm.init(config.tensor(start), drawn.oracle), [0.0] * len(SUMS)
    name = f"{algorithm} r={r} {use} {k}"
    return repeated(name, advance, first, times, seen, folder=context.folder)


def train(
    config: DeviceConfig,
    context: rc.Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
) -> dict[str, Values]:
    """A :func:`path` with ``loss`` and ``accuracy`` on the tests, (times, domains)."""
    drawn = config.draw(use, k)

    def measure(state: State) -> dict[str, Values]:
        return dict(zip(("loss", "accuracy"), drawn.judge(state).T, strict=True))

    return path(config, context, method, r, gamma, use, k, times, measure)


def compare(
    config: ComparedConfig,
    context: rc.Context,
    method: Method,
    r: int,
    times: Sequence[int],
    at: Sequence[int],
) -> rc.Columns:
    """A method at its best step size on all seeds; column t holds ``at`` for the rounds."""

    def score(gamma: float, k: int) -> float:
        found = train(config, context, method, r, gamma, "tuning", k, times[-1:])
        return float(found["loss"].mean())

    gamma = config.best(score)
    runs = [train(config, context, method, r, gamma, "test", k, times) for k in range(config.seeds)]
    first = config.draw("test", 0)
    axes: dict[str, Any] = {
        "draw": np.arange(config.seeds),
        "t": list(at),
        "domain": list(first.tests),
    }
    values = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    shaped = {name: v if v.ndim == 3 else v[..., None] for name, v in values.items()}
    return rc.long_table(axes, **shaped, gamma=gamma, what=first.name)
