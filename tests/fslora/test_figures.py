"""The figures and tables of FSLoRA: small ones run whole, planted violations are seen."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.fslora.figures import _budget, _training, fig2, fig3, fig4, fig7, fig8, tables
from experiments.fslora.figures._tasks import TaskConfig
from linsys import InputError
from tests._slow import slow_but
from tests._small_runs import Change, ahead
from tests.fslora._small_tasks import SIZES

SMALL: dict[ModuleType, Any] = {
    fig2: fig2.Fig2Config(**SIZES, r=8, rounds=8, points=4),
    fig3: fig3.Fig3Config(**SIZES, many=24, global_ranks=(2, 4), budget=4, points=2),
    fig4: fig4.Fig4Config(
        **SIZES,
        r=8,
        global_ranks=(2, 4),
        budget=4,
        points=2,
        ranks_b=(2, 4),
        rounds=6,
        rounds_shown=3,
    ),
    fig7: fig7.Fig7Config(**SIZES, r=8, budget=2, points=2),
    fig8: fig8.Fig8Config(**{**SIZES, "devices": 6}, global_ranks=(2, 4), budget=4, points=2),
    tables: tables.TablesConfig(
        **SIZES, r=8, rounds=4, points=2, large_classes=7, large_features=9, large_rounds=6
    ),
}


#: Which rows a claim says are ahead, and by a part of its name the check that judges it.
AHEAD: list[tuple[ModuleType, dict[str, Any], str]] = [
    (fig2, {"method": "FSLoRA"}, "FSLoRA − FlexLoRA"),
    (fig2, {"method": "FSLoRA"}, "FSLoRA − HeteroLoRA"),
    (fig2, {"method": "FlexLoRA"}, "FlexLoRA − FSLoRA"),
    (fig2, {"method": "FedStackLoRA"}, "FedStackLoRA − FSLoRA"),
    (fig2, {"method": "FSLoRA"}, "FSLoRA − FedStackLoRA"),
    (fig3, {"arm": _budget.SKETCHED, "samples": 12}, "same step, all ranks"),
    (fig3, {"arm": _budget.SKETCHED, "samples": 12}, "same step, after"),
    (fig3, {"arm": _budget.SKETCHED, "samples": 12}, "best step of each, all ranks"),
    (fig3, {"arm": _budget.SAME, "samples": 12}, "r = 4: loss on the devices"),
    (fig3, {"arm": _budget.WHOLE, "samples": 24}, "24 samples"),
    (fig3, {"arm": _budget.SKETCHED, "rank": 4}, "that of the best steps"),
    (fig4, {"rank": 4, "k": 2}, "(b) final accuracy"),
    (fig4, {"rank": 8, "k": 8}, "(c) final accuracy"),
    (fig4, {"rank": 8, "k": 8}, "(c) final loss"),
    (fig7, {"arm": "k / r = 0.125"}, "same step, after"),
    (fig7, {"arm": "k / r = 0.5"}, "0.5 − 1"),
    (fig7, {"arm": "k / r = 0.5"}, "0.5 − 0.25"),
    (fig8, {"arm": _budget.SKETCHED}, "flat, equal upload, best step"),
    (tables, {"method": "FSLoRA"}, "Table 5.1, mean over tasks: FSLoRA − HeteroLoRA"),
    (tables, {"method": "FSLoRA"}, "Table 5.2, mean over tasks: FSLoRA − FlexLoRA"),
]


def with_advantage(by: float, **of: Any) -> Change:
    """Accuracies and losses on the devices are noise of one in a thousand, and these rows' more."""

    def change(table: rc.Table) -> rc.Table:
        table = ahead(by, "accuracy", **of)(table)
        return rc.Table({**table, "train": 2.0 - table["accuracy"]})

    return change


class TestFigures(rc.ExperimentSuite):
    small = SMALL
    slow = frozenset(SMALL) - {fig2, tables}
    loose = frozenset(SMALL)
    contradicted = tuple((module, with_advantage(-0.1, **of), part) for module, of, part in AHEAD)


computed, analysed, check = TestFigures.table, TestFigures.analysed, TestFigures.check


@pytest.mark.parametrize(("module", "of", "part"), slow_but([fig2, tables], AHEAD))
def test_checks_see_which_arm_is_ahead(module: ModuleType, of: dict[str, Any], part: str) -> None:
    assert check(module, with_advantage(0.1, **of)(computed(module)), part).ok is True


def test_operations_count_what_is_stated() -> None:
    config = tables.TablesConfig(
        devices=1, classes=2, features=3, samples=5, r=1, ratios=(1.0,), H=1, tasks=("flat",)
    )
    step = 5 * (4 * 3 + 6 * 2)
    assert tables.flops(config, "FSLoRA") == tables.flops(config, "HeteroLoRA") == (step, 5)
    assert tables.flops(config, "FedStackLoRA") == (step + 12 + 60, 12)
    svd = 4 * 9 * 2 + 8 * 3 * 4 + 9 * 8
    assert tables.flops(config, "FlexLoRA") == (step, 12 + svd)


def test_the_table_sees_who_moves_more_bytes() -> None:
    table = computed(tables)
    equal, more = ("5.1", "bytes", "HeteroLoRA"), ("5.1", "bytes", "FedStackLoRA")
    assert check(tables, table, *equal).ok is True
    # a device of mean rank 3.75 downloads 15 components in the place of 3.75
    assert check(tables, table, *more).measured == pytest.approx((3.75 + 15) / 7.5)
    ours = table["method"] == "FSLoRA"
    columns = {key: table[key] for key in table}
    dear = rc.Table({**columns, "down": np.where(ours, 1e9, table["down"])})
    assert check(tables, dear, *equal).ok is False
    assert check(tables, dear, *more).ok is False


def test_lost_runs_are_counted() -> None:
    table = computed(fig2)
    lost = (table["method"] == "FSLoRA") & (table["instance"] == 1)
    broken = rc.Table({**{key: table[key] for key in table}, "lost": lost})
    assert _training.step_notes(broken, "method")[-1] == "1 of 12 runs exploded: FSLoRA (1)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaskConfig(tasks=()), "`tasks`"),
        (lambda: TaskConfig(tasks=("stepe",)), "steep"),
        (lambda: fig2.Fig2Config(ratios=()), "`ratios`"),
        (lambda: fig2.Fig2Config(r=4).device_ranks, "whole ranks"),
        (lambda: TaskConfig(instances=2), "`instances`"),
        (lambda: _budget.BudgetConfig(ratio=0.4), "`ratio`"),
        (lambda: _budget.BudgetConfig(global_ranks=(4, 4)), "`global_ranks`"),
        (lambda: _budget.BudgetConfig(budget=21), "`budget`"),
        (lambda: _budget.BudgetConfig(points=5), "`budget`"),
        (lambda: fig3.blocks(fig3.Fig3Config(many=40)), "`many`"),
        (lambda: fig4.Fig4Config(fixed=4), "`fixed`"),
        (lambda: fig7.Fig7Config(levels=(0.25, 0.5)), "`levels`"),
        (lambda: fig7.Fig7Config(levels=(0.75, 1.0)), "`levels`"),
    ],
)
def test_impossible_set_ups_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
