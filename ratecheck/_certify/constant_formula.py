"""The formula of a bound over boxes, as a program of plain operations which a constant carries.

Its inputs are the coordinates of :class:`ratecheck._certify.cover.Cover`, so that domains, scales
and the repair of the space are a part of it, and it begins with the boxes that hold every instance
up to scaling. A leaf has both sides, from which the lower end is seen at a point, and both without
the factors in common that are nowhere negative, from which the upper end is: T F <= q B F follows
from T <= q B. Whoever checks it, see :mod:`ratecheck._certify.check_constant`, shows both ends.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg.balls import every_case, exact_value
from linsys.linalg.recorded import Recorded, given, made
from linsys.linalg.rounded import reach
from linsys.linalg.tapes import ANY, NOT_NEGATIVE, POSITIVE, Tape
from ratecheck._certify import check_constant
from ratecheck._certify.check import rational
from ratecheck._certify.constant_point import check_instance, points
from ratecheck._certify.cover import Cover
from ratecheck._certify.enclosures import Unprovable, both_sides
from ratecheck._certify.examine import problem
from ratecheck._certify.formula import LEFT, LONGEST, packed, recorded
from ratecheck._claims.claim import Claim

#: So many outcomes of comparisons a program has at most.
CASES = 64


def with_boxes(certificate: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    """A constant's certificate that carries the formula of its claim, and a point if one is found.

    Raises:
        Unprovable: the formula is no such program, or its boxes do not show the constant.
    """
    shown = {name: value for name, value in certificate.items() if name != "at"}
    shown["formula"] = packed(over_boxes(claim, certificate))
    if len(shown["formula"]) > LONGEST:
        raise Unprovable(f"its program has {len(shown['formula']):,} characters")
    check(shown)
    cover = _cover(claim, certificate)
    for point in points(cover, certificate["instance"]):
        found = {**shown, "at": list(map(str, point))}
        with contextlib.suppress(Unprovable):
            _check_point(found, cover)
            return found
    return shown


def check(certificate: Mapping[str, Any]) -> None:
    """Show the upper end of a constant by the formula that its certificate carries.

    Raises:
        Unprovable: it is not shown.
    """
    try:
        check_constant.constant(certificate)
    except (check_constant.Open, *check_constant.ILL) as error:
        raise Unprovable(f"`formula` must show the constant by itself; found {error}") from None


def _check_point(certificate: Mapping[str, Any], cover: Cover) -> None:
    """Show the lower end of a constant at the point that its certificate names, an instance's."""
    try:
        check_constant.at_a_point(certificate)
        point = list(map(check_constant.number, certificate["at"]))
    except (check_constant.Open, *check_constant.ILL) as error:
        raise Unprovable(f"`at` must show the lower end of `ratio`; found {error}") from None
    if certificate["at"] != list(map(str, point)):
        raise Unprovable(
            f"`at` must be a list of rationals as text; found {certificate['at']!r:.80}"
        )
    check_instance(cover, point)


def check_boxes(certificate: Mapping[str, Any], claim: Claim) -> None:
    """Record the claim's function anew, and check what a constant's formula shows by itself.

    Raises:
        Unprovable: it is another one than the claim's, or shows less.
    """
    try:
        found = check_constant.unpacked(certificate["formula"])
    except check_constant.ILL as error:
        raise Unprovable(f"`formula` must be a program; found {error}") from None
    if found != over_boxes(claim, certificate):
        raise Unprovable("`formula` must be the program of the claim; found another one")
    check(certificate)
    if "at" in certificate:
        _check_point(certificate, _cover(claim, certificate))


def _cover(claim: Claim, certificate: Mapping[str, Any]) -> Cover:
    """The boxes that hold every instance of the certificate's sizes, up to scaling."""
    alike = [tuple(map(rational, row)) for row in certificate["alike"]]
    charts = [tuple(chart) for chart in certificate.get("charts", [])]
    return problem(claim, certificate["sizes"], alike, charts).cover


