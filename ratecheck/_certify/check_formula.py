"""Check that a formula breaks a relation at an instance: ``python check_formula.py FILE``.

It needs the standard library and python-flint alone. The ``formula`` is a program of operations,
one a line, then a tree of comparisons with sides at its leaves. Exit 1: refused; 2: undecided.

    in                the next number of the instance
    const 3/4         a rational, inf, -inf or nan; ``rounded 1.414..`` a float64, 1e-12 around it
    + 2 1             an operation on what stands 2 lines and 1 line before it
    ! < 5 7           line 5 of all, counted from 0, is below line 7, and the tree goes on
    ? < 5 7           where it is, the tree goes on; after that it goes on for where it is not
    = 0 8 9           a leaf: entry 0 of the two sides is what lines 8 and 9 are
"""

from __future__ import annotations

import base64
import json
import math
import operator as op
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
from flint import arb, fmpq

KIND = [1, "counterexample"]
BITS = (64, 128, 256, 512, 1024, 2048, 4096)
SHOWN = (
    "the formula that it carries breaks the relation at its instance, as it states. Not decided: "
    "that this is the claim's formula and that the claim has such instances"
)
#: So many bits a rational has at most, so many characters a program, and so many forks a path.
_EXACT, _LONGEST, _FORKS = 2048, 20_000_000, 400
_ODD = LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError
ILL = *_ODD, zlib.error
#: Of which rational a function is one, and which.
_AT = {"exp": (0, 1), "log": (1, 0), "sin": (0, 0), "cos": (0, 1), "atan": (0, 0), "acos": (1, 0)}
#: How many numbers an operation takes, beside those of matrices.
_TAKES = dict.fromkeys(("+", "-", "*", "/", "max", "min"), 2)
_TAKES |= dict.fromkeys(("neg", "abs", "root", "length", *_AT), 1)
_MATRIX, _GIVEN = ("least", "most"), ("in", "const", "rounded")
#: Each relation, and the one that holds where it does not: true of balls if true of all in them.
_RELATIONS = {"<": (op.lt, op.ge), "<=": (op.le, op.gt), "==": (op.eq, op.ne)}
_RELATIONS |= {">": (op.gt, op.le), ">=": (op.ge, op.lt), "!=": (op.ne, op.eq)}
Interval = tuple[Fraction, Fraction]
Holds = Callable[[str, int, int], bool | None]
_NAN, _ZERO = arb("nan"), arb(0)


class Wrong(Exception):
    """Why this is no proof, in a line."""


class Open(Exception):
    """Why so many bits decide nothing, in a line."""


def unpacked(text: str) -> str:
    """The program of a certificate."""
    unzip = zlib.decompressobj()
    plain = unzip.decompress(base64.b85decode(text), _LONGEST)
    if not unzip.eof or unzip.unused_data:
        raise Wrong("`formula` must be one compressed text that is not too long")
    return plain.decode("ascii")


