"""OOD-PL, Proposition 1, Appendix B, (37) and (38): derivatives of the inner loop by phi."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.oodpl.claims._spaces import SAMPLES, domains, smooth_domain
from experiments.oodpl.claims.objectives import ANSWERS, OPTIMA
from experiments.oodpl.theory import hypergradient as at
from experiments.oodpl.theory.objectives import unrestricted


def _run(**fields: Any) -> SimpleNamespace:
    """``run``: the inner loop on bounded rewards."""
    s = smooth_domain(**fields)
    return SimpleNamespace(run=at.Run(s.system, s.phi, s.theta, s.z, s.alpha, s.pair))


RUNS = domains(SAMPLES, {"D": (1, 5), "p": (1, 3), "Y": (2, 3)}, view=_run)
#: With one entry of phi: without grad r the printed formulas are scalars.
SCALAR = domains(SAMPLES, {"D": (1, 4), "q": (1, 1), "Y": (2, 3)}, view=_run)
#: Three steps and two entries of theta: factors that need not commute.
ORDERED = domains(
    SAMPLES, {"D": (3, 3), "p": (2, 2), "q": (1, 1), "X": (1, 1), "Y": (3, 3)}, view=_run
)
_SUM = r"\sum_{t=0}^{D-1}R^{k,t}"
_SCORES = r"\big(\nabla\log\pi_{\theta_{k,D}}(y_k|x_k)-\nabla\log\pi_{\theta_{k,D}}(y_k'|x_k)\big)"
_PRODUCT = r"\prod_{j=t+1}^{D-1}\big(I+\alpha R^{k,j}\nabla^2F^{k,j}\big)"
_RIGHT = (
    rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=-(1-p_*)\frac\alpha\beta{_SUM}\nabla_\phi"
    rf" r^{{k,t}}(\nabla F^{{k,t}})^\top{_PRODUCT}{_SCORES}"
)

PROP_1 = rc.Claim(
    id="ood.prop_1",
    source="OOD-PL, Proposition 1, equation (13)",
    text="d l_PL(theta_D) / d phi = (alpha/beta) (grad log pi(y) - grad log pi(y')) . sum_t "
    "e^(r(z_t)/beta) grad log pi(z_t) prod_(j>t) (I + alpha e^(r(z_t)/beta) Hess log pi_t(z_t)), "
    "for one entry of phi.",
    latex=rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SCORES}\cdot{_SUM}"
    r"\nabla F^{k,t}\prod_{j=t+1}^{D-1}\big(I+\alpha R^{k,t}\nabla^2F^{k,t}\big)",
    kind="identity",
    space=SCALAR,
    measure=lambda s: at.eq_13(s.run, s.run.sums(rewards=False, later=False), sign=1, factor=False),
    expect="violated",
    note="Four slips: the sign of (30) is lost; the factor 1 - p_* is missing from (30) on; "
    "grad_phi r is missing from the derivative of e^(r/beta), without which the formula has no "
    "entry for each entry of phi; the product repeats the factor of t where it needs those of j. "
    "Each alone makes it false: ood.prop_1_sign, _factor, _reward, _index. With D = 1, q = 1 and "
    "c = grad log pi(z_0) . (grad log pi(y) - grad log pi(y')), it is (alpha/beta) R c, and the "
    "truth is -(1 - p_*) r' (alpha/beta) R c: descent by the printed formula raises the loss where "
    "r' > 0. Lemmas 3 and 4 start from the chain rule and not from (13), so that Theorem 1 does "
    "not inherit this; code that differentiates the loop is right as well.",
    corrected="ood.prop_1_corrected",
    main=True,
)
PROP_1_CORRECTED = rc.Claim(
    id="ood.prop_1_corrected",
    source="OOD-PL, Proposition 1, corrected",
    text="d l_PL(theta_D) / d phi = -(1 - p_*) (alpha/beta) sum_t R_t grad r(z_t) (grad log "
    "pi(z_t))' prod_(j>t) (I + alpha R_j Hess log pi_j(z_j)) (grad log pi(y) - grad log pi(y')), "
    "R_t = e^(r(z_t)/beta), the product from j = t + 1 on the left to D - 1 on the right.",
    latex=_RIGHT,
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_13(s.run, s.run.sums()),
    derivation="J_(t+1) = J_t (I + alpha R_t H_t) + (alpha/beta) R_t grad r_t (grad log pi_t)' "
    "from J_0 = 0, the rows of J for the entries of phi; unrolled, the factors of later steps "
    "stand further to the right. d(-log sigma(u)) = -sigma(-u) du, sigma(-u) = 1 - p_*.",
    main=True,
)
PROP_1_SIGN = rc.Claim(
    id="ood.prop_1_sign",
    source="OOD-PL, Proposition 1, its sign alone",
    text="(13) with the factor, grad r and the index corrected, and no minus.",
    latex=_RIGHT.replace("=-(", "=("),
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_13(s.run, s.run.sums(), sign=1),
    expect="violated",
    note="The derivative of -log sigma(u) is -sigma(-u); (30) has the minus, (13) not. Descent "
    "along (13) would ascend.",
    corrected="ood.prop_1_corrected",
)
PROP_1_FACTOR = rc.Claim(
    id="ood.prop_1_factor",
    source="OOD-PL, Proposition 1, the factor 1 - p_* alone",
    text="(13) with the sign, grad r and the index corrected, and no factor.",
    latex=_RIGHT.replace("(1-p_*)", ""),
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_13(s.run, s.run.sums(), factor=False),
    expect="violated",
    note="Without it all pairs weigh the same, those that the policy ranks rightly by far and "
    "those it ranks wrongly: the gradient is that of -(log pi(y) - log pi(y')), unbounded from "
    "below.",
    corrected="ood.prop_1_corrected",
)
PROP_1_REWARD = rc.Claim(
    id="ood.prop_1_reward",
    source="OOD-PL, Proposition 1, grad_phi r alone",
    text="(13) with the sign, the factor and the index corrected, without grad r, for one entry of "
    "phi.",
    latex=_RIGHT.replace(r"\nabla_\phi r^{k,t}", ""),
    kind="identity",
    space=SCALAR,
    measure=lambda s: at.eq_13(s.run, s.run.sums(rewards=False)),
    expect="violated",
    note="d e^(r/beta) = e^(r/beta) grad r / beta. True only where grad r = 1 at all samples.",
    corrected="ood.prop_1_corrected",
)
PROP_1_INDEX = rc.Claim(
    id="ood.prop_1_index",
    source="OOD-PL, Proposition 1, the index of the product alone",
    text="(13) with the sign, the factor and grad r corrected, and the factor of t in the product.",
    latex=_RIGHT.replace(r"R^{k,j}\nabla^2F^{k,j}", r"R^{k,t}\nabla^2F^{k,t}"),
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_13(s.run, s.run.sums(later=False)),
    expect="violated",
    note="From D = 2 on: J_2 = J_1 (I + alpha R_1 H_1) + ..., with the factor of step 1, not 0.",
    corrected="ood.prop_1_corrected",
)
PROP_1_ORDER = rc.Claim(
    id="ood.prop_1_order",
    source="OOD-PL, Proposition 1 with the product in the other order",
    text="(13) corrected, but with the factor of j = D - 1 on the left of the product.",
    latex=_RIGHT.replace(r"\prod_{j=t+1}^{D-1}", r"\prod_{j=D-1}^{t+1}"),
    kind="identity",
    space=ORDERED,
    measure=lambda s: at.eq_13(s.run, s.run.sums(forward=False)),
    expect="violated",
    note="Hessians at different theta do not commute: from D = 3 and p = 2 on the order matters, "
    "which the paper does not state. With columns for the entries of phi it is the other one.",
    corrected="ood.prop_1_corrected",
)
EQ_29_30 = rc.Claim(
    id="ood.eq_29_30",
    source="OOD-PL, equations (29) and (30)",
    text="d/dphi of -log sigma(u) is -(d theta_D / d phi) (grad log pi(y) - grad log pi(y')).",
    latex=rf"-\frac\partial{{\partial\phi_k}}\log\sigma(u)=-\frac{{\partial\theta_{{k,D}}}}"
    rf"{{\partial\phi_k}}{_SCORES}",
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_30(s.run, factor=False),
    expect="violated",
    note="The derivative of log sigma(u) is sigma(-u) u' = (1 - p_*) u', not u'. The bound 2M of "
    "Lemma 3 is not hurt, as sigma(-u) <= 1; the constant 2L of the next line is, see ood.lpl_2L.",
    corrected="ood.eq_29_30_corrected",
    main=True,
)
EQ_29_30_CORRECTED = rc.Claim(
    id="ood.eq_29_30_corrected",
    source="OOD-PL, equation (30), corrected",
    text="d l_PL(theta_D) / d phi = -(1 - p_*) (d theta_D / d phi) (grad log pi(y) - grad log "
    "pi(y')).",
    latex=rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=-(1-p_*)\frac{{\partial\theta_{{k,D}}}}"
    rf"{{\partial\phi_k}}{_SCORES}",
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_30(s.run, factor=True),
    derivation="(log sigma)' = sigma(-u) = 1 - p_*, and the chain rule.",
)
EQ_31 = rc.Claim(
    id="ood.eq_31",
    source="OOD-PL, equation (31)",
    text="d theta_D / d phi = (alpha/beta) sum_t R_t grad log pi(z_t) prod_(j>t) (I + alpha R_t "
    "Hess log pi_t(z_t)), for one entry of phi.",
    latex=rf"\frac{{\partial\theta_{{k,D}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SUM}\nabla"
    r" F^{k,t}\prod_{j=t+1}^{D-1}\big(I+\alpha R^{k,t}\nabla^2F^{k,t}\big)",
    kind="identity",
    space=SCALAR,
    measure=lambda s: at.eq_31(s.run, rewards=False, later=False),
    expect="violated",
    note="grad_phi r and the index j are missing: ood.prop_1_reward, ood.prop_1_index. The step "
    "before (31) loses grad r; the telescoping loses j.",
    corrected="ood.eq_31_corrected",
)
EQ_31_CORRECTED = rc.Claim(
    id="ood.eq_31_corrected",
    source="OOD-PL, equation (31), corrected",
    text="d theta_D / d phi = (alpha/beta) sum_t R_t grad r(z_t) (grad log pi(z_t))' prod_(j>t) (I "
    "+ alpha R_j Hess log pi_j(z_j)).",
    latex=rf"\frac{{\partial\theta_{{k,D}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SUM}\nabla_\phi"
    rf" r^{{k,t}}(\nabla F^{{k,t}})^\top{_PRODUCT}",
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_31(s.run),
    derivation="As in ood.prop_1_corrected.",
)
EQ_37 = rc.Claim(
    id="ood.eq_37",
    source="OOD-PL, equation (37)",
    text="J_(t+1) = J_t - alpha (grad_phi grad_theta l_FT - J_t Hess_theta l_FT), J_t = d theta_t "
    "/ d phi.",
    latex=r"\frac{\partial\theta_{k,t+1}}{\partial\phi_k}=\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}-\alpha\Big(\nabla_\phi\nabla_\theta\ell_{FT}-\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}\nabla_\theta^2\ell_{FT}\Big)",
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_37(s.run, -1),
    expect="violated",
    note="The sign of the last term: theta_(t+1) = theta_t - alpha grad l_FT gives J_t (I - alpha "
    "Hess), a contraction; as printed it is an expansion. The display below (38) combines (37) and "
    "(38) as if the sign were right, so that Lemma 4 is not hurt.",
    corrected="ood.eq_37_corrected",
)
EQ_37_CORRECTED = rc.Claim(
    id="ood.eq_37_corrected",
    source="OOD-PL, equation (37), corrected",
    text="J_(t+1) = J_t - alpha (grad_phi grad_theta l_FT + J_t Hess_theta l_FT).",
    latex=r"\frac{\partial\theta_{k,t+1}}{\partial\phi_k}=\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}-\alpha\Big(\nabla_\phi\nabla_\theta\ell_{FT}+\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}\nabla_\theta^2\ell_{FT}\Big)",
    kind="identity",
    space=RUNS,
    measure=lambda s: at.eq_37(s.run, 1),
    derivation="The chain rule on theta_(t+1) = theta_t - alpha grad_theta l_FT(phi, theta_t).",
)
EQ_38 = rc.Claim(
    id="ood.eq_38",
    source="OOD-PL, equations (35) and (38)",
    text="grad_phi grad_theta L_FT + (d theta_* / d phi) Hess_theta L_FT = 0 at theta_*: along the "
    "solution of this, grad_theta L_FT does not move.",
    latex=r"\nabla_\phi\nabla_\theta\mathcal L_{FT}(\phi,\theta_*)+\frac{\partial\theta_*}{\partial"
    r"\phi}\nabla_\theta^2\mathcal L_{FT}(\phi,\theta_*)=0",
    kind="identity",
    space=OPTIMA,
    measure=lambda s: at.eq_38(s.system, s.phi),
)
EQ_38_UNRESTRICTED = rc.Claim(
    id="ood.eq_38_unrestricted",
    source="OOD-PL, equation (38) where theta_* is known",
    text="With free parameters for all answers, d theta_* / d phi from (38) is (grad r(x, y) - "
    "grad r(x, y_0)) / beta.",
    latex=r"\frac{\partial\theta_*(x,y)}{\partial\phi}=\frac{\nabla_\phi r_\phi(x,y)-\nabla_\phi"
    r" r_\phi(x,y_0)}\beta",
    kind="identity",
    space=ANSWERS,
    measure=lambda s: at.eq_38_unrestricted(unrestricted(s.system), s.phi),
    derivation="pi_(theta_*) is (9), so that theta_*(x, y) = log mu_hat(y)/mu_hat(y_0) - log "
    "h(y)/h(y_0) + (r(x, y) - r(x, y_0))/beta.",
)
