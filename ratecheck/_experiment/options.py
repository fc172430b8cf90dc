"""Command-line text to configuration fields: ``--set replicates=20`` has the field's own type."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from linsys.validate import InputError
from ratecheck._experiment.model import Config, Experiment
from ratecheck._names import check_name

C = TypeVar("C", bound=Config)


def configure(
    experiment: Experiment[C], profile: str, overrides: Sequence[str] = (), seed: int | None = None
) -> C:
    """The profile's configuration with ``key=value`` overrides and a seed, validated again.

    Tuples are written with commas ("levels=0,0.05,0.3"), a missing value as "none", booleans as
    "true" or "false".
    """
    check_name(f"`profile` of {experiment.id}", profile, list(experiment.profiles))
    hints = typing.get_type_hints(experiment.config_type)
    fields = [f.name for f in dataclasses.fields(experiment.config_type)]
    values: dict[str, Any] = {} if seed is None else {"seed": seed}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise InputError(f"`--set` must look like key=value; found {override!r}")
        check_name(f"parameter of {experiment.id}", key, fields)
        if key in values:
            raise InputError(f"`{key}` must be given once; found it again in {override!r}")
        values[key] = parse(key, text, hints[key])
    return dataclasses.replace(experiment.profiles[profile], **values)


def parse(name: str, text: str, kind: Any) -> Any:
    """One value of the annotated type from text.

    >>> parse("levels", "0, 0.05", tuple[float, ...])
    (0.0, 0.05)
    >>> parse("data", "none", Path | None) is None
    True
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        others = [a for a in arguments if a is not type(None)]
        if len(others) < len(arguments) and text.strip().lower() == "none":
            return None
        if len(others) == 1:
            return parse(name, text, others[0])
    if origin is typing.Literal:
        allowed = {str(value): value for value in arguments}
        return allowed[check_name(f"`{name}`", text, list(allowed))]
    if origin is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        kinds = (arguments[0],) * len(parts) if arguments[-1] is Ellipsis else arguments
        if len(parts) != len(kinds):
            raise InputError(
                f"`{name}` must be {len(kinds)} values with commas between; found {text!r}"
            )
        try:
            return tuple(parse(name, part, k) for part, k in zip(parts, kinds, strict=True))
        except InputError as error:
            raise InputError(f"{error}; write values with commas: {name}=a,b,c") from None
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InputError(f"`{name}` must be true or false; found {text!r}")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise InputError(f"`{name}` must be {what}; found {text!r:.80}") from None
    if kind is Path:
        return Path(text).expanduser()
    if kind is str:
        return text
    raise InputError(f"`{name}` of type {kind} must be set in Python, not on the command line")
