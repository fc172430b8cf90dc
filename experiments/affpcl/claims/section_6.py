"""AffPCL, Section 6 and Appendix G.1: condition numbers, central affinity, Theorem 1's forms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, monotone, standing
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import constants as at
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import transpose


def _squares(*, A: Any, mu: Any, floor: Any, **others: Any) -> FiniteStack:
    """A system with A(s) = M(s)'M(s), lifted where the means are not positive definite."""
    return FiniteStack(A=monotone(transpose(A) @ A, mu, floor), mu=mu, floor=floor, **others)


def _bent(fields: rc.Fields) -> rc.Fields:
    """The standing assumptions, with sym A(s) > 0 at every state."""
    each = np.eye(fields["A"].shape[1], dtype=int) + 0 * fields["mu"][:, :1]
    return {**standing(fields), "A": monotone(fields["A"], each, fields["floor"])}


def _only_objectives(fields: rc.Fields) -> rc.Fields:
    """The standing assumptions on Phi; A stays."""
    return {**standing(fields), "A": fields["A"]}


def one_dimension(size: float) -> dict[str, np.ndarray]:
    """Two agents with A = Phi = 1 and theta = size and -size."""
    one = np.ones((1, 1, 1))
    theta = np.array([[size], [-size]])
    return {"mu": np.ones((2, 1)), "A": one, "Phi": one, "theta": theta, "floor": np.array(0.5)}


# Section 6.2.


@PAPER.upper(
    "nu_le_kappa",
    ref="Section 6.2 and Appendix C.5",
    uses=["c5_bounds"],
    family=[one_dimension(size) for size in (0.3, 0.1, 0.03)],
    tex=r"\nu\le\kappa",
    on=SYSTEMS,
    expect="violated",
    note="Appendix C.5 uses G_A <= sigma, but sigma = 2 max{G_A G_x, G_b} scales with the "
    "objectives and nu does not: A = 1 and b = +-0.1 have nu = 1 and kappa = 0.2. The main "
    "text's levels min{1, kappa delta} can so be below min{1, nu delta}, with which Theorem 1 "
    "is proved; its form in kappa delta needs nu <= kappa, for which G_x >= 1/2 suffices.",
    corrected="nu_le_kappa_corrected",
)
def nu_le_kappa(stack: FiniteStack) -> rc.Sides:
    """nu <= kappa = sigma/lambda."""
    return at.conditioning_by_kappa(stack)


NU_LE_KAPPA_BOTH = replace(
    nu_le_kappa,
    id="affpcl.nu_le_kappa_both",
    source="AffPCL, Section 6.2 with the smaller lambda of Appendix D.1",
    text="nu <= sigma/lambda with lambda also below those of Phibar^i.",
    measure=partial(at.conditioning_by_kappa, both=True),
    note="Section 6.2's bound with the smallest lambda and the largest G_x and G_b that the paper "
    "defines: Phi = A = 1 and b = +-0.1 have nu = 1 and sigma/lambda = 0.2.",
    reading_of="affpcl.nu_le_kappa",
    reading="Appendix D.1 introduces a smaller lambda, below those of Phibar^i too, and with it a "
    "larger kappa.",
)


@PAPER.upper(
    "nu_le_kappa_corrected",
    ref="Appendix C.5 without its last step",
    tex=r"\nu^i\le G_A/\lambda^i",
    on=SYSTEMS,
    derivation="||Dbar|| <= E||D(s)|| = E||A(s)|| <= G_A, and ||Abar^{-1}|| <= 1/lambda_min(sym "
    "Abar). With G_x >= 1/2, sigma >= 2 G_A G_x >= G_A.",
)
def nu_le_kappa_corrected(stack: FiniteStack) -> rc.Sides:
    """nu^i <= G_A/lambda^i; so nu <= kappa wherever G_A <= sigma, as with G_x >= 1/2.

    Shape (B, n).
    """
    return stack.nu_agent, stack.G_A[:, None] / stack.lambda_agent


