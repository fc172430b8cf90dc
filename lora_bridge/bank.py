"""Adapters of many clients on one frozen model.

The LoRA parameters of N clients are one tensor X (N, r, w), laid out as in
:mod:`linsys.sketching.adapters`: row j of a client is component j of all its modules. Flat vectors,
sketches (a choice of rows) and shared factors (a choice of columns) are views, and the algorithms
of :mod:`linsys` and :mod:`mgda` take them as they are. The model is never copied: a hook on every
adapted module adds what the clients' factors make of its input, for all clients of a batch by two
batched products.

*Engines.* "bank" sends all clients through the model at once, ``chunk`` of them at a time where
memory is short; "sequential" one after the other, as an oracle and where nothing larger fits;
"vmap" maps over single clients by :func:`torch.func.vmap`, as a second oracle. All give the same
numbers up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from linsys._validate import InputError, choice, number, whole
from linsys.sketching.adapters import Modules
from lora_bridge._targets import find_targets, shape_of

__all__ = ["AdapterBank", "Batch", "Loss"]

#: Tensors with leading axes (clients, samples): the model's inputs, and what the loss needs. A
#: sample of several sequences, such as a pair, has inputs (clients, samples, sequences, tokens).
Batch = Mapping[str, Tensor]
#: (the model's output, the batch) to a loss of every sample: shape (clients x samples,), or
#: (clients x samples, M) for M objectives. Clients and samples, and the sequences of inputs, are
#: one axis then.
Loss = Callable[[Any, Batch], Tensor]
#: What of a batch the model sees.
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


@dataclass(frozen=True, eq=False)
class AdapterBank:
    """A frozen model with places for adapters.

    Args:
        model: a transformers model, or any module with ``nn.Linear`` or GPT-2's ``Conv1D`` inside;
            it is frozen and set to evaluation mode, and stays otherwise as it is.
        targets: names of the adapted modules, whole or their last parts ("q_proj").
        scaling: LoRA's factor of B A, alpha / r in most places.
        engine: "bank", "sequential" or "vmap".
        chunk: clients at a time in the bank; all without it.
        dropout: LoRA's dropout of an adapter's input, on in gradients only.
        autocast: a dtype to compute in, such as ``torch.bfloat16``; adapters stay as they are.
        frozen: added to the frozen matrices, one (m, n) each: see :meth:`merged`.

    Raises:
        InputError: targets that the model does not have (names those it has), an unknown engine.

    >>> model = nn.Sequential(nn.Linear(3, 2))
    >>> bank = AdapterBank(model, ["0"])
    >>> bank.modules.shapes
    ((2, 3),)
    """

    model: nn.Module
    targets: Sequence[str]
    scaling: float = 1.0
    engine: str = "bank"
    chunk: int | None = None
    dropout: float = 0.0
    autocast: torch.dtype | None = None
    names: tuple[str, ...] = field(init=False)
    modules: Modules = field(init=False)
    frozen: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        number("scaling", self.scaling, low=0.0, low_open=True)
        choice("engine", self.engine, ("bank", "sequential", "vmap"))
        number("dropout", self.dropout, low=0.0, high=1.0)
        if self.chunk is not None:
            whole("chunk", self.chunk, low=1)
        self.model.requires_grad_(False).eval()
        names = find_targets(self.model, self.targets)
        shapes = [shape_of(self.model.get_submodule(name)) for name in names]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "modules", Modules(shapes))

    @property
    def width(self) -> int:
        """w, the numbers of one component of all modules."""
        return self.modules.width

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def with_options(self, **options: Any) -> AdapterBank:
        """The same model and targets with other options."""
        return replace(self, **options)

    def merged(self, products: Sequence[Tensor]) -> AdapterBank:
        """The bank of the model with W0 + scaling * products as its frozen matrices.

        The model itself is untouched: the products (m, n) are kept beside it.
        """
        kept = tuple(self.scaling * product for product in products)
        if self.frozen:
            kept = tuple(a + b for a, b in zip(self.frozen, kept, strict=True))
        return self.with_frozen(kept)

    def with_frozen(self, frozen: tuple[Tensor, ...]) -> AdapterBank:
        """The bank of the model with W0 + frozen as its frozen matrices; none for W0 alone."""
        return replace(self, frozen=tuple(part.to(self.device) for part in frozen))

    def output(self, X: Tensor, batch: Batch, scale: float | Tensor = 1.0) -> Any:
        """The model's output of every client's samples, axis 0 being clients x samples.

        Args:
            X: the clients' adapters, shape (N, r, w).
            batch: tensors with leading axes (N, b).
            scale: a further factor of B A, such as r / k of a sketch; one, or one per client (N,).
        """
        self._check(X, batch)
        with self._adapted(X, scale, train=False), self._precision():
            return self.model(**_inputs(_flat(batch)))

    @torch.no_grad()
    def losses(self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0) -> Tensor:
        """The mean loss of every client, shape (N,) or (N, M); no gradients, no dropout."""
        parts = [
            self._losses(X[part], _part(batch, part), loss, _part_scale(scale, part), train=False)
            for part in self._parts(X, batch)
        ]
        return torch.cat(parts)

    def gradients(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Mean losses (N,) and their gradients (N, r, w), one row per client.

        With M objectives (N, M) and (N, M, r, w): one pass forward and M backward.
        """
        compute = self._by_vmap if self.engine == "vmap" else self._at_once
        values: list[Tensor] = []
        gradients = X
        for part in self._parts(X, batch):
            inside, data, factor = X[part], _part(batch, part), _part_scale(scale, part)
            value, gradient = compute(inside, data, loss, factor)
            values.append(value)
            if len(gradient) == len(X):
                gradients = gradient
            else:  # into one tensor, so that no second one of its size is needed
                if part.start == 0:
                    gradients = gradient.new_empty(len(X), *gradient.shape[1:])
                gradients[part] = gradient
        return torch.cat(values), gradients

    def per_sample(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Losses (N, b) and gradients (N, b, r, w) of every single sample."""
        N, b = _sizes(batch)
        alone = {name: _merge(value)[:, None] for name, value in batch.items()}
        spread = scale.repeat_interleave(b) if isinstance(scale, Tensor) else scale
        values, gradients = self.gradients(X.repeat_interleave(b, 0), alone, loss, spread)
        return _by_client(values, N), _by_client(gradients, N)

    def hvp(
        self, X: Tensor, batch: Batch, loss: Loss, V: Tensor, scale: float | Tensor = 1.0
    ) -> Tensor:
        """Hessian of every client's mean loss times V (N, r, w), of the same shape.

        The attention must be twice differentiable: ``attn_implementation="eager"`` on a CPU.
        """
        products = []
        for part in self._parts(X, batch):
            at = X[part].detach().requires_grad_()
            data, factor = _part(batch, part), _part_scale(scale, part)
            value = self._losses(at, data, loss, factor, train=False).sum()
            (slope,) = torch.autograd.grad(value, at, create_graph=True)
            (product,) = torch.autograd.grad(slope, at, V[part])
            products.append(product)
        return torch.cat(products)

    def _at_once(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        at = X.detach().requires_grad_()
        values = self._losses(at, batch, loss, scale, train=True)
        totals = values.sum(0).reshape(-1)  # clients do not mix: one sum holds all their gradients
        slopes = [
            torch.autograd.grad(total, at, retain_graph=j + 1 < len(totals))[0]
            for j, total in enumerate(totals)
        ]
        gradient = slopes[0] if values.ndim == 1 else torch.stack(slopes, 1)
        return values.detach(), gradient

    def _by_vmap(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        def value(x: Tensor, data: Batch, factor: Tensor) -> tuple[Tensor, Tensor]:
            one = {name: tensor[None] for name, tensor in data.items()}
            losses = self._losses(x[None], one, loss, factor[None], train=True)[0]
            return losses, losses

        factors = torch.as_tensor(scale, dtype=X.dtype, device=X.device).expand(len(X))
        slopes, values = torch.func.vmap(
            torch.func.jacrev(value, has_aux=True), randomness="different"
        )(X.detach(), dict(batch), factors)
        return values, slopes

    def _losses(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor, *, train: bool
    ) -> Tensor:
        N, b = _sizes(batch)
        flat = _flat(batch)
        with self._adapted(X, scale, train=train), self._precision():
            output = self.model(**_inputs(flat))
        values = loss(output, flat)
        if values.shape[:1] != (N * b,):
            raise InputError(
                f"`loss` must give a value for each of {N * b} samples; "
                f"found shape {tuple(values.shape)}"
            )
        return _by_client(values, N).mean(1)

    @contextmanager
    def _adapted(self, X: Tensor, scale: float | Tensor, *, train: bool) -> Iterator[None]:
        """The model computes with the clients' adapters inside, and without them outside."""
        factor = self.scaling * scale
        if isinstance(factor, Tensor):
            factor = factor.to(X)[:, None, None]
        # one split: its gradient is one concatenation, where slices would each fill a whole X
        sizes = [size for shape in self.modules.shapes for size in shape]
        parts = torch.split(X, sizes, dim=-1)
        hooks = []
        for j, name in enumerate(self.names):
            merged = self.frozen[j] if self.frozen else None
            hook = _Adapter(parts[2 * j], parts[2 * j + 1], factor, merged, self.dropout * train)
            hooks.append(self.model.get_submodule(name).register_forward_hook(hook))
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()

    def _precision(self) -> Any:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast)

    def _parts(self, X: Tensor, batch: Batch) -> list[slice]:
        """Which clients go through the model together."""
        self._check(X, batch)
        step = {"sequential": 1, "bank": self.chunk or len(X), "vmap": len(X)}[self.engine]
        return [slice(i, min(i + step, len(X))) for i in range(0, len(X), step)]

    def _check(self, X: Tensor, batch: Batch) -> None:
        if X.ndim != 3 or X.shape[2] != self.width or 0 in X.shape:
            raise InputError(
                f"`X` must have shape (clients, r, {self.width}); found {tuple(X.shape)}"
            )
        for name, value in batch.items():
            if value.ndim < 2 or len(value) != len(X) or value.shape[1] == 0:
                raise InputError(
                    f"`{name}` must have leading axes (clients, samples) with {len(X)} clients and "
                    f"at least one sample; found shape {tuple(value.shape)}"
                )


@dataclass(frozen=True, eq=False)
class _Adapter:
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


def _sizes(batch: Batch) -> tuple[int, int]:
    N, b = next(iter(batch.values())).shape[:2]
    return N, b


def _merge(value: Tensor) -> Tensor:
    return value.flatten(0, 1)


def _by_client(value: Tensor, N: int) -> Tensor:
    return value.reshape(N, -1, *value.shape[1:])


def _flat(batch: Batch) -> dict[str, Tensor]:
    """Clients, samples and the sequences of the model's inputs as one axis."""
    lead = batch["input_ids"].ndim - 1 if "input_ids" in batch else 2
    return {
        name: value.flatten(0, lead - 1) if name in INPUTS else _merge(value)
        for name, value in batch.items()
    }


def _inputs(batch: Batch) -> dict[str, Tensor]:
    return {name: value for name, value in batch.items() if name in INPUTS}


def _part(batch: Batch, part: slice) -> dict[str, Tensor]:
    return {name: value[part] for name, value in batch.items()}


def _part_scale(scale: float | Tensor, part: slice) -> float | Tensor:
    return scale[part] if isinstance(scale, Tensor) and scale.ndim else scale
