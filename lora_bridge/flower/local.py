"""A client that turns bytes into bytes, and a run whose server and clients are this process.

What a client does with a parcel is the same here and under Flower: :class:`Responder`. A rehearsal
sends the same bytes without a network, so that a setup is tried in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linsys.validate import InputError, check_instance, check_path
from lora_bridge.flower._algorithms import client_of
from lora_bridge.flower._parts import Client
from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Damaged, Lost, Parcel
from lora_bridge.flower.rounds import Result, Rules, coordinate

__all__ = ["Local", "Responder", "rehearse"]


@dataclass(eq=False)
class Responder:
    """A client that takes and gives bytes; where it cannot answer, it says why.

    Args:
        federation: the run.
        number: of the client.
        folder: where it keeps its own state.
    """

    federation: Federation
    number: int
    folder: Path
    _client: Client | None = field(init=False, default=None)

    def __call__(self, data: bytes) -> bytes:
        """The answer to a request."""
        try:
            request = Parcel.decode(data)
        except Damaged as error:
            return self._encoded_answer(Parcel(), Lost(f"the request was damaged: {error}"))
        return self._encoded_answer(request, self._answer(request))

    def _answer(self, request: Parcel) -> Parcel | Lost:
        about = self.federation.about
        if request.text("about") != about:
            return Lost(f"it is of another run: {about} instead of {request.text('about')}")
        try:
            if self._client is None:
                self._client = client_of(self.federation, self.number, self.folder)
            if request.text("phase") == "hello":
                return self._client.hello()
            return self._client.answer(request)
        except InputError as error:
            return Lost(" ".join(str(error).split()))

    def _encoded_answer(self, request: Parcel, answer: Parcel | Lost) -> bytes:
        facts: dict[str, Any] = {"client": self.number, "t": request.number("t")}
        facts["about"] = self.federation.about
        if isinstance(answer, Lost):
            return Parcel({**facts, "lost": answer.reason}).encode()
        return Parcel({**answer.facts, **facts}, answer.tensors).encode()


@dataclass(eq=False)
class Local:
    """A transport to clients of this process.

    Args:
        clients: number to client.
    """

    clients: Mapping[int, Responder]

    def meet(self, hello: Parcel, wanted: int, timeout: float) -> Mapping[int, Parcel]:
        """All clients, at once."""
        return {i: Parcel.decode(client(hello.encode())) for i, client in self.clients.items()}

    def ask(self, requests: Mapping[int, bytes], timeout: float) -> Iterator[tuple[int, Any]]:
        """Ask one client after the other, without a time limit."""
        for client, data in requests.items():
            if client in self.clients:
                yield client, self.clients[client](data)


def rehearse(federation: Federation, folder: Path | str, rules: Rules | None = None) -> Result:
    """A whole run in this process, its bytes and files those of a real one.

    Args:
        federation: the run.
        folder: the server's files in ``server``, every client's in ``client-<number>``.
        rules: as for :func:`lora_bridge.flower.rounds.coordinate`.
    """
    check_instance("federation", federation, Federation, "a Federation")
    if rules is not None:
        check_instance("rules", rules, Rules, "Rules")
    base = check_path("folder", folder)
    clients = {i: Responder(federation, i, base / f"client-{i}") for i in range(federation.clients)}
    return coordinate(federation, Local(clients), base / "server", rules)
