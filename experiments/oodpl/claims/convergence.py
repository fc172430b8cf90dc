"""OOD-PL, Theorem 1 with its proof in Appendix D.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import PAIRS, runs
from experiments.oodpl.claims._outer import SLOW_ROUNDS, one_round, rounds
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import outer as outer, theorem as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System, TanhReward
from experiments.oodpl.theory.contraction import conditions, lemma_3_bound
from experiments.oodpl.theory.inner import Inner
from experiments.oodpl.theory.slow import SlowRounds
from linsys.linalg import Numbers, norm, solve, transpose

_MATRICES = {"q": (1, 2)}
_CURVED = runs(
    extra={**PAIRS, "phi": rc.reals("q", magnitude=(0.01, 3.0)), "u": rc.sphere("q")},
    sizes=_MATRICES,
    steps=False,
)

# Appendix D.2.


def _bend(reward: Reward, phi: Numbers, u: Numbers) -> Numbers:
    """u' (grad^2 r) u, shape (B, X, Y)."""
    if not isinstance(reward, TanhReward):
        return np.asarray(0 * reward.r0)
    value = reward.values(phi) - reward.r0
    return np.asarray(-2 * value * (1 - value**2) * reward.linear(u) ** 2)


def _second_derivative(run: Inner, u: Numbers, first: Numbers) -> Numbers:
    """theta'' along u (B, q), given theta' (B, p): shape (B, p)."""
    system, phi, star = run.system, run.phi, run.theta_star
    beta = system.beta[:, None, None]
    weights = system.chance * system.tilt(phi)
    weights = weights / weights.sum(axis=(1, 2), keepdims=True)
    along = (system.reward.gradient(phi) * u[:, None, None]).sum(axis=-1)
    a = (along - (weights * along).sum(axis=(1, 2), keepdims=True)) / beta
    g, covariance = system.policy.gradient(star), -system.policy.hessian(star)
    twice = a**2 + _bend(system.reward, phi, u) / beta
    source = -((weights * twice)[..., None] * g).sum(axis=(1, 2))
    prompts, mixed = weights.sum(axis=2), (weights * a).sum(axis=2)
    turned = (mixed[..., None, None] * covariance).sum(axis=1) @ first[..., None]
    inward = (g * first[:, None, None]).sum(axis=-1)
    third = (system.policy.pi(star)[..., None] * inward[..., None] ** 2 * g).sum(axis=2)
    total = source + 2 * turned[..., 0] + (prompts[..., None] * third).sum(axis=1)
    return -solve((prompts[..., None, None] * covariance).sum(axis=1), total)


def curvature(run: Inner, pairs: Numbers, u: Numbers) -> Numbers:
    """d^2 L / du^2 of one domain along unit vectors u (B, q), shape (B,)."""
    first = (transpose(run.jacobian_star) @ u[..., None])[..., 0]
    slope = run.system.preference_gradient(run.theta_star)
    slope = (pairs[..., None] * slope).sum(axis=(1, 2, 3))
    hessian = run.system.preference_hessian(run.theta_star)
    hessian = (pairs[..., None, None] * hessian).sum(axis=(1, 2, 3))
    second = _second_derivative(run, u, first)
    inner = (slope * second).sum(axis=-1)
    return np.asarray(inner + (first * (hessian @ first[..., None])[..., 0]).sum(axis=-1))


def _lemma_3(at: outer.Round) -> Numbers:
    """The largest bound of Lemma 3 corrected among the domains, one for each instance."""
    bound = lemma_3_bound(at.run, np.array([at.run.D]))
    return np.asarray(at.by_domain(bound[:, -1]).max(axis=1))


