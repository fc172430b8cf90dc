"""The revision of the code behind a result: a digest of source files, also in a wheel.

It covers the numerical packages and all that the experiment's file imports, directly or through
other files, from ``experiments`` and ``ratecheck`` and from the user's own modules; but not the
drawing, storing and running around it: those cannot change a stored number.

Files are found by their names alone, never by what happens to be loaded: the packages of this
project beside each other, a user's modules beside the file that imports them or on Python's path.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import platform
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._experiment.model import Experiment, Grid
from ratecheck._fallback import plain_name
from ratecheck._user_modules import PREFIX, search_folders, users_package

#: Where the packages of this project lie, as sources and when they are installed.
_HOME = Path(__file__).resolve().parents[2]
_NUMERICAL = ("linsys", "mgda")
#: The public names of the tool, each imported from its module when it is first used.
_STUB = _HOME / "ratecheck" / "__init__.pyi"
#: Packages of this project that count module by module.
_OURS = ("experiments", "lora_bridge", "ratecheck")
#: Packages of this project that make up what a claim of the catalogue says.
_STATED = ("experiments", *_NUMERICAL)
#: What a claim says and does not compute, by the names of the arguments. The counterexamples of the
#: claims that it uses, which are tried on it, count for its verdict beside this.
_SAID = {
    *("source", "ref", "text", "tex", "latex", "note", "derivation", "reading", "printed_as"),
    *("corrected", "sharpens", "reading_of", "expect", "main", "meaning"),
    "uses",
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Folders of what others published.
_INSTALLED = {"site-packages", "dist-packages"}
#: Modules that act on results after they are computed, or move them unchanged. What they import
#: counts: the seeds reach an experiment through ``_experiment.model``.
_NOT_NUMERICAL = {
    "_commands",
    "_discover",
    "_experiment.model",
    "_experiment.options",
    "_experiment.panels",
    "_experiment.plots",
    "_experiment.ticks",
    "_fallback",
    "_names",
    "_processes",
    "_rates.laws",
    "_rates.rates",
    "_report",
    "_run",
    "_store",
    "_sweep",
    "cli",
}
#: Experiments and revisions of them that this process has.
_same: set[tuple[str, str]] = set()


def revision(experiment: Experiment[Any]) -> str:
    """Sixteen hexadecimal digits that change with any source file behind the numbers."""
    return revision_of(_roots(experiment))


def check_revision(experiment: Experiment[Any], wanted: str) -> None:
    """Refuse to compute what is stored as of this revision with other sources.

    Raises:
        InputError: this machine has other sources; names it and both revisions.
    """
    if (experiment.id, wanted) in _same:  # a process asks for every block
        return
    if (own := revision(experiment)) != wanted:
        raise InputError(
            f"worker {platform.node()} must have the sources of {experiment.id}, revision "
            f"{wanted}; found {own}"
        )
    _same.add((experiment.id, wanted))


def revision_of(roots: Sequence[tuple[Path, str]]) -> str:
    """The revision of numbers that these files define, each given with its module's package."""
    # They count by their content alone: a copy elsewhere has the same revision.
    parts = [("", path.read_bytes()) for path, _ in roots]
    parts += _numerical_sources()
    parts += [(name, path.read_bytes()) for name, path in sorted(_imported(roots).items())]
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def revision_of_meaning(path: Path, package: str) -> str:
    """The revision of what one of our modules computes, the same for other words about it.

    It covers what the module imports of the papers and of the numerical packages, one by one, but
    not the tool that judges it. Comments, layout, docstrings and what a claim says without
    computing it (its note, its LaTeX) do not count.
    """
    files = {"": path, **_imported([(path, package)], _STATED)}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{_meaning(files[name])}\0".encode())
    return digest.hexdigest()[:16]


@functools.cache
def _meaning(path: Path) -> str:
    """What a file computes: its syntax, without what is only said in it, on every Python alike."""
    tree = ast.parse(path.read_bytes())
    for node in _nodes(tree):
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _SAID]
        elif isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Expr(ast.Constant(""))
    return _written(tree)


