"""A crowd of users alike and two others, for whom the maximum of (3.3) is known exactly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.subspace import Kinds
from linsys.linalg import logistic, squares

#: Ten to the ``power`` users with Theta* = (crowd, 0)', one with (along, aside)' and one with
#: (along, -aside)'; k = 1. All compare the trajectory of reward zero with those whose features are
#: (1, 0)' and (0, 1)', both equally often.
CROWD: dict[str, rc.Field] = {
    "power": rc.whole_numbers(low=2, high=6),
    "crowd": rc.reals(magnitude=(0.1, 3.0)),
    "along": rc.reals(magnitude=(0.1, 3.0)),
    "aside": rc.reals(magnitude=(0.1, 3.0)),
}
CROWD_MEANING = {
    "power": "ten to this power is how many users have Theta* = (crowd, 0)'",
    "crowd": "their parameter",
    "along": "one user has Theta* = (along, aside)', one (along, -aside)'",
    "aside": "see along; all compare (1, 0)' and (0, 1)' with 0, both equally often",
}


def crowd_of_users(*, power: Any, crowd: Any, along: Any, aside: Any, **others: Any) -> Any:
    """``kinds``, three of them, and the further fields as they are."""
    first = np.stack([crowd, along, along], axis=-1)
    second = np.stack([0 * aside, aside, -aside], axis=-1)
    delta = np.stack([first, second], axis=-1)[..., None]
    many = np.stack([(10 + 0 * power) ** power, 1 + 0 * power, 1 + 0 * power], axis=-1)
    return SimpleNamespace(kinds=Kinds(delta, many, 1), **others)


def maximal(s: Any) -> Any:
    """Whether the maximum of (3.3) for N_p = oo is Theta_diamond, with the column (1, 0)'.

    In the ball of radius B the mean log-likelihood of a comparison, at the reward x where y is
    true, has the slope Phi(y) - Phi(x) and a curvature of at least m = Phi'(B). With the column
    (cos v, sin v)' a user of the crowd so loses (m/2) (crowd sin v)^2 or more; the two others,
    whose slopes at (along, 0)' are opposite, gain at most (g^2 - m^2 along^2) (sin v)^2/m
    together, g = Phi(aside) - 1/2.
    """
    (crowd, along), aside = s.kinds.delta[:, :2, 0, 0].T, s.kinds.delta[:, 1, 1, 0]
    B = np.sqrt(squares(s.kinds.delta)).max(axis=-1)
    m, g = logistic(B) * logistic(-B), logistic(aside) - logistic(0 * aside)
    lost, gained = s.kinds.many[:, 0] * (m * crowd) ** 2, 2 * (g**2 - (m * along) ** 2)
    return (lost > gained) & (s.kinds.many[:, 0] * crowd**2 + 2 * along**2 > 2 * aside**2)


#: What makes the estimate of N_p = oo known.
CROWD_GIVEN = {"Theta_diamond is the maximum of (3.3) for N_p = oo": maximal}
