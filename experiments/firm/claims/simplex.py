"""FIRM, Sections 2 and 3: stationarity, the regularised subproblem and preferences."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, one_client, two_clients
from experiments.firm.paper import PAPER
from experiments.firm.theory import simplex as at
from experiments.firm.theory.program import (
    gram,
    minimiser,
    normalised,
    regularised,
    root,
    trace_mean,
    weights,
)
from linsys.linalg import Numbers, apply, lambda_max, lambda_min, norm, squared, transpose

LAM = rc.simplex("M")
P = rc.positive("M", low=0.1, high=10.0)
RAISED = {"p": P, "factor": rc.positive(low=1.0, high=100.0)}
SECTION_3 = {
    "Section 3: preferences p > 0": lambda s: (s.p > 0).all(axis=-1),
    "the preference for g_1 rises, no other one changes": lambda s: (
        (at.raised(s.p, s.factor)[:, 0] >= s.p[:, 0])
        & (at.raised(s.p, s.factor)[:, 1:] == s.p[:, 1:]).all(axis=-1)
    ),
}
PREFERENCES = one_client(RAISED, assumes=SECTION_3)
TRACE = {"tr G > 0": lambda s: (s.A**2).sum(axis=(1, 2)) > 0}
NO_ZERO = {"no gradient is zero": lambda s: (squared(transpose(s.A)) > 0).all(axis=-1)}

# Section 2.


@PAPER.lower(
    "def3",
    ref="Definition 3",
    tex=r"\|\nabla J\lambda\|^2\ge\min_{\mu\in\Delta^M}\|\nabla J\mu\|^2",
    on=one_client({"lam": LAM}),
)
def def3(A: Numbers, lam: Numbers) -> rc.Sides:
    """A policy is eps-Pareto stationary iff min over the simplex of ||grad J lambda||^2 <= eps: no
    lambda of the simplex gives less than the program's solution.
    """
    return squared(apply(A, lam)), squared(apply(A, minimiser(gram(A))))


@PAPER.identity(
    "def3_dual",
    ref="Definition 3, what it is for",
    printed_as="ours",
    tex=r"\min_j\langle g_j,A\lambda^*\rangle=\|A\lambda^*\|^2",
    on=one_client(),
    derivation="Optimality on the simplex: <g_j, A lambda*> >= ||A lambda*||^2, with equality "
    "wherever lambda_j > 0. So max over unit vectors of min_j <g_j, v> is ||A lambda*||.",
)
def def3_dual(A: Numbers) -> rc.Sides:
    """min_j <g_j, A lambda*> = ||A lambda*||^2 for the lambda* of beta = 0: unless the policy is
    stationary, one direction raises every objective.
    """
    direction = apply(A, minimiser(gram(A)))
    return apply(transpose(A), direction).min(axis=-1), squared(direction)


# Section 3: equations (1) and (2).


@PAPER.identity(
    "eq1_eq2",
    ref="equations (1) and (2)",
    tex=r"\|\textstyle\sum_j\lambda_jg_j\|^2+\frac\beta2\|\lambda\|^2=\lambda^\top(G+"
    r"\frac\beta2I)\lambda",
    on=one_client({"beta": BETA, "lam": LAM}),
)
def eq1_eq2(A: Numbers, beta: Numbers, lam: Numbers) -> rc.Sides:
    """||sum_j lambda_j g_j||^2 + (beta/2)||lambda||^2 = lambda'(G + (beta/2) I) lambda."""
    combined = (A * lam[:, None]).sum(axis=-1)
    quadratic = (lam * apply(regularised(A, beta), lam)).sum(axis=-1)
    return squared(combined) + beta / 2 * squared(lam), quadratic


@PAPER.upper(
    "cond",
    ref="Section 3, below (2)",
    tex=r"\lambda_{\min}(G+\tfrac\beta2I)\ge\tfrac\beta2,\quad\kappa(G+\tfrac\beta2I)\le"
    r"\kappa(G)",
    on=one_client({"beta": BETA}),
    note="Strictly better unless G is a multiple of I.",
)
def cond(A: Numbers, beta: Numbers) -> rc.Sides:
    """G + (beta/2) I is positive definite, at least beta/2, and its condition number is at most
    that of G.

    Q = G + (beta/2) I: the condition number without a division by lambda_min(G), which may be zero.
    """
    G, Q = gram(A), regularised(A, beta)
    measured = lambda_max(Q) * lambda_min(G), beta / 2
    return np.stack(measured, axis=1), np.stack(
        [lambda_min(Q) * lambda_max(G), lambda_min(Q)], axis=1
    )


