"""Head and last perceptron at scored tokens alone, what is read of them, budgets of memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linsys import InputError
from lora_bridge._head import computed_at, target_places
from lora_bridge._memory import kept_bytes
from lora_bridge.bank import AdapterBank
from lora_bridge.losses import answer_loss, policy_preference_loss, token_log_likelihood
from tests.lora_bridge._models import VOCABULARY, small_batch, small_model

N, b, T, r = 3, 2, 6, 2
MASK = torch.tensor([[0, 0, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0, 1, 0, 0, 1, 0]])


def _bank(kind: str, **options: Any) -> AdapterBank:
    targets = {"llama": ["q_proj", "down_proj"], "gpt2": ["c_attn", "lm_head"]}[kind]
    return AdapterBank(small_model(kind, torch.float64), targets, **options)


def _rows(bank: AdapterBank) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return 0.3 * torch.randn((N, r, bank.width), generator=generator, dtype=torch.float64)


def _batch() -> dict[str, Tensor]:
    batch = small_batch(N, b, T)
    batch["attention_mask"] = torch.ones(N, b, T, dtype=torch.long)
    batch["target_mask"] = torch.stack([MASK[:2], MASK[1:], MASK[[2, 0]]])
    return batch


def _whole(output: Any, batch: Any) -> Tensor:
    """The mean loss of the target tokens from logits at every place."""
    ids, mask = batch["input_ids"], batch["target_mask"][:, 1:].double()
    losses = torch.nn.functional.cross_entropy(
        output.logits[:, :-1].mT, ids[:, 1:], reduction="none"
    )
    return (losses * mask).sum(1) / mask.sum(1)


def _perceptrons(model: Any) -> list[nn.Module]:
    return [module for name, module in model.named_modules() if name.endswith(".mlp")]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("engine", ["bank", "sequential", "vmap"])
def test_the_loss_is_that_of_all_logits(kind: str, engine: str) -> None:
    """Also where the head or the last perceptron are adapted themselves, as they are here."""
    bank, batch = _bank(kind, engine=engine), _batch()
    X, shapes, given = _rows(bank), [], []
    _perceptrons(bank.model)[-1].register_forward_hook(lambda m, x, y: given.append(x[0].shape[1]))

    def seen(output: Any, data: Any) -> Tensor:
        shapes.append(tuple(output.logits.shape))
        return answer_loss(output, data)

    values, gradients = bank.gradients(X, batch, seen)
    assert {shape[1:] for shape in shapes} == {(3, VOCABULARY)}  # three targets at most
    assert set(given) == {3}
    without = AdapterBank(bank.model, bank.targets)
    object.__setattr__(without, "_with_target_places", lambda batch: batch)
    expected, slopes = without.gradients(X, batch, _whole)
    torch.testing.assert_close(values, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradients, slopes, rtol=1e-8, atol=1e-12)


class _Layer(nn.Module):
    """A residual perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.mlp(x)
        return x + changed


class _Model(nn.Module):
    """Embeddings, a layer, something after it, a head."""

    def __init__(self, after: Any = None, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.embeddings, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.layer, self.after = layer or _Layer(), after or (lambda x: x)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, input_ids: Tensor) -> Any:
        return SimpleNamespace(logits=self.head(self.after(self.layer(self.embeddings(input_ids)))))


class _Pair(_Layer):
    """A perceptron that gives two things, as those of experts may."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp.register_forward_hook(lambda module, inputs, output: (output, None))

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.mlp(x)[0]
        return x + changed


class _Residual(nn.Module):
    """A perceptron that adds what it does to something else that it is given, as Bloom's."""

    def __init__(self, named: bool) -> None:
        super().__init__()
        self.mlp, self.named = _Adding(4, 4), named

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.mlp(x, residual=x) if self.named else self.mlp(x, x)
        return changed


class _Adding(nn.Linear):
    """W x and a residual."""

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) + residual


