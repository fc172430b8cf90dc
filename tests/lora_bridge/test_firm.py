"""FIRM on language models: gradients, switches, engines, clients apart, runs that go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.checkpoint import restore, save
from lora_bridge.critics import Critics
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.firm import Alignment, Memory
from lora_bridge.losses import token_log_likelihood
from lora_bridge.ppo import (
    Controller,
    gae,
    kl_estimate,
    surrogate,
    terminal,
    token_kl,
    token_weights,
    whiten,
)
from lora_bridge.rewards import Declared, Reward, scores
from lora_bridge.rollouts import responses, score
from lora_bridge.toy_rewards import letter_rewards
from mgda.fedcmoo import FedCMOO
from mgda.federated import Federated, State
from mgda.firm import FIRM
from mgda.runs import iterate
from mgda.scalarization import LinearScalarization

TOKENIZER = byte_tokenizer()
LENGTH, RANK, C = 6, 2, 3
PROMPTS = [["one", "two?", "a third", "4"], ["five", "six", "seven"], ["eight", "nine", "ten", "e"]]
ALGORITHMS: dict[str, Federated] = {
    "firm": FIRM(alpha=0.02, K=4, optimizer="adam"),
    "beta 0": FIRM(alpha=0.5, K=4, beta=0.0),
    "preference": FIRM(alpha=0.5, K=4, beta=0.0, preference=(0.2, 0.8)),
    "server": FedCMOO(alpha=0.5, K=4),
    "fixed": LinearScalarization(alpha=0.5, K=4, weights=(0.5, 0.5)),
}


def model(dtype: torch.dtype = torch.float64) -> Any:
    """A GPT-2 shape in double precision, in which nothing is forced to single precision."""
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40}
    config = GPT2Config(vocab_size=len(TOKENIZER), attn_implementation="eager", **sizes)
    config.eos_token_id = TOKENIZER.eos_token_id
    config.pad_token_id = TOKENIZER.pad_token_id
    return GPT2LMHeadModel(config).to(dtype)


MODEL = model()


def alignment(**options: Any) -> Alignment:
    bank = options.pop("bank", None) or AdapterBank(MODEL, ["c_attn", "c_proj"])
    given: dict[str, Any] = {
        "prompts": PROMPTS,
        "rewards": rewards(),
        "batch": 4,
        "minibatch": 2,
        "epochs": 2,
        "critics": Critics(step=0.01),
        "controller": Controller(start=0.3, target=0.05, horizon=20),
        "seed": 5,
        "length": LENGTH,
    }
    given |= {"tokenizer": TOKENIZER, "rank": RANK}
    return Alignment(bank=bank, **{**given, **options})


def rewards() -> tuple[Reward, ...]:
    """Rewards for halves of all bytes: a random model hardly ever writes letters of a class."""
    low = Declared("low", lambda p, r: [_share(t, 0, 96) for t in r], 0.0, 1.0)
    high = Declared("high", lambda p, r: [_share(t, 64, 255) ** 0.5 for t in r], 0.0, 1.0)
    return (low, high)


def _share(text: str, low: int, high: int) -> float:
    return sum(low <= ord(c) <= high for c in text) / max(1, len(text))


def start(oracle: Alignment, scale: float = 0.1) -> Tensor:
    """Random adapters of all clients, B not zero."""
    generator = torch.Generator().manual_seed(3)
    shape = (1, oracle.C, oracle.d)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def follow(oracle: Alignment, algorithm: Federated, steps: int, scale: float = 0.1) -> list[State]:
    state = algorithm.init(start(oracle, scale), oracle)
    return [after for _, _, after in iterate(algorithm, oracle, state, steps)]


def by_hand(oracle: Alignment, theta: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """The first gradients of every client, objective and of the penalty, one pass each."""
    batch, bank = memory.rollout, oracle.bank
    X = theta.reshape(oracle.C, RANK, -1)
    texts = oracle.schedule.prompts(oracle.prompts, 0)
    scored = scores(oracle.rewards, texts, responses(TOKENIZER, batch)).float()
    counted = batch["target_places"] >= 0
    reference = score(bank, None, batch)
    paid = terminal(scored, counted)
    penalty = -token_kl(batch["log_prob"], reference)[..., None].float()
    if oracle.kl == "inside":
        tokens = paid + oracle.controller.start * penalty
        rest = tokens[..., :0]
    else:
        tokens, rest = paid, penalty
    # critics begin at zero
    A, R = (gae(r, torch.zeros_like(r), counted, 1.0, 0.95)[0] for r in (tokens, rest))
    if oracle.whitened:
        A = whiten(A, counted)
    slopes = []
    for c in range(oracle.C):
        rows = oracle.schedule.rows(0)[c]
        own = torch.from_numpy(rows)
        part = {name: value[c : c + 1, own] for name, value in batch.items()}
        weights = token_weights(counted[c : c + 1, own], oracle.average)[0]
        columns = []
        for advantages in (
            *A[c, own].unbind(-1),
            *(oracle.controller.start * R[c, own]).unbind(-1),
        ):
            x = X[c : c + 1].clone().requires_grad_()
            with bank.adapted(x):
                names = ("input_ids", "attention_mask", "position_ids")
                output = bank.model(**{name: part[name][0] for name in names})
            flat = {"input_ids": part["input_ids"][0], "target_mask": part["target_mask"][0]}
            log_pi, _ = token_log_likelihood(output, flat)
            log_pi = torch.nn.functional.pad(log_pi, (0, LENGTH - log_pi.shape[1]))
            value = (weights * advantages * log_pi).sum() / oracle.minibatch
            columns.append(torch.autograd.grad(value, x)[0].reshape(-1))
        slopes.append(torch.stack(columns, -1))
    together = torch.stack(slopes)[None]
    return together[..., : oracle.M], together[..., oracle.M :]


@pytest.mark.parametrize("kl", ["outside", "inside"])
@pytest.mark.parametrize("average", ["token", "sequence", "sum"])
@pytest.mark.parametrize("whitened", [True, False])
def test_gradients_against_separate_passes(kl: str, average: str, whitened: bool) -> None:
    """At ratios of 1 the surrogates' gradients are policy gradients, one pass for each here."""
    oracle = alignment(kl=kl, average=average, whitened=whitened)
    theta = start(oracle)
    gradients, memory, *common = oracle.jac(theta, oracle.init())
    expected, penalty = by_hand(oracle, theta, memory)
    size = float(expected.abs().max())
    assert size > 1e-3
    # advantages are in single precision
    torch.testing.assert_close(gradients, expected, atol=1e-6 * size, rtol=1e-5)
    if kl == "outside":
        torch.testing.assert_close(
            common[0], penalty[..., 0], atol=1e-6 * float(penalty.abs().max()), rtol=1e-5
        )
        assert float(penalty.abs().max()) > 1e-5
    else:
        assert not common


