"""A Python file of the user's as a module: read anew when it changes, its faults in one line."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from linsys.validate import InputError
from ratecheck._discover.table import faults_known
from ratecheck._processes import rehearsal
from ratecheck._processes.interrupts import may_be_ctrl_c
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._user_modules import UserModules, modules_beside

#: Seconds that the import of a file may compute, or wait: libraries take some on a busy machine.
_LIMIT = ContextVar("limit of imports", default=60.0)


@contextmanager
def importing_within(seconds: float | None) -> Iterator[None]:
    """In the block an import of a user's file may take so many seconds; None: as many as before."""
    before = _LIMIT.set(_LIMIT.get() if seconds is None else seconds)
    try:
        yield
    finally:
        _LIMIT.reset(before)


def load(path: Path, what: str) -> ModuleType:
    """The module of this file; ``what`` names the file in errors, such as "experiment file".

    Raises:
        InputError: if there is no such file, it is not readable, or its import fails, takes too
            long or ends the process.
    """
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{what} must exist; found no file {path}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what} must be readable; found {path}: {reason}") from None
    faults, this = faults_known(), (path.resolve(), source, _LIMIT.get())
    if this in faults:
        raise InputError(f"{what} {faults[this]}")
    try:
        return _imported(path, source, what)
    except InputError as error:
        faults[this] = str(error).removeprefix(f"{what} ")
        raise


def _imported(path: Path, source: bytes, what: str) -> ModuleType:
    """The module of a file with this content; see :func:`load`."""
    modules = modules_beside(path)
    if not modules.has(path, source):
        _rehearse(path, source, what, modules)
    try:
        # what an import prints is no part of an answer
        with redirect_stdout(sys.stderr), time_limit(_LIMIT.get(), imports=True):
            return modules.load(path, source)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and may_be_ctrl_c():
            raise
        raise InputError(modules.plain(_fault(what, path, modules, error))) from error


def _rehearse(path: Path, source: bytes, what: str, modules: UserModules) -> None:
    """Import a file in a copy of this process, which it may end, or keep in compiled code for ever.

    Other errors are left to the import itself, which knows more of them.

    Raises:
        InputError: it did so, or its import takes too long.
    """
    if not rehearsal.is_possible():
        return

    def late() -> str:
        try:
            with redirect_stdout(sys.stderr), time_limit(_LIMIT.get(), imports=True):
                modules.load(path, source)
        except TimeLimit as error:
            return modules.plain(_fault(what, path, modules, error))
        except BaseException:
            pass
        return ""

    try:
        error = rehearsal.rehearse(late, _LIMIT.get())
    except rehearsal.Ended as ended:
        raise InputError(
            f"{what} must import without error; found an import that {ended} at {path}"
        ) from None
    except OSError:  # no more processes or memory: the import may do with less
        return
    if error:
        raise InputError(error)


def _fault(what: str, path: Path, modules: UserModules, error: BaseException) -> str:
    """What went wrong while the file was read, and at which of its lines, in one line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in modules.files]
    last = frames[-1] if frames else None
    place = f"{last.filename}:{last.lineno}" if last else str(path)
    reason = str(error)
    if isinstance(error, SyntaxError):
        place = f"{error.filename or path}:{error.lineno or 1}"
        reason = error.msg
    elif isinstance(error, SystemExit):
        reason = f"exit with {error.code}"
    elif isinstance(error, TypeError):
        reason += _nearest_parameter(reason)
    elif isinstance(error, AttributeError) and error.name is not None:
        near = get_close_matches(error.name, dir(error.obj), n=1)
        reason += f" (did you mean `{near[0]}`?)" if near else ""
    said = " ".join(f"{type(error).__name__}: {reason}".split())
    return f"{what} must import without error; found {said} at {place}"


def _nearest_parameter(reason: str) -> str:
    """What was meant by a keyword that one of our classes or functions does not have, or all."""
    import ratecheck

    match = re.match(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'", reason)
    ours = getattr(ratecheck, match[1], None) if match else None
    if match is None or not callable(ours):
        return ""
    known = [name for name in inspect.signature(ours).parameters if name != "self"]
    near = get_close_matches(match[2], known, n=1)
    return f" (did you mean `{near[0]}`?)" if near else f" (it has {', '.join(known)})"
