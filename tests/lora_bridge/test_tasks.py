"""Losses and draws of clients with text."""

from __future__ import annotations

from collections import UserList
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import InputError
from lora_bridge import losses
from lora_bridge.affpcl import reward_logits, soft_cross_entropy
from lora_bridge.bank import AdapterBank
from lora_bridge.tasks import Task
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_batch, small_model


def _bank(dtype: torch.dtype = torch.float64) -> AdapterBank:
    return AdapterBank(small_model("gpt2", dtype), TARGETS["gpt2"])


def _rows(bank: AdapterBank, clients: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return 0.3 * torch.randn((clients, 2, bank.width), generator=generator, dtype=torch.float64)


def _shards(sizes: tuple[int, ...], sequences: int = 0) -> list[dict[str, Tensor]]:
    shards = []
    for i, size in enumerate(sizes):
        batch = small_batch(1, size * max(sequences, 1), seed=10 + i)
        made = {k: v[0] for k, v in batch.items() if k != "label"}
        mask = made["attention_mask"]
        made["target_mask"] = mask * (torch.arange(mask.shape[-1]) >= 1)
        if sequences:
            made = {k: v.unflatten(0, (-1, sequences)) for k, v in made.items()}
        shards.append(made)
    return shards


def _likelihood(model: Any, shard: dict[str, Tensor], *place: int) -> Tensor:
    """Token by token, of the sequence at a place."""
    names = ("input_ids", "attention_mask", "target_mask")
    ids, mask, target = (shard[name][place] for name in names)
    logits = model(input_ids=ids[None], attention_mask=mask[None]).logits[0].log_softmax(-1)
    parts = [logits[t - 1, ids[t]] for t in range(1, len(ids)) if target[t]]
    return torch.stack(parts).sum() if parts else torch.zeros(())


def test_likelihoods_are_sums_over_the_target() -> None:
    bank = _bank()
    [shard] = _shards((4,))
    output = bank.model(input_ids=shard["input_ids"], attention_mask=shard["attention_mask"])
    values = losses.log_likelihood(output, shard)
    for i in range(4):
        expected = _likelihood(bank.model, shard, i)
        torch.testing.assert_close(values[i], expected)
    tokens = shard["target_mask"].sum(-1)
    torch.testing.assert_close(losses.answer_loss(output, shard), -values / tokens)


def test_pairs_are_compared_within_a_sample() -> None:
    bank = _bank()
    [shard] = _shards((3,), sequences=2)
    task = Task(bank, [shard], losses.policy_preference_loss, batch=3)
    X = torch.zeros(1, 1, bank.width, dtype=torch.float64)
    chosen, rejected = (
        torch.stack([_likelihood(bank.model, shard, i, side) for i in range(3)]) for side in (0, 1)
    )
    expected = -torch.nn.functional.logsigmoid(chosen - rejected).mean()
    assert task.evaluate(0, X[0]) == pytest.approx(float(expected), rel=1e-10)
    values, gradients = bank.per_sample(_rows(bank, 1), task.draw([0], 0, 0), task.loss)
    assert values.shape == (1, 3)
    mean, left_out = task.gradients([0], _rows(bank, 1), task.draw([0], 0, 0), "round 0")
    assert left_out == {}
    torch.testing.assert_close(gradients.mean(1), mean)


def test_choices_by_likelihood_per_token() -> None:
    class Output:
        logits = torch.zeros(4, 3, 5)

    ids = torch.tensor([[0, 1, 2], [0, 3, 4], [0, 1, 2], [0, 3, 4]])
    Output.logits[0, 0, 1] = Output.logits[3, 0, 3] = 5.0
    batch = {
        "input_ids": ids,
        "target_mask": torch.tensor([[[0, 1, 1]] * 2] * 2),
        "answer": torch.tensor([0, 0]),
    }
    assert losses.choice_error(Output, batch).tolist() == [0.0, 1.0]


def test_reward_losses() -> None:
    class Output:
        logits = torch.tensor([[2.0], [0.5], [1.0], [1.0], [0.0], [3.0]])

    expected = -torch.nn.functional.logsigmoid(torch.tensor([1.5, 0.0, -3.0]))
    torch.testing.assert_close(losses.reward_preference_loss(Output, {}), expected)
    assert losses.reward_error(Output, {}).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "loss", [losses.reward_preference_loss, losses.reward_error, reward_logits]
)
@pytest.mark.parametrize("shape", [(4, 2), (4, 5, 9), (4,)])
def test_a_model_of_another_output_is_no_reward_model(loss: Any, shape: Any) -> None:
    output = SimpleNamespace(logits=torch.zeros(shape))
    with pytest.raises(InputError, match=r"a reward model must give one number .* task='reward'"):
        loss(output, {})


