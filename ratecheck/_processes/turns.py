"""Workers that need the same compiled functions compile them by turns: the first one for all.

Processes that begin with an empty cache need the same functions at about the same time, and each
would compile them. numba says when it begins to look for a function in the cache and when it has
kept what it compiled; in between no other worker of the pool does either. A worker that waits for
its turn uses no CPU time, and the wait counts for no limit.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from linsys.folder_lock import folder_lock
from ratecheck._processes import compilation

__all__ = ["take_turns", "waiting"]

_waits = False


def waiting() -> bool:
    """Whether this process waits for its turn."""
    return _waits


def take_turns(folder: Path) -> None:
    """From now on, compile in turns with all processes that name this folder here."""
    compilation.listen(_Turns(folder), imports=False)


class _Turns:
    """Holds the folder from the beginning to the end of a compilation, with those within it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._depth, self._held = folder, 0, contextlib.ExitStack()

    def begins(self) -> None:
        """Compilation begins, or one within another."""
        global _waits
        self._depth += 1
        if self._depth > 1:
            return

        def wait() -> None:
            global _waits
            _waits = True

        try:
            with contextlib.suppress(OSError):  # the folder is gone: whoever made it has ended
                self._held.enter_context(folder_lock(self._folder, wait))
        finally:
            _waits = False

    def ends(self) -> None:
        """One compilation is over."""
        self._depth -= 1
        if not self._depth:
            self._held.close()