def over_boxes(claim: Claim, certificate: Mapping[str, Any]) -> str:
    """The program of a bound, after a line of its inputs' boxes.

    A leaf has T and B of T <= q B, and both without common factors, of every entry.

    Args:
        claim: the bound.
        certificate: of its constant, with the sizes and how the sides scale.

    Raises:
        Unprovable: it is no program of these operations.
    """
    cover = _cover(claim, certificate)
    space, tape = claim.space, Tape()
    short = Short(tape)

    def case(numbers: list[Recorded]) -> None:
        tape.start()
        for number, *ends in cover.ranged(numbers):
            low, high = (Recorded(Fraction(x)) if np.isfinite(x) else Recorded(x) for x in ends)
            if number < low or number > high:
                tape.leaf()  # no coordinates of an instance
                return
        fields = {name: _recorded(values) for name, values in cover.fields(numbers).items()}
        views = space.views(fields)
        view = views if space.batched else views[0]
        for predicate in space.given.values():
            if not np.all(np.asarray(predicate(view)).astype(bool)):
                tape.leaf()  # outside of what the claim is about
                return
        sides = both_sides(claim, views, LEFT)
        pairs = zip(*(side.ravel().tolist() for side in sides), strict=True)
        turn = 1 if claim.relation == "<=" else -1
        places = [[(Recorded(0) + side).place for side in pair[::turn]] for pair in pairs]
        valued = [
            pair for pair in places if ("const", "nan") not in map(tape.lines.__getitem__, pair)
        ]
        tape.leaf(*(place for pair in valued for place in (*pair, *short.of(*pair))))

    low, high = cover.roots()
    whole = [one.kind == "whole" for one in cover.coordinates]
    least, most = low.min(axis=1).tolist(), high.max(axis=1).tolist()
    with recorded(tape):
        signs = (POSITIVE if x > 0 else NOT_NEGATIVE if x == 0 else ANY for x in least)
        numbers = [given(None, sign) for sign in signs]
        for number, is_whole, a, b in zip(numbers, whole, least, most, strict=True):
            tape.most[number.place] = exact_value(b)
            if is_whole:
                tape.whole[number.place] = range(int(a), int(b) + 1)
        every_case(lambda: case(numbers), CASES)
    boxes = [
        [[str(Fraction(a)), str(Fraction(b))] for a, b in zip(*ends, strict=True)]
        for ends in zip(low.T.tolist(), high.T.tolist(), strict=True)
    ]
    kinds: list[bool | None] = [*whole]
    lines = tape.text().split("\n")
    for at, line in enumerate(lines):  # a rounded constant is any number near it, no coordinate
        if line.startswith("rounded "):
            near, away = (Fraction(of(float(line.split(" ")[1]))) for of in (float, reach))
            ends, lines[at] = [str(near - away), str(near + away)], "in"
            boxes, kinds = [[*box, ends] for box in boxes], [*kinds, None]
    program = "\n".join(lines)
    return f"@ {json.dumps([kinds, boxes], separators=(',', ':'))}\n{program}"


def _recorded(values: Any) -> Any:
    """An array of numbers that are written down, also of those that are known."""
    array = np.empty(np.shape(values), dtype=object)
    for place in np.ndindex(array.shape):
        array[place] = Recorded(0) + np.asarray(values, dtype=object)[place]
    return array


#: A product: what it is multiplied by, and the powers of its factors by their places.
_Product = tuple[Any, dict[int, int]]
#: A sum of products: what each, by its factors and their powers in order, is multiplied by.
_Sum = dict[tuple[tuple[int, int], ...], Any]
#: Sums of more products are not multiplied out.
_MOST_TERMS = 40


