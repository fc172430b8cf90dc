"""Error against time: slope -1 up to the logarithm, for AffPCL and everything it is made of.

Problem and assumptions: finite-state systems with both kinds of heterogeneity; sym(Abar^i) and
sym(Phibar^0) positive definite, bounded features, independent samples (Section 1.2).

Algorithms: AffPCL (8) with (7) and (22-1), with (22-2), and with a known central objective;
independent learning; FedAvg (4). Runs of t rounds with the constant step ln t / (lambda t) in all
modules, lambda the smallest of lambda^i and lambda^b: with Section 1.2's, of A alone, theta^c may
be too slow (``affpcl.thm1_step``).

Guarantee: E||x_t^i - x_*^i||^2 = O~(1/t) (Theorem 1), E||x_t^c - x_*^c||^2 = O~(1/t) (Proposition
1, Corollary F.3), E||theta_t^c - theta_*^c||^2 = O~(1/t) (Corollary E.2), each with one factor ln t
(Lemma D.5). These are upper bounds: an error that falls faster is "faster than stated". Derived
here: FedAvg as a personal model keeps the distance of x_*^c from x_*^i, slope 0; without any
heterogeneity there is none, and the bound of Proposition 1 is its own.

Regime: t from 10^5 on. The stationary variance alpha C/(2 lambda) = O(ln t / t) dominates there;
the start is forgotten as t^{-2} up to logarithms, and what is of second order in the step is
O((ln t / t)^2). Both are below 10^-2 of the error for the default systems, and far below at the
horizons that the fit mostly sees; ``TOLERANCE`` covers them. The logarithm is divided out: the
fitted curve is MSE / ln t.

References: AffPCL, Theorem 1, Propositions 1 and 2, Lemma D.5. Values are exact.
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    HorizonConfig,
    Values,
    exact_errors,
    furthest,
    slowest,
)
from linsys.algorithms import AffPCL, FedAvg, Independent

TOLERANCE = 0.005
#: The exponent of MSE / ln t that is predicted for each curve.
PREDICTED = {
    "AffPCL": -1.0,
    "AffPCL with (22-2)": -1.0,
    "AffPCL, known objective": -1.0,
    "Independent": -1.0,
    "FedAvg": 0.0,
    "CDL (22-1)": -1.0,
    "CDL (22-2)": -1.0,
    "COE (7)": -1.0,
}
LOOKS = {
    "AffPCL with (22-2)": rc.Look("#D55E00", "s", "none", size=6, hollow=True),
    "AffPCL, known objective": rc.Look("#000000", "D", "none", size=8, hollow=True),
    "CDL (22-1)": rc.Look("#CC79A7", "v"),
    "CDL (22-2)": rc.Look("#E69F00", "P", "--"),
    "COE (7)": rc.Look("#56B4E9", "X", "-."),
}
MSE = "(a) mean squared error"
SCALED = r"(b) error $\times\ t / \ln t$"
ROUNDS = r"rounds $t$, step $\ln t / (\lambda t)$"


def compute(config: HorizonConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The error of the worst agent, the centre and the objective at all horizons."""
    types = config.pieces(block["instance"]).types(config.n, config.env, config.obj)
    times = np.round(config.times).astype(np.int64)
    first, second, known, alone, federated = (
        exact_errors(types.system, algorithm, times, types.agents)
        for algorithm in (
            AffPCL(),
            AffPCL(central_direction="estimate"),
            AffPCL(objective="known"),
            Independent(),
            FedAvg(),
        )
    )
    worst = [run.error.max(axis=1) for run in (first, second, known, alone, federated)]
    central = [first.central_error, second.central_error, first.objective_error]
    errors = dict(zip(PREDICTED, [*worst, *central], strict=True))
    return rc.long_table(
        {"curve": np.array(list(errors)), "t": times}, mse=np.stack([*errors.values()])
    )


def analyse(config: HorizonConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of MSE / ln t, instance by instance."""
    series: list[rc.Series] = []
    checks = []
    raw: list[float] = []
    alike = config.env == config.obj == 0
    for name, predicted in PREDICTED.items():
        predicted = -1.0 if alike else predicted
        part = table.where(curve=name)
        t = part.unique("t").astype(np.float64)
        mse: Values = part.grid("mse", "instance", "t")
        late = t >= config.fit_from
        divided = mse / np.log(t) if predicted else mse
        if predicted:
            slope = slowest(t[late], divided[:, late])
            what = f"{name}: MSE / ln t"
        else:
            slope = furthest(predicted, t[late], divided[:, late])
            what = f"{name}: personal MSE, as derived here"
        check = rc.rate_check(what, predicted, slope, tolerance=TOLERANCE, bound=bool(predicted))
        checks.append(check if predicted else rc.our_own(check))
        series.append(rc.Series(name, MSE, t, mse[0]))
        if predicted:
            series.append(rc.Series(name, SCALED, t, mse[0] * t / np.log(t)))
            raw.append(rc.exact_slope(t[late], mse[0, late]).value)
    notes = [
        "exact values, no interval; each exponent is that of the slowest instance among "
        f"{config.instances} (of FedAvg: furthest from the prediction), over t in "
        f"[{config.fit_from:g}, {config.times[-1]:g}]; the error is that of the worst agent",
        f"without dividing by ln t the exponents are {min(raw):.3f} to {max(raw):.3f}: the factor "
        "ln t is there, it is not slack of the analysis (affpcl/rate_steps removes it)",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_t",
    title="Error against time, to the logarithm",
    source="Theorem 1, Proposition 1, Corollaries E.2 and F.3",
    kind="rate",
    variable="t",
    profiles={
        "quick": HorizonConfig(),
        "paper": HorizonConfig(instances=20, times=tuple(10.0 ** (k / 2) for k in range(6, 27))),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        MSE: rc.Panel(ROUNDS, "mean squared error", "xy", -1.0, "(a) mean squared error"),
        SCALED: rc.Panel(
            ROUNDS, r"error $\times\ t / \ln t$", "xy", title=r"(b) relative to $\ln t / t$"
        ),
    },
    layout=rc.Layout(width=3.7, height=3.0, looks=LOOKS, legend=4, markers=99),
)
