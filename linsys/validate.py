"""Checks of what a user passes in: one line with the name, what was expected and what was found."""

from __future__ import annotations

import inspect
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
_Kind = TypeVar("_Kind")

#: How far a distribution's total may be from one: rounding of a sum of at most 10^6 terms, not
#: sloppiness.
PROBABILITY_TOLERANCE = 1e-9


class InputError(ValueError):
    """A value cannot be used; the text says its name, what was expected and what was found."""


def shown(value: Any) -> str:
    """The beginning of what was passed in, on one line."""
    return " ".join(f"{value!r:.80}".split())


def plain(value: Any) -> NDArray[Any]:
    """``value`` as a NumPy array, tensors without their gradients.

    In single precision where NumPy lacks a tensor's type, bfloat16. Of dtype object, which no
    caller takes, where that would fail or lose something: nested lists of different lengths, lists
    of tensors that require gradients, sparse tensors, masked arrays.
    """
    if isinstance(value, np.ma.MaskedArray):
        return np.asarray(None)
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(None)


def real_array(
    name: str,
    value: ArrayLike,
    shape: Sequence[int | str],
    sizes: dict[str, int] | None = None,
) -> Array:
    """Return ``value`` as a read-only float64 array of the given shape.

    ``shape`` mixes numbers and names; a name is bound to the size first met in ``sizes``, which is
    updated, so that several arrays can be checked against each other.

    >>> sizes = {}
    >>> real_array("mu", [[0.5, 0.5]], ("n", "S"), sizes).shape, sizes
    ((1, 2), {'n': 1, 'S': 2})
    >>> real_array("b", [1.0], ("n", "S"))
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `b` must have shape (n, S); found (1,)
    """
    sizes = {} if sizes is None else sizes
    raw = plain(value)
    if raw.dtype == object:
        raise InputError(f"`{name}` must be a rectangular array of numbers; found {shown(value)}")
    if raw.dtype.kind not in "iuf":
        raise InputError(f"`{name}` must hold real numbers; found dtype {raw.dtype}")
    array = np.array(raw, dtype=np.float64, order="C")
    described = "(" + ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"
    if array.ndim != len(shape):
        raise InputError(f"`{name}` must have shape {described}; found {array.shape}")
    for expected, size in zip(shape, array.shape, strict=True):
        wanted = sizes.setdefault(expected, size) if isinstance(expected, str) else expected
        if wanted != size:
            bound = ", ".join(f"{k} = {v}" for k, v in sizes.items() if k in shape)
            where = f" with {bound}" if bound else ""
            raise InputError(f"`{name}` must have shape {described}{where}; found {array.shape}")
        if size == 0:
            raise InputError(f"`{name}` must not be empty; found shape {array.shape}")
    if not np.isfinite(array).all():
        where_bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"`{name}` must be finite; found {array[where_bad]} at index {where_bad}")
    array.setflags(write=False)
    return array


def finite_array(name: str, value: ArrayLike) -> Array:
    """``value`` as a finite float64 array of any shape, which may be empty.

    >>> finite_array("w", [1, 2])
    array([1., 2.])
    """
    raw = plain(value)
    if raw.dtype.kind not in "iuf":
        raise InputError(f"`{name}` must be an array of real numbers; found {shown(value)}")
    if not np.isfinite(raw).all():
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    return np.asarray(raw, dtype=np.float64)


def distributions(name: str, value: Array) -> Array:
    """Check that every row of ``value`` (rows, states) is a probability distribution."""
    if (value < 0).any():
        row, state = (int(i) for i in np.argwhere(value < 0)[0])
        raise InputError(
            f"`{name}` must be non-negative; "
            f"found {value[row, state]:.6g} at index ({row}, {state})"
        )
    totals = value.sum(axis=-1)
    off = np.abs(totals - 1.0)
    if (off > PROBABILITY_TOLERANCE).any():
        row = int(off.argmax())
        raise InputError(f"row {row} of `{name}` must sum to 1; found {totals[row]:.12g}")
    return value


