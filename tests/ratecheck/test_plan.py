"""What an experiment on a language model will take, and how it is fitted into a time."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ratecheck as rc

pytest.importorskip("torch")


from experiments.affpcl.bridge import affpcl
from experiments.bridge.models import ScaledConfig
from experiments.firm.bridge import firm_fig1
from experiments.fslora.bridge import fslora, fslora_table
from experiments.oodpl.bridge import ood_beta
from experiments.psharelora.bridge import sharelora
from linsys import InputError
from lora_bridge.probe import Cost, probed
from lora_bridge.runs import Watch
from ratecheck._commands.app import main
from ratecheck._run.plan import Board, Plan, duration, fitted, seconds_of
from tests.affpcl.test_bridge import SMALL as AFFPCL
from tests.firm.test_bridge import SMALL as FIRM
from tests.fslora.test_bridge import SMALL as FSLORA
from tests.oodpl.test_bridge import SMALL as OOD
from tests.psharelora.test_bridge import SMALL as PSL

COST = Cost(
    runs=4,
    rounds=400,
    measurements=20,
    timed=8,
    round_s=1.0,
    measurement_s=5.0,
    setup_s=10.0,
    once_s=7.0,
    other_s=13.0,
    round_tokens=1000.0,
    measurement_tokens=100.0,
    memory=2_000_000_000,
    complete=True,
)
#: 10 s before the first round, and 3 times 520 s for five blocks by two.
PLAN = Plan("bridge/x", 8, 5, 2, (COST, COST), 9_000_000_000)


@dataclass(frozen=True, kw_only=True)
class _Sizes(ScaledConfig):
    rounds: int = rc.param(100, low=4, doc="T")
    seeds: int = rc.param(8, low=2, doc="draws")


class _Fixed(_Sizes):
    """One of which nothing can be left out."""

    def scaled(self, rounds: float, draws: float) -> _Fixed:
        return self


class _Count(Watch):
    def __init__(self) -> None:
        self.begun, self.made = [0, 0], [0, 0]

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        self.begun = [self.begun[0] + rounds, self.begun[1] + measurements]

    def step(self, kind: str) -> None:
        self.made[int(kind == "measurement")] += 1


def _needed(config: _Sizes) -> float:
    """Seconds of the plan's experiment at other sizes, written out."""
    rounds, draws = config.rounds / 100, config.seeds / 8
    return 10 + 3 * draws * (400 * rounds + 100 + 20)


def test_the_time_of_a_plan_is_that_of_its_blocks_one_after_the_other() -> None:
    assert PLAN.seconds == 10 + 3 * (400 * 1.0 + 20 * 5.0 + 20.0) == _needed(_Sizes())
    cheaper = replace(COST, once_s=1.0)  # the first of a process has computed what is in common
    assert replace(PLAN, costs=(COST, cheaper, cheaper)).seconds == 10 + 520 + 2 * 514
    assert PLAN.memory == 4_000_000_000
    assert PLAN.to_dict()["tokens"] == 5 * (400 * 1000 + 20 * 100)


def test_a_plan_says_in_words_what_it_holds() -> None:
    first, second, third = PLAN.lines()
    assert "5 of 8 blocks, 20 runs of 2,000 rounds and 100 measurements, 2.01 M tokens" in first
    assert "a round took 1.0 s, a measurement 5.0 s" in second
    assert "about 26 min 10 s with 2 blocks at a time, 4.0 GB of memory of 9.0 GB free" in third
    broken = replace(PLAN, costs=(replace(COST, complete=False),))
    assert "at least 20 runs" in broken.lines()[0]
    assert replace(PLAN, missing=0).lines() == ["bridge/x: all 8 blocks are stored"]


@pytest.mark.parametrize("budget", [300.0, 500.0, 900.0, 1500.0])
def test_what_fits_into_a_budget_uses_it(budget: float) -> None:
    changed = fitted(_Sizes(), PLAN, budget)
    smaller = replace(_Sizes(), **changed)
    assert 0.5 * budget <= _needed(smaller) <= 1.1 * budget
    assert set(changed) <= {"rounds", "seeds"}
    if budget >= 10 + 3 * (100 + 120):  # rounds go first, down to a quarter
        assert "seeds" not in changed


def test_a_budget_that_is_large_enough_changes_nothing() -> None:
    assert fitted(_Sizes(), PLAN, PLAN.seconds) == {}
    assert fitted(_Sizes(), PLAN, PLAN.seconds + 60.0, planning=60.0) == {}


