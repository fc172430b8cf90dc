"""OOD-PL, Assumptions 1 to 4: what satisfies them, and where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._spaces import (
    JETS,
    OTHER,
    PAIRS,
    POINTS,
    SMOOTH,
    STRONG_POINTS,
    domains,
    points,
    printed,
    smooth_domain,
    true,
)
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import smoothness as at
from experiments.oodpl.theory.bilevel import System
from experiments.oodpl.theory.constants import PolicyConstants
from linsys.linalg import norm, operator_norm


def _far(*, psi: Any, **fields: Any) -> SimpleNamespace:
    """theta and ``other`` at the distance (1 + more) d / mu, d the diameter of psi."""
    mu, along, more = (fields.pop(name) for name in ("mu", "along", "more"))
    s = smooth_domain(psi=psi, **fields)
    other = s.theta - ((1 + more) * s.policy.d / mu)[:, None] * along
    return SimpleNamespace(system=s.system, theta=s.theta, other=other, mu=mu)


#: A constant mu that a reader might hope for; in ANY_MU one that is right at theta = 0.
CONSTANT = {"mu": rc.positive(low=0.001, high=10.0)}
ANY_MU = domains(
    {**OTHER, **CONSTANT},
    {"q": (1, 1)},
    given={"mu at theta = 0": lambda s: PolicyConstants(s.system.policy, 0 * s.mu).mu >= s.mu},
)
DISTANT = domains(
    {**CONSTANT, "along": rc.sphere("p"), "more": rc.positive(low=0.001, high=1.0)},
    {"q": (1, 1)},
    view=_far,
    meaning={"along": "the direction of theta - theta'", "more": "distance over d/mu, less one"},
)
#: Balls on which Assumption 1 holds with some mu > 0.
CONVEX = domains(given={"mu > 0": lambda s: s.policy.mu > 1e-6})
REWARDS = domains({**OTHER, "other_phi": rc.ball("q")}, view=smooth_domain)


#: r = 0: b = B = 1, and e^(r/beta) = 1.
_FLAT: dict[str, Any] = {
    "psi": [[[-1.0], [1.0]]],
    "log_h": [[0.0, 0.0]],
    "xi": [[[0.0], [0.0]]],
    "r0": [[0.0, 0.0]],
    "D": [1.0],
    "log_mu": [[0.0, 0.0]],
    "R": 1.0,
    "at": [0.0],
    "phi": [0.0],
}


@PAPER.upper(
    "A1",
    ref="Assumption 1",
    tex=r"\langle\nabla\log\pi_{\theta'}-\nabla\log\pi_\theta,\theta-\theta'\rangle\ge\mu\|\theta"
    r"-\theta'\|^2\quad\forall\theta,\theta'",
    on=ANY_MU,
    expect="violated",
    printed_as="assumption",
    note="An assumption that nothing meets: with finitely many answers no policy satisfies it on "
    "the whole space. All -log pi(y|x) would grow like mu ||theta||^2/2, and the least of them is "
    "at most log Y. With Assumption 2 it is contradictory for any function: a gradient of size M "
    "at most cannot grow by mu ||theta - theta'||. So Theorem 1, which has no set of theta, is "
    "about nothing as printed. On a ball it can be met, ood.A1_ball, and only on sets no wider "
    "than sqrt(8 C/mu), ood.A1_diameter; that the iterates stay there is one more thing to prove.",
    corrected="A1_corrected",
    main=True,
)
def A1(system: System, theta: rc.Numbers, other: rc.Numbers, mu: rc.Numbers) -> rc.Sides:
    """There are mu > 0 and policies with -log pi_theta(y|x) mu-strongly convex on the whole space:
    here exponential families, and a mu that is right at theta = 0.

    With D = theta - other; the change is the same for all answers.
    """
    policy, apart = system.policy, theta - other
    change = policy.gradient(other)[..., 0, :] - policy.gradient(theta)[..., 0, :]
    gained = (change * apart[..., None, :]).sum(axis=-1)
    return np.asarray((mu * (apart * apart).sum(axis=-1))[..., None] + 0 * gained), gained


@PAPER.lower(
    "A1_corrected",
    ref="Assumption 1 on the whole space",
    tex=r"\langle\nabla\log\pi_{\theta'}-\nabla\log\pi_\theta,\theta-\theta'\rangle\le\mu\|\theta"
    r"-\theta'\|^2,\quad\|\theta-\theta'\|\ge d/\mu",
    on=DISTANT,
    derivation="The change of grad log pi is E_theta' psi - E_theta psi, a difference of two means "
    "of psi: at most d.",
)
def A1_corrected(system: System, theta: rc.Numbers, other: rc.Numbers, mu: rc.Numbers) -> rc.Sides:
    """For every mu > 0, strong convexity fails between any two theta at a distance of d/mu or more,
    d the diameter of psi.
    """
    return A1(system, theta, other, mu)


@PAPER.upper(
    "A1_ball",
    ref="Assumption 1 on the ball ||theta|| <= R",
    tex=r"\mu=e^{-Rd}\min_x\lambda_{\min}\big(\operatorname{Cov}_0\psi(x,\cdot)\big)",
    on=PAIRS,
    printed_as="ours",
    derivation="pi_theta >= e^(-R d) pi_0, and Var_theta(v.psi) = min_c E_theta (v.psi - c)^2 >= "
    "e^(-R d) Var_0(v.psi). Positive where the differences of psi(x, .) span the whole space, for "
    "every prompt: with p parameters, p + 1 answers at least.",
)
def A1_ball(system: Any, theta: Any, other: Any, policy: Any) -> rc.Sides:
    """For exponential families with features psi, -log pi_theta(y|x) is strongly convex on
    ||theta|| <= R with mu = e^(-R d) min_x lambda_min(Cov_0 psi(x, .)), Cov_0 under pi_0, d the
    largest diameter of the psi(x, .).
    """
    return A1(system, theta, other, policy.mu)


@PAPER.upper(
    "A1_diameter",
    ref="Assumptions 1, 2 and 3 together",
    tex=r"\operatorname{diam}\le\min\big\{2M/\mu,\sqrt{8C/\mu}\big\}",
    on=CONVEX,
    printed_as="ours",
    derivation="mu D <= ||change of the gradient|| <= 2M at two points at distance D; and 0 <= "
    "f(midpoint) <= C - mu D^2/8, f = -log pi. With the explicit mu of ood.A1_ball both bounds "
    "stay far from the diameter.",
)
def A1_diameter(policy: PolicyConstants) -> rc.Sides:
    """A convex set on which -log pi is mu-strongly convex has a diameter of at most 2M/mu and of at
    most sqrt(8C/mu).

    Shape (..., 2).
    """
    whole = 2 * policy.R
    most = 2 * policy.M / policy.mu, np.sqrt(8 * policy.C / policy.mu)
    return at.pairs(*((whole, side) for side in most))


@PAPER.upper(
    "A1_fisher",
    ref="Assumptions 1 and 2 together, for any policy with p parameters",
    tex=r"p\mu\le M^2",
    on=JETS,
    printed_as="ours",
    derivation="sum_y pi(y) = 1 gives -E Hess log pi = E (grad log pi)(grad log pi)'. The trace of "
    "the left side is at least p mu, that of the right side at most M^2.",
)
def A1_fisher(fisher: Any) -> rc.Sides:
    """p mu <= M^2."""
    return fisher()


@PAPER.upper(
    "A2",
    ref="Assumption 2",
    tex=r"L=\min\{\tfrac{d^2}4,e^{Rd}\|\operatorname{Cov}_0\|\},\ M=\min\{d,\max\|\psi-\mathbb"
    r" E_0\psi\|+RL\},\ \rho=\tfrac{d^3}{6\sqrt3}",
    on=REWARDS,
    printed_as="ours",
    derivation="Derivatives of log pi: psi - E psi, -Cov psi and the third central moment, of a "
    "variable with range d; d, d^2/4 and d^3/(6 sqrt 3) hold for all theta. On the ball pi_theta "
    "<= e^(R d) pi_0. The slope of 1 - tanh^2 is at most 4/(3 sqrt 3).",
)
def A2(instance: Any) -> rc.Sides:
    """Exponential families with bounded rewards satisfy (14) to (18) on the ball ||theta|| <= R: L
    = min(d^2/4, e^(R d) max_x ||Cov_0||), M = min(d, max ||psi - E_0 psi|| + R L), rho = d^3/(6
    sqrt 3), T = max ||xi||, P = 4 T^2/(3 sqrt 3), d the diameter of the features psi(x, .), for
    rewards r0 + tanh(xi.phi).
    """
    system, policy, reward = instance.system, instance.policy, instance.reward
    (theta, other), phi, other_phi = points(instance), instance.phi, instance.other_phi
    far, far_phi = norm(theta - other), norm(phi - other_phi)
    values = np.abs(system.policy.log_pi(theta) - system.policy.log_pi(other))
    slopes = norm(system.policy.gradient(theta) - system.policy.gradient(other))
    curvatures = operator_norm(system.policy.hessian(theta) - system.policy.hessian(other))
    rewards = np.abs(system.reward.values(phi) - system.reward.values(other_phi))
    by_phi = norm(system.reward.gradient(phi) - system.reward.gradient(other_phi))
    return at.pairs(
        (values.max(axis=(-2, -1)), policy.M * far),
        (slopes.max(axis=(-2, -1)), policy.L * far),
        (curvatures.max(axis=-1), policy.rho * far),
        (rewards.max(axis=(-2, -1)), reward.T * far_phi),
        (by_phi.max(axis=(-2, -1)), reward.P * far_phi),
    )


@PAPER.upper(
    "A3",
    ref="Assumption 3",
    tex=r"b\le e^{r_\phi}\le B,\ |\log\pi_\theta|\le C",
    on=POINTS,
    printed_as="ours",
    derivation="log pi_theta - log pi_0 is between -R d and R d. For all theta no C exists unless "
    "psi(x, .) is constant for each x; bounded rewards have b and B for all phi.",
)
def A3(system: Any, phi: Any, theta: Any, policy: Any, reward: Any) -> rc.Sides:
    """Exponential families satisfy it on the balls ||theta|| <= R, ||phi|| <= 1: C = max |log pi_0|
    + R d, d the diameter of psi, and b, B = exp(min (r0 - ||xi||)), exp(max (r0 + ||xi||)) for the
    linear rewards r0 + xi.phi.
    """
    values = np.exp(system.reward.values(phi))
    return at.pairs(
        (reward.b, values.min(axis=(-2, -1))),
        (values.max(axis=(-2, -1)), reward.B),
        (np.abs(system.policy.log_pi(theta)).max(axis=(-2, -1)), policy.C),
    )


@PAPER.upper(
    "exp_r_beta",
    ref="Appendix C, what all proofs take from Assumption 3",
    tex=r"\frac b{e^\beta}\le e^{r_\phi/\beta}\le\frac B{e^\beta}",
    on=STRONG_POINTS,
    expect="violated",
    note="That is the range of exp(r - beta). With r = 0, b = B = 1 the middle is 1 and the bound "
    "e^-beta. Every constant with e^beta in Lemmas 1 to 5 and Theorem 1 comes from it: for a large "
    "beta they say that the inner loss becomes flat and very smooth, while e^(r/beta) tends to 1 "
    "and the inner loss to that of supervised fine-tuning, with the curvature between mu and L. "
    "The upper bound is true only for log B >= beta^2/(beta - 1), beta > 1, or log B <= -beta^2/(1 "
    "- beta), beta < 1. Whoever reads b and B as numbers with b/e^beta <= exp(r/beta) <= B/e^beta, "
    "or takes them so far apart that this holds, has other names for bounds of exp(r/beta): the "
    "claims with b^(1/beta) and B^(1/beta) are about that reading.",
    corrected="exp_r_beta_corrected",
    printed_as="proof step",
    family=[{**_FLAT, "beta": beta} for beta in (0.5, 1.0, 4.0)],
    main=True,
)
def exp_r_beta(instance: Any) -> rc.Sides:
    """b/e^beta <= exp(r/beta) <= B/e^beta."""
    return at.tilts(instance.system, instance.phi, printed(instance))


@PAPER.upper(
    "exp_r_beta_corrected",
    ref="Appendix C: the range of exp(r/beta)",
    tex=r"b^{1/\beta}\le e^{r_\phi/\beta}\le B^{1/\beta}",
    on=POINTS,
    derivation="exp(r/beta) = (exp r)^(1/beta), increasing in exp r.",
    main=True,
)
def exp_r_beta_corrected(instance: Any) -> rc.Sides:
    """b^(1/beta) <= exp(r/beta) <= B^(1/beta)."""
    return at.tilts(instance.system, instance.phi, true(instance))


@PAPER.upper(
    "A4",
    ref="Assumption 4, (21) as step (i) of Lemma 5 uses it",
    tex=r"\mathbb E_z\|\nabla_\theta\mathcal L_{FT}-\nabla_\theta\ell_{FT}\|^2\le\sigma\ "
    r"\Rightarrow\ \le\sigma^2",
    on=STRONG_POINTS,
    expect="violated",
    note="sigma^2 is meant, as in (22) to (24); (23) also lacks its norm. For sigma < 1 the term "
    "alpha^2 sigma^2 of Lemma 5 would be too small.",
    corrected="A4_corrected",
    printed_as="misprint",
)
def A4(instance: Any) -> rc.Sides:
    """E||grad L_FT - grad l_FT||^2, which (21) bounds by sigma, is at most sigma^2."""
    return _variance_squared(instance)


@PAPER.upper(
    "A4_corrected",
    ref="Assumption 4, a consequence of Assumptions 1 to 3",
    tex=r"\sigma=B^{1/\beta}M,\quad\sigma_1=\frac{B^{1/\beta}MT}\beta,\quad\sigma_2=B^{1/\beta}L",
    on=SMOOTH,
    derivation="A variance of vectors or, with Frobenius norms, of matrices is at most the second "
    "moment, and grad_phi grad_theta l_FT has rank one. Hessians of l_FT lie between 0, by "
    "Assumption 1, and B^(1/beta) L, so they differ from their mean by no more. sigma_1 falls "
    "like 1/beta: no term of Theorem 1 with it is free of beta.",
)
def A4_corrected(instance: Any) -> rc.Sides:
    """(21) to (23), with squares, hold with sigma = B^(1/beta) M, sigma_1 = sigma T/beta and
    sigma_2 = B^(1/beta) L.
    """
    return _variances(instance)


def _variance_squared(s: Any) -> Any:
    """(21): its left side, the least sigma, and the square of that."""
    variance = at.deviations(s.system, s.phi, s.theta)[0]
    return variance, variance**2


def _variances(s: Any) -> Any:
    """The three mean squares, and those of the corrected constants."""
    most, constants = true(s)[1], s.policy
    sigmas = most * constants.M, most * constants.M * s.reward.T / s.system.beta
    variances = np.stack(at.deviations(s.system, s.phi, s.theta), axis=-1)
    return variances, np.stack([*sigmas, most * constants.L], axis=-1) ** 2
