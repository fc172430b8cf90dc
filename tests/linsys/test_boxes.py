"""Forms over boxes hold what they stand for: random formulas against 200 digits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from linsys.linalg import boxes, boxes_forms, boxes_rounding as rounding
from linsys.linalg.boxes import Form, constant, coordinates, larger, smaller
from linsys.linalg.boxes_arithmetic import NotOverBoxes, box_arithmetic, inverses
from linsys.linalg.boxes_paths import Paths, every_path
from tests._slow import slow_but

#: mpmath's numbers with 200 digits.
FINE = mpmath.MPContext()
FINE.dps = 200

#: Boxes of one evaluation, and points in each of them.
BOXES, POINTS = 50, 3
Formula = Any


def random_formula(rng: np.random.Generator, depth: int, k: int) -> Formula:
    """A nested tuple: an operation and its operands, with coordinates and constants at the ends."""
    if depth == 0:
        if rng.random() < 0.8:
            return int(rng.integers(k))
        return Fraction(int(rng.integers(-9, 10)), int(rng.choice([1, 2, 3, 10])))
    inner = random_formula(rng, depth - 1, k)
    name = str(rng.choice([*BINARY, *UNARY]))
    if name in UNARY:
        return (name, inner)
    return (name, inner, random_formula(rng, int(rng.integers(0, depth)), k))


BINARY = ("+", "-", "*", "/", "max", "min", "exp gap", "root gap", "inverse gap", "log gap")
BINARY += ("square gap", "common", "sizes")
UNARY = ("sqrt", "exp", "log", "abs", "square", "cube", "inverse", "tenth", "neg", "double")


def of_boxes(name: str, *x: Any) -> Any:
    """An operation on forms."""
    two: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "max": larger,
        "min": smaller,
        "exp gap": lambda a, b: a.exp() - b.exp(),
        "root gap": lambda a, b: a.sqrt() - b.sqrt(),
        "inverse gap": lambda a, b: 1 / (1 + a) - 1 / (1 + b),
        "log gap": lambda a, b: b.log() - a.log(),
        "square gap": lambda a, b: a * a - b * b,
        "common": lambda a, b: a * b - (a * b + b) / 2,
        "sizes": lambda a, b: abs(a) * b - (a * b) * (a * b),
    }
    one: dict[str, Callable[[Any], Any]] = {
        "sqrt": lambda a: a.sqrt(),
        "exp": lambda a: a.exp(),
        "log": lambda a: a.log(),
        "abs": abs,
        "square": lambda a: a**2,
        "cube": lambda a: a**3,
        "inverse": lambda a: 1 / a,
        "tenth": lambda a: a * 0.1 + 0.3,
        "neg": lambda a: 1 - a,
        "double": lambda a: a * 2,
    }
    return two[name](*x) if name in two else one[name](*x)


def exactly(name: str, *x: Any) -> Any:
    """The same operation with 200 digits."""
    two: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "max": max,
        "min": min,
        "exp gap": lambda a, b: exactly("exp", a) - exactly("exp", b),
        "root gap": lambda a, b: exactly("sqrt", a) - exactly("sqrt", b),
        "inverse gap": lambda a, b: 1 / (1 + a) - 1 / (1 + b),
        "log gap": lambda a, b: exactly("log", b) - exactly("log", a),
        "square gap": lambda a, b: a * a - b * b,
        "common": lambda a, b: a * b - (a * b + b) / 2,
        "sizes": lambda a, b: abs(a) * b - (a * b) * (a * b),
    }
    one: dict[str, Callable[[Any], Any]] = {
        "sqrt": lambda a: FINE.sqrt(real(a, a >= 0)),
        "exp": lambda a: FINE.exp(real(a, a < 2000)),
        "log": lambda a: FINE.log(real(a, a > 0)),
        "abs": abs,
        "square": lambda a: a * a,
        "cube": lambda a: a * a * a,
        "inverse": lambda a: 1 / a,
        "tenth": lambda a: a / 10 + FINE.mpf(3) / 10,
        "neg": lambda a: 1 - a,
        "double": lambda a: 2 * a,
    }
    return two[name](*x) if name in two else one[name](*x)


def real(x: Any, defined: bool) -> Any:
    """The number itself, where a function of it is a real number of a size to compute with."""
    if not defined:
        raise ValueError
    return x


def evaluated(
    formula: Formula, leaf: Callable[[Any], Any], apply: Callable[..., Any], note: Any
) -> Any:
    """The value of a formula in an arithmetic; every value on the way is noted."""
    if not isinstance(formula, tuple):
        return leaf(formula)
    value = apply(formula[0], *(evaluated(part, leaf, apply, note) for part in formula[1:]))
    note.append(value)
    return value


def random_boxes(rng: np.random.Generator, k: int) -> tuple[Any, Any]:
    """Boxes from wide ones to points, many with ends at 0, 1/2 or 1."""
    low = rng.uniform(-2, 2, size=(k, BOXES))
    snapped = rng.random((k, BOXES)) < 0.3
    low = np.where(snapped, np.round(2 * low) / 2, low)
    width = 10.0 ** rng.uniform(-9, 0, size=(k, BOXES)) * (rng.random((k, BOXES)) < 0.9)
    return low, low + width


def at_points(
    rng: np.random.Generator, formula: Formula, low: Any, high: Any
) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Points of boxes, corners among them: the box, the point, and every value on the way there."""
    k = len(low)
    for box in range(BOXES):
        for point in range(POINTS):
            t = rng.uniform(0, 1, size=k) if point else rng.integers(0, 2, size=k) * 1.0
            at = [FINE.mpf(a) + FINE.mpf(s) * (FINE.mpf(b) - FINE.mpf(a))
                  for a, b, s in zip(low[:, box], high[:, box], t, strict=True)]  # fmt: skip
            values: list[Any] = []
            try:
                evaluated(formula, lambda n, at=at: number_of(n, at), exactly, values)
            except (ZeroDivisionError, ValueError, OverflowError):
                continue
            if all(isinstance(v, FINE.mpf) and FINE.isfinite(v) for v in values):
                yield box, at, values


