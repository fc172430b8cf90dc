"""Where the rates of AffPCL are measured: exact errors on a few systems, along one variable each.

Systems are those of the rate experiments (:mod:`experiments.affpcl._rates_systems`): agents in a
few types, exact moments, runs of t rounds with the step ln t / (lambda t). Every exponent is that
of the slowest of ``INSTANCES`` systems, the one that an upper bound has to hold for; the logarithm
is divided out where the claim has one. Large n, t and small heterogeneity make the predicted term
the dominant one; what is left of the others is within ``SLACK``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    Pieces,
    Types,
    draw_pieces,
    exact_errors,
    ill_conditioned,
    many_agents,
    slowest,
    slowest_rate,
)
from linsys.algorithms import AffPCL, Steps
from linsys.heterogeneity import delta_cen
from linsys.moments import ExactTrajectory, exact_moments
from linsys.stability import largest_stable_step

Values = NDArray[np.float64]
#: What an error is read from: types of agents and times to values, shape (T,).
Errors = Callable[[Types, Values], Values]

INSTANCES = 2
SLACK = 0.02
TIMES = np.array([1e7, 1e8, 1e9, 1e10, 1e11])
COUNTS = (16, 64, 256, 1024)
LEVELS = (1e-4, 2e-4, 4e-4)
FAR = 1e13
#: Strong heterogeneity of both kinds.
MIXED = {"env": 0.8, "obj": 1.0}


def pieces(instance: int) -> Pieces:
    """The instance's system, before heterogeneity is added."""
    return draw_pieces(100 + instance, d=3, states=6)


def personal(algorithm: AffPCL) -> Errors:
    """The error of the worst agent."""
    return lambda types, t: _run(types, algorithm, t).error.max(axis=1)


def central(algorithm: AffPCL) -> Errors:
    """The error of x^c."""

    def read(types: Types, t: Values) -> Values:
        error = _run(types, algorithm, t).central_error
        assert error is not None
        return error

    return read


def objective() -> Errors:
    """The error of theta^c."""

    def read(types: Types, t: Values) -> Values:
        error = _run(types, AffPCL(), t).objective_error
        assert error is not None
        return error

    return read


def _run(types: Types, algorithm: AffPCL, t: Values) -> ExactTrajectory:
    return exact_errors(types.system, algorithm, t.astype(np.int64), types.agents)


def against_t(errors: Errors, name: str, build: Callable[[Pieces], Types]) -> rc.Regime:
    """Exponent -1 in t of the error over ln t."""
    curves = [errors(build(pieces(k)), TIMES) / np.log(TIMES) for k in range(INSTANCES)]
    return exact(f"{name}: error / ln t against t", "t", exponent(TIMES, curves))


def against_n(errors: Errors, name: str, build: Callable[[Pieces, int], Types]) -> rc.Regime:
    """Exponent -1 in n at t = 10^13."""
    n = np.array(COUNTS, dtype=float)
    curves = [
        [float(errors(build(pieces(k), count), np.array([FAR]))[0]) for count in COUNTS]
        for k in range(INSTANCES)
    ]
    return exact(f"{name}: error against n", "n", exponent(n, curves))


def of_pairs(types: Types) -> float:
    """The larger of the true delta_env and delta_obj."""
    return max(types.heterogeneity)


def from_centre(types: Types) -> float:
    """The true delta_cen^1."""
    return float(delta_cen(types.system).value[0])


def against_distance(
    algorithm: AffPCL,
    name: str,
    build: Callable[[Pieces, int, float], Types],
    distance: Callable[[Types], float] = of_pairs,
    variable: str = "1/delta",
) -> rc.Regime:
    """Exponent -1 in 1/delta of the algorithm's error over that of learning alone, n to infinity.

    delta is what ``distance`` says, of 200 agents.
    """
    curves, levels = [], []
    for k in range(INSTANCES):
        given = pieces(k)
        ratio, delta = [], []
        for level in LEVELS:

            def population(n: int, level: float = level, given: Pieces = given) -> Types:
                return build(given, n, level)

            ratio.append(float(many_agents(population, 200, FAR, algorithm).max()))
            delta.append(distance(population(200)))
        curves.append(ratio)
        levels.append(1.0 / np.array(delta))
    slopes = [exponent(x, [y]) for x, y in zip(levels, curves, strict=True)]
    return exact(name, variable, max(slopes))


def smooth_objectives(given: Pieces, n: int, level: float) -> Types:
    """Objectives that move apart in a fixed system."""
    return given.types(n, obj=level)


def weak_objectives(given: Pieces, n: int, level: float) -> Types:
    """Objectives that move apart in a direction that the system hardly sees, with nu = 1."""
    return ill_conditioned(n, level)


def hidden_objectives(given: Pieces, n: int, level: float) -> Types:
    """Objectives b^i(s) that stay apart while their means bbar^i meet, with nu = 1.

    A = 1, Phi is 1 or 2 level - 1 with even chance, theta^i = 1 in one half of the agents and -1 in
    the other. So Phibar = level, G_b = 1, sigma = 2, lambda^i = 1 and delta_cen^i = level / 2.
    """
    one = np.ones((2, 1, 1))
    Phi = one * np.array([1.0, 2.0 * level - 1.0])[:, None, None]
    return Types(one, Phi, np.full((2, 2), 0.5), np.array([[1.0], [-1.0]]), (n // 2, n - n // 2))


def smooth_environments(given: Pieces, n: int, level: float) -> Types:
    """Environments that move apart in a fixed system."""
    return given.types(n, env=level)


def own_state(given: Pieces, n: int, level: float) -> Types:
    """One agent that meets a state of its own with probability ``level``."""
    return given.rare(n, env=level)


def diminishing(read: Callable[..., Values], name: str) -> rc.Regime:
    """Exponent -1 in t, without a logarithm, of an average under alpha_tau = 4/(lam(tau+t0+1)).

    ``read`` takes the averages of :class:`linsys.moments.ExactRun` and returns values (T,).
    """
    times = np.array([10**5, 3 * 10**5, 10**6])
    system = draw_pieces(100, d=2, states=6).types(20, **MIXED).system
    lam = slowest_rate(system)
    t0 = float(np.ceil(8.0 / (lam * largest_stable_step(system, AffPCL()))))
    engine = exact_moments(system, AffPCL(), steps=Steps.diminishing(t0=t0, lam=lam), agents=[0])
    average = read(engine.run(times).averaged)
    return exact(f"{name}: error against t", "t", exponent(times.astype(float), [average]))


def exact(name: str, variable: str, exponent: float, predicted: float = -1.0) -> rc.Regime:
    """An exponent without an interval."""
    return rc.Regime(name, variable, predicted, exponent, exponent, exponent, SLACK)


def exponent(x: Values, curves: Sequence[Sequence[float] | Values]) -> float:
    """The exponent in x, in any order, of the curve that falls least."""
    order = np.argsort(x)
    slope = slowest(x[order], [np.asarray(curve)[order] for curve in curves])
    return round(slope.value, 9)  # below is rounding