def test_planning_is_a_part_of_the_budget_twice_where_something_is_changed() -> None:
    assert fitted(_Sizes(), PLAN, 900.0 + 120.0, planning=60.0) == fitted(_Sizes(), PLAN, 900.0)
    least = duration(_needed(_Sizes(rounds=4, seeds=2)) + 120.0)
    with pytest.raises(InputError, match=f"{least} .*, 2 min 0 s of it for planning; found 20.0"):
        fitted(_Sizes(), PLAN, 20.0, planning=60.0)


def test_a_budget_that_nothing_fits_into_is_refused_with_the_least() -> None:
    least = duration(_needed(_Sizes(rounds=4, seeds=2)))
    with pytest.raises(InputError, match=f"`budget` must be at least about {least} .* found 20.0"):
        fitted(_Sizes(), PLAN, 20.0)
    with pytest.raises(InputError, match="cannot be made smaller"):
        fitted(rc.Config(), PLAN, 20.0)
    # what is not made smaller is planned once
    least = duration(_needed(_Sizes()) + 60.0)
    with pytest.raises(InputError, match=f"{least} .*, 1 min 0 s of it for planning; found 20.0"):
        fitted(_Fixed(), PLAN, 20.0, planning=60.0)


@pytest.mark.parametrize("text", ["", "20", "m", "-3m", "0s", "1 day", "nan s"])
def test_times_have_a_unit(text: str) -> None:
    with pytest.raises(InputError, match="`budget` must be a time"):
        seconds_of(text)


def test_blocks_in_work_count_by_their_steps(tmp_path: Path) -> None:
    board = Board.made(tmp_path / "steps", 3)
    watch, called = board.watch(1, lambda: called.append(1)), list[int]()
    for kind in ("measurement", *["round"] * 60):
        watch.step(kind)
    assert board.steps(1) == (60, 1)
    assert board.steps(0) == board.steps(2) == (0, 0)
    assert len(called) == 61
    assert board.done([0, 1], PLAN) == pytest.approx((60 + 5) / 520)
    for _ in range(1000):
        watch.step("round")
    assert board.done([1], PLAN) == 1.0


#: One experiment of every kind of run, at the sizes of its suite.
MODULES: dict[ModuleType, Any] = {
    module: small[module]
    for module, small in (
        (affpcl, AFFPCL),
        (firm_fig1, FIRM),
        (fslora, FSLORA),
        (fslora_table, FSLORA),
        (sharelora, PSL),
        (ood_beta, OOD),
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
def test_a_plan_counts_what_is_computed(module: Any, model_folder: Path) -> None:
    config = replace(MODULES[module], model=model_folder)
    block = module.EXPERIMENT.blocks(config)[0]
    cost = probed(lambda: module.compute(config, block, rc.Context()))
    count = _Count()
    module.compute(config, block, rc.Context(watch=count))
    assert cost.complete
    assert [cost.rounds, cost.measurements] == count.begun == count.made
    assert cost.rounds > 0
    assert cost.round_tokens > 0


@pytest.mark.slow
def test_the_command_plans_and_fits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path
) -> None:
    sizes = ("rounds=400", "points=1", "seeds=4", "devices=2", "samples=8", "tests=4", "rank=4")
    sizes += ("k=1", "global_ranks=1,4", "levels=0.5", "ratios=0.25", "gammas=0.01")
    settings = [word for size in sizes for word in ("--set", size)]
    common = ["bridge", "fslora", "--model", model_folder, "--out", tmp_path, *settings]

    def call(*more: str) -> Any:
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in (*common, *more)])
        assert not left.value.code
        return capsys.readouterr()

    whole = json.loads(call("--plan", "--json").out)
    assert (whole["blocks"], whole["missing"], whole["rounds"]) == (8, 8, 8 * 4 * 400)
    assert not list(tmp_path.rglob("*.parquet"))
    budget = f"{whole['setup_s'] + whole['seconds'] / 2:.0f}s"
    fitting = call("--plan", "--budget", budget)
    (line,) = (one for one in fitting.err.splitlines() if "to fit the budget: rounds=" in one)
    (kept,) = (tmp_path / "budgets").iterdir()
    kept.write_text(kept.read_text().replace('"rounds": ', '"rounds": 1'))
    again = call("--plan", "--budget", budget).err  # as it was kept, whatever takes how long now
    assert line.replace("rounds=", "rounds=1") in again.splitlines()
    kept.write_text('["rounds"]')
    assert "to fit the budget: rounds=" in call("--plan", "--budget", budget).err