def log_ratios(oracle: Alignment, theta: Tensor, memory: Memory, step: int) -> Tensor:
    """log pi of the policy that sampled, scored again with gradients' batches, less what it was."""
    part = oracle._part(memory.rollout, step)
    X = theta.reshape(oracle.C, RANK, -1)
    log_pi = oracle.bank.read(X, part, lambda out, flat: token_log_likelihood(out, flat)[0])
    # and the reference is another policy
    base = oracle.bank.read(None, part, lambda out, flat: token_log_likelihood(out, flat)[0])
    assert float((base - part["log_prob"]).abs().max()) > 1e-3
    return log_pi - part["log_prob"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"chunk": 2}, {"engine": "sequential"}])
def test_ratios_begin_at_one(dtype: torch.dtype, options: dict[str, Any]) -> None:
    oracle = alignment(bank=AdapterBank(model(dtype), ["c_attn"], **options))
    theta = start(oracle).to(dtype)
    _, memory, *_ = oracle.jac(theta, oracle.init())
    for step in range(2):  # the first epoch: the very responses that were scored together
        assert not log_ratios(oracle, theta, memory, step).any()


@pytest.mark.slow
def test_ratios_begin_at_one_with_a_large_vocabulary() -> None:
    """Where sums in another order would move log-probabilities by two in a million."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=768,
        intermediate_size=768,
        num_hidden_layers=1,
        num_attention_heads=8,
        eos_token_id=TOKENIZER.eos_token_id,
        pad_token_id=TOKENIZER.pad_token_id,
    )
    bank = AdapterBank(LlamaForCausalLM(config), ["q_proj", "v_proj"])
    silent = Declared("silent", lambda p, r: [0.5] * len(r), 0.0, 1.0)
    oracle = alignment(bank=bank, rewards=(silent,), batch=16, minibatch=1, epochs=1)
    theta = start(oracle).float()
    _, memory, *_ = oracle.jac(theta, oracle.init())
    for step in range(16):
        assert not log_ratios(oracle, theta, memory, step).any()


def test_as_many_clients_are_scored_together_as_gradients_are_taken_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a budget of memory says how many: gradients of three objectives keep more."""
    oracle = alignment(bank=AdapterBank(MODEL, ["c_attn"], memory=1 << 40))
    oracle.jac(start(oracle), oracle.init())
    kept = max(oracle.bank._bytes_by_shape.values())
    oracle = alignment(bank=oracle.bank.with_options(memory=2 * kept - 1))
    sizes: dict[str, list[int]] = {}
    values = AdapterBank._values

    def watched(
        self: AdapterBank, X: Any, batch: Any, function: Any, *args: Any, **named: Any
    ) -> Any:
        if X is not None:
            sizes.setdefault(function.__qualname__.partition(".")[0], []).append(len(X))
        return values(self, X, batch, function, *args, **named)

    monkeypatch.setattr(AdapterBank, "_values", watched)
    oracle.jac(start(oracle), oracle.init())
    # the first one of the surrogate is measured; scores are of two minibatches
    assert sizes == {"surrogate": [1] * (1 + C), "_scores_and_states": [1] * 2 * C}


