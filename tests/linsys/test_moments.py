"""The exact engine against enumeration, Monte Carlo, itself in other words, and its own limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys import FiniteSystem, InputError, algorithms
from linsys.algorithms import AffPCL, FedAvg, Independent, Steps
from linsys.moments import exact_moments
from linsys.moments._maps import Coordinates, Start, agent_types, sources
from linsys.moments._recursion import MomentRecursion
from linsys.moments.halfvec import pack

AFFPCL = [
    AffPCL(),
    AffPCL(central_direction="estimate"),
    AffPCL(objective="known"),
    AffPCL(objective="known", central_direction="estimate"),
    AffPCL(ratio="none"),
    AffPCL(correction="bias"),
    AffPCL(center="implicit"),
    AffPCL(center="implicit", correction="bias", objective="known"),
]
ALGORITHMS = [*AFFPCL, FedAvg(), Independent()]


def random_system(seed, n=2, states=2, d=2, spread=0.6, linear=False):
    rng = np.random.default_rng(seed)
    Phi = np.eye(d) + spread * rng.uniform(-1, 1, (states, d, d)) / d
    theta = rng.standard_normal((n, d))
    b = np.einsum("sij,nj->nsi", Phi, theta) if linear else rng.standard_normal((n, states, d))
    return FiniteSystem(
        A=np.eye(d) + spread * rng.uniform(-1, 1, (states, d, d)) / d,
        Phi=Phi,
        b=b,
        mu=rng.dirichlet(np.full(states, 3.0), n),
    )


def copies(system, counts):
    """The system in which agent k of ``system`` appears counts[k] times."""
    index = np.repeat(np.arange(system.n), counts)
    return FiniteSystem(A=system.A, Phi=system.Phi, b=system.b[index], mu=system.mu[index])


def starts(system, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((system.n, system.d)), rng.standard_normal(system.d)


def follow(system, algorithm, steps, x0, theta0, states):
    """Run the reference algorithm on given states (rounds, batch, n); yield (x, center, theta) at t
    = 0, 1, .."""
    batch = states.shape[1]
    x = np.broadcast_to(x0, (batch, *x0.shape))
    state = algorithm.init(algorithms.Start(x, np.broadcast_to(theta0, (batch, theta0.size))))
    for t in range(len(states) + 1):
        personal = algorithm.personal(state)
        center = getattr(state, "center", None)
        if isinstance(algorithm, AffPCL) and algorithm.center == "implicit":
            center = personal.mean(axis=-2, keepdims=True)
        yield personal, center, getattr(state, "theta", None)
        if t < len(states):
            state = algorithm.update(state, [system.observe(states[t])], steps.at(t))


def enumerate_paths(system, rounds):
    """Every sample path of ``rounds`` rounds: states (rounds, paths, n) and probabilities
    (paths,)."""
    shape = (rounds, system.n)
    paths = np.array(list(itertools.product(range(system.n_states), repeat=rounds * system.n)))
    states = paths.reshape(-1, *shape)
    probabilities = system.mu[np.arange(system.n), states].prod(axis=(1, 2))
    return np.swapaxes(states, 0, 1), probabilities


def deviations(system, algorithm, path):
    """(theta - theta_*^c, x^c - x_*^c, x^i - x_*^i, 1) as far as the algorithm has them: (paths, n,
    D)."""
    x, center, theta = path
    parts = [x - system.x_star, np.ones((*x.shape[:2], 1))]
    if center is not None:
        parts.insert(0, np.broadcast_to(center - system.x_star_central, x.shape))
    if isinstance(algorithm, AffPCL) and algorithm.objective == "estimated":
        parts.insert(0, np.broadcast_to(theta - system.theta_star_central, x.shape))
    return np.concatenate(parts, axis=-1)


def per_agent(trajectory):
    return trajectory.moments[:, trajectory.kind]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_mean_over_every_sample_path(algorithm, seed):
    """All moments, both averages, with a step size and multipliers per module that change from step
    to step."""
    system, rounds = random_system(seed), 3
    x0, theta0 = starts(system)
    steps = Steps(0.3, offset=1.5, slope=0.7, x=(1.2, 0.7), center=0.8, objective=1.3)
    weights = np.array([0.5, 2.0, 1.0, 3.0])
    states, probabilities = enumerate_paths(system, rounds)
    paths = [
        deviations(system, algorithm, path)
        for path in follow(system, algorithm, steps, x0, theta0, states)
    ]
    run = exact_moments(system, algorithm, steps=steps, x0=x0, theta0=theta0).run(
        range(rounds + 1), weights=weights
    )
    moments = [np.einsum("p,pna,pnb->nab", probabilities, y, y) for y in paths]
    for t in range(rounds + 1):
        share = weights[: t + 1] / weights[: t + 1].sum()
        weighted = np.tensordot(share, moments[: t + 1], axes=1)
        mean = np.tensordot(share, paths[: t + 1], axes=1)
        averaged = np.einsum("p,pna,pnb->nab", probabilities, mean, mean)
        for moment, expected in (
            (run, moments[t]),
            (run.weighted, weighted),
            (run.averaged, averaged),
        ):
            np.testing.assert_allclose(per_agent(moment)[t], expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_doubling_equals_the_mean_over_every_sample_path(algorithm):
    system, rounds, alpha = random_system(2), 3, 0.4
    x0, theta0 = starts(system)
    states, probabilities = enumerate_paths(system, rounds)
    errors = exact_moments(system, algorithm, x0=x0, theta0=theta0).at([0, 1, 2, 3], alpha=alpha)
    for t, path in enumerate(follow(system, algorithm, Steps.constant(alpha), x0, theta0, states)):
        x, center, theta = path
        error = probabilities @ np.square(x - system.x_star).sum(-1)
        np.testing.assert_allclose(errors.error[t], error, rtol=1e-13)
        np.testing.assert_allclose(
            errors.mean_x[t], np.tensordot(probabilities, x, axes=1), atol=1e-13
        )
        if center is None:
            assert errors.central_error is None
            assert errors.mean_center is None
        else:
            gap = np.square(center[:, 0] - system.x_star_central).sum(-1)
            np.testing.assert_allclose(errors.central_error[t], probabilities @ gap, rtol=1e-13)
            np.testing.assert_allclose(
                errors.mean_center[t], probabilities @ center[:, 0], atol=1e-13
            )
        if theta is None or algorithm.objective == "known":
            assert errors.objective_error is None
            assert errors.mean_theta is None
        else:
            gap = np.square(theta[:, 0] - system.theta_star_central).sum(-1)
            np.testing.assert_allclose(errors.objective_error[t], probabilities @ gap, rtol=1e-13)
            np.testing.assert_allclose(
                errors.mean_theta[t], probabilities @ theta[:, 0], atol=1e-13
            )


@pytest.mark.parametrize("broken", ["noise", "ratio", "share", "step"])
def test_enumeration_notices_a_wrong_engine(monkeypatch, broken):
    """The comparison above fails without the covariance of the maps, with rho = 1, a wrong n, a
    step off by 1e-9."""
    system, rounds, alpha = random_system(2), 3, 0.4
    x0, theta0 = starts(system)
    states, probabilities = enumerate_paths(system, rounds)
    *_, (x, _, _) = follow(system, AffPCL(), Steps.constant(alpha), x0, theta0, states)
    error = probabilities @ np.square(x - system.x_star).sum(-1)
    algorithm = AffPCL(ratio="none") if broken == "ratio" else AffPCL()
    other = copies(system, [1, 2]) if broken == "share" else system
    if broken == "noise":
        monkeypatch.setattr("linsys.moments._recursion._covariance", lambda *_: 0.0)
    start = np.concatenate([x0, x0[1:]]) if broken == "share" else x0
    engine = exact_moments(other, algorithm, x0=start, theta0=theta0)
    moments = engine.at([rounds], alpha=alpha * (1 + 1e-9 * (broken == "step"))).error[0, :2]
    assert (np.abs(moments / error - 1) > 1e-12).all()


def z_scores(system, algorithm, alpha, times, error_of, replicates=4000):
    """How many standard errors a Monte Carlo estimate of each agent's error lies away from
    ``error_of``."""
    rng = np.random.default_rng(2024)
    states = system.sample(rng, (times[-1], replicates))
    x0, theta0 = starts(system)
    path = list(follow(system, algorithm, Steps.constant(alpha), x0, theta0, states))
    samples = np.stack([np.square(path[t][0] - system.x_star).sum(-1) for t in times])
    return (samples.mean(1) - error_of) / (samples.std(1, ddof=1) / np.sqrt(replicates))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [AFFPCL[0], AFFPCL[1], AFFPCL[6], FedAvg()], ids=str)
def test_equals_monte_carlo_within_standard_errors(algorithm):
    """12 comparisons at 6 standard errors: a correct engine fails with probability below 12 * 2e-9
    (normal tails)."""
    system, times, alpha = random_system(5, n=4, states=6, d=2), [5, 30, 60], 0.1
    x0, theta0 = starts(system)
    exact = exact_moments(system, algorithm, x0=x0, theta0=theta0).at(times, alpha=alpha).error
    assert np.abs(z_scores(system, algorithm, alpha, times, exact)).max() < 6
    assert np.abs(z_scores(system, algorithm, alpha, times, 1.25 * exact)).max() > 6


def test_one_type_costs_the_same_for_any_number_of_agents():
    """Same number of recursions of the same size, and not even more terms in them."""
    kind = random_system(0, n=1, states=5)
    for algorithm in (AffPCL(), AffPCL(central_direction="estimate"), FedAvg(), Independent()):
        shapes = []
        for n in (3, 3000):
            system = copies(kind, [n])
            engine = exact_moments(system, algorithm)
            at = Coordinates.of(algorithm, Start(np.zeros((n, 2)), np.zeros(2), np.zeros(2)), (0,))
            step = Steps.constant(1.0).at(0)._replace(x=np.ones(n))
            counts = [s.count for s in sources(system, algorithm, step, at, agent_types(system))]
            moments = engine.at([0, 10], alpha=0.1)
            shapes.append(
                (len(engine.views), engine.views[0].start.shape, moments.moments.shape, len(counts))
            )
            assert sum(counts) == (1 if algorithm == Independent() else n)
            assert moments.error.shape == (2, n)
        assert shapes[0] == shapes[1]


def test_all_times_share_the_squarings(monkeypatch):
    engine = exact_moments(random_system(0), FedAvg())
    calls = []
    multiply = np.matmul
    monkeypatch.setattr(np, "matmul", lambda *a, **k: calls.append(1) or multiply(*a, **k))
    engine.at(np.unique(np.geomspace(1, 10**9, 60).astype(int)), alpha=1e-9)
    assert len(calls) == 29


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), algorithm=st.sampled_from(ALGORITHMS))
def test_permuting_agents_permutes_results(seed, algorithm):
    system = random_system(seed, n=3)
    x0, theta0 = starts(system)
    order = np.random.default_rng(seed).permutation(3)
    moved = FiniteSystem(A=system.A, Phi=system.Phi, b=system.b[order], mu=system.mu[order])
    steps = Steps(0.1, x=(1.0, 0.8, 1.1))
    moved_steps = Steps(0.1, x=tuple(np.array(steps.x)[order].tolist()))
    one = exact_moments(system, algorithm, steps=steps, x0=x0, theta0=theta0).at([3, 40])
    two = exact_moments(moved, algorithm, steps=moved_steps, x0=x0[order], theta0=theta0).at(
        [3, 40]
    )
    np.testing.assert_allclose(two.error, one.error[:, order], rtol=1e-11)
    assert not np.allclose(two.error, one.error[:, np.roll(order, 1)], rtol=1e-6)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), t=st.integers(0, 10**6))
def test_one_agent_learns_independently(seed, t):
    """rho = 1 and c^1 = h^1: AffPCL and FedAvg of one agent are independent learning, sample path
    by sample path."""
    system = random_system(seed, n=1, states=3)
    x0, theta0 = starts(system)
    alone = exact_moments(system, Independent(), x0=x0).at([t], alpha=0.05).error
    others = [AffPCL(), AffPCL(central_direction="estimate"), AffPCL(center="implicit"), FedAvg()]
    for algorithm in others:
        errors = exact_moments(system, algorithm, x0=x0, theta0=theta0).at([t], alpha=0.05).error
        np.testing.assert_allclose(errors, alone, rtol=1e-10)
    wrong = exact_moments(copies(system, [2]), FedAvg(), x0=x0[0]).at([t], alpha=0.05).error
    assert t == 0 or not np.allclose(wrong[:, :1], alone, rtol=1e-6)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), t=st.integers(1, 10**9))
def test_equal_agents_that_know_the_objective_are_fedavg(seed, t):
    """With x^i = x^c and h^i = g^i the round of x^i is that of x^c. It needs b(s) = Phi(s) theta on
    every state: an objective still being estimated, or one that is no Phi theta, leaves the noise
        of Phi(s) theta - b(s)."""
    system = copies(random_system(seed, n=1, states=3, linear=True), [4])
    fedavg = exact_moments(system, FedAvg()).at([t], alpha=0.05).error
    for known in (AffPCL(objective="known"), AffPCL(objective="known", correction="bias")):
        errors = exact_moments(system, known).at([t], alpha=0.05).error
        np.testing.assert_allclose(errors, fedavg, rtol=1e-10)
    learnt = exact_moments(system, AffPCL(), theta0=system.theta_star_central)
    np.testing.assert_allclose(learnt.at([t], alpha=0.05).error, fedavg, rtol=1e-8)
    learning = exact_moments(system, AffPCL())
    assert not np.allclose(learning.at([20], alpha=0.05).error, fedavg, rtol=1e-6)
    np.testing.assert_allclose(
        learning.stationary(0.05).error,
        exact_moments(system, FedAvg()).stationary(0.05).error,
        rtol=1e-8,
    )
    other = copies(random_system(seed, n=1, states=3), [4])
    for_other = exact_moments(other, AffPCL(objective="known")).stationary(0.05).error
    assert (for_other > exact_moments(other, FedAvg()).stationary(0.05).error).all()


@settings(max_examples=20)
@given(first=st.integers(0, 10**12), second=st.integers(0, 10**12), rate=st.floats(-12, -1))
def test_steps_add_up(first, second, rate):
    """t steps and then u more are t + u steps."""
    alpha = 10.0**rate
    engine = exact_moments(random_system(7, n=3, states=4), AffPCL(), agents=[0])
    view = engine.views[0]
    middle, end = view.recursion.at(view.start, np.array([first, first + second]), alpha)
    again = view.recursion.at(pack(middle), np.array([second]), alpha)[0]
    np.testing.assert_allclose(again, end, rtol=1e-11, atol=1e-13 * np.abs(end).max())


def test_one_agents_coordinates_say_the_same_as_everybodys():
    """A uselessly large formulation: the explicit centre on the joint state of all agents."""
    system = copies(random_system(3, n=3), [2, 1, 1])
    x0, theta0 = starts(system)
    step = Steps.constant(1.0).at(0)._replace(x=np.ones(4))
    times = np.array([1, 5, 400])
    for algorithm in (AffPCL(), AffPCL(central_direction="estimate"), AffPCL(correction="bias")):
        at = Coordinates.of(algorithm, Start(x0, x0.mean(0), theta0), range(4))
        joint = MomentRecursion(sources(system, algorithm, step, at, agent_types(system)))
        moments = joint.at(joint.start(at.start), times, 0.1)
        small = exact_moments(system, algorithm, x0=x0, theta0=theta0).at(times, alpha=0.1)
        for i, rows in at.personal.items():
            mean = moments[:, rows, -1] + joint.fixed[rows]
            np.testing.assert_allclose(mean, small.mean_x[:, i], atol=1e-12)
            covariance = moments[:, rows, rows] - np.einsum(
                "ta,tb->tab", moments[:, rows, -1], moments[:, rows, -1]
            )
            bias = small.bias[:, i]
            central = per_agent(small)[:, i, 4:6, 4:6] - np.einsum("ta,tb->tab", bias, bias)
            np.testing.assert_allclose(central, covariance, atol=1e-12)


def test_the_limit_is_reached():
    for algorithm in ALGORITHMS:
        engine = exact_moments(random_system(1, n=3), algorithm)
        late, limit = engine.at([10**6], alpha=0.02), engine.stationary(0.02)
        np.testing.assert_allclose(late.moments, limit.moments, rtol=1e-11, atol=1e-15)


def test_without_importance_correction_agents_end_beside_their_solution():
    """E c^i = E h^i fails for rho = 1 and different environments; the error keeps the squared bias
    as alpha -> 0."""
    system = random_system(4, n=3, states=4)
    for algorithm, biased in (
        (AffPCL(ratio="none"), True),
        (AffPCL(correction="bias"), True),
        (AffPCL(), False),
    ):
        limit = exact_moments(system, algorithm).stationary(1e-10)
        squared = np.square(limit.bias[0]).sum(-1)
        assert ((squared > 1e-6) == biased).all()
        assert np.allclose(limit.error[0], squared, rtol=1e-5, atol=1e-8)
    common = FiniteSystem(A=system.A, Phi=system.Phi, b=system.b, mu=system.mu[:1].repeat(3, 0))
    for algorithm in (AffPCL(ratio="none"), AffPCL(correction="bias"), AffPCL(center="implicit")):
        assert (exact_moments(common, algorithm).stationary(1e-6).bias == 0).all()


def stiff_system(seed, small, common=False):
    """Abar with eigenvalues of order 1 and ``small``, turned for odd seeds, and its own mu."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0] if seed % 2 else np.eye(2)
    scale = np.array([1.0, small]) * rng.uniform(0.5, 1.5, (3, 1))
    mu = rng.dirichlet(np.ones(3), size=2)
    return FiniteSystem.from_objectives(
        A=np.stack([turn @ np.diag(row) @ turn.T for row in scale]),
        Phi=rng.uniform(0.5, 1.5, (3, 1, 1)) * np.eye(2),
        theta=rng.standard_normal((2, 2)) @ np.diag([1.0, small]) @ turn.T,
        mu=mu[[0, 0]] if common else mu,
    )


