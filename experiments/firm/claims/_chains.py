"""Instances that the statements of FIRM on actors and critics are about: tabular processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.theory.chain import Chains
from linsys.linalg import norm, squared

#: No transition is less probable: chains are ergodic under every policy.
LEAST = 1 / 64
#: The least lambda_A of Assumption 2(c).
FLOOR = 1e-3
SIZES = {"S": (2, 3), "A": (2, 2), "M": (1, 2), "d2": (1, 2)}
PROCESS: Mapping[str, rc.Field] = {
    "P": rc.simplex("S", "A", "S"),
    "r": rc.interval("S", "A", "M"),
    "r_max": rc.positive(low=0.1, high=10.0),
    "gamma": rc.interval(low=0.05, high=0.95),
    "theta": rc.reals("S", "A", magnitude=(0.1, 5.0)),
    "phi": rc.ball("S", "d2"),
    "start": rc.simplex("S"),
}
#: What fields are whose names are not symbols of the paper.
MEANING = {
    "P": "P(s'|s, a) before every entry is raised to 1/64 or more: (1 - S/64) P + 1/64",
    "r": "rewards over r_max",
    "theta": "the policy's logits",
    "phi": "the critics' features",
    "start": "the law of s_0",
    "other": "the logits of a second policy",
    "scale": "the length of the policy's features: parameters are logits over it",
    "w": "the critics' weights over R_w",
    "lam": "weights lambda",
    "size": "transitions in a batch",
}
#: Longer or shorter features of the policy: Assumption 3(a) allows any C_psi = sqrt(2) c.
LONG: Mapping[str, rc.Field] = {"scale": rc.positive(low=0.1, high=100.0)}


#: Two states, two actions, all transitions 1/2, a uniform policy and r = 1 for the first action.
COIN: Mapping[str, Any] = {
    "P": np.full((2, 2, 2), 0.5),
    "r": np.array([[[1.0], [0.0]]] * 2),
    "r_max": 1.0,
    "gamma": 0.9,
    "theta": np.zeros((2, 2)),
    "start": np.full(2, 0.5),
}
#: The same with one feature of the critics for each state.
SIMPLEST: Mapping[str, Any] = {**COIN, "phi": np.eye(2)}


def inside(instance: Any) -> Any:
    """The field "w" as critics' weights in H, (B, M, d2)."""
    return instance.w * instance.chains.R_w(instance.r_max)[:, None, None]


def _process(
    *, P: Any, r: Any, r_max: Any, gamma: Any, theta: Any, phi: Any, start: Any, **others: Any
) -> SimpleNamespace:
    """The processes as ``chains``; a second policy ``other`` becomes ``there``."""
    S = P.shape[-1]
    chains = Chains(
        P=(1 - S * LEAST) * P / P.sum(axis=-1, keepdims=True) + LEAST,
        r=r * r_max[:, None, None, None],
        gamma=gamma,
        theta=theta,
        phi=phi,
        start=start / start.sum(axis=-1, keepdims=True),
        scale=others.pop("scale", 1),
    )
    if "other" in others:
        others["there"] = replace(chains, theta=others.pop("other"))
    return SimpleNamespace(chains=chains, r_max=r_max, **others)


def _rewards_in_range(s: Any) -> Any:
    return ((s.chains.r >= 0) & (s.chains.r <= s.r_max[:, None, None, None])).all(axis=(1, 2, 3))


def _features_in_ball(s: Any) -> Any:
    # the domain's own rounding of vectors onto the sphere
    return (squared(s.chains.phi) <= 1 + 1e-12).all(axis=1)


def _every_transition(s: Any) -> Any:
    return (s.chains.P > 0).all(axis=(1, 2, 3))


def _scores_in_ball(s: Any) -> Any:
    # |psi| < sqrt(2) c = C_psi for any softmax policy, with room for roundings
    return (norm(s.chains.psi) <= s.chains.C_psi[:, None, None]).all(axis=(1, 2))


def _definite(s: Any) -> Any:
    return s.chains.lambda_A >= FLOOR


#: Assumption 2(c) is asked of instances in ``given``, as not every kernel meets it.
ASSUMPTIONS: Mapping[str, Any] = {
    "Assumption 1(b): irreducible and aperiodic, as all transitions occur": _every_transition,
    "Assumption 1(c): 0 <= r <= r_max": _rewards_in_range,
    "Assumption 2(b): |phi| <= 1": _features_in_ball,
    "Assumption 3(a): |psi| <= C_psi": _scores_in_ball,
}


