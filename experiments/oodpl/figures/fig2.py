"""Figure 2: PL loss and accuracy against outer steps, on training domains and on a held-out one.

Problem and assumptions: four domains, three to train on and one held out, each in turn; see
``_domains``, also for what every method sees.

Algorithms: OOD-PL (Algorithm 1 by the adjoint, Algorithm 2 on the held-out domain), SFT, DPO,
PPO (TR), PPO (TR+TE), HPL, and controls.

Claims (Section 4.2): the PL loss of the training domains falls fast, their accuracy A_PL (26)
grows. On the held-out domain all methods are above SFT, and OOD-PL is far above all of them.

What the text leaves open, and the choices here: rivals are solved exactly, hence horizontal lines.
The paper explains OOD-PL's lead by a reward learned for new distributions. Two other explanations
are tested. *Scale*: the size of phi / beta is fitted to preferences by OOD-PL alone; a reward of
maximum likelihood whose beta is fitted on the training pairs has the same freedom and no
meta-learning. *The loss*: HPL (TR) minimises the preference loss of the policy on the training
domains and has no reward at all.

*Policies that do not transfer.* Policies and rewards are linear in the same features, so that a
policy from other domains is as good here on a new one as a reward from there, which favours DPO
and HPL. In the third row every domain turns the features of policies to a random orthogonal
basis of its own, with the rewards as before. What was learned about theta elsewhere is of no use
then, and any reward with (10) on the new domain has to be ahead, meta-learned or not; checked.

*When does the meta-learned reward help?* The last panels vary how far domains differ (``shifts``)
and how much of the reward is their own (``specifics``). Preferences are the truth plus noise, so
that maximum likelihood finds the direction of phi in the limit of many pairs. What remains for
OOD-PL is the policy: something where mu_hat misleads in all domains alike, and nothing or worse
where mu_hat is a domain's own, because a reward that was bent against the mu_hat of the training
domains meets another one. Its lead should hence not grow with the shift; checked.

References: OOD-PL, Section 4.2.

The picture shows means over instances, for OOD-PL and its leads with 95 % intervals; checks are
paired within instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.oodpl._domains import (
    CONTROLS,
    OURS,
    RIVALS,
    MethodsConfig,
    Values,
    ahead,
    columns,
)
from experiments.oodpl._style import ACCURACY, METHODS, mean_curve, ours_on_top
from linsys.bilevel import Domain, DomainOracle, pl_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAIN, HELD_OUT = "training domains", "held-out domain"
#: Settings: the paper's comparison; the same where every domain has a basis of its own; and kinds
#: of domains.
SHARED, TURNED, KINDS = "shared basis", "own bases", "kinds"
SCORES = {"loss": "PL loss", "accuracy": r"$A_{PL}$"}
#: The methods over which OOD-PL's lead is shown when the domains vary.
COMPARED = ("PPO (TR+TE)", "MLE, fitted beta", "HPL (TR)")
DOMAINS = 4


@dataclass(frozen=True, kw_only=True)
class Fig2Config(MethodsConfig):
    """The set-up."""

    points: int = rc.param(10, low=2, high="K", doc="rounds at which a curve is measured.")
    shifts: tuple[float, ...] = rc.param(
        (0.2, 0.6, 1.0),
        low=0.0,
        high=1.0,
        increasing=True,
        doc="``shift`` in the last panels, increasing.",
    )
    specifics: tuple[float, ...] = rc.param(
        (0.0, 0.5),
        low=0.0,
        high=1.0,
        increasing=True,
        doc="``specific`` in the last panels, increasing.",
    )

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on, more of them at first."""
        grid = (round(self.K * (i / self.points) ** 2) for i in range(self.points + 1))
        return list(dict.fromkeys(grid))


