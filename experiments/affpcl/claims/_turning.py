"""Systems of damped turns in the plane, where the agents' features can cancel in their mean.

A(s) = damping I + turn(s) J with a quarter turn J acts like a complex number. Where the turns of
agents cancel, the mean Abar^0 is far smaller than every Abar^i, and x_*^c far longer than every
x_*^i: G_x with and without x_*^c (Appendix C.6 and Section 1.2) are different things. With such
turns as objective features the same happens to theta_*^c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._meaning import meaning
from experiments.affpcl.claims._spaces import ASSUMES
from experiments.affpcl.theory.stack import FiniteStack


def damped_turns(*, damping: Any, turn: Any, **fields: Any) -> FiniteStack:
    """The stack with A(s) = damping I + turn(s) J and Phi(s) = I, for damping (B,), turn (B, S)."""
    identity, quarter = np.eye(2, dtype=int), np.array([[0, -1], [1, 0]])
    A = damping[:, None, None, None] * identity + turn[..., None, None] * quarter
    Phi = (1 + 0 * turn)[..., None, None] * identity
    return FiniteStack(A=A, Phi=Phi, **fields)


def turning(extra: Mapping[str, rc.Field] | None = None) -> rc.Space:
    """Such systems, which satisfy the standing assumptions, with further fields if given."""
    fields = {
        "mu": rc.simplex("n", "S"),
        "damping": rc.positive(low=0.001, high=1.0),
        "turn": rc.interval("S", low=-1.0),
        "theta": rc.reals("n", 2),
        **(extra or {}),
    }
    return rc.Space(
        fields=fields,
        sizes={"S": (2, 4), "n": (2, 4)},
        view=damped_turns,
        assumes=ASSUMES,
        batched=True,
        meaning=meaning(fields, turn="the multiple of J in A(s), by state; Phi(s) = I"),
        credible={"damping": (0.01, 1.0)},
        constructed="A(s) = a I + turn(s) J with the quarter turn J of the plane and Phi(s) = I: "
        "turns can cancel in the mean over agents, so that x_*^c is longer than every x_*^i",
    )


TURNING = turning()


def damped_objectives(
    *, common: Any, own: Any, level: Any, damping: Any, turn: Any, **fields: Any
) -> FiniteStack:
    """The stack with A(s) = I and Phi(s) = damping I + turn(s) J, in near or far environments.

    mu^i = (1 - level) common + level own^i, for common (B, S), own (B, n, S) and level (B,).
    """
    share = level[:, None, None]
    turned = damped_turns(
        mu=(1 - share) * common[:, None] + share * own, damping=damping, turn=turn, **fields
    )
    return FiniteStack(mu=turned.mu, A=turned.Phi, Phi=turned.A, theta=turned.theta)


#: ||Phi(s)||^2 <= 0.5^2 + 0.8^2 < 1.
TURNING_OBJECTIVES = rc.Space(
    fields={
        "common": rc.simplex("S"),
        "own": rc.simplex("n", "S"),
        "level": rc.positive(low=0.001, high=1.0),
        "damping": rc.positive(low=1e-4, high=0.5),
        "turn": rc.interval("S", low=-0.8, high=0.8),
        "theta": rc.reals("n", 2),
    },
    sizes={"S": (2, 3), "n": (2, 2)},
    view=damped_objectives,
    assumes=ASSUMES,
    batched=True,
    credible={"damping": (1e-4, 0.5), "level": (0.01, 1.0)},
    constructed="A(s) = I, Phi(s) = a I + turn(s) J with the quarter turn J of the plane, and "
    "environments (1 - level) p + level own^i: turns can cancel in the mean over agents, so that "
    "theta_*^c is far from every theta^i",
    meaning={
        "common": "the environment p that mu^i = (1 - level) p + level own^i have in common",
        "own": "agent i's own part of mu^i",
        "level": "the weight of agents' own parts in mu^i",
        "damping": "a in Phi(s) = a I + turn(s) J, J a quarter turn; A(s) = I",
        "turn": "the multiple of J in Phi(s), by state",
    },
)
