"""Instances of the main text: objectives of any values, one environment, iterates, samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.claims._meaning import meaning
from experiments.affpcl.claims._spaces import SIZES, SYSTEMS, monotone, standing
from experiments.affpcl.theory.parametrization import ValueStack
from experiments.affpcl.theory.rounds import drawn
from experiments.affpcl.theory.stack import FiniteStack

#: Iterates of one round: the agents', the central one, and the estimated central objective.
ITERATES: Mapping[str, rc.Field] = {
    "x": rc.reals("n", "d"),
    "x_c": rc.reals("d"),
    "theta_c": rc.reals("d"),
}
#: One sample per agent, as numbers in [0, 1]; see :func:`states`.
SAMPLE: Mapping[str, rc.Field] = {"draw": rc.interval("n")}


def same_environment(*, mu: Any, **others: Any) -> FiniteStack:
    """A view of systems in which all agents are in the environment of the first."""
    return FiniteStack(mu=np.repeat(mu[:, :1], mu.shape[1], axis=1), **others)


def states(stack: FiniteStack) -> NDArray[np.int_]:
    """The sampled states of an instance with a field ``draw``, shape (B, ..., n)."""
    return drawn(stack.draw, stack.mu.shape[-1])


def valued(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    *,
    alike: bool = False,
) -> rc.Space:
    """Systems of Section 1.2, sym(Abar^i) > 0 and b^i(s) of any values.

    If ``alike`` all agents are in one environment, which the fields hold once.
    """
    fields = {
        "mu": rc.simplex("S") if alike else rc.simplex("n", "S"),
        "A": rc.reals("S", "d", "d"),
        "b": rc.reals("n", "S", "d"),
        "floor": rc.positive(low=0.001, high=0.5),
        **(extra or {}),
    }
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        repair=partial(_lifted, alike=alike),
        view=_same_environment if alike else ValueStack,
        assumes={"sym(Abar^i) > 0": lambda s: s.lambda_agent > 0},
        batched=True,
        meaning=meaning(
            fields,
            floor="the least eigenvalue that sym(Abar^i) were given, without effect beyond A",
        ),
    )


# Add the smallest multiple of I to A with which sym(Abar^i) >= floor for every agent.
def _lifted(fields: rc.Fields, *, alike: bool) -> rc.Fields:
    mu = fields["mu"][:, None] if alike else fields["mu"]
    return {**fields, "A": monotone(fields["A"], mu, fields["floor"])}


def _same_environment(*, mu: Any, b: Any, **others: Any) -> ValueStack:
    return ValueStack(mu=np.repeat(mu[:, None], b.shape[1], axis=1), b=b, **others)


def everywhere(mu: Any) -> Any:
    """Environments that give every state at least a hundredth of its even share.

    mu moves to (1 - c) mu + c / S with the smallest such c in [0, 1].
    """
    S = mu.shape[-1]
    least = S * mu.min(axis=-1, keepdims=True)
    c = np.maximum(0, 0.01 - least) / (1 - np.minimum(least, 0.01))
    return ((1 - c) * mu * S + c) / S


def _standing_everywhere(fields: rc.Fields) -> rc.Fields:
    """The standing assumptions, and every agent visits every state."""
    return standing({**fields, "mu": everywhere(fields["mu"])})


#: Systems under the standing assumptions in which every agent visits every state.
EVERYWHERE = replace(SYSTEMS, repair=_standing_everywhere)
