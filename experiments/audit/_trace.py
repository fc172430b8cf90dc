"""The instance under evaluation, where another process can read it after a crash.

A measure that never returns, or that ends its process, cannot report anything any more. So each
instance is put into a memory-mapped file before it is measured; that costs a microsecond or two.
"""

from __future__ import annotations

import contextlib
import mmap
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.audit._judge import Watch
from experiments.audit._space import Fields

#: Bytes of a trace: a size and what is noted. Larger instances are not noted.
_ROOM = 1 << 16
_HEAD = 8


@contextlib.contextmanager
def tracing(path: Path) -> Iterator[Watch]:
    """A watch of the search that notes instances in a file, which is gone when all went well."""
    with path.open("w+b") as stream:
        stream.truncate(_ROOM)
        with mmap.mmap(stream.fileno(), _ROOM) as memory:

            def note(fields: Fields, index: int | None) -> None:
                content = _content(fields, index)
                memory[:_HEAD] = bytes(_HEAD)
                if len(content) <= _ROOM - _HEAD:
                    memory[_HEAD : _HEAD + len(content)] = content
                    memory[:_HEAD] = len(content).to_bytes(_HEAD, "little")

            yield note
    path.unlink()


def last(path: Path) -> dict[str, Any] | None:
    """The last instance that was given to measure, as lists by field; None if none was noted."""
    try:
        content = path.read_bytes()
        parts = pickle.loads(content[_HEAD : _HEAD + int.from_bytes(content[:_HEAD], "little")])
        return {name: np.frombuffer(data).reshape(shape).tolist() for name, shape, data in parts}
    except (OSError, ValueError, pickle.UnpicklingError, EOFError):
        return None


def _content(fields: Fields, index: int | None) -> bytes:
    """One instance's arrays as bytes; nothing of many at once: nobody knows which one it is."""
    if index is None:
        if any(len(values) > 1 for values in fields.values()):
            return b""
        index = 0
    parts = [(k, v.shape[1:], v[index].astype(float).tobytes()) for k, v in fields.items()]
    return pickle.dumps(parts)
