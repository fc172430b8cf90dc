"""The disagreement drift at common parameters: laws against samples, and verdicts that can turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.firm._drift import DriftConfig, Moments, drifts, left_out
from linsys._validate import Array
from mgda.simplex import min_norm
from mgda.trajectories import Clients


def gradients_of(config: DriftConfig, runs: int, B: int) -> tuple[Moments, Array]:
    """Moments of an instance, and gradients (runs, C, d, M) of batches of B."""
    momdp = config.momdp(0)
    oracle = config.oracle(Clients(momdp, config.clients), 0, replicates=runs, B=B)
    theta = np.zeros((runs, config.clients, momdp.d))
    return Moments.of(momdp), oracle.jac(theta, oracle.init())[0]


def test_moments_are_those_of_the_samples() -> None:
    moments, gradients = gradients_of(DriftConfig(), 400, 64)
    noise = gradients - moments.mean
    error = np.sqrt(moments.power / noise[:, :, 0, 0].size / 64)
    assert np.linalg.norm(noise.mean(axis=(0, 1))) < 3.0 * error
    ratio = 64 * (noise**2).sum(axis=(2, 3)).mean() / moments.power
    assert ratio == pytest.approx(1.0, abs=0.05)
    assert np.abs(moments.law @ moments.noise.reshape(len(moments.law), -1)).max() < 1e-15


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_moves_are_the_derivatives_of_the_weights(beta: float, normalise: bool) -> None:
    moments = Moments.of(DriftConfig().momdp(0))
    law = moments.at(beta if normalise else beta * moments.scale, normalise=normalise)
    one, two = law.moves
    step = 1e-2 * np.linalg.norm(moments.mean) / np.linalg.norm(moments.noise[7])
    plus, minus = (
        min_norm(moments.mean + s * moments.noise[7], beta=law.beta, normalise=normalise).weights
        for s in (step, -step)
    )
    size = np.linalg.norm(one[7])
    assert np.linalg.norm((plus - minus) / 2 / step - one[7]) < 1e-3 * size
    curve = (plus + minus - 2 * law.weights) / 2 / step**2
    assert np.linalg.norm(curve - two[7]) < 1e-3 * np.linalg.norm(two[7]) + 1e-9 * size / step


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("clients", [2, 6])
def test_law_is_the_mean_of_sampled_drifts(clients: int, normalise: bool) -> None:
    moments, gradients = gradients_of(DriftConfig(clients=clients), 2000, 1000)
    beta = 0.3 if normalise else 0.3 * moments.scale
    law = moments.at(beta, normalise=normalise)
    sampled = drifts(gradients, moments, beta, normalise=normalise)
    error = 3.0 * sampled.std(axis=1) / np.sqrt(2000) / law.drift(clients, 1000)
    ratio = sampled.mean(axis=1) / law.drift(clients, 1000)
    assert (np.abs(ratio - 1.0) < error + law.next_order(1000)).all()
    assert sampled[1].mean() > 10.0 * sampled[0].mean()


def test_left_out_is_the_change_of_a_slope() -> None:
    x = np.array([10.0, 100.0, 1000.0])
    assert left_out(x, 0.0 * x) == 0.0
    assert left_out(x, x**0.5 - 1.0) == pytest.approx(0.5)


def test_replicates_do_not_depend_on_the_blocks() -> None:
    config = DriftConfig(replicates=7, per_block=3, instances=2)
    assert [len(config.numbers(b)) for b in config.pieces()] == [3, 3, 1] * 2
    whole = replace(config, per_block=100)
    assert len(whole.pieces()) == 2
