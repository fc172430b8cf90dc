"""AffPCL, Section 5: central learning in several environments and importance correction."""

from __future__ import annotations

from functools import partial

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, systems
from experiments.affpcl.claims._values import EVERYWHERE, ITERATES, valued
from experiments.affpcl.theory import correction as go
from linsys.linalg import lambda_min

TURNED = rc.Space(
    fields={"angle": rc.positive(low=0.001, high=1.5), "size": rc.positive()},
    batched=True,
    meaning={"angle": "asin(delta_obj)", "size": "||theta^1|| = ||theta^2||"},
    assumes={
        "sym(Phibar^i) > 0": lambda i: lambda_min(go.turned_objectives(i.angle, i.size).Phi_bar) > 0
    },
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
)


# Section 5.1.

MEAN_VS_CENTRAL = rc.Claim(
    id="affpcl.sec51_mean_vs_central",
    source="AffPCL, Section 5.1",
    text="In one environment the average of the personal solutions solves the central system.",
    latex=r"\mu^i\equiv\mu\Rightarrow x_*^0=x_*^c",
    kind="identity",
    space=valued(alike=True),
    measure=go.mean_of_solutions,
)
MEAN_VS_CENTRAL_HETEROGENEOUS = rc.Claim(
    id="affpcl.sec51_mean_vs_central_heterogeneous",
    source="AffPCL, Section 5.1",
    text=(
        "In several environments it does not: two agents in one dimension have x_*^0 = x_*^c + "
        "(x_*^1 - x_*^2)(Abar^2 - Abar^1)/(2(Abar^1 + Abar^2)), and the difference is zero only if "
        "they have the same solution or the same Abar."
    ),
    latex=r"x_*^0=x_*^c+\tfrac{(x_*^1-x_*^2)(\bar A^2-\bar A^1)}{2(\bar A^1+\bar A^2)}",
    kind="identity",
    space=valued(sizes={"n": (2, 2), "d": (1, 1)}),
    measure=go.gap_of_two_solutions,
)
MIXTURE = rc.Claim(
    id="affpcl.sec51_mixture",
    source="AffPCL, Section 5.1",
    text=(
        "E_{mu^0} f = (1/n) sum_j E_{mu^j} f, and (4) is unbiased for the central system: E g^0(x) "
        "= Abar^0 x - bbar^0."
    ),
    latex=r"\mathbb E_{\mu^0}f=\tfrac1n\sum_j\mathbb E_{\mu^j}f,\quad"
    r"\mathbb E g^0(x)=\bar A^0x-\bar b^0",
    kind="identity",
    space=valued({"x_c": ITERATES["x_c"], "f": rc.reals("S", "d")}),
    measure=go.mixture,
)
BC_FAR = rc.Claim(
    id="affpcl.sec51_bc_far",
    source="AffPCL, Section 5.1",
    text=(
        "||b^c - b^i||_inf can reach 2 G_b whatever delta_obj > 0: for every angle in (0, pi/2) "
        "there are two agents with delta_obj = sin(angle), by Definition 1 as by Section 4, and "
        "||b^c - b^1||_inf = 2 G_b."
    ),
    latex=r"\delta_{\mathrm{obj}}=\sin\varepsilon,\ \|b^c-b^1\|_\infty=2G_b",
    kind="identity",
    space=TURNED,
    measure=lambda i: go.level_of_turned_objectives(go.turned_objectives(i.angle, i.size), i.angle),
)
BC_FAR_MAXIMUM = rc.Claim(
    id="affpcl.sec51_bc_far_maximum",
    source="AffPCL, Section 5.1",
    text="2 G_b is the largest possible value of ||b^c - b^i||_inf.",
    latex=r"\|b^c-b^i\|_\infty\le2G_b",
    kind="upper",
    space=SYSTEMS,
    measure=go.far_central_objective,
)


# Section 5.2.

