"""What the factor beta of the reward does on a language model: Figure 4 on texts.

Problem: domains of prompts with listed answers and preferences among them, one of which is held
out, as in bridge/ood_domains. The policy minimises -log pi of the fine-tuning data weighted by
exp(r / beta) (10), r being the reward that OOD-PL learns. Algorithm: OOD-PL with several beta, in
two ways. *Same eta*: the reward is adapter and score head, with one outer step size eta for all
beta, as the paper compares them. *eta x beta^2*: the score head alone, with eta in proportion to
beta^2 and the bound b of rewards in proportion to beta.

Claims (Section 4.5, Remark 1): with a small beta the reward is sharp, with a larger one flatter;
exp(r / beta) approaches a standard normal distribution; a larger beta gives a better accuracy.
These are checked between beta = 1 and the largest one, at the same eta. Accuracy is A_PL (26), the
share of the held-out pairs whose preferred answer the policy finds likelier, per token.

Derived: only r / beta enters (10), and r / beta = (b / beta) tanh(s . h / b). With b = b_1 beta and
s = beta s_1 it is that of beta = 1, so that grad_s L = grad_{s_1} L / beta and a step eta = eta_1
beta^2 on s is the step eta_1 on s_1: the same samples give the same policies for all beta. In the
powers of two this is so to the last bit, as scaling by them rounds nothing. For an adapter inside
the reward it is not: h does not know beta, and its gradient needs eta itself, so that at one eta
beta is a step size of the head alone, beta^2 times shorter at a larger beta. exp(r / beta) is
positive and tends to 1 as r / beta tends to 0, which is no normal distribution.

What the text leaves open, and the choices here: quantiles are over prompts and answers of the
held-out domain. "Flatter" is a larger distance of the first decile from the ninth. "Approaches" is
read as a distance within a factor of two of the standard normal's at the largest beta. A run whose
inner loop or weights explode stops and keeps its last numbers: its curves are dotted.

References: OOD-PL, Section 4.5 and Remark 1; ood/fig4 for the exact domains.

The picture shows means over instances; checks are paired within instances, or exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import CLAIMED
from experiments.oodpl._domains import columns
from experiments.oodpl.bridge._ood import LAPTOP_CURVES, PAPER, CurvesConfig
from experiments.oodpl.bridge._ood_methods import Methods
from linsys import InputError
from linsys.bilevel import Start, State, pl_accuracy

if TYPE_CHECKING:
    from lora_bridge.bilevel import TextDomain

SAME, STEP = "same eta", "eta x beta^2"
LEVELS = np.linspace(0.1, 0.9, 9)
#: Distance of the first from the ninth decile of a standard normal distribution.
NORMAL = 2.0 * float(ndtri(0.9))
#: Added to the name of a curve with runs that exploded.
LOST = ", exploded"
#: Panels by the column of their values, and by the way that steps are chosen.
QUANTILES = {
    "r": r"quantiles of r, same $\eta$",
    "w": r"quantiles of exp(r / $\beta$), same $\eta$",
}
ACCURACIES = {
    SAME: r"$A_{PL}$, same $\eta$",
    STEP: r"$A_{PL}$, head alone, $\eta \propto \beta^2$",
}


@dataclass(frozen=True, kw_only=True)
class OODBetaConfig(CurvesConfig):
    """The set-up."""

    betas: tuple[float, ...] = rc.param(
        (0.1, 1.0, 2.0, 4.0, 8.0), above=0.0, increasing=True, doc="increasing, 1 among them."
    )
    instances: int = 8
    K: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if 1.0 not in self.betas:
            raise InputError(f"`betas` must have 1 among them; found {self.betas}")


def compute(config: OODBetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All runs of an instance."""
    with threads(context):
        methods = Methods(config, int(block["instance"]), context.folder)
        plain = methods.domains.models.phi()
        # with a reward of zero no beta and no bound matters: all runs have this beginning
        begin = _measured(methods, methods.domains.test, plain, 1.0)
        rows: list[dict[str, Any]] = []
        for way in (SAME, STEP):
            for beta in config.betas:
                where = {"way": way, "beta": beta, "what": methods.domains.name}
                curves = _run(config, methods, begin, way, beta)
                for i, t in enumerate(config.times):
                    rows.append({**where, "t": t, **{name: curves[name][i] for name in begin}})
        return columns(rows)


