"""A Python file of the user's as a module: read anew when it changes, its faults in one line."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from contextlib import redirect_stdout
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

from linsys import InputError
from ratecheck._own_packages import imports_of


def load(path: Path, what: str) -> ModuleType:
    """The module of this file; ``what`` names the file in errors, such as "experiment file".

    Raises:
        InputError: if there is no such file, it is not readable, or its import fails.
    """
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{what} must exist; found no file {path}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what} must be readable; found {path}: {reason}") from None
    # An edited file is another module: nothing of the old one is left in the new one's results.
    digest = hashlib.sha256(os.fsencode(path.resolve()) + source).hexdigest()
    name = f"_ratecheck_{path.stem}_{digest[:16]}"
    if name not in sys.modules:
        loader = SourceFileLoader(name, str(path))
        module = module_from_spec(ModuleSpec(name, loader, origin=str(path)))
        module.__file__ = str(path)
        sys.modules[name] = module
        try:
            # what an import prints is no part of an answer
            with redirect_stdout(sys.stderr), imports_of(path.resolve().parent):
                # from what was read: a cached compilation may be of older text
                exec(loader.source_to_code(source, str(path)), module.__dict__)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C is no fault of the file
                raise
            raise InputError(_fault(what, path, error)) from error
    return sys.modules[name]


def _fault(what: str, path: Path, error: BaseException) -> str:
    """What went wrong while the file was read, and at which of its lines, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f"{path}:{f.lineno}" for f in reversed(frames) if f.filename == str(path)), path)
    reason = str(error)
    if isinstance(error, SyntaxError):
        place = f"{error.filename or path}:{error.lineno or 1}"
        reason = error.msg
    elif isinstance(error, SystemExit):
        reason = f"exit with {error.code}"
    said = " ".join(f"{type(error).__name__}: {reason}".split())
    return f"{what} must import without error; found {said} at {place}"
