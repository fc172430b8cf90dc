"""AffPCL, Section 5: central learning in several environments and importance correction."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, systems
from experiments.affpcl.claims._values import EVERYWHERE, ITERATES, valued
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import correction as go
from experiments.affpcl.theory.directions import (
    averaged,
    central_residual,
    importance_corrected,
    local_residual,
    mean,
    second_moment,
)
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import lambda_min

TURNED = rc.Space(
    fields={"angle": rc.positive(low=0.001, high=1.5), "size": rc.positive()},
    batched=True,
    meaning={"angle": "asin(delta_obj)", "size": "||theta^1|| = ||theta^2||"},
    assumes={
        "sym(Phibar^i) > 0": lambda i: lambda_min(go.turned_objectives(i.angle, i.size).Phi_bar) > 0
    },
    constructed="two agents whose objectives are turned against each other",
)
RARE = rc.Space(
    fields={
        "epsilon": rc.positive(low=1e-6, high=0.25),
        "others": rc.interval("m", low=0.5, high=1.0),
    },
    sizes={"m": (1, 3)},
    batched=True,
    meaning={
        "epsilon": "the chance with which agent 1 visits the second of two states",
        "others": "the chances with which the other agents do",
    },
    constructed="agent 1 seldom meets a state that all others meet often",
)


# Section 5.1.


@PAPER.identity(
    "sec51_mean_vs_central",
    ref="Section 5.1",
    tex=r"\mu^i\equiv\mu\Rightarrow x_*^0=x_*^c",
    on=valued(alike=True),
)
def sec51_mean_vs_central(stack: FiniteStack) -> rc.Sides:
    """In one environment the average of the personal solutions solves the central system."""
    return go.mean_of_solutions(stack)


@PAPER.identity(
    "sec51_mean_vs_central_heterogeneous",
    ref="Section 5.1, for two agents in one dimension",
    tex=r"x_*^0=x_*^c+\tfrac{(x_*^1-x_*^2)(\bar A^2-\bar A^1)}{2(\bar A^1+\bar A^2)}",
    on=valued(sizes={"n": (2, 2), "d": (1, 1)}),
)
def sec51_mean_vs_central_heterogeneous(stack: FiniteStack) -> rc.Sides:
    """In several environments the average of the personal solutions need not solve the central
    system: two agents in one dimension have x_*^0 = x_*^c + (x_*^1 - x_*^2)(Abar^2 -
    Abar^1)/(2(Abar^1 + Abar^2)), and the difference is zero only if they have the same solution or
    the same Abar.

    Shape (B,). The gap is zero only where two agents agree in their solution or in Abar.
    """
    a, x = stack.A_bar[..., 0, 0], stack.x_star[..., 0]
    gap = (x[:, 0] - x[:, 1]) * (a[:, 1] - a[:, 0]) / (2 * (a[:, 0] + a[:, 1]))
    return x.mean(axis=1), stack.x_star_central[:, 0] + gap


@PAPER.identity(
    "sec51_mixture",
    ref="Section 5.1",
    tex=r"\mathbb E_{\mu^0}f=\tfrac1n\sum_j\mathbb E_{\mu^j}f,\quad"
    r"\mathbb E g^0(x)=\bar A^0x-\bar b^0",
    on=valued({"x_c": ITERATES["x_c"], "f": rc.reals("S", "d")}),
)
def sec51_mixture(stack: FiniteStack) -> rc.Sides:
    """E_{mu^0} f = (1/n) sum_j E_{mu^j} f, and (4) is unbiased for the central system: E g^0(x) =
    Abar^0 x - bbar^0.

    Shape (B, 2, d).

    f(s) is ``stack.f`` (B, S, d) and x is ``stack.x_c``.
    """
    of_mixture = (stack.mu0[:, None] @ stack.f)[:, 0]
    drawn = mean(stack, averaged(go.for_all(stack, stack.f)))
    direction = mean(stack, averaged(local_residual(stack, stack.x_c)))
    residual = apply(stack.A_bar0, stack.x_c) - stack.b_bar0
    return np.stack([drawn, direction], axis=1), np.stack([of_mixture, residual], axis=1)


@PAPER.identity(
    "sec51_bc_far",
    ref="Section 5.1",
    tex=r"\delta_{\mathrm{obj}}=\sin\varepsilon,\ \|b^c-b^1\|_\infty=2G_b",
    on=TURNED,
)
def sec51_bc_far(angle: Any, size: Any) -> rc.Sides:
    """||b^c - b^i||_inf can reach 2 G_b whatever delta_obj > 0: for every angle in (0, pi/2) there
    are two agents with delta_obj = sin(angle), by Definition 1 as by Section 4, and ||b^c -
    b^1||_inf = 2 G_b.
    """
    return go.level_of_turned_objectives(go.turned_objectives(angle, size), angle)


@PAPER.upper(
    "sec51_bc_far_maximum",
    ref="Section 5.1",
    tex=r"\|b^c-b^i\|_\infty\le2G_b",
    on=SYSTEMS,
)
def sec51_bc_far_maximum(stack: FiniteStack) -> rc.Sides:
    """2 G_b is the largest possible value of ||b^c - b^i||_inf."""
    return go.far_central_objective(stack)


# Section 5.2.


@PAPER.identity(
    "sec52_unbiased",
    ref="Section 5.2, Lemma G.1",
    tex=r"\mathbb E[g_t^{c\Rightarrow i}(x)-g_t^{c\to i}(x)]=0",
    on=systems({k: ITERATES[k] for k in ("x_c", "theta_c")}),
)
def sec52_unbiased(stack: FiniteStack) -> rc.Sides:
    """With the true ratio E[g^{c=>i}(x)] = E[g^{c->i}(x)], whatever x and theta^c.

    Shape (B, n, d).
    """
    central = central_residual(stack, stack.x_c, stack.theta_c)
    bias = apply(stack.A_bar, stack.x_c[:, None]) - apply(stack.Phi_bar, stack.theta_c[:, None])
    return mean(stack, importance_corrected(stack, central)), bias


@PAPER.upper(
    "sec52_chi2",
    ref="Section 5.2, property (i)",
    tex=r"\mathbb E\|g^{c\Rightarrow i}\|^2\le\tfrac{\sigma^2}{n}+\|\mathbb E g^{c\to i}\|^2"
    r"+\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)",
    on=SYSTEMS,
    note="An upper bound, no identity, with constant one: E_{mu^0}(rho^i)^2 = 1 + chi^2 "
    "exactly, so that the factor 2 in Lemma G.2's H_1 is not needed. sigma contains "
    "x_*^c (C.6).",
)
def sec52_chi2(stack: FiniteStack) -> rc.Sides:
    """E||g^{c=>i}||^2 at the central solutions is at most a federated term sigma^2/n, the square
    ||E g^{c->i}||^2, and (sigma^2/n) chi^2(mu^i, mu^0), with x_*^c in the G_x of sigma.

    At the central solutions x_*^c and theta_*^c.
    """
    central = go.at_centre(stack)
    affinity = (stack.mean(central) ** 2).sum(axis=-1)
    federated = (stack.sigma**2 / stack.n)[:, None]
    moment = second_moment(stack, importance_corrected(stack, central))
    return moment, federated + affinity + federated * stack.chi2_agent


@PAPER.upper(
    "sec52_chi2_extra",
    ref="Section 5.2, property (i) read as the difference that the ratio makes",
    reading="'The additional variance term in (i)' may be what the density ratio adds to the "
    "variance without it.",
    tex=r"\tfrac1n\mathbb E_{\mu^0}[((\rho^i)^2-1)\|g^{c\to i}\|^2]"
    r"\le\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)",
    on=SYSTEMS,
    expect="violated",
    note="(rho^i)^2 - 1 has mean chi^2, but its positive part has one of first order in the "
    "distance of the environments, and ||g^{c->i}|| may be large there alone. With mu^0 = "
    "(1/4, 1/4, 1/2), rho^i = 1 + e on the first two states and 1 - e on the last, and "
    "g^{c->i} = (s, -s, 0), the difference is (e + e^2/2) s^2/n and chi^2 = e^2. The rate is "
    "untouched: the sum obeys affpcl.sec52_chi2, and the new term is one of sigma^2 "
    "delta_env/n.",
    corrected="sec52_chi2_extra_corrected",
    reading_of="sec52_chi2",
)
def sec52_chi2_extra(stack: FiniteStack) -> rc.Sides:
    """At the central solutions the ratio adds at most (sigma^2/n) chi^2(mu^i, mu^0) to (1/n)
    E_{mu^0}||g^{c->i}||^2, what the independent samples contribute without it, with x_*^c in the
    G_x of sigma.
    """
    return go.importance_increase(stack, first_order=False)


@PAPER.upper(
    "sec52_chi2_extra_corrected",
    ref="Section 5.2, property (i) with a first-order term",
    tex=r"\tfrac1n\mathbb E_{\mu^0}[((\rho^i)^2-1)\|g^{c\to i}\|^2]"
    r"\le\tfrac{\sigma^2}{n}(\chi^2(\mu^i,\mu^0)+2\delta_{\mathrm{env}}^i)",
    on=SYSTEMS,
    derivation="Where rho > 1, rho^2 - 1 = (rho - 1)^2 + 2 (rho - 1); elsewhere it is at most 0. "
    "The mean of (rho - 1)^2 is at most chi^2, that of the positive part of rho - 1 is "
    "delta_env^i, and ||g^{c->i}|| <= sigma.",
)
def sec52_chi2_extra_corrected(stack: FiniteStack) -> rc.Sides:
    """At the central solutions the ratio adds at most (sigma^2/n) (chi^2(mu^i, mu^0) + 2
    delta_env^i) to (1/n) E_{mu^0}||g^{c->i}||^2, what the independent samples contribute without
    it, with x_*^c in the G_x of sigma.
    """
    return go.importance_increase(stack, first_order=True)


@PAPER.upper(
    "sec52_rho",
    ref="Section 5.2, property (iii)",
    tex=r"\rho^i(s)\le n",
    on=SYSTEMS,
)
def sec52_rho(stack: FiniteStack) -> rc.Sides:
    """rho^i(s) <= n."""
    return stack.rho.max(axis=-1), stack.n


@PAPER.upper(
    "sec52_chi2_tv",
    ref="Section 5.2, property (ii)",
    uses=["d3"],
    tex=r"\chi^2(\mu^i,\mu^0)\le\max\{\|\rho^i\|_\infty,1\}\delta_{\mathrm{env}}",
    on=SYSTEMS,
    note="Lemma D.3 has the agent's own distance, which is at most (1 - 1/n) delta_env.",
)
def sec52_chi2_tv(stack: FiniteStack) -> rc.Sides:
    """chi^2(mu^i, mu^0) <= max{||rho^i||_inf, 1} delta_env.

    Shape (B, n).
    """
    ratio = np.maximum(stack.rho.max(axis=-1), 1)
    return stack.chi2_agent, ratio * stack.delta_env[:, None]


@PAPER.upper(
    "sec52_chain",
    ref="Section 5.2",
    uses=["sec52_chi2_tv", "sec52_rho"],
    tex=r"\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)\le\sigma^2\delta_{\mathrm{env}}",
    on=SYSTEMS,
)
def sec52_chain(stack: FiniteStack) -> rc.Sides:
    """(sigma^2/n) chi^2(mu^i, mu^0) <= sigma^2 delta_env.

    Shape (B, n).
    """
    squared = stack.sigma[:, None] ** 2
    return squared / stack.n * stack.chi2_agent, squared * stack.delta_env[:, None]


@PAPER.lower(
    "sec52_client",
    ref="Section 5.2",
    tex=r"\sup_s\tfrac{\mu^0(s)}{\mu^i(s)}\ge\tfrac1{4\varepsilon},\quad"
    r"\mathbb E_{\mu^i}\|\tfrac{\mu^0}{\mu^i}h\|^2\ge\tfrac1{16\varepsilon}",
    on=RARE,
)
def sec52_client(epsilon: Any, others: Any) -> rc.Sides:
    """Applied by the client the ratio is unbounded and so is the second moment: an agent that sees
    with chance epsilon a state that every other one sees with chance 1/2 or more has mu^0/mu^i >=
    1/(4 epsilon) and second moment >= 1/(16 epsilon) for a direction of length one.
    """
    return go.client_side_of_rare_state(go.rare_state(epsilon, others), epsilon)


@PAPER.identity(
    "sec52_client_factor",
    ref="Section 5.2",
    tex=r"\tfrac1n(1+\chi^2(\mu^i,\mu^0))\ \text{and}\ 1+\chi^2(\mu^0,\mu^i)",
    on=EVERYWHERE,
)
def sec52_client_factor(stack: FiniteStack) -> rc.Sides:
    """For a direction of length one the samples contribute (1 + chi^2(mu^i, mu^0))/n if the server
    applies the ratio, and 1 + chi^2(mu^0, mu^i), without 1/n, if the client does.

    Server: (1/n^2) sum_j E||rho^i(s^j) h||^2 = (1 + chi^2(mu^i, mu^0)) / n. Client: E||h mu^0(s^i)
    / mu^i(s^i)||^2 = 1 + chi^2(mu^0, mu^i), without 1/n. Shape (B, 2, n); every agent has to visit
    every state.
    """
    server = (importance_corrected(stack, go.unit(stack)) ** 2).sum(axis=-1)
    at_server = (stack.mu[:, None] * server).sum(axis=(-2, -1))
    reverse = ((1 - stack.mu0[:, None] / stack.mu) ** 2 * stack.mu).sum(axis=-1)
    return np.stack([at_server, go.at_client(stack)], axis=1), np.stack(
        [(1 + stack.chi2_agent) / stack.n, 1 + reverse], axis=1
    )
