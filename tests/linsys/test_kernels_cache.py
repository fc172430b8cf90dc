"""Kernels that come from the cache are the kernels that were compiled, in whatever order they load.

numba links a helper of one symbol once per process; two different helpers of one symbol, compiled
in different processes, would be taken for one another (see ``linsys.compiled``).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from linsys import sample_gaussian_system
from linsys.algorithms import AffPCL, Clustered, Ditto, FedAvg, FineTuning, Independent, PFedMe
from linsys.compiled import compiled, unique_name
from linsys.kernels import draw, simulate
from linsys.kernels._systems import _by_system
from tests.linsys._examples import finite_system

ROOT = Path(__file__).parents[2]
METHODS = (
    AffPCL(),
    AffPCL(ratio="none"),
    AffPCL(correction="bias", center="implicit"),
    Independent(),
    FedAvg(),
    FineTuning(2),
    PFedMe(1.5),
    Ditto(1.5),
    Clustered(2, 0.5),
)
#: The four compiled entries: every method's loop and the samples alone, for both kinds of system.
ENTRIES = ("simulate Gaussian", "draw Gaussian", "simulate finite", "draw finite")
CHILD = """
import sys
from tests.linsys.test_kernels_cache import digests
print(*digests(sys.argv[1:]), sep="\\n")
"""


def digests(entries: Sequence[str]) -> list[str]:
    """A digest of the numbers of every entry, run in the given order."""
    names = []
    for entry in entries:
        what, kind = entry.split()
        digest = hashlib.sha256()
        for d in (2, 5):  # 2: where a size that was taken for another one shows
            system = (
                sample_gaussian_system(4, n=3, d=d, delta_env=0.3, delta_obj=0.3)
                if kind == "Gaussian"
                else finite_system(4, n=3, d=d)
            )
            if what == "draw":
                parts = [draw(system, rounds=5, replicates=9, seed=2)]
            else:
                parts = [
                    simulate(system, m, steps=0.01, times=[1, 9], replicates=9, seed=2).error
                    for m in METHODS
                ]
            digest.update(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
        names.append(digest.hexdigest())
    return names


def in_new_process(
    entries: Sequence[str], cache: Path | None = None, code: str = CHILD, **variables: str
) -> dict[str, str]:
    """The entries' digests from a process with these variables that runs ``code``."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), **variables)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", code, *entries],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(entries, done.stdout.split(), strict=True))


@pytest.mark.slow
def test_a_second_process_has_the_same_bits_in_any_order() -> None:
    expected = dict(zip(ENTRIES, digests(ENTRIES), strict=True))
    assert len(set(expected.values())) == len(ENTRIES)
    assert in_new_process(ENTRIES) == expected
    assert in_new_process(ENTRIES[::-1]) == expected


@pytest.mark.slow
def test_kernels_compiled_apart_have_the_same_bits_together(tmp_path: Path) -> None:
    """Each entry is compiled by a process of its own, where all counts start anew."""
    alone = {}
    for entry in ENTRIES:
        alone |= in_new_process([entry], tmp_path / entry.replace(" ", "-"))  # cold, on its own
        assert in_new_process([entry], tmp_path / "shared") == {entry: alone[entry]}
    files = sorted((tmp_path / "shared").rglob("*.nb*"))
    for order in itertools.permutations(ENTRIES):
        assert in_new_process(order, tmp_path / "shared") == alone
    assert sorted((tmp_path / "shared").rglob("*.nb*")) == files  # nothing was compiled again


def test_a_compiled_function_has_a_name_of_its_own() -> None:
    def inner(x: float) -> float:
        return x

    for function in (inner, lambda x: x):
        with pytest.raises(TypeError, match="must be defined at module level"):
            compiled(function)
        with pytest.raises(TypeError, match="must be defined at module level"):
            _by_system(digests, function)
    assert unique_name(digests) is digests


def test_the_cache_is_named_by_sources_and_versions() -> None:
    from linsys import compiled

    assert compiled._digest() in compiled._FOLDER
    assert len(compiled._digest()) == 16
