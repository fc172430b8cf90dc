"""The figures of OOD-PL: small ones run whole, planted violations are seen, nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.oodpl._domains import CONTROLS, ORACLES, OURS, RIVALS, MethodsConfig
from experiments.oodpl.figures import fig2, fig3, fig4, table3
from linsys import InputError
from linsys.bilevel import (
    DomainOracle,
    expected_reward,
    implicit,
    optimum,
    policy_kl,
    reward_mle,
    sampled_preferences,
    sft,
)
from tests._small_runs import ahead

DOMAINS: dict[str, Any] = {
    "prompts": 3, "answers": 4, "p": 2, "q": 2, "pairs": 40, "D": 10, "K": 20, "instances": 3,
}  # fmt: skip
SIZES: dict[str, Any] = {**DOMAINS, "steps": 20}
SMALL: dict[ModuleType, Any] = {
    fig2: fig2.Fig2Config(**SIZES, points=4, shifts=(0.2, 1.0), specifics=(0.0, 0.5)),
    fig3: fig3.Fig3Config(**SIZES, temperatures=(0.5, 1.0)),
    fig4: fig4.BetaConfig(**DOMAINS, betas=(0.1, 1.0, 4.0), etas=(0.125, 64.0), points=2),
    table3: table3.Table3Config(**SIZES, splits=2, held=2),
}


#: Which rows a claim says are ahead, in which column, and the check that judges it.
AHEAD: list[tuple[ModuleType, dict[str, Any], str, str]] = [
    *(
        (fig2, {"method": OURS}, "accuracy", f"{kind}A_PL, {OURS} − {n}")
        for n in RIVALS[:-2]
        for kind in ("", "own bases: ")
    ),
    (fig2, {"method": OURS}, "accuracy", f"A_PL, {OURS} − MLE, fitted beta"),
    (fig2, {"method": "DPO"}, "accuracy", "A_PL, DPO − SFT"),
    (fig2, {"t": 20}, "accuracy", "training domains, A_PL"),
    (fig2, {"t": 0}, "loss", "training domains, PL loss"),
    (
        fig2,
        {"method": OURS, "shift": 0.2},
        "accuracy",
        "lead over HPL (TR), shift 0.2 − shift 1 (0 of",
    ),
    (fig3, {"method": OURS, "temperature": 0.5}, "mean", f"reward at 0.5, {OURS} − DPO"),
    (fig3, {"temperature": 1.0}, "std", "PPO (TR): standard deviation"),
    (fig4, {"beta": 4.0, "eta": 64.0}, "accuracy", "A_PL at eta = 64"),
    (fig4, {"beta": 1.0, "eta": 0.125}, "accuracy", "A_PL at eta = 0.125"),
    (fig4, {"beta": 4.0, "way": fig4.TANH}, "loss", "bounded reward"),
    (table3, {"method": "DPO"}, "wins", "DPO − SFT"),
    (table3, {"method": "HPL"}, "wins", f"HPL − {OURS}"),
    (fig2, {"method": "HPL"}, "accuracy", f"A_PL, HPL − {OURS}"),
    (fig3, {"method": "HPL", "temperature": 0.5}, "mean", f"reward at 0.5, HPL − {OURS}"),
    (table3, {"method": "PPO (TR+TE)"}, "wins", "PPO (TR+TE) − PPO (TR)"),
    (table3, {"method": "oracle, beta/10"}, "wins", "oracle, beta/10 −"),
]


class TestFigures(rc.ExperimentSuite):
    small = SMALL
    loose = frozenset(SMALL)
    slow = frozenset({fig2, fig3, fig4, table3})
    contradicted = tuple(
        (module, ahead(-0.1, column, **of), part) for module, of, column, part in AHEAD
    )


computed, analysed = TestFigures.table, TestFigures.analysed


def check(module: ModuleType, table: rc.Table, start: str) -> rc.Check:
    """The one check of a figure whose name begins like this."""
    (named,) = (c for c in analysed(module, table).checks if c.name.startswith(start))
    return named


def with_values(table: rc.Table, **values: Any) -> rc.Table:
    """The table with some columns in the place of its own."""
    return rc.Table({**{key: table[key] for key in table}, **values})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "of", "column", "part"),
    [*AHEAD, (table3, {"method": OURS}, "wins", f"{OURS} − MLE, fitted beta")],
)
def test_checks_see_which_arm_is_ahead(
    module: ModuleType, of: dict[str, Any], column: str, part: str
) -> None:
    assert check(module, ahead(0.1, column, **of)(computed(module)), part).ok is True


@pytest.mark.slow
def test_beta_is_a_step_size_and_another_power_of_it_would_be_seen() -> None:
    table, config = computed(fig4), SMALL[fig4]
    for way in (fig4.STEP, fig4.REWARD):
        assert check(fig4, table, f"{way}, linear").ok is True
    last = table["t"] == table["t"].max()
    moved = last & (table["way"] == fig4.STEP) & (table["beta"] == 4.0)
    broken = with_values(table, theta0=table["theta0"] * (1.0 + 1e-8 * moved))
    assert check(fig4, broken, f"{fig4.STEP}, linear").ok is False
    # the same eta, or one in proportion to beta, are other steps
    domains = config.domains(0, 4, "linear")
    ends = []
    for power in (0, 1, 2):
        *_, row = fig4._run(config, 0, domains, 4.0, config.eta * 4.0**power)
        ends.append([row["theta0"], row["theta1"]])
    *_, one = fig4._run(config, 0, domains, 1.0, config.eta)
    away = np.abs(np.array(ends) - [one["theta0"], one["theta1"]]).max(axis=1)
    assert away[2] < 1e-12 < 1e-3 < away[1] < away[0]


@pytest.mark.slow
def test_the_gradient_shrinks_like_one_over_beta_before_anything_is_learned() -> None:
    table = computed(fig4)
    assert check(fig4, table, "exponent of").ok is True
    steeper = with_values(table, gradient=table["gradient"] / table["beta"] ** 0.01)
    assert check(fig4, steeper, "exponent of").ok is False
    # the derivative of phi -> L_PL(theta_*(phi)), by differences
    config = SMALL[fig4]
    oracle = DomainOracle(domain=config.domains(0, 4, "linear")[1][-1], beta=2.0)
    zero, step = np.zeros(2), 1e-5

    def loss(phi: np.ndarray[Any, Any]) -> float:
        return oracle.outer_loss(optimum(oracle, phi))

    by_hand = [(loss(step * e) - loss(-step * e)) / (2 * step) for e in np.eye(2)]
    exact = implicit(oracle, zero, optimum(oracle, zero))
    # step^2 = 1e-10 from the difference, 1e-16 / step = 1e-11 from rounding
    assert exact == pytest.approx(by_hand, abs=1e-8)


def test_runs_that_explode_are_counted_and_keep_what_they_had() -> None:
    table = computed(fig4)
    lost = table.where(beta=0.1, eta=64.0, way=fig4.SAME, t=20)
    assert lost["lost"].all()
    assert "beta = 0.1 at eta = 64 (3)" in analysed(fig4, table).notes[-1]
    assert not table.where(way=fig4.STEP)["lost"].any()
    assert np.isfinite(lost["accuracy"]).all()


def test_only_hpl_sees_preferences_of_the_held_out_domain() -> None:
    config = MethodsConfig(**SIZES)
    sampled, exact = config.domains(0, 4)
    *train, test = sampled
    others = sampled_preferences(exact[-1].pairs, 40, seed=99)
    before, after = (
        config.policies(train, domain, 0) for domain in (test, replace(test, preferences=others))
    )
    assert set(before) == {OURS, *RIVALS, *CONTROLS, *ORACLES}
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"HPL"}


def test_only_some_see_fine_tuning_data_of_the_held_out_domain() -> None:
    config = MethodsConfig(**SIZES)
    *train, test = config.domains(0, 4)[0]
    other = replace(test, mu_hat=np.full_like(test.mu_hat, 0.25))
    before, after = (config.policies(train, domain, 0) for domain in (test, other))
    same = {name for name in before if np.array_equal(before[name], after[name])}
    assert same == {"PPO (TR)", "HPL", "HPL (TR)"}


def test_only_features_of_policies_are_turned() -> None:
    config = MethodsConfig(**SIZES)
    for part, other in zip(config.domains(0, 2), config.domains(0, 2, turned=True), strict=True):
        for plain, turned in zip(part, other, strict=True):
            np.testing.assert_array_equal(plain.reward.xi, turned.reward.xi)
            np.testing.assert_array_equal(plain.pairs.y, turned.pairs.y)
            assert not np.allclose(plain.policy.psi, turned.policy.psi)
            # an orthogonal basis of the same space: the same policies, at another theta
            gram = [
                d.policy.psi.reshape(-1, 2) @ d.policy.psi.reshape(-1, 2).T for d in (plain, turned)
            ]
            np.testing.assert_allclose(*gram, atol=1e-12)


def test_methods_that_adapt_to_the_new_domain_do_not_care_for_its_basis() -> None:
    config = MethodsConfig(**SIZES)
    reached = []
    for turned in (False, True):
        *train, test = config.domains(0, 4, turned=turned)[0]
        theta = config.policies(train, test, 0)["MLE + (10)"]
        reached.append(test.policy.log_prob(theta))
    np.testing.assert_allclose(*reached, atol=1e-8)  # Newton's tolerance


def test_sampled_and_exact_domains_differ_in_their_pairs_alone() -> None:
    for sampled, exact in zip(*MethodsConfig(**SIZES).domains(1, 3), strict=True):
        np.testing.assert_array_equal(sampled.true_reward, exact.true_reward)
        np.testing.assert_array_equal(sampled.mu_hat, exact.mu_hat)
        assert len(sampled.pairs.x) == 40 != len(exact.pairs.x)


def test_the_oracle_is_the_best_at_its_own_objective() -> None:
    config = MethodsConfig(**{**SIZES, "steps": 400})
    sampled, _ = config.domains(0, 4)
    *train, test = sampled
    start = test.policy.log_prob(sft(sampled))

    def objective(theta: np.ndarray[Any, Any]) -> float:
        apart = policy_kl(test, np.exp(test.policy.log_prob(theta)), np.exp(start))
        return expected_reward(test, theta).mean - config.beta * apart

    objectives = {name: objective(theta) for name, theta in config.policies(train, test, 0).items()}
    assert max(objectives, key=objectives.__getitem__) == "oracle"


def test_the_fitted_beta_is_a_minimum() -> None:
    config = MethodsConfig(**SIZES)
    *train, _ = config.domains(0, 4)[0]
    phi = reward_mle(train, ridge=config.ridge)
    beta = config.fitted_beta(train, phi)

    def loss(beta: float) -> float:
        oracles = [DomainOracle(domain=domain, beta=beta) for domain in train]
        return float(np.mean([o.outer_loss(optimum(o, phi)) for o in oracles]))

    assert loss(beta) < min(loss(0.8 * beta), loss(beta / 0.8))


@pytest.mark.slow
def test_the_table_marks_one_best_method_for_every_domain_and_average() -> None:
    with rc.style():
        figure = table3.EXPERIMENT.draw(SMALL[table3], analysed(table3, computed(table3)))
    texts = [text for ax in figure.axes for text in ax.texts]
    assert sum(text.get_weight() == "bold" for text in texts) == 2 * (2 + 1)
    underlined = [
        line for ax in figure.axes[:-1] for line in ax.lines if line.get_linewidth() == 0.7
    ]
    assert len(underlined) == 2 * (2 + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MethodsConfig(instances=2), "`instances`"),
        (lambda: MethodsConfig(shift=1.5), "`shift`"),
        (lambda: MethodsConfig(inner_batch=0), "`inner_batch`"),
        (lambda: MethodsConfig(ridge=0.0), "`ridge`"),
        (lambda: fig2.Fig2Config(shifts=(0.5, 0.5)), "`shifts`"),
        (lambda: fig2.Fig2Config(points=1), "`points`"),
        (lambda: fig3.Fig3Config(temperatures=(1.0,)), "`temperatures`"),
        (lambda: fig4.BetaConfig(betas=(2.0, 4.0)), "`betas`"),
        (lambda: fig4.BetaConfig(eta=0.3), "`etas`"),
        (lambda: table3.Table3Config(splits=1), "`splits`"),
    ],
)
def test_impossible_set_ups_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
