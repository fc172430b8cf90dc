"""The least constant of a bound: the factor that a search needs, and the instance that needs it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeGuard

import numpy as np

from linsys.validate import InputError, check_integer, check_number
from ratecheck._claims.certificates import EXCESS, certify, ratio
from ratecheck._claims.claim import Claim, Entry
from ratecheck._claims.eased import eased
from ratecheck._claims.space import Fault, Fields
from ratecheck._names import check_name
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._search.search import EFFORTS, Search
from ratecheck._search.shrink import shrink
from ratecheck._search.small_numbers import with_small_numbers
from ratecheck._verdicts.testing import entry_of
from ratecheck._verdicts.verdict import FLOAT64_ONLY, LIMITS, plain, tightest_instance

#: So many searches, each for a violation of the constant that the one before needed; an excess of
#: so much over it counts as none.
_SEARCHES, _SETTLED = 12, 1e-6
#: An instance that breaks this multiple of the bound breaks all, for a search of a simpler one.
_ALL = 1e9
#: What a simpler instance may lose of the constant.
_GIVEN_UP = 0.01
#: CPU seconds in which an instance that is only shown is made simple.
_SIMPLER_SECONDS = 2.0
#: How far the quotient of two sides, each rounded to float64, may be from that of the sides.
ROUNDED = 1e-15


@dataclass(frozen=True)
class Constant:
    """By what a bound has to be multiplied so that no search breaks it.

    Attributes:
        id: the claim's id.
        relation: "<=" of an upper bound, ">=" of a lower one.
        factor: on all instances tried, measured <= factor * bound with the smallest such factor
            (of a lower bound measured >= factor * bound with the largest). Infinite (zero) where
            some instance breaks every multiple; None where no instance says anything of it.
        sure: the quotient of the two sides at ``instance``, in high precision: no smaller (larger)
            factor is true. None where high precision cannot say.
        instance: the tightest one, made simple, as plain lists by field.
        measured: first digits of the measured side there.
        bound: the same of the bound.
        instances: how many were measured.
        reason: one line on what else is to be known.

    >>> import ratecheck as rc
    >>> product = rc.claim(
    ...     id="mine.p", source="Lemma 2", text="x (1 - x) <= 1", kind="upper",
    ...     fields={"x": rc.interval()},
    ... )(lambda x: (x * (1 - x), 1))
    >>> rc.tightest(product).factor
    0.25
    """

    id: str
    relation: str
    factor: float | None
    sure: float | None = None
    instance: dict[str, Any] = field(default_factory=dict)
    measured: str = ""
    bound: str = ""
    instances: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; an infinite factor is the text "inf"."""
        infinite = self.factor is not None and math.isinf(self.factor)
        return asdict(self) | ({"factor": "inf"} if infinite else {})


def tightest(
    claim: Entry | str, effort: str = "quick", seed: int = 0, *, limit: float | None = None
) -> Constant:
    """The least constant with which a bound survives the search.

    Args:
        claim: an upper or a lower bound, true or false, or the id of one of the catalogue.
        effort: of each search, "quick", "normal" or "hunt".
        seed: of everything random.
        limit: seconds of CPU time for all of them; by default those of the effort.

    Raises:
        InputError: another kind of claim; one whose measure fails.

    >>> import ratecheck as rc
    >>> @rc.claim(
    ...     id="mine.root", source="", text="", kind="upper", fields={"p": rc.simplex("k")},
    ... )
    ... def root(p):
    ...     return (p**2).sum(), p.max() / 4
    >>> least = rc.tightest(root)
    >>> round(least.factor, 4), least.instance, least.sure
    (4.0, {'p': [1.0]}, 4.0)
    """
    entry = entry_of(claim)
    if not isinstance(entry, Claim) or not has_constant(entry):
        raise InputError(
            f"`claim` must be an upper or a lower bound; found {entry.id}, of the kind {entry.kind}"
        )
    check_name("`effort`", effort, list(EFFORTS))
    if limit is not None:
        check_number("limit", limit, low=0)
    check_integer("seed", seed)
    search = _Needed(entry)
    try:
        with time_limit(LIMITS[effort] if limit is None else limit):
            search.run(effort, seed)
            return search.constant()
    except TimeLimit as late:
        return search.constant(f"{late}: a larger limit may find more", simple=False)
    except Fault as fault:
        raise InputError(f"both sides of {entry.id} must be defined; found that {fault}") from None


def has_constant(entry: Entry) -> TypeGuard[Claim]:
    """Whether a statement is a bound, which a factor makes larger or smaller."""
    return isinstance(entry, Claim) and entry.relation != "=="


