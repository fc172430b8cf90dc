"""Appendix F of AffPCL: one step of central decision learning, (22-1) and (22-2)."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._iterates import ITERATES, SEVERAL_AGENTS, STEPS
from experiments.affpcl.claims._turning import turning
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import central, directions as go
from experiments.affpcl.theory.affinity import sigma_agents
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import norm


def decision(stack: FiniteStack) -> rc.Numbers:
    """g^{0,c}(x_t^c) of (22-1), parts (B, n, S, d)."""
    return go.averaged(go.local_residual(stack, stack.x_star_central + stack.delta_x))


def estimated_decision(stack: FiniteStack) -> rc.Numbers:
    """g^{0,c}(x_t^c; theta_t^c) of (22-2), parts (B, n, S, d)."""
    x = stack.x_star_central + stack.delta_x
    theta = stack.theta_star_central + stack.delta_theta
    residual = go.central_residual(stack, x, theta)[:, None]
    return go.averaged(np.repeat(residual, stack.n, axis=1))


def _decision_progress(stack: FiniteStack, parts: rc.Numbers, alpha: rc.Numbers) -> rc.Numbers:
    return central.progress(stack, stack.delta_x, parts, alpha, 3 * stack.lambda_c / 2)


def _estimated_step(stack: FiniteStack, halves: int) -> rc.Sides:
    """One step of (22-2) with halves/2 as the factor of alpha ||Delta theta||^2 / lambda^c."""
    alpha = stack.step_share * stack.lambda_c / (8 * stack.G_A**2)
    objective = halves * central.square(stack.delta_theta) / (2 * stack.lambda_c)
    noise = 4 * stack.sigma**2 / stack.n
    measured = _decision_progress(stack, estimated_decision(stack), alpha)
    return measured, objective + alpha * noise


def _lyapunov(stack: FiniteStack, decisions: int, objectives: int) -> rc.Sides:
    """One step of (22-2) and (20) with alpha^c lambda^c = alpha^b lambda^b = alpha.

    alpha is ``step_share`` of the largest with alpha^c <= lambda^c / (8 G_A^2) and
    alpha^b <= lambda^b / 4.
    """
    b, c = stack.lambda_b, stack.lambda_c
    alpha = stack.step_share * np.minimum(c**2 / (8 * stack.G_A**2), b**2 / 4)
    x = central.progress(stack, stack.delta_x, estimated_decision(stack), alpha / c, c) / c
    theta = central.progress(stack, stack.delta_theta, central.estimation(stack), alpha / b, b) / b
    noise = (decisions / c**2 + objectives / (b * c) ** 2) * stack.sigma**2 / stack.n
    return x + 16 * theta / c**2, alpha * noise


def _f2_bound(stack: FiniteStack, sigma: rc.Numbers) -> rc.Numbers:
    errors = 2 * stack.G_A**2 * central.square(stack.delta_x)
    return np.asarray(errors + 2 * sigma**2 / stack.n)


@PAPER.lower(
    "f1",
    ref="Lemma F.1",
    tex=r"\mathbb{E}\langle\Delta x^c_t,g^{0,c}_t\rangle\ge\lambda^c\|\Delta x^c_t\|^2",
    on=ITERATES,
)
def f1(stack: FiniteStack) -> rc.Sides:
    """With (22-1), E<Delta x^c, g^{0,c}(x^c)> >= lambda^c ||Delta x^c||^2.

    Shape (B,).
    """
    inner = (go.mean(stack, decision(stack)) * stack.delta_x).sum(axis=-1)
    return inner, stack.lambda_c * central.square(stack.delta_x)


@PAPER.upper(
    "f2",
    ref="Lemma F.2",
    uses=["const_sigma_central_corrected"],
    tex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+2\sigma^2n^{-1}",
    on=ITERATES,
    note="One agent comes arbitrarily close; for n agents 2 sigma^2 / (2n - 1) is the least "
    "constant beside 2 G_A^2 ||Delta x||^2.",
)
def f2(stack: FiniteStack) -> rc.Sides:
    """With (22-1) and x_*^c in G_x, E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x^c||^2 + 2 sigma^2 / n."""
    return go.second_moment(stack, decision(stack)), _f2_bound(stack, stack.sigma)


@PAPER.upper(
    "f2_sec12",
    ref="Lemma F.2, with Section 1.2's G_x",
    reading="Section 1.2 is where the paper defines G_x, without x_*^c; the lemma's statement "
    "names no other one.",
    tex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+2\sigma^2n^{-1},"
    r"\quad G_x=\max_i\|x_*^i\|",
    on=turning({"delta_x": rc.reals(2)}),
    expect="violated",
    note="The proof bounds ||g^i(x_*^c)|| by G_A G_x + G_b. Two agents with mu = (1/4, 3/4) and "
    "(3/4, 1/4), A = I/100 -+ J (J a quarter turn), Phi = I, theta = 0 and (1, 0): ||x_*^i|| <= "
    "2, x_*^c = (50, 0), and at Delta x = 0 the left side is 937.5 against 16.0. Lemma F.4 and "
    "the corollaries need x_*^c in G_x for the same reason.",
    corrected="f2",
    reading_of="f2",
)
def f2_sec12(stack: FiniteStack) -> rc.Sides:
    """With (22-1) and G_x = max_i ||x_*^i||, E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x^c||^2 + 2 sigma^2
    / n.
    """
    return go.second_moment(stack, decision(stack)), _f2_bound(stack, sigma_agents(stack))


@PAPER.upper(
    "f2_sharper",
    ref="Lemma F.2, sharpened",
    tex=r"\mathbb{E}\|g^{0,c}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=G_A\|\Delta x^c_t\|",
    on=ITERATES,
    derivation="As for Lemma E.2 with X_j = A^j Delta x^c and Y_j = A^j x_*^c - b^j, of length "
    "at most G_A G_x + G_b <= sigma. The printed constant 2 is needed for n = 1 only.",
    sharpens="f2",
)
def f2_sharper(stack: FiniteStack) -> rc.Sides:
    """With (22-1), x_*^c in G_x and a = G_A ||Delta x^c||, E||g^{0,c}||^2 <= (a + sigma)^2 / n if
    (n-1) a <= sigma, else a^2 + sigma^2 / (n-1); so also 2 a^2 + 2 sigma^2 / (2n-1).
    """
    bound = central.second_moment_bound(stack.G_A * norm(stack.delta_x), stack.sigma, stack.n)
    return go.second_moment(stack, decision(stack)), bound


@PAPER.upper(
    "corF1",
    ref="Corollary F.1",
    uses=["f1", "f2"],
    tex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"2(\alpha^c)^2\sigma^2n^{-1}",
    on=STEPS,
)
def corF1(stack: FiniteStack) -> rc.Sides:
    """With (22-1), x_*^c in G_x and alpha <= lambda^c / (4 G_A^2), E||Delta x_{t+1}||^2 <= (1 -
    (3/2) alpha lambda^c) ||Delta x_t||^2 + 2 alpha^2 sigma^2 / n. Both sides less the contraction,
    over alpha.
    """
    alpha = stack.step_share * stack.lambda_c / (4 * stack.G_A**2)
    noise = 2 * stack.sigma**2 / stack.n
    return _decision_progress(stack, decision(stack), alpha), alpha * noise


@PAPER.upper(
    "corF1_sharper",
    ref="Corollary F.1, sharpened",
    tex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"(\alpha^c)^2\tfrac{\sigma^2}{n-1}",
    on=SEVERAL_AGENTS,
    derivation="E||g||^2 <= G_A^2 ||Delta x||^2 + sigma^2/(n-1), the choice c = n-1 in the "
    "sharpened Lemma F.2, and alpha^2 G_A^2 <= alpha lambda^c / 2.",
    sharpens="corF1",
)
def corF1_sharper(stack: FiniteStack) -> rc.Sides:
    """With (22-1), x_*^c in G_x, n >= 2 and alpha <= lambda^c / (2 G_A^2), E||Delta x_{t+1}||^2 <=
    (1 - (3/2) alpha lambda^c) ||Delta x_t||^2 + alpha^2 sigma^2 / (n-1). Both sides less the
    contraction, over alpha.
    """
    alpha = stack.step_share * stack.lambda_c / (2 * stack.G_A**2)
    noise = stack.sigma**2 / (stack.n - 1)
    return _decision_progress(stack, decision(stack), alpha), alpha * noise


@PAPER.lower(
    "f3",
    ref="Lemma F.3",
    tex=r"\mathbb{E}\langle\Delta x^c_t,g^{0,c}_t\rangle\ge\tfrac78\lambda^c\|\Delta x^c_t\|^2-"
    r"2(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2",
    on=ITERATES,
)
def f3(stack: FiniteStack) -> rc.Sides:
    """With (22-2), E<Delta x^c, g^{0,c}> >= (7/8) lambda^c ||Delta x^c||^2 - 2 ||Delta theta^c||^2
    / lambda^c.

    Shape (B,).
    """
    inner = (go.mean(stack, estimated_decision(stack)) * stack.delta_x).sum(axis=-1)
    descent = 7 * stack.lambda_c * central.square(stack.delta_x) / 8
    return inner, descent - 2 * central.square(stack.delta_theta) / stack.lambda_c


@PAPER.upper(
    "f4",
    ref="Lemma F.4",
    tex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+4\|\Delta\theta^c_t\|^2+"
    r"4\sigma^2n^{-1}",
    on=ITERATES,
)
def f4(stack: FiniteStack) -> rc.Sides:
    """With (22-2) and x_*^c in G_x, E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x^c||^2 + 4 ||Delta
    theta^c||^2 + 4 sigma^2 / n.

    Shape (B,).
    """
    errors = 2 * stack.G_A**2 * central.square(stack.delta_x) + 4 * central.square(
        stack.delta_theta
    )
    measured = go.second_moment(stack, estimated_decision(stack))
    return measured, errors + 4 * stack.sigma**2 / stack.n


@PAPER.upper(
    "f4_sharper",
    ref="Lemma F.4, sharpened",
    tex=r"\mathbb{E}\|g^{0,c}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=G_A\|\Delta x^c_t\|+\|\Delta\theta^c_t\|",
    on=ITERATES,
    derivation="As for Lemma E.2 with X_j = A^j Delta x^c - Phi^j Delta theta^c and Y_j = A^j "
    "x_*^c - Phi^j theta_*^c.",
    sharpens="f4",
)
def f4_sharper(stack: FiniteStack) -> rc.Sides:
    """With (22-2), x_*^c in G_x and a = G_A ||Delta x^c|| + ||Delta theta^c||, E||g^{0,c}||^2 <= (a
    + sigma)^2 / n if (n-1) a <= sigma, else a^2 + sigma^2 / (n-1).

    Shape (B,).
    """
    a = stack.G_A * norm(stack.delta_x) + norm(stack.delta_theta)
    measured = go.second_moment(stack, estimated_decision(stack))
    return measured, central.second_moment_bound(a, stack.sigma, stack.n)


@PAPER.upper(
    "corF2",
    ref="Corollary F.2",
    uses=["f3", "f4"],
    tex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"8\alpha^c(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2+4(\alpha^c)^2\sigma^2n^{-1}",
    on=STEPS,
)
def corF2(stack: FiniteStack) -> rc.Sides:
    """With (22-2), x_*^c in G_x and alpha <= lambda^c / (8 G_A^2), E||Delta x_{t+1}||^2 <= (1 -
    (3/2) alpha lambda^c) ||Delta x_t||^2 + 8 alpha ||Delta theta_t||^2 / lambda^c + 4 alpha^2
    sigma^2 / n. Both sides less the contraction, over alpha.
    """
    return _estimated_step(stack, 16)


@PAPER.upper(
    "corF2_sharper",
    ref="Corollary F.2, sharpened",
    tex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"\tfrac92\alpha^c(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2+4(\alpha^c)^2\sigma^2n^{-1}",
    on=STEPS,
    derivation="Lemmas F.3 and F.4 give 4 alpha / lambda^c + 4 alpha^2, and alpha lambda^c <= "
    "(lambda^c / G_A)^2 / 8 <= 1/8.",
    sharpens="corF2",
)
def corF2_sharper(stack: FiniteStack) -> rc.Sides:
    """With (22-2), x_*^c in G_x and alpha <= lambda^c / (8 G_A^2), E||Delta x_{t+1}||^2 <= (1 -
    (3/2) alpha lambda^c) ||Delta x_t||^2 + (9/2) alpha ||Delta theta_t||^2 / lambda^c + 4 alpha^2
    sigma^2 / n. Both sides less the contraction, over alpha.
    """
    return _estimated_step(stack, 9)


@PAPER.upper(
    "corF3_lyap",
    ref="Corollary F.3, proof",
    uses=["corE1", "corF2", "d4"],
    tex=r"\mathbb{E}\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\Big("
    r"\tfrac{2\sigma^2}{(\lambda^c)^2n}+\tfrac{64\sigma^2}{(\lambda^c\lambda^b)^2n}\Big)",
    on=STEPS,
    note="Lemma D.4 with the C^1 = 2, C^2 = 4 and w^1 = 16 of the proof gives 4 and 32 in the "
    "place of 2 and 64 (exchanged C^1 and C^2). 4 + 32/(lambda^b)^2 <= 2 + 64/(lambda^b)^2, so "
    "that the printed line holds.",
)
def corF3_lyap(stack: FiniteStack) -> rc.Sides:
    """With (22-2), x_*^c in G_x and alpha^c lambda^c = alpha^b lambda^b = alpha, where alpha^c <=
    lambda^c / (8 G_A^2) and alpha^b <= lambda^b / 4: L = ||Delta x^c||^2 + 16 ||Delta theta^c||^2 /
    (lambda^c)^2 has E L_{t+1} <= (1 - alpha) L_t + alpha^2 (2 sigma^2 / ((lambda^c)^2 n) + 64
    sigma^2 / ((lambda^c lambda^b)^2 n)), whose last term is at most 66 alpha^2 sigma^2 / ((lambda^b
    lambda^c)^2 n). What is compared is E L_{t+1} - (1 - alpha) L_t over alpha.

    Shape (B,). The bound by 66 is the larger one because lambda^b <= 1.
    """
    return _lyapunov(stack, 2, 64)


@PAPER.upper(
    "corF3_lyap_sharper",
    ref="Corollary F.3, proof, sharpened",
    tex=r"\mathbb{E}\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\Big("
    r"\tfrac{4\sigma^2}{(\lambda^c)^2n}+\tfrac{32\sigma^2}{(\lambda^c\lambda^b)^2n}\Big)",
    on=STEPS,
    derivation="Lemma D.4 with C^1 = 2 sigma^2 / n, C^2 = 4 sigma^2 / n, C^{2,1} = 8 / lambda^c, "
    "so that w^2 = 1 and w^1 = 16 / (lambda^c)^2.",
    sharpens="corF3_lyap",
)
def corF3_lyap_sharper(stack: FiniteStack) -> rc.Sides:
    """With (22-2), x_*^c in G_x and alpha^c lambda^c = alpha^b lambda^b = alpha, where alpha^c <=
    lambda^c / (8 G_A^2) and alpha^b <= lambda^b / 4: L = ||Delta x^c||^2 + 16 ||Delta theta^c||^2 /
    (lambda^c)^2 has E L_{t+1} <= (1 - alpha) L_t + alpha^2 (4 sigma^2 / ((lambda^c)^2 n) + 32
    sigma^2 / ((lambda^c lambda^b)^2 n)), whose last term is at most 36 alpha^2 sigma^2 / ((lambda^b
    lambda^c)^2 n). What is compared is E L_{t+1} - (1 - alpha) L_t over alpha.
    """
    return _lyapunov(stack, 4, 32)
