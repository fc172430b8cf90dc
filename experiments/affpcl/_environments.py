"""Environments near a given one, and step sizes that are stable in mean square in all of them.

On a finite system the step x <- (I - alpha A(s)) x contracts x'Px in mean square if

    P - E_mu[(I - alpha A(s))' P (I - alpha A(s))]

is positive definite. For a given P this is linear in mu, so that it holds in all environments of a
polytope once it does at its corners. One P for all of them also allows the environment to change
from step to step, and covers averages over agents of different environments, as x'Px is convex.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc

Floats = NDArray[np.float64]
Rows = Sequence[Sequence[Fraction]]

#: What is proved of a step: x'Px falls at least by this share.
SHARE = Fraction(1, 10**9)
#: The least eigenvalue of P beside a mean of one, and the decimals of its entries.
_LEAST, _DECIMALS = 1e-4, 10
_BISECTIONS = 14
#: A step that is found in float64 is shortened by this share before it is proved.
_ROOM = Fraction(1, 10**4)


def corners(mu: Sequence[Fraction], level: Fraction) -> list[tuple[Fraction, ...]]:
    """The corners of {nu a distribution: ||nu - mu||_TV <= level}, with others of its points.

    A corner takes its mass from some states whole and from at most one in part, for one state.

    >>> half, near = Fraction(1, 2), Fraction(1, 4)
    >>> [tuple(map(str, corner)) for corner in corners([half, half], near)]
    [('3/4', '1/4'), ('1/4', '3/4')]
    """
    return list(dict.fromkeys(_moved(mu, level))) if level else [tuple(mu)]


def _moved(mu: Sequence[Fraction], level: Fraction) -> Iterator[tuple[Fraction, ...]]:
    for target in range(len(mu)):
        others = [s for s in range(len(mu)) if s != target]
        for order in itertools.permutations(others):
            left: Fraction | int = min(level, sum(mu[s] for s in others))
            moved = list(mu)
            for state in order:
                taken = min(left, moved[state])
                moved[state] -= taken
                moved[target] += taken
                left -= taken
            yield tuple(moved)


def unstable_step(A: Floats, mu: Floats) -> float:
    """The step from which on one environment is not stable in mean square, 1 / r(M L^{-1}).

    Args:
        A: (S, d, d).
        mu: (S,).
    """
    mean, eye = np.einsum("s,sij->ij", mu, A), np.eye(A.shape[-1])
    moment = sum(m * np.kron(a, a) for m, a in zip(mu, A, strict=True))
    drift = np.kron(mean, eye) + np.kron(eye, mean)
    return float(1 / np.abs(np.linalg.eigvals(moment @ np.linalg.inv(drift))).max())


def with_identity(A: Floats, environments: Floats) -> float:
    """The largest step for which ||x||^2 does not rise in mean, in any of these environments."""
    steps = []
    for mu in environments:
        mean = np.einsum("s,sij->ij", mu, A)
        moment = np.einsum("s,sji,sjk->ik", mu, A, A)
        root = np.linalg.inv(np.linalg.cholesky(mean + mean.T))
        steps.append(1 / np.linalg.eigvalsh(root @ moment @ root.T)[-1])
    return float(min(steps))


def common_form(A: Floats, environments: Floats, alpha: float) -> Floats | None:
    """A matrix P whose form contracts in all of these environments; None if the solver has none."""
    rc.check_installed("certify", "cvxpy")
    import cvxpy

    cp: Any = cvxpy
    d = A.shape[-1]
    P, margin = cp.Variable((d, d), symmetric=True), cp.Variable()
    eye, steps = np.eye(d), np.eye(d) - alpha * A
    constraints = [P >> _LEAST * eye, cp.trace(P) == d, margin <= 1]
    for mu in environments:
        after = sum(m * (B.T @ P @ B) for m, B in zip(mu, steps, strict=True) if m > 0)
        constraints.append(P - after - margin * eye >> 0)
    program = cp.Problem(cp.Maximize(margin), constraints)
    with contextlib.suppress(cp.SolverError):
        program.solve(solver="CLARABEL")
    if program.status != "optimal" or margin.value <= 1e-7:
        return None
    return np.asarray(P.value, dtype=float)


def contracts(A: Sequence[Rows], mu: Sequence[Fraction], alpha: Fraction, P: Rows) -> bool:
    """Whether x'Px falls by its share of 10^-9 or more in this environment, in exact arithmetic."""
    d = len(P)
    span = range(d)
    left = [[(1 - SHARE) * P[i][j] for j in span] for i in span]
    for chance, matrix in zip(mu, A, strict=True):
        if not chance:
            continue
        step = [[Fraction(int(i == j)) - alpha * matrix[i][j] for j in span] for i in span]
        image = [[sum(P[i][k] * step[k][j] for k in span) for j in span] for i in span]
        for i, j in itertools.product(span, span):
            left[i][j] -= chance * sum(step[k][i] * image[k][j] for k in span)
    return rc.gram.positive_semidefinite(left)


def proved_step(
    A: Sequence[Rows], environments: Sequence[Sequence[Fraction]]
) -> tuple[Fraction, list[list[Fraction]]]:
    """The largest step that one P proves stable in all environments, and P, by exact arithmetic.

    Args:
        A: a matrix of rationals for each state.
        environments: the corners of a polytope.

    >>> one = [[[Fraction(1, 2)]], [[Fraction(1)]]]
    >>> alpha, P = proved_step(one, [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]])
    >>> round(float(alpha), 3)  # 2 for A = 1
    2.0
    """
    matrices = np.array([[[float(entry) for entry in row] for row in matrix] for matrix in A])
    chances = np.array([[float(m) for m in mu] for mu in environments])
    low = 0.99 * with_identity(matrices, chances)
    high = min(unstable_step(matrices, mu) for mu in chances)
    form = np.eye(matrices.shape[-1])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        better = common_form(matrices, chances, middle)
        if better is None:
            high = middle
        else:
            low, form = middle, better
    alpha = Fraction(low).limit_denominator(10**9)
    unit = 10**_DECIMALS
    P = [[Fraction(round(float(entry) * unit), unit) for entry in row] for row in form / form[0, 0]]
    P = [[(P[i][j] + P[j][i]) / 2 for j in range(len(P))] for i in range(len(P))]
    for _ in range(100):
        alpha *= 1 - _ROOM
        if all(contracts(A, mu, alpha, P) for mu in environments):
            return alpha, P
    raise rc.gram.Unproved("no step near the one that is found in float64 is proved")
