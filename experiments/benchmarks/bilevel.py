"""OOD-PL: the derivative through D inner steps, against automatic differentiation.

``ratecheck bench bilevel`` times; ``python -m experiments.benchmarks.bilevel`` also writes the
tables under ``results/``. What is timed is an inner loop from theta_0 and the derivative of the
preference loss by phi through it, on single samples (Algorithm 1) or with exact steps. Ours is
:mod:`linsys.bilevel.kernels` and draws its samples anew; the peers get the same samples, prepared:

* *torch, nested*: every step by ``torch.autograd.grad(..., create_graph=True)``, as textbooks have
  it, and one backward pass through the graph of graphs;
* *torch, explicit steps*: steps by their formula, so that there is one graph of D steps;
* *JAX, scan*: the same formula in ``jax.lax.scan``, differentiated and compiled, without the time
  that compiling takes;
* *NumPy, adjoint* and *NumPy, forward*: :mod:`linsys.bilevel.hypergradient`, one step after the
  other.

All run in turn on one core with one thread. "Same result" means: to 1e-10 of the largest entry.

*Memory.* What is kept between the two passes: the path, (D + 1) x p numbers, against torch's graph,
as the C library counts it (glibc alone) and as the tensors that torch saves, without the nodes that
hold them. Where p exceeds Y, steps on one sample save less than the path in torch, which can
keep the Y probabilities of a step because it sees through the formula; an oracle shows theta only.
Beside it stand the peaks that NumPy reports to tracemalloc for the whole derivative.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core, peak_bytes, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.bilevel import (
    DomainOracle,
    Path,
    adjoint,
    descend,
    kernels,
    meta_distribution,
    unrolled,
)

__all__ = ["Task", "measure", "run", "saved_by_torch"]

Array = NDArray[np.float64]

#: The numbers of prompts, of answers, and of parameters of policy and reward.
SIZES = {"p=32": (20, 16, 32), "p=2048": (8, 16, 2048)}
#: Steps of the inner loop that are timed; and those over which the growth of memory is shown.
STEPS = (50, 200)
GROWTH = (25, 50, 100, 200, 400)


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes the smaller domain and fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the memory that the derivative takes as D grows."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    measured = Measured()
    with one_core(), threadpool_limits(1):
        for size in list(SIZES)[: 1 if quick else None]:
            for D in STEPS:
                _compare(measured, Task(size, D, batch=1), budget=0.1 if quick else 1.0)
        _compare(measured, Task("p=32", STEPS[-1], batch=None), budget=0.1 if quick else 1.0)
        for size in list(SIZES)[: 1 if quick else None]:
            for batch in (1, None) if size == "p=32" else (1,):
                _memory(measured, size, batch)
    return measured


@dataclass(frozen=True)
class Task:
    """One inner loop of D steps on a random domain, and the derivative through it.

    batch: samples of a step; exact steps with None.
    """

    size: str
    D: int
    batch: int | None

    @property
    def name(self) -> str:
        """The name of the task's row."""
        return f"derivative through D={self.D} {self.setting}"

    @property
    def setting(self) -> str:
        """The task's steps and sizes, in words."""
        X, Y, _ = SIZES[self.size]
        steps = "exact steps" if self.batch is None else "steps on one sample"
        return f"{steps}, X={X}, Y={Y}, p=q{self.size[1:]}"

    def oracle(self) -> DomainOracle:
        """The domain, the same for all D."""
        X, Y, p = SIZES[self.size]
        [domain] = meta_distribution(0, train=1, prompts=X, answers=Y, p=p, q=p, held_out=0).train
        return DomainOracle(domain=domain, beta=4.0, inner_batch=self.batch)

    def start(self) -> tuple[Array, Array]:
        """phi of length 1 / 2 and theta_0 of length one."""
        p = SIZES[self.size][2]
        rng = np.random.default_rng(1)
        phi, theta = rng.standard_normal((2, p)) / np.sqrt(p)
        return phi / 2.0, theta

    def ours(self) -> Callable[[], Array]:
        """The derivative by the compiled bodies; samples are drawn in every call."""
        oracle, (phi, theta) = self.oracle(), self.start()
        options: dict[str, Any] = {"alpha": step_size(oracle, phi), "D": self.D}

        def call() -> Array:
            path = kernels.descend(oracle, phi, theta, **options)
            return kernels.adjoint(oracle, phi, path)

        return call

    def numpy(self, way: Callable[[Any, Any, Path], Any]) -> Callable[[], Array]:
        """The derivative by the reference, step by step, on samples drawn before."""
        oracle, (phi, theta) = self.oracle(), self.start()
        drawn = _Drawn(oracle, self.D)
        alpha = step_size(oracle, phi)

        def call() -> Array:
            path = descend(drawn, phi, theta, alpha=alpha, D=self.D)  # type: ignore[arg-type]
            return np.asarray(way(drawn, phi, path))

        return call

    def torch(self, nested: bool) -> Callable[[], Array]:
        """The derivative by automatic differentiation in torch."""
        loss, phi = self.torch_loss(nested)

        def call() -> Array:
            import torch

            return np.asarray(torch.autograd.grad(loss(), phi)[0])

        return call

    def torch_loss(self, nested: bool) -> tuple[Callable[[], Any], Any]:
        """The preference loss after D steps as a function that builds the graph, and phi."""
        import torch

        oracle, (phi_0, theta_0) = self.oracle(), self.start()
        domain, alpha, samples = oracle.domain, step_size(oracle, phi_0), _Drawn(oracle, self.D)
        psi, log_h, xi, law, weights = (
            torch.tensor(table)
            for table in (
                domain.policy.psi,
                domain.policy.log_h,
                domain.reward.xi,
                domain.law,
                domain.pairs.weights,
            )
        )
        x, y, other = (torch.tensor(part) for part in domain.pairs[:3])
        phi, start = torch.tensor(phi_0, requires_grad=True), torch.tensor(theta_0)
        steps = [samples.draw_inner(0, t) for t in range(self.D)]

        def step_loss(theta: Any, E: Any, z: Any) -> Any:
            if z is None:
                return -(law * E * torch.log_softmax(log_h + psi @ theta, dim=-1)).sum()
            (a,), (b,) = z
            return -E[a, b] * torch.log_softmax(log_h[a] + psi[a] @ theta, dim=-1)[b]

        def explicit(theta: Any, E: Any, z: Any) -> Any:
            if z is None:
                W = law * E
                pi = torch.softmax(log_h + psi @ theta, dim=-1)
                return torch.einsum("xy,xyp->p", W.sum(-1, keepdim=True) * pi - W, psi)
            (a,), (b,) = z
            pi = torch.softmax(log_h[a] + psi[a] @ theta, dim=-1)
            return E[a, b] * (pi @ psi[a] - psi[a, b])

        def by_graph(theta: Any, E: Any, z: Any) -> Any:
            loss = step_loss(theta, E, z)
            return torch.autograd.grad(loss, theta, create_graph=True)[0]

        gradient = by_graph if nested else explicit

        def total() -> Any:
            E, theta = torch.exp(xi @ phi / oracle.beta), start.clone().requires_grad_(nested)
            for z in steps:
                theta = theta - alpha * gradient(theta, E, z)
            logits = log_h + psi @ theta
            margin = logits[x, y] - logits[x, other]
            return -(weights * torch.nn.functional.logsigmoid(margin)).sum()

        return total, phi

    def jax(self) -> Callable[[], Array]:
        """The derivative by automatic differentiation in JAX, compiled."""
        import jax
        import jax.numpy as jnp

        settings: Any = jax.config
        settings.update("jax_enable_x64", True)
        oracle, (phi_0, theta_0) = self.oracle(), self.start()
        domain, alpha, samples = oracle.domain, step_size(oracle, phi_0), _Drawn(oracle, self.D)
        psi, log_h, xi = (
            jnp.asarray(t) for t in (domain.policy.psi, domain.policy.log_h, domain.reward.xi)
        )
        law, (x, y, other, weights) = jnp.asarray(domain.law), domain.pairs
        drawn = [samples.draw_inner(0, t) for t in range(self.D)]
        z = None if drawn[0] is None else jnp.asarray(np.stack(drawn)[:, :, 0])

        def derivative(phi: Any, theta: Any) -> Any:
            def total(phi: Any) -> Any:
                E = jnp.exp(xi @ phi / oracle.beta)

                def step(theta: Any, z: Any) -> tuple[Any, None]:
                    if z is None:
                        W = law * E
                        pi = jax.nn.softmax(log_h + psi @ theta)
                        change = jnp.einsum("xy,xyp->p", W.sum(-1, keepdims=True) * pi - W, psi)
                    else:
                        a, b = z
                        pi = jax.nn.softmax(log_h[a] + psi[a] @ theta)
                        change = E[a, b] * (pi @ psi[a] - psi[a, b])
                    return theta - alpha * change, None

                end, _ = jax.lax.scan(step, theta, z, length=self.D)
                logits = log_h + psi @ end
                return -(weights * jax.nn.log_sigmoid(logits[x, y] - logits[x, other])).sum()

            return jax.grad(total)(phi)

        compiled = jax.jit(derivative)
        phi, theta = jnp.asarray(phi_0), jnp.asarray(theta_0)
        return lambda: np.asarray(compiled(phi, theta))