UNBIASED = rc.Claim(
    id="affpcl.sec52_unbiased",
    source="AffPCL, Section 5.2, Lemma G.1",
    text="With the true ratio E[g^{c=>i}(x)] = E[g^{c->i}(x)], whatever x and theta^c.",
    latex=r"\mathbb E[g_t^{c\Rightarrow i}(x)-g_t^{c\to i}(x)]=0",
    kind="identity",
    space=systems({k: ITERATES[k] for k in ("x_c", "theta_c")}),
    measure=go.importance_correction,
)
CHI2 = rc.Claim(
    id="affpcl.sec52_chi2",
    source="AffPCL, Section 5.2, property (i)",
    text=(
        "E||g^{c=>i}||^2 at the central solutions is at most a federated term sigma^2/n, the "
        "square ||E g^{c->i}||^2, and (sigma^2/n) chi^2(mu^i, mu^0)."
    ),
    latex=r"\mathbb E\|g^{c\Rightarrow i}\|^2\le\tfrac{\sigma^2}{n}+\|\mathbb E g^{c\to i}\|^2"
    r"+\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)",
    kind="upper",
    space=SYSTEMS,
    measure=go.importance_second_moment,
    note=(
        "An upper bound, no identity, with constant one: E_{mu^0}(rho^i)^2 = 1 + chi^2 exactly, so "
        "that the factor 2 in Lemma G.2's H_1 is not needed. sigma contains x_*^c (C.6)."
    ),
)
CHI2_EXTRA = rc.Claim(
    id="affpcl.sec52_chi2_extra",
    source="AffPCL, Section 5.2, property (i) read as the difference that the ratio makes",
    text=(
        "The ratio adds at most (sigma^2/n) chi^2(mu^i, mu^0) to (1/n) E_{mu^0}||g^{c->i}||^2, "
        "what the independent samples contribute without it."
    ),
    latex=r"\tfrac1n\mathbb E_{\mu^0}[((\rho^i)^2-1)\|g^{c\to i}\|^2]"
    r"\le\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)",
    kind="upper",
    space=SYSTEMS,
    measure=partial(go.importance_increase, first_order=False),
    expect="violated",
    note=(
        "(rho^i)^2 - 1 has mean chi^2, but its positive part has one of first order in the "
        "distance of the environments, and ||g^{c->i}|| may be large there alone. With mu^0 = "
        "(1/4, 1/4, 1/2), rho^i = 1 + e on the first two states and 1 - e on the last, and "
        "g^{c->i} = (s, -s, 0), the difference is (e + e^2/2) s^2/n and chi^2 = e^2. The rate is "
        "untouched: the sum obeys affpcl.sec52_chi2, and the new term is one of sigma^2 "
        "delta_env/n."
    ),
    corrected="affpcl.sec52_chi2_extra_corrected",
)
CHI2_EXTRA_CORRECTED = rc.Claim(
    id="affpcl.sec52_chi2_extra_corrected",
    source="AffPCL, Section 5.2, property (i) with a first-order term",
    text="The ratio adds at most (sigma^2/n) (chi^2(mu^i, mu^0) + 2 delta_env^i).",
    latex=r"\tfrac1n\mathbb E_{\mu^0}[((\rho^i)^2-1)\|g^{c\to i}\|^2]"
    r"\le\tfrac{\sigma^2}{n}(\chi^2(\mu^i,\mu^0)+2\delta_{\mathrm{env}}^i)",
    kind="upper",
    space=SYSTEMS,
    measure=partial(go.importance_increase, first_order=True),
    derivation=(
        "Where rho > 1, rho^2 - 1 = (rho - 1)^2 + 2 (rho - 1); elsewhere it is negative. The mean "
        "of (rho - 1)^2 is at most chi^2, that of the positive part of rho - 1 is delta_env^i, and "
        "||g^{c->i}|| <= sigma."
    ),
)
RHO = rc.Claim(
    id="affpcl.sec52_rho",
    source="AffPCL, Section 5.2, property (iii)",
    text="rho^i(s) <= n.",
    latex=r"\rho^i(s)\le n",
    kind="upper",
    space=SYSTEMS,
    measure=go.ratio_bound,
)
CHI2_TV = rc.Claim(
    id="affpcl.sec52_chi2_tv",
    source="AffPCL, Section 5.2, property (ii)",
    text="chi^2(mu^i, mu^0) <= max{||rho^i||_inf, 1} delta_env.",
    latex=r"\chi^2(\mu^i,\mu^0)\le\max\{\|\rho^i\|_\infty,1\}\delta_{\mathrm{env}}",
    kind="upper",
    space=SYSTEMS,
    measure=go.chi2_by_total_variation,
    note="Lemma D.3 has the agent's own distance, which is at most (1 - 1/n) delta_env.",
)
CHAIN = rc.Claim(
    id="affpcl.sec52_chain",
    source="AffPCL, Section 5.2",
    text="(sigma^2/n) chi^2(mu^i, mu^0) <= sigma^2 delta_env.",
    latex=r"\tfrac{\sigma^2}{n}\chi^2(\mu^i,\mu^0)\le\sigma^2\delta_{\mathrm{env}}",
    kind="upper",
    space=SYSTEMS,
    measure=go.extra_variance,
)
CLIENT = rc.Claim(
    id="affpcl.sec52_client",
    source="AffPCL, Section 5.2",
    text=(
        "Applied by the client the ratio is unbounded and so is the second moment: an agent that "
        "sees a common state with chance epsilon has mu^0/mu^i >= 1/(4 epsilon) and second moment "
        ">= 1/(16 epsilon) for a direction of length one."
    ),
    latex=r"\sup_s\tfrac{\mu^0(s)}{\mu^i(s)}\ge\tfrac1{4\varepsilon},\quad"
    r"\mathbb E_{\mu^i}\|\tfrac{\mu^0}{\mu^i}h\|^2\ge\tfrac1{16\varepsilon}",
    kind="lower",
    space=RARE,
    measure=lambda i: go.client_side_of_rare_state(go.rare_state(i.epsilon, i.others), i.epsilon),
)
CLIENT_FACTOR = rc.Claim(
    id="affpcl.sec52_client_factor",
    source="AffPCL, Section 5.2",
    text=(
        "For a direction of length one the samples contribute (1 + chi^2(mu^i, mu^0))/n if the "
        "server applies the ratio, and 1 + chi^2(mu^0, mu^i), without 1/n, if the client does."
    ),
    latex=r"\tfrac1n(1+\chi^2(\mu^i,\mu^0))\ \text{and}\ 1+\chi^2(\mu^0,\mu^i)",
    kind="identity",
    space=EVERYWHERE,
    measure=go.client_side,
)
