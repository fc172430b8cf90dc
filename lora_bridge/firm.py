"""Clients that align a language model with M rewards, as the oracle of FIRM and its rivals.

*Problem.* C clients hold adapters of one model, which is the policy; a response to a prompt is
worth M rewards in [0, 1], all to be increased.

*What a gradient is.* One call of :meth:`Alignment.jac` is one minibatch of PPO with a gradient for
every objective: one pass forward, one backward for each. Every ``epochs`` x ``batch / minibatch``
calls the clients sample new responses to prompts of their own. K such steps between aggregations
belong to the algorithm, :class:`mgda.firm.FIRM`, :class:`mgda.fedcmoo.FedCMOO` or
:class:`mgda.scalarization.LinearScalarization`, which take this oracle as any other one.

*Divergence from the reference* (the model without adapters). Its penalty is one more reward, -KL at
every token, with a critic and a surrogate of its own. "outside": its gradient times a coefficient
is the one common to all objectives, beside the weights. "inside": it is added to every reward, as
in reinforcement learning with one objective; the Gram matrix of the objectives then contains it.
Both give the same step for the same weights, up to whitening, which is applied to the sum.

What the paper leaves open, or says in two ways (Section 3, Appendix A.1; defaults first):

=================  ================================================================================
switch             choice
=================  ================================================================================
``kl``             "outside" of the weights, or "inside" every objective
``kl_kind``        estimator of the penalty: "k1", "k2" or "k3"
``controller``     target of .03 *per token*, from .2, a horizon of 10,000 responses
``kl_unit``        what the target is of: "token" or "sequence"
``whitened``       advantages of every objective with mean 0 and variance 1 in a rollout: rescales
                   gradients, hence weights where Gram matrices are not normalised
``average``        a "token", a "sequence" or the "sum": what a minibatch's mean is over
``epochs``         passes over a rollout, the first in the order of sampling: "3 local PPO epochs
                   per round"; a round is one rollout if K = epochs x batch / minibatch. In
                   Algorithm 1 every local step has its own responses: ``epochs=1,
                   minibatch=batch``
``clip``, ``lam``  .2 and .95 of Schulman et al.; ``gamma`` 1
``critics``        Adam at 1e-4 on the hidden states of the rollout, as often as the policy steps
dropout            the bank's: 0, or ratios do not begin at 1 (the paper lists .05)
=================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from linsys.validate import (
    InputError,
    check_choice,
    check_flag,
    check_instance,
    check_integer,
    check_number,
)
from lora_bridge._checks import floats, texts_by_client, tokenizer_of
from lora_bridge._schedule import Schedule
from lora_bridge.bank import AdapterBank
from lora_bridge.critics import Critics, Values
from lora_bridge.ppo import (
    AVERAGES,
    KINDS,
    UNITS,
    Controller,
    gae,
    kl_estimate,
    surrogate,
    terminal,
    token_kl,
    token_weights,
    whiten,
)
from lora_bridge.rewards import Bounds, Reward, by_client, scaled, scores
from lora_bridge.rollouts import (
    check_prompts,
    encode_prompts,
    numbers_of,
    responses,
    sample,
    score,
)

__all__ = ["Alignment", "Memory"]


class Memory(NamedTuple):
    """What the clients keep between steps; every tensor has the clients as its first axis.

    Attributes:
        critics: one for each objective, and one for the penalty where it is outside.
        coefficient: of the penalty, (C,).
        rollout: a batch of :func:`lora_bridge.rollouts.sample` with ``advantages``.
        report: of the last rollout: ``scores`` (C, M), the mean rewards; ``kl_token`` and
            ``kl_sequence`` (C,), estimated by k1; ``length`` (C,), mean tokens of a response.
        step: steps done.
    """

    critics: Values
    coefficient: Tensor
    rollout: dict[str, Tensor]
    report: dict[str, Tensor]
    step: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Alignment:
    """PPO gradients of C clients with M rewards; an oracle of :mod:`mgda.runs`.

    Args:
        bank: of a causal language model.
        tokenizer: its tokenizer.
        prompts: texts of every client.
        rewards: M of them, or M for each client: see :mod:`lora_bridge.rewards`.
        scaling, bounds: how they become numbers in [0, 1]; bounds stay as they are, the same for
            all clients, so that objectives stay the same.
        rank: r of the adapters; d = r times the bank's width.
        length: most tokens of a response.
        batch: B, prompts of a rollout; a client with fewer repeats some of them.
        minibatch: responses of a step; divides ``batch``.
        epochs: passes over a rollout.
        temperature: of the policy.
        clip, gamma, lam: of PPO.
        kl, kl_kind, kl_unit, controller, whitened, average, critics: see the module's text.
        max_length: tokens of a prompt.
        too_long: "error", or "cut" to drop the beginning of a longer prompt.
        width: tokens that prompts are padded to; by default as few as these prompts need.
        clients: numbers of the clients; 0, 1, .. without them. A client's draws depend on its
            number, not on the other clients.
        seed: of prompts, responses and minibatches.

    Attributes:
        P: tokens that prompts are padded to.
        schedule: which prompts and responses a step sees.

    Raises:
        InputError: something else than a bank, a tokenizer, a controller, critics; no clients, one
            without prompts, or with a text in the place of a list; no rewards, or none of the scale
            asked for; not as many numbers as clients, or one twice; a minibatch that does not
            divide the batch; unknown choices, numbers out of their range; a controller whose
            horizon is too short; prompts that are too long.
    """

    bank: AdapterBank
    tokenizer: Any
    prompts: Sequence[Sequence[str]]
    rewards: Sequence[Reward] | Sequence[Sequence[Reward]]
    rank: int
    length: int
    batch: int = 16
    minibatch: int = 8
    epochs: int = 3
    temperature: float = 1.0
    clip: float = 0.2
    gamma: float = 1.0
    lam: float = 0.95
    kl: str = "outside"
    kl_kind: str = "k1"
    kl_unit: str = "token"
    controller: Controller = field(default_factory=Controller)
    scaling: str = "range"
    bounds: Bounds | None = None
    whitened: bool = True
    average: str = "token"
    critics: Critics = field(default_factory=Critics)
    max_length: int = 512
    too_long: str = "error"
    width: int | None = None
    clients: Sequence[int] | None = None
    seed: int = 0
    schedule: Schedule = field(init=False, repr=False)
    P: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_instance("bank", self.bank, AdapterBank, "an AdapterBank of the model")
        tokenizer_of(self.tokenizer)
        check_instance(
            "controller", self.controller, Controller, "a Controller (target=None keeps it fixed)"
        )
        check_instance("critics", self.critics, Critics, "Critics, which say how they learn")
        check_flag("whitened", self.whitened)
        for name in ("rank", "length"):
            check_integer(name, getattr(self, name), low=1)
        check_choice("kl", self.kl, ("outside", "inside"))
        check_choice("kl_kind", self.kl_kind, KINDS)
        check_choice("kl_unit", self.kl_unit, UNITS)
        check_choice("average", self.average, AVERAGES)
        for name in ("gamma", "lam"):
            check_number(name, getattr(self, name), low=0.0, high=1.0)
        surrogate(self.clip, self.temperature)
        prompts = texts_by_client("prompts", self.prompts)
        if not prompts or not all(prompts):
            counts = [len(own) for own in prompts]
            raise InputError(f"`prompts` must hold one or more of every client; found {counts}")
        object.__setattr__(self, "prompts", prompts)
        if self.clients is not None:
            object.__setattr__(self, "clients", numbers_of(self.clients, self.C))
        schedule = Schedule(
            clients=self.names,
            batch=self.batch,
            minibatch=self.minibatch,
            epochs=self.epochs,
            seed=self.seed,
        )
        object.__setattr__(self, "schedule", schedule)
        self.controller(torch.zeros(1), torch.zeros(1), self.batch)
        own = by_client(self.rewards, self.C)
        scaled(torch.zeros(self.C, 1, len(own[0])), own, self.scaling, self.bounds)
        encoded = [
            self._encoded([own], [c], self.width)
            for c, own in zip(self.names, self.prompts, strict=True)
        ]
        for batch in encoded:
            check_prompts(self.bank, batch, self.length)
        object.__setattr__(self, "P", max(batch["input_ids"].shape[-1] for batch in encoded))

    @property
    def C(self) -> int:
        """Number of clients."""
        return len(self.prompts)

    @property
    def names(self) -> Sequence[int]:
        """Numbers of the clients."""
        return range(self.C) if self.clients is None else self.clients

    @property
    def M(self) -> int:
        """Number of rewards."""
        return len(by_client(self.rewards, self.C)[0])

    @property
    def steps(self) -> int:
        """Gradients of one rollout."""
        return self.schedule.steps

    @property
    def d(self) -> int:
        """Parameters of a client."""
        return self.rank * self.bank.width

    @property
    def choices(self) -> dict[str, Any]:
        """Every switch as plain values, to be recorded with a result."""
        names = ("rank", "length", "batch", "minibatch", "epochs", "temperature", "clip", "gamma")
        more = ("lam", "kl", "kl_kind", "kl_unit", "scaling", "whitened", "average", "max_length")
        autocast = self.bank.autocast
        return {name: getattr(self, name) for name in (*names, *more, "too_long", "seed")} | {
            "controller": vars(self.controller),
            "critics": vars(self.critics),
            "dropout": self.bank.dropout,
            "autocast": None if autocast is None else str(autocast).removeprefix("torch."),
        }

    def init(self) -> Memory:
        """Critics whose values are zero, the first coefficients, and places for a rollout."""
        C, P, device = self.C, self.P, self.bank.device
        R = self.M + (self.kl == "outside")

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(C, *shape, dtype=dtype, device=device)

        tokens = ("input_ids", "attention_mask", "position_ids", "target_mask")
        places = (self.batch, self.length)
        rollout = {name: zeros(self.batch, P + self.length, dtype=torch.long) for name in tokens}
        rollout["target_places"] = zeros(*places, dtype=torch.long)
        model: Any = self.bank.model
        weights = next(model.parameters()).dtype
        rollout["log_prob"] = zeros(*places, dtype=torch.promote_types(weights, torch.float32))
        rollout["advantages"] = zeros(*places, R)
        report = {name: zeros() for name in ("kl_token", "kl_sequence", "length")}
        return Memory(
            self.critics.init(C, model.config.hidden_size, R, device),
            torch.full((C,), float(self.controller.start), device=device),
            rollout,
            report | {"scores": zeros(self.M)},
            0,
        )

    def jac(
        self, theta: Tensor, memory: Memory
    ) -> tuple[Tensor, Memory] | tuple[Tensor, Memory, Tensor]:
        """Gradients of the surrogates, to be ascended, on the next minibatch.

        Args:
            theta: adapters as flat vectors, shape (1, C, d).
            memory: of :meth:`init` or of the last call.

        Returns:
            (1, C, d, M), what the clients keep, and with ``kl`` "outside" the gradient (1, C, d) of
            the penalty, coefficient included.
        """
        X = self._rows(theta, memory)
        if memory.step % self.schedule.steps == 0:
            memory = self._sampled(X, memory)
        part = self._part(memory.rollout, memory.step)
        loss = surrogate(self.clip, self.temperature)
        _, slopes = self.bank.gradients(X, part, loss)
        ascent = -slopes.flatten(2).mT[None]
        memory = memory._replace(step=memory.step + 1)
        if self.kl == "inside":
            return ascent, memory
        return ascent[..., : self.M], memory, ascent[..., self.M]

    def each(self, theta: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Gradients of all responses of a new rollout, one by one, shape (C, B, d, M).

        Their mean over some responses is the gradient that these give as a minibatch at ratios of 1
        (with ``average`` "token", if they have as many tokens as the rollout on average).

        Args:
            theta: adapters as flat vectors, shape (1, C, d).
            memory: as for :meth:`jac`; one at the end of a rollout, or of :meth:`init`.
        """
        X = self._rows(theta, memory)
        memory = self._sampled(X, memory)
        counted = memory.rollout["target_places"] >= 0
        batch = memory.rollout | {"token_weights": token_weights(counted, self.average)}
        batch["advantages"] = batch["advantages"][..., : self.M]
        _, slopes = self.bank.per_sample(X, batch, surrogate(self.clip, self.temperature))
        return -slopes.flatten(3).mT, memory

    def _rows(self, theta: Tensor, memory: Memory) -> Tensor:
        """theta as X (C, r, w); refuses another shape, and another memory."""
        check_instance("memory", memory, Memory, "one of `init` or of the last call")
        shape = self.C, self.rank, self.bank.width
        return floats("theta", theta, 1, self.C, self.d).reshape(shape)

    def _sampled(self, X: Tensor, memory: Memory) -> Memory:
        """New responses, their advantages, critics fitted to them and the next coefficients."""
        number = memory.step // self.schedule.steps
        texts = self.schedule.prompts(self.prompts, number)
        batch = sample(
            self.bank,
            X,
            self._encoded(texts, self.names, self.P),
            length=self.length,
            temperature=self.temperature,
            seed=self.seed,
            round_=number,
            clients=self.names,
            together=self.minibatch,
            at_a_time=self._at_a_time(X, memory),
        )
        answers = responses(self.tokenizer, batch)
        scored = scores(self.rewards, texts, answers, self.scaling, self.bounds)
        scored = scored.to(memory.coefficient)
        reference = score(self.bank, None, batch, self.temperature, together=self.minibatch)
        hidden = batch.pop("hidden")
        counted, log_prob = batch["target_places"] >= 0, batch["log_prob"]
        penalty = -token_kl(log_prob, reference, self.kl_kind)[..., None].float()
        weight = memory.coefficient[:, None, None, None]
        rewards = terminal(scored, counted)
        if self.kl == "inside":
            rewards = rewards + weight * penalty
        else:
            rewards = torch.cat([rewards, penalty], -1)
        values = self.critics.value(memory.critics, hidden)
        advantages, returns = gae(rewards, values, counted, self.gamma, self.lam)
        objectives, rest = advantages[..., : self.M], weight * advantages[..., self.M :]
        if self.whitened:
            objectives = whiten(objectives, counted)
        batch["advantages"] = torch.cat([objectives, rest], -1)
        critics, fitted = memory.critics, {"hidden": hidden, "returns": returns, "counted": counted}
        for step in range(memory.step, memory.step + self.schedule.steps):
            critics = self.critics.fit(critics, **self.schedule.taken(fitted, step))
        kl = {unit: kl_estimate(log_prob, reference, counted, "k1", unit).float() for unit in UNITS}
        report = {
            "scores": scored.mean(1),
            "kl_token": kl["token"],
            "kl_sequence": kl["sequence"],
            "length": counted.sum(-1).float().mean(1),
        }
        coefficient = self.controller(memory.coefficient, kl[self.kl_unit], self.batch)
        return Memory(critics, coefficient, batch, report, memory.step)

    def _encoded(
        self, texts: Sequence[Sequence[str]], clients: Sequence[int], width: int | None
    ) -> dict[str, Tensor]:
        return encode_prompts(
            self.tokenizer,
            texts,
            self.max_length,
            too_long=self.too_long,
            width=width,
            clients=clients,
        )

    def _at_a_time(self, X: Tensor, memory: Memory) -> int:
        """How many clients a gradient's pass takes: from shapes, as no responses exist yet."""
        seen = {"attention_mask": torch.ones_like(memory.rollout["attention_mask"])}
        part = self._part(memory.rollout | seen, memory.step)
        return self.bank.at_a_time(X, part, surrogate(self.clip, self.temperature))

    def _part(self, rollout: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
        part = self.schedule.taken(rollout, step)
        return part | {"token_weights": token_weights(part["target_places"] >= 0, self.average)}