class Program:
    """A formula: its lines, each with the places that it takes, and the tree of its cases."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[str, list[int], str]] = []
        self.tree: list[list[str]] = []
        for number, line in enumerate(text.split("\n")):
            name, *words = line.split(" ")
            if self.tree or name in "!?=":
                self.tree.append([name, *words])
                continue
            count = len(words) if name in _MATRIX else _TAKES.get(name, 0)
            of = [number - int(word) for word in words[:count]]
            more = len(words) - count == (name in ("const", "rounded"))
            if not (more and (of or name in _GIVEN) and all(0 <= k < number for k in of)):
                raise Wrong(f"line {number} must be an operation on earlier ones; found {line!r}")
            self.lines.append((name, of, " ".join(words[count:])))

    def leaves(
        self, holds: Holds, at: int = 0, met: bool = True, forks: int = 0
    ) -> tuple[list[list[str]], int]:
        """The leaves that may be reached, as ``holds`` answers None of what is open, and the end.

        Raises:
            Open: a comparison that has to hold is open.
        """
        while True:
            kind, *words = self.tree[at]
            at += 1
            if kind == "=":
                return [words] if met else [], at
            relation, a, b = words[0], *map(int, words[1:])
            outcome = holds(relation, a, b) if met else None
            if kind == "?" and forks < _FORKS:
                first, at = self.leaves(holds, at, met and outcome is not False, forks + 1)
                second, at = self.leaves(holds, at, met and outcome is not True, forks + 1)
                return first + second, at
            if kind != "!" or (met and outcome is False):
                raise Wrong(f"`formula` must not say {' '.join([kind, *words])!r:.40}")
            if met and outcome is None:
                raise Open(f"whether line {a} {relation} line {b} is open")


def evaluated(program: Program, given: Sequence[Fraction]) -> dict[int, Any]:
    """All lines at an instance, as rationals or as balls of Arb in which they lie."""
    values: list[Any] = []
    numbers = iter(given)
    for name, of, rest in program.lines:
        try:
            value = exact(next(numbers, 0)) if name == "in" else operation(name, of, rest, values)
        except ZeroDivisionError:
            value = _NAN
        if isinstance(value, fmpq) and value.height_bits() > _EXACT:
            value = arb(value)
        values.append(value)
    if len(given) != sum(name == "in" for name, _, _ in program.lines):
        raise Wrong("the program must take every number of the instance")
    return dict(enumerate(values))


def operation(name: str, of: Sequence[int], rest: str, values: Sequence[Any]) -> Any:
    """An operation on rationals and balls."""
    a, b = [*(values[place] for place in of), None, None][:2]
    if name == "const":
        return arb(rest) if rest in ("inf", "-inf", "nan") else exact(number(rest))
    if name == "rounded":
        near = exact(Fraction(float(rest)))
        return arb(near) + arb(0, arb(max(fmpq(1), abs(near)) / 10**12).upper())
    if name in _MATRIX:
        return extreme(name, [values[place] for place in of])
    if name in ("max", "min"):
        if a > b or a < b or (isinstance(a, fmpq) and isinstance(b, fmpq)):
            return a if (a > b) == (name == "max") else b
        return getattr(arb(a), name)(arb(b))
    if name in ("root", "length"):  # a length is the root of what is not negative
        if isinstance(a, fmpq) and a >= 0:
            p, q = math.isqrt(int(a.p)), math.isqrt(int(a.q))
            return fmpq(p, q) if p * p == a.p and q * q == a.q else arb(a).sqrt()
        if name == "length" and not a < 0:
            a = arb(a).max(_ZERO).nonnegative_part()
        return arb(a).sqrt()
    if name in _AT:
        if isinstance(a, fmpq) and a == _AT[name][0]:
            return fmpq(_AT[name][1])
        return getattr(arb(a), name)() if isinstance(a, fmpq) or a.is_finite() else _NAN
    if name == "*" and any(isinstance(x, fmpq) and x == 0 for x in (a, b)):  # zero times any number
        return fmpq(0) if all(isinstance(x, fmpq) or x.is_finite() for x in (a, b)) else _NAN
    if name in ("neg", "abs"):
        return -a if name == "neg" else abs(a)
    return {"+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv}[name](a, b)


def extreme(name: str, entries: Sequence[Any]) -> Any:
    """The least or the most eigenvalue of a symmetric matrix, whose lower half this is by rows."""
    d, spread = math.isqrt(2 * len(entries)), arb(0)
    at = [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(d) for j in range(d)]
    every, both = [entries[k] for k in at], all(isinstance(x, fmpq) for x in entries)
    if not both:
        # Weyl: eigenvalues differ from those of the midpoints by at most the norm of the difference
        balls = [arb(x) for x in every]
        if not all(x.is_finite() for x in balls):
            return _NAN
        spread = sum((x.rad() * x.rad() for x in balls), spread).sqrt().upper()
        every = [exact(exactly(x.mid())) for x in balls]
    found: list[Any] = []
    characteristic: Any = flint.fmpq_mat(d, d, every).charpoly()
    for factor, _ in characteristic.factor()[1] if both else [(characteristic, 1)]:
        linear = both and factor.degree() == 1
        found += [-factor[0] / factor[1]] if linear else [r.real for r, _ in factor.complex_roots()]
    end = found[0]
    for one in found[1:]:
        end = operation("min" if name == "least" else "max", [0, 1], "", [end, one])
    return end if both else end + arb(0, spread)


def exact(value: Any) -> Any:
    """A rational of FLINT."""
    return fmpq(value.numerator, value.denominator)


def number(text: Any) -> Fraction:
    """A rational from text; ValueError if it is none, or one with an exponent of five digits."""
    if not isinstance(text, str) or re.search(r"[eE][-+]?[\d_]{5}", text):
        raise ValueError(f"a rational must be text, its exponent below 10^4; found {text!r:.40}")
    return Fraction(text)


def exactly(end: Any) -> Fraction:
    """A ball of radius zero as what it is."""
    mantissa, exponent = (int(part) for part in end.man_exp())
    if abs(exponent) > 10**6:
        raise Open("an end of an enclosure is too large or too small to be written down")
    return Fraction(mantissa) * Fraction(2) ** exponent


def ends(value: Any) -> Interval:
    """Two rationals between which a number lies."""
    if isinstance(value, fmpq):
        return Fraction(int(value.p), int(value.q)), Fraction(int(value.p), int(value.q))
    if not value.is_finite():
        raise Open("a side has no finite enclosure")
    return exactly(value.lower()), exactly(value.upper())


def apart(relation: str, measured: Interval, bound: Interval) -> Fraction:
    """By how much at least the relation is broken; not above zero where it may hold."""
    above, below = measured[0] - bound[1], bound[0] - measured[1]
    return {"<=": above, ">=": below, "==": max(above, below)}[relation]


def numbers_of(field: Any) -> Iterator[Fraction]:
    """The numbers of nested lists in order: of a float its shortest decimal."""
    for one in field if isinstance(field, list) else ():
        yield from numbers_of(one)
    if not isinstance(field, list):
        yield number(str(field))


def counterexample(content: Mapping[str, Any]) -> int:
    """With how many bits a certificate's formula breaks the relation, within the stated cases."""
    program = Program(unpacked(content["formula"]))
    given = [one for field in content["instance"].values() for one in numbers_of(field)]
    stated = [
        (str(case["entry"]), [*map(number, case["measured"])], [*map(number, case["bound"])])
        for case in content["cases"]
    ]

    def holds(relation: str, a: int, b: int) -> bool | None:
        if a == b and (isinstance(values[a], fmpq) or values[a].is_finite()):
            return relation in ("==", "<=", ">=")
        true, false = _RELATIONS[relation]
        return True if true(values[a], values[b]) else not false(values[a], values[b]) and None

    reason = "none"
    for bits in BITS:
        try:
            with flint.ctx.workprec(bits):
                values, reached = evaluated(program, given), set[int]()
                for entry, *places in program.leaves(holds)[0]:
                    (a, b), (c, d) = sides = [ends(values[int(place)]) for place in places]
                    within = {
                        k
                        for k, (one, (m, n), (p, q)) in enumerate(stated)
                        if one == entry and m <= a and b <= n and p <= c and d <= q
                    }
                    if apart(content["relation"], *sides) <= 0 or not within:
                        raise Open("the sides are not apart, or not within those that are stated")
                    reached |= within
            if len(reached) < len(stated):
                raise Wrong("`cases` must be those that are reached; found another one")
            return bits
        except Open as error:
            reason = str(error)
    raise Open(f"{reason}, with {bits} bits")


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a file; ValueError if it has a key twice."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key must not be there twice")
    return found


def answers(path: Path) -> Iterator[tuple[str, int]]:
    """A line for each certificate in a file, and 1 if it is refused, 2 if undecided, or 0."""
    try:
        whole = json.loads(path.read_bytes(), parse_float=number, object_pairs_hook=once)
        certificates = [*whole.get("certificates", [whole])]
    except (OSError, *ILL) as error:
        yield f"file must hold certificates; found {path}: {error}", 1
        return
    for content in certificates:
        name = content.get("id") if isinstance(content, dict) else None
        try:
            told, code = "NOTHING WAS DECIDED: it has no formula of a counterexample", 2
            if [content["format"], content["kind"]] == KIND and "formula" in content:
                told, code = f"{SHOWN}; {counterexample(content)} bits", 0
        except Open as error:
            told, code = f"not decided: {error}", 2
        except (Wrong, *ILL) as error:
            told, code = f"refused: {error}", 1
        yield "".join(one if one.isprintable() else "?" for one in f"{name}: {told}"), code


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in answers(Path(name))]
    print(*(line for line, _ in lines), sep="\n")
    sys.exit(1 if 1 in (found := [code for _, code in lines] or [1]) else max(found))
