"""Environments near a given one, and step sizes that are stable in mean square in all of them.

On a finite system the step x <- (I - alpha A(s)) x contracts x'Px in mean square if

    P - E_mu[(I - alpha A(s))' P (I - alpha A(s))]

is positive definite. For a given P this is linear in mu, so that it holds in all environments of a
polytope once it does at its corners. One P for all of them also allows the environment to change
from step to step, and covers averages over agents of different environments, as x'Px is convex.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from importlib import import_module
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


class CommonForms:
    """Forms that contract in all of some environments, at any step.

    Args:
        A: (S, d, d).
        environments: (E, S).
    """

    def __init__(self, A: Floats, environments: Floats) -> None:
        rc.check_installed("certify", "clarabel")
        d = A.shape[-1]
        # the upper triangle column by column, off the diagonal times the root of two: then the
        # product of two rows is that of the matrices
        self._rows, self._columns = np.tril_indices(d)[::-1]
        self._length = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        basis = np.stack([self._matrix(row, d) for row in np.eye(len(self._rows))])
        self._d, self._eye, self._identity = d, self._row(np.eye(d)), np.eye(len(basis))
        # E[(I - alpha A)' P (I - alpha A)] = P - alpha E[A'P + PA] + alpha^2 E[A'PA]
        mixed = A.mT[:, None] @ basis
        self._first = environments @ self._row(mixed + mixed.mT).reshape(len(A), -1)
        self._second = environments @ self._row(mixed @ A[:, None]).reshape(len(A), -1)

    def _matrix(self, row: Floats, d: int) -> Floats:
        P = np.zeros((d, d))
        P[self._rows, self._columns] = P[self._columns, self._rows] = row / self._length
        return P

    def _row(self, P: Floats) -> Floats:
        return np.asarray(P[..., self._rows, self._columns] * self._length)

    def at(self, alpha: float) -> Floats | None:
        """A form P of trace d with the largest margin; None if the solver has none."""
        from scipy.sparse import csc_array

        clarabel: Any = import_module("clarabel")
        D, eye = len(self._eye), self._eye[:, None]
        falls = (alpha * self._first - alpha**2 * self._second).reshape(-1, D, D)
        # unknown are P and the margin, which is at most one
        blocks = [np.append(self._eye, 0.0)[None], np.append(np.zeros(D), 1.0)[None]]
        blocks.append(np.hstack([-self._identity, 0.0 * eye]))
        blocks += [np.hstack([-fall.T, eye]) for fall in falls]
        right = np.zeros(2 + (1 + len(falls)) * D)
        right[:2], right[2 : 2 + D] = (self._d, 1.0), -_LEAST * self._eye
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(1)]
        cones += [clarabel.PSDTriangleConeT(self._d)] * (1 + len(falls))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        found = clarabel.DefaultSolver(
            csc_array((D + 1, D + 1)),
            np.append(np.zeros(D), -1.0),
            csc_array(np.vstack(blocks)),
            right,
            cones,
            settings,
        ).solve()
        *row, margin = found.x
        if str(found.status) != "Solved" or margin <= 1e-7:
            return None
        return self._matrix(np.array(row), self._d)


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
    form, forms = np.eye(matrices.shape[-1]), CommonForms(matrices, chances)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        better = forms.at(middle)
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
