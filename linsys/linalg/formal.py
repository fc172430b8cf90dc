"""Sums of products of roots, exponentials and logarithms, exactly, at one point.

An :class:`Element` is a sum of terms c a_1^p_1 a_2^p_2 ... with a rational c. Its *atoms* a_k are

- e^m for a product m of atoms, with a rational power p: what is computed is e^(p m),
- square roots of elements that are positive at the point, with power 1,
- inverses of elements that are not zero there, with whole powers,
- logarithms log|w| of elements, and other functions (a sine, an eigenvalue of a large matrix).

Rules are true of real functions wherever these are defined: s s = u for the root s of u, e^x e^y =
e^(x+y), log|x y| = log|x| + log|y|, log e^x = x, e^(k log|w|) = |w|^k, and Z (1/Z) = 1 in the test
for zero. An atom is one that is there already where the difference of what is inside is proved to
be zero. No two atoms are ever said to be independent: a missed relation loses a proof and no more.

*An element that is proved to be zero is zero at the point.* Denominators are multiplied out, from
the latest one back; then all coefficients must vanish. Of roots, f = a + b s is zero also where
a^2 - b^2 u is, if the conjugate a - b s is not zero: an enclosure (Arb) shows that, and the sign of
the conjugate counts as a comparison of the formula. The same goes for the sign of w in |w|.

*Signs at all points* make such a comparison unnecessary. They are known of numbers by their ranges
and by what was compared on the branch, and of sums and products of these. Where neither a nor -b is
negative at any point, or neither is positive, a - b s is zero only where a and b s are, so that
a + b s is zero wherever a^2 - b^2 u is: no enclosure is asked, and the point may be anywhere.

*It is zero at all points with the same outcomes of comparisons, but for a chance.* Coefficients
and powers are quotients of polynomials in the point's coordinates. Think of the same computation
with these functions in the place of their values, and with the same outcomes. It goes the same way
until two of the functions, or one and a constant, are equal at the point and not everywhere: all
else that the computation asks is decided by such equalities and by recorded outcomes, as an
enclosure that excludes zero only answers sooner what the equalities would. The functions up to
there do not depend on the point but by the outcomes. If N of them with numerators and denominators
of degree D at most were made, all pairs have a chance of at most N^2 4 D / 2^k, for both signs
(Schwartz, Zippel). :func:`compared` returns N^2 4 D, with all pairs, whether they came out equal or
not. Where no pair misleads, every step that was made is a rule for functions, on the whole region
of these outcomes.

>>> from linsys.linalg.degree_arithmetic import rational_arithmetic
>>> from linsys.linalg.degrees import Rational
>>> import numpy as np
>>> with rational_arithmetic():
...     x, y = Rational(3, 1), Rational(5, 1)
...     bool(np.sqrt(x) * np.sqrt(y) == np.sqrt(x * y))
...     bool(np.exp(x) * np.exp(y) == np.exp(x + y))
True
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linsys.linalg._flint import flint

__all__ = [
    "Element",
    "NotRational",
    "compared",
    "has_atoms",
    "outcomes",
    "recorded",
    "sign",
    "start",
]

#: Powers of atoms by their number, in order; of e^m, which are rational, their number.
Monomial = tuple[tuple[int, int], ...]

#: Bits of enclosures, in the order in which they are tried.
_BITS = (128, 512, 2048)
#: Conjugates are taken of so many roots, one in the other, and of sums of so many terms at most.
_ROOTS, _TERMS = 8, 4000
#: Constants that computed numbers are compared with: fractions of whole numbers up to 64 in size,
#: and their squares.
SMALL, _CONSTANTS = 64, 4 * 65 * 65
ONE = flint.fmpq(1)


class NotRational(ArithmeticError):
    """A formula leaves the arithmetic, or asks what neither its rules nor enclosures decide."""


class Atom:
    """A function that is not a quotient of polynomials, by its kind and what is inside."""

    __slots__ = ("balls", "constant", "evaluate", "inside", "kind", "of", "positive")

    def __init__(self, kind: str, inside: Sequence[Element], of: Monomial, evaluate: Any) -> None:
        self.kind, self.inside, self.of, self.evaluate = kind, tuple(inside), of, evaluate
        self.balls: dict[int, Any] = {}
        #: Whether it is the same at all points.
        self.constant: bool = all(map(is_constant, self.inside)) and all(
            ring.atoms[index].constant for index, _ in of
        )
        #: Of log|w|: whether w is positive wherever all numbers are defined.
        self.positive = False

    def ball(self) -> Any:
        """An enclosure with the bits of the moment; of e^m one of m."""
        bits = flint.ctx.prec
        if bits not in self.balls:
            self.balls[bits] = self.evaluate(*(one.ball() for one in self.inside))
        return self.balls[bits]


class _Ring:
    """The atoms of a computation at one point, and what the chance of an error depends on."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.known: dict[Any, int] = {}
        self.outcomes: list[bool] = []
        #: Whether a rule needed a sign that may be another one at other points.
        self.ruled = False
        #: Whether comparisons are made to come out as at other points: no enclosure counts then.
        self.elsewhere = False
        self.numbers = self.degree = self.products = 0
        #: Rational powers, whose numbers are sooner hashed than they are; the first is zero.
        self.powers = [flint.fmpq(0)]
        self.number_of = {flint.fmpq(0): 0}
        self.sums: dict[tuple[int, int], int] = {}
        #: Enclosures of products, by their bits.
        self.balls: dict[tuple[int, Monomial], Any] = {}
        #: Whole numbers without common factors, of which logarithms were taken.
        self.coprime: list[Any] = []
        #: Whether it is noted which numbers have one sign at all points, and these: coefficients,
        #: and sums as sets of terms; 1 of what is nowhere negative, -1 of what nowhere positive.
        self.everywhere = False
        #: Whether a number was taken for the root of another one, as one that is noted.
        self.matched = False
        self.signs: dict[Any, int] = {}

    @staticmethod
    def key(kind: str, inside: Sequence[Element], of: Monomial = ()) -> Any:
        """What is equal for equal atoms."""
        return (kind, of, *(frozenset(one.terms.items()) for one in inside))

    def knows(self, kind: str, inside: Sequence[Element]) -> bool:
        """Whether there is an atom with exactly this inside."""
        return self.key(kind, inside) in self.known

    def number(self, power: Any) -> int:
        """The number of a rational power."""
        if power not in self.number_of:
            self.number_of[power] = len(self.powers)
            self.powers.append(power)
        return self.number_of[power]

    def plus(self, index: int, one: int, two: int) -> int:
        """The sum of two powers of an atom."""
        if self.atoms[index].kind != "e":
            return one + two
        if (one, two) not in self.sums:
            self.sums[one, two] = self.number(self.powers[one] + self.powers[two])
        return self.sums[one, two]

    def multiplied(self, power: int, factor: Any) -> int:
        """A power of e^m times a rational."""
        return self.number(self.powers[power] * factor)


