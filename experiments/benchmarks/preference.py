"""The shared maximum-likelihood estimator of preferences against quasi-Newton on both factors.

``ratecheck bench preference`` times; ``python -m experiments.benchmarks.preference`` also writes
the tables under ``results/``. N users with comparisons of Gaussian features; all maximise the same
log-likelihood of Delta_i = B W_i from the same spectral start, heads 0. The peers work on (B, W)
together, each the way its library is used:

* *scipy L-BFGS-B* with objective and gradient in NumPy, by ``einsum`` (as one writes the formula)
  or by batched matrix products;
* *torch LBFGS* with strong Wolfe line search and automatic differentiation.

A peer is stopped as soon as its log-likelihood is within 1e-8 of the maximum, relative; ours ends
by its own criterion, of which the default asks for more than that and ``tol=1e-4`` for about that.
"Same result" means: both have reached the maximum to 1e-8. A second task is the log-likelihood and
the gradient by all Delta_i alone; there it means equal to 1e-10. All run on one core, BLAS and
torch with one thread.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

import ratecheck as rc
from experiments.benchmarks._timing import Duel, duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.preference import Comparisons
from linsys.preference.estimators import fit_shared
from linsys.preference.likelihood import gradient, log_likelihood
from linsys.preference.profile import Profile

__all__ = ["Task", "measure", "run"]

Array = NDArray[np.float64]

#: The difference from the optimum, relative to the log-likelihood, below which a fit has converged.
NEAR = 1e-8
MOST_EVALUATIONS = 2000


class Size(NamedTuple):
    """N users, (d1, d2), rank k, n comparisons each."""

    N: int
    d1: int
    d2: int
    k: int
    n: int


QUICK, FULL = Size(128, 32, 3, 4, 100), Size(1024, 64, 3, 4, 100)


class Task:
    """Comparisons of users who share a factor, and every way to fit them."""

    def __init__(self, size: Size) -> None:
        self.size = size
        N, d1, d2, k, n = size
        rng = np.random.default_rng(0)
        B = np.linalg.qr(rng.standard_normal((d1, k)))[0]
        W = rng.standard_normal((N, k, d2)) / np.sqrt(k * d2)
        self.X = rng.standard_normal((N, n, d1, d2))
        chance = expit(np.einsum("njab,nab->nj", self.X, B @ W))
        self.o = (rng.random((N, n)) < chance).astype(np.float64)
        self.data = Comparisons.of_users(self.X, self.o)
        self.start = Profile(self.data, 0.0, np.inf, 1).spectral_start(k)
        self.best = fit_shared(self.data, k, tol=1e-12).loglik
        self.evaluations = 0

    def ours(self, **options: Any) -> float:
        """The log-likelihood that we reach, start included."""
        return fit_shared(self.data, self.size.k, **options).loglik

    def einsum(self, B: Array, W: Array) -> tuple[float, Array, Array]:
        """Log-likelihood and gradients by B (d1, k) and W (N, k, d2), as the formula reads."""
        value, G = self.einsum_by_delta(B @ W)
        return value, np.einsum("nab,nkb->ak", G, W), np.einsum("ak,nab->nkb", B, G)

    def einsum_by_delta(self, Delta: Array) -> tuple[float, Array]:
        """Log-likelihood and gradients by Delta (N, d1, d2)."""
        z = np.einsum("njab,nab->nj", self.X, Delta)
        G = np.einsum("nj,njab->nab", self.o - expit(z), self.X)
        return self._value(z), G

    def matmul(self, B: Array, W: Array) -> tuple[float, Array, Array]:
        """Log-likelihood and gradients by B and W, from ``np.matmul`` of stacks of matrices."""
        N, d1, d2, _, n = self.size
        flat = self.X.reshape(N, n, d1 * d2)
        z = (flat @ (B @ W).reshape(N, d1 * d2, 1))[..., 0]
        G = ((self.o - expit(z))[:, None] @ flat).reshape(N, d1, d2)
        return self._value(z), (G @ W.mT).sum(axis=0), B.T @ G

    def _value(self, z: Array) -> float:
        return float((self.o * z - np.logaddexp(0.0, z)).sum())

    def scipy(self, first_order: Callable[[Array, Array], tuple[float, Array, Array]]) -> float:
        """The log-likelihood that L-BFGS-B reaches."""
        N, d1, d2, k, _ = self.size
        climb = _Climb(self.best)

        def loss(x: Array) -> tuple[float, Array]:
            B, W = x[: d1 * k].reshape(d1, k), x[d1 * k :].reshape(N, k, d2)
            value, by_B, by_W = first_order(B, W)
            climb.at(value)
            return -value, -np.concatenate([by_B.ravel(), by_W.ravel()])

        x = np.concatenate([self.start.ravel(), np.zeros(N * k * d2)])
        limits = {"ftol": 0.0, "gtol": 0.0, "maxfun": MOST_EVALUATIONS, "maxiter": MOST_EVALUATIONS}
        with suppress(_Climb.Reached):
            minimize(loss, x, jac=True, method="L-BFGS-B", options=limits)
        self.evaluations = climb.evaluations
        return climb.best

    def torch(self) -> float:
        """The log-likelihood that torch's LBFGS reaches."""
        import torch

        torch.set_num_threads(1)
        N, _, d2, k, _ = self.size
        X, o = torch.from_numpy(self.X), torch.from_numpy(self.o)
        B = torch.tensor(self.start, requires_grad=True)
        W = torch.zeros((N, k, d2), dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [B, W], history_size=10, line_search_fn="strong_wolfe",
            max_iter=MOST_EVALUATIONS, max_eval=MOST_EVALUATIONS,
            tolerance_grad=0.0, tolerance_change=0.0,
        )  # fmt: skip
        climb = _Climb(self.best)

        def closure() -> Any:
            optimiser.zero_grad()
            z = torch.einsum("njab,nab->nj", X, B @ W)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(z, o, reduction="sum")
            climb.at(-loss.item())
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with suppress(_Climb.Reached):
            optimiser.step(closure)  # type: ignore[no-untyped-call]
        self.evaluations = climb.evaluations
        return climb.best


