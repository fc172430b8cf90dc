"""Clients with data: which samples a local step sees, and how good a client's adapters are.

A draw is a function of (seed, client, round, step) alone, as in :mod:`linsys.sketching.systems`, so
that clients can be served together, one by one or again after a restart and see the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.validate import (
    InputError,
    check_choice,
    check_function,
    check_indexed,
    check_instance,
    check_integer,
)
from lora_bridge._checks import tensors, whole_numbers
from lora_bridge.bank import INPUTS, AdapterBank, Batch, Loss
from lora_bridge.failures import memory_explained, unsound
from lora_bridge.models import longest

__all__ = ["Task", "check_tokens", "stacked"]

#: What has one entry per token.
_TOKENS = (*INPUTS, "target_mask")
#: Samples that are evaluated at a time.
_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Task:
    """N clients with samples of their own and a loss.

    Args:
        bank: the model with places for adapters.
        shards: the samples of every client, tensors with the samples as first axis.
        loss: see :data:`lora_bridge.bank.Loss`.
        batch: samples of a local step; a client with fewer takes all it has, some of them again.
        seed: of the draws.
        on_nan: what to do with a client whose loss or gradient is not finite: "stop" with an error
            that names it and the round, or "skip" it. Then FSLoRA goes on without it in this round
            and P-ShareLoRA in this step, both name it, and AffPCL has it stand still; the log says
            who it was.

    Raises:
        InputError: something else than a bank, a list of tensors by name, a function of output and
            batch; no clients, a client without samples, shards of different contents, tokens or
            lengths that the model does not know.
    """

    bank: AdapterBank
    shards: Sequence[Mapping[str, Tensor]]
    loss: Loss
    batch: int = 8
    seed: int = 0
    on_nan: str = "stop"

    def __post_init__(self) -> None:
        check_integer("batch", self.batch, low=1)
        check_choice("on_nan", self.on_nan, ("stop", "skip"))
        check_integer("seed", self.seed, low=0, high=(1 << 64) - 1)
        check_instance("bank", self.bank, AdapterBank, "an AdapterBank of the model")
        check_function("loss", self.loss, "output", "batch")
        if not len(check_indexed("shards", self.shards, "a list, of one per client")):
            raise InputError("`shards` must hold at least one client; found none")
        kinds = _kinds(tensors("shards[0]", self.shards[0]))
        for i, shard in enumerate(self.shards):
            tensors(f"shards[{i}]", shard)
            if _kinds(shard) != kinds:  # encoded together, all have the same length
                raise InputError(
                    f"client {i} must have {kinds}, as client 0; found {_kinds(shard)}: encode the "
                    "samples of all clients together, and divide them afterwards"
                )
            sizes = sorted({len(value) for value in shard.values()})
            if len(sizes) != 1 or sizes[0] == 0:
                raise InputError(
                    f"client {i} must have the same number of samples, 1 or more, in every tensor; "
                    f"found {sizes}"
                )
            check_tokens(f"client {i}", self.bank.model, shard)

    @property
    def clients(self) -> int:
        """N."""
        return len(self.shards)

    def size(self, client: int) -> int:
        """How many samples a client has."""
        return len(next(iter(self.shards[client].values())))

    @property
    def steps(self) -> int:
        """Batches until the largest client has shown all its samples."""
        return -(-max(self.size(client) for client in range(self.clients)) // self.batch)

    def draw(self, clients: Sequence[int], round_: int, step: int) -> dict[str, Tensor]:
        """The samples of a local step of some clients: leading axes (clients, batch)."""
        return self._samples(
            clients, [np.resize(self._order(i, round_, step), self.batch) for i in clients]
        )

    def pass_through(self, clients: Sequence[int], epoch: int, step: int) -> dict[str, Tensor]:
        """Batch ``step`` of an epoch, in which a client shows its samples in one order.

        A client with fewer samples than the largest begins anew.
        """
        place = step * self.batch + np.arange(self.batch)
        orders = [self._order(i, epoch, 0) for i in clients]
        return self._samples(clients, [order[place % len(order)] for order in orders])

    def _order(self, client: int, round_: int, step: int) -> NDArray[np.int64]:
        counter = [0, step, client, round_]
        generator = np.random.Generator(np.random.Philox(key=self.seed, counter=counter))
        return generator.permutation(self.size(client))

    def _samples(
        self, clients: Sequence[int], rows: Sequence[NDArray[np.int64]]
    ) -> dict[str, Tensor]:
        return stacked(
            [
                {name: value[torch.from_numpy(chosen)] for name, value in self.shards[i].items()}
                for i, chosen in zip(clients, rows, strict=True)
            ],
            self.bank.device,
        )

    def gradients(
        self,
        clients: Sequence[int],
        X: Tensor,
        batch: Batch,
        when: str,
        scale: float | Tensor = 1.0,
    ) -> tuple[Tensor, dict[int, str]]:
        """Gradients of some clients' mean losses, and who is left out of this step and why.

        Args:
            clients: their numbers.
            X: their adapters, shape (clients, r, w).
            batch: their samples: see :meth:`draw` and :meth:`pass_through`.
            when: for the reason, such as "round 3, step 0".
            scale: see :class:`lora_bridge.bank.AdapterBank`.

        Returns:
            (clients, r, w), and places among them to reasons; NaN in the rows of these.

        Raises:
            InputError: a loss or gradient that is not finite, unless ``on_nan`` is "skip"; no
                memory left.
        """
        with memory_explained():
            losses, slopes = self.bank.gradients(X, batch, self.loss, scale)
        left_out = unsound(clients, losses, slopes, when, self.on_nan)
        slopes[list(left_out)] = torch.nan
        return slopes, left_out

    def evaluate(self, client: int, X: Tensor, loss: Loss | None = None) -> float:
        """The mean of a loss over all samples of a client at X (r, w)."""
        return self.evaluate_all(client, X, [loss or self.loss])[0]

    def evaluate_all(self, client: int, X: Tensor, losses: Sequence[Loss]) -> list[float]:
        """The means of several losses, which share the passes through the model."""
        shard, totals = self.shards[client], np.zeros(len(losses))
        for start in range(0, self.size(client), _AT_ONCE):
            part = [{name: value[start : start + _AT_ONCE] for name, value in shard.items()}]
            batch = stacked(part, self.bank.device)
            with memory_explained():
                values = self.bank.read(X[None], batch, partial(_of_each, losses))[0]
            # in float64, where the sum of errors counted in halves is exact
            totals += values.double().sum(0).cpu().numpy()
        return [float(total) / self.size(client) for total in totals]


def _of_each(losses: Sequence[Loss], output: Any, batch: Batch) -> Tensor:
    """What each loss says of every sample, (samples, losses)."""
    return torch.stack([loss(output, batch) for loss in losses], dim=-1)


def check_tokens(who: str, model: Any, batch: Batch) -> None:
    """Refuse tokens that a model does not know, more than it has places for, and masks of none.

    Raises:
        InputError: there are such; ``who`` has them.
    """
    ids = batch.get("input_ids")
    if ids is None or not hasattr(model, "get_input_embeddings"):
        return
    known = model.get_input_embeddings().num_embeddings
    low, high = (int(end) for end in whole_numbers(f"input_ids of {who}", ids).aminmax())
    if low < 0 or high >= known:
        raise InputError(
            f"{who} must have tokens that the model knows, 0 to {known - 1}; "
            f"found {low if low < 0 else high}: the tokenizer may be another model's"
        )
    counts = batch.get("attention_mask", torch.ones_like(ids)).sum(-1)
    places, least, most = longest(model), int(counts.min()), int(counts.max())
    if least < 1:
        raise InputError(f"{who} must have samples of one token or more; found one that is masked")
    if places is not None and most > places:
        raise InputError(
            f"{who} must have samples of at most {places} tokens, which the model "
            f"has places for; found {most}: lower max_length"
        )


def _kinds(shard: Batch) -> dict[str, tuple[int, ...]]:
    """What a client has: the shape of one sample of every tensor."""
    return {name: tuple(value.shape[1:]) for name, value in sorted(shard.items())}


def stacked(parts: Sequence[Batch], device: torch.device) -> dict[str, Tensor]:
    """Samples of several clients on a leading axis, padded to the longest and no further."""
    joined = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
    mask, end = joined.get("attention_mask"), None
    if mask is not None:  # padding may be on either side
        seen = mask.flatten(0, -2).any(0)
        end = len(seen) - int(seen.flip(0).to(torch.int8).argmax())
    return {
        name: (value[..., :end] if name in _TOKENS else value).to(device)
        for name, value in joined.items()
    }
