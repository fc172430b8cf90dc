"""Simplex programs: the solver of ``mgda`` against other solvers, per program.

``ratecheck bench mgda`` times; ``python -m experiments.benchmarks.mgda`` also writes the tables
under ``results/``. Ours solves a batch per call, with its checks and certificates; a peer solves as
many programs of it as take it some milliseconds, one after the other as its interface wants it, on
inputs that were prepared before. Both run in turn on one core.

Every answer is judged by the same certificate, the relative violation of the optimality conditions.
"Correct" means: all of ours are at most 1e-12, and both objectives differ by no more than the two
certificates allow. The peers need positive definite matrices: MGDA is timed on more numbers per
gradient than gradients, FIRM's regularised program on gradients of low rank.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.benchmarks._hard_programs import worst_residuals
from experiments.benchmarks._timing import duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured
from mgda.simplex import SimplexSolution, gram, kkt_residual, simplex_qp

__all__ = ["measure", "run"]

Array = NDArray[np.float64]
#: A call solves the programs for which it was built and returns their weights.
Call = Callable[[], Array]

SIZES = (2, 3, 8, 10, 32)
LARGER = (33, 64, 128, 256, 500)
BETA = 0.1
#: The size of a batch of the largest programs, except against quadprog, and of all batches when
#: quick.
FEWER = 5_000


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes fewer programs and repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the certificates of hard programs."""
    measured = Measured()
    batch, budget = (FEWER, 0.1) if quick else (100_000, 1.0)
    with one_core():
        for M in SIZES:
            generic, rank = programs(batch, M, d=2 * M), max(1, M // 2)
            for peer in PEERS:
                # a batch may take seconds, so that it is run once
                part = generic if peer is QUADPROG or max(SIZES) > M else generic[:FEWER]
                _compare(measured, f"MGDA, M={M}", peer, part, 0.0, budget)
            del generic
            name = f"FIRM, rank {rank}, M={M}"
            _compare(measured, name, QUADPROG, programs(batch, M, rank), BETA, budget)
        _many_objectives(measured, repeats=1 if quick else 3)
    measured.details["bytes that a batch takes besides its result"] = {
        f"{count} programs, M=8": _extra_bytes(count) for count in (1_000, batch)
    }
    count, worst = worst_residuals(20_000 if quick else 1_000_000)
    title = f"largest relative residual in {count} programs, by family"
    measured.details[title] = {**worst, "all": max(worst.values())}
    return measured


def programs(count: int, M: int, d: int) -> Array:
    """Gram matrices of standard normal gradients, drawn and multiplied piece by piece."""
    rng = np.random.default_rng(M)
    G, step = np.empty((count, M, M)), 2_000
    for start in range(0, count, step):
        G[start : start + step] = gram(rng.standard_normal((len(G[start : start + step]), d, M)))
    return G


def with_quadprog(quadprog: Any, Q: Array) -> Call:
    """Goldfarb and Idnani's dual active-set method, compiled."""
    M = Q.shape[-1]
    constraints, right = np.c_[np.ones(M), np.eye(M)], np.r_[1.0, np.zeros(M)]
    doubled, zero = 2 * Q, np.zeros(M)

    def call() -> Array:
        return np.array([quadprog.solve_qp(P, zero, constraints, right, 1)[0] for P in doubled])

    return call


def with_cvxpy(cvxpy: Any, Q: Array) -> Call:
    """Built once with the Cholesky factor as its parameter, which is not timed."""
    M = Q.shape[-1]
    weights, factor = cvxpy.Variable(M, nonneg=True), cvxpy.Parameter((M, M))
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(factor @ weights)), [cvxpy.sum(weights) == 1]
    )
    factors = np.swapaxes(np.linalg.cholesky(Q), 1, 2)

    def solve(value: Array) -> Any:
        factor.value = value
        problem.solve(solver=cvxpy.CLARABEL)
        return weights.value

    return lambda: np.array([solve(value) for value in factors])


def with_cvxpy_anew(cvxpy: Any, Q: Array) -> Call:
    """Solve every program after building and compiling it anew."""

    def solve(P: Array) -> Any:
        weights = cvxpy.Variable(len(P), nonneg=True)
        objective = cvxpy.quad_form(weights, cvxpy.psd_wrap(P))
        problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.sum(weights) == 1])
        problem.solve(solver=cvxpy.CLARABEL)
        return weights.value

    return lambda: np.array([solve(P) for P in Q])


def with_clarabel(clarabel: Any, Q: Array) -> Call:
    """Clarabel's own interface, without what cvxpy does before and after."""
    from scipy import sparse

    M = Q.shape[-1]
    A = sparse.csc_matrix(np.concatenate([np.ones((1, M)), -np.eye(M)]))
    right, zero = np.r_[1.0, np.zeros(M)], np.zeros(M)
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(M)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    upper = [sparse.csc_matrix(np.triu(2 * P)) for P in Q]

    def solve(P: Any) -> Any:
        return clarabel.DefaultSolver(P, zero, A, right, cones, settings).solve().x

    return lambda: np.array([solve(P) for P in upper])


