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
Figure 2's. The laptop profile is sized by its time on two cores: it adapts the last two layers of
its model, below which a text is computed once. With SmolLM2-135M-Instruct the largest curvature L
of a minibatch's loss at the start is 101 to 139 (four draws, six steps of Lanczos' method), and
steps beyond 2 / L = 0.014 do not contract there; alpha = 0.008 is just over half of that. At 0.02
errors were above those of guessing.

Where the claims end, with the built-in model and docstrings (quick profile, eight seeds):

- *delta = 0.* With targets as probabilities and a head that realises them AffPCL is FedAvg to five
  digits, 0.65 (0.56 to 0.77) times independent learning. A *softmax* head in place of the linear
  one has targets of 0 and 1 at infinity, and its last 4 % cost 8 % of the loss after 50 rounds on
  its own, 0.5 % after 500 (five seeds). On frozen features, which realise the targets in part, the
  error is 1.8 (1.4 to 2.2) times FedAvg's, and with targets that are drawn labels 2.1 (1.8 to 2.4)
  times, in both no better than alone: that noise is in g^i and not in h^i, and nothing cancels it.
  The theory has none of it, its b^i(s) is a function of s and Phi(s) theta can say it.
- *delta = 1.* 1.05 (0.94 to 1.18) times independent learning: not decided. With estimated ratios
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

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.bridge._agents import AffPCLConfig, AgentSetup, Draw, Exam
from experiments.bridge.models import threads
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
    from matplotlib.figure import Figure

    from lora_bridge.affpcl import Agents

ESTIMATED = "AffPCL, estimated ratios"
PLAIN = "AffPCL, no ratios"
#: The quantities that are measured on the test set.
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
        drawn = AgentSetup(config).draw(float(block["level"]), int(block["draw"]))
        named = methods(config)
        runs = {name: _run(config, name, drawn, context.folder) for name in named}
    excess, accuracy = (np.stack([run[key] for run in runs.values()]) for key in TESTED)
    path = {key: value for key, value in runs["AffPCL"].items() if key not in TESTED}
    axes = {"method": np.array(list(named)), "t": np.array(config.times)}
    columns = {**path, **drawn.affinity, **drawn.description}
    return rc.long_table(axes, excess=excess, accuracy=accuracy, **columns)


def _run(config: AffPCLConfig, name: str, drawn: Draw, folder: Path | None) -> dict[str, Any]:
    """The measured quantities of a method at the recorded rounds, by the loop of linear systems."""
    from lora_bridge.peft_io import by_client
    from lora_bridge.runs import recorded

    agents = drawn.estimated if name == ESTIMATED else drawn.known
    algorithm = methods(config)[name]
    steps = Steps(config.alpha, objective=config.alpha_objective / config.alpha)
    x, theta = agents.start(drawn.start)
    start = Start(x, agents.objective(theta, config.warmup, config.alpha_objective))
    oracle = Sampling(agents.observe, steps, local_steps=config.local_steps)

    def measure(state: Any) -> dict[str, float]:
        tested = _test_scores(agents, algorithm.personal(state), drawn.exam, config.batch)
        along = _measured(agents, state, config.draws) if name == "AffPCL" else {}
        return dict(zip(TESTED, tested, strict=True)) | along

    def adapters(state: Any) -> Any:
        return by_client(agents.task.bank, agents.rows(algorithm.personal(state)))

    state = algorithm.init(start, oracle)
    options: dict[str, Any] = {"adapters": adapters, "folder": folder}
    return recorded(name, algorithm, oracle, state, config.times, measure, **options)


def _measured(agents: Agents, state: AffPCLState, draws: int) -> dict[str, float]:
    """Gradients at the centre, and the noise of AffPCL's direction, at one point of its path."""
    import torch

    from lora_bridge.measure import gradients_of

    gradients = gradients_of(agents.task, agents.rows(state.center))
    pairs = ~torch.eye(agents.n, dtype=torch.bool)
    noise = agents.noise(state, draws)
    common = agents.noise(state._replace(x=state.center.expand_as(state.x)), draws)
    return {
        "alignment": float(gradients.alignment().cpu()[pairs].mean()),
        "noise": float((gradients.noise / (gradients.mean**2).sum(1)).mean()),
        "own": float(noise.alone.mean()),
        "left": float(noise.left.mean() / noise.alone.mean()),
        "together": float(noise.together.mean() / noise.alone.mean()),
        "common": float(common.together.mean() / common.alone.mean()),
        "distance": float((state.x - state.center).norm(dim=1).mean()),
    }


