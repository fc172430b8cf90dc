"""A formula as a program: operations on numbers, each once, and comparisons with their outcomes.

A :class:`Tape` is what :mod:`linsys.linalg.recorded` writes on.

>>> tape = Tape()
>>> x, one = tape.given(), tape.constant(1)
>>> tape.leaf("0", x, tape.place("+", x, one))
>>> print(tape.text())
in
const 1
+ 2 1
= 0 0 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linsys.linalg.balls import open_answer
from linsys.linalg.object_numbers import is_written

__all__ = ["ANY", "NOT_NEGATIVE", "OPPOSITE", "POSITIVE", "Tape", "TooLong", "Unrecorded"]

#: A program of more operations and comparisons is not recorded.
MOST = 200_000
#: Of a number nothing is known, or that it is not negative, or that it is above zero.
ANY, NOT_NEGATIVE, POSITIVE = 0, 1, 2
#: What a comparison may find: the sign of a - b, or that one of them has no value.
Found = frozenset[int | None]
_NUMBERS: Found = frozenset((-1, 0, 1))
_NONE: Found = frozenset((None,))
#: Each relation by that for which it holds; of what has no value "!=" does alone, as in NumPy.
_HOLDS: dict[str, Found] = {
    "<": frozenset((-1,)),
    "<=": frozenset((-1, 0)),
    "==": frozenset((0,)),
    ">=": frozenset((0, 1)),
    ">": frozenset((1,)),
    "!=": frozenset((-1, 1, None)),
}
OPPOSITE = {"<": ">=", "<=": ">", "==": "!=", ">=": "<", ">": "<=", "!=": "=="}


class Unrecorded(ArithmeticError):
    """Why a formula is no program of these operations, in a line."""


class TooLong(Unrecorded):
    """The program is longer than is recorded."""


class Tape:
    """Operations and comparisons, as they were made."""

    def __init__(self) -> None:
        #: Every operation with the numbers of those that it takes, or with a constant's text.
        self.lines: list[tuple[Any, ...]] = []
        #: Constants that are known rationals, by their place.
        self.constants: dict[int, Any] = {}
        #: What is known of each number's sign.
        self.signs: list[int] = []
        #: Whether each number surely is one, wherever the numbers that are given are.
        self.finite: list[bool] = []
        #: The largest value of numbers that are given, by their place, where one is known; and
        #: which whole numbers those may be that are given as such.
        self.most: dict[int, Any] = {}
        self.whole: dict[int, range] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        #: Comparisons of the case that is recorded now, and the leaves with those of their cases.
        self._path: list[tuple[Any, ...]] = []
        self._between: dict[tuple[int, int], Found] = {}
        self.leaves: list[tuple[list[tuple[Any, ...]], list[Any]]] = []

    def given(self, sign: int = ANY) -> int:
        """The place of one more number that the formula is given."""
        return self._add(("in", *("", ">=", ">")[sign].split()), sign, True)

    def place(self, operation: str, *of: Any) -> int:
        """Where an operation's result stands: anew, or where it was made before."""
        without = self._known.get(("const", "nan"))
        if without is not None and without in of:
            return without  # what is made of it has no value, either
        if operation in "+*":
            of = tuple(sorted(of))
        key = operation, *of
        found = self._known.get(key)
        if found is None:
            sign = _sign(operation, of, self.signs, self.finite)
            finite = self._is_finite(operation, of)
            if operation == "-" and of[0] in self.constants and of[1] in self.most:
                sign = NOT_NEGATIVE if self.constants[of[0]] >= self.most[of[1]] else ANY
            found = self._known[key] = self._add(key, sign, finite)
        return found

    def _is_finite(self, operation: str, of: Sequence[Any]) -> bool:
        """Whether an operation surely has a value."""
        if operation in ("const", "acos"):
            return False  # what is no rational, and an angle of what may be above 1
        if not all(self.finite[x] for x in of if isinstance(x, int)):
            return False
        if operation == "/":
            return self.is_apart(of[1])
        least = {"root": NOT_NEGATIVE, "log": POSITIVE}.get(operation)
        return least is None or self.signs[of[0]] >= least

    def is_apart(self, place: int) -> bool:
        """Whether a number is known not to be zero, where it is one."""
        operation, *of = self.lines[place]
        if operation == "neg":
            return self.is_apart(of[0])
        return self.signs[place] == POSITIVE or self.constants.get(place, 0) != 0

    def _add(self, line: tuple[Any, ...], sign: int, finite: bool) -> int:
        if len(self.lines) + len(self._path) > MOST:
            raise TooLong(f"the program has over {MOST:,} operations")
        self.lines.append(line)
        self.signs.append(sign)
        self.finite.append(finite)
        return len(self.lines) - 1

    def constant(self, value: Any) -> int:
        """The place of a known rational."""
        key = "const", str(value)
        found = self._known.get(key)
        if found is None:
            sign = POSITIVE if value > 0 else NOT_NEGATIVE if value == 0 else ANY
            found = self._known[key] = self._add(key, sign, True)
            self.constants[found] = value
        return found

    def start(self) -> None:
        """Begin another case."""
        self._path, self._between = [], {}

    def compared(self, relation: str, a: int, b: int, outcome: bool, is_open: bool) -> bool:
        """Write down how a comparison came out."""
        if is_open:
            self._path.append(("?", relation, a, b, outcome))
        else:
            self._path.append(("!", relation if outcome else OPPOSITE[relation], a, b))
        return outcome

    def by_signs(self, relation: str, a: int, b: int) -> bool:
        """How a comparison comes out by signs or by others; both ways where it is open.

        Of what may have no value, such as the root of a negative number, it is open.
        """
        turned = a > b
        if turned:
            a, b = b, a
            relation = relation.translate(str.maketrans("<>", "><"))
        left, holds = self._between.get((a, b)) or self._possible(a, b), _HOLDS[relation]
        if None in left and relation not in ("==", "!=") and not is_written():
            # NumPy sorts what has no value last, whatever its comparisons say: that is open anew
            return self.compared(relation, a, b, open_answer(f"an order of {a} and {b}"), True)
        if left <= holds or not left & holds:
            return left <= holds
        outcome = open_answer(f"{relation} of numbers {a} and {b}")
        self._between[a, b] = left & holds if outcome else left - holds
        return self.compared(relation, a, b, outcome, True)

    def _possible(self, a: int, b: int) -> Found:
        """The signs that a - b may have, and None if it may have none."""
        ends = ("const", "inf"), ("const", "-inf")
        sure = all(self.finite[x] or self.lines[x] in ends for x in (a, b))
        return self._signs_of(a, b) | (frozenset() if sure else _NONE)

    def _signs_of(self, a: int, b: int) -> Found:
        """The signs that a - b may have where both have a value, infinity among them."""
        if a == b:
            return frozenset((0,))
        for one, zero, turn in ((a, b, 1), (b, a, -1)):
            if self.lines[zero] in (("const", "inf"), ("const", "-inf")):
                apart = frozenset((turn if "-inf" in self.lines[zero] else -turn,))
                # what surely is a number is not infinite, but the logarithm of 0 is
                return apart if self.finite[one] else apart | {0}
            known = self.constants.get(zero)
            if known is not None and known <= 0 and self.signs[one] >= NOT_NEGATIVE:
                strict = known < 0 or self.signs[one] == POSITIVE
                return frozenset((turn,)) if strict else frozenset((turn, 0))
        return _NUMBERS

    def leaf(self, *told: int | str) -> None:
        """End the case: the places that are its result, and plain words."""
        self.leaves.append((self._path, [*told]))

    def text(self) -> str:
        """The program, of what is needed alone; places are told by how far back they are."""
        tree: list[tuple[Any, ...]] = []
        for number, (path, told) in enumerate(self.leaves):
            begin = 0
            if number:  # where the case before this one took the other way
                before = self.leaves[number - 1][0]
                begin = 1 + next(k for k, one in enumerate(path) if one != before[k])
            tree += [*(one[:4] for one in path[begin:]), ("=", *told)]
        needed = {x for line in tree for x in line if isinstance(x, int)}
        needed |= {k for k, line in enumerate(self.lines) if line[0] == "in"}
        for place in range(len(self.lines) - 1, -1, -1):
            if place in needed and self.lines[place][0] not in ("in", "const"):
                needed |= {x for x in self.lines[place][1:] if isinstance(x, int)}
        new = {place: number for number, place in enumerate(sorted(needed))}
        said = []
        for place in sorted(needed):
            words = [new[place] - new[x] if isinstance(x, int) else x for x in self.lines[place]]
            said.append(" ".join(map(str, words)))
        for line in tree:
            said.append(" ".join(str(new[x]) if isinstance(x, int) else x for x in line))
        return "\n".join(said)


def _sign(operation: str, of: Sequence[Any], signs: Sequence[int], finite: Sequence[bool]) -> int:
    """What is known of the sign of an operation's result, also of infinite numbers."""
    if operation == "exp":
        return POSITIVE if finite[of[0]] else NOT_NEGATIVE  # of the logarithm of 0
    if operation in ("const", "rounded", "-", "neg", "log", "sin", "cos", "atan", "least", "most"):
        return ANY
    each = [signs[x] for x in of if isinstance(x, int)]
    if operation == "+":
        return max(each) if min(each) else ANY
    if operation == "*" and of[0] == of[1]:
        return max(NOT_NEGATIVE, each[0])
    if operation == "/":
        most = POSITIVE if finite[of[1]] else NOT_NEGATIVE  # by infinity
        return min(each[0], most) if min(each) else ANY
    if operation in ("abs", "root", "length"):
        return max(NOT_NEGATIVE, each[0])
    if operation == "acos":
        return NOT_NEGATIVE
    return {"max": max, "min": min, "*": min}.get(operation, lambda _: ANY)(each)
