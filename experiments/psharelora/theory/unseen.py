"""P-ShareLoRA, Theorems 4.1 and 4.2: what maximum likelihood does where comparisons see too little.

Rewards are <Theta_i, psi(tau)>. Comparisons see the differences of the compared features alone, so
that the likelihood has many maxima: the statements here hold for the one of least norm, and say
what is true of every other choice. Any number of axes may come first.
"""

from __future__ import annotations

import numpy as np

from experiments.psharelora.theory.chance import Class
from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import Numbers, inverse, logistic, norm, squares, transpose

__all__ = ["least_loss", "log_brackets", "logits_of_shares", "seen_columns", "turned"]


def log_brackets(
    users: Adaptation, L1: Numbers, B2: Numbers, n: Numbers, delta: Numbers
) -> Numbers:
    """What psl.prop_1 proves log(N_br(1/(N n))/delta) to be at most, for ||Theta_i||_F^2 <= B2."""
    sizes = (users.users, n, *users.delta.shape[-2:], users.k)
    N, n, d1, d2, k = (np.asarray(size) for size in sizes)
    c = Class(N=N, n=n, d1=d1, d2=d2, k=k, B=np.sqrt(B2), L1=L1, delta=delta)
    return c.covered(c.shared, k + N * B2, 1 + B2)


def seen_columns(psi: Numbers) -> Numbers:
    """The columns of all psi(tau) - psi(tau_0), (..., d1, (T - 1) d2)."""
    seen = psi[..., 1:, :, :] - psi[..., :1, :, :]
    columns = np.swapaxes(seen, -3, -2)
    return np.asarray(columns.reshape(*columns.shape[:-2], -1))


def turned(users: Adaptation, psi: Numbers) -> Adaptation:
    """(P - Q) Delta Theta*_i, P the projection on the columns that comparisons see, Q = I - P.

    All preferences, norms and singular values are those of Delta Theta*.

    >>> users = Adaptation(np.array([[[1.0], [1.0]]]), 1)
    >>> turned(users, np.array([[[0.0], [0.0]], [[0.0], [1.0]]])).delta.ravel().tolist()
    [-1.0, 1.0]
    """
    columns = seen_columns(psi)
    P = columns @ inverse(transpose(columns) @ columns) @ transpose(columns)
    kept = P[..., None, :, :] @ users.delta
    return Adaptation(2 * kept - users.delta, users.k)


def logits_of_shares(gap: Numbers, n: Numbers) -> Numbers:
    """What an observed share of wins within 2/sqrt(n) of Phi(gap) has as its logit, (..., 2).

    The two ends; by Hoeffding's inequality the share of 0.45 n comparisons is in between with
    chance at least 1 - 2 exp(-3.6) = 0.945.
    """
    aside = 2 / np.sqrt(n)
    shares = np.stack([logistic(gap) - aside, logistic(gap) + aside], axis=-1)
    return np.asarray(np.log(shares / (1 - shares)))


def least_loss(theta: Numbers, psi: Numbers, fitted: Numbers, radius: Numbers) -> Numbers:
    """What the choice (3.5) between the trajectories loses at least, against the better of two.

    Only the first two trajectories, half of the reference each, are compared with each other. The
    maximum of the likelihood of least norm is t x/||x||^2, x their difference; ``fitted`` (..., 2)
    has the ends of an interval that holds t. A trajectory is left out if another one is better by
    a hundredth at both ends, hence for all t in between.

    Args:
        theta: Theta*, (..., d).
        psi: features, (..., T, d).
        fitted: ends of the interval of t.
        radius: of the confidence set, (...).
    """
    x = psi[..., 0, :] - psi[..., 1, :]
    v = psi - (psi[..., :1, :] + psi[..., 1:2, :]) / 2
    along = (v @ x[..., None])[..., 0] / squares(x[..., None])[..., None]
    values = fitted[..., :, None] * along[..., None, :]
    values = values - (radius[..., None] * norm(v))[..., None, :]
    better = 100 * (values[..., :, None] - values[..., None, :]) >= 1
    out = better.all(axis=-3).any(axis=-2)
    worth = (psi @ theta[..., None])[..., 0]
    loss = worth[..., :2].max(axis=-1)[..., None] - worth
    return np.asarray(np.where(out, loss.max(axis=-1)[..., None], loss).min(axis=-1))
