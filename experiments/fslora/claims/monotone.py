"""FSLoRA, Section 4: the ranks in Assumption 4.2 and in Theorem 4.4."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import SINGLE, least_squares
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import hessians as hessians
from experiments.fslora.theory.sketching import Devices
from experiments.fslora.theory.smoothness import sketch_variance
from linsys.linalg import Numbers


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


@PAPER.upper(
    "k_monotone_sigma",
    ref="Section 4, discussion: sigma_s as a function of k",
    tex=r"\sigma_s^2(X;k+1)\le\sigma_s^2(X;k)",
    on=least_squares(**SINGLE),
    expect="violated",
    note="One component with d = -2, x = B = A = 1 and r = 4: k = 2 doubles BA and meets the "
    "target, 2 or 0 with gradient zero in both cases, sigma_s^2 = 0; k = 3 has W = 4/3 or 0, and "
    "sigma_s^2 > 0. The bound on a ball, fslora.a42_ball, does decrease in k.",
    corrected="a42_ball",
    reading_of="k_monotone",
    reading="Larger k_i lead to faster convergence, sigma_s included: the bound has sigma_s^2, "
    "which depends on k_i itself.",
    printed_as="ours",
)
def k_monotone_sigma(devices: Devices) -> rc.Sides:
    """The variance by the sketch at a point decreases in k: from k to k + 1."""
    more = Devices(x=devices.x, d=devices.d, B=devices.B, A=devices.A, k=devices.k + 1)
    return sketch_variance(more), sketch_variance(devices)


@PAPER.upper(
    "k_monotone",
    ref="Section 4, discussion of Corollary 4.5",
    tex=r"k_i\le k_i'\ \Rightarrow\ \text{bound}(k')\le\text{bound}(k)",
    on=THEOREM,
    note="Only r/k_i and its square appear. But they come from f(BS, A) in Proposition D.4; with "
    "fslora.d4_local_corrected neither is left in Lbar and Ltil. What k does change is sigma_s, "
    "sigma_h and f^S itself; sigma_s^2 at a point can grow with k, fslora.k_monotone_sigma.",
)
def k_monotone(
    ranks: tuple[Numbers, Numbers],
    r: Numbers,
    gap: Numbers,
    times: tuple[Numbers, Numbers],
    gamma: Numbers,
    variances: tuple[Numbers, Numbers, Numbers],
) -> rc.Sides:
    """The bound of Theorem 4.4 decreases in every k_i, for a given step size and for that of
    Corollary 4.5, the variances, L and f^S(X^0) - f* being given.

    Args:
        ranks: the smaller and the larger ones.
        r: global rank.
        gap: f^S(X^0) - f*.
        times: T and H.
        gamma: step size; a second entry of both sides has that of Corollary 4.5 in its place.
        variances: sigma_g^2, sigma_s^2, sigma_h^2.
    """
    (T, H), (data, sketch, apart) = times, variances
    bounds = []
    for k in ranks:
        count, kappa = k.shape[1], r[:, None] / k
        once, twice = kappa.sum(axis=1) / count, (kappa**2).sum(axis=1) / count
        noise = (6 * once * (data + sketch) + 12 * twice * (data + sketch + 3 * apart)) / count
        own = np.sqrt(count / (T * H * twice))
        bounds.append(np.stack([4 * gap / (g * T * H) + g * noise for g in (gamma, own)], axis=1))
    return bounds[1], bounds[0]