@pytest.mark.parametrize("targets", [["c_attn", "c_proj"], ["c_attn", "lm_head"]])
@pytest.mark.parametrize("options", [{}, {"chunk": 2}, {"engine": "vmap"}])
def test_objectives_share_the_pass_backward_of_the_head(
    targets: list[str], options: dict[str, Any]
) -> None:
    """Unless the head has adapters; the gradients are those of a pass for each objective."""
    oracle = alignment(bank=AdapterBank(MODEL, targets, **options))
    theta, calls = start(oracle), 0
    _, memory, *_ = oracle.jac(theta, oracle.init())
    part, X = oracle._part(memory.rollout, 1), 1.5 * theta.reshape(C, RANK, -1)
    single = [part | {"advantages": part["advantages"][..., j : j + 1]} for j in range(3)]
    apart = [oracle.bank.gradients(X, one, surrogate())[1] for one in single]

    def count(slope: Tensor) -> None:
        nonlocal calls
        calls += 1

    def watch(module: Any, inputs: Any, output: Tensor) -> None:
        if "engine" not in options:
            output.register_hook(count)

    handle = MODEL.lm_head.register_forward_hook(watch)
    try:
        _, together = oracle.bank.gradients(X, part, surrogate())
    finally:
        handle.remove()
    torch.testing.assert_close(together, torch.cat(apart, 1), atol=1e-12, rtol=1e-9)
    assert float(together.abs().max()) > 1e-3
    pieces = {"chunk": 2, "engine": 0}.get(next(iter(options), ""), 1)
    assert calls == pieces * (3 if "lm_head" in targets else 1)


def test_a_head_of_several_modules_may_have_adapters_inside() -> None:
    several = model()
    inside = torch.nn.Linear(16, 16, dtype=torch.float64)
    several.lm_head = torch.nn.Sequential(inside, torch.nn.Tanh(), several.lm_head)
    oracle = alignment(bank=AdapterBank(several, ["c_attn", "lm_head.0"]))
    theta = start(oracle)
    gradients, memory, _ = oracle.jac(theta, oracle.init())
    expected, _ = by_hand(oracle, theta, memory)
    size = float(expected.abs().max())
    torch.testing.assert_close(gradients, expected, atol=1e-6 * size, rtol=1e-5)


def test_second_derivatives_are_whole() -> None:
    oracle = alignment()
    theta = start(oracle)
    _, memory, *_ = oracle.jac(theta, oracle.init())
    part, X = oracle._part(memory.rollout, 1), 1.5 * theta.reshape(C, RANK, -1)
    V = torch.randn(X.shape, generator=torch.Generator().manual_seed(1), dtype=X.dtype)
    both = part | {"advantages": part["advantages"][..., :2]}
    single = [part | {"advantages": part["advantages"][..., j : j + 1]} for j in range(2)]
    product = oracle.bank.hvp(X, both, lambda o, b: surrogate()(o, b).sum(1), V)
    expected = sum(
        oracle.bank.hvp(X, one, lambda o, b: surrogate()(o, b).sum(1), V) for one in single
    )
    torch.testing.assert_close(product, expected, atol=1e-12, rtol=1e-9)
    assert float(product.abs().max()) > 1e-3