ring = _Ring()


def start() -> None:
    """Forget all atoms: a new point."""
    ring.__init__()  # type: ignore[misc]


def outcomes() -> tuple[bool, ...]:
    """How the comparisons since the start came out, also those that the rules needed."""
    return tuple(ring.outcomes)


def recorded(outcome: bool) -> bool:
    """Note how a comparison came out."""
    ring.outcomes.append(outcome)
    return outcome


def ruled(positive: bool) -> None:
    """Note a sign that a rule needed, which may be another one at other points."""
    ring.ruled = True
    recorded(positive)


def is_ruled() -> bool:
    """Whether a rule needed a sign since the start, which may be another one at other points."""
    return ring.ruled


def has_atoms() -> bool:
    """Whether a root, an exponential or a logarithm was taken since the start."""
    return bool(ring.atoms)


def compared() -> int:
    """Number of pairs of numbers that may have been compared, times a bound of their degree."""
    if not (ring.atoms or ring.matched):
        return 0
    return (ring.numbers + _CONSTANTS) ** 2 * 4 * ring.degree + ring.products


class Element:
    """A sum of terms, and bounds of degrees of its coefficients and powers.

    Args:
        terms: rational coefficients by their monomial.
        top: bound of the degrees of numerators over a common denominator.
        bottom: bound of the degree of this denominator.
    """

    __slots__ = ("balls", "bottom", "terms", "top")

    def __init__(self, terms: dict[Monomial, Any], top: int, bottom: int) -> None:
        self.terms = {m: c for m, c in terms.items() if c != 0}
        self.top, self.bottom = (top, bottom) if self.terms else (0, 0)
        self.balls: dict[int, Any] = {}
        ring.numbers += sum(1 + len(m) for m in terms)
        ring.degree = max(ring.degree, top, bottom)

    @classmethod
    def of(cls, value: Any, top: int = 0, bottom: int = 0) -> Element:
        """A rational number."""
        return cls({(): flint.fmpq(value)}, top, bottom)

    @property
    def rational(self) -> Any:
        """The number, where no atom is left; otherwise None."""
        if any(self.terms):
            return None
        return self.terms.get((), flint.fmpq(0))

    def ball(self) -> Any:
        """An enclosure with the bits of the moment."""
        bits = flint.ctx.prec
        if bits not in self.balls:
            total = flint.arb(0)
            for m, c in self.terms.items():
                total += c * product_ball(m) if m else c
            self.balls[bits] = total
        return self.balls[bits]

    def __neg__(self) -> Element:
        return Element({m: -c for m, c in self.terms.items()}, self.top, self.bottom)

    def __add__(self, other: Element) -> Element:
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = _plus(terms[m], c) if m in terms else c
        top = max(self.top + other.bottom, other.top + self.bottom)
        return Element(terms, top, self.bottom + other.bottom)

    def __sub__(self, other: Element) -> Element:
        return self + -other

    def __mul__(self, other: Element) -> Element:
        terms: dict[Monomial, Any] = {}
        for m, c in self.terms.items():
            for n, e in other.terms.items():
                both, product = times(m, n), _by(c, e)
                terms[both] = _plus(terms[both], product) if both in terms else product
                ring.numbers += 1 + len(both)
        # of coefficients, and of the sums of powers
        top = max(self.top + other.top, self.top + other.bottom, self.bottom + other.top)
        return _reduced(Element(terms, top, self.bottom + other.bottom))


