"""The errors of central objective estimation and central decision learning against t and n.

Both slopes are -1, whatever the heterogeneity.

Problem and assumptions: finite-state systems with strong heterogeneity of both kinds; the mixture
of types, and with it theta_*^c and x_*^c, is the same for every n.

Algorithms: COE (7); CDL in its two variants, (22-1) with the agents' objectives and (22-2) with the
estimated central one; constant step ln t / (lambda t) in both, lambda the smallest of lambda^i and
lambda^b.

Guarantee: E||theta_t^c - theta_*^c||^2 and E||x_t^c - x_*^c||^2 are O~(1/(n t)) (Corollaries E.2
and F.3), without a term in delta: agents' residuals at the central solution do not vanish, but
their sum does, and the cross terms are at most zero. These are upper bounds: an error may fall
faster, as that of COE does where all objectives are one and Phi theta - b vanishes at the solution.
Then nothing is left for more agents to average, and the exponent in n is not judged.

Regime: t from 10^5 at fixed n, or n at t = 10^10. The variance term alpha C/n dominates; the start
is forgotten as t^{-2} and the second order in alpha is below 10^-2 of it at t = 10^5. The curves
against t are divided by ln t. ``TOLERANCE`` covers the rest.

The bound of (22-2) has the extra factor (1/lambda^b)^2, and that of AffPCL on top of it (Theorem 1,
second case) the factor max{1, lambda^i/(lambda^b lambda^c)}^2 in front of 1/n. Neither is visible:
theta^c enters x^c with mean zero noise of the same size, and x^c enters x^i only through
corrections of mean zero, alpha (mean_j rho^i(s^j) A(s^j) - A(s^i))(x^c - x_*^c), which is of second
order. The personal error is the same under both variants to first order in the step.

References: AffPCL, Appendices E and F. Values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    HorizonConfig,
    Values,
    exact_errors,
    slowest,
)
from linsys.algorithms import AffPCL
from linsys.heterogeneity import lambda_agent, lambda_b, lambda_c

TOLERANCE = 0.005
#: The exponent in t and in n.
PREDICTED = -1.0
#: Personal errors that differ by less, relatively, are equal to first order in the step size.
SAME = 1e-3
COE, FIRST, SECOND = r"COE (7): $\theta^c$", "CDL (22-1): $x^c$", "CDL (22-2): $x^c$"
PLAIN = {COE: "COE (7)", FIRST: "CDL (22-1)", SECOND: "CDL (22-2)"}
TIME, AGENTS = "(a) against time", "(b) against the number of agents"
LOOKS = {
    COE: rc.Look("#56B4E9", "X", "-."),
    FIRST: rc.Look("#CC79A7", "v"),
    SECOND: rc.Look("#E69F00", "P", "--"),
}


@dataclass(frozen=True, kw_only=True)
class RateCentralConfig(HorizonConfig):
    """Four types of agents of the same size: after ever more rounds (a), ever more of them (b)."""

    n: int = rc.param(20, doc="agents in (a), in four types of the same size.")
    fit_from: float = rc.param(1e5, doc="exponents in (a) are fitted from this t on.")
    env: float = 0.9
    obj: float = 1.0
    times: tuple[float, ...] = rc.param(
        (1e3, 1e4, 1e5, 1e6, 1e8, 1e10, 1e12),
        doc="t in (a), increasing; a run of t rounds has the step ln t / (lambda t).",
    )
    per_type: tuple[int, ...] = rc.param(
        (1, 3, 10, 30, 100, 300, 1000),
        low=1,
        increasing=True,
        doc="agents of every type in (b), increasing.",
    )
    t: float = rc.param(1e10, low=1e6, high=1e15, doc="rounds of a run in (b).")


def compute(config: RateCentralConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors of the three modules, and of AffPCL with either variant, in every situation."""
    pieces = config.pieces(block["instance"])
    situations = [(config.n, t) for t in config.times]
    situations += [(4 * count, config.t) for count in config.per_type]
    rows = np.empty((len(situations), 6))
    for k, (n, t) in enumerate(situations):
        types = pieces.types(n, config.env, config.obj)
        system, time = types.system, [round(t)]
        first = exact_errors(system, AffPCL(), time, types.agents)
        second = exact_errors(system, AffPCL(central_direction="estimate"), time, types.agents)
        assert first.objective_error is not None
        assert first.central_error is not None
        assert second.central_error is not None
        personal = (second.error / first.error)[0]
        factor = lambda_agent(system).value / (float(lambda_b(system)) * float(lambda_c(system)))
        rows[k] = (
            first.objective_error[0],
            first.central_error[0],
            second.central_error[0],
            personal[np.abs(personal - 1.0).argmax()],
            max(1.0, factor.max()) ** 2,
            max(types.heterogeneity),
        )
    names = [*PLAIN.values(), "personal", "factor", "delta"]
    panel = [TIME] * len(config.times) + [AGENTS] * len(config.per_type)
    x = [*config.times, *(4.0 * count for count in config.per_type)]
    return {"panel": panel, "x": x, **dict(zip(names, rows.T, strict=True))}


