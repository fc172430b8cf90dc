"""FIRM, Sections 2 and 3: stationarity, the regularised subproblem and preferences."""

from __future__ import annotations

from dataclasses import replace

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, one_client, two_clients
from experiments.firm.theory import simplex as at

LAM = rc.simplex("M")
P = rc.positive("M", low=0.1, high=10.0)
PREFERENCES = one_client({"p": P, "factor": rc.positive(low=1.0, high=100.0)})
TRACE = {"tr G > 0": lambda s: (s.A**2).sum(axis=(1, 2)) > 0}

# Section 2.

DEF3 = rc.Claim(
    id="firm.def3",
    source="FIRM, Definition 3",
    text="A policy is eps-Pareto stationary iff min over the simplex of ||grad J lambda||^2 <= "
    "eps: no lambda of the simplex gives less than the program's solution.",
    latex=r"\|\nabla J\lambda\|^2\ge\min_{\mu\in\Delta^M}\|\nabla J\mu\|^2",
    kind="lower",
    space=one_client({"lam": LAM}),
    measure=lambda s: at.def3(s.A, s.lam),
)
DEF3_DUAL = rc.Claim(
    id="firm.def3_dual",
    source="FIRM, Definition 3, what it is for",
    text="min_j <g_j, A lambda*> = ||A lambda*||^2: unless the policy is stationary, one direction "
    "raises every objective.",
    latex=r"\min_j\langle g_j,A\lambda^*\rangle=\|A\lambda^*\|^2",
    kind="identity",
    space=one_client(),
    measure=lambda s: at.def3_dual(s.A),
    derivation="Optimality on the simplex: <g_j, A lambda*> >= ||A lambda*||^2, with equality "
    "wherever lambda_j > 0. So max over unit vectors of min_j <g_j, v> is ||A lambda*||.",
)

# Section 3: equations (1) and (2).

EQ1_EQ2 = rc.Claim(
    id="firm.eq1_eq2",
    source="FIRM, equations (1) and (2)",
    text="||sum_j lambda_j g_j||^2 + (beta/2)||lambda||^2 = lambda'(G + (beta/2) I) lambda.",
    latex=r"\|\textstyle\sum_j\lambda_jg_j\|^2+\frac\beta2\|\lambda\|^2=\lambda^\top(G+"
    r"\frac\beta2I)\lambda",
    kind="identity",
    space=one_client({"beta": BETA, "lam": LAM}),
    measure=lambda s: at.eq1_eq2(s.A, s.beta, s.lam),
)
COND = rc.Claim(
    id="firm.cond",
    source="FIRM, Section 3, below (2)",
    text="G + (beta/2) I is positive definite, at least beta/2, and its condition number is at "
    "most that of G.",
    latex=r"\lambda_{\min}(G+\tfrac\beta2I)\ge\tfrac\beta2,\quad\kappa(G+\tfrac\beta2I)\le"
    r"\kappa(G)",
    kind="upper",
    space=one_client({"beta": BETA}),
    measure=lambda s: at.cond(s.A, s.beta),
    note="Strictly better unless G is a multiple of I.",
)

# Remark 3.

