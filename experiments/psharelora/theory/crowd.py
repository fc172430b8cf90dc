"""P-ShareLoRA, Theorem B.3 without coverage: a crowd of other users decides on the shared basis.

d1 = d2 = 2 and k = 1: Theta*_i = b w_i'. Features are e_1 or e_2 in the second column, n = N_p / 2
comparisons with zero of each, so that the first column of Theta is never seen. All users but one
have w = (1, 0): their rewards look like none, and their labels are coin flips. nu is 1 and
Sigma_tail is 0. As N grows beyond N_p^2, the direction b_hat is the one along which coin flips
are best explained; the one user with w = (0, s) can only fit his preferences along it.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from experiments.psharelora.theory.fitted import maximiser
from experiments.psharelora.theory.preference import log_logistic
from linsys.linalg import logistic

__all__ = ["crowd_gain", "lone_error"]

Floats = NDArray[np.float64]


def crowd_gain(n: int, direction: Floats, radius: float = 4.0) -> float:
    """E max_s of the log-likelihood of 2 n coin flips with rewards s b, above that of none.

    Exact: the numbers of wins along e_1 and e_2 are binomial.
    """
    wins = np.arange(n + 1.0)
    chance = np.array([comb(n, k) / 2**n for k in range(n + 1)])
    share = np.stack([part.ravel() / n for part in np.meshgrid(wins, wins)], axis=1)
    b = np.broadcast_to(direction, share.shape)
    x = maximiser(b, share, np.full(len(share), radius))[:, None] * b
    gain = n * (share * log_logistic(x) + (1 - share) * log_logistic(-x) + np.log(2)).sum(axis=1)
    return float(gain @ np.outer(chance, chance).ravel())


def lone_error(n: int, s: float = 1.0, directions: int = 13) -> float:
    """Mean squared error of the lone user's rewards, b = (1, 1)/sqrt(2), along the crowd's b_hat.

    b_hat is the direction of largest :func:`crowd_gain` among some between e_1 and e_2; with the
    exact shares of wins as the lone user's labels.
    """
    angles = np.linspace(0, np.pi / 2, directions)
    axes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    best = axes[int(np.argmax([crowd_gain(n, axis) for axis in axes]))]
    truth = np.full((1, 2), s / np.sqrt(2))
    t = maximiser(best[None], logistic(truth), np.array([4.0 * s]))
    return float(((t * best - truth[0]) ** 2).mean())
