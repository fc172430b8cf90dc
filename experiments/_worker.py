"""Worker processes that end with the process they work for, however that one ends.

What they would finish nobody reads, and until then they would write beside the next command's.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from typing import Any

#: Seconds between two looks.
_POLL = 0.5


@functools.cache
def end_with_parent() -> None:
    """In a worker: be gone soon after the process it works for. Elsewhere nothing happens."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: Any) -> None:
    try:
        parent.join()
    except (TypeError, ValueError):  # joblib gives its workers no line to wait at
        while os.getppid() == parent.pid:
            time.sleep(_POLL)
    os._exit(1)
