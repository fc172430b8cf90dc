"""Sums of numbers over boxes, and what their parts have in common.

Terms that two sums have in common cancel; a sum of products with a common factor is a product with
it; and a difference of two values of one function is the difference of the arguments times a slope.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_forms import (
    F,
    bounds_of,
    common_factors,
    factors_of,
    joined,
    once,
    roundings,
    same_degree,
    serial,
    unchecked,
)
from linsys.linalg.boxes_paths import State
from linsys.linalg.boxes_products import (
    divided,
    inverse,
    multiplied,
    negative,
    power,
    times_constant,
)

__all__ = ["of_factors", "sum_of", "total"]

#: Sums of more terms are not examined.
_MOST_TERMS = 16


@once
def total(x: F, y: F) -> F:
    """The sum of two numbers, with what they have in common: terms that cancel, and factors.

    Sums of the same numbers are the same number, up to a factor: x - y, y - x and x - (x + y) / 2.
    """
    if State.known is None or not (x.of and y.of):
        return _total(x, y)
    merged: dict[int, tuple[F, Fraction]] = {}
    before = 0
    for one in (x, y):
        for atom, coefficient in one.terms or ((one, Fraction(1)),):
            before += 1
            so_far = merged.get(id(atom), (atom, Fraction(0)))[1]
            merged[id(atom)] = atom, so_far + coefficient
    terms = sorted((pair for pair in merged.values() if pair[1]), key=lambda pair: pair[0].serial)
    if len(terms) > _MOST_TERMS:
        return _total(x, y)
    same_degree(x, y)
    if not terms:
        return x.constant(0) if before else x
    lead = terms[0][1]
    if abs(lead.numerator) & (abs(lead.numerator) - 1) or lead.denominator & (lead.denominator - 1):
        return _total(x, y)  # not a power of two, by which a product is exact
    primitive = tuple((atom, coefficient / lead) for atom, coefficient in terms)
    key = "terms", tuple((id(atom), coefficient) for atom, coefficient in primitive)
    if key not in State.known:
        if len(primitive) == before:
            made = _scaled(_total(x, y), 1 / lead)
            made = made if made.terms == () else copied(made)
        else:
            made = _scaled(*primitive[0])
            for atom, coefficient in primitive[1:]:
                made = _total(*sorted((made, _scaled(atom, coefficient)), key=serial))
        if len(primitive) == 2 and primitive[1][1] == -1:
            made = of_one_function(made, primitive[0][0], primitive[1][0])
        if len(primitive) > 1:
            made = copied(made)
            made.terms = primitive
        State.known[key] = made, primitive
    known: F = State.known[key][0]
    return _scaled(known, lead)


def sum_of(x: F, y: F) -> F:
    """The sum, whichever comes first."""
    made: F = total(*sorted((x, y), key=serial))
    return made


def of_factors(made: F, x: F, common: dict[int, float], rest: F) -> F:
    """A number that also is the product of some of the factors of x and of the rest."""
    bases = [base for base, _ in factors_of(x) if id(base) in common]
    whole = rest
    for base in bases:
        whole = multiplied(whole, power(base, common[id(base)]))
    better = whole.e < made.e
    c, e = np.where(better, whole.c, made.c), np.where(better, whole.e, made.e)
    a = np.where(better, whole.a, made.a)
    lo, hi = np.maximum(made.lo, whole.lo), np.minimum(made.hi, whole.hi)
    both = x.made(lo, hi, c, a, e, made.degree, made.of)
    both.factors = joined(*((base, common[id(base)]) for base in bases), (rest, 1.0))
    return both


def of_one_function(made: F, x: F, y: F) -> F:
    """A difference of two values f(u) - f(v) of one function, as u - v times a slope, too."""
    if not x.origin or not y.origin or x.origin[::2] != y.origin[::2]:
        return made
    name, (u, v) = x.origin[0], (x.origin[1], y.origin[1])
    if name == "absolute":
        return made
    if name == "plus":  # of the same constant, which must be known
        if x.origin[2:] != y.origin[2:] or x.origin[2] != x.origin[3]:
            return made
        slope = made.constant(1)
    elif name == "inverse":
        slope = negative(multiplied(x, y))
    elif name == "root":
        slope = inverse(sum_of(x, y))
    elif name == "square":
        slope = sum_of(u, v)
    elif name == "exponential":
        slope = _between(x, y)
    else:
        slope = _between(inverse(u), inverse(v))
    apart = sum_of(u, negative(v))
    if not apart.of or (not slope.of and name != "plus"):
        return made
    product: F = of_factors(made, apart, dict(_exponents(apart)), slope)
    return product


def _exponents(x: F) -> dict[int, float]:
    """All factors of a number, as :func:`of_factors` takes them."""
    return {id(base): exponent for base, exponent in factors_of(x)}


def _between(x: F, y: F) -> F:
    """What lies between the smaller and the mean, or the mean and the larger, of two numbers."""
    mean = times_constant(sum_of(x, y), bounds_of(Fraction(1, 2)))
    lo, hi = np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi)
    difference = _total(*sorted((x, negative(y)), key=serial))
    reach = np.maximum(np.abs(difference.lo), np.abs(difference.hi)) / 2
    e = (mean.e + reach) * rounding.GROW
    made: F = x.made(lo, hi, mean.c, mean.a, e, x.degree, x.of | y.of)
    return made


def copied(x: F) -> F:
    """A copy of a number, as another object."""
    made = unchecked(x.lo, x.hi, x.c, x.a, x.e, x)
    made.factors, made.terms, made.partial = x.factors, x.terms, x.partial
    return made


def _scaled(x: F, coefficient: Fraction) -> F:
    """A number times a rational."""
    if coefficient == 1:
        return x
    if coefficient == -1:
        return negative(x)  # type: ignore[no-any-return]
    return times_constant(x, bounds_of(coefficient))  # type: ignore[no-any-return]


def _total(x: F, y: F) -> F:
    """The sum; of products with common factors it is a product, too."""
    degree = same_degree(x, y)
    c, a = x.c + y.c, x.a + y.a
    e = (x.e + y.e + roundings(c, a)) * rounding.GROW
    lo, hi = rounding.down(x.lo + y.lo), rounding.up(x.hi + y.hi)
    made = x.made(lo, hi, c, a, e, degree, x.of | y.of)
    common = common_factors(x, y, signed=True)
    if not common:
        return made
    return of_factors(made, x, common, sum_of(divided(x, common), divided(y, common)))
