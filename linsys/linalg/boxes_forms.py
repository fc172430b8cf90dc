"""What a number over boxes holds: an interval and a first-order form; constants; degrees."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_paths import Mask, State
from linsys.linalg.rounded import reach

__all__ = [
    "Enclosure",
    "Ends",
    "F",
    "Factors",
    "Floats",
    "Terms",
    "Without",
    "bounds_of",
    "common_factors",
    "factors_of",
    "free_degree",
    "inverted",
    "is_number",
    "joined",
    "negated",
    "once",
    "partial",
    "roundings",
    "same_degree",
    "serial",
    "unchecked",
    "with_constant",
]

Floats = NDArray[np.float64]
#: Lower and upper bounds, entry by entry.
Ends = tuple[Floats, Floats]
#: Numbers and exponents.
Factors = tuple[tuple[Any, float], ...]
#: Numbers and coefficients.
Terms = tuple[tuple[Any, Fraction], ...]
F = TypeVar("F", bound="Enclosure")


_SERIALS = itertools.count()


def serial(x: Enclosure) -> int:
    """The place of a number among all that were made."""
    return x.serial


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of forms that returns the same form for the same arguments.

    So what a formula computes twice is known to be one number.
    """

    @functools.wraps(function)
    def remembered(*arguments: Any) -> Any:
        if State.known is None:
            return function(*arguments)
        key = (
            function.__name__,
            *(id(x) if isinstance(x, Enclosure) else np.asarray(x).tobytes() for x in arguments),
        )
        known = State.known.get(key)
        if known is None:
            # the arguments are kept, so that no other form gets their ids
            known = State.known[key] = (function(*arguments), arguments)
        return known[0]

    return remembered


class Without(NamedTuple):
    """Where a number may have no value at some points, as the root of a negative number has none.

    Its interval holds the values that there are, so that no comparison of it is surely true there.

    Args:
        where: in which boxes, (B,) or (1,).
        of: the coordinates on which that depends, as bits.
    """

    where: Mask
    of: int = 0