@PAPER.lower(
    "nu_ge_1",
    ref="Section 6.2",
    tex=r"\nu^i\ge1",
    on=SYSTEMS,
    printed_as="ours",
    note="Not said in the paper; the proof of Corollary G.2 needs it, for delta_env^i <= "
    "deltatilde_cen^i. The trace of Dbar is E of the nuclear norm of A(s), at least "
    "that of Abar; were ||Dbar Abar^{-1}|| < 1, every singular value of Dbar = (Dbar "
    "Abar^{-1}) Abar would be below that of Abar.",
)
def nu_ge_1(stack: FiniteStack) -> rc.Sides:
    """nu^i >= 1 (the noise alignment 1/nu is at most one).

    Shape (B, n).
    """
    return stack.nu_agent, 1 + 0 * stack.nu_agent


@PAPER.identity(
    "sec62_psd",
    ref="Section 6.2, Example 5",
    tex=r"A(s)\succeq0\Rightarrow\nu=1",
    on=replace(
        SYSTEMS,
        repair=_only_objectives,
        view=_squares,
        meaning={
            **SYSTEMS.meaning,
            "A": "M(s) in A(s) = M(s)' M(s) + c I, c >= 0 the least with which sym(Abar^i) >= "
            "floor for every agent",
        },
    ),
)
def sec62_psd(stack: FiniteStack) -> rc.Sides:
    """nu = 1 where every A(s) is symmetric positive semidefinite."""
    return nu_ge_1(stack)


@PAPER.upper(
    "sec62_psd_nonsymmetric",
    ref="Section 6.2, read for x'A(s)x >= 0 without symmetry",
    reading="The paper calls a matrix positive definite through its symmetric part (Section 1.2), "
    "and features of temporal differences are not symmetric.",
    tex=r"\mathrm{sym}\,A(s)\succeq0\Rightarrow\nu=1",
    on=replace(SYSTEMS, repair=_bent),
    expect="violated",
    note="D(s) = A(s) needs symmetry. Rotations by +-80 degrees have x'A(s)x >= 0, D = I and"
    " Abar = cos(80) I, so nu = 5.8. Elsewhere the paper calls a matrix positive "
    "definite through its symmetric part; features as (phi - gamma phi')phi' of "
    "temporal differences are not symmetric. Theorem 1 keeps its nu.",
    corrected="sec62_psd",
    reading_of="sec62_psd",
)
def sec62_psd_nonsymmetric(stack: FiniteStack) -> rc.Sides:
    """nu^i <= 1 where sym A(s) is positive semidefinite at every state."""
    return nu_ge_1(stack)


# Section 6.3.


@PAPER.upper(
    "dcen_range",
    ref="Section 6.3",
    uses=["d1d"],
    tex=r"\delta_{\mathrm{cen}}^i\le\min\{1,\delta_{\mathrm{env}}+\delta_{\mathrm{obj}}\}",
    on=SYSTEMS,
)
def dcen_range(stack: FiniteStack) -> rc.Sides:
    """delta_cen^i <= min{1, delta_env + delta_obj}.

    Shape (B, n).
    """
    return stack.delta_cen, np.minimum(1, stack.delta_env + stack.delta_obj)


# Appendix G.1.


@PAPER.upper(
    "thm1_recover",
    ref="Appendix G.1",
    uses=["d1d"],
    tex=r"\delta_{\mathrm{env}}^i\le\delta_{\mathrm{env}},\ \delta_{\mathrm{cen}}^i\le"
    r"\delta_{\mathrm{env}}+\delta_{\mathrm{obj}},\ \kappa^i\le\kappa",
    on=SYSTEMS,
)
def thm1_recover(stack: FiniteStack) -> rc.Sides:
    """delta_env^i <= delta_env, delta_cen^i <= delta_env + delta_obj and kappa^i <= kappa.

    Shape (B, 3, n).
    """
    env, obj = stack.delta_env[:, None], stack.delta_obj[:, None]
    like = 0 * stack.delta_cen
    agents = [
        stack.delta_env_agent,
        stack.delta_cen,
        stack.sigma[:, None] / stack.lambda_agent,
    ]
    worst = [env + like, env + obj + like, stack.kappa[:, None] + like]
    return np.stack(agents, axis=1), np.stack(worst, axis=1)


