"""Problems as text for the checker, which is one file: :mod:`ratecheck._certify.check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ratecheck._certify.check import Matrix, Wrong, negative, prove
from ratecheck._certify.gram.problem import Problem


def told(problem: Problem) -> dict[str, Any]:
    """What a problem shows, assumes and has as parameters, as text that certificates repeat.

    Raises:
        Wrong: it shows nothing.
    """
    if problem.conclusion is None:
        raise Wrong("`problem` must state what is shown; found nothing")
    return {
        "shows": str(problem.conclusion),
        "assumes": {f"{i}. {one.name}": str(one) for i, one in enumerate(problem.assumed, 1)},
        "parameters": list(problem.parameters),
    }


def verify(problem: Problem, terms: Sequence[Mapping[str, Any]], excess: Fraction) -> None:
    """Check a proof of a problem's conclusion with (1 + excess) times its bound.

    Args:
        problem: as it is declared.
        terms: ``of``, the label of a block, and ``multiplier``, rows of rationals as text.
        excess: not negative.

    Raises:
        Wrong: it is no proof.
    """
    prove(told(problem), terms, excess)


def positive_semidefinite(matrix: Matrix) -> bool:
    """Whether a symmetric matrix of fractions has no negative eigenvalue, decided exactly.

    >>> tiny = Fraction(1, 10**30)
    >>> [positive_semidefinite([[1, 1], [1, 1 + change]]) for change in (tiny, -tiny)]
    [True, False]
    """
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    return negative(rows) is None