class _Flat(_Layer):
    """A perceptron that is given the tokens of all sequences on one axis."""

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.mlp(x.flatten(0, 1))
        return x + changed.reshape(x.shape)


@pytest.mark.parametrize(
    ("model", "at_all"),
    [
        (lambda: _Model(), False),
        (lambda: _Model(lambda x: x.cumsum(1)), True),  # a token that looks at others after it
        (lambda: _Model(layer=_Pair()), True),
        (lambda: _Model(layer=_Residual(named=False)), True),
        (lambda: _Model(layer=_Residual(named=True)), True),
        (lambda: _Model(layer=_Flat()), True),
    ],
)
def test_a_perceptron_that_others_look_at_runs_at_all_tokens(model: Any, at_all: bool) -> None:
    made = model()
    AdapterBank(made, ["head"])
    given: list[int] = []
    made.layer.mlp.register_forward_hook(lambda m, x, y: given.append(x[0].numel() // 4))
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    expected = made(input_ids=ids).logits
    with computed_at(made, places := torch.tensor([[2, 4]]), places):
        logits = made(input_ids=ids).logits
    assert given == [5, 5 if at_all else 2]
    torch.testing.assert_close(logits, expected[:, [2, 4]])


def test_pairs_have_places_of_their_own() -> None:
    bank, batch = _bank("llama"), _batch()
    pairs = {name: value.reshape(N, 1, 2, T) for name, value in batch.items() if name != "label"}
    loss = bank.losses(_rows(bank), pairs, policy_preference_loss)
    total = bank.read(_rows(bank), batch, lambda o, d: token_log_likelihood(o, d)[0].sum(1))
    margin = total[:, 0] - total[:, 1]
    torch.testing.assert_close(loss, -torch.nn.functional.logsigmoid(margin))


def test_tokens_come_in_order_with_zero_after_the_last() -> None:
    bank, batch = _bank("llama"), _batch()
    output = bank.output(_rows(bank), batch)
    flat = {name: value.flatten(0, 1) for name, value in batch.items()}
    likelihood, counted = token_log_likelihood(output, flat, temperature=0.5)
    logs = torch.log_softmax(output.logits / 0.5, -1)
    for i, row in enumerate(flat["target_mask"]):
        places = row.nonzero()[:, 0]
        expected = [float(logs[i, t - 1, flat["input_ids"][i, t]]) for t in places]
        assert counted[i].sum() == len(expected)
        assert likelihood[i, : len(expected)].tolist() == pytest.approx(expected)
        assert (likelihood[i, len(expected) :] == 0).all()


@pytest.mark.parametrize("options", [{"chunk": 1}, {"engine": "vmap"}])
def test_engines_agree_on_tokens_where_one_client_has_every_token_scored(
    options: dict[str, Any],
) -> None:
    """Then there are no places, and other clients have fewer tokens of their own."""
    bank, batch = _bank("llama"), _batch()
    batch["target_mask"] = batch["target_mask"].clone()
    batch["target_mask"][0] = 1
    other = bank.with_options(**options)
    whole, parts = (
        one.read(_rows(bank), batch, lambda output, data: token_log_likelihood(output, data)[0])
        for one in (bank, bank.with_options(chunk=1))
    )
    torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-12)

    def squares(output: Any, data: Any) -> Tensor:
        return (token_log_likelihood(output, data)[0] ** 2).sum(-1)

    for value, expected in zip(
        other.gradients(_rows(bank), batch, squares),
        bank.gradients(_rows(bank), batch, squares),
        strict=True,
    ):
        torch.testing.assert_close(value, expected, rtol=1e-8, atol=1e-10)


def test_half_precision_is_left_before_the_sum_over_the_vocabulary() -> None:
    bank, batch = AdapterBank(small_model("llama").bfloat16(), ["q_proj"]), _batch()
    X = torch.zeros(N, r, bank.width)
    flat = {name: value.flatten(0, 1) for name, value in batch.items()}
    output = bank.output(X, batch)
    likelihood, _ = token_log_likelihood(output, flat)
    output.logits = output.logits.float()
    assert likelihood.dtype == torch.float32
    assert torch.equal(likelihood, token_log_likelihood(output, flat)[0])


def test_places_of_the_batch_itself_are_kept_and_hidden_states_are_those_of_the_head() -> None:
    bank, batch = _bank("llama"), _batch()
    places = torch.nn.functional.pad(target_places(batch["target_mask"]), (0, 2), value=-1)
    states = []

    def read(output: Any, data: Any) -> Tensor:
        states.append(bank.model.get_output_embeddings()(output.hidden) - output.logits)
        return token_log_likelihood(output, data)[0]

    likelihood = bank.read(_rows(bank), {**batch, "target_places": places}, read)
    assert likelihood.shape == (N, b, 5)
    assert not likelihood.requires_grad
    torch.testing.assert_close(
        likelihood[..., :3],
        bank.read(_rows(bank), batch, lambda o, d: token_log_likelihood(o, d)[0]),
    )
    assert states[0].abs().max() < 1e-12


def test_without_adapters_it_is_the_base_model_bit_for_bit() -> None:
    bank, batch = _bank("llama"), _batch()
    flat = {name: value.flatten(0, 1) for name, value in batch.items()}
    inputs = {name: flat[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        expected = bank.model(**inputs).logits
    del batch["target_mask"]
    assert torch.equal(bank.read(None, batch, lambda o, d: o.logits).flatten(0, 1), expected)
    inside = bank.read(_rows(bank), batch, lambda o, d: o.logits).flatten(0, 1)
    assert not torch.equal(inside, expected)


def test_a_budget_of_memory_divides_the_clients() -> None:
    bank, batch = _bank("llama"), _batch()
    X, sizes = _rows(bank), []

    def loss(output: Any, data: Any) -> Tensor:
        sizes.append(len(data["input_ids"]) // b)
        return answer_loss(output, data)

    expected = bank.gradients(X, batch, loss)
    assert sizes == [N]
    one = bank.with_options(memory=1 << 40)._bytes_of_one_client(
        X, bank._with_target_places(batch), loss, 1.0
    )
    for budget, clients in ((1, [1, 1, 1]), (2 * one, [2, 1]), (3 * one, [3])):
        limited = bank.with_options(memory=budget)
        slopes = limited.gradients(X, batch, loss)
        sizes.clear()
        limited.gradients(X, batch, loss)  # measured already
        assert sizes == clients
        for mine, other in zip(slopes, expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_the_measured_memory_grows_with_the_samples() -> None:
    bank, batch = _bank("llama", memory=1), _batch()
    once = bank._bytes_of_one_client(_rows(bank), bank._with_target_places(batch), answer_loss, 1.0)
    twice = {name: torch.cat([value, value], 1) for name, value in batch.items()}
    more = bank._bytes_of_one_client(_rows(bank), bank._with_target_places(twice), answer_loss, 1.0)
    assert 1.5 * once < more <= 2 * once  # the adapters are kept once


def test_memory_is_counted_while_it_is_kept() -> None:
    """What a pass lets go of again is neither added to what it keeps later, nor hides it."""
    x, large = torch.ones(4, requires_grad=True), torch.ones(1 << 18, requires_grad=True)

    def forward(first: Tensor, last: Tensor) -> list[Tensor]:
        first.exp().sum()
        kept = [x.exp() for _ in range(8)]
        last.exp().sum()
        return kept

    for first, last, expected in (
        (x, x, 9 * x.nbytes),
        (large, x, large.nbytes),
        (x, large, 8 * x.nbytes + large.nbytes),
    ):
        assert kept_bytes(nn.Identity(), lambda f=first, e=last: forward(f, e)) == expected


def test_a_chunk_and_a_budget_are_not_both() -> None:
    with pytest.raises(InputError, match="`memory` must be None where `chunk` is given"):
        _bank("llama", memory=10, chunk=1)
