"""NumPy's maximum and minimum for arrays of objects that have their own, while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy._core._methods
import numpy.lib._type_check_impl

from linsys.linalg import _precise

__all__ = ["OfObjects", "arithmetic"]

#: Of a reduction that starts with the first entry.
_NO_VALUE = np._NoValue
_CLIP = np.clip
#: The module of ``np.nan_to_num``.
_TYPE_CHECK: Any = numpy.lib._type_check_impl
#: Held by the thread whose arithmetic the process has.
_ENTERED = threading.RLock()


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


class _OfNanToNum:
    """What ``np.nan_to_num`` computes with, under whatever name it was imported.

    It leaves objects as they are, NaN among them; here it refuses them.
    """

    _plain = _TYPE_CHECK._nx

    def array(self, x: Any, **options: Any) -> Any:
        """NumPy's, with which the function begins; of objects there is none."""
        made = self._plain.array(x, **options)
        if made.dtype == object:
            raise TypeError("np.nan_to_num of what is no float: whether it is NaN is not known")
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _clip(a: Any, *ends: Any, **options: Any) -> Any:
    """NumPy's, which takes NaN among objects for an end; here it is NaN, as among floats."""
    if np.asarray(a).dtype != object or options or len(ends) != 2:
        return _CLIP(a, *ends, **options)
    low, high = ends
    raised = a if low is None else np.maximum(a, low)
    return raised if high is None else np.minimum(raised, high)


@contextmanager
def arithmetic(
    functions: Mapping[str, Callable[..., Any]], maximum: OfObjects, minimum: OfObjects
) -> Iterator[None]:
    """Within the block, :mod:`linsys.linalg` computes with other numbers than mpmath's.

    It is a state of the process. A second thread that enters waits for the first one. Threads that
    do not enter may use NumPy on arrays of floats meanwhile, but neither high precision nor
    compile with numba, which does not know the functions that stand for NumPy's.

    Args:
        functions: in place of those of these names in ``linsys/linalg/_precise.py``.
        maximum: in place of NumPy's, of its reductions and of the method ``max``.
        minimum: the same.
    """
    methods = numpy._core._methods
    ours: list[tuple[Any, str, Any]] = [(_precise, *item) for item in functions.items()]
    ours += [(np, "maximum", maximum), (np, "minimum", minimum)]
    ours += [(_TYPE_CHECK, "_nx", _OfNanToNum()), (np, "clip", _clip)]
    ours += [(methods, "umr_maximum", maximum.reduce), (methods, "umr_minimum", minimum.reduce)]
    with _ENTERED:
        before = [(place, name, getattr(place, name)) for place, name, _ in ours]
        try:
            _put(ours)
            yield
        finally:
            try:
                _put(before)
            except BaseException:  # a limit of time, which strikes anywhere
                _put(before)
                raise


def _put(functions: list[tuple[Any, str, Any]]) -> None:
    """Set functions as attributes of these places, by their names."""
    for place, name, function in functions:
        setattr(place, name, function)
