"""Where every random number begins: parameters as text, one text per value, and seeds from it.

All that lies between a configuration and the seeds of its numbers is in this file, so that the
revision of stored results covers it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Whole numbers up to here are exact as floats.
_EXACT = 2**53


def derive(seed: int, names: Sequence[Any]) -> int:
    """A seed below 2^63 for the purpose ``names`` under the experiment's ``seed``.

    >>> derive(0, ["noise", float("inf")]) == derive(0, ["noise", None])
    False
    """
    digest = hashlib.sha256(text([seed, *names]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def text(value: Any) -> str:
    """The value as JSON text; different values have different texts, also infinite ones.

    >>> text([0.5, float("-inf")])
    '[0.5, {"float": "-inf"}]'
    """
    return json.dumps(encoded(value, lambda number: {"float": repr(number)}), sort_keys=True)


def encoded(value: Any, not_finite: Callable[[float], Any]) -> Any:
    """The value as JSON can hold it: lists for arrays, text for paths, infinity as asked for."""
    if isinstance(value, dict):
        return {str(key): encoded(item, not_finite) for key, item in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [encoded(item, not_finite) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return not_finite(value)
    return value


def unify(config: Any) -> None:
    """Make whole numbers floats in the fields annotated so: 0 and 0.0 are one parameter there."""
    try:
        hints = _hints(config.__class__)
    except NameError:  # a name that the user's file defines further down, or only for type checkers
        return
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        object.__setattr__(config, field.name, _as_annotated(value, hints[field.name]))


@functools.cache  # workers make a configuration for every block
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _as_annotated(value: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int | np.integer) and not isinstance(value, bool):
        return float(value) if -_EXACT <= value <= _EXACT else value
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union) and int not in inner:
        for one in inner:
            value = _as_annotated(value, one)
    elif origin is tuple and isinstance(value, tuple) and inner:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(value):
            return tuple(_as_annotated(v, k) for v, k in zip(value, kinds, strict=True))
    return value
