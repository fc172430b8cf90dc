"""AffPCL, Section 6 and Appendix G.1: condition numbers, central affinity, Theorem 1's forms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, monotone, standing
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


# Section 6.2.

NU_LE_KAPPA = rc.Claim(
    id="affpcl.nu_le_kappa",
    source="AffPCL, Section 6.2 and Appendix C.5",
    text="nu <= kappa = sigma/lambda.",
    latex=r"\nu\le\kappa",
    kind="upper",
    space=SYSTEMS,
    measure=at.conditioning_by_kappa,
    expect="violated",
    note=(
        "Appendix C.5 uses G_A <= sigma, but sigma = 2 max{G_A G_x, G_b} scales with the "
        "objectives and nu does not: A = 1 and b = +-0.1 have nu = 1 and kappa = 0.2. The main "
        "text's levels min{1, kappa delta} can so be below min{1, nu delta}, with which Theorem 1 "
        "is proved; its form in kappa delta needs nu <= kappa, for which G_x >= 1/2 suffices."
    ),
    corrected="affpcl.nu_le_kappa_corrected",
)
NU_LE_KAPPA_BOTH = replace(
    NU_LE_KAPPA,
    id="affpcl.nu_le_kappa_both",
    source="AffPCL, Section 6.2 with the smaller lambda of Appendix D.1",
    text="nu <= sigma/lambda with lambda also below those of Phibar^i.",
    measure=partial(at.conditioning_by_kappa, both=True),
    note="The same with every constant read as generously as possible: Phi = A = 1, b = +-0.1.",
)
NU_LE_KAPPA_CORRECTED = rc.Claim(
    id="affpcl.nu_le_kappa_corrected",
    source="AffPCL, Appendix C.5 without its last step",
    text="nu^i <= G_A/lambda^i; so nu <= kappa wherever G_A <= sigma, as with G_x >= 1/2.",
    latex=r"\nu^i\le G_A/\lambda^i",
    kind="upper",
    space=SYSTEMS,
    measure=at.conditioning_by_features,
    derivation=(
        "||Dbar|| <= E||D(s)|| = E||A(s)|| <= G_A, and ||Abar^{-1}|| <= 1/lambda_min(sym Abar). "
        "With G_x >= 1/2, sigma >= 2 G_A G_x >= G_A."
    ),
)
NU_GE_1 = rc.Claim(
    id="affpcl.nu_ge_1",
    source="AffPCL, Section 6.2",
    text="nu^i >= 1 (the noise alignment 1/nu is at most one).",
    latex=r"\nu^i\ge1",
    kind="lower",
    space=SYSTEMS,
    measure=at.conditioning_from_below,
    note=(
        "Not proved in the paper. The trace of Dbar is E of the nuclear norm of A(s), at least "
        "that of Abar; were ||Dbar Abar^{-1}|| < 1, every singular value of Dbar = (Dbar "
        "Abar^{-1}) Abar would be below that of Abar."
    ),
)
PSD = rc.Claim(
    id="affpcl.sec62_psd",
    source="AffPCL, Section 6.2, Example 5",
    text="nu = 1 where every A(s) is symmetric positive semidefinite.",
    latex=r"A(s)\succeq0\Rightarrow\nu=1",
    kind="identity",
    space=replace(SYSTEMS, repair=_only_objectives, view=_squares),
    measure=at.conditioning_from_below,
)
PSD_NONSYMMETRIC = rc.Claim(
    id="affpcl.sec62_psd_nonsymmetric",
    source="AffPCL, Section 6.2, read for x'A(s)x >= 0 without symmetry",
    text="nu^i <= 1 where sym A(s) is positive semidefinite at every state.",
    latex=r"\mathrm{sym}\,A(s)\succeq0\Rightarrow\nu=1",
    kind="upper",
    space=replace(SYSTEMS, repair=_bent),
    measure=at.conditioning_from_below,
    expect="violated",
    note=(
        "D(s) = A(s) needs symmetry. Rotations by +-80 degrees have x'A(s)x >= 0, D = I and Abar = "
        "cos(80) I, so nu = 5.8. Elsewhere the paper calls a matrix positive definite through its "
        "symmetric part; features as (phi - gamma phi')phi' of temporal differences are not "
        "symmetric. Theorem 1 keeps its nu."
    ),
    corrected="affpcl.sec62_psd",
)


# Section 6.3.

DCEN_RANGE = rc.Claim(
    id="affpcl.dcen_range",
    source="AffPCL, Section 6.3",
    text="delta_cen^i <= min{1, delta_env + delta_obj}.",
    latex=r"\delta_{\mathrm{cen}}^i\le\min\{1,\delta_{\mathrm{env}}+\delta_{\mathrm{obj}}\}",
    kind="upper",
    space=SYSTEMS,
    measure=at.central_affinity_range,
)


# Appendix G.1.

THM1_RECOVER = rc.Claim(
    id="affpcl.thm1_recover",
    source="AffPCL, Appendix G.1",
    text="delta_env^i <= delta_env, delta_cen^i <= delta_env + delta_obj and kappa^i <= kappa.",
    latex=r"\delta_{\mathrm{env}}^i\le\delta_{\mathrm{env}},\ \delta_{\mathrm{cen}}^i\le"
    r"\delta_{\mathrm{env}}+\delta_{\mathrm{obj}},\ \kappa^i\le\kappa",
    kind="upper",
    space=SYSTEMS,
    measure=at.recovery,
)
THM1_RECOVER_EFFECTIVE = rc.Claim(
    id="affpcl.thm1_recover_effective",
    source="AffPCL, Appendix G.1, for the effective levels",
    text="min{1, nu delta_cen^i} <= min{1, nu delta_env} + min{1, nu delta_obj}.",
    latex=r"\min\{1,\nu\delta_{\mathrm{cen}}^i\}\le\min\{1,\nu\delta_{\mathrm{env}}\}"
    r"+\min\{1,\nu\delta_{\mathrm{obj}}\}",
    kind="upper",
    space=SYSTEMS,
    measure=at.effective_recovery,
)
THM1_RECOVER_SEC12 = rc.Claim(
    id="affpcl.thm1_recover_sec12",
    source="AffPCL, Appendix G.1, with kappa read as Section 1.2 defines it",
    text="kappa^i with the appendix's sigma is at most kappa with G_x = max_i ||x_*^i||.",
    latex=r"\kappa^i\le\kappa",
    kind="upper",
    space=SYSTEMS,
    measure=at.recovery_of_first_constants,
    expect="violated",
    note=(
        "The appendix's sigma contains ||x_*^c|| (C.6), Section 1.2's does not, and x_*^c may be "
        "the longer: agents with x_*^1 = -x_*^2 can have ||x_*^c|| = 1/e (see "
        "affpcl.const_sigma_central). Theorem 1 of the main text is proved for the appendix's "
        "sigma."
    ),
    corrected="affpcl.thm1_recover",
)
THM1_NURHO = rc.Claim(
    id="affpcl.thm1_nurho",
    source="AffPCL, Appendix G.1, worst-case complexity with density-ratio estimation",
    text=(
        "(kappa^rho)^2 nu^rho is the coefficient of 1/n in the fourth case, max{sigma/min{"
        "lambda^b, lambda^c, lambda^rho}, lambda^i/(lambda^b lambda^c)}^2."
    ),
    latex=r"\nu^\rho=\max\{\tfrac{\lambda^\rho}{\min\{\lambda^b,\lambda^c\}},"
    r"\tfrac{\lambda^i\lambda^\rho}{\sigma\lambda^b\lambda^c}\}^2",
    kind="identity",
    space=replace(SYSTEMS, given={"sigma > 0": lambda s: s.sigma > 0}),
    measure=partial(at.ratio_conditioning, floored=False),
    expect="violated",
    note=(
        "lambda^rho has left the minimum: where it is the smallest, the case has sigma^2/"
        "(lambda^rho)^2 and the rewriting only sigma^2/min{lambda^b, lambda^c}^2. One-hot features "
        "have lambda^rho = min_s mu^0(s) <= 1/S, so that A = Phi = 1 on two even states gives 1/4 "
        "of what was proved. The printed bound does not follow from Theorem 1; nu^rho needs the "
        "floor one."
    ),
    corrected="affpcl.thm1_nurho_corrected",
)
THM1_NURHO_CORRECTED = rc.Claim(
    id="affpcl.thm1_nurho_corrected",
    source="AffPCL, Appendix G.1 with nu^rho at least one",
    text="The same with nu^rho = max{1, printed nu^rho}.",
    latex=r"\nu^\rho=\max\{1,\tfrac{\lambda^\rho}{\min\{\lambda^b,\lambda^c\}},"
    r"\tfrac{\lambda^i\lambda^\rho}{\sigma\lambda^b\lambda^c}\}^2",
    kind="identity",
    space=replace(SYSTEMS, given={"sigma > 0": lambda s: s.sigma > 0}),
    measure=partial(at.ratio_conditioning, floored=True),
    derivation=(
        "sigma/min{a, r} = (sigma/r) max{1, r/a} for a = min{lambda^b, lambda^c} and r = "
        "lambda^rho, and lambda^i/(lambda^b lambda^c) = (sigma/r) lambda^i r/(sigma lambda^b "
        "lambda^c); the maximum of both, squared."
    ),
)
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
THM1_WEIGHTS = rc.Claim(
    id="affpcl.thm1_weights",
    source="AffPCL, Appendix G.1, proof of the last case",
    text=(
        "Lemma D.4's weights are w^3 = 2 C^{4,3}/lambda^i, w^2 = 2 C^{4,2}/lambda^i and w^1 = "
        "2 C^{4,1}/lambda^i + 2 C^{2,1}/lambda^c."
    ),
    latex=r"w^1=2C^{4,1}(\lambda^i)^{-1}+2C^{2,1}(\lambda^c)^{-1}",
    kind="identity",
    space=COUPLINGS,
    measure=partial(at.theorem_weights, product=False),
    expect="violated",
    note=(
        "Lemma D.4 multiplies C^{2,1} by w^2, which the proof leaves out. With its w^2 = O(sigma^2/"
        "(lambda^i)^2), or with Corollary G.2's 32 G_rho^2 G_A^2/(lambda^i)^2, the fourth case of "
        "Theorem 1 (density ratios estimated, (22-2)) gets sigma, or G_rho G_A, over lambda^b "
        "lambda^c where lambda^i over lambda^b lambda^c is printed; nu^rho changes with it. In the "
        "second case w^2 = O(1) by the step size, and nothing changes."
    ),
    corrected="affpcl.thm1_weights_corrected",
)
THM1_WEIGHTS_CORRECTED = rc.Claim(
    id="affpcl.thm1_weights_corrected",
    source="AffPCL, Appendix G.1 with Lemma D.4's recursion",
    text="The same with w^1 = 2 C^{4,1}/lambda^i + 2 w^2 C^{2,1}/lambda^c.",
    latex=r"w^1=2C^{4,1}(\lambda^i)^{-1}+2w^2C^{2,1}(\lambda^c)^{-1}",
    kind="identity",
    space=COUPLINGS,
    measure=partial(at.theorem_weights, product=True),
    derivation=(
        "w^k = 2 sum_{k' > k} w^{k'} C^{k',k}/lambda^{k'} with C^{3,1} = C^{3,2} = 0 and w^4 = 1, "
        "lambda^2 = lambda^c, lambda^4 = lambda^i."
    ),
)
