"""FIRM, Lemma 1: how fast the regularised weights move along a line of gradients."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import two_clients
from experiments.firm.paper import PAPER
from experiments.firm.theory.program import regularised, weights
from linsys.linalg import Numbers, apply, norm, solve, squared, transpose


def support(lam: Numbers) -> Numbers:
    """1 where a weight is positive, 0 elsewhere, (B, M)."""
    return np.asarray(np.where(lam > 0, 1 + 0 * lam, 0 * lam))


def slope(A: Numbers, other: Numbers, beta: Numbers) -> Numbers:
    """d lambda*(A + t (A' - A))/dt at t = 0 where the support stays as it is, (B, M).

    On the support G lambda + (beta/2) lambda is constant; the derivative of this, projected onto
    vectors of sum zero there, is a linear system.
    """
    lam, D = weights(A, beta), other - A
    on = support(lam)
    each = np.eye(A.shape[-1])
    # projects onto vectors of sum zero on the support
    share = on[:, None, :] / on.sum(axis=-1)[:, None, None]
    among = on[:, :, None] * (each - share)
    turned = apply(transpose(D), apply(A, lam)) + apply(transpose(A), apply(D, lam))
    system = among @ regularised(A, beta) @ among + (each - among)
    return solve(system, -apply(among, turned))


@PAPER.upper(
    "law_slope",
    ref="Lemma 1, how fast the weights move; derived here",
    printed_as="ours",
    tex=r"\Big\|\frac{d\lambda^*(A+tD)}{dt}\Big\|\le\frac{2R}\beta\|D\|_F",
    on=two_clients(given={"R > 0": lambda s: s.R > 0}),
    note="Whatever M and d are; with R = 0 nothing moves. lambda* is Lipschitz and piecewise "
    "smooth in t, so that its length from A to A' is at most (2R/beta) ||A' - A||_F: "
    "firm.law_lipschitz, and with ||D||_F <= sqrt(M) max_j ||d_j|| firm.lemma1_sharper. Attained: "
    "even M, all g^j = g with |g| = R, half of them moved along g and half against it.",
    derivation="On a support of k weights, with y the derivative, g = A lambda and h = Ay: A'g = "
    "c 1 - (beta/2) lambda has the derivative <D, U> + ||h||^2 + (beta/2) ||y||^2 = 0 along y, "
    "with U_j = y_j g + lambda_j h, and <g, h> = -(beta/2) lambda.y gives ||U||^2 <= ||y||^2 "
    "||g||^2 + ||lambda||^2 ||h||^2. Summed it gives sum_j ||g_j - g||^2 <= k (R^2 - ||g||^2) - "
    "beta (k ||lambda||^2 - 1), and ||h||^2 is at most ||y||^2 times that. Hence beta ||U||^2 <= "
    "R^2 (beta ||y||^2 + ||h||^2), and ||beta U + 2 R^2 D||^2 >= 0 is the statement.",
)
def law_slope(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """Along A + t D, where the support of lambda* stays as it is, ||d lambda*/dt|| <= (2R/beta)
    ||D||_F, for gradients of length at most R. Here D = A' - A, at t = 0.
    """
    return norm(slope(A, other, beta)), 2 * R / beta * np.sqrt(squared(other - A).sum(axis=-1))
