"""AffPCL and its rivals on LoRA adapters of one language model: Figures 1 and 2 on texts.

Problem: n agents adapt one frozen model to tell which of two properties a text has, and they differ
in two ways. *Objective*: agent i labels a text by the first property with probability lambda^i,
otherwise by the second one, with lambda^i spread evenly over [1/2 - delta/2, 1/2 + delta/2].
*Environment*: its texts come from domains (of the file, or the classes that both properties make,
as users of Figure 2 have different mixes of classes) in shares drawn from a Dirichlet distribution
with concentration ``concentration`` / delta (delta = 0: the same for all). Each has few texts, so
that one alone fits its labels' noise.

Algorithms: exactly those of :mod:`linsys.algorithms`, on :class:`lora_bridge.affpcl.Agents` in
place of a linear system. AffPCL (8) with central objective estimation (7) by a linear head of its
own that starts some rounds earlier, central decision learning (22-1), and density ratios of whole
minibatches, known from the shares of domains; the same with ratios estimated by a calibrated
classifier on frozen features, and without any, as in Figure 2; independent learning, FedAvg,
fine-tuning, Ditto.

Guarantee: none, as the problem is not linear. The checks are the claims of Figure 1: without
heterogeneity AffPCL is as good as FedAvg (up to the factor 1.1 of affpcl/fig1), at the highest
level not worse than independent learning, and better than without the ratios that the theory takes
as known; and of Theorem 1: the variance of its direction is 1/n of an agent's own at delta = 0,
grows with delta, and is never more than the agent's own.

Measured: the *excess* test loss, cross-entropy against the agents' true label probabilities minus
its least value, their entropy; it plays the part of the squared error. All agents are tested on the
same texts, which no one trains on, each weighted to an agent's domains. Checks compare geometric
means over seeds of ratios within a seed, where all methods see the same minibatches, over the last
third of the rounds, with Student's 95 % interval. Beside them, along AffPCL's path: gradient noise
and alignment at the centre, and the share of an agent's own noise that AffPCL leaves, at the
agents' points and with all of them at the centre's.

Settings: alpha is the step of {0.0125, 0.025, 0.05, 0.1} with which independent learning, the
rival, has the least error at delta = 0 (at delta = 1 it loses 6 % against 0.025); the levels are
Figure 2's.

Where the claims end, with the built-in model and docstrings (quick profile, eight seeds):

- *delta = 0.* With targets as probabilities and a head that realises them AffPCL is FedAvg to five
  digits, 0.65 (0.56 to 0.76) times independent learning. A *softmax* head in place of the linear
  one has targets of 0 and 1 at infinity, and its last 4 % cost 8 % of the loss after 50 rounds on
  its own, 0.5 % after 500 (five seeds). On frozen features, which realise the targets in part, the
  error is 1.8 (1.4 to 2.2) times FedAvg's, and with targets that are drawn labels 2.1 (1.8 to 2.4)
  times, in both no better than alone: that noise is in g^i and not in h^i, and nothing cancels it.
  The theory has none of it, its b^i(s) is a function of s and Phi(s) theta can say it.
- *delta = 1.* 1.05 (0.94 to 1.17) times independent learning: not decided. With estimated ratios
  1.36 (1.10 to 1.69), without any 1.48 (1.26 to 1.73): "never worse" needs the true ones, and sixty
  texts per agent do not show them.
- *Noise.* 1/n at delta = 0 along the whole path. At delta = 0.2 it starts at 0.29 of an agent's own
  and ends at 1.4, while with all points at the centre's it stays at 0.33 or so (two draws): what
  grows is A(s)(x^i - x^c). The theory bounds that distance by the contraction of the mean
  iteration; adapters have many more numbers than texts, most directions do not contract, and x^i
  leaves x^c all the way.

Without ``model``, the small built-in one; ``targets`` must name modules of the model at hand.

References: AffPCL, Section 7 and Appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from experiments._intervals import mean_interval, paired_ratio
from experiments._model import Analysis, Block, Check, Columns, Config, Context, Experiment, Series
from experiments._plots import curve, legend, look, panels
from experiments._rates import above, at_most, below, mean_band
from experiments._table import Table, long_table
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
    from matplotlib.figure import Figure

    from lora_bridge.affpcl import Agents

ESTIMATED = "AffPCL, estimated ratios"
PLAIN = "AffPCL, no ratios"
#: AffPCL's noise where the agents' points are the centre's, so that only objectives and
#: environments differ.
COMMON = "AffPCL at the centre"
#: Panels beside those of the levels.
RELATIVE, SHARE, ALONG = "excess / independent", "noise / alone", "AffPCL's noise / alone"
#: "As good as": the factor of affpcl/fig1.
MARGIN = 1.1
#: The model that is used without a folder: see :class:`lora_bridge.models.BuiltIn`.
SMALL = {"hidden": 32, "layers": 1, "heads": 2}
#: What every method is tested for.
TESTED = ("excess", "accuracy")
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


def blocks(config: AffPCLConfig) -> list[Block]:
    """One level and one seed at a time."""
    return [{"level": level, "draw": k} for level in config.levels for k in range(config.seeds)]


def compute(config: AffPCLConfig, block: Block, context: Context) -> Columns:
    """Excess loss and accuracy of every method over the rounds, and the agents' affinities."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(context.threads)
    try:
        return _compute(config, float(block["level"]), int(block["draw"]), context.folder)
    finally:
        torch.set_num_threads(before)


