"""Check what a certificate's data prove by themselves: ``python check.py FILE``.

This file needs Python's standard library alone. It is the checker of proofs for all dimensions:
theorem, assumptions and multipliers are text in the certificate. Of a counterexample it checks that
the stated enclosures are apart. Exit 1: one is refused; 2: of one nothing is decided, see --check.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

FORMAT = 1
UNDECIDED = "NOTHING WAS DECIDED: it needs the claim's function, ratecheck certify --check"
#: What a proof calls a Gram matrix, and one that an assumption on parameters multiplies.
SQUARES, TIMES = "squares", "squares times "
#: Rationals by their monomial of parameters, names and powers in order, and what they multiply:
#: nothing (), a value (name,), or an inner product (name, name).
Terms = dict[tuple[tuple[tuple[str, int], ...], tuple[str, ...]], Fraction]
Matrix = Sequence[Sequence[Fraction]]
Interval = tuple[Fraction, Fraction]
#: What reading raises where something else stands in the place of what is needed.
_ILL = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
_TERM = re.compile(r"(?:\(?(-?\d+(?:/\d+)?)\)?(?: |$))?([^<>]*?) ?(?:<(\w+), (\w+)>)?")


class Wrong(Exception):
    """Why this is no proof, in a line."""


def prove(told: Mapping[str, Any], terms: Sequence[Mapping[str, Any]], excess: Fraction) -> None:
    """Check that bound - measured is the sum of the terms, none of which is negative.

    A term is the inner product of a multiplier and a matrix of forms. The matrix has no negative
    eigenvalue, by an assumption or as a Gram matrix, and neither has the multiplier. Vectors may be
    of several spaces: their inner products are those of the sum of the spaces.

    Args:
        told: ``shows``, measured <= bound; ``assumes``, by names that begin with a number;
            ``parameters``, names of numbers that are not negative. All as text.
        terms: ``of``, what is multiplied, and ``multiplier``, rows of rationals as text.
        excess: what is shown is (1 + excess) times the bound.

    Raises:
        Wrong: it is no proof.

    >>> told = {"shows": "2 <x, y> <= <x, x> + <y, y>", "assumes": {}, "parameters": []}
    >>> of = ["squares", "1", "1 * x", "1 * y"]
    >>> prove(told, [{"of": of, "multiplier": [["1", "-1"], ["-1", "1"]]}], Fraction(0))
    """
    if excess < 0:
        raise Wrong(f"`excess` must not be negative; found {excess}")
    parameters = set(told["parameters"])
    measured, bound = (parsed(side, parameters) for side in told["shows"].split(" <= "))
    left = added(bound, (excess, bound), (-1, measured))
    for term in terms:
        matrix, free = block(told, parameters, term.get("of"))
        multiplier = rationals(term.get("multiplier"), len(matrix))
        if not free and (place := negative(multiplier)) is not None:
            raise Wrong(
                f"`multiplier` of {term['of'][0]!r} times {term['of'][1]} must have no negative "
                f"eigenvalue; found one by row {place + 1}"
            )
        for row, forms in zip(multiplier, matrix, strict=True):
            left = added(left, *((-number, form) for number, form in zip(row, forms, strict=True)))
    if left:
        raise Wrong(f"bound - measured must be the sum of the terms; found {left} beyond it")


def block(told: Mapping[str, Any], parameters: set[str], of: Any) -> tuple[list[list[Terms]], bool]:
    """The matrix of forms that a term multiplies, and whether it is zero by an assumption.

    Raises:
        Wrong: the theorem has none of this name.
    """
    if not isinstance(of, list | tuple) or not all(isinstance(part, str) for part in of):
        raise Wrong(f"`of` must name what is multiplied; found {of!r:.80}")
    try:
        name, factor, *rows = of
        before = monomial(factor, parameters)
        if name != SQUARES and not name.startswith(TIMES):
            matrix, free = assumption(told, parameters, name)
            if rows:
                raise ValueError("rows of an assumption")
            return [[times(before, form) for form in row] for row in matrix], free
        weight: Terms = {((), ()): Fraction(1)}
        if name != SQUARES:
            ((weight,),), free = assumption(told, parameters, name.removeprefix(TIMES))
            if free or any(atom for _, atom in weight):
                raise ValueError("no inequality between polynomials of parameters")
        basis = []
        for row in rows:
            power, _, vector = row.partition(" * ")
            basis.append((monomial(power, parameters), vector))
            if vector and (not vector.isidentifier() or vector in parameters):
                raise ValueError("no vector")
        if len(set(basis)) < len(basis) or len({bool(vector) for _, vector in basis}) != 1:
            raise ValueError("equal rows, or rows of numbers and of vectors")
    except ValueError:
        raise Wrong(f"`of` must be a part of the theorem; found {of!r:.80}") from None
    atoms = [[tuple(sorted(n for n in (a, b) if n)) for _, b in basis] for _, a in basis]
    return [
        [
            times(before, times(m, times(k, {(p, atom): c for (p, _), c in weight.items()})))
            for (k, _), atom in zip(basis, row, strict=True)
        ]
        for (m, _), row in zip(basis, atoms, strict=True)
    ], False


def assumption(
    told: Mapping[str, Any], parameters: set[str], name: str
) -> tuple[list[list[Terms]], bool]:
    """The matrix of an assumption, and whether it is zero rather than not negative.

    ValueError if there is none of this name, or several.
    """
    (text,) = [s for label, s in told["assumes"].items() if label.partition(". ")[2] == name]
    if text.endswith(" has no negative eigenvalue"):
        body = text.removesuffix(" has no negative eigenvalue")[1:-1]
        rows = (re.split(r", (?![^<]*>)", row) for row in body.split("; "))
        matrix = [[parsed(entry, parameters) for entry in row] for row in rows]
        if matrix != [list(column) for column in zip(*matrix, strict=True)]:
            raise ValueError("the matrix is not symmetric")
        return matrix, False
    slack, sign, zero = text.rpartition(" >= ") if " >= " in text else text.rpartition(" == ")
    if zero != "0":
        raise ValueError("no assumption")
    return [[parsed(slack, parameters)]], sign == " == "


def parsed(text: str, parameters: set[str]) -> Terms:
    """A sum of products of a rational, parameters and a value or an inner product.

    >>> parsed("(-1/2) a^2 <x, y> + 3 gain", {"a"})
    {((('a', 2),), ('x', 'y')): Fraction(-1, 2), ((), ('gain',)): Fraction(3, 1)}
    """
    total: Terms = {}
    for part in text.split(" + "):
        found = _TERM.fullmatch(part)
        number, words, *pair = found.groups() if found and part.strip() else ("", "?", "", "")
        values = [word for word in words.split() if word.partition("^")[0] not in parameters]
        atom = tuple(sorted(pair)) if pair[0] else tuple(values)
        if (pair[0] and values) or len(values) > 1 or not all(v.isidentifier() for v in values):
            raise Wrong(f"`theorem` must be made of forms; found {part!r:.60}")
        powers = " ".join(word for word in words.split() if word not in values) or "1"
        key = monomial(powers, parameters), atom
        total = added(total, (1, {key: Fraction(number or 1)}))
    return total


def monomial(text: str, parameters: set[str]) -> tuple[tuple[str, int], ...]:
    """Powers of parameters, such as ``R^2 beta``; 1 for none. ValueError if it is none."""
    powers: dict[str, int] = {}
    for factor in text.split(" ") if text != "1" else ():
        name, _, power = factor.partition("^")
        if name not in parameters or name in powers or int(power or 1) < 1:
            raise ValueError(f"a monomial must be powers of parameters; found {text!r}")
        powers[name] = int(power or 1)
    return tuple(sorted(powers.items()))


def times(before: Sequence[tuple[str, int]], form: Terms) -> Terms:
    """A form times a monomial."""
    more = Counter(dict(before))
    products = ((Counter(dict(own)) + more, atom, c) for (own, atom), c in form.items())
    return {(tuple(sorted(powers.items())), atom): c for powers, atom, c in products}


def added(total: Terms, *parts: tuple[Fraction | int, Terms]) -> Terms:
    """A form and multiples of others; no coefficient is zero."""
    result = dict(total)
    for number, form in parts:
        for key, c in form.items() if number else ():
            result[key] = result.get(key, Fraction(0)) + number * c
    return {key: c for key, c in result.items() if c}


def rationals(rows: Any, size: int) -> list[list[Fraction]]:
    """A symmetric matrix of this size from text; Wrong if it is none."""
    try:
        matrix = [list(map(rational, row)) for row in rows]
        symmetric = all(matrix[i][j] == matrix[j][i] for i in range(size) for j in range(i))
        if len(matrix) == size and all(len(row) == size for row in matrix) and symmetric:
            return matrix
    except _ILL:
        pass
    raise Wrong(f"`multiplier` must be a symmetric matrix with {size} rows of rationals")


def negative(matrix: Matrix) -> int | None:
    """The row by which a symmetric matrix is found to have a negative eigenvalue; None without.

    By elimination: no pivot may be negative, and beside one that is zero all entries have to be.

    >>> negative([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(3)]])
    1
    """
    rows = [list(row) for row in matrix]
    for k, pivot_row in enumerate(rows):
        pivot = pivot_row[k]
        if pivot < 0 or (pivot == 0 and any(pivot_row[k:])):
            return k
        for i in range(k + 1, len(rows)):
            share = rows[i][k] / pivot if pivot else Fraction(0)
            for j in range(i, len(rows)) if share else ():
                rows[i][j] -= share * pivot_row[j]
                rows[j][i] = rows[i][j]
    return None


def rational(text: Any) -> Fraction:
    """A rational from text; ValueError if it is none, or one with an exponent of five digits."""
    if not isinstance(text, str) or re.search(r"[eE][-+]?[\d_]{5}", text):
        raise ValueError(f"a rational must be text, its exponent below 10^4; found {text!r:.40}")
    return Fraction(text)


def interval(ends: Any) -> Interval:
    """An interval from the text of its ends; ValueError if it is none."""
    low, high = map(rational, ends)
    if low > high:
        raise ValueError(f"the ends of an interval must be in order; found {low} and {high}")
    return low, high


def apart(relation: str, measured: Interval, bound: Interval) -> Fraction:
    """By how much at least the relation is broken; not above zero where it may hold."""
    above, below = measured[0] - bound[1], bound[0] - measured[1]
    return {"<=": above, ">=": below, "==": max(above, below)}[relation]


def proves(content: Mapping[str, Any]) -> str:
    """What a certificate's data prove by themselves, in a line; empty where they need the claim.

    Raises:
        Wrong: they do not prove it.
    """
    if content["format"] != FORMAT:
        raise Wrong(f"`format` must be {FORMAT}; found {content['format']!r}")
    if content["kind"] == "quadratic":
        told, excess = content["theorem"], rational(content["excess"])
        prove(told, content["terms"], excess)
        more = f" but for the factor 1 + {excess}" if excess else ""
        assumed = [": ".join(pair) for pair in told["assumes"].items()]
        signs = [f"{', '.join(told['parameters'])} >= 0"] if told["parameters"] else []
        known = "; ".join(assumed + signs)
        shown = f"follows for all dimensions{more}: {told['shows']}, if {known or 'nothing else'}. "
        return f"{shown}Not decided: that this is the claim, and that what is assumed is true"
    if content["kind"] == "counterexample":
        pairs = [(interval(case["measured"]), interval(case["bound"])) for case in content["cases"]]
        if not pairs or min(apart(content["relation"], *pair) for pair in pairs) <= 0:
            raise Wrong("`cases` must be one or more, each of which breaks the claim")
        return "the stated enclosures are apart. Not decided: that they are those of the claim"
    if content["kind"] not in ("identity", "constant"):
        raise Wrong(f"`kind` must be one that certificates have; found {content['kind']!r}")
    return ""


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
    except (OSError, *_ILL) as error:
        yield f"file must hold certificates; found {path}: {error}", 1
        return
    for content in certificates:
        name = content.get("id") if isinstance(content, dict) else None
        try:
            said = proves(content)
            told, code = (f"{said}. Nothing else was read", 0) if said else (UNDECIDED, 2)
        except (Wrong, *_ILL) as error:
            told, code = f"refused: {error}", 1
        yield "".join(one if one.isprintable() else "?" for one in f"{name}: {told}"), code


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in answers(Path(name))]
    print(*(line for line, _ in lines), sep="\n")
    found = [code for _, code in lines] or [1]
    if left := found.count(2):
        print(f"Nothing was decided of {left} of {len(found)} certificates")
    sys.exit(1 if 1 in found else max(found))
