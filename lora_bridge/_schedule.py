"""Which prompts a client answers in a rollout, and which of its responses a step sees.

Orders are functions of (seed, client, rollout, epoch) alone, not of the other clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.validate import InputError, check_integer

__all__ = ["Schedule"]

#: Second word of Philox's key, so that draws here share no numbers with those of responses.
_STREAM = 2


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Rollouts of ``batch`` responses, shown ``epochs`` times in pieces of ``minibatch``.

    The first epoch takes them as they were drawn, so that its pieces are those that were scored;
    every later one in an order of its own.

    Raises:
        InputError: a minibatch that does not divide the batch; numbers of clients that are not
            whole, or given twice.

    >>> Schedule(clients=[4], batch=6, minibatch=2, epochs=2, seed=0).rows(1)
    array([[2, 3]])
    """

    clients: Sequence[int]
    batch: int
    minibatch: int
    epochs: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("batch", "minibatch", "epochs"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("seed", self.seed, low=0, high=(1 << 64) - 1)
        if self.batch % self.minibatch:
            raise InputError(
                f"`minibatch` must divide batch = {self.batch}; found {self.minibatch}"
            )
        numbers = [
            check_integer("clients", client, low=0, high=(1 << 64) - 1) for client in self.clients
        ]
        if len(set(numbers)) < len(numbers):
            raise InputError(f"`clients` must be different numbers; found {numbers}")

    @property
    def steps(self) -> int:
        """Steps of one rollout."""
        return self.epochs * self.batch // self.minibatch

    def prompts(self, own: Sequence[Sequence[str]], rollout: int) -> list[list[str]]:
        """B prompts of every client; a client with fewer repeats some of them."""
        return [
            [texts[int(i)] for i in np.resize(self._order(c, rollout, 0, len(texts)), self.batch)]
            for c, texts in zip(self.clients, own, strict=True)
        ]

    def rows(self, step: int) -> NDArray[np.int64]:
        """The responses that step ``step`` of a run sees, (clients, minibatch)."""
        rollout, place = divmod(step, self.steps)
        epoch, piece = divmod(place, self.batch // self.minibatch)
        chosen = slice(piece * self.minibatch, (piece + 1) * self.minibatch)
        if epoch == 0:
            return np.tile(np.arange(self.batch)[chosen], (len(self.clients), 1))
        return np.stack([self._order(c, rollout, epoch, self.batch)[chosen] for c in self.clients])

    def taken(self, batch: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        """The rows of step ``step``, of tensors (clients, batch, ..)."""
        index = torch.from_numpy(self.rows(step)).to(next(iter(batch.values())).device)
        clients = torch.arange(len(index), device=index.device)[:, None]
        return {name: value[clients, index] for name, value in batch.items()}

    def _order(self, client: int, rollout: int, use: int, size: int) -> NDArray[np.int64]:
        """The order of a client's prompts (``use`` 0) or of a rollout in later epochs (1, ..)."""
        philox = np.random.Philox(key=[self.seed, _STREAM], counter=[0, use, client, rollout])
        return np.random.Generator(philox).permutation(size)
