"""Check the upper end of a constant over boxes: ``python check_constant.py FILE``.

Besides the standard library it needs python-flint alone. A constant's ``formula`` begins with a
line ``@ [[..], [[[low, high], ..], ..]]``: which inputs are whole numbers, and the boxes. A program
as check_formula.py has it follows, whose ``in >=`` and ``in >`` have that sign in all boxes, and
whose leaves name T and B of every entry. T <= q B, q the upper end of ``ratio``, is shown by branch
and bound. A line lies in its enclosure in Arb, and in m + sum d_i (x_i - c_i), m its value in the
middle c, d all its generalized derivatives over the box (the mean value theorem). Every leaf that
open comparisons leave has to hold where it has values. Where derivatives say at which end of an
input's range each q B - T is least, that end is all that is looked at.
"""

from __future__ import annotations

import base64
import json
import math
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
from flint import arb, fmpq

KIND, BITS, WORK = [1, "constant"], 128, 100_000_000
_LONGEST, _GIVEN = 20_000_000, {"const": (1,), "in": (0, 1)}
UNDECIDED = "NOTHING WAS DECIDED: it has no formula of a constant"
SHOWN = "T <= q B in all boxes of the formula that it carries, where it has values"
LEFT = "Not decided: that T and B are the claim's, that the boxes hold all instances, the lower end"
ILL = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, zlib.error)
_TAKES = dict.fromkeys(("neg", "abs", "root", "length", "exp", "log"), 1)
_TAKES |= dict.fromkeys(("+", "-", "*", "/", "max", "min"), 2)
_METHODS = {"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "abs": "__abs__"}
_NAN, _ZERO = arb("nan"), arb(0)
Box = list[tuple[Fraction, Fraction]]
Line = tuple[str, list[int], str]


class Open(Exception):
    """Why it is not decided here, in a line."""


def unpacked(text: str) -> str:
    """The program of a certificate."""
    unzip = zlib.decompressobj()
    plain = unzip.decompress(base64.b85decode(text), _LONGEST)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("`formula` must be one compressed text that is not too long")
    return plain.decode("ascii")


class Program:
    """A formula: which inputs are whole numbers, the boxes, the lines and the tree of its cases."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.partition("\n")
        whole, boxes = json.loads(head.removeprefix("@ "))
        self.whole: list[bool] = [one is True for one in whole]
        self.boxes: list[Box] = [[(number(a), number(b)) for a, b in box] for box in boxes]
        self.lines, self.tree, self.signs = list[Line](), list[Line](), list[bool]()
        self.most: dict[int, Fraction] = {}  # the largest value of every input, by its line
        cases = 1
        for place, line in enumerate(rest.split("\n")):
            name, *words = line.split(" ")
            if name in ("?", "=") and cases > 0:
                cases += 1 if name == "?" else -1
                relation = words.pop(0) if name == "?" else ""
                of, fits = [int(word) for word in words], len(words) % 2 == 0
                self.tree.append((name, of, relation))
            else:
                of = [place - int(word) for word in words[: _TAKES.get(name, 0)]]
                more = len(words) - len(of) in _GIVEN.get(name, (0,) * (name in _TAKES))
                fits = more and len(of) == _TAKES.get(name, 0) and place == len(self.lines)
                self.lines.append((name, of, " ".join(words[len(of) :])))
                if name == "in":
                    self.most[place] = max(box[len(self.most)][1] for box in self.boxes)
                self.signs.append(self._sign(*self.lines[-1]))
            if not fits or not all(0 <= k < min(place, len(self.lines)) for k in of):
                raise ValueError(f"line {place} must be of earlier ones; found {line!r:.40}")
        self.inputs = list(self.most)
        for box in self.boxes:
            for (low, high), k, whole in zip(box, self.inputs, self.whole, strict=True):
                fits = low <= high and {"": True, ">=": low >= 0, ">": low > 0}[self.lines[k][2]]
                if not fits or (whole and not low.denominator == high.denominator == 1):
                    raise ValueError("`formula` must have intervals of the signs of its inputs")
        if cases or not self.boxes or not any(of for kind, of, _ in self.tree if kind == "="):
            raise ValueError("`formula` must have boxes, and a program all its cases, with sides")
        self.used = [any(k in of for _, of, _ in self.lines + self.tree) for k in self.inputs]

    def _sign(self, name: str, of: list[int], rest: str) -> bool:
        """Whether a number is negative nowhere, by its form."""
        each = [self.signs[place] for place in of]
        if name in ("in", "const"):
            return rest in (">=", ">") if name == "in" else rest[:1].isdecimal()
        if name in ("exp", "abs", "root", "length") or (name == "*" and of[0] == of[1]):
            return True
        if name == "-" and of[1] in self.most and self.lines[of[0]][2][:1].isdecimal():
            return number(self.lines[of[0]][2]) >= self.most[of[1]]
        return name in ("+", "*", "/", "min", "max") and (any(each) if name == "max" else all(each))


class Enclosed:
    """The lines of a program over a box: with derivatives, and their values in the middle."""

    def __init__(self, program: Program, box: Box) -> None:
        self.program, self.box = program, box
        middle = [(low + high) / 2 for low, high in box]
        away = enumerate(around(a - m, b - m) for (a, b), m in zip(box, middle, strict=True))
        self.away = {i: ball for i, ball in away if box[i][0] < box[i][1]}
        self.over, self.centre = [[_NAN] * len(program.lines) for _ in range(2)]
        self.slopes: list[dict[int, Any]] = [{}] * len(program.lines)
        for place, line in enumerate(program.lines):
            if line[0] == "in":
                i = program.inputs.index(place)
                value, centre = around(*box[i]), around(middle[i], middle[i])
                slopes = {i: arb(1)} if i in self.away else {}
            else:
                value, slopes, centre = self._line(line)
                near = self.near(centre, slopes)
                if slopes and near.is_finite() and value.is_finite() and value.overlaps(near):
                    value = value.intersection(near)
            if program.signs[place] and value.is_finite():
                value = value.nonnegative_part()
            self.over[place], self.slopes[place], self.centre[place] = value, slopes, centre

    def near(self, centre: Any, slopes: Mapping[int, Any]) -> Any:
        """What is known by the mean value theorem."""
        return sum((slope * self.away[i] for i, slope in slopes.items()), centre)

    def _line(self, line: Line) -> tuple[Any, dict[int, Any], Any]:
        name, of, rest = line
        values = [self.over[k] for k in of]
        value = operation(name, rest, values)
        centre = operation(name, rest, [self.centre[k] for k in of])
        slopes, made = [self.slopes[k] for k in of], dict[int, Any]()
        if name in ("max", "min"):
            a, b = values if name == "max" else reversed(values)
            for i in slopes[0] | slopes[1]:
                first, second = (one.get(i, _ZERO) for one in slopes)
                made[i] = first if a >= b else second if a <= b else first.union(second)
            return value, made, centre
        factors = derivatives(name, values, value) if any(slopes) else [_ZERO] * len(of)
        for factor, one in zip(factors, slopes, strict=True):
            for i, slope in one.items():
                made[i] = made.get(i, _ZERO) + factor * slope
        return value, made, centre

    def holds(self, relation: str, a: int, b: int) -> bool | None:
        """How a comparison comes out in all of the box; None where that is open."""
        x, y = self.over[a], self.over[b]
        yes = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}
        no = {"<": x >= y, "<=": x > y, ">": x <= y, ">=": x < y, "==": x != y, "!=": x == y}
        return True if yes[relation] else False if no[relation] else None

    def leaves(self) -> list[set[tuple[int, int]]]:
        """The sides of all entries, of every leaf that may be reached."""
        found, todo = list[set[tuple[int, int]]](), [True]
        for kind, of, relation in self.program.tree:
            met = todo.pop()
            if kind == "?":
                outcome = self.holds(relation, *of) if met else None
                todo += [met and outcome is not True, met and outcome is not False]
            elif met:
                found.append(set(zip(of[::2], of[1::2], strict=True)))
        return found

    def left(self, top: int, bottom: int, q: Any) -> dict[int, Any] | None:
        """None if T <= q B in all of the box, else the derivatives of q B - T."""
        a, b = self.slopes[top], self.slopes[bottom]
        slopes = {i: q * b.get(i, _ZERO) - a.get(i, _ZERO) for i in a | b}
        near = self.near(q * self.centre[bottom] - self.centre[top], slopes)
        apart = q * self.over[bottom].lower() - self.over[top].upper()
        same = top == bottom and q >= 1 and self.over[top] >= 0
        return None if same or near >= 0 or apart >= 0 else slopes

    def least(self, each: Sequence[dict[int, Any]]) -> Box:
        """The part of the box at which all functions with these derivatives are least."""
        ends = []
        for i, (low, high) in enumerate(self.box):
            slopes = [one.get(i, _ZERO) for one in each]
            up, down = (all(x.is_finite() and s * x >= 0 for x in slopes) for s in (1, -1))
            ends.append((low, low) if up else (high, high) if down else (low, high))
        return ends


def operation(name: str, rest: str, values: Sequence[Any]) -> Any:
    """An operation on balls; nothing is known of a root of what may be negative."""
    if name == "const":
        return arb(rest) if rest in ("inf", "-inf", "nan") else around(number(rest), number(rest))
    if name in ("root", "length"):
        return values[0].sqrt() if values[0] >= 0 else _NAN
    return getattr(values[0], _METHODS.get(name, name))(*values[1:])


def derivatives(name: str, values: Sequence[Any], value: Any) -> list[Any]:
    """The derivatives of an operation; of an absolute value all between -1 and 1."""
    a, b = [*values, None][:2]
    if name in ("+", "-"):
        return [arb(1), arb(1 if name == "+" else -1)]
    if name in ("*", "/"):
        return [b, a] if name == "*" else [1 / b, -value / b]
    if name == "abs":
        return [arb(1) if a >= 0 else arb(-1) if a <= 0 else arb(0, 1)]
    if name in ("root", "length"):
        return [1 / (2 * value)]
    return [arb(-1) if name == "neg" else value if name == "exp" else 1 / a]


def around(low: Fraction, high: Fraction) -> Any:
    """A ball that holds an interval."""
    ends = [arb(fmpq(*end.as_integer_ratio())) for end in (low, high)]
    ball = ends[0].union(ends[1]) if low < high else ends[0]
    return ball.nonnegative_part() if low >= 0 else ball


def number(text: Any) -> Fraction:
    """A rational from text."""
    if not isinstance(text, str) or "e" in text.lower():
        raise ValueError(f"a rational must be text without an exponent; found {text!r:.40}")
    return Fraction(text)


def halves(box: Box, i: int, whole: bool) -> list[Box]:
    """A box divided along a coordinate: in the middle, far from 0 at the geometric mean."""
    low, high = box[i]
    at = Fraction(math.sqrt(low * high)) if low > 0 and high > 4 * low else (low + high) / 2
    at = Fraction(0) if low < 0 < high else at if low < at < high else (low + high) / 2
    at = Fraction(math.floor(at)) if whole else at
    return [[*box[:i], one, *box[i + 1 :]] for one in ((low, at), (at + whole, high))]


def split_of(program: Program, box: Box, depth: int, slopes: Sequence[dict[int, Any]]) -> int:
    """The coordinate along which a box is divided: where q B - T changes most, or a wide one."""
    share = [math.log1p((b - a) / a) if a > 0 else float(b - a) for a, b in box]
    score = [0.0] * len(box)
    for i, slope in (pair for one in slopes for pair in one.items()):
        score[i] += float(slope.abs_upper()) * float(box[i][1] - box[i][0])
    if depth % 3 == 2 or not 0 < sum(score) < math.inf:
        score = [x * y for x, y in zip(share, program.used, strict=True)]
    if not any(score):
        raise Open("nothing is known at a point")
    return max(range(len(box)), key=lambda i: (score[i], share[i]))


def constant(content: Mapping[str, Any]) -> int:
    """How many boxes show T <= q B of a certificate's formula."""
    program = Program(unpacked(content["formula"]))
    todo, count = [(box, 0) for box in reversed(program.boxes)], 0
    most = WORK // (len(program.lines) * (1 + len(program.inputs)))
    with flint.ctx.workprec(BITS):
        if not (q := around(*[number(content["ratio"][1])] * 2)) >= 0:
            raise ValueError("`ratio` must not be below zero")
        while todo:
            box, depth = todo.pop()
            if (count := count + 1) > most:
                raise Open(f"it is not closed with {most:,} boxes, {len(todo) + 1:,} are left")
            flint.ctx.prec = BITS if any(a < b for a, b in box) else 32 * BITS  # exact at a point
            known = Enclosed(program, box)
            leaves = known.leaves()
            each = (known.left(*pair, q) for pair in sorted(set().union(*leaves)))
            left = [slopes for slopes in each if slopes is not None]
            face = known.least(left) if left and len(leaves) == 1 else box
            if face != box:
                todo.append((face, depth))
            elif left:
                i = split_of(program, box, depth, left)
                todo += [(part, depth + 1) for part in halves(box, i, program.whole[i])]
    return count


def answers(path: Path) -> Iterator[tuple[str, int]]:
    """A line for each certificate in a file, and 1 if it is refused, 2 if undecided, or 0."""
    try:
        file = json.loads(path.read_bytes())
        certificates = [*file.get("certificates", [file])]
    except (OSError, *ILL) as error:
        yield f"file must hold certificates; found {path}: {error}", 1
        certificates = []
    for content in certificates:
        name = content.get("id") if isinstance(content, dict) else None
        try:
            told, code = UNDECIDED, 2
            if [content[key] for key in ("format", "kind")] == KIND and "formula" in content:
                told = f"{SHOWN}, q = {content['ratio'][1]}; {constant(content):,} boxes. {LEFT}"
                code = 0
        except Open as error:
            told, code = f"not decided here: {error}", 2
        except ILL as error:
            told, code = f"refused: {error}", 1
        yield "".join(one if one.isprintable() else "?" for one in f"{name}: {told}"), code


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in answers(Path(name))]
    print(*(line for line, _ in lines), sep="\n")
    sys.exit(1 if 1 in (found := [code for _, code in lines] or [1]) else max(found))
