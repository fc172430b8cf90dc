"""The state in which :mod:`linsys.linalg` computes with :mod:`linsys.linalg.balls`."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flint
import numpy as np

from linsys import linalg
from linsys.linalg import _precise
from linsys.linalg._precise import Numbers, is_precise
from linsys.linalg.ball_matrices import (
    eigenvalue_range,
    inverses,
    operator_norms,
    solutions,
    stretches,
)
from linsys.linalg.balls import Ball, State, larger, smaller
from linsys.linalg.numpys_extremes import OfObjects, exchanged, in_place_of_numpys

__all__ = ["ball_arithmetic", "rounded_constants"]


def logistic(x: Numbers) -> Numbers:
    """1 / (1 + e^-x) of each number."""
    return np.asarray(1 / (1 + np.exp(-x)))


#: linsys.linalg.logistic as it is outside of the arithmetic, for floats.
plain_logistic = types.FunctionType(linalg.logistic.__code__, vars(linalg))


def _calls_logistic(x: Numbers) -> Numbers:
    """The body of linsys.linalg.logistic within the arithmetic; it sees that module's names."""
    import sys

    # the name is that of linsys.linalg here
    arithmetic: Any = sys.modules[f"{__name__}.ball_arithmetic"]
    function = arithmetic.logistic if is_precise(x) else arithmetic.plain_logistic
    return np.asarray(function(x))


_MAXIMUM, _MINIMUM = OfObjects(np.maximum, larger), OfObjects(np.minimum, smaller)


@contextmanager
def ball_arithmetic(bits: int, exact_bits: int = 2048) -> Iterator[None]:
    """Within the block, ``precise`` makes balls, and :mod:`linsys.linalg` works on them.

    It is a state of the whole process: no other thread may compute meanwhile.

    Args:
        bits: of the midpoints of balls.
        exact_bits: rationals with more bits become balls.
    """
    functions = [
        (_precise, "_number", Ball),
        (_precise, "operator_norms", operator_norms),
        (_precise, "eigenvalue_range", eigenvalue_range),
        (_precise, "inverses", inverses),
        (_precise, "solutions", solutions),
        (_precise, "stretches", stretches),
        # imported by its name into other modules: its body is exchanged
        (linalg.logistic, "__code__", _calls_logistic.__code__),
        *in_place_of_numpys(_MAXIMUM, _MINIMUM),
    ]
    settings = flint.ctx.prec, State.exact_bits, State.rounded
    try:
        flint.ctx.prec, State.exact_bits, State.rounded = bits, exact_bits, set()
        with exchanged(functions):
            yield
    finally:
        flint.ctx.prec, State.exact_bits, State.rounded = settings


def rounded_constants() -> list[float]:
    """The float64 numbers of more than twelve digits that entered a formula within the block.

    Each was taken for a ball of relative radius 1e-12 around it.
    """
    return sorted(State.rounded)
