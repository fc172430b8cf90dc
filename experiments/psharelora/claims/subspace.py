"""P-ShareLoRA, Definitions 4.1 and A.1, equation (4.1), Remark 1: shared columns."""

from __future__ import annotations

from itertools import combinations, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims._spaces import adaptation, users
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import subspace as at
from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import Numbers, squares, transpose

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
    users = adaptation(left, right, rest)
    other = adaptation(fit_left[..., : users.k], fit_right[:, :, : users.k], 0)
    return SimpleNamespace(users=users, fit=other)


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


def projector(B: Numbers) -> Numbers:
    """B B' of orthonormal columns (..., d, k)."""
    return np.asarray(B @ transpose(B))


def stacking(left: Numbers, W: Numbers) -> rc.Sides:
    """Shared B gives rank <= k: for every minor of size k + 1, its even and odd permutations.

    ``left`` (..., d1, k) and W (..., N, k, d2); both sums agree where the determinant is zero.
    """
    X = at.beside(left[..., None, :, :] @ W)
    size = left.shape[-1] + 1
    sums: tuple[list[Numbers], list[Numbers]] = ([], [])
    zero = X[..., 0, 0] * 0
    for rows in combinations(range(X.shape[-2]), size):
        for columns in combinations(range(X.shape[-1]), size):
            total = [zero, zero]
            for order in permutations(range(size)):
                odd = sum(a > b for a, b in combinations(order, 2)) % 2
                term = zero + 1
                for row, place in zip(rows, order, strict=True):
                    term = term * X[..., row, columns[place]]
                total[odd] = total[odd] + term
            for side, value in zip(sums, total, strict=True):
                side.append(value)
    if not sums[0]:
        return zero[..., None], zero[..., None]
    return np.stack(sums[0], axis=-1), np.stack(sums[1], axis=-1)


@PAPER.identity(
    "S_sets",
    ref="Section 3: S_ShareLoRA",
    tex=r"\{B[W_1,\dots,W_N]\}=\{\Delta\Theta:\operatorname{rank}\Delta\Theta\le k\}",
    on=FACTORS,
    note="One way: the even and odd permutations of every minor of size k + 1 of B W agree. The "
    "other: a matrix of rank k equals B B' times itself, B its left singular vectors. Side by "
    "side the shared factor is the left one; sharing the right one would need the users' matrices "
    "on top of each other.",
)
def S_sets(users: at.Adaptation, left: Numbers, right: Numbers) -> rc.Sides:
    """Delta Theta = B [W_1, ..., W_N] for one B with k columns if and only if rank(Delta Theta) <=
    k.
    """
    even, odd = stacking(left, right)
    flat = even.shape[0], -1
    measured = np.concatenate([even, users.best.reshape(flat)], axis=-1)
    return measured, np.concatenate([odd, users.delta.reshape(flat)], axis=-1)


@PAPER.upper(
    "S_sets_ball",
    ref="Section 3: (3.1) and S_ShareLoRA share the bound B",
    tex=r"\|\Theta_i^\star\|_F\le B\Rightarrow\|\Delta\Theta_i^\star\|_F\le B",
    on=STARTED,
    expect="violated",
    note="Theta_init = -Theta* has ||Delta Theta*|| = 2B. The proof of Theorem 4.1 compares the "
    "maximum with Theta_init + Theta_diamond and so needs it in S_ShareLoRA: from scratch it is, "
    "as ||Theta_diamond,i|| <= ||Theta*_i|| (psl.B1_chain_feasible), otherwise the ball must be "
    "larger. One user, one parameter, Theta_init = -B, Theta* = B: Delta Theta* = 2 B is of rank "
    "one with Sigma_tail = 0, but the estimate stops at 0 however many comparisons there are.",
    corrected="S_sets_ball_corrected",
    reading_of="S_sets",
    printed_as="ours",
    reading="The proof of Theorem 4.1 compares the maximum over S_ShareLoRA with Theta_init + "
    "Theta_diamond, as if the ball of (3.1) were enough for that one to be in the set.",
    family=[{"left": [[2.0]], "right": [[[1.0]]], "rest": [[[0.0]]], "init": [[-1.0]]}],
)
def S_sets_ball(users: Adaptation, init: rc.Numbers) -> rc.Sides:
    """||Theta*_i||_F <= B, which (3.1) assumes, gives ||Delta Theta*_i||_F <= B, which S_LoRA and
    S_ShareLoRA need.
    """
    return at.energy(users, init)


@PAPER.upper(
    "S_sets_ball_corrected",
    ref="Section 3, corrected: the ball of S_ShareLoRA",
    on=S_sets_ball.space,
    tex=r"\|\Delta\Theta_i^\star\|_F\le B+\|\Theta^{\rm init}\|_F",
    reading_of="S_sets",
    derivation="Triangle inequality; attained.",
)
def S_sets_ball_corrected(users: at.Adaptation, init: rc.Numbers) -> rc.Sides:
    """||Delta Theta*_i||_F <= B + ||Theta_init||_F if ||Theta*_i||_F <= B."""
    return at.energy_corrected(users, init)


