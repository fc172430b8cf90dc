"""What every experiment has to pass, at a configuration so small that it takes a moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ratecheck._experiment.model import Analysis, Check, Config, Context, Experiment
from ratecheck._experiment.plots import figure_of, style
from ratecheck._experiment.table import Table
from ratecheck._run.runner import run
from ratecheck._store.store import Store

if TYPE_CHECKING:
    import pytest


class ExperimentSuite:
    """Tests of experiments that a class of tests inherits; pytest runs them for each experiment.

    - A small experiment runs: it is stored, read, analysed and drawn; no two checks have one name.
    - A block's numbers depend on the configuration and on the block alone, whatever was computed
      before it and with however many threads; and they depend on the seed.
    - Every experiment says something that can fail: a prediction that is replaced by a wrong one is
      refused, or results that contradict it are, by the check that is named for it.

    Attributes:
        small: a configuration of every experiment, by its module.
        wrong: what to put in the place of a prediction: the module that holds it, its name there,
            the wrong value, the beginning of the name of the check that fails then; and, where the
            prediction is in a module that several experiments share, whose checks they are. It is
            replaced after ``compute``, so that ``analyse`` must use it.
        contradicted: results for which a statement is false, such as those in which two methods
            have changed places: the module, a function that makes such a table of the computed
            one, and a part of the name of the check that fails then.
        unperturbed: experiments that are in neither of the two, by their module, and why.
        exact: experiments in which nothing is random, so that the seed changes nothing.
        loose: experiments whose checks may come out either way at so small a size.
        slow: experiments that take long all the same: their tests carry the marker ``slow``.

    Example::

        class TestRates(rc.ExperimentSuite):
            small = {rate_n: rate_n.RateNConfig(instances=1), rate_t: rate_t.RateTConfig(times=...)}
            wrong = [(rate_n, "PREDICTED", -1.5, "AffPCL: exponent of n")]
            contradicted = [(rate_t, lambda t: rc.Table({**t, "mse": 1 / t["mse"]}), "exponent")]
            exact = {rate_t}
    """

    small: ClassVar[Mapping[ModuleType, Any]]
    wrong: ClassVar[Sequence[tuple[Any, ...]]] = ()
    contradicted: ClassVar[Sequence[tuple[ModuleType, Callable[[Table], Table], str]]] = ()
    unperturbed: ClassVar[Mapping[ModuleType, str]] = {}
    exact: ClassVar[Collection[ModuleType]] = ()
    loose: ClassVar[Collection[ModuleType]] = ()
    slow: ClassVar[Collection[ModuleType]] = ()
    _stored: ClassVar[dict[ModuleType, tuple[Table, tuple[Table, Table]]]]
    _failed: ClassVar[dict[ModuleType, set[str]]]

    def __init_subclass__(cls) -> None:
        cls._stored, cls._failed = {}, {}
        # pytest would skip a test without cases
        if not cls.wrong:
            cls.test_a_wrong_prediction_is_refused = None  # type: ignore[assignment, method-assign]
        if not cls.contradicted:
            cls.test_contradicting_results_are_refused = None  # type: ignore[assignment, method-assign]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test for every experiment, or for every wrong prediction."""
        if "experiment_module" in metafunc.fixturenames:
            cases = [self._case(module, module) for module in self.small]
            metafunc.parametrize("experiment_module", cases)
        if "wrong_prediction" in metafunc.fixturenames:
            cases = [self._case(_whose(of), of, of[1], of[3]) for of in self.wrong]
            metafunc.parametrize("wrong_prediction", cases)
        if "contradiction" in metafunc.fixturenames:
            cases = [self._case(of[0], of, of[2]) for of in self.contradicted]
            metafunc.parametrize("contradiction", cases)

    @classmethod
    def _case(cls, module: ModuleType, value: Any, *names: str) -> Any:
        """A parameter that is named after its experiment."""
        import pytest

        name = "-".join([module.__name__.rpartition(".")[2], *names])
        return pytest.param(value, id=name, marks=[pytest.mark.slow] if module in cls.slow else [])

    @classmethod
    def table(cls, module: ModuleType) -> Table:
        """The rows of all blocks of an experiment at its small configuration, computed once."""
        return cls._computed(module)[0]

    @classmethod
    def analysed(cls, module: ModuleType, table: Table | None = None) -> Analysis:
        """What the experiment says of this table, or of its own."""
        experiment: Experiment[Any] = module.EXPERIMENT
        return experiment.analyse(cls.small[module], cls.table(module) if table is None else table)

    @classmethod
    def failed(cls, module: ModuleType, table: Table | None = None) -> set[str]:
        """The names of the checks that fail."""
        return {check.name for check in cls.analysed(module, table).checks if check.ok is False}

    @classmethod
    def check(cls, module: ModuleType, table: Table | None, *parts: str) -> Check:
        """The one check whose name has all these parts."""
        checks = cls.analysed(module, table).checks
        (named,) = (check for check in checks if all(part in check.name for part in parts))
        return named

    def test_a_small_experiment_runs_to_its_figure(self, experiment_module: ModuleType) -> None:
        experiment, config = experiment_module.EXPERIMENT, self.small[experiment_module]
        analysis = self.analysed(experiment_module)
        names = [check.name for check in analysis.checks]
        assert names, f"{experiment.id} must check something"
        twice = sorted({name for name in names if names.count(name) > 1})
        assert not twice, f"checks of {experiment.id} must have names of their own; found {twice}"
        if experiment_module not in self.loose:
            failed = sorted(self.failed(experiment_module))
            assert not failed, f"of {experiment.id} these checks fail: {failed}"
        with style():
            figure = figure_of(experiment, config, analysis)
            figure.draw_without_rendering()
        assert figure.axes
        if experiment.kind == "rate":
            assert len(figure.axes) == len({series.panel for series in analysis.series})
            decided = [check.ok for check in analysis.checks].count(True)
            assert decided >= len(names) / 2, (
                f"{experiment.id} decides {decided} of {len(names)} checks at its small "
                "configuration, which must be so large that it decides half of them"
            )

    def test_a_block_depends_on_its_configuration_alone(
        self, experiment_module: ModuleType
    ) -> None:
        experiment, config = experiment_module.EXPERIMENT, self.small[experiment_module]
        first, last = self._computed(experiment_module)[1]
        again = experiment.compute(config, experiment.blocks(config)[0], Context(threads=2))
        for name, column in again.items():
            np.testing.assert_array_equal(np.broadcast_to(column, first.rows), first[name])
        changed = replace(config, seed=config.seed + 1)
        other = experiment.compute(changed, experiment.blocks(changed)[-1], Context())
        equal = [np.array_equal(np.broadcast_to(other[n], last.rows), last[n]) for n in other]
        same, said = all(equal), experiment_module in self.exact
        assert same == said, (
            f"{experiment_module.__name__} must be in `exact` if and only if another seed changes "
            f"no result; found {'no change' if same else 'other results'}"
        )

    def test_what_is_said_can_fail(self, experiment_module: ModuleType) -> None:
        name = experiment_module.EXPERIMENT.id
        perturbed = {*map(_whose, self.wrong), *(of[0] for of in self.contradicted)}
        reason = self.unperturbed.get(experiment_module, "")
        assert (experiment_module in perturbed) != bool(reason.strip()), (
            f"{name} must have a prediction in `wrong`, results in `contradicted`, or else the "
            "reason for neither in `unperturbed`"
        )

    def test_a_wrong_prediction_is_refused(
        self, wrong_prediction: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        holder, constant, value, name, *_ = wrong_prediction
        module = _whose(wrong_prediction)
        before = [c for c in self._failing(module) if c.startswith(name)]
        assert not before, f"with the right {constant} these checks fail: {before}"
        assert hasattr(holder, constant), f"{constant!r} must be a name in {holder.__name__}"
        monkeypatch.setattr(holder, constant, value)
        refused = any(check.startswith(name) for check in self.failed(module))
        assert refused, (
            f"with {constant} = {value!r} no check named {name!r} fails; the table is not computed "
            f"again, so that `analyse` must use {constant}"
        )

    def test_contradicting_results_are_refused(
        self, contradiction: tuple[ModuleType, Callable[[Table], Table], str]
    ) -> None:
        module, change, name = contradiction
        before = [c for c in self._failing(module) if name in c]
        assert not before, f"with the results as they are these checks fail: {before}"
        refused = any(name in check for check in self.failed(module, change(self.table(module))))
        assert refused, f"with results that contradict it no check named {name!r} fails"

    @classmethod
    def _failing(cls, module: ModuleType) -> set[str]:
        """The checks that fail with predictions and results as they are."""
        if module not in cls._failed:
            cls._failed[module] = cls.failed(module)
        return cls._failed[module]

    @classmethod
    def _computed(cls, module: ModuleType) -> tuple[Table, tuple[Table, Table]]:
        """The whole table, and the rows of the first and of the last block."""
        if module not in cls._stored:
            experiment: Experiment[Any] = module.EXPERIMENT
            config: Config = cls.small[module]
            blocks = experiment.blocks(config)
            with TemporaryDirectory() as folder:
                store = Store(folder)
                table, result = run(experiment, config, store), store.result(experiment, config)
                first, last = (result.load(blocks[number]) for number in (0, -1))
            assert first is not None
            assert last is not None
            cls._stored[module] = table, (first, last)
        return cls._stored[module]


def _whose(wrong: tuple[Any, ...]) -> ModuleType:
    """The experiment whose prediction is replaced."""
    module: ModuleType = wrong[4] if wrong[4:] else wrong[0]
    return module
