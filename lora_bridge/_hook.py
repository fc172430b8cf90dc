"""What a module of a frozen model adds to its output: every client's B A of its input."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from lora_bridge.targets import adaptable

__all__ = ["Adapter", "Inputs", "reading_together"]


@dataclass(eq=False)
class Inputs:
    """The products A x of modules that read the same x, as queries, keys and values do.

    Computed when the first of them asks, all of them in one product: rank r alone is too few rows
    for a matrix product to be fast, and x and its gradient are read and written once.
    """

    factors: Sequence[Tensor]  # A of each module, (N, r, n)
    lengths: Sequence[int] | None
    _x: Tensor | None = field(init=False, default=None)
    _products: list[Any] = field(init=False, default_factory=list)
    _joined: Tensor | None = field(init=False, default=None)

    def product(self, j: int, x: Tensor) -> Any:
        """A x of module j, for inputs (.., n): (N, rows, r), or (rows of a client, r) of each.

        It is the latter where x has as many rows as ``lengths`` has in all.
        """
        if j == 0:
            self._x, self._products = x, self._computed(self.factors, x)
        elif self._x is not x:  # not with the first module's input
            return self._computed(self.factors[j : j + 1], x)[0]
        if j == len(self.factors) - 1:
            self._x = None
        product, self._products[j] = self._products[j], None
        return product

    def _computed(self, factors: Sequence[Tensor], x: Tensor) -> list[Any]:
        A = self._joined_of(factors)
        rows = x.reshape(-1, x.shape[-1])
        ranks = [len(factor[0]) for factor in factors]
        A = A.to(x.dtype)
        if self.lengths is None or len(rows) != sum(self.lengths):
            return list(torch.split(rows.reshape(len(A), -1, x.shape[-1]).bmm(A.mT), ranks, -1))
        each = zip(torch.split(rows, list(self.lengths)), A, strict=True)
        return list(zip(*(torch.split(own @ a.mT, ranks, -1) for own, a in each), strict=True))

    def _joined_of(self, factors: Sequence[Tensor]) -> Tensor:
        """The factors (N, r, n) as one, (N, r of all, n); without gradients it is made once."""
        if self._joined is not None and factors is self.factors:
            return self._joined
        A = torch.cat(list(factors), 1) if len(factors) > 1 else factors[0]
        if factors is self.factors and not torch.is_grad_enabled():
            self._joined = A = A.contiguous()
        return A


@dataclass(frozen=True, eq=False)
class Adapter:
    """The hook of one module: its output plus that of every client's B A.

    Where the module is given as many rows as ``lengths`` has in all, so many are each client's;
    otherwise all clients have as many.
    """

    B: Tensor  # (N, r, m), B transposed
    inputs: Inputs
    place: int  # of the module's A among those of the inputs
    factor: float | Tensor
    merged: Tensor | None
    dropout: float

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if self.merged is not None:
            output = output + nn.functional.linear(x, self.merged.to(x.dtype))
        if self.dropout:
            x = nn.functional.dropout(x, self.dropout)
        hidden = self.inputs.product(self.place, x)
        if isinstance(hidden, tuple):
            return self._by_length(hidden, output)
        factor = self.factor
        if isinstance(factor, Tensor):
            hidden, factor = hidden * factor.to(hidden.dtype), 1.0
        plain = output.reshape(*hidden.shape[:2], -1)
        if torch.is_grad_enabled():
            added = torch.baddbmm(plain, hidden, self.B.to(x.dtype), alpha=factor)
        else:  # in place: without gradients nothing else holds the module's output
            added = plain.baddbmm_(hidden.to(plain.dtype), self.B.to(plain.dtype), alpha=factor)
        return added.reshape(output.shape)

    def _by_length(self, hidden: tuple[Tensor, ...], output: Tensor) -> Tensor:
        factors = torch.as_tensor(self.factor).flatten().expand(len(hidden)).tolist()
        flat = output.reshape(-1, output.shape[-1])
        rows = torch.split(flat, [len(own) for own in hidden])
        each = zip(rows, hidden, self.B, factors, strict=True)
        if not torch.is_grad_enabled():  # in place, as above
            for own, product, B, factor in each:
                own.addmm_(product.to(own.dtype), B.to(own.dtype), alpha=factor)
            return flat.reshape(output.shape)
        parts = [
            torch.addmm(own, product, B.to(product.dtype), alpha=factor)
            for own, product, B, factor in each
        ]
        return torch.cat(parts).reshape(output.shape)


#: Of each model that was tried, the modules in the order of their calls, with the number of the
#: tensor that each was given.
_READ: WeakKeyDictionary[nn.Module, list[tuple[ref[nn.Module], int]]] = WeakKeyDictionary()


def reading_together(model: nn.Module, modules: Sequence[nn.Module]) -> list[list[int]]:
    """Places in ``modules`` of those that read the same tensor, in the order of their calls.

    Tried once for a model, on a few tokens; each module is alone where that does not run.

    >>> reading_together(nn.Sequential(nn.Linear(2, 2)), [nn.Linear(2, 2), nn.Linear(2, 2)])
    [[0], [1]]
    """
    if model not in _READ:
        _READ[model] = _calls(model)
    places = {module: place for place, module in enumerate(modules)}
    groups: dict[Any, list[int]] = {}
    for known, number in _READ[model]:
        module = known()
        if module in places:
            groups.setdefault(number, []).append(places.pop(module))
    return [*groups.values(), *([place] for place in places.values())]


def _calls(model: Any) -> list[tuple[ref[nn.Module], int]]:
    seen: list[tuple[nn.Module, Tensor]] = []  # with the tensors, so that each has a place alone

    def see(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append((module, inputs[0]))

    handles = [module.register_forward_pre_hook(see) for module in adaptable(model).values()]
    ids = torch.arange(4, device=next(model.parameters()).device)[None]
    known = inspect.signature(model.forward).parameters  # without one transformers may warn
    mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in known else {}
    try:
        with torch.no_grad():
            model(input_ids=ids, **mask)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return []  # a model of another kind
    finally:
        for handle in handles:
            handle.remove()
    calls = Counter(module for module, _ in seen)
    return [(ref(module), id(x)) for module, x in seen if calls[module] == 1]
