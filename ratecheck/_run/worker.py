"""Processes that work for this one: what they import, and that they end with it, however it ends.

What they would finish nobody reads, and until then they would write beside the next command's.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

from ratecheck._run.streams import spared

#: What a new process imports first: then our packages are ours, whatever the current folder holds.
FIRST = "ratecheck._packages"
#: Seconds between two looks.
_POLL = 0.5


def python_command(code: str) -> list[str]:
    """The command line of a new process that runs this code with our packages."""
    return [sys.executable, "-c", f"import {FIRST}; {code}"]


def side_by_side(workers: int) -> AbstractContextManager[Any]:
    """Here joblib has so many processes with one thread each, and with our packages."""
    import joblib

    own = {"initializer": importlib.import_module, "initargs": (FIRST,)}
    context: AbstractContextManager[Any] = joblib.parallel_config(
        "loky", n_jobs=workers, inner_max_num_threads=1, **own
    )
    return context


@functools.cache
def begin_work() -> None:
    """In a worker: be gone soon after the process it works for, and lose no result to stderr.

    Elsewhere nothing happens.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        sys.stderr = spared(sys.stderr)
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: Any) -> None:
    try:
        parent.join()
    except (TypeError, ValueError):  # joblib gives its workers no line to wait at
        while os.getppid() == parent.pid:
            time.sleep(_POLL)
    os._exit(1)
