"""What ``bridge/affpcl`` computes: runs of every method on agents, and what is seen along them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.bridge._agents import AffPCLConfig, Draw, Exam, draw_of
from experiments.bridge._models import threads
from linsys import InputError
from linsys.algorithms import (
    AffPCL,
    AffPCLState,
    Collaborative,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    Sampling,
    Start,
    Steps,
)

if TYPE_CHECKING:
    from lora_bridge.affpcl import Agents

ESTIMATED = "AffPCL, estimated ratios"
PLAIN = "AffPCL, no ratios"
#: What every method is tested for.
TESTED = ("excess", "accuracy")


def methods(config: AffPCLConfig) -> Mapping[str, Collaborative[Any]]:
    """The curves by name."""
    return {
        "AffPCL": AffPCL(),
        ESTIMATED: AffPCL(),
        PLAIN: AffPCL(ratio="none"),
        "Independent": Independent(),
        "FedAvg": FedAvg(),
        "Fine-tuning": FineTuning(round(config.switch * config.rounds)),
        "Ditto": Ditto(config.regularization),
    }


def compute(config: AffPCLConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Excess loss and accuracy of every method over the rounds, and the agents' affinities."""
    with threads(context):
        drawn = draw_of(config, float(block["level"]), int(block["draw"]))
        named = methods(config)
        runs = {name: _run(config, name, drawn, context.folder) for name in named}
    excess, accuracy = (np.stack([run[key] for run in runs.values()]) for key in TESTED)
    path = {key: value for key, value in runs["AffPCL"].items() if key not in TESTED}
    axes = {"method": np.array(list(named)), "t": np.array(config.times)}
    columns = {**path, **drawn.affinity, **drawn.said}
    return rc.long_table(axes, excess=excess, accuracy=accuracy, **columns)


def _run(config: AffPCLConfig, name: str, drawn: Draw, folder: Path | None) -> dict[str, Any]:
    """What a method is worth at the recorded rounds, by the loop that linear systems run too."""
    from lora_bridge.runs import recorded

    agents = drawn.estimated if name == ESTIMATED else drawn.known
    algorithm = methods(config)[name]
    steps = Steps(config.alpha, objective=config.alpha_objective / config.alpha)
    x, theta = agents.start(drawn.start)
    start = Start(x, agents.objective(theta, config.warmup, config.alpha_objective))
    oracle = Sampling(agents.observe, steps, local_steps=config.local_steps)

    def measure(state: Any) -> dict[str, float]:
        found = _tested(agents, algorithm.personal(state), drawn.exam, config.batch)
        along = _measured(agents, state) if name == "AffPCL" else {}
        return dict(zip(TESTED, found, strict=True)) | along

    state = algorithm.init(start, oracle)
    return recorded(name, algorithm, oracle, state, config.times, measure, folder=folder)


def _measured(agents: Agents, state: AffPCLState) -> dict[str, float]:
    """Gradients at the centre, and the noise of AffPCL's direction, at one point of its path."""
    import torch

    from lora_bridge.measure import gradients_of

    found = gradients_of(agents.task, agents.rows(state.center))
    pairs = ~torch.eye(agents.n, dtype=torch.bool)
    noise = agents.noise(state)
    common = agents.noise(state._replace(x=state.center.expand_as(state.x)))
    return {
        "alignment": float(found.alignment().cpu()[pairs].mean()),
        "noise": float((found.noise / (found.mean**2).sum(1)).mean()),
        "own": float(noise.alone.mean()),
        "left": float(noise.left.mean() / noise.alone.mean()),
        "together": float(noise.together.mean() / noise.alone.mean()),
        "common": float(common.together.mean() / common.alone.mean()),
        "distance": float((state.x - state.center).norm(dim=1).mean()),
    }


def _tested(agents: Agents, x: Any, exam: Exam, batch: int) -> tuple[float, float]:
    """Mean over agents of the excess loss, and of the probability that the likelier label is right.

    As many texts at a time as training takes, times eight: without gradients there is room.
    """
    import torch

    from lora_bridge.affpcl import class_logits

    shown, wanted, weights = exam
    X, at_once, parts = agents.rows(x), 8 * batch, []
    for start in range(0, wanted.shape[1], at_once):
        part = {
            name: value[start : start + at_once].to(X.device).expand(agents.n, -1, -1)
            for name, value in shown.items()
        }
        logits = agents.task.bank.read(X, part, class_logits).double()
        parts.append(torch.log_softmax(logits, -1).cpu())
    said = torch.cat(parts, 1).numpy()
    if not np.isfinite(said).all():
        raise InputError("`alpha` must be small enough for training; found numbers that overflow")
    entropy = -np.where(wanted > 0, wanted * np.log(np.where(wanted > 0, wanted, 1.0)), 0.0)
    excess = -(wanted * said).sum(-1) - entropy.sum(-1)
    right = np.take_along_axis(wanted, said.argmax(-1)[..., None], -1)[..., 0]
    return float((weights * excess).sum(1).mean()), float((weights * right).sum(1).mean())
