"""How well a density ratio can be known: Theorem 2's lower bound beside exact Bayes risks.

Problem and assumptions: n agents, t samples each, all seen by everybody; mu^0 known; ||mu^i -
mu^j||_TV <= delta_env. Error: E_{mu^0} |rhohat^i - rho^i|^2.

Algorithm: any estimator. The Bayes risk under a fair choice between two hypotheses bounds the
largest error of every estimator from below, and is an exact binomial sum here. Three estimators
beside it: the ratio one, frequencies of the samples over the known mu^0, and one-hot linear
estimation (C.4) with the step ln t / (lambda^rho t).

Hypotheses (Appendix C.3): mu^i is one of two distributions that differ by the sign of a tilt. A
pair of states a, b has mass q each under mu^0, and mu^i(a), mu^i(b) = q (1 +- v), so that rho^i is
1 +- v there, 1 elsewhere, and ||mu^i - mu^0||_TV = q v. With q = 1/2 these are the hypotheses of
Theorem 2's proof (its d states fall into two classes, v = epsilon/sqrt(d)); with v = 1 the agent
never visits one of two rare states. The other agents' environment is (n mu^0 - mu^i)/(n - 1). Of
two agents, the other one is the mirror image, so that both together tell as much as 2 t samples of
one. As n grows, what the others tell vanishes like 1/n: t samples. These two cases are exact.

Guarantee (Theorem 2): for some system the error is at least min{1/(96 t), delta_env^2}; slope -1 in
t and a plateau at small t, so that similar environments do not help.

Regime: the plateau is over where samples tell hypotheses apart, t of order 1/delta_env^2; slopes
are fitted from 25 times that on (``LATE``). Linear estimation has a factor ln t, divided out. The
tolerance covers what the finite range leaves.

What the exact values say of the proof. (i) Its hypotheses have ||mu^i - mu^0||_TV = tau, but then
||mu^i - mu^j||_TV = tau n/(n - 1): under Definition 2 only tau = (1 - 1/n) delta_env is allowed,
and for n = 2 the plateau of these hypotheses is delta_env^2 less a little, below the bound. (ii)
H_2 counts one sample of mu^0 instead of those of all n - 1 agents; all of them give
8 eps^2/(d (n-1)), which exceeds the 4 eps^2/d that (12) uses when n = 2. (iii) The theorem survives
both, with a better plateau: hypotheses that differ on *rare* states only have Bayes risk
2 q (1 - 2 q)^t with q = (1 - 1/n) delta_env (many agents), of order delta_env instead of
delta_env^2, and 1/(e (t + 1)) later on.

References: AffPCL, Theorem 2, Appendices C.3, C.4. Values are exact: for n = 2 and for n to
infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from linsys import InputError

#: The exponents of t at large t, and of delta_env in the plateau at small t.
STATED, PLATEAU = -1.0, 2.0
TOLERANCE = 0.01
ROUNDING = 1e-9
#: Slopes are fitted where t is above LATE/delta^2, plateaus where it is below 1/(EARLY delta^2).
LATE, EARLY = 25.0, 400.0
#: Tilts tau that are tried, in units of 1/sqrt(samples): the worst one is near 0.53.
_TRIED = np.linspace(0.1, 1.2, 56)
#: Half width of the binomial window, in standard deviations.
_WIDTH = 12.0
BOUND, ONE, COUNTS, LINEAR = (
    "Theorem 2",
    "ratio one, n = 2",
    "frequencies, n = 2",
    "linear (C.4), n = 2",
)
TWO, MANY = "Bayes, n = 2", "Bayes, n → ∞"
SPREAD, RARE = "(a) differing everywhere (proof)", "(b) differing on rare states"
LOOKS = {
    BOUND: rc.Look("#000000", "", "-."),
    TWO: rc.Look("#D55E00", "o"),
    MANY: rc.Look("#CC79A7", "v", "--"),
    ONE: rc.Look("#56B4E9", "D"),
    COUNTS: rc.Look("#009E73", "^"),
    LINEAR: rc.Look("#E69F00", "P"),
}


@dataclass(frozen=True, kw_only=True)
class RateDensityRatioConfig(rc.Config):
    """Two hypotheses on an environment."""

    seed: int = rc.param(0, doc="unused: nothing is random.")
    delta: float = rc.param(0.005, above=0.0, high=0.1, doc="delta_env.")
    times: tuple[int, ...] = rc.param(
        (1, 3, 10, 30, 100, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8),
        low=1,
        increasing=True,
        doc="t, samples of every agent, increasing; from far below to far above 1/delta_env^2.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        times = np.array(self.times) * self.delta**2
        if (times >= LATE).sum() < 2 or (times <= 1 / EARLY).sum() < 2:
            raise InputError(
                f"`times` must hold two values beyond {LATE / self.delta**2:g} and two below "
                f"{1 / (EARLY * self.delta**2):g}; found {self.times}"
            )


def undecided(samples: int, v: float) -> float:
    """E[1 - E[sign | data]^2] of a fair sign in Bin(samples, (1 + sign v)/2): a binomial sum.

    >>> undecided(1, 0.5)  # the posterior mean of the sign is +-v
    0.75
    """
    from scipy.special import gammaln

    if v >= 1.0:
        return 1.0 if samples == 0 else 0.0
    half = 0.5 * samples * v + _WIDTH * 0.5 * np.sqrt(samples) + 1.0
    low, high = max(0, int(0.5 * samples - half)), min(samples, int(0.5 * samples + half) + 1)
    k = np.arange(low, high + 1, dtype=np.float64)
    choose = gammaln(samples + 1.0) - gammaln(k + 1.0) - gammaln(samples - k + 1.0)
    up, down = np.log1p(v) - np.log(2.0), np.log1p(-v) - np.log(2.0)
    plus = np.exp(choose + k * up + (samples - k) * down)
    minus = np.exp(choose + k * down + (samples - k) * up)
    total = plus + minus
    return float(np.divide(2.0 * plus * minus, total, out=np.zeros_like(k), where=total > 0).sum())


def spread_risk(samples: int, largest: float) -> tuple[float, float]:
    """Bayes risk for q = 1/2 at the worst tau = ||mu^i - mu^0||_TV <= largest: (risk, tau)."""
    tilts = np.unique(np.minimum(np.append(_TRIED / np.sqrt(samples), largest), largest))
    risks = [4.0 * tau**2 * undecided(samples, 2.0 * tau) for tau in tilts.tolist()]
    best = int(np.argmax(risks))
    return risks[best], float(tilts[best])


def rare_risk(samples: int, largest: float) -> tuple[float, float]:
    """Bayes risk for v = 1 at the worst q = ||mu^i - mu^0||_TV <= largest: (risk, q).

    The sign is known after one visit: 2 q (1 - 2 q)^samples, largest at q = 1/(2 (samples + 1)).
    """
    q = min(largest, 0.5 / (samples + 1.0))
    return 2.0 * q * (1.0 - 2.0 * q) ** samples, q


def linear_risk(t: int, tau: float, n: int = 2) -> float:
    """E_{mu^0} |rhohat - rho^i|^2 of one-hot linear estimation (C.4) on two states, exactly.

    eta(s) <- eta(s) - alpha (c_s eta(s) / n - 1{s^i = s}) with c_s agents at s, from 0 and with
    alpha = ln t / (lambda^rho t), lambda^rho = 1/2; the others follow (n mu^0 - mu^i)/(n - 1). The
    centred moments (E e^2, E e) of each state obey a linear recursion; its t-th power is taken.
    """
    alpha = np.log(t) / (0.5 * t)
    risk = 0.0
    for side in (1.0, -1.0):
        own, rho = 0.5 + side * tau, 1.0 + 2.0 * side * tau
        other = (0.5 * n - own) / (n - 1)
        visits = np.zeros(n)  # distribution of the visits of the n - 1 others
        visits[0] = 1.0
        for _ in range(n - 1):
            visits[1:] = visits[1:] * (1.0 - other) + visits[:-1] * other
            visits[0] *= 1.0 - other
        step = np.zeros((2, 2))  # acts on (E e^2, E e); the noise has mean zero
        constant = 0.0
        for x, chance in ((1.0, own), (0.0, 1.0 - own)):
            share = (np.arange(n) + x) / n
            keep, noise = 1.0 - alpha * share, alpha * (x - share * rho)
            weight = chance * visits
            step += [[weight @ keep**2, weight @ (2.0 * keep * noise)], [0.0, weight @ keep]]
            constant += float(weight @ noise**2)
        affine = np.array([[*step[0], constant], [*step[1], 0.0], [0.0, 0.0, 1.0]])
        start = np.array([rho**2, -rho, 1.0])
        risk += 0.5 * float((np.linalg.matrix_power(affine, t) @ start)[0])
    return risk


def blocks(config: RateDensityRatioConfig) -> list[rc.Block]:
    """All times at once: they are sums of a few thousand terms."""
    return [{"delta": config.delta}]


def compute(config: RateDensityRatioConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Bayes risks, and the estimators' errors under the hypotheses that are worst for n = 2."""
    delta = block["delta"]
    risk = np.full((2, 6, len(config.times)), np.inf)
    for k, t in enumerate(config.times):
        stated = min(1.0 / (96.0 * t), delta**2)
        for panel, bayes in enumerate((spread_risk, rare_risk)):
            two, tilt = bayes(2 * t, 0.5 * delta)
            risk[panel, :3, k] = stated, two, bayes(t, delta)[0]
            # chi^2, and the variance of 2 t pooled visits over the known mu^0 where it is uncertain
            chi2 = 4.0 * tilt**2 if panel == 0 else 2.0 * tilt
            visits = 0.5 * (1.0 - 4.0 * tilt**2) if panel == 0 else 1.0 - 2.0 * tilt
            risk[panel, 3:5, k] = chi2, visits / t
        if t > 1:
            risk[0, 5, k] = linear_risk(t, spread_risk(2 * t, 0.5 * delta)[1])
    return rc.long_table(
        {
            "panel": np.array([SPREAD, RARE]),
            "curve": np.array(list(LOOKS)),
            "t": np.array(config.times),
        },
        risk=risk,
    )


