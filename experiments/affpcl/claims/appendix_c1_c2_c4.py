"""AffPCL, Appendix C.1 (Algorithm 1 and its costs), C.2 and C.4 (linear parametrisation)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from experiments.affpcl.theory import correction as go, parametrization as at, rounds
from experiments.affpcl.theory.stack import FiniteStack

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

ALG1 = rc.Claim(
    id="affpcl.alg1",
    source="AffPCL, Algorithm 1, line 12",
    text="Line 12, with g^{c->i} evaluated at x_t^i as printed, is the update (8).",
    latex=r"g_t^i(x_t^i)+g_t^{c\Rightarrow i}(x_t^c)-g_t^{c\to i}(x_t^i)=\tilde g_t^i",
    kind="identity",
    space=ROUND,
    measure=lambda s: rounds.line_twelve_as_printed(s, states(s)),
    expect="violated",
    note=(
        "(8) subtracts g^{c->i}(x^c), which line 4 evaluates and line 5 sends. With x^i in its "
        "place A(s^i) x^i cancels against g^i(x^i): the direction has mean Abar^i x_*^c - bbar^i "
        "at the central solutions, whatever x^i is, and x^i moves away linearly in t unless that "
        "vanishes. A slip of the pseudocode: (8), (27) and all proofs have x^c."
    ),
    corrected="affpcl.alg1_corrected",
)
ALG1_CORRECTED = rc.Claim(
    id="affpcl.alg1_corrected",
    source="AffPCL, Algorithm 1, lines 10 to 12 with g^{c->i}(x^c)",
    text="One round of the implemented algorithm is (4), (7) and (8).",
    latex=r"x_{t+1}^i=x_t^i-\alpha_t(g_t^i(x_t^i)+g_t^{c\Rightarrow i}(x_t^c)-g_t^{c\to i}(x_t^c))",
    kind="identity",
    space=ROUND,
    measure=lambda s: rounds.algorithm_one(s, states(s)),
    derivation="Both sides come from the same samples, by the algorithm and by the formulas.",
)
C1_HOMOG = rc.Claim(
    id="affpcl.c1_homog",
    source="AffPCL, Appendix C.1",
    text="In one environment x_*^c = x_*^0.",
    latex=r"x_*^c=x_*^0",
    kind="identity",
    space=valued(alike=True),
    measure=go.mean_of_solutions,
)


# Remark 1.


def _count(stack: FiniteStack, number: int) -> Any:
    """A count as a number of the instance's kind, for each of its B systems."""
    return number + 0 * stack.x[:, 0, 0]


def sent(stack: FiniteStack, *, shared: bool, state_size: int) -> Any:
    """What AffPCL sends in one round, shape (B,)."""
    number = rounds.sent(stack, states(stack), state_size=state_size, shared=shared)
    return _count(stack, number)


def of_fedavg(stack: FiniteStack, times: float) -> Any:
    """So many times what FedAvg sends in one round, shape (B,)."""
    return times * _count(stack, rounds.sent_by_federated_averaging(stack, states(stack)))


def work(stack: FiniteStack) -> Any:
    """Multiplications with additions in one round of AffPCL, lines 7 and 10 to 12, shape (B,)."""
    _, agents, server = rounds.counted_round(stack, states(stack))
    return _count(stack, agents + server)


