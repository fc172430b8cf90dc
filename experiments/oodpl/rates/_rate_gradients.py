"""grad L(phi) at many phi at once: what every round of a run is judged by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linsys.bilevel import Domain
from linsys.validate import Array, InputError

__all__ = ["exact_gradients"]

#: The largest number of Newton steps, and the relative length of a step at which they end. A step
#: is shortened where it would change log-odds of pi by more than one. As convergence is quadratic,
#: the error after the last step is about the square of its length, which is all that badly
#: conditioned optima allow.
_STEPS, _SMALL = 500, 1e-7


def exact_gradients(
    domains: Sequence[Domain], beta: float, phis: Array, s: Array | float = np.inf
) -> Array:
    """grad L of (11) at every phi (n, q), shape (n, q): :func:`linsys.bilevel.meta_loss` in bulk.

    Args:
        domains: each as likely as the others.
        beta: the factor of the reward.
        phis: shape (n, q).
        s: rewards are s tanh(phi . xi / s), a number or one for each phi; linear where infinite.

    Raises:
        InputError: an inner optimum that Newton's method does not reach.

    >>> from linsys.bilevel import meta_distribution
    >>> exact_gradients(meta_distribution(0).train, 1.0, np.zeros((3, 4))).shape
    (3, 4)
    """
    total = np.zeros_like(phis)
    bounds = np.broadcast_to(s, len(phis))[:, None, None]
    for domain in domains:
        index = np.einsum("nq,xyq->nxy", phis, domain.reward.xi)
        with np.errstate(invalid="ignore"):  # infinity times zero, not taken
            r = np.where(np.isinf(bounds), index, bounds * np.tanh(index / bounds))
        W = domain.law * np.exp(r / beta)
        slope = 1.0 - np.tanh(index / bounds) ** 2
        theta = _optima(domain, W)
        pi = _policies(domain, theta)
        v = _outer(domain, theta)
        along = np.einsum("xyp,np->nxy", domain.policy.psi, _solved(domain, W, pi, v))
        along -= (pi * along).sum(axis=2, keepdims=True)
        total += np.einsum("nxy,xyq->nq", W * along * slope, domain.reward.xi) / beta
    return total / len(domains)


def _policies(domain: Domain, theta: Array) -> Array:
    """pi of every theta (n, p), shape (n, X, Y)."""
    psi = domain.policy.psi
    flat = theta @ psi.reshape(-1, psi.shape[2]).T
    logits = domain.policy.log_h + flat.reshape(-1, *psi.shape[:2])
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def _solved(domain: Domain, W: Array, pi: Array, v: Array) -> Array:
    """H^{-1} v for every policy, shape (n, p)."""
    psi = domain.policy.psi
    scores = psi - np.matmul(pi[:, :, None, :], psi)  # (n, X, Y, p)
    weights = W.sum(axis=2, keepdims=True) * pi
    flat = scores.reshape(len(W), -1, psi.shape[2])
    H = np.swapaxes(flat, 1, 2) @ (weights.reshape(len(W), -1, 1) * flat)
    return np.asarray(np.linalg.solve(H, v[..., None])[..., 0])


def _optima(domain: Domain, W: Array) -> Array:
    """theta_* for the weights W (n, X, Y) of the data, shape (n, p)."""
    theta = np.zeros((len(W), domain.policy.p))
    # the scale of W has no effect on theta_*
    W = W / W.sum(axis=(1, 2), keepdims=True)
    width = float(domain.policy.diameters.max())
    for _ in range(_STEPS):
        pi = _policies(domain, theta)
        excess = W.sum(axis=2, keepdims=True) * pi - W
        slope = excess.reshape(len(W), -1) @ domain.policy.psi.reshape(excess[0].size, -1)
        step = _solved(domain, W, pi, slope)
        size = np.linalg.norm(step, axis=1)
        theta = theta - step / (1.0 + np.where(width * size > 1.0, width * size, 0.0))[:, None]
        if (size <= _SMALL * (1.0 + np.linalg.norm(theta, axis=1))).all():
            return theta
    raise InputError(
        f"the inner loss of domain `{domain.name}` must have a minimum; found steps of length "
        f"{size.max():.3g} after {_STEPS} of them"
    )


def _outer(domain: Domain, theta: Array) -> Array:
    """grad_theta L_PL, shape (n, p)."""
    x, y, other, weights = domain.pairs
    contrasts = domain.policy.psi[x, y] - domain.policy.psi[x, other]
    u = domain.policy.log_h[x, y] - domain.policy.log_h[x, other] + theta @ contrasts.T
    return np.asarray(-(weights * 0.5 * (1.0 - np.tanh(u / 2.0))) @ contrasts)
