"""What a worker does, where another process can read it: the instance, and whether it compiles.

A measure that never returns, or that ends its process, cannot report anything any more. So each
instance is put into a memory-mapped file before it is measured; that costs a microsecond or two.
The file begins with a byte that says whether the worker compiles, and how many evaluations were
begun.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsys.json_text import from_json
from ratecheck._claims.space import Fields
from ratecheck._store.files import write_whole

#: Bytes of a trace: one for compilation, the size of the note (up to _COUNT), how many evaluations
#: were begun (up to _HEADER), and the note itself. Larger instances are not noted.
_SIZE = 1 << 16
_COUNT, _HEADER = 8, 16


class Trace:
    """Notes in a file of _SIZE bytes."""

    def __init__(self, path: Path, memory: mmap.mmap) -> None:
        self._path, self._memory, self._begun = path, memory, 0

    def watch(self, fields: Fields, index: int | None) -> None:
        """Note an instance, see :data:`ratecheck._claims.certificates.Watch`."""
        content = _content(fields, index)
        self._begun += len(next(iter(fields.values()))) if index is None else 1
        self._memory[_COUNT:_HEADER] = self._begun.to_bytes(_HEADER - _COUNT, "little")
        self._memory[1:_COUNT] = bytes(_COUNT - 1)
        if len(content) <= _SIZE - _HEADER:
            self._memory[_HEADER : _HEADER + len(content)] = content
            self._memory[1:_COUNT] = len(content).to_bytes(_COUNT - 1, "little")

    def compiling(self, now: bool) -> None:
        """Note whether this process compiles."""
        self._memory[0] = now

    def violated(self, verdict: Mapping[str, Any]) -> None:
        """Note the verdict of a violation, plain JSON values, in a file beside the trace."""
        with contextlib.suppress(OSError):  # which costs what a killed process had found
            write_whole(_violation(self._path), json.dumps(verdict).encode())


@contextlib.contextmanager
def tracing(path: Path) -> Iterator[Trace]:
    """A trace in a file, which is removed if all went well."""
    with path.open("w+b") as stream:
        stream.truncate(_SIZE)
        with mmap.mmap(stream.fileno(), _SIZE) as memory:
            yield Trace(path, memory)
    path.unlink()
    _violation(path).unlink(missing_ok=True)


def violation(path: Path) -> dict[str, Any] | None:
    """The verdict of the violation that was found, if any."""
    try:
        verdict: dict[str, Any] = from_json(_violation(path).read_bytes())
    except (OSError, ValueError):
        return None
    return verdict


def _violation(path: Path) -> Path:
    return path.with_name(f"{path.name}.violation")


def last(path: Path) -> dict[str, Any] | None:
    """The last instance that was given to measure, as lists by field; None if none was noted."""
    try:
        content = path.read_bytes()
        parts = pickle.loads(
            content[_HEADER : _HEADER + int.from_bytes(content[1:_COUNT], "little")]
        )
        return {name: np.frombuffer(data).reshape(shape).tolist() for name, shape, data in parts}
    except (OSError, ValueError, pickle.UnpicklingError, EOFError):
        return None


def begun(path: Path) -> int:
    """How many times measure was given an instance; 0 if there is no trace."""
    try:
        with path.open("rb") as stream:
            return int.from_bytes(stream.read(_HEADER)[_COUNT:], "little")
    except OSError:
        return 0


def compiles(path: Path) -> bool:
    """Whether the process that writes this trace compiles; not if there is no trace."""
    try:
        with path.open("rb") as stream:
            return stream.read(1) == b"\1"
    except OSError:
        return False


def _content(fields: Fields, index: int | None) -> bytes:
    """One instance's arrays as bytes; nothing for many at once, any of which may matter."""
    if index is None:
        if any(len(values) > 1 for values in fields.values()):
            return b""
        index = 0
    parts = [(k, v.shape[1:], v[index].astype(float).tobytes()) for k, v in fields.items()]
    return pickle.dumps(parts)
