"""Claims whose measures misbehave in every way that a user's can."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import ratecheck as rc

SPACE = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (1, 3)})
#: A space whose own instances break what it promises.
FALSE = rc.Space(
    fields={"p": rc.simplex("k")}, sizes={"k": (2, 2)}, assumes={"p is sorted": lambda i: False}
)
Measure = Callable[[Any], Any]


def declare(name: str, measure: Measure, space: rc.Space = SPACE) -> rc.Claim:
    text = f"a claim that {name}"
    return rc.claim(id=f"broken.{name}", source="nowhere", kind="upper", space=space, text=text)(
        measure
    )


def on_two(act: Callable[[], Any]) -> Measure:
    """A measure that does this on distributions of two numbers only."""

    def measure(instance: Any) -> tuple[Any, Any]:
        if len(instance.p) == 2:
            act()
        return instance.p.max(), 1

    return measure


def fail() -> None:
    raise RuntimeError("no two")


class Panic(BaseException):
    """What compiled libraries raise, and pytest.skip: no Exception."""


def panic() -> None:
    raise Panic("no two")


def turn() -> None:
    while True:
        pass


def undefined(instance: Any) -> tuple[Any, Any]:
    return instance.p.max() * (float("nan") if len(instance.p) == 2 else 1), 1


def loud(instance: Any) -> tuple[Any, Any]:
    os.write(1, b"")
    print("a measure that prints")
    return instance.p.max(), 1


GOOD = declare("good", on_two(lambda: None))
RAISES = declare("raises", on_two(fail))
PANICS = declare("panics", on_two(panic))
NAN = declare("nan", undefined)
SHAPE = declare("shape", lambda instance: instance.p)
ASSUMES = declare("assumes", lambda instance: (instance.p.max(), 1), FALSE)
TURNS = declare("turns", on_two(turn))
SLEEPS = declare("sleeps", on_two(lambda: time.sleep(1000)))
LEAVES = declare("leaves", on_two(lambda: sys.exit(3)))
KILLS = declare("kills", on_two(lambda: os._exit(7)))
ENDS = declare("ends", on_two(lambda: os._exit(0)))


def interrupt() -> None:
    raise KeyboardInterrupt


INTERRUPTS = declare("interrupts", on_two(interrupt))
FAULTS = declare("faults", on_two(lambda: ctypes.string_at(0)))
LOUD = declare("loud", loud)
LAST = declare("last", on_two(lambda: None))
