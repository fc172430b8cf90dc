"""Read what a certificate states, strictly: what has another type than was written is refused."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from linsys.validate import InputError
from ratecheck._certify.enclosures import Unprovable
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, Sizes

__all__ = [
    "check_left",
    "check_met",
    "check_open",
    "check_sizes",
    "repeated",
    "same",
    "sizes_of_instance",
]


def same(one: Any, other: Any) -> bool:
    """Whether two plain JSON values are written alike; 1, 1.0 and true are three values.

    >>> same({"a": [1], "b": 2.0}, {"b": 2.0, "a": (1,)}), same(1, True), same(1, 1.0)
    (True, False, False)
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def repeated(text: str | bytes) -> str:
    """A key that an object of a JSON text has twice, of which one would be read; empty without.

    >>> repeated('{"a": {"b": 1, "c": 2, "b": 3}}')
    'b'
    """
    twice: list[str] = []

    def seen(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice.extend(name for name, number in counts.items() if number > 1)

    json.loads(text, object_pairs_hook=seen)
    return twice[0] if twice else ""


def check_sizes(claim: Claim, sizes: Any) -> None:
    """Refuse sizes that are not of the claim's space.

    Raises:
        InputError: other axes, or a size that is no whole number in its range.
    """
    space = claim.space
    known = sizes if isinstance(sizes, Mapping) else {}
    for name in (name for name in space.sizes if name in known):
        (low, high), size = space.sizes[name], known[name]
        if type(size) is not int or not low <= size <= high:
            raise InputError(f"size `{name}` must be from {low} to {high}; found {size!r:.80}")
    if not isinstance(sizes, Mapping) or set(sizes) != set(space.sizes):
        found = sorted(sizes) if isinstance(sizes, Mapping) else repr(sizes)[:80]
        raise InputError(f"`sizes` must be of {sorted(space.sizes)}; found {found}")


def sizes_of_instance(claim: Claim, instance: Any) -> Sizes:
    """The sizes of an instance, which have to be of the claim's space.

    Args:
        claim: the claim.
        instance: plain lists of numbers by field.

    Raises:
        Unprovable: it has other fields, what is no number, or sizes that the space has not.
    """
    space = claim.space
    if not isinstance(instance, Mapping) or set(instance) != set(space.fields):
        raise Unprovable(f"`instance` must have the fields {sorted(space.fields)}")
    if wrong := [name for name, value in instance.items() if not _numbers(value)]:
        raise Unprovable(
            f"`instance` must have finite numbers in lists; found others in `{wrong[0]}`, which is "
            f"not of the claim's space: {instance[wrong[0]]!r:.80}"
        )
    try:
        arrays = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
        sizes = space.sizes_of(arrays)
        check_sizes(claim, sizes)
    except (InputError, ValueError) as error:
        raise Unprovable(f"`instance` must be of the claim's space: {error}") from None
    return sizes


def _numbers(value: Any) -> bool:
    """Whether a value is a finite number, or lists of them."""
    if isinstance(value, list | tuple):
        return all(map(_numbers, value))
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


def check_met(claim: Claim, instance: Mapping[str, Any], assumptions: Mapping[str, str]) -> None:
    """Refuse an instance that breaks what the space assumes; float64 says so where balls do not.

    Args:
        claim: the claim.
        instance: plain lists by field.
        assumptions: by name, what balls say of each.

    Raises:
        Unprovable: it breaks an assumption, or none of the two says that it meets it.
    """
    if unmet := [name for name, told in assumptions.items() if told == "not met"]:
        raise Unprovable(f"the instance does not meet {unmet[0]!r} exactly")
    open_ = [name for name, told in assumptions.items() if told != "proved"]
    if not open_:
        return
    space = claim.space
    arrays = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
    try:
        met = bool(space.meets(arrays).all())
    except Fault as error:
        raise Unprovable(f"{open_[0]!r} must be met; found {error}") from None
    if not met:
        raise Unprovable(f"{open_[0]!r} and all others must be met in float64; found one broken")


def check_left(content: Mapping[str, Any], number: int) -> None:
    """Refuse a count of sizes that are left out which is not that of the space's."""
    left = content.get("left", "")
    if number <= 0 and "left" not in content:
        return
    if number <= 0 or not re.fullmatch(rf"{number} others: \S.*", str(left)):
        wanted = f"begin with '{number} others: '" if number > 0 else "not be there"
        raise Unprovable(f"`left` must {wanted}, as all other sizes are stated; found {left!r:.80}")


def check_open(content: Mapping[str, Any], met: bool, number: int) -> None:
    """Refuse a count of sizes that are open on some branch which is not that of the others."""
    told = content.get("open")
    if met and not re.fullmatch(rf"{number} of the sizes: \S.*", str(told)):
        raise Unprovable(
            f"`open` must begin with '{number} of the sizes: ', as the others are under "
            f"`every_branch`; found {told!r:.80}"
        )
    if not met and (found := {"open", "differ"} & set(content)):
        raise Unprovable(f"`{min(found)}` must not be there, as no branch is left")
    if content.get("differ", True) is not True:
        raise Unprovable(f"`differ` must be true or not be there; found {content['differ']!r:.40}")
