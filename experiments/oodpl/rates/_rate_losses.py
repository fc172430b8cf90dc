"""L(phi) of (11) and its gradient, at many phi at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.oodpl import _lanes as lanes
from linsys.bilevel import Domain, DomainOracle, LinearReward, TanhReward, optimum
from linsys.validate import Array

__all__ = ["Losses", "exact_losses"]


class Losses(NamedTuple):
    """L at every phi, shape (n,), and its gradients (n, q)."""

    values: Array
    gradients: Array


def exact_losses(
    domains: Sequence[Domain], beta: Array | float, phis: Array, s: Array | float = np.inf
) -> Losses:
    """:func:`linsys.bilevel.meta_loss` in bulk.

    Args:
        domains: each as likely as the others.
        beta: the factor of the reward, a number or one for each phi.
        phis: shape (n, q).
        s: rewards are s tanh(phi . xi / s), a number or one for each phi; linear where infinite.

    Raises:
        InputError: weights that overflow; an inner loss without a unique minimum.

    >>> from linsys.bilevel import meta_distribution
    >>> exact_losses(meta_distribution(0).train, 1.0, np.zeros((3, 4))).gradients.shape
    (3, 4)
    """
    values, gradients = np.zeros(len(phis)), np.zeros_like(phis)
    s, beta = (np.broadcast_to(v, len(phis)) for v in (s, beta))
    bounds, factors = s[:, None, None], beta[:, None, None]
    for domain in domains:
        X, Y, q = domain.reward.xi.shape
        xi = domain.reward.xi.reshape(-1, q)
        index = (phis @ xi.T).reshape(-1, X, Y)
        bent = np.tanh(index / bounds)
        with np.errstate(invalid="ignore", over="ignore"):  # infinity times zero, not taken
            r = np.where(np.isinf(bounds), index, bounds * bent)
            W = domain.law * np.exp(r / factors)
        theta = lanes.minima([domain], W)
        if theta is None:  # also says why there is none
            theta = np.stack([_optimum(domain, *one) for one in zip(phis, s, beta, strict=True)])
        pi = _policies(domain, theta)
        loss, v = _outer(domain, theta)
        along = _solved(domain, W, pi, v) @ domain.policy.psi.reshape(X * Y, -1).T
        along = along.reshape(pi.shape)
        along -= (pi * along).sum(axis=2, keepdims=True)
        values += loss
        gradients += (W * along * (1.0 - bent**2) / factors).reshape(-1, X * Y) @ xi
    return Losses(values / len(domains), gradients / len(domains))


def _optimum(domain: Domain, phi: Array, s: float, beta: float) -> Array:
    """theta_* for one phi, shape (p,)."""
    xi = domain.reward.xi
    reward = LinearReward(xi) if np.isinf(s) else TanhReward(xi, s=float(s))
    oracle = DomainOracle(domain=replace(domain, reward=reward), beta=float(beta))
    return np.asarray(optimum(oracle, phi))


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


def _outer(domain: Domain, theta: Array) -> tuple[Array, Array]:
    """L_PL, shape (n,), and its gradient by theta, shape (n, p)."""
    x, y, other, weights = domain.pairs
    contrasts = domain.policy.psi[x, y] - domain.policy.psi[x, other]
    u = domain.policy.log_h[x, y] - domain.policy.log_h[x, other] + theta @ contrasts.T
    loss = (np.log1p(np.exp(-np.abs(u))) + (np.abs(u) - u) / 2.0) @ weights
    return loss, np.asarray(-(weights * 0.5 * (1.0 - np.tanh(u / 2.0))) @ contrasts)
