"""The benchmark of FIRM on a model, in a small size."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from experiments.benchmarks import bridge_firm
from experiments.benchmarks.affpcl import Measured


@pytest.mark.slow
def test_rows_have_the_same_result_and_shares_are_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"BATCH": 2, "MINIBATCH": 1, "EPOCHS": 1, "LENGTH": 3, "RANK": 2}.items():
        monkeypatch.setattr(bridge_firm, name, value)
    sizes = replace(
        bridge_firm.SMALL, hidden=16, layers=1, clients=2, heads=2, groups=1, memory=None
    )
    timings = Measured()
    bridge_firm._measure(timings, "cpu", sizes, torch.float32, 0.01)
    each = "a pass for each"
    assert [row.peer for row in timings.rows] == [each, each, each, "sequential", each]
    assert all(row.correct for row in timings.rows)
    shares = next(value for name, value in timings.details.items() if name.startswith("a step"))
    parts = [value for name, value in shares.items() if name.startswith("share")]
    assert sum(parts) == pytest.approx(1.0)
    assert all(0 < part < 1 for part in parts)
    counted = next(
        value for name, value in timings.details.items() if name.startswith("operations")
    )
    assert list(counted) == ["M=2", "M=3", "M=4", "M=2, a vocabulary of bytes"]
    *many, small = counted.values()
    assert 1 > small > many[0] > many[1] > many[2] > 1 / 4  # one pass forward of all
