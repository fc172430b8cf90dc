"""OOD-PL, Lemmas 1 and 2, and the step (i) of Lemma 3: convexity and smoothness of the losses."""

from __future__ import annotations

import ratecheck as rc
from experiments.oodpl.claims._spaces import JETS, PAIRS, points, printed, true
from experiments.oodpl.theory import smoothness as at

LEMMA_1 = rc.Claim(
    id="ood.lemma_1",
    source="OOD-PL, Lemma 1, smoothness",
    text="grad_theta L_FT is (B L/e^beta)-Lipschitz.",
    latex=r"\|\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,\theta')"
    r"\|\le\frac{BL}{e^\beta}\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.smoothness(s.system, s.phi, points(s), s.policy.L, printed(s)),
    expect="violated",
    note="Step (ii) takes exp(r/beta) <= B/e^beta, see ood.exp_r_beta. With r = 0, B = 1, one "
    "prompt, psi = -1 and 1 with equal chances: the curvature at theta = 0 is 1 = L, whatever "
    "beta. Lemma 5 and Theorem 1 need alpha <= 2/(b^(1/beta) mu + B^(1/beta) L), which is not "
    "exponentially large in beta.",
    corrected="ood.lemma_1_corrected",
    main=True,
)
LEMMA_1_CORRECTED = rc.Claim(
    id="ood.lemma_1_corrected",
    source="OOD-PL, Lemma 1, smoothness, corrected",
    text="grad_theta L_FT is (B^(1/beta) L)-Lipschitz.",
    latex=r"\|\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,\theta')"
    r"\|\le B^{1/\beta}L\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.smoothness(s.system, s.phi, points(s), s.policy.L, true(s)),
    derivation="The paper's proof with ood.exp_r_beta_corrected: a mean of e^(r/beta) times "
    "changes of grad log pi.",
    main=True,
)
LEMMA_1_CONVEXITY = rc.Claim(
    id="ood.lemma_1_convexity",
    source="OOD-PL, Lemma 1, strong convexity",
    text="L_FT is (b mu/e^beta)-strongly convex in theta.",
    latex=r"\langle\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,"
    r"\theta'),\theta-\theta'\rangle\ge\frac{b\mu}{e^\beta}\|\theta-\theta'\|^2",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.convexity(s.system, s.phi, points(s), s.policy.mu, printed(s)),
    expect="violated",
    note="Step (iii) takes exp(r/beta) >= b/e^beta. It is too much where b > e^(beta^2/(beta - "
    "1)), beta > 1: with b = B = e^5 and beta = 2, exp(r/beta) is e^2.5 and b/e^beta is e^3; for "
    "beta < 1 where b < e^(-beta^2/(1 - beta)). Elsewhere it is true and far too little: q in "
    "Lemmas 3 and 4 has (1 - alpha b mu/e^beta)^2 for (1 - alpha b^(1/beta) mu)^2.",
    corrected="ood.lemma_1_convexity_corrected",
    main=True,
)
LEMMA_1_CONVEXITY_CORRECTED = rc.Claim(
    id="ood.lemma_1_convexity_corrected",
    source="OOD-PL, Lemma 1, strong convexity, corrected",
    text="L_FT is (b^(1/beta) mu)-strongly convex in theta.",
    latex=r"\langle\nabla_\theta\mathcal L_{FT}(\phi,\theta)-\nabla_\theta\mathcal L_{FT}(\phi,"
    r"\theta'),\theta-\theta'\rangle\ge b^{1/\beta}\mu\|\theta-\theta'\|^2",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.convexity(s.system, s.phi, points(s), s.policy.mu, true(s)),
    derivation="Each sample adds exp(r/beta) >= b^(1/beta) times at least mu ||theta - theta'||^2. "
    "Step (ii) of the paper drops mu and (iii) has it again.",
    main=True,
)
LEMMA_2 = rc.Claim(
    id="ood.lemma_2",
    source="OOD-PL, Lemma 2, (32)",
    text="grad_phi grad_theta l_FT is (B T L/(beta e^beta))-Lipschitz in theta.",
    latex=r"\|\nabla_\phi\nabla_\theta\ell_{FT}(\phi,\theta)-\nabla_\phi\nabla_\theta\ell_{FT}(\phi,"
    r"\theta')\|\le\frac{BTL}{\beta e^\beta}\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.mixed_lipschitz(
        s.system, s.phi, points(s), (s.reward.T, s.policy.L), printed(s)
    ),
    expect="violated",
    note="Step (ii) takes exp(r/beta) <= B/e^beta, see ood.exp_r_beta. It enters Lemma 4 as 6 "
    "alpha^2 B^2 T^2 L^2/(beta^2 e^(2 beta)).",
    corrected="ood.lemma_2_corrected",
)
LEMMA_2_CORRECTED = rc.Claim(
    id="ood.lemma_2_corrected",
    source="OOD-PL, Lemma 2, (32), corrected",
    text="grad_phi grad_theta l_FT is (B^(1/beta) T L/beta)-Lipschitz in theta.",
    latex=r"\|\nabla_\phi\nabla_\theta\ell_{FT}(\phi,\theta)-\nabla_\phi\nabla_\theta\ell_{FT}(\phi,"
    r"\theta')\|\le\frac{B^{1/\beta}TL}\beta\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.mixed_lipschitz(
        s.system, s.phi, points(s), (s.reward.T, s.policy.L), true(s)
    ),
    derivation="It is -e^(r/beta) grad r (grad log pi)'/beta, and a product of a column and a row "
    "has the product of their lengths for its norm.",
)
LEMMA_2_33 = rc.Claim(
    id="ood.lemma_2_33",
    source="OOD-PL, Lemma 2, (33)",
    text="grad_theta^2 l_FT is (B rho/e^beta)-Lipschitz in theta.",
    latex=r"\|\nabla_\theta^2\ell_{FT}(\phi,\theta)-\nabla_\theta^2\ell_{FT}(\phi,\theta')\|\le\frac"
    r"{B\rho}{e^\beta}\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.curvature_lipschitz(s.system, s.phi, points(s), s.policy.rho, printed(s)),
    expect="violated",
    note="As in (32). It enters Lemma 4 as 6 alpha^2 B^2 T^2 M^2 rho^2/(beta^2 L^2 e^(2 beta)).",
    corrected="ood.lemma_2_33_corrected",
)
LEMMA_2_33_CORRECTED = rc.Claim(
    id="ood.lemma_2_33_corrected",
    source="OOD-PL, Lemma 2, (33), corrected",
    text="grad_theta^2 l_FT is (B^(1/beta) rho)-Lipschitz in theta.",
    latex=r"\|\nabla_\theta^2\ell_{FT}(\phi,\theta)-\nabla_\theta^2\ell_{FT}(\phi,\theta')\|\le"
    r"B^{1/\beta}\rho\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.curvature_lipschitz(s.system, s.phi, points(s), s.policy.rho, true(s)),
    derivation="The paper's proof with ood.exp_r_beta_corrected.",
)
LPL_2M = rc.Claim(
    id="ood.lpl_2M",
    source="OOD-PL, proof of Lemma 3, first display of step (i)",
    text="||grad_theta l_PL|| <= 2M, for any policy.",
    latex=r"\|\nabla_\theta\mathcal L_{PL}\|\le2M",
    kind="upper",
    space=JETS,
    measure=lambda s: s.gradient_bound(),
    note="The proof leaves out sigma(-u) <= 1, which does not hurt. It is (1 - p_*) 2M, and 2M is "
    "approached by y, y' of small chances, opposite slopes and pi(y) far below pi(y').",
)
LPL_2L = rc.Claim(
    id="ood.lpl_2L",
    source="OOD-PL, proof of Lemma 3, second display of step (i)",
    text="grad_theta L_PL is 2L-Lipschitz.",
    latex=r"\|\nabla_\theta\mathcal L_{PL}(\theta)-\nabla_\theta\mathcal L_{PL}(\theta')\|\le2L\|"
    r"\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.preference_smoothness(s.system, points(s), 2 * s.policy.L),
    expect="violated",
    note="The proof differentiates log pi(y) - log pi(y') and not -log sigma of it: the slope of "
    "sigma(-u) adds sigma'(u) (grad u)(grad u)', up to M^2. Three answers psi = -1, 0, 1 with h = "
    "c, 1, c for a small c: L is about 2c near theta = 0, where Assumption 1 holds with mu = 2c/(1 "
    "+ 2c), and the Hessian of l_PL for the outer two is sigma'(0) 2^2 = 1. In Lemma 3 the term 2L "
    "||d theta_*|| ||theta_D - theta_*||, and with it the second half of the factor of q^D, needs "
    "the constant of ood.lpl_2L_corrected, which does not cancel against the 1/L of ood.dtheta.",
    corrected="ood.lpl_2L_corrected",
    main=True,
)
LPL_2L_CORRECTED = rc.Claim(
    id="ood.lpl_2L_corrected",
    source="OOD-PL, smoothness of L_PL for any policy",
    text="||Hess_theta l_PL|| <= (L + 2 M^2)^2/(4 M^2) if L <= 2 M^2, else 2L; less than 2L + M^2.",
    latex=r"\|\nabla_\theta^2\ell_{PL}\|\le\max_{0\le s\le1}\big(2Ls+4M^2s(1-s)\big)=\frac{(L+2M^2)"
    r"^2}{4M^2}\quad(L\le2M^2)",
    kind="upper",
    space=JETS,
    measure=lambda s: s.hessian_bound(),
    derivation="It is s (H(y') - H(y)) + s (1 - s) (g - g')(g - g')' with s = sigma(-u) = 1 - p_*, "
    "H and g the derivatives of log pi: at most 2 L s + 4 M^2 s (1 - s). Approached by y, y' of "
    "small chances with opposite g and H and the odds s/(1 - s), beside an answer that has almost "
    "all chance.",
    main=True,
)
LPL_2L_EXPONENTIAL = rc.Claim(
    id="ood.lpl_2L_exponential",
    source="OOD-PL, smoothness of L_PL for exponential families",
    text="grad_theta L_PL is (d^2/4)-Lipschitz, d the diameter of psi.",
    latex=r"\|\nabla_\theta\mathcal L_{PL}(\theta)-\nabla_\theta\mathcal L_{PL}(\theta')\|\le\frac"
    r"{d^2}4\|\theta-\theta'\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.preference_smoothness(s.system, points(s), s.policy.d**2 / 4),
    derivation="The Hessians of log pi are the same for y and y' and cancel; what remains is "
    "sigma'(u) (psi - psi')(psi - psi')', sigma' <= 1/4. So L_PL is convex in theta.",
)
