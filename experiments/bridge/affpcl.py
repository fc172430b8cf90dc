"""AffPCL and its rivals on LoRA adapters of one language model: Figures 1 and 2 on texts.

Problem: n agents adapt one frozen model to tell which of two properties a text has, and they differ
in two ways. *Objective*: agent i labels a text by the first property with probability lambda^i,
otherwise by the second one, with lambda^i spread evenly over [1/2 - delta/2, 1/2 + delta/2].
*Environment*: its texts come from domains in shares drawn from a Dirichlet distribution with
concentration ``concentration`` / delta (delta = 0: the same for all). Each has few texts, so that
one alone fits its labels' noise.

Algorithms: exactly those of :mod:`linsys.algorithms`, on :class:`lora_bridge.affpcl.Agents` in
place of a linear system. AffPCL (8) with central objective estimation (7) by a softmax head of
its own that starts some rounds earlier, central decision learning (22-1), and density ratios of
whole minibatches, from a calibrated classifier on frozen features or from the known shares of
domains; the same without ratios, as in Figure 2; independent learning, FedAvg, fine-tuning, Ditto.

Guarantee: none, as the problem is not linear. The checks are the claims of Figure 1: without
heterogeneity AffPCL is as good as FedAvg (up to the factor 1.1 of affpcl/fig1), and at the highest
level not worse than independent learning.

Measured: the *excess* test loss, cross-entropy against the agents' true label probabilities minus
its least value, their entropy; it plays the part of the squared error. All agents are tested on the
same texts, which no one trains on, each weighted to an agent's domains. Checks compare geometric
means over seeds of ratios within a seed, where all methods see the same minibatches, over the last
third of the rounds, with Student's 95 % interval. Beside them: distances of environments and
objectives, gradient noise and alignment at the common start.

Where the claims end, with the built-in model and docstrings at delta = 0, over five seeds: (i) with
targets drawn as labels AffPCL's excess loss is 2.0 (1.7 to 2.5) times FedAvg's, no better than
independent learning's. The noise of labels is in g^i and not in h^i, and nothing cancels it; the
theory has no such noise, its b^i(s) is a function of s. (ii) With theta's head on frozen features,
which realise the targets in part, it is 1.4 (1.2 to 1.6) times FedAvg's: what theta cannot say
counts as noise too. (iii) With targets as probabilities and a head that realises them it is 1.09
(0.96 to 1.22) times FedAvg's, about three quarters of independent learning's.

Without ``model``, the small built-in one; ``targets`` must name modules of the model at hand.

References: AffPCL, Section 7 and Appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from experiments._intervals import paired_ratio
from experiments._model import Analysis, Block, Check, Columns, Config, Context, Experiment, Series
from experiments._plots import curves, legend, panels
from experiments._rates import at_most, below, mean_band
from experiments._table import Table, long_table
from experiments.bridge._text import Person, deal, probabilities, read
from linsys import InputError
from linsys._validate import number, whole
from linsys.algorithms import (
    AffPCL,
    Algorithm,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    Steps,
    iterate,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.affpcl import Agents

PLAIN = "AffPCL, no ratios"
#: "As good as": the factor of affpcl/fig1.
MARGIN = 1.1
#: The model that is used without a folder: see :class:`lora_bridge.models.BuiltIn`.
SMALL = {"hidden": 32, "layers": 1, "heads": 2}
#: Times of a curve after the start; the last third of them is judged.
POINTS = 6


@dataclass(frozen=True, kw_only=True)
class AffPCLConfig(Config):
    """The set-up.

    Args:
        model: folder of a model; None: the built-in one.
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
        ratio: where AffPCL's density ratios come from.
        concentration: of the domains' shares at delta = 1.
        labels: an agent's targets are its "probabilities", or labels "drawn" from them.
        switch: share of the rounds after which fine-tuning leaves FedAvg.
        regularization: Ditto's.
        max_length: tokens of a text; longer ones lose their ends.
        dtype: of the adapters and the model; "bfloat16" computes the model's products in it.
        device: "cpu" or "cuda".
    """

    model: Path | None = None
    data: Path | None = None
    levels: tuple[float, ...] = (0.0, 0.5, 1.0)
    agents: int = 6
    samples: int = 60
    tests: int = 100
    seeds: int = 5
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
    ratio: Literal["classifier", "shares"] = "classifier"
    concentration: float = 1.0
    labels: Literal["probabilities", "drawn"] = "probabilities"
    switch: float = 0.5
    regularization: float = 1.0
    max_length: int = 512
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
        PLAIN: AffPCL(ratio="none"),
        "Independent": Independent(),
        "FedAvg": FedAvg(),
        "Fine-tuning": FineTuning(round(config.switch * config.rounds)),
        "Ditto": Ditto(config.regularization),
    }


def blocks(config: AffPCLConfig) -> list[Block]:
    """One level and one seed at a time."""
    return [{"level": level, "draw": k} for level in config.levels for k in range(config.seeds)]


def compute(config: AffPCLConfig, block: Block, context: Context) -> Columns:
    """Excess loss and accuracy of every method over the rounds, and the agents' affinities."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(context.threads)
    try:
        return _compute(config, float(block["level"]), int(block["draw"]))
    finally:
        torch.set_num_threads(before)


