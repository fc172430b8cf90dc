r"""The size of grad L(phi) against the factor beta of the reward, without learning and after it.

Problem: L(phi) over random training domains, linear rewards, and rewards s tanh(phi . xi / s) with
s = 2 where it matters. Algorithm: none in (a); Algorithm 1 from phi = 0 with exact losses over all
domains in (b) to (d), K rounds of D steps, with a given eta and with eta proportional to beta^2.

Guarantee (Theorem 1, Remark 1): the mean of ||grad L||^2 is O(1/K + 1/beta^2) + tau, so that "a
larger reward controlling factor makes the algorithm converge better".

Derived: (10) holds phi and beta as r_phi / beta alone. A linear reward has r_phi / beta = r_{phi /
beta}, and so, with l the L of beta = 1,

    L_beta(phi) = l(phi / beta),   grad L_beta(phi) = grad l(phi / beta) / beta.

- beta is the unit of phi and nothing else. Algorithm 1 with (beta, beta^2 eta, beta phi_0) makes
  the rounds of (1, eta, phi_0), with the same samples: the same policies, the same L and A_PL in
  every round, and a ||grad L||^2 that is beta^2 times smaller.
- At any phi, trained or not, ||grad L||^2 = ||grad l(0)||^2 / beta^2 in the end: exponent -2.
- With a given eta, K rounds are a time K eta / beta^2 in the units of l. Far above beta = (K eta
  ||l''||)^(1/2) nothing has been learnt: the share of L(phi_0) - min L that is gained has the
  exponent -2 as well. Where the gradient is small because beta is large, so is what was learnt.
- What a given reward changes in L against no reward, |L(phi) - L(0)|, has the exponent -1, for
  bounded rewards as well, which cannot make up for it with a larger phi.

Regime: at a given phi, beta from ten times the largest |r|, so that exp(r / beta) is linear up to
10 %. After training, beta^2 from 10 K eta ||l''(0)||. The correction of order 1 / beta at a given
phi is known from a beta far beyond the window; that of training is at most K eta ||l''(0)|| /
beta^2 of what is gained and twice that of ||grad L||^2. Tolerances are twice the change of slope of
either.

References: OOD-PL, Theorem 1, Remark 1, equations (10), (11) and (26).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.oodpl.rates._rate_beta_runs import (
    BOUNDED,
    EFFECT,
    FLAT,
    GIVEN,
    LINEAR,
    SAMPLES,
    SCALED,
    WITHOUT,
    RateBetaConfig,
    compute,
)
from experiments.oodpl.rates._rate_style import BLUES, REDS, draw_curves
from experiments.oodpl.rates._rate_systems import LAW, LEVEL, normed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A pure power begins at this many times the largest |r|, and at this many times K eta ||l''||.
ASYMPTOTIC = 10.0
#: Of runs that are the same but for rounding, which contracting rounds do not amplify.
ROUNDING = 1e-9
UNTRAINED = r"(a) $\|\nabla L(\phi)\|^2$ at a given $\phi$"
TRAINED = r"(b) $\|\nabla L(\phi_K)\|^2$ after training"
GAINED = r"(c) share of $L(\phi_0) - \min L$ gained"
HELD_OUT = r"(d) $A_{\mathrm{PL}}$ on held-out domains"
LOOKS = {
    LINEAR: rc.Look(BLUES[0], "o"),
    BOUNDED: rc.Look(BLUES[1], "s"),
    GIVEN: rc.Look(REDS[0], "^"),
    SCALED: rc.Look(REDS[1], "D"),
    WITHOUT: rc.Look("#777777", "", "--"),
}


def analyse(config: RateBetaConfig, table: rc.Table) -> rc.Analysis:
    """Exponents without and with training, and runs that are the same but for their unit."""
    series, checks = _at_given_phi(config, table)
    more_series, more_checks = _after_training(config, table)
    same, same_checks = _in_units(config, table)
    notes = [
        f"{config.instances} instances of {config.train} training and {config.held_out} held-out "
        f"domains; {config.K} rounds of {config.D} steps, exact losses over all training domains",
        "derived: (10) holds phi and β as r/β alone, so that for linear rewards L_β(φ) = L_1(φ/β): "
        "β is the unit of φ",
        "derived: the O(1/β²) of Theorem 1 is the flatness of the objective and needs no "
        "training; with a given η, what is learnt falls like 1/β² too",
        "derived: with η ~ β² every β makes the same policies round by round; a larger β does not "
        "make Algorithm 1 converge better in L or in A_PL",
    ]
    return rc.Analysis([*series, *more_series, *same], [*checks, *more_checks, *same_checks], notes)


def _at_given_phi(
    config: RateBetaConfig, table: rc.Table
) -> tuple[list[rc.Series], list[rc.Check]]:
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    betas = np.array(config.betas, dtype=float)
    for curve in (LINEAR, BOUNDED):
        part = table.where(curve=curve)
        late = betas >= ASYMPTOTIC * float(part.grid("largest", "instance", "beta").max())
        x = betas[late]
        for name, column, power, suffix in (
            ("||grad L||^2 at a given phi", "square", FLAT, ""),
            ("|L(phi) - L(0)|", "effect", EFFECT, "_effect"),
        ):
            limit = part.grid("limit" + suffix, "instance", "beta")
            room = part.grid("room" + suffix, "instance", "beta")[:, 0].mean()
            measured = part.grid(column, "instance", "beta") / limit
            slope = rc.slope_interval(x, measured[:, late], rng=0, level=LEVEL)
            tolerance = 2.0 * rc.slope_shift(x, room / x)
            what = f"{curve}: {name}"
            checks.append(rc.rate_check(what, power, slope, tolerance=tolerance))
            last = rc.mean_interval(measured[:, -1] * x[-1] ** -power, LEVEL)
            what = f"{what}, last β / limit"
            checks.append(rc.rate_check(what, 1.0, last, tolerance=2.0 * float(room / x[-1])))
            if column == "square":
                series.append(
                    rc.Series(curve, UNTRAINED, betas, *rc.mean_band(measured, level=LEVEL))
                )
    series.append(rc.Series(LAW, UNTRAINED, betas, betas**FLAT))
    return series, checks


def _after_training(
    config: RateBetaConfig, table: rc.Table
) -> tuple[list[rc.Series], list[rc.Check]]:
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    betas = config.trained
    part = table.where(curve=GIVEN)
    rounds = config.unit * config.K
    late = betas**2 >= ASYMPTOTIC * rounds
    x = betas[late]
    for name, column, panel, terms in (
        ("||grad L||^2 after training", "square", TRAINED, 2.0),
        ("share gained", "effect", GAINED, 1.0),
    ):
        measured = part.grid(column, "instance", "beta")
        slope = rc.slope_interval(
            x, normed(measured[:, late], measured[:, late]), rng=0, level=LEVEL
        )
        tolerance = 2.0 * rc.slope_shift(x, -terms * rounds / x**2)
        checks.append(rc.rate_check(f"given η: {name}", FLAT, slope, tolerance=tolerance))
        series.append(rc.Series(GIVEN, panel, betas, *rc.mean_band(measured, level=LEVEL)))
    square = part.grid("square", "instance", "beta")
    first, second = (int(np.argmin(np.abs(betas - beta))) for beta in (1.0, rounds**0.5))
    rise = rc.mean_interval(np.log(square[:, second] / square[:, first]), LEVEL)
    what = f"given η: log ||grad L||^2 at β = {betas[second]:g} over β = 1"
    remark = "a larger β has not converged where β = 1 has"
    checks.append(rc.above(what, "above 0", rise, 0.0, remark=remark))
    return series, checks


def _in_units(config: RateBetaConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    """Runs with eta proportional to beta^2, and held-out domains."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    scaled = np.array(config.scaled, dtype=float)
    part, printed = table.where(curve=SCALED), table.where(curve=SAMPLES)
    for column, panel in (("square", TRAINED), ("effect", GAINED)):
        values = part.grid(column, "instance", "beta")
        series.append(rc.Series(SCALED, panel, scaled, *rc.mean_band(values, level=LEVEL)))
    for name, column, power in (
        ("share gained", "effect", 0.0),
        ("β² ||grad L||^2", "square", FLAT),
        ("A_PL", "accuracy", 0.0),
    ):
        for words, rows in (("exact steps", part), ("Algorithm 1 as printed", printed)):
            x = rows.unique("beta")
            values = rows.grid(column, "instance", "beta") / x**power
            apart = float(np.abs(values / values[:, :1] - 1.0).max())
            what = f"η ~ β², {words}: {name}, largest relative difference"
            checks.append(
                rc.every(rc.at_most(what, "0", rc.Interval(apart, apart, apart), ROUNDING))
            )
    given = table.where(curve=GIVEN).grid("accuracy", "instance", "beta")
    values = part.grid("accuracy", "instance", "beta")
    plain = table.where(curve=WITHOUT).grid("accuracy", "instance")
    series.append(rc.Series(GIVEN, HELD_OUT, config.trained, *rc.mean_band(given, level=LEVEL)))
    series.append(rc.Series(SCALED, HELD_OUT, scaled, *rc.mean_band(values, level=LEVEL)))
    series.append(rc.Series(WITHOUT, HELD_OUT, scaled, np.full(len(scaled), plain.mean())))
    lost = rc.mean_interval(values[:, -1] - given[:, -1], LEVEL)
    what = f"held-out A_PL at β = {scaled[-1]:g}: η ~ β² less given η"
    checks.append(rc.above(what, "above 0", lost, 0.0))
    left = rc.mean_interval(given[:, -1] - plain, LEVEL)
    what = f"held-out A_PL at β = {config.trained[-1]:g}, given η: less without a reward"
    checks.append(rc.within(what, "0, up to one pair in a hundred", left, -0.01, 0.01))
    return series, checks


