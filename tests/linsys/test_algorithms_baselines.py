"""The baselines against per-agent loops, derivations and the fixed points of theory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys import FiniteSystem
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    FrozenRatio,
    Independent,
    LinearRatio,
    PFedMe,
    ShiftedRatio,
    SparseRatio,
    Steps,
    StepSizes,
    WeightedAverage,
)
from linsys.oracle import LinearObservation
from tests.linsys._asserts import (
    assert_equal_numbers,
    assert_expected_map_reaches,
)
from tests.linsys._examples import Samples, finite_system, run, seeds

R, ALPHA = 1.5, 0.1

# --- direct loops --------------------------------------------------------------------------------


def loop_pfedme(
    seen: Sequence[LinearObservation], x: list[Any], w: Any, present: list[int]
) -> tuple[list[Any], Any]:
    new_x, local_w = list(x), []
    for i in present:
        xi, wi = x[i], w
        for one in seen:
            gradient = one.A[i] @ xi - one.b[i]
            xi, wi = (
                xi - ALPHA * (gradient + R * (xi - wi)),
                wi - ALPHA * R * (wi - xi),
            )
        new_x[i] = xi
        local_w.append(wi)
    return new_x, sum(local_w) / len(local_w)


def loop_ditto(
    seen: Sequence[LinearObservation], x: list[Any], w: Any, present: list[int]
) -> tuple[list[Any], Any]:
    new_x, local_w = list(x), []
    for i in present:
        xi, wi = x[i], w
        for one in seen:
            xi = xi - ALPHA * (one.A[i] @ xi - one.b[i] + R * (xi - w))
            wi = wi - ALPHA * (one.A[i] @ wi - one.b[i])
        new_x[i] = xi
        local_w.append(wi)
    return new_x, sum(local_w) / len(local_w)


presence = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), min_size=5, max_size=5
)


def present_masks(present: list[list[int]]) -> list[np.ndarray]:
    rows = []
    for some in present:
        mask = np.zeros((3, 1))
        mask[some] = 1.0
        rows.append(mask)
    return rows


@pytest.mark.parametrize(
    ("algorithm", "loop"),
    [(PFedMe(regularization=R), loop_pfedme), (Ditto(regularization=R), loop_ditto)],
)
@given(seed=seeds, present=presence, local_steps=st.integers(1, 3))
@settings(max_examples=8)
def test_regularised_methods_are_their_loops(
    algorithm: Any, loop: Any, seed: int, present: list[list[int]], local_steps: int
) -> None:
    samples = Samples(finite_system(seed), 5 * local_steps, seed)
    x0 = np.random.default_rng(seed).standard_normal((3, 2))
    rows = present_masks(present)
    final = run(algorithm, samples, x0, 5, local_steps=local_steps, participate=lambda t: rows[t])
    x, w = list(x0), x0.mean(axis=0)
    for t in range(5):
        seen = [samples(t * local_steps + k) for k in range(local_steps)]
        x, w = loop(seen, x, w, present[t])
        assert_equal_numbers(final[t + 1], np.array(x), f"t = {t}")


@given(seed=seeds, present=presence, local_steps=st.integers(1, 3), clusters=st.integers(1, 4))
@settings(max_examples=15)
def test_clustered_learning_is_its_loop(
    seed: int, present: list[list[int]], local_steps: int, clusters: int
) -> None:
    samples = Samples(finite_system(seed), 5 * local_steps, seed)
    x0 = np.random.default_rng(seed).standard_normal((3, 2))
    algorithm = Clustered(clusters=clusters, spread=0.5)
    rows = present_masks(present)
    final = run(algorithm, samples, x0, 5, local_steps=local_steps, participate=lambda t: rows[t])
    models = list(x0.mean(axis=0) + algorithm.offsets(2))
    follows = [i % clusters for i in range(3)]
    for t in range(5):
        seen = [samples(t * local_steps + k) for k in range(local_steps)]
        arrived: list[list[Any]] = [[] for _ in models]
        for i in present[t]:
            first = [np.linalg.norm(seen[0].A[i] @ w - seen[0].b[i]) for w in models]
            follows[i] = int(np.argmin(first))
            local = models[follows[i]]
            for one in seen:
                local = local - ALPHA * (one.A[i] @ local - one.b[i])
            arrived[follows[i]].append(local)
        models = [sum(a) / len(a) if a else w for a, w in zip(arrived, models, strict=True)]
        assert_equal_numbers(final[t + 1], np.array([models[c] for c in follows]), f"t = {t}")


@given(seed=seeds, local_steps=st.integers(1, 3))
@settings(max_examples=8)
def test_fedavg_and_fine_tuning_are_their_loops(seed: int, local_steps: int) -> None:
    samples = Samples(finite_system(seed), 6 * local_steps, seed)
    x0 = np.random.default_rng(seed).standard_normal((3, 2))
    fedavg = run(FedAvg(), samples, x0, 6, local_steps=local_steps)
    tuned = run(FineTuning(switch=3), samples, x0, 6, local_steps=local_steps)
    x, w = [x0.mean(axis=0)] * 3, x0.mean(axis=0)
    for t in range(6):
        moved_w, moved_x = [], []
        for i in range(3):
            wi, xi = w, x[i]
            for k in range(local_steps):
                one = samples(t * local_steps + k)
                wi = wi - ALPHA * (one.A[i] @ wi - one.b[i])
                xi = xi - ALPHA * (one.A[i] @ xi - one.b[i])
            moved_w.append(wi)
            moved_x.append(xi)
        w = sum(moved_w) / 3
        x = [w] * 3 if t < 3 else moved_x
        assert_equal_numbers(fedavg[t + 1], np.array([w] * 3), f"FedAvg at t = {t}")
        assert_equal_numbers(tuned[t + 1], np.array(x), f"fine-tuning at t = {t}")


@pytest.mark.parametrize(
    ("broken", "loop"),
    [(PFedMe(regularization=1.01 * R), loop_pfedme), (Ditto(regularization=0.99 * R), loop_ditto)],
)
def test_the_loops_notice_another_regularisation(broken: Any, loop: Any) -> None:
    samples = Samples(finite_system(1), 1, 1)
    x0 = np.random.default_rng(1).standard_normal((3, 2))
    x, _ = loop([samples(0)], list(x0), x0.mean(axis=0), [0, 1, 2])
    with pytest.raises(AssertionError, match="one round"):
        assert_equal_numbers(run(broken, samples, x0, 1)[1], np.array(x), "one round")


# --- derivations -------------------------------------------------------------------------------


def test_pfedme_moves_its_model_by_the_gradient_of_the_moreau_envelope() -> None:
    """At x^i = prox(w) its step on w is - alpha grad of mean_i min_x f^i(x) + r/2 ||x - w||^2."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 2, 2))
    A = root @ np.swapaxes(root, 1, 2) + np.eye(2)
    b = rng.standard_normal((3, 2))
    seen = LinearObservation(A=A, Phi=A, b=b)
    w = rng.standard_normal(2)

    def prox(center: np.ndarray) -> np.ndarray:
        return np.linalg.solve(A + R * np.eye(2), (b + R * center)[..., None])[..., 0]

    def envelope(center: np.ndarray) -> float:
        x = prox(center)
        f = 0.5 * np.einsum("ni,nij,nj->n", x, A, x) - (b * x).sum(-1)
        return float((f + 0.5 * R * ((x - center) ** 2).sum(-1)).mean())

    h = 1e-5
    gradient = [(envelope(w + h * e) - envelope(w - h * e)) / (2 * h) for e in np.eye(2)]
    algorithm = PFedMe(regularization=R)
    state = algorithm.init(np.zeros((3, 2)))._replace(x=prox(w), center=w[None])
    after = algorithm.update(state, [seen], StepSizes(0.1, 0.1, 0.1, 0.1))
    # Central differences of a quadratic have no truncation error; rounding is eps / h.
    assert_equal_numbers((w - after.center[0]) / 0.1, np.array(gradient), "envelope", 1e-9)
    assert_equal_numbers(after.x, prox(w), "the proximal points stay")


