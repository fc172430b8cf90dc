"""FIRM, Appendix F: the sums of error terms, (17), (25), (27), (33), and the theorem they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._chains import COIN, processes, tabular
from experiments.firm.claims._periods import (
    CREDIBLE,
    SHORT,
    of_every_policy,
    period,
    printed_tabular,
)
from experiments.firm.claims.descent import SYNCHRONISED
from experiments.firm.claims.telescoping import INSIDE
from experiments.firm.paper import PAPER
from experiments.firm.theory import assembly
from experiments.firm.theory.client_gradients import Estimate, Printed, first_terms
from experiments.firm.theory.descent import Round
from linsys.linalg import Numbers, norm

# The gradient error, (17).


@PAPER.upper(
    "eq17",
    ref="equation (17)",
    family=[
        {
            **COIN,
            "scale": 0.7,
            "w": np.zeros((1, 2)),
            "share": 1e-6,
            "doublings": 20,
            "lam": [1.0],
            "clients": 8,
        }
    ],
    printed_as="proof step",
    uses=["eq15", "eq16", "lemma4", "lemma5", "lemma6"],
    tex=r"\mathbb E[\mathcal T^{\rm gradient-error}_{1,1}]\le12\zeta+\frac{12}C"
    r"\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}+\frac{12}C\sum_c\max_j"
    r"\mathbb E\|w_*^{j,c}-w^{j,c}\|^2",
    on=printed_tabular({"lam": rc.simplex("M"), "clients": rc.whole_numbers(low=1, high=8)}),
    expect="violated",
    note="Lemma 4 is false: w = w_* and B to infinity leave ||sum_j lambda^j (Delta^j - grad "
    "J^j)||^2, which nothing on the right covers, as zeta = 0: Delta lacks the factor gamma/(1 - "
    "gamma) of grad J and averages over d_pi, not over the discounted occupancy. C_psi <= 1 is "
    "assumed silently. And (16) needs lambda_t to be known before step t, while F.1.2 and Lemma 10 "
    "take the clients' average, which is made of the gradients of step t: then all M noises have "
    "to be bounded at once, a factor M of the term in 1/(C B), see firm.eq16_corrected. As it "
    "stands the left side of Theorem 1 has an error that neither B nor features remove.",
    corrected="eq17_corrected",
    main=True,
)
def eq17(at: Estimate, lam: Numbers, known: Printed, clients: Numbers, size: Numbers) -> rc.Sides:
    """E||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j)||^2 <= 12 zeta + (12/C) (r_max + 2
    R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B) + (12/C) sum_c max_j E||w_* - w||^2. Clients
    with one policy and one critic, which has one feature for each state, so that zeta = 0;
    lambda_t known before the step, independent states of d_pi, C_psi < 1.
    """
    measured = assembly.gradient_error(at, lam, at.chains.jac, clients, size)
    return measured, assembly.errors(at, known, clients, size)


@PAPER.upper(
    "eq17_corrected",
    ref="equation (17), corrected",
    uses=["restarted_bias"],
    tex=r"\mathbb E[\mathcal T^{\rm gradient-error}_{1,1}]\le C_\psi^2\gamma\Big(\frac1C\sum_c"
    r"\max_j\big(\sqrt{\zeta^{j,c}}+\|w_*^{j,c}-w^{j,c}\|\big)\Big)^2+\frac{R^2}{CB}",
    on=period({"doublings": rc.whole_numbers(low=0, high=20)}, clients=(1, 3)),
    derivation="Bias and noise are orthogonal. The bias is the clients' mean of sum_j lambda_t^j "
    "(E g^{j,c} - grad H^j(theta^c)), each no longer than in firm.restarted_bias. Clients are "
    "independent, and each one's variance is at most R^2/B. With lambda_t the clients' average "
    "noise and bias may be parallel: twice both, and M R^2/(C B).",
)
def eq17_corrected(step: assembly.SecondStep, lam: Numbers, size: Numbers) -> rc.Sides:
    """For B independent restarted transitions and H = (1 - gamma) J/gamma: E||(1/C) sum_c sum_j
    lambda_t^j (g^{j,c} - grad H^j(theta^c))||^2 <= C_psi^2 gamma ((1/C) sum_c max_j
    (sqrt(zeta^{j,c}) + ||w_*^{j,c} - w^{j,c}||))^2 + R^2/(C B), R = C_psi (r_max + (1 + gamma)
    R_w), zeta under nu. Each client has a policy and critics of its own; lambda_t is known before
    the step.
    """
    bias = sum(at.bias.max(axis=-1) for at in step.now) / step.clients
    noise = step.now[0].limit ** 2 / (step.clients * size)
    return assembly.restarted_error(step.now, lam, size), bias**2 + noise


# (25), (27) and (33).


@PAPER.upper(
    "eq25",
    ref="equation (25)",
    printed_as="proof step",
    uses=["eq14", "eq17", "eq24"],
    tex=r"\mathbb E[\mathcal T_{1,1}]\le12\zeta+\frac{12}C\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa"
    r"\rho)}{(1-\rho)B}+\frac{12}C\sum_c\max_j\mathbb E\|w_*^{j,c}-w^{j,c}\|^2+"
    r"\mathcal E_{\rm MGDA}(t)",
    on=printed_tabular(
        {
            "clients": rc.whole_numbers(low=1, high=8),
            "beta": rc.positive(low=1e-3, high=1e3),
            "a": rc.positive(low=1e-9, high=1.0),
        },
        M=(1, 1),
    ),
    expect="violated",
    note="(17) is false, and with B to infinity and a to zero (24) adds nothing. The factor 2 of "
    "(14) is missing too.",
    corrected="eq33_corrected",
)
def eq25(at: Any, known: Any, clients: Any, size: Any, beta: Any, a: Any) -> rc.Sides:
    """E T_{1,1} <= (17) + (24). Here for M = 1, where lambda = 1 and nothing disagrees, K = 1, and
    clients and critics as in firm.eq17.
    """
    measured = assembly.gradient_error(at, 1 + 0 * at.distance, at.chains.jac, clients, size)
    critic = at.distance.max(axis=-1)
    gap = first_terms(known, size, critic) + 4 * known.L_J * known.R * (a / known.L_J)
    errors = assembly.errors(at, known, clients, size)
    return measured, errors + 8 * known.R**3 / beta * gap


def _bounded(s: Any) -> Any:
    """Exact gradients at the clients' policies are no longer than R."""
    return norm(s.step.local).max(axis=(1, 2)) <= s.R


