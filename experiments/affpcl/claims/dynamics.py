"""What AffPCL says of itself beside other ways to learn: exact stationary errors of small steps."""

from __future__ import annotations

import dataclasses

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._spaces import standing, systems
from experiments.affpcl.theory import small_steps as s
from linsys.linalg import solve

SYSTEMS = systems(sizes={"n": (1, 3), "S": (1, 4), "d": (1, 2)})


def one_environment(fields: rc.Fields) -> rc.Fields:
    """Everybody in the first agent's environment."""
    mu = np.repeat(fields["mu"][:, :1], fields["mu"].shape[1], axis=1)
    return standing({**fields, "mu": mu})


def first_at_the_centre(fields: rc.Fields) -> rc.Fields:
    """The first agent sees the others' mixture of environments and seeks their central solution."""
    others = fields["mu"][:, 1:]
    mu = np.concatenate([others.mean(axis=1, keepdims=True), others], axis=1)
    moved = standing({**fields, "mu": mu})
    Phi = moved["Phi"]
    means = (mu @ Phi.reshape(*Phi.shape[:2], -1)).reshape(*mu.shape[:2], *Phi.shape[2:])
    wanted = (means[:, 1:] @ moved["theta"][:, 1:, :, None])[..., 0].mean(axis=1)
    first = solve(means[:, 0], wanted)[:, None]
    return {**moved, "theta": np.concatenate([first, moved["theta"][:, 1:]], axis=1)}


COMMON = dataclasses.replace(SYSTEMS, repair=one_environment)
CENTRED = dataclasses.replace(
    systems(sizes={"n": (2, 4), "S": (1, 4), "d": (1, 2)}), repair=first_at_the_centre
)

NEVER_WORSE = rc.Claim(
    id="affpcl.never_worse",
    source="AffPCL, Abstract and Sections 1, 3, 5.2",
    main=True,
    text="AffPCL performs no worse than independent learning: for each agent, the stationary "
    "error of small steps is at most that of learning alone.",
    latex=r"\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|x^i_{\mathrm{AffPCL}}-x_*^i\|^2\le"
    r"\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|x^i_{\mathrm{alone}}-x_*^i\|^2",
    kind="qualitative",
    space=SYSTEMS,
    measure=s.never_worse,
    expect="violated",
    note="What the paper compares are worst-case bounds. An agent that sees one state alone has "
    "no error on its own and receives the others' noise: A = 1, Phi = (1/3, 1), theta = 3, mu^1 = "
    "(1, 0), mu^2 = (1/2, 1/2), alpha = 1e-4 gives agent 1 an error of 0 alone and of 1.4e-6 "
    "together. The loss has no bound in one environment either: a factor 148 for A = (1, 0), Phi "
    "= (0, 1), theta = (-0.03, 1), mu = (1/2, 1/2), growing like 1/theta^2. In different "
    "environments it is there on average over the agents as well.",
    corrected="affpcl.never_worse_corrected",
)

ON_AVERAGE = rc.Claim(
    id="affpcl.never_worse_corrected",
    source="AffPCL, Sections 1 and 3, corrected",
    text="In one environment, on average over the agents, the stationary error of small steps is "
    "at most that of learning alone.",
    latex=r"\lim_{\alpha\to0}\frac1{\alpha n}\sum_i\mathbb{E}\|x^i_{\mathrm{AffPCL}}-x_*^i\|^2\le"
    r"\lim_{\alpha\to0}\frac1{\alpha n}\sum_i\mathbb{E}\|x^i_{\mathrm{alone}}-x_*^i\|^2",
    kind="qualitative",
    space=COMMON,
    measure=s.never_worse_on_average,
    derivation="Alone the noise is h + v^i, together (1/n) sum_j h(s^j) + v^i(s^i), all of mean "
    "zero. The covariances differ by (1 - 1/n)(Cov h + Cov(h, v^i) + Cov(v^i, h)), and sum_i v^i "
    "= 0 because x_*^c and theta_*^c are the agents' means. X is monotone in the covariance.",
)

