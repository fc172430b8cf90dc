"""The claims that a module makes: also those that no name at its top level stands for.

A decorator notes its claim with the module that is being imported, so that a loop and a function
make claims as well as the top level does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from types import CodeType, ModuleType
from typing import TypeVar

_Made = TypeVar("_Made")
#: The name at which a module holds what was noted with it.
_HELD = "__ratecheck_claims__"


@dataclass
class _Notes:
    """What was made while this code was the module's: a module that is read again begins anew."""

    code: CodeType
    entries: list[object] = field(default_factory=list)


def noted(entry: _Made) -> _Made:
    """The claim, noted with the module whose import makes it; one made later is nobody's."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        if frame.f_back is None:
            return entry
        frame = frame.f_back
    if frame.f_globals.get("__name__") != "__main__":
        notes = frame.f_globals.get(_HELD)
        if not isinstance(notes, _Notes) or notes.code is not frame.f_code:
            notes = frame.f_globals[_HELD] = _Notes(frame.f_code)
        notes.entries.append(entry)
    return entry


def made_by(module: ModuleType) -> list[object]:
    """What was noted with a module, in the order in which it was made."""
    notes = vars(module).get(_HELD)
    return list(notes.entries) if isinstance(notes, _Notes) else []


def _named(module: ModuleType) -> list[object]:
    return list(vars(module).values())


def file_of(entry: object, function: Callable[..., object] | None) -> str:
    """The file whose import made a claim, or that has a name for it; "" where none is known.

    Args:
        entry: the claim.
        function: of the claim; it may be that of another file, as of a changed claim.
    """
    home = sys.modules.get(getattr(function, "__module__", None) or "")
    for held in (made_by, _named):
        # most claims are made where their function is: thousands of modules need not be looked at
        for module in chain([home], sys.modules.copy().values()):
            if isinstance(module, ModuleType) and any(one is entry for one in held(module)):
                return getattr(module, "__file__", None) or ""
    return inspect.getsourcefile(inspect.unwrap(function)) or "" if function else ""
