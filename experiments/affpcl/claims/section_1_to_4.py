"""AffPCL, Sections 1.2 to 4: constants, federated learning, bias correction, parametrisation."""

from __future__ import annotations

from dataclasses import replace

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS, systems
from experiments.affpcl.claims._values import ITERATES, same_environment, states, valued
from experiments.affpcl.theory import constants as at, correction as go, rounds

VALUED = valued()
ALIKE = valued(alike=True)


def centred(fields: rc.Fields) -> rc.Fields:
    """Subtract E_mu f from f."""
    mean = (fields["mu"][..., None] * fields["f"]).sum(axis=1, keepdims=True)
    return {**fields, "f": fields["f"] - mean}


ZERO_MEAN = rc.Space(
    fields={"mu": rc.simplex("S"), "f": rc.reals("S", "d")},
    sizes={"S": (1, 5), "d": (1, 3)},
    repair=centred,
    batched=True,
)


# Section 1.2.

CONST_SIGMA = rc.Claim(
    id="affpcl.const_sigma",
    source="AffPCL, Section 1.2",
    text="||g^i(x_*^i; s)|| <= G_A G_x + G_b <= sigma, with Section 1.2's constants.",
    latex=r"\|g_t^i(x_*^i)\|\le G_AG_x+G_b\le\sigma",
    kind="upper",
    space=VALUED,
    measure=at.residual_at_solution,
)
CONST_SIGMA_SEC4 = rc.Claim(
    id="affpcl.const_sigma_sec4",
    source="AffPCL, Sections 1.2 and 4",
    text="||g^i(x_*^i; s)|| <= G_A G_x + G_b <= sigma with Section 4's G_b, given ||Phi(s)|| <= 1.",
    latex=r"\|g_t^i(x_*^i)\|\le G_AG_x+G_b\le\sigma",
    kind="upper",
    space=SYSTEMS,
    measure=at.residual_at_solution,
)
CONST_SIGMA_CENTRAL = rc.Claim(
    id="affpcl.const_sigma_central",
    source="AffPCL, Section 1.2 as used in Lemma F.2",
    text="||A(s) x_*^c|| <= G_A G_x as well, with G_x = max_i ||x_*^i||.",
    latex=r"\|A(s)x_*^c\|\le G_AG_x",
    kind="upper",
    space=valued(sizes={"n": (2, 2), "S": (2, 2), "d": (2, 2)}),
    measure=at.features_at_centre,
    expect="violated",
    note=(
        "x_*^c is no convex combination of the x_*^i: with Abar^1 = e I + J, Abar^2 = e I - J for "
        "a quarter turn J and x_*^1 = -x_*^2 a unit vector, ||x_*^c|| = 1/e while max_i ||x_*^i|| "
        "= 1. Section 1.2 has no x_*^c in G_x; Lemmas F.2 to G.3 need it there, as C.6 has it. "
        "With C.6's G_x all of them are right; with Section 1.2's, kappa is too small for them."
    ),
    corrected="affpcl.const_sigma_central_corrected",
)
CONST_SIGMA_CENTRAL_CORRECTED = rc.Claim(
    id="affpcl.const_sigma_central_corrected",
    source="AffPCL, Section 1.2 with G_x of Appendix C.6",
    text=(
        "||g^i(x_*^c; s)|| and ||A(s) x_*^c - b^c(s)|| are at most G_A G_x + G_b <= sigma, with "
        "G_x = max{max_i ||x_*^i||, ||x_*^c||} and Section 4's G_b."
    ),
    latex=r"\|g_t^i(x_*^c)\|,\|g_t^{c\to i}(x_*^c;\theta_*^c)\|\le G_AG_x+G_b,\ G_x\ge\|x_*^c\|",
    kind="upper",
    space=SYSTEMS,
    measure=at.residuals_at_centre,
    derivation=(
        "||A(s) x_*^c|| <= G_A G_x now that G_x >= ||x_*^c||; ||b^i(s)|| and ||b^c(s)|| are at "
        "most ||theta|| <= G_b by ||Phi(s)|| <= 1."
    ),
)
CONST_TRVAR = rc.Claim(
    id="affpcl.const_trvar",
    source="AffPCL, Section 1.2",
    text="For E_mu f = 0: tr Var_mu f = E||f||^2 <= G_f^2 (this claim: both are at most G_f^2).",
    latex=r"\mathrm{tr}\,\mathrm{Var}_\mu(f)=\mathbb E_\mu\|f\|^2\le G_f^2",
    kind="upper",
    space=ZERO_MEAN,
    measure=lambda i: at.zero_mean_variance(i.mu, i.f),
)
CONST_TRVAR_EQUALITY = rc.Claim(
    id="affpcl.const_trvar_equality",
    source="AffPCL, Section 1.2",
    text="For E_mu f = 0: the trace of E f f' - (E f)(E f)' is E||f||^2.",
    latex=r"\mathrm{tr}\,\mathrm{Var}_\mu(f)=\mathbb E_\mu\|f\|^2",
    kind="identity",
    space=ZERO_MEAN,
    measure=lambda i: (at.trace_of_variance(i.mu, i.f), at.mean_square(i.mu, i.f)),
)