def positive_definite_symmetric_part(name: str, matrices: Array) -> Array:
    """Check (M + M') / 2 > 0 for each matrix (k, d, d), as assumed below equation (2) of AffPCL."""
    if not np.isfinite(matrices).all():
        raise InputError(f"`{name}` must be finite; its entries overflow: scale the system down")
    symmetric = 0.5 * matrices + 0.5 * np.swapaxes(matrices, -1, -2)  # halves cannot overflow
    smallest = np.linalg.eigvalsh(symmetric)[..., 0]
    if (smallest <= 0).any():
        worst = int(smallest.argmin())
        raise InputError(
            f"the symmetric part of `{name}`[{worst}] must be positive definite; "
            f"found smallest eigenvalue {smallest[worst]:.6g}"
        )
    return matrices


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return ``value`` as a finite float in the range; booleans, text, NaN and infinity are errors.

    >>> check_number("alpha", 0.1, low=0, low_open=True)
    0.1
    """
    left = "(" if low_open or low == -math.inf else "["
    interval = f"{left}{low:g}, {high:g}{')' if high_open or high == math.inf else ']'}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InputError(f"`{name}` must be a number in {interval}; found {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of a double
        number = math.inf
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if not math.isfinite(number) or below or above:
        raise InputError(f"`{name}` must be a number in {interval}; found {number:g}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False, not merely something that counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"`{name}` must be True or False; found {shown(value)}")
    return bool(value)


def check_integer(name: str, value: Any, *, low: int = 0, high: int | None = None) -> int:
    """Return ``value`` as an int between ``low`` and ``high``; 3.0 and True are rejected."""
    wanted = f"a whole number of at least {low}" + (
        f" and at most {high}" if high is not None else ""
    )
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InputError(f"`{name}` must be {wanted}; found {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise InputError(f"`{name}` must be {wanted}; found {number}")
    return number


def check_instance(name: str, value: Any, kind: type[_Kind], wanted: str) -> _Kind:
    """Return ``value`` if it is of a class, which ``wanted`` describes.

    >>> check_instance("start", "0", int, "an int")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `start` must be an int; found '0'
    """
    if not isinstance(value, kind):
        raise InputError(f"`{name}` must be {wanted}; found {shown(value)}")
    return value


def check_function(name: str, value: Any, *arguments: str) -> Callable[..., Any]:
    """Return ``value`` if it can be called with such arguments, as far as its signature says.

    A decorated function has the decorator's own signature, which may add arguments.

    >>> check_function("key", lambda item, place: item, "item")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `key` must be a function of (item); found one of (item, place)
    """
    wanted = f"`{name}` must be a function of ({', '.join(arguments)})"
    if not callable(value):
        raise InputError(f"{wanted}; found {shown(value)}")
    function: Callable[..., Any] = value
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError):  # some built-in functions have none
        return function
    try:
        signature.bind(*arguments)
    except TypeError:
        raise InputError(f"{wanted}; found one of {signature}") from None
    return function


def check_indexed(name: str, value: Any, wanted: str) -> Any:
    """Return ``value`` if it has a length and places, as a list, an array or a data set has.

    >>> check_indexed("shards", {"a": 1}, "a list, of one per client")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `shards` must be a list, of one per client; found {'a': 1}
    """
    places = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if isinstance(value, Mapping) or not places:
        raise InputError(f"`{name}` must be {wanted}; found {shown(value)}")
    return value


def check_path(name: str, value: Any) -> Path:
    """Return ``value`` as a path; there need not be a file."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"`{name}` must be a path; found {shown(value)}")
    return Path(value)


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"`{name}` must be one of {', '.join(allowed)}; found {value!r}")
    return value


def increasing_times(times: ArrayLike) -> NDArray[np.int64]:
    """Return ``times`` as strictly increasing int64 values of at least zero."""
    raw = np.atleast_1d(plain(times))
    if raw.ndim != 1 or raw.size == 0 or raw.dtype.kind not in "iu":
        raise InputError(f"`times` must be a non-empty list of whole numbers; found {shown(times)}")
    array = raw.astype(np.int64)
    if array[0] < 0 or (np.diff(array) <= 0).any():
        raise InputError(
            "`times` must be strictly increasing and at least 0; found " + str(array.tolist())[:80]
        )
    array.setflags(write=False)
    return array
