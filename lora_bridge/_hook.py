"""What a module of a frozen model adds to its output: every client's B A of its input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Adapter"]


@dataclass(frozen=True, eq=False)
class Adapter:
    """The hook of one module: its output plus that of every client's B A."""

    B: Tensor  # (N, r, m), B transposed
    A: Tensor  # (N, r, n)
    factor: float | Tensor
    merged: Tensor | None
    dropout: float

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self.merged is not None:
            output = output + nn.functional.linear(x, self.merged.to(x.dtype))
        if self.dropout:
            x = nn.functional.dropout(x, self.dropout)
        hidden = x.reshape(len(self.A), -1, x.shape[-1]).bmm(self.A.to(x.dtype).mT)
        factor = self.factor
        if isinstance(factor, Tensor):
            hidden, factor = hidden * factor.to(hidden.dtype), 1.0
        plain = output.reshape(*hidden.shape[:2], -1)
        return torch.baddbmm(plain, hidden, self.B.to(x.dtype), alpha=factor).reshape(output.shape)
