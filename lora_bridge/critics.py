"""Linear critics on a model's last hidden states, one per objective and client.

V^j(s) = w^j . phi(s) + b^j with phi(s) the hidden state that the next token is predicted from,
detached: critics move no adapter. FIRM's theory assumes linear critics (Assumption 2); its
experiments give critics a step size of their own and do not say what form they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from linsys.optimizers import Moments, adamw
from linsys.validate import check_choice, check_number

__all__ = ["Critics", "Values"]


class Values(NamedTuple):
    """The critics of N clients.

    Attributes:
        w: shape (N, h + 1, M), the last row is b.
        moments: Adam's, of the same shape.
    """

    w: Tensor
    moments: Moments


@dataclass(frozen=True, kw_only=True)
class Critics:
    """How critics are learned: least squares on returns, step by step.

    Args:
        step: step size.
        optimizer: "adam" or "sgd".

    >>> critics = Critics(step=0.1)
    >>> start = critics.init(1, 2, 1)
    >>> phi, returns = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 1)
    >>> after = critics.fit(start, phi, returns, torch.ones(1, 1, 1, dtype=torch.bool))
    >>> critics.value(after, phi).flatten()  # the first step of Adam is 0.1 in every entry
    tensor([0.3000])
    """

    step: float = 1e-4
    optimizer: str = "adam"

    def __post_init__(self) -> None:
        check_number("step", self.step, low=0.0, low_open=True)
        check_choice("optimizer", self.optimizer, ("adam", "sgd"))

    def init(self, clients: int, h: int, M: int, device: torch.device | str = "cpu") -> Values:
        """Critics whose values are zero."""
        zero = torch.zeros(clients, h + 1, M, device=device)
        return Values(zero, Moments(zero, zero, 0))

    def value(self, critics: Values, hidden: Tensor) -> Tensor:
        """V (N, b, K, M) of hidden states (N, b, K, h)."""
        w, flat = critics.w, hidden.to(critics.w).flatten(1, 2)
        values = flat @ w[:, :-1] + w[:, -1:]
        return values.reshape(*hidden.shape[:3], -1)

    def fit(self, critics: Values, hidden: Tensor, returns: Tensor, counted: Tensor) -> Values:
        """One step on the mean over each client's tokens of (V - return)^2 / 2.

        Args:
            critics: the present ones.
            hidden: shape (N, b, K, h).
            returns: shape (N, b, K, M).
            counted: which are tokens, (N, b, K).
        """
        mask = counted[..., None].to(critics.w)
        errors = ((self.value(critics, hidden) - returns) * mask).flatten(1, 2)
        errors = errors / mask.sum((1, 2))[..., None]
        flat = hidden.to(critics.w).flatten(1, 2)
        gradient = torch.cat([flat.mT @ errors, errors.sum(1, keepdim=True)], dim=1)
        if self.optimizer == "sgd":
            return Values(critics.w - self.step * gradient, critics.moments)
        return Values(*adamw(critics.w, gradient, critics.moments, self.step, 0.0))
