"""Kernels are the algorithms: equal on common samples, whatever the threads, chunks and times."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from linsys import GaussianSystem, InputError, sample_gaussian_system
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    LinearRatio,
    PFedMe,
    Sampling,
    Start,
    Steps,
)
from linsys.kernels import Trajectory, _methods, draw, simulate
from linsys.kernels._gaussian_arrays import gaussian_arrays, turned
from linsys.rounds import rounds
from linsys.systems import FiniteSystem
from tests.linsys._examples import finite_system

#: Rounding of a few hundred operations: what both do in exact arithmetic is the same.
ROUNDING = 1e-12
REPLICATES = 11  # no multiple of the eight lanes
ROUNDS = 12

METHODS: dict[str, Any] = {
    "(8), (22-1)": AffPCL(),
    "(8), (22-2)": AffPCL(central_direction="estimate"),
    "(8), theta known": AffPCL(objective="known"),
    "(8), (22-2), theta known": AffPCL(objective="known", central_direction="estimate"),
    "(8), implicit": AffPCL(center="implicit"),
    "rho = 1": AffPCL(ratio="none"),
    "rho = 1, (22-2)": AffPCL(ratio="none", central_direction="estimate"),
    "(5), (22-1)": AffPCL(correction="bias"),
    "(5), (22-2)": AffPCL(correction="bias", central_direction="estimate"),
    "(5), implicit": AffPCL(correction="bias", center="implicit"),
    "(5), implicit, theta known": AffPCL(correction="bias", center="implicit", objective="known"),
    "independent": Independent(),
    "FedAvg": FedAvg(),
    "fine-tuning": FineTuning(switch=5),
    "fine-tuning from the start": FineTuning(switch=0),
    "pFedMe": PFedMe(regularization=1.5),
    "Ditto": Ditto(regularization=1.5),
    "clustered": Clustered(clusters=3, spread=0.5),
    "one cluster": Clustered(clusters=1),
}
#: Numbers of agents and dimensions; those that fill or overfill a vector of the processor come
#: each time, as do agents and dimensions alone, and the others with the slow tests.
QUICK = [(1, 5), (4, 1), (6, 20), (13, 5)]
SIZES = [
    pytest.param(size, marks=[] if size in QUICK else [pytest.mark.slow])
    for size in ((1, 1), (1, 5), (2, 2), (3, 9), (4, 1), (5, 5), (7, 2), (6, 20), (13, 5))
]


def gaussian(n: int, d: int, seed: int = 1) -> GaussianSystem:
    """A system whose bases are not symmetric."""
    system = sample_gaussian_system(seed, n=n, d=d, delta_env=0.3, delta_obj=0.5)
    turn = np.random.default_rng(seed).standard_normal((2, d, d))
    skew = 0.3 * (turn - turn.swapaxes(-1, -2))
    return replace(
        system, A_base=system.A_base + skew[0], Phi_base=system.Phi_base + skew[1], eps_b=0.7
    )


SYSTEMS = {
    "Gaussian": gaussian,
    "finite": lambda n, d: finite_system(n + d, n=n, d=d, states=4),
}


def schedules(system: Any) -> dict[str, Steps]:
    """Steps at which a few rounds move far without blowing up."""
    alpha = 0.2 / float(np.linalg.norm(system.A_bar, ord=2, axis=(1, 2)).max()) / system.d
    constant = Steps.constant(alpha)
    return {
        "constant": replace(constant, center=0.7, objective=0.6),
        "diminishing": Steps(alpha * 9, offset=9.0, slope=1.0),
        "synchronised": constant.synchronised(system),
    }


def starts(system: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.standard_normal((system.n, system.d)), rng.standard_normal(system.d)


def by_kernel(system: Any, algorithm: Any, steps: Steps, seed: int = 3) -> Trajectory:
    x0, theta0 = starts(system)
    return simulate(
        system,
        algorithm,
        steps=steps,
        times=np.arange(ROUNDS + 1),
        replicates=REPLICATES,
        seed=seed,
        x0=x0,
        theta0=theta0,
        allow_unstable=True,  # pFedMe's and Ditto's r = 15 is large for these few rounds
    )


def by_reference(
    system: Any, algorithm: Any, steps: Steps, seed: int = 3, order: Any = None
) -> Trajectory:
    """The algorithm itself on the kernel's samples, shape (R, T, ...)."""
    x0, theta0 = (np.broadcast_to(v, (REPLICATES, *v.shape)).copy() for v in starts(system))
    samples = draw(system, rounds=ROUNDS, replicates=REPLICATES, seed=seed)
    if order is not None:
        samples = samples[:, :, order]
    errors, central, objective = [], [], []

    def observe(t: int) -> Any:
        return system.observe(samples[t])

    agents = Sampling(observe, steps)
    start = algorithm.init(Start(x0, theta0), agents)
    for state in (start, *(after for after, _ in rounds(algorithm, agents, start, ROUNDS))):
        errors.append(((algorithm.personal(state) - system.x_star) ** 2).sum(-1))
        center = getattr(state, "center", x0[:, :1])
        theta = getattr(state, "theta", x0[:, :1])
        central.append(((center - system.x_star_central) ** 2).sum((-1, -2)))
        objective.append(((theta - system.theta_star_central) ** 2).sum((-1, -2)))
    stacked = (np.stack(v, axis=1) for v in (errors, central, objective))
    return Trajectory(np.arange(ROUNDS + 1), *stacked)


