"""Server and clients behind bytes give what the algorithms give in one piece, bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from linsys import InputError
from lora_bridge.flower import Federation, fingerprint, rehearse
from lora_bridge.flower.federation import load_setup
from lora_bridge.oracles import Devices, Users
from mgda.fedcmoo import FedCMOO
from tests._slow import slow_but
from tests.lora_bridge._federations import (
    ALGORITHMS,
    D,
    M,
    N,
    Quadratics,
    federation,
    start,
    task,
)


class OneByOne:
    """An oracle without what serves all clients together: sums of a batch then have one order."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle

    def __getattr__(self, name: str) -> Any:
        if name in ("grads", "descend"):
            raise AttributeError(name)
        return getattr(self.oracle, name)

    def with_frozen(self, frozen: Any) -> OneByOne:
        return OneByOne(self.oracle.with_frozen(frozen))


def in_one_piece(name: str, rounds: int) -> tuple[str, list[str]]:
    """SHA-256 of what an algorithm ends with, without anything of the package that is tested."""
    algorithm = ALGORITHMS[name]
    if hasattr(algorithm, "ranks"):
        devices = OneByOne(Devices(task(False)))
        state = algorithm.init(start(algorithm), devices)
        for _ in range(rounds):
            state, report = algorithm.round(state, devices)
            assert not report.missing
        return fingerprint([state.X, *state.frozen]), []
    if hasattr(algorithm, "warmup"):
        users = OneByOne(Users(task(True)))
        state, rejected = algorithm.run(algorithm.init(start(algorithm), users), users)
        assert not rejected
        return "", [fingerprint([X]) for X in state.X]
    oracle = Quadratics(list(range(N)))
    state = algorithm.init(start(algorithm).repeat(1, N, 1), oracle)
    for _ in range(rounds * algorithm.K):
        state = algorithm.step(state, *oracle.jac(state.theta, state.memory))
    return fingerprint([state.theta[0, 0]]), []


@pytest.mark.parametrize(
    "name", slow_but(["FSLoRA", "SI", "LoRA-global", "FIRM", "FedCMOO"], ALGORITHMS)
)
def test_the_adapters_are_those_of_the_run_in_one_piece(name: str, tmp_path: Path) -> None:
    result = rehearse(federation(name), tmp_path)
    wanted, users = in_one_piece(name, 3)
    assert result.missing == ()
    assert list(result.clients.values()) == users
    assert users or result.sha256 == wanted
    kept = json.loads((tmp_path / "server" / "result.json").read_text())
    assert kept["sha256"] == result.sha256
    begun = [fingerprint([X]) for X in start(ALGORITHMS[name])]
    assert all(a != b for a, b in zip(begun, users, strict=False))
    assert users or wanted != fingerprint([start(ALGORITHMS[name])])


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize("rank", [M, D])
def test_factors_are_multiplied_as_in_one_piece(rank: int, clients: int, tmp_path: Path) -> None:
    algorithm = FedCMOO(alpha=0.1, K=2, rank=rank)
    made = Federation(
        algorithm=algorithm,
        start=start(algorithm),
        clients=clients,
        oracle=lambda client: Quadratics([client]),
        objectives=M,
    )
    oracle = Quadratics(list(range(clients)))
    state = algorithm.init(start(algorithm).repeat(1, clients, 1), oracle)
    for _ in range(2):
        state = algorithm.step(state, *oracle.jac(state.theta, state.memory))
    assert rehearse(made, tmp_path).sha256 == fingerprint([state.theta[0, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [1.0]}, r"`start` must be a tensor of floating-point numbers; found \[1.0\]"),
        ({"start": torch.tensor([torch.nan])}, "`start` must be finite"),
        ({"oracle": Quadratics([0])}, r"`oracle` must be a function of \(client\); found <tests"),
        ({"oracle": lambda: None}, r"`oracle` must be a function of \(client\); found one of \(\)"),
        ({"modules": [(16, 16)]}, "`modules` must be the `modules` of a bank; found"),
        ({"scaling": float("nan")}, r"`scaling` must be a number in \(0, inf\); found nan"),
        ({"steps": "3"}, "`steps` must be a whole number of at least 1; found '3'"),
        ({"objectives": 0}, "`objectives` must be a whole number of at least 1; found 0"),
    ],
)
def test_what_makes_no_federation(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(federation(next(iter(ALGORITHMS))), **change)


def test_what_cannot_be_rehearsed(tmp_path: Path) -> None:
    made = federation(next(iter(ALGORITHMS)))
    for given, message in (
        ((tmp_path, made), "`federation` must be a Federation; found PosixPath"),
        ((made, None), "`folder` must be a path; found None"),
        ((made, tmp_path, {"least": 1}), "`rules` must be Rules; found {'least': 1}"),
    ):
        with pytest.raises(InputError, match=message):
            rehearse(*given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`setup` must be a function of \(config\); found 'json'"):
        load_setup("json:__name__", {})