def _test_scores(agents: Agents, x: Any, exam: Exam, batch: int) -> tuple[float, float]:
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
    log_probabilities = torch.cat(parts, 1).numpy()
    if not np.isfinite(log_probabilities).all():
        raise InputError("`alpha` must be small enough for training; found numbers that overflow")
    entropy = -np.where(wanted > 0, wanted * np.log(np.where(wanted > 0, wanted, 1.0)), 0.0)
    excess = -(wanted * log_probabilities).sum(-1) - entropy.sum(-1)
    right = np.take_along_axis(wanted, log_probabilities.argmax(-1)[..., None], -1)[..., 0]
    return float((weights * excess).sum(1).mean()), float((weights * right).sum(1).mean())


#: The panels beside those of single levels.
RELATIVE, SHARE, ALONG = "excess / independent", "noise / alone", "AffPCL's noise / alone"
#: AffPCL's noise if all agents' iterates were at the centre, so that only objectives and
#: environments differ.
COMMON = "AffPCL at the centre"
#: The methods for which the paper's claims are checked.
OURS = ("AffPCL", ESTIMATED, PLAIN)
#: "As good as": the factor of affpcl/fig1.
MARGIN = 1.1


def analyse(config: AffPCLConfig, table: rc.Table) -> rc.Analysis:
    """Curves with 90 % bands, the claims as paired ratios, and what was measured of the agents."""
    loss: list[rc.Series] = []
    accuracy: list[rc.Series] = []
    checks: list[rc.Check] = []
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
            loss.append(rc.Series(name, panel, t, *rc.mean_band(grid)))
            right = rc.mean_band(rows.grid("accuracy", "draw", "t"))
            accuracy.append(rc.Series(name, f"{panel}, accuracy", t, *right))
            late[name] = grid[:, t > 2 * config.rounds / 3].mean(axis=1)
        errors[level] = late
        checks += _claims(config, level, late)
        notes.append(_note(level, part, late))
    noise, noise_checks = _noise(config, table)
    series = [*loss, *accuracy, *_against_level(config, errors), *noise]
    return rc.Analysis(series, [*checks, *noise_checks], notes)


def _panel(level: float) -> str:
    return f"δ = {level:g}"


def _claims(config: AffPCLConfig, level: float, late: Mapping[str, Any]) -> list[rc.Check]:
    """The paper's claims, for known ratios, for estimated ones and without any."""
    checks = []
    if level == 0:
        limit = f"up to a factor of {MARGIN:g}"
        for name in OURS:
            ratio = rc.paired_ratio(late[name], late["FedAvg"])
            check_name = f"{name} / FedAvg (δ = 0)"
            checks.append(rc.at_most(check_name, "as good as FedAvg", ratio, MARGIN, remark=limit))
        # otherwise there is nothing to gain from each other
        ratio = rc.paired_ratio(late["FedAvg"], late["Independent"])
        checks.append(rc.below("FedAvg / Independent (δ = 0)", "FedAvg < Independent", ratio))
    if level == max(config.levels) and level > 0:
        for name in OURS:
            ratio = rc.paired_ratio(late[name], late["Independent"])
            check_name = f"{name} / Independent (δ = {level:g})"
            checks.append(rc.at_most(check_name, "not worse than independent", ratio, 1.0))
        for other in (ESTIMATED, PLAIN):
            check_name = f"AffPCL / {other} (δ = {level:g})"
            ratio = rc.paired_ratio(late["AffPCL"], late[other])
            checks.append(rc.below(check_name, "known ratios are better", ratio))
    return checks


def _against_level(
    config: AffPCLConfig, errors: Mapping[float, Mapping[str, Any]]
) -> list[rc.Series]:
    """Every method's error over independent learning's, by level."""
    levels, series = sorted(errors), []
    for name in methods(config):
        if name != "Independent":
            ratios = [rc.paired_ratio(errors[x][name], errors[x]["Independent"]) for x in levels]
            bounds = np.array([(r.value, r.lo, r.hi) for r in ratios]).T
            series.append(rc.Series(name, RELATIVE, levels, *bounds))
    return series


