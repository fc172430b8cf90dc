"""``import ratecheck as rc`` has all that a paper needs, and imports nothing before it is used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import ratecheck as rc

CONSTANTS = {"LOOKS", "MIN_REPLICATES", "RESOLUTION"}
#: Names of types, which Python gives no docstring of their own.
ALIASES = {"Axis", "Block", "Column", "Columns", "Fields", "Numbers"}


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert len(rc.__all__) > 60
    for name in rc.__all__:
        value = getattr(rc, name)
        if name not in CONSTANTS | ALIASES:
            assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="no_such_name"):
        rc.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_imports_no_numerical_library() -> None:
    code = "import sys, ratecheck; print({'numpy', 'numba', 'linsys'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
