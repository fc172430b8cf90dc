"""Inner loops of OOD-PL with all their sequences of samples.

A translation of theta makes theta_* = 0, one of phi makes phi = 0; neither is a restriction, as
log_h and r0 are free. The sampling distributions with theta_* = 0 are those with
D(x) mu_hat(y|x) e^(r/beta) proportional to D'(x) pi_0(y|x) (1 + u(x, y)), where u has mean zero for
each prompt and is orthogonal to the features: no iteration has to find theta_*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._spaces import policy_assumptions, reward_assumptions, within
from experiments.oodpl.theory.bilevel import Policy, Reward, System, TanhReward
from experiments.oodpl.theory.inner import Inner
from linsys.linalg import solve

#: Three answers, so that policies of two parameters can be strongly convex; two where psi repeats
#: one. One entry of phi where printed lemmas leave the norm of a Jacobian open.
SIZES = {"X": (1, 2), "Y": (3, 3), "p": (1, 2), "q": (1, 1)}
#: Steps for one prompt and for two: 27 and 36 sequences of samples.
_STEPS = {1: 3, 2: 2}
_SCALE = (0.01, 3.0)
FIELDS: dict[str, rc.Field] = {
    "psi": rc.reals("X", "Y", "p", magnitude=_SCALE),
    "log_h": rc.reals("X", "Y", magnitude=_SCALE),
    "xi": rc.reals("X", "Y", "q", magnitude=_SCALE),
    "r0": rc.reals("X", "Y", magnitude=_SCALE),
    "level": rc.reals(magnitude=(0.1, 10.0)),
    "D": rc.positive("X", low=0.001, high=1.0),
    "lean": rc.reals("X", "Y", magnitude=_SCALE),
    "beta": rc.positive(low=0.1, high=10.0),
    "start": rc.reals("p", magnitude=(0.001, 3.0)),
    "reach": rc.positive(low=0.001, high=1.0),
    "share": rc.positive(low=0.01, high=2.0),
}
#: Weights of the pairs (y, y') of the outer loss.
PAIRS: dict[str, rc.Field] = {"pair": rc.positive("X", "Y", "Y", low=0.001, high=1.0)}
MEANING = {
    "psi": "features: pi is proportional to exp(log_h + theta.psi), and theta_* = 0",
    "xi": "the reward is level + r0 + xi.phi at phi = 0; where phi is drawn, with tanh(xi.phi)",
    "D": "D(x) times the mean of mu_hat e^(r/beta), before both are made to sum to one",
    "lean": "D(x) mu_hat e^(r/beta) / pi beside what theta_* = 0 leaves of it, before it is scaled",
    "start": "theta_0",
    "reach": "constants of the reward are those of ||phi|| <= reach",
    "share": "alpha, over 4 / d^2 times e^beta / B or B^(-1/beta), d the diameter of the features",
    "pair": "weights of the pairs (y, y') of the outer loss, before they are made to sum to one",
}
View = Callable[..., Any]
CONSTRUCTED = (
    "theta_* = 0, a translation of theta: the sampling distribution is drawn among those that have "
    "this minimiser"
)


def quiet(function: View) -> View:
    """A view without NumPy's warnings: instances at the edge of floats are ruled out later."""

    def silent(*args: Any, **fields: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **fields)

    return silent


def sampled(policy: Policy, tilt: Any, D: Any, lean: Any) -> Any:
    """D(x) mu_hat(y|x), shape (B, X, Y), such that theta_* = 0 for the weights e^(r/beta)."""
    origin = 0 * policy.psi[:, 0, 0]
    weight, g = D[..., None] * policy.pi(origin), policy.gradient(origin)
    mean = (policy.pi(origin) * lean).sum(axis=-1, keepdims=True)
    slope = ((weight * (lean - mean))[..., None] * g).sum(axis=(1, 2))
    curvature = -(D[..., None, None] * policy.hessian(origin)).sum(axis=1)
    u = lean - mean - (g * solve(curvature, slope)[:, None, None]).sum(axis=-1)
    largest = np.abs(u).max(axis=(1, 2))[:, None, None]
    tilted = weight * (1 + u / (1 + largest)) / tilt
    return tilted / tilted.sum(axis=(1, 2), keepdims=True)


