"""Runs of FSLoRA and its rivals on devices, as columns of a table.

Local steps are AdamW's, its moments zero in every round. A method runs with every step size on the
draws for tuning, and with the best of them on all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import ComparedConfig, DeviceSetup
from experiments.bridge.models import Values

if TYPE_CHECKING:
    from linsys.sketching.federated import Federated, Report, State
    from lora_bridge.runs import Labels

#: Makes an algorithm from a step size and a seed.
Method = Callable[[float, int], "Federated"]
#: What is summed over the rounds of a run: see :func:`path`.
SUMS: dict[str, Callable[[State, State, Report], float]] = {
    "up": lambda before, after, report: float(np.mean(report.up)),
    "down": lambda before, after, report: float(np.mean(report.down)),
    "missing": lambda before, after, report: len(report.missing),
    "moved": lambda before, after, report: float((after.X - before.X).abs().mean()),
}


def path(
    setup: DeviceSetup,
    context: rc.Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, Any]],
    labels: Labels,
) -> dict[str, Values]:
    """One draw trained to the last of the increasing rounds ``times``, measured at each of them.

    Returns:
        What ``measure`` says of the states, (times, ..); besides, summed up to there, (times,):
        ``up`` and ``down``, mean bytes of a device, ``missing``, how often a device was left out,
        and ``moved``, how far the modules went in a round, the mean of |X^{t+1} - X^t| over their
        entries.
    """
    from lora_bridge.runs import recorded

    drawn, seed = setup.draw(use, k), setup.config.derive("run", use, k)
    start = drawn.oracle.modules.start(r, np.random.default_rng(seed))
    algorithm = method(gamma, seed)

    state = algorithm.init(setup.tensor(start), drawn.oracle)
    return recorded(
        f"{algorithm} r={r} {use} {k}",
        algorithm,
        drawn.oracle,
        state,
        times,
        measure,
        sums=SUMS,
        labels=labels,
        adapters=lambda now: {"server": (now.merged_into(drawn.oracle).task.bank, now.X)},
        folder=context.folder,
    )


def train(
    setup: DeviceSetup,
    context: rc.Context,
    method: Method,
    r: int,
    gamma: float,
    use: str,
    k: int,
    times: Sequence[int],
) -> dict[str, Values]:
    """A :func:`path` with ``loss`` and ``accuracy`` on the tests, (times, domains)."""
    drawn = setup.draw(use, k)
    labels = {key: [list(drawn.tests)] for key in ("loss", "accuracy")}

    def measure(state: State) -> dict[str, Values]:
        return dict(zip(labels, drawn.judge(state).T, strict=True))

    return path(setup, context, method, r, gamma, use, k, times, measure, labels)


def compare(
    config: ComparedConfig,
    context: rc.Context,
    method: Method,
    r: int,
    times: Sequence[int],
    at: Sequence[int],
) -> rc.Columns:
    """A method at its best step size on all seeds; column t holds ``at`` for the rounds."""
    setup = DeviceSetup(config)

    def score(gamma: float, k: int) -> float:
        trained = train(setup, context, method, r, gamma, "tuning", k, times[-1:])
        return float(trained["loss"].mean())

    gamma = config.best(score)
    runs = [train(setup, context, method, r, gamma, "test", k, times) for k in range(config.seeds)]
    first = setup.draw("test", 0)
    axes: dict[str, Any] = {
        "draw": np.arange(config.seeds),
        "t": list(at),
        "domain": list(first.tests),
    }
    values = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    shaped = {name: v if v.ndim == 3 else v[..., None] for name, v in values.items()}
    return rc.long_table(axes, **shaped, gamma=gamma, what=first.name)
