"""How the reference shows signatures and classes: with the annotations as they are written.

``ArrayLike`` stays that, and is not the union of a dozen types that it stands for.
"""

from __future__ import annotations

import inspect
from typing import Any

from sphinx.util.inspect import stringify_signature

import ratecheck


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


def hidden_bases(thing: type) -> list[type]:
    """The bases of a public class that are ours and no public names, with members of their own."""
    return [
        base
        for base in thing.__mro__[1:]
        if base.__module__.startswith("ratecheck.")
        and not hasattr(ratecheck, base.__name__)
        and not vars(base).get("_is_protocol")
        and any(not name.startswith("_") for name in vars(base))
    ]


def with_arguments_of_bases(
    app: object, what: str, name: str, of: Any, options: object, lines: list[str]
) -> None:
    """Add to the arguments of a class, before its own, those that a hidden base describes."""
    if what != "class" or not inspect.isclass(of):
        return
    said = [line for base in hidden_bases(of) for line in _arguments(inspect.getdoc(base) or "")]
    if said and "Args:" in lines:
        at = lines.index("Args:") + 1
        lines[at:at] = said
    elif said:
        at = lines.index("Raises:") if "Raises:" in lines else 1
        lines[at:at] = ["", "Args:", *said, ""]


def _arguments(docstring: str) -> list[str]:
    """The lines of the section on arguments."""
    lines = docstring.splitlines()
    if "Args:" not in lines:
        return []
    section = lines[lines.index("Args:") + 1 :]
    end = next((at for at, line in enumerate(section) if not line.startswith(" ")), len(section))
    return section[:end]