def test_a_text_without_its_rival_is_no_pair() -> None:
    output = SimpleNamespace(logits=torch.zeros(3, 1))
    with pytest.raises(InputError, match=r"a batch must be of pairs, .* found 3 texts"):
        losses.reward_preference_loss(output, {})


def test_soft_labels_with_one_class_are_hard_labels() -> None:
    class Output:
        logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))

    labels = torch.tensor([0, 2, 1, 1, 0])
    hard = losses.class_loss(Output, {"label": labels})
    soft = {"label_probabilities": torch.nn.functional.one_hot(labels, 3).float()}
    torch.testing.assert_close(soft_cross_entropy()(Output, soft), hard)


def test_draws_depend_on_names_alone_and_use_every_sample() -> None:
    task = Task(_bank(), _shards((5, 3, 9)), losses.answer_loss, batch=4)
    together = task.draw([0, 1, 2], 2, 1)
    for i in range(3):
        alone = task.draw([i], 2, 1)
        length = alone["input_ids"].shape[-1]
        assert torch.equal(alone["input_ids"][0], together["input_ids"][i, :, :length])
    assert not torch.equal(together["input_ids"], task.draw([0, 1, 2], 2, 2)["input_ids"])
    few = task.draw([1], 0, 0)["input_ids"][0]  # three samples in a batch of four
    assert len({tuple(row.tolist()) for row in few}) == 3


def _seen(batch: dict[str, Tensor]) -> list[list[int]]:
    """Which samples, (clients, samples), of shards that number theirs."""
    return batch["input_ids"][..., 0].tolist()


def _numbered(sizes: tuple[int, ...], **options: Any) -> Task:
    numbers = [torch.arange(size) for size in sizes]
    shards = [{"input_ids": n[:, None], "attention_mask": n[:, None] * 0 + 1} for n in numbers]
    return Task(_bank(), shards, losses.answer_loss, **options)


def test_draws_differ_between_seeds_clients_rounds_and_steps() -> None:
    """A draw of 20 of 20 is the same as another one with probability 1 / 20!."""
    task = _numbered((20, 20), batch=20)
    draws = [
        *_seen(task.draw([0, 1], 0, 0)),
        *_seen(task.draw([0], 1, 0)),
        *_seen(task.draw([0], 0, 1)),
        *_seen(_numbered((20,), batch=20, seed=1).draw([0], 0, 0)),
    ]
    assert all(sorted(draw) == list(range(20)) for draw in draws)
    assert len({tuple(draw) for draw in draws}) == len(draws)


def test_an_epoch_shows_every_sample_and_small_clients_begin_anew() -> None:
    task = _numbered((8, 3), batch=4)
    assert task.steps == 2
    steps = [_seen(task.pass_through([0, 1], 0, step)) for step in range(2)]
    first, second = ([*early, *late] for early, late in zip(*steps, strict=True))
    assert sorted(first) == list(range(8))
    assert sorted(second[:3]) == [0, 1, 2]
    assert second == (second[:3] * 3)[:8]
    assert _seen(task.pass_through([1], 0, 1)) == [second[4:]]  # alone as together
    assert _seen(task.pass_through([0], 1, 0)) != [first[:4]]


def test_a_clients_loss_is_the_mean_over_all_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(_bank(), _shards((5, 3)), losses.answer_loss)
    X = _rows(task.bank, 2)
    whole = task.evaluate(0, X[0])
    monkeypatch.setattr("lora_bridge.tasks._AT_ONCE", 2)
    assert task.evaluate(0, X[0]) == pytest.approx(whole, rel=1e-12)
    single = {k: v[None] for k, v in task.shards[0].items()}
    expected = float(task.bank.losses(X[:1], single, losses.answer_loss)[0])
    assert whole == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("width", [6, 8])
