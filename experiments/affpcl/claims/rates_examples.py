"""The rates of AffPCL's examples: density ratios (C.4) and temporal differences (C.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import Pieces, Types, exact_errors
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
    note="Measured for hard thresholding, the l0-penalised least squares of the tabular case; "
    "mu^0 is uniform, and the estimate knows it; the error is that of rho averaged over mu^0. The "
    "number of coordinates is what counts, not TV. The power of kappa is not measured.",
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


def coupled(mu: where.Values, base: where.Values) -> FiniteSystem:
    """Example 2 as a system of one agent on pairs (s^i, s^0), optimally coupled, psi one-hot.

    mu and base are mu^i and mu^0, shape (S,).
    """
    states = len(mu)
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


def error_coupled(system: FiniteSystem, t: where.Values) -> where.Values:
    """E||eta_t - eta_*||^2 after runs of t rounds with the step ln t/(lambda t), shape (T,)."""
    alpha = np.log(t) / (float(lambda_min(system)) * t)
    return exact_moments(system, Independent()).at(t.astype(np.int64), alpha).error[:, 0]


@PAPER.rate(
    "ex2_rate",
    ref="Appendix C.4, Example 2",
    tex=r"\mathbb{E}\|\eta_t^i-\eta_*^i\|^2=\tilde O(\kappa^2t^{-1}\delta_{env})",
    uses=["ex2_var", "ex2_monotone"],
    note="The logarithm is divided out. The two environments are fixed, so that the exponents in "
    "kappa and n are not measured. If kappa is formed with the sigma of Example 2's own system, "
    "which is at least 2 ||psi||^2 ||eta_*||, it covers the factor max rho^i that the proof leaves "
    "out; with the sigma of the main system it does not (affpcl.ex2_uniform).",
)
def ex2_rate() -> Sequence[rc.Regime]:
    """With coupled samples, P(s^i = s^0) = 1 - delta_env, the fixed-point iteration has MSE
    O~(kappa^2/t delta_env).
    """
    base, other = np.random.default_rng(7).dirichlet(np.ones(5), size=2)

    def system(level: float) -> FiniteSystem:
        return coupled((1 - level) * base + level * other, base)

    levels = np.array([0.001, 0.003, 0.01])
    late = np.array([1e10])
    curve = error_coupled(system(0.1), where.TIMES) / np.log(where.TIMES)
    in_level = [float(error_coupled(system(v), late)[0]) for v in levels]
    return [
        where.exact(
            "optimal coupling: error / ln t against t", "t", where.exponent(where.TIMES, [curve])
        ),
        where.exact(
            "optimal coupling, t = 10^10", "1/delta_env", where.exponent(1 / levels, [in_level])
        ),
    ]


@PAPER.rate(
    "ex2_uniform",
    ref="Appendix C.4, Example 2, for any number of agents",
    tex=r"\mathbb{E}\|g^{i,\rho}(\eta_*^i)\|^2=O(\delta_{env}),\quad"
    r"\mathbb{E}\|\eta_t^i-\eta_*^i\|^2=\tilde O((\lambda^\rho)^{-2}t^{-1}\delta_{env})",
    expect="violated",
    reading_of="ex2_rate",
    reading="kappa^rho = sigma/lambda^rho as Appendix G.1 defines it, with the main system's "
    "sigma, in which n does not occur; then the bound is one for all n.",
    note="The last line of the proof calls 2 ||rho^i||_inf TV + 8 P(s^i != s^0) an O(delta_env), "
    "but ||rho^i||_inf may be as large as n. Let agent i meet a state of its own with probability "
    "d, which the others never meet. There mu^0 = d/n and rho^i = n, so that Psi(s^0) eta_* has "
    "the mean square (n - 1)^2 d/n, about n d. Divided by delta_env = d this is about n, however "
    "small d is, so that no constant makes it O(delta_env) for all n.",
    corrected="ex2_var",
    uses=["ex2_var"],
)
def ex2_uniform() -> Sequence[rc.Regime]:
    """For features of length one, P(s^i = s^0) = 1 - delta_env and any number of agents, E
    ||g^{i,rho}(eta_*)||^2 = O(delta_env), and the MSE is O~((lambda^rho)^{-2} delta_env / t).
    """
    delta, t = 0.1, np.array([1e13])
    n = np.array([16.0, 64.0, 256.0])
    squares, errors = [], []
    for count in n:
        system = coupled(np.array([1 - delta, delta]), np.array([1 - delta / count, delta / count]))
        residual = system.A @ system.x_star[0] - system.b[0]
        squares.append(float(system.mu[0] @ (residual**2).sum(axis=1)))
        errors.append(float(error_coupled(system, t)[0]) * float(lambda_min(system)) ** 2)
    return [
        where.exact("own rare state: E||g(eta_*)||^2", "n", where.exponent(n, [squares]), 0.0),
        where.exact(
            "own rare state: lambda^2 times the error", "n", where.exponent(n, [errors]), 0.0
        ),
    ]


def turned_rewards(given: Pieces, n: int, level: float) -> Types:
    """The systems of ``turned_objectives`` as Markov reward processes with gamma = 1/2.

    A state o is a coordinate k of the plane, with even chance, and a state of those systems; the
    next state o' is drawn afresh. phi(o) = e_k, and the reward features phi_r(o) are row k of
    level^2 I + 0.9 J or of level^2 I - 0.9 J. So A = phi (phi - gamma phi')' and Phi = phi phi_r',
    as in Appendix C.2, with w^i = 1/2 and lambda^b = level^2 / 2. bbar^i is half of what it was:
    bbar^0 = 0, x_*^c = 0 and theta_*^c = 0.
    """
    plane = where.turned_objectives(given, n, level)
    phi, sign, gamma = np.eye(2)[[0, 1, 0, 1]], [0, 0, 1, 1], 0.5
    rewards = (phi[:, None] @ plane.Phi[sign])[:, 0]
    visits = plane.mu[:, sign] / 2
    here, there = np.repeat(phi, 4, axis=0), np.tile(phi, (4, 1))
    return Types(
        A=here[:, :, None] * (here - gamma * there)[:, None, :],
        Phi=here[:, :, None] * np.repeat(rewards, 4, axis=0)[:, None, :],
        mu=(visits[:, :, None] * visits[:, None, :]).reshape(2, 16),
        theta=plane.theta,
        counts=plane.counts,
    )


@PAPER.rate(
    "c6_rate",
    ref="Appendix C.6, with the rewards of Appendix C.2",
    tex=r"O\left(\frac{(G_x+G_b)^2}{(1-\gamma)^3(w^i)^2t}\max\{n^{-1},\delta_{env},\delta_{obj}\}"
    r"\right)",
    uses=["c6_nu", "c6_lambda", "c6_const", "thm1_main"],
    expect="violated",
    note="Appendix C.2 writes rewards as phi_r(o)'theta^i and refers to Appendix C.6, which "
    "applies Theorem 1. The objective features are then Phi = phi phi_r', and Theorem 1 needs nu "
    "of Phi; its counterexample (affpcl.thm1_main) can be had with rewards. A state o is a "
    "coordinate k of the plane, with even chance, and a sign; the next state is drawn afresh. "
    "phi(o) = e_k, and phi_r(o) is row k of e^2 I + 0.9 J or of e^2 I - 0.9 J, as the sign says, "
    "with a quarter turn J. Half of the agents meet + with probability (1 + e)/2 and have theta = "
    "(1, e/0.9), the others with probability (1 - e)/2 and theta = (1, -e/0.9). delta_env = e, "
    "delta_obj is e/0.9 up to a factor near 1, w^i = 1/2, and G_x and G_b stay bounded as e falls. "
    "But bbar^0 = 0, so that x_*^c = theta_*^c = 0, the central terms vanish at the solutions, and "
    "every agent keeps the noise that it has alone, whose mean square is near 0.4: in coordinate 2 "
    "the reward is near 0.9 or -0.9. lambda^b = e^2/2 is small here, and the bound does not "
    "contain it. Where rewards are linear in phi itself the rate holds for the agent's own step "
    "ln t/(lambda^i t) and Section 4's G_b, with a better power of 1 - gamma "
    "(affpcl.c6_rate_corrected); one step for all agents needs w^i w in the place of (w^i)^2 "
    "(affpcl.c6_rate_linear). "
    + where.SMALLEST
    + " The other regimes have rewards linear in phi. Of their exponents, those in t and in "
    "1/(1 - gamma) are of the error of four agents, that in n of 4 to 64, and that in 1/delta of "
    "the limit of many agents over learning alone. The power of w^i is not measured.",
    corrected="c6_rate_corrected",
)
def c6_rate() -> Sequence[rc.Regime]:
    """Personalised TD(0) with rewards phi_r(o)'theta^i: O((G_x + G_b)^2 / ((1 - gamma)^3 w_i^2 t)
    max{1/n, delta_env, delta_obj}).
    """
    return [
        *rewards_of_values(power=3.0),
        where.against_distance(
            AffPCL(), "reward features with a far centre", turned_rewards, at=where.APART
        ),
    ]


@PAPER.rate(
    "c6_rate_linear",
    ref="Appendix C.6, for rewards that are linear in the features of values",
    printed_as="ours",
    tex=r"R^i=\phi^\top\theta_*^i:\quad\tilde O\left(\frac{(G_x+G_b)^2}{(1-\gamma)^2w^iwt}"
    r"\max\{n^{-1},\delta_{env},\delta_{obj}\}\right),\quad w=\min_jw^j",
    uses=["c6_rate_corrected"],
    note="affpcl.c6_rate_corrected, with the step of the rate. The printed third power comes from "
    "nu <= 2/(1 - gamma), which is false (affpcl.c6_nu) and not needed: E A'A <= (1 + gamma) "
    "sym(Abar) (affpcl.c6_moment). A constant feature and rewards of mean zero attain the second "
    "power: 2.013 at horizons 1/(1 - gamma) from 30 to 300, 2.0004 from 1000 to 10000. "
    + where.SMALLEST
    + " So lambda >= (1 - gamma) w with the smallest w^j. The printed (w^i)^2 is right for the "
    "agent's own step ln t/(lambda^i t) and false for this one: two agents, phi(o) = e_o, gamma = "
    "1/2, even transitions for agent 1, transitions to state 2 with probability e for agent 2, "
    "theta^1 = (1, -1) and theta^2 = 0 give agent 1 an error that grows like 1/e, while w^1 = "
    "1/2. Powers of w^i and w are not measured.",
)
def c6_rate_linear() -> Sequence[rc.Regime]:
    """Personalised TD(0) with rewards phi(o)'theta^i: O~((G_x + G_b)^2 / ((1 - gamma)^2 w^i w t)
    max{1/n, delta_env, delta_obj}), w the smallest w^j, G_b the largest norm of the theta^i and
    of theta_*^c.
    """
    return rewards_of_values(power=2.0)


def rewards_of_values(power: float) -> list[rc.Regime]:
    """Chains whose rewards are linear in phi: in t, n, the distance, and 1/(1 - gamma)^power."""
    rng = np.random.default_rng(11)
    states = 5
    kernel = rng.dirichlet(np.ones(states), size=states)
    # With a constant among the features, lambda is of order 1 - gamma, as small as it may be; with
    # rewards of mean zero, values and noise stay of order one, so that G_x does not hide that.
    features = np.column_stack([np.ones(states), rng.uniform(-1, 1, states)])
    features /= np.linalg.norm(features, axis=1).max()
    other = rng.dirichlet(np.ones(states), size=states)

    def rewards(P: where.Values) -> where.Values:
        reward = features[:, 1] - stationary(P) @ features[:, 1]
        return np.broadcast_to(reward[:, None], (states, states))

    def processes(n: int, gamma: float, apart: float = 0.0) -> FiniteSystem:
        """n agents; kernels and rewards of every other one move away by ``apart``."""
        moved = (1 - apart) * kernel + apart * other
        kinds = np.arange(n) % 2
        signs = np.array([1.0, 1.0 - 2.0 * apart])
        R = np.stack([signs[k] * rewards(P) for k, P in enumerate((kernel, moved))])
        return MarkovRewardProcesses(
            P=np.stack([kernel, moved])[kinds], R=R[kinds], gamma=gamma, features=features
        ).to_finite_system()

    def errors(system: FiniteSystem, t: where.Values) -> where.Values:
        return exact_errors(system, AffPCL(), t.astype(np.int64), [0]).error[:, 0]

    late = np.array([1e12])

    def scaled(gamma: float, apart: float) -> float:
        system = processes(4, gamma, apart)
        longest = np.linalg.norm(system.x_star, axis=1).max()
        return float(errors(system, late)[0] / (longest + 1) ** 2)

    def of_many(apart: float) -> float:
        """Error of many agents over that of learning alone."""
        alone = exact_errors(processes(2, 0.9, apart), Independent(), [10**12], [0]).error[0, 0]
        one, two, four = (float(errors(processes(k, 0.9, apart), late)[0]) for k in (32, 64, 128))
        return (8 * four - 6 * two + one) / 3 / float(alone)

    n, horizon = np.array([4.0, 16.0, 64.0]), np.array([30.0, 100.0, 300.0])
    levels = np.array([0.02, 0.05, 0.1])
    regimes = []
    for name, apart in (("alike", 0.0), ("far apart", 1.0)):
        in_t = errors(processes(4, 0.9, apart), where.TIMES) / np.log(where.TIMES)
        in_horizon = [scaled(1 - 1 / h, apart) for h in horizon]
        regimes += [
            where.exact(
                f"gamma = 0.9, {name}: error / ln t against t",
                "t",
                where.exponent(where.TIMES, [in_t]),
            ),
            where.exact(
                f"{name}: error / (G_x + G_b)^2",
                "1/(1-gamma)",
                where.exponent(horizon, [in_horizon]),
                predicted=power,
            ),
        ]
    in_n = [float(errors(processes(int(v), 0.9), late)[0]) for v in n]
    in_level = where.exponent(1 / levels, [[of_many(v) for v in levels]])
    return [
        *regimes,
        where.exact("gamma = 0.9, alike: error against n", "n", where.exponent(n, [in_n])),
        where.exact("gamma = 0.9, kernels and rewards apart", "1/delta", in_level),
    ]