@pytest.mark.parametrize("small", [1.0, 1e-5, 1e-10])
@pytest.mark.parametrize("seed", range(6))
def test_a_bias_is_told_from_the_rounding_of_ill_conditioned_solves(small, seed):
    """Zero in exact arithmetic is zero; anything else is what the fixed points differ by."""
    system = stiff_system(seed, small)
    common = stiff_system(seed, small, common=True)
    unbiased = [
        (system, AffPCL()),
        (system, AffPCL(central_direction="estimate")),
        (system, Independent()),
        (common, AffPCL(ratio="none")),
        (common, AffPCL(correction="bias")),
        (common, AffPCL(center="implicit")),
    ]
    for instance, algorithm in unbiased:
        for view in exact_moments(instance, algorithm).views:
            assert all((report.matrix[-3:-1, -1] == 0.0).all() for report in view.reports)
    for i, view in enumerate(exact_moments(system, AffPCL(ratio="none")).views):
        gap = view.recursion.fixed[-2:] - system.x_star[i]
        assert (view.reports[0].matrix[-3:-1, -1] == gap).all()
        assert np.abs(gap).max() > 1e-4


@pytest.mark.parametrize("small", [1e-4, 1e-13])
@pytest.mark.parametrize("mutant", [False, True])
def test_bad_conditioning_hides_no_bias(monkeypatch, small, mutant):
    """The bias does not depend on ``small``; a tolerance that grows with cond(A) erases it."""
    if mutant:

        def within_the_solves_error(system, name, i, point, *rest):
            targets = {"theta": system.theta_star_central, "center": system.x_star_central}
            target = targets.get(name, system.x_star[i])
            condition = np.linalg.cond(system.A_bar0)
            scale = np.abs(point).max() + np.abs(target).max()
            return np.abs(point - target).max() <= 16 * np.finfo(float).eps * condition * scale

        monkeypatch.setattr("linsys.moments._views._is_target", within_the_solves_error)
    system = FiniteSystem.from_objectives(
        A=np.stack([np.diag([1.0, small]), np.diag([3.0, small])]),
        Phi=np.stack([np.eye(2), 0.5 * np.eye(2)]),
        theta=[[1.0, small], [1.2, 2 * small]],
        mu=[[0.5, 0.5], [0.45, 0.55]],
    )
    (report,) = exact_moments(system, AffPCL(ratio="none"), agents=[0]).views[0].reports
    truth = report.matrix[-3:-1, -1]
    fedavg = exact_moments(system, FedAvg()).stationary(1e-3).error
    gap = np.square(system.x_star_central - system.x_star).sum(axis=1)
    right = np.allclose(truth, [-0.01674246, -0.01864407], atol=1e-7) and (fedavg >= gap).all()
    assert right == (not mutant or small > 1e-10)


