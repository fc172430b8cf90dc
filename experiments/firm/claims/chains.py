"""FIRM, Appendices C, D and G.2: mixing, critics, what (10) estimates, and how smooth J is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._chains import COIN, LONG, WALKS, inside, processes, tabular
from experiments.firm.paper import PAPER
from experiments.firm.theory import critic_bounds as at, smoothness
from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, norm, squared

LAM = {"lam": rc.simplex("M")}
PLAIN = processes()
TABULAR = replace(tabular(processes(LAM)), credible={"gamma": (0.1, 0.99)})
WEIGHTED_LONG = processes({**LAM, **LONG})
CRITICS = processes({"w": rc.ball("M", "d2"), **LAM})
TWO_POLICIES = processes({"other": rc.reals("S", "A", magnitude=(0.1, 5.0)), **LONG})
#: Where a tabular critic leaves a bias of Lemma 4.
_BIASED = [{**COIN, "gamma": gamma, "lam": [1.0]} for gamma in (0.9, 0.95)]

# Lemma 2.


def _share(chains: Chains) -> Numbers:
    """(1 - gamma) / gamma, by which grad J is to be multiplied to compare it with a direction."""
    return np.asarray((1 - chains.gamma) / chains.gamma)


@PAPER.upper(
    "lemma2",
    ref="Lemma 2",
    tex=r"\sup_s\|P(s_t=\cdot\mid s_0=s)-d_\theta\|_{TV}\le\kappa\rho^t",
    on=PLAIN,
    note="The lemma says that a pair exists; this is one, for all policies at once, where all "
    "rows P(.|s, a) overlap. Read as the l1 norm, TV needs kappa = 2: a distance of almost 2 at t "
    "= 0.",
    derivation="Rows of P_pi average rows P(.|s, a), so one step multiplies the distance of any "
    "two laws by rho or less; at t = 0 it is below one.",
)
def lemma2(chains: Chains, last: int = 5) -> rc.Sides:
    """sup_s ||P(s_t = . | s_0 = s) - d_pi||_TV <= kappa rho^t for t = 0, ..., 5, with kappa = 1 and
    rho = max ||P(.|s, a) - P(.|s', a')||_TV, TV being half the l1 norm.
    """
    times = np.arange(last + 1)
    return chains.distances(last), chains.overlap[:, None] ** times


@PAPER.upper(
    "lemma2_sharper",
    ref="Lemma 2, sharpened",
    tex=r"\kappa=1-\min_sd_\theta(s)",
    on=PLAIN,
    derivation="kappa is the distance at t = 0, and measures of mass zero shrink by rho in a "
    "step. Attained with two states.",
    sharpens="lemma2",
)
def lemma2_sharper(chains: Chains, last: int = 5) -> rc.Sides:
    """Lemma 2 as in firm.lemma2, with kappa = 1 - min_s d_pi(s)."""
    measured, bound = lemma2(chains, last)
    return measured, (1 - chains.stationary.min(axis=1))[:, None] * bound


def _moves(s: Any) -> Any:
    return (s.move > 0) & (s.move < 1)


@PAPER.upper(
    "lemma2_uniform",
    ref="Lemma 2, as Theorem 1 uses it",
    family=[{"move": 0.001, "kappa": 1.0, "rho": 0.99}],
    tex=r"\exists\kappa,\rho\ \forall\theta,t:\ \sup_s\|P(s_t=\cdot\mid s_0=s)-d_\theta\|_{TV}"
    r"\le\kappa\rho^t",
    on=rc.Space(
        fields={
            "move": rc.interval(low=1e-4, high=0.9999),
            "kappa": rc.positive(low=1.0, high=10.0),
            "rho": rc.interval(low=0.9, high=0.99),
        },
        batched=True,
        meaning={"move": "pi(move|s) in both states"},
        credible={"move": (0.001, 0.999)},
        constructed="two states, and actions to stay and to move to the other",
        assumes={"Assumption 1(b): irreducible and aperiodic": _moves},
    ),
    expect="violated",
    note="Every such policy is irreducible and aperiodic, but its distances are |1 - 2 p|^t / 2 "
    "with p = pi(move|s), and p may tend to 0: no rho < 1 is left. An instance refutes one pair, "
    "p to 0 every one. (33) has one rho for all iterates, so that Theorem 1 needs one pair for "
    "all policies, which overlapping rows P(.|s, a) or bounded parameters provide.",
    corrected="lemma2",
    reading_of="lemma2",
    reading="One pair (kappa, rho) for all policies. Lemma 6 and (33) have the same constants at "
    "every iterate, so that this is the form that Theorem 1 uses.",
)
def lemma2_uniform(move: Any, kappa: Any, rho: Any) -> rc.Sides:
    """One pair kappa, rho serves all softmax policies of a process under Assumption 1; here two
    states, the actions stay and move.
    """
    return at.lemma2_uniform(move, kappa, rho, last=128)


# Assumption 2(c) and the critics' ball.


@PAPER.upper(
    "Rw",
    ref="Appendix C and Lemma 3, the radius of H",
    tex=r"\|w^*\|_2\le R_w=2r_{\max}/\lambda_A",
    on=PLAIN,
    note="Twice what is needed. Assumption 2(c) has -2 lambda_A; with -lambda_A, lambda_A is "
    "twice as large and 2 r_max/lambda_A exact.",
)
def Rw(chains: Chains, r_max: rc.Numbers, factor: int = 2) -> rc.Sides:
    """||w_*|| <= R_w = 2 r_max / lambda_A, lambda_A the largest of Assumption 2(c)."""
    return norm(chains.w_star), (factor * r_max / chains.lambda_A)[:, None]


@PAPER.upper(
    "Rw_sharper",
    ref="Appendix C, the radius of H, sharpened",
    tex=r"\|w^*\|_2\le r_{\max}/\lambda_A",
    on=PLAIN,
    derivation="lambda_A ||w_*||^2 <= -w_*'A w_* = w_*'E[r phi] <= r_max ||w_*||. Attained: phi = "
    "1 and r = r_max. (r_max + 2 R_w)^2 in (17) and (33) becomes up to four times smaller.",
    sharpens="Rw",
)
def Rw_sharper(chains: Any, r_max: Any) -> rc.Sides:
    """||w_*|| <= r_max / lambda_A."""
    return Rw(chains, r_max, 1)


# What the stochastic gradients estimate.


@PAPER.identity(
    "eq10",
    ref="equations (10) and (16)",
    tex=r"\mathbb E\,g=\Delta(\theta,w)",
    on=CRITICS,
    note="Appendix F.1.1 defines Delta with nu, 'the state-action visitation distribution'. For "
    "the undiscounted one, d_pi times pi, the statement is true and read so here; for the "
    "discounted one it is false, as batches of one long trajectory have s ~ d_pi.",
)
def eq10(instance: Any) -> rc.Sides:
    """E g = Delta(theta, w) for batches of 1 to 4 consecutive transitions that start with s_0 ~
    d_pi, Delta with s ~ d_pi; the field ``start`` plays no part.
    """
    return at.eq10(instance.chains, inside(instance), instance.lam, instance.chains.stationary)


@PAPER.identity(
    "eq10_start",
    ref="equations (10) and (16), s_0 of any law",
    tex=r"\mathbb E\,g=\Delta(\theta,w)",
    on=CRITICS,
    expect="violated",
    note="The chain goes on from the state in which the critic's batch has ended, whose law "
    "given F_t is not d_pi but at best near it. Two states, all transitions 1/2, r = 1 for the "
    "first action, a tabular critic, pi = 1/2, B = 1 and s_0 = 1: E g = (1/4, -1/4, 0, 0) "
    "against Delta = (1/8, -1/8, 1/8, -1/8). So E[Z_c | F_t] in (16) is not zero, and a bias of "
    "order 1/B joins (17); its square, of order 1/B^2, need not fall with C.",
    corrected="eq10_corrected",
    reading_of="eq10",
    reading="Batches that begin where Algorithms 2 and 3 let them begin, in the last state of "
    "the critic's batch, whose law given F_t is not d_pi; (16) takes the mean to be Delta there.",
)
def eq10_start(instance: Any) -> rc.Sides:
    """E g = Delta(theta, w) for batches of 1 to 4 consecutive transitions, Delta with s ~ d_pi,
    where s_0 has another law.
    """
    return at.eq10(instance.chains, inside(instance), instance.lam, instance.chains.start)


@PAPER.upper(
    "eq10_corrected",
    ref="equations (10) and (16), corrected",
    tex=r"\|\mathbb E\,g-\Delta(\theta,w)\|\le\frac{2R(1-\rho^B)}{B(1-\rho)}",
    on=CRITICS,
    derivation="Of the l-th transition, the mean moves by at most TV(law of s_l, d_pi) <= rho^l "
    "times the diameter 2 R of the values of E[Z | s]; average over l < B.",
)
def eq10_corrected(instance: Any) -> rc.Sides:
    """||E g - Delta(theta, w)|| <= 2 R (1 - rho^B) / (B (1 - rho)) for batches of B = 1, ..., 4
    consecutive transitions and s_0 of any law, R that of Lemma 7, kappa = 1.
    """
    return at.eq10_corrected(
        instance.chains, instance.r_max, inside(instance), instance.lam, instance.chains.start
    )


@PAPER.upper(
    "lemma4",
    ref="Lemma 4",
    family=_BIASED,
    tex=r"\mathbb E[\mathcal T_{1,1,3}\mid\mathcal F_t]\le12\,\zeta_{\rm approx}",
    on=TABULAR,
    expect="violated",
    main=True,
    note="Delta(w_*) is near Delta(V), which is not grad J: it is (1-gamma)/gamma times the "
    "gradient for mu_0 = d_pi held fixed. Two states, all transitions 1/2, r = 1 for the first "
    "action, pi = 1/2, gamma = 0.9: V = 5 in both states, so that r + gamma V' - V is 1/2 for the "
    "first action and -1/2 for the second, Delta = (1/8, -1/8, 1/8, -1/8) and grad J = 9 Delta: 3 "
    "64 ||Delta||^2 = 12 against 0. The paper leaves open which policies and which law zeta is "
    "for; with one feature a state it is zero for all of them. Theorem 1 keeps a bias that neither "
    "better critics nor B, C or alpha reduce; (35) lacks it. No law of s serves both: (16) needs "
    "d_pi, this lemma nu.",
    corrected="lemma4_corrected",
)
def lemma4(chains: Any, lam: Any) -> rc.Sides:
    """3||(Delta(theta, w_*) - grad J) lambda||^2 <= 12 zeta, with s ~ d_pi in Delta, as (10) has
    it, and in zeta = max_j E(V^j - phi'w_*^j)^2. Clients with one policy, and critics with one
    feature for each state, so that zeta = 0.
    """
    return at.lemma4(chains, lam, chains.stationary)


@PAPER.upper(
    "lemma4_visitation",
    ref="Lemma 4, s of the discounted visitation law",
    family=_BIASED,
    tex=r"\mathbb E[\mathcal T_{1,1,3}\mid\mathcal F_t]\le12\,\zeta_{\rm approx}",
    on=TABULAR,
    expect="violated",
    note="Delta(V) has the direction of grad J now but (1-gamma)/gamma times its length, J being "
    "a sum from t = 1. The counterexample of Lemma 4 has nu = d_pi and serves here too.",
    corrected="lemma4_corrected",
    reading_of="lemma4",
    reading="Appendix F calls nu 'the state-action visitation distribution', which for a "
    "discounted return may be the discounted one.",
)
def lemma4_visitation(chains: Any, lam: Any) -> rc.Sides:
    """3||(Delta(theta, w_*) - grad J) lambda||^2 <= 12 zeta, zeta = max_j E(V^j - phi'w_*^j)^2,
    with s ~ nu = (1-gamma) sum_t gamma^t P(s_t = .) in Delta and in zeta. Clients and critics as in
    firm.lemma4.
    """
    return at.lemma4(chains, lam, chains.occupancy)


@PAPER.upper(
    "lemma4_corrected",
    ref="Lemma 4, corrected",
    tex=r"3\|(\Delta(w^*)-\tfrac{1-\gamma}\gamma\nabla J)\lambda\|^2\le3\gamma C_\psi^2"
    r"\zeta_{\rm approx}",
    on=WEIGHTED_LONG,
    derivation="Delta(V) = ((1-gamma)/gamma) grad J. With e = phi'w_* - V, Delta(w_*) - Delta(V) "
    "= E psi (gamma e(s') - e(s)) = gamma E psi e(s'), as E[psi | s] = 0. gamma E e(s')^2 <= "
    "zeta, as nu = (1-gamma) mu_0 + gamma nu P. So (10) must be sampled with restarts, and alpha "
    "scaled.",
)
def lemma4_corrected(chains: Chains, lam: Numbers) -> rc.Sides:
    """3||(Delta(theta, w_*) - ((1-gamma)/gamma) grad J) lambda||^2 <= 3 gamma C_psi^2 zeta, zeta =
    max_j E(V^j - phi'w_*^j)^2, with s ~ nu in Delta and in zeta.
    """
    nu = chains.occupancy
    target = _share(chains)[:, None, None] * chains.jac
    gap = chains.direction(chains.values(chains.w_star), nu) - target
    bound = 3 * chains.gamma * chains.C_psi**2 * at.zeta(chains, nu)
    return 3 * squared(at.weighed(gap, lam)), bound


@PAPER.upper(
    "lemma4_stationary",
    ref="Lemma 4, corrected for (10)",
    printed_as="ours",
    tex=r"\|(\Delta(w^*)-\tfrac{1-\gamma}\gamma\nabla J)\lambda\|\le\gamma C_\psi"
    r"\sqrt{\zeta_{\rm approx}}+\frac{C_\psi r_{\max}\kappa}{1-\gamma\rho}",
    on=WEIGHTED_LONG,
    derivation="E e(s')^2 = zeta under d_pi. TV(nu, d_pi) <= (1-gamma) sum gamma^t kappa rho^t, "
    "and E[psi A | s] has at most the length C_psi r_max / (2 (1-gamma)), a standard deviation "
    "being at most half a range; 2 TV times it is the second term, which no critic reduces.",
)
def lemma4_stationary(chains: Chains, r_max: Numbers, lam: Numbers) -> rc.Sides:
    """||(Delta(theta, w_*) - ((1-gamma)/gamma) grad J) lambda|| <= gamma C_psi sqrt(zeta) + C_psi
    r_max kappa / (1 - gamma rho), with s ~ d_pi in Delta and in zeta, kappa = 1.
    """
    target = _share(chains)[:, None, None] * chains.jac
    gap = chains.direction(chains.values(chains.w_star)) - target
    approximation = chains.gamma * np.sqrt(at.zeta(chains, chains.stationary))
    elsewhere = r_max / (1 - chains.gamma * chains.overlap)
    return norm(at.weighed(gap, lam)), chains.C_psi * (approximation + elsewhere)


# Smoothness.


def _on_walks(constant: Any, chains: Any, there: Any, x: Any, gap: Any, c: Any) -> rc.Sides:
    return smoothness.eq49_shared(chains, there, x, gap, constant(chains, 1 + 0 * c, c))


def _on_processes(constant: Any, chains: Any, there: Any, r_max: Any) -> rc.Sides:
    return smoothness.eq49(chains, there, constant(chains, r_max, chains.C_psi))


_PRINTED_L = r"L_J=\frac{r_{\max}}{1-\gamma}(4C_\nu C_\psi+L_\psi),\ "


@PAPER.upper(
    "eq49_LJ",
    ref="below equation (49)",
    family=[
        {
            "r": [1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            "x": np.ones(6),
            "start": np.eye(6)[4],
            "horizon": 100.0,
            "memory": 100.0,
            "c": 1e4,
            "logit": 0.0,
            "other": 0.1,
        }
    ],
    tex=_PRINTED_L + r"C_\nu=\tfrac12C_\pi(1+\lceil\log_\rho\kappa^{-1}\rceil)+(1-\rho)^{-1}",
    on=WALKS,
    expect="violated",
    note="TV is half the l1 norm here: kappa = 1 and C_pi = C_psi/4, with L_psi = C_psi^2/4. In "
    "the l1 norm C_pi is twice as large and kappa >= 2 (1 - 1/S) >= 4/3, so that with the same "
    "rho the ceiling makes the constant large enough on walks. "
    "A second derivative grows fourfold where features double; 4 C_psi/(1-rho) only doubles. "
    "The cited Proposition 1 has C_pi/2 before 1/(1-rho) as well, and normalises J by 1 - gamma, "
    "for which even the printed constant is enough (firm.eq49_LJ_normalised). Six places, r = 1 "
    "at both ends, restarts at the fifth, gamma = rho = 0.99, x = 1, c = 1e4, parameters 0 and "
    "1e-5: slopes of J differ by 89404, the bound is 79000. Theorem 1 has L_J without its value, "
    "so its rates stay; a step size below 1/L_J as printed may be too long for (5).",
    corrected="eq49_LJ_corrected",
    printed_as="proof step",
)
def eq49_LJ(chains: Any, there: Any, x: Any, gap: Any, c: Any) -> rc.Sides:
    """||grad J - grad J'|| <= L_J ||theta - theta'||, L_J = r_max/(1-gamma) (4 C_nu C_psi + L_psi),
    C_nu = (C_pi/2)(1 + ceil(log_rho 1/kappa)) + 1/(1-rho), kappa = 1; walks with one parameter.
    """
    return _on_walks(smoothness.printed_smoothness, chains, there, x, gap, c)


@PAPER.upper(
    "eq49_LJ_one_hot",
    ref="below equation (49), one parameter per pair",
    printed_as="ours",
    tex=_PRINTED_L + r"C_\nu=\tfrac12C_\pi+(1-\rho)^{-1}",
    on=TWO_POLICIES,
    note="The fault of the constant does not show on so few states. It follows from "
    "firm.eq49_LJ_corrected for gamma <= 3/4, as gamma L_psi/(1 - gamma rho) is then at most 3 "
    "L_psi = 2 C_pi C_psi + L_psi, and for two states, whose two rho are equal, if C_psi <= 16, as "
    "it is at most L_psi/(1 - rho) <= 4 C_psi/(1 - rho). Elsewhere it was searched only.",
)
def eq49_LJ_one_hot(chains: Any, there: Any, r_max: Any) -> rc.Sides:
    """The printed constant L_J, as in firm.eq49_LJ, for policies with one parameter per state and
    action, of S = 2 or 3 states.
    """
    return _on_processes(smoothness.printed_smoothness, chains, there, r_max)


@PAPER.upper(
    "eq49_LJ_normalised",
    ref="below equation (49), for H = (1-gamma) J / gamma",
    tex=r"\|\nabla H-\nabla H'\|\le L_J\|\theta-\theta'\|,\ "
    + _PRINTED_L
    + r"C_\nu=\tfrac12C_\pi+(1-\rho)^{-1}",
    on=WALKS,
    derivation="(1 - gamma)/gamma times the constant of firm.eq49_LJ_corrected is r_max L_psi/(1 - "
    "gamma rho) <= r_max L_psi/(1 - gamma), the last summand of the printed constant, for every "
    "policy.",
    uses=["eq49_LJ_corrected"],
    printed_as="ours",
)
def eq49_LJ_normalised(chains: Chains, there: Any, x: Any, gap: Any, c: Any) -> rc.Sides:
    """The printed constant is one for the gradient of H = (1 - gamma) J / gamma; walks with one
    parameter.
    """
    measured, bound = _on_walks(smoothness.printed_smoothness, chains, there, x, gap, c)
    return _share(chains)[:, None] * measured, bound


@PAPER.upper(
    "eq49_LJ_xu",
    ref="below equation (49), with the cited constant",
    tex=_PRINTED_L + r"C_\nu=\tfrac12C_\pi(1+\lceil\log_\rho\kappa^{-1}\rceil+(1-\rho)^{-1})",
    on=WALKS,
    derivation="Implied by firm.eq49_LJ_corrected for softmax policies, C_pi = C_psi/4 and L_psi "
    "= C_psi^2/4, where rho = 1 - sum_s' min P(s'|s, a), as for walks: r_max C_psi^2/(1-gamma) "
    "(3/4 + 1/(2(1-rho))) is more than twice that. For two-row overlaps alone no proof is known "
    "here.",
    uses=["eq49_LJ_corrected"],
    printed_as="ours",
)
def eq49_LJ_xu(chains: Any, there: Any, x: Any, gap: Any, c: Any) -> rc.Sides:
    """||grad J - grad J'|| <= L_J ||theta - theta'||, L_J = r_max/(1-gamma) (4 C_nu C_psi + L_psi)
    with the cited C_nu = (C_pi/2)(1 + ceil(log_rho 1/kappa) + 1/(1-rho)), kappa = 1; walks under
    softmax policies.
    """
    return _on_walks(smoothness.cited_smoothness, chains, there, x, gap, c)


@PAPER.upper(
    "eq49_LJ_corrected",
    ref="below equation (49), corrected",
    tex=r"L_J=\frac{\gamma r_{\max}L_\psi}{(1-\gamma)(1-\gamma\rho)}",
    on=TWO_POLICIES,
    note="For softmax policies with features at most C_psi apart in a state L_psi = C_psi^2/4. For "
    "others no multiple of C_psi^2 will do (firm.eq49_LJ_any_policy). The rho is not that of Lemma "
    "2 but the larger one of a common part of all rows, so that one rho serves all policies.",
    derivation="u'(grad^2 J)u = gamma E sum_t gamma^t r_t (m_t^2 + h_t), m_t the sum of the scores "
    "u'psi up to t and h_t that of u'(grad^2 log pi)u. With probability 1-rho a step forgets: what "
    "lies before the last such step adds zero given what follows, so m_t and h_t count since then "
    "only, sum_{k<=t} rho^k terms in the mean. X = m_t^2 + h_t has mean zero, hence |E r X| <= "
    "r_max E X^- <= r_max E h_t^- <= r_max L_psi sum_{k<=t} rho^k.",
)
def eq49_LJ_corrected(chains: Any, there: Any, r_max: Any) -> rc.Sides:
    """||grad J - grad J'|| <= L_J ||theta - theta'|| with L_J = gamma r_max L_psi / ((1-gamma)
    (1-gamma rho)), L_psi the Lipschitz constant of the scores psi and rho = 1 - sum_s' min_{s,a}
    P(s'|s, a) <= 1; here softmax policies with one parameter per pair and L_psi = C_psi^2 / 4.
    """
    return _on_processes(smoothness.smoothness, chains, there, r_max)


@PAPER.upper(
    "eq49_LJ_corrected_walks",
    ref="below equation (49), corrected, on walks",
    tex=eq49_LJ_corrected.latex,
    on=WALKS,
    derivation=eq49_LJ_corrected.derivation,
    printed_as="ours",
)
def eq49_LJ_corrected_walks(chains: Any, there: Any, x: Any, gap: Any, c: Any) -> rc.Sides:
    """The constant of firm.eq49_LJ_corrected on walks under softmax policies with one parameter for
    all states.
    """
    return _on_walks(smoothness.smoothness, chains, there, x, gap, c)


@PAPER.upper(
    "eq49_LJ_any_policy",
    ref="below equation (49), corrected, where policies are no softmax",
    tex=eq49_LJ_corrected.latex,
    on=rc.Space(
        fields={
            "k": rc.positive(low=2.0, high=1000.0),
            "here": rc.interval(low=-1.0, high=1.0),
            "there": rc.interval(low=-1.0, high=1.0),
            "gamma": rc.interval(low=0.05, high=0.99),
            "r_max": rc.positive(),
        },
        batched=True,
        meaning={"here": "the first parameter times k", "there": "the second parameter times k"},
        constructed="one state, two actions, r = (r_max, 0), and the policy pi(1) = 1/2 + k "
        "theta^2/2 on |theta| <= 1/k",
    ),
    derivation="firm.eq49_LJ_corrected with rho = 0. L_psi is at least 2 k, the second derivative "
    "of log pi(1) at 0, and |psi| <= 2 k/(k - 1) <= 4: C_psi^2/4 in the place of L_psi would be at "
    "most 4, where the second derivative of J is gamma r_max k/(1-gamma).",
    uses=["eq49_LJ_corrected"],
    printed_as="ours",
)
def eq49_LJ_any_policy(k: Any, here: Any, there: Any, gamma: Any, r_max: Any) -> rc.Sides:
    """The constant of firm.eq49_LJ_corrected for policies whose scores are at most 4 long and turn
    at any speed.
    """
    top = gamma * r_max / (1 - gamma)
    # grad J = top k theta, and L_psi >= 2 k
    return top * np.abs(here - there), top * 2 * k * np.abs(here - there) / k
