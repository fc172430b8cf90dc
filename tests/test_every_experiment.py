"""Every experiment passes the suite that all of them have to pass."""

from __future__ import annotations

import importlib
from pathlib import Path

import ratecheck as rc
from ratecheck._discover.registry import names, on_models

FOLDERS = ("affpcl", "firm", "fslora", "oodpl", "psharelora")


def test_every_experiment_is_in_a_suite() -> None:
    tested = set()
    for folder in FOLDERS:
        for path in Path(__file__).with_name(folder).glob("test_*.py"):
            if "rc.ExperimentSuite" in path.read_text():
                module = importlib.import_module(f"tests.{folder}.{path.stem}")
                suites = [v for v in vars(module).values() if isinstance(v, type)]
                for suite in suites:
                    if issubclass(suite, rc.ExperimentSuite):
                        tested |= {one.EXPERIMENT.id for one in suite.small}
    assert tested == {*names(), *on_models()}
