"""The exact engine against 50-digit arithmetic, at times where the obvious methods have lost their
digits."""

from __future__ import annotations

from functools import lru_cache

import mpmath
import numpy as np
import pytest

from linsys import FiniteSystem
from linsys.algorithms import AffPCL, FedAvg, Independent, Start, Steps, StepSizes
from linsys.moments import exact_moments
from linsys.moments._doubling import propagate
from linsys.moments.halfvec import pack
from linsys.oracle import LinearObservation

TOLERANCE = 1e-12
BILLION = 10**9
mpmath.mp.dps = 50
precise = np.vectorize(mpmath.mpf, otypes=[object])


def dyadic(rng, n, states):
    """Distributions that sum to one exactly, so that both sides mean the same system to the last
    digit."""
    return (1 + rng.multinomial(64 - states, np.full(states, 1 / states), n)) / 64


def random_system(seed, d, n=2, states=3, spread=0.3):
    rng = np.random.default_rng(seed)
    return FiniteSystem(
        A=np.eye(d) + spread * rng.uniform(-1, 1, (states, d, d)),
        Phi=np.eye(d) + spread * rng.uniform(-1, 1, (states, d, d)),
        b=rng.standard_normal((n, states, d)),
        mu=dyadic(rng, n, states),
    )


def stiff_system():
    """Abar has condition number 100 and is turned: a slow direction hides behind a fast one."""
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    A = turn @ np.array([[0.02, 0.05], [0.0, 2.0]]) @ turn.T
    return FiniteSystem(
        A=A * rng.uniform(0.5, 1.5, (3, 1, 1)),
        Phi=np.eye(2) * rng.uniform(0.5, 1.5, (3, 1, 1)),
        b=rng.standard_normal((2, 3, 2)),
        mu=dyadic(rng, 2, 3),
    )


def defective_system():
    """Abar^i = Phibar^i = [[1, 1], [0, 1]]: a Jordan block in each module, and the same in all."""
    jordan = np.array([[1.0, 1.0], [0.0, 1.0]])
    matrices = np.stack([0.5 * jordan, 1.5 * jordan])
    return FiniteSystem(
        A=matrices,
        Phi=matrices,
        b=np.random.default_rng(3).standard_normal((2, 2, 2)),
        mu=np.full((2, 2), 0.5),
    )


IMPLICIT = AffPCL(center="implicit")


def one_round(system, algorithm, sizes, states, x, center, theta):
    """The reference algorithm itself, in 50-digit arithmetic, on given states."""
    rho = precise(system.mu) / (precise(system.mu).sum(0) / system.n)
    seen = LinearObservation(
        A=precise(system.A[states]),
        Phi=precise(system.Phi[states]),
        b=precise(system.b[np.arange(system.n), states]),
        rho=rho[:, states],
    )
    state = algorithm.init(Start(np.zeros((system.n, system.d)), np.zeros(system.d)))
    if isinstance(algorithm, AffPCL):
        state = state._replace(x=x, center=center[None], theta=theta[None])
    elif isinstance(algorithm, FedAvg):
        state = state._replace(center=x[:1], like=x)
    else:
        state = state._replace(x=x)
    state = algorithm.update(state, [seen], sizes)
    if algorithm == IMPLICIT:
        return [state.theta[0], state.x[1], state.x[0]]
    if isinstance(algorithm, AffPCL):
        return [state.theta[0], state.center[0], state.x[0]]
    return [algorithm.personal(state)[0]]


