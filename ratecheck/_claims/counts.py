"""Whole numbers of an instance: in arithmetic what they were, and accepted where Python counts.

As integers of NumPy their powers would overflow without a word, and as integers of Python as well
once they are in an array. So a number remains a float, or one of high precision, and
has ``__index__`` beside it: ``range``, ``math.comb``, indices and shapes of arrays take it. What is
computed from it is an ordinary number again, with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsys.linalg import precise

_Precise: type = type(precise([1.0])[0])


def _index(number: Any) -> int:
    return int(number)


_KINDS: dict[type, type] = {
    kind: type("WholeNumber", (kind,), {"__index__": _index, "__slots__": ()})
    for kind in (np.float64, _Precise)
}


def counting(number: Any) -> Any:
    """A whole number as one that counts; numbers of other kinds, such as balls, as they are.

    >>> n = counting(np.float64(3))
    >>> list(range(n)), n / 2, type(n + 1).__name__
    ([0, 1, 2], np.float64(1.5), 'float64')
    """
    kind = _KINDS.get(type(number))
    return number if kind is None else kind(number)
