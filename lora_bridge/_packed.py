"""Products with frozen matrices that are stored as the processor's library reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from lora_bridge._memory import free_memory, replaced

__all__ = ["packed"]

#: A model's matrices have at least so many bytes to be worth a copy.
_LEAST = 64 << 20
_reordered = torch.ops.mkldnn._reorder_linear_weight
_product = torch.ops.mkldnn._linear_pointwise


@dataclass
class _Copies:
    """A matrix and, where gradients were asked for, its transpose in oneDNN's order.

    Attributes:
        made_of: tells whether the matrix has changed: its place, its version and a weighted sum,
            since what is written to ``weight.data`` leaves the version as it is.
    """

    made_of: tuple[int, int, float]
    forwards: Tensor
    backwards: Tensor | None


#: The copies of every module that still exists.
_COPIES: WeakKeyDictionary[nn.Linear, _Copies] = WeakKeyDictionary()


@contextmanager
def packed(model: nn.Module, *, gradients: bool = False) -> Iterator[list[nn.Linear]]:
    """Inside, the model's linear modules multiply by copies of their matrices in oneDNN's order.

    Every product would otherwise bring its matrix into such an order again, which costs as much as
    the product itself where it has few rows. The copies are kept as long as the model. For single
    precision on a processor, frozen matrices of at least 64 MB in all, and only if the copies fit
    into half of the free memory; the list has the modules.

    Args:
        model: whose modules change inside.
        gradients: whether gradients of the modules' inputs are computed inside, once
            differentiable; they take a copy of each matrix's transpose.
    """
    chosen = _chosen(model, 2 if gradients else 1)
    with replaced(chosen, partial(_multiply, gradients=gradients)):
        yield list(chosen)


def _chosen(model: nn.Module, copies: int) -> list[nn.Linear]:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []
    if torch.is_autocast_enabled("cpu"):
        return []
    layers = [
        module
        for module in model.modules()
        if type(module) is nn.Linear
        and "forward" not in vars(module)  # another library's, or packed already
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and not module.weight.requires_grad
    ]
    if sum(module.weight.nbytes for module in layers) < _LEAST:
        return []
    free = free_memory()
    needed = sum(copies * module.weight.nbytes for module in layers if module not in _COPIES)
    return [] if free is None or needed > free // 2 else layers


def _copies(module: nn.Linear, gradients: bool) -> _Copies:
    """The module's copies, made anew where its matrix is another one."""
    weight = module.weight.detach()
    rows, columns = (torch.linspace(1, 2, size) for size in weight.shape)
    made_of = (weight.data_ptr(), module.weight._version, float(rows @ (weight @ columns)))
    kept = _COPIES.get(module)
    if kept is None or kept.made_of != made_of:
        kept = _COPIES[module] = _Copies(made_of, _reordered(weight), None)
    if gradients and kept.backwards is None:
        kept.backwards = _reordered(weight.t())
    return kept


def _multiply(module: nn.Linear, gradients: bool) -> Callable[[Tensor], Tensor]:
    kept, bias = _copies(module, gradients), module.bias

    def forward(x: Tensor) -> Tensor:
        if x.requires_grad and torch.is_grad_enabled():
            product: Tensor = _Multiply.apply(x, kept, bias)  # type: ignore[no-untyped-call]
            return product
        product = _product(x, kept.forwards, bias, "none", [], "")
        return product

    return forward


class _Multiply(torch.autograd.Function):
    """x W' + bias, once differentiable in x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: _Copies, bias: Tensor | None) -> Tensor:
        ctx.kept = kept
        product: Tensor = _product(x, kept.forwards, bias, "none", [], "")
        return product

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return _product(slope, ctx.kept.backwards, None, "none", [], ""), None, None
