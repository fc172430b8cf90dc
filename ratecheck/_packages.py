"""Importing this module makes Python find our packages, whatever else has their names.

Somebody's folder can hold an ``experiments`` of its own, and Python looks into the current folder
and into those of ``PYTHONPATH`` before it looks at what is installed. Only our own names are found
here; every other module comes from where it would come from without us. Worker processes import
this module before anything else of ours.
"""

from __future__ import annotations

import os
import sys

from ratecheck._fallback import PACKAGES, ROOT, take_plain_names


def foreign_package() -> str | None:
    """A line on a foreign module that was imported before under one of our names, or None."""
    for name in PACKAGES:
        module, ours = sys.modules.get(name), ROOT / name / "__init__.py"
        file = getattr(module, "__file__", None) or str(module)
        if module is not None and os.path.realpath(file) != os.path.realpath(ours):
            return f"package {name} must be {ours}; found {file}, which was imported before"
    return None


take_plain_names()
