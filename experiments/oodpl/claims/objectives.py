"""OOD-PL, Sections 2 and 3, Appendix A: the objectives, their optima and Algorithm 1."""

from __future__ import annotations

from typing import Any

import ratecheck as rc
from experiments.oodpl.claims._spaces import OTHER, PAIRS, POINTS, SAMPLES, domains, smooth_domain
from experiments.oodpl.theory import objectives as at
from linsys.linalg import lambda_min

#: Domains with bounded rewards, and a second phi.
REWARDS = domains({"other_phi": rc.ball("q")}, view=smooth_domain)
#: Mixtures of policies; close ones differ by rounding alone.
MIXTURES = domains(
    {**OTHER, "share": rc.interval(low=0.01, high=0.99), "R": rc.positive(low=0.1, high=3.0)},
    meaning={"share": "s"},
)
_RANGE = (0.1, 2.0)
#: Domains whose optimum is not far.
_NEAR: dict[str, Any] = {
    **{name: rc.reals("X", "Y", magnitude=_RANGE) for name in ("log_h", "log_mu", "r0")},
    "beta": rc.positive(low=0.5, high=10.0),
}
#: The same with one minimiser of L_FT.
OPTIMA = domains(
    _NEAR,
    {"Y": (2, 3)},
    given={"psi spans all directions": lambda s: _curvature(s) > 1e-3},
)
#: Where the class of policies holds all.
ANSWERS = domains(
    _NEAR,
    {"Y": (2, 3), "p": (1, 1)},
    view=smooth_domain,
    given={"every prompt has a chance": lambda s: s.system.prompts.min(axis=-1) > 1e-3},
)
_LOOP: dict[str, Any] = {name: SAMPLES[name] for name in ("z", "alpha")}
LOOPS = domains(_LOOP, {"D": (2, 4)}, view=smooth_domain)
_DATA: dict[str, Any] = {
    "pair": rc.whole_numbers("N", 3, low=0, high=3),
    "lengths": rc.whole_numbers("X", "Y", low=1, high=20),
}
DATA = domains(
    _DATA,
    {"N": (1, 3), "q": (1, 1)},
    meaning={
        "pair": "N pairs: the preferred answer, the other one, their prompt, cut to what there is",
        "lengths": "|y|",
    },
)


def _curvature(s: Any) -> Any:
    """The least curvature at theta = 0 of the loss with equal weights of all prompts."""
    return lambda_min(-s.system.policy.hessian(0 * s.theta).sum(axis=-3) * s.system.prompts.min())