def compute(config: Fig2Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All folds of the paper's comparison; then one fold of every kind of domains."""
    instance, rows = block["instance"], []
    sampled, exact = config.domains(instance, DOMAINS)
    kind: dict[str, Any] = {"shift": config.shift, "specific": config.specific}
    for fold in range(DOMAINS):
        train = [d for i, d in enumerate(sampled) if i != fold]
        where = {"kind": SHARED, "fold": fold, **kind}
        rows += _fold(config, instance, train, sampled[fold], exact[fold], where, config.times)
    sampled, exact = config.domains(instance, DOMAINS, turned=True)
    where = {"kind": TURNED, "fold": DOMAINS - 1, **kind}
    rows += _fold(config, instance, sampled[:-1], sampled[-1], exact[-1], where, config.times)
    for shift in config.shifts:
        for specific in config.specifics:
            shifted = replace(config, shift=shift, specific=specific)
            sampled, exact = shifted.domains(instance, DOMAINS)
            where = {"kind": KINDS, "fold": DOMAINS - 1, "shift": shift, "specific": specific}
            rows += _fold(
                shifted, instance, sampled[:-1], sampled[-1], exact[-1], where, [config.K]
            )
    return columns(rows)


def _fold(
    config: Fig2Config,
    instance: int,
    train: list[Domain],
    test: Domain,
    judge: Domain,
    where: Mapping[str, Any],
    times: list[int],
) -> list[dict[str, Any]]:
    """Rows of all methods; ``judge`` is the held-out domain with the population's pairs."""
    rows = [
        {**where, "domains": HELD_OUT, "method": name, "t": config.K, **_scores(judge, theta)}
        for name, theta in config.rivals(config.trained(train), test).items()
    ]
    for t, phi in config.learn(train, instance, times):
        ours = {**where, "method": OURS, "t": t}
        rows.append({**ours, "domains": HELD_OUT, **_scores(judge, config.tuned(test, phi))})
        scores = [_scores(domain, config.tuned(domain, phi)) for domain in train]
        mean = {name: float(np.mean([one[name] for one in scores])) for name in SCORES}
        rows.append({**ours, "domains": TRAIN, **mean})
    return rows


def _scores(domain: Domain, theta: Values) -> dict[str, float]:
    loss = DomainOracle(domain=domain, beta=1.0).outer_loss(theta)
    return {"loss": loss, "accuracy": pl_accuracy(domain, theta)}


def folds(
    table: rc.Table, value: str, method: str, domains: str = HELD_OUT, kind: str = SHARED
) -> Values:
    """A score averaged over the folds, (instances, rounds)."""
    part = table.where(method=method, domains=domains, kind=kind)
    return np.asarray(part.grid(value, "instance", "t", "fold").mean(axis=-1))


def lead(table: rc.Table, rival: str, shift: float, specific: float) -> Values:
    """A_PL of OOD-PL minus that of a rival on domains of one kind, (instances,)."""
    part = table.where(kind=KINDS, shift=shift, specific=specific, domains=HELD_OUT)
    ours, theirs = (part.where(method=name).grid("accuracy", "instance") for name in (OURS, rival))
    return np.asarray(ours - theirs)


def analyse(config: Fig2Config, table: rc.Table) -> rc.Analysis:
    """Curves over rounds, leads over kinds of domains, and the claims."""
    series = []
    for domains, kind in ((TRAIN, SHARED), (HELD_OUT, SHARED), (HELD_OUT, TURNED)):
        for value, title in SCORES.items():
            panel = f"{title}, {domains}" + (f", {kind}" if kind == TURNED else "")
            ours = folds(table, value, OURS, domains, kind)
            series.append(mean_curve(OURS, panel, config.times, ours.T))
            if domains == HELD_OUT:
                for name in (*RIVALS, *CONTROLS, "oracle"):
                    # without bands, which would overlap; checks compare within instances
                    level = float(folds(table, value, name, kind=kind).mean())
                    series.append(rc.Series(name, panel, [0, config.K], [level, level]))
    for specific in config.specifics:
        for rival in COMPARED:
            leads = [lead(table, rival, shift, specific) for shift in config.shifts]
            panel = rf"lead in $A_{{PL}}$, own share {specific:g}"
            series.append(mean_curve(rival, panel, config.shifts, leads))
    checks = [*_claims(table), *_without_transfer(table), *_lead_by_shift(config, table)]
    return rc.Analysis(series, checks, _notes(config, table))


def _claims(table: rc.Table) -> list[rc.Check]:
    loss, accuracy = (folds(table, value, OURS, TRAIN) for value in SCORES)
    ends = {n: folds(table, "accuracy", n)[:, -1] for n in (OURS, *RIVALS, *CONTROLS)}
    return [
        rc.mean_above(
            "training domains, PL loss, first − last", "above 0", loss[:, 0], loss[:, -1]
        ),
        rc.mean_above(
            "training domains, A_PL, last − first", "above 0", accuracy[:, -1], accuracy[:, 0]
        ),
        *(rc.mean_above(f"A_PL, {n} − SFT", "above 0", ends[n], ends["SFT"]) for n in RIVALS[1:]),
        *(ahead("A_PL, ", n, ends[OURS], ends[n]) for n in RIVALS),
        *(
            rc.mean_above(
                f"A_PL, {OURS} − {n}",
                f"above 0, if the lead is not that of {why}",
                ends[OURS],
                ends[n],
            )
            for n, why in (("MLE, fitted beta", "the scale"), ("HPL (TR)", "the loss"))
        ),
    ]


def _without_transfer(table: rc.Table) -> list[rc.Check]:
    """The checks where policies do not transfer."""
    ends = {n: folds(table, "accuracy", n, kind=TURNED)[:, -1] for n in (OURS, *RIVALS, *CONTROLS)}
    return [
        *(
            rc.mean_above(f"{TURNED}: A_PL, {OURS} − {n}", "above 0", ends[OURS], ends[n])
            for n in (*RIVALS, "HPL (TR)")
        ),
        rc.our_own(
            rc.mean_above(
                f"{TURNED}: A_PL, MLE + (10) − DPO",
                "above 0: the reward transfers, meta-learned or not",
                ends["MLE + (10)"],
                ends["DPO"],
            )
        ),
        rc.our_own(
            rc.mean_above(
                f"{TURNED}: A_PL, {OURS} − MLE, fitted beta",
                "above 0, if the lead is not that of the scale",
                ends[OURS],
                ends["MLE, fitted beta"],
            )
        ),
    ]


def _lead_by_shift(config: Fig2Config, table: rc.Table) -> list[rc.Check]:
    near, far = config.shifts[0], config.shifts[-1]
    return [
        rc.our_own(
            rc.above(
                f"lead over {rival}, shift {near:g} − shift {far:g} "
                f"({specific:g} of the reward own)",
                "above 0: bent against a mu_hat that does not come back",
                rc.mean_interval(
                    lead(table, rival, near, specific) - lead(table, rival, far, specific)
                ),
            )
        )
        for rival in COMPARED
        for specific in config.specifics
    ]


def _notes(config: Fig2Config, table: rc.Table) -> list[str]:
    ends = [
        f"A_PL (and PL loss) on held-out domains, {kind}: "
        + ", ".join(
            f"{n} {folds(table, 'accuracy', n, kind=kind)[:, -1].mean():.3f} "
            f"({folds(table, 'loss', n, kind=kind)[:, -1].mean():.3f})"
            for n in METHODS
        )
        for kind in (SHARED, TURNED)
    ]
    kinds = []
    for shift in config.shifts:
        for specific in config.specifics:
            leads = [rc.mean_interval(lead(table, n, shift, specific)) for n in COMPARED]
            text = ", ".join(
                f"{n} {v.value:+.3f} [{v.lo:+.3f}, {v.hi:+.3f}]"
                for n, v in zip(COMPARED, leads, strict=True)
            )
            kinds.append(f"shift {shift:g}, own share {specific:g}: OOD-PL leads by {text}")
    return [*ends, *kinds]


def draw(config: Fig2Config, analysis: rc.Analysis) -> Figure:
    """Training and held-out domains above, leads below."""
    loss = rc.Panel("outer step", "PL loss")
    accuracy = rc.Panel("outer step", ACCURACY)
    leads = rc.Panel("shift of the domains", "$A_{PL}$, OOD-PL − method", level=0.0)
    about = {"lead": leads, SCORES["loss"]: loss, SCORES["accuracy"]: accuracy}
    figure = rc.draw_panels(
        ours_on_top(analysis.series),
        {
            s.panel: panel
            for s in analysis.series
            for start, panel in about.items()
            if s.panel.startswith(start)
        },
        rc.Layout(columns=2, width=3.4, height=2.0, legend=4, looks=METHODS, markers=6),
    )
    second_last, last = figure.axes[-2:]
    second_last.sharey(last)
    return figure


EXPERIMENT = rc.Experiment(
    id="ood/fig2",
    title="Preference loss and accuracy on training domains and on a held-out one",
    source="Figure 2, Section 4.2",
    kind="figure",
    profiles={
        "quick": Fig2Config(),
        "paper": Fig2Config(instances=40, K=1000, points=20, shifts=(0.2, 0.4, 0.6, 0.8, 1.0)),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
