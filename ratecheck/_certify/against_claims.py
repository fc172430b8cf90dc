"""Verify a certificate against its claim: what it says is computed anew, and nothing is believed.

What its data prove by themselves is checked by :mod:`ratecheck._certify.check`. Here the claim's
own function is evaluated, so that its module has to be there, at the revision of the certificate. A
stated enclosure has to hold the one that is computed here; of an identity points are drawn anew; of
a constant every box is evaluated; theorems and formulas are compared with the claim.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from linsys.linalg.balls import Undecided
from linsys.validate import InputError
from ratecheck._certify import constants
from ratecheck._certify.at_a_point import CHANCE, Broken
from ratecheck._certify.certificate import EVERY, MET, digits, of_identity
from ratecheck._certify.check import FORMAT, Wrong, apart, interval
from ratecheck._certify.enclosures import BITS, Case, Unprovable, enclose
from ratecheck._certify.every_branch import Open
from ratecheck._certify.formulas import check_formula
from ratecheck._certify.gram import certificate as theorems
from ratecheck._certify.identities import COMBINATIONS, Decided, decide
from ratecheck._certify.stated import (
    check_left,
    check_met,
    check_open,
    same,
    sizes_of_instance,
)
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._discover.named import files_of_claim
from ratecheck._verdicts.certificates import BUT_FOR_TIES, of_constants, of_whole, revision

#: What a certificate has to say, by its kind, and what it may say besides.
_KEYS = {
    "counterexample": {"bits", "digits", "constants", "assumptions", "cases", "instance"},
    "identity": {"sizes", "all_sizes", "branches", "drawn", "log2_chance"},
    theorems.KIND: theorems.KEYS,
    constants.KIND: constants.KEYS,
}
_BRANCHES = {"every_branch", "open", "differ", "ways", "empty", "ties"}
_MORE = {
    "counterexample": {"formula"},
    "identity": {"formula", "left", "whole"} | _BRANCHES,
    theorems.KIND: theorems.MORE,
    constants.KIND: constants.MORE,
}
_EVERY, _ANY = {"format", "kind", "id", "revision", "relation", "arithmetic"}, {"file", "seconds"}


class Refused(Exception):
    """What is wrong with a certificate, in a line."""


def verify(content: Mapping[str, Any], references: Sequence[str] = ()) -> str:
    """What a certificate proves, in a line.

    Raises:
        Refused: it does not prove what it says.
        InputError: its claim is not found.
    """
    kind = _kind(content)
    item = _item(content, references)
    claim = item.entry
    if not isinstance(claim, Claim):
        raise Refused(f"`id` must be of a claim about instances; found {item.id}")
    if content["revision"] != (now := revision(item.origin)):
        raise _of_other_code(content, now)
    if content["relation"] != claim.relation:
        raise Refused(f"`relation` must be {claim.relation}; found {content['relation']!r}")
    try:
        if kind == theorems.KIND:
            return theorems.check(content, item)
        of_kind = _identity if kind == "identity" else _counterexample
        bounds = kind == constants.KIND
        told = constants.verify(content, claim) if bounds else of_kind(content, item, claim)
        check_formula(content, claim)
        return told
    except (Wrong, Unprovable) as error:
        raise Refused(str(error)) from None


def _kind(content: Mapping[str, Any]) -> str:
    """The kind of a certificate that has all the keys of its kind, and no other ones."""
    kind = content.get("kind")
    if not same(content.get("format"), FORMAT) or not isinstance(kind, str) or kind not in _KEYS:
        raise Refused(
            f"`format` and `kind` must be {FORMAT} and one of {', '.join(_KEYS)}; found "
            f"{content.get('format')!r:.40} and {kind!r:.40}"
        )
    needed = _EVERY | _KEYS[kind]
    if missing := sorted(needed - set(content)):
        raise Refused(f"certificate must have {', '.join(missing)}; found none of it")
    if unknown := sorted(set(content) - needed - _MORE[kind] - _ANY):
        raise Refused(f"certificate must have no other keys; found {', '.join(unknown)}")
    seconds = content.get("seconds", 0)
    if type(seconds) not in (int, float) or not 0 <= seconds < math.inf:
        raise Refused(f"`seconds` must be a number, 0 or more; found {seconds!r:.40}")
    if not isinstance(content.get("file", ""), str):
        raise Refused(f"`file` must be text; found {content['file']!r:.40}")
    return kind


def _identity(content: Mapping[str, Any], item: Item, claim: Claim) -> str:
    """Evaluate the identity at random points of the checker's own."""
    if claim.relation != "==":
        raise Refused(f"`relation` must be == of an identity; found {claim.relation}")
    sizes, every = content["sizes"], [json.dumps(one) for one in claim.space.all_sizes()]
    given = [json.dumps(one) for one in sizes] if isinstance(sizes, list) else []
    if not given or not set(given) <= set(every):
        raise Refused("`sizes` must be combinations of sizes that the claim's space has")
    if len(set(given)) < len(given):
        raise Refused("`sizes` must be different; found one twice")
    wanted = sizes if content["branches"] == EVERY else content.get("every_branch", [])
    if not isinstance(wanted, list) or not all(json.dumps(one) in given for one in wanted):
        raise Refused(f"`every_branch` must be some of the `sizes`; found {wanted!r:.80}")
    check_left(content, min(len(every), COMBINATIONS) - len(given))
    try:
        decided = decide(claim, sizes=sizes, every=wanted)
    except (Unprovable, Broken) as error:
        raise Refused(f"the two sides must be equal at random points; found {error}") from None
    except Open as error:
        raise Refused(f"the two sides must be equal on every branch; found {error}") from None
    true = of_identity(item, decided)
    # of the sizes that are left out the reason is text, and the number is checked above
    given_only = {"left", "open", "differ", "seconds", "file", "formula"}
    # how many there are may depend on the whole numbers drawn and on the exclusions found
    counted = {"ways", "empty"} if "empty" in true else {"ways"} if true["drawn"] else set()
    if all(type(content.get(name)) is int and content[name] > 0 for name in counted):
        given_only |= counted & set(true)
    if "empty" in true and content.get("ties") == "left out":  # which says less
        given_only |= {"ties"}
    for name in sorted((set(true) | set(content)) - given_only):
        if name not in true:
            raise Refused(f"`{name}` must not be there; found {content[name]!r:.80}")
        if name not in content or not same(content[name], true[name]):
            raise Refused(f"`{name}` must be {true[name]}; found {content.get(name)!r:.80}")
    check_open(content, true["branches"] == MET, len(given) - len(wanted))
    which = "all" if decided.all_sizes else f"{len(decided.sizes)} combinations of"
    where = f"{of_whole(true)}{_where(decided)}"
    return f"identity: true for {which} sizes{where}, but for a chance below 2^-{CHANCE}"


