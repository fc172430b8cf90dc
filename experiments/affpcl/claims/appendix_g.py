"""Appendix G of AffPCL, its lemmas: one step of the personalised iterate."""

from __future__ import annotations

from functools import partial

import ratecheck as rc
from experiments.affpcl.claims._one_step import ESTIMATED, KNOWN, NOISE, OF_PHI, WITH_PHI
from experiments.affpcl.theory import personalized as g

G1_IDENTITY = rc.Claim(
    id="affpcl.g1_identity",
    source="AffPCL, Lemma G.1",
    text="E gtilde^i = E g^i(x^i) + E_{mu^0}[psi(s)' deta^i (A(s) x^c - Phi(s) theta^c)].",
    latex=r"\mathbb{E}\tilde g^i=\mathbb{E}g^i(x^i)+\mathbb{E}_{\mu^0}"
    r"[\psi^\top\Delta\eta^i(Ax^c-\Phi\theta^c)]",
    kind="identity",
    space=ESTIMATED,
    measure=g.lemma_g1_identity,
)

G1_NORM = rc.Claim(
    id="affpcl.g1_norm",
    source="AffPCL, Lemma G.1",
    text="||E calE|| <= sigma ||deta^i|| + G_rho (G_A ||dx^c|| + ||dtheta^c||), where G_rho is "
    "the largest |rhohat^i - rho^i| and ||psi|| <= 1.",
    latex=r"\|\mathbb{E}\mathcal{E}\|\le\sigma\|\Delta\eta^i\|+G_\rho(G_A\|\Delta x^c\|"
    r"+\|\Delta\theta^c\|)",
    kind="upper",
    space=ESTIMATED,
    measure=g.lemma_g1_norm,
    note="The paper writes O(.) and calls |rhohat - rho| = O(1); this is what its proof shows. "
    "||psi|| <= 1 is not said there, and without it sigma takes the factor max ||psi||.",
)

COR_G1 = rc.Claim(
    id="affpcl.corG1",
    source="AffPCL, Corollary G.1",
    text="E<gtilde^i, dx^i> >= (7/8) lambda^i ||dx^i||^2 - (2/lambda^i) E||calE||^2.",
    latex=r"\mathbb{E}\langle\tilde g^i,\Delta x^i\rangle\ge\tfrac78\lambda^i\|\Delta x^i\|^2"
    r"-2(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2",
    kind="lower",
    space=ESTIMATED,
    measure=g.corollary_g1,
)

COR_G1_SHARPER = rc.Claim(
    id="affpcl.corG1_sharper",
    source="AffPCL, Corollary G.1, sharpened",
    text="The same with ||E calE||^2, the squared mean of the estimation error, in the last term.",
    latex=r"\mathbb{E}\langle\tilde g^i,\Delta x^i\rangle\ge\tfrac78\lambda^i\|\Delta x^i\|^2"
    r"-2(\lambda^i)^{-1}\|\mathbb{E}\mathcal{E}\|^2",
    kind="lower",
    space=ESTIMATED,
    measure=partial(g.corollary_g1, mean_error=True),
    derivation="Given the iterates, only E calE meets dx^i, and Young's inequality acts on it. "
    "Attained in one dimension at dx^i = -4 E calE / lambda^i.",
)

G2 = rc.Claim(
    id="affpcl.g2",
    source="AffPCL, Lemma G.2",
    text="E||g^{c=>i}||^2 <= 24 G_A^2 ||dx^c||^2 + 40 ||dtheta^c||^2 + 64 sigma^2 (1/n + 2 "
    "delta_env^i) + 2 E||calE||^2, with calE the random estimation error.",
    latex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le24G_A^2\|\Delta x^c\|^2+40\|\Delta\theta^c\|^2"
    r"+64\sigma^2(n^{-1}+2\delta_{\mathrm{env}}^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    kind="upper",
    space=ESTIMATED,
    measure=g.lemma_g2,
    note="The proof ends with delta_cen^i where the lemma has delta_env^i; the lemma is right, "
    "because E_0 g^{c->j}(x_*^c) = 0 bounds the bias at the solution by 2 sigma delta_env^i.",
)

