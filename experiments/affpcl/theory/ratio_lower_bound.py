"""The lower bound of density-ratio estimation: Theorem 2 and its proof (AffPCL, Appendix C.3).

mu^0 is known, and uniform on d states, d even. mu^i is one of

    mu_m(s) = (1 + (-1)^{s+m} v) / d,   m = 1, 2,   v = eps / sqrt(d),

so that rho_m(s) = 1 +- v, and the other agents have the average mu'_m = (n mu^0 - mu_m) / (n - 1),
which is mu_m with -v / (n - 1) in the place of v. If all of them have that distribution, then
max_ij ||mu^i - mu^j||_TV is as small as it can be, n / (n - 1) times ||mu_m - mu^0||_TV.

Two experiments occur. Equation (11) looks at t *pairs* (s^i, s^0), s^0 being the sample of one
agent drawn by lot, i included: s^0 given s^i = s has the distribution e_s / n + (n - 1) mu'_m / n.
The theorem is about t samples of *all* n agents. What either tells is an exact sum over counts:
pairs fall into six classes of equal probability ratio, states into two.

Arrays of both hypotheses have an axis of length 2 behind the axis B. The whole numbers n, t and d
are stored like all other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.theory.evidence import (
    Evidence,
    divergence,
    powers,
    total_variation,
)
from experiments.affpcl.theory.stack import share
from linsys.linalg import Numbers

#: Arrays over states have room for so many.
MOST_STATES = 6


# Distributions on d states, shape (B, 2, MOST_STATES); zero behind the d-th.


def signs() -> Numbers:
    """(-1)^{s+m} for m = 1, 2 and s = 1, .., MOST_STATES, shape (2, MOST_STATES)."""
    m, s = np.arange(1, 3)[:, None], np.arange(1, MOST_STATES + 1)
    return (-1) ** (m + s)


def states(d: Numbers) -> NDArray[np.bool_]:
    """Which of the states there are, shape (B, 1, MOST_STATES)."""
    return np.asarray(np.arange(1, MOST_STATES + 1) <= d[:, None, None], dtype=bool)


def tilted(d: Numbers, v: Numbers) -> Numbers:
    """mu_m, both of them, for tilts v (B,)."""
    values = (1 + v[:, None, None] * signs()) / d[:, None, None]
    return np.where(states(d), values, 0 * values)


def others(d: Numbers, v: Numbers, n: Numbers) -> Numbers:
    """mu'_m = (n mu^0 - mu_m) / (n - 1), the average of the other n - 1 >= 1 agents."""
    n = n[:, None, None]
    average = (n / d[:, None, None] - tilted(d, v)) / (n - 1)
    return np.asarray(np.where(states(d), average, 0 * average))


def conditional(d: Numbers, v: Numbers, n: Numbers) -> Numbers:
    """The distribution of s^0 given s^i = s, shape (B, 2, MOST_STATES of s, MOST_STATES)."""
    itself = np.eye(MOST_STATES, dtype=int) * states(d)
    n = n[:, None, None, None]
    return itself[:, None] / n + (n - 1) / n * others(d, v, n[:, 0, 0, 0])[:, :, None]


@dataclass(frozen=True)
class TwoPoint:
    """B pairs of hypotheses: whole n >= 2, t, d (even), tilts v = eps / sqrt(d); all (B,)."""

    n: Numbers
    t: Numbers
    d: Numbers
    v: Numbers

    @cached_property
    def eps(self) -> Numbers:
        """The proof's epsilon."""
        return self.v * np.sqrt(self.d)

    @cached_property
    def mu(self) -> Numbers:
        """mu_m, shape (B, 2, MOST_STATES)."""
        return tilted(self.d, self.v)

    @cached_property
    def mu_others(self) -> Numbers:
        """mu'_m, shape (B, 2, MOST_STATES)."""
        return others(self.d, self.v, self.n)

    @cached_property
    def H_1(self) -> Numbers:
        """D_KL(mu_1 || mu_2), shape (B,)."""
        return divergence(self.mu[:, 0], self.mu[:, 1])

    @cached_property
    def H_2(self) -> Numbers:
        """D_KL(mu^0_1 || mu^0_2 | mu_1) of the conditional distributions, shape (B,)."""
        law = conditional(self.d, self.v, self.n)
        return np.asarray((self.mu[:, 0] * divergence(law[:, 0], law[:, 1])).sum(axis=-1))

    @cached_property
    def delta_env(self) -> Numbers:
        """max_ij ||mu^i - mu^j||_TV if all other agents have mu'_m, shape (B,)."""
        return total_variation(self.mu, self.mu_others)[:, 0]

    @cached_property
    def pairs(self) -> Evidence:
        """What t pairs (s^i, s^0) tell."""
        return Evidence(self.n, self.t, _pair_classes(self), lambda n, t, p: powers(p, t))

    @cached_property
    def data(self) -> Evidence:
        """What t samples of each of the n agents tell."""
        even = np.stack([self.mu[..., 1::2], self.mu_others[..., 1::2]], axis=2).sum(axis=-1)

        def law(n: int, t: int, p: Numbers) -> Numbers:
            sides = np.stack([p, 1 - p], axis=-1)
            own, rest = powers(sides[:, :, 0], t), powers(sides[:, :, 1], (n - 1) * t)
            return (own[..., :, None] * rest[..., None, :]).reshape(len(p), 2, -1)

        return Evidence(self.n, self.t, even, law)