def assert_same_errors(kernel: Trajectory, reference: Trajectory) -> None:
    """Each error within rounding of the largest of its replicate."""
    for name in ("error", "central_error", "objective_error"):
        ours, theirs = getattr(kernel, name), getattr(reference, name)
        if ours is None:
            continue
        assert ours.shape == theirs.shape
        largest = np.abs(theirs).max(axis=tuple(range(1, theirs.ndim)), keepdims=True)
        gap = np.abs(ours - theirs) / largest
        assert gap.max() <= ROUNDING, f"{name} differs by {gap.max():.3g}"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", SYSTEMS)
def test_kernel_is_the_reference(kind: str, size: tuple[int, int], method: str) -> None:
    system = SYSTEMS[kind](*size)
    for steps in schedules(system).values():
        assert_same_errors(
            by_kernel(system, METHODS[method], steps), by_reference(system, METHODS[method], steps)
        )


def symmetric(n: int, d: int) -> GaussianSystem:
    """A system whose vectors the kernel turns; Phi_base is not symmetric."""
    system = sample_gaussian_system(2, n=n, d=d, delta_env=0.3, delta_obj=0.5)
    skew = np.random.default_rng(2).standard_normal((d, d))
    return replace(system, Phi_base=system.Phi_base + 0.3 * (skew - skew.T))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [(6, 11), (5, 20), (3, 33)], ids=str)
def test_kernel_is_the_reference_in_turned_coordinates(size: tuple[int, int], method: str) -> None:
    system = symmetric(*size)
    assert turned(system.A_base)[0] == 1
    steps = schedules(system)["synchronised"]
    assert_same_errors(
        by_kernel(system, METHODS[method], steps), by_reference(system, METHODS[method], steps)
    )


def test_the_basis_is_orthonormal_and_makes_a_band() -> None:
    A = symmetric(2, 20).A_base
    reach, banded, Q = turned(A)
    assert reach == 1
    assert (np.triu(banded, 2) == 0).all()
    assert (banded == banded.T).all()
    # Twenty reflections, each with a few roundings.
    np.testing.assert_allclose(Q.T @ Q, np.eye(20), rtol=0, atol=1e-14)
    np.testing.assert_allclose(Q @ banded @ Q.T, A, rtol=0, atol=1e-14 * np.linalg.norm(A))
    noisy = np.eye(20) + 1e-12 * A  # its entries beside the diagonal might be rounding
    for kept in (A[:10, :10], np.triu(A), np.eye(20), noisy):
        reach, same, Q = turned(kept)
        assert reach == len(kept)
        assert same is kept
        assert (np.eye(len(kept)) == Q).all()


