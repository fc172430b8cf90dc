"""FIRM's Figures 1 to 6: small ones run whole, planted violations are seen, what is exact is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.spatial import ConvexHull

import ratecheck as rc
from experiments.firm._alignment import OBJECTIVES, Learners, RegularisedConfig, optimum
from experiments.firm._comparison import advantage, ema, rewards_match, weights_match
from experiments.firm.figures import fig1, fig2, fig3, fig4, fig5, fig6
from linsys import InputError
from mgda.critic import LinearCritic
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP
from mgda.runs import MeanReturn
from mgda.simplex import simplex_qp
from mgda.trajectories import Clients
from ratecheck._run.runner import run
from ratecheck._store.store import Store
from tests._small_runs import Change, rows, swapped

SIZE: dict[str, Any] = {"instances": 8, "replicates": 4, "rounds": 8, "N": 2}
SMALL: dict[ModuleType, Any] = {
    module: module.EXPERIMENT.config_type(**SIZE) for module in (fig1, fig2, fig3, fig4, fig5, fig6)
}


def unmoved(arm: str) -> Change:
    """A setting whose helpfulness does not rise at all."""
    return lambda table: rc.Table(
        {**table, "reward_1": np.where(table["arm"] == arm, 0.5, table["reward_1"])}
    )


def elsewhere(arm: str) -> Change:
    """A setting whose weights are others."""
    return lambda table: rc.Table({**table, "weight": table["weight"] + 0.3 * rows(table, arm=arm)})


def reaching(table: rc.Table) -> rc.Table:
    """FIRM reaches as far as the mixture of Figure 3 does."""
    for p in (0.1, 0.9):
        table = swapped("arm", f"FIRM, {p}", f"mixture, {p}")(table)
    return table


def regularised(table: rc.Table) -> rc.Table:
    """Clients whose weights beta brings half as near again."""
    some = table["arm"] == "β = 0.05"
    middle = 0.5 * (table["client_1"] + table["client_2"])
    return rc.Table(
        {
            **table,
            **{
                name: np.where(some, 0.5 * (table[name] + middle), table[name])
                for name in ("client_1", "client_2")
            },
        }
    )


class TestFigures(rc.ExperimentSuite):
    small = SMALL
    slow = frozenset({fig1, fig2, fig3, fig4, fig5, fig6})
    contradicted = (
        *(
            (module, swapped("arm", first, second), name)
            for module, first, second, name in (
                (fig1, fig1.FIRM, fig1.SERVER, "change of smoothed weights"),
                (fig1, fig1.FIRM, fig1.SERVER, "deviation of smoothed weights between runs"),
                (fig1, fig1.FIRM, fig1.SERVER, "change of weights from step to step"),
                (fig1, fig1.CONTROL, fig1.SERVER, "deviation of smoothed weights, FedCMOO-A f"),
                (
                    fig2,
                    "β = 0",
                    "β = 0.05",
                    "distance of the clients' weights, β = 0.05",
                ),
                (fig3, "FIRM, 0.1", "FIRM, 0.9", "helpfulness: smallest increase"),
                (fig3, "FIRM, 0.1", "FIRM, 0.9", "harmlessness: smallest increase"),
                (fig4, fig4.SAME, fig4.arm(0.5), f"helpfulness: ({fig4.arm(0.5)}"),
                (fig5, fig5.IID, fig5.UNEVEN, "cost of uneven prompts"),
                (fig5, fig5.IID, fig5.UNEVEN, "spread of the clients' weights"),
                (fig6, "8 clients", "16 clients", "deviation of one run's weights"),
            )
        ),
        (fig1, unmoved(fig1.FIRM), "helpfulness"),
        (fig1, unmoved(fig1.FIRM), "mean gain of both"),
        (fig2, unmoved("β = 0"), "helpfulness"),
        (fig2, regularised, "size of that ratio"),
        (fig3, reaching, "distance between the outermost"),
        (fig4, unmoved(fig4.arm(0.1)), "helpfulness"),
        (fig4, elsewhere(fig4.arm(0.1)), "distance of the weights"),
        (fig5, elsewhere(fig5.UNEVEN), "distance of the weights"),
        (fig6, unmoved("16 clients"), "helpfulness"),
        (fig6, elsewhere("16 clients"), "distance of the weights"),
    )


computed, analysed = TestFigures.table, TestFigures.analysed


@pytest.mark.slow
def test_processes_do_not_change_a_table(tmp_path: Path) -> None:
    again = run(fig1.EXPERIMENT, SMALL[fig1], Store(tmp_path), threads=2, reference="firm/fig1")
    for key in computed(fig1):
        np.testing.assert_array_equal(again[key], computed(fig1)[key])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "first", "second", "claim"),
    [
        (fig1, fig1.FIRM, fig1.SERVER, "FIRM's weights are smoother is {} under"),
        (fig1, fig1.FIRM, fig1.SERVER, "from step to step, as they should, is {}"),
        (fig6, "8 clients", "16 clients", "has less variance, as derived, is {};"),
    ],
)
def test_notes_turn_with_the_verdicts(
    module: ModuleType, first: str, second: str, claim: str
) -> None:
    tables_of = computed(module), swapped("arm", first, second)(computed(module))
    right, wrong = (" ".join(analysed(module, table).notes) for table in tables_of)
    assert claim.format("borne out") in right
    assert claim.format("not borne out") in wrong


@pytest.mark.slow
def test_the_server_keeps_one_lambda_for_a_round() -> None:
    config = SMALL[fig1]
    server = computed(fig1).where(arm=fig1.SERVER)
    changes = np.abs(np.diff(server.grid("weight", "instance", "replicate", "t"), axis=-1))
    assert (server["spread"] == 0).all()
    inside = np.arange(changes.shape[-1]) % config.K != config.K - 1
    assert changes[..., inside].max() == 0 < changes[..., ~inside].min()
    firm = computed(fig1).where(arm=fig1.FIRM)
    assert np.diff(firm.grid("weight", "instance", "replicate", "t"), axis=-1).all()
    assert (firm["spread"] > 0).all()


@pytest.mark.slow
def test_all_settings_of_a_figure_start_alike() -> None:
    starts = [computed(module).where(t=0, instance=0) for module in (fig1, fig3, fig5, fig6)]
    starts += [computed(fig2).where(t=0, instance=0, setting=setting) for setting in fig2.SETTINGS]
    for start in starts:
        assert np.ptp(start["reward_1"]) < 1e-14
        assert 0 < start["reward_1"][0] < 1


def test_more_clients_are_the_same_ones_and_others() -> None:
    config = fig6.Fig6Config(**SIZE)
    momdp, once = config.momdp(0), np.array([0])
    few, many = (config.train(config.firm(), Clients(momdp, c), 0, once)[1] for c in (8, 16))
    np.testing.assert_array_equal(many[..., :8], few)
    assert not np.intersect1d(many[..., 8:], few).size


def test_critics_start_from_the_values_of_the_uniform_policy() -> None:
    momdp = sample_momdp(0, states=3, actions=2)
    options: dict[str, Any] = {"B": 4, "N": 1, "D": 4, "replicates": 2}
    learners = Learners(Clients(momdp, 2), LinearCritic(np.eye(3)), sampling="restarted", **options)
    memory = learners.init()
    values = momdp.at(np.zeros(momdp.d)).V
    np.testing.assert_allclose(memory.w, np.broadcast_to(values, memory.w.shape))
    _, after = learners.jac(np.zeros((2, 2, momdp.d)), memory)
    assert after.time == 8
    assert np.ptp(after.w, axis=(0, 1)).min() > 0


def policies(momdp: MOMDP) -> np.ndarray:
    """Normalised returns of all deterministic policies."""
    learned = []
    for policy in itertools.product(range(momdp.n_actions), repeat=momdp.n_states):
        chosen = np.arange(momdp.n_states), np.array(policy)
        bellman = np.eye(momdp.n_states) - momdp.gamma * momdp.P[chosen]
        learned.append(
            (1 - momdp.gamma) * momdp.start @ np.linalg.solve(bellman, momdp.mean_r[chosen])
        )
    return np.array(learned)


@given(st.integers(0, 10_000))
def test_the_pareto_front_is_the_hull_of_all_deterministic_policies(seed: int) -> None:
    momdp = sample_momdp(seed, states=3, actions=3, gamma=0.7)
    returns, front = policies(momdp), fig3.pareto_front(momdp)
    hull = returns[ConvexHull(returns).vertices]
    best = [p for p in hull if any((w @ p >= (returns @ w).max() - 1e-12) for w in angles(returns))]
    expected = np.array(sorted(map(tuple, best)))
    np.testing.assert_allclose(front, expected, atol=1e-12)
    assert (np.diff(front[:, 0]) > 0).all()
    assert (np.diff(front[:, 1]) < 0).all()
    for w in ((0.5, 0.5), (0.9, 0.1)):
        assert optimum(momdp, w) @ w == pytest.approx((returns @ w).max(), abs=1e-12)


def angles(returns: np.ndarray) -> list[np.ndarray]:
    """Positive directions, one inside the normal cone of every vertex of the Pareto front."""
    edges = ConvexHull(returns).equations[:, :2]
    steep = sorted(np.arctan2(n[1], n[0]) for n in edges if (n > 0).all())
    bounds = np.array([0.0, *steep, np.pi / 2])
    middle = 0.5 * (bounds[1:] + bounds[:-1])
    return [np.array([np.cos(a), np.sin(a)]) for a in middle]


@pytest.mark.slow
def test_training_ends_inside_the_front() -> None:
    config = SMALL[fig3]
    for k in range(3):
        front = fig3.pareto_front(config.momdp(k))
        part = computed(fig3).where(instance=k)
        ends = np.stack([part["reward_1"], part["reward_2"]], axis=-1)
        for a, b in itertools.pairwise(front):
            normal = np.array([a[1] - b[1], b[0] - a[0]])
            assert (ends @ normal <= a @ normal + 1e-12).all()
        assert (ends <= front.max(axis=0) + 1e-12).all()


@given(st.integers(1, 40), st.floats(0.2, 50.0))
def test_the_moving_average_weighs_the_past_by_halves(count: int, half_life: float) -> None:
    x = np.random.default_rng(count).standard_normal(count)
    weights = 0.5 ** (np.arange(count)[::-1] / half_life)
    assert ema(x, half_life)[-1] == pytest.approx(weights @ x / weights.sum())
    np.testing.assert_allclose(ema(np.full(count, 0.3), half_life), 0.3)


def normalised(seed: int, count: int) -> np.ndarray:
    """Trace-normalised Gram matrices of two gradients, many of them almost parallel."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((count, 3, 2))
    near = 10.0 ** rng.uniform(-3, 0, (count // 2, 1, 1))
    A[: count // 2] = A[: count // 2, :, :1] + near * A[: count // 2]
    G = np.swapaxes(A, -1, -2) @ A
    return np.asarray(2.0 * G / np.trace(G, axis1=1, axis2=2)[:, None, None])


@pytest.mark.parametrize("beta", [0.01, 0.05, 1.0])
def test_beta_changes_a_direction_by_at_most_a_quarter_of_its_root(beta: float) -> None:
    """The two statements of Figure 2, and that the second is attained."""
    G = normalised(0, 20_000)
    e, g = 0.5 * (G[:, 0, 0] - G[:, 1, 1]), G[:, 0, 1]
    weights = {b: simplex_qp(G, beta=b).weights for b in (0.0, beta)}
    for b, lambdas in weights.items():
        inside = np.abs(e) < 1 - g + b / 2
        stated = 0.5 - 0.5 * e / (1 - g + b / 2)
        np.testing.assert_allclose(lambdas[inside, 0], stated[inside], atol=1e-7)
        assert np.isin(lambdas[~inside, 0], (0.0, 1.0)).all()
    moved = weights[beta] - weights[0.0]
    change = np.sqrt(np.einsum("bi,bij,bj->b", moved, G, moved))
    assert change.max() <= np.sqrt(beta) / 4 + 1e-9
    u = beta / 2
    worst = np.array([[1 + u, 1 - u], [1 - u, 1 - u]])
    moved = simplex_qp(worst, beta=beta).weights - simplex_qp(worst).weights
    assert np.sqrt(moved @ worst @ moved) == pytest.approx(np.sqrt(beta) / 4)
    assert change.max() > 0.9 * np.sqrt(beta) / 4  # a bound a tenth lower would be violated


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_what_preferences_mean_depends_on_the_scale_of_the_gradients(p: float) -> None:
    pair = (p, 1 - p)
    small = 1e-4 * np.array([[1.0, -0.3], [-0.3, 2.0]])
    raw = simplex_qp(small, preference=pair).weights
    np.testing.assert_allclose(raw, pair, atol=1e-3)
    between = simplex_qp(np.eye(2), preference=pair, normalise=True).weights
    share = np.array(pair) / (1 + np.array(pair))
    np.testing.assert_allclose(between, share / share.sum())
    assert abs(between[0] - 0.5) <= abs(p - 0.5)
    large = simplex_qp(small, preference=1e6 * np.array(pair), normalise=True).weights
    np.testing.assert_allclose(large, simplex_qp(small).weights, atol=1e-4)


def test_reward_models_disagree_as_far_as_stated() -> None:
    config = fig4.Fig4Config(states=20, actions=20, levels=(0.1, 0.5, 1.0))
    first, others = config.models(0)
    changed = np.array([o.mean_r[..., 0] != first.mean_r[..., 0] for o in others])
    assert changed.mean(axis=(1, 2)) == pytest.approx([0.1, 0.5, 1.0], abs=0.1)
    assert (changed[:-1] <= changed[1:]).all()  # what differs at a level does so at all above
    for other in others:
        np.testing.assert_array_equal(other.r[..., 1], first.r[..., 1])
        ours, theirs = (np.corrcoef(m.mean_r.reshape(-1, 2).T)[0, 1] for m in (first, other))
        assert ours == pytest.approx(theirs, abs=0.1)
        assert ours < -0.1


def test_the_first_order_loss_is_that_of_a_small_step() -> None:
    """Gradients of one length with given cosines: what Figure 4 says is lost along their sum."""
    rho, kappa = 0.6, -0.2
    G = np.array([[1, rho, kappa], [rho, 1, kappa], [kappa, kappa, 1]])
    h, other, s = np.linalg.cholesky(G)
    mean = 0.5 * (h + other)
    gained = mean @ (mean + s) / (h @ (h + s))
    assert 1 - gained == pytest.approx((1 - rho) / (2 * (1 + kappa)))
    assert s @ (mean + s) == pytest.approx(s @ (h + s))


def test_uneven_prompts_leave_the_objective_alone() -> None:
    config = fig5.Fig5Config(**SIZE)
    uneven = config.processes(0)
    pooled = replace(uneven[0], mu0=np.mean([m.start for m in uneven], axis=0))
    theta = np.random.default_rng(0).standard_normal(pooled.d)
    mean = MeanReturn(Clients(uneven), first=0)
    np.testing.assert_allclose(mean.J(theta), pooled.J(theta))
    np.testing.assert_allclose(mean.jac(theta), pooled.jac(theta), atol=1e-13)
    assert np.ptp([m.start for m in uneven], axis=0).min() > 0.05
    stays = np.einsum("sas->sa", pooled.P)
    assert (stays > config.stay).all()
    np.testing.assert_allclose(pooled.P.sum(axis=-1), 1.0)


def planted(weights: dict[str, float], gains: dict[str, float], noise: float = 0.01) -> rc.Table:
    """Runs of two settings with known weights and gains."""
    rng = np.random.default_rng(0)
    shape = (len(weights), 4, 50, 3)
    level, rise = (np.array(list(v.values()))[:, None, None, None] for v in (weights, gains))
    axes = {"arm": list(weights), "instance": range(4), "replicate": range(50), "t": [0, 1, 2]}
    t, scatter = np.arange(3.0), noise * rng.standard_normal(shape)
    return rc.Table(
        rc.long_table(
            {key: np.asarray(list(value)) for key, value in axes.items()},
            weight=level + scatter,
            reward_1=0.4 + 0.5 * rise * t + np.zeros(shape),
            reward_2=0.6 + 0.1 * t + np.zeros(shape),
        )
    )


def test_advantages_are_shares_of_the_mean_gain() -> None:
    table = planted({"a": 0.5, "b": 0.5}, {"a": 0.35, "b": 0.4})
    share = advantage(table, 1, "a", "b")  # gains of b: 0.4 and 0.2
    assert [share.value, share.lo, share.hi] == pytest.approx([-0.05 / 0.3] * 3)
    first, second = rewards_match(OBJECTIVES.values(), table, "a", "b")
    assert (first.ok, second.ok) == (False, True)
    assert second.measured == pytest.approx(0.0)


@pytest.mark.parametrize(("apart", "ok"), [(0.005, True), (0.02, False)])
def test_weights_match_up_to_the_deviation_of_one_run(apart: float, ok: bool) -> None:
    table = planted({"a": 0.5 + apart, "b": 0.5}, {"a": 0.1, "b": 0.1})
    check = weights_match(table, "a", "b")
    assert check.ok is ok
    assert check.measured == pytest.approx(apart / 0.01, rel=0.25)


def test_firm_is_run_as_in_the_experiments() -> None:
    config = RegularisedConfig()
    assert config.firm() == FIRM(alpha=10.0, K=3, beta=0.01, normalise=True, eta=1.0)
    assert config.firm(0.0).beta == 0.0
    assert (config.clients, config.B, config.rounds, config.objectives) == (8, 16, 16, 2)
    assert (config.steps[-1], config.ends.tolist()) == (48, list(range(0, 49, 3)))
    assert fig2.Fig2Config().beta == 0.05


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (fig1.Fig1Config, {"objectives": 3}, "`objectives` must be 2"),
        (fig1.Fig1Config, {"instances": 2}, "`instances`"),
        (fig1.Fig1Config, {"half_life": 0.0}, "`half_life`"),
        (fig1.Fig1Config, {"rounds": 3}, "`rounds`"),
        (fig2.Fig2Config, {"clients": 3}, "`clients` must be 2"),
        (fig2.Fig2Config, {"beta": 0.0}, "`beta`"),
        (fig3.Fig3Config, {"preferences": (0.5, 0.2)}, "`preferences` must be at least 2 incr"),
        (fig3.Fig3Config, {"preferences": (0.5, 1.0)}, "`preferences`"),
        (fig4.Fig4Config, {"levels": (0.5,)}, "`levels` must be at least 2 increasing"),
        (fig4.Fig4Config, {"clients": 5}, "`clients` must be even"),
        (fig5.Fig5Config, {"concentration": 0.0}, "`concentration`"),
        (fig5.Fig5Config, {"stay": 1.0}, "`stay`"),
        (fig6.Fig6Config, {"factor": 1}, "`factor`"),
    ],
)
def test_bad_options_are_named(
    config: type[rc.Config], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        config(**options)