class _Climb:
    """How a peer approaches the maximum; ends it there."""

    class Reached(Exception):
        """As near as it has to come."""

    def __init__(self, maximum: float) -> None:
        self.maximum, self.best, self.evaluations = maximum, -np.inf, 0

    def at(self, value: float) -> None:
        self.evaluations += 1
        self.best = max(self.best, value)
        if near(self.best, self.maximum):
            raise self.Reached


def near(value: float, maximum: float) -> bool:
    """Whether a log-likelihood is at the maximum, up to ``NEAR``."""
    return value >= maximum - NEAR * abs(maximum)


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes 128 users in the place of 1024."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and how often the peers evaluated the likelihood."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    measured = Measured()
    with one_core(), threadpool_limits(1):
        task = Task(QUICK if quick else FULL)
        _fits(measured, task, pairs=5 if quick else 3)
        _gradients(measured, task, budget=0.5 if quick else 3.0)
    return measured


def _fits(measured: Measured, task: Task, pairs: int) -> None:
    peers: dict[str, Callable[[], float]] = {
        "scipy L-BFGS-B, einsum": partial(task.scipy, task.einsum),
        "scipy L-BFGS-B, matmul": partial(task.scipy, task.matmul),
    }
    if importlib.util.find_spec("torch") is None:
        print("torch is left out: install it for its rows", file=sys.stderr)
    else:
        peers["torch LBFGS"] = task.torch
    for condition, options in {"to 1e-8": {"tol": 1e-4}, "by default": {}}.items():
        ours = partial(task.ours, **options)
        reached = ours()
        for peer, call in peers.items():
            if condition == "by default" and peer != "scipy L-BFGS-B, einsum":
                continue  # one peer is enough to show what the last digits cost
            times, correct = Duel([], []), near(reached, task.best)
            for _ in range(pairs):
                times.ours.append(seconds(ours))
                theirs: list[float] = []
                times.peer.append(seconds(partial(_append, theirs, call)))
                correct &= near(theirs[0], task.best)
            _add(
                measured, f"fit_shared {condition}: {_format_size(task.size)}", peer, times, correct
            )
            measured.details.setdefault("evaluations", {})[peer] = task.evaluations


def _append(results: list[float], call: Callable[[], float]) -> None:
    results.append(call())


def _gradients(measured: Measured, task: Task, budget: float) -> None:
    N, d1, d2, _, _ = task.size
    Delta = np.random.default_rng(1).standard_normal((N, d1, d2)) / np.sqrt(d1 * d2)
    value, G = task.einsum_by_delta(Delta)
    ours = gradient(task.data, Delta)
    correct = np.abs(ours - G).max() <= 1e-10 * np.abs(G).max() and np.isclose(
        log_likelihood(task.data, Delta).sum(), value, rtol=1e-10, atol=0.0
    )
    times = duel(
        lambda: seconds(partial(gradient, task.data, Delta)),
        lambda: seconds(partial(task.einsum_by_delta, Delta)),
        budget,
    )
    name = f"log-likelihood and gradient: {_format_size(task.size)}"
    _add(measured, name, "NumPy einsum", times, bool(correct))


def _format_size(size: Size) -> str:
    return f"N={size.N}, {size.d1} x {size.d2}, k={size.k}, {size.n} comparisons each"


def _add(measured: Measured, name: str, peer: str, times: Duel, correct: bool) -> None:
    row = rc.BenchRow(name, peer, min(times.ours), min(times.peer), correct)
    measured.add(row, **times.summary(1))


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("preference", measure("--quick" in sys.argv))