def test_turned_samples_follow_the_normal_law_and_no_chunk() -> None:
    """Kolmogorov's and Smirnov's test, and all second moments."""
    system = symmetric(3, 20)
    whole = draw(system, rounds=40, replicates=50, seed=5)
    for start, stop in ((0, 1), (3, 17), (8, 50)):
        part = draw(system, rounds=40, replicates=stop - start, seed=5, first_replicate=start)
        assert np.array_equal(part, whole[:, start:stop])
    noise = whole - system.means
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest((1.03 * noise).ravel(), "norm").pvalue < 1e-6
    covariance = np.einsum("tria,trib->ab", noise, noise) / noise[..., 0].size
    # The standard deviation of an entry is at most sqrt(2 / 6000).
    assert np.abs(covariance - np.eye(20)).max() < 6 * np.sqrt(2 / 6000)


@pytest.mark.parametrize("kind", SYSTEMS)
@pytest.mark.parametrize(
    "wrong",
    ["step", "center step", "objective step", "agents", "seed", "direction", "ratio", "Phi"],
)
def test_equality_sees_a_planted_change(kind: str, wrong: str) -> None:
    system = SYSTEMS[kind](6, 5)
    algorithm, steps = AffPCL(), schedules(system)["constant"]
    kernel = by_kernel(system, algorithm, steps)
    changed: dict[str, Any] = {"system": system, "algorithm": algorithm, "steps": steps}
    if wrong == "step":
        changed["steps"] = replace(steps, x=1 + 1e-9)
    elif wrong == "center step":
        changed["steps"] = replace(steps, center=steps.center * (1 + 1e-9))
    elif wrong == "objective step":
        changed["steps"] = replace(steps, objective=steps.objective * (1 + 1e-9))
    elif wrong == "agents":
        changed["order"] = [1, 0, 2, 3, 4, 5]
    elif wrong == "seed":
        changed["seed"] = 4
    elif wrong == "direction":
        changed["algorithm"] = AffPCL(central_direction="estimate")
    elif wrong == "ratio":
        changed["algorithm"] = AffPCL(ratio="none")
    else:
        changed["algorithm"] = AffPCL(objective="known")
    with pytest.raises(AssertionError, match="differs"):
        assert_same_errors(kernel, by_reference(**changed))


@pytest.mark.parametrize("kind", SYSTEMS)
@pytest.mark.parametrize("method", ["fine-tuning", "pFedMe", "Ditto", "clustered"])
def test_equality_sees_a_change_of_a_baseline(kind: str, method: str) -> None:
    system = SYSTEMS[kind](6, 5)
    steps = schedules(system)["constant"]
    other = {
        "fine-tuning": FineTuning(switch=6),
        "pFedMe": PFedMe(regularization=1.5 * (1 + 1e-7)),
        "Ditto": Ditto(regularization=1.5 * (1 + 1e-7)),
        "clustered": Clustered(clusters=3, spread=0.5, seed=1),
    }[method]
    with pytest.raises(AssertionError, match="differs"):
        assert_same_errors(
            by_kernel(system, METHODS[method], steps), by_reference(system, other, steps)
        )


@pytest.mark.parametrize("apart", [1.0, 14.0, 15.0, 40.0])
@pytest.mark.parametrize("away", [0.0, 20.0])
def test_means_far_apart_have_next_to_no_ratio(apart: float, away: float) -> None:
    """Ratios underflow between most pairs of agents; nothing becomes NaN and equality holds."""
    means = apart * np.arange(12.0).reshape(6, 2) / 12
    system = GaussianSystem(means + away, np.ones((6, 2)) + means, np.eye(2), np.eye(2))
    arrays, *_ = gaussian_arrays(system)
    assert arrays.far == (apart > 14)
    if apart == 40:
        assert system.observe(means + away).density_ratio().min() < 1e-300
    steps = schedules(system)["constant"]
    assert_same_errors(by_kernel(system, AffPCL(), steps), by_reference(system, AffPCL(), steps))


