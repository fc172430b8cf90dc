"""No modules import each other in a circle, and none imports what is private elsewhere."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from ratecheck._packages import PACKAGES


def circle(*packages: str) -> list[str]:
    """Modules each of which is imported by the next, and the first again; empty without a circle.

    Imports inside functions and imports for type checkers alone count as well.
    """
    graph = grimp.build_graph(*packages, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def strangers(*packages: str) -> list[str]:
    """Imports of a module with an underscore from outside of the package that holds it.

    ``import a._b`` as well, which linters of names do not see.
    """
    graph = grimp.build_graph(*packages, cache_dir=None)
    refused = []
    for module in sorted(graph.modules):
        parts = module.split(".")
        private = [i for i, part in enumerate(parts) if part.startswith("_") and part[1] != "_"]
        if not private:
            continue
        holder = ".".join(parts[: private[0]])
        importers = sorted(graph.find_modules_that_directly_import(module))
        outside = [one for one in importers if not f"{one}.".startswith(f"{holder}.")]
        refused += [f"{one} imports {module}" for one in outside]
    return refused


def test_no_modules_import_each_other_in_a_circle() -> None:
    cycle = circle("ratecheck", *PACKAGES)
    assert not cycle, " <- ".join(cycle)


@pytest.mark.parametrize(
    "back",
    [
        "import planted.top",
        "from planted.part import *",
        "def late():\n    from planted import top",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.top import name",
    ],
)
def test_a_planted_circle_is_found(
    back: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "planted" / "part"
    part.mkdir(parents=True)
    (part.parent / "__init__.py").touch()
    (part.parent / "top.py").write_text("from planted.part import name")
    (part / "__init__.py").write_text("from planted.part.low import name")
    (part / "low.py").write_text("name = 1")
    monkeypatch.syspath_prepend(tmp_path)
    assert circle("planted") == []
    (part / "low.py").write_text(f"name = 1\n{back}")
    assert {"planted.part", "planted.part.low"} <= set(circle("planted"))


def test_private_modules_are_imported_by_those_beside_or_below_them_alone() -> None:
    assert strangers("ratecheck", *PACKAGES) == []


@pytest.mark.parametrize(
    "line",
    [
        "import planted.part._low",
        "from planted.part._low import name",
        "import planted.part._low as low",
    ],
)
def test_a_planted_stranger_is_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "planted" / "part"
    part.mkdir(parents=True)
    (part.parent / "__init__.py").touch()
    (part / "__init__.py").touch()
    (part / "_low.py").write_text("name = 1")
    (part / "beside.py").write_text(line)
    (part.parent / "above.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert strangers("planted") == []
    (part.parent / "above.py").write_text(line)
    assert strangers("planted") == ["planted.above imports planted.part._low"]
