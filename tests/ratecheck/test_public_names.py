"""Every public name says how it is used and what it raises."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import ratecheck as rc

#: What needs no example, and why.
WITHOUT_EXAMPLE = {"InputError": "what others raise, in their examples"}
#: How a docstring shows a use, and how a body refuses what it is given.
_SHOWS = re.compile(r"^ *(>>> |Example::)", re.MULTILINE)
_REFUSES = re.compile(
    r"raise (rc\.)?InputError|\bcheck_(choice|flag|function|instance|integer|number)\("
)
#: Parts of a class in which its constructor refuses.
_CONSTRUCTORS = ("__init__", "__post_init__", "__new__")


def public() -> dict[str, Any]:
    """Every public function and class by its name."""
    named = {name: getattr(rc, name) for name in rc.__all__}
    return {n: o for n, o in named.items() if inspect.isfunction(o) or inspect.isclass(o)}


def lacks_example(thing: Any) -> bool:
    """Whether a docstring shows no use."""
    return not _SHOWS.search(thing.__doc__ or "")


def lacks_raises(thing: Any) -> bool:
    """Whether something refuses arguments and its docstring does not say so."""
    bodies = [thing]
    if inspect.isclass(thing):
        bodies = [vars(thing)[name] for name in _CONSTRUCTORS if name in vars(thing)]
    text = "".join(inspect.getsource(inspect.unwrap(one)) for one in bodies if _has_source(one))
    says = re.search(r"\bRaises?\b|raise InputError", thing.__doc__ or "")
    return bool(_REFUSES.search(text)) and not says


def _has_source(thing: Any) -> bool:
    """Whether it is written down; the constructor of a dataclass is not."""
    code = getattr(inspect.unwrap(thing), "__code__", None)
    return code is not None and code.co_filename != "<string>"


@pytest.mark.parametrize("name", sorted(public()))
def test_a_public_name_shows_its_use(name: str) -> None:
    assert lacks_example(public()[name]) == (name in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", sorted(public()))
def test_a_public_name_says_what_it_raises(name: str) -> None:
    assert not lacks_raises(public()[name])


def test_what_shows_no_use_or_refuses_without_a_word_is_found() -> None:
    def silent(n: int) -> None:
        """Take a number."""
        if n < 0:
            raise rc.InputError("`n` must be at least 0")

    def telling(n: int) -> None:
        """Take a number.

        Raises:
            InputError: one below zero.

        >>> telling(1)
        """
        if n < 0:
            raise rc.InputError("`n` must be at least 0")

    assert lacks_example(silent)
    assert not lacks_example(telling)
    assert not lacks_raises(telling)
    assert lacks_raises(silent)
