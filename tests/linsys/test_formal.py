"""Formal sums of roots and exponentials: right values, sound zeros, degrees that are bounds."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys.linalg import (
    formal,
    formal_functions,
    inverse,
    lambda_max,
    lambda_min,
    logistic,
    operator_norm,
    precise,
    solve,
    stretch,
    transpose,
)
from linsys.linalg.degree_arithmetic import rational_arithmetic
from linsys.linalg.degrees import NotRational, Rational

FINE = mpmath.MPContext()
FINE.dps = 60

#: A nested tuple: an operation and its operands, with fractions at the ends.
Formula = Any
UNARY = ("sqrt", "exp", "log", "square", "inverse", "tanh", "abs", "sin")
BINARY = ("+", "-", "*", "/", "max")
LEAVES = st.fractions(min_value=-3, max_value=3, max_denominator=12)
FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(UNARY), inner), st.tuples(st.sampled_from(BINARY), inner, inner)
    ),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def within() -> Iterator[None]:
    with rational_arithmetic():
        yield


def numbers(*values: Any) -> list[Any]:
    """Numbers that depend on the point."""
    return [Rational(Fraction(value), 1) for value in values]


def value(formula: Formula, leaf: Callable[[Fraction], Any], functions: dict[str, Any]) -> Any:
    if not isinstance(formula, tuple):
        return leaf(formula)
    return functions[formula[0]](*(value(one, leaf, functions) for one in formula[1:]))


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "square": lambda x: x * x,
    "inverse": lambda x: 1 / x,
    "abs": abs,
}
OURS = {
    **OPERATORS,
    **{name: (lambda x, name=name: getattr(x, name)()) for name in (*UNARY[:3], "tanh", "sin")},
    "max": lambda x, y: np.maximum(np.array([x]), np.array([y]))[0],
}
THEIRS = {
    **OPERATORS,
    **{name: getattr(FINE, name) for name in (*UNARY[:3], "tanh", "sin")},
    "max": max,
}


@settings(max_examples=300, deadline=None)
@given(FORMULAS)
def test_values_are_those_of_60_digits(formula: Formula) -> None:
    with rational_arithmetic(), np.errstate(invalid="ignore"):
        try:
            ours = value(formula, lambda x: Rational(x, 1), OURS)
        except (NotRational, ZeroDivisionError):
            return  # nothing is said
        if not ours.finite:
            return
        theirs = value(formula, lambda x: FINE.mpf(x.numerator) / x.denominator, THEIRS)
        with flint.ctx.workprec(190):
            ball = ours.element.ball()
            if not ball.is_finite() or abs(ball) > 10**30:
                return
            middle = FINE.mpf(ball.mid().str(50, radius=False))
            assert abs(middle - theirs) <= (1 + abs(theirs)) * FINE.mpf(10) ** -35


def test_the_sides_of_the_60_digits_test_may_differ() -> None:
    """A formula that is evaluated with another function is seen by the same comparison."""
    (x,) = numbers("1/3")
    with flint.ctx.workprec(190):
        assert abs(float(x.exp().element.ball().mid()) - float(FINE.exp(FINE.mpf(1) / 3))) < 1e-15
        assert abs(float(x.exp().element.ball().mid()) - float(FINE.sin(FINE.mpf(1) / 3))) > 0.1


TRUE: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "roots": lambda x, y: (x.sqrt() * y.sqrt(), (x * y).sqrt()),
    "a factor under a root": lambda x, y: ((4 * x).sqrt(), 2 * x.sqrt()),
    "a root below": lambda x, y: (
        1 / (x.sqrt() + y.sqrt()),
        (x.sqrt() - y.sqrt()) / (x - y),
    ),
    "nested roots": lambda x, y: (
        (x + y + 2 * (x * y).sqrt()).sqrt(),
        x.sqrt() + y.sqrt(),
    ),
    "exponentials": lambda x, y: (x.exp() * y.exp() / (x - y).exp(), y.exp() ** 2),
    "a half": lambda x, y: ((x / 2).exp(), x.exp().sqrt()),
    "softmax": lambda x, y: (x.exp() / (x.exp() + y.exp()), 1 / (1 + (y - x).exp())),
    "tanh": lambda x, y: (x.tanh(), 2 / (1 + (-2 * x).exp()) - 1),
    "log of e": lambda x, y: (x.exp().log() + (x.exp() * y).log(), 2 * x + y.log()),
    "log sum": lambda x, y: ((x.exp() + y.exp()).log(), x + (1 + (y - x).exp()).log()),
    "e of log": lambda x, y: ((2 * (x + y.exp()).log()).exp(), (x + y.exp()) ** 2),
    "e of the log of a difference": lambda x, y: (
        (-(2 - x.exp())).log().exp() + (y.exp() - 1).log().exp(),
        x.exp() + y.exp() - 3,
    ),
    "the log of a negative factor": lambda x, y: (
        (-(y - x.exp())).log() - y.log(),
        (x.exp() / y - 1).log(),
    ),
    "e of half a log": lambda x, y: ((x.log() / 2).exp(), x.sqrt()),
    "log of a product": lambda x, y: ((x**3 / y).log(), 3 * x.log() - y.log()),
    "log of constants": lambda x, y: (
        Rational(12).log(),
        2 * Rational(2).log() + Rational(3).log(),
    ),
    "log of a root": lambda x, y: (x.sqrt().log(), x.log() / 2),
    "powers": lambda x, y: (x ** Fraction(3, 2), x * x.sqrt()),
    "roots of constants": lambda x, y: (
        Rational(2).sqrt() * Rational(6).sqrt(),
        2 * Rational(3).sqrt(),
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_true_identities_are_proved(name: str) -> None:
    left, right = TRUE[name](*numbers("731/307", "311/503"))
    assert left == right


FALSE: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "the root of a square": lambda x, y: ((x * x).sqrt(), x),
    "a root of constants": lambda x, y: (
        Rational(2).sqrt() * Rational(3).sqrt(),
        Rational(5).sqrt(),
    ),
    "a square of e": lambda x, y: (x.exp() ** 2, (x * x).exp()),
    "a sum of e": lambda x, y: (x.exp() + y.exp(), (x + y).exp()),
    "e of a third of a log": lambda x, y: ((y.log() / 3).exp(), y.sqrt()),
    "a log of a sum": lambda x, y: ((y + 1).log(), y.log() + 1),
    "off by 1e-30": lambda x, y: ((x * x + Fraction(1, 10**30)).sqrt(), abs(x)),
    "off by 1e-90": lambda x, y: ((x * x).exp() + Fraction(1, 10**90), (x * x).exp()),
    "the other root": lambda x, y: (
        (2 - 2 * (1 - y * y).sqrt()).sqrt(),
        (1 + y).sqrt() + (1 - y).sqrt(),
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_false_identities_are_not(name: str) -> None:
    left, right = FALSE[name](*numbers("-731/307", "311/503"))
    assert left != right


def test_what_no_enclosure_decides_is_not_said() -> None:
    """10^-700 beside 1 is beyond 2048 bits."""
    (x,) = numbers("731/307")
    with pytest.raises(NotRational, match="neither rules nor enclosures"):
        bool((x * x + Fraction(1, 10**700)).sqrt() == x)
    bool((x * x + Fraction(1, 10**500)).sqrt() == x)


def test_a_logarithm_of_a_negative_number_is_no_number() -> None:
    x, y = numbers(-2, -3)
    assert (x * y).log() != x.log() + y.log()
    assert not x.log().finite
    assert not formal.outcomes()[0]


def test_the_sign_of_a_conjugate_is_a_comparison() -> None:
    """sqrt(x^2) = x where x is positive, which is a branch; |x| is one itself."""
    (x,) = numbers("731/307")
    assert formal.sign(((x * x).sqrt() - x).element) == 0
    assert len(formal.outcomes()) == 1
    (z,) = numbers("-731/307")
    assert formal.sign(((z * z).sqrt() + z).element) == 0
    assert formal.sign(((z * z).sqrt() - z).element) == 1


def test_a_conjugate_that_is_zero_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its enclosure sqrt(x^2) = x would be proved for negative x as well."""
    (x,) = numbers("-731/307")
    difference = ((x * x).sqrt() - x).element
    monkeypatch.setattr(formal.Element, "ball", lambda self: flint.arb(0, 1))
    with pytest.raises(NotRational):
        formal.is_zero(difference)