def _compute(config: AffPCLConfig, level: float, draw: int) -> Columns:
    import torch

    from lora_bridge.bank import AdapterBank
    from lora_bridge.models import BuiltIn, built_in, load_model
    from lora_bridge.tokens import encode_texts

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
        config.model or built_in(made=BuiltIn(**SMALL)),
        "classifier",
        dtype=dtype,
        device=config.device,
        seed=config.derive("head") % 2**32,
    )
    autocast = torch.bfloat16 if config.dtype == "bfloat16" else None
    bank = AdapterBank(loaded.model, config.targets, config.scaling, autocast=autocast)
    used = np.concatenate([*(p.chosen for p in people), test])
    tokens = encode_texts(
        loaded.tokenizer, [corpus.texts[j] for j in used], config.max_length, "cut"
    )
    own = {name: value[: -config.tests] for name, value in tokens.items()}
    agents, affinity = _agents(config, draw, bank, people, own)
    wanted = np.stack([probabilities(corpus.properties[test], weight) for weight in lambdas])
    start = torch.from_numpy(
        bank.modules.start(config.rank, np.random.default_rng(config.derive("start", draw)))
    ).to(dtype=dtype, device=config.device)
    affinity |= _measured(agents, start, wanted)
    shown = {name: value[-config.tests :] for name, value in tokens.items()}
    weights = np.stack([p.weights for p in people])
    named = methods(config)
    runs = [_run(config, agents, a, start, (shown, wanted, weights)) for a in named.values()]
    times = np.array(_times(config))
    excess, accuracy = np.transpose(runs, (2, 0, 1))
    axes = {"method": np.array(list(named)), "t": times}
    said = {"model": loaded.name, "data": corpus.name, "properties": "; ".join(corpus.said)}
    return long_table(axes, excess=excess, accuracy=accuracy, **affinity, **said)


def _agents(
    config: AffPCLConfig, draw: int, bank: Any, people: list[Person], own: Mapping[str, Any]
) -> tuple[Agents, dict[str, Any]]:
    """The agents with targets, features and density ratios, and how far their texts are apart."""
    import torch

    from lora_bridge.affpcl import Agents, soft_cross_entropy
    from lora_bridge.measure import environment_distances, share_distances
    from lora_bridge.ratios import fit_ratios, pooled_features, ratios_of_shares, whitening
    from lora_bridge.tasks import Task

    raw = pooled_features(bank.model, own)
    features = torch.split(whitening(raw, config.features)(raw).cpu(), config.samples)
    fitted = fit_ratios(features, seed=config.derive("folds", draw) % 2**32)
    shares = torch.from_numpy(np.stack([p.shares for p in people])).to(raw.dtype)
    cells = config.objective == "properties"
    logs: list[Any] = list(fitted.log_ratio)
    if config.ratio == "shares":
        logs = [ratios_of_shares(shares).log().mT[torch.from_numpy(p.domains)] for p in people]
    parts = [
        {name: value[i * config.samples : (i + 1) * config.samples] for name, value in own.items()}
        for i in range(config.agents)
    ]
    shards = [
        {
            **part,
            "label_probabilities": torch.from_numpy(person.wanted).to(raw.dtype),
            "features": _cells(person.properties).to(raw) if cells else z,
            "log_ratio": log,
        }
        for part, person, z, log in zip(parts, people, features, logs, strict=True)
    ]
    task = Task(bank, shards, soft_cross_entropy(), config.batch, config.derive("batches", draw))
    seen = environment_distances(fitted.log_ratio)
    pairs = ~torch.eye(config.agents, dtype=torch.bool)
    return Agents(task), {
        "delta_env": float(share_distances(shares)[pairs].mean()),
        "delta_env_seen": float(seen.value[pairs].mean()),
        "delta_env_error": float(seen.error[pairs].mean()),  # of a mean: at most this
        "gain": fitted.gain,
        "temperature": fitted.temperature,
    }


