"""The peer of the benchmark on a pretrained model computes what the bank does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.benchmarks import bridge_pretrained as bench
from lora_bridge.models import load_model

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.mark.slow
@pytest.mark.parametrize("make", [bench.questions, bench.pairs])
def test_peft_has_the_same_gradients_and_rounds(make: object, model_folder: Path) -> None:
    loaded = load_model(model_folder)
    samples = make(bench.CLIENTS * 2)  # type: ignore[operator]
    clients = bench.Clients(loaded.model, loaded.tokenizer, samples)
    mine, moved = clients.gradients(clients.X), clients.round()
    agents = clients.affpcl() if clients.compared else None
    peer = bench.Switched(clients)
    theirs = peer.gradients()
    assert theirs.norm() > 1e-4
    assert (mine - theirs).norm() <= 1e-4 * theirs.norm()
    assert (moved - peer.round()).norm() <= 1e-2 * moved.norm()
    torch.testing.assert_close(peer.gradients(), theirs)  # a round leaves the peer as it was
    if agents is not None:
        assert (agents - clients.affpcl(peer)).norm() <= 1e-4 * agents.norm()
        peer.fill(clients.X)
    clients.batch["target_mask"][:, 0] = 0  # other samples
    clients.batch["target_mask"][:, 0, ..., 1] = 1
    assert (peer.gradients() - theirs).norm() > 1e-2 * theirs.norm()
