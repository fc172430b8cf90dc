"""The ten methods of :mod:`experiments.benchmarks._textbook` in PEPit, with a bound of one."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def solved(name: str) -> float:
    """The worst case of a method."""
    problem: Any = importlib.import_module("PEPit").PEP()
    METHODS[name](problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(problem.solve(wrapper="cvxpy", solver="CLARABEL", verbose=0))


def _module(name: str) -> Any:
    """A module of PEPit, imported when it is used: listing benchmarks does not load it."""
    return importlib.import_module(f"PEPit.{name}")


def _start(problem: Any, kind: Any, **constants: Any) -> tuple[Any, ...]:
    f = problem.declare_function(kind, **constants)
    least, x = f.stationary_point(), problem.set_initial_point()
    return f, least, x


def _gradient_descent(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").SmoothConvexFunction, L=1)
    problem.set_initial_condition((x - least) ** 2 <= 1)
    for _ in range(3):
        x = x - f.gradient(x)
    problem.set_performance_metric(f(x) - f(least))


def _contraction(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").SmoothStronglyConvexFunction, mu=0.1, L=1)
    problem.set_initial_condition((x - least) ** 2 <= 1)
    problem.set_performance_metric((x - 1.5 * f.gradient(x) - least) ** 2)


def _gradient_norm(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").SmoothConvexFunction, L=1)
    problem.set_initial_condition(f(x) - f(least) <= 1)
    for _ in range(2):
        x = x - f.gradient(x)
    problem.set_performance_metric(f.gradient(x) ** 2)


def _fast_gradient(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").SmoothConvexFunction, L=1)
    problem.set_initial_condition((x - least) ** 2 <= 1)
    y = x
    for k in range(3):
        x, before = y - f.gradient(y), x
        y = x + k / (k + 3) * (x - before)
    problem.set_performance_metric(f(x) - f(least))


def _subgradient(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").ConvexLipschitzFunction, M=1)
    problem.set_initial_condition((x - least) ** 2 <= 1)
    for _ in range(4):
        slope, value = f.oracle(x)
        problem.set_performance_metric(value - f(least))
        x = x - slope / 2


def _proximal_point(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").ConvexFunction)
    problem.set_initial_condition((x - least) ** 2 <= 1)
    for _ in range(3):
        x, _, value = _module("primitive_steps").proximal_step(x, f, 2)
    problem.set_performance_metric(value - f(least))


def _halpern(problem: Any) -> None:
    T = problem.declare_function(_module("operators").LipschitzOperator, L=1)
    fixed, _, _ = T.fixed_point()
    start = x = problem.set_initial_point()
    problem.set_initial_condition((start - fixed) ** 2 <= 1)
    for k in range(2):
        x = start / (k + 2) + (1 - 1 / (k + 2)) * T.gradient(x)
    problem.set_performance_metric((x - T.gradient(x)) ** 2)


def _heavy_ball(problem: Any) -> None:
    H = problem.declare_function(_module("operators").SymmetricLinearOperator, mu=0.25, L=1)
    x = problem.set_initial_point()
    problem.set_initial_condition(x**2 <= 1)
    first = x - H.gradient(x)
    problem.set_performance_metric((first - H.gradient(first) + (first - x) / 9) ** 2)


def _nonconvex(problem: Any) -> None:
    f = problem.declare_function(_module("functions").SmoothFunction, L=1)
    start = x = problem.set_initial_point()
    for _ in range(3):
        problem.set_performance_metric(f.gradient(x) ** 2)
        x = x - f.gradient(x)
    problem.set_performance_metric(f.gradient(x) ** 2)
    problem.set_initial_condition(f(start) - f(x) + f.gradient(x) ** 2 / 2 <= 1)


def _exact_line_search(problem: Any) -> None:
    f, least, x = _start(problem, _module("functions").SmoothStronglyConvexFunction, mu=0.25, L=1)
    slope, value = f.oracle(x)
    problem.set_initial_condition(value - f(least) <= 1)
    _, _, after = _module("primitive_steps").exact_linesearch_step(x, f, [slope])
    problem.set_performance_metric(after - f(least))


METHODS: dict[str, Callable[[Any], None]] = {
    "gradient descent": _gradient_descent,
    "contraction": _contraction,
    "gradient norm": _gradient_norm,
    "fast gradient": _fast_gradient,
    "subgradient": _subgradient,
    "proximal point": _proximal_point,
    "Halpern": _halpern,
    "heavy ball": _heavy_ball,
    "nonconvex": _nonconvex,
    "exact line search": _exact_line_search,
}
