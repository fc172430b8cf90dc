"""FSLoRA, Section 3 and Appendix D.1, D.2: sketches, their gradients, a round, and the lemmas."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import least_squares, ranks
from experiments.fslora.theory import steps as at

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


DEF3_1 = rc.Claim(
    id="fslora.def3_1",
    source="FSLoRA, Definition 3.1",
    text="S = (r/k) sum_{j in I} e_j e_j' has S^2 = (r/k) S and trace r, and the chances of the r "
    "over k sets I of size k add up to one.",
    latex=r"S=\frac rk\sum_{j\in I}e_je_j^\top,\quad S^2=\frac rkS,\ \operatorname{tr}S=r",
    kind="identity",
    space=RANKS,
    measure=lambda s: at.def3_1(s.k, s.r),
    note="The trace never varies: the random part of S always sums to zero, so a sketch cannot be "
    "seen where all components B_j A_j are alike.",
)
ES = rc.Claim(
    id="fslora.ES",
    source="FSLoRA, Section 3.1",
    text="E S = I.",
    latex=r"\mathbb E[S]=I_r",
    kind="identity",
    space=RANKS,
    measure=lambda s: at.ES(s.k, s.r),
)
COVARIANCE = rc.Claim(
    id="fslora.ES_covariance",
    source="FSLoRA, Section 3.1, the second moments that it leaves out",
    text="Cov(S_jj, S_ll) = (r/k - 1) (r [j = l] - 1) / (r - 1).",
    latex=r"\operatorname{Cov}(S_{jj},S_{ll})=\Big(\frac rk-1\Big)\frac{r[j=l]-1}{r-1}",
    kind="identity",
    space=replace(RANKS, sizes={"r": (2, 5)}),
    measure=lambda s: at.covariance(s.k, s.r),
    derivation="E S_jj S_ll = (r/k)^2 times the chance of j and l, which is k/r for j = l and k (k "
    "- 1) / (r (r - 1)) otherwise.",
)
UNBIASED = rc.Claim(
    id="fslora.unbiased",
    source="FSLoRA, Section 3.1",
    text="E[W0 + BSA] = W0 + BA.",
    latex=r"\mathbb E[W_0+BSA]=W_0+BA",
    kind="identity",
    space=DEVICES,
    measure=lambda s: at.unbiased(s.devices),
)
LEMMA3_2 = rc.Claim(
    id="fslora.lemma3_2",
    source="FSLoRA, Lemma 3.2",
    text="The gradients of l(W0 + BSA) are grad l A'S' with respect to B and S'B' grad l with "
    "respect to A, for any matrix S.",
    latex=r"\nabla_B\ell=\nabla\ell\,A^\top S^\top,\quad\nabla_A\ell=S^\top B^\top\nabla\ell",
    kind="identity",
    space=DENSE,
    measure=lambda s: at.lemma3_2(s.x, s.d, s.B, s.A, s.S),
    note="Against five-point differences, exact for a polynomial of degree four. For the diagonal "
    "S of Definition 3.1 the transposes change nothing.",
)
SPARSITY = rc.Claim(
    id="fslora.sparsity",
    source="FSLoRA, Section 3.2",
    text="The gradients of l(W0 + BSA) are zero outside of the k columns of B and rows of A that S "
    "selects.",
    latex=r"\nabla_B\ell\,e_j=0,\ e_j^\top\nabla_A\ell=0\quad(j\notin I)",
    kind="identity",
    space=DEVICES,
    measure=lambda s: at.sparsity(s.devices),
)
EQ4 = rc.Claim(
    id="fslora.eq4",
    source="FSLoRA, equation (4)",
    text="H local steps (4) with one sketch are H steps along -gamma times the stochastic gradient "
    "of l~(.; S_i).",
    latex=r"X_i^{t,h+1}=X_i^{t,h}-\gamma\nabla_X\tilde\ell(X_i^{t,h},\xi_i^{t,h};S_i^t)",
    kind="identity",
    space=STEPS,
    measure=lambda s: at.eq4(s.steps),
    note="The gradients are differences of the loss, as in fslora.lemma3_2.",
)
TOTAL_UPDATE = rc.Claim(
    id="fslora.total_update",
    source="FSLoRA, Section 3.3, display below (4)",
    text="X_i^{t,H} - X_i^{t,0} = +gamma [(sum_h Delta B) S'; S'(sum_h Delta A)].",
    latex=r"B_i^{t,H}-B_i^{t,0}=+\gamma\Big(\sum_h\Delta B_i^{t,h}\Big)(S_i^t)^\top",
    kind="identity",
    space=STEPS,
    measure=lambda s: at.total_update(s.steps, 1),
    expect="violated",
    note="A sign: (4) subtracts, and (10) and the proof have -gamma. With x = B = A = gamma = 1 "
    "and d = -2 one step moves B by +1, the display says -1. Nothing else depends on it, but who "
    "implements the display ascends.",
    corrected="fslora.total_update_corrected",
)
TOTAL_UPDATE_CORRECTED = replace(
    TOTAL_UPDATE,
    id="fslora.total_update_corrected",
    source="FSLoRA, Section 3.3, display below (4), corrected",
    text="X_i^{t,H} - X_i^{t,0} = -gamma [(sum_h Delta B) S'; S'(sum_h Delta A)].",
    latex=r"B_i^{t,H}-B_i^{t,0}=-\gamma\Big(\sum_h\Delta B_i^{t,h}\Big)(S_i^t)^\top",
    measure=lambda s: at.total_update(s.steps, -1),
    expect="holds",
    note="",
    corrected=None,
    derivation="The sum of (4) over h; S_i^t is the same in all of them.",
)
EQ5_EQ10 = rc.Claim(
    id="fslora.eq5_eq10",
    source="FSLoRA, equations (5) and (10)",
    text="X^t + (1/N) sum_i (X_i^{t,H} - X_i^{t,0}) = X^t - (gamma/N) sum_i sum_h g_i^h.",
    latex=r"X^{t+1}=X^t-\frac\gamma N\sum_i\sum_h\nabla_X\tilde\ell(X_i^{t,h},\xi_i^{t,h};S_i^t)",
    kind="identity",
    space=STEPS,
    measure=lambda s: at.eq5_eq10(s.steps),
    note="With 1/N for every component, however few devices have touched it.",
)
LEMMA_D1 = rc.Claim(
    id="fslora.lemma_d1",
    source="FSLoRA, Lemma D.1",
    text="E||(1/N) sum P_i||^2 = (1/N^2) sum E||P_i||^2 for independent P_i of mean zero; both "
    "sides times N^2.",
    latex=r"\mathbb E\Big\|\frac1N\sum_iP_i\Big\|^2=\frac1{N^2}\sum_i\mathbb E\|P_i\|^2",
    kind="identity",
    space=rc.Space(
        fields={"values": rc.reals("N", "o", "p"), "chance": rc.simplex("N", "o")},
        sizes={"N": (1, 3), "o": (2, 3), "p": (1, 2)},
        view=_mixed,
        batched=True,
        meaning={
            "values": "the outcomes of P_i before their mean is taken off",
            "chance": "their chances, before they are mixed with a tenth of equal ones",
        },
    ),
    measure=lambda s: at.lemma_d1(s.values, s.chance),
)
LEMMA_D2 = rc.Claim(
    id="fslora.lemma_d2",
    source="FSLoRA, Lemma D.2",
    text="E||sum P_i||^2 = sum E||P_i||^2 if E[P_i | P_{i-1}, ..., P_1] = 0.",
    latex=r"\mathbb E\Big\|\sum_iP_i\Big\|^2=\sum_i\mathbb E\|P_i\|^2",
    kind="identity",
    space=rc.Space(
        fields={"size": rc.reals(3, 4, "p"), "chance": rc.interval(3, 4)},
        sizes={"p": (1, 2)},
        batched=True,
        meaning={
            "size": "the difference of both outcomes of P_i, a row for each history",
            "chance": "the chance of the first one",
        },
    ),
    measure=lambda s: at.lemma_d2(s.size, s.chance),
    note="Three steps with two outcomes that depend on all before. (13) applies it to sketches, "
    "which satisfy its condition only if they are drawn anew in every local step.",
)
LEMMA_D3_8 = rc.Claim(
    id="fslora.lemma_d3_8",
    source="FSLoRA, Lemma D.3, equation (8)",
    text="||XS||^2 <= (r/k)^2 ||X||^2.",
    latex=r"\|XS\|^2\le\frac{r^2}{k^2}\|X\|^2",
    kind="upper",
    space=MODULES,
    measure=lambda s: at.lemma_d3_8(s.X, s.k),
    note="Attained where X has no other columns than those of S.",
)
LEMMA_D3_9 = rc.Claim(
    id="fslora.lemma_d3_9",
    source="FSLoRA, Lemma D.3, equation (9)",
    text="E||XS||^2 = (r/k) ||X||^2, which (9) states as an inequality.",
    latex=r"\mathbb E_S\|XS\|^2=\frac rk\|X\|^2",
    kind="identity",
    space=MODULES,
    measure=lambda s: at.lemma_d3_9(s.X, s.k),
)
