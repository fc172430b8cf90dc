"""AffPCL, Appendices E and F: one step of central objective estimation and of central decisions.

Everything is exact at fixed iterates: expectations are over one joint sample of all agents. The
iterates are given by their errors, extra arrays of the stack: ``delta_theta`` is
Delta theta^c = theta_t^c - theta_*^c and ``delta_x`` is Delta x^c = x_t^c - x_*^c, both (B, d).
``step_share``, shape (B,), is the step size as a share of the largest that a statement allows.
Both sides of a one-step bound are returned less the contraction that they share, and over the step
size: the bound itself is nearly attained by every small step, whatever its constants.

Three directions occur: g^{0,b}(theta^c) of (20), g^{0,c}(x^c) of (22-1), which uses the agents'
objectives, and g^{0,c}(x^c; theta^c) of (22-2), which uses the estimated central one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory import directions as go
from experiments.affpcl.theory.affinity import sigma_agents
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import norm

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


# Directions, as parts of independent sums.


def estimation(stack: FiniteStack) -> Numbers:
    """g^{0,b}(theta_t^c) of (20), parts (B, n, S, d)."""
    point = stack.theta_star_central + stack.delta_theta
    return go.averaged(go.objective_residual(stack, point))


def decision(stack: FiniteStack) -> Numbers:
    """g^{0,c}(x_t^c) of (22-1), parts (B, n, S, d)."""
    return go.averaged(go.local_residual(stack, stack.x_star_central + stack.delta_x))


def estimated_decision(stack: FiniteStack) -> Numbers:
    """g^{0,c}(x_t^c; theta_t^c) of (22-2), parts (B, n, S, d)."""
    x = stack.x_star_central + stack.delta_x
    theta = stack.theta_star_central + stack.delta_theta
    residual = go.central_residual(stack, x, theta)[:, None]
    return go.averaged(np.repeat(residual, stack.n, axis=1))


# Appendix E.


def e1(stack: FiniteStack) -> Sides:
    """Lemma E.1: E<Delta theta, g^{0,b}> >= lambda^b ||Delta theta||^2, shape (B,)."""
    inner = (go.mean(stack, estimation(stack)) * stack.delta_theta).sum(axis=-1)
    return inner, stack.lambda_b * _square(stack.delta_theta)


def e2(stack: FiniteStack) -> Sides:
    """Lemma E.2: E||g^{0,b}||^2 <= 2 ||Delta theta||^2 + 2 sigma^2 / n, shape (B,)."""
    bound = 2 * _square(stack.delta_theta) + 2 * stack.sigma**2 / stack.n
    return go.second_moment(stack, estimation(stack)), bound


def e2_sharper(stack: FiniteStack) -> Sides:
    """E||g^{0,b}||^2 against :func:`second_moment_bound` with a = ||Delta theta||, (B,)."""
    bound = second_moment_bound(norm(stack.delta_theta), stack.sigma, stack.n)
    return go.second_moment(stack, estimation(stack)), bound


def e2_H1(stack: FiniteStack) -> Sides:
    """H_1 = (1/n^2) sum_i E||g^{i,b}(theta_*^c)||^2 <= (2 G_b)^2 / n <= sigma^2 / n, (B,)."""
    parts = go.averaged(go.objective_residual(stack, stack.theta_star_central))
    measured = (stack.mu * (parts**2).sum(axis=-1)).sum(axis=(1, 2))
    return measured, (2 * stack.G_b) ** 2 / stack.n


def e2_H2(stack: FiniteStack) -> Sides:
    """H_2, over pairs i != j of <E g^i, E g^j> / n^2, is -(1/n^2) sum_i ||E g^i||^2, (B,).

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


def corE1(stack: FiniteStack) -> Sides:
    """Corollary E.1, alpha^b = share * lambda^b / 4, as in :func:`_progress`, shape (B,):

    E||Delta theta_{t+1}||^2 <= (1 - (3/2) alpha lambda^b)||Delta theta||^2 + 2 alpha^2 sigma^2 / n.
    """
    alpha = stack.step_share * stack.lambda_b / 4
    noise = 2 * stack.sigma**2 / stack.n
    return _estimation_progress(stack, alpha), alpha * noise


def corE1_sharper(stack: FiniteStack) -> Sides:
    """The same with alpha^b = share * lambda^b / 2 and noise alpha^2 sigma^2 / (n - 1), n >= 2."""
    alpha = stack.step_share * stack.lambda_b / 2
    return _estimation_progress(stack, alpha), alpha * stack.sigma**2 / (stack.n - 1)


