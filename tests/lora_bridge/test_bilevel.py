"""Hypergradients through a language model's inner loop, and one algorithm on both kinds of domains.

The oracle is held to automatic differentiation through the whole loop, with the losses written
plainly, and to an exact domain: a model whose last layer alone is adapted, with one-token answers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from linsys import InputError
from linsys.bilevel import (
    Domain,
    ExponentialPolicy,
    MetaTraining,
    Path,
    Start,
    TanhReward,
    adjoint,
    answer_law,
    descend,
    first_order,
    implicit,
    meta_test,
    pl_accuracy,
    unrolled,
    win_rate,
)
from lora_bridge import bilevel, rivals
from lora_bridge.bank import AdapterBank
from lora_bridge.bilevel import TextDomain, TextOracle
from lora_bridge.policy_reward import Adapter, Models
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_model

ALPHA, BETA = 0.05, 0.7
STEPS = rivals.Steps(count=1, batch=2)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def text_domain(
    kind: str = "gpt2", dtype: torch.dtype = torch.float64, **options: Any
) -> TextDomain:
    """Three prompts of two answers with lengths of their own, and adapters away from zero."""
    return adapted(small_model(kind, dtype), kind, **options)


def adapted(model: Any, kind: str, **options: Any) -> TextDomain:
    bank, dtype = AdapterBank(model, TARGETS[kind]), next(model.parameters()).dtype
    rewards = bank.with_options(targets=TARGETS[kind][:1])
    length = torch.tensor([[[5], [7]], [[4], [6]], [[7], [5]]])
    there = (torch.arange(7) < length).long()
    models = Models(
        policy=Adapter(bank, 0.3 * normal(2, bank.width, dtype=dtype)),
        reward=Adapter(rewards, 0.3 * normal(1, rewards.width, dtype=dtype)),
        **{"bound": 1.5, "ridge": 0.1, **options},
    )
    return TextDomain(
        name="texts",
        prompts=np.array([0.2, 0.5, 0.3]),
        mu_hat=np.array([[0.4, 0.6], [0.5, 0.5], [0.9, 0.1]]),
        preferences=([0, 1, 2], [0, 1, 1], [1, 0, 0], [0.2, 0.3, 0.5]),  # type: ignore[arg-type]
        truth=np.array([[1.0, 0.0], [0.5, 0.7], [0.0, 2.0]]),
        tokens={
            "input_ids": torch.from_numpy(
                np.random.default_rng(1).integers(0, VOCABULARY, (3, 2, 7))
            ),
            "attention_mask": there,
            "target_mask": there * (torch.arange(7) >= 2),
        },
        models=models,
    )


def reward_vector(models: Models, seed: int = 5) -> Tensor:
    start = models.phi()
    return start + 0.3 * normal(len(start), seed=seed, dtype=start.dtype)


class Plain:
    """Both losses as their definitions say, from whole logits and all hidden states."""

    def __init__(self, domain: TextDomain, phi: Tensor, theta_0: Tensor) -> None:
        self.domain, self.phi, self.theta_0 = domain, phi, theta_0

    def log_pi(self, theta: Tensor, x: Any, y: Any) -> Tensor:
        tokens = {name: value[x, y] for name, value in self.domain.tokens.items()}
        policy = self.domain.models.policy
        logits = policy.bank.output(policy.rows(theta[None]), clients(tokens)).logits
        each = torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens["input_ids"][:, 1:, None])
        return (each[..., 0] * tokens["target_mask"][:, 1:]).sum(-1)

    def reward(self, x: Any, y: Any) -> Tensor:
        tokens = {name: value[x, y] for name, value in self.domain.tokens.items()}
        models = self.domain.models
        adapter, head = self.phi[: models.reward.size], self.phi[models.reward.size :]
        with models.reward.bank.adapted(models.reward.rows(adapter[None])):
            inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
            hidden = models.reward.bank.model(**inputs, output_hidden_states=True).hidden_states[-1]
        last = tokens["attention_mask"].sum(-1) - 1
        return models.bound * torch.tanh(
            hidden[torch.arange(len(last)), last] @ head / models.bound
        )

    def inner(self, theta: Tensor, z: Any) -> Tensor:
        x, y = np.nonzero(self.domain.law) if z is None else z
        share = self.domain.law[x, y] if z is None else np.full(len(x), 1.0 / len(x))
        W = torch.tensor(share, dtype=theta.dtype) * torch.exp(self.reward(x, y) / BETA)
        away = ((theta - self.theta_0.detach()) ** 2).sum()
        return -(W * self.log_pi(theta, x, y)).sum() + 0.5 * self.domain.models.ridge * away

    def outer(self, theta: Tensor, z: Any) -> Tensor:
        x, y, other, w = self.domain.pairs if z is None else (*z, np.full(len(z[0]), 1 / len(z[0])))
        u = self.log_pi(theta, x, y) - self.log_pi(theta, x, other)
        return -(torch.tensor(w, dtype=u.dtype) * torch.nn.functional.logsigmoid(u)).sum()

    def through(self, path: Path, z: Any) -> tuple[Tensor, Tensor]:
        """theta_D and the derivative of the outer loss, by automatic differentiation."""
        theta = self.theta_0.clone().requires_grad_()
        for drawn in path.samples:
            (slope,) = torch.autograd.grad(self.inner(theta, drawn), theta, create_graph=True)
            theta = theta - path.alpha * slope
        return theta, torch.autograd.grad(self.outer(theta, z), self.phi)[0]


def clients(tokens: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value[None] for name, value in tokens.items() if name != "target_mask"}


def distance(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).detach().norm() / expected.detach().norm())


def both_ways(domain: TextDomain, batch: int | None) -> tuple[Tensor, Tensor]:
    """The adjoint and automatic differentiation, once the paths are known to agree."""
    oracle = domain.oracle(beta=BETA, inner_batch=batch, outer_batch=batch, seed=3)
    phi, theta_0 = reward_vector(domain.models), domain.models.theta()
    path, z = descend(oracle, phi, theta_0, alpha=ALPHA, D=4), oracle.draw_outer(0)
    theta, expected = Plain(domain, phi.clone().requires_grad_(), theta_0).through(path, z)
    assert distance(path.theta[-1], theta) < 1e-6
    assert distance(first_order(oracle, phi, path, z), expected) > 1e-4
    other = path._replace(alpha=1.01 * ALPHA)
    assert distance(adjoint(oracle, phi, other, z), expected) > 1e-4
    return adjoint(oracle, phi, path, z), expected


@pytest.mark.parametrize("batch", [None, 3])
def test_the_adjoint_is_automatic_differentiation_through_the_loop(batch: int | None) -> None:
    gradient, expected = both_ways(text_domain(), batch)
    assert distance(gradient, expected) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_so_it_is_in_single_precision(kind: str, batch: int | None) -> None:
    """On weights as models are initialised; large ones multiply rounding."""
    config = small_model(kind).config
    torch.manual_seed(0)
    gradient, expected = both_ways(adapted(AutoModelForCausalLM.from_config(config), kind), batch)
    assert gradient.dtype == torch.float32
    # a hundred roundings of 6e-8 in a row; `both_ways` finds wrong paths to be 1e-4 away
    assert distance(gradient, expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [2, 64])
def test_unrolling_is_the_same_and_parts_do_not_matter(at_once: int) -> None:
    whole = text_domain(ridge=0.0)
    columns = torch.arange(whole.models.policy.bank.width) % 5 == 0
    models = replace(
        whole.models, policy=replace(whole.models.policy, columns=columns), at_once=at_once
    )
    domain = replace(whole, models=models)
    oracle = domain.oracle(beta=BETA)
    phi, theta_0 = reward_vector(models), models.theta()
    assert len(theta_0) == 2 * int(columns.sum()) < whole.models.p / 4
    path = descend(oracle, phi, theta_0, alpha=ALPHA, D=3)
    _, expected = Plain(domain, phi.clone().requires_grad_(), theta_0).through(path, None)
    assert distance(unrolled(oracle, phi, path), expected) < 1e-10
    assert distance(adjoint(oracle, phi, path), expected) < 1e-10


def test_what_is_kept_between_calls_is_never_that_of_another_place() -> None:
    domain = text_domain()
    oracle = domain.oracle(beta=BETA)
    phi, theta, v = reward_vector(domain.models), domain.models.theta(), normal(domain.models.p)
    first = oracle.inner_hvp(phi, theta, None, v)
    mixed = oracle.mixed_vjp(phi, theta, None, v)
    for tensor in (phi, theta, v):
        tensor.mul_(1.1)  # the same object with another content
        again = domain.oracle(beta=BETA)
        expected = again.inner_hvp(phi, theta, None, v), again.mixed_vjp(phi, theta, None, v)
        assert torch.equal(oracle.inner_hvp(phi, theta, None, v), expected[0])
        assert torch.equal(oracle.mixed_vjp(phi, theta, None, v), expected[1])
        assert not torch.equal(first, expected[0])
        assert not torch.equal(mixed, expected[1])


def test_kept_slopes_of_rewards_are_those_that_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = text_domain()
    phi, theta, v = reward_vector(domain.models), domain.models.theta(), normal(2, domain.models.p)
    kept = domain.oracle(beta=BETA).mixed_vjp(phi, theta, None, v)
    monkeypatch.setattr(bilevel, "_MOST", 0)
    computed = domain.oracle(beta=BETA).mixed_vjp(phi, theta, None, v)
    assert kept.shape == computed.shape == (2, domain.models.q)
    assert distance(kept, computed) < 1e-12
    assert distance(kept[:1], computed[1:]) > 1e-3


def test_all_metrics_of_a_policy_share_its_answers() -> None:
    domain, passes = text_domain(), list[int]()
    domain.models.policy.bank.model.register_forward_hook(lambda *_: passes.append(1))
    theta = domain.models.theta()
    first = domain.policy.log_prob(theta)
    loss = domain.oracle(beta=BETA).outer_loss(theta)
    assert win_rate(domain, theta) > 0
    assert len(passes) == 1
    theta.mul_(1.1)  # the same object with another content
    assert domain.oracle(beta=BETA).outer_loss(theta) != loss
    assert len(passes) == 2
    again = replace(domain).policy.log_prob(theta)
    np.testing.assert_array_equal(domain.policy.log_prob(theta), again)
    assert (first != again).all()
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 0.0


def test_without_a_reward_the_inner_loss_is_fine_tuning_and_weights_stay_in_their_range() -> None:
    domain = text_domain(ridge=0.0)
    oracle, theta = domain.oracle(beta=BETA), domain.models.theta()
    zero = domain.models.phi()
    log_pi = domain.policy.log_prob(theta)
    assert oracle.inner_loss(zero, theta, None) == pytest.approx(
        -(domain.law * log_pi).sum(), 1e-12
    )
    assert (domain.reward(zero) == 0).all()
    huge = domain.reward(1e6 * normal(domain.models.q))
    assert np.abs(huge).max() <= 1.5
    assert np.isfinite(oracle.inner_loss(1e6 * normal(domain.models.q), theta, None))


def exact_and_text() -> tuple[list[Domain], list[TextDomain]]:
    """The same two domains of one-token answers, as exponential families and as texts."""
    model = small_model("gpt2", torch.float64)
    bank = AdapterBank(model, ["lm_head"])
    r, rng = 2, np.random.default_rng(4)
    start = 0.3 * normal(r, bank.width)
    start[:, :VOCABULARY] = 0.0
    up = torch.arange(bank.width) < VOCABULARY
    none = torch.zeros(bank.width, dtype=torch.bool)
    models = Models(policy=Adapter(bank, start, up), reward=Adapter(bank, start, none), bound=1.5)
    exact, texts = [], []
    for name in ("first", "second"):
        prompts = rng.integers(0, VOCABULARY, (3, 4))
        ids = np.concatenate(
            [
                np.broadcast_to(prompts[:, None], (3, VOCABULARY, 4)),
                np.broadcast_to(np.arange(VOCABULARY)[None, :, None], (3, VOCABULARY, 1)),
            ],
            -1,
        )
        data: dict[str, Any] = {
            "name": name,
            "prompts": np.full(3, 1 / 3),
            "mu_hat": rng.dirichlet(np.full(VOCABULARY, 0.3), 3),
            "preferences": ([0, 0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 1], [0.25] * 4),
            "truth": rng.normal(size=(3, VOCABULARY)),
        }
        tokens = torch.from_numpy(ids)
        mask = torch.ones_like(tokens)
        inside = model.transformer(tokens.reshape(-1, 5)).last_hidden_state
        inside = inside.reshape(3, VOCABULARY, 5, -1).detach()
        before = inside[:, 0, 3]  # what the answer is told from
        directions = (before @ start[:, VOCABULARY:].mT).numpy()  # (X, r)
        psi = np.einsum("xj,yz->xyjz", directions, np.eye(VOCABULARY)).reshape(3, VOCABULARY, -1)
        policy = ExponentialPolicy(psi, model.lm_head(before).detach().numpy())
        reward = TanhReward(inside[:, :, 4].numpy(), s=1.5)
        exact.append(Domain(policy=policy, reward=reward, **data))
        targets = mask * (torch.arange(5) == 4)
        given = {"input_ids": tokens, "attention_mask": mask, "target_mask": targets}
        texts.append(TextDomain(tokens=given, models=models, **data))
    return exact, texts


@pytest.mark.slow
@pytest.mark.parametrize("batch", [None, 5])
def test_one_meta_training_on_exact_domains_and_on_a_language_model(batch: int | None) -> None:
    exact, texts = exact_and_text()
    algorithm = MetaTraining(
        alpha=0.02, beta=1.3, D=5, eta=0.05, K=3, inner_batch=batch, outer_batch=batch, seed=2
    )
    models = texts[0].models
    phi_0, theta_0 = 0.05 * normal(models.q), models.theta()
    asked = [algorithm.oracles(domains) for domains in (exact, texts)]
    starts = Start(phi_0.numpy(), theta_0.numpy()), Start(phi_0, theta_0)
    plain, other = (
        algorithm.run(algorithm.init(start, oracles), oracles)
        for start, oracles in zip(starts, asked, strict=True)
    )
    for a, b in zip(plain[1:], other[1:], strict=True):
        assert distance(b.phi - phi_0, torch.tensor(a.phi) - phi_0) < 1e-9
    assert float((other[-1].phi - phi_0).norm()) > 1e-3
    phi = other[-1].phi
    oracles = [each[1] for each in asked]
    tuned = [
        meta_test(oracle, at, start, alpha=0.02, steps=20).theta
        for oracle, at, start in zip(
            oracles, (phi.numpy(), phi), (theta_0.numpy(), theta_0), strict=True
        )
    ]
    assert distance(tuned[1], torch.tensor(tuned[0])) < 1e-9
    for metric in (pl_accuracy, win_rate):
        assert metric(texts[1], tuned[1]) == pytest.approx(metric(exact[1], tuned[0]), rel=1e-9)
    law = answer_law(texts[1], tuned[1], 0.5)
    assert np.abs(law - answer_law(exact[1], tuned[0], 0.5)).max() < 1e-12
    solved = [
        implicit(o, at, t, cg=5)
        for o, at, t in zip(oracles, (phi.numpy(), phi), tuned, strict=True)
    ]
    assert distance(solved[1], torch.tensor(solved[0])) < 1e-8


def test_answers_that_are_not_there_have_no_chance() -> None:
    domain = text_domain()
    tokens = {name: value.clone() for name, value in domain.tokens.items()}
    tokens["target_mask"][1, 1] = 0
    mu_hat = np.array([[0.4, 0.6], [1.0, 0.0], [0.9, 0.1]])
    pairs: Any = ([0, 2], [0, 1], [1, 0], [0.5, 0.5])
    fewer = replace(domain, tokens=tokens, mu_hat=mu_hat, preferences=pairs)
    theta = fewer.models.theta()
    assert fewer.policy.log_prob(theta)[1, 1] == -math.inf
    assert answer_law(fewer, theta)[1].tolist() == [1.0, 0.0]
    assert fewer.reward(reward_vector(fewer.models))[1, 1] == 0.0
    with pytest.raises(InputError, match="`mu_hat` of `texts` must be 0 where there is no answer"):
        replace(domain, tokens=tokens, preferences=pairs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.oracle(beta=0.0), "`beta` must be a number in"),
        (lambda d: d.oracle(beta=1e-3), r"`beta` must keep exp\(r / beta\) in the range of"),
        (lambda d: d.oracle(beta=1.0, inner_batch=0), "`inner_batch` must be a whole number"),
        (lambda d: replace(d.models, bound=0.0), "`bound` must be a number"),
        (lambda d: replace(d.models.policy, start=torch.zeros(2, 3)), "`start` must have shape"),
        (lambda d: replace(d.models.policy, columns=torch.ones(3)), "`columns` must have shape"),
        (lambda d: replace(d, tokens={}), "`tokens` must be a dictionary of tensors; found"),
        (lambda d: replace(d, tokens=_without(d, "input_ids")), "`tokens` must have input_ids for"),
        (lambda d: replace(d, tokens=None), "`tokens` must be a dictionary of tensors; found None"),
        (
            lambda d: _tokens(d, lambda v: v.numpy()),
            "`tokens` must hold tensors; found a NumPy array",
        ),
        (
            lambda d: _tokens(d, lambda v: v.float()),
            "`input_ids` must be a tensor of whole numbers",
        ),
        (lambda d: _tokens(d, lambda v: v[..., 0]), r"`tokens` must have .*; found \(3, 2\)"),
        (
            lambda d: replace(
                d, tokens={**d.tokens, "target_mask": d.tokens["target_mask"][..., :-1]}
            ),
            r"`tokens` must have target_mask .* of one length; found \(3, 2, 6\)",
        ),
        (
            lambda d: replace(d, tokens={**d.tokens, "input_ids": d.tokens["input_ids"] + 99}),
            "domain `texts` must have tokens that the model knows, 0 to 39; found",
        ),
        (
            lambda d: replace(d, models=d.models.policy),
            "`models` must be Models, .*; found Adapter",
        ),
        (
            lambda d: replace(d.models.policy, bank=None),
            "`bank` must be an AdapterBank of the model",
        ),
        (lambda d: replace(d.models.policy, start=None), "`start` must be a tensor of floating"),
        (lambda d: replace(d.models.policy, columns=[True]), "`columns` must have .*; found .True"),
        (
            lambda d: replace(
                d.models.policy, columns=torch.ones(d.models.policy.bank.width, dtype=torch.long)
            ),
            "`columns` must have shape .* of torch.bool; found shape .* of torch.int64",
        ),
        (
            lambda d: replace(d.models, policy=d.models.policy.bank),
            "`policy` must be an Adapter of a",
        ),
        (
            lambda d: replace(d.models, reward=text_domain().models.reward),
            "`reward` must be on the model of the policy; found another model",
        ),
        (lambda d: TextOracle(domain=[d], beta=1.0), "`domain` must be a TextDomain; found"),
        (
            lambda d: d.oracle(beta=1.0).inner_loss(d.models.phi(), d.models.theta().numpy(), None),
            "`theta` must be a tensor of floating-point numbers; found a NumPy array",
        ),
        (lambda d: d.reward(d.models.phi().numpy()), "`phi` must be a tensor of floating-point"),
        (
            lambda d: d.oracle(beta=1.0).outer_grads(
                d.models.phi().numpy(), d.models.theta(), None
            ),
            "`phi` must be a tensor of floating-point numbers",
        ),
        (
            lambda d: rivals.sft([d], d.models.theta().numpy(), STEPS),
            "`theta` must be a tensor of floating-point numbers",
        ),
        (lambda d: rivals.sft(d, d.models.theta(), STEPS), "`domains` must be a list of domains"),
        (lambda d: rivals.sft([d], d.models.theta(), 5), "`steps` must be Steps; found 5"),
        (
            lambda d: rivals.hpl([d, text_domain()], d.models.theta(), STEPS),
            "`domains` must be on one model; found 2 models",
        ),
        (
            lambda d: rivals.reward_mle([d], d.models.theta(), STEPS),
            r"`phi` must have shape \(144,\); found \(576,\)",
        ),
        (
            lambda d: rivals.rlhf([d], d.models.theta(), d.models.phi(), STEPS, beta=1.0),
            r"`theta` must have shape \(576,\); found \(144,\)",
        ),
        (
            lambda d: rivals.reward_error([d], d.models.phi()),
            "`domain` must be a TextDomain; found",
        ),
        (
            lambda d: d.oracle(beta=1.0).inner_grad(d.models.phi(), torch.zeros(3), None),
            r"`theta` must have shape \(",
        ),
        (
            lambda d: _training().init(
                Start(d.models.phi(), d.models.theta()),
                _training().oracles([replace(d, preferences=None)]),
            ),
            "domain `texts` must have preference pairs for the outer objective; found none",
        ),
        (
            lambda d: _training().oracles([]),
            "`domains` must hold at least one domain",
        ),
        (
            lambda d: _models_without_head(d),
            "`policy` must be an adapter of a language model; found no head",
        ),
    ],
)
def test_bad_input_is_one_clear_line(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        change(text_domain())
    assert "\n" not in str(caught.value)


def _without(domain: TextDomain, name: str) -> dict[str, Tensor]:
    return {n: value for n, value in domain.tokens.items() if n != name}


def _tokens(domain: TextDomain, change: Any) -> TextDomain:
    return replace(domain, tokens={n: change(value) for n, value in domain.tokens.items()})


def _training() -> MetaTraining:
    return MetaTraining(alpha=0.1, beta=1.0, D=1, eta=0.1, K=1)


def _models_without_head(domain: TextDomain) -> Models:
    bank = AdapterBank(torch.nn.Sequential(torch.nn.Linear(3, 2)), ["0"])
    return replace(domain.models, policy=Adapter(bank, torch.zeros(1, 5)))


def test_an_oracle_is_what_the_domain_makes() -> None:
    domain = text_domain()
    oracle = domain.oracle(beta=2.0, inner_batch=4, seed=7)
    assert isinstance(oracle, TextOracle)
    x, y = oracle.draw_inner(1, 2)
    again = replace(oracle).draw_inner(1, 2)
    assert (x == again[0]).all()
    assert (y == again[1]).all()
    assert oracle.draw_outer(0) is None
    assert oracle.stable_step(domain.models.phi()) == math.inf