EQ_3 = rc.Claim(
    id="ood.eq_3",
    source="OOD-PL, equation (3)",
    text="RLHF maximises E_pi r_phi - beta KL(pi || pi_ref) over phi: the policy (9) being that of "
    "phi, no other phi has a larger value.",
    latex=r"\max_\phi\mathbb E_x\big[\mathbb E_{y\sim\pi}r_\phi-\beta D_{KL}(\pi\|\pi_{ref})\big]",
    kind="upper",
    space=REWARDS,
    measure=lambda s: at.eq_3(s.system, s.phi, s.other_phi),
    expect="violated",
    note="The variable is the policy's theta, as in (8): a misprint. The divergence has no phi in "
    "it, so that any phi with larger rewards has a larger value; a linear reward has no maximum. "
    "Nothing else uses (3) with phi.",
    corrected="ood.eq_9_28",
)
EQ_6_7 = rc.Claim(
    id="ood.eq_6_7",
    source="OOD-PL, equations (6) and (7)",
    text="l_PL = -log sigma(log pi(y|x) - log pi(y'|x)) = -log p_*, p_* = pi(y|x) / (pi(y|x) + "
    "pi(y'|x)).",
    latex=r"\ell_{PL}=-\log\sigma\big(\log\pi(y|x)-\log\pi(y'|x)\big)=-\log\frac{\pi(y|x)}"
    r"{\pi(y|x)+\pi(y'|x)}",
    kind="identity",
    space=POINTS,
    measure=lambda s: at.bradley_terry(s.system, s.theta),
)
EQ_9_28 = rc.Claim(
    id="ood.eq_9_28",
    source="OOD-PL, equations (9) and (28)",
    text="pi_* = mu_hat e^(r/beta) / Z(x) maximises (8) over all policies.",
    latex=r"J(\pi)\le J(\pi_*),\quad\pi_*=\hat\mu\,e^{r_\phi/\beta}/Z(x)",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.eq_9(s.system, s.phi, s.theta),
    derivation="(8) is E_x [beta log Z(x) - beta KL(pi || pi_*)]. All mu_hat(y|x) must be "
    "positive, or the answers without chance be left out. Over a class of policies that lacks "
    "pi_*, the maximiser is the member with the least KL(pi || pi_*), not KL(pi_* || pi).",
    main=True,
)
EQ_9_28_VALUE = rc.Claim(
    id="ood.eq_9_28_value",
    source="OOD-PL, equation (9): the value of (8)",
    text="The largest value of (8) is E_x beta log Z(x).",
    latex=r"J(\pi_*)=\mathbb E_x\,\beta\log Z(x)",
    kind="identity",
    space=POINTS,
    measure=lambda s: at.eq_9_value(s.system, s.phi),
)
EQ_9_28_CONCAVE = rc.Claim(
    id="ood.eq_9_28_concave",
    source="OOD-PL, Section 3.1 and Appendix A: strict concavity in the policy",
    text="J(s pi + (1 - s) pi') >= s J(pi) + (1 - s) J(pi') + beta s (1 - s)/2 E_x ||pi - "
    "pi'||_1^2, J the objective (8).",
    latex=r"J(s\pi+(1-s)\pi')\ge sJ(\pi)+(1-s)J(\pi')+\tfrac\beta2s(1-s)\mathbb E_x\|\pi-"
    r"\pi'\|_1^2",
    kind="upper",
    space=MIXTURES,
    measure=lambda s: at.concave(s.system, s.theta, s.other, s.share),
    derivation="The reward is linear in pi, and s KL(pi||m) + (1 - s) KL(pi'||m) >= s (1 - s)/2 "
    "||pi - pi'||_1^2 by Pinsker's inequality, pi - m = (1 - s)(pi - pi').",
)
EQ_8_THETA = rc.Claim(
    id="ood.eq_8_theta",
    source="OOD-PL, equation (8) and the sentence before (9)",
    text="The objective (8), a function of theta, is concave.",
    latex=r"J(\pi_{(\theta+\theta')/2})\ge\tfrac12J(\pi_\theta)+\tfrac12J(\pi_{\theta'})",
    kind="upper",
    space=PAIRS,
    measure=lambda s: at.parameters_concave(s.system, s.phi, s.theta, s.other),
    expect="violated",
    note="It is concave in pi, which is what Appendix A uses. In theta it is bounded, at most max "
    "|r| + beta max |log mu_hat| in size, and a bounded function on the whole space is concave "
    "only if it is constant. So (9) is the optimum over all policies, and (8) over theta may have "
    "local maxima.",
    corrected="ood.eq_9_28_concave",
)
EQ_10_APPA = rc.Claim(
    id="ood.eq_10_appA",
    source="OOD-PL, equation (10) and the last display of Appendix A",
    text="argmin over theta of E_x KL(pi_* || pi_theta) is argmin of -E_x E_mu_hat [e^(r/beta) log "
    "pi_theta].",
    latex=r"\arg\min_\theta\mathbb E_xD_{KL}(\pi_*\|\pi_\theta)=\arg\min_\theta-\mathbb E_x\mathbb"
    r" E_{\hat\mu}\big[e^{r_\phi/\beta}\log\pi_\theta\big]",
    kind="identity",
    space=OPTIMA,
    measure=lambda s: at.eq_10(s.system, s.phi),
    expect="violated",
    note="The last step drops 1/Z(x), which depends on the prompt: (10) weighs KL by Z(x), large "
    "where rewards are high. Two prompts of equal chance, two answers, psi = 0 and 1 on both, "
    "uniform mu_hat and e^(r/beta) = (1, 1) and (2, 6): pi_* gives the second answer 1/2 and 3/4; "
    "KL wants the mean 5/8, and (10), with Z = 1 and 4, wants 7/10. The algorithm and Theorem 1 "
    "are about (10) and stand; what they compute is no projection of (9). The two agree for one "
    "prompt, for constant Z, and where the class contains pi_*.",
    corrected="ood.eq_10_appA_corrected",
    main=True,
)
EQ_10_APPA_CORRECTED = rc.Claim(
    id="ood.eq_10_appA_corrected",
    source="OOD-PL, equation (10): what it minimises",
    text="L_FT(theta) = E_x Z(x) [KL(pi_* || pi_theta) + H(pi_*)].",
    latex=r"\mathcal L_{FT}(\phi,\theta)=\mathbb E_xZ(x)\big[D_{KL}(\pi_*\|\pi_\theta)+H("
    r"\pi_*)\big]",
    kind="identity",
    space=POINTS,
    measure=lambda s: at.eq_10_identity(s.system, s.phi, s.theta),
    derivation="mu_hat e^(r/beta) = Z(x) pi_*, and -sum pi_* log pi = KL(pi_* || pi) + H(pi_*), "
    "with H free of theta. The weight e^(r/beta) / Z(x) makes it E_x KL.",
    main=True,
)
EQ_10_APPA_EXCESS = rc.Claim(
    id="ood.eq_10_appA_excess",
    source="OOD-PL, equation (10): how far it is from the projection of (9)",
    text="E_x KL(pi_* || pi_theta) at the minimiser of L_FT is at most max Z(x)/min Z(x) times its "
    "least value, max Z/min Z <= (B/b)^(1/beta).",
    latex=r"\mathbb E_xD_{KL}(\pi_*\|\pi_{\theta_*})\le\frac{\max_xZ(x)}{\min_xZ(x)}\min_\theta"
    r"\mathbb E_xD_{KL}(\pi_*\|\pi_\theta)",
    kind="upper",
    space=OPTIMA,
    measure=lambda s: at.eq_10_excess(s.system, s.phi),
    derivation="min Z E KL(theta_*) <= E Z KL(theta_*) <= E Z KL(theta) <= max Z E KL(theta) for "
    "every theta, by ood.eq_10_appA_corrected. A large beta, or small rewards, makes the two "
    "objectives alike.",
)
EQ_10_APPA_UNRESTRICTED = rc.Claim(
    id="ood.eq_10_appA_unrestricted",
    source="OOD-PL, equation (10) where the class holds every policy",
    text="With free parameters for all answers, the minimiser of L_FT is (9).",
    latex=r"\pi_{\theta_*}=\pi_*",
    kind="identity",
    space=ANSWERS,
    measure=lambda s: at.unrestricted_optimum(s.system, s.phi),
    derivation="E_x Z(x) KL(pi_* || pi_theta) is zero there, and nowhere else.",
)
EQ_11_12 = rc.Claim(
    id="ood.eq_11_12",
    source="OOD-PL, equations (11) and (12)",
    text="theta_*^T minimises E l_PL(phi, theta, z) over the samples z of D^T, and Algorithm 1 "
    "follows the slope of that.",
    latex=r"\theta_*^T\in\arg\min_\theta\mathbb E_{z\sim\mathcal D^T}\ell_{PL}(\phi,\theta,z)",
    kind="identity",
    space=POINTS,
    measure=lambda s: at.eq_12(s.system, s.phi, s.theta),
    expect="violated",
    note="l_FT is meant, as the sentence below (12) says: a misprint. A sample of D^T has one "
    "answer and l_PL needs two; with two drawn from mu_hat the inner objective has no phi in it, "
    "and the hypergradient would be zero.",
    corrected="ood.eq_11_12_corrected",
)
EQ_11_12_CORRECTED = rc.Claim(
    id="ood.eq_11_12_corrected",
    source="OOD-PL, equation (12) with l_FT",
    text="The mean step of Algorithm 1 is along -grad L_FT = E_x Z(x) (E_* psi - E_theta psi), E_* "
    "under (9).",
    latex=r"\mathbb E_z\nabla_\theta\ell_{FT}=\mathbb E_xZ(x)\big(\mathbb E_{\pi_\theta}\psi-"
    r"\mathbb E_{\pi_*}\psi\big)",
    kind="identity",
    space=POINTS,
    measure=lambda s: at.eq_12_corrected(s.system, s.phi, s.theta),
    derivation="grad log pi = psi - E_theta psi, and mu_hat e^(r/beta) = Z(x) pi_*.",
)
ALG_1 = rc.Claim(
    id="ood.alg_1",
    source="OOD-PL, Algorithm 1",
    text="The loop t = 0, ..., D ends at theta_(k,D).",
    latex=r"\text{for }t=0,1,\dots,D:\ \theta_{k,t+1}\leftarrow\theta_{k,t}-\alpha\nabla_\theta"
    r"\ell_{FT}(\phi_k,\theta_{k,t};z_{k,t})",
    kind="identity",
    space=LOOPS,
    measure=lambda s: at.algorithm_1(s.system, s.phi, s.theta, s.z, s.alpha),
    expect="violated",
    note="It makes D + 1 steps and ends at theta_(k,D+1); k = 0, ..., K makes K + 1. Proposition 1 "
    "and Theorem 1 have D and K. Harmless.",
    corrected="ood.alg_1_corrected",
)
ALG_1_CORRECTED = rc.Claim(
    id="ood.alg_1_corrected",
    source="OOD-PL, Algorithm 1 with t = 0, ..., D - 1",
    text="The loop ends at theta_(k,D) = theta_0 - alpha sum of the slopes at theta_(k,0), ..., "
    "theta_(k,D-1).",
    latex=r"\theta_{k,D}=\theta_0-\alpha\sum_{t=0}^{D-1}\nabla_\theta\ell_{FT}(\phi_k,\theta_{k,t};"
    r"z_{k,t})",
    kind="identity",
    space=LOOPS,
    measure=lambda s: at.algorithm_1_sum(s.system, s.phi, s.theta, s.z, s.alpha),
    derivation="A telescoping sum of D steps.",
)
EQ_26 = rc.Claim(
    id="ood.eq_26",
    source="OOD-PL, equation (26), answers of equal lengths",
    text="1 - A_PL <= L_PL / log 2 on any pairs.",
    latex=r"1-A_{PL}\le\mathcal L_{PL}/\log2",
    kind="upper",
    space=DATA,
    measure=lambda s: _accuracy(s, own=1, losses=1),
    derivation="-log sigma(u) is at least log 2 where u <= 0 and positive elsewhere. Attained by "
    "pairs of equal chance, which (26) counts as wrong.",
)
EQ_26_LENGTHS = rc.Claim(
    id="ood.eq_26_lengths",
    source="OOD-PL, equation (26), with its division by lengths",
    text="1 - A_PL <= L_PL / log 2 for answers of any lengths.",
    latex=r"1-A_{PL}\le\mathcal L_{PL}/\log2",
    kind="upper",
    space=DATA,
    measure=lambda s: _accuracy(s, own=s.lengths, losses=1),
    expect="violated",
    note="A_PL ranks by log pi / |y|, the loss that is trained does not: log pi = -2 of one token "
    "and -20 of twenty have l_PL = e^-18 and are ranked wrongly. L_PL can be as small as one likes "
    "with A_PL = 0.",
    corrected="ood.eq_26_lengths_corrected",
)
EQ_26_LENGTHS_CORRECTED = rc.Claim(
    id="ood.eq_26_lengths_corrected",
    source="OOD-PL, equation (26), with lengths in the loss as well",
    text="1 - A_PL <= (1/log 2) times the mean of -log sigma(log pi(y|x)/|y| - log pi(y'|x)/|y'|).",
    latex=r"1-A_{PL}\le\frac{1}{\log2}\overline{-\log\sigma\Big(\frac{\log\pi(y|x)}{|y|}-\frac{\log"
    r"\pi(y'|x)}{|y'|}\Big)}",
    kind="upper",
    space=DATA,
    measure=lambda s: _accuracy(s, own=s.lengths, losses=s.lengths),
    derivation="As for equal lengths.",
)


def _accuracy(s: Any, own: Any, losses: Any) -> Any:
    """Both sides, with lengths ``own`` in A_PL and ``losses`` in L_PL."""
    of = [
        at.margins(s.system, s.theta, s.pair, lengths + 0 * s.lengths) for lengths in (own, losses)
    ]
    return at.accuracy(*of)
