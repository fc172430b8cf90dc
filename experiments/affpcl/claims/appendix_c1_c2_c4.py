"""AffPCL, Appendix C.1 (Algorithm 1 and its costs), C.2 and C.4 (linear parametrisation)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import systems
from experiments.affpcl.claims._values import (
    EVERYWHERE,
    ITERATES,
    SAMPLE,
    everywhere,
    states,
    valued,
)
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import correction as go, parametrization as at, rounds
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import solve

ROUND = systems({**ITERATES, **SAMPLE})
#: The same with states of q numbers each.
RAW_STATES = systems({**ITERATES, **SAMPLE, "state": rc.reals("S", "q")}, {"q": (1, 8)})


def mixtures(*, base: Any, weights: Any, scale: Any) -> FiniteStack:
    """Environments whose ratios are linear in psi, and nothing else: A = Phi = 1, theta = 1."""
    mu, psi = at.ratio_basis(base, weights)
    one = 1 + 0 * mu
    return FiniteStack(
        mu=mu,
        A=one[:, 0, :, None, None],
        Phi=one[:, 0, :, None, None],
        theta=one[:, :, :1],
        psi=psi * scale[:, None],
        weights=weights / scale[:, None],
    )


MIXTURES = rc.Space(
    fields={
        "base": rc.simplex("q", "S"),
        "weights": rc.simplex("n", "q"),
        "scale": rc.positive("q"),
    },
    sizes={"n": (1, 4), "q": (1, 3), "S": (1, 5)},
    view=mixtures,
    batched=True,
    meaning={
        "base": "distributions p_k; mu^i is their mixture with the weights of agent i",
        "weights": "agent i's weights of the p_k",
        "scale": "psi_k(s) = scale_k p_k(s) / mu^0(s)",
    },
)


# Appendix C.1.


def one_hot_objectives(mu: rc.Numbers, b: rc.Numbers) -> tuple[rc.Numbers, rc.Numbers, rc.Numbers]:
    """(Phi, theta, e_s x b^i(s)) of Appendix C.2 for objectives of any values.

    Args:
        mu: shape (B, n, S).
        b: b^i(s), shape (B, n, S, d).

    Returns:
        Phi(s) = (e_s e_s') x I_d, shape (B, S, dS, dS); theta^i = (b^i(s))_s, shape (B, n, dS); the
        objectives in their new place, shape (B, n, S, dS).
    """
    B, n, S, d = b.shape
    hot = np.eye(S, dtype=int)
    blocks = np.einsum("sa,sb,ij->saibj", hot, hot, np.eye(d, dtype=int)).reshape(S, d * S, d * S)
    # as numbers of the objectives' kind
    Phi = blocks + 0 * mu[:, 0, :, None, None]
    placed = (hot[:, :, None] * b[:, :, :, None]).reshape(B, n, S, S * d)
    return Phi, b.reshape(B, n, S * d), placed


def _gram(stack: FiniteStack, psi: rc.Numbers) -> rc.Numbers:
    """E_{mu^0}[psi psi'], shape (B, q, q)."""
    weighted = stack.mu0[..., None] * psi
    return np.asarray(np.swapaxes(psi, 1, 2) @ weighted)


@PAPER.identity(
    "alg1",
    ref="Algorithm 1, line 12",
    printed_as="misprint",
    tex=r"g_t^i(x_t^i)+g_t^{c\Rightarrow i}(x_t^c)-g_t^{c\to i}(x_t^i)=\tilde g_t^i",
    on=ROUND,
    expect="violated",
    note="(8) subtracts g^{c->i}(x^c), which line 4 evaluates and line 5 sends. With x^i in its "
    "place A(s^i) x^i cancels against g^i(x^i): the direction has mean Abar^i x_*^c - bbar^i "
    "at the central solutions, whatever x^i is, and x^i moves away linearly in t unless that "
    "vanishes. A slip of the pseudocode: (8), (27) and all proofs have x^c.",
    corrected="alg1_corrected",
)
def alg1(instance: Any) -> rc.Sides:
    """Line 12, with g^{c->i} evaluated at x_t^i as printed, is the update (8)."""
    return rounds.line_twelve_as_printed(instance, states(instance))


@PAPER.identity(
    "alg1_corrected",
    ref="Algorithm 1, lines 10 to 12 with g^{c->i}(x^c)",
    tex=r"x_{t+1}^i=x_t^i-\alpha_t(g_t^i(x_t^i)+g_t^{c\Rightarrow i}(x_t^c)-g_t^{c\to i}(x_t^c))",
    on=ROUND,
    derivation="One side is a round of this project's own implementation (linsys.algorithms), the "
    "other the formulas (4), (7) and (8) at the same samples. So this compares our code with the "
    "paper's formulas; that line 12 needs x^c is seen in affpcl.alg1.",
)
def alg1_corrected(instance: Any) -> rc.Sides:
    """One round of Algorithm 1 as this project implements it, with g^{c->i}(x_t^c) in line 12, is
    (4), (7) and (8).
    """
    return rounds.algorithm_one(instance, states(instance))


@PAPER.identity(
    "c1_homog",
    ref="Appendix C.1",
    tex=r"x_*^c=x_*^0",
    on=valued(alike=True),
)
def c1_homog(stack: FiniteStack) -> rc.Sides:
    """In one environment x_*^c = x_*^0."""
    return go.mean_of_solutions(stack)


# Remark 1.


def _count(stack: FiniteStack, number: int) -> Any:
    """A count as a number of the instance's kind, for each of its B systems."""
    return number + 0 * stack.x[:, 0, 0]


def sent(stack: FiniteStack, *, shared: bool, state_size: int, weights: int = 0) -> Any:
    """What AffPCL sends in one round, shape (B,)."""
    number = rounds.sent(
        stack, states(stack), state_size=state_size, shared=shared, weights=weights
    )
    return _count(stack, number)


def of_fedavg(stack: FiniteStack, times: float) -> Any:
    """So many times what FedAvg sends in one round, shape (B,)."""
    return times * _count(stack, rounds.sent_by_federated_averaging(stack, states(stack)))


def work(stack: FiniteStack) -> Any:
    """Multiplications with additions in one round of AffPCL, lines 7 and 10 to 12, shape (B,)."""
    _, agents, server = rounds.counted_round(stack, states(stack))
    return _count(stack, agents + server)


@PAPER.count(
    "rem1_fedavg",
    ref="Remark 1",
    tex=r"\mathrm{comm}(\mathrm{FedAvg})=2nd",
    on=ROUND,
)
def rem1_fedavg(instance: Any) -> rc.Sides:
    """FedAvg sends 2nd numbers a round: all residuals, and their average to every agent."""
    return (of_fedavg(instance, 1), _count(instance, 2 * instance.n * instance.d))


@PAPER.count(
    "rem1_comm4",
    ref="Remark 1",
    tex=r"\mathrm{comm}(\mathrm{AffPCL})\le4\,\mathrm{comm}(\mathrm{FedAvg})",
    on=ROUND,
    relation="<=",
    note="7nd of 8nd. Remark 1 speaks of AffPCL with density-ratio estimation, which Algorithm 1 "
    "does not show; at the server, which has all samples, it needs nothing else.",
)
def rem1_comm4(instance: Any) -> rc.Sides:
    """With COE, CDL and DRE, this one at the server, AffPCL sends at most four times as much as
    FedAvg (line 5: three residuals and the state, counted as the d numbers psi(s^i) of Appendix
    C.4; line 8: three central residuals).
    """
    return (sent(instance, shared=False, state_size=instance.d), of_fedavg(instance, 4))


@PAPER.count(
    "rem1_comm4_raw",
    ref="Remark 1, with line 5's state s^i sent as it is",
    reading="Algorithm 1 sends the state s^i itself, and nothing bounds how many numbers a state "
    "takes.",
    tex=r"6nd+nq\le8nd",
    on=RAW_STATES,
    relation="<=",
    expect="violated",
    note="6nd + nq is at most 8nd for q <= 2d only. Remark 1 does not count the state. Of "
    "images of 784 pixels with d = 84 features the state alone is larger than all "
    "residuals; features psi(s^i), or the n ratios rho^j(s^i), may be sent instead. No "
    "rate depends on it.",
    corrected="rem1_comm4",
    reading_of="rem1_comm4",
)
def rem1_comm4_raw(instance: Any) -> rc.Sides:
    """With COE, CDL and DRE at the server, AffPCL sends at most four times as much as FedAvg, where
    the state of line 5 takes q numbers, whatever q.
    """
    return (
        sent(instance, shared=False, state_size=instance.state.shape[-1]),
        of_fedavg(instance, 4),
    )


@PAPER.count(
    "rem1_comm4_agents",
    ref="Remark 1, with density ratios estimated by the agents",
    tex=r"9nd\le8nd",
    on=ROUND,
    relation="<=",
    expect="violated",
    note="Up go three residuals, psi(s^i) and eta^i, which the server needs for rho^i(s^j) = 1 + "
    "psi(s^j)'eta^i; down go three central residuals and psi(s^0): 5nd + 4nd. No rate depends on "
    "it.",
    corrected="rem1_comm4",
    reading_of="rem1_comm4",
    reading="Example 2 writes the density ratio's iteration for agent i, with eta_t^i and "
    "residuals g^{i,rho} of its own, like the other agents' iterations of Algorithm 1.",
)
def rem1_comm4_agents(instance: Any) -> rc.Sides:
    """With COE, CDL and DRE by Example 2 at the agents, eta^i and psi of d numbers each, AffPCL
    sends at most four times as much as FedAvg.
    """
    d = instance.d
    return sent(instance, shared=False, state_size=d, weights=d), of_fedavg(instance, 4)


@PAPER.count(
    "rem1_comm25",
    ref="Remark 1",
    tex=r"\mathrm{comm}(\mathrm{AffPCL})\le2.5\,\mathrm{comm}(\mathrm{FedAvg})=5nd",
    on=ROUND,
    relation="<=",
    note="Exactly 5nd, 2nd up and 3nd down. With the state it is more: affpcl.rem1_comm25_state.",
)
def rem1_comm25(instance: Any) -> rc.Sides:
    """With (22-2) and known ratios the residuals that AffPCL sends are at most 2.5 times those of
    FedAvg, 5nd numbers; the state is not counted.
    """
    return (sent(instance, shared=True, state_size=0), of_fedavg(instance, 2.5))


@PAPER.count(
    "rem1_comm25_state",
    ref="Remark 1, with all that line 5 sends",
    reading="Line 5 of Algorithm 1 sends the state as well, and the server needs it for "
    "rho^i(s^j), known or not.",
    tex=r"5nd+n\le5nd",
    on=ROUND,
    relation="<=",
    expect="violated",
    note="The server applies rho^i at the agents' samples, known or not, and so needs s^j, one "
    "number at least: 5nd + n. At d = 1 that is 3 times FedAvg. Remark 1 counts vectors of "
    "length d, beside which a state may be small. No effect on any rate.",
    corrected="rem1_comm25_corrected",
    reading_of="rem1_comm25",
)
def rem1_comm25_state(instance: Any) -> rc.Sides:
    """With (22-2) and known ratios AffPCL sends at most 2.5 times as much as FedAvg, 5nd numbers,
    with the state s^i counted as one number.
    """
    return (sent(instance, shared=True, state_size=1), of_fedavg(instance, 2.5))


@PAPER.count(
    "rem1_comm25_corrected",
    ref="Remark 1, with states of q numbers",
    tex=r"\mathrm{comm}(\mathrm{AffPCL})=5nd+nq",
    on=RAW_STATES,
    derivation="Up: g^{i,b}, g^{c->i} and s^i. Down: the averages of both, and g^{c=>i}.",
)
def rem1_comm25_corrected(instance: Any) -> rc.Sides:
    """With (22-2), known ratios and states of q numbers each, AffPCL sends 5nd + nq numbers a
    round.
    """
    return (
        sent(instance, shared=True, state_size=instance.state.shape[-1]),
        of_fedavg(instance, 2.5) + instance.n * instance.state.shape[-1],
    )


@PAPER.count(
    "rem1_comp6",
    ref="Remark 1",
    tex=r"\mathrm{comp}(\mathrm{AffPCL})=6\,\mathrm{comp}(\mathrm{FedAvg})=\Theta(6d)",
    on=ROUND,
    expect="violated",
    note="Lines 10 to 12 are five multiples of vectors: one each for x^c and theta^c, three for "
    "x^i. The sixth stands for the importance correction, which is one multiple for each of "
    "the n samples: (1/n) sum_j rho^i(s^j) g^{c->j} has other weights for every i. The work "
    "per agent is (5 + n)d, which grows with n and equals 6d for n = 1 only. No rate depends "
    "on it.",
    corrected="rem1_comp6_corrected",
)
def rem1_comp6(instance: Any) -> rc.Sides:
    """AffPCL computes 6d per agent and round where FedAvg's update computes d (residuals and plain
    averages not counted, as there).
    """
    return (work(instance), _count(instance, 6 * instance.n * instance.d))


@PAPER.count(
    "rem1_comp6_corrected",
    ref="Remark 1, with the server's importance correction",
    tex=r"\mathrm{comp}(\mathrm{AffPCL})=(5+n)d",
    on=ROUND,
    derivation="Counted while the round is computed; the result is that of the algorithm.",
)
def rem1_comp6_corrected(instance: Any) -> rc.Sides:
    """AffPCL computes (5 + n)d per agent and round, nd of it at the server, where FedAvg's update
    computes d (residuals and plain averages not counted, as there).
    """
    return (work(instance), _count(instance, (5 + instance.n) * instance.n * instance.d))


# Appendix C.2.


@PAPER.identity(
    "c2_dre_onehot",
    ref="Appendix C.2",
    tex=r"\psi(s)=e_s\Rightarrow\eta_*^i=(\rho^i(s))_s",
    on=EVERYWHERE,
)
def c2_dre_onehot(stack: FiniteStack) -> rc.Sides:
    """With psi(s) = e_s the weights eta_*^i of the density ratio are (rho^i(s))_s."""
    psi = np.eye(stack.mu.shape[-1], dtype=int) + 0 * stack.mu0[:, :, None]
    gram = _gram(stack, psi)
    return solve(gram[:, None], stack.mu @ psi), stack.rho


def _valued_everywhere(*, mu: Any, **others: Any) -> at.ValueStack:
    return at.ValueStack(mu=everywhere(mu), **others)


#: Objectives of any values, every agent visiting every state; A plays no part.
ONE_HOT = replace(
    valued(sizes={"S": (1, 4), "d": (1, 2)}),
    view=_valued_everywhere,
    assumes={},
    meaning={
        **valued().meaning,
        "mu": "distributions, moved to (1 - c) mu + c / S with the least c that gives every state "
        "a hundredth of its even share",
    },
)


@PAPER.identity(
    "c2_coe_onehot",
    ref="Appendix C.2",
    tex=r"\Phi(s)=e_se_s^\top\otimes I_d,\ \theta_*^i=(b^i(s))_s\Rightarrow"
    r"\Phi(s)\theta_*^i=e_s\otimes b^i(s)",
    on=ONE_HOT,
    note="Exact, but such objectives are too long for (2) (affpcl.c2_coe_length), and not free: "
    "lambda^b falls to min_s mu^0(s) <= 1/S, Section 4's G_b grows to "
    "the norm over all states, up to sqrt(S) sup ||b||, and Appendix D.1's lambda needs every "
    "agent to visit every state.",
)
def c2_coe_onehot(stack: at.ValueStack) -> rc.Sides:
    """With Phi(s) = e_s e_s' x I and theta^i = (b^i(s))_s, Phi(s) theta^i is e_s x b^i(s), and
    theta_*^c holds the mean of b^j(s) over the agents that are at s.

    Every state has to occur, for theta_*^c to exist.
    """
    Phi, theta, placed = one_hot_objectives(stack.mu, stack.b)
    hot = FiniteStack(mu=stack.mu, A=Phi, Phi=Phi, theta=theta)
    shares = stack.rho / stack.n
    expected = (shares[..., None] * stack.b).sum(axis=1).reshape(len(theta), -1)
    return (
        np.concatenate([hot.b.reshape(len(theta), -1), hot.theta_star_central], axis=1),
        np.concatenate([placed.reshape(len(theta), -1), expected], axis=1),
    )


@PAPER.count(
    "c2_coe_length",
    ref="Appendix C.2 and Section 4, finite state spaces as objectives of (2)",
    tex=r"\dim(e_s\otimes b^i(s))=\dim(A(s)x)",
    on=ONE_HOT,
    expect="violated",
    reading_of="c2_coe_onehot",
    reading="Appendix C.2 writes 'we transform the original objective as b^i(s) <- e_s x b^i(s)', "
    "and Section 4 calls finite state spaces a special case of its structure. Both may be read "
    "for (2), (5) and (8), where A(s) x stands beside b^i(s); the appendix says nothing on A.",
    note="e_s x b^i(s) has d |S| entries and A(s) x has d, so that A(s) x - b^i(s) of (2), (5) and "
    "(8) has no meaning after the transformation: with d = 1 and two states, A(s) x is a number "
    "and b^i(s) a vector of two. The parametrisation needs a read-out of the d entries that belong "
    "to s. No assumption of the paper bears on these lengths.",
    corrected="c2_coe_readout",
)
def c2_coe_length(stack: at.ValueStack) -> rc.Sides:
    """The objective e_s x b^i(s) that Appendix C.2 puts in the place of b^i(s) has as many entries
    as A(s) x, as g^i(x) = A(s) x - b^i(s) asks.
    """
    _, _, placed = one_hot_objectives(stack.mu, stack.b)
    one = 1 + 0 * stack.mu[:, 0, 0]
    return placed.shape[-1] * one, stack.A.shape[-2] * one


@PAPER.identity(
    "c2_coe_readout",
    ref="Appendix C.2, with a read-out",
    tex=r"E(s)=e_s^\top\otimes I_d:\quad E(s)\Phi(s)\theta_*^i=b^i(s),\quad"
    r"\mathbb{E}_{\mu^0}[E(s)\Phi(s)\theta_*^c]=\bar b^0",
    on=ONE_HOT,
    derivation="E(s) Phi(s) theta = (e_s' e_s e_s' x I) theta is the block of theta at s. That of "
    "theta_*^c is (1/n) sum_j rho^j(s) b^j(s), of mean (1/n) sum_j E_j b^j(s).",
)
def c2_coe_readout(stack: at.ValueStack) -> rc.Sides:
    """With E(s) = e_s' x I, d x d|S|, the objectives E(s) Phi(s) theta^i are b^i(s), and those of
    theta_*^c have the mean bbar^0, so that A(s) x - E(s) Phi(s) theta^c may stand in (8).
    """
    Phi, theta, _ = one_hot_objectives(stack.mu, stack.b)
    hot = FiniteStack(mu=stack.mu, A=Phi, Phi=Phi, theta=theta)
    B, n, S, d = stack.b.shape
    # the block at s of Phi(s) theta
    blocks = np.einsum("bnssd->bnsd", hot.b.reshape(B, n, S, S, d))
    central = np.einsum("bssd->bsd", hot.b_central.reshape(B, S, S, d))
    mean = (stack.mu0[..., None] * central).sum(axis=1)
    return (
        np.concatenate([blocks.reshape(B, -1), mean], axis=1),
        np.concatenate([stack.b.reshape(B, -1), stack.b_bar0], axis=1),
    )


# Appendix C.4.


@PAPER.identity(
    "c4_lin_dre",
    ref="Appendix C.4",
    tex=r"\mathbb E_{\mu^0}\Psi(s)\eta_*^i=\mathbb E_{\mu^i}\psi(s)",
    on=MIXTURES,
)
def c4_lin_dre(stack: FiniteStack) -> rc.Sides:
    """Where rho^i = psi'eta_*^i, E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi.

    ``stack.psi`` is (B, S, q) and ``stack.weights`` (B, n, q), from :func:`ratio_basis`.
    """
    return apply(_gram(stack, stack.psi)[:, None], stack.weights), stack.mu @ stack.psi


@PAPER.identity(
    "c4_shift_dre",
    ref="Appendix C.4",
    tex=r"\mathbb E_{\mu^0}\Psi(s)\eta_*^i=\mathbb E_{\mu^i-\mu^0}\psi(s)",
    on=MIXTURES,
)
def c4_shift_dre(stack: FiniteStack) -> rc.Sides:
    """Where rho^i - 1 = psi'eta_*^i, E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi - E_{mu^0} psi.

    Of the basis of :func:`ratio_basis`, 1 = psi'w^0, so that eta_*^i = w^i - w^0.
    """
    shifted = stack.weights - stack.weights.mean(axis=1, keepdims=True)
    left = apply(_gram(stack, stack.psi)[:, None], shifted)
    return left, (stack.mu - stack.mu0[:, None]) @ stack.psi
