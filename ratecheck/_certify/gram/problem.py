"""A theorem as a problem: vectors and values, what is assumed of them, and what is to be shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from linsys.validate import InputError
from ratecheck._certify.check import SQUARES, TIMES
from ratecheck._certify.gram.forms import (
    ONE,
    Atom,
    Form,
    Monomial,
    Number,
    Statement,
    Vector,
    exact,
    quotient,
    times,
    written,
)

#: So often what is needed beside the multiples found so far is looked for, and so many multiples of
#: one assumption are used.
_ROUNDS, _FACTORS = 3, 24


@dataclass(frozen=True)
class Assumption:
    """What is assumed: a matrix of forms that is positive semidefinite, or a form that is zero.

    Args:
        name: how certificates call it.
        matrix: rows; one number is a matrix with one entry.
        equal: whether the single entry is zero rather than not negative.
        factors: monomials of parameters by which a proof may multiply it; None to find them.
    """

    name: str
    matrix: tuple[tuple[Form, ...], ...]
    equal: bool = False
    factors: tuple[Monomial, ...] | None = None

    def __str__(self) -> str:
        if len(self.matrix) == 1:
            return f"{self.matrix[0][0]} {'==' if self.equal else '>='} 0"
        rows = "; ".join(", ".join(map(str, row)) for row in self.matrix)
        return f"[{rows}] has no negative eigenvalue"


class Conditions(Protocol):
    """What a function or an operator adds to a problem, once all of its points are known."""

    def conditions(self) -> list[Assumption]:
        """Inequalities and equations between its values at all points."""


@dataclass
class Problem:
    """Vectors of inner-product spaces of any dimension, assumptions, and a conclusion.

    Parameters are symbols for numbers that are not negative: what is proved holds for all of their
    values that the assumptions allow. Numbers are exact: integers, fractions, decimals in quotes.

    >>> from fractions import Fraction
    >>> p = Problem()
    >>> x, y = p.vectors("x y")
    >>> p.show((x + y).squared <= 2 * x.squared + 2 * y.squared)
    >>> print(p.conclusion)
    <x, x> + 2 <x, y> + <y, y> <= 2 <x, x> + 2 <y, y>
    """

    spaces: dict[str, str] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    conclusion: Statement | None = None
    extra_squares: list[tuple[Monomial, str]] = field(default_factory=list)
    lengths: list[tuple[Vector, Form]] = field(default_factory=list)
    classes: list[Conditions] = field(default_factory=list)

    @property
    def assumed(self) -> list[Assumption]:
        """All assumptions: those that are stated, and those of functions and operators."""
        return [*self.assumptions, *(one for c in self.classes for one in c.conditions())]

    def fresh(self, name: str, space: str = "R^d") -> Vector:
        """A new vector, named by the next free number after ``name``."""
        number = 0
        while f"{name}_{number}" in self.spaces:
            number += 1
        return self.vector(f"{name}_{number}", space)

    def vector(self, name: str, space: str = "R^d") -> Vector:
        """A vector of any dimension.

        Args:
            name: an identifier.
            space: vectors of one space have inner products with each other.
        """
        self._new(name)
        self.spaces[name] = space
        return Vector(space, {(ONE, name): Fraction(1)})

    def vectors(self, names: str, space: str = "R^d") -> list[Vector]:
        """Several vectors, by their names with spaces between."""
        return [self.vector(name, space) for name in names.split()]

    def zero(self, space: str = "R^d") -> Vector:
        """The zero of a space."""
        return Vector(space, {})

    def value(self, name: str) -> Form:
        """A number of any sign, such as the value of a function at a point."""
        self._new(name)
        self.scalars.append(name)
        return Form({(ONE, (name,)): Fraction(1)})

    def parameter(self, name: str) -> Form:
        """A number that is not negative, and may be multiplied with vectors and values."""
        self._new(name)
        self.parameters.append(name)
        return Form({(((name, 1),), ()): Fraction(1)})

    def parameters_named(self, names: str) -> list[Form]:
        """Several parameters, by their names with spaces between."""
        return [self.parameter(name) for name in names.split()]

    def assume(self, statement: Statement, name: str = "", factors: Sequence[Any] = ()) -> None:
        """Assume ``measured <= bound``.

        Args:
            statement: such as ``x.squared <= 1``.
            name: how certificates call it; numbered if none is given.
            factors: products of parameters by which the proof may multiply it; those that make its
                terms terms of the conclusion are found where none are given.
        """
        if not isinstance(statement, Statement):
            raise InputError(f"`statement` must compare two forms; found {statement!r:.60}")
        self._assume(((statement.slack,),), statement.equal, name, factors)

    def equal(self, first: Any, second: Any, name: str = "", factors: Sequence[Any] = ()) -> None:
        """Assume that two forms are equal."""
        self.assume(Statement(Form.of(first), Form.of(second), equal=True), name, factors)

    def positive_semidefinite(
        self, matrix: Sequence[Sequence[Form]], name: str = "", factors: Sequence[Any] = ()
    ) -> None:
        """Assume that a symmetric matrix of forms has no negative eigenvalue."""
        rows = tuple(tuple(Form.of(entry) for entry in row) for row in matrix)
        size = len(rows)
        if any(len(row) != size for row in rows) or any(
            rows[i][j].terms != rows[j][i].terms for i in range(size) for j in range(i)
        ):
            raise InputError("`matrix` must be square and symmetric; found another one")
        self._assume(rows, False, name, factors)

    def show(self, statement: Statement) -> None:
        """State what is to be proved."""
        if not isinstance(statement, Statement) or statement.equal:
            raise InputError(f"`statement` must be measured <= bound; found {statement!r:.60}")
        self.conclusion = statement

    def bounded(
        self, vector: Vector, norm: Any, name: str = "", factors: Sequence[Any] = ()
    ) -> None:
        """Assume that a vector is at most so long; see :meth:`cauchy_schwarz`.

        Args:
            vector: any.
            norm: a polynomial of parameters, or a number, that is not negative.
            name: of the assumption.
            factors: as in :meth:`assume`.
        """
        length = Form.of(norm)
        if not length.scalar or any(c < 0 for c in length.terms.values()):
            raise InputError(
                f"`norm` must be a sum of products of parameters; found {length!s:.60}"
            )
        self.lengths.append((vector, length))
        self.assume(vector.squared <= length * length, name, factors)

    def cauchy_schwarz(
        self, first: Vector, second: Vector, name: str = "", factors: Sequence[Any] = ()
    ) -> None:
        """Use that <first, second> is at most the product of the bounds of their norms.

        A proof may need this where it multiplies two norms, as the bounds may be zero.
        """
        bounds = []
        for vector in (first, second):
            known = [length for one, length in self.lengths if one in (vector, -vector)]
            if not known:
                raise InputError("`vector` must have a norm by `bounded`; found none")
            bounds.append(known[0])
        self.assume(first @ second <= bounds[0] * bounds[1], name, factors)

    def multiply(self, first: str, second: str, name: str = "") -> None:
        """Use the product of two assumptions, of which one holds parameters alone.

        Args:
            first: the name of an inequality between polynomials of parameters.
            second: the name of any inequality or equation.
            name: of the product.
        """
        one, other = (self.named(each) for each in (first, second))
        if len(one.matrix) > 1 or not one.matrix[0][0].scalar or one.equal:
            raise InputError(f"`first` must compare polynomials of parameters; found {first!r}")
        scalar = one.matrix[0][0]
        matrix = tuple(tuple(scalar * form for form in row) for row in other.matrix)
        self._assume(matrix, other.equal, name or f"{first} times {second}", ())

    def named(self, name: str) -> Assumption:
        """The assumption of this name."""
        for one in self.assumed:
            if one.name == name:
                return one
        raise InputError(f"`name` must be of an assumption; found {name!r}")

    def squares(self, *vectors: Vector) -> None:
        """Name products of parameters and single vectors whose squares a proof may use as well."""
        for one in vectors:
            for monomial, name in one.terms:
                self.extra_squares.append((times(monomial, monomial), name))

    def at(self, **numbers: Number) -> Problem:
        """This problem with numbers in the place of parameters, for a worst instance of these.

        >>> p = Problem()
        >>> x, a = p.vector("x"), p.parameter("a")
        >>> p.show(a * x.squared <= x.squared)
        >>> print(p.at(a="0.5").conclusion)
        (1/2) <x, x> <= <x, x>
        """
        values = {name: exact(number, name) for name, number in numbers.items()}
        if unknown := sorted(set(values) - set(self.parameters)):
            raise InputError(f"`numbers` must be of parameters; found {unknown}")
        if below := [name for name, number in values.items() if number < 0]:
            raise InputError(f"`{below[0]}` must not be negative; found {values[below[0]]}")
        assumptions = [
            Assumption(a.name, tuple(tuple(f.at(values) for f in row) for row in a.matrix), a.equal)
            for a in self.assumed
        ]
        conclusion = self.conclusion
        if conclusion is not None:
            conclusion = Statement(conclusion.measured.at(values), conclusion.bound.at(values))
        left = [name for name in self.parameters if name not in values]
        return Problem(dict(self.spaces), [*self.scalars], left, assumptions, conclusion)

    def monomials(self, value: Any) -> list[Monomial]:
        """The monomials of a polynomial of parameters."""
        form = Form.of(value)
        if not form.scalar:
            raise InputError("`factors` must be products of parameters; found one with a vector")
        return [monomial for monomial, _ in form.terms]

    def _assume(
        self,
        matrix: tuple[tuple[Form, ...], ...],
        equal: bool,
        name: str,
        factors: Sequence[Any],
    ) -> None:
        name = name or f"assumption {len(self.assumptions) + 1}"
        if name == SQUARES or any(one.name == name for one in self.assumptions):
            raise InputError(f"`name` must be of one assumption; found {name!r} twice")
        chosen = tuple(m for factor in factors for m in self.monomials(factor)) or None
        self.assumptions.append(Assumption(name, matrix, equal, chosen))

    def _new(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"`name` must be an identifier; found {name!r:.60}")
        if name in self.spaces or name in self.scalars or name in self.parameters:
            raise InputError(f"`name` must be a new one; found {name!r} twice")


@dataclass(frozen=True)
class Block:
    """A matrix of forms that has no negative eigenvalue, which a proof may use.

    Args:
        label: what it is, as a certificate says it.
        matrix: rows of forms.
        free: whether it is zero, so that a multiplier may have any sign.
    """

    label: tuple[str, ...]
    matrix: tuple[tuple[Form, ...], ...]
    free: bool = False


def multiplied(monomial: Monomial, form: Form) -> Form:
    """A form times a product of parameters."""
    product: Form = Form({(monomial, ()): Fraction(1)}) * form
    return product


def of_assumption(assumption: Assumption, factor: Monomial) -> Block:
    """An assumption times a product of parameters, which are not negative."""
    matrix = tuple(tuple(multiplied(factor, f) for f in row) for row in assumption.matrix)
    return Block((assumption.name, written(factor)), matrix, assumption.equal)


def of_squares(
    factor: Monomial,
    basis: Sequence[tuple[Monomial, str]],
    weight: Assumption | None = None,
) -> Block:
    """The Gram matrix of products of parameters and vectors of one space, times a product.

    Args:
        factor: by which it is multiplied.
        basis: the monomial and the vector of every row; "" is the only vector of the numbers.
        weight: an inequality between polynomials of parameters, whose slack multiplies as well.
    """

    def entry(first: tuple[Monomial, str], second: tuple[Monomial, str]) -> Form:
        monomial = times(factor, times(first[0], second[0]))
        names = sorted(n for n in (first[1], second[1]) if n)
        square = Form({(monomial, tuple(names)): Fraction(1)})
        return square if weight is None else square * weight.matrix[0][0]

    matrix = tuple(tuple(entry(a, b) for b in basis) for a in basis)
    rows = [f"{written(m)} * {name}" if name else written(m) for m, name in basis]
    kind = SQUARES if weight is None else f"{TIMES}{weight.name}"
    return Block((kind, written(factor), *rows), matrix)


def candidates(problem: Problem) -> list[Block]:
    """The blocks among which a proof is sought."""
    assert problem.conclusion is not None
    target = problem.conclusion.slack
    blocks = _multiples(problem.assumed, target)
    forms = [target, *(form for block in blocks for row in block.matrix for form in row)]
    diagonal = {
        (monomial, atom[0] if atom else "")
        for form in forms
        for monomial, atom in form.terms
        if atom == () or (len(atom) == 2 and atom[0] == atom[1])
    }
    diagonal |= set(problem.extra_squares)
    vectors = {(monomial, name) for monomial, name in diagonal if name}
    for assumption in problem.assumed:
        polynomial = assumption.matrix[0][0]
        if len(assumption.matrix) == 1 and polynomial.scalar and not assumption.equal:
            divided = {
                (factor, name)
                for monomial, name in vectors
                for own, _ in polynomial.terms
                if (factor := quotient(monomial, own)) is not None
            }
            blocks += _squares(problem, divided, assumption)
    return [*blocks, *_squares(problem, diagonal)]


def _multiples(assumptions: Sequence[Assumption], target: Form) -> list[Block]:
    """Every assumption times the monomials that make one of its terms a term that is needed.

    Needed are the terms of the target, and then those that come with the multiples found so far.
    """
    factors: list[dict[Monomial, None]] = [dict.fromkeys(a.factors or ()) for a in assumptions]
    needed = dict.fromkeys(target.terms)
    for _ in range(_ROUNDS):
        reached: dict[tuple[Monomial, Atom], None] = {}
        for assumption, own in zip(assumptions, factors, strict=True):
            terms = {key for row in assumption.matrix for form in row for key in form.terms}
            if assumption.factors is None:
                for (wanted, atom), (monomial, other) in itertools.product(needed, terms):
                    factor = quotient(wanted, monomial) if atom == other else None
                    if factor is not None and len(own) < _FACTORS:
                        own[factor] = None
            reached |= {(times(m, factor), atom): None for factor in own for m, atom in terms}
        if not reached.keys() - needed.keys():
            break
        needed = dict.fromkeys(sorted({*needed, *reached}))
    return [
        of_assumption(assumption, factor)
        for assumption, own in zip(assumptions, factors, strict=True)
        for factor in own
    ]


def _squares(
    problem: Problem, diagonal: Iterable[tuple[Monomial, str]], weight: Assumption | None = None
) -> list[Block]:
    """Gram matrices with these products of a monomial and a squared vector on their diagonals.

    A monomial on the diagonal is w m^2 with w free of squares: the row m * vector is in block w.
    """
    parts: dict[tuple[str, Monomial], set[tuple[Monomial, str]]] = {}
    for monomial, name in diagonal:
        root = tuple((n, p // 2) for n, p in monomial if p // 2)
        left = tuple((n, 1) for n, p in monomial if p % 2)
        space = problem.spaces[name] if name else ""
        parts.setdefault((space, left), set()).add((root, name))
    return [
        of_squares(factor, sorted(parts[space, factor]), weight) for space, factor in sorted(parts)
    ]