def _run(
    config: OODBetaConfig, methods: Methods, begin: dict[str, Any], way: str, beta: float
) -> dict[str, Values]:
    """What is measured along one training; after it is lost, the last numbers again."""
    from lora_bridge.runs import repeated

    known, held, eta = list(methods.domains.known), methods.domains.held, config.eta
    if way == STEP:
        known, eta = _head_alone(config, known, beta), config.eta * beta**2
    test = known.pop(held)
    training = methods.training(beta, eta)
    oracles = training.oracles(known)
    first = training.init(Start(test.models.phi(), methods.start), oracles)

    def advance(now: tuple[State, dict[str, Any]], t: int) -> tuple[State, dict[str, Any]]:
        state, row = now
        if row["lost"]:
            return now
        try:
            state, _ = training.round(state, oracles)
            if state.t in config.times:
                row = _measured(methods, test, state.phi, beta)
        except InputError:  # the inner loop or the weights explode
            row = {**row, "lost": True}
        return state, row

    name, start, folder = f"{way} {beta}", (first, begin), methods.folder
    return repeated(name, advance, start, config.times, lambda now: now[1], folder=folder, every=1)


def _head_alone(
    config: OODBetaConfig, known: Sequence[TextDomain], beta: float
) -> list[TextDomain]:
    """The domains with a reward whose adapter stays, and a bound in proportion to beta."""
    import torch

    models = known[0].models
    none = torch.zeros(models.reward.bank.width, dtype=torch.bool)
    reward = replace(models.reward, columns=none)
    changed = replace(models, reward=reward, bound=config.bound * beta)
    return [replace(domain, models=changed) for domain in known]


def _measured(methods: Methods, test: TextDomain, phi: Any, beta: float) -> dict[str, Any]:
    """The policy after Algorithm 2 on the held-out domain, and the rewards there."""
    judge = methods.domains.judges[methods.domains.held]
    r, theta = test.reward(phi), methods.tuned(test, phi, beta)
    quantiles = {"r": np.quantile(r, LEVELS), "w": np.quantile(np.exp(r / beta), LEVELS)}
    return {
        "accuracy": pl_accuracy(judge, theta),
        "loss": judge.oracle(beta=1.0).outer_loss(theta),
        "size": float(theta.norm()),
        "first": float(theta[0]),
        **{f"{name}{i}": float(v) for name, of in quantiles.items() for i, v in enumerate(of)},
        "lost": False,
    }


def ends(table: rc.Table, value: str, way: str, beta: float) -> Values:
    """A number after the last round, (instances,)."""
    return np.asarray(table.where(way=way, beta=beta, t=table["t"].max()).grid(value, "instance"))


def analyse(config: OODBetaConfig, table: rc.Table) -> rc.Analysis:
    """Distributions of r and of exp(r / beta), and curves of A_PL."""
    series = []
    for name, panel in QUANTILES.items():
        for beta in config.betas:
            y = [ends(table, f"{name}{i}", SAME, beta).mean() for i in range(len(LEVELS))]
            lost = bool(ends(table, "lost", SAME, beta).any())
            series.append(rc.Series(_label(beta, lost), panel, LEVELS, y))
    for way, panel in ACCURACIES.items():
        for beta in config.betas:
            y = table.where(way=way, beta=beta).grid("accuracy", "t", "instance").mean(axis=1)
            lost = bool(ends(table, "lost", way, beta).any())
            series.append(rc.Series(_label(beta, lost), panel, config.times, y))
    return rc.Analysis(series, _checks(config, table), _notes(config, table))


def _label(beta: float, lost: bool) -> str:
    return rf"$\beta$ = {beta:g}" + LOST * bool(lost)


