"""Which modules of a model can carry an adapter."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from torch import nn

from linsys.validate import InputError, check_instance, shown

__all__ = ["adaptable", "find_targets", "shape_of"]


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


def _names(target: str, name: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _is_linear(module: nn.Module) -> bool:
    if isinstance(module, nn.Linear):
        return True
    return type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None
