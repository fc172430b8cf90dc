"""Prove what a claim's verdict says, with the least precision that does, or say why not."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linsys.linalg.balls import Undecided
from linsys.validate import InputError, check_flag, check_number
from ratecheck._certify import constants
from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.certificate import of_counterexample, of_identity
from ratecheck._certify.constant_formula import with_boxes
from ratecheck._certify.constant_search import Doing, constant as enclose_constant
from ratecheck._certify.enclosures import BITS, MOST, Unprovable, enclose
from ratecheck._certify.formula import with_formula
from ratecheck._certify.formulas import with_formulas
from ratecheck._certify.gram.certificate import of_theorem
from ratecheck._certify.gram.declared import Theorem, theorem_of
from ratecheck._certify.gram.solve import Unproved
from ratecheck._certify.identities import decide
from ratecheck._claims.claim import Claim, Entry
from ratecheck._claims.space import Sizes
from ratecheck._discover.catalogue import Item
from ratecheck._fallback import plain_name
from ratecheck._processes.limit import TimeLimit, computed, time_limit
from ratecheck._user_modules import PREFIX
from ratecheck._verdicts.certificates import Kept
from ratecheck._verdicts.testing import entry_of
from ratecheck._verdicts.verdict import LIMITS, judge

#: Why a claim of this kind has no certificate.
_NO_SIDES = {"rate": "an exponent is fitted to values at many sizes: no single expression"}
#: Why a bound has none that a search found to hold, and that no theorem states.
_SEARCHED = "an inequality, and searched: no counterexample"
#: Seconds of CPU time for one claim.
LIMIT = 300.0
#: And for the formula that its certificate carries, beside these.
FORMULA = 60.0
#: What is given to the last part of a proof where nothing is left.
_LEAST = 0.2


@dataclass(frozen=True)
class Proof:
    """What was proved of a claim: its certificate, or the reason why there is none.

    Args:
        id: of the claim.
        certificate: plain JSON values, which ``ratecheck certify --check`` verifies.
        reason: why there is no certificate; of a constant's, where a gap is left.

    >>> import ratecheck as rc
    >>> rc.Proof("mine.half", reason="no instance breaks it").certificate is None
    True
    """

    id: str
    certificate: Mapping[str, Any] | None = None
    reason: str = ""


def certify(
    claim: Entry | str,
    instance: Mapping[str, Any] | None = None,
    limit: float = LIMIT,
    *,
    constant: bool = False,
    sizes: Sizes | None = None,
) -> Proof:
    """Prove a claim's verdict: that it is false at an instance, or of an identity that it is true.

    Or enclose the best constant of an upper or a lower bound, for the instances of given sizes.

    Args:
        claim: any claim, or the id of one of the catalogue.
        instance: plain lists by field, to prove that the claim is false there; by default the
            counterexample of a quick search.
        limit: seconds of CPU time for the proof, with the search.
        constant: enclose the constant.
        sizes: for the constant, the size of every axis, such as ``{"n": 2, "d": 1}``; by default
            the smallest ones at which the claim says something.

    Raises:
        InputError: extra ``certify`` is not installed, the instance has other fields, the claim has
            other sizes or no constant, this is no claim, ``sizes`` without ``constant``, or
            ``constant`` with an instance.

    >>> from ratecheck import claim, interval
    >>> @claim(id="mine.root", source="", kind="upper", text="", fields={"x": interval()})
    ... def root(x):
    ...     return x, x**2
    >>> proof = certify(root)
    >>> proof.certificate["cases"]
    [{'entry': 0, 'measured': ['1/10', '1/10'], 'bound': ['1/100', '1/100']}]
    >>> @claim(id="mine.mean", source="", kind="upper", text="", fields={"x": interval("n")})
    ... def mean(x):
    ...     return x.mean(), x.max()
    >>> certify(mean, constant=True, sizes={"n": 2}).certificate["ratio"]
    ['1', '1.000500001']
    """
    claim = claim if isinstance(claim, Entry) else entry_of(claim)
    item = _item(claim)
    check_number("limit", limit, low=0)
    check_flag("constant", constant)
    if sizes is not None and not constant:
        raise InputError("`constant` must be True with `sizes`; found False")
    if instance is not None and constant:
        raise InputError("`instance` must be left out with `constant`; found one")
    if constant:
        return prove_constant(item, sizes, limit)
    if instance is None:
        return add_formula(search_and_prove(item, limit), item, limit)
    return prove(item, instance, limit)


def _item(claim: Entry) -> Item:
    """A claim with the place where another process finds it; none if no file defines it."""
    function = getattr(claim, "function", None)
    module = getattr(function, "__module__", "") or ""
    file = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if module == "__main__" or module.startswith(PREFIX) or "." not in module:
        return Item(claim, str(Path(file).resolve()) if file and Path(file).is_file() else "", "")
    return Item(claim, plain_name(module), "")


def prove(
    item: Item,
    instance: Mapping[str, Any] | None,
    limit: float = LIMIT,
    known: Sequence[Any] = (),
) -> Proof:
    """The proof of one claim's verdict, with the ``seconds`` of CPU time that it took.

    With an instance, that the claim is false there; without, that it is true, of an identity or of
    what a theorem states. Its certificate also names an instance near the bound, which is none
    further away than those that are ``known``.
    """
    return add_formula(prove_alone(item, instance, limit, known), item, limit)


def search_and_prove(item: Item, limit: float = LIMIT, known: Sequence[Any] = ()) -> Proof:
    """A quick search for a counterexample, then the proof of what it says, without the formula.

    The search may take half of the limit, and the proof what is left of it.
    """
    if not isinstance(item.entry, Claim):
        return prove_alone(item, None, limit, known)
    with computed() as spent:
        verdict = judge(item.entry, limit=min(LIMITS["quick"], limit / 2))
        if verdict.verdict == "error":
            return Proof(item.id, reason=verdict.reason)
        instance = verdict.counterexample if verdict.verdict == "violated" else None
        proof = prove_alone(item, instance, left_of(limit, spent()), known)
    if proof.reason == _SEARCHED and verdict.details.get("unfinished"):
        return replace(proof, reason=f"an inequality; of the search: {verdict.reason}")
    return proof


def left_of(limit: float, spent: float) -> float:
    """What is left of a limit, in tenths of seconds; at least so much that a reason can be said.

    >>> left_of(300.0, 0.01), left_of(300.0, 12.34), left_of(5.0, 5.2)
    (300.0, 287.7, 0.2)
    """
    return max(round(limit - spent, 1), _LEAST)


def prove_alone(
    item: Item,
    instance: Mapping[str, Any] | None,
    limit: float = LIMIT,
    known: Sequence[Any] = (),
) -> Proof:
    """As :func:`prove`, without the formula that a certificate carries."""
    started = time.process_time()
    return _timed(_prove(item, instance, limit, known), started)


def add_formula(proof: Proof, item: Item, limit: float) -> Proof:
    """A certificate with the formula as a program, if that shows by itself what it says."""
    adders: dict[str, Callable[..., dict[str, Any]]] = {
        "counterexample": with_formula,
        "identity": with_formulas,
        constants.KIND: with_boxes,
    }
    add = None if proof.certificate is None else adders.get(proof.certificate["kind"])
    if proof.certificate is None or add is None:
        return proof
    assert isinstance(item.entry, Claim)
    with contextlib.suppress(Unprovable, TimeLimit), time_limit(min(limit, FORMULA)):
        return replace(proof, certificate=add(proof.certificate, item.entry))
    return proof


def _timed(proof: Proof, started: float) -> Proof:
    if proof.certificate is None:
        return proof
    seconds = round(time.process_time() - started, 3)
    return replace(proof, certificate={**proof.certificate, "seconds": seconds})


def _prove(
    item: Item, instance: Mapping[str, Any] | None, limit: float, known: Sequence[Any]
) -> Proof:
    entry = item.entry
    if not isinstance(entry, Claim):
        return Proof(
            item.id, reason=_NO_SIDES.get(entry.kind, "it has no two sides at an instance")
        )
    if instance is None:
        theorem = theorem_of(item)
        if theorem is None:
            return _prove_identity(item, entry, limit)
        return _prove_theorem(item, theorem, limit, known)
    if set(instance) != set(entry.space.fields):
        raise InputError(
            f"`instance` must have the fields {sorted(entry.space.fields)}; "
            f"found {sorted(instance)}"
        )
    reason = ""
    try:
        with time_limit(limit):
            # a tie stays open with any number of bits; all else is decided by enough of them
            for most, bits in itertools.product((1, MOST), BITS):
                try:
                    enclosed = enclose(entry, instance, bits, most)
                except Undecided as error:
                    reason = f"with {bits} bits, {error}"
                    continue
                unmet = [name for name, told in enclosed.assumptions.items() if told == "not met"]
                if unmet:
                    return Proof(item.id, reason=f"the instance does not meet {unmet[0]!r} exactly")
                if enclosed.violates(entry.relation):
                    return Proof(item.id, of_counterexample(item, instance, enclosed))
                reason = f"the enclosures of the two sides overlap with {bits} bits"
                if not enclosed.bits:
                    return Proof(item.id, reason="the claim holds at the instance")
    except Unprovable as error:
        reason = str(error)
    except TimeLimit as error:
        reason = f"{error}; {reason}" if reason else str(error)
    return Proof(item.id, reason=reason)


def prove_constant(
    item: Item,
    sizes: Sizes | None = None,
    limit: float = LIMIT,
    state: Path | None = None,
    doing: Doing = lambda boxes, left, gap: None,
) -> Proof:
    """An interval for the best constant of a bound; see :mod:`ratecheck._certify.constants`.

    Or that the bound is false, where the search comes upon an instance that breaks it.

    Its certificate has ``seconds`` where the search did not go on from an earlier one.
    """
    proof = prove_constant_alone(item, sizes, limit, state, doing)
    return add_formula(proof, item, limit)


def prove_constant_alone(
    item: Item,
    sizes: Sizes | None,
    limit: float,
    state: Path | None,
    doing: Doing,
) -> Proof:
    """As :func:`prove_constant`, without the formula that a certificate carries."""
    if not isinstance(item.entry, Claim) or item.entry.relation == "==":
        raise InputError(f"`claim` must be an upper or a lower bound; found {item.id}")
    started, goes_on = time.process_time(), state is not None and state.is_file()
    with computed() as spent:
        try:
            certificate, reason = enclose_constant(item, sizes, limit, state=state, doing=doing)
        except Broken as error:
            return _timed(_broken(item, error, left_of(limit, spent())), started)
    proof = Proof(item.id, certificate, reason)
    return proof if goes_on else _timed(proof, started)


def _broken(item: Item, error: Broken, limit: float) -> Proof:
    """That a claim is false at the instance at which an attempt at a proof broke it."""
    if error.instance is None:
        return Proof(item.id, reason=str(error))
    proof = _prove(item, error.instance, limit, ())
    return replace(proof, reason=f"{error}; {proof.reason}" if proof.reason else str(error))


def _prove_theorem(item: Item, theorem: Theorem, limit: float, known: Sequence[Any]) -> Proof:
    """For all dimensions, by the theorem that states the claim."""
    try:
        with time_limit(limit):
            return Proof(item.id, of_theorem(item, theorem, known))
    except (Unproved, TimeLimit) as error:
        return Proof(item.id, reason=str(error))


def _prove_identity(item: Item, claim: Claim, limit: float) -> Proof:
    if claim.relation != "==":
        return Proof(item.id, reason=_SEARCHED)
    with computed() as spent:
        try:
            return Proof(item.id, of_identity(item, decide(claim, limit=limit)))
        except Broken as error:
            return _broken(item, error, left_of(limit, spent()))
        except (Unprovable, TimeLimit) as error:
            return Proof(item.id, reason=str(error))


def content(proofs: Sequence[Proof], items: Sequence[Item]) -> Kept:
    """What a paper keeps of its claims and their proofs."""
    entries = {item.id: item.entry for item in items}
    unproved = []
    for proof in proofs:
        if proof.certificate is None:
            entry = entries[proof.id]
            relation = entry.relation if isinstance(entry, Claim) else ""
            known = {"id": proof.id, "expected": entry.expect, "relation": relation}
            unproved.append({**known, "reason": proof.reason})
    return {
        "certificates": [p.certificate for p in proofs if p.certificate is not None],
        "unproved": unproved,
    }