def assert_same_bits(one: Trajectory, two: Trajectory) -> None:
    for name in ("error", "central_error", "objective_error"):
        ours, theirs = getattr(one, name), getattr(two, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours, theirs)


def rows(run: Trajectory, start: int, stop: int) -> Trajectory:
    parts = (run.error, run.central_error, run.objective_error)
    return Trajectory(run.times, *(None if v is None else v[start:stop] for v in parts))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", SYSTEMS)
def test_threads_and_chunks_change_no_bit(kind: str, method: str) -> None:
    system, algorithm = SYSTEMS[kind](5, 2), METHODS[method]
    steps = schedules(system)["synchronised"]
    theta0 = starts(system)[1]

    def run(replicates: int, **options: Any) -> Trajectory:
        return simulate(
            system,
            algorithm,
            steps=steps,
            times=[0, 3, 20],
            replicates=replicates,
            seed=5,
            theta0=theta0,
            allow_unstable=True,
            **options,
        )

    whole = run(37)
    for threads in (2, 3):
        assert_same_bits(run(37, threads=threads), whole)
    for cuts in ([0, 1, 37], [0, 8, 16, 37], [0, 5, 13, 30, 37]):
        for start, stop in itertools.pairwise(cuts):
            part = run(stop - start, first_replicate=start, threads=2)
            assert_same_bits(part, rows(whole, start, stop))
    with pytest.raises(AssertionError):
        assert_same_bits(run(36, first_replicate=1), rows(whole, 0, 36))


@pytest.mark.parametrize("kind", SYSTEMS)
def test_samples_do_not_depend_on_chunks(kind: str) -> None:
    system = SYSTEMS[kind](3, 5)
    whole = draw(system, rounds=6, replicates=21, seed=5)
    assert whole.shape[:3] == (6, 21, 3)
    for start, stop in ((0, 1), (3, 17), (8, 21)):
        part = draw(system, rounds=6, replicates=stop - start, seed=5, first_replicate=start)
        assert np.array_equal(part, whole[:, start:stop])
    assert np.array_equal(draw(system, rounds=4, replicates=21, seed=5), whole[:4])
    assert not np.array_equal(draw(system, rounds=6, replicates=21, seed=6), whole)
    assert draw(system, rounds=0, replicates=2, seed=5).shape[:2] == (0, 2)


def test_recorded_times_do_not_change_what_is_recorded() -> None:
    system = gaussian(4, 3)
    steps = schedules(system)["constant"]
    x0 = starts(system)[0]

    def run(times: Any) -> Trajectory:
        return simulate(system, AffPCL(), steps=steps, times=times, replicates=9, seed=2, x0=x0)

    whole = run(np.arange(41))
    start = ((x0 - system.x_star) ** 2).sum(-1)
    np.testing.assert_allclose(
        whole.error[:, 0], np.broadcast_to(start, (9, 4)), rtol=ROUNDING, atol=0
    )
    for times in ([0], [40], [0, 1, 7, 40], [39, 40], np.array([3, 11], dtype=np.int32)):
        part = run(times)
        assert part.times.tolist() == list(times)
        assert np.array_equal(part.error, whole.error[:, times])
        assert np.array_equal(run(times).error, part.error)
    assert not np.array_equal(run([39]).error, whole.error[:, [40]])


