"""Counts as people say them."""

from __future__ import annotations

from collections.abc import Mapping

_PLURAL = {
    "holds": "hold",
    "misprint": "misprints",
    "false step of a proof": "false steps of proofs",
    "false statement of ours": "false statements of ours",
    "assumption that nothing meets": "assumptions that nothing meets",
    "error": "errors",
}


def in_words(counts: Mapping[str, int]) -> str:
    """Counts by outcome.

    >>> in_words({"holds": 3, "false as printed": 1, "misprint": 2})
    '3 hold, 1 false as printed, 2 misprints'
    """
    return ", ".join(
        f"{n} {_PLURAL.get(name, name) if n > 1 else name}" for name, n in counts.items()
    )
