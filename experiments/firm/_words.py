"""How notes speak of what came out: by the verdict, never by what was expected."""

from __future__ import annotations

from collections.abc import Iterable

import ratecheck as rc

__all__ = ["LAW", "format_interval", "outcome"]

#: The name of a series that is a closed form derived here.
LAW = "derived"


def outcome(checks: Iterable[rc.Check]) -> str:
    """The verdict on a claim that needs all of the checks.

    >>> outcome([rc.Check("smoother", "below 1", 0.5, 0.4, 1.2, None)])
    'not decided'
    """
    verdicts = [check.ok for check in checks]
    if all(verdicts):
        return "borne out"
    return "not borne out" if False in verdicts else "not decided"


def format_interval(number: rc.Interval | rc.Check, form: str = ".3f") -> str:
    """A measured number with its interval.

    >>> format_interval(rc.Interval(0.5, 0.4, 0.625), ".2f")
    '0.50 [0.40, 0.62]'
    """
    value, *ends = (
        (number.measured, number.lo, number.hi)
        if isinstance(number, rc.Check)
        else (number.value, number.lo, number.hi)
    )
    return f"{value:{form}} [{ends[0]:{form}}, {ends[1]:{form}}]"
