"""Check that both sides of a formula are equal: ``python check_identity.py FILE``.

It needs the standard library and python-flint alone. The ``formula`` of an identity has a line
``@ {"n": 2}, {"k": [1]}`` for each combination of sizes and of whole numbers, and after it a
program as check_formula.py has it; ``in``, ``in >=`` and ``in >`` are any number, of that sign.

All comparisons are taken both ways. A formula then is an element of Q(x)[s], x the inputs and s the
roots, s^2 = u. |x| is a root of x^2, max(x, y) = (x + y + |x - y|) / 2, and another function is one
more x, the same of equal arguments. With all divisors multiplied out the difference of both sides
is a polynomial. If its coefficient of every product of roots, modulo a random prime, is zero, both
sides are equal where the formula has a value; docs/certificates-methods.md bounds the chance.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import flint

SHOWN = "both sides of its formulas are equal where they have values, but for a chance below 2^-100"
LEFT = "Not decided: that these are the claim's, with all signs of inputs; other whole numbers"
_ODD = LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError
ILL = *_ODD, zlib.error
FORMAT, BITS, CHANCE, _LONGEST, _TERMS, _WORK = 1, 512, 100, 50_000_000, 128, 400_000
_ONE = "neg", "abs", "root", "length", "exp", "log", "sin", "cos", "atan", "acos"
_TAKES = dict.fromkeys(_ONE, 1) | dict.fromkeys(("+", "-", "*", "/", "max", "min"), 2)


class Open(Exception):
    """Why it is not decided here, in a line."""


class Program:
    """A formula: lines with the places that they take, and sides of every case, but for nan."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[str, list[int], str]] = []
        self.signs, self.leaves = list[int](), list[list[int]]()
        cases = 1
        for number, line in enumerate(text.split("\n")):
            name, *words = line.split(" ")
            if name in ("=", "?") and cases > 0:
                cases += 1 if name == "?" else -1
                self.leaves += [] if name == "?" else [[int(word) for word in words]]
                continue
            count = _TAKES.get(name, len(words) if name in ("least", "most") else 0)
            of = [number - int(word) for word in words[:count]]
            more = len(words) - count in {"const": (1,), "in": (0, 1)}.get(name, (0,))
            fits = more, of or name in ("in", "const"), number == len(self.lines)
            if not all(fits) or not all(0 <= place < number for place in of):
                raise ValueError(f"line {number} must be an operation on earlier ones: {line!r}")
            self.lines.append((name, of, " ".join(words[count:])))
            self.signs.append(sign(self.lines[-1], self.signs))
        without = {k for k, line in enumerate(self.lines) if line == ("const", [], "nan")}
        sides = [zip(leaf[::2], leaf[1::2], strict=True) for leaf in self.leaves]
        found = [[k for one in leaf if not without & {*one} for k in one] for leaf in sides]
        if cases or not any(found) or not all(leaf and min(leaf) >= 0 for leaf in self.leaves):
            raise ValueError("a program must have all its cases, and sides with a value")
        self.leaves = found


def sign(line: tuple[str, list[int], str], signs: Sequence[int]) -> int:
    """What is known of a number's sign at all points: 0 nothing, 1 not negative, 2 above zero."""
    name, of, rest = line
    each = [signs[place] for place in of]
    if name in ("in", "exp", "acos"):
        return {"in": 0, "in>=": 1, "in>": 2, "exp": 2, "acos": 1}[name + rest]
    if name == "const":
        value = Fraction(*map(int, rest.split("/"))) if rest[0].isdecimal() else -1
        return 0 if value < 0 else 1 + (value > 0)
    if name in ("abs", "root", "length") or (name == "*" and of[0] == of[1]):
        return max(1, each[0])
    if name in ("+", "max"):
        return max(each) if name == "max" or min(each) else 0
    return min(each) if name in ("*", "/", "min") and (name != "/" or min(each)) else 0


class Number(NamedTuple):
    """A sum of products of roots, by the roots' bits, with coefficients modulo the prime."""

    terms: Mapping[int, int]
    top: int
    bottom: int


