"""Files that are whole or absent, in folders that can be written, named by digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratecheck._processes import elsewhere

#: What reading a damaged file raises, which may have too many brackets inside each other.
DAMAGED = OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError


def _refused(text: str) -> Exception:
    """An InputError; whoever writes a cache imports nothing numerical for it."""
    from linsys.validate import InputError

    return InputError(text)


def check_writable(what: str, folder: Path) -> None:
    """Make a folder and refuse one that cannot be written; ``what`` names it in the error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or error
        raise _refused(f"{what} must be writable; found {folder}: {reason}") from None


def check_no_folder(what: str, path: Path) -> None:
    """Refuse a folder where a file is to be written; ``what`` names the file in the error."""
    if os.path.isdir(path):
        raise _refused(f"{what} must be a file; found the folder {path}")


def write_whole(path: Path, content: bytes, *, flush: bool = True) -> None:
    """Write a file so that a kill at any moment leaves the old content or the new, never a part.

    Args:
        path: of the file.
        content: what it is to hold.
        flush: wait until the disk has it. Without, a power cut within the next seconds may leave a
            part or nothing; for a file that is cheap to make again and notices its damage.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            if flush:
                os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    # the rename itself reaches the disk only with its folder; Windows has no such call
    if flush and hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """In this block a disk that is full or cannot be written is an InputError."""
    try:
        yield
    except OSError as error:
        raise _refused(f"{what} must be writable; found {path}: {error.strerror}") from None


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder for the time of the block, which workers on other machines see as well.

    Raises:
        InputError: no place for one, as on a disk that is full.
    """
    there = elsewhere.current()
    try:
        if there is not None:
            there.folder.mkdir(parents=True, exist_ok=True)
        place = None if there is None else there.folder
        hidden = place is not None  # beside the user's results, where a kill leaves it
        begins, ends = "." * hidden + prefix, ".tmp" * hidden
        folder = tempfile.TemporaryDirectory(prefix=begins, suffix=ends, dir=place)
    except OSError as error:
        raise _refused(
            f"folder of temporary files (TMPDIR) must be writable; found {error.strerror}"
        ) from None
    with folder as path:
        yield Path(path)


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """The files or folders in the order in which they were written, the last one first."""
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text in the name of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sealed(content: dict[str, Any]) -> bytes:
    """The content as JSON with a digest of itself, see :func:`opened` and :func:`unsealed`."""
    return json.dumps({**content, "digest": _seal(content)}, indent=1).encode()


def opened(path: Path) -> dict[str, Any] | None:
    """What a sealed file holds, or None without a whole, undamaged one.

    >>> path = Path(tempfile.mkdtemp()) / "sealed.json"
    >>> write_whole(path, sealed({"a": 1}))
    >>> opened(path)
    {'a': 1}
    >>> write_whole(path, sealed({"a": 1}).replace(b"1", b"2", 1))
    >>> opened(path)
    """
    try:
        return unsealed(path.read_bytes())
    except (OSError, ValueError):
        return None


def unsealed(written: bytes) -> dict[str, Any] | None:
    """What :func:`sealed` made JSON, or None where that is damaged.

    >>> unsealed(sealed({"a": 1})), unsealed(b"{}")
    ({'a': 1}, None)
    """
    with contextlib.suppress(*DAMAGED):
        content: dict[str, Any] = json.loads(written)
        if content.pop("digest") == _seal(content):
            return content
    return None


def _seal(content: dict[str, Any]) -> str:
    return digest(json.dumps(content, sort_keys=True))
