"""FIRM, the disagreement drift around the weights of the true gradients, (14) and Remark 4."""

from __future__ import annotations

import ratecheck as rc
from experiments.firm.claims._spaces import clients
from experiments.firm.claims.perturbation import noisy_clients
from experiments.firm.theory import perturbation as at

TRUE = noisy_clients({"beta": rc.positive(low=1e-5, high=10.0)})
TRUE_SPLIT = rc.Claim(
    id="firm.law_true_split",
    source="FIRM, equation (14), any lambda_t; derived here",
    text="(1/C) sum_c A_c (lambda^c - l) = Abar (lambdabar - l) + (1/C) sum_c (A_c - Abar)"
    "(lambda^c - lambdabar).",
    latex=r"\frac1C\sum_cA_c(\lambda^c-\ell)=\bar A(\bar\lambda-\ell)+\frac1C\sum_c(A_c-\bar A)"
    r"(\lambda^c-\bar\lambda)",
    kind="identity",
    space=clients({"lam": rc.simplex("C", "M"), "common": rc.simplex("M")}),
    measure=lambda s: at.true_split(s.g, s.lam, s.common),
    derivation="firm.law_covariance. The first term, linear in the noise, averages over clients "
    "down to the bias of lambda*; the second is the drift around lambdabar.",
)
TRUE_WEIGHTS = rc.Claim(
    id="firm.law_true_weights",
    source="FIRM, equation (14) with the weights of the true gradients A; derived here",
    text="sqrt(T_disagr) <= (1/2) (1 + sqrt(1 + 2R^2/beta)) (1/C) sum_c ||A_c - A||_op: beta^-1 "
    "B^-1 for beta < R^2.",
    latex=r"\sqrt{\mathcal T}\le\frac{1+\sqrt{1+2R^2/\beta}}2\cdot\frac1C\sum_c\|A_c-A\|_{\rm op}",
    kind="upper",
    space=TRUE,
    measure=lambda s: at.true_weights(s.g, s.truth, s.beta, s.R),
    note="Here -1 is the exponent of beta, with B^-1 and no M in the place of B^{-1/2} M^{3/2}. "
    "Attained as beta/R^2 falls to 0 where the curvature is beta/2.",
    derivation="u = lambda^c - lambda*, x = ||A_c - A||_op; optimality as in firm.law_curvature: "
    "|A_c u|^2 + (beta/2)|u|^2 <= -<A_c u, (A_c - A) lambda*> - <(A_c - A) u, A lambda*> <= x |A_c "
    "u| + x R |u|, and x R |u| - (beta/2)|u|^2 <= x^2 R^2/(2 beta).",
)
TRUE_LARGE_BETA = rc.Claim(
    id="firm.law_true_large_beta",
    source="FIRM, equation (14) with the weights of the true gradients A, large beta; derived here",
    text="sqrt(T_disagr) <= (2 sqrt(M) R^2/beta) (1/C) sum_c ||A_c - A||_F: beta^-2 B^-1 M^2.",
    latex=r"\sqrt{\mathcal T}\le\frac{2\sqrt MR^2}\beta\cdot\frac1C\sum_c\|A_c-A\|_F",
    kind="upper",
    space=TRUE,
    measure=lambda s: at.true_weights_large_beta(s.g, s.truth, s.beta, s.R),
    derivation="|A_c u| <= sqrt(M) R |u| and firm.law_lipschitz. Attained at even M: half of the "
    "gradients Re, half of them -Re, all moved along e.",
)
TRUE_WITHOUT_BETA = rc.Claim(
    id="firm.law_true_without_beta",
    source="FIRM, equation (14) with the weights of the true gradients, any beta; derived here",
    text="sqrt(T_disagr) <= (1/C) sum_c (s_c + sqrt(s_c^2 + 8 R s_c))/2, s_c = max_j ||g^{j,c} - "
    "g^j||: B^{-1/2} without beta or M.",
    latex=r"\sqrt{\mathcal T}\le\frac1C\sum_c\frac{s_c+\sqrt{s_c^2+8Rs_c}}2,\quad"
    r"s_c=\max_j\|g^{j,c}-g^j\|",
    kind="upper",
    space=TRUE,
    measure=lambda s: at.true_weights_without_beta(s.g, s.truth, s.beta, s.R),
    note="The B^{-1/2} of (24), without 1/beta: at beta = 0 it is attained to leading order, by "
    "two gradients sqrt(2 R s) apart that are tilted.",
    derivation="|A_c u|^2 <= s |A_c u| + s R |u|_1 as in firm.law_true_weights, |u|_1 <= 2.",
)
