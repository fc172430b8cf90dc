"""The minimum of a smooth convex function of a few variables to rounding, or that it has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsys.bilevel.arrays import namespace
from linsys.validate import InputError

__all__ = ["minimise", "solve_definite"]

#: More steps than any of our problems with a minimum takes, by a factor of about five.
_STEPS = 100
#: Steps are taken in full below this relative decrease, which a line search cannot tell from
#: rounding.
_TINY = 1e-9

Evaluation = tuple[float, Any, Any]


def minimise(what: str, evaluate: Callable[[Any], Evaluation], start: Any) -> Any:
    """The minimiser, from the value, gradient (n,) and Hessian (n, n) at a point.

    Newton's method with backtracking. Where a minimum is only approached at infinity, as in
    separable data, the steps do not become small; where it is not unique, the Hessian is singular.

    Raises:
        InputError: either of these, with ``what`` as the subject.

    >>> minimise("a parabola", lambda x: (float(x @ x), 2 * x, 2 * np.eye(1)), np.ones(1))
    array([0.])
    """
    xp, point, previous = namespace(start), start, np.inf
    value, gradient, hessian = evaluate(point)
    for _ in range(_STEPS):
        step = -solve_definite(what, hessian, gradient)
        decrease, size = -float(gradient @ step), float(xp.linalg.vector_norm(step))
        scale = 1.0
        trial = evaluate(point + step)
        while decrease > _TINY * abs(value) and not trial[0] <= value - 1e-4 * scale * decrease:
            scale /= 2.0
            trial = evaluate(point + scale * step)
        point, (value, gradient, hessian) = point + scale * step, trial
        relative = size / (1.0 + float(xp.linalg.vector_norm(point)))
        # quadratic convergence, or the end of it where rounding is amplified by the condition
        if relative <= 1e-10 or (relative <= 1e-6 and size >= previous / 2.0):
            return point
        previous = size
    raise InputError(
        f"{what} must have a minimum; found steps of length {size:.3g} after {_STEPS} of them: "
        "the data may be separable, so that only a penalty or a ball makes it finite"
    )


def solve_definite(what: str, hessian: Any, vector: Any) -> Any:
    """H^{-1} v for a positive definite H (n, n) and v (n,) or (n, m).

    Raises:
        InputError: H is singular to rounding.
    """
    xp = namespace(hessian)
    eigenvalues = xp.linalg.eigvalsh(hessian)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if not smallest > len(eigenvalues) * np.finfo(float).eps * largest:
        raise InputError(
            f"{what} must have a unique minimum; found a Hessian with eigenvalues between "
            f"{smallest:.3g} and {largest:.3g}"
        )
    return xp.linalg.solve(hessian, vector)
