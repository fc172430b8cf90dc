"""P-ShareLoRA, Section 3, Assumption 1, Lemmas 4 and 7: preferences and rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims._spaces import TRAJECTORIES, users
from experiments.psharelora.claims.subspace import RANGE
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import preference as at
from linsys.linalg import Numbers, lambda_max, lambda_min, logistic, squares

TWO = rc.Space(fields={"x": rc.reals(), "y": rc.reals(), "m": rc.positive()}, batched=True)
REWARDS: dict[str, rc.Field] = {
    "psi": TRAJECTORIES["psi"],
    "init": rc.reals("d1", "d2", magnitude=RANGE),
    "R": rc.positive(low=0.5, high=100.0),
}
REWARD_MEANING = {"init": "Theta_init of all users", "R": "rewards are R tanh(<Theta, psi>/R)"}
REWARDED = users(REWARDS, meaning=REWARD_MEANING)
SMOOTH = rc.Space(
    fields={
        "theta": rc.reals("N", "d1", "d2", magnitude=RANGE),
        "other": rc.reals("N", "d1", "d2", magnitude=RANGE),
        "psi": TRAJECTORIES["psi"],
        "R": rc.positive(low=0.5, high=100.0),
    },
    sizes={"N": (1, 2), "T": (2, 2), "d1": (1, 2), "d2": (1, 2)},
    batched=True,
    meaning={"theta": "Theta", "other": "another Theta", "R": REWARD_MEANING["R"]},
)


@PAPER.upper(
    "model_phi",
    ref="Section 3: the link Phi",
    tex=r"\log\Phi\Big(\frac{x+y}2\Big)\le\frac{\log\Phi(x)+\log\Phi(y)}2-\frac m8(x-y)^2",
    on=replace(TWO, assumes={"a modulus of strong convexity: m > 0": lambda s: s.m > 0}),
    expect="violated",
    note="It is concave: (log Phi)'' = -Phi'. No link at all is as asked, whatever m >= 0 is: "
    "psl.model_phi_any; and a convex function below zero on all reals is constant. What the proofs "
    "need is -log Phi strongly convex, which is true on bounded intervals only.",
    corrected="model_phi_corrected",
    family=[{"x": x, "y": -x, "m": 0.1} for x in (1.0, 3.0)],
)
def model_phi(x: Numbers, y: Numbers, m: Numbers) -> rc.Sides:
    """log Phi is m-strongly convex for an m > 0, for the logistic Phi."""
    mean = (at.log_logistic(x) + at.log_logistic(y)) / 2
    return at.log_logistic((x + y) / 2), mean - m * (x - y) ** 2 / 8


@PAPER.lower(
    "model_phi_corrected",
    ref="Section 3: the link Phi, corrected",
    tex=r"\log\Phi\Big(\frac{x+y}2\Big)-\frac{\log\Phi(x)+\log\Phi(y)}2\ge\frac{"
    r"\Phi'(c)}8(x-y)^2",
    on=TWO,
    note="Phi'(c) is about e^-c: with rewards in [-R, R], c = 2 R, and every constant that divides "
    "by it grows like e^(2R).",
    derivation="(log Phi)'' = -Phi', and Phi' is even and decreases on [0, c].",
)
def model_phi_corrected(x: Numbers, y: Numbers) -> rc.Sides:
    """-log Phi is strongly convex on [-c, c] with modulus Phi'(c) = Phi(c) Phi(-c)."""
    m = at.slope(np.maximum(np.abs(x), np.abs(y)))
    mean = (at.log_logistic(x) + at.log_logistic(y)) / 2
    return at.log_logistic((x + y) / 2) - mean, m * (x - y) ** 2 / 8


