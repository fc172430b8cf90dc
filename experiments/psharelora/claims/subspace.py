"""P-ShareLoRA, Definitions 4.1 and A.1, equation (4.1), Remark 1: shared columns."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.psharelora.claims._spaces import adaptation, users
from experiments.psharelora.theory import subspace as at

START = {"init": rc.reals("d1", "d2", magnitude=(0.1, 3.0))}
STARTED = users(START, meaning={"init": "Theta_init of all users"})
PLAIN = users(sizes={"N": (1, 2)})


def _whole(*, left: Any, right: Any) -> SimpleNamespace:
    """Delta Theta* = left right, without a rest."""
    return SimpleNamespace(left=left, right=right, users=adaptation(left, right, 0))


RANGE = (0.1, 3.0)
FACTORS = rc.Space(
    fields={
        "left": rc.reals("d1", "k", magnitude=RANGE),
        "right": rc.reals("N", "k", "d2", magnitude=RANGE),
    },
    sizes={"N": (1, 3), "d1": (1, 3), "d2": (1, 2), "k": (1, 2)},
    view=_whole,
    batched=True,
    meaning={"left": "B", "right": "the W_i"},
)


def _other(*, left: Any, right: Any, rest: Any, fit_left: Any, fit_right: Any) -> SimpleNamespace:
    found = adaptation(left, right, rest)
    other = adaptation(fit_left[..., : found.k], fit_right[:, :, : found.k], 0)
    return SimpleNamespace(users=found, fit=other)


#: A second matrix of rank at most k.
FITS = {
    "fit_left": rc.reals("d1", "k", magnitude=RANGE),
    "fit_right": rc.reals("N", "k", "d2", magnitude=RANGE),
}
FIT_MEANING = {"fit_left": "B of a matrix of rank k", "fit_right": "its W_i"}
FITTED = users(FITS, view=_other, meaning=FIT_MEANING)


def _frames(*, first: Any, second: Any) -> SimpleNamespace:
    k = min(first.shape[-2], first.shape[-1])
    return SimpleNamespace(Q1=at.rotated(first), Q2=at.rotated(second), k=k)


FRAMES = rc.Space(
    fields={"first": rc.reals("k", "d"), "second": rc.reals("k", "d")},
    sizes={"k": (1, 3), "d": (1, 4)},
    view=_frames,
    batched=True,
    meaning={
        "first": "B1 is the first k columns of the product of reflections along these",
        "second": "B2, the same",
    },
)

S_SETS = rc.Claim(
    id="psl.S_sets",
    source="P-ShareLoRA, Section 3: S_ShareLoRA",
    text="Delta Theta = B [W_1, ..., W_N] for one B with k columns if and only if rank(Delta Theta)"
    " <= k.",
    latex=r"\{B[W_1,\dots,W_N]\}=\{\Delta\Theta:\operatorname{rank}\Delta\Theta\le k\}",
    kind="identity",
    space=FACTORS,
    measure=lambda s: at.shared(s.users, s.left, s.right),
    note="One way: the even and odd permutations of every minor of size k + 1 of B W agree. The "
    "other: a matrix of rank k equals B B' times itself, B its left singular vectors. Side by "
    "side the shared factor is the left one; sharing the right one would need the users' matrices "
    "on top of each other.",
)
S_SETS_BALL = rc.Claim(
    id="psl.S_sets_ball",
    source="P-ShareLoRA, Section 3: (3.1) and S_ShareLoRA share the bound B",
    text="||Theta*_i||_F <= B, which (3.1) assumes, gives ||Delta Theta*_i||_F <= B, which S_LoRA "
    "and S_ShareLoRA need.",
    latex=r"\|\Theta_i^\star\|_F\le B\Rightarrow\|\Delta\Theta_i^\star\|_F\le B",
    kind="upper",
    space=STARTED,
    measure=lambda s: at.energy(s.users, s.init),
    expect="violated",
    note="Theta_init = -Theta* has ||Delta Theta*|| = 2B. The proof of Theorem 4.1 compares the "
    "maximum with Theta_init + Theta_diamond and so needs it in S_ShareLoRA: from scratch it is, "
    "as ||Theta_diamond,i|| <= ||Theta*_i|| (psl.B1_chain_feasible), otherwise the ball must be "
    "larger. One user, one parameter, Theta_init = -B, Theta* = B: Delta Theta* = 2 B is of rank "
    "one with Sigma_tail = 0, but the estimate stops at 0 however many comparisons there are.",
    corrected="psl.S_sets_ball_corrected",
)
S_SETS_BALL_CORRECTED = replace(
    S_SETS_BALL,
    id="psl.S_sets_ball_corrected",
    source="P-ShareLoRA, Section 3, corrected: the ball of S_ShareLoRA",
    text="||Delta Theta*_i||_F <= B + ||Theta_init||_F.",
    latex=r"\|\Delta\Theta_i^\star\|_F\le B+\|\Theta^{\rm init}\|_F",
    measure=lambda s: at.energy_corrected(s.users, s.init),
    expect="holds",
    note="",
    corrected=None,
    derivation="Triangle inequality; attained.",
)
DEF_4_1 = rc.Claim(
    id="psl.def_4_1",
    source="P-ShareLoRA, Definition 4.1 and Lemmas 5 and 8",
    text="sigma_k^2/N = sigma_k(D'D/N) for D = Delta Theta*, and Sigma_tail is the squared "
    "distance of D from its best approximation of rank k.",
    latex=r"\sigma_k^2/N=\sigma_k(D^\top D/N),\quad\Sigma_{tail}=\|D-\Theta^\diamond\|_F^2",
    kind="identity",
    space=PLAIN,
    measure=lambda s: at.def_4_1(s.users),
)
REMARK_1 = rc.Claim(
    id="psl.remark_1",
    source="P-ShareLoRA, Remark 1",
    text="k nu + Sigma_tail/N <= (B + ||Theta_init||_F)^2, B^2 from scratch.",
    latex=r"k\nu+\Sigma_{tail}/N\le(B+\|\Theta^{\rm init}\|_F)^2",
    kind="upper",
    space=STARTED,
    measure=lambda s: at.remark_1(s.users, s.init),
    note="What Remark 1 says of energy, with its constant. It bounds the tail only near the "
    "largest nu: up to nu = B^2/(k + 1) all of sigma_1, ..., sigma_{k+1} can be equal, so that a "
    "larger nu alone does not mean that the first k dominate. The remark names Theta*, Definition "
    "4.1 Delta Theta*.",
    derivation="k sigma_k^2 + Sigma_tail <= ||Delta Theta*||_F^2, and the triangle inequality. "
    "Attained.",
)
EQ_4_1 = rc.Claim(
    id="psl.eq_4_1",
    source="P-ShareLoRA, equation (4.1)",
    text="||D - B W||_F^2 = Sigma_tail and W W' = Lambda_k^2 for B = U_k, W = Lambda_k V_k' = B'D.",
    latex=r"\|D-B^\diamond W^\diamond\|_F^2=\Sigma_{tail},\quad W^\diamond W^{\diamond\top}="
    r"\Lambda_k^2",
    kind="identity",
    space=PLAIN,
    measure=lambda s: at.eq_4_1(s.users),
    note="Unique for sigma_k > sigma_{k+1} only. The minimum over rank = k, as (4.1) has it, is "
    "not attained where D has a smaller rank; rank <= k is meant.",
)
EQ_4_1_BEST = rc.Claim(
    id="psl.eq_4_1_best",
    source="P-ShareLoRA, equation (4.1): that it is the minimum",
    text="||D - X||_F^2 >= Sigma_tail for every X of rank at most k.",
    latex=r"\|D-X\|_F^2\ge\Sigma_{tail}",
    kind="lower",
    space=FITTED,
    measure=lambda s: at.eq_4_1_best(s.users, s.fit.delta),
)
DEF_A1 = rc.Claim(
    id="psl.def_A1",
    source="P-ShareLoRA, Definition A.1",
    text="||B1 B1' - B2 B2'||_F / sqrt 2 = ||B1' B2perp||_F for k columns each.",
    latex=r"\tfrac1{\sqrt2}\|B_1B_1^\top-B_2B_2^\top\|_F=\|B_1^\top\bar B_2\|_F",
    kind="identity",
    space=FRAMES,
    measure=lambda s: at.def_A1(s.Q1, s.Q2, s.k),
    note="Both count all principal angles: sqrt(sum sin^2). For columns k1 and k2 the first one "
    "has |k1 - k2|/2 under the root beside it.",
)
DEF_A1_RANGE = rc.Claim(
    id="psl.def_A1_range",
    source="P-ShareLoRA, Definition A.1: its range",
    text="0 <= dist <= sqrt(min(k, d - k)).",
    latex=r"\operatorname{dist}\le\sqrt{\min(k,d-k)}",
    kind="upper",
    space=FRAMES,
    measure=lambda s: at.def_A1_range(s.Q1, s.Q2, s.k),
    derivation="k squared sines, of which at least 2 k - d are zero.",
)
