"""Every algorithm passes the suite that all of them have to pass, on both of its backends."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import linsys
import mgda
from tests.lora_bridge.test_rounds import MODEL, SYNTHETIC


def algorithms() -> set[type]:
    """The public classes that have rounds, without protocols and abstract ones."""
    modules = [
        importlib.import_module(info.name)
        for package in (linsys, mgda)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    classes = {c for module in modules for c in vars(module).values() if inspect.isclass(c)}
    return {
        c
        for c in classes
        if callable(getattr(c, "init", None)) and callable(getattr(c, "round", None))
        if c.__module__.startswith(("linsys.", "mgda.")) and not c.__name__.startswith("_")
        if not inspect.isabstract(c) and not getattr(c, "_is_protocol", False)
    }


def test_every_algorithm_is_in_a_suite() -> None:
    for cases in (SYNTHETIC, MODEL):
        tested = {type(algorithm) for algorithm, _ in cases.values()}
        assert {c.__name__ for c in algorithms() - tested} == set()