def analyse(config: RateCentralConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in t and n, and the two variants against each other."""
    series, checks = [], []
    time, agents = table.where(panel=TIME), table.where(panel=AGENTS)
    t, n = time.unique("x"), agents.unique("x")
    late = t >= config.fit_from
    for name, plain in PLAIN.items():
        in_time: Values = time.grid(plain, "instance", "x")
        in_agents: Values = agents.grid(plain, "instance", "x")
        bound: dict[str, Any] = {"tolerance": TOLERANCE, "bound": True}
        slope = slowest(t[late], (in_time / np.log(t))[:, late])
        against_t = rc.rate_check(f"{plain} against t: MSE / ln t", PREDICTED, slope, **bound)
        slope = slowest(n, in_agents)
        against_n = rc.rate_check(f"{plain} against n", PREDICTED, slope, **bound)
        if against_t.verdict == "faster than stated":
            undecided = "not decided: no noise at the solution, nothing to average"
            against_n = replace(against_n, ok=None, verdict=undecided)
        checks += [against_t, against_n]
        series += [rc.Series(name, TIME, t, in_time[0]), rc.Series(name, AGENTS, n, in_agents[0])]
    personal = agents["personal"]
    extreme = float(personal[np.abs(personal - 1.0).argmax()])
    name = f"AffPCL's error with (22-2) / with (22-1), t = {config.t:g}, as derived here"
    limits = rc.Interval(extreme, float(personal.min()), float(personal.max()))
    first_order = "1 to first order in the step"
    checks.append(
        rc.every(rc.our_own(rc.within(name, first_order, limits, 1.0 - SAME, 1.0 + SAME)))
    )
    ratio = agents[PLAIN[SECOND]] / agents[PLAIN[FIRST]]
    notes = [
        f"exact values at δ = {table['delta'].min():.2f} to {table['delta'].max():.2f} (true "
        "max(δ_env, δ_obj)); each exponent is that of the slowest instance "
        f"among {config.instances}",
        f"the error of x^c with (22-2) is {ratio.min():.3g} to {ratio.max():.3g} times that with "
        "(22-1): the variants differ by a constant",
        f"Theorem 1 allows AffPCL with (22-2) a factor of up to {table['factor'].max():.3g} in "
        "front of 1/n for these systems; it is not needed",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_central",
    title="Central objective estimation and central decision learning",
    source="Corollaries E.2 and F.3",
    kind="rate",
    variable="t",
    profiles={"quick": RateCentralConfig(), "paper": RateCentralConfig(instances=20)},
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        TIME: rc.Panel(r"rounds $t$, step $\ln t / (\lambda t)$", "mean squared error", "xy", -1.0),
        AGENTS: rc.Panel("number of agents $n$", log="xy", slope=-1.0),
    },
    layout=rc.Layout(width=3.7, height=2.8, looks=LOOKS, markers=99),
)
