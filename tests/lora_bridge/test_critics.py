"""Linear critics: their gradient, their fixed point, clients apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from linsys import InputError
from lora_bridge.critics import Critics, Values

COUNTED = torch.arange(4) < torch.tensor([[3, 4], [1, 2]])[..., None]


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


HIDDEN, RETURNS = draws(2, 2, 4, 3), draws(2, 2, 4, 2, seed=1)


def test_a_plain_step_is_that_of_the_squared_error() -> None:
    critics = Critics(step=0.3, optimizer="sgd")
    zero = critics.init(2, 3, 2)
    start = Values(draws(2, 4, 2, seed=2), zero.moments)
    after = critics.fit(start, HIDDEN, RETURNS, COUNTED)
    for c in range(2):
        w = start.w[c].clone().requires_grad_()
        x = torch.cat([HIDDEN[c], torch.ones(2, 4, 1)], -1)[COUNTED[c]]
        loss = ((x @ w - RETURNS[c][COUNTED[c]]) ** 2).sum(1).mean() / 2
        (slope,) = torch.autograd.grad(loss, w)
        torch.testing.assert_close(after.w[c], start.w[c] - 0.3 * slope)
    values = critics.value(start, HIDDEN)
    expected = torch.cat([HIDDEN[1, 0, 2], torch.ones(1)]) @ start.w[1]
    torch.testing.assert_close(values[1, 0, 2], expected)


def test_steps_end_at_least_squares() -> None:
    """Seven tokens and four numbers: the normal equations of the first client."""
    critics = Critics(step=0.5, optimizer="sgd")
    weights = critics.init(2, 3, 2)
    for _ in range(3000):
        weights = critics.fit(weights, HIDDEN, RETURNS, COUNTED)
    x = torch.cat([HIDDEN[0], torch.ones(2, 4, 1)], -1)[COUNTED[0]]
    solved = torch.linalg.lstsq(x, RETURNS[0][COUNTED[0]]).solution
    torch.testing.assert_close(weights.w[0], solved, atol=1e-3, rtol=1e-3)


def test_adam_moves_by_its_step_and_clients_do_not_meet() -> None:
    critics = Critics(step=1e-3)
    start = critics.init(2, 3, 2)
    after = critics.fit(start, HIDDEN, RETURNS, COUNTED)
    torch.testing.assert_close(after.w.abs(), torch.full_like(after.w, 1e-3), atol=1e-6, rtol=0)
    assert after.moments.step == 1
    alone = critics.fit(critics.init(1, 3, 2), HIDDEN[1:], RETURNS[1:], COUNTED[1:])
    torch.testing.assert_close(alone.w[0], after.w[1])


def test_refused() -> None:
    with pytest.raises(InputError, match="`optimizer`"):
        Critics(optimizer="Adam")
    with pytest.raises(InputError, match="`step`"):
        Critics(step=0.0)
