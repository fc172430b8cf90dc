"""SAGA on strongly convex quadratics: its Lyapunov function, and the linear rate from any start."""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("saga", "SAGA", "Defazio, Bach, Lacoste-Julien: SAGA (arXiv 1407.0202)")
SUMS = rc.Space(
    fields={  # f_i(x) = (x - c_i)'A_i (x - c_i) / 2, A_i = mu I + (1 - mu) C_i C_i', so that L = 1
        "C": rc.contraction("n", "d", "d"),
        "c": rc.reals("n", "d"),
        "mu": rc.positive(low=0.01, high=0.9),
        "x": rc.reals("d"),
        "phi": rc.reals("n", "d"),  # the points of the table
        "k": rc.whole_numbers(low=1, high=4),
    },
    sizes={"n": (1, 3), "d": (1, 2)},
)


class Sum:
    """The functions, and the law of SAGA: all runs of some steps."""

    def __init__(self, i: Any) -> None:
        n, d = i.c.shape
        self.A, self.c, self.n = (
            i.mu * np.eye(d, dtype=int) + (1 - i.mu) * i.C @ rc.linalg.transpose(i.C),
            i.c,
            n,
        )
        self.best = rc.linalg.solve(self.A.mean(axis=0), rc.linalg.apply(self.A, i.c).mean(axis=0))

    def gradients(self, points: Any) -> Any:
        """f_i' at points (.., n, d)."""
        return rc.linalg.apply(self.A, points - self.c)

    def step(self, x: Any, phi: Any, gamma: Any) -> tuple[Any, Any]:
        """x (p, d) and phi (p, n, d) after a step with every j, one after the other: (n p, ..)."""
        table, new, points = self.gradients(phi), [], []
        here = self.gradients(np.repeat(x[:, None], self.n, axis=1))
        for j in range(self.n):
            new.append(x - gamma * (here[:, j] - table[:, j] + table.mean(axis=1)))
            points.append(np.where(np.arange(self.n)[:, None] == j, x[:, None], phi))
        return np.concatenate(new), np.concatenate(points)

    def bregman(self, phi: Any) -> Any:
        """The mean of f_i(phi_i) - f_i(x_*) - <f_i'(x_*), phi_i - x_*>."""
        gap = phi - self.best
        return (gap * rc.linalg.apply(self.A, gap)).sum(axis=-1).mean() / 2

    def distance(self, x: Any) -> Any:
        """The mean of ||x - x_*||^2."""
        return rc.linalg.squared(x - self.best).mean()


@PAPER.upper("theorem_1", ref="Theorem 1", on=SUMS)
def theorem_1(i: Any, factor: int = 1) -> rc.Sides:
    """For gamma = 1 / (2 (mu n + L)), E T falls by 1 - gamma mu in a step: T = c ||x - x_*||^2 +
    mean_i B_i(phi_i), c = 1 / (2 gamma (1 - gamma mu) n), B_i the Bregman divergence from x_*.
    """
    s = Sum(i)
    gamma = 1 / (2 * (i.mu * s.n + 1))
    c = 1 / (2 * gamma * (1 - gamma * i.mu) * s.n)
    x, phi = s.step(i.x[None], i.phi[None], gamma)
    before = s.bregman(i.phi) + c * s.distance(i.x)
    return s.bregman(phi) + c * s.distance(x), (1 - factor * gamma * i.mu) * before


@PAPER.upper("corollary_1", ref="Corollary 1", on=SUMS)
def corollary_1(i: Any) -> rc.Sides:
    """For that gamma and phi_i = x^0, E||x^k - x_*||^2 <= (1 - mu / (2 (mu n + L)))^k
    (||x^0 - x_*||^2 + n / (mu n + L) (f(x^0) - f_*)).
    """
    s = Sum(i)
    gamma = 1 / (2 * (i.mu * s.n + 1))
    return runs(s, i, gamma), (1 - gamma * i.mu) ** int(i.k) * start(s, i, 2 * s.n * gamma)


@PAPER.upper("other_step", ref="Section 2, for the step 1 / (3 L)", on=SUMS)
def other_step(i: Any) -> rc.Sides:
    """For gamma = 1 / (3 L), E||x^k - x_*||^2 <= (1 - min(1 / (4 n), mu / (3 L)))^k
    (||x^0 - x_*||^2 + 2 n / (3 L) (f(x^0) - f_*)).
    """
    s, third = Sum(i), (1 + 0 * i.mu) / 3
    rate = np.minimum((1 + 0 * i.mu) / (4 * s.n), i.mu / 3)
    return runs(s, i, third), (1 - rate) ** int(i.k) * start(s, i, 2 * s.n * third)


def runs(s: Sum, i: Any, gamma: Any) -> Any:
    """E||x^k - x_*||^2 from a table of x^0."""
    x, phi = i.x[None], 0 * i.phi[None] + i.x
    for _ in range(int(i.k)):
        x, phi = s.step(x, phi, gamma)
    return s.distance(x)


def start(s: Sum, i: Any, factor: Any) -> Any:
    """What the rates begin with."""
    return s.distance(i.x) + factor * s.bregman(0 * i.phi + i.x)


@PAPER.upper(
    "theorem_1_fourfold",
    ref="Theorem 1 with a wrong constant",
    on=SUMS,
    expect="violated",
    printed_as="ours",
    note="For n = 1 a step is one of gradient descent, by which ||x - x_*||^2 falls 2 gamma mu.",
    corrected="theorem_1",
)
def theorem_1_fourfold(i: Any) -> rc.Sides:
    """T falls by 1 - 4 gamma mu."""
    return theorem_1(i, factor=4)
