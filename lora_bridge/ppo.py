"""Proximal policy optimisation in pieces: advantages, divergence from a reference, the surrogate.

A response has K places for tokens, of which the first ones are ``counted``; tensors of a batch have
leading axes (clients, samples) in front of K, and M last where there are objectives.

FIRM takes "PPO gradients" from a library (Appendix A.1) and leaves the rest open. What a rollout
needs is here in functions of tensors; :class:`lora_bridge.firm.Alignment` names the choices.

References: Schulman et al. (2016) for the advantages, (2017) for the surrogate; Ziegler et al.
(2019) for the controller of the penalty; Schulman (2020), "Approximating KL divergence", for the
three estimators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from linsys.validate import InputError, check_choice, check_integer, check_number
from lora_bridge._checks import floats
from lora_bridge._head import with_slope_taken
from lora_bridge.bank import Batch, Loss
from lora_bridge.losses import token_log_likelihood

__all__ = [
    "AVERAGES",
    "KINDS",
    "UNITS",
    "Controller",
    "gae",
    "kl_estimate",
    "surrogate",
    "terminal",
    "token_kl",
    "token_weights",
    "whiten",
]

KINDS = ("k1", "k2", "k3")
UNITS = ("token", "sequence")
AVERAGES = ("token", "sequence", "sum")
#: The controller changes its coefficient by at most this share per horizon of samples.
_CLIP = 0.2
#: Added to a variance that may be zero, as where all rewards of a rollout are the same.
_TINY = 1e-8


def terminal(scores: Tensor, counted: Tensor) -> Tensor:
    """Scores (..., M) of whole responses at their last counted tokens: (..., K, M).

    >>> terminal(torch.tensor([[5.0]]), torch.tensor([[True, True, False]]))[0, :, 0]
    tensor([0., 5., 0.])
    """
    floats("scores", scores, *counted.shape[:-1], "M")
    last = counted.long().cumsum(-1) == counted.sum(-1, keepdim=True)
    return (last & counted)[..., None] * scores[..., None, :]


def gae(
    rewards: Tensor, values: Tensor, counted: Tensor, gamma: float = 1.0, lam: float = 0.95
) -> tuple[Tensor, Tensor]:
    """Generalised advantages sum_l (gamma lam)^l delta_{t+l}, and returns advantage + value.

    delta_t = r_t + gamma V_{t+1} - V_t, with V = 0 after the last counted token: a response that
    was cut at K tokens ends there as well.

    Args:
        rewards, values: of every token, shape (..., K, M); V_t is before token t.
        counted: which are tokens, shape (..., K), the first ones.
        gamma, lam: in [0, 1].

    Returns:
        Both (..., K, M), zero where nothing is counted.
    """
    check_number("gamma", gamma, low=0.0, high=1.0)
    check_number("lam", lam, low=0.0, high=1.0)
    for name, value in (("rewards", rewards), ("values", values)):
        floats(name, value, *counted.shape, "M")
    mask = counted[..., None].to(rewards)
    rewards, values = rewards * mask, values * mask
    following = torch.cat([values[..., 1:, :], torch.zeros_like(values[..., :1, :])], dim=-2)
    errors = rewards + gamma * following - values
    advantages = torch.empty_like(errors)
    carried = torch.zeros_like(errors[..., 0, :])
    for t in reversed(range(errors.shape[-2])):
        carried = errors[..., t, :] + gamma * lam * carried
        advantages[..., t, :] = carried
    return advantages, advantages + values


def whiten(advantages: Tensor, counted: Tensor) -> Tensor:
    """Mean 0 and variance 1 over the tokens of each client and objective of (N, b, K, M)."""
    mask = counted[..., None].to(floats("advantages", advantages, *counted.shape, "M"))
    count = mask.sum((1, 2), keepdim=True)
    centred = (advantages - (advantages * mask).sum((1, 2), keepdim=True) / count) * mask
    variance = (centred**2).sum((1, 2), keepdim=True) / count
    return centred / torch.sqrt(variance + _TINY)


def token_kl(log_prob: Tensor, reference: Tensor, kind: str = "k1") -> Tensor:
    """Estimates of KL(pi || ref) at every token that pi sampled, of the shape of both arguments.

    With x = log pi - log ref: "k1" is x and "k3" is exp(-x) - 1 + x, both with the mean KL, the
    second one never negative; "k2" is x^2 / 2, never negative and biased. As a reward, k1 gives the
    gradient of the divergence; as a loss that is differentiated, neither k1 nor k3 would: their
    gradients have the means 0 and that of KL(ref || pi).
    """
    check_choice("kind", kind, KINDS)
    x = log_prob - reference
    if kind == "k1":
        return x
    return x**2 / 2 if kind == "k2" else torch.expm1(-x) + x


def kl_estimate(
    log_prob: Tensor, reference: Tensor, counted: Tensor, kind: str = "k1", unit: str = "token"
) -> Tensor:
    """KL(pi || ref) of each client, (N,), for log-probabilities (N, b, K) of sampled tokens.

    Args:
        kind: as for :func:`token_kl`.
        unit: "sequence", the divergence of whole responses: the sum over a response's tokens,
            averaged over responses. "token": over all tokens of the client; a response's length
            times smaller.
    """
    check_choice("unit", unit, UNITS)
    each = token_kl(log_prob, reference, kind) * counted
    total = each.sum((1, 2))
    return total / (counted.sum((1, 2)) if unit == "token" else counted.shape[1])


@dataclass(frozen=True, kw_only=True)
class Controller:
    """The coefficient of the divergence, adapted so that it stays near a target.

    coefficient <- coefficient (1 + clip(KL / target - 1, -0.2, 0.2) samples / horizon), as in
    Ziegler et al.

    Args:
        start: the first coefficient.
        target: of the divergence, in the unit in which it is estimated; None: it stays fixed.
        horizon: samples after which the coefficient may have changed by a fifth.

    >>> Controller(target=0.03, horizon=100)(torch.tensor([0.5]), torch.tensor([0.033]), 20)
    tensor([0.5100])
    """

    start: float = 0.2
    target: float | None = 0.03
    horizon: int = 10_000

    def __post_init__(self) -> None:
        check_number("start", self.start, low=0.0)
        check_integer("horizon", self.horizon, low=1)
        if self.target is not None:
            check_number("target", self.target, low=0.0, low_open=True)

    def __call__(self, coefficient: Tensor, kl: Tensor, samples: int) -> Tensor:
        """The coefficients (N,) after ``samples`` more responses, whose divergences are (N,).

        Raises:
            InputError: a horizon so short that a coefficient could end at zero or below.
        """
        floats("coefficient", coefficient, "clients")
        floats("kl", kl, *coefficient.shape)
        if self.target is None:
            return coefficient
        if _CLIP * samples >= self.horizon:
            raise InputError(
                f"`horizon` must be above {_CLIP:g} x {samples} responses; found {self.horizon}"
            )
        relative = (kl / self.target - 1.0).clamp(-_CLIP, _CLIP)
        return coefficient * (1.0 + relative * samples / self.horizon)


def token_weights(counted: Tensor, average: str = "token") -> Tensor:
    """The weight of each token of (N, b, K) in the mean over a client's b samples, (N, b, K).

    "token": all tokens of the client alike; "sequence": all responses alike; "sum": every token
    fully, which makes the surrogate's gradient one of the expected return of a response.
    """
    check_choice("average", average, AVERAGES)
    mask = counted.float()
    if average == "sum":
        return mask
    if average == "sequence":
        return mask / mask.sum(-1, keepdim=True)
    return mask / mask.sum(-1).mean(1)[:, None, None]


def surrogate(clip: float = 0.2, temperature: float = 1.0) -> Loss:
    """The clipped surrogate of each objective, to be minimised: a loss of shape (samples, M).

    sum_t w_t max(-A_t rho_t, -A_t clip(rho_t, 1 - clip, 1 + clip)) with rho the ratio of the
    policy to the one that sampled. One pass of the model serves all objectives, and one pass
    backward of its head.

    The batch needs, beside what the model needs: ``log_prob`` (N, b, K) of the policy that sampled,
    at the same temperature; ``advantages`` (N, b, K, M); ``token_weights`` (N, b, K).
    """
    check_number("clip", clip, low=0.0, low_open=True)
    check_number("temperature", temperature, low=0.0, low_open=True)

    def loss(output: Any, batch: Batch) -> Tensor:
        log_prob, counted = token_log_likelihood(output, batch, temperature)
        advantages, hidden = batch["advantages"], getattr(output, "bottleneck", None)
        if advantages.shape[-1] > 1 and hidden is not None and hidden.requires_grad:
            log_prob = with_slope_taken(log_prob, hidden)
        change = (log_prob - batch["log_prob"]).where(counted, torch.zeros_like(log_prob))
        ratio = change.exp()[..., None]
        kept = ratio.clamp(1.0 - clip, 1.0 + clip)
        each = torch.maximum(-advantages * ratio, -advantages * kept)
        return (batch["token_weights"][..., None] * each).sum(1)

    return loss
