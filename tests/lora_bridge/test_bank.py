"""The adapter bank against models with one adapter at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linsys import InputError
from lora_bridge.bank import AdapterBank
from tests.lora_bridge._models import LOSSES, TARGETS, small_batch, small_model, token_loss

KINDS = ("llama", "gpt2", "bert")
N, b, r = 3, 2, 2


def _bank(kind: str, dtype: torch.dtype = torch.float32, **options: Any) -> AdapterBank:
    return AdapterBank(small_model(kind, dtype), TARGETS[kind], scaling=2.0, **options)


def _rows(bank: AdapterBank, clients: int = N, rank: int = r) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    dtype = next(bank.model.parameters()).dtype
    return 0.3 * torch.randn((clients, rank, bank.width), generator=generator, dtype=dtype)


def _by_hand(bank: AdapterBank, x: Tensor, data: dict[str, Tensor], loss: Any) -> Tensor:
    """The gradient of one client: a deep copy whose weights are W0 + scaling B A."""
    model = copy.deepcopy(bank.model)
    x = x.detach().clone().requires_grad_()
    weights = {}
    for name, (B, A) in zip(bank.names, bank.modules.split(x), strict=True):
        weight = model.get_submodule(name).weight
        delta = bank.scaling * (B @ A)
        delta = delta if isinstance(model.get_submodule(name), nn.Linear) else delta.T
        weights[f"{name}.weight"] = weight + delta
    inputs = {k: v for k, v in data.items() if k != "label"}
    output = torch.func.functional_call(model, weights, (), inputs)
    (gradient,) = torch.autograd.grad(loss(output, data).mean(), x)
    return gradient


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_models_with_merged_weights(kind: str) -> None:
    bank = _bank(kind)
    X, batch = _rows(bank), small_batch(N, b)
    _, gradients = bank.gradients(X, batch, LOSSES[kind])
    for i in range(N):
        alone = {name: value[i] for name, value in batch.items()}
        expected = _by_hand(bank, X[i], alone, LOSSES[kind])
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(gradients[i], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [
        ("llama", torch.float32, 1e-5),
        ("bert", torch.float32, 1e-5),
        ("gpt2", torch.float64, 1e-10),
    ],
)
def test_the_engines_agree(kind: str, dtype: torch.dtype, tolerance: float) -> None:
    bank = _bank(kind, dtype)
    X, batch = _rows(bank), small_batch(N, b)
    if kind == "bert":  # its mask is not made for torch.func: a ready one is
        batch["attention_mask"] = torch.zeros(N, b, 1, 6, 6)
    values, gradients = bank.gradients(X, batch, LOSSES[kind])
    for options in ({"engine": "sequential"}, {"engine": "vmap"}, {"chunk": 2}):
        others = bank.with_options(**options).gradients(X, batch, LOSSES[kind])
        assert (others[0] - values).abs().max() <= tolerance * values.abs().max()
        assert (others[1] - gradients).abs().max() <= tolerance * gradients.abs().max()


def test_padded_ranks_with_a_scale_each_are_those_clients_alone() -> None:
    bank = _bank("gpt2", torch.float64)
    ranks, scales = (1, 3, 2), torch.tensor([3.0, 1.0, 1.5], dtype=torch.float64)
    X = _rows(bank, rank=3)
    for i, k in enumerate(ranks):
        X[i, k:] = 0
    batch = small_batch(N, b)
    _, gradients = bank.gradients(X, batch, token_loss, scales)
    for i, k in enumerate(ranks):
        alone = {name: value[i : i + 1] for name, value in batch.items()}
        _, own = bank.gradients(X[i : i + 1, :k], alone, token_loss, float(scales[i]))
        torch.testing.assert_close(gradients[i, :k], own[0], rtol=1e-10, atol=1e-12)
        assert (gradients[i, k:] == 0).all()


def test_objectives_share_the_forward_pass() -> None:
    bank = _bank("gpt2", torch.float64)
    X, batch = _rows(bank), small_batch(N, b)

    def two(output: Any, data: Any) -> Tensor:
        return torch.stack([token_loss(output, data), output.logits.square().mean((1, 2))], -1)

    values, gradients = bank.gradients(X, batch, two)
    assert gradients.shape == (N, 2, r, bank.width)
    for j in range(2):
        value, gradient = bank.gradients(X, batch, lambda o, d, j=j: two(o, d)[:, j])
        torch.testing.assert_close(values[:, j], value)
        torch.testing.assert_close(gradients[:, j], gradient)


def test_samples_one_by_one_average_to_the_client() -> None:
    bank = _bank("gpt2", torch.float64)
    X, batch = _rows(bank), small_batch(N, b)
    values, gradients = bank.gradients(X, batch, token_loss)
    each, by_sample = bank.per_sample(X, batch, token_loss)
    torch.testing.assert_close(each.mean(1), values)
    torch.testing.assert_close(by_sample.mean(1), gradients)
    assert (by_sample[:, 0] - by_sample[:, 1]).abs().max() > 1e-3
    scales = torch.tensor([3.0, 1.0, 0.5], dtype=X.dtype)
    _, gradients = bank.gradients(X, batch, token_loss, scales)
    torch.testing.assert_close(bank.per_sample(X, batch, token_loss, scales)[1].mean(1), gradients)


def test_hessian_vector_products_are_differences_of_gradients() -> None:
    bank = _bank("gpt2", torch.float64)
    X, batch = _rows(bank), small_batch(N, b)
    V = torch.randn(X.shape, dtype=X.dtype, generator=torch.Generator().manual_seed(5))
    product = bank.hvp(X, batch, token_loss, V)
    h = 1e-5
    ahead = bank.gradients(X + h * V, batch, token_loss)[1]
    behind = bank.gradients(X - h * V, batch, token_loss)[1]
    difference = (ahead - behind) / (2 * h)
    assert (product - difference).norm() <= 1e-6 * product.norm()
    parts = bank.with_options(chunk=2).hvp(X, batch, token_loss, V)
    torch.testing.assert_close(parts, product, rtol=1e-10, atol=1e-12)


def test_merged_products_become_part_of_the_frozen_model() -> None:
    bank = _bank("llama")
    X, batch = _rows(bank), small_batch(N, b)
    zero = torch.zeros_like(X)
    plain = bank.output(zero, batch).logits
    same = X[:1].expand(N, -1, -1)
    inside = bank.output(same, batch).logits
    merged = bank.merged(bank.modules.products(X[0]))
    torch.testing.assert_close(merged.output(zero, batch).logits, inside, rtol=1e-4, atol=1e-5)
    twice = merged.merged([-p for p in bank.modules.products(X[0])])
    torch.testing.assert_close(twice.output(zero, batch).logits, plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(bank.output(zero, batch).logits, plain)


def test_outside_of_the_bank_the_model_is_the_frozen_one() -> None:
    bank = _bank("bert")
    batch = small_batch(N, b)
    inputs = {k: v.flatten(0, 1) for k, v in batch.items() if k != "label"}
    before = bank.model(**inputs).logits
    bank.gradients(_rows(bank), batch, LOSSES["bert"])
    assert torch.equal(bank.model(**inputs).logits, before)
    with pytest.raises(ZeroDivisionError):
        bank.gradients(_rows(bank), batch, lambda output, data: 1 / 0)
    assert torch.equal(bank.model(**inputs).logits, before)
    assert all(parameter.grad is None for parameter in bank.model.parameters())


def test_dropout_is_on_in_gradients_only() -> None:
    bank = _bank("llama", dropout=0.5)
    X, batch = _rows(bank), small_batch(N, b)
    assert torch.equal(bank.losses(X, batch, token_loss), bank.losses(X, batch, token_loss))
    torch.manual_seed(0)
    first = bank.gradients(X, batch, token_loss)[1]
    again = bank.gradients(X, batch, token_loss)[1]
    torch.manual_seed(0)
    repeated = bank.gradients(X, batch, token_loss)[1]
    assert not torch.equal(first, again)
    assert torch.equal(first, repeated)


def test_half_precision_is_close_and_adapters_stay_as_they_are() -> None:
    bank = _bank("llama")
    X, batch = _rows(bank), small_batch(N, b)
    values, gradients = bank.gradients(X, batch, token_loss)
    half = bank.with_options(autocast=torch.bfloat16)
    rough, slopes = half.gradients(X, batch, token_loss)
    assert slopes.dtype == torch.float32
    # bfloat16 keeps eight bits: a relative error of 2^-8 per operation, some tens of them in a row
    assert (rough - values).abs().max() <= 0.1 * values.abs().max()
    cosine = torch.cosine_similarity(slopes.flatten(1), gradients.flatten(1))
    assert (cosine > 0.98).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ["q_prj"]}, "found 'q_prj' (did you mean q_proj?)"),
        ({"targets": []}, "`targets` must be a list of at least one module"),
        ({"targets": "q_proj"}, "`targets` must be a list"),
        (
            {"targets": ["embed_tokens"]},
            "must name linear modules of the model, which has down_proj",
        ),
        ({"engine": "banks"}, "`engine` must be one of"),
        ({"chunk": 0}, "`chunk` must be"),
        ({"scaling": 0.0}, "`scaling` must be"),
        ({"targets": 3}, "`targets` must be a list of at least one module; found 3"),
        ({"targets": (name for name in ["q_proj"])}, "`targets` must be a list"),
        ({"targets": [0]}, "`targets` must be a list of names of modules; found 0"),
        ({"model": "gpt2"}, "`model` must be a torch.nn.Module, such as"),
        ({"dropout": 1.0}, "`dropout` must be a number in [0, 1); found 1"),
        ({"autocast": "bfloat16"}, "`autocast` must be a torch.dtype; found 'bfloat16'"),
        ({"autocast": torch.int8}, "`autocast` must be one of torch.bfloat16"),
        ({"frozen": None}, "`frozen` must be a list of tensors; found None"),
        ({"frozen": (torch.zeros(16, 16),)}, "`frozen` must be 4, one per module; found 1"),
        ({"frozen": (torch.zeros(1, 16),) * 4}, "`frozen[0]` must have shape (16, 16); found (1,"),
    ],
)
def test_bad_options(change: dict[str, Any], message: str) -> None:
    options = {"model": small_model("llama"), "targets": TARGETS["llama"]} | change
    with pytest.raises(InputError) as error:
        AdapterBank(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, X, d: n.losses(X.numpy(), d, token_loss), "`X` must be a tensor of floating"),
        (lambda n, X, d: n.gradients(X.long(), d, token_loss), r"found shape .* of torch.int64"),
        (lambda n, X, d: n.gradients(None, d, token_loss), "`X` must be a tensor of floating"),
        (
            lambda n, X, d: n.per_sample(X.tolist(), d, token_loss),
            "`X` must be a tensor of floating",
        ),
        (lambda n, X, d: n.losses(X.to("meta"), d, token_loss), "on cpu; found shape .* on meta"),
        (lambda n, X, d: n.losses(X, {}, token_loss), "`batch` must be a dictionary of tensors"),
        (
            lambda n, X, d: n.per_sample(X, [d], token_loss),
            "`batch` must be a dictionary of tensors",
        ),
        (
            lambda n, X, d: n.losses(X, {"input_ids": [1]}, token_loss),
            r"found \[1\] as 'input_ids'",
        ),
        (
            lambda n, X, d: n.losses(X, d, token_loss, "1"),
            "`scale` must be one number, .* found '1'",
        ),
        (
            lambda n, X, d: n.losses(X, d, token_loss, [1.0] * 3),
            r"`scale` .* found \[1.0, 1.0, 1.0\]",
        ),
        (
            lambda n, X, d: n.hvp(X, d, token_loss, torch.cat([X, X])),
            r"`V` must have shape \(3, 2, ",
        ),
        (
            lambda n, X, d: n.losses(X, d, lambda o, b: b["target_mask"]),
            "`batch` must have target_mask, which the loss reads; found input_ids, attention_mask",
        ),
        (lambda n, X, d: n.losses(X, d, lambda o, b: 1.0), "for each of 6 samples; found 1.0"),
        (
            lambda n, X, d: n.losses(X, d, lambda o, b: [0.0] * 6),
            r"for each of 6 samples; found \[0",
        ),
        (
            lambda n, X, d: n.merged([torch.zeros(2, 3)]),
            "`products` must be 4, one per module; found 1",
        ),
        (
            lambda n, X, d: n.merged([torch.zeros(2, 3)] * 4),
            r"`products\[0\]` must have shape \(16, 16",
        ),
    ],
)
def test_bad_calls(call: Any, message: str) -> None:
    bank = _bank("llama")
    with pytest.raises(InputError, match=message):
        call(bank, _rows(bank), small_batch(N, b))


def test_what_a_loss_itself_lacks_is_not_asked_of_the_batch() -> None:
    bank = _bank("llama")
    with pytest.raises(KeyError, match="7"):
        bank.losses(_rows(bank), small_batch(N, b), lambda o, d: {}[7])


@pytest.mark.parametrize("engine", ["bank", "sequential", "vmap"])
def test_a_loss_that_is_cut_from_the_adapters_has_no_gradient(engine: str) -> None:
    bank = _bank("llama", engine=engine)
    with pytest.raises(InputError, match="`loss` must be differentiable; found values that depend"):
        bank.gradients(_rows(bank), small_batch(N, b), lambda o, d: token_loss(o, d).detach())


def test_bad_arguments() -> None:
    bank = _bank("llama")
    X, batch = _rows(bank), small_batch(N, b)
    with pytest.raises(
        InputError, match=r"`X` must have shape \(clients, r, \d+\); found \(3, 2, 5\)"
    ):
        bank.gradients(X[..., :5], batch, token_loss)
    with pytest.raises(InputError, match=r"`input_ids` must have leading axes .* with 2 clients"):
        bank.gradients(X[:2], batch, token_loss)
    empty = {name: value[:, :0] for name, value in batch.items()}
    with pytest.raises(InputError, match="at least one sample"):
        bank.gradients(X, empty, token_loss)
    for shape in ((), (1,), (2,)):  # one client at a time or all together: refused alike
        for engine in ("bank", "sequential"):
            with pytest.raises(InputError, match=r"`scale` must be one number.* 3 clients"):
                bank.with_options(engine=engine).gradients(X, batch, token_loss, torch.ones(shape))
    with pytest.raises(InputError, match="a value for each of 6 samples; found shape"):
        bank.gradients(X, batch, lambda output, data: output.logits.mean())
