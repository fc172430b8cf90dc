"""Disagreement drift against the batch size B, at common parameters.

Problem and assumptions: C clients at the same parameters of a tabular process with M = 2, critics
at their fixed points, independent transitions: the covariance of a gradient is Sigma / B exactly.
*Apart*: objectives in conflict, whose true weights lie inside the simplex. *Alike*: objectives with
the same mean gradient that differ in noise only.

Algorithm: each client solves its own problem, without regularisation, with beta equal to the scale
tr G / M of the true Gram matrix, and with beta' = 1 after division by the trace (9).

Guarantee: T_disagr = O(1 / (beta sqrt(B))) (Theorem 1, from (23) and Lemma 9 without local steps).
An upper bound for beta > 0: a drift that falls faster is "faster than stated".

Derived here (:mod:`experiments.firm._drift_laws`): where weights move smoothly with the gradients,
T has the order B^{-2} around the mean weights of the clients, in equation (7) -- deviations from a
mean sum to zero, so that noise meets noise -- and B^{-1} around the weights of the true gradients,
in (14). Without regularisation and with the same mean gradients, weights move by O(1) however large
B is: B^{-1} in both. With it they do not, and T has the order B^{-2} in both: the mean gradients
cannot be told apart, c1 = 0. The proof's S^2 <= 2 S costs a square root of B, and the triangle
inequality, which does not see that deviations sum to zero, the rest.

Regime: B from ``fit_from`` on. What the leading orders leave out is
(:meth:`DriftExpansion.next_order`, of order 1/B; for alike objectives :meth:`Kink.next_order`, of
order 1/B after the term B^{-1/2} is kept) below some tenths there and a tolerance covers the change
of slope that it makes; so it does for the term B^{-2} around the true weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.firm._drift import (
    CONVENTIONS,
    DriftInstancesConfig,
    alike,
    drifts,
    furthest,
    grouped,
    transient,
)
from experiments.firm._drift_laws import DriftExpansion, Kink, Moments
from experiments.firm._style import layout_of_readings
from experiments.firm._words import LAW
from linsys.validate import Array, InputError, check_number
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

APART, ALIKE = "(a) objectives in conflict", "(b) same mean gradients"
#: beta relative to the scale of the Gram matrix, and whether that is divided by its trace.
FORMS = {"β = 0": (0.0, False), "β = tr G / M": (1.0, False), "β' = 1, trace (9)": (1.0, True)}
STATED = -0.5
#: The largest number of confidence intervals of an instance.
INTERVALS = 32
#: The exponents derived here, for the two conventions: with smooth weights, with equal objectives,
#: and where the weights have a kink.
SMOOTH, SAME, KINK = (-2.0, -1.0), (-2.0, -2.0), (-1.0, -1.0)
SHAPES = (rc.Look("", "o"), rc.Look("", "s"), rc.Look("", "^", "none", size=7, hollow=True))


@dataclass(frozen=True, kw_only=True)
class DriftBatchConfig(DriftInstancesConfig):
    """Ever larger batches."""

    runs: int = 16
    doublings: int = rc.param(
        10, low=8, doc="B is 4, 8, .. up to 4 * 2^doublings; a batch is the first half of the next."
    )
    fit_from: float = rc.param(500.0, doc="exponents are fitted from this B on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fit_from", self.fit_from, low=4.0, high=float(self.sizes[-3]))
        if self.objectives != 2:
            raise InputError(f"`objectives` must be 2; found {self.objectives}")

    @property
    def sizes(self) -> Array:
        """B, shape (doublings + 1,)."""
        return np.array([4.0 * 2.0**k for k in range(self.doublings + 1)])

    def process(self, panel: str, instance: int) -> MOMDP:
        """The process of a panel."""
        drawn = self.momdp(instance)
        return drawn if panel == APART else alike(drawn, self.derive("alike", instance))


def compute(config: DriftBatchConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The drift in both conventions for every form of the problem and every B."""
    numbers = config.numbers(block)
    runs, C = len(numbers) * config.runs, config.clients
    drift = np.empty((2, len(FORMS), 2, len(config.sizes), len(numbers)))
    for p, panel in enumerate((APART, ALIKE)):
        momdp = config.process(panel, block["instance"])
        moments, theta = Moments.of(momdp), np.zeros((runs, C, momdp.d))
        oracle = config.oracle(
            Clients(momdp, C),
            block["instance"],
            replicates=runs,
            first=block["first"] * config.runs,
            B=int(config.sizes[0]),
        )
        gradients, memory = oracle.jac(theta, oracle.init())
        for k, B in enumerate(config.sizes):
            if k:  # another batch of as many transitions
                more, memory = replace(oracle, B=int(B) // 2).jac(theta, memory)
                gradients = 0.5 * (gradients + more)
            for f, (beta, normalise) in enumerate(FORMS.values()):
                raw = beta if normalise else beta * moments.scale
                drift[p, f, :, k] = grouped(
                    drifts(gradients, moments, raw, normalise=normalise), config.runs
                )
    axes = {
        "panel": np.array([APART, ALIKE]),
        "form": np.array(list(FORMS)),
        "convention": np.array(CONVENTIONS),
        "B": config.sizes,
        "replicate": numbers,
    }
    return rc.long_table(axes, drift=drift)


def _theory(
    config: DriftBatchConfig, panel: str, form: str, instance: int
) -> tuple[DriftExpansion | Kink, tuple[float, float]]:
    """The leading order of one form of one instance, and the exponents of both conventions."""
    moments = Moments.of(config.process(panel, instance))
    beta, normalise = FORMS[form]
    if panel == ALIKE and beta == 0.0:
        return Kink(moments), KINK
    raw = beta if normalise else beta * moments.scale
    return moments.at(raw, normalise=normalise), SMOOTH if panel == APART else SAME


def _checks(
    config: DriftBatchConfig,
    name: str,
    drift: Array,
    law: DriftExpansion | Kink,
    predicted: float,
    c: int,
) -> list[rc.Check]:
    """Exponent and constant of one instance's curve (replicates, sizes) from ``fit_from`` on."""
    clients, level = config.clients, config.level(INTERVALS)
    B = config.sizes[config.fit_from <= config.sizes]
    slope = rc.slope_interval(B, drift, rng=0, level=level)
    error = law.next_order(B)
    tolerance = transient(lambda x: law.drift(clients, x)[c], B, 1e6) + rc.slope_shift(B, error)
    last = rc.ratio(drift[:, -1], float(law.drift(clients, B[-1])[c]), level)
    what = f"{name}: ratio to the law at the last B"
    return [
        *rc.Law(derived=predicted, tolerance=tolerance).checks(name, slope),
        rc.our_own(rc.rate_check(what, 1.0, last, tolerance=float(error[-1]))),
        *rc.Law(STATED).checks(name, slope),
    ]


def analyse(config: DriftBatchConfig, table: rc.Table) -> rc.Analysis:
    """Exponents as stated and as derived, and the constants at the largest B."""
    series, checks = [], []
    B = config.sizes
    fit = config.fit_from <= B
    errors = []
    for panel in (APART, ALIKE):
        for form, (beta, normalise) in FORMS.items():
            theories = [_theory(config, panel, form, i) for i in range(config.instances)]
            errors += [float(law.next_order(B[fit]).max()) for law, _ in theories]
            for c, convention in enumerate(CONVENTIONS):
                part = table.where(panel=panel, form=form, convention=convention)
                drift = part.grid("drift", "instance", "replicate", "B")
                name = f"{panel[4:]}, {form}, {convention}"
                worst = furthest(
                    _checks(config, name, one[:, fit], law, exponents[c], c)
                    for one, (law, exponents) in zip(drift, theories, strict=True)
                )
                checks += worst if beta else worst[:-1]  # without beta nothing is stated
                mean, *band = rc.mean_band(drift[0])
                band = [] if normalise else band
                series.append(rc.Series(f"{form}, {convention}", panel, B, mean, *band))
                law = theories[0][0].drift(config.clients, B[4:])[c]
                series.append(rc.Series(LAW, panel, B[4:], law))
    notes = [
        f"{config.clients} clients, independent transitions; fits over B in [{B[fit][0]:g}, "
        f"{B[-1]:g}], where the leading orders leave out at most {max(errors):.2g} of the drift by "
        "their own estimate; all intervals together cover with 95 %",
        "the exponent -1/2 of Theorem 1 is an upper bound; derived: the drift of (7) falls like "
        "B^-2 where weights move smoothly; around the true weights it falls like B^-1, and so do "
        "both without regularisation where mean gradients are equal",
        "derived: β' = 1 on the trace-normalised matrix differs from β = tr G / M where noise "
        "dominates the trace, at small B",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="firm/drift_batch",
    title="Disagreement drift against the batch size",
    source="Theorem 1, equations (7), (14) and (23)",
    kind="rate",
    variable="B",
    profiles={
        "quick": DriftBatchConfig(),
        "paper": DriftBatchConfig(doublings=12, instances=3, runs=100, per_block=6),
    },
    blocks=DriftBatchConfig.pieces,
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            "transitions $B$ of a gradient",
            r"mean $T_{\mathrm{disagr}}$",
            log="xy",
            slope=(
                rc.Guide(-2.0, span=(0.5, 1.0)),
                rc.Guide(STATED, "stated: {}", above=True, span=(0.5, 1.0), line="--"),
            ),
        )
        for panel in (APART, ALIKE)
    },
    layout=layout_of_readings(
        dict(zip(FORMS, SHAPES, strict=True)), width=3.9, height=3.4, share_y=True
    ),
    parallel="blocks",
)
