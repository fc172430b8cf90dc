"""FIRM, the disagreement drift around the clients' mean weights: its laws in noise, beta and M."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import clients, two_clients
from experiments.firm.paper import PAPER
from experiments.firm.theory import perturbation as at
from experiments.firm.theory.program import gram, weights
from experiments.firm.theory.weights import smoothed
from linsys.linalg import Numbers, agent_mean, apply, lambda_min, norm, solve, transpose

#: Gradients have lengths of order one here: (g, beta) and (c g, c^2 beta) have the same weights.
_BETA = rc.positive(low=1e-3, high=10.0)
_MEANING = {
    "truth": "the true gradients, a row for each objective",
    "apart": "the clients' noise over share, a row for each objective",
    "share": "the factor of the noise",
    "excess": "beta over (M - 1) R^2 / 2",
}
_NOISE = rc.ball("C", "M", "d")
_SIZES = {"C": (1, 4), "M": (1, 3), "d": (1, 3)}


def _noisy(*, truth: Any, apart: Any, share: Any, **others: Any) -> SimpleNamespace:
    """Clients' gradients g around the true ones, and R, the length of the longest of all.

    Time, where there is one, is the axis after the first.
    """
    one = truth.reshape(len(truth), *[1] * (apart.ndim - truth.ndim), *truth.shape[1:])
    g = one + share.reshape(-1, *[1] * (apart.ndim - 1)) * apart
    lengths = [norm(values).reshape(len(g), -1).max(axis=1) for values in (g, truth)]
    return SimpleNamespace(g=g, truth=truth, R=np.maximum(*lengths), **others)


def _large(*, excess: Any, **others: Any) -> SimpleNamespace:
    """Clients' gradients g around the true ones, R, and beta = excess (M - 1) R^2 / 2."""
    noisy = _noisy(**others)
    return SimpleNamespace(beta=excess * (noisy.g.shape[2] - 1) * noisy.R**2 / 2, **vars(noisy))


def _interior(*, excess: Any, g: Any) -> SimpleNamespace:
    """One client's gradients A (B, d, M), their R, and such a beta."""
    R = norm(g).max(axis=-1)
    return SimpleNamespace(A=np.swapaxes(g, 1, 2), R=R, beta=excess * (g.shape[1] - 1) * R**2 / 2)


def noisy_clients(
    extra: Mapping[str, rc.Field],
    sizes: Mapping[str, tuple[int, int]] = _SIZES,
    view: Any = _noisy,
    noise: rc.Field = _NOISE,
    **options: Any,
) -> rc.Space:
    """Gradients of C clients around common true ones, with further fields."""
    fields = {
        "truth": rc.ball("M", "d"),
        "apart": noise,
        "share": rc.positive(low=0.01, high=1.0),
        **extra,
    }
    return rc.Space(
        fields=fields,
        sizes=dict(sizes),
        view=view,
        batched=True,
        meaning={name: line for name, line in _MEANING.items() if name in fields},
        **options,
    )


ANY_WEIGHTS = clients({"lam": rc.simplex("C", "M")})
SOLVED = noisy_clients({"beta": _BETA})
EXCESS = rc.positive(low=1.0, high=100.0)
POSITIVE = {"R > 0": lambda s: s.R > 0}
SOURCE = "FIRM, second term of (7); derived here"


@PAPER.identity(
    "law_covariance",
    ref="second term of (7); derived here",
    printed_as="ours",
    on=ANY_WEIGHTS,
    tex=r"\frac1C\sum_cA_c(\lambda^c-\bar\lambda)=\frac1C\sum_c(A_c-\bar A)\lambda^c="
    r"\frac1{2C^2}\sum_{c,c'}(A_c-A_{c'})(\lambda^c-\lambda^{c'})",
    derivation="sum_c (lambda^c - lambdabar) = 0 and sum_c (A_c - Abar) = 0. The mean gradients "
    "drop out: the drift is a product of two noises, of the gradients and of the weights.",
)
def law_covariance(g: Numbers, lam: Any) -> rc.Sides:
    """(1/C) sum_c A_c (lambda^c - lambdabar) = (1/C) sum_c (A_c - Abar) lambda^c = (1/(2C^2))
    sum_{c,c'} (A_c - A_c')(lambda^c - lambda^c'): a covariance over clients.
    """
    return at.covariance(g, lam)