def made_simple(claim: Claim, instance: Mapping[str, Any], quotient: float) -> dict[str, Any]:
    """An instance with simpler numbers at which a bound is almost as tight, plain lists by field.

    Args:
        claim: an upper or a lower bound that holds.
        instance: plain lists by field.
        quotient: of the two sides there, above 0.

    Returns:
        One that loses at most a hundredth of the quotient; the same one where none is found in two
        seconds of CPU time, or where the claim knows no high precision.
    """
    fields = {name: np.asarray(values, dtype=float)[None] for name, values in instance.items()}
    try:
        with time_limit(_SIMPLER_SECONDS):
            return plain(shrink(eased(claim, quotient * (1 - _GIVEN_UP)), fields))
    except (Fault, TimeLimit):
        return dict(instance)


class _Needed:
    """The largest quotient of the two sides found, and where; of a lower bound its inverse."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.quotient: float | None = None
        self.fields: Fields | None = None
        self.instances = 0
        self.reason = ""
        self.certified = True

    def run(self, effort: str, seed: int) -> None:
        """Search for violations of the constant found so far, until there is none."""
        tried = 1.0
        for _ in range(_SEARCHES):
            searches = list(self._searches(eased(self.claim, tried), effort, seed))
            violation = searches[-1].violation
            if violation is None:
                for one in searches:
                    self._keep_tightest(one, effort, tried)
                return
            sides = certify(self.claim, violation.fields)
            self.fields = violation.fields
            self.quotient = ratio(self.claim.relation, sides)
            if self.quotient is None and max(sides.measured, sides.bound) < 0:
                self.reason = (
                    f"both sides are negative on an instance, {sides.text[0]} and {sides.text[1]}: "
                    "a larger multiple of the bound is then a stronger statement"
                )
                return
            if self.quotient is None:
                self.quotient = math.inf
                self.reason = "on this instance no multiple of the bound would do"
                return
            tried = self.quotient * (1 + _SETTLED)
        self.reason = f"each of {_SEARCHES} searches needed a larger one: there may be none"

    def _searches(self, claim: Claim, effort: str, seed: int) -> Iterator[Search]:
        """One search, and one for small numbers where that is another and the first finds none."""
        for one in filter(None, (claim, with_small_numbers(claim))):
            search = Search(one, seed)
            search.run(EFFORTS[effort])
            self.instances += search.instances
            yield search
            if search.violation is not None:
                return

    def _keep_tightest(self, search: Search, effort: str, tried: float) -> None:
        """The tightest instance of a search that found no violation, if it is tighter."""
        if not search.instances:
            self.reason = f"none of {search.sampled:,} instances meets what the claim is given"
            return
        verdict, instance = tightest_instance(search, EFFORTS[effort])
        if verdict.ratio is None:
            self.reason = self.reason or "on no instance tried both sides are positive"
        elif self.quotient is None or verdict.ratio * tried > self.quotient:
            self.quotient, self.fields = verdict.ratio * tried, instance.fields
            self.reason = verdict.reason
            self.certified = not verdict.reason.startswith(FLOAT64_ONLY)

    def constant(self, late: str = "", *, simple: bool = True) -> Constant:
        """What was found, at a simpler instance if that is to be looked for."""
        claim, quotient = self.claim, self.quotient
        if quotient is not None and ROUNDED < quotient - 1 <= EXCESS and not self.reason:
            self.reason = (
                f"the excess is within the tolerance of {EXCESS:g}, so that the verdict is holds"
            )
        told = {"instances": self.instances, "reason": late or self.reason}
        if quotient is None or self.fields is None:
            return Constant(claim.id, claim.relation, None, **told)  # type: ignore[arg-type]
        fields = self.fields
        if simple and self.certified:
            below = quotient * (1 - _GIVEN_UP) if quotient < math.inf else _ALL
            if quotient > 0:
                fields = shrink(eased(claim, below), fields)
        sure, sides = None, ("", "")
        if self.certified:
            certificate = certify(claim, fields)
            sure, sides = ratio(claim.relation, certificate), certificate.text
        return Constant(
            claim.id,
            claim.relation,
            self._factor(max(quotient, sure or 0.0)),
            None if sure is None else self._factor(sure),
            plain(fields),
            *sides,
            **told,  # type: ignore[arg-type]
        )

    def _factor(self, quotient: float) -> float:
        """What the bound is multiplied with."""
        if self.claim.relation == "<=":
            return quotient
        return 1 / quotient if quotient else math.inf