def with_torchjd(aggregation: Any, Q: Array) -> Call:
    """Frank and Wolfe's method, at most 100 steps, as ``torchjd.aggregation.MGDA`` does it."""
    import torch

    torch.set_num_threads(1)
    weighting, matrices = aggregation.MGDAWeighting(), list(torch.tensor(Q))

    def call() -> Array:
        with torch.no_grad():
            return np.array([weighting(G).numpy() for G in matrices])

    return call


@dataclass(frozen=True)
class Peer:
    """A peer's package, the ways of calling it, and how many programs take some milliseconds."""

    name: str
    module: str
    ways: dict[str, Callable[[Any, Array], Call]]
    count: int

    @property
    def package(self) -> str:
        """The package of the peer, which is installed and has a version."""
        return self.module.partition(".")[0]


QUADPROG = Peer("quadprog", "quadprog", {"": with_quadprog}, 1_000)
PEERS = (
    QUADPROG,
    Peer("cvxpy", "cvxpy", {", built once": with_cvxpy, ", built anew": with_cvxpy_anew}, 20),
    Peer("Clarabel without cvxpy", "clarabel", {"": with_clarabel}, 100),
    Peer("TorchJD", "torchjd.aggregation", {"": with_torchjd}, 10),
)


def _compare(
    measured: Measured, name: str, peer: Peer, G: Array, beta: float, budget: float
) -> None:
    """Time a batch against a peer, which is called in the fastest of its ways."""
    if importlib.util.find_spec(peer.package) is None:
        print(f"{peer.name} is left out: install the extra `bench` for it", file=sys.stderr)
        return
    M = G.shape[-1]
    Q = G[: peer.count] + beta / 2 * np.eye(M)
    module = importlib.import_module(peer.module)
    calls = {way: build(module, Q) for way, build in peer.ways.items()}
    answers = {way: call() for way, call in calls.items()}
    way = min(calls, key=lambda w: seconds(calls[w]))
    ours = simplex_qp(G, beta=beta)
    theirs = kkt_residual(Q, answers[way])
    times = duel(
        lambda: seconds(lambda: simplex_qp(G, beta=beta)) / len(G),
        lambda: seconds(calls[way]) / len(Q),
        budget,
    )
    version = importlib.metadata.version(peer.package)
    label = f"{peer.name} {version}{way}; residuals up to {theirs.max():.0e}"
    name = f"{name}, {len(G)} programs, per program"
    row = rc.BenchRow(name, label, min(times.ours), min(times.peer), _agree(ours, Q, answers[way]))
    measured.add(
        row,
        **times.summary(1),
        our_worst_residual=float(ours.residual.max()),
        peer_worst_residual=float(theirs.max()),
    )


def _agree(ours: SimplexSolution, Q: Array, theirs: Array) -> bool:
    """Whether ours are certified optimal and objectives differ by no more than certificates allow.

    By convexity an answer with residual r exceeds the optimum by at most 2 r max |Q|; one that is
    not quite on the simplex, lambda_j >= -r, may fall below it by 2 (M + 1) r max |Q|.
    """
    count, M = theirs.shape
    value = np.einsum("bi,bij,bj->b", theirs, Q, theirs)
    residual = kkt_residual(Q, theirs) + ours.residual[:count]
    rounding = M * float(np.finfo(np.float64).eps)
    allowed = (2 * (M + 1) * residual + rounding) * Q.max(axis=(1, 2))
    return bool(ours.optimal.all() and (np.abs(value - ours.objective[:count]) <= allowed).all())


def _many_objectives(measured: Measured, repeats: int) -> None:
    """More objectives than FIRM has use for, one program at a time."""
    spent, worst = {}, {}
    for M in LARGER:
        rng = np.random.default_rng(M)
        A = rng.standard_normal((M, M))
        kinds = (A, A[: M // 4], A * 10.0 ** rng.uniform(-8, 8, size=M), 1 + 1e-6 * A)
        answers, times = [], []
        for G in [gram(kind) for kind in kinds]:
            answers.append(simplex_qp(G))
            times.append(min(seconds(partial(simplex_qp, G)) for _ in range(repeats)))
        worst[f"M={M}"] = max(float(answer.residual) for answer in answers)
        spent[f"seconds, M={M}"] = max(times)
    measured.details["larger programs, the slowest and the least precise of four kinds"] = {
        **spent,
        **{f"residual, {key}": value for key, value in worst.items()},
    }


def _extra_bytes(count: int) -> int:
    """Memory that a batch takes beyond its matrices and its result, at its peak."""
    G = programs(count, 8, 16)
    tracemalloc.start()
    try:
        solution = simplex_qp(G, beta=BETA)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    result = (solution.weights, solution.objective, solution.residual, solution.optimal)
    return peak - sum(values.nbytes for values in result)


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("mgda", measure("--quick" in sys.argv))
