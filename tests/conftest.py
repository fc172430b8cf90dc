"""What every test relies on: one thread per worker, a fixed hypothesis profile, all libraries."""

from __future__ import annotations

import os

# Before NumPy is imported: the cores belong to the test workers, unless the caller says otherwise.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# Compiled once and kept: hundreds of processes that the tests start import the same modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import gc
import importlib.util
import sys
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

sys.dont_write_bytecode = False

#: A test that lacks its library must fail, not skip; so all are asked for before the first test.
REQUIRED = ("grimp", "hatchling", "ipykernel", "mpmath", "nbclient", "nbformat", "torch", "xdist")

# Nothing here may depend on how busy the machine is: no deadlines, and examples may come slowly.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
hypothesis.settings.register_profile(
    "hunt", deadline=None, max_examples=2000, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile(os.environ.get("RATECHECK_HYPOTHESIS", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to start when a library that the tests need is missing."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        raise pytest.UsageError(
            f"the tests need {', '.join(missing)}, which cannot be imported; run `make test`, "
            "or install them with: pip install -c constraints.txt -e . --group test"
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Among tests and modules, which stay, Python does not look again and again for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that is made in no time."""
    from lora_bridge.built_in import BuiltIn, built_in

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return built_in("some text " * 20, BuiltIn(hidden=8, layers=1, heads=2, length=16, steps=2))


@pytest.fixture(scope="session")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from this folder."""
    from hatchling.builders.wheel import WheelBuilder

    folder = str(tmp_path_factory.mktemp("wheel"))
    builder = WheelBuilder(str(Path(__file__).parents[1]))
    (path,) = builder.build(directory=folder, versions=["standard"])
    return Path(path)
