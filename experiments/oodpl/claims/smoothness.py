"""OOD-PL, Lemmas 1 and 2, and the step (i) of Lemma 3: convexity and smoothness of the losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ratecheck as rc
from experiments.oodpl.claims._spaces import JETS, PAIRS, STRONG_PAIRS, points, printed, true
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import smoothness as at

Function = Callable[..., Any]


def _between(sides: Function, instance: Any, constants: Any, limits: Function) -> rc.Sides:
    """Both sides between the two theta of an instance, with these limits of exp(r/beta)."""
    there = instance.system, instance.phi, points(instance)
    both: rc.Sides = sides(*there, constants, limits(instance))
    return both


@PAPER.upper(
    "lemma_1",
    ref="Lemma 1, smoothness",
    tex=r"\|\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,\theta')"
    r"\|\le\frac{BL}{e^\beta}\|\theta-\theta'\|",
    on=STRONG_PAIRS,
    expect="violated",
    note="Step (ii) takes exp(r/beta) <= B/e^beta, see ood.exp_r_beta. With r = 0, B = 1, one "
    "prompt, psi = -1 and 1 with equal chances: the curvature at theta = 0 is 1 = L, whatever "
    "beta. Lemma 5 and Theorem 1 need alpha <= 2/(b^(1/beta) mu + B^(1/beta) L), which is not "
    "exponentially large in beta.",
    corrected="lemma_1_corrected",
    main=True,
    uses=["exp_r_beta"],
)
def lemma_1(instance: Any) -> rc.Sides:
    """grad_theta L_FT is (B L/e^beta)-Lipschitz."""
    return _between(at.smoothness, instance, instance.policy.L, printed)


@PAPER.upper(
    "lemma_1_corrected",
    ref="Lemma 1, smoothness, corrected",
    tex=r"\|\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,\theta')"
    r"\|\le B^{1/\beta}L\|\theta-\theta'\|",
    on=PAIRS,
    derivation="The paper's proof with ood.exp_r_beta_corrected: a mean of e^(r/beta) times "
    "changes of grad log pi.",
    main=True,
    uses=["exp_r_beta_corrected"],
)
def lemma_1_corrected(instance: Any) -> rc.Sides:
    """grad_theta L_FT is (B^(1/beta) L)-Lipschitz."""
    return _between(at.smoothness, instance, instance.policy.L, true)


@PAPER.upper(
    "lemma_1_convexity",
    ref="Lemma 1, strong convexity",
    tex=r"\langle\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,"
    r"\theta'),\theta-\theta'\rangle\ge\frac{b\mu}{e^\beta}\|\theta-\theta'\|^2",
    on=STRONG_PAIRS,
    expect="violated",
    note="Step (iii) takes exp(r/beta) >= b/e^beta. It is too much where b > e^(beta^2/(beta - "
    "1)), beta > 1: with b = B = e^5 and beta = 2, exp(r/beta) is e^2.5 and b/e^beta is e^3; for "
    "beta < 1 where b < e^(-beta^2/(1 - beta)). Elsewhere it is true and far too little: q in "
    "Lemmas 3 and 4 has (1 - alpha b mu/e^beta)^2 for (1 - alpha b^(1/beta) mu)^2.",
    corrected="lemma_1_convexity_corrected",
    main=True,
    uses=["exp_r_beta"],
)
def lemma_1_convexity(instance: Any) -> rc.Sides:
    """L_FT is (b mu/e^beta)-strongly convex in theta."""
    return _between(at.convexity, instance, instance.policy.mu, printed)


@PAPER.upper(
    "lemma_1_convexity_corrected",
    ref="Lemma 1, strong convexity, corrected",
    tex=r"\langle\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,"
    r"\theta'),\theta-\theta'\rangle\ge b^{1/\beta}\mu\|\theta-\theta'\|^2",
    on=PAIRS,
    derivation="Each sample adds exp(r/beta) >= b^(1/beta) times at least mu ||theta - theta'||^2. "
    "Step (ii) of the paper drops mu and (iii) has it again.",
    main=True,
    uses=["exp_r_beta_corrected"],
)
def lemma_1_convexity_corrected(instance: Any) -> rc.Sides:
    """L_FT is (b^(1/beta) mu)-strongly convex in theta."""
    return _between(at.convexity, instance, instance.policy.mu, true)


@PAPER.upper(
    "lemma_2",
    ref="Lemma 2, (32)",
    tex=r"\|\nabla_\phi\nabla_\theta\ell_{FT}(\phi,\theta)-\nabla_\phi\nabla_\theta\ell_{FT}(\phi,"
    r"\theta')\|\le\frac{BTL}{\beta e^\beta}\|\theta-\theta'\|",
    on=STRONG_PAIRS,
    expect="violated",
    note="Step (ii) takes exp(r/beta) <= B/e^beta, see ood.exp_r_beta. It enters Lemma 4 as 6 "
    "alpha^2 B^2 T^2 L^2/(beta^2 e^(2 beta)).",
    corrected="lemma_2_corrected",
    uses=["exp_r_beta"],
)
def lemma_2(instance: Any) -> rc.Sides:
    """grad_phi grad_theta l_FT is (B T L/(beta e^beta))-Lipschitz in theta."""
    return _between(at.mixed_lipschitz, instance, (instance.reward.T, instance.policy.L), printed)


@PAPER.upper(
    "lemma_2_corrected",
    ref="Lemma 2, (32), corrected",
    tex=r"\|\nabla_\phi\nabla_\theta\ell_{FT}(\phi,\theta)-\nabla_\phi\nabla_\theta\ell_{FT}(\phi,"
    r"\theta')\|\le\frac{B^{1/\beta}TL}\beta\|\theta-\theta'\|",
    on=PAIRS,
    derivation="It is -e^(r/beta) grad r (grad log pi)'/beta, and a product of a column and a row "
    "has the product of their lengths for its norm.",
    uses=["exp_r_beta_corrected"],
)
def lemma_2_corrected(instance: Any) -> rc.Sides:
    """grad_phi grad_theta l_FT is (B^(1/beta) T L/beta)-Lipschitz in theta."""
    return _between(at.mixed_lipschitz, instance, (instance.reward.T, instance.policy.L), true)


@PAPER.upper(
    "lemma_2_33",
    ref="Lemma 2, (33)",
    tex=r"\|\nabla_\theta^2\ell_{FT}(\phi,\theta)-\nabla_\theta^2\ell_{FT}(\phi,\theta')\|\le\frac"
    r"{B\rho}{e^\beta}\|\theta-\theta'\|",
    on=STRONG_PAIRS,
    expect="violated",
    note="As in (32). It enters Lemma 4 as 6 alpha^2 B^2 T^2 M^2 rho^2/(beta^2 L^2 e^(2 beta)).",
    corrected="lemma_2_33_corrected",
    uses=["exp_r_beta"],
)
def lemma_2_33(instance: Any) -> rc.Sides:
    """grad_theta^2 l_FT is (B rho/e^beta)-Lipschitz in theta."""
    return _between(at.curvature_lipschitz, instance, instance.policy.rho, printed)


@PAPER.upper(
    "lemma_2_33_corrected",
    ref="Lemma 2, (33), corrected",
    tex=r"\|\nabla_\theta^2\ell_{FT}(\phi,\theta)-\nabla_\theta^2\ell_{FT}(\phi,\theta')\|\le "
    r"B^{1/\beta}\rho\|\theta-\theta'\|",
    on=PAIRS,
    derivation="The paper's proof with ood.exp_r_beta_corrected.",
    uses=["exp_r_beta_corrected"],
)
def lemma_2_33_corrected(instance: Any) -> rc.Sides:
    """grad_theta^2 l_FT is (B^(1/beta) rho)-Lipschitz in theta."""
    return _between(at.curvature_lipschitz, instance, instance.policy.rho, true)


@PAPER.upper(
    "lpl_2M",
    printed_as="proof step",
    ref="proof of Lemma 3, first display of step (i)",
    tex=r"\|\nabla_\theta\mathcal L_{PL}\|\le2M",
    on=JETS,
    note="The proof leaves out sigma(-u) <= 1, which does not hurt. It is at most (1 - p_*) 2M, "
    "and 2M is approached by y, y' of small chances, opposite slopes and pi(y) far below pi(y').",
)
def lpl_2M(gradient_bound: Any) -> rc.Sides:
    """||grad_theta l_PL|| <= 2M, for any policy."""
    return gradient_bound()


@PAPER.upper(
    "lpl_2L",
    ref="proof of Lemma 3, second display of step (i)",
    tex=r"\|\nabla_\theta\mathcal L_{PL}(\theta)-\nabla_\theta\mathcal L_{PL}(\theta')\|\le2L\|"
    r"\theta-\theta'\|",
    on=STRONG_PAIRS,
    expect="violated",
    note="The proof differentiates log pi(y) - log pi(y') and not -log sigma of it: the slope of "
    "sigma(-u) adds sigma'(u) (grad u)(grad u)', up to M^2. Three answers psi = -1, 0, 1 with h = "
    "c, 1, c for a small c: L is about 2c near theta = 0, where Assumption 1 holds with mu = 2c/(1 "
    "+ 2c), and the Hessian of l_PL for the outer two is sigma'(0) 2^2 = 1. In Lemma 3 the term 2L "
    "||d theta_*|| ||theta_D - theta_*||, and with it the second half of the factor of q^D, needs "
    "the constant of ood.lpl_2L_corrected, which does not cancel against the 1/L of ood.dtheta.",
    corrected="lpl_2L_corrected",
    printed_as="proof step",
    main=True,
)
def lpl_2L(instance: Any) -> rc.Sides:
    """grad_theta L_PL is 2L-Lipschitz."""
    return at.preference_smoothness(instance.system, points(instance), 2 * instance.policy.L)


@PAPER.upper(
    "lpl_2L_corrected",
    ref="smoothness of L_PL for any policy",
    tex=r"\|\nabla_\theta^2\ell_{PL}\|\le\max_{0\le s\le1}\big(2Ls+4M^2s(1-s)\big)=\begin{cases}"
    r"\frac{(L+2M^2)^2}{4M^2}&L\le2M^2\\2L&L\ge2M^2\end{cases}",
    on=JETS,
    derivation="It is s (H(y') - H(y)) + s (1 - s) (g - g')(g - g')' with s = sigma(-u) = 1 - p_*, "
    "H and g the derivatives of log pi: at most 2 L s + 4 M^2 s (1 - s). Approached by y, y' of "
    "small chances with opposite g and H and the odds s/(1 - s), beside an answer that has almost "
    "all chance.",
    main=True,
)
def lpl_2L_corrected(hessian_bound: Any) -> rc.Sides:
    """||Hess_theta l_PL|| <= (L + 2 M^2)^2/(4 M^2) if L <= 2 M^2, else 2L; at most 2L + M^2."""
    return hessian_bound()


@PAPER.upper(
    "lpl_2L_exponential",
    ref="smoothness of L_PL for exponential families",
    tex=r"\|\nabla_\theta\mathcal L_{PL}(\theta)-\nabla_\theta\mathcal L_{PL}(\theta')\|\le\frac"
    r"{d^2}4\|\theta-\theta'\|",
    on=PAIRS,
    printed_as="ours",
    derivation="The Hessians of log pi are the same for y and y' and cancel; what remains is "
    "sigma'(u) (psi - psi')(psi - psi')', sigma' <= 1/4. So L_PL is convex in theta.",
)
def lpl_2L_exponential(instance: Any) -> rc.Sides:
    """For exponential families with features psi, grad_theta L_PL is (d^2/4)-Lipschitz, d the
    largest diameter of the psi(x, .).
    """
    return at.preference_smoothness(instance.system, points(instance), instance.policy.d**2 / 4)