class Enclosure:
    """A number over B boxes: at every point of a box in [lo, hi], and within the first-order form.

    Args:
        lo: lower bounds, (B,).
        hi: upper bounds, (B,).
        c: the form's centres, (B,).
        a: its coefficients, (k, B).
        e: bounds of what it leaves out, (B,), not negative.
        degree: how it scales with each coordinate: where coordinate i is multiplied by t^(w_i), the
            number is by t^(sum of w_i degree_i), for all w that are orthogonal to ``State.alike``.
        of: the coordinates that it depends on, as bits.
    """

    __slots__ = (
        "a", "c", "degree", "e", "factors", "hi", "lo", "of", "origin", "partial", "serial",
        "terms",
    )  # fmt: skip

    def __init__(
        self,
        lo: Floats,
        hi: Floats,
        c: Floats,
        a: Floats,
        e: Floats,
        degree: tuple[float, ...] = (),
        of: int = 0,
    ) -> None:
        up, down = rounding.up, rounding.down
        radius = (np.abs(a).sum(axis=0) + e) * rounding.GROW
        # fmax and fmin take the other number where one is NaN, which says nothing
        lo = np.fmax(np.fmax(lo, down(c - radius)), -np.inf)
        hi = np.fmin(np.fmin(hi, up(c + radius)), np.inf)
        lo, hi = rounding.snapped(lo, hi)
        worse = ~(e < (hi - lo) / 2)
        if worse.any():  # the interval alone says more
            bounded = np.isfinite(lo) & np.isfinite(hi)
            middle = np.where(bounded, lo + (hi - lo) / 2, 0.0)
            reach = up(np.maximum(hi - middle, middle - lo))
            c, e = np.where(worse, middle, c), np.where(worse, reach, e)
            a = np.where(worse, 0.0, a)
        self.lo, self.hi, self.c, self.a, self.e = lo, hi, c, a, e
        self.degree, self.of = degree, of
        #: In which order numbers were made: sums and products take their parts in this order, so
        #: that the same evaluation gives the same enclosures.
        self.serial = next(_SERIALS)
        #: The numbers whose powers it is a product of, where it was made so: of two sides of a
        #: bound those in common cancel.
        self.factors: Factors = ()
        #: The numbers that it is a sum of, with coefficients, where it was made so: of two that are
        #: subtracted those in common cancel.
        self.terms: Terms = ()
        #: The function of another number that it is, and that number.
        self.origin: tuple[Any, ...] = ()
        #: Where it may have no value; None: it surely has one.
        self.partial: Without | None = None

    def __repr__(self) -> str:
        return f"Form({self.lo}, {self.hi})"

    @property
    def exact(self) -> Any:
        """What :func:`bounds_of` says of it, if it is a known constant; else None."""
        if self.of or self.lo.size > 1 or self.lo[0] != self.hi[0] or self.is_infinite:
            return None
        return np.array([self.lo[0], self.hi[0], self.lo[0], 0.0])

    @property
    def is_zero(self) -> bool:
        """Whether it is the constant 0, which scales like anything."""
        return self.of == 0 and bool((self.lo == 0).all() and (self.hi == 0).all())

    @property
    def is_infinite(self) -> bool:
        """Whether it is the constant infinity, or minus that."""
        return self.of == 0 and self.lo[0] == self.hi[0] and math.isinf(self.lo[0])

    def made(self, *parts: Any) -> Self:
        """Another one, with the arguments of the class."""
        return type(self)(*parts)

    def constant(self, value: Any) -> Self:
        """A plain number, the same in all boxes."""
        return self.of_number(value)

    @classmethod
    def of_number(cls, value: Any) -> Self:
        """A plain number, in boxes of any number: a float counts as its shortest decimal."""
        key = "number", value, type(value)
        if State.known is not None and key in State.known:
            known: Self = State.known[key]
            return known
        low, high, nearest, distance = bounds_of(value)
        lo, hi, c = (np.array([end]) for end in (low, high, nearest))
        degree = (0.0,) * State.coordinates
        made = cls(lo, hi, c, np.zeros((1, 1)), np.array([distance]), degree)
        made.partial = Without(np.array([True])) if math.isnan(nearest) else None
        if State.known is not None:
            State.known[key] = made
        return made


def unchecked(lo: Floats, hi: Floats, c: Floats, a: Floats, e: Floats, like: F) -> F:
    """One whose interval and first-order part are already beside each other."""
    made = type(like).__new__(type(like))
    made.lo, made.hi, made.c, made.a, made.e = lo, hi, c, a, e
    made.degree, made.of, made.factors, made.terms, made.origin = like.degree, like.of, (), (), ()
    made.serial, made.partial = next(_SERIALS), None
    return made


def partial(x: F, without: Without) -> F:
    """The same number, which may have no value there."""
    if x.partial is not None:
        where = x.partial.where | without.where
        if (where == x.partial.where).all():
            return x
        without = Without(where, x.partial.of | without.of)
    return _partial(x, *without)  # type: ignore[no-any-return]


@once
def _partial(x: F, where: Mask, of: int) -> F:
    made = unchecked(x.lo, x.hi, x.c, x.a, x.e, x)
    made.factors, made.terms, made.origin = x.factors, x.terms, x.origin
    made.partial = Without(where, of)
    return made


def roundings(c: Floats, a: Floats) -> Floats:
    """A bound of the error of one rounding of the centre and of each coefficient."""
    return np.asarray(rounding.UNIT * (np.abs(c) + np.abs(a).sum(axis=0)))


def joined(*powers: tuple[F, float]) -> Factors:
    """The factors of a product of powers of these numbers."""
    exponents: dict[int, float] = {}
    bases: dict[int, F] = {}
    for x, power in powers:
        for base, exponent in x.factors or ((x, 1.0),):
            bases[id(base)] = base
            exponents[id(base)] = exponents.get(id(base), 0.0) + power * exponent
    return tuple((bases[key], exponent) for key, exponent in exponents.items() if exponent)


