"""Appendix D of AffPCL: Lyapunov recursions (Lemmas D.4 and D.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import lyapunov


@PAPER.upper(
    "d4",
    ref="Lemma D.4",
    tex=r"\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\sum_kw^kC^k(\lambda^k)^{-2}",
    on=rc.Space(
        fields={
            "z": rc.interval("K", high=10.0),
            "alpha": rc.interval(low=0.001, high=0.999),
            "lam": rc.positive("K"),
            "C": rc.interval("K", high=10.0),
            "coupling": rc.interval("K", "K", high=10.0),
        },
        sizes={"K": (1, 4)},
        given={"right-hand sides >= 0": lambda s: lyapunov.coupled_step(**vars(s)) >= 0},
        batched=True,
        meaning={
            "z": "E||Delta z_t^k||^2",
            "alpha": "alpha^k lambda^k",
            "lam": "lambda^k",
            "C": "C^k",
            "coupling": "C^{k,l}",
        },
    ),
    note="The left side of the printed hypothesis has t for t + 1. Beyond alpha = 2/3 its factor "
    "1 - (3/2) alpha is negative; only steps with right-hand sides >= 0 can occur.",
)
def d4(instance: Any) -> rc.Sides:
    """One-step inequalities with alpha^k lambda^k = alpha < 1 give L_{t+1} <= (1 - alpha) L_t +
    alpha^2 sum_k w^k C^k / (lambda^k)^2 for L_t = sum_k w^k E||Delta z_t^k||^2.
    """
    return lyapunov.d4(**vars(instance))


@PAPER.upper(
    "d5_const",
    ref="Lemma D.5, constant step, its proof",
    tex=r"\mathcal{L}_t\le\frac{\mathcal{L}_0+C\ln t}{t}",
    on=rc.Space(
        fields={
            "L0": rc.interval(high=10.0),
            "C": rc.interval(high=10.0),
            "t": rc.whole_numbers(low=1, high=1000),
        },
        batched=True,
    ),
    note="ln t / t is at most 1/e, so 1 - alpha stays positive. The lemma's O(C ln t / t) leaves "
    "out L_0 / t; at t = 1 the step is zero and L_1 = L_0, which C ln t = 0 does not bound.",
)
def d5_const(instance: Any) -> rc.Sides:
    """With alpha = ln t / t, L_t <= (L_0 + C ln t) / t for all t >= 1."""
    return lyapunov.d5_const(**vars(instance))


@PAPER.rate(
    "d5_dim",
    ref="Lemma D.5, diminishing step",
    tex=r"\tilde{\mathcal{L}}_t=O(C/t)",
    note="With equality in every step the limit of t Ltilde_t is (32/3) C. The start adds about "
    "t0^2 L_0 / t^2, which is below C / t only once t > t0^2 L_0 / C.",
)
def d5_dim() -> Sequence[rc.Regime]:
    """With alpha_tau = 4/(tau + t0 + 1), the convex combination Ltilde_t is O(C / t)."""
    times = np.array([2500.0, 5000.0, 10_000.0])
    regimes = []
    for name, L0, t0 in (("L_0 = 0, t0 = 3", 0.0, 3.0), ("L_0 = C, t0 = 15", 1.0, 15.0)):
        ones = np.ones_like(times)
        values = lyapunov.diminishing_average(L0 * ones, ones, t0 * ones, times)
        slopes = np.diff(np.log(values)) / np.diff(np.log(times))
        low, high = float(slopes.min()), float(slopes.max())
        regimes.append(rc.Regime(name, "t", -1.0, float(slopes[-1]), low, high))
    return regimes


_DIMINISHING = rc.Space(
    fields={
        "L0": rc.interval(high=10.0),
        "C": rc.interval(high=10.0),
        "t0": rc.interval(low=3.0, high=40.0),
        "t": rc.whole_numbers(low=1, high=200),
    },
    batched=True,
    credible={"C": (0.1, 10.0), "t0": (4.0, 40.0)},
)


@PAPER.upper(
    "d5_dim_explicit",
    ref="Lemma D.5, last display of the proof",
    printed_as="proof step",
    family=[
        {"L0": np.array(0.0), "C": np.array(1.0), "t0": np.array(3.0), "t": np.array(t)}
        for t in (50.0, 100.0, 200.0)
    ],
    tex=r"\tilde{\mathcal{L}}_t\le\frac{t_0^2\mathcal{L}_0}{2t^2}+\frac{8C}{t}",
    on=_DIMINISHING,
    expect="violated",
    note="For the diminishing step the proof bounds L_tau / 2, and then puts this bound in the "
    "place of L_tau: a factor of two is lost. With L_0 = 0, C = 1, t0 = 3 and t = 100, Ltilde_t = "
    "0.0953 > "
    "0.08; in the limit t Ltilde_t = 32/3. The order O(C / t) and the theorems stand, with "
    "constants doubled. The space has t0 >= 3, where alpha_tau <= 1 and equality is the worst "
    "case.",
    corrected="d5_dim_explicit_corrected",
)
def d5_dim_explicit(instance: Any) -> rc.Sides:
    """With alpha_tau = 4/(tau + t0 + 1), Ltilde_t <= t0^2 L_0 / (2 t^2) + 8 C / t."""
    return lyapunov.d5_dim_explicit(**vars(instance))


@PAPER.upper(
    "d5_dim_explicit_corrected",
    ref="Lemma D.5, last display of the proof, corrected",
    tex=r"\tilde{\mathcal{L}}_t\le\frac{t_0^2\mathcal{L}_0}{t^2}+\frac{16C}{t}",
    on=_DIMINISHING,
    derivation="With m = tau + t0, (m / 2) L_tau <= [(m-1) m L_tau - m (m+1) L_{tau+1}] / 4 + 4 "
    "C m / (m+1). Summing, and dividing by sum m / 2 = (t+1)(t+2 t0)/4, gives Ltilde_t <= [t0 "
    "(t0-1) L_0 + 16 C (t+1)] / ((t+1)(t+2 t0)). It uses the hypotheses linearly, so that t0 > 0 "
    "is enough for it.",
)
def d5_dim_explicit_corrected(instance: Any) -> rc.Sides:
    """With alpha_tau = 4/(tau + t0 + 1), Ltilde_t <= t0^2 L_0 / t^2 + 16 C / t."""
    return lyapunov.d5_dim_doubled(**vars(instance))


@PAPER.upper(
    "d5_dim_explicit_sharper",
    ref="Lemma D.5, last display of the proof, corrected and sharpened",
    tex=r"\tilde{\mathcal{L}}_t\le\frac{t_0(t_0-1)\mathcal{L}_0}{(t+1)(t+2t_0)}+"
    r"\frac{32}{3}\,\frac{C}{t+2t_0},\quad t_0\ge3",
    on=_DIMINISHING,
    derivation="P_m = m (m-1)(m-2)(m-3) turns the recursion into P_{m+1} L_{m+1} <= P_m L_m + 16 "
    "C m (m-1)(m-2)/(m+1), and m/(m+1) < 1 and sum (m-1)(m-2) = [(M-1)(M-2)(M-3)]/3 less its "
    "start give L_m <= P_{t0} L_0 / P_m + 16 C / (3 m). The average over m uses sum_{m >= t0} "
    "1/((m-1)(m-2)(m-3)) = 1/(2 (t0-2)(t0-3)). t0 = 3 is the limit t0 -> 3.",
    sharpens="d5_dim_explicit_corrected",
)
def d5_dim_explicit_sharper(instance: Any) -> rc.Sides:
    """Ltilde_t <= t0 (t0-1) L_0 / ((t+1)(t+2 t0)) + (32/3) C / (t+2 t0) for t0 >= 3."""
    return lyapunov.d5_dim_sharper(**vars(instance))
