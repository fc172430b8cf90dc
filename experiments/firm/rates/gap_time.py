"""The mean Pareto-stationarity gap against the number of steps T.

Exact gradients
===============
Problem: a tabular process with two actions and one logit per pair, exact gradients, for which C and
K play no part; 32 random starts. The step is a = 1 / L_J with the L_J of all policies
(``smoothness_everywhere``).

Guarantee: (34), (35): (1/T) sum_t ||grad J lambda_t||^2 = O(log T / (a T)) with eta_t = 1/t. With
eta = 1 the sum of Lemma 10 is of order T, and the paper promises nothing.

Derived here: with eta = 1, sum_t ||grad J lambda_t||^2 <= (2/a)(max J_u - J_u(theta_0)), J_u the
mean objective (see :mod:`experiments.firm._gaps`): T^{-1} without smoothing and without a
logarithm, for any beta. Where J_u is largest at a deterministic policy, as it is for almost every
process, the gap follows a law without constants of the process. Near it, with D(s) the occupancy,
D_b(s) the advantage that action b lacks and p_b its probability, theta(s, b) moves by -a D p_b D_b,
so that

    d ln p_b / dt = -a D (p_b D_b + sum_c p_c D_c),    hence    p_b ~ 1 / (A a D D_b t),
    ||grad J lambda_t||^2 ~ S (1 - 1/A) / (a t)^2    for S states and A actions.

The sum converges for both eta: no log T. Regime: with two actions and tau = 1 / (2 a D D_b), the
odds o of the better action have o + 2 ln o - 1/o = t/tau + const, so that the law is off by about
2 (tau/t)(2 ln(t/tau) + const); the constant is below 4 on average for the starts here. Processes
are drawn with tau <= ``slowest`` in all states, and T is 200 times that.

Sampled gradients
=================
Problem: that of firm/gap_clients, from the uniform policy, T sixty relaxation times. The mean
falls like 1/T to the floor that :mod:`experiments.firm._gaps` derives; with Markov samples to the
bias of Delta. (In the tabular process p_b, gradients and noise vanish together: no floor is left.)

References: FIRM, Theorem 1, Lemma 10, equations (31) to (35).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.firm._gap_means import exact_gaps, sampled_gaps
from experiments.firm._gap_runs import (
    CURVES,
    GAP,
    MARKOV,
    PLAIN,
    SMOOTHED,
    SteeredConfig,
    near_one,
)
from experiments.firm._style import GAP_LOOKS
from experiments.firm._systems import BatchConfig, ClientsConfig, ConflictConfig
from experiments.firm._words import LAW
from linsys import InputError
from linsys.validate import Array
from mgda.constants import smoothness_everywhere
from mgda.momdp import MOMDP
from mgda.runs import geometric_times

#: Standard deviation of the first logits, and a bound of what they add to t / tau on average:
#: E(o + 1/o + 2|ln o|) at odds o whose logarithm has twice that variance.
SPREAD, _START = 0.5, 4.0
#: A logit that takes an action away.
_FAR = 60.0


@dataclass(frozen=True, eq=False)
class Tabular:
    """A tabular process and the maximum of its mean objective."""

    momdp: MOMDP

    @cached_property
    def a(self) -> float:
        """The step size 1 / L_J."""
        return 1.0 / smoothness_everywhere(self.momdp, 1)

    @cached_property
    def values(self) -> Array:
        """Optimal values of the mean objective, shape (S,)."""
        value = np.zeros(self.momdp.n_states)
        for _ in range(int(np.ceil(np.log(1e-14) / np.log(max(self.momdp.gamma, 1e-14))))):
            value = self._after(value).max(axis=1)
        return value

    def _after(self, value: Array) -> Array:
        m = self.momdp
        return np.asarray(m.mean_r.mean(axis=-1) + m.gamma * m.P @ value)

    @cached_property
    def best(self) -> float:
        """max J_u."""
        return float(self.momdp.gamma * self.momdp.start @ self.values)

    @cached_property
    def tau(self) -> float:
        """The largest 1 / (A a D(s) D_b(s)) at the best policy."""
        m, Q = self.momdp, self._after(self.values)
        policy = m.at(np.where(Q.max(axis=1, keepdims=True) == Q, 0.0, -_FAR).ravel())
        occupancy = m.gamma / (1.0 - m.gamma) * policy.occupancy
        lacking = np.sort(Q.max(axis=1, keepdims=True) - Q, axis=1)[:, 1:]
        return float((1.0 / (m.n_actions * self.a * occupancy[:, None] * lacking)).max())

    def law(self, t: Array) -> Array:
        """The gap after t steps to leading order."""
        m = self.momdp
        return np.asarray(m.n_states * (1.0 - 1.0 / m.n_actions) / (self.a * t) ** 2)

    def relative_error(self, t: float) -> float:
        """What the law leaves out after t steps, relative to it."""
        return float(2.0 * self.tau / t * (2.0 * np.log(t / self.tau) + _START))


#: Exponents in T of the mean as stated for eta_t = 1/t, without its logarithm; of the gap and of
#: the mean as derived for both eta.
STATED, DERIVED, MEAN_DERIVED = -1.0, -2.0, -1.0
MEAN, SCALED, SAMPLED = "(a) exact gradients", "(b) exact, over what is derived", "(c) sampled"
#: Draws of a process until one is fast enough.
_DRAWS = 200


@dataclass(frozen=True, kw_only=True)
class GapTimeConfig(SteeredConfig, ClientsConfig, BatchConfig):
    """Steps up to ``last``; see the module's text."""

    tabular: int = rc.param(3, low=2, doc="states of the tabular process, which has two actions.")
    conflict: float = rc.param(
        0.5,
        low=0.0,
        high=1.0,
        doc=(
            "of the tabular process: 0 for independent objectives, 1 for sum_j r^j the same "
            "everywhere."
        ),
    )
    slowest: float = rc.param(
        25.0, above=0.0, doc="the largest tau of the tabular process, in steps."
    )
    last: int = rc.param(5000, low=100, doc="T of the exact runs.")
    clients: int = 4
    horizon: float = rc.param(60.0, low=4.0, doc="T of the sampled runs in relaxation times.")
    points: int = rc.param(25, low=10, doc="recorded times.")

    def process(self, instance: int) -> Tabular:
        """A process in which no state is slow."""
        for draw in range(_DRAWS):
            drawn = ConflictConfig(
                seed=self.derive("tabular", instance, draw),
                states=self.tabular,
                actions=2,
                objectives=self.objectives,
                gamma=self.gamma,
                conflict=self.conflict,
            )
            process = Tabular(drawn.momdp(0))
            if process.tau <= self.slowest:
                return process
        raise InputError(f"`slowest` must allow some process; {self.slowest:g} found none")


