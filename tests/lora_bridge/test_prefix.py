"""Layers below the first adapted one are computed once for a sequence, and change no number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaForSequenceClassification

from lora_bridge import _prefix, bank as bank_module
from lora_bridge._decoding import positions
from lora_bridge._memory import layers_of
from lora_bridge._sharing import can_share
from lora_bridge.bank import AdapterBank, Batch
from lora_bridge.losses import answer_loss
from lora_bridge.targets import in_last_layers
from tests.lora_bridge._models import TARGETS, small_model

KINDS = ("gpt2", "llama")


def banks(
    kind: str, targets: list[str] | None = None, dtype: torch.dtype = torch.float64
) -> tuple[AdapterBank, AdapterBank]:
    """With and without reuse, on two equal models; by default the last layer is adapted."""
    pair = []
    for reuse in (True, False):
        model = small_model(kind, dtype)
        names = AdapterBank(model, TARGETS[kind]).names
        chosen = in_last_layers(names, 1) if targets is None else targets
        pair.append(AdapterBank(model, chosen, reuse=reuse, share=False))
    return pair[0], pair[1]


def batch(rows: list[list[int]], width: int, left: bool = False) -> Batch:
    """One client's sequences, of which the last two tokens are scored."""
    ids = torch.zeros(1, len(rows), width, dtype=torch.int64)
    mask, target = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[0, i, place] = torch.tensor(row)
        mask[0, i, place] = 1
        target[0, i, place.stop - 2 : place.stop] = 1
    return {"input_ids": ids, "attention_mask": mask, "target_mask": target}


def adapters(bank: AdapterBank) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 0.1 * torch.randn(1, 2, bank.width, generator=generator, dtype=torch.float64)


def first_layer(bank: AdapterBank) -> list[int]:
    """A list that grows by one whenever the first layer's attention is computed.

    That is once for a pass, or once for each sequence that is not known.
    """
    calls: list[int] = []
    layer = layers_of(bank.model)[0]
    inner = next(m for name, m in layer.named_modules() if name.endswith(("attn", "self_attn")))
    inner.register_forward_hook(lambda *_: calls.append(1))
    return calls


A, B, C = [3, 4, 5, 6, 7], [8, 9, 3], [5, 6, 5, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_same_and_known_sequences_are_not_computed_again(kind: str) -> None:
    ours, plain = banks(kind)
    calls, X = first_layer(ours), adapters(ours)
    for rows, width, computed in (
        ([A, B], 5, 2),
        ([A, B], 5, 2),
        ([B, A, B], 7, 2),  # in another order, and with more padding
        ([C, A, C], 5, 3),  # one of them is new
        ([C], 4, 3),
        ([A[:4]], 4, 4),  # a beginning is another sequence
    ):
        data = batch(rows, width)
        values, slopes = ours.gradients(X, data, answer_loss)
        expected, true = plain.gradients(X, data, answer_loss)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(slopes, true, rtol=1e-5, atol=1e-8)
        assert len(calls) == computed


@pytest.mark.parametrize("kind", KINDS)
def test_padding_on_either_side_changes_nothing_where_places_are_given(kind: str) -> None:
    # Llama's eager attention in double precision does not bear padding in front
    ours, plain = banks(kind, dtype=torch.float32)
    calls, X = first_layer(ours), adapters(ours).float()
    for rows, width, left, computed in (
        ([A, B], 6, True, 2),
        ([B, A], 8, True, 2),
        ([A, B, B], 5, False, 2),
        ([C, A], 6, True, 3),
    ):
        data = batch(rows, width, left)
        data = {**data, "position_ids": positions(data["attention_mask"])}
        values, slopes = ours.gradients(X, data, answer_loss)
        expected, true = plain.gradients(X, data, answer_loss)
        torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(slopes, true, rtol=1e-4, atol=1e-5)
        assert len(calls) == computed


def test_states_of_shared_tokens_are_those_of_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_module, "_WORTH", 0)
    ours, plain = banks("gpt2")
    assert can_share(ours.model)  # tries the model
    calls, X = first_layer(ours), adapters(ours)
    alike = [A, [*A[:3], 9, 8, 4], [*A[:3], 9]]
    for rows, share, computed in (
        (alike, True, 3),
        (alike[::-1], True, 3),
        (alike, False, 3),  # known from the rows that they shared
        ([C, B], False, 5),
        ([B, C, A], True, 5),  # and the other way round
        ([alike[1], [3, 4, 5]], True, 6),
    ):
        bank, data = ours.with_options(share=share), batch(rows, 7)
        values, slopes = bank.gradients(X, data, answer_loss)
        expected, true = plain.gradients(X, data, answer_loss)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(slopes, true, rtol=1e-5, atol=1e-8)
        assert len(calls) == computed


