"""Worker processes that end with the process they work for, however that one ends.

What they would finish nobody reads, and until then they would write beside the next command's.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time

#: Seconds between two looks.
_POLL = 0.5


@functools.cache
def end_with_parent() -> None:
    """In a worker that its parent has started itself: be gone soon after it.

    Nothing happens in a process that is no worker, and on Windows, where none learns of the end.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        threading.Thread(target=_watch, args=(parent.pid,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL)
    os._exit(1)
