"""FSLoRA and its rivals: rows of the global modules go down, updates come up.

Devices keep nothing between rounds. What is merged into frozen matrices, by FedStackLoRA alone, the
server sends to all of them in every round, so that one that has missed some is not behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from linsys.sketching.federated import DeviceLost, Sent, State
from lora_bridge.flower._parts import Asking, Client
from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Lost, Parcel

__all__ = ["LoraClient", "LoraServer"]


@dataclass(eq=False)
class LoraServer:
    """The global modules, and how updates change them."""

    federation: Federation

    def start(self, hellos: Mapping[int, Parcel]) -> State:
        """The state before the first round."""
        return self.form()

    def form(self) -> State:
        """An initial state, whose arrays have the shapes that every later state has."""
        state: State = self.federation.algorithm.init(
            self.federation.start, self.federation.blank()
        )
        return state

    def rounds_left(self, state: State) -> int:
        """Rounds to go."""
        return self.federation.rounds - state.t

    def round(self, state: State) -> Asking:
        """Rows to every device, updates back."""
        algorithm = self.federation.algorithm
        frozen = {f"frozen.{j}": part for j, part in enumerate(state.frozen)}
        facts = {"r": len(state.X)}
        answers = yield {
            i: Parcel(facts, {"rows": algorithm.offer(state, i), **frozen})
            for i in range(self.federation.clients)
        }
        r, w = state.X.shape
        outcomes = {
            i: _outcome(answer, (len(algorithm.rows(i, state.t, r)), w))
            for i, answer in answers.items()
        }
        state, report = algorithm.join(state, outcomes, self.federation.blank())
        return state, report.missing

    def finish(self, state: State) -> Asking:
        """The global modules, and what was merged; devices keep nothing."""
        frozen = {f"frozen.{j}": part for j, part in enumerate(state.frozen)}
        return {"X": state.X, **frozen}, {}, {}
        yield {}


def _outcome(answer: Parcel | Lost, shape: tuple[int, int]) -> Sent | DeviceLost:
    """What a device has sent. The algorithm checks shape, dtype and size."""
    if isinstance(answer, Lost):
        return DeviceLost(answer.reason)
    update = answer.tensors.get("update")
    if "places" in answer.tensors and update is not None:
        update = _dense_update(update, answer.tensors["places"], shape)
    return Sent(torch.empty(0) if update is None else update, answer.number("bytes"))


def _dense_update(values: Tensor, places: Tensor, shape: tuple[int, int]) -> Tensor | None:
    """The whole update from its largest entries, which were sent, and zeros elsewhere."""
    size = shape[0] * shape[1]
    if values.ndim != 1 or places.shape != values.shape or places.dtype != torch.int32:
        return None
    if len(places) and (int(places.min()) < 0 or int(places.max()) >= size):
        return None
    update = values.new_zeros(size)
    update[places.long()] = values
    return update.reshape(shape)


class LoraClient(Client):
    """A device: local steps on the rows that it is sent; its folder stays empty."""

    def answer(self, request: Parcel) -> Parcel | Lost:
        """The update of the rows that were sent."""
        oracle, algorithm = self.oracle, self.federation.algorithm
        frozen = [n for n in request.tensors if n.startswith("frozen.")]
        if frozen:
            oracle = oracle.with_frozen(
                tuple(request.tensors[f"frozen.{j}"] for j in range(len(frozen)))
            )
        sent = algorithm.train(
            request.tensors["rows"],
            self.number,
            round_=request.number("t"),
            r=request.number("r"),
            oracle=oracle,
        )
        if isinstance(sent, DeviceLost):
            return Lost(str(sent))
        if algorithm.compression is None or algorithm.sends_modules:
            return Parcel({"bytes": sent.bytes}, {"update": sent.values})
        flat = sent.values.reshape(-1)
        places = flat.nonzero()[:, 0].to(torch.int32)
        return Parcel({"bytes": sent.bytes}, {"update": flat[places], "places": places})
