"""P-ShareLoRA, Definitions 4.2 and A.2, Assumption 2, Lemmas 1 to 3, Proposition 1."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments.audit import Claim, Space, interval, positive, reals, simplex, whole_numbers
from experiments.audit._fields import Field
from experiments.claims.psl._spaces import TRAJECTORIES, adaptation, users
from linsys.theory import preference as model
from linsys.theory import preference_chance as at

_CHANCE = {"low": 0.01, "high": 0.99}
DATA: dict[str, Field] = {
    "truth": interval("N", "p", **_CHANCE),
    "weights": simplex("p"),
    "order": interval("n"),
    "delta": interval(low=0.01),
}
MEANING = {
    "truth": "P*_ij, user i's chance to prefer the first trajectory of pair j",
    "weights": "chances of the pairs",
    "order": "as long as N_p, nothing else",
}
SIZES = {"N": (1, 2), "p": (1, 2), "n": (1, 2), "M": (1, 3)}


def _data(*, truth: Any, weights: Any, order: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(data=at.DataSets(truth, weights, order.shape[-1]), **others)


BRACKETED = Space(
    fields={
        **DATA,
        "centres": interval("M", "N", "p", **_CHANCE),
        "share": interval(),
        "C": positive(low=1.0, high=100.0),
    },
    sizes=SIZES,
    view=_data,
    batched=True,
    meaning={
        **MEANING,
        "centres": "the class is what lies in brackets around these",
        "share": "the brackets' width as a share of 1/(N N_p)",
        "C": "C1",
    },
)


def finite(sizes: dict[str, tuple[int, int]]) -> Space:
    """A class of M members, their exact bracketing number at most M."""
    return Space(
        fields={
            **DATA,
            "members": interval("M", "N", "p", **_CHANCE),
            "C": positive(low=1.0, high=100.0),
        },
        sizes={**SIZES, **sizes},
        view=_data,
        batched=True,
        meaning={**MEANING, "members": "the class", "C": "C2"},
    )


LOGITS = Space(
    fields={
        "a": reals("n", magnitude=(0.01, 5.0)),
        "b": reals("n", magnitude=(0.01, 5.0)),
        "delta": interval(low=0.01),
    },
    sizes={"n": (1, 5)},
    batched=True,
    meaning={"a": "differences of true rewards, one comparison each", "b": "those of another"},
)


def _class(**sizes: Any) -> SimpleNamespace:
    k = np.minimum(sizes["k"], np.minimum(sizes["d1"], sizes["N"] * sizes["d2"]))
    nu = sizes.pop("nu", None)
    return SimpleNamespace(c=at.Class(**{**sizes, "k": k}), nu=nu)


CLASS_FIELDS: dict[str, Field] = {
    "N": whole_numbers(low=1, high=1000),
    "n": whole_numbers(low=1, high=10000),
    "d1": whole_numbers(low=1, high=100),
    "d2": whole_numbers(low=1, high=100),
    "k": whole_numbers(low=1, high=10),
    "B": positive(low=0.1, high=10.0),
    "L1": positive(low=0.1, high=10.0),
    "delta": interval(low=0.01),
}
CLASS_MEANING = {"n": "N_p", "k": "k; more than min(d1, N d2) is that"}
CLASSES = Space(fields=CLASS_FIELDS, view=_class, batched=True, meaning=CLASS_MEANING)


def _wide(**sizes: Any) -> SimpleNamespace:
    """d1 at least ten times k, as "d1 >> k" asks."""
    c = _class(**sizes).c
    return SimpleNamespace(c=replace(c, d1=10 * c.k * c.d1))


def _both(**sizes: Any) -> SimpleNamespace:
    """d1 and N d2 at least twice k."""
    return SimpleNamespace(
        c=replace(
            _class(**sizes).c,
            k=sizes["k"],
            d1=sizes["d1"] + 2 * sizes["k"],
            d2=sizes["d2"] + 2 * sizes["k"],
        )
    )


SEQUENCE = Space(
    fields={
        "q": interval(low=0.05, high=0.95),
        "share": interval(),
    },
    batched=True,
    meaning={
        "q": "the chance of the first of two pairs",
        "share": "q times the first one's (Delta r)^2/D",
    },
)
FEW = Space(
    fields={
        "x": reals("p", "d1", magnitude=(0.1, 3.0)),
        "weights": simplex("p"),
        "shown": interval("n"),
        "theta": reals("d1", magnitude=(0.1, 3.0)),
    },
    sizes={"p": (2, 3), "d1": (3, 4), "n": (1, 2)},
    batched=True,
    meaning={
        "x": "features' differences of the pairs, d2 = 1",
        "shown": "which pairs are drawn",
        "theta": "Theta_1 - Theta_2",
    },
)

DEF_4_2 = Claim(
    id="psl.def_4_2",
    source="P-ShareLoRA, Definition 4.2 and Appendix C.1's brackets",
    text="||g1 - g2||_1 = epsilon for g = f -+ epsilon/(4N), over users and both outcomes.",
    latex=r"\sum_i\sum_o|g_1-g_2|=\epsilon",
    kind="identity",
    space=Space(
        fields={"f": interval("N"), "epsilon": positive(low=0.001, high=1.0)},
        sizes={"N": (1, 4)},
        batched=True,
        meaning={"f": "a chance for each user"},
    ),
    measure=lambda s: at.bracket(s.f, s.epsilon),
)
DEF_A2 = Claim(
    id="psl.def_A2",
    source="P-ShareLoRA, Definition A.2: what Lemma 1 needs of a bracket",
    text="sum_o g2(o) <= 1 + epsilon for a bracket of width epsilon that holds a distribution.",
    latex=r"\sum_og_2(o)\le1+\epsilon",
    kind="upper",
    space=Space(
        fields={
            "P": simplex(2),
            "room": simplex(4),
            "epsilon": positive(low=0.001, high=1.0),
        },
        batched=True,
        meaning={"room": "how the width lies below and above both outcomes"},
    ),
    measure=lambda s: at.bracket_mass(s.P, s.room, s.epsilon),
    derivation="g2 = g1 + (g2 - g1) and sum g1 <= sum P = 1. Attained with g1 = P.",
)
LEMMA_1 = Claim(
    id="psl.lemma_1",
    source="P-ShareLoRA, Lemma 1",
    text="With chance at least 1 - delta, sum_ij log(P_r/P*) <= C1 log(N_br(1/(N N_p))/delta) for "
    "all r of the class, for any delta in (0, 1].",
    latex=r"\sum_{i,j}\log\frac{P_{r_i}}{P_{r_i^\star}}\le C_1\log\frac{\mathcal N(1/(NN_p))}"
    r"\delta",
    kind="upper",
    space=BRACKETED,
    measure=lambda s: at.lemma_1(s.data, s.centres, s.share, s.delta, s.C, 0),
    expect="violated",
    note="For a class within one bracket the right side is C1 log(1/delta), which vanishes for "
    "delta near 1, but the maximum over the bracket gains something on every data set: N = N_p = "
    "1, P* = 1/2, all P in [1/4, 3/4] gain log 1.5 for sure, so that every delta > 1.5^(-1/C1) "
    "is a counterexample for that C1. Harmless for N_br >= 2.",
    corrected="psl.lemma_1_corrected",
)
LEMMA_1_CORRECTED = replace(
    LEMMA_1,
    id="psl.lemma_1_corrected",
    source="P-ShareLoRA, Lemma 1, corrected, with its constant",
    text="With chance at least 1 - delta, sum_ij log(P_r/P*) <= log(N_br(1/(N N_p))/delta) + 1/N.",
    latex=r"\sum_{i,j}\log\frac{P_{r_i}}{P_{r_i^\star}}\le\log\frac{\mathcal N(1/(NN_p))}\delta+"
    r"\frac1N",
    measure=lambda s: at.lemma_1(s.data, s.centres, s.share, s.delta, 1 + 0 * s.C, 1),
    expect="holds",
    note="So C1 = 1 + 1/log 2 does wherever N_br >= 2.",
    corrected=None,
    derivation="E prod g2/P* <= prod_j prod_i (1 + e_i) <= e^(N_p epsilon) = e^(1/N) for the upper "
    "end of each bracket, as sum_i e_i <= epsilon; Markov's inequality for each of N_br.",
)
LEMMA_3 = Claim(
    id="psl.lemma_3",
    source="P-ShareLoRA, Lemma 3",
    text="With chance at least 1 - delta, (1/N) sum_i E||P_r - P*||_1^2 <= (C2/(N N_p)) (sum_ij "
    "log(P*/P_r) + log(N_br/delta)) for all r of the class.",
    latex=r"\frac1N\sum_i\mathbb E\|P_{r_i}-P_{r_i^\star}\|_1^2\le\frac{C_2}{NN_p}\Big(\sum_{i,j}"
    r"\log\frac{P_{r_i^\star}}{P_{r_i}}+\log\frac{\mathcal N}\delta\Big)",
    kind="upper",
    space=finite({"n": (1, 2)}),
    measure=lambda s: at.lemma_3(s.data, s.members, s.delta, s.C, 1),
    expect="violated",
    note="The two logarithms cannot have one coefficient. A class of one r with P_r(1) = q near 1 "
    "and P*(1) = p: with chance p the outcome is 1, the bracket is log(p/q) + log(1/delta), and "
    "for delta a little below p that is about 1 - q, below 4 (q - p)^2/C2 whatever C2 is. Markov's "
    "inequality with the root of the likelihood ratio gives log(N_br/delta) twice.",
    corrected="psl.lemma_3_corrected",
)
LEMMA_3_CORRECTED = replace(
    LEMMA_3,
    id="psl.lemma_3_corrected",
    source="P-ShareLoRA, Lemma 3, corrected, with its constant, for a finite class",
    text="(1/N) sum_i E||P_r - P*||_1^2 <= (4/(N N_p)) (sum_ij log(P*/P_r) + 2 log(M/delta)).",
    latex=r"\frac1N\sum_i\mathbb E\|P_{r_i}-P_{r_i^\star}\|_1^2\le\frac4{NN_p}\Big(\sum_{i,j}"
    r"\log\frac{P_{r_i^\star}}{P_{r_i}}+2\log\frac M\delta\Big)",
    measure=lambda s: at.lemma_3(s.data, s.members, s.delta, 4 + 0 * s.C, 2),
    expect="holds",
    note="With brackets of width 1/(N N_p) in place of members: (24/(N N_p)) (sum/2 + log(N_br/"
    "delta) + 1).",
    corrected=None,
    derivation="E sqrt(P/P*) = 1 - H^2 and ||P - P*||_1^2 <= 8 H^2. Markov's inequality for the "
    "product of the roots: sum log(P/P*)/2 <= N_p sum_i log(1 - H_i^2) + log(M/delta). A bracket "
    "has mass 1 + e: 1 - E sqrt(g2/P*) >= ||g2 - P*||_1^2/(4 (2 + e)) - e/2.",
)
LEMMA_2 = replace(
    LEMMA_3,
    id="psl.lemma_2",
    source="P-ShareLoRA, Lemma 2",
    text="Lemma 3 for N = 1 and M comparisons.",
    space=finite({"N": (1, 1), "n": (1, 3)}),
    corrected="psl.lemma_2_corrected",
)
LEMMA_2_CORRECTED = replace(
    LEMMA_3_CORRECTED,
    id="psl.lemma_2_corrected",
    source="P-ShareLoRA, Lemma 2, corrected, with its constant, for a finite class",
    text="E||P_r - P*||_1^2 <= (4/M) (sum_j log(P*/P_r) + 2 log(members/delta)).",
    space=LEMMA_2.space,
)
LEMMA_4_MOMENT = Claim(
    id="psl.lemma_4_moment",
    source="P-ShareLoRA, Lemma 4: one comparison on average",
    text="E[P*/P] <= e^((a - b)^2/4) for P* = Phi(a), P = Phi(b).",
    latex=r"\mathbb E_{P^\star}[P^\star/P]\le e^{(a-b)^2/4}",
    kind="upper",
    space=Space(fields={"a": reals(), "b": reals()}, batched=True),
    measure=lambda s: at.moment(s.a, s.b),
    derivation="The left side is exp(A(2a - b) - 2 A(a) + A(b)) with A(x) = log(1 + e^x), A'' <= "
    "1/4. Attained to second order at a = 0.",
)
LEMMA_4_CHANCE = Claim(
    id="psl.lemma_4_chance",
    source="P-ShareLoRA, Lemma 4 as Theorem 4.1 needs it, improved",
    text="With chance at least 1 - delta, sum_ij log(P*/P_diamond) <= (1/4) sum_ij (Delta r*_i - "
    "Delta r_diamond,i)^2 + log(1/delta).",
    latex=r"\sum_{i,j}\log\frac{P_{r_i^\star}}{P_{r_i^\diamond}}\le\tfrac14\sum_{i,j}(\Delta "
    r"r_i^\star-\Delta r_i^\diamond)^2+\log\tfrac1\delta",
    kind="upper",
    space=LOGITS,
    measure=lambda s: at.second_order(s.a, s.b, s.delta),
    note="At most N_p L1^2 Sigma_tail + log(1/delta), in place of the 2 L L1 N_p sqrt(N "
    "Sigma_tail) that the proof of Theorem 4.1 takes from Lemma 4: the bias of dist^2 becomes "
    "Sigma_tail/(N nu) in place of sqrt(Sigma_tail/N)/nu.",
    derivation="Markov's inequality and psl.lemma_4_moment, comparison by comparison.",
)
LEMMA_4_MEAN = Claim(
    id="psl.lemma_4_mean",
    source="P-ShareLoRA, Lemma 4 for all data, improved",
    text="(1/N) sum_i E KL(P*_i || P_diamond,i) <= L1^2 Sigma_tail/(2N), linear rewards.",
    latex=r"\frac1N\sum_i\mathbb E\,\mathrm{KL}(P_i^\star\|P_i^\diamond)\le\frac{L_1^2"
    r"\Sigma_{tail}}{2N}",
    kind="upper",
    space=users(
        TRAJECTORIES,
        view=lambda *, psi, mu0, mu1, left, right, rest: SimpleNamespace(
            users=adaptation(left, right, rest), pairs=model.Pairs(psi, mu0, mu1)
        ),
    ),
    measure=lambda s: at.lemma_4_mean(s.users, s.pairs),
    derivation="KL <= (a - b)^2/8, as A'' <= 1/4, and |a - b| <= 2 L1 ||Delta Theta*_i - "
    "Theta_diamond,i||_F.",
)
PROP_1 = Claim(
    id="psl.prop_1",
    source="P-ShareLoRA, Proposition 1, with the constants of its proof",
    text="log(N_br(1/(N N_p))/delta) <= k (d1 + N d2) log(1 + 4 N^2 N_p L1 sqrt((k + N B^2)(1 + "
    "B^2))) + log(1/delta).",
    latex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le k(d_1+Nd_2)\log\big(1+4N^2N_pL_1\sqrt{(k+NB^2)"
    r"(1+B^2)}\big)+\log\tfrac1\delta",
    kind="upper",
    space=CLASSES,
    measure=lambda s: at.prop_1(s.c),
    note="The measured side is what volumes force N_br to be for the features L1 e_j. O(k (d1 + N "
    "d2) log(N N_p/delta)) with a constant that depends on B and L1; read for N N_p = delta = 1 "
    "its right side is zero.",
    derivation="psl.eq_C1_corrected and a cover of the ball of psl.eq_C1_ball_corrected.",
)
PROP_1_USERS = Claim(
    id="psl.prop_1_users",
    source="P-ShareLoRA, Proposition 1 in Theorem 4.1: what more users bring",
    text="log(N_br/delta)/(N N_p nu) >= k d2 log(2 N_p tanh(B L1/(2 sqrt(k d2))))/(N_p nu) for "
    "every N.",
    latex=r"\frac{\log(\mathcal N/\delta)}{NN_p\nu}\ge\frac{kd_2}{N_p\nu}\log\Big(2N_p\tanh\frac{B"
    r"L_1}{2\sqrt{kd_2}}\Big)",
    kind="lower",
    space=Space(
        fields={**CLASS_FIELDS, "nu": positive()},
        view=_class,
        batched=True,
        meaning=CLASS_MEANING,
    ),
    measure=lambda s: at.users_term(s.c, s.nu),
    note="The class counts all users' heads, N k d2 of them. So Theorem 4.1's bound of the shared "
    "columns does not improve beyond N of about d1/d2 users, while their error does, like 1/N: "
    "psl.theorem_4_1_variance.",
    derivation="A bracket's box has volume at most (epsilon/(2N))^N for each pair.",
)
PROP_1_FULL = replace(
    PROP_1,
    id="psl.prop_1_full",
    source="P-ShareLoRA, below Proposition 1: all matrices, with the constants of the proof",
    text="log(N_br(1/(N N_p))/delta) <= N d1 d2 log(1 + 4 N^2 N_p L1 sqrt(N) B) + log(1/delta).",
    latex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le Nd_1d_2\log\big(1+4N^2N_pL_1\sqrt NB\big)+"
    r"\log\tfrac1\delta",
    measure=lambda s: at.prop_1_full(s.c),
    note="",
    derivation="The same cover without factors.",
)
PROP_1_LOCAL = replace(
    PROP_1,
    id="psl.prop_1_local",
    source="P-ShareLoRA, below Proposition 1: LoRA of every user, with the constants of the proof",
    text="log(N_br(1/(N N_p))/delta) <= N k (d1 + d2) log(1 + 4 N^2 N_p L1 sqrt(N (k + B^2)(1 + "
    "B^2))) + log(1/delta).",
    latex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le Nk(d_1+d_2)\log\big(1+4N^2N_pL_1\sqrt{N(k+B^2)"
    r"(1+B^2)}\big)+\log\tfrac1\delta",
    measure=lambda s: at.prop_1_local(s.c),
    note="",
    derivation="The same cover with B_i for every user.",
)
PROP_1_LOCAL_SAVED = Claim(
    id="psl.prop_1_local_saved",
    source="P-ShareLoRA, below Proposition 1: N d1 k becomes d1 k",
    text="N k (d1 + d2) - k (d1 + N d2) = (N - 1) k d1.",
    latex=r"Nk(d_1+d_2)-k(d_1+Nd_2)=(N-1)kd_1",
    kind="identity",
    space=CLASSES,
    measure=lambda s: at.saved(s.c),
)
PROP_1_FULL_GAIN = Claim(
    id="psl.prop_1_full_gain",
    source="P-ShareLoRA, below Proposition 1: 'significantly improved when d1 >> k'",
    text="k (d1 + N d2) <= N d1 d2 for d1 >= 10 k.",
    latex=r"k(d_1+Nd_2)\le Nd_1d_2\quad(d_1\ge10k)",
    kind="upper",
    space=replace(CLASSES, view=_wide),
    measure=lambda s: at.dimensions(s.c),
    expect="violated",
    note="N d2 must be large beside k as well: the ratio is k/(N d2) + k/d1. For N d2 = k = 1 the "
    "shared form counts d1 + 1 parameters of d1.",
    corrected="psl.prop_1_full_gain_corrected",
)
PROP_1_FULL_GAIN_CORRECTED = replace(
    PROP_1_FULL_GAIN,
    id="psl.prop_1_full_gain_corrected",
    source="P-ShareLoRA, below Proposition 1, corrected: where sharing has fewer parameters",
    text="k (d1 + N d2) <= N d1 d2 for d1 >= 2k and N d2 >= 2k.",
    latex=r"k(d_1+Nd_2)\le Nd_1d_2\quad(d_1,Nd_2\ge2k)",
    space=replace(CLASSES, view=_both),
    expect="holds",
    note="",
    corrected=None,
    derivation="k/(N d2) + k/d1 <= 1.",
)
ASSUMPTION_2 = Claim(
    id="psl.assumption_2",
    source="P-ShareLoRA, Assumption 2, for one direction of Theta_1 - Theta_2",
    text="With chance at least 1 - 2 e^(-n h/l), 0.9 D <= D_hat <= 1.1 D, h = 1.1 log 1.1 - 0.1 = "
    "0.00484 and l the largest (Delta r)^2/D: N_unif = l log(2/delta)/h.",
    latex=r"P\{0.9D\le\hat D\le1.1D\}\ge1-2e^{-nh/\ell}",
    kind="upper",
    space=SEQUENCE,
    measure=lambda s: at.uniform(s.q, s.share),
    note="For n = 200 and two pairs. For linear rewards in d dimensions 2 becomes 2d (Tropp's "
    "matrix Chernoff bound) and l = max x'(E xx')^(-1) x >= d: N_unif is about 206 d log(2d/"
    "delta) at best. So the assumption is satisfiable, with an N_unif that grows with the number "
    "of parameters of one user.",
    derivation="Chernoff's bound for variables in [0, l] of mean one; 0.9 log 0.9 + 0.1 > h.",
)
ASSUMPTION_2_FEW = Claim(
    id="psl.assumption_2_few",
    source="P-ShareLoRA, Assumption 2 with the N_p of Remark 3",
    text="0.9 D <= D_hat for all reward pairs can hold with N_p < d1 (d2 = k = 1), as N_p = (d1 + "
    "N)/(N epsilon) of Remark 3 is for many users.",
    latex=r"0.9D\le\hat D\quad(N_p<d_1)",
    kind="upper",
    space=FEW,
    measure=lambda s: at.few(s.x, s.weights, s.shown, s.theta),
    expect="violated",
    note="N_p < d1 comparisons leave a direction that none of them sees, and G_r as well as G'_r "
    "hold two rewards that differ by it (for any k: by any matrix of rank 2k, so that N_unif is "
    "at least about 2k (d1 + d2 - 2k)). Theorem 4.2 asks for the assumption at n = N_p, so that "
    "N_p >= k d1 for each user; the factor 1/N of d1 k in Remark 3 is then lost.",
    corrected="psl.assumption_2",
    main=True,
)
