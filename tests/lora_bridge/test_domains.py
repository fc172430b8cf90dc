"""Domains from questions, pairs and made ones; rivals against their losses written plainly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.bilevel import answer_law
from lora_bridge.bank import AdapterBank
from lora_bridge.bilevel import TextDomain
from lora_bridge.data import Example, Pair
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.domains import (
    CONSONANTS,
    VOWELS,
    Answers,
    answers_of,
    generated_answers,
    read_domains,
)
from lora_bridge.policy_reward import Adapter, Models
from lora_bridge.rivals import Steps, dpo, hpl, reward_error, reward_mle, rlhf, sft
from lora_bridge.rollouts import sample

TOKENIZER = byte_tokenizer()
QUESTIONS = [
    Example("1+1=", "2", ("2", "3", "4")),
    Example("2+2=", "4", ("4", "5")),
    Example("name?", "any"),
]


def models(**options: Any) -> Models:
    """A byte-level model with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=TOKENIZER.eos_token_id,
        attn_implementation="eager",
    )
    bank = AdapterBank(LlamaForCausalLM(config), ["o_proj", "lm_head"])
    rewards = bank.with_options(targets=["q_proj", "v_proj"])
    starts = [
        torch.from_numpy(b.modules.start(2, np.random.default_rng(1))).float()
        for b in (bank, rewards)
    ]
    return Models(policy=Adapter(bank, starts[0]), reward=Adapter(rewards, starts[1]), **options)


@pytest.fixture(scope="module")
def domains() -> list[TextDomain]:
    """Three made ones."""
    shared = models()
    made = generated_answers(3, 3, prompts=8, pairs=60, strength=6.0, own=0.0)
    return [train.domain(TOKENIZER, shared) for train, _ in made]


def test_questions_prefer_the_right_answer_and_hold_wrong_ones() -> None:
    made = answers_of("sums", QUESTIONS, wrong=0.4)
    assert made.answers == (("2", "3", "4"), ("4", "5"), ("any",))
    assert made.chances[0] == pytest.approx((0.6, 0.2, 0.2))
    assert made.chances[2] == (1.0,)
    assert [pair[:3] for pair in made.pairs] == [(0, 0, 1), (0, 0, 2), (1, 0, 1)]
    assert sum(pair[3] for pair in made.pairs) == pytest.approx(1.0)
    domain = made.domain(TOKENIZER, models())
    assert domain.has_answer.tolist() == [[True] * 3, [True, True, False], [True, False, False]]
    assert domain.policy.lengths[0].tolist() == [2.0, 2.0, 2.0]  # with the end token
    law = answer_law(domain, domain.models.theta())
    assert law.sum(axis=1) == pytest.approx(1.0)
    assert law[2].tolist() == [1.0, 0.0, 0.0]
    assert domain.true_reward.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    ids = domain.tokens["input_ids"][1, 1]
    text = TOKENIZER.decode(ids[domain.tokens["attention_mask"][1, 1] == 1])
    assert text == "<s>2+2=5</s>"


def test_a_reward_is_read_before_the_end_token() -> None:
    domain = answers_of("sums", QUESTIONS[:2]).domain(TOKENIZER, models())
    shared, mask = domain.models, domain.tokens["attention_mask"]
    phi = torch.randn(shared.q, generator=torch.Generator().manual_seed(0))
    r = domain.reward(phi)
    ends = domain.tokens["input_ids"] == TOKENIZER.eos_token_id
    without = {**domain.tokens, "attention_mask": mask * ~ends}
    # the same texts in other shapes: some tens of roundings of 6e-8 of numbers of at most 2
    assert np.abs(replace(domain, tokens=without).reward(phi) - r).max() < 1e-5
    assert np.diff(np.sort(r[0])).min() > 1e-4  # the answers' own tokens count
    # the end tokens are those that a rollout ends with: of the generation settings, if they say
    model, both = shared.reward.bank.model, [0, TOKENIZER.eos_token_id]
    for of_model, of_generation in ((both, None), (0, both), (None, both)):
        model.config.eos_token_id, model.generation_config.eos_token_id = of_model, of_generation
        several = answers_of("sums", QUESTIONS[:2]).domain(TOKENIZER, replace(shared))
        assert np.abs(several.reward(phi) - r).max() < 1e-5


