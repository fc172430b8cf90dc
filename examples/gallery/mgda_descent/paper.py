"""MGDA: the shortest vector in the hull of two gradients is a direction of descent for both.

Desideri's inequality holds and is attained; the descent by a step 1 / L that follows from it, and
the rate that follows from that, are attained as well. A descent twice as large is refuted.
The figure has the shortest omega of the first T steps.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "mgda_descent",
    "MGDA",
    "Desideri: Multiple-gradient descent algorithm (MGDA) for multiobjective optimization (2012); "
    "Fliege, Vaz, Vicente: Complexity of gradient descent for multiobjective optimization (2019)",
)
PAIRS = rc.Space(
    fields={  # f_j(x) = (x - c_j)'A_j (x - c_j) / 2 with A_j = C_j C_j'
        "C": rc.contraction(2, "d", "d"),
        "c": rc.reals(2, "d"),
        "x": rc.reals("d"),
        "T": rc.whole_numbers(low=1, high=8),
    },
    sizes={"d": (1, 3)},
    given={"some curvature": lambda i: rc.linalg.lambda_max(i.C @ i.C.mT).max() > 0.001},
)


class Pair:
    """Two objectives, and the direction of MGDA."""

    def __init__(self, i: Any) -> None:
        self.A, self.c = i.C @ i.C.mT, i.c
        self.L = rc.linalg.lambda_max(self.A).max()

    def values(self, x: Any) -> Any:
        """f_1 and f_2; both are zero at best."""
        return ((x - self.c) * rc.linalg.apply(self.A, x - self.c)).sum(axis=-1) / 2

    def direction(self, x: Any) -> tuple[Any, Any]:
        """The gradients u_j, and omega, the shortest vector between them."""
        u = rc.linalg.apply(self.A, x - self.c)
        between = rc.linalg.squared(u[0] - u[1])
        share = (u[1] - u[0]) @ u[1] / np.where(between > 0, between, 1)
        share = np.minimum(np.maximum(share, 0), 1)
        return u, u[1] + share * (u[0] - u[1])


@PAPER.lower("inequality", ref="Desideri, Theorem 2.2", on=PAIRS)
def inequality(i: Any) -> rc.Sides:
    """(u_j, omega) >= ||omega||^2 for every gradient u_j."""
    u, omega = Pair(i).direction(i.x)
    return u @ omega, rc.linalg.squared(omega)


@PAPER.lower(
    "descent",
    ref="Fliege et al., Section 3: a step of gradient descent",
    on=PAIRS,
    derivation="L-smoothness and (u_j, omega) >= ||omega||^2.",
)
def descent(i: Any, factor: int = 1) -> rc.Sides:
    """A step 1 / L along omega lowers every objective by ||omega||^2 / (2 L) at least."""
    pair = Pair(i)
    _, omega = pair.direction(i.x)
    lowered = pair.values(i.x) - pair.values(i.x - omega / pair.L)
    return lowered, factor * rc.linalg.squared(omega) / (2 * pair.L)


@PAPER.upper(
    "rate",
    ref="Fliege et al., Theorem 3.1, for the step 1 / L",
    on=PAIRS,
    derivation="The sum of the descents of T steps is at most f_j(x_0) - min f_j.",
)
def rate(i: Any) -> rc.Sides:
    """The smallest ||omega||^2 of T steps is at most 2 L (f_j(x_0) - min f_j) / T, for every j."""
    pair, x, lengths = Pair(i), i.x, []
    for _ in range(int(i.T)):
        _, omega = pair.direction(x)
        lengths.append(rc.linalg.squared(omega))
        x = x - omega / pair.L
    return min(lengths), 2 * pair.L * pair.values(i.x) / i.T


descent.changed(
    "descent_twice",
    {"factor": 2},
    text="A step 1 / L along omega lowers every objective by ||omega||^2 / L at least.",
    note="Where both objectives are L x^2 / 2 a step 1 / L lowers them by ||omega||^2 / (2 L).",
)

EXPONENT = -1.0  # of T in the bound


class StepsConfig(rc.Config):
    """Dimension and steps."""

    d: int = rc.param(20, low=2, doc="dimension.")
    T: int = rc.param(1000, low=50, doc="steps.")


def compute(config: StepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("objectives"))
    root = np.geomspace(0.01, 1, config.d)  # of the curvature, along axes of its own
    axes = np.linalg.qr(rng.normal(size=(2, config.d, config.d)))[0]
    pair = Pair(SimpleNamespace(C=axes * root, c=rng.normal(size=(2, config.d))))
    x, lengths = np.zeros(config.d), []
    first = pair.values(x).min()
    for _ in range(config.T):
        _, omega = pair.direction(x)
        lengths.append(omega @ omega)
        x = x - omega / pair.L
    return {"T": np.arange(1, config.T + 1), "length": lengths, "first": 2 * pair.L * first}


def analyse(config: StepsConfig, table: rc.Table) -> rc.Analysis:
    T, shortest = table["T"], np.minimum.accumulate(table["length"])
    bound = table["first"] * T**EXPONENT
    series = [
        rc.Series("MGDA", "omega", T, shortest),
        rc.Series("theory", "omega", T, bound),
    ]
    ratio = rc.exact((shortest / bound).max())
    slope = rc.exact_slope(T[9:], shortest[9:])
    checks = [
        rc.at_most("omega / bound", "at most 1", ratio, 1),
        rc.rate_check("exponent of T", EXPONENT, slope, bound=True),
    ]
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="mgda_descent/steps",
    title="MGDA over its steps",
    source="Fliege et al., Theorem 3.1",
    variable="t",
    profiles={"quick": StepsConfig(), "paper": StepsConfig(d=100, T=10_000)},
    compute=compute,
    analyse=analyse,
    panels={"omega": rc.Panel(x="steps $T$", y=r"$\min_{t<T}||\omega_t||^2$", log="xy")},
)
