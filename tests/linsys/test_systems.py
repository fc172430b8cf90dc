"""Finite and Gaussian systems: bad input, closed forms against samples and quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from numpy.polynomial.hermite_e import hermegauss

from linsys import FiniteSystem, GaussianSystem, InputError, sample_gaussian_system
from linsys.validate import (
    check_choice,
    check_integer,
    check_number,
    distributions,
    increasing_times,
    positive_definite_symmetric_part,
    real_array,
)

#: Standard errors within which a mean of many samples lies, except with probability 2e-9.
SPREAD = 6.0


def finite(seed=0, n=3, states=4, d=2, mu=None):
    rng = np.random.default_rng(seed)
    return FiniteSystem.from_objectives(
        A=3 * np.eye(d) + rng.standard_normal((states, d, d)) / 2,
        Phi=3 * np.eye(d) + rng.standard_normal((states, d, d)) / 2,
        theta=rng.standard_normal((n, d)),
        mu=rng.dirichlet(np.ones(states), size=n) if mu is None else mu,
    )


def gaussian(seed=0, n=3, d=2, scale=0.7):
    rng = np.random.default_rng(seed)
    return GaussianSystem(
        means=scale * rng.standard_normal((n, d)),
        theta=rng.standard_normal((n, d)),
        A_base=np.eye(d) + 0.1 * rng.standard_normal((d, d)),
        Phi_base=np.eye(d) + 0.1 * rng.standard_normal((d, d)),
    )


BOTH = pytest.mark.parametrize("make", [finite, gaussian])


def within(samples, exact, shrink=1.0):
    """Whether a sample mean over axis 0 is the exact one, up to SPREAD standard errors."""
    gap = np.abs(samples.mean(axis=0) - exact)
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return bool((gap <= shrink * SPREAD * error + 1e-12).all())


# Checks of single values.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"`x` must have shape \(n, 2\); found \(2,\)"),
        (np.ones((3, 1)), r"`x` must have shape \(n, 2\).*; found \(3, 1\)"),
        (np.ones((0, 2)), r"`x` must not be empty; found shape \(0, 2\)"),
        ([[1.0, np.nan]], r"`x` must be finite; found nan at index \(0, 1\)"),
        ([[-np.inf, 1.0]], r"`x` must be finite; found -inf at index \(0, 0\)"),
        ([[True, False]], "`x` must hold real numbers; found dtype bool"),
        ([["a", "b"]], "`x` must hold real numbers; found dtype <U1"),
        ([[1j, 2.0]], "`x` must hold real numbers; found dtype complex128"),
        (None, "`x` must be a rectangular array of numbers; found None"),
        ([[1.0], [1.0, 2.0]], r"`x` must be a rectangular array of numbers; found \[\[1.0\]"),
    ],
)
def test_arrays_are_checked(value, message):
    with pytest.raises(InputError, match=message) as caught:
        real_array("x", value, ("n", 2))
    assert "\n" not in str(caught.value)


def test_arrays_are_copied_and_cannot_be_written():
    mine = np.ones((2, 2), dtype=np.float32)
    stored = real_array("x", mine, (2, 2))
    mine[0, 0] = 5.0
    assert stored.dtype == np.float64
    assert stored[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        stored[0, 0] = 2.0


def test_names_of_sizes_are_shared_between_arrays():
    sizes: dict[str, int] = {}
    real_array("a", np.ones((2, 3)), ("n", "d"), sizes)
    assert sizes == {"n": 2, "d": 3}
    with pytest.raises(InputError, match=r"`b` must have shape \(d,\) with d = 3; found \(2,\)"):
        real_array("b", np.ones(2), ("d",), sizes)


def test_distributions_are_checked():
    good = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert distributions("mu", good) is good
    with pytest.raises(
        InputError, match=r"`mu` must be non-negative; found -0.1 at index \(1, 0\)"
    ):
        distributions("mu", np.array([[0.5, 0.5], [-0.1, 1.1]]))
    with pytest.raises(InputError, match=r"row 1 of `mu` must sum to 1; found 0\.9"):
        distributions("mu", np.array([[0.5, 0.5], [0.4, 0.5]]))
    with pytest.raises(InputError, match="must sum to 1"):
        distributions("mu", np.array([[0.5, 0.5 + 2e-9]]))


def test_only_the_symmetric_part_has_to_be_positive_definite():
    turning = np.array([[[0.1, 5.0], [-5.0, 0.1]]])
    assert positive_definite_symmetric_part("M", turning) is turning
    for bad in ([[1.0, 3.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]):
        with pytest.raises(InputError, match=r"the symmetric part of `M`\[1\] must be positive"):
            positive_definite_symmetric_part("M", np.stack([np.eye(2), bad]))


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, [1.0], np.nan, -0.1, 0.0, 2.1])
def test_numbers_are_checked(value):
    with pytest.raises(InputError, match=r"`a` must be a number in \(0, 2\]; found"):
        check_number("a", value, low=0, high=2, low_open=True)
    if isinstance(value, float):
        with pytest.raises(InputError, match=r"in \[-0.05, 0\)"):
            check_number("a", value, low=-0.05, high=0, high_open=True)


def test_numbers_at_closed_ends_pass():
    assert check_number("a", np.float32(2), low=0, high=2) == 2.0
    assert check_number("a", 0, low=0, high=2) == 0.0
    assert isinstance(check_number("a", 1), float)


@pytest.mark.parametrize("value", [True, 1.0, "3", None, 1, 10])
def test_whole_numbers_are_checked(value):
    with pytest.raises(InputError, match="`n` must be a whole number of at least 2 and at most 9"):
        check_integer("n", value, low=2, high=9)
    assert check_integer("n", np.int32(9), low=2, high=9) == 9


def test_choices_are_checked():
    assert check_choice("mode", "fast", ("fast", "slow")) == "fast"
    for value in ("quick", None, 3):
        with pytest.raises(InputError, match="`mode` must be one of fast, slow; found"):
            check_choice("mode", value, ("fast", "slow"))


@pytest.mark.parametrize("value", [[], [1.5], ["a"], [[1, 2]], [True]])
def test_times_have_to_be_whole_numbers(value):
    with pytest.raises(InputError, match="`times` must be a non-empty list of whole numbers"):
        increasing_times(value)


@pytest.mark.parametrize("value", [[2, 1], [1, 1], [-1, 3]])
def test_times_have_to_increase_from_zero(value):
    with pytest.raises(InputError, match="`times` must be strictly increasing and at least 0"):
        increasing_times(value)


def test_one_time_is_a_list_of_one():
    assert increasing_times(5).tolist() == [5]
    assert increasing_times([0, 10**12]).dtype == np.int64


# Bad systems.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.ones((2, 2, 1))}, r"`A` must have shape \(S, d, d\) with .*; found \(2, 2, 1\)"),
        ({"Phi": np.ones((2, 2, 2))}, r"`Phi` must have shape \(S, d, d\) with .*; found"),
        ({"b": np.ones((2, 3, 1))}, r"`b` must have shape \(n, S, d\) with .*; found \(2, 3, 1\)"),
        ({"mu": np.ones((3, 2)) / 2}, r"`mu` must have shape \(n, S\) with .*; found \(3, 2\)"),
        ({"mu": np.ones((2, 2))}, "row 0 of `mu` must sum to 1; found 2"),
        ({"mu": [[0.5, 0.5], [1.5, -0.5]]}, "`mu` must be non-negative"),
        ({"b": np.full((2, 2, 1), np.nan)}, "`b` must be finite; found nan"),
        ({"theta": np.ones((2, 2))}, r"`theta` must have shape \(n, d\)"),
        ({"theta": [[1.0], [3.0]]}, r"`b` must equal Phi\(s\) theta\^i; found a difference of 2"),
        ({"A": [[[1.0]], [[-2.0]]]}, r"`A_bar`\[0\] must be positive definite; found .* -0.5"),
        ({"Phi": -np.ones((2, 1, 1))}, r"`Phi_bar0`\[0\] must be positive definite"),
        ({"psi": np.ones((3, 1))}, r"`psi` must have shape \(S, q\)"),
        ({"b": np.ones((0, 2, 1)), "mu": np.ones((0, 2))}, "`b` must not be empty"),
    ],
)
def test_bad_finite_systems_are_refused(change, message):
    good = {
        "A": np.ones((2, 1, 1)),
        "Phi": np.ones((2, 1, 1)),
        "b": np.ones((2, 2, 1)),
        "mu": np.full((2, 2), 0.5),
    }
    FiniteSystem(**good)
    with pytest.raises(InputError, match=message) as caught:
        FiniteSystem(**{**good, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means": np.ones(2)}, r"`means` must have shape \(n, d\); found \(2,\)"),
        ({"means": np.ones((0, 2))}, "`means` must not be empty"),
        ({"theta": np.ones((2, 2))}, r"`theta` must have shape \(n, d\) with n = 3, d = 2; found"),
        ({"A_base": np.eye(3)}, r"`A_base` must have shape \(d, d\) with d = 2; found \(3, 3\)"),
        ({"Phi_base": np.ones((2, 1))}, r"`Phi_base` must have shape \(d, d\)"),
        ({"A_base": -np.eye(2)}, r"the symmetric part of `A_bar`\[0\] must be positive definite"),
        ({"Phi_base": -np.eye(2)}, r"the symmetric part of `Phi_bar0`\[0\] must be positive"),
        ({"eps_A": -0.1}, r"`eps_A` must be a number in \[0, inf.; found -0.1"),
        ({"eps_b": np.nan}, r"`eps_b` must be a number in \[0, inf.; found nan"),
        ({"eps_b": True}, r"`eps_b` must be a number in \[0, inf.; found True"),
        ({"means": np.full((3, 2), np.inf)}, r"`means` must be finite; found inf"),
    ],
)
def test_bad_gaussian_systems_are_refused(change, message):
    good = {
        "means": np.zeros((3, 2)),
        "theta": np.ones((3, 2)),
        "A_base": np.eye(2),
        "Phi_base": np.eye(2),
    }
    GaussianSystem(**good)
    with pytest.raises(InputError, match=message) as caught:
        GaussianSystem(**{**good, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["n", "d"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True])
def test_sizes_of_a_drawn_system_are_checked(name, value):
    with pytest.raises(InputError, match=f"`{name}` must be a whole number of at least 1"):
        sample_gaussian_system(0, **{name: value})


@pytest.mark.parametrize("name", ["delta_env", "delta_obj", "eps_A", "eps_b", "mean_scale"])
@pytest.mark.parametrize("value", [-0.1, np.nan, "0"])
def test_levels_of_a_drawn_system_are_checked(name, value):
    with pytest.raises(InputError, match=f"`{name}` must be a number in"):
        sample_gaussian_system(0, **{name: value})


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([0, 1], r"`states` must be whole numbers of shape \(..., 3\); found int64 \(2,\)"),
        ([0.0, 1.0, 2.0], r"`states` must be whole numbers .* found float64 \(3,\)"),
        (5, r"`states` must be whole numbers .* found int64 \(\)"),
        ([0, 1, 4], r"`states` must lie in \[0, 4\); found \[0, 4\]"),
        ([-1, 1, 2], r"`states` must lie in \[0, 4\); found \[-1, 2\]"),
    ],
)
def test_finite_states_are_checked(states, message):
    with pytest.raises(InputError, match=message):
        finite().observe(np.asarray(states))
    with pytest.raises(InputError, match=message):
        finite().couple(np.asarray(states), np.random.default_rng(0))


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 3), (4, 2, 2)])
def test_gaussian_states_are_checked(shape):
    with pytest.raises(
        InputError, match=r"`states` must be an array of shape \(..., 3, 2\); found \("
    ):
        gaussian().observe(np.zeros(shape))


# Means and solutions.


@BOTH
def test_solutions_solve_their_equations(make):
    system = make()
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", system.A_bar, system.x_star), system.b_bar, rtol=1e-12
    )
    np.testing.assert_allclose(system.A_bar0 @ system.x_star_central, system.b_bar0, rtol=1e-12)
    np.testing.assert_allclose(
        system.Phi_bar0 @ system.theta_star_central, system.b_bar0, rtol=1e-12
    )
    for average, each in (("A_bar0", "A_bar"), ("Phi_bar0", "Phi_bar"), ("b_bar0", "b_bar")):
        np.testing.assert_allclose(getattr(system, average), getattr(system, each).mean(axis=0))


@BOTH
def test_residuals_have_mean_zero_at_the_solutions(make):
    # 3 residuals of dimension 2 by 3 agents: 18 statements at 2e-9, and 200,000 samples.
    system = make()
    seen = system.observe(system.sample(np.random.default_rng(1), (200_000,)))
    own = seen.residual(system.x_star)
    central = seen.central_residual(system.x_star_central[None], system.theta_star_central[None])
    objective = seen.objective_residual(system.theta_star_central[None])
    assert within(own, 0.0)
    assert within(central.mean(axis=1), 0.0)
    assert within(objective.mean(axis=1), 0.0)
    # The solutions of the other agents would not do.
    assert not within(seen.residual(np.roll(system.x_star, 1, axis=0)), 0.0)


@BOTH
def test_importance_weights_turn_the_mixture_into_one_agent(make):
    # E_{mu^0} rho^i h = E_{mu^i} h, unbiasedness in Section 5.2, with h = 1 and a central residual.
    system = make()
    seen = system.observe(system.sample(np.random.default_rng(2), (200_000,)))
    rho = seen.density_ratio()
    assert rho.shape == (200_000, 3, 3)
    assert rho.min() >= 0
    assert rho.max() <= 3 * (1 + 1e-12)
    np.testing.assert_allclose(rho.mean(axis=1), 1.0, rtol=1e-12)  # the average over i of rho^i
    assert within(rho.mean(axis=2), 1.0)
    x, theta = np.ones((1, 2)), np.array([[1.0, -1.0]])
    h = seen.central_residual(x, theta)
    exact = system.A_bar @ x[0] - system.Phi_bar @ theta[0]
    assert within(np.einsum("rij,rjd->rid", rho, h) / 3, exact)
    assert not within(h.mean(axis=1)[:, None] * np.ones((3, 1)), exact)


def test_gaussian_means_against_quadrature():
    # Degree-2 integrands: three Gauss-Hermite nodes per axis are exact.
    system = gaussian(n=2, d=3)
    nodes, weights = hermegauss(3)
    weights = weights / weights.sum()
    A, Phi = np.zeros((2, 3, 3)), np.zeros((2, 3, 3))
    for pick in itertools.product(range(3), repeat=3):
        s = system.means + nodes[list(pick)]
        outer = s[:, :, None] * s[:, None, :]
        weight = np.prod(weights[list(pick)])
        A += weight * (np.eye(3) + system.eps_A * outer) @ system.A_base
        Phi += weight * (np.eye(3) + system.eps_b * outer) @ system.Phi_base
    np.testing.assert_allclose(system.A_bar, A, rtol=1e-12)
    np.testing.assert_allclose(system.Phi_bar, Phi, rtol=1e-12)
    np.testing.assert_allclose(system.b_bar, np.einsum("nij,nj->ni", Phi, system.theta), rtol=1e-12)


def test_gaussian_residuals_against_explicit_matrices_and_densities():
    system = gaussian()
    rng = np.random.default_rng(3)
    states = system.sample(rng, (4,))
    x, theta = rng.standard_normal((2, 4, 3, 2))
    seen = system.observe(states)
    outer = states[..., :, None] * states[..., None, :]
    A = (np.eye(2) + system.eps_A * outer) @ system.A_base
    Phi = (np.eye(2) + system.eps_b * outer) @ system.Phi_base

    def times(matrices, vectors):
        return np.einsum("rnij,rnj->rni", matrices, vectors)

    b = times(Phi, np.broadcast_to(system.theta, x.shape))
    np.testing.assert_allclose(seen.residual(x), times(A, x) - b, rtol=1e-10)
    np.testing.assert_allclose(
        seen.central_residual(x, theta), times(A, x) - times(Phi, theta), rtol=1e-10
    )
    np.testing.assert_allclose(seen.objective_residual(theta), times(Phi, theta) - b, rtol=1e-10)
    gaps = states[:, None] - system.means[:, None]  # replicate, agent i, sample j
    density = np.exp(-0.5 * (gaps**2).sum(axis=-1))
    np.testing.assert_allclose(
        seen.density_ratio(), density / density.mean(axis=1, keepdims=True), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("dtype", "away", "tolerance"), [(np.float64, 1e5, 1e-9), (np.float32, 1e3, 1e-2)]
)
def test_density_ratios_depend_on_differences_of_means_alone(dtype, away, tolerance):
    """What is left is the rounding of the states themselves."""
    rng = np.random.default_rng(4)
    means, noise = rng.standard_normal((3, 2)), rng.standard_normal((50, 3, 2))
    here, there = (
        GaussianSystem(means + shift, np.ones((3, 2)), np.eye(2), np.eye(2))
        .observe((means + shift + noise).astype(dtype))
        .density_ratio()
        for shift in (0.0, away)
    )
    np.testing.assert_allclose(there, here, rtol=tolerance)


def test_density_ratios_survive_agents_that_are_far_apart():
    system = GaussianSystem([[0.0], [1e3], [-1e3]], np.ones((3, 1)), np.eye(1), np.eye(1))
    seen = system.observe(system.means + 0.3)
    np.testing.assert_allclose(seen.density_ratio(), 3 * np.eye(3), atol=1e-300)


def test_residuals_and_ratios_are_the_same_in_torch():
    system = gaussian()
    states = system.sample(np.random.default_rng(4), (5,))
    ours, theirs = system.observe(states), system.observe(torch.asarray(states))
    x = np.ones((3, 2))
    np.testing.assert_allclose(theirs.residual(torch.asarray(x)).numpy(), ours.residual(x))
    np.testing.assert_allclose(theirs.density_ratio().numpy(), ours.density_ratio())


# Samples and instances.


def test_finite_samples_have_their_frequencies():
    system = finite(mu=np.array([[0.0, 0.2, 0.8, 0.0], [0.25] * 4, [1.0, 0.0, 0.0, 0.0]]))
    states = system.sample(np.random.default_rng(5), (100, 1000))
    assert states.shape == (100, 1000, 3)
    hits = (states.reshape(-1, 3, 1) == np.arange(4)).astype(float)
    assert within(hits, system.mu)  # twelve frequencies at 2e-9; impossible states never occur
    assert not within(hits, np.roll(system.mu, 1, axis=0))


def test_gaussian_samples_have_mean_and_unit_covariance():
    system = gaussian()
    noise = system.sample(np.random.default_rng(6), (100_000,)) - system.means
    assert within(noise, 0.0)
    assert within(noise[..., :, None] * noise[..., None, :], np.eye(2))
    assert not within(noise + 0.05, 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 5))
def test_finite_density_ratios_average_to_one(seed, n, states):
    system = finite(
        seed, n, states, mu=np.random.default_rng(seed).dirichlet(np.full(states, 0.3), size=n)
    )
    visited = system.mu0 > 0
    np.testing.assert_allclose(system.rho.mean(axis=0)[visited], 1.0, rtol=1e-12)
    np.testing.assert_allclose(system.rho @ system.mu0, 1.0, rtol=1e-12)
    assert system.rho.max() <= n * (1 + 1e-12)
    assert (system.rho[:, ~visited] == 0).all()


def test_observing_a_finite_system_looks_up_its_arrays():
    system = finite()
    states = np.array([[3, 0, 2], [1, 1, 1]])
    seen = system.observe(states)
    for r, j in np.ndindex(2, 3):
        s = states[r, j]
        np.testing.assert_array_equal(seen.A[r, j], system.A[s])
        np.testing.assert_array_equal(seen.b[r, j], system.b[j, s])
        np.testing.assert_array_equal(seen.density_ratio()[r, :, j], system.rho[:, s])


def test_objectives_follow_their_weights():
    system = finite()
    np.testing.assert_allclose(system.b[1, 2], system.Phi[2] @ system.theta[1])
    again = FiniteSystem(A=system.A, Phi=system.Phi, b=system.b, mu=system.mu)
    assert again.theta is None
    np.testing.assert_array_equal(again.x_star, system.x_star)


def test_permuting_agents_permutes_solutions_and_keeps_the_centre():
    order = np.array([2, 0, 1])
    system = finite()
    swapped = FiniteSystem.from_objectives(
        A=system.A, Phi=system.Phi, theta=system.theta[order], mu=system.mu[order]
    )
    np.testing.assert_allclose(swapped.x_star, system.x_star[order], rtol=1e-12)
    np.testing.assert_allclose(swapped.x_star_central, system.x_star_central, rtol=1e-12)
    np.testing.assert_allclose(swapped.rho, system.rho[order], rtol=1e-12)
    assert not np.allclose(swapped.x_star, system.x_star)


@pytest.mark.parametrize("seed", [0, 7])
def test_drawn_systems_share_what_the_levels_do_not_change(seed):
    low = sample_gaussian_system(seed, n=5, d=3, delta_env=0.1, delta_obj=0.2)
    high = sample_gaussian_system(seed, n=8, d=3, delta_env=0.4, delta_obj=0.6)
    np.testing.assert_array_equal(low.A_base, high.A_base)
    np.testing.assert_array_equal(low.Phi_base, high.Phi_base)
    np.testing.assert_allclose(4 * low.means, high.means[:5], rtol=1e-12)
    centre = low.theta[0]
    np.testing.assert_array_equal(high.theta[0], centre)
    np.testing.assert_allclose(3 * (low.theta - centre), high.theta[:5] - centre, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(low.means[1:], axis=1), 0.1 * 4)
    np.testing.assert_allclose(np.linalg.norm(low.theta[1:] - centre, axis=1), 0.2)
    assert (low.means[0] == 0).all()
    assert np.linalg.norm(centre) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(low.A_base).min() >= 3  # U'U + d I


def test_options_of_drawn_systems():
    base = {"n": 4, "d": 3, "delta_env": 0.1, "delta_obj": 0.2}
    plain = sample_gaussian_system(3, **base)
    free = sample_gaussian_system(3, **base, anchor_first=False, normalise_theta=False)
    wide = sample_gaussian_system(np.random.default_rng(3), **base, mean_scale=8.0, eps_A=0.0)
    assert np.linalg.norm(free.means[0]) == pytest.approx(0.4)
    np.testing.assert_array_equal(free.means[1:], plain.means[1:])
    unscaled = free.theta[1] - (plain.theta[1] - plain.theta[0])
    length = np.linalg.norm(unscaled)
    assert abs(length - 1.0) > 1e-3
    np.testing.assert_allclose(unscaled / length, plain.theta[0], rtol=1e-12)
    np.testing.assert_allclose(wide.means, 2 * plain.means, rtol=1e-12)
    np.testing.assert_array_equal(wide.A_bar[1], wide.A_base)


def test_systems_cannot_be_changed():
    for system in (finite(), gaussian()):
        with pytest.raises(AttributeError):
            system.theta = np.zeros((3, 2))
        with pytest.raises(ValueError, match="read-only"):
            system.theta[0] = 0.0
