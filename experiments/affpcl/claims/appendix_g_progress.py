"""Appendix G of AffPCL, Corollary G.2: the progress of one step."""

from __future__ import annotations

from functools import partial

import ratecheck as rc
from experiments.affpcl.claims._one_step import ESTIMATED, KNOWN, NOISE, OF_PHI, WITH_PHI
from experiments.affpcl.theory import personalized as g

DIRECTION = rc.Claim(
    id="affpcl.corG2_gtil",
    source="AffPCL, proof of Corollary G.2",
    text="E||gtilde^i||^2 <= 8 G_A^2 ||dx^i||^2 + 64 G_A^2 ||dx^c||^2 + 96 ||dtheta^c||^2 + 144 "
    "sigma^2 (1/n + 2 deltatilde^i) + 4 E||calE||^2.",
    latex=r"\mathbb{E}\|\tilde g^i\|^2\le8G_A^2\|\Delta x^i\|^2+64G_A^2\|\Delta x^c\|^2"
    r"+96\|\Delta\theta^c\|^2+144\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)"
    r"+4\mathbb{E}\|\mathcal{E}\|^2",
    kind="upper",
    space=NOISE,
    measure=g.corollary_g2_direction,
    expect="violated",
    note=OF_PHI + "E||gtilde^i||^2 = 0.9998, the bound is 0.062.",
    corrected="affpcl.corG2_gtil_corrected",
)

DIRECTION_CORRECTED = rc.Claim(
    id="affpcl.corG2_gtil_corrected",
    source="AffPCL, proof of Corollary G.2, corrected",
    text="The same with min{1, nu' delta_cen^i}, nu' the larger of nu and the same number of Phi.",
    latex=r"\mathbb{E}\|\tilde g^i\|^2\le8G_A^2\|\Delta x^i\|^2+64G_A^2\|\Delta x^c\|^2"
    r"+96\|\Delta\theta^c\|^2+144\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,"
    r"\delta_{\mathrm{cen}}^i\})+4\mathbb{E}\|\mathcal{E}\|^2",
    kind="upper",
    space=ESTIMATED,
    measure=partial(g.corollary_g2_direction, effective="safe"),
    derivation=WITH_PHI,
)

DIRECTION_SHARPER = rc.Claim(
    id="affpcl.corG2_gtil_sharper",
    source="AffPCL, proof of Corollary G.2, sharpened",
    text="E||gtilde^i||^2 <= 4 G_A^2 ||dx^i||^2 + 64 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2) + 16 "
    "sigma^2 (1/n + 9 deltatilde^i) + 2 E||calE||^2, with the nu' of affpcl.g3_corrected.",
    latex=r"\mathbb{E}\|\tilde g^i\|^2\le4G_A^2\|\Delta x^i\|^2+64(G_A^2\|\Delta x^c\|^2"
    r"+\|\Delta\theta^c\|^2)+16\sigma^2(n^{-1}+9\tilde\delta^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    kind="upper",
    space=ESTIMATED,
    measure=g.corollary_g2_direction_sharper,
    derivation="gtilde = A dx^i + (z + w) + calE: z = v(s^i) + (1/n) sum rho g at the solutions, "
    "w = (1/n) sum rho u(s^j) - u(s^i) with u = A dx^c - Phi dtheta; E z = E w = 0. E||z||^2 is "
    "at most twice the variances of its halves, 2 (8 sigma^2 deltatilde) + 2 sigma^2 (1/n + "
    "delta_env), E||w||^2 <= 8 (G_A^2 ||dx^c||^2 + ||dtheta||^2), and E||gtilde||^2 <= 4 E||A "
    "dx^i||^2 + 8 E||z||^2 + 8 E||w||^2 + 2 E||calE||^2.",
)

