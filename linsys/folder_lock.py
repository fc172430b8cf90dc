"""Processes that would make the same thing take turns: one makes it, the others find it made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["folder_lock"]


@contextmanager
def folder_lock(folder: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Hold a folder alone among all who ask for it with this function, in any process.

    However a process ends, it holds the folder no longer: the system keeps the lock, no file does.

    Args:
        folder: must be there; nothing is written into it.
        on_wait: called before waiting for another process, for example to print a message.

    Yields:
        Whether the folder is held alone. It is not on Windows and on disks that cannot lock a
        folder; there no process waits for another.
    """
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        held = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            held = False
        yield held
    finally:
        os.close(handle)