def _written(part: Any) -> str:
    """A part of a syntax tree as text, without empty fields: newer Pythons have more of these."""
    if isinstance(part, ast.AST):
        fields = (f"{k}={_written(v)}" for k, v in ast.iter_fields(part) if v not in (None, []))
        return f"{type(part).__name__}({','.join(fields)})"
    return f"[{','.join(map(_written, part))}]" if isinstance(part, list) else repr(part)


@functools.cache
def _numerical_sources() -> list[tuple[str, bytes]]:
    """Every file of the numerical packages: its name and its content, read once by a process."""
    files = [f for name in _NUMERICAL for f in sorted((_HOME / name).rglob("*.py"))]
    return [(f.relative_to(_HOME).as_posix(), f.read_bytes()) for f in files]


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
    packages: dict[Path, str] = {}
    parts: list[Any] = [experiment.compute, experiment.config_type]
    if not isinstance(experiment.blocks, Grid):  # whose values are in the keys of the blocks
        parts.append(experiment.blocks)
    for part in parts:
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
        packages[path] = _package(part.__module__, path)
    return list(packages.items())


def _package(module: str, path: Path) -> str:
    """What the relative imports of a module, which lies in this file, are relative to."""
    return module if path.name.startswith("__init__.") else module.rpartition(".")[0]


def _imported(
    roots: Sequence[tuple[Path, str]], packages: Sequence[str] = _OURS
) -> dict[str, Path]:
    """Modules that these files import, directly or through others, by name.

    Counted are ``experiments``, ``lora_bridge``, ``ratecheck`` (or other ``packages`` of ours) and,
    where one of the user's files imports it, what is not installed: a module beside the user's
    experiment, below its folder or anywhere else on the path that is neither the standard library
    nor site-packages. Only ``import`` statements are seen, at any depth of the code.
    """
    roots = [(path, plain_name(package)) for path, package in roots]
    users = [folder for root in roots for folder in _users_folders(*root)]
    by_path = all(_is_by_path(package) or _is_ours(package) for _, package in roots)
    held = {name: users_package(name, users) for name in (*_OURS, *_NUMERICAL)}
    own = {name: folder for name, folder in held.items() if folder is not None}

    def is_ours(name: str) -> bool:
        top = name.partition(".")[0]
        return top in packages and top not in own

    seen: set[str] = set()
    modules: dict[str, Path] = {}
    todo = [(path, package, is_ours(package)) for path, package in roots]
    while todo:
        file, package, of_ours = todo.pop()
        names = _imported_names(file.read_bytes(), package)
        if of_ours:  # and imports nothing of the user's
            names = frozenset(name for name in names if name.partition(".")[0] in packages)
        for name in names - seen:
            seen.add(name)
            ours = of_ours or is_ours(name)
            path = None if ours else _users_module_file(name, users, own, by_path)
            if path is None and name.partition(".")[0] in packages:
                # also what the user's package of that name does not have
                ours, path = True, _our_module_file(name)
            if path is not None:
                modules[name] = path
                todo.append((path, _package(name, path), ours))
    files = {path.resolve() for path, _ in roots}
    return {
        name: path
        for name, path in modules.items()
        if not _is_not_numerical(name) and path.resolve() not in files
    }


def _is_by_path(package: str) -> bool:
    """Whether a module of this package was loaded from a path, and imports what is beside it."""
    return package.startswith(PREFIX)


def _users_folders(path: Path, package: str) -> list[Path]:
    """Where a user's file finds the user's modules; nowhere for a file of ours."""
    parts = package.split(".") if package else []
    if _is_by_path(package):
        return search_folders(path.parents[len(parts) - 1])
    if _is_ours(package) and path.is_relative_to(_HOME / parts[0]):
        return []
    return [path.parents[len(parts)]]


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in _OURS


