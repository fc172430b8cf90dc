"""Error of the hypergradient against the number D of inner steps.

Problem: a random domain (:mod:`linsys.bilevel.synthetic`) at its true reward phi, and the error
||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||, exact outer loss. Algorithm: D steps of size
alpha on (10) from theta_0 = 0, with exact gradients or one sample (x, y) each, and the derivative
through these steps. alpha is relative to 2 / Lambda, Lambda the explicit bound of the curvature of
L_FT, below which exact steps cannot increase L_FT.

Guarantee (Lemmas 3 and 4): the squared error is at most of the order q^D + V sum_{t<D} q^t with q =
3 (1 - alpha b mu / e^beta)^2 and V of the order alpha^2 (of 6 M^2 T^2 sigma_2^2 / (beta^2 L^2),
without alpha, as printed). Theorem 1 asks for D >= -log(M^2 / L^2 + ||theta_0 - theta_*||^2) / log
q.

Derived (:mod:`experiments.oodpl.rates._rate_laws`):

- Exact steps: the error is D lambda^D in the end, lambda = 1 - alpha lambda_min(H) with the Hessian
  H of L_FT at theta_*, at every alpha below 2 / (lambda_min + lambda_max). The factor D is the
  derivative of lambda^D by phi. So the error contracts as fast as the policy, but for that factor.
- q is above 1 for every step that suits the inner loop, with b / e^beta as with b^(1/beta), and the
  lemmas' bound grows like 3^D. Its 3 is the price of (a + b + c)^2 <= 3 (a^2 + b^2 + c^2); the
  corrected lemma has lambda^2 up to a factor as near to one as one likes.
- With q above 1 the condition on D asks for a number below zero, or of at most one.
- Sampled steps: the squared error ends at a floor of order alpha, exponent 1: it is alpha^2 per
  step over 1 / (alpha lambda_min) steps. Neither alpha^2 nor the alpha^0 of sigma_2^2 is right.

Regime, with tau = -1 / log lambda steps: the factor is measured from 8 tau, where the squares of
theta_D - theta_* that the law leaves out are below e^-8, to 24 tau, where the error is far above
rounding; a power D^s with s in [0, 1] makes -log of the measured factor between 1 - log(3) / 16 and
1 times 1 / tau. The factor D is measured from 12 to 20 tau in instances whose second eigenvalue of
H is at least 1.5 times the first, so that its mode has e^-6 of its size relative to the first.
Floors are seen after 6 tau, at alpha up to 0.04, where what is known of the next order in alpha is
about 5 %; tolerances are twice its change of the exponent, or of the constant, as not all of it is
known.

References: OOD-PL, Lemmas 3 to 5, Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

import ratecheck as rc
from experiments.oodpl import _lanes as lanes
from experiments.oodpl.rates._rate_laws import InnerLoop
from experiments.oodpl.rates._rate_style import BLUES, GREENS, GREY, REDS
from experiments.oodpl.rates._rate_systems import (
    LAW,
    LEVEL,
    FixedBetaConfig,
    normed,
    printed_factor,
)
from linsys.bilevel import DomainOracle, MetaTraining
from linsys.validate import Array

#: Numbers of steps at which exact errors are measured, in units of tau. The contraction factor is
#: fitted between ``FIRST`` and ``LAST``, the factor D of the error between those of ``_GROWS``.
TIMES = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0)
FIRST, LAST = 8.0, 24.0
_GROWS = (12.0, 20.0)
#: The second eigenvalue of H over the first, in the systems where the factor D is measured.
GAP = 1.5
#: The size of the second mode there, if its coefficient is up to ten times that of the first.
SECOND_MODE = 10.0 * float(np.exp(_GROWS[0] * (1.0 - GAP)))
#: The length of sampled loops, in units of tau.
LONG = 6.0


@dataclass(frozen=True, kw_only=True)
class RateInnerConfig(FixedBetaConfig):
    """Exact steps and sampled ones."""

    steps: tuple[float, ...] = rc.param(
        (0.25, 0.5, 0.95),
        above=0.0,
        high=1.0,
        increasing=True,
        least=1,
        doc="sizes of exact steps at ``beta``, relative to 2 / Lambda.",
    )
    betas: tuple[float, ...] = rc.param(
        (1.0, 2.0, 4.0, 8.0, 16.0),
        above=0.0,
        increasing=True,
        least=1,
        doc="of exact steps of the size ``share``.",
    )
    share: float = rc.param(
        0.5, above=0.0, high=1.0, doc="size of exact steps at ``betas``, relative to 2 / Lambda."
    )
    sampled: tuple[float, ...] = rc.param(
        (0.005, 0.01, 0.02, 0.04),
        above=0.0,
        high=1.0,
        increasing=True,
        doc="sizes of sampled steps at ``beta``, relative to 2 / Lambda.",
    )
    replicates: int = rc.param(20, low=2, doc="loops on samples per instance and step size.")

    @property
    def settings(self) -> list[tuple[float, float]]:
        """Pairs (relative step, beta) of exact steps."""
        by_step = [(step, self.beta) for step in self.steps]
        return by_step + [(self.share, b) for b in self.betas if (self.share, b) not in by_step]


def compute(config: RateInnerConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors and laws of both kinds of steps; columns that do not belong to a kind are zero."""
    drawn = config.drawn(block["instance"], train=1)
    oracle, phi = DomainOracle(domain=drawn.train[0], beta=config.beta), drawn.phi
    rows: list[dict[str, float | str]] = []
    for step, beta in config.settings:
        law = InnerLoop(replace(oracle, beta=beta), phi)
        rows += _exact(law, step, block["instance"])
    law = InnerLoop(oracle, phi)
    for step in config.sampled:
        rows += _sampled(config, law, step, block["instance"])
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def _exact(law: InnerLoop, step: float, instance: int) -> list[dict[str, float | str]]:
    """One row per time."""
    oracle, phi = law.oracle, law.phi
    alpha = step * oracle.stable_step(phi)
    factor = law.factor(alpha)
    tau = -1.0 / np.log(factor)
    counts = {time: int(np.ceil(time * tau)) for time in TIMES}
    ends = {t: _after(oracle, phi, alpha, D) for t, D in counts.items()}
    errors = {t: slopes[0] - law.gradient for t, (slopes, _) in ends.items()}
    early, late = (counts[t] for t in _GROWS)
    u = law.spectrum[1][:, 0]
    c = float(u @ (ends[_GROWS[0]][1] - law.theta)) / factor**early
    rise = errors[_GROWS[1]] / factor**late - errors[_GROWS[0]] / factor**early
    constants = oracle.domain.policy.constants(float(np.linalg.norm(law.theta)))
    distance = (constants.M / constants.L) ** 2 + float(law.theta @ law.theta)
    q = printed_factor(oracle, phi, law.theta, alpha)
    fixed = {
        "kind": "exact",
        "step": step,
        "beta": oracle.beta,
        "alpha": alpha,
        "factor": factor,
        "tau": tau,
        "printed": q,
        "repaired": printed_factor(oracle, phi, law.theta, alpha, repaired=True),
        "asked": -np.log(distance) / np.log(q),
        "gap": law.spectrum[0][1] / law.spectrum[0][0],
        "growth": float(np.linalg.norm(rise)) / (late - early),
        "growth_law": law.growth(alpha, c),
    }
    size = float(np.linalg.norm(law.gradient))
    return [
        {**fixed, "time": t, "D": D, "error": float(np.linalg.norm(errors[t])) / size}
        for t, D in counts.items()
    ]


