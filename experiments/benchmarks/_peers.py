"""Peers of the AffPCL kernel, each in its best form, run by a process of their own.

A child process is needed because the number of threads of BLAS and of XLA is fixed when they are
loaded. It shares one core with the parent, which times ours and a peer in turn. As a program it
reads one request per line, ``{"peer", "n", "d", "rounds", "replicates", "seed"}``, and answers
``{"seconds", "error"}``: the wall time of one call without compilation, and the mean squared error
of every replicate at the end.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys import GaussianSystem, sample_gaussian_system

__all__ = ["PEERS", "bench_step", "bench_system"]

Values = NDArray[np.float64]
#: (replicates, seed) -> mean squared error per replicate
Call = Callable[[int, int], Values]


@cache
def bench_system(n: int, d: int) -> GaussianSystem:
    """The system of Figure 1 at delta = 0.3, of any size."""
    return sample_gaussian_system(0, n=n, d=d, delta_env=0.3, delta_obj=0.3)


def bench_step(d: int) -> float:
    """Figure 1's step size at d = 5; smaller where A is larger."""
    return 0.05 / d if d <= 5 else 0.2 / d**2


def numpy_peer(system: GaussianSystem, alpha: float, rounds: int) -> Call:
    """Arrays over replicates and agents, batched matrix products, buffers reused."""
    n, d, m = system.n, system.d, system.means
    A_t, Phi_t = np.ascontiguousarray(system.A_base.T), np.ascontiguousarray(system.Phi_base.T)
    m_t = np.ascontiguousarray(m.T)
    targets = system.theta @ Phi_t
    half = 0.5 * (m * m).sum(1)
    solutions = system.x_star

    def call(replicates: int, seed: int) -> Values:
        rng = np.random.Generator(np.random.SFC64(seed))
        x = np.zeros((replicates, n, d))
        center, theta = np.zeros((replicates, 1, d)), np.zeros((replicates, 1, d))
        s, xa, h, weighted = (np.empty((replicates, n, d)) for _ in range(4))
        weights = np.empty((replicates, n, n))
        diagonal = weights.reshape(replicates, n * n)[:, :: n + 1]
        flat_s, flat_w = s.reshape(-1, d), weights.reshape(-1, n)
        for _ in range(rounds):
            rng.standard_normal(out=s)
            s += m
            np.matmul(flat_s, m_t, out=flat_w)  # [r, j, k] = m_k's^j
            weights -= half
            weights -= diagonal.copy()[:, :, None]
            np.exp(weights, out=weights)
            shares = 1.0 / weights.sum(-1, keepdims=True)
            y, w = center @ A_t, theta @ Phi_t
            v = system.eps_A * y - system.eps_b * w
            np.multiply(s, np.matmul(s, v.swapaxes(1, 2)), out=h)
            h += y - w
            np.multiply(h, shares, out=weighted)
            np.matmul(x.reshape(-1, d), A_t, out=xa.reshape(-1, d))
            on_target = np.einsum("rjd,jd->rj", s, targets)
            on_own = system.eps_A * np.einsum("rjd,rjd->rj", s, xa) - system.eps_b * on_target
            on_theta = np.matmul(s, w.swapaxes(1, 2))[..., 0] - on_target
            residual = (w[:, 0] - targets.mean(0)) + system.eps_b / n * np.einsum(
                "rj,rjd->rd", on_theta, s
            )
            mean_h = h.mean(1)
            s *= on_own[..., None]
            s += xa
            s -= targets
            s -= h
            s += np.matmul(weights.swapaxes(1, 2), weighted)
            s *= alpha
            x -= s
            center = center - alpha * (mean_h + residual)[:, None]
            theta = theta - alpha * residual[:, None]
        errors: Values = ((x - solutions) ** 2).sum(-1).mean(-1)
        return errors

    return call


def jax_peer(system: GaussianSystem, alpha: float, rounds: int, generator: str) -> Call:
    """``jit(vmap(scan))`` over replicates, in float64."""
    import jax
    import jax.numpy as jnp

    settings: Any = jax.config
    settings.update("jax_enable_x64", True)
    n, d, m = system.n, system.d, jnp.asarray(system.means)
    A, Phi = jnp.asarray(system.A_base), jnp.asarray(system.Phi_base)
    targets = jnp.asarray(system.theta) @ Phi.T
    half = 0.5 * (m * m).sum(1)

    def step(carry: Any, key: Any) -> Any:
        x, center, theta = carry
        s = m + jax.random.normal(key, (n, d), dtype=jnp.float64)
        logs = s @ m.T - half
        weights = jnp.exp(logs - jnp.diagonal(logs)[:, None])
        y, w = A @ center, Phi @ theta
        h = (y - w) + s * (s @ (system.eps_A * y - system.eps_b * w))[:, None]
        sent = weights.T @ (h / weights.sum(-1, keepdims=True))
        on_target = (s * targets).sum(-1)
        xa = x @ A.T
        on_own = system.eps_A * (s * xa).sum(-1) - system.eps_b * on_target
        own = xa - targets + s * on_own[:, None]
        residual = (w - targets + s * (system.eps_b * (s @ w - on_target))[:, None]).mean(0)
        moved = x - alpha * (own + sent - h)
        return (moved, center - alpha * (h.mean(0) + residual), theta - alpha * residual), None

    def one(key: Any) -> Any:
        start = (jnp.zeros((n, d)), jnp.zeros(d), jnp.zeros(d))
        end, _ = jax.lax.scan(step, start, jax.random.split(key, rounds))
        return ((end[0] - system.x_star) ** 2).sum(-1).mean(-1)

    compiled = jax.jit(jax.vmap(one))

    def call(replicates: int, seed: int) -> Values:
        keys = jax.random.split(jax.random.key(seed, impl=generator), replicates)
        return np.asarray(compiled(keys).block_until_ready())

    return call


