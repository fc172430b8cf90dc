"""High-precision numbers that answer as float64 does: a claim is one statement with both.

The class of these numbers is that of :mod:`linsys.linalg`, which is mpmath's. A comparison of
mpmath's numbers is Python's ``bool``, of which ``~True`` is -2, and the root of a negative one is
complex, where NumPy's is NaN. A division by zero stays an error: NumPy's infinity has the sign of
the zero, which these numbers do not have.

A constant in the formula is the decimal that it was written as, as an instance's numbers are: where
x is 0.1, ``x < 0.1`` is false with 40 digits as well. One of more than twelve digits, such as
``math.sqrt(2)``, is the float that it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from linsys.linalg import precise
from linsys.linalg.object_numbers import numpys_answer
from linsys.linalg.rounded import reach

#: The class of high-precision numbers.
_NUMBER: Any = type(precise([0.0])[0])
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_ARITHMETIC = ("add", "sub", "mul", "truediv", "mod", "pow")
_OPERATIONS = [f"__{turned}{name}__" for turned in ("", "r") for name in _ARITHMETIC]
#: What mpmath continues to complex numbers; NumPy's ufuncs call the methods of these names.
_CONTINUED = ("sqrt", "log", "log1p", "arccos", "__pow__")


def _takes_decimals(operation: str) -> None:
    """Of a constant that is a float an operation takes the decimal."""
    plain = getattr(_NUMBER, operation)

    def of_decimals(number: Any, other: Any) -> Any:
        if isinstance(other, float):
            other = _meant(float(other), _NUMBER.context.prec)
        return plain(number, other)

    setattr(_NUMBER, operation, of_decimals)


@lru_cache(maxsize=1024)
def _meant(value: float, bits: int) -> Any:
    """What a float in a formula stands for, in so many bits."""
    exact = value.is_integer() or not math.isfinite(value) or reach(value)
    return value if exact else _NUMBER(repr(value))


def _compares_as_numpy(relation: str) -> None:
    of_python = getattr(_NUMBER, relation)
    setattr(_NUMBER, relation, lambda one, other: numpys_answer(of_python(one, other)))


def _is_nan_outside_its_domain(name: str) -> None:
    continued = getattr(_NUMBER, name)

    def real(number: Any, *others: Any) -> Any:
        value = continued(number, *others)
        outside = hasattr(value, "imag") and not isinstance(value, _NUMBER)
        given = all(not hasattr(other, "imag") or other.imag == 0 for other in others)
        return _NUMBER("nan") if outside and given else value

    setattr(_NUMBER, name, real)


for _name in (*_COMPARISONS, *_OPERATIONS):
    _takes_decimals(_name)
for _name in _COMPARISONS:
    _compares_as_numpy(_name)
for _name in _CONTINUED:
    _is_nan_outside_its_domain(_name)