GAIN = rc.Claim(
    id="affpcl.never_worse_gain",
    source="AffPCL, Sections 1 and 3",
    text="In one environment the average gain is exactly (1 - 1/n) times the error that the noise "
    "of the central residual h(s) = A(s) x_*^c - b^c(s) alone would cause.",
    latex=r"\frac1n\sum_i\bigl(\operatorname{tr}X^i_{\mathrm{alone}}-\operatorname{tr}"
    r"X^i_{\mathrm{AffPCL}}\bigr)=(1-\tfrac1n)\operatorname{tr}X(\operatorname{Cov}h)",
    kind="identity",
    space=COMMON,
    measure=s.gain_on_average,
    derivation="The proof of affpcl.never_worse_corrected is an identity.",
)

BUT_FOR_DISTANCE = rc.Claim(
    id="affpcl.never_worse_per_agent",
    source="AffPCL, Sections 1 and 3",
    text="In one environment each agent's stationary error of small steps is at most that of "
    "learning alone plus (1 - 1/n) times the error that the noise of v^i(s) = A(s)(x_*^i - x_*^c) "
    "- Phi(s)(theta^i - theta_*^c) alone would cause.",
    latex=r"\operatorname{tr}X^i_{\mathrm{AffPCL}}\le\operatorname{tr}X^i_{\mathrm{alone}}"
    r"+(1-\tfrac1n)\operatorname{tr}X(\operatorname{Cov}v^i)",
    kind="upper",
    space=COMMON,
    measure=s.never_worse_but_for_distance,
    derivation="Cov h + Cov(h, v) + Cov(v, h) = Cov(h + v) - Cov v >= -Cov v. An agent near the "
    "centre can lose no more than it is away from it, and E||v^i||^2 <= 8 sigma^2 min{1, nu' "
    "delta_cen^i}.",
)

FREE_RIDE = rc.Claim(
    id="affpcl.free_ride",
    source="AffPCL, Section 6.3",
    text="An agent with delta_cen^i = 0, however far the others are from it and from each other, "
    "has for small steps at most 1/n of the stationary error of learning alone.",
    latex=r"\delta_{\mathrm{cen}}^i=0\implies n\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|"
    r"x^i_{\mathrm{AffPCL}}-x_*^i\|^2\le\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|"
    r"x^i_{\mathrm{alone}}-x_*^i\|^2",
    kind="qualitative",
    space=CENTRED,
    measure=s.free_ride,
    derivation="Then mu^i = mu^0, x_*^i = x_*^c, theta^i = theta_*^c, so v^i = 0 and rho^i = 1: "
    "alone the noise is h with covariance E_0 h h', together its average, with covariance E_0 h "
    "h'/n - (1/n^2) sum_j E_j h E_j h'. With delta_cen^i <= 1/n, affpcl.thm1_small_steps gives (1 "
    "+ 9 nu') sigma^2 / (lambda^i n).",
)

SMALL_STEPS = rc.Claim(
    id="affpcl.thm1_small_steps",
    source="AffPCL, equation (9) and Theorem 1 of Appendix G.1",
    text="The stationary error of small steps is at most alpha (sigma^2 / lambda^i)(1/n + 9 "
    "min{1, nu' delta_cen^i}), nu' the larger of nu and the same number of Phi.",
    latex=r"\lim_{\alpha\to0}\tfrac1\alpha\mathbb{E}\|x^i-x_*^i\|^2\le\frac{\sigma^2}{\lambda^i}"
    r"\Bigl(\frac1n+9\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\}\Bigr)",
    kind="upper",
    space=SYSTEMS,
    measure=s.theorem1_of_small_steps,
    derivation="2 lambda^i tr X <= tr Cov z, and E||z||^2 <= 2 E||v^i||^2 + 2 (sigma^2/n)(1 + "
    "chi^2) <= 16 sigma^2 deltatilde + 2 sigma^2 (1/n + delta_env^i). With alpha = ln t / "
    "(lambda^i t) this is Theorem 1 for large t, with the constants 1 and 9.",
)
