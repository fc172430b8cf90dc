"""Steps of optimizers with their state apart, each row on its own: as N of them side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import array_namespace, is_array_api_obj

__all__ = ["AdamW", "Moments", "adamw", "clipped"]


class Moments(NamedTuple):
    """What AdamW remembers: running means of gradients and of their squares, and steps done.

    ``step`` is a number, or an array of floats that broadcasts where rows have done different
    numbers of steps.
    """

    first: Any = 0.0
    second: Any = 0.0
    step: Any = 0


def adamw(
    X: Any, gradient: Any, moments: Moments, gamma: float, decay: float
) -> tuple[Any, Moments]:
    """One step of AdamW (Loshchilov and Hutter, 2019), with PyTorch's betas and epsilon.

    With decay = 0 it is Adam.

    >>> X, moments = adamw(1.0, 2.0, Moments(), gamma=0.1, decay=0.0)
    >>> X, moments.step  # the first step has the length gamma
    (0.9, 1)
    """
    step = moments.step + 1
    first = 0.9 * moments.first + 0.1 * gradient
    second = 0.999 * moments.second + 0.001 * gradient**2
    # three passes over X fewer than dividing both means by their weights
    length, root = gamma / _weight(0.9, step, X), _weight(0.999, step, X) ** -0.5
    kept = X if decay == 0.0 else X * (1 - gamma * decay)
    return kept - length * first / (second**0.5 * root + 1e-8), Moments(first, second, step)


def _weight(beta: float, step: Any, like: Any) -> Any:
    """Sum of the weights in a running mean, in the type of an array."""
    weight = 1 - beta**step
    if not is_array_api_obj(weight):
        return weight
    return array_namespace(like).astype(weight, like.dtype, copy=False)


def clipped(gradient: Any, norm: float | None, axes: int = 2) -> Any:
    """Gradients of at most this Euclidean norm over the last ``axes`` axes: one row per client.

    As ``torch.nn.utils.clip_grad_norm_`` for each of them; None: as they are.

    >>> import numpy as np
    >>> clipped(np.array([[[3.0, 4.0]], [[0.3, 0.4]]]), 1.0).round(3).tolist()
    [[[0.6, 0.8]], [[0.3, 0.4]]]
    """
    if norm is None:
        return gradient
    xp = array_namespace(gradient)
    along = tuple(range(-axes, 0))
    length = xp.sum(gradient**2, axis=along, keepdims=True) ** 0.5
    return gradient * xp.clip(norm / (length + 1e-6), max=1.0)


class AdamW:
    """:func:`adamw` for a loop of steps, from zero moments."""

    def __init__(self, gamma: float, decay: float) -> None:
        self.gamma, self.decay, self.moments = gamma, decay, Moments()

    def __call__(self, X: Any, gradient: Any) -> Any:
        """The rows after a step along a gradient."""
        X, self.moments = adamw(X, gradient, self.moments, self.gamma, self.decay)
        return X
