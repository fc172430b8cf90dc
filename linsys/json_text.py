"""JSON that others wrote: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["from_json"]


def from_json(text: str | bytes) -> Any:
    """What a JSON text holds.

    Raises:
        json.JSONDecodeError: it is none, or nested deeper than Python reads, for which its own
            reader raises a RecursionError.
        UnicodeDecodeError: bytes in no encoding of JSON.

    >>> from_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> from_json("[" * 100_000)
    Traceback (most recent call last):
    json.decoder.JSONDecodeError: Nested too deeply: line 1 column 1 (char 0)
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("Nested too deeply", "", 0) from None
