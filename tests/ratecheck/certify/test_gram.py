"""The language of theorems, and textbook rates whose worst cases are known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from linsys import InputError
from ratecheck import gram
from ratecheck._certify.gram.verify import Wrong, verify

Build = Callable[[gram.Problem], gram.Statement]


def gradient_descent(p: gram.Problem, steps: int = 3) -> gram.Statement:
    """f(x_N) - f* <= L/(4N + 2) |x_0 - x*|^2 (Drori and Teboulle 2014)."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(steps):
        x = x - f.gradient(x)
    return f(x) - f(least) <= (start - least).squared


def contraction(p: gram.Problem) -> gram.Statement:
    """|x_1 - x*|^2 <= max(1 - a mu, a L - 1)^2 |x_0 - x*|^2, for mu = 1/10, L = 1, a = 3/2."""
    f = gram.Function(p, "f", smooth=1, strongly="0.1")
    least, start = f.minimiser(), p.vector("start")
    step = start - Fraction(3, 2) * f.gradient(start)
    return (step - least).squared <= (start - least).squared


def gradient_norm(p: gram.Problem) -> gram.Statement:
    """|grad f(x_N)|^2 <= 2 L/(2 N + 1) (f(x_0) - f*) with a = 1/L, here N = 2."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(2):
        x = x - f.gradient(x)
    return f.gradient(x).squared <= f(start) - f(least)


def nesterov(p: gram.Problem) -> gram.Statement:
    """The fast gradient method with the momentum k/(k + 3), whose exact rate has no closed form."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = y = start
    for k in range(3):
        x, before = y - f.gradient(y), x
        y = x + Fraction(k, k + 3) * (x - before)
    return f(x) - f(least) <= (start - least).squared


def subgradient(p: gram.Problem) -> gram.Statement:
    """min_k f(x_k) - f* <= R M/sqrt(N + 1) with a = R/(M sqrt(N + 1)); N = 3, here R = M = 1."""
    f = gram.Function(p, "f")
    least, x = f.minimiser(), p.vector("start")
    p.assume((x - least).squared <= 1, "start")
    best = p.value("best")
    for k in range(4):
        p.assume(f.gradient(x).squared <= 1, f"subgradient {k}")
        p.assume(best <= f(x) - f(least), f"best {k}")
        x = x - f.gradient(x) / 2
    return best <= gram.Form.of(1)


def proximal_point(p: gram.Problem) -> gram.Statement:
    """f(x_N) - f* <= |x_0 - x*|^2/(4 a N) (Taylor, Hendrickx and Glineur 2017)."""
    f = gram.Function(p, "f")
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(3):
        x = f.implicit(x, 2)
    return f(x) - f(least) <= (start - least).squared


def halpern(p: gram.Problem) -> gram.Statement:
    """|x_N - T x_N|^2 <= (2/(N + 1))^2 |x_0 - x*|^2 (Lieder 2021)."""
    T = gram.Operator(p, "T", lipschitz=1)
    fixed, start = p.vector("fixed"), p.vector("start")
    T.points.append((fixed, fixed))
    x = start
    for k in range(2):
        x = start / (k + 2) + Fraction(k + 1, k + 2) * T(x)
    return (x - T(x)).squared <= (start - fixed).squared


def heavy_ball(p: gram.Problem) -> gram.Statement:
    """Two steps with momentum on a quadratic: (1 - h)^2 - h/9 on an eigenvalue h in [1/4, 1]."""
    H = gram.SymmetricMap(p, "H", least="0.25", largest=1)
    x = p.vector("start")
    first = x - H(x)
    second = first - H(first) + (first - x) / 9
    return second.squared <= x.squared


def nonconvex(p: gram.Problem) -> gram.Statement:
    """min_k |grad f(x_k)|^2 <= 4 L/(3 N + 2) (f(x_0) - inf f) with a = 1/L, without convexity."""
    f = gram.Function(p, "f", smooth=1, strongly=None)
    start = x = p.vector("start")
    least = p.value("least")
    for k in range(3):
        p.assume(least <= f.gradient(x).squared, f"gradient {k}")
        x = x - f.gradient(x)
    p.assume(least <= f.gradient(x).squared, "last gradient")
    p.assume(p.value("infimum") <= f(x) - f.gradient(x).squared / 2, "above the infimum")
    infimum = gram.Form({((), ("infimum",)): Fraction(1)})
    return least <= f(start) - infimum


def exact_line_search(p: gram.Problem) -> gram.Statement:
    """f(x_1) - f* <= ((L - mu)/(L + mu))^2 (f(x_0) - f*) (de Klerk, Glineur and Taylor 2017)."""
    f = gram.Function(p, "f", smooth=1, strongly="0.25")
    least, start, after = f.minimiser(), p.vector("start"), p.vector("after")
    p.equal(f.gradient(after) @ f.gradient(start), 0, "orthogonal gradients")
    p.equal(f.gradient(after) @ (after - start), 0, "the best point of the line")
    return f(after) - f(least) <= f(start) - f(least)


#: Methods with the exact worst case: derived in the docstring's source, or the largest over [mu, L]
#: of a polynomial that the method applies to an eigenvalue.
RATES: dict[str, tuple[Build, Fraction]] = {
    "gradient descent": (gradient_descent, Fraction(1, 14)),
    "contraction": (contraction, Fraction(289, 400)),
    "gradient norm": (gradient_norm, Fraction(2, 5)),
    "subgradient": (subgradient, Fraction(1, 2)),
    "proximal point": (proximal_point, Fraction(1, 24)),
    "Halpern": (halpern, Fraction(4, 9)),
    "heavy ball": (
        heavy_ball,
        max((1 - h) ** 2 - h / 9 for h in (Fraction(1, 4), Fraction(1))) ** 2,
    ),
    "nonconvex": (nonconvex, Fraction(4, 11)),
    "exact line search": (exact_line_search, Fraction(9, 25)),
}


def built(build: Build) -> gram.Problem:
    p = gram.Problem()
    p.show(build(p))
    return p


@pytest.mark.parametrize("name", RATES)
def test_the_worst_case_is_the_one_of_the_literature(name: str) -> None:
    build, exact = RATES[name]
    assert gram.worst_case(built(build)).value == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize("name", RATES)
def test_the_bound_of_the_literature_is_proved_and_no_smaller_one(name: str) -> None:
    build, exact = RATES[name]
    p = built(build)
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


def test_where_multipliers_are_not_rational_a_millionth_more_is_proved() -> None:
    p = built(nesterov)
    assert p.conclusion is not None
    constant = gram.worst_case(p).value
    bound = Fraction(constant).limit_denominator(10**9)
    p.show(p.conclusion.measured <= bound * (1 - Fraction(1, 10**7)) * p.conclusion.bound)
    proof = gram.prove(p)
    assert proof.excess == Fraction(1, 10**6)
    proof.check()


@pytest.mark.parametrize("name", ["gradient descent", "Halpern", "heavy ball"])
def test_the_worst_instance_attains_the_bound(name: str) -> None:
    build, exact = RATES[name]
    p = built(build)
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
        (lambda p, x, y: p.assume(x), "`statement` must compare two forms"),
        (lambda p, x, y: p.show(x.squared), "`statement` must be measured <= bound"),
        (lambda p, x, y: bool(x.squared <= 1), "must be assumed or shown"),
        (lambda p, x, y: p.cauchy_schwarz(x, y), "`vector` must have a norm"),
        (lambda p, x, y: p.bounded(x, -1), "`norm` must be a sum of products of parameters"),
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
