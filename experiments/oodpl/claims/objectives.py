"""OOD-PL, Sections 2 and 3, Appendix A: the objectives, their optima and Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._spaces import OTHER, PAIRS, POINTS, SAMPLES, domains, smooth_domain
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import objectives as at
from experiments.oodpl.theory.bilevel import System, minimiser, pick
from experiments.oodpl.theory.inner import flat
from linsys.linalg import Numbers, lambda_min

#: Domains with bounded rewards, and a second phi.
REWARDS = domains({"other_phi": rc.ball("q")}, view=smooth_domain)
#: Mixtures of policies; close ones differ by rounding alone.
MIXTURES = domains(
    {**OTHER, "share": rc.interval(low=0.01, high=0.99), "R": rc.positive(low=0.1, high=3.0)},
    meaning={"share": "s"},
)
_RANGE = (0.1, 2.0)
#: Domains whose optimal policy is near the starting point.
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
#: Domains whose class of policies contains every policy.
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
    """The least curvature at theta = 0 of the loss, every prompt weighed like the rarest."""
    least = s.system.prompts.min(axis=-1)[..., None, None]
    return lambda_min(-s.system.policy.hessian(0 * s.theta).sum(axis=-3) * least)


def divergence(p: Numbers, q: Numbers) -> Numbers:
    """KL(p || q) over the last axis, of positive distributions."""
    return np.asarray((p * (np.log(p) - np.log(q))).sum(axis=-1))


def regularised(system: System, phi: Numbers, pi: Numbers) -> Numbers:
    """(8): E_x [E_pi r_phi - beta KL(pi || mu_hat)] of any policy pi (..., X, Y): shape (...)."""
    gain = (pi * system.reward.values(phi)).sum(axis=-1)
    cost = system.beta[..., None] * divergence(pi, system.mu_hat)
    return np.asarray((system.prompts * (gain - cost)).sum(axis=-1))


@PAPER.upper(
    "eq_3",
    ref="equation (3)",
    tex=r"\max_\phi\mathbb E_x\big[\mathbb E_{y\sim\pi}r_\phi-\beta D_{KL}(\pi\|\pi_{ref})\big]",
    on=REWARDS,
    expect="violated",
    note="The variable is the policy's theta, as in (8): a misprint. The divergence has no phi in "
    "it, so that any phi with larger rewards has a larger value; a linear reward has no maximum. "
    "Nothing else uses (3) with phi.",
    corrected="eq_9_28",
    printed_as="misprint",
)
def eq_3(system: System, phi: Numbers, other_phi: Numbers) -> rc.Sides:
    """RLHF maximises E_pi r_phi - beta KL(pi || pi_ref) over phi: the policy (9) being that of phi,
    no other phi has a larger value.
    """
    best = system.tilted(phi)
    return regularised(system, other_phi, best), regularised(system, phi, best)


@PAPER.identity(
    "eq_6_7",
    ref="equations (6) and (7)",
    tex=r"\ell_{PL}=-\log\sigma\big(\log\pi(y|x)-\log\pi(y'|x)\big)=-\log\frac{\pi(y|x)}"
    r"{\pi(y|x)+\pi(y'|x)}",
    on=POINTS,
)
def eq_6_7(system: System, theta: Numbers) -> rc.Sides:
    """l_PL = -log sigma(log pi(y|x) - log pi(y'|x)) = -log p_*, p_* = pi(y|x) / (pi(y|x) +
    pi(y'|x)).

    Shape (..., X, Y, Y).
    """
    pi = system.policy.pi(theta)
    both = pi[..., :, None] + pi[..., None, :]
    return system.preference_loss(theta), np.log(both) - np.log(pi)[..., :, None]


@PAPER.upper(
    "eq_9_28",
    ref="equations (9) and (28)",
    tex=r"J(\pi)\le J(\pi_*),\quad\pi_*=\hat\mu\,e^{r_\phi/\beta}/Z(x)",
    on=PAIRS,
    derivation="(8) is E_x [beta log Z(x) - beta KL(pi || pi_*)]. All mu_hat(y|x) must be "
    "positive, or the answers without chance be left out. Over a class of policies that lacks "
    "pi_*, the maximiser is the member with the least KL(pi || pi_*), not KL(pi_* || pi).",
    main=True,
)
def eq_9_28(system: System, phi: Numbers, theta: Numbers) -> rc.Sides:
    """pi_* = mu_hat e^(r/beta) / Z(x) maximises (8) over all policies."""
    at = system.policy.pi(theta)
    return regularised(system, phi, at), regularised(system, phi, system.tilted(phi))


@PAPER.identity(
    "eq_9_28_value",
    ref="equation (9): the value of (8)",
    tex=r"J(\pi_*)=\mathbb E_x\,\beta\log Z(x)",
    on=POINTS,
    printed_as="ours",
    derivation="r - beta log(pi_*/mu_hat) = beta log Z(x) for every answer; pi_* is the maximiser "
    "by ood.eq_9_28.",
)
def eq_9_28_value(system: System, phi: Numbers) -> rc.Sides:
    """The largest value of (8) is E_x beta log Z(x)."""
    value = (system.prompts * np.log(system.partition(phi))).sum(axis=-1)
    return regularised(system, phi, system.tilted(phi)), np.asarray(system.beta * value)


@PAPER.upper(
    "eq_9_28_concave",
    ref="Section 3.1 and Appendix A: strict concavity in the policy",
    tex=r"J(s\pi+(1-s)\pi')\ge sJ(\pi)+(1-s)J(\pi')+\tfrac\beta2s(1-s)\mathbb E_x\|\pi-"
    r"\pi'\|_1^2",
    on=MIXTURES,
    derivation="The reward is linear in pi, and s KL(pi||m) + (1 - s) KL(pi'||m) >= s (1 - s)/2 "
    "||pi - pi'||_1^2 by Pinsker's inequality, pi - m = (1 - s)(pi - pi').",
)
def eq_9_28_concave(system: System, theta: Numbers, other: Numbers, share: Numbers) -> rc.Sides:
    """The objective (8), J, is strictly concave in the policy, here with a margin: J(s pi + (1 -
    s) pi') >= s J(pi) + (1 - s) J(pi') + beta s (1 - s)/2 E_x ||pi - pi'||_1^2.

    The first side is beta s (1 - s) / 2 E_x ||pi - pi'||_1^2, the second J(s pi + (1 - s) pi') - s
    J(pi) - (1 - s) J(pi'), which is beta E_x [s KL(pi || m) + (1 - s) KL(pi' || m)] with m = s pi +
    (1 - s) pi'.
    """
    one, two = system.policy.pi(theta), system.policy.pi(other)
    s = share[..., None, None]
    mixture = s * one + (1 - s) * two
    share = share[..., None]
    excess = share * divergence(one, mixture) + (1 - share) * divergence(two, mixture)
    apart = np.abs(one - two).sum(axis=-1) ** 2
    least = share * (1 - share) / 2 * apart
    mean = [system.beta * (system.prompts * side).sum(axis=-1) for side in (least, excess)]
    return np.asarray(mean[0]), np.asarray(mean[1])


@PAPER.upper(
    "eq_8_theta",
    ref="equation (8) and the sentence before (9)",
    tex=r"J(\pi_{(\theta+\theta')/2})\ge\tfrac12J(\pi_\theta)+\tfrac12J(\pi_{\theta'})",
    on=PAIRS,
    expect="violated",
    note="It is concave in pi, which is what Appendix A uses. In theta it is bounded, at most max "
    "|r| + beta max |log mu_hat| in size, and a bounded function on the whole space is concave "
    "only if it is constant. So (9) is the optimum over all policies, and (8) over theta may have "
    "local maxima.",
    corrected="eq_9_28_concave",
    reading_of="eq_9_28_concave",
    reading="The objective as a function of theta, over which (8) is maximised.",
)
def eq_8_theta(system: System, phi: Numbers, theta: Numbers, other: Numbers) -> rc.Sides:
    """The objective (8), a function of theta, is concave."""
    at = [regularised(system, phi, system.policy.pi(t)) for t in (theta, other)]
    middle = regularised(system, phi, system.policy.pi((theta + other) / 2))
    return np.asarray((at[0] + at[1]) / 2), middle


@PAPER.identity(
    "eq_10_appA",
    ref="equation (10) and the last display of Appendix A",
    tex=r"\arg\min_\theta\mathbb E_xD_{KL}(\pi_*\|\pi_\theta)=\arg\min_\theta-\mathbb E_x\mathbb"
    r" E_{\hat\mu}\big[e^{r_\phi/\beta}\log\pi_\theta\big]",
    on=OPTIMA,
    expect="violated",
    note="The last step drops 1/Z(x), which depends on the prompt: (10) weighs KL by Z(x), large "
    "where rewards are high. Two prompts of equal chance, two answers, psi = 0 and 1 on both, "
    "uniform mu_hat and e^(r/beta) = (1, 1) and (2, 6): pi_* gives the second answer 1/2 and 3/4; "
    "KL wants the mean 5/8, and (10), with Z = 1 and 4, wants 7/10. The algorithm and Theorem 1 "
    "are about (10) and do not need the equality; what they compute is no projection of (9). The "
    "two agree for one prompt, for constant Z, and where the class contains pi_*.",
    corrected="eq_10_appA_corrected",
    main=True,
    uses=["eq_9_28"],
)
def eq_10_appA(system: System, phi: rc.Numbers) -> rc.Sides:
    """argmin over theta of E_x KL(pi_* || pi_theta) is argmin of -E_x E_mu_hat [e^(r/beta) log
    pi_theta].

    Shape (..., p).
    """
    weights = system.prompts[..., None] * system.tilted(phi)
    return minimiser(system.policy, weights), system.optimum(phi)


@PAPER.identity(
    "eq_10_appA_corrected",
    ref="equation (10): what it minimises",
    tex=r"\mathcal L_{FT}(\phi,\theta)=\mathbb E_xZ(x)\big[D_{KL}(\pi_*\|\pi_\theta)+H("
    r"\pi_*)\big]",
    on=POINTS,
    derivation="mu_hat e^(r/beta) = Z(x) pi_*, and -sum pi_* log pi = KL(pi_* || pi) + H(pi_*), "
    "with H free of theta. The weight e^(r/beta) / Z(x) makes it E_x KL.",
    main=True,
)
def eq_10_appA_corrected(system: System, phi: Numbers, theta: Numbers) -> rc.Sides:
    """L_FT(theta) = E_x Z(x) [KL(pi_* || pi_theta) + H(pi_*)]."""
    best = system.tilted(phi)
    parts = divergence(best, system.policy.pi(theta)) - (best * np.log(best)).sum(axis=-1)
    mean = (system.prompts * system.partition(phi) * parts).sum(axis=-1)
    return system.loss(phi, theta), np.asarray(mean)


@PAPER.upper(
    "eq_10_appA_excess",
    ref="equation (10): how far it is from the projection of (9)",
    tex=r"\mathbb E_xD_{KL}(\pi_*\|\pi_{\theta_*})\le\frac{\max_xZ(x)}{\min_xZ(x)}\min_\theta"
    r"\mathbb E_xD_{KL}(\pi_*\|\pi_\theta)",
    on=OPTIMA,
    printed_as="ours",
    uses=["eq_10_appA_corrected"],
    derivation="min Z E KL(theta_*) <= E Z KL(theta_*) <= E Z KL(theta) <= max Z E KL(theta) for "
    "every theta, by ood.eq_10_appA_corrected. Every Z(x) lies between b^(1/beta) and "
    "B^(1/beta): a large beta, or rewards that hardly differ, makes the two objectives alike.",
)
def eq_10_appA_excess(system: System, phi: Numbers) -> rc.Sides:
    """E_x KL(pi_* || pi_theta) at the minimiser of L_FT is at most max Z(x)/min Z(x) times its
    least value.
    """
    best, Z = system.tilted(phi), system.partition(phi)
    divergences = [
        (system.prompts * divergence(best, system.policy.pi(theta))).sum(axis=-1)
        for theta in eq_10_appA(system, phi)
    ]
    return np.asarray(divergences[1]), np.asarray(Z.max(axis=-1) / Z.min(axis=-1) * divergences[0])


@PAPER.identity(
    "eq_10_appA_unrestricted",
    ref="equation (10) where the class holds every policy",
    tex=r"\pi_{\theta_*}=\pi_*",
    on=ANSWERS,
    printed_as="ours",
    derivation="E_x Z(x) KL(pi_* || pi_theta) is zero there, and nowhere else.",
)
def eq_10_appA_unrestricted(system: System, phi: Numbers) -> rc.Sides:
    """With free parameters for all answers, the minimiser of L_FT is (9): of the parameters with
    this policy L_FT, which is convex, has the slope zero.

    The policy and the slope, (..., X Y + X (Y - 1)).
    """
    free, best = at.unrestricted(system), system.tilted(phi)
    theta = at.parameters(free, best)
    slope = free.gradient(phi, theta)
    reached, meant = flat(free.policy.pi(theta)), flat(best)
    sides = [reached, slope], [meant, 0 * slope]
    return np.concatenate(sides[0], axis=-1), np.concatenate(sides[1], axis=-1)


@PAPER.identity(
    "eq_11_12",
    ref="equations (11) and (12)",
    tex=r"\theta_*^T\in\arg\min_\theta\mathbb E_{z\sim\mathcal D^T}\ell_{PL}(\phi,\theta,z)",
    on=OPTIMA,
    expect="violated",
    note="l_FT is meant, as the sentence below (12) says: a misprint. A sample of D^T has one "
    "answer and l_PL needs two; with two drawn from mu_hat the inner objective has no phi in it, "
    "and the hypergradient would be zero. psi = 0 and 1, uniform mu_hat, r = 0 and 1, beta = 1: "
    "Algorithm 1 approaches theta = 1, where the slope of E l_PL, which has its minimum at 0, is "
    "(sigma(1) - sigma(-1))/4 = 0.116.",
    corrected="eq_11_12_corrected",
    printed_as="misprint",
)
def eq_11_12(system: System, phi: Numbers) -> rc.Sides:
    """The theta_*^T that Algorithm 1's inner loop approaches minimises E l_PL(phi, theta, z) over
    the samples z of D^T, so that its slope by theta is zero there.

    A sample (x, y) has one answer; for the pair that l_PL needs, both are drawn from mu_hat.
    """
    both = system.mu_hat[..., :, None] * system.mu_hat[..., None, :]
    chance = system.prompts[..., None, None] * both
    slopes = chance[..., None] * system.preference_gradient(system.optimum(phi))
    slope = slopes.sum(axis=(-4, -3, -2))
    return np.asarray(slope), 0 * slope


@PAPER.identity(
    "eq_11_12_corrected",
    ref="equation (12) with l_FT",
    tex=r"\mathbb E_z\nabla_\theta\ell_{FT}=\mathbb E_xZ(x)\big(\mathbb E_{\pi_\theta}\psi-"
    r"\mathbb E_{\pi_*}\psi\big)",
    on=POINTS,
    derivation="grad log pi = psi - E_theta psi, and mu_hat e^(r/beta) = Z(x) pi_*.",
)
def eq_11_12_corrected(system: System, phi: Numbers, theta: Numbers) -> rc.Sides:
    """The mean step of Algorithm 1 is along -grad L_FT = E_x Z(x) (E_* psi - E_theta psi), E_*
    under (9).
    """
    apart = system.policy.pi(theta) - system.tilted(phi)
    moved = (apart[..., None] * system.policy.psi).sum(axis=-2)
    weights = (system.prompts * system.partition(phi))[..., None]
    return system.gradient(phi, theta), np.asarray((weights * moved).sum(axis=-2))


@PAPER.identity(
    "alg_1",
    ref="Algorithm 1",
    tex=r"\text{for }t=0,1,\dots,D:\ \theta_{k,t+1}\leftarrow\theta_{k,t}-\alpha\nabla_\theta"
    r"\ell_{FT}(\phi_k,\theta_{k,t};z_{k,t})",
    on=LOOPS,
    expect="violated",
    note="It makes D + 1 steps and ends at theta_(k,D+1); k = 0, ..., K makes K + 1. Proposition 1 "
    "and Theorem 1 have D and K. Harmless.",
    corrected="alg_1_corrected",
    printed_as="misprint",
)
def alg_1(system: System, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers) -> rc.Sides:
    """The loop t = 0, ..., D ends at theta_(k,D)."""
    path = system.path(phi, theta, z, alpha)
    return path[-1], path[-2]


def _pull(system: System, phi: Numbers, theta: Numbers, z: Numbers) -> Numbers:
    """e^(r/beta) (psi(x, y) - E_theta psi) of the samples z (...), written out: (..., p)."""
    policy = system.policy
    odds = np.exp(policy.log_h + (policy.psi * theta[..., None, None, :]).sum(axis=-1))
    mean = (odds[..., None] * policy.psi).sum(axis=-2) / odds.sum(axis=-1)[..., None]
    weight = np.exp(system.reward.values(phi) / system.beta[..., None, None])
    return pick(weight[..., None] * (policy.psi - mean[..., None, :]), z, 1)


@PAPER.identity(
    "alg_1_corrected",
    ref="Algorithm 1 with t = 0, ..., D - 1",
    tex=r"\theta_{k,D}=\theta_0-\alpha\sum_{t=0}^{D-1}\nabla_\theta\ell_{FT}(\phi_k,\theta_{k,t};"
    r"z_{k,t})=\theta_0+\alpha\sum_{t=0}^{D-1}e^{r(x_t,y_t)/\beta}\big(\psi(x_t,y_t)"
    r"-\mathbb E_{\pi_{\theta_{k,t}}}\psi(x_t,\cdot)\big)",
    on=LOOPS,
    derivation="A telescoping sum of D steps; grad log pi = psi - E psi for the policies here, "
    "which are exponential families with features psi.",
)
def alg_1_corrected(
    system: System, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers
) -> rc.Sides:
    """The loop ends at theta_(k,D) = theta_0 - alpha sum of grad l_FT at theta_(k,0), ...,
    theta_(k,D-1), which is theta_0 + alpha sum_t e^(r/beta) (psi - E psi) for features psi, the
    mean under the policy of theta_(k,t).
    """
    path = system.path(phi, theta, z, alpha)
    pulls = [_pull(system, phi, at, z[..., t]) for t, at in enumerate(path[:-1])]
    return path[-1], np.asarray(theta + alpha[..., None] * sum(pulls))


@PAPER.upper(
    "eq_26",
    ref="equation (26), answers of equal lengths",
    tex=r"1-A_{PL}\le\mathcal L_{PL}/\log2",
    on=DATA,
    printed_as="ours",
    derivation="-log sigma(u) is at least log 2 where u <= 0 and positive elsewhere. Attained by "
    "pairs of equal chance, which (26) counts as wrong.",
)
def eq_26(instance: Any) -> rc.Sides:
    """1 - A_PL <= L_PL / log 2 on any pairs of answers of equal lengths."""
    return _accuracy(instance, own=1, losses=1)


@PAPER.upper(
    "eq_26_lengths",
    ref="equation (26), with its division by lengths",
    tex=r"1-A_{PL}\le\mathcal L_{PL}/\log2",
    on=DATA,
    expect="violated",
    note="A_PL ranks by log pi / |y|, the loss that is trained does not: log pi = -2 of one token "
    "and -20 of twenty have l_PL = e^-18 and are ranked wrongly. L_PL can be as small as one likes "
    "with A_PL = 0.",
    corrected="eq_26_lengths_corrected",
    reading="For answers of different lengths, by which (26) divides and the loss does not.",
    printed_as="ours",
    reading_of="eq_26",
)
def eq_26_lengths(instance: Any) -> rc.Sides:
    """1 - A_PL <= L_PL / log 2 for answers of any lengths."""
    return _accuracy(instance, own=instance.lengths, losses=1)


@PAPER.upper(
    "eq_26_lengths_corrected",
    ref="equation (26), with lengths in the loss as well",
    tex=r"1-A_{PL}\le\frac{1}{\log2}\overline{-\log\sigma\Big(\frac{\log\pi(y|x)}{|y|}-\frac{\log"
    r"\pi(y'|x)}{|y'|}\Big)}",
    on=DATA,
    derivation="-log sigma(u) is at least log 2 where u <= 0 and positive elsewhere; u is the "
    "difference of log pi(y|x)/|y|, by which (26) ranks.",
)
def eq_26_lengths_corrected(instance: Any) -> rc.Sides:
    """1 - A_PL <= (1/log 2) times the mean of -log sigma(log pi(y|x)/|y| - log pi(y'|x)/|y'|)."""
    return _accuracy(instance, own=instance.lengths, losses=instance.lengths)


def _accuracy(s: Any, own: Any, losses: Any) -> Any:
    """Both sides, with lengths ``own`` in A_PL and ``losses`` in L_PL."""
    of = [
        at.margins(s.system, s.theta, s.pair, lengths + 0 * s.lengths) for lengths in (own, losses)
    ]
    return at.accuracy(*of)
