"""FIRM, the disagreement drift around the weights of the true gradients, (14) and Remark 4."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import clients
from experiments.firm.claims.perturbation import noisy_clients
from experiments.firm.paper import PAPER
from experiments.firm.theory import perturbation as at
from experiments.firm.theory.program import root, weights
from linsys.linalg import Numbers, agent_mean, norm, transpose

TRUE = noisy_clients(
    {"beta": rc.positive(low=1e-5, high=10.0)},
    assumes={
        "Lemma 7: no gradient is longer than R": lambda s: (
            (norm(s.g) <= s.R[:, None, None]).all(axis=(1, 2))
            & (norm(s.truth) <= s.R[:, None]).all(axis=1)
        ),
        "beta > 0": lambda s: s.beta > 0,
    },
)


def true_drift(g: Numbers, truth: Numbers, beta: Numbers) -> Numbers:
    """||(1/C) sum_c A_c (lambda*^c - lambda*(truth))||, truth (B, M, d)."""
    away = at.solutions(g, beta) - weights(transpose(truth), beta)[:, None]
    return norm(agent_mean(at.combined(g, away)))


@PAPER.identity(
    "law_true_split",
    ref="equation (14), any lambda_t; derived here",
    printed_as="ours",
    tex=r"\frac1C\sum_cA_c(\lambda^c-\ell)=\bar A(\bar\lambda-\ell)+\frac1C\sum_c(A_c-\bar A)"
    r"(\lambda^c-\bar\lambda)",
    on=clients({"lam": rc.simplex("C", "M"), "common": rc.simplex("M")}),
    uses=["law_covariance"],
    derivation="firm.law_covariance. The first term, linear in the noise, averages over clients "
    "down to the bias of lambda*; the second is the drift around lambdabar.",
)
def law_true_split(g: Numbers, lam: Numbers, common: Numbers) -> rc.Sides:
    """(1/C) sum_c A_c (lambda^c - l) = Abar (lambdabar - l) + (1/C) sum_c (A_c - Abar)(lambda^c -
    lambdabar).

    Shape (B, d).
    """
    whole = agent_mean(at.combined(g, lam - common[:, None]))
    shifted = at.combined(agent_mean(g), agent_mean(lam) - common)
    return whole, shifted + agent_mean(at.combined(at.deviations(g), at.deviations(lam)))


@PAPER.upper(
    "law_true_weights",
    ref="equation (14) with the weights of the true gradients A; derived here",
    tex=r"\sqrt{\mathcal T}\le\frac{1+\sqrt{1+2R^2/\beta}}2\cdot\frac1C\sum_c\|A_c-A\|_{\rm op}",
    on=TRUE,
    note="Here -1 is the exponent of beta, with B^-1 and no M in the place of B^{-1/2} M^{3/2}. "
    "Attained as beta/R^2 falls to 0 where the curvature is beta/2.",
    uses=["law_curvature"],
    derivation="u = lambda^c - lambda*, x = ||A_c - A||_op; optimality as in firm.law_curvature: "
    "|A_c u|^2 + (beta/2)|u|^2 <= -<A_c u, (A_c - A) lambda*> - <(A_c - A) u, A lambda*> <= x |A_c "
    "u| + x R |u|, and x R |u| - (beta/2)|u|^2 <= x^2 R^2/(2 beta).",
)
def law_true_weights(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """sqrt(T_disagr) <= (1/2) (1 + sqrt(1 + 2R^2/beta)) (1/C) sum_c ||A_c - A||_op, A_c the matrix
    of client c's gradients and A that of the true ones: beta^-1 B^-1 for beta < R^2.
    """
    apart = agent_mean(at.spectral_of(g - truth[:, None]))
    return true_drift(g, truth, beta), (1 + np.sqrt(1 + 2 * R**2 / beta)) / 2 * apart


@PAPER.upper(
    "law_true_large_beta",
    ref="equation (14) with the weights of the true gradients A, large beta; derived here",
    printed_as="ours",
    tex=r"\sqrt{\mathcal T}\le\frac{2\sqrt MR^2}\beta\cdot\frac1C\sum_c\|A_c-A\|_F",
    on=TRUE,
    uses=["law_lipschitz"],
    derivation="|A_c u| <= sqrt(M) R |u| and firm.law_lipschitz. Approached as beta/R^2 grows and "
    "the noise falls, at even M: half of the gradients Re, half of them -Re, all moved along e.",
)
def law_true_large_beta(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1) and lambda_t that of the
    true gradients A: sqrt(T_disagr) <= (2 sqrt(M) R^2/beta) (1/C) sum_c ||A_c - A||_F: beta^-2
    B^-1 M^2.
    """
    apart = agent_mean(np.sqrt(at.power(g - truth[:, None])))
    return true_drift(g, truth, beta), 2 * root(g.shape[2], R) * R**2 / beta * apart


@PAPER.upper(
    "law_true_without_beta",
    ref="equation (14) with the weights of the true gradients, any beta; derived here",
    printed_as="ours",
    tex=r"\sqrt{\mathcal T}\le\frac1C\sum_c\frac{s_c+\sqrt{s_c^2+8Rs_c}}2,\quad "
    r"s_c=\max_j\|g^{j,c}-g^j\|",
    on=TRUE,
    note="The B^{-1/2} of (24), without 1/beta: at beta = 0 it is attained to leading order, by "
    "two gradients sqrt(2 R s) apart that are tilted.",
    uses=["law_true_weights"],
    derivation="|A_c u|^2 <= s |A_c u| + s R |u|_1 as in firm.law_true_weights, |u|_1 <= 2.",
)
def law_true_without_beta(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """sqrt(T_disagr) <= (1/C) sum_c (s_c + sqrt(s_c^2 + 8 R s_c))/2, s_c = max_j ||g^{j,c} -
    g^j||: T_disagr is of order B^{-1/2}, without beta or M.
    """
    apart = at.longest(g - truth[:, None])
    bound = agent_mean((apart + np.sqrt(apart**2 + 8 * R[:, None] * apart)) / 2)
    return true_drift(g, truth, beta), bound
