"""Where the rates of AffPCL are measured: exact errors on a few systems, along one variable each.

Systems are those of the rate experiments (:mod:`experiments.affpcl._rates_systems`): agents in a
few types, exact moments, runs of t rounds with a constant :data:`Step`. Every exponent is that of
the slowest of ``INSTANCES`` systems, the one that an upper bound has to hold for; the logarithm
is divided out where the claim has one. Large n, t and small heterogeneity make the predicted
term the dominant one; what is left of the others is within ``SLACK``. Distances are measured
with the step "smallest": steps are so small there that an error over that of learning alone
depends on none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    Pieces,
    Types,
    draw_pieces,
    ill_conditioned,
    many_agents,
    slowest,
    slowest_rate,
)
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, Independent, Steps
from linsys.heterogeneity import G_A, delta_cen, lambda_b, lambda_c, lambda_min, nu, sigma
from linsys.moments import ExactRun, ExactTrajectory, exact_moments

Values = NDArray[np.float64]
#: What an error is read from: types of agents and times to values, shape (T,).
Errors = Callable[[Types, Values], Values]

#: The constant step of a run of t rounds: ln t / (lambda t) in all modules, with lambda the
#: smallest of lambda^i and lambda^b ("smallest") or that of Section 1.2, the smallest lambda^i
#: ("printed"); or Appendix G.1's own step of each module, alpha^k lambda^k = ln t / t ("own").
Step = Literal["smallest", "printed", "own"]
#: What a claim says of the step "smallest".
SMALLEST = (
    "The step is ln t/(lambda t) with the smallest of lambda^i and lambda^b; Section 1.2's lambda "
    "is of A alone, with which theta^c may be too slow (affpcl.thm1_step)."
)

INSTANCES = 2
SLACK = 0.02
TIMES = np.array([1e7, 1e8, 1e9, 1e10, 1e11])
COUNTS = (16, 64, 256, 1024)
LEVELS = (1e-4, 2e-4, 4e-4)
#: Levels where conditioning falls with the square of the distance, and above 1/n.
APART = (0.01, 0.02, 0.04)
FAR = 1e13
#: Under diminishing steps.
DIMINISHING = (3 * 10**5, 10**6, 3 * 10**6)
#: Strong heterogeneity of both kinds.
MIXED = {"env": 0.8, "obj": 1.0}


def pieces(instance: int) -> Pieces:
    """The instance's system, before heterogeneity is added."""
    return draw_pieces(100 + instance, d=3, states=6)


def personal(algorithm: AffPCL, step: Step) -> Errors:
    """The error of the worst agent."""
    return lambda types, t: run(types, algorithm, t, step).error.max(axis=1)


def central(algorithm: AffPCL, step: Step) -> Errors:
    """The error of x^c."""

    def read(types: Types, t: Values) -> Values:
        error = run(types, algorithm, t, step).central_error
        assert error is not None
        return error

    return read


def objective(step: Step) -> Errors:
    """The error of theta^c."""

    def read(types: Types, t: Values) -> Values:
        error = run(types, AffPCL(), t, step).objective_error
        assert error is not None
        return error

    return read


def run(types: Types, algorithm: AffPCL, t: Values, step: Step) -> ExactTrajectory:
    """The ends of runs of t rounds, by type."""
    system = types.system
    own = Steps.constant(1.0).synchronised(system) if step == "own" else None  # type: ignore[arg-type]
    rates: dict[Step, Callable[[FiniteSystem], float]] = {
        "smallest": slowest_rate,
        "printed": lambda s: float(lambda_min(s)),
        "own": lambda s: 1.0,
    }
    engine = exact_moments(system, algorithm, steps=own, agents=types.agents)
    return engine.at(t.astype(np.int64), np.log(t) / (rates[step](system) * t))


def against_t(errors: Errors, name: str, build: Callable[[Pieces], Types]) -> rc.Regime:
    """Exponent -1 in t of the error over ln t."""
    curves = [errors(build(pieces(k)), TIMES) / np.log(TIMES) for k in range(INSTANCES)]
    return exact(
        f"{name}: error / ln t against t", "t", exponent(TIMES, curves), systems=distinct(curves)
    )


