"""OOD-PL, Appendix D.1: the inner loop's Lemmas 3 to 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import PAIRS, runs, stable
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import contraction as at
from experiments.oodpl.theory.inner import Inner, flat
from linsys.linalg import Numbers, norm

View = Callable[..., Any]
_ALLOWED: dict[str, View] = {"Lemma 5's alpha": lambda s: s.run.allowed(s.run.printed)}
_ALLOWED_TRUE: dict[str, View] = {"Lemma 5's alpha": lambda s: s.run.allowed(s.run.true)}
_STABLE: dict[str, View] = {"alpha stable": stable}
_BETA: dict[str, View] = {
    **_ALLOWED,
    "Lemma 4's beta": lambda s: at.conditions(s.run, s.run.printed).printed_lemma_4,
}
_STEP_II: dict[str, View] = {
    **_ALLOWED_TRUE,
    "step (ii)": lambda s: at.conditions(s.run, s.run.true).step_ii,
}
_MATRICES = {"q": (1, 2)}
_ONE_PROMPT = {"X": (1, 1)}
_TWO_ANSWERS = {"X": (1, 1), "Y": (2, 2), "p": (1, 1)}
_TWO_PROMPTS = {"X": (2, 2), "Y": (2, 2), "p": (1, 1)}

# The Jacobian of theta_*.


def _steps(run: Inner) -> Numbers:
    return np.arange(1, run.D + 1)


@PAPER.upper(
    "dtheta",
    ref="proof of Lemma 3",
    tex=r"\Big\|\frac{\partial\theta_*}{\partial\phi}\Big\|\le\frac{MT}{\beta L}",
    on=runs(printed=True),
    expect="violated",
    note="Step (i) takes E[||H||^-1] for ||E[H]^-1||, and (ii) bounds 1/||H|| by 1/L, where it is "
    "at least 1/L. A larger L, which Assumption 2 allows, makes the printed bound as small as one "
    "likes. Features (0, 0), (0, 0.1) and (1, 0), equal chances, gradients of r (1, 0, 0), beta = "
    "1: 10.05 against 3.98. L = mu only for a policy whose curvature is one constant. Lemmas 3 and "
    "4 use it for ||d theta_0/d phi - d theta_*/d phi||, for sigma_2's factor and for the weight "
    "T^2/beta^2; Theorem 1 has its M^2/L^2 and 24 M^2 T^2/beta^2 from it.",
    corrected="dtheta_corrected",
    printed_as="proof step",
)
def dtheta(run: Inner) -> rc.Sides:
    """||d theta_* / d phi|| <= M T / (beta L)."""
    at = run.policy
    return norm(flat(run.jacobian_star)), at.M * run.reward.T / (run.system.beta * at.L)


@PAPER.upper(
    "dtheta_corrected",
    ref="proof of Lemma 3, corrected",
    tex=r"\Big\|\frac{\partial\theta_*}{\partial\phi}\Big\|_F\le\frac{MT}{\beta\mu}",
    on=runs(sizes=_MATRICES),
    derivation="With w = e^(r/beta): ||E[w grad r g']||_F <= M T E[w], and E[w H] >= mu E[w]. E[w] "
    "cancels. Attained where g = +-M with one curvature and grad r = +-T along.",
)
def dtheta_corrected(run: Inner) -> rc.Sides:
    """||d theta_* / d phi|| <= M T / (beta mu), in the Frobenius norm; neither b nor B is in it."""
    return norm(flat(run.jacobian_star)), run.jacobian_bound


# Lemma 5.


@PAPER.upper(
    "lemma_5",
    ref="Lemma 5, equation (40)",
    tex=r"\mathbb E\|\theta_{t+1}-\theta_*\|^2\le\Big(1-\frac{2\alpha b\mu BL}{(b\mu+BL)e^\beta}"
    r"\Big)\mathbb E\|\theta_t-\theta_*\|+\alpha^2\sigma^2",
    on=runs(printed=True, given=_ALLOWED),
    expect="violated",
    note="Three slips, each of which makes it false. The square is missing on the right: theta_0 - "
    "theta_* = 2 and a small alpha have 3.98 against 2.00. Lemma 1's b/e^beta and B/e^beta are no "
    "bounds of e^(r/beta): ood.lemma_5_squared. And (21) bounds the variance by sigma: "
    "ood.lemma_5_variance. alpha <= 2 e^beta/(b mu + B L) is no stability condition either.",
    corrected="lemma_5_corrected",
    uses=["lemma_1", "lemma_1_convexity", "A4"],
)
def lemma_5(run: Inner) -> rc.Sides:
    """E||theta_{t+1} - theta_*||^2 <= (1 - 2 alpha b mu B L / ((b mu + B L) e^beta)) E||theta_t -
    theta_*|| + alpha^2 sigma^2 for alpha <= 2 e^beta / (b mu + B L). Here mu and L are those of a
    ball with theta_* and all iterates.
    """
    after = at.progress(run, run.printed) * run.first_moments[:, :-1]
    return run.errors[1][:, 1:], after + at.spread_of(run, run.largest_variances[0])


@PAPER.upper(
    "lemma_5_squared",
    ref="Lemma 5 with the square of its proof",
    on=lemma_5.space,
    tex=r"\mathbb E\|\theta_{t+1}-\theta_*\|^2\le\Big(1-\frac{2\alpha b\mu BL}{(b\mu+BL)e^\beta}"
    r"\Big)\mathbb E\|\theta_t-\theta_*\|^2+\alpha^2\sigma^2",
    expect="violated",
    note="b/e^beta is no lower bound of e^(r/beta). Features (0, 0, 1), r = -1, beta = 0.1: steps "
    "have size alpha e^-10, and the lemma has them forget the past at the rate alpha b mu e^-0.1: "
    "2.0e-7 against 1.5e-7 after three steps from theta_*, alpha = 12.",
    corrected="lemma_5_corrected",
    reading="With the square on the right that its proof has and the statement lacks.",
    printed_as="proof step",
    reading_of="lemma_5",
)
def lemma_5_squared(run: Inner) -> rc.Sides:
    """E||theta_{t+1} - theta_*||^2 <= (1 - 2 alpha b mu B L / ((b mu + B L) e^beta)) E||theta_t -
    theta_*||^2 + alpha^2 sigma^2 for alpha <= 2 e^beta / (b mu + B L).
    """
    return at.lemma_5_squared(run)


@PAPER.upper(
    "lemma_5_variance",
    ref="Lemma 5 with its square and b^(1/beta), the variance as in (21)",
    on=runs(given=_ALLOWED_TRUE),
    tex=r"\mathbb E\|\theta_{t+1}-\theta_*\|^2\le\Big(1-\frac{2\alpha b^{1/\beta}\mu B^{1/\beta}L}"
    r"{b^{1/\beta}\mu+B^{1/\beta}L}\Big)\mathbb E\|\theta_t-\theta_*\|^2+\alpha^2\sigma^2,\quad"
    r"\mathbb E_z\|\nabla_\theta\mathcal L_{FT}-\nabla_\theta\ell_{FT}\|^2\le\sigma",
    expect="violated",
    note="(21) has sigma where the proof has sigma^2. Below one sigma is more than sigma^2: "
    "features (0, 0, 0.1), r = 0 and alpha = 400, from theta_*: 356 against 16.",
    corrected="lemma_5_corrected",
    reading="With the square, true bounds of e^(r/beta), and sigma as (21) defines it: what is "
    "left of the slips is (21) alone.",
    printed_as="ours",
    reading_of="lemma_5",
)
def lemma_5_variance(run: Inner) -> rc.Sides:
    """E||theta_{t+1} - theta_*||^2 <= (1 - 2 alpha b' mu B' L/(b' mu + B' L)) E||theta_t -
    theta_*||^2 + alpha^2 sigma^2 for alpha <= 2/(b' mu + B' L), b' = b^(1/beta), B' = B^(1/beta),
    where E||grad L_FT - grad l_FT||^2 <= sigma as Assumption 4 prints it.
    """
    return at.lemma_5_variance(run)


@PAPER.upper(
    "lemma_5_corrected",
    ref="Lemma 5, corrected",
    tex=r"\mathbb E\|\theta_{t+1}-\theta_*\|^2\le\gamma^2\,\mathbb E\|\theta_t-\theta_*\|^2"
    r"+\alpha^2\sigma^2,\quad\gamma=|1-\alpha b^{1/\beta}\mu|\vee|1-\alpha B^{1/\beta}L|",
    on=runs(given=_STABLE),
    derivation="grad L_FT(theta) = S (theta - theta_*) with the mean S of Hessians between them, "
    "b^(1/beta) mu <= S <= B^(1/beta) L, so that the mean step has at most the length gamma "
    "||d_t||; the variance adds alpha^2 sigma^2. For alpha <= 2/(m + l), m and l the two bounds, "
    "gamma^2 <= 1 - 2 alpha m l/(m + l), the printed form. Attained.",
)
def lemma_5_corrected(run: Inner) -> rc.Sides:
    """E||theta_{t+1} - theta_*||^2 <= gamma^2 E||theta_t - theta_*||^2 + alpha^2 sigma^2, gamma =
    max(|1 - alpha b^(1/beta) mu|, |1 - alpha B^(1/beta) L|), sigma^2 the variance; gamma < 1 for
    alpha < 2/(B^(1/beta) L).
    """
    after = run.gamma[:, None] ** 2 * run.errors[1][:, :-1]
    return run.errors[1][:, 1:], after + at.spread_of(run, run.variances[0])


# Lemma 4.


@PAPER.upper(
    "lemma_4",
    ref="Lemma 4, equation (36)",
    tex=r"\mathbb E\Big\|\frac{\partial\theta_D}{\partial\phi}-\frac{\partial\theta_*}"
    r"{\partial\phi}\Big\|^2+\frac{T^2}{\beta^2}\mathbb E\|\theta_D-\theta_*\|^2\le q^D\frac{T^2}"
    r"{\beta^2}\Big(\frac{M^2}{L^2}+\|\theta_0-\theta_*\|^2\Big)+V\sum_{t<D}q^t",
    on=runs(printed=True, sizes=_ONE_PROMPT, given=_BETA),
    expect="violated",
    note="Four steps break: b/e^beta and B/e^beta (Lemma 1), M T/(beta L) (ood.dtheta), the "
    "condition on beta, which has the wrong direction (ood.lemma_4_step_ii), and alpha^2 is lost "
    "before sigma_2^2. Features (0, 0), (0, 0.1), (1, 0), equal chances, r = 0, gradients (0, 1, "
    "0), ||phi|| <= 1, beta = 1, alpha = 0.4, D = 1, start at theta_*: 99.9 against 53.8. With "
    "b^(1/beta) it is false as well, ood.lemma_4_true_bounds. Where all steps hold q is at least "
    "4/3 and the bound grows with D: ood.lemma_4_q. So Lemma 3 and Theorem 1 have no valid "
    "inner-loop bound.",
    corrected="lemma_4_corrected",
    main=True,
    uses=[
        "lemma_2",
        "lemma_2_33",
        "lemma_5",
        "dtheta",
        "lemma_4_step_i",
        "lemma_4_step_ii",
        "eq_38",
    ],
)
def lemma_4(run: Any) -> rc.Sides:
    """E||d theta_D/d phi - d theta_*/d phi||^2 + (T^2/beta^2) E||theta_D - theta_*||^2 <= q^D
    (T^2/beta^2)(M^2/L^2 + ||theta_0 - theta_*||^2) + V sum_{t<D} q^t, q = 3 (1 - alpha b mu /
    e^beta)^2, V = alpha^2 sigma^2 T^2/beta^2 + 6 alpha^2 sigma_1^2 + 6 M^2 T^2 sigma_2^2 /
    (beta^2 L^2), for alpha <= 2 e^beta/(b mu + B L) and beta <= log(alpha B^2 A/(2 b mu)), A = L^2
    + M^2 rho^2/L^2. Here mu, L, M and rho are those of a ball with theta_* and all iterates.
    """
    return at.lemma_4(run, run.printed)


@PAPER.upper(
    "lemma_4_true_bounds",
    ref="Lemma 4 with b^(1/beta) and B^(1/beta)",
    on=runs(sizes=_ONE_PROMPT, given=_STEP_II),
    tex=lemma_4.latex + r",\quad q=3(1-\alpha b^{1/\beta}\mu)^2",
    expect="violated",
    note="M T/(beta L) for the Jacobian's error at the start. For D = 1 from theta_* and alpha to "
    "0 the left side tends to ||d theta_*/d phi||^2, which M^2 T^2/(beta^2 mu^2) bounds and may "
    "come near. The right side tends to (3 + 6 sigma_2^2) M^2 T^2/(beta^2 L^2), as V has no "
    "alpha^2 before sigma_2^2: less where L^2 > (3 + 6 sigma_2^2) mu^2. With M T/(beta mu) for "
    "M T/(beta L) throughout, in step (ii) as well, and alpha^2 put back before sigma_2^2, the "
    "proof goes through; its bound grows like (4/3)^D at least, ood.lemma_4_q.",
    corrected="lemma_4_corrected",
    reading="b^(1/beta) and B^(1/beta), between which e^(r/beta) lies as b <= e^r <= B, for the "
    "printed b/e^beta and B/e^beta.",
    printed_as="ours",
    reading_of="lemma_4",
)
def lemma_4_true_bounds(run: Inner) -> rc.Sides:
    """E||d theta_D/d phi - d theta_*/d phi||^2 + (T^2/beta^2) E||theta_D - theta_*||^2 <= q^D
    (T^2/beta^2)(M^2/L^2 + ||theta_0 - theta_*||^2) + V sum_{t<D} q^t for q = 3 (1 - alpha
    b^(1/beta) mu)^2, V of ood.lemma_4 and alpha <= 2/(b^(1/beta) mu + B^(1/beta) L), wherever step
    (ii) of its proof holds with b^(1/beta) and B^(1/beta).
    """
    return at.lemma_4(run, run.true)


@PAPER.upper(
    "lemma_4_step_i",
    ref="Lemma 4, step (i) of its proof",
    on=runs(printed=True, given=_ALLOWED),
    tex=r"\mathbb E\|e_{t+1}\|^2\le q\,\mathbb E\|e_t\|^2+\frac{6\alpha^2B^2T^2}"
    r"{\beta^2e^{2\beta}}A\,\mathbb E\|\theta_t-\theta_*\|^2+6\alpha^2\sigma_1^2+\frac{6M^2T^2}"
    r"{\beta^2L^2}\sigma_2^2",
    expect="violated",
    note="||I - alpha grad^2 l_FT|| <= 1 - alpha b mu/e^beta is false: with r = -1 and beta = 0.1 "
    "the step is alpha e^-10, and e_t stays where the lemma has it shrink. alpha^2 is missing "
    "before sigma_2^2, which only adds to the bound where alpha < 1 and fits no units.",
    corrected="lemma_4_recursion",
    reading="The first step of its proof by itself.",
    printed_as="proof step",
    reading_of="lemma_4",
)
def lemma_4_step_i(run: Inner) -> rc.Sides:
    """E||e_{t+1}||^2 <= q E||e_t||^2 + (6 alpha^2 B^2 T^2/(beta^2 e^(2 beta))) (L^2 + M^2
    rho^2/L^2) E||theta_t - theta_*||^2 + 6 alpha^2 sigma_1^2 + 6 M^2 T^2 sigma_2^2/(beta^2 L^2),
    e_t the error of d theta_t/d phi.
    """
    return at.lemma_4_step_i(run)


@PAPER.upper(
    "lemma_4_recursion",
    ref="Lemma 4, one step, corrected",
    tex=r"a_{t+1}^2\le(\gamma a_t+\alpha\Lambda d_t)^2+\alpha^2s(s+2\sigma_2a_t),\quad"
    r"\Lambda=\frac{B^{1/\beta}T}\beta\Big(L+\frac{M\rho}\mu\Big),\ s=\sigma_1+\frac{MT}"
    r"{\beta\mu}\sigma_2",
    on=runs(sizes=_MATRICES),
    derivation="e' = e (I - alpha H) - alpha A, A = grad_phi grad_theta l + (d theta_*/d phi) H. "
    "||I - alpha H|| <= gamma for each sample. E[A] is 0 at theta_*, so its mean is at most Lambda "
    "||d_t||; its standard deviation is at most s. The mean product of e (I - alpha H) and the "
    "rest of A is -alpha times that of e (H - E H) and it, at most alpha ||e|| sigma_2 s. Then E "
    "over the past. No step loses a constant factor, and none needs beta small or large.",
    uses=["dtheta_corrected"],
)
def lemma_4_recursion(run: Inner) -> rc.Sides:
    """a_{t+1}^2 <= (gamma a_t + alpha Lambda d_t)^2 + alpha^2 s (s + 2 sigma_2 a_t), a_t and d_t
    the roots of the mean squared errors of d theta_t/d phi and theta_t, Lambda = B^(1/beta)
    (T/beta)(L + M rho/mu), s = sigma_1 + (M T/(beta mu)) sigma_2, for every alpha.

    a and d are the roots of E||e_t||^2 and E||d_t||^2.
    """
    a, d = (np.sqrt(error[:, :-1]) for error in run.errors)
    sigma_2 = np.sqrt(run.variances[2])[:, None]
    alpha, noise, drift = run.alpha[:, None], run.noise[:, None], run.drift[:, None]
    after = (run.gamma[:, None] * a + alpha * drift * d) ** 2
    return run.errors[0][:, 1:], after + alpha**2 * noise * (noise + 2 * sigma_2 * a)


@PAPER.upper(
    "lemma_4_corrected",
    ref="Lemma 4, corrected",
    tex=r"a_D^2+w\,d_D^2\le Q^D\Big(\frac{M^2T^2}{\beta^2\mu^2}+w\|\theta_0-\theta_*\|^2\Big)+V"
    r"\sum_{t<D}Q^t,\quad Q=\frac{1+\gamma}2,\ w=\frac{2\alpha^2\Lambda^2}{(1-\gamma)^2"
    r"(1+2\gamma)}",
    on=runs(sizes=_MATRICES, given=_STABLE),
    note="V/(1 - Q) goes to zero like alpha. For small alpha the bound is attained, and 0.999 of "
    "it by a_D^2 alone. Q^D does not go to zero for policies with features, as the ball grows "
    "with alpha D: ood.theorem_1_corrected. The printed weight T^2/beta^2 is too small for every "
    "Young parameter, ood.lemma_4_young; w is (2/3) Lambda^2/(b^(2/beta) mu^2) for small alpha.",
    derivation="ood.lemma_4_recursion with (gamma a + (1 - gamma) x)^2 <= gamma a^2 + (1 - gamma) "
    "x^2, x = alpha Lambda d/(1 - gamma), and 2 alpha^2 sigma_2 s a <= ((1 - gamma)/2) a^2 + 2 "
    "alpha^4 sigma_2^2 s^2/(1 - gamma); d_{t+1}^2 by ood.lemma_5_corrected. w is the least weight "
    "with alpha^2 Lambda^2/(1 - gamma) + w gamma^2 <= w Q. d theta_0/d phi = 0.",
    main=True,
    uses=["lemma_4_recursion", "lemma_5_corrected"],
)
def lemma_4_corrected(run: Inner) -> rc.Sides:
    """a_D^2 + w d_D^2 <= Q^D (M^2 T^2/(beta mu)^2 + w ||theta_0 - theta_*||^2) + V sum_{t<D} Q^t, Q
    = (1 + gamma)/2 < 1 for every alpha < 2/(B^(1/beta) L), w = 2 alpha^2 Lambda^2/((1 - gamma)^2
    (1 + 2 gamma)), V = alpha^2 s^2 (1 + 2 alpha^2 sigma_2^2/(1 - gamma)) + w alpha^2 sigma^2, where
    a_D and d_D are the roots of the mean squared errors of d theta_D/d phi and theta_D, gamma is
    that of ood.lemma_5_corrected, and Lambda and s are those of ood.lemma_4_recursion.
    """
    weight = at.weight_of(run)
    jacobian, iterate = (error[:, 1:] for error in run.errors)
    return jacobian + weight[:, None] * iterate, at.contracted(run, weight, _steps(run))


# Lemma 3.


@PAPER.upper(
    "lemma_3",
    ref="Lemma 3, equation (34)",
    tex=r"\mathbb E\Big\|\frac{\partial\mathcal L_{PL}(\theta_D)}{\partial\phi}-\frac{\partial"
    r"\mathcal L_{PL}(\theta_*)}{\partial\phi}\Big\|^2\le8M^2\Big(q^D\frac{T^2}{\beta^2}\Big("
    r"\frac{M^2}{L^2}+\|\theta_0-\theta_*\|^2\Big)+V\sum_{t<D}q^t\Big)",
    on=runs(printed=True, extra=PAIRS, sizes=_TWO_ANSWERS, given=_BETA),
    expect="violated",
    note="It rests on Lemma 4. Where e^(r/beta) is far below b/e^beta the iterates stay at "
    "theta_0 and q = 3 (1 - alpha b mu/e^beta)^2 is small: two answers with features 0 and 0.1 and "
    "equal chances, r = -1, gradients of r -1 and 1, ||phi|| <= 0.2, beta = 0.1, alpha = 1082, D = "
    "3, start at theta_* and one pair: 99.9 against 7.2. grad_theta L_PL is (2 L + M^2)-Lipschitz "
    "and not 2 L (ood.lpl_2L), and with M T/(beta mu) its term is 2 ((2 L + M^2) M T/(beta mu))^2.",
    corrected="lemma_3_corrected",
    main=True,
    uses=["lemma_4", "dtheta", "lpl_2M", "lpl_2L"],
)
def lemma_3(run: Any, pairs: Any) -> rc.Sides:
    """E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2 <= 8 M^2 (q^D (T^2/beta^2)(M^2/L^2 +
    ||theta_0 - theta_*||^2) + V sum_{t<D} q^t), q = 3 (1 - alpha b mu/e^beta)^2, V = alpha^2
    sigma^2 T^2/beta^2 + 6 alpha^2 sigma_1^2 + 6 M^2 T^2 sigma_2^2/(beta^2 L^2), under the
    conditions of ood.lemma_4. Here mu, L and M are those of a ball with theta_* and all iterates.
    """
    return at.lemma_3(run, pairs, run.printed)


@PAPER.upper(
    "lemma_3_true_bounds",
    ref="Lemma 3 with b^(1/beta) and B^(1/beta)",
    on=runs(extra=PAIRS, sizes=_TWO_PROMPTS, given=_STEP_II),
    tex=lemma_3.latex + r",\quad q=3(1-\alpha b^{1/\beta}\mu)^2",
    expect="violated",
    note="M T/(beta L) again: prompts of chances 0.999 and 0.001, features +-0.05 and +-1, all "
    "answers equally likely, r = 0 with gradients +-1, beta = 1, a pair of the second prompt, "
    "start at theta_*, D = 1 and alpha -> 0: 212 against 72, of which the sigma_2 term without its "
    "alpha^2 is 48, with sigma_2 = L, the most that it can be; with the variance that there is, 24 "
    "in place of 72.",
    corrected="lemma_3_corrected",
    reading="b^(1/beta) and B^(1/beta), between which e^(r/beta) lies as b <= e^r <= B, for the "
    "printed b/e^beta and B/e^beta.",
    printed_as="ours",
    reading_of="lemma_3",
)
def lemma_3_true_bounds(run: Inner, pairs: Any) -> rc.Sides:
    """E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2 <= 8 M^2 times the bound of
    ood.lemma_4_true_bounds, wherever step (ii) of Lemma 4's proof holds with b^(1/beta) and
    B^(1/beta).
    """
    return at.lemma_3(run, pairs, run.true)


@PAPER.upper(
    "lemma_3_corrected",
    ref="Lemma 3, corrected",
    tex=r"8M^2\Big(Q^D\Big(\frac{M^2T^2}{\beta^2\mu^2}+w\|\theta_0-\theta_*\|^2\Big)+V\sum_{t<D}"
    r"Q^t\Big),\quad w\ge\frac{T^2(2L+M^2)^2}{4\beta^2\mu^2}",
    on=runs(extra=PAIRS, sizes=_MATRICES, given=_STABLE),
    derivation="||J v - J_* v_*|| <= ||J - J_*|| ||v|| + ||J_*|| ||v - v_*|| with ||v|| <= 2 M and "
    "v = grad_theta L_PL (2 L + M^2)-Lipschitz (ood.lpl_2L_corrected), squared. "
    "ood.lemma_4_corrected holds for every larger w.",
    main=True,
    uses=["lemma_4_corrected", "lpl_2L_corrected", "lpl_2M"],
)
def lemma_3_corrected(run: Inner, pairs: Numbers) -> rc.Sides:
    """For alpha < 2/(B^(1/beta) L), E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2 is at
    most 8 M^2 times the bound of ood.lemma_4_corrected, with the larger of w and (T/(beta mu))^2
    (2 L + M^2)^2/4 for w.
    """
    return run.hypergradient_errors(pairs)[:, 1:], at.lemma_3_bound(run, _steps(run))
