"""Both sides of Lemmas D.1 to D.3 on random systems, against loops over agents and states."""

from __future__ import annotations

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.claims import appendix_d
from experiments.affpcl.theory.stack import FiniteStack
from linsys import FiniteSystem, heterogeneity as het
from linsys.linalg import precise, precision

#: Sums of at most ten terms, through inverses of matrices of condition below a hundred.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
norm = np.linalg.norm


def barely_monotone(matrices, mu):
    """Add the multiple of I that makes min_i lambda_min(sym(E_{mu^i} M)) = 0.05."""
    means = np.einsum("ns,sij->nij", mu, matrices)
    lowest = np.linalg.eigvalsh((means + np.swapaxes(means, 1, 2)) / 2)[:, 0].min()
    return matrices + (0.05 - lowest) * np.eye(matrices.shape[-1])


def random_system(seed, n=3, S=4, d=2):
    """A system with ||Phi(s)|| <= 1; half of them differ little, the others much."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(S, 0.5 if seed % 2 else 10.0), size=n)
    mu /= mu.sum(axis=1, keepdims=True)
    A, Phi = (barely_monotone(rng.standard_normal((S, d, d)), mu) for _ in range(2))
    Phi /= np.linalg.norm(Phi, ord=2, axis=(1, 2)).max()
    theta = (1.0 if seed % 2 else 0.1) * rng.standard_normal((n, d)) + 1
    return FiniteSystem.from_objectives(A=A, Phi=Phi, theta=theta, mu=mu)


def stack_of(*systems):
    fields = ("mu", "A", "Phi", "theta")
    return FiniteStack(**{name: np.stack([getattr(s, name) for s in systems]) for name in fields})


class Plain:
    """One system's constants from :mod:`linsys.heterogeneity`, and means by name of an agent.

    Agent 0 is the average and agents count from one, as in the paper.
    """

    def __init__(self, system):
        self.system, self.n, self.S = system, system.n, system.n_states
        self.env, self.obj = (
            float(het.delta_env(system)),
            float(het.delta_obj(system, "weights")),
        )
        self.env_i = np.asarray(het.delta_env_agent(system))
        self.obj_i = np.asarray(het.delta_obj_agent(system, "weights"))
        self.cen = np.asarray(het.delta_cen(system, "weights"))
        self.G_b, self.G_A = float(het.G_b(system, "weights")), float(het.G_A(system))
        self.sigma = float(het.sigma(system, "weights"))
        self.sigma_agents = float(het.sigma(system, "weights", central=False))
        self.lam = float(het.lambda_min(system, objective=True))
        self.lam_A = float(het.lambda_min(system))
        self.gap_theta = system.theta - system.theta_star_central
        self.gap_x = system.x_star - system.x_star_central

    def average(self, values):
        """f^0, f^1, .., f^n."""
        return [sum(values) / self.n, *values]

    def pairs(self, values, length):
        """length(f^i - f^j) for agents 0 to n."""
        every = self.average(list(values))
        return [[length(f - g) for g in every] for f in every]

    def squares(self, matrices, gap):
        """E_{mu^i} ||M(s) v^i||^2."""
        return [
            sum(self.system.mu[i, s] * norm(matrices[s] @ gap[i]) ** 2 for s in range(self.S))
            for i in range(self.n)
        ]

    def features(self, means, mean0, gap):
        """Both ||E_{mu^i} M v^i|| and ||E_{mu^0} M v^i||."""
        own = [norm(means[i] @ gap[i]) for i in range(self.n)]
        return [own, [norm(mean0 @ gap[i]) for i in range(self.n)]]


def lowest(matrix):
    return np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]


# name -> (measured, bound) of one system; bounds broadcast against what is measured.
PLAIN = {
    "d1a": lambda p: (
        [
            [[norm(f[s] - g[s]) for s in range(p.S)] for g in p.average(list(p.system.b))]
            for f in p.average(list(p.system.b))
        ],
        2 * p.G_b * p.obj,
    ),
    "d1b": lambda p: (
        [
            [norm(p.system.b[i, s] - p.system.b[:, s].mean(axis=0)) for s in range(p.S)]
            for i in range(p.n)
        ],
        2 * p.G_b * p.obj_i[:, None],
    ),
    "d1c": lambda p: (p.pairs(p.system.b_bar, norm), 2 * p.G_b * (p.env + p.obj)),
    "d1d": lambda p: (
        [p.pairs(p.system.b_bar, norm)[0][1:], 2 * p.G_b * p.cen],
        2 * p.G_b * np.minimum(1, np.minimum(p.env_i + p.obj, p.env + p.obj_i)),
    ),
    "d1e": lambda p: (
        p.features(p.system.Phi_bar, p.system.Phi_bar0, p.gap_theta),
        2 * p.sigma * p.cen,
    ),
    "d1f": lambda p: (norm(p.gap_theta, axis=1), 2 * p.sigma * (p.env + p.obj) / p.lam),
    "d1f_sec12": lambda p: (
        norm(p.gap_theta, axis=1),
        2 * p.sigma * (p.env + p.obj) / p.lam_A,
    ),
    "d1f_sharper": lambda p: (
        norm(p.gap_theta, axis=1),
        (1 - 1 / p.n) * 2 * p.G_b * p.obj / lowest(p.system.Phi_bar0),
    ),
    "d1g": lambda p: (
        p.pairs(p.system.A_bar, lambda m: norm(m, 2)),
        2 * p.G_A * p.env,
    ),
    "d1h": lambda p: (
        p.pairs(p.system.A_bar, lambda m: norm(m, 2))[0][1:],
        2 * p.G_A * p.env_i,
    ),
    "d1i": lambda p: (
        p.features(p.system.A_bar, p.system.A_bar0, p.gap_x),
        2 * p.sigma * p.cen,
    ),
    "d1i_sec12": lambda p: (
        p.features(p.system.A_bar, p.system.A_bar0, p.gap_x),
        2 * p.sigma_agents * p.cen,
    ),
    "d1j": lambda p: (norm(p.gap_x, axis=1), 2 * p.sigma * (p.env + p.obj) / p.lam),
    "d1j_sharper": lambda p: (
        norm(p.gap_x, axis=1),
        (1 - 1 / p.n) * p.sigma_agents * (2 * p.env + p.obj) / lowest(p.system.A_bar0),
    ),
    "d2_A": lambda p: (
        p.squares(p.system.A, p.gap_x),
        2 * p.sigma**2 * np.minimum(1, float(het.nu(p.system)) * p.cen),
    ),
    "d2_A_sec12": lambda p: (
        p.squares(p.system.A, p.gap_x),
        2 * p.sigma_agents**2 * np.minimum(1, float(het.nu(p.system)) * p.cen),
    ),
    "d2_A_sharper": lambda p: (
        p.squares(p.system.A, p.gap_x),
        p.sigma**2 * np.minimum(1, 2 * np.asarray(het.nu_agent(p.system)) * p.cen),
    ),
    "d2_Phi": lambda p: (
        p.squares(p.system.Phi, p.gap_theta),
        2 * p.sigma**2 * np.minimum(1, float(het.nu(p.system)) * p.cen),
    ),
    "d2_Phi_universal": lambda p: (
        p.squares(p.system.Phi, p.gap_theta),
        2 * p.sigma**2 * np.minimum(1, float(het.nu(p.system)) * (p.env + p.obj)),
    ),
    "d2_Phi_corrected": lambda p: (
        p.squares(p.system.Phi, p.gap_theta),
        2 * p.sigma**2 * np.minimum(1, float(het.nu(p.system, "Phi")) * p.cen),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n", [1, 3])
def test_both_sides_are_those_of_one_system_after_the_other(name, n):
    systems = [random_system(seed, n=n) for seed in range(5)]
    measured, bound = getattr(appendix_d, name)(stack_of(*systems))
    bound = bound.reshape(*bound.shape, *[1] * (measured.ndim - bound.ndim))
    for k, system in enumerate(systems):
        expected = [np.asarray(side, dtype=float) for side in PLAIN[name](Plain(system))]
        assert measured[k].shape == expected[0].shape
        np.testing.assert_allclose(measured[k], expected[0], **CLOSE)
        every = np.broadcast_to(expected[1], expected[0].shape)
        np.testing.assert_allclose(np.broadcast_to(bound[k], every.shape), every, **CLOSE)


def test_the_systems_have_effective_affinities_below_and_at_one():
    plain = [Plain(random_system(seed)) for seed in range(5)]
    for features in ("A", "Phi"):
        scores = [float(het.nu(p.system, features)) * p.cen for p in plain]
        assert np.min(scores) < 0.5
        assert np.max(scores) > 1


def test_every_function_of_a_stack_is_compared():
    claims = {name for name, value in vars(appendix_d).items() if isinstance(value, rc.Claim)}
    assert claims - {"d3"} == set(PLAIN)


@pytest.mark.parametrize("name", PLAIN)
def test_high_precision_agrees_with_float64(name):
    stack = stack_of(random_system(7))
    with precision(30):
        exact = FiniteStack(**{f: precise(getattr(stack, f)) for f in ("mu", "A", "Phi", "theta")})
        sides = getattr(appendix_d, name)(exact)
        assert all(side.dtype == object for side in sides)
    for side64, side in zip(getattr(appendix_d, name)(stack), sides, strict=True):
        np.testing.assert_allclose(side64, side.astype(float), **CLOSE)


def test_d3_against_the_chi_squares_and_total_variations_of_pairs():
    system = random_system(4, n=4)
    chi2, tv = np.asarray(het.chi2_matrix(system)), np.asarray(het.tv_matrix(system))
    for i, j in np.ndindex(chi2.shape):
        measured, bound = appendix_d.d3(system.mu[i], system.mu[j])
        np.testing.assert_allclose(measured, chi2[i, j], **CLOSE)
        ratio = max((system.mu[i] / system.mu[j]).max(), 1.0)
        np.testing.assert_allclose(bound, ratio * tv[i, j], **CLOSE)


def test_d3_takes_states_that_neither_distribution_has():
    measured, bound = appendix_d.d3(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.0]))
    assert (float(measured), float(bound)) == (1.0, 1.0)


def test_d1d_is_capped_where_both_sums_of_scores_exceed_one():
    ones = np.ones((1, 2, 1, 1))
    stack = FiniteStack(mu=np.eye(2)[None], A=ones, Phi=ones, theta=np.array([[[1.0], [-1.0]]]))
    assert stack.delta_env + stack.delta_obj_agent.min() == 1.5
    assert stack.delta_env_agent.min() + stack.delta_obj == 1.5
    np.testing.assert_allclose(appendix_d.d1d(stack)[1], 2 * stack.G_b[0])
