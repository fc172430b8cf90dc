"""FSLoRA, Appendix D.3: from (11) to the step that telescopes to Theorem 4.4.

The proof replaces E grad f~_i(X_i^h; S) by E grad f_i^S(X_i^h) and adds the sketches' variances
over the H steps. Both need a sketch that is independent of X_i^h: the claims
``fslora.*_fresh`` draw a fresh one in every step. Algorithm 1 keeps one sketch for the whole round:
the claims ``fslora.*_corrected`` state what is true of it. Constants are the least ones at the
points that the round visits. The whole argument, with G = grad f^S(X):

*Fresh sketches.* (11) to (14) hold as printed. In (15) the smoothness of f_i^S is L r/k_i, so that
the drift has r^2/k_i^2 once more than printed. gamma <= 1 / (3 H L max r/k_i) makes it at most half
of T_3, since sum_h h sum_{tau < h} a_tau <= (H^2/2) sum_tau a_tau. What is left is, with sigma^2 =
sigma_g^2 + sigma_s^2,

    T_3 <= gamma^2 mean(r^2/k^2) (3 H sigma^2 + 6 H^2 (sigma_h^2 + (c_h + 1) ||G||^2))

and gamma <= 1 / (4 H L sqrt((c_h + 1) mean(r^2/k^2))) makes the part with ||G||^2 at most (gamma
H/4) ||G||^2 in (14). Hence the theorem with fresh sketches, for both conditions:

    (1/T) sum_t E||G_t||^2 <= 4 F_0/(gamma T H) + 6 gamma Lbar sigma^2/N
        + 6 gamma^2 H L^2 mean(r^2/k^2) (sigma^2 + 2 H sigma_h^2)

*One sketch a round.* Write grad f~_i(X^h; S) = grad f~_i(X; S) + D_i^h, where ||D_i^h|| <= L
(r^2/k_i^2) ||X^h - X|| by Proposition D.4 (i). The first part has the mean grad f_i^S(X), so m, the
mean over devices, steps and outcomes, is G but for the mean of D: (12) holds with ||H m||^2 and
weights (r/k_i)^4. Of T_2 all but ||H m||^2 is the devices' variance over N: H (grad f~_i(X; S) -
grad f_i^S(X)) has H^2 sigma_s^2, the samples H sigma_g^2, uncorrelated; with D, twice the sum. For
gamma <= 1 / (2 H L_s) both drifts are at most gamma H of it. The drift itself is gamma^2 times 2 (h
sigma_g^2 + h^2 (sigma_s^2 + ||grad f_i^S||^2)) + 2 h sum ||D||^2, whose last part is at most half
of it for gamma <= 1 / (sqrt 2 H L max r^2/k_i^2); ||grad f_i^S||^2 <= 2 (c_h + 1) ||G||^2 + 2
sigma_h^2. Hence the theorem for Algorithm 1: for gamma <= 1 / (4 H L max(r^2/k_i^2) sqrt(c_h + 1)),
which implies all three conditions (the third is 3/32 >= (gamma H L)^2 mean(r^4/k^4) (c_h + 1)),

    (1/T) sum_t E||G_t||^2 <= 4 F_0/(gamma T H) + 4 gamma Lbar (sigma_g^2 + H sigma_s^2)/N
        + 8 gamma^2 H L^2 mean(r^4/k^4) (sigma_g^2 + (2 H/3) (sigma_s^2 + 2 sigma_h^2))
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.chain_round import Round
from linsys.linalg import Numbers


def eq15_smoothness(s: Round, power: int) -> rc.Sides:
    """What (15) uses of the smoothness of f_i^S: L^2 (r/k_i)^power, printed without r/k_i."""
    return s.turning, s.L[:, None] ** 2 * s.rho**power * s.drift


def one_component_drift(r: Numbers, H: Numbers, moved: Numbers) -> Numbers:
    """T_3 for k = 1 and r components that are alike, of which the selected one moves by ``moved``.

    Args:
        r, H: rank and local steps, shape (B,).
        moved: b_j^h - b_j^0, 0 beyond the H steps, shape (B, steps).
    """
    return np.asarray(r**2 * (moved**2).sum(axis=-1) / H)


def eq15(s: Round, c_h: Numbers) -> rc.Sides:
    """(15) with 9 gamma^2 L^2 H^2 T_3 on the right."""
    noise = 3 * s.H * (s.sigma_g2 + s.sigma_s2("visited"))
    apart = 9 * s.H**2 * (s.sigma_h2(c_h) + (c_h + 1) * s.G2)
    T3 = s.weighed_drift(2)
    return T3, s.gamma**2 * s.powers(2) * (noise + apart) + 9 * (s.gamma * s.L * s.H) ** 2 * T3