def blocks(config: GapTimeConfig) -> list[rc.Block]:
    """One curve of one instance at a time."""
    shown = [("exact", SMOOTHED), ("exact", PLAIN), ("sampled", SMOOTHED), ("sampled", MARKOV)]
    return [
        {"instance": k, "gradients": kind, "curve": name}
        for k in range(config.instances)
        for kind, name in shown
    ]


def compute(config: GapTimeConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Gap and mean so far of every replicate, at times on a geometric grid."""
    k, name = block["instance"], block["curve"]
    if block["gradients"] == "exact":
        t, gap, mean, gain = exact_run(config, k, CURVES[name].eta)
    else:
        floor, chosen = config.floor(k), CURVES[name]
        last = config.steps(floor, chosen, config.horizon)
        # the mean so far up to t is recorded with the values at t - 1
        times = np.unique(np.append(geometric_times(last, config.points)[1:], last // 2)) - 1
        origin = np.zeros_like(floor.theta)
        gap, mean = sampled_gaps(config, floor, chosen, k, config.clients, config.B, origin, times)
        t = times.astype(np.float64) + 1.0
        gain = np.ones_like(gap)
    axes = {"t": t, "replicate": np.arange(config.replicates)}
    return rc.long_table(axes, gap=gap, mean=mean, gain=gain)


def exact_run(config: GapTimeConfig, instance: int, eta: float | str) -> tuple[Array, ...]:
    """Times, gaps, running means and max J_u - J_u(theta_0), each over (time, replicate)."""
    process = config.process(instance)
    rng = np.random.default_rng(config.derive("starts", instance))
    theta = SPREAD * rng.standard_normal((config.replicates, 1, process.momdp.d))
    gain = process.best - process.momdp.J(theta[:, 0], 1).mean(axis=-1)
    due = geometric_times(config.last, config.points)[1:]
    gaps, means = exact_gaps(
        process.momdp, theta[:, 0], due - 1, alpha=process.a, beta=config.beta, eta=eta
    )
    return (
        due.astype(np.float64),
        gaps,
        means,
        np.broadcast_to(gain, (len(due), gain.size)),
    )


def analyse(config: GapTimeConfig, table: rc.Table) -> rc.Analysis:
    """Exponents, the law and the bound, instance by instance."""
    checks: list[rc.Check] = []
    series: list[rc.Series] = []
    for k in range(config.instances):
        where = f" (instance {k})" if config.instances > 1 else ""
        process = config.process(k)
        for name in (SMOOTHED, PLAIN):
            part = table.where(instance=k, gradients="exact", curve=name)
            t = part.unique("t").astype(np.float64)
            gap, mean, gain = (part.grid(c, "replicate", "t") for c in ("gap", "mean", "gain"))
            title = f"{name}, exact{where}"
            checks += of_exact(config, process, title, t, gap, mean, promised=name == SMOOTHED)
            if name == PLAIN:
                used = mean * t / (2.0 / process.a * gain)
                worst = rc.Interval(float(used.max()), float(used.min()), float(used.max()))
                what = f"{title}: sum over its bound"
                checks.append(rc.every(rc.at_most(what, "at most 1", worst, 1.0)))
            if k == 0:
                series.append(rc.Series(name, MEAN, t, *rc.mean_band(mean)))
                series.append(rc.Series(name, SCALED, t, *rc.mean_band(gap / process.law(t))))
        floor = config.floor(k)
        for name in (SMOOTHED, MARKOV):
            part = table.where(instance=k, gradients="sampled", curve=name)
            t = part.unique("t").astype(np.float64)
            mean = part.grid("mean", "replicate", "t")
            law = config.law(floor, CURVES[name], config.clients, config.B)
            end = floor.bias if name == MARKOV else law.total
            half = int(np.flatnonzero(t >= t[-1] // 2)[0])
            late = (t[-1] * mean[:, -1] - t[half] * mean[:, half]) / (t[-1] - t[half])
            relative_error = law.remainder + (law.total / floor.bias if name == MARKOV else 0.0)
            checks.append(
                rc.our_own(
                    near_one(f"{name}, sampled{where}: end / derived", late / end, relative_error)
                )
            )
            if k == 0:
                series.append(rc.Series(name, SAMPLED, t, *rc.mean_band(mean)))
                series.append(rc.Series(LAW, SAMPLED, t, np.full(t.size, end)))
    notes = [
        f"L_J = {1.0 / process.a:.3g} for all policies, tau = {process.tau:.3g}; runs from "
        f"{config.replicates} starts",
        "derived: smoothing is not needed for 1/T; it is the average over the objectives "
        "that telescopes",
    ]
    return rc.Analysis(series, checks, notes)


def of_exact(
    config: GapTimeConfig,
    process: Tabular,
    name: str,
    t: Array,
    gap: Array,
    mean: Array,
    *,
    promised: bool,
) -> list[rc.Check]:
    """Exponents of the mean and of the gap over the last factor of four, and the law at T.

    ``promised``: whether the paper promises the exponent of the mean.
    """
    late = t >= t[-1] / 4.0
    first = float(t[late][0])
    # the exponent of the mean is -1 plus the gap's share in it, which falls like 1 / t
    share = float(process.law(np.asarray(first)) / mean[:, late][:, 0].mean())
    mean_slope = rc.slope_interval(t[late], mean[:, late], rng=config.seed)
    gap_slope = rc.slope_interval(t[late], gap[:, late], rng=config.seed)
    turn = (process.relative_error(first) - process.relative_error(t[-1])) / np.log(t[-1] / first)
    relative_error = process.relative_error(t[-1])
    short = (1.0 + process.relative_error(first)) * share
    promise = rc.rate_check(
        f"{name}: mean, as stated", STATED, mean_slope, tolerance=short, bound=True
    )
    return [
        *([promise] if promised else []),
        rc.our_own(
            rc.rate_check(f"{name}: mean, as derived", MEAN_DERIVED, mean_slope, tolerance=short)
        ),
        rc.our_own(rc.rate_check(f"{name}: gap, as derived", DERIVED, gap_slope, tolerance=turn)),
        rc.our_own(
            near_one(
                f"{name}: gap / derived at T", gap[:, -1] / process.law(t[-1:]), relative_error
            )
        ),
    ]


EXPERIMENT = rc.Experiment(
    id="firm/gap_time",
    title="The mean Pareto-stationarity gap against time",
    source="Theorem 1, equations (32) to (35)",
    kind="rate",
    variable="T",
    profiles={"quick": GapTimeConfig(), "paper": GapTimeConfig(instances=5, last=20000)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        MEAN: rc.Panel(
            "steps $T$",
            f"mean of {GAP} up to $T$",
            log="xy",
            slope=rc.Guide(STATED, "stated: {}", span=(0.5, 0.9), line="--"),
        ),
        SCALED: rc.Panel("steps $T$", f"{GAP} at $T$, measured / derived", log="xy", level=1.0),
        SAMPLED: rc.Panel("steps $T$", f"mean of {GAP} up to $T$", log="xy"),
    },
    layout=rc.Layout(width=3.4, height=2.8, looks=GAP_LOOKS),
)
