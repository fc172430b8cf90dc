"""Rivals of OOD-PL on language models: SFT, reward models, DPO, HPL and RLHF by PPO.

The same objectives as :mod:`linsys.bilevel.baselines` has on finite domains, on minibatches and by
Adam, from a given start. In every step all domains count the same; in :func:`rlhf` all tokens of
all domains' answers do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linsys.bilevel.domains import OUTER, uniforms
from linsys.optimizers import AdamW
from linsys.validate import InputError, check_indexed, check_instance, check_integer, check_number
from lora_bridge._checks import floats
from lora_bridge.bank import Batch
from lora_bridge.bilevel import TextDomain
from lora_bridge.ppo import surrogate, terminal, token_kl, token_weights, whiten
from lora_bridge.rollouts import sample, score

__all__ = ["Steps", "dpo", "hpl", "reward_error", "reward_mle", "rlhf", "sft"]

#: What a step follows: the gradient at a point, in step k.
Gradient = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How a rival is trained.

    Args:
        count: steps.
        gamma: Adam's step size.
        batch: samples, pairs or prompts of a domain in a step.
        seed: of the minibatches; those of step k are functions of (seed, k).
    """

    count: int = 100
    gamma: float = 0.01
    batch: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer("count", self.count, low=1)
        check_integer("batch", self.batch, low=1)
        check_number("gamma", self.gamma, low=0.0, low_open=True)
        check_integer("seed", self.seed, low=0)

    def descend(self, gradient: Gradient, start: Tensor) -> Tensor:
        """The end of all steps.

        Raises:
            InputError: a step that overflows.
        """
        at, optimizer = start.clone(), AdamW(self.gamma, 0.0)
        for k in range(self.count):
            at = optimizer(at, gradient(at, k))
            if not bool(torch.isfinite(at).all()):
                raise InputError(f"`gamma` must keep training finite; found {self.gamma:g}")
        return at


def sft(domains: Sequence[TextDomain], theta: Tensor, steps: Steps) -> Tensor:
    """Supervised fine-tuning (1) on the fine-tuning data of the domains, from theta (p,)."""
    models = _checked_domains(domains, steps)[0].models
    floats("theta", theta, models.p)
    oracles = [d.oracle(beta=1.0, inner_batch=steps.batch, seed=steps.seed) for d in domains]
    plain = models.phi()  # r = 0

    def gradient(at: Tensor, k: int) -> Tensor:
        gradients = [o.inner_grad(plain, at, o.draw_inner(k, 0)) for o in oracles]
        return torch.stack(gradients).mean(0)

    return steps.descend(gradient, theta)


def hpl(domains: Sequence[TextDomain], theta: Tensor, steps: Steps) -> Tensor:
    """HPL: the preference loss (7) of the policy on the pairs of the domains, from theta (p,).

    Raises:
        InputError: a domain without pairs.
    """
    return dpo(domains, theta, steps, beta=1.0, reference=False)


def dpo(
    domains: Sequence[TextDomain],
    theta: Tensor,
    steps: Steps,
    *,
    beta: float,
    reference: bool = True,
) -> Tensor:
    """DPO: -log sigma(beta (log pi/pi_ref (y|x) - log pi/pi_ref (y'|x))), from pi_ref = pi_theta.

    Args:
        domains: with pairs.
        theta: where it starts, which is the reference as well.
        steps: the minibatches.
        beta: positive.
        reference: False leaves pi_ref out.

    Raises:
        InputError: a domain without pairs.
    """
    check_number("beta", beta, low=0.0, low_open=True)
    models = _checked_domains(domains, steps)[0].models
    floats("theta", theta, models.p)
    held = [_log_ratios(d, theta) if reference else None for d in domains]

    def loss(domain: int, at: Tensor, drawn: Any) -> Tensor:
        index, batch = drawn
        likelihood = models.log_likelihoods(models.policy.rows(at[None]), batch)[0]
        u = likelihood[0::2] - likelihood[1::2]
        before = held[domain]
        moved = u if before is None else u - before[index].to(u)
        return -torch.nn.functional.logsigmoid(beta * moved).mean()

    return steps.descend(_on_pairs(domains, steps, loss), theta)


def reward_mle(domains: Sequence[TextDomain], phi: Tensor, steps: Steps) -> Tensor:
    """A reward by maximum likelihood (2) on the pairs of the domains, from phi (q,).

    Raises:
        InputError: a domain without pairs.
    """
    models = _checked_domains(domains, steps)[0].models
    floats("phi", phi, models.q)

    def loss(domain: int, at: Tensor, drawn: Any) -> Tensor:
        head = at[None, models.reward.size :]
        r = models.rewards(models.reward.rows(at[None, : models.reward.size]), head, drawn[1])[0]
        return -torch.nn.functional.logsigmoid(r[0::2] - r[1::2]).mean()

    return steps.descend(_on_pairs(domains, steps, loss), phi)


def reward_error(domain: TextDomain, phi: Tensor) -> float:
    """The share of pairs whose rejected answer has the larger reward; ties count one half."""
    check_instance("domain", domain, TextDomain, "a TextDomain")
    r, (x, y, y_other, weights) = domain.reward(phi), domain.pairs
    return float(weights @ (1.0 - np.sign(r[x, y] - r[x, y_other])) / 2.0)


