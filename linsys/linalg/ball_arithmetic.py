"""The state in which :mod:`linsys.linalg` computes with :mod:`linsys.linalg.balls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from linsys.linalg._flint import flint
from linsys.linalg.ball_matrices import (
    eigenvalue_range,
    inverses,
    operator_norms,
    solutions,
    stretches,
)
from linsys.linalg.balls import Ball, State, larger, smaller
from linsys.linalg.numpys_extremes import OfObjects, arithmetic
from linsys.linalg.object_matrices import logistic

__all__ = ["ball_arithmetic", "rounded_constants"]


_MAXIMUM, _MINIMUM = OfObjects(np.maximum, larger), OfObjects(np.minimum, smaller)


@contextmanager
def ball_arithmetic(bits: int, exact_bits: int = 2048) -> Iterator[None]:
    """Within the block, ``precise`` makes balls, and :mod:`linsys.linalg` works on them.

    It is a state of the process, see :func:`linsys.linalg.numpys_extremes.arithmetic`.

    Args:
        bits: of the midpoints of balls.
        exact_bits: rationals with more bits become balls.
    """
    functions: dict[str, Callable[..., Any]] = {
        "_number": Ball,
        "logistic": logistic,
        "operator_norms": operator_norms,
        "eigenvalue_range": eigenvalue_range,
        "inverses": inverses,
        "solutions": solutions,
        "stretches": stretches,
    }
    settings = flint.ctx.prec, State.exact_bits, State.rounded
    try:
        flint.ctx.prec, State.exact_bits, State.rounded = bits, exact_bits, set()
        with arithmetic(functions, _MAXIMUM, _MINIMUM):
            yield
    finally:
        flint.ctx.prec, State.exact_bits, State.rounded = settings


def rounded_constants() -> list[float]:
    """The float64 numbers of more than twelve digits that entered a formula within the block.

    Each was taken for a ball of relative radius 1e-12 around it.
    """
    return sorted(State.rounded)
