"""Experiments at small configurations: tables in this process, and results that contradict them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._run.runner import joined

#: Other results in the place of a table's.
Change = Callable[[rc.Table], rc.Table]


def swapped(column: str, first: str, second: str) -> Change:
    """Two values of a column have changed places: what one arm did is called the other's."""

    def change(table: rc.Table) -> rc.Table:
        names = table[column].copy()
        names[table[column] == first] = second
        names[table[column] == second] = first
        return rc.Table({**table, column: names})

    return change


def times(factor: float, column: str, **where: Any) -> Change:
    """A column so many times as large where others have these values."""

    def change(table: rc.Table) -> rc.Table:
        values = table[column] * np.where(rows(table, **where), factor, 1.0)
        return rc.Table({**table, column: values})

    return change


def ahead(by: float, column: str, **where: Any) -> Change:
    """Noise of one in a thousand around 1/2, and so much more where others have these values."""

    def change(table: rc.Table) -> rc.Table:
        chosen = rows(table, **where)
        assert 0 < chosen.sum() < len(chosen)
        noise = 0.001 * np.random.default_rng(0).normal(size=len(chosen))
        return rc.Table({**table, column: 0.5 + noise + by * chosen})

    return change


def rows(table: rc.Table, **where: Any) -> Any:
    """Where all of these columns have these values, (rows,) of bool."""
    equal = [np.ones(table.rows, bool), *(table[key] == value for key, value in where.items())]
    return np.all(equal, axis=0)


def table_of(module: ModuleType, config: Any) -> rc.Table:
    """The rows of all blocks of a module's experiment."""
    parts = []
    for block in module.EXPERIMENT.blocks(config):
        columns = module.compute(config, block, rc.Context())
        rows = max(np.size(column) for column in columns.values())
        cells = {**block, **columns}
        parts.append(rc.Table({k: np.broadcast_to(v, (rows,)) for k, v in cells.items()}))
    return joined(parts)


def tables_of(suite: type[rc.ExperimentSuite]) -> Any:
    """A fixture that computes all tables before a test replaces a part of a law.

    Those of slow experiments are left out where no slow test of the file is chosen.
    """

    @pytest.fixture(scope="module", autouse=True)
    def tables(request: pytest.FixtureRequest) -> None:
        chosen = [item for item in request.session.items if item.path == request.path]
        slow = any(item.get_closest_marker("slow") for item in chosen)
        for module in suite.small:
            if slow or module not in suite.slow:
                suite.table(module)

    return tables


def on_model(*suites: type[rc.ExperimentSuite]) -> Any:
    """A fixture: suites take the model of the tests, and PyTorch keeps the threads that it has.

    Its bits are equal for equal threads only, and more of them make small tensors slower.
    """

    @pytest.fixture(scope="module", autouse=True)
    def model(model_folder: Path) -> Iterator[None]:
        import torch

        for suite in suites:
            suite.small = {m: replace(c, model=model_folder) for m, c in suite.small.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "set_num_threads", lambda count: None)
            yield

    return model


def failed(analysis: rc.Analysis) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in analysis.checks if check.ok is False}