def _plus(a: Any, b: Any) -> Any:
    """The sum of two coefficients; it has their sign, where that is one and known."""
    total = a + b
    if ring.everywhere and total != 0 and (way := _way(a)) != 0 and way == _way(b):
        ring.numbers += 1
        _keep(total, way)
    return total


def _by(a: Any, b: Any) -> Any:
    """The product of two coefficients; it has the product of their signs, where these are known."""
    product = a * b
    if ring.everywhere and (way := _way(a) and _way(a) * _way(b)) != 0:
        _keep(product, way)
    return product


def one_over(coefficient: Any) -> Any:
    """The reciprocal of a coefficient; it has its sign, where that is known."""
    if ring.everywhere and (way := _way(coefficient)) != 0:
        _keep(1 / coefficient, way)
    return 1 / coefficient


def _way(coefficient: Any) -> int:
    """The sign of a coefficient at all points; 0 where it is not known."""
    if coefficient == 0:
        return 0
    if max(abs(coefficient.p), coefficient.q) <= SMALL:  # it is one of few constants
        return 1 if coefficient > 0 else -1
    way = ring.signs.get((abs(coefficient.p), coefficient.q), 0)
    return way if coefficient > 0 else -way


def _keep(coefficient: Any, way: int) -> None:
    """Note the sign of a coefficient, by two whole numbers, which are sooner hashed than one."""
    key = abs(coefficient.p), coefficient.q
    ring.signs[key] = way if coefficient > 0 else -way


