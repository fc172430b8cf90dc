"""SCAFFOLD on quadratics, with all clients and without noise: progress, drift, fixed point.

The lemmas behind its strongly convex rate hold: the progress of a round is stated half as large as
it is, the drift 13 times as large, and control variates that are gradients at x_* keep x_*. A
progress four times as large, 2 mu in the place of mu / 2, is refuted.
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "scaffold",
    "SCAFFOLD",
    "Karimireddy et al.: SCAFFOLD: Stochastic Controlled Averaging (arXiv 1910.06378, appendix)",
)
CLIENTS = rc.Space(
    fields={  # f_i(x) = x'A_i x / 2 - b_i'x with A_i = mu I + (1 - mu) C_i C_i', so that beta = 1
        "C": rc.contraction("n", "d", "d"),
        "mu": rc.interval(low=0.01, high=1.0),
        "b": rc.reals("n", "d"),
        "x": rc.reals("d"),
        "c": rc.reals("n", "d"),  # control variates
        "share": rc.interval(low=0.01, high=1.0),  # of the longest step allowed
        "eta_g": rc.interval(low=1.0, high=4.0),
        "K": rc.whole_numbers(low=1, high=8),
    },
    sizes={"n": (1, 3), "d": (1, 2)},
)


class Round:
    """One round from x with control variates c, or without any: that of FedAvg."""

    def __init__(self, i: Any, x: Any, c: Any) -> None:
        eye = np.eye(i.C.shape[-1], dtype=int)
        self.A, self.b = i.mu * eye + (1 - i.mu) * i.C @ rc.linalg.transpose(i.C), i.b
        self.best = rc.linalg.solve(self.A.mean(axis=0), i.b.mean(axis=0))
        self.x, self.c, K = x, c, int(i.K)
        eta = i.share / (81 * K * i.eta_g)  # at most 1 / (81 beta K eta_g), 1 / (15 mu K eta_g)
        self.step, y, self.drift, gradients = K * i.eta_g * eta, 0 * c + x, 0 * eta, 0 * c
        for _ in range(K):
            gradient = self.gradients(y)
            gradients = gradients + gradient
            y = y - eta * (gradient - c + c.mean(axis=0))
            self.drift = self.drift + rc.linalg.squared(y - x).mean() / K
        self.next_x, self.next_c = x + i.eta_g * (y - x).mean(axis=0), gradients / K

    def gradients(self, y: Any) -> Any:
        """grad f_i at x, or each at its own y_i."""
        return rc.linalg.apply(self.A, y) - self.b

    def lag(self, c: Any) -> Any:
        """C_r: how far control variates are from the gradients at x_*."""
        return rc.linalg.squared(c - self.gradients(0 * c + self.best)).mean()

    def Phi(self, x: Any, c: Any) -> Any:
        """What decreases."""
        return rc.linalg.squared(x - self.best) + 9 * self.step**2 * self.lag(c)

    def excess(self) -> Any:
        """f(x) - f(x_*)."""
        e = self.x - self.best
        return e @ self.A.mean(axis=0) @ e / 2


@PAPER.lower("progress", ref="one-round progress, strongly convex", on=CLIENTS)
def progress(i: Any, factor: Any = 0.5) -> rc.Sides:
    """Phi = ||x - x_*||^2 + 9 eta~^2 C decreases by mu eta~ Phi / 2 + eta~ (f(x) - f_*) or more if
    eta~ = K eta_g eta_l <= 1 / (81 beta) and eta_g >= 1.
    """
    round = Round(i, i.x, i.c)
    before = round.Phi(i.x, i.c)
    stated = factor * i.mu * round.step * before + round.step * round.excess()
    return before - round.Phi(round.next_x, round.next_c), stated


@PAPER.upper("drift", ref="bound on the drift", on=CLIENTS)
def drift(i: Any) -> rc.Sides:
    """3 beta eta~ E <= 2/3 eta~^2 C + eta~ / (25 eta_g^2) (f(x) - f_*), for the mean squared
    distance E of local iterates from x.
    """
    round = Round(i, i.x, i.c)
    by_excess = round.step / (25 * i.eta_g**2) * round.excess()
    return 3 * round.step * round.drift, 2 * round.step**2 / 3 * round.lag(i.c) + by_excess


@PAPER.identity("fixed_point", ref="Section 4: control variates", on=CLIENTS)
def fixed_point(i: Any) -> rc.Sides:
    """A round leaves x_* where it is if c_i = grad f_i(x_*)."""
    any_round = Round(i, i.x, i.c)
    best = any_round.best
    return Round(i, best, any_round.gradients(0 * i.c + best)).next_x, best


@PAPER.lower(
    "progress_fourfold",
    ref="one-round progress with a wrong constant",
    on=CLIENTS,
    expect="violated",
    printed_as="ours",
    note="For one client with A = mu I a round takes only 2 mu eta~ from ||x - x_*||^2.",
    corrected="progress",
)
def progress_fourfold(i: Any) -> rc.Sides:
    """Phi decreases by 2 mu eta~ Phi + eta~ (f(x) - f_*) or more."""
    return progress(i, factor=2)
