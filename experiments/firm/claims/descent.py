"""FIRM, Section 4 and Appendix F: the descent lemma and its error terms, (5) to (15) and (26)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import rounds
from experiments.firm.paper import PAPER
from experiments.firm.theory import descent as at
from experiments.firm.theory.descent import Round
from linsys.linalg import Numbers, agent_mean, squared

ANY = rounds()
AVERAGED = rounds(averaged=True)


def _synchronised(*, steps: Any, h: Any, o: Any, lam: Any, L: Any, R: Any, a: Any) -> Any:
    """Clients that set out from one point and make K steps a g, ||g|| <= R."""
    count, clients, K, d = steps.shape
    M = h.shape[1]
    theta = (steps * (a * R)[:, None, None, None]).sum(axis=2)
    g = np.zeros((count, clients, M, d), dtype=int) + 0 * lam[:, None, :, None]
    step = Round(b=0 * h, h=h * L[:, None, None], o=o, theta=theta, g=g, lam=g[..., 0], common=lam)
    return SimpleNamespace(step=step, a=a, L=L, R=R, K=K)


SYNCHRONISED = rc.Space(
    fields={
        "steps": rc.ball("C", "K", "d"),
        "h": rc.interval("M", "d", low=-1.0, high=1.0),
        "o": rc.reals("M", "d", magnitude=(0.1, 10.0)),
        "lam": rc.simplex("M"),
        "L": rc.positive(low=0.1, high=10.0),
        "R": rc.positive(low=0.1, high=10.0),
        "a": rc.positive(low=0.01, high=1.0),
    },
    sizes={"C": (1, 3), "K": (1, 3), "M": (1, 2), "d": (1, 2)},
    view=_synchronised,
    batched=True,
    meaning={
        "steps": "the clients' K gradients over R",
        "h": "J^j(theta) is the sum over coordinates of (L/2) h (theta - o)|theta - o|",
        "o": "see h",
        "lam": "lambda_t",
        "L": "L_J",
        "a": "the step size",
    },
)

# One step of the averaged policy.


@PAPER.lower(
    "eq12",
    ref="equation (12)",
    tex=r"\lambda_t^\top J(\bar\theta_{t+1})\ge\lambda_t^\top J(\bar\theta_t)+\frac a2"
    r"\|\nabla J\lambda_t\|^2+\frac{a(1-aL_J)}2\|\bar g_t\|^2-\frac a2\mathcal T_1",
    on=rounds(longest=3.0),
)
def eq12(step: Round, a: rc.Numbers, L: rc.Numbers) -> rc.Sides:
    """lambda_t'J(thetabar + a gbar) >= lambda_t'J(thetabar) + (a/2)||grad J lambda_t||^2 + (a (1 -
    a L_J)/2)||gbar||^2 - (a/2) T_1, for any a > 0.
    """
    after = step.values(step.centre + a[:, None] * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    kept = a * (1 - a * L) / 2 * squared(step.direction)
    return gain, a / 2 * squared(step.gradient) + kept - a / 2 * step.error


@PAPER.lower(
    "eq5",
    ref="equation (5)",
    uses=["eq12"],
    tex=r"\lambda_t^\top J(\bar\theta_{t+1})\ge\lambda_t^\top J(\bar\theta_t)+\frac a2"
    r"\|\nabla J\lambda_t\|^2-\frac a2\|\bar g_t-\nabla J\lambda_t\|^2",
    on=ANY,
    derivation="By (12) the rise is at least a <grad J lambda_t, gbar> - (L_J a^2/2)||gbar||^2. 2 "
    "<u, v> = ||u||^2 + ||v||^2 - ||u - v||^2, and for a <= 1/L_J the term (a/2)||gbar||^2 pays "
    "for the last one.",
)
def eq5(step: at.Round, a: Numbers, L: Numbers) -> rc.Sides:
    """lambda_t'J(thetabar + a gbar) >= lambda_t'J(thetabar) + (a/2)||grad J lambda_t||^2 -
    (a/2)||gbar - grad J lambda_t||^2 for 0 < a <= 1/L_J.
    """
    bound = a / 2 * squared(step.gradient) - a / 2 * step.error
    return eq12(step, a, L)[0], bound


@PAPER.lower(
    "alg_sign",
    ref="Algorithms 1 and 2, the update of the parameters",
    tex=r"\bar\theta_{t+1}=\bar\theta_t-a\bar g_t:\quad\lambda_t^\top J(\bar\theta_{t+1})\ge"
    r"\lambda_t^\top J(\bar\theta_t)+\tfrac a2\|\nabla J\lambda_t\|^2-\tfrac a2\mathcal T_1",
    on=ANY,
    expect="violated",
    note="Both algorithms, and item 5 of Section 3, subtract alpha g where J is to be maximised "
    "and g of (10) estimates an ascent direction; Appendix F adds it. One objective J = theta "
    "with its exact gradient 1, a = 1: J falls by 1 in a step, against a rise of 1/2. With the "
    "sign of Appendix F the statement is (5).",
    corrected="eq5",
    printed_as="misprint",
)
def alg_sign(step: Round, a: Numbers) -> rc.Sides:
    """With the update theta - a g of Algorithms 1 and 2 the descent lemma (5) holds for 0 < a <=
    1/L_J.
    """
    after = step.values(step.centre - a[:, None] * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    return gain, a / 2 * squared(step.gradient) - a / 2 * step.error


@PAPER.upper(
    "eq6",
    ref="equation (6)",
    printed_as="misprint",
    tex=r"\mathcal T_1\le2\Big\|\frac1C\sum_c(g^c-\nabla J(\theta^c)\lambda_t^c)\Big\|^2+2"
    r"\Big\|\frac1C\sum_c(\nabla J(\theta^c)-\nabla J(\bar\theta))\lambda_t\Big\|^2",
    on=AVERAGED,
    expect="violated",
    note="With lambda_t^c in the first term the two differences do not add up to gbar - grad "
    "J(thetabar) lambda_t: (1/C) sum grad J(theta^c)(lambda_t^c - lambda_t) is missing, which is "
    "the disagreement that (7) then wants to split off. Exact gradients, J^1 quadratic with slope "
    "theta, J^2 = 0, theta = +-1, lambda^c = (1, 0) and (0, 1): T_1 = 1/4, both terms are 0. "
    "Appendix F has lambda_t in (13); then the factor 2 is right.",
    corrected="eq6_corrected",
)
def eq6(step: at.Round) -> rc.Sides:
    """T_1 <= 2||(1/C) sum (g^c - grad J(theta^c) lambda_t^c)||^2 + 2||(1/C) sum (grad J(theta^c) -
    grad J(thetabar)) lambda_t||^2, lambda_t the clients' average.
    """
    own = (step.local * step.lam[..., None]).sum(axis=-2)
    return step.error, 2 * squared(step.direction - agent_mean(own)) + 2 * step.drift


@PAPER.upper(
    "eq6_corrected",
    ref="equations (6) and (13), corrected",
    tex=r"\mathcal T_1\le2\mathcal T_{1,1}+2\mathcal T_{1,2}",
    on=ANY,
    derivation="gbar - grad J(thetabar) lambda_t is the sum of the two differences, and ||x + "
    "y||^2 <= 2||x||^2 + 2||y||^2, with equality for x = y.",
)
def eq6_corrected(step: Any) -> rc.Sides:
    """T_1 <= 2 T_{1,1} + 2 T_{1,2} with lambda_t in both terms, any lambda_t."""
    return eq13(step, 2)


@PAPER.upper(
    "eq13",
    ref="equation (13)",
    printed_as="proof step",
    tex=r"\mathcal T_1\le\mathcal T_{1,1}+\mathcal T_{1,2}",
    on=ANY,
    expect="violated",
    note="The triangle inequality holds for norms, these are squares: x = y has ||x + y||^2 = 4 "
    "against 2. (6) has the factor 2. (27), Q_t in (33) and every constant of (35) need it; the "
    "rates do not change.",
    corrected="eq6_corrected",
)
def eq13(step: Round, factor: int = 1) -> rc.Sides:
    """T_1 <= T_{1,1} + T_{1,2}."""
    return step.error, factor * (step.estimation + step.drift)


@PAPER.upper(
    "eq14",
    ref="equation (14)",
    printed_as="proof step",
    tex=r"\mathcal T_{1,1}\le\mathcal T_{1,1}^{\rm gradient-error}+"
    r"\mathcal T_{1,1}^{\rm disagr-drift}",
    on=ANY,
    expect="violated",
    note="As in (13): 'applying the triangle inequality' to squares loses the factor 2. lambda_t "
    "is any point of the simplex here. If it is the clients' mean, C = 1 has no disagreement, but "
    "two clients with gradients (1, -1) and (-1, 1), weights (1, 0) and (0, 1) and grad J = (-1, "
    "-1) have 4 against 2. With (13) the drift of (24) enters (27) with a factor 4.",
    corrected="eq14_corrected",
)
def eq14(step: Round, factor: int = 1) -> rc.Sides:
    """T_{1,1} <= ||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j(theta^c))||^2 + ||(1/C) sum_c
    sum_j g^{j,c} (lambda_t^{j,c} - lambda_t^j)||^2.
    """
    return step.estimation, factor * (step.gradient_error + step.disagreement)


@PAPER.upper(
    "eq14_corrected",
    ref="equation (14), corrected",
    tex=r"\mathcal T_{1,1}\le2\mathcal T_{1,1}^{\rm gradient-error}+2"
    r"\mathcal T_{1,1}^{\rm disagr-drift}",
    on=ANY,
    derivation="Subtract and add (1/C) sum_c sum_j lambda_t^j g^{j,c}; ||x + y||^2 <= 2||x||^2 + "
    "2||y||^2.",
)
def eq14_corrected(step: Any) -> rc.Sides:
    """T_{1,1} <= 2 (gradient error + disagreement drift)."""
    return eq14(step, 2)


EQ7 = replace(
    eq14,
    id="firm.eq7",
    source="FIRM, equation (7)",
    text="(14) with the clients' average lambdabar_t in the place of lambda_t.",
    space=AVERAGED,
    note="The factor 2 is missing, as in (14). (7) leaves its first term out, and its T_{1,1} is "
    "that of (13); both are taken from (14). The weights are any here. With those of (1) it fails, "
    "too: two clients with gradients (1.1, 0.9) and (0.9, 1.1), beta = 0.4, eta = 1 and grad J = "
    "(12/11, 12/11) have 0.0331 against 0.0165.",
    corrected="firm.eq7_corrected",
)
EQ7_CORRECTED = replace(
    eq14_corrected,
    id="firm.eq7_corrected",
    source="FIRM, equation (7), corrected",
    text="(14) with the clients' average lambdabar_t in the place of lambda_t, and the factor 2.",
    space=AVERAGED,
)


@PAPER.upper(
    "eq15",
    ref="equation (15)",
    tex=r"\|x+y+z\|^2\le3(\|x\|^2+\|y\|^2+\|z\|^2)",
    on=rc.Space(fields={"parts": rc.reals(3, "d")}, sizes={"d": (1, 3)}, batched=True),
)
def eq15(parts: Numbers) -> rc.Sides:
    """||x + y + z||^2 <= 3 (||x||^2 + ||y||^2 + ||z||^2)."""
    return squared(parts.sum(axis=1)), 3 * squared(parts).sum(axis=1)


@PAPER.upper(
    "eq26",
    ref="equation (26)",
    uses=["eq50_52"],
    tex=r"\mathcal T_{1,2}\le4L_J^2R^2a^2K^2",
    on=SYNCHRONISED,
    note="Four times what is needed. The third line has lost the sum over pairs of clients and the "
    "fourth, as (51), a factor 2 too many; with both mended the end is the same. (27) repeats "
    "the term with L_J in the place of L_J^2.",
)
def eq26(
    step: Round, a: rc.Numbers, L: rc.Numbers, R: rc.Numbers, K: int, constant: int = 4
) -> rc.Sides:
    """T_{1,2} <= 4 L_J^2 R^2 a^2 K^2, K steps after the clients had one policy."""
    return step.drift, constant * (L * R * a * K) ** 2


@PAPER.upper(
    "eq26_sharper",
    ref="equation (26), sharpened",
    tex=r"\mathcal T_{1,2}\le L_J^2R^2a^2K^2",
    on=SYNCHRONISED,
    derivation="T_{1,2} <= L_J^2 (1/C) sum ||theta^c - thetabar||^2, a variance, hence at most "
    "L_J^2 (1/C) sum ||theta^c - theta_{t_0}||^2 <= L_J^2 (a R K)^2. Attained: J' = L |theta| and "
    "two clients that walk apart.",
    sharpens="eq26",
)
def eq26_sharper(step: Any, a: Any, L: Any, R: Any, K: Any) -> rc.Sides:
    """T_{1,2} <= L_J^2 R^2 a^2 K^2."""
    return eq26(step, a, L, R, K, 1)
