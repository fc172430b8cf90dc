"""The decorator of functions that are parts of compiled ones, and that Python does not call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import register_jitable

from linsys.compiled import unique_name

__all__ = ["OPTIONS", "compiled_part"]

#: Options of numba for what compiled code alone calls. What Python and C would call it by takes a
#: quarter of the compilation of a function with many small parts.
OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled_part(function: Callable[..., Any]) -> Any:
    """Compile a function into those of :func:`linsys.compiled.compiled` that call it.

    Python calls it as it is written. The machine code is kept with that of the callers.

    >>> @compiled_part
    ... def half(x):
    ...     return x / 2.0
    >>> half(3.0)
    1.5
    """
    return register_jitable(**OPTIONS)(unique_name(function))