REMARK3 = rc.Claim(
    id="firm.remark3",
    source="FIRM, Remark 3",
    text="Without a regulariser the solution is not Lipschitz, nor continuous, in the gradients: "
    "(1, 1 + e) and (1 + e, 1) have solutions at distance sqrt 2 for every e > 0.",
    latex=r"\beta=0:\quad\|\lambda^*-\lambda'^*\|=\sqrt2\ \text{ with }\ \max_j\|g^j-g'^j\|="
    r"\epsilon",
    kind="identity",
    space=rc.Space(fields={"step": rc.positive(low=1e-9, high=1.0)}, batched=True),
    measure=lambda s: at.remark3(s.step),
)
REMARK3_DIRECTION = rc.Claim(
    id="firm.remark3_direction",
    source="FIRM, Section 3 and Remark 3, what is true of the directions",
    text="||A lambda* - A' lambda'*||^2 <= max_j ||g^j - g'^j|| (||A lambda*|| + ||A' lambda'*||), "
    "whatever beta >= 0 is; here without a regulariser.",
    latex=r"\|A\lambda^*-A'\lambda'^*\|^2\le\max_j\|g^j-g'^j\|(\|A\lambda^*\|+\|A'\lambda'^*\|)",
    kind="upper",
    space=two_clients(),
    measure=lambda s: at.direction_gap(s.A, s.other, 0 * s.beta),
    note="Section 3 concludes from the jumps of lambda* that directions are 'highly noisy and "
    "inconsistent'. lambda* jumps, the direction does not: it is the point of least norm of the "
    "gradients' hull, and a Hoelder continuous function of them with exponent 1/2.",
    derivation="Add the two optimality conditions <A lambda, A(mu - lambda)> >= 0 at mu = lambda' "
    "and for the other client at lambda. With D = A' - A: ||A lambda - A' lambda'||^2 "
    "<= <A' lambda', D lambda> - <A lambda, D lambda'>, and ||D mu|| <= max_j ||D_j|| on the "
    "simplex. A regulariser adds (beta/2)||lambda - lambda'||^2 on the left.",
)
REMARK3_BOTH = replace(
    REMARK3_DIRECTION,
    id="firm.remark3_both",
    source="FIRM, Remark 3, weights and directions at once",
    text="(beta/2)||lambda* - lambda'*||^2 + ||A lambda* - A' lambda'*||^2 <= max_j ||g^j - g'^j|| "
    "(||A lambda*|| + ||A' lambda'*||).",
    latex=r"\tfrac\beta2\|\lambda^*-\lambda'^*\|^2+\|A\lambda^*-A'\lambda'^*\|^2\le"
    r"\max_j\|g^j-g'^j\|(\|A\lambda^*\|+\|A'\lambda'^*\|)",
    measure=lambda s: at.direction_gap(s.A, s.other, s.beta),
    note="",
)

# Equations (3) and (54): preferences.

EQ3 = rc.Claim(
    id="firm.eq3_eq54",
    source="FIRM, equations (3) and (54)",
    text="In the program with G + Diag(1/p), a larger p_j gives objective j a larger weight.",
    latex=r"p_j'\ge p_j\Rightarrow\lambda_j'\ge\lambda_j",
    kind="upper",
    space=PREFERENCES,
    measure=lambda s: at.eq3(s.A, s.p, s.factor),
    derivation="F falls by k x_j^2, k >= 0. lambda minimises F, lambda' minimises F - k x_j^2: "
    "F(lambda) <= F(lambda') and F(lambda') - k lambda_j'^2 <= F(lambda) - k lambda_j^2 add up to "
    "lambda_j^2 <= lambda_j'^2. Never smaller; the same where lambda_j is 0 or 1.",
)
EQ3_STEER = rc.Claim(
    id="firm.eq3_steer",
    source="FIRM, Section 3, below (3)",
    text="A larger p_j steers the direction towards g_j: <g_j, A lambda>, the first-order gain of "
    "objective j, does not fall.",
    latex=r"p_j'\ge p_j\Rightarrow\langle g_j,A\lambda'\rangle\ge\langle g_j,A\lambda\rangle",
    kind="lower",
    space=PREFERENCES,
    measure=lambda s: at.eq3_steer(s.A, s.p, s.factor),
    expect="violated",
    note="More weight on g_j takes weight from others, which may serve objective j better than g_j "
    "itself. In one dimension g_1 = 1, g_2 = 2, p_2 = 1: p_1 = 1/2 has lambda_1 = 3/4 and the "
    "direction 5/4; p_1 = 1 has lambda_1 = 1 and the direction 1, so that objective 1 gains less. "
    "Only Section 3's reading of preferences is affected, not Theorem 1. For M = 2 it is true "
    "iff <g_1, g_2> <= ||g_1||^2 or lambda_1 does not move.",
    corrected="firm.eq3_steer_corrected",
)
EQ3_STEER_ANGLE = rc.Claim(
    id="firm.eq3_steer_angle",
    source="FIRM, Section 3, below (3), as an angle",
    text="A larger p_j does not enlarge the angle between g_j and the direction.",
    latex=r"\cos\angle(g_j,A\lambda')\ge\cos\angle(g_j,A\lambda)",
    kind="lower",
    space=PREFERENCES,
    measure=lambda s: at.eq3_angle(s.A, s.p, s.factor),
    expect="violated",
    note="With three objectives the weight that g_j gains changes how the others share the rest, "
    "and their part may turn away from g_j by more: (-2, 0), (-1, -1) and (1.6, 0.8), p = (1, 1, "
    "1), p_1 doubled. With two it is true.",
    corrected="firm.eq3_steer_two",
)
EQ3_STEER_TWO = rc.Claim(
    id="firm.eq3_steer_two",
    source="FIRM, Section 3, below (3), as an angle, two objectives",
    text="With M = 2 a larger p_j does not enlarge the angle between g_j and the direction.",
    latex=r"M=2:\quad\cos\angle(g_j,A\lambda')\ge\cos\angle(g_j,A\lambda)",
    kind="lower",
    space=one_client(
        {"p": P, "factor": rc.positive(low=1.0, high=100.0)}, {"M": (2, 2), "d": (1, 3)}
    ),
    measure=lambda s: at.eq3_angle(s.A, s.p, s.factor),
    derivation="lambda_1 rises, so the new direction is (1 - s) A lambda + s g_1 with 0 <= s <= 1; "
    "for unit vectors u and v, a u + b v with a, b >= 0 is at an angle to v that falls with b.",
)
EQ3_STEER_CORRECTED = rc.Claim(
    id="firm.eq3_steer_corrected",
    source="FIRM, Section 3, below (3), corrected",
    text="||A dlambda||^2 + sum_{i != j} dlambda_i^2 / p_i <= dlambda_j (lambda_j/p_j - "
    "lambda_j'/p_j'): lambda_j rises, and the shortfall lambda_j/p_j of <g_j, A lambda> below the "
    "program's value falls.",
    latex=r"\|A\,d\lambda\|^2+\sum_{i\ne j}\frac{d\lambda_i^2}{p_i}\le d\lambda_j\left("
    r"\frac{\lambda_j}{p_j}-\frac{\lambda_j'}{p_j'}\right)",
    kind="upper",
    space=PREFERENCES,
    measure=lambda s: at.eq3_response(s.A, s.p, s.factor),
    derivation="Add <Q lambda, dlambda> >= 0 and <Q' lambda', -dlambda> >= 0: dlambda' G dlambda + "
    "sum_i dlambda_i (lambda_i'/p_i' - lambda_i/p_i) <= 0, where p_i' = p_i but for i = j. "
    "dlambda_j >= 0 by (3), hence the second factor is not negative either. Where lambda_j > 0, "
    "<g_j, A lambda> = v - lambda_j/p_j with v = lambda' Q lambda, which falls as well.",
)
EQ3_RED = rc.Claim(
    id="firm.eq3_red",
    source="FIRM, equation (3)",
    text="p = (2/beta) 1 gives the solution of (2).",
    latex=r"p=\tfrac2\beta\mathbf1:\quad\operatorname{Diag}(p^{-1})=\tfrac\beta2I",
    kind="identity",
    space=one_client({"beta": BETA}),
    measure=lambda s: at.eq3_reduction(s.A, s.beta),
)

