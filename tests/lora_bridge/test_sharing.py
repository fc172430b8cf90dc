"""Tokens that sequences begin with are computed once, and what a pass keeps fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from lora_bridge import _sharing, bank as bank_module
from lora_bridge._memory import estimated_bytes, kept_bytes
from lora_bridge._sharing import Layout, can_share, layout_of
from lora_bridge.bank import AdapterBank, Batch
from lora_bridge.losses import answer_loss, policy_preference_loss
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_model

#: float64 throughout for GPT-2; Llama takes its norms and softmax in single precision.
TOLERANCE = {"gpt2": 1e-12, "llama": 2e-5}


def _batch(N: int, b: int, answers: int, seed: int = 3) -> dict[str, Tensor]:
    """Samples that begin with the client's three tokens, each with answers to its own prompt.

    Tokens, lengths and padding differ; shapes (N, b, T) for one answer, else (N, b, answers, T).
    """
    rng, T = np.random.default_rng(seed), 16
    ids = np.zeros((N, b, answers, T), np.int64)
    mask, target = np.zeros_like(ids), np.zeros_like(ids)
    for n in range(N):
        first = rng.integers(1, VOCABULARY, 3)
        for i in range(b):
            prompt = np.concatenate([first, rng.integers(1, VOCABULARY, rng.integers(1, 8))])
            for a in range(answers):
                answer = rng.integers(1, VOCABULARY, rng.integers(1, 5))
                row = np.concatenate([prompt, answer])
                ids[n, i, a, : len(row)] = row
                mask[n, i, a, : len(row)] = 1
                target[n, i, a, len(prompt) : len(row)] = 1
    tensors = {"input_ids": ids, "attention_mask": mask, "target_mask": target}
    return {k: torch.from_numpy(v if answers > 1 else v[:, :, 0]) for k, v in tensors.items()}


CASES: dict[str, tuple[int, Any]] = {
    "questions": (1, answer_loss),
    "pairs": (2, policy_preference_loss),
}


def _bank(kind: str, **options: Any) -> AdapterBank:
    dtype = torch.float64 if kind == "gpt2" else torch.float32
    return AdapterBank(small_model(kind, dtype), TARGETS[kind], **options)


def _adapters(bank: AdapterBank, N: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    dtype = next(bank.model.parameters()).dtype
    return 0.3 * torch.randn(N, 2, bank.width, generator=generator, dtype=dtype)


def _apart(kind: str, case: str, **options: Any) -> float:
    """How far losses and gradients with shared tokens are from those without, relatively."""
    answers, loss = CASES[case]
    bank, batch = _bank(kind), _batch(3, 4, answers)
    X = _adapters(bank, 3)
    plain = bank.with_options(share=False).gradients(X, batch, loss)
    shared = bank.with_options(**options).gradients(X, batch, loss)
    pairs = zip(shared, plain, strict=True)
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Layout]:
    """Sharing however small the model; the layouts of all passes."""
    layouts: list[Layout] = []

    def watched(flat: Batch, rows: int) -> Layout | None:
        layout = layout_of(flat, rows)
        if layout is not None and layout.tokens > 12:  # beyond those that a model is tried on
            assert layout.tokens < flat["input_ids"].numel()
            layouts.append(layout)
        return layout

    monkeypatch.setattr(bank_module, "_WORTH", 0)
    monkeypatch.setattr(bank_module, "layout_of", watched)
    return layouts


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", TOLERANCE)
def test_shared_tokens_change_neither_losses_nor_gradients(
    kind: str, case: str, used: list[Layout]
) -> None:
    assert _apart(kind, case) <= TOLERANCE[kind]
    assert used


def _blind(group: Any) -> Any:
    return (group[0], group[1], np.zeros_like(group[2]))


def _shifted(make: Callable[..., Layout]) -> Callable[..., Layout]:
    def made(*arguments: Any) -> Layout:
        layout = make(*arguments)
        layout.positions[:, 4:] += 1
        return layout

    return made


@pytest.mark.parametrize("mutant", ["answers see each other", "positions go on"])
def test_wrong_masks_and_positions_are_noticed(
    mutant: str, used: list[Layout], monkeypatch: pytest.MonkeyPatch
) -> None:
    can_share_before = can_share
    monkeypatch.setattr(bank_module, "can_share", lambda model: can_share_before(model) or True)
    if mutant == "answers see each other":
        grouped = _sharing._grouped

        def leaking(*arguments: Any) -> Any:
            groups, answers = grouped(*arguments)
            return list(map(_blind, groups)), answers

        monkeypatch.setattr(_sharing, "_grouped", leaking)
    else:
        monkeypatch.setattr(_sharing, "_joined", _shifted(_sharing._joined))
    assert _apart("gpt2", "pairs") > 1e-3
    assert used


def test_a_model_that_computes_otherwise_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_share(small_model("gpt2").eval())
    assert not can_share(small_model("bert").eval())  # every token sees every other one
    monkeypatch.setattr(_sharing, "_joined", _shifted(_sharing._joined))
    assert not can_share(small_model("gpt2").eval())


def test_each_token_with_the_same_tokens_before_it_stands_once() -> None:
    ids = torch.tensor([[5, 6, 7, 8, 0], [5, 6, 9, 8, 3], [5, 6, 7, 8, 4]])
    mask = (ids > 0).long()
    layout = layout_of({"input_ids": ids, "attention_mask": mask}, 1)
    assert layout is not None
    # 5 6 for all; then 7 8 twice, as two tokens in common are no block of their own, 9 8 3 and 4
    beginnings = {tuple(row[:k]) for row in ids.tolist() for k in range(1, 6) if row[k - 1]}
    assert len(beginnings) <= layout.tokens < int(mask.sum())
    rows = ids.flatten()[layout.source.flatten()]
    inside = mask.bool()
    assert torch.equal(rows[layout.places][inside], ids[inside])
    assert layout_of({"input_ids": ids[None]}, 1) is None


@pytest.mark.parametrize("kind", TOLERANCE)
def test_checkpoints_change_no_gradient_and_keep_less(kind: str, used: list[Layout]) -> None:
    assert _apart(kind, "pairs", checkpoint=True) <= TOLERANCE[kind]
    assert _apart(kind, "pairs", checkpoint=True, share=False) <= TOLERANCE[kind]
    bank, batch = _bank(kind, share=False), _batch(1, 4, 1)
    X = _adapters(bank, 1).requires_grad_()
    flat = {name: value.flatten(0, 1) for name, value in batch.items()}

    def kept(one: AdapterBank) -> int:
        return kept_bytes(one.model, lambda: answer_loss(one.run(X, flat, train=True), flat))

    assert kept(bank.with_options(checkpoint=True)) < 0.7 * kept(bank)


def test_what_memory_does_not_hold_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, batch = _bank("gpt2"), _batch(3, 4, 1)
    X = _adapters(bank, 3)
    whole = bank.gradients(X, batch, answer_loss)
    assert bank.at_a_time(X, batch, answer_loss) >= 3
    one = estimated_bytes(bank.model, 16, False)
    assert one is not None
    seen: list[int] = []

    def counted(output: Any, flat: Any) -> Tensor:
        values = answer_loss(output, flat)
        seen.append(len(values))
        return values

    for tokens, sizes in ((128, [8, 4]), (64, [4, 4, 4]), (32, [2] * 6), (1, [1] * 12)):
        seen.clear()
        monkeypatch.setattr(bank_module, "free_memory", lambda device, t=tokens: 2 * t * one)
        parts = bank.gradients(X, batch, counted)
        assert seen == sizes
        for got, expected in zip(parts, whole, strict=True):
            assert float((got - expected).abs().max()) <= 1e-13 * float(expected.abs().max())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_estimate_is_near_what_a_pass_keeps(attention: str) -> None:
    sizes = {"hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, num_attention_heads=4, **sizes)
    config._attn_implementation = attention
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
    bank, batch = AdapterBank(LlamaForCausalLM(config), names, share=False), _batch(1, 8, 1)
    X = _adapters(bank, 1).requires_grad_()
    flat = {name: value.flatten(0, 1) for name, value in batch.items()}
    kept = kept_bytes(bank.model, lambda: answer_loss(bank.run(X, flat, train=True), flat))
    each = estimated_bytes(bank.model, 16, False)
    assert each is not None
    assert 0.9 <= each * flat["input_ids"].numel() / kept <= 3