def processes(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> rc.Space:
    """Ergodic processes under Assumptions 1 and 2: ``chains`` and ``r_max``, with further fields.

    Args:
        extra: further fields; "scale" and "other" (see :data:`MEANING`) go into ``chains`` and
            ``there``, all others are attributes.
        sizes: ranges of further axes, or other ranges of the usual ones.
    """
    fields = {**PROCESS, **(extra or {})}
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        view=_process,
        assumes=ASSUMPTIONS,
        credible={"gamma": (0.1, 0.99)},
        given={"Assumption 2(c) with lambda_A of 0.001 or more": _definite},
        batched=True,
        meaning={name: line for name, line in MEANING.items() if name in fields},
    )


def _any_lambda_A(s: Any) -> Any:
    return s.chains.lambda_A_of_all > 0


def tabular(space: rc.Space) -> rc.Space:
    """The space without the fields of critics' features: critics have one feature for every state.

    So V = phi'w_*, hence zeta = 0, for every policy and every law of the states.
    """
    view = space.view

    def processes_with_features(**arrays: Any) -> Any:
        S = arrays["P"].shape[1]
        return view(phi=0 * arrays["P"][:, :, 0] + np.eye(S, dtype=int), **arrays)

    return replace(
        space,
        fields={name: field for name, field in space.fields.items() if name != "phi"},
        sizes={name: ends for name, ends in space.sizes.items() if name != "d2"},
        meaning={name: line for name, line in space.meaning.items() if name != "phi"},
        view=processes_with_features,
        given={},
        assumes={**space.assumes, "Assumption 2(c): lambda_A > 0 for every policy": _any_lambda_A},
        constructed="critics have one feature a state",
    )


def _walk(
    *, r: Any, x: Any, start: Any, horizon: Any, memory: Any, c: Any, logit: Any, other: Any
) -> SimpleNamespace:
    """Walks ``chains`` and ``there`` under two parameters, logit / c and other / c."""
    S = r.shape[-1]
    places, step = np.arange(S), np.zeros((S, 2, S), dtype=int)
    step[places, 0, np.minimum(places + 1, S - 1)] = 1
    step[places, 1, np.maximum(places - 1, 0)] = 1
    start = start / start.sum(axis=-1, keepdims=True)
    rho = (1 - 1 / memory)[:, None, None, None]
    chains = Chains(
        P=rho * step + (1 - rho) * start[:, None, None],
        r=np.stack([r, r], axis=-1)[..., None],
        gamma=1 - 1 / horizon,
        theta=np.stack([x * logit[:, None], 0 * x], axis=-1),
        phi=0 * r[..., None] + 1,
        start=start,
        scale=c,
    )
    there = replace(chains, theta=np.stack([x * other[:, None], 0 * x], axis=-1))
    return SimpleNamespace(chains=chains, there=there, x=x, c=c, gap=np.abs(logit - other))


#: Walks to the right and to the left with restarts, rewards in [0, 1], and one parameter.
WALKS = rc.Space(
    fields={
        "r": rc.interval("S"),
        "x": rc.interval("S"),
        "start": rc.simplex("S"),
        "horizon": rc.positive(low=1.05, high=1e4),
        "memory": rc.positive(low=1.05, high=1e3),
        "c": rc.positive(low=1.0, high=1e4),
        "logit": rc.interval(low=-3.0, high=3.0),
        "other": rc.interval(low=-3.0, high=3.0),
    },
    sizes={"S": (3, 9)},
    view=_walk,
    batched=True,
    credible={"c": (1.0, 1e4), "horizon": (1.1, 1000.0)},
    constructed="places in a row, actions to the right and to the left, restarts after steps that "
    "forget, and one parameter for all places",
    meaning={
        "r": "the reward of a place",
        "x": "the policy's features: the logit of a step to the right is c x(s) times a parameter",
        "start": "the law of s_0 and of the place after a restart",
        "horizon": "1/(1-gamma)",
        "memory": "1/(1-rho), the mean time between two restarts",
        "c": "the longest feature",
        "logit": "the first parameter times c",
        "other": "the second parameter times c",
    },
)
