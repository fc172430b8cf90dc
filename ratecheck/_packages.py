"""Importing this module makes Python find our packages, whatever else has their names.

Somebody's folder can hold an ``experiments`` of its own, and Python looks into the current folder
and into those of ``PYTHONPATH`` before it looks at what is installed. Only our own names are found
here; every other module comes from where it would come from without us. Worker processes import
this module before anything else of ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from ratecheck._fallback import PACKAGES, ROOT, find_ours


class _OurPackages:
    """A finder of modules, as ``sys.meta_path`` holds them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        return find_ours(name)


sys.meta_path.insert(0, _OurPackages())


def foreign_package() -> str | None:
    """A line on a foreign module that was imported before under one of our names, or None."""
    for name in PACKAGES:
        module, ours = sys.modules.get(name), ROOT / name / "__init__.py"
        file = getattr(module, "__file__", None) or str(module)
        if module is not None and os.path.realpath(file) != os.path.realpath(ours):
            return f"package {name} must be {ours}; found {file}, which was imported before"
    return None
