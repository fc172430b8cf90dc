"""The peers of the bank compute what it computes."""

from __future__ import annotations

import pytest
import torch

from experiments.benchmarks.bridge import Clients, Sizes

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.mark.parametrize("way", ["copies", "switching"])
@pytest.mark.parametrize("scored", [None, 2])
def test_peers_have_the_same_gradients_and_rounds(way: str, scored: int | None) -> None:
    clients = Clients(Sizes(16, 1, 3, 2, 5, vocabulary=30, scored=scored, chunk=2))
    gradients, round_ = getattr(clients, way)()
    slopes = gradients()
    assert slopes.abs().max() > 1e-4
    torch.testing.assert_close(clients.gradients(), slopes, rtol=1e-4, atol=1e-7)
    mean = clients.X.mean(0)
    moved = round_() - mean
    torch.testing.assert_close(clients.round() - mean, moved, rtol=1e-2, atol=1e-5)
    assert moved.abs().max() > 1e-3
    torch.testing.assert_close(gradients(), slopes)  # a round leaves the peer as it was