def _estimation_progress(stack: FiniteStack, alpha: Numbers) -> Numbers:
    contraction = 3 * stack.lambda_b / 2
    return _progress(stack, stack.delta_theta, estimation(stack), alpha, contraction)


# Appendix F with (22-1).


def f1(stack: FiniteStack) -> Sides:
    """Lemma F.1: E<Delta x, g^{0,c}> >= lambda^c ||Delta x||^2 with (22-1), shape (B,)."""
    inner = (go.mean(stack, decision(stack)) * stack.delta_x).sum(axis=-1)
    return inner, stack.lambda_c * _square(stack.delta_x)


def f2(stack: FiniteStack) -> Sides:
    """Lemma F.2: E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x||^2 + 2 sigma^2 / n with (22-1), (B,)."""
    return go.second_moment(stack, decision(stack)), _f2_bound(stack, stack.sigma)


def f2_agents(stack: FiniteStack) -> Sides:
    """Lemma F.2 with Section 1.2's G_x = max_i ||x_*^i||, which does not see x_*^c."""
    return go.second_moment(stack, decision(stack)), _f2_bound(stack, sigma_agents(stack))


def f2_sharper(stack: FiniteStack) -> Sides:
    """E||g^{0,c}||^2 against :func:`second_moment_bound` with a = G_A ||Delta x||, (B,)."""
    bound = second_moment_bound(stack.G_A * norm(stack.delta_x), stack.sigma, stack.n)
    return go.second_moment(stack, decision(stack)), bound


def corF1(stack: FiniteStack) -> Sides:
    """Corollary F.1, (22-1), alpha^c = share * lambda^c / (4 G_A^2), as in :func:`_progress`, (B,):

    E||Delta x_{t+1}||^2 <= (1 - (3/2) alpha lambda^c)||Delta x||^2 + 2 alpha^2 sigma^2 / n.
    """
    alpha = stack.step_share * stack.lambda_c / (4 * stack.G_A**2)
    noise = 2 * stack.sigma**2 / stack.n
    return _decision_progress(stack, decision(stack), alpha), alpha * noise


def corF1_sharper(stack: FiniteStack) -> Sides:
    """The same, alpha^c = share * lambda^c / (2 G_A^2), noise alpha^2 sigma^2 / (n - 1), n >= 2."""
    alpha = stack.step_share * stack.lambda_c / (2 * stack.G_A**2)
    noise = stack.sigma**2 / (stack.n - 1)
    return _decision_progress(stack, decision(stack), alpha), alpha * noise


def _decision_progress(stack: FiniteStack, parts: Numbers, alpha: Numbers) -> Numbers:
    return _progress(stack, stack.delta_x, parts, alpha, 3 * stack.lambda_c / 2)


# Appendix F with (22-2).


def f3(stack: FiniteStack) -> Sides:
    """Lemma F.3, (22-2), shape (B,):

    E<Delta x, g^{0,c}> >= (7/8) lambda^c ||Delta x||^2 - 2 ||Delta theta||^2 / lambda^c.
    """
    inner = (go.mean(stack, estimated_decision(stack)) * stack.delta_x).sum(axis=-1)
    descent = 7 * stack.lambda_c * _square(stack.delta_x) / 8
    return inner, descent - 2 * _square(stack.delta_theta) / stack.lambda_c


def f4(stack: FiniteStack) -> Sides:
    """Lemma F.4, (22-2), shape (B,):

    E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x||^2 + 4 ||Delta theta||^2 + 4 sigma^2 / n.
    """
    errors = 2 * stack.G_A**2 * _square(stack.delta_x) + 4 * _square(stack.delta_theta)
    measured = go.second_moment(stack, estimated_decision(stack))
    return measured, errors + 4 * stack.sigma**2 / stack.n


def f4_sharper(stack: FiniteStack) -> Sides:
    """The same second moment against :func:`second_moment_bound`, shape (B,).

    a = G_A ||Delta x|| + ||Delta theta||.
    """
    a = stack.G_A * norm(stack.delta_x) + norm(stack.delta_theta)
    measured = go.second_moment(stack, estimated_decision(stack))
    return measured, second_moment_bound(a, stack.sigma, stack.n)


def corF2(stack: FiniteStack) -> Sides:
    """Corollary F.2, (22-2), alpha = share * lambda^c / (8 G_A^2), as in :func:`_progress`, (B,):

    E||Delta x_{t+1}||^2 <= (1 - (3/2) alpha lambda^c)||Delta x||^2
    + 8 alpha ||Delta theta||^2 / lambda^c + 4 alpha^2 sigma^2 / n.
    """
    return _estimated_step(stack, 16)


