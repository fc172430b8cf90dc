"""Helpers of AffPCL's Appendices E and F: directions, and what one step makes of the error.

Everything is exact at fixed iterates: expectations are over one joint sample of all agents. The
iterates are given by their errors, extra arrays of the stack: ``delta_theta`` is
Delta theta^c = theta_t^c - theta_*^c and ``delta_x`` is Delta x^c = x_t^c - x_*^c, both (B, d).
``step_share``, shape (B,), is the step size as a share of the largest that a statement allows.
Both sides of a one-step bound are taken less the contraction that they share, and over the step
size: the bound itself is nearly attained by every small step, whatever its constants.

Three directions occur: g^{0,b}(theta^c) of (20), g^{0,c}(x^c) of (22-1), which uses the agents'
objectives, and g^{0,c}(x^c; theta^c) of (22-2), which uses the estimated central one.
"""

from __future__ import annotations

import numpy as np

from experiments.affpcl.theory import directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers


def estimation(stack: FiniteStack) -> Numbers:
    """g^{0,b}(theta_t^c) of (20), parts (B, n, S, d)."""
    point = stack.theta_star_central + stack.delta_theta
    return go.averaged(go.objective_residual(stack, point))


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


def square(vectors: Numbers) -> Numbers:
    """||v||^2, shape (B,)."""
    return np.asarray((vectors**2).sum(axis=-1))


def progress(
    stack: FiniteStack, error: Numbers, parts: Numbers, alpha: Numbers, contraction: Numbers
) -> Numbers:
    """(E||error - alpha g||^2 - (1 - alpha contraction) ||error||^2) / alpha, shape (B,).

    The direction g is given by its parts. Without the division's cancellation this is
    contraction ||error||^2 - 2 <E g, error> + alpha E||g||^2.
    """
    inner = (go.mean(stack, parts) * error).sum(axis=-1)
    return np.asarray(
        contraction * square(error) - 2 * inner + alpha * go.second_moment(stack, parts)
    )