@PAPER.upper(
    "D2_P",
    ref="Appendix D.2, first step",
    tex=r"u^\top\nabla^2\mathbf L(\phi)\,u\le P",
    on=_CURVED,
    expect="violated",
    note="P is a constant of the reward, Assumption 2; L depends on phi through theta_* alone. A "
    "linear reward has P = 0 and, with one prompt, two answers and one pair, L = log(1 + e^(-u)), "
    "u = log-odds of mu_hat plus (r - r')/beta, which is curved. "
    "eta = 1/(4P) is then infinite, and for nearly linear rewards far beyond 2/P_L: nothing in "
    "Theorem 1 limits the outer step by what limits it. If P is read as one more assumption, that "
    "L is P-smooth (the proof's sentence breaks off there), the step is right; P then depends on "
    "beta, and ood.D2_P_corrected says how.",
    corrected="D2_P_corrected",
    printed_as="proof step",
    main=True,
)
def D2_P(run: Inner, pairs: Numbers, u: Numbers) -> rc.Sides:
    """L(phi + D) <= L(phi) + <grad L, D> + (P/2) ||D||^2 with the Lipschitz constant P of grad r,
    that is, no curvature of L is above P.
    """
    return curvature(run, pairs, u), run.reward.P


@PAPER.upper(
    "D2_P_corrected",
    ref="Appendix D.2, first step, corrected",
    tex=r"\|\nabla^2\mathbf L\|\le\frac{2M^2}{\beta\mu}\Big(P+\frac{T^2}\beta\Big(\frac L\mu+"
    r"\frac{M\rho}{\mu^2}\Big)\Big)+(2L+M^2)\frac{M^2T^2}{\beta^2\mu^2}",
    on=_CURVED,
    note="Of the order 1/beta for curved rewards, 1/beta^2 for linear ones.",
    derivation="With weights proportional to e^(r/beta), E g = 0 at theta_*; differentiate twice "
    "along u, a = (r' - E r')/beta: E[H] theta'' = -(E[(a^2 + r''/beta) g] + 2 E[a H] theta' + "
    "third[theta', theta']). E a^2 <= T^2/beta^2; E a = 0 gives ||E a H|| <= (T/beta)(L - mu)/2; "
    "||theta'|| <= M T/(beta mu). L'' = <grad L_PL, theta''> + <theta', grad^2 L_PL theta'> with 2 "
    "M and 2 L + M^2.",
    main=True,
)
def D2_P_corrected(run: Inner, pairs: Numbers, u: Numbers) -> rc.Sides:
    """|u' (grad^2 L) u| <= P_L = (2 M^2/(beta mu)) (P + (T^2/beta)(L/mu + M rho/mu^2)) + (2 L +
    M^2)(M T/(beta mu))^2 for all unit vectors u.
    """
    return np.abs(curvature(run, pairs, u)), at.curvature_limit(run)


@PAPER.upper(
    "D2_jensen",
    ref="Appendix D.2, steps (i) and (ii)",
    tex=r"\mathbb E\|\nabla\mathbf L-\widehat\nabla\mathbf L\|^2\le\sigma_3^2+\mathbb E_T\mathbb "
    r"E\Big\|\frac{\partial\mathcal L_{PL}(\theta_D^T)}{\partial\phi}-\frac{\partial\mathcal L_{PL}"
    r"(\theta_*^T)}{\partial\phi}\Big\|^2",
    on=one_round(limit=True),
    expect="violated",
    note="The display to which (ii) belongs is missing in the text that was read; it is inferred "
    "from the sum that follows. Jensen's inequality needs T apart from the T that g has drawn, "
    "Lemma 3 needs the same T: the variance between the domains is lost. Two domains with one "
    "pair each (so that sigma_3 = 0), gradients of opposite sign and exact inner loops have all of "
    "E||grad L - g||^2 from it. Here sigma_3 is one number for all theta and phi: the slopes of "
    "l_PL for (y, y') and (y', y) differ by psi(y) - psi(y') at every theta. Features 0 and 1, "
    "equal chances, r = 0, gradients of r 0 and 1, beta = 1, two domains of equal weight, the "
    "first answer preferred with the chance 0.999 in one and 0.001 in the other: 0.25 against "
    "0.001. "
    "Theorem 1 has no term for the number or the kinds of domains, which is what its method is "
    "for. A sigma_3 that is read as the spread of g about grad L, domains included, would have to "
    "contain sigma_T^2; (24) has one theta for both of its terms.",
    corrected="D2_jensen_corrected",
    printed_as="proof step",
    uses=["lemma_3"],
    main=True,
)
def D2_jensen(round: outer.Round) -> rc.Sides:
    """E||grad L - g||^2 <= sigma_3^2 + E_T E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2, g
    the step of a round, which draws T; here with inner loops that reach theta_*.
    """
    return round.error, round.sigma_3 + round.within


