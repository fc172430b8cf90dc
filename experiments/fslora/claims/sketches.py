"""FSLoRA, Section 3 and Appendix D.1, D.2: sketches, their gradients, a round, and the lemmas."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import least_squares, ranks
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import steps as at
from experiments.fslora.theory.sketching import Devices, gradient, join, loss, sketches, slope
from linsys.linalg import Numbers, squares

DEVICES = least_squares()
_SOME = (0.1, 1.0)


def _sizes(*, diagonal: Any, k: Any) -> SimpleNamespace:
    """k, and r from the length of an array."""
    r = diagonal.shape[-1]
    return SimpleNamespace(k=ranks(k, r), r=r)


RANKS = rc.Space(
    fields={"diagonal": rc.interval("r"), "k": rc.whole_numbers(low=1, high=5)},
    sizes={"r": (1, 5)},
    view=_sizes,
    batched=True,
    meaning={"diagonal": "as long as r, nothing else", "k": "k; more than r is r"},
)
DENSE = rc.Space(
    fields={
        "x": rc.reals("s", "n", magnitude=_SOME),
        "d": rc.reals("s", "m", magnitude=_SOME),
        "B": rc.reals("m", "r", magnitude=_SOME),
        "A": rc.reals("r", "n", magnitude=_SOME),
        "S": rc.reals("r", "r", magnitude=_SOME),
    },
    sizes={"s": (1, 2), "m": (1, 2), "n": (1, 2), "r": (1, 3)},
    batched=True,
    meaning={"x": "inputs", "d": "W0 x - y", "S": "any matrix"},
)


def _steps(*, order: Any, k: Any, **others: Any) -> SimpleNamespace:
    """Local steps with the sketches of the k_i components that come first in ``order``."""
    r = order.shape[-1]
    above = order[..., None, :] < order[..., :, None]
    ties = order[..., None, :] == order[..., :, None]
    place = (above | (ties & np.tri(r, k=-1, dtype=bool))).sum(axis=-1)
    held = np.where(place < ranks(k, r)[..., None], 1, 0)
    S = r / ranks(k, r)[..., None] * held
    return SimpleNamespace(steps=at.LocalSteps(S=S, **others))


STEPS = rc.Space(
    fields={
        "x": rc.reals("N", "H", "s", "n", magnitude=_SOME),
        "d": rc.reals("N", "H", "s", "m", magnitude=_SOME),
        "B": rc.reals("m", "r", magnitude=_SOME),
        "A": rc.reals("r", "n", magnitude=_SOME),
        "order": rc.interval("N", "r"),
        "k": rc.whole_numbers("N", low=1, high=3),
        "gamma": rc.positive(low=0.01, high=0.5),
    },
    sizes={"N": (1, 2), "H": (1, 3), "s": (1, 1), "m": (1, 2), "n": (1, 2), "r": (1, 3)},
    view=_steps,
    batched=True,
    meaning={
        "x": "inputs of each device and step",
        "d": "W0 x - y of each device and step",
        "order": "a device's sketch has the k_i components with the smallest entries",
        "k": "ranks k_i; more than r is r",
    },
)


def _modules(*, X: Any, k: Any) -> SimpleNamespace:
    return SimpleNamespace(X=X, k=ranks(k, X.shape[-1]))


MODULES = rc.Space(
    fields={"X": rc.reals("p", "r"), "k": rc.whole_numbers(low=1, high=4)},
    sizes={"p": (1, 3), "r": (1, 4)},
    view=_modules,
    batched=True,
    meaning={"k": "k; more than r is r"},
)


def _mixed(*, values: Any, chance: Any) -> SimpleNamespace:
    """Chances of at least 1/10 divided by their number, so that no P_i is constant."""
    even = (0 * chance + 1) / chance.shape[-1]
    return SimpleNamespace(values=values, chance=(9 * chance + even) / 10)


@PAPER.identity(
    "def3_1",
    ref="Definition 3.1, and what follows from it",
    tex=r"S=\frac rk\sum_{j\in I}e_je_j^\top,\quad S^2=\frac rkS,\ \operatorname{tr}S=r",
    on=RANKS,
    note="The trace never varies: the random part of S always sums to zero, so BSA is the same "
    "for all S where all components B_j A_j are alike.",
)
def def3_1(k: Numbers, r: int) -> rc.Sides:
    """S = (r/k) sum_{j in I} e_j e_j' has S^2 = (r/k) S and trace r, and the chances of the r over
    k sets I of size k add up to one.
    """
    S, chance = sketches(k, r)
    own = np.where((chance > 0)[..., None], S, 0 * S)
    trace, ranked = own.sum(axis=-1), np.where(chance > 0, r + 0 * chance, 0 * chance)
    left = [(own * own).reshape(len(k), -1), trace, chance.sum(axis=-1)[:, None]]
    right = [(r / k[:, None, None] * own).reshape(len(k), -1), ranked, 1 + 0 * k[:, None]]
    return np.concatenate(left, axis=1), np.concatenate(right, axis=1)


@PAPER.identity(
    "ES",
    ref="Section 3.1",
    tex=r"\mathbb E[S]=I_r",
    on=RANKS,
)
def ES(k: Numbers, r: int) -> rc.Sides:
    """E S = I."""
    S, chance = sketches(k, r)
    mean = (chance[..., None] * S).sum(axis=-2)
    return mean, 1 + 0 * mean


@PAPER.identity(
    "ES_covariance",
    ref="Section 3.1, the second moments that it leaves out",
    tex=r"\operatorname{Cov}(S_{jj},S_{ll})=\Big(\frac rk-1\Big)\frac{r[j=l]-1}{r-1}",
    on=replace(RANKS, sizes={"r": (2, 5)}),
    printed_as="ours",
    derivation="E S_jj S_ll = (r/k)^2 times the chance of j and l, which is k/r for j = l and k (k "
    "- 1) / (r (r - 1)) otherwise.",
)
def ES_covariance(k: Numbers, r: int) -> rc.Sides:
    """Cov(S_jj, S_ll) = (r/k - 1) (r [j = l] - 1) / (r - 1)."""
    S, chance = sketches(k, r)
    apart = S - 1
    covariance = (chance[..., None, None] * apart[..., :, None] * apart[..., None, :]).sum(axis=-3)
    return covariance, at.covariances(k, r)


@PAPER.identity(
    "unbiased",
    uses=["ES"],
    ref="Section 3.1",
    tex=r"\mathbb E[W_0+BSA]=W_0+BA",
    on=DEVICES,
)
def unbiased(devices: Devices) -> rc.Sides:
    """E[W0 + BSA] = W0 + BA."""
    mean = devices.mean(devices.products)
    return mean, (devices.B @ devices.A)[:, None] + 0 * mean


@PAPER.identity(
    "lemma3_2",
    ref="Lemma 3.2",
    tex=r"\nabla_B\ell=\nabla\ell\,A^\top S^\top,\quad\nabla_A\ell=S^\top B^\top\nabla\ell",
    on=DENSE,
    note="Measured on least squares, against five-point differences, exact for a polynomial of "
    "degree four. For the diagonal S of Definition 3.1 the transposes change nothing.",
)
def lemma3_2(x: Numbers, d: Numbers, B: Numbers, A: Numbers, S: Numbers) -> rc.Sides:
    """The gradients of l(W0 + BSA) are grad l A'S' with respect to B and S'B' grad l with respect
    to A, for any matrix S.
    """
    analytic = join(*gradient(slope(x, d, B @ S @ A), B, A, S))
    return analytic, at.differences(
        lambda B, A: loss(x[:, None], d[:, None], B @ S[:, None] @ A), B, A
    )


@PAPER.identity(
    "sparsity",
    ref="Section 3.2",
    tex=r"\nabla_B\ell\,e_j=0,\ e_j^\top\nabla_A\ell=0\quad(j\notin I)",
    on=DEVICES,
)
def sparsity(devices: Devices) -> rc.Sides:
    """The gradients of l(W0 + BSA) are zero outside of the k columns of B and rows of A that S
    selects.
    """
    gradients = devices.each_gradient
    rows = gradients.reshape(*gradients.shape[:-1], devices.r, -1)
    kept = np.where((devices.S > 0)[..., None], rows, 0 * rows).reshape(gradients.shape)
    return gradients, kept


@PAPER.identity(
    "eq4",
    ref="equation (4)",
    tex=r"X_i^{t,h+1}=X_i^{t,h}-\gamma\nabla_X\tilde\ell(X_i^{t,h},\xi_i^{t,h};S_i^t)",
    on=STEPS,
    note="The gradients are differences of the loss, as in fslora.lemma3_2.",
)
def eq4(steps: at.LocalSteps) -> rc.Sides:
    """H local steps (4) with one sketch are H steps along -gamma times the stochastic gradient of
    l~(.; S_i).
    """
    return steps.moves, steps.descent()


@PAPER.identity(
    "total_update",
    ref="Section 3.3, display below (4)",
    tex=r"B_i^{t,H}-B_i^{t,0}=+\gamma\Big(\sum_h\Delta B_i^{t,h}\Big)(S_i^t)^\top",
    on=STEPS,
    expect="violated",
    note="A sign: (4) subtracts, and (10) and the proof have -gamma. With x = B = A = gamma = 1 "
    "and d = -2 one step moves B by +1, the display says -1. Nothing else depends on it, but who "
    "implements the display ascends.",
    corrected="total_update_corrected",
    printed_as="misprint",
)
def total_update(steps: Any) -> rc.Sides:
    """X_i^{t,H} - X_i^{t,0} = +gamma [(sum_h Delta B) S'; S'(sum_h Delta A)]."""
    return at.total_update(steps, 1)


@PAPER.identity(
    "total_update_corrected",
    ref="Section 3.3, display below (4), corrected",
    on=total_update.space,
    tex=r"B_i^{t,H}-B_i^{t,0}=-\gamma\Big(\sum_h\Delta B_i^{t,h}\Big)(S_i^t)^\top",
    derivation="The sum of (4) over h; S_i^t is the same in all of them.",
)
def total_update_corrected(steps: at.LocalSteps) -> rc.Sides:
    """X_i^{t,H} - X_i^{t,0} = -gamma [(sum_h Delta B) S'; S'(sum_h Delta A)]."""
    return at.total_update(steps, -1)


@PAPER.identity(
    "eq5_eq10",
    ref="equations (5) and (10)",
    tex=r"X^{t+1}=X^t-\frac\gamma N\sum_i\sum_h\nabla_X\tilde\ell(X_i^{t,h},\xi_i^{t,h};S_i^t)",
    on=STEPS,
    note="With 1/N for every component, however few devices have touched it.",
)
def eq5_eq10(steps: at.LocalSteps) -> rc.Sides:
    """X^t + (1/N) sum_i (X_i^{t,H} - X_i^{t,0}) = X^t - (gamma/N) sum_i sum_h g_i^h, g_i^h the
    stochastic gradient of l~(.; S_i) in step h.
    """
    start = join(steps.B, steps.A)
    by_B, by_A = (sum(parts) for parts in zip(*steps.changes, strict=True))
    total = join(by_B @ steps._dense, steps._dense @ by_A).sum(axis=1)
    count = steps.x.shape[1]
    server = start + steps.moves.sum(axis=1) / count
    return server, start - steps.gamma[:, None] / count * total


@PAPER.identity(
    "lemma_d1",
    ref="Lemma D.1",
    tex=r"\mathbb E\Big\|\frac1N\sum_iP_i\Big\|^2=\frac1{N^2}\sum_i\mathbb E\|P_i\|^2",
    on=rc.Space(
        fields={"values": rc.reals("N", "o", "p"), "chance": rc.simplex("N", "o")},
        sizes={"N": (1, 3), "o": (2, 3), "p": (1, 2)},
        view=_mixed,
        batched=True,
        meaning={
            "values": "the outcomes of P_i before their mean is taken off",
            "chance": "their chances, before they are mixed with a tenth of equal ones",
        },
    ),
)
def lemma_d1(values: Numbers, chance: Numbers) -> rc.Sides:
    """E||(1/N) sum P_i||^2 = (1/N^2) sum E||P_i||^2 for independent P_i of mean zero; both sides
    times N^2.

    ``values`` are made zero-mean first; ``chance`` is (B', N, o).
    """
    P = values - (chance[..., None] * values).sum(axis=2, keepdims=True)
    count, outcomes = P.shape[1:3]
    left = 0 * chance[:, 0, 0]
    for path in product(range(outcomes), repeat=count):
        total = sum(P[:, i, o] for i, o in enumerate(path))
        weight = np.prod([chance[:, i, o] for i, o in enumerate(path)], axis=0)
        left = left + weight * (total * total).sum(axis=-1)
    return left, (chance * (P * P).sum(axis=-1)).sum(axis=(1, 2))


@PAPER.identity(
    "lemma_d2",
    ref="Lemma D.2",
    tex=r"\mathbb E\Big\|\sum_iP_i\Big\|^2=\sum_i\mathbb E\|P_i\|^2",
    on=rc.Space(
        fields={"size": rc.reals(3, 4, "p"), "chance": rc.interval(3, 4)},
        sizes={"p": (1, 2)},
        batched=True,
        meaning={
            "size": "the difference of both outcomes of P_i, a row for each history",
            "chance": "the chance of the first one",
        },
    ),
    note="Three steps with two outcomes that depend on all before. (13) applies it to sketches, "
    "which satisfy its condition only if they are drawn anew in every local step.",
)
def lemma_d2(size: Numbers, chance: Numbers) -> rc.Sides:
    """E||sum P_i||^2 = sum E||P_i||^2 if E[P_i | P_{i-1}, ..., P_1] = 0.

    After the history h, one of 2^i, P_i is (1 - c) v with chance c and -c v otherwise:
    v = size[:, i, h] of (B', 3, 4, p) and c = chance[:, i, h] of (B', 3, 4).
    """
    left = right = 0 * chance[:, 0, 0]
    for path in product((0, 1), repeat=3):
        weight, total, alone, history = 1 + 0 * left, 0 * size[:, 0, 0], 0 * left, 0
        for i, low in enumerate(path):
            c, v = chance[:, i, history], size[:, i, history]
            share, factor = (1 - c, -c) if low else (c, 1 - c)
            P = factor[:, None] * v
            weight, total = weight * share, total + P
            alone = alone + (P * P).sum(axis=-1)
            history = 2 * history + low
        left = left + weight * (total * total).sum(axis=-1)
        right = right + weight * alone
    return left, right


@PAPER.upper(
    "lemma_d3_8",
    ref="Lemma D.3, equation (8)",
    tex=r"\|XS\|^2\le\frac{r^2}{k^2}\|X\|^2",
    on=MODULES,
    note="Attained where X has no other columns than those of S.",
)
def lemma_d3_8(X: Numbers, k: Numbers) -> rc.Sides:
    """||XS||^2 <= (r/k)^2 ||X||^2."""
    S, chance = sketches(k, X.shape[-1])
    own = np.where((chance > 0)[..., None], S, 0 * S)
    return squares(X[:, None] * own[:, :, None]), ((X.shape[-1] / k) ** 2 * squares(X))[:, None]


@PAPER.identity(
    "lemma_d3_9",
    ref="Lemma D.3, equation (9)",
    tex=r"\mathbb E_S\|XS\|^2=\frac rk\|X\|^2",
    on=MODULES,
)
def lemma_d3_9(X: Numbers, k: Numbers) -> rc.Sides:
    """E||XS||^2 = (r/k) ||X||^2, which (9) states as an inequality."""
    S, chance = sketches(k, X.shape[-1])
    each = squares(X[:, None] * S[:, :, None])
    return (chance * each).sum(axis=-1), X.shape[-1] / k * squares(X)