def _cells(properties: Any) -> Any:
    """Which of both properties a text has, one-hot (m, 4), at a second moment of about I."""
    import torch

    place = torch.from_numpy(properties @ [2.0, 1.0]).long()
    return 2.0 * torch.nn.functional.one_hot(place, 4)


def _measured(agents: Agents, start: Any, wanted: Any) -> dict[str, float]:
    """Distances of objectives, and the gradients at the common start."""
    import torch

    from lora_bridge.measure import gradients_of, objective_distances

    found = gradients_of(agents.task, start.expand(agents.n, *start.shape))
    pairs = ~torch.eye(agents.n, dtype=torch.bool)
    objectives = objective_distances(torch.from_numpy(wanted))
    return {
        "delta_obj": float(objectives[pairs].mean()),
        "alignment": float(found.alignment().cpu()[pairs].mean()),
        "noise": float((found.noise / (found.mean**2).sum(1)).mean()),
    }


def _times(config: AffPCLConfig) -> list[int]:
    return [round(t) for t in np.linspace(0, config.rounds, POINTS + 1)]


def _run(
    config: AffPCLConfig,
    agents: Agents,
    algorithm: Algorithm[Any],
    start: Any,
    test: tuple[Any, Any, Any],
) -> list[tuple[float, float]]:
    """(excess loss, accuracy) at the recorded rounds."""
    steps = Steps(config.alpha, objective=config.alpha_objective / config.alpha)
    x, theta = agents.start(start)
    theta = agents.objective(theta, config.warmup, config.alpha_objective)
    run: Iterator[tuple[int, Any]] = iterate(
        algorithm,
        algorithm.init(x, theta),
        agents.observe,
        steps,
        config.rounds,
        local_steps=config.local_steps,
    )
    times = set(_times(config))
    return [
        _tested(agents, algorithm.personal(state), test, config.batch)
        for t, state in run
        if t in times
    ]


def _tested(
    agents: Agents, x: Any, test: tuple[Mapping[str, Any], Any, Any], batch: int
) -> tuple[float, float]:
    """Mean over agents of the excess loss, and of the probability that the likelier label is right.

    As many texts at a time as training takes, times eight: without gradients there is room.
    """
    import torch

    shown, wanted, weights = test
    X, at_once, parts = agents.rows(x), 8 * batch, []
    with torch.no_grad():
        for start in range(0, wanted.shape[1], at_once):
            part = {
                name: value[start : start + at_once].to(X.device).expand(agents.n, -1, -1)
                for name, value in shown.items()
            }
            logits = agents.task.bank.output(X, part).logits.double()
            parts.append(torch.log_softmax(logits, -1).reshape(agents.n, -1, 2).cpu())
    said = torch.cat(parts, 1).numpy()
    if not np.isfinite(said).all():
        raise InputError("`alpha` must be small enough for training; found numbers that overflow")
    entropy = -np.where(wanted > 0, wanted * np.log(np.where(wanted > 0, wanted, 1.0)), 0.0)
    excess = -(wanted * said).sum(-1) - entropy.sum(-1)
    right = np.take_along_axis(wanted, said.argmax(-1)[..., None], -1)[..., 0]
    return float((weights * excess).sum(1).mean()), float((weights * right).sum(1).mean())


