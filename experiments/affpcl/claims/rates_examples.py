"""The rates of AffPCL's examples: density ratios (C.4) and temporal differences (C.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import exact_errors
from experiments.affpcl.claims import _regimes as where
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory.bellman import stationary
from experiments.affpcl.theory.evidence import total_variation
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, Independent
from linsys.heterogeneity import lambda_min
from linsys.moments import exact_moments
from linsys.systems import MarkovRewardProcesses


@PAPER.rate(
    "ex1",
    ref="Appendix C.4, Example 1",
    tex=r"\|\eta_*^i\|_0\le\delta_{env}d\Rightarrow"
    r"\mathrm{MSE}=\tilde O(\kappa^2t^{-1}\delta_{env}d)",
    note="Measured for hard thresholding, the l0-penalised least squares of the tabular case; the "
    "error is that of rho averaged over mu^0. The number of coordinates is what counts, not TV.",
)
def ex1() -> Sequence[rc.Regime]:
    """A density ratio that differs from 1 in delta_env d coordinates is estimated with MSE
    O~(kappa^2/t delta_env d).

    d states; rho = 1 except on k of them, where it is 1 + v or 1 - v in turn. The estimate
    d N(s)/t - 1 is kept where its size exceeds (4 d ln(d t) / t)^(1/2).
    """
    from scipy.stats import binom

    d, v = 1000, 0.5

    def risk(t: float, k: int) -> float:
        keep = np.sqrt(4 * d * np.log(d * t) / t)
        total = 0.0
        for share, eta in ((d - k, 0.0), (k / 2, v), (k / 2, -v)):
            p = (1 + eta) / d
            width = 14 * np.sqrt(t * p)
            counts = np.arange(max(0, int(t * p - width)), int(t * p + width) + 2)
            guess = d * counts / t - 1
            guess = np.where(np.abs(guess) > keep, guess, 0.0)
            total += share * float((binom.pmf(counts, t, p) * (guess - eta) ** 2).sum())
        return total / d

    t = np.array([1e7, 3e7, 1e8])
    k = np.array([4, 16, 64])
    in_t = where.exponent(t, [[risk(value, 20) for value in t]])
    in_k = where.exponent(1 / k, [[risk(1e7, int(value)) for value in k]])
    return [
        where.exact("20 of 1000 states differ", "t", in_t),
        where.exact("t = 10^7, d = 1000", "1/(delta_env d)", in_k),
    ]


def coupled(level: float, states: int = 5) -> FiniteSystem:
    """Example 2 as a system of one agent on pairs (s^i, s^0), optimally coupled, psi one-hot."""
    rng = np.random.default_rng(7)
    base, other = rng.dirichlet(np.ones(states), size=2)
    mu = (1 - level) * base + level * other
    common = np.minimum(mu, base)
    rest = total_variation(mu, base)
    pairs = np.diag(common) + np.outer(mu - common, base - common) / rest
    one_hot = np.eye(states)
    A = np.broadcast_to(one_hot[:, :, None] * one_hot[:, None, :], (states, states, states, states))
    b = one_hot[:, None, :] - one_hot[None, :, :]
    size = states * states
    return FiniteSystem(
        A=A.reshape(size, states, states),
        Phi=np.broadcast_to(np.eye(states), (size, states, states)),
        b=b.reshape(1, size, states),
        mu=pairs.reshape(1, size) / pairs.sum(),
    )


@PAPER.rate(
    "ex2_rate",
    ref="Appendix C.4, Example 2",
    tex=r"\mathbb{E}\|\eta_t^i-\eta_*^i\|^2=\tilde O(\kappa^2t^{-1}\delta_{env})",
    note="The logarithm is divided out.",
)
def ex2_rate() -> Sequence[rc.Regime]:
    """With coupled samples, P(s^i = s^0) = 1 - delta_env, the fixed-point iteration has MSE
    O~(kappa^2/t delta_env).
    """

    def error(level: float, t: where.Values) -> where.Values:
        system = coupled(level)
        alpha = np.log(t) / (float(lambda_min(system)) * t)
        return exact_moments(system, Independent()).at(t.astype(np.int64), alpha).error[:, 0]

    levels = np.array([0.001, 0.003, 0.01])
    late = np.array([1e10])
    in_t = where.exponent(where.TIMES, [error(0.1, where.TIMES) / np.log(where.TIMES)])
    in_level = where.exponent(1 / levels, [[float(error(v, late)[0]) for v in levels]])
    return [
        where.exact("optimal coupling: error / ln t against t", "t", in_t),
        where.exact("optimal coupling, t = 10^10", "1/delta_env", in_level),
    ]


@PAPER.rate(
    "c6_rate",
    ref="Appendix C.6",
    tex=r"O\left(\frac{(G_x+G_b)^2}{(1-\gamma)^3(w^i)^2t}\max\{n^{-1},\delta_{env},\delta_{obj}\}"
    r"\right)",
    note="Agents alike, so that 1/n is the maximum. The derivation of the third power uses "
    "nu <= 2/(1 - gamma), which is false (affpcl.c6_nu). It is not needed: with E A'A <= (1 + "
    "gamma) sym(Abar) (affpcl.c6_moment), Lemma D.2 holds with 1 in the place of nu, and the "
    "second power is enough. A constant feature and rewards of mean zero attain it.",
)
def c6_rate() -> Sequence[rc.Regime]:
    """Personalised TD(0): O((G_x + G_b)^2 / ((1 - gamma)^3 w_i^2 t) max{1/n, delta_env,
    delta_obj}).
    """
    rng = np.random.default_rng(11)
    states = 5
    kernel = rng.dirichlet(np.ones(states), size=states)
    # With a constant among the features, lambda is of order 1 - gamma, as small as it may be; with
    # rewards of mean zero, values and noise stay of order one, so that G_x does not hide that.
    features = np.column_stack([np.ones(states), rng.uniform(-1, 1, states)])
    features /= np.linalg.norm(features, axis=1).max()
    reward = features[:, 1] - stationary(kernel) @ features[:, 1]
    reward = np.broadcast_to(reward[:, None], (states, states))

    def processes(n: int, gamma: float) -> FiniteSystem:
        return MarkovRewardProcesses(
            P=np.broadcast_to(kernel, (n, states, states)),
            R=np.broadcast_to(reward, (n, states, states)),
            gamma=gamma,
            features=features,
        ).to_finite_system()

    def error(n: int, gamma: float, t: where.Values) -> tuple[where.Values, FiniteSystem]:
        system = processes(n, gamma)
        exact = exact_errors(system, AffPCL(), t.astype(np.int64), [0])
        return exact.error[:, 0], system

    def scaled(gamma: float) -> float:
        values, system = error(4, gamma, np.array([1e12]))
        longest = np.linalg.norm(system.x_star, axis=1).max()
        return float(values[0] / (longest + np.abs(reward).max()) ** 2)

    n, horizon = np.array([4.0, 16.0, 64.0]), np.array([30.0, 100.0, 300.0])
    late = np.array([1e12])
    in_t = where.exponent(where.TIMES, [error(4, 0.9, where.TIMES)[0] / np.log(where.TIMES)])
    in_n = where.exponent(n, [[float(error(int(v), 0.9, late)[0][0]) for v in n]])
    in_horizon = where.exponent(horizon, [[scaled(1 - 1 / h) for h in horizon]])
    return [
        where.exact("gamma = 0.9: error / ln t against t", "t", in_t),
        where.exact("gamma = 0.9, alike: error against n", "n", in_n),
        where.exact("error / (G_x + G_b)^2", "1/(1-gamma)", in_horizon, predicted=3.0),
    ]