class _Drawn:
    """An oracle whose samples were drawn before."""

    def __init__(self, oracle: DomainOracle, D: int) -> None:
        self._samples = [oracle.draw_inner(0, t) for t in range(D)]
        self.outer_grads, self.inner_loss = oracle.outer_grads, oracle.inner_loss
        self.inner_grad, self.inner_hvp = oracle.inner_grad, oracle.inner_hvp
        self.mixed_vjp, self.stable_step = oracle.mixed_vjp, oracle.stable_step

    def draw_inner(self, k: int, t: int) -> Any:
        return self._samples[t]


def step_size(oracle: DomainOracle, phi: Array) -> float:
    """Half of the step that is surely stable, for exact steps; a twentieth for one sample."""
    return oracle.stable_step(phi) * (0.5 if oracle.inner_batch is None else 0.05)


def heap() -> int:
    """Bytes that the C library has handed out; 0 where it is not glibc and does not tell."""
    allocations = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if allocations is None:
        return 0
    allocations.restype = _Mallinfo
    info = allocations()
    return int(info.hblkhd + info.uordblks)


class _Mallinfo(ctypes.Structure):
    """What glibc's mallinfo2 returns: bytes mapped are hblkhd, other bytes in use uordblks."""

    _fields_ = (
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )


def kept(call: Callable[[], Any]) -> int:
    """The bytes that a call leaves on the heap as long as its result is held."""
    call()  # makes what is only made once
    before = heap()
    result = call()
    size = heap() - before
    del result
    return size