# Section 2.

ROUNDS: dict[str, rc.Field] = {"x_c": rc.reals("d"), "draw": rc.interval("R", "n")}
FL_AVERAGE = rc.Claim(
    id="affpcl.fl_average",
    source="AffPCL, Section 2, equation (4)",
    text="Local updates from x^i = x^c, averaged and sent back, are (4), and x^c is their average.",
    latex=r"x_{t+1}^c=\frac1n\sum_i x_{t+1}^i=x_t^c-\alpha_tg_t^0(x_t^c)",
    kind="identity",
    space=valued(ROUNDS, alike=True, sizes={"R": (1, 3)}),
    measure=lambda s: rounds.federated_rounds(s, states(s)),
)


# Section 3.

DEF1_RANGE = rc.Claim(
    id="affpcl.def1_range",
    source="AffPCL, Definitions 1 and 2",
    text="delta_obj and delta_env lie in [0, 1].",
    latex=r"\delta_{\mathrm{obj}},\delta_{\mathrm{env}}\in[0,1]",
    kind="upper",
    space=VALUED,
    measure=at.affinity_range,
)
BIAS_IDENTITY = rc.Claim(
    id="affpcl.bias_identity",
    source="AffPCL, Section 3, equation (5)",
    text="In one environment E[gtilde^i] = E[g^i(x^i)], whatever x^i and the common x^0.",
    latex=r"\mathbb E_\mu[\tilde g_t^i]=\mathbb E_\mu[g_t^i(x_t^i)]",
    kind="identity",
    space=valued({k: ITERATES[k] for k in ("x", "x_c")}, alike=True),
    measure=go.bias_correction,
)
CONTROL_VARIATE = rc.Claim(
    id="affpcl.control_variate",
    source="AffPCL, Section 3, control variates",
    text=(
        "g^{0->i}(x_*^0) correlates positively with g^i(x_*^i), so that taking it away leaves no "
        "more than the sum of both variances."
    ),
    latex=r"\mathrm{Cov}\big(g^i(x_*^i),g^{0\to i}(x_*^0)\big)\ge0",
    kind="upper",
    space=ALIKE,
    measure=go.control_variate,
    expect="violated",
    note=(
        "Nothing forces an agent's objective to vary with the average one: A = 1, two even states, "
        "b^1 = +-1, b^2 = -+3 gives b^0 = -+1 and a covariance of -1; g^1 - g^{0->1} then has four "
        "times the variance of g^1. Proposition 2 does not use the sign, but the "
        "control variate is no reason why no agent should lose. On average over the agents the "
        "covariance is a variance, and that of g^i - g^{0->i} at most that of g^i."
    ),
    corrected="affpcl.control_variate_corrected",
)
CONTROL_VARIATE_CORRECTED = rc.Claim(
    id="affpcl.control_variate_corrected",
    source="AffPCL, Section 3, control variates, on average over the agents",
    text="(1/n) sum_i Cov(g^i(x^i), g^{0->i}(x^0)) = tr Var g^{0->i}(x^0) >= 0 at any x^i.",
    latex=r"\frac1n\sum_i\mathrm{Cov}(g^i(x^i),g^{0\to i}(x^0))=\mathrm{tr\,Var}\,g^{0\to i}(x^0)",
    kind="identity",
    space=valued({"x": ITERATES["x"]}, alike=True),
    measure=go.control_variate_on_average,
    derivation=(
        "In one environment all covariances are under the same mu, and at every state (1/n) sum_i "
        "(A(s) x^i - b^i(s)) = A(s) x^0 - b^0(s) is the control variate itself."
    ),
)
CENTRAL_LOCAL = rc.Claim(
    id="affpcl.central_local",
    source="AffPCL, Section 3, central-local decomposition",
    text="In one environment x_*^cen + x_*^loc = x_*^i with Abar x_*^loc = bbar^i - bbar^0.",
    latex=r"x_*^{\mathrm{cen}}+x_*^{i,\mathrm{loc}}=x_*^i",
    kind="identity",
    space=ALIKE,
    measure=go.central_and_local,
)


