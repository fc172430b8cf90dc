"""Density-ratio estimators: right in the mean, exact where theory says so, and usable in AffPCL."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys import FiniteSystem, InputError
from linsys.algorithms import (
    AffPCL,
    CoupledRatio,
    FrozenRatio,
    LinearRatio,
    RatioEstimator,
    Sampling,
    ShiftedRatio,
    SparseRatio,
    Steps,
    learn_ratio,
    ratio_gram,
    ratio_weights,
)
from linsys.oracle import FeatureObservation, LinearObservation
from linsys.rounds import rounds
from tests.linsys._asserts import assert_equal_numbers
from tests.linsys._examples import (
    Samples,
    as_torch,
    enumerate_states,
    estimators,
    expectation,
    finite_system,
    seeds,
)

few = settings(max_examples=15)
BASES = {"one-hot": None, "two features": 2, "five features": 5}


def with_basis(seed: int, q: int | None, states: int = 4, **options: Any) -> FiniteSystem:
    """A system with q random non-negative features of norm at most one, or one-hot states."""
    plain = finite_system(seed, states=states, **options)
    if q is None:
        return plain
    psi = np.random.default_rng([seed, 2]).uniform(0, 1, (states, q))
    psi /= np.linalg.norm(psi, axis=1).max()
    return FiniteSystem(plain.A, plain.Phi, plain.b, plain.mu, plain.theta, psi=psi)


def coupling(system: FiniteSystem) -> np.ndarray:
    """P(s^i = s, s^{0,i} = s'), shape (n, S, S), of the maximal coupling."""
    joint = np.zeros((system.n, system.n_states, system.n_states))
    for i in range(system.n):
        kept = np.minimum(system.mu[i], system.mu0)
        lost, gained = system.mu[i] - kept, system.mu0 - kept
        joint[i] = np.diag(kept)
        if lost.sum() > 0:
            joint[i] += np.outer(lost, gained) / lost.sum()
    return joint


def coupled_expectation(system: FiniteSystem, value: Any) -> np.ndarray:
    """E over (s^i, s^{0,i}) of value(observation), one agent's row for each, shape (n, ...)."""
    pairs = np.array(list(itertools.product(range(system.n_states), repeat=2)))
    states = np.broadcast_to(pairs[:, :1], (len(pairs), system.n))
    partners = np.broadcast_to(pairs[:, 1:], (len(pairs), system.n))
    rows = value(system.observe(states, partners))
    weights = coupling(system).reshape(system.n, -1)
    return np.array([np.tensordot(weights[i], rows[:, i], axes=1) for i in range(system.n)])


# --- fixed points -------------------------------------------------------------------------------


@pytest.mark.parametrize("q", BASES.values(), ids=BASES)
@given(seed=seeds)
@few
def test_residuals_have_mean_gram_times_error(q: int | None, seed: int) -> None:
    """E residual^i = E_{mu^0}[psi psi'] (eta^i - eta_*^i) at any eta: zero at eta_*, monotone."""
    system = with_basis(seed, q)
    q = system.features.shape[1]
    eta = np.random.default_rng(seed).standard_normal((3, q))
    gram = ratio_gram(system)
    for estimator in (LinearRatio(q), ShiftedRatio(q), SparseRatio(q, keep=1)):
        star = ratio_weights(system, shifted=estimator.offset == 1.0)
        mean = expectation(system, lambda seen, e=estimator: e.residual(eta, seen))
        assert_equal_numbers(mean, (eta - star) @ gram, type(estimator).__name__)
    coupled = CoupledRatio(q)
    star = ratio_weights(system, shifted=True)
    mean = coupled_expectation(system, lambda seen: coupled.residual(eta, seen))
    assert_equal_numbers(mean, (eta - star) @ gram, "coupled")


class _ClientSide(ShiftedRatio):
    """Broken on purpose: mu^0 by the agent's own sample only."""

    def residual(self, state: Any, seen: Any, active: Any = None) -> Any:
        psi = seen.ratio_features()
        return (1.0 + (psi * state).sum(-1)[..., None]) * psi - psi


def test_an_own_sample_does_not_stand_for_the_average_environment() -> None:
    system = with_basis(1, None)
    star = ratio_weights(system, shifted=True)
    mean = expectation(system, lambda seen: _ClientSide(4).residual(star, seen))
    with pytest.raises(AssertionError, match="client"):
        assert_equal_numbers(mean, np.zeros((3, 4)), "client")


@given(seed=seeds)
@few
def test_one_hot_weights_are_the_density_ratio(seed: int) -> None:
    """Appendix C.2; with another basis they are its projection in L^2(mu^0)."""
    system = with_basis(seed, None)
    assert_equal_numbers(ratio_weights(system), system.rho, "linear")
    assert_equal_numbers(ratio_weights(system, shifted=True), system.rho - 1.0, "shifted")
    other = with_basis(seed, 2)
    error = other.rho - ratio_weights(other) @ other.features.T
    orthogonal = (error * other.mu0) @ other.features
    assert_equal_numbers(orthogonal, np.zeros((3, 2)), "orthogonal error")


def test_one_hot_linear_from_one_and_shifted_are_the_same_estimator() -> None:
    samples = Samples(with_basis(3, None), 50, 3)
    x0, steps = np.zeros((3, 2)), Steps.constant(0.2)
    linear = learn_ratio(LinearRatio(4, start=1.0), x0, samples, steps, 50)
    shifted = learn_ratio(ShiftedRatio(4), x0, samples, steps, 50)
    assert_equal_numbers(linear, 1.0 + shifted, "weights")


def test_shifted_ratios_average_to_one() -> None:
    """sum_i eta^i obeys the recursion of E_{mu^0}[psi psi'] without noise, so it stays zero."""
    samples = Samples(with_basis(4, 2), 50, 4)
    eta = learn_ratio(ShiftedRatio(2), np.zeros((3, 2)), samples, Steps.constant(0.2), 50)
    assert np.abs(eta).max() > 0.01
    assert_equal_numbers(eta.sum(axis=0), np.zeros(2), "sum over agents")


@given(seed=seeds)
@settings(max_examples=5)
def test_estimates_are_unbiased_with_partial_participation(seed: int) -> None:
    """Given that i is active, two of three agents give the mean residual of all three."""
    system = with_basis(seed, None, states=3)
    states, probabilities = enumerate_states(system)
    seen = system.observe(states)
    estimator, eta = ShiftedRatio(3), np.random.default_rng(seed).standard_normal((3, 3))
    full = np.tensordot(probabilities, estimator.residual(eta, seen), axes=1)
    total = np.zeros((3, 3))
    for pair in itertools.combinations(range(3), 2):
        active = np.zeros((3, 1))
        active[list(pair)] = 1.0
        mean = np.tensordot(probabilities, estimator.residual(eta, seen, active), axes=1)
        total[list(pair)] += mean[list(pair)] / 2
    assert_equal_numbers(total, full, "residual")
    alone = np.array([[1.0], [0.0], [0.0]])
    kept = estimator.update(np.broadcast_to(eta, (27, 3, 3)), seen, 0.1, alone)
    np.testing.assert_array_equal(kept, np.broadcast_to(eta, (27, 3, 3)))


# --- the coupled estimator (Example 2) ----------------------------------------------------------


@given(seed=seeds)
@few
def test_the_sampler_is_a_maximal_coupling(seed: int) -> None:
    """Marginals mu^i and mu^0, and P(s^i = s^0) = 1 - TV, of the probabilities behind it."""
    system = with_basis(seed, None)
    joint = coupling(system)
    assert_equal_numbers(joint.sum(axis=2), system.mu, "agents")
    assert_equal_numbers(joint.sum(axis=1), np.tile(system.mu0, (3, 1)), "average")
    distance = 0.5 * np.abs(system.mu - system.mu0).sum(axis=1)
    assert_equal_numbers(np.trace(joint, axis1=1, axis2=2), 1.0 - distance, "together")


def test_coupled_samples_have_the_frequencies_of_the_coupling() -> None:
    """48 frequencies of 200,000 draws within 6 standard errors: false with probability < 1e-6."""
    system, rng = with_basis(5, None), np.random.default_rng(5)
    states = system.sample(rng, (200_000,))
    partners = system.couple(states, rng)
    joint = coupling(system)
    for i in range(3):
        counts = np.zeros((4, 4))
        np.add.at(counts, (states[:, i], partners[:, i]), 1.0 / len(states))
        error = np.sqrt(joint[i] * (1.0 - joint[i]) / len(states))
        assert (np.abs(counts - joint[i]) <= 6.0 * error + 1e-15).all()


def second_moment_at_solution(system: FiniteSystem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E||residual||^2 at eta_* of the coupled and the shifted estimator; the bound; (n,) each."""
    q = system.features.shape[1]
    star = ratio_weights(system, shifted=True)
    coupled = coupled_expectation(
        system, lambda seen: (CoupledRatio(q).residual(star, seen) ** 2).sum(-1)
    )
    shifted = expectation(system, lambda seen: (ShiftedRatio(q).residual(star, seen) ** 2).sum(-1))
    chi2 = ((system.rho - 1.0) ** 2 * system.mu0).sum(axis=1)
    apart = 1.0 - np.trace(coupling(system), axis1=1, axis2=2)
    return coupled, shifted, 2.0 * chi2 + 8.0 * apart


@pytest.mark.parametrize("q", BASES.values(), ids=BASES)
@given(seed=seeds, closeness=st.floats(0.0, 1.0))
@settings(max_examples=25)
def test_the_coupled_estimator_meets_the_bound_of_example_2(
    q: int | None, seed: int, closeness: float
) -> None:
    system = with_basis(seed, q)
    mu = closeness * system.mu0 + (1.0 - closeness) * system.mu
    close = FiniteSystem(system.A, system.Phi, system.b, mu, system.theta, psi=system.psi)
    coupled, _, bound = second_moment_at_solution(close)
    assert (coupled <= bound * (1.0 + 1e-12) + 1e-15).all()


def test_a_tenth_of_the_bound_of_example_2_is_violated_and_independent_samples_break_it() -> None:
    system = with_basis(6, None)
    coupled, _, bound = second_moment_at_solution(system)
    assert (coupled > 0.1 * bound).any()
    mu = 0.999 * system.mu0 + 0.001 * system.mu
    close = FiniteSystem(system.A, system.Phi, system.b, mu, system.theta)
    coupled, shifted, bound = second_moment_at_solution(close)
    assert (coupled < 0.02).all()
    assert (shifted > bound).all()


# --- sparsity (Example 1) -----------------------------------------------------------------------


def sparse_system() -> FiniteSystem:
    """Eight states; two agents differ from mu^0 in states 0 and 1 only, the third not at all."""
    plain = finite_system(7, states=8)
    base = np.full(8, 1 / 8)
    shift = np.zeros(8)
    shift[:2] = 0.08, -0.08
    mu = np.array([base + shift, base - shift, base])
    return FiniteSystem(plain.A, plain.Phi, plain.b, mu, plain.theta)


@pytest.mark.slow
def test_sparse_estimators_recover_the_support() -> None:
    system = sparse_system()
    star = ratio_weights(system, shifted=True)
    x0, samples = np.zeros((3, 2)), Samples(system, 4000, 8)
    steps = Steps.diminishing(t0=60, lam=1 / 8)
    eta = {
        name: e.weights(learn_ratio(e, x0, samples, steps, 4000))
        for name, e in {
            "all": ShiftedRatio(8),
            "two": SparseRatio(8, keep=2),
            "penalty": SparseRatio(8, penalty=0.2),
        }.items()
    }
    for i in range(2):
        np.testing.assert_array_equal(np.flatnonzero(eta["two"][i]), [0, 1])
        np.testing.assert_array_equal(np.flatnonzero(eta["penalty"][i]), [0, 1])
        assert np.count_nonzero(eta["all"][i]) == 8
        assert ((eta["two"][i] - star[i]) ** 2).sum() < ((eta["all"][i] - star[i]) ** 2).sum()
    np.testing.assert_array_equal(eta["penalty"][2], np.zeros(8))


@given(seed=seeds, keep=st.integers(1, 6))
@few
def test_keeping_the_largest_costs_a_factor_two_on_two_supports(seed: int, keep: int) -> None:
    """||H_k(z) - eta|| <= 2 ||(z - eta)_T|| for k-sparse eta and T the union of the supports."""
    rng = np.random.default_rng(seed)
    eta = np.where(np.arange(6) < keep, rng.standard_normal(6), 0.0)
    z = eta + 0.5 * rng.standard_normal(6)
    kept = SparseRatio(6, keep=keep).weights(z[None])[0]
    assert np.count_nonzero(kept) == keep
    union = (eta != 0) | (kept != 0)
    assert np.linalg.norm(kept - eta) <= 2 * np.linalg.norm((z - eta)[union]) + 1e-12


def test_the_penalty_is_a_proximal_step() -> None:
    """argmin_eta ||eta - z||^2 / 2 + l ||eta||_1, by its subgradient condition."""
    z = np.random.default_rng(9).standard_normal((3, 8))
    eta = SparseRatio(8, penalty=0.3).weights(z)
    assert (eta == 0).any()
    assert (np.abs(z[eta == 0]) <= 0.3).all()
    assert_equal_numbers((z - eta)[eta != 0], 0.3 * np.sign(eta[eta != 0]), "subgradient")
    np.testing.assert_array_equal(SparseRatio(8, penalty=0.0).weights(z), z)


# --- convergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", estimators(3))
def test_estimates_converge(name: str) -> None:
    """A fixed path of 2000 rounds; the penalty keeps a bias of its own order."""
    system = finite_system(10)
    estimator = estimators(3)[name]
    if name == "sparse, few":
        estimator = SparseRatio(3, keep=3)
    elif name == "sparse, penalty":
        estimator = SparseRatio(3, penalty=0.005)
    lam = float(np.linalg.eigvalsh(ratio_gram(system))[0])
    samples = Samples(system, 2000, 11)
    steps = Steps.diminishing(t0=40, lam=1.0).synchronised(system, ratio=lam)

    def error(rounds: int) -> float:
        state = learn_ratio(estimator, np.zeros((3, 2)), samples, steps, rounds)
        rho = estimator.offset + estimator.weights(state) @ system.features.T
        return float(np.abs(rho - system.rho).max())

    assert error(2000) < 0.15 < error(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", estimators(3))
def test_affpcl_with_each_estimator_converges(name: str) -> None:
    """A fixed path of 3000 rounds comes within 0.15 of the solutions, from 3 away."""
    system = finite_system(12)
    estimator = estimators(3)[name]
    if name.startswith("sparse"):
        estimator = (
            SparseRatio(3, keep=3) if name == "sparse, few" else SparseRatio(3, penalty=0.01)
        )
    algorithm = AffPCL(ratio=estimator)
    agents = Sampling(Samples(system, 3000, 13), Steps.diminishing(t0=80, lam=0.25))
    start = algorithm.init(system.x_star + 3.0, agents)
    *_, (state, _) = rounds(algorithm, agents, start, 3000)
    assert np.abs(state.x - system.x_star).max() < 0.15


def test_a_learned_ratio_can_be_frozen_and_used_by_affpcl() -> None:
    system = finite_system(14)
    x0, samples = np.zeros((3, 2)), Samples(system, 500, 14)
    for estimator in estimators(3).values():
        state = learn_ratio(estimator, x0, samples, Steps.constant(0.05), 500)
        frozen = FrozenRatio.of(estimator, state)
        seen = samples(0)
        kept = frozen.update(frozen.init(x0), seen, 0.1)
        assert_equal_numbers(frozen.ratio(kept, seen), estimator.ratio(state, seen), "frozen")
    exact = FrozenRatio(system.rho)
    assert_equal_numbers(exact.ratio(exact.init(x0), seen), seen.density_ratio(), "given table")


# --- options and bad input ----------------------------------------------------------------------


@given(seed=seeds)
@few
def test_clipping_projects_the_estimate_only(seed: int) -> None:
    system = finite_system(seed)
    seen = Samples(system, 1, seed)(0)
    eta = 5.0 * np.random.default_rng(seed).standard_normal((3, 3))
    free, clipped = ShiftedRatio(3, clip=False), ShiftedRatio(3, clip=True)
    raw, projected = free.ratio(eta, seen), clipped.ratio(eta, seen)
    np.testing.assert_array_equal(projected, np.clip(raw, 0.0, 3.0))
    exact = seen.density_ratio()
    assert (np.abs(projected - exact) <= np.abs(raw - exact) + 1e-12).all()
    np.testing.assert_array_equal(free.update(eta, seen, 0.1), clipped.update(eta, seen, 0.1))


@pytest.mark.parametrize("estimator", [*estimators(3).values(), FrozenRatio(np.ones((3, 3)))])
def test_estimators_fit_the_protocols_and_any_namespace(estimator: Any) -> None:
    assert isinstance(estimator, RatioEstimator)
    system = finite_system(15)
    seen, x0 = Samples(system, 1, 15)(0), np.zeros((3, 2))
    assert isinstance(seen, FeatureObservation)
    state = estimator.update(estimator.init(x0), seen, 0.1)
    other = estimator.update(estimator.init(as_torch(x0)), as_torch(seen), 0.1)
    rho = estimator.ratio(other, as_torch(seen)).numpy()
    assert_equal_numbers(rho, estimator.ratio(state, seen), "ratio")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearRatio(0), "`q` must be a whole number of at least 1; found 0"),
        (lambda: LinearRatio(2.0), "`q` must be a whole number"),
        (lambda: ShiftedRatio(2, start=float("nan")), "`start` must be a number"),
        (lambda: SparseRatio(3), "exactly one of `keep` and `penalty` must be given; found keep=N"),
        (lambda: SparseRatio(3, keep=1, penalty=0.1), "exactly one of `keep` and `penalty`"),
        (
            lambda: SparseRatio(3, keep=4),
            "`keep` must be a whole number of at least 1 and at most 3",
        ),
        (lambda: SparseRatio(3, penalty=-1.0), "`penalty` must be a number"),
        (lambda: FrozenRatio(np.ones(3)), r"`weights` must have shape"),
        (lambda: FrozenRatio(np.array([[np.inf]])), "`weights` must be finite"),
        (lambda: FrozenRatio(np.ones((2, 2)), offset=float("inf")), "`offset` must be a number"),
        (
            lambda: FrozenRatio(np.ones((2, 2))).init(np.zeros((3, 1))),
            "`weights` must have one row for each of 3 agents; found 2",
        ),
        (
            lambda: learn_ratio(LinearRatio(2), np.zeros(3), lambda t: None, Steps.constant(1), 1),
            "`x0` must have shape",
        ),
        (
            lambda: learn_ratio(
                LinearRatio(2), np.zeros((3, 2)), lambda t: None, Steps.constant(1), -1
            ),
            "`rounds` must be a whole number",
        ),
        (
            lambda: learn_ratio(
                LinearRatio(2), np.zeros((3, 2)), Samples(finite_system(0), 1, 0), Steps(0.1), 1
            ),
            "`psi` must have 2 features, the q of the estimator; found 3",
        ),
        (
            lambda: finite_system(0).couple(np.zeros((3, 2), int), np.random.default_rng(0)),
            r"`states` must be whole numbers of shape \(\.\.\., 3\)",
        ),
        (
            lambda: finite_system(0).observe(np.zeros(3, int), np.full(3, 9)),
            r"`states` must lie in \[0, 3\)",
        ),
        (
            lambda: FiniteSystem(
                *(getattr(finite_system(0), k) for k in ("A", "Phi", "b", "mu", "theta")),
                psi=np.ones((4, 2)),
            ),
            r"`psi` must have shape \(S, q\) with S = 3",
        ),
    ],
)
def test_input_that_cannot_be_used(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_bare_observation_shows_no_features() -> None:
    bare = LinearObservation(A=np.ones((1, 1, 1)), Phi=np.ones((1, 1, 1)), b=np.ones((1, 1)))
    with pytest.raises(InputError, match="`psi_coupled` must be given"):
        bare.coupled_features()
    with pytest.raises(InputError, match="`psi` must be given"):
        bare.ratio_features()
