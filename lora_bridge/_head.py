"""The parts of a language model that only scored tokens need: its head and its last perceptron.

Only the answer that follows a prompt is scored. So the product with the vocabulary, a quarter of
the work of many models, can be left out at the prompt; so can what the last layer does after its
attention, since from there on no token depends on another one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

__all__ = [
    "at_places",
    "computed_at",
    "find_last_perceptron",
    "head_of",
    "most_targets",
    "target_places",
    "with_slope_taken",
]

#: The last perceptron of each model that was tried, or None if it has to run at all tokens.
_last_perceptrons: WeakKeyDictionary[nn.Module, nn.Module | None] = WeakKeyDictionary()


def target_places(mask: Tensor, most: int | None = None) -> Tensor:
    """Where the tokens that ``mask`` (..., T) marks are predicted, in order: (..., K), then -1.

    K is :func:`most_targets`, or what is given as ``most``. The first token of a sequence is
    predicted nowhere.

    >>> target_places(torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]]))
    tensor([[ 1,  2],
            [ 0, -1]])
    """
    marked = mask[..., 1:] == 1
    counts = marked.sum(-1, keepdim=True)
    if most is None:
        most = most_targets(mask)
    order = marked.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :most]
    return order.where(torch.arange(order.shape[-1], device=mask.device) < counts, -1)


def most_targets(mask: Tensor) -> int:
    """The most tokens that ``mask`` (..., T) marks after a sequence's first one, at least 1."""
    return max(1, int((mask[..., 1:] == 1).sum(-1).max()))


def at_places(values: Tensor, places: Tensor) -> Tensor:
    """``values`` (sequences, T, h) at ``places``: (sequences, K, h); -1 is the first place."""
    return values.gather(1, _index(places, len(values), values.shape[-1]))


def with_slope_taken(values: Tensor, hidden: Tensor) -> Tensor:
    """``values`` (sequences, K) of a head, with their slope in its inputs (.., K, h) taken now.

    Each value must depend only on the hidden state at its own place. Then every backward pass from
    here to the hidden states is one product with this slope, however large the vocabulary: the head
    is differentiated once for M passes. A second derivative would lack the head's part.

    >>> h = torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    >>> torch.autograd.grad(3.0 * with_slope_taken((h**2).sum(-1), h).sum(), h)[0]
    tensor([[[ 6., 12.]]])
    """
    (slope,) = torch.autograd.grad(values.sum(), hidden, retain_graph=True)
    linear = (hidden * slope).sum(-1).to(values)
    return values.detach() + (linear - linear.detach())


def head_of(model: nn.Module) -> nn.Module | None:
    """The module that turns hidden states into logits over a vocabulary, or None."""
    find = getattr(model, "get_output_embeddings", None)
    return find() if callable(find) else None


def find_last_perceptron(model: nn.Module) -> None:
    """Find out whether the last module named "mlp" may run at scored tokens only; remember it.

    It may if no logit depends on its input or output at another token, which is tried once for a
    model, on a few tokens and without adapters. Before that, and if not, it runs at all tokens.
    """
    named = [module for name, module in model.named_modules() if name.endswith(".mlp")]
    if named and model not in _last_perceptrons and head_of(model) is not None:
        _last_perceptrons[model] = named[-1] if _is_tokenwise(model, named[-1]) else None


def _is_tokenwise(model: Any, module: nn.Module) -> bool:
    embeddings = model.get_input_embeddings().weight
    slack: Tensor = embeddings.new_zeros(2, 1, 4, embeddings.shape[-1]).requires_grad_()
    ids = torch.arange(4, device=slack.device)[None]
    known = inspect.signature(model.forward).parameters  # without one transformers may warn
    mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in known else {}

    def before(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        (x,) = inputs  # other inputs, such as Bloom's residual, would keep all tokens
        if named or x.shape != slack[0].shape:
            raise ValueError
        return (x + slack[0],), named

    def after(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if output.shape != slack[1].shape:
            raise ValueError
        return output + slack[1]

    handles = [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after),
    ]
    try:
        with torch.enable_grad():
            logits = model(input_ids=ids, **mask).logits
            (slope,) = torch.autograd.grad(logits[:, -1].sum(), slack)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False  # its input or output is not hidden states
    finally:
        for handle in handles:
            handle.remove()
    return not slope[:, :, :-1].any() and bool(slope[:, :, -1].any())


@contextmanager
def computed_at(model: nn.Module, places: Tensor, last: Tensor | None) -> Iterator[list[Tensor]]:
    """Inside, the head sees hidden states only at ``places``; they are put into the list.

    ``last`` is where the last perceptron runs in the rows of its layer, which may be others: each
    place once, -1 for none; None for everywhere.
    """
    seen: list[Tensor] = []
    tokens = 0

    def choose(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(at_places(inputs[0], places))
        return (seen[-1], *inputs[1:])

    def gather(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal tokens
        tokens = inputs[0].shape[1]
        assert last is not None
        return (at_places(inputs[0], last), *inputs[1:])

    def spread(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        assert last is not None
        sequences, _, width = output.shape
        counted = last.reshape(sequences, -1, 1) >= 0
        spread_out = output.new_zeros(sequences, tokens, width)
        # a sum: places of -1 point at the first token, to which they add zero
        return spread_out.scatter_add(1, _index(last, sequences, width), output * counted)

    head = head_of(model)
    assert head is not None
    handles = [head.register_forward_pre_hook(choose)]
    if last is not None and (perceptron := _last_perceptrons.get(model)) is not None:
        handles.append(perceptron.register_forward_pre_hook(gather))
        handles.append(perceptron.register_forward_hook(spread))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _index(places: Tensor, sequences: int, width: int) -> Tensor:
    return places.reshape(sequences, -1, 1).clamp(min=0).expand(-1, -1, width)