#: A formula, the lower and upper ends of its boxes, and the values at points of them.
Case = tuple[Formula, Any, Any, list[tuple[int, list[Any], list[Any]]]]


def drawn(count: int, seed: int) -> Iterator[Case]:
    """So many boxes with formulas, and the values with 200 digits at points of the boxes."""
    rng = np.random.default_rng(seed)
    for _ in range(count // BOXES):
        k = int(rng.integers(1, 4))
        formula = random_formula(rng, int(rng.integers(1, 5)), k)
        low, high = random_boxes(rng, k)
        yield formula, low, high, list(at_points(rng, formula, low, high))


def compared(cases: Iterable[Case]) -> Iterator[tuple[bool, bool]]:
    """Of every enclosure: whether it is bounded, and whether it is wrong.

    Every number on the way is compared: it has to be between the ends, and as near to the
    first-order form as that says.
    """
    for formula, low, high, points in cases:
        forms: list[Any] = []

        def over_boxes(rows: Any, low: Any = low, high: Any = high) -> bool:
            x = coordinates(low, high)
            evaluated(formula, lambda n: leaf_of(n, x), of_boxes, forms)  # noqa: B023
            return True

        with np.errstate(all="ignore"), box_arithmetic():
            assert list(every_path(over_boxes, BOXES, 1, Paths(BOXES)))
        for box, at, values in points:
            for value, form in zip(values, forms, strict=True):
                bounded = bool(np.isfinite(entry(form.hi - form.lo, box)))
                yield bounded, not holds(form, box, value, at, low[:, box], high[:, box])


def misses(cases: Iterable[Case]) -> tuple[int, int]:
    """How many enclosures are bounded, and how many are wrong."""
    bounded = wrong = 0
    for is_bounded, is_wrong in compared(cases):
        bounded += is_bounded
        wrong += is_wrong
    return bounded, wrong


def leaf_of(n: Any, x: Any) -> Any:
    return x[n] if isinstance(n, int) else constant(n)


def number_of(n: Any, at: Any) -> Any:
    return at[n] if isinstance(n, int) else FINE.mpf(n.numerator) / n.denominator


def entry(values: Any, box: int) -> Any:
    return float(np.broadcast_to(values, BOXES)[box])


def holds(form: Form, box: int, value: Any, at: Any, low: Any, high: Any) -> bool:
    """Whether a value at a point is in the interval, and where the first-order form has it."""
    rounding_of_value = abs(value) * FINE.mpf(10) ** -180
    if (
        not entry(form.lo, box) - rounding_of_value
        <= value
        <= entry(form.hi, box) + rounding_of_value
    ):
        return False
    e = entry(form.e, box)
    if not np.isfinite(e):
        return True
    linear = FINE.mpf(entry(form.c, box))
    if form.of:
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            middle = a + (b - a) / 2
            reach = float(np.nextafter(max(b - middle, middle - a), np.inf)) if b > a else 1.0
            t = (at[i] - FINE.mpf(middle)) / FINE.mpf(reach)
            linear += FINE.mpf(float(form.a[i, box])) * t
    return bool(abs(value - linear) <= FINE.mpf(e) + rounding_of_value)


def test_no_enclosure_misses() -> None:
    bounded, wrong = misses(drawn(1_500, 0))
    assert bounded > 5_000
    assert wrong == 0


@pytest.mark.slow
def test_no_enclosure_misses_in_a_hundred_thousand_boxes() -> None:
    bounded, wrong = misses(drawn(100_000, 1))
    assert bounded > 300_000
    assert wrong == 0


def same(x: Any) -> Any:
    return x


#: What a mistake in a rounding direction is: a name of the module and what comes there.
MUTATIONS = {
    "sums, products and quotients are not rounded down": ("down", same),
    "sums, products and quotients are not rounded up": ("up", same),
    "down and up are exchanged": ("down", lambda x: np.nextafter(x, np.inf)),
    "up and down are exchanged": ("up", lambda x: np.nextafter(x, -np.inf)),
    "no roundings of forms": ("UNIT", 0.0),
    "sums of errors are not rounded up": ("GROW", 1.0 - 2.0**-46),
    "no allowance of exponentials": ("EXP_ALLOWANCE", 0.0),
    "a negative allowance": ("EXP_ALLOWANCE", -(2.0**-49)),
    "roots are not rounded": ("sqrt_ends", lambda x: (np.sqrt(x), np.sqrt(x))),
    "logarithms are not rounded": ("log_ends", lambda x: (np.log(x), np.log(x))),
    "exponentials are not rounded": ("exp_ends", lambda x: (np.exp(x), np.exp(x))),
}


#: Mistakes that few boxes show, or ones like another; they are looked for with the slow tests.
RARE = {"roots are not rounded", "logarithms are not rounded", "exponentials are not rounded"}
FEW = [name for name in MUTATIONS if name not in RARE]


@pytest.fixture(scope="module")
def cases() -> Callable[[int], list[Case]]:
    """Boxes of a seed: what is exact about them is the same for every mistake."""
    return functools.cache(lambda seed: list(drawn(1_000, seed)))


@pytest.mark.parametrize("name", slow_but(FEW, MUTATIONS))
def test_a_wrong_rounding_direction_is_noticed(
    name: str, cases: Callable[[int], list[Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute, instead = MUTATIONS[name]
    monkeypatch.setattr(rounding, attribute, instead)
    boxes_forms._bounds_of.cache_clear()
    try:
        assert any(wrong for seed in range(6) for _, wrong in compared(cases(seed)))
    finally:
        boxes_forms._bounds_of.cache_clear()


def one_box(*ranges: tuple[float, float]) -> list[Form]:
    low, high = (np.array([[r[side]] for r in ranges]) for side in (0, 1))
    return coordinates(low, high)


def as_numpy(name: str, *x: Any) -> Any:
    """An operation with 200 digits, as NumPy has it: NaN of NaN and of roots of negative numbers.

    One over zero is infinite, of the sign of its numerator.
    """
    if any(FINE.isnan(one) for one in x):
        return FINE.nan
    most = 2000 if name.startswith("exp") else 1e9
    if any(most <= abs(one) < FINE.inf for one in x):
        raise OverflowError
    if name == "log" and x[0] == 0:
        return -FINE.inf
    if name == "exp" and x[0] == FINE.inf:
        return FINE.inf
    try:
        return FINE.mpf(exactly(name, *x))
    except ValueError:
        return FINE.nan
    except ZeroDivisionError:
        if name not in ("/", "inverse"):
            raise OverflowError from None
        above = x[0] if name == "/" else 1
        return FINE.sign(above) * FINE.inf if above else FINE.nan


#: Relations by the signs of a difference for which they hold; None is that of NaN.
RELATIONS: dict[str, tuple[int | None, ...]] = {
    "__lt__": (-1,), "__le__": (-1, 0), "__eq__": (0,), "__ne__": (-1, 1, None),
    "__ge__": (0, 1), "__gt__": (1,),
}  # fmt: skip


def sign_of(a: Any, b: Any) -> int | None:
    """The sign of a - b; OverflowError where rounding may have it."""
    if FINE.isnan(a) or FINE.isnan(b):
        return None
    if abs(a - b) < 1e-150:
        raise OverflowError
    return int(a > b) - int(a < b)


def comparisons_of(formula: Formula, low: Any, high: Any, at: Any) -> tuple[int, int, int]:
    """How often a comparison of a number was decided wrongly, was decided, and had no value.

    Every number on the way is compared with 0, with 1, and with the one before it, at a point of
    each box. NumPy's answer of NaN is no, but for "!=".
    """
    wrong = decided = without = 0

    def over_boxes(rows: Any) -> bool:
        nonlocal wrong, decided, without
        forms: list[Any] = []
        x = coordinates(low, high)
        evaluated(formula, lambda n: leaf_of(n, x), of_boxes, forms)
        pairs = [(a, b) for j, a in enumerate(forms) for b in (0, 1, *forms[max(j - 1, 0) : j])]
        answers = [(a, b, of, getattr(a, of)(b)) for a, b in pairs for of in RELATIONS]
        for box in range(BOXES):
            values: list[Any] = []
            try:
                point = at(box)
                evaluated(formula, lambda n, point=point: number_of(n, point), as_numpy, values)
            except OverflowError:
                continue
            value = dict(zip(map(id, forms), values, strict=True))
            for a, b, relation, answer in answers:
                yes, no = (entry(one, box) for one in (answer.yes, answer.no))
                try:
                    sign = sign_of(value[id(a)], value.get(id(b), b))
                except OverflowError:
                    continue
                decided += bool(yes or no)
                without += sign is None
                wrong += bool(no if sign in RELATIONS[relation] else yes)
        return True

    with np.errstate(all="ignore"), box_arithmetic():
        assert list(every_path(over_boxes, BOXES, 1, Paths(BOXES)))
    return wrong, decided, without


def compared_at_random(count: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """The same of each of so many random formulas, at corners and at other points."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = int(rng.integers(1, 4))
        formula = random_formula(rng, int(rng.integers(2, 6)), k)
        low, high = random_boxes(rng, k)
        t = np.where(rng.random((k, BOXES)) < 0.3, np.round(rng.random((k, BOXES))), 0.5)

        def at(box: int, t: Any = t, low: Any = low, high: Any = high) -> list[Any]:
            ends = zip(low[:, box], high[:, box], t[:, box], strict=True)
            return [FINE.mpf(a) + FINE.mpf(s) * (FINE.mpf(b) - FINE.mpf(a)) for a, b, s in ends]

        yield comparisons_of(formula, low, high, at)


@pytest.mark.parametrize("count", slow_but([10], [10, 1_000]))
def test_comparisons_come_out_as_numpys(count: int) -> None:
    wrong, decided, without = map(sum, zip(*compared_at_random(count, count), strict=True))
    assert decided > 400 * count
    assert without > 50 * count
    assert wrong == 0


@pytest.mark.parametrize("name", ["_as_far_as", "_except"])
def test_a_number_that_is_taken_to_have_a_value_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, name, lambda *given: given[name == "_as_far_as"])  # mutation
    assert any(wrong for wrong, *_ in compared_at_random(10, 10))


def test_nothing_is_surely_true_of_what_may_have_no_value() -> None:
    """Though the interval of the values that there are says it."""
    (x,) = one_box((-1.0, 1.0))
    with np.errstate(all="ignore"):
        root = (x + 0.25).sqrt()
        for number in (
            abs(root), larger(root, 0), smaller(larger(1, -root), 1), 0 * root, root**0,
            (root + 1) - root, root / root, root * root, abs(x.log()), x / x, abs(1 / x),
            larger(constant(np.inf), x) * x, 0 * constant(np.inf), x * np.inf, x + np.nan,
        ):  # fmt: skip
            assert not (number >= -1).yes.any(), number
            assert not (number >= -1).no.any(), number
            assert not (number != -2).no.any(), number
            assert not (number == -2).yes.any(), number
        assert (abs(root) == -2).no.all()
        for number in (abs(x), (x + 1).sqrt(), (x + 2).log(), 1 / (x + 2), x**2, (x + 1) ** 0.3):
            assert (number >= -1).yes.all(), number
            assert (number < np.inf).yes.all(), number
            assert (number < constant(np.inf)).yes.all(), number


def test_errors_are_of_second_order() -> None:
    widths = []
    for h in (0.1, 0.01):
        (x,) = one_box((1 - h, 1 + h))
        f = x * x / (1 + x) - (x.exp() + x.log()) * x.sqrt()
        widths.append(float(f.e[0]))
    assert widths[1] < widths[0] / 80


def test_what_is_used_twice_is_known_to_be_one_number() -> None:
    (x,) = one_box((-1.0, 2.0))
    assert (x - x).lo == (x - x).hi == 0
    assert (x * x).lo == 0
    assert ((x + 1) - x).hi - ((x + 1) - x).lo < 1e-14


def test_nothing_is_known_where_a_formula_is_not_defined() -> None:
    (x,) = one_box((-1.0, 2.0))
    with np.errstate(all="ignore"):
        for y in (x.sqrt(), x.log(), 1 / x):
            assert y.lo[0] == -np.inf
            assert y.hi[0] == np.inf
    with pytest.raises(ZeroDivisionError):
        x / 0
    with pytest.raises(TypeError, match="becomes a float"):
        float(x)
    with pytest.raises(TypeError, match="no key"):
        hash(x)


#: Formulas that are 2 within 10^-9 of 0.3 alone, where m has no value, as NumPy computes them.
RARE_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "equal outcomes": lambda x, m: 2 if (abs(x - 0.3) < 1e-9) == (x < 2) else 0.5,
    "different outcomes": lambda x, m: 0.5 if (abs(x - 0.3) < 1e-9) ^ (x < 2) else 2,
    "an outcome and a truth": lambda x, m: 2 if (abs(x - 0.3) < 1e-9) == True else 0.5,  # noqa: E712
    "an outcome among others": lambda x, m: 2 if (abs(x - 0.3) < 1e-9) in (True, 1) else 0.5,
    "not an outcome": lambda x, m: 0.5 if ~(abs(x - 0.3) < 1e-9) else 2,
    "argmin": lambda x, m: 1 + np.argmin(np.array([-1 + 0 * x, m])),
    "argmax": lambda x, m: 1 + np.argmax(np.array([1 + 0 * x, m])),
    "argsort": lambda x, m: 1 + np.argsort(np.array([m, 0.3 + 0 * x]))[0],
    "sort": lambda x, m: np.sort(np.array([m, 2 + 0 * x]))[0],
    "clip": lambda x, m: 0.5 if np.clip(np.array([m]), 0.6, 1)[0] <= 1 else 2,
    "maximum of NaN": lambda x, m: 0.5 if np.maximum(0.25, np.nan) <= 1 else 2,
    "maximum with NaN": lambda x, m: 0.5 if np.maximum(np.array([x]), np.nan)[0] <= 2 else 2,
}


@pytest.mark.parametrize("name", RARE_VALUES)
def test_what_numpy_computes_is_on_a_path(name: str) -> None:
    x = np.float64(0.3)
    with np.errstate(all="ignore"):
        m = np.minimum(np.sqrt((x - 0.3) ** 2 - 1e-18), 0.25)
        assert RARE_VALUES[name](x, m) == 2

    def formula(rows: Any) -> Any:
        (x,) = one_box((0.0, 1.0))
        m = smaller(((x - 0.3) ** 2 - constant(Fraction(1, 10**18))).sqrt(), 0.25)
        value = RARE_VALUES[name](x, m)
        return float(value.hi[0]) if isinstance(value, Form) else float(value)

    with box_arithmetic(), np.errstate(all="ignore"):
        values = [value for _, _, value in every_path(formula, 1, 32, Paths(1))]
    assert 2 in values


def test_outcomes_are_numpys() -> None:
    with box_arithmetic():
        outcome = one_box((0.0, 1.0))[0] > 0.5
        for wrong in (lambda: outcome == 2, lambda: outcome == "x", lambda: {outcome}):
            with pytest.raises(TypeError, match="the outcome of a comparison in boxes"):
                wrong()
        with pytest.raises(TypeError, match="nan_to_num"):
            np.nan_to_num(np.array(one_box((0.0, 1.0))))


def test_an_open_comparison_is_taken_both_ways() -> None:
    low, high = np.array([[0.0, 2.0, -3.0]]), np.array([[1.5, 3.0, -2.0]])

    def formula(rows: Any) -> Any:
        (x,) = coordinates(low[:, rows], high[:, rows])
        return 1 if x > 1 else 2

    paths = Paths(3)
    kept: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
    for rows, active, value in every_path(formula, 3, 10, paths):
        for row in rows[active]:
            kept[int(row)].add(value)
    assert kept == {0: {1, 2}, 1: {1}, 2: {2}}
    assert not paths.open.any()


def test_paths_that_are_too_many_are_left_open() -> None:
    def formula(rows: Any) -> Any:
        x = coordinates(np.zeros((1, len(rows))), np.ones((1, len(rows))))[0]
        return sum(bool(x > c) for c in (0.2, 0.4, 0.6, 0.8))

    paths = Paths(2)
    assert len(list(every_path(formula, 2, 3, paths))) == 3
    assert paths.open.all()


def test_whole_numbers_are_told_apart_and_others_left_open() -> None:
    low, high = np.array([[1.0, 2.0, 2.0, 1.0]]), np.array([[1.0, 2.0, 2.0, 3.0]])

    def formula(rows: Any) -> Any:
        return int(coordinates(low[:, rows], high[:, rows])[0])

    paths = Paths(4)
    values = {
        int(r): v for rows, active, v in every_path(formula, 4, 10, paths) for r in rows[active]
    }
    assert values == {0: 1, 1: 2, 2: 2}
    assert paths.open.tolist() == [False, False, False, True]


def test_degrees_say_how_a_formula_scales() -> None:
    from linsys.linalg.boxes_paths import State

    with box_arithmetic():
        x, y = one_box((1.0, 2.0), (1.0, 2.0))
        assert (x * x / y).degree == (2.0, -1.0)
        assert (x * y).sqrt().degree == (0.5, 0.5)
        assert not State.alike
        _ = x + y
        assert State.alike in ({(1.0, -1.0)}, {(-1.0, 1.0)})


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cramers_rule_is_the_inverse(d: int) -> None:
    matrices = np.random.default_rng(d).normal(size=(20, d, d)) + 3 * np.eye(d)
    # products of at most six terms of size 50 over a determinant of at least 1
    np.testing.assert_allclose(inverses(matrices), np.linalg.inv(matrices), rtol=1e-11, atol=1e-13)


def test_an_inverse_of_four_rows_is_refused() -> None:
    with pytest.raises(NotOverBoxes, match="an inverse of a matrix of 4 rows"):
        inverses(np.eye(4)[None])