@lru_cache
def reference_error(name, algorithm, t, alpha):
    """E||x_t^1 - x_*^1||^2 to about 40 digits, from every sample of a round of two agents.

    y = (theta, x^c, x^1, 1), with x^2 for x^c where the centre is implicit, or (x, 1).
    """
    system = SYSTEMS[name]
    d = system.d
    modules = 3 if isinstance(algorithm, AffPCL) else 1
    size = modules * d + 1
    a, b = np.triu_indices(size)
    sizes = StepSizes(alpha, alpha, alpha, alpha)
    total = precise(np.zeros((a.size, a.size)))
    for states in np.ndindex(system.n_states, system.n_states):
        probability = mpmath.fprod(mpmath.mpf(system.mu[i, s]) for i, s in enumerate(states))
        # Columns of the affine map of one round, from its values at 0 and at the unit vectors.
        values = []
        for unit in np.eye(size):
            y = precise(np.append(unit[:-1], [0.0] * (3 * d - (size - 1))))
            point = y[-d:] if modules == 3 else y[:d]
            # The other agent's point matters to the implicit centre only, where it is in y.
            x = np.stack([point, y[d : 2 * d]])
            out = one_round(system, algorithm, sizes, list(states), x, y[d : 2 * d], y[:d])
            values.append(np.concatenate(out))
        maps = precise(np.zeros((size, size)))
        maps[-1, -1] = mpmath.mpf(1)
        maps[:-1, -1] = values[-1]
        maps[:-1, :-1] = np.stack(values[:-1], axis=1) - values[-1][:, None]
        off = np.where(a != b, 1, 0)
        pair = maps[a[:, None], a] * maps[b[:, None], b]
        pair = pair + off * maps[a[:, None], b] * maps[b[:, None], a]
        total = total + probability * pair
    mean = precise(system.mu[0])
    A_bar = mpmath.matrix(np.tensordot(mean, precise(system.A), axes=1).tolist())
    b_bar = mpmath.matrix((mean @ precise(system.b[0])).tolist())
    target = np.array(list(mpmath.lu_solve(A_bar, b_bar)), dtype=object)
    start = precise(np.eye(size)[-1])
    moments = start[a] * start[b]
    while t:
        if t & 1:
            moments = total @ moments
        t >>= 1
        if t:
            total = total @ total
    S = precise(np.zeros((size, size)))
    S[a, b] = moments
    S[b, a] = moments
    x = slice(size - 1 - d, size - 1)
    return np.trace(S[x, x]) - 2 * target @ S[x, -1] + target @ target


def relative(measured, exact):
    return float(abs((mpmath.mpf(float(measured)) - exact) / exact))


def squaring(X, start, t):
    return np.linalg.matrix_power(np.eye(len(X)) + X, t) @ start


def eigenvectors(X, start, t):
    values, vectors = np.linalg.eig(np.eye(len(X)) + X)
    return (vectors @ (values**t * np.linalg.solve(vectors, start.astype(complex)))).real


def careful_eigenvectors(X, start, t):
    """Eigenvalues of X itself and log1p: good enough as long as there are enough eigenvectors."""
    values, vectors = np.linalg.eig(X)
    grown = np.exp(t * np.log1p(values))
    return (vectors @ (grown * np.linalg.solve(vectors, start.astype(complex)))).real


def horizon_step(system, t):
    """alpha = ln t / (lambda t), the step size of the theory."""
    symmetric = 0.5 * (system.A_bar + np.swapaxes(system.A_bar, 1, 2))
    return float(np.log(t) / (np.linalg.eigvalsh(symmetric).min() * t))


SYSTEMS = {
    "random d=1": random_system(0, 1),
    "random d=2": random_system(1, 2),
    "ill-conditioned": stiff_system(),
    "defective": defective_system(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    "algorithm",
    [AffPCL(), AffPCL(central_direction="estimate"), IMPLICIT, FedAvg(), Independent()],
    ids=["(22-1)", "(22-2)", "implicit", "FedAvg", "independent"],
)
def test_twelve_digits_after_a_billion_steps(name, algorithm):
    """The implicit centre of two agents has a defective mean iteration unless Abar^1 = Abar^2."""
    system = SYSTEMS[name]
    alpha = horizon_step(system, BILLION)
    exact = reference_error(name, algorithm, BILLION, alpha)
    engine = exact_moments(system, algorithm, agents=[0])
    assert relative(engine.at([BILLION], alpha=alpha).error[0, 0], exact) < TOLERANCE


@pytest.mark.parametrize(("t", "alpha"), [(999_999_937, 1e-9), (10**12, 1e-11), (10**12, 0.05)])
def test_twelve_digits_at_other_times(t, alpha):
    """In the transient, at an odd time, at 10^12, and long after the steady state has been
    reached."""
    name, algorithm = "random d=1", AffPCL(central_direction="estimate")
    exact = reference_error(name, algorithm, t, alpha)
    engine = exact_moments(SYSTEMS[name], algorithm, agents=[0])
    assert relative(engine.at([t], alpha=alpha).error[0, 0], exact) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("naive", "name"),
    [
        (squaring, "random d=2"),
        (squaring, "ill-conditioned"),
        (squaring, "defective"),
        (eigenvectors, "random d=2"),
        (eigenvectors, "ill-conditioned"),
        (eigenvectors, "defective"),
        (careful_eigenvectors, "defective"),
    ],
)
def test_the_obvious_methods_miss_it(monkeypatch, naive, name):
    """The check above can fail: the same engine around another way to take powers does not pass
    it."""
    system, algorithm = SYSTEMS[name], AffPCL(central_direction="estimate")
    alpha = horizon_step(system, BILLION)
    exact = reference_error(name, algorithm, BILLION, alpha)
    engine = exact_moments(system, algorithm, agents=[0])
    monkeypatch.setattr(
        "linsys.moments._recursion.propagate",
        lambda X, start, times: np.stack([naive(X, start, int(t)) for t in times]),
    )
    assert relative(engine.at([BILLION], alpha=alpha).error[0, 0], exact) > 100 * TOLERANCE


