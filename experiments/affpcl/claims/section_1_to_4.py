"""AffPCL, Sections 1.2 to 4: constants, federated learning, bias correction, parametrisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, systems
from experiments.affpcl.claims._values import ITERATES, same_environment, states, valued
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import constants as at, correction as go, rounds
from experiments.affpcl.theory.directions import (
    average_residual,
    averaged,
    bias_corrected,
    central_residual,
    covariance,
    local_residual,
    mean,
    own,
    variance,
)
from experiments.affpcl.theory.parametrization import objective_gap, objective_level
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import solve

VALUED = valued()
ALIKE = valued(alike=True)


def centred(fields: rc.Fields) -> rc.Fields:
    """Subtract E_mu f from f."""
    mean = (fields["mu"][..., None] * fields["f"]).sum(axis=1, keepdims=True)
    return {**fields, "f": fields["f"] - mean}


ZERO_MEAN = rc.Space(
    fields={"mu": rc.simplex("S"), "f": rc.reals("S", "d")},
    sizes={"S": (1, 5), "d": (1, 3)},
    repair=centred,
    batched=True,
)


def _columns(*values: rc.Numbers) -> rc.Numbers:
    """Numbers of shape (B,) beside each other, shape (B, k)."""
    return np.stack(values, axis=-1)


# Section 1.2.


@PAPER.upper(
    "const_sigma",
    ref="Section 1.2",
    tex=r"\|g_t^i(x_*^i)\|\le G_AG_x+G_b\le\sigma",
    on=VALUED,
)
def const_sigma(stack: FiniteStack) -> rc.Sides:
    """||g^i(x_*^i; s)|| <= G_A G_x + G_b <= sigma, with Section 1.2's constants.

    Shape (B, 2).
    """
    scale = stack.G_A * stack.G_x + stack.G_b
    return _columns(at.largest(stack, local_residual(stack, stack.x_star)), scale), _columns(
        scale, stack.sigma
    )


@PAPER.upper(
    "const_sigma_sec4",
    ref="Sections 1.2 and 4",
    tex=r"\|g_t^i(x_*^i)\|\le G_AG_x+G_b\le\sigma",
    on=SYSTEMS,
)
def const_sigma_sec4(stack: FiniteStack) -> rc.Sides:
    """||g^i(x_*^i; s)|| <= G_A G_x + G_b <= sigma with Section 1.2's G_x and Section 4's G_b, given
    ||Phi(s)|| <= 1.
    """
    reach = stack.G_A * stack.G_x_agents
    scale, sigma = reach + stack.G_b, 2 * np.maximum(reach, stack.G_b)
    return _columns(at.largest(stack, local_residual(stack, stack.x_star)), scale), _columns(
        scale, sigma
    )


@PAPER.upper(
    "const_sigma_central",
    ref="Section 1.2 as used in Lemma F.2",
    printed_as="proof step",
    reading="Lemma F.2's proof takes G_A G_x + G_b for a bound of ||g^i(x_*^c)||, and Section 1.2 "
    "has the only definition of G_x before Appendix C.6.",
    tex=r"\|g_t^i(x_*^c)\|\le G_AG_x+G_b",
    on=valued(sizes={"n": (2, 2), "S": (2, 2), "d": (2, 2)}),
    expect="violated",
    note="x_*^c is no convex combination of the x_*^i: with Abar^1 = e I + J, Abar^2 = e I - J for "
    "a quarter turn J and x_*^1 = -x_*^2 a unit vector, ||x_*^c|| = 1/e while max_i ||x_*^i|| "
    "= 1. If each agent meets one state only, ||g^1(x_*^c)|| = 26/5 at e = 1/5, and G_A G_x + G_b "
    "= 2.04. Section 1.2 has no x_*^c in G_x; Lemmas D.1 (i), D.2, F.2, F.4 and G.1 to G.3 need "
    "it there, as C.6 has it. With C.6's G_x this step is right in all of them; with Section "
    "1.2's, kappa is too small for them.",
    corrected="const_sigma_central_corrected",
    reading_of="const_sigma",
)
def const_sigma_central(stack: FiniteStack) -> rc.Sides:
    """||g^i(x_*^c; s)|| <= G_A G_x + G_b, with G_x = max_i ||x_*^i||.

    Shape (B,).

    G_x contains x_*^c for a :class:`FiniteStack`, as in Appendix C.6, and not for a
    :class:`~experiments.affpcl.theory.parametrization.ValueStack`, as in Section 1.2.
    """
    residual = local_residual(stack, stack.x_star_central)
    return at.largest(stack, residual), stack.G_A * stack.G_x + stack.G_b


@PAPER.upper(
    "const_sigma_central_corrected",
    ref="Section 1.2 with G_x of Appendix C.6",
    tex=r"\|g_t^i(x_*^c)\|,\|g_t^{c\to i}(x_*^c;\theta_*^c)\|\le G_AG_x+G_b,\ G_x\ge\|x_*^c\|",
    on=SYSTEMS,
    derivation="||A(s) x_*^c|| <= G_A G_x now that G_x >= ||x_*^c||; ||b^i(s)|| and ||b^c(s)|| are"
    " at most ||theta|| <= G_b by ||Phi(s)|| <= 1.",
)
def const_sigma_central_corrected(stack: FiniteStack) -> rc.Sides:
    """||g^i(x_*^c; s)|| and ||A(s) x_*^c - b^c(s)|| are at most G_A G_x + G_b <= sigma, with G_x =
    max{max_i ||x_*^i||, ||x_*^c||} and Section 4's G_b.

    Shape (B, 2).
    """
    centre = central_residual(stack, stack.x_star_central, stack.theta_star_central)
    return _columns(
        at.largest(stack, local_residual(stack, stack.x_star_central)),
        at.largest(stack, centre[:, None]),
    ), stack.G_A * stack.G_x + stack.G_b


@PAPER.upper(
    "const_trvar",
    ref="Section 1.2",
    tex=r"\mathrm{tr}\,\mathrm{Var}_\mu(f)=\mathbb E_\mu\|f\|^2\le G_f^2",
    on=ZERO_MEAN,
)
def const_trvar(mu: rc.Numbers, f: rc.Numbers) -> rc.Sides:
    """For vectors f with E_mu f = 0: tr Var_mu f = E||f||^2 <= G_f^2 (this claim: both are at most
    G_f^2).

    mu is (B, S) and f is (B, S, d). G_f is the largest ||f(s)|| where mu(s) > 0.
    """
    bound = ((f * f).sum(axis=-1) * (mu > 0)).max(axis=-1)
    return _columns(at.trace_of_variance(mu, f), at.mean_square(mu, f)), bound


@PAPER.identity(
    "const_trvar_equality",
    ref="Section 1.2",
    tex=r"\mathrm{tr}\,\mathrm{Var}_\mu(f)=\mathbb E_\mu\|f\|^2",
    on=ZERO_MEAN,
)
def const_trvar_equality(mu: Any, f: Any) -> rc.Sides:
    """For E_mu f = 0: the trace of E f f' - (E f)(E f)' is E||f||^2."""
    return (at.trace_of_variance(mu, f), at.mean_square(mu, f))


# Section 2.

ROUNDS: dict[str, rc.Field] = {"x_c": rc.reals("d"), "draw": rc.interval("R", "n")}


@PAPER.identity(
    "fl_average",
    ref="Section 2, equation (4)",
    tex=r"x_{t+1}^c=\frac1n\sum_i x_{t+1}^i=x_t^c-\alpha_tg_t^0(x_t^c)",
    on=valued(ROUNDS, alike=True, sizes={"R": (1, 3)}),
)
def fl_average(instance: Any) -> rc.Sides:
    """Local updates from x^i = x^c, averaged and sent back, are (4), and x^c is their average."""
    return rounds.federated_rounds(instance, states(instance))


# Section 3.


@PAPER.upper(
    "def1_range",
    ref="Definitions 1 and 2",
    tex=r"\delta_{\mathrm{obj}},\delta_{\mathrm{env}}\in[0,1]",
    on=VALUED,
)
def def1_range(stack: FiniteStack) -> rc.Sides:
    """delta_obj and delta_env lie in [0, 1].

    Shape (B, 4).
    """
    levels = _columns(objective_level(stack), stack.delta_env)
    return np.concatenate([levels, 0 * levels], axis=1), np.concatenate(
        [1 + 0 * levels, levels], axis=1
    )


@PAPER.identity(
    "bias_identity",
    ref="Section 3, equation (5)",
    tex=r"\mathbb E_\mu[\tilde g_t^i]=\mathbb E_\mu[g_t^i(x_t^i)]",
    on=valued({k: ITERATES[k] for k in ("x", "x_c")}, alike=True),
)
def bias_identity(stack: FiniteStack) -> rc.Sides:
    """In one environment E[gtilde^i] = E[g^i(x^i)], whatever x^i and the common x^0.

    Shape (B, n, d).
    """
    own_direction = apply(stack.A_bar, stack.x) - stack.b_bar
    return mean(stack, bias_corrected(stack, stack.x, stack.x_c)), own_direction


@PAPER.upper(
    "control_variate",
    ref="Section 3, control variates",
    tex=r"\mathrm{Cov}\big(g^i(x_*^i),g^{0\to i}(x_*^0)\big)\ge0",
    on=ALIKE,
    expect="violated",
    note="Nothing forces an agent's objective to vary with the average one: A = 1, two even "
    "states, b^1 = +-1, b^2 = -+3 gives b^0 = -+1 and a covariance of -1; g^1 - "
    "g^{0->1} then has four times the variance of g^1. Proposition 2 does not use the "
    "sign, but the control variate is no reason why no agent should lose. On average "
    "over the agents the covariance is a variance, and that of g^i - g^{0->i} at most "
    "that of g^i.",
    corrected="control_variate_corrected",
)
def control_variate(stack: FiniteStack) -> rc.Sides:
    """g^{0->i}(x_*^0) correlates positively with g^i(x_*^i), so that taking it away leaves no more
    than the sum of both variances.

    The difference of the sides is twice the covariance of the direction and its control variate.
    """
    direction = own(local_residual(stack, stack.x_star))
    control = own(go.for_all(stack, average_residual(stack, stack.x_star_central)))
    return variance(stack, direction - control), variance(stack, direction) + variance(
        stack, control
    )


@PAPER.identity(
    "control_variate_corrected",
    ref="Section 3, control variates, on average over the agents",
    tex=r"\frac1n\sum_i\mathrm{Cov}(g^i(x^i),g^{0\to i}(x^0))=\mathrm{tr\,Var}\,g^{0\to i}(x^0)",
    on=valued({"x": ITERATES["x"]}, alike=True),
    derivation="In one environment all covariances are under the same mu, and at every state (1/n)"
    " sum_i (A(s) x^i - b^i(s)) = A(s) x^0 - b^0(s) is the control variate itself.",
)
def control_variate_corrected(stack: FiniteStack) -> rc.Sides:
    """In one environment (1/n) sum_i Cov(g^i(x^i), g^{0->i}(x^0)) = tr Var g^{0->i}(x^0) >= 0 at
    any x^i of average x^0, Cov the trace of the covariance matrix.

    Shape (B,).

    In one environment, at any x^i with average x^0: at every state the average over i of the
    residuals g^i(x^i; s) is A(s) x^0 - b^0(s).
    """
    control = own(go.for_all(stack, average_residual(stack, stack.x.mean(axis=1))))
    together = covariance(stack, own(local_residual(stack, stack.x)), control)
    return together.mean(axis=1), variance(stack, control)[:, 0]


@PAPER.identity(
    "central_local",
    ref="Section 3, central-local decomposition",
    tex=r"x_*^{\mathrm{cen}}+x_*^{i,\mathrm{loc}}=x_*^i",
    on=ALIKE,
)
def central_local(stack: FiniteStack) -> rc.Sides:
    """In one environment x_*^cen + x_*^loc = x_*^i with Abar x_*^loc = bbar^i - bbar^0.

    Shape (B, n, d).
    """
    local = solve(stack.A_bar, stack.b_bar - stack.b_bar0[:, None])
    return stack.x_star_central[:, None] + local, stack.x_star


# Section 4.


@PAPER.upper(
    "sec4_redef",
    ref="Section 4",
    tex=r"\sup_s\|b^i(s)\|\le G_b,\ \sup_s\|b^i(s)-b^j(s)\|\le2G_b\delta_{\mathrm{obj}}",
    on=SYSTEMS,
)
def sec4_redef(stack: FiniteStack) -> rc.Sides:
    """G_b = max{max_i ||theta^i||, ||theta_*^c||} bounds b^i and b^c, 2 G_b delta_obj bounds b^i -
    b^j, and delta_obj <= 1.

    Shape (B, 4). It needs ||Phi(s)|| <= 1.
    """
    one = 1 + 0 * stack.G_b
    return _columns(
        stack.G_b_objective,
        at.largest(stack, stack.b_central[:, None]),
        objective_gap(stack),
        stack.delta_obj,
    ), _columns(stack.G_b, stack.G_b, 2 * stack.G_b * stack.delta_obj, one)


@PAPER.upper(
    "sec4_redef_level",
    ref="Section 4, 'imply ... Definition 1' read for the level alone",
    reading="'Imply the original bound and Definition 1' may say that each new constant is a "
    "bound of the old one, also the level by itself.",
    tex=r"\delta_{\mathrm{obj}}^{\mathrm{Def.\,1}}\le\delta_{\mathrm{obj}}^{\mathrm{Sec.\,4}}",
    on=SYSTEMS,
    expect="violated",
    note="Both levels are relative to their own G_b, and Section 4's may be far larger: Phi = "
    "diag(1, 1/10) and theta = (+-1, 10) give 0.71 by Definition 1 and 0.10 by Section 4. The "
    "proofs need ||b^i(s) - b^j(s)|| <= 2 G_b delta_obj with the G_b that is in sigma too, which "
    "Section 4's constants give (affpcl.sec4_redef); a level measured by Definition 1 must not "
    "be put beside Section 4's sigma, though.",
    corrected="sec4_redef",
    reading_of="sec4_redef",
)
def sec4_redef_level(stack: FiniteStack) -> rc.Sides:
    """delta_obj of Definition 1 is at most delta_obj of Section 4.

    Shape (B,).
    """
    return objective_level(stack), stack.delta_obj


@PAPER.identity(
    "sec4_estimated",
    ref="Section 4, Phi(s) theta_t^c in place of b^0(s) in (5)",
    printed_as="ours",
    tex=r"\mathbb E_\mu[\tilde g_t^i]=\mathbb E_\mu[g_t^i(x_t^i)]"
    r"+\bar\Phi(\theta_t^c-\theta_*^c)",
    on=replace(
        systems(ITERATES),
        view=same_environment,
        meaning={
            **systems(ITERATES).meaning,
            "mu": "environments, of which the first is that of all agents",
            "x_c": "x_t^0 or x_t^c, the point that is common to all agents",
        },
    ),
    note="The paper refers to Appendix G for this scheme, but G is about (27), whose average has "
    "the estimate too and is unbiased for every theta^c (affpcl.sec52_unbiased). With (5) as "
    "described the error of theta^c enters as a bias; it is O~(sigma^2/((lambda^b)^2 n t)) in "
    "mean square, so the rate in t and n stays and (lambda^b)^{-2} joins the constant.",
)
def sec4_estimated(stack: FiniteStack) -> rc.Sides:
    """With Phi(s) theta_t^c in the place of b^0(s) in (5), in one environment E[gtilde^i] =
    E[g^i(x^i)] + Phibar (theta_t^c - theta_*^c).

    Shape (B, n, d), in one environment. Section 4 describes this; (27), which Appendix G is about,
    has the estimate in the average as well.
    """
    own_direction = apply(stack.A_bar, stack.x) - stack.b_bar
    gap = stack.theta_c - stack.theta_star_central
    average = averaged(local_residual(stack, stack.x_c))[:, None]
    control = central_residual(stack, stack.x_c, stack.theta_c)[:, None]
    parts = average + own(local_residual(stack, stack.x) - control)
    return mean(stack, parts), own_direction + apply(stack.Phi_bar, gap[:, None])
