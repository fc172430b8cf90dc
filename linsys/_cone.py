"""Spectral radii of linear maps that preserve positive semidefinite matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsys.validate import Array

__all__ = ["LyapunovSolver", "perron", "perron_bound"]

#: Up to this size a map is written out as a matrix: ARPACK needs more rows, and pays off only then.
DENSE = 4


def perron(positive: Callable[[Array], Array], d: int) -> float:
    """Spectral radius of a linear map K that preserves positive semidefinite matrices (d, d).

    By Krein and Rutman it is an eigenvalue of K.  The Krylov space starts at the identity: as that
    is interior to the cone, ||K^k I||^{1/k} tends to the spectral radius whether or not K
    decouples.

    >>> import numpy as np
    >>> A = np.array([[0.5, 0.2], [0.1, 0.3]])
    >>> perron(lambda S: A @ S @ A.T, 2) ** 0.5  # the spectral radius of A
    0.573205
    """
    if d <= DENSE:
        units = np.eye(d * d).reshape(d * d, d, d)
        symmetric = 0.5 * (units + np.swapaxes(units, -1, -2))
        columns = [positive(s).ravel() for s in symmetric]
        return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max())

    from scipy.sparse.linalg import LinearOperator, eigs  # slow to import

    def apply(vector: Array) -> Array:
        s = vector.reshape(d, d)
        return positive(0.5 * (s + s.T)).ravel()

    operator = LinearOperator((d * d, d * d), matvec=apply, dtype=np.float64)
    values = eigs(operator, k=1, v0=np.eye(d).ravel(), return_eigenvectors=False, maxiter=10_000)
    return float(np.abs(values[0]))


def perron_bound(positive: Callable[[Array], Array], d: int) -> float:
    """An upper bound on :func:`perron` from one application, K(I) <= lambda_max(K(I)) I.

    >>> import numpy as np
    >>> perron_bound(lambda S: 0.5 * S, 3)
    0.5
    """
    return float(np.linalg.eigvalsh(positive(np.eye(d)))[-1])


class LyapunovSolver:
    """Solve M X + X M' - c X = Q for many Q, where the spectrum of M lies to the right of c / 2.

    The map Q -> X preserves positive semidefinite matrices.  One real Schur form of M serves all Q
    and c.

    >>> import numpy as np
    >>> LyapunovSolver(np.eye(2))(np.eye(2), 0.0)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def __init__(self, matrix: Array) -> None:
        from scipy.linalg import schur

        self._form, self._basis = schur(matrix)
        self._eye = np.eye(len(matrix))

    def __call__(self, q: Array, c: float) -> Array:
        """X for one Q (d, d)."""
        from scipy.linalg.lapack import dtrsyl

        form = self._form - 0.5 * c * self._eye
        solution, scale, _ = dtrsyl(form, form, self._basis.T @ q @ self._basis, tranb="T")
        x: Array = self._basis @ solution @ self._basis.T / scale
        return 0.5 * (x + x.T)