def loops_peer(system: GaussianSystem, alpha: float, rounds: int) -> Call:
    """Plain numba loops, one replicate after the other, NumPy's generator inside."""
    arguments = (
        *(system.means, system.theta @ system.Phi_base.T, system.A_base, system.Phi_base),
        *(float(system.eps_A), float(system.eps_b), system.x_star, alpha, rounds),
    )
    return lambda replicates, seed: _loops()(*arguments, replicates, seed)


@cache
def _loops() -> Any:
    import numba

    return numba.njit(error_model="numpy", fastmath=True)(_plain_loops)


def _plain_loops(
    m: Values,
    targets: Values,
    A: Values,
    Phi: Values,
    eps_A: float,
    eps_b: float,
    solutions: Values,
    alpha: float,
    rounds: int,
    replicates: int,
    seed: int,
) -> Values:
    n, d = m.shape
    np.random.seed(seed)  # noqa: NPY002 - the generator that numba has
    errors = np.zeros(replicates)
    s, h, xa, sent = np.empty((n, d)), np.empty((n, d)), np.empty(d), np.empty((n, d))
    row, y, w, total, residual = np.empty(n), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for r in range(replicates):
        x, center, theta = np.zeros((n, d)), np.zeros(d), np.zeros(d)
        for _ in range(rounds):
            for a in range(d):
                y[a] = w[a] = 0.0
                for c in range(d):
                    y[a] += A[a, c] * center[c]
                    w[a] += Phi[a, c] * theta[c]
            sent[:] = 0.0
            total[:] = 0.0
            residual[:] = 0.0
            for j in range(n):
                on_h = on_w = on_target = 0.0
                for a in range(d):
                    s[j, a] = m[j, a] + np.random.standard_normal()  # noqa: NPY002
                    on_h += s[j, a] * (eps_A * y[a] - eps_b * w[a])
                    on_w += s[j, a] * w[a]
                    on_target += s[j, a] * targets[j, a]
                for a in range(d):
                    h[j, a] = y[a] - w[a] + s[j, a] * on_h
                    total[a] += h[j, a] / n
                    gap = eps_b * (on_w - on_target)
                    residual[a] += (w[a] - targets[j, a] + s[j, a] * gap) / n
                norm = 0.0
                for k in range(n):
                    log = 0.0
                    for a in range(d):
                        gap = m[k, a] - m[j, a]
                        log += gap * (s[j, a] - 0.5 * (m[k, a] + m[j, a]))
                    row[k] = math.exp(log)
                    norm += row[k]
                for k in range(n):
                    for a in range(d):
                        sent[k, a] += row[k] / norm * h[j, a]
            for j in range(n):
                on_own = 0.0
                for a in range(d):
                    xa[a] = 0.0
                    for c in range(d):
                        xa[a] += A[a, c] * x[j, c]
                    on_own += s[j, a] * (eps_A * xa[a] - eps_b * targets[j, a])
                for a in range(d):
                    own = xa[a] - targets[j, a] + s[j, a] * on_own
                    x[j, a] -= alpha * (own + sent[j, a] - h[j, a])
            for a in range(d):
                center[a] -= alpha * (total[a] + residual[a])
                theta[a] -= alpha * residual[a]
        errors[r] = ((x - solutions) ** 2).sum() / n
    return errors


#: Peer -> (builder, replicates per call to choose from).
PEERS: dict[str, tuple[Callable[[GaussianSystem, float, int], Call], tuple[int, ...]]] = {
    "NumPy": (numpy_peer, (8, 16, 64, 256)),
    "JAX, threefry": (lambda s, a, t: jax_peer(s, a, t, "threefry2x32"), (16, 64, 256)),
    "JAX, unsafe_rbg": (lambda s, a, t: jax_peer(s, a, t, "unsafe_rbg"), (16, 64, 256)),
    "numba loops": (loops_peer, (16,)),
}


@cache
def _call(peer: str, n: int, d: int, rounds: int) -> Call:
    return PEERS[peer][0](bench_system(n, d), bench_step(d), rounds)


@cache
def _warm(peer: str, n: int, d: int, rounds: int, replicates: int) -> None:
    _call(peer, n, d, rounds)(replicates, 0)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Time one call of a peer, compiled before."""
    key = (request["peer"], request["n"], request["d"], request["rounds"])
    _warm(*key, request["replicates"])
    start = time.perf_counter()
    errors = _call(*key)(request["replicates"], request["seed"])
    return {"seconds": time.perf_counter() - start, "error": errors.tolist()}


def main() -> None:
    """Answer every request of stdin."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
