"""A user's modules under names of their own, so that they and ours may be called alike.

A file that a user gives by its path becomes a module of a package that no folder has, such as
``_user_0123abcd.claims``. What it imports from its folder, from its project (the folder above it
that has a pyproject.toml) or from the current folder belongs to that package as well, whether it is
imported at the top or later inside a function: ``import experiments`` means the user's package
there, if there is one, and ours everywhere else; what the user's package lacks is looked for in
ours. Of two files in one folder that import a module, both have the same.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ratecheck._fallback import ROOT, find_ours, holds_python, import_ours, import_statement

#: What the names of these packages begin with.
PREFIX = "_user_"


class UserModules:
    """The modules that files of one folder are and import.

    Args:
        folder: of the files; its path is absolute.

    Attributes:
        name: of the package that they belong to.
        folders: where they are looked for.
        files: all that were read, as their tracebacks call them.
    """

    def __init__(self, folder: Path) -> None:
        self.name = PREFIX + hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        self.folders = search_folders(folder)
        self.files: set[str] = set()
        self._read: dict[Path, bytes] = {}
        self._is_held: dict[str, bool] = {}

    def load(self, path: Path, source: bytes) -> ModuleType:
        """The module of this file, which has this content; as it was, if nothing has changed."""
        self._forget_if_changed()
        package = sys.modules.setdefault(self.name, ModuleType(self.name))
        package.__path__ = [str(folder) for folder in self.folders]
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        name = f"{self.name}.{path.stem.replace('.', '_')}"
        if self._read.get(path.resolve()) != _digest(source):
            sys.modules.pop(name, None)
        if name not in sys.modules:
            spec = ModuleSpec(name, _Loader(name, str(path), self), origin=str(path))
            spec.has_location = True
            spec.cached = None
            module = sys.modules[name] = module_from_spec(spec)
            try:
                assert spec.loader is not None
                spec.loader.exec_module(module)
            except BaseException:
                self._forget()  # with what it imported before it failed
                raise
        return sys.modules[name]

    def has(self, path: Path, source: bytes) -> bool:
        """Whether this file was imported with this content, and nothing has changed since."""
        self._forget_if_changed()
        return self._read.get(path.resolve()) == _digest(source)

    def plain(self, text: str) -> str:
        """A message without the package's name, which no user has written."""
        return text.replace(f"{self.name}.", "")

    def note(self, path: str, source: bytes) -> None:
        """Remember what was read."""
        self.files.add(path)
        self._read[Path(path).resolve()] = _digest(source)

    def builtins(self) -> dict[str, Any]:
        """The builtins of its modules, whose import statements look here first."""
        return {**vars(builtins), "__import__": self._import}

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or not self._holds(top):
            return import_statement(name, globals, locals, fromlist, level)
        try:
            inner = __import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
        except ImportError as error:
            error.msg = self.plain(error.msg)
            raise
        return inner if fromlist else sys.modules[f"{self.name}.{top}"]

    def _holds(self, name: str) -> bool:
        if name not in self._is_held:
            self._is_held[name] = users_package(name, self.folders) is not None
        return self._is_held[name]

    def _forget_if_changed(self) -> None:
        def now(path: Path) -> bytes | None:
            try:
                return _digest(path.read_bytes())
            except OSError:
                return None

        if any(now(path) != digest for path, digest in self._read.items()):
            self._forget()

    def _forget(self) -> None:
        for name in [n for n in sys.modules if n == self.name or n.startswith(f"{self.name}.")]:
            del sys.modules[name]
        self._read.clear()
        self._is_held.clear()


def search_folders(folder: Path) -> list[Path]:
    """Where a user's file in this folder finds modules of the user's, in this order.

    In the folder, beside the package that it belongs to, in its project and in the current folder.
    """
    above = folder
    while (above / "__init__.py").is_file() and above != above.parent:
        above = above.parent
    project = [p for p in (above, *above.parents) if (p / "pyproject.toml").is_file()][:1]
    return list(dict.fromkeys([folder, above, *project, Path.cwd()]))


def put_on_path(folder: Path) -> None:
    """Have this whole process find there what a user's file in this folder may import.

    For who imports the file under its plain name, as pytest does.
    """
    for place in reversed(search_folders(folder)):
        if str(place) in sys.path:
            continue
        if (place / "__init__.py").is_file():  # its modules may be called as Python's own
            sys.path.append(str(place))
        else:
            sys.path.insert(0, str(place))


def users_package(name: str, folders: Sequence[Path]) -> Path | None:
    """The folder that has a module or package of this name which is not ours, or None."""
    for folder in folders if name != "ratecheck" else ():
        spec = PathFinder.find_spec(name, [str(folder)])
        places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
        # a folder of results is no package, only one of Python files is
        is_package = any(map(holds_python, places))
        is_ours = (folder / name).resolve() == (ROOT / name).resolve()
        if spec is not None and (spec.origin or is_package) and not is_ours:
            return folder
    return None


def modules_beside(path: Path) -> UserModules:
    """The modules of the files in this file's folder."""
    folder = path.resolve().parent
    modules = _BY_FOLDER.setdefault(folder, UserModules(folder))
    modules.folders = search_folders(folder)  # the current folder may be another one now
    return modules


_BY_FOLDER: dict[Path, UserModules] = {}


class _Loader(SourceFileLoader):
    """Reads a user's module anew each time: a cached compilation may be of older text."""

    def __init__(self, name: str, path: str, modules: UserModules) -> None:
        super().__init__(name, path)
        self.modules = modules

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self.modules.note(path, source)
        code: CodeType = self.source_to_code(source, path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self.modules.builtins()
        uses_numba = b"numba" in self.get_data(self.path)
        with _machine_code_apart(self) if uses_numba else nullcontext():
            super().exec_module(module)


@contextmanager
def _machine_code_apart(loader: _Loader) -> Iterator[None]:
    """In the block, what numba caches is kept apart from what it caches of the same file elsewhere.

    Cached code is loaded with the module that it was compiled in, and processes that import the
    file by its own name do not know ours.
    """
    from numba.core import config

    settings: Any = config
    folder = Path(loader.path).parent / "__pycache__" / loader.modules.name
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


class _OurLoader(Loader):
    """Takes our module of this name, which stays one and the same for all that import it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_ours(self.name)


class _Finder:
    """Finds the modules of these packages, as ``sys.meta_path`` asks."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        package, _, inner = name.partition(".")
        modules = next((m for m in _BY_FOLDER.values() if m.name == package), None)
        if modules is None or path is None:
            return None
        if "." not in inner:
            folder = users_package(inner, modules.folders)
            path = [str(folder)] if folder else []
        within_ours = not sys.modules[name.rpartition(".")[0]].__name__.startswith(package)
        spec = None if within_ours else PathFinder.find_spec(name, path)
        if spec is None and find_ours(inner) is not None:
            return ModuleSpec(name, _OurLoader(inner))
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path, modules)
        return spec


def _digest(source: bytes) -> bytes:
    return hashlib.sha256(source).digest()
