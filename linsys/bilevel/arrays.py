"""Tables that a system keeps as NumPy arrays, in whichever namespace an algorithm calls with."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from linsys.validate import Array, InputError, shown

__all__ = ["finite", "namespace", "pad", "projected", "sigmoid", "table", "vector"]


#: What :func:`array_namespace` says of NumPy's arrays.
_NUMPY = array_namespace(np.empty(0))


def namespace(*arrays: Any) -> Any:
    """:func:`array_namespace` of these arrays, at once where they are NumPy's."""
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_namespace(*arrays)
    return _NUMPY


def table(owner: Any, name: str, reference: Any) -> Any:
    """``owner.name`` in the namespace, type and device of ``reference``; copied once for each."""
    array: Array = getattr(owner, name)
    if isinstance(reference, np.ndarray) and reference.dtype == array.dtype:
        return array
    xp, place = array_namespace(reference), device(reference)
    copies = owner.__dict__.setdefault("_copies", {})
    key = (name, xp.__name__, reference.dtype, place)
    if key not in copies:
        # a copy: torch warns of arrays that it must not write to
        copies[key] = xp.asarray(array.copy(), dtype=reference.dtype, device=place)
    return copies[key]


def vector(name: str, value: Any, size: int) -> Any:
    """``value`` if it is one vector of ``size`` numbers in some namespace.

    >>> vector("theta", np.zeros(3), 2)
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `theta` must have shape (2,); found (3,)
    """
    if _is_of_doubles(value) and value.shape == (size,):  # asked several times in every step
        return value
    shape = getattr(value, "shape", None)
    if shape is None:
        raise InputError(f"`{name}` must be an array of shape ({size},); found {shown(value)}")
    if tuple(shape) != (size,):
        raise InputError(f"`{name}` must have shape ({size},); found {tuple(shape)}")
    # tables are cast to the type of the vector, which would round them to whole numbers
    if not array_namespace(value).isdtype(value.dtype, "real floating"):
        raise InputError(f"`{name}` must hold floating-point numbers; found dtype {value.dtype}")
    return value


def _is_of_doubles(value: Any) -> bool:
    """Whether this is NumPy's plain array of doubles, of which nothing else has to be asked."""
    return type(value) is np.ndarray and value.dtype == np.float64


def pad(size: int) -> int:
    """The least multiple of 4 that is not below ``size``: numbers that Philox makes at once.

    >>> pad(1), pad(8)
    (4, 8)
    """
    return -(-size // 4) * 4


def finite(name: str, value: Any) -> Any:
    """``value`` if it holds neither NaN nor infinity.

    >>> finite("phi", np.array([np.nan]))
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `phi` must be finite; found NaN or infinity
    """
    if _is_of_doubles(value) and np.isfinite(value).all():
        return value
    if getattr(value, "shape", None) is None:
        raise InputError(f"`{name}` must be an array; found {shown(value)}")
    try:
        xp = array_namespace(value)
        numeric = xp.isdtype(value.dtype, "numeric")
    except TypeError:  # text, objects
        numeric = False
    if not numeric:
        raise InputError(f"`{name}` must hold numbers; found dtype {value.dtype}")
    if not bool(xp.all(xp.isfinite(value))):
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    return value


def projected(theta: Any, radius: float | None) -> tuple[Any, float]:
    """The nearest point of the ball of a radius, and by how much it was shrunk; 1.0 within.

    >>> projected(np.array([3.0, 4.0]), 1.0)
    (array([0.6, 0.8]), 0.2)
    """
    if radius is None:
        return theta, 1.0
    norm = float(namespace(theta).linalg.vector_norm(theta))
    if not norm > radius:
        return theta, 1.0
    return theta * (radius / norm), radius / norm


def sigmoid(u: Array) -> Array:
    """1 / (1 + exp(-u)) without overflow, to a few roundings for u < 0 too.

    >>> float(sigmoid(np.array(-1000.0)))
    0.0
    """
    small = np.exp(-np.abs(u))
    return np.asarray(np.where(u < 0, small, 1.0) / (1.0 + small))