def test_wherever_the_padding_is_no_token_is_lost(width: int) -> None:
    # rotary places are relative, so that Llama sees the same text at other places
    bank = AdapterBank(small_model("llama"), TARGETS["llama"])
    [shard] = _shards((3,))
    keep = int(shard["attention_mask"].sum(-1).max())
    plain = {name: value[:, :keep] for name, value in shard.items()}
    left = {name: value.new_zeros(len(value), width) for name, value in plain.items()}
    for i, length in enumerate(plain["attention_mask"].sum(-1).tolist()):
        for name, value in plain.items():
            left[name][i, width - length :] = value[i, :length]
    tasks = [Task(bank, [part], losses.answer_loss, batch=3) for part in (plain, left)]
    X = _rows(bank, 1).float()
    values, slopes = zip(
        *(bank.gradients(X, task.draw([0], 0, 0), task.loss) for task in tasks), strict=True
    )
    torch.testing.assert_close(values[1], values[0])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-5)  # single precision
    assert tasks[1].evaluate(0, X[0]) == pytest.approx(tasks[0].evaluate(0, X[0]))


def test_bad_tasks() -> None:
    bank, shards = _bank(), _shards((5, 3))
    with pytest.raises(InputError, match="at least one client; found none"):
        Task(bank, [], losses.answer_loss)
    with pytest.raises(
        InputError, match=r"client 1 must have the same number of samples, 1 or more"
    ):
        Task(bank, [shards[0], {k: v[:0] for k, v in shards[1].items()}], losses.answer_loss)
    with pytest.raises(InputError, match=r"client 1 must have .*, as client 0; found"):
        Task(bank, [shards[0], {k: v[:, :4] for k, v in shards[1].items()}], losses.answer_loss)
    with pytest.raises(InputError, match="`batch`"):
        Task(bank, shards, losses.answer_loss, batch=0)


@pytest.mark.parametrize(
    ("token", "length", "message"),
    [
        (VOCABULARY, 6, "client 1 must have tokens that the model knows, 0 to 39; found 40"),
        (-100, 6, "client 1 must have tokens that the model knows, 0 to 39; found -100"),
        (3, 2000, "client 1 must have samples of at most 1024 tokens, .* found 2000"),
    ],
)
def test_tokens_that_the_model_does_not_know(token: int, length: int, message: str) -> None:
    good = {"input_ids": torch.zeros((2, 2000), dtype=torch.long)}
    good["attention_mask"] = torch.zeros_like(good["input_ids"])
    good["attention_mask"][:, :6] = 1  # padding is not counted
    bad = {name: value.clone() for name, value in good.items()}
    bad["input_ids"][1, 3] = token
    bad["attention_mask"][1, :length] = 1
    Task(_bank(), [good], losses.answer_loss)
    with pytest.raises(InputError, match=message):
        Task(_bank(), [good, bad], losses.answer_loss)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bank": None}, "`bank` must be an AdapterBank of the model; found None"),
        ({"loss": "answers"}, r"`loss` must be a function of \(output, batch\); found 'answers'"),
        ({"loss": lambda output: output}, r"\(output, batch\); found one of \(output\)"),
        ({"shards": {"input_ids": torch.ones(2, 3)}}, "`shards` must be a list, of one per client"),
        ({"shards": (shard for shard in [1])}, "`shards` must be a list, of one per client"),
        ({"shards": ["a", "b"]}, r"`shards\[0\]` must be a dictionary of tensors; found 'a'"),
        ({"shards": [{"input_ids": [1, 2]}]}, r"`shards\[0\]` must hold tensors; found \[1, 2\]"),
        (
            {"shards": [{"input_ids": torch.ones(2, 3)}]},
            "`input_ids of client 0` must be a tensor of whole numbers",
        ),
        (
            {"shards": [{n: torch.zeros(2, 3).long() for n in ("input_ids", "attention_mask")}]},
            "client 0 must have samples of one token or more; found one that is masked",
        ),
    ],
)
def test_what_makes_no_task(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"bank": _bank(), "shards": _shards((2,)), "loss": losses.answer_loss}
    with pytest.raises(InputError, match=message):
        Task(**{**given, **change})


@pytest.mark.parametrize("kind", [tuple, UserList, lambda own: np.array(own, dtype=object)])
def test_shards_may_be_in_whatever_has_places(kind: Any) -> None:
    shards = _shards((3, 5))
    task = Task(_bank(), kind(shards), losses.answer_loss)
    listed = Task(task.bank, shards, losses.answer_loss).draw([0, 1], 0, 0)
    assert all((task.draw([0, 1], 0, 0)[name] == value).all() for name, value in listed.items())


def test_an_unknown_choice_about_broken_numbers() -> None:
    with pytest.raises(InputError, match="`on_nan` must be one of stop, skip; found 'ignore'"):
        Task(_bank(), _shards((2,)), losses.answer_loss, on_nan="ignore")