class Short:
    """Both sides without the factors that they have in common and that are nowhere negative.

    Every number is a product of powers of numbers that are none: sums with no factor in common,
    absolute values, roots, maxima. Equal sums are the same number, whatever the order and the scale
    of their terms, so that x - y and (y - x) / 2 have a factor in common, and terms cancel.

    What is left has a value wherever both sides have one, except where a factor is zero, as root(a)
    in T = root(f^2 g^2 a) at g = 0 and a < 0. Of such a rest :mod:`check_constant` knows nothing,
    and decides nothing. Of x / x there is 1 left, also at 0, where the side has no value.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._known: dict[int, _Product] = {}
        self._sums: dict[int, _Sum] = {}

    def of(self, top: int, bottom: int) -> list[int]:
        """The places of what is left of two sides."""
        (a, f), (b, g) = (self._sized(self._parts(k)) for k in (top, bottom))
        common = {k: min(f.get(k, 0), g.get(k, 0)) for k in f | g if self._tape.signs[k]}
        f, g = _times(f, common, -1), _times(g, common, -1)
        for k in [k for k in g if self._tape.lines[k][0] == "exp"]:
            # 1 / exp(x) = exp(-x) lies between known ends, however far away x is
            inverse = self._tape.place("exp", (-made(self._tape.lines[k][1], None)).place)
            f, g = _times(f, {inverse: g[k]}), _times(g, {k: -g[k]})
        scale = abs(b) if b else 1
        return [self._inside(x / scale, h) for x, h in ((a, f), (b, g))]

    def _inside(self, scale: Any, factors: dict[int, int]) -> int:
        """The place of a product, in which what stands before a maximum is multiplied into it."""
        for k, n in factors.items():
            name, *of = self._tape.lines[k]
            left = _times(factors, {k: -1})
            if n == 1 and name in ("max", "min") and scale > 0 and all(map(self._sign, left)):
                each = [self._parts(place) for place in of]
                products = [(scale * x, _times(left, h)) for x, h in each]
                places = [self._inside(*self._sized(product)) for product in products]
                return self._tape.place(name, *places)
        return self._place((scale, factors))

    def _sign(self, place: int) -> int:
        return self._tape.signs[place]

    def _sized(self, product: _Product) -> _Product:
        """The same with |x| in the place of x where x^2 is a factor."""
        found: dict[int, int] = {}
        for k, n in product[1].items():
            even = 0 if self._tape.signs[k] else 2 * int(n / 2)
            found = _times(_times(found, {k: n - even}), {self._tape.place("abs", k): even})
        return product[0], found

    def _place(self, product: _Product) -> int:
        """The place of a product."""
        scale, factors = product
        over, under = (
            [made(k, None) for k in sorted(factors) for _ in range(sign * factors[k])]
            for sign in (1, -1)
        )
        sides = []
        for numbers in (over, under):
            whole: Any = Recorded(1)
            while numbers:  # x * x first, which is seen to be no less than 0
                x = numbers.pop()
                if numbers and numbers[-1].place == x.place:
                    x = x * numbers.pop()
                whole = whole * x
            sides.append(whole)
        whole = sides[0] * Recorded(abs(scale)) / sides[1]
        found: int = (whole if scale >= 0 else -whole).place
        return found

    def _parts(self, place: int) -> _Product:
        if place not in self._known:
            scale, factors = self._split(place)
            self._known[place] = (scale, factors) if scale else (scale, {})
        return self._known[place]

    def _split(self, place: int) -> _Product:
        name, *of = self._tape.lines[place]
        one, known = Recorded(1).known, self._tape.constants.get(place)
        if known is not None:
            return known, {}
        if name in ("exp", "log"):
            return one, {self._tape.place(name, self._place(self._parts(of[0]))): 1}
        if name not in ("+", "-", "*", "/", "neg", "max", "min", "abs", "root", "length"):
            return one, {place: 1}
        each = [self._parts(k) for k in of]
        (a, f), (b, g) = each[0], each[-1]
        if name == "*":
            return a * b, _times(f, g)
        if name == "/":
            return (a / b, _times(f, g, -1)) if b else (one, {place: 1})
        if name in ("+", "-", "neg"):
            signs = [-1 if name == "neg" else 1, 1 if name == "+" else -1]
            return self._added([(sign * x, h) for sign, (x, h) in zip(signs, each, strict=False)])
        if name in ("max", "min"):
            return self._larger(name, *each)
        if name == "abs":
            sizes = dict[int, int]()
            for k, n in f.items():
                size = k if self._tape.signs[k] else self._tape.place("abs", k)
                sizes = _times(sizes, {size: n})
            return abs(a), sizes
        return self._root(name, *self._sized(each[0]))

    def _root(self, name: str, scale: Any, factors: dict[int, int]) -> _Product:
        """A root, before which even powers stand."""
        if scale < 0:
            return Recorded(1).known, {self._tape.place(name, self._place((scale, factors))): 1}
        outside = {k: int(n / 2) for k, n in factors.items() if self._tape.signs[k]}
        inside = _times(factors, outside, -2)
        before, roots = Recorded(1).known, [math.isqrt(int(end)) for end in (scale.p, scale.q)]
        if roots[0] ** 2 == scale.p and roots[1] ** 2 == scale.q:
            before, scale = Recorded(Fraction(*roots)).known, before
        if inside or scale != 1:
            root = self._tape.place(name, self._place((scale, inside)))
            outside = _times(outside, {root: 1})
        return before, outside

    def _larger(self, name: str, one: _Product, other: _Product) -> _Product:
        """A maximum or minimum, before which common factors stand that are not negative."""
        (a, f), (b, g) = self._sized(one), self._sized(other)
        if not a or not b:  # of 0 everything is a factor
            common = {k: n for k, n in (f | g).items() if self._tape.signs[k]}
        else:
            common = self._common([f, g], signed=True)
        scale = abs(a) or abs(b) or Recorded(1).known
        left = [(x / scale, _times(h, common, -1) if x else {}) for x, h in ((a, f), (b, g))]
        if left[0] == left[1] or not any(h for _, h in left):
            size, rest = (max if name == "max" else min)(left, key=lambda one: one[0])
            return (size * scale, _times(common, rest)) if size else (size, {})
        places = sorted(map(self._place, left))
        return scale, _times(common, {self._tape.place(name, *places): 1})

    def _common(self, products: Sequence[dict[int, int]], signed: bool = False) -> dict[int, int]:
        """The factors that all products have, with powers of one sign."""
        found = {}
        for k in products[0] if products else ():
            powers = [factors.get(k, 0) for factors in products]
            n = max(powers) if max(powers) < 0 else max(min(powers), 0)
            if n and not (signed and not self._tape.signs[k]):
                found[k] = n
        return found

    def _added(self, products: Sequence[_Product]) -> _Product:
        """A sum: the factors that all terms have in common, and a sum that has none."""
        terms, common = self._collected(products), dict[int, int]()
        while terms:
            multiplied = self._multiplied_out(terms)
            terms = multiplied if len(multiplied) < len(terms) else terms
            more = self._common([dict(term) for term in terms])
            if not more:
                break
            common = _times(common, more)
            terms = self._collected(
                [(x, _times(dict(term), more, -1)) for term, x in terms.items()]
            )
        if not terms:
            return Recorded(0).known, {}
        (first, scale), *rest = sorted(terms.items())
        if not rest:
            return scale, _times(common, dict(first))
        total = made(self._place((Recorded(1).known, dict(first))), None)
        for term, share in rest:
            part = made(self._place((abs(share / scale), dict(term))), None)
            total = total + part if share / scale > 0 else total - part
        self._sums[total.place] = {term: x / scale for term, x in terms.items()}
        return scale, _times(common, {total.place: 1})

    def _collected(self, products: Sequence[_Product]) -> _Sum:
        """The terms of a sum, of sums in it their terms."""
        terms: _Sum = {}
        for scale, factors in products:
            ((k, n),) = [*factors.items()] if len(factors) == 1 else [(0, 0)]
            inner = self._sums.get(k) if n == 1 else None
            for term, x in (inner or {tuple(sorted(factors.items())): 1}).items():
                terms[term] = terms.get(term, 0) + scale * x
        return {term: x for term, x in terms.items() if x}

    def _multiplied_out(self, terms: _Sum) -> _Sum:
        """The same without products of sums, unless there are too many terms."""
        found, todo = dict[Any, Any](), [(x, dict(term)) for term, x in terms.items()]
        while todo:
            x, factors = todo.pop()
            inner = next((k for k, n in factors.items() if n > 0 and k in self._sums), None)
            if inner is None:
                term = tuple(sorted(factors.items()))
                found[term] = found.get(term, 0) + x
            else:
                left = _times(factors, {inner: -1})
                todo += [(x * y, _times(left, dict(one))) for one, y in self._sums[inner].items()]
            if len(found) + len(todo) > _MOST_TERMS:
                return terms
        return {term: x for term, x in found.items() if x}


def _times(one: dict[int, int], other: dict[int, int], by: int = 1) -> dict[int, int]:
    """A product of powers, the second to a power of its own."""
    found = {k: one.get(k, 0) + by * other.get(k, 0) for k in one | other}
    return {k: n for k, n in found.items() if n}