# --- fixed points of the mean iteration -----------------------------------------------------------

SYSTEM = finite_system(21)
ONES = np.ones((3, 2))
CONSTANT = Steps.constant(0.4)


def regularised(system: FiniteSystem, center: np.ndarray) -> np.ndarray:
    """(Abar^i + r I)^{-1} (bbar^i + r w)."""
    matrices = system.A_bar + R * np.eye(2)
    return np.linalg.solve(matrices, (system.b_bar + R * center)[..., None])[..., 0]


def pfedme_point(system: FiniteSystem) -> np.ndarray:
    """w = mean_i (Abar^i + r I)^{-1} (bbar^i + r w)."""
    inverses = np.linalg.inv(system.A_bar + R * np.eye(2))
    constant = (inverses @ system.b_bar[..., None])[..., 0].mean(axis=0)
    w = np.linalg.solve(np.eye(2) - R * inverses.mean(axis=0), constant)
    return regularised(system, w)


CENTRAL = np.broadcast_to(SYSTEM.x_star_central, (3, 2))
FIXED_POINTS = {
    "AffPCL": (AffPCL(), SYSTEM.x_star),
    "AffPCL known objective": (AffPCL(objective="known"), SYSTEM.x_star),
    "AffPCL (22-2)": (AffPCL(central_direction="estimate"), SYSTEM.x_star),
    "AffPCL frozen": (AffPCL(ratio=FrozenRatio(SYSTEM.rho)), SYSTEM.x_star),
    "AffPCL linear": (AffPCL(ratio=LinearRatio(3)), SYSTEM.x_star),
    "AffPCL shifted": (AffPCL(ratio=ShiftedRatio(3)), SYSTEM.x_star),
    "AffPCL keeping all": (AffPCL(ratio=SparseRatio(3, keep=3)), SYSTEM.x_star),
    "independent": (Independent(), SYSTEM.x_star),
    "FedAvg": (FedAvg(), CENTRAL),
    "fine-tuning never": (FineTuning(switch=10**6), CENTRAL),
    "fine-tuning": (FineTuning(switch=50), SYSTEM.x_star),
    "pFedMe": (PFedMe(regularization=R), pfedme_point(SYSTEM)),
    "Ditto": (Ditto(regularization=R), regularised(SYSTEM, SYSTEM.x_star_central)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXED_POINTS)
def test_the_mean_iteration_reaches_the_known_fixed_point(name: str) -> None:
    algorithm, target = FIXED_POINTS[name]
    state = assert_expected_map_reaches(
        algorithm, SYSTEM, target, CONSTANT, 600, ONES, np.full(2, 3.0), 1e-9
    )
    if isinstance(algorithm, AffPCL):
        expected = SYSTEM.x_star_central[None]
        assert_equal_numbers(state.center, expected, "x^c", 1e-9)
        if algorithm.objective == "estimated":
            expected = SYSTEM.theta_star_central[None]
            assert_equal_numbers(state.theta, expected, "theta", 1e-9)


@pytest.mark.parametrize("center", ["explicit", "implicit"])
def test_the_mean_iteration_of_5_in_a_common_environment(center: str) -> None:
    system = finite_system(22, same_mu=True)
    algorithm = AffPCL(correction="bias", center=center)
    theta0 = np.full(2, 3.0)
    assert_expected_map_reaches(algorithm, system, system.x_star, CONSTANT, 600, ONES, theta0, 1e-9)


def test_a_biased_variant_has_another_fixed_point() -> None:
    with pytest.raises(AssertionError, match="fixed point"):
        assert_expected_map_reaches(
            AffPCL(ratio="none"), SYSTEM, SYSTEM.x_star, CONSTANT, 600, ONES, np.zeros(2), 1e-9
        )


def test_clusters_reach_the_central_solutions_of_their_members() -> None:
    """Without noise memberships settle and each model solves the system of its followers."""
    mean = LinearObservation(A=SYSTEM.A_bar, Phi=SYSTEM.Phi_bar, b=SYSTEM.b_bar)
    algorithm = Clustered(clusters=2, spread=2.0)
    state = algorithm.init(SYSTEM.x_star)
    for _ in range(600):
        state = algorithm.update(state, [mean], CONSTANT.at(0))
    members = [np.flatnonzero(state.membership[:, c]) for c in range(2)]
    assert sorted(np.concatenate(members)) == [0, 1, 2]
    assert all(len(some) for some in members)
    for c, some in enumerate(members):
        solution = np.linalg.solve(SYSTEM.A_bar[some].sum(0), SYSTEM.b_bar[some].sum(0))
        assert_equal_numbers(state.models[c], solution, f"cluster {c}", 1e-9)


# --- step sizes -----------------------------------------------------------------------------------


def test_synchronised_steps_contract_all_modules_alike() -> None:
    steps = Steps.diminishing(t0=7).synchronised(SYSTEM, ratio=0.2)
    for t in (0, 1, 10, 10**6):
        sizes = steps.at(t)
        alpha = 4.0 / (t + 8)

        def smallest(matrices: np.ndarray) -> np.ndarray:
            return np.linalg.eigvalsh(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))[..., 0]

        factors = [
            *(np.asarray(sizes.x)[:, 0] * smallest(SYSTEM.A_bar)),
            sizes.center * smallest(SYSTEM.A_bar0),
            sizes.objective * smallest(SYSTEM.Phi_bar0),
            sizes.ratio * 0.2,
        ]
        assert_equal_numbers(np.array(factors), np.full(6, alpha), f"alpha lambda at t = {t}")


