"""Preference data as what :class:`linsys.preference.sharelora.ShareLoRA` asks of users.

Delta_i (d1, d2) is a row of blocks, one LoRA module each: Delta_i = scale [B_1 A_1 | B_2 A_2 | ..].
With a single block it is the paper's B W_i. Rows and gradients are NumPy arrays or torch tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from linsys.preference.comparisons import Comparisons, linear_comparisons
from linsys.sketching.adapters import Modules
from linsys.validate import InputError, check_integer, check_number

__all__ = ["ComparisonOracle"]


@dataclass(frozen=True, eq=False)
class ComparisonOracle:
    """Users with comparisons.

    Args:
        data: the comparisons.
        batch: of a stochastic gradient; all of a user's without it. An epoch goes once through
            the largest user's comparisons; those with fewer begin anew.
        seed: of the order, which is a function of (seed, user, epoch) alone.
        scale: of the products, LoRA's alpha / r.
        blocks: columns of every module, d2 in all; one module without it.

    Raises:
        InputError: sizes that are no positive whole numbers or do not add up.

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))], [[1]])
    >>> ComparisonOracle(data).grad(0, np.array([[0.0, 0.0, 1.0]]), epoch=0, step=0)
    array([[-0.5, -0.5,  0. ]])
    """

    data: Comparisons
    batch: int | None = None
    seed: int = 0
    scale: float = 1.0
    blocks: Sequence[int] | None = None

    def __post_init__(self) -> None:
        linear_comparisons(self.data)
        if self.batch is not None:
            check_integer("batch", self.batch, low=1)
        check_integer("seed", self.seed, high=(1 << 64) - 1)
        check_number("scale", self.scale, low=0.0, low_open=True)
        d2 = self.data.shape[1]
        given = [d2] if self.blocks is None else self.blocks
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise InputError(f"`blocks` must be a list of whole numbers; found {given!r}")
        blocks = [check_integer("blocks", size, low=1) for size in given]
        if sum(blocks) != d2:
            raise InputError(f"`blocks` must be d2 = {d2} columns in all; found {sum(blocks)}")
        object.__setattr__(self, "blocks", tuple(blocks))

    @cached_property
    def modules(self) -> Modules:
        """(d1, columns) of every block."""
        return Modules([(self.data.shape[0], size) for size in self.blocks or ()])

    @property
    def users(self) -> int:
        """N."""
        return self.data.users

    @cached_property
    def steps(self) -> int:
        """Batches in an epoch."""
        return 1 if self.batch is None else -(-int(self.data.counts.max()) // self.batch)

    def delta(self, X: Any) -> Any:
        """Delta_i of rows (..., r, w), shape (..., d1, d2)."""
        xp = array_namespace(X)
        if self._alike:
            B, A = self._stacked(X)
            products = xp.moveaxis(self.scale * (B.mT @ A), -3, -2)
            return xp.reshape(products, (*X.shape[:-2], *self.data.shape))
        return xp.concat(self.modules.products(X, self.scale), axis=-1)

    def draw(self, user: int, epoch: int, step: int) -> NDArray[np.int64]:
        """The comparisons of a batch, as rows of ``data``."""
        first, size = int(self.data.starts[user]), int(self.data.counts[user])
        if self.batch is None:
            return np.arange(first, first + size)
        at = step * self.batch + np.arange(min(self.batch, size))
        return first + _order(self.seed, user, epoch, size)[at % size]

    def grad(self, user: int, X: Any, epoch: int, step: int) -> Any:
        """Of minus the mean log-likelihood of a batch by X (..., r, w), of its shape."""
        rows = self.draw(user, epoch, step)
        return self._gradients(rows[None], X[..., None, :, :])[..., 0, :, :]

    def gradients(self, X: Any, epoch: int, step: int) -> Any:
        """Of all users, of the shape of X (..., N, r, w); up to rounding those of :meth:`grad`."""
        xp, rows = array_namespace(X), [self.draw(i, epoch, step) for i in range(self.users)]
        if len({len(of_user) for of_user in rows}) == 1:
            return self._gradients(np.stack(rows), X)
        parts = [
            self._gradients(of_user[None], X[..., i : i + 1, :, :])
            for i, of_user in enumerate(rows)
        ]
        return xp.concat(parts, axis=-3)

    def _gradients(self, rows: NDArray[np.int64], X: Any) -> Any:
        """Gradients at X (..., n, r, w) of the means over these rows of ``data`` (n, batch)."""
        xp, data = array_namespace(X), self.data
        shown = rows if data.pairs is None else data.pairs[rows]
        share = data.weights[rows]
        share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        # (d2, d1) each, as they are kept: in the other order they would be copied number by number
        columns, labels, weights, initial = (
            xp.asarray(part, dtype=X.dtype, device=device(X))
            for part in (
                data.features.mT[shown],
                data.labels[rows][..., None],
                share[..., None],
                data.initial[rows][..., None],
            )
        )
        flat, lead = xp.reshape(columns, (*rows.shape, -1)), X.shape[:-3]
        # runs are the last axis of logits, so that the features are read once for all of them
        Delta = xp.reshape(self.delta(X).mT, (-1, len(rows), flat.shape[-1]))
        z = initial + flat @ xp.permute_dims(Delta, (1, 2, 0))
        slope = weights * (0.5 * (1.0 + xp.tanh(0.5 * z)) - labels)
        G = xp.permute_dims(self.scale * (slope.mT @ flat), (1, 0, 2))
        G = xp.reshape(G, (*lead, len(rows), *data.shape[::-1])).mT
        if self._alike:
            B, A = self._stacked(X)
            parts = xp.moveaxis(xp.reshape(G, (*G.shape[:-1], B.shape[-3], -1)), -2, -3)
            steps = xp.concat([(parts @ A.mT).mT, B @ parts], axis=-1)
            return xp.reshape(xp.moveaxis(steps, -3, -2), X.shape)
        pairs, at = [], 0
        for (B, A), size in zip(self.modules.split(X), self.blocks or (), strict=True):
            part = G[..., at : at + size]
            pairs.append((part @ A.mT, B.mT @ part))
            at += size
        return self.modules.join(pairs)

    @cached_property
    def _alike(self) -> bool:
        """Whether modules have one shape, so that one product of stacks does for all of them."""
        return len(set(self.modules.shapes)) == 1

    def _stacked(self, X: Any) -> tuple[Any, Any]:
        """B' (.., modules, r, d1), A (.., modules, r, columns) of X (.., r, w) of modules alike."""
        xp, m = array_namespace(X), self.data.shape[0]
        rows = xp.reshape(X, (*X.shape[:-1], len(self.modules.shapes), -1))
        rows = xp.moveaxis(rows, -2, -3)
        return rows[..., :m], rows[..., m:]


@lru_cache(maxsize=4096)
def _order(seed: int, user: int, epoch: int, size: int) -> NDArray[np.int64]:
    """An order of a user's comparisons."""
    key = np.random.Philox(key=seed, counter=[0, 0, user, epoch])
    return np.random.Generator(key).permutation(size)