def corF2_sharper(stack: FiniteStack) -> Sides:
    """The same with 9/2 in the place of 8."""
    return _estimated_step(stack, 9)


def _estimated_step(stack: FiniteStack, halves: int) -> Sides:
    """One step of (22-2) with halves/2 as the factor of alpha ||Delta theta||^2 / lambda^c."""
    alpha = stack.step_share * stack.lambda_c / (8 * stack.G_A**2)
    objective = halves * _square(stack.delta_theta) / (2 * stack.lambda_c)
    noise = 4 * stack.sigma**2 / stack.n
    measured = _decision_progress(stack, estimated_decision(stack), alpha)
    return measured, objective + alpha * noise


def corF3_lyap(stack: FiniteStack) -> Sides:
    """Corollary F.3's Lyapunov function L = ||Delta x||^2 + 16 ||Delta theta||^2 / (lambda^c)^2:

    E L_{t+1} <= (1 - alpha) L_t + alpha^2 (2 sigma^2 / ((lambda^c)^2 n)
    + 64 sigma^2 / ((lambda^c lambda^b)^2 n)), shape (B,). The second bound, with
    66 sigma^2 / ((lambda^b lambda^c)^2 n), is larger because lambda^b <= 1. Both sides are less
    (1 - alpha) L_t, and over alpha.
    """
    return _lyapunov(stack, 2, 64)


def corF3_lyap_sharper(stack: FiniteStack) -> Sides:
    """The same with 4 and 32 in the place of 2 and 64, as Lemma D.4 gives them."""
    return _lyapunov(stack, 4, 32)


def _lyapunov(stack: FiniteStack, decisions: int, objectives: int) -> Sides:
    """One step of (22-2) and (20) with alpha^c lambda^c = alpha^b lambda^b = alpha.

    alpha is ``step_share`` of the largest with alpha^c <= lambda^c / (8 G_A^2) and
    alpha^b <= lambda^b / 4.
    """
    b, c = stack.lambda_b, stack.lambda_c
    alpha = stack.step_share * np.minimum(c**2 / (8 * stack.G_A**2), b**2 / 4)
    x = _progress(stack, stack.delta_x, estimated_decision(stack), alpha / c, c) / c
    theta = _progress(stack, stack.delta_theta, estimation(stack), alpha / b, b) / b
    noise = (decisions / c**2 + objectives / (b * c) ** 2) * stack.sigma**2 / stack.n
    return x + 16 * theta / c**2, alpha * noise


# Parts.


def second_moment_bound(a: Numbers, sigma: Numbers, n: int) -> Numbers:
    """The least bound on E||X + Y||^2 of Lemmas E.2, F.2 and F.4 in a, sigma and n, shape (B,).

    X and Y are averages over n independent samples with ||X_j|| <= a, ||Y_j|| <= sigma and
    E Y = 0 (not E Y_j = 0). With m = ||E X||^2, centring gives for every c > 0

        E||X + Y||^2 <= m + (1 + c)(a^2 - m) / n + (1 + 1/c) sigma^2 / n.

    For c >= n - 1 the factor of m is not positive, so that m = 0 is the worst case; the least over
    c >= n - 1 is (a + sigma)^2 / n if (n - 1) a <= sigma, and else a^2 + sigma^2 / (n - 1). It is
    at most 2 a^2 + 2 sigma^2 / (2n - 1), which is the choice c = 2n - 1.
    """
    few = np.asarray((a + sigma) ** 2 / n)
    if n == 1:
        return few
    return np.where((n - 1) * a <= sigma, few, a**2 + sigma**2 / (n - 1))


def _f2_bound(stack: FiniteStack, sigma: Numbers) -> Numbers:
    errors = 2 * stack.G_A**2 * _square(stack.delta_x)
    return np.asarray(errors + 2 * sigma**2 / stack.n)


def _square(vectors: Numbers) -> Numbers:
    """||v||^2, shape (B,)."""
    return np.asarray((vectors**2).sum(axis=-1))


def _progress(
    stack: FiniteStack, error: Numbers, parts: Numbers, alpha: Numbers, contraction: Numbers
) -> Numbers:
    """(E||error - alpha g||^2 - (1 - alpha contraction) ||error||^2) / alpha, shape (B,).

    The direction g is given by its parts. Without the division's cancellation this is
    contraction ||error||^2 - 2 <E g, error> + alpha E||g||^2.
    """
    inner = (go.mean(stack, parts) * error).sum(axis=-1)
    return np.asarray(
        contraction * _square(error) - 2 * inner + alpha * go.second_moment(stack, parts)
    )
