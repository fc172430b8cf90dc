"""FIRM, the disagreement drift in the mean: batch size, clients, time and local steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.paper import PAPER
from experiments.firm.theory import expected_drift as at
from experiments.firm.theory.perturbation import drift, power, second_order, solutions
from experiments.firm.theory.program import root
from linsys.linalg import Numbers, norm

#: As in the claims of single instances, gradients are of order one.
_BETA = rc.positive(low=1e-3, high=10.0)
_CLIENTS = (2, 3, 4)
#: Pairs (C, t) with at most 64 outcomes.
_RUNS = ((2, 2), (2, 3), (3, 2))


def _signs(*, g: Any, noise: Any, share: Any, **others: Any) -> SimpleNamespace:
    """Gradients, their noise, and R, the longest that any sign makes."""
    noise = noise * share[:, None, None]
    lengths = [norm(g + sign * noise).max(axis=-1) for sign in (1, -1)]
    return SimpleNamespace(g=g, noise=noise, R=np.maximum(*lengths), **others)


def _walk(*, b: Any, h: Any, way: Any, noise: Any, s: Any, walked: Any, beta: Any) -> Any:
    """Clients ``walked`` / L_J or less away from the last mean, where objectives have gradients b.

    grad J^j(theta) = b_j + L_J h_j theta, coordinate by coordinate.
    """
    far = walked[:, None, None, None]
    g = b[:, None] + h[:, None] * (far * way[:, :, None]) + s[:, None, None, None] * noise
    R = norm(g).max(axis=(1, 2))
    return SimpleNamespace(g=g, s=s, walked=walked, beta=beta, R=R, h=h, way=way, noise=noise)


def _in_ball(rows: Numbers) -> Numbers:
    """Whether all rows (B, ..., d) have length one or less, up to rounding."""
    return np.asarray((norm(rows) <= 1 + 1e-12).reshape(len(rows), -1).all(axis=1))


TWO_POINTS = rc.Space(
    fields={"points": rc.ball(2, "M", "d"), "chances": rc.simplex(2), "beta": _BETA},
    sizes={"M": (1, 3), "d": (1, 2)},
    batched=True,
    meaning={
        "points": "the two values of a client's gradients, a row for each objective",
        "chances": "their probabilities",
    },
)
WALKS = rc.Space(
    fields={
        "b": rc.ball("M", "d"),
        "h": rc.interval("M", "d", low=-1.0, high=1.0),
        "way": rc.ball("C", "d"),
        "noise": rc.ball("C", "M", "d"),
        "s": rc.positive(low=1e-2, high=1.0),
        "walked": rc.positive(low=1e-9, high=1.0),
        "beta": _BETA,
    },
    sizes={"C": (1, 3), "M": (1, 3), "d": (1, 2)},
    view=_walk,
    assumes={
        "Assumption 3(b): second derivatives are L_J or less": lambda s: (np.abs(s.h) <= 1).all(
            axis=(1, 2)
        ),
        "clients are alpha R K or less away from the last aggregation": lambda s: _in_ball(s.way),
        "the noise of every gradient is s or less": lambda s: _in_ball(s.noise),
        "Lemma 7: no gradient is longer than R": lambda s: (norm(s.g) <= s.R[:, None, None]).all(
            axis=(1, 2)
        ),
        "beta > 0": lambda s: s.beta > 0,
    },
    batched=True,
    meaning={
        "b": "the true gradients at the last aggregation, a row for each objective",
        "h": "the objectives' second derivatives over L_J",
        "way": "what the clients have gone since then, over walked / L_J",
        "noise": "the noise of their gradients over s",
        "walked": "L_J alpha R K",
    },
)


@PAPER.upper(
    "law_batch",
    ref="Remark 1: the exponent of B; derived here",
    printed_as="ours",
    tex=r"E\,\mathcal T\le\frac{R^2}{\beta^2}\|N\|_F^4\frac{3B-1}{B^3},\quad E\sqrt{\mathcal T}"
    r"\le\frac R\beta\|N\|_F^2\frac1B",
    on=rc.Space(
        fields={
            "g": rc.ball("M", "d"),
            "noise": rc.ball("M", "d"),
            "share": rc.positive(low=0.01, high=1.0),
            "beta": _BETA,
            "size": rc.whole_numbers(low=1, high=at.LARGEST_BATCH),
        },
        sizes={"M": (1, 3), "d": (1, 2)},
        view=_signs,
        batched=True,
        meaning={
            "g": "the true gradients, a row for each objective",
            "noise": "N over share",
            "share": "the factor of the noise",
            "size": "B",
        },
    ),
    note="The exponent of B is -2 up to 1/B, or -1 for the root, not the -1/2 of Remark 1. Where "
    "noise exceeds beta / R it is -1, by firm.law_without_beta.",
    uses=["law_second_order"],
    derivation="firm.law_second_order with V = ||N||_F^2 ((m - m')/2)^2; m - m' is the sum of 2B "
    "signs over B, with the moments 2/B and (12 B^2 - 4B)/B^4. For any C and any samples of the "
    "noise N_i with mean zero: V <= (1/C) sum_c ||.||_F^2, hence E T_disagr <= (2R/beta)^2 (3B - "
    "2)/B^3 E ||N_i||_F^4.",
)
def law_batch(g: Numbers, noise: Numbers, beta: Numbers, R: Numbers, size: Numbers) -> rc.Sides:
    """Two clients, noise N times the mean of B random signs, eta_t = 1: E T_disagr <= (R/beta)^2
    ||N||_F^4 (3B - 1)/B^3 and E sqrt(T_disagr) <= (R/beta) ||N||_F^2 / B.

    Shape (B, 2).

    Two clients with gradients g (B, M, d) plus noise (B, M, d) times the mean of B random signs;
    n = ||noise||_F, and batches of ``size`` samples, at most LARGEST_BATCH.
    """
    heads = np.arange(at.LARGEST_BATCH + 1)
    ways = [[math.comb(B, k) for k in heads] for B in range(1, at.LARGEST_BATCH + 1)]
    chances = 0 * size[:, None] + 0 * heads
    for B, row in enumerate(ways, start=1):
        chances = chances + np.where(size[:, None] == B, np.array(row), 0)
    chances = chances / 2 ** size[:, None]
    signs = (2 * heads - size[:, None]) / size[:, None]
    drawn = g[:, None] + signs[..., None, None] * noise[:, None]
    lam = solutions(drawn, beta)
    # clients that draw the same do not drift; two orders of any two others
    which = np.array(list(combinations(heads, 2)))
    drifts = at.square(drawn[:, which], lam[:, which])
    both = 2 * chances[:, which].prod(axis=-1)
    measured = at.mean_over(both, drifts), at.mean_over(both, np.sqrt(drifts))
    first = R / beta * power(noise)
    bound = first**2 * (3 * size - 1) / size**3, first / size
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


@PAPER.identity(
    "law_bias",
    ref="second term of (7), in the mean; derived here",
    printed_as="ours",
    tex=r"E\,\frac1C\sum_cA_c(\lambda^c-\bar\lambda)=(1-\tfrac1C)E(A-EA)\lambda^*",
    on=TWO_POINTS,
    uses=["law_covariance"],
    derivation="The second form of firm.law_covariance; terms of two clients have mean zero.",
)
def law_bias(points: Any, chances: Any, beta: Any) -> rc.Sides:
    """Independent clients with one distribution and the weights lambda^c = lambda*^c (eta_t = 1):
    E (1/C) sum_c A_c (lambda^c - lambdabar) = (1 - 1/C) E (A - E A) lambda*.
    """
    return at.bias(points, chances, beta, _CLIENTS)


@PAPER.lower(
    "law_no_speedup",
    ref="Theorem 1: the drift against the number of clients; derived here",
    printed_as="ours",
    tex=r"E\,\mathcal T\ge(1-\tfrac1C)^2\|E(A-EA)\lambda^*\|^2",
    on=TWO_POINTS,
    uses=["law_bias"],
    derivation="firm.law_bias and Jensen's inequality. What exceeds it is of order 1/C, so that "
    "equality is approached by many clients.",
)
def law_no_speedup(points: Any, chances: Any, beta: Any) -> rc.Sides:
    """Independent clients with one distribution and the weights lambda^c = lambda*^c (eta_t = 1):
    E T_disagr >= (1 - 1/C)^2 ||E (A - E A) lambda*||^2, so that there is no linear speed-up in C
    where this is not zero.
    """
    return at.no_speedup(points, chances, beta, _CLIENTS)


@PAPER.identity(
    "law_time",
    ref="equation (11) with eta_t = 1/t; derived here",
    printed_as="ours",
    tex=r"E\,\mathcal T_t=\frac{E\,\mathcal T_1}{t^2}+\frac{t-1}{t^2}\cdot\frac{C-1}{C^2}"
    r"{\rm tr}(\Gamma\Sigma)",
    on=TWO_POINTS,
    note="(23) has no power of t, as its weights of the past sum to one. Gamma and Sigma are of "
    "order 1/B: beyond t = C the drift is 1/(C B^2 t), and it does have a speed-up in C.",
    derivation="lambda_t^c is the mean of t solutions; X_t is independent of the t - 1 earlier "
    "ones, whose deviations have mean zero: no mixed terms. Each of them adds E ||(1/C) sum_c X_c "
    "u_c||^2 with X and u independent, (1/C^2) sum_{c,c'} (1_{c=c'} - 1/C)^2 tr(Gamma Sigma).",
)
def law_time(points: Any, chances: Any, beta: Any) -> rc.Sides:
    """At constant parameters, with eta_t = 1/t and batches of one distribution, independent over
    time and clients: E T_t = E T_1 / t^2 + ((t - 1)/t^2) ((C - 1)/C^2) tr(Gamma Sigma), Gamma = E
    (A - E A)'(A - E A), Sigma = Cov lambda*: 1/(C t) for large t.
    """
    return at.averaged(points, chances, beta, _RUNS)


@PAPER.identity(
    "law_time_true_weights",
    ref="equation (14) and (11) with eta_t = 1/t; derived here",
    printed_as="ours",
    tex=r"E\|\bar\lambda_t-\ell\|^2=\|E\lambda^*-\ell\|^2+\frac{{\rm tr}\,\Sigma}{Ct}",
    on=TWO_POINTS,
    note="Neither clients nor time reduce the bias of the solution, which is of order 1/B where "
    "lambda* is smooth and at most (2R/beta) (tr Cov(A))^{1/2} by firm.law_lipschitz.",
    derivation="lambdabar_t is the mean of C t independent solutions.",
)
def law_time_true_weights(points: Any, chances: Any, beta: Any) -> rc.Sides:
    """At constant parameters, with batches that are independent over time and clients: E
    ||lambdabar_t - l||^2 = ||E lambda* - l||^2 + tr Sigma / (C t), Sigma = Cov lambda*, l the
    solution for the mean gradients.
    """
    return at.averaged_error(points, chances, beta, _RUNS)


# Theorem 1's product.


@PAPER.upper(
    "thm1_drift_product",
    ref="Theorem 1, Remark 1 and (35): the drift term",
    family=[
        {
            "b": [[1.0], [1.0]],
            "h": np.zeros((2, 1)),
            "way": np.zeros((2, 1)),
            "noise": [[[1.0], [-1.0]], [[-1.0], [1.0]]],
            "s": 0.1,
            "walked": walked,
            "beta": 0.4,
        }
        for walked in (1e-5, 1e-6)
    ],
    uses=["eq24"],
    reading_of="rem1",
    reading="The O of the drift term with the product of all constants of (24), larger than any "
    "that the proof could give.",
    tex=r"\mathcal T\le128R^2\frac{M^{3/2}}\beta\,s\,L_J\alpha RK",
    on=WALKS,
    expect="violated",
    note="(24) has the sum 4 sqrt(./B) + 4 L_J R alpha K, (35) the product. As alpha falls to 0 "
    "the product does, with any constant, and the drift of clients at common parameters does not: "
    "gradients (1 + s, 1 - s) and (1 - s, 1 + s), beta >= 4s, T = (4s^2 / (4s^2 + beta))^2. So "
    "(35) does not follow from (33), and no step size removes the drift. This is about the drift "
    "term alone, not about the sum of all terms in Theorem 1.",
    corrected="law_additive",
)
def thm1_drift_product(
    g: Numbers, s: Numbers, walked: Numbers, beta: Numbers, R: Numbers
) -> rc.Sides:
    """The disagreement drift is at most a constant times (M^{3/2}/beta) B^{-1/2} alpha K; here with
    the product of all constants of (24), 128, and s for the noise of order B^{-1/2}.

    s bounds the noise of a gradient and ``walked`` = alpha R K the way since the aggregation, in
    units of 1 / L_J.
    """
    factor = 128 * R**2 * root(g.shape[2] ** 3, beta) / beta
    return drift(g, solutions(g, beta)) ** 2, factor * s * walked


@PAPER.upper(
    "law_additive",
    ref="(24): noise and local steps; derived here",
    uses=["law_second_order"],
    tex=r"\mathcal T\le\Big(\frac{2RM}\beta\Big)^2(s+L_J\alpha RK)^4",
    on=WALKS,
    derivation="firm.law_second_order; V <= (1/C) sum_c ||A_c - A||_F^2 with A at the parameters "
    "of the last aggregation, whose columns are s + L_J alpha R K away or less.",
)
def law_additive(g: Numbers, s: Numbers, walked: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """With the solutions lambda*^c of this step as weights (eta_t = 1): T_disagr <= (2 R M /
    beta)^2 (s + L_J alpha R K)^4, s the largest noise of a gradient and K steps since the
    aggregation.
    """
    measured = second_order(g, beta, R)[0]
    return measured, 2 * R * g.shape[2] / beta * (s + walked) ** 2


# Exponents in one example: two clients, d = 1, two objectives of which one has the noise +-s.

_SMOOTH, _KINK = (1, -1), (1, 1)
_FAR = 2**20
_NOISE = Fraction(1, 2**10)


def _exponent(name: str, of: str, drift: Callable[[int], Fraction], power: int = 1) -> rc.Regime:
    """The exponent of x^power in drift(x) of the one example, between x = 2^20 and 2^22."""
    values = [drift(_FAR * 2**k) for k in range(3)]
    steps = [log(after / before) / (power * log(2)) for before, after in pairwise(values)]
    return rc.Regime(name, of, 0.0, sum(steps) / 2, min(steps), max(steps), 0.001, systems=1)


def _against(**predicted: float) -> Sequence[rc.Regime]:
    """Measured exponents, named as the arguments, against predicted ones.

    Remainders are of relative order 2^-10 or less, those of noise 2^-10 beside gradients of one.
    """
    one = Fraction(1)
    measured = {
        # the noise is B^{-1/2}, so that x is the root of B
        "B": ("B", lambda x: at.opposed_pair(_SMOOTH, one / x, one), 2),
        "B_kink": ("B", lambda x: at.opposed_pair(_KINK, one / x, 0 * one), 2),
        "beta": ("beta", lambda x: at.opposed_pair(_SMOOTH, _NOISE, x * one), 1),
        "inverse_beta": ("1/beta", lambda x: at.opposed_pair(_SMOOTH, _NOISE, one / x), 1),
        "M": ("M", lambda x: at.opposed_pair(_SMOOTH, _NOISE, one, x), 1),
        "M_small": ("M", lambda x: at.opposed_pair(_SMOOTH, _NOISE, one * _FAR**3, x), 1),
    }
    regimes = [(_exponent(name, *measured[name]), value) for name, value in predicted.items()]
    return [replace(regime, predicted=value) for regime, value in regimes]


@PAPER.rate(
    "rem1_exponents",
    ref="Remark 1 and (23): the exponents",
    tex=r"\mathcal T=O\Big(\frac{M^{3/2}}{\beta\sqrt B}\Big)",
    expect="faster than stated",
    note="In one example, copies of two objectives, no exponent is attained: they are -2 in B, -2 "
    "in beta for large beta and 0 for small beta, 0 in M; see firm.law_exponents. "
    "In between, as long as M is far below beta, the drift does "
    "grow with M^2, which the bound survives by its other factors.",
)
def rem1_exponents() -> Sequence[rc.Regime]:
    """At fixed gradients with noise of order B^{-1/2} the disagreement drift is O(M^{3/2} / (beta
    sqrt(B))): B to infinity, beta to infinity and to 0, M to infinity.
    """
    return _against(B=-0.5, beta=-1.0, inverse_beta=1.0, M=1.5)


@PAPER.rate(
    "law_exponents",
    ref="Remark 1: the exponents that hold; derived here",
    printed_as="ours",
    tex=r"\mathcal T=\Theta(B^{-2}),\ \Theta(\beta^{-2}),\ \Theta(M^2)\ \text{or}\ "
    r"\Theta(B^{-1}),\ \Theta(\beta^0),\ \Theta(M^0)",
    note="Upper bounds for all instances: firm.law_second_order, firm.law_without_beta, "
    "firm.law_small_beta; M by copies of objectives, firm.law_replicas.",
)
def law_exponents() -> Sequence[rc.Regime]:
    """In one example, two clients, d = 1, and copies of two objectives with mean gradients of
    length 1, the first with noise of +-B^{-1/2}: the drift is of order B^-2 at fixed beta, B^-1
    where the mean gradients agree and beta = 0; beta^-2 beyond the gradients' curvature and beta^0
    below it; M^2 while M is far below beta and M^0 beyond.
    """
    return _against(B=-2.0, B_kink=-1.0, beta=-2.0, inverse_beta=0.0, M=0.0, M_small=2.0)
