"""AffPCL, Appendix G: one step of the personalised recursion, for all dimensions and agents.

At fixed iterates the mean of the direction is Abar dx and that of the estimation error calE, two
vectors of R^d; of the direction and of calE themselves only the second moments are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.affpcl.theory.one_step import PersonalStack
from linsys.linalg import Numbers
from ratecheck import gram as g


def _means(stack: PersonalStack) -> dict[str, Any]:
    """dx, Abar dx and E calE, (B, n, d), and the second moments, (B, n)."""
    return {
        "dx": stack.dx,
        "drift": stack.direction_mean - stack.estimation_mean,
        "error": stack.estimation_mean,
        "moment": stack.estimation_second_moment,
        "second": stack.direction_second_moment,
        "lam": stack.lambda_agent,
        "G": stack.G_A[:, None],
    }


def _slope(stack: PersonalStack) -> Numbers:
    return stack.lambda_agent


def _direction(p: g.Problem) -> tuple[Any, ...]:
    dx, drift, error = p.vectors("dx drift error")
    lam = p.parameter("lam")
    p.assume(dx @ drift >= lam * dx.squared, "lambda^i is the least of sym(Abar^i)")
    return dx, drift, error, lam


@g.theorem("affpcl.corG1", at=_means, scale=_slope)
def corG1(p: g.Problem) -> None:
    """lambda E<gtilde, dx> >= (7/8) lambda^2 ||dx||^2 - 2 E||calE||^2."""
    dx, drift, error, lam = _direction(p)
    moment = p.parameter("moment")
    p.assume(error.squared <= moment, "Jensen: ||E calE||^2 <= E||calE||^2")
    p.show("7/8" * lam**2 * dx.squared - 2 * moment <= lam * (dx @ (drift + error)))


@g.theorem("affpcl.corG1_sharper", at=_means, scale=_slope)
def corG1_sharper(p: g.Problem) -> None:
    """lambda E<gtilde, dx> >= (7/8) lambda^2 ||dx||^2 - 2 ||E calE||^2."""
    dx, drift, error, lam = _direction(p)
    p.show("7/8" * lam**2 * dx.squared - 2 * error.squared <= lam * (dx @ (drift + error)))


def _steps(divisor: int, objective: int, noise: int, affinity: int) -> Callable[..., Any]:
    """With the step size of a corollary, and the rest of its bound of the second moment."""

    def at(stack: PersonalStack) -> dict[str, Any]:
        level = stack.rate + affinity * stack.effective("safe")
        rest = 64 * stack.centre_error + objective * stack.objective_error
        return {
            **_means(stack),
            "a": stack.step(divisor),
            "rest": rest + noise * stack.variance_proxy * level,
        }

    return at


def _one_step(p: g.Problem, divisor: int, own: int, error_factor: int, used: str) -> None:
    """lambda times both sides less the contraction, over alpha."""
    dx, drift, error, lam = _direction(p)
    moment, second, G, a, rest = (p.parameter(n) for n in ("moment", "second", "G", "a", "rest"))
    p.assume(error.squared <= moment, "Jensen: ||E calE||^2 <= E||calE||^2")
    p.assume(second <= own * G**2 * dx.squared + rest + error_factor * moment, used)
    p.assume(divisor * a * G**2 <= lam, f"alpha <= lambda^i/({divisor} G_A^2)")
    p.assume(divisor * a * lam <= 1, f"alpha lambda^i <= 1/{divisor}, as lambda^i <= G_A")
    step = "3/2" * lam * dx.squared - 2 * (dx @ (drift + error)) + a * second
    p.show(lam * step <= a * lam * rest + 4 * moment)


@g.theorem("affpcl.corG2_first_corrected", at=_steps(40, 96, 144, 2), scale=_slope)
def corG2_first_corrected(p: g.Problem) -> None:
    """One step of gtilde for every alpha <= lambda^i/(40 G_A^2)."""
    _one_step(p, 40, 8, 4, "affpcl.corG2_gtil_corrected")


@g.theorem("affpcl.corG2_first_sharper", at=_steps(20, 64, 16, 9), scale=_slope)
def corG2_first_sharper(p: g.Problem) -> None:
    """One step of gtilde for every alpha <= lambda^i/(20 G_A^2)."""
    _one_step(p, 20, 4, 2, "affpcl.corG2_gtil_sharper")