def _where(decided: Decided) -> str:
    """On which branches an identity is true."""
    if not decided.compares:
        return ""
    every, looked = len(decided.every), f"every branch, {decided.ways} together"
    looked += ", others excluded" * (decided.empty > 0)
    looked += f" {BUT_FOR_TIES}" * decided.ties
    if every == len(decided.sizes):
        return f" on {looked}"
    met = " on the branches that the points met"
    return f"{met}, for {every} of them on {looked}" if every else met


def _counterexample(content: Mapping[str, Any], item: Item, claim: Claim) -> str:
    stated = _cases(content)
    for case in stated:
        if apart(claim.relation, case.measured, case.bound) <= 0:
            raise Refused(f"`cases` must break the claim; found entry {case.entry} that does not")
    _compare(content, stated, claim)
    first = content["cases"][0]
    return (
        f"violated: measured in [{', '.join(first['measured'])}], bound in "
        f"[{', '.join(first['bound'])}]; {content['arithmetic']}{of_constants(content)}"
    )


def _item(content: Mapping[str, Any], references: Sequence[str]) -> Item:
    """The claim; a user's file is imported only if its source is that of the certificate."""
    try:
        paths = files_of_claim(name := str(content["id"]), content.get("file"), references)
    except InputError as error:
        raise Refused(str(error)) from None
    found = {path: revision(path) for path in paths}
    chosen = [f"{path}::{name}" for path in paths if found[path] == content["revision"]]
    if paths and not chosen:
        raise _of_other_code(content, found[paths[0]])
    return find_claims(chosen or [name])[0]


def _of_other_code(content: Mapping[str, Any], now: str) -> Refused:
    wanted = f"`revision` must be that of the claim as it is, {now}"
    return Refused(f"{wanted}; found {content['revision']!r:.40}: the certificate is of other code")


def _cases(content: Mapping[str, Any]) -> list[Case]:
    """The enclosures that are stated."""
    cases = []
    try:
        for case in content["cases"]:
            ends = case["measured"], case["bound"]
            if len(case) != 3 or not all(isinstance(one, list) for one in ends):
                raise ValueError(f"{case!r:.80}")
            cases.append(Case(case["entry"], *map(interval, ends)))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Refused(f"`cases` must hold enclosures; found {error}") from None
    if not cases:
        raise Refused("`cases` must be at least one; found none")
    return cases


def _compare(content: Mapping[str, Any], stated: Sequence[Case], claim: Claim) -> None:
    """Compute the enclosures anew and refuse those that do not hold them."""
    instance, bits = content["instance"], content["bits"]
    if type(bits) is not int or bits not in (0, *BITS):
        raise Refused(f"`bits` must be 0 or one of {', '.join(map(str, BITS))}; found {bits!r}")
    if content["arithmetic"] != (arithmetic := "balls" if bits else "exact rationals"):
        raise Refused(f"`arithmetic` must be {arithmetic}; found {content['arithmetic']!r:.80}")
    try:
        sizes_of_instance(claim, instance)
        enclosed = enclose(claim, instance, bits or BITS[0])
        check_met(claim, instance, enclosed.assumptions)
    except (Undecided, Unprovable, InputError) as error:
        raise Refused(f"`instance` must be evaluated in balls; found {error}") from None
    if bits == 0 and enclosed.bits:
        raise Refused("`arithmetic` must be balls: the formula leaves the rationals")
    if len(enclosed.cases) != len(stated):
        raise Refused(f"`cases` must be {len(enclosed.cases)}; found {len(stated)}")
    for one, other in zip(stated, enclosed.cases, strict=True):
        if not same(one.entry, other.entry):
            raise Refused(f"`entry` must be {other.entry}; found {one.entry!r:.40}")
        for name in ("measured", "bound"):
            low, high = getattr(one, name)
            least, most = getattr(other, name)
            if not low <= least <= most <= high:
                raise Refused(
                    f"`{name}` must hold [{float(least):.17g}, {float(most):.17g}]; found "
                    f"[{float(low):.17g}, {float(high):.17g}]"
                )
    true = {
        "digits": digits(enclosed.cases),
        "assumptions": dict(enclosed.assumptions),
        "constants": list(enclosed.constants),
    }
    for name, value in true.items():
        if not same(content[name], value):
            raise Refused(f"`{name}` must be {value}; found {content[name]!r:.80}")
