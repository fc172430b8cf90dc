"""The audit's evaluation of a claim on a batch of systems, and the linear algebra under it.

``ratecheck bench audit`` times; ``python -m experiments.benchmarks.audit`` also writes the tables
under ``results/``. The claim is Lemma D.2, whose bound needs almost every constant of a system:
solutions, operator norms, eigenvalues and the mean of sqrt(A'A). Ours and a peer run in turn on one
core. "Correct" means: both sides of the claim equal the peer's on every instance, relative to the
largest of them, to 1e-9; for linear algebra, the result does to 1e-12 times the condition number.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.theory.affinity import d2_A
from experiments.affpcl.theory.stack import FiniteStack
from experiments.benchmarks._timing import duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.linalg import inverse, lambda_min, operator_norm, precision, solve, stretch, transpose

__all__ = ["measure", "run"]

Array = NDArray[Any]
Fields = dict[str, Array]

SIZES = {"n": 4, "S": 5, "d": 3}
INSTANCES = 2_000
#: What a plain loop evaluates per call.
LOOPED = 100
MATRICES = 20_000


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread."""
    measured = Measured()
    with one_core():
        _claim(measured, budget=0.3 if quick else 4.0)
        _algebra(measured, budget=0.1 if quick else 1.0)
        _high_precision(measured, repeats=3 if quick else 20)
    return measured


def _systems() -> rc.Space:
    """The instances that Lemma D.2 is about."""
    lemma = rc.find_claims(["affpcl.d2_A"])[0].entry
    assert isinstance(lemma, rc.Claim)
    return lemma.space


def instances(count: int) -> Fields:
    """Systems as the audit draws them."""
    layout = _systems().layout(SIZES)
    return layout.decode(rc.random_coordinates(rc.key_of("benchmark"), 0, layout, count))


def ours(fields: Fields) -> tuple[Array, Array]:
    """Both sides of Lemma D.2, shapes (B, n)."""
    return d2_A(FiniteStack(**fields))


def batched(mu: Array, A: Array, Phi: Array, theta: Array, **_: Array) -> tuple[Array, Array]:
    """Both sides of Lemma D.2 with NumPy alone, on the whole batch, shapes (B, n)."""

    def mean(matrices: Array) -> Array:
        flat = matrices.reshape(*matrices.shape[:2], -1)
        return (mu @ flat).reshape(*mu.shape[:2], *matrices.shape[2:])

    A_bar, Phi_bar = mean(A), mean(Phi)
    b_bar = (Phi_bar @ theta[..., None])[..., 0]
    x = np.linalg.solve(A_bar, b_bar[..., None])[..., 0]
    b0 = b_bar.mean(axis=1)
    x_c = np.linalg.solve(A_bar.mean(axis=1), b0[..., None])[..., 0]
    theta_c = np.linalg.solve(Phi_bar.mean(axis=1), b0[..., None])[..., 0]
    values, right = np.linalg.svd(A)[1:]
    roots = transpose(right) * values[..., None, :] @ right
    mu0 = mu.mean(axis=1)
    G_A = (values[..., 0] * (mu0 > 0)).max(axis=1)
    lengths = [np.sqrt((v * v).sum(axis=-1)) for v in (x, x_c, theta, theta_c)]
    G_x = np.maximum(lengths[0].max(axis=1), lengths[1])
    G_b = np.maximum(lengths[2].max(axis=1), lengths[3])
    sigma = 2 * np.maximum(G_A * G_x, G_b)
    nu = np.linalg.svd(mean(roots) @ np.linalg.inv(A_bar), compute_uv=False)[..., 0].max(axis=1)
    gap = b_bar - b0[:, None]
    twice = 2 * G_b[:, None]
    objective = np.sqrt((gap * gap).sum(axis=-1)) / np.where(twice > 0, twice, 1)
    delta = np.maximum(np.abs(mu - mu0[:, None]).sum(axis=-1) / 2, objective)
    moved = np.einsum("bsij,bnj->bnsi", A, x - x_c[:, None])
    measured = (mu * (moved * moved).sum(axis=-1)).sum(axis=-1)
    return measured, 2 * sigma[:, None] ** 2 * np.minimum(1, nu[:, None] * delta)


def single(np: Any, mu: Any, A: Any, Phi: Any, theta: Any, *_: Any) -> tuple[Any, Any]:
    """Both sides of Lemma D.2 for one instance, in the namespace of NumPy or JAX."""
    A_bar, Phi_bar = np.tensordot(mu, A, axes=1), np.tensordot(mu, Phi, axes=1)
    b_bar = np.einsum("nij,nj->ni", Phi_bar, theta)
    x = np.linalg.solve(A_bar, b_bar[..., None])[..., 0]
    b0 = b_bar.mean(axis=0)
    x_c, theta_c = (np.linalg.solve(M.mean(axis=0), b0) for M in (A_bar, Phi_bar))
    _, values, right = np.linalg.svd(A)
    roots = np.swapaxes(right, -1, -2) * values[:, None, :] @ right
    mu0 = mu.mean(axis=0)
    G_A = np.where(mu0 > 0, values[:, 0], 0.0).max()
    G_x = np.maximum(np.linalg.norm(x, axis=-1).max(), np.linalg.norm(x_c))
    G_b = np.maximum(np.linalg.norm(theta, axis=-1).max(), np.linalg.norm(theta_c))
    sigma = 2 * np.maximum(G_A * G_x, G_b)
    D = np.tensordot(mu, roots, axes=1)
    nu = np.linalg.svd(D @ np.linalg.inv(A_bar), compute_uv=False)[:, 0].max()
    objective = np.linalg.norm(b_bar - b0, axis=-1) / np.where(G_b > 0, 2 * G_b, 1.0)
    delta = np.maximum(np.abs(mu - mu0).sum(axis=-1) / 2, objective)
    moved = np.einsum("sij,nj->nsi", A, x - x_c)
    measured = (mu * (moved * moved).sum(axis=-1)).sum(axis=-1)
    return measured, 2 * sigma**2 * np.minimum(1, nu * delta)