def analyse(config: AffPCLConfig, table: Table) -> Analysis:
    """Curves with 90 % bands, the claims as paired ratios, and what was measured of the agents."""
    loss: list[Series] = []
    accuracy: list[Series] = []
    checks: list[Check] = []
    notes = [
        f"model {table['model'][0]}; data {table['data'][0]}; seed {config.seed}, "
        f"{config.seeds} draws of agents and start",
        f"properties: {table['properties'][0]}",
    ]
    for level in config.levels:
        part, panel = table.where(level=level), f"δ = {level:g}"
        late = {}
        for name in methods(config):
            rows = part.where(method=name)
            t, grid = rows.unique("t"), rows.grid("excess", "draw", "t")
            loss.append(Series(name, panel, t, *mean_band(grid)))
            right = mean_band(rows.grid("accuracy", "draw", "t"))
            accuracy.append(Series(name, f"{panel}, accuracy", t, *right))
            late[name] = grid[:, t > 2 * config.rounds / 3].mean(axis=1)
        checks += _claims(config, level, late)
        notes.append(_said(level, part, late))
    return Analysis([*loss, *accuracy], checks, notes)


def _claims(config: AffPCLConfig, level: float, late: Mapping[str, Any]) -> list[Check]:
    found = []
    remark = f"up to a factor of {MARGIN:g}"
    for name in ("AffPCL", PLAIN):
        if level == 0:
            ratio = paired_ratio(late[name], late["FedAvg"])
            said = f"{name} / FedAvg (δ = 0)"
            found.append(at_most(said, "as good as FedAvg", ratio, MARGIN, remark=remark))
        if level == max(config.levels) and level > 0:
            ratio = paired_ratio(late[name], late["Independent"])
            said = f"{name} / Independent (δ = {level:g})"
            found.append(at_most(said, "not worse than independent", ratio, 1.0))
    if level == 0:  # otherwise there is nothing to gain from each other
        ratio = paired_ratio(late["FedAvg"], late["Independent"])
        found.append(below("FedAvg / Independent (δ = 0)", "FedAvg < Independent", ratio))
    return found


def _said(level: float, part: Table, late: Mapping[str, Any]) -> str:
    """What was measured of the agents of one level, means over draws, and every method's error."""
    once = part.where(method="AffPCL", t=0)
    mean = {name: float(once[name].mean()) for name in once if once[name].dtype.kind == "f"}
    errors = ", ".join(f"{name} {value.mean():.3f}" for name, value in late.items())
    return (
        f"at δ = {level:g}: mean distance of environments {mean['delta_env']:.2f} (seen by the "
        f"classifier: at least {mean['delta_env_seen']:.2f} ± {mean['delta_env_error']:.2f}, gain "
        f"{mean['gain']:.3f} nats at temperature {mean['temperature']:.2g}), of objectives "
        f"{mean['delta_obj']:.2f}; at the start the agents' gradients have a mean cosine of "
        f"{mean['alignment']:.2f} and a sample's noise is {mean['noise']:.3g} times their square; "
        f"excess loss over the last third: {errors}"
    )


def draw(config: AffPCLConfig, analysis: Analysis) -> Figure:
    """Excess losses above, accuracies below; one column per level."""
    figure, axes = panels(analysis.series, columns=len(config.levels), share_y=False)
    curves(axes, analysis.series)
    for name, ax in axes.items():
        ax.set_xlabel("round $t$")
        if "accuracy" not in name:
            ax.set_yscale("log")
    upper = [ax for name, ax in axes.items() if "accuracy" not in name]
    lower = [ax for name, ax in axes.items() if "accuracy" in name]
    upper[0].set_ylabel("excess test loss")
    lower[0].set_ylabel("accuracy")
    legend(figure, axes, columns=3)
    return figure


EXPERIMENT = Experiment(
    id="bridge/affpcl",
    title="AffPCL and its rivals on LoRA-adapted language models",
    source="Figures 1 and 2, Section 7",
    kind="figure",
    config_type=AffPCLConfig,
    profiles={
        "quick": AffPCLConfig(),
        "paper": AffPCLConfig(
            levels=(0.0, 0.2, 0.6, 1.0),
            agents=10,
            samples=120,
            tests=500,
            seeds=10,
            rounds=400,
            batch=8,
            device="cuda",
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