def noiseless(lam):
    """One state, x_*^i = 1: the squared error is (1 - alpha lam)^{2t} whatever the start of
    theta."""
    one = np.ones((1, 1))
    return FiniteSystem(A=[[[lam]]], Phi=[[[lam]]], b=[[[lam]]] * 2, mu=[one[0]] * 2)


@pytest.mark.parametrize("decay", [1e-3, 1.0, 15.0, 150.0])
def test_exponential_decay_keeps_its_digits(decay):
    """Nothing but the start matters without noise, so what is left of it must be right however
    small."""
    alpha = decay / (0.75 * BILLION)
    exact = (1 - mpmath.mpf(alpha) * mpmath.mpf(0.75)) ** (2 * BILLION)
    for algorithm in (AffPCL(), AffPCL(objective="known"), FedAvg(), Independent()):
        errors = exact_moments(noiseless(0.75), algorithm).at([BILLION], alpha=alpha).error
        assert max(relative(value, exact) for value in errors[0]) < TOLERANCE


@pytest.mark.parametrize(("switch", "decay"), [(0.0, 1.0), (np.inf, 15.0)])
def test_both_forms_of_the_power_are_needed(monkeypatch, switch, decay):
    """P_k from the start loses the small increments; X_k to the end loses the small remainder."""
    alpha = decay / (0.75 * BILLION)
    exact = (1 - mpmath.mpf(alpha) * mpmath.mpf(0.75)) ** (2 * BILLION)
    monkeypatch.setattr("linsys.moments._doubling.SWITCH", switch)
    errors = exact_moments(noiseless(0.75), Independent()).at([BILLION], alpha=alpha).error[0, 0]
    assert relative(errors, exact) > 100 * TOLERANCE


@pytest.mark.parametrize("rate", [1e-9, 3e-8])
def test_one_large_jordan_block(rate):
    """propagate alone, on -rate (I + shift) and an affine column: 1 eigenvector instead of 12."""
    m = 13
    X = np.zeros((m, m))
    X[1:, 1:] = -rate * (np.eye(m - 1) + np.diag(np.ones(m - 2), -1))
    X[1:, 0] = rate * np.linspace(0.5, 2, m - 1)
    start = np.append(1.0, np.linspace(1, -1, m - 1))
    power = precise(X) + precise(np.eye(m))
    exact, t = precise(start), BILLION
    while t:
        exact = power @ exact if t & 1 else exact
        t >>= 1
        power = power @ power
    scale = max(abs(exact))
    measured = propagate(X, start, np.array([BILLION]))[0]
    assert float(max(abs(precise(measured) - exact)) / scale) < TOLERANCE
    broken = careful_eigenvectors(X, start, BILLION)
    assert not float(max(abs(precise(broken) - exact)) / scale) < TOLERANCE


def test_steps_one_by_one_keep_their_digits():
    """A million steps, each far below the digits of what it is added to, against doubling."""
    system, alpha, t = SYSTEMS["random d=1"], 2e-8, 10**6
    engine = exact_moments(system, AffPCL(), steps=Steps.constant(alpha))
    stepped, doubled = engine.run([t // 3, t]), engine.at([t // 3, t])
    np.testing.assert_allclose(stepped.moments, doubled.moments, rtol=1e-14, atol=1e-22)
    # Without compensation the same loop is off by more: the tolerance is not a loose one.
    view = engine.views[0]
    plain = view.start.copy()
    X = view.recursion.generator(alpha)
    for _ in range(t // 10):
        plain = plain + X @ plain
    exact = pack(view.recursion.at(view.start, np.array([t // 10]), alpha)[0])
    assert np.abs(plain / exact - 1).max() > 1e-14
