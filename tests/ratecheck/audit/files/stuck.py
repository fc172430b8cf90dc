"""A claim that compiled code never returns from, and one that holds."""

from __future__ import annotations

from typing import Any

import ratecheck as rc

SPACE = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (1, 3)})


@rc.claim(id="stuck.hangs", source="nowhere", kind="upper", space=SPACE, text="no answer")
def hangs(instance: Any) -> tuple[Any, Any]:
    return sum(range(10**12)) if len(instance.p) == 2 else 0, 1


@rc.claim(id="stuck.good", source="nowhere", kind="upper", space=SPACE, text="an answer")
def good(instance: Any) -> tuple[Any, Any]:
    return instance.p.max(), 1
