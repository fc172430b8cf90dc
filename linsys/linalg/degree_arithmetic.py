"""The state in which :mod:`linsys.linalg` computes with :mod:`linsys.linalg.degrees`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from linsys.linalg.branching import Branching
from linsys.linalg.degree_matrices import (
    eigenvalue_range,
    inverses,
    operator_norms,
    solutions,
    stretches,
)
from linsys.linalg.degrees import MAXIMUM, MINIMUM, Rational, decided_by
from linsys.linalg.numpys_extremes import arithmetic
from linsys.linalg.object_matrices import logistic

__all__ = ["rational_arithmetic"]


@contextmanager
def rational_arithmetic(branching: Branching | None = None) -> Iterator[None]:
    """Within the block, ``precise`` makes :class:`Rational` numbers.

    It is a state of the process, see :func:`linsys.linalg.numpys_extremes.arithmetic`.

    Args:
        branching: decides comparisons; by default they come out as at the point.
    """
    functions: dict[str, Callable[..., Any]] = {
        "_number": Rational,
        "logistic": logistic,
        "operator_norms": operator_norms,
        "eigenvalue_range": eigenvalue_range,
        "inverses": inverses,
        "solutions": solutions,
        "stretches": stretches,
    }
    with arithmetic(functions, MAXIMUM, MINIMUM), decided_by(branching):
        yield
