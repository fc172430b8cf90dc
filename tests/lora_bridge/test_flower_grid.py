"""The transport on a grid that stands for Flower's: SuperNodes that come, go and say nothing.

Flower's own messages are needed, its processes are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: see docs/flower.md")

from lora_bridge.flower import Rules, apps
from lora_bridge.flower.local import Responder
from lora_bridge.flower.rounds import coordinate
from tests.lora_bridge._federations import N, federation
from tests.lora_bridge.test_flower_rounds import in_one_piece


class Grid:
    """SuperNodes of this process by number; ``each`` is called before every look for replies."""

    def __init__(self, nodes: dict[int, Responder], each: Any = lambda grid: None) -> None:
        self.nodes, self.each = nodes, each
        self.sent: dict[str, tuple[int, bytes]] = {}
        self.silent: set[int] = set()
        self.errors: dict[int, str] = {}

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Any]) -> list[str | None]:
        names: list[str | None] = []
        for message in messages:
            node = message.metadata.dst_node_id
            name = f"message {len(self.sent)}" if node in self.nodes else None
            if name is not None:
                self.sent[name] = (node, message.content["parcel"]["parcel"].data)
            names.append(name)
        return names

    def pull_messages(self, names: Iterable[str]) -> list[Any]:
        self.each(self)
        replies = []
        for name in names:
            node, data = self.sent[name]
            if node in self.silent or node not in self.nodes:
                continue
            error = self.errors.pop(node, None)
            replies.append(
                SimpleNamespace(
                    metadata=SimpleNamespace(reply_to_message_id=name),
                    has_error=lambda error=error: error is not None,
                    error=SimpleNamespace(reason=error, code=1),
                    content=None if error else apps._record(self.nodes[node](data)),
                )
            )
        return replies


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "_POLL", 0.001)
    monkeypatch.setattr(apps, "_AGAIN", 0.05)
    # Flower's own ask for the run that their process belongs to
    monkeypatch.setattr(apps, "_message", _message)


def _message(data: bytes, node: int, ttl: float | None) -> SimpleNamespace:
    metadata = SimpleNamespace(dst_node_id=node)
    return SimpleNamespace(metadata=metadata, content=apps._record(data))


def nodes(folder: Path) -> dict[int, Responder]:
    made = federation("FSLoRA")
    return {70 + i: Responder(made, i, folder / f"client-{i}") for i in range(N)}


def run(grid: Grid, folder: Path, **rules: Any) -> Any:
    transport: Any = apps.GridTransport(grid)  # type: ignore[arg-type]
    return coordinate(federation("FSLoRA"), transport, folder / "server", Rules(**rules))


def test_it_carries_a_run(tmp_path: Path) -> None:
    result = run(Grid(nodes(tmp_path)), tmp_path)
    assert (result.sha256, result.missing) == (in_one_piece("FSLoRA", 3)[0], ())


def test_a_supernode_that_does_not_answer_hello_is_asked_again(tmp_path: Path) -> None:
    looks = []

    def each(grid: Grid) -> None:
        looks.append(1)
        grid.silent = {71} if len(looks) < 5 else set()

    grid = Grid(nodes(tmp_path), each)
    grid.errors = {72: "the process ended with code 9"}
    result = run(grid, tmp_path)
    assert result.missing == ()
    assert len(looks) > 5


def test_another_supernode_for_a_client_takes_over_in_the_round(tmp_path: Path) -> None:
    there = nodes(tmp_path)

    def each(grid: Grid) -> None:
        if len(grid.sent) == 2 * N and 71 in grid.nodes:  # hello and round 0 are out
            grid.nodes[99] = grid.nodes.pop(71)

    result = run(Grid(there, each), tmp_path)
    assert 99 in there
    assert (result.sha256, result.missing) == (in_one_piece("FSLoRA", 3)[0], ())


def test_a_client_whose_supernode_is_gone_is_named(tmp_path: Path) -> None:
    def each(grid: Grid) -> None:
        if len(grid.sent) > N:
            grid.nodes.pop(71, None)

    result = run(Grid(nodes(tmp_path), each), tmp_path, least=2, timeout=0.3)
    reasons = [reason for _, client, reason in result.missing if client == 1]
    assert reasons[0] == "dropped out: no answer in 0.3 s"
    assert reasons[1:] == ["dropped out: it is not connected"] * 2


def test_flower_s_own_errors_are_reasons(tmp_path: Path) -> None:
    there = nodes(tmp_path)

    def each(grid: Grid) -> None:
        if len(grid.sent) == 2 * N:
            grid.errors = {70: "ClientApp  failed\nhorribly"}

    result = run(Grid(there, each), tmp_path, least=2)
    assert result.missing[0] == (
        0,
        0,
        "dropped out: Flower has no answer: ClientApp failed horribly",
    )