def test_the_sign_within_a_logarithm_is_a_comparison() -> None:
    x, y = numbers("731/307", "311/503")
    before = len(formal.outcomes())
    assert ((x + y.exp()).log()).exp() == x + y.exp()
    assert len(formal.outcomes()) > before + 1


def test_zero_has_no_inverse() -> None:
    x, y = numbers("731/307", "311/503")
    nothing = (x.exp() + y.exp()).log() - x - (1 + (y - x).exp()).log()
    for number in (1, 0, x.sqrt()):
        with pytest.raises(ZeroDivisionError):
            number / nothing


def test_zero_times_infinity_is_no_number() -> None:
    (x,) = numbers("731/307")
    assert not (0 * x.exp() * Rational(np.inf)).finite
    assert (x.exp() * Rational(np.inf)).value == np.inf
    assert (-Rational(np.inf)).exp().value == 0


def test_the_sign_of_an_infinite_number_is_a_comparison() -> None:
    (x,) = numbers("-731/307")
    assert (x * Rational(np.inf)).value == -np.inf
    assert formal.outcomes() == (False,)
    assert (x / Rational(np.inf)).value == 0
    assert (x - x).constant
    assert len(formal.outcomes()) == 1


def test_matrices() -> None:
    x, y = numbers("731/307", "311/503")
    M = precise([[x, y], [y * y, 1 - x]])
    roots = stretch(M)
    assert (roots @ roots == transpose(M) @ M).all()
    size = roots[0, 0] * roots[1, 1] - roots[0, 1] * roots[1, 0]
    assert size == abs(x * (1 - x) - y**3)
    assert roots[0, 0] > 0
    assert operator_norm(M) == np.sqrt(lambda_max(transpose(M) @ M))
    symmetric = (M + M.T) / 2
    assert lambda_min(M) + lambda_max(M) == x + 1 - x
    determinant = symmetric[0, 0] * symmetric[1, 1] - symmetric[0, 1] ** 2
    assert lambda_min(M) * lambda_max(M) == determinant
    with_roots = np.sqrt(np.abs(M))
    assert (inverse(with_roots) @ with_roots == np.eye(2, dtype=int)).all()
    assert (with_roots @ solve(with_roots, M[0]) == M[0]).all()
    larger = np.eye(3, dtype=int) * x + precise([[0, y, 0], [y, 0, 1], [0, 1, 0]])
    assert lambda_max(larger) == lambda_max(larger.T)
    assert lambda_max(larger) != lambda_min(larger)
    assert (stretch(larger @ larger) == larger @ larger).all()
    assert logistic(precise([x]))[0] == 1 - logistic(precise([-x]))[0]


