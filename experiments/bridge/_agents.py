"""What ``bridge/affpcl`` computes: agents with texts and adapters, and runs of every method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from experiments._model import Block, Columns, Config, Context
from experiments._table import long_table
from experiments.bridge._models import threads
from experiments.bridge._text import Person, deal, probabilities, read
from linsys import InputError
from linsys._validate import number, whole
from linsys.algorithms import (
    AffPCL,
    AffPCLState,
    Algorithm,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    Steps,
    iterate,
)

if TYPE_CHECKING:
    from lora_bridge.affpcl import Agents

ESTIMATED = "AffPCL, estimated ratios"
PLAIN = "AffPCL, no ratios"
#: AffPCL's noise where the agents' points are the centre's, so that only objectives and
#: environments differ.
COMMON = "AffPCL at the centre"
#: The model that is used without a folder: see :class:`lora_bridge.built_in.BuiltIn`.
SMALL = {"hidden": 32, "layers": 1, "heads": 2}
#: What every method is tested for.
TESTED = ("excess", "accuracy")
#: Times of a curve after the start; the last third of them is judged.
POINTS = 6


@dataclass(frozen=True, kw_only=True)
class AffPCLConfig(Config):
    """The set-up.

    Args:
        model: folder of a model; None: the built-in one, which learns from the prompts of data.
        data: a file of texts; None: docstrings.
        levels: delta, each in [0, 1].
        agents: n.
        samples, tests: texts of an agent, texts of the common test.
        seeds: how often all is drawn anew.
        rounds, local_steps, batch: communications, minibatches between two of them, their size.
        alpha, alpha_objective: steps of the adapters and of the head theta.
        rank, scaling, targets: LoRA's rank, factor of B A, adapted modules.
        features: directions of the frozen features.
        objective: what theta's head sees: which of the "properties" a text has, which realises
            every target, as in Figure 2, or the frozen "features", which do so in part.
        warmup: rounds of (7) before the others.
        concentration: of the domains' shares at delta = 1.
        labels: an agent's targets are its "probabilities", or labels "drawn" from them.
        switch: share of the rounds after which fine-tuning leaves FedAvg.
        regularization: Ditto's.
        max_length: tokens of a text; longer ones lose their ends.
        chunk: agents that go through the model together; None for all.
        on_nan: what to do with an agent whose loss or gradient is not finite: "stop", or "skip" it,
            so that it stands still in this step.
        dtype: of the adapters and the model; "bfloat16" computes the model's products in it.
        device: "cpu" or "cuda".
    """

    how: ClassVar[frozenset[str]] = frozenset({"chunk"})

    model: Path | None = None
    data: Path | None = None
    levels: tuple[float, ...] = (0.0, 0.2, 0.6, 1.0)
    agents: int = 6
    samples: int = 60
    tests: int = 100
    seeds: int = 8
    rounds: int = 60
    local_steps: int = 1
    batch: int = 4
    alpha: float = 0.05
    alpha_objective: float = 0.25
    rank: int = 4
    scaling: float = 2.0
    targets: tuple[str, ...] = ("o_proj", "down_proj", "score")
    features: int = 32
    objective: Literal["features", "properties"] = "properties"
    warmup: int = 50
    concentration: float = 1.0
    labels: Literal["probabilities", "drawn"] = "probabilities"
    switch: float = 0.5
    regularization: float = 1.0
    max_length: int = 512
    chunk: int | None = None
    on_nan: Literal["stop", "skip"] = "stop"
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.levels:
            number("levels", level, low=0.0, high=1.0)
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise InputError(f"`levels` must be distinct and at least one; found {self.levels}")
        for name, low in (("agents", 2), ("samples", 5), ("tests", 2), ("seeds", 2)):
            whole(name, getattr(self, name), low=low)
        whole("rounds", self.rounds, low=POINTS)
        whole("warmup", self.warmup)
        for name in ("local_steps", "batch", "rank", "features"):
            whole(name, getattr(self, name), low=1)
        for name in ("alpha", "alpha_objective", "scaling", "concentration"):
            number(name, getattr(self, name), low=0.0, low_open=True)
        number("switch", self.switch, low=0.0, high=1.0)
        number("regularization", self.regularization, low=0.0)


def methods(config: AffPCLConfig) -> Mapping[str, Algorithm[Any]]:
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


def compute(config: AffPCLConfig, block: Block, context: Context) -> Columns:
    """Excess loss and accuracy of every method over the rounds, and the agents' affinities."""
    with threads(context):
        return _compute(config, float(block["level"]), int(block["draw"]), context.folder)


