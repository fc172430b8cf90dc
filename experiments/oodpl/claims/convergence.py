"""OOD-PL, Theorem 1 with its proof in Appendix D.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import PAIRS, runs
from experiments.oodpl.claims._outer import FIRST_ROUND, one_round, rounds
from experiments.oodpl.theory import outer as outer, theorem as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System
from experiments.oodpl.theory.contraction import conditions
from experiments.oodpl.theory.inner import Inner

_MATRICES = {"q": (1, 2)}
_CURVED = runs(
    extra={**PAIRS, "phi": rc.reals("q", magnitude=(0.01, 3.0)), "u": rc.sphere("q")},
    sizes=_MATRICES,
    steps=False,
)

# Appendix D.2.

D2_P = rc.Claim(
    id="ood.D2_P",
    source="OOD-PL, Appendix D.2, first step",
    text="L(phi + D) <= L(phi) + <grad L, D> + (P/2) ||D||^2 with the Lipschitz constant P of grad "
    "r, that is, no curvature of L is above P.",
    latex=r"u^\top\nabla^2\mathbf L(\phi)\,u\le P",
    kind="upper",
    space=_CURVED,
    measure=lambda s: at.smoothness_printed(s.run, s.pairs, s.u),
    expect="violated",
    note="P is a constant of the reward, Assumption 2; L depends on phi through theta_* alone. A "
    "linear reward has P = 0 and L = log(1 + e^(-u)), u = log-odds of mu_hat plus (r - r')/beta. "
    "eta = 1/(4P) is then infinite, and for nearly linear rewards far beyond 2/P_L: nothing in "
    "Theorem 1 limits the outer step by what limits it. If P is read as one more assumption, that "
    "L is P-smooth (the proof's sentence breaks off there), the step is right; P then depends on "
    "beta, and ood.D2_P_corrected says how.",
    corrected="ood.D2_P_corrected",
    main=True,
)
D2_P_CORRECTED = rc.Claim(
    id="ood.D2_P_corrected",
    source="OOD-PL, Appendix D.2, first step, corrected",
    text="|u' (grad^2 L) u| <= P_L = (2 M^2/(beta mu)) (P + (T^2/beta)(L/mu + M rho/mu^2)) + (2 L "
    "+ M^2)(M T/(beta mu))^2 for all unit vectors u.",
    latex=r"\|\nabla^2\mathbf L\|\le\frac{2M^2}{\beta\mu}\Big(P+\frac{T^2}\beta\Big(\frac L\mu+"
    r"\frac{M\rho}{\mu^2}\Big)\Big)+(2L+M^2)\frac{M^2T^2}{\beta^2\mu^2}",
    kind="upper",
    space=_CURVED,
    measure=lambda s: at.smoothness(s.run, s.pairs, s.u),
    note="Of the order 1/beta for curved rewards, 1/beta^2 for linear ones.",
    derivation="With weights proportional to e^(r/beta), E g = 0 at theta_*; differentiate twice "
    "along u, a = (r' - E r')/beta: E[H] theta'' = -(E[(a^2 + r''/beta) g] + 2 E[a H] theta' + "
    "third[theta', theta']). E a^2 <= T^2/beta^2; E a = 0 gives ||E a H|| <= (T/beta)(L - mu)/2; "
    "||theta'|| <= M T/(beta mu). L'' = <grad L_PL, theta''> + <theta', grad^2 L_PL theta'> with 2 "
    "M and 2 L + M^2.",
    main=True,
)
D2_JENSEN = rc.Claim(
    id="ood.D2_jensen",
    source="OOD-PL, Appendix D.2, steps (i) and (ii)",
    text="E||grad L - g||^2 <= sigma_3^2 + E_T E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d "
    "phi||^2, g the step of a round, which draws T; here with inner loops that reach theta_*.",
    latex=r"\mathbb E\|\nabla\mathbf L-\widehat\nabla\mathbf L\|^2\le\sigma_3^2+\mathbb E_T\mathbb "
    r"E\Big\|\frac{\partial\mathcal L_{PL}(\theta_D^T)}{\partial\phi}-\frac{\partial\mathcal L_{PL}"
    r"(\theta_*^T)}{\partial\phi}\Big\|^2",
    kind="upper",
    space=one_round(limit=True),
    measure=lambda s: outer.jensen(s.round),
    expect="violated",
    note="Jensen's inequality needs T apart from the T that g has drawn, Lemma 3 needs the same T: "
    "the variance between the domains is lost. Two domains with gradients of opposite sign and "
    "exact inner loops have all of E||grad L - g||^2 from it. Theorem 1 has no term for the number "
    "or the kinds of domains, which is what its method is for. A sigma_3 that is read as the "
    "spread of g about grad L, domains included, would have to contain sigma_T^2; (24) has one "
    "theta for both of its terms.",
    corrected="ood.D2_jensen_corrected",
    main=True,
)
D2_JENSEN_CORRECTED = rc.Claim(
    id="ood.D2_jensen_corrected",
    source="OOD-PL, Appendix D.2, steps (i) and (ii), corrected",
    text="It is at most sigma_3^2 + 2 E_T E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2 + 2 "
    "sigma_T^2, sigma_T^2 the variance of d L_PL(theta_*)/d phi between the domains.",
    latex=r"\sigma_3^2+2\,\mathbb E_T\mathbb E\Big\|\frac{\partial\mathcal L_{PL}(\theta_D^T)}"
    r"{\partial\phi}-\frac{\partial\mathcal L_{PL}(\theta_*^T)}{\partial\phi}\Big\|^2+2\sigma_T^2",
    kind="upper",
    space=one_round(limit=False),
    measure=lambda s: outer.jensen_corrected(s.round),
    derivation="The pair is drawn last, which adds its variance; the rest is at most twice the "
    "squares of its two parts, theta_D to theta_* and T to the mean.",
)

# Theorem 1.

THEOREM_1 = rc.Claim(
    id="ood.theorem_1",
    source="OOD-PL, Theorem 1, equation (25) with the constants of its proof",
    text="D >= -log(M^2/L^2 + ||theta_0 - theta_*||^2)/log q, beta <= log(3 alpha B^2 A/(2 b mu (3 "
    "- s))), beta <= log(alpha b mu/(1 - sqrt((1 - kappa)/3))), alpha <= 2 e^beta/(b mu + B L), "
    "eta = 1/(4P): (1/K) sum_k E||grad L(phi_k)||^2 <= 16 P (L(phi_0) - inf L)/K + 3 sigma_3^2 + "
    "24 M^2 T^2/beta^2 + (24 M^2/kappa) V.",
    latex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2\le\frac{16P(\mathbf L(\phi_0)-\inf"
    r"\mathbf L)}K+3\sigma_3^2+\frac{24M^2T^2}{\beta^2}+\frac{24M^2}\kappa V",
    kind="upper",
    space=FIRST_ROUND,
    measure=lambda s: at.theorem_1(s.run, s.pairs, s.P, s.kappa),
    expect="violated",
    note="For K = 1, one pair (sigma_3 = 0) and two answers, features 0 and 0.1, equal chances, r "
    "= -1, gradients of r 0 and 1, ||phi|| <= 0.2, beta = 0.1, alpha = 1082, D = 5 from theta_*, "
    "kappa = 0.1, P = 1: 25 against 17.3. The first condition on beta is read from a garbled "
    "formula; the example meets it as Appendix D has it too, and with its direction reversed "
    "others do the same. All that it rests on breaks: Lemma 4 and its conditions "
    "(ood.theorem_1_conditions), P (ood.D2_P), the domains (ood.D2_jensen). 24 M^2 T^2/beta^2 is "
    "not of the unit of the left side, so that rescaled features make it small. With b^(1/beta) "
    "the bound holds for a reason that has nothing to do with training: ood.theorem_1_noise.",
    corrected="ood.theorem_1_corrected",
    main=True,
)
THEOREM_1_NOISE = rc.Claim(
    id="ood.theorem_1_noise",
    source="OOD-PL, Theorem 1 with b^(1/beta) and B^(1/beta)",
    text="Where q <= 1 - kappa, the bound's term (24 M^2/kappa) alpha^2 sigma^2 T^2/beta^2 alone "
    "is at least four times ||grad L(phi)||^2, at every phi, trained or not.",
    latex=r"\|\nabla\mathbf L(\phi)\|^2\le\frac14\cdot\frac{24M^2}\kappa\frac{\alpha^2\sigma^2T^2}"
    r"{\beta^2}\quad\forall\phi",
    kind="upper",
    space=runs(
        extra=PAIRS,
        sizes=_MATRICES,
        given={"q < 1": lambda s: conditions(s.run, s.run.true).q < 1},
        steps=False,
    ),
    measure=lambda s: at.noise_alone(s.run, s.pairs),
    note="So the theorem, repaired in its constants alone, says nothing: no algorithm and no phi "
    "can be worse than its bound. The step size that q < 1 asks for is the reason, alpha b^(1/beta)"
    " mu >= 0.42: the inner loop does not average its noise.",
    derivation="||grad L|| <= 2 M ||d theta_*/d phi||, and that is at most T E[w |g|]/(beta mu "
    "E[w]) <= T sigma/(beta mu E[w]), as w g has mean zero at theta_*. alpha mu E[w] >= c = alpha "
    "b^(1/beta) mu. The quotient is kappa/(6 c^2) <= (1 - 3 (1 - c)^2)/(6 c^2) <= 1/4, with "
    "equality at c = 2/3.",
    main=True,
)
THEOREM_1_CORRECTED = rc.Claim(
    id="ood.theorem_1_corrected",
    source="OOD-PL, Theorem 1, corrected",
    text="eta <= 1/P_L and alpha < 2/(B^(1/beta) L): (1/K) sum_k E||grad L(phi_k)||^2 <= 2 "
    "(L(phi_0) - inf L)/(eta K) + E_3 + eta P_L (sigma_3^2 + 2 E_3 + 2 sigma_T^2), E_3 the bound "
    "of ood.lemma_3_corrected, P_L of ood.D2_P_corrected.",
    latex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2\le\frac{2(\mathbf L(\phi_0)-\inf"
    r"\mathbf L)}{\eta K}+E_3+\eta P_{\mathbf L}(\sigma_3^2+2E_3+2\sigma_T^2)",
    kind="upper",
    space=rounds(K=1, inner_steps=3),
    measure=lambda s: outer.theorem_1_corrected(s.runs),
    note="Audited with L(phi_0) - E L(phi_K), which is less than the gap, for K = 1 and any phi_0 "
    "here and for K = 2 in ood.theorem_1_two_rounds. All terms go to zero with K to infinity, eta "
    "and alpha to zero and D of the order log(1/alpha)/alpha, at a fixed beta; none asks beta to "
    "be large. E_3 is the loose part, 8 times what no training has where D and alpha are not yet "
    "so.",
    derivation="E g = G with ||G - grad L||^2 <= E_3 by Jensen over T. L is P_L-smooth: E L(phi_{k"
    "+1}) <= L - eta <grad L, G> + (P_L eta^2/2)(||G||^2 + variance) <= L - (eta/2)||grad L||^2 + "
    "(eta/2) ||G - grad L||^2 + P_L eta^2 variance/2 for eta <= 1/P_L; the variance is at most "
    "E||g - grad L||^2, ood.D2_jensen_corrected. Sum over k.",
    main=True,
)
THEOREM_1_TWO_ROUNDS = replace(
    THEOREM_1_CORRECTED,
    id="ood.theorem_1_two_rounds",
    source="OOD-PL, Theorem 1, corrected, for two rounds",
    text="The same for K = 2 with D = 1.",
    space=rounds(K=2, inner_steps=1),
    note="",
    main=False,
)


def _corrected_exponents() -> Sequence[rc.Regime]:
    """Of the corrected bound, from K to 4 K, for a policy of two answers at several beta."""
    found = []
    for beta in (0.5, 1.0, 4.0):
        system = System(
            Policy(psi=np.array([[[[0.0], [1.0]]]]), log_h=np.zeros((1, 1, 2))),
            Reward(xi=np.array([[[[0.0], [1.0]]]]), r0=np.zeros((1, 1, 2))),
            *(np.ones((1, 1)), np.full((1, 1, 2), 0.5), np.array([beta])),
        )
        origin, one = np.zeros((1, 1)), np.ones(1)
        run = Inner(system, origin, origin, origin, one, one, D=0, radius=one)
        sizes = [outer.scheduled(run, rounds * one)[0] for rounds in (1e12, 4e12)]
        slope = float(np.log(sizes[1] / sizes[0]) / np.log(4))
        found.append(rc.Regime(f"beta = {beta:g}", "K", -0.5, slope, slope, slope))
    return found


THEOREM_1_RATE = rc.RateClaim(
    id="ood.theorem_1_rate",
    source="OOD-PL, Theorem 1, corrected: its rate",
    text="With alpha and eta of the order K^(-1/2) and D of the order K^(1/2) log K the corrected "
    "bound is O(K^(-1/2)), at every beta.",
    latex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2=O(K^{-1/2})",
    regimes=_corrected_exponents,
    note="The printed bound has floors that no K, D, alpha or eta lowers, 3 sigma_3^2 + 24 M^2 "
    "T^2/beta^2 and, with q < 1, more than the largest ||grad L||^2 (ood.theorem_1_noise).",
    derivation="ood.theorem_1_corrected: V/(1 - Q) is of the order alpha, Q^D at most 1/K.",
)
TAU = rc.Claim(
    id="ood.theorem_1_tau",
    source="OOD-PL, Theorem 1, the term tau",
    text="tau = 3 sigma_3^3 + 144 M^2 alpha^2 sigma_1^2/kappa is the part of D.2's bound without K "
    "and beta.",
    latex=r"\tau=3\sigma_3^3+\frac{144M^2\alpha^2\sigma_1^2}\kappa",
    kind="identity",
    space=rc.Space(
        fields={"sigma_3": rc.positive(), "rest": rc.positive()},
        batched=True,
        meaning={"rest": "144 M^2 alpha^2 sigma_1^2 / kappa"},
    ),
    measure=lambda s: at.tau(s.sigma_3, s.rest),
    expect="violated",
    note="D.2 has 3 sigma_3^2. Nor is the rest free of beta: Theorem 1's conditions tie alpha to "
    "it, ood.theorem_1_tau_corrected, and the O(1/beta^2) of (25) contains sigma_2^2 and sigma^2, "
    "which bounds of e^(r/beta) depend on.",
    corrected="ood.theorem_1_tau_corrected",
)
TAU_CORRECTED = rc.Claim(
    id="ood.theorem_1_tau_corrected",
    source="OOD-PL, Theorem 1, the term tau, corrected",
    text="tau = 3 sigma_3^2 + 144 M^2 alpha^2 sigma_1^2/kappa, and the conditions that b/e^beta "
    "stands in make alpha grow with beta: from beta to beta + x by 0.42 e^x at least.",
    latex=r"\frac{\alpha(\beta+x)}{\alpha(\beta)}\ge0.42\,e^x",
    kind="lower",
    space=rc.Space(
        fields={
            "beta": rc.positive(low=0.1, high=10.0),
            "more": rc.positive(),
            "kappa": rc.positive(low=0.001, high=0.999),
        },
        batched=True,
        meaning={"more": "x"},
    ),
    measure=lambda s: at.step_size(s.beta, s.more, s.kappa),
    note="So that for given b, mu, M and sigma_1 the printed tau grows like e^(2 beta).",
    derivation="(1 - sqrt((1 - kappa)/3)) e^beta <= alpha b mu <= e^beta; 1 - 1/sqrt(3) > 0.42.",
)
