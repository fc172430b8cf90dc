"""Check a proof by exact arithmetic: an identity, and matrices without negative eigenvalues.

The proof of measured <= bound is the identity bound - measured = sum of <multiplier, matrix>, in
which every matrix of forms has no negative eigenvalue, by an assumption or as a Gram matrix, and
neither has any multiplier. Nothing here is a float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ratecheck._certify.gram.forms import Form, Monomial, read
from ratecheck._certify.gram.problem import (
    SQUARES,
    TIMES,
    Assumption,
    Block,
    Problem,
    of_assumption,
    of_squares,
)

#: A symmetric matrix of rationals, by rows.
Matrix = Sequence[Sequence[Fraction]]


class Wrong(Exception):
    """Why this is no proof, in a line."""


def verify(problem: Problem, terms: Sequence[Mapping[str, Any]], excess: Fraction) -> None:
    """Check a proof of a problem's conclusion with (1 + excess) times its bound.

    Args:
        problem: as it is declared.
        terms: ``of``, the label of a block, and ``multiplier``, rows of rationals as text.
        excess: not negative.

    Raises:
        Wrong: it is no proof.
    """
    if problem.conclusion is None:
        raise Wrong("`problem` must state what is shown; found nothing")
    if excess < 0:
        raise Wrong(f"`excess` must not be negative; found {excess}")
    left = problem.conclusion.slack + excess * problem.conclusion.bound
    for term in terms:
        block = rebuilt(problem, term.get("of"))
        multiplier = rationals(term.get("multiplier"), len(block.matrix))
        if not block.free and (place := negative(multiplier)) is not None:
            raise Wrong(
                f"`multiplier` of {block.label[0]!r} times {block.label[1]} must have no negative "
                f"eigenvalue; found one by row {place + 1}"
            )
        left = left - paired(multiplier, block)
    if left.terms:
        raise Wrong(f"bound - measured must be the sum of the terms; found {left} beyond it")


def paired(multiplier: Matrix, block: Block) -> Form:
    """The inner product of a multiplier and a matrix of forms."""
    total: Any = Form({})
    for row, forms in zip(multiplier, block.matrix, strict=True):
        for number, form in zip(row, forms, strict=True):
            if number:
                total = total + number * form
    result: Form = total
    return result


def rebuilt(problem: Problem, label: Any) -> Block:
    """The block of a label, from the problem as it is declared.

    Raises:
        Wrong: the problem has none of this label.
    """
    if not isinstance(label, list | tuple) or not all(isinstance(part, str) for part in label):
        raise Wrong(f"`of` must name what is multiplied; found {label!r:.80}")
    try:
        name, factor, *rows = label
        monomial = _of_parameters(problem, factor)
        if name == SQUARES or name.startswith(TIMES):
            weight = None if name == SQUARES else _weight(problem, name.removeprefix(TIMES))
            basis = [_row(problem, row) for row in rows]
            spaces = {problem.spaces[vector] if vector else "" for _, vector in basis}
            if len(spaces) != 1 or len(set(basis)) < len(basis):
                raise ValueError("rows of different spaces or equal ones")
            return of_squares(monomial, basis, weight)
        (assumption,) = [a for a in problem.assumed if a.name == name]
        if rows:
            raise ValueError("rows of an assumption")
        return of_assumption(assumption, monomial)
    except ValueError:
        raise Wrong(f"`of` must be a part of the theorem; found {label!r:.80}") from None


def _weight(problem: Problem, name: str) -> Assumption:
    """An inequality between polynomials of parameters, whose slack may multiply squares."""
    (one,) = [a for a in problem.assumed if a.name == name]
    if len(one.matrix) > 1 or one.equal or not one.matrix[0][0].scalar:
        raise ValueError("no inequality between polynomials of parameters")
    return one


def _of_parameters(problem: Problem, text: str) -> Monomial:
    monomial = read(text)
    if any(name not in problem.parameters for name, _ in monomial):
        raise ValueError("no parameter")
    return monomial


def _row(problem: Problem, text: str) -> tuple[Monomial, str]:
    monomial, _, name = text.partition(" * ")
    if name and name not in problem.spaces:
        raise ValueError("no vector")
    return _of_parameters(problem, monomial), name


def rationals(rows: Any, size: int) -> list[list[Fraction]]:
    """A symmetric matrix of this size from text.

    Raises:
        Wrong: it is none.
    """
    try:
        matrix = [[Fraction(entry) for entry in row] for row in rows]
        symmetric = all(matrix[i][j] == matrix[j][i] for i in range(size) for j in range(i))
        if len(matrix) == size and all(len(row) == size for row in matrix) and symmetric:
            return matrix
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        pass
    raise Wrong(f"`multiplier` must be a symmetric matrix with {size} rows of rationals")


def negative(matrix: Matrix) -> int | None:
    """The row by which a symmetric matrix is found to have a negative eigenvalue; None without.

    Elimination without square roots: no pivot may be negative, and beside a pivot that is zero all
    entries have to be.

    >>> negative([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]])
    >>> negative([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(3)]])
    1
    """
    rows = [list(row) for row in matrix]
    for k, pivot_row in enumerate(rows):
        pivot = pivot_row[k]
        if pivot < 0 or (pivot == 0 and any(pivot_row[k:])):
            return k
        if pivot == 0:
            continue
        for i in range(k + 1, len(rows)):
            share = rows[i][k] / pivot
            if share:
                for j in range(i, len(rows)):
                    rows[i][j] -= share * pivot_row[j]
                    rows[j][i] = rows[i][j]
    return None


def positive_semidefinite(matrix: Matrix) -> bool:
    """Whether a symmetric matrix of fractions has no negative eigenvalue, decided exactly.

    >>> tiny = Fraction(1, 10**30)
    >>> [positive_semidefinite([[1, 1], [1, 1 + change]]) for change in (tiny, -tiny)]
    [True, False]
    """
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    return negative(rows) is None
