"""A policy and a reward model as flat vectors: two adapters of one language model.

theta is the policy's adapter, phi the reward's followed by its score head, a vector s of the
model's width. With h(x, y) the model's last hidden state at the last token of prompt and answer
(the end token apart, which says nothing of an answer),

    r_phi(x, y) = b tanh(s . h_phi(x, y) / b),

so that exp(r / beta) lies in [exp(-b / beta), exp(b / beta)] whatever phi is. At s = 0 all rewards
are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from linsys.validate import InputError, check_instance, check_integer, check_number
from lora_bridge._checks import described, finite
from lora_bridge._decoding import end_tokens
from lora_bridge._head import head_of, target_places
from lora_bridge.bank import AdapterBank, Batch
from lora_bridge.losses import log_likelihood

__all__ = ["Adapter", "Models"]


@dataclass(frozen=True, eq=False)
class Adapter:
    """One adapter of a bank as a flat vector.

    Args:
        bank: the model and its places for adapters.
        start: the numbers of the adapter that the vector does not hold, (r, w).
        columns: which columns of it the vector holds, booleans (w,); all without it. The up factors
            B alone make log pi of a last layer concave.

    Raises:
        InputError: something else than a bank; numbers or columns of other shapes and kinds.

    >>> from torch import nn
    >>> adapter = Adapter(AdapterBank(nn.Sequential(nn.Linear(3, 2)), ["0"]), torch.zeros(4, 5))
    >>> adapter.size, adapter.rows(torch.ones(2, 20)).shape
    (20, torch.Size([2, 4, 5]))
    """

    bank: AdapterBank
    start: Tensor
    columns: Tensor | None = None

    def __post_init__(self) -> None:
        width = check_instance("bank", self.bank, AdapterBank, "an AdapterBank of the model").width
        finite("start", self.start, "r", width)
        if self.columns is not None and not (
            isinstance(self.columns, Tensor)
            and self.columns.dtype == torch.bool
            and self.columns.shape == (width,)
        ):
            raise InputError(
                f"`columns` must have shape ({width},) of torch.bool; "
                f"found {described(self.columns)}"
            )

    @property
    def size(self) -> int:
        """Numbers in the vector."""
        return self.flat(self.start[None]).shape[1]

    def flat(self, X: Tensor) -> Tensor:
        """Adapters (m, r, w) as vectors (m, size)."""
        chosen = X if self.columns is None else X[:, :, self.columns.to(X.device)]
        return chosen.reshape(len(X), -1)

    def rows(self, flat: Tensor) -> Tensor:
        """Vectors (m, size) as adapters (m, r, w)."""
        if self.columns is None:
            return flat.reshape(-1, *self.start.shape)
        X = self.start.to(flat).expand(len(flat), -1, -1).clone()
        columns = self.columns.to(flat.device)
        X[:, :, columns] = flat.reshape(len(flat), len(X[0]), int(columns.sum()))
        return X


@dataclass(frozen=True, eq=False, kw_only=True)
class Models:
    """The policy and the reward on one base model.

    Args:
        policy: adapter of the policy.
        reward: adapter of the reward, on the same model.
        bound: b; rewards lie in [-b, b].
        ridge: ridge / 2 times the squared distance of theta from its start is added to the inner
            loss, which then has a minimum where (10) alone has none.
        at_once: sequences that go through the model together.

    Raises:
        InputError: numbers out of range; a model without a head over a vocabulary; two models.
    """

    policy: Adapter
    reward: Adapter
    bound: float = 2.0
    ridge: float = 0.0
    at_once: int = 64

    def __post_init__(self) -> None:
        check_number("bound", self.bound, low=0.0, low_open=True)
        check_number("ridge", self.ridge, low=0.0)
        check_integer("at_once", self.at_once, low=1)
        for name in ("policy", "reward"):
            check_instance(name, getattr(self, name), Adapter, "an Adapter of a bank")
            if head_of(getattr(self, name).bank.model) is None:
                raise InputError(f"`{name}` must be an adapter of a language model; found no head")
        if self.policy.bank.model is not self.reward.bank.model:
            raise InputError("`reward` must be on the model of the policy; found another model")

    @property
    def p(self) -> int:
        """Numbers of theta."""
        return self.policy.size

    @property
    def q(self) -> int:
        """Numbers of phi."""
        return self.reward.size + self.width

    @property
    def width(self) -> int:
        """Numbers in a hidden state, and so in the score head."""
        config: Any = self.reward.bank.model.config
        return int(config.hidden_size)

    def theta(self) -> Tensor:
        """The policy's adapter at its start, shape (p,)."""
        return self.policy.flat(self.policy.start[None])[0]

    def phi(self) -> Tensor:
        """The reward's adapter at its start with a score head of zeros, shape (q,): r = 0."""
        start = self.reward.flat(self.reward.start[None])[0]
        return torch.cat([start, start.new_zeros(self.width)])

    def log_likelihoods(self, X: Tensor, batch: Batch) -> Tensor:
        """log pi(answer | prompt), (m, S), for adapters (m, r, w); differentiable by X."""
        flat = _for_clients(len(X), batch, target_places(batch["target_mask"]))
        return log_likelihood(self.policy.bank.run(X, flat), flat).to(X.dtype).reshape(len(X), -1)

    def rewards(self, X: Tensor, score: Tensor, batch: Batch) -> Tensor:
        """r, (m, S), for adapters (m, r, w) and heads (m, h); differentiable by both."""
        ids = batch["input_ids"]
        inside = batch["attention_mask"] * ~torch.isin(
            ids, end_tokens(self.reward.bank).to(ids.device)
        )
        place = torch.arange(inside.shape[-1], device=inside.device)
        last = (inside * place).argmax(-1, keepdim=True)
        hidden = self.reward.bank.run(X, _for_clients(len(X), batch, last)).hidden
        raw = (hidden.to(X.dtype).reshape(len(X), -1, self.width) @ score[..., None])[..., 0]
        return self.bound * torch.tanh(raw / self.bound)


def _for_clients(m: int, batch: Batch, places: Tensor) -> dict[str, Tensor]:
    """Samples (S, ...) repeated for m clients, on one axis, with the places that matter."""
    tensors = {**batch, "target_places": places}
    return {name: value.repeat(m, *[1] * (value.ndim - 1)) for name, value in tensors.items()}