def peak_memory(rounds: int) -> int:
    system = gaussian(3, 2)
    tracemalloc.start()
    simulate(system, AffPCL(), steps=1e-3, times=[rounds], replicates=16, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_depend_on_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = []

    def counting(*sizes: int) -> Any:
        work, memory = buffers(*sizes)
        allocated.append(memory.shape)
        return work, memory

    buffers = _methods.buffers
    monkeypatch.setattr(_methods, "buffers", counting)
    peak_memory(10)  # what numba and NumPy keep from a first call
    short, long = peak_memory(10), peak_memory(40_000)
    # The samples of 40,000 rounds would take 31 MB.
    assert abs(long - short) < 4096
    assert len(set(allocated)) == 1
    n, d = 3, 2
    assert allocated[0][0] < 10 * n * (n + 5 + d)


def test_progress_counts_replicates() -> None:
    done: list[int] = []
    simulate(
        gaussian(2, 2),
        FedAvg(),
        steps=0.01,
        times=[2],
        replicates=19,
        seed=1,
        threads=2,
        progress=done.append,
    )
    assert sorted(done) == [3, 8, 8]


def test_what_a_method_does_not_have_is_none() -> None:
    system = gaussian(3, 2)

    def run(method: str) -> Trajectory:
        return simulate(system, METHODS[method], steps=0.01, times=[3], replicates=2, seed=1)

    for method in ("independent", "fine-tuning", "clustered"):
        assert run(method).central_error is None
        assert run(method).objective_error is None
    for method in ("FedAvg", "pFedMe", "Ditto"):
        assert run(method).central_error is not None
        assert run(method).objective_error is None
    assert run("(8), implicit").central_error is None
    assert run("(8), theta known").objective_error is None
    shape = run("(8), (22-1)").central_error
    assert shape is not None
    assert shape.shape == (2, 1)
    np.testing.assert_allclose(run("FedAvg").mean_error, run("FedAvg").error.mean(-1))


def test_known_objective_starts_at_the_solution() -> None:
    system = gaussian(3, 2)
    given = {"steps": 0.01, "times": [5], "replicates": 2, "seed": 1}
    algorithm = AffPCL(objective="known")
    default = simulate(system, algorithm, **given)
    explicit = simulate(system, algorithm, theta0=system.theta_star_central, **given)
    other = simulate(system, algorithm, theta0=np.zeros(2), **given)
    assert np.array_equal(default.error, explicit.error)
    assert not np.array_equal(default.error, other.error)


@pytest.mark.parametrize("kind", SYSTEMS)
def test_an_overflow_names_the_round_and_the_step(kind: str) -> None:
    system = SYSTEMS[kind](3, 2)
    with pytest.raises(InputError, match=r"overflow by round 500 with a first step of 50: lower"):
        simulate(
            system,
            AffPCL(),
            steps=50.0,
            times=[1, 500, 900],
            replicates=3,
            seed=1,
            allow_unstable=True,
        )


def limit_of_the_mean(matrices: np.ndarray) -> float:
    """The least 2 Re(lambda) / |lambda|^2, one eigenvalue at a time."""
    return min(2 * z.real / abs(z) ** 2 for a in matrices for z in np.linalg.eigvals(a))


@pytest.mark.parametrize("kind", SYSTEMS)
@pytest.mark.parametrize(
    ("algorithm", "shift", "who"),
    [
        (Independent(), 0.0, "agent"),
        (Ditto(40.0), 40.0, "agent"),
        (FedAvg(), None, "the centre"),
        (Clustered(2), 0.0, "agent"),
        (AffPCL(), 0.0, "agent"),
    ],
)
def test_a_step_beyond_the_stability_of_the_mean_is_refused(
    kind: str, algorithm: Any, shift: float | None, who: str
) -> None:
    system = SYSTEMS[kind](3, 2)
    shifted = system.A_bar0[None] if shift is None else system.A_bar + shift * np.eye(2)
    limit = limit_of_the_mean(shifted)
    given: dict[str, Any] = {"times": [2], "replicates": 1, "seed": 1}
    assert simulate(system, algorithm, steps=limit * 0.999, **given).error.shape == (1, 1, 3)
    with pytest.raises(InputError, match=f"step size beyond stability: {who}.*spectral radius"):
        simulate(system, algorithm, steps=limit * 1.001, **given)
    # A diminishing step passes: it is soon small enough.
    simulate(system, algorithm, steps=Steps.diminishing(t0=1.0, lam=1.0 / limit), **given)


def test_results_that_do_not_fit_are_refused_before_the_work() -> None:
    with pytest.raises(InputError, match=r"results must fit into 8 GiB; found 3\.73e\+04 GiB"):
        simulate(gaussian(3, 2), AffPCL(), steps=0.01, times=[1], replicates=10**12, seed=1)


GOOD: dict[str, Any] = {"steps": 0.01, "times": [3], "replicates": 2, "seed": 1}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "estimated ratio": ({"algorithm": AffPCL(ratio=LinearRatio(4))}, "`algorithm` must be AffPCL"),
    "no algorithm": ({"algorithm": "AffPCL"}, "`algorithm` must be"),
    "no system": ({"system": np.zeros((2, 2))}, "`system` must be .* found ndarray"),
    "negative step": ({"steps": -0.1}, "`alpha` must be"),
    "zero step": ({"steps": 0.0}, "`alpha` must be"),
    "NaN step": ({"steps": float("nan")}, "`alpha` must be"),
    "step is a flag": ({"steps": True}, "`alpha` must be"),
    "step is text": ({"steps": "0.1"}, "`alpha` must be"),
    "steps of other agents": ({"steps": Steps(0.1, x=(1.0, 1.0))}, r"`x` must have shape \(3,\)"),
    "no times": ({"times": []}, "`times` must be"),
    "times not increasing": ({"times": [3, 3]}, "`times` must be strictly increasing"),
    "times decreasing": ({"times": [4, 3]}, "`times` must be strictly increasing"),
    "negative time": ({"times": [-1, 3]}, "`times` must be strictly increasing and at least 0"),
    "broken times": ({"times": [0.5]}, "`times` must be"),
    "times in two axes": ({"times": [[1, 2]]}, "`times` must be"),
    "no replicates": ({"replicates": 0}, "`replicates` must be"),
    "broken replicates": ({"replicates": 2.0}, "`replicates` must be"),
    "negative seed": ({"seed": -1}, "`seed` must be"),
    "seed is a flag": ({"seed": True}, "`seed` must be"),
    "no threads": ({"threads": 0}, "`threads` must be"),
    "negative first": ({"first_replicate": -8}, "`first_replicate` must be"),
    "shape of x0": ({"x0": np.zeros((2, 2))}, r"`x0` must have shape \(3, 2\); found \(2, 2\)"),
    "NaN in x0": ({"x0": np.full((3, 2), np.nan)}, "`x0` must be finite"),
    "shape of theta0": ({"theta0": np.zeros(3)}, r"`theta0` must have shape \(2,\)"),
    "infinite theta0": ({"theta0": np.full(2, np.inf)}, "`theta0` must be finite"),
    "text in x0": ({"x0": [["a", "b"]] * 3}, "`x0` must hold real numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_of_simulate_is_named(case: str) -> None:
    change, message = BAD[case]
    given = {"system": gaussian(3, 2), "algorithm": AffPCL(), **GOOD, **change}
    with pytest.raises(InputError, match=message) as caught:
        simulate(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": -1}, "`rounds` must be"),
        ({"rounds": 2.5}, "`rounds` must be"),
        ({"replicates": 0}, "`replicates` must be"),
        ({"seed": -3}, "`seed` must be"),
        ({"seed": None}, "`seed` must be"),
        ({"first_replicate": -1}, "`first_replicate` must be"),
        ({"first_replicate": 0.5}, "`first_replicate` must be"),
        ({"system": "Gaussian"}, "`system` must be"),
    ],
)
def test_bad_input_of_draw_is_named(change: dict[str, Any], message: str) -> None:
    given = {"system": gaussian(3, 2), "rounds": 2, "replicates": 3, "seed": 1, **change}
    with pytest.raises(InputError, match=message):
        draw(**given)


def test_a_system_may_be_large_in_one_direction() -> None:
    """Many agents in one dimension; many states for one agent."""
    wide = gaussian(101, 1)
    steps = schedules(wide)["constant"]
    assert_same_errors(by_kernel(wide, AffPCL(), steps), by_reference(wide, AffPCL(), steps))
    tall: FiniteSystem = finite_system(2, n=1, d=3, states=500)
    steps = schedules(tall)["constant"]
    assert_same_errors(by_kernel(tall, AffPCL(), steps), by_reference(tall, AffPCL(), steps))
