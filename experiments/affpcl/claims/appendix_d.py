"""Appendix D of AffPCL: affinities (Lemmas D.1 to D.3)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS
from experiments.affpcl.claims._turning import TURNING, TURNING_OBJECTIVES
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import affinity
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import norm, operator_norm

#: Where all agents agree both sides of a bound by affinities are zero, and their ratio is one of
#: rounding errors.
APART = replace(
    SYSTEMS,
    sizes={**SYSTEMS.sizes, "n": (2, 4)},
    given={"the agents differ": lambda s: s.delta_env + s.delta_obj >= 1e-6},
)

# Lemma D.1.


def rotated(cosine: float) -> dict[str, np.ndarray]:
    """A = I, Phi 0.9 times the rotation by an angle of this cosine, or by minus the angle."""
    sine = np.sqrt(1 - cosine**2)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return {
        "mu": np.full((2, 2), 0.5),
        "A": np.stack([np.eye(2), np.eye(2)]),
        "Phi": 0.9 * np.stack([turn, turn.T]),
        "theta": np.array([[1.0, 0.0], [-1.0, 0.0]]),
        "floor": np.array(0.9 * cosine),
    }


def opposite_turns(damping: float) -> dict[str, np.ndarray]:
    """Two agents with a state each, A = damping I -+ J, theta = 0 and (0, 1)."""
    return {
        "mu": np.eye(2),
        "damping": np.array(damping),
        "turn": np.array([-1.0, 1.0]),
        "theta": np.array([[0.0, 0.0], [0.0, 1.0]]),
    }


def far_centre(gap: float) -> dict[str, np.ndarray]:
    """mu = (1 +- gap, 1 -+ gap) / 2, A = I, Phi = I / 10^4 +- 0.8 J, theta = (1, 0) and 0."""
    return {
        "common": np.array([0.5, 0.5]),
        "own": np.eye(2),
        "level": np.array(gap),
        "damping": np.array(1e-4),
        "turn": np.array([0.8, -0.8]),
        "theta": np.array([[1.0, 0.0], [0.0, 0.0]]),
    }


def _with_average(values: rc.Numbers) -> rc.Numbers:
    """The average over agents and then the agents, shape (B, n+1, ...)."""
    return np.concatenate([values.mean(axis=1, keepdims=True), values], axis=1)


def _pairs(values: rc.Numbers) -> rc.Numbers:
    """f^i - f^j, shape (B, m, m, ...)."""
    return np.asarray(values[:, :, None] - values[:, None])


@PAPER.upper(
    "d1a",
    ref="Lemma D.1 (a)",
    tex=r"\|b^i(s)-b^j(s)\|\le2G_b\delta_{\rm obj},\quad i,j\in[n]^0",
    on=SYSTEMS,
)
def d1a(stack: FiniteStack) -> rc.Sides:
    """||b^i(s) - b^j(s)|| <= 2 G_b delta_obj for i, j in [n]^0 and all s.

    Shape (B, n+1, n+1, S).
    """
    return norm(_pairs(_with_average(stack.b))), 2 * stack.G_b * stack.delta_obj


@PAPER.upper(
    "d1b",
    ref="Lemma D.1 (b)",
    tex=r"\|b^i(s)-b^0(s)\|\le2G_b\delta_{\rm obj}^i",
    on=SYSTEMS,
)
def d1b(stack: FiniteStack) -> rc.Sides:
    """||b^i(s) - b^0(s)|| <= 2 G_b delta_obj^i for all s."""
    gap = stack.b - stack.b.mean(axis=1, keepdims=True)
    return norm(gap), (2 * stack.G_b[:, None] * stack.delta_obj_agent)[..., None]


@PAPER.upper(
    "d1c",
    ref="Lemma D.1 (c)",
    tex=r"\|\bar b^i-\bar b^j\|\le2G_b(\delta_{\rm env}+\delta_{\rm obj}),\quad i,j\in[n]^0",
    on=SYSTEMS,
)
def d1c(stack: FiniteStack) -> rc.Sides:
    """||bbar^i - bbar^j|| <= 2 G_b (delta_env + delta_obj) for i, j in [n]^0."""
    return norm(_pairs(_with_average(stack.b_bar))), 2 * stack.G_b * affinity.universal(stack)


@PAPER.upper(
    "d1d",
    ref="Lemma D.1 (d)",
    uses=["d1b"],
    tex=r"\|\bar b^i-\bar b^0\|\le2G_b\delta_{\rm cen}^i\le2G_b\min\{1,\delta_{\rm env}^i+"
    r"\delta_{\rm obj},\delta_{\rm env}+\delta_{\rm obj}^i\}",
    on=SYSTEMS,
)
def d1d(stack: FiniteStack) -> rc.Sides:
    """||bbar^i - bbar^0|| and 2 G_b delta_cen^i are at most 2 G_b min{1, delta_env^i + delta_obj,
    delta_env + delta_obj^i}.

    Shape (B, 2, n).
    """
    scale = 2 * stack.G_b[:, None]
    near = np.minimum(
        stack.delta_env_agent + stack.delta_obj[:, None],
        stack.delta_env[:, None] + stack.delta_obj_agent,
    )
    gap = norm(stack.b_bar - stack.b_bar0[:, None])
    return affinity.stack_two(gap, scale * stack.delta_cen), (scale * np.minimum(1, near))[:, None]


@PAPER.upper(
    "d1e",
    ref="Lemma D.1 (e)",
    uses=["d1d"],
    tex=r"\|\mathbb{E}_{\mu^j}[b^i(s)-b^c(s)]\|\le2\sigma\delta_{\rm cen}^i,\quad j\in\{0,i\}",
    on=SYSTEMS,
    note="Approached, not attained: Phibar^i = p J and Phibar^0 = q J, J a quarter turn, with "
    "theta_*^c = -theta^i give the ratio p / (p + q). The same of Abar in (i).",
)
def d1e(stack: FiniteStack) -> rc.Sides:
    """||E_{mu^j}[b^i - b^c]|| <= 2 sigma delta_cen^i for j = i and j = 0.

    Shape (B, 2, n).
    """
    gap = affinity.stack_two(
        norm(apply(stack.Phi_bar, affinity.objective_gap(stack))),
        norm(apply(stack.Phi_bar0[:, None], affinity.objective_gap(stack))),
    )
    return gap, affinity.feature_bound(stack, stack.sigma)


@PAPER.upper(
    "d1f",
    ref="Lemma D.1 (f)",
    uses=["d1c"],
    tex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    on=SYSTEMS,
    note="At most half of the bound is needed, and no delta_env: see the sharpened form.",
)
def d1f(stack: FiniteStack) -> rc.Sides:
    """||theta_*^i - theta_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, with lambda the least
    over all Abar^i and Phibar^i.

    Shape (B, n).
    """
    bound = 2 * stack.sigma * affinity.universal(stack) / stack.lambda_both
    return norm(affinity.objective_gap(stack)), bound


@PAPER.upper(
    "d1f_sec12",
    ref="Lemma D.1 (f), with Section 1.2's lambda",
    reading="Section 1.2 is where the paper defines lambda, by the matrices of A; the lemma's "
    "statement names no other one.",
    tex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda_A^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    on=SYSTEMS,
    expect="violated",
    note="The proof inverts Phibar^0, of which Section 1.2's lambda knows nothing. A = 10, Phi = "
    "1/10, theta = +-1 in one environment: 1 against 2/10 * 2 * 1 = 0.4. The lemma's own lambda, "
    "introduced in its proof, includes Phi; the printed statement is safe with it.",
    corrected="d1f",
    reading_of="d1f",
)
def d1f_sec12(stack: FiniteStack) -> rc.Sides:
    """||theta_*^i - theta_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, with lambda = min_i
    lambda_min(sym Abar^i).
    """
    measured, bound = d1f(stack)
    return measured, bound * stack.lambda_both / stack.lambda_A


@PAPER.upper(
    "d1f_sharper",
    ref="Lemma D.1 (f), sharpened",
    tex=r"\|\theta_*^i-\theta_*^c\|\le(1-\tfrac1n)(\lambda^b)^{-1}\,2G_b\,\delta_{\rm obj}",
    on=SYSTEMS,
    derivation="Phibar^0 theta_*^c = (1/n) sum_j Phibar^j theta^j, hence Phibar^0 (theta^i - "
    "theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j). The term j = i is zero, the others "
    "are at most ||theta^i - theta^j|| <= 2 G_b delta_obj, and ||(Phibar^0)^{-1}|| <= "
    "1/lambda^b. 2 G_b <= sigma and lambda <= lambda^b give (f) with half of its constant.",
    sharpens="d1f",
)
def d1f_sharper(stack: FiniteStack) -> rc.Sides:
    """||theta_*^i - theta_*^c|| <= (1 - 1/n) 2 G_b delta_obj / lambda^b; no delta_env.

    Shape (B, n).

    From Phibar^0 (theta^i - theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j): agents far
    apart in their environments are none the further from the central objective.
    """
    spread = 2 * stack.G_b * stack.delta_obj
    bound = (stack.n - 1) * spread / (stack.n * stack.lambda_b)
    return norm(affinity.objective_gap(stack)), bound


@PAPER.upper(
    "d1g",
    ref="Lemma D.1 (g)",
    tex=r"\|\bar A^i-\bar A^j\|\le2G_A\delta_{\rm env},\quad i,j\in[n]^0",
    on=SYSTEMS,
)
def d1g(stack: FiniteStack) -> rc.Sides:
    """||Abar^i - Abar^j|| <= 2 G_A delta_env for i, j in [n]^0.

    Shape (B, n+1, n+1).
    """
    return operator_norm(_pairs(_with_average(stack.A_bar))), 2 * stack.G_A * stack.delta_env


@PAPER.upper(
    "d1h",
    ref="Lemma D.1 (h)",
    tex=r"\|\bar A^i-\bar A^0\|\le2G_A\delta_{\rm env}^i",
    on=SYSTEMS,
)
def d1h(stack: FiniteStack) -> rc.Sides:
    """||Abar^i - Abar^0|| <= 2 G_A delta_env^i.

    Shape (B, n).
    """
    gap = operator_norm(stack.A_bar - stack.A_bar0[:, None])
    return gap, 2 * stack.G_A[:, None] * stack.delta_env_agent


@PAPER.upper(
    "d1i",
    ref="Lemma D.1 (i)",
    uses=["d1h"],
    tex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad j\in\{0,i\}",
    on=SYSTEMS,
)
def d1i(stack: FiniteStack) -> rc.Sides:
    """||E_{mu^j}[A(s)(x_*^i - x_*^c)]|| <= 2 sigma delta_cen^i for j = i and j = 0, with x_*^c in
    G_x.

    Shape (B, 2, n).
    """
    gap = affinity.stack_two(
        norm(apply(stack.A_bar, affinity.decision_gap(stack))),
        norm(apply(stack.A_bar0[:, None], affinity.decision_gap(stack))),
    )
    return gap, affinity.feature_bound(stack, stack.sigma)


@PAPER.upper(
    "d1i_sec12",
    ref="Lemma D.1 (i), with Section 1.2's G_x",
    family=[opposite_turns(damping) for damping in (0.2, 0.1, 0.05)],
    reading="Section 1.2 is where the paper defines G_x, without x_*^c; the lemma's statement "
    "names no other one.",
    tex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad G_x=\max_i\|x_*^i\|",
    on=TURNING,
    expect="violated",
    note="The proof bounds (Abar^i - Abar^0) x_*^c by 2 G_A delta_env^i G_x, so G_x has to "
    "contain ||x_*^c||, which d >= 2 lets exceed every ||x_*^i||. Two agents with a state each, "
    "A = I/10 -+ J (J a quarter turn), Phi = I, theta = 0 and (0, 1): ||x_*^i|| < 1, x_*^c = (0, "
    "5), and the left side is 5.02 against 2. Appendix C.6 has the G_x that is needed.",
    corrected="d1i",
    reading_of="d1i",
)
def d1i_sec12(stack: FiniteStack) -> rc.Sides:
    """||E_{mu^j}[A(s)(x_*^i - x_*^c)]|| <= 2 sigma delta_cen^i for j = i and j = 0, with G_x =
    max_i ||x_*^i||.
    """
    return d1i(stack)[0], affinity.feature_bound(stack, affinity.sigma_agents(stack))


@PAPER.upper(
    "d1j",
    ref="Lemma D.1 (j)",
    uses=["d1c", "d1g"],
    tex=r"\|x_*^i-x_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    on=APART,
    note="Approached with 1 - 1/n where environments alone differ: A = (1, -1, 1/2) in three "
    "states, Phi = (-1, 1, 1/2), theta = 1 and four agents, three with mu = (1/4, 1/4, 1/2), one "
    "with (0.251, 0.249, 1/2), have 0.0119 against 0.0161. Half of it is enough where objectives "
    "alone differ.",
)
def d1j(stack: FiniteStack) -> rc.Sides:
    """||x_*^i - x_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda.

    Shape (B, n).
    """
    bound = 2 * stack.sigma * affinity.universal(stack) / stack.lambda_both
    return norm(affinity.decision_gap(stack)), bound


@PAPER.upper(
    "d1j_sharper",
    ref="Lemma D.1 (j), sharpened",
    tex=r"\|x_*^i-x_*^c\|\le(1-\tfrac1n)(\lambda^c)^{-1}\sigma(2\delta_{\rm env}+"
    r"\delta_{\rm obj})",
    on=SYSTEMS,
    derivation="Abar^0 (x_*^i - x_*^c) = (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - "
    "bbar^j]. The term j = i is zero; by (g) and (c) the others are at most 2 G_A G_x delta_env "
    "+ 2 G_b (delta_env + delta_obj) <= sigma (2 delta_env + delta_obj). Only x_*^i occurs.",
    sharpens="d1j",
)
def d1j_sharper(stack: FiniteStack) -> rc.Sides:
    """||x_*^i - x_*^c|| <= (1 - 1/n) sigma (2 delta_env + delta_obj) / lambda^c, with Section 1.2's
    G_x in sigma.

    Shape (B, n).

    sigma has Section 1.2's G_x, without x_*^c, and Section 4's G_b. From Abar^0 (x_*^i - x_*^c) =
    (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - bbar^j], whose term j = i is zero.
    """
    scores = 2 * stack.delta_env + stack.delta_obj
    bound = (stack.n - 1) * affinity.sigma_agents(stack) * scores / (stack.n * stack.lambda_c)
    return norm(affinity.decision_gap(stack)), bound


# Lemma D.2.


@PAPER.upper(
    "d2_A",
    ref="Lemma D.2, first half",
    uses=["d1i"],
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\}",
    on=SYSTEMS,
)
def d2_A(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, with x_*^c in G_x."""
    return affinity.d2_A(stack)


