"""Agents with texts of their own and adapters of one model, as ``bridge/affpcl`` draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

import ratecheck as rc
from experiments.affpcl.bridge._text import Person, deal, probabilities, read
from experiments.bridge.models import ScaledConfig
from experiments.bridge.setup import SMALL, Setup, divided
from linsys import InputError

if TYPE_CHECKING:
    from lora_bridge.affpcl import Agents
    from lora_bridge.bank import AdapterBank


@dataclass(frozen=True, kw_only=True)
class AffPCLConfig(ScaledConfig):
    """The set-up."""

    not_in_key: ClassVar[frozenset[str]] = frozenset({"chunk", "checkpoint", "cards"})
    #: Width of the built-in model.
    hidden: ClassVar[int] = 32

    model: Path | None = rc.param(
        None,
        doc="folder of a model; None: the built-in one, which learns from the prompts of data.",
    )
    data: Path | None = rc.param(None, doc="a file of texts; None: docstrings.")
    levels: tuple[float, ...] = rc.param(
        (0.0, 0.2, 0.6, 1.0), low=0.0, high=1.0, doc="delta, each in [0, 1]."
    )
    agents: int = rc.param(6, low=2, doc="n.")
    samples: int = rc.param(60, low=5, doc="texts of an agent.")
    tests: int = rc.param(100, low=2, doc="texts of the common test.")
    seeds: int = rc.param(8, low=2, doc="how often all is drawn anew.")
    rounds: int = rc.param(60, low="points", doc="communications.")
    points: int = rc.param(
        6,
        low=1,
        doc="rounds at which all is measured, after the start; checks use the last third of them.",
    )
    local_steps: int = rc.param(1, low=1, doc="minibatches between two communications.")
    batch: int = rc.param(4, low=1, doc="texts of a minibatch.")
    draws: int = rc.param(16, low=2, doc="minibatches from which a variance is estimated.")
    alpha: float = rc.param(0.05, above=0.0, doc="step size of the adapters.")
    alpha_objective: float = rc.param(0.25, above=0.0, doc="step size of the head theta.")
    rank: int = rc.param(4, low=1, doc="of the adapters.")
    scaling: float = rc.param(2.0, above=0.0, doc="factor of B A.")
    targets: tuple[str, ...] = rc.param(
        ("o_proj", "down_proj", "score"), doc="names of the adapted modules."
    )
    layers: int | None = rc.param(
        None, low=1, doc="only the modules of so many last layers are adapted; None: of all."
    )
    features: int = rc.param(32, low=1, doc="directions of the frozen features.")
    objective: Literal["features", "properties"] = rc.param(
        "properties",
        doc=(
            'what theta\'s head sees: which of the "properties" a text has, which realises '
            'every target, as in Figure 2, or the frozen "features", which do so in part.'
        ),
    )
    warmup: int = rc.param(50, doc="rounds of (7) before the others.")
    concentration: float = rc.param(1.0, above=0.0, doc="of the domains' shares at delta = 1.")
    labels: Literal["probabilities", "drawn"] = rc.param(
        "probabilities",
        doc='an agent\'s targets are its "probabilities", or labels "drawn" from them.',
    )
    switch: float = rc.param(
        0.5, low=0.0, high=1.0, doc="share of the rounds after which fine-tuning leaves FedAvg."
    )
    regularization: float = rc.param(1.0, low=0.0, doc="Ditto's.")
    max_length: int = rc.param(512, doc="tokens of a text; longer ones lose their ends.")
    chunk: int | None = rc.param(
        None, doc="agents that go through the model together; None for all."
    )
    checkpoint: bool = rc.param(
        False, doc="keep less memory for gradients, for a third more time: layers compute twice."
    )
    on_nan: Literal["stop", "skip"] = rc.param(
        "stop",
        doc=(
            'what to do with an agent whose loss or gradient is not finite: "stop", or '
            '"skip" it, so that it stands still in this step.'
        ),
    )
    dtype: Literal["float32", "float64", "bfloat16"] = rc.param(
        "float32",
        doc='of the adapters and the model; "bfloat16" computes the model\'s products in it.',
    )
    device: str = rc.param("cpu", doc='"cpu" or "cuda".')
    cards: int = rc.param(
        1, low=1, doc="graphics cards that divide the agents, or processes on a processor."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.levels)) != len(self.levels):
            raise InputError(f"`levels` must be distinct; found {self.levels}")

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(t) for t in np.linspace(0, self.rounds, self.points + 1)]


class Exam(NamedTuple):
    """The texts that all agents are tested on.

    tokens: (tests, T) each. wanted: an agent's probabilities of no and yes, (n, tests, 2). weights:
    how much a text counts for an agent, (n, tests), sum 1.
    """

    tokens: Mapping[str, Any]
    wanted: Any
    weights: Any


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of agents and of where they start.

    Attributes:
        known, estimated: the agents with known density ratios and with estimated ones.
        start: first adapter of all, (r, w).
        exam: what they are tested on.
        affinity: how far they are apart, and seem to be, by the columns' names.
        description: of model and data.
    """

    known: Agents
    estimated: Agents
    start: Any
    exam: Exam
    affinity: Mapping[str, float]
    description: Mapping[str, str]


class AgentSetup(Setup):
    """The model of agents, and draws of them."""

    config: AffPCLConfig
    task: ClassVar[str] = "classifier"
    autocast: ClassVar[bool] = True
    sizes: ClassVar[tuple[int, ...]] = SMALL

    def draw(self, level: float, draw: int) -> Draw:
        """The agents of a level and a draw; their exam has the same texts at every level."""
        import torch

        from lora_bridge.tokens import encode_texts

        config, corpus = self.config, read(self.config.data)
        lambdas = 0.5 + level * (np.linspace(0.0, 1.0, config.agents) - 0.5)
        rng = np.random.default_rng(config.derive("texts", draw))
        concentration = config.concentration / level if level else math.inf
        drawn, counts = config.labels == "drawn", (config.samples, config.tests)
        people, test = deal(corpus, rng, lambdas, *counts, concentration, drawn)
        used = np.concatenate([*(p.chosen for p in people), test])
        tokens = self.encoded(encode_texts, [corpus.texts[j] for j in used])
        own, exam = divided(tokens, (config.agents * config.samples, config.tests))
        bank = self.bank()
        known, estimated, seen = _agents(config, draw, bank, people, own)
        targets = np.stack([probabilities(corpus.properties[test], weight) for weight in lambdas])
        rng = np.random.default_rng(config.derive("start", draw))
        start = self.tensor(bank.modules.start(config.rank, rng))
        shares = torch.from_numpy(np.stack([p.shares for p in people]))
        return Draw(
            known,
            estimated,
            start,
            Exam(exam, targets, np.stack([p.weights for p in people])),
            affinity=seen | _distances(shares, targets),
            description={
                "model": self.loaded.name,
                "data": self.source(corpus.name, tokens, left_out=corpus.left_out),
                "properties": "; ".join(corpus.wording),
            },
        )


def _agents(
    config: AffPCLConfig, draw: int, bank: AdapterBank, people: list[Person], own: Mapping[str, Any]
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
    parts = divided(own, [config.samples] * config.agents)
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

    bounds = environment_distances(fitted.log_ratio)
    pairs = ~torch.eye(config.agents, dtype=torch.bool)
    return (
        made(known),
        made(fitted.log_ratio),
        {
            "delta_env_seen": float(bounds.value[pairs].mean()),
            "delta_env_error": float(
                bounds.error[pairs].mean()
            ),  # the error of a mean is at most this
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
