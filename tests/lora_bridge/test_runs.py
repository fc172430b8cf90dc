"""Runs that are killed, stopped or short of memory go on to the same numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import InputError
from linsys.algorithms import AffPCL, Ditto, FedAvg, FineTuning, Sampling, Start, Steps
from linsys.preference import sharelora
from linsys.sketching import FlexLoRA, FSLoRA, HeteroLoRA
from lora_bridge import checkpoint, runs
from lora_bridge.affpcl import Agents, soft_cross_entropy
from lora_bridge.bank import AdapterBank
from lora_bridge.oracles import Devices, Users
from lora_bridge.runs import recorded, repeated
from lora_bridge.tasks import Task
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM
from tests._slow import slow_but
from tests.lora_bridge import _survivor
from tests.lora_bridge._federations import D, Quadratics
from tests.lora_bridge._models import small_batch, small_model

ROOT = Path(__file__).parents[2]


def _equal(one: Any, other: Any) -> bool:
    return set(one) == set(other) and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name])
        for name in one
    )


def _halved(x: Tensor, t: int) -> Tensor:
    return x / 2 + torch.rand(2, dtype=x.dtype)  # from PyTorch's own generator


def _seen(x: Tensor) -> dict[str, Any]:
    return {"x": x, "first": float(x[0])}


def _run(folder: Path | None, advance: Any = _halved, name: str = "run", **options: Any) -> Any:
    start = torch.ones(2, dtype=torch.float64)
    return repeated(name, advance, start, [0, 2, 7], _seen, folder=folder, **options)


def _breaks(at: int, error: BaseException) -> Callable[[Tensor, int], Tensor]:
    def advance(x: Tensor, t: int) -> Tensor:
        if t == at:
            raise error
        return _halved(x, t)

    return advance


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_run_that_is_killed_in_the_middle_of_a_round_goes_on_to_the_same_bits(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lora_bridge._survivor", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle of round 5\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    [run] = tmp_path.iterdir()
    assert [place.name for place in checkpoint.all_of(run)] == ["round-00000004", "round-00000002"]
    whole = _survivor.train(None)
    assert whole["X"].shape[0] == whole["loss"].shape[0] == whole["up"].shape[0] == 3
    assert not np.array_equal(whole["loss"][0], whole["loss"][2])
    assert _equal(_survivor.train(tmp_path), whole)


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug")])
def test_a_round_that_ends_in_an_error_keeps_those_before(
    tmp_path: Path, at: int, error: BaseException
) -> None:
    whole = _run(None)
    with pytest.raises(type(error)):
        _run(tmp_path, _breaks(at, error))
    done: list[int] = []

    def counted(x: Tensor, t: int) -> Tensor:
        done.append(t)
        return _halved(x, t)

    assert _equal(_run(tmp_path, counted), whole)
    assert done == list(range(at, 7))


def test_of_a_run_that_is_done_only_measurements_stay(tmp_path: Path) -> None:
    whole = _run(tmp_path, every=1)
    [file] = tmp_path.iterdir()
    assert file.is_file()
    assert _equal(_run(tmp_path, _breaks(0, AssertionError())), whole)
    other = _run(tmp_path, name="another run")
    assert not np.array_equal(other["x"], whole["x"])
    file.write_bytes(b"damaged")
    assert _equal(_run(tmp_path), whole)


def test_checkpoints_that_a_kill_at_the_end_has_left_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "shutil", SimpleNamespace(rmtree=killed))
        with pytest.raises(KeyboardInterrupt):
            _run(tmp_path, every=6)
    assert len(list(tmp_path.iterdir())) == 2
    assert _equal(_run(tmp_path, _breaks(0, AssertionError())), _run(None))
    [file] = tmp_path.iterdir()
    assert file.is_file()


def test_a_damaged_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, _breaks(5, KeyboardInterrupt()), every=2)
    [run] = tmp_path.iterdir()
    newest, before = checkpoint.all_of(run)
    assert (newest.name, before.name) == ("round-00000005", "round-00000004")
    (newest / "state.safetensors").write_bytes(b"half")
    assert _equal(_run(tmp_path, _breaks(3, AssertionError())), _run(None))


def test_a_run_without_a_whole_checkpoint_begins_anew_and_keeps_that(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, _breaks(6, KeyboardInterrupt()), every=2)
    [run] = tmp_path.iterdir()
    for place in checkpoint.all_of(run):
        (place / "state.safetensors").write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, _breaks(3, KeyboardInterrupt()), every=2)
    assert [place.name for place in checkpoint.all_of(run)] == ["round-00000003", "round-00000002"]
    # 3 is there, so that no round before it is made again
    assert _equal(_run(tmp_path, _breaks(2, AssertionError())), _run(None))


def test_a_state_that_becomes_more_precise_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def run(folder: Path | None, stop: int | None = None) -> Any:
        def advance(x: Tensor, t: int) -> Tensor:
            if t == stop:
                raise KeyboardInterrupt
            return x / 3 + torch.ones(1, dtype=torch.float64)

        return repeated("thirds", advance, torch.ones(1), [4], lambda x: {"x": x}, folder=folder)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 2)
    assert _equal(run(tmp_path), run(None))


def test_a_run_whose_measurements_cannot_be_written_goes_on_to_writing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "save_file", full)
        with pytest.raises(InputError, match=r"folder of runs must be writable; .* no space left"):
            _run(tmp_path)
    assert _equal(_run(tmp_path, _breaks(0, AssertionError())), _run(None))
    [file] = tmp_path.iterdir()
    assert file.is_file()


def test_the_callers_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    _run(None)
    assert torch.equal(torch.rand(2), expected)


#: An algorithm, its oracle, the first state, and what it is about.
Begun = tuple[Any, Any, Any, Callable[[Any], Any]]


def _devices(kind: Any) -> Begun:
    oracle = Devices(_survivor.task())
    algorithm = kind(gamma=0.02, H=2, ranks=(1, 2, 3), optimizer="adamw")
    start = oracle.modules.start(3, np.random.default_rng(1))
    return algorithm, oracle, algorithm.init(start, oracle), lambda now: now.X


def _users(name: str) -> Begun:
    oracle, algorithm = Users(_survivor.task()), sharelora.method(name, 0.02, epochs=2.0)
    start = torch.from_numpy(algorithm.start(oracle.modules, 3, 2, np.random.default_rng(1)))
    return algorithm, oracle, algorithm.init(start.float(), oracle), lambda now: now.X


def _agents(algorithm: Any) -> Begun:
    bank = AdapterBank(small_model("bert"), ["query"])
    generator = torch.Generator().manual_seed(2)
    shards = []
    for i in range(3):
        made = small_batch(1, 5, seed=i)
        shard = {name: made[name][0] for name in ("input_ids", "attention_mask")}
        wanted = torch.rand((5, 3), generator=generator).softmax(-1)
        features = torch.randn((5, 2), generator=generator)
        shards.append({**shard, "label_probabilities": wanted, "features": features})
    agents = Agents(Task(bank, shards, soft_cross_entropy(), batch=2))
    x, theta = agents.start(0.1 * torch.randn((2, bank.width), generator=generator))
    oracle = Sampling(agents.observe, Steps.diminishing(t0=9.0), local_steps=2)
    state = algorithm.init(Start(x, theta), oracle)
    return algorithm, oracle, state, algorithm.personal


def _clients(algorithm: Any) -> Begun:
    oracle = Quadratics([0, 1, 2])
    start = torch.ones(1, 3, D)
    return algorithm, oracle, algorithm.init(start, oracle), lambda now: now.theta


BEGUN: dict[str, Callable[[], Begun]] = {
    **{kind.__name__: partial(_devices, kind) for kind in (FSLoRA, HeteroLoRA, FlexLoRA)},
    **{name: partial(_users, name) for name in ("SI", "G", "Share-Rep")},
    **{
        type(algorithm).__name__: partial(_agents, algorithm)
        for algorithm in (AffPCL(ratio="none"), FedAvg(), FineTuning(4), Ditto(1.0))
    },
    **{
        type(algorithm).__name__: partial(_clients, algorithm)
        for algorithm in (FIRM(alpha=0.1, K=2, eta=0.5, optimizer="adam"), FedCMOO(alpha=0.1))
    },
}


@pytest.mark.parametrize("name", slow_but(["FSLoRA", "SI", "FedAvg", "FIRM"], BEGUN))
def test_every_algorithm_goes_on_to_the_same_bits(tmp_path: Path, name: str) -> None:
    algorithm, oracle, first, personal = BEGUN[name]()

    def run(folder: Path | None, stop: int | None) -> Any:
        done = 0

        def counted(before: Any, after: Any, report: Any) -> int:
            nonlocal done
            done += 1
            if done == stop:
                raise KeyboardInterrupt
            return 1

        def measure(now: Any) -> dict[str, Any]:
            return {"X": personal(now)}

        options: dict[str, Any] = {"sums": {"rounds": counted}, "folder": folder, "every": 2}
        return recorded(name, algorithm, oracle, first, [2, 5], measure, **options)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 4)
    whole = run(None, None)
    assert not np.array_equal(whole["X"][0], whole["X"][1])
    assert whole["rounds"].tolist() == [2.0, 5.0]
    assert _equal(run(tmp_path, None), whole)


def test_out_of_memory_says_what_to_lower_and_keeps_the_rounds(tmp_path: Path) -> None:
    gpu = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB."
    )
    with pytest.raises(RuntimeError) as cpu:
        torch.empty(1 << 50, dtype=torch.uint8)
    for asked, error in {"2.00 GiB": gpu, f"{1 << 50} bytes": cpu.value}.items():
        folder = tmp_path / asked
        with pytest.raises(InputError) as raised:
            _run(folder, _breaks(4, error))
        assert str(raised.value) == (
            "memory must hold the model and a step of it; found that an allocation of "
            f"{asked} failed: lower chunk (or memory), batch, max_length or rank; "
            "rounds before that are kept: 4"
        )
        assert _equal(_run(folder, _breaks(3, AssertionError())), _run(None))
    with pytest.raises(RuntimeError, match="another"):
        _run(None, _breaks(0, RuntimeError("another")))


def test_bad_times_and_intervals() -> None:
    with pytest.raises(InputError, match="`times` must be strictly increasing"):
        repeated("x", _halved, torch.ones(2), [3, 1], _seen)
    with pytest.raises(InputError, match="`every` must be"):
        _run(None, every=0)


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda x: {}, r"`measure` must give one number or more by name; found \{\}"),
        (lambda x: x[0], "by name; found tensor"),
        (lambda x: {"x": "good"}, "`x` of measure must be numbers; found 'good'"),
        (lambda x: {"x": None}, "`x` of measure must be numbers; found None"),
        (
            lambda x: {"x": 1} if x[0] < 1 else {"x": 1, "loss": 2.0},
            r"`measure` must give \{'x': \(\), 'loss': \(\)\} every time.*; found \{'x': \(\)\}",
        ),
        (
            lambda x: {"x": x[: 1 + int(x[0])]},
            r"\{'x': \(2,\)\} every time.*; found \{'x': \(1,\)\}",
        ),
        (lambda: {}, r"`measure` must be a function of \(state\); found one of \(\)"),
        (None, r"`measure` must be a function of \(state\); found None"),
    ],
)
def test_measurements_that_are_none(measure: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        repeated("x", lambda x, t: x / 2, torch.ones(2), [0, 1], measure)


def test_what_advances_takes_a_state_and_a_round() -> None:
    swapped: Any = (torch.ones(2), _halved)
    with pytest.raises(InputError, match=r"`advance` must be a function of .*; found tensor"):
        repeated("x", *swapped, [0, 1], _seen)
    with pytest.raises(InputError, match=r"of \(state, t\); found one of \(x\)"):
        _run(None, lambda x: x)


def test_a_folder_may_be_a_text(tmp_path: Path) -> None:
    assert _equal(_run(str(tmp_path)), _run(None))  # type: ignore[arg-type]
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match="`folder` must be a path; found 3"):
        _run(3)  # type: ignore[arg-type]


def test_measurements_may_have_gradients() -> None:
    start = torch.ones(2, requires_grad=True)
    records = repeated("x", lambda x, t: x / 2, start, [0, 1], lambda x: {"x": x[0]})
    assert records["x"].tolist() == [1.0, 0.5]