@PAPER.upper(
    "thm1_recover_effective",
    ref="Appendix G.1, for the effective levels",
    printed_as="ours",
    tex=r"\min\{1,\nu\delta_{\mathrm{cen}}^i\}\le\min\{1,\nu\delta_{\mathrm{env}}\}"
    r"+\min\{1,\nu\delta_{\mathrm{obj}}\}",
    on=SYSTEMS,
)
def thm1_recover_effective(stack: FiniteStack) -> rc.Sides:
    """min{1, nu delta_cen^i} <= min{1, nu delta_env} + min{1, nu delta_obj}.

    Shape (B, n).
    """
    levels = np.minimum(1, stack.nu * stack.delta_env) + np.minimum(1, stack.nu * stack.delta_obj)
    return stack.delta_cen_effective, levels[:, None] + 0 * stack.delta_cen


@PAPER.upper(
    "thm1_recover_sec12",
    ref="Appendix G.1, with kappa read as Section 1.2 defines it",
    reading="The main text defines kappa with max_i ||x_*^i||, and Appendix G.1 says that its "
    "theorem recovers the one of the main text.",
    tex=r"\kappa^i\le\kappa",
    on=SYSTEMS,
    expect="violated",
    note="The appendix's sigma contains ||x_*^c|| (C.6), Section 1.2's does not, and x_*^c may be "
    "the longer: agents with x_*^1 = -x_*^2 of length one can have an x_*^c of any length (see "
    "affpcl.const_sigma_central). Theorem 1 of the main text is proved for the appendix's "
    "sigma.",
    corrected="thm1_recover",
    reading_of="thm1_recover",
)
def thm1_recover_sec12(stack: FiniteStack) -> rc.Sides:
    """kappa^i with the appendix's sigma is at most kappa with G_x = max_i ||x_*^i||.

    Shape (B, n).
    """
    sigma = 2 * np.maximum(stack.G_A * stack.G_x_agents, stack.G_b)
    return stack.sigma[:, None] / stack.lambda_agent, sigma / stack.lambda_A


@PAPER.identity(
    "thm1_nurho",
    ref="Appendix G.1, worst-case complexity with density-ratio estimation",
    printed_as="proof step",
    uses=["thm1_c4"],
    tex=r"\nu^\rho=\max\{\tfrac{\lambda^\rho}{\min\{\lambda^b,\lambda^c\}},"
    r"\tfrac{\lambda^i\lambda^\rho}{\sigma\lambda^b\lambda^c}\}^2",
    on=replace(SYSTEMS, given={"sigma > 0": lambda s: s.sigma > 0}),
    expect="violated",
    note="After the theorem the paper prints, without a proof, the bound (kappa^i kappa^rho)^2 "
    "max{nu^rho/n, deltatilde_cen^i}/t. It would follow from the fourth case by this equality, but "
    "lambda^rho has left the minimum: where it is the smallest, the case has sigma^2/"
    "(lambda^rho)^2 and the rewriting only sigma^2/min{lambda^b, lambda^c}^2. One-hot features "
    "have lambda^rho = min_s mu^0(s) <= 1/S, so that A = Phi = 1 on two even states gives 1/4 "
    "of what the case has. So the printed bound does not follow from the theorem; whether it "
    "fails by itself is not tried here. With nu^rho at least one it does follow.",
    corrected="thm1_nurho_corrected",
)
def thm1_nurho(stack: FiniteStack) -> rc.Sides:
    """(kappa^rho)^2 nu^rho is the coefficient of 1/n in the fourth case, max{sigma/min{lambda^b,
    lambda^c, lambda^rho}, lambda^i/(lambda^b lambda^c)}^2, with nu^rho =
    max{lambda^rho/min{lambda^b, lambda^c}, lambda^i lambda^rho/(sigma lambda^b lambda^c)}^2.
    """
    return at.ratio_conditioning(stack, floored=False)