# Remark 3.


@PAPER.identity(
    "remark3",
    ref="Remark 3",
    tex=r"\beta=0:\quad\|\lambda^*-\lambda'^*\|=\sqrt2\ \text{ with }\ \max_j\|g^j-g'^j\|="
    r"\epsilon",
    on=rc.Space(
        fields={"step": rc.positive(low=1e-9, high=1.0)},
        batched=True,
        constructed="two clients in one dimension, with gradients (1, 1 + step) and (1 + step, 1)",
    ),
)
def remark3(step: Numbers) -> rc.Sides:
    """Without a regulariser the solution is not Lipschitz, nor continuous, in the gradients: (1, 1
    + e) and (1 + e, 1) have solutions at distance sqrt 2 for every e > 0.
    """
    low, high = 0 * step + 1, 1 + step
    first = np.stack([low, high], axis=-1)[:, None]
    moved = minimiser(gram(first)) - minimiser(gram(first[..., ::-1]))
    return norm(moved), root(2, step)


@PAPER.upper(
    "remark3_direction",
    ref="Section 3 and Remark 3, what is true of the directions",
    printed_as="ours",
    tex=r"\|A\lambda^*-A'\lambda'^*\|^2\le\max_j\|g^j-g'^j\|(\|A\lambda^*\|+\|A'\lambda'^*\|)",
    on=two_clients(),
    note="Section 3 concludes from the jumps of lambda* that directions are 'highly noisy and "
    "inconsistent'. lambda* jumps, the direction does not: it is the point of least norm of the "
    "gradients' hull, and a Hoelder continuous function of them with exponent 1/2.",
    derivation="Add the two optimality conditions <A lambda, A(mu - lambda)> >= 0 at mu = lambda' "
    "and for the other client at lambda. With D = A' - A: ||A lambda - A' lambda'||^2 "
    "<= <A' lambda', D lambda> - <A lambda, D lambda'>, and ||D mu|| <= max_j ||D_j|| on the "
    "simplex. A regulariser adds (beta/2)||lambda - lambda'||^2 on the left.",
)
def remark3_direction(A: Any, other: Any, beta: Any) -> rc.Sides:
    """||A lambda* - A' lambda'*||^2 <= max_j ||g^j - g'^j|| (||A lambda*|| + ||A' lambda'*||),
    whatever beta >= 0 is; here without a regulariser.
    """
    return at.direction_gap(A, other, 0 * beta)


@PAPER.upper(
    "remark3_both",
    ref="Remark 3, weights and directions at once",
    printed_as="ours",
    on=remark3_direction.space,
    tex=r"\tfrac\beta2\|\lambda^*-\lambda'^*\|^2+\|A\lambda^*-A'\lambda'^*\|^2\le"
    r"\max_j\|g^j-g'^j\|(\|A\lambda^*\|+\|A'\lambda'^*\|)",
    derivation=remark3_direction.derivation,
)
def remark3_both(A: Numbers, other: Any, beta: Numbers) -> rc.Sides:
    """(beta/2)||lambda* - lambda'*||^2 + ||A lambda* - A' lambda'*||^2 <= max_j ||g^j - g'^j|| (||A
    lambda*|| + ||A' lambda'*||).
    """
    return at.direction_gap(A, other, beta)


# Equations (3) and (54): preferences.


@PAPER.upper(
    "eq3_eq54",
    ref="equations (3) and (54)",
    tex=r"p_j'\ge p_j\Rightarrow\lambda_j'\ge\lambda_j",
    on=PREFERENCES,
    derivation="F falls by k x_j^2, k >= 0. lambda minimises F, lambda' minimises F - k x_j^2: "
    "F(lambda) <= F(lambda') and F(lambda') - k lambda_j'^2 <= F(lambda) - k lambda_j^2 add up to "
    "lambda_j^2 <= lambda_j'^2. Never smaller; the same where lambda_j is 0 or 1.",
)
def eq3_eq54(A: Numbers, p: Numbers, factor: Numbers) -> rc.Sides:
    """In the program with G + Diag(1/p), a larger p_j gives objective j a larger weight."""
    return at.preferred(A, p)[:, 0], at.preferred(A, at.raised(p, factor))[:, 0]


