"""What a user's file imports: first of all what lies in its folder or in the current one.

A package there may have the name of one of ours. It is the user's while the file is read, and ours
before and after.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

#: Our packages that the tool itself imports nothing of: a user's file may mean others by them.
CONTENT = ("experiments", "lora_bridge", "mgda")
#: Where our packages lie, as sources and when they are installed.
ROOT = Path(__file__).resolve().parents[1]
#: By folder, the modules of its own packages of these names that files have imported.
_IMPORTED: dict[str, dict[str, ModuleType]] = {}


def own_packages(folders: Sequence[Path]) -> dict[str, Path]:
    """The packages and modules with names of ours that one of these folders holds, and where."""
    own: dict[str, Path] = {}
    for name in CONTENT:
        for folder in folders:
            spec = PathFinder.find_spec(name, [str(folder)])
            places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
            # a folder of results is no package, only one of Python files is
            sources = [file for place in places for file in place.glob("*.py")]
            is_ours = (folder / name).resolve() == ROOT / name
            if spec is not None and (spec.origin or sources) and not is_ours:
                own[name] = folder
                break
    return own


class _Finder:
    """Finds packages in these folders, before what is imported, as ``sys.meta_path`` asks."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        folder = self.folders.get(name)
        return PathFinder.find_spec(name, [str(folder)]) if folder else None


@contextlib.contextmanager
def imports_of(folder: Path) -> Iterator[None]:
    """Within it, imports find what lies in a file's folder or in the current one.

    The two folders stay at the end of Python's path, where they hide no module of a library.
    """
    folders = [folder, Path.cwd()]
    sys.path += [str(place) for place in folders if str(place) not in sys.path]
    own = {k: place for k, place in own_packages(folders).items() if not _is_found(k, place)}
    theirs = _IMPORTED.setdefault(str(folder), {})
    finder = _Finder(own)
    ours = _take_modules(own)
    sys.modules.update(theirs)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        theirs.update(_take_modules(own))
        sys.modules.update(ours)


def _is_found(name: str, folder: Path) -> bool:
    """Whether this process imports the folder's package anyhow, as a user's own process does."""
    spec = importlib.util.find_spec(name)
    places = [*((spec and spec.submodule_search_locations) or ()), (spec and spec.origin) or ""]
    return any(
        Path(place).resolve().with_suffix("").is_relative_to(folder.resolve() / name)
        for place in places
    )


def _take_modules(packages: Collection[str]) -> dict[str, ModuleType]:
    """Remove what is imported of these packages, and return it."""
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}
