"""FIRM, Theorem 1 without beta: the mean objective rises as fast as the direction is long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, one_client
from experiments.firm.paper import PAPER
from experiments.firm.theory import without_beta as at
from experiments.firm.theory.descent import Round
from experiments.firm.theory.program import minimiser, weights
from linsys.linalg import Numbers, apply, squared, transpose


@PAPER.lower(
    "thm1_ascent",
    ref="equation (1); derived here",
    printed_as="ours",
    tex=r"\Big\langle\frac1M\sum_jg^j,d\Big\rangle\ge\|d\|^2+\frac\beta2\Big(\|\lambda\|^2-"
    r"\frac1M\Big)",
    on=one_client({"beta": BETA}),
    note="So d = 0 only with equal weights: for every beta > 0 FIRM ends at stationary points of "
    "the unweighted sum of the objectives, and (3) at those of sum_j p_j J^j.",
    derivation="Optimality of lambda against e_j: <g^j, d> + (beta/2) lambda_j >= ||d||^2 + "
    "(beta/2)||lambda||^2. Average over j.",
)
def thm1_ascent(A: Numbers, beta: Numbers) -> rc.Sides:
    """<(1/M) sum_j g^j, d> >= ||d||^2 + (beta/2)(||lambda||^2 - 1/M) for d = sum_j lambda_j g^j
    with the solution of (1).
    """
    lam, M = weights(A, beta), A.shape[-1]
    d = apply(A, lam)
    ascent = (A.sum(axis=-1) / M * d).sum(axis=-1)
    return ascent, squared(d) + beta / 2 * (squared(lam) - 1 / (0 * beta + M))


@PAPER.lower(
    "thm1_ascent_preferred",
    ref="equation (3); derived here",
    printed_as="ours",
    tex=r"\Big\langle\frac{\sum_jp_jg^j}{\sum_jp_j},d\Big\rangle\ge\|d\|^2",
    on=one_client({"p": rc.positive("M", low=0.01, high=100.0)}),
    derivation="Optimality against p / sum p, and (sum p)(sum lambda_j^2 / p_j) >= 1.",
)
def thm1_ascent_preferred(A: Numbers, p: Numbers) -> rc.Sides:
    """<sum_j p_j g^j / sum_j p_j, d> >= ||d||^2 with the solution of (3)."""
    eye = np.eye(A.shape[-1], dtype=int)
    lam = minimiser(transpose(A) @ A + (1 / p)[..., None] * eye)
    d = apply(A, lam)
    return (apply(A, p / p.sum(axis=-1, keepdims=True)) * d).sum(axis=-1), squared(d)


def _walks(*, L: Any, a: Any, h: Any, o: Any, b: Any, noise: Any, **others: Any) -> Any:
    """Objectives as in the other claims; K = 2 local steps of size a / (4 L)."""
    rows = 0 * noise[:, 0, :, :, :]
    step = Round(
        b=b,
        h=h * L[:, None, None],
        o=o,
        theta=rows[:, :, 0],
        g=rows,
        lam=rows[..., 0],
        common=0 * a,
    )
    return SimpleNamespace(objectives=step, noise=noise, a=a / (4 * L), **others)


@PAPER.upper(
    "thm1_paths",
    ref="Theorem 1 with eta = 1; derived here",
    uses=["thm1_ascent"],
    tex=r"\sum_{t<T}\|\nabla J(\bar\theta_t)\bar\lambda_t\|^2\le\frac{27}2\frac{J_u(\bar\theta_T)"
    r"-J_u(\bar\theta_0)}\alpha+\sum_t\frac1C\sum_c(27\|\xi_u^c\|^2+3\|\xi^c\lambda^c\|^2)",
    on=rc.Space(
        fields={
            "b": rc.reals("M", "d", magnitude=(0.1, 10.0)),
            "h": rc.interval("M", "d", low=-1.0, high=1.0),
            "o": rc.reals("M", "d", magnitude=(0.1, 10.0)),
            "first": rc.reals("d", magnitude=(0.1, 10.0)),
            "noise": rc.reals("T", "C", "M", "d", magnitude=(0.01, 10.0)),
            "L": rc.positive(low=0.1, high=10.0),
            "a": rc.positive(low=0.01, high=1.0),
            "beta": BETA,
        },
        sizes={"T": (1, 4), "C": (1, 2), "M": (1, 3), "d": (1, 2)},
        view=_walks,
        batched=True,
        meaning={
            "b": "J^j(theta) is the sum over d of b theta + (L/2) h (theta - o)|theta - o|",
            "h": "see b",
            "o": "see b",
            "first": "theta_0",
            "noise": "xi_t^c, a row for each objective",
            "L": "L_J",
            "a": "the step size times 4 L_J, with K = 2 local steps",
        },
    ),
    note="In expectation, for noise with E||xi||^2 = O(1/B) (restarted samples, exact critics): "
    "1/(alpha T) + 1/B without log T, 1/beta, M^{3/2} and the drift term "
    "alpha K of Theorem 1. What is lost is the factor 1/C of the variance.",
    derivation="firm.theory.without_beta: firm.thm1_ascent at every client, <xi_u, d> <= "
    "2||xi_u||^2 + ||d||^2/8 and the same for the drift, whose squares sum to at most "
    "(alpha K)^2 / 2 times those of d.",
)
def thm1_paths(objectives: Any, first: Any, noise: Any, beta: Any, a: Any) -> rc.Sides:
    """sum_{t<T} ||grad J(thetabar_t) lambdabar_t||^2 <= (27/2)(J_u(thetabar_T) -
    J_u(thetabar_0))/alpha + sum_t mean_c (27 ||xi_u^c||^2 + 3 ||xi^c lambda^c||^2) for 2 alpha
    L_J K <= 1, any noise xi and the solutions lambda^c of (1) as weights (eta = 1); J_u and xi_u
    are averages over the objectives. Here K = 2.
    """
    return at.paid(objectives, first, noise, beta, a, 2)
