"""Server and client of an algorithm: what they ask, answer and keep.

A *server* makes a round of its algorithm by asking: its round is a generator that yields requests
by client and is sent the answers, as often as the algorithm has phases. It checks every answer
before it uses it. A *client* answers one request at a time, and keeps what it has to remember on
its own disk. What they compute is in :mod:`linsys` and :mod:`mgda`: here is only who does it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Lost, Parcel

__all__ = ["Answers", "Asking", "Client", "Server", "refusal"]

#: What came back, by client: all that were asked are in it.
Answers = Mapping[int, Parcel | Lost]
#: Part of a server's work: it yields requests by client and returns its result.
Asking = Generator[dict[int, Parcel], Answers, Any]


class Server(Protocol):
    """The server's part of an algorithm. Its states are what checkpoints take."""

    federation: Federation

    def start(self, hellos: Mapping[int, Parcel]) -> Any:
        """The state before the first round, from what the clients say of themselves."""

    def form(self) -> Any:
        """An empty state, whose tensors have the shapes of every state."""

    def rounds_left(self, state: Any) -> int:
        """Rounds to go."""

    def round(self, state: Any) -> Asking:
        """One round: asks, and returns the next state and the reason of each missing client."""

    def finish(self, state: Any) -> Asking:
        """The end: asks, and returns the adapters by name, the SHA-256 of what each client keeps,
        and the reason of each missing client."""


@dataclass(eq=False)
class Client(ABC):
    """A client's part of an algorithm.

    Args:
        federation: the run.
        number: of the client.
        folder: where it keeps its own state.
    """

    federation: Federation
    number: int
    folder: Path

    @cached_property
    def oracle(self) -> Any:
        """What the algorithm asks of this client's data; made when needed: it may load a model."""
        return self.federation.oracle(self.number)

    def hello(self) -> Parcel:
        """What the server has to know of the client before the first round: nothing, as a rule."""
        return Parcel()

    @abstractmethod
    def answer(self, request: Parcel) -> Parcel | Lost:
        """The answer to a request; the same one to the same request."""


def refusal(parcel: Parcel, name: str, like: Tensor, shape: tuple[int, ...]) -> str | None:
    """Why a tensor of an answer cannot be used: absent, of another shape or dtype, not finite."""
    value = parcel.tensors.get(name)
    if value is None:
        return f"has no {name}"
    if tuple(value.shape) != shape:
        return f"has shape {tuple(value.shape)} where {shape} was expected"
    if value.dtype != like.dtype:
        return f"has dtype {value.dtype} where {like.dtype} was expected"
    if not bool(value.isfinite().all()):
        return "is not finite"
    return None
