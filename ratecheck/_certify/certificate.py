"""A certificate: what is proved, of which claim, with which arithmetic; as plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from ratecheck._certify.at_a_point import CHANCE
from ratecheck._certify.check import FORMAT, Interval
from ratecheck._certify.enclosures import Case, Enclosed
from ratecheck._certify.identities import Decided
from ratecheck._certify.random_points import DRAWN_WHOLE
from ratecheck._certify.stated import sizes_of_instance
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Whole
from ratecheck._discover.catalogue import Item
from ratecheck._verdicts.certificates import revision

#: Digits of the ends of enclosures, rounded outward.
_DIGITS = 25
_WITH_ROOTS = "exact rationals, roots and exponentials at random points"
#: On which branches an identity is proved that compares numbers.
EVERY, MET = "every one", "those that the points met"
#: Rationals of at most so many characters are written as such.
_SHORT = 40


def of_counterexample(
    item: Item, instance: Mapping[str, Any], enclosed: Enclosed
) -> dict[str, Any]:
    """The certificate of a counterexample: both sides at an instance, and that they are apart.

    Raises:
        Unprovable: the claim is not about instances of these sizes.
    """
    assert isinstance(item.entry, Claim)
    sizes_of_instance(item.entry, instance)
    return {
        **head(item, "counterexample"),
        "arithmetic": "balls" if enclosed.bits else "exact rationals",
        "bits": enclosed.bits,
        "digits": digits(enclosed.cases),
        "constants": list(enclosed.constants),
        "assumptions": dict(enclosed.assumptions),
        "cases": [
            {"entry": c.entry, "measured": written(c.measured), "bound": written(c.bound)}
            for c in enclosed.cases
        ],
        "instance": {name: instance[name] for name in item.entry.space.fields},
    }


def of_identity(item: Item, decided: Decided) -> dict[str, Any]:
    """The certificate of an identity: for which sizes, and with which chance of an error."""
    assert isinstance(item.entry, Claim)
    return {
        **head(item, "identity"),
        "arithmetic": _WITH_ROOTS if decided.formal else "exact rationals at random points",
        "sizes": [dict(sizes) for sizes in decided.sizes],
        "all_sizes": decided.all_sizes,
        **({"left": decided.left} if decided.left else {}),
        **_branches(decided),
        **_whole(item.entry, decided),
        "log2_chance": -CHANCE,
    }


def _branches(decided: Decided) -> dict[str, Any]:
    """On which branches of its formula an identity is proved, and how many were looked at."""
    if not decided.compares:
        return {"branches": "none"}
    ways: dict[str, Any] = {"ways": decided.ways} if decided.every else {}
    if decided.empty:
        ways["empty"] = decided.empty
    if decided.ties:
        ways["ties"] = "left out"
    if len(decided.every) == len(decided.sizes):
        return {"branches": EVERY, **ways}
    some = {"every_branch": [dict(sizes) for sizes in decided.every]} if decided.every else {}
    differ = {"differ": True} if decided.differ else {}
    return {"branches": MET, **some, "open": decided.open, **differ, **ways}


def _whole(claim: Claim, decided: Decided) -> dict[str, Any]:
    """Fields of whole numbers that are taken as they are drawn, and how far others are covered."""
    names = [name for name, domain in claim.space.fields.items() if isinstance(domain, Whole)]
    if decided.whole == DRAWN_WHOLE:
        return {"drawn": names}
    return {"drawn": [], **({"whole": {name: decided.whole for name in names}} if names else {})}


def head(item: Item, kind: str) -> dict[str, Any]:
    """What every certificate says of its claim."""
    assert isinstance(item.entry, Claim)
    users = item.origin.endswith(".py")
    return {
        "format": FORMAT,
        "kind": kind,
        "id": item.id,
        **({"file": str(Path(item.origin).resolve())} if users else {}),
        "revision": revision(item.origin),
        "relation": item.entry.relation,
    }


def written(interval: Interval) -> list[str]:
    """The ends of an interval as text, outward.

    >>> written((Fraction(1, 3), Fraction(1, 3)))
    ['1/3', '1/3']
    >>> written((Fraction(1, 3**40), Fraction(2, 3**40)))
    ['8.225263339969959081282058E-20', '1.645052667993991816256412E-19']
    """
    if interval[0] == interval[1] and len(str(interval[0])) <= _SHORT:
        return [str(interval[0])] * 2
    ends = zip(interval, (ROUND_FLOOR, ROUND_CEILING), strict=True)
    return [_decimal(end, rounding) for end, rounding in ends]


def _decimal(value: Fraction, rounding: str) -> str:
    context = Context(prec=_DIGITS, rounding=rounding, Emin=-(10**9), Emax=10**9)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def digits(cases: Sequence[Case]) -> int:
    """So many digits of both sides are known, at most 25; all of them where they are exact."""
    known = [_known(side) for case in cases for side in (case.measured, case.bound)]
    return min(known)


def _known(interval: Interval) -> int:
    low, high = interval
    width, size = high - low, max(abs(low), abs(high))
    for count in range(_DIGITS, 0, -1):
        if width * 10**count <= size:
            return count
    return 0
