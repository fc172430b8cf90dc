"""Flower itself: a SuperLink with SuperNodes on loopback, plain and by TLS.

The adapters are those of the algorithm in one piece, bit for bit, also where clients and SuperLinks
die on the way. Minutes, nearly all of them processes that start: every message starts one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from linsys import InputError
from lora_bridge.flower import launch, processes
from lora_bridge.flower.addresses import reach
from tests.lora_bridge._federations import N
from tests.lora_bridge._flower import (
    NEEDS_FLOWER,
    alive,
    app,
    command,
    found_by_processes as found_by_processes,
    log,
    patience,
    result,
    same,
    until,
)
from tests.lora_bridge.test_flower_wires import certificates

pytestmark = NEEDS_FLOWER


@dataclass
class Lab:
    """A SuperLink and SuperNodes that can be started and ended one by one."""

    base: Path
    tls: Sequence[Path] | None = None
    database: Path | None = None  # of the SuperLink; without one it forgets all when it ends

    def __post_init__(self) -> None:
        self.address = f"127.0.0.1:{processes.free_port()}"
        self.home = self.base / "home"
        self.authority = None if self.tls is None else self.tls[0]
        self.first_round = self.base / "files" / "server" / "rounds" / "round-00000001"

    @contextmanager
    def superlink(self) -> Iterator[None]:
        self.home.mkdir(parents=True, exist_ok=True)
        start = launch.superlink(self.address, self.tls, database=self.database)
        with processes.running(start, self.home, self.address):
            yield

    @contextmanager
    def supernode(self, client: int) -> Iterator[None]:
        files, port = self.base / "files", processes.free_port()
        start = launch.supernode(self.address, client, files, self.authority, port)
        with processes.running(start, self.home):
            yield

    @contextmanager
    def supernodes(self, *clients: int) -> Iterator[None]:
        """Several, that end at the same time: each takes seconds for it."""
        with ThreadPoolExecutor() as pool, ExitStack() as all_of_them:
            for client in clients:
                one = ExitStack()
                one.enter_context(self.supernode(client))
                all_of_them.callback(pool.submit, one.close)
            yield

    def submit(self, folder: Path) -> str:
        try:
            return launch.submit(folder, self.address, self.home, self.authority, tell=log)
        except InputError:
            for path in sorted(self.home.glob("*.log")):  # what the SuperLink and SuperNodes said
                log(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}")
            raise


def refused(address: str) -> bool:
    try:
        reach(address)
    except InputError:
        return True
    return False


def test_supernodes_have_the_same_adapters_by_tls(tmp_path: Path) -> None:
    lab = Lab(tmp_path, certificates(tmp_path / "certificates"))
    with lab.superlink(), lab.supernodes(*range(N)):
        strangers = certificates(tmp_path / "strangers")
        with pytest.raises(InputError, match=r"must be one that .* vouches for"):
            launch.supernode(lab.address, 0, tmp_path, strangers[0])
        folder, own = app(tmp_path, "SI", 3), tmp_path / "own"
        options = ("--authority", lab.authority, "--home", own)
        with command("run", folder, lab.address, *options) as process:
            until(lab.first_round.exists)
            assert any("serverapp" in one.name() for one in alive(lab.home))
            process.terminate()
            assert process.wait(60.0) == 143
        assert alive(own) == []
        # the SuperLink and the SuperNodes live, the run on them does not
        until(lambda: not any("serverapp" in one.name() for one in alive(lab.home)), 60.0)
        sha256 = lab.submit(folder)
    assert result(tmp_path)["resumed"] >= 1
    assert same(tmp_path, sha256, "SI", 3)


def test_commands_that_are_ended_end_what_they_started(tmp_path: Path) -> None:
    address, homes = f"127.0.0.1:{processes.free_port()}", [tmp_path / "a", tmp_path / "b"]
    port = ("--port", processes.free_port())
    with command("superlink", address, "--home", homes[0]) as superlink:
        until(lambda: not refused(address), 60.0)
        with command("supernode", address, 0, *port, "--home", homes[1]) as supernode:
            until(lambda: alive(homes[1]), 60.0)
            for process, home in ((supernode, homes[1]), (superlink, homes[0])):
                process.terminate()
                assert process.wait(60.0) == 143
                assert alive(home) == []
    assert refused(address)


def test_clients_that_die_on_the_way(tmp_path: Path) -> None:
    """A ClientApp dies in mid-round; then its SuperNode is ended, and another comes for it."""
    lab = Lab(tmp_path, certificates(tmp_path / "certificates"))
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "client-1").write_text("die")
    folder = app(tmp_path, "SI", 3, attempts=3, timeout=patience(45.0))
    lines: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(lab.superlink())
        stack.enter_context(lab.supernodes(0, 1))
        second = ExitStack()
        second.enter_context(lab.supernode(2))
        running = threading.Thread(target=lambda: lines.append(lab.submit(folder)))
        running.start()
        until(lab.first_round.exists)
        second.close()
        time.sleep(2.0)  # the next round has begun without it
        stack.enter_context(lab.supernode(2))
        running.join(1200.0)
    assert not (faults / "client-1").exists()
    assert lines
    assert same(tmp_path, lines[0], "SI", 3)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder that no disk holds up, where there is one.

    Flower waits five seconds for its database. Then the SuperLink answers with an error, and the
    SuperNode that asked never asks again.
    """
    shared_memory = Path("/dev/shm")
    with TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as folder:
        yield Path(folder)


def test_a_superlink_that_dies_and_starts_anew(tmp_path: Path, in_memory: Path) -> None:
    """It knows its SuperNodes from its database, and the run from the server's files."""
    lab = Lab(tmp_path, database=in_memory / "superlink.db")
    folder = app(tmp_path, "FIRM", 3)
    first: list[BaseException] = []

    def submit() -> None:
        try:
            lab.submit(folder)
        except InputError as error:
            first.append(error)

    with ExitStack() as stack:
        with lab.superlink():
            stack.enter_context(lab.supernodes(*range(N)))
            running = threading.Thread(target=submit)
            running.start()
            until(lab.first_round.exists)
        running.join(120.0)
        assert first
        with pytest.raises(InputError, match="must be reachable; found no SuperLink"):
            lab.submit(folder)
        with lab.superlink():
            sha256 = lab.submit(folder)
    assert result(tmp_path)["resumed"] >= 1
    assert same(tmp_path, sha256, "FIRM", 3)
