"""Modules that read the same input: which they are, and their products with it computed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lora_bridge import _hook
from lora_bridge._hook import Inputs, reading_together
from lora_bridge.bank import AdapterBank
from lora_bridge.losses import answer_loss
from tests.lora_bridge._models import small_batch, small_model

N, r, n = 3, 2, 16
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]


def _factors(ranks: Sequence[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(N, rank, n, generator=generator, dtype=torch.float64) for rank in ranks]


def _alone(A: Tensor, x: Tensor) -> Tensor:
    return x.reshape(N, -1, n) @ A.mT


@pytest.mark.parametrize(
    ("kind", "targets", "together"),
    [
        ("llama", LLAMA, [{"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}]),
        ("llama", ["v_proj", "up_proj", "q_proj"], [{"q_proj", "v_proj"}]),
        ("gpt2", ["c_attn", "c_fc"], []),
        ("bert", ["query", "key", "value"], [{"query", "key", "value"}]),
    ],
)
def test_groups_are_the_modules_of_a_layer_that_read_one_tensor(
    kind: str, targets: list[str], together: list[set[str]]
) -> None:
    bank = AdapterBank(small_model(kind), targets)
    groups = reading_together(bank.model, [bank.model.get_submodule(name) for name in bank.names])
    assert sorted(j for group in groups for j in group) == list(range(len(bank.names)))
    named = [[bank.names[j].rpartition(".") for j in group] for group in groups if len(group) > 1]
    assert all(len({parent for parent, _, _ in group}) == 1 for group in named)
    assert [{name for _, _, name in group} for group in named] == together * 2  # of two layers


class _Twice(nn.Module):
    """One module is called twice with the same input, another once."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.a, self.b = nn.Embedding(9, n), nn.Linear(n, n), nn.Linear(n, n)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        added: Tensor = self.a(x) + self.a(x) + self.b(x)
        return added


def test_a_module_that_is_called_twice_is_alone_and_right() -> None:
    model = _Twice().double()
    bank = AdapterBank(model, ["a", "b"])
    assert sorted(reading_together(model, [model.a, model.b])) == [[0], [1]]
    X = torch.randn(1, r, bank.width, dtype=torch.float64)
    parts = X.split([size for shape in bank.modules.shapes for size in shape], -1)
    ids = torch.arange(4)[None, None]
    added = bank.output(X, {"input_ids": ids}) - model(ids[0])
    x = model.embed(ids[0])
    expected = sum(
        times * x @ parts[2 * j + 1][0].mT @ parts[2 * j][0] for j, times in ((0, 2), (1, 1))
    )
    torch.testing.assert_close(added, expected)


@pytest.mark.parametrize("lengths", [None, [1, 4, 3]])
def test_products_are_those_of_each_module_alone(lengths: list[int] | None) -> None:
    """And where a module is given something else in between, or the first one is not asked."""
    factors = _factors([2, 1, 3])
    x = torch.randn(8 if lengths else 6, n, dtype=torch.float64)
    y = torch.randn(6, n, dtype=torch.float64)
    inputs = Inputs(factors, lengths)
    for order, given in (((0, 1, 2), (x, x, x)), ((0, 1, 2), (x, y, x)), ((2, 0, 1), (y, x, x))):
        for j, own in zip(order, given, strict=True):
            product = inputs.product(j, own)
            if isinstance(product, tuple):
                assert lengths is not None
                each = zip(own.split(lengths), factors[j], strict=True)
                torch.testing.assert_close(list(product), [part @ A.mT for part, A in each])
                assert own is x
            else:
                torch.testing.assert_close(product, _alone(factors[j], own))
                assert own is y or lengths is None


def test_gradients_are_those_of_modules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those where the products of the first module of each group are lost."""
    bank = AdapterBank(small_model("llama", torch.float64), LLAMA)
    X = 0.3 * torch.randn(N, r, bank.width, dtype=torch.float64)
    batch = {**small_batch(N, 2, 6), "target_mask": torch.ones(N, 2, 6, dtype=torch.long)}

    def gradients() -> Tensor:
        return bank.with_options().gradients(X, batch, answer_loss)[1]

    def without_the_first(product: Callable[..., Any]) -> Callable[..., Any]:
        def taken(self: Inputs, j: int, x: Tensor) -> Any:
            return product(self, j, x) if j else torch.zeros_like(product(self, j, x))

        return taken

    together = gradients()
    with monkeypatch.context() as patch:
        patch.setattr(_hook, "_READ", {bank.model: []})
        assert all(len(group) == 1 for group in bank.with_options()._together)
        torch.testing.assert_close(gradients(), together)
    monkeypatch.setattr(Inputs, "product", without_the_first(Inputs.product))
    assert not torch.allclose(gradients(), together)
