"""Experiments at small configurations, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import ratecheck as rc
from ratecheck._run.runner import joined, run
from ratecheck._store.store import Store


def table_of(module: ModuleType, config: Any) -> rc.Table:
    """The rows of all blocks of a module's experiment."""
    parts = []
    for block in module.EXPERIMENT.blocks(config):
        columns = module.compute(config, block, rc.Context())
        rows = max(np.size(column) for column in columns.values())
        cells = {**block, **columns}
        parts.append(rc.Table({k: np.broadcast_to(v, (rows,)) for k, v in cells.items()}))
    return joined(parts)


class Small:
    """Experiments with small configurations by name; tables are computed once, in a folder."""

    def __init__(self, experiments: Mapping[str, tuple[rc.Experiment[Any], Any]]) -> None:
        self.experiments = experiments

    def tables(self, root: Path) -> Callable[[str], rc.Table]:
        """What gives the table of an experiment."""
        return cache(lambda name: run(*self.experiments[name], Store(root)))

    def analysed(self, name: str, table: rc.Table) -> rc.Analysis:
        """The analysis of a table."""
        experiment, config = self.experiments[name]
        return experiment.analyse(config, table)

    def check(self, name: str, table: rc.Table, *parts: str) -> rc.Check:
        """The one check whose name has all these parts."""
        checks = self.analysed(name, table).checks
        (found,) = (c for c in checks if all(part in c.name for part in parts))
        return found


def assert_runs_to_the_figure(module: ModuleType, config: Any, table: rc.Table) -> None:
    """No check of a small rate fails, most hold, and every panel is drawn."""
    analysis = module.analyse(config, table)
    assert failed(analysis) == set()
    assert sum(check.ok is True for check in analysis.checks) > len(analysis.checks) / 2
    assert analysis.notes
    with rc.style():
        figure = module.draw(config, analysis)
        figure.draw_without_rendering()
    assert len(figure.axes) == len({s.panel for s in analysis.series})
    assert module.EXPERIMENT.kind == "rate"


def failed(analysis: rc.Analysis) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in analysis.checks if check.ok is False}