def test_inside_and_outside_make_the_same_step_for_the_same_weights() -> None:
    """Without whitening, and while critics say zero."""
    fixed = LinearScalarization(alpha=1.0, K=1, weights=(0.3, 0.7))
    inside, outside = (
        follow(alignment(kl=kl, whitened=False), fixed, 1)[0].theta for kl in ("inside", "outside")
    )
    moved = float((inside - start(alignment()).mean(1, keepdim=True)).abs().max())
    assert moved > 1e-4
    torch.testing.assert_close(inside, outside, atol=1e-6 * moved, rtol=0)


@pytest.mark.parametrize(
    "name", ["firm", *(pytest.param(k, marks=pytest.mark.slow) for k in list(ALGORITHMS)[1:])]
)
def test_engines_give_the_same_run(name: str) -> None:
    """Two rounds and two rollouts, all clients at once, two at a time, and one by one."""
    runs = [
        follow(alignment(bank=AdapterBank(MODEL, ["c_attn"], **options)), ALGORITHMS[name], 8)[-1]
        for options in ({}, {"chunk": 2}, {"engine": "sequential"})
    ]
    for other in runs[1:]:
        assert torch.equal(runs[0].memory.rollout["input_ids"], other.memory.rollout["input_ids"])
        # double precision but for advantages; Adam divides by roots of squares
        torch.testing.assert_close(runs[0].theta, other.theta, atol=1e-7, rtol=1e-6)
        np.testing.assert_allclose(runs[0].weights, other.weights, atol=1e-6)
    assert not torch.equal(
        runs[0].theta[0, 0], start(alignment(), 0.1)[0, 0, : runs[0].theta.shape[-1]]
    )
    assert torch.equal(runs[0].theta[0, 0], runs[0].theta[0, 1])  # after an aggregation


def test_a_client_alone_draws_what_it_draws_with_others() -> None:
    """So that clients may be on machines of their own."""
    together = alignment()
    theta = start(together)
    gradients, memory, *common = together.jac(theta, together.init())
    for c in range(C):
        alone = alignment(prompts=[PROMPTS[c]], clients=[c], width=together.P)
        own, kept, *more = alone.jac(theta[:, c : c + 1], alone.init())
        assert torch.equal(kept.rollout["input_ids"][0], memory.rollout["input_ids"][c])
        torch.testing.assert_close(own[:, 0], gradients[:, c], atol=1e-9, rtol=1e-6)
        torch.testing.assert_close(more[0][:, 0], common[0][:, c], atol=1e-9, rtol=1e-6)


def test_gradients_of_single_responses_have_the_minibatch_s_mean() -> None:
    oracle = alignment(minibatch=4, average="sequence")
    theta = start(oracle)
    whole, memory, *_ = oracle.jac(theta, oracle.init())
    each, same = oracle.each(theta, oracle.init())
    assert each.shape == (C, 4, oracle.d, 2)
    assert torch.equal(same.rollout["input_ids"], memory.rollout["input_ids"])
    size = float(whole.abs().max())
    torch.testing.assert_close(each.mean(1), whole[0], atol=1e-6 * size, rtol=1e-5)


def test_new_responses_after_every_pass() -> None:
    oracle = alignment(epochs=3)
    assert oracle.steps == 6
    states = follow(oracle, FIRM(alpha=0.5, K=6), 13)
    ids = [state.memory.rollout["input_ids"] for state in states]
    for t in range(1, 13):
        assert torch.equal(ids[t], ids[t - 1]) == (t % 6 != 0)
    rollout = states[0].memory.rollout
    for epoch in range(3):  # every epoch shows all responses, in an order of its own
        rows = [oracle.schedule.taken(rollout, 2 * epoch + k)["input_ids"] for k in range(2)]
        shown = torch.cat(rows, 1)
        for c in range(C):
            assert sorted(shown[c].tolist()) == sorted(rollout["input_ids"][c].tolist())
    first, second = (oracle.schedule.taken(rollout, k)["log_prob"] for k in (0, 2))
    assert not torch.equal(first, second)


