"""Constant against diminishing steps: the weighted average of Lemma D.5 removes the logarithm.

Problem and assumptions: finite-state systems with heterogeneity of both kinds, AffPCL's joint
recursion of theta^c, x^c and x^i.

Algorithms: AffPCL (8) with (7), (22-1), lambda the smallest of lambda^i and lambda^b, (i) with the
constant step ln t / (lambda t), the last iterate after t rounds; (ii) with alpha_tau = 4/(lambda
(tau + t0 + 1)), the errors averaged with weights tau + t0; (iii) the same steps, the error of the
averaged iterate; (iv) the same steps, the last iterate.

Guarantee (Lemma D.5, Corollaries E.2 and F.3): (i) O(ln t / t); (ii) O(1/t), and (iii), which is at
most (ii) by Jensen's inequality; upper bounds. (iv) is not claimed. Derived here: under (i) the
logarithm is really there, the stationary variance being proportional to the step.

Regime: t0 is such that the first step is below half of the largest stable one; the corollaries ask
for a smaller one, which makes no difference at large t (``affpcl.corE2_dim`` and ``thm1_dim`` have
it). The start fades as t0^2 L_0/t^2 (``affpcl.d5_dim_explicit_corrected``) against C/t: t has to
exceed t0^2 L_0/C many times, which is why the fits begin at t = 10^5. Two exponents are judged:
that of t, with the logarithm divided out for (i), and the power of ln t that is left in t times the
error, 1 for (i) and 0 for (ii) and (iii). The latter is a slope against ln ln t: a deviation e of
the slope in t appears in it ln t fold, about 13 e, hence its tolerance.

References: AffPCL, Lemma D.5. Exact moments, step by step for (ii)-(iv).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    HorizonConfig,
    Values,
    exact_errors,
    furthest,
    slowest,
    slowest_rate,
)
from linsys.algorithms import AffPCL, Steps
from linsys.moments import exact_moments
from linsys.stability import largest_stable_step

#: Tolerances: of exponents in t, and of powers of ln t.
TOLERANCE, LOGARITHM = 0.005, 0.07
CONSTANT, WEIGHTED = "constant step", "diminishing, mean error"
AVERAGED, LAST = "diminishing, averaged iterate", "diminishing, last iterate"
#: Power of ln t in the error times t; None: nothing is claimed.
POWERS = {CONSTANT: 1.0, WEIGHTED: 0.0, AVERAGED: 0.0, LAST: None}
MSE, SCALED = "(a) mean squared error", r"(b) error $\times\ t$"
LOOKS = {
    CONSTANT: rc.Look("#0072B2", "s"),
    WEIGHTED: rc.Look("#D55E00", "o"),
    AVERAGED: rc.Look("#009E73", "^"),
    LAST: rc.Look("#CC79A7", "v", "--"),
}


@dataclass(frozen=True, kw_only=True)
class RateStepsConfig(HorizonConfig):
    """A population after given numbers of rounds."""

    d: int = 2
    instances: int = 2
    times: tuple[int, ...] = rc.param(
        (100, 300, 10**3, 3000, 10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6),
        doc=(
            "t, increasing; constant steps have a run of t rounds each, diminishing ones are "
            "taken one by one up to the last t."
        ),
    )


def compute(config: RateStepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The error of one agent of the first type in the four ways of taking steps."""
    types = config.pieces(block["instance"]).types(config.n, config.env, config.obj)
    system, times = types.system, np.array(config.times)
    lam = slowest_rate(system)
    t0 = float(np.ceil(8.0 / (lam * largest_stable_step(system, AffPCL()))))
    engine = exact_moments(system, AffPCL(), steps=Steps.diminishing(t0=t0, lam=lam), agents=[0])
    run = engine.run(times)
    errors = {
        CONSTANT: exact_errors(system, AffPCL(), times, [0]).error[:, 0],
        WEIGHTED: run.weighted.error[:, 0],
        AVERAGED: run.averaged.error[:, 0],
        LAST: run.error[:, 0],
    }
    return rc.long_table(
        {"steps": np.array(list(errors)), "t": times}, mse=np.stack([*errors.values()]), t0=t0
    )


def analyse(config: RateStepsConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of t, powers of ln t, and the error at the largest t."""
    series, checks = [], []
    t = table.unique("t").astype(np.float64)
    late = t >= config.fit_from
    final: dict[str, Values] = {}
    for name, power in POWERS.items():
        mse: Values = table.where(steps=name).grid("mse", "instance", "t")
        final[name] = mse[:, -1] * t[-1]
        series += [rc.Series(name, MSE, t, mse[0]), rc.Series(name, SCALED, t, mse[0] * t)]
        if power is None:
            continue
        divided = mse / np.log(t) ** power
        what = f"{name}: MSE / ln t" if power else name
        slope = slowest(t[late], divided[:, late])
        checks.append(rc.rate_check(what, -1.0, slope, tolerance=TOLERANCE, bound=True))
        scaled, what = (np.log(t[late]), (mse * t)[:, late]), f"{name}: power of ln t"
        if name == CONSTANT:
            left, what = furthest(power, *scaled), f"{what}, as derived here"
        else:
            left = slowest(*scaled)
        bound = name != CONSTANT
        check = rc.rate_check(what, power, left, tolerance=LOGARITHM, bound=bound)
        checks.append(check if bound else rc.our_own(check))
    largest = float((final[AVERAGED] / final[WEIGHTED]).max())
    name = f"averaged iterate / mean error, t = {t[-1]:g}"
    exact = rc.Interval(largest, largest, largest)
    checks.append(rc.at_most(name, "at most 1 (Jensen)", exact, 1.0))
    shown = ", ".join(f"{name} {values[0]:.3g}" for name, values in final.items())
    notes = [
        "exact values; each exponent is that of the slowest instance, or of that furthest from "
        "a prediction derived here, among "
        f"{config.instances}, t from {config.fit_from:g} on; t0 is {table['t0'].min():g} to "
        f"{table['t0'].max():g}",
        f"t times the error at t = {t[-1]:g}: {shown}",
        "the last iterate under diminishing steps is free of the logarithm as well, without any "
        "average",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_steps",
    title="Constant against diminishing steps",
    source="Lemma D.5",
    kind="rate",
    variable="t",
    profiles={
        "quick": RateStepsConfig(),
        "paper": RateStepsConfig(
            d=3, instances=5, times=tuple(round(10 ** (k / 2)) for k in range(4, 14))
        ),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        MSE: rc.Panel(
            "rounds $t$", "mean squared error", "xy", -1.0, title="(a) mean squared error"
        ),
        SCALED: rc.Panel("rounds $t$", r"error $\times\ t$", "xy", title="(b) relative to $1/t$"),
    },
    layout=rc.Layout(width=3.7, height=2.8, looks=LOOKS, markers=99),
)
