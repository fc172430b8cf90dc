"""Projected SGD on strongly convex functions: 1/T for the last iterate and for averages.

Expectations are exact, over all sequences of up to five samples. All three bounds hold; Lemma 1 of
Rakhlin et al. is loose by a factor of 3.2, the weighted average of Lacoste-Julien et al. by 2, and
the 17 of Shamir and Zhang by 34. The wrong constant 1/2 in the place of Lemma 1's 4 is refuted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("sgd", "SGD", "arXiv 1109.5647 (Lemma 1), 1212.2002 and 1212.1824 (Theorem 1)")
SAMPLES = rc.Space(
    fields={  # sample s, of probability p_s, has the gradient h_s w + b_s at w in W = [-1, 1]
        "p": rc.simplex("S"),
        "h": rc.interval("S", high=2.0),
        "b": rc.reals("S"),
        "start": rc.interval(low=-1.0, high=1.0),
        "T": rc.whole_numbers(low=1, high=6),
    },
    sizes={"S": (2, 3)},
    given={"strongly convex": lambda i: i.p @ i.h > 0.001},
)


class Run:
    """All T-step runs of w <- P_W(w - step g): the last w, the mean with weights t, their laws."""

    def __init__(self, i: Any, step: Callable[[Any, int], Any]) -> None:
        self.i, self.strength = i, i.p @ i.h
        self.best = clipped(-(i.p @ i.b) / self.strength)
        self.G2 = max(i.p @ (i.h + i.b) ** 2, i.p @ (i.h - i.b) ** 2)  # of E g^2 over W
        w, self.law = i.start * np.ones(1, dtype=int), np.ones(1, dtype=int)
        total = 0 * w
        for t in range(1, int(i.T)):
            total = np.tile(total + t * w, len(i.p))
            w = clipped(w - step(self.strength, t) * (np.multiply.outer(i.h, w) + i.b[:, None]))
            w, self.law = w.reshape(-1), np.multiply.outer(i.p, self.law).reshape(-1)
        self.last, self.average = w, 2 * (total + i.T * w) / (i.T * (i.T + 1))

    def distance(self, w: Any) -> Any:
        """E (w - w_*)^2."""
        return self.law @ (w - self.best) ** 2

    def excess(self, w: Any) -> Any:
        """E F(w) - F(w_*)."""
        slope = self.strength * self.best + self.i.p @ self.i.b
        return self.strength * self.distance(w) / 2 + slope * (self.law @ (w - self.best))


def clipped(w: Any) -> Any:
    """The projection on W = [-1, 1]."""
    return np.minimum(np.maximum(w, -1), 1)


def decaying(strength: Any, t: int) -> Any:
    """The step 1 / (lambda t)."""
    return 1 / (strength * t)


@PAPER.upper("lemma_1", ref="Rakhlin et al., Lemma 1", on=SAMPLES)
def lemma_1(i: Any, constant: int = 4) -> rc.Sides:
    """For steps 1 / (lambda t), E||w_T - w_*||^2 <= 4 G^2 / (lambda^2 T)."""
    run = Run(i, decaying)
    return run.distance(run.last), constant * run.G2 / (run.strength**2 * i.T)


@PAPER.upper("weighted_average", ref="Lacoste-Julien et al., Section 3", on=SAMPLES)
def weighted_average(i: Any) -> rc.Sides:
    """For steps 2 / (mu (t + 1)) the mean of w_1 .. w_T with weights t has E f - f_* <= 2 B^2 /
    (mu (T + 1)).
    """
    run = Run(i, lambda strength, t: 2 / (strength * (t + 1)))
    return run.excess(run.average), 2 * run.G2 / (run.strength * (i.T + 1))


@PAPER.upper("last_iterate", ref="Shamir and Zhang, Theorem 1", on=SAMPLES)
def last_iterate(i: Any) -> rc.Sides:
    """For steps 1 / (lambda t), E F(w_T) - F(w_*) <= 17 G^2 (1 + log T) / (lambda T)."""
    run = Run(i, decaying)
    return run.excess(run.last), 17 * run.G2 * (1 + np.log(i.T)) / (run.strength * i.T)


@PAPER.upper(
    "lemma_1_small",
    ref="Rakhlin et al., Lemma 1 with a wrong constant",
    on=SAMPLES,
    expect="violated",
    printed_as="ours",
    note="At T = 1 the distance of w_1 = 1 from w_* = 0 is G / lambda if all samples are alike.",
    corrected="lemma_1",
)
def lemma_1_small(i: Any) -> rc.Sides:
    """Lemma 1 with 1/2 in the place of 4."""
    return lemma_1(i, constant=0.5)
