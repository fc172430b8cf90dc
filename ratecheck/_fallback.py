"""Our modules beside those of a user's package that has the name of ours.

``import experiments`` is the user's package, if there is one, in every process of the user's: in
pytest, in a notebook. Importing this module lets Python look in ours for what the user's package
does not have, such as ``experiments.firm``; what it has stays the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

#: Our packages, beside ``ratecheck`` itself.
PACKAGES = ("experiments", "linsys", "lora_bridge", "mgda")
#: The folder that holds them, as sources and when they are installed.
ROOT = Path(__file__).absolute().parents[1]


def find_ours(name: str) -> ModuleSpec | None:
    """Where our module of this name lies; None if we have none."""
    *above, _ = name.split(".")
    if (*above, name)[0] not in PACKAGES:
        return None
    return PathFinder.find_spec(name, [str(ROOT.joinpath(*above))])


class _OursBeside:
    """A finder of modules within packages, as ``sys.meta_path`` holds them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if path is None or name.partition(".")[0] not in PACKAGES:
            return None
        theirs = PathFinder.find_spec(name, path)
        if theirs is not None and theirs.origin is not None:
            return None
        ours = find_ours(name)
        if theirs and ours and ours.submodule_search_locations is not None:
            # a folder of the user's without __init__.py, whose modules come before ours
            places = [*(theirs.submodule_search_locations or ()), *ours.submodule_search_locations]
            ours.submodule_search_locations = places
        return ours


sys.meta_path.insert(0, _OursBeside())
