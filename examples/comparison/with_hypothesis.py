"""Two theorems on gradient descent in plain hypothesis: examples of a family of functions."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

UNIT = st.floats(0, 1)
#: Weights and knees of a sum of Huber functions; it is smooth with L <= 1, and least at zero.
PARTS = st.lists(st.tuples(st.floats(0.01, 1), UNIT), min_size=1, max_size=3)
ROUNDING = 1e-12
STEPS = 5


def value(parts: Sequence[tuple[float, float]], x: float) -> float:
    """The function at x >= 0."""
    total = sum(weight for weight, _ in parts)
    return sum(w * (x * min(x, t) - min(x, t) ** 2 / 2) for w, t in parts) / total


def slope(parts: Sequence[tuple[float, float]], x: float) -> float:
    """Its derivative at x >= 0."""
    return sum(w * min(x, t) for w, t in parts) / sum(weight for weight, _ in parts)


def check_theorem_1(parts: Sequence[tuple[float, float]], start: float, constant: int) -> None:
    """f(x_N) - f_* <= (x_0 - x_*)^2 / constant after N steps 1/L."""
    x = start
    for _ in range(STEPS):
        x -= slope(parts, x)
    assert value(parts, x) <= start**2 / constant + ROUNDING


@settings(max_examples=1000, deadline=None)
@given(PARTS, UNIT)
def theorem_1(parts: Sequence[tuple[float, float]], start: float) -> None:
    """The constant of Drori and Teboulle is 4 N + 2."""
    check_theorem_1(parts, start, 4 * STEPS + 2)


@settings(max_examples=1000, deadline=None)
@given(PARTS, UNIT)
def wrong_constant(parts: Sequence[tuple[float, float]], start: float) -> None:
    """It is not 4 N + 4."""
    check_theorem_1(parts, start, 4 * STEPS + 4)


@settings(max_examples=1000, deadline=None)
@given(PARTS, UNIT, UNIT)
def theorem_2(parts: Sequence[tuple[float, float]], start: float, mu: float) -> None:
    """One step on mu x^2 / 2 + (1 - mu) f brings the point nearer by 1 - mu."""
    x = start - mu * start - (1 - mu) * slope(parts, start)
    assert abs(x) <= (1 - mu) * abs(start) + ROUNDING


if __name__ == "__main__":
    for statement in (theorem_1, wrong_constant, theorem_2):
        try:
            statement()
            print(f"{statement.__name__}: no counterexample in 1,000 examples")
        except AssertionError as error:
            print(f"{statement.__name__}: {' '.join(error.__notes__)}")
