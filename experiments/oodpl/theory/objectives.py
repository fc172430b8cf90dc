"""OOD-PL, Sections 2 and 3 and Appendix A: a parameter for every answer; margins, accuracy."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.oodpl.theory.bilevel import Policy, System, log_loss, pick_pair
from experiments.oodpl.theory.inner import flat
from linsys.linalg import Numbers

__all__ = ["accuracy", "margins", "parameters", "unrestricted"]


def unrestricted(system: System) -> System:
    """A domain whose policy has a parameter for every answer but the first of a prompt."""
    log_h = system.policy.log_h
    X, Y = log_h.shape[-2:]
    free = np.eye(X * Y, dtype=int).reshape(X, Y, X, Y)[..., 1:].reshape(X, Y, -1)
    policy = Policy(psi=free + 0 * log_h[..., None], log_h=log_h)
    return System(policy, system.reward, system.prompts, system.mu_hat, system.beta)


def parameters(system: System, pi: Numbers) -> Numbers:
    """The theta with pi_theta = pi (..., X, Y), for a system of :func:`unrestricted`: (..., p)."""
    scores = np.log(pi) - system.policy.log_h
    return flat(scores[..., 1:] - scores[..., :1])


def margins(system: System, theta: Numbers, pairs: Numbers, lengths: Numbers) -> Numbers:
    """log pi(y|x) / |y| - log pi(y'|x) / |y'| of N pairs (..., N), |y| = lengths (..., X, Y)."""
    scores = system.policy.log_pi(theta) / lengths
    apart = scores[..., :, None] - scores[..., None, :]
    return pick_pair(apart[..., None, :, :, :], pairs)


def accuracy(u: Numbers, margin: Numbers) -> rc.Sides:
    """1 - A_PL of (26) for the normalised margins u (..., N), and L_PL / log 2 for others."""
    wrong = np.where(u > 0, 0 * u, 1 + 0 * u)
    loss = log_loss(margin) / np.log(2 + 0 * margin)
    return np.asarray(wrong.sum(axis=-1) / u.shape[-1]), np.asarray(loss.sum(axis=-1) / u.shape[-1])
