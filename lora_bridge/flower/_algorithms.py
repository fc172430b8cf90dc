"""Which server and which client belong to the algorithm of a federation, by its ``split``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from linsys.validate import InputError
from lora_bridge.flower._lora import LoraClient, LoraServer
from lora_bridge.flower._objectives import ObjectivesClient, ObjectivesServer
from lora_bridge.flower._parts import Client, Server
from lora_bridge.flower._users import UsersClient, UsersServer
from lora_bridge.flower.federation import Federation

__all__ = ["client_of", "server_of"]

#: By an algorithm's ``split``, which names the methods that make a round on several machines.
_PARTS: dict[str, tuple[Any, Any]] = {
    "devices": (LoraServer, LoraClient),
    "users": (UsersServer, UsersClient),
    "objectives": (ObjectivesServer, ObjectivesClient),
}


def server_of(federation: Federation) -> Server:
    """The server's part of a federation's algorithm."""
    server: Server = _parts(federation)[0](federation)
    return server


def client_of(federation: Federation, number: int, folder: Path) -> Client:
    """A client's part.

    Args:
        federation: the run.
        number: of the client.
        folder: where it keeps its own state.
    """
    if not 0 <= number < federation.clients:
        raise InputError(
            f"`client` must be a number below {federation.clients}, how many there are; "
            f"found {number}"
        )
    client: Client = _parts(federation)[1](federation, number, folder)
    return client


def _parts(federation: Federation) -> tuple[Any, Any]:
    split = getattr(federation.algorithm, "split", None)
    if split not in _PARTS:
        kinds = "FSLoRA or a rival, ShareLoRA, or an algorithm of mgda"
        raise InputError(f"`algorithm` must be {kinds}; found {federation.algorithm!r:.60}")
    return _PARTS[split]
