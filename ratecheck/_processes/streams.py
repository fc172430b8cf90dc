"""The command's two streams when nobody reads what is written to them.

Whoever reads only the start of an answer, as in ``ratecheck list | head -1``, ends the command in
silence, as any other program. What goes to stderr is about the answer, which does not depend on it:
it is dropped where it cannot be written.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

#: How a shell sees a program that SIGPIPE ended.
_READER_GONE = 141


class Unwritten(Exception):
    """The answer cannot be written: the exit code and the message, none for a closed pipe.

    No OSError, which typer and rich would turn into exits of their own.
    """

    def __init__(self, error: OSError) -> None:
        gone = isinstance(error, BrokenPipeError)
        self.code = _READER_GONE if gone else 2
        super().__init__("" if gone else f"stdout must be writable; found {error.strerror}")


@contextmanager
def guarded() -> Iterator[None]:
    """In this block a failed write to stdout raises Unwritten; one to stderr is ignored."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:  # closed by the shell: the next open file would get it
            _redirect_to_null(number)
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
    out = _guarded(_writing_all(sys.stdout), _raise_unwritten)
    with redirect_stdout(out), redirect_stderr(ignoring_failures(sys.stderr)):
        yield


def _writing_all(stream: TextIO) -> TextIO:
    """The stream, made to write all that it is given.

    Without a buffer, as with ``PYTHONUNBUFFERED``, Python silently drops what one call to the
    system does not write.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(
        stream.fileno(),
        "w",
        buffering=1,
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,  # it stays Python's
    )


def ignoring_failures(stream: TextIO) -> TextIO:
    """The stream, which drops everything from the first write that fails."""
    return _guarded(stream, lambda error: None)


def _raise_unwritten(error: OSError) -> None:
    raise Unwritten(error) from None


def _guarded(stream: TextIO, failed: Callable[[OSError], None]) -> TextIO:
    return cast(TextIO, _Guarded(stream, failed))


class _Guarded:
    """A stream that reports the first write that fails, and drops what it holds and gets."""

    def __init__(self, stream: TextIO, failed: Callable[[OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._write_failed(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._write_failed(error)

    def _write_failed(self, error: OSError) -> None:
        _redirect_to_null(
            self._stream.fileno()
        )  # what it still holds would fail once more at the exit
        self._failed(error)


def _redirect_to_null(number: int) -> None:
    """Redirect this file of the process to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    os.set_inheritable(number, True)
