"""Balls hold the numbers that they stand for: random formulas against 200 digits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest

from linsys import linalg
from linsys.linalg import ball_arithmetic as arithmetic, ball_matrices, balls, precise, precision
from linsys.linalg.ball_arithmetic import ball_arithmetic
from linsys.linalg.balls import Ball, Undecided, every_case

#: mpmath's numbers with 200 digits, and with more, which says what rounding there is among these.
FINE, FINER = mpmath.MPContext(), mpmath.MPContext()
FINE.dps, FINER.dps = 200, 240

Formula = Callable[[Any], Any]


def functions(context: Any) -> dict[str, Callable[..., Any]]:
    """The functions of formulas, of balls (None) or of mpmath's numbers."""
    names = ("sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "atan")
    if context is None:
        called = {name: name.replace("atan", "arctan") for name in names}
        of: dict[str, Callable[..., Any]] = {
            name: (lambda x, method=method: getattr(x, method)()) for name, method in called.items()
        }
        return {**of, "max": np.maximum, "min": np.minimum}
    return {**{name: getattr(context, name) for name in names}, "max": max, "min": min}


def random_formula(rng: np.random.Generator, depth: int) -> Any:
    """A nested tuple: an operation and its operands, with numbers at the ends."""
    if depth == 0:
        return Fraction(int(rng.integers(-60, 61)), int(rng.choice([1, 2, 3, 7, 10])))
    kind = rng.choice(["two", "two", "one", "power", "same"])
    inner = random_formula(rng, depth - 1)
    if kind == "two":
        name = str(rng.choice(["+", "-", "*", "/", "max", "min"]))
        return (name, inner, random_formula(rng, int(rng.integers(0, depth))))
    if kind == "one":
        names = ["sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "atan", "abs"]
        return (str(rng.choice(names)), inner)
    if kind == "power":
        return ("power", inner, int(rng.integers(-3, 5)))
    return (str(rng.choice(["x - x", "x x", "x / (1 + x x)"])), inner)


def evaluated(formula: Any, number: Callable[[Fraction], Any], of: dict[str, Any]) -> Any:
    """The value of a formula in an arithmetic; roots and logarithms are of absolute values."""
    if isinstance(formula, Fraction):
        return number(formula)
    name, x = formula[0], evaluated(formula[1], number, of)
    if name in ("+", "-", "*", "/", "max", "min"):
        y = evaluated(formula[2], number, of)
        if name in of:
            return of[name](x, y)
        return {"+": x.__add__, "-": x.__sub__, "*": x.__mul__, "/": x.__truediv__}[name](y)
    if name == "power":
        return x ** formula[2]
    special = {"abs": abs, "x - x": lambda x: x - x, "x x": lambda x: x * x}
    special["x / (1 + x x)"] = lambda x: x / (1 + x * x)
    if name in special:
        return special[name](x)
    if name in ("exp", "expm1"):
        return of[name](-abs(x))
    if name in ("sqrt", "log", "log1p"):
        return of[name](abs(x))
    return of[name](x)


def misses(count: int, seed: int, bits: int) -> tuple[int, int]:
    """How many of so many random formulas have an enclosure, and how many of these are wrong."""
    rng = np.random.default_rng(seed)
    enclosed = wrong = 0
    for _ in range(count):
        formula = random_formula(rng, int(rng.integers(1, 6)))
        try:
            values = [
                evaluated(formula, lambda q, c=c: c.mpf(q.numerator) / q.denominator, functions(c))
                for c in (FINE, FINER)
            ]
        except (ZeroDivisionError, ValueError, OverflowError):
            continue
        if not all(
            isinstance(v, c.mpf) and c.isfinite(v)
            for v, c in zip(values, (FINE, FINER), strict=True)
        ):
            continue
        if values[1] != 0 and abs(FINER.mag(values[1])) > 10**4:  # too long as a fraction
            continue
        with ball_arithmetic(bits):
            try:
                ball = evaluated(formula, Ball, functions(None))
                low, high = ball.ends()
            except (Undecided, ZeroDivisionError):
                continue
        enclosed += 1
        fine, finer = (exact(v) for v in values)
        rounding = 2 * abs(fine - finer) + abs(finer) * Fraction(1, 10**235)
        wrong += not low - rounding <= finer <= high + rounding
    return enclosed, wrong


def exact(number: Any) -> Fraction:
    """A number of mpmath as a fraction."""
    sign, mantissa, exponent, _ = number._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent


@pytest.mark.parametrize("bits", [24, 64, 300])
def test_no_enclosure_misses_its_number(bits: int) -> None:
    enclosed, wrong = misses(400, 1, bits)
    assert enclosed > 200
    assert wrong == 0


@pytest.mark.slow
def test_no_enclosure_of_many_misses_its_number() -> None:
    for bits in (24, 64):
        enclosed, wrong = misses(50_000, 2, bits)
        assert enclosed > 25_000
        assert wrong == 0


def test_a_rounding_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = balls.made

    def without_radius(value: Any, nonnegative: bool = False) -> Ball:
        return made(value.mid() if isinstance(value, flint.arb) else value, nonnegative)

    monkeypatch.setattr(balls, "made", without_radius)
    assert misses(400, 1, 64)[1] > 50


def test_a_comparison_of_midpoints_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A maximum that takes the ball with the larger midpoint misses the other's number."""

    def of_midpoints(a: Ball, b: Ball, *_: Any) -> Ball:
        return a if balls.as_arb(a.value).mid() >= balls.as_arb(b.value).mid() else b

    def tie(difference: int) -> bool:
        """Whether the maximum of x +- 1 and x + difference may be x + 1."""
        with ball_arithmetic(64):
            wide, other = Ball(flint.arb(5, 1)), Ball(flint.arb(5, 1) + difference)
            return np.maximum(wide, other).ends()[1] >= 6 + max(difference, 0)

    assert tie(1)
    assert tie(-1)
    with ball_arithmetic(64):
        assert np.maximum(Ball(flint.arb(5, 3)), Ball(flint.arb(6, 1))).ends()[1] >= 8
        monkeypatch.setattr(balls, "_extreme", of_midpoints)
        assert np.maximum(Ball(flint.arb(5, 3)), Ball(flint.arb(6, 1))).ends()[1] < 8


MATRICES: dict[str, Callable[[Any], Any]] = {
    "norm": linalg.operator_norm,
    "least eigenvalue": linalg.lambda_min,
    "largest eigenvalue": linalg.lambda_max,
    "stretch": linalg.stretch,
    "inverse": linalg.inverse,
    "solution": lambda M: linalg.solve(M, M[..., 0] + M[..., 1]),
    "logistic": linalg.logistic,
    "chain": lambda M: linalg.stationary(
        (np.abs(M) + 1) / (np.abs(M) + 1).sum(axis=-1, keepdims=True)
    ),
    "largest entry": lambda M: M.max(axis=(-2, -1)) + np.maximum(M, 0).min(axis=-1).max(axis=-1),
}


def stacks(d: int) -> list[Any]:
    """Matrices with equal eigenvalues, singular ones, small and large entries, of size d."""
    rng = np.random.default_rng(d)
    draws = rng.integers(-9, 10, size=(4, d, d)) / 4.0
    one = rng.integers(-3, 4, size=d).astype(float)
    return [*draws, np.eye(d), np.outer(one, one), np.diag(np.arange(d) // 2 + 1.0), draws[0] * 1e3]


@pytest.mark.parametrize("rational", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_hold_what_high_precision_gives(name: str, rational: bool) -> None:
    def value(matrix: Any) -> Any:
        M = precise(matrix[None])
        return MATRICES[name](M if rational else M * np.sqrt(M * 0 + 2) + np.exp(M * 0 - 1))

    compared = 0
    for d in range(2, 6):
        for matrix in stacks(d):
            with precision(120):
                true = [exact(x) if x == x else None for x in np.ravel(value(matrix))]
            with ball_arithmetic(100):
                try:
                    entries = [
                        x if isinstance(x, Ball) else Ball(x) for x in np.ravel(value(matrix))
                    ]
                except Undecided:  # an inverse that may not be there
                    assert name in ("inverse", "solution")
                    continue
                for ball, number in zip(entries, true, strict=True):
                    if ball.value is None or number is None:
                        assert rational, "only exact balls know that there is no inverse"
                        assert ball.value is None
                        continue
                    low, high = ball.ends()
                    slack = abs(number) * Fraction(1, 10**100) + Fraction(1, 10**100)
                    assert low - slack <= number <= high + slack
                    assert high - low <= (1 + abs(number)) / 10**9
                    compared += 1
    assert compared >= 32


def test_a_matrix_function_without_its_error_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues of the midpoints alone are not those of the matrix."""
    matrix = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 1.0]])

    values = ball_matrices._values

    def of_midpoints(rows: Any) -> Any:
        return values([[balls.made(balls.as_arb(x.value).mid()) for x in row] for row in rows])

    def contained() -> bool:
        with ball_arithmetic(64):
            low, high = linalg.lambda_max(precise(matrix) + Ball(flint.arb(0, 0.1)))[()].ends()
        with precision(60):
            number = exact(linalg.lambda_max(precise(matrix + 0.05))[()])
        return bool(low <= number <= high)

    assert contained()
    monkeypatch.setattr(ball_matrices, "_values", of_midpoints)
    assert not contained()


def test_open_comparisons_raise_or_are_taken_both_ways() -> None:
    with ball_arithmetic(64):
        x, y = Ball(2).sqrt(), Ball(2).sqrt()
        for compare in (x.__lt__, x.__le__, x.__gt__, x.__ge__, x.__eq__, x.__ne__):
            with pytest.raises(Undecided, match="leave it open"):
                compare(y)
        assert sorted(every_case(lambda: bool(x < y))) == [False, True]
        assert len(every_case(lambda: sorted([x, y, Ball(2).sqrt()]))) > 2
        with pytest.raises(Undecided, match="over 4 outcomes"):
            every_case(lambda: [bool(x < y) for _ in range(3)], most=4)
        assert every_case(lambda: bool(x < 2)) == [True]


def test_what_is_known_is_decided() -> None:
    with ball_arithmetic(64):
        x = Ball(2).sqrt() - Ball(2).sqrt()
        assert x - x == 0
        assert x * x >= 0
        assert not x * x + abs(x) < 0
        assert ((x * x).sqrt()).ends()[1] < Fraction(1, 10**15)
        assert Ball(Fraction(9, 4)).sqrt() == Fraction(3, 2)
        assert Ball(0.1) + Ball(0.2) == Ball(0.3)
        assert Ball(0).exp() == 1
        assert Ball(1).log() == 0


def test_a_float_is_its_decimal_and_a_long_one_a_rounded_constant() -> None:
    with ball_arithmetic(128):
        assert (Ball(1) * 0.1).ends() == (Fraction(1, 10), Fraction(1, 10))
        assert arithmetic.rounded_constants() == []
        low, high = (Ball(1) * np.sqrt(2.0)).ends()
        assert low**2 < 2 < high**2
        assert high - low < Fraction(3, 10**12)
        assert arithmetic.rounded_constants() == [np.sqrt(2.0)]
    with ball_arithmetic(128):
        assert arithmetic.rounded_constants() == []


def test_no_ball_becomes_a_float_and_no_fraction_a_whole_number() -> None:
    with ball_arithmetic(64):
        root = Ball(2).sqrt()
        for leave in (float, math.sin, np.float64, range, complex):
            with pytest.raises(TypeError):
                leave(root)
        assert int(root) == 1
        assert round(root * 10) == 14
        assert float(Ball(0.5)) == 0.5
        with linalg.no_floats("not here"), pytest.raises(TypeError, match="not here"):
            float(Ball(0.5))
        with pytest.raises(Undecided, match="may be"):
            round(Ball(flint.arb(0.5, 0.1)))


def test_nan_is_no_number_and_what_may_be_anything_is_not_compared() -> None:
    with ball_arithmetic(64):
        nan = Ball(np.nan)
        assert [nan == 1, nan != 1] == [False, True]
        with pytest.raises(Undecided, match="an order of what has no value"):
            assert nan < 1
        assert [of(nan, 1).value for of in (np.maximum, np.minimum)] == [None, None]
        assert [of(1, nan).value for of in (np.maximum, np.minimum)] == [None, None]
        with pytest.raises(Undecided, match="any value"):
            assert Ball(-1).sqrt() < 1
        with pytest.raises(ZeroDivisionError):
            Ball(1) / 0
        assert Ball(0).log() < -(10**9)
        with pytest.raises(Undecided, match="no finite enclosure"):
            np.minimum(Ball(0).log().sin(), 5).ends()


def test_everything_is_as_before_outside_of_the_arithmetic() -> None:
    def inside() -> None:
        with ball_arithmetic(99):
            assert isinstance(precise([0.5])[0], Ball)
            assert linalg.logistic(np.array([0.0])).tolist() == [0.5]
            assert np.maximum(np.array([1.0]), 2).tolist() == [2.0]
            assert np.array([1.0, 3.0]).max() == 3.0
            Ball(flint.arb("nan")).ends()

    before = np.maximum, linalg._precise.logistic, flint.ctx.prec
    with pytest.raises(Undecided):
        inside()
    assert (np.maximum, linalg._precise.logistic, flint.ctx.prec) == before
    assert not isinstance(precise([0.5])[0], Ball)


def test_a_second_thread_waits_for_the_first_one() -> None:
    entered = threading.Event()

    def enter() -> None:
        with ball_arithmetic(99):
            entered.set()

    other = threading.Thread(target=enter)
    with ball_arithmetic(64):
        other.start()
        with ball_arithmetic(80):  # the same thread may go on
            assert not entered.wait(0.05)
    other.join()
    assert entered.is_set()
    assert not isinstance(precise([0.5])[0], Ball)


@pytest.mark.parametrize("x", [-1e3, -2.0, 0.0, 0.5, 1e3])
def test_the_logistic_function_in_every_arithmetic(x: float) -> None:
    with precision(40):
        exactly = linalg.logistic(precise([x]))[0]
        assert abs(float(exactly) - linalg.logistic(np.array([x]))[0]) <= 1e-16
    with ball_arithmetic(100):
        low, high = linalg.logistic(precise([x]))[0].ends()
    assert float(low) - 1e-16 <= float(exactly) <= float(high) + 1e-16


def test_an_eigenvalue_of_an_exact_matrix_has_a_radius() -> None:
    matrix = np.array([[2.0, 1.0, 0.25], [1.0, 3.0, -1.0], [0.25, -1.0, 1.0]])
    with precision(200):
        true = exact(linalg.lambda_max(precise(matrix))[()])
    with ball_arithmetic(100):
        value = linalg.lambda_max(precise(matrix))[()].value
        middle, radius = (balls.as_fraction(part) for part in (value.mid(), value.rad()))
    assert 0 < abs(true - middle) <= radius


def test_ends_that_no_fraction_can_hold_are_not_written() -> None:
    with ball_arithmetic(64), pytest.raises(Undecided, match="too large or too small"):
        (Ball(10) ** 12).exp().ends()
