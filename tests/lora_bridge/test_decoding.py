"""Decoding without padding, with shared prompts and without ended rows is the plain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lora_bridge import _cache, _decoding
from lora_bridge.bank import AdapterBank
from lora_bridge.rollouts import sample
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_model

N, P, LENGTH = 3, 14, 12


def _bank(kind: str, dtype: torch.dtype = torch.float64) -> AdapterBank:
    model = small_model(kind, dtype)
    model.set_attn_implementation("sdpa")  # the eager one of Llama pads in single precision
    model.generation_config.eos_token_id = list(range(5))
    return AdapterBank(model, TARGETS[kind])


def _prompts() -> dict[str, Tensor]:
    """Of each client: three equal ones, two that differ in the last token, and another one."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, VOCABULARY, (N, 3, P), generator=generator)
    ids[..., :4] = ids[0, 0, :4]
    ids = ids[:, [0, 0, 0, 1, 1, 2]]
    ids[:, 4, -1] = 5 + (ids[:, 4, -1] - 4) % (VOCABULARY - 5)
    start = torch.tensor([[0, 0, 0, 3, 3, 9], [2, 2, 2, 4, 4, 13], [1, 1, 1, 2, 2, 1]])
    mask = (torch.arange(P) >= start[..., None]).long()
    for at in torch.cartesian_prod(torch.arange(N), torch.arange(6)).tolist():
        ids[*at] = ids[*at].roll(int(start[*at]))  # what is left begins like the others
    return {"input_ids": ids, "attention_mask": mask}


def _both(bank: AdapterBank, **options: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is decoded, as it is and plainly."""
    X = 0.3 * torch.randn(
        (N, 2, bank.width), generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    X, scale = X.to(next(bank.model.parameters())), torch.tensor([0.5, 1.0, 2.0])
    settings: dict[str, Any] = {"length": LENGTH, "seed": 4, "round_": 0, "scale": scale, **options}
    plain = bank.with_options(share=False)
    return sample(bank, X, _prompts(), **settings), sample(plain, X, _prompts(), **settings)


def _assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Below 1e-12 for some hundreds of double operations in a row on numbers of at most 10."""
    for name, value in expected.items():
        atol = 1e-12 if value.is_floating_point() else 0
        torch.testing.assert_close(actual[name], value, atol=atol, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "neox"])
def test_sharing_changes_no_token(kind: str) -> None:
    tokens, expected = _both(_bank(kind))
    _assert_same(tokens, expected)
    lengths = expected["target_mask"].sum(-1)
    assert int(lengths.min()) < 4  # rows leave early
    assert int(lengths.max()) == LENGTH


@pytest.mark.parametrize("kind", ["llama", "gpt2", "neox"])
@pytest.mark.parametrize("broken", ["order", "mask", "position", "token"])
def test_what_is_decoded_otherwise_is_noticed(
    kind: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, shared = _cache.Cache, _decoding._Shared

    def instead(owner: Any, name: str, change: Callable[..., Any]) -> None:
        before = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda self, *args: change(before, self, *args))

    def unmasked(init: Any, self: Any) -> None:
        init(self)
        self._added.zero_()

    def late(following: Any, self: Any, tokens: Tensor) -> Any:
        self.places = self.places + 1
        return following(self, tokens)

    def forgetful(attend: Any, self: Any, *args: Any) -> Any:
        for _, values in self._responses:
            values[..., 0, :] = 0.0
        return attend(self, *args)

    match broken:
        case "order":
            instead(cache, "keep", lambda keep, self, rows: keep(self, rows.flip(0)))
        case "mask":
            instead(cache, "__post_init__", unmasked)
        case "position":
            instead(shared, "following", late)
        case _:
            instead(cache, "attend", forgetful)
    with pytest.raises(AssertionError):
        _assert_same(*_both(_bank(kind)))


def test_prompts_are_computed_once_and_ended_rows_leave() -> None:
    bank = _bank("llama")
    _both(bank)  # tries whether the model can share
    tokens: list[tuple[int, ...]] = []
    bank.model.model.layers[0].register_forward_pre_hook(
        lambda module, args, named: tokens.append(
            tuple((args or [named["hidden_states"]])[0].shape)
        ),
        with_kwargs=True,
    )
    sampled, _ = _both(bank)
    first, *others = tokens[: tokens.index((N * 6, P, 16))]
    prompts = _prompts()
    distinct = {
        (n, tuple(row[mask == 1][:end].tolist()))
        for n in range(N)
        for row, mask in zip(prompts["input_ids"][n], prompts["attention_mask"][n], strict=True)
        for end in range(1, int(mask.sum()) + 1)
    }
    # all in one row: fewer than with the padding of shorter clients' rows; prompts that have only a
    # few tokens in common are computed apart
    most = max(sum(1 for m, _ in distinct if m == n) for n in range(N))
    assert first[::2] == (1, 16)
    assert len(distinct) <= first[1] < N * most
    left = [(sampled["target_mask"].sum(-1) > k).sum(1) for k in range(1, LENGTH)]
    for (rows, one, _), own in zip(others, left, strict=True):
        needed = int((own > 0).sum() * own.max())
        assert one == 1
        assert needed <= rows <= needed / (1 - _decoding._LEAVING) + N
    assert others[-1][0] < others[0][0]


def test_single_precision_and_bfloat16_are_near() -> None:
    """With matrices in oneDNN's order; tokens may differ where policies nearly tie."""
    for kind in ("llama", "gpt2", "neox"):
        bank = _bank(kind, torch.float32)
        tokens, expected = _both(bank)
        # some tens of roundings of 6e-8 of numbers of at most 10
        torch.testing.assert_close(tokens["log_prob"], expected["log_prob"], atol=2e-5, rtol=0)
        half = bank.with_options(autocast=torch.bfloat16)
        first = [one["log_prob"][..., 0] for one in _both(half, length=1)]
        same = _both(half, length=1)
        same_tokens = same[0]["input_ids"][..., -1] == same[1]["input_ids"][..., -1]
        assert same_tokens.float().mean() > 0.8
        torch.testing.assert_close(first[0][same_tokens], first[1][same_tokens], atol=0.2, rtol=0)
