"""Appendix D of AffPCL: affinities (Lemmas D.1 to D.3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS
from experiments.affpcl.claims._turning import TURNING, TURNING_OBJECTIVES
from experiments.affpcl.theory import affinity

# Lemma D.1.

D1A = rc.Claim(
    id="affpcl.d1a",
    source="AffPCL, Lemma D.1 (a)",
    text="||b^i(s) - b^j(s)|| <= 2 G_b delta_obj for i, j in [n]^0 and all s.",
    latex=r"\|b^i(s)-b^j(s)\|\le2G_b\delta_{\rm obj},\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1a,
)
D1B = rc.Claim(
    id="affpcl.d1b",
    source="AffPCL, Lemma D.1 (b)",
    text="||b^i(s) - b^0(s)|| <= 2 G_b delta_obj^i for all s.",
    latex=r"\|b^i(s)-b^0(s)\|\le2G_b\delta_{\rm obj}^i",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1b,
)
D1C = rc.Claim(
    id="affpcl.d1c",
    source="AffPCL, Lemma D.1 (c)",
    text="||bbar^i - bbar^j|| <= 2 G_b (delta_env + delta_obj) for i, j in [n]^0.",
    latex=r"\|\bar b^i-\bar b^j\|\le2G_b(\delta_{\rm env}+\delta_{\rm obj}),\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1c,
)
D1D = rc.Claim(
    id="affpcl.d1d",
    source="AffPCL, Lemma D.1 (d)",
    text="||bbar^i - bbar^0|| and 2 G_b delta_cen^i are at most 2 G_b min{1, delta_env^i + "
    "delta_obj, delta_env + delta_obj^i}.",
    latex=r"\|\bar b^i-\bar b^0\|\le2G_b\delta_{\rm cen}^i\le2G_b\min\{1,\delta_{\rm env}^i+"
    r"\delta_{\rm obj},\delta_{\rm env}+\delta_{\rm obj}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1d,
)
D1E = rc.Claim(
    id="affpcl.d1e",
    source="AffPCL, Lemma D.1 (e)",
    text="||E_{mu^j}[b^i - b^c]|| <= 2 sigma delta_cen^i for j = i and j = 0.",
    latex=r"\|\mathbb{E}_{\mu^j}[b^i(s)-b^c(s)]\|\le2\sigma\delta_{\rm cen}^i,\quad j\in\{0,i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1e,
    note="Approached, not attained: Phibar^i = p J and Phibar^0 = q J, J a quarter turn, give the "
    "ratio p / (p + q). The same of Abar in (i).",
)
D1F = rc.Claim(
    id="affpcl.d1f",
    source="AffPCL, Lemma D.1 (f)",
    text="||theta_*^i - theta_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, with lambda the "
    "least over all Abar^i and Phibar^i.",
    latex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f,
    note="At most half of the bound is needed, and no delta_env: see the sharpened form.",
)
D1F_SEC12 = rc.Claim(
    id="affpcl.d1f_sec12",
    source="AffPCL, Lemma D.1 (f), with Section 1.2's lambda",
    text="The same with lambda = min_i lambda_min(sym Abar^i).",
    latex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda_A^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f_without_phi,
    expect="violated",
    note="The proof inverts Phibar^0, of which Section 1.2's lambda knows nothing. A = 10, Phi = "
    "1/10, theta = +-1 in one environment: 1 against 2/10 * 2 * 1 = 0.4. The lemma's own lambda, "
    "introduced in its proof, includes Phi; the printed statement is safe with it.",
    corrected="affpcl.d1f",
)
D1F_SHARPER = rc.Claim(
    id="affpcl.d1f_sharper",
    source="AffPCL, Lemma D.1 (f), sharpened",
    text="||theta_*^i - theta_*^c|| <= (1 - 1/n) 2 G_b delta_obj / lambda^b; no delta_env.",
    latex=r"\|\theta_*^i-\theta_*^c\|\le(1-\tfrac1n)(\lambda^b)^{-1}\,2G_b\,\delta_{\rm obj}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f_sharper,
    derivation="Phibar^0 theta_*^c = (1/n) sum_j Phibar^j theta^j, hence Phibar^0 (theta^i - "
    "theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j). The term j = i is zero, the others "
    "are at most ||theta^i - theta^j|| <= 2 G_b delta_obj, and ||(Phibar^0)^{-1}|| <= "
    "1/lambda^b. 2 G_b <= sigma and lambda <= lambda^b give (f) with half of its constant.",
)
D1G = rc.Claim(
    id="affpcl.d1g",
    source="AffPCL, Lemma D.1 (g)",
    text="||Abar^i - Abar^j|| <= 2 G_A delta_env for i, j in [n]^0.",
    latex=r"\|\bar A^i-\bar A^j\|\le2G_A\delta_{\rm env},\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1g,
)
D1H = rc.Claim(
    id="affpcl.d1h",
    source="AffPCL, Lemma D.1 (h)",
    text="||Abar^i - Abar^0|| <= 2 G_A delta_env^i.",
    latex=r"\|\bar A^i-\bar A^0\|\le2G_A\delta_{\rm env}^i",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1h,
)
D1I = rc.Claim(
    id="affpcl.d1i",
    source="AffPCL, Lemma D.1 (i)",
    text="||E_{mu^j}[A(s)(x_*^i - x_*^c)]|| <= 2 sigma delta_cen^i for j = i and j = 0, with "
    "x_*^c in G_x.",
    latex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad j\in\{0,i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1i,
)
D1I_SEC12 = rc.Claim(
    id="affpcl.d1i_sec12",
    source="AffPCL, Lemma D.1 (i), with Section 1.2's G_x",
    text="The same with G_x = max_i ||x_*^i||.",
    latex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad G_x=\max_i\|x_*^i\|",
    kind="upper",
    space=TURNING,
    measure=affinity.d1i_agents,
    expect="violated",
    note="The proof bounds (Abar^i - Abar^0) x_*^c by 2 G_A delta_env^i G_x, so G_x has to "
    "contain ||x_*^c||, which d >= 2 lets exceed every ||x_*^i||. Two agents with a state each, "
    "A = I/10 -+ J (J a quarter turn), Phi = I, theta = 0 and (0, 1): ||x_*^i|| < 1, x_*^c = (0, "
    "5), and the left side is 5.02 against 2. Appendix C.6 has the G_x that is needed.",
    corrected="affpcl.d1i",
)
D1J = rc.Claim(
    id="affpcl.d1j",
    source="AffPCL, Lemma D.1 (j)",
    text="||x_*^i - x_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda.",
    latex=r"\|x_*^i-x_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1j,
    note="Approached with 1 - 1/n where environments alone differ; half of it is enough where "
    "objectives alone do.",
)
D1J_SHARPER = rc.Claim(
    id="affpcl.d1j_sharper",
    source="AffPCL, Lemma D.1 (j), sharpened",
    text="||x_*^i - x_*^c|| <= (1 - 1/n) sigma (2 delta_env + delta_obj) / lambda^c, with "
    "Section 1.2's G_x in sigma.",
    latex=r"\|x_*^i-x_*^c\|\le(1-\tfrac1n)(\lambda^c)^{-1}\sigma(2\delta_{\rm env}+"
    r"\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1j_sharper,
    derivation="Abar^0 (x_*^i - x_*^c) = (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - "
    "bbar^j]. The term j = i is zero; by (g) and (c) the others are at most 2 G_A G_x delta_env "
    "+ 2 G_b (delta_env + delta_obj) <= sigma (2 delta_env + delta_obj). Only x_*^i occurs.",
)

# Lemma D.2.

D2_A = rc.Claim(
    id="affpcl.d2_A",
    source="AffPCL, Lemma D.2, first half",
    text="E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, with x_*^c in "
    "G_x.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_A,
)
D2_A_SEC12 = rc.Claim(
    id="affpcl.d2_A_sec12",
    source="AffPCL, Lemma D.2, first half, with Section 1.2's G_x",
    text="The same with G_x = max_i ||x_*^i||.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\},"
    r"\quad G_x=\max_i\|x_*^i\|",
    kind="upper",
    space=TURNING,
    measure=affinity.d2_A_agents,
    expect="violated",
    note="The proof uses ||x_*^i - x_*^c|| <= 2 G_x. In the counterexample to (i) the left side "
    "is 25.25 against 4; with A = e I -+ J it grows like 1/e^2 while the bound stays. Lemma G.3 "
    "and so Theorem 1 need x_*^c in the G_x of sigma as well.",
    corrected="affpcl.d2_A",
)
D2_A_SHARPER = rc.Claim(
    id="affpcl.d2_A_sharper",
    source="AffPCL, Lemma D.2, first half, sharpened",
    text="E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= sigma^2 min{1, 2 nu^i delta_cen^i}.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le\sigma^2\min\{1,2\nu^i"
    r"\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_A_sharper,
    derivation="The paper's two bounds before they are merged: (2 G_A G_x)^2 <= sigma^2, and 2 "
    "G_A G_x ||Dbar^i (Abar^i)^{-1}|| 2 sigma delta_cen^i, in which only agent i's own nu "
    "occurs.",
)
D2_PHI = rc.Claim(
    id="affpcl.d2_Phi",
    source="AffPCL, Lemma D.2, second half",
    main=True,
    text="E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}.",
    latex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_Phi,
    expect="violated",
    note="The proof, 'similarly', puts Phi in the place of A, hence in Definition 3 as well, "
    "while nu there is that of A. A = I has nu = 1; Phi a rotation by +-phi with cos(phi) = "
    "0.05, each with probability 1/2, theta = +-(1, 0): 1 against 8 * 0.025 = 0.2. Lemma G.3, "
    "(9) and Theorem 1 of Appendix G.1 need the larger one of nu of A and nu of Phi (here 20) in "
    "the effective affinity. Where every Phi(s) is symmetric and positive semi-definite, as for "
    "the one-hot features of a finite S (Appendix C.2), nu of Phi is 1 <= nu, and all of them "
    "stand as printed.",
    corrected="affpcl.d2_Phi_corrected",
)
D2_PHI_UNIVERSAL = rc.Claim(
    id="affpcl.d2_Phi_universal",
    source="AffPCL, Lemma D.2, second half, with the affinities of Theorem 1 (Section 5)",
    text="E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu (delta_env + "
    "delta_obj)}.",
    latex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu(\delta_{\rm env}+\delta_{\rm obj})\}",
    kind="upper",
    space=TURNING_OBJECTIVES,
    measure=affinity.d2_Phi_universal,
    expect="violated",
    note="delta_cen^i is at most delta_env + delta_obj, so this is weaker than the lemma, and "
    "true in one environment, where theta_*^c is the agents' mean. Two agents with mu = (0.51, "
    "0.49) and (0.49, 0.51), A = I, Phi = I/10^4 +- 0.9 J (J a quarter turn), theta = (1, 0) and "
    "0: theta_*^c = (0.5, 90), nu = 1, delta_env = 0.02, delta_obj = 0.0056, and the left side is "
    "6561 against 1656. With the gap of mu and Phi's multiple of I like m and m^3, the "
    "quotient grows like 1/m: Theorem 1 of Section 5 needs nu of Phi as well.",
    corrected="affpcl.d2_Phi_corrected",
)
D2_PHI_CORRECTED = rc.Claim(
    id="affpcl.d2_Phi_corrected",
    source="AffPCL, Lemma D.2, second half, corrected",
    text="E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu_Phi delta_cen^i}, "
    "nu_Phi = max_i ||E_{mu^i} sqrt(Phi' Phi) (Phibar^i)^{-1}||.",
    latex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu_\Phi\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_Phi_own_nu,
    derivation="With v = theta^i - theta_*^c, ||v|| <= 2 G_b, and D = sqrt(Phi' Phi) <= I: "
    "E||Phi v||^2 <= ||v|| ||Dbar v|| <= 2 G_b nu_Phi ||Phibar^i v|| <= 2 G_b nu_Phi 2 sigma "
    "delta_cen^i by (e), and 2 G_b <= sigma. On the other hand E||Phi v||^2 <= (2 G_b)^2 <= "
    "sigma^2.",
)

# Lemma D.3.


def _pair(mu: Any, rest: Any, share: Any) -> SimpleNamespace:
    """mu and mu' = share mu + (1 - share) rest: any mu' that is positive where mu is."""
    mixed = share[:, None] * mu + (1 - share[:, None]) * rest
    return SimpleNamespace(mu=mu, other=mixed)


D3 = rc.Claim(
    id="affpcl.d3",
    source="AffPCL, Lemma D.3",
    text="chi^2(mu, mu') <= max{||mu/mu'||_inf, 1} ||mu - mu'||_TV.",
    latex=r"\chi^2(\mu,\mu')\le\max\{\|\mu/\mu'\|_\infty,1\}\|\mu-\mu'\|_{\rm TV}",
    kind="upper",
    space=rc.Space(
        fields={
            "mu": rc.simplex("S"),
            "rest": rc.simplex("S"),
            "share": rc.positive(low=1e-4, high=1.0),
        },
        sizes={"S": (1, 5)},
        view=_pair,
        batched=True,
        meaning={
            "rest": "the distribution q in mu' = share mu + (1 - share) q",
            "share": "the weight of mu in mu'",
        },
    ),
    measure=lambda pair: affinity.d3(pair.mu, pair.other),
)
