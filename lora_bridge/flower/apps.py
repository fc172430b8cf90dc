"""Flower's ServerApp and ClientApp around the algorithms' own server and client.

``server`` and ``client`` are what an app's ``pyproject.toml`` names, which
:mod:`lora_bridge.flower.app_folder` writes. The run's options name the setup. Messages hold one
array of bytes, a parcel, which has its own checksum and takes every dtype.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from linsys.validate import InputError
from lora_bridge.flower.federation import load_setup
from lora_bridge.flower.launch import ENDED
from lora_bridge.flower.local import Responder
from lora_bridge.flower.parcels import Damaged, Lost, Parcel
from lora_bridge.flower.rounds import Rules, coordinate

__all__ = ["GridTransport", "client", "server"]

#: Seconds between two looks for answers.
_POLL = 0.2
#: Seconds after which a SuperNode that has not said which client it has is asked again.
_AGAIN = 30.0
_LOG = logging.getLogger("lora_bridge.flower")


class GridTransport:
    """Parcels through a Flower grid.

    SuperNodes come and go under numbers of their own. Every new one is asked which client it has;
    the last one that names a client's number is that client. A client that comes back on another
    SuperNode while its answer is waited for is sent the request again.

    Args:
        grid: Flower's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._hello = Parcel()
        self._greeted: dict[int, float] = {}
        self._known: set[int] = set()
        self._asked: dict[str, int] = {}
        self._nodes: dict[int, int] = {}
        self._hellos: dict[int, Parcel] = {}

    def meet(self, hello: Parcel, wanted: int, timeout: float) -> Mapping[int, Parcel]:
        """Say hello to SuperNodes until so many clients have answered, or time is over."""
        self._hello, end = hello, time.monotonic() + timeout
        while True:
            self._greet_new_nodes()
            if len(self._hellos) >= wanted or time.monotonic() >= end:
                return dict(self._hellos)
            time.sleep(_POLL)

    def ask(self, requests: Mapping[int, bytes], timeout: float) -> Iterator[tuple[int, Any]]:
        """Send the requests and yield what comes back in time."""
        end = time.monotonic() + timeout
        waiting = set(requests)
        sent = self._push({i: data for i, data in requests.items() if i in self._nodes}, timeout)
        while waiting and time.monotonic() < end:
            for reply in self._pull(sent):
                client = sent.pop(reply.metadata.reply_to_message_id)
                if client in waiting:
                    waiting.discard(client)
                    yield client, _content(reply)
            back = self._greet_new_nodes() & waiting
            sent |= self._push({i: requests[i] for i in back}, end - time.monotonic())
            if waiting:
                time.sleep(_POLL)
        for client in waiting - self._nodes.keys():
            yield client, Lost("it is not connected")

    def _greet_new_nodes(self) -> set[int]:
        """Greet new SuperNodes; the clients that have named theirs since the last call."""
        now = time.monotonic()
        unknown = [node for node in self._grid.get_node_ids() if node not in self._known]
        fresh = [node for node in unknown if now > self._greeted.get(node, -_AGAIN) + _AGAIN]
        self._greeted |= dict.fromkeys(fresh, now)
        messages = [_message(self._hello.encode(), node, None) for node in fresh]
        sent = zip(self._send(messages), fresh, strict=True)
        self._asked |= {name: node for name, node in sent if name}
        clients = set()
        for reply in self._pull(self._asked):
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            content = _content(reply)
            try:
                parcel = Parcel() if isinstance(content, Lost) else Parcel.decode(content)
            except Damaged:
                parcel = Parcel()
            if "client" not in parcel.facts:
                _LOG.warning("SuperNode %d does not say which client it has: %s", node, content)
                continue
            client = parcel.number("client")
            if node not in self._known:
                self._known.add(node)
                self._nodes[client], self._hellos[client] = node, parcel
                clients.add(client)
        return clients

    def _push(self, requests: Mapping[int, bytes], ttl: float) -> dict[str, int]:
        """Send to the clients' SuperNodes; the client of every message."""
        messages = [_message(data, self._nodes[i], ttl) for i, data in requests.items()]
        sent = dict(zip(requests, self._send(messages), strict=True))
        for client in [client for client, message in sent.items() if not message]:
            node = self._nodes.pop(client)  # gone; it may come back, or another for its client
            self._known.discard(node)
        return {message: client for client, message in sent.items() if message}

    def _send(self, messages: list[Message]) -> list[str | None]:
        """Send messages; their names, None for those that Flower did not take."""
        names = list(self._grid.push_messages(messages)) if messages else []
        return names or [None] * len(messages)

    def _pull(self, waiting: Mapping[str, Any]) -> list[Message]:
        """Replies that have arrived for messages that wait for one."""
        replies: Iterable[Message] = self._grid.pull_messages(list(waiting)) if waiting else []
        return [reply for reply in replies if reply.metadata.reply_to_message_id in waiting]


def _message(data: bytes, node: int, ttl: float | None) -> Message:
    """A request; after ``ttl`` seconds nobody has to answer it any more."""
    return Message(_record(data), dst_node_id=node, message_type="train", ttl=ttl)


def _record(data: bytes) -> RecordDict:
    array = Array(dtype="uint8", shape=(len(data),), stype="ratecheck.parcel", data=data)
    return RecordDict({"parcel": ArrayRecord({"parcel": array})})


def _content(reply: Message) -> bytes | Lost:
    """The bytes of a reply, or Flower's reason why there are none."""
    if reply.has_error():
        reason = " ".join(str(reply.error.reason or f"error {reply.error.code}").split())
        return Lost(f"Flower has no answer: {reason:.200}")
    try:
        data: bytes = reply.content["parcel"]["parcel"].data
    except (KeyError, TypeError, AttributeError):
        return Lost("its answer holds no parcel")
    return data


def _serve(grid: Grid, context: Context) -> None:
    """The ServerApp: one run from where it is to its end, which the last line reports."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("lora_bridge").setLevel(logging.INFO)
    config = context.run_config
    try:
        federation = load_setup(str(config["setup"]), config)
        folder = Path(str(config["folder"])) / "server"
        result = coordinate(federation, GridTransport(grid), folder, Rules.of(config))
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        print(f"{ENDED} failed: {kind}{' '.join(str(error).split())}", flush=True)
        raise
    print(f"{ENDED} sha256 {result.sha256} after {result.rounds} rounds in {folder}", flush=True)


@lru_cache(maxsize=64)
def _responder(setup: str, config: tuple[tuple[str, Any], ...], number: int) -> Responder:
    """A client; kept for the next message where the process lives that long."""
    options = dict(config)
    federation = load_setup(setup, options)
    return Responder(federation, number, Path(str(options["folder"])) / f"client-{number}")


def _answer(message: Message, context: Context) -> Message:
    """The ClientApp: one request, one answer."""
    node = context.node_config
    number = int(node["client"] if "client" in node else node["partition-id"])
    config = {**context.run_config, **{k: v for k, v in node.items() if k == "folder"}}
    responder = _responder(str(config["setup"]), tuple(sorted(config.items())), number)
    return Message(_record(responder(message.content["parcel"]["parcel"].data)), reply_to=message)


server = ServerApp()
server.main()(_serve)
client = ClientApp()
client.train()(_answer)
