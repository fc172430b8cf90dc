"""Appendix C.5 of AffPCL: noise alignment, bounds and examples of nu."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import chain_space, of_one_type
from experiments.affpcl.claims._spaces import SYSTEMS, monotone
from experiments.affpcl.theory import alignment, bellman
from linsys.linalg import operator_norm

C5_BOUNDS = rc.Claim(
    id="affpcl.c5_bounds",
    source="AffPCL, Appendix C.5, equation (14)",
    text="||Dbar^i|| <= G_A; lambda_min(sym Abar^i) <= sigma_min(Abar^i); nu^i <= G_A / lambda^i.",
    latex=r"\|\bar D\|\le G_A,\quad\sigma_{\min}(\bar A)\ge\lambda_{\min}({\rm sym}\,\bar A),\quad"
    r"\nu\le G_A/\lambda",
    kind="upper",
    space=SYSTEMS,
    measure=alignment.crude_bounds,
)

# Example 3. The only number is eps, and every one in (0, 2 pi) is an instance; nothing to repair.
ANGLES = rc.Space(fields={"eps": rc.positive(low=0.01, high=6.0)}, repair=of_one_type, batched=True)

EX3 = rc.Claim(
    id="affpcl.ex3",
    source="AffPCL, Example 3",
    text="A(s) the rotation by s, s uniform on [0, 2 pi - eps]: sigma_min(Abar) = 2 sin(eps / 2).",
    latex=r"\sigma_{\min}(\bar A)=2\sin\frac\epsilon2",
    kind="identity",
    space=ANGLES,
    measure=lambda s: alignment.example_3(s.eps),
    expect="violated",
    note="Abar is printed as an integral over s without the density 1 / (2 pi - eps). With it "
    "sigma_min(Abar) = 2 sin(eps/2) / (2 pi - eps), 0.0162 instead of 0.1 at eps = 0.1, and nu is "
    "larger, 61.8 instead of 10. Besides, sym(Abar) = -sin(eps) I / (2 pi - eps) is negative for "
    "eps < pi: the example lies outside of the paper's own assumption sym(Abar) > 0. That nu is "
    "unbounded survives, also under the assumption. No effect on the theorems.",
    corrected="affpcl.ex3_corrected",
)
EX3_INTEGRAL = rc.Claim(
    id="affpcl.ex3_integral",
    source="AffPCL, Example 3",
    text="The integral of the rotations by s over [0, 2 pi - eps] is the printed matrix.",
    latex=r"\int_0^{2\pi-\epsilon}U(s)\,ds=2\sin\frac\epsilon2"
    r"\begin{pmatrix}-\cos\frac\epsilon2&-\sin\frac\epsilon2\\"
    r"\sin\frac\epsilon2&-\cos\frac\epsilon2\end{pmatrix}",
    kind="identity",
    space=ANGLES,
    measure=lambda s: alignment.example_3_integral(s.eps),
)
EX3_CORRECTED = rc.Claim(
    id="affpcl.ex3_corrected",
    source="AffPCL, Example 3, corrected",
    text="A(s) the rotation by s, s uniform on [-pi + eps/2, pi - eps/2]: lambda = "
    "sigma_min(Abar) = 1 / nu = 2 sin(eps/2) / (2 pi - eps).",
    latex=r"\lambda=\sigma_{\min}(\bar A)=\nu^{-1}=\frac{2\sin(\epsilon/2)}{2\pi-\epsilon}",
    kind="identity",
    space=ANGLES,
    measure=lambda s: alignment.example_3_corrected(s.eps),
    derivation="The mean of cos over the interval is 2 sin(pi - eps/2) / (2 pi - eps), that of "
    "sin vanishes, so Abar is a positive multiple of I; A(s) is orthogonal, hence D(s) = I. For "
    "the printed interval Abar is the same times a rotation, so that sigma_min and nu are the "
    "same.",
)

# Examples 4 and 5. D(s) = M(s)^T M(s) + floor I is positive definite, and U a product of k
# reflections. In up to three dimensions three or four of them give every orthogonal matrix.
ORIENTED = {
    "mu": rc.simplex("S"),
    "roots": rc.reals("S", "d", "d", magnitude=(0.01, 10.0)),
    "floor": rc.positive(low=0.001, high=0.5),
}
_ORIENTED = {
    "roots": "M(s) in D(s) = M(s)^T M(s) + floor I",
    "floor": "the multiple of I in D(s)",
}
EX4 = rc.Claim(
    id="affpcl.ex4",
    source="AffPCL, Example 4",
    text="A(s) = U D(s) with U orthogonal and D(s) positive semidefinite: nu = 1.",
    latex=r"A(s)=UD(s)\;\Rightarrow\;\nu=1",
    kind="identity",
    space=rc.Space(
        fields={**ORIENTED, "axes": rc.sphere("k", "d")},
        sizes={"S": (1, 4), "d": (1, 3), "k": (1, 4)},
        view=alignment.oriented,
        batched=True,
        meaning={**_ORIENTED, "axes": "unit vectors; U is the product of the reflections at them"},
    ),
    measure=alignment.aligned,
)
EX5 = rc.Claim(
    id="affpcl.ex5",
    source="AffPCL, Example 5",
    text="A(s) symmetric positive semidefinite, Abar invertible: nu = 1.",
    latex=r"A(s)\succeq0\;\Rightarrow\;\nu=1",
    kind="identity",
    space=rc.Space(
        fields=ORIENTED,
        sizes={"S": (1, 4), "d": (1, 3)},
        view=alignment.oriented,
        batched=True,
        meaning=_ORIENTED,
    ),
    measure=alignment.aligned,
)

# Example 6. Chains in their stationary law, so that phi and psi have one distribution.
_UNIT = chain_space(1, unit=True, view=bellman.embeddings)
_DIRECTION = {"x": rc.sphere("d")}
_UNIT_FORMS = chain_space(1, _DIRECTION, unit=True, view=bellman.embeddings)

EX6 = rc.Claim(
    id="affpcl.ex6",
    source="AffPCL, Example 6",
    text="A = (phi - gamma psi) phi^T, ||phi|| = ||psi|| = 1, phi and psi equal in distribution: "
    "nu <= (1 + gamma) / (1 - gamma).",
    latex=r"A=(\phi-\gamma\psi)\phi^\top,\ \|\phi\|=\|\psi\|=1,\ \phi\overset{d}=\psi"
    r"\;\Rightarrow\;\nu\le\frac{1+\gamma}{1-\gamma}",
    kind="upper",
    space=_UNIT,
    measure=bellman.condition_stated,
    expect="violated",
    note="The last step: Dbar <= c sym(Abar) does not give ||Dbar Abar^{-1}|| <= c: the order of "
    "symmetric matrices says nothing on the norm of a product that is not symmetric. On the cycle "
    "1 -> 2 -> 3 -> 1 with gamma = 0.9 and features (-1, -2, 0), (1, 1, 0), (0, 0, 1), "
    "normalised, nu = 30.7 > 19; with (-4, 1, 3), (1, -2, -3), (-4, -3, -2), which are nearly "
    "dependent, nu is 46 times the bound. No counterexample was found in dimension 2. Lemma D.2, "
    "the only place where nu enters, holds with (1 + gamma) / (1 - gamma) nevertheless "
    "(affpcl.rem2_unit).",
    corrected="affpcl.ex6_corrected",
)
EX6_STRETCH = rc.Claim(
    id="affpcl.ex6_stretch",
    source="AffPCL, Example 6, proof",
    text="E D <= (1 + gamma) E phi phi^T as quadratic forms, where ||phi|| = 1.",
    latex=r"\bar D\preceq(1+\gamma)\,\mathbb{E}\,\phi\phi^\top",
    kind="upper",
    space=_UNIT_FORMS,
    measure=bellman.stretch_form,
)
EX6_MEAN = rc.Claim(
    id="affpcl.ex6_mean",
    source="AffPCL, Example 6, proof",
    text="sym(Abar) >= (1 - gamma) E phi phi^T as quadratic forms.",
    latex=r"{\rm sym}\,\bar A\succeq(1-\gamma)\,\mathbb{E}\,\phi\phi^\top",
    kind="lower",
    space=_UNIT_FORMS,
    measure=bellman.mean_form,
)
EX6_CORRECTED = rc.Claim(
    id="affpcl.ex6_corrected",
    source="AffPCL, Example 6, corrected",
    text="A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1, phi and psi equal in distribution: "
    "nu <= (1 + gamma) / sqrt((1 - gamma) lambda) <= (1 + gamma) / ((1 - gamma) sqrt(w)).",
    latex=r"\nu\le\frac{1+\gamma}{\sqrt{(1-\gamma)\lambda}}\le\frac{1+\gamma}{(1-\gamma)\sqrt w},"
    r"\quad w=\lambda_{\min}(\mathbb{E}\,\phi\phi^\top)",
    kind="upper",
    space=chain_space(1, view=bellman.embeddings),
    measure=lambda s: bellman.condition(s, bellman.moment_factor_embedded(s)),
    derivation="E A^T A = E ||phi - gamma psi||^2 phi phi^T <= (1 + gamma)^2 E phi phi^T <= K "
    "sym(Abar) with K = (1 + gamma)^2 / (1 - gamma). By Jensen ||Dbar x||^2 <= E ||A x||^2 <= K "
    "x^T Abar x <= K ||x|| ||Abar x||, and ||x|| <= ||Abar x|| / lambda; so ||Dbar x||^2 <= (K / "
    "lambda) ||Abar x||^2. Finally lambda >= (1 - gamma) w.",
)

# Remark 2: heterogeneous agents, features of any length up to one, rewards phi^T theta^i.
_REWARDS = {"theta": rc.reals("n", "d")}
_AGENTS = {"n": (2, 3), "O": (3, 3), "d": (1, 3)}

# The environment is fixed but for two numbers, and G_A is far below 1 + gamma.
_SLOW = rc.Space(
    fields={"gamma": rc.interval(low=0.9, high=0.999), "width": rc.positive(low=1.0, high=100.0)},
    repair=of_one_type,
    view=bellman.slow_returns,
    assumes={"sym(Abar^i) > 0": lambda s: s.lambda_agent > 0},
    batched=True,
    meaning={"width": "steps in which the second feature falls off by a factor e"},
)

REM2 = rc.Claim(
    id="affpcl.rem2",
    source="AffPCL, Remark 2",
    text="A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1: E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= "
    "2 sigma^2 min{1, (1 + gamma) / (1 - gamma) delta_cen^i}, sigma = 2 max{G_A G_x, G_b}.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\}",
    kind="upper",
    space=_SLOW,
    measure=lambda s: bellman.effective_affinity(s, bellman.discount_ratio(s), s.sigma),
    expect="violated",
    note="The paper gives no proof. A step from a short to a long feature is large and yet has a "
    "small ||A(s)|| = ||phi - gamma psi|| ||phi||, so that G_A, and sigma with it, may be of "
    "order 1 - gamma. Features (u, f), f small and of the same sign: the chain waits at u = 0, "
    "jumps to u = +-1 by a fair coin, and u comes back in 128 steps with u (u - gamma u') = G_A, "
    "while f falls off exponentially on both sides of the jump "
    "(``slow_returns`` of affpcl.theory.bellman). With gamma = 0.997, width 14, theta^1 = e_2 and "
    "theta = -e_2 for three others the left is 1.25 times the bound; with more steps the factor "
    "grows like (1 - gamma)^{-1/2}. It takes hundreds of states: on chains of three no violation "
    "was found. With Appendix C.6's sigma, where 1 + gamma stands for G_A, or with ||phi|| = 1, "
    "the remark is right.",
    corrected="affpcl.rem2_corrected",
)
REM2_CORRECTED = rc.Claim(
    id="affpcl.rem2_corrected",
    source="AffPCL, Remark 2 with sigma of Appendix C.6",
    text="A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1: E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= "
    "2 sigma^2 min{1, (1 + gamma) / (1 - gamma) delta_cen^i}, sigma = 2 max{(1 + gamma) G_x, G_b}.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\},\ \sigma=2\max\{(1+\gamma)G_x,G_b\}",
    kind="upper",
    space=chain_space("n", _REWARDS, view=bellman.embeddings, sizes=_AGENTS),
    measure=lambda s: bellman.effective_affinity(
        s, bellman.discount_ratio(s), bellman.discounted_sigma(s)
    ),
    derivation="E A^T A <= K sym(Abar^i) with K = (1 + gamma)^2 / (1 - gamma), as in "
    "affpcl.ex6_corrected. With Delta = x_*^i - x_*^c the left is at most K Delta^T Abar^i Delta "
    "<= K ||Delta|| ||Abar^i Delta|| <= K 2 G_x 2 sigma delta_cen^i by Lemma D.1(i), and 2 (1 + "
    "gamma) G_x <= sigma. Besides ||A(s) Delta|| <= G_A 2 G_x <= sigma.",
)
REM2_UNIT = rc.Claim(
    id="affpcl.rem2_unit",
    source="AffPCL, Remark 2 for Example 6",
    text="As affpcl.rem2 where ||phi|| = ||psi|| = 1, with sigma = 2 max{G_A G_x, G_b}.",
    latex=r"\|\phi\|=\|\psi\|=1:\ \mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\}",
    kind="upper",
    space=chain_space("n", _REWARDS, unit=True, view=bellman.embeddings, sizes=_AGENTS),
    measure=lambda s: bellman.effective_affinity(s, bellman.discount_ratio(s), s.sigma),
    derivation="Now ||A(s)|| = ||phi - gamma psi||, so E A^T A <= G_A^2 / (1 - gamma) sym(Abar^i); "
    "as before the left is at most G_A^2 / (1 - gamma) 2 G_x 2 sigma delta_cen^i, and G_A 2 G_x <= "
    "sigma, G_A <= 1 + gamma.",
)
REM2_TD = rc.Claim(
    id="affpcl.rem2_td",
    source="AffPCL, Remark 2, stronger for Appendix C.6",
    text="A = phi (phi - gamma psi)^T, ||phi|| <= 1, sigma = 2 max{(1 + gamma) G_x, G_b}: "
    "E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= 2 sigma^2 delta_cen^i. One in the place of nu.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\delta_{\rm cen}^i",
    kind="upper",
    space=chain_space("n", _REWARDS, sizes=_AGENTS),
    measure=lambda s: bellman.effective_affinity(
        s, 1 + 0 * bellman.discount_ratio(s), bellman.discounted_sigma(s)
    ),
    derivation="E A^T A <= (1 + gamma) sym(Abar) (affpcl.c6_moment), so the left is at most (1 + "
    "gamma) ||Delta|| ||Abar^i Delta|| <= (1 + gamma) 2 G_x 2 sigma delta_cen^i by Lemma D.1(i), "
    "and 2 (1 + gamma) G_x <= sigma. So the rate of Appendix C.6 improves from (1 - gamma)^{-3} "
    "to (1 - gamma)^{-2}.",
)


def _centred(fields: rc.Fields) -> rc.Fields:
    """Subtract the mean of U, divide by its norm where that exceeds one; lift sym(Abar)."""
    fields = of_one_type(fields)
    mu, U, A_bar = fields["mu"], fields["U"], fields["A_bar"]
    U = U - (mu[..., None, None] * U).sum(axis=1, keepdims=True)
    scale = np.maximum(operator_norm(U).max(axis=1), 1)[:, None, None, None]
    lifted = monotone(A_bar[:, None], np.ones((len(mu), 1, 1), dtype=int), fields["floor"])
    return {**fields, "U": U / scale, "A_bar": lifted[:, 0]}


def _noisy(*, floor: Any, **arrays: Any) -> Any:
    return alignment.multiplicative(**arrays)


_NOISE = rc.Space(
    fields={
        "mu": rc.simplex("S"),
        "U": rc.contraction("S", "d", "d"),
        "A_bar": rc.reals("d", "d"),
        "eps": rc.positive(low=0.01, high=3.0),
        "floor": rc.positive(low=0.001, high=0.5),
    },
    sizes={"S": (1, 4), "d": (1, 3)},
    repair=_centred,
    view=_noisy,
    batched=True,
    meaning={
        "U": "U(s) / eps",
        "A_bar": "Abar",
        "floor": "the least eigenvalue that sym(Abar) was given, without effect beyond Abar",
    },
)
EX7 = rc.Claim(
    id="affpcl.ex7",
    source="AffPCL, Example 7",
    text="A(s) = (I + U(s)) Abar, E U = 0, ||U(s)|| <= eps: nu <= 1 + eps.",
    latex=r"A(s)=(I+U(s))\bar A,\ \mathbb{E}U=0,\ \|U\|\le\epsilon\;\Rightarrow\;\nu\le1+\epsilon",
    kind="upper",
    space=_NOISE,
    measure=alignment.example_7,
    note="Loose: the mean zero of U is not used. affpcl.ex7_sharp is attained.",
)
EX7_SHARP = rc.Claim(
    id="affpcl.ex7_sharp",
    source="AffPCL, Example 7, sharpened",
    text="A(s) = (I + U(s)) Abar, E U = 0, ||U(s)|| <= eps: nu <= sqrt(1 + eps^2).",
    latex=r"\nu\le\sqrt{1+\epsilon^2}",
    kind="upper",
    space=_NOISE,
    measure=alignment.example_7_sharp,
    derivation="||Dbar Abar^{-1} x||^2 <= E ||A Abar^{-1} x||^2 = E ||x + U x||^2 = ||x||^2 + E "
    "||U x||^2 <= (1 + eps^2) ||x||^2. Equality for U = +-eps J, J the quarter turn.",
)
