"""P-ShareLoRA, Lemmas 5 and 8, equation (C.1): what preferences reveal of parameters."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims._spaces import TRAJECTORIES, adaptation, of_rank_k, unseen, users
from experiments.psharelora.claims.subspace import FIT_MEANING, FITS, FITTED
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import preference as at
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation
from experiments.psharelora.theory.unseen import turned
from linsys.linalg import Numbers, lambda_min, logistic, squares


def view_with_fit(
    *,
    left: Any,
    right: Any,
    rest: Any,
    fit_left: Any,
    fit_right: Any,
    psi: Any,
    mu0: Any,
    mu1: Any,
    **others: Any,
) -> SimpleNamespace:
    """``users``, another matrix ``fit``, and ``pairs``."""
    users = adaptation(left, right, rest)
    other = adaptation(fit_left[..., : users.k], fit_right[:, :, : users.k], 0)
    return SimpleNamespace(users=users, fit=other, pairs=Pairs(psi, mu0, mu1), **others)


def space_with_fit(extra: dict[str, rc.Field] | None = None, **options: Any) -> rc.Space:
    """Users, a matrix of rank at most k, and pairs of trajectories."""
    fields = {**TRAJECTORIES, **FITS, **(extra or {})}
    meaning = {**FIT_MEANING, **options.pop("meaning", {})}
    return users(fields, view=view_with_fit, meaning=meaning, **options)


WITH_FIT = space_with_fit()


def _rank_k(*, left: Any, right: Any, fit_left: Any, fit_right: Any) -> SimpleNamespace:
    users = adaptation(left, right, 0)
    other = adaptation(fit_left[..., : users.k], fit_right[:, :, : users.k], 0)
    return SimpleNamespace(users=users, fit=other)


RANK_K = rc.Space(
    fields={"left": FITS["fit_left"], "right": FITS["fit_right"], **FITS},
    sizes={"N": (1, 3), "d1": (1, 3), "d2": (1, 2), "k": (1, 2)},
    view=_rank_k,
    batched=True,
    meaning={"left": "B of Delta Theta*", "right": "its W_i", **FIT_MEANING},
)


@PAPER.upper(
    "lemma_5",
    ref="Lemma 5, its first inequality",
    tex=r"\operatorname{dist}(B,B^\diamond)\le\|\Theta-\Theta^\star\|_F^2/\sigma_k(\Theta^"
    r"\star)^2",
    on=FITTED,
    expect="violated",
    note="The proof ends with dist^2. Theta* = (1, 0)', Theta = cos t (cos t, sin t)': dist = sin "
    "t and ||Theta - Theta*|| = sin t, so that the printed form says sin t <= sin^2 t. Theorem 4.1 "
    "takes the root of the whole sum and so follows from the form with dist^2, not from this one: "
    "a slip in the statement, without effect. What does have one is the second inequality: "
    "psl.lemma_5_mean_value.",
    corrected="lemma_5_corrected",
    printed_as="misprint",
    family=[
        {
            "left": [[1.0], [0.0]],
            "right": [[[1.0]]],
            "rest": [[[0.0], [0.0]]],
            "fit_left": [[cosine], [sine]],
            "fit_right": [[[cosine]]],
        }
        for cosine, sine in ((0.8, 0.6), (0.96, 0.28), (0.9998, 0.02))
    ],
)
def lemma_5(users: Any, fit: Any) -> rc.Sides:
    """dist(B, B_diamond) <= ||Theta - Theta*||_F^2 / sigma_k(Theta*)^2 for a Theta of rank k."""
    return at.lemma_5(users, fit, 1)


@PAPER.upper(
    "lemma_5_corrected",
    ref="Lemma 5, corrected",
    on=lemma_5.space,
    tex=r"\operatorname{dist}^2(B,B^\diamond)\le\|\Theta-\Theta^\star\|_F^2/\sigma_k"
    r"(\Theta^\star)^2",
    note="No gap sigma_k > sigma_{k+1} is needed: Theta has rank k, so that the gap of Davis and "
    "Kahan's theorem is sigma_k(Theta*) - 0.",
    derivation="Bperp'Theta = 0 and Theta* V_k = B_diamond Lambda_k give sigma_k ||Bperp' "
    "B_diamond||_F <= ||Bperp' Theta* V_k||_F = ||Bperp'(Theta* - Theta) V_k||_F. Attained.",
)
def lemma_5_corrected(users: Adaptation, fit: Adaptation) -> rc.Sides:
    """dist^2(B, B_diamond) <= ||Theta - Theta*||_F^2 / sigma_k(Theta*)^2 for a Theta of rank k
    whose columns B spans.
    """
    return at.lemma_5(users, fit, 2)


LEMMA_8 = replace(
    lemma_5,
    id="psl.lemma_8",
    family=[{name: case[name] for name in RANK_K.fields} for case in lemma_5.family],
    source="P-ShareLoRA, Lemma 8, its first inequality",
    text="dist(B, B_diamond) <= ||Delta Theta - Delta Theta*||_F^2 / sigma_k(Delta Theta*)^2, "
    "where span(B_diamond) = span(Delta Theta*).",
    latex=r"\operatorname{dist}(B,B^\diamond)\le\|\Delta\Theta-\Delta\Theta^\star\|_F^2/\sigma_k"
    r"(\Delta\Theta^\star)^2",
    space=RANK_K,
    note="As psl.lemma_5. That span(B_diamond) = span(Delta Theta*) has k dimensions says rank "
    "k, Sigma_tail = 0, while Theorem 4.1 uses the lemma with Sigma_tail > 0; the true form does "
    "not need it: psl.lemma_5_corrected with Delta Theta in place of Theta.",
    corrected="psl.lemma_8_corrected",
)
LEMMA_8_CORRECTED = replace(
    lemma_5_corrected,
    id="psl.lemma_8_corrected",
    source="P-ShareLoRA, Lemma 8, corrected",
    text="dist^2(B, B_diamond) <= ||Delta Theta - Delta Theta*||_F^2 / sigma_k(Delta Theta*)^2.",
    latex=r"\operatorname{dist}^2(B,B^\diamond)\le\|\Delta\Theta-\Delta\Theta^\star\|_F^2/\sigma_k"
    r"(\Delta\Theta^\star)^2",
    space=RANK_K,
    note="",
    uses=["psl.lemma_5_corrected"],
    derivation="psl.lemma_5_corrected with Delta Theta for Theta and Delta Theta* for Theta*.",
)


def _mirrored_case(C: float) -> dict[str, Any]:
    """Theta* = (1, 1)' and Theta = (-1, 1)', of which comparisons see the second entry."""
    return {
        "left": [[1.0], [1.0]],
        "right": [[[1.0]]],
        "psi": [[[0.0], [0.0]], [[0.0], [1.0]]],
        "mu0": [0.5, 0.5],
        "mu1": [0.5, 0.5],
        "C": C,
    }


def _mirrored(*, psi: Any, mu0: Any, mu1: Any, **others: Any) -> SimpleNamespace:
    """``fit`` is Delta Theta* with what no comparison sees of its columns turned round."""
    system = of_rank_k(**others)
    system.fit, system.psi = turned(system.users, psi), psi
    system.pairs = Pairs(psi, mu0, mu1)
    return system


@PAPER.upper(
    "lemma_5_mean_value",
    ref="Lemmas 5 and 8, their second inequality",
    tex=r"\|\Theta-\Theta^\star\|_F^2\le C\sum_i\mathbb E\|P_{\Theta_i}-P_{\Theta_i^\star}\|^2",
    on=unseen(
        {
            "mu0": TRAJECTORIES["mu0"],
            "mu1": TRAJECTORIES["mu1"],
            "C": rc.positive(low=1.0, high=1e6),
        },
        view=_mirrored,
        constructed="Theta is Theta* with the part of its columns that no comparison sees turned "
        "round",
    ),
    expect="violated",
    note="The lemmas say ||Theta - Theta*||_F^2/(delta')^2 <= C delta/(N nu) with (delta')^2 = "
    "sigma_k^2 = N nu, which is this, and prove it 'from the mean value theorem'. C is to be one "
    "constant: if it may depend on Theta, they say nothing. Preferences see Theta through <Theta, "
    "psi(tau0) - psi(tau1)> alone. Where these differences do not span the matrices, Theta* + Z "
    "has the preferences of Theta* for every Z across them: the left side is ||Z||^2, the right "
    "one zero, whatever C is. Theta* = (1, 1)', Theta = (-1, 1)' and two trajectories whose "
    "features differ by (0, 1)': 4 against 0. Nothing in Assumption 1 excludes it. And where they "
    "do span, C grows like e^(4R): psl.lemma_5_curvature.",
    corrected="lemma_5_coverage",
    main=True,
    family=[_mirrored_case(C) for C in (1.0, 100.0, 1e6)],
)
def lemma_5_mean_value(users: Adaptation, fit: Adaptation, pairs: Pairs, C: rc.Numbers) -> rc.Sides:
    """||Theta - Theta*||_F^2 <= C sum_i E ||P_i - P*_i||^2 for a constant C, so that dist^2 <= C
    delta/(N nu) where the sum is at most delta.
    """
    error = squares(fit.delta - users.delta).sum(axis=-1)
    return error, C * pairs.apart(fit.delta, users.delta) / 2


@PAPER.upper(
    "lemma_5_coverage",
    ref="Lemmas 5 and 8, corrected: coverage and curvature",
    tex=r"2m^2\lambda_{\min}(\mathbb E xx^\top)\|\Theta-\Theta^\star\|_F^2\le\sum_i\mathbb E"
    r"\|P_{\Theta_i}-P_{\Theta_i^\star}\|^2",
    on=WITH_FIT,
    derivation="|Phi(a) - Phi(b)| >= m |a - b| for linear rewards, for both outcomes, and E <D, "
    "X>^2 >= lambda_min ||D||_F^2.",
)
def lemma_5_coverage(users: Adaptation, fit: Adaptation, pairs: Pairs) -> rc.Sides:
    """For linear rewards 2 m^2 lambda_min(E xx') ||Theta - Theta*||_F^2 <= sum_i E ||P_i -
    P*_i||^2, x = vec(psi(tau0) - psi(tau1)), m the least Phi' of the rewards' differences.
    """
    error, divergence = lemma_5_mean_value(users, fit, pairs, 1 + 0 * pairs.L1)
    m = pairs.steepness(users.delta, fit.delta)
    return 2 * m * m * lambda_min(pairs.moment) * error, divergence


@PAPER.lower(
    "lemma_5_curvature",
    ref="Lemmas 5 and 8: how large C must be",
    tex=r"(x-y)^2\ge\tfrac12e^{2a}\cdot2(\Phi(x)-\Phi(y))^2",
    on=rc.Space(
        fields={"x": rc.reals(magnitude=(0.1, 20.0)), "y": rc.reals(magnitude=(0.1, 20.0))},
        batched=True,
    ),
    note="Where all compared rewards differ by about 2R, the constant C of Lemma 5, and with it "
    "the c1^2 that the proof of Theorem 4.1 has, is at least of the order e^(4R)/(8 L1^2), as "
    "(x - y)^2 <= 4 L1^2 ||Theta_i - Theta*_i||_F^2.",
    derivation="Phi' <= e^-a at arguments above a. Approached as a grows.",
    printed_as="ours",
)
def lemma_5_curvature(x: Numbers, y: Numbers) -> rc.Sides:
    """(x - y)^2 >= (e^(2a)/2) times the squared gap of both outcomes, for x, y >= a."""
    gap = logistic(x) - logistic(y)
    return (x - y) ** 2, np.exp(2 * np.minimum(x, y)) * gap * gap


@PAPER.upper(
    "eq_C1",
    ref="equation (C.1), the last step",
    tex=r"\|\Delta W\|+B\|\Delta B\|\le\max\{1,B\}\|[\Delta B;\Delta W]\|",
    on=rc.Space(
        fields={"dB": rc.reals("d1", "k"), "dW": rc.reals("k", "d2"), "B": rc.positive()},
        sizes={"d1": (1, 2), "d2": (1, 2), "k": (1, 2)},
        batched=True,
    ),
    expect="violated",
    note="A sum is at most sqrt(2) times the root of the sum of squares, not once: ||dW|| = ||dB|| "
    "= B = 1 has 2 and 1.42. Only a constant of Proposition 1.",
    corrected="eq_C1_corrected",
    printed_as="proof step",
    family=[{"dB": [[1.0]], "dW": [[1.0]], "B": 1.0}],
)
def eq_C1(dW: Numbers, dB: Numbers, B: Numbers) -> rc.Sides:
    """||dW|| + B ||dB|| <= max{1, B} ||[dB; dW]||."""
    together = np.sqrt(squares(dB) + squares(dW))
    return np.sqrt(squares(dW)) + B * np.sqrt(squares(dB)), np.maximum(1, B) * together


@PAPER.upper(
    "eq_C1_corrected",
    ref="equation (C.1), corrected",
    tex=r"|f_i-\bar f_i|\le2C_RL_1\sqrt{1+B^2}\,\|[\Delta B;\Delta W_i]\|",
    on=space_with_fit(sizes={"N": (1, 2), "T": (2, 2)}),
    derivation="||B W_i - B'W'_i||_F <= ||W_i - W'_i||_F + ||W'_i|| ||B - B'||_F for orthonormal "
    "B, and Cauchy-Schwarz. Of one user's parameters: the printed diag(B) of all users would bring "
    "sqrt(N) B.",
)
def eq_C1_corrected(users: Adaptation, fit: Adaptation, pairs: Pairs) -> rc.Sides:
    """|f_i - f'_i| <= 2 C_R L1 sqrt(1 + B^2) ||[dB; dW_i]||, C_R = 1/4, B >= ||W_i||_F, for
    orthonormal bases B.

    The number B is the largest ||W_i||_F of both, f_i the chance that the first trajectory is
    preferred.
    """
    gap = np.abs(logistic(pairs.logits(users.best)) - logistic(pairs.logits(fit.best)))
    B2 = np.maximum(squares(users.W), squares(fit.W)).max(axis=-1)
    apart = squares(users.B - fit.B)[..., None] + squares(users.W - fit.W)
    bound = pairs.L1[..., None] * np.sqrt((1 + B2)[..., None] * apart) / 2
    return gap, bound[..., None] + 0 * gap


@PAPER.upper(
    "eq_C1_ball",
    ref="Appendix C.1: the ball that is covered",
    tex=r"\|[\operatorname{vec}B;\operatorname{vec}W]\|\le B",
    on=users(),
    expect="violated",
    note="B is orthonormal, which alone is sqrt(k), and there are N matrices W_i. It enters "
    "Proposition 1 within a logarithm, as log N.",
    corrected="eq_C1_ball_corrected",
    printed_as="proof step",
    family=[{"left": [[1.0]], "right": [[[1.0]]], "rest": [[[0.0]]]}],
)
def eq_C1_ball(users: Any) -> rc.Sides:
    """(vec B, vec W) lies in a ball of radius B for ||W_i||_F <= B."""
    return at.ball(users)[:2]


@PAPER.upper(
    "eq_C1_ball_corrected",
    ref="Appendix C.1, corrected: the ball that is covered",
    on=eq_C1_ball.space,
    tex=r"\|[\operatorname{vec}B;\operatorname{vec}W]\|^2\le k+NB^2",
    derivation="||B||_F^2 = k and ||W||_F^2 <= N B^2. Attained.",
)
def eq_C1_ball_corrected(users: Adaptation) -> rc.Sides:
    """(vec B, vec W) lies in a ball of radius sqrt(k + N B^2) for ||W_i||_F <= B."""
    return at.ball(users)[::2]
