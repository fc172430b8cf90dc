"""Modules that bring the compiler along run when something of theirs is first used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ratecheck import _fallback
from ratecheck._processes.pool import python_command

_CLAIM = """
import sys
import ratecheck as rc

@rc.claim(
    id="mine.triangle", source="Lemma 1", kind="upper", text="The mean is no longer.",
    fields={"x": rc.ball("n", "d")},
)
def triangle(x):
    return rc.linalg.norm(x.mean(axis=0)), rc.linalg.norm(x).max()

rc.assert_holds(triangle)
assert "numba" not in sys.modules
"""


def fault(code: str, command: bool) -> str:
    """What goes wrong with this in a process of the user's, or in one of the command's."""
    text = f"exec({code!r})"
    line = python_command(text) if command else [sys.executable, "-c", text]
    done = subprocess.run(line, capture_output=True, text=True)
    return done.stderr or f"exit code {done.returncode}" if done.returncode else ""


@pytest.mark.slow
@pytest.mark.parametrize("command", [False, True], ids=["user", "command"])
def test_a_claim_that_needs_no_compiled_function_is_judged_without_the_compiler(
    command: bool,
) -> None:
    assert fault(_CLAIM, command) == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", [False, True], ids=["user", "command"])
def test_what_needs_the_compiler_has_it(command: bool) -> None:
    after = """
import numpy as np
assert (rc.linalg.solve(np.eye(2), np.ones(2)) == 1).all()
assert "numba" in sys.modules
"""
    assert fault(_CLAIM + after, command) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "linsys.FiniteSystem",
        "from linsys import FiniteSystem",
        "assert 'GaussianSystem' in dir(linsys)",
        "from linsys import *; FiniteSystem",
        "from linsys import linalg; linalg.norm",
        "linsys.moments",
    ],
)
def test_names_are_there_as_if_all_had_run(use: str) -> None:
    assert fault(f"import ratecheck, linsys\n{use}", command=False) == ""


def later(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of this source that runs when it is first used."""
    (folder / "waits.py").write_text(source)
    spec = _fallback.PathFinder.find_spec("waits", [str(folder)])
    monkeypatch.setattr(_fallback, "LATER", ("waits",))
    changed = _fallback._run_later(spec)
    assert changed is not None
    module = _fallback.importlib.util.module_from_spec(changed)
    assert changed.loader is not None
    changed.loader.exec_module(module)
    return module


def test_it_runs_once_and_only_when_a_name_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    monkeypatch.setattr(sys, "ran", ran, raising=False)
    module = later(tmp_path, "import sys; sys.ran.append(1); value = 3", monkeypatch)
    assert not hasattr(module, "__warningregistry__")
    assert ran == []
    assert module.value == 3
    assert not hasattr(module, "other")
    assert ran == [1]
    assert not {"__getattr__", "__dir__"} & set(vars(module))


def test_what_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "there", False, raising=False)
    source = "import sys\nif not sys.there: raise ImportError('not yet')\nvalue = 3"
    module = later(tmp_path, source, monkeypatch)
    with pytest.raises(ImportError, match="not yet"):
        _ = module.value
    monkeypatch.setattr(sys, "there", True)
    assert module.value == 3


def test_threads_that_come_together_see_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    source = "import time\nfirst = 1\ntime.sleep(0.2)\nlast = 2"
    module = later(tmp_path, source, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: module.last, range(4))) == [2] * 4
