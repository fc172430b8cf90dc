"""How far maximum-likelihood rewards are from the truth: derived, to leading order in 1 / N_p.

An estimator with Delta_i = B W_i tends to the best of its class for the population, B and W below,
and is off by bias there: differences of rewards by d_i(x) = <B W_i - Delta_i, x>. Around it, with B
turned to B + B_perp C, the parameters theta (C and all heads) are those of a regression with logits
z_i(theta; x) and gradients J_i(x). The usual expansion of a maximum gives theta_hat - theta with
covariance A^-1 V A^-1 / N_p,

    A = sum_i E[v J_i J_i' - e_i z_i''],   V = sum_i cov(e J_i),   v = p (1 - p),  e = o - p,

e_i = P_i - p its mean, which does not vanish where the class does not hold the truth. So

    E |r_hat - r*|^2 = mean_i E[d_i^2] + (1 / N_p) mean_i tr(E[J_i J_i'] (A^-1 V A^-1)_ii) + ...

With small logits and isotropic features v = 1/4, and the second term is 4 / N_p times the number of
free parameters per user: d1 d2 (full), k (d1 + d2 - k) (local), k d2 + k (d1 - k) / N (shared),
k (d1 + d2 - k) / N (global). Left out are what the O(1 / N_p) mean of theta_hat adds through the
bias, and terms of order 1 / N_p^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from linsys.preference.estimators import Fit, fit_full, fit_global, fit_local, fit_shared
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array

__all__ = ["Law", "free_parameters", "laws", "reward_error"]

#: A fit to the population ends when the next step would turn the factor by less than this.
_TOL = 1e-12


class Law(NamedTuple):
    """bias + variance / N_p of users, both (N,)."""

    bias: Array
    variance: Array

    def at(self, N_p: Array, users: int) -> Array:
        """The mean over the first so many users, of the shape of N_p."""
        return np.asarray(self.bias[:users].mean() + self.variance[:users].mean() / N_p)


def reward_error(system: PreferenceSystem, Delta: Array) -> Array:
    """E |r_hat(tau0) - r_hat(tau1) - (r*(tau0) - r*(tau1))|^2 of users' estimates, shape (N,).

    Exact: the mean over all pairs by their weights.
    """
    gram = system.coverage().gram
    off = (Delta - system.Delta).reshape(len(Delta), -1)
    return np.asarray(np.einsum("na,ab,nb->n", off, gram, off))


def free_parameters(name: str, N: int, d1: int, d2: int, k: int) -> float:
    """Per user: the dimension of the estimator's class, divided by N.

    >>> [free_parameters(name, 10, 6, 3, 1) for name in ("full", "local", "shared", "global")]
    [18.0, 8.0, 3.5, 0.8]
    """
    own = {"full": d1 * d2, "local": k * (d1 + d2 - k), "shared": k * d2, "global": 0}[name]
    common = {"full": 0, "local": 0, "shared": k * (d1 - k), "global": k * (d1 + d2 - k)}[name]
    return own + common / N


def laws(system: PreferenceSystem, k: int) -> Mapping[str, Law]:
    """The laws of the four estimators."""
    population, users = system.population(), range(system.N)
    full, shared = fit_full(population), fit_shared(population, k, tol=_TOL)
    everybody, alone = fit_global(population, k, tol=_TOL), fit_local(population, k, tol=_TOL)
    d1 = system.psi.shape[1]
    each = {
        "full": [_variance(system, [i], np.eye(d1), full.Delta[i : i + 1]) for i in users],
        "local": [_variance(system, [i], alone.B[i], alone.W[i : i + 1]) for i in users],
        "shared": [_variance(system, list(users), shared.B, shared.W)],
        "global": [_variance(system, list(users), everybody.B, everybody.W, one_head=True)],
    }
    fits: Mapping[str, Fit] = {
        "full": full,
        "local": alone,
        "shared": shared,
        "global": everybody,
    }
    return {
        name: Law(reward_error(system, fits[name].Delta), np.concatenate(each[name]))
        for name in fits
    }


def _variance(
    system: PreferenceSystem, users: list[int], B: Array, W: Array, *, one_head: bool = False
) -> Array:
    """N_p times the variance of users who share B (d1, k), with heads W of theirs: (users,)."""
    from scipy.special import expit

    X = np.subtract(*system.psi[system.pairs.T])
    w, truth = system.pair_weights, system.probabilities()[users]
    k, d2 = W.shape[1:]
    turned = np.linalg.qr(B, mode="complete")[0][:, B.shape[1] :]
    m = turned.shape[1] * k
    f = np.einsum("pab,ak->pkb", X, B).reshape(len(X), -1)
    h = np.einsum("pab,ac->pcb", X, turned)
    q = np.einsum("pcb,jl->pcjlb", h, np.eye(k)).reshape(len(X), m, k * d2)
    size = m + k * d2 * (1 if one_head else len(users))
    A, V = np.zeros((size, size)), np.zeros((size, size))
    places, metrics = [], []
    for i, (head, P) in enumerate(zip(W, truth, strict=True)):
        J = np.concatenate([q @ head.ravel(), f], axis=1)
        p = expit(f @ head.ravel() + _start(system, users[i]))
        e, v = P - p, p * (1.0 - p)
        first = m + (0 if one_head else i * k * d2)
        at = np.concatenate([np.arange(m), np.arange(first, first + k * d2)])
        block = (J * (w * v)[:, None]).T @ J
        mixed = np.einsum("p,pac->ac", w * e, q)
        block[:m, m:] -= mixed
        block[m:, :m] -= mixed.T
        A[np.ix_(at, at)] += block
        mean = (w * e) @ J
        V[np.ix_(at, at)] += (J * (w * (P * (1.0 - P) + e**2))[:, None]).T @ J
        V[np.ix_(at, at)] -= np.outer(mean, mean)
        places.append(at)
        metrics.append((J * w[:, None]).T @ J)
    half = np.linalg.solve(A, V)
    covariance = np.linalg.solve(A, half.T)
    return np.array(
        [(M * covariance[np.ix_(at, at)]).sum() for M, at in zip(metrics, places, strict=True)]
    )


def _start(system: PreferenceSystem, user: int) -> Array:
    """The logits of all pairs at Delta = 0, shape (P,)."""
    start = system.rewards(system.Theta_init[user])
    tau0, tau1 = system.pairs.T
    return np.asarray(start[tau0] - start[tau1])
