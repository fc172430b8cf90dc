"""Experiments at configurations that are not those of a suite, run in this process."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

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


def failed(analysis: rc.Analysis) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in analysis.checks if check.ok is False}
