"""OOD-PL and its rivals on a language model: Figures 2 and 3 and Table 3 on texts.

Problem: domains of prompts with listed answers, each with data for fine-tuning and preferences
among its answers. One domain is held out: a policy for it is wanted, and its preferences are for
tests (HPL alone trains on them, as in the paper). Without ``data`` the domains are generated, with
known true rewards that are the same in all but for a share ``own``; with a file its records name
their ``domain``. An *instance* is one draw of all that; each holds out the next domain.

Algorithms: Algorithm 1 of OOD-PL by the adjoint on the model, Algorithm 2 on the held-out domain;
SFT, DPO, PPO on a reward of maximum likelihood, tuned on the training domains (TR) or on all of
them (TR+TE), HPL. Controls, which the paper does not have: "HPL (TR)", HPL on the training domains
alone; "MLE + (10)", PPO's reward in the place of OOD-PL's before Algorithm 2; "MLE, fitted beta",
the same with that one of five beta which fits the training pairs best.

Scores, on prompts that no method has seen: *PL loss* (7) of a policy; *A_PL* (26), the share of
pairs whose preferred answer it finds likelier, per token; the *true reward* of its sampled answers;
its *win rate*, how often such an answer is preferred (Bradley and Terry) to the better one of a
random pair.

Guarantee: none. Assumption 1, a strongly convex -log pi, does not hold for adapters (see
bridge/ood_inner for what is left of it), and Theorem 1 is false as printed (see the paper's
authors.md). Checked are the paper's claims (Sections 4.2 to 4.4): the PL loss of the training
domains falls and their accuracy A_PL (26) grows; on the held-out domain all methods are above SFT
and OOD-PL is above all of them, in A_PL, in the reward of sampled answers and in win rate; rewards
spread more at higher temperatures. HPL is among the rivals, though it sees pairs of the held-out
domain.

Two other explanations of a lead are tested, as in ood/fig2, by rivals that have to be behind if
there is more to it: that it is the scale of the reward ("MLE, fitted beta"), and that it is the
loss ("HPL (TR)").

What the text leaves open, and the choices here: all methods start from SFT's policy; answers are
sampled among those that are listed, so that rewards and win rates are exact sums. With questions
the true reward of an answer is 1 if it is right and 0 otherwise, and a win rate is at most one
half: against the right answer only a draw can be had. Pairs have no known reward, and then neither.

Where the claims end, with the built-in model and generated domains over eight instances: OOD-PL's
A_PL on held-out domains is above SFT's by 0.21 (0.14 to 0.28) and level with those of DPO and PPO
(differences within 0.07), but its win rate is below theirs by 0.06 to 0.09, and below that of HPL
(TR), the same loss on the same pairs without a reward, by 0.083 (0.022 to 0.144). So it is on the
exact domains of ood/fig2, where policies learned elsewhere are as good on a new domain as rewards
are.

References: OOD-PL, Sections 4.2 to 4.4.

The picture shows means over instances, for OOD-PL with 95 % intervals; win rates with theirs.
Checks are paired within instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import CLAIMED
from experiments.oodpl._domains import CONTROLS, HPL, OURS, RIVALS, columns
from experiments.oodpl._style import METHODS, mean_curve
from experiments.oodpl.bridge._ood import LAPTOP_CURVES, PAPER, RivalsConfig
from experiments.oodpl.bridge._ood_methods import Compared
from linsys.bilevel import expected_reward, pl_accuracy, win_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.bilevel import TextDomain

TRAIN, HELD_OUT = "training domains", "held-out domain"
SCORES = {"loss": "PL loss", "accuracy": r"$A_{PL}$"}
REWARD, WINS = (f"{what}, {HELD_OUT}" for what in ("true reward", "win rate"))
SPREAD = "standard deviation of that reward"


@dataclass(frozen=True, kw_only=True)
class OODDomainsConfig(RivalsConfig):
    """The set-up."""

    temperatures: tuple[float, ...] = rc.param(
        (0.25, 0.5, 1.0), above=0.0, increasing=True, doc="of the sampling, increasing."
    )


def compute(config: OODDomainsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Scores of all methods on the held-out domain, and of OOD-PL on the others."""
    with threads(context):
        methods = Compared(config, int(block["instance"]), context.folder)
        drawn = methods.domains
        judge, where = drawn.judges[drawn.held], {"name": drawn.test.name, "what": drawn.name}
        scored = {m: _scores(config, judge, theta) for m, theta in methods.rivals().items()}
        rows = [
            {**where, "method": method, "domains": HELD_OUT, "t": config.K, **scores}
            for method, scores in scored.items()
        ]
        labels = {key: [[HELD_OUT, TRAIN]] for key in scored["SFT"]}
        learned = methods.learn(lambda phi: _adapted(config, methods, phi), labels)
        for i, t in enumerate(config.times):
            for j, domains in enumerate((HELD_OUT, TRAIN)):
                scores = {name: values[i, j] for name, values in learned.items()}
                rows.append({**where, "method": OURS, "domains": domains, "t": t, **scores})
        return columns(rows)