def test_pairs_with_the_same_prompt_list_its_answers() -> None:
    pairs = [Pair("p", "a", "b"), Pair("p", "b", "c"), Pair("p", "a", "b"), Pair("q", "x", "y")]
    made = answers_of("talk", pairs, wrong=0.5)
    assert made.answers == (("a", "b", "c"), ("x", "y"))
    assert made.chances[0] == pytest.approx((0.5, 0.25, 0.25))
    assert [pair[:3] for pair in made.pairs] == [(0, 0, 1), (0, 1, 2), (1, 0, 1)]
    assert made.domain(TOKENIZER, models()).truth is None


def test_a_domain_without_pairs_is_one_clear_line() -> None:
    domain = answers_of("open", [QUESTIONS[2]]).domain(TOKENIZER, models())
    message = "domain `open` must have preference pairs for the outer objective; found none"
    with pytest.raises(InputError, match=message):
        hpl([domain], domain.models.theta(), Steps(count=1))
    with pytest.raises(InputError, match=message):
        reward_mle([domain], domain.models.phi(), Steps(count=1))


def test_made_domains_have_the_reward_of_their_vowels() -> None:
    made = generated_answers(5, 3, prompts=6, own=0.0, strength=3.0, tests=4)
    values: dict[str, set[float]] = {vowel: set() for vowel in VOWELS}
    for i, (train, test) in enumerate(made):
        assert test is not None
        assert len(test.prompts) == 4
        assert not set(test.prompts) & set(train.prompts)
        for part in (train, test):
            for texts, rewards in zip(part.answers, part.truth, strict=True):
                for text, reward in zip(texts, rewards, strict=True):
                    assert text[0] in CONSONANTS[i]
                    values[text[1]].add(round(reward, 9))
    assert all(len(sums) == 1 for sums in values.values())  # shared by all domains
    theta = np.array([next(iter(sums)) for sums in values.values()])
    assert np.linalg.norm(theta) == pytest.approx(3.0)
    apart = generated_answers(5, 2, prompts=2, own=1.0)
    first, second = (sorted(set(sum(a.truth, ()))) for a, _ in apart)
    assert first != second
    with pytest.raises(InputError, match="`count` must be a whole number"):
        generated_answers(0, 9)


