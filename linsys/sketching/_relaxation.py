"""The largest value of v'H(X)v over a ball of X and unit v, for a Hessian quadratic in X.

With X = X0 + rho D and y = (D, 1), v'H(X)v is one form F(y, v), quadratic in y and in v: y v'
-> <y v', F y v'> with a matrix F on products. For any matrix K that vanishes on them, F + K is the
same form, and 2 lambda_max(F + K) is at least all its values, as ||y v'||^2 = 2 on the sphere of X.
Two kinds vanish there: products of an antisymmetric matrix in y with one in v, and (|D|^2 - 1)
v'Sv for symmetric S. Every K gives an upper bound; the least one over K is a convex problem.

Only the sphere counts: along a line on which a quadratic function is convex it is largest at an
end. For given v = (U, V), v'H(X)v is convex in X along v, as the quartic part of the loss, (1/2)
E||B S A x||^2, is not negative; it is concave along (U, -V), with curvature -4 E||U S V x||^2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsys.validate import Array

__all__ = ["form", "relaxed"]

#: The maximum of eigenvalues is smoothed by these shares of the largest one, one after the other.
_SMOOTHING = 10.0 ** -np.arange(1.0, 6.1, 0.5)
_STEPS = 300
#: An upper bound this close to the target counts as attained; and the rounding of a bound.
_CLOSE, _ROUNDING = 1e-9, 1e-13


def form(hessian: Callable[[Array], Array], centre: Array, radius: float) -> Array:
    """F[a, b, c, e], (d + 1, d + 1, d, d): v'H(X)v = sum F[a, b, c, e] y_a y_b v_c v_e.

    ``hessian`` maps X, of the shape of the centre, to (d, d), and is quadratic in X.
    """
    d = centre.size

    def at(D: Array) -> Array:
        return hessian(centre + radius * D.reshape(centre.shape))

    unit, here = np.eye(d), at(np.zeros(d))
    up, down = (np.array([at(sign * e) for e in unit]) for sign in (1.0, -1.0))
    F = np.zeros((d + 1, d + 1, d, d))
    F[d, d] = here
    F[:d, d] = F[d, :d] = (up - down) / 4.0
    for a in range(d):
        F[a, a] = (up[a] + down[a]) / 2.0 - here
        for b in range(a):
            F[a, b] = F[b, a] = (at(unit[a] + unit[b]) - up[a] - up[b] + here) / 2.0
    return F


def relaxed(F: Array, target: float) -> float:
    """An upper bound of the form on the sphere of D and unit v; stops where it meets ``target``.

    It is the largest eigenvalue of one matrix, so that it is a bound wherever the search ends.
    """
    from scipy.optimize import minimize

    p, d = F.shape[0], F.shape[2]
    flat = F.transpose(0, 2, 1, 3).reshape(p * d, p * d)
    size = float(np.abs(np.linalg.eigvalsh(flat)).max())
    if size == 0.0:
        return 0.0
    sphere = np.diag(np.append(np.ones(d), -1.0))
    y, v, symmetric = np.triu_indices(p, 1), np.triu_indices(d, 1), np.triu_indices(d)
    count = len(y[0]) * len(v[0])

    def vanishing(t: Array) -> Array:
        K = np.zeros((len(y[0]), d, d))
        K[:, v[0], v[1]] = t[:count].reshape(len(y[0]), -1)
        K -= K.swapaxes(1, 2)
        S = np.zeros((d, d))
        S[symmetric] = t[count:]
        total = sphere[:, :, None, None] * (S + S.T)
        total[y] += K
        total[y[1], y[0]] -= K
        return np.asarray(total.transpose(0, 2, 1, 3).reshape(p * d, p * d))

    def adjoint(Z: Array) -> Array:
        T = Z.reshape(p, d, p, d).transpose(0, 2, 1, 3)
        K = T[y] - T[y[1], y[0]]
        S = np.einsum("ab,abce->ce", sphere, T)
        own = (K[:, v[0], v[1]] - K[:, v[1], v[0]]).ravel()
        return np.concatenate([own, (S + S.T)[symmetric]])

    def smooth(t: Array, share: float) -> tuple[float, Array]:
        values, axes = np.linalg.eigh(flat / size + vanishing(t))
        weights = np.exp((values - values[-1]) / share)
        total = weights.sum()
        return float(values[-1] + share * np.log(total)), adjoint(
            (axes * (weights / total)) @ axes.T
        )

    t, best = np.zeros(count + len(symmetric[0])), np.inf
    for share in _SMOOTHING:
        options = {"maxiter": _STEPS, "maxcor": 30}
        t = minimize(smooth, t, (share,), jac=True, method="L-BFGS-B", options=options).x
        eigenvalues = np.linalg.eigvalsh(flat / size + vanishing(t))
        rounding = _ROUNDING * p * d * np.abs(eigenvalues).max()
        best = min(best, 2.0 * size * (float(eigenvalues[-1]) + rounding))
        if best <= target * (1.0 + _CLOSE):
            break
    return best
