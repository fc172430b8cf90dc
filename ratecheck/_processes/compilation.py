"""What this process compiles: who asks is told when it begins and when it is over.

numba says so around reading its cache, compiling and writing the cache. It takes half a second to
import, which many a claim does not need, and is therefore not imported here. Who listens before
anything has imported it may be told of that import as well, which is no more the claim's than a
compilation is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Protocol

from ratecheck._fallback import LoaderAround

__all__ = ["Listener", "is_imported", "listen", "stop_listening"]

#: What numba calls it.
_KIND = "numba:compiler_lock"
_NUMBA, _EVENTS = "numba", "numba.core.event"


class Listener(Protocol):
    """Is told of compilations, of those within another as well."""

    def begins(self) -> None:
        """Something is compiled from now on."""

    def ends(self) -> None:
        """The last one that began is over."""


#: All of them, and of each whether numba's import counts.
_listeners: list[tuple[Listener, bool]] = []


def listen(listener: Listener, *, imports: bool) -> None:
    """From now on, tell this one; of numba's import as of a compilation if ``imports``."""
    if not _Watch.there:
        _Watch.there = True
        if is_imported():
            _register()
        else:
            sys.meta_path.insert(0, _Watch())
    _listeners.append((listener, imports))


def stop_listening(listener: Listener) -> None:
    """Tell this one no more."""
    _listeners[:] = [known for known in _listeners if known[0] is not listener]


def is_imported() -> bool:
    """Whether numba is there."""
    return _EVENTS in sys.modules


def _told(importing: bool) -> list[Listener]:
    return [listener for listener, imports in _listeners if imports or not importing]


def _register() -> None:
    """Have numba tell from now on."""
    from numba.core import event

    class Told(event.Listener):
        def on_start(self, event: Any) -> None:
            for listener in _told(importing=False):
                listener.begins()

        def on_end(self, event: Any) -> None:
            for listener in _told(importing=False):
                listener.ends()

    event.register(_KIND, Told())  # type: ignore[no-untyped-call]


class _Watch:
    """Sees numba being imported, for ``sys.meta_path``, once."""

    #: Whether there is one, or numba was there.
    there = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Find numba as Python does; nothing else."""
        if name != _NUMBA:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)
        return spec


class _Telling(LoaderAround):
    """Loads numba and says when."""

    def exec_module(self, module: ModuleType) -> None:
        """Run its code."""
        told = _told(importing=True)
        for listener in told:
            listener.begins()
        try:
            self.loader.exec_module(module)
            _register()
        finally:
            for listener in told:
                listener.ends()