def rlhf(
    domains: Sequence[TextDomain],
    phi: Tensor,
    theta: Tensor,
    steps: Steps,
    *,
    beta: float,
    length: int = 16,
    passes: int = 2,
    clip: float = 0.2,
) -> Tensor:
    """RLHF (3) by PPO: the reward of phi less beta KL from the policy that it starts from, (p,).

    In every step each domain's policy answers ``batch`` prompts, and Adam makes ``passes`` steps on
    the clipped surrogate of these answers. The divergence is part of the reward of every token (as
    its log-ratio), advantages are rewards to go, whitened; there is no critic, as answers are short
    and end with their reward.

    Args:
        domains: whose prompts are answered.
        phi: the reward.
        theta: where the policy starts; the reference.
        steps: ``count`` rollouts of ``batch`` answers for each domain.
        beta: factor of the divergence, positive.
        length: tokens of the longest answer.
        passes: steps on a rollout.
        clip: of PPO.

    Raises:
        InputError: a step that overflows.
    """
    check_number("beta", beta, low=0.0, low_open=True)
    check_integer("passes", passes, low=1)
    models = _checked_domains(domains, steps)[0].models
    floats("theta", theta, models.p), floats("phi", phi, models.q)
    bank, reference = models.policy.bank, models.policy.rows(theta[None])
    adapter, head = phi[None, : models.reward.size], phi[None, models.reward.size :]
    loss = surrogate(clip)

    def rollout(at: Tensor, k: int) -> Batch:
        prompts = [_prompts(d, steps.seed, k, steps.batch) for d in domains]
        width = max(p["input_ids"].shape[-1] for p in prompts)
        whole_batch = {
            name: torch.cat([_padded_left(p[name], width) for p in prompts])[None]
            for name in prompts[0]
        }
        X = models.policy.rows(at[None])
        batch = sample(bank, X, whole_batch, length=length, seed=steps.seed, round_=k)
        counted = batch["target_places"] >= 0
        inputs = {name: batch[name][0] for name in ("input_ids", "attention_mask", "position_ids")}
        with torch.no_grad():
            r = models.rewards(models.reward.rows(adapter), head, inputs)
        kl = token_kl(batch["log_prob"], score(bank, reference, batch)) * counted
        rewards = terminal(r[..., None], counted) - beta * kl[..., None]
        to_go = rewards.flip(-2).cumsum(-2).flip(-2)
        advantages = whiten(to_go, counted)
        return {**batch, "advantages": advantages, "token_weights": token_weights(counted)}

    held: list[Batch] = []

    def gradient(at: Tensor, k: int) -> Tensor:
        if k % passes == 0:
            held[:] = [rollout(at, k // passes)]
        _, slope = bank.gradients(models.policy.rows(at[None]), held[0], loss)
        return models.policy.flat(slope[:, 0])[0]  # the only objective

    longer = Steps(
        count=steps.count * passes, gamma=steps.gamma, batch=steps.batch, seed=steps.seed
    )
    return longer.descend(gradient, theta)


def _on_pairs(
    domains: Sequence[TextDomain], steps: Steps, loss: Callable[[int, Tensor, Any], Tensor]
) -> Gradient:
    """The gradient of a loss of (domain, point, drawn pairs), mean over domains."""
    laws = [np.cumsum(d.pairs.weights) for d in domains]

    def gradient(at: Tensor, k: int) -> Tensor:
        leaf = at.detach().requires_grad_()
        values = []
        for i, (domain, law) in enumerate(zip(domains, laws, strict=True)):
            uniform = uniforms(steps.seed, OUTER, k, 0, 1, steps.batch)[0] * law[-1]
            index = np.searchsorted(law, uniform, side="right")
            values.append(loss(i, leaf, (index, _pair_batch(domain, index))))
        (slope,) = torch.autograd.grad(torch.stack(values).mean(), leaf)
        return slope

    return gradient


def _pair_batch(domain: TextDomain, index: Any) -> dict[str, Tensor]:
    """Tokens of pairs, chosen and rejected answers alternating."""
    x, y, y_other, _ = domain.pairs
    both = np.stack([y[index], y_other[index]], 1).reshape(-1)
    return domain.batch(np.repeat(x[index], 2), both)


def _log_ratios(domain: TextDomain, theta: Tensor) -> Tensor:
    """log pi(y|x) - log pi(y'|x) of every pair."""
    table, (x, y, y_other, _) = domain.policy.log_prob(theta), domain.pairs
    return torch.from_numpy(table[x, y] - table[x, y_other])


def _prompts(domain: TextDomain, seed: int, k: int, size: int) -> dict[str, Tensor]:
    """Prompts drawn for step k, padded on the left, (size, P)."""
    x, _ = domain.draw_inner(seed, k, 0, size)
    batch = domain.batch(x, np.argmax(domain.has_answer[x], axis=1))
    asked = batch["attention_mask"] * (1 - batch["target_mask"])
    lengths = asked.sum(-1, keepdim=True)
    width = int(lengths.max())
    place = torch.arange(width, device=asked.device) - (width - lengths)
    ids = batch["input_ids"].gather(1, place.clamp(min=0))
    return {"input_ids": ids, "attention_mask": (place >= 0).long()}


def _padded_left(values: Tensor, width: int) -> Tensor:
    """Padded on the left to a width; the padding is masked, so that its values do not matter."""
    return torch.nn.functional.pad(values, (width - values.shape[-1], 0))


def _checked_domains(domains: Sequence[TextDomain], steps: Steps) -> Sequence[TextDomain]:
    """The domains, if they are one or more and all on one model."""
    check_instance("steps", steps, Steps, "Steps")
    if not len(check_indexed("domains", domains, "a list of domains")):
        raise InputError("`domains` must hold at least one domain; found none")
    kept = {
        id(check_instance("domains", d, TextDomain, "TextDomains").models.policy.bank.model)
        for d in domains
    }
    if len(kept) > 1:
        raise InputError(f"`domains` must be on one model; found {len(kept)} models")
    return domains
