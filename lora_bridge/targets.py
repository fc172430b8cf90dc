"""Which modules of a model can carry an adapter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from torch import nn

from linsys.validate import InputError, check_instance, check_integer, shown

__all__ = ["adaptable", "find_targets", "in_last_layers", "shape_of"]


def adaptable(model: nn.Module) -> dict[str, nn.Module]:
    """Every module that computes W x: ``nn.Linear`` and transformers' ``Conv1D``, by full name."""
    return {name: module for name, module in model.named_modules() if _is_linear(module)}


def shape_of(module: nn.Module) -> tuple[int, int]:
    """(m, n) of W; GPT-2's ``Conv1D`` stores its transpose."""
    if isinstance(module, nn.Linear):
        return module.out_features, module.in_features
    n, m = module.get_parameter("weight").shape
    return m, n


def find_targets(model: nn.Module, targets: Collection[str]) -> tuple[str, ...]:
    """Full names of the modules that ``targets`` name, in the model's order.

    A target is a full name or the end of one after a dot ("q_proj", "attn.c_attn").

    Raises:
        InputError: no targets, or one that names nothing that can be adapted; with what there is.
    """
    if isinstance(targets, str) or not isinstance(targets, Collection) or not len(targets):
        raise InputError(f"`targets` must be a list of at least one module; found {shown(targets)}")
    known = adaptable(model)
    for target in targets:
        check_instance("targets", target, str, "a list of names of modules")
        if not any(_names(target, name) for name in known):
            ends = sorted({name.rpartition(".")[2] for name in known})
            near = get_close_matches(target, ends, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InputError(
                f"`targets` must name linear modules of the model, which has "
                f"{', '.join(ends) or 'none'}; found {target!r}{hint}"
            )
    return tuple(name for name in known if any(_names(target, name) for target in targets))


def in_last_layers(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Of full names of modules, those in the last ``count`` layers, and those in no layer.

    Gradients then end where the first of these layers begins, which saves most of their time.

    >>> in_last_layers(["h.0.o_proj", "h.1.o_proj", "h.2.o_proj", "lm_head"], 2)
    ('h.1.o_proj', 'h.2.o_proj', 'lm_head')
    """
    check_integer("count", count, low=1)
    layers = {name: _layer(name) for name in names}
    first = max((layer for layer in layers.values() if layer is not None), default=0) - count + 1
    return tuple(name for name, layer in layers.items() if layer is None or layer >= first)


def _layer(name: str) -> int | None:
    """The first number among the parts of a module's name."""
    return next((int(part) for part in name.split(".") if part.isdecimal()), None)


def _names(target: str, name: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _is_linear(module: nn.Module) -> bool:
    if isinstance(module, nn.Linear):
        return True
    return type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None