def analyse(config: RateDensityRatioConfig, table: rc.Table) -> rc.Analysis:
    """Exponents, and the semantics of a lower bound."""
    t = np.array(config.times, dtype=np.float64)
    late, early = t * config.delta**2 >= LATE, t * config.delta**2 <= 1.0 / EARLY
    risk = {
        (panel, name): table.where(panel=panel, curve=name).grid("risk", "t")
        for panel in (SPREAD, RARE)
        for name in LOOKS
    }
    series, checks = [], []
    for (panel, name), values in risk.items():
        known = np.isfinite(values)
        if known.any():
            series.append(rc.Series(name, panel, t[known], values[known]))
    for panel in (SPREAD, RARE):
        for name in (TWO, MANY):
            slope = rc.exact_slope(t[late], risk[panel, name][late])
            what = f"{name}, {panel[4:]}"
            checks.append(rc.rate_check(what, STATED, slope, tolerance=TOLERANCE))
    slope = rc.exact_slope(t[late], risk[SPREAD, LINEAR][late] / np.log(t[late]))
    checks.append(
        rc.rate_check("linear estimation: MSE / ln t", STATED, slope, tolerance=TOLERANCE)
    )
    flat = rc.exact_slope(t[early], risk[SPREAD, TWO][early])
    checks.append(rc.rate_check("plateau at small t", 0.0, flat, tolerance=TOLERANCE))
    checks.append(_plateau(config.delta))
    best = {name: np.maximum(risk[SPREAD, name], risk[RARE, name]) for name in (TWO, MANY)}
    stated = risk[SPREAD, BOUND]
    for name in (TWO, MANY):
        checks.append(_at_least(f"{name} / Theorem 2, smallest", best[name] / stated))
    beaten = [
        risk[panel, name] / risk[panel, TWO]
        for panel in (SPREAD, RARE)
        for name in (ONE, COUNTS, LINEAR)
    ]
    checks.append(_at_least("estimators / Bayes risk, smallest", np.concatenate(beaten)))
    smallest_ratio = float((risk[SPREAD, TWO] / stated).min())
    risk_times_t = [float((risk[SPREAD, name] * t)[-1]) for name in (TWO, MANY)]
    notes = [
        "exact values; the bound and the Bayes risks are lower bounds on what any estimator can "
        "promise; the other curves are estimators under the hypotheses that are worst for n = 2 at "
        "that t, which come closer together as t grows",
        f"with the hypotheses of the proof alone, n = 2 and Definition 2, the smallest ratio of "
        f"risk to bound is {smallest_ratio:.6f}: the proof's plateau is too high by up to "
        "(1 - 1/n)^-2; the rare-state hypotheses restore the theorem",
        f"at large t the risk is {risk_times_t[0]:.4f}/t for n = 2 and {risk_times_t[1]:.4f}/t for "
        f"many agents, {96 * risk_times_t[0]:.1f} and {96 * risk_times_t[1]:.1f} times 1/(96 t)",
        f"at t = {config.times[0]} the rare-state risk for n = 2 is "
        f"{risk[RARE, TWO][0] / config.delta**2:.0f} times δ_env²: the plateau is of order δ_env",
    ]
    return rc.Analysis(series, checks, notes)


