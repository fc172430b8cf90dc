"""P-ShareLoRA: shared coordinates down, their gradients up; personal ones stay with the user.

The server has the shared coordinates and their moments, a user its personal ones with theirs. A
round is one step. During a warm-up all coordinates are shared; a user takes over those that become
personal the first time that it is asked afterwards. At the end the server sends the last shared
coordinates, the user puts its adapters together, on its own disk, and tells their SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from linsys.preference.sharelora import ShareLoRA, State
from linsys.sketching.adapters import Modules
from linsys.validate import InputError
from lora_bridge.failures import writing_explained
from lora_bridge.flower._kept import Kept
from lora_bridge.flower._parts import Asking, Client, refusal
from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Lost, Parcel, fingerprint

__all__ = ["UsersClient", "UsersServer"]


@dataclass(eq=False)
class UsersServer:
    """The shared coordinates.

    A state also has the steps of an epoch, ``steps``, and the last step that each user answered,
    ``heard``, -1 for none.
    """

    federation: Federation

    def start(self, hellos: Mapping[int, Parcel]) -> Any:
        """The state before the first step; an epoch is as long as the largest user's."""
        steps = self.federation.steps
        if steps is None:
            silent = [i for i in range(self.federation.clients) if i not in hellos]
            if silent:
                raise InputError(
                    "`steps` of an epoch must be given, or all clients be there to say theirs; "
                    f"found no client {', '.join(map(str, silent))}"
                )
            steps = max(hello.number("steps") for hello in hellos.values())
        return self.form() | {"steps": steps}

    def form(self) -> Any:
        """A state with the shapes that every state has, made without asking the clients."""
        start, algorithm = self.federation.start, self.federation.algorithm
        clients = self.federation.clients
        everybody = algorithm.init(start, self.federation.blank(users=clients))
        state = algorithm.init(everybody.X[0], self.federation.blank())
        heard = [-1] * clients
        return {"X": state.X, "moments": state.moments, "t": 0, "steps": 1, "heard": heard}

    def rounds_left(self, state: Any) -> int:
        """Steps to go."""
        return int(self.federation.algorithm.total(self._oracle(state))) - int(state["t"])

    def round(self, state: Any) -> Asking:
        """One step: shared coordinates to every user, gradients back."""
        algorithm, N = self.federation.algorithm, self.federation.clients
        X, t, oracle = state["X"], state["t"], self._oracle(state)
        together = torch.from_numpy(algorithm.together(t, oracle))
        answers = yield {i: self._request(state, i) for i in range(N)}
        G, missing = X.new_zeros(N, *X.shape[1:]), dict[int, str]()
        heard = list(state["heard"])
        for i, answer in answers.items():
            shape = (X.shape[1], int(together.sum()))
            if isinstance(answer, Lost):
                missing[i] = f"dropped out: {answer.reason}"
            elif (reason := refusal(answer, "gradient", X, shape)) is not None:
                missing[i] = f"rejected: its gradient {reason}"
            else:
                G[i][:, together] = answer.tensors["gradient"]
                heard[i] = t
        mean = algorithm.pool(G)
        after = algorithm.move(State(X, t, state["moments"]), oracle, mean, mean)
        # what became personal at the end of the warm-up is kept for users that come late
        still = torch.from_numpy(~algorithm.together(t, oracle))
        kept = {"X": torch.where(still, X, after.X), "moments": after.moments, "t": t + 1}
        return state | kept | {"heard": heard}, missing

    def finish(self, state: Any) -> Asking:
        """The shared coordinates, and the SHA-256 of every user's adapters."""
        clients = range(self.federation.clients)
        answers = yield {i: self._request(state, i, {"phase": "finish"}) for i in clients}
        digests, missing = dict[int, str](), dict[int, str]()
        for i, answer in answers.items():
            if isinstance(answer, Lost):
                missing[i] = f"dropped out: {answer.reason}"
            else:
                digests[i] = answer.text("sha256")
        shared = torch.from_numpy(self.federation.algorithm.mask(self.federation.blank().modules))
        return {"X": state["X"][0][:, shared]}, digests, missing

    def _request(self, state: Any, user: int, more: Mapping[str, Any] | None = None) -> Parcel:
        """The shared coordinates; all coordinates for a user not heard of since the warm-up."""
        heard = state["heard"][user]
        sent = _columns_to_send(self.federation.algorithm, self._oracle(state), heard)
        facts = {"steps": state["steps"], "heard": heard, **(more or {})}
        return Parcel(facts, {"rows": state["X"][0][:, sent]})

    def _oracle(self, state: Any) -> Any:
        return self.federation.blank(state["steps"])


