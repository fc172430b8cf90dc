"""Who has which samples: by domain, by user, evenly, or by Dirichlet-distributed shares."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from linsys.validate import (
    InputError,
    check_function,
    check_indexed,
    check_instance,
    check_integer,
    check_number,
    shown,
)

__all__ = ["by_key", "dirichlet", "evenly", "hold_out", "users_by"]

_Item = TypeVar("_Item")


def by_key(items: Sequence[_Item], key: Callable[[_Item], str]) -> dict[str, list[_Item]]:
    """The items of every value of a key such as the domain or the user, values in order.

    Raises:
        InputError: an item without a value.

    >>> by_key(["ab", "c", "de"], lambda text: str(len(text)))
    {'1': ['c'], '2': ['ab', 'de']}
    """
    check_function("key", key, "item")
    groups: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    for none in ("", None):
        if none in groups:
            raise InputError(f"every sample must have the key; found {len(groups[none])} without")
    try:
        return dict(sorted(groups.items()))
    except TypeError:
        raise InputError(f"what key gives must have an order; found {shown([*groups])}") from None


def users_by(rule: str) -> Callable[[Any], str]:
    """Whose preference a :class:`lora_bridge.data.Pair` is, for pairs that do not say.

    Args:
        rule: "domain" (everybody in a domain is one user), "longer" (one user for the pairs whose
            chosen answer is the longer one in characters, one for the others: two who want
            different things), or "hash:N" (N users who differ by chance: the prompt's SHA-256
            digest modulo N, so that a prompt's pairs are one user's).

    Raises:
        InputError: another rule. The function raises it for a pair without a domain.

    >>> from lora_bridge.data import Pair
    >>> [users_by(rule)(Pair("Why?", "So.", "Because.", "talk"))
    ...  for rule in ("domain", "longer", "hash:5")]
    ['talk', 'shorter', 'user 3']
    """
    name, _, count = check_instance("users_by", rule, str, "the name of a rule").partition(":")
    if name == "domain" and not count:
        return _domain
    if name == "longer" and not count:
        return lambda pair: "longer" if len(pair.chosen) > len(pair.rejected) else "shorter"
    if name != "hash" or not count.isdecimal() or int(count) < 2:
        raise InputError(
            f"`users_by` must be domain, longer or hash:N with N of 2 or more; found {rule!r}"
        )
    return lambda pair: f"user {_digest(pair.prompt) % int(count)}"


def _domain(pair: Any) -> str:
    if not pair.domain:
        raise InputError(
            "a pair must have a domain where its user is its `domain`; found none: take longer or "
            "hash:5, or give every domain a file of its own in a folder"
        )
    return str(pair.domain)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def evenly(items: Sequence[_Item], clients: int, seed: int = 0) -> list[list[_Item]]:
    """The items shuffled and dealt to clients, whose sizes differ by one at most.

    Raises:
        InputError: fewer items than clients.
    """
    _check_enough_items(items, clients)
    order = _generator(seed).permutation(len(items))
    return [[items[j] for j in order[i::clients]] for i in range(clients)]


def dirichlet(
    items: Sequence[_Item],
    clients: int,
    key: Callable[[_Item], str],
    concentration: float,
    seed: int = 0,
) -> list[list[_Item]]:
    """The items of every value of a key shared among clients by a Dirichlet draw.

    A small concentration gives every client few values of the key, a large one equal shares.
    A client that gets nothing is given one item of the largest.

    Raises:
        InputError: fewer items than clients, a concentration that is not positive.
    """
    _check_enough_items(items, clients)
    check_number("concentration", concentration, low=0.0, low_open=True)
    generator = _generator(seed)
    shares: list[list[_Item]] = [[] for _ in range(clients)]
    for group in by_key(items, key).values():
        weights = generator.dirichlet(np.full(clients, concentration))
        ends = np.round(np.cumsum(weights) * len(group)).astype(int)
        order = generator.permutation(len(group))
        for share, chosen in zip(shares, np.split(order, ends[:-1]), strict=True):
            share += [group[j] for j in chosen]
    for share in shares:
        if not share:
            share.append(max(shares, key=len).pop())
    return shares


def hold_out(
    items: Sequence[_Item], share: float, seed: int = 0
) -> tuple[list[_Item], list[_Item]]:
    """(kept, held out) with a share held out at random, at least one on either side.

    Raises:
        InputError: fewer than two items, a share outside (0, 1).
    """
    check_number("share", share, low=0.0, high=1.0, low_open=True)
    if len(check_indexed("items", items, "a list")) < 2 or share >= 1.0:
        raise InputError(
            f"`items` must be at least 2 and `share` below 1; found {len(items)} and {share}"
        )
    order = _generator(seed).permutation(len(items))
    cut = min(max(round(share * len(items)), 1), len(items) - 1)
    return [items[j] for j in order[cut:]], [items[j] for j in order[:cut]]


def _check_enough_items(items: Sequence[_Item], clients: int) -> None:
    check_integer("clients", clients, low=1)
    if len(check_indexed("items", items, "a list")) < clients:
        raise InputError(
            f"`items` must be at least as many as clients = {clients}; found {len(items)}"
        )


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=check_integer("seed", seed, low=0)))