def _at_least(name: str, ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> rc.Check:
    """A lower bound that nothing may fall below."""
    smallest = float(ratios.min())
    exact = rc.Interval(smallest, smallest, smallest)
    return rc.at_least(name, "at least 1", exact, 1.0 - ROUNDING)


def _plateau(delta: float) -> rc.Check:
    """The exponent of delta in the best plateau that is known, at t = 1: smaller is stronger."""
    levels = delta * np.array([0.1, 0.3, 1.0])
    slope = rc.exact_slope(levels, [rare_risk(2, 0.5 * v)[0] for v in levels.tolist()])
    remark = "stronger than stated" if slope.hi < PLATEAU - TOLERANCE else ""
    name = "plateau against δ_env at t = 1, rare states"
    return rc.at_most(name, PLATEAU, slope, PLATEAU + TOLERANCE, remark=remark)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_density_ratio",
    title="Lower bound of density-ratio estimation",
    source="Theorem 2, Appendix C.3",
    kind="rate",
    variable="t",
    profiles={
        "quick": RateDensityRatioConfig(),
        "paper": RateDensityRatioConfig(times=tuple(round(10 ** (k / 4)) for k in range(0, 33))),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        SPREAD: rc.Panel("samples per agent $t$", r"$\mathrm{E}_{\mu^0}|\hat\rho - \rho|^2$", "xy"),
        RARE: rc.Panel(
            "samples per agent $t$",
            log="xy",
            slope=rc.Guide(-1.0, span=(0.4, 0.9)),
        ),
    },
    layout=rc.Layout(width=3.7, height=3.0, share_y=True, legend=3, looks=LOOKS, markers=99),
)
