"""P-ShareLoRA, proof of Theorem B.3 from grad f to (B.8): one user's likelihood, basis given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import quadratic as at
from linsys.linalg import Numbers, norm

_SIZE = (0.1, 3.0)


def comparing(*, psi: Any, R: Any, o: Any, **others: Any) -> SimpleNamespace:
    """``system`` and the further fields as they are."""
    return SimpleNamespace(system=at.Comparing(psi, R, o), **others)


CURVED = rc.Space(
    fields={
        "psi": rc.reals("n", 2, "D", magnitude=_SIZE),
        "R": rc.positive(low=0.1, high=10.0),
        "o": rc.whole_numbers("n", low=0, high=1),
        "w": rc.reals("D", magnitude=_SIZE),
        "diamond": rc.reals("D", magnitude=_SIZE),
    },
    sizes={"n": (1, 3), "D": (1, 2)},
    view=comparing,
    batched=True,
    meaning={
        "psi": "(I x B_hat)' psi of both trajectories of each comparison",
        "R": "of the reward R tanh(<w, psi>/R)",
        "o": "labels",
        "w": "a point w, or w_hat",
        "diamond": "w_diamond",
    },
)


_ONE_LABEL: dict[str, Any] = {
    "psi": [[[1.0], [0.0]]],
    "R": 10.0,
    "o": [1.0],
    "w": [0.0],
    "diamond": [0.0],
}


@PAPER.identity(
    "grad_f",
    ref="grad f above (B.6)",
    tex=r"\nabla f=\frac1{N_p}\sum_j\Big(\frac{\Phi'(x_j)}{\Phi(x_j)}1(o_j=0)-"
    r"\frac{\Phi'(-x_j)}{\Phi(-x_j)}1(o_j=1)\Big)(I\otimes\hat B)^\top\nabla x_j",
    on=CURVED,
    expect="violated",
    note="o = 1 means tau0 is preferred, with chance Phi(x): the two indicators are exchanged. "
    "One comparison o = 1 at w = 0: +1/2 and not -1/2. V and V' further down have them right; "
    "with the printed gradient the noise at the truth is not centred. Who implements the display "
    "learns the reverse preferences. Nothing else depends on it.",
    corrected="grad_f_corrected",
    printed_as="misprint",
    family=[_ONE_LABEL],
)
def grad_f(system: Any, w: Any) -> rc.Sides:
    """grad f = mean of (Phi'(x)/Phi(x) 1(o = 0) - Phi'(-x)/Phi(-x) 1(o = 1)) times (I x
    B_hat)'(grad r(tau0) - grad r(tau1)).
    """
    return (system.by_ratios(w, True)[0], system.gradient(w))


@PAPER.identity(
    "grad_f_corrected",
    ref="grad f above (B.6), corrected",
    on=grad_f.space,
    tex=r"\nabla f=\frac1{N_p}\sum_j\Big(\frac{\Phi'(x_j)}{\Phi(x_j)}1(o_j=1)-"
    r"\frac{\Phi'(-x_j)}{\Phi(-x_j)}1(o_j=0)\Big)(I\otimes\hat B)^\top\nabla x_j",
    derivation="log P(o) is log Phi(x) for o = 1 and log Phi(-x) for o = 0. Compared with (o - "
    "Phi(x)) grad x, which the sigmoid gives.",
)
def grad_f_corrected(system: Any, w: Any) -> rc.Sides:
    """grad f = mean of (Phi'(x)/Phi(x) 1(o = 1) - Phi'(-x)/Phi(-x) 1(o = 0)) times (I x
    B_hat)'(grad r(tau0) - grad r(tau1)).
    """
    return system.by_ratios(w, False)[0], system.gradient(w)


@PAPER.identity(
    "eq_B6",
    ref="equation (B.6)",
    on=grad_f.space,
    tex=r"\nabla^2f=\frac1{N_p}\sum_j\Big(\frac{\Phi'(x_j)}{\Phi(x_j)}1(o_j=0)-\dots\Big)"
    r"\nabla^2x_j+\Big(\frac{\Phi''\Phi-\Phi'^2}{\Phi^2}(x_j)1(o_j=0)+\dots\Big)"
    r"\nabla x_j\nabla x_j^\top",
    expect="violated",
    note="The indicators as in psl.grad_f. For linear rewards the display is right: there is no "
    "first term, and for the sigmoid the second one does not depend on the label. (B.9) bounds "
    "the first term by its size, so nothing follows from it.",
    corrected="eq_B6_corrected",
    printed_as="misprint",
)
def eq_B6(system: Any, w: Any) -> rc.Sides:
    """grad^2 f = mean of (Phi'(x)/Phi(x) 1(o = 0) - Phi'(-x)/Phi(-x) 1(o = 1)) times the difference
    of Hessians, plus ((Phi''Phi - Phi'^2)/Phi^2 (x) 1(o = 0) + (Phi''Phi - Phi'^2)/Phi^2 (-x) 1(o =
    1)) times the squared difference of gradients.
    """
    return system.by_ratios(w, True)[1], system.hessian(w)


@PAPER.identity(
    "eq_B6_corrected",
    ref="equation (B.6), corrected",
    on=eq_B6.space,
    tex=eq_B6.latex.replace("o_j=0", "o_j=1"),
    uses=["grad_f_corrected"],
    derivation="The derivative of psl.grad_f_corrected.",
)
def eq_B6_corrected(system: Any, w: Any) -> rc.Sides:
    """grad^2 f = mean of (Phi'(x)/Phi(x) 1(o = 1) - Phi'(-x)/Phi(-x) 1(o = 0)) times the difference
    of Hessians, plus ((Phi''Phi - Phi'^2)/Phi^2 (x) 1(o = 1) + (Phi''Phi - Phi'^2)/Phi^2 (-x) 1(o =
    0)) times the squared difference of gradients.
    """
    return system.by_ratios(w, False)[1], system.hessian(w)


SEGMENT = rc.Space(
    fields={
        "first": rc.reals("n", magnitude=_SIZE),
        "second": rc.reals("n", magnitude=_SIZE),
        "o": rc.whole_numbers("n", low=0, high=1),
    },
    sizes={"n": (1, 3)},
    batched=True,
    meaning={
        "first": "x_j at w_diamond, linear rewards",
        "second": "x_j at w_hat",
        "o": "labels",
    },
)


@PAPER.lower(
    "eq_B7",
    ref="equation (B.7)",
    tex=r"f(\hat w)=f(w^\diamond)+\nabla f(w^\diamond)^\top\delta+\delta^\top\nabla^2f(\bar w)"
    r"\delta",
    on=SEGMENT,
    relation=">=",
    expect="violated",
    note="Taylor's remainder has 1/2. x from 1 to 1.1: the remainder is 0.00096, the least of the "
    "last term 0.00187. (B.9) loses a factor two, unless it is derived from the gradients at both "
    "ends, see psl.eq_B9_linear.",
    corrected="eq_B7_corrected",
    printed_as="proof step",
    family=[{"first": [1.0], "second": [1.1], "o": [1.0]}],
)
def eq_B7(first: Any, second: Any, o: Any) -> rc.Sides:
    """f(w_hat) = f(w_diamond) + grad f(w_diamond)'d + d'grad^2 f(w) d at some w between; hence the
    remainder is between the extreme values of the last term.
    """
    return at.eq_B7(first, second, o, 1)


@PAPER.lower(
    "eq_B7_corrected",
    ref="equation (B.7), corrected",
    on=eq_B7.space,
    tex=r"f(\hat w)=f(w^\diamond)+\nabla f(w^\diamond)^\top\delta+\tfrac12\delta^\top\nabla^2"
    r"f(\bar w)\delta",
    note="Attained in the limit of short segments.",
    derivation="Taylor's theorem with Lagrange's remainder.",
)
def eq_B7_corrected(first: Any, second: Any, o: Any) -> rc.Sides:
    """f(w_hat) = f(w_diamond) + grad f(w_diamond)'d + d'grad^2 f(w) d / 2 at some w between; hence
    the remainder is between the extreme values of the last term.
    """
    return at.eq_B7(first, second, o, 2)


def _steps(s: Any) -> tuple[Any, Any]:
    """The one difference of gradients at both points."""
    return s.system.steps(s.w)[:, 0, 0], s.system.steps(s.diamond)[:, 0, 0]


@PAPER.lower(
    "eq_B8",
    ref="(B.8)",
    tex=r"c_1\Sigma^\diamond_i\preceq\Sigma_i(w),\ c_1>0\ \Rightarrow\ x'(w)x'(w^\diamond)\ge0",
    on=replace(CURVED, sizes={"n": (1, 1), "D": (1, 1)}),
    relation=">=",
    expect="violated",
    note="Rewards tanh(w psi) at psi = 1 and 2: x' = -1 at w = 0 and 0.28 at w = 1, so that it "
    "is zero in between and no c1 > 0 exists; with w_diamond there, no c1' < infinity. Nothing in "
    "Assumption 1 prevents it, and (B.11), (B.20) then bound nothing: for non-linear rewards "
    "Theorems B.3 and 4.2 need a curvature assumption. Linear rewards have c1 = c1' = 1.",
    corrected="eq_B8_corrected",
    printed_as="proof step",
    family=[{"psi": [[[1.0], [2.0]]], "R": 1.0, "o": [1.0], "w": [1.0], "diamond": [0.0]}],
)
def eq_B8(instance: Any) -> rc.Sides:
    """c1 > 0 with c1 Sigma_diamond <= Sigma(w) for all ||w|| <= B. For one parameter and one
    comparison: x'(w) never is zero on the ball, so that it keeps its sign.
    """
    return (_steps(instance)[0] * _steps(instance)[1], 0 * instance.w[:, 0])


@PAPER.upper(
    "eq_B8_corrected",
    ref="(B.8), corrected",
    tex=r"\big|\|u\|_{\Sigma(w)}-\|u\|_{\Sigma^\diamond}\big|\le2L_2\|w-w^\diamond\|\|u\|",
    on=replace(
        CURVED,
        fields={**CURVED.fields, "u": rc.reals("D", magnitude=_SIZE)},
        meaning={**CURVED.meaning, "u": "any direction"},
    ),
    derivation="Each grad r is L2-Lipschitz, so u'(steps) moves by at most 2 L2 ||w - w_diamond|| "
    "||u|| in every comparison; the norms are root mean squares of it.",
)
def eq_B8_corrected(system: at.Comparing, u: Numbers, w: Numbers, diamond: Numbers) -> rc.Sides:
    """The norms of Sigma(w) and of Sigma_diamond differ by at most 2 L2 ||w - w_diamond|| ||u||. So
    c1 >= (1 - s)^2, c1' <= (1 + s)^2 if s = 4 L2 B / sqrt(lambda_min(Sigma_diamond)) is below one.
    """
    apart = np.abs(system.weighted(u, w) - system.weighted(u, diamond))
    return apart, 2 * system.smooth * norm(w - diamond) * norm(u)
