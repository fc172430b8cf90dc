"""OOD-PL, Proposition 1, Appendix B, (37) and (38): derivatives of the inner loop by phi."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._spaces import SAMPLES, domains, smooth_domain
from experiments.oodpl.claims.objectives import ANSWERS, OPTIMA
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import hypergradient as at
from experiments.oodpl.theory.bilevel import System
from experiments.oodpl.theory.hypergradient import Run
from experiments.oodpl.theory.objectives import unrestricted
from linsys.linalg import Numbers


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
    rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=-(1-p_D)\frac\alpha\beta{_SUM}\nabla_\phi"
    rf" r^{{k,t}}(\nabla F^{{k,t}})^\top{_PRODUCT}{_SCORES}"
)


@PAPER.identity(
    "prop_1",
    ref="Proposition 1, equation (13)",
    tex=rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SCORES}\cdot{_SUM}"
    r"\nabla F^{k,t}\prod_{j=t+1}^{D-1}\big(I+\alpha R^{k,t}\nabla^2F^{k,t}\big)",
    on=SCALAR,
    expect="violated",
    note="Four slips: the sign of (30) is lost; the factor 1 - p_D is missing from (30) on; "
    "grad_phi r is missing from the derivative of e^(r/beta), without which the formula has no "
    "entry for each entry of phi; the product repeats the factor of t where it needs those of j. "
    "Each alone makes it false: ood.prop_1_sign, _factor, _reward, _index. With D = 1, q = 1 and "
    "c = grad log pi(z_0) . (grad log pi(y) - grad log pi(y')), it is (alpha/beta) R c, and the "
    "truth is -(1 - p_D) r' (alpha/beta) R c: descent by the printed formula raises the loss where "
    "r' > 0. Lemmas 3 and 4 start from the chain rule and not from (13), so that Theorem 1 does "
    "not inherit this; code that differentiates the loop is right as well. The proposition assumes "
    "nothing.",
    corrected="prop_1_corrected",
    main=True,
    uses=["eq_29_30", "eq_31"],
)
def prop_1(run: Any) -> rc.Sides:
    """d l_PL(theta_D) / d phi = (alpha/beta) (grad log pi(y) - grad log pi(y')) . sum_t
    e^(r(z_t)/beta) grad log pi(z_t) prod_(j>t) (I + alpha e^(r(z_t)/beta) Hess log pi_t(z_t)),
    for one entry of phi.
    """
    return at.eq_13(run, run.sums(rewards=False, later=False), sign=1, factor=False)


@PAPER.identity(
    "prop_1_corrected",
    ref="Proposition 1, corrected",
    tex=_RIGHT,
    on=RUNS,
    derivation="J_(t+1) = J_t (I + alpha R_t H_t) + (alpha/beta) R_t grad r_t (grad log pi_t)' "
    "from J_0 = 0, the rows of J for the entries of phi; unrolled, the factors of later steps "
    "stand further to the right. d(-log sigma(u)) = -sigma(-u) du, sigma(-u) = 1 - p_D.",
    main=True,
    uses=["eq_29_30_corrected", "eq_31_corrected"],
)
def prop_1_corrected(run: Any) -> rc.Sides:
    """d l_PL(theta_D) / d phi = -(1 - p_D) (alpha/beta) sum_t R_t grad r(z_t) (grad log pi(z_t))'
    prod_(j>t) (I + alpha R_j Hess log pi_j(z_j)) (grad log pi(y) - grad log pi(y')), R_t =
    e^(r(z_t)/beta), the product from j = t + 1 on the left to D - 1 on the right, p_D =
    pi(y)/(pi(y) + pi(y')) at theta_D.
    """
    return at.eq_13(run, run.sums())


@PAPER.identity(
    "prop_1_sign",
    ref="Proposition 1, its sign alone",
    tex=_RIGHT.replace("=-(", "=("),
    on=RUNS,
    expect="violated",
    note="The derivative of -log sigma(u) is -sigma(-u); (30) has the minus, (13) not. Descent "
    "along (13) would ascend.",
    corrected="prop_1_corrected",
    reading="(13) if this is the only slip in it: what each of them does by itself.",
    printed_as="ours",
    reading_of="prop_1",
)
def prop_1_sign(run: Any) -> rc.Sides:
    """(13) with the factor, grad r and the index corrected, and no minus."""
    return at.eq_13(run, run.sums(), sign=1)


@PAPER.identity(
    "prop_1_factor",
    ref="Proposition 1, the factor 1 - p_D alone",
    tex=_RIGHT.replace("(1-p_D)", ""),
    on=RUNS,
    expect="violated",
    note="Without it all pairs weigh the same, those that the policy ranks rightly by far and "
    "those it ranks wrongly: the gradient is that of -(log pi(y) - log pi(y')), unbounded from "
    "below.",
    corrected="prop_1_corrected",
    reading="(13) if this is the only slip in it: what each of them does by itself.",
    printed_as="ours",
    reading_of="prop_1",
)
def prop_1_factor(run: Any) -> rc.Sides:
    """(13) with the sign, grad r and the index corrected, and no factor."""
    return at.eq_13(run, run.sums(), factor=False)


@PAPER.identity(
    "prop_1_reward",
    ref="Proposition 1, grad_phi r alone",
    tex=_RIGHT.replace(r"\nabla_\phi r^{k,t}", ""),
    on=SCALAR,
    expect="violated",
    note="d e^(r/beta) = e^(r/beta) grad r / beta. True where grad r = 1 at all samples, and "
    "else by coincidence.",
    corrected="prop_1_corrected",
    reading="(13) if this is the only slip in it: what each of them does by itself.",
    printed_as="ours",
    reading_of="prop_1",
)
def prop_1_reward(run: Any) -> rc.Sides:
    """(13) with the sign, the factor and the index corrected, without grad r, for one
    entry of phi.
    """
    return at.eq_13(run, run.sums(rewards=False))


@PAPER.identity(
    "prop_1_index",
    ref="Proposition 1, the index of the product alone",
    tex=_RIGHT.replace(r"R^{k,j}\nabla^2F^{k,j}", r"R^{k,t}\nabla^2F^{k,t}"),
    on=RUNS,
    expect="violated",
    note="From D = 2 on: J_2 = J_1 (I + alpha R_1 H_1) + ..., with the factor of step 1, not 0.",
    corrected="prop_1_corrected",
    reading="(13) if this is the only slip in it: what each of them does by itself.",
    printed_as="ours",
    reading_of="prop_1",
)
def prop_1_index(run: Any) -> rc.Sides:
    """(13) with the sign, the factor and grad r corrected, and the factor of t in the product."""
    return at.eq_13(run, run.sums(later=False))


@PAPER.identity(
    "prop_1_order",
    ref="Proposition 1 with the product in the other order",
    tex=_RIGHT.replace(r"\prod_{j=t+1}^{D-1}", r"\prod_{j=D-1}^{t+1}"),
    on=ORDERED,
    expect="violated",
    note="Hessians at different theta do not commute: from D = 3 and p = 2 on the order matters, "
    "which the paper does not state. With columns for the entries of phi it is the other one.",
    corrected="prop_1_corrected",
    reading="The factors of the product in the other order, which the paper leaves open.",
    printed_as="ours",
    reading_of="prop_1",
)
def prop_1_order(run: Any) -> rc.Sides:
    """(13) corrected, but with the factor of j = D - 1 on the left of the product."""
    return at.eq_13(run, run.sums(forward=False))


@PAPER.identity(
    "eq_29_30",
    ref="equations (29) and (30)",
    tex=rf"-\frac\partial{{\partial\phi_k}}\log\sigma(u)=-\frac{{\partial\theta_{{k,D}}}}"
    rf"{{\partial\phi_k}}{_SCORES}",
    on=RUNS,
    expect="violated",
    note="The derivative of log sigma(u) is sigma(-u) u' = (1 - p_D) u', not u'. The bound 2M of "
    "Lemma 3 is not hurt, as sigma(-u) <= 1; the constant 2L of the next line is, see ood.lpl_2L.",
    corrected="eq_29_30_corrected",
    printed_as="proof step",
    main=True,
)
def eq_29_30(run: Any) -> rc.Sides:
    """d/dphi of -log sigma(u) is -(d theta_D / d phi) (grad log pi(y) - grad log pi(y'))."""
    return at.eq_30(run, factor=False)


@PAPER.identity(
    "eq_29_30_corrected",
    ref="equation (30), corrected",
    tex=rf"\frac{{\partial\ell_{{PL}}}}{{\partial\phi_k}}=-(1-p_D)\frac{{\partial\theta_{{k,D}}}}"
    rf"{{\partial\phi_k}}{_SCORES}",
    on=RUNS,
    derivation="(log sigma)' = sigma(-u) = 1 - p_D, and the chain rule.",
)
def eq_29_30_corrected(run: Any) -> rc.Sides:
    """d l_PL(theta_D) / d phi = -(1 - p_D) (d theta_D / d phi) (grad log pi(y) - grad log pi(y')),
    p_D = pi(y)/(pi(y) + pi(y')) at theta_D.
    """
    return at.eq_30(run, factor=True)


@PAPER.identity(
    "eq_31",
    ref="equation (31)",
    tex=rf"\frac{{\partial\theta_{{k,D}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SUM}\nabla"
    r" F^{k,t}\prod_{j=t+1}^{D-1}\big(I+\alpha R^{k,t}\nabla^2F^{k,t}\big)",
    on=SCALAR,
    expect="violated",
    note="grad_phi r and the index j are missing: ood.prop_1_reward, ood.prop_1_index. The step "
    "before (31) loses grad r; the telescoping loses j.",
    corrected="eq_31_corrected",
    printed_as="proof step",
)
def eq_31(run: Any) -> rc.Sides:
    """d theta_D / d phi = (alpha/beta) sum_t R_t grad log pi(z_t) prod_(j>t) (I + alpha R_t Hess
    log pi_t(z_t)), for one entry of phi.
    """
    return run.jacobian, run.sums(rewards=False, later=False)


@PAPER.identity(
    "eq_31_corrected",
    ref="equation (31), corrected",
    tex=rf"\frac{{\partial\theta_{{k,D}}}}{{\partial\phi_k}}=\frac\alpha\beta{_SUM}\nabla_\phi"
    rf" r^{{k,t}}(\nabla F^{{k,t}})^\top{_PRODUCT}",
    on=RUNS,
    derivation="J_(t+1) = J_t (I + alpha R_t H_t) + (alpha/beta) R_t grad r_t (grad log pi_t)' "
    "from J_0 = 0, unrolled.",
)
def eq_31_corrected(run: Run) -> rc.Sides:
    """d theta_D / d phi = (alpha/beta) sum_t R_t grad r(z_t) (grad log pi(z_t))' prod_(j>t) (I +
    alpha R_j Hess log pi_j(z_j)).
    """
    return run.jacobian, run.sums()


@PAPER.identity(
    "eq_37",
    ref="equation (37)",
    tex=r"\frac{\partial\theta_{k,t+1}}{\partial\phi_k}=\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}-\alpha\Big(\nabla_\phi\nabla_\theta\ell_{FT}-\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}\nabla_\theta^2\ell_{FT}\Big)",
    on=RUNS,
    expect="violated",
    note="The sign of the last term: theta_(t+1) = theta_t - alpha grad l_FT gives J_t (I - alpha "
    "Hess), a contraction; as printed it is an expansion. The display below (38) combines (37) and "
    "(38) as if the sign were right, so that Lemma 4 is not hurt.",
    corrected="eq_37_corrected",
    printed_as="proof step",
)
def eq_37(run: Any) -> rc.Sides:
    """J_(t+1) = J_t - alpha (grad_phi grad_theta l_FT - J_t Hess_theta l_FT), J_t = d theta_t / d
    phi.
    """
    return at.eq_37(run, -1)


@PAPER.identity(
    "eq_37_corrected",
    ref="equation (37), corrected",
    tex=r"\frac{\partial\theta_{k,t+1}}{\partial\phi_k}=\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}-\alpha\Big(\nabla_\phi\nabla_\theta\ell_{FT}+\frac{\partial\theta_{k,t}}{\partial"
    r"\phi_k}\nabla_\theta^2\ell_{FT}\Big)",
    on=RUNS,
    derivation="The chain rule on theta_(t+1) = theta_t - alpha grad_theta l_FT(phi, theta_t).",
)
def eq_37_corrected(run: Any) -> rc.Sides:
    """J_(t+1) = J_t - alpha (grad_phi grad_theta l_FT + J_t Hess_theta l_FT)."""
    return at.eq_37(run, 1)


@PAPER.identity(
    "eq_38",
    printed_as="proof step",
    ref="equations (35) and (38)",
    tex=r"\nabla_\phi\nabla_\theta\mathcal L_{FT}(\phi,\theta_*)+\frac{\partial\theta_*}{\partial"
    r"\phi}\nabla_\theta^2\mathcal L_{FT}(\phi,\theta_*)=0",
    on=OPTIMA,
    derivation="The derivative of grad_theta L_FT(phi, theta_*(phi)) = 0 by phi.",
)
def eq_38(system: System, theta: Numbers, phi: Numbers) -> rc.Sides:
    """grad_phi grad_theta L_FT + (d theta_* / d phi) Hess_theta L_FT = 0 at theta_*: along the
    solution of this, grad_theta L_FT does not move, from theta_* as from every theta.

    Both by differentiation of grad L_FT = -E_z e^(r/beta) (psi - E psi) itself; (..., q, p).
    """
    weights = system.chance * system.tilt(phi)
    by_reward = (weights / system.beta[..., None, None])[..., None] * system.reward.gradient(phi)
    g = system.policy.gradient(theta)
    alone = -(by_reward[..., :, None] * g[..., None, :]).sum(axis=(-4, -3))
    moved = at.slope_change(system, theta, at.implicit(system, phi, theta))
    return np.asarray(alone), np.asarray(
        -(weights.sum(axis=-1)[..., None, None] * moved).sum(axis=-3)
    )


@PAPER.identity(
    "eq_38_unrestricted",
    ref="equation (38) where theta_* is known",
    tex=r"\frac{\partial\theta_*(x,y)}{\partial\phi}=\frac{\nabla_\phi r_\phi(x,y)-\nabla_\phi"
    r" r_\phi(x,y_0)}\beta",
    on=ANSWERS,
    printed_as="ours",
    derivation="pi_(theta_*) is (9), so that theta_*(x, y) = log mu_hat(y)/mu_hat(y_0) - log "
    "h(y)/h(y_0) + (r(x, y) - r(x, y_0))/beta.",
)
def eq_38_unrestricted(system: Any, phi: Any) -> rc.Sides:
    """With a free parameter for every answer of a prompt but y_0, d theta_* / d phi from (38) is
    (grad r(x, y) - grad r(x, y_0)) / beta.
    """
    return at.eq_38_unrestricted(unrestricted(system), phi)
