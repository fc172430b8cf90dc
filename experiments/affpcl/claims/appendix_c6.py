"""Appendix C.6 of AffPCL: policy evaluation by temporal differences."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import chain_space
from experiments.affpcl.claims.dynamics import error_of_affpcl
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import bellman
from experiments.affpcl.theory.stack import FiniteStack, apply, transpose
from linsys.linalg import lambda_min, norm, solve

# Chains with features of length at most one in their stationary law; see chain_space.
CHAINS = chain_space("n", sizes={"n": (1, 2)})
REWARDED = chain_space("n", {"R": rc.reals("n", "O", "O")}, sizes={"n": (1, 2)})
WEIGHTED = chain_space("n", {"theta": rc.reals("n", "d")}, sizes={"n": (1, 2)})


@PAPER.identity(
    "c6_bellman",
    ref="Appendix C.6, equation (15)",
    tex=r"\Phi x_*^i=\Pi_{\pi^i}(R^i+\gamma P^i\Phi x_*^i)",
    on=REWARDED,
)
def c6_bellman(stack: FiniteStack) -> rc.Sides:
    """The values phi^T x_*^i of A = phi (phi - gamma phi')^T, b = phi R^i with rewards R^i, are the
    projection, in the norm of pi^i on the span of the features, of their Bellman backup R^i + gamma
    P^i V.

    Rewards R^i(o, o') are the array ``R`` (B, n, O, O). The backup is R^i(o) + gamma (P^i V)(o),
    and the projection is that of the norm ||.||_{pi^i} on the span of the features.
    """
    phi, pi = stack.phi[:, None], stack.pi
    reward = (stack.P * stack.R).sum(axis=-1)
    b_bar = (stack.mu * stack.R.reshape(stack.mu.shape)) @ bellman.features_here(stack)
    values = apply(phi, solve(stack.A_bar, b_bar))
    backup = reward + stack.gamma[:, None, None] * apply(stack.P, values)
    weighted = apply(transpose(phi), pi * backup)
    return values, apply(phi, solve(stack.Phi_bar, weighted))


@PAPER.upper(
    "c6_const",
    ref="Appendix C.6",
    tex=r"G_A\le1+\gamma\le2,\quad\sigma\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty\}",
    on=REWARDED,
    note="G_b here bounds b^i(s), as in Section 1.2. Section 4's G_b bounds weights theta^i, "
    "which rewards do not bound; see affpcl.c6_const_weights.",
)
def c6_const(stack: FiniteStack) -> rc.Sides:
    """||phi|| <= 1 and rewards R^i: G_A <= 1 + gamma <= 2, and sigma <= 2 max{(1 + gamma) G_x, max
    |R^i|}, where sigma = 2 max{G_A G_x, max_i sup_s ||b^i(s)||}.

    Rewards are the array ``R`` (B, n, O, O), b^i = phi R^i, G_b = max_i sup_s ||b^i(s)|| and
    G_x = max{max_i ||x_*^i||, ||x_*^c||} of these objectives.
    """
    R = stack.R.reshape(stack.mu.shape)
    b = R[..., None] * bellman.features_here(stack)[:, None]
    b_bar = (stack.mu[..., None] * b).sum(axis=2)
    x, x_c = solve(stack.A_bar, b_bar), solve(stack.A_bar0, b_bar.mean(axis=1))
    G_x = np.maximum(norm(x).max(axis=1), norm(x_c))
    G_b = norm(b).max(axis=(1, 2))
    sigma = 2 * np.maximum(stack.G_A * G_x, G_b)
    step = 1 + stack.gamma
    stated = 2 * np.maximum(step * G_x, np.abs(R).max(axis=(1, 2)))
    return (
        np.stack([stack.G_A, step, sigma], axis=1),
        np.stack([step, 2 + 0 * step, stated], axis=1),
    )


@PAPER.upper(
    "c6_const_weights",
    ref="Appendix C.6 with Section 4's G_b",
    reading="Theorem 1 takes G_b from Section 4, where it bounds weights; Appendix C.6 bounds "
    "rewards and calls that G_b.",
    tex=r"2\max\{G_AG_x,\max_i\|\theta_*^i\|,\|\theta_*^c\|\}"
    r"\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty\}",
    on=WEIGHTED,
    expect="violated",
    note="Theorem 1 uses Section 4's G_b, which bounds the weights of the objective; Appendix C.6 "
    "sets G_b >= max |R^i| as if it were Section 1.2's. Weights can exceed both rewards and "
    "solutions where features are short: with n = 1, gamma = 0.3, independent transitions to "
    "three states with chances 0.2, 0.2, 0.6, features (0.1, 0, 0), (0, 1, 0), (0.7, 0, 0.1) and "
    "theta = (0, 0, 1), sigma = 2 > 1.56. The rate of Appendix C.6 is corrected with G_b >= "
    "max{max_i ||theta^i||, ||theta_*^c||} (affpcl.c6_rate_corrected).",
    corrected="c6_const_weights_corrected",
    reading_of="c6_const",
)
def c6_const_weights(instance: Any) -> rc.Sides:
    """Rewards R^i = phi^T theta^i, ||phi|| <= 1: sigma <= 2 max{(1 + gamma) G_x, max |R^i|}, where
    sigma = 2 max{G_A G_x, G_b} and G_b = max{max_i ||theta^i||, ||theta_*^c||}.
    """
    return bellman.constants_of_weights(instance, 1 + 0 * instance.gamma)


@PAPER.upper(
    "c6_const_weights_corrected",
    ref="Appendix C.6 with Section 4's G_b, corrected",
    tex=r"\sigma\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty/\sqrt{\min_iw^i}\}",
    on=WEIGHTED,
    derivation="w^i ||theta^i||^2 <= E (phi^T theta^i)^2 <= max |R^i|^2. phi^T theta_*^c is the "
    "projection of the rewards in the norm of mu^0, where lambda_min(E phi phi^T) >= min_i w^i, "
    "so the same bound holds for theta_*^c.",
)
def c6_const_weights_corrected(instance: Any) -> rc.Sides:
    """Rewards R^i = phi^T theta^i, ||phi|| <= 1: sigma <= 2 max{(1 + gamma) G_x, max |R^i| /
    sqrt(w)}, where sigma = 2 max{G_A G_x, G_b}, G_b = max{max_i ||theta^i||, ||theta_*^c||} and w =
    min_i lambda_min(E_{pi^i} phi phi^T).
    """
    return bellman.constants_of_weights(instance, bellman.feature_floor(instance))


@PAPER.lower(
    "c6_lambda",
    ref="Appendix C.6 (Bhandari et al. 2018, Lemma 3)",
    tex=r"\lambda^i\ge(1-\gamma)\lambda_{\min}(\mathbb{E}_{\pi^i}\phi\phi^\top)",
    on=CHAINS,
)
def c6_lambda(stack: FiniteStack) -> rc.Sides:
    """lambda^i >= (1 - gamma) lambda_min(E_{pi^i} phi phi^T), pi^i stationary."""
    return stack.lambda_agent, (1 - stack.gamma)[:, None] * lambda_min(stack.Phi_bar)


@PAPER.upper(
    "c6_nu",
    ref="Appendix C.6",
    uses=["ex6"],
    tex=r"\nu\le\frac{1+\gamma}{1-\gamma}\le\frac2{1-\gamma}",
    on=CHAINS,
    expect="violated",
    note="Three gaps. Appendix C.6 has the transpose of Example 6's matrix, and nu is not that of "
    "the transpose. Features are shorter than one, which Remark 2 excludes. And Example 6 itself "
    "fails (affpcl.ex6). With ||phi|| = 1: cycle 1 -> 2 -> 3 -> 1, gamma = 0.5, features (0, 1, "
    "-2), (1, 0, 0), (2, 0, 1), normalised: nu = 3.99 > 3; features (-2, 3, -2), (2, -1, 1), (1, "
    "2, -1), normalised: nu = 14.4, also more than the second bound 2/(1 - gamma) = 4. The rate "
    "of Appendix C.6 does not "
    "need it: the first half of Lemma D.2 holds with one in the place of nu (affpcl.rem2_td). The "
    "second half needs nu of Phi, which is 1 for rewards linear in phi "
    "(affpcl.c6_rate_corrected).",
    corrected="c6_nu_corrected",
)
def c6_nu(stack: FiniteStack) -> rc.Sides:
    """A = phi (phi - gamma phi')^T, ||phi|| <= 1: nu^i <= (1 + gamma) / (1 - gamma)."""
    return bellman.condition_stated(stack)


@PAPER.upper(
    "c6_nu_corrected",
    ref="Appendix C.6, corrected",
    tex=r"\nu^i\le\sqrt{\frac{1+\gamma}{\lambda^i}}\le\sqrt{\frac{1+\gamma}{(1-\gamma)w^i}}",
    on=CHAINS,
    uses=["c6_moment"],
    derivation="||Dbar x||^2 <= E ||A x||^2 <= (1 + gamma) x^T Abar x <= (1 + gamma) ||x|| ||Abar "
    "x|| (Jensen; affpcl.c6_moment) and ||x|| <= ||Abar x|| / lambda^i. The second bound, which "
    "is not measured here, is the first one with affpcl.c6_lambda.",
)
def c6_nu_corrected(instance: Any) -> rc.Sides:
    """A = phi (phi - gamma phi')^T, ||phi|| <= 1: nu^i <= sqrt((1 + gamma) / lambda^i) <= sqrt((1 +
    gamma) / ((1 - gamma) w^i)), w^i = lambda_min(E_{pi^i} phi phi^T).
    """
    return bellman.condition(instance, bellman.moment_factor(instance))


@PAPER.upper(
    "c6_moment",
    ref="Appendix C.6, new",
    printed_as="ours",
    tex=r"\mathbb{E}[A^\top A]\preceq(1+\gamma)\,{\rm sym}\,\bar A",
    on=chain_space("n", {"x": rc.sphere("d")}, sizes={"n": (1, 2)}),
    derivation="With q = E (phi^T x)^2 = E (phi'^T x)^2 and c = E (phi^T x)(phi'^T x) >= -q, the "
    "left form is at most (1 + gamma^2) q - 2 gamma c, the right one is (1 + gamma)(q - gamma c), "
    "and the difference is gamma (1 - gamma)(q + c).",
)
def c6_moment(instance: Any) -> rc.Sides:
    """A = phi (phi - gamma phi')^T, ||phi|| <= 1: E A^T A <= (1 + gamma) sym(Abar)."""
    return bellman.moment_form(instance, bellman.moment_factor(instance))


@PAPER.upper(
    "c6_rate_corrected",
    ref="Appendix C.6, corrected, for small steps",
    uses=["rem2_td", "d2_Phi_corrected", "c6_lambda", "d3", "thm1_small_steps"],
    tex=r"\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|x^i-x_*^i\|^2\le\frac{\sigma^2}{(1-\gamma)w^i}"
    r"\Bigl(\frac1n+9\delta_{\mathrm{cen}}^i\Bigr),\quad\sigma=2\max\{(1+\gamma)G_x,G_b\}",
    on=chain_space("n", {"theta": rc.reals("n", "d")}, sizes={"n": (1, 3), "O": (3, 3)}),
    derivation="That of affpcl.thm1_small_steps: 2 lambda^i tr X <= E||z||^2 <= 2 E||v^i||^2 + 2 "
    "(sigma^2/n)(1 + chi^2). Phi = phi phi' is symmetric and positive semidefinite, so that nu of "
    "Phi is 1, and both halves of Lemma D.2 hold with 1 in the place of nu, the first by "
    "affpcl.rem2_td, the second by affpcl.d2_Phi_corrected. lambda^i >= (1 - gamma) w^i by "
    "affpcl.c6_lambda.",
    note="With alpha = ln t / (lambda^i t) this is Appendix C.6's rate for large t, with (1 - "
    "gamma)^{-2} where (1 - gamma)^{-3} is printed. It asks for rewards phi(o)'theta^i; with "
    "reward features of their own the rate is false (affpcl.c6_rate).",
)
def c6_rate_corrected(stack: FiniteStack) -> rc.Sides:
    """Personalised TD(0) with rewards phi(o)'theta^i: the stationary error of small steps is at
    most alpha sigma^2 / ((1 - gamma) w^i) (1/n + 9 delta_cen^i), sigma = 2 max{(1 + gamma) G_x,
    G_b} with x_*^c in G_x and G_b the largest norm of the theta^i and of theta_*^c, w^i =
    lambda_min(E_{pi^i} phi phi').
    """
    floor = (1 - stack.gamma)[:, None] * lambda_min(stack.Phi_bar)
    scale = bellman.discounted_sigma(stack)[:, None] ** 2 / floor
    return error_of_affpcl(stack), scale / stack.n + 9 * scale * stack.delta_cen