def test_no_sum_of_roots_becomes_a_float_or_a_key() -> None:
    (x,) = numbers(2)
    for use in (float, int):
        with pytest.raises(NotRational):
            use(x.sqrt())
    with pytest.raises(TypeError):
        hash(x.sqrt())
    assert abs(x.sqrt().nearest() - 2**0.5) < 1e-15


# Degrees.


def xs(count: int) -> range:
    """Points that are neither small nor squares."""
    return range(1_000_003, 1_000_003 + 7 * count, 7)


def traces(formula: Formula, points: int) -> tuple[list[list[Any]], list[tuple[int, int]]]:
    """All coefficients and powers of a formula of x at several points, and its degree bounds."""
    rows, bounds = [], []
    for x in xs(points):

        def leaf(constant: Fraction, x: int = x) -> Rational:
            return Rational(constant) if constant else Rational(x, 1)

        with rational_arithmetic():
            number = value(formula, leaf, OURS)
            element, row = number.element, []
            for m, c in element.terms.items():
                exponential = [p for i, p in m if formal.ring.atoms[i].kind == "e"]
                row += [c, *(formal.ring.powers[p] for p in exponential)]
            rows.append(row)
            bounds.append((element.top, element.bottom))
    return rows, bounds


def is_quotient(values: list[Any], top: int, bottom: int) -> bool:
    """Whether values at :func:`xs` are those of a quotient of polynomials of such degrees."""
    table = [
        [flint.fmpq(x) ** i for i in range(top + 1)]
        + [-c * flint.fmpq(x) ** j for j in range(bottom + 1)]
        for x, c in zip(xs(len(values)), values, strict=True)
    ]
    return bool(flint.fmpq_mat(table).rank() < top + bottom + 2)


