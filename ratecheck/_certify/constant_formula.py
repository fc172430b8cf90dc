"""The formula of a bound over boxes, as a program of plain operations which a constant carries.

Its inputs are the coordinates of :class:`ratecheck._certify.cover.Cover`, so that domains, scales
and the repair of the space are a part of it, and it begins with the boxes that hold every instance
up to scaling. A leaf has both sides, from which the lower end is seen at a point, and both without
the factors in common that are nowhere negative, from which the upper end is: T F <= q B F follows
from T <= q B. Whoever checks it, see :mod:`ratecheck._certify.check_constant`, shows both ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping
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


#: Factors by their places, ~place of a divisor, and what is left.
_Parts = tuple[Counter[int], int]
#: A sum of products: what each, by the places of its factors in order, is multiplied by.
_Sum = dict[tuple[int, ...], Any]
#: Sums of more products are not multiplied out.
_MOST_TERMS = 40


class Short:
    """Both sides without the factors that they have in common and that are nowhere negative.

    What is left may have no value where a factor is zero, as root(a) in T = root(f^2 g^2 a) at
    g = 0 and a < 0. Of such a rest :mod:`check_constant` knows nothing, and decides nothing.

    Sums are multiplied out where terms cancel: of (a + t b) - a the factor t is seen so.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._known: dict[int, _Parts] = {}
        self._sums: dict[int, _Sum | None] = {}

    def of(self, top: int, bottom: int) -> list[int]:
        """The places of what is left of two sides."""
        one, other = self._parts(top), self._parts(bottom)
        common = one[0] & other[0]
        return [self._product(factors - common, rest) for factors, rest in (one, other)]

    def _product(self, factors: Counter[int], rest: int) -> int:
        number = made(rest, None)
        for place in factors.elements():
            number = number * made(place, None) if place >= 0 else number / made(~place, None)
        return number.place

    def _parts(self, place: int) -> _Parts:
        if place not in self._known:
            factors, rest = self._split(place)
            for k in [k for k in factors if k >= 0 and ~k in factors]:  # a / a
                times = min(factors[k], factors[~k])
                factors -= Counter({k: times, ~k: times})
            if self._tape.signs[rest] and self._tape.lines[rest][0] != "const":
                factors, rest = factors + Counter([rest]), Recorded(1).place
            self._known[place] = factors, rest
        return self._known[place]

    def _split(self, place: int) -> _Parts:
        name, *of = self._tape.lines[place]
        if name in ("in", "const", "rounded"):
            return Counter(), place
        each = [self._parts(k) for k in of]
        (f, a), (g, b) = each[0], each[-1]
        if name == "*" and a == b:
            return f + g + Counter({self._size(a): 2}), Recorded(1).place
        if name == "*":
            return f + g, (made(a, None) * made(b, None)).place
        if name == "/":
            under = self._tape.signs[of[1]] > 0
            divided = f + Counter([~of[1]] * under)
            return divided, a if under else (made(a, None) / made(of[1], None)).place
        if name == "neg":
            return f, (-made(a, None)).place
        if name in ("+", "-", "max", "min"):
            if name in "+-" and (found := self._cancelled(name, place, *of)) is not None:
                return found
            common = f & g
            sides = [self._product(one - common, rest) for one, rest in each]
            return common, self._tape.place(name, *sides)
        if name in ("abs", "root", "length"):
            times = 1 if name == "abs" else 2
            outside = Counter({k: n // times for k, n in f.items() if n >= times})
            left = self._product(f - Counter({k: n * times for k, n in outside.items()}), a)
            known = self._tape.constants.get(left)
            one = left if known == 1 else self._tape.place(name, left)
            return outside, one
        return Counter(), self._tape.place(name, *of)

    def _size(self, place: int) -> int:
        """Of an absolute value, which is the same of -x."""
        name, *of = self._tape.lines[place]
        return abs(made(of[0] if name == "neg" else place, None)).place

    def _cancelled(self, name: str, place: int, a: int, b: int) -> _Parts | None:
        """A sum in which terms cancel, or a difference of two: factors, and what is left.

        A sum of squares remains one, from which is seen that it is not negative.
        """
        if name == "+" and any(self._tape.lines[k][0] == "*" for k in (a, b)):
            return None
        terms, one, other = (self._sum(k) for k in (place, a, b))
        if terms is None or one is None or other is None:
            return None
        if not terms:
            return Counter(), Recorded(0).place
        if len(terms) > 2 and len(terms) == len(one) + len(other):
            return None  # nothing cancels; two terms are ordered all the same, as b - a like a - b
        first, *rest = sorted(terms)
        scale = terms[first]
        common = Counter(first)
        for term in rest:
            common &= Counter(term)
        outside = Counter({k: n for k, n in common.items() if self._tape.signs[k]})
        total: Any = 0
        for term in (first, *rest):
            share = terms[term] / scale
            left = self._product(Counter(term) - outside, Recorded(abs(share)).place)
            total = total + made(left, None) if share > 0 else total - made(left, None)
        factors = outside + Counter([Recorded(abs(scale)).place] * (abs(scale) != 1))
        return factors, (Recorded(0) + (total if scale > 0 else -total)).place

    def _sum(self, place: int) -> _Sum | None:
        """A number as a sum of products of what is neither; None where they are too many."""
        if place not in self._sums:
            self._sums[place] = found = self._multiplied_out(place)
            if found is not None and len(found) > _MOST_TERMS:
                self._sums[place] = None
        return self._sums[place]

    def _multiplied_out(self, place: int) -> _Sum | None:
        name, *of = self._tape.lines[place]
        known = self._tape.constants.get(place)
        if known is not None:
            return {(): known} if known else {}
        if name not in ("+", "-", "neg", "*") and not (
            name == "/" and self._tape.constants.get(of[1])
        ):
            return {(place,): Recorded(1).known}
        each = [self._sum(k) for k in of]
        one, other = each[0], each[-1]
        if one is None or other is None:
            return None
        found: Counter[tuple[int, ...]] = Counter()
        if name == "neg":
            return {term: -share for term, share in one.items()}
        if name == "/":
            return {term: share / self._tape.constants[of[1]] for term, share in one.items()}
        if name == "*":
            for (term, share), (more, by) in itertools.product(one.items(), other.items()):
                found[tuple(sorted(term + more))] += share * by
        else:
            for terms, sign in ((one, 1), (other, 1 if name == "+" else -1)):
                for term, share in terms.items():
                    found[term] += sign * share
        return {term: share for term, share in found.items() if share}
