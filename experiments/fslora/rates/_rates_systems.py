"""Where the rates of FSLoRA are measured: a least-squares family whose f^S has one minimiser.

f_i(B, A) = E|B A - y I|_F^2 / 2 with B A of shape (n, n) and y = d_i + sigma or d_i - sigma with
equal chances in every batch; rank r, sketches of rank k_i. Devices i and i + q are alike, q the
number of (k_i, d_i) given. With B = A' at the start all steps keep B = A', which fixes
the scale that a loss of B A leaves free; only A (r, n) is stored then, and replicates and devices
are trailing axes. With lambda the mean of (r/k_i - 1)/(r - 1) and d that of d_i,

    grad_A f^S = G(A) = (1 - lambda) A A'A - d A + lambda r diag(|a_j|^2) A,
    |grad f^S|^2 = 2 |G|^2.

Here n = 1 or n = r - 1. Then the minimiser of f^S (experiments/fslora/rates/rate_bias.py) is
sqrt(s) Q with s = d / (1 - lambda + lambda n) and Q'Q = I, all rows of Q of length sqrt(n/r): up to
signs and rotations, under which the family is invariant, there is one such Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from linsys.sketching.sketch import dense, every_support
from linsys.validate import Array, InputError, check_integer, check_number

__all__ = ["Squares", "local_steps", "rounds", "sketched", "sketched_along"]


@dataclass(frozen=True, kw_only=True)
class Squares:
    """The family of the module's text.

    Args:
        r, n: A has shape (r, n); n is 1 or r - 1.
        ranks: k_1 .. k_q; those of devices q + 1 .. 2 q are the same, and so on.
        targets: d_1 .. d_q; (1, .., 1) without them.
        noise: sigma.

    >>> system = Squares(r=3, n=2, ranks=(2,))
    >>> A = system.minimiser()
    >>> (A.T @ A).round(12).tolist(), bool(abs(system.gradient(A)).max() < 1e-12)
    ([[0.8, 0.0], [0.0, 0.8]], True)
    """

    r: int
    n: int
    ranks: tuple[int, ...]
    targets: tuple[float, ...] = ()
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_integer("r", self.r, low=2)
        if self.n not in (1, self.r - 1):
            raise InputError(f"`n` must be 1 or r - 1 = {self.r - 1}; found {self.n}")
        object.__setattr__(self, "targets", self.targets or (1.0,) * len(self.ranks))
        if not self.ranks or len(self.targets) != len(self.ranks):
            raise InputError(
                "`ranks` and `targets` must be of the same devices, at least one; "
                f"found {len(self.ranks)} and {len(self.targets)}"
            )
        for k in self.ranks:
            check_integer("ranks", k, low=1, high=self.r)
        check_number("mean of targets", self.d, low=0.0, low_open=True)
        check_number("noise", self.noise, low=0.0)

    @property
    def d(self) -> float:
        """The mean of d_i."""
        return float(np.mean(self.targets))

    @property
    def lam(self) -> float:
        """lambda."""
        return float(np.mean([self.r / k - 1.0 for k in self.ranks]) / (self.r - 1.0))

    @cached_property
    def sketches(self) -> tuple[Array, ...]:
        """The diagonals of all S of every kind of device, each (supports, r)."""
        dense_ = (dense(every_support(self.r, k), self.r) for k in self.ranks)
        return tuple(np.diagonal(S, axis1=1, axis2=2) for S in dense_)

    @cached_property
    def frame(self) -> Array:
        """Q, shape (r, n)."""
        import scipy.linalg

        if self.n == 1:
            return np.full((self.r, 1), self.r**-0.5)
        # Helmert's matrix, because eigenvectors of a multiple eigenvalue depend on the processor
        return np.asarray(scipy.linalg.helmert(self.r).T)

    def minimiser(self) -> Array:
        """sqrt(s) Q, shape (r, n)."""
        return np.asarray(np.sqrt(self.d / (1.0 - self.lam + self.lam * self.n)) * self.frame)

    def gradient(self, A: Array) -> Array:
        """G for A of shape (r, n, ...)."""
        square = np.einsum("ja...,jb...->ab...", A, A)
        rows = (self.lam * self.r * (A**2).sum(axis=1) - self.d)[:, None]
        return np.asarray((1.0 - self.lam) * np.einsum("ja...,ab...->jb...", A, square) + rows * A)

    def derivative(self, A: Array, Y: Array) -> Array:
        """P Y, the derivative of G at A along Y, of the broadcast shape (r, n, ...)."""
        both = np.einsum("ja...,jb...->ab...", Y, A)
        square = np.einsum("ja...,jb...->ab...", A, A)
        curved = np.einsum("ja...,ab...->jb...", Y, square)
        curved = curved + np.einsum("ja...,ab...->jb...", A, both + both.swapaxes(0, 1))
        rows = self.lam * self.r * (A**2).sum(axis=1)[:, None] - self.d
        along = 2.0 * self.lam * self.r * (A * Y).sum(axis=1)[:, None]
        return np.asarray((1.0 - self.lam) * curved + rows * Y + along * A)

    def loss(self, A: Array) -> Array:
        """f^S up to a constant, shape (...): its gradient with respect to B and A is (G', G)."""
        square = np.einsum("ja...,jb...->ab...", A, A)
        norms = (A**2).sum(axis=1)
        quartic = (1.0 - self.lam) * (square**2).sum(axis=(0, 1))
        quartic = quartic + self.lam * self.r * (norms**2).sum(axis=0)
        return np.asarray(0.5 * quartic - self.d * norms.sum(axis=0))

    def squared_norm(self, A: Array) -> Array:
        """|grad f^S|^2 with respect to B and A, shape (...)."""
        return np.asarray(2.0 * (self.gradient(A) ** 2).sum(axis=(0, 1)))

    def steepness(self, A: Array) -> tuple[Array, Array]:
        """tr(P Sigma_s) and tr(P Sigma_g) at A (r, n, ...), each (...)."""
        sketch, batch = np.zeros(A.shape[2:]), np.zeros(A.shape[2:])
        at = A[:, :, None]
        for S, d in zip(self.sketches, self.targets, strict=True):
            s = S.T.reshape(self.r, 1, len(S), *(1,) * (A.ndim - 2))
            g = sketched(at, s, d)
            g = g - g.mean(axis=2, keepdims=True)
            U = s * at
            for total, noise in ((sketch, g), (batch, self.noise * U)):
                total += (noise * self.derivative(at, noise)).sum(axis=(0, 1)).mean(axis=0)
        return sketch / len(self.ranks), batch / len(self.ranks)

    @cached_property
    def _draws(self) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
        """Diagonals of all kinds of devices, (r, all), where each kind begins, and its number."""
        counts = np.array([len(S) for S in self.sketches], dtype=np.int64)
        return np.concatenate(self.sketches).T, np.cumsum(counts) - counts, counts

    def draw(
        self, rng: np.random.Generator, devices: int, runs: int, H: int, *, fresh: bool
    ) -> tuple[Array, Array]:
        """Diagonals of S, (H, r, N, R), or (1, r, N, R) for a fixed one, and y (H, N, R)."""
        kind = np.arange(devices) % len(self.ranks)
        table, first, counts = self._draws
        draws = rng.random((H if fresh else 1, devices, runs)) * counts[kind][:, None]
        index = first[kind][:, None] + draws.astype(np.int64)
        s = table[:, index].swapaxes(0, 1)
        y = np.broadcast_to(np.array(self.targets)[kind][:, None], (H, devices, runs))
        if self.noise:
            y = y + self.noise * (2.0 * rng.integers(2, size=y.shape) - 1.0)
        return s, y


def sketched(A: Array, s: Array, y: Array | float) -> Array:
    """g, the gradient of |A'S A - y I|^2 / 2 with respect to A (r, n, ...), for s (r, 1, ...)."""
    U = s * A
    square = np.einsum("ja...,jb...->ab...", A, U)
    return np.asarray(np.einsum("ja...,ab...->jb...", U, square) - y * U)


def sketched_along(A: Array, s: Array, y: float, Y: Array) -> Array:
    """The derivative of g at A along Y."""
    U, V = s * A, s * Y
    square = np.einsum("ja...,jb...->ab...", A, U)
    cross = np.einsum("ja...,jb...->ab...", A, V)
    inner = np.einsum("ja...,ab...->jb...", V, square)
    inner = inner + np.einsum("ja...,ab...->jb...", U, cross + cross.swapaxes(0, 1))
    return np.asarray(inner - y * V)


def local_steps(A: Array, s: Array, y: Array, gamma: float) -> Array:
    """A (r, n, ...) after the steps (4) with S = diag s (H or 1, r, ...) and y (H, ...)."""
    for h in range(len(y)):
        A = A - gamma * sketched(A, s[h % len(s)][:, None], y[h])
    return A


def rounds(
    system: Squares,
    A: Array,
    count: int,
    *,
    gamma: float,
    H: int,
    devices: int,
    fresh: bool,
    rng: np.random.Generator,
    every: int = 1,
) -> Array:
    """|grad f^S|^2 before every ``every``-th of ``count`` rounds of FSLoRA from A (r, n, R)."""
    squared = []
    for t in range(count):
        if t % every == 0:
            squared.append(system.squared_norm(A))
        s, y = system.draw(rng, devices, A.shape[2], H, fresh=fresh)
        A = local_steps(A[:, :, None], s, y, gamma).mean(axis=2)
    return np.array(squared)
