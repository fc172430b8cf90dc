"""FIRM, Theorem 1 without beta: the mean objective rises as fast as the direction is long.

d = A lambda with the solution of (1) ascends the mean objective J_u = (1/M) sum_j J^j at least as
fast as d is long (:func:`mean_ascent`). Hence, for any noise xi_t^c in the gradients, steps a with
2 a L_J K <= 1 and no smoothing, with e^c = theta^c - thetabar:

    J_u(thetabar_{t+1}) - J_u(thetabar_t) >= a mean_c (|d^c|^2 - <xi_u^c, d^c> - L |e^c| |d^c|)
                                              - (L a^2 / 2) mean_c |d^c|^2,

and |e^c| <= a sum |d^c| over the steps since the last aggregation, so that the drift is paid for by
the ascent: sum_t mean |e|^2 <= (a^2 K (K-1) / 2) sum_t S_t, S_t = mean |d^c|^2. With <xi_u, d> <=
2 |xi_u|^2 + |d|^2 / 8 and the like for L |e| |d|, a quarter of a S_t is left, and as grad
J(thetabar) lambdabar = mean (d^c - xi^c lambda^c + (grad J(thetabar) - grad J(theta^c)) lambda^c),

    sum_t |grad J(thetabar_t) lambdabar_t|^2
        <= (27/2)(J_u(thetabar_T) - J_u(thetabar_0)) / a
            + sum_t mean_c (27 |xi_u^c|^2 + 3 |xi^c lambda^c|^2),

which is :func:`paid`. In expectation, with E|xi^{j,c}|^2 <= s^2 / B: a rate 1/(a T) + s^2/B without
log T, 1/beta and K, and without the assumption that clients' noises are independent.
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.firm.theory.descent import Round
from experiments.firm.theory.program import weights
from linsys.linalg import Numbers, squared, transpose


def paid(
    objectives: Round, first: Numbers, noise: Numbers, beta: Numbers, a: Numbers, K: int
) -> rc.Sides:
    """Both sides of the theorem of the module's text along FIRM's own path with eta = 1.

    Args:
        objectives: the objectives, any round with them.
        first: theta_0, (B, d).
        noise: xi_t^c, a row for each objective, (B, T, C, M, d).
        beta, a: (B,).
        K: local steps between aggregations.
    """
    count, T, C, M, _ = noise.shape
    theta = first[:, None] + 0 * noise[:, 0, :, 0]
    total, allowed = 0 * a, 0 * a
    for t in range(T):
        center = theta.sum(axis=1, keepdims=True) / C
        g = objectives.gradients(theta) + noise[:, t]
        lam = weights(transpose(g.reshape(count * C, M, -1)), np.repeat(beta, C))
        lam = lam.reshape(count, C, M)
        true = objectives.gradients(center)[:, 0]
        total = total + squared((true * (lam.sum(axis=1) / C)[..., None]).sum(axis=1))
        averaged = squared(noise[:, t].sum(axis=-2) / M)
        weighed = squared((noise[:, t] * lam[..., None]).sum(axis=-2))
        allowed = allowed + (27 * averaged + 3 * weighed).sum(axis=1) / C
        theta = theta + a[:, None, None] * (g * lam[..., None]).sum(axis=-2)
        if (t + 1) % K == 0:
            theta = theta.sum(axis=1, keepdims=True) / C + 0 * theta
    before, after = (objectives.values(x) for x in (first, theta.sum(axis=1) / C))
    gain = (after - before).sum(axis=-1) / M
    return total, 27 * gain / (2 * a) + allowed
