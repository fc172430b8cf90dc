"""Each score and constant of a finite system against the paper's formula, written out in loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import sqrtm

import linsys.heterogeneity as het
from linsys import FiniteSystem

N, STATES, D = 3, 4, 2


@pytest.fixture(scope="module", params=range(4))
def system(request):
    rng = np.random.default_rng(request.param)
    mu = rng.dirichlet(np.full(STATES, 0.7), size=N)
    mu[0] = [0.0, 0.0, 0.4, 0.6]
    return FiniteSystem.from_objectives(
        A=3 * np.eye(D) + rng.standard_normal((STATES, D, D)),
        Phi=3 * np.eye(D) + rng.standard_normal((STATES, D, D)),
        theta=rng.standard_normal((N, D)),
        mu=mu,
    )


def length(x):
    return np.linalg.norm(x, 2)


def mean(system, i, f):
    """E_{mu^i} f(s)."""
    return sum(system.mu[i, s] * f(s) for s in range(STATES))


def worst(values):
    return max(values)


def expected(system):
    """Name of a function, arguments -> value by definition."""
    agents, states = range(N), range(STATES)
    pairs = list(itertools.product(agents, agents))
    mu, mu0, b, theta = system.mu, system.mu.mean(axis=0), system.b, system.theta
    A, Phi = system.A, system.Phi
    A_bar = [mean(system, i, lambda s: A[s]) for i in agents]
    Phi_bar = [mean(system, i, lambda s: Phi[s]) for i in agents]
    b_bar = [mean(system, i, lambda s, i=i: b[i, s]) for i in agents]
    x = [np.linalg.inv(A_bar[i]) @ b_bar[i] for i in agents]
    b_bar0 = sum(b_bar) / N
    x_c = np.linalg.inv(sum(A_bar) / N) @ b_bar0
    theta_c = np.linalg.inv(sum(Phi_bar) / N) @ b_bar0
    theta_0, b_0 = theta.mean(axis=0), b.mean(axis=0)

    def rms(k, f):
        return np.sqrt(mean(system, k, lambda s: length(f(s)) ** 2))

    def spread(f):
        """max_k of the root mean squares under mu^k."""
        return worst(rms(k, f) for k in agents)

    def lowest(matrix):
        return np.linalg.eigvalsh((matrix + matrix.T) / 2).min()

    def nu(i, M, M_bar):
        root = mean(system, i, lambda s: sqrtm(M[s].T @ M[s]).real)
        return length(root @ np.linalg.inv(M_bar[i]))

    tv = {(i, j): abs(mu[i] - mu[j]).sum() / 2 for i, j in pairs}
    env_i = [abs(mu[i] - mu0).sum() / 2 for i in agents]
    top_Phi = worst([1.0, *(length(Phi[s]) for s in states)])
    G_b = {
        "objective": worst(length(b[i, s]) for i in agents for s in states),
        "weights": top_Phi * worst([*map(length, theta), length(theta_c)]),
        "second-moment": worst(spread(lambda s, i=i: b[i, s]) for i in agents),
    }
    distance = {
        "objective": lambda f, _: worst(length(f(s)) for s in states),
        "weights": lambda _, v: top_Phi * length(v),
        "second-moment": lambda f, _: spread(f),
    }
    G_x = worst([*map(length, x), length(x_c)])
    G_A = {
        "objective": worst(length(A[s]) for s in states),
        "second-moment": worst(
            np.sqrt(length(mean(system, i, lambda s: A[s].T @ A[s]))) for i in agents
        ),
    }
    G_A["weights"] = G_A["objective"]
    lam = [lowest(A_bar[i]) for i in agents]
    table = {
        ("delta_env",): worst(tv.values()),
        ("delta_env_agent",): env_i,
        ("chi2_agent",): [((1 - mu[i] / mu0) ** 2 * mu0).sum() for i in agents],
        ("density_ratio_bound",): [(mu[i] / mu0).max() for i in agents],
        ("G_x",): G_x,
        ("G_x", False): worst(map(length, x)),
        ("lambda_min",): min(lam),
        ("lambda_agent",): lam,
        ("lambda_b",): lowest(sum(Phi_bar) / N),
        ("lambda_c",): lowest(sum(A_bar) / N),
        ("nu_agent",): [nu(i, A, A_bar) for i in agents],
        ("nu",): worst(nu(i, A, A_bar) for i in agents),
        ("nu_agent", "Phi"): [nu(i, Phi, Phi_bar) for i in agents],
        ("sigma_rms",): [rms(i, lambda s, i=i: A[s] @ x[i] - b[i, s]) for i in agents],
    }
    for name, bound in G_b.items():
        gap = distance[name]
        obj = worst(
            gap(lambda s, i=i, j=j: b[i, s] - b[j, s], theta[i] - theta[j]) for i, j in pairs
        )
        obj_i = [gap(lambda s, i=i: b[i, s] - b_0[s], theta[i] - theta_0) for i in agents]
        cen = [max(env_i[i], length(b_bar[i] - b_bar0) / (2 * bound)) for i in agents]
        scale = 2 * max(G_A[name] * G_x, bound)
        capped = np.minimum(1, table["nu",] * np.array(cen))
        table |= {
            ("G_b", name): bound,
            ("G_A", name): G_A[name],
            ("delta_obj", name): obj / (2 * bound),
            ("delta_obj_agent", name): np.array(obj_i) / (2 * bound),
            ("delta_cen", name): cen,
            ("sigma", name): scale,
            ("kappa", name): scale / min(lam),
            ("kappa_agent", name): scale / np.array(lam),
            ("delta_env_effective",): min(1, table["nu",] * table["delta_env",]),
            ("delta_obj_effective", name): min(1, table["nu",] * obj / (2 * bound)),
            ("delta_cen_effective", name): capped,
            ("predicted_factor", name): np.maximum(1 / N, capped),
        }
    return table


def test_every_function_is_its_definition(system):
    table = expected(system)
    for (name, *arguments), value in table.items():
        result = getattr(het, name)(system, *arguments)
        label = f"{name}{tuple(arguments)}"
        np.testing.assert_allclose(
            np.asarray(getattr(result, "value", result)), value, rtol=1e-10, err_msg=label
        )
        assert result.method == "exact"
    measured = {name for name, *_ in table}
    functions = {n for n in het.__all__ if n[0].islower() or n.startswith("G_")}
    assert functions - measured == {"summary", "view_of", "tv", "chi2", "tv_matrix", "chi2_matrix"}


def test_the_variants_differ(system):
    # So none of the comparisons above could hold for another definition as well.
    table = expected(system)
    for name in ("G_b", "delta_obj"):
        values = [table[name, d] for d in ("objective", "weights", "second-moment")]
        assert min(abs(a - b) for a, b in itertools.combinations(values, 2)) > 1e-6
    assert not np.allclose(table["nu_agent",], table["nu_agent", "Phi"])