def looped(fields: Fields) -> tuple[Array, Array]:
    """One instance after the other, with NumPy."""
    sides = [single(np, *one) for one in zip(*fields.values(), strict=True)]
    return np.array([s[0] for s in sides]), np.array([s[1] for s in sides])


def with_jax(fields: Fields) -> Callable[[], tuple[Array, Array]]:
    """``jit(vmap(single))`` in float64, compiled, on arrays that are on the device already."""
    import jax
    import jax.numpy as jnp

    settings: Any = jax.config
    settings.update("jax_enable_x64", True)
    function = jax.jit(jax.vmap(lambda *one: single(jnp, *one)))
    arrays = [jnp.asarray(values) for values in fields.values()]

    def call() -> tuple[Array, Array]:
        measured, bound = function(*arrays)
        return np.asarray(measured), np.asarray(bound)

    call()
    return call


def _claim(measured: Measured, budget: float) -> None:
    """Lemma D.2 on a batch, per instance."""
    fields = instances(INSTANCES)
    few = {name: values[:LOOPED] for name, values in fields.items()}
    peers: dict[str, tuple[Callable[[], tuple[Array, Array]], int]] = {
        "NumPy on the batch": (lambda: batched(**fields), INSTANCES),
        "NumPy, one instance after the other": (lambda: looped(few), LOOPED),
    }
    if importlib.util.find_spec("jax") is None:
        print("JAX is left out: install the extra `bench` for it", file=sys.stderr)
    else:
        peers["JAX, jit(vmap)"] = (with_jax(fields), INSTANCES)
    truth = ours(fields)
    name = "Lemma D.2 on 2000 systems of 4 agents, 5 states, d=3, per instance"
    for peer, (call, count) in peers.items():
        agree = all(_close(a[:count], b, 1e-9) for a, b in zip(truth, call(), strict=True))
        _add(measured, name, peer, (lambda: ours(fields), INSTANCES), (call, count), agree, budget)
    best = {row.peer: row.peer_s for row in measured.rows}
    measured.details["instances per second"] = {
        "ours": 1 / min(row.ours_s for row in measured.rows),
        **{peer: 1 / time for peer, time in best.items()},
    }


def _algebra(measured: Measured, budget: float) -> None:
    """Stacks of 3x3 matrices, per matrix."""
    rng = np.random.default_rng(0)
    M, v = rng.standard_normal((MATRICES, 3, 3)), rng.standard_normal((MATRICES, 3))
    condition = float(np.linalg.cond(M).max())

    def numpy_stretch() -> Array:
        _, values, right = np.linalg.svd(M)
        return np.asarray(transpose(right) * values[:, None, :] @ right)

    pairs: dict[str, tuple[Callable[[], Array], Callable[[], Array], float]] = {
        "operator norm": (
            lambda: operator_norm(M),
            lambda: np.linalg.norm(M, ord=2, axis=(1, 2)),
            1,
        ),
        "smallest eigenvalue of the symmetric part": (
            lambda: lambda_min(M),
            lambda: np.linalg.eigvalsh((M + transpose(M)) / 2)[:, 0],
            1,
        ),
        "sqrt(M'M)": (lambda: stretch(M), numpy_stretch, 1),
        "inverse": (lambda: inverse(M), lambda: np.linalg.inv(M), condition),
        "solve": (
            lambda: solve(M, v),
            lambda: np.linalg.solve(M, v[..., None])[..., 0],
            condition,
        ),
    }
    for what, (mine, theirs, factor) in pairs.items():
        agree = _close(mine(), theirs(), 1e-12 * factor)
        name = f"{what} of {MATRICES} 3x3 matrices, per matrix"
        _add(measured, name, "np.linalg", (mine, MATRICES), (theirs, MATRICES), agree, budget)


def _high_precision(measured: Measured, repeats: int) -> None:
    """The time of a certificate: one instance from its numbers to both sides."""
    one, systems, spent = instances(1), _systems(), {}
    for digits in (40, 80):
        with precision(digits):
            times = [seconds(lambda: ours(systems.precise(one))) for _ in range(repeats)]
        spent[f"seconds with {digits} digits"] = min(times)
    measured.details["Lemma D.2 on one instance in high precision"] = spent


def _close(a: Array, b: Array, tolerance: float) -> bool:
    return bool(np.abs(a - b).max() <= tolerance * np.abs(b).max())


def _add(
    measured: Measured,
    name: str,
    peer: str,
    mine: tuple[Callable[[], Any], int],
    theirs: tuple[Callable[[], Any], int],
    correct: bool,
    budget: float,
) -> None:
    """Time two calls in turn, each with the number of items that it treats."""
    (call, items), (other, others) = mine, theirs
    call()
    times = duel(lambda: seconds(call), lambda: seconds(other) * items / others, budget)
    row = rc.BenchRow(name, peer, min(times.ours) / items, min(times.peer) / items, correct)
    measured.add(row, **times.summary(items))


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("audit", measure("--quick" in sys.argv))