FIRST = rc.Claim(
    id="affpcl.corG2_first",
    source="AffPCL, Corollary G.2, first inequality",
    text="For alpha <= lambda^i / (40 G_A^2), E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) "
    "||dx^i||^2 + 64 alpha^2 G_A^2 ||dx^c||^2 + 96 alpha^2 ||dtheta^c||^2 + (4 alpha / lambda^i) "
    "E||calE||^2 + 144 alpha^2 sigma^2 (1/n + 2 deltatilde^i). Both sides less the contraction, "
    "over alpha.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2G_A^2\|\Delta x^c\|^2+96\alpha^2\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)",
    kind="upper",
    space=NOISE,
    measure=g.corollary_g2_first,
    expect="violated",
    note=OF_PHI
    + "At alpha = 1/40, E||dx_{t+1}||^2 = 6.2e-4 from dx = 0, the bound is 3.9e-5. (9) and Theorem "
    "1 of Appendix G.1 inherit this: no constant makes them true with nu of A alone. Here "
    "delta_obj = 1, so Theorem 1 of Section 5 is not touched; affpcl.d2_Phi_universal is its case. "
    "Besides, the proof loses a factor: -2 alpha times Corollary G.1 gives (4 alpha / lambda) "
    "E||calE||^2, not 2 alpha / lambda, and its condition lambda / (32 G_A^2) then leaves no room; "
    "the statement's 40 does.",
    corrected="affpcl.corG2_first_corrected",
)

FIRST_CORRECTED = rc.Claim(
    id="affpcl.corG2_first_corrected",
    source="AffPCL, Corollary G.2, first inequality, corrected",
    text="The same with min{1, nu' delta_cen^i}, nu' the larger of nu and the same number of Phi.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2G_A^2\|\Delta x^c\|^2+96\alpha^2\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\})",
    kind="upper",
    space=ESTIMATED,
    measure=partial(g.corollary_g2_first, effective="safe"),
    derivation=WITH_PHI + " With -2 <E calE, dx> <= c lambda ||dx||^2 + ||E calE||^2 / (c "
    "lambda), c = 3/10, and 8 alpha G_A^2 <= lambda / 5, ||dx^i||^2 keeps 2 - 3/10 - 1/5 = 3/2 "
    "and E||calE||^2 gets (10/3 + 4 alpha lambda) / lambda <= 4 / lambda.",
)

FIRST_SHARPER = rc.Claim(
    id="affpcl.corG2_first_sharper",
    source="AffPCL, Corollary G.2, first inequality, sharpened",
    text="For alpha <= lambda^i / (20 G_A^2), E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) "
    "||dx^i||^2 + 64 alpha^2 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2) + (4 alpha / lambda^i) "
    "E||calE||^2 + 16 alpha^2 sigma^2 (1/n + 9 deltatilde^i), with nu'. Both sides less the "
    "contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2+16\alpha^2\sigma^2(n^{-1}+9\tilde\delta^i)",
    kind="upper",
    space=ESTIMATED,
    measure=g.corollary_g2_first_sharper,
    derivation="affpcl.corG2_gtil_sharper with c = 3/10: 4 alpha G_A^2 <= lambda / 5 and 10/3 + "
    "2 alpha lambda <= 4.",
)

KNOWN_RATIO = rc.Claim(
    id="affpcl.corG2_known_ratio",
    source="AffPCL, Corollary G.2, known density ratio",
    text="For alpha <= lambda^i / (4 G_A^2) and a known ratio, E||dx_{t+1}^i||^2 <= (1 - (3/2) "
    "alpha lambda^i) ||dx^i||^2 + 32 alpha^2 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2) + 8 alpha^2 "
    "sigma^2 (1/n + 9 deltatilde^i), with nu'. Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+32\alpha^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)"
    r"+8\alpha^2\sigma^2(n^{-1}+9\tilde\delta^i)",
    kind="upper",
    space=KNOWN,
    measure=g.corollary_g2_known,
    derivation="calE = 0, so E<gtilde, dx> >= lambda ||dx||^2, and E||gtilde||^2 <= 2 E||A "
    "dx^i||^2 + 4 E||z||^2 + 4 E||w||^2 in the terms of affpcl.corG2_gtil_sharper.",
)

