"""Whatever is given to a parameter of an experiment ends in a line that names it, in bounded time.

Values are drawn with a seed; all are tried as parameters, some in a whole run of the configuration
that the experiment's suite has.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import registry
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._processes.pool import call_in_processes
from ratecheck._run.job import Job
from ratecheck._store.store import Store
from tests.test_every_experiment import FOLDERS

SEED = 21
VALUES = [
    *("0", "-1", "1", "3", "7", "1e9", str(10**9), str(10**20), "0.5", "1e-300", "1e300", "-1e300"),
    *("nan", "inf", "-inf", "", " ", "x", "1e400", "0x10", "1_000", "1,2", "1,,2", "none", "true"),
    *("3,1", "\N{MINUS SIGN}1", "0.1,nan", "[1]", "1;2", "\0", "é", "9" * 400),
]
#: What a run in a process that does several replaces.
FIND = registry.find_experiment
#: Seconds by the clock until a test is stuck, on a busy machine, too.
AT_ONCE, STUCK = 30, 900
#: CPU seconds of a run; one that is taken may go on for longer.
A_RUN = 10.0


@contextmanager
def within(seconds: int, what: str) -> Iterator[None]:
    """Fail where Python code takes longer."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"{what}: no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answer(call: Callable[[], Any], name: str) -> str:
    """What a call says: a line on the parameter, "" for nothing, or what is wrong with it."""
    try:
        call()
    except InputError as error:
        line = str(error)
        if "\n" in line:
            return f"WRONG: more than a line: {line}"
        return line if re.search(rf"\b{name}\b", line) else f"WRONG: no {name} in: {line}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    return ""


def drawn(names: list[str], number: int, seed: int) -> list[tuple[str, str, str]]:
    """So many triples of experiment, parameter and value, drawn from all."""
    every = [
        (name, field.name, value)
        for name in names
        for field in dataclasses.fields(registry.find_experiment(name).config_type)
        for value in VALUES
    ]
    return random.Random(seed).sample(every, min(number, len(every)))


@pytest.mark.parametrize(
    ("seed", "number"), [(SEED, 60), pytest.param(SEED + 1, 4000, marks=pytest.mark.slow)]
)
def test_a_value_is_taken_or_refused_by_name(seed: int, number: int, tmp_path: Path) -> None:
    store = Store(tmp_path, writable=False)
    refused, wrong = 0, []
    for name, key, value in drawn([*registry.names(), *registry.on_models()], number, seed):
        case = f"{name} --set {key}={value!r}"

        def prepare(name: str = name, key: str = key, value: str = value) -> None:
            job = Job(store, overrides=(f"{key}={value}",), figures=False)
            experiment, config = job.prepare(name)
            experiment.blocks(config)

        with within(AT_ONCE, case):
            said = answer(prepare, key)
        refused += bool(said)
        wrong += [f"{case}: {said}"] if said.startswith("WRONG") else []
    assert not wrong, "\n".join(wrong)
    assert refused > number / 2


def small_configurations() -> dict[str, Any]:
    """The configuration of every experiment that its suite runs, by id; models are left out."""
    configurations = {}
    for folder in FOLDERS:
        for path in sorted(Path(__file__).with_name(folder).glob("test_*.py")):
            if "rc.ExperimentSuite" in path.read_text():
                module = importlib.import_module(f"tests.{folder}.{path.stem}")
                for suite in vars(module).values():
                    if isinstance(suite, type) and issubclass(suite, rc.ExperimentSuite):
                        configurations.update({m.EXPERIMENT.id: c for m, c in suite.small.items()})
    return {name: configurations[name] for name in registry.names()}


def run_small(name: str, values: dict[str, Any], key: str, value: str, folder: str) -> str:
    """In a process of its own: what a run with this value says."""
    warnings.simplefilter("ignore")
    experiment = FIND(name)
    small = experiment.config_type(**values)
    changed = replace(experiment, profiles={"quick": small, "paper": small})
    registry.find_experiment = lambda reference: changed  # type: ignore[assignment]
    job = Job(Store(Path(folder)), overrides=(f"{key}={value}",), figures=False)

    def perform() -> None:
        with suppress(TimeLimit), time_limit(A_RUN):
            job.perform(name)

    return answer(perform, key)


@pytest.mark.slow
def test_a_run_with_an_odd_value_ends_in_a_line(tmp_path: Path) -> None:
    configurations = small_configurations()
    taken = []
    for name, key, value in drawn(list(configurations), 6000, SEED):
        small = configurations[name]
        experiment = registry.find_experiment(name)
        kind = type(getattr(small, key))
        if kind in (int, float, tuple) and value not in {str(getattr(small, key)), ""}:
            job = Job(Store(tmp_path, writable=False), overrides=(f"{key}={value}",), figures=False)
            changed = replace(experiment, profiles={"quick": small, "paper": small})
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(registry, "find_experiment", lambda reference, to=changed: to)
                if not answer(lambda job=job, name=name: job.prepare(name), key):
                    taken.append((name, key, value))
    cases = random.Random(SEED).sample(taken, 40)
    calls = [
        (
            name,
            {
                f.name: getattr(configurations[name], f.name)
                for f in dataclasses.fields(configurations[name])
            },
            key,
            value,
            str(tmp_path / f"{number}"),
        )
        for number, (name, key, value) in enumerate(cases)
    ]
    wrong = []
    for position, future in call_in_processes(run_small, calls, 2, timeout=STUCK):
        name, key, value = cases[position]
        failed = future.exception()
        said = repr(failed) if failed else future.result()
        if failed or said.startswith("WRONG"):
            wrong.append(f"{name} --set {key}={value}: {said}")
    assert not wrong, "\n".join(wrong)
