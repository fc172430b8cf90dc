"""What is sampled is what is scored, by whoever it is computed; masks, ends and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from linsys import InputError
from lora_bridge import _decoding, _noise, rollouts
from lora_bridge.bank import AdapterBank
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.rollouts import encode_prompts, responses, sample, score
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_model

#: Chosen before any measurement: a right sampler fails once in a thousand seeds.
_LEVEL = 1e-3


def _bank(kind: str, dtype: torch.dtype = torch.float32, **options: Any) -> AdapterBank:
    return AdapterBank(small_model(kind, dtype), TARGETS[kind], **options)


def _rows(bank: AdapterBank, N: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    dtype = next(bank.model.parameters()).dtype
    return 0.3 * torch.randn((N, 2, bank.width), generator=generator, dtype=dtype)


def _prompts(N: int, b: int, P: int = 5) -> dict[str, Tensor]:
    """Random tokens of random lengths, padded on the left."""
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(3, VOCABULARY, (N, b, P), generator=generator)
    start = torch.randint(0, P, (N, b, 1), generator=generator)
    start[0, 0] = P - 1
    return {"input_ids": ids, "attention_mask": (torch.arange(P) >= start).long()}


def _alone(
    bank: AdapterBank, x: Tensor, batch: dict[str, Tensor], at: tuple[int, int], temperature: float
) -> Tensor:
    """log pi of one response's tokens from one pass over it alone, without padding or a cache."""
    kept = batch["attention_mask"][at] == 1
    ids, target = batch["input_ids"][at][kept], batch["target_mask"][at][kept]
    logits = bank.output(x[None], {"input_ids": ids[None, None]}).logits[0]
    each = (logits[:-1] / temperature).log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return each[target[1:] == 1]


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_what_is_sampled_is_what_is_scored(kind: str, temperature: float) -> None:
    bank = _bank(kind)
    X, prompts, scale = _rows(bank, 3), _prompts(3, 4), torch.tensor([0.5, 1.0, 2.0])
    options: dict[str, Any] = {"temperature": temperature, "scale": scale}
    batch = sample(bank, X, prompts, length=6, seed=0, round_=0, **options)
    scored = sample(bank, X, prompts, length=6, seed=0, round_=0, together=4, **options)
    counted = batch["target_places"] >= 0
    assert counted[..., 0].all()
    assert torch.equal(scored["log_prob"], score(bank, X, batch, **options))  # PPO's ratio is 1
    for name in ("log_prob", "hidden"):  # some tens of roundings of 6e-8 of numbers of at most 6
        torch.testing.assert_close(batch[name], scored[name], atol=1e-5, rtol=0)
    for at in np.ndindex(3, 4):
        own = bank.with_options(scaling=float(scale[at[0]]))
        expected = _alone(own, X[at[0]], batch, at, temperature)
        log_probs = batch["log_prob"][at][counted[at]]
        torch.testing.assert_close(log_probs, expected, atol=1e-5, rtol=0)
        with pytest.raises(AssertionError):  # one token on
            torch.testing.assert_close(log_probs.roll(1), expected, atol=1e-5, rtol=0)


