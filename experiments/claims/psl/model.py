"""P-ShareLoRA, Section 3, Assumption 1, Lemmas 4, 5, 7 and 8: preferences and what they reveal."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from experiments.audit import Claim, Space, interval, positive, reals
from experiments.audit._fields import Field
from experiments.claims.psl._spaces import TRAJECTORIES, adaptation, users
from experiments.claims.psl.subspace import FIT_MEANING, FITS, FITTED, RANGE
from linsys.theory import preference as at

TWO = Space(fields={"x": reals(), "y": reals(), "m": positive()}, batched=True)
REWARDS: dict[str, Field] = {
    "psi": TRAJECTORIES["psi"],
    "init": reals("d1", "d2", magnitude=RANGE),
    "R": positive(low=0.5, high=100.0),
}
REWARD_MEANING = {"init": "Theta_init of all users", "R": "rewards are R tanh(<Theta, psi>/R)"}
REWARDED = users(REWARDS, meaning=REWARD_MEANING)
SMOOTH = Space(
    fields={
        "theta": reals("N", "d1", "d2", magnitude=RANGE),
        "other": reals("N", "d1", "d2", magnitude=RANGE),
        "psi": TRAJECTORIES["psi"],
        "R": positive(low=0.5, high=100.0),
    },
    sizes={"N": (1, 2), "T": (2, 2), "d1": (1, 2), "d2": (1, 2)},
    batched=True,
    meaning={"theta": "Theta", "other": "another Theta", "R": REWARD_MEANING["R"]},
)


def compare(
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
    found = adaptation(left, right, rest)
    other = adaptation(fit_left[..., : found.k], fit_right[:, :, : found.k], 0)
    return SimpleNamespace(users=found, fit=other, pairs=at.Pairs(psi, mu0, mu1), **others)


def compared(extra: dict[str, Field] | None = None, **options: Any) -> Space:
    """Users, a matrix of rank at most k, and pairs of trajectories."""
    fields = {**TRAJECTORIES, **FITS, **(extra or {})}
    meaning = {**FIT_MEANING, **options.pop("meaning", {})}
    return users(fields, view=compare, meaning=meaning, **options)


COMPARED = compared()


def _exact(*, left: Any, right: Any, fit_left: Any, fit_right: Any) -> SimpleNamespace:
    found = adaptation(left, right, 0)
    other = adaptation(fit_left[..., : found.k], fit_right[:, :, : found.k], 0)
    return SimpleNamespace(users=found, fit=other)


EXACT = Space(
    fields={"left": FITS["fit_left"], "right": FITS["fit_right"], **FITS},
    sizes={"N": (1, 3), "d1": (1, 3), "d2": (1, 2), "k": (1, 2)},
    view=_exact,
    batched=True,
    meaning={"left": "B of Delta Theta*", "right": "its W_i", **FIT_MEANING},
)

MODEL_PHI = Claim(
    id="psl.model_phi",
    source="P-ShareLoRA, Section 3: the link Phi",
    text="log Phi is m-strongly convex for an m > 0, for the logistic Phi.",
    latex=r"\log\Phi\Big(\frac{x+y}2\Big)\le\frac{\log\Phi(x)+\log\Phi(y)}2-\frac m8(x-y)^2",
    kind="upper",
    space=TWO,
    measure=lambda s: at.convexity(s.x, s.y, s.m),
    expect="violated",
    note="It is concave: (log Phi)'' = -Phi'. No link at all is as asked, whatever m >= 0 is: "
    "psl.model_phi_any; and a convex function below zero on all reals is constant. What the proofs "
    "need is -log Phi strongly convex, which is true on bounded intervals only.",
    corrected="psl.model_phi_corrected",
)
MODEL_PHI_CORRECTED = Claim(
    id="psl.model_phi_corrected",
    source="P-ShareLoRA, Section 3: the link Phi, corrected",
    text="-log Phi is strongly convex on [-c, c] with modulus Phi'(c) = Phi(c) Phi(-c).",
    latex=r"\log\Phi\Big(\frac{x+y}2\Big)-\frac{\log\Phi(x)+\log\Phi(y)}2\ge\frac{"
    r"\Phi'(c)}8(x-y)^2",
    kind="lower",
    space=TWO,
    measure=lambda s: at.concavity(s.x, s.y),
    note="Phi'(c) is about e^-c: with rewards in [-R, R], c = 2 R, and every constant that divides "
    "by it grows like e^(2R).",
    derivation="(log Phi)'' = -Phi', and Phi' is even and decreases on [0, c].",
)
MODEL_PHI_ANY = Claim(
    id="psl.model_phi_any",
    source="P-ShareLoRA, Section 3: no link has a convex logarithm",
    text="(log Phi(x) + log Phi(-x))/2 <= log Phi(0) for every Phi with Phi(x) + Phi(-x) = 1.",
    latex=r"\tfrac12(\log\Phi(x)+\log\Phi(-x))\le\log\Phi(0)",
    kind="upper",
    space=Space(
        fields={"p": interval(low=0.001, high=0.999)}, batched=True, meaning={"p": "Phi(x)"}
    ),
    measure=lambda s: at.any_link(s.p),
    derivation="p (1 - p) <= 1/4: equality for Phi(x) = 1/2 only.",
)
MODEL_PHI_SYMMETRIC = Claim(
    id="psl.model_phi_symmetric",
    source="P-ShareLoRA, Section 3: the link Phi",
    text="Phi(x) = 1 - Phi(-x) for the logistic Phi.",
    latex=r"\Phi(x)=1-\Phi(-x)",
    kind="identity",
    space=TWO,
    measure=lambda s: (at.logistic(s.x), 1 - at.logistic(-s.x)),
)
MODEL_PHI_LIPSCHITZ = Claim(
    id="psl.model_phi_lipschitz",
    source="P-ShareLoRA, Section 3: log Phi is Lipschitz",
    text="|log Phi(x) - log Phi(y)| <= L |x - y| with L = Phi(c) < 1 for arguments above -c.",
    latex=r"|\log\Phi(x)-\log\Phi(y)|\le\Phi(c)|x-y|",
    kind="upper",
    space=TWO,
    measure=lambda s: at.lipschitz(s.x, s.y),
    derivation="(log Phi)'(x) = Phi(-x) decreases. L = 1 on all reals, Phi(2R) for rewards in "
    "[-R, R].",
)
ASSUMPTION_1 = Claim(
    id="psl.assumption_1",
    source="P-ShareLoRA, Assumption 1",
    text="r = R tanh(<Theta, psi>/R) satisfies it with L1 = max ||psi||_F and L2 = 4 max "
    "||psi||_F^2 / (3 sqrt(3) R).",
    latex=r"\|\nabla r\|\le\max\|\psi\|_F,\quad\|\nabla^2r\|\le\frac{4\max\|\psi\|_F^2}{3\sqrt3R}",
    kind="upper",
    space=SMOOTH,
    measure=lambda s: at.assumption_1(s.theta, s.other, s.psi, s.R),
    note="As differences: of values beside L1, and of Taylor's remainder beside L2/2. A linear "
    "reward has L2 = 0.",
    derivation="g' = 1 - tanh^2 <= 1 and |g''| = (2/R) |t| (1 - t^2) <= 4/(3 sqrt(3) R).",
)
ASSUMPTION_1_LAPLACIAN = Claim(
    id="psl.assumption_1_laplacian",
    source="P-ShareLoRA, Section 3, below Assumption 1: 'the Laplacian'",
    text="|Laplacian| <= L2 bounds the Hessian's norm by L2.",
    latex=r"\|\nabla^2r\|\le|\Delta r|",
    kind="upper",
    space=Space(fields={"H": reals("d", "d")}, sizes={"d": (1, 3)}, batched=True),
    measure=lambda s: at.laplacian(s.H),
    expect="violated",
    note="The proofs expand to second order and need the matrix of second derivatives. A harmonic "
    "reward, theta_1^2 - theta_2^2, has no Laplacian and a Hessian of norm 2. Read as the norm of "
    "the Hessian the assumption is what is used: psl.assumption_1.",
    corrected="psl.assumption_1",
)
LEMMA_4 = Claim(
    id="psl.lemma_4",
    source="P-ShareLoRA, Lemma 4",
    text="(1/N) sum_i |log Phi(Delta r*_i) - log Phi(Delta r_diamond,i)| <= 2 L L1 "
    "sqrt(Sigma_tail/N), from scratch.",
    latex=r"\frac1N\sum_i|\log\Phi(\Delta r_i^\star)-\log\Phi(\Delta r_i^\diamond)|\le2LL_1"
    r"\sqrt{\Sigma_{tail}/N}",
    kind="upper",
    space=REWARDED,
    measure=lambda s: at.lemma_4(s.users, s.psi, 0 * s.init, s.R),
    note="With L = 1. True, but of first order in sqrt(Sigma_tail) for every single comparison; on "
    "average over outcomes the difference is of second order (psl.lemma_4_chance), and that is "
    "what the likelihood sees.",
)
LEMMA_7 = Claim(
    id="psl.lemma_7",
    source="P-ShareLoRA, Lemma 7",
    text="(1/N) sum_i |log Phi(r*_i(tau0) - r*_i(tau1)) - log Phi(r_diamond,i(tau0) + "
    "r_diamond,i(tau1))| <= 2 L L' sqrt(Sigma_tail/N).",
    latex=r"\frac1N\sum_i|\log\Phi(r_i^\star(\tau_0)-r_i^\star(\tau_1))-\log\Phi(r_i^\diamond"
    r"(\tau_0)+r_i^\diamond(\tau_1))|\le2LL'\sqrt{\Sigma_{tail}/N}",
    kind="upper",
    space=REWARDED,
    measure=lambda s: at.lemma_4(s.users, s.psi, s.init, s.R, sign=1),
    expect="violated",
    note="A sign: with Sigma_tail = 0 the right side is zero and the left one is not. The display "
    "stands in the statement and at the end of the proof; the steps between have the minus.",
    corrected="psl.lemma_7_corrected",
)
LEMMA_7_CORRECTED = replace(
    LEMMA_7,
    id="psl.lemma_7_corrected",
    source="P-ShareLoRA, Lemma 7, corrected",
    text="The same with r_diamond,i(tau0) - r_diamond,i(tau1).",
    latex=r"\frac1N\sum_i|\log\Phi(\Delta r_i^\star)-\log\Phi(\Delta r_i^\diamond)|\le2LL_1"
    r"\sqrt{\Sigma_{tail}/N}",
    measure=lambda s: at.lemma_4(s.users, s.psi, s.init, s.R),
    expect="holds",
    note="",
    corrected=None,
    derivation="log Phi is 1-Lipschitz, a reward L1-Lipschitz in Theta_i, twice; Jensen's "
    "inequality and ||Delta Theta* - Theta_diamond||_F^2 = Sigma_tail.",
)
LEMMA_5 = Claim(
    id="psl.lemma_5",
    source="P-ShareLoRA, Lemma 5",
    text="dist(B, B_diamond) <= ||Theta - Theta*||_F^2 / sigma_k(Theta*)^2 for a Theta of rank k.",
    latex=r"\operatorname{dist}(B,B^\diamond)\le\|\Theta-\Theta^\star\|_F^2/\sigma_k(\Theta^"
    r"\star)^2",
    kind="upper",
    space=FITTED,
    measure=lambda s: at.lemma_5(s.users, s.fit, 1),
    expect="violated",
    note="The proof ends with dist^2. Theta* = (1, 0)', Theta = cos t (cos t, sin t)': dist = sin "
    "t and ||Theta - Theta*|| = sin t, so that the printed form says sin t <= sin^2 t. Theorem 4.1 "
    "takes the root of the whole sum and so follows from the form with dist^2, not from this one.",
    corrected="psl.lemma_5_corrected",
    main=True,
)
LEMMA_5_CORRECTED = replace(
    LEMMA_5,
    id="psl.lemma_5_corrected",
    source="P-ShareLoRA, Lemma 5, corrected",
    text="dist^2(B, B_diamond) <= ||Theta - Theta*||_F^2 / sigma_k(Theta*)^2.",
    latex=r"\operatorname{dist}^2(B,B^\diamond)\le\|\Theta-\Theta^\star\|_F^2/\sigma_k"
    r"(\Theta^\star)^2",
    measure=lambda s: at.lemma_5(s.users, s.fit, 2),
    expect="holds",
    note="No gap sigma_k > sigma_{k+1} is needed: Theta has rank k, so that the gap of Davis and "
    "Kahan's theorem is sigma_k(Theta*) - 0.",
    corrected=None,
    derivation="Bperp'Theta = 0 and Theta* V_k = B_diamond Lambda_k give sigma_k ||Bperp' "
    "B_diamond||_F <= ||Bperp' Theta* V_k||_F = ||Bperp'(Theta* - Theta) V_k||_F. Attained.",
)
LEMMA_8 = replace(
    LEMMA_5,
    id="psl.lemma_8",
    source="P-ShareLoRA, Lemma 8",
    text="dist(B, B_diamond) <= ||Delta Theta - Delta Theta*||_F^2 / sigma_k(Delta Theta*)^2, "
    "where span(B_diamond) = span(Delta Theta*).",
    latex=r"\operatorname{dist}(B,B^\diamond)\le\|\Delta\Theta-\Delta\Theta^\star\|_F^2/\sigma_k"
    r"(\Delta\Theta^\star)^2",
    space=EXACT,
    note="As psl.lemma_5. That span(B_diamond) = span(Delta Theta*) has k dimensions says rank "
    "k, Sigma_tail = 0, while Theorem 4.1 uses the lemma with Sigma_tail > 0; the true form does "
    "not need it: psl.lemma_5_corrected with Delta Theta in place of Theta.",
    corrected="psl.lemma_8_corrected",
    main=False,
)
LEMMA_8_CORRECTED = replace(
    LEMMA_5_CORRECTED,
    id="psl.lemma_8_corrected",
    source="P-ShareLoRA, Lemma 8, corrected",
    text="dist^2(B, B_diamond) <= ||Delta Theta - Delta Theta*||_F^2 / sigma_k(Delta Theta*)^2.",
    space=EXACT,
    note="",
)
LEMMA_5_MEAN_VALUE = Claim(
    id="psl.lemma_5_mean_value",
    source="P-ShareLoRA, Lemmas 5 and 8: 'from the mean value theorem'",
    text="||Theta - Theta*||_F^2 <= C sum_i E ||P_i - P*_i||^2 for a constant C.",
    latex=r"\|\Theta-\Theta^\star\|_F^2\le C\sum_i\mathbb E\|P_{\Theta_i}-P_{\Theta_i^\star}\|^2",
    kind="upper",
    space=compared({"C": positive(low=1.0, high=1000.0)}),
    measure=lambda s: at.mean_value(s.users, s.fit, s.pairs, s.C),
    expect="violated",
    note="Preferences see Theta through <Theta, psi(tau0) - psi(tau1)> alone. Where these "
    "differences do not span the matrices, Theta* + Z has the preferences of Theta* and no C "
    "exists: two trajectories and d1 d2 = 2 are enough. Nothing in Assumption 1 excludes it. And "
    "where they do, C grows like e^(4R): psl.lemma_5_curvature.",
    corrected="psl.lemma_5_coverage",
    main=True,
)
LEMMA_5_COVERAGE = Claim(
    id="psl.lemma_5_coverage",
    source="P-ShareLoRA, Lemmas 5 and 8, corrected: coverage and curvature",
    text="2 m^2 lambda_min(E xx') ||Theta - Theta*||_F^2 <= sum_i E ||P_i - P*_i||^2, x = "
    "vec(psi(tau0) - psi(tau1)), m the least Phi' of the rewards' differences.",
    latex=r"2m^2\lambda_{\min}(\mathbb E xx^\top)\|\Theta-\Theta^\star\|_F^2\le\sum_i\mathbb E"
    r"\|P_{\Theta_i}-P_{\Theta_i^\star}\|^2",
    kind="upper",
    space=COMPARED,
    measure=lambda s: at.coverage(s.users, s.fit, s.pairs),
    derivation="|Phi(a) - Phi(b)| >= m |a - b| for linear rewards, for both outcomes, and E <D, "
    "X>^2 >= lambda_min ||D||_F^2.",
)
LEMMA_5_CURVATURE = Claim(
    id="psl.lemma_5_curvature",
    source="P-ShareLoRA, Lemmas 5 and 8: how large C must be",
    text="(x - y)^2 >= (e^(2a)/2) times the squared gap of both outcomes, for x, y >= a.",
    latex=r"(x-y)^2\ge\tfrac12e^{2a}\cdot2(\Phi(x)-\Phi(y))^2",
    kind="lower",
    space=Space(
        fields={"x": reals(magnitude=(0.1, 20.0)), "y": reals(magnitude=(0.1, 20.0))}, batched=True
    ),
    measure=lambda s: at.curvature(s.x, s.y),
    note="So for rewards' differences up to 2R the constant of Lemma 5, and with it c1^2 of "
    "Theorem 4.1, is at least e^(4R)/2 times what one with C = 1 would be: a constant of R, but "
    "not a mild one.",
    derivation="Phi' <= e^-a at arguments above a. Approached as a grows.",
)
EQ_C1 = Claim(
    id="psl.eq_C1",
    source="P-ShareLoRA, equation (C.1), the last step",
    text="||dW|| + B ||dB|| <= max{1, B} ||[dB; dW]||.",
    latex=r"\|\Delta W\|+B\|\Delta B\|\le\max\{1,B\}\|[\Delta B;\Delta W]\|",
    kind="upper",
    space=Space(
        fields={"dB": reals("d1", "k"), "dW": reals("k", "d2"), "B": positive()},
        sizes={"d1": (1, 2), "d2": (1, 2), "k": (1, 2)},
        batched=True,
    ),
    measure=lambda s: at.chain_step(s.dW, s.dB, s.B),
    expect="violated",
    note="A sum is at most sqrt(2) times the root of the sum of squares, not once: ||dW|| = ||dB|| "
    "= B = 1 has 2 and 1.42. Only a constant of Proposition 1.",
    corrected="psl.eq_C1_corrected",
)
EQ_C1_CORRECTED = Claim(
    id="psl.eq_C1_corrected",
    source="P-ShareLoRA, equation (C.1), corrected",
    text="|f_i - f'_i| <= 2 C_R L1 sqrt(1 + B^2) ||[dB; dW_i]||, C_R = 1/4, B >= ||W_i||_F.",
    latex=r"|f_i-\bar f_i|\le2C_RL_1\sqrt{1+B^2}\,\|[\Delta B;\Delta W_i]\|",
    kind="upper",
    space=compared(sizes={"N": (1, 2), "T": (2, 2)}),
    measure=lambda s: at.eq_C1(s.users, s.fit, s.pairs),
    derivation="||B W_i - B'W'_i||_F <= ||W_i - W'_i||_F + ||W'_i|| ||B - B'||_F for orthonormal "
    "B, and Cauchy-Schwarz. Of one user's parameters: the printed diag(B) of all users would bring "
    "sqrt(N) B.",
)
EQ_C1_BALL = Claim(
    id="psl.eq_C1_ball",
    source="P-ShareLoRA, Appendix C.1: the ball that is covered",
    text="(vec B, vec W) lies in a ball of radius B for ||W_i||_F <= B.",
    latex=r"\|[\operatorname{vec}B;\operatorname{vec}W]\|\le B",
    kind="upper",
    space=users(),
    measure=lambda s: at.ball(s.users)[:2],
    expect="violated",
    note="B is orthonormal, which alone is sqrt(k), and there are N matrices W_i. It enters "
    "Proposition 1 within a logarithm, as log N.",
    corrected="psl.eq_C1_ball_corrected",
)
EQ_C1_BALL_CORRECTED = replace(
    EQ_C1_BALL,
    id="psl.eq_C1_ball_corrected",
    source="P-ShareLoRA, Appendix C.1, corrected: the ball that is covered",
    text="Its radius is sqrt(k + N B^2).",
    latex=r"\|[\operatorname{vec}B;\operatorname{vec}W]\|^2\le k+NB^2",
    measure=lambda s: at.ball(s.users)[::2],
    expect="holds",
    note="",
    corrected=None,
    derivation="||B||_F^2 = k and ||W||_F^2 <= N B^2. Attained.",
)