G2_MEAN_ERROR = rc.Claim(
    id="affpcl.g2_mean_error",
    source="AffPCL, Lemma G.2, calE as defined in (28)",
    text="The same with the calE of Lemma G.1, which is an expectation over the samples.",
    latex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le24G_A^2\|\Delta x^c\|^2+40\|\Delta\theta^c\|^2"
    r"+64\sigma^2(n^{-1}+2\delta_{\mathrm{env}}^i)+2\|\mathbb{E}\mathcal{E}\|^2",
    kind="upper",
    space=ESTIMATED,
    measure=partial(g.lemma_g2, error="mean"),
    expect="violated",
    note="(28) defines calE as an expectation. The first step of Lemma G.2 needs the random "
    "error: its variance is of order ||deta||^2 sigma^2 / n and no other term covers it. One "
    "agent, mu = (1/2, 1/2), A = Phi = 1, theta = 1, all but eta at the solution with dx^c = 1, "
    "psi' deta = (100, -100): the mean is 0, E||g^{c=>i}||^2 = 10001, the bound 24 + 64 sigma^2 "
    "= 280. Nothing is lost in Theorem 1, whose proof bounds the random error.",
    corrected="affpcl.g2",
)

G2_SHARPER = rc.Claim(
    id="affpcl.g2_sharper",
    source="AffPCL, Lemma G.2, sharpened",
    text="E||g^{c=>i}||^2 <= 16 G_A^2 ||dx^c||^2 + 16 ||dtheta^c||^2 + 4 sigma^2 (1/n + 5 "
    "delta_env^i) + 2 E||calE||^2.",
    latex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le16G_A^2\|\Delta x^c\|^2+16\|\Delta\theta^c\|^2"
    r"+4\sigma^2(n^{-1}+5\delta_{\mathrm{env}}^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    kind="upper",
    space=ESTIMATED,
    measure=g.lemma_g2_sharper,
    derivation="Write the direction as D + S + calE with D = (1/n) sum rho (A dx^c - Phi dtheta) "
    "and S the rest at the solution; E||.||^2 <= 4 E||D||^2 + 4 E||S||^2 + 2 E||calE||^2. As E_0 "
    "rho^2 = 1 + chi^2, E((1/n) sum rho)^2 <= 1 + chi^2/n <= 1 + delta_env <= 2, so E||D||^2 <= "
    "4 (G_A^2 ||dx^c||^2 + ||dtheta||^2). E||S||^2 <= (sigma^2/n)(1 + chi^2) + ||E_i "
    "g^{c->i}||^2, and the last is at most (2 sigma delta_env)^2 because the mean under mu^0 is "
    "zero.",
)

G2_H1 = rc.Claim(
    id="affpcl.g2_H1",
    source="AffPCL, proof of Lemma G.2, (29)",
    text="H_1 <= 8 G_A^2 ||dx^c||^2 + 16 ||dtheta^c||^2 + 8 sigma^2 (1/n + delta_env^i).",
    latex=r"H_1\le8G_A^2\|\Delta x^c\|^2+16\|\Delta\theta^c\|^2"
    r"+8\sigma^2(n^{-1}+\delta_{\mathrm{env}}^i)",
    kind="upper",
    space=KNOWN,
    measure=g.lemma_g2_H1,
)

G2_H1_SHARPER = rc.Claim(
    id="affpcl.g2_H1_sharper",
    source="AffPCL, proof of Lemma G.2, (29), sharpened",
    text="H_1 <= 2 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 4 sigma^2 (1/n + delta_env^i).",
    latex=r"H_1\le2G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+4\sigma^2(n^{-1}+\delta_{\mathrm{env}}^i)",
    kind="upper",
    space=KNOWN,
    measure=g.lemma_g2_H1_sharper,
    derivation="E_0 rho^2 = 1 + chi^2 exactly, so no factor 2 is needed, and 1/n + delta_env^i "
    "<= 1, as mu^i is 1/n of mu^0. Then H_1 <= (sigma + G_A ||dx^c|| + ||dtheta||)^2 (1/n + "
    "delta_env^i).",
)

