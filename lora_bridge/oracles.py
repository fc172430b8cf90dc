"""Clients with text as the oracles that the algorithms of :mod:`linsys` ask.

One class for each kind of question: :class:`Devices` for FSLoRA and its rivals, :class:`Users` for
P-ShareLoRA. Both hand all clients of a step to the bank at once where the algorithm allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from linsys.sketching import DeviceLost
from linsys.sketching.adapters import Modules
from linsys.validate import check_instance
from lora_bridge._checks import floats
from lora_bridge.tasks import Task

__all__ = ["Devices", "Users"]


@dataclass(frozen=True, eq=False)
class _Clients:
    """A task, whose model has the adapted matrices."""

    task: Task

    def __post_init__(self) -> None:
        check_instance("task", self.task, Task, "a Task of the clients")

    @property
    def modules(self) -> Modules:
        """The adapted matrices."""
        return self.task.bank.modules


@dataclass(frozen=True, eq=False)
class Users(_Clients):
    """A task as :class:`linsys.preference.sharelora.ShareLoRA` asks of users.

    Args:
        task: its clients are the users, its loss usually that of preference pairs.
    """

    @property
    def users(self) -> int:
        """N."""
        return self.task.clients

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return self.task.steps

    def grad(self, user: int, X: Tensor, epoch: int, step: int) -> Tensor:
        """The gradient of a user's mean loss on a batch at X (r, w)."""
        return self._gradients([user], X[None], epoch, step)[0]

    def grads(self, X: Tensor, epoch: int, step: int) -> Tensor:
        """The gradients of all users at X (N, r, w), together."""
        return self._gradients(range(self.users), X, epoch, step)

    def _gradients(self, users: Sequence[int], X: Tensor, epoch: int, step: int) -> Tensor:
        batch = self.task.pass_through(users, epoch, step)
        # a user that is left out has NaN, which the algorithm rejects
        return self.task.gradients(users, X, batch, f"epoch {epoch}, step {step}")[0]


@dataclass(frozen=True)
class _TensorModules(Modules):
    """The adapted matrices of a model, where LoRA starts from a tensor of their kind."""

    like: Tensor = field(compare=False)

    def start(self, r: int, rng: np.random.Generator, size: float = 1.0) -> Any:
        return torch.from_numpy(super().start(r, rng, size)).to(self.like)


@dataclass(frozen=True, eq=False)
class Devices(_Clients):
    """A task as :class:`linsys.sketching.fslora.FSLoRA` and its rivals ask of devices.

    It starts and measures as :class:`linsys.sketching.systems.LeastSquares` does, so that a program
    changes in the line that makes the devices alone.

    Args:
        task: its clients are the devices.
    """

    @property
    def modules(self) -> Modules:
        """The adapted matrices; ``start`` gives a tensor, in double precision if the model is."""
        bank = self.task.bank
        double = next(bank.model.parameters()).dtype == torch.float64
        like = torch.empty(0, dtype=torch.float64 if double else torch.float32, device=bank.device)
        return _TensorModules(bank.modules.shapes, like)

    def loss(self, device: int, X: Tensor) -> float:
        """The mean loss of all of a device's samples at W0 + B A of X (r, w)."""
        return self.task.evaluate(device, X)

    @property
    def devices(self) -> int:
        """N."""
        return self.task.clients

    def grad(self, device: int, X: Tensor, scale: float, round_: int, step: int) -> Tensor:
        """The gradient on a device's samples at W0 + scale B A of its rows X (k, w)."""
        floats("X", X, "k", self.task.bank.width)
        [gradient] = self.grads([device], [X], [scale], round_, step)
        if isinstance(gradient, DeviceLost):
            raise gradient
        return gradient

    def grads(
        self,
        devices: Sequence[int],
        rows: Sequence[Tensor],
        scales: Sequence[float],
        round_: int,
        step: int,
    ) -> list[Tensor | DeviceLost]:
        """The gradients of several devices with rows (k_i, w), together: padded to one rank."""
        most = max(len(floats("rows of X", X, "k", self.task.bank.width)) for X in rows)
        padded = torch.stack([torch.nn.functional.pad(X, (0, 0, 0, most - len(X))) for X in rows])
        factors = torch.tensor(scales, dtype=padded.dtype, device=padded.device)
        batch, when = self.task.draw(devices, round_, step), f"round {round_}, step {step}"
        gradients, left_out = self.task.gradients(devices, padded, batch, when, factors)
        return [
            DeviceLost(left_out[place]) if place in left_out else gradients[place, : len(X)]
            for place, X in enumerate(rows)
        ]

    @property
    def frozen(self) -> tuple[Tensor, ...]:
        """What has been merged into the frozen matrices."""
        return self.task.bank.frozen

    def with_frozen(self, frozen: tuple[Tensor, ...]) -> Self:
        """An oracle of these clients with the given tensors merged into the frozen matrices."""
        return replace(self, task=replace(self.task, bank=self.task.bank.with_frozen(frozen)))

    def merged(self, products: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What is merged into the frozen matrices with products added."""
        return self.task.bank.merged(products).frozen
