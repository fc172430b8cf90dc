"""Appendix F of AffPCL: one step of central decision learning, (22-1) and (22-2)."""

from __future__ import annotations

import ratecheck as rc
from experiments.affpcl.claims._iterates import ITERATES, SEVERAL_AGENTS, STEPS
from experiments.affpcl.claims._turning import turning
from experiments.affpcl.theory import central

F1 = rc.Claim(
    id="affpcl.f1",
    source="AffPCL, Lemma F.1",
    text="With (22-1), E<Delta x^c, g^{0,c}(x^c)> >= lambda^c ||Delta x^c||^2.",
    latex=r"\mathbb{E}\langle\Delta x^c_t,g^{0,c}_t\rangle\ge\lambda^c\|\Delta x^c_t\|^2",
    kind="lower",
    space=ITERATES,
    measure=central.f1,
)
F2 = rc.Claim(
    id="affpcl.f2",
    source="AffPCL, Lemma F.2",
    text="With (22-1) and x_*^c in G_x, E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x^c||^2 + 2 sigma^2 / n.",
    latex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+2\sigma^2n^{-1}",
    kind="upper",
    space=ITERATES,
    measure=central.f2,
    note="One agent comes arbitrarily close; for n agents 2 sigma^2 / (2n - 1) is the least "
    "constant beside 2 G_A^2 ||Delta x||^2.",
)
F2_SEC12 = rc.Claim(
    id="affpcl.f2_sec12",
    source="AffPCL, Lemma F.2, with Section 1.2's G_x",
    text="The same with G_x = max_i ||x_*^i||.",
    latex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+2\sigma^2n^{-1},"
    r"\quad G_x=\max_i\|x_*^i\|",
    kind="upper",
    space=turning({"delta_x": rc.reals(2)}),
    measure=central.f2_agents,
    expect="violated",
    note="The proof bounds ||g^i(x_*^c)|| by G_A G_x + G_b. Two agents with mu = (1/4, 3/4) and "
    "(3/4, 1/4), A = I/100 -+ J (J a quarter turn), Phi = I, theta = 0 and (1, 0): ||x_*^i|| <= "
    "2, x_*^c = (50, 0), and at Delta x = 0 the left side is 937.5 against 16.0. Lemma F.4 and "
    "the corollaries need x_*^c in G_x for the same reason.",
    corrected="affpcl.f2",
)
F2_SHARPER = rc.Claim(
    id="affpcl.f2_sharper",
    source="AffPCL, Lemma F.2, sharpened",
    text="With a = G_A ||Delta x^c||, E||g^{0,c}||^2 <= (a + sigma)^2 / n if (n-1) a <= sigma, "
    "else a^2 + sigma^2 / (n-1); so also 2 a^2 + 2 sigma^2 / (2n-1).",
    latex=r"\mathbb{E}\|g^{0,c}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=G_A\|\Delta x^c_t\|",
    kind="upper",
    space=ITERATES,
    measure=central.f2_sharper,
    derivation="As for Lemma E.2 with X_j = A^j Delta x^c and Y_j = A^j x_*^c - b^j, of length "
    "at most G_A G_x + G_b <= sigma. The printed constant 2 is needed for n = 1 only.",
)
COR_F1 = rc.Claim(
    id="affpcl.corF1",
    source="AffPCL, Corollary F.1",
    text="With (22-1) and alpha <= lambda^c / (4 G_A^2), E||Delta x_{t+1}||^2 <= (1 - (3/2) "
    "alpha lambda^c) ||Delta x_t||^2 + 2 alpha^2 sigma^2 / n. Both sides less the "
    "contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"2(\alpha^c)^2\sigma^2n^{-1}",
    kind="upper",
    space=STEPS,
    measure=central.corF1,
)
COR_F1_SHARPER = rc.Claim(
    id="affpcl.corF1_sharper",
    source="AffPCL, Corollary F.1, sharpened",
    text="For n >= 2 and alpha <= lambda^c / (2 G_A^2), the same with alpha^2 sigma^2 / (n-1) as "
    "noise. Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"(\alpha^c)^2\tfrac{\sigma^2}{n-1}",
    kind="upper",
    space=SEVERAL_AGENTS,
    measure=central.corF1_sharper,
    derivation="E||g||^2 <= G_A^2 ||Delta x||^2 + sigma^2/(n-1), the choice c = n-1 in the "
    "sharpened Lemma F.2, and alpha^2 G_A^2 <= alpha lambda^c / 2.",
)
F3 = rc.Claim(
    id="affpcl.f3",
    source="AffPCL, Lemma F.3",
    text="With (22-2), E<Delta x^c, g^{0,c}> >= (7/8) lambda^c ||Delta x^c||^2 - 2 ||Delta "
    "theta^c||^2 / lambda^c.",
    latex=r"\mathbb{E}\langle\Delta x^c_t,g^{0,c}_t\rangle\ge\tfrac78\lambda^c\|\Delta x^c_t\|^2-"
    r"2(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2",
    kind="lower",
    space=ITERATES,
    measure=central.f3,
)
F4 = rc.Claim(
    id="affpcl.f4",
    source="AffPCL, Lemma F.4",
    text="With (22-2), E||g^{0,c}||^2 <= 2 G_A^2 ||Delta x^c||^2 + 4 ||Delta theta^c||^2 + 4 "
    "sigma^2 / n.",
    latex=r"\mathbb{E}\|g^{0,c}_t\|^2\le2G_A^2\|\Delta x^c_t\|^2+4\|\Delta\theta^c_t\|^2+"
    r"4\sigma^2n^{-1}",
    kind="upper",
    space=ITERATES,
    measure=central.f4,
)
F4_SHARPER = rc.Claim(
    id="affpcl.f4_sharper",
    source="AffPCL, Lemma F.4, sharpened",
    text="With a = G_A ||Delta x^c|| + ||Delta theta^c||, E||g^{0,c}||^2 <= (a + sigma)^2 / n if "
    "(n-1) a <= sigma, else a^2 + sigma^2 / (n-1).",
    latex=r"\mathbb{E}\|g^{0,c}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=G_A\|\Delta x^c_t\|+\|\Delta\theta^c_t\|",
    kind="upper",
    space=ITERATES,
    measure=central.f4_sharper,
    derivation="As for Lemma E.2 with X_j = A^j Delta x^c - Phi^j Delta theta^c and Y_j = A^j "
    "x_*^c - Phi^j theta_*^c.",
)
COR_F2 = rc.Claim(
    id="affpcl.corF2",
    source="AffPCL, Corollary F.2",
    text="With (22-2) and alpha <= lambda^c / (8 G_A^2), E||Delta x_{t+1}||^2 <= (1 - (3/2) "
    "alpha lambda^c) ||Delta x_t||^2 + 8 alpha ||Delta theta_t||^2 / lambda^c + 4 alpha^2 "
    "sigma^2 / n. Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"8\alpha^c(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2+4(\alpha^c)^2\sigma^2n^{-1}",
    kind="upper",
    space=STEPS,
    measure=central.corF2,
)
COR_F2_SHARPER = rc.Claim(
    id="affpcl.corF2_sharper",
    source="AffPCL, Corollary F.2, sharpened",
    text="The same with (9/2) alpha ||Delta theta_t||^2 / lambda^c in the place of 8 alpha. "
    "Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta x^c_{t+1}\|^2\le(1-\tfrac32\alpha^c\lambda^c)\|\Delta x^c_t\|^2+"
    r"\tfrac92\alpha^c(\lambda^c)^{-1}\|\Delta\theta^c_t\|^2+4(\alpha^c)^2\sigma^2n^{-1}",
    kind="upper",
    space=STEPS,
    measure=central.corF2_sharper,
    derivation="Lemmas F.3 and F.4 give 4 alpha / lambda^c + 4 alpha^2, and alpha lambda^c <= "
    "(lambda^c / G_A)^2 / 8 <= 1/8.",
)
COR_F3_LYAP = rc.Claim(
    id="affpcl.corF3_lyap",
    source="AffPCL, Corollary F.3, proof",
    text="L = ||Delta x^c||^2 + 16 ||Delta theta^c||^2 / (lambda^c)^2 has E L_{t+1} <= (1 - "
    "alpha) L_t + alpha^2 (2 sigma^2 / ((lambda^c)^2 n) + 64 sigma^2 / ((lambda^c lambda^b)^2 "
    "n)), which is at most 66 alpha^2 sigma^2 / ((lambda^b lambda^c)^2 n) beside (1 - alpha) "
    "L_t. Both sides less (1 - alpha) L_t, over alpha.",
    latex=r"\mathbb{E}\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\Big("
    r"\tfrac{2\sigma^2}{(\lambda^c)^2n}+\tfrac{64\sigma^2}{(\lambda^c\lambda^b)^2n}\Big)",
    kind="upper",
    space=STEPS,
    measure=central.corF3_lyap,
    note="Lemma D.4 with the C^1 = 2, C^2 = 4 and w^1 = 16 of the proof gives 4 and 32 in the "
    "place of 2 and 64 (exchanged C^1 and C^2). 4 + 32/(lambda^b)^2 <= 2 + 64/(lambda^b)^2, so "
    "that the printed line holds.",
)
COR_F3_LYAP_SHARPER = rc.Claim(
    id="affpcl.corF3_lyap_sharper",
    source="AffPCL, Corollary F.3, proof, sharpened",
    text="The same with 4 and 32 in the place of 2 and 64, and 36 in that of 66. Both sides "
    "less (1 - alpha) L_t, over alpha.",
    latex=r"\mathbb{E}\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\Big("
    r"\tfrac{4\sigma^2}{(\lambda^c)^2n}+\tfrac{32\sigma^2}{(\lambda^c\lambda^b)^2n}\Big)",
    kind="upper",
    space=STEPS,
    measure=central.corF3_lyap_sharper,
    derivation="Lemma D.4 with C^1 = 2 sigma^2 / n, C^2 = 4 sigma^2 / n, C^{2,1} = 8 / lambda^c, "
    "so that w^2 = 1 and w^1 = 16 / (lambda^c)^2.",
)
