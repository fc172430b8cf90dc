"""Density ratios are ratios to the mean of all agents' measures, calibrated, and unbiased."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from linsys import InputError
from lora_bridge.ratios import (
    batch_ratio,
    checked,
    fit_ratios,
    pooled_features,
    ratios_of_shares,
    whitening,
)
from tests.lora_bridge._models import small_batch, small_model

MODEL: Any = small_model("llama")
SHARES = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)


def _texts(shift: float, sizes: tuple[int, ...] = (200, 100, 150)) -> list[Tensor]:
    """Agents whose features are normal around ``shift`` times a unit vector of their own."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(m, 4, generator=generator) + shift * torch.eye(4)[i]
        for i, m in enumerate(sizes)
    ]


def test_shares_give_the_ratios() -> None:
    rho = ratios_of_shares(SHARES)
    torch.testing.assert_close(rho[0], torch.tensor([1.5, 1.2, 2 / 7]).double())
    nobody = ratios_of_shares(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    assert nobody.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(InputError, match=r"rows with sum 1; found 0\.5"):
        ratios_of_shares(torch.tensor([[0.5, 0.0], [0.5, 0.5]]))
    with pytest.raises(InputError, match=r"must be at least 0; found -0\.5"):
        ratios_of_shares(torch.tensor([[1.5, -0.5], [0.5, 0.5]]))


def test_shares_may_have_been_rounded_as_a_model_computes() -> None:
    shares = torch.softmax(torch.randn(500, 5, generator=torch.Generator().manual_seed(1)), 1)
    rounded = shares.bfloat16().float()
    assert (rounded.sum(1) - 1).abs().max() > 1e-3
    torch.testing.assert_close(
        ratios_of_shares(rounded), ratios_of_shares(shares), rtol=0.01, atol=0
    )
    with pytest.raises(InputError, match=r"rows with sum 1; found 1\.01"):
        ratios_of_shares(1.01 * shares)


def test_ratios_are_bounded_and_have_mean_one() -> None:
    good = torch.tensor([[2.0, 0.5], [0.0, 1.5]])
    assert checked(good) is good
    with pytest.raises(InputError, match=r"in \[0, 2\]; found 0.0 to 2.5"):
        checked(torch.tensor([[2.5, 1.0], [0.0, 1.0]]))
    with pytest.raises(InputError, match=r"in \[0, 2\]; found -0.5"):
        checked(torch.tensor([[2.0, 1.0], [-0.5, 1.0]]))
    with pytest.raises(InputError, match=r"in \[0, 2\]"):
        checked(torch.full((2, 1), math.nan))
    with pytest.raises(InputError, match=r"mean 1 over agents; found 0\.9"):
        checked(torch.tensor([[1.0, 0.9], [1.0, 0.9]]))


def _all_batches(b: int) -> tuple[Tensor, Tensor, Tensor]:
    """All minibatches of b texts of three domains: domains, log rho^i of texts, probabilities."""
    batches = torch.tensor(list(itertools.product(range(3), repeat=b)))
    log = ratios_of_shares(SHARES).log().mT[batches]  # (batches, b, 2)
    return batches, log, SHARES[:, batches].prod(-1)


def test_ratios_of_minibatches_keep_the_correction_unbiased() -> None:
    """(1/n) sum_j E_j[rho^i f] = E_i[f], summed over all minibatches that there are."""
    batches, log, chance = _all_batches(b=3)
    value = torch.tensor([1.0, -2.0, 5.0]).double()[batches].mean(-1)  # any function of texts
    rho = torch.stack([batch_ratio(torch.stack([one, one]))[:, 0] for one in log], 1)
    corrected = (chance.mean(0) * rho * value).sum(1)
    torch.testing.assert_close(corrected, (chance * value).sum(1))
    # the mean of the texts' own ratios has mean one too, but another expectation
    plain = (chance.mean(0) * log.exp().mean(1).mT * value).sum(1)
    assert (plain - corrected).abs().min() > 0.1


def test_a_minibatch_with_a_text_that_an_agent_never_has_is_not_its() -> None:
    log = ratios_of_shares(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).log().mT
    rho = batch_ratio(torch.stack([log[[0, 0]], log[[0, 1]]]))
    torch.testing.assert_close(rho, torch.tensor([[1.6, 0.0], [0.4, 2.0]]))


def test_the_classifier_finds_the_ratios_of_normal_texts() -> None:
    features = _texts(2.0, (600, 300, 450))
    fitted = fit_ratios(features)
    assert [part.shape for part in fitted.log_ratio] == [(600, 3), (300, 3), (450, 3)]
    rho = checked(torch.cat(fitted.log_ratio).exp().mT)
    logits = 2.0 * torch.cat(features)[:, :3] - 2.0  # log densities up to a common term
    true = 3 * torch.softmax(logits, 1).mT
    assert (rho - true).abs().mean() < 0.1
    assert 0.7 < fitted.temperature < 1.4
    assert 0.5 < fitted.gain < math.log(3)
    assert fitted.error < 0.05


def test_equal_agents_have_ratios_of_one() -> None:
    fitted = fit_ratios(_texts(0.0))
    rho = torch.cat(fitted.log_ratio).exp()
    assert (rho - 1).abs().mean() < 0.2
    assert abs(fitted.gain) < 3 * fitted.error + 1e-3


def test_a_classifier_that_believes_too_much_is_calibrated() -> None:
    """Forty texts of equal agents in thirty dimensions: it separates those it has seen."""
    features = torch.randn(2, 20, 30, generator=torch.Generator().manual_seed(0))
    fitted = fit_ratios(list(features), strength=0.01)
    assert fitted.temperature > 3.0
    assert fitted.gain > -1e-3  # without the temperature about -1 nat, worse than rho = 1


def test_two_agents_are_enough_and_one_is_not() -> None:
    fitted = fit_ratios(_texts(3.0)[:2])
    checked(torch.cat(fitted.log_ratio).exp().mT)
    assert fitted.gain > 0.4
    with pytest.raises(InputError, match=r"2 or more agents with at least 5 texts.*found \[200\]"):
        fit_ratios(_texts(0.0)[:1])
    with pytest.raises(InputError, match=r"found \[200, 100, 3\]"):
        fit_ratios([*_texts(0.0)[:2], torch.zeros(3, 4)])


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_features_do_not_see_the_padding(kind: str) -> None:
    model: Any = small_model(kind).eval()
    batch = {name: value[0] for name, value in small_batch(1, 5).items()}
    features = pooled_features(model, batch)
    assert features.shape == (5, 32)
    noise = batch["input_ids"].where(batch["attention_mask"] > 0, 7)
    torch.testing.assert_close(pooled_features(model, {**batch, "input_ids": noise}), features)
    one = {
        name: value[:1, : int(batch["attention_mask"][0].sum())]
        for name, value in batch.items()
        if name != "label"
    }
    torch.testing.assert_close(pooled_features(model, one), features[:1], atol=1e-5, rtol=1e-5)


def test_features_of_pairs_are_differences() -> None:
    model: Any = small_model("llama").eval()
    batch = {name: value[0] for name, value in small_batch(1, 4).items() if name != "label"}
    each = pooled_features(model, batch)
    pairs = pooled_features(model, {name: v.unflatten(0, (2, 2)) for name, v in batch.items()})
    torch.testing.assert_close(pairs, torch.stack([each[0] - each[1], each[2] - each[3]]))


def test_whitened_features_have_unit_second_moments() -> None:
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(50, 6, generator=generator, dtype=torch.float64)
    raw = raw @ torch.diag(torch.tensor([5.0, 3, 2, 1, 0.1, 0]).double()) + 7
    made = whitening(raw, most=4)(raw)
    torch.testing.assert_close(made.mT @ made / 50, torch.eye(5).double())
    assert whitening(raw, most=9)(raw).shape == (50, 6)  # one direction is empty
    with pytest.raises(InputError, match="must differ between texts"):
        whitening(torch.ones(5, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checked([[2.0], [1.0]]), "`rho` must be a tensor of floating-point numbers"),
        (lambda: batch_ratio(torch.zeros(3, 1, 2)), r"`log_ratio` must have shape \(n, b, 3\)"),
        (lambda: ratios_of_shares([[1.0, 0.0]]), "`shares` must be a tensor of floating-point num"),
        (lambda: pooled_features(None, {}), "`model` must be a model of transformers; found None"),
        (lambda: pooled_features(MODEL, ["text"]), "`texts` must be a dictionary of tensors"),
        (
            lambda: pooled_features(MODEL, {"input_ids": torch.ones(2, 3).long()}),
            "`attention_mask` must be a tensor of 0 and 1; found None",
        ),
        (
            lambda: pooled_features(MODEL, small_batch(2, 3)),
            r"`texts` must have shape \(m, T\), or",
        ),
        (lambda: whitening([[1.0]]), "`features` must be a tensor of floating-point numbers"),
        (lambda: whitening(torch.tensor([[1.0, math.nan]])), "`features` must be finite"),
        (lambda: whitening(torch.empty(0, 3)), "`features` must .*; found"),
        (
            lambda: fit_ratios(None),
            "`features` must be a list, of one tensor per agent; found None",
        ),
        (
            lambda: fit_ratios([t.numpy() for t in _texts(0.0)]),
            r"`features\[0\]` must be a tensor of",
        ),
        (lambda: fit_ratios([t / 0 for t in _texts(0.0)]), r"`features\[0\]` must be finite"),
        (lambda: fit_ratios([*_texts(0.0), torch.ones(9, 9)]), r"`features` must have shape \(m, "),
        (lambda: fit_ratios(_texts(0.0), seed=None), "`seed` must be a whole number"),
    ],
)
def test_features_and_ratios_that_are_none(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
