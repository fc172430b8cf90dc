"""The figures of P-ShareLoRA: small ones run whole, laws are right, planted violations are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.psharelora import _labelers
from experiments.psharelora._labelers import (
    LabelerConfig,
    Test,
    accuracies,
    count,
    label_factors,
    per_labeler,
)
from experiments.psharelora.figures import fig1, fig2, fig3, reward_error, value_gap
from experiments.psharelora.figures.reward_error import (
    free_parameters,
    laws,
    reward_error as error_of,
)
from linsys import InputError
from linsys.preference import PreferenceSystem, distance, diversity
from linsys.preference.estimators import fit_full, fit_global, fit_local, fit_shared
from linsys.preference.instances import isotropic_features
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.sharelora import METHODS, method
from tests._slow import slow_but
from tests._small_runs import ahead, rows, times

SIZES: dict[str, Any] = {
    "modules": 2, "d": 3, "k": 1, "r": 1, "samples": 64, "batch": 32, "trajectories": 30,
    "test": 12, "rates": (0.1, 0.2), "instances": 3, "tuning": 1,
}  # fmt: skip

SMALL: dict[ModuleType, Any] = {
    fig1: fig1.Fig1Config(**SIZES, labelers=2, own=(0.02, 0.6)),
    fig2: fig2.Fig2Config(**SIZES, own=(0.1, 0.3, 0.6)),
    fig3: fig3.Fig3Config(**SIZES, own=(0.1, 0.6)),
    reward_error: reward_error.RewardErrorConfig(
        trajectories=8,
        d1=3,
        d2=2,
        users=(3,),
        judged=2,
        tails=(0.0, 0.1),
        points=5,
        replicates=3,
    ),
    value_gap: value_gap.ValueGapConfig(
        users=2,
        states=2,
        actions=2,
        d1=2,
        d2=1,
        tail=0.0,
        sizes=(32, 64),
        middle=32,
        shares=(0.1, 1.0),
        instances=3,
    ),
}


#: Which labelers a claim says are ahead, and by a part of its name the check that judges it.
AHEAD: list[tuple[ModuleType, dict[str, Any], str]] = [
    (fig1, {"method": "G", "case": 0.6}, "own 0.6: G − LoRA-global"),
    (fig1, {"method": "WU", "case": 0.6}, "own 0.6: WU − LoRA-local"),
    (fig1, {"method": "WU", "case": 0.6}, "own 0.6: WU − Share-Rep"),
    (fig1, {"method": "LoRA-global", "case": 0.02}, "own 0.02: LoRA-global − WU"),
    (fig2, {"method": "SI"}, "SI above LoRA-global"),
    (fig2, {"method": "WU"}, "WU above the best other method"),
    (fig2, {"method": "G", "labeler": 2}, "G − LoRA-global"),
    (fig3, {"method": "SI", "structure": "left"}, "left factor common: up − down"),
    (fig3, {"method": "down", "structure": "right"}, "right factor common: down above up"),
    (fig3, {"method": "down", "structure": "right"}, "right factor common: down − up"),
    (fig3, {"method": "SI", "structure": "left"}, "left − neither"),
    (fig3, {"method": "down", "structure": "right"}, "neither − right"),
]
#: The same of gaps: what is larger, and the check.
LARGER: list[tuple[dict[str, Any], str]] = [
    ({"level": "ball, least", "coverage": "uniform"}, "uniform, ball, least"),
    ({"level": "shaped, least", "coverage": "avoids"}, "avoids, shaped, least"),
    ({"level": "greedy", "coverage": "expert"}, "expert, ball, least"),
    ({"level": "ball, least", "coverage": "avoids"}, "avoids: gap, ball − shaped"),
    ({"level": "ball, rooted", "coverage": "uniform"}, "rooted − squared"),
]


class TestFigures(rc.ExperimentSuite):
    small = SMALL
    loose = frozenset(SMALL)
    slow = frozenset(SMALL) - {fig1}
    wrong = ((reward_error, "NEAR", (2.0, 3.0), "full: error / law"),)
    contradicted = (
        *((module, ahead(-0.05, "accuracy", **of), part) for module, of, part in AHEAD),
        *((value_gap, ahead(-0.2, "gap", **of), part) for of, part in LARGER),
    )


computed, analysed, check = TestFigures.table, TestFigures.analysed, TestFigures.check


def with_column(table: rc.Table, name: str, values: np.ndarray[Any, Any]) -> rc.Table:
    return rc.Table({**{key: table[key] for key in table}, name: values})


@pytest.mark.parametrize(("module", "of", "part"), slow_but([fig1], AHEAD))
def test_a_claim_on_accuracy_is_judged_by_its_methods(
    module: ModuleType, of: dict[str, Any], part: str
) -> None:
    assert check(module, ahead(0.05, "accuracy", **of)(computed(module)), part).ok is True


def test_most_are_more_than_half() -> None:
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=(9, 5))
    for better, ok in ((5, True), (3, True), (2, False)):
        assert count("", "", noise + (np.arange(5) < better) - 0.5).ok is ok
    unsure = count("", "", noise + np.array([1, 1, 0, -1, -1]))
    assert unsure.ok is None
    assert (unsure.lo, unsure.hi) == (2.0, 3.0)


def test_accuracy_is_the_probability_of_agreeing() -> None:
    rng = np.random.default_rng(0)
    psi, Delta = rng.normal(size=(6, 2, 3)), rng.normal(size=(2, 2, 3))
    system = PreferenceSystem(psi, rng.normal(size=(2, 3)), Delta)
    test, guess = Test(system), rng.normal(size=(2, 2, 3))
    expected, best, slope = np.zeros(2), np.zeros(2), np.zeros(2)
    for i, a, b in product(range(2), range(6), range(6)):
        p = 1 / (1 + np.exp(-((psi[a] - psi[b]) * system.Theta[i]).sum()))
        if a != b:
            says = ((psi[a] - psi[b]) * guess[i]).sum() > 0
            expected[i] += (p if says else 1 - p) / 30
            best[i] += max(p, 1 - p) / 30
            slope[i] += p * (1 - p) / 30
    np.testing.assert_allclose(test.accuracy(guess), expected, rtol=1e-12)
    np.testing.assert_allclose(test.best, best, rtol=1e-12)
    assert test.slope == pytest.approx(slope.mean(), rel=1e-12)
    np.testing.assert_allclose(test.accuracy(0 * guess), 0.5, rtol=1e-12)  # ties


@pytest.mark.parametrize("structure", ["left", "right", "neither"])
def test_labelers_agree_to_the_same_degree_in_every_structure(structure: Any) -> None:
    own = (0.3, 0.3, 0.8)
    L, R = label_factors(structure, own, (40_000, 2, 1), np.random.default_rng(0))
    D = L @ R.mT
    products = np.einsum("imab,jmab->ij", D, D) / (4 * 40_000)
    np.testing.assert_allclose(np.diag(products), 1.0, atol=0.04)  # six standard errors or so
    assert products[0, 1] == pytest.approx(1 - 0.3, abs=0.04)
    assert products[0, 2] == pytest.approx(np.sqrt(0.7 * 0.2), abs=0.04)
    assert bool((L[0] == L[1]).all()) is (structure == "left")
    assert bool((R[0] == R[1]).all()) is (structure == "right")


def test_an_instance_has_the_sizes_that_are_asked_for() -> None:
    config = LabelerConfig(**{**SIZES, "samples": 16}, size=1.7, known=0.5)
    drawn = config.draw("left", (0.1, 0.5), 0)
    system = drawn.test.system
    np.testing.assert_allclose(np.linalg.norm(system.Delta, axis=(1, 2)), 1.7, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(system.Theta_init, axis=(1, 2)), 0.85, rtol=1e-12)
    for m in range(2):  # each module has its own factor of rank 1, shared by all
        block = system.Delta[:, :, 3 * m : 3 * m + 3]
        assert diversity(block, 1).tail < 1e-20
    assert drawn.data.counts.tolist() == [16, 16]
    assert config.draw("left", (0.1, 0.5), 0) is drawn


@pytest.mark.slow
def test_training_gets_near_what_a_method_can_reach() -> None:
    """2000 comparisons for 15 numbers; Share-Rep misses one module of two, which is frozen."""
    sizes = {**SIZES, "samples": 2000, "trajectories": 80, "test": 60}
    config = fig2.Fig2Config(**sizes, own=(0.2, 0.5))
    [block] = fig2.EXPERIMENT.blocks(config)
    everything = rc.Table(fig2.EXPERIMENT.compute(config, block, rc.Context()))
    for name in ("SI", "LoRA-local", "Share-Rep"):
        table = everything.where(method=name)
        tests = [config.draw("left", config.own, i).test for i in range(config.instances)]
        reachable = table["best"].copy()
        if name == "Share-Rep":
            last = np.arange(6) >= 3
            reachable = np.concatenate(
                [t.accuracy(t.system.Theta_init + t.system.Delta * last) for t in tests]
            )
        assert abs(table["accuracy"] - reachable).mean() < 0.02
        assert (reachable - table["start"]).mean() > 0.03  # there is something to learn
    assert (table["best"] - reachable).mean() > 0.04


@pytest.mark.parametrize("module", [fig1, fig2, fig3])
def test_several_blocks_of_the_papers_profile_and_one_of_a_case_at_the_quick_one(
    module: ModuleType,
) -> None:
    quick, paper = (module.EXPERIMENT.profiles[name] for name in ("quick", "paper"))
    assert len(module.EXPERIMENT.blocks(paper)) >= 4
    assert {block["first"] for block in module.EXPERIMENT.blocks(quick)} == {0}


def test_blocks_of_fewer_instances_have_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, config = fig2.EXPERIMENT, SMALL[fig2]

    def tables() -> list[rc.Table]:
        blocks = experiment.blocks(config)
        return [rc.Table(experiment.compute(config, one, rc.Context())) for one in blocks]

    [whole] = tables()
    monkeypatch.setattr(_labelers, "_TOGETHER", 2)
    parts = tables()
    assert len(parts) == 2
    for name, value in product(config.methods, ("accuracy", "best", "start", "slope", "rate")):
        columns = [per_labeler(part, value, method=name) for part in parts]
        expected = per_labeler(whole, value, method=name)
        np.testing.assert_array_equal(np.concatenate(columns), expected)
        assert value == "rate" or (expected[:1] != expected[1:]).any(axis=1).all()


def test_the_threshold_is_what_own_factors_cost() -> None:
    config = SMALL[fig1]
    slope = computed(fig1)["slope"].mean()
    # 2 modules of rank 1 with 3 numbers, 64 comparisons, logits of variance 2 size^2
    assert fig1.threshold(config, computed(fig1)) == pytest.approx(
        6 / (64 * 2 * 1.4**2 * slope), rel=1e-12
    )


def test_nothing_is_said_near_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged() -> int:
        return sum("LoRA-global" in c.name for c in analysed(fig1, computed(fig1)).checks)

    assert judged() == 4
    limit = fig1.threshold(fig1.Fig1Config(**SIZES), computed(fig1))
    assert 2 * 0.02 < limit < 0.6 / 2
    monkeypatch.setattr(fig1, "MARGIN", 1.1 * 0.6 / limit)
    assert judged() == 2 * (limit / 0.02 > 1.1 * 0.6 / limit)


def test_seven_methods_are_compared() -> None:
    for module in (fig1, fig2):
        assert set(SMALL[module].methods) == set(METHODS)


def test_runs_together_are_those_alone() -> None:
    """The warm-up of one method, and what another freezes, leave the others alone."""
    config = SMALL[fig2]
    drawn = config.draw("left", config.own, 0)
    runs = [(name, rate) for name in METHODS for rate in (0.1, 0.3)]
    together = accuracies(config, drawn, runs, seed=4)
    oracle = ComparisonOracle(drawn.data, config.batch, 4, config.scale, [3, 3])
    start = drawn.test.system.Theta_init
    for (name, rate), found in zip(runs, together, strict=True):
        algorithm = method(name, rate, epochs=config.epochs)
        X = algorithm.start(oracle.modules, oracle.users, config.r, np.random.default_rng(4))
        state, _ = algorithm.run(algorithm.init(X, oracle), oracle)
        alone = drawn.test.accuracy(start + oracle.delta(state.X))
        np.testing.assert_allclose(found, alone, rtol=1e-12)
    assert np.abs(together[0] - together[1]).max() > 1e-3


# --- reward error ---


def isotropic_users(nu: float, tail: float, own: float = 0.3, N: int = 3) -> PreferenceSystem:
    rng = np.random.default_rng(0)
    Delta = reward_error.heads_in_common(N, 3, 2, 1, nu, tail, own, rng)
    return PreferenceSystem(3.0 * isotropic_features(8, 3, 2, rng), np.zeros((3, 2)), Delta)


def test_users_have_the_diversity_that_is_asked_for() -> None:
    system = isotropic_users(2.0, 0.2)
    kappa = diversity(system.Delta, 1)
    assert (kappa.nu, kappa.tail) == (pytest.approx(2.0), pytest.approx(0.6))
    heads = np.linalg.svd(isotropic_users(2.0, 0.0, own=0.0).Delta)[2][:, 0]
    assert distance(heads[0][:, None], heads[2][:, None]) < 1e-7  # nothing of their own


def test_the_reward_error_is_a_mean_over_pairs() -> None:
    system = isotropic_users(1.0, 0.1)
    guess = np.random.default_rng(1).normal(size=system.Delta.shape)
    expected = np.zeros(3)
    for i, a, b in product(range(3), range(8), range(8)):
        if a != b:
            off = ((system.psi[a] - system.psi[b]) * (guess - system.Delta)[i]).sum()
            expected[i] += off**2 / 56
    np.testing.assert_allclose(error_of(system, guess), expected, rtol=1e-12)


def test_small_logits_cost_four_times_the_free_parameters() -> None:
    system = isotropic_users(1e-6, 0.0, own=0.0)
    for name, law in laws(system, 1).items():
        expected = 4.0 * free_parameters(name, 3, 3, 2, 1)
        np.testing.assert_allclose(law.variance, expected, rtol=1e-3)
        assert law.bias.max() < 1e-12


def test_laws_are_not_those_of_other_users() -> None:
    users = isotropic_users(1.0, 0.1)
    started = PreferenceSystem(users.psi, 0.5 * np.ones(users.psi.shape[1:]), users.Delta)
    bounded = PreferenceSystem(users.psi, users.Theta_init[0], users.Delta, link="tanh")
    for other, found in ((started, "entries up to 0.5"), (bounded, "link='tanh'")):
        with pytest.raises(InputError, match=f"linear rewards and Theta_init = 0.*found.*{found}"):
            laws(other, 1)


@pytest.mark.slow
def test_laws_are_those_of_estimates_from_data() -> None:
    """Means over 100 data sets, with a tail that no rank-1 class holds."""
    system, N_p = isotropic_users(1.0, 0.05), 3000
    derived = laws(system, 1)
    fits = {
        "shared": lambda data: fit_shared(data, 1, tol=1e-6),
        "local": lambda data: fit_local(data, 1, tol=1e-6),
        "global": lambda data: fit_global(data, 1, tol=1e-6),
        "full": fit_full,
    }
    samples = [system.sample(N_p, seed) for seed in range(100)]
    for name, fit in fits.items():
        errors = np.array([error_of(system, fit(data).Delta).mean() for data in samples])
        expected = float(derived[name].at(np.array(float(N_p)), 3))
        noise = errors.std() / np.sqrt(len(errors))
        # four standard errors, and what is left out: about 4 (parameters) / N_p, up to 1 %
        assert abs(errors.mean() - expected) < 4 * noise + 0.03 * expected, name
        if name != "global":  # whose error is bias
            variance = derived[name].variance.mean() / N_p
            assert abs(errors.mean() - expected + variance / 2) > 5 * noise


def test_without_a_constraint_the_variance_is_a_sandwich_over_outcomes() -> None:
    """One Delta of full rank for users who differ: scores enumerated by pair and label."""
    system = isotropic_users(4.0, 0.0, own=1.0)
    Delta = fit_global(system.population(), 2, tol=1e-12).Delta[0].ravel()
    x = np.subtract(*system.psi[system.pairs.T]).reshape(-1, 6)
    p = 1 / (1 + np.exp(-x @ Delta))
    A = 3 * np.einsum("p,pa,pb->ab", p * (1 - p), x, x) / len(x)
    V = np.zeros((6, 6))
    for P in system.probabilities():
        scores = np.concatenate([(1 - p)[:, None] * x, -p[:, None] * x])
        chance = np.concatenate([P, 1 - P]) / len(x)
        V += np.cov(scores.T, aweights=chance, ddof=0)
    covariance = np.linalg.inv(A) @ V @ np.linalg.inv(A)
    expected = np.trace(system.coverage().gram @ covariance)
    np.testing.assert_allclose(laws(system, 2)["global"].variance, expected, rtol=1e-6)


@pytest.mark.slow
def test_the_spread_around_a_wrong_model_has_its_curvature() -> None:
    """A large tail: what the class cannot hold bends the likelihood, by half of the variance."""
    system, N_p = isotropic_users(1.0, 0.5), 3000
    population = fit_shared(system.population(), 1, tol=1e-12)
    centre = replace(system, Delta=population.Delta)
    spread = [
        error_of(centre, fit_shared(system.sample(N_p, seed), 1, start=population.B).Delta).mean()
        for seed in range(60)
    ]
    noise = np.std(spread) / np.sqrt(len(spread))
    expected = laws(system, 1)["shared"].variance.mean() / N_p
    assert abs(np.mean(spread) - expected) < 4 * noise + 0.03 * expected
    assert noise < 0.12 * expected  # without the curvature it would be off by 0.47


def test_a_crossing_is_where_the_second_curve_gets_below() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    flat, falling = np.full(4, 3.0), 12.0 / x
    assert reward_error.crossing(x, flat, falling) == pytest.approx(4.0)
    assert reward_error.crossing(x, falling, flat) is None
    assert reward_error.crossing(x, flat, np.full(4, 2.0)) is None


def test_a_crossing_beyond_the_grid_is_one_step_beyond_its_end() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    flat, falling = np.full(4, 3.0), 12.0 / x
    assert reward_error.crossing_or_beyond(x, flat, falling) == pytest.approx(4.0)
    assert reward_error.crossing_or_beyond(x, flat, np.full(4, 2.0)) == 0.5  # below from the start
    assert reward_error.crossing_or_beyond(x, flat, 9.0 * falling) == 16.0
    assert reward_error.crossing_or_beyond(x, falling, flat) == 16.0


def test_one_replicate_that_hides_a_crossing_decides_nothing() -> None:
    """Without it, as in some resamples, the curves cross where they should."""
    config = SMALL[reward_error]
    table = computed(reward_error)
    for name in reward_error.NAMES:
        values = np.empty(table.rows)
        for tail in config.tails:
            law = laws(config.family(3, tail).system, 1)[name]
            there = rows(table, tail=tail)
            values[there] = law.at(table["N_p"][there], config.judged)
        outlier = (table["replicate"] == 1) & (name == "full")
        table = with_column(table, name, values * np.where(outlier, 1e3, 1.0))
    crossings = [c for c in analysed(reward_error, table).checks if "full overtakes" in c.name]
    assert {(c.measured, c.ok) for c in crossings} == {("no crossing", None)}


def test_crossings_and_laws_are_compared_with_the_data() -> None:
    config = SMALL[reward_error]
    table, rng = computed(reward_error), np.random.default_rng(0)
    at = {tail: laws(config.family(3, tail).system, 1) for tail in config.tails}

    def planted(module: ModuleType, factor: float) -> np.ndarray[Any, Any]:
        exact = [
            float(at[tail][name].at(np.array(N_p), config.judged))
            for tail, N_p in zip(table["tail"], table["N_p"], strict=True)
        ]
        return np.array(exact) * factor * np.exp(0.001 * rng.normal(size=table.rows))

    right = table
    for name in reward_error.NAMES:
        right = with_column(right, name, planted(name, 1.0))
    assert all(c.ok for c in analysed(reward_error, right).checks)
    crossings = [c.name for c in analysed(reward_error, right).checks if "overtakes" in c.name]
    assert any("full overtakes shared" in name for name in crossings)
    wrong = with_column(right, "full", planted("full", 4.0))
    failed = {c.name for c in analysed(reward_error, wrong).checks if c.ok is False}
    assert any("full overtakes" in name for name in failed)
    assert any("full: error / law" in name for name in failed)
    assert not any("full" not in name for name in failed)


# --- value gap ---


def one_case(coverage: Any) -> Any:
    return value_gap.case(value_gap.ValueGapConfig(), coverage, 0)


def test_the_reference_knows_the_best_policy_or_the_worst() -> None:
    gaps = {}
    for coverage in ("expert", "uniform", "avoids"):
        one = one_case(coverage)
        reward = one.system.rewards()[0]
        best = one.tree.best(reward)
        assert one.policy_gap(best) == 0.0
        gaps[coverage] = one.tree.J(best, reward) - float(one.law @ reward)
        np.testing.assert_allclose(one.root @ one.root, one.system.coverage().gram, atol=1e-10)
        assert one.system.weights[1, 2] == pytest.approx(
            one.law[1] * one.law[2] / (1 - (one.law**2).sum()), rel=1e-9
        )
    assert 0 < gaps["expert"] < gaps["uniform"] < gaps["avoids"]


def test_the_shaped_set_is_an_ellipsoid() -> None:
    one, level = one_case("expert"), 0.5
    estimate = one.system.Delta[0] + 0.3
    gram = one.system.coverage().gram

    def worst(plan: np.ndarray[Any, Any]) -> float:
        v = np.tensordot(one.tree.probabilities(plan) - one.law, one.system.psi, axes=1).ravel()
        return float(v @ estimate.ravel() - np.sqrt(level * (v @ np.linalg.solve(gram, v))))

    policy = worst(one.pessimistic(estimate, level, shaped=True))
    rng = np.random.default_rng(0)
    others = [one.tree.plan(rng.dirichlet([0.3] * 3, size=one.tree.I)) for _ in range(200)]
    others += [one.pessimistic(estimate, level), one.pessimistic(estimate, 0.0)]
    others.append(one.tree.plan(one.tree.uniform()))
    assert policy >= max(map(worst, others)) - 1e-7
    assert policy > worst(one.pessimistic(estimate, level)) + 1e-3  # the ball asks for another one


def test_printed_levels_are_a_sum_and_its_root() -> None:
    config = value_gap.ValueGapConfig()
    one = one_case("uniform")

    def level(N_p: int, form: str, b: str) -> float:
        return value_gap.printed(config, one.system, N_p, 2.0, form, b)

    for b in ("max", "min"):
        assert level(64, "C.3", b) ** 2 == pytest.approx(level(64, "squared", b), rel=1e-12)
        assert level(4096, "squared", b) < level(64, "squared", b)
    kappa = diversity(one.system.Delta, 1).b
    difference = level(64, "squared", "max") - level(64, "squared", "min")
    assert difference == pytest.approx(kappa.max() - kappa.min(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("of", "part"), LARGER)
def test_a_claim_on_gaps_is_judged_by_its_policies(of: dict[str, Any], part: str) -> None:
    assert check(value_gap, ahead(0.2, "gap", **of)(computed(value_gap)), part).ok is True


@pytest.mark.slow
def test_one_run_beyond_the_guarantee_is_seen() -> None:
    table = computed(value_gap)
    assert check(value_gap, table, "all runs").ok is True
    ratio = table["ratio"].copy()
    ratio[np.flatnonzero(rows(table, level="ball, least", share=1.0))[0]] = 1.01
    assert check(value_gap, with_column(table, "ratio", ratio), "all runs").ok is False


@pytest.mark.slow
def test_the_constant_is_compared_between_coverages() -> None:
    table = computed(value_gap)
    for factor, ok in ((3.0, True), (1 / 3, False)):
        of = {"coverage": "avoids", "level": "squared max_i b_i"}
        planted = times(factor, "ratio", **of)(ahead(0.0, "ratio", **of)(table))
        assert check(value_gap, planted, "c that holds the truth, avoids").ok is ok


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: fig1.Fig1Config(own=(1.5,)), "own"),
        (lambda: fig1.Fig1Config(rates=()), "rates"),
        (lambda: fig1.Fig1Config(instances=2), "instances"),
        (lambda: fig1.Fig1Config(r=7), "r"),
        (lambda: fig2.Fig2Config(own=(0.5, 0.1)), "own"),
        (lambda: reward_error.RewardErrorConfig(judged=5), "judged"),
        (lambda: reward_error.RewardErrorConfig(trajectories=18), "trajectories"),
        (lambda: value_gap.ValueGapConfig(middle=100), "middle"),
        (lambda: value_gap.ValueGapConfig(shares=(0.1,)), "shares"),
        (lambda: value_gap.ValueGapConfig(sizes=(128,)), "sizes"),
        (lambda: value_gap.ValueGapConfig(k=3), "k"),
    ],
)
def test_a_set_up_that_makes_no_sense_is_refused(build: Callable[[], rc.Config], what: str) -> None:
    with pytest.raises(InputError, match=f"`{what}`"):
        build()