def _noise(config: AffPCLConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    """The share of its noise that AffPCL leaves to an agent: by level, and along the path."""
    levels, n = sorted(config.levels), config.agents
    parts = {x: table.where(level=x, method="AffPCL") for x in levels}
    along = {x: parts[x].grid("together", "draw", "t") for x in levels}
    by_draw = {x: grid.mean(axis=1) for x, grid in along.items()}
    series = []
    for name, key in (("AffPCL", "together"), (COMMON, "common")):
        intervals = [rc.mean_interval(parts[x].grid(key, "draw", "t").mean(axis=1)) for x in levels]
        bounds = np.array([(f.value, f.lo, f.hi) for f in intervals]).T
        series.append(rc.Series(name, SHARE, levels, *bounds))
    bound = [max(1 / n, float(parts[x]["delta_center"].mean())) for x in levels]
    series.append(rc.Series("theory", SHARE, levels, bound))
    t = parts[levels[0]].unique("t")
    series += [rc.Series(_panel(x), ALONG, t, *rc.mean_band(along[x])) for x in levels]
    checks = []
    if levels[0] == 0:
        limit, share = MARGIN / n, rc.mean_interval(by_draw[0.0])
        remark = f"up to a factor of {MARGIN:g}"
        checks.append(rc.at_most("share of noise (δ = 0)", 1 / n, share, limit, remark=remark))
    if len(levels) > 1:
        low, high = levels[0], levels[-1]
        grows = rc.paired_ratio(by_draw[high], by_draw[low])
        name = f"share of noise, δ = {high:g} / δ = {low:g}"
        checks.append(rc.above(name, "grows with δ", grows, 1.0))
    if levels[-1] > 0:
        share = rc.mean_interval(by_draw[levels[-1]])
        name = f"share of noise (δ = {levels[-1]:g})"
        checks.append(rc.at_most(name, "no more than alone", share, 1.0))
    return series, checks


def _note(level: float, part: rc.Table, late: Mapping[str, Any]) -> str:
    """The measured means over draws of one level's agents, and every method's error."""
    ours = part.where(method="AffPCL")
    mean = {name: float(ours[name].mean()) for name in ours if ours[name].dtype.kind == "f"}
    ends = {
        key: " to ".join(f"{ours.where(t=t)[key].mean():.2g}" for t in ours.unique("t")[[0, -1]])
        for key in ("alignment", "noise", "own", "left", "together", "common", "distance")
    }
    errors = ", ".join(f"{name} {value.mean():.3f}" for name, value in late.items())
    price = rc.paired_ratio(late[ESTIMATED], late["Independent"])
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


def draw(config: AffPCLConfig, analysis: rc.Analysis) -> Figure:
    """Excess losses above, accuracies in the middle, one column per level; affinity below."""
    affinity = (RELATIVE, SHARE, ALONG)
    series = sorted(analysis.series, key=lambda one: one.panel in affinity)
    columns = max(len(config.levels), len(affinity))
    figure, axes = rc.panels(series, columns=columns, share_y=False)
    for one in series:
        rc.curve(axes[one.panel], one, **_style(config, one.name))
    for name, ax in axes.items():
        by_level = name in (RELATIVE, SHARE)
        ax.set_xlabel("level $\\delta$" if by_level else "round $t$")
        if name in affinity:
            ax.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    for place, label in ((0, "excess test loss"), (1, "accuracy")):
        list(axes.values())[place * len(config.levels)].set_ylabel(label)
    rc.legend(figure, axes, columns=4)
    return figure


def _style(config: AffPCLConfig, name: str) -> dict[str, Any]:
    """Variants of AffPCL have its colour, levels go from light to dark."""
    if name in (ESTIMATED, PLAIN):
        line = "--" if name == ESTIMATED else ":"
        return {"color": rc.look("AffPCL").colour, "marker": "v", "linestyle": line}
    if name == COMMON:
        return {"color": "0.4", "marker": "d", "linestyle": "--"}
    levels = [_panel(level) for level in sorted(config.levels)]
    if name in levels:
        shade = 0.75 * (1.0 - levels.index(name) / len(levels))
        return {"color": str(shade), "marker": None}
    return {}


EXPERIMENT = rc.Experiment(
    id="bridge/affpcl",
    title="AffPCL and its rivals on LoRA-adapted language models",
    source="Figures 1 and 2, Section 7",
    kind="figure",
    profiles={
        "quick": AffPCLConfig(),
        "laptop": AffPCLConfig(
            levels=(0.0, 1.0),
            layers=2,
            agents=4,
            samples=24,
            tests=16,
            seeds=3,
            rounds=24,
            points=3,
            batch=2,
            draws=4,
            alpha=0.008,
            max_length=32,
        ),
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
    blocks=rc.Grid({"level": "levels", "draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
