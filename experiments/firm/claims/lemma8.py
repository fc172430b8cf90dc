"""FIRM, Lemma 1 = Lemma 8 and Appendix G.1: how the regularised weights move with the gradients."""

from __future__ import annotations

from dataclasses import replace

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, one_client, two_clients
from experiments.firm.theory import simplex as at

LAM = rc.simplex("M")
PAIRS = two_clients()
BOTH_TRACES = {
    "tr G > 0": lambda s: ((s.A**2).sum(axis=(1, 2)) > 0) & ((s.other**2).sum(axis=(1, 2)) > 0)
}

LEMMA1 = rc.Claim(
    id="firm.lemma1",
    source="FIRM, Lemma 1",
    text="||lambda*^c - lambda*^c'||_2 <= (4 R M / beta) max_j ||g^{j,c} - g^{j,c'}||_2.",
    latex=r"\|\lambda^{*,c}-\lambda^{*,c'}\|_2\le\frac{4RM}\beta\max_j\|g^{j,c}-g^{j,c'}\|_2",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.lemma1(s.A, s.other, s.beta, s.R),
    note="Larger than necessary by the factor 2 sqrt M, see the sharpened form.",
)
LEMMA8 = replace(LEMMA1, id="firm.lemma8", source="FIRM, Lemma 8")
LEMMA1_SHARPER = rc.Claim(
    id="firm.lemma1_sharper",
    source="FIRM, Lemma 1, sharpened",
    text="||lambda*^c - lambda*^c'||_2 <= (2 R sqrt(M) / beta) max_j ||g^{j,c} - g^{j,c'}||_2; no "
    "smaller constant c R / beta does for all d, at any M > 1.",
    latex=r"\|\lambda^{*,c}-\lambda^{*,c'}\|_2\le\frac{2R\sqrt M}\beta\max_j\|g^{j,c}-"
    r"g^{j,c'}\|_2",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.lemma1_sharper(s.A, s.other, s.beta, s.R),
    derivation=(
        "lambda is Lipschitz and piecewise smooth along A + t D, whose columns stay in the ball, "
        "so a derivative on a support of k weights is enough. With v a unit vector of sum zero, "
        "H = N (N'QN)^{-1} N', y = H v, g = A lambda: v . dlambda = -sum_j <d_j, y_j g + lambda_j "
        "Ay> <= gap sqrt(k) W, W^2 = sum_j ||y_j g + lambda_j Ay||^2. Optimality, A'g = c 1 - "
        "(beta/2) lambda on the support, gives <g, Ay> = -(beta/2) y.lambda, so W^2 <= ||y||^2 "
        "||g||^2 + ||lambda||^2 ||Ay||^2. Let ||Ay|| = r ||y||: v.y = y'Qy gives ||y|| <= (2/beta) "
        "/ (1 + 2 r^2/beta). Let e = k ||lambda||^2 - 1 >= 0; r^2 <= sum_j ||g_j - g||^2 <= k (R^2 "
        "- ||g||^2) - beta e by optimality again, so beta e <= k R^2 and ||g||^2 + r^2 "
        "||lambda||^2 <= R^2 + e (r^2 - beta) / k <= R^2 (1 + r^2/beta) <= R^2 (1 + 2 r^2/beta)^2. "
        "Hence W <= 2R/beta. Attained in the limit: even M, all g^j = g with |g| = R and half of "
        "them moved by +t g, half by -t g; any M > 1 in the plane at large beta, where, with R = 1 "
        "and p and q the means of g_j and d_j, ||p||^2 = ||q||^2 = 1/2, g_j - p runs along q and "
        "d_j - q along p."
    ),
)
LEMMA1_IMPL = rc.Claim(
    id="firm.lemma1_impl",
    source="FIRM, Lemma 1 for the solver of (9)",
    text="Lemma 1 for the solutions of (9), which are computed from Ghat = G / ((1/M) tr G).",
    latex=r"\|\lambda^{*,c}_{(9)}-\lambda^{*,c'}_{(9)}\|_2\le\frac{4RM}\beta\max_j\|g^{j,c}-"
    r"g^{j,c'}\|_2",
    kind="upper",
    space=two_clients(given=BOTH_TRACES),
    measure=lambda s: at.lemma1_implemented(s.A, s.other, s.beta, s.R),
    expect="violated",
    note="The lemma is about (2), the experiments solve (9). Solutions of (9) do not change if all "
    "gradients are multiplied by c, the bound falls by c^2. (c, 0) and (0, c) in one dimension, "
    "beta = 1: lambda = (1/6, 5/6) and (5/6, 1/6), 0.94 apart, against 8 c^2. By firm.eq9_beta "
    "the effective beta is beta tr G / M: near a common stationary point of all objectives the "
    "implemented solver is as sensitive as without a regulariser, and Theorem 1 says nothing of "
    "it.",
    corrected="firm.lemma1_impl_corrected",
)
LEMMA1_IMPL_CORRECTED = rc.Claim(
    id="firm.lemma1_impl_corrected",
    source="FIRM, Lemma 1 for the solver of (9), corrected",
    text="With rho^2 = (1/M) tr G: ||lambda*^c - lambda*^c'|| <= 2 M (1 + sqrt M) / (beta "
    "max{rho, rho'}) max_j ||g^{j,c} - g^{j,c'}||.",
    latex=r"\|\lambda^{*,c}_{(9)}-\lambda^{*,c'}_{(9)}\|_2\le\frac{2M(1+\sqrt M)}{\beta"
    r"\max\{\rho,\rho'\}}\max_j\|g^{j,c}-g^{j,c'}\|_2",
    kind="upper",
    space=two_clients(given=BOTH_TRACES),
    measure=lambda s: at.lemma1_implemented_corrected(s.A, s.other, s.beta),
    derivation="The sharpened lemma for g/rho and g'/rho', of length at most sqrt M each, with the "
    "constant 2 M / beta. Let rho >= rho'. g/rho - g'/rho' = (g - g')/rho + (g'/rho')(rho' - "
    "rho)/rho, and |rho - rho'| <= ||A - A'||_F / sqrt M <= gap: at most (1 + sqrt M) gap / rho.",
)