@pytest.mark.parametrize("share", [False, True])
def test_numbers_do_not_depend_on_what_was_computed_before(
    share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are the same bits after a kill, and whatever the number of processes."""
    monkeypatch.setattr(bank_module, "_WORTH", 0)
    rng = torch.Generator().manual_seed(2)
    rows = [torch.randint(1, 16, (k,), generator=rng).tolist() for k in (40, 23, 31, 17, 36)]
    rows = [[5, 6, 7, *row] for row in rows]
    others = ([rows[0], rows[3]], [rows[2]], [[1, 2, 3], rows[1], rows[4]])
    found = []
    for before in ((), others, others[::-1]):
        model = small_model("llama", torch.float32)
        names = in_last_layers(AdapterBank(model, TARGETS["llama"]).names, 1)
        bank = AdapterBank(model, names, reuse=True, share=share)
        X = adapters(bank).float()
        for some in before:
            bank.losses(X, batch(some, 60), answer_loss)
        found.append(bank.gradients(X, batch(rows, 50), answer_loss))
    for values, slopes in found[1:]:
        assert torch.equal(values, found[0][0])
        assert torch.equal(slopes, found[0][1])


def test_second_derivatives_are_the_same() -> None:
    ours, plain = banks("llama")
    X, data = adapters(ours), batch([A, C], 5)
    for _ in range(2):
        torch.testing.assert_close(
            ours.hvp(X, data, answer_loss, X),
            plain.hvp(X, data, answer_loss, X),
            rtol=1e-5,
            atol=1e-8,
        )


def test_with_the_head_alone_all_layers_are_known() -> None:
    ours, plain = banks("llama", ["lm_head"])
    calls, X, data = first_layer(ours), adapters(ours), batch([A, B], 6)
    for _ in range(3):
        torch.testing.assert_close(
            ours.losses(X, data, answer_loss),
            plain.losses(X, data, answer_loss),
            rtol=1e-6,
            atol=1e-9,
        )
    assert len(calls) == 2


def test_layers_are_known_below_an_adapted_score() -> None:
    config = small_model("llama").config
    config.num_labels, config.pad_token_id = 2, 0
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(config).double()
    names = in_last_layers(AdapterBank(model, ["o_proj", "score"]).names, 1)
    ours, plain = (AdapterBank(model, names, reuse=reuse, share=False) for reuse in (True, False))
    calls, X = first_layer(ours), adapters(ours)
    for rows, computed in (([A, B], 2), ([B, A], 2), ([C], 3)):
        data = {n: v for n, v in batch(rows, 6).items() if n != "target_mask"}
        data["labels"] = torch.zeros(1, len(rows), dtype=torch.int64)
        values, slopes = ours.gradients(X, data, class_loss)
        assert len(calls) == computed
        expected, true = plain.gradients(X, data, class_loss)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(slopes, true, rtol=1e-5, atol=1e-8)
        del calls[computed:]


def class_loss(output: Any, flat: Batch) -> Tensor:
    """Cross-entropy of one label per sequence."""
    return torch.nn.functional.cross_entropy(output.logits, flat["labels"], reduction="none")


def test_what_cannot_be_known_is_computed() -> None:
    ours, _ = banks("llama")
    calls, X = first_layer(ours), adapters(ours)
    left = batch([A, B], 6, left=True)  # places do not begin with 0
    hole = batch([A, B], 6)
    hole["attention_mask"][0, 0, 1] = 0  # padding inside
    empty = batch([A, B], 6)
    empty["attention_mask"][0, 1] = 0  # padding alone
    for count, data in enumerate((left, left, hole, hole, empty), start=1):
        ours.losses(X, data, answer_loss)
        assert len(calls) == count
    everywhere = AdapterBank(ours.model, TARGETS["llama"], reuse=True)
    assert everywhere._below == 0  # an adapter in the first layer


def test_states_of_a_lower_precision_are_neither_kept_nor_used() -> None:
    model = small_model("llama", torch.float32)
    last = in_last_layers(AdapterBank(model, TARGETS["llama"]).names, 1)
    exact, half = (
        AdapterBank(model, last, reuse=True, autocast=autocast)
        for autocast in (None, torch.bfloat16)
    )
    calls, X, data = first_layer(exact), adapters(exact).float(), batch([A, B], 5)
    half.losses(X, data, answer_loss)
    assert len(calls) == 1
    first = exact.losses(X, data, answer_loss)
    half.losses(X, data, answer_loss)
    assert len(calls) == 4
    torch.testing.assert_close(exact.losses(X, data, answer_loss), first)
    assert len(calls) == 4


def test_states_that_were_not_asked_for_the_longest_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = _prefix._States()
    monkeypatch.setattr(_prefix, "_MOST", 3 * 8)
    for key in "abc":
        states.keep(key, torch.ones(1, dtype=torch.float64))
    assert states.find("a") is not None
    states.keep("d", torch.ones(1, dtype=torch.float64))
    assert (list(states), states.bytes) == (["c", "a", "d"], 24)


def test_an_equal_model_has_states_of_its_own() -> None:
    ours, _ = banks("llama")
    X, data = adapters(ours), batch([A], 5)
    ours.losses(X, data, answer_loss)
    other, _ = banks("llama")
    with torch.no_grad():
        for parameter in layers_of(other.model)[0].parameters():
            parameter.mul_(2)
    assert not torch.allclose(ours.losses(X, data, answer_loss), other.losses(X, data, answer_loss))
