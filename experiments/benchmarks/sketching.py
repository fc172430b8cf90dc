"""FSLoRA: a round of devices, and FlexLoRA's best approximation, against their dense definitions.

``ratecheck bench sketching`` times; ``python -m experiments.benchmarks.sketching`` also writes the
tables under ``results/``. Twenty devices with the paper's ratios k / r take five local steps each
on matrices of 1024 x 1024. The peers do the same round in NumPy and torch:

* *mask and multiply*, as the text has it: W = W0 + (B mask) A in full, the gradient G of W in full,
  then G A' and B' G, masked. "Five times faster" is about these;
* *masked low rank*: the outputs of W0 are known before and no matrix of its size is formed, but all
  r components are multiplied, and masked;
* *k rows*: the components of the sketch alone, as ours does, one gradient after the other in new
  arrays (NumPy), or added in place by ``addmm_`` (torch).

Ours draws its sketches and batches anew in every round; those of the peers were drawn before. Ours
and a peer run in turn on one core, BLAS and torch with one thread. "Same result" means: to 1e-10 of
the largest change in a round, to 1e-8 of the largest singular value for an approximation.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core, peak_bytes, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.sketching import FSLoRA, LeastSquares
from linsys.sketching.low_rank import stack, truncate

__all__ = ["Round", "measure", "run"]

Array = NDArray[np.float64]

RATIOS = (0.125, 0.25, 0.5, 0.75)
#: A step size at which five steps stay bounded at the scale r / k = 8.
GAMMA, H, BATCH = 1e-4, 5, 16
#: Ranks of FlexLoRA's devices, 72 in all, and what their mean is cut back to.
STACKED, KEPT = (8, 16, 24, 24), 24


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes four devices, smaller matrices and fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, the memory of a device's work, and the arithmetic of a round."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    measured = Measured()
    devices, size, budget = (4, 512, 0.2) if quick else (20, 1024, 2.0)
    with one_core(), threadpool_limits(1):
        task = Round(devices, r=64, size=size)
        _rounds(measured, task, budget)
        _approximation(measured, size, budget)
    measured.details["bytes of a device's local work at its peak, r=64"] = _memory(r=64, size=size)
    measured.details["multiplications in the matrix products of a round"] = _products(task)
    return measured


class Device(NamedTuple):
    """What a peer is given of a device, as arrays of NumPy or torch."""

    mask: Any  # (r,): r / k in the sketch, 0 outside
    rows: Any  # (k,)
    scale: float  # r / k
    steps: Any  # an index array of samples for every local step
    x: Any  # (s, n)
    y: Any  # (s, m)
    frozen: Any  # W0 x, (s, m)


#: Components and their changes in B (m, .) and A (., n), from W0, B, A and a device.
Body = Callable[[Any, Any, Any, Device], tuple[Any, Any, Any]]


class Round:
    """The first round of FSLoRA on random matrices, and its peers."""

    def __init__(self, devices: int, r: int, size: int) -> None:
        rng = np.random.default_rng(0)
        self.size, self.ranks = size, [int(r * RATIOS[i % len(RATIOS)]) for i in range(devices)]
        x, y = rng.standard_normal((2, devices, 4 * BATCH, size))
        W0 = rng.standard_normal((size, size)) / np.sqrt(size)
        self.system = LeastSquares(W0, tuple(x), tuple(y), batch=BATCH)
        self.algorithm = FSLoRA(gamma=GAMMA, H=H, ranks=self.ranks)
        self.X = rng.standard_normal((r, 2 * size)) / np.sqrt(size)
        self.state = self.algorithm.init(self.X, self.system)

    def ours(self) -> Array:
        """The next modules X."""
        return np.asarray(self.algorithm.round(self.state, self.system)[0].X)

    def plain(self) -> Array:
        """The next modules X, by the body that any oracle gets, from gradients alone."""
        oracle: Any = _Gradients(self.system)
        return np.asarray(self.algorithm.round(self.state, oracle)[0].X)

    def device(self, i: int, to: Callable[[Any], Any]) -> Device:
        """Device i, its arrays made by ``to``."""
        rows, scale = self.algorithm.rows(i, 0, len(self.X)), len(self.X) / self.ranks[i]
        mask = np.zeros(len(self.X))
        mask[rows] = scale
        steps = [to(self.system.draw(i, 0, h)) for h in range(H)]
        x, y = self.system.inputs[i], self.system.targets[i]
        samples = [to(np.array(part)) for part in (x, y, x @ self.system.W0.T)]
        return Device(to(mask), to(rows), scale, steps, *samples)

    def peer(self, body: Body, to: Callable[[Any], Any]) -> Callable[[], Array]:
        """A round of FSLoRA with another body, on the arrays that ``to`` makes."""
        devices = [self.device(i, to) for i in range(len(self.ranks))]
        W0, B, A = (
            to(np.array(part, order="C"))
            for part in (self.system.W0, self.X[:, : self.size].T, self.X[:, self.size :])
        )

        def call() -> Array:
            B_total, A_total = 0 * B, 0 * A
            for device in devices:
                rows, B_change, A_change = body(W0, B, A, device)
                B_total[:, rows] += B_change
                A_total[rows] += A_change
            B_next, A_next = B + B_total / len(devices), A + A_total / len(devices)
            return np.concatenate([np.asarray(B_next).T, np.asarray(A_next)], axis=1)

        return call


class _Gradients:
    """A system without its local steps in place."""

    def __init__(self, system: LeastSquares) -> None:
        self.modules, self.devices, self.grad = system.modules, system.devices, system.grad


def dense_body(W0: Any, B0: Any, A0: Any, device: Device) -> tuple[Any, Any, Any]:
    """Mask and multiply, all matrices in full."""
    B, A = B0, A0
    for batch in device.steps:
        x = device.x[batch]
        residual = x @ (W0 + (B * device.mask) @ A).T - device.y[batch]
        G = residual.T @ x / len(x)
        B_step, A_step = (G @ A.T) * device.mask, device.mask[:, None] * (B.T @ G)
        B, A = B - GAMMA * B_step, A - GAMMA * A_step
    return slice(None), B - B0, A - A0


def masked_body(W0: Any, B0: Any, A0: Any, device: Device) -> tuple[Any, Any, Any]:
    """All r components of products as thin as the batch, those out of the sketch masked."""
    B, A = 1 * B0, 1 * A0
    for batch in device.steps:
        x = device.x[batch]
        hidden = (x @ A.T) * device.mask
        residual = device.frozen[batch] + hidden @ B.T - device.y[batch]
        back = (residual @ B) * (device.mask * (GAMMA / len(x)))
        B -= residual.T @ (hidden * (GAMMA / len(x)))
        A -= back.T @ x
    return slice(None), B - B0, A - A0


def torch_rows_body(W0: Any, B0: Any, A0: Any, device: Device) -> tuple[Any, Any, Any]:
    """The components of the sketch alone, changed in place by torch."""
    B_start, A_start = B0[:, device.rows], A0[device.rows]
    B, A = B_start.clone(), A_start.clone()
    for batch in device.steps:
        x = device.x[batch]
        hidden = x @ A.T
        residual = (device.frozen[batch] - device.y[batch]).addmm_(hidden, B.T, alpha=device.scale)
        back, step = residual @ B, -GAMMA * device.scale / len(x)
        B.addmm_(residual.T, hidden, alpha=step)
        A.addmm_(back.T, x, alpha=step)
    return device.rows, B - B_start, A - A_start


def _rounds(measured: Measured, task: Round, budget: float) -> None:
    """Our round against every peer."""
    peers: dict[str, Callable[[], Array]] = {
        "NumPy, mask and multiply": task.peer(dense_body, np.asarray),
        "NumPy, masked low rank": task.peer(masked_body, np.asarray),
        "NumPy, k rows": task.plain,
    }
    if importlib.util.find_spec("torch") is None:
        print("torch is left out: install it for its rows", file=sys.stderr)
    else:
        import torch

        torch.set_num_threads(1)
        peers |= {
            "torch, mask and multiply": task.peer(dense_body, torch.from_numpy),
            "torch, masked low rank": task.peer(masked_body, torch.from_numpy),
            "torch, k rows": task.peer(torch_rows_body, torch.from_numpy),
        }
    change = task.ours() - task.X
    name = f"FSLoRA: a round of {len(task.ranks)} devices, r={len(task.X)}, m=n={task.size}"
    for peer, call in peers.items():
        agree = bool(np.abs(call() - task.X - change).max() <= 1e-10 * np.abs(change).max())
        _add(measured, name, peer, task.ours, call, agree, budget)


def _approximation(measured: Measured, size: int, budget: float) -> None:
    """FlexLoRA's server, without and with the product."""
    rng = np.random.default_rng(1)
    pairs = [(rng.standard_normal((size, k)), rng.standard_normal((k, size))) for k in STACKED]
    share = [1 / len(pairs)] * len(pairs)

    def ours() -> tuple[Array, Array]:
        return truncate(stack(pairs, share), KEPT)

    def mean() -> Array:
        return np.asarray(sum(weight * B @ A for weight, (B, A) in zip(share, pairs, strict=True)))

    def full() -> Array:
        U, s, Vt = np.linalg.svd(mean(), full_matrices=False)
        return np.asarray((U[:, :KEPT] * s[:KEPT]) @ Vt[:KEPT])

    def partial() -> Array:
        U, s, Vt = svds(mean(), k=KEPT, rng=np.random.default_rng(2))
        return np.asarray((U * s) @ Vt)

    B, A = ours()
    largest = np.linalg.norm(B @ A, 2)
    name = f"FlexLoRA: best rank {KEPT} of a stack of rank {sum(STACKED)}, {size} x {size}"
    for peer, call in {"np.linalg.svd": full, "scipy.sparse.linalg.svds": partial}.items():
        agree = bool(np.abs(B @ A - call()).max() <= 1e-8 * largest)
        _add(measured, name, peer, ours, call, agree, budget)