def _pair_classes(points: TwoPoint) -> Numbers:
    """Probabilities (B, 2, 6) of pairs of equal, then of different states, by their sides."""
    joint = points.mu[..., None] * conditional(points.d, points.v, points.n)
    side = np.arange(MOST_STATES) % 2
    equal = np.eye(MOST_STATES, dtype=bool)
    masks = [equal & (side == a)[:, None] for a in (0, 1)]
    masks += [~equal & (side == a)[:, None] & (side == b)[None] for a in (0, 1) for b in (0, 1)]
    return np.stack([(joint * mask).sum(axis=(-2, -1)) for mask in masks], axis=-1)


# Statements of the proof.


def right_of_12(s: TwoPoint) -> Numbers:
    return np.asarray(s.eps**2 / (2 * s.d) * (1 - s.eps * np.sqrt(6 * s.t / s.d)))


def reaches(s: TwoPoint, level: Numbers, delta_env: Numbers) -> rc.Sides:
    """The right side of (12) >= level, with max_ij ||mu^i - mu^j||_TV <= delta_env: (B, 2)."""
    measured = np.stack([right_of_12(s), delta_env], axis=1)
    return measured, np.stack([level, s.delta_env], axis=1)


# The theorem: min{1 / (96 t), delta_env^2} from below by Bayes risks.

#: Tilts in units of 1 / sqrt(t) that are tried beside the largest one.
_TRIED = (0.1, 0.2, 0.3, 0.5)


def stated_bound(t: Numbers, delta: Numbers) -> Numbers:
    """min{1 / (96 t), delta^2}, shape (B,)."""
    return np.asarray(np.minimum(1 / (96 * t), delta**2))


def risk_of_proof(n: Numbers, t: Numbers, delta: Numbers) -> Numbers:
    """The largest Bayes risk of the proof's hypotheses with delta_env <= delta, shape (B,)."""
    largest = np.minimum(2 * (1 - 1 / n) * delta, 1)
    tilts = [largest, *(np.minimum(largest, c / np.sqrt(t)) for c in _TRIED)]
    risks = [v**2 * TwoPoint(n, t, 2 + 0 * n, v).data.undecided for v in tilts]
    return np.asarray(np.stack(risks, axis=1).max(axis=1))


#: How many visits of the others to the two rare states :func:`rare_risk` looks at.
_VISITS = 40


def rare_risk(n: Numbers, t: Numbers, delta: Numbers) -> Numbers:
    """The Bayes risk of two rare states of which agent i visits one only, shape (B,).

    mu^0 has mass q in each, q = min{(1 - 1/n) delta, 1 / (8 t)}; mu^i has 2 q in one of them and
    agrees with mu^0 elsewhere; the others have (n mu^0 - mu^i) / (n - 1). Then delta_env <= delta.
    One visit of agent i decides, so that only t samples elsewhere leave doubt, and the others'
    samples are compared through their counts at the two states. More than ``_VISITS`` visits are
    taken to decide, so that it is a lower bound; on average there are (n - 1) / 4 at most.
    """
    q = np.minimum((1 - 1 / n) * delta, 1 / (8 * t))
    rest, draws = 1 - 2 * q, (n - 1) * t
    less = (n - 2) / (2 * (n - 1))  # the share of the rarer one of the two states
    more = 1 - less
    doubt, visits = 0 * q, 1 + 0 * q
    for c in range(_VISITS + 1):
        if c:  # the binomial probability of c visits, without the factor rest^(draws - c)
            visits = visits * np.maximum(draws - c + 1, 0) * 2 * q / c
        undecided = 0 * q
        for a in range(c + 1):
            both = less**a * more ** (c - a), less ** (c - a) * more**a
            undecided = undecided + comb(c, a) * share(2 * both[0] * both[1], both[0] + both[1])
        doubt = doubt + visits * rest ** np.maximum(draws - c, 0) * undecided
    return np.asarray(2 * q * rest**t * doubt)
