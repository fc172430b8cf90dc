"""Minimisers of f^S for least squares on W = W0 + B A: their closed form, and descent to them.

Let G = B A M^(1/2), lambda = (r/k - 1)/(r - 1) in [0, 1] and D = (W* - W0) M^(1/2) with singular
values d_1 >= d_2 >= .., M the second moment of the inputs. The penalty f^S - f is (lambda/2)(r
sum_j |b_j|^2 |M^(1/2) a_j|^2 - |G|_F^2). By Cauchy-Schwarz and the triangle inequality its sum is
at least (sum_j |b_j| |M^(1/2) a_j|)^2 / r >= |G|_*^2 / r, with equality for a factorisation whose
components are all of the same size, which every G of rank at most r has (Mianjy, Arora and Vidal,
2018). Hence a minimiser of

    |G - D|_F^2 / 2 + (lambda/2)(|G|_*^2 - |G|_F^2):

the singular vectors are those of D and the values s solve (1 - lambda) s_j = (d_j - lambda sigma)_+
with sigma = sum_j s_j. Small directions are dropped, all others shrink unless there is one only; at
k = 1 nothing but the largest is left.
"""

from __future__ import annotations

import numpy as np

from linsys.sketching.exact import sketched_gradient, sketched_loss
from linsys.sketching.systems import LeastSquares
from linsys.validate import Array

__all__ = ["descend", "minimum", "moment_root", "shrunk"]


def moment_root(x: Array) -> Array:
    """M^(1/2) of inputs (s, n)."""
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def shrunk(d: Array, lam: float) -> Array:
    """Singular values s of the minimiser from those of D, decreasing; see the module's text.

    >>> shrunk(np.array([2.0, 1.0]), 0.25).round(4).tolist(), shrunk(np.array([2.0, 1.0]), 1.0)
    ([1.8667, 0.5333], array([2., 0.]))
    """
    for p in range(len(d), 1, -1):  # the largest p for which all p values stay positive
        total = d[:p].sum() / (1.0 + lam * (p - 1))
        if d[p - 1] > lam * total:
            return np.append((d[:p] - lam * total) / (1.0 - lam), np.zeros(len(d) - p))
    return np.append(d[:1], np.zeros(len(d) - 1))


def minimum(d: Array, s: Array, lam: float) -> float:
    """The least value of f^S - min f for given s."""
    return float(0.5 * ((s - d) ** 2).sum() + 0.5 * lam * (s.sum() ** 2 - (s**2).sum()))


def descend(system: LeastSquares, start: Array, k: int) -> Array:
    """The point at which L-BFGS from X (r, w) ends on f^S of the only device."""
    from scipy.optimize import minimize

    def both(flat: Array) -> tuple[float, Array]:
        X = flat.reshape(start.shape)
        return sketched_loss(system, 0, X, k), sketched_gradient(system, 0, X, k).ravel()

    solution = minimize(
        both,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 5000, "gtol": 1e-10, "ftol": 1e-16},
    )
    return np.asarray(solution.x.reshape(start.shape))