@quiet
def inner(
    *,
    printed: bool,
    psi: Any,
    log_h: Any,
    xi: Any,
    r0: Any,
    level: Any,
    D: Any,
    lean: Any,
    beta: Any,
    reach: Any,
    share: Any,
    start: Any = None,
    pair: Any = None,
    phi: Any = None,
    **others: Any,
) -> SimpleNamespace:
    """``run``, ``pairs``, weights of the pairs, where the fields have them, and further fields.

    Without a ``start`` there are no steps, and constants are those at theta_*. The reward is
    linear, or with a ``phi`` that is not 0 has the hyperbolic tangent.
    """
    policy = Policy(psi=psi, log_h=log_h)
    reward = (Reward if phi is None else TanhReward)(xi=xi, r0=r0 + level[:, None, None])
    phi = 0 * xi[:, 0, 0] if phi is None else phi
    origin = 0 * psi[:, 0, 0]
    tilt = np.exp(reward.values(phi) / beta[:, None, None])
    chance = sampled(policy, tilt, D, lean)
    prompts = chance.sum(axis=-1)
    mu_hat = chance / prompts[..., None]
    system = System(policy=policy, reward=reward, prompts=prompts, mu_hat=mu_hat, beta=beta)
    run = Inner(
        system=system,
        phi=phi,
        theta_0=origin if start is None else start,
        theta_star=origin,
        alpha=0 * beta,
        reach=reach,
        D=0 if start is None else _STEPS[psi.shape[1]],
    )
    _, high = run.printed if printed else run.true
    run = run.with_step(share * 4 / (high * policy.diameter**2))
    if pair is not None:
        pair = pair / pair.sum(axis=(1, 2, 3), keepdims=True)
    return SimpleNamespace(run=run, pairs=pair, **others)


@quiet
def strongly_convex(s: SimpleNamespace) -> Any:
    """Assumption 1 on the ball, away from rounding."""
    return s.run.policy.mu > 1e-9 * s.run.policy.L


def stable(s: SimpleNamespace) -> Any:
    """alpha < 2 / (B^(1/beta) L), with which gamma < 1, away from rounding."""
    return s.run.gamma < 1 - 1e-6


def _variances(s: SimpleNamespace) -> Any:
    """Assumption 4, (21) to (23) with squares, at theta_* and at the iterates."""
    sides = zip(s.run.variances, s.run.largest_variances, strict=True)
    return np.stack([within(variance, most) for variance, most in sides]).all(axis=0)


def _policy(s: SimpleNamespace) -> Any:
    """The policy, theta_0, theta_* and the constants along the run."""
    return s.run.system.policy, s.run.theta_0, s.run.theta_star, s.run.policy


def _reward(s: SimpleNamespace) -> Any:
    """The reward, phi and the constants on its ball."""
    return s.run.system.reward, s.run.phi, s.run.reward


#: What the constants of a run stand for, at theta_0, theta_* and phi.
ASSUMES: dict[str, View] = {
    name: quiet(holds)
    for name, holds in {
        **policy_assumptions(_policy),
        **reward_assumptions(_reward),
        "Assumption 4": _variances,
    }.items()
}


def runs(
    printed: bool = False,
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    given: Mapping[str, View] | None = None,
    steps: bool = True,
) -> rc.Space:
    """Inner loops with step sizes up to twice those that the largest curvature d^2 / 4 allows.

    Without ``steps`` there is theta_* alone.
    """
    fields = {**FIELDS, **(extra or {})}
    if not steps:
        del fields["start"]
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        view=partial(inner, printed=printed),
        assumes=ASSUMES,
        given={
            "strongly convex": strongly_convex,
            **{name: quiet(holds) for name, holds in (given or {}).items()},
        },
        batched=True,
        meaning={name: line for name, line in MEANING.items() if name in fields},
        constructed=CONSTRUCTED,
    )
