"""What computes in this process, in one line: two processes with the same line give the same bits.

The line is made when this module is imported. Workers are copied from a process that imports it
together with our other packages, so that it speaks of the sources that are loaded and not of those
that have been written to the disk since.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import platform

from ratecheck._fallback import PACKAGES, ROOT

#: What computes numbers, searches, proves and writes files, as far as it is installed.
_LIBRARIES = (
    *("numpy", "scipy", "numba", "mpmath", "hypothesis"),
    *("python-flint", "cvxpy", "clarabel", "pyarrow"),
)


def _line() -> str:
    content = hashlib.sha256()
    for package in sorted({*PACKAGES, "ratecheck"}):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_bytes()
            content.update(f"{path.relative_to(ROOT).as_posix()}\0{len(text)}\0".encode())
            content.update(text)
    parts = [content.hexdigest()[:16], f"python {platform.python_version()}"]
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            parts.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(parts)


#: The revision of all our sources, and versions of Python and of what computes.
SOURCES = _line()
