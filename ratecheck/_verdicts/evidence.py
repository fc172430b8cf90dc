"""What a verdict rests on: a word for each kind of evidence, which every page and command uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any


class Evidence(StrEnum):
    """The words, the strongest first; :data:`MEANING` says what each means.

    From ``FACTOR`` to ``MET``, and from ``DERIVED`` on, the statement itself is not proved.
    """

    FALSE = "proved false"
    ALL = "proved for all dimensions"
    ASSUMED = "proved under assumptions"
    STEP = "proved from premises"
    SIZES = "proved at sizes"
    TIES = "proved but for ties"
    WHOLE = "proved for whole numbers drawn"
    FACTOR = "proved up to a factor"
    ENCLOSED = "enclosed"
    MET = "holds on branches met"
    CONFIRMED = "confirmed"
    DERIVED = "derived"
    EVERY = "every instance checked"
    SEARCHED = "searched"
    SAMPLED = "sampled"
    FITTED = "fitted"


#: The words that say that a statement is true, whatever for.
PROVED = tuple(Evidence)[1 : tuple(Evidence).index(Evidence.FACTOR)]

MEANING = {
    Evidence.FALSE: "a certificate that both sides are apart at an instance",
    Evidence.ALL: "a certificate of an identity in rationals for vectors of every dimension",
    Evidence.ASSUMED: "such a certificate, from inequalities that it lists and a reader judges",
    Evidence.STEP: "such a certificate, from statements that are not proved so themselves",
    Evidence.SIZES: "a certificate for the sizes that it names",
    Evidence.TIES: "such a certificate, but where numbers that the formula compares are equal",
    Evidence.WHOLE: "such a certificate, where whole numbers, such as counts, are those drawn",
    Evidence.FACTOR: "such a certificate, or one for all dimensions, of a multiple of the bound",
    Evidence.ENCLOSED: "a certificate of a constant below 1, where the bound is not negative",
    Evidence.MET: "points at which an identity or a theorem was tried; other branches are open",
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
    'proved up to a factor'
    """
    if certificate["kind"] == "counterexample":
        return Evidence.FALSE
    if certificate["kind"] == "quadratic":
        return _of_theorem(certificate, premises)
    if certificate["kind"] == "constant":
        return _of_constant(certificate)
    if certificate["branches"] not in ("none", "every one") and not _on_branches(certificate):
        return Evidence.MET
    if certificate.get("drawn"):
        return Evidence.WHOLE
    return Evidence.TIES if "ties" in certificate else Evidence.SIZES


def _on_branches(identity: Mapping[str, Any]) -> bool:
    """Whether an identity that is open on branches for some sizes is proved for others.

    Where it is open because its sides differ on a branch of which nobody knows whether it has
    instances, it has to be proved for sizes of which none is one, if they can be more: what is true
    of numbers says little about vectors and matrices.
    """
    proved = identity.get("every_branch", [])
    if "differ" not in identity:
        return bool(proved)
    least = {
        name: min(2, max(one[name] for one in identity["sizes"])) for name in identity["sizes"][0]
    }
    return any(all(one[name] >= size for name, size in least.items()) for one in proved)


def strength(certificate: Mapping[str, Any]) -> tuple[int, int, int]:
    """What certificates of one claim are ordered by, the strongest first.

    The word, and of an identity for how many sizes it is proved, and for how many it is known; of
    a theorem for how many it is known to be the claim.

    >>> one = {"kind": "identity", "branches": "every one", "drawn": [], "sizes": [{}]}
    >>> two = {**one, "sizes": [{"d": 1}, {"d": 2}]}
    >>> strength(two) < strength(one)
    True
    """
    sizes = certificate.get("sizes", ()) if certificate["kind"] == "identity" else ()
    if certificate["kind"] == "quadratic":
        sizes = certificate.get("agrees", {}).get("sizes", ())
    proved = sizes
    if certificate.get("branches") not in (None, "none", "every one"):
        proved = certificate.get("every_branch", ())
    word = list(Evidence).index(of_certificate(certificate))
    return word, -len(proved), -len(sizes)


def _of_constant(certificate: Mapping[str, Any]) -> Evidence:
    """The kind of what an interval for a bound's best constant says of the bound.

    >>> for ratio in (["1", "1"], ["0.5", "0.6"], ["1", "1.05"], ["1.2", "1.3"]):
    ...     print(_of_constant({"ratio": ratio}))
    proved at sizes
    enclosed
    proved up to a factor
    proved false
    """
    low, high = map(Fraction, certificate["ratio"])
    if low > 1:
        return Evidence.FALSE
    if high > 1:
        return Evidence.FACTOR
    # below 1 nothing is said of negative bounds
    return Evidence.SIZES if high == 1 or "bound" in certificate else Evidence.ENCLOSED


def _of_theorem(
    theorem: Mapping[str, Any], premises: Mapping[str, Evidence | None] | None
) -> Evidence:
    """The kind of what is proved for all dimensions: the weakest word that is true of it.

    What a premise assumes is assumed here, too.

    >>> agrees = {"of": 4, "sizes": [{"d": 1}], "left": "3 others: no answer"}
    >>> one = {"kind": "quadratic", "id": "mine.step", "excess": "0"}
    >>> all_of_them = {**one, "agrees": {"of": 1, "sizes": [{"d": 1}]}}
    >>> _of_theorem({**all_of_them, "theorem": {"assumes": {}}}, None).value
    'proved for all dimensions'
    >>> told = {"theorem": {"assumes": {"1. f is convex": "gap >= 0"}}}
    >>> _of_theorem({**all_of_them, **told}, None).value
    'proved under assumptions'
    >>> _of_theorem({**one, **told, "agrees": agrees}, None).value
    'proved at sizes'
    """
    return max((_of_proof(theorem, premises), _of_agreement(theorem)), key=[*Evidence].index)


def _of_proof(
    theorem: Mapping[str, Any], premises: Mapping[str, Evidence | None] | None
) -> Evidence:
    """The kind of what is proved of a claim, where its theorem is the claim."""
    if theorem["excess"] != "0":
        return Evidence.FACTOR
    if unproved(theorem, premises):
        return Evidence.STEP
    # also what is named after a claim that is proved: nobody compares the two
    assumed = theorem["theorem"]["assumes"] or "signs" in theorem.get("agrees", ())
    return Evidence.ASSUMED if assumed else Evidence.ALL


def _of_agreement(theorem: Mapping[str, Any]) -> Evidence:
    """The kind of what is known where a theorem is proved, by where it is known to be its claim.

    Of the claims of papers, which have no ``file``, drawn instances say that it is.
    """
    agrees = theorem.get("agrees")
    if agrees is None:
        return Evidence.MET if "file" in theorem else Evidence.ALL
    if not agrees["sizes"]:
        return Evidence.MET
    return Evidence.SIZES if "left" in agrees else Evidence.ALL


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
    """Of the claims that a theorem assumes, those without a theorem of their own, with evidence."""
    known = dict.fromkeys(assumed(certificate)) if premises is None else premises
    proved = (Evidence.ALL, Evidence.ASSUMED)
    return {name: kind for name, kind in known.items() if kind not in proved}


def decided_by(records: Sequence[Mapping[str, Any]]) -> str:
    """How many statements were decided by what, the strongest evidence first.

    >>> decided_by([{"decided": "searched"}, {"decided": "proved false"}, {"decided": ""}])
    '1 proved false, 1 searched'
    """
    decided = Counter(record.get("decided") for record in records)
    return ", ".join(f"{decided[kind]} {kind}" for kind in Evidence if decided[kind])
