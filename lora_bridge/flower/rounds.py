"""The server's loop: ask, wait, check the answers, go on; whatever clients and connections do.

Nothing here knows how parcels travel: a :class:`Transport` is a Flower grid, or this process. What
goes wrong with a client is named, and the round goes on with the rest while they are enough:
an answer that does not come in time, that was damaged, that belongs to another round, run or
client; what an algorithm refuses in an intact one (its shape, dtype, numbers) it reports itself.

After every round the server's state is on disk, and a run that is started again goes on from there,
to the same adapters. One that has come to its end says so, and asks nobody.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from linsys.folder_lock import folder_lock
from linsys.validate import InputError, check_integer, check_number
from lora_bridge.failures import writing_explained
from lora_bridge.flower._algorithms import server_of
from lora_bridge.flower._parts import Answers, Asking
from lora_bridge.flower._progress import Progress, Result
from lora_bridge.flower.federation import Federation
from lora_bridge.flower.parcels import Damaged, Fact, Lost, Parcel, fingerprint

__all__ = ["Result", "Rules", "TooFewClients", "Transport", "coordinate"]

_LOG = logging.getLogger("lora_bridge.flower")


class TooFewClients(InputError):
    """A round lacks answers; the text says of whom, and why."""


class Transport(Protocol):
    """How parcels travel."""

    def meet(self, hello: Parcel, wanted: int, timeout: float) -> Mapping[int, Parcel]:
        """The clients' answers to ``hello``, once ``wanted`` clients are there or time is over."""

    def ask(self, requests: Mapping[int, bytes], timeout: float) -> Iterator[tuple[int, Any]]:
        """Answers (client, bytes or :class:`Lost`) as they come; some may be missing at the end.

        A client that comes back while others are waited for is asked as if it had been there.
        """


@dataclass(frozen=True)
class Rules:
    """When the server waits, goes on and gives up.

    Args:
        least: clients that a phase of a round needs; all of them without it.
        timeout: seconds that it waits for answers.
        gather: seconds that it waits for clients at the start.
        attempts: how often it asks a client in a phase, with ``timeout`` each time.
    """

    least: int | None = None
    timeout: float = 600.0
    gather: float = 120.0
    attempts: int = 1

    def __post_init__(self) -> None:
        if self.least is not None:
            check_integer("least", self.least, low=1)
        check_number("timeout", self.timeout, low=0.0, low_open=True)
        check_number("gather", self.gather, low=0.0)
        check_integer("attempts", self.attempts, low=1)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Rules:
        """The rules among a run's options; 0 as ``least`` stands for all clients.

        >>> Rules.of({"least": 0, "timeout": 9.0, "model": "x"})
        Rules(least=None, timeout=9.0, gather=120.0, attempts=1)
        """
        known = {one.name: config[one.name] for one in fields(cls) if one.name in config}
        return cls(**known | {"least": config.get("least") or None})

    def needed(self, clients: int) -> int:
        """Clients that a phase needs."""
        if self.least is not None and self.least > clients:
            raise InputError(f"`least` must be at most {clients}, the clients; found {self.least}")
        return clients if self.least is None else self.least


def coordinate(
    federation: Federation, transport: Transport, folder: Path | str, rules: Rules | None = None
) -> Result:
    """Run a federation from where it is to its end; two runs in one folder take turns.

    Args:
        federation: the run.
        transport: to its clients.
        folder: for checkpoints, ``adapters.safetensors`` and ``result.json``.
        rules: when to wait and to give up.

    Raises:
        TooFewClients: at the start or in a round; the rounds before are kept.
        InputError: what the algorithm refuses of the federation; another run's folder, or one that
            cannot be written.
    """
    base = Path(folder)
    with writing_explained("folder of the run", base):
        base.mkdir(parents=True, exist_ok=True)
    with folder_lock(base, lambda: _LOG.warning("another run is in %s; waiting for its end", base)):
        return _run_in_folder(federation, transport, base, rules or Rules())


