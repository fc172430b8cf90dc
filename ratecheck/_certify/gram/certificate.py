"""Certificates of theorems: made of a proof, and checked against the theorem as it is declared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from linsys.linalg.balls import Undecided
from linsys.validate import InputError
from ratecheck._certify.certificate import head, of_counterexample
from ratecheck._certify.check import Wrong
from ratecheck._certify.enclosures import BITS, Unprovable, enclose
from ratecheck._certify.gram import correspondence
from ratecheck._certify.gram.declared import (
    DIGITS,
    Theorem,
    disagreement,
    excess_of,
    theorem_of,
)
from ratecheck._certify.gram.proof import prove
from ratecheck._certify.gram.solve import Unproved
from ratecheck._certify.gram.verify import told, verify
from ratecheck._certify.ratios import found, verify_found
from ratecheck._certify.stated import same
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import Item
from ratecheck._verdicts.certificates import in_words

#: What a certificate of this kind has to say, and what it may say besides.
KIND, KEYS, MORE = "quadratic", {"theorem", "excess", "terms"}, {"found", "agrees"}
_TERM, _FOUND = {"of", "multiplier"}, {"ratio", "sizes", "instance"}


def of_theorem(item: Item, theorem: Theorem, known: Sequence[Any] = ()) -> dict[str, Any]:
    """The certificate of a claim that a theorem states.

    Where there is no proof, the worst instance of the theorem is tried on the claim itself: the
    certificate may be that of a counterexample.

    Args:
        item: the claim.
        theorem: what states it.
        known: instances near the bound that were found before.

    Raises:
        Unproved: there is neither, or the theorem does not state the claim.
    """
    assert isinstance(item.entry, Claim)
    if reason := disagreement(theorem, item.entry):
        raise Unproved(reason)
    try:
        proof = prove(theorem.problem)
    except Unproved as error:
        counterexample = _broken(item, item.entry, theorem)
        if counterexample is None:
            raise Unproved(str(error)) from None
        return counterexample
    return {
        **head(item, KIND),
        "arithmetic": "exact rationals",
        "theorem": stated(theorem),
        "excess": str(proof.excess),
        "terms": [dict(term) for term in proof.terms],
        **_agrees(item, theorem),
        **found(item.entry, known),
    }


def _agrees(item: Item, theorem: Theorem) -> dict[str, Any]:
    """For which sizes a theorem of a user's file is its claim, as functions."""
    assert isinstance(item.entry, Claim)
    return {"agrees": correspondence.known(theorem, item.entry).stated()} if _of_user(item) else {}


def _of_user(item: Item) -> bool:
    return item.origin.endswith(".py")


def _broken(item: Item, claim: Claim, theorem: Theorem) -> dict[str, Any] | None:
    """The certificate that the claim is false at the worst instance of its theorem, if it is."""
    instance = theorem.candidate()
    if instance is None or set(instance) != set(claim.space.fields):
        return None
    for bits in BITS:
        with contextlib.suppress(Undecided, Unprovable):
            enclosed = enclose(claim, instance, bits)
            met = all(told == "proved" for told in enclosed.assumptions.values())
            if met and enclosed.violates(claim.relation):
                return of_counterexample(item, instance, enclosed)
    return None


def stated(theorem: Theorem) -> dict[str, Any]:
    """What a theorem says, in text that its certificate repeats.

    ``itself`` names the assumptions that alone are what is shown, but for a factor.
    """
    problem = theorem.problem
    assert problem.conclusion is not None
    itself = [
        one.name
        for one in problem.assumed
        if len(one.matrix) == 1 and one.matrix[0][0].is_multiple_of(problem.conclusion.slack)
    ]
    return {
        **told(problem),
        "text": theorem.text,
        **({"itself": itself} if itself else {}),
        "power": theorem.power,
    }


def check(content: Mapping[str, Any], item: Item) -> str:
    """What a certificate of a theorem proves, in a line.

    The identity is built from the theorem as it is declared, and the theorem is compared with the
    claim's own function: on instances of the claim's space, and as functions at the sizes stated.

    Raises:
        Wrong: it proves nothing.
    """
    assert isinstance(item.entry, Claim)
    theorem = theorem_of(item)
    if theorem is None:
        raise Wrong(f"`id` must be of a claim that a theorem states; found {item.id}")
    try:
        true, excess = stated(theorem), excess_of(content["excess"])
    except (ValueError, ZeroDivisionError):
        raise Wrong(
            f"`excess` must be a rational, 0 or more; found {content['excess']!r}"
        ) from None
    if content["excess"] != str(excess):
        raise Wrong(f"`excess` must be written {excess}; found {content['excess']!r:.80}")
    if not same(content["theorem"], true):
        raise Wrong("`theorem` must be what is declared; found another one")
    if content["arithmetic"] != "exact rationals":
        raise Wrong(f"`arithmetic` must be exact rationals; found {content['arithmetic']!r}")
    terms, near = content["terms"], content.get("found", dict.fromkeys(_FOUND))
    if not isinstance(terms, list) or not all(
        isinstance(term, Mapping) and set(term) == _TERM for term in terms
    ):
        raise Wrong("`terms` must be a list of multipliers; found something else")
    if not isinstance(near, Mapping) or set(near) != _FOUND:
        raise Wrong(f"`found` must have {', '.join(sorted(_FOUND))}; found other keys")
    try:
        verify(theorem.problem, terms, excess)
        if reason := disagreement(theorem, item.entry):
            raise Wrong(reason)
        if _of_user(item) or "agrees" in content:
            correspondence.check(content.get("agrees"), theorem, item.entry)
        if "found" in content:
            verify_found(content["found"], item.entry)
    except (InputError, Unprovable) as error:
        raise Wrong(str(error)) from None
    return f"{in_words(content)}; what is shown is the claim, as instances say in {DIGITS} digits"
