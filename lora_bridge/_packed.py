"""Products with frozen matrices that are stored as the processor's library reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lora_bridge._memory import free_memory

__all__ = ["packed"]


@contextmanager
def packed(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Inside, the model's linear modules multiply by copies of their matrices in oneDNN's order.

    Every product would otherwise bring its matrix into such an order again, which costs as much as
    the product itself where it has few rows. For single precision on a processor, without
    gradients, and only if the copies fit into half of the free memory; the list has the modules.
    """
    chosen = _chosen(model)
    try:
        for module in chosen:
            module.forward = _multiply(module)  # type: ignore[method-assign, assignment]
        yield list(chosen)
    finally:
        for module in chosen:
            del module.forward


def _chosen(model: nn.Module) -> list[nn.Linear]:
    if not torch.backends.mkldnn.is_available() or torch.is_autocast_enabled("cpu"):  # type: ignore[no-untyped-call]
        return []
    found = [
        module
        for module in model.modules()
        if type(module) is nn.Linear
        and "forward" not in vars(module)  # another library's
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
    ]
    free = free_memory()
    needed = sum(module.weight.nbytes for module in found)
    return [] if free is None or needed > free // 2 else found


def _multiply(module: nn.Linear) -> Callable[[Tensor], Tensor]:
    bias = module.bias
    weight = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach())

    def forward(x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return product

    return forward
