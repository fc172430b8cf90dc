"""AdamW, with its state apart: for algorithms whose state is explicit, and for local steps."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["AdamW", "Moments", "adamw"]


class Moments(NamedTuple):
    """What AdamW remembers: running means of gradients and of their squares, and steps done."""

    first: Any = 0.0
    second: Any = 0.0
    step: int = 0


def adamw(
    X: Any, gradient: Any, moments: Moments, gamma: float, decay: float
) -> tuple[Any, Moments]:
    """One step of AdamW (Loshchilov and Hutter, 2019), with PyTorch's betas and epsilon.

    >>> X, moments = adamw(1.0, 2.0, Moments(), gamma=0.1, decay=0.0)
    >>> X, moments.step  # the first step has the length gamma
    (0.9, 1)
    """
    step = moments.step + 1
    first = 0.9 * moments.first + 0.1 * gradient
    second = 0.999 * moments.second + 0.001 * gradient**2
    mean, square = first / (1 - 0.9**step), second / (1 - 0.999**step)
    X = X * (1 - gamma * decay) - gamma * mean / (square**0.5 + 1e-8)
    return X, Moments(first, second, step)


class AdamW:
    """The same for a loop of steps, from zero moments."""

    def __init__(self, gamma: float, decay: float) -> None:
        self.gamma, self.decay, self.moments = gamma, decay, Moments()

    def __call__(self, X: Any, gradient: Any) -> Any:
        """The rows after a step along a gradient."""
        X, self.moments = adamw(X, gradient, self.moments, self.gamma, self.decay)
        return X
