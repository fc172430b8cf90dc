"""The decorator of every compiled function: compiled once per version of the sources it may call.

numba's file cache looks only at the file of the function that is called, so an edit in another file
with a function that it calls would go unnoticed. The cache folder is therefore named by a digest of
all sources whose compiled functions are called from elsewhere, :data:`SOURCES`, and of the versions
that compile them.

The machine code of a cached function contains the helpers it calls, and when several functions are
loaded into one process, a helper of the same symbol is linked once. The symbol is made of module,
qualified name, types and a count that starts anew in every process; so two *different* helpers
``make.<locals>.f`` that were compiled in different processes can be taken for one another. Hence
every compiled function has a qualified name of its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numba.core.config as numba_config

__all__ = ["SOURCES", "compiled", "unique_name"]

#: Files of linsys with compiled functions. One elsewhere may call these and those of its own file.
SOURCES = ("compiled.py", "kernels/*.py", "linalg/_loops.py")


def _digest() -> str:
    digest = hashlib.sha256()
    for name in (numba.__version__, llvmlite.__version__, platform.python_version()):
        digest.update(name.encode())
    here = Path(__file__).parent
    for path in sorted(path for pattern in SOURCES for path in here.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _folder() -> str:
    """The cache folder; a temporary one where the user's cannot be written."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    wanted = Path(base).expanduser() / "ratecheck" / _digest()
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        writable = os.access(wanted, os.W_OK)
    except OSError:
        writable = False
    return str(wanted) if writable else tempfile.mkdtemp(prefix="ratecheck-")


_FOLDER = _folder()


def unique_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function defined at module level; refuse one made inside another function."""
    if "<" in function.__qualname__:
        raise TypeError(
            f"a compiled function must be defined at module level; found {function.__qualname__}"
        )
    return function


def compiled(function: Callable[..., Any]) -> Any:
    """Compile without Python and the GIL, with IEEE division, and keep the machine code."""
    settings: Any = numba_config
    before, settings.CACHE_DIR = settings.CACHE_DIR, _FOLDER
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(unique_name(function))
    finally:
        settings.CACHE_DIR = before