def against_n(errors: Errors, name: str, build: Callable[[Pieces, int], Types]) -> rc.Regime:
    """Exponent -1 in n at t = 10^13."""
    n = np.array(COUNTS, dtype=float)
    curves = [
        [float(errors(build(pieces(k), count), np.array([FAR]))[0]) for count in COUNTS]
        for k in range(INSTANCES)
    ]
    return exact(f"{name}: error against n", "n", exponent(n, curves), systems=distinct(curves))


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
    at: Sequence[float] = LEVELS,
) -> rc.Regime:
    """Exponent -1 in 1/delta of the algorithm's error over that of learning alone, n to infinity.

    delta is what ``distance`` says, of 200 agents, at the levels ``at``.
    """
    curves, levels = [], []
    for k in range(INSTANCES):
        given = pieces(k)
        ratio, delta = [], []
        for level in at:

            def population(n: int, level: float = level, given: Pieces = given) -> Types:
                return build(given, n, level)

            ratio.append(float(many_agents(population, 200, FAR, algorithm).max()))
            delta.append(distance(population(200)))
        curves.append(ratio)
        levels.append(1.0 / np.array(delta))
    slopes = [exponent(x, [y]) for x, y in zip(levels, curves, strict=True)]
    return exact(name, variable, max(slopes), systems=distinct(curves))


def nu_of_both(types: Types) -> float:
    """The larger of nu and of the same number of Phi."""
    both = (types.one_each, replace(types, A=types.Phi).one_each)
    return max(float(nu(system)) for system in both)


def over_bound(
    algorithm: AffPCL,
    name: str,
    build: Callable[[Pieces, int, float], Types],
    at: Sequence[float] = LEVELS,
) -> rc.Regime:
    """The error over the corrected bound, n to infinity, which is to stay below a constant.

    The bound is (kappa^2 ln t / t) max{min{1, nu' delta_env}, min{1, nu' delta_obj}} with nu' of
    :func:`nu_of_both`; kappa and the step have the smallest of lambda^i and lambda^b.
    """
    curves = []
    for k in range(INSTANCES):
        given = pieces(k)
        quotients = []
        for level in at:
            types = build(given, 200, level)

            def population(n: int, level: float = level, given: Pieces = given) -> Types:
                return build(given, n, level)

            error = many_agents(population, 200, FAR, algorithm) * alone(types)
            kappa = float(sigma(types.system, definition="weights")) / slowest_rate(types.system)
            share = min(1.0, nu_of_both(types) * of_pairs(types))
            quotients.append(error.max() * FAR / (np.log(FAR) * kappa**2 * share))
        curves.append(quotients)
    slope = exponent(1.0 / np.array(at), curves)
    return exact(name, "1/delta", slope, predicted=0.0, systems=distinct(curves))


def alone(types: Types) -> Values:
    """The error of learning alone at t = 10^13 with the step "smallest", by type."""
    engine = exact_moments(types.one_each, Independent())
    rate = np.log(FAR) / (slowest_rate(types.one_each) * FAR)
    return np.asarray(engine.at([int(FAR)], [rate]).error[0])


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


