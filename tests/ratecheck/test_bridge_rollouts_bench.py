"""The peer of the benchmark of rollouts chooses the tokens that ours does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.benchmarks import bridge_rollouts as bench
from lora_bridge.models import load_model

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.mark.slow
def test_peft_chooses_the_same_tokens(model_folder: Path) -> None:
    loaded = load_model(model_folder)
    policies = bench.Policies(loaded.model, loaded.tokenizer, clients=4, prompts=4)
    policies.X.mul_(50)  # far enough from the model alone to choose other tokens
    peer = bench.Generated(policies)
    assert bench.same_tokens(policies, peer, 4)
    sampled = policies.respond(2, 4)
    assert sampled.shape == peer.each(2, 4).shape == peer.one_for_all(2, 4).shape
    first = peer.one_for_all(1, 4, greedy=True)
    each = peer.each(1, 4, greedy=True)
    assert torch.equal(first[0], each[0])
    assert not torch.equal(first[1:], each[1:])
    policies.X = policies.X.flip(0)
    assert not bench.same_tokens(policies, peer, 4)
