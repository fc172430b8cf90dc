"""pytest in a fork of a process that waits, with the libraries imported: half of the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["Waiting", "waiting"]

#: For every line that it reads, one run in a process of its own, and its exit code.
_PROGRAM = """
import json, os, sys
import hypothesis, latex2mathml.converter, mpmath, numpy, pytest
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        for at, name in enumerate((os.devnull, *order["said"])):
            os.dup2(os.open(name, os.O_CREAT | os.O_RDWR), at)
        os.chdir(order["folder"])
        sys.path[0], sys.argv = order["folder"], ["pytest", *order["arguments"]]
        code = pytest.main(order["arguments"])
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Waiting:
    """The process that waits.

    Args:
        environment: of all runs.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-c", _PROGRAM]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """What ``python -m pytest`` with these arguments says in a folder."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with TemporaryDirectory() as said:
            paths = [Path(said) / name for name in ("out", "err")]
            order = {"folder": str(folder), "arguments": arguments, "said": [*map(str, paths)]}
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
            return subprocess.CompletedProcess(
                arguments, code, *(path.read_text() for path in paths)
            )


@contextmanager
def waiting(environment: dict[str, str]) -> Iterator[Waiting | None]:
    """The process, which ends with the block; None where processes are not forked."""
    if not hasattr(os, "fork"):
        yield None
        return
    one = Waiting(environment)
    try:
        yield one
    finally:
        one.process.communicate()
