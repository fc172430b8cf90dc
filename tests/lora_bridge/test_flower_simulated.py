"""Flower itself: clients that it simulates on this machine, by Ray, whose start takes a while."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linsys import InputError
from lora_bridge.flower import launch
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

pytestmark = NEEDS_FLOWER


@pytest.mark.parametrize("name", ["G", "FedCMOO"])
def test_a_simulation_has_the_same_adapters(name: str, tmp_path: Path) -> None:
    folder = app(tmp_path, name, 3)
    sha256 = launch.simulate(folder, N, tmp_path / "home", tell=log)
    assert same(tmp_path, sha256, name, 3)
    assert result(tmp_path)["missing"] == []


def test_a_simulation_that_is_ended_and_one_that_has_come_to_its_end(tmp_path: Path) -> None:
    folder, home, said = app(tmp_path, "FSLoRA", 8), tmp_path / "home", list[str]()
    with command("simulate", folder, N, "--home", home) as process:
        until((tmp_path / "files" / "server" / "rounds" / "round-00000001").exists)
        process.terminate()
        assert process.wait(60.0) == 143
    assert alive(home) == []
    assert not (tmp_path / "files" / "server" / "result.json").exists()
    sha256 = launch.simulate(folder, N, home, tell=said.append)
    assert any(line.startswith("round 8 in ") for line in said)
    assert result(tmp_path)["resumed"] >= 1
    assert same(tmp_path, sha256, "FSLoRA", 8)
    before = result(tmp_path)
    assert launch.simulate(folder, N, home, tell=said.append) == sha256
    assert "all 8 rounds were done before; nothing is left to do" in said
    assert result(tmp_path) == before


def test_a_late_client_and_a_run_with_too_few(tmp_path: Path) -> None:
    """One of three clients sleeps through the rounds."""
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "client-1").write_text("1000")
    timeout = patience(20.0)
    folder = app(tmp_path, "FSLoRA", 2, timeout=timeout)
    with pytest.raises(InputError) as raised:
        launch.simulate(folder, N, tmp_path / "home", tell=log)
    late = f"no answer in {timeout:g} s"
    assert f"round 0 must have answers of 3 clients; found 2 (client 1: {late})" in str(
        raised.value
    )
    (faults / "client-1").write_text("1000")
    folder = app(tmp_path, "FSLoRA", 2, timeout=timeout, least=2)
    launch.simulate(folder, N, tmp_path / "home", tell=log)
    assert [0, 1, f"dropped out: {late}"] in result(tmp_path)["missing"]


def test_fewer_clients_than_needed(tmp_path: Path) -> None:
    gather = patience(45.0)
    folder = app(tmp_path, "FSLoRA", 2, gather=gather)
    expected = f"3 clients must be connected after {gather:g} s; found 2: 0, 1"
    with pytest.raises(InputError, match=re.escape(expected)):
        launch.simulate(folder, 2, tmp_path / "home", tell=log)
