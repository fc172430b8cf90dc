"""Formulas over many boxes that compare numbers: every way that a comparison may come out.

A comparison of :class:`linsys.linalg.boxes.Form` numbers is true in some boxes, false in others,
and open where the enclosures overlap. :func:`every_path` evaluates a formula once for each way in
which its comparisons come out, each time on the boxes in which they may come out so. A box in which
a comparison is open is evaluated both ways, so that what holds on all of its paths holds in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "Mask", "Path", "Paths", "State", "every_path"]

_Result = TypeVar("_Result")
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]


class State:
    """What the arithmetic of the process is at."""

    #: The path under evaluation.
    path: Path
    #: How many coordinates there are.
    coordinates = 0
    #: Differences of degrees of numbers that a formula adds or compares: it is homogeneous with
    #: the weights that are orthogonal to all of them.
    alike: set[tuple[float, ...]] = set()  # noqa: RUF012 - one process, one arithmetic
    #: What was computed on the path, by function and arguments; None outside of any.
    known: dict[Any, Any] | None = None


class Answer:
    """The outcome of a comparison in B boxes: certainly true, certainly false, or open.

    Args:
        yes: boxes in which it is certainly true, (B,).
        no: boxes in which it is certainly false, (B,).
        of: the coordinates that it depends on, a bit for each.
    """

    __slots__ = ("no", "of", "yes")

    def __init__(self, yes: Mask, no: Mask, of: int = 0) -> None:
        self.yes, self.no, self.of = yes, no, of

    def __bool__(self) -> bool:
        return State.path.outcome(self.yes, self.no, self.of)

    def __invert__(self) -> Answer:
        return Answer(self.no, self.yes, self.of)

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Answer):
            return Answer(self.yes & other.yes, self.no | other.no, self.of | other.of)
        return self if other else False

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return ~(~self & ~other) if isinstance(other, Answer) else True if other else self

    __ror__ = __or__

    def __eq__(self, other: Any) -> Any:
        return ~(self ^ other)

    def __ne__(self, other: Any) -> Any:
        return self ^ other

    def __hash__(self) -> int:
        raise TypeError("the outcome of a comparison in boxes is no key")

    def __xor__(self, other: Any) -> Any:
        if isinstance(other, Answer):
            return (self & ~other) | (~self & other)
        if isinstance(other, bool | np.bool_) or (isinstance(other, int) and other in (0, 1)):
            return ~self if other else self
        raise TypeError(f"the outcome of a comparison in boxes beside {other!r:.40}")

    __rxor__ = __xor__


class Path:
    """One way through a formula: the answers so far, and the boxes that may go this way.

    Args:
        answers: what the first comparisons are taken to be.
        count: B.
    """

    def __init__(self, answers: tuple[Any, ...], count: int) -> None:
        self.answers, self.given = answers, 0
        #: Boxes that may come here.
        self.active = np.ones(count, dtype=bool)
        #: Boxes of which this evaluation says nothing.
        self.open = np.zeros(count, dtype=bool)
        #: The coordinates that open comparisons depend on, a bit for each.
        self.of = 0
        #: Other ways: their answers, and the boxes that may go there.
        self.others: list[tuple[tuple[Any, ...], Mask]] = []

    def outcome(self, yes: Mask, no: Mask, of: int = 0) -> bool:
        """What a comparison is taken to be on this path."""
        self.of |= of if (self.active & ~yes & ~no).any() else 0
        if self.given < len(self.answers):
            answer = bool(self.answers[self.given])
        else:
            may, may_not = self.active & ~no, self.active & ~yes
            answer = bool(may.any())
            if answer and may_not.any():
                self.others.append(((*self.answers, False), may_not))
            self.answers = (*self.answers, answer)
        self.given += 1
        self.active = self.active & ~(no if answer else yes)
        return answer

    def whole(self, lo: Any, hi: Any) -> int:
        """The whole number that is taken for a number; boxes in which it varies are left open."""
        lo, hi = (np.broadcast_to(end, self.active.shape) for end in (lo, hi))
        fixed = self.active & (lo == hi) & (lo == np.floor(lo))
        self.open |= self.active & ~fixed
        self.active = fixed
        if self.given < len(self.answers):
            value = int(self.answers[self.given])
        else:
            values = np.unique(lo[fixed])
            if not len(values):
                raise NoBox
            value = int(values[0])
            for other in values[1:]:
                self.others.append(((*self.answers, int(other)), fixed & (lo == other)))
            self.answers = (*self.answers, value)
        self.given += 1
        self.active = fixed & (lo == value)
        return value


class NoBox(Exception):
    """No box is left on a path whose result would be of any use."""


@contextmanager
def _on(path: Path) -> Iterator[None]:
    before = getattr(State, "path", None), State.known
    State.path, State.known = path, {}
    try:
        yield
    finally:
        State.path, State.known = before  # type: ignore[assignment]


class Paths:
    """What :func:`every_path` left out: boxes of which not every path was evaluated."""

    def __init__(self, count: int) -> None:
        #: Boxes that are left undecided, (B,).
        self.open = np.zeros(count, dtype=bool)
        #: How many paths were evaluated.
        self.number = 0


def every_path(
    function: Callable[[Rows], _Result], count: int, most: int, paths: Paths
) -> Iterator[tuple[Rows, Mask, _Result]]:
    """Evaluate a formula on all paths of B boxes.

    Args:
        function: the formula on some of the boxes, whose numbers it gets.
        count: B.
        most: so many paths are evaluated; the boxes of the others are left open.
        paths: is told which boxes are left open.

    Yields:
        The boxes that were evaluated, which of them may go this way, and the formula's value.
    """
    todo: list[tuple[tuple[Any, ...], Rows]] = [((), np.arange(count))]
    while todo:
        answers, rows = todo.pop()
        if paths.number == most:
            paths.open[rows] = True
            continue
        paths.number += 1
        path = Path(answers, len(rows))
        results: list[_Result] = []
        with suppress(NoBox), _on(path):
            results.append(function(rows))
        paths.open[rows[path.open]] = True
        todo += [(other, rows[mask]) for other, mask in path.others if mask.any()]
        for result in results:
            yield rows, path.active, result