G2_H2 = rc.Claim(
    id="affpcl.g2_H2",
    source="AffPCL, proof of Lemma G.2, (30)",
    text="H_2 <= ||E g^{c->i}||^2 <= 4 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 32 sigma^2 "
    "(delta_cen^i)^2.",
    latex=r"H_2\le\|\mathbb{E}g^{c\to i}\|^2\le4G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+32\sigma^2(\delta_{\mathrm{cen}}^i)^2",
    kind="upper",
    space=KNOWN,
    measure=g.lemma_g2_H2,
)

G2_BIAS_SHARPER = rc.Claim(
    id="affpcl.g2_H2_sharper",
    source="AffPCL, proof of Lemma G.2, (30), sharpened",
    text="||E g^{c->i}||^2 <= 4 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 8 sigma^2 (delta_env^i)^2.",
    latex=r"\|\mathbb{E}g^{c\to i}\|^2\le4G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+8\sigma^2(\delta_{\mathrm{env}}^i)^2",
    kind="upper",
    space=KNOWN,
    measure=g.lemma_g2_bias_sharper,
    derivation="At the solution E_i g = (E_i - E_0) g, since E_0 g = 0, and ||g|| <= sigma: at "
    "most 2 sigma delta_env^i. The bias knows of environments alone. ||a + b + c||^2 <= 4 a^2 + "
    "4 b^2 + 2 c^2.",
)

G2_CHI = rc.Claim(
    id="affpcl.g2_chi",
    source="AffPCL, proof of Lemma G.2",
    text="H_1 <= (2 H_3^2 / n)(1 + chi^2(mu^i, mu^0)), H_3 the largest ||g^{c->j}(x^c)||.",
    latex=r"H_1\le\tfrac{2H_3^2}{n}(1+\chi^2(\mu^i,\mu^0))",
    kind="upper",
    space=KNOWN,
    measure=g.lemma_g2_chi,
)

G2_CHI_SHARPER = rc.Claim(
    id="affpcl.g2_chi_sharper",
    source="AffPCL, proof of Lemma G.2, sharpened",
    text="H_1 <= (H_3^2 / n)(1 + chi^2(mu^i, mu^0)).",
    latex=r"H_1\le\tfrac{H_3^2}{n}(1+\chi^2(\mu^i,\mu^0))",
    kind="upper",
    space=KNOWN,
    measure=partial(g.lemma_g2_chi, factor=1),
    derivation="E_0 rho^2 = 1 + E_0 (rho - 1)^2, because E_0 (rho - 1) = 0. Attained where ||g|| "
    "is constant.",
)

G3 = rc.Claim(
    id="affpcl.g3",
    source="AffPCL, Lemma G.3",
    main=True,
    text="E||g^i(x^i) - g^{c->i}||^2 <= 4 G_A^2 ||dx^i||^2 + 8 G_A^2 ||dx^c||^2 + 8 "
    "||dtheta^c||^2 + 16 sigma^2 deltatilde^i, deltatilde^i = min{1, nu delta_cen^i}.",
    latex=r"\mathbb{E}\|g^i(x^i)-g^{c\to i}\|^2\le4G_A^2\|\Delta x^i\|^2+8G_A^2\|\Delta x^c\|^2"
    r"+8\|\Delta\theta^c\|^2+16\sigma^2\tilde\delta_{\mathrm{cen}}^i",
    kind="upper",
    space=NOISE,
    measure=g.lemma_g3,
    expect="violated",
    note=OF_PHI + "E||g^i - g^{c->i}||^2 = 0.9998, the bound is 0.0032.",
    corrected="affpcl.g3_corrected",
)

G3_CORRECTED = rc.Claim(
    id="affpcl.g3_corrected",
    source="AffPCL, Lemma G.3, corrected",
    text="Lemma G.3 with min{1, nu' delta_cen^i}, nu' the larger of nu and the same number of Phi.",
    latex=r"\mathbb{E}\|g^i(x^i)-g^{c\to i}\|^2\le4G_A^2\|\Delta x^i\|^2+8G_A^2\|\Delta x^c\|^2"
    r"+8\|\Delta\theta^c\|^2+16\sigma^2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\}",
    kind="upper",
    space=KNOWN,
    measure=partial(g.lemma_g3, effective="safe"),
    derivation=WITH_PHI,
)
