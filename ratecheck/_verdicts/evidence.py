"""What a verdict rests on: a word for each kind of evidence, which every page and command uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any


class Evidence(StrEnum):
    """The words, the strongest first; :data:`MEANING` says what each means."""

    FALSE = "proved false"
    ALL = "proved for all dimensions"
    STEP = "proved from premises"
    SIZES = "proved at sizes"
    ENCLOSED = "enclosed"
    CONFIRMED = "confirmed"
    DERIVED = "derived"
    EVERY = "every instance checked"
    SEARCHED = "searched"
    SAMPLED = "sampled"
    FITTED = "fitted"


MEANING = {
    Evidence.FALSE: "a certificate that both sides are apart at an instance",
    Evidence.ALL: "a certificate of an identity in rationals for vectors of every dimension",
    Evidence.STEP: "such a certificate, from statements that are not proved so themselves",
    Evidence.SIZES: "a certificate for the sizes that it names",
    Evidence.ENCLOSED: "a certificate of an interval for the best constant at the sizes named",
    Evidence.CONFIRMED: "a counterexample, evaluated again with 40 and 80 digits",
    Evidence.DERIVED: "a derivation in words in the note, which the search agrees with",
    Evidence.EVERY: "each of the few instances that there are",
    Evidence.SEARCHED: "a search that found no counterexample",
    Evidence.SAMPLED: "a sequential test of samples",
    Evidence.FITTED: "fitted exponents",
}


def of_audit(said: str) -> Evidence | None:
    """The kind of what an audit says decided; None where nothing did.

    >>> of_audit("searched, constructed: x is small").name
    'SEARCHED'
    """
    return next((kind for kind in Evidence if said.startswith(kind)), None)


def of_certificate(
    certificate: Mapping[str, Any], premises: Mapping[str, Evidence | None] | None = None
) -> Evidence:
    """The kind of what a certificate proves.

    Args:
        certificate: plain JSON values.
        premises: evidence for the claims that a theorem assumes, by their ids; by default they
            count as not proved.

    >>> of_certificate({"kind": "constant", "ratio": ["1", "1.0005"]}).value
    'enclosed'
    """
    if certificate["kind"] == "counterexample":
        return Evidence.FALSE
    if certificate["kind"] == "quadratic":
        return Evidence.STEP if unproved(certificate, premises) else Evidence.ALL
    if certificate["kind"] == "constant":
        high = Fraction(certificate["ratio"][1])  # below 1 nothing is said of negative bounds
        return Evidence.SIZES if high == 1 or "bound" in certificate else Evidence.ENCLOSED
    return Evidence.SIZES


def assumed(certificate: Mapping[str, Any]) -> list[str]:
    """The claims that a theorem assumes, by their ids in the names of its assumptions.

    >>> theorem = {"assumes": {"1. mine.lemma, twice": "x >= 0", "2. a mean": "y >= 0"}}
    >>> assumed({"kind": "quadratic", "id": "mine.step", "theorem": theorem})
    ['mine.lemma']
    """
    if certificate["kind"] != "quadratic":
        return []
    return list(dict.fromkeys(name for names in named_in(certificate) for name in names))


def named_in(certificate: Mapping[str, Any]) -> list[list[str]]:
    """Of each assumption of a theorem the claims that its name names."""
    paper = re.escape(certificate["id"].partition(".")[0])
    names = certificate["theorem"]["assumes"]
    return [re.findall(rf"\b{paper}\.\w+", name) for name in names]


def unproved(
    certificate: Mapping[str, Any], premises: Mapping[str, Evidence | None] | None
) -> dict[str, Evidence | None]:
    """Of the claims that a theorem assumes, those not proved for all dimensions, with evidence."""
    known = dict.fromkeys(assumed(certificate)) if premises is None else premises
    return {name: kind for name, kind in known.items() if kind != Evidence.ALL}


def decided_by(records: Sequence[Mapping[str, Any]]) -> str:
    """How many statements were decided by what, the strongest evidence first.

    >>> decided_by([{"decided": "searched"}, {"decided": "proved false"}, {"decided": ""}])
    '1 proved false, 1 searched'
    """
    decided = Counter(record.get("decided") for record in records)
    return ", ".join(f"{decided[kind]} {kind}" for kind in Evidence if decided[kind])
