"""FIRM, Lemma 9 and Appendix G.2: how far apart two clients' stochastic gradients are."""

from __future__ import annotations

from dataclasses import replace

import ratecheck as rc
from experiments.firm.claims._periods import PAIR, RESTARTED, SHORT, period, printed
from experiments.firm.theory import client_gradients as at

#: Two clients with any critics and two batches of any transitions.
BATCHES = period({"batches": rc.simplex(2, "X"), "scale": SHORT}, clients=(2, 2))
#: Two clients with any critics and batches of 2^doublings transitions.
CLIENTS = period({"doublings": rc.whole_numbers(low=0, high=20)}, clients=(2, 2))
STEPS = rc.Space(
    fields={
        "g": rc.ball(2, "K", "M", "d"),
        "lam": rc.simplex(2, "K", "M"),
        "R": rc.positive(),
        "a": rc.positive(),
    },
    sizes={"K": (1, 4), "M": (1, 3), "d": (1, 2)},
    batched=True,
    meaning={"g": "two clients' gradients over R in K steps", "a": "the step size"},
)

EQ47 = rc.Claim(
    id="firm.eq47",
    source="FIRM, equation (47)",
    text="||g^{j,c} - g^{j,c'}|| is at most the sum of the seven terms: for both clients the "
    "critic's error, the noise and Delta^j - grad J^j, and grad J^j(theta^c) - grad J^j(theta^c').",
    latex=r"\|g^{j,c}-g^{j,c'}\|\le\sum_{k\in\{c,c'\}}\big(\|g^{j,k}-g^{j,k}(w_*)\|+\|g^{j,k}(w_*)-"
    r"\Delta^{j,k}\|+\|\Delta^{j,k}-\nabla J^j(\theta^k)\|\big)+\|\nabla J^j(\theta^c)-"
    r"\nabla J^j(\theta^{c'})\|",
    kind="upper",
    space=BATCHES,
    measure=lambda s: at.eq47(s.step.now, s.batches.reshape(len(s.past), 2, 2, 2, 2)),
    note="With Delta^{j,c'} at theta^{c'}; some of them are printed at theta^c.",
)
EQ47_48 = rc.Claim(
    id="firm.eq47_48",
    source="FIRM, equations (47) and (48)",
    text="E||g^{j,c} - g^{j,c'}|| <= 4 sqrt(zeta) + 2 sqrt(E||w_*^c - w^c||) + 2 sqrt(E||w_*^{c'} "
    "- w^{c'}||) + 4 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B)) + E||grad "
    "J^j(theta^c) - grad J^j(theta^c')||. Here with exact critics.",
    latex=r"\mathbb E\|g^{j,c}-g^{j,c'}\|\le4\sqrt\zeta+2\sqrt{\mathbb E\|w_*^c-w^c\|}+"
    r"2\sqrt{\mathbb E\|w_*^{c'}-w^{c'}\|}+4\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}"
    r"{(1-\rho)B}}+\mathbb E\|\nabla J^j(\theta^c)-\nabla J^j(\theta^{c'})\|",
    kind="upper",
    space=PAIR,
    measure=lambda s: at.eq48(s.step.now, s.known, s.size),
    expect="violated",
    note="The step through Lemma 4: Delta^j - grad J^j is not small with zeta. Tabular critics, w "
    "= w_* and B to infinity leave ||Delta^j(theta^c) - Delta^j(theta^c')|| against ||grad "
    "J^j(theta^c) - grad J^j(theta^c')||, and only the latter has the factor gamma/(1-gamma): at "
    "gamma = 0.1 it is 70 times too small. Where clients have one policy, t = t_0, Delta cancels "
    "and the step is harmless. Two more slips: the critic's term (firm.eq48_critic), and Lemma 6's "
    "root has r_max + 2 R_w (firm.eq48_noise).",
    corrected="firm.eq47_48_corrected",
)
EQ48_CRITIC = rc.Claim(
    id="firm.eq48_critic",
    source="FIRM, equation (48), the critic's term",
    text="E||g^{j,c} - g^{j,c}(w_*)|| <= 2 sqrt(E||w_* - w||), with C_psi < 1.",
    latex=r"\mathbb E\|g^{j,c}-g^{j,c}(w_*)\|\le2\sqrt{\mathbb E\|w_*-w\|}",
    kind="upper",
    space=printed(),
    measure=lambda s: at.eq48_critic(s.at),
    expect="violated",
    note="The root of Lemma 5's second moment is 2 sqrt(E||w_* - w||^2); the exponent is lost. "
    "The printed form is not homogeneous: it fails as soon as ||w_* - w|| exceeds about one, which "
    "two points of H, of radius 2 r_max / lambda_A, do. The bias of Theorem 1 is of the order of "
    "the root of the critic's mean square error; (33) then reads eps_critic as a bound of a first "
    "moment, once, and of a second moment, in 12 eps_critic.",
    corrected="firm.eq48_critic_corrected",
)
EQ48_CRITIC_CORRECTED = rc.Claim(
    id="firm.eq48_critic_corrected",
    source="FIRM, equation (48), the critic's term, corrected",
    text="E||g^{j,c} - g^{j,c}(w_*)|| <= (1 + gamma) C_psi ||w_* - w||.",
    latex=r"\mathbb E\|g^{j,c}-g^{j,c}(w_*)\|\le(1+\gamma)C_\psi\|w_*-w\|",
    kind="upper",
    space=printed(),
    measure=lambda s: at.eq48_critic(s.at, (1 + s.chains.gamma) * s.chains.C_psi),
    derivation="g - g(w_*) averages psi (gamma phi' - phi)'(w - w_*), |psi| <= C_psi and |phi| <= "
    "1; if w is random, E||w_* - w|| <= sqrt(E||w_* - w||^2).",
)
EQ48_NOISE = rc.Claim(
    id="firm.eq48_noise",
    source="FIRM, equation (48), the noise",
    text="E||g^{j,c}(w_*) - Delta^{j,c}|| <= 2 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - "
    "rho) B)), with C_psi < 1 and B = 1.",
    latex=r"\mathbb E\|g^{j,c}(w_*)-\Delta^{j,c}\|\le2\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+"
    r"4\kappa\rho)}{(1-\rho)B}}",
    kind="upper",
    space=printed(),
    measure=lambda s: at.eq48_noise(s.at, s.known),
    note="Lemma 6 has r_max + 2 R_w in this place. No harm is done: ||w_*|| <= r_max/lambda_A, "
    "half of R_w, so that |delta| <= r_max + R_w.",
)
EQ47_48_CORRECTED = rc.Claim(
    id="firm.eq47_48_corrected",
    source="FIRM, equations (47) and (48), corrected",
    text="For B independent restarted transitions: sqrt(E||g^{j,c} - g^{j,c'}||^2) <= b^{j,c} + "
    "b^{j,c'} + R sqrt(2/B) + ||grad H^j(theta^c) - grad H^j(theta^c')||, H = (1 - gamma) J/gamma, "
    "b^j = C_psi sqrt(gamma) (sqrt(zeta^j) + ||w_*^j - w^j||), zeta under nu.",
    latex=r"\sqrt{\mathbb E\|g^{j,c}-g^{j,c'}\|^2}\le b^{j,c}+b^{j,c'}+R\sqrt{2/B}+\|\nabla "
    r"H^j(\theta^c)-\nabla H^j(\theta^{c'})\|",
    kind="upper",
    space=CLIENTS,
    measure=lambda s: at.eq48_corrected(s.step.now, s.size),
    derivation="The mean square is ||E g^c - E g^c'||^2 plus both variances over B, each at most "
    "R^2/B, R = C_psi (r_max + (1 + gamma) radius). E g^c - grad H(theta^c) is bounded in "
    "firm.restarted_bias.",
)
RESTARTED_BIAS = rc.Claim(
    id="firm.restarted_bias",
    source="FIRM, Lemmas 4 and 5 with restarted sampling, Appendix G.2",
    text="||E g^j - grad H^j|| <= C_psi sqrt(gamma) (sqrt(zeta^j) + ||w_*^j - w^j||) for states of "
    "nu, zeta^j = E_nu(V^j - phi'w_*^j)^2.",
    latex=r"\|\mathbb Eg^j-\nabla H^j\|\le C_\psi\sqrt\gamma\big(\sqrt{\zeta^j}+\|w_*^j-w^j\|\big)",
    kind="upper",
    space=RESTARTED,
    measure=lambda s: at.bias_bound(s.at),
    derivation="Let e = phi'w - V. delta - (r + gamma V' - V) = gamma e(s') - e(s), and E[psi "
    "e(s)] = 0 as scores have mean zero in every state. nu P_pi <= nu / gamma, since nu = (1 - "
    "gamma) mu0 + gamma nu P_pi, so ||gamma E[psi e(s')]|| <= gamma C_psi sqrt(E_nu e^2 / gamma); "
    "Minkowski's inequality for e.",
)
LEMMA9 = rc.Claim(
    id="firm.lemma9",
    source="FIRM, Lemma 9",
    text="E||g^{j,c} - g^{j,c'}|| <= 4 sqrt(zeta) + 2 sqrt(E||w_*^c - w^c||) + 2 sqrt(E||w_*^{c'} "
    "- w^{c'}||) + 4 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B)) + 4 L_J R a (t - "
    "t_0). Here with exact critics, t = t_0 + 1.",
    latex=r"\mathbb E\|g^{j,c}-g^{j,c'}\|\le4\sqrt\zeta+2\sqrt{\mathbb E\|w_*^c-w^c\|}+"
    r"2\sqrt{\mathbb E\|w_*^{c'}-w^{c'}\|}+4\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}"
    r"{(1-\rho)B}}+4L_JRa(t-t_0)",
    kind="upper",
    space=PAIR,
    measure=lambda s: at.lemma9(s.step.now, s.known, s.size, s.step.a),
    expect="violated",
    note="From (48): g^c estimates Delta(theta^c), and L_J is no Lipschitz constant of Delta. As "
    "gamma goes to zero so does L_J, which has the factor gamma of J, and Delta does not; B large, "
    "tabular exact critics. This is about L_J as Assumption 3 has it, any Lipschitz constant of "
    "grad J. The value printed below (49) lacks the factor gamma and is far larger; no "
    "counterexample with it is known, nor a proof. The corrected lemma is about grad H, for which "
    "(24) and Theorem 1 can be stated.",
    corrected="firm.lemma9_corrected",
    main=True,
)
EQ53 = replace(LEMMA9, id="firm.eq53", source="FIRM, equation (53)", main=False)
LEMMA9_CORRECTED = rc.Claim(
    id="firm.lemma9_corrected",
    source="FIRM, Lemma 9 and equation (53), corrected",
    text="For B independent restarted transitions: sqrt(E||g^{j,c} - g^{j,c'}||^2) <= b^{j,c} + "
    "b^{j,c'} + R sqrt(2/B) + 2 L_H R a (t - t_0), L_H = r_max C_psi^2/(4 (1 - gamma)).",
    latex=r"\sqrt{\mathbb E\|g^{j,c}-g^{j,c'}\|^2}\le b^{j,c}+b^{j,c'}+R\sqrt{2/B}+"
    r"2L_HRa(t-t_0)",
    kind="upper",
    space=CLIENTS,
    measure=lambda s: at.lemma9_corrected(s.step.now, s.size, s.L, s.step.a),
    derivation="firm.eq47_48_corrected and firm.eq52_sharper.",
)
EQ50_52 = rc.Claim(
    id="firm.eq50_52",
    source="FIRM, equations (50) to (52)",
    text="||theta_t^c - theta_t^c'|| <= 4 R a (t - t_0).",
    latex=r"\|\theta_t^c-\theta_t^{c'}\|\le4Ra(t-t_0)",
    kind="upper",
    space=STEPS,
    measure=lambda s: at.eq52(s.g, s.lam, s.R, s.a, 4),
    note="Two slips that cancel: the sums of (50) and (51) have t - t_0 + 1 terms where t - t_0 "
    "steps were made (at t = t_0 they leave 4 R a of nothing), and the triangle inequality in (51) "
    "has a factor 2 too many. (50) also lacks the step size.",
)
EQ52_SHARPER = rc.Claim(
    id="firm.eq52_sharper",
    source="FIRM, equation (52), sharpened",
    text="||theta_t^c - theta_t^c'|| <= 2 R a (t - t_0).",
    latex=r"\|\theta_t^c-\theta_t^{c'}\|\le2Ra(t-t_0)",
    kind="upper",
    space=STEPS,
    measure=lambda s: at.eq52(s.g, s.lam, s.R, s.a, 2),
    derivation="t - t_0 steps of length at most a R each at both clients; attained by opposite "
    "ones.",
)
