"""PPO's pieces: advantages by sums, divergences by enumeration, the surrogate by its definition."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from linsys import InputError
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

#: Responses of 3, 5 and 1 of at most 5 tokens, of two clients.
COUNTED = torch.arange(5) < torch.tensor([[3, 5, 1], [2, 4, 5]])[..., None]


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.8), (1.0, 1.0), (0.7, 0.0)])
def test_advantages_are_sums_of_errors(gamma: float, lam: float) -> None:
    rewards, values = draws(2, 3, 5, 2), draws(2, 3, 5, 2, seed=1)
    advantages, returns = gae(rewards, values, COUNTED, gamma, lam)
    for c, i, j in itertools.product(range(2), range(3), range(2)):
        size = int(COUNTED[c, i].sum())
        r, V = rewards[c, i, :size, j], torch.cat([values[c, i, :size, j], torch.zeros(1)])
        errors = [r[t] + gamma * V[t + 1] - V[t] for t in range(size)]
        for t in range(5):
            expected = sum((gamma * lam) ** (s - t) * errors[s] for s in range(t, size))
            assert float(advantages[c, i, t, j] - expected) == pytest.approx(0.0, abs=1e-12)
        if lam == 1.0:  # the whole return from here on
            for t in range(size):
                rest = sum(gamma ** (s - t) * r[s] for s in range(t, size))
                assert float(returns[c, i, t, j] - rest) == pytest.approx(0.0, abs=1e-12)
    assert (returns[~COUNTED] == 0.0).all()


def test_scores_are_paid_at_the_last_token() -> None:
    scores = draws(2, 3, 2)
    paid = terminal(scores, COUNTED)
    torch.testing.assert_close(paid.sum(2), scores)
    for c, i in itertools.product(range(2), range(3)):
        assert (paid[c, i, int(COUNTED[c, i].sum()) - 1] == scores[c, i]).all()
        assert int((paid[c, i] != 0).any(-1).sum()) == 1


def test_whitened_advantages() -> None:
    raw = 3.0 + 2.0 * draws(2, 3, 5, 2)
    whitened = whiten(raw, COUNTED)
    assert (whitened[~COUNTED] == 0.0).all()
    for c, j in itertools.product(range(2), range(2)):
        own, before = whitened[c, ..., j][COUNTED[c]], raw[c, ..., j][COUNTED[c]]
        assert float(own.mean()) == pytest.approx(0.0, abs=1e-12)
        assert float(own.var(correction=0)) == pytest.approx(1.0, abs=1e-7)
        assert float(torch.corrcoef(torch.stack([own, before]))[0, 1]) == pytest.approx(1.0)
    same = whiten(torch.ones(2, 3, 5, 1), COUNTED)
    assert (same == 0.0).all()


class Tree:
    """Two policies of responses of two tokens out of four, and all sixteen responses."""

    def __init__(self) -> None:
        self.pi, self.ref = (
            (draws(4, seed=s).log_softmax(-1), draws(4, 4, seed=s + 1).log_softmax(-1))
            for s in (1, 3)
        )
        self.all = list(itertools.product(range(4), range(4)))
        logs = [
            torch.stack([torch.stack([a[0][i], a[1][i, j]]) for i, j in self.all])
            for a in (self.pi, self.ref)
        ]
        self.log_pi, self.log_ref = logs
        self.chance = self.log_pi.sum(-1).exp()

    def mean(self, values: Tensor) -> Tensor:
        return (self.chance[:, None] * values).sum(0)

    @property
    def divergence(self) -> Tensor:
        """Of the first token, and of the second one on average: (2,)."""
        first, second = self.pi[0].exp(), self.pi[1].exp()
        return torch.stack(
            [
                (first * (self.pi[0] - self.ref[0])).sum(),
                (first[:, None] * second * (self.pi[1] - self.ref[1])).sum(),
            ]
        )


def test_estimators_of_the_divergence() -> None:
    tree = Tree()
    assert float(tree.chance.sum()) == pytest.approx(1.0, abs=1e-12)
    exact = tree.divergence
    for kind in ("k1", "k3"):
        mean = tree.mean(token_kl(tree.log_pi, tree.log_ref, kind))
        torch.testing.assert_close(mean, exact, atol=1e-12, rtol=0)
    biased = tree.mean(token_kl(tree.log_pi, tree.log_ref, "k2"))
    assert ((biased - exact).abs() > 1e-2).all()
    for kind in ("k2", "k3"):
        assert (token_kl(tree.log_pi, tree.log_ref, kind) >= 0.0).all()
    assert (token_kl(tree.log_pi, tree.log_ref, "k1") < 0.0).any()
    # the chain rule: divergences of tokens add up to that of responses
    log_ratio = (tree.log_pi - tree.log_ref).sum(-1)
    assert float((tree.chance * log_ratio).sum()) == pytest.approx(float(exact.sum()), abs=1e-12)


def test_what_each_estimator_gives_as_a_reward_and_as_a_loss() -> None:
    """k1 as a reward has the divergence's gradient; k1 and k3 differentiated have another one."""
    logits, ref = draws(4).requires_grad_(), draws(4, seed=1).log_softmax(-1)
    log_pi = logits.log_softmax(-1)
    pi = log_pi.exp()

    def slope(value: Tensor) -> Tensor:
        return torch.autograd.grad(value, logits, retain_graph=True)[0]

    wanted = slope((pi * (log_pi - ref)).sum())
    backward = slope(-(ref.exp() * log_pi).sum())  # of KL(ref || pi)
    fixed = pi.detach()
    as_reward = slope((fixed * token_kl(log_pi, ref, "k1").detach() * log_pi).sum())
    torch.testing.assert_close(as_reward, wanted)
    as_loss = {k: slope((fixed * token_kl(log_pi, ref, k)).sum()) for k in ("k1", "k2", "k3")}
    torch.testing.assert_close(as_loss["k1"], torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(as_loss["k2"], wanted)
    torch.testing.assert_close(as_loss["k3"], backward)
    assert float((wanted - backward).abs().max()) > 1e-2


def test_units_of_the_divergence() -> None:
    log_prob, reference = -draws(2, 3, 5).abs(), -draws(2, 3, 5, seed=1).abs()
    for kind in ("k1", "k2", "k3"):
        each = token_kl(log_prob, reference, kind)
        token = kl_estimate(log_prob, reference, COUNTED, kind, "token")
        sequence = kl_estimate(log_prob, reference, COUNTED, kind, "sequence")
        for c in range(2):
            assert float(token[c]) == pytest.approx(float(each[c][COUNTED[c]].mean()))
            sums = [float(each[c, i][COUNTED[c, i]].sum()) for i in range(3)]
            assert float(sequence[c]) == pytest.approx(sum(sums) / 3)
    ratio = COUNTED.sum((1, 2)) / 3  # mean length
    torch.testing.assert_close(sequence, token * ratio)


def test_the_controller_follows_its_formula() -> None:
    control = Controller(start=0.4, target=0.05, horizon=1000)
    coefficient = torch.tensor([0.4, 0.4, 0.4, 0.4])
    after = control(coefficient, torch.tensor([0.05, 0.055, 1.0, 0.0]), 50)
    expected = 0.4 * torch.tensor([1.0, 1.0 + 0.1 * 0.05, 1.0 + 0.2 * 0.05, 1.0 - 0.2 * 0.05])
    torch.testing.assert_close(after, expected)
    fixed = Controller(start=0.4, target=None)
    assert fixed(coefficient, torch.ones(4), 50) is coefficient
    # a divergence far below the target: 1 - .2 * 16 / 4 > 0 > 1 - .2 * 16 / 3
    assert (Controller(horizon=4)(coefficient, torch.zeros(4), 16) > 0).all()
    with pytest.raises(InputError, match=r"`horizon` must be above 0\.2 x 16 responses; found 3"):
        Controller(horizon=3)(coefficient, torch.zeros(4), 16)


@pytest.mark.parametrize("average", ["token", "sequence", "sum"])
def test_weights_of_tokens(average: str) -> None:
    weights = token_weights(COUNTED, average)
    values = draws(2, 3, 5).float()
    value = (weights * values).sum(-1).mean(1)
    for c in range(2):
        parts = [values[c, i][COUNTED[c, i]] for i in range(3)]
        expected = {
            "token": torch.cat(parts).mean(),
            "sequence": torch.stack([p.mean() for p in parts]).mean(),
            "sum": torch.stack([p.sum() for p in parts]).mean(),
        }[average]
        torch.testing.assert_close(value[c], expected)


def _batch(log_prob: Tensor, advantages: Tensor) -> dict[str, Tensor]:
    counted = COUNTED[0]
    return {
        "input_ids": torch.tensor([[0, 1, 2, 3, 1, 2]] * 3),
        "target_places": torch.arange(5).where(counted, -1),
        "log_prob": log_prob,
        "advantages": advantages,
        "token_weights": counted.double() / 3,  # tokens of a response on average,
    }


def test_the_surrogate_by_its_definition() -> None:
    logits, temperature = draws(3, 5, 4), 0.7
    following = torch.tensor([1, 2, 3, 1, 2])
    log_pi = (logits / temperature).log_softmax(-1)[:, range(5), following]
    old = log_pi + 0.5 * draws(3, 5, seed=1)
    advantages = draws(3, 5, 2, seed=2) * COUNTED[0][..., None]
    output: Any = SimpleNamespace(logits=logits)
    value = surrogate(0.2, temperature)(output, _batch(old, advantages))
    clipped = 0
    for i, j in itertools.product(range(3), range(2)):
        total = 0.0
        for t in range(int(COUNTED[0, i].sum())):
            rho, A = float((log_pi - old)[i, t].exp()), float(advantages[i, t, j])
            inside = min(max(rho, 0.8), 1.2)
            clipped += inside != rho
            total -= min(A * rho, A * inside) / 3  # tokens of a response on average
        assert float(value[i, j]) == pytest.approx(total, abs=1e-12)
    assert clipped > 5


def test_the_first_gradient_is_the_policy_gradient() -> None:
    logits = draws(3, 5, 4).requires_grad_()
    log_pi = logits.log_softmax(-1)[:, range(5), torch.tensor([1, 2, 3, 1, 2])]
    advantages = draws(3, 5, 1, seed=2) * COUNTED[0][..., None]
    batch = _batch(log_pi.detach(), advantages)
    value = surrogate(0.2)(SimpleNamespace(logits=logits), batch).sum()
    gradient = torch.autograd.grad(value, logits, retain_graph=True)[0]
    plain = -(batch["token_weights"] * advantages[..., 0] * log_pi).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(plain, logits)[0])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gae(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), torch.ones(1, 1), 1.1), "gamma"),
        (lambda: token_kl(torch.zeros(1), torch.zeros(1), "k4"), "kind"),
        (lambda: kl_estimate(*[torch.zeros(1, 1, 1)] * 3, unit="batch"), "unit"),  # type: ignore[arg-type]
        (lambda: Controller(target=0.0), "target"),
        (lambda: Controller(horizon=0), "horizon"),
        (lambda: token_weights(COUNTED, "mean"), "average"),
        (lambda: surrogate(0.0), "clip"),
        (lambda: surrogate(0.2, float("nan")), "temperature"),
        (lambda: gae(torch.zeros(3, 3), torch.zeros(3, 3), torch.ones(3, 3)), "rewards"),  # no M
        (lambda: gae(torch.zeros(2, 3, 1), torch.zeros(1, 3, 1), torch.ones(2, 3)), "values"),
        (
            lambda: gae(torch.ones(2, 3, 1).long(), torch.zeros(2, 3, 1), torch.ones(2, 3)),
            "rewards",
        ),
        (lambda: whiten(torch.zeros(3, 3, 3), torch.ones(3, 3, 3)), "advantages"),
        (lambda: terminal(torch.zeros(1, 2), torch.ones(3, 4, dtype=torch.bool)), "scores"),
        (lambda: Controller()(torch.ones(2), 0.03, 20), "kl"),  # type: ignore[arg-type]
        (lambda: Controller()(torch.ones(2), torch.ones(1), 20), "kl"),
    ],
)
def test_refused(call: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}`"):
        call()