@PAPER.upper(
    "model_phi_any",
    ref="Section 3: no link has a convex logarithm",
    tex=r"\tfrac12(\log\Phi(x)+\log\Phi(-x))\le\log\Phi(0)",
    on=rc.Space(
        fields={"p": rc.interval(low=0.001, high=0.999)}, batched=True, meaning={"p": "Phi(x)"}
    ),
    derivation="p (1 - p) <= 1/4: equality for Phi(x) = 1/2 only.",
    printed_as="ours",
)
def model_phi_any(p: Numbers) -> rc.Sides:
    """(log Phi(x) + log Phi(-x))/2 <= log Phi(0) for every Phi with Phi(x) + Phi(-x) = 1."""
    return (np.log(p) + np.log(1 - p)) / 2, -np.log(2 + 0 * p)


@PAPER.identity(
    "model_phi_symmetric",
    ref="Section 3: the link Phi",
    tex=r"\Phi(x)=1-\Phi(-x)",
    on=TWO,
)
def model_phi_symmetric(x: Any) -> rc.Sides:
    """Phi(x) = 1 - Phi(-x) for the logistic Phi."""
    return (logistic(x), 1 - logistic(-x))


@PAPER.upper(
    "model_phi_lipschitz",
    ref="Section 3: log Phi is Lipschitz",
    tex=r"|\log\Phi(x)-\log\Phi(y)|\le\Phi(c)|x-y|",
    on=TWO,
    derivation="(log Phi)'(x) = Phi(-x) decreases. L = 1 on all reals, Phi(2R) for rewards in "
    "[-R, R].",
)
def model_phi_lipschitz(x: Numbers, y: Numbers) -> rc.Sides:
    """|log Phi(x) - log Phi(y)| <= L |x - y| with L = Phi(c) < 1 for arguments above -c."""
    steep = logistic(np.maximum(-x, -y))
    return np.abs(at.log_logistic(x) - at.log_logistic(y)), steep * np.abs(x - y)


@PAPER.upper(
    "assumption_1",
    ref="Assumption 1: rewards that meet it",
    printed_as="ours",
    tex=r"\|\nabla r\|\le\max\|\psi\|_F,\quad\|\nabla^2r\|\le\frac{4\max\|\psi\|_F^2}{3\sqrt3R}",
    on=SMOOTH,
    note="As differences: of values beside L1, and of Taylor's remainder beside L2/2. A linear "
    "reward has L2 = 0.",
    derivation="g' = 1 - tanh^2 <= 1 and |g''| = (2/R) |t| (1 - t^2) <= 4/(3 sqrt(3) R).",
)
def assumption_1(theta: Numbers, other: Numbers, psi: Numbers, R: Numbers) -> rc.Sides:
    """r = R tanh(<Theta, psi>/R) satisfies Assumption 1 with L1 = max ||psi||_F and L2 = 4 max
    ||psi||_F^2 / (3 sqrt(3) R).

    |r - r'| beside L1 ||Theta - Theta'||, and the remainder of Taylor's first order beside L2 / 2
    times its square; theta, other (..., N, d1, d2), R (...).
    """
    size = R[..., None, None]
    s, t = at.scores(theta, psi), at.scores(other, psi)
    length2 = squares(theta - other)[..., :, None]
    norm2 = squares(psi)[..., None, :]
    change = at.reward(s, size) - at.reward(t, size)
    first = at.rate(t, size) * (s - t)
    measured = np.stack([np.abs(change), np.abs(change - first)], axis=-1)
    bound = np.stack([np.sqrt(norm2 * length2), at.bend(size) * norm2 * length2 / 2], axis=-1)
    return measured, bound


@PAPER.upper(
    "assumption_1_laplacian",
    ref="Section 3, below Assumption 1: 'the Laplacian'",
    tex=r"\|\nabla^2r\|\le|\Delta r|",
    on=rc.Space(fields={"H": rc.reals("d", "d")}, sizes={"d": (1, 3)}, batched=True),
    expect="violated",
    note="The proofs expand to second order and need the matrix of second derivatives. A harmonic "
    "reward, theta_1^2 - theta_2^2, has no Laplacian and a Hessian of norm 2. Read as the norm of "
    "the Hessian the assumption is what is used: psl.assumption_1.",
    corrected="assumption_1",
    reading_of="assumption_1",
    reading="Below Assumption 1 the paper calls the second derivative the Laplacian, which is one "
    "number and bounds less; its norm and the proofs mean the matrix.",
    printed_as="misprint",
    family=[{"H": [[2.0, 0.0], [0.0, -2.0]]}],
)
def assumption_1_laplacian(H: Numbers) -> rc.Sides:
    """|Laplacian| <= L2 bounds the Hessian's norm by L2."""
    S = (H + np.swapaxes(H, -1, -2)) / 2
    norm = np.maximum(np.abs(lambda_min(S)), np.abs(lambda_max(S)))
    return norm, np.abs(np.trace(S, axis1=-2, axis2=-1))


