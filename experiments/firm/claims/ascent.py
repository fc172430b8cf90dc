"""FIRM, (28) to (32): from one step of the averaged policy to the sum over time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims.telescoping import RUNS, on_simplex
from experiments.firm.paper import PAPER
from experiments.firm.theory import ascent
from experiments.firm.theory.ascent import Ascent
from experiments.firm.theory.descent import Round
from experiments.firm.theory.hills import Climb
from experiments.firm.theory.weights import smoothed
from linsys.linalg import Numbers, squared


def _outcomes(
    *, b: Any, h: Any, o: Any, L: Any, a: Any, p: Any, theta: Any, g: Any, lam: Any, common: Any
) -> SimpleNamespace:
    """Rounds of all N outcomes, those of an instance one after another; one policy each."""
    count, N = p.shape
    b, h, o = (np.repeat(x, N, axis=0) for x in (b, h * L[:, None, None], o))
    rest = (x.reshape(count * N, *x.shape[2:]) for x in (g, lam, common))
    g, lam, common = rest
    theta = np.repeat(theta, N, axis=0)
    step = Round(b=b, h=h, o=o, theta=theta, g=g, lam=lam, common=common)
    return SimpleNamespace(step=step, p=p, a=a / L)


_OBJECTIVES = {
    "b": rc.reals("M", "d", magnitude=(0.1, 10.0)),
    "h": rc.interval("M", "d", low=-1.0, high=1.0),
    "o": rc.reals("M", "d", magnitude=(0.1, 10.0)),
    "L": rc.positive(low=0.1, high=10.0),
    "a": rc.positive(low=0.01, high=1.0),
}
_MEANING = {
    "b": "J^j(theta) is the sum over coordinates of b theta + (L/2) h (theta - o)|theta - o|",
    "h": "see b",
    "o": "see b",
    "L": "L_J",
    "a": "the step size times L_J",
}


@PAPER.upper(
    "eq28_30",
    ref="equations (28) to (30)",
    uses=["eq12", "eq27"],
    tex=r"\mathbb E\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2\alpha\mathbb E\big["
    r"\lambda_t^\top(J(\bar\theta_{t+1})-J(\bar\theta_t))\big]+\mathbb E\mathcal Q_t",
    on=rc.Space(
        fields={
            **_OBJECTIVES,
            "p": rc.simplex("N"),
            "theta": rc.reals("C", "d", magnitude=(0.1, 10.0)),
            "g": rc.reals("N", "C", "M", "d", magnitude=(0.1, 10.0)),
            "lam": rc.simplex("N", "C", "M"),
            "common": rc.simplex("N", "M"),
        },
        sizes={"N": (1, 2), "C": (1, 2), "M": (1, 2), "d": (1, 2)},
        view=_outcomes,
        batched=True,
        meaning={
            **_MEANING,
            "p": "probabilities of the outcomes",
            "theta": "the clients' policies",
            "g": "the clients' stochastic gradients, of every outcome",
            "lam": "the clients' weights",
            "common": "lambda_t",
        },
    ),
    note="These lines rest on (12) alone, as T_1 stands for Q_t here; that the Q_t of the text is "
    "at least T_1 is (27), which is false (firm.eq27). Sound, also for a lambda_t that depends on "
    "the gradients of step t, as (12) holds for every outcome.",
)
def eq28_30(step: Round, p: Numbers, a: Numbers) -> rc.Sides:
    """E||grad J(thetabar_t) lambda_t||^2 <= (2/a) E lambda_t'(J(thetabar_{t+1}) - J(thetabar_t)) +
    E Q_t for a <= 1/L_J, if Q_t is at least T_1; here it is T_1.
    """
    a = np.repeat(a, p.shape[1])
    after = step.values(step.centre + a[:, None] * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    sides = squared(step.gradient), 2 / a * gain + step.error
    left, right = ((p * side.reshape(p.shape)).sum(axis=1) for side in sides)
    return left, right


def _ascent(
    *, b: Any, h: Any, o: Any, L: Any, a: Any, first: Any, e: Any, start: Any, stars: Any, eta: Any
) -> SimpleNamespace:
    """A path of T steps with smoothed weights."""
    lam = smoothed(start, stars, eta)[:, 1:]
    objectives = Round(b, h * L[:, None, None], o, first, e, lam, start)
    path = ascent.Ascent(objectives, first, e, lam, a / L)
    return SimpleNamespace(path=path, eta=eta, h=h, a=a, start=start, stars=stars)


def _decreasing(*, eta: Any, **others: Any) -> SimpleNamespace:
    """A path of T steps with smoothed weights and eta_1 >= eta_2 >= ..."""
    return _ascent(eta=np.minimum.accumulate(eta, axis=1), **others)


ASCENTS = rc.Space(
    fields={
        **_OBJECTIVES,
        "first": rc.reals("d", magnitude=(0.1, 10.0)),
        "e": rc.reals("T", "d", magnitude=(0.01, 10.0)),
        "start": rc.simplex("M"),
        "stars": rc.simplex("T", "M"),
        "eta": rc.interval("T"),
    },
    sizes={"T": (1, 3), "M": (1, 2), "d": (1, 2)},
    view=_ascent,
    assumes={
        "Assumption 3(b): second derivatives are L_J or less": lambda s: (np.abs(s.h) <= 1).all(
            axis=(1, 2)
        ),
        "alpha <= 1/L_J": lambda s: s.a <= 1,
        "(11): 0 <= eta_t <= 1": lambda s: ((s.eta >= 0) & (s.eta <= 1)).all(axis=1),
        "(11): lambda_0 and lambda*_t on the simplex": lambda s: (
            on_simplex(s.start) & on_simplex(s.stars).all(axis=1)
        ),
    },
    batched=True,
    meaning={
        **_MEANING,
        "first": "thetabar_1",
        "e": "gbar_t - grad J(thetabar_t) lambda_t",
        "start": "lambda_0",
        "stars": "lambda*_1, ..., lambda*_T",
    },
)


@PAPER.upper(
    "eq31",
    ref="equation (31)",
    printed_as="misprint",
    uses=["eq28_30"],
    tex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\|^2\le\frac2{T\alpha}\sum_t\lambda_t^\top"
    r"(J(\bar\theta_{t+1})-J(\bar\theta_t))+\frac1T\sum_t\mathcal Q_t",
    on=ASCENTS,
    expect="violated",
    note="lambda_t is missing on the left, and the expectation of the first sum on the right. No "
    "weighted combination bounds all gradients: lambda = (1, 0), J^1 constant, J^2 not: 0 on the "
    "right. Q_t is no more than T_1 here, and is T_1. With the Q_t of F.2 the same is seen for "
    "small alpha: two opposite gradients, lambda = (1/2, 1/2), exact critics and B to infinity "
    "have grad J lambda = 0 and Q_t = O(alpha). (32) has lambda_t again, so nothing follows from "
    "it.",
    corrected="eq31_corrected",
)
def eq31(path: ascent.Ascent) -> rc.Sides:
    """(1/T) sum ||grad J(thetabar_t)||^2 <= (2/(T a)) sum lambda_t'(J(thetabar_{t+1}) -
    J(thetabar_t)) + (1/T) sum Q_t, Q_t = T_1, for a norm of the matrix that is at least
    ||.||_F/sqrt(M).

    ||.||_F^2 / M <= ||.||_op^2, so that either reading of the norm of a matrix is above.
    """
    measured = path.averaged(squared(path.gradients).sum(axis=-1) / path.lam.shape[-1])
    return measured, eq31_corrected(path)[1]


@PAPER.upper(
    "eq31_corrected",
    ref="equation (31), corrected",
    tex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2{T\alpha}\sum_t\lambda_t^"
    r"\top(J(\bar\theta_{t+1})-J(\bar\theta_t))+\frac1T\sum_t\mathcal Q_t",
    on=ASCENTS,
    derivation="The average of (30).",
)
def eq31_corrected(path: Ascent) -> rc.Sides:
    """(1/T) sum ||grad J(thetabar_t) lambda_t||^2 <= (2/(T a)) sum lambda_t'(J(thetabar_{t+1}) -
    J(thetabar_t)) + (1/T) sum Q_t, if Q_t is at least T_1.
    """
    gain = path.averaged((path.lam * (path.J[:, 1:] - path.J[:, :-1])).sum(axis=-1))
    return path.stationarity, 2 / path.a * gain + path.error


@PAPER.upper(
    "eq32",
    ref="equation (32)",
    printed_as="proof step",
    uses=["eq31", "lemma10"],
    tex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2{T\alpha}\frac{r_{\max}}"
    r"{1-\gamma}\Big(1+\sum_{t=1}^{T-1}2\eta_t\Big)+\frac1T\sum_t\mathcal Q_t",
    on=RUNS,
    expect="violated",
    note="Lemma 10 is off by an index. By hand: eta = (0.1, 0.9), each J^j concave of curvature "
    "L_J = 1/a along its own axis, exact gradients: lambda_1 = (1, 0) while J^1 rises by top to "
    "its maximum, lambda_2 = (0.1, 0.9) while J^2 rises by 0.99 top: (2 + 2 * 0.81) top/a against "
    "2.4 top/a, times 1/T. There J^j is in [0, top] along the path only, and the lambda*_t are any "
    "points of the simplex; in the counterexample J^j is in [0, gamma r_max/(1 - gamma)] and "
    "L_J-smooth everywhere, and the weights are those of (1) and (11). A longer run of the same "
    "kind, theta_1 = (1/32, 1), T = 7, eta_t = 10^-4 but eta_7 = 0.999, has 2.311 against 2.014, "
    "times 1/T, for gamma near 1 (tests/firm/test_eq32.py). No effect where eta_t does not grow.",
    corrected="eq32_corrected",
)
def eq32(run: Climb, a: rc.Numbers, eta: rc.Numbers, top: rc.Numbers) -> rc.Sides:
    """(1/T) sum ||grad J(thetabar_t) lambda_t||^2 <= (2/(T a)) (r_max/(1-gamma)) (1 + sum_{t<=T-1}
    2 eta_t) + (1/T) sum Q_t, if Q_t is at least T_1; here it is T_1.

    ``a`` is the step size over 1 / L_J, and L_J = run.top.
    """
    gain = top / eta.shape[1] * (1 + 2 * eta[:, :-1].sum(axis=1))
    return run.stationarity, 2 * run.top / a * gain + run.error


@PAPER.upper(
    "eq32_decreasing",
    ref="equation (32) for steps that do not grow",
    printed_as="ours",
    on=replace(ASCENTS, view=_decreasing),
    tex=eq32.latex,
    uses=["eq32_corrected"],
    derivation="firm.eq32_corrected and eta_{t+1} <= eta_t.",
)
def eq32_decreasing(path: ascent.Ascent, eta: rc.Numbers) -> rc.Sides:
    """(32) for eta_1 >= eta_2 >= ..., if Q_t is at least T_1 and no J^j varies by more than
    r_max/(1-gamma) along the path.
    """
    gain = path.top / eta.shape[1] * (1 + 2 * eta[:, :-1].sum(axis=1))
    return path.stationarity, 2 / path.a * gain + path.error


@PAPER.upper(
    "eq32_corrected",
    ref="equation (32), corrected",
    uses=["eq31_corrected", "lemma10_corrected"],
    tex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac{2\,{\rm top}}{T\alpha}"
    r"\Big(1+\sum_{t=2}^T\eta_t\Big)+\frac1T\sum_t\mathcal Q_t",
    on=ASCENTS,
    derivation="firm.eq31_corrected, and firm.lemma10_corrected for each J^j less its least value "
    "on the path; (30) holds given F_t, and its mean is taken over all of the past.",
)
def eq32_corrected(path: ascent.Ascent, eta: Numbers) -> rc.Sides:
    """For weights that follow (11) and 0 < a <= 1/L_J: (1/T) sum ||grad J(thetabar_t) lambda_t||^2
    <= (2/(T a)) top (1 + sum_{t=2}^T eta_t) + (1/T) sum Q_t, if Q_t is at least T_1 and no J^j
    varies by more than top along the path.
    """
    gain = path.top / eta.shape[1] * (1 + eta[:, 1:].sum(axis=1))
    return path.stationarity, 2 / path.a * gain + path.error
