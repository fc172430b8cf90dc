"""What a computation will take: counted by making it with its runs cut off."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from lora_bridge import _memory, _prefix
from lora_bridge._memory import layers_of
from lora_bridge.bank import AdapterBank
from lora_bridge.probe import free_memory, probed
from lora_bridge.runs import Values, Watch, repeated, watched
from tests.lora_bridge._models import small_model, token_loss


class _Steps(Watch):
    """All that a computation tells."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int, int]] = []
        self.made = {"round": 0, "measurement": 0}

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        self.runs.append((name, rounds, measurements))

    def step(self, kind: str) -> None:
        self.made[kind] += 1


class _Halving:
    """Runs that halve a vector, where the better of two is made once more for longer."""

    def __init__(self) -> None:
        self.rounds = 0

    def _advance(self, x: torch.Tensor, t: int) -> torch.Tensor:
        self.rounds += 1
        return x / 2

    def run(self, name: str, times: list[int], folder: Path | None = None) -> Values:
        start = torch.ones(3)
        return repeated(name, self._advance, start, times, lambda x: {"x": x}, folder=folder)

    def __call__(self) -> Values:
        ends = [self.run(name, [0, 5])["x"][-1].sum() for name in ("a", "b")]
        assert len(ends) == 2
        return self.run("c", [1, 7, 9])


def test_a_watch_is_told_of_all_runs_and_steps() -> None:
    steps, halving = _Steps(), _Halving()
    with watched(steps):
        halving()
    assert steps.runs == [("a", 5, 2), ("b", 5, 2), ("c", 9, 3)]
    assert steps.made == {"round": halving.rounds, "measurement": 7}
    with watched(steps), watched(None):  # None takes nothing away
        halving()
    assert len(steps.runs) == 6
    halving()
    assert len(steps.runs) == 6


def test_what_is_kept_is_not_counted_again(tmp_path: Path) -> None:
    steps = _Steps()
    with watched(steps):
        for _ in range(2):
            _Halving().run("a", [4], tmp_path)
    assert steps.runs == [("a", 4, 1), ("a", 0, 0)]
    assert steps.made == {"round": 4, "measurement": 1}


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_probe_counts_what_the_whole_computation_makes(seconds: float) -> None:
    steps, halving = _Steps(), _Halving()
    with watched(steps):
        halving()
    short = _Halving()
    cost = probed(short, seconds)
    assert (cost.runs, cost.rounds, cost.measurements) == (
        len(steps.runs),
        steps.made["round"],
        steps.made["measurement"],
    )
    assert cost.complete
    # the first run, and two rounds of the others; two of the first alone where there is no time
    assert short.rounds == cost.timed == (2 if seconds == 0 else 5 + 2 + 2)
    assert cost.seconds > 0
    assert cost.memory > 1_000_000


def test_what_is_cut_off_has_the_shape_of_the_whole() -> None:
    whole, shapes = _Halving()(), list[Any]()
    probed(lambda: shapes.append({n: v.shape for n, v in _Halving()().items()}))
    assert shapes == [{name: value.shape for name, value in whole.items()}]


def test_errors_of_a_round_pass_and_those_of_meaningless_numbers_do_not() -> None:
    def broken(x: torch.Tensor, t: int) -> torch.Tensor:
        raise InputError("`x` must be something else")

    def in_a_round() -> None:
        repeated("a", broken, torch.ones(1), [9], lambda x: {"x": x})

    def after_a_run() -> None:
        _Halving().run("a", [0, 5])
        raise InputError("`x` must have fallen")

    with pytest.raises(InputError, match="something else"):
        probed(in_a_round)
    with pytest.raises(ZeroDivisionError):
        probed(lambda: 1 / 0)
    cost = probed(after_a_run)
    assert (cost.complete, cost.rounds) == (False, 5)


def test_tokens_are_those_that_go_through_the_model() -> None:
    model = small_model("llama")

    def advance(x: torch.Tensor, t: int) -> torch.Tensor:
        model(input_ids=torch.zeros(2, 7, dtype=torch.long))
        return x

    def measure(x: torch.Tensor) -> dict[str, float]:
        model(input_ids=torch.zeros(1, 5, dtype=torch.long))
        return {"x": 0.0}

    cost = probed(lambda: repeated("a", advance, torch.ones(1), [0, 10], measure))
    assert (cost.round_tokens, cost.measurement_tokens) == (14, 5)
    assert cost.tokens == 10 * 14 + 2 * 5


