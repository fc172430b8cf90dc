"""Appendix E of AffPCL: one step of central objective estimation (20)."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._iterates import ITERATES, SEVERAL_AGENTS, STEPS
from experiments.affpcl.claims._spaces import SYSTEMS
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import central, directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import norm


def _estimation_progress(stack: FiniteStack, alpha: rc.Numbers) -> rc.Numbers:
    contraction = 3 * stack.lambda_b / 2
    return central.progress(stack, stack.delta_theta, central.estimation(stack), alpha, contraction)


@PAPER.lower(
    "e1",
    ref="Lemma E.1",
    tex=r"\mathbb{E}\langle\Delta\theta^c_t,g^{0,b}_t\rangle\ge\lambda^b\|\Delta\theta^c_t\|^2",
    on=ITERATES,
)
def e1(stack: FiniteStack) -> rc.Sides:
    """E<Delta theta^c, g^{0,b}(theta^c)> >= lambda^b ||Delta theta^c||^2.

    Shape (B,).
    """
    inner = (go.mean(stack, central.estimation(stack)) * stack.delta_theta).sum(axis=-1)
    return inner, stack.lambda_b * central.square(stack.delta_theta)


@PAPER.upper(
    "e2",
    ref="Lemma E.2",
    uses=["e2_H1", "e2_H2"],
    tex=r"\mathbb{E}\|g^{0,b}_t\|^2\le2\|\Delta\theta^c_t\|^2+2\sigma^2n^{-1}",
    on=ITERATES,
    note="Never attained: one agent has no noise at theta_*^c, and with n of them the left side is "
    "at most (1 + 1/n)/2 of the bound. H_1 alone does come close to sigma^2 / n.",
)
def e2(stack: FiniteStack) -> rc.Sides:
    """E||g^{0,b}(theta^c)||^2 <= 2 ||Delta theta^c||^2 + 2 sigma^2 / n.

    Shape (B,).
    """
    bound = 2 * central.square(stack.delta_theta) + 2 * stack.sigma**2 / stack.n
    return go.second_moment(stack, central.estimation(stack)), bound


@PAPER.upper(
    "e2_sharper",
    ref="Lemma E.2, sharpened",
    tex=r"\mathbb{E}\|g^{0,b}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=\|\Delta\theta^c_t\|",
    on=ITERATES,
    derivation="g = X + Y, averages of X_j = Phi^j Delta theta and Y_j = g^j(theta_*^c), with E "
    "Y = 0 and E||Y||^2 <= sigma^2 / n. Centring X first: E||g||^2 = m + E||X - E X + Y||^2 <= m "
    "+ (1+c)(a^2 - m)/n + (1 + 1/c) sigma^2 / n with m = ||E X||^2, since tr Var X <= (a^2 - "
    "m)/n. For c >= n-1 the worst m is zero. In d = 2 agents whose Phibar^j nearly cancel attain "
    "it.",
    sharpens="e2",
)
def e2_sharper(stack: FiniteStack) -> rc.Sides:
    """With a = ||Delta theta^c||, E||g^{0,b}||^2 <= (a + sigma)^2 / n if (n-1) a <= sigma, else a^2
    + sigma^2 / (n-1); so also 2 a^2 + 2 sigma^2 / (2n-1).
    """
    bound = central.second_moment_bound(norm(stack.delta_theta), stack.sigma, stack.n)
    return go.second_moment(stack, central.estimation(stack)), bound


@PAPER.upper(
    "e2_H1",
    ref="Lemma E.2, H_1",
    tex=r"H_1=\tfrac1{n^2}\sum_i\mathbb{E}\|g^{i,b}(\theta_*^c)\|^2\le\tfrac{(2G_b)^2}{n}"
    r"\le\tfrac{\sigma^2}{n}",
    on=SYSTEMS,
)
def e2_H1(stack: FiniteStack) -> rc.Sides:
    """H_1 = (1/n^2) sum_i E||g^{i,b}(theta_*^c)||^2 <= (2 G_b)^2 / n <= sigma^2 / n."""
    parts = go.averaged(go.objective_residual(stack, stack.theta_star_central))
    measured = (stack.mu * (parts**2).sum(axis=-1)).sum(axis=(1, 2))
    return measured, (2 * stack.G_b) ** 2 / stack.n


@PAPER.identity(
    "e2_H2",
    ref="Lemma E.2, H_2",
    tex=r"H_2=-\tfrac1{n^2}\sum_i\|\mathbb{E}g^{i,b}(\theta_*^c)\|^2\le0",
    on=SYSTEMS,
)
def e2_H2(stack: FiniteStack) -> rc.Sides:
    """H_2 = (1/n^2) sum_{i != j} <E g^i, E g^j> = -(1/n^2) sum_i ||E g^i||^2 <= 0 at theta_*^c.

    g^i = g^{i,b}(theta_*^c); the right-hand side is not positive.
    """
    parts = go.averaged(go.objective_residual(stack, stack.theta_star_central))
    own = (stack.mu[..., None] * parts).sum(axis=2)
    inner = own @ np.swapaxes(own, 1, 2)
    pairs = [
        inner[:, i, j] if i != j else 0 * inner[:, i, j]
        for i in range(stack.n)
        for j in range(stack.n)
    ]
    return np.stack(pairs).sum(axis=0), -(own**2).sum(axis=(1, 2))


@PAPER.upper(
    "corE1",
    ref="Corollary E.1",
    uses=["e1", "e2"],
    tex=r"\mathbb{E}\|\Delta\theta^c_{t+1}\|^2\le(1-\tfrac32\alpha^b\lambda^b)"
    r"\|\Delta\theta^c_t\|^2+2(\alpha^b)^2\sigma^2n^{-1}",
    on=STEPS,
)
def corE1(stack: FiniteStack) -> rc.Sides:
    """For alpha <= lambda^b / 4, E||Delta theta_{t+1}||^2 <= (1 - (3/2) alpha lambda^b) ||Delta
    theta_t||^2 + 2 alpha^2 sigma^2 / n. Both sides less the contraction, over alpha.

    Shape (B,).
    """
    alpha = stack.step_share * stack.lambda_b / 4
    noise = 2 * stack.sigma**2 / stack.n
    return _estimation_progress(stack, alpha), alpha * noise


@PAPER.upper(
    "corE1_sharper",
    ref="Corollary E.1, sharpened",
    tex=r"\mathbb{E}\|\Delta\theta^c_{t+1}\|^2\le(1-\tfrac32\alpha^b\lambda^b)"
    r"\|\Delta\theta^c_t\|^2+(\alpha^b)^2\tfrac{\sigma^2}{n-1}",
    on=SEVERAL_AGENTS,
    derivation="E||g||^2 <= ||Delta theta||^2 + sigma^2/(n-1), the choice c = n-1 in the "
    "sharpened Lemma E.2, and alpha^2 <= alpha lambda^b / 2.",
    sharpens="corE1",
)
def corE1_sharper(stack: FiniteStack) -> rc.Sides:
    """For n >= 2 and alpha <= lambda^b / 2, E||Delta theta_{t+1}||^2 <= (1 - (3/2) alpha lambda^b)
    ||Delta theta_t||^2 + alpha^2 sigma^2 / (n-1). Both sides less the contraction, over alpha.
    """
    alpha = stack.step_share * stack.lambda_b / 2
    return _estimation_progress(stack, alpha), alpha * stack.sigma**2 / (stack.n - 1)
