"""Two theorems on gradient descent in ratecheck: a search in a family of functions."""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("descent", "Gradient descent", "Drori and Teboulle, 2014, Theorem 3.1")
#: A sum of Huber functions with these weights and knees is smooth with L = 1, and least at zero.
FUNCTIONS = {
    "weights": rc.simplex("k"),
    "knees": rc.interval("k"),
    "start": rc.interval(),
}
STEPS = 5


def value(weights: Any, knees: Any, x: Any) -> Any:
    """The function at x >= 0."""
    near = np.minimum(x, knees)
    return weights @ (x * near - near**2 / 2)


def slope(weights: Any, knees: Any, x: Any) -> Any:
    """Its derivative at x >= 0."""
    return weights @ np.minimum(x, knees)


@PAPER.upper("theorem_1", ref="Theorem 3.1", on=FUNCTIONS)
def theorem_1(weights: Any, knees: Any, start: Any, constant: int = 4 * STEPS + 2) -> rc.Sides:
    """f(x_N) - f_* <= (x_0 - x_*)^2 / (4 N + 2) after N = 5 steps 1/L."""
    x = start
    for _ in range(STEPS):
        x = x - slope(weights, knees, x)
    return value(weights, knees, x), start**2 / constant


wrong_constant = theorem_1.changed(
    "wrong_constant",
    {"constant": 4 * STEPS + 4},
    text="f(x_N) - f_* <= (x_0 - x_*)^2 / (4 N + 4) after N = 5 steps 1/L.",
    note="One Huber function with its knee at 1 / (2 N + 1) attains 1 / (4 N + 2).",
)


@PAPER.upper("theorem_2", ref="Theorem 2.1.15 of Nesterov", on=FUNCTIONS | {"mu": rc.interval()})
def theorem_2(weights: Any, knees: Any, start: Any, mu: Any) -> rc.Sides:
    """One step on mu x^2 / 2 + (1 - mu) f brings the point nearer by 1 - mu."""
    x = start - mu * start - (1 - mu) * slope(weights, knees, start)
    return np.abs(x), (1 - mu) * np.abs(start)