def _after(
    oracle: DomainOracle, phi: Array, alpha: float, D: int, loops: int = 1
) -> tuple[Array, Array]:
    """Hypergradients after D steps from zero, of so many loops, (loops, q), and an end (p,)."""
    training = MetaTraining(
        alpha=alpha,
        beta=oracle.beta,
        D=D,
        eta=1.0,
        K=1,
        inner_batch=oracle.inner_batch,
        outer_batch=None,
        seed=oracle.seed,
    )
    return lanes.hypergradients(training, oracle.domain, phi, np.zeros(oracle.p), loops)


def _sampled(
    config: RateInnerConfig, law: InnerLoop, step: float, instance: int
) -> list[dict[str, float | str]]:
    """Mean squared errors: in the first instance for several D, otherwise at the end."""
    seed = config.derive("samples", instance)
    oracle = replace(law.oracle, inner_batch=1, seed=seed)
    alpha = step * law.oracle.stable_step(law.phi)
    tau = -1.0 / np.log(law.factor(alpha))
    floor, more = law.floor(alpha)
    rows: list[dict[str, float | str]] = []
    for time in (*np.geomspace(LONG / 200.0, LONG, 9)[:-1], LONG) if instance == 0 else (LONG,):
        D = int(np.ceil(time * tau))
        slopes, _ = _after(oracle, law.phi, alpha, D, config.replicates)
        squares = ((slopes - law.gradient) ** 2).sum(axis=1)
        rows.append(
            {
                "kind": "sampled",
                "step": step,
                "beta": oracle.beta,
                "alpha": alpha,
                "time": time,
                "D": D,
                "error": float(np.mean(squares)),
                "scale": float(law.gradient @ law.gradient),
                "floor": floor,
                "more": more,
            }
        )
    return rows


