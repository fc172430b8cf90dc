"""Stable step sizes against brute-force operators, closed forms, Monte Carlo and exploding runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys import FiniteSystem, GaussianSystem, InputError, sample_gaussian_system
from linsys._cone import LyapunovSolver, perron, perron_bound
from linsys._sample_moments import sample_moments
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    Sampling,
    Start,
    Steps,
)
from linsys.kernels import simulate
from linsys.rounds import rounds
from linsys.stability import check_steps, largest_stable_step, mean_square_radius, stable_steps
from linsys.systems.regression import RegressionSystem
from tests._slow import slow_but
from tests.linsys._asserts import assert_equal_numbers
from tests.linsys._examples import enumerate_states, finite_system, seeds

few = settings(max_examples=10)


def kronecker_radius(matrices: np.ndarray, weights: np.ndarray, alpha: float) -> float:
    """Spectral radius of E[(I - alpha A) x (I - alpha A)], written out."""
    d = matrices.shape[-1]
    steps = np.eye(d) - alpha * matrices
    operator = sum(w * np.kron(m, m) for w, m in zip(weights, steps, strict=True))
    return float(np.abs(np.linalg.eigvals(operator)).max())


def brute_force(system: FiniteSystem, alpha: float) -> tuple[list[float], float, float]:
    """Radii by enumeration: agents over S states, the averages over all S^n joint samples."""
    agents = [kronecker_radius(system.A, mu, alpha) for mu in system.mu]
    states, probabilities = enumerate_states(system)
    center = kronecker_radius(system.A[states].mean(axis=1), probabilities, alpha)
    objective = kronecker_radius(system.Phi[states].mean(axis=1), probabilities, alpha)
    return agents, center, objective


# --- the radius ---------------------------------------------------------------------------------


@pytest.mark.slow
@given(seed=seeds, alpha=st.floats(0.01, 6.0), d=st.sampled_from([1, 2, 3, 6]))
@settings(max_examples=20)
def test_radii_are_those_of_the_kronecker_operators(seed: int, alpha: float, d: int) -> None:
    system = finite_system(seed, d=d)
    radius = mean_square_radius(system, alpha)
    agents, center, objective = brute_force(system, alpha)
    assert_equal_numbers(radius.agents, np.array(agents), "agents", 1e-9)
    assert_equal_numbers(radius.center, center, "centre", 1e-9)
    assert_equal_numbers(radius.objective, objective, "objective", 1e-9)


@given(seed=seeds, d=st.sampled_from([1, 2, 3, 6]))
@few
def test_the_radius_is_one_at_the_largest_stable_step_and_below_one_before_it(
    seed: int, d: int
) -> None:
    system = finite_system(seed, d=d)
    stable = stable_steps(system)
    limits = (*stable.agents, stable.center, stable.objective)
    for part, limit in enumerate(limits):

        def radius(alpha: float, part: int = part) -> float:
            agents, center, objective = brute_force(system, alpha)
            return [*agents, center, objective][part]

        assert radius(limit) == pytest.approx(1.0, abs=1e-8)
        assert radius(limit * 0.999) < 1.0 < radius(limit * 1.001)
        assert radius(limit * 0.3) < 1.0 < radius(limit * 3.0)


@given(seed=seeds)
@few
def test_mean_square_stability_implies_stability_in_the_mean(seed: int) -> None:
    system = finite_system(seed)
    for mean, alpha in zip(system.A_bar, stable_steps(system).agents, strict=True):
        assert np.abs(1.0 - alpha * np.linalg.eigvals(mean)).max() <= 1.0 + 1e-12


def deterministic(A: list[list[float]]) -> FiniteSystem:
    """One state, one agent: the Perron matrix is singular, on the boundary of the cone."""
    return FiniteSystem.from_objectives(A=[A], Phi=[A], theta=[[1.0] * len(A)], mu=[[1.0]])


@pytest.mark.parametrize(
    "A",
    [
        [[1.0, 0.5], [0.0, 1.0]],  # defective
        [[1.0, -5.0], [5.0, 1.0]],  # rotation
        [[1.0, 0.0], [0.0, 1.0001]],  # nearly equal eigenvalues
        (np.diag(np.arange(1.0, 8.0)) + np.triu(np.full((7, 7), 0.1), 1)).tolist(),  # no small d
    ],
)
def test_without_noise_the_mean_iteration_decides(A: list[list[float]]) -> None:
    system = deterministic(A)
    eigenvalues = np.linalg.eigvals(np.array(A))
    limit = (2.0 * eigenvalues.real / np.abs(eigenvalues) ** 2).min()
    assert stable_steps(system).agents[0] == pytest.approx(limit, rel=1e-7)
    for alpha in (0.2 * limit, 1.5 * limit):
        squared = np.abs(1.0 - alpha * eigenvalues).max() ** 2
        # Defective eigenvalues move by the square root of the rounding error.
        assert mean_square_radius(system, alpha).agents[0] == pytest.approx(squared, rel=1e-6)


def test_decoupled_directions_are_all_seen() -> None:
    """Diagonal matrices: each direction is a scalar recursion with limit 2 E[a] / E[a^2]."""
    diagonals = np.array([[1.0, 0.1, 2.0], [3.0, 4.0, 2.0]])
    A = np.array([np.diag(row) for row in diagonals])
    system = FiniteSystem.from_objectives(A=A, Phi=A, theta=[[1.0] * 3], mu=[[0.5, 0.5]])
    limits = 2.0 * diagonals.mean(axis=0) / (diagonals**2).mean(axis=0)
    assert stable_steps(system).agents[0] == pytest.approx(limits.min(), rel=1e-12)
    alpha = 0.4
    radii = 1.0 - 2.0 * alpha * diagonals.mean(axis=0) + alpha**2 * (diagonals**2).mean(axis=0)
    assert mean_square_radius(system, alpha).agents[0] == pytest.approx(radii.max(), rel=1e-10)


# --- Gaussian and data-backed systems -----------------------------------------------------------


@pytest.mark.parametrize("matrix", slow_but(["A"], ["A", "Phi"]))
def test_gaussian_fourth_moments_against_monte_carlo(matrix: str) -> None:
    """12 entries from 400,000 samples within 6 standard errors: false with probability < 1e-6."""
    system = sample_gaussian_system(3, n=3, d=2, delta_env=0.3)
    moments = sample_moments(system, matrix)
    rng = np.random.default_rng(3)
    s = system.sample(rng, (400_000,))
    root = rng.standard_normal((2, 2))
    S = root @ root.T
    base, eps = (system.A_base, system.eps_A) if matrix == "A" else (system.Phi_base, system.eps_b)
    total = np.zeros((2, 2))
    for i in range(3):
        sampled = (np.eye(2) + eps * s[:, i, :, None] * s[:, i, None, :]) @ base
        products = sampled @ S @ np.swapaxes(sampled, -1, -2)
        error = products.std(axis=0) / np.sqrt(len(products))
        assert (np.abs(products.mean(axis=0) - moments.square(i, S)) <= 6.0 * error).all()
        # Another coefficient of one term is noticed.
        y = base @ S @ base.T
        assert (np.abs(products.mean(axis=0) - moments.square(i, S) - eps**2 * y) > 6 * error).any()
        total += moments.square(i, S)
    assert_equal_numbers(moments.total(S), total, "sum over agents")


def test_gaussian_moments_are_exact_for_a_scalar() -> None:
    """E[(1 + e s^2)^2] = 1 + 2 e (1 + m^2) + e^2 (m^4 + 6 m^2 + 3)."""
    m, e = 0.7, 0.9
    system = GaussianSystem([[m]], [[1.0]], [[2.0]], [[1.0]], eps_A=e)
    expected = 4.0 * (1 + 2 * e * (1 + m**2) + e**2 * (m**4 + 6 * m**2 + 3))
    assert sample_moments(system, "A").square(0, np.eye(1))[0, 0] == pytest.approx(
        expected, rel=1e-14
    )
    limit = 2.0 * 2.0 * (1 + e * (1 + m**2)) / expected
    assert stable_steps(system).agents[0] == pytest.approx(limit, rel=1e-12)


def test_regression_is_the_finite_system_of_its_rank_one_matrices() -> None:
    rng = np.random.default_rng(4)
    features = [rng.standard_normal((5, 2)) for _ in range(2)]
    targets = [rng.standard_normal(5) for _ in range(2)]
    system = RegressionSystem(features, targets, objective=features, ridge=0.3)
    rows = np.concatenate(features)
    A = rows[:, :, None] * rows[:, None, :]
    mu = np.kron(np.eye(2), np.full((1, 5), 0.2))
    finite = FiniteSystem.from_objectives(
        A=A + 0.3 * np.eye(2), Phi=A, theta=np.ones((2, 2)), mu=mu
    )
    ours, theirs = stable_steps(system), stable_steps(finite)
    assert_equal_numbers(ours.agents, theirs.agents, "agents", 1e-10)
    assert_equal_numbers(ours.center, theirs.center, "centre", 1e-10)
    assert_equal_numbers(ours.objective, theirs.objective, "objective", 1e-10)
    without = RegressionSystem(features, targets)
    assert np.isnan(stable_steps(without).objective)
    assert largest_stable_step(without) > 0


@given(seed=seeds, size=st.integers(2, 3))
@few
def test_minibatches_are_averages_of_independent_samples(seed: int, size: int) -> None:
    system = finite_system(seed)
    index = np.array(list(np.ndindex(*(3,) * size)))
    radius = mean_square_radius(system, 1.5, batch_size=size).agents
    for i in range(3):
        expected = kronecker_radius(
            system.A[index].mean(axis=1), system.mu[i][index].prod(axis=1), 1.5
        )
        assert radius[i] == pytest.approx(expected, rel=1e-9)
    assert (stable_steps(system, batch_size=size).agents >= stable_steps(system).agents).all()


def test_fifty_agents_in_twenty_dimensions_take_few_products() -> None:
    """Applications of the map, in place of one eigenvalue problem of size 210 for each agent."""
    system = sample_gaussian_system(0, n=50, d=20, delta_env=0.3)
    moments = sample_moments(system, "A")
    calls = 0

    def counted(s: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return moments.square(7, s)

    solve = LyapunovSolver(moments.mean[7])
    radius = perron(lambda q: counted(solve(q, 0.0)), 20)
    assert calls < 200
    assert radius <= perron_bound(lambda q: moments.square(7, solve(q, 0.0)), 20)
    check_steps(system, 1e-4)


# --- the building blocks ------------------------------------------------------------------------


@given(seed=seeds, d=st.integers(1, 6), shift=st.floats(-3.0, 0.15))
@few
def test_lyapunov_equations_are_solved(seed: int, d: int, shift: float) -> None:
    matrix = finite_system(seed, d=d).A[0]
    root = np.random.default_rng(seed).standard_normal((d, d))
    q = root @ root.T
    x = LyapunovSolver(matrix)(q, shift)
    assert_equal_numbers(matrix @ x + x @ matrix.T - shift * x, q, "residual", 1e-10)
    assert np.linalg.eigvalsh(x)[0] >= -1e-10


@given(seed=seeds, d=st.integers(1, 7))
@few
def test_the_perron_value_is_an_eigenvalue_below_its_bound(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((3, d, d))

    def positive(s: np.ndarray) -> np.ndarray:
        return (factors @ s @ np.swapaxes(factors, -1, -2)).sum(axis=0)

    expected = np.abs(np.linalg.eigvals(sum(np.kron(f, f) for f in factors))).max()
    radius = perron(positive, d)
    assert radius == pytest.approx(expected, rel=1e-9)
    assert radius <= perron_bound(positive, d) * (1 + 1e-12)


# --- check_steps --------------------------------------------------------------------------------

NOISY = FiniteSystem.from_objectives(
    A=np.array([[[0.2]], [[3.0]]]),
    Phi=np.ones((2, 1, 1)),
    theta=[[1.0], [2.0]],
    mu=[[0.9, 0.1], [0.4, 0.6]],
)


def test_the_broken_bound_is_named() -> None:
    """Agent 0 has E a = 0.48 and E a^2 = 0.936: stable below 1.026; agent 1 below 0.694."""
    check_steps(NOISY, 0.69)
    with pytest.raises(
        InputError,
        match=(
            r"step size beyond stability: agent 1 must have a step below 0\.694\d+; found 0\.8, "
            r"with which the mean-square iteration has spectral radius 1\.\d+ >= 1"
        ),
    ):
        check_steps(NOISY, 0.8)
    with pytest.raises(
        InputError,
        match=r"agent 1 .* found 5, with which the mean iteration has .* max\|1 - alpha lambda\|",
    ):
        check_steps(NOISY, 5.0)


def test_each_module_has_its_own_step() -> None:
    check_steps(NOISY, Steps(0.5, x=(2.0, 1.0)))
    with pytest.raises(InputError, match=r"agent 0 must have a step below 1\.02\d+; found 1\.05"):
        check_steps(NOISY, Steps(0.5, x=(2.1, 1.0)))
    with pytest.raises(InputError, match="the centre must have a step below"):
        check_steps(NOISY, Steps(0.5, center=4.0))
    with pytest.raises(InputError, match="the central objective must have a step below 2; found 2"):
        check_steps(NOISY, Steps(0.5, objective=4.0))
    check_steps(NOISY, Steps(0.5, objective=4.0), AffPCL(objective="known"))
    check_steps(NOISY, Steps(0.5, center=4.0), AffPCL(center="implicit", correction="bias"))
    check_steps(NOISY, Steps(0.5, center=4.0), Independent())
    check_steps(NOISY, Steps(0.5, x=4.0), FedAvg())
    check_steps(NOISY, Steps(0.5, x=0.0))
    with pytest.raises(InputError, match="agent 1"):
        check_steps(NOISY, Steps(0.5, center=2.0), Clustered())
    with pytest.raises(InputError, match="agent 1"):
        check_steps(NOISY, Steps.diminishing(t0=1.0))
    check_steps(NOISY, Steps.diminishing(t0=10.0))


def test_regularisation_shifts_the_matrices() -> None:
    """E (a + r)^2 = E a^2 + 2 r E a + r^2."""
    expected = 2 * (1.88 + 2) / (5.416 + 2 * 2 * 1.88 + 4)
    assert largest_stable_step(NOISY, Ditto(regularization=2.0)) == pytest.approx(
        expected, rel=1e-10
    )
    assert stable_steps(NOISY, regularization=2.0).agents[1] == pytest.approx(expected, rel=1e-10)


# --- recursions of all agents together ----------------------------------------------------------


def joint_radius(system: FiniteSystem, algorithm: Any, steps: Steps) -> float:
    """Spectral radius of E[N x N] for the matrix N of a whole round, read off the rounds."""
    states, probabilities = enumerate_states(system)
    n, d = system.n, system.d
    seen = [system.observe(states)]
    zero = np.zeros((n, d))
    theta0 = np.zeros(d)

    def after(x: np.ndarray, center: np.ndarray | None) -> np.ndarray:
        state = algorithm.init(Start(np.broadcast_to(x, (len(states), n, d)), theta0))
        if center is not None:
            state = state._replace(center=np.broadcast_to(center, (len(states), 1, d)))
        new = algorithm.update(state, seen, steps.at(0))
        parts = new.x if center is None else np.concatenate([new.x, new.center], axis=1)
        return parts.reshape(len(states), -1)

    paired = isinstance(algorithm, PFedMe)
    columns = []
    origin = after(zero, zero[:1] if paired else None)
    for unit in np.eye((n + paired) * d).reshape(-1, n + paired, d):
        columns.append(after(unit[:n], unit[n:] if paired else None) - origin)
    maps = np.stack(columns, axis=-1)
    size = maps.shape[-1]
    operator = np.einsum("k,kab,kcd->acbd", probabilities, maps, maps).reshape(size**2, size**2)
    return float(np.abs(np.linalg.eigvals(operator)).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps", [Steps(1.0), Steps(1.0, x=(0.4, 1.3), center=0.7), Steps(1.0, center=3.0)]
)
@pytest.mark.parametrize("regularization", [0.0, 0.7, 15.0])
def test_pfedme_is_stable_exactly_below_the_limit_of_the_pair(
    steps: Steps, regularization: float
) -> None:
    system = finite_system(3, n=2)
    algorithm = PFedMe(regularization)
    one = largest_stable_step(system, algorithm)

    def radius(alpha: float, of: Any = algorithm) -> float:
        at = replace(steps, numerator=alpha)
        return joint_radius(system, of, at)

    low, high = 1e-3 * one, 1e3 * one
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if accepts(system, steps, middle, algorithm) else (low, middle)
    if steps == Steps(1.0):
        assert low == pytest.approx(one, rel=1e-6)
    # Without regularisation w stays, and its radius is one.
    slack = 1e-9 if regularization == 0.0 else 0.0
    assert radius(0.999 * low) < 1.0 + slack
    assert radius(1.001 * high) > 1.0
    if regularization > 0.0:  # the limit of x^i given w is another one
        alone = stable_steps(system, regularization=regularization).agents.min()
        assert joint_radius(system, algorithm, Steps(float(alone))) > 1.0 + 1e-3


def accepts(system: FiniteSystem, steps: Steps, alpha: float, algorithm: Any) -> bool:
    try:
        check_steps(system, replace(steps, numerator=alpha), algorithm)
    except InputError:
        return False
    return True


def test_pfedme_diverges_with_a_step_that_x_given_w_bears() -> None:
    """d = 1 and A = 1: eigenvalues of [[16, -15], [-15, 15]] are 0.49 and 30.5."""
    one = np.ones((1, 1, 1))
    system = FiniteSystem.from_objectives(A=one, Phi=one, theta=[[1.0], [1.2]], mu=[[1.0]] * 2)
    limit = 2.0 / np.linalg.eigvalsh([[16.0, -15.0], [-15.0, 15.0]])[-1]
    assert largest_stable_step(system, PFedMe(15.0)) == pytest.approx(limit, rel=1e-9)
    with pytest.raises(InputError, match=r"the pair \(x, w\) must have a step below 0\.0655"):
        check_steps(system, 0.1, PFedMe(15.0))
    with pytest.raises(InputError, match="`steps` must keep the iterates bounded"):
        simulate(
            system,
            PFedMe(15.0),
            steps=0.1,
            times=[10_000],
            replicates=1,
            seed=0,
            allow_unstable=True,
        )


IMPLICIT = (
    AffPCL(center="implicit", objective="known"),
    AffPCL(center="implicit", objective="known", correction="bias"),
    AffPCL(center="implicit", objective="known", ratio="none"),
)


@given(seed=seeds, index=st.sampled_from(range(3)))
@few
def test_the_implicit_centre_is_judged_by_its_joint_recursion(seed: int, index: int) -> None:
    system, algorithm = finite_system(seed, n=2), IMPLICIT[index]
    limit = largest_stable_step(system, algorithm)
    steps = Steps(1.0, x=(0.5, 1.5))
    assert joint_radius(system, algorithm, Steps(0.999 * limit)) < 1.0
    assert joint_radius(system, algorithm, Steps(1.001 * limit)) > 1.0
    check_steps(system, 0.999 * limit, algorithm)
    with pytest.raises(InputError, match="step size beyond stability: the joint recursion"):
        check_steps(system, 1.001 * limit, algorithm)
    for factor in (0.3, 0.6, 0.9, 1.2, 1.8):
        scaled = replace(steps, numerator=factor * limit)
        stable = joint_radius(system, algorithm, scaled) < 1.0
        assert accepts(system, steps, factor * limit, algorithm) == stable


@given(seed=seeds, index=st.sampled_from(range(3)), n=st.integers(1, 3))
@few
def test_one_agents_recursion_suffices_for_the_implicit_centre_in_one_environment(
    seed: int, index: int, n: int
) -> None:
    system = finite_system(seed, n=n, same_mu=True)
    limit = largest_stable_step(system, IMPLICIT[index])
    assert limit == pytest.approx(stable_steps(system).agents.min(), rel=1e-12)
    assert joint_radius(system, IMPLICIT[index], Steps(0.999 * limit)) < 1.0


def test_one_agents_recursion_is_neither_necessary_nor_always_sufficient() -> None:
    A = np.array([[[1.0]], [[3.0]]])
    common = FiniteSystem.from_objectives(A=A, Phi=A, theta=[[1.0], [1.2]], mu=[[0.5, 0.5]] * 2)
    assert largest_stable_step(common, IMPLICIT[0]) == pytest.approx(0.8)
    # E[(1 - a A)^2] / 2 + (1 - 2 a)^2 / 2 for both x^1 - x^2 and the mean is 1 at a = 8/9.
    assert joint_radius(common, IMPLICIT[0], Steps(0.888)) < 1.0
    assert joint_radius(common, IMPLICIT[0], Steps(0.889)) > 1.0
    worse = [
        system
        for system in (finite_system(seed, n=2) for seed in range(60))
        if joint_radius(system, IMPLICIT[0], Steps(stable_steps(system).agents.min() * 0.999)) > 1.0
    ]
    for system in worse:
        assert largest_stable_step(system, IMPLICIT[0]) < stable_steps(system).agents.min()
    assert worse


def test_an_implicit_centre_that_cannot_be_judged_is_refused() -> None:
    gaussian = sample_gaussian_system(0, n=3, d=2, delta_env=0.3)
    check_steps(sample_gaussian_system(0, n=3, d=2), 1e-3, IMPLICIT[0])
    for call in (check_steps, largest_stable_step):
        arguments = (1e-4, IMPLICIT[0]) if call is check_steps else (IMPLICIT[0],)
        with pytest.raises(InputError, match="`system` must be a FiniteSystem, with one sample"):
            call(gaussian, *arguments)
        with pytest.raises(InputError, match="found FiniteSystem, batch_size=2"):
            call(NOISY, *arguments, batch_size=2)
        with pytest.raises(InputError, match="at most 64 coordinates"):
            call(finite_system(0, n=40), *arguments)


@pytest.mark.parametrize(
    "algorithm", [AffPCL(), Independent(), FineTuning(switch=2), FedAvg(), Ditto(1.0)]
)
def test_runs_below_the_limit_stay_and_above_it_explode(algorithm: Any) -> None:
    """20,000 replicates of a fixed seed: second moments grow tenfold only beyond the limit."""
    limit = largest_stable_step(NOISY, algorithm)

    def second_moment(alpha: float) -> float:
        rng = np.random.default_rng(17)
        agents = Sampling(
            lambda t: NOISY.observe(NOISY.sample(rng, (20_000,))), Steps.constant(alpha)
        )
        state = algorithm.init(np.full((20_000, 2, 1), 30.0), agents)
        *_, (last, _) = rounds(algorithm, agents, state, 12)
        return float((algorithm.personal(last) ** 2).mean(axis=0).max())

    assert second_moment(0.5 * limit) < 30.0**2
    assert second_moment(1.8 * limit) > 10.0 * 30.0**2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_square_radius(NOISY, 0.0), "`alpha` must be a number"),
        (lambda: mean_square_radius(NOISY, float("nan")), "`alpha` must be a number"),
        (lambda: mean_square_radius(NOISY, 1e200), r"`alpha` must be a number in \(0, 1e\+100\]"),
        (lambda: mean_square_radius(NOISY, 0.1, batch_size=0), "`batch_size` must be a whole"),
        (lambda: mean_square_radius("system", 0.1), "`system` must be a FiniteSystem"),
        (lambda: stable_steps(None), "`system` must be a FiniteSystem, .*; found NoneType"),
        (lambda: stable_steps(NOISY, regularization=-1.0), "`regularization` must be a number"),
        (lambda: stable_steps(NOISY, batch_size=1.5), "`batch_size` must be a whole number"),
        (lambda: largest_stable_step(NOISY, "AffPCL"), "`algorithm` must be one of AffPCL, "),
        (lambda: largest_stable_step(NOISY, batch_size=0), "`batch_size` must be a whole number"),
        (lambda: check_steps(NOISY, -0.1), "`alpha` must be a number"),
        (lambda: check_steps(NOISY, True), "`alpha` must be a number"),
        (lambda: check_steps(NOISY, 0.1, FedAvg), "`algorithm` must be one of"),
        (lambda: check_steps(3, 0.1), "`system` must be a FiniteSystem"),
        (lambda: check_steps(NOISY, Steps(0.1, x=(1.0,))), r"`x` must have shape \(2,\)"),
    ],
)
def test_input_that_cannot_be_used(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