def test_a_single_long_round_beside_many_short_ones_counts_once() -> None:
    model = small_model("llama")

    def run(rounds: int, length: int) -> None:
        def advance(x: torch.Tensor, t: int) -> torch.Tensor:
            model(input_ids=torch.zeros(1, length, dtype=torch.long))
            return x

        repeated("a", advance, torch.ones(1), [0, rounds], lambda x: {"x": x})

    cost = probed(lambda: [run(100, 7), run(1, 50)])
    assert cost.tokens == pytest.approx(100 * 7 + 50, rel=1e-12)
    # without time, too, whatever comes first
    cost = probed(lambda: [run(1, 50), run(100, 7), run(100, 7)], 0.0)
    assert cost.timed == 1 + 2
    assert cost.tokens == pytest.approx(50 + 200 * 7, rel=1e-12)


def test_other_runs_go_on_as_the_first_one_did() -> None:
    model = small_model("llama")

    def run(rounds: int, size: int) -> None:
        def advance(x: torch.Tensor, t: int) -> torch.Tensor:
            many = 10 if t % 3 == 0 or t == 7 else 1  # a rollout, and what is tested at the end
            model(input_ids=torch.zeros(many, size, dtype=torch.long))
            return x

        repeated("a", advance, torch.ones(1), [rounds], lambda x: {"x": x})

    cost = probed(lambda: [run(8, 3), run(8, 5)])
    assert cost.timed == 8 + 2
    assert cost.tokens == pytest.approx((4 * 10 + 4) * (3 + 5), rel=1e-12)


def _turned(clock: list[float], seconds: float, *call: Any) -> None:
    clock[0] += seconds


def test_what_is_computed_once_for_a_text_is_no_part_of_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    bank = AdapterBank(small_model("llama"), ["layers.1.mlp.down_proj"], reuse=True)
    for layer, seconds in zip(layers_of(bank.model), (1.0, 0.01), strict=True):
        turn = partial(_turned, clock, seconds)
        layer.self_attn.register_forward_hook(turn)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def read(*texts: int) -> None:
        ids = torch.tensor([[[text + 1] * 5] for text in texts]).transpose(0, 1)
        X = torch.zeros(1, 1, bank.width)
        bank.read(X, {"input_ids": ids, "attention_mask": ids.clip(max=1)}, token_loss)

    def run(first: int) -> None:
        def advance(x: torch.Tensor, t: int) -> torch.Tensor:
            read(first + t % 4)
            return x

        def measure(x: torch.Tensor) -> dict[str, float]:
            read(first + 4, first + 5)
            return {"x": 0.0}

        repeated("a", advance, torch.ones(1), [0, 6, 12], measure)

    def compute() -> None:
        for first in (0, 6, 6):
            run(first)

    cost = probed(compute)
    assert (cost.timed, cost.complete) == (12 + 2 + 2, True)
    assert cost.round_s == pytest.approx(0.01, rel=1e-9)
    assert cost.measurement_s == pytest.approx(0.01, rel=1e-9)
    assert cost.once_s == pytest.approx(6 + 6, rel=1e-9)
    planned, clock[0] = cost.seconds, 0.0
    _prefix._kept.clear()
    assert probed(lambda: run(0), 9.0).timed == 3  # a later block comes to texts beyond
    later = probed(lambda: run(0))
    assert (later.timed, later.once_s) == (12, 0.0)
    clock[0] = 0.0
    _prefix._kept.clear()
    compute()
    assert clock[0] == pytest.approx(planned, rel=1e-9)


def test_what_is_tested_at_both_ends_alone_counts_twice() -> None:
    model = small_model("llama")

    def measure(t: int) -> dict[str, float]:
        model(input_ids=torch.zeros(1, 50 if t in (0, 9) else 5, dtype=torch.long))
        return {"x": 0.0}

    cost = probed(lambda: repeated("a", lambda t, _: t + 1, 0, [0, 3, 6, 9], measure))
    assert cost.measurements == 4
    assert cost.tokens == pytest.approx(2 * 50 + 2 * 5, rel=1e-12)


def test_free_memory_is_some_of_the_machine() -> None:
    free = free_memory()
    assert free is None or 0 < free < 2**50
    assert np.isfinite(free or 0)


def test_what_a_group_of_processes_has_taken_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"meminfo": "MemTotal: 9 kB\nMemAvailable:   2 kB\n", "memory.max": "max\n"}
    monkeypatch.setattr(_memory, "_text", lambda path: texts.get(Path(path).name, ""))
    assert free_memory() == 2048
    texts |= {"memory.max": "1000\n", "memory.current": "300\n"}
    assert free_memory() == 700
    texts["memory.current"] = "1200\n"
    assert free_memory() == 0
    texts.clear()
    assert free_memory() is None