def noted(number: Any, way: int, top: int = 0, bottom: int = 0) -> None:
    """Note that a number is nowhere negative, 1, or nowhere positive, -1.

    Args:
        number: an element, or a rational with bounds of the degrees that an element has.
        way: its sign.
        top, bottom: these bounds.
    """
    rational = number.rational if isinstance(number, Element) else number
    if rational is None:
        ring.signs[_name(number, 1)] = way
    elif rational != 0:
        ring.numbers, ring.degree = ring.numbers + 1, max(ring.degree, top, bottom)
        _keep(rational, way)


def _name(element: Element, sense: int) -> Any:
    """What is equal for equal elements, or for one and minus the other."""
    return frozenset((m, sense * c.p, c.q) for m, c in element.terms.items())


def everywhere(element: Element) -> int:
    """The sign of an element at all points, where it may be zero as well; 0 if it is not known."""
    if element.rational is not None:
        return _way(element.rational) if element.terms else 0
    for sense in (1, -1):
        if (known := ring.signs.get(_name(element, sense), 0)) != 0:
            return sense * known
    index = max(i for m in element.terms for i, _ in m)
    atom, parts = ring.atoms[index], _parts(element, index)
    if atom.kind in ("e", "root"):
        of_atom = 1
    elif atom.kind == "inverse":
        of_atom = everywhere(atom.inside[0])
    else:
        of_atom = ring.signs.get(_name(single(index), 1), 0)
    odd = {power for power in parts if atom.kind not in ("e", "root") and power % 2 == 1}
    ways = {everywhere(part) * (of_atom if p in odd else 1) for p, part in parts.items()}
    return ways.pop() if len(ways) == 1 else 0


def product_ball(monomial: Monomial) -> Any:
    """An enclosure of a product of atoms with the bits of the moment."""
    key = flint.ctx.prec, monomial
    if key not in ring.balls:
        value, exponent = flint.arb(1), flint.arb(0)
        for index, power in monomial:
            atom = ring.atoms[index]
            if atom.kind == "e":
                exponent += ring.powers[power] * atom.ball()
            else:
                value *= atom.ball() ** power
        ring.balls[key] = value * exponent.exp()
    return ring.balls[key]


def times(m: Monomial, n: Monomial) -> Monomial:
    if not (m and n):
        return m or n
    powers = dict(m)
    for index, power in n:
        powers[index] = ring.plus(index, powers[index], power) if index in powers else power
    return tuple(sorted((index, power) for index, power in powers.items() if power != 0))


def _parts(element: Element, index: int) -> dict[int, Element]:
    """The elements that stand beside the powers of an atom, by these."""
    parts: dict[int, dict[Monomial, Any]] = {}
    for m, c in element.terms.items():
        power = dict(m).get(index, 0)
        parts.setdefault(power, {})[tuple(one for one in m if one[0] != index)] = c
    return {p: Element(t, element.top, element.bottom) for p, t in parts.items()}


def _last(element: Element, kind: str, least: int = 1) -> int:
    """The latest atom of a kind with such a power; -1 without one."""
    atoms = ring.atoms
    each = (i for m in element.terms for i, p in m if atoms[i].kind == kind and p >= least)
    return max(each, default=-1)


def _reduced(element: Element) -> Element:
    """An element in which s^2 is replaced by u for every root s of u."""
    while (index := _last(element, "root", 2)) >= 0:
        (square,) = ring.atoms[index].inside
        parts = _parts(element, index)
        element = parts[2] * square
        for power, one in ((0, Element.of(1)), (1, single(index))):
            element = element + parts[power] * one if power in parts else element
    return element


