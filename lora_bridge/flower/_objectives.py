"""FIRM, FedCMOO, weighted sums: parameters down and up; gradients up where weights are common.

Smoothed weights, Adam's moments and what the oracle keeps (chains, critics, rollouts) stay with the
client. FedCMOO's rounds have two phases: gradients up and lambda down, then K local steps, of which
the first uses the gradients that were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linsys.validate import InputError, check_integer
from lora_bridge.flower._kept import Kept
from lora_bridge.flower._parts import Answers, Asking, Client, refusal
from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Lost, Parcel
from mgda.federated import State, client_mean

__all__ = ["ObjectivesClient", "ObjectivesServer"]


@dataclass(eq=False)
class ObjectivesServer:
    """The parameters, and FedCMOO's lambda. A state also has the last step of each client."""

    federation: Federation

    def __post_init__(self) -> None:
        algorithm = self.federation.algorithm
        check_integer("objectives", self.federation.objectives, low=1)
        if algorithm.weighs_on_server and algorithm.refresh == "step" and algorithm.K > 1:
            raise InputError(
                "`refresh` must be 'round' for clients on machines of their own, or K = 1; "
                f"found 'step' and K = {algorithm.K}"
            )

    def start(self, hellos: Mapping[int, Parcel]) -> Any:
        """The state before the first round: parameters (1, N, d), lambda, steps done and heard."""
        return self.form() | {"weights": {}}

    def form(self) -> Any:
        """An initial state without lambda; every state has these shapes, and some have lambda."""
        start = self.federation.start
        if start.ndim != 1:
            raise InputError(f"`start` must have shape (d,); found {tuple(start.shape)}")
        theta = self.federation.algorithm.init(start.repeat(1, self.federation.clients, 1)).theta
        return {"theta": theta, "weights": {}, "t": 0, "heard": [-1] * self.federation.clients}

    def rounds_left(self, state: Any) -> int:
        """Rounds to go."""
        return self.federation.rounds - int(state["t"]) // int(self.federation.algorithm.K)

    def round(self, state: Any) -> Asking:
        """Lambda where it is common, then K local steps of every client and their mean."""
        algorithm, clients = self.federation.algorithm, range(self.federation.clients)
        theta, t, missing = state["theta"], state["t"], dict[int, str]()
        down, weights = {"theta": theta[0, 0]}, state["weights"]
        if algorithm.weighs_on_server:
            answers = yield self._requests(state, clients, "gradients", down)
            sent = self._gradients(answers, missing)
            if sent is None:
                return state | {"t": t + algorithm.K}, missing
            before = State(theta, weights["lambda"].numpy() if weights else None, t)
            lambdas = algorithm.resolve(before, sent)
            common = torch.from_numpy(lambdas[:, :1].repeat(len(clients), axis=1))
            weights = {"lambda": common}
            down["lambda"] = common[0, 0]
        asked = [i for i in clients if i not in missing]
        answers = yield self._requests(state, asked, "train", down)
        rows = []
        for i in clients:
            row = theta[0, i]  # a missing client counts as one that did not move
            if i not in missing:
                if (reason := _reason_missing(answers[i], {"theta": row})) is None:
                    row = answers[i].tensors["theta"]  # type: ignore[union-attr]
                else:
                    missing[i] = reason
            rows.append(row)
        mean = client_mean(torch.stack(rows)[None])
        heard = [last if i in missing else t for i, last in enumerate(state["heard"])]
        return {"theta": mean, "weights": weights, "t": t + algorithm.K, "heard": heard}, missing

    def _requests(
        self, state: Any, clients: Iterable[int], phase: str, down: Mapping[str, Tensor]
    ) -> dict[int, Parcel]:
        """One request for all; each also names the last step that the client has answered."""
        facts = {"phase": phase, "step": state["t"]}
        return {i: Parcel({**facts, "heard": state["heard"][i]}, down) for i in clients}

    def finish(self, state: Any) -> Asking:
        """The parameters; what clients keep for themselves is no part of the result."""
        return {"theta": state["theta"][0, 0]}, {}, {}
        yield {}

    def _gradients(self, answers: Answers, missing: dict[int, str]) -> Tensor | None:
        """The gradients (1, clients, d, M) of those that can be used; None without any."""
        algorithm, start = self.federation.algorithm, self.federation.start
        d, M = len(start), int(self.federation.objectives or 0)
        form = {"0": start.new_empty(d, M)}
        if algorithm.rank is not None:
            k = min(algorithm.rank, d)
            form = {"0": start.new_empty(d, k), "1": start.new_empty(k, M)}
        sent = []
        for i, answer in answers.items():
            if (reason := _reason_missing(answer, form)) is not None:
                missing[i] = reason
                continue
            sent.append([answer.tensors[name] for name in form])  # type: ignore[union-attr]
        parts = tuple(torch.stack(part)[None] for part in zip(*sent, strict=True))
        return algorithm.restore(parts) if sent else None