def _adapted(config: OODDomainsConfig, methods: Compared, phi: Any) -> dict[str, Values]:
    """Scores of the held-out domain and the others' mean, (2,), after Algorithm 2 on each."""
    drawn = methods.domains
    scores = [
        _scores(config, judge, methods.tuned(domain, phi, config.beta))
        for domain, judge in zip(drawn.known, drawn.judges, strict=True)
    ]
    held_out = scores.pop(drawn.held)
    means = {name: np.mean([one[name] for one in scores]) for name in held_out}
    return {name: np.array([held_out[name], means[name]]) for name in held_out}


def _scores(config: OODDomainsConfig, judge: TextDomain, theta: Any) -> dict[str, float]:
    """All numbers of a policy; NaN where the true reward is not known."""
    scores = {
        "loss": judge.oracle(beta=1.0).outer_loss(theta),
        "accuracy": pl_accuracy(judge, theta),
        "wins": np.nan if judge.truth is None else win_rate(judge, theta),
    }
    for i, temperature in enumerate(config.temperatures):
        reward = (np.nan,) * 2
        if judge.truth is not None:
            reward = expected_reward(judge, theta, temperature)
        scores[f"mean{i}"], scores[f"std{i}"] = reward
    return scores


def last(table: rc.Table, value: str, method: str) -> Values:
    """A number on the held-out domain at the end, (instances,)."""
    end = table["t"].max()
    part = table.where(method=method, domains=HELD_OUT, t=end)
    return np.asarray(part.grid(value, "instance"))


def analyse(config: OODDomainsConfig, table: rc.Table) -> rc.Analysis:
    """Curves over rounds, rewards over temperatures, win rates, and the claims."""
    series, names = [], (OURS, *RIVALS, *CONTROLS)
    for domains in (TRAIN, HELD_OUT):
        for value, title in SCORES.items():
            panel = f"{title}, {domains}"
            grid = table.where(method=OURS, domains=domains).grid(value, "t", "instance")
            series.append(mean_curve(OURS, panel, config.times, grid))
            if domains == HELD_OUT:
                for name in names[1:]:
                    level = float(last(table, value, name).mean())
                    series.append(rc.Series(name, panel, [0, config.K], [level, level]))
    known = not np.isnan(table["wins"]).any()
    if known:
        for name in names:
            for value, panel in (("mean", REWARD), ("std", SPREAD)):
                levels = range(len(config.temperatures))
                rewards = np.array([last(table, f"{value}{i}", name) for i in levels])
                curve = rc.Series(name, panel, config.temperatures, rewards.mean(axis=1))
                ours = name == OURS  # nine bands would cover each other, so that only one is drawn
                series.append(mean_curve(name, panel, curve.x, rewards) if ours else curve)
        for place, name in enumerate(names):
            mean = rc.mean_interval(last(table, "wins", name))
            series.append(rc.Series(name, WINS, [place], [mean.value], [mean.lo], [mean.hi]))
    return rc.Analysis(series, _checks(config, table, known), _notes(config, table, known))