@PAPER.upper(
    "law_cauchy_schwarz",
    ref="second term of (7); derived here",
    printed_as="ours",
    on=ANY_WEIGHTS,
    tex=r"\mathcal T\le\frac1C\sum_c\|(A_c-\bar A)P\|_{\rm op}^2\cdot\frac1C\sum_c"
    r"\|\lambda^c-\bar\lambda\|^2",
    uses=["law_covariance"],
    derivation="firm.law_covariance; P changes no vector of sum zero. Noise that is common to "
    "all objectives of a client drops out. The first line of (19) has R^2 in the place of the "
    "first factor, and the l1 norm in the second.",
)
def law_cauchy_schwarz(g: Numbers, lam: Any) -> rc.Sides:
    """T_disagr <= mean ||(A_c - Abar) P||_op^2 mean ||lambda^c - lambdabar||^2, means over the
    clients, bars as well, and P = I - 11'/M.
    """
    return at.cauchy_schwarz(g, lam)


@PAPER.upper(
    "law_without_beta",
    ref="second term of (7); derived here",
    printed_as="ours",
    on=ANY_WEIGHTS,
    tex=r"\mathcal T\le\Big(\frac1C\sum_c\max_j\|g^{j,c}-\bar g^j\|\Big)^2",
    uses=["law_covariance"],
    derivation="The second form of firm.law_covariance and the triangle inequality: lambda^c picks "
    "among a client's noises. Sharpens firm.drift_without_beta by a factor of 4 (1 - 1/C)^2 or "
    "more. Attained for any even C; where the mean gradients agree and beta = 0, by solutions of "
    "(1).",
)
def law_without_beta(g: Numbers, lam: Any) -> rc.Sides:
    """T_disagr <= ((1/C) sum_c max_j ||g^{j,c} - gbar^j||)^2, gbar the mean over clients, for any
    weights: of order 1/B without beta or C. M enters by max_j only, in the mean by up to the
    factor M.
    """
    return at.selection(g, lam)


def curvature(A: Numbers) -> Numbers:
    """mu, the smallest eigenvalue of G on vectors of sum zero, (B,); A (B, d, M), M > 1."""
    M = A.shape[-1]
    away = gram(A - A.sum(axis=-1, keepdims=True) / M)
    # the direction of 1 gets the trace, which is no smaller than any eigenvalue
    trace = np.trace(away, axis1=1, axis2=2)[:, None, None]
    return lambda_min(away + trace / M + 0 * away)