@PAPER.upper(
    "d2_A_sec12",
    ref="Lemma D.2, first half, with Section 1.2's G_x",
    family=[opposite_turns(damping) for damping in (0.2, 0.1, 0.05)],
    reading="Section 1.2 is where the paper defines G_x, without x_*^c; the lemma's statement "
    "names no other one.",
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\},"
    r"\quad G_x=\max_i\|x_*^i\|",
    on=TURNING,
    expect="violated",
    note="The proof uses ||x_*^i - x_*^c|| <= 2 G_x. In the counterexample to (i) the left side "
    "is 25.25 against 4; with A = e I -+ J it grows like 1/e^2 while the bound stays. Lemma G.3 "
    "and so Theorem 1 need x_*^c in the G_x of sigma as well.",
    corrected="d2_A",
    reading_of="d2_A",
)
def d2_A_sec12(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, with G_x = max_i
    ||x_*^i||.
    """
    bound = 2 * affinity.sigma_agents(stack)[:, None] ** 2 * stack.delta_cen_effective
    return affinity.mean_square_in_features(stack, stack.A, affinity.decision_gap(stack)), bound


@PAPER.upper(
    "d2_A_sharper",
    ref="Lemma D.2, first half, sharpened",
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le\sigma^2\min\{1,2\nu^i"
    r"\delta_{\rm cen}^i\}",
    on=SYSTEMS,
    derivation="The paper's two bounds before they are merged: (2 G_A G_x)^2 <= sigma^2, and 2 "
    "G_A G_x ||Dbar^i (Abar^i)^{-1}|| 2 sigma delta_cen^i, in which only agent i's own nu "
    "occurs.",
    sharpens="d2_A",
)
def d2_A_sharper(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= sigma^2 min{1, 2 nu^i delta_cen^i}, with x_*^c in the
    G_x of sigma.
    """
    effective = np.minimum(1, 2 * stack.nu_agent * stack.delta_cen)
    return affinity.mean_square_in_features(
        stack, stack.A, affinity.decision_gap(stack)
    ), stack.sigma[:, None] ** 2 * effective


@PAPER.upper(
    "d2_Phi",
    ref="Lemma D.2, second half",
    uses=["d1e"],
    family=[rotated(cosine) for cosine in (0.2, 0.1, 0.05)],
    tex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu\delta_{\rm cen}^i\}",
    on=SYSTEMS,
    main=True,
    expect="violated",
    note="The proof, 'similarly', puts Phi in the place of A, hence in Definition 3 as well, "
    "while nu there is that of A. A = I has nu = 1; Phi a rotation by +-phi with cos(phi) = "
    "0.05, each with probability 1/2, theta = +-(1, 0): 1 against 8 * 0.025 = 0.2. Lemma G.3, "
    "(9) and Theorem 1 of Appendix G.1 need the larger one of nu of A and nu of Phi (here 20) in "
    "the effective affinity. Where every Phi(s) is symmetric and positive semi-definite, as for "
    "the one-hot features of a finite S (Appendix C.2), nu of Phi is 1 <= nu, and nothing has to "
    "change in them for this reason.",
    corrected="d2_Phi_corrected",
)
def d2_Phi(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}."""
    bound = 2 * stack.sigma[:, None] ** 2 * stack.delta_cen_effective
    return affinity.mean_square_in_features(stack, stack.Phi, affinity.objective_gap(stack)), bound


@PAPER.upper(
    "d2_Phi_universal",
    ref="Lemma D.2, second half, with the affinities of Theorem 1 (Section 5)",
    printed_as="ours",
    family=[far_centre(gap) for gap in (0.05, 0.02, 0.01)],
    reading="Theorem 1 of Section 5 needs the lemma with delta_env + delta_obj only, which is "
    "weaker.",
    tex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu(\delta_{\rm env}+\delta_{\rm obj})\}",
    on=TURNING_OBJECTIVES,
    expect="violated",
    note="delta_cen^i is at most delta_env + delta_obj, so this is weaker than the lemma, and "
    "true in one environment, where theta_*^c is the agents' mean. Two agents with mu = (0.51, "
    "0.49) and (0.49, 0.51), A = I, Phi = I/10^4 +- 0.9 J (J a quarter turn), theta = (1, 0) and "
    "0: theta_*^c = (0.5, 90), nu = 1, delta_env = 0.02, delta_obj = 0.0056, and the left side is "
    "6561 against 1656. With the gap of mu and Phi's multiple of I like m and m^3, the "
    "quotient grows like 1/m: Theorem 1 of Section 5 needs nu of Phi as well.",
    corrected="d2_Phi_corrected",
    reading_of="d2_Phi",
)
def d2_Phi_universal(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu (delta_env +
    delta_obj)}.
    """
    effective = np.minimum(1, stack.nu * affinity.universal(stack))
    bound = 2 * stack.sigma**2 * effective
    return affinity.mean_square_in_features(stack, stack.Phi, affinity.objective_gap(stack)), bound