def turned_objectives(given: Pieces, n: int, level: float) -> Types:
    """Near environments and objectives whose centre is far from all agents, with nu = 1.

    In the plane with the quarter turn J: A = level^2 I, Phi is level^2 I + 0.9 J or level^2 I -
    0.9 J, with chances (1 + level)/2 and (1 - level)/2 in one half of the agents and exchanged in
    the other, and theta^i = (1, level/0.9) in the one and (1, -level/0.9) in the other. So
    bbar^0 = 0: x_*^c = 0 and theta_*^c = 0, at a distance of one from every theta^i; delta_env =
    level, delta_obj = level/0.9 up to a factor near one, and sigma = 2 as nearly. lambda^i and
    lambda^b are level^2 both.
    """
    quarter, eye = np.array([[0.0, -1.0], [1.0, 0.0]]), level**2 * np.eye(2)
    A, Phi = np.stack([eye, eye]), np.stack([eye + 0.9 * quarter, eye - 0.9 * quarter])
    near = np.array([[1 + level, 1 - level], [1 - level, 1 + level]]) / 2
    theta = np.array([[1.0, level / 0.9], [1.0, -level / 0.9]])
    return Types(A, Phi, near, theta, (n // 2, n - n // 2))


def slow_objectives(given: Pieces, n: int, level: float) -> Types:
    """Agents alike with A = 1, theta = 1 and Phi = 1 or 2 level - 1 with even chance.

    lambda^i = 1 and lambda^b = level: with the step of lambda^i, theta^c is still 1/t^level from 1
    after t rounds.
    """
    one = np.ones((2, 1, 1))
    Phi = one * np.array([1.0, 2.0 * level - 1.0])[:, None, None]
    return Types(one, Phi, np.full((1, 2), 0.5), np.ones((1, 1)), (n,))


def beside_centre(n: int) -> Types:
    """An agent at distance 1/(n + 2) from a centre from which all others are far away.

    A is 1/2 or 3/2 with even chance and Phi = 1, so that nu = nu_Phi = 1. theta^1 = 2/n, and of the
    others n/2 have theta = -1 and n/2 - 1 have (n + 2)/n. The mean is zero: x_*^c = theta_*^c = 0.
    """
    A = np.array([0.5, 1.5])[:, None, None]
    theta = np.array([[2.0 / n], [-1.0], [(n + 2.0) / n]])
    return Types(A, np.ones((2, 1, 1)), np.full((3, 2), 0.5), theta, (1, n // 2, n // 2 - 1))


def short_objectives(given: Pieces, n: int, size: float) -> Types:
    """Agents alike with A = 1, theta = size and Phi = 1 or 1/2 with even chance: sigma = 2 size."""
    return halved(np.array([[size]]), (n,))


def short_opposites(given: Pieces, n: int, size: float) -> Types:
    """Agents as in :func:`short_objectives`, half of them with -size: delta_cen^i = 3/8.

    x_*^c = theta_*^c = 0.
    """
    return halved(np.array([[size], [-size]]), (n // 2, n - n // 2))


def halved(theta: Values, counts: tuple[int, ...]) -> Types:
    """One environment with A = 1, Phi = 1 or 1/2 with even chance, and so nu = nu_Phi = 1.

    lambda^i = 1 and lambda^b = 3/4, and one-hot psi have lambda^rho = 1/2.
    """
    one = np.ones((2, 1, 1))
    Phi = one * np.array([1.0, 0.5])[:, None, None]
    return Types(one, Phi, np.full((len(counts), 2), 0.5), theta, counts)


def smooth_environments(given: Pieces, n: int, level: float) -> Types:
    """Environments that move apart in a fixed system."""
    return given.types(n, env=level)


def own_state(given: Pieces, n: int, level: float) -> Types:
    """One agent that meets a state of its own with probability ``level``."""
    return given.rare(n, env=level)


def diminishing_steps(system: FiniteSystem) -> Steps:
    """alpha^k lambda^k = 4/(tau + t0 + 1) in each module, with an integer t0 so large that the
    first steps meet the conditions of Corollaries E.1, F.2 and G.2.
    """
    stretch = float(G_A(system)) ** 2
    allowed = (  # the largest alpha lambda of each module
        float(lambda_b(system)) ** 2 / 4.0,
        float(lambda_c(system)) ** 2 / (8.0 * stretch),
        float(lambda_min(system)) ** 2 / (40.0 * stretch),
    )
    steps = Steps.diminishing(t0=float(np.ceil(4.0 / min(allowed))))
    return steps.synchronised(system)  # type: ignore[arg-type]


@cache
def diminishing_run(algorithm: AffPCL, instance: int) -> ExactRun:
    """Three million exact steps, which every claim about diminishing steps reads."""
    system = draw_pieces(100 + instance, d=2, states=6).types(20, **MIXED).system
    steps = diminishing_steps(system)
    return exact_moments(system, algorithm, steps=steps, agents=[0]).run(DIMINISHING)


def diminishing(
    read: Callable[..., Values], name: str, algorithm: AffPCL | None = None
) -> rc.Regime:
    """Exponent -1 in t, without a logarithm, of an average of Lemma D.5 under diminishing steps.

    ``read`` takes the averages of :class:`linsys.moments.ExactRun` and returns values (T,). The
    algorithm is that of (8), (7) and (4) where none is given.
    """
    curves = [read(diminishing_run(algorithm or AffPCL(), k).averaged) for k in range(INSTANCES)]
    times = np.array(DIMINISHING)
    return exact(
        f"{name}: error against t",
        "t",
        exponent(times.astype(float), curves),
        systems=distinct(curves),
    )


def against_size(name: str, error: Callable[[float], float], predicted: float) -> rc.Regime:
    """Exponent in 1/sigma of an error whose sigma is twice the size it is given."""
    size = np.array([1.0, 0.1, 0.01])
    curve = [error(float(value)) for value in size]
    return exact(name, "1/sigma", exponent(1.0 / size, [curve]), predicted)


def exact(
    name: str, variable: str, exponent: float, predicted: float = -1.0, systems: int = 1
) -> rc.Regime:
    """An exponent without an interval."""
    return rc.Regime(name, variable, predicted, exponent, exponent, exponent, SLACK, systems)


def distinct(curves: Sequence[Sequence[float] | Values]) -> int:
    """How many systems the curves are of: a constructed one is the same for each instance."""
    return len({tuple(curve) for curve in curves})


def exponent(x: Values, curves: Sequence[Sequence[float] | Values]) -> float:
    """The exponent in x, in any order, of the curve that falls least."""
    order = np.argsort(x)
    slope = slowest(x[order], [np.asarray(curve)[order] for curve in curves])
    return round(slope.value, 9)  # below is rounding
