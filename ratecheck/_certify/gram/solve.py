"""The semidefinite program behind a proof, solved in float64, and its solution in exact rationals.

What is sought are multipliers with bound - measured = sum of <multiplier, matrix>; see
:mod:`ratecheck._certify.check`, which decides whether the result is a proof. The solver only
finds candidates.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys.validate import InputError
from ratecheck._certify.check import Wrong
from ratecheck._certify.gram.forms import Form
from ratecheck._certify.gram.problem import Problem, candidates
from ratecheck._certify.gram.system import (
    Cell,
    Key,
    Rationals,
    System,
    row_times,
    system,
    upper,
    whole_cell,
)
from ratecheck._certify.gram.verify import verify
from ratecheck._names import check_installed

Floats = NDArray[np.float64]

#: A multiplier below this share of the largest one is left out.
_NOTHING = 1e-6
#: Below this least eigenvalue there are no multipliers; above it, it may be the solver's accuracy.
_NONE = -1e-5
#: So often multipliers are restricted to where they are positive.
_DEPTH = 6
_NO_MULTIPLIERS = (
    "there are no multipliers of this form: the bound may be false, an assumption or a factor may "
    "be missing ({})"
)
#: Eigenvalues below these shares of the largest are zeros; tried in this order.
_ZEROS = (1e-6, 1e-5, 1e-4, 1e-3)
#: Entries of vectors that a multiplier has to vanish on have denominators up to this.
_DENOMINATOR = 1000
#: Free multipliers are rounded to multiples of the inverse of these, the first that will do.
_ROUNDED = (1, 2, 4, 12, 60, 840, 10**4, 10**6, 2**30, 2**50)
#: Shares by which a bound that is attained is exceeded where no exact multipliers are found.
EXCESSES = (Fraction(0), Fraction(1, 10**6), Fraction(1, 10**4))


class Unproved(Exception):
    """Why no proof was found, in a line."""


@dataclass
class Solution:
    """What the solver says: ``multipliers`` of the cells, ``moments`` by key, and the objective."""

    multipliers: list[Floats]
    moments: dict[Key, float]
    value: float


def solve(equations: System, measured: Form, bound: Form, goal: str) -> Solution:
    """Solve for the multipliers of bound - measured in float64.

    Args:
        equations: of the cells.
        measured: the left side.
        bound: the right side.
        goal: "margin", to keep eigenvalues away from zero; "least", for small multipliers; or
            "constant", for the least factor of the bound.

    Raises:
        Unproved: there are none of this form.
    """
    check_installed("certify", "cvxpy", "flint")
    import cvxpy

    cp: Any = cvxpy  # which has types for a part of its names

    margin, factor = cp.Variable(), cp.Variable()
    parts, matrices, constraints = [], [], []
    for cell in equations.cells:
        k = cell.size
        P = cp.Variable((k, k), symmetric=True) if k > 1 else cp.Variable((1, 1))
        matrices.append(P)
        if not cell.block.free:
            shift = margin * np.eye(k) if goal == "margin" else 0
            constraints.append(P - shift >> 0 if k > 1 else P - shift >= 0)
        rows, columns = (np.array(side) for side in zip(*upper(k), strict=True))
        parts.append(cp.reshape(P[rows, columns], (len(rows),), order="C") if k > 1 else P[0])
    unknowns = cp.hstack(parts)
    A = np.zeros((len(equations.rows), equations.unknowns))
    for at, row in enumerate(equations.rows):
        for column, c in row.items():
            A[at, column] = float(c)
    right = [np.array([float(c) for c in equations.right(form)]) for form in (bound, measured)]
    identity = A @ unknowns == (factor * right[0] if goal == "constant" else right[0]) - right[1]
    constraints.append(identity)
    if goal == "margin":
        constraints.append(margin <= 1)
        objective = cp.Maximize(margin)
    elif goal == "constant":
        objective = cp.Minimize(factor)
    else:
        traces = [cp.trace(P) for P, c in zip(matrices, equations.cells, strict=True)]
        free = [
            cp.abs(P[0, 0]) for P, c in zip(matrices, equations.cells, strict=True) if c.block.free
        ]
        bounded = [t for t, c in zip(traces, equations.cells, strict=True) if not c.block.free]
        objective = cp.Minimize(cp.sum(cp.hstack([*bounded, *free])))
    program = cp.Problem(objective, constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program.solve(solver="CLARABEL")
        except cp.SolverError:
            pass
        except BaseException as error:  # what a panic of the solver becomes is no Exception
            if type(error).__name__ != "PanicException":
                raise
            raise Unproved("the solver fails on a degenerate program") from None
    if program.status not in ("optimal", "optimal_inaccurate"):
        raise Unproved(_NO_MULTIPLIERS.format(f"the solver says {program.status}"))
    multipliers = [
        np.asarray(P.value, dtype=float).reshape(c.size, c.size)
        for P, c in zip(matrices, equations.cells, strict=True)
    ]
    moments = dict(zip(equations.keys, map(float, identity.dual_value), strict=True))
    return Solution(multipliers, moments, float(program.value))


def multipliers(
    problem: Problem, excess: Fraction | None = None
) -> tuple[list[dict[str, Any]], Fraction]:
    """The terms of an exact proof, and by which share its bound exceeds the stated one.

    Args:
        problem: with its conclusion.
        excess: the only share that is tried; by default none, then a millionth, then 10^-4.

    Raises:
        Unproved: no proof of this form is found.
    """
    if problem.conclusion is None:
        raise InputError("`problem` must state what is shown; found nothing")
    reasons = []
    for share in EXCESSES if excess is None else (excess,):
        bound = (1 + share) * problem.conclusion.bound
        for sparse in (True, False):
            try:
                terms = _proof(problem, problem.conclusion.measured, bound, share, sparse)
            except Unproved as error:
                reasons.append(str(error))
            else:
                return terms, share
    raise Unproved(reasons[0])


def _proof(
    problem: Problem, measured: Form, bound: Form, excess: Fraction, sparse: bool
) -> list[dict[str, Any]]:
    cells = [whole_cell(block) for block in candidates(problem)]
    target = bound - measured
    if sparse:
        equations = system(cells, [target])
        least = solve(equations, measured, bound, "least")
        largest = max(np.abs(m).max() for m in least.multipliers)
        cells = [
            cell
            for cell, m in zip(equations.cells, least.multipliers, strict=True)
            if np.abs(m).max() > _NOTHING * largest
        ]
    return _rounded(problem, cells, measured, bound, excess, depth=0)


def _rounded(
    problem: Problem,
    cells: Sequence[Cell],
    measured: Form,
    bound: Form,
    excess: Fraction,
    depth: int,
) -> list[dict[str, Any]]:
    """Round where there is room around the multipliers; else remove the room that there is not."""
    equations = system(cells, [bound - measured])
    solution = solve(equations, measured, bound, "margin")
    if solution.value < _NONE:
        raise Unproved(_NO_MULTIPLIERS.format("the least eigenvalue of all would be negative"))
    for terms in _roundings(equations, bound - measured, solution):
        with contextlib.suppress(Wrong):
            verify(problem, terms, excess)
            return terms
    if depth < _DEPTH:
        tried: list[list[int]] = []
        for zero in _ZEROS:
            smaller = _without_zeros(equations, solution, zero)
            sizes = [cell.size for cell in smaller or ()]
            if smaller is not None and sizes not in tried:
                tried.append(sizes)
                with contextlib.suppress(Unproved):
                    return _rounded(problem, smaller, measured, bound, excess, depth + 1)
    raise Unproved(
        "multipliers exist in float64, but none that are exact were found: the least eigenvalue "
        f"of all is {solution.value:.1e}"
    )


def _without_zeros(equations: System, solution: Solution, zero: float) -> list[Cell] | None:
    """The cells restricted to where multipliers are positive; None if they are everywhere."""
    largest = max(np.abs(m).max() for m in solution.multipliers)
    cells, changed = [], False
    for cell, P in zip(equations.cells, solution.multipliers, strict=True):
        if cell.block.free:
            cells.append(cell)
            continue
        values, vectors = np.linalg.eigh(P)
        null = vectors[:, values < zero * largest]
        if not null.shape[1]:
            cells.append(cell)
            continue
        changed = True
        if null.shape[1] == cell.size:
            continue
        basis = rational_complement(null)
        if basis is None:
            cells.append(cell)
            continue
        U = tuple(tuple(row_times(row, basis)) for row in cell.U)
        cells.append(replace(cell, U=U))
    return cells if changed and cells else None


def rational_complement(null: Floats) -> Rationals | None:
    """A rational basis, as columns, of what is orthogonal to the columns; None if none is near."""
    n, k = null.shape
    rows = null.T.copy()
    pivots: list[int] = []
    for at in range(k):
        left = np.abs(rows[at:])
        left[:, np.array(pivots, dtype=int)] = 0
        place = int(left.argmax())
        i, j = at + place // n, place % n
        rows[[at, i]] = rows[[i, at]]
        rows[at] /= rows[at, j]
        for other in range(k):
            if other != at:
                rows[other] -= rows[other, j] * rows[at]
        pivots.append(j)
    exact = [[Fraction(float(x)).limit_denominator(_DENOMINATOR) for x in row] for row in rows]
    errors = [
        abs(float(q) - x)
        for q_row, row in zip(exact, rows, strict=True)
        for q, x in zip(q_row, row, strict=True)
    ]
    if max(errors) > 1e-3:
        return None
    others = [j for j in range(n) if j not in pivots]
    basis = [[Fraction(0)] * len(others) for _ in range(n)]
    for column, j in enumerate(others):
        basis[j][column] = Fraction(1)
        for at, pivot in enumerate(pivots):
            basis[pivot][column] = -exact[at][j]
    return basis


def _roundings(
    equations: System, target: Form, solution: Solution
) -> Iterator[list[dict[str, Any]]]:
    """Exact solutions of the equations near the numerical one, from coarse to fine."""
    import flint

    m = equations.unknowns
    right = equations.right(target)
    matrix = flint.fmpq_mat(len(equations.rows), m + 1)
    for at, row in enumerate(equations.rows):
        for column, c in row.items():
            matrix[at, column] = flint.fmpq(c.numerator, c.denominator)
        matrix[at, m] = flint.fmpq(right[at].numerator, right[at].denominator)
    reduced, rank = matrix.rref()
    table = [
        {j: Fraction(int(q.p), int(q.q)) for j in range(m + 1) if (q := reduced[i, j]) != 0}
        for i in range(rank)
    ]
    leading = [min(row) for row in table]
    if m in leading:
        raise Unproved("the two sides differ in a term that no assumption or square has")
    numbers = np.concatenate(
        [
            P[np.triu_indices(c.size)]
            for P, c in zip(solution.multipliers, equations.cells, strict=True)
        ]
    )
    free = [j for j in range(m) if j not in set(leading)]
    for unit in _ROUNDED:
        values = {j: Fraction(round(float(numbers[j]) * unit), unit) for j in free}
        for row, lead in zip(table, leading, strict=True):
            values[lead] = row.get(m, Fraction(0)) - sum(
                (c * values[j] for j, c in row.items() if j not in (lead, m)), Fraction(0)
            )
        yield _terms(equations, values)


def _terms(equations: System, values: Mapping[int, Fraction]) -> list[dict[str, Any]]:
    terms, start = [], 0
    for cell in equations.cells:
        P = [[Fraction(0)] * cell.size for _ in range(cell.size)]
        for n, (i, j) in enumerate(upper(cell.size)):
            P[i][j] = P[j][i] = values[start + n]
        start += cell.size * (cell.size + 1) // 2
        multiplier, label = cell.whole(P), list(cell.block.label)
        if not any(any(row) for row in multiplier):
            continue
        if len(label) > 2:  # rows of squares that are not used
            used = [i for i, row in enumerate(multiplier) if any(row)]
            label = [*label[:2], *(label[2 + i] for i in used)]
            multiplier = [[multiplier[i][j] for j in used] for i in used]
        rows = [[str(entry) for entry in row] for row in multiplier]
        terms.append({"of": label, "multiplier": rows})
    return terms


@dataclass(frozen=True)
class WorstCase:
    """The least factor c with measured <= c bound, and an instance that attains it.

    Args:
        value: the factor, in float64.
        vectors: of the instance by name, in as few dimensions as needed.
        values: of functions, by name.
    """

    value: float
    vectors: Mapping[str, Floats]
    values: Mapping[str, float]


def worst_case(problem: Problem, negligible: float = 1e-6) -> WorstCase:
    """Solve for the least factor of the bound, and recover an instance that attains it.

    The instance is where the bound is one; its vectors come from a factorisation of the Gram matrix
    and meet the assumptions up to the accuracy of the solver.

    Args:
        problem: with a conclusion and without parameters, see :meth:`Problem.at`.
        negligible: eigenvalues of the Gram matrix below this share of the largest are dropped.

    Raises:
        Unproved: no factor is enough, or no proof of one is of this form.
    """
    if problem.conclusion is None or problem.parameters:
        raise InputError("`problem` must state what is shown, and have numbers for its parameters")
    measured, bound = problem.conclusion.measured, problem.conclusion.bound
    cells = [whole_cell(block) for block in candidates(problem)]
    solution = solve(system(cells, [bound, measured]), measured, bound, "constant")
    moments = {atom: value for (_, atom), value in solution.moments.items()}
    one = sum(float(c) * moments.get(atom, 0.0) for (_, atom), c in bound.terms.items())
    moments = {atom: value / one for atom, value in moments.items()}
    vectors: dict[str, Floats] = {}
    for space in dict.fromkeys(problem.spaces.values()):
        names = [name for name, own in problem.spaces.items() if own == space]
        gram = np.array([[moments.get((min(a, b), max(a, b)), 0.0) for a in names] for b in names])
        eigenvalues, basis = np.linalg.eigh(gram)
        kept = eigenvalues > negligible * max(eigenvalues.max(), 0.0)
        rows = basis[:, kept] * np.sqrt(eigenvalues[kept])
        vectors |= dict(zip(names, rows, strict=True))
    values = {name: moments.get((name,), 0.0) for name in problem.scalars}
    return WorstCase(solution.value, vectors, values)
