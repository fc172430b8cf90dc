"""The built-in model: what it learns, and that it is made once, whoever asks and is stopped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lora_bridge.built_in import BuiltIn, built_in
from lora_bridge.models import load_model
from tests.lora_bridge.test_models import TINY


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ratecheck" / "models"


def test_the_built_in_model_is_made_once_and_depends_on_its_text(cache: Path) -> None:
    first = built_in("some text that is long enough", TINY)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert built_in("some text that is long enough", TINY) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    assert built_in("another text that is long enough", TINY) != first
    assert sorted(os.listdir(cache)) == sorted(
        [first.name, built_in("another text that is long enough", TINY).name]
    )


def test_training_lowers_the_loss_and_leaves_the_generator_alone() -> None:
    text = "abcd" * 50
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    losses = []
    for steps in (0, 60):
        loaded = load_model(built_in(text, BuiltIn(**{**vars(TINY), "steps": steps})))
        ids = torch.tensor([loaded.tokenizer(text[:40])["input_ids"]])
        logits = loaded.model(input_ids=ids).logits
        losses.append(torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).item())
    assert losses[1] < 0.5 * losses[0]
    assert torch.equal(torch.rand(3), expected)


def test_the_built_in_model_learns_where_a_text_ends() -> None:
    texts = ["aab", "aaab", "ab"] * 10
    whole = ["".join(texts)]
    ends = []
    for given in (texts, whole):
        loaded = load_model(built_in(given, replace(TINY, length=8, steps=150, gamma=0.02)))
        begin, end = loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id
        ids = torch.tensor([[begin, *loaded.tokenizer("aab")["input_ids"]]])
        ends.append(loaded.model(input_ids=ids).logits[0].softmax(-1)[:, end].tolist())
    apart, together = ends
    assert apart[-1] > 0.5 > 10 * max(apart[:-1])
    assert max(together) < 0.1
