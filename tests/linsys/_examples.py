"""Systems, methods and samples that the tests of the algorithms share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from linsys import FiniteSystem
from linsys.algorithms import (
    AffPCL,
    Clustered,
    CoupledRatio,
    Ditto,
    FedAvg,
    FineTuning,
    FrozenRatio,
    Independent,
    LinearRatio,
    PFedMe,
    Sampling,
    ShiftedRatio,
    SparseRatio,
    Start,
    Steps,
)
from linsys.oracle import LinearObservation
from linsys.rounds import rounds

STATES = 3
seeds = st.integers(0, 2**32 - 1)


def finite_system(
    seed: int,
    n: int = 3,
    d: int = 2,
    states: int = STATES,
    *,
    same_mu: bool = False,
    same_theta: bool = False,
) -> FiniteSystem:
    """A system whose sampled matrices I / 2 + noise have symmetric parts of at least 0.1."""
    rng = np.random.default_rng(seed)

    def matrices() -> np.ndarray:
        noise = rng.uniform(-1, 1, (states, d, d))
        norms = np.linalg.norm(noise, ord=2, axis=(1, 2), keepdims=True)
        return 0.5 * np.eye(d) + 0.4 * noise / np.maximum(norms, 1.0)

    mu = rng.dirichlet(np.full(states, 2.0), 1 if same_mu else n) + 0.05
    theta = rng.standard_normal((1 if same_theta else n, d))
    return FiniteSystem.from_objectives(
        A=matrices(),
        Phi=matrices(),
        theta=np.broadcast_to(theta, (n, d)),
        mu=np.broadcast_to(mu / mu.sum(axis=1, keepdims=True), (n, states)),
    )


def estimators(states: int = STATES) -> dict[str, Any]:
    return {
        "linear": LinearRatio(states),
        "linear from one": LinearRatio(states, start=1.0),
        "shifted": ShiftedRatio(states),
        "coupled": CoupledRatio(states, clip=False),
        "sparse, few": SparseRatio(states, keep=1),
        "sparse, penalty": SparseRatio(states, penalty=0.05),
    }


def methods(n: int = 3, states: int = STATES) -> dict[str, Any]:
    """Every method and variant, by name."""
    table = np.random.default_rng(5).uniform(0, 2, (n, states))
    algorithms: dict[str, Any] = {
        "AffPCL": AffPCL(),
        "AffPCL known objective": AffPCL(objective="known"),
        "AffPCL (22-2)": AffPCL(central_direction="estimate"),
        "AffPCL without ratio": AffPCL(ratio="none"),
        "AffPCL (5)": AffPCL(correction="bias"),
        "AffPCL (5) implicit": AffPCL(correction="bias", center="implicit"),
        "AffPCL frozen": AffPCL(ratio=FrozenRatio(table)),
        "independent": Independent(),
        "FedAvg": FedAvg(),
        "fine-tuning": FineTuning(switch=3),
        "pFedMe": PFedMe(regularization=1.5),
        "Ditto": Ditto(regularization=1.5),
        "clustered": Clustered(clusters=2, spread=0.5),
    }
    for name, estimator in estimators(states).items():
        algorithms[f"AffPCL {name}"] = AffPCL(ratio=estimator)
    return algorithms


def enumerate_states(system: FiniteSystem) -> tuple[np.ndarray, np.ndarray]:
    """All S^n joint samples (K, n) and their probabilities (K,)."""
    states = np.array(list(itertools.product(range(system.n_states), repeat=system.n)))
    return states, system.mu[np.arange(system.n), states].prod(axis=1)


def expectation(system: FiniteSystem, value: Callable[[LinearObservation], Any]) -> np.ndarray:
    """E over one joint sample of an array with the samples in its first axis."""
    states, probabilities = enumerate_states(system)
    return np.tensordot(probabilities, value(system.observe(states)), axes=1)


def as_torch(value: Any) -> Any:
    """The same numbers as torch tensors, for arrays and observations."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    fields = {name: as_torch(getattr(value, name)) for name in ("A", "Phi", "b", "rho")}
    psi, coupled = value.ratio_features(), value.psi_coupled and value.coupled_features()
    return replace(
        value,
        **fields,
        psi=lambda: as_torch(psi),
        psi_coupled=None if coupled is None else lambda: as_torch(coupled),
    )


class Samples:
    """``rounds`` joint samples with coupled partners, of a fixed seed, as observations."""

    def __init__(
        self, system: FiniteSystem, rounds: int, seed: int, batch: tuple[int, ...] = ()
    ) -> None:
        rng = np.random.default_rng(seed)
        self.system = system
        self.states = system.sample(rng, (rounds, *batch))
        self.partners = system.couple(self.states, rng)

    def __call__(self, t: int) -> LinearObservation:
        return self.system.observe(self.states[t], self.partners[t])


def run(
    algorithm: Any,
    observe: Callable[[int], LinearObservation],
    x0: Any,
    count: int,
    *,
    steps: Steps | None = None,
    theta0: Any = None,
    **options: Any,
) -> list[Any]:
    """Personal points after 0, .., count rounds; ``theta0`` defaults to a fixed value."""
    if theta0 is None:
        theta0 = 0.0 * x0[..., 0, :] + 0.3
    agents = Sampling(observe, steps or Steps.constant(0.1), **options)
    state = algorithm.init(Start(x0, theta0), agents)
    after = [state for state, _ in rounds(algorithm, agents, state, count)]
    return [algorithm.personal(state) for state in (state, *after)]
