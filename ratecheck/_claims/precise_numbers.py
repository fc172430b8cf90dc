"""High-precision numbers that answer as float64 does: a claim is one statement with both.

The class of these numbers is that of :mod:`linsys.linalg`, which is mpmath's. A comparison of
mpmath's numbers is Python's ``bool``, of which ``~True`` is -2, and the root of a negative one is
complex, where NumPy's is NaN. A division by zero stays an error: NumPy's infinity has the sign of
the zero, which these numbers do not have.
"""

from __future__ import annotations

from typing import Any

from linsys.linalg import precise
from linsys.linalg.object_numbers import numpys_answer

#: The class of high-precision numbers.
_NUMBER: Any = type(precise([0.0])[0])
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
#: What mpmath continues to complex numbers; NumPy's ufuncs call the methods of these names.
_CONTINUED = ("sqrt", "log", "log1p", "arccos", "__pow__")


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


for _name in _COMPARISONS:
    _compares_as_numpy(_name)
for _name in _CONTINUED:
    _is_nan_outside_its_domain(_name)