def test_steps_follow_their_formulas() -> None:
    assert Steps.constant(0.03).at(99) == StepSizes(0.03, 0.03, 0.03, 0.03)
    assert Steps.for_horizon(1000, lam=2.0).at(5).x == pytest.approx(np.log(1000) / 2000, rel=1e-15)
    sizes = [Steps.diminishing(t0=3, lam=0.5).at(t).x for t in range(5)]
    assert sizes == pytest.approx([4 / (0.5 * (t + 4)) for t in range(5)], rel=1e-15)


@given(seed=seeds, t0=st.floats(0, 100), length=st.integers(1, 30), d=st.integers(1, 3))
@settings(max_examples=30)
def test_the_weighted_average_is_its_formula(seed: int, t0: float, length: int, d: int) -> None:
    z = np.random.default_rng(seed).standard_normal((length, 2, d))
    average = WeightedAverage(t0)
    for value in z:
        average.update(value)
    weights = t0 + np.arange(length)
    expected = np.tensordot(weights, z, axes=1) / weights.sum() if weights.sum() > 0 else z[0]
    assert_equal_numbers(average.value, expected, "convex combination")


@pytest.mark.slow
@pytest.mark.parametrize("synchronised", [False, True])
def test_diminishing_steps_with_the_weighted_average_converge(synchronised: bool) -> None:
    """A fixed path of 4000 rounds ends within 0.1 of the solutions; 40 rounds do not."""
    samples = Samples(SYSTEM, 4000, 30)
    steps = Steps.diminishing(t0=60, lam=0.3)
    if synchronised:
        steps = Steps.diminishing(t0=60).synchronised(SYSTEM)
    average, early = WeightedAverage(t0=60), np.inf
    for t, x in enumerate(run(AffPCL(), samples, 3.0 * ONES, 4000, steps=steps)):
        average.update(x)
        if t == 10:
            early = np.abs(average.value - SYSTEM.x_star).max()
    assert np.abs(average.value - SYSTEM.x_star).max() < 0.1 < early
