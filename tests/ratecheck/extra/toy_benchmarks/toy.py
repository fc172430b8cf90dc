"""A benchmark that takes no time."""

from __future__ import annotations

import ratecheck as rc


def run(quick: bool) -> list[rc.BenchRow]:
    print("peers print, too")
    return [rc.BenchRow("toy", "a peer", 0.5, 1.0 if quick else 2.0, True)]