def _run_in_folder(
    federation: Federation, transport: Transport, base: Path, rules: Rules
) -> Result:
    """Run in a folder that no other run uses."""
    server, least = server_of(federation), rules.needed(federation.clients)
    now = Progress.kept(base, server)
    if now is not None and server.rounds_left(now.state) <= 0:
        ended = Result.after(now.rounds, base, federation.clients)
        if ended is not None:
            _LOG.info("all %d rounds were done before; nothing is left to do", now.rounds)
            return ended
    exchange = _Exchange(federation, transport, rules)
    hellos = exchange.meet(least)
    now = now or Progress(server.start(hellos), 0)
    resumed, started = now.rounds, time.perf_counter()
    while server.rounds_left(now.state) > 0:
        before = time.perf_counter()
        state, lost = exchange.carry(server.round(now.state), now.rounds, base)
        now = now.then(state, lost)
        now.put(base, federation.about)
        gone = "".join(f"; client {i} {reason}" for i, reason in sorted(lost.items()))
        _LOG.info("round %d in %.1f s%s", now.rounds, time.perf_counter() - before, gone)
    adapters, kept, lost = exchange.carry(server.finish(now.state), now.rounds, base)
    digests = [fingerprint(adapters.values()), *(kept[i] for i in sorted(kept))]
    sha256 = digests[0] if not kept else hashlib.sha256("".join(digests[1:]).encode()).hexdigest()
    seconds = time.perf_counter() - started
    result = Result(sha256, now.rounds, resumed, now.without(lost), kept, seconds)
    result.put(base, adapters)
    return result


@dataclass(frozen=True)
class _Exchange:
    """Sends requests to clients and checks each answer."""

    federation: Federation
    transport: Transport
    rules: Rules

    def meet(self, least: int) -> dict[int, Parcel]:
        """The clients of this run that are there; an error says which, if they are too few."""
        hello, wait = Parcel({"phase": "hello", "about": self.federation.about}), self.rules.gather
        everybody = self.transport.meet(hello, self.federation.clients, wait)
        numbered = {i: p for i, p in everybody.items() if 0 <= i < self.federation.clients}
        present = {i: parcel for i, parcel in numbered.items() if "lost" not in parcel.facts}
        if len(present) < least:
            numbers = ", ".join(map(str, sorted(present))) or "none"
            others = [
                f"; client {i}: {numbered[i].text('lost')}" for i in numbered.keys() - present
            ]
            raise TooFewClients(
                f"{least} clients must be connected after {wait:g} s; "
                f"found {len(present)}: {numbers}{''.join(others)}"
            )
        return present

    def carry(self, asking: Asking, t: int, base: Path) -> Any:
        """Send what a generator requests, hand it the answers, and return its result."""
        try:
            requests = next(asking)
            while True:
                answers = self._ask_all(requests, t)
                self._check_enough(requests, answers, t, base)
                requests = asking.send(answers)
        except StopIteration as done:
            return done.value

    def _ask_all(self, requests: Mapping[int, Parcel], t: int) -> Answers:
        """One phase: every client's answer, or why there is none."""
        answers: dict[int, Parcel | Lost] = {}
        for _ in range(self.rules.attempts):
            left = {i: p for i, p in requests.items() if not isinstance(answers.get(i), Parcel)}
            if not left:
                break
            sealed = {i: self._addressed(i, t, request).encode() for i, request in left.items()}
            answers |= dict.fromkeys(left, Lost(f"no answer in {self.rules.timeout:g} s"))
            for client, data in self.transport.ask(sealed, self.rules.timeout):
                if client in left:
                    answers[client] = (
                        data if isinstance(data, Lost) else self._decoded(client, t, data)
                    )
        return answers

    def _addressed(self, client: int, t: int, request: Parcel) -> Parcel:
        facts: dict[str, Fact] = {"client": client, "t": t, "about": self.federation.about}
        return Parcel({**request.facts, **facts}, request.tensors)

    def _decoded(self, client: int, t: int, data: bytes) -> Parcel | Lost:
        """An answer, if it is one to what was asked."""
        try:
            answer = Parcel.decode(data)
        except Damaged as error:
            return Lost(f"its answer was damaged: {error}")
        for name, wanted in (("about", self.federation.about), ("client", client), ("t", t)):
            if answer.facts.get(name) != wanted:
                stated = answer.facts.get(name)
                return Lost(
                    f"its answer is of another {_NAMES[name]}: {stated} instead of {wanted}"
                )
        if "lost" in answer.facts:
            return Lost(answer.text("lost"))
        return answer

    def _check_enough(self, requests: Any, answers: Answers, t: int, base: Path) -> None:
        """Raise an error that says who is missing and why, if answers are too few."""
        least = min(self.rules.needed(self.federation.clients), len(requests))
        lost = {i: answer.reason for i, answer in answers.items() if isinstance(answer, Lost)}
        if len(answers) - len(lost) >= least:
            return
        reasons = "; ".join(f"client {i}: {reason}" for i, reason in sorted(lost.items()))
        raise TooFewClients(
            f"round {t} must have answers of {least} clients; found "
            f"{len(answers) - len(lost)} ({reasons}); {t} rounds are kept in {base}"
        )


_NAMES = {"about": "run", "client": "client", "t": "round"}