@PAPER.upper(
    "eq27",
    ref="equation (27)",
    printed_as="misprint",
    uses=["eq13", "eq25", "eq26"],
    tex=r"\mathcal T_1\le\mathcal Q_t=\ldots+4L_JR^2\alpha^2K^2",
    on=replace(SYNCHRONISED, given={"gradients of length at most R": _bounded}),
    expect="violated",
    note="(26) and (33) have L_J^2. By (26)'s own fourfold slack the term is too small from L_J = "
    "4 on, and the units are wrong. The sum of (25) and (26) also lacks the factors 2 of (13) and "
    "(14): with them the gradient error and the disagreement count 4 times, the drift twice.",
    corrected="eq33_corrected",
)
def eq27(
    step: Round, a: rc.Numbers, L: rc.Numbers, R: rc.Numbers, K: int, power: int = 1
) -> rc.Sides:
    """T_1 <= Q_t, the last term of which is 4 L_J R^2 a^2 K^2. Here with exact gradients and one
    lambda at step t, where all other terms of Q_t vanish as B and beta grow.
    """
    lam = step.common[:, None] + 0 * step.lam
    exact = replace(step, g=step.local, lam=lam)
    return exact.error, 4 * L**power * (R * a * K) ** 2


@PAPER.upper(
    "eq27_squared",
    ref="equation (27) with L_J^2",
    printed_as="ours",
    tex=r"\mathcal T_1\le\mathcal Q_t=\ldots+4L_J^2R^2\alpha^2K^2",
    on=eq27.space,
    derivation="firm.eq26_sharper.",
)
def eq27_squared(step: Any, a: Any, L: Any, R: Any, K: Any) -> rc.Sides:
    """T_1 <= Q_t of (27) with the last term 4 L_J^2 R^2 a^2 K^2, in the case of firm.eq27."""
    return eq27(step, a, L, R, K, 2)