@PAPER.lower(
    "eq3_steer",
    ref="Section 3, below (3), as a gain",
    family=[{"g": [[0.5], [1.0]], "scale": 2.0, "p": [0.5, 1.0], "factor": 2.0}],
    tex=r"p_j'\ge p_j\Rightarrow\langle g_j,A\lambda'\rangle\ge\langle g_j,A\lambda\rangle",
    on=PREFERENCES,
    expect="violated",
    note="More weight on g_j takes weight from others, which may serve objective j better than g_j "
    "itself. In one dimension g_1 = 1, g_2 = 2, p_2 = 1: p_1 = 1/2 has lambda_1 = 3/4 and the "
    "direction 5/4; p_1 = 1 has lambda_1 = 1 and the direction 1, so that objective 1 gains less. "
    "Only Section 3's reading of preferences is affected, not Theorem 1. Two objectives do not "
    "help: for M = 2 it is true iff <g_1, g_2> <= ||g_1||^2 or lambda_1 does not move; the angle "
    "is what two objectives save (firm.eq3_steer_two).",
    corrected="eq3_steer_corrected",
    reading_of="eq3_steer_angle",
    reading="To steer towards an objective may mean that it gains more in a step, to first order; "
    "Section 5 says of (3) that a larger preference 'demonstrably leads to a higher reward'.",
    uses=["eq3_eq54"],
)
def eq3_steer(A: Numbers, p: Numbers, factor: Numbers) -> rc.Sides:
    """A larger p_j does not lower <g_j, A lambda>, the first-order gain of objective j."""
    before, after = at.preferred(A, p), at.preferred(A, at.raised(p, factor))
    first = A[:, :, 0]
    return (first * apply(A, after)).sum(axis=-1), (first * apply(A, before)).sum(axis=-1)


@PAPER.lower(
    "eq3_steer_angle",
    ref="Section 3, below (3)",
    family=[
        {
            "g": [[-1.0, 0.0], [-0.5, -0.5], [0.8, 0.4]],
            "scale": 2.0,
            "p": np.ones(3),
            "factor": 2.0,
        }
    ],
    tex=r"\cos\angle(g_j,A\lambda')\ge\cos\angle(g_j,A\lambda)",
    on=PREFERENCES,
    expect="violated",
    note="To 'steer the descent direction toward its gradient' is read as the angle between both. "
    "With three objectives the weight that g_j gains changes how the others share the rest, "
    "and their part may turn away from g_j by more: (-2, 0), (-1, -1) and (1.6, 0.8), p = (1, 1, "
    "1), p_1 doubled. With two it is true.",
    corrected="eq3_steer_two",
    uses=["eq3_eq54"],
)
def eq3_steer_angle(A: rc.Numbers, p: rc.Numbers, factor: rc.Numbers) -> rc.Sides:
    """A larger p_j steers the direction towards g_j: it does not enlarge the angle between them."""
    before = apply(A, at.preferred(A, p))
    after = apply(A, at.preferred(A, at.raised(p, factor)))
    first = A[:, :, 0]
    return (
        (first * after).sum(axis=-1) * norm(before),
        (first * before).sum(axis=-1) * norm(after),
    )


@PAPER.lower(
    "eq3_steer_two",
    ref="Section 3, below (3), as an angle, two objectives",
    tex=r"M=2:\quad\cos\angle(g_j,A\lambda')\ge\cos\angle(g_j,A\lambda)",
    on=one_client(RAISED, {"M": (2, 2), "d": (1, 3)}, assumes=SECTION_3),
    uses=["eq3_eq54"],
    derivation="lambda_1 rises, so the new direction is (1 - s) A lambda + s g_1 with 0 <= s <= 1; "
    "for unit vectors u and v, a u + b v with a, b >= 0 is at an angle to v that falls with b.",
)
def eq3_steer_two(A: rc.Numbers, p: rc.Numbers, factor: rc.Numbers) -> rc.Sides:
    """With M = 2 a larger p_j does not enlarge the angle between g_j and the direction."""
    return eq3_steer_angle(A, p, factor)


