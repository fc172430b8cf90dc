"""Domains of texts for :mod:`linsys.bilevel`: prompts with listed answers, as tokens.

theta and phi are the flat vectors of :mod:`lora_bridge.policy_reward`, adapters of one model that
all domains share; what is asked of them in training is in :mod:`lora_bridge.bilevel_oracle`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.bilevel import DomainData
from linsys.bilevel.arrays import vector
from linsys.validate import InputError, check_instance
from lora_bridge._checks import floats, masks, tensors, wholes
from lora_bridge.bilevel_oracle import TextOracle
from lora_bridge.policy_reward import Models
from lora_bridge.tasks import check_tokens, stacked

__all__ = ["TextDomain"]

Indices = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextDomain(DomainData):
    """Prompts with listed answers as tokens, and the models that are trained on them.

    Args:
        tokens: ``input_ids``, ``attention_mask`` and ``target_mask`` of every prompt with every
            answer, (X, Y, T); where a prompt has fewer answers, ``target_mask`` is zero.
        models: policy and reward.

    The others are those of :class:`linsys.bilevel.DomainData`: weights of prompts, mu_hat (zero
    where there is no answer), preferences and, where it is known, the true reward.

    Raises:
        InputError: as there; tokens of other sizes, or that the model does not know; a chance of an
            answer that is not there.
    """

    tokens: Mapping[str, Tensor]
    models: Models

    def __post_init__(self) -> None:
        super().__post_init__()
        check_instance("models", self.models, Models, "Models, the policy and the reward")
        tokens = tensors("tokens", self.tokens)
        whole = tuple(tokens["input_ids"].shape) if "input_ids" in tokens else ()
        parts = {"input_ids": wholes, "attention_mask": masks, "target_mask": masks}
        for name, checked in parts.items():
            found = tuple(checked(name, tokens[name]).shape) if name in tokens else None
            if found != whole or whole[:-1] != self.mu_hat.shape:
                raise InputError(
                    f"`tokens` must have {name} for {self.mu_hat.shape} prompts and answers, all "
                    f"of one length; found {found}"
                )
        if (self.mu_hat[~self.there] > 0).any():
            raise InputError(f"`mu_hat` of `{self.name}` must be 0 where there is no answer")
        read = {name: value[torch.from_numpy(self.there)] for name, value in tokens.items()}
        check_tokens(f"domain `{self.name}`", self.models.policy.bank.model, read)

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Which prompts have which answers, (X, Y)."""
        return np.asarray((self.tokens["target_mask"].sum(-1) > 0).cpu().numpy())

    @property
    def policy(self) -> TextPolicy:
        """log pi on all answers, as metrics ask for it."""
        return TextPolicy(self)

    def reward(self, phi: Any) -> Array:
        """r_phi of every answer, (X, Y); zero where there is none."""
        at = floats("phi", phi, self.models.q).detach()
        head = at[self.models.reward.size :][None]
        X = self.models.reward.rows(at[None, : self.models.reward.size])
        return self.table(lambda batch: self.models.rewards(X, head, batch), 0.0)

    def batch(self, x: Indices, y: Indices) -> dict[str, Tensor]:
        """Tokens (S, T) of prompts with answers."""
        bank = self.models.policy.bank
        rows = torch.from_numpy(np.asarray(x)), torch.from_numpy(np.asarray(y))
        part = {name: value[rows] for name, value in self.tokens.items()}
        return {name: value[0] for name, value in stacked([part], bank.device).items()}

    def parts(
        self, x: Indices, y: Indices, together: int = 1
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """Prompts with answers in parts of ``at_once``: which ones they are, and their tokens.

        Every ``together`` after each other, two for pairs, come in one part however small that is.
        """
        size = together * max(1, self.models.at_once // together)
        for start in range(0, len(x), size):
            part = slice(start, min(start + size, len(x)))
            yield part, self.batch(x[part], y[part])

    def table(self, function: Any, missing: float) -> Array:
        """What a function of a batch gives for every answer, (X, Y); ``missing`` for no answer."""
        found = np.full(self.mu_hat.shape, missing)
        x, y = np.nonzero(self.there)
        with torch.no_grad():
            for part, batch in self.parts(x, y):
                found[x[part], y[part]] = function(batch)[0].double().cpu().numpy()
        return found

    def oracle(
        self,
        *,
        beta: float,
        inner_batch: int | None = None,
        outer_batch: int | None = None,
        seed: int = 0,
    ) -> TextOracle:
        """Its losses and samples."""
        return TextOracle(
            domain=self, beta=beta, inner_batch=inner_batch, outer_batch=outer_batch, seed=seed
        )


@dataclass(frozen=True, eq=False)
class TextPolicy:
    """pi_theta on the answers of a domain; what metrics of :mod:`linsys.bilevel` look at."""

    domain: TextDomain

    @property
    def lengths(self) -> Array:
        """Tokens of every answer, at least 1, (X, Y)."""
        counts = self.domain.tokens["target_mask"].sum(-1).clamp(min=1)
        return np.asarray(counts.cpu().numpy(), dtype=np.float64)

    def log_prob(self, theta: Any) -> Array:
        """log pi_theta(y|x), (X, Y), from theta (p,), NumPy or torch; -inf for no answer."""
        models = self.domain.models
        vector("theta", theta, models.p)
        at = theta.detach() if isinstance(theta, Tensor) else torch.tensor(theta)
        at = at.to(models.policy.start.dtype)
        X = models.policy.rows(at[None].to(models.policy.bank.device))
        return self.domain.table(lambda batch: models.log_likelihoods(X, batch), -math.inf)