@PAPER.upper(
    "D2_jensen_corrected",
    ref="Appendix D.2, steps (i) and (ii), corrected",
    tex=r"\sigma_3^2+2\,\mathbb E_T\mathbb E\Big\|\frac{\partial\mathcal L_{PL}(\theta_D^T)}"
    r"{\partial\phi}-\frac{\partial\mathcal L_{PL}(\theta_*^T)}{\partial\phi}\Big\|^2+2\sigma_T^2",
    on=one_round(limit=False),
    derivation="The pair is drawn last, which adds its variance; the rest is at most twice the "
    "squares of its two parts, theta_D to theta_* and T to the mean.",
)
def D2_jensen_corrected(round: outer.Round) -> rc.Sides:
    """E||grad L - g||^2 <= sigma_3^2 + 2 E_T E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2 +
    2 sigma_T^2, g the step of a round, which draws T, sigma_T^2 the variance of d L_PL(theta_*)/d
    phi between the domains.
    """
    return round.error, round.sigma_3 + 2 * round.within + 2 * round.sigma_T


# Theorem 1.

#: Two answers with features 0 and 0.1 and a reward of one of them; inner loops of tiny steps.
_SLOW: dict[str, Any] = {
    "psi": [[[0.0], [0.1]]],
    "log_h": [[0.0, 0.0]],
    "xi": [[[0.0], [1.0]]],
    "r0": [[0.0, 0.0]],
    "level": -1.0,
    "D": [1.0],
    "lean": [[0.0, 0.0]],
    "beta": 0.1,
    "start": [0.0],
    "reach": 0.2,
    "share": 1.1,
    "steps": 6,
    "spare": 1.0,
    "R": 1.1,
    "kappa": 0.1,
}


