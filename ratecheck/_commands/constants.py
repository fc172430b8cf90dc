"""What ``ratecheck audit --constant`` does: the least constants of bounds, and where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from ratecheck._claims.certificates import EXCESS
from ratecheck._claims.claim import Entry
from ratecheck._discover.catalogue import claims_of_command
from ratecheck._report.terminal import console, dump, say
from ratecheck._report.verdicts import fields_of
from ratecheck._verdicts.constant import ROUNDED, Constant, has_constant, tightest
from ratecheck._verdicts.verdict import with_option


def show(
    references: Sequence[str],
    effort: str,
    seed: int,
    limit: float | None,
    as_json: bool,
    *,
    broken: Callable[[str], None],
) -> None:
    """Print the least constant of each of these bounds; see :func:`ratecheck.tightest`.

    Of several statements those that are no bounds are named at the end.
    """
    entries = [item.entry for item in claims_of_command(references, broken)]
    bounds = [entry for entry in entries if has_constant(entry)]
    asked = bounds or entries
    constants = [tightest(one, effort, seed, limit=limit) for one in asked]
    if as_json:
        print(dump([one.to_dict() for one in constants]))
        return
    pairs = zip(asked, constants, strict=True)
    lines = [line for entry, constant in pairs for line in _lines(entry, constant)]
    if others := [entry.id for entry in entries if not has_constant(entry)]:
        lines.append(f"no bounds, and so without a constant: {', '.join(others)}")
    say(console(), lines)


def _lines(entry: Entry, one: Constant) -> list[str]:
    """The constant in words: what the search needs, then the instance that needs it."""
    if one.factor is None:
        lines = [f"{one.id}: nothing is known of its constant"]
    elif one.factor in (0, math.inf):
        lines = [f"{one.id}: no multiple of the bound is true"]
    else:
        factor = _factor(one.factor, up=one.relation == "<=")
        sides = f"measured {one.relation} {factor} * bound"
        lines = [f"{one.id}: {sides} on every instance tried"]
    if one.sure is not None:
        direction = "smaller" if one.relation == "<=" else "larger"
        lines.append(
            f"  no factor {direction} than {_factor(one.sure, up=one.relation == '>=')} is true, "
            "as this instance shows:"
        )
    if one.measured:
        lines.append(f"  measured {one.measured}, bound {one.bound}")
    lines += [f"  {line}" for line in fields_of(entry, one.instance)]
    lines += [f"  {with_option(one.reason, '--limit')}"] if one.reason else []
    return [*lines, f"  {one.instances:,} instances tried"]


def _factor(factor: float, *, up: bool) -> str:
    """A factor with six digits, or as its difference from one where these would not show it.

    What is printed is on the side on which the sentence is true: rounded up or down, unless it
    differs by less than verdicts tolerate.
    """
    difference = factor - 1
    if ROUNDED < abs(difference) < 1e-4:
        sign = "+" if difference > 0 else "-"
        return f"(1 {sign} {_rounded(abs(difference), 3, EXCESS, up=up is (difference > 0))})"
    return _rounded(factor, 6, EXCESS * abs(factor), up=up)


def _rounded(value: float, digits: int, tolerance: float, *, up: bool) -> str:
    nearest = f"{value:.{digits}g}"
    if not math.isfinite(value) or abs(float(nearest) - value) <= tolerance:
        return nearest
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(last, ROUND_CEILING if up else ROUND_FLOOR)):.{digits}g}"
