"""OOD-PL, Remark 1: what a larger beta does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import PAIRS, quiet, runs
from experiments.oodpl.claims._outer import TUNED
from experiments.oodpl.claims._spaces import (
    SAMPLES,
    domain,
    domains,
    policy_assumptions,
    reward_assumptions,
    within,
)
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import theorem as at
from experiments.oodpl.theory.bilevel import Policy, Reward, minimiser
from experiments.oodpl.theory.constants import PolicyConstants, RewardConstants
from experiments.oodpl.theory.hypergradient import Run
from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, norm


def _linear(**fields: Any) -> SimpleNamespace:
    """``run``: an inner loop on the rewards xi.phi."""
    s = domain(**{**fields, "r0": 0 * fields["r0"]})
    return SimpleNamespace(run=Run(s.system, s.phi, s.theta, s.z, s.alpha, s.pair))


def _two_answers(
    *, margin: Any, gap: Any, slope: Any, beta: Any, more: Any, K: Any, share: Any
) -> SimpleNamespace:
    """Both runs, ``first`` with beta and ``second`` with beta', and what the assumptions are about.

    theta is the log-odds of the preferred answer, so that the policy reaches (9) at every phi; the
    balls are those that both runs stay in.
    """
    eta = share * (beta / slope) ** 2
    runs, lowest, highest, moved = [], [], [], []
    for factor in (beta, beta * (1 + more)):
        mean, last = at.rounds_of_two_answers(margin, gap, slope, factor, eta, K)
        runs.append(mean)
        lowest.append(margin + gap / factor)
        highest.append(margin + last / factor)
        moved.append((last - gap) / slope)
    first, zero = np.array([[[1]], [[0]]])[None, None, :, 0], 0 * gap[:, None, None, None]
    policy = Policy(psi=first + zero, log_h=zero[..., 0] + np.zeros(2, dtype=int))
    reward = Reward(xi=slope[:, None, None, None] * first, r0=gap[:, None, None] * first[..., 0])
    low, high = np.minimum(*lowest), np.maximum(*highest)
    reach = np.maximum(*moved)
    return SimpleNamespace(
        first=runs[0],
        second=runs[1],
        eta=eta,
        smooth=(slope / beta) ** 2 / 4,
        policy=policy,
        ends=(low[:, None], high[:, None]),
        at=PolicyConstants(policy, np.maximum(abs(low), abs(high))),
        reward=reward,
        phi=reach[:, None],
        bounds=RewardConstants(reward, reach),
    )


def _policy(s: Any) -> Any:
    """The policy, the ends of where both runs are, and the constants there."""
    return s.policy, *s.ends, s.at


def _reward(s: Any) -> Any:
    """The reward, the farthest phi and the constants there."""
    return s.reward, s.phi, s.bounds


@PAPER.upper(
    "remark_1",
    ref="Remark 1: a larger beta",
    tex=r"\beta'\ge\beta\ \Rightarrow\ \frac1K\sum_{k<K}\|\nabla\mathbf L_{\beta'}(\phi_k')\|^2\le"
    r"\frac1K\sum_{k<K}\|\nabla\mathbf L_\beta(\phi_k)\|^2",
    on=rc.Space(
        fields={
            "margin": rc.reals(),
            "gap": rc.reals(),
            "slope": rc.positive(low=0.1, high=10.0),
            "beta": rc.positive(low=0.1, high=10.0),
            "more": rc.positive(low=0.01, high=10.0),
            "K": rc.whole_numbers(low=2, high=50),
            "share": rc.positive(low=0.01, high=1.0),
        },
        view=quiet(_two_answers),
        assumes={
            name: quiet(holds)
            for name, holds in {
                **policy_assumptions(_policy),
                **reward_assumptions(_reward),
                "eta <= 1/(4P), P the smoothness of L": lambda s: within(4 * s.eta * s.smooth, 1),
            }.items()
        },
        given={"strongly convex": quiet(lambda s: s.at.mu > 1e-9 * s.at.L)},
        batched=True,
        meaning={
            "margin": "log mu_hat(y|x) - log mu_hat(y'|x)",
            "gap": "r(x, y) - r(x, y') at phi_0",
            "slope": "length of its gradient",
            "more": "beta' / beta - 1",
            "share": "eta over 1/(4 P), P the smoothness of L for beta",
        },
    ),
    reading="The remark names no quantity; read for runs that differ in beta alone, compared by "
    "the left side of (25).",
    expect="violated",
    note="One prompt, two answers: grad L = -sigma(-u) grad(r - r')/beta, u = log-odds of mu_hat "
    "plus (r - r')/beta. Where r - r' is above beta/sigma(u), a larger beta makes the gradient "
    "larger, at phi_0 and in K rounds from there: margin 0, r - r' = 4, gradient 1, beta = 1 and "
    "2, eta = 1, K = 10 have 2.8 10^-4 and 2.9 10^-3. For large beta it does fall like 1/beta^2, "
    "without any training and for every phi (ood.remark_1_corrected, ood.remark_1_rate), because "
    "rewards no longer have an effect: what a reward can gain over supervised fine-tuning falls "
    "like 1/beta, ood.remark_1_gain. A small gradient says nothing of learning there; for linear "
    "rewards it says in which unit phi is measured, ood.remark_1_unit. More rounds do help, where "
    "one ball holds the inner loops: ood.theorem_1_rate.",
    corrected="remark_1_corrected",
    main=True,
    uses=["theorem_1"],
    family=[
        {"margin": 0.0, "gap": gap, "slope": 1.0, "beta": 1.0, "more": 1.0, "K": 10, "share": 1.0}
        for gap in (3.0, 4.0, 8.0)
    ],
)
def remark_1(first: Numbers, second: Numbers) -> rc.Sides:
    """A larger beta makes (1/K) sum_k ||grad L(phi_k)||^2 smaller, all else equal: K rounds from
    the same phi_0 with the same eta, inner loops that reach theta_*, and exact gradients.
    """
    return second, first


@PAPER.upper(
    "remark_1_corrected",
    ref="Remark 1: a larger beta, what is true",
    tex=r"\|\nabla\mathbf L(\phi)\|^2\le\frac{4M^4T^2}{\beta^2\mu^2}\quad\forall\phi",
    on=runs(extra=PAIRS, sizes={"q": (1, 2)}, steps=False),
    uses=["dtheta_corrected", "lpl_2M"],
    derivation="||grad_theta L_PL|| <= 2 M and ood.dtheta_corrected.",
    main=True,
)
def remark_1_corrected(run: Inner, pairs: Numbers) -> rc.Sides:
    """||grad L(phi)||^2 <= 4 M^4 T^2/(beta^2 mu^2) at every phi, with no algorithm."""
    return norm(run.hypergradient_star(pairs)) ** 2, (2 * run.policy.M * run.jacobian_bound) ** 2


@PAPER.identity(
    "remark_1_unit",
    ref="Remark 1: what beta is for linear rewards",
    tex=r"\frac{\partial\ell_{PL}}{\partial\phi}(\phi,\theta_D;\beta)=\frac1\beta\,\frac"
    r"{\partial\ell_{PL}}{\partial\phi}\Big(\frac\phi\beta,\theta_D;1\Big)",
    on=domains(SAMPLES, {"D": (1, 3), "Y": (2, 3)}, view=_linear),
    note="So beta is the unit of phi, and ||grad L||^2 is beta^2 times smaller at the same "
    "policies. With eta kept, phi/beta moves by steps that are beta^2 times shorter.",
    printed_as="ours",
    derivation="(10) has phi and beta as r/beta alone, and r_phi/beta = r_{phi/beta}.",
    main=True,
)
def remark_1_unit(run: Run) -> rc.Sides:
    """For r = xi.phi a step of Algorithm 1 at (phi, beta) is 1/beta times that at (phi/beta, 1),
    with the same samples: the rounds of (beta, beta^2 eta, beta phi_0) are those of (1, eta,
    phi_0), with the same policies.

    For rewards xi.phi, without an r0.
    """
    beta = run.system.beta
    unit = replace(run.system, beta=1 + 0 * beta)
    other = replace(run, system=unit, phi=run.phi / beta[:, None])
    return run.exact, np.asarray(other.exact / beta[:, None])


@PAPER.upper(
    "remark_1_gain",
    ref="Remark 1: what a reward can change",
    tex=r"|\mathbf L(\phi)-\mathbf L_{SFT}|\le\frac{M^2\log(B/b)}{\beta\mu}",
    on=TUNED,
    printed_as="ours",
    derivation="Along t r, t from 0 to 1: theta' = -E[H]^{-1} E[(r - m) g]/beta for any m, under "
    "weights proportional to e^(t r/beta); with m in the middle ||theta'|| <= M log(B/b)/(2 beta "
    "mu), and ||grad_theta L_PL|| <= 2 M.",
)
def remark_1_gain(run: Inner, pairs: Numbers) -> rc.Sides:
    """|L(phi) - L at the minimiser without rewards| <= M^2 log(B/b)/(beta mu).

    ``run.radius`` is to cover the path from one minimiser to the other.
    """
    system, at = run.system, run.policy
    tuned = minimiser(system.policy, system.chance)
    losses = [
        (pairs * system.preference_loss(theta)).sum(axis=(1, 2, 3))
        for theta in (run.theta_star, tuned)
    ]
    spread = np.log(run.reward.B) - np.log(run.reward.b)
    return np.abs(losses[0] - losses[1]), np.asarray(at.M**2 * spread / (system.beta * at.mu))


@PAPER.rate(
    "remark_1_rate",
    ref="Remark 1: O(1/beta^2) without training",
    tex=r"\|\nabla\mathbf L(\phi)\|^2=O(\beta^{-2})",
    note="The whole of Theorem 1's O(1/beta^2) is this.",
    printed_as="ours",
    uses=["remark_1_corrected"],
    derivation="ood.remark_1_corrected; for one prompt with two answers beta grad L tends to "
    "-sigma(-log-odds of mu_hat) grad(r - r').",
)
def remark_1_rate() -> Sequence[rc.Regime]:
    """||grad L(phi)||^2 = O(1/beta^2) at a fixed phi that no algorithm has seen."""
    regimes = []
    for margin, gap in ((0.0, 1.0), (-2.0, -3.0), (2.0, 5.0)):
        beta = np.array([1e3, 2e3])
        sizes = at.two_answers(np.array(margin), np.array(gap), np.array(1.0), beta)
        slope = float(np.log2(sizes[1] / sizes[0]))
        regimes.append(rc.Regime(f"r - r' = {gap:g}", "beta", -2.0, slope, slope, slope))
    return regimes