@PAPER.upper(
    "theorem_1",
    ref="Theorem 1, equation (25) with the constants of its proof",
    tex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2\le\frac{16P(\mathbf L(\phi_0)-\inf"
    r"\mathbf L)}K+3\sigma_3^2+\frac{24M^2T^2}{\beta^2}+\frac{24M^2}\kappa V",
    on=SLOW_ROUNDS,
    expect="violated",
    note="Two answers, one pair (sigma_3 = 0), features 0 and 0.1, equal chances, r = -1, "
    "gradients of r 0 and 1, ||phi|| <= 0.2, beta = 0.1, alpha = 1082, D = 6 from theta_* of "
    "phi_0, |theta| <= 1.1, kappa = 0.1, P = 25, K = 100: at least 23.9 against 9.7. L = log(1 + "
    "e^(10 phi)) is 25-smooth and grad r is constant, so that P = 25 is right whether P is a "
    "constant of grad r, as in Assumption 2, or of grad L: the proof's sentence breaks off there. "
    "The inner steps have the size alpha e^-10 and do not see phi, so that no round moves it by "
    "more than 10^-4. The first condition on beta is read from a garbled formula; the example "
    "meets it as Appendix D has it too, and with its direction reversed others do the same. All "
    "that the theorem rests on breaks: Lemma 4 and its conditions (ood.theorem_1_conditions), the "
    "domains (ood.D2_jensen), and P of the reward (ood.D2_P). 24 M^2 T^2/beta^2 is not of the "
    "unit of the left side, so that rescaled features make it small. With b^(1/beta) the bound "
    "holds for a reason that has nothing to do with training: ood.theorem_1_noise.",
    reading="With the constants that its proof derives. With any constant before 1/beta^2, (25) is "
    "true of every phi, trained or not (ood.remark_1_corrected), and says nothing of an algorithm.",
    corrected="theorem_1_corrected",
    main=True,
    uses=["D2_P", "D2_jensen", "D2_telescoping", "lemma_3", "theorem_1_D"],
    family=[{**_SLOW, "K": K} for K in (30, 60, 100)],
)
def theorem_1(run: Inner, rounds: SlowRounds, P: Numbers, kappa: Numbers) -> rc.Sides:
    """D >= -log(M^2/L^2 + ||theta_0 - theta_*||^2)/log q, beta <= log(3 alpha B^2 A/(2 b mu (3 -
    s))), beta <= log(alpha b mu/(1 - sqrt((1 - kappa)/3))), alpha <= 2 e^beta/(b mu + B L), eta =
    1/(4P): (1/K) sum_k E||grad L(phi_k)||^2 <= 16 P (L(phi_0) - inf L)/K + 3 sigma_3^2 + 24 M^2
    T^2/beta^2 + (24 M^2/kappa) V, with q and V of ood.lemma_3, A and s of ood.lemma_4_step_ii.

    The left side is what it is at least, for all draws; of the right side L(phi_0) - inf L is
    replaced by L(phi_0), which is more. ``run`` has the constants of a ball that no round leaves.
    """
    at, scale = run.policy, (run.reward.T / run.system.beta) ** 2
    gradient, mixed, hessian = run.largest_variances
    V = run.alpha**2 * (gradient * scale + 6 * mixed) + 6 * (at.M / at.L) ** 2 * scale * hessian
    bound = 16 * P * rounds.gap / rounds.K + 24 * at.M**2 * (scale + V / kappa)
    return rounds.least, np.asarray(bound)


@PAPER.upper(
    "theorem_1_noise",
    ref="Theorem 1 with b^(1/beta) and B^(1/beta)",
    tex=r"\|\nabla\mathbf L(\phi)\|^2\le\frac14\cdot\frac{24M^2}\kappa\frac{\alpha^2\sigma^2T^2}"
    r"{\beta^2}\quad\forall\phi",
    on=runs(
        extra=PAIRS,
        sizes=_MATRICES,
        given={"q < 1": lambda s: conditions(s.run, s.run.true).q < 1},
        steps=False,
    ),
    note="So the theorem, repaired in its constants alone, says nothing: no algorithm and no phi "
    "can be worse than its bound. The step size that q < 1 asks for is the reason, alpha b^(1/beta)"
    " mu >= 0.42: the inner loop does not average its noise.",
    printed_as="ours",
    derivation="||grad L|| <= 2 M ||d theta_*/d phi||, and that is at most T E[w |g|]/(beta mu "
    "E[w]) <= T sigma/(beta mu E[w]), as w g has mean zero at theta_*. alpha mu E[w] >= c = alpha "
    "b^(1/beta) mu. The quotient is kappa/(6 c^2) <= (1 - 3 (1 - c)^2)/(6 c^2) <= 1/4, with "
    "equality at c = 2/3.",
    main=True,
)
def theorem_1_noise(run: Inner, pairs: Numbers) -> rc.Sides:
    """Where q = 3 (1 - alpha b^(1/beta) mu)^2 <= 1 - kappa, the bound's term (24 M^2/kappa) alpha^2
    sigma^2 T^2/beta^2 alone, sigma^2 the variance as D.1 has it, is at least four times
    ||grad L(phi)||^2, at every phi, trained or not.

    With kappa = 1 - q, the largest there is, and sigma^2 at theta_*.
    """
    at = conditions(run, run.true)
    sigma = norm(run.system.each_gradient(run.phi, run.theta_star)) ** 2
    scale = (run.alpha * run.policy.M * run.reward.T / run.system.beta) ** 2
    noise = 6 * scale * run.system.mean(sigma) / (1 - at.q)
    return norm(run.hypergradient_star(pairs)) ** 2, np.asarray(noise)


@PAPER.upper(
    "theorem_1_corrected",
    ref="Theorem 1, corrected",
    tex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2\le\frac{2(\mathbf L(\phi_0)-\inf"
    r"\mathbf L)}{\eta K}+E_3+\eta P_{\mathbf L}(\sigma_3^2+2E_3+2\sigma_T^2)",
    on=rounds(K=1, inner_steps=3),
    note="Audited with L(phi_0) - E L(phi_K), which is at most the gap, for K = 1 and any phi_0 "
    "here and for K = 2 in ood.theorem_1_two_rounds. With constants that hold for every D, all "
    "terms go to zero with eta K to infinity, eta and alpha to zero and D of the order "
    "log(1/alpha)/alpha, at a fixed beta; none asks beta to be large. Policies with features have "
    "no such constants: an inner loop that draws an extreme answer again and again leaves every "
    "ball. With two answers, as here, the loop that draws the likelier one throughout gives alpha "
    "b^(1/beta) mu D <= 1.02 for all alpha and D, so that Q^D is above 0.57 and E_3 alone above "
    "the 4 M^4 T^2/(beta mu)^2 of ood.remark_1_corrected: the bound is true of every phi, trained "
    "or not, and such instances cannot test its other terms.",
    uses=["D2_P_corrected", "D2_jensen_corrected", "lemma_3_corrected"],
    derivation="E g = G with ||G - grad L||^2 <= E_3 by Jensen over T. L is P_L-smooth: E L(phi_{k"
    "+1}) <= L - eta <grad L, G> + (P_L eta^2/2)(||G||^2 + variance) <= L - (eta/2)||grad L||^2 + "
    "(eta/2) ||G - grad L||^2 + P_L eta^2 variance/2 for eta <= 1/P_L; the variance is at most "
    "E||g - grad L||^2, ood.D2_jensen_corrected. Sum over k.",
    main=True,
)
def theorem_1_corrected(runs: outer.Rounds) -> rc.Sides:
    """eta <= 1/P_L and alpha < 2/(B^(1/beta) L): (1/K) sum_k E||grad L(phi_k)||^2 <= 2 (L(phi_0) -
    inf L)/(eta K) + E_3 + eta P_L (sigma_3^2 + 2 E_3 + 2 sigma_T^2), E_3 the bound of
    ood.lemma_3_corrected, P_L of ood.D2_P_corrected, sigma_T^2 the variance of d L_PL(theta_*)/d
    phi between the domains; constants on a ball that holds the inner loops and theta_* of all phi
    between one round's and the next one's.
    """
    return _descended(runs, runs.largest(_lemma_3))


def _descended(runs: outer.Rounds, bias: Numbers) -> rc.Sides:
    noise = runs.largest(lambda at: at.sigma_3) + 2 * bias + 2 * runs.largest(lambda at: at.sigma_T)
    descent = 2 * runs.descent / (runs.eta * runs.K)
    return runs.gradients, np.asarray(descent + bias + runs.eta * runs.limit * noise)


@PAPER.upper(
    "theorem_1_outer",
    ref="Theorem 1, corrected: its outer part",
    tex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2\le\frac{2(\mathbf L(\phi_0)-\inf"
    r"\mathbf L)}{\eta K}+e+\eta P_{\mathbf L}(\sigma_3^2+2e+2\sigma_T^2)",
    on=rounds(K=1, inner_steps=3),
    printed_as="ours",
    note="What ood.theorem_1_corrected says without Lemma 3, whose bound is so large for policies "
    "with two answers that nothing else is seen there. Audited as that is, for K = 1 and with "
    "L(phi_0) - E L(phi_1) for the gap.",
    uses=["D2_P_corrected", "D2_jensen_corrected"],
    derivation="That of ood.theorem_1_corrected, which needs of E_3 that it is at least e.",
)
def theorem_1_outer(runs: outer.Rounds) -> rc.Sides:
    """ood.theorem_1_corrected with e, the largest E_T E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d
    phi||^2 of all rounds, in the place of its bound E_3.
    """
    return _descended(runs, runs.largest(lambda at: at.within))


THEOREM_1_TWO_ROUNDS = replace(
    theorem_1_corrected,
    id="ood.theorem_1_two_rounds",
    source="OOD-PL, Theorem 1, corrected, for two rounds",
    text=theorem_1_corrected.text + " Here for K = 2 with D = 1.",
    space=rounds(K=2, inner_steps=1),
    note="",
    printed_as="ours",
    main=False,
)


@PAPER.rate(
    "theorem_1_rate",
    ref="Theorem 1, corrected: its rate",
    tex=r"\frac1K\sum_k\mathbb E\|\nabla\mathbf L(\phi_k)\|^2=O(K^{-1/2})",
    note="Policies with features do not meet the condition: alpha D grows like log K, and an "
    "inner loop that draws an extreme answer again and again leaves every ball. What is fitted is "
    "the formula with the constants of ||theta|| <= 1, wherever the loops go: for beta = 1 and K "
    "= 10^12 one that draws one answer throughout ends at theta = 7.4. The printed bound has "
    "floors that no K, D, alpha or eta lowers, 3 sigma_3^2 + 24 M^2 T^2/beta^2 and, with q < 1, "
    "more than the largest ||grad L||^2 (ood.theorem_1_noise).",
    printed_as="ours",
    uses=["theorem_1_corrected"],
    derivation="ood.theorem_1_corrected: V/(1 - Q) is of the order alpha, Q^D at most 1/K.",
)
def theorem_1_rate() -> Sequence[rc.Regime]:
    """If one ball holds the inner loops for every K: with alpha and eta of the order K^(-1/2) and
    D of the order K^(1/2) log K the corrected bound is O(K^(-1/2)), at every beta.
    """
    regimes = []
    for beta in (0.5, 1.0, 4.0):
        system = System(
            Policy(psi=np.array([[[[0.0], [1.0]]]]), log_h=np.zeros((1, 1, 2))),
            Reward(xi=np.array([[[[0.0], [1.0]]]]), r0=np.zeros((1, 1, 2))),
            *(np.ones((1, 1)), np.full((1, 1, 2), 0.5), np.array([beta])),
        )
        origin, one = np.zeros((1, 1)), np.ones(1)
        run = Inner(system, origin, origin, origin, one, one, D=0, radius=one)
        sizes = [outer.scheduled(run, rounds * one)[0] for rounds in (1e12, 4e12)]
        slope = float(np.log(sizes[1] / sizes[0]) / np.log(4))
        regimes.append(rc.Regime(f"beta = {beta:g}", "K", -0.5, slope, slope, slope))
    return regimes


@PAPER.identity(
    "theorem_1_tau",
    ref="Theorem 1, the term tau",
    tex=r"\tau=3\sigma_3^3+\frac{144M^2\alpha^2\sigma_1^2}\kappa",
    on=rc.Space(
        fields={"sigma_3": rc.positive(), "rest": rc.positive()},
        batched=True,
        meaning={"rest": "144 M^2 alpha^2 sigma_1^2 / kappa"},
    ),
    expect="violated",
    note="D.2 has 3 sigma_3^2. Nor is the rest free of beta: Theorem 1's conditions tie alpha to "
    "it, ood.theorem_1_tau_corrected, and the O(1/beta^2) of (25) contains sigma_2^2 and sigma^2, "
    "which bounds of e^(r/beta) depend on.",
    corrected="theorem_1_tau_corrected",
    printed_as="misprint",
)
def theorem_1_tau(sigma_3: Numbers, rest: Numbers) -> rc.Sides:
    """tau = 3 sigma_3^3 + 144 M^2 alpha^2 sigma_1^2/kappa is the part of D.2's bound without K and
    beta.
    """
    return 3 * sigma_3**3 + rest, 3 * sigma_3**2 + rest


@PAPER.lower(
    "theorem_1_tau_corrected",
    ref="Theorem 1, the term tau, corrected",
    tex=r"\frac{\alpha(\beta+x)}{\alpha(\beta)}\ge0.42\,e^x",
    on=rc.Space(
        fields={
            "beta": rc.positive(low=0.1, high=10.0),
            "more": rc.positive(),
            "kappa": rc.positive(low=0.001, high=0.999),
        },
        batched=True,
        meaning={"more": "x"},
    ),
    note="Its step: alpha in Theorem 1's second condition and Lemma 5's step size, which contain "
    "b/e^beta, grows by this factor from beta to beta + x. So that for given b, mu, M and sigma_1 "
    "the printed tau grows like e^(2 beta).",
    derivation="(1 - sqrt((1 - kappa)/3)) e^beta <= alpha b mu <= e^beta; 1 - 1/sqrt(3) > 0.42.",
)
def theorem_1_tau_corrected(beta: Numbers, more: Numbers, kappa: Numbers) -> rc.Sides:
    """tau = 3 sigma_3^2 + 144 M^2 alpha^2 sigma_1^2/kappa, and the conditions that b/e^beta stands
    in make alpha grow with beta: from beta to beta + x by the factor 0.42 e^x at least.

    alpha b mu is at least (1 - sqrt((1 - kappa)/3)) e^beta by Theorem 1's second condition, and at
    most e^beta by Lemma 5's step size.
    """
    least = (1 - np.sqrt((1 - kappa) / 3)) * np.exp(beta + more)
    return np.asarray(least / np.exp(beta)), np.asarray(42 * np.exp(more) / 100)
