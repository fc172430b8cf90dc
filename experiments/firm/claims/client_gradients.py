"""FIRM, Lemma 9 and Appendix G.2: how far apart two clients' stochastic gradients are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._chains import SIMPLEST
from experiments.firm.claims._periods import (
    PAIR,
    RESTARTED,
    SHORT,
    SYNCHRONISED,
    period,
    printed,
)
from experiments.firm.paper import PAPER
from experiments.firm.theory import client_gradients as at
from experiments.firm.theory.client_gradients import Estimate, Printed
from linsys.linalg import norm

#: Two clients with any critics and two batches of any transitions.
BATCHES = period({"batches": rc.simplex(2, "X"), "scale": SHORT}, clients=(2, 2))
#: Two clients with any critics and batches of 2^doublings transitions.
CLIENTS = period({"doublings": rc.whole_numbers(low=0, high=20)}, clients=(2, 2))
#: Clients with opposite critics, 0.175 R_w times (1, -1), where w_* = 0. An action leads to the
#: state of its number with probability 7/8, or 63/64 (the space raises every entry to 1/64). So
#: every policy has d_pi(s) >= 1/8, or 1/64, hence lambda_A = 0.1/8, or 0.1/64, serves all.
_OPPOSED = [
    {
        **SIMPLEST,
        "P": [[[stay, 1 - stay], [1 - stay, stay]]] * 2,
        "r": np.zeros((2, 2, 1)),
        "r_max": 10.0,
        "scale": 0.7,
        "critics": [[[0.175, -0.175]], [[-0.175, 0.175]]],
        "doublings": 20,
    }
    for stay in (55 / 62, 1.0)
]
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


@PAPER.upper(
    "eq47",
    ref="equation (47)",
    tex=r"\|g^{j,c}-g^{j,c'}\|\le\sum_{k\in\{c,c'\}}\big(\|g^{j,k}-g^{j,k}(w_*)\|+\|g^{j,k}(w_*)-"
    r"\Delta^{j,k}\|+\|\Delta^{j,k}-\nabla J^j(\theta^k)\|\big)+\|\nabla J^j(\theta^c)-"
    r"\nabla J^j(\theta^{c'})\|",
    on=BATCHES,
    note="With Delta^{j,c'} at theta^{c'}; some of them are printed at theta^c.",
)
def eq47(step: Any, batches: Any, past: Any) -> rc.Sides:
    """||g^{j,c} - g^{j,c'}|| is at most the sum of the seven terms: for both clients the critic's
    error, the noise and Delta^j - grad J^j, and grad J^j(theta^c) - grad J^j(theta^c').
    """
    pair, batches = step.now, batches.reshape(len(past), 2, 2, 2, 2)
    gradients, starred = [], []
    for k, one in enumerate(pair):
        law = batches[:, k, ..., None, None]
        gradients.append((law * one.samples).sum(axis=(1, 2, 3)))
        starred.append((law * one.of(one.chains.w_star)).sum(axis=(1, 2, 3)))
    true = [one.chains.jac for one in pair]
    centre = [one.average(one.of(one.chains.w_star)) for one in pair]
    bound = norm(true[0] - true[1])
    for k in range(2):
        parts = gradients[k] - starred[k], starred[k] - centre[k], centre[k] - true[k]
        bound = bound + sum(norm(part) for part in parts)
    return norm(gradients[0] - gradients[1]), bound


@PAPER.upper(
    "eq47_48",
    ref="equations (47) and (48)",
    family=_OPPOSED,
    tex=r"\mathbb E\|g^{j,c}-g^{j,c'}\|\le4\sqrt\zeta+2\sqrt{\mathbb E\|w_*^c-w^c\|}+"
    r"2\sqrt{\mathbb E\|w_*^{c'}-w^{c'}\|}+4\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}"
    r"{(1-\rho)B}}+\mathbb E\|\nabla J^j(\theta^c)-\nabla J^j(\theta^{c'})\|",
    on=SYNCHRONISED,
    expect="violated",
    note="The seven terms of (47) are right. Lemma 5 bounds a second moment, the root of which is "
    "2 sqrt(E||w_* - w||^2); (48) has 2 sqrt(E||w_* - w||), see firm.eq48_critic. The "
    "counterexample of Lemma 9 has one policy, so that the last term is zero: 132 against 102. Two "
    "more slips: Lemma 4's step (firm.eq48_policies), and Lemma 6's root has r_max + 2 R_w "
    "(firm.eq48_noise).",
    corrected="eq47_48_corrected",
    uses=["eq47", "lemma4", "lemma5", "lemma6"],
    printed_as="proof step",
)
def eq47_48(pair: Any, known: Any, size: Any) -> rc.Sides:
    """E||g^{j,c} - g^{j,c'}|| <= 4 sqrt(zeta) + 2 sqrt(E||w_*^c - w^c||) + 2 sqrt(E||w_*^{c'} -
    w^{c'}||) + 4 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B)) + E||grad
    J^j(theta^c) - grad J^j(theta^c')||. Here with one policy.
    """
    return at.synchronised(pair, known, size)


@PAPER.upper(
    "eq48_policies",
    ref="equation (48), with exact critics",
    tex=r"\mathbb E\|g^{j,c}-g^{j,c'}\|\le4\sqrt\zeta+4\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+"
    r"4\kappa\rho)}{(1-\rho)B}}+\mathbb E\|\nabla J^j(\theta^c)-\nabla J^j(\theta^{c'})\|",
    on=PAIR,
    expect="violated",
    note="(48) itself where the critics' terms vanish, as the discussion below it promises that "
    "they can be made to. The step through Lemma 4 fails: Delta^j - grad J^j is not small "
    "with zeta. Tabular critics, w = w_* and B to infinity leave ||Delta^j(theta^c) - "
    "Delta^j(theta^c')|| against ||grad J^j(theta^c) - grad J^j(theta^c')||, and only the "
    "latter has the factor gamma/(1-gamma): one state, r = (1, 0), logits (x, 0) and (0, 0), "
    "where Delta = (1 - gamma) grad J/gamma, nine times grad J at gamma = 0.1. Finite batches: all "
    "transitions 1/2, r = (1, 0) in both states, r_max = 1, gamma = 0.1, C_psi = 0.7 sqrt(2), B = "
    "2^20 and a step 1/L_J from equal policies along batches of (state 0, action 0) and of (state "
    "1, action 0) have 0.175 against 0.041, with the lambda_A = 0.45 of every policy.",
    corrected="eq47_48_corrected",
    printed_as="proof step",
    uses=["eq47", "lemma4", "lemma6"],
)
def eq48_policies(step: Any, known: Any, size: Any) -> rc.Sides:
    """(48) with exact tabular critics, zeta = 0, and transitions of d_pi, as (10) has them, one
    step after an aggregation: E||g^{j,c} - g^{j,c'}|| <= 4 sqrt(zeta) + 4 sqrt((r_max + R_w)^2 (1 -
    rho + 4 kappa rho)/((1 - rho) B)) + E||grad J^j(theta^c) - grad J^j(theta^c')||.
    """
    one, two = step.now
    last = norm(one.chains.jac - two.chains.jac)
    # By Jensen's inequality ||E g - E g'|| <= E||g - g'||: what violates this violates (48).
    return norm(one.mean - two.mean), at.first_terms(known, size, 0 * size)[:, None] + last


@PAPER.upper(
    "eq48_critic",
    ref="equation (48), the critic's term",
    family=[
        {
            **SIMPLEST,
            "r": np.zeros((2, 2, 1)),
            "r_max": 10.0,
            "scale": 0.7,
            "w": [[0.7, -0.7]],
            "share": 1.0,
            "doublings": 0,
        }
    ],
    printed_as="proof step",
    uses=["lemma5"],
    tex=r"\mathbb E\|g^{j,c}-g^{j,c}(w_*)\|\le2\sqrt{\mathbb E\|w_*-w\|}",
    on=printed(),
    expect="violated",
    note="The root of Lemma 5's second moment is 2 sqrt(E||w_* - w||^2); the exponent is lost. "
    "The printed form is not homogeneous: as (1 + gamma) C_psi < 2 it holds where ||w_* - w|| <= "
    "1, and it fails along any direction in which g changes as soon as ||w_* - w|| is large "
    "enough, which r_max makes it for points of H, of radius 2 r_max / lambda_A. The bias of "
    "Theorem 1 is of the order of the root of the critic's mean square error; (33) then reads "
    "eps_critic as a bound of a first moment, once, and of a second moment, in 12 eps_critic.",
    corrected="eq48_critic_corrected",
)
def eq48_critic(instance: Any) -> rc.Sides:
    """E||g^{j,c} - g^{j,c}(w_*)|| <= 2 sqrt(E||w_* - w||), with C_psi < 1. Here B = 1."""
    return at.eq48_critic(instance.at)


@PAPER.upper(
    "eq48_critic_corrected",
    ref="equation (48), the critic's term, corrected",
    tex=r"\mathbb E\|g^{j,c}-g^{j,c}(w_*)\|\le(1+\gamma)C_\psi\|w_*-w\|",
    on=printed(),
    derivation="g - g(w_*) averages psi (gamma phi' - phi)'(w - w_*), |psi| <= C_psi and |phi| <= "
    "1; if w is random, E||w_* - w|| <= sqrt(E||w_* - w||^2).",
)
def eq48_critic_corrected(instance: Any) -> rc.Sides:
    """E||g^{j,c} - g^{j,c}(w_*)|| <= (1 + gamma) C_psi ||w_* - w||. Here B = 1, the worst case."""
    return at.eq48_critic(instance.at, (1 + instance.chains.gamma) * instance.chains.C_psi)


@PAPER.upper(
    "eq48_noise",
    ref="equation (48), the noise",
    tex=r"\mathbb E\|g^{j,c}(w_*)-\Delta^{j,c}\|\le2\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+"
    r"4\kappa\rho)}{(1-\rho)B}}",
    on=printed(),
    note="Lemma 6 has r_max + 2 R_w in this place. No harm is done: ||w_*|| <= r_max/lambda_A, "
    "half of R_w, so that |delta| <= r_max + R_w; for larger B see firm.lemma6_sharper. Without "
    "C_psi < 1 it is false, as Lemma 6 is: two states, all transitions 1/2, phi = 1 and -1, r = "
    "1, pi = 1/2 and features of the policy of length c have c/sqrt(2) against 6 at B = 1.",
)
def eq48_noise(at: Estimate, known: Printed) -> rc.Sides:
    """E||g^{j,c}(w_*) - Delta^{j,c}|| <= 2 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho)
    B)), with C_psi < 1 and B = 1.
    """
    starred = at.of(at.chains.w_star)
    centred = starred - at.average(starred)[:, None, None, None]
    bound = 2 * np.sqrt(known.noise(1 + 0 * known.rho, critics=1))
    return at.average(norm(centred)), bound[:, None] + 0 * at.distance


@PAPER.upper(
    "eq47_48_corrected",
    ref="equations (47) and (48), corrected",
    uses=["restarted_bias"],
    tex=r"\sqrt{\mathbb E\|g^{j,c}-g^{j,c'}\|^2}\le b^{j,c}+b^{j,c'}+R\sqrt{2/B}+\|\nabla "
    r"H^j(\theta^c)-\nabla H^j(\theta^{c'})\|",
    on=CLIENTS,
    derivation="The mean square is ||E g^c - E g^c'||^2 plus both variances over B, each at most "
    "R^2/B, R = C_psi (r_max + (1 + gamma) radius). E g^c - grad H(theta^c) is bounded in "
    "firm.restarted_bias.",
)
def eq47_48_corrected(step: Any, size: Any) -> rc.Sides:
    """For B independent restarted transitions: sqrt(E||g^{j,c} - g^{j,c'}||^2) <= b^{j,c} +
    b^{j,c'} + R sqrt(2/B) + ||grad H^j(theta^c) - grad H^j(theta^c')||, H = (1 - gamma) J/gamma,
    b^j = C_psi sqrt(gamma) (sqrt(zeta^j) + ||w_*^j - w^j||), R = C_psi (r_max + (1 + gamma) R_w),
    zeta under nu.
    """
    one, two = step.now
    noise = one.limit * np.sqrt(2 / size)
    last = norm(one.gradient - two.gradient)
    return at.root_mean_square(step.now, size), one.bias + two.bias + noise[:, None] + last


@PAPER.upper(
    "restarted_bias",
    ref="Lemmas 4 and 5 with restarted sampling, Appendix G.2",
    printed_as="ours",
    tex=r"\|\mathbb Eg^j-\nabla H^j\|\le C_\psi\sqrt\gamma\big(\sqrt{\zeta^j}+\|w_*^j-w^j\|\big)",
    on=RESTARTED,
    derivation="Let e = phi'w - V. delta - (r + gamma V' - V) = gamma e(s') - e(s), and E[psi "
    "e(s)] = 0 as scores have mean zero in every state. nu P_pi <= nu / gamma, since nu = (1 - "
    "gamma) mu0 + gamma nu P_pi, so ||gamma E[psi e(s')]|| <= gamma C_psi sqrt(E_nu e^2 / gamma); "
    "Minkowski's inequality for e.",
)
def restarted_bias(at: Estimate) -> rc.Sides:
    """||E g^j - grad H^j|| <= C_psi sqrt(gamma) (sqrt(zeta^j) + ||w_*^j - w^j||) for states of nu,
    zeta^j = E_nu(V^j - phi'w_*^j)^2.
    """
    return norm(at.mean - at.gradient), at.bias


@PAPER.upper(
    "lemma9",
    ref="Lemma 9",
    family=_OPPOSED,
    tex=r"\mathbb E\|g^{j,c}-g^{j,c'}\|\le4\sqrt\zeta+2\sqrt{\mathbb E\|w_*^c-w^c\|}+"
    r"2\sqrt{\mathbb E\|w_*^{c'}-w^{c'}\|}+4\sqrt{\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}"
    r"{(1-\rho)B}}+4L_JRa(t-t_0)",
    on=SYNCHRONISED,
    expect="violated",
    note="False already at t = t_0, where L_J plays no part, so for every L_J: (48) takes roots of "
    "first moments where Lemma 5 has second ones, so that rewards ten times as large make the "
    "left side and the other terms ten times as large, but those of the critics sqrt(10) "
    "times. Two states, action a leads to state a with probability 7/8, pi = 1/2, r = 0, "
    "r_max = 10, gamma = 0.9, one critic feature for each state, features of the policy 0.7 "
    "long: w_* = 0, zeta = 0, rho = 3/4. Every policy has d_pi(s) >= 1/8, so that lambda_A = (1 - "
    "gamma)/8 serves all of them, and R_w = 1600. The critics (280, -280) and (-280, 280) of H "
    "give gradients 132 apart in the mean, against 4 sqrt(396) + 22.7 = 102 with B = 2^20. Rewards "
    "need not vanish: gamma = 0.99, r = r_max = 1 and the critics w_* +- (264, -264), 373 from "
    "w_*, have 137 against 4 sqrt(373) + 22.5 = 100. Even exact critics do not save it for t > "
    "t_0: gradients estimate Delta, and L_J "
    "is no Lipschitz constant of Delta (firm.eq48_policies). The corrected lemma is about grad H, "
    "for which (24) and Theorem 1 can be stated.",
    corrected="lemma9_corrected",
    uses=["eq47_48", "eq50_52"],
    main=True,
)
def lemma9(pair: Any, known: Any, size: Any) -> rc.Sides:
    """E||g^{j,c} - g^{j,c'}|| <= 4 sqrt(zeta) + 2 sqrt(E||w_*^c - w^c||) + 2 sqrt(E||w_*^{c'} -
    w^{c'}||) + 4 sqrt((r_max + R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B)) + 4 L_J R a (t -
    t_0). Here t = t_0, so that the last term is zero.
    """
    return at.synchronised(pair, known, size)


EQ53 = replace(lemma9, id="firm.eq53", source="FIRM, equation (53)", main=False)


@PAPER.upper(
    "lemma9_corrected",
    ref="Lemma 9 and equation (53), corrected",
    uses=["eq47_48_corrected", "eq49_LJ_corrected", "eq52_sharper"],
    tex=r"\sqrt{\mathbb E\|g^{j,c}-g^{j,c'}\|^2}\le b^{j,c}+b^{j,c'}+R\sqrt{2/B}+"
    r"2L_HRa(t-t_0)",
    on=CLIENTS,
    derivation="firm.eq47_48_corrected, firm.eq52_sharper, and that L_H is a Lipschitz constant of "
    "grad H: (1 - gamma)/gamma times that of firm.eq49_LJ_corrected is at most r_max L_psi/(1 - "
    "gamma), and L_psi = C_psi^2/4 for softmax policies with features at most C_psi apart. For "
    "other policies L_psi has to stay: one state, pi(1) = 1/2 + k theta^2/2 on |theta| <= 1/k and "
    "r = (1, 0), where the second derivative of H is k but |psi| <= 2k/(k - 1), see "
    "firm.eq49_LJ_any_policy.",
)
def lemma9_corrected(step: Any, size: Any, L: Any) -> rc.Sides:
    """For B independent restarted transitions: sqrt(E||g^{j,c} - g^{j,c'}||^2) <= b^{j,c} +
    b^{j,c'} + R sqrt(2/B) + 2 L_H R a (t - t_0), L_H = r_max C_psi^2/(4 (1 - gamma)), for softmax
    policies with features at most C_psi apart in a state; b^{j,c} and R as in
    firm.eq47_48_corrected. Here t - t_0 = 1.
    """
    return at.lemma9_corrected(step.now, size, L, step.a)


@PAPER.upper(
    "eq50_52",
    ref="equations (50) to (52)",
    tex=r"\|\theta_t^c-\theta_t^{c'}\|\le4Ra(t-t_0)",
    on=STEPS,
    note="Slips without harm: the sums of (50) and (51) have t - t_0 + 1 terms where t - t_0 "
    "steps were made (at t = t_0 they leave 4 R a of nothing), of which (52) counts t - t_0, and "
    "the triangle inequality in (51) has a factor 2 too many. The formula for theta_t^c above "
    "(50) also lacks the step size.",
)
def eq50_52(g: Any, lam: Any, R: Any, a: Any) -> rc.Sides:
    """||theta_t^c - theta_t^c'|| <= 4 R a (t - t_0)."""
    return at.eq52(g, lam, R, a, 4)


@PAPER.upper(
    "eq52_sharper",
    ref="equation (52), sharpened",
    sharpens="eq50_52",
    tex=r"\|\theta_t^c-\theta_t^{c'}\|\le2Ra(t-t_0)",
    on=STEPS,
    derivation="t - t_0 steps of length at most a R each at both clients; attained by opposite "
    "ones.",
)
def eq52_sharper(g: Any, lam: Any, R: Any, a: Any) -> rc.Sides:
    """||theta_t^c - theta_t^c'|| <= 2 R a (t - t_0)."""
    return at.eq52(g, lam, R, a, 2)
