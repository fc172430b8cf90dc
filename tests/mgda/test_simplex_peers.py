"""The peers of the benchmark solve the same programs as ours; a missing one is named."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from experiments.benchmarks import mgda as bench
from experiments.benchmarks.affpcl import Measured
from mgda.simplex import simplex_qp

WAYS = [(peer, way) for peer in bench.PEERS for way in peer.ways]


@pytest.mark.parametrize(("peer", "way"), WAYS, ids=[peer.name + way for peer, way in WAYS])
def test_a_peer_solves_the_same_programs(peer, way):
    module = pytest.importorskip(peer.module)
    Q = bench.programs(4, 3, 6)
    weights = peer.ways[way](module, Q)()
    assert bench._agree(simplex_qp(Q), Q, weights)
    # Frank and Wolfe's method stops at a residual of 1e-2, the others at 1e-8 or at rounding
    tolerance = 0.05 if peer.name == "TorchJD" else 1e-5
    np.testing.assert_allclose(weights, simplex_qp(Q).weights, atol=tolerance)


def test_disagreement_is_seen():
    Q = bench.programs(4, 3, 6)
    ours = simplex_qp(Q)
    assert bench._agree(ours, Q, ours.weights)
    assert not bench._agree(ours, 1.001 * Q, ours.weights)


def test_rows_say_what_was_timed():
    pytest.importorskip("quadprog")
    timings = Measured()
    bench._compare(timings, "MGDA, M=3", bench.QUADPROG, bench.programs(1_000, 3, 6), 0.0, 0.0)
    [row] = timings.rows
    assert row.correct
    assert row.name == "MGDA, M=3, 1000 programs, per program"
    assert row.peer.startswith("quadprog ")
    assert timings.details[f"{row.name} | {row.peer}"]["our_worst_residual"] <= 1e-12


def test_a_missing_peer_is_named_and_left_out(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    timings = Measured()
    bench._compare(timings, "MGDA, M=3", bench.QUADPROG, bench.programs(10, 3, 6), 0.0, 0.0)
    assert not timings.rows
    assert "quadprog is left out" in capsys.readouterr().err
