"""Compiled code that was kept on disk is used only if it is what was written there.

numba keeps machine code as pickles and believes them: what a crash or a disk has damaged ends in an
error of its reader, or is run. Here every file of our folders ends with a digest of what is before
it, and one without the right digest counts as absent, so that the function is compiled anew. What
cannot be written, as on a full disk, is not kept, and nothing fails.

numba calls :func:`init` itself, before it reads the first file: it is the entry point ``init`` of
``numba_extensions``, see ``pyproject.toml``. Files of other packages are left as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["init"]

#: The user's cache folder of ours, whose name is a digest, or a temporary one.
_FOLDER = re.compile(r"/ratecheck(/[0-9a-f]{16}|-[^/]+)(/|$)")
#: Bytes of a digest.
_LENGTH = hashlib.sha256().digest_size


def init() -> None:
    """Have numba seal what it keeps in our folders, and check it; more than once is once.

    >>> init()
    """
    from numba.core import caching

    numbas: Any = caching.IndexDataCacheFile
    if hasattr(numbas, "_ratecheck"):
        return
    load_index, load_data = numbas._load_index, numbas._load_data
    save, open_for_write = numbas.save, numbas._open_for_write

    def checked_index(self: Any) -> Any:
        if _is_ours(self) and not _is_whole(self._index_path):
            return {}
        return load_index(self)

    def checked_data(self: Any, name: str) -> Any:
        if _is_ours(self) and not _is_whole(path := self._data_path(name)):
            raise OSError(f"kept machine code must be as it was written; found {path}")
        return load_data(self, name)  # a pickle ends before the digest

    def attempted(self: Any, key: Any, data: Any) -> None:
        try:
            save(self, key, data)
        except OSError:  # what cannot be kept is used all the same
            if not _is_ours(self):
                raise

    @contextlib.contextmanager
    def sealed(self: Any, path: str) -> Iterator[Any]:
        with open_for_write(self, path) as stream:
            if not _is_ours(self):
                yield stream
                return
            content = io.BytesIO()
            yield content
            stream.write(content.getvalue() + hashlib.sha256(content.getvalue()).digest())

    numbas._load_index, numbas._load_data = checked_index, checked_data
    numbas.save, numbas._open_for_write = attempted, sealed
    numbas._ratecheck = True


def _is_ours(file: Any) -> bool:
    """Whether a file of numba's lies in a folder that :mod:`linsys.compiled` made."""
    return _FOLDER.search(Path(file._cache_path).as_posix()) is not None


def _is_whole(path: str) -> bool:
    """Whether a file ends with the digest of what is before it."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-_LENGTH]).digest() == content[-_LENGTH:]