def is_zero(element: Element, roots: int = _ROOTS) -> bool:
    """Whether the rules prove that an element is zero."""
    if len(element.terms) <= 1:
        return not element.terms
    for bits in () if ring.elsewhere else _BITS[:2]:
        with flint.ctx.workprec(bits):
            if element.ball() != 0:
                return False
    while (index := _last(element, "inverse")) >= 0:
        parts = _parts(element, index)
        element = parts.get(0, Element({}, 0, 0))
        for power in range(1, max(parts) + 1):
            element = element * ring.atoms[index].inside[0]
            element = element + parts[power] if power in parts else element
    if len(element.terms) <= 1:
        return not element.terms
    index = _last(element, "root")
    if index < 0 or roots == 0 or len(element.terms) > _TERMS:
        return False
    parts = _parts(element, index)
    nothing = Element({}, 0, 0)
    a, b = parts.get(0, nothing), parts.get(1, nothing)
    if is_zero(a, roots - 1) and is_zero(b, roots - 1):
        return True
    apart = everywhere(a) * everywhere(b) < 0
    if ring.elsewhere and not apart:
        return False
    if not is_zero(a * a - b * b * ring.atoms[index].inside[0], roots - 1):
        return False
    if apart:
        return True
    ruled(_excluded(a - b * single(index)) > 0)
    return True


def _excluded(element: Element) -> int:
    """1 or -1, the sign of an element whose enclosure excludes zero."""
    for bits in _BITS:
        with flint.ctx.workprec(bits):
            ball = element.ball()
        if ball > 0 or ball < 0:
            return 1 if ball > 0 else -1
    raise NotRational("neither rules nor enclosures say whether a number is zero")


def single(index: int, power: int = 1) -> Element:
    """An atom as an element."""
    return Element({((index, power),): ONE}, 0, 0)


def simplified(element: Element) -> Element:
    """An element, or one without terms where it is zero."""
    return Element({}, 0, 0) if is_zero(element) else element


def sign(element: Element) -> int:
    """-1, 0 or 1.

    Raises:
        NotRational: neither enclosures nor the rules decide it.
    """
    if element.rational is not None:
        return int(element.rational > 0) - int(element.rational < 0)
    return 0 if is_zero(element) else _excluded(element)


def is_constant(element: Element) -> bool:
    """Whether an element does not depend on the point, nor what is inside of its atoms."""
    if element.top or element.bottom:
        return False
    return all(ring.atoms[index].constant for m in element.terms for index, _ in m)


def plain_sign(element: Element) -> int:
    """1 or -1 of a sum of exponentials with small constants of one sign; else 0."""
    signs = set()
    for m, c in element.terms.items():
        if any(ring.atoms[index].kind != "e" for index, _ in m):
            return 0
        if max(abs(c.p), c.q) > SMALL:
            return 0
        signs.add(1 if c > 0 else -1)
    return signs.pop() if len(signs) == 1 else 0


def made(kind: str, inside: Sequence[Element], evaluate: Any, of: Monomial = ()) -> Element:
    """The atom of this kind with this inside, which may be there already.

    Args:
        kind: "e", "root", "inverse", "log", or the name of another function.
        inside: its arguments.
        evaluate: an enclosure from those of the arguments.
        of: what e^m has in the place of arguments.
    """
    key = ring.key(kind, inside, of)
    if key not in ring.known:
        ring.known[key] = _equal(kind, inside) if inside else -1
        if ring.known[key] < 0:
            ring.known[key] = len(ring.atoms)
            ring.atoms.append(Atom(kind, inside, of, evaluate))
    return single(ring.known[key])


def _equal(kind: str, inside: Sequence[Element]) -> int:
    for index, atom in enumerate(ring.atoms):
        same = atom.kind == kind and len(atom.inside) == len(inside)
        if same and all(is_zero(a - b) for a, b in zip(atom.inside, inside, strict=True)):
            return index
    return -1