@PAPER.upper(
    "d2_Phi_corrected",
    ref="Lemma D.2, second half, corrected",
    uses=["d1e"],
    tex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu_\Phi\delta_{\rm cen}^i\}",
    on=SYSTEMS,
    derivation="With v = theta^i - theta_*^c, ||v|| <= 2 G_b, and D = sqrt(Phi' Phi) <= I: "
    "E||Phi v||^2 <= ||v|| ||Dbar v|| <= 2 G_b nu_Phi ||Phibar^i v|| <= 2 G_b nu_Phi 2 sigma "
    "delta_cen^i by (e), and 2 G_b <= sigma. On the other hand E||Phi v||^2 <= (2 G_b)^2 <= "
    "sigma^2.",
)
def d2_Phi_corrected(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu_Phi delta_cen^i}, nu_Phi =
    max_i ||E_{mu^i} sqrt(Phi' Phi) (Phibar^i)^{-1}||.
    """
    effective = np.minimum(1, stack.nu_Phi[:, None] * stack.delta_cen)
    bound = 2 * stack.sigma[:, None] ** 2 * effective
    return affinity.mean_square_in_features(stack, stack.Phi, affinity.objective_gap(stack)), bound


# Lemma D.3.


def _pair(mu: Any, rest: Any, share: Any) -> SimpleNamespace:
    """mu and mu' = share mu + (1 - share) rest: any mu' that is positive where mu is."""
    mixed = share[:, None] * mu + (1 - share[:, None]) * rest
    return SimpleNamespace(mu=mu, other=mixed)


@PAPER.upper(
    "d3",
    ref="Lemma D.3",
    tex=r"\chi^2(\mu,\mu')\le\max\{\|\mu/\mu'\|_\infty,1\}\|\mu-\mu'\|_{\rm TV}",
    on=rc.Space(
        fields={
            "mu": rc.simplex("S"),
            "rest": rc.simplex("S"),
            "share": rc.positive(low=1e-4, high=1.0),
        },
        sizes={"S": (1, 5)},
        view=_pair,
        batched=True,
        meaning={
            "rest": "the distribution q in mu' = share mu + (1 - share) q",
            "share": "the weight of mu in mu'",
        },
    ),
)
def d3(mu: rc.Numbers, other: rc.Numbers) -> rc.Sides:
    """chi^2(mu, mu') <= max{||mu/mu'||_inf, 1} ||mu - mu'||_TV.

    Shape (...).

    Args:
        mu, other: mu and mu', shapes (..., S), with mu' > 0 wherever mu > 0. (Elsewhere both sides
            are infinite.)
    """
    ratio = mu / np.where(other == 0, 1, other)
    chi2 = ((1 - ratio) ** 2 * other).sum(axis=-1)
    # as one half only: where mu' is far below mu, the other one is lost in rounding
    total_variation = np.maximum(mu - other, 0).sum(axis=-1)
    return chi2, np.maximum(ratio.max(axis=-1), 1) * total_variation