def test_a_tiny_bias_is_kept():
    """Objectives that differ by 1e-9 give a bias of that order, and equal ones give none."""
    A = np.array([[[1.0]], [[3.0]]])
    for difference in (1e-9, 0.0):
        theta = [[1.0], [1.0 + difference]]
        system = FiniteSystem.from_objectives(A=A, Phi=A, theta=theta, mu=[[0.5, 0.5]] * 2)
        limit = exact_moments(system, FedAvg()).stationary(1e-3)
        expected = [difference / 2, -difference / 2]
        rounding = 16 * 2.0**-52 if difference else 0.0  # a few roundings of numbers near 1
        np.testing.assert_allclose(limit.bias[0, :, -1], expected, rtol=0.0, atol=rounding)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_second_moments_converge_up_to_the_stability_limit_and_no_further(algorithm):
    engine = exact_moments(random_system(6, n=2, d=1), algorithm)
    limit = engine.stability_limit
    early, late = engine.at([4000, 8000], alpha=0.99 * limit).error
    assert (late < 1.01 * early).all()
    with pytest.raises(InputError, match=r"`alpha` must be below .*lambda/G_A\^2.*found"):
        engine.at([4000], alpha=1.01 * limit)
    early, late = engine.at([4000, 8000], alpha=1.01 * limit, allow_unstable=True).error
    assert late.max() > 1e6 * early.max()
    with pytest.raises(InputError, match="overflow at t = 1000000"):
        engine.at([1, 10**6], alpha=2 * limit, allow_unstable=True)
    with pytest.raises(InputError, match="below"):
        engine.stationary(1.01 * limit)


