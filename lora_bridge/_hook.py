"""What a module of a frozen model adds to its output: every client's B A of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Adapter"]


@dataclass(frozen=True, eq=False)
class Adapter:
    """The hook of one module: its output plus that of every client's B A.

    Where the module is given as many rows as ``lengths`` has in all, so many are each client's;
    otherwise all clients have as many.
    """

    B: Tensor  # (N, r, m), B transposed
    A: Tensor  # (N, r, n)
    factor: float | Tensor
    merged: Tensor | None
    dropout: float
    lengths: Sequence[int] | None

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self.merged is not None:
            output = output + nn.functional.linear(x, self.merged.to(x.dtype))
        if self.dropout:
            x = nn.functional.dropout(x, self.dropout)
        x = x.reshape(-1, x.shape[-1])
        if self.lengths is not None and len(x) == sum(self.lengths):
            return self._by_length(x, output, self.lengths)
        hidden = x.reshape(len(self.A), -1, x.shape[-1]).bmm(self.A.to(x.dtype).mT)
        factor = self.factor
        if isinstance(factor, Tensor):
            hidden, factor = hidden * factor.to(hidden.dtype), 1.0
        plain = output.reshape(*hidden.shape[:2], -1)
        if torch.is_grad_enabled():
            added = torch.baddbmm(plain, hidden, self.B.to(x.dtype), alpha=factor)
        else:  # in place: without gradients nothing else holds the module's output
            added = plain.baddbmm_(hidden.to(plain.dtype), self.B.to(plain.dtype), alpha=factor)
        return added.reshape(output.shape)

    def _by_length(self, x: Tensor, output: Tensor, lengths: Sequence[int]) -> Tensor:
        factors = torch.as_tensor(self.factor).flatten().expand(len(lengths)).tolist()
        plain = torch.split(output.reshape(len(x), -1), list(lengths))
        each = zip(torch.split(x, list(lengths)), self.A, self.B, factors, plain, strict=True)
        parts = [
            torch.addmm(own, rows @ A.to(x.dtype).mT, B.to(x.dtype), alpha=factor)
            for rows, A, B, factor, own in each
        ]
        return torch.cat(parts).reshape(output.shape)
