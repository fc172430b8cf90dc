"""Domains of texts for :mod:`linsys.bilevel`, and fine-tuning under a reward as OOD-PL's oracle.

A domain has prompts with listed answers, as tokens. theta, the policy, and phi, the reward, are the
flat vectors of :mod:`lora_bridge.policy_reward`: adapters of one model that all domains share. No
reward r exceeds b in absolute value; an oracle refuses a beta for which exp(b / beta) overflows.
At r = 0 every weight is one, and (10) is supervised fine-tuning.

The oracle's derivatives of (10) and (7) come from automatic differentiation of the losses on the
model, whose attention must be twice differentiable (``attention="eager"``). With
W_i = exp(r_i / beta) the weight of sample i in the inner loss, r does not depend on theta, so that

    grad_phi <grad_theta l_FT, v> = -(1 / beta) sum_i W_i <grad_theta log pi_i, v> grad_phi r_i:

one pass gives the Hessian-vector product and the slopes <grad log pi_i, v> together, one more the
gradient of the rewards. Inner and outer loops are those of :mod:`linsys.bilevel`, unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.bilevel import DomainData
from linsys.bilevel.arrays import sigmoid, vector
from linsys.validate import InputError, check_instance, check_integer, check_number
from lora_bridge._checks import floats, masks, tensors, whole_numbers
from lora_bridge.policy_reward import Models
from lora_bridge.tasks import check_tokens, stacked

__all__ = ["TextDomain", "TextOracle"]

Indices = NDArray[np.int64]
Array = NDArray[np.float64]


#: Bytes of the slopes of rewards that are kept.
_MOST = 1 << 30


class _Last:
    """The last result of each kind, for the tensors that it was computed of."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Any, Any, Any]] = {}

    def of(self, name: str, at: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """The last result of this name, if it was for the same tensors with the same content."""
        versions = [getattr(part, "_version", None) for part in at]
        held = self._held.get(name)
        if held and all(a is b for a, b in zip(held[0], at, strict=True)) and held[1] == versions:
            return held[2]
        self._held[name] = (at, versions, compute())
        return self._held[name][2]


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
    #: The policy that was asked for last, as the vector theta, and its answers' log-probabilities.
    _scored: tuple[Tensor, Array] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_instance("models", self.models, Models, "Models, the policy and the reward")
        tokens = tensors("tokens", self.tokens)
        sizes = tuple(tokens["input_ids"].shape) if "input_ids" in tokens else ()
        parts = {"input_ids": whole_numbers, "attention_mask": masks, "target_mask": masks}
        for name, checked in parts.items():
            shape = tuple(checked(name, tokens[name]).shape) if name in tokens else None
            if shape != sizes or sizes[:-1] != self.mu_hat.shape:
                raise InputError(
                    f"`tokens` must have {name} for {self.mu_hat.shape} prompts and answers, all "
                    f"of one length; found {shape}"
                )
        if (self.mu_hat[~self.has_answer] > 0).any():
            raise InputError(f"`mu_hat` of `{self.name}` must be 0 where there is no answer")
        read = {name: value[torch.from_numpy(self.has_answer)] for name, value in tokens.items()}
        check_tokens(f"domain `{self.name}`", self.models.policy.bank.model, read)

    @cached_property
    def has_answer(self) -> NDArray[np.bool_]:
        """Whether prompt x has an answer y, (X, Y)."""
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

        Groups of ``together`` neighbours, two for pairs, stay in one part, however small parts are.
        """
        size = together * max(1, self.models.at_once // together)
        for start in range(0, len(x), size):
            part = slice(start, min(start + size, len(x)))
            yield part, self.batch(x[part], y[part])

    def table(self, function: Any, missing: float) -> Array:
        """What a function of a batch gives for every answer, (X, Y); ``missing`` for no answer."""
        values = np.full(self.mu_hat.shape, missing)
        x, y = np.nonzero(self.has_answer)
        with torch.no_grad():
            for part, batch in self.parts(x, y):
                values[x[part], y[part]] = function(batch)[0].double().cpu().numpy()
        return values

    def oracle(
        self,
        *,
        beta: float,
        inner_batch: int | None = None,
        outer_batch: int | None = None,
        seed: int = 0,
    ) -> TextOracle:
        """The oracle of this domain: its losses and samples."""
        return TextOracle(
            domain=self, beta=beta, inner_batch=inner_batch, outer_batch=outer_batch, seed=seed
        )


@dataclass(frozen=True, eq=False)
class TextPolicy:
    """pi_theta on the answers of a domain, for the metrics of :mod:`linsys.bilevel`."""

    domain: TextDomain

    @property
    def lengths(self) -> Array:
        """Tokens of every answer, at least 1, (X, Y)."""
        counts = self.domain.tokens["target_mask"].sum(-1).clamp(min=1)
        return np.asarray(counts.cpu().numpy(), dtype=np.float64)

    def log_prob(self, theta: Any) -> Array:
        """log pi_theta(y|x), (X, Y), from theta (p,), NumPy or torch; -inf for no answer."""
        domain, models = self.domain, self.domain.models
        vector("theta", theta, models.p)
        at = theta.detach() if isinstance(theta, Tensor) else torch.tensor(theta)
        at = at.to(models.policy.start.dtype).to(models.policy.bank.device)
        # several metrics ask for the same policy, one after the other
        if domain._scored is None or not torch.equal(domain._scored[0], at):
            X = models.policy.rows(at[None])
            values = domain.table(lambda batch: models.log_likelihoods(X, batch), -math.inf)
            values.flags.writeable = False
            object.__setattr__(domain, "_scored", (at.clone(), values))
        assert domain._scored is not None
        return domain._scored[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextOracle:
    """The oracle of a domain of texts, for theta (p,) and phi (q,) as torch tensors.

    Args:
        domain: what it is about.
        beta: the factor of the reward, positive.
        inner_batch: samples (x, y) of a stochastic inner step; the whole domain without it.
        outer_batch: pairs of a stochastic outer step; all of them without it.
        seed: of the samples; z_{k,t} is a function of (seed, k, t) alone.

    Raises:
        InputError: beta <= 0, or one that lets exp(r / beta) overflow; batches below one.
    """

    domain: TextDomain
    beta: float
    inner_batch: int | None = None
    outer_batch: int | None = None
    seed: int = 0
    _last: _Last = field(init=False, repr=False, default_factory=_Last)

    def __post_init__(self) -> None:
        check_instance("domain", self.domain, TextDomain, "a TextDomain")
        check_number("beta", self.beta, low=0.0, low_open=True)
        for label in ("inner_batch", "outer_batch"):
            if (size := getattr(self, label)) is not None:
                check_integer(label, size, low=1)
        check_integer("seed", self.seed, high=(1 << 128) - 1)
        bound, dtype = self.models.bound, self.models.policy.start.dtype
        if not bound / self.beta <= math.log(torch.finfo(dtype).max):
            raise InputError(
                f"`beta` must keep exp(r / beta) in the range of {dtype}; found r up to "
                f"{bound:g} and beta = {self.beta:g}"
            )

    @property
    def models(self) -> Models:
        """Policy and reward."""
        return self.domain.models

    def draw_inner(self, k: int, t: int) -> Any:
        """z_{k,t} = (x, y), index arrays (inner_batch,), or None without a batch."""
        if self.inner_batch is None:
            return None
        return self.domain.draw_inner(self.seed, k, t, self.inner_batch)

    def draw_outer(self, k: int) -> Any:
        """z_k = (x, y, y'), index arrays (outer_batch,), or None without a batch."""
        if self.outer_batch is None:
            return None
        return self.domain.draw_outer(self.seed, k, self.outer_batch)

    def stable_step(self, phi: Any) -> float:
        """Infinite: no bound of a model's curvature is known."""
        return math.inf

    def inner_loss(self, phi: Any, theta: Any, z: Any) -> float:
        """l_FT, with the ridge."""
        X, away = self._policy_rows(theta), self._from_start(theta)
        total = 0.5 * self.models.ridge * float(away @ away)
        with torch.no_grad():
            for batch, W in self._weighted_batches(phi, z):
                total -= float((W * self.models.log_likelihoods(X, batch)[0]).sum())
        return total

    def inner_grad(self, phi: Any, theta: Any, z: Any) -> Any:
        """grad_theta l_FT, shape (p,)."""
        X = self._policy_rows(theta).requires_grad_()
        total = torch.zeros_like(X)
        for batch, W in self._weighted_batches(phi, z):
            loss = -(W * self.models.log_likelihoods(X, batch)[0]).sum()
            total = total + torch.autograd.grad(loss, X)[0]
        return self.models.policy.flat(total)[0] + self.models.ridge * self._from_start(theta)

    def inner_hvp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad^2_theta l_FT v for v (..., p), shape (..., p)."""
        return (
            self._second_derivatives(phi, theta, z, v)[0].reshape(v.shape) + self.models.ridge * v
        )

    def mixed_vjp(self, phi: Any, theta: Any, z: Any, v: Any) -> Any:
        """grad_phi <grad_theta l_FT, v> for v (..., p), shape (..., q)."""
        slopes = self._second_derivatives(phi, theta, z, v)[1]
        if z is None and (rewards := self._reward_slopes(phi)) is not None:
            products = (-1.0 / self.beta) * (self._tensor(self._weights(phi)) * slopes) @ rewards
            return products.reshape(*v.shape[:-1], -1)
        m, (X, head) = len(slopes), self._reward_rows_and_head(phi)
        X, head = (part.expand(m, *part.shape[1:]).clone() for part in (X, head))
        X.requires_grad_(), head.requires_grad_()
        products, done = torch.zeros(m, self.models.q, dtype=phi.dtype, device=phi.device), 0
        for batch, W in self._weighted_batches(phi, z):
            weights = (-1.0 / self.beta) * W * slopes[:, done : done + len(W)]
            value = (weights * self.models.rewards(X, head, batch)).sum()
            # an adapter of the vocabulary's matrix is not in a reward
            by_X, by_head = torch.autograd.grad(value, (X, head), materialize_grads=True)
            products = products + torch.cat([self.models.reward.flat(by_X), by_head], 1)
            done += len(W)
        return products.reshape(*v.shape[:-1], -1)

    def outer_loss(self, theta: Any, z: Any = None) -> float:
        """L_PL (7), or the mean of l_PL over the pairs z."""
        if z is None:
            u, weights = self._log_ratios(theta)
            return float(weights @ np.logaddexp(0.0, -u))
        X = self._policy_rows(theta)
        with torch.no_grad():
            return float(sum(self._outer_losses(X, z)))

    def outer_grads(self, phi: Any, theta: Any, z: Any) -> tuple[Any, Any]:
        """The gradients of L_PL, or of the mean of l_PL over the pairs z, by phi and by theta.

        The one by phi is zero: l_PL depends on phi through theta alone.
        """
        floats("phi", phi, self.models.q)
        X = self._policy_rows(theta).requires_grad_()
        total = torch.zeros_like(X)
        for value in self._linear_losses(X, theta) if z is None else self._outer_losses(X, z):
            total = total + torch.autograd.grad(value, X)[0]
        return torch.zeros_like(phi), self.models.policy.flat(total)[0]

    def _outer_losses(self, X: Tensor, z: Any) -> Iterator[Tensor]:
        """The parts of the mean loss of the pairs z."""
        x, y, y_other = z
        twice, both = np.repeat(x, 2), np.stack([y, y_other], 1).reshape(-1)
        for _, batch in self.domain.parts(twice, both, together=2):
            likelihood = self.models.log_likelihoods(X, batch)[0]
            u = likelihood[0::2] - likelihood[1::2]
            yield -torch.nn.functional.logsigmoid(u).sum() / len(x)

    def _linear_losses(self, X: Tensor, theta: Any) -> Iterator[Tensor]:
        """The parts of a loss linear in log pi, whose slope at theta is that of L_PL.

        An answer goes through the model once, in however many pairs it is.
        """
        (x, y, y_other, _), (u, weights) = self.domain.pairs, self._log_ratios(theta)
        slopes, each = np.zeros(self.domain.mu_hat.shape), weights * sigmoid(-u)
        np.subtract.at(slopes, (x, y), each)
        np.add.at(slopes, (x, y_other), each)
        x, y = np.nonzero(slopes)
        for part, batch in self.domain.parts(x, y):
            yield (self._tensor(slopes[x, y][part]) * self.models.log_likelihoods(X, batch)).sum()

    def _log_ratios(self, theta: Any) -> tuple[Array, Array]:
        """log pi(y|x) - log pi(y'|x) of every pair, and its weight."""
        x, y, y_other, weights = self.domain.pairs
        table = self.domain.policy.log_prob(floats("theta", theta, self.models.p))
        return table[x, y] - table[x, y_other], weights

    def _second_derivatives(self, phi: Any, theta: Any, z: Any, v: Any) -> tuple[Tensor, Tensor]:
        """Hessian-vector products (m, p) without the ridge, and slopes of log pi (m, S).

        The adjoint asks for both at the same point, one after the other: the last pair is kept.
        """
        products_and_slopes: tuple[Tensor, Tensor] = self._last.of(
            "second", (phi, theta, z, v), lambda: self._compute_second_derivatives(phi, theta, z, v)
        )
        return products_and_slopes

    def _compute_second_derivatives(
        self, phi: Any, theta: Any, z: Any, v: Any
    ) -> tuple[Tensor, Tensor]:
        V = self.models.policy.rows(floats("v", v).reshape(-1, self.models.p))
        if self.models.policy.columns is not None:  # a direction leaves fixed numbers as they are
            fixed = ~self.models.policy.columns.to(V.device)
            V[:, :, fixed] = 0.0
        X = self._policy_rows(theta).requires_grad_()
        products, slopes = torch.zeros_like(V), list[Tensor]()
        for batch, W in self._weighted_batches(phi, z):
            share = W.clone().requires_grad_()
            loss = -(share * self.models.log_likelihoods(X, batch)[0]).sum()
            (slope,) = torch.autograd.grad(loss, X, create_graph=True)  # for all directions
            along = torch.empty(len(V), len(W), dtype=V.dtype, device=V.device)
            for j, direction in enumerate(V):
                product, along[j] = torch.autograd.grad(
                    (slope[0] * direction).sum(), (X, share), retain_graph=j + 1 < len(V)
                )
                products[j] += product[0]
            slopes.append(-along)
        return self.models.policy.flat(products), torch.cat(slopes, 1)

    def _weighted_batches(self, phi: Any, z: Any) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Batches of the samples z, and W (S,): their shares times exp(r / beta)."""
        domain = self.domain
        if z is None:
            W, (x, y) = self._weights(phi), np.nonzero(domain.law)
            for part, batch in domain.parts(x, y):
                yield batch, self._tensor(W[part])
            return
        X, head = self._reward_rows_and_head(phi)
        for _, batch in domain.parts(*z):
            with torch.no_grad():
                r = self.models.rewards(X, head, batch)[0]
            yield batch, torch.exp(r / self.beta) / len(z[0])

    def _weights(self, phi: Any) -> Array:
        """W of all samples of the domain, (S,)."""
        x, y = np.nonzero(self.domain.law)
        r: Array = self._last.of("rewards", (phi,), lambda: self.domain.reward(phi))
        return np.asarray(self.domain.law[x, y] * np.exp(r[x, y] / self.beta))

    def _reward_slopes(self, phi: Any) -> Tensor | None:
        """grad_phi r of all samples of the domain, (S, q), the same in every inner step.

        None where they would take more memory than it is worth to keep.
        """
        x, y = np.nonzero(self.domain.law)
        if len(x) * self.models.q * phi.element_size() > _MOST:
            return None

        def compute() -> Tensor:
            X, head = (part.requires_grad_() for part in self._reward_rows_and_head(phi))
            rows = []
            for i in range(len(x)):
                r = self.models.rewards(X, head, self.domain.batch(x[i : i + 1], y[i : i + 1]))
                by_X, by_head = torch.autograd.grad(r.sum(), (X, head), materialize_grads=True)
                rows.append(torch.cat([self.models.reward.flat(by_X), by_head], 1)[0])
            return torch.stack(rows)

        slopes: Tensor = self._last.of("reward slopes", (phi,), compute)
        return slopes

    def _policy_rows(self, theta: Any) -> Tensor:
        """X (1, r, w) of theta."""
        return self.models.policy.rows(floats("theta", theta, self.models.p).detach()[None])

    def _reward_rows_and_head(self, phi: Any) -> tuple[Tensor, Tensor]:
        """X (1, r, w) and head (1, h) of phi."""
        at = floats("phi", phi, self.models.q).detach()[None]
        size = self.models.reward.size
        return self.models.reward.rows(at[:, :size]), at[:, size:]

    def _from_start(self, theta: Any) -> Any:
        return theta - self.models.theta().to(theta)

    def _tensor(self, values: Any) -> Tensor:
        start = self.models.policy.start
        return torch.tensor(values, dtype=start.dtype, device=self.models.policy.bank.device)
