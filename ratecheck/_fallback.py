"""Our packages and a user's packages of the same names, side by side in one process.

A user's repository may hold a folder called ``experiments``, ``linsys``, ``lora_bridge`` or
``mgda``, as a package or without an ``__init__.py``. In a process of the user's, in pytest or in a
notebook, ``import mgda`` in a user's file then means the user's package, and in a module of ours it
means ours. Python keeps a single module for a name. Where the user has a package of its name, ours
is therefore ``ratecheck._own.mgda``, and the import statements of our modules look there. What
the user's package lacks is found in ours: ``import mgda.simplex``, where there is no such file of
the user's, is our module, the very one that our modules have.

Which of the two a plain name is, is decided when it is imported for the first time. If the user's
folder comes onto Python's path later, the name stays ours; what ours lacks is then found in the
user's.

In the ``ratecheck`` command and in worker processes all plain names are ours
(:mod:`ratecheck._packages`); a user's files have modules of their own there
(:mod:`ratecheck._user_modules`).

Two of our modules run when something of theirs is first used, in place of when they are imported
(:data:`LATER`): they bring the compiler along, half a second that many a claim does not need.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:  # nothing of it is needed, and it takes as long to import as all of this
    Loader = object

#: Our packages, beside ``ratecheck`` itself.
PACKAGES = ("experiments", "linsys", "lora_bridge", "mgda")
#: The folder that holds them, as sources and when they are installed.
ROOT = Path(__file__).absolute().parents[1]
#: What the names of our modules begin with where a user's package has the plain name.
OWN = "ratecheck._own."
#: Modules that run when something of theirs is first used: public names of systems, compiled loops.
LATER = ("linsys", "linsys.linalg._loops")


def find_ours(name: str) -> ModuleSpec | None:
    """Where our module of this plain name lies; None if we have none."""
    *above, _ = name.split(".")
    if (*above, name)[0] not in PACKAGES:
        return None
    return PathFinder.find_spec(name, [str(ROOT.joinpath(*above))])


def folders_of(package: str) -> list[str]:
    """Where the modules of a package lie, ours or any other; nowhere if there is none.

    Imports nothing of ours.
    """
    with contextlib.suppress(ModuleNotFoundError):  # there is no package above it
        spec = find_ours(package) or importlib.util.find_spec(package)
        return list((spec and spec.submodule_search_locations) or ())
    return []


def import_ours(name: str) -> ModuleType:
    """The module of this plain name: ours, or one of another name that none of ours has."""
    return importlib.import_module(OWN + name if _is_taken(name) else name)


def plain_name(name: str) -> str:
    """The name of a module of ours as its files have it."""
    return name.removeprefix(OWN)


def import_statement(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """``__import__`` of modules that mean our packages by their plain names."""
    if level or not _is_taken(name):
        return __import__(name, globals, locals, fromlist or (), level)
    inner = __import__(OWN + name, globals, locals, fromlist or (), 0)
    return inner if fromlist else sys.modules[OWN + name.partition(".")[0]]


def take_plain_names() -> None:
    """From now on all plain names are ours in this process."""
    _taken.update(dict.fromkeys(PACKAGES, False))
    _Finder.for_users = False


#: Whether the plain name of a package of ours is the user's, once that is known.
_taken: dict[str, bool] = {}


def _is_taken(name: str) -> bool:
    """Whether the plain name of the package that this module belongs to is the user's."""
    top = name.partition(".")[0]
    if top not in PACKAGES:
        return False
    if top not in _taken:
        loaded = sys.modules.get(top)
        if loaded is None:
            ours = _is_ours(_found_by_others(top, None)) and not _users_folders(top)
        else:  # a user's folder may be a part of ours since before ratecheck was imported
            ours = _is_ours(loaded.__spec__) and all(_lies_in(top, p) for p in loaded.__path__)
        _taken[top] = not ours
    return _taken[top]


def _is_ours(spec: ModuleSpec | None) -> bool:
    """Whether this is a module of ours."""
    if spec is None or spec.origin is None:
        return False
    return _lies_in(plain_name(spec.name).partition(".")[0], spec.origin)