@PAPER.upper(
    "eq3_steer_corrected",
    ref="Section 3, below (3), corrected",
    tex=r"\|A\,d\lambda\|^2+\sum_{i\ne j}\frac{d\lambda_i^2}{p_i}\le d\lambda_j\left("
    r"\frac{\lambda_j}{p_j}-\frac{\lambda_j'}{p_j'}\right)",
    on=PREFERENCES,
    derivation="Add <Q lambda, dlambda> >= 0 and <Q' lambda', -dlambda> >= 0: <G dlambda, dlambda> "
    "+ sum_i dlambda_i (lambda_i'/p_i' - lambda_i/p_i) <= 0, where p_i' = p_i but for i = j. "
    "dlambda_j >= 0 by (3), hence the second factor is not negative either. Where lambda_j > 0, "
    "<g_j, A lambda> = v - lambda_j/p_j with v = <Q lambda, lambda>, which falls as well.",
)
def eq3_steer_corrected(A: Numbers, p: Numbers, factor: Numbers) -> rc.Sides:
    """||A dlambda||^2 + sum_{i != j} dlambda_i^2 / p_i <= dlambda_j (lambda_j/p_j -
    lambda_j'/p_j'): lambda_j does not fall, and, where lambda_j > 0, the shortfall lambda_j/p_j
    of <g_j, A lambda> below the program's value does not rise.

    dlambda = lambda' - lambda, where p_1 rises to p_1'.
    """
    after_p = at.raised(p, factor)
    before, after = at.preferred(A, p), at.preferred(A, after_p)
    moved = after - before
    measured = squared(apply(A, moved)) + (moved**2 / p)[:, 1:].sum(axis=-1)
    return measured, moved[:, 0] * (before / p - after / after_p)[:, 0]


@PAPER.identity(
    "eq3_red",
    ref="equation (3)",
    tex=r"p=\tfrac2\beta\mathbf1:\quad\operatorname{Diag}(p^{-1})=\tfrac\beta2I",
    on=one_client({"beta": BETA}),
)
def eq3_red(A: Numbers, beta: Numbers) -> rc.Sides:
    """p = (2/beta) 1 gives the solution of (2).

    Shape (B, M).
    """
    p = 2 / beta[:, None] + 0 * A[:, 0]
    return at.preferred(A, p), weights(A, beta)


# Equation (9): normalised by the trace.


@PAPER.identity(
    "eq9_trace",
    ref="Appendix A, equation (9)",
    tex=r"\tfrac1M\operatorname{tr}\widehat G=1,\quad\lambda^*(cA)=\lambda^*(A)",
    on=one_client({"beta": BETA, "factor": rc.positive(low=0.001, high=1000.0)}, given=TRACE),
)
def eq9_trace(A: Numbers, beta: Numbers, factor: Numbers) -> rc.Sides:
    """Ghat = G / ((1/M) tr G) has a diagonal of mean one, and a common factor of all gradients does
    not change the solution.
    """
    mean = squared(transpose(normalised(A))).sum(axis=-1)[:, None] / A.shape[-1]
    scaled = weights(normalised(A * factor[:, None, None]), beta)
    here = weights(normalised(A), beta)
    return np.concatenate([mean, scaled], axis=1), np.concatenate([0 * mean + 1, here], axis=1)


@PAPER.identity(
    "eq9_trace_each",
    ref="Appendix A, below (9), read entry by entry",
    family=[{"g": [[1.0, 0.0], [0.0, 1 / 3]], "scale": 3.0}],
    tex=r"\widehat G_{jj}=1",
    on=one_client(given=NO_ZERO),
    expect="violated",
    note="Only the mean is one; entries lie in [0, M]. Gradients of lengths 1 and 3 have the "
    "diagonal (0.2, 1.8), and the shorter one still gets the larger weight: normalising by the "
    "trace removes the common scale, not that of one reward beside another. "
    "The paper assumes nothing of these gradients; those that are zero are left out here.",
    corrected="eq9_trace",
    reading_of="eq9_trace",
    reading="Every entry of the diagonal, as 'normalizing the diagonal to have a unit scale' and "
    "'not dominated by the raw magnitude of the gradients' can be taken.",
)
def eq9_trace_each(A: Numbers) -> rc.Sides:
    """The diagonal of Ghat has unit scale: every entry is one.

    Shape (B, M).
    """
    entries = squared(transpose(normalised(A)))
    return entries, 0 * entries + 1


@PAPER.identity(
    "eq9_beta",
    ref="Appendix A, (9) beside (2)",
    printed_as="ours",
    tex=r"\lambda^*_{(9)}(\beta)=\lambda^*_{(2)}(\tfrac\beta M\operatorname{tr}G)",
    on=one_client({"beta": BETA}, given=TRACE),
    derivation="Multiply the objective of (9) by (1/M) tr G > 0. So where the theory's bounds have "
    "1/beta, the implemented solver has M / (beta tr G), which grows as the gradients vanish.",
)
def eq9_beta(A: Numbers, beta: Numbers) -> rc.Sides:
    """The solution of (9) is that of (2) with beta (1/M) tr G in the place of beta."""
    return weights(normalised(A), beta), weights(A, beta * trace_mean(A))