def random_formula(rng: random.Random) -> Formula:
    """A formula of x, which is written as zero, with few roots and exponentials."""
    x = Fraction(0)
    e = ("exp", x)
    pool: list[Formula] = [
        x,
        Fraction(2),
        e,
        ("sqrt", x),
        ("/", e, x),
        ("/", e, ("+", x, Fraction(2))),
    ]
    for _ in range(rng.randint(2, 5)):
        name = rng.choice(["+", "+", "-", "*", "*", "/", "square", "inverse", "exp"])
        inside = [rng.choice(pool) for _ in range(1 if name in UNARY else 2)]
        pool.append((name, *inside))
    return pool[-1]


def wrong_degrees(count: int) -> int:
    """Of so many random formulas, those with a coefficient or a power beyond the bounds."""
    rng, wrong, seen = random.Random(5), 0, 0
    while seen < count:
        formula = random_formula(rng)
        try:
            rows, bounds = traces(formula, 1)
            if not 0 < sum(bounds[0]) < 40:
                continue
            rows, bounds = traces(formula, sum(bounds[0]) + 6)
        except (NotRational, ZeroDivisionError):
            continue
        assert len({len(row) for row in rows}) == 1
        seen += 1
        columns = zip(*rows, strict=True)
        wrong += not all(is_quotient(list(column), *bounds[0]) for column in columns)
    return wrong


def test_degrees_are_bounds() -> None:
    assert wrong_degrees(60) == 0


@pytest.mark.parametrize("name", ["__add__", "__mul__"])
def test_a_degree_that_is_too_small_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = getattr(formal.Element, name)

    def smaller(a: Any, b: Any) -> Any:
        made = true(a, b)
        made.top, made.bottom = max(a.top, b.top), max(a.bottom, b.bottom)
        return made

    monkeypatch.setattr(formal.Element, name, smaller)
    assert wrong_degrees(60) > 0


def test_all_numbers_that_are_made_count() -> None:
    x, y = numbers("731/307", "311/503")
    assert formal.compared() == 0
    three = (1 + x.exp() + y.exp()).element
    assert len(three.terms) == 3
    before = formal.ring.numbers
    three + three  # three coefficients, and two powers of e
    assert formal.ring.numbers - before == 5
    before = formal.ring.numbers
    square = three * three
    assert formal.ring.numbers - before >= 9 + len(square.terms)
    assert formal.compared() >= formal.ring.numbers**2 * 4 * square.top > 0


def test_products_that_are_looked_for_count() -> None:
    """All products of two numbers with powers up to 1024 are as many comparisons."""
    x, y = numbers("731/307", "311/503")
    x.log()
    y.log()
    before = formal.compared()
    assert (x * x * y).log() == 2 * x.log() + y.log()
    assert formal.compared() - before > 2048**2 * 1024**2
    assert formal_functions._powers(flint.fmpq(5), [flint.fmpq(6)]) is None
    assert formal_functions._powers(flint.fmpq(6) ** 1200, [flint.fmpq(6)]) is None
    with pytest.raises(NotRational, match="depend on one another"):
        formal_functions._powers(flint.fmpq(2), [flint.fmpq(4), flint.fmpq(8)])
