"""The revision of the code behind a result: a digest of source files, also in a wheel.

It covers the numerical packages and all that the experiment's file imports, directly or through
other files, from ``experiments`` and from the user's own modules; but not the drawing, storing and
running around it: those cannot change a stored number.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from experiments._model import Experiment
from linsys import InputError

_NUMERICAL = ("linsys", "mgda")
#: Packages of this project that count module by module, wherever they are installed.
_OURS = ("experiments", "lora_bridge")
#: Folders of what others published.
_INSTALLED = {"site-packages", "dist-packages"}
#: Modules that act on results after they are computed, or move them unchanged. What they import
#: counts: the seeds reach an experiment through ``_model``.
_AROUND = {
    "_job",
    "_machine",
    "_model",
    "_names",
    "_options",
    "_plots",
    "_rates",
    "_registry",
    "_report",
    "_revision",
    "_runner",
    "_store",
    "_user_file",
    "cli",
}


def revision(experiment: Experiment[Any]) -> str:
    """Sixteen hexadecimal digits that change with any source file behind the numbers."""
    return revision_of(_roots(experiment))


def revision_of(roots: Sequence[tuple[Path, str]]) -> str:
    """The revision of numbers that these files define, each given with its module's package."""
    # They count by their content alone: a copy elsewhere has the same revision.
    parts = [("", path.read_bytes()) for path, _ in roots]
    for name in _NUMERICAL:
        spec = importlib.util.find_spec(name)
        for root in (spec.submodule_search_locations or []) if spec else []:
            files = sorted(Path(root).rglob("*.py"))
            parts += [(f"{name}/{f.relative_to(root).as_posix()}", f.read_bytes()) for f in files]
    parts += [(name, path.read_bytes()) for name, path in sorted(_imported(roots).items())]
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def file_digest(path: Path, name: str) -> str:
    """SHA-256 of a file, or of a folder's files and their names.

    Raises:
        InputError: one that cannot be read; says so of the parameter ``name``.
    """
    try:
        if not path.is_dir():
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        files = sorted(file for file in path.iterdir() if file.is_file())
        content = "".join(f"{file.name}\0{file_digest(file, name)}\n" for file in files)
        return hashlib.sha256(content.encode()).hexdigest()
    except OSError as error:
        raise InputError(f"`{name}` must be readable; found {path}: {error.strerror}") from None


def _roots(experiment: Experiment[Any]) -> list[tuple[Path, str]]:
    """The files that define the experiment's numbers, each with its module's package."""
    found: dict[Path, str] = {}
    for part in (experiment.compute, experiment.blocks, experiment.config_type):
        while isinstance(part, functools.partial):
            part = part.func
        try:
            path = Path(inspect.getfile(part)).resolve()
        except (OSError, TypeError):
            path = Path()
        if not path.is_file():
            raise InputError(
                f"functions of {experiment.id} must be defined in a file; found {part!r}"
            )
        found[path] = getattr(inspect.getmodule(part), "__package__", None) or ""
    return list(found.items())


def _imported(roots: Sequence[tuple[Path, str]]) -> dict[str, Path]:
    """Modules that these files import, directly or through others, by name.

    Counted are ``experiments``, ``lora_bridge`` and what is not installed: a module beside the
    experiment's file, below its folder or anywhere else that is neither the standard library nor
    site-packages. Only ``import`` statements are seen, at any depth of the code.
    """
    folders = [path.parent for path, _ in roots]
    seen: set[str] = set()
    found: dict[str, Path] = {}
    todo = list(roots)
    while todo:
        file, package = todo.pop()
        for name in _mentioned(file.read_bytes(), package) - seen:
            seen.add(name)
            spec = _find(name, folders)
            if spec is None or spec.origin is None:
                continue
            path = Path(spec.origin)
            if not path.is_file() or not _counts(name, path.resolve(), folders):
                continue
            found[name] = path
            todo.append((path, name if spec.submodule_search_locations else spec.parent or ""))
    files = {path for path, _ in roots}
    return {
        name: path
        for name, path in found.items()
        if not _is_around(name) and path.resolve() not in files
    }


def _is_around(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top == "experiments" and rest.partition(".")[0] in _AROUND


def _counts(name: str, path: Path, folders: Sequence[Path]) -> bool:
    """Whether a module is ours or the user's; the numerical packages are counted elsewhere."""
    top = name.partition(".")[0]
    if top in _OURS or top in _NUMERICAL:
        return top in _OURS
    for folder in folders:
        if path.is_relative_to(folder) and not _INSTALLED & set(path.relative_to(folder).parts):
            return True
    system = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    within = any(path.is_relative_to(Path(root).resolve()) for root in system if root)
    return not within and not _INSTALLED & set(path.parts)


@functools.lru_cache(maxsize=512)
def _mentioned(source: bytes, package: str) -> frozenset[str]:
    """Every module that the source may import, with the packages above it."""
    names: set[str] = set()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a compiled module, or one that cannot be imported
        return frozenset()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                except ImportError:  # more dots than packages: this statement never runs
                    continue
            # "from package import name" may name a module or a value; a value is not found later
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    parts = [name.split(".") for name in names]
    return frozenset(".".join(p[:k]) for p in parts for k in range(1, len(p) + 1))


def _find(name: str, folders: Sequence[Path]) -> ModuleSpec | None:
    """Where a module lies, without importing it or the packages above it."""
    top, _, rest = name.partition(".")
    loaded = sys.modules.get(top)
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module without a specification, such as __main__
        spec = None
    # the user's file may have put its own folder on the path for its imports alone
    spec = spec or PathFinder.find_spec(top, [str(folder) for folder in folders])
    path = getattr(loaded, "__path__", None)
    for part in rest.split(".") if rest else ():
        if path is None and spec is not None:
            path = spec.submodule_search_locations
        if path is None:
            return None
        top = f"{top}.{part}"
        spec, path = PathFinder.find_spec(top, list(path)), None
    return spec
