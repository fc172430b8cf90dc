"""Compiled bodies of the inner loop and of its adjoint on finite domains, for NumPy arrays.

The same as :func:`linsys.bilevel.inner.descend` and :func:`linsys.bilevel.hypergradient.adjoint` on
a :class:`DomainOracle`, to rounding; a test holds them to each other on the same samples. A step
touches the prompts of its samples alone. The adjoint adds up one table (X, Y) of weights in the
place of a product with grad_phi r per step, so that the reward is differentiated once at the end.

Both keep the path, D x p numbers, and recompute the probabilities of a step on the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys.bilevel.arrays import finite, vector
from linsys.bilevel.inner import Path, check_path
from linsys.bilevel.oracle import DomainOracle
from linsys.compiled import compiled
from linsys.validate import Array, check_integer, check_number

__all__ = ["Drawn", "adjoint", "descend", "serves"]

Indices = NDArray[np.int64]


class Drawn:
    """The samples of D inner steps as two index arrays (D, m); item t is (x, y) of step t.

    >>> drawn = Drawn(np.array([[0], [2]]), np.array([[1], [1]]))
    >>> len(drawn), drawn[1]
    (2, (array([2]), array([1])))
    """

    def __init__(self, x: Indices, y: Indices) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, t: int) -> tuple[Indices, Indices]:
        return self.x[t], self.y[t]

    def __iter__(self) -> Iterator[tuple[Indices, Indices]]:
        return zip(self.x, self.y, strict=True)


def serves(*arrays: Any) -> bool:
    """Whether these are what the compiled bodies take: NumPy arrays of doubles."""
    return all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in arrays)


def descend(
    oracle: DomainOracle,
    phi: Array,
    theta_0: Array,
    *,
    alpha: float,
    D: int,
    k: int = 0,
    radius: float | None = None,
) -> Path:
    """:func:`linsys.bilevel.inner.descend`, with the same arguments, errors and result.

    >>> from linsys.bilevel import inner, meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0, inner_batch=1)
    >>> start = np.ones(4), np.zeros(4)
    >>> path, reference = (f(oracle, *start, alpha=0.01, D=50) for f in (descend, inner.descend))
    >>> bool(np.allclose(path.theta, reference.theta, rtol=1e-12))
    True
    """
    check_number("alpha", alpha, low=0.0, low_open=True)
    check_integer("D", D, low=1)
    check_integer("k", k)
    if radius is not None:
        check_number("radius", radius, low=0.0, low_open=True)
    finite("phi", phi)
    policy = oracle.domain.policy
    theta = np.empty((D + 1, oracle.p))
    theta[0], shrink = finite("theta_0", vector("theta_0", theta_0, oracle.p)), np.ones(D)
    samples: Any = (None,) * D
    if oracle.inner_batch is not None:
        samples = Drawn(*oracle.domain.draws_inner(oracle.seed, k, 0, D, oracle.inner_batch))
    x, y, weights = _samples_and_weights(oracle, phi, samples)
    _forward(
        policy.psi,
        policy.psi_by_parameter,
        policy.log_h,
        weights,
        x,
        y,
        alpha,
        np.inf if radius is None else radius,
        theta,
        shrink,
    )
    path = Path(theta, samples, shrink, alpha)
    check_path(oracle, phi, path)
    return path


def adjoint(oracle: DomainOracle, phi: Array, path: Path, z: Any = None) -> Array:
    """:func:`linsys.bilevel.hypergradient.adjoint`, with the same arguments and result.

    >>> from linsys.bilevel import hypergradient, meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> path = descend(oracle, np.ones(4), np.zeros(4), alpha=0.1, D=50)
    >>> ways = (f(oracle, np.ones(4), path) for f in (adjoint, hypergradient.adjoint))
    >>> bool(np.allclose(*ways, rtol=1e-12))
    True
    """
    finite("phi", phi)
    policy = oracle.domain.policy
    end = path.theta[-1]
    v = _outer(oracle, end) if z is None else oracle.outer_grads(phi, end, z)[1]
    x, y, weights = _samples_and_weights(oracle, phi, path.samples)
    flows = np.zeros(policy.log_h.shape)
    _backward(
        policy.psi,
        policy.psi_by_parameter,
        policy.log_h,
        weights,
        x,
        y,
        path.alpha,
        path.theta,
        np.asarray(path.shrink),
        v,
        flows,
    )
    # l_PL depends on phi through theta alone
    return np.asarray(path.alpha / oracle.beta * oracle.domain.reward.pullback(phi, flows))


def _outer(oracle: DomainOracle, theta: Array) -> Array:
    """grad_theta L_PL, shape (p,): one table (X, Y) of weights for all pairs."""
    policy = oracle.domain.policy
    scores, flows = policy.log_h + policy.psi @ theta, np.zeros(policy.log_h.shape)
    _compare(scores, *oracle.domain.pairs, flows)
    return np.asarray(flows.reshape(-1) @ policy.psi.reshape(-1, policy.p))


def _samples_and_weights(
    oracle: DomainOracle, phi: Array, samples: Any
) -> tuple[Indices, Indices, Array]:
    """Prompts and answers of every step, (D, m), and the weights of answers, (X, Y).

    Without samples one row of all prompts serves every step, and -1 stands for all their answers.
    """
    with np.errstate(over="ignore"):  # refused by the check of the path
        weights = np.exp(oracle.domain.reward.value(phi) / oracle.beta)
    if samples[0] is None:
        X = len(weights)
        return np.arange(X)[None], np.full((1, X), -1), oracle.domain.law * weights
    if not isinstance(samples, Drawn):
        samples = Drawn(*(np.stack(part) for part in zip(*samples, strict=True)))
    return samples.x, samples.y, weights / samples.x.shape[1]


@compiled
def _add(tables: Any, x: int, weights: Any, out: Any) -> None:
    """Add weights' tables[x] to ``out``: (n,) times (n, m), by four rows at a time."""
    n, m = len(weights), len(out)
    even = n - n % 4
    for i in range(0, even, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(m):
            first = a * tables[x, i, j] + b * tables[x, i + 1, j]
            out[j] += first + (c * tables[x, i + 2, j] + d * tables[x, i + 3, j])
    for i in range(even, n):
        for j in range(m):
            out[j] += weights[i] * tables[x, i, j]


@compiled
def _probabilities(psi_t: Any, log_h: Any, x: int, theta: Any, pi: Any) -> None:
    """pi(.|x) into ``pi`` (Y,)."""
    for y in range(len(pi)):
        pi[y] = log_h[x, y]
    _add(psi_t, x, theta, pi)
    largest = pi[0]
    for y in range(1, len(pi)):
        largest = max(largest, pi[y])
    total = 0.0
    for y in range(len(pi)):
        pi[y] = exp(pi[y] - largest)
        total += pi[y]
    for y in range(len(pi)):
        pi[y] /= total


@compiled
def _compare(scores: Any, x: Any, y: Any, y_other: Any, weights: Any, flows: Any) -> None:
    """Add the derivatives of L_PL by the scores log h + psi . theta to ``flows`` (X, Y)."""
    for i in range(len(x)):
        u = scores[x[i], y[i]] - scores[x[i], y_other[i]]
        wrong = weights[i] / (1.0 + exp(u))
        flows[x[i], y[i]] -= wrong
        flows[x[i], y_other[i]] += wrong


@compiled
def _forward(
    psi: Any,
    psi_t: Any,
    log_h: Any,
    weights: Any,
    xs: Any,
    ys: Any,
    alpha: float,
    radius: float,
    theta: Any,
    shrink: Any,
) -> None:
    """Rows 1, ..., D of the path ``theta``, and by how much each was shrunk."""
    _, Y, p = psi.shape
    move = np.empty(Y)
    for t in range(len(theta) - 1):
        row = t % len(xs)
        for j in range(p):  # a loop compiles in a fraction of the time of an assignment of arrays
            theta[t + 1, j] = theta[t, j]
        for i in range(xs.shape[1]):
            x, y = xs[row, i], ys[row, i]
            _probabilities(psi_t, log_h, x, theta[t], move)
            if y >= 0:
                W = weights[x, y]
                for a in range(Y):
                    move[a] *= -alpha * W
                move[y] += alpha * W
            else:
                Z = 0.0
                for a in range(Y):
                    Z += weights[x, a]
                for a in range(Y):
                    move[a] = alpha * (weights[x, a] - Z * move[a])
            _add(psi, x, move, theta[t + 1])
        square = 0.0
        for j in range(p):
            square += theta[t + 1, j] ** 2
        if sqrt(square) > radius:
            shrink[t] = radius / sqrt(square)
            for j in range(p):
                theta[t + 1, j] *= shrink[t]


@compiled
def _backward(
    psi: Any,
    psi_t: Any,
    log_h: Any,
    weights: Any,
    xs: Any,
    ys: Any,
    alpha: float,
    theta: Any,
    shrink: Any,
    v: Any,
    flows: Any,
) -> None:
    """Add W (psi . v - E psi . v) of every step to ``flows`` (X, Y), from the last to the first."""
    _, Y, p = psi.shape
    pi, along, before, moved = np.empty(Y), np.empty(Y), np.empty(p), np.empty(p)
    for j in range(p):
        moved[j] = v[j]
    for t in range(len(theta) - 2, -1, -1):
        row = t % len(xs)
        if shrink[t] != 1.0:
            square, product = 0.0, 0.0
            for j in range(p):
                square += theta[t + 1, j] ** 2
                product += theta[t + 1, j] * moved[j]
            for j in range(p):
                moved[j] = shrink[t] * (moved[j] - product / square * theta[t + 1, j])
        for j in range(p):
            before[j] = moved[j]
        for i in range(xs.shape[1]):
            x, y = xs[row, i], ys[row, i]
            _probabilities(psi_t, log_h, x, theta[t], pi)
            for a in range(Y):
                along[a] = 0.0
            _add(psi_t, x, before, along)
            mean, Z = 0.0, 0.0
            for a in range(Y):
                mean += pi[a] * along[a]
            if y >= 0:
                Z = weights[x, y]
                flows[x, y] += Z * (along[y] - mean)
            else:
                for a in range(Y):
                    Z += weights[x, a]
                    flows[x, a] += weights[x, a] * (along[a] - mean)
            for a in range(Y):
                along[a] = -alpha * Z * pi[a] * (along[a] - mean)
            _add(psi, x, along, moved)
