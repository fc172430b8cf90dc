"""Inverses, roots, logarithms and exponentials of :class:`linsys.linalg.formal.Element`.

The rules are those that :mod:`linsys.linalg.formal` states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from linsys.linalg._flint import flint
from linsys.linalg.formal import (
    ONE,
    SMALL,
    Element,
    Monomial,
    NotRational,
    everywhere,
    is_constant,
    made,
    noted,
    one_over,
    product_ball,
    ring,
    ruled,
    sign,
    single,
)

__all__ = ["exponential", "inverse", "logarithm", "power", "root"]

#: A term that has so many others beside it is not tried as the one that is divided out.
_VARIANTS = 12
#: Constants below are split into primes.
_FACTORED = 2**64
#: Powers of numbers, and of how many numbers, as whose product another one is recognised.
_POWER, _KNOWN = 1024, 40
_HALF, _MINUS = flint.fmpq(1, 2), flint.fmpq(-1)


def power(element: Element, n: int) -> Element:
    """A whole power; a negative one, of an element that is not zero at the point."""
    if n < 0:
        return power(inverse(element), -n)
    if n == 0:
        return Element.of(1)
    half = power(element, n // 2)
    return half * half * element if n % 2 else half * half


def _exponentials(monomial: Monomial, factor: Any) -> Monomial:
    """The powers of e in a monomial, times a factor."""
    return tuple((i, ring.multiplied(p, factor)) for i, p in monomial if ring.atoms[i].kind == "e")


def _divided(element: Element) -> Iterator[tuple[Element, Element]]:
    """A factor and the rest, for the terms whose coefficient and exponential are divided out.

    All other atoms that the terms have in common belong to the factor.
    """
    each = [dict(m) for m in element.terms]
    whole = {i for m in each for i in m if ring.atoms[i].kind != "e"}
    least = [(i, min(m.get(i, 0) for m in each)) for i in whole]
    common = [one for one in least if one[1] != 0]
    top = 2 * max(element.top, element.bottom)
    for m, c in list(element.terms.items())[:_VARIANTS]:
        monomial = tuple(sorted([*_exponentials(m, ONE), *common]))
        back = tuple(sorted([*_exponentials(m, _MINUS), *((i, -p) for i, p in common)]))
        reciprocal = Element({back: one_over(c)}, top, element.top + element.bottom)
        yield Element({monomial: c}, element.top, element.bottom), element * reciprocal


def _split(kind: str, element: Element, evaluate: Any) -> tuple[Element, Element]:
    """A factor of one term, and the atom of the rest; one and nothing where the rest is one."""
    pairs = list(_divided(element))
    if len(element.terms) == 1:
        return pairs[0][0], Element({}, 0, 0)
    factor, rest = next((pair for pair in pairs if ring.knows(kind, [pair[1]])), pairs[0])
    if ring.everywhere and (way := everywhere(element) * everywhere(factor)) != 0:
        noted(rest, way)
    return factor, made(kind, [rest], evaluate)


def inverse(element: Element) -> Element:
    """One over an element that is not zero at the point."""
    factor, rest = _split("inverse", element, lambda ball: 1 / ball)
    ((monomial, coefficient),) = factor.terms.items()
    high, low, exponents = factor.top, factor.bottom, _exponentials(monomial, _MINUS)
    top, bottom = (2 * max(high, low), high + low) if exponents else (low, high)
    result = Element({exponents: one_over(coefficient)}, top, bottom)
    for index, count in monomial:
        atom = ring.atoms[index]
        if atom.kind == "inverse":
            result = result * power(atom.inside[0], count)
        elif atom.kind == "root":
            result = result * single(index) * inverse(atom.inside[0])
        elif atom.kind != "e":
            result = result * single(index, -count)
    return result * rest if rest.terms else result


def root(element: Element) -> Element:
    """The square root of an element that is positive at the point."""
    if len(element.terms) == 1:
        ((monomial, value),) = element.terms.items()
        halves = _exponentials(monomial, _HALF)
        rest = tuple(one for one in monomial if ring.atoms[one[0]].kind != "e")
        exact = None if rest or value < 0 else _exact_root(value, element.top, element.bottom)
        inside = Element({rest: value}, element.top, element.bottom)
        top = max(element.top, element.bottom)
        outside = Element({halves: ONE}, top, element.bottom)
        if exact is not None:
            return outside * exact
        return outside * _root_atom(inside)
    return _root_atom(element)


def _root_atom(inside: Element) -> Element:
    return made("root", [inside], lambda ball: ball.nonnegative_part().sqrt())


def _exact_root(value: Any, top: int, bottom: int) -> Element | None:
    """The root of the square of a constant, or of a number that has one sign at all points.

    The root of another constant is a product of roots of primes.
    """
    constant = top == bottom == 0
    roots = value.p.isqrt(), value.q.isqrt()
    square = roots[0] ** 2 == value.p and roots[1] ** 2 == value.q
    if square and (constant or max(roots) <= SMALL):
        return Element.of(flint.fmpq(*roots))
    if square and ring.everywhere and (way := everywhere(one := Element.of(flint.fmpq(*roots)))):
        # the value was compared with the squares of all these
        ring.numbers, ring.matched = ring.numbers + len(ring.signs), True
        return Element({(): way * one.rational}, top, bottom)
    if not constant or value.p * value.q >= _FACTORED:
        return None
    result = Element.of(flint.fmpq(1, value.q))
    for prime, count in (value.p * value.q).factor():
        result = result * Element.of(prime ** (count // 2))
        if count % 2:
            result = result * _root_atom(Element.of(prime))
    return result


def _log_of_ball(ball: Any) -> Any:
    return abs(ball).log()


def logarithm(element: Element, positive: bool = False) -> Element:
    """log|x| of an element that is not zero at the point.

    Args:
        element: x.
        positive: whether x is positive wherever the logarithm is taken. Then so is the only one of
            its factors of which that is not known.
    """
    factor, rest = _split("log", element, _log_of_ball)
    ((monomial, coefficient),) = factor.terms.items()
    known = ("e", "root")
    signs: list[Any] = [i for i, _ in monomial if ring.atoms[i].kind not in known]
    signs += [rest] * bool(rest.terms)
    signs += ["coefficient"] * (not _is_small(coefficient))
    alone = signs[0] if positive and len(signs) == 1 else None
    if alone is rest:
        _mark(rest)
    of_coefficient = _log_of_rational(abs(coefficient), element.top, element.bottom)
    if alone == "coefficient" and coefficient > 0:
        _mark(of_coefficient)
    result = rest + of_coefficient
    for index, count in monomial:
        atom = ring.atoms[index]
        if atom.kind == "e":
            part = Element({atom.of: ring.powers[count]}, factor.top, factor.bottom)
        elif atom.kind in known or atom.kind == "inverse":
            share = -count * ONE if atom.kind == "inverse" else count * _HALF
            inside = atom.kind == "root" or (alone == index and count % 2 == 1)
            part = Element.of(share) * logarithm(atom.inside[0], inside)
        else:
            part = Element.of(count) * made("log", [single(index)], _log_of_ball)
        result = result + part
    return result


def _is_small(coefficient: Any) -> bool:
    """Whether a number is a positive constant: it is one of few, which the chance counts."""
    return bool(0 < coefficient <= SMALL and coefficient.p <= SMALL and coefficient.q <= SMALL)


def _mark(logarithm_of: Element) -> None:
    """Note that what this is the logarithm of is positive wherever it is defined."""
    if len(logarithm_of.terms) == 1:
        ((monomial, coefficient),) = logarithm_of.terms.items()
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            ring.atoms[monomial[0][0]].positive = True


def _log_of_rational(value: Any, top: int, bottom: int) -> Element:
    """log of a positive number, by those of others whose powers it is a product of."""
    result = Element({}, 0, 0)
    if top == bottom == 0 and max(value.p, value.q) < _FACTORED:
        parts = [(value.p, 1), (value.q, -1)]
        factors = [(prime, count * way) for whole, way in parts for prime, count in whole.factor()]
        if factors != [(value.p, 1)]:
            for prime, count in factors:
                result = result + Element.of(count) * _log_of_rational(prime * ONE, 0, 0)
            return result
    if value == 1:
        return result
    inside = [(i, one.inside[0]) for i, one in enumerate(ring.atoms) if one.kind == "log"]
    known = [(i, one.rational, one.top + one.bottom) for i, one in inside if one.rational]
    if len(known) > _KNOWN:
        raise NotRational(f"logarithms of more than {_KNOWN} rational numbers")
    # value^q = the product of numbers^k: for each q and all k, a difference that may be zero
    most = sum(degree for _, _, degree in known) + top + bottom
    ring.products += (2 * _POWER + 1) ** len(known) * _POWER**2 * most
    powers = _powers(value, [number for _, number, _ in known])
    if powers is None:
        return made("log", [Element.of(value, top, bottom)], _log_of_ball)
    for (index, _, _), one in zip(known, powers, strict=True):
        result = result + Element.of(one) * single(index)
    return result


def _powers(value: Any, numbers: Sequence[Any]) -> list[Any] | None:
    """Small rational powers of numbers whose product is a value, all positive; None without any.

    The numbers are no products of powers of one another.

    >>> _powers(flint.fmpq(3, 2), [flint.fmpq(6), flint.fmpq(4)])
    [1, -1]
    """
    base = ring.coprime
    left = [part for number in (value, *numbers) for part in (number.p, number.q)]
    while left:  # until no two have a common factor
        one = left.pop()
        for other in base:
            one //= other ** _order(other, one)
        if one == 1:
            continue
        for k, other in enumerate(base):
            if (common := one.gcd(other)) != 1:
                left += [common, one // common, base.pop(k) // common]
                break
        else:
            base.append(one)
    columns = [[_order(b, n.p) - _order(b, n.q) for b in base] for n in (*numbers, value)]
    solved, rank = flint.fmpq_mat(flint.fmpz_mat(columns).transpose()).rref()
    rows = solved.tolist()[:rank]
    pivots = [next(k for k, entry in enumerate(row) if entry != 0) for row in rows]
    if pivots[: len(numbers)] != list(range(len(numbers))):
        raise NotRational("logarithms of numbers that depend on one another by large powers")
    if rank > len(numbers):
        return None
    powers = [row[-1] for row in rows]
    whole = math.lcm(*(int(one.q) for one in powers))
    small = whole <= _POWER and all(abs(one * whole) <= _POWER for one in powers)
    return powers if small else None


def _order(base: Any, number: Any) -> int:
    """How often a number can be divided by another one."""
    if number % base != 0:
        return 0
    twice = 2 * _order(base * base, number // base)
    return twice + 2 if number % base ** (twice + 2) == 0 else twice + 1


def exponential(element: Element) -> Element:
    """e^x."""
    result, powers = Element.of(1), []
    for m, c in element.terms.items():
        if (plain := _power_of_inside(m, c)) is not None:
            result = result * plain
        else:
            (((index, _),),) = made("e", (), lambda m=m: product_ball(m), m).terms
            powers.append((index, ring.number(c)))
    top = max(element.top, element.bottom)
    return result * Element({tuple(sorted(powers)): ONE}, top, element.bottom)


def _power_of_inside(m: Monomial, c: Any) -> Element | None:
    """|w|^c for m = log|w| and c a small multiple of 1/2."""
    if len(m) != 1 or m[0][1] != 1 or ring.atoms[m[0][0]].kind != "log":
        return None
    if c.q > 2 or abs(c.p) > SMALL:
        return None
    (inside,) = ring.atoms[m[0][0]].inside
    known = 1 if ring.atoms[m[0][0]].positive else everywhere(inside)
    positive = known > 0 if known else sign(inside) > 0
    if not (known or is_constant(inside)):
        ruled(positive)
    size = inside if positive else -inside
    return power(size if c.q == 1 else root(size), int(c.p))
