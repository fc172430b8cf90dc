"""What a command has proved that is not over, for the same command to go on from.

A command that ended proves anew when it is given again, as what is proved may depend on more than
the claims, such as instances that were found since. One that was stopped goes on: what its workers
answered lies sealed in a hidden folder beside the certificates, until all is written and said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._certify import prove as prover
from ratecheck._certify.prove import Proof
from ratecheck._discover.catalogue import Item, module
from ratecheck._store.files import check_no_folder, digest, opened, sealed, write_whole, writing
from ratecheck._store.revision import revision_of

#: In the folder of the certificates.
FOLDER = ".unfinished"


class Unfinished:
    """The answers on some claims so far.

    Args:
        out: folder of the certificates.
        how: what proves a claim.
        items: the claims.
        given: what an answer depends on beside the code, for each claim.

    Raises:
        InputError: a file has the name of the folder, or a folder that of an answer.
    """

    def __init__(
        self, out: Path, how: Callable[..., Proof], items: Sequence[Item], given: Sequence[Any]
    ) -> None:
        self._folder = out / FOLDER
        if self._folder.exists() and not self._folder.is_dir():
            what = "place of claims that are not all proved"
            raise InputError(f"{what} must be a folder; found the file {self._folder}")
        self._how, self._items, self._given = how.__module__, items, given
        for position in range(len(items)):
            check_no_folder("what is kept of a claim", self._path(position))
        self._revisions: dict[str, str] = {}

    def load(self, position: int) -> Proof | None:
        """The answer on a claim that the same command had with the same code."""
        content = opened(self._path(position))
        if content is None or content.get("key") != self._key(position):
            return None
        return Proof(self._items[position].id, content["certificate"], content["reason"])

    def save(self, position: int, proof: Proof) -> None:
        """Keep an answer."""
        content = {"certificate": proof.certificate, "reason": proof.reason}
        with writing("folder of certificates", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(position), sealed({"key": self._key(position), **content}))

    def clear(self) -> None:
        """Remove all of it: the command is over."""
        for position in range(len(self._items)):
            self._path(position).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there is none, or another command uses it
            self._folder.rmdir()

    def _path(self, position: int) -> Path:
        return self._folder / f"{self._items[position].id}.json"

    def _key(self, position: int) -> str:
        origin = self._items[position].origin
        if origin not in self._revisions:
            self._revisions[origin] = _revision(origin)
        return digest(repr((self._how, self._revisions[origin], self._given[position])))


def _revision(origin: str) -> str:
    """The revision of what proves claims of a module, and of the module."""
    roots = [(Path(one.__file__ or ""), one.__package__ or "") for one in (module(origin), prover)]
    return revision_of(roots)
