"""Model folders in the user's cache: each is built once, also if processes race or are killed."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from linsys.folder_lock import folder_lock
from lora_bridge.failures import writing_explained

__all__ = ["check_writable", "folder_of", "is_made", "made_once"]

_LOG = logging.getLogger(__name__)
_NAME = "cache of models (XDG_CACHE_HOME)"
#: How the names of folders with unfinished models begin.
_UNFINISHED = "making-"


def folder_of(name: str) -> Path:
    """Where the model of this name is, or would be."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ratecheck" / "models" / name


def is_made(folder: Path) -> bool:
    """Whether the complete model is there."""
    return (folder / "config.json").exists()


def check_writable() -> None:
    """Refuse a cache that cannot be written, before anything large is downloaded for it.

    Raises:
        InputError: it cannot.
    """
    models = folder_of("models").parent
    with writing_explained(_NAME, models):
        models.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=models).close()


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name, made first where it is not there yet.

    Processes take turns at making models; the one whose turn it is removes what killed ones have
    left, and one that waits says so in the log.

    Args:
        name: of the folder; it names all that the model depends on.
        make: writes the model into a folder that is not there yet.

    Raises:
        InputError: a cache that cannot be written, or what ``make`` refuses.
    """
    folder = folder_of(name)
    if not is_made(folder):
        with writing_explained(_NAME, folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with folder_lock(folder.parent, _say_waits) as alone:
                _make_in_turn(folder, make, alone)
    return folder


def _make_in_turn(folder: Path, make: Callable[[Path], None], alone: bool) -> None:
    for left in folder.parent.glob(f"{_UNFINISHED}*") if alone else ():  # by killed processes
        shutil.rmtree(left, ignore_errors=True)
    if not is_made(folder):  # by the process before
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_UNFINISHED) as unfinished:
            make(Path(unfinished) / folder.name)
            _rename_finished(Path(unfinished) / folder.name, folder)


def _rename_finished(finished: Path, folder: Path) -> None:
    """Rename the finished folder; without turns, another process may have made the same one."""
    try:
        finished.rename(folder)
    except OSError:
        if not is_made(folder):
            raise


def _say_waits() -> None:
    _LOG.warning("another process makes a model; waiting for it")
