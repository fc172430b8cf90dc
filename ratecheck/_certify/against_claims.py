"""Verify a certificate against its claim: what it says is computed anew, and nothing is believed.

What its data prove by themselves is checked by :mod:`ratecheck._certify.check`. Here the claim's
own function is evaluated, so that the claim's module has to be there, at the revision for which the
certificate was made. Of a counterexample, a stated enclosure has to hold the one that is computed
here, and the stated enclosures themselves have to prove what the certificate says. Of an identity,
random points are drawn anew; of a constant, every box is evaluated; and a theorem is compared with
the claim at instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys.linalg.balls import Undecided
from linsys.validate import InputError
from ratecheck._certify import constants
from ratecheck._certify.at_a_point import CHANCE, Broken
from ratecheck._certify.certificate import EVERY, digits, of_identity
from ratecheck._certify.check import FORMAT, Wrong, apart, interval
from ratecheck._certify.enclosures import BITS, Case, Unprovable, enclose
from ratecheck._certify.every_branch import Open
from ratecheck._certify.gram import certificate as theorems
from ratecheck._certify.identities import Decided, decide
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._verdicts.certificates import revision
from ratecheck._verdicts.replay import json_in

#: What a certificate has to say, by its kind.
_KEYS = {
    "counterexample": {"bits", "digits", "constants", "assumptions", "cases", "instance"},
    "identity": {"sizes", "all_sizes", "branches", "drawn", "log2_chance"},
    theorems.KIND: theorems.KEYS,
    constants.KIND: constants.KEYS,
}
_EVERY = {"id", "revision", "relation", "arithmetic"}


@dataclass(frozen=True)
class Checked:
    """A certificate that was checked: of which claim, and why it is refused, if it is."""

    id: str
    said: str
    refused: str = ""


class Refused(Exception):
    """What is wrong with a certificate, in a line."""


def check_file(path: Path, references: Sequence[str] = ()) -> Iterator[Checked]:
    """Check every certificate in a file: one alone, or several under ``certificates``.

    Args:
        path: JSON.
        references: where else to look for the claims, such as a file that has moved.

    Raises:
        InputError: if there is no certificate in the file.
    """
    for content in contents(path):
        name = str(content.get("id"))
        try:
            yield Checked(name, verify(content, references))
        except (Refused, InputError) as error:
            yield Checked(name, "", str(error))


def contents(path: Path) -> list[dict[str, Any]]:
    """The certificates in a file."""
    whole = json_in("certificate", path)
    certificates: Any = whole.get("certificates", [whole]) if isinstance(whole, dict) else whole
    are_some = isinstance(certificates, list) and bool(certificates)
    if not are_some or not all(isinstance(one, dict) for one in certificates):
        raise InputError(f"file must hold certificates; found none in {path}")
    return list(certificates)


def verify(content: Mapping[str, Any], references: Sequence[str] = ()) -> str:
    """What a certificate proves, in a line.

    Raises:
        Refused: it does not prove what it says.
        InputError: its claim is not found.
    """
    kind = content.get("kind")
    if content.get("format") != FORMAT or kind not in _KEYS:
        raise Refused(
            f"`format` and `kind` must be {FORMAT} and one of {', '.join(_KEYS)}; found "
            f"{content.get('format')!r} and {kind!r}"
        )
    if missing := sorted((_EVERY | _KEYS[kind]) - set(content)):
        raise Refused(f"certificate must have {', '.join(missing)}; found none of it")
    item = _item(content, references)
    claim = item.entry
    if not isinstance(claim, Claim):
        raise Refused(f"`id` must be of a claim about instances; found {item.id}")
    if content["revision"] != revision(item.origin):
        raise Refused(
            f"`revision` must be that of the claim as it is, {revision(item.origin)}; found "
            f"{content['revision']}: the certificate is of other code"
        )
    if content["relation"] != claim.relation:
        raise Refused(f"`relation` must be {claim.relation}; found {content['relation']!r}")
    if kind == theorems.KIND:
        try:
            return theorems.check(content, item)
        except Wrong as error:
            raise Refused(str(error)) from None
    if kind == constants.KIND:
        try:
            return constants.verify(content, claim)
        except Unprovable as error:
            raise Refused(str(error)) from None
    return (
        _identity(content, item, claim) if kind == "identity" else _counterexample(content, claim)
    )


def _identity(content: Mapping[str, Any], item: Item, claim: Claim) -> str:
    """Evaluate the identity at random points of the checker's own."""
    if claim.relation != "==":
        raise Refused(f"`relation` must be == of an identity; found {claim.relation}")
    sizes, every = content["sizes"], claim.space.all_sizes()
    if not sizes or not isinstance(sizes, list) or not all(one in every for one in sizes):
        raise Refused("`sizes` must be combinations of sizes that the claim's space has")
    wanted = sizes if content["branches"] == EVERY else content.get("every_branch", [])
    if not isinstance(wanted, list) or not all(one in sizes for one in wanted):
        raise Refused(f"`every_branch` must be some of the `sizes`; found {wanted}")
    try:
        decided = decide(claim, sizes=sizes, every=wanted)
    except (Unprovable, Broken) as error:
        raise Refused(f"the two sides must be equal at random points; found {error}") from None
    except Open as error:
        raise Refused(f"the two sides must be equal on every branch; found {error}") from None
    true = of_identity(item, decided)
    # how many ways there are may depend on the whole numbers that are drawn
    counted = {"ways"} if "ways" in true and not true["drawn"] else set()
    for name in sorted({"arithmetic", *_KEYS["identity"], *counted}):
        if content.get(name) != true[name]:
            raise Refused(f"`{name}` must be {true[name]}; found {content.get(name)}")
    which = "all" if decided.all_sizes else f"{len(decided.sizes)} combinations of"
    return f"identity: true for {which} sizes{_where(decided)}, but for a chance below 2^-{CHANCE}"


