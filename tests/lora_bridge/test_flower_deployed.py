"""Flower itself: a simulation, a SuperLink with SuperNodes on loopback, plain and by TLS.

The adapters are those of the algorithm in one piece, bit for bit, also where clients and SuperLinks
die on the way. Minutes, nearly all of them processes that start: every message starts one.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from lora_bridge.flower import launch
from lora_bridge.flower.__main__ import app as command
from tests.lora_bridge._federations import N
from tests.lora_bridge.test_flower_rounds import in_one_piece
from tests.lora_bridge.test_flower_wires import certificates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("flwr") is None,
        reason="Flower is not installed: it has an environment of its own, see docs/flower.md",
    ),
]

SETUP = str(Path(__file__).with_name("_federations.py")) + ":setup"  # goes with the app


def expected(name: str, rounds: int) -> Any:
    """(SHA-256 of the server's adapters, those of the users) of a run in one piece."""
    return in_one_piece(name, rounds)


def app(base: Path, name: str, rounds: int, **options: Any) -> Path:
    # minutes: a loaded machine needs them to start the processes of one phase
    limits = {"timeout": 300.0, "gather": 300.0, "fault": str(base / "faults")}
    files = {"algorithm": name, "rounds": rounds, "folder": str(base / "files")}
    return launch.write_app(base / "app", SETUP, {**limits, **files, **options})


def result(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((base / "files" / "server" / "result.json").read_text())
    return found


def same(base: Path, sha256: str, name: str, rounds: int) -> bool:
    whole, users = expected(name, rounds)
    found = result(base)
    assert found["sha256"] == sha256
    return list(found["clients"].values()) == users and (users != [] or whole == sha256)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that Flower starts find the tests' modules, and use one thread each."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


@dataclass
class Lab:
    """A SuperLink and SuperNodes that can be started and ended one by one."""

    base: Path
    tls: Sequence[Path] | None = None

    def __post_init__(self) -> None:
        self.address = f"127.0.0.1:{launch.free_port()}"
        self.home = self.base / "home"
        self.authority = None if self.tls is None else self.tls[0]

    @contextmanager
    def superlink(self) -> Iterator[None]:
        self.home.mkdir(parents=True, exist_ok=True)
        start = launch.superlink(self.address, self.tls, database=self.home / "superlink.db")
        with launch.running(start, self.home, self.address):
            yield

    @contextmanager
    def supernode(self, client: int) -> Iterator[None]:
        files, port = self.base / "files", launch.free_port()
        start = launch.supernode(self.address, client, files, self.authority, port)
        with launch.running(start, self.home):
            yield

    def submit(self, folder: Path) -> str:
        return launch.submit(folder, self.address, self.home, self.authority, tell=log)


def log(line: str) -> None:
    print(line, file=sys.stderr)


@pytest.mark.parametrize("name", ["FSLoRA", "G", "FedCMOO"])
def test_a_simulation_has_the_same_adapters(name: str, tmp_path: Path) -> None:
    folder = app(tmp_path, name, 3)
    sha256 = launch.simulate(folder, N, tmp_path / "home", tell=log)
    assert same(tmp_path, sha256, name, 3)
    assert result(tmp_path)["missing"] == []


@pytest.mark.parametrize("name", ["SI", "FIRM"])
def test_supernodes_have_the_same_adapters_by_tls(name: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path, certificates(tmp_path / "certificates"))
    with ExitStack() as stack:
        stack.enter_context(lab.superlink())
        for client in range(N):
            stack.enter_context(lab.supernode(client))
        strangers = certificates(tmp_path / "strangers")
        with pytest.raises(InputError, match=r"must be one that .* vouches for"):
            launch.supernode(lab.address, 0, tmp_path, strangers[0])
        sha256 = lab.submit(app(tmp_path, name, 2))
    assert same(tmp_path, sha256, name, 2)


def test_clients_that_die_on_the_way(tmp_path: Path) -> None:
    """A ClientApp dies in mid-round; then its SuperNode is ended, and another comes for it."""
    lab = Lab(tmp_path)
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "client-1").write_text("die")
    folder = app(tmp_path, "SI", 3, attempts=3, timeout=150.0)
    found: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(lab.superlink())
        for client in (0, 1):
            stack.enter_context(lab.supernode(client))
        second = ExitStack()
        second.enter_context(lab.supernode(2))
        running = threading.Thread(target=lambda: found.append(lab.submit(folder)))
        running.start()
        until(lambda: (tmp_path / "files" / "server" / "rounds" / "round-00000001").exists())
        second.close()
        time.sleep(2.0)  # the next round has begun without it
        stack.enter_context(lab.supernode(2))
        running.join(600.0)
    assert not (faults / "client-1").exists()
    assert found
    assert same(tmp_path, found[0], "SI", 3)


def test_a_superlink_that_dies_and_starts_anew(tmp_path: Path) -> None:
    """It knows its SuperNodes from its database, and the run from the server's files."""
    lab = Lab(tmp_path)
    folder = app(tmp_path, "SI", 3)
    first: list[BaseException] = []

    def submit() -> None:
        try:
            lab.submit(folder)
        except InputError as error:
            first.append(error)

    with ExitStack() as stack:
        with lab.superlink():
            for client in range(N):
                stack.enter_context(lab.supernode(client))
            running = threading.Thread(target=submit)
            running.start()
            until(lambda: (tmp_path / "files" / "server" / "rounds" / "round-00000001").exists())
        running.join(120.0)
        assert first
        with pytest.raises(InputError, match="must be reachable; found no SuperLink"):
            lab.submit(folder)
        with lab.superlink():
            sha256 = lab.submit(folder)
    assert result(tmp_path)["resumed"] >= 1
    assert same(tmp_path, sha256, "SI", 3)


def test_a_late_client_and_a_run_with_too_few(tmp_path: Path) -> None:
    """In a simulation: one of three clients sleeps through the rounds."""
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "client-1").write_text("1000")
    folder = app(tmp_path, "FSLoRA", 2, timeout=60.0)
    with pytest.raises(InputError) as raised:
        launch.simulate(folder, N, tmp_path / "home", tell=log)
    assert "round 0 must have answers of 3 clients; found 2 (client 1: no answer in 60 s)" in str(
        raised.value
    )
    (faults / "client-1").write_text("1000")
    folder = app(tmp_path, "FSLoRA", 2, timeout=60.0, least=2)
    launch.simulate(folder, N, tmp_path / "home", tell=log)
    assert [0, 1, "dropped out: no answer in 60 s"] in result(tmp_path)["missing"]


def test_fewer_clients_than_needed(tmp_path: Path) -> None:
    folder = app(tmp_path, "FSLoRA", 2, gather=45.0)
    with pytest.raises(InputError, match=r"3 clients must be connected after 45 s; found 2: 0, 1"):
        launch.simulate(folder, 2, tmp_path / "home", tell=log)


def until(happens: Any, wait: float = 400.0) -> None:
    end = time.monotonic() + wait
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_command_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command(["--help"])
    assert ended.value.code == 0
    assert "supernode" in capsys.readouterr().out