def _checks(config: OODDomainsConfig, table: rc.Table, known: bool) -> list[rc.Check]:
    trained = table.where(method=OURS, domains=TRAIN)
    loss, accuracy = (trained.grid(value, "instance", "t") for value in SCORES)
    ends = {n: last(table, "accuracy", n) for n in (OURS, *RIVALS, *CONTROLS)}
    checks = [
        rc.mean_above("training domains, PL loss, first − last", CLAIMED, loss[:, 0], loss[:, -1]),
        rc.mean_above(
            "training domains, A_PL, last − first", CLAIMED, accuracy[:, -1], accuracy[:, 0]
        ),
        *(rc.mean_above(f"A_PL, {n} − SFT", CLAIMED, ends[n], ends["SFT"]) for n in RIVALS[1:]),
        *_above_rivals("A_PL", ends),
        *_controls("A_PL", ends),
    ]
    if not known:
        return checks
    wins = {n: last(table, "wins", n) for n in (OURS, *RIVALS, *CONTROLS)}
    place = len(config.temperatures) - 1
    low, high = config.temperatures[0], config.temperatures[place]
    rewards = {n: last(table, f"mean{place}", n) for n in (OURS, *RIVALS)}
    return [
        *checks,
        *(
            rc.mean_above(
                f"{n}: standard deviation of rewards at temperature {high:g} − at {low:g}",
                CLAIMED,
                last(table, f"std{place}", n),
                last(table, "std0", n),
            )
            for n in (OURS, *RIVALS)
        ),
        *_above_rivals(f"reward at temperature {high:g}", rewards),
        *_above_rivals("win rate", wins),
        *_controls("win rate", wins),
    ]


def _above_rivals(what: str, values: Mapping[str, Values]) -> list[rc.Check]:
    """OOD-PL above every rival."""
    return [
        rc.mean_above(
            f"{what}, {OURS} − {n}", CLAIMED, values[OURS], values[n], HPL if n == "HPL" else ""
        )
        for n in RIVALS
    ]


def _controls(what: str, values: Mapping[str, Values]) -> list[rc.Check]:
    return [
        rc.mean_above(
            f"{what}, {OURS} − {n}",
            f"above 0, if {why} is not all",
            values[OURS],
            values[n],
        )
        for n, why in (("MLE, fitted beta", "the reward's scale"), ("HPL (TR)", "the loss"))
    ]


def _notes(config: OODDomainsConfig, table: rc.Table, known: bool) -> list[str]:
    names, text = (OURS, *RIVALS, *CONTROLS), []
    held = dict(sorted(zip(table["instance"].tolist(), table["name"].tolist(), strict=True)))
    for value, title in (("accuracy", "A_PL"), *([("wins", "win rate")] if known else [])):
        means = "; ".join(f"{n} {last(table, value, n).mean():.3f}" for n in names)
        text.append(f"{title} on held-out domains, mean over instances: {means}")
    if known:
        each = {n: last(table, "wins", n) for n in names}
        for place, domain in enumerate(held.values()):
            row = "; ".join(f"{n} {each[n][place]:.3f}" for n in names)
            text.append(f"win rates with `{domain}` held out (instance {place}): {row}")
    return [f"{table['what'][0]}; {config.instances} instances, seed {config.seed}", *text]


def draw(config: OODDomainsConfig, analysis: rc.Analysis) -> Figure:
    """Curves, rewards, and win rates as dots."""
    x = {REWARD: "temperature", SPREAD: "temperature", WINS: ""}
    panels = {one.panel: rc.Panel(x.get(one.panel, "outer step")) for one in analysis.series}
    layout = rc.Layout(width=2.5, legend=5, looks=METHODS, markers=6)
    figure = rc.draw_panels(analysis.series, panels, layout)
    if names := [one.name for one in analysis.series if one.panel == WINS]:
        ax = figure.axes[list(panels).index(WINS)]
        ax.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/ood_domains",
    title="OOD-PL and its rivals on a language model with a held-out domain",
    source="Figures 2 and 3, Table 3",
    kind="figure",
    profiles={
        "quick": OODDomainsConfig(instances=8),
        "laptop": OODDomainsConfig(**LAPTOP_CURVES, steps=10, rollouts=3),
        "paper": OODDomainsConfig(
            **PAPER,
            K=600,
            steps=400,
            rollouts=200,
            points=12,
            instances=8,
            temperatures=(0.25, 0.5, 0.75, 1.0),
        ),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
