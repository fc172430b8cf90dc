"""Experiments at configurations that are not those of a suite, run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._run.runner import joined


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