def test_what_a_rollout_reports_and_how_the_coefficient_moves() -> None:
    oracle = alignment()
    memory = follow(oracle, ALGORITHMS["firm"], 1)[0].memory
    batch, report = memory.rollout, memory.report
    scored = scores(
        oracle.rewards, oracle.schedule.prompts(PROMPTS, 0), responses(TOKENIZER, batch)
    )
    torch.testing.assert_close(report["scores"], scored.float().mean(1))
    counted = batch["target_places"] >= 0
    torch.testing.assert_close(report["length"], counted.float().sum(-1).mean(1))
    each = (batch["log_prob"] - score(oracle.bank, None, batch)) * counted
    torch.testing.assert_close(report["kl_sequence"], each.sum(-1).mean(1).float())
    relative = (report["kl_token"] / 0.05 - 1).clamp(-0.2, 0.2)
    torch.testing.assert_close(memory.coefficient, 0.3 * (1 + relative * 4 / 20))
    steady = alignment(controller=Controller(start=0.3, target=None))
    after = follow(steady, ALGORITHMS["firm"], 5)[-1].memory
    torch.testing.assert_close(after.coefficient, torch.full((C,), 0.3))


def test_switches_of_a_later_rollout() -> None:
    """Advantages with what critics have learned, a colder policy, and the other divergences."""
    oracle = alignment(
        temperature=0.7,
        kl_kind="k2",
        kl_unit="sequence",
        gamma=0.9,
        lam=0.8,
        whitened=False,
        epochs=1,
        minibatch=4,
        critics=Critics(step=0.1),
        controller=Controller(start=0.3, target=0.05, horizon=4),
    )
    first, second = follow(oracle, FIRM(alpha=0.5, K=2), 2, scale=0.3)
    before, batch, bank = first.memory, second.memory.rollout, oracle.bank
    X, counted = first.theta.reshape(C, RANK, -1), batch["target_places"] >= 0
    torch.testing.assert_close(batch["log_prob"], score(bank, X, batch, 0.7))
    reference = score(bank, None, batch, 0.7)
    values = oracle.critics.value(
        before.critics, bank.read(X, batch, lambda output, flat: output.hidden)
    )
    assert float(values.abs().max()) > 0.1
    scored = scores(
        oracle.rewards, oracle.schedule.prompts(PROMPTS, 1), responses(TOKENIZER, batch)
    ).float()
    penalty = -token_kl(batch["log_prob"], reference, "k2")[..., None].float()
    rewards = torch.cat([terminal(scored, counted), penalty], -1)
    expected = gae(rewards, values, counted, 0.9, 0.8)[0]
    expected[..., 2:] *= before.coefficient[:, None, None, None]
    torch.testing.assert_close(batch["advantages"], expected, atol=1e-6, rtol=1e-5)
    moved = [
        oracle.controller(
            before.coefficient, kl_estimate(batch["log_prob"], reference, counted, "k1", unit), 4
        )
        for unit in ("sequence", "token")
    ]
    torch.testing.assert_close(second.memory.coefficient, moved[0].float())
    assert not torch.allclose(moved[0], moved[1])


def test_ratios_are_clipped_as_told() -> None:
    near, far = alignment(clip=0.01), alignment(clip=9.0)
    theta = start(near)
    _, memory, *_ = near.jac(theta, near.init())
    moved = 1.5 * theta
    clipped_gradients, free = (oracle.jac(moved, memory)[0] for oracle in (near, far))
    X, part = moved.reshape(C, RANK, -1), near._part(memory.rollout, 1)
    _, slopes = near.bank.gradients(X, part, surrogate(0.01))
    torch.testing.assert_close(clipped_gradients[0], -slopes.flatten(2).mT[..., :2])
    assert float((clipped_gradients - free).norm() / free.norm()) > 0.1


def test_critics_learn_beside_the_policy() -> None:
    states = follow(alignment(), ALGORITHMS["firm"], 5)
    steps = [int(state.memory.critics.moments.step) for state in states]
    assert steps == [4, 4, 4, 4, 8]
    assert float(states[-1].memory.critics.w.abs().max()) > 1e-3


