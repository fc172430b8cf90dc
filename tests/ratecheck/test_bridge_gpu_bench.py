"""The benchmark of a card, on a processor and in a small size."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from experiments.benchmarks import bridge_gpu
from experiments.benchmarks.affpcl import Measured
from linsys import InputError

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TINY = replace(
    bridge_gpu.LLAMA,
    **{"hidden": 16, "layers": 1, "clients": 2, "samples": 1, "tokens": 6, "scored": 2},
    **{"vocabulary": 20, "heads": 2, "groups": 1},
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_compared_with_the_same_result(dtype: torch.dtype) -> None:
    timings = Measured()
    bridge_gpu.measure_on(timings, "cpu", TINY, dtype, 0.01, side=32)
    assert [row.peer for row in timings.rows] == ["sequential", "deep copies"]
    assert all(row.correct for row in timings.rows)
    said = timings.details[next(name for name in timings.details if name.startswith("throughput"))]
    for way in ("bank", "sequential", "deep copies"):
        assert said[f"{way}, tokens/s"] > 0
        assert said[f"share of the matrix rate, {way}"] > 0


def test_another_result_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = bridge_gpu.Clients.copies

    def wrong(self: bridge_gpu.Clients) -> object:
        gradients, round_ = passes(self)
        return lambda: 1.01 * gradients(), round_

    monkeypatch.setattr(bridge_gpu.Clients, "copies", wrong)
    timings = Measured()
    bridge_gpu.measure_on(timings, "cpu", TINY, torch.float32, 0.01, side=32)
    assert [row.correct for row in timings.rows] == [True, False]


def test_copies_that_do_not_fit_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: bridge_gpu.Clients) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(bridge_gpu.Clients, "copies", full)
    timings = Measured()
    bridge_gpu.measure_on(timings, "cpu", TINY, torch.float32, 0.01, side=32)
    assert [row.peer for row in timings.rows] == ["sequential"]
    said = timings.details[next(name for name in timings.details if name.startswith("throughput"))]
    assert said["deep copies do not fit: they alone hold, GiB"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_it_says_so() -> None:
    with pytest.raises(InputError, match="must have a CUDA device"):
        bridge_gpu.run(quick=True)