def test_one_step_size_per_time():
    engine = exact_moments(random_system(0), AffPCL())
    times = np.array([10, 1000, 10**5])
    alphas = np.log(times) / times
    together = engine.at(times, alpha=alphas)
    for k, (t, alpha) in enumerate(zip(times, alphas, strict=True)):
        assert (together.error[k] == engine.at([t], alpha=alpha).error[0]).all()


@pytest.mark.slow
def test_diminishing_steps_and_their_averages():
    """Lemma D.5: t L~_t stays bounded, the averaged iterate is no worse, and a constant step is the
    other engine."""
    system = random_system(0, n=2, states=3, d=1)
    steps = Steps.diminishing(t0=40, lam=0.5)
    run = exact_moments(system, AffPCL(), steps=steps).run([100, 1000, 10**4, 10**5])
    scaled = run.times[:, None] * run.weighted.error
    assert (scaled[1:] < scaled[:-1]).all()
    assert (run.averaged.error <= run.weighted.error).all()
    assert (run.averaged.error > 0).all()
    explicit = exact_moments(system, AffPCL()).run(
        run.times,
        alphas=[steps.base(t) for t in range(10**5)],
        weights=np.arange(10**5 + 1) + 40.0,
    )
    for one, two in (
        (run, explicit),
        (run.weighted, explicit.weighted),
        (run.averaged, explicit.averaged),
    ):
        np.testing.assert_allclose(one.moments, two.moments, rtol=1e-12, atol=1e-300)
    constant = exact_moments(system, AffPCL(), steps=Steps.constant(0.01))
    np.testing.assert_allclose(
        constant.run([0, 7, 3000]).moments,
        constant.at([0, 7, 3000]).moments,
        rtol=1e-12,
        atol=1e-15,
    )