def test_each_client_may_have_rewards_of_its_own() -> None:
    first, second = rewards()
    other = Declared("other", lambda p, r: [1.0 - _share(t, 0, 96) for t in r], 0.0, 1.0)
    own = alignment(rewards=[(first, second), (other, second), (first, second)])
    assert own.M == 2
    mixed = follow(own, ALGORITHMS["firm"], 1)[0].memory.report["scores"]
    same = follow(alignment(), ALGORITHMS["firm"], 1)[0].memory.report["scores"]
    torch.testing.assert_close(mixed[[0, 2]], same[[0, 2]])
    torch.testing.assert_close(mixed[1, 0], 1 - same[1, 0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("steps", [1, 4, 6])
def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path, steps: int, dtype: torch.dtype) -> None:
    """In the middle of a rollout, at its end, in the middle of a later one: the same bits."""
    oracle, fresh = (alignment(bank=AdapterBank(model(dtype), ["c_attn"])) for _ in range(2))
    algorithm = ALGORITHMS["firm"]
    whole = follow(oracle, algorithm, 9)
    saved = save(tmp_path, whole[steps - 1], steps, "test")
    kept, restored = restore(saved, algorithm.init(start(fresh), fresh), "test")
    assert restored == steps
    state = list(iterate(algorithm, fresh, kept, 9 - steps))[-1][-1]
    assert torch.equal(state.theta, whole[-1].theta)
    np.testing.assert_array_equal(state.weights, whole[-1].weights)
    assert torch.equal(state.memory.critics.w, whole[-1].memory.critics.w)
    assert torch.equal(state.memory.coefficient, whole[-1].memory.coefficient)
    first = oracle.init().rollout
    assert all(value.dtype == first[name].dtype for name, value in state.memory.rollout.items())


@pytest.mark.slow
def test_training_raises_both_rewards() -> None:
    """With the output matrix adapted too: that of the small model is all but zero."""
    oracle = alignment(
        bank=AdapterBank(MODEL, ["c_proj", "lm_head"]),
        prompts=[["a", "b"]] * 2,
        batch=64,
        minibatch=32,
        controller=Controller(start=0.0),
        seed=1,
    )
    states = follow(oracle, FIRM(alpha=0.02, K=4, optimizer="adam"), 4 * 20, 0.05)
    first, last = (
        scores(
            oracle.rewards,
            oracle.schedule.prompts(oracle.prompts, n),
            responses(TOKENIZER, states[t].memory.rollout),
        )
        for n, t in ((0, 0), (19, -1))
    )
    gained = last.mean((0, 1)) - first.mean((0, 1))
    # responses are independent given the policy: by chance once in 10^6 for each reward
    error = torch.sqrt((last.var((0, 1)) + first.var((0, 1))) / 128)
    assert (gained > 4.8 * error).all(), gained / error


def test_a_copy_may_have_longer_prompts() -> None:
    oracle = alignment(prompts=[["one"]] * C)
    longer = replace(oracle, prompts=[["much longer"]] * C)
    grown = longer.P - oracle.P
    assert grown == len("much longer") - len("one")
    assert longer.jac(start(longer), longer.init())[0].abs().max() > 0


def test_choices_are_recorded() -> None:
    import json

    oracle = alignment(kl="inside").choices
    assert json.loads(json.dumps(oracle)) == oracle
    assert oracle["kl"] == "inside"
    assert oracle["controller"]["target"] == 0.05
    assert oracle["dropout"] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minibatch": 3}, "`minibatch` must divide batch = 4; found 3"),
        ({"kl": "none"}, "`kl`"),
        ({"kl_kind": "k4"}, "`kl_kind`"),
        ({"kl_unit": "batch"}, "`kl_unit`"),
        ({"average": "mean"}, "`average`"),
        ({"prompts": []}, "`prompts` must hold"),
        ({"prompts": ["one", "two?", "3"]}, r"`prompts\[0\]` must be a list of texts; found 'one'"),
        ({"prompts": "one"}, "`prompts` must be a list of texts of every client; found 'one'"),
        ({"prompts": None}, "`prompts` must be a list of texts of every client; found None"),
        ({"bank": MODEL}, "`bank` must be an AdapterBank of the model; found GPT2LMHeadModel"),
        ({"tokenizer": "gpt2"}, "`tokenizer` must be one of transformers.*; found 'gpt2'"),
        ({"controller": None}, "`controller` must be a Controller.*; found None"),
        ({"controller": Controller}, "`controller` must be a Controller.*; found <class"),
        ({"critics": None}, "`critics` must be Critics.*; found None"),
        ({"critics": 1e-4}, "`critics` must be Critics.*; found 0.0001"),
        ({"whitened": "no"}, "`whitened` must be True or False; found 'no'"),
        ({"scaling": "seen", "bounds": "auto"}, "`bounds` must hold real numbers"),
        ({"clients": 3}, "`clients` must be a list of numbers; found 3"),
        ({"clients": {4, 5, 6}}, r"`clients` must be a list of numbers; found \{4, 5, 6\}"),
        ({"rewards": ()}, "`rewards` must be M >= 1 rewards"),
        (
            {"prompts": [["a"], []]},
            r"`prompts` must hold one or more of every client; found \[1, 0",
        ),
        ({"clients": [0, 1]}, "`clients` must be the numbers of 3 clients; found 2"),
        ({"seed": -1}, "`seed`"),
        ({"max_length": 3}, "max_length = 3"),
        ({"epochs": 0}, "`epochs`"),
        ({"clip": 0.0}, "`clip`"),
        ({"temperature": -1.0}, "`temperature`"),
        ({"gamma": 1.5}, "`gamma`"),
        ({"lam": float("nan")}, "`lam`"),
        ({"scaling": "ranks"}, "`scaling`"),
        ({"scaling": "seen"}, r"`bounds` must have shape \(2, 2\); found None"),
        ({"rewards": [rewards(), rewards()]}, "as many of each of 3 clients"),
        ({"batch": 16, "controller": Controller(horizon=3)}, "`horizon` must be above 0.2 x 16"),
        ({"clients": [0, 0, 1]}, r"`clients` must be different numbers; found \[0, 0, 1\]"),
        ({"clients": [0, 1, 1.5]}, "`clients` must be a whole number"),
        ({"clients": [0, 1, 1 << 64]}, "`clients` must be a whole number"),
        ({"prompts": [["a"], ["b", 7], ["c"]]}, r"`prompts\[1\]` must be a list of texts; found 7"),
        ({"clients": [4, 5, 6], "max_length": 3}, "of client 4 must have"),
        ({"length": 39}, "prompt and response must have at most the model's 40 tokens"),
    ],
)
def test_refused(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        alignment(**options)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_bounds_clients_and_prompts_may_be_of_other_kinds(kind: Any) -> None:
    bounds = [[0.0, 0.125], [1.0, 0.875]]
    usual = alignment(scaling="seen", bounds=torch.tensor(bounds), clients=[4, 5, 6])
    other = alignment(
        scaling="seen",
        bounds=kind(bounds),
        clients=np.array([4, 5, 6]),
        prompts=((text for text in own) for own in PROMPTS),
    )
    for oracle in (usual, other):
        assert oracle.prompts == PROMPTS
    gradients, expected = (o.jac(start(o), o.init())[0] for o in (other, usual))
    assert torch.equal(gradients, expected)


def test_refused_parameters_and_rewards() -> None:
    oracle = alignment()
    wrong: Any
    for wrong in (start(oracle).numpy(), start(oracle).tolist(), start(oracle).long()):
        with pytest.raises(InputError, match="`theta` must be a tensor of floating-point numbers"):
            oracle.jac(wrong, oracle.init())
    for call in (oracle.jac, oracle.each):
        with pytest.raises(InputError, match="`memory` must be one of `init` or of the last call"):
            call(start(oracle), None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"`theta` must have shape \(1, 3"):
            call(start(oracle)[:, :2], oracle.init())
    with pytest.raises(InputError, match=rf"`theta` must have shape \(1, 3, {oracle.d}\)"):
        oracle.jac(start(oracle)[0], oracle.init())
    broken = Declared("broken", lambda p, r: [2.0] * len(r), 0.0, 1.0)
    bad = replace(oracle, rewards=(broken, broken))
    with pytest.raises(InputError, match="reward broken must be in its declared range"):
        bad.jac(start(oracle), bad.init())
    short = alignment(rewards=letter_rewards(LENGTH), batch=8)
    assert short.M == 2