def _random_critics(**arrays: Any) -> Any:
    """Clients at one policy whose critics are random points of H."""
    s = _PROCESSES.view(**arrays)
    s.known = of_every_policy(Printed.of([s.chains], s.r_max), s.chains)
    s.critics = s.known.R_w[:, None, None, None, None] * s.critics
    distance = norm(s.critics - s.chains.w_star[:, None, None])
    s.first, s.second = ((s.odds[..., None] * distance**k).sum(axis=2) for k in (1, 2))
    s.a, s.omega = s.a / s.known.L_J, 1 - (1 - s.eta).prod(axis=1)
    return s


def _critics_in_H(s: Any) -> Any:
    # the domain's own rounding of vectors onto the sphere
    inside = s.known.R_w[:, None, None, None] * (1 + 1e-12)
    return (norm(s.critics) <= inside).all(axis=(1, 2, 3))


def _fixed_points_in_H(s: Any) -> Any:
    return (norm(s.chains.w_star) <= s.known.R_w[:, None]).all(axis=1)


_PROCESSES = tabular(
    processes(
        {
            "scale": SHORT,
            "critics": rc.ball("C", "N", "M", "S"),
            "odds": rc.simplex("C", "N"),
            "beta": rc.positive(low=1e-3, high=1e3),
            "a": rc.positive(low=1e-6, high=1.0),
            "K": rc.whole_numbers(low=1, high=10),
            "doublings": rc.whole_numbers(low=0, high=20),
            "eta": rc.interval("T", low=0.01, high=0.99),
        },
        {"C": (1, 2), "N": (1, 2), "T": (1, 3)},
    )
)
CRITICS = replace(
    _PROCESSES,
    view=_random_critics,
    credible=CREDIBLE,
    assumes={
        **_PROCESSES.assumes,
        **INSIDE,
        "alpha <= 1/L_J": lambda s: s.a * s.known.L_J <= 1 + 1e-12,
        "Appendix C: critics in H": _critics_in_H,
        "Appendix D: ||w_*|| <= R_w": _fixed_points_in_H,
    },
    meaning={
        **_PROCESSES.meaning,
        "critics": "the N outcomes of each client's critics' weights over R_w",
        "odds": "probabilities of these outcomes",
        "doublings": "a batch has 2^doublings transitions",
        "a": "the step size times L_J",
        "eta": "eta_1, ..., eta_t",
    },
)


@PAPER.upper(
    "eq33",
    ref="equation (33)",
    printed_as="proof step",
    uses=["eq24", "eq27"],
    tex=r"\mathcal Q_t\le\frac{8R^3\sqrt{M^3}}\beta\Big[4\sqrt\zeta+4\sqrt\varepsilon+4\sqrt{"
    r"\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}}+4L_JR\alpha K\Big]+\frac{12}C"
    r"\Big[\tfrac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}\Big]+12\varepsilon+12\zeta+"
    r"4L_J^2R^2\alpha^2K^2",
    on=CRITICS,
    expect="violated",
    note="12 eps_critic replaces 12 E||w_* - w||^2, of which a bound on the first moment says "
    "nothing: zero rewards, w_* = 0 and critics with ||w|| = R_w = 100 have 120000 against 1200, "
    "and where the weights of (24) sum to one all other terms are the same on both sides. "
    "Otherwise the substitution is sound: these weights eta_i prod (1 - eta_k) sum to 1 - prod (1 "
    "- eta_k) <= 1, and t - t_0 <= K. (27) is read with the L_J^2 of (26) and (33), see firm.eq27.",
    corrected="eq33_corrected",
)
def eq33(
    known: Any,
    doublings: Any,
    beta: Any,
    a: Any,
    K: Any,
    first: Any,
    second: Any,
    omega: Any,
) -> rc.Sides:
    """Q_t of (27) with (24) and L_J^2 is at most (33), where eps_critic bounds E||w_* - w||. Here
    clients have one policy, critics one feature for each state, so that zeta = 0, and the same
    errors at every step.
    """
    _, clients, M = first.shape
    size, eps = 2**doublings, first.max(axis=(1, 2))
    gap = first_terms(known, size, eps) + 4 * known.L_J * known.R * a * K
    share = 8 * known.R**3 * np.sqrt(M**3 + 0 * beta) / beta
    rest = 12 * known.zeta + 12 * known.noise(size) / clients
    rest = rest + 4 * (known.L_J * known.R * a * K) ** 2
    stated = rest + 12 * second.max(axis=-1).sum(axis=-1) / clients + share * omega * gap
    return stated, rest + 12 * eps + share * gap