def factors_of(x: F) -> Factors:
    """The factors of a number; an even power of u is one of |u| where that was computed.

    So (u v)^2 and |u| w have the factor |u| in common.
    """
    exponents: dict[int, tuple[F, float]] = {}
    for base, exponent in x.factors or ((x, 1.0),):
        if exponent % 2 == 0 and State.known is not None:
            base = State.known.get(("absolute", id(base)), (base,))[0]
        before = exponents.get(id(base), (base, 0.0))[1]
        exponents[id(base)] = base, before + exponent
    return tuple(exponents.values())


def common_factors(x: F, y: F, *, signed: bool) -> dict[int, float]:
    """The exponents of the factors that two numbers have in common, by the ids of these factors.

    Args:
        x: a number.
        y: another one.
        signed: whether factors may be negative; else only what is known not to be is taken.
    """
    first = {id(base): (base, exponent) for base, exponent in factors_of(x)}
    common: dict[int, float] = {}
    for base, q in factors_of(y):
        if id(base) not in first or not base.of:
            continue
        p = first[id(base)][1]
        shared = min(p, q) if p > 0 and q > 0 else max(p, q) if p < 0 and q < 0 else 0.0
        if not signed and shared and not bool((base.lo >= 0).all()):
            shared = math.trunc(shared / 2) * 2.0
        if shared:
            common[id(base)] = shared
    return common


def is_number(value: Any) -> bool:
    """Whether a value is a plain number."""
    return isinstance(value, int | float | np.integer | np.floating | np.bool_ | Fraction)


def bounds_of(value: Any) -> Any:
    """A plain number as lower bound, upper bound, nearest double and distance from it, (4,)."""
    if isinstance(value, float | np.floating):
        return _bounds_of(float(value))
    if isinstance(value, Fraction):
        return _bounds_of(value)
    return _bounds_of(int(value))


@lru_cache(maxsize=4096)
def _bounds_of(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return np.array([value, value, value, math.inf])
        if (radius := reach(value)) > 0:
            return np.array([value - radius, value + radius, value, 1.01 * radius])
        exact = Fraction(repr(value))
    else:
        exact = Fraction(value)
    nearest = float(exact)
    if Fraction(nearest) == exact:
        return np.array([nearest, nearest, nearest, 0.0])
    low, high = np.nextafter(nearest, -np.inf), np.nextafter(nearest, np.inf)
    return np.array([low, high, nearest, np.nextafter(max(high - nearest, nearest - low), 1.0)])


def negated(k: Any) -> Any:
    """Minus a number, as :func:`bounds_of` gives it."""
    return np.array([-k[1], -k[0], -k[2], k[3]])


def inverted(k: Any) -> Any:
    """One over a number, as :func:`bounds_of` gives it."""
    low, high, nearest, distance = k
    if low <= 0 <= high:
        raise ZeroDivisionError("division by a constant that may be zero")
    ends = rounding.down(np.float64(1 / high)), rounding.up(np.float64(1 / low))
    if distance == 0 and math.frexp(nearest)[0] in (0.5, -0.5):  # a power of two
        return np.array([1 / nearest, 1 / nearest, 1 / nearest, 0.0])
    middle = 1 / nearest
    return np.array([*ends, middle, np.nextafter(max(ends[1] - middle, middle - ends[0]), np.inf)])


def with_constant(x: F, other: Any, function: Callable[[F, Any], Any]) -> Any:
    """A function of a form and a plain number, as :func:`bounds_of` gives it."""
    if not is_number(other):
        return NotImplemented
    return function(x, bounds_of(other))


def same_degree(x: F, y: F) -> tuple[float, ...]:
    """The degree of a sum; that both parts must scale alike is noted."""
    if x.degree != y.degree:
        for one, rest in ((x, y), (y, x)):
            if one.is_zero:
                return rest.degree
        State.alike.add(tuple(p - q for p, q in zip(x.degree, y.degree, strict=True)))
    return x.degree


def free_degree(x: F) -> tuple[float, ...]:
    """The degree of what must not scale, which is noted."""
    none = (0.0,) * State.coordinates
    if x.degree != none and not x.is_zero:
        State.alike.add(x.degree)
    return none