def _lies_in(package: str, place: str) -> bool:
    """Whether a file or folder is of this package of ours."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(ROOT / package))


def _users_folders(name: str, *, with_init: bool = False) -> list[str]:
    """A user's package of this name as folders on Python's path, without an ``__init__.py``."""
    places = [os.path.join(entry or os.getcwd(), *name.split(".")) for entry in sys.path]
    ours = os.path.realpath(ROOT.joinpath(*name.split(".")))
    return [
        place
        for place in dict.fromkeys(places)
        if os.path.isdir(place)
        and (with_init or not os.path.exists(os.path.join(place, "__init__.py")))
        and os.path.realpath(place) != ours
        and holds_python(place)
    ]


def holds_python(folder: str | Path) -> bool:
    """Whether a folder holds a Python file; a folder of results alone is no package."""
    return any(True for _ in Path(folder).rglob("*.py"))


def _found_by_others(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """What Python finds without the finder of this module."""
    finders = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    specs = (f.find_spec(name, path, None) for f in finders if hasattr(f, "find_spec"))
    return next(filter(None, specs), None)


class _Finder:
    """Finds our modules, and what a user's package of our names lacks, for ``sys.meta_path``."""

    #: Whether plain names may be a user's.
    for_users = True

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Find a module."""
        if name.startswith(OWN):
            return self._under_own_name(name)
        top, _, inner = name.partition(".")
        if not self.for_users:
            return _run_later(find_ours(name))
        if top == "ratecheck":
            return _with_our_imports(_found_by_others(name, path))
        if top not in PACKAGES:
            return None
        parent = sys.modules.get(name.rpartition(".")[0])
        if parent is not None and parent.__name__.startswith(OWN):
            return _same_as(name, OWN + name) if find_ours(name) else None
        spec = _found_by_others(name, path)
        if _is_ours(spec):
            taken = not inner and path is None and _is_taken(top)
            return _beside_ours(name, _users_folders(name)) if taken else _with_our_imports(spec)
        if not inner:
            return spec
        if not _is_taken(top):  # the user's folder has come onto the path since
            above = name.rpartition(".")[0]
            return spec or PathFinder.find_spec(name, _users_folders(above, with_init=True))
        if (spec is not None and spec.origin is not None) or find_ours(name) is None:
            return spec
        folders = list((spec and spec.submodule_search_locations) or ())
        if any(map(holds_python, folders)):
            return _beside_ours(name, folders)
        return _same_as(name, OWN + name)

    def _under_own_name(self, name: str) -> ModuleSpec | None:
        plain = plain_name(name)
        loaded = sys.modules.get(plain)
        if not self.for_users or (loaded is not None and _is_ours(loaded.__spec__)):
            return _same_as(name, plain)
        *above, _ = plain.split(".")
        return _with_our_imports(PathFinder.find_spec(name, [str(ROOT.joinpath(*above))]))


def _with_our_imports(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The spec of a module of ours, changed so that its import statements look for ours."""
    if spec is not None and spec.loader is not None:
        spec.loader = _OurLoader(spec.loader)
    return _run_later(spec)


def _run_later(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The spec of a module of ours, changed so that one of :data:`LATER` runs at its first use."""
    if spec is not None and spec.loader is not None and plain_name(spec.name) in LATER:
        spec.loader = _LaterLoader(spec.loader)
    return spec


def _same_as(name: str, other: str) -> ModuleSpec:
    """A second name of a module of ours."""
    return ModuleSpec(name, _OtherName(other), is_package=True)


def _beside_ours(name: str, folders: list[str]) -> ModuleSpec:
    """A user's package of folders without ``__init__.py``, which has what ours has as well."""
    spec = ModuleSpec(name, _BesideOurs(), is_package=True)
    spec.submodule_search_locations = folders
    return spec


#: What modules of ours have as builtins.
_BUILTINS = {**vars(builtins), "__import__": import_statement}


class LoaderAround(Loader):
    """Loads a module as another loader would; whoever inherits it says what is done beside."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create it as the other loader does."""
        created: ModuleType | None = self.loader.create_module(spec)
        return created


class _OurLoader(LoaderAround):
    """Loads a module of ours with import statements that look for ours."""

    def exec_module(self, module: ModuleType) -> None:
        """Run its code."""
        module.__dict__["__builtins__"] = _BUILTINS
        self.loader.exec_module(module)


class _LaterLoader(LoaderAround):
    """Loads a module of ours whose code runs when a name is first asked for."""

    def exec_module(self, module: ModuleType) -> None:
        """Have its code run later."""
        lock, begun = threading.RLock(), False

        def run() -> None:
            nonlocal begun
            with lock:
                if begun:  # also by this thread: what it imports meets names that are not there yet
                    return
                begun = True
                try:
                    self.loader.exec_module(module)
                except BaseException:
                    begun = False
                    raise
                for hook, ours in hooks.items():
                    if vars(module).get(hook) is ours:
                        del vars(module)[hook]

        def attribute(name: str) -> Any:
            special = name.startswith("__") and name.endswith("__") and name != "__all__"
            if not special:  # what looks through all modules asks for these
                inner = f"{module.__name__}.{name}"
                if PathFinder.find_spec(inner, getattr(module, "__path__", [])) is not None:
                    return importlib.import_module(inner)
                run()
                if name in vars(module):
                    return vars(module)[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        def names() -> list[str]:
            run()
            return sorted(vars(module))

        hooks = {"__getattr__": attribute, "__dir__": names}
        vars(module).update(hooks)


class _OtherName(Loader):
    """Takes the module of another name in place of a new one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Have Python create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the other one in its place."""
        sys.modules[module.__name__] = importlib.import_module(self._name)


class _BesideOurs(Loader):
    """Makes a package of a user's folders that has the attributes of ours."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Have Python create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Look for attributes in ours, which is only imported then."""
        module.__dict__["__getattr__"] = partial(_attribute, module.__name__, module.__path__)


def _attribute(package: str, folders: Sequence[str], name: str) -> Any:
    """An attribute of our package of this name, unless the user's folders have such a module."""
    special = name.startswith("__") and name.endswith("__")
    if special or PathFinder.find_spec(f"{package}.{name}", folders) is not None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return getattr(import_ours(package), name)
    except ImportError as error:  # it needs a library that is not installed
        raise AttributeError(str(error)) from error


_own = sys.modules.setdefault(OWN.rstrip("."), ModuleType(OWN.rstrip(".")))
_own.__path__ = []
sys.meta_path.insert(0, _Finder())
