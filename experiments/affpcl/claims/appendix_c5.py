"""Appendix C.5 of AffPCL: noise alignment, bounds and examples of nu."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import chain_space, of_one_type
from experiments.affpcl.claims._spaces import SYSTEMS, monotone
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import alignment, bellman
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import inverse, lambda_min, operator_norm, stretch


def turn(angle: rc.Numbers) -> rc.Numbers:
    """Rotations of the plane, shape (B, 2, 2) for angles (B,)."""
    return alignment.rotation(np.cos(angle), np.sin(angle))


def full_turn(eps: rc.Numbers) -> rc.Numbers:
    """2 pi - eps, in the arithmetic of ``eps``."""
    return np.asarray(8 * np.arctan(1 + 0 * eps) - eps)


@PAPER.upper(
    "c5_bounds",
    ref="Appendix C.5, equation (14)",
    tex=r"\|\bar D\|\le G_A,\quad\sigma_{\min}(\bar A)\ge\lambda_{\min}({\rm sym}\,\bar A),\quad"
    r"\nu\le G_A/\lambda",
    on=SYSTEMS,
    note="After (14) the paper prints lambda >= lambda_min(sym Abar). As lambda is the least over "
    "the agents, it is <=, which the last step to sigma/lambda needs.",
)
def c5_bounds(stack: FiniteStack) -> rc.Sides:
    """||Dbar^i|| <= G_A; lambda_min(sym Abar^i) <= sigma_min(Abar^i); nu^i <= G_A / lambda^i."""
    D_bar = stack.mean(stretch(stack.A))
    smallest = 1 / operator_norm(inverse(stack.A_bar))
    G_A = stack.G_A[:, None] + 0 * smallest
    measured = operator_norm(D_bar), stack.lambda_agent, stack.nu_agent
    return np.stack(measured, axis=1), np.stack((G_A, smallest, G_A / stack.lambda_agent), axis=1)


# Example 3. The only number is eps, and every one in (0, 2 pi) is an instance; nothing to repair.
ANGLES = rc.Space(
    fields={"eps": rc.positive(low=0.01, high=6.0)},
    repair=of_one_type,
    batched=True,
    credible={"eps": (0.1, 6.0)},
)


@PAPER.identity(
    "ex3",
    ref="Example 3",
    printed_as="misprint",
    family=[{"eps": np.array(value)} for value in (1.0, 0.5, 0.1)],
    tex=r"\sigma_{\min}(\bar A)=2\sin\frac\epsilon2",
    on=ANGLES,
    expect="violated",
    note="Abar is printed as an integral over s without the density 1 / (2 pi - eps). With it "
    "sigma_min(Abar) = 2 sin(eps/2) / (2 pi - eps), 0.0162 instead of 0.1 at eps = 0.1, and nu is "
    "larger, 61.8 instead of 10. Besides, sym(Abar) = -sin(eps) I / (2 pi - eps) is negative for "
    "eps < pi: the example lies outside of the paper's own assumption sym(Abar) > 0. That nu is "
    "unbounded survives, also under the assumption. No effect on the theorems.",
    corrected="ex3_corrected",
)
def ex3(eps: rc.Numbers) -> rc.Sides:
    """A(s) the rotation by s, s uniform on [0, 2 pi - eps]: sigma_min(Abar) = 2 sin(eps / 2)."""
    smallest = 1 / operator_norm(inverse(alignment.mean_turn(full_turn(eps))))
    return smallest, 2 * np.sin(eps / 2)


@PAPER.identity(
    "ex3_integral",
    ref="Example 3",
    tex=r"\int_0^{2\pi-\epsilon}U(s)\,ds=2\sin\frac\epsilon2"
    r"\begin{pmatrix}-\cos\frac\epsilon2&-\sin\frac\epsilon2\\"
    r"\sin\frac\epsilon2&-\cos\frac\epsilon2\end{pmatrix}",
    on=ANGLES,
)
def ex3_integral(eps: rc.Numbers) -> rc.Sides:
    """The integral of the rotations by s over [0, 2 pi - eps] is the printed matrix."""
    length = full_turn(eps)
    integral = length[:, None, None] * alignment.mean_turn(length)
    half = eps / 2
    factor, cos, sin = 2 * np.sin(half), np.cos(half), np.sin(half)
    printed = factor[:, None, None] * alignment.rotation(-cos, sin)
    return integral.reshape(-1, 4), printed.reshape(-1, 4)


@PAPER.identity(
    "ex3_corrected",
    ref="Example 3, corrected",
    tex=r"\lambda=\sigma_{\min}(\bar A)=\nu^{-1}=\frac{2\sin(\epsilon/2)}{2\pi-\epsilon}",
    on=ANGLES,
    derivation="The mean of cos over the interval is 2 sin(pi - eps/2) / (2 pi - eps), that of "
    "sin vanishes, so Abar is a positive multiple of I; A(s) is orthogonal, hence D(s) = I. For "
    "the printed interval Abar is the same times a rotation, so that sigma_min and nu are the "
    "same.",
)
def ex3_corrected(eps: rc.Numbers) -> rc.Sides:
    """A(s) the rotation by s, s uniform on [-pi + eps/2, pi - eps/2]: lambda = sigma_min(Abar) = 1
    / nu = 2 sin(eps/2) / (2 pi - eps).

    The common value is 2 sin(eps/2) / (2 pi - eps). A(s) is orthogonal, so that D(s) = I.
    """
    length = full_turn(eps)
    A_bar = turn(-length / 2) @ alignment.mean_turn(length)
    spread = operator_norm(inverse(A_bar))
    value = 2 * np.sin(eps / 2) / length
    return np.stack([lambda_min(A_bar), 1 / spread, value * spread], axis=1), np.stack(
        [value, value, 1 + 0 * value], axis=1
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


@PAPER.identity(
    "ex4",
    ref="Example 4",
    tex=r"A(s)=UD(s)\;\Rightarrow\;\nu=1",
    on=rc.Space(
        fields={**ORIENTED, "axes": rc.sphere("k", "d")},
        sizes={"S": (1, 4), "d": (1, 3), "k": (1, 4)},
        view=alignment.oriented,
        batched=True,
        meaning={**_ORIENTED, "axes": "unit vectors; U is the product of the reflections at them"},
    ),
)
def ex4(stack: FiniteStack) -> rc.Sides:
    """A(s) = U D(s) with U orthogonal and D(s) positive semidefinite: nu = 1."""
    return stack.nu_agent, 1 + 0 * stack.nu_agent


@PAPER.identity(
    "ex5",
    ref="Example 5",
    tex=r"A(s)\succeq0\;\Rightarrow\;\nu=1",
    on=rc.Space(
        fields=ORIENTED,
        sizes={"S": (1, 4), "d": (1, 3)},
        view=alignment.oriented,
        batched=True,
        meaning=_ORIENTED,
    ),
    note="D(s) = A(s), so that Dbar Abar^{-1} = I. Tried with A(s) >= floor I.",
)
def ex5(stack: FiniteStack) -> rc.Sides:
    """A(s) symmetric positive semidefinite, Abar invertible: nu = 1."""
    return ex4(stack)


# Example 6. Chains in their stationary law, so that phi and psi have one distribution.
_UNIT = chain_space(1, unit=True, view=bellman.embeddings)
_DIRECTION = {"x": rc.sphere("d")}
_UNIT_FORMS = chain_space(1, _DIRECTION, unit=True, view=bellman.embeddings)


@PAPER.upper(
    "ex6",
    ref="Example 6",
    uses=["ex6_stretch", "ex6_mean"],
    tex=r"A=(\phi-\gamma\psi)\phi^\top,\ \|\phi\|=\|\psi\|=1,\ \phi\overset{d}=\psi"
    r"\;\Rightarrow\;\nu\le\frac{1+\gamma}{1-\gamma}",
    on=_UNIT,
    expect="violated",
    note="The last step: Dbar <= c sym(Abar) does not give ||Dbar Abar^{-1}|| <= c: the order of "
    "symmetric matrices says nothing on the norm of a product that is not symmetric. On the cycle "
    "1 -> 2 -> 3 -> 1 with gamma = 0.9 and features (-1, -2, 0), (1, 1, 0), (0, 0, 1), "
    "normalised, nu = 30.7 > 19; with (-4, 1, 3), (1, -2, -3), (-4, -3, -2), which are nearly "
    "dependent, nu is 46 times the bound. No counterexample was found in dimension 2. The first "
    "half of Lemma D.2, where nu enters, holds with (1 + gamma) / (1 - gamma) nevertheless "
    "(affpcl.rem2_unit).",
    corrected="ex6_corrected",
)
def ex6(stack: FiniteStack) -> rc.Sides:
    """A = (phi - gamma psi) phi^T, ||phi|| = ||psi|| = 1, phi and psi equal in distribution: nu <=
    (1 + gamma) / (1 - gamma).
    """
    return bellman.condition_stated(stack)


@PAPER.upper(
    "ex6_stretch",
    ref="Example 6, proof",
    tex=r"\bar D\preceq(1+\gamma)\,\mathbb{E}\,\phi\phi^\top",
    on=_UNIT_FORMS,
)
def ex6_stretch(stack: FiniteStack) -> rc.Sides:
    """D = sqrt(A^T A), A = (phi - gamma psi) phi^T, ||phi|| = ||psi|| = 1: E D <= (1 + gamma) E
    phi phi^T as quadratic forms.
    """
    D_bar = stack.mean(stretch(stack.A))
    return bellman.form(D_bar, stack.x), (1 + stack.gamma)[:, None] * bellman.form(
        stack.Phi_bar, stack.x
    )


@PAPER.lower(
    "ex6_mean",
    ref="Example 6, proof",
    tex=r"{\rm sym}\,\bar A\succeq(1-\gamma)\,\mathbb{E}\,\phi\phi^\top",
    on=_UNIT_FORMS,
)
def ex6_mean(stack: FiniteStack) -> rc.Sides:
    """sym(Abar) >= (1 - gamma) E phi phi^T as quadratic forms."""
    floor = (1 - stack.gamma)[:, None] * bellman.form(stack.Phi_bar, stack.x)
    return bellman.form(stack.A_bar, stack.x), floor


@PAPER.upper(
    "ex6_corrected",
    ref="Example 6, corrected",
    tex=r"\nu\le\frac{1+\gamma}{\sqrt{(1-\gamma)\lambda}}\le\frac{1+\gamma}{(1-\gamma)\sqrt w},"
    r"\quad w=\lambda_{\min}(\mathbb{E}\,\phi\phi^\top)",
    on=chain_space(1, view=bellman.embeddings),
    derivation="E A^T A = E ||phi - gamma psi||^2 phi phi^T <= (1 + gamma)^2 E phi phi^T <= K "
    "sym(Abar) with K = (1 + gamma)^2 / (1 - gamma). By Jensen ||Dbar x||^2 <= E ||A x||^2 <= K "
    "x^T Abar x <= K ||x|| ||Abar x||, and ||x|| <= ||Abar x|| / lambda; so ||Dbar x||^2 <= (K / "
    "lambda) ||Abar x||^2. Finally lambda >= (1 - gamma) w.",
)
def ex6_corrected(instance: Any) -> rc.Sides:
    """A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1, phi and psi equal in distribution: nu <=
    (1 + gamma) / sqrt((1 - gamma) lambda) <= (1 + gamma) / ((1 - gamma) sqrt(w)), w = lambda_min(E
    phi phi^T).
    """
    return bellman.condition(instance, bellman.moment_factor_embedded(instance))


# Remark 2: heterogeneous agents, features of any length up to one, rewards phi^T theta^i.
_REWARDS = {"theta": rc.reals("n", "d")}
_AGENTS = {"n": (2, 3), "O": (3, 3), "d": (1, 3)}
#: At the centre both sides of Lemma D.2 are zero, and their ratio is one of rounding errors.
_AWAY = {"every agent is away from the centre": lambda s: (s.delta_cen >= 1e-6).all(axis=1)}

# The environment is fixed but for two numbers, and G_A is far below 1 + gamma.
_SLOW = rc.Space(
    fields={"gamma": rc.interval(low=0.9, high=0.999), "width": rc.positive(low=1.0, high=100.0)},
    repair=of_one_type,
    view=bellman.slow_returns,
    assumes={"sym(Abar^i) > 0": lambda s: s.lambda_agent > 0},
    batched=True,
    meaning={"width": "steps in which the second feature falls off by a factor e"},
    credible={"gamma": (0.9, 0.999), "width": (1.0, 100.0)},
    constructed="one chain with a slow return, fixed but for two numbers; see the note",
)


@PAPER.upper(
    "rem2",
    ref="Remark 2",
    uses=["d1i"],
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\}",
    on=_SLOW,
    expect="violated",
    reading="The remark prints no formula. Read is the first half of Lemma D.2 with Example 6's "
    "bound in the place of nu, and with sigma's own G_A; with nu itself it holds for every A.",
    reading_of="d2_A",
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
    corrected="rem2_corrected",
)
def rem2(instance: Any) -> rc.Sides:
    """A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1, phi and psi equal in distribution:
    E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, (1 + gamma) / (1 - gamma) delta_cen^i},
    sigma = 2 max{G_A G_x, G_b} with x_*^c in G_x.
    """
    return bellman.effective_affinity(instance, bellman.discount_ratio(instance), instance.sigma)


@PAPER.upper(
    "rem2_corrected",
    ref="Remark 2 with sigma of Appendix C.6",
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\},\ \sigma=2\max\{(1+\gamma)G_x,G_b\}",
    on=replace(chain_space("n", _REWARDS, view=bellman.embeddings, sizes=_AGENTS), given=_AWAY),
    uses=["ex6_corrected"],
    derivation="E A^T A <= K sym(Abar^i) with K = (1 + gamma)^2 / (1 - gamma), as in "
    "affpcl.ex6_corrected. With Delta = x_*^i - x_*^c the left is at most K Delta^T Abar^i Delta "
    "<= K ||Delta|| ||Abar^i Delta|| <= K 2 G_x 2 sigma delta_cen^i by Lemma D.1(i), and 2 (1 + "
    "gamma) G_x <= sigma. Besides ||A(s) Delta|| <= G_A 2 G_x <= sigma.",
)
def rem2_corrected(instance: Any) -> rc.Sides:
    """A = (phi - gamma psi) phi^T, ||phi||, ||psi|| <= 1, phi and psi equal in distribution under
    every mu^i: E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, (1 + gamma) / (1 - gamma)
    delta_cen^i}, sigma = 2 max{(1 + gamma) G_x, G_b} with x_*^c in G_x.
    """
    return bellman.effective_affinity(
        instance, bellman.discount_ratio(instance), bellman.discounted_sigma(instance)
    )


@PAPER.upper(
    "rem2_unit",
    ref="Remark 2 for Example 6",
    printed_as="ours",
    tex=r"\|\phi\|=\|\psi\|=1,\ \phi\overset{d}=\psi:\ "
    r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,"
    r"\tfrac{1+\gamma}{1-\gamma}\delta_{\rm cen}^i\}",
    on=chain_space("n", _REWARDS, unit=True, view=bellman.embeddings, sizes=_AGENTS),
    derivation="Now ||A(s)|| = ||phi - gamma psi||, so E A^T A <= G_A^2 / (1 - gamma) sym(Abar^i); "
    "as before the left is at most G_A^2 / (1 - gamma) 2 G_x 2 sigma delta_cen^i, and G_A 2 G_x <= "
    "sigma, G_A <= 1 + gamma.",
)
def rem2_unit(instance: Any) -> rc.Sides:
    """A = (phi - gamma psi) phi^T, ||phi|| = ||psi|| = 1, phi and psi equal in distribution:
    E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, (1 + gamma) / (1 - gamma) delta_cen^i},
    sigma = 2 max{G_A G_x, G_b} with x_*^c in G_x.
    """
    return bellman.effective_affinity(instance, bellman.discount_ratio(instance), instance.sigma)


@PAPER.upper(
    "rem2_td",
    ref="Remark 2, stronger for Appendix C.6",
    printed_as="ours",
    tex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\delta_{\rm cen}^i",
    on=replace(chain_space("n", _REWARDS, sizes=_AGENTS), given=_AWAY),
    uses=["c6_moment"],
    derivation="E A^T A <= (1 + gamma) sym(Abar) (affpcl.c6_moment), so the left is at most (1 + "
    "gamma) ||Delta|| ||Abar^i Delta|| <= (1 + gamma) 2 G_x 2 sigma delta_cen^i by Lemma D.1(i), "
    "and 2 (1 + gamma) G_x <= sigma. So for rewards that are linear in phi the rate of Appendix "
    "C.6 improves from (1 - gamma)^{-3} to (1 - gamma)^{-2} (affpcl.c6_rate_linear); for others "
    "see affpcl.c6_rate.",
)
def rem2_td(instance: Any) -> rc.Sides:
    """A = phi (phi - gamma psi)^T with psi the feature of the next state in the stationary law, so
    that psi has the law of phi, ||phi|| <= 1, sigma = 2 max{(1 + gamma) G_x, G_b} with x_*^c in
    G_x: E_{mu^i} ||A (x_*^i - x_*^c)||^2 <= 2 sigma^2 delta_cen^i. One in the place of nu.
    """
    return bellman.effective_affinity(
        instance, 1 + 0 * bellman.discount_ratio(instance), bellman.discounted_sigma(instance)
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


@PAPER.upper(
    "ex7",
    ref="Example 7",
    tex=r"A(s)=(I+U(s))\bar A,\ \mathbb{E}U=0,\ \|U\|\le\epsilon\;\Rightarrow\;\nu\le1+\epsilon",
    on=_NOISE,
    note="Loose: the mean zero of U is not used. affpcl.ex7_sharp is attained.",
)
def ex7(stack: FiniteStack) -> rc.Sides:
    """A(s) = (I + U(s)) Abar, E U = 0, ||U(s)|| <= eps: nu <= 1 + eps."""
    return stack.nu_agent, 1 + stack.eps[:, None]


@PAPER.upper(
    "ex7_sharp",
    ref="Example 7, sharpened",
    tex=r"\nu\le\sqrt{1+\epsilon^2}",
    on=_NOISE,
    derivation="||Dbar Abar^{-1} x||^2 <= E ||A Abar^{-1} x||^2 = E ||x + U x||^2 = ||x||^2 + E "
    "||U x||^2 <= (1 + eps^2) ||x||^2. Equality for U = +-eps J, J the quarter turn.",
    sharpens="ex7",
)
def ex7_sharp(stack: FiniteStack) -> rc.Sides:
    """A(s) = (I + U(s)) Abar, E U = 0, ||U(s)|| <= eps: nu <= sqrt(1 + eps^2).

    ||E D Abar^{-1} x||^2 <= E ||A Abar^{-1} x||^2 = E ||x + eps U x||^2, and E U = 0 makes that
    ||x||^2 + E ||eps U x||^2. Attained by U = +-J, J the quarter turn of the plane.
    """
    return stack.nu_agent, np.sqrt(1 + stack.eps**2)[:, None]
