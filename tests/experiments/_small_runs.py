"""Experiments at small configurations, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from experiments._model import Analysis, Check, Context, Experiment
from experiments._plots import style
from experiments._runner import joined, run
from experiments._store import Store
from experiments._table import Table


def table_of(module: ModuleType, config: Any) -> Table:
    """The rows of all blocks of a module's experiment."""
    parts = []
    for block in module.EXPERIMENT.blocks(config):
        columns = module.compute(config, block, Context())
        rows = max(np.size(column) for column in columns.values())
        cells = {**block, **columns}
        parts.append(Table({k: np.broadcast_to(v, (rows,)) for k, v in cells.items()}))
    return joined(parts)


class Small:
    """Experiments with small configurations by name; tables are computed once, in a folder."""

    def __init__(self, experiments: Mapping[str, tuple[Experiment[Any], Any]]) -> None:
        self.experiments = experiments

    def tables(self, root: Path) -> Callable[[str], Table]:
        """What gives the table of an experiment."""
        return cache(lambda name: run(*self.experiments[name], Store(root)))

    def analysed(self, name: str, table: Table) -> Analysis:
        """The analysis of a table."""
        experiment, config = self.experiments[name]
        return experiment.analyse(config, table)

    def check(self, name: str, table: Table, *parts: str) -> Check:
        """The one check whose name has all these parts."""
        checks = self.analysed(name, table).checks
        (found,) = (c for c in checks if all(part in c.name for part in parts))
        return found


def assert_runs_to_the_figure(module: ModuleType, config: Any, table: Table) -> None:
    """No check of a small rate fails, most hold, and every panel is drawn."""
    analysis = module.analyse(config, table)
    assert failed(analysis) == set()
    assert sum(check.ok is True for check in analysis.checks) > len(analysis.checks) / 2
    assert analysis.notes
    with style():
        figure = module.draw(config, analysis)
        figure.draw_without_rendering()
    assert len(figure.axes) == len({s.panel for s in analysis.series})
    assert module.EXPERIMENT.kind == "rate"


def failed(analysis: Analysis) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in analysis.checks if check.ok is False}
