"""Instances that the statements of OOD-PL are about: domains of few prompts and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.theory.bilevel import Policy, Reward, System, TanhReward
from experiments.oodpl.theory.constants import PolicyConstants, RewardConstants
from experiments.oodpl.theory.smoothness import Jet, printed_range, true_range
from linsys.linalg import lambda_min, norm, operator_norm

#: Prompts, answers of each, and the sizes of theta and phi.
SIZES = {"X": (1, 2), "Y": (2, 4), "p": (1, 2), "q": (1, 2)}
_SCALE = (0.1, 3.0)
FIELDS: dict[str, rc.Field] = {
    "psi": rc.reals("X", "Y", "p", magnitude=_SCALE),
    "log_h": rc.reals("X", "Y", magnitude=(0.1, 10.0)),
    "xi": rc.reals("X", "Y", "q", magnitude=_SCALE),
    "r0": rc.reals("X", "Y", magnitude=(0.1, 5.0)),
    "D": rc.simplex("X"),
    "log_mu": rc.reals("X", "Y", magnitude=(0.1, 10.0)),
    "beta": rc.positive(low=0.3, high=10.0),
    "R": rc.positive(low=0.001, high=3.0),
    "at": rc.ball("p"),
    "phi": rc.ball("q"),
}
MEANING = {
    "psi": "features: pi is proportional to exp(log_h + theta.psi)",
    "xi": "the reward is r0 + xi.phi, or r0 + tanh(xi.phi)",
    "D": "chances of the prompts",
    "log_mu": "mu_hat is proportional to its exponential",
    "R": "radius of the ball of all theta, about 0",
    "at": "theta / R",
    "phi": "phi, in the ball of radius one",
    "other": "another theta / R",
    "z": "samples, numbers Y x + y; cut to Y X - 1",
    "pair": "the preferred answer, the other one, and their prompt, cut to what there is",
}
#: A second theta.
OTHER: dict[str, rc.Field] = {"other": rc.ball("p")}
#: The samples z_0, ..., z_(D-1) of the inner loop, its step size, and the pair of the outer loss.
SAMPLES: dict[str, rc.Field] = {
    "z": rc.whole_numbers("D", low=0, high=7),
    "alpha": rc.positive(low=0.001, high=1.0),
    "pair": rc.whole_numbers(3, low=0, high=3),
}
STEPS = {"D": (1, 3)}


def indices(values: Any, most: Any) -> Any:
    """Whole numbers as indices, at most ``most``."""
    return np.minimum(values.astype(float).astype(int), most)


def domain(
    *,
    psi: Any,
    log_h: Any,
    xi: Any,
    r0: Any,
    D: Any,
    log_mu: Any,
    beta: Any,
    R: Any,
    at: Any,
    phi: Any,
    smooth: bool = False,
    **others: Any,
) -> SimpleNamespace:
    """``system``, ``theta``, ``phi``, ``policy`` and ``reward`` (constants); others as indices.

    The constants are those of the balls ||theta|| <= R and ||phi|| <= 1.
    """
    X, Y = psi.shape[1:3]
    policy = Policy(psi=psi, log_h=log_h)
    reward = (TanhReward if smooth else Reward)(xi=xi, r0=r0)
    mu_hat = np.exp(Policy(psi=0 * psi, log_h=log_mu).log_pi(0 * at))
    if "other" in others:
        others["other"] = R[:, None] * others["other"]
    if "z" in others:
        others["z"] = indices(others["z"], X * Y - 1)
    if "pair" in others:
        y, y_other, x = np.moveaxis(others["pair"], -1, 0)
        places = indices(x, X - 1), indices(y, Y - 1), indices(y_other, Y - 1)
        others["pair"] = (places[0] * Y + places[1]) * Y + places[2]
    return SimpleNamespace(
        system=System(policy=policy, reward=reward, prompts=D, mu_hat=mu_hat, beta=beta),
        theta=R[:, None] * at,
        phi=phi,
        policy=PolicyConstants(policy, R),
        reward=RewardConstants(reward, 1 + 0 * R),
        **others,
    )


def printed(s: Any) -> Any:
    """The range of exp(r/beta) as the paper has it."""
    return printed_range(s.reward, s.system.beta)


def true(s: Any) -> Any:
    """The range that it has."""
    return true_range(s.reward, s.system.beta)


def points(s: Any) -> Any:
    """Two theta."""
    return s.theta, s.other


def smooth_domain(**fields: Any) -> SimpleNamespace:
    """A domain with bounded rewards, r0 + tanh(xi.phi)."""
    return domain(smooth=True, **fields)


def within(measured: Any, bound: Any) -> Any:
    """Whether measured <= bound but for rounding; what is no number is ruled out elsewhere."""
    return np.logical_not(measured * 10**12 > bound * (10**12 + 1))


#: By name what a function of an instance has to give for each assumption.
Assumptions = dict[str, Callable[..., Any]]


def policy_assumptions(
    parts_of: Callable[[Any], tuple[Policy, Any, Any, PolicyConstants]],
) -> Assumptions:
    """Assumptions 1 to 3 of the policy, at two theta of the ball that its constants are for.

    ``parts_of`` gives the policy, both theta and the constants of an instance. Differences of
    numbers as large as L are compared up to L/10^9.
    """

    def mu(s: Any) -> Any:
        policy, theta, other, at = parts_of(s)
        least = [lambda_min(-policy.hessian(place)).min(axis=-1) for place in (theta, other)]
        return within(at.mu, np.minimum(*least) + at.L / 10**9)

    def M(s: Any) -> Any:
        policy, theta, other, at = parts_of(s)
        sizes = [norm(policy.gradient(place)).max(axis=(-2, -1)) for place in (theta, other)]
        return within(np.maximum(*sizes), at.M)

    def L(s: Any) -> Any:
        policy, theta, other, at = parts_of(s)
        sizes = [operator_norm(policy.hessian(place)).max(axis=-1) for place in (theta, other)]
        return within(np.maximum(*sizes), at.L)

    def rho(s: Any) -> Any:
        policy, theta, other, at = parts_of(s)
        change = operator_norm(policy.hessian(theta) - policy.hessian(other)).max(axis=-1)
        return within(change, at.rho * norm(theta - other) + at.L / 10**9)

    def C(s: Any) -> Any:
        policy, theta, other, at = parts_of(s)
        sizes = [np.abs(policy.log_pi(place)).max(axis=(-2, -1)) for place in (theta, other)]
        return within(np.maximum(*sizes), at.C)

    return {
        "Assumption 1, mu": mu,
        "Assumption 2, M": M,
        "Assumption 2, L": L,
        "Assumption 2, rho": rho,
        "Assumption 3, C": C,
    }


def reward_assumptions(
    parts_of: Callable[[Any], tuple[Reward, Any, RewardConstants]],
) -> Assumptions:
    """Assumptions 2 and 3 of the reward, at phi and between phi and 0.

    ``parts_of`` gives the reward, phi and the constants of an instance.
    """

    def T(s: Any) -> Any:
        reward, phi, at = parts_of(s)
        return within(norm(reward.gradient(phi)).max(axis=(-2, -1)), at.T)

    def P(s: Any) -> Any:
        reward, phi, at = parts_of(s)
        change = norm(reward.gradient(phi) - reward.gradient(0 * phi)).max(axis=(-2, -1))
        return within(change, at.P * norm(phi) + at.T / 10**9)

    def bounds(s: Any) -> Any:
        reward, phi, at = parts_of(s)
        values = np.exp(reward.values(phi))
        low, high = values.min(axis=(-2, -1)), values.max(axis=(-2, -1))
        return np.logical_and(within(at.b, low), within(high, at.B))

    return {"Assumption 2, T": T, "Assumption 2, P": P, "Assumption 3, b and B": bounds}


def _policy(s: Any) -> Any:
    """The policy, theta, the centre of its ball and the constants there."""
    return s.system.policy, s.theta, 0 * s.theta, s.policy


def _reward(s: Any) -> Any:
    """The reward, phi and the constants on its ball."""
    return s.system.reward, s.phi, s.reward


#: What the constants of a domain stand for, at its own theta and phi and at the balls' centres.
ASSUMES: Assumptions = {**policy_assumptions(_policy), **reward_assumptions(_reward)}


def domains(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    view: Callable[..., Any] = domain,
    **options: Any,
) -> rc.Space:
    """Domains, with further fields; ``sizes`` adds to or replaces ranges."""
    fields = {**FIELDS, **(extra or {})}
    meaning = {**MEANING, **options.pop("meaning", {})}
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        view=view,
        assumes=ASSUMES if view in (domain, smooth_domain) else {},
        batched=True,
        meaning={name: line for name, line in meaning.items() if name in fields},
        **options,
    )


#: A domain at one theta and phi, and at two of theta.
POINTS = domains()
PAIRS = domains(OTHER)
#: The same on balls where Assumption 1 holds, for what would otherwise be refuted outside of it.
_STRONG = {"strongly convex on the ball": lambda s: s.policy.mu > 1e-6}
STRONG_POINTS = domains(given=_STRONG)
STRONG_PAIRS = domains(OTHER, given=_STRONG)
#: The same with bounded rewards.
SMOOTH = domains(OTHER, view=smooth_domain)
#: Runs of the inner loop with one pair of answers for the outer loss.
RUNS = domains(SAMPLES, STEPS, view=smooth_domain)
_JET = {
    "pi": rc.simplex("Y"),
    "slopes": rc.reals("Y", "p", magnitude=(0.1, 3.0)),
    "curvatures": rc.reals("Y", "p", "p", magnitude=(0.01, 10.0)),
}


def _jet(*, pi: Any, slopes: Any, curvatures: Any) -> Jet:
    """Chances bounded away from zero, so that log pi exists."""
    floor = pi + 1e-12
    return Jet(floor / floor.sum(axis=-1, keepdims=True), slopes, curvatures)


#: Any policy to second order at a point.
JETS = rc.Space(
    fields=_JET,
    sizes={"Y": (2, 4), "p": (1, 2)},
    view=_jet,
    batched=True,
    meaning={
        "pi": "chances of the answers, before 1e-12 is added to each",
        "slopes": "grad log pi(y), before their mean is subtracted",
        "curvatures": "Hessians of log pi(y), before they are made symmetric and normalised",
    },
)
