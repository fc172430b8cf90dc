"""How notes speak of what came out: by the verdict, never by what was expected."""

from __future__ import annotations

from collections.abc import Iterable

from experiments._model import Check
from experiments._rates import Interval

__all__ = ["outcome", "ranged"]


def outcome(checks: Iterable[Check]) -> str:
    """What the checks say of a claim that needs all of them.

    >>> outcome([Check("smoother", "below 1", 0.5, 0.4, 1.2, None)])
    'not decided'
    """
    verdicts = [check.ok for check in checks]
    if all(verdicts):
        return "borne out"
    return "not borne out" if False in verdicts else "not decided"


def ranged(number: Interval | Check, form: str = ".3f") -> str:
    """A measured number with its interval.

    >>> ranged(Interval(0.5, 0.4, 0.625), ".2f")
    '0.50 [0.40, 0.62]'
    """
    value, *ends = (
        (number.measured, number.lo, number.hi)
        if isinstance(number, Check)
        else (number.value, number.lo, number.hi)
    )
    return f"{value:{form}} [{ends[0]:{form}}, {ends[1]:{form}}]"
