"""The language of theorems, and textbook rates whose worst cases are known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from experiments.benchmarks._textbook import RATES, problem
from linsys import InputError
from ratecheck import gram
from ratecheck._certify.check import Wrong
from ratecheck._certify.gram.verify import verify
from tests._slow import slow_but

KNOWN = {name: exact for name, (_, exact) in RATES.items()}


@pytest.mark.parametrize("name", KNOWN)
def test_the_worst_case_is_the_one_of_the_literature(name: str) -> None:
    exact = KNOWN[name]
    assert gram.worst_case(problem(name)).value == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize("name", slow_but(["gradient descent", "proximal point"], KNOWN))
def test_the_bound_of_the_literature_is_proved_and_no_smaller_one(name: str) -> None:
    exact = KNOWN[name]
    p = problem(name)
    assert p.conclusion is not None
    measured, bound = p.conclusion.measured, p.conclusion.bound
    p.show(measured <= exact * bound)
    proof = gram.prove(p)
    assert proof.excess == 0
    proof.check()
    p.show(measured <= exact * Fraction(99, 100) * bound)
    with pytest.raises(gram.Unproved, match="there are no multipliers"):
        gram.prove(p)
    with pytest.raises(Wrong):  # nor is the proof one of the smaller bound
        verify(p, proof.terms, proof.excess)


def test_where_the_bound_is_rounded_down_a_millionth_more_is_proved() -> None:
    """(3 + sqrt 5)/2 is the largest eigenvalue; the bound has its first seven decimals."""
    p = gram.Problem()
    x, y = p.vectors("x y")
    p.show((x + y).squared + x.squared <= "2.6180339" * (x.squared + y.squared))
    proof = gram.prove(p)
    assert proof.excess == Fraction(1, 10**6)
    proof.check()
    assert str(proof).startswith("1000001/1000000 bound - measured =")
    with pytest.raises(gram.Unproved):
        gram.prove(p, excess=Fraction(0))
    with pytest.raises(Wrong):
        verify(p, proof.terms, Fraction(0))
    with pytest.raises(Wrong, match="`excess` must not be negative"):
        verify(p, proof.terms, Fraction(-1))


@pytest.mark.parametrize("name", ["gradient descent", "Halpern", "heavy ball"])
def test_the_worst_instance_attains_the_bound(name: str) -> None:
    exact = KNOWN[name]
    p = problem(name)
    worst = gram.worst_case(p)
    assert p.conclusion is not None

    def value(form: gram.Form) -> float:
        vectors, values = worst.vectors, worst.values
        return sum(
            float(c) * (values[atom[0]] if len(atom) == 1 else vectors[atom[0]] @ vectors[atom[1]])
            for (_, atom), c in form.terms.items()
        )

    # the solver's accuracy, relative to a bound of one
    assert value(p.conclusion.bound) == pytest.approx(1, abs=1e-5)
    assert value(p.conclusion.measured) == pytest.approx(float(exact), abs=1e-5)
    for assumption in p.assumed:
        rows = [[value(form) for form in row] for row in assumption.matrix]
        assert np.linalg.eigvalsh(np.array(rows))[0] > -1e-5
    dimension = len(next(iter(worst.vectors.values())))
    assert dimension < len(p.spaces)


@pytest.mark.parametrize(("monotone", "step"), [(1, 1), (2, Fraction(1, 4)), (0, 3)])
def test_a_resolvent_contracts_by_one_and_the_step_times_the_monotonicity(
    monotone: int, step: Fraction
) -> None:
    p = gram.Problem()
    field = gram.Operator(p, "A", monotone=monotone)
    x, y = p.vectors("x y")
    moved = field.resolvent(x, step) - field.resolvent(y, step)
    p.show(moved.squared <= (x - y).squared)
    exact = 1 / (1 + step * monotone) ** 2
    assert gram.worst_case(p).value == pytest.approx(float(exact), rel=1e-5)


def test_a_parameter_stays_a_symbol() -> None:
    """One step of gradient descent for every L and mu, every step up to 2/(L + mu)."""
    p = gram.Problem()
    x, g = p.vectors("x g")
    mu, L, a = (p.parameter(name) for name in ("mu", "L", "a"))
    p.assume(mu * L * x.squared + g.squared <= (mu + L) * (x @ g), "smooth and strongly convex")
    p.assume(a * (mu + L) <= 2, "step")
    p.show((mu + L) * (x - a * g).squared <= (mu + L - 2 * a * mu * L) * x.squared)
    proof = gram.prove(p)
    proof.check()
    assert "2 a [smooth and strongly convex]" in str(proof)
    p.show((mu + L) * (x - a * g).squared <= (mu + L - 3 * a * mu * L) * x.squared)
    with pytest.raises(gram.Unproved):
        gram.prove(p)


def test_numbers_in_the_place_of_parameters_have_a_worst_instance() -> None:
    """One gradient step with a = 1/2, L = 1 and mu = 1/5: (1 - a mu)^2, attained."""
    p = gram.Problem()
    x, g = p.vectors("x g")
    mu, L, a = (p.parameter(name) for name in ("mu", "L", "a"))
    p.assume(mu * L * x.squared + g.squared <= (mu + L) * (x @ g), "smooth and strongly convex")
    p.show((x - a * g).squared <= x.squared)
    with pytest.raises(InputError, match="have numbers for its parameters"):
        gram.worst_case(p)
    worst = gram.worst_case(p.at(mu="0.2", L=1, a="0.5"))
    assert worst.value == pytest.approx(0.81, rel=1e-6)
    moved = worst.vectors["x"] - 0.5 * worst.vectors["g"]
    assert moved @ moved == pytest.approx(0.81, rel=1e-5)


def test_a_negative_multiplier_and_a_wrong_identity_are_no_proof() -> None:
    p = gram.Problem()
    x, y = p.vectors("x y")
    p.assume(x.squared <= y.squared, "longer")
    p.show(y.squared <= x.squared)  # false, and an identity with the multiplier -1
    with pytest.raises(Wrong, match="no negative eigenvalue"):
        verify(p, [{"of": ["longer", "1"], "multiplier": [["-1"]]}], Fraction(0))
    p.show(x.squared <= y.squared)
    verify(p, [{"of": ["longer", "1"], "multiplier": [["1"]]}], Fraction(0))
    with pytest.raises(Wrong, match="must be the sum"):
        verify(p, [{"of": ["longer", "1"], "multiplier": [["2"]]}], Fraction(0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda p, x, y: 0.5 * x.squared, "`number` must be an integer, a fraction"),
        (lambda p, x, y: p.vector("x"), "`name` must be a new one; found 'x' twice"),
        (lambda p, x, y: p.vector("a b"), "`name` must be an identifier"),
        (lambda p, x, y: x @ p.vector("z", "R^M"), "vectors must be of one space"),
        (
            lambda p, x, y: x.squared * y.squared,
            "factors must be numbers or parameters",
        ),
        (lambda p, x, y: x * y.squared, "a vector's factor must hold no vector"),
        (lambda p, x, y: x / 0, "`divisor` must not be zero"),
        (lambda p, x, y: x / (2 * p.parameter("L")), "give its inverse a name; found 2 L"),
        (lambda p, x, y: p.assume(x), "`statement` must compare two forms"),
        (lambda p, x, y: p.show(x.squared), "`statement` must be measured <= bound"),
        (lambda p, x, y: bool(x.squared <= 1), "must be assumed or shown"),
        (lambda p, x, y: p.cauchy_schwarz(x, y), "`vector` must have a norm"),
        (lambda p, x, y: p.bounded(x, -1), "`norm` must be a sum of products of parameters"),
        (lambda p, x, y: p.at(b=1), "`numbers` must be of parameters; found ['b']"),
        (lambda p, x, y: (p.parameter("a"), p.at(a=-1)), "`a` must not be negative; found -1"),
        (lambda p, x, y: p.multiply("no", "other"), "`name` must be of an assumption"),
        (lambda p, x, y: p.positive_semidefinite([[x @ y, 1]]), "must be square and symmetric"),
        (lambda p, x, y: x + 1, "`vector` must be a vector; found 1"),
        (lambda p, x, y: gram.Function(p, "f", strongly=None), "`smooth` must be given"),
        (lambda p, x, y: gram.prove(p), "`problem` must state what is shown"),
        (lambda p, x, y: gram.worst_case(p), "`problem` must state what is shown"),
    ],
)
def test_bad_input_is_one_line(wrong: Callable[..., object], message: str) -> None:
    p = gram.Problem()
    x, y = p.vectors("x y")
    with pytest.raises(InputError) as error:
        wrong(p, x, y)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_square_of_a_vector_is_its_squared_norm() -> None:
    x = gram.Problem().vector("x")
    with pytest.raises(InputError, match=r"a vector has a squared norm, \.squared; found \*\* 2"):
        x**2