def _reason_missing(answer: Parcel | Lost, form: Mapping[str, Tensor]) -> str | None:
    """Why a client is missing; None where all its tensors have their form."""
    if isinstance(answer, Lost):
        return f"dropped out: {answer.reason}"
    for name, like in form.items():
        if (reason := refusal(answer, name, like, tuple(like.shape))) is not None:
            return f"rejected: its update {reason}"
    return None


class ObjectivesClient(Client):
    """A client: local steps from the server's parameters, with what it keeps of its own."""

    def answer(self, request: Parcel) -> Parcel | Lost:
        """The gradients, or the parameters after K local steps."""
        t = request.number("t")
        state, first = self._state(request, t), self._kept("gradients")
        if request.text("phase") == "gradients":
            jac = self.oracle.jac(state.theta, state.memory)
            first.put(t, _by_name(jac))
            algorithm, clients = self.federation.algorithm, self.federation.clients
            parts = algorithm.compress(jac[0], state.t, client=self.number, clients=clients)
            return Parcel({}, {str(j): part[0, 0] for j, part in enumerate(parts)})
        known = None
        if "lambda" in request.tensors:
            known = first.at(t, _by_name((self._gradients(), self.oracle.init())))
        for _ in range(self.federation.algorithm.K):
            packed = known or _by_name(self.oracle.jac(state.theta, state.memory))
            state, known = self._step(state, request, packed), None
        kept = {"memory": state.memory, "weights": state.weights, "moments": state.moments}
        self._kept("state").put(t + 1, kept)
        return Parcel({}, {"theta": state.theta[0, 0]})

    def _step(self, state: State, request: Parcel, packed: Mapping[str, Any]) -> State:
        """One local step, with the server's lambda if it has sent one."""
        algorithm, gradients = self.federation.algorithm, packed["gradients"]
        more, names = (packed["memory"], packed["common"].get("value")), [self.number]
        if "lambda" in request.tensors:
            weights = request.tensors["lambda"].numpy()[None, None]
            moved: State = algorithm.move(state, gradients, weights, *more, names=names)
        else:
            moved = algorithm.step(state, gradients, *more, names=names)
        return moved

    def _state(self, request: Parcel, t: int) -> State:
        """The server's parameters with what the client has kept."""
        theta = request.tensors["theta"][None, None]
        state: State = self.federation.algorithm.init(theta, self.oracle)
        state = state._replace(t=request.number("step"))
        M = int(self.federation.objectives or 0)
        weights = np.full((1, 1, M), 1.0 / M)
        form = {"memory": state.memory, "weights": weights, "moments": state.moments}
        kept, heard = self._kept("state").before(t, form), request.number("heard")
        if kept is None and heard >= 0:  # otherwise it would silently begin anew
            raise self._kept("state").missing_error(heard)
        return state if kept is None else state._replace(**kept[1])

    def _gradients(self) -> Tensor:
        start = self.federation.start
        return start.new_empty(1, 1, len(start), int(self.federation.objectives or 0))

    def _kept(self, name: str) -> Kept:
        return Kept(self.folder / name, self.federation.about)


def _by_name(jac: Sequence[Any]) -> dict[str, Any]:
    """What an oracle gives, by name: gradients, memory, and a common gradient if there is one."""
    gradients, memory, *common = jac
    return {
        "gradients": gradients,
        "memory": memory,
        "common": {"value": common[0]} if common else {},
    }
