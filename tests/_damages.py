"""Files damaged in many ways, drawn with a seed."""

from __future__ import annotations

import json
import random

__all__ = ["damages"]

#: What a file may hold in the place of its content.
_OTHERS = (
    *(b"", b"null", b"[]", b"{}", b"7", b'"x"', b"1e999", b"PAR1", b"\xff\xfe"),
    b"[" * 100_000,
)


def damages(whole: bytes, rng: random.Random) -> list[bytes | None]:
    """A file's content, damaged in several ways; None for a folder in its place."""
    at = rng.randrange(len(whole))
    bit = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
    several = bytearray(whole)
    for _ in range(20):
        several[rng.randrange(len(whole))] = rng.randrange(256)
    made: list[bytes | None] = [None, whole[:at], bit, bytes(several), whole + whole, *_OTHERS]
    try:
        content = json.loads(whole)
    except ValueError:
        return made
    return [*made, *(_elsewhere(content, rng) for _ in range(12))]


def _elsewhere(content: object, rng: random.Random) -> bytes:
    """The JSON with one value, anywhere in it, replaced or removed."""
    places: list[tuple[dict[str, object] | list[object], str | int]] = []

    def walk(node: object) -> None:
        if isinstance(node, dict):
            places.extend((node, key) for key in node)
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            places.extend((node, i) for i in range(len(node)))
            for inner in node:
                walk(inner)

    copy = json.loads(json.dumps(content))
    walk(copy)
    parent, key = rng.choice(places)
    odd: list[object] = [None, [], {}, "", "x", -1, 10**400, 0.5, float("nan"), [[[]]], True]
    if rng.random() < 0.2:
        del parent[key]  # type: ignore[arg-type]
    else:
        parent[key] = rng.choice(odd)  # type: ignore[index, call-overload]
    return json.dumps(copy).encode()