class Case:
    """One formula at a random point; "free": maxima and |x| are inputs; "whole": roots as are."""

    def __init__(self, program: Program, p: int, way: str) -> None:
        self.program, self.p, self.way, self.squares = program, p, way, list[Number]()
        self.atoms, self.values = dict[Any, Number](), dict[int, Number]()
        # how many numbers may have been zero, and the largest of their bounds
        self.tests, self.most, self.work = 0, 1, 0

    def open(self, places: Sequence[int]) -> str:
        """Why two sides of an entry are not known to be equal; empty if they are."""
        needed = set(places)
        for place in range(len(self.program.lines) - 1, -1, -1):
            needed |= set(self.program.lines[place][1]) if place in needed else set()
        try:
            for place in sorted(needed):
                self.values[place] = self.operation(place)
            for one, other in zip(places[::2], places[1::2], strict=True):
                if self.sum(self.values[one], self.values[other], -1).terms:
                    return f"lines {one} and {other} are not equal on a branch, by these rules"
        except (Open, RecursionError, ValueError) as error:
            return str(error)
        return ""

    def operation(self, place: int) -> Number:
        """The value of a line."""
        name, of, rest = self.program.lines[place]
        x, y = [*(self.values[k] for k in of), None, None][:2]
        if name == "const":
            return self.constant(Fraction(*map(int, rest.split("/"))))
        if name == "in" or x is None:
            return Number({0: secrets.randbelow(self.p)}, 1, 0)
        if name in ("exp", "log", "root", "length"):
            return self.function("root" if name == "length" else name, of[0])
        if name == "neg":
            return self.product(x, self.constant(Fraction(-1)))
        if y and name in ("+", "-"):
            return self.sum(x, y, 1 if name == "+" else -1)
        if y and name in ("*", "/"):
            return self.product(x, y if name == "*" else self.inverse(y))
        if name == "abs" and (self.program.signs[of[0]] or self.way != "free"):
            return x if self.program.signs[of[0]] else self.atom("root", [self.product(x, x)])
        for k, other in ((of[0], y), (of[-1], x)) if name == "max" and y else ():
            if self.program.signs[k] and not other.terms:  # not negative, and zero
                return self.values[k]
        if name in ("max", "min") and y and self.way != "free":
            apart = self.sum(x, y, -1)
            root = self.atom("root", [self.product(apart, apart)])
            both = self.sum(self.sum(x, y), root, 1 if name == "max" else -1)
            return self.product(both, self.constant(Fraction(1, 2)))
        return self.atom(name, [self.values[k] for k in of])

    def function(self, name: str, place: int) -> Number:
        """A root, an exponential or a logarithm of a line, by the rules that are true of them."""
        inner, of, _ = self.program.lines[place]
        signs = [self.program.signs[k] for k in of]
        undone = {"exp": "log", "log": "exp", "root": "*"}[name] == inner
        if undone and (name != "root" or (of[0] == of[1] and signs[0])):
            return self.values[of[0]]
        if name == "exp" and inner in ("+", "-", "neg"):
            a, b = ([self.constant(Fraction(1))] + [self.function(name, k) for k in of])[-2:]
            return self.product(a, b if inner == "+" else self.inverse(b))
        parts = inner in ("*", "/") and (name == "log" or (name == "root" and self.way != "whole"))
        if parts and 2 in (signs[0] * (inner == "*"), signs[1]):
            # one is above zero, and so is the other, but that a root may be of zero
            a, b = (self.function(name, k) for k in of)
            if name == "log":
                return self.sum(a, b, 1 if inner == "*" else -1)
            return self.product(a, b if inner == "*" else self.inverse(b))
        return self.atom(name, [self.values[place]])

    def constant(self, value: Fraction) -> Number:
        """A rational."""
        a, b = value.as_integer_ratio()
        return self.counted({0: a * pow(b, -1, self.p) % self.p}, a.bit_length(), b.bit_length())

    def counted(self, terms: Mapping[int, int], top: int, bottom: int) -> Number:
        """A number whose coefficients may be zero."""
        self.tests, self.work = self.tests + len(terms), self.work + len(terms)
        if len(terms) > _TERMS or self.work > _WORK:
            raise Open(f"a number has over {_TERMS} products of roots, or all together too many")
        self.most = max(self.most, top + bottom)
        return Number({key: c for key, c in terms.items() if c}, top, bottom)

    def sum(self, x: Number, y: Number, factor: int = 1) -> Number:
        """x + y, or x - y."""
        terms = dict(x.terms)
        for key, c in y.terms.items():
            terms[key] = (terms.get(key, 0) + factor * c) % self.p
        return self.counted(terms, max(x.top + y.bottom, y.top + x.bottom) + 1, x.bottom + y.bottom)

    def product(self, x: Number, y: Number) -> Number:
        """x y, in which s^2 = u for every root s."""
        terms: dict[int, int] = {}
        for a, c in x.terms.items():
            for b, d in y.terms.items():
                product = Number({a ^ b: c * d % self.p}, 0, 0)
                for root in [k for k in range((a & b).bit_length())[::-1] if a & b & 1 << k]:
                    product = self.product(product, self.squares[root])
                for key, e in product.terms.items():
                    terms[key] = (terms.get(key, 0) + e) % self.p
        return self.counted(terms, x.top + y.top, x.bottom + y.bottom)

    def inverse(self, x: Number) -> Number:
        """1 / x, by the conjugates a - b s of a + b s."""
        root = max(x.terms, default=0).bit_length() - 1
        if not x.terms:
            raise Open("a divisor, or its product with a conjugate, is zero")
        if root < 0:
            return Number({0: pow(x.terms[0], -1, self.p)}, x.bottom, x.top)
        turned = {key: -c % self.p if key >> root & 1 else c for key, c in x.terms.items()}
        conjugate = Number(turned, x.top, x.bottom)
        return self.product(conjugate, self.inverse(self.product(x, conjugate)))

    def atom(self, name: str, numbers: Sequence[Number]) -> Number:
        """A root, or a function of which nothing is known but that it is the same of equal ones."""
        for x in numbers:  # compared with those of all others
            self.tests += (len(x.terms) + 1) * (len(self.atoms) + 1) * _TERMS
            self.most = max(self.most, x.top + x.bottom)
        keys = [tuple(sorted(x.terms.items())) for x in numbers]
        if name in ("root", "abs") and keys[0] in ((), ((0, 1),)):
            return numbers[0]  # 0 or 1
        known = name, *(sorted(keys) if name in ("max", "min") else keys)
        if known not in self.atoms:
            made = Number({0: secrets.randbelow(self.p)}, 1, 0)
            if name == "root":
                made = Number({1 << len(self.squares): 1}, (x.top + x.bottom + 1) // 2, x.bottom)
                self.squares.append(x)
            self.atoms[known] = made
        return self.atoms[known]


def unpacked(text: str) -> dict[str, str]:
    """The programs of a certificate, by their sizes and whole numbers as text."""
    unzip = zlib.decompressobj()
    plain = unzip.decompress(base64.b85decode(text), _LONGEST).decode("ascii")
    if not unzip.eof or unzip.unused_data or not plain.startswith("@ "):
        raise ValueError("`formula` must be one compressed text that is not too long")
    parts = [part.partition("\n") for part in plain[2:].split("\n@ ")]
    if len(parts) > len(found := {head: program for head, _, program in parts}):
        raise ValueError("`formula` must be for different sizes")
    return found


def identity(content: Mapping[str, Any], p: int = 0) -> str:
    """For which sizes a certificate's formulas have equal sides; p is a random prime."""
    programs, tests, most = unpacked(content["formula"]), 1, 1
    heads = [json.loads(f"[{head}]") for head in programs]
    exact = [json.dumps(head)[1:-1] for head in heads] == [*programs]
    sizes, some = {json.dumps(one) for one, _ in heads}, [whole for _, whole in heads if whole]
    pairs = [(name, k) for whole in some for name, numbers in whole.items() for k in numbers]
    named = all(name.isidentifier() and type(k) is int for name, k in pairs)  # they are printed
    if not exact or not named or not sizes <= {*map(json.dumps, content["sizes"])}:
        raise ValueError("`formula` must be for some of the `sizes`, and whole numbers by names")
    while not p:
        p = 2 ** (BITS - 1) + secrets.randbelow(2 ** (BITS - 1))
        p *= flint.fmpz(p).is_prime()
    for program in map(Program, dict.fromkeys(programs.values())):
        for leaf in program.leaves:
            cases = [Case(program, p, way) for way in ("free", "split", "whole")]
            if all((reason := case.open(leaf)) for case in cases):
                raise Open(reason)
            tests, most = tests + sum(c.tests for c in cases), max(most, *(c.most for c in cases))
    # of two numbers that are compared, the difference has twice the bound of one, and 1 more
    if (tests * (2 * most + 1)).bit_length() + 5 > BITS - CHANCE:
        raise Open("the degrees are too large for the prime")
    each = {name: [k for one, k in pairs if one == name] for name in dict(pairs)}
    ends = ", ".join(f"{name} {min(found)} to {max(found)}" for name, found in each.items())
    told = f", at {len(some)} combinations of whole numbers alone, {ends}" if some else ""
    return f"{len(sizes)} of its sizes{told}"


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
            told, code = "NOTHING WAS DECIDED: it has no formula of an identity", 2
            kind = content["format"], content["kind"], content["relation"]
            if kind == (FORMAT, "identity", "==") and "formula" in content:
                told, code = f"{SHOWN}, for {identity(content)}. {LEFT}", 0
        except Open as error:
            told, code = f"not decided: {error}", 2
        except ILL as error:
            told, code = f"refused: {error}", 1
        yield "".join(one if one.isprintable() else "?" for one in f"{name}: {told}"), code


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in answers(Path(name))]
    print(*(line for line, _ in lines), sep="\n")
    sys.exit(1 if 1 in (found := [code for _, code in lines] or [1]) else max(found))