SECOND = rc.Claim(
    id="affpcl.corG2_second",
    source="AffPCL, Corollary G.2, second inequality",
    text="For alpha <= lambda^i / (40 G_A^2), E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) "
    "||dx^i||^2 + (64 alpha^2 + 16 alpha G_rho^2 / lambda^i) G_A^2 ||dx^c||^2 + (96 alpha^2 + 16 "
    "alpha G_rho^2 / lambda^i) ||dtheta^c||^2 + (4 alpha / lambda^i) sigma^2 ||deta^i||^2 + 144 "
    "alpha^2 sigma^2 (1/n + 2 deltatilde^i). Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+(64\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)G_A^2\|\Delta x^c\|^2"
    r"+(96\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\sigma^2\|\Delta\eta^i\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)",
    kind="upper",
    space=NOISE,
    measure=g.corollary_g2_second,
    expect="violated",
    note=OF_PHI
    + "The numbers are those of the first inequality. The step from the first to the second "
    "inequality is not sound either: E||calE||^2 <= 2 sigma^2 ||deta||^2 + .. gives 8 alpha "
    "sigma^2 / lambda, and 4 alpha E||calE||^2 / lambda can be nearly 1.5 times what replaces it. "
    "The second inequality survives that by other slack.",
    corrected="affpcl.corG2_second_corrected",
)

SECOND_CORRECTED = rc.Claim(
    id="affpcl.corG2_second_corrected",
    source="AffPCL, Corollary G.2, second inequality, corrected",
    text="The same with min{1, nu' delta_cen^i}, nu' the larger of nu and the same number of "
    "Phi, and ||psi|| <= 1.",
    latex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+(64\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)G_A^2\|\Delta x^c\|^2"
    r"+(96\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\sigma^2\|\Delta\eta^i\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\})",
    kind="upper",
    space=ESTIMATED,
    measure=partial(g.corollary_g2_second, effective="safe"),
    derivation="Let R = sigma^2 ||deta||^2 + 4 G_rho^2 (G_A^2 ||dx^c||^2 + ||dtheta||^2). By "
    "Cauchy's inequality ||calE||^2 <= (1 + 1/4 + 1/4) R. In affpcl.corG2_gtil_sharper, 4 alpha "
    "G_A^2 <= lambda / 10 leaves c = 2/5, so the errors cost at most (5/2 + 2 alpha lambda)(3/2) "
    "R / lambda < 4 R / lambda.",
)

ERROR = rc.Claim(
    id="affpcl.corG2_E",
    source="AffPCL, proof of Corollary G.2",
    text="E||calE||^2 <= 2 sigma^2 ||deta^i||^2 + 4 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2).",
    latex=r"\mathbb{E}\|\mathcal{E}\|^2\le2\sigma^2\|\Delta\eta^i\|^2"
    r"+4(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)",
    kind="upper",
    space=ESTIMATED,
    measure=g.corollary_g2_error,
    expect="violated",
    note="The last line of the proof drops the factor G_rho^2 = max |rhohat - rho|^2, which the "
    "corollary itself has, and uses ||psi|| <= 1. One agent, one state, A = Phi = psi = 1, theta "
    "= 0 (so sigma = 0), dx^c = 1, deta = 10: E||calE||^2 = 100, the bound is 4. Assumption 1 "
    "bounds G_rho by a constant, which Theorem 1 then hides.",
    corrected="affpcl.corG2_E_corrected",
)

ERROR_CORRECTED = rc.Claim(
    id="affpcl.corG2_E_corrected",
    source="AffPCL, proof of Corollary G.2, corrected",
    text="E||calE||^2 <= 2 sigma^2 ||deta^i||^2 + 4 G_rho^2 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2), "
    "for ||psi|| <= 1.",
    latex=r"\mathbb{E}\|\mathcal{E}\|^2\le2\sigma^2\|\Delta\eta^i\|^2"
    r"+4G_\rho^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)",
    kind="upper",
    space=ESTIMATED,
    measure=partial(g.corollary_g2_error, with_G_rho=True),
    derivation="||calE|| <= mean_j |psi' deta| (sigma + G_A ||dx^c|| + ||dtheta||); |psi' deta| "
    "is at most ||deta|| and at most G_rho; (a + b + c)^2 <= 2 a^2 + 4 b^2 + 4 c^2.",
)
