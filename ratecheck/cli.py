"""The entry point of the ``ratecheck`` command."""

from __future__ import annotations

import os
import sys

from ratecheck._packages import foreign_package
from ratecheck._processes import interrupts
from ratecheck._processes.garbage import collect_seldom


def main() -> None:
    """Run the command with our own packages; say in a line where that cannot be done."""
    # Python puts the current folder first on the path of worker processes, and a file there may be
    # called ratecheck.py, or as a module of the standard library.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Products of small matrices on several threads cost several times the processor time and are no
    # sooner there. OpenBLAS is NumPy's and not PyTorch's, whose products are large.
    if "OMP_NUM_THREADS" not in os.environ:  # which OpenBLAS heeds as well
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    problem = foreign_package()
    if problem is not None:
        print(f"ratecheck: {problem}", file=sys.stderr)
        sys.exit(2)
    collect_seldom()
    interrupts.end_by_signal_at_exit()
    try:
        from ratecheck._commands.app import main as command

        command()
    except KeyboardInterrupt:  # before the command has begun to listen
        print("ratecheck: interrupted", file=sys.stderr)
        interrupts.leave()