@PAPER.identity(
    "def_4_1",
    ref="Definition 4.1 and Lemmas 5 and 8",
    tex=r"\sigma_k^2/N=\sigma_k(D^\top D/N),\quad\Sigma_{tail}=\|D-\Theta^\diamond\|_F^2",
    on=PLAIN,
)
def def_4_1(users: at.Adaptation) -> rc.Sides:
    """sigma_k^2/N = sigma_k(D'D/N) for D = Delta Theta*, and Sigma_tail is the squared distance of
    D from its best approximation of rank k.
    """
    gram = transpose(users.joint) @ users.joint / users.users
    measured = at.eigen(gram)[0][..., users.k - 1], users.tail
    return np.stack(measured, axis=-1), np.stack([users.nu, users.tail_sum], axis=-1)


@PAPER.upper(
    "remark_1",
    ref="Remark 1",
    tex=r"k\nu+\Sigma_{tail}/N\le(B+\|\Theta^{\rm init}\|_F)^2",
    on=STARTED,
    note="What Remark 1 says of energy, with its constant. It bounds the tail only near the "
    "largest nu: up to nu = B^2/(k + 1) all of sigma_1, ..., sigma_{k+1} can be equal, so that a "
    "larger nu alone does not mean that the first k dominate. The remark goes from ||Theta*||_F^2 "
    "<= N B^2 to the energy of Delta Theta*, for a fixed Theta_init, as here.",
    derivation="k sigma_k^2 + Sigma_tail <= ||Delta Theta*||_F^2, and the triangle inequality. "
    "Attained.",
)
def remark_1(users: at.Adaptation, init: Numbers) -> rc.Sides:
    """k nu + Sigma_tail/N <= (B + ||Theta_init||_F)^2, B^2 from scratch."""
    B = np.sqrt(squares(users.delta + init[..., None, :, :]).max(axis=-1))
    return users.k * users.nu + users.tail / users.users, (B + np.sqrt(squares(init))) ** 2


@PAPER.identity(
    "eq_4_1",
    ref="equation (4.1)",
    tex=r"\|D-B^\diamond W^\diamond\|_F^2=\Sigma_{tail},\quad W^\diamond W^{\diamond\top}="
    r"\Lambda_k^2",
    on=PLAIN,
    note="Unique for sigma_k > sigma_{k+1} only. The minimum over rank = k, as (4.1) has it, is "
    "not attained where D has a smaller rank; rank <= k is meant.",
)
def eq_4_1(users: at.Adaptation) -> rc.Sides:
    """||D - B W||_F^2 = Sigma_tail and W W' = Lambda_k^2 for B = U_k, W = Lambda_k V_k' = B'D."""
    gram = (users.W @ transpose(users.W)).sum(axis=-3)
    diagonal = users.sigma2[..., None, : users.k] * np.eye(users.k, dtype=int)
    lead = users.tail_sum.shape
    measured = users.tail[..., None], gram.reshape(*lead, -1)
    bound = users.tail_sum[..., None], diagonal.reshape(*lead, -1)
    return np.concatenate(measured, axis=-1), np.concatenate(bound, axis=-1)


@PAPER.lower(
    "eq_4_1_best",
    ref="equation (4.1): that it is the minimum",
    tex=r"\|D-X\|_F^2\ge\Sigma_{tail}",
    on=FITTED,
)
def eq_4_1_best(users: Any, fit: Any) -> rc.Sides:
    """||D - X||_F^2 >= Sigma_tail for every X of rank at most k."""
    return squares(users.delta - fit.delta).sum(axis=-1), users.tail


@PAPER.identity(
    "def_A1",
    ref="Definition A.1",
    tex=r"\tfrac1{\sqrt2}\|B_1B_1^\top-B_2B_2^\top\|_F=\|B_1^\top\bar B_2\|_F",
    on=FRAMES,
    note="Both count all principal angles: sqrt(sum sin^2). For columns k1 and k2 the first one "
    "has |k1 - k2|/2 under the root beside it.",
)
def def_A1(Q1: Numbers, Q2: Numbers, k: int) -> rc.Sides:
    """||B1 B1' - B2 B2'||_F / sqrt 2 = ||B1' B2perp||_F for k columns each."""
    B1, B2, rest = Q1[..., :k], Q2[..., :k], Q2[..., k:]
    apart = squares(projector(B1) - projector(B2))
    return np.sqrt(apart / 2), np.sqrt(squares(transpose(B1) @ rest) + 0 * apart)


@PAPER.upper(
    "def_A1_range",
    ref="Definition A.1: its range",
    tex=r"\operatorname{dist}\le\sqrt{\min(k,d-k)}",
    on=FRAMES,
    derivation="k squared sines, of which at least 2 k - d are zero.",
    printed_as="ours",
)
def def_A1_range(Q1: Numbers, Q2: Numbers, k: int) -> rc.Sides:
    """0 <= dist <= sqrt(min(k, d - k))."""
    distance = at.sine(Q1[..., :k], Q2[..., :k])
    return distance, np.sqrt(min(k, Q1.shape[-1] - k) + 0 * distance)
