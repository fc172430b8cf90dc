"""The losses of OOD-PL written plainly in torch, for automatic differentiation."""

from __future__ import annotations

from typing import Any

import torch

from linsys.bilevel import Domain, TanhReward


def tensor(array: Any) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64)


def log_policy(domain: Domain, theta: torch.Tensor) -> torch.Tensor:
    logits = tensor(domain.policy.log_h) + tensor(domain.policy.psi) @ theta
    return torch.log_softmax(logits, dim=-1)


def reward_value(domain: Domain, phi: torch.Tensor) -> torch.Tensor:
    index = tensor(domain.reward.xi) @ phi
    if isinstance(domain.reward, TanhReward):
        return domain.reward.s * torch.tanh(index / domain.reward.s)
    return index


def inner_loss(
    domain: Domain, beta: float, phi: torch.Tensor, theta: torch.Tensor, z: Any
) -> torch.Tensor:
    """Equation (10), the mean over samples z or the expectation."""
    each = -torch.exp(reward_value(domain, phi) / beta) * log_policy(domain, theta)
    if z is None:
        law = tensor(domain.prompts)[:, None] * tensor(domain.mu_hat)
        return (law * each).sum()
    return each[z[0], z[1]].mean()


def outer_loss(domain: Domain, theta: torch.Tensor, z: Any) -> torch.Tensor:
    """Equation (7), the mean over pairs z or the expectation."""
    log_pi = log_policy(domain, theta)
    if z is None:
        x, y, y_other, weights = domain.pairs
        return -(
            tensor(weights) * torch.nn.functional.logsigmoid(log_pi[x, y] - log_pi[x, y_other])
        ).sum()
    x, y, y_other = z
    return -torch.nn.functional.logsigmoid(log_pi[x, y] - log_pi[x, y_other]).mean()


def unrolled_loss(
    domain: Domain,
    beta: float,
    phi: torch.Tensor,
    theta: torch.Tensor,
    alpha: float,
    samples: Any,
    z: Any,
) -> torch.Tensor:
    """l_PL after inner steps on the samples, as a graph that knows every step."""
    for sample in samples:
        loss = inner_loss(domain, beta, phi, theta, sample)
        [gradient] = torch.autograd.grad(loss, theta, create_graph=True)
        theta = theta - alpha * gradient
    return outer_loss(domain, theta, z)