def _wide(top: int | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """p-values of two clients' first tokens, and of second ones after the client's commonest
    first, under the softmax of both clients, shape (2, 2, 2); of a vocabulary of 200."""
    config = GPT2Config(vocab_size=200, n_embd=16, n_layer=1, n_head=2, n_positions=8)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    bank = AdapterBank(model, TARGETS["gpt2"])
    X, draws = _rows(bank, 2), 6000
    ids = torch.tensor([5, 60, 7]).expand(2, draws, 3)
    if top is not None:
        drawn = _decoding.choose

        def cut(logits: Tensor, keys: Tensor, temperature: float) -> Tensor:
            least = logits.topk(top, -1).values[:, -1:]
            return drawn(logits.where(logits >= least, -torch.inf), keys, temperature)

        monkeypatch.setattr(_decoding, "choose", cut)
    prompts = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch = sample(bank, X, prompts, length=2, temperature=1.3, seed=1, round_=0)
    first, second = batch["input_ids"][..., 3:].unbind(-1)
    common = first.mode(-1).values[:, None]
    after = torch.cat([ids[:, :1], common[:, None]], -1)
    second = [own[before == most] for own, before, most in zip(second, first, common, strict=True)]
    batches = []
    for tokens, prefix in ((first, ids[:, :1]), (second, after)):
        policies = (bank.output(X, {"input_ids": prefix}).logits[:, -1].double() / 1.3).softmax(-1)
        counts = [np.bincount(own, minlength=200) for own in tokens]
        batches.append([[_p_value(n, policy.numpy()) for policy in policies] for n in counts])
    return np.array(batches)


def _p_value(counts: Any, policy: Any) -> float:
    """Of Pearson's test; tokens expected less than 5 times are one cell."""
    expected = counts.sum() * policy
    rare = expected < 5
    cells = [np.append(x[~rare], x[rare].sum()) for x in (counts, expected)]
    return float(stats.chisquare(*cells).pvalue)


def test_tokens_follow_the_whole_softmax_of_their_client(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _wide(None, monkeypatch)
    assert first.diagonal().min() > _LEVEL
    assert second.diagonal().min() > _LEVEL
    assert max(first[0, 1], first[1, 0]) < 1e-9


def test_a_truncated_distribution_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = _wide(50, monkeypatch)
    assert first.diagonal().max() < 1e-9


@pytest.mark.slow
def test_noise_that_tokens_share_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = _noise.token_keys
    monkeypatch.setattr(
        rollouts, "token_keys", lambda *names: keys(*names)[..., :1].expand(-1, -1, 2)
    )
    first, second = _wide(None, monkeypatch)
    assert first.diagonal().min() > _LEVEL
    assert second.diagonal().max() < 1e-9


def _splitmix64(state: int, count: int) -> list[int]:
    """The generator as its authors print it, in whole numbers."""
    made = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        x = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        made.append(x ^ (x >> 31))
    return made


def test_noise_is_the_published_generator_and_follows_gumbel() -> None:
    states = [0, 1234567, 2**63 + 5, 2**64 - 1]
    keys = torch.from_numpy(np.array(states, dtype=np.uint64).view(np.int64))
    bits = np.array([_splitmix64(state, 7) for state in states], dtype=np.uint64)
    expected = -np.log(-np.log(((bits >> np.uint64(11)).astype(float) + 0.5) / 2**53))
    np.testing.assert_allclose(_noise.gumbel(keys, 7).numpy(), expected, rtol=1e-13)
    keys = _noise.token_keys([0, 1, 5], 4, 50, 0, 0).flatten()
    noise = _noise.gumbel(keys, 300).numpy()
    assert stats.kstest(noise.ravel(), stats.gumbel_r.cdf).pvalue > _LEVEL
    for axis in (0, 1):  # nor are neighbours related, tokens or positions
        ranks = stats.gumbel_r.cdf(np.moveaxis(noise, axis, 0))
        pairs = np.histogram2d(ranks[:-1].ravel(), ranks[1:].ravel(), 16, [[0, 1]] * 2)[0]
        assert stats.chisquare(pairs.ravel()).pvalue > _LEVEL


def _chosen(choose: Any, dtype: torch.dtype) -> list[tuple[list[int], list[int]]]:
    """Tokens by ``choose`` and by the definition, of policies from flat to nearly certain."""
    generator, pairs = torch.Generator().manual_seed(0), []
    for seed, (spread, temperature) in enumerate([(0, 1.0), (1, 0.7), (5, 1.0), (30, 1.6)]):
        logits = spread * torch.randn(60, 90, generator=generator, dtype=dtype)
        logits[:, ::7] = -torch.inf
        keys = _noise.token_keys([0], 60, 1, seed, 0).flatten()
        wanted = (logits.double() / temperature + _noise.gumbel(keys, 90)).argmax(-1)
        pairs.append((choose(logits, keys, temperature).tolist(), wanted.tolist()))
    return pairs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_compiled_code_chooses_the_token_with_the_largest_sum(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(token == wanted for token, wanted in _chosen(_noise.choose, dtype))
    if dtype == torch.bfloat16:  # the definition itself
        return
    monkeypatch.setattr(_noise, "_choose", _noise._choose.py_func)
    assert all(token == wanted for token, wanted in _chosen(_noise.choose, dtype))
    monkeypatch.setattr(_noise, "_LOG_2", 0.5)  # what it takes for a bound is none
    assert any(token != wanted for token, wanted in _chosen(_noise.choose, dtype))


def test_close_policies_choose_the_same_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    draws, V, temperature = 3000, 1500, 0.8
    logits = 2 * torch.randn(V, generator=generator, dtype=torch.float64)
    near = logits + 0.01 * torch.randn(V, generator=generator, dtype=torch.float64)
    policies = [(one / temperature).softmax(-1) for one in (logits, near)]
    bound = float((policies[0] - policies[1]).abs().sum())
    keys = _noise.token_keys([0], draws, 1, 0, 0).flatten()
    first, second = (
        _noise.choose(one.expand(draws, V), keys, temperature) for one in (logits, near)
    )
    changed = int((first != second).sum())
    assert stats.binomtest(changed, draws, bound, alternative="greater").pvalue > _LEVEL
    # by cumulative distributions the same two would part more often than the bound allows
    numbers = torch.rand(draws, generator=generator, dtype=torch.float64)
    first, second = (torch.searchsorted(policy.cumsum(-1), numbers) for policy in policies)
    changed = int((first != second).sum())
    assert stats.binomtest(changed, draws, bound, alternative="greater").pvalue < 1e-9


def test_padding_that_a_model_does_not_bear_is_named() -> None:
    bank = _bank("llama", torch.float64)  # its eager attention, which tests have
    ids = torch.ones(1, 2, 3, dtype=torch.long)
    prompts = {"input_ids": ids, "attention_mask": torch.tensor([[[0, 1, 1], [1, 1, 1]]])}
    X = torch.zeros(1, 1, bank.width, dtype=torch.float64)
    with pytest.raises(InputError, match=r"`prompts` must be of one length .* single precision"):
        sample(bank, X, prompts, length=2, seed=0, round_=0)
    prompts["attention_mask"] = torch.ones_like(ids)
    assert sample(bank, X, prompts, length=2, seed=0, round_=0)["log_prob"].isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize(
    "options", [{"chunk": 2}, {"engine": "sequential"}, {"engine": "vmap"}, {"memory": 50_000}]
)
def test_grouping_changes_no_token(kind: str, options: dict[str, Any]) -> None:
    bank = _bank(kind, torch.float64)
    bank.model.set_attn_implementation("sdpa")  # the eager one of Llama pads in single precision
    X, prompts = _rows(bank, 5), _prompts(5, 3)
    scale = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)
    together = sample(bank, X, prompts, length=8, seed=2, round_=1, scale=scale)
    apart = bank.with_options(**options)
    if "memory" in options:
        assert 1 < _decoding.clients_at_a_time(apart, prompts["input_ids"], 8) < 5
    batch = sample(apart, X, prompts, length=8, seed=2, round_=1, scale=scale)
    _assert_same_rollout(batch, together)
    turned = sample(apart, X, prompts, length=8, seed=2, round_=1, scale=scale * (1 + 1e-6))
    with pytest.raises(AssertionError):
        _assert_same_rollout(turned, together)


def _assert_same_rollout(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Whole numbers are equal; products of matrices of another height only to rounding.

    That is below 1e-12 for some hundreds of double operations in a row on numbers of at most 10. A
    token could differ only where two sums of logit and noise are that close: by 1e-9 of a chance.
    """
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        atol = 1e-12 if value.is_floating_point() else 0
        torch.testing.assert_close(actual[name], value, atol=atol, rtol=0)


def test_a_client_alone_samples_what_it_samples_among_others() -> None:
    bank = _bank("gpt2", torch.float64)
    X, prompts = _rows(bank, 4), _prompts(4, 3)
    together = sample(bank, X, prompts, length=7, seed=2, round_=1)
    own = {name: value[2:3] for name, value in prompts.items()}
    alone = sample(bank, X[2:3], own, length=7, seed=2, round_=1, clients=[2])
    assert torch.equal(alone["input_ids"], together["input_ids"][2:3])
    fewer = {name: value[:, :2] for name, value in prompts.items()}
    batch = sample(bank, X, fewer, length=7, seed=2, round_=1)
    assert torch.equal(batch["input_ids"], together["input_ids"][:, :2])
    shorter = sample(bank, X, prompts, length=4, seed=2, round_=1)
    assert torch.equal(shorter["input_ids"], together["input_ids"][..., :-3])
    mistaken = sample(bank, X[2:3], own, length=7, seed=2, round_=1, clients=[3])
    assert not torch.equal(mistaken["input_ids"], together["input_ids"][2:3])


def test_tokens_depend_on_seed_and_round_and_on_no_global_generator() -> None:
    bank = _bank("llama")
    X, prompts = _rows(bank, 2), _prompts(2, 2)
    torch.manual_seed(0)
    first = sample(bank, X, prompts, length=9, seed=5, round_=3)["input_ids"]
    torch.manual_seed(1)
    again = sample(bank, X, prompts, length=9, seed=5, round_=3)["input_ids"]
    assert torch.equal(first, again)
    for other in ({"seed": 6, "round_": 3}, {"seed": 5, "round_": 4}):
        assert not torch.equal(first, sample(bank, X, prompts, length=9, **other)["input_ids"])


def test_a_response_ends_with_its_first_end_token() -> None:
    bank = _bank("llama")
    ends = list(range(8))
    bank.model.generation_config.eos_token_id = ends
    bank.model.config.pad_token_id = 9
    X, prompts = _rows(bank, 3), _prompts(3, 6)
    batch = sample(bank, X, prompts, length=6, seed=0, round_=0)
    lengths = []
    for at in np.ndindex(3, 6):
        response = batch["input_ids"][at][5:].tolist()
        length = next((k + 1 for k, token in enumerate(response) if token in ends), 6)
        rest = 6 - length
        assert response[length:] == [9] * rest
        assert batch["target_mask"][at].tolist() == [0] * 5 + [1] * length + [0] * rest
        mask = prompts["attention_mask"][at].tolist() + [1] * length + [0] * rest
        assert batch["attention_mask"][at].tolist() == mask
        places = [*range(4, 4 + length), *[-1] * rest]
        assert batch["target_places"][at].tolist() == places
        assert (batch["log_prob"][at] != 0).tolist() == [True] * length + [False] * rest
        used = batch["position_ids"][at][batch["attention_mask"][at] == 1]
        assert used.tolist() == list(range(len(used)))
        lengths.append(length)
    assert 1 in lengths
    assert 6 in lengths


def test_states_where_no_token_is_predicted_are_zero() -> None:
    """Whatever the model has at padding, which attention may leave without numbers."""
    bank = _bank("gpt2", share=False)
    bank.model.generation_config.eos_token_id = list(range(VOCABULARY // 2))

    def broken(module: Any, inputs: Any, output: Tensor) -> Tensor:
        first = torch.arange(output.shape[1])[:, None] == 0
        return output if output.shape[1] == 1 else output.masked_fill(first, torch.nan)

    bank.model.transformer.ln_f.register_forward_hook(broken)
    for together in (None, 2):
        batch = sample(
            bank, _rows(bank, 2), _prompts(2, 3), length=4, seed=0, round_=0, together=together
        )
        counted = batch["target_places"] >= 0
        assert 0 < int(counted.sum()) < counted.numel()
        assert batch["hidden"][~counted].eq(0).all()
        assert batch["hidden"][counted].isfinite().all()
        assert batch["hidden"][counted].any()


def test_nothing_is_decoded_after_all_have_ended() -> None:
    bank = _bank("gpt2")
    X, prompts = _rows(bank, 2), _prompts(2, 2)
    sample(bank, X, prompts, length=1, seed=0, round_=0)  # tries whether the model can share
    passes: list[int] = []
    bank.model.transformer.register_forward_hook(lambda *_: passes.append(1))
    sample(bank, X, prompts, length=6, seed=0, round_=0)
    assert len(passes) == 6
    sample(bank, X, prompts, length=6, seed=0, round_=0, together=2)
    assert len(passes) == 6 + 6 + 1  # and one that scores
    bank.model.generation_config.eos_token_id = list(range(VOCABULARY))
    batch = sample(bank, X, prompts, length=6, seed=0, round_=0)
    assert len(passes) == 6 + 6 + 1 + 1
    assert batch["target_mask"].sum(-1).eq(1).all()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_reference_is_the_base_model_bit_for_bit(kind: str) -> None:
    bank = _bank(kind)
    X, prompts = _rows(bank, 3), _prompts(3, 2)
    batch = sample(bank, X, prompts, length=5, seed=0, round_=0)
    base = _bank(kind)  # never had an adapter
    reference = score(bank, None, batch)
    assert torch.equal(reference, score(base, None, batch))
    assert not torch.allclose(reference, batch["log_prob"], atol=1e-2)
    nothing = torch.zeros_like(X)
    # other products: some tens of roundings of 6e-8 of numbers of at most 6
    torch.testing.assert_close(score(bank, nothing, batch), reference, atol=1e-5, rtol=0)
    unadapted = sample(bank, None, prompts, length=5, seed=0, round_=0, together=2)
    assert torch.equal(unadapted["log_prob"], score(base, None, unadapted))
    switched_off = sample(bank, X, prompts, length=5, seed=0, round_=0, scale=0.0)
    assert torch.equal(switched_off["input_ids"], unadapted["input_ids"])
    assert not torch.equal(batch["input_ids"], unadapted["input_ids"])


def test_prompts_come_padded_on_the_left_and_responses_go_as_texts() -> None:
    tokenizer = byte_tokenizer()
    texts = [["ab", "abcd"], ["", "xyz"]]
    prompts = encode_prompts(tokenizer, texts)
    assert prompts["input_ids"].shape == (2, 2, 5)
    assert prompts["attention_mask"].sum(-1).tolist() == [[3, 5], [1, 4]]
    assert prompts["input_ids"][0, 0].tolist()[:2] == [tokenizer.pad_token_id] * 2
    decoded = tokenizer.batch_decode(prompts["input_ids"].flatten(0, 1), skip_special_tokens=True)
    assert decoded == ["ab", "abcd", "", "xyz"]
    cut = encode_prompts(tokenizer, [["abcd"]], 2, too_long="cut", width=4)
    assert cut["attention_mask"].tolist() == [[[0, 0, 1, 1]]]
    assert cut["input_ids"][0, 0, 2:].tolist() == [
        tokenizer.bos_token_id,
        *tokenizer("d")["input_ids"],
    ]

    answers = [[["no", 2], ["naïv", 5]], [["", 0], ["yes ,", 5]]]
    ids = torch.full((2, 2, 11), tokenizer("?")["input_ids"][0])
    places = torch.full((2, 2, 6), -1)
    for i, j in np.ndindex(2, 2):
        text, _ = answers[i][j]
        tokens = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        ids[i, j, 5 : 5 + len(tokens)] = torch.tensor(tokens)
        ids[i, j, 5 + len(tokens) :] = tokenizer("!")["input_ids"][0]  # is no part of it
        places[i, j, : len(tokens)] = torch.arange(4, 4 + len(tokens))
    decoded = responses(tokenizer, {"input_ids": ids, "target_places": places})
    assert decoded == [["no", "naïv"], ["", "yes ,"]]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "`texts` must hold the same number of prompts"),
        ([["a"], ["b", "c"]], {}, r"of every client; found \[1, 2\]"),
        (["ab"], {}, r"`texts\[0\]` must be a list of texts; found 'ab'"),
        ([[["a", "b"]]], {}, r"`texts\[0\]` must be a list of texts; found \['a', 'b'\]"),
        ([[None]], {}, r"`texts\[0\]` must be a list of texts; found None"),
        ([["a"], ["b"]], {"clients": [3]}, "`clients` must be the numbers of 2 clients; found 1"),
        ([["a"], ["b"]], {"clients": 2}, "`clients` must be a list of numbers; found 2"),
        (
            [["a"], ["abcd"]],
            {"max_length": 3},
            "prompt 0 of client 1 must have 1 to max_length = 3",
        ),
        ([["abcd"]], {"max_length": 3, "too_long": "drop"}, "`too_long` must be one of error, cut"),
        ([["abcd"]], {"width": 3}, "`width` must be a whole number of at least 5"),
    ],
)
def test_prompts_that_cannot_be_encoded(texts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_prompts(byte_tokenizer(), texts, **options)


def _right(prompts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.flip(-1) for name, value in prompts.items()}


def _unlike(prompts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**prompts, "attention_mask": prompts["attention_mask"][:1]}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (_right, {}, "`prompts` must be padded on the left alone"),
        (
            lambda p: {**_right(p), "attention_mask": _right(p)["attention_mask"].bool()},
            {},
            "`prompts` must be padded on the left alone",
        ),
        (
            lambda p: {**p, "attention_mask": p["attention_mask"] / 2},
            {},
            "`attention_mask` must be a tensor of 0 and 1",
        ),
        (_unlike, {}, "`prompts` must have input_ids and attention_mask of one shape"),
        (lambda p: p["input_ids"], {}, "`prompts` must be a dictionary of tensors; found tensor"),
        (lambda p: {"input_ids": p["input_ids"]}, {}, "`attention_mask` must be .*; found None"),
        (
            lambda p: {n: v.float() for n, v in p.items()},
            {},
            "`input_ids` must be .* whole numbers",
        ),
        (
            lambda p: {n: v.numpy() for n, v in p.items()},
            {},
            "`prompts` must hold tensors; found a NumPy array of shape",
        ),
        (
            lambda p: {**p, "input_ids": p["input_ids"] + 99},
            {},
            "`prompts` must have tokens that the model knows, 0 to 39; .* may be another model's",
        ),
        (dict, {"scale": "1"}, "`scale` must be one number, or a tensor .* found '1'"),
        (dict, {"clients": "ab"}, "`clients` must be a list of numbers; found 'ab'"),
        (dict, {"length": 0}, "`length` must be a whole number of at least 1"),
        (dict, {"temperature": 0.0}, r"`temperature` must be a number in \(0"),
        (dict, {"length": 1020}, "at most the model's 1024 tokens; found 1025"),
        (dict, {"clients": [0, 1, 2]}, "`clients` must be the numbers of 2 clients; found 3"),
        (dict, {"clients": [0, -1]}, "`clients` must be a whole number of at least 0"),
        (dict, {"round_": -1}, "`round_` must be a whole number of at least 0"),
    ],
)
def test_what_cannot_be_sampled(change: Any, options: dict[str, Any], message: str) -> None:
    bank = _bank("gpt2")
    settings: dict[str, Any] = {"length": 2, "seed": 0, "round_": 0, **options}
    with pytest.raises(InputError, match=message):
        sample(bank, _rows(bank, 2), change(_prompts(2, 2)), **settings)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks_may_be_of_any_type(dtype: torch.dtype) -> None:
    bank, prompts = _bank("gpt2"), _prompts(2, 2)
    X, settings = _rows(bank, 2), {"length": 3, "seed": 0, "round_": 0}
    wanted = sample(bank, X, prompts, **settings)
    mask = prompts["attention_mask"].to(dtype)
    batch = sample(bank, X, {**prompts, "attention_mask": mask}, **settings)
    assert all((batch[name] == value).all() for name, value in wanted.items())


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), "1"])
def test_no_score_at_a_temperature_that_is_none(temperature: Any) -> None:
    bank = _bank("llama")
    batch = sample(bank, None, _prompts(2, 2), length=2, seed=0, round_=0)
    with pytest.raises(InputError, match=r"`temperature` must be a number in \(0"):
        score(bank, None, batch, temperature)


def test_adapters_without_numbers_are_named() -> None:
    bank = _bank("llama")
    X = _rows(bank, 3)
    X[1, 0, 0] = torch.nan
    with pytest.raises(InputError, match="finite log-probabilities; found others at client 7"):
        sample(bank, X, _prompts(3, 1), length=2, seed=0, round_=0, clients=[6, 7, 8])
    with pytest.raises(InputError, match=r"`input_ids` must have leading axes .* with 2 clients"):
        sample(bank, X[:2], _prompts(3, 1), length=2, seed=0, round_=0)


def test_a_model_that_writes_nothing_is_refused() -> None:
    bank = _bank("bert")
    with pytest.raises(InputError, match="causal language model; found BertForSequence"):
        sample(bank, _rows(bank, 1), _prompts(1, 1), length=2, seed=0, round_=0)