FEDAVG = rc.Claim(
    id="affpcl.rem1_fedavg",
    source="AffPCL, Remark 1",
    text="FedAvg sends 2nd numbers a round: all residuals, and their average to every agent.",
    latex=r"\mathrm{comm}(\mathrm{FedAvg})=2nd",
    kind="count",
    space=ROUND,
    measure=lambda s: (of_fedavg(s, 1), _count(s, 2 * s.n * s.d)),
)
COMM4 = rc.Claim(
    id="affpcl.rem1_comm4",
    source="AffPCL, Remark 1",
    text=(
        "AffPCL sends at most four times as much as FedAvg (line 5: three residuals and the state, "
        "counted as the d numbers psi(s^i) of Appendix C.4; line 8: three central residuals)."
    ),
    latex=r"\mathrm{comm}(\mathrm{AffPCL})\le4\,\mathrm{comm}(\mathrm{FedAvg})",
    kind="count",
    relation="<=",
    space=ROUND,
    measure=lambda s: (sent(s, shared=False, state_size=s.d), of_fedavg(s, 4)),
    note="7nd of 8nd; a residual of the ratio sent up and down in place of the state gives 8nd.",
)
COMM4_RAW = rc.Claim(
    id="affpcl.rem1_comm4_raw",
    source="AffPCL, Remark 1, with line 5's state s^i sent as it is",
    text="The same where a state takes q numbers, whatever q.",
    latex=r"6nd+nq\le8nd",
    kind="count",
    relation="<=",
    space=RAW_STATES,
    measure=lambda s: (sent(s, shared=False, state_size=s.state.shape[-1]), of_fedavg(s, 4)),
    expect="violated",
    note=(
        "6nd + nq is at most 8nd for q <= 2d only. Remark 1 does not count the state. Of images of "
        "784 pixels with d = 84 features the state alone is larger than all residuals; features "
        "psi(s^i), or the n ratios rho^j(s^i), may be sent instead. No rate depends on it."
    ),
    corrected="affpcl.rem1_comm4",
)
COMM25 = rc.Claim(
    id="affpcl.rem1_comm25",
    source="AffPCL, Remark 1",
    text=(
        "With (22-2) and known ratios the residuals that AffPCL sends are at most 2.5 times those "
        "of FedAvg, 5nd numbers; the state is not counted."
    ),
    latex=r"\mathrm{comm}(\mathrm{AffPCL})\le2.5\,\mathrm{comm}(\mathrm{FedAvg})=5nd",
    kind="count",
    relation="<=",
    space=ROUND,
    measure=lambda s: (sent(s, shared=True, state_size=0), of_fedavg(s, 2.5)),
    note="Exactly 5nd, 2nd up and 3nd down. With the state it is more: affpcl.rem1_comm25_state.",
)
COMM25_STATE = rc.Claim(
    id="affpcl.rem1_comm25_state",
    source="AffPCL, Remark 1, with all that line 5 sends",
    text="The same with the state s^i, counted as one number.",
    latex=r"5nd+n\le5nd",
    kind="count",
    relation="<=",
    space=ROUND,
    measure=lambda s: (sent(s, shared=True, state_size=1), of_fedavg(s, 2.5)),
    expect="violated",
    note=(
        "The server applies rho^i at the agents' samples, known or not, and so needs s^j, one "
        "number at least: 5nd + n. At d = 1 that is 3 times FedAvg. Remark 1 counts vectors of "
        "length d, beside which a state may be small. No effect on any rate."
    ),
    corrected="affpcl.rem1_comm25_corrected",
)
COMM25_CORRECTED = rc.Claim(
    id="affpcl.rem1_comm25_corrected",
    source="AffPCL, Remark 1, with states of q numbers",
    text="With (22-2) and known ratios AffPCL sends 5nd + nq numbers a round.",
    latex=r"\mathrm{comm}(\mathrm{AffPCL})=5nd+nq",
    kind="count",
    space=RAW_STATES,
    measure=lambda s: (
        sent(s, shared=True, state_size=s.state.shape[-1]),
        of_fedavg(s, 2.5) + s.n * s.state.shape[-1],
    ),
    derivation="Up: g^{i,b}, g^{c->i} and s^i. Down: the averages of both, and g^{c=>i}.",
)
COMP6 = rc.Claim(
    id="affpcl.rem1_comp6",
    source="AffPCL, Remark 1",
    text=(
        "AffPCL computes 6d per agent and round where FedAvg's update computes d (residuals and "
        "plain averages not counted, as there)."
    ),
    latex=r"\mathrm{comp}(\mathrm{AffPCL})=6\,\mathrm{comp}(\mathrm{FedAvg})=\Theta(6d)",
    kind="count",
    space=ROUND,
    measure=lambda s: (work(s), _count(s, 6 * s.n * s.d)),
    expect="violated",
    note=(
        "Lines 10 to 12 are five multiples of vectors: one each for x^c and theta^c, three for "
        "x^i. The sixth stands for the importance correction, which is one multiple for each of "
        "the n samples: (1/n) sum_j rho^i(s^j) g^{c->j} has other weights for every i. The work "
        "per agent is (5 + n)d, which grows with n and equals 6d for n = 1 only. No rate depends "
        "on it."
    ),
    corrected="affpcl.rem1_comp6_corrected",
)
COMP6_CORRECTED = rc.Claim(
    id="affpcl.rem1_comp6_corrected",
    source="AffPCL, Remark 1, with the server's importance correction",
    text="AffPCL computes (5 + n)d per agent and round, nd of it at the server.",
    latex=r"\mathrm{comp}(\mathrm{AffPCL})=(5+n)d",
    kind="count",
    space=ROUND,
    measure=lambda s: (work(s), _count(s, (5 + s.n) * s.n * s.d)),
    derivation="Counted while the round is computed; the result is that of the algorithm.",
)


