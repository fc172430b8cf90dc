"""Which claims passed their tests before, so that they need not be judged again.

A claim is known by all that its test depends on: the code of its module and of what that imports,
of the tool, the numerical packages and the versions of libraries; effort, seed and limit; what is
kept of its tightness; and what other claims hand on to it. What a measure reads from other files is
not seen.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from ratecheck._claims.claim import Entry
from ratecheck._conformance import claims
from ratecheck._discover.catalogue import families
from ratecheck._store.files import digest, write_whole
from ratecheck._store.machine import versions
from ratecheck._store.revision import revision_of


class Passed:
    """The claims that passed, as empty files of a folder.

    >>> import sys, tempfile, ratecheck as rc
    >>> claim = rc.NotChecked(id="mine.taste", source="p", text="t", note="why")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     passed = Passed(Path(folder))
    ...     what = claim, sys.modules[Passed.__module__], claims.Options(), {}, None
    ...     before = passed.holds(*what)
    ...     passed.add(*what)
    ...     before, passed.holds(*what)
    (False, True)
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def holds(
        self,
        entry: Entry,
        module: ModuleType,
        options: claims.Options,
        others: Mapping[str, Entry],
        known: claims.Known | None,
    ) -> bool:
        """Whether this claim of a module passed with just this; the arguments of its test."""
        return self._path(entry, module, options, others, known).is_file()

    def add(
        self,
        entry: Entry,
        module: ModuleType,
        options: claims.Options,
        others: Mapping[str, Entry],
        known: claims.Known | None,
    ) -> None:
        """Remember that it passed."""
        write_whole(self._path(entry, module, options, others, known), b"")

    def _path(
        self,
        entry: Entry,
        module: ModuleType,
        options: claims.Options,
        others: Mapping[str, Entry],
        known: claims.Known | None,
    ) -> Path:
        corrected = others.get(entry.corrected or "")
        handed_on = {
            name: [{key: repr(one[key]) for key in sorted(one)} for one in instances]
            for name, instances in sorted(families(entry, others).items())
        }
        said = [
            entry.id,
            asdict(options),
            None if known is None else asdict(known),
            handed_on,
            corrected and corrected.expect,
            versions(),
        ]
        text = json.dumps(said, sort_keys=True, default=repr)
        return self._folder / digest(_revision(module) + text)


@functools.cache
def _revision(module: ModuleType) -> str:
    """The revision of a module's claims and of all that judges them."""
    judge = sys.modules[claims.__name__]
    files = [(Path(m.__file__ or ""), m.__package__ or "") for m in (module, judge)]
    return revision_of(files)
