"""The size of grad L(phi) against the factor beta of the reward, without learning and after it.

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

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.oodpl import _lanes as lanes
from experiments.oodpl._style import ACCURACY
from experiments.oodpl.rates._rate_laws import derivative
from experiments.oodpl.rates._rate_losses import exact_losses
from experiments.oodpl.rates._rate_style import BLUES, REDS
from experiments.oodpl.rates._rate_systems import LAW, LEVEL, RateConfig, normed
from linsys.bilevel import (
    Domain,
    DomainOracle,
    MetaTraining,
    Start,
    TanhReward,
    pl_accuracy,
)
from linsys.validate import Array

#: Exponents in beta: of ||grad L||^2 and of what K rounds gain; and of the change that a given
#: reward makes.
FLAT, EFFECT = -2.0, -1.0
LINEAR, BOUNDED = "linear rewards", "bounded rewards"
GIVEN, SCALED = r"given $\eta$", r"$\eta \propto \beta^2$"
WITHOUT = "without a reward"
SAMPLES = "samples"


@dataclass(frozen=True, kw_only=True)
class RateBetaConfig(RateConfig):
    """Several domains to train on, and held-out ones."""

    betas: tuple[float, ...] = rc.param(
        (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
        above=0.0,
        increasing=True,
        doc="of all panels.",
    )
    scaled: tuple[float, ...] = rc.param(
        (1, 5, 50, 500),
        above=0.0,
        increasing=True,
        doc="the beta of training with eta proportional to beta^2, from 1 on.",
    )
    unit: float = rc.param(
        0.5,
        above=0.0,
        doc="eta ||l''(0)|| at beta = 1, so that descent is stable from beta = 1 on.",
    )
    alpha: float = rc.param(
        0.9,
        above=0.0,
        doc=("of inner steps, relative to what is stable at beta = 1, at zero and at the minimum."),
    )
    train: int = rc.param(2, low=1, doc="domains to train on.")
    held_out: int = rc.param(1, low=1, doc="domains held out.")
    D: int = rc.param(60, low=1, doc="inner steps of a round.")
    K: int = rc.param(30, low=1, doc="rounds.")
    s: float = rc.param(2.0, above=0.0, doc="the bound of bounded rewards.")

    @property
    def trained(self) -> Array:
        """The beta of training, from 1 on."""
        return np.array([beta for beta in self.betas if beta >= 1.0])


#: Values of beta beyond all fitted windows, at which limits and their corrections are computed.
_FAR = 1e6
_CORRECTED = 1e4
#: A factor that is not a power of two, so that two runs differ in their rounding.
_OTHER = 10.0
#: Step sizes of loops on one sample, relative to those of exact loops.
_SAMPLED = 0.1


def _oracles(domains: tuple[Domain, ...], beta: float) -> list[DomainOracle]:
    return [DomainOracle(domain=domain, beta=beta) for domain in domains]


def compute(config: RateBetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """One row per curve and beta: ||grad L||^2, what a reward changes or gains, A_PL, limits."""
    drawn = config.drawn(block["instance"], train=config.train, held_out=config.held_out)
    rows = _untrained(config, LINEAR, drawn.train, drawn.phi, np.inf)
    bounded = tuple(
        replace(domain, reward=TanhReward(domain.reward.xi, s=config.s)) for domain in drawn.train
    )
    rows += _untrained(config, BOUNDED, bounded, drawn.phi, config.s)
    rows += _training(config, drawn.train, drawn.held_out, config.derive("runs", block["instance"]))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def _untrained(
    config: RateBetaConfig, curve: str, domains: tuple[Domain, ...], phi: Array, s: float
) -> list[dict[str, float | str]]:
    """L at a given phi, of rewards of bound s.

    ``limit`` and ``room`` are of a curve times its power of beta.
    """
    largest = max(float(np.abs(domain.reward.value(phi)).max()) for domain in domains)
    betas = np.array([*config.betas, _FAR, _CORRECTED, 1.0])
    phis = np.tile(phi, (len(betas), 1))
    phis[-1] = 0.0
    values, gradients = exact_losses(domains, betas, phis, s)
    sizes = np.stack([(gradients**2).sum(axis=1), np.abs(values - values[-1])], axis=1)
    powers = -np.array([FLAT, EFFECT])
    far, corrected = sizes[len(config.betas) : -1]
    limit = far * _FAR**powers
    relative_error = np.abs(corrected * _CORRECTED**powers / limit - 1.0) * _CORRECTED
    fixed = {
        "curve": curve,
        "limit": limit[0],
        "limit_effect": limit[1],
        # relative to their limits, quantities at beta are off by this over beta to leading order
        "room": relative_error[0],
        "room_effect": relative_error[1],
        "largest": largest,
    }
    rows: list[dict[str, float | str]] = []
    for beta, (square, effect) in zip(config.betas, sizes[: len(config.betas)], strict=True):
        rows.append({**fixed, "beta": beta, "square": square, "effect": effect})
    return rows


def _training(
    config: RateBetaConfig, domains: tuple[Domain, ...], held_out: tuple[Domain, ...], seed: int
) -> list[dict[str, float | str]]:
    """Ends of Algorithm 1; ``effect`` is the share of L(phi_0) - min L that is gained."""
    from scipy.optimize import minimize

    oracles = _oracles(domains, 1.0)
    zero = np.zeros(oracles[0].q)

    def loss(phi: Array) -> tuple[float, Array]:
        values, gradients = exact_losses(domains, 1.0, phi[None])
        return float(values[0]), gradients[0]

    base, curvature = loss(zero)[0], derivative(lambda phi: loss(phi)[1], zero)
    eta = config.unit / float(np.linalg.norm(curvature, 2))
    least = minimize(loss, zero, jac=True, method="BFGS")
    stable = min(oracle.stable_step(phi) for oracle in oracles for phi in (zero, least.x))

    def ended(beta: float, step: float, *, sampled: bool = False) -> dict[str, float | str]:
        share = _SAMPLED if sampled else 1.0
        training = MetaTraining(
            alpha=share * config.alpha * stable,
            beta=beta,
            D=config.D,
            eta=share * step,
            K=config.K,
            seed=seed,
            inner_batch=1 if sampled else None,
            outer_batch=1 if sampled else None,
            every_task=not sampled,
        )
        last = lanes.run(training, domains, Start(zero, np.zeros(oracles[0].p)))[-1]
        values, gradients = exact_losses(domains, beta, last[None])
        return {
            "beta": beta,
            "square": float((gradients**2).sum()),
            "effect": (base - float(values[0])) / (base - float(least.fun)),
            "accuracy": _accuracy(held_out, beta, last),
        }

    rows: list[dict[str, float | str]] = []
    rows += [{"curve": GIVEN, **ended(float(beta), eta)} for beta in config.trained]
    rows += [{"curve": SCALED, **ended(beta, eta * beta**2)} for beta in config.scaled]
    for beta in (1.0, _OTHER):
        rows.append({"curve": SAMPLES, **ended(beta, eta * beta**2, sampled=True)})
    rows.append({"curve": WITHOUT, "beta": 1.0, "accuracy": _accuracy(held_out, 1.0, zero)})
    return rows


def _accuracy(domains: tuple[Domain, ...], beta: float, phi: Array) -> float:
    """The mean of A_PL at the end of Algorithm 2."""
    oracles = _oracles(domains, beta)
    return float(np.mean([pl_accuracy(o.domain, lanes.optimum(o, phi)) for o in oracles]))


#: beta is large, so that the power law holds, from this many times the largest |r| on, and from
#: this many times K eta ||l''|| on.
ASYMPTOTIC = 10.0
#: The relative difference of two runs that differ in rounding only: contracting rounds do not
#: amplify it.
ROUNDING = 1e-9
UNTRAINED = r"(a) $\|\nabla L(\phi)\|^2$ at a given $\phi$"
TRAINED = r"(b) $\|\nabla L(\phi_K)\|^2$ after training"
GAINED = r"(c) share of $L(\phi_0) - \min L$ gained"
HELD_OUT = r"(d) $A_{\mathrm{PL}}$ on held-out domains"
BETA, AT_LARGE = r"$\beta$", rc.Guide(FLAT, beside=GIVEN, span=(0.6, 1.0))
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
            relative_error = part.grid("room" + suffix, "instance", "beta")[:, 0].mean()
            measured = part.grid(column, "instance", "beta") / limit
            slope = rc.slope_interval(x, measured[:, late], rng=0, level=LEVEL)
            tolerance = 2.0 * rc.slope_shift(x, relative_error / x)
            what = f"{curve}: {name}"
            checks.append(rc.our_own(rc.rate_check(what, power, slope, tolerance=tolerance)))
            last = rc.mean_interval(measured[:, -1] * x[-1] ** -power, LEVEL)
            what = f"{what}, last β / limit"
            checks.append(
                rc.our_own(
                    rc.rate_check(what, 1.0, last, tolerance=2.0 * float(relative_error / x[-1]))
                )
            )
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
    checks.append(rc.our_own(rc.above(what, "above 0", rise, 0.0, remark=remark)))
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
            spread = float(np.abs(values / values[:, :1] - 1.0).max())
            what = f"η ~ β², {words}: {name}, largest relative difference"
            checks.append(
                rc.every(
                    rc.our_own(rc.at_most(what, "0", rc.Interval(spread, spread, spread), ROUNDING))
                )
            )
    given = table.where(curve=GIVEN).grid("accuracy", "instance", "beta")
    values = part.grid("accuracy", "instance", "beta")
    plain = table.where(curve=WITHOUT).grid("accuracy", "instance")
    series.append(rc.Series(GIVEN, HELD_OUT, config.trained, *rc.mean_band(given, level=LEVEL)))
    series.append(rc.Series(SCALED, HELD_OUT, scaled, *rc.mean_band(values, level=LEVEL)))
    series.append(rc.Series(WITHOUT, HELD_OUT, scaled, np.full(len(scaled), plain.mean())))
    lost = rc.mean_interval(values[:, -1] - given[:, -1], LEVEL)
    what = f"held-out A_PL at β = {scaled[-1]:g}: η ~ β² less given η"
    checks.append(rc.our_own(rc.above(what, "above 0", lost, 0.0)))
    remaining = rc.mean_interval(given[:, -1] - plain, LEVEL)
    what = f"held-out A_PL at β = {config.trained[-1]:g}, given η: less without a reward"
    checks.append(
        rc.our_own(rc.within(what, "0, up to one pair in a hundred", remaining, -0.01, 0.01))
    )
    return series, checks


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
    panels={
        UNTRAINED: rc.Panel(BETA, r"over the limit of $\beta^2 \|\nabla L\|^2$", log="xy"),
        TRAINED: rc.Panel(BETA, log="xy", slope=AT_LARGE),
        GAINED: rc.Panel(BETA, log="xy", slope=AT_LARGE),
        HELD_OUT: rc.Panel(BETA, ACCURACY, log="x"),
    },
    layout=rc.Layout(columns=2, width=3.0, height=2.8, legend=3, looks=LOOKS, markers=99),
    parallel="blocks",
)