# Appendix C.2.

DRE_ONEHOT = rc.Claim(
    id="affpcl.c2_dre_onehot",
    source="AffPCL, Appendix C.2",
    text="With psi(s) = e_s the weights eta_*^i of the density ratio are (rho^i(s))_s.",
    latex=r"\psi(s)=e_s\Rightarrow\eta_*^i=(\rho^i(s))_s",
    kind="identity",
    space=EVERYWHERE,
    measure=at.ratio_of_one_hot_features,
)


def _valued_everywhere(*, mu: Any, **others: Any) -> at.ValueStack:
    return at.ValueStack(mu=everywhere(mu), **others)


COE_ONEHOT = rc.Claim(
    id="affpcl.c2_coe_onehot",
    source="AffPCL, Appendix C.2",
    text=(
        "With Phi(s) = e_s e_s' x I and theta^i = (b^i(s))_s, Phi(s) theta^i is e_s x b^i(s), and "
        "theta_*^c holds the mean of b^j(s) over the agents that are at s."
    ),
    latex=r"\Phi(s)=e_se_s^\top\otimes I_d,\ \theta_*^i=(b^i(s))_s\Rightarrow"
    r"\Phi(s)\theta_*^i=e_s\otimes b^i(s)",
    kind="identity",
    space=replace(valued(sizes={"S": (1, 4), "d": (1, 2)}), view=_valued_everywhere, assumes={}),
    measure=at.objective_of_one_hot_features,
    note=(
        "Exact, but not free: lambda^b falls to min_s mu^0(s) <= 1/S, Section 4's G_b grows to "
        "the norm over all states, up to sqrt(S) sup ||b||, and Appendix D.1's lambda needs every "
        "agent to visit every state."
    ),
)


# Appendix C.4.

LIN_DRE = rc.Claim(
    id="affpcl.c4_lin_dre",
    source="AffPCL, Appendix C.4",
    text="Where rho^i = psi'eta_*^i, E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi.",
    latex=r"\mathbb E_{\mu^0}\Psi(s)\eta_*^i=\mathbb E_{\mu^i}\psi(s)",
    kind="identity",
    space=MIXTURES,
    measure=at.linear_ratio_system,
)
SHIFT_DRE = rc.Claim(
    id="affpcl.c4_shift_dre",
    source="AffPCL, Appendix C.4",
    text="Where rho^i - 1 = psi'eta_*^i, E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi - E_{mu^0} psi.",
    latex=r"\mathbb E_{\mu^0}\Psi(s)\eta_*^i=\mathbb E_{\mu^i-\mu^0}\psi(s)",
    kind="identity",
    space=MIXTURES,
    measure=at.shifted_ratio_system,
)