def _compute(config: AffPCLConfig, level: float, draw: int, folder: Path | None) -> Columns:
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
    said = {"model": loaded.name, "data": corpus.name, "properties": "; ".join(corpus.said)}
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
        return Agents(Task(bank, rated, soft_cross_entropy(), config.batch, seed))

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
    errors = {}
    for level in config.levels:
        part, panel = table.where(level=level), _panel(level)
        late = {}
        for name in methods(config):
            rows = part.where(method=name)
            t, grid = rows.unique("t"), rows.grid("excess", "draw", "t")
            loss.append(Series(name, panel, t, *mean_band(grid)))
            right = mean_band(rows.grid("accuracy", "draw", "t"))
            accuracy.append(Series(name, f"{panel}, accuracy", t, *right))
            late[name] = grid[:, t > 2 * config.rounds / 3].mean(axis=1)
        errors[level] = late
        checks += _claims(config, level, late)
        notes.append(_said(level, part, late))
    noise, found = _noise(config, table)
    series = [*loss, *accuracy, *_against_level(config, errors), *noise]
    return Analysis(series, [*checks, *found], notes)


def _panel(level: float) -> str:
    return f"δ = {level:g}"


def _claims(config: AffPCLConfig, level: float, late: Mapping[str, Any]) -> list[Check]:
    """What the theory says of known ratios; estimated ones are in the notes, with their price."""
    ours, found = late["AffPCL"], []
    if level == 0:
        said, limit = "AffPCL / FedAvg (δ = 0)", f"up to a factor of {MARGIN:g}"
        ratio = paired_ratio(ours, late["FedAvg"])
        found.append(at_most(said, "as good as FedAvg", ratio, MARGIN, remark=limit))
        # otherwise there is nothing to gain from each other
        ratio = paired_ratio(late["FedAvg"], late["Independent"])
        found.append(below("FedAvg / Independent (δ = 0)", "FedAvg < Independent", ratio))
    if level == max(config.levels) and level > 0:
        said = f"AffPCL / Independent (δ = {level:g})"
        ratio = paired_ratio(ours, late["Independent"])
        found.append(at_most(said, "not worse than independent", ratio, 1.0))
        for other in (ESTIMATED, PLAIN):
            said = f"AffPCL / {other} (δ = {level:g})"
            ratio = paired_ratio(ours, late[other])
            found.append(below(said, "known ratios are better", ratio))
    return found


def _against_level(config: AffPCLConfig, errors: Mapping[float, Mapping[str, Any]]) -> list[Series]:
    """Every method's error over independent learning's, by level."""
    levels, made = sorted(errors), []
    for name in methods(config):
        if name != "Independent":
            ratios = [paired_ratio(errors[x][name], errors[x]["Independent"]) for x in levels]
            bounds = np.array([(r.value, r.lo, r.hi) for r in ratios]).T
            made.append(Series(name, RELATIVE, levels, *bounds))
    return made


def _noise(config: AffPCLConfig, table: Table) -> tuple[list[Series], list[Check]]:
    """The share of its noise that AffPCL leaves to an agent: by level, and along the path."""
    levels, n = sorted(config.levels), config.agents
    parts = {x: table.where(level=x, method="AffPCL") for x in levels}
    along = {x: parts[x].grid("together", "draw", "t") for x in levels}
    by_draw = {x: grid.mean(axis=1) for x, grid in along.items()}
    made = []
    for name, key in (("AffPCL", "together"), (COMMON, "common")):
        found = [mean_interval(parts[x].grid(key, "draw", "t").mean(axis=1)) for x in levels]
        bounds = np.array([(f.value, f.lo, f.hi) for f in found]).T
        made.append(Series(name, SHARE, levels, *bounds))
    bound = [max(1 / n, float(parts[x]["delta_center"].mean())) for x in levels]
    made.append(Series("theory", SHARE, levels, bound))
    t = parts[levels[0]].unique("t")
    made += [Series(_panel(x), ALONG, t, *mean_band(along[x])) for x in levels]
    checks = []
    if levels[0] == 0:
        limit, share = MARGIN / n, mean_interval(by_draw[0.0])
        remark = f"up to a factor of {MARGIN:g}"
        checks.append(at_most("share of noise (δ = 0)", 1 / n, share, limit, remark=remark))
    if len(levels) > 1:
        low, high = levels[0], levels[-1]
        grows = paired_ratio(by_draw[high], by_draw[low])
        name = f"share of noise, δ = {high:g} / δ = {low:g}"
        checks.append(above(name, "grows with δ", grows, 1.0))
    if levels[-1] > 0:
        share = mean_interval(by_draw[levels[-1]])
        name = f"share of noise (δ = {levels[-1]:g})"
        checks.append(at_most(name, "no more than alone", share, 1.0))
    return made, checks