#: Exponents of the floor in alpha: the derived one, and that of V with the factor alpha^2 restored
#: before sigma_2^2.
FLOOR, STATED = 1.0, 2.0
#: -log of the contraction factor, times tau, as derived.
CONTRACTION = 1.0
EXACT, FACTORS = "(a) exact steps", r"(b) contraction per step, against $\beta$"
SAMPLED, FLOORS = "(c) sampled steps", r"(d) floor, against $\alpha$"
MEASURED, PRINTED = "contraction, measured", r"$\sqrt{q}$, with $b/e^\beta$ and with $b^{1/\beta}$"
FLOOR_NAME = "mean squared error"


def analyse(config: RateInnerConfig, table: rc.Table) -> rc.Analysis:
    """Contraction factors beside the printed and the derived one, and floors."""
    series, checks, notes = _contraction(config, table.where(kind="exact"))
    more_series, more_checks = _floors(config, table.where(kind="sampled"))
    notes = [
        f"{config.instances} random domains at their true rewards, exact outer loss; intervals "
        f"over domains, {config.replicates} sampled loops for each",
        *notes,
        "derived: a step adds α² of noise and 1/(α λ_min) of them are remembered, so "
        "that the floor has exponent 1; V/(1 - q) with q < 1 has 2, and 0 with the printed "
        "sigma_2^2",
    ]
    return rc.Analysis([*series, *more_series], [*checks, *more_checks], notes)


