"""A tape that knows more signs: those of quotients of polynomials in numbers of known ranges.

Every line that is made of others by + - * / is such a quotient of what is given and of roots,
exponentials, maxima and the like, each an unknown of its own. A polynomial has one sign where all
its terms have: as it stands, or with every x in [a, b] as (a + b u) / (1 + u), u >= 0, which is
Bernstein's form of it. What comparisons of a case leave equal is put in each other's place.

>>> tape = SignTape()
>>> x, one = tape.given(), tape.constant(flint.fmpq(1))
>>> tape.between(x, Fraction(0), Fraction(1, 2))
>>> tape.place("abs", tape.place("-", x, one)) == tape.place("neg", tape.place("-", x, one))
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from linsys.linalg._flint import flint
from linsys.linalg.tapes import ANY, NOT_NEGATIVE, POSITIVE, Found, Tape

__all__ = ["SignTape"]

#: So many unknowns a tape has, and of so many terms and such a degree polynomials are looked at.
_UNKNOWNS, _TERMS, _DEGREE = 48, 60, 16
#: In Bernstein's form so many variables of known ranges.
_RANGES = 4
_ABOVE: Found = frozenset((0, 1))
_BELOW: Found = frozenset((-1, 0))
_EACH: Found = frozenset((-1, 0, 1))
#: Numerator and denominator.
_Ratio = tuple[Any, Any]


class SignTape(Tape):
    """Operations and comparisons, without those that signs decide."""

    def __init__(self) -> None:
        super().__init__()
        names = [f"x{k}" for k in range(_UNKNOWNS)]
        self._ring = flint.fmpq_mpoly_ctx.get(names, flint.Ordering.lex)
        #: The place of every unknown, and between which ends it lies.
        self._unknowns: list[int] = []
        self._ends: dict[int, tuple[Any, Any]] = {}
        #: Every line as a quotient; None of what is no number, or where there are too many.
        self._ratios: list[_Ratio | None] = []
        #: What is equal in the case that is recorded now: the second in the place of the first.
        self._equal: dict[int, int] = {}
        #: The signs of differences in it, up to constant factors.
        self._facts: dict[tuple[str, str], Found] = {}

    def between(self, place: int, low: Fraction, high: Fraction) -> None:
        """A number that is given lies between these ends."""
        ends = (flint.fmpq(end.numerator, end.denominator) for end in (low, high))
        self._ends[self._unknowns.index(place)] = (next(ends), next(ends))

    def start(self) -> None:
        """Begin another case."""
        super().start()
        self._equal, self._facts = {}, {}

    def _add(self, line: tuple[Any, ...], sign: int, finite: bool) -> int:
        place = super()._add(line, sign, finite)
        self._ratios.append(self._ratio(place, line))
        found = self._signs_at(place)
        known = POSITIVE if found == {1} else NOT_NEGATIVE if found <= _ABOVE else ANY
        self.signs[place] = max(sign, known)
        return place

    def place(self, operation: str, *of: Any) -> int:
        """Where an operation's result stands, which may be one of the numbers that it takes."""
        if operation == "abs" and self._signs_at(of[0]) <= _BELOW:
            return self.place("neg", *of)
        if operation in ("max", "min"):
            found = self._signs_of(*of)
            larger, smaller = of if found <= _ABOVE else of[::-1]
            kept, left = (larger, smaller) if operation == "max" else (smaller, larger)
            if (found <= _ABOVE or found <= _BELOW) and self.finite[left]:
                return int(kept)
        if operation in ("root", "length"):
            taken = self._root(of[0], operation)
            if taken is not None:
                return taken
        return super().place(operation, *of)

    # quotients and their signs

    def _ratio(self, place: int, line: tuple[Any, ...]) -> _Ratio | None:
        name, *of = line
        one = self._ring.constant(1)
        if name == "const":
            number = str(of[0]).split("/")
            known = number[0].lstrip("-").isdecimal()
            return (self._ring.constant(flint.fmpq(*map(int, number))), one) if known else None
        if name in ("+", "-", "*", "/", "neg"):
            each = [self._ratios[k] for k in of]
            if None in each:
                return None
            found = _made(name, [x for x in each if x is not None])
            if found is None or max(map(_size, found)) <= _TERMS:
                return found
        if len(self._unknowns) == _UNKNOWNS:
            return None
        self._unknowns.append(place)
        return self._ring.gens()[len(self._unknowns) - 1], one

    def _signs_at(self, place: int) -> Found:
        """The signs that a number may have where it has a value."""
        ratio = self._ratios[place]
        return _EACH if ratio is None else self._signs(ratio)

    def _signs(self, ratio: _Ratio) -> Found:
        above, below = map(self._signs_in_range, ratio)
        return frozenset(a * b for a in above if a is not None for b in below if b)

    def _signs_in_range(self, polynomial: Any) -> Found:
        if polynomial == 0:
            return frozenset((0,))
        terms = [*polynomial.terms()]
        signs = [self.signs[place] for place in self._unknowns]
        found = _of_sum([_of_term(power, c, signs) for power, c in terms])
        ranged = [k for k, top in enumerate(polynomial.degrees()) if top and k in self._ends]
        if found != _EACH or not 0 < len(ranged) <= _RANGES:
            return found
        tops = {k: polynomial.degrees()[k] for k in ranged}
        form = self._bernstein(terms, tops)
        signs = [NOT_NEGATIVE if k in tops else sign for k, sign in enumerate(signs)]
        found = _of_sum([_of_term(power, c, signs) for power, c in form.terms()])
        # apart from zero, ends included, is what is so at every corner
        corners = {
            tuple(power[k] for k in ranged)
            for power, c in form.terms()
            if all(power[k] in (0, tops[k]) for k in ranged)
            and 0 not in _of_term([0 if k in tops else n for k, n in enumerate(power)], c, signs)
        }
        return found if len(corners) == 2 ** len(ranged) else found | {0}

    def _bernstein(self, terms: Sequence[tuple[Any, Any]], tops: dict[int, int]) -> Any:
        x, total = self._ring.gens(), self._ring.constant(0)
        for power, c in terms:
            factors = [self._ring.constant(c)]
            for k, n in enumerate(power):
                if k in tops:
                    low, high = self._ends[k]
                    factors += [(low + high * x[k]) ** n, (1 + x[k]) ** (tops[k] - n)]
                elif n:
                    factors.append(x[k] ** n)
            total += prod(factors)
        return total

    def _signs_of(self, a: int, b: int) -> Found:
        found = super()._signs_of(a, b)
        one, other = self._ratios[a], self._ratios[b]
        if one is None or other is None or len(found) == 1:
            return found
        apart = _made("-", [one, other])
        return found if apart is None else found & self._signs(apart) or found

    # roots by factors

    def _root(self, place: int, operation: str) -> int | None:
        """The root of what surely is a number and not negative; squares in it are taken out."""
        ratio = self._ratios[place]
        if ratio is None or not self.finite[place] or not self._signs(ratio) <= _ABOVE:
            return None
        if place in self.constants:
            value = self.constants[place]
            return self._root_of(value, operation) if value > 0 else self.constant(value)
        (a, above), (b, below) = ratio[0].factor(), ratio[1].factor()
        left, taken = (self._ring.constant(a / b), self._ring.constant(1)), []
        for factor, power in [*above, *((factor, -power) for factor, power in below)]:
            signs = self._signs_in_range(factor)
            out = int(power / 2) if signs <= _ABOVE or signs <= _BELOW else 0
            taken += [(factor if signs <= _ABOVE else -factor, out)] if out else []
            rest = power - 2 * out
            left = (left[0] * factor ** max(rest, 0), left[1] * factor ** max(-rest, 0))
        if not taken or not self._signs(left) <= _ABOVE:
            return None
        inner = self._line(left[0])
        if left[1] != self._ring.constant(1):
            inner = self.place("/", inner, self._line(left[1]))
        known = inner in self.constants
        made = self.place(operation, inner) if known else super().place(operation, inner)
        for factor, power in taken:
            for _ in range(abs(power)):
                made = self.place("*" if power > 0 else "/", made, self._line(factor))
        return made

    def _root_of(self, value: Any, operation: str) -> int:
        """The root of a rational, as a rational times that of a whole number without squares."""
        n, out = value.p * value.q, flint.fmpq(1, value.q)
        for prime, power in n.factor() if n.bit_length() <= 64 else ():
            out, n = out * prime ** (power // 2), n / prime ** (power // 2 * 2)
        if n == 1:
            return self.constant(out)
        root = super().place(operation, self.constant(flint.fmpq(n)))
        return root if out == 1 else self.place("*", self.constant(out), root)

    def _line(self, polynomial: Any) -> int:
        """The place of a polynomial."""
        total = None
        for power, c in polynomial.terms():
            made = None if c == 1 and any(power) else self.constant(c)
            for k, n in enumerate(power):
                for _ in range(n):
                    x = self._unknowns[k]
                    made = x if made is None else self.place("*", made, x)
            total = made if total is None else self.place("+", total, made)
        return self.constant(flint.fmpq(0)) if total is None else total

    # what is equal in a case

    def by_signs(self, relation: str, a: int, b: int) -> bool:
        """How a comparison comes out; of what can only be equal then, one is the other."""
        outcome = super().by_signs(relation, a, b)
        first, second = sorted((a, b))
        left = self._between.get((first, second), frozenset((None,)))
        key, turn = self._difference(first, second)
        if key and None not in left:
            self._facts[key] = frozenset(turn * sign for sign in left if sign is not None)
        if left == {0}:
            zero = [self.constants.get(k) == 0 for k in (first, second)]
            if any(zero):
                self._vanish(second if zero[0] else first)
            else:
                self._set_equal(second, first)
        return outcome

    def compared(self, relation: str, a: int, b: int, outcome: bool, is_open: bool) -> bool:
        """Write down how a comparison came out, but of two constants."""
        known = not is_open and all(self.lines[k][0] == "const" for k in (a, b))
        return outcome if known else super().compared(relation, a, b, outcome, is_open)

    def _possible(self, a: int, b: int) -> Found:
        found = super()._possible(a, b)
        key, turn = self._difference(a, b)
        known = self._facts.get(key, _EACH) if key else _EACH
        return found & {None, *(turn * sign for sign in known if sign is not None)} or found

    def _difference(self, a: int, b: int) -> tuple[tuple[str, str] | None, int]:
        """a - b with leading coefficients 1, and the sign of what it was divided by."""
        one, other = self._ratios[a], self._ratios[b]
        apart = None if one is None or other is None else _made("-", [one, other])
        if apart is None or apart[0] == 0:
            return None, 1
        above, below = (part.leading_coefficient() for part in apart)
        turn = 1 if (above > 0) == (below > 0) else -1
        return (str(apart[0] / above), str(apart[1] / below)), turn

    def _set_equal(self, a: int, b: int) -> None:
        one, other = self._ratios[a], self._ratios[b]
        apart = None if one is None or other is None else _made("-", [one, other])
        powers = [] if apart is None else [power for power, _ in apart[0].terms()]
        if len(powers) == 1 and sum(n > 0 for n in powers[0]) == 1:  # a power of an unknown is zero
            (k,) = (k for k, n in enumerate(powers[0]) if n)
            self._vanish(self._unknowns[k])
        else:
            later, earlier = max(a, b), min(a, b)
            turned = later in self.constants
            self._equal[earlier if turned else later] = later if turned else earlier

    def _vanish(self, place: int) -> None:
        """A number is zero in this case, and so is what it is a square or the length of."""
        name, *of = self.lines[place]
        if name in ("neg", "abs", "root", "length") or (name == "*" and of[0] == of[1]):
            self._vanish(of[0])
        elif name == "+" and all(self.signs[k] for k in of):
            for k in of:
                self._vanish(k)
        elif name == "-":
            self._set_equal(*of)
        elif name != "const":
            self._equal[place] = self.constant(flint.fmpq(0))

    def leaf(self, *told: int | str) -> None:
        """End the case, with what is equal in it in each other's place."""
        now = dict(self._now([x for x in told if isinstance(x, int)]))
        super().leaf(*(now.get(x, x) if isinstance(x, int) else x for x in told))

    def _now(self, places: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Every place that some are made of, with the one that stands for it in this case."""
        if not self._equal or not places:
            return
        needed = {*places}
        for place in range(max(places), -1, -1):
            if place in needed:
                of = [self._equal[place]] if place in self._equal else self.lines[place][1:]
                needed |= {k for k in of if isinstance(k, int)}
        now: dict[int, int] = {}
        for place in sorted(needed):
            name, *of = self.lines[place]
            if place in self._equal:
                now[place] = now.get(self._equal[place], self._equal[place])
            elif name in ("in", "const", "rounded"):
                now[place] = place
            else:
                now[place] = self.place(name, *(now[k] for k in of))
            yield place, now[place]


def _made(name: str, each: Sequence[_Ratio]) -> _Ratio | None:
    """An operation on quotients, in lowest terms; None of what has no value."""
    (a, b), (c, d) = each[0], each[-1]
    if name == "neg":
        return -a, b
    if name == "/":
        if c == 0:
            return None
        c, d = d, c
    above, below = (a * c, b * d) if name in ("*", "/") else (a * d + c * b, b * d)
    if name == "-":
        above = a * d - c * b
    common = above.gcd(below)
    return (above / common, below / common) if above != 0 else (above, common / common)


def _size(polynomial: Any) -> int:
    """How many terms a polynomial has; beyond all limits where its degree is too high."""
    return len(polynomial) if polynomial.total_degree() <= _DEGREE else _TERMS + 1


def _of_term(power: Sequence[int], c: Any, signs: Sequence[int]) -> Found:
    """The signs that a product of powers may have."""
    used = [(n, signs[k]) for k, n in enumerate(power) if n]
    if any(n % 2 and sign == ANY for n, sign in used):
        return _EACH
    turn = 1 if c > 0 else -1
    sure = all(sign == POSITIVE for _, sign in used)
    return frozenset((turn,)) if sure else frozenset((0, turn))


def _of_sum(each: Sequence[Found]) -> Found:
    """The signs that a sum may have."""
    for turn in (1, -1):
        if all(one <= {0, turn} for one in each):
            return frozenset((turn,)) if {turn} in each else frozenset((0, turn))
    return _EACH
