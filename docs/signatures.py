"""How the reference shows signatures: with the annotations as they are written.

``ArrayLike`` stays that, and is not the union of a dozen types that it stands for.
"""

from __future__ import annotations

import inspect
from typing import Any

from sphinx.util.inspect import stringify_signature


class _Made:
    """A default that is made anew, or has no short name."""

    def __repr__(self) -> str:
        return "..."


def as_written(
    app: object, what: str, name: str, of: Any, options: object, given: str | None, returns: object
) -> tuple[str, str | None] | None:
    """The signature of a function, a method or a class; None leaves it to Sphinx."""
    if given is None:
        return None
    try:
        signature = inspect.signature(of)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    if what == "method" and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    parameters = [
        one.replace(default=_Made())
        if one.default is not one.empty and repr(one.default).startswith("<")
        else one
        for one in parameters
    ]
    signature = signature.replace(parameters=parameters)
    said = signature.return_annotation
    written = said if isinstance(said, str) and what != "class" else None
    return stringify_signature(signature, show_return_annotation=False), written


def not_a_field(
    app: object, what: str, name: str, member: Any, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of named tuples: their class says what they are, Python no more."""
    return True if type(member).__name__ == "_tuplegetter" else None