def saved_by_torch(task: Task, nested: bool) -> int:
    """Bytes of the tensors of single steps that torch keeps for its backward pass.

    Each storage once; the tables of the domain and what the preference loss needs are taken off,
    as what is kept at D less what is kept at the first step.
    """
    import torch

    def total(D: int) -> int:
        storages: dict[int, Any] = {}

        def keep(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage
            return tensor

        loss, _ = replace(task, D=D).torch_loss(nested)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            end = loss()
        size = sum(int(storage.nbytes()) for storage in storages.values())
        del end
        return size

    return total(task.D) - total(1)


def _compare(measured: Measured, task: Task, budget: float) -> None:
    """Our derivative against every peer."""
    peers: dict[str, Callable[[], Array]] = {}
    if importlib.util.find_spec("torch") is None:
        print("torch is left out: install it for its rows", file=sys.stderr)
    else:
        import torch

        torch.set_num_threads(1)
        peers |= {
            "torch, nested": task.torch(nested=True),
            "torch, explicit steps": task.torch(nested=False),
        }
    if importlib.util.find_spec("jax") is None:
        print("JAX is left out: install ratecheck[bench] for its rows", file=sys.stderr)
    else:
        peers["JAX, scan"] = task.jax()
    peers["NumPy, adjoint"] = task.numpy(adjoint)
    if SIZES[task.size][2] <= 32:  # p x q numbers and q products in every step
        peers["NumPy, forward"] = task.numpy(unrolled)
    ours = task.ours()
    result = ours()
    for peer, call in peers.items():
        correct = bool(np.abs(call() - result).max() <= 1e-10 * np.abs(result).max())
        times = duel(partial(seconds, ours), partial(seconds, call), budget)
        row = rc.BenchRow(task.name, peer, min(times.ours), min(times.peer), correct)
        measured.add(row, **times.summary(1))


def _memory(measured: Measured, size: str, batch: int | None) -> None:
    """Bytes between the two passes, and at the peak of the whole derivative, as D grows."""
    between: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for D in GROWTH:
        task = Task(size, D, batch)
        oracle, (phi, theta) = task.oracle(), task.start()
        options: dict[str, Any] = {"alpha": step_size(oracle, phi), "D": D}
        loop = partial(kernels.descend, oracle, phi, theta, **options)
        between[f"ours, the path, D={D}"] = loop().theta.nbytes
        between[f"ours, heap, D={D}"] = kept(loop)
        if importlib.util.find_spec("torch") is not None:
            for name, nested in {"explicit steps": False, "nested": True}.items():
                between[f"torch, {name}, saved tensors, D={D}"] = saved_by_torch(task, nested)
                between[f"torch, {name}, heap, D={D}"] = kept(task.torch_loss(nested)[0])
        peaks[f"ours, D={D}"] = peak_bytes(task.ours())
        peaks[f"NumPy, adjoint, D={D}"] = peak_bytes(task.numpy(adjoint))
    measured.details[f"bytes kept between the passes: {task.setting}"] = between
    measured.details[f"bytes at the peak of a derivative: {task.setting}"] = peaks


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bilevel", measure("--quick" in sys.argv))