def _where(decided: Decided) -> str:
    """On which branches an identity is true."""
    if not decided.compares:
        return ""
    every, looked = len(decided.every), f"every branch, {decided.ways} together"
    if every == len(decided.sizes):
        return f" on {looked}"
    met = " on the branches that the points met"
    return f"{met}, for {every} of them on {looked}" if every else met


def _counterexample(content: Mapping[str, Any], claim: Claim) -> str:
    stated = _cases(content)
    for case in stated:
        if apart(claim.relation, case.measured, case.bound) <= 0:
            raise Refused(f"`cases` must break the claim; found entry {case.entry} that does not")
    _compare(content, stated, claim)
    first = content["cases"][0]
    return (
        f"violated: measured in [{', '.join(first['measured'])}], bound in "
        f"[{', '.join(first['bound'])}]; {content['arithmetic']}"
    )


def _item(content: Mapping[str, Any], references: Sequence[str]) -> Item:
    name, file = str(content["id"]), content.get("file")
    paths = [r.partition("::")[0] for r in references if ".py" in r]
    paths = paths or ([str(file)] if file else [])
    items = find_claims([f"{path}::{name}" for path in paths] or [name])
    if [item.id for item in items] != [name]:  # a pattern is the id of no claim
        raise Refused(f"`id` must be that of one claim; found {name!r}")
    return items[0]


def _cases(content: Mapping[str, Any]) -> list[Case]:
    """The enclosures that are stated."""
    try:
        cases = [
            Case(int(case["entry"]), interval(case["measured"]), interval(case["bound"]))
            for case in content["cases"]
        ]
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Refused(f"`cases` must hold enclosures; found {error}") from None
    if not cases:
        raise Refused("`cases` must be at least one; found none")
    return cases


def _compare(content: Mapping[str, Any], stated: Sequence[Case], claim: Claim) -> None:
    """Compute the enclosures anew and refuse those that do not hold them."""
    instance, bits = content["instance"], content["bits"]
    if not isinstance(instance, dict) or set(instance) != set(claim.space.fields):
        raise Refused(f"`instance` must have the fields {sorted(claim.space.fields)}")
    if bits not in (0, *BITS):
        raise Refused(f"`bits` must be 0 or one of {', '.join(map(str, BITS))}; found {bits!r}")
    if (content["arithmetic"] == "exact rationals") != (bits == 0):
        raise Refused(f"`arithmetic` must be of {bits} bits; found {content['arithmetic']!r}")
    try:
        enclosed = enclose(claim, instance, bits or BITS[0])
    except (Undecided, Unprovable, InputError) as error:
        raise Refused(f"`instance` must be evaluated in balls; found {error}") from None
    if bits == 0 and enclosed.bits:
        raise Refused("`arithmetic` must be balls: the formula leaves the rationals")
    if len(enclosed.cases) != len(stated):
        raise Refused(f"`cases` must be {len(enclosed.cases)}; found {len(stated)}")
    for one, other in zip(stated, enclosed.cases, strict=True):
        if one.entry != other.entry:
            raise Refused(f"`entry` must be {other.entry}; found {one.entry}")
        for name in ("measured", "bound"):
            low, high = getattr(one, name)
            least, most = getattr(other, name)
            if not low <= least <= most <= high:
                raise Refused(
                    f"`{name}` must hold [{float(least):.17g}, {float(most):.17g}]; found "
                    f"[{float(low):.17g}, {float(high):.17g}]"
                )
    if content["digits"] != (known := digits(enclosed.cases)):
        raise Refused(f"`digits` must be {known}; found {content['digits']!r}")
    if dict(enclosed.assumptions) != content["assumptions"]:
        raise Refused(f"`assumptions` must be {dict(enclosed.assumptions)}")
    if list(enclosed.constants) != content["constants"]:
        raise Refused(
            f"`constants` must be {list(enclosed.constants)}; found {content['constants']}"
        )
