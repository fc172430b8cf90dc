"""TD(0) with linear features, from independent samples: Theorem 2 of arXiv 1806.02450.

Expectations are exact. (a), for the averaged iterate, holds and is loose by a factor of two or
more; (b), for the last one, holds and is attained where its step goes to zero. As T grows, 2/3 is
enough for the 2 in the floor of (b); a 1/4 there is refuted. The figure has both sides.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("td0", "TD(0)", "Bhandari, Russo, Singal: A Finite Time Analysis of TD Learning")


class Chain:
    """What the theorem speaks of, for kernel P, features phi (n, d), rewards and discount gamma."""

    def __init__(self, i: Any) -> None:
        n, D = len(i.phi), rc.linalg.stationary(i.P)
        self.p = (D[:, None] * i.P).reshape(n * n)  # of the transition (s, s')
        here, there = np.repeat(i.phi, n, axis=0), np.tile(i.phi, (n, 1))
        self.A = here[:, :, None] * (here - i.gamma * there)[:, None, :]
        b = here * np.repeat(i.reward, n)[:, None]
        mean = np.tensordot(self.p, self.A, axes=1)
        self.g = b - self.A @ rc.linalg.solve(mean, self.p @ b)  # g_t(theta_*)
        self.variance = self.p @ rc.linalg.squared(self.g)
        self.Sigma = i.phi.mT @ (D[:, None] * i.phi)
        self.rate = (1 - i.gamma) * rc.linalg.lambda_min(self.Sigma)  # (1 - gamma) omega

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
        "features of full rank": lambda i: rc.linalg.lambda_min(i.phi.mT @ i.phi) > 0.001,
        "T >= (8 / (1 - gamma))^2": lambda i: 2**i.doublings >= (8 / (1 - i.gamma)) ** 2,
    },
)


@PAPER.upper("theorem_2a", ref="Theorem 2 (a)", on=CHAINS)
def theorem_2a(i: Any) -> rc.Sides:
    """For T >= (8 / (1 - gamma))^2 and steps 1/sqrt(T) the averaged iterate has E||V - V_*||_D^2 <=
    (||theta_* - theta_0||^2 + 2 sigma^2) / ((1 - gamma) sqrt(T)).
    """
    chain, root = Chain(i), np.sqrt(2**i.doublings)
    average = chain.errors(1 / root).average(i.error, 2 ** int(i.doublings))
    bound = (rc.linalg.squared(i.error) + 2 * chain.variance) / (root * (1 - i.gamma))
    return average.square(chain.Sigma), bound


@PAPER.upper("theorem_2b", ref="Theorem 2 (b)", on=CHAINS)
def theorem_2b(i: Any, floor: int = 2) -> rc.Sides:
    """For a constant step alpha <= omega (1 - gamma) / 8, E||theta_T - theta_*||^2 <= exp(-alpha
    (1 - gamma) omega T) ||theta_0 - theta_*||^2 + 2 alpha sigma^2 / ((1 - gamma) omega).
    """
    chain = Chain(i)
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
    chain = Chain(i)
    step = i.share * chain.rate / 8
    return chain.errors(step).limit().square(), 2 * step * chain.variance / (3 * chain.rate)


theorem_2b.changed(
    "theorem_2b_eighth",
    {"floor": 0.25},
    text="Theorem 2 (b) with 1/4 in the place of 2 before alpha sigma^2 / ((1 - gamma) omega).",
    note="One feature that is always 1 has the floor alpha sigma^2 / (2 (1 - gamma)).",
)

STATED = -0.5  # the exponent of T in (a)
CLAIMS = {"(b)": theorem_2b, "(a)": theorem_2a}


class TDConfig(rc.Config):
    """How long a chain of six states runs."""

    doublings: int = rc.param(22, low=14, doc="of T.")


def compute(config: TDConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("chain"))
    P, reward, phi = rng.dirichlet(np.ones(6), 6), rng.normal(size=6), rng.normal(size=(6, 2))
    phi /= np.linalg.norm(phi, axis=1).max()
    one = {"P": P, "phi": phi, "reward": reward, "gamma": 0.5, "error": np.ones(2)}
    powers = range(8, config.doublings + 1)
    runs = [SimpleNamespace(**one, share=1.0, doublings=k) for k in powers]
    error, bound = np.transpose([CLAIMS[block["part"]](run) for run in runs])
    return {"T": [2**k for k in powers], "error": error, "bound": bound}


def analyse(config: TDConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for part in CLAIMS:
        T, error, bound = (table.where(part=part)[name] for name in ("T", "error", "bound"))
        series += [rc.Series("TD(0)", part, T, error), rc.Series("theory", part, T, bound)]
        ratio = rc.exact((error / bound).max())
        checks.append(rc.at_most(f"{part}: error / bound", "at most 1", ratio, 1))
    slope = rc.exact_slope(T[-6:], error[-6:])  # of (a), the last part
    checks.append(rc.rate_check("(a): exponent of T", STATED, slope, bound=True))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="td0/theorem2",
    title="TD(0): exact errors and Theorem 2",
    source="Bhandari, Russo and Singal, Theorem 2",
    variable="t",
    profiles={"quick": TDConfig(), "paper": TDConfig(doublings=30)},
    blocks=rc.Grid({"part": tuple(CLAIMS)}),
    compute=compute,
    analyse=analyse,
    panels={
        "(b)": rc.Panel(x="$T$", y=r"$E||\theta_T-\theta_*||^2$", log="xy"),
        "(a)": rc.Panel(x="$T$", y=r"$E||V-\bar V_T||_D^2$", log="xy", slope=STATED),
    },
)
