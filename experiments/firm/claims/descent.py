"""FIRM, Section 4 and Appendix F: the descent lemma and its error terms, (5) to (15) and (26)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import rounds
from experiments.firm.theory import descent as at
from experiments.firm.theory.descent import Round

ANY = rounds()
AVERAGED = rounds(averaged=True)


def _synchronised(*, steps: Any, h: Any, o: Any, lam: Any, L: Any, R: Any, a: Any) -> Any:
    """Clients that set out from one point and make K steps a g, ||g|| <= R."""
    count, clients, K, d = steps.shape
    M = h.shape[1]
    theta = (steps * (a * R)[:, None, None, None]).sum(axis=2)
    g = np.zeros((count, clients, M, d), dtype=int) + 0 * lam[:, None, :, None]
    step = Round(b=0 * h, h=h * L[:, None, None], o=o, theta=theta, g=g, lam=g[..., 0], common=lam)
    return SimpleNamespace(step=step, a=a, L=L, R=R, K=K)


SYNCHRONISED = rc.Space(
    fields={
        "steps": rc.ball("C", "K", "d"),
        "h": rc.interval("M", "d", low=-1.0, high=1.0),
        "o": rc.reals("M", "d", magnitude=(0.1, 10.0)),
        "lam": rc.simplex("M"),
        "L": rc.positive(low=0.1, high=10.0),
        "R": rc.positive(low=0.1, high=10.0),
        "a": rc.positive(low=0.01, high=1.0),
    },
    sizes={"C": (1, 3), "K": (1, 3), "M": (1, 2), "d": (1, 2)},
    view=_synchronised,
    batched=True,
    meaning={
        "steps": "the clients' K gradients over R",
        "h": "J^j(theta) is the sum over coordinates of (L/2) h (theta - o)|theta - o|",
        "o": "see h",
        "lam": "lambda_t",
        "L": "L_J",
        "a": "the step size",
    },
)

# One step of the averaged policy.

EQ12 = rc.Claim(
    id="firm.eq12",
    source="FIRM, equation (12)",
    text="lambda_t'J(thetabar + a gbar) >= lambda_t'J(thetabar) + (a/2)||grad J lambda_t||^2 + "
    "(a (1 - a L_J)/2)||gbar||^2 - (a/2) T_1, for any a > 0.",
    latex=r"\lambda_t^\top J(\bar\theta_{t+1})\ge\lambda_t^\top J(\bar\theta_t)+\frac a2"
    r"\|\nabla J\lambda_t\|^2+\frac{a(1-aL_J)}2\|\bar g_t\|^2-\frac a2\mathcal T_1",
    kind="lower",
    space=rounds(longest=3.0),
    measure=lambda s: at.eq12(s.step, s.a, s.L),
)
EQ5 = rc.Claim(
    id="firm.eq5",
    source="FIRM, equation (5)",
    text="lambda_t'J(thetabar + a gbar) >= lambda_t'J(thetabar) + (a/2)||grad J lambda_t||^2 - "
    "(a/2)||gbar - grad J lambda_t||^2 for 0 < a <= 1/L_J.",
    latex=r"\lambda_t^\top J(\bar\theta_{t+1})\ge\lambda_t^\top J(\bar\theta_t)+\frac a2"
    r"\|\nabla J\lambda_t\|^2-\frac a2\|\bar g_t-\nabla J\lambda_t\|^2",
    kind="lower",
    space=ANY,
    measure=lambda s: at.eq5(s.step, s.a, s.L),
)
EQ6 = rc.Claim(
    id="firm.eq6",
    source="FIRM, equation (6)",
    text="T_1 <= 2||(1/C) sum (g^c - grad J(theta^c) lambda_t^c)||^2 + 2||(1/C) sum (grad "
    "J(theta^c) - grad J(thetabar)) lambda_t||^2, lambda_t the clients' average.",
    latex=r"\mathcal T_1\le2\Big\|\frac1C\sum_c(g^c-\nabla J(\theta^c)\lambda_t^c)\Big\|^2+2"
    r"\Big\|\frac1C\sum_c(\nabla J(\theta^c)-\nabla J(\bar\theta))\lambda_t\Big\|^2",
    kind="upper",
    space=AVERAGED,
    measure=lambda s: at.eq6(s.step),
    expect="violated",
    note="With lambda_t^c in the first term the two differences do not add up to gbar - grad "
    "J(thetabar) lambda_t: (1/C) sum grad J(theta^c)(lambda_t^c - lambda_t) is missing, which is "
    "the disagreement that (7) then wants to split off. Exact gradients, J^1 quadratic with slope "
    "theta, J^2 = 0, theta = +-1, lambda^c = (1, 0) and (0, 1): T_1 = 1/4, both terms are 0. "
    "Appendix F has lambda_t in (13); then the factor 2 is right.",
    corrected="firm.eq6_corrected",
)
EQ6_CORRECTED = rc.Claim(
    id="firm.eq6_corrected",
    source="FIRM, equations (6) and (13), corrected",
    text="T_1 <= 2 T_{1,1} + 2 T_{1,2} with lambda_t in both terms, any lambda_t.",
    latex=r"\mathcal T_1\le2\mathcal T_{1,1}+2\mathcal T_{1,2}",
    kind="upper",
    space=ANY,
    measure=lambda s: at.eq13(s.step, 2),
    derivation="gbar - grad J(thetabar) lambda_t is the sum of the two differences, and ||x + "
    "y||^2 <= 2||x||^2 + 2||y||^2, with equality for x = y.",
)
EQ13 = rc.Claim(
    id="firm.eq13",
    source="FIRM, equation (13)",
    text="T_1 <= T_{1,1} + T_{1,2}.",
    latex=r"\mathcal T_1\le\mathcal T_{1,1}+\mathcal T_{1,2}",
    kind="upper",
    space=ANY,
    measure=lambda s: at.eq13(s.step),
    expect="violated",
    note="The triangle inequality holds for norms, these are squares: x = y has ||x + y||^2 = 4 "
    "against 2. (6) has the factor 2. (27), Q_t in (33) and every constant of (35) need it; the "
    "rates do not change.",
    corrected="firm.eq6_corrected",
)
EQ14 = rc.Claim(
    id="firm.eq14",
    source="FIRM, equation (14)",
    text="T_{1,1} <= ||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j(theta^c))||^2 + ||(1/C) "
    "sum_c sum_j g^{j,c} (lambda_t^{j,c} - lambda_t^j)||^2.",
    latex=r"\mathcal T_{1,1}\le\mathcal T_{1,1}^{\rm gradient-error}+"
    r"\mathcal T_{1,1}^{\rm disagr-drift}",
    kind="upper",
    space=ANY,
    measure=lambda s: at.eq14(s.step),
    expect="violated",
    note="As in (13): 'applying the triangle inequality' to squares loses the factor 2. C = M = 1 "
    "has no disagreement; two clients with a pair of equal terms reach 2. With (13) the drift of "
    "(24) enters (27) with a factor 4.",
    corrected="firm.eq14_corrected",
)
EQ14_CORRECTED = rc.Claim(
    id="firm.eq14_corrected",
    source="FIRM, equation (14), corrected",
    text="T_{1,1} <= 2 (gradient error + disagreement drift).",
    latex=r"\mathcal T_{1,1}\le2\mathcal T_{1,1}^{\rm gradient-error}+2"
    r"\mathcal T_{1,1}^{\rm disagr-drift}",
    kind="upper",
    space=ANY,
    measure=lambda s: at.eq14(s.step, 2),
    derivation="Subtract and add (1/C) sum_c sum_j lambda_t^j g^{j,c}; ||x + y||^2 <= 2||x||^2 + "
    "2||y||^2.",
)
EQ7 = replace(
    EQ14,
    id="firm.eq7",
    source="FIRM, equation (7)",
    text="The same with the clients' average lambdabar_t in the place of lambda_t.",
    space=AVERAGED,
    note="The factor 2 is missing, as in (14).",
    corrected="firm.eq7_corrected",
)
EQ7_CORRECTED = replace(
    EQ14_CORRECTED,
    id="firm.eq7_corrected",
    source="FIRM, equation (7), corrected",
    text="The same with the clients' average lambdabar_t in the place of lambda_t.",
    space=AVERAGED,
)
EQ15 = rc.Claim(
    id="firm.eq15",
    source="FIRM, equation (15)",
    text="||x + y + z||^2 <= 3 (||x||^2 + ||y||^2 + ||z||^2).",
    latex=r"\|x+y+z\|^2\le3(\|x\|^2+\|y\|^2+\|z\|^2)",
    kind="upper",
    space=rc.Space(fields={"parts": rc.reals(3, "d")}, sizes={"d": (1, 3)}, batched=True),
    measure=lambda s: at.eq15(s.parts),
)
EQ26 = rc.Claim(
    id="firm.eq26",
    source="FIRM, equation (26)",
    text="T_{1,2} <= 4 L_J^2 R^2 a^2 K^2, K steps after the clients had one policy.",
    latex=r"\mathcal T_{1,2}\le4L_J^2R^2a^2K^2",
    kind="upper",
    space=SYNCHRONISED,
    measure=lambda s: at.eq26(s.step, s.a, s.L, s.R, s.K),
    note="Four times what is needed. (27) repeats the term with L_J in the place of L_J^2.",
)
EQ26_SHARPER = rc.Claim(
    id="firm.eq26_sharper",
    source="FIRM, equation (26), sharpened",
    text="T_{1,2} <= L_J^2 R^2 a^2 K^2.",
    latex=r"\mathcal T_{1,2}\le L_J^2R^2a^2K^2",
    kind="upper",
    space=SYNCHRONISED,
    measure=lambda s: at.eq26(s.step, s.a, s.L, s.R, s.K, 1),
    derivation="T_{1,2} <= L_J^2 (1/C) sum ||theta^c - thetabar||^2, a variance, hence at most "
    "L_J^2 (1/C) sum ||theta^c - theta_{t_0}||^2 <= L_J^2 (a R K)^2. Attained: J' = L |theta| and "
    "two clients that walk apart.",
)