def _is_not_numerical(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top == "ratecheck" and any(f"{rest}.".startswith(f"{part}.") for part in _NOT_NUMERICAL)


def _is_users(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a module's file is the user's own: not of the standard library, and not installed."""
    for folder in folders:
        if path.is_relative_to(folder) and not _INSTALLED & set(path.relative_to(folder).parts):
            return True
    system = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    within = any(path.is_relative_to(Path(root).resolve()) for root in system if root)
    return not within and not _INSTALLED & set(path.parts)


@functools.cache
def _public_names() -> dict[str, str]:
    """Each public name of the tool and the module that defines it, by their full names."""
    package = _STUB.parent.name
    return {
        f"{package}.{alias.name}": f"{package}.{node.module}"
        for node in ast.parse(_STUB.read_bytes()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@functools.lru_cache(maxsize=512)
def _imported_names(source: bytes, package: str) -> frozenset[str]:
    """Every module that the source may import, with the packages above it."""
    names: set[str] = set()
    aliases: set[str] = set()  # what the source calls the package whose names lie in other modules
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a compiled module, or one that cannot be imported
        return frozenset()
    attributes: set[tuple[str, str]] = set()  # "rc", "upper" where the source has "rc.upper"
    for node in _nodes(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                attributes.add((node.value.id, node.attr))
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            aliases |= {a.asname or a.name for a in node.names if a.name == _STUB.parent.name}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                except ImportError:  # more dots than packages: this statement never runs
                    continue
            # "from package import name" may name a module or a value; a value is not found later
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    names |= {f"{_STUB.parent.name}.{name}" for package, name in attributes if package in aliases}
    names = {_public_names().get(name, name) for name in names}
    names = {name.partition(".")[2] if name.startswith(PREFIX) else name for name in names} - {""}
    parts = [name.split(".") for name in names]
    return frozenset(".".join(p[:k]) for p in parts for k in range(1, len(p) + 1))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, as :func:`ast.walk`, in a third of its time."""
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                todo += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST):
                todo.append(value)


@functools.cache
def _our_module_file(name: str) -> Path | None:
    """The file of a module of this project, or None."""
    return _module_file(name, [_HOME])


def _users_module_file(
    name: str, folders: Sequence[Path], own: dict[str, Path], by_path: bool
) -> Path | None:
    """The file of a module if it is the user's own, without importing anything.

    Args:
        name: of the module.
        folders: in which the user's files lie.
        own: the user's packages with names of ours, and where they lie.
        by_path: whether these files were loaded from their paths: no other module can have taken
            the name of one that they import.

    Raises:
        InputError: another file's module is loaded under this name, which Python would take.
    """
    top = name.partition(".")[0]
    if top in own:
        return _module_file(name, [own[top]])
    if top in _NUMERICAL:  # counted as wholes
        return None
    # the user's file may have put its own folder on the path for its imports alone
    path = _module_file(name, [*folders, *sys.path])
    if path is None or not _is_users(path, folders):
        return None
    loaded = getattr(sys.modules.get(name), "__file__", None)
    other = Path(loaded).resolve() if loaded else path
    if other != path and _is_users(other, folders) and not by_path:
        raise InputError(
            f"module {name} must be the one in {path}; found {other} loaded under this name: "
            "run the files that import them one at a time"
        )
    return path


def _module_file(name: str, folders: Sequence[Path | str]) -> Path | None:
    """The file of a module below one of these folders, or where an editable installation has it."""
    spec: ModuleSpec | None = None
    places = [str(folder) for folder in folders]
    for depth, part in enumerate(name.split(".")):
        # by its last name alone: with all of them, Python would ask for the loaded package above
        spec = PathFinder.find_spec(part, places)
        if spec is None and depth == 0:
            specs = (finder.find_spec(part, None) for finder in sys.meta_path)
            spec = next(filter(None, specs), None)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    path = Path(spec.origin).resolve() if spec and spec.origin else None
    return path if path is not None and path.is_file() else None
