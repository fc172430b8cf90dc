"""Check both ends of a constant over boxes: ``python check_constant.py FILE``.

Besides the standard library it needs python-flint alone. A constant's ``formula`` begins with a
line ``@ [[..], [[[low, high], ..], ..]]``: which coordinates are whole numbers, null of constants
that were rounded, and the boxes. A program as check_formula.py has it follows, whose ``in >=`` and
``in >`` have that sign in all boxes, and whose leaves name T, B, t and b of every entry; t and b
are T and B without common factors. Coordinates of no instance have a leaf without entries.

Upper end: t <= q b is shown by branch and bound. A line lies in its enclosure in Arb, and in m +
sum d_i (x_i - c_i), m its value in the middle c, d all its generalized derivatives over the box.
Every leaf that open comparisons leave has to hold where it has values. Where each q b - t is least
at one end of a range by its derivatives, that end is all that is looked at. Lower end: at the point
``at``, and with all values of rounded constants, every such leaf has an entry with T >= low B > 0.
"""

from __future__ import annotations

import base64
import json
import math
import operator as op
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
from flint import arb, fmpq

KIND, BITS, WORK = [1, "constant"], 128, 100_000_000
_LONGEST, _EXACT, _GIVEN = 20_000_000, 4096, {"const": (1,), "in": (0, 1)}
SHOWN = "T <= q B in all boxes of the formula that it carries, where it has values"
FOUND = "T >= low B and B > 0 at the point of a box that it names"
LEFT = "Not decided: that T, B, t and b are the claim's, that the boxes hold all instances"
ILL = LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError, zlib.error
_PLAIN: Any = {"+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv, "neg": op.neg, "abs": abs}
_RATIONAL, _BALL = _PLAIN | {"max": max, "min": min}, _PLAIN | {"max": arb.max, "min": arb.min}
_BALL |= {"exp": arb.exp, "log": arb.log, "root": arb.sqrt, "length": arb.sqrt}
_TAKES = {name: 2 if name in ("+", "-", "*", "/", "max", "min") else 1 for name in _BALL}
_RELATIONS = {"<": (op.lt, op.ge), "<=": (op.le, op.gt), "==": (op.eq, op.ne)}
_RELATIONS |= {">": (op.gt, op.le), ">=": (op.ge, op.lt), "!=": (op.ne, op.eq)}
_NAN, _ZERO = arb("nan"), arb(0)
Box = list[tuple[Fraction, Fraction]]


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
    """A formula: whole numbers, boxes, lines and the tree of its cases, with t and b or T and B."""

    def __init__(self, text: str, upper: bool = True) -> None:
        head, _, rest = text.partition("\n")
        self.whole, boxes = json.loads(head.removeprefix("@ "))
        self.boxes: list[Box] = [[(number(a), number(b)) for a, b in box] for box in boxes]
        self.lines, self.tree = (list[tuple[str, list[int], str]]() for _ in range(2))
        self.inputs, cases = dict[int, str](), 1  # the lines of the inputs, and their signs
        for place, line in enumerate(rest.split("\n")):
            name, *words = line.split(" ")
            if name in ("?", "=") and cases > 0:
                relation = words.pop(0) if name == "?" else ""
                of, cases = [int(word) for word in words], cases + (1 if relation else -1)
                fits = len(of) == 2 if relation else len(of) % 4 == 0
                sides = of if relation else [k for n, k in enumerate(of) if n % 4 // 2 == upper]
                self.tree.append((name, sides, relation))
            else:
                n = _TAKES.get(name, 0)
                of, given = [place - int(word) for word in words[:n]], " ".join(words[n:])
                fits = place == len(self.lines) and len(words) - n in _GIVEN.get(name, (0,) * n)
                self.lines.append((name, of, given))
                self.inputs |= {place: given} if name == "in" else {}
            if not fits or not all(0 <= k < min(place, len(self.lines)) for k in of):
                raise ValueError(f"line {place} must be of earlier ones; found {line!r:.40}")
        needed = {k for _, of, _ in self.tree for k in of}
        for place in reversed(range(len(self.lines))):
            needed |= {*self.lines[place][1]} if place in needed else set()
        self.used, self.order = [k in needed for k in self.inputs], sorted(needed - {*self.inputs})
        sides = [k for kind, of, _ in self.tree if kind == "=" for k in of]
        if cases or not sides or not self.boxes or not all(map(self.fits, self.boxes)):
            raise ValueError("`formula` must have boxes of its inputs, and cases with sides")

    def fits(self, box: Box, within: Box | None = None) -> bool:
        """Whether intervals are of the inputs' signs, of whole numbers, and within a box."""
        every: Any = zip(box, within or box, self.inputs.values(), self.whole, strict=True)
        for (low, high), (least, most), sign, whole in every:
            some = least <= low <= high <= most and {"": True, ">=": low >= 0, ">": low > 0}[sign]
            if not some or (whole is True and not low.denominator == high.denominator == 1):
                return False
        return True


class Enclosed:
    """The lines of a program over a box: with derivatives, and their values in the middle."""

    def __init__(self, program: Program, box: Box) -> None:
        self.program, self.box, self.away = program, box, dict[int, Any]()
        self.over, self.centre = [[_NAN] * len(program.lines) for _ in range(2)]
        self.slopes: list[dict[int, Any]] = [{}] * len(program.lines)
        for i, (place, (low, high)) in enumerate(zip(program.inputs, box, strict=True)):
            self.over[place] = self.centre[place] = around(low, high)
            if low < high:
                self.centre[place], self.slopes[place] = arb(around((low + high) / 2)), {i: arb(1)}
                self.away[i] = around((low - high) / 2, (high - low) / 2)
        for place in program.order:
            name, of, rest = program.lines[place]
            values, slopes = [self.over[k] for k in of], [self.slopes[k] for k in of]
            value = self.over[place] = self.centre[place] = operation(name, rest, values)
            if any(slopes):
                found = self.slopes[place] = derivatives(name, values, value, slopes)
                centre = self.centre[place] = operation(name, rest, [self.centre[k] for k in of])
                near = self.near(centre, found)
                if near.is_finite() and value.is_finite() and value.overlaps(near):
                    both = value.intersection(near)
                    self.over[place] = both.nonnegative_part() if value >= 0 else both

    def near(self, centre: Any, slopes: Mapping[int, Any]) -> Any:
        """What is known by the mean value theorem."""
        return sum((slope * self.away[i] for i, slope in slopes.items()), centre)

    def leaves(self) -> list[set[tuple[int, int]]]:
        """The sides of all entries, of every leaf that may be reached."""
        found, todo = list[set[tuple[int, int]]](), [True]
        for kind, of, relation in self.program.tree:
            met = todo.pop()
            if kind == "?":
                true, false = (holds(*(self.over[k] for k in of)) for holds in _RELATIONS[relation])
                todo += [met and not true, met and not false]
            elif met:
                found.append(set(zip(of[::2], of[1::2], strict=True)))
        return found

    def left(self, top: int, bottom: int, q: Any) -> dict[int, Any] | None:
        """None if top <= q bottom in all of the box, else the derivatives of the difference."""
        a, b = self.slopes[top], self.slopes[bottom]
        slopes = {i: q * b.get(i, _ZERO) - a.get(i, _ZERO) for i in a | b}
        near = self.near(q * self.centre[bottom] - self.centre[top], slopes)
        apart = q * arb(self.over[bottom]).lower() - arb(self.over[top]).upper()
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

    def halves(self, each: Sequence[dict[int, Any]], wide: bool) -> list[Box]:
        """The box divided where a difference changes most, or where it is wide."""
        share = [math.log1p((b - a) / a) if a > 0 else float(b - a) for a, b in self.box]
        score = [0.0] * len(share)
        for i, slope in (pair for one in each for pair in one.items()):
            score[i] += float(slope.abs_upper()) * float(self.box[i][1] - self.box[i][0])
        if wide or not 0 < sum(score) < math.inf:
            score = [x * y for x, y in zip(share, self.program.used, strict=True)]
        if not any(score):
            raise Open("nothing is known at a point")
        i = max(range(len(share)), key=lambda i: (score[i], share[i]))
        (low, high), whole = self.box[i], self.program.whole[i] is True
        at = Fraction(math.sqrt(low * high)) if low > 0 and high > 4 * low else (low + high) / 2
        at = Fraction(0) if low < 0 < high else at if low < at < high else (low + high) / 2
        at = Fraction(math.floor(at)) if whole else at
        return [[*self.box[:i], x, *self.box[i + 1 :]] for x in ((low, at), (at + whole, high))]


def operation(name: str, rest: str, values: Sequence[Any]) -> Any:
    """An operation on rationals and balls; nothing is known of a root of what may be negative."""
    if name == "const":
        return arb(rest) if rest in ("inf", "-inf", "nan") else around(number(rest))
    exact = name in _RATIONAL and all(isinstance(x, fmpq) for x in values)
    if exact and (name != "/" or values[1]):
        value = _RATIONAL[name](*values)
        return value if value.height_bits() <= _EXACT else arb(value)
    balls = [*map(arb, values)]
    a, b = balls[0], balls[-1]
    value = _NAN if name in ("root", "length") and not a >= 0 else _BALL[name](*balls)
    if name in ("*", "/") and a >= 0 and b >= 0:  # between what it is of the ends
        c, d = (b.lower(), b.upper())[:: 1 if name == "*" else -1]
        value = _BALL[name](a.lower(), c).union(_BALL[name](a.upper(), d))
    known = {"-": a >= b, "max": a >= 0 or b >= 0, "neg": 0, "log": 0, "exp": 1, "abs": 1}
    above = known.get(name, (a >= 0 and b >= 0) or (name == "*" and values[0] is values[-1]))
    return value.nonnegative_part() if above and value.is_finite() else value


def derivatives(name: str, values: Sequence[Any], value: Any, slopes: Any) -> dict[int, Any]:
    """The derivatives of an operation by those of its numbers; of |x| all between -1 and 1."""
    some, a, b = {i for one in slopes for i in one}, values[0], values[-1]
    if name in ("max", "min"):
        one, other = ({i: slope.get(i, _ZERO) for i in some} for slope in slopes)
        first, second = (a >= b, a <= b) if name == "max" else (a <= b, a >= b)
        return one if first else other if second else {i: one[i].union(other[i]) for i in some}
    if name in ("+", "-", "neg"):
        factors = [arb(-1 if name == "neg" else 1), arb(1 if name == "+" else -1)]
    elif name in ("*", "/"):
        factors = [b, a] if name == "*" else [arb(1) / b, -value / b]
    elif name == "abs":
        factors = [arb(1) if a >= 0 else arb(-1) if a <= 0 else arb(0, 1)]
    else:
        factors = [value if name == "exp" else 1 / (a if name == "log" else 2 * value)]
    pairs = [*zip(factors, slopes, strict=False)]
    return {i: sum((x * one[i] for x, one in pairs if i in one), _ZERO) for i in some}


def around(*ends: Fraction) -> Any:
    """A ball that holds all numbers between two, or one number as a rational."""
    low, high = (fmpq(*end.as_integer_ratio()) for end in (ends[0], ends[-1]))
    ball = arb(low).union(arb(high))
    return low if low == high else ball.nonnegative_part() if low >= 0 else ball


def number(text: Any) -> Fraction:
    """A rational from text."""
    if not isinstance(text, str) or "e" in text.lower():
        raise ValueError(f"a rational must be text without an exponent; found {text!r:.40}")
    return Fraction(text)


def constant(content: Mapping[str, Any]) -> int:
    """How many boxes show T <= q B of a certificate's formula."""
    program, q = Program(unpacked(content["formula"])), around(number(content["ratio"][1]))
    if q < 0:
        raise ValueError("`ratio` must not be below zero")
    most = WORK // ((1 + len(program.order)) * (1 + len(program.inputs)))
    todo = program.boxes[::-1]
    with flint.ctx.workprec(BITS):
        for count in range(most + 1):
            if not todo:
                return count
            known = Enclosed(program, todo.pop())
            leaves = known.leaves()
            left = [x for pair in set().union(*leaves) if (x := known.left(*pair, q)) is not None]
            face = known.least(left) if len(leaves) == 1 else known.box
            if left:
                todo += [face] if face != known.box else known.halves(left, wide=count % 3 == 2)
    raise Open(f"it is not closed with {most:,} boxes, {len(todo):,} are left")


def at_a_point(content: Mapping[str, Any]) -> str:
    """What is shown at the point of a certificate: T >= low B, as B <= T / low, and B > 0."""
    program, low = Program(unpacked(content["formula"]), upper=False), number(content["ratio"][0])
    at = [(number(x), number(x)) for x in content["at"]]
    found = [one for box in program.boxes if program.fits(one := [*at, *box[len(at) :]], box)]
    if not found or low <= 0 or None in program.whole[: len(at)]:
        raise ValueError("`at` must be a point of a box, for a ratio above zero")
    with flint.ctx.workprec(_EXACT):
        known, q = Enclosed(program, found[0]), around(1 / low)
        for leaf in known.leaves():
            if not any(known.over[b] > 0 and known.left(b, t, q) is None for t, b in leaf):
                raise Open("T >= low B and B > 0 is not seen at the point")
    return f"; {FOUND}, low = {content['ratio'][0]}. {LEFT}; that the point is one up to scaling"


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a file; ValueError if it has a key twice."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key must not be there twice")
    return found


def answers(path: Path) -> Iterator[tuple[str, int]]:
    """A line for each certificate in a file, and 1 if it is refused, 2 if undecided, or 0."""
    try:
        whole = json.loads(path.read_bytes(), object_pairs_hook=once)
        certificates = [*whole.get("certificates", [whole])]
    except (OSError, *ILL) as error:
        yield f"file must hold certificates; found {path}: {error}", 1
        return
    for content in certificates:
        name = content.get("id") if isinstance(content, dict) else None
        try:
            told, code = "NOTHING WAS DECIDED: it has no formula of a constant", 2
            if [content[key] for key in ("format", "kind")] == KIND and "formula" in content:
                told, code = f"{SHOWN}, q = {content['ratio'][1]}; {constant(content):,} boxes", 0
                told += at_a_point(content) if "at" in content else f". {LEFT}; the lower end"
        except Open as error:
            told, code = f"not decided here: {error}", 2
        except ILL as error:
            told, code = f"refused: {error}", 1
        yield "".join(one if one.isprintable() else "?" for one in f"{name}: {told}"), code


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in answers(Path(name))]
    print(*(line for line, _ in lines), sep="\n")
    sys.exit(1 if 1 in (found := [code for _, code in lines] or [1]) else max(found))
