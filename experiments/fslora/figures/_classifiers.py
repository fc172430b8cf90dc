"""The systems behind the figures of FSLoRA: softmax regressions of several tasks, side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.fslora.figures import _softmax_loops
from experiments.fslora.figures._softmax_loops import ROWS
from linsys.kernels.simd import LANES
from linsys.sketching import Modules
from linsys.sketching.federated import State
from linsys.sketching.kernels import Batch
from linsys.sketching.systems import MatrixSystem

Values = NDArray[np.float64]
#: What a system needs of modules X (k, w): B' (P, k, m) and A (P, k, n), as views.
Parts = tuple[Values, Values]


class Samples(NamedTuple):
    """A device's samples for P tasks, padded to whole lanes of samples, features and classes.

    Attributes:
        inputs: x, shape (P, n, S).
        turned: x by samples, shape (P, S, N).
        frozen: W0 x, shape (P, m, S).
        targets: y, shape (P, m, S).
        shares: 1 / s for each of the s samples, 0 for the padding, shape (S,).
    """

    inputs: Values
    turned: Values
    frozen: Values
    targets: Values
    shares: Values

    @classmethod
    def of(cls, inputs: Values, frozen: Values, targets: Values) -> Samples:
        """From x (P, n, s), W0 x and y (P, m, s)."""
        s = inputs.shape[-1]
        x, z, y = (_padded(part, LANES) for part in (inputs, frozen, targets))
        turned = _padded(x.swapaxes(1, 2), LANES)
        return cls(x, turned, z, y, _padded(np.full(s, 1.0 / s), LANES))


def _padded(values: Values, size: int) -> Values:
    """With zeros at the end of the last axis, up to a multiple of ``size``."""
    length = values.shape[-1]
    if length % size == 0:
        return np.ascontiguousarray(values)
    padded = np.zeros((*values.shape[:-1], length + -length % size))
    padded[..., :length] = values
    return padded


@dataclass(frozen=True, eq=False)
class Classifiers(MatrixSystem):
    """Softmax regressions of P tasks on the same devices: P modules under one sketch.

    The loss is the sum over tasks of :class:`linsys.sketching.Logistic`'s, whose gradients do not
    mix: P systems at the price of little more than one. Arrays have samples last.

    Args:
        W0: shape (P, m, n).
        inputs: of every device, shape (P, n, s).
        targets: one-hot classes, shape (P, m, s).
    """

    W0: Values
    inputs: tuple[Values, ...]
    targets: tuple[Values, ...]
    batch: int | None = None
    seed: int = 0

    @cached_property
    def modules(self) -> Modules:
        """One module for every task."""
        tasks, m, n = self.W0.shape
        return Modules([(m, n)] * tasks)

    @cached_property
    def _frozen(self) -> tuple[Values, ...]:
        """W0 x, shapes (P, m, s)."""
        return tuple(self.W0 @ x for x in self.inputs)

    @cached_property
    def _samples(self) -> tuple[Samples, ...]:
        """What the compiled loop takes of every device."""
        return tuple(map(Samples.of, self.inputs, self._frozen, self.targets))

    def losses(self, device: int, X: Values, scale: float = 1.0) -> Values:
        """f_i of every task at W0 + scale B A, shape (P,)."""
        z, _ = self._outputs(device, self._parts(X), scale)
        z -= z.max(axis=1, keepdims=True)
        right = (self.targets[device] * z).sum(axis=1)
        return np.asarray((np.log(np.exp(z).sum(axis=1)) - right).mean(axis=1))

    def loss(self, device: int, X: Values, scale: float = 1.0, batch: Batch = None) -> float:
        """The sum of f_i over tasks."""
        return float(self.losses(device, X, scale).sum())

    def mean_losses(self, X: Values) -> Values:
        """f of every task, shape (P,)."""
        return np.asarray(np.mean([self.losses(i, X) for i in range(self.devices)], axis=0))

    def gradient(self, device: int, X: Values, scale: float = 1.0, batch: Batch = None) -> Values:
        """Its gradient with respect to X (k, w), of the same shape."""
        gradient = np.empty(X.shape)
        self._gradient(device, self._parts(X), scale, self._parts(gradient))
        return gradient

    def descend(
        self, device: int, X: Values, scale: float, round_: int, gamma: float, H: int
    ) -> Values:
        """X after H steps of size gamma along the gradient, in a compiled loop."""
        samples, X = self._samples[device], X.copy()
        S, m, n = len(samples.shares), self.W0.shape[1], samples.turned.shape[2]
        k, classes = (-(-count // ROWS) * ROWS for count in (len(X), m))
        B, A, hidden, back = (np.zeros((k, size)) for size in (-(-m // LANES) * LANES, n, S, S))
        z, slope = np.zeros((classes, S)), np.zeros((S, B.shape[1]))
        _softmax_loops.descend(X, *samples, scale, gamma, H, B, A, hidden, back, z, slope)
        return X

    def _gradient(self, device: int, rows: Parts, scale: float, out: Parts) -> None:
        """The gradient at the parts ``rows``, into the parts ``out``."""
        z, hidden = self._outputs(device, rows, scale)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        z -= self.targets[device]
        z *= scale / z.shape[-1]
        out[0][...] = hidden @ z.mT
        out[1][...] = (rows[0] @ z) @ self.inputs[device].mT

    @property
    def frozen(self) -> tuple[Values, ...]:
        """The frozen matrix of every task."""
        return tuple(self.W0)

    def with_frozen(self, frozen: tuple[Values, ...]) -> Classifiers:
        """Classifiers on these devices' samples with other frozen matrices."""
        return replace(self, W0=np.stack(frozen))

    def _parts(self, X: Values) -> Parts:
        """Views of X (k, w): all B', (P, k, m), and all A, (P, k, n)."""
        tasks, m, _ = self.W0.shape
        rows = X.reshape(len(X), tasks, -1).swapaxes(0, 1)
        return rows[..., :m], rows[..., m:]

    def _outputs(self, device: int, rows: Parts, scale: float) -> tuple[Values, Values]:
        """W x at W0 + scale B A, (P, m, s), and A x, (P, k, s)."""
        B, A = rows
        hidden = A @ self.inputs[device]
        z = B.mT @ hidden
        z *= scale
        z += self._frozen[device]
        return z, hidden


@dataclass(frozen=True, eq=False)
class Instance:
    """A drawn system with its test sets.

    Attributes:
        system: devices with W0.
        inputs: test inputs (P, n, S).
        labels: their classes (P, S).
        teacher: test accuracy of W* itself, (P,).
    """

    system: Classifiers
    inputs: Values
    labels: NDArray[np.int64]
    teacher: Values

    def judge(self, state: State) -> tuple[Values, Values]:
        """Test accuracy and test cross entropy of the state's adapted matrices, (P,) each.

        Where an algorithm merges what it learns, X is only a rank and B A is not used: merging
        methods leave X as it was, with B = 0.
        """
        W = state.merged_into(self.system).W0 + np.stack(self.system.modules.products(state.X))
        z = W @ self.inputs
        right = np.take_along_axis(z, self.labels[:, None], axis=1)[:, 0]
        top = z.max(axis=1)
        loss = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - right
        return (z.argmax(axis=1) == self.labels).mean(axis=1), loss.mean(axis=1)