@PAPER.upper(
    "lemma_4",
    ref="Lemma 4",
    tex=r"\frac1N\sum_i|\log\Phi(\Delta r_i^\star)-\log\Phi(\Delta r_i^\diamond)|\le2LL_1"
    r"\sqrt{\Sigma_{tail}/N}",
    on=REWARDED,
    note="With L = 1. True, but of first order in sqrt(Sigma_tail) for every single comparison; on "
    "average over outcomes the difference is of second order (psl.lemma_4_chance), and that is "
    "what the likelihood sees.",
)
def lemma_4(users: Any, psi: Any, init: Any, R: Any) -> rc.Sides:
    """(1/N) sum_i |log Phi(Delta r*_i) - log Phi(Delta r_diamond,i)| <= 2 L L1 sqrt(Sigma_tail/N),
    from scratch.
    """
    return at.lemma_4(users, psi, 0 * init, R)


@PAPER.upper(
    "lemma_7",
    ref="Lemma 7",
    tex=r"\frac1N\sum_i|\log\Phi(r_i^\star(\tau_0)-r_i^\star(\tau_1))-\log\Phi(r_i^\diamond"
    r"(\tau_0)+r_i^\diamond(\tau_1))|\le2LL'\sqrt{\Sigma_{tail}/N}",
    on=REWARDED,
    expect="violated",
    note="A sign: with Sigma_tail = 0 the right side is zero and the left one is not. The display "
    "stands in the statement and at the end of the proof; the steps between have the minus.",
    corrected="lemma_7_corrected",
    printed_as="misprint",
    family=[
        {
            "left": [[1.0]],
            "right": [[[1.0]]],
            "rest": [[[0.0]]],
            "psi": [[[1.0]], [[-1.0]]],
            "init": [[0.0]],
            "R": 100.0,
        },
    ],
)
def lemma_7(users: Any, psi: Any, init: Any, R: Any) -> rc.Sides:
    """(1/N) sum_i |log Phi(r*_i(tau0) - r*_i(tau1)) - log Phi(r_diamond,i(tau0) +
    r_diamond,i(tau1))| <= 2 L L' sqrt(Sigma_tail/N).
    """
    return at.lemma_4(users, psi, init, R, sign=1)


@PAPER.upper(
    "lemma_7_corrected",
    ref="Lemma 7, corrected",
    # where Sigma_tail = 0 both sides are zero, and rounding alone would be the tightest instance
    on=users(
        REWARDS,
        meaning=REWARD_MEANING,
        given={"Sigma_tail >= 0.0001": lambda s: s.users.tail >= 0.0001},
    ),
    tex=r"\frac1N\sum_i|\log\Phi(\Delta r_i^\star)-\log\Phi(\Delta r_i^\diamond)|\le2LL_1"
    r"\sqrt{\Sigma_{tail}/N}",
    derivation="log Phi is 1-Lipschitz, a reward L1-Lipschitz in Theta_i, twice; Jensen's "
    "inequality and ||Delta Theta* - Theta_diamond||_F^2 = Sigma_tail.",
)
def lemma_7_corrected(users: Any, psi: Any, init: Any, R: Any) -> rc.Sides:
    """(1/N) sum_i |log Phi(r*_i(tau0) - r*_i(tau1)) - log Phi(r_diamond,i(tau0) -
    r_diamond,i(tau1))| <= 2 L L1 sqrt(Sigma_tail/N), L = 1 for the sigmoid.
    """
    return at.lemma_4(users, psi, init, R)
