"""Which claims passed their tests before, so that they need not be judged again.

A claim is known by all that its test depends on: the code of its module and of what that imports,
of the tool, the numerical packages and the versions of libraries; effort, seed and limit; what is
kept of its tightness; its certificates; and what other claims hand on to it. What a measure reads
from other files is not seen.
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
from ratecheck._verdicts.certified import every
from ratecheck._verdicts.testing import origin_of


class Passed:
    """The test of a claim with all that it depends on, and whether it passed with just this.

    Args:
        folder: where those that passed are empty files.
        entry: the claim.
        module: in which it stands.
        options: of the test, as are the others.
        others: claims that the test looks at, by id.
        known: what is kept of its tightness.

    >>> import sys, tempfile, ratecheck as rc
    >>> claim = rc.NotChecked(id="mine.taste", source="p", text="t", note="why")
    >>> module = sys.modules[Passed.__module__]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     passed = Passed(Path(folder), claim, module, claims.Options(), {}, None)
    ...     before = passed.is_known()
    ...     passed.remember()
    ...     before, passed.is_known()
    (False, True)
    """

    def __init__(
        self,
        folder: Path,
        entry: Entry,
        module: ModuleType,
        options: claims.Options,
        others: Mapping[str, Entry],
        known: claims.Known | None,
    ) -> None:
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
            every(origin_of(entry), entry.id),
        ]
        text = json.dumps(said, sort_keys=True, default=repr)
        self._path = folder / digest(_revision(module) + text)

    def is_known(self) -> bool:
        """Whether it passed."""
        return self._path.is_file()

    def remember(self) -> None:
        """Remember that it passed."""
        write_whole(self._path, b"")


@functools.cache
def _revision(module: ModuleType) -> str:
    """The revision of a module's claims and of all that judges them."""
    judge = sys.modules[claims.__name__]
    files = [(Path(m.__file__ or ""), m.__package__ or "") for m in (module, judge)]
    return revision_of(files)
