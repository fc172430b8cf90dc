"""TD(0) with linear features, from independent samples: Theorem 2 of arXiv 1806.02450.

Expectations are exact. (a), for the averaged iterate, holds and is loose by a factor of two or
more; (b), for the last one, holds and is attained where its step goes to zero. As T grows, 2/3 is
enough for the 2 in the floor of (b); a 1/4 there is refuted.
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("td0", "TD(0)", "Bhandari, Russo, Singal: A Finite Time Analysis of TD Learning")


class Chain:
    """What the theorem speaks of, for kernel P, features phi (n, d), rewards and discount."""

    def __init__(self, P: Any, phi: Any, reward: Any, gamma: Any) -> None:
        n, D = len(phi), rc.linalg.stationary(P)
        self.p = (D[:, None] * P).reshape(n * n)  # of the transition (s, s')
        here, there = np.repeat(phi, n, axis=0), np.tile(phi, (n, 1))
        self.A = here[:, :, None] * (here - gamma * there)[:, None, :]
        b = here * np.repeat(reward, n)[:, None]
        self.g = b - self.A @ rc.linalg.solve(self.mean(self.A), self.mean(b))  # g_t(theta_*)
        self.variance = self.mean(rc.linalg.squared(self.g))
        self.Sigma = rc.linalg.transpose(phi) @ (D[:, None] * phi)
        self.discount_gap, self.rate = 1 - gamma, (1 - gamma) * rc.linalg.lambda_min(self.Sigma)

    def mean(self, values: Any) -> Any:
        """The expectation over the transitions."""
        return np.tensordot(self.p, values, axes=1)

    def errors(self, step: Any) -> rc.LinearRecursion:
        """theta_t - theta_* with this step."""
        return rc.LinearRecursion.of_increments(-step * self.A, step * self.g, law=self.p)


CHAINS = rc.Space(
    fields={
        "P": rc.simplex("n", "n"),
        "phi": rc.ball("n", "d"),  # ||phi(s)|| <= 1
        "reward": rc.reals("n"),
        "gamma": rc.interval(high=0.9),
        "error": rc.reals("d"),  # theta_0 - theta_*
        "share": rc.interval(low=0.01, high=1.0),  # of the longest step allowed
        "doublings": rc.whole_numbers(low=6, high=14),  # T = 2^doublings
    },
    sizes={"n": (1, 3), "d": (1, 2)},
    given={
        "every transition is possible": lambda i: i.P.min() > 0.001,
        "features of full rank": lambda i: (
            rc.linalg.lambda_min(rc.linalg.transpose(i.phi) @ i.phi) > 0.001
        ),
        "T >= (8 / (1 - gamma))^2": lambda i: 2**i.doublings >= (8 / (1 - i.gamma)) ** 2,
    },
)


@PAPER.upper("theorem_2a", ref="Theorem 2 (a)", on=CHAINS)
def theorem_2a(i: Any) -> rc.Sides:
    """For T >= (8 / (1 - gamma))^2 and steps 1/sqrt(T) the averaged iterate has E||V - V_*||_D^2 <=
    (||theta_* - theta_0||^2 + 2 sigma^2) / ((1 - gamma) sqrt(T)).
    """
    chain, root = Chain(i.P, i.phi, i.reward, i.gamma), np.sqrt(2**i.doublings)
    average = chain.errors(1 / root).average(i.error, 2 ** int(i.doublings))
    bound = (rc.linalg.squared(i.error) + 2 * chain.variance) / (root * chain.discount_gap)
    return average.square(chain.Sigma), bound


@PAPER.upper("theorem_2b", ref="Theorem 2 (b)", on=CHAINS)
def theorem_2b(i: Any, floor: int = 2) -> rc.Sides:
    """For a constant step alpha <= omega (1 - gamma) / 8, E||theta_T - theta_*||^2 <= exp(-alpha
    (1 - gamma) omega T) ||theta_0 - theta_*||^2 + 2 alpha sigma^2 / ((1 - gamma) omega).
    """
    chain = Chain(i.P, i.phi, i.reward, i.gamma)
    step = i.share * chain.rate / 8
    last = chain.errors(step).moments(i.error, 2 ** int(i.doublings))
    start = np.exp(-step * chain.rate * 2**i.doublings) * rc.linalg.squared(i.error)
    return last.square(), start + floor * step * chain.variance / chain.rate


@PAPER.upper(
    "theorem_2b_floor",
    ref="Theorem 2 (b), as T grows",
    on=CHAINS,
    printed_as="ours",
    derivation="E[e] = 0, so that E||g||^2 = sigma^2 + E||A e||^2, without the proof's factor 2; "
    "E||A e||^2 <= 4 ||V||_D^2, and 2 (1 - gamma) - 4 alpha >= 3/2 (1 - gamma).",
)
def theorem_2b_floor(i: Any) -> rc.Sides:
    """In the limit T to infinity of Theorem 2 (b), 2/3 is enough in the place of 2."""
    chain = Chain(i.P, i.phi, i.reward, i.gamma)
    step = i.share * chain.rate / 8
    return chain.errors(step).limit().square(), 2 * step * chain.variance / (3 * chain.rate)


@PAPER.upper(
    "theorem_2b_eighth",
    ref="Theorem 2 (b) with a wrong constant",
    on=CHAINS,
    expect="violated",
    printed_as="ours",
    note="One feature that is always 1 has the floor alpha sigma^2 / (2 (1 - gamma)).",
    corrected="theorem_2b",
)
def theorem_2b_eighth(i: Any) -> rc.Sides:
    """Theorem 2 (b) with 1/4 in the place of 2 before alpha sigma^2 / ((1 - gamma) omega)."""
    return theorem_2b(i, floor=0.25)