def _compute(config: AffPCLConfig, level: float, draw: int, folder: Path | None) -> Columns:
    import torch

    from lora_bridge.bank import AdapterBank
    from lora_bridge.built_in import BuiltIn, built_in
    from lora_bridge.models import load_model
    from lora_bridge.prompts import prompt_texts
    from lora_bridge.tokens import encode_texts
    from lora_bridge.tokens import said as said_of_cut

    corpus = read(config.data)
    lambdas = 0.5 + level * (np.linspace(0.0, 1.0, config.agents) - 0.5)
    # the same texts for the test at every level
    rng = np.random.default_rng(config.derive("texts", draw))
    concentration = config.concentration / level if level else math.inf
    drawn = config.labels == "drawn"
    sizes = config.samples, config.tests
    people, test = deal(corpus, rng, lambdas, *sizes, concentration, drawn)
    dtype = torch.float64 if config.dtype == "float64" else torch.float32
    loaded = load_model(
        config.model or built_in(prompt_texts(config.data), BuiltIn(**SMALL)),
        "classifier",
        dtype=dtype,
        device=config.device,
        seed=config.derive("head") % 2**32,
    )
    autocast = torch.bfloat16 if config.dtype == "bfloat16" else None
    bank = AdapterBank(
        loaded.model, config.targets, config.scaling, chunk=config.chunk, autocast=autocast
    )
    used = np.concatenate([*(p.chosen for p in people), test])
    tokens = encode_texts(
        loaded.tokenizer, [corpus.texts[j] for j in used], config.max_length, "cut"
    )
    own = {name: value[: -config.tests] for name, value in tokens.items()}
    agents, estimated, affinity = _agents(config, draw, bank, people, own)
    wanted = np.stack([probabilities(corpus.properties[test], weight) for weight in lambdas])
    start = torch.from_numpy(
        bank.modules.start(config.rank, np.random.default_rng(config.derive("start", draw)))
    ).to(dtype=dtype, device=config.device)
    affinity |= _distances(torch.from_numpy(np.stack([p.shares for p in people])), wanted)
    shown = {name: value[-config.tests :] for name, value in tokens.items()}
    common = shown, wanted, np.stack([p.weights for p in people])
    named = methods(config)
    runs = {
        name: _run(config, name, estimated if name == ESTIMATED else agents, start, common, folder)
        for name in named
    }
    excess, accuracy = (np.stack([run[key] for run in runs.values()]) for key in TESTED)
    path = {key: value for key, value in runs["AffPCL"].items() if key not in TESTED}
    axes = {"method": np.array(list(named)), "t": np.array(_times(config))}
    source = corpus.name + said_of_cut(tokens)
    said = {"model": loaded.name, "data": source, "properties": "; ".join(corpus.said)}
    return long_table(axes, excess=excess, accuracy=accuracy, **path, **affinity, **said)


