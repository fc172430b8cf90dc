"""A process on a line, which mixes as slowly and has features as long as one likes."""

from __future__ import annotations

import numpy as np

from mgda.momdp import MOMDP


def walk(states: int, rho: float, scale: float, gamma: float) -> MOMDP:
    """A walk whose two actions go right and left, back to the middle with probability 1 - rho.

    One parameter moves all logits. The reward is one right of the middle.
    """
    P = np.zeros((states, 2, states))
    middle, at = states // 2, np.arange(states)
    P[at, 0, np.minimum(at + 1, states - 1)] += rho
    P[at, 1, np.maximum(at - 1, 0)] += rho
    P[:, :, middle] += 1 - rho
    r, x = np.zeros((states, 2, 1)), np.zeros((states, 2, 1))
    r[middle + 1 :], x[:, 0] = 1.0, scale
    return MOMDP(P=P, r=r, gamma=gamma, mu0=np.eye(states)[middle], features=x)