# Equation (9): normalised by the trace.

EQ9_TRACE = rc.Claim(
    id="firm.eq9_trace",
    source="FIRM, Appendix A, equation (9)",
    text="Ghat = G / ((1/M) tr G) has a diagonal of mean one, and a common factor of all gradients "
    "does not change the solution.",
    latex=r"\tfrac1M\operatorname{tr}\widehat G=1,\quad\lambda^*(cA)=\lambda^*(A)",
    kind="identity",
    space=one_client({"beta": BETA, "factor": rc.positive(low=0.001, high=1000.0)}, given=TRACE),
    measure=lambda s: at.eq9_trace(s.A, s.beta, s.factor),
)
EQ9_TRACE_EACH = rc.Claim(
    id="firm.eq9_trace_each",
    source="FIRM, Appendix A, below (9), read entry by entry",
    text="The diagonal of Ghat has unit scale: every entry is one.",
    latex=r"\widehat G_{jj}=1",
    kind="identity",
    space=one_client(given=TRACE),
    measure=lambda s: at.eq9_each(s.A),
    expect="violated",
    note="Only the mean is one; entries lie in [0, M]. Gradients of lengths 1 and 3 have the "
    "diagonal (0.2, 1.8), and the shorter one still gets the larger weight: normalising by the "
    "trace removes the common scale, not that of one reward beside another.",
    corrected="firm.eq9_trace",
)
EQ9_BETA = rc.Claim(
    id="firm.eq9_beta",
    source="FIRM, Appendix A, (9) beside (2)",
    text="The solution of (9) is that of (2) with beta (1/M) tr G in the place of beta.",
    latex=r"\lambda^*_{(9)}(\beta)=\lambda^*_{(2)}(\tfrac\beta M\operatorname{tr}G)",
    kind="identity",
    space=one_client({"beta": BETA}, given=TRACE),
    measure=lambda s: at.eq9_beta(s.A, s.beta),
    derivation="Multiply the objective of (9) by (1/M) tr G > 0. So where the theory's bounds have "
    "1/beta, the implemented solver has M / (beta tr G), which grows as the gradients vanish.",
)