def test_quadratic_forms_and_single_agents():
    system = copies(random_system(0, n=2), [2, 1])
    errors = exact_moments(system, AffPCL(), agents=[2, 0, 1]).at([0, 9], alpha=0.1)
    weights = np.zeros((7, 7))
    weights[4:6, 4:6] = np.eye(2)
    np.testing.assert_allclose(errors.quadratic(weights), errors.error, rtol=1e-15)
    weights[4:6, 6] = [1.0, 0.0]
    np.testing.assert_allclose(
        errors.quadratic(weights), errors.error + errors.bias[..., 0], rtol=1e-14
    )
    np.testing.assert_array_equal(errors.second_moment(2), errors.moments[:, 0])
    np.testing.assert_array_equal(errors.second_moment(0), errors.second_moment(1))
    assert errors.agents.tolist() == [2, 0, 1]
    with pytest.raises(InputError, match="`agent` must be one of"):
        errors.second_moment(3)


class Estimator:
    def init(self, x0): ...

    def ratio(self, state, seen): ...

    def update(self, state, seen, alpha, active=None): ...


SYSTEM = random_system(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact_moments("system", AffPCL()), "`system` must be a FiniteSystem"),
        (
            lambda: exact_moments(SYSTEM, "AffPCL"),
            "`algorithm` must be AffPCL, FedAvg or Independent",
        ),
        (lambda: exact_moments(SYSTEM, AffPCL(ratio=Estimator())), "`ratio` must be 'known' or"),
        (lambda: exact_moments(SYSTEM, AffPCL(), steps=0.1), "`steps` must be Steps"),
        (lambda: exact_moments(SYSTEM, AffPCL(), agents=[2]), "`agents` must be a whole number"),
        (lambda: exact_moments(SYSTEM, AffPCL(), agents=[]), "at least one agent"),
        (lambda: exact_moments(SYSTEM, AffPCL(), x0=np.zeros((3, 2))), "`x0` must have shape"),
        (lambda: exact_moments(SYSTEM, AffPCL(), theta0=[np.nan, 0]), "`theta0` must be finite"),
        (
            lambda: exact_moments(copies(SYSTEM, [30, 30]), AffPCL(center="implicit")),
            "at most 64 coordinates; found 123",
        ),
        (lambda: exact_moments(SYSTEM, AffPCL()).at([1]), "`alpha` must be given"),
        (lambda: exact_moments(SYSTEM, AffPCL()).run([1]), "`alphas` must be given"),
        (
            lambda: exact_moments(SYSTEM, AffPCL(), steps=Steps.diminishing(t0=1)).at([1]),
            "`alpha` must be given where `steps` diminish",
        ),
        (lambda: exact_moments(SYSTEM, AffPCL()).at([1], alpha=0), "`alpha` must be a number in"),
        (
            lambda: exact_moments(SYSTEM, AffPCL()).at([1, 2], alpha=[0.1]),
            "`alpha` must have shape",
        ),
        (lambda: exact_moments(SYSTEM, AffPCL()).at([1], alpha=[-0.1]), "`alpha` must be positive"),
        (lambda: exact_moments(SYSTEM, AffPCL()).at([2, 1], alpha=0.1), "strictly increasing"),
        (lambda: exact_moments(SYSTEM, AffPCL()).run([10**9]), "at most 20000000 step by step"),
        (lambda: exact_moments(SYSTEM, AffPCL()).run([2], alphas=[0.1]), "at least 2 step sizes"),
        (
            lambda: exact_moments(SYSTEM, AffPCL()).run([1], alphas=[0.1], weights=[0, 0]),
            "`weights` must hold at least 2",
        ),
        (
            lambda: (
                exact_moments(SYSTEM, AffPCL(), agents=[0]).at([1], alpha=0.1).quadratic(np.eye(3))
            ),
            "`matrix` must have shape",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
