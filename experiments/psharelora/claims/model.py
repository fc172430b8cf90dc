"""P-ShareLoRA, Section 3, Assumption 1, Lemmas 4 and 7: preferences and rewards."""

from __future__ import annotations

from dataclasses import replace

import ratecheck as rc
from experiments.psharelora.claims._spaces import TRAJECTORIES, users
from experiments.psharelora.claims.subspace import RANGE
from experiments.psharelora.theory import preference as at

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


MODEL_PHI = rc.Claim(
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
MODEL_PHI_CORRECTED = rc.Claim(
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
MODEL_PHI_ANY = rc.Claim(
    id="psl.model_phi_any",
    source="P-ShareLoRA, Section 3: no link has a convex logarithm",
    text="(log Phi(x) + log Phi(-x))/2 <= log Phi(0) for every Phi with Phi(x) + Phi(-x) = 1.",
    latex=r"\tfrac12(\log\Phi(x)+\log\Phi(-x))\le\log\Phi(0)",
    kind="upper",
    space=rc.Space(
        fields={"p": rc.interval(low=0.001, high=0.999)}, batched=True, meaning={"p": "Phi(x)"}
    ),
    measure=lambda s: at.any_link(s.p),
    derivation="p (1 - p) <= 1/4: equality for Phi(x) = 1/2 only.",
)
MODEL_PHI_SYMMETRIC = rc.Claim(
    id="psl.model_phi_symmetric",
    source="P-ShareLoRA, Section 3: the link Phi",
    text="Phi(x) = 1 - Phi(-x) for the logistic Phi.",
    latex=r"\Phi(x)=1-\Phi(-x)",
    kind="identity",
    space=TWO,
    measure=lambda s: (at.logistic(s.x), 1 - at.logistic(-s.x)),
)
MODEL_PHI_LIPSCHITZ = rc.Claim(
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
ASSUMPTION_1 = rc.Claim(
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
ASSUMPTION_1_LAPLACIAN = rc.Claim(
    id="psl.assumption_1_laplacian",
    source="P-ShareLoRA, Section 3, below Assumption 1: 'the Laplacian'",
    text="|Laplacian| <= L2 bounds the Hessian's norm by L2.",
    latex=r"\|\nabla^2r\|\le|\Delta r|",
    kind="upper",
    space=rc.Space(fields={"H": rc.reals("d", "d")}, sizes={"d": (1, 3)}, batched=True),
    measure=lambda s: at.laplacian(s.H),
    expect="violated",
    note="The proofs expand to second order and need the matrix of second derivatives. A harmonic "
    "reward, theta_1^2 - theta_2^2, has no Laplacian and a Hessian of norm 2. Read as the norm of "
    "the Hessian the assumption is what is used: psl.assumption_1.",
    corrected="psl.assumption_1",
)
LEMMA_4 = rc.Claim(
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
LEMMA_7 = rc.Claim(
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