@PAPER.upper(
    "eq33_corrected",
    ref="equations (25), (27) and (33), corrected",
    uses=[
        "eq16_corrected",
        "restarted_bias",
        "eq24_present",
        "drift_of_pairs",
        "lemma9_corrected",
        "eq26_sharper",
    ],
    tex=r"\mathbb E[\mathcal T_1|\mathcal F_t]\le4\Big\{\tfrac{MR^2}{CB}+b^2+(1-\tfrac1C)\min"
    r"\big[\tfrac{4R^3M}\beta\big(R\sqrt{\tfrac{2M}B}+2b+2L_HR\alpha s\big),(1-\tfrac1C)M\big("
    r"\tfrac{R^2}B+2(b+L_HR\alpha s)^2\big)\big]+(L_HR\alpha s)^2\Big\}",
    on=period({}, clients=(1, 2)),
    derivation="gbar - grad H(thetabar) lambda_t is a sum of four vectors. Noise, weighed with "
    "lambda_t: firm.eq16_corrected, each variance at most R^2/B. Bias: firm.restarted_bias. "
    "Disagreement: firm.eq24_present, or firm.drift_of_pairs, with the second moments of "
    "firm.lemma9_corrected. Drift: firm.eq26_sharper. The second entry of the minimum needs no "
    "beta: the theorem holds for beta = 0, with 1/B and not 1/sqrt(B), and without the product a "
    "K/(beta sqrt B).",
)
def eq33_corrected(step: assembly.SecondStep) -> rc.Sides:
    """For softmax policies with features at most C_psi apart in a state, independent restarted
    transitions, H = (1 - gamma) J/gamma, L_H = r_max C_psi^2/(4 (1 - gamma)), R = C_psi (r_max + (1
    + gamma) R_w) and lambda_t the clients' average: E[T_1 | F_t] <= 4 {M R^2/(C B) + b^2 + (1 -
    1/C) min[(4 R^3 M/beta) (R sqrt(2 M/B) + 2 b + 2 L_H R a s), (1 - 1/C) M (R^2/B + 2 (b + L_H R a
    s)^2)] + (L_H R a s)^2}, b = C_psi sqrt(gamma) max (sqrt(zeta) + ||w_* - w||), s = t - t_0 <= K
    - 1. Here B = s = 1.
    """
    return step.error, step.bound(step.now, 1)


@PAPER.upper(
    "eq32_33_corrected",
    ref="Theorem 1 in its explicit form, (32) with (33), corrected",
    printed_as="ours",
    uses=["eq32_corrected", "eq33_corrected"],
    tex=r"\frac1T\sum_t\mathbb E\|\nabla H(\bar\theta_t)\lambda_t\|^2\le\frac{2r_{\max}}{T\alpha}"
    r"\Big(1+\sum_{t=2}^T\eta_t\Big)+\mathcal Q",
    on=period({}, clients=(1, 2)),
    derivation="firm.eq32_corrected for H, which is in [0, r_max], and firm.eq33_corrected. Any "
    "beta, also 0, gives log T/(a T) + M/B + M (zeta + eps) + M a^2 K^2, eps the critics' mean "
    "square error: no product a K/(beta sqrt B), and 1/(C B) only for the noise of the gradients. "
    "Runs of two steps with all their outcomes are among the tests.",
)
def eq32_33_corrected(step: assembly.SecondStep) -> rc.Sides:
    """For softmax policies with features at most C_psi apart in a state, independent restarted
    transitions, H = (1 - gamma) J/gamma, lambda_t the clients' average of weights that follow (11)
    with steps eta_t from one lambda_0, and a <= 1/L_H: (1/T) sum E||grad H(thetabar_t) lambda_t||^2
    <= (2 r_max/(T a)) (1 + sum_{t=2}^T eta_t) + Q, Q that of firm.eq33_corrected. Here T = B = 1.
    """
    return step.stationarity, 2 * step.r_max / step.a + step.bound(step.before, 0)
