"""Appendix E of AffPCL: one step of central objective estimation (20)."""

from __future__ import annotations

import ratecheck as rc
from experiments.affpcl.claims._iterates import ITERATES, SEVERAL_AGENTS, STEPS
from experiments.affpcl.claims._spaces import SYSTEMS
from experiments.affpcl.theory import central

E1 = rc.Claim(
    id="affpcl.e1",
    source="AffPCL, Lemma E.1",
    text="E<Delta theta^c, g^{0,b}(theta^c)> >= lambda^b ||Delta theta^c||^2.",
    latex=r"\mathbb{E}\langle\Delta\theta^c_t,g^{0,b}_t\rangle\ge\lambda^b\|\Delta\theta^c_t\|^2",
    kind="lower",
    space=ITERATES,
    measure=central.e1,
)
E2 = rc.Claim(
    id="affpcl.e2",
    source="AffPCL, Lemma E.2",
    text="E||g^{0,b}(theta^c)||^2 <= 2 ||Delta theta^c||^2 + 2 sigma^2 / n.",
    latex=r"\mathbb{E}\|g^{0,b}_t\|^2\le2\|\Delta\theta^c_t\|^2+2\sigma^2n^{-1}",
    kind="upper",
    space=ITERATES,
    measure=central.e2,
    note="Never attained: one agent has no noise at theta_*^c, and with n of them the left side is "
    "at most (1 + 1/n)/2 of the bound. H_1 alone does come close to sigma^2 / n.",
)
E2_SHARPER = rc.Claim(
    id="affpcl.e2_sharper",
    source="AffPCL, Lemma E.2, sharpened",
    text="With a = ||Delta theta^c||, E||g^{0,b}||^2 <= (a + sigma)^2 / n if (n-1) a <= sigma, "
    "else a^2 + sigma^2 / (n-1); so also 2 a^2 + 2 sigma^2 / (2n-1).",
    latex=r"\mathbb{E}\|g^{0,b}_t\|^2\le\min_{c\ge n-1}\left\{\tfrac{1+c}{n}a^2+\tfrac{1+1/c}{n}"
    r"\sigma^2\right\},\quad a=\|\Delta\theta^c_t\|",
    kind="upper",
    space=ITERATES,
    measure=central.e2_sharper,
    derivation="g = X + Y, averages of X_j = Phi^j Delta theta and Y_j = g^j(theta_*^c), with E "
    "Y = 0 and E||Y||^2 <= sigma^2 / n. Centring X first: E||g||^2 = m + E||X - E X + Y||^2 <= m "
    "+ (1+c)(a^2 - m)/n + (1 + 1/c) sigma^2 / n with m = ||E X||^2, since tr Var X <= (a^2 - "
    "m)/n. For c >= n-1 the worst m is zero. In d = 2 agents whose Phibar^j nearly cancel attain "
    "it.",
)
E2_H1 = rc.Claim(
    id="affpcl.e2_H1",
    source="AffPCL, Lemma E.2, H_1",
    text="H_1 = (1/n^2) sum_i E||g^{i,b}(theta_*^c)||^2 <= (2 G_b)^2 / n <= sigma^2 / n.",
    latex=r"H_1=\tfrac1{n^2}\sum_i\mathbb{E}\|g^{i,b}(\theta_*^c)\|^2\le\tfrac{(2G_b)^2}{n}"
    r"\le\tfrac{\sigma^2}{n}",
    kind="upper",
    space=SYSTEMS,
    measure=central.e2_H1,
)
E2_H2 = rc.Claim(
    id="affpcl.e2_H2",
    source="AffPCL, Lemma E.2, H_2",
    text="H_2 = (1/n^2) sum_{i != j} <E g^i, E g^j> = -(1/n^2) sum_i ||E g^i||^2 <= 0 at "
    "theta_*^c.",
    latex=r"H_2=-\tfrac1{n^2}\sum_i\|\mathbb{E}g^{i,b}(\theta_*^c)\|^2\le0",
    kind="identity",
    space=SYSTEMS,
    measure=central.e2_H2,
)
COR_E1 = rc.Claim(
    id="affpcl.corE1",
    source="AffPCL, Corollary E.1",
    text="For alpha <= lambda^b / 4, E||Delta theta_{t+1}||^2 <= (1 - (3/2) alpha lambda^b) "
    "||Delta theta_t||^2 + 2 alpha^2 sigma^2 / n. Both sides less the "
    "contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta\theta^c_{t+1}\|^2\le(1-\tfrac32\alpha^b\lambda^b)"
    r"\|\Delta\theta^c_t\|^2+2(\alpha^b)^2\sigma^2n^{-1}",
    kind="upper",
    space=STEPS,
    measure=central.corE1,
)
COR_E1_SHARPER = rc.Claim(
    id="affpcl.corE1_sharper",
    source="AffPCL, Corollary E.1, sharpened",
    text="For n >= 2 and alpha <= lambda^b / 2, the same with alpha^2 sigma^2 / (n-1) as noise. "
    "Both sides less the contraction, over alpha.",
    latex=r"\mathbb{E}\|\Delta\theta^c_{t+1}\|^2\le(1-\tfrac32\alpha^b\lambda^b)"
    r"\|\Delta\theta^c_t\|^2+(\alpha^b)^2\tfrac{\sigma^2}{n-1}",
    kind="upper",
    space=SEVERAL_AGENTS,
    measure=central.corE1_sharper,
    derivation="E||g||^2 <= ||Delta theta||^2 + sigma^2/(n-1), the choice c = n-1 in the "
    "sharpened Lemma E.2, and alpha^2 <= alpha lambda^b / 2.",
)
