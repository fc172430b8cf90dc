"""The suite of experiments: what it lets pass, and one fault at a time that it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

DECAY = "slope at [0.5]"


def suite(module: ModuleType, **options: Any) -> rc.ExperimentSuite:
    """A suite of the toy rate and of its exponents doubled."""
    config = module.EXPERIMENT.config_type(rates=(0.5, 1.0))
    double = (module, "FACTOR", 2.0, DECAY)
    attributes = {"small": {module: config}, "wrong": [double], **options}
    instance: rc.ExperimentSuite = type("TestToys", (rc.ExperimentSuite,), attributes)()
    return instance


@pytest.fixture
def module(decay: rc.Experiment[Any]) -> ModuleType:
    """The toy rate as a module whose prediction can be replaced."""
    toys = ModuleType("toys.decay")

    def analyse(config: Any, table: rc.Table) -> rc.Analysis:
        stated = toys.FACTOR * np.array(config.rates) - np.array(config.rates)
        return decay.analyse(replace(config, claimed=float(stated[0])), table)

    toys.FACTOR = 1.0  # type: ignore[attr-defined]
    toys.EXPERIMENT = replace(decay, analyse=analyse)  # type: ignore[attr-defined]
    return toys


def test_a_sound_experiment_passes(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = suite(module)
    sound.test_a_small_experiment_runs_to_its_figure(module)
    sound.test_a_block_depends_on_its_configuration_alone(module)
    sound.test_a_wrong_prediction_is_refused(sound.wrong[0], monkeypatch)
    assert sound.failed(module) == {DECAY, "slope at [1]"}  # until the prediction is put back
    monkeypatch.undo()
    assert sound.failed(module) == set()
    assert sound.check(module, None, "slope", "[1]").ok is True


def spoilt(module: ModuleType, **functions: Callable[..., Any]) -> rc.ExperimentSuite:
    """The suite of an experiment of which some functions are others."""
    module.EXPERIMENT = replace(module.EXPERIMENT, **functions)  # type: ignore[attr-defined]
    return suite(module)


def test_a_block_that_depends_on_earlier_ones_is_noticed(module: ModuleType) -> None:
    calls: list[int] = []
    compute = module.EXPERIMENT.compute

    def drifting(*arguments: Any) -> Any:
        calls.append(1)
        return {**compute(*arguments), "calls": len(calls)}

    wrong = spoilt(module, compute=drifting)
    with pytest.raises(AssertionError, match="not equal"):
        wrong.test_a_block_depends_on_its_configuration_alone(module)


def test_a_block_that_depends_on_threads_is_noticed(module: ModuleType) -> None:
    compute = module.EXPERIMENT.compute
    wrong = spoilt(module, compute=lambda c, b, x: {**compute(c, b, x), "threads": x.threads})
    with pytest.raises(AssertionError, match="not equal"):
        wrong.test_a_block_depends_on_its_configuration_alone(module)


def test_a_seed_that_changes_nothing_is_noticed_and_so_is_one_that_should_not(
    module: ModuleType,
) -> None:
    with pytest.raises(AssertionError):
        suite(module, exact={module}).test_a_block_depends_on_its_configuration_alone(module)
    compute = module.EXPERIMENT.compute
    wrong = spoilt(module, compute=lambda c, b, x: compute(replace(c, seed=7), b, x))
    with pytest.raises(AssertionError):
        wrong.test_a_block_depends_on_its_configuration_alone(module)


def test_checks_must_hold_and_have_names_of_their_own(module: ModuleType) -> None:
    analyse = module.EXPERIMENT.analyse

    def checks(*chosen: rc.Check) -> Any:
        return lambda config, table: replace(analyse(config, table), checks=chosen)

    right = rc.Check("a", 1.0, 1.0, None, None, True)
    for wrong in ([], [right, right], [right, rc.Check("b", 1.0, 2.0, None, None, False)]):
        module.EXPERIMENT = replace(  # type: ignore[attr-defined]
            module.EXPERIMENT, analyse=checks(*wrong)
        )
        with pytest.raises(AssertionError):
            suite(module).test_a_small_experiment_runs_to_its_figure(module)
    undecided = spoilt(module, analyse=checks(replace(right, ok=None)))
    with pytest.raises(AssertionError):  # a rate that decides nothing is none
        undecided.test_a_small_experiment_runs_to_its_figure(module)


def test_a_figure_without_a_panel_is_noticed(module: ModuleType) -> None:
    draw = module.EXPERIMENT.draw

    def without_one(config: Any, analysis: rc.Analysis) -> Any:
        figure = draw(config, analysis)
        figure.delaxes(figure.axes[0])
        return figure

    with pytest.raises(AssertionError):
        spoilt(module, draw=without_one).test_a_small_experiment_runs_to_its_figure(module)


def test_a_wrong_prediction_that_no_check_refuses_is_noticed(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "the table is not computed again, so that `analyse` must use FACTOR"
    for wrong in ((module, "FACTOR", 1.0, DECAY), (module, "FACTOR", 2.0, "another check")):
        with pytest.raises(
            AssertionError, match=re.escape(f"no check named {wrong[3]!r} fails; {why}")
        ):
            suite(module).test_a_wrong_prediction_is_refused(wrong, monkeypatch)


def test_a_check_that_fails_anyway_proves_nothing(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.FACTOR = 3.0  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        suite(module).test_a_wrong_prediction_is_refused(
            (module, "FACTOR", 2.0, DECAY), monkeypatch
        )


def slower(table: rc.Table) -> rc.Table:
    """Curves of the toy rate that do not fall."""
    return rc.Table({**table, "mse": 1.0 + 0.0 * table["mse"]})


def test_results_that_contradict_a_statement_are_refused(module: ModuleType) -> None:
    sound = suite(module, wrong=(), contradicted=[(module, slower, DECAY)])
    sound.test_what_is_said_can_fail(module)
    sound.test_contradicting_results_are_refused(sound.contradicted[0])
    assert sound.failed(module) == set()
    for change, name in ((lambda table: table, DECAY), (slower, "another check")):
        with pytest.raises(AssertionError, match=re.escape(f"no check named {name!r} fails")):
            sound.test_contradicting_results_are_refused((module, change, name))
    module.FACTOR = 3.0  # type: ignore[attr-defined]
    fails = suite(module, contradicted=sound.contradicted)
    with pytest.raises(AssertionError, match="with the results as they are these checks fail"):
        fails.test_contradicting_results_are_refused(sound.contradicted[0])


def test_an_experiment_that_cannot_fail_says_why(module: ModuleType) -> None:
    suite(module).test_what_is_said_can_fail(module)
    suite(module, wrong=(), unperturbed={module: "it says nothing"}).test_what_is_said_can_fail(
        module
    )
    holder = ModuleType("toys.laws")
    suite(module, wrong=[(holder, "LAW", 0.0, DECAY, module)]).test_what_is_said_can_fail(module)
    refused: list[dict[str, Any]] = [
        {"wrong": ()},
        {"wrong": (), "unperturbed": {module: " "}},
        {"unperturbed": {module: "it says nothing"}},  # but it has a wrong prediction
    ]
    for options in refused:
        with pytest.raises(AssertionError, match="reason for neither in `unperturbed`"):
            suite(module, **options).test_what_is_said_can_fail(module)


def test_without_cases_there_is_no_test_of_them(module: ModuleType) -> None:
    neither = suite(module, wrong=(), unperturbed={module: "it says nothing"})
    assert neither.test_a_wrong_prediction_is_refused is None
    assert neither.test_contradicting_results_are_refused is None
