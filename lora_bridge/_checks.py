"""Checks of tensors and texts that a user passes in, as :mod:`linsys.validate` checks numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from linsys.validate import InputError, check_instance, shown

__all__ = [
    "described",
    "finite",
    "floats",
    "listed",
    "masks",
    "probabilities",
    "tensors",
    "texts",
    "texts_by_client",
    "tokenizer_of",
    "whole_numbers",
]

_Item = TypeVar("_Item")


def floats(name: str, value: Any, *shape: int | str) -> Tensor:
    """Return ``value`` if it is a tensor of floating-point numbers, of this shape if one is given.

    >>> floats("X", Tensor([1, 2]), "clients", 3)
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `X` must have shape (clients, 3); found (2,)
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise InputError(
            f"`{name}` must be a tensor of floating-point numbers; found {described(value)}"
        )
    fixed = [(place, size) for place, size in enumerate(shape) if not isinstance(size, str)]
    if shape and (len(shape) != value.ndim or any(value.shape[i] != size for i, size in fixed)):
        wanted = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        raise InputError(f"`{name}` must have shape ({wanted}); found {tuple(value.shape)}")
    return value


def finite(name: str, value: Any, *shape: int | str) -> Tensor:
    """A tensor as :func:`floats` checks it, without NaN and infinity."""
    numbers = floats(name, value, *shape)
    if not bool(numbers.isfinite().all()):
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    return numbers


def probabilities(name: str, value: Any, *shape: int | str) -> Tensor:
    """As :func:`finite`, with rows of probabilities along the last axis.

    A sum may differ from 1 by what rounding to bfloat16, in which a model may compute, can cause:
    a relative error of 2^-8 in each probability.
    """
    rows = finite(name, value, *shape)
    if bool((rows < 0).any()):
        raise InputError(f"`{name}` must be at least 0; found {float(rows.min()):g}")
    off = rows.double().sum(-1) - 1
    if bool((off.abs() > torch.finfo(torch.bfloat16).eps).any()):
        worst = float(off.flatten()[off.abs().argmax()]) + 1
        raise InputError(f"`{name}` must have rows with sum 1; found {worst:g}")
    return rows


def whole_numbers(name: str, value: Any) -> Tensor:
    """Return ``value`` if it is a tensor of whole numbers, such as tokens."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex():
        raise InputError(f"`{name}` must be a tensor of whole numbers; found {described(value)}")
    return value


def masks(name: str, value: Any) -> Tensor:
    """Return ``value`` as whole numbers if it is a tensor of 0 and 1, of whatever type."""
    if not isinstance(value, Tensor) or not bool(((value == 0) | (value == 1)).all()):
        raise InputError(f"`{name}` must be a tensor of 0 and 1; found {described(value)}")
    return value.long()


def tensors(name: str, value: Any) -> Mapping[str, Tensor]:
    """Return ``value`` if it holds tensors by name, at least one."""
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"`{name}` must be a dictionary of tensors; found {shown(value)}")
    for key, part in value.items():
        if not isinstance(part, Tensor):
            raise InputError(f"`{name}` must hold tensors; found {described(part)} as {key!r}")
    return value


def texts(name: str, value: Any) -> list[str]:
    """Return ``value`` as a list if it holds texts; a single text would be its letters.

    >>> texts("prompts", "one")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `prompts` must be a list of texts; found 'one'
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"`{name}` must be a list of texts; found {shown(value)}")
    return [check_instance(name, text, str, "a list of texts") for text in value]


def texts_by_client(name: str, value: Any) -> list[list[str]]:
    """Return ``value`` as lists if it holds a list of texts of every client."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"`{name}` must be a list of texts of every client; found {shown(value)}")
    return [texts(f"{name}[{client}]", own) for client, own in enumerate(value)]


def listed(name: str, value: Any, *kinds: type[_Item]) -> list[_Item]:
    """Return ``value`` as a list if it holds only objects of these classes."""
    wanted = f"a list of {' or '.join(kind.__name__ for kind in kinds)}"
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"`{name}` must be {wanted}; found {shown(value)}")
    items = list(value)
    for item in items:
        if not isinstance(item, kinds):
            raise InputError(f"`{name}` must be {wanted}; found {shown(item)}")
    return items


def tokenizer_of(value: Any) -> Any:
    """Return ``value`` if it is a tokenizer of transformers."""
    if not callable(value) or not hasattr(value, "pad_token_id"):
        raise InputError(
            f"`tokenizer` must be one of transformers, as `load_model` gives; found {shown(value)}"
        )
    return value


def described(value: Any) -> str:
    """Shape and dtype of a tensor or an array, on one line; the beginning of anything else."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)} of {value.dtype}"
    if isinstance(value, np.ndarray):
        return (
            f"a NumPy array of shape {value.shape} of {value.dtype} (torch.from_numpy makes a "
            "tensor of it)"
        )
    return shown(value)