def spread(table: rc.Table, name: str, beta: float) -> Values:
    """Distance of the first from the ninth decile at one eta, (instances,)."""
    return ends(table, f"{name}8", SAME, beta) - ends(table, f"{name}0", SAME, beta)


def _checks(config: OODBetaConfig, table: rc.Table) -> list[rc.Check]:
    top, powers = config.betas[-1], [b for b in config.betas if np.log2(b) % 1.0 == 0.0]
    apart = [
        np.abs(ends(table, value, STEP, b) / ends(table, value, STEP, 1.0) - 1.0).max()
        for b in powers
        for value in ("size", "first")
    ]
    worst = float(max(apart))
    both = f"beta = {top:g} − beta = 1"
    return [
        rc.mean_above(
            f"{SAME}: A_PL, {both}",
            CLAIMED,
            ends(table, "accuracy", SAME, top),
            ends(table, "accuracy", SAME, 1.0),
            f"the head's step is {top**2:g} times smaller at beta = {top:g}",
        ),
        rc.mean_above(
            f"{SAME}: spread of r, {both}",
            f"{CLAIMED}: flatter",
            spread(table, "r", top),
            spread(table, "r", 1.0),
        ),
        rc.within(
            f"{SAME}: spread of exp(r / beta) at beta = {top:g} / a standard normal's",
            "1/2 to 2: approaches it, as the paper has it",
            rc.mean_interval(spread(table, "w", top) / NORMAL),
            0.5,
            2.0,
        ),
        rc.below(
            f"{SAME}: spread of exp(r / beta), {both}",
            "derived: below 0, weights tend to 1",
            rc.mean_interval(spread(table, "w", top) - spread(table, "w", 1.0)),
            0.0,
        ),
        rc.at_most(
            f"{STEP}, head alone: largest relative difference of policies between powers of two",
            "derived: 0, beta is a step size",
            rc.Interval(worst, worst, worst),
            0.0,
        ),
    ]


def _notes(config: OODBetaConfig, table: rc.Table) -> list[str]:
    text = []
    for way in (SAME, STEP):
        lost = {b: int(ends(table, "lost", way, b).sum()) for b in config.betas}
        each = "; ".join(
            f"beta = {b:g}: exploded in {lost[b]} of {config.instances} instances"
            if lost[b]
            else f"beta = {b:g}: {ends(table, 'accuracy', way, b).mean():.3f} "
            f"({ends(table, 'w0', way, b).mean():.2f} to {ends(table, 'w8', way, b).mean():.2f})"
            for b in config.betas
        )
        text.append(f"{way}, last A_PL (and 1st to 9th decile of exp(r / beta)): {each}")
    return [f"{table['what'][0]}; {config.instances} instances, seed {config.seed}", *text]


def panels(config: OODBetaConfig) -> dict[str, rc.Panel]:
    """Quantiles against their level, accuracies against outer steps."""
    by_level = dict.fromkeys(QUANTILES.values(), rc.Panel("quantile's level"))
    return by_level | dict.fromkeys(ACCURACIES.values(), rc.Panel("outer step"))


def layout(config: OODBetaConfig) -> rc.Layout:
    """A colour for every beta, dotted where runs exploded."""
    looks = {
        _label(beta, lost): replace(rc.look("", k), line=":" if lost else "-", size=3.5)
        for k, beta in enumerate(config.betas)
        for lost in (False, True)
    }
    return rc.Layout(width=2.5, legend=6, looks=looks)


EXPERIMENT = rc.Experiment(
    id="bridge/ood_beta",
    title="The factor beta of the reward on a language model",
    source="Figure 4, Section 4.5",
    kind="figure",
    profiles={
        "quick": OODBetaConfig(),
        "laptop": OODBetaConfig(**LAPTOP_CURVES, betas=(0.1, 1.0, 8.0)),
        "paper": OODBetaConfig(**PAPER, K=300, points=6),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=layout,
    parallel="blocks",
)