@PAPER.identity(
    "thm1_nurho_corrected",
    ref="Appendix G.1 with nu^rho at least one",
    tex=r"\nu^\rho=\max\{1,\tfrac{\lambda^\rho}{\min\{\lambda^b,\lambda^c\}},"
    r"\tfrac{\lambda^i\lambda^\rho}{\sigma\lambda^b\lambda^c}\}^2",
    on=replace(SYSTEMS, given={"sigma > 0": lambda s: s.sigma > 0}),
    derivation="sigma/min{a, r} = (sigma/r) max{1, r/a} for a = min{lambda^b, lambda^c} and r = "
    "lambda^rho, and lambda^i/(lambda^b lambda^c) = (sigma/r) lambda^i r/(sigma lambda^b "
    "lambda^c); the maximum of both, squared.",
    note="Tried with one-hot features, whose lambda^rho is the least mu^0(s).",
)
def thm1_nurho_corrected(stack: FiniteStack) -> rc.Sides:
    """(kappa^rho)^2 nu^rho is the coefficient of 1/n in the fourth case, max{sigma/min{lambda^b,
    lambda^c, lambda^rho}, lambda^i/(lambda^b lambda^c)}^2, with nu^rho = max{1,
    lambda^rho/min{lambda^b, lambda^c}, lambda^i lambda^rho/(sigma lambda^b lambda^c)}^2.
    """
    return at.ratio_conditioning(stack, floored=True)


COUPLINGS = rc.Space(
    fields={
        "c21": rc.positive(),
        "c41": rc.positive(),
        "c42": rc.positive(),
        "c43": rc.positive(),
        "lam": rc.positive(4),
    },
    batched=True,
    meaning={
        "c21": "C^{2,1}",
        "c41": "C^{4,1}",
        "c42": "C^{4,2}",
        "c43": "C^{4,3}",
        "lam": "lambda^b, lambda^c, lambda^rho, lambda^i",
    },
)


@PAPER.identity(
    "thm1_weights",
    ref="Appendix G.1, proof of the last case",
    printed_as="proof step",
    tex=r"w^1=2C^{4,1}(\lambda^i)^{-1}+2C^{2,1}(\lambda^c)^{-1}",
    on=COUPLINGS,
    expect="violated",
    note="Lemma D.4 multiplies C^{2,1} by w^2, which the proof leaves out. With its w^2 = "
    "O(sigma^2/(lambda^i)^2), or with Corollary G.2's 32 G_rho^2 G_A^2/(lambda^i)^2, "
    "the fourth case of Theorem 1 (density ratios estimated, (22-2)) gets sigma, or "
    "G_rho G_A, over lambda^b lambda^c where lambda^i over lambda^b lambda^c is "
    "printed; nu^rho changes with it. In the second case w^2 = O(1) by the step size, "
    "and nothing changes.",
    corrected="thm1_weights_corrected",
)
def thm1_weights(instance: Any) -> rc.Sides:
    """Lemma D.4's weights are w^3 = 2 C^{4,3}/lambda^i, w^2 = 2 C^{4,2}/lambda^i and w^1 = 2
    C^{4,1}/lambda^i + 2 C^{2,1}/lambda^c.
    """
    return at.theorem_weights(instance, product=False)


@PAPER.identity(
    "thm1_weights_corrected",
    ref="Appendix G.1 with Lemma D.4's recursion",
    tex=r"w^1=2C^{4,1}(\lambda^i)^{-1}+2w^2C^{2,1}(\lambda^c)^{-1}",
    on=COUPLINGS,
    derivation="w^k = 2 sum_{k' > k} w^{k'} C^{k',k}/lambda^{k'} with C^{3,1} = C^{3,2} = 0 and "
    "w^4 = 1, lambda^2 = lambda^c, lambda^4 = lambda^i.",
)
def thm1_weights_corrected(instance: Any) -> rc.Sides:
    """With C^{3,1} = C^{3,2} = 0, Lemma D.4's weights are w^3 = 2 C^{4,3}/lambda^i, w^2 = 2
    C^{4,2}/lambda^i and w^1 = 2 C^{4,1}/lambda^i + 2 w^2 C^{2,1}/lambda^c.
    """
    return at.theorem_weights(instance, product=True)