# Section 4.

SEC4_REDEF = rc.Claim(
    id="affpcl.sec4_redef",
    source="AffPCL, Section 4",
    text=(
        "G_b = max{max_i ||theta^i||, ||theta_*^c||} bounds b^i and b^c, 2 G_b delta_obj bounds "
        "b^i - b^j, and delta_obj <= 1."
    ),
    latex=r"\sup_s\|b^i(s)\|\le G_b,\ \sup_s\|b^i(s)-b^j(s)\|\le2G_b\delta_{\mathrm{obj}}",
    kind="upper",
    space=SYSTEMS,
    measure=at.redefined_bounds,
)
SEC4_REDEF_LEVEL = rc.Claim(
    id="affpcl.sec4_redef_level",
    source="AffPCL, Section 4, 'imply ... Definition 1' read for the level alone",
    text="delta_obj of Definition 1 is at most delta_obj of Section 4.",
    latex=r"\delta_{\mathrm{obj}}^{\mathrm{Def.\,1}}\le\delta_{\mathrm{obj}}^{\mathrm{Sec.\,4}}",
    kind="upper",
    space=SYSTEMS,
    measure=at.redefined_level,
    expect="violated",
    note=(
        "Both levels are relative to their own G_b, and Section 4's may be far larger: Phi = "
        "diag(1, 1/10) and theta = (+-1, 10) give 0.71 by Definition 1 and 0.10 by Section 4. The "
        "proofs use the product G_b delta_obj alone, for which the two agree (affpcl.sec4_redef); "
        "a level measured by Definition 1 must not be put beside Section 4's sigma, though."
    ),
    corrected="affpcl.sec4_redef",
)
SEC4_ESTIMATED = rc.Claim(
    id="affpcl.sec4_estimated",
    source="AffPCL, Section 4, Phi(s) theta_t^c in place of b^0(s) in (5)",
    text="In one environment E[gtilde^i] = E[g^i(x^i)] + Phibar (theta_t^c - theta_*^c).",
    latex=r"\mathbb E_\mu[\tilde g_t^i]=\mathbb E_\mu[g_t^i(x_t^i)]"
    r"+\bar\Phi(\theta_t^c-\theta_*^c)",
    kind="identity",
    space=replace(systems(ITERATES), view=same_environment),
    measure=go.estimated_bias_correction,
    note=(
        "The paper refers to Appendix G for this scheme, but G is about (27), whose average has "
        "the estimate too and is unbiased for every theta^c (affpcl.sec52_unbiased). With (5) as "
        "described the error of theta^c enters as a bias; it is O~(sigma^2/((lambda^b)^2 n t)) in "
        "mean square, so the rate in t and n stays and (lambda^b)^{-2} joins the constant."
    ),
)