def test_a_file_of_questions_or_of_pairs_gives_domains(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    records = [
        {"instruction": f"is {i} even? Answer format: yes/no", "answer": "yes", "domain": name}
        for name in ("b", "a")
        for i in range(2)
    ]
    file.write_text("\n".join(map(json.dumps, records)))
    parts = read_domains(file)
    assert {name: len(items) for name, items in parts.items()} == {"a": 2, "b": 2}
    pairs = [{"prompt": "p", "chosen": "x", "rejected": "y", "domain": d} for d in "cd"]
    file.write_text(json.dumps(pairs))
    assert list(read_domains(file)) == ["c", "d"]
    file.write_text(json.dumps(pairs[:1]))
    with pytest.raises(InputError, match="`data` must hold two domains or more"):
        read_domains(file)
    file.write_text(json.dumps([*pairs, {"prompt": "p", "chosen": "x", "rejected": "y"}]))
    with pytest.raises(InputError, match=r"`data` must name the `domain` .*; found 1 without in"):
        read_domains(file)
    with pytest.raises(InputError, match="`data` must be a readable text file"):
        read_domains(tmp_path / "none.json")


STEPS = Steps(count=12, gamma=0.01, batch=16, seed=3)


@pytest.mark.slow
def test_sft_lowers_the_loss_of_fine_tuning(domains: list[TextDomain]) -> None:
    shared = domains[0].models
    theta = sft(domains, shared.theta(), STEPS)
    for domain in domains:
        before, after = (
            -(domain.law * domain.policy.log_prob(at)).sum() for at in (shared.theta(), theta)
        )
        assert after < before - 0.5
    assert torch.equal(theta, sft(domains, shared.theta(), STEPS))
    other = Steps(count=12, gamma=0.01, batch=16, seed=4)
    assert not torch.equal(theta, sft(domains, shared.theta(), other))


def test_preferences_are_learned_by_policies_and_rewards(domains: list[TextDomain]) -> None:
    shared = domains[0].models
    theta, phi = shared.theta(), shared.phi()
    oracles = [domain.oracle(beta=1.0) for domain in domains]
    trained = hpl(domains, theta, STEPS)
    for oracle in oracles:
        assert oracle.outer_loss(trained) < oracle.outer_loss(theta) - 0.05
    learned = reward_mle(domains, phi, STEPS)
    assert reward_error(domains[0], phi) == pytest.approx(0.5)
    assert np.mean([reward_error(d, learned) for d in domains]) < 0.4


def test_the_first_step_of_dpo_is_hpl_without_its_policy(domains: list[TextDomain]) -> None:
    """At pi_ref the argument is 0 for every pair: the slope is that of -beta u / 2."""
    shared, one = domains[0].models, Steps(count=1, gamma=0.01, batch=16)
    theta = 0.3 * torch.randn(shared.p, generator=torch.Generator().manual_seed(1))
    moved = dpo(domains, theta, one, beta=2.0) - theta
    assert not torch.allclose(moved, hpl(domains, theta, one) - theta)
    # Adam's first step is gamma times the sign of the gradient, whatever beta is
    assert torch.allclose(moved, dpo(domains, theta, one, beta=0.5) - theta, atol=1e-4)
    assert float(moved.abs().max()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_ppo_raises_the_reward_and_keeps_near_its_reference(domains: list[TextDomain]) -> None:
    shared = domains[0].models
    start = sft(domains, shared.theta(), Steps(count=40, gamma=0.02, batch=16))
    phi = reward_mle(domains, shared.phi(), Steps(count=25, gamma=0.02, batch=16))

    def reward(theta: Any) -> float:
        return float(
            np.mean([(answer_law(d, theta) * d.reward(phi)).sum(1).mean() for d in domains])
        )

    steps = Steps(count=12, gamma=0.02, batch=16, seed=2)
    free = rlhf(domains, phi, start, steps, beta=0.01, length=4)
    held = rlhf(domains, phi, start, steps, beta=100.0, length=4)
    assert reward(free) > reward(start) + 0.1
    near, far = (
        np.mean([np.abs(d.policy.log_prob(t) - d.policy.log_prob(start)).mean() for d in domains])
        for t in (held, free)
    )
    assert near < far


def test_ppo_answers_anew_after_its_passes(
    domains: list[TextDomain], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    def counted(*arguments: Any, round_: int, **options: Any) -> Any:
        rounds.append(round_)
        return sample(*arguments, round_=round_, **options)

    monkeypatch.setattr("lora_bridge.rivals.sample", counted)
    models = domains[0].models
    rlhf(domains, models.phi(), models.theta(), Steps(count=2), beta=1.0, length=2, passes=3)
    assert rounds == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: Steps(count=0), "`count` must be a whole number"),
        (lambda d: Steps(gamma=0.0), "`gamma` must be a number"),
        (lambda d: sft([], d.models.theta(), STEPS), "`domains` must hold at least one domain"),
        (lambda d: dpo([d], d.models.theta(), STEPS, beta=0.0), "`beta` must be a number"),
        (lambda d: answers_of("none", []), "`items` of domain `none` must be at least one"),
        (lambda d: answers_of("sums", QUESTIONS, wrong=1.0), "`wrong` must be a number"),
        (
            lambda d: sft([d], d.models.theta(), Steps(count=3, gamma=1e30)),
            "`gamma` must keep training finite; found 1e",
        ),
        (
            lambda d: answers_of("x", ["text"]),
            "`items` must be a list of Example or Pair",
        ),
        (
            lambda d: answers_of([Example("a", "b")], "x"),
            "`items` must be a list of Example or Pair",
        ),
        (lambda d: generated_answers(None), "`seed` must be a whole number of at least 0"),  # type: ignore[arg-type]
        (lambda d: Answers("x", (), (), ()), "`answers` must be one or more to each of 0 prompts"),
        (lambda d: Answers("x", ("p",), ((),), ((),)), r"to each of 1 prompts; found \[0\]"),
        (lambda d: Answers("x", ("p", "q"), (("a",),), ((1.0,),)), "to each of 2 prompts; found"),
        (
            lambda d: Answers("x", ("p",), (("a", "b"),), ((1.0,),)),
            r"`chances` must be of \[2\] answers; found \[1\]",
        ),
        (lambda d: read_domains(None), "`path` must be a path; found None"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_one_clear_line(domains: list[TextDomain], call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call(domains[0])
    assert "\n" not in str(caught.value)
