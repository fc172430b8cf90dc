"""Heterogeneity of Gaussian and finite systems against references that share no code with it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

import linsys.heterogeneity as het
from linsys import FiniteSystem, GaussianSystem, InputError, sample_gaussian_system
from linsys.heterogeneity import Integration, Measured, MeasuredArray, view_of

DEFINITIONS = ("objective", "weights", "second-moment")
PER_AGENT = (
    het.delta_env_agent,
    het.delta_obj_agent,
    het.delta_cen,
    het.chi2_agent,
    het.density_ratio_bound,
    het.nu_agent,
    het.kappa_agent,
    het.lambda_agent,
    het.sigma_rms,
    het.delta_cen_effective,
    het.predicted_factor,
)
SCALARS = (
    het.delta_env,
    het.delta_obj,
    het.delta_env_effective,
    het.delta_obj_effective,
    het.nu,
    het.kappa,
    het.sigma,
    het.G_A,
    het.G_b,
    het.G_x,
    het.lambda_min,
    het.lambda_b,
    het.lambda_c,
)


def gaussian(means, seed=0, eps_A=1.0, eps_b=0.5, spread=0.3):
    means = np.asarray(means, dtype=float)
    n, d = means.shape
    rng = np.random.default_rng(seed)
    turn = rng.standard_normal((d, d))
    return GaussianSystem(
        means=means,
        theta=rng.standard_normal(d) + spread * rng.standard_normal((n, d)),
        A_base=turn @ turn.T + d * np.eye(d) + 0.2 * (turn - turn.T),
        Phi_base=np.eye(d) + 0.1 * turn,
        eps_A=eps_A,
        eps_b=eps_b,
    )


def on_a_grid(system, half_width=9.0, points=400):
    """The Gaussian system as a finite one: its states on a grid, weighted by the densities.

    The trapezoidal rule is exact to rounding for entire integrands of Gaussian decay at steps
    below 1/4; only the kinks of a total variation leave an error of order step^2.
    """
    axes = [
        np.linspace(low - half_width, high + half_width, points)
        for low, high in zip(system.means.min(axis=0), system.means.max(axis=0), strict=True)
    ]
    s = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, system.d)
    mu = np.exp(-0.5 * ((s - system.means[:, None]) ** 2).sum(axis=-1))
    outer = s[:, :, None] * s[:, None, :]
    return FiniteSystem.from_objectives(
        A=(np.eye(system.d) + system.eps_A * outer) @ system.A_base,
        Phi=(np.eye(system.d) + system.eps_b * outer) @ system.Phi_base,
        theta=system.theta,
        mu=mu / mu.sum(axis=1, keepdims=True),
    )


# Closed forms and quadrature.


@pytest.mark.parametrize("gap", [1e-6, 0.3, 2.0, 7.0])
def test_two_gaussians_against_adaptive_integration(gap):
    system = gaussian([[0.0], [gap]])

    def mixture(s):
        return 0.5 * (norm.pdf(s) + norm.pdf(s - gap))

    chi2_reference, _ = quad(
        lambda s: (norm.pdf(s) - mixture(s)) ** 2 / mixture(s),
        -12,
        12 + gap,
        epsabs=1e-14,
        limit=500,
    )
    closed = 2 * norm.cdf(gap / 2) - 1
    np.testing.assert_allclose(float(het.delta_env(system)), closed, rtol=1e-9)
    tv, chi2 = het.delta_env_agent(system), het.chi2_agent(system)
    assert tv.method == chi2.method == "quadrature"
    assert (
        np.abs(np.asarray(tv) - closed / 2) <= tv.error
    ).all()  # mu^1 - mu^0 = (mu^1 - mu^2) / 2
    assert (np.abs(np.asarray(chi2) - chi2_reference) <= chi2.error).all()
    pairwise = np.asarray(het.chi2_matrix(system))
    np.testing.assert_allclose(pairwise, np.expm1(gap**2 * (1 - np.eye(2))), rtol=1e-9)


@pytest.mark.slow
def test_quadrature_of_a_mixture_of_four_against_sign_changes():
    centres = np.array([0.0, 0.4, 1.5, 6.0])
    tv = het.delta_env_agent(gaussian(centres[:, None]))
    grid = np.linspace(-14, 20, 3401)
    for i in range(4):

        def excess(s, i=i):
            return norm.pdf(s - centres[i]) - norm.pdf(s - centres).mean()

        values = np.array([excess(s) for s in grid])
        change = np.flatnonzero(values[:-1] * values[1:] < 0)
        roots = [
            -np.inf,
            *(brentq(excess, grid[k], grid[k + 1], xtol=1e-15) for k in change),
            np.inf,
        ]
        steps = np.diff([norm.cdf(r - centres[i]) - norm.cdf(r - centres).mean() for r in roots])
        assert abs(float(tv[i]) - 0.5 * np.abs(steps).sum()) <= tv[i].error


@pytest.mark.slow
def test_collinear_means_in_space_are_one_dimensional():
    along = np.array([-1.0, 0.2, 0.9])
    direction = np.array([2.0, -1.0, 2.0]) / 3.0
    flat = gaussian(along[:, None])
    embedded = gaussian(along[:, None] * direction + np.array([5.0, 0.0, -3.0]))
    for score in (het.delta_env_agent, het.chi2_agent, het.density_ratio_bound):
        np.testing.assert_allclose(score(embedded), score(flat), atol=1e-9)
    assert het.delta_env_agent(embedded).method == "quadrature"


def test_far_away_agents_are_told_apart_without_underflow():
    system = gaussian([[0.0], [1000.0], [-500.0]])
    np.testing.assert_allclose(het.delta_env_agent(system), 2 / 3, atol=1e-10)
    np.testing.assert_allclose(het.chi2_agent(system), 2.0, atol=1e-9)
    np.testing.assert_allclose(het.density_ratio_bound(system), 3.0, rtol=1e-10)
    assert np.asarray(het.chi2_matrix(system))[0, 1] == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("far", [25.0, 1e4, 1e6])
def test_no_distance_between_agents_hides_one_from_the_quadrature(far):
    two = gaussian([[0.0], [far]])
    np.testing.assert_allclose(het.delta_env_agent(two), 0.5, atol=1e-10)
    np.testing.assert_allclose(het.chi2_agent(two), 1.0, atol=1e-9)
    # next to a pair, rho^i of a third far away is 3 there, and theirs 3/2 of what they are alone
    alone = np.asarray(het.chi2_agent(gaussian([[0.0], [1.0]])))
    three = gaussian([[0.0], [1.0], [far]])
    np.testing.assert_allclose(float(het.delta_env_agent(three)[2]), 2 / 3, atol=1e-10)
    np.testing.assert_allclose(het.chi2_agent(three), [*(1.5 * (alone + 1) - 1), 2.0], atol=1e-9)


@pytest.mark.parametrize("far", [1e2, 1e6])
def test_samples_of_agents_that_are_far_apart_lose_no_digits(far):
    """Two with one mean have half of the mixture each where they are, the others a quarter."""
    means = far * np.array([[1.0, 0.3, 0.1], [0.2, -1.1, 0.7], [0.4, 0.9, -1.3], [1.0, 0.3, 0.1]])
    system = GaussianSystem(means, np.ones((4, 3)), np.eye(3), np.eye(3), eps_A=0.0)
    tv, chi2 = het.delta_env_agent(system), het.chi2_agent(system)
    assert tv.method == "quasi-Monte Carlo"
    np.testing.assert_allclose(tv, [0.5, 0.75, 0.75, 0.5], rtol=1e-9)
    np.testing.assert_allclose(chi2, [1.0, 3.0, 3.0, 1.0], rtol=1e-9)


# Quasi-Monte Carlo and its stated error.


def plane_reference(centres, step=0.02, half_width=8.0):
    """TV and chi^2 of every component to the mixture, by the midpoint rule in the plane."""
    axes = [
        np.arange(low - half_width, high + half_width, step)
        for low, high in zip(centres.min(axis=0), centres.max(axis=0), strict=True)
    ]
    mu = np.stack([norm.pdf(axes[0] - c[0])[:, None] * norm.pdf(axes[1] - c[1]) for c in centres])
    mu0 = mu.mean(axis=0)
    tv = 0.5 * np.abs(mu - mu0).sum(axis=(1, 2)) * step**2
    return tv, ((mu - mu0) ** 2 / mu0).sum(axis=(1, 2)) * step**2


def test_stated_errors_cover_and_are_not_inflated():
    # Thirty-two scrambles: (estimate - truth) / error has about 31 degrees of freedom, and exceeds
    # 8 with probability below 1e-8 each, below 1e-6 for all 64. The reference is good to 1e-5,
    # which is added. Over 64 of them, a root mean square outside [0.6, 1.6] has probability below
    # 1e-6.
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [0.2, 0.9], [-1.5, 0.4]])
    truth = np.stack(plane_reference(centres))
    system = gaussian(centres)
    ratios = []
    for seed in range(8):
        fine = view_of(system, Integration(points=64, scrambles=32, seed=seed))
        intervals = (het.delta_env_agent(fine), het.chi2_agent(fine))
        assert {entry.method for entry in intervals} == {"quasi-Monte Carlo"}
        errors = np.stack([entry.error for entry in intervals])
        gaps = np.abs(np.stack([entry.value for entry in intervals]) - truth)
        assert (gaps <= 8 * errors + 1e-5).all()
        ratios.append(gaps / errors)
    assert 0.6 < np.sqrt(np.mean(np.square(ratios))) < 1.6


def test_more_points_shrink_the_error_faster_than_monte_carlo():
    system = gaussian([[0.0, 0.0], [1.0, 0.0], [0.2, 0.9]])
    coarse, fine = (
        het.delta_env_agent(view_of(system, Integration(points=p))).error.max() for p in (64, 4096)
    )
    assert fine < coarse / 16  # Monte Carlo would gain a factor of 8


# Gaussian system and its finite twin.


@pytest.fixture(scope="module")
def line():
    system = gaussian([[-0.5], [0.0], [1.0]], seed=1)
    return system, on_a_grid(system, points=4000)


@pytest.fixture(scope="module")
def plane():
    system = gaussian([[0.0, 0.0], [0.8, -0.3], [0.1, 1.0]], seed=2)
    return system, on_a_grid(system, half_width=8.0, points=90)


@pytest.mark.parametrize("twin", ["line", "plane"])
def test_closed_forms_match_the_finite_twin(twin, request):
    system, grid = request.getfixturevalue(twin)
    for score in (het.sigma_rms, het.lambda_agent):
        np.testing.assert_allclose(score(system), score(grid), rtol=1e-9)
    for constant in (het.G_x, het.lambda_min, het.lambda_b, het.lambda_c):
        np.testing.assert_allclose(float(constant(system)), float(constant(grid)), rtol=1e-9)
    for constant in (het.G_A, het.G_b, het.sigma, het.kappa, het.delta_obj):
        closed, wanted = (float(constant(s, "second-moment")) for s in (system, grid))
        np.testing.assert_allclose(closed, wanted, rtol=1e-9, err_msg=constant.__name__)
    np.testing.assert_allclose(
        het.delta_obj_agent(system, "second-moment"),
        het.delta_obj_agent(grid, "second-moment"),
        rtol=1e-9,
    )
    np.testing.assert_allclose(het.chi2_matrix(system), het.chi2_matrix(grid), atol=1e-9)


def test_integrals_match_the_finite_twin_on_the_line(line):
    system, grid = line
    np.testing.assert_allclose(het.chi2_agent(system), het.chi2_agent(grid), atol=1e-9)
    # Kinks on a grid of step 0.005: errors of order step^2.
    np.testing.assert_allclose(het.delta_env_agent(system), het.delta_env_agent(grid), atol=1e-4)
    np.testing.assert_allclose(float(het.delta_env(system)), float(het.delta_env(grid)), atol=1e-4)
    np.testing.assert_allclose(het.nu_agent(system), 1.0, rtol=1e-12)
    # The middle agent has its largest ratio between the others, the outer ones at infinity.
    ours, theirs = het.density_ratio_bound(system), het.density_ratio_bound(grid)
    assert float(ours[1]) == pytest.approx(float(theirs[1]), rel=1e-5)
    assert float(theirs[0]) < float(ours[0]) == pytest.approx(3.0)


@pytest.mark.parametrize("features", ["A", "Phi"])
def test_integrals_match_the_finite_twin_in_the_plane(plane, features):
    # 16 scrambles: more than 12 standard errors have probability below 1e-8 with 15 degrees of
    # freedom.
    system, grid = plane
    exact = np.asarray(het.nu_agent(grid, features))
    nu = het.nu_agent(system, features)
    assert nu.method == "quasi-Monte Carlo"
    assert (np.abs(np.asarray(nu) - exact) <= 12 * nu.error + 1e-9).all()
    assert nu.error.max() < 5e-3
    chi2, exact_chi2 = het.chi2_agent(system), np.asarray(het.chi2_agent(grid))
    assert (np.abs(np.asarray(chi2) - exact_chi2) <= 12 * chi2.error).all()


def test_definition_1_on_unbounded_states_is_the_ratio_on_every_ball(line):
    system, _ = line
    for width in (3.0, 9.0):
        # In one dimension the ball [-R, R] is a grid that is symmetric about zero.
        ball = on_a_grid(
            GaussianSystem(system.means * 0, system.theta, system.A_base, system.Phi_base),
            half_width=width,
            points=101,
        )
        for definition in ("objective", "weights"):
            np.testing.assert_allclose(
                float(het.delta_obj(system, definition)), float(het.delta_obj(ball, definition))
            )


def test_noise_at_the_solution_against_samples():
    system = gaussian([[0.0, 0.5, 0.0], [1.0, 0.0, -0.4]], seed=3)
    samples = 200_000
    seen = system.observe(system.sample(np.random.default_rng(0), (samples,)))
    squares = (seen.residual(system.x_star) ** 2).sum(axis=-1)
    spread = squares.std(axis=0) / np.sqrt(samples)
    # A mean of 2e5 terms: 6 standard errors, failure probability about 1e-8.
    exact = np.asarray(het.sigma_rms(system)) ** 2
    assert (np.abs(squares.mean(axis=0) - exact) <= 6 * spread).all()
    assert not (np.abs(squares.mean(axis=0) - exact / 1.1) <= 6 * spread).all()
    assert (np.asarray(het.sigma_rms(system)) <= float(het.sigma(system))).all()


# Largest density ratios.


@pytest.mark.parametrize(
    "centres",
    [
        [[0.0, 0.0], [1.0, 0.0], [-0.5, 1.0], [-0.5, -1.0]],  # the first in the hull of the others
        [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.5]],  # the first on an edge
        [[0.3, 0.0], [0.3, 0.0], [-2.0, 1.0], [0.0, 1.0]],  # a corner shared by two
    ],
)
def test_largest_density_ratio_against_a_search(centres):
    centres = np.asarray(centres)
    bound = het.density_ratio_bound(gaussian(centres))
    radius = np.concatenate([[0.0], np.geomspace(1e-2, 300, 400)])
    angle = np.linspace(0, 2 * np.pi, 2881)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    s = (radius[:, None, None] * circle).reshape(-1, 2)
    log_mu = s @ centres.T - 0.5 * (centres**2).sum(axis=-1)
    searched = searched_ratio(log_mu)
    assert (searched <= np.asarray(bound) + bound.error + 1e-12).all()
    np.testing.assert_allclose(searched, bound, rtol=2e-3)


@pytest.mark.parametrize("height", [1e-3, 1e-8, 1e-12])
def test_a_corner_is_one_however_flat_the_triangle(height):
    """The sup of rho over all states is n at a corner, as no other agent has as much mass there."""
    system = gaussian([[0.0, 0.0], [1.0, 0.0], [0.5, height]])
    np.testing.assert_allclose(het.density_ratio_bound(system), 3.0, rtol=1e-9)


@pytest.mark.parametrize("apart", [1e-6, 2.0, 30.0, 300.0])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_identical_agents_share_a_corner(d, apart):
    """n / m for m agents with one mean at a corner, however far the others are."""
    rng = np.random.default_rng(d)
    for _ in range(5):
        means = apart * rng.standard_normal((2, d))[[0, 1, 0, 0]]
        system = GaussianSystem(means, np.ones((4, d)), np.eye(d), np.eye(d))
        expected = [4 / 3, 4, 4 / 3, 4 / 3]
        np.testing.assert_allclose(het.density_ratio_bound(system), expected, rtol=1e-9)


def searched_ratio(log_mu):
    with np.errstate(over="ignore"):
        totals = [np.exp(log_mu - log_mu[:, i : i + 1]).sum(axis=1).min() for i in range(4)]
    return 4 / np.asarray(totals)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3))
def test_density_ratio_bound_lies_between_one_and_n_and_above_samples(seed, n, d):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((n, d)) * rng.uniform(0, 2)
    system = GaussianSystem(means, np.ones((n, d)), np.eye(d), np.eye(d))
    bound = np.asarray(het.density_ratio_bound(system))
    seen = system.observe(system.sample(rng, (50,))).density_ratio()
    assert (bound >= 1 - 1e-9).all()
    assert (bound <= n * (1 + 1e-9)).all()
    assert (seen.max(axis=(0, 2)) <= bound * (1 + 1e-9)).all()


# Identities of both kinds of system.


def kinds(seed=0):
    rng = np.random.default_rng(seed)
    d, states, n = 2, 4, 4
    finite = FiniteSystem.from_objectives(
        A=3 * np.eye(d) + rng.standard_normal((states, d, d)) / 2,
        Phi=3 * np.eye(d) + rng.standard_normal((states, d, d)) / 2,
        theta=rng.standard_normal((n, d)),
        mu=rng.dirichlet(np.ones(states), size=n),
    )
    return finite, gaussian(rng.standard_normal((n, d)), seed)


@pytest.mark.parametrize("kind", [0, 1])
def test_permuting_agents_permutes_scores(kind):
    system = kinds()[kind]
    order = np.array([2, 0, 3, 1])
    swapped = (
        FiniteSystem.from_objectives(
            A=system.A, Phi=system.Phi, theta=system.theta[order], mu=system.mu[order]
        )
        if kind == 0
        else GaussianSystem(
            system.means[order], system.theta[order], system.A_base, system.Phi_base
        )
    )
    for score in SCALARS:
        first, second = score(system), score(swapped)
        tolerance = 12 * (first.error + second.error) + 1e-9 * abs(first.value)
        assert abs(first.value - second.value) <= tolerance, score.__name__
    for score in PER_AGENT:
        ours, theirs = score(system), score(swapped)
        tolerance = 12 * (ours.error[order] + theirs.error) + 1e-9 * np.abs(theirs.value)
        assert (np.abs(ours.value[order] - theirs.value) <= tolerance).all(), score.__name__
    # The identity permutation would not do.
    assert not np.allclose(het.delta_env_agent(system).value, het.delta_env_agent(swapped).value)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_identical_agents_have_no_heterogeneity(definition):
    one = np.array([[0.3, 0.7]])
    mu = one.repeat(3, axis=0)
    features = np.stack([np.eye(2), 2 * np.eye(2)])
    finite = FiniteSystem.from_objectives(
        A=features, Phi=features, theta=np.full((3, 2), 0.1), mu=mu
    )
    same = GaussianSystem(np.full((3, 2), 0.7), np.full((3, 2), 0.1), np.eye(2), np.eye(2))
    for system in (finite, same):
        assert float(het.delta_env(system)) == float(het.delta_env_agent(system).max()) == 0
        assert float(het.delta_obj(system, definition)) == 0
        assert float(het.delta_obj_agent(system, definition).max()) == 0
        assert float(het.delta_cen(system, definition).max()) == 0
        assert float(het.chi2_agent(system).max()) == 0
        np.testing.assert_allclose(het.density_ratio_bound(system), 1.0, rtol=1e-12)
        np.testing.assert_allclose(het.predicted_factor(system, definition), 1 / 3, rtol=1e-15)


def test_one_agent_alone_gains_nothing():
    single = GaussianSystem(np.ones((1, 2)), np.ones((1, 2)), np.eye(2), np.eye(2))
    report = het.summary(single)
    assert float(report.predicted_factor[0]) == 1.0
    assert float(report.delta_env) == float(report.delta_cen[0]) == 0.0


def test_states_that_nobody_visits_do_not_count():
    finite, _ = kinds()
    padded = FiniteSystem.from_objectives(
        A=np.concatenate([finite.A, [1e6 * np.eye(2)]]),
        Phi=np.concatenate([finite.Phi, [1e6 * np.eye(2)]]),
        theta=finite.theta,
        mu=np.pad(finite.mu, ((0, 0), (0, 1))),
    )
    for score in SCALARS:
        assert float(score(padded)) == pytest.approx(float(score(finite)), rel=1e-12)


def test_scaling_the_features_of_the_objective_changes_nothing():
    # Normalised features are without loss of generality: Phi -> c Phi, theta -> theta / c.
    finite, _ = kinds()
    scaled = FiniteSystem.from_objectives(
        A=finite.A, Phi=7 * finite.Phi, theta=finite.theta / 7, mu=finite.mu
    )
    assert np.linalg.norm(finite.Phi, ord=2, axis=(1, 2)).max() > 1
    for definition in DEFINITIONS:
        np.testing.assert_allclose(
            het.delta_cen(scaled, definition), het.delta_cen(finite, definition), rtol=1e-12
        )
        assert float(het.G_b(scaled, definition)) == pytest.approx(
            float(het.G_b(finite, definition))
        )


def test_positive_semidefinite_or_turned_features_are_aligned():
    # Examples 4 and 5: A(s) = U D(s) with D(s) >= 0 and a constant rotation has nu = 1.
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((3, 2, 2))
    D = roots @ np.swapaxes(roots, 1, 2)
    turn = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    for rotation in (np.eye(2), turn):
        system = FiniteSystem.from_objectives(
            A=rotation @ D, Phi=D, theta=np.ones((2, 2)), mu=rng.dirichlet(np.ones(3), size=2)
        )
        np.testing.assert_allclose(het.nu_agent(system), 1.0, rtol=1e-7)
    # Example 3: rotations by +-phi with mean cos(phi) I have nu = 1 / cos(phi).
    spread = np.stack([turn, turn.T])
    system = FiniteSystem.from_objectives(
        A=spread, Phi=spread, theta=np.ones((1, 2)), mu=[[0.5, 0.5]]
    )
    assert float(het.nu(system)) == pytest.approx(1 / np.cos(0.3))
    constant = gaussian([[0.0, 1.0], [1.0, 0.0]], eps_A=0.0, eps_b=0.0)
    assert het.nu(constant).method == "closed form"
    assert float(het.nu(constant)) == pytest.approx(1.0)


def test_suprema_of_gaussian_features_are_infinite_only_with_noise():
    noisy, constant = gaussian([[0.0, 1.0]]), gaussian([[0.0, 1.0]], eps_A=0.0, eps_b=0.0)
    for definition in ("objective", "weights"):
        assert float(het.sigma(noisy, definition)) == float(het.kappa(noisy, definition)) == np.inf
        assert float(het.G_b(noisy, definition)) == np.inf
        assert np.isfinite(float(het.sigma(constant, definition)))
    assert float(het.G_A(noisy)) < np.inf  # the default: root mean squares where suprema fail
    assert het.summary(noisy).definition == "second-moment"
    assert het.summary(constant).definition == "objective"
    assert float(het.G_A(constant)) == pytest.approx(np.linalg.norm(constant.A_base, ord=2))


def test_predicted_factor_is_equation_9():
    for system in kinds():
        report = het.summary(system)
        wanted = np.maximum(1 / 4, np.minimum(1, float(report.nu) * report.delta_cen.value))
        np.testing.assert_allclose(report.predicted_factor, wanted, rtol=1e-12)


def test_a_system_that_is_finite_in_disguise_is_measured_as_that():
    class Disguised:
        def to_finite_system(self):
            return kinds()[0]

    np.testing.assert_array_equal(
        het.predicted_factor(Disguised()), het.predicted_factor(kinds()[0])
    )


# The objects that carry the numbers.


def test_summary_agrees_with_the_functions_and_writes_json():
    finite, _ = kinds()
    report = het.summary(finite)
    for function in SCALARS:
        assert float(getattr(report, function.__name__)) == float(function(finite))
    for function in PER_AGENT:
        np.testing.assert_array_equal(getattr(report, function.__name__), function(finite))
    table = json.loads(json.dumps(report.to_dict()))
    assert table["delta_env"] == {
        "value": float(het.delta_env(finite)),
        "error": 0.0,
        "method": "exact",
    }
    assert len(table["predicted_factor"]["value"]) == table["n"] == 4


def test_summary_shows_the_first_agents_and_says_how_many_follow():
    text = str(het.summary(sample_gaussian_system(0, n=30, d=1, delta_env=0.1)))
    assert "30 agents, dimension 1, definition 'second-moment'" in text
    assert "... and 6 more agents" in text
    assert "Agents whose bound improves: 30 of 30" in text


def test_a_view_computes_an_integral_once(monkeypatch):
    from linsys.heterogeneity import _mixture

    calls = []
    original = _mixture.divergences
    monkeypatch.setattr(_mixture, "divergences", lambda *a: calls.append(1) or original(*a))
    view = view_of(kinds()[1])
    het.summary(view)
    het.predicted_factor(view)
    assert len(calls) == 1
    assert view_of(view) is view
    assert view_of(view, Integration(points=64)).integration.points == 64


def test_measured_numbers():
    values = MeasuredArray.of([0.2, 0.7], [0.0, 0.01], "quadrature")
    assert values.max() == Measured(0.7, 0.01, "quadrature")
    assert [float(v) for v in values] == [0.2, 0.7]
    assert np.asarray(values, dtype=np.float32).dtype == np.float32
    assert "error at most 0.01" in str(values)
    assert (np.asarray(values) + 1).tolist() == [1.2, 1.7]
    with pytest.raises(ValueError, match="read-only"):
        values.value[0] = 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: het.delta_env("system"), "`system` must be a FiniteSystem, a Gau.* found str"),
        (lambda: het.delta_obj(kinds()[0], "weigths"), "`definition` must be one of objective, w"),
        (lambda: het.nu(kinds()[0], "B"), "`features` must be one of A, Phi; found 'B'"),
        (lambda: Integration(points=100), "`points` must be a power of two; found 100"),
        (lambda: Integration(points=1), "`points` must be a whole number of at least 2; found 1"),
        (lambda: Integration(scrambles=1), "`scrambles` must be a whole number of at least 2"),
        (lambda: Integration(seed=-1), "`seed` must be a whole number of at least 0; found -1"),
        (lambda: het.tv([0.5, 0.5], [1.0]), r"`reference` must have shape \(S,\) with S = 2"),
        (lambda: het.tv([0.5, 0.6], [1.0, 0.0]), "row 0 of `mu` must sum to 1; found 1.1"),
        (lambda: het.chi2([0.5, np.nan], [1.0, 0.0]), "`mu` must be finite; found nan"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_weights_need_weights_and_invertible_features():
    bare = FiniteSystem(
        A=np.ones((1, 1, 1)), Phi=np.ones((1, 1, 1)), b=[[[1.0]], [[2.0]]], mu=np.ones((2, 1))
    )
    for score in (
        het.delta_obj,
        het.delta_obj_agent,
        het.delta_cen,
        het.G_b,
        het.sigma,
        het.summary,
    ):
        with pytest.raises(InputError, match="`theta` must be given for definition 'weights'"):
            score(bare, "weights")
    assert float(het.delta_obj(bare)) == 0.25
    flat = FiniteSystem.from_objectives(
        A=np.ones((2, 1, 1)), Phi=[[[0.0]], [[1.0]]], theta=np.ones((2, 1)), mu=np.eye(2)
    )
    with pytest.raises(InputError, match=r"`Phi_bar`\[0\] must be invertible"):
        het.nu(flat, "Phi")


def test_zero_objectives_do_not_differ():
    silent = FiniteSystem.from_objectives(
        A=np.ones((1, 1, 1)), Phi=np.ones((1, 1, 1)), theta=np.zeros((2, 1)), mu=np.ones((2, 1))
    )
    for definition in DEFINITIONS:
        assert float(het.delta_obj(silent, definition)) == 0.0
        assert float(het.sigma(silent, definition)) == 0.0


def test_divergences_of_two_vectors():
    assert het.tv([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert het.chi2([1.0, 0.0], [0.0, 1.0]) == np.inf
    assert het.chi2([0.5, 0.5], [1.0, 0.0]) == np.inf
    assert het.chi2([1.0, 0.0], [0.25, 0.75]) == pytest.approx(3.0)
