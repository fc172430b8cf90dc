"""What Python and NumPy ask of numbers in arrays of objects, where two functions give the rest."""

from __future__ import annotations

import dis
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

__all__ = ["ObjectNumber", "is_written", "numpys_answer"]

_Self = TypeVar("_Self", bound="ObjectNumber")


def numpys_answer(answer: Any) -> Any:
    """What a comparison says, as NumPy's numbers say it: ``~`` negates it, and ``+`` is "or"."""
    return np.bool_(answer) if isinstance(answer, bool) else answer


#: Modules whose functions stand between a comparison of a formula and its answer.
_NUMBERS = {f"linsys.linalg.{name}" for name in (
    "object_numbers", "recorded", "recorded_signs", "tapes", "degrees",
)}  # fmt: skip


def is_written() -> bool:
    """Whether a formula compares by an operator, and not by a function such as ``np.sort``.

    Of NaN an operator says no, but functions that sort take it for the largest, or the first.
    """
    formula = sys._getframe(1)
    while formula.f_globals["__name__"] in _NUMBERS and formula.f_back is not None:
        formula = formula.f_back
    return dis.opname[formula.f_code.co_code[formula.f_lasti]] in ("COMPARE_OP", "CONTAINS_OP")


class ObjectNumber(ABC):
    """A real number that compares and rounds, and has the attributes of NumPy's numbers.

    A subclass is made of a rational, and says how its numbers compare and which whole numbers a
    function of their values may give.
    """

    __slots__ = ()

    @abstractmethod
    def __init__(self, value: Any) -> None: ...

    @abstractmethod
    def _compared(self, other: Any, relation: str) -> Any:
        """Whether a relation holds; NotImplemented beside what is no number."""

    @abstractmethod
    def _whole(self, function: Callable[[Fraction], int]) -> int:
        """The whole number that a function such as ``math.floor`` gives."""

    @property
    def real(self: _Self) -> _Self:
        """The number itself."""
        return self

    @property
    def imag(self) -> int:
        """Zero."""
        return 0

    def conjugate(self: _Self) -> _Self:
        """The number itself."""
        return self

    def __pos__(self: _Self) -> _Self:
        return self

    def __hash__(self) -> int:
        raise TypeError("an enclosed number is no key: two of them may be the same number")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self._whole(round)
        scaled: ObjectNumber = self * 10**digits
        return type(self)(Fraction(scaled._whole(round), 10**digits))

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def rint(self: _Self) -> _Self:
        """The nearest whole number, of a half the even one."""
        return type(self)(self._whole(round))

    def __eq__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, "=="))

    def __ne__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, "!="))

    def __lt__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, "<"))

    def __le__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, "<="))

    def __gt__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, ">"))

    def __ge__(self, other: Any) -> Any:
        return numpys_answer(self._compared(other, ">="))
