"""Mathematical properties as named assertions, reused over all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linsys import FiniteSystem
from linsys.algorithms import AffPCL, FrozenRatio, Start, Steps
from tests.linsys._examples import Samples, as_torch, enumerate_states, run

#: Rounding of a few hundred operations on numbers of order one.
ROUNDING = 1e-12


def assert_equal_numbers(
    actual: Any, expected: Any, what: str, tolerance: float = ROUNDING
) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: {actual.shape} is not {expected.shape}"
    gap = np.abs(actual - expected).max() / max(1.0, np.abs(expected).max())
    assert gap <= tolerance, f"{what}: relative difference {gap:.3g}"


def assert_permuting_agents_permutes_results(
    algorithm: Any,
    system: FiniteSystem,
    seed: int,
    order: np.ndarray,
    permuted_algorithm: Any = None,
    **options: Any,
) -> None:
    """After at least one round; at t = 0 clustered agents are placed by their index."""
    samples = Samples(system, 6, seed)
    other = Samples(system, 6, seed)
    other.system = FiniteSystem(
        system.A, system.Phi, system.b[order], system.mu[order], system.theta[order]
    )
    other.states, other.partners = samples.states[:, order], samples.partners[:, order]
    if permuted_algorithm is None:
        permuted_algorithm = algorithm
        if isinstance(getattr(algorithm, "ratio", None), FrozenRatio):
            weights = algorithm.ratio.weights[order]
            permuted_algorithm = replace(algorithm, ratio=FrozenRatio(weights))
    x0 = np.random.default_rng(seed).standard_normal((system.n, system.d))
    plain = run(algorithm, samples, x0, 6, **options)
    permuted = run(permuted_algorithm, other, x0[order], 6, **options)
    for t in range(1, 7):
        assert_equal_numbers(permuted[t], plain[t][order], f"permuted agents at t = {t}")


def assert_batch_is_loop(algorithm: Any, system: FiniteSystem, seed: int, **options: Any) -> None:
    replicates = 3
    samples = Samples(system, 6, seed, (replicates,))
    x0 = np.random.default_rng(seed).standard_normal((replicates, system.n, system.d))
    together = run(algorithm, samples, x0, 6, **options)
    for r in range(replicates):
        alone = Samples(system, 6, seed)
        alone.states, alone.partners = samples.states[:, r], samples.partners[:, r]
        assert_equal_numbers(
            np.stack(together)[:, r], np.stack(run(algorithm, alone, x0[r], 6, **options)), f"{r}"
        )


def assert_namespaces_agree(
    algorithm: Any,
    system: FiniteSystem,
    seed: int,
    steps: Steps,
    participation: Sequence[np.ndarray] | None,
    local_steps: int,
) -> None:
    rounds = 4
    samples = Samples(system, rounds * local_steps, seed)
    x0 = np.random.default_rng(seed).standard_normal((system.n, system.d))
    options: dict[str, Any] = {"steps": steps, "local_steps": local_steps}

    def active(convert: Callable[[Any], Any]) -> Any:
        return None if participation is None else lambda t: convert(participation[t])

    plain = run(algorithm, samples, x0, rounds, participate=active(np.asarray), **options)
    other = run(
        algorithm,
        lambda t: as_torch(samples(t)),
        as_torch(x0),
        rounds,
        participate=active(as_torch),
        **options,
    )
    for t, (ours, theirs) in enumerate(zip(plain, other, strict=True)):
        assert_equal_numbers(theirs.numpy(), ours, f"torch and NumPy at t = {t}")


def expected_round(
    algorithm: Any, system: FiniteSystem, state: Any, steps: Steps, active: Any = None
) -> Any:
    """E[state after a round | state], by enumeration of all joint samples."""
    states, probabilities = enumerate_states(system)
    k = len(states)

    def repeat(value: Any) -> Any:
        return np.broadcast_to(value, (k, *value.shape)) if isinstance(value, np.ndarray) else value

    def average(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return np.tensordot(probabilities, value, axes=1) if value.shape[:1] == (k,) else value

    batch = type(state)(*(repeat(value) for value in state))
    after = algorithm.update(batch, [system.observe(states)], steps.at(0), active)
    return type(state)(*(average(value) for value in after))


def assert_mean_step_is_independent(
    algorithm: AffPCL, system: FiniteSystem, state: Any, alpha: float = 0.1
) -> None:
    """E[x_1^i] = x_0^i - alpha (Abar^i x_0^i - bbar^i): the correction c^i - h^i has mean zero."""
    after = expected_round(algorithm, system, state, Steps.constant(alpha)).x
    residual = (system.A_bar @ state.x[..., None])[..., 0] - system.b_bar
    assert_equal_numbers(after, state.x - alpha * residual, "mean step")


def assert_expected_map_reaches(
    algorithm: Any,
    system: FiniteSystem,
    target: np.ndarray,
    steps: Steps,
    rounds: int,
    x0: np.ndarray,
    theta0: np.ndarray,
    tolerance: float,
) -> Any:
    """Iterate E[round] from a start until the personal points are at their known fixed point."""
    state = algorithm.init(Start(x0, theta0))
    for _ in range(rounds):
        state = expected_round(algorithm, system, state, steps)
    assert_equal_numbers(algorithm.personal(state), target, "fixed point", tolerance)
    return state
