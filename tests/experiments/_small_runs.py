"""Experiments at small configurations, run in this process."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from experiments._model import Analysis, Context
from experiments._runner import joined
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


def failed(analysis: Analysis) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in analysis.checks if check.ok is False}