def _contraction(
    config: RateInnerConfig, table: rc.Table
) -> tuple[list[rc.Series], list[rc.Check], list[str]]:
    """Panels (a) and (b)."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    by_beta: list[tuple[float, Array]] = []
    least, asked, needed = np.inf, -np.inf, []
    for step, beta in config.settings:
        part = table.where(step=step, beta=beta)
        error, D = (part.grid(name, "instance", "time") for name in ("error", "D"))
        one = part.where(time=LAST)
        factor, tau, printed, repaired, gap, growth, growth_law = (
            one.grid(name, "instance")
            for name in ("factor", "tau", "printed", "repaired", "gap", "growth", "growth_law")
        )
        first, last = TIMES.index(FIRST), TIMES.index(LAST)
        rate = np.log(error[:, first] / error[:, last]) / (D[:, last] - D[:, first])
        name = f"exact, {step:g} of 2/Λ, β = {beta:g}"
        low = CONTRACTION - np.log(LAST / FIRST) / (LAST - FIRST)
        relative = rc.mean_interval(rate * tau, LEVEL)
        what = f"{name}: -log of the factor / derived"
        words = f"between D λ^D and λ^D: {low:.2f} to {CONTRACTION:g}"
        checks.append(rc.within(what, words, relative, low, CONTRACTION))
        separated = gap >= GAP
        off = growth[separated] / growth_law[separated]
        ends = rc.Interval(float(off.mean()), float(off.min()), float(off.max()))
        what = f"{name}: factor D / derived, {separated.sum()} instances"
        checks.append(
            rc.every(rc.our_own(rc.within(what, 1.0, ends, 1.0 - SECOND_MODE, 1.0 + SECOND_MODE)))
        )
        least = min(least, float(printed.min()), float(repaired.min()))
        asked = max(asked, float(one.grid("asked", "instance").max()))
        if step == config.share:
            by_beta.append((beta, np.array([np.exp(-rate), factor, np.minimum(printed, repaired)])))
        if beta == config.beta:
            needed.append((step, float(np.median(_steps_to(error, D, 0.01)))))
            series.append(rc.Series(_label(step), EXACT, D[0], error[0]))
            law = D[0] * factor[0] ** D[0]
            series.append(rc.Series(LAW, EXACT, D[0], law * (error[0] / law)[last]))
    smallest = rc.Interval(least, least, least)
    what = "q with constants that suit it best, least of all cases"
    checks.append(rc.every(rc.our_own(rc.above(what, "above 1: the bound grows", smallest, 1.0))))
    most = rc.Interval(asked, asked, asked)
    what = "D that Theorem 1 asks for, largest of all cases"
    checks.append(rc.every(rc.at_most(what, "at most 1 step", most, 1.0)))
    by_beta.sort(key=lambda pair: pair[0])
    betas = np.array([beta for beta, _ in by_beta])
    values = np.array([value for _, value in by_beta])
    series.append(rc.Series(MEASURED, FACTORS, betas, *rc.mean_band(values[:, 0].T, level=LEVEL)))
    series.append(rc.Series(LAW, FACTORS, betas, values[:, 1].mean(axis=1)))
    series.append(rc.Series(PRINTED, FACTORS, betas, np.sqrt(values[:, 2]).mean(axis=1)))
    steps = ", ".join(f"{D:.0f} at {step:g} of 2/Λ" for step, D in needed)
    notes = [
        f"an error of 1 % needs D = {steps} (medians); Theorem 1's condition asks for "
        f"{asked:.2f} steps at most, since q > 1 turns its sign",
        "derived: exact steps contract the error by λ = 1 - α λ_min(H) per step, up to a factor D; "
        "the 3 in q is an inequality's, not the loop's",
    ]
    return series, checks, notes


def _label(step: float) -> str:
    return f"α = {step:g} · 2/Λ"


def _steps_to(error: Array, D: Array, target: float) -> Array:
    """Steps until a relative error, by log-linear interpolation between the times; (instances,)."""
    return np.array(
        [
            np.interp(-np.log(target), -np.log(np.minimum.accumulate(e)), d)
            for e, d in zip(error, D, strict=True)
        ]
    )


def _floors(config: RateInnerConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    """Panels (c) and (d)."""
    series: list[rc.Series] = []
    for step in config.sampled:
        part = table.where(step=step, instance=0)
        D, error, scale = (part.grid(name, "time") for name in ("D", "error", "scale"))
        series.append(rc.Series(_label(step), SAMPLED, D, error / scale))
        series.append(rc.Series(LAW, SAMPLED, D[-3:], (part.grid("floor", "time") / scale)[-3:]))
    late = table.where(time=LONG)
    error, floor, more = (late.grid(n, "instance", "step") for n in ("error", "floor", "more"))
    x = np.array(config.sampled)
    measured, law = normed(error, floor), normed(floor, floor)
    known = (more / floor - 1.0).mean(axis=0)
    tolerance = 2.0 * rc.slope_shift(x, known)
    slope = rc.slope_interval(x, measured, rng=0, level=LEVEL)
    checks = [
        rc.our_own(
            rc.rate_check("sampled: exponent of the floor in α", FLOOR, slope, tolerance=tolerance)
        ),
        rc.our_own(
            rc.below(
                "sampled: exponent of the floor, against V of order α²",
                f"below {STATED:g}",
                slope,
                STATED,
                tolerance=tolerance,
                remark="1/(α λ_min) steps are remembered",
            ),
            paper=f"{STATED:g}",
        ),
    ]
    for at, words in ((0, "least"), (-1, "largest")):
        size = rc.mean_interval(error[:, at] / floor[:, at], LEVEL)
        name = f"sampled: floor / law, {words} α"
        checks.append(rc.our_own(rc.rate_check(name, 1.0, size, tolerance=2.0 * float(known[at]))))
    series.append(rc.Series(FLOOR_NAME, FLOORS, x, *rc.mean_band(measured, level=LEVEL)))
    series.append(rc.Series(LAW, FLOORS, x, law[0]))
    return series, checks


def layout(config: RateInnerConfig) -> rc.Layout:
    """Two panels abreast; every step size has its look, by how steps are taken."""
    looks = {
        MEASURED: rc.Look(GREENS[0], "o"),
        PRINTED: rc.Look(GREY, "x", "--"),
        FLOOR_NAME: rc.Look(REDS[0], "D"),
    }
    for steps, colours in ((config.steps, BLUES), (config.sampled, REDS)):
        for step, colour, marker in zip(steps, cycle(colours), cycle("os^v")):
            looks[_label(step)] = rc.Look(colour, marker)
    return rc.Layout(columns=2, width=3.0, height=2.9, legend=4, looks=looks, markers=99)


EXPERIMENT = rc.Experiment(
    id="ood/rate_inner",
    title="Error of the hypergradient against the number of inner steps",
    source="Lemmas 3 to 5, Theorem 1",
    kind="rate",
    variable="D",
    profiles={
        "quick": RateInnerConfig(),
        "paper": RateInnerConfig(
            instances=100, sampled=(0.00125, 0.0025, 0.005, 0.01, 0.02, 0.04), replicates=60
        ),
    },
    blocks=lambda config: config.pieces,
    compute=compute,
    analyse=analyse,
    panels={
        EXACT: rc.Panel("inner steps $D$", "relative error of the hypergradient", log="y"),
        FACTORS: rc.Panel(r"$\beta$", log="x", ticks="points", level=1.0),
        SAMPLED: rc.Panel("inner steps $D$", "its mean square", log="xy"),
        FLOORS: rc.Panel(
            r"$\alpha$ / $(2/\Lambda)$",
            "relative to the law at the least α",
            log="xy",
            slope=rc.Guide(STATED, r"$\alpha^2$, as $V$"),
            ticks="points",
        ),
    },
    layout=layout,
    parallel="blocks",
)
