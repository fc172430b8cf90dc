"""Which server and which client belong to the algorithm of a federation."""

from __future__ import annotations

from pathlib import Path

from linsys.preference.sharelora import ShareLoRA
from linsys.sketching.federated import Federated as Sketching
from linsys.validate import InputError
from lora_bridge.flower._lora import LoraClient, LoraServer
from lora_bridge.flower._objectives import ObjectivesClient, ObjectivesServer
from lora_bridge.flower._parts import Client, Server
from lora_bridge.flower._users import UsersClient, UsersServer
from lora_bridge.flower.federation import Federation
from mgda.federated import Federated as Objectives

__all__ = ["client_of", "server_of"]


def server_of(federation: Federation) -> Server:
    """The server's part of a federation's algorithm."""
    match federation.algorithm:
        case Sketching():
            return LoraServer(federation)
        case ShareLoRA():
            return UsersServer(federation)
        case Objectives():
            return ObjectivesServer(federation)
    raise _unknown(federation)


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
    match federation.algorithm:
        case Sketching():
            return LoraClient(federation, number)
        case ShareLoRA():
            return UsersClient(federation, number, folder)
        case Objectives():
            return ObjectivesClient(federation, number, folder)
    raise _unknown(federation)


def _unknown(federation: Federation) -> InputError:
    kinds = "FSLoRA or a rival, ShareLoRA, or an algorithm of mgda"
    return InputError(f"`algorithm` must be {kinds}; found {federation.algorithm!r:.60}")
