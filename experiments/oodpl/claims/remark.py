"""OOD-PL, Remark 1: what a larger beta does."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import PAIRS, runs
from experiments.oodpl.claims._outer import TUNED
from experiments.oodpl.claims._spaces import SAMPLES, domain, domains
from experiments.oodpl.theory import theorem as at
from experiments.oodpl.theory.hypergradient import Run, unit_of_phi


def _linear(**fields: Any) -> SimpleNamespace:
    """``run``: an inner loop on the rewards xi.phi."""
    s = domain(**{**fields, "r0": 0 * fields["r0"]})
    return SimpleNamespace(run=Run(s.system, s.phi, s.theta, s.z, s.alpha, s.pair))


REMARK_1 = rc.Claim(
    id="ood.remark_1",
    source="OOD-PL, Remark 1: a larger beta",
    text="A larger beta makes ||grad L||^2 smaller, all else equal, for K = 1.",
    latex=r"\beta'\ge\beta\ \Rightarrow\ \|\nabla\mathbf L_{\beta'}(\phi)\|\le\|\nabla\mathbf L_"
    r"\beta(\phi)\|",
    kind="upper",
    space=rc.Space(
        fields={
            "margin": rc.reals(),
            "gap": rc.reals(),
            "slope": rc.positive(low=0.1, high=10.0),
            "beta": rc.positive(low=0.1, high=10.0),
            "more": rc.positive(low=0.01, high=10.0),
        },
        batched=True,
        meaning={
            "margin": "log mu_hat(y|x) - log mu_hat(y'|x)",
            "gap": "r(x, y) - r(x, y')",
            "slope": "length of its gradient",
            "more": "beta' / beta - 1",
        },
    ),
    measure=lambda s: at.larger_beta(s.margin, s.gap, s.slope, s.beta, s.more),
    expect="violated",
    note="One prompt, two answers: grad L = sigma(-u) grad(r - r')/beta, u = log-odds of mu_hat "
    "plus (r - r')/beta. Where r prefers y, a larger beta makes u smaller and the gradient larger. "
    "For large beta it does fall like 1/beta^2, without any training and for every phi "
    "(ood.remark_1_corrected, ood.remark_1_rate), because rewards no longer have an effect: what a "
    "reward can gain over supervised fine-tuning falls like 1/beta, ood.remark_1_gain. A small "
    "gradient says nothing of learning there; for linear rewards it says in which unit phi is "
    "measured, ood.remark_1_unit. More rounds do help: ood.theorem_1_rate.",
    corrected="ood.remark_1_corrected",
    main=True,
)
REMARK_1_CORRECTED = rc.Claim(
    id="ood.remark_1_corrected",
    source="OOD-PL, Remark 1: a larger beta, what is true",
    text="||grad L(phi)||^2 <= 4 M^4 T^2/(beta^2 mu^2) at every phi, with no algorithm.",
    latex=r"\|\nabla\mathbf L(\phi)\|^2\le\frac{4M^4T^2}{\beta^2\mu^2}\quad\forall\phi",
    kind="upper",
    space=runs(extra=PAIRS, sizes={"q": (1, 2)}, steps=False),
    measure=lambda s: at.flat_objective(s.run, s.pairs),
    derivation="||grad_theta L_PL|| <= 2 M and ood.dtheta_corrected.",
    main=True,
)
REMARK_1_UNIT = rc.Claim(
    id="ood.remark_1_unit",
    source="OOD-PL, Remark 1: what beta is for linear rewards",
    text="For r = xi.phi a step of Algorithm 1 at (phi, beta) is 1/beta times that at (phi/beta, "
    "1), with the same samples: the rounds of (beta, beta^2 eta, beta phi_0) are those of (1, eta, "
    "phi_0), with the same policies.",
    latex=r"\frac{\partial\ell_{PL}}{\partial\phi}(\phi,\theta_D;\beta)=\frac1\beta\,\frac"
    r"{\partial\ell_{PL}}{\partial\phi}\Big(\frac\phi\beta,\theta_D;1\Big)",
    kind="identity",
    space=domains(SAMPLES, {"D": (1, 3), "Y": (2, 3)}, view=_linear),
    measure=lambda s: unit_of_phi(s.run),
    note="So beta is the unit of phi, and ||grad L||^2 is beta^2 times smaller at the same "
    "policies. With eta kept, a larger beta is a step that is beta^2 times shorter.",
    derivation="(10) has phi and beta as r/beta alone, and r_phi/beta = r_{phi/beta}.",
    main=True,
)
REMARK_1_GAIN = rc.Claim(
    id="ood.remark_1_gain",
    source="OOD-PL, Remark 1: what a reward can change",
    text="|L(phi) - L at the minimiser without rewards| <= M^2 log(B/b)/(beta mu).",
    latex=r"|\mathbf L(\phi)-\mathbf L_{SFT}|\le\frac{M^2\log(B/b)}{\beta\mu}",
    kind="upper",
    space=TUNED,
    measure=lambda s: at.gain(s.run, s.pairs),
    derivation="Along t r, t from 0 to 1: theta' = -E[H]^{-1} E[(r - m) g]/beta for any m, under "
    "weights proportional to e^(t r/beta); with m in the middle ||theta'|| <= M log(B/b)/(2 beta "
    "mu), and ||grad_theta L_PL|| <= 2 M.",
)


def _exponents() -> Sequence[rc.Regime]:
    """Of ||grad L||^2 at an untrained phi, between beta and 2 beta, for several margins."""
    found = []
    for margin, gap in ((0.0, 1.0), (-2.0, -3.0), (2.0, 5.0)):
        beta = np.array([1e3, 2e3])
        sizes = at.two_answers(np.array(margin), np.array(gap), np.array(1.0), beta)
        slope = float(np.log2(sizes[1] / sizes[0]))
        found.append(rc.Regime(f"r - r' = {gap:g}", "beta", -2.0, slope, slope, slope))
    return found


REMARK_1_RATE = rc.RateClaim(
    id="ood.remark_1_rate",
    source="OOD-PL, Remark 1: O(1/beta^2) without training",
    text="||grad L(phi)||^2 = O(1/beta^2) at a fixed phi that no algorithm has seen.",
    latex=r"\|\nabla\mathbf L(\phi)\|^2=O(\beta^{-2})",
    regimes=_exponents,
    note="The whole of Theorem 1's O(1/beta^2) is this.",
    derivation="ood.remark_1_corrected; the limit is sigma(-log-odds of mu_hat) grad(r - r')/beta.",
)