def draw(config: RateBetaConfig, analysis: rc.Analysis) -> Figure:
    """Flatness, gains and accuracies against beta."""
    figure, axes = rc.panels(analysis.series, width=3.0, height=2.8, columns=2, share_y=False)
    draw_curves(axes, analysis.series, LOOKS)
    for panel, ax in axes.items():
        ax.set_xscale("log") if panel == HELD_OUT else rc.loglog(ax)
        ax.set_xlabel(r"$\beta$")
    axes[UNTRAINED].set_ylabel(r"over the limit of $\beta^2 \|\nabla L\|^2$")
    late = (config.trained[-1] / 16.0, config.trained[-1])
    for panel in (TRAINED, GAINED):
        end = min(float(s.y[-1]) for s in analysis.series if s.panel == panel and s.name == GIVEN)
        rc.guide(axes[panel], FLAT, late, 0.3 * end * 16.0**2)
    rc.legend(figure, axes, columns=3)
    return figure


EXPERIMENT = rc.Experiment(
    id="ood/rate_beta",
    title="The gradient of L against the factor of the reward, without learning and after it",
    source="Theorem 1, Remark 1, equation (10)",
    kind="rate",
    variable="beta",
    profiles={
        "quick": RateBetaConfig(),
        "paper": RateBetaConfig(instances=100, train=4, held_out=2, D=100, K=100),
    },
    blocks=lambda config: config.pieces,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