def _said(level: float, part: Table, late: Mapping[str, Any]) -> str:
    """What was measured of the agents of one level, means over draws, and every method's error."""
    ours = part.where(method="AffPCL")
    mean = {name: float(ours[name].mean()) for name in ours if ours[name].dtype.kind == "f"}
    ends = {
        key: " to ".join(f"{ours.where(t=t)[key].mean():.2g}" for t in ours.unique("t")[[0, -1]])
        for key in ("alignment", "noise", "own", "left", "together", "common", "distance")
    }
    errors = ", ".join(f"{name} {value.mean():.3f}" for name, value in late.items())
    price = paired_ratio(late[ESTIMATED], late["Independent"])
    return (
        f"at δ = {level:g}: mean distance of environments {mean['delta_env']:.2f} (seen by the "
        f"classifier: at least {mean['delta_env_seen']:.2f} ± {mean['delta_env_error']:.2f}, gain "
        f"{mean['gain']:.3f} nats at temperature {mean['temperature']:.2g}), of objectives "
        f"{mean['delta_obj']:.2f}; both together to the centre {mean['delta_center']:.2f}; from "
        f"the start to the end of AffPCL's path the agents' gradients at the centre have a mean "
        f"cosine of {ends['alignment']}, a sample's noise is {ends['noise']} times their square, "
        f"that of an agent's own minibatch is {ends['own']}, of which the centre leaves "
        f"{ends['left']} times as much and AffPCL {ends['together']} times ({ends['common']} where "
        f"all are at the centre, from which their distance is {ends['distance']}); excess loss "
        f"over the last third: {errors}; with estimated ratios {price.value:.2f} [{price.lo:.2f}, "
        f"{price.hi:.2f}] times independent learning's"
    )


def draw(config: AffPCLConfig, analysis: Analysis) -> Figure:
    """Excess losses above, accuracies in the middle, one column per level; affinity below."""
    affinity = (RELATIVE, SHARE, ALONG)
    series = sorted(analysis.series, key=lambda one: one.panel in affinity)
    columns = max(len(config.levels), len(affinity))
    figure, axes = panels(series, columns=columns, share_y=False)
    for one in series:
        own, ax = _look(config, one.name), axes[one.panel]
        curve(ax, replace(one, lo=None, hi=None) if own else one, **own)
        if own and one.lo is not None and one.hi is not None:
            x, lo, hi = (np.asarray(values) for values in (one.x, one.lo, one.hi))
            ax.fill_between(x, lo, hi, color=own["color"], alpha=0.12, linewidth=0)
    for name, ax in axes.items():
        by_level = name in (RELATIVE, SHARE)
        ax.set_xlabel("level $\\delta$" if by_level else "round $t$")
        if name in affinity:
            ax.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    for place, label in ((0, "excess test loss"), (1, "accuracy")):
        list(axes.values())[place * len(config.levels)].set_ylabel(label)
    legend(figure, axes, columns=4)
    return figure


def _look(config: AffPCLConfig, name: str) -> dict[str, Any]:
    """Variants of AffPCL have its colour, levels go from light to dark."""
    if name in (ESTIMATED, PLAIN):
        line = "--" if name == ESTIMATED else ":"
        return {"color": look("AffPCL").colour, "marker": "v", "linestyle": line}
    if name == COMMON:
        return {"color": "0.4", "marker": "d", "linestyle": "--"}
    levels = [_panel(level) for level in sorted(config.levels)]
    if name in levels:
        shade = 0.75 * (1.0 - levels.index(name) / len(levels))
        return {"color": str(shade), "marker": None}
    return {}


EXPERIMENT = Experiment(
    id="bridge/affpcl",
    title="AffPCL and its rivals on LoRA-adapted language models",
    source="Figures 1 and 2, Section 7",
    kind="figure",
    config_type=AffPCLConfig,
    profiles={
        "quick": AffPCLConfig(),
        "paper": AffPCLConfig(
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
