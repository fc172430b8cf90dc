"""Kept states come back bit for bit, and a kill leaves the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import InputError
from lora_bridge import checkpoint


class Server(NamedTuple):
    X: Tensor
    t: int
    optimizer: dict[str, Any]
    note: str | None


def _state(seed: int) -> Server:
    torch.manual_seed(seed)
    moments = {"first": torch.randn(3, dtype=torch.float64), "parts": [torch.ones(2), 0.1 + seed]}
    return Server(torch.randn(2, 3), 10 * seed, moments, None)


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = _state(1)
    kept = checkpoint.save(tmp_path, state, 7, "a run")
    assert checkpoint.latest(tmp_path) == kept
    back, rounds = checkpoint.restore(kept, _state(2), "a run")
    assert (rounds, back.t, back.note, type(back)) == (7, 10, None, Server)
    assert torch.equal(back.X, state.X)
    assert torch.equal(back.optimizer["first"], state.optimizer["first"])
    assert back.optimizer["first"].dtype == torch.float64
    assert back.optimizer["parts"][1] == state.optimizer["parts"][1]


def test_arrays_of_numpy_come_back_as_such(tmp_path: Path) -> None:
    weights = np.broadcast_to(np.array([0.25, 0.75]), (3, 2))
    kept = checkpoint.save(tmp_path, (weights, torch.ones(2)), 1, "x")
    for like in ((None, torch.zeros(2)), (np.zeros((3, 2)), torch.zeros(2))):
        (back, tensor), _ = checkpoint.restore(kept, like, "x")
        assert isinstance(back, np.ndarray)
        np.testing.assert_array_equal(back, weights)
        assert isinstance(tensor, Tensor)
    for other in ((torch.zeros(3, 2), torch.zeros(2)), (np.zeros((2, 2)), torch.zeros(2))):
        with pytest.raises(InputError, match="of another shape"):
            checkpoint.restore(kept, other, "x")


def test_an_empty_tuple_stands_for_whatever_was_kept(tmp_path: Path) -> None:
    products = tuple(torch.randn(size) for size in range(1, 13))  # more than one digit
    kept = checkpoint.save(tmp_path, (products, 3), 1, "x")
    (back, number), _ = checkpoint.restore(kept, ((), 0), "x")
    assert number == 3
    assert all(torch.equal(a, b) for a, b in zip(back, products, strict=True))


def test_two_stay_and_the_newest_is_found(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "nothing") is None
    for rounds in (1, 2, 9, 10):
        checkpoint.save(tmp_path, _state(rounds), rounds, "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-00000009", "round-00000010"]
    assert checkpoint.latest(tmp_path) == tmp_path / "round-00000010"


def test_those_of_later_rounds_go(tmp_path: Path) -> None:
    for rounds in (8, 9, 3):  # a run that could not go on from 8 or 9
        checkpoint.save(tmp_path, _state(rounds), rounds, "x")
    assert [path.name for path in tmp_path.iterdir()] == ["round-00000003"]


def test_a_kill_while_writing_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path, _state(1), 1, "x")

    def killed(tensors: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, _state(2), 2, "x")
    [kept] = list(tmp_path.iterdir())
    assert checkpoint.restore(kept, _state(3), "x")[1] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folder": None}, "`folder` must be a path; found None"),
        ({"keep": 0}, "`keep` must be a whole number of at least 1; found 0"),
        ({"rounds": 10**8}, "`rounds` must be a whole number of at least 0 and at most 99999999"),
        ({"about": object}, "`about` must be a text; found <class 'object'>"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "state": 1, "rounds": 1, "about": "a run"}
    with pytest.raises(InputError, match=message):
        checkpoint.save(**{**given, **change})
    assert not list(tmp_path.iterdir())


def test_nothing_of_a_state_is_left_behind(tmp_path: Path) -> None:
    place = checkpoint.save(tmp_path, (torch.ones(2), {"a": 1, "b": None}), 1, "a run")
    for like in ((torch.ones(2), {"a": 1}), (torch.ones(2),)):
        with pytest.raises(InputError, match=r"must have the form .*; found \.1\.\w in excess"):
            checkpoint.restore(place, like, "a run")
    with pytest.raises(InputError, match="`checkpoint` must be a path; found None"):
        checkpoint.restore(checkpoint.latest(tmp_path / "none"), None, "a run")  # type: ignore[arg-type]


def test_checkpoints_of_something_else(tmp_path: Path) -> None:
    kept = checkpoint.save(tmp_path, _state(1), 1, "one run")
    with pytest.raises(InputError, match="must be of another run; found one of one run"):
        checkpoint.restore(kept, _state(1), "another run")
    wide = _state(1)._replace(X=torch.zeros(4))
    with pytest.raises(InputError, match=r"must have the form .* another shape than \(4,\)"):
        checkpoint.restore(kept, wide, "one run")
    with pytest.raises(InputError, match="must have the form"):
        checkpoint.restore(kept, (*_state(1), 5), "one run")
    text = (kept / "state.json").read_text()
    for other in (text.replace('"rounds": 1', '"rounds": 2'), "[]", "{}"):
        (kept / "state.json").write_text(other)
        with pytest.raises(InputError, match="must be readable"):
            checkpoint.restore(kept, _state(1), "one run")
    (kept / "state.json").write_text(text)
    assert checkpoint.restore(kept, _state(1), "one run")[1] == 1
    (kept / "state.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="must be readable"):
        checkpoint.restore(kept, _state(1), "one run")
    with pytest.raises(InputError, match="must hold arrays and numbers; found"):
        checkpoint.save(tmp_path, (object(),), 1, "x")