# The steps of the proof.

EQ36_37 = rc.Claim(
    id="firm.eq36_37",
    source="FIRM, equations (36) and (37)",
    text="||A lambda||^2 = lambda' G lambda with G = A'A, so (37) is the program (2).",
    latex=r"\|A\lambda\|^2=\lambda^\top G\lambda",
    kind="identity",
    space=one_client({"lam": LAM}),
    measure=lambda s: at.eq36_37(s.A, s.lam),
)
EQ38 = rc.Claim(
    id="firm.eq38",
    source="FIRM, equation (38)",
    text="f(lambda) = lambda' G lambda + beta ||lambda||^2 grows like f(lambda) - f(lambda*) >= "
    "(beta/2) ||lambda - lambda*||^2.",
    latex=r"f_G(\lambda)\ge f_G(\lambda^*)+\frac\beta2\|\lambda-\lambda^*\|^2",
    kind="lower",
    space=one_client({"beta": BETA, "lam": LAM}),
    measure=lambda s: at.growth(s.A, s.beta, s.beta / 2, s.lam),
    note="This f is not (37)'s, which has beta/2. The printed f is 2 beta-strongly convex and "
    "grows with beta; beta/2 is the constant of (37)'s f, so that what follows is sound for (37).",
)
EQ38_SHARPER = rc.Claim(
    id="firm.eq38_sharper",
    source="FIRM, equation (38), both functions with their own constants",
    text="lambda' G lambda + k ||lambda||^2 grows with the constant k: beta for the printed f, "
    "beta/2 for (37)'s. Here k = beta.",
    latex=r"\lambda^\top G\lambda+k\|\lambda\|^2\Big|_{\lambda^*}^{\lambda}\ge "
    r"k\|\lambda-\lambda^*\|^2",
    kind="lower",
    space=one_client({"beta": BETA, "lam": LAM}),
    measure=lambda s: at.growth(s.A, s.beta, s.beta, s.lam),
    derivation="f(lambda) - f(lambda*) = <grad f(lambda*), u> + u'(G + k I) u with u = lambda - "
    "lambda*; the first term is not negative by optimality. Equality for parallel g^j.",
)
EQ39_40 = rc.Claim(
    id="firm.eq39_40",
    source="FIRM, equations (39) and (40)",
    text="|h(lambda_1) - h(lambda_2)| <= 2 ||G - G'||_op ||lambda_1 - lambda_2||_2 with "
    "h(lambda) = lambda'(G - G') lambda.",
    latex=r"|h(\lambda_1)-h(\lambda_2)|\le2\|G-G'\|_{\rm op}\|\lambda_1-\lambda_2\|_2",
    kind="upper",
    space=two_clients({"first": LAM, "second": LAM}),
    measure=lambda s: at.eq39_40(s.A, s.other, s.first, s.second),
)
EQ41_42 = rc.Claim(
    id="firm.eq41_42",
    source="FIRM, equations (41) and (42)",
    text="||lambda* - lambda'*||_2 <= (4/beta) ||G - G'||_op.",
    latex=r"\|\lambda^*-\lambda'^*\|_2\le\frac4\beta\|G-G'\|_{\rm op}",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq41_42(s.A, s.other, s.beta),
)
EQ41_SHARPER = rc.Claim(
    id="firm.eq41_sharper",
    source="FIRM, equation (41), sharpened",
    text="||lambda* - lambda'*||_2 <= (2/beta) ||G - G'||_op.",
    latex=r"\|\lambda^*-\lambda'^*\|_2\le\frac2\beta\|G-G'\|_{\rm op}",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq41_42(s.A, s.other, s.beta, 2),
    derivation="Add the two optimality conditions, u = lambda' - lambda: u'Gu + (beta/2)||u||^2 <= "
    "u'(G - G') lambda', and ||lambda'|| <= 1. Approached where lambda' is near a corner and the "
    "objective is flat along u.",
)
EQ43 = rc.Claim(
    id="firm.eq43",
    source="FIRM, equation (43)",
    text="||G - G'||_op <= (||A||_op + ||A'||_op) ||A - A'||_op.",
    latex=r"\|G-G'\|_{\rm op}\le(\|A\|_{\rm op}+\|A'\|_{\rm op})\|A-A'\|_{\rm op}",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq43(s.A, s.other),
)
EQ44_45 = rc.Claim(
    id="firm.eq44_45",
    source="FIRM, equations (44) and (45)",
    text="||A - A'||_op <= sqrt(M) max_j ||g^j - g'^j|| and ||A||_op, ||A'||_op <= sqrt(M) R.",
    latex=r"\|A-A'\|_{\rm op}\le\sqrt M\max_j\|g^j-g'^j\|,\quad\|A\|_{\rm op}\le\sqrt MR",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq44_45(s.A, s.other, s.R),
)
EQ46 = rc.Claim(
    id="firm.eq46",
    source="FIRM, equation (46)",
    text="Equations (42) to (45) combine to (4 M R / beta) max_j ||g^j - g'^j||: their product is "
    "at most that.",
    latex=r"\frac4\beta(\sqrt MR+\sqrt MR)\sqrt M\max_j\|g^j-g'^j\|\le\frac{4MR}\beta"
    r"\max_j\|g^j-g'^j\|",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq46(s.A, s.other, s.beta, s.R),
    expect="violated",
    note="The product is 8 M R / beta: the two norms in (43) are one too many. M = R = beta = 1: 8 "
    "against 4. The lemma is true all the same, as (41) holds with 2/beta.",
    corrected="firm.eq46_corrected",
)
EQ46_CORRECTED = rc.Claim(
    id="firm.eq46_corrected",
    source="FIRM, equation (46), with the sharpened (41)",
    text="(2/beta) and (43) to (45) combine to (4 M R / beta) max_j ||g^j - g'^j||.",
    latex=r"\frac2\beta(\sqrt MR+\sqrt MR)\sqrt M\max_j\|g^j-g'^j\|=\frac{4MR}\beta"
    r"\max_j\|g^j-g'^j\|",
    kind="identity",
    space=PAIRS,
    measure=lambda s: at.eq46(s.A, s.other, s.beta, s.R, 2),
    derivation="(2/beta) 2 sqrt(M) R sqrt(M) = 4 M R / beta; firm.eq41_sharper proves the first "
    "factor.",
)