def _columns_to_send(algorithm: ShareLoRA, oracle: Any, heard: int) -> Tensor:
    """The coordinates that go to a user whose last step was ``heard``, -1 before its first."""
    warm = heard < algorithm.warm(oracle) > 0
    return torch.from_numpy(algorithm.mask(oracle.modules) | warm)


@dataclass(frozen=True, eq=False)
class _SingleUser:
    """One user of an oracle, as if it were the only one."""

    oracle: Any
    number: int
    steps: int

    @property
    def modules(self) -> Modules:
        modules: Modules = self.oracle.modules
        return modules

    @property
    def users(self) -> int:
        return 1

    def grad(self, user: int, X: Tensor, epoch: int, step: int) -> Any:
        return self.oracle.grad(self.number, X, epoch, step)


class UsersClient(Client):
    """A user: its personal coordinates, and gradients of its own data."""

    def hello(self) -> Parcel:
        """The batches of an epoch of its own data, where the federation does not say."""
        if self.federation.steps is not None:
            return Parcel()
        return Parcel({"steps": self.oracle.steps})

    def answer(self, request: Parcel) -> Parcel | Lost:
        """The gradient in the coordinates that are shared in this step; at the end, the SHA-256."""
        algorithm, t = self.federation.algorithm, request.number("t")
        oracle = _SingleUser(self.oracle, self.number, request.number("steps"))
        state = self._state(request, oracle, t)
        if request.text("phase") == "finish":
            with writing_explained("folder of the client", self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)  # some are asked only at the end
                save_file({"X": state.X[0].contiguous()}, self.folder / "adapters.safetensors")
            return Parcel({"sha256": fingerprint([state.X[0]])})
        G, missing = algorithm.gradients(state, oracle)
        after = algorithm.move(state, oracle, G, G, list(missing))
        self._kept.put(t + 1, {"X": after.X, "moments": after.moments})
        if missing:
            return Lost(missing[0].removeprefix("rejected: "))
        together = torch.from_numpy(algorithm.together(t, oracle))
        return Parcel({}, {"gradient": G[0][:, together]})

    def _state(self, request: Parcel, oracle: _SingleUser, t: int) -> State:
        """The server's coordinates and the user's own."""
        algorithm, start = self.federation.algorithm, self.federation.start
        state: State = algorithm.init(start if start.ndim == 2 else start[self.number], oracle)
        heard = request.number("heard")
        sent = taken = _columns_to_send(algorithm, oracle, heard)
        kept = self._kept.before(t, {"X": state.X, "moments": state.moments})
        warm = algorithm.warm(oracle)
        if kept is None and heard >= warm:  # a user that lost its files would start anew, unnoticed
            raise self._kept.missing_error(heard)
        if kept is not None and kept[0] > warm:  # it has personal coordinates already
            taken = torch.from_numpy(algorithm.mask(oracle.modules))
            state = state._replace(**kept[1])
        rows = state.X[0].clone()
        rows[:, sent] = request.tensors["rows"].to(rows)
        X = torch.where(taken, rows, state.X)
        return state._replace(X=X, t=t)

    @property
    def _kept(self) -> Kept:
        return Kept(self.folder / "state", self.federation.about)
