"""Adapters of many clients on one frozen model.

The LoRA parameters of N clients are one tensor X (N, r, w), laid out as in
:mod:`linsys.sketching.adapters`: row j of a client is component j of all its modules. Flat vectors,
sketches (a choice of rows) and shared factors (a choice of columns) are views, and the algorithms
of :mod:`linsys` and :mod:`mgda` take them as they are. The model is never copied: a hook on every
adapted module adds the product of its input and the clients' factors, for all clients of a batch
by two batched products.

*Engines.* "bank" sends several clients through the model at once, as many as ``chunk`` or
``memory`` say. Without these: on a processor as many as its caches hold, and nowhere more than half
of the free memory does; where a single client needs more, its samples go one part after the other.
"sequential" takes one client after the other, as an oracle; "vmap" maps over single clients by
:func:`torch.func.vmap`, as a second oracle. All give the same numbers up to rounding.

*Shared tokens.* In the engine "bank" the tokens with which several sequences of a client begin are
computed once, and padding is not computed: see :mod:`lora_bridge._sharing`. That takes a causal
model of transformers with scored tokens or one output per sequence, no dropout, and enough tokens
to be saved. ``share=False`` computes every sequence by itself.

*Scored tokens.* A batch of a language model with ``target_mask`` gets ``target_places`` (clients,
samples, K), see :func:`lora_bridge._head.target_places`, unless K is every token. What reads the
model's output then finds ``logits`` (sequences, K, vocabulary) at these places alone, and the
hidden states that they were made of as ``hidden``; the last layer's perceptron runs there alone
too, where that changes nothing. A batch may bring places of its own. In a pass for first
derivatives these states are the ``bottleneck`` as well, if the head has no adapters: all that
depends on X passes through them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from linsys.sketching.adapters import Modules
from linsys.validate import (
    InputError,
    check_choice,
    check_flag,
    check_instance,
    check_integer,
    check_number,
)
from lora_bridge import cards
from lora_bridge._batches import (
    INPUTS,
    Batch,
    Loss,
    by_client,
    check_fit,
    evaluated,
    flattened,
    inputs,
    merged,
    part_of_scale,
    sizes,
)
from lora_bridge._checks import described, floats
from lora_bridge._head import (
    computed_at,
    find_last_perceptron,
    head_of,
    most_targets,
    target_places,
)
from lora_bridge._hook import Adapter, Inputs, reading_together
from lora_bridge._memory import estimated_bytes, free_memory, kept_bytes, layers_of, recomputed
from lora_bridge._packed import packed
from lora_bridge._prefix import layers_below, reused
from lora_bridge._sharing import Layout, can_share, layout_of, shared
from lora_bridge.targets import find_targets, shape_of

__all__ = ["INPUTS", "AdapterBank", "Batch", "Loss"]

#: Bytes of memory that are assumed to be free where nobody says.
_ASSUMED = 4 << 30
#: Numbers of a pass's hidden states, tokens x width, that a processor's caches hold.
_CACHED = 1 << 18
#: Ends of the names of models whose output is one per sequence.
_POOLED = "ForSequenceClassification"
#: Saved tokens x width^2 from which sharing is faster: below, its own operations cost more.
_WORTH = 1 << 21


@dataclass(frozen=True, eq=False)
class AdapterBank:
    """A frozen model with places for adapters.

    Args:
        model: a transformers model, or any module with ``nn.Linear`` or GPT-2's ``Conv1D`` inside;
            it is frozen and set to evaluation mode, and stays otherwise as it is.
        targets: names of the adapted modules, whole or their last parts ("q_proj").
        scaling: LoRA's factor of B A, alpha / r in most places.
        engine: "bank", "sequential" or "vmap".
        chunk: clients at a time in the bank.
        memory: bytes that a forward pass of the bank may keep for the backward pass, instead of
            ``chunk``; measured, and a single client is never divided.
        checkpoint: in gradients, keep only what enters a layer and compute the layer again in the
            backward pass: less memory for a third more time.
        share: whether tokens that sequences of a client begin with are computed once.
        reuse: whether the layers below the first adapted one are computed once for a sequence, and
            their states kept, up to 1 GiB of them.
        dropout: LoRA's dropout of an adapter's input, on in gradients only.
        autocast: a dtype to compute in, such as ``torch.bfloat16``; adapters stay as they are.
        frozen: added to the frozen matrices, one (m, n) each: see :meth:`merged`.
        divided: whether the processes of a run that several cards make compute a share of the
            clients each, see :mod:`lora_bridge.cards`.

    Raises:
        InputError: something else than a model; targets that it does not have (names those it has);
            an unknown engine; a dtype that is none to compute in; frozen tensors of other shapes.

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
    memory: int | None = None
    checkpoint: bool = False
    share: bool = True
    reuse: bool = False
    dropout: float = 0.0
    autocast: torch.dtype | None = None
    names: tuple[str, ...] = field(init=False)
    modules: Modules = field(init=False)
    frozen: tuple[Tensor, ...] = ()
    divided: bool = False
    _bytes_by_shape: dict[Any, int] = field(init=False, repr=False, default_factory=dict)
    _options: dict[str, bool] = field(init=False, repr=False)
    _adapted: list[nn.Module] = field(init=False, repr=False)
    _together: list[list[int]] = field(init=False, repr=False)
    _below: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_instance(
            "model", self.model, nn.Module, "a torch.nn.Module, such as `load_model(..).model`"
        )
        check_number("scaling", self.scaling, low=0.0, low_open=True)
        check_choice("engine", self.engine, ("bank", "sequential", "vmap"))
        check_number("dropout", self.dropout, low=0.0, high=1.0, high_open=True)
        for name in ("checkpoint", "share", "reuse", "divided"):
            check_flag(name, getattr(self, name))
        for name in ("chunk", "memory"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=1)
        if self.chunk is not None and self.memory is not None:
            raise InputError("`memory` must be None where `chunk` is given; found both")
        if self.autocast is not None:
            kind = check_instance("autocast", self.autocast, torch.dtype, "a torch.dtype")
            check_choice(
                "autocast", str(kind), ("torch.bfloat16", "torch.float16", "torch.float32")
            )
        self.model.requires_grad_(False).eval()
        find_last_perceptron(self.model)
        names = find_targets(self.model, self.targets)
        adapted = [self.model.get_submodule(name) for name in names]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "modules", Modules([shape_of(module) for module in adapted]))
        object.__setattr__(self, "_adapted", adapted)
        object.__setattr__(self, "_together", reading_together(self.model, adapted))
        object.__setattr__(self, "_below", layers_below(self.model, adapted) if self.reuse else 0)
        object.__setattr__(self, "frozen", self._one_per_module("frozen", self.frozen))
        # no later token would use a cache of keys and values
        known = inspect.signature(self.model.forward).parameters
        object.__setattr__(self, "_options", {"use_cache": False} if "use_cache" in known else {})

    @property
    def width(self) -> int:
        """w, the numbers of one component of all modules."""
        return self.modules.width

    @property
    def _config(self) -> Any:
        """What transformers calls the model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def with_options(self, **options: Any) -> AdapterBank:
        """A bank of this model and these targets with other options."""
        return replace(self, **options)

    def merged(self, products: Sequence[Tensor]) -> AdapterBank:
        """The bank of the model with W0 + scaling * products as its frozen matrices.

        The model itself is untouched: the products (m, n) are kept beside it.
        """
        kept = tuple(self.scaling * part for part in self._one_per_module("products", products))
        if self.frozen:
            kept = tuple(a + b for a, b in zip(self.frozen, kept, strict=True))
        return self.with_frozen(kept)

    def with_frozen(self, frozen: Iterable[Tensor]) -> AdapterBank:
        """The bank of the model with W0 + frozen as its frozen matrices; none for W0 alone."""
        return replace(self, frozen=tuple(frozen))

    def _one_per_module(self, name: str, parts: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """Tensors for the adapted matrices, one each, or none at all."""
        shapes = self.modules.shapes
        if not isinstance(parts, Iterable):
            raise InputError(f"`{name}` must be a list of tensors; found {described(parts)}")
        tensors = tuple(parts)
        if len(tensors) not in (0, len(shapes)):
            raise InputError(
                f"`{name}` must be {len(shapes)}, one per module; found {len(tensors)}"
            )
        each = enumerate(zip(tensors, shapes, strict=False))
        return tuple(floats(f"{name}[{j}]", part, *mn).to(self.device) for j, (part, mn) in each)

    def output(self, X: Tensor, batch: Batch, scale: float | Tensor = 1.0) -> Any:
        """The model's whole output of every client's samples, axis 0 being clients x samples.

        Args:
            X: the clients' adapters, shape (N, r, w).
            batch: tensors with leading axes (N, b).
            scale: a further factor of B A, such as r / k of a sketch; one, or one per client (N,).
        """
        self.check(X, batch, scale)
        return self.run(X, flattened(batch), scale)

    def run(
        self, X: Tensor | None, flat: Batch, scale: float | Tensor = 1.0, *, train: bool = False
    ) -> Any:
        """The model's output of a batch whose clients and samples are one axis already.

        With ``target_places``, logits and ``hidden`` are at these. Without X the adapters are off;
        ``train`` turns dropout on.
        """
        layout = self._layout(X, flat, train)
        with self._inside(X, flat, scale, layout, train) as seen:
            output = self.model(**inputs(flat), **self._options)
        if seen and (head := head_of(self.model)) is not None:
            (output.hidden,) = seen
            through = train and not any(module in self._adapted for module in head.modules())
            output.bottleneck = output.hidden if through else None
        return output

    @contextmanager
    def _inside(
        self,
        X: Tensor | None,
        flat: Batch,
        scale: float | Tensor,
        layout: Layout | None,
        train: bool,
    ) -> Iterator[list[Tensor]]:
        """The model as a pass has it; the list gets the states that its head is given."""
        with ExitStack() as stack:
            stack.enter_context(self._precision())
            if X is not None:
                stack.enter_context(self.adapted(X, scale, train=train))
            if train and self.checkpoint:
                stack.enter_context(recomputed(self.model))
            if self._below and not self.checkpoint:
                stack.enter_context(reused(self.model, self._below, flat, layout))
            stack.enter_context(shared(self.model, layout))
            if head_of(self.model) is None or "target_places" not in flat:
                yield []
                return
            places = flat["target_places"]
            last = places if layout is None else layout.last
            if self._below and self._below == len(layers_of(self.model)):
                # the states of the last layer are kept, for whatever tokens are scored
                last = None
            yield stack.enter_context(computed_at(self.model, places, last))

    def _layout(self, X: Tensor | None, flat: Batch, train: bool) -> Layout | None:
        """How the sequences share tokens, where that is exact and saves time."""
        if not self.share or self.engine != "bank" or X is None or (train and self.dropout):
            return None  # without adapters the model is what it is, bit for bit
        # elsewhere a loss may read the states of padding
        known = "target_places" in flat or type(self.model).__name__.endswith(_POOLED)
        ids = flat.get("input_ids")
        if ids is None or not known:
            return None
        work = getattr(self._config, "hidden_size", 0) ** 2
        if ids.numel() * work < _WORTH or not can_share(self.model):
            return None
        layout = layout_of(flat, len(X))
        saved = 0 if layout is None else ids.numel() - layout.tokens
        return layout if saved * work >= _WORTH else None

    def read(
        self, X: Tensor | None, batch: Batch, function: Loss, scale: float | Tensor = 1.0
    ) -> Tensor:
        """A function of the model's output and the batch, evaluated for every sample: (N, b, ...).

        No gradients, no dropout. Without X the adapters are off: the base model, bit for bit.
        """

        def compute(x: Tensor | None, part: Batch, factor: float | Tensor) -> tuple[Tensor]:
            groups = self._client_groups(x, part, function, factor)
            return (torch.cat([self._values(*one[:2], function, one[2]) for one in groups]),)

        with torch.no_grad(), nullcontext() if X is None else self._packed():
            return self._of_all(compute, X, batch, scale)[0]

    def losses(self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0) -> Tensor:
        """The mean loss of every client, shape (N,) or (N, M); no gradients, no dropout."""
        return self.read(X, batch, loss, scale).mean(1)

    def gradients(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Mean losses (N,) and their gradients (N, r, w), one row per client.

        With M objectives (N, M) and (N, M, r, w): one pass forward and M backward.
        """
        floats("X", X)  # not None: there is no gradient without adapters
        with self._packed(gradients=True):
            values, slopes = self._of_all(
                lambda x, part, factor: self._gradients(x, part, loss, factor), X, batch, scale
            )
        return values, slopes

    def _gradients(
        self, X: Tensor | None, batch: Batch, loss: Loss, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        assert X is not None
        compute = self._by_vmap if self.engine == "vmap" else self._by_autograd
        values: list[Tensor] = []
        whole, done = None, 0
        for inside, data, factor in self._client_groups(X, batch, loss, scale):
            value, gradient = compute(inside, data, loss, factor)
            values.append(value)
            if len(gradient) == len(X):
                return value, gradient
            if whole is None:  # filled part by part: joining them would take twice its memory
                whole = gradient.new_empty(len(X), *gradient.shape[1:])
            whole[done : done + len(gradient)] = gradient
            done += len(gradient)
        assert whole is not None
        return torch.cat(values), whole

    def _of_all(
        self,
        compute: Callable[[Tensor | None, Batch, float | Tensor], tuple[Tensor, ...]],
        X: Tensor | None,
        batch: Batch,
        scale: float | Tensor,
    ) -> tuple[Tensor, ...]:
        """What ``compute`` gives of all clients, whom the processes of a run may divide."""
        if not self.divided or cards.size() == 1:
            return compute(X, batch, scale)
        self.check(X, batch, scale)
        if X is not None:
            cards.check_same("X", X)
        batch = self._with_target_places(batch)  # as many places in every process

        def of(part: slice) -> tuple[Tensor, ...]:
            data = {name: value[part] for name, value in batch.items()}
            return compute(None if X is None else X[part], data, part_of_scale(scale, part))

        return cards.joined(sizes(batch)[0], of)

    def _packed(self, gradients: bool = False) -> AbstractContextManager[Any]:
        """Faster products with the model's matrices, the same ones with gradients and without."""
        if self.engine != "bank" or self.autocast is not None:
            return nullcontext()
        return packed(self.model, gradients=gradients)

    def per_sample(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Losses (N, b) and gradients (N, b, r, w) of every single sample."""
        self.check(X, batch, scale)
        N, b = sizes(batch)
        batch = self._with_target_places(batch)
        alone = {name: merged(value)[:, None] for name, value in batch.items()}
        spread = scale.repeat_interleave(b) if isinstance(scale, Tensor) else scale
        values, gradients = self.gradients(X.repeat_interleave(b, 0), alone, loss, spread)
        return by_client(values, N), by_client(gradients, N)

    def hvp(
        self, X: Tensor, batch: Batch, loss: Loss, V: Tensor, scale: float | Tensor = 1.0
    ) -> Tensor:
        """Hessian of every client's mean loss times V (N, r, w), of the same shape.

        The attention must be twice differentiable: ``attn_implementation="eager"`` on a CPU.
        """
        floats("V", V, *X.shape)
        plain = self.with_options(share=False, divided=False)
        products, done = [], 0
        for inside, data, factor in plain._client_groups(X, batch, loss, scale):
            at = inside.detach().requires_grad_()
            value = plain._values(at, data, loss, factor).mean(1).sum()
            (slope,) = torch.autograd.grad(value, at, create_graph=True)
            (product,) = torch.autograd.grad(slope, at, V[done : done + len(at)])
            products.append(product)
            done += len(at)
        return torch.cat(products)

    def at_a_time(
        self, X: Tensor | None, batch: Batch, function: Loss, scale: float | Tensor = 1.0
    ) -> int:
        """How many clients go through the model together; with ``memory``, by the bytes of one.

        A pass that must give the same bits as another one has to take as many, by ``chunk``.
        """
        N, _ = sizes(batch)
        if self.engine != "bank":
            return {"sequential": 1, "vmap": N}[self.engine]
        if self.memory is not None and X is not None:
            return max(1, self.memory // self._bytes_of_one_client(X, batch, function, scale))
        if self.chunk is not None or (need := self._estimated(batch)) is None:
            return self.chunk or N
        clients = self._taken() // need
        if self.device.type == "cpu":
            width = int(self._config.hidden_size)
            clients = min(clients, _CACHED * N // (batch["input_ids"].numel() * width))
        return max(1, clients)

    def _estimated(self, batch: Batch) -> int | None:
        """About how many bytes a client's gradient keeps, or None for models of another kind."""
        N, _ = sizes(batch)
        if "input_ids" not in batch or not hasattr(self.model, "config"):
            return None
        tokens = batch["input_ids"].numel() // N
        each = estimated_bytes(self.model, batch["input_ids"].shape[-1], self.checkpoint)
        return None if each is None else tokens * each

    def _samples_at_a_time(self, batch: Batch) -> int:
        """Samples of a client whose gradients are computed together: all, if memory holds them."""
        _, b = sizes(batch)
        if self.chunk is not None or self.memory is not None or self.engine != "bank":
            return b
        need = self._estimated(batch)
        return b if need is None else max(1, min(b, b * self._taken() // need))

    def _taken(self) -> int:
        """Bytes that passes may keep where nobody says how many: half of what is free."""
        free = free_memory(self.device)
        return (_ASSUMED if free is None else free) // 2

    def _by_autograd(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        _, b = sizes(batch)
        step, values, gradient = self._samples_at_a_time(batch), [], None
        for start in range(0, b, step):
            part = {name: value[:, start : start + step] for name, value in batch.items()}
            value, slope = self._part_by_autograd(X, part, loss, scale, b)
            values.append(value)
            gradient = slope if gradient is None else gradient + slope
        assert gradient is not None
        return torch.cat(values, 1).mean(1), gradient

    def _part_by_autograd(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor, b: int
    ) -> tuple[Tensor, Tensor]:
        """Losses of some of the clients' b samples, and their share of the mean's gradient."""
        at = X.detach().requires_grad_()
        values = self._values(at, batch, loss, scale, train=True)
        each = values.unbind(2) if values.ndim == 3 else (values,)
        # clients do not mix: the slope of the sum of their means holds all their gradients
        share = torch.full_like(each[0], 1 / b)
        with self._again(at, batch, scale) if self.checkpoint else nullcontext():
            slopes = [
                torch.autograd.grad(value, at, share, retain_graph=j + 1 < len(each))[0]
                for j, value in enumerate(each)
            ]
        return values.detach(), slopes[0] if values.ndim == 2 else torch.stack(slopes, 1)

    def _again(self, X: Tensor, batch: Batch, scale: float | Tensor) -> Any:
        """The model as the pass had it: layers that are computed again need their adapters."""
        flat = flattened(batch)
        return self._inside(X, flat, scale, self._layout(X, flat, train=True), train=True)

    def _by_vmap(
        self, X: Tensor, batch: Batch, loss: Loss, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        def value(x: Tensor, data: Batch, factor: Tensor) -> tuple[Tensor, Tensor]:
            one = {name: tensor[None] for name, tensor in data.items()}
            losses = self._values(x[None], one, loss, factor[None], train=True).mean(1)[0]
            return losses, losses

        factors = torch.as_tensor(scale, dtype=X.dtype, device=X.device).expand(len(X))
        slopes, values = torch.func.vmap(
            torch.func.jacrev(value, has_aux=True), randomness="different"
        )(X.detach(), dict(batch), factors)
        return values, slopes

    def _values(
        self,
        X: Tensor | None,
        batch: Batch,
        function: Loss,
        scale: float | Tensor,
        *,
        train: bool = False,
    ) -> Tensor:
        N, b = sizes(batch)
        flat = flattened(batch)
        output = self.run(X, flat, scale, train=train)
        values = evaluated(function, output, flat, N * b)
        if train and not values.requires_grad:
            raise InputError(
                "`loss` must be differentiable; found values that depend on no adapter"
            )
        return by_client(values, N)

    def _with_target_places(self, batch: Batch) -> Batch:
        """The batch with ``target_places``, if the model has a head and they are not all places."""
        if "target_mask" not in batch or "target_places" in batch or head_of(self.model) is None:
            return batch
        mask = batch["target_mask"]
        most = most_targets(mask)
        if most == mask.shape[-1] - 1:
            return batch
        return {**batch, "target_places": target_places(mask, most)}

    @contextmanager
    def adapted(
        self,
        X: Tensor,
        scale: float | Tensor = 1.0,
        *,
        train: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> Iterator[None]:
        """The model computes with the clients' adapters inside, and without them outside.

        Axis 0 of what it is given must be clients x samples, as many samples of each; or, with
        ``lengths``, all tokens of all clients are in one row, so many of each. ``train`` turns
        dropout on.
        """
        factor = self.scaling * scale
        if isinstance(factor, Tensor):
            factor = factor.to(X)[:, None, None]
        # one split: its gradient is one concatenation, where slices would each fill a whole X
        widths = [size for shape in self.modules.shapes for size in shape]
        parts = torch.split(X, widths, dim=-1)
        dropout = self.dropout * train
        # with dropout each module has an input of its own
        groups = [[j] for j in range(len(self._adapted))] if dropout else self._together
        hooks = []
        for group in groups:
            inputs = Inputs([parts[2 * j + 1] for j in group], lengths)
            for place, j in enumerate(group):
                frozen = self.frozen[j] if self.frozen else None
                hook = Adapter(parts[2 * j], inputs, place, factor, frozen, dropout)
                hooks.append(self._adapted[j].register_forward_hook(hook))
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()

    def _precision(self) -> Any:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast)

    def _client_groups(
        self, X: Tensor | None, batch: Batch, function: Loss, scale: float | Tensor
    ) -> Iterator[tuple[Any, dict[str, Tensor], float | Tensor]]:
        """Adapters, batch and scale of those clients that go through the model together."""
        self.check(X, batch, scale)
        batch = self._with_target_places(batch)
        N, _ = sizes(batch)
        step = self.at_a_time(X, batch, function, scale)
        if step >= N:
            yield X, dict(batch), scale
            return
        for start in range(0, N, step):
            part = slice(start, min(start + step, N))
            data = {name: value[part] for name, value in batch.items()}
            yield None if X is None else X[part], data, part_of_scale(scale, part)

    def _bytes_of_one_client(
        self, X: Tensor, batch: Batch, function: Loss, scale: float | Tensor
    ) -> int:
        """The most bytes that the first client's forward pass keeps at any time."""
        shapes = tuple((name, value.shape[1:]) for name, value in sorted(batch.items()))
        key = (getattr(function, "__qualname__", None), X.shape[1:], *shapes)
        if key not in self._bytes_by_shape:
            first = {name: value[:1] for name, value in batch.items()}
            at = X[:1].detach().clone().requires_grad_()
            factor = part_of_scale(scale, slice(0, 1))
            self._bytes_by_shape[key] = kept_bytes(
                self.model, lambda: self._values(at, first, function, factor, train=True)
            )
        return self._bytes_by_shape[key]

    def check(self, X: Tensor | None, batch: Batch, scale: float | Tensor = 1.0) -> None:
        """Check that these adapters, samples and factors fit together, and fit the model.

        Raises:
            InputError: they do not; says which, and how.
        """
        if X is not None:
            floats("X", X, "clients", "r", self.width)
            if 0 in X.shape or X.device != self.device:
                raise InputError(
                    f"`X` must not be empty, and where the model is, on {self.device}; "
                    f"found shape {tuple(X.shape)} on {X.device}"
                )
        check_fit(batch, scale, None if X is None else len(X))
