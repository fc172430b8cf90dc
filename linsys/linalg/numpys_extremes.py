"""NumPy's maximum and minimum for arrays of objects that have their own, while a block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy._core._methods

__all__ = ["OfObjects", "exchanged", "in_place_of_numpys"]

#: Of a reduction that starts with the first entry.
_NO_VALUE = np._NoValue


class OfObjects:
    """NumPy's maximum or minimum, for objects with a function of two of them in its place.

    Args:
        plain: the one of NumPy.
        function: of two objects.
    """

    def __init__(self, plain: np.ufunc, function: Callable[[Any, Any], Any]) -> None:
        self._plain, self._objects = plain, np.frompyfunc(function, 2, 1)

    def __call__(self, a: Any, b: Any, *args: Any, **options: Any) -> Any:
        """The larger or smaller one, entry by entry, as of a ufunc."""
        objects = any(np.asarray(side).dtype == object for side in (a, b))
        return (self._objects if objects else self._plain)(a, b, *args, **options)

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _NO_VALUE,
        where: Any = True,
    ) -> Any:
        """The largest or smallest entry along axes, as of a ufunc."""
        array = np.asarray(array)
        if array.dtype != object or out is not None or where is not True:
            options = {} if initial is _NO_VALUE else {"initial": initial}
            plain: Any = self._plain
            return plain.reduce(array, axis, dtype, out, keepdims, where=where, **options)
        axes = range(array.ndim) if axis is None else np.atleast_1d(axis).tolist()
        for one in sorted((a % array.ndim for a in axes), reverse=True):
            array = np.asarray(self._objects.reduce(array, axis=one, keepdims=keepdims))
        return (array if initial is _NO_VALUE else np.asarray(self(array, initial)))[()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def in_place_of_numpys(maximum: OfObjects, minimum: OfObjects) -> list[tuple[Any, str, Any]]:
    """Where NumPy has its functions and those of max() and min(), and what comes there."""
    methods = numpy._core._methods
    return [
        (np, "maximum", maximum),
        (np, "minimum", minimum),
        (methods, "umr_maximum", maximum.reduce),
        (methods, "umr_minimum", minimum.reduce),
    ]


@contextmanager
def exchanged(functions: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Within the block, attributes of places such as modules have other values."""
    before = [(place, name, getattr(place, name)) for place, name, _ in functions]
    try:
        for place, name, ours in functions:
            setattr(place, name, ours)
        yield
    finally:
        for place, name, theirs in before:
            setattr(place, name, theirs)
