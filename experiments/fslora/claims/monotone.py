"""FSLoRA, Section 4: the ranks in Assumption 4.2 and in Theorem 4.4."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import SINGLE, least_squares
from experiments.fslora.theory import hessians as hessians


def _larger(
    *, r: Any, k: Any, more: Any, data: Any, sketch: Any, apart: Any, T: Any, H: Any, **others: Any
) -> SimpleNamespace:
    """Ranks and larger ones, both at most r."""
    top = r[:, None]
    return SimpleNamespace(
        ranks=(np.minimum(k, top), np.minimum(k + more, top)),
        variances=(data, sketch, apart),
        times=(T, H),
        r=r,
        **others,
    )


THEOREM = rc.Space(
    fields={
        "r": rc.whole_numbers(low=1, high=16),
        "k": rc.whole_numbers("N", low=1, high=16),
        "more": rc.whole_numbers("N", low=0, high=15),
        "gap": rc.positive(),
        "T": rc.positive(low=1.0, high=1e4),
        "H": rc.positive(low=1.0, high=100.0),
        "gamma": rc.positive(low=1e-4, high=1.0),
        "data": rc.positive(),
        "sketch": rc.positive(),
        "apart": rc.positive(),
    },
    sizes={"N": (1, 3)},
    view=_larger,
    batched=True,
    meaning={
        "k": "ranks k_i; more than r is r",
        "more": "what is added to them",
        "gap": "f^S(X^0) - f*",
        "data": "sigma_g^2",
        "sketch": "sigma_s^2",
        "apart": "sigma_h^2",
    },
)

K_MONOTONE_SIGMA = rc.Claim(
    id="fslora.k_monotone_sigma",
    source="FSLoRA, Section 4, discussion: sigma_s as a function of k",
    text="The variance by the sketch at a point decreases in k: from k to k + 1.",
    latex=r"\sigma_s^2(X;k+1)\le\sigma_s^2(X;k)",
    kind="upper",
    space=least_squares(**SINGLE),
    measure=lambda s: hessians.next_variance(s.devices),
    expect="violated",
    note="One component with d = -2, x = B = A = 1 and r = 4: k = 2 doubles BA and meets the "
    "target, 2 or 0 with gradient zero in both cases, sigma_s^2 = 0; k = 3 has W = 4/3 or 0, and "
    "sigma_s^2 > 0. The bound on a ball, fslora.a42_ball, does decrease in k.",
    corrected="fslora.a42_ball",
)

K_MONOTONE = rc.Claim(
    id="fslora.k_monotone",
    source="FSLoRA, Section 4, discussion of Corollary 4.5",
    text="The bound of Theorem 4.4 decreases in every k_i, for a given step size and for that of "
    "Corollary 4.5, the variances, L and f^S(X^0) - f* being given.",
    latex=r"k_i\le k_i'\ \Rightarrow\ \text{bound}(k')\le\text{bound}(k)",
    kind="upper",
    space=THEOREM,
    measure=lambda s: hessians.k_monotone(s.ranks, s.r, s.gap, s.times, s.gamma, s.variances),
    note="Only r/k_i and its square appear. But they come from f(BS, A) in Proposition D.4; with "
    "fslora.d4_local_corrected neither is left in Lbar and Ltil. What k does change is sigma_s, "
    "sigma_h and f^S itself; sigma_s^2 at a point can grow with k, fslora.k_monotone_sigma.",
)