@PAPER.upper(
    "law_lipschitz",
    ref="Lemma 1 in the Frobenius norm; derived here",
    printed_as="ours",
    tex=r"\|\lambda^{*,c}-\lambda^{*,c'}\|\le\frac{2R}\beta\|A_c-A_{c'}\|_F",
    on=two_clients(),
    note="So E ||lambda^c - lambda^c'||^2 <= (8 R^2/beta^2) tr Cov(A): the O(1/B) of Appendix "
    "F.1.2 with its constant.",
    uses=["lemma1_sharper"],
    derivation="The derivation of firm.lemma1_sharper has sum_j <d_j, y_j g + lambda_j Ay> <= "
    "||D||_F W with W <= 2R/beta; only then ||D||_F <= sqrt(M) max_j ||d_j||.",
)
def law_lipschitz(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """||lambda*^c - lambda*^c'|| <= (2R/beta) ||A_c - A_c'||_F, without M, for gradients of length
    at most R.
    """
    moved = norm(weights(A, beta) - weights(other, beta))
    return moved, 2 * R / beta * np.sqrt(at.power(A - other))


@PAPER.upper(
    "law_second_order",
    ref="equation (23) for one step; derived here",
    printed_as="ours",
    uses=["law_cauchy_schwarz", "law_lipschitz"],
    tex=r"\mathcal T\le\frac{4R^2}{\beta^2}V^2,\quad V=\frac1C\sum_c\|A_c-\bar A\|_F^2",
    on=SOLVED,
    note="(23) has (8R^3 M^{3/2}/beta) gap, hence beta^-1 B^{-1/2} M^{3/2}: it bounds one factor "
    "of the noise by R and the spread of the weights by S^2 <= 2S. Attained for even M: all g^j "
    "equal up to noise, which moves half of them up and half of them down. firm.law_smoothed is "
    "the form for the weights of (11).",
    derivation="firm.law_cauchy_schwarz; ||.||_op <= ||.||_F; mean ||lambda^c - lambdabar||^2 = "
    "(1/(2C^2)) sum_{c,c'} ||lambda^c - lambda^c'||^2 <= (2R/beta)^2 V by firm.law_lipschitz and "
    "the same identity for A.",
)
def law_second_order(g: rc.Numbers, beta: rc.Numbers, R: rc.Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1): T_disagr <= (2R/beta)^2
    V^2, V = (1/C) sum_c ||A_c - Abar||_F^2 and R the longest gradient: of fourth order in the
    noise, beta^-2 B^-2 M^2.
    """
    return at.second_order(g, beta, R)


@PAPER.upper(
    "law_first_order",
    ref="Remarks 1 and 2: the powers that belong to 1/beta; derived here",
    printed_as="ours",
    uses=["law_without_beta", "law_second_order"],
    tex=r"\mathcal T\le\frac{2R}\beta V\cdot\frac1C\sum_c\max_j\|g^{j,c}-\bar g^j\|",
    on=SOLVED,
    note="False for weights of (11) that remember other steps: gradients (1.1, 0.9) and (0.9, "
    "1.1), weights (1, 0) and (0, 1), beta = 10: 0.01 against 0.00044.",
    derivation="The geometric mean of firm.law_without_beta and firm.law_second_order. Where no "
    "gradient is more than s from the clients' mean it is at most 2 R M s^3 / beta; to leading "
    "order in s attained at beta = 2 R M s for M = 2, where both are, and below which a smaller "
    "beta makes no larger drift. Roots of both sides are compared.",
)
def law_first_order(g: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1): T_disagr <= (2R/beta) V
    (1/C) sum_c max_j ||g^{j,c} - gbar^j||, V = (1/C) sum_c ||A_c - Abar||_F^2: of the first power
    of 1/beta, it has M and B^{-3/2}, not M^{3/2} and B^{-1/2}.
    """
    bound = 2 * R / beta * at.variance(g) * agent_mean(at.longest(at.deviations(g)))
    return at.drift(g, at.solutions(g, beta)), np.sqrt(bound)


@PAPER.upper(
    "law_smoothed",
    ref="equation (23); derived here",
    printed_as="ours",
    tex=r"\mathcal T_t\le\frac{4R^2}{\beta^2}V_t\Big(\sum_i\eta_i\prod_{k>i}(1-\eta_k)"
    r"\sqrt{V_i}\Big)^2",
    on=noisy_clients(
        {"beta": _BETA, "start": rc.simplex("M"), "eta": rc.interval("T")},
        {"C": (1, 3), "M": (1, 3), "T": (1, 3), "d": (1, 2)},
        noise=rc.ball("T", "C", "M", "d"),
    ),
    uses=["law_second_order"],
    derivation="The root mean square of lambda^c - lambdabar is a norm, so it obeys (22); then as "
    "in firm.law_second_order at every i.",
)
def law_smoothed(g: Numbers, start: Numbers, eta: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With (11) from a common start: T_disagr at t is at most (2R/beta)^2 V_t (sum_i eta_i
    prod_{k>i} (1 - eta_k) sqrt(V_i))^2, V_i = (1/C) sum_c ||A_c - Abar||_F^2 at step i.

    Gradients g (B, T, C, M, d), one start (B, M) for all clients, eta (B, T).
    """
    T, clients = g.shape[1:3]
    stars = np.stack([at.solutions(g[:, t], beta) for t in range(T)], axis=1)
    common = np.stack([start] * clients, axis=1)
    reached = 0 * beta
    for t in range(T):
        reached = (1 - eta[:, t]) * reached + eta[:, t] * np.sqrt(at.variance(g[:, t]))
    bound = 2 * R / beta * np.sqrt(at.variance(g[:, -1])) * reached
    return at.drift(g[:, -1], smoothed(common, stars, eta)[:, -1]), bound


@PAPER.identity(
    "law_replicas",
    ref="Remark 2: the dependence on M; derived here",
    printed_as="ours",
    tex=r"\mathcal T(A\otimes1_m^\top,\beta)=\mathcal T(A,\beta/m)",
    on=noisy_clients({"beta": _BETA}, {"C": (1, 3), "M": (1, 2), "d": (1, 3)}),
    note="A bound in beta^-p that holds for all M grows at least with M^p; the power need not be "
    "larger. M^{3/2}/beta in (23) is larger by sqrt(M), M^2/beta^2 of firm.law_second_order and "
    "M/beta of firm.law_first_order are of the right size.",
    derivation="At a given sum the copies' squares are least where they are equal, 1/m of the "
    "square of the sum.",
)
def law_replicas(g: Numbers, beta: Numbers) -> rc.Sides:
    """With every objective twice and beta the solution is, in sum over copies, the one with every
    objective once and beta/2, and so is the drift.

    The drift by its root.
    """
    M = g.shape[2]
    lam = at.solutions(g, beta / 2)
    twice = np.concatenate([g, g], axis=2)
    doubled = at.solutions(twice, beta)
    merged = doubled[..., :M] + doubled[..., M:]
    sides = [
        np.concatenate([weight.reshape(len(g), -1), root_drift[:, None]], axis=1)
        for weight, root_drift in ((merged, at.drift(twice, doubled)), (lam, at.drift(g, lam)))
    ]
    return sides[0], sides[1]


# Large beta, small beta.


@PAPER.identity(
    "law_interior",
    ref="equation (2): where no weight vanishes; derived here",
    printed_as="ours",
    tex=r"\beta\ge\tfrac{M-1}2R^2:\quad\lambda^*=\tfrac1M\mathbf1-\tfrac2\beta(I+\tfrac2\beta "
    r"PGP)^{-1}PG\tfrac1M\mathbf1",
    on=rc.Space(
        fields={"g": rc.ball("M", "d"), "excess": EXCESS},
        sizes={"M": (2, 4), "d": (1, 3)},
        view=_interior,
        given=POSITIVE,
        batched=True,
        meaning={"g": "gradients, a row for each objective", "excess": _MEANING["excess"]},
    ),
    derivation="With g = A lambda*, p_i = <g_i, g>: lambda_i = (2/beta) max(nu - p_i, 0). If "
    "lambda_j = 0, then nu <= p_j <= R |g| and beta/2 = sum_{i != j} max(nu - p_i, 0) <= (M - 1) "
    "(R |g| - m), m the mean of p_i over i != j. lambda falls in p, so m >= sum lambda_i p_i = "
    "|g|^2, and R |g| - |g|^2 <= R^2/4. Attained: g_j = e R, all others e R/2. With no weight at "
    "the boundary, (PGP + beta/2) (lambda - 1/M) = -PG 1/M.",
)
def law_interior(A: Numbers, beta: Numbers) -> rc.Sides:
    """For beta >= (M - 1) R^2 / 2 the solution is u - (2/beta) (I + (2/beta) PGP)^{-1} P G u with
    equal weights u = (1/M, ..., 1/M) and P = I - 11'/M; no smaller multiple of R^2 does.
    """
    M = A.shape[-1]
    away = A - A.sum(axis=-1, keepdims=True) / M
    pull = apply(transpose(away), A.sum(axis=-1) / M)
    factor = 2 / beta[:, None]
    moved = solve(np.eye(M, dtype=int) + factor[..., None] * gram(away), factor * pull)
    return weights(A, beta), (1 + 0 * moved) / M - moved


@PAPER.upper(
    "law_large_beta",
    ref="Remark 1: the exponent of beta; derived here",
    printed_as="ours",
    tex=r"\Big|\tfrac\beta2\sqrt{\mathcal T}-k\Big|\le\frac{49}{16}\frac{MR^3}\beta V,\quad k="
    r"\Big\|\frac1C\sum_c(A_c-\bar A)PG_c\tfrac1M\mathbf1\Big\|",
    on=noisy_clients(
        {"excess": EXCESS}, {"C": (2, 3), "M": (2, 4), "d": (1, 2)}, _large, given=POSITIVE
    ),
    note="Both an upper and a lower bound: -2 is the exponent wherever k > 0, and the -1 of (23) "
    "is never attained. Instances reach three quarters of the remainder, with M = 4.",
    uses=["law_second_order"],
    derivation="delta = lambda* - 1/M solves delta = -(2/beta) PG(1/M + delta). So lambda^c is 1/M "
    "- (2/beta) P G_c 1/M + e_c with e = -(2/beta) PG delta, along A + tD with de = -(2/beta) P(dG "
    "delta + G ddelta). Let R x be the length of the mean gradient: ||AP||^2 <= M R^2 (1 - x^2), "
    "|delta| <= (2/beta) ||AP|| R x, ||P dG P|| <= 2 ||AP|| ||D||, |ddelta| <= (2R/beta) ||D||_F, "
    "so |de| <= (2/beta) (M R^3/beta) (1 - x^2) (4x + 2) ||D||_F, at most 49/16 of it at any x. "
    "Then as in firm.law_second_order.",
)
def law_large_beta(g: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1) and beta >= (M - 1) R^2 / 2:
    |(beta/2) sqrt(T_disagr) - k| <= (49/16) M R^3 V / beta, k = ||(1/C) sum_c (A_c - Abar) P G_c
    u||, u = (1/M, ..., 1/M), P = I - 11'/M, V = (1/C) sum_c ||A_c - Abar||_F^2: T_disagr is
    (2k/beta)^2 up to O(beta^-3).

    k knows nothing of beta.
    """
    M = g.shape[2]
    pull = apply(at.tangent(g), g.sum(axis=2) / M)
    leading = norm(agent_mean(at.combined(at.deviations(g), pull)))
    gap = beta / 2 * at.drift(g, at.solutions(g, beta)) - leading
    return np.abs(gap), 49 * M * R**3 / (16 * beta) * at.variance(g)


@PAPER.upper(
    "law_curvature",
    ref="Lemma 1 for small beta; derived here",
    printed_as="ours",
    tex=r"\|\lambda^*-\lambda'^*\|\le\frac2{\beta+2\mu}\|P(G-G')\lambda'^*\|,\quad"
    r"\mu=\lambda_{\min}(G|_{\mathbf1^\perp})",
    on=two_clients(),
    derivation="Add both optimality conditions, u = lambda' - lambda: u'(G + beta/2) u <= u'(G - "
    "G') lambda'. Only one of the two problems has to be curved.",
)
def law_curvature(A: Numbers, other: Numbers, beta: Numbers) -> rc.Sides:
    """||lambda* - lambda'*|| <= (2/(beta + 2 mu)) ||P (G - G') lambda'*||, P = I - 11'/M and mu the
    smallest eigenvalue of G on vectors of sum zero.
    """
    here, there = weights(A, beta), weights(other, beta)
    force = apply(gram(A) - gram(other), there)
    force = force - force.sum(axis=-1, keepdims=True) / A.shape[-1]
    return (beta / 2 + curvature(A)) * norm(here - there), norm(force)


@PAPER.upper(
    "law_small_beta",
    ref="Remarks 1 and 3: beta to zero; derived here",
    printed_as="ours",
    tex=r"\mathcal T\le\Big(\frac{2(h+R)}{\beta+2\mu}\Big)^2V_{\rm op}^2,\quad"
    r"\mu=\lambda_{\min}(\bar A^\top\bar A|_{\mathbf1^\perp}),\ h=\|\bar AP\|_{\rm op}",
    on=noisy_clients({"beta": _BETA}),
    note="The remarks expect a drift without limit as beta falls to 0. beta matters only where it "
    "exceeds the curvature of the objectives themselves.",
    uses=["law_curvature", "law_cauchy_schwarz"],
    derivation="mean ||lambda^c - lambdabar||^2 <= mean ||lambda^c - l||^2 with l the solution for "
    "Abar; firm.law_curvature with G = Abar'Abar and G_c - G = Abar'X + X'A_c: |P(G_c - G) "
    "lambda^c| <= (h + R) ||X_c||_op. Then firm.law_cauchy_schwarz.",
)
def law_small_beta(g: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1): T_disagr <= (2 (h +
    R)/(beta + 2 mu))^2 V_op^2, V_op = (1/C) sum_c ||A_c - Abar||_op^2, h = ||Abar P||_op, P = I -
    11'/M, and mu the smallest eigenvalue of Abar'Abar on vectors of sum zero: bounded as beta falls
    to 0.
    """
    middle = agent_mean(g)
    spread = at.spectral_of(at.tangent(middle))
    apart = agent_mean(at.spectral_of(at.deviations(g)) ** 2)
    bound = 2 * (spread + R) / (beta + 2 * curvature(transpose(middle))) * apart
    return at.drift(g, at.solutions(g, beta)), bound