def _memory(r: int, size: int) -> dict[str, int]:
    """Arrays that a device of rank k allocates, as NumPy reports them."""
    task, peaks = Round(len(RATIOS), r, size), {}
    for i, k in enumerate(task.ranks):
        peaks[f"ours, k={k}"] = peak_bytes(partial(_trained, task, i))
    B, A = np.ascontiguousarray(task.X[:, :size].T), np.ascontiguousarray(task.X[:, size:])
    device = task.device(0, np.asarray)
    for name, body in {"masked low rank": masked_body, "mask and multiply": dense_body}.items():
        peaks[f"{name}, any k"] = peak_bytes(partial(body, task.system.W0, B, A, device))
    return peaks


def _trained(task: Round, device: int) -> None:
    """The local steps of a device, in place: it asks for no gradient."""
    assert not list(task.algorithm._device(task.state, device, task.system))


def _products(task: Round) -> dict[str, float]:
    """A product of (a, b) and (b, c) has a b c."""
    r, size, count = len(task.X), task.size, H * len(task.ranks)
    return {
        "k rows": 5.0 * BATCH * size * H * sum(task.ranks),
        "masked low rank": 5.0 * BATCH * size * r * count,
        "mask and multiply": (3.0 * r + 2.0 * BATCH) * size * size * count,
    }


def _add(
    measured: Measured,
    name: str,
    peer: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    correct: bool,
    budget: float,
) -> None:
    ours()
    times = duel(lambda: seconds(ours), lambda: seconds(theirs), budget)
    row = rc.BenchRow(name, peer, min(times.ours), min(times.peer), correct)
    measured.add(row, **times.summary(1))


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("sketching", measure("--quick" in sys.argv))