def _agents(
    config: AffPCLConfig, draw: int, bank: Any, people: list[Person], own: Mapping[str, Any]
) -> tuple[Agents, Agents, dict[str, Any]]:
    """The agents with known density ratios and with estimated ones, and how far they seem apart."""
    import torch

    from lora_bridge.affpcl import Agents, soft_cross_entropy
    from lora_bridge.measure import environment_distances
    from lora_bridge.ratios import fit_ratios, pooled_features, ratios_of_shares, whitening
    from lora_bridge.tasks import Task

    raw = pooled_features(bank.model, own)
    features = torch.split(whitening(raw, config.features)(raw).cpu(), config.samples)
    fitted = fit_ratios(features, seed=config.derive("folds", draw) % 2**32)
    shares = torch.from_numpy(np.stack([p.shares for p in people])).to(raw.dtype)
    known = [ratios_of_shares(shares).log().mT[torch.from_numpy(p.domains)] for p in people]
    cells = config.objective == "properties"
    parts = [
        {name: value[i * config.samples : (i + 1) * config.samples] for name, value in own.items()}
        for i in range(config.agents)
    ]
    shards = [
        {
            **part,
            "label_probabilities": torch.from_numpy(person.wanted).to(raw.dtype),
            "features": _cells(person.properties).to(raw) if cells else z,
        }
        for part, person, z in zip(parts, people, features, strict=True)
    ]

    def made(logs: Sequence[Any]) -> Agents:
        rated = [{**one, "log_ratio": log} for one, log in zip(shards, logs, strict=True)]
        seed = config.derive("batches", draw)
        task = Task(bank, rated, soft_cross_entropy(), config.batch, seed, config.on_nan)
        return Agents(task)

    seen = environment_distances(fitted.log_ratio)
    pairs = ~torch.eye(config.agents, dtype=torch.bool)
    return (
        made(known),
        made(fitted.log_ratio),
        {
            "delta_env_seen": float(seen.value[pairs].mean()),
            "delta_env_error": float(seen.error[pairs].mean()),  # of a mean: at most this
            "gain": fitted.gain,
            "temperature": fitted.temperature,
        },
    )


def _cells(properties: Any) -> Any:
    """Which of both properties a text has, one-hot (m, 4), at a second moment of about I."""
    import torch

    place = torch.from_numpy(properties @ [2.0, 1.0]).long()
    return 2.0 * torch.nn.functional.one_hot(place, 4)


def _distances(shares: Any, wanted: Any) -> dict[str, float]:
    """Mean distances of environments and objectives, between agents and to the centre."""
    import torch

    from lora_bridge.measure import objective_distances, share_distances

    targets = torch.from_numpy(wanted)
    pairs = ~torch.eye(len(shares), dtype=torch.bool)
    center = [
        distances(torch.cat([values.mean(0, keepdim=True), values]))[0, 1:]
        for distances, values in ((share_distances, shares), (objective_distances, targets))
    ]
    return {
        "delta_env": float(share_distances(shares)[pairs].mean()),
        "delta_obj": float(objective_distances(targets)[pairs].mean()),
        "delta_center": float((center[0] + center[1]).clamp(max=1.0).mean()),
    }


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


def _times(config: AffPCLConfig) -> list[int]:
    return [round(t) for t in np.linspace(0, config.rounds, POINTS + 1)]


def _run(
    config: AffPCLConfig,
    name: str,
    agents: Agents,
    start: Any,
    test: tuple[Mapping[str, Any], Any, Any],
    folder: Path | None,
) -> dict[str, Any]:
    """What a method is worth at the recorded rounds, by the loop that linear systems run too."""
    from lora_bridge.runs import recorded

    algorithm, local = methods(config)[name], config.local_steps
    steps = Steps(config.alpha, objective=config.alpha_objective / config.alpha)
    x, theta = agents.start(start)
    theta = agents.objective(theta, config.warmup, config.alpha_objective)

    def advance(state: Any, t: int) -> Any:
        run = iterate(algorithm, state, agents.observe, steps, t + 1, local_steps=local, start=t)
        return [after for _, after in run][-1]

    def measure(state: Any) -> dict[str, float]:
        found = _tested(agents, algorithm.personal(state), test, config.batch)
        along = _measured(agents, state) if name == "AffPCL" else {}
        return dict(zip(TESTED, found, strict=True)) | along

    return recorded(name, advance, algorithm.init(x, theta), _times(config), measure, folder=folder)


def _tested(
    agents: Agents, x: Any, test: tuple[Mapping[str, Any], Any, Any], batch: int
) -> tuple[float, float]:
    """Mean over agents of the excess loss, and of the probability that the likelier label is right.

    As many texts at a time as training takes, times eight: without gradients there is room.
    """
    import torch

    from lora_bridge.affpcl import class_logits

    shown, wanted, weights = test
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
