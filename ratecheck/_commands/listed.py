"""What ``ratecheck list`` says of a paper of which nothing is stored, kept with the paper.

To know it takes imports of everything the paper holds, and the meaning of all code behind its
verdicts, which are seconds; reading the code's bytes takes milliseconds. ``results/list.json``
holds the rows and a digest of all files that they depend on, and counts only while these files are
the same. ``make index`` writes it, and so does an audit that writes its verdicts there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ratecheck._discover import papers
from ratecheck._fallback import ROOT, folders_of

FILE = "list.json"
#: What the meaning of a claim is made from beside its paper, and what decides whether a kept
#: verdict is current.
_BESIDE = ("linsys", "mgda", "ratecheck/_store/revision.py", "ratecheck/_verdicts/verdict.py")
_VERDICTS = "verdicts.json"


def known(paper: str) -> list[dict[str, Any]] | None:
    """The rows that an installed paper keeps, if they are of the files that are there now."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        folder = _folder(paper)
        content = json.loads((folder / "results" / FILE).read_bytes())
        if content["made_from"] == made_from(folder):
            return list(content["rows"])
    return None


def write(places: Iterable[Path]) -> None:
    """Keep the rows of those installed papers whose folder ``results`` is one of these places.

    Raises:
        InputError: a module of such a paper cannot be imported.
    """
    wanted = {place.resolve() for place in places}
    for paper in papers.installed():
        folder = _folder(paper)
        if (folder / "results").resolve() in wanted and (folder / "results").is_dir():
            _write(paper, folder)


def _write(paper: str, folder: Path) -> None:
    from ratecheck._discover.project import raise_fault
    from ratecheck._store.files import temporary_folder, write_whole

    with temporary_folder("ratecheck-list-") as empty:
        rows = read_paper(paper, empty, raise_fault)
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    digest = json.dumps(made_from(folder))
    text = f'{{\n "made_from": {digest},\n "rows": [\n  {lines}\n ]\n}}\n'
    write_whole(folder / "results" / FILE, text.encode())


def read_paper(paper: str, out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of one installed paper, from its modules and what is stored below ``out``."""
    from ratecheck._discover import catalogue, registry
    from ratecheck._report import experiments, verdicts
    from ratecheck._store.store import Store
    from ratecheck._verdicts.records import Records

    store = Store(out, writable=False)
    rows = [experiments.listing(one, store) for _, one in registry.of_papers(broken, paper)]
    claims = catalogue.of_papers([paper], broken)
    return [*rows, *verdicts.sections(claims, Records(out, writable=False))]


def made_from(folder: Path) -> str:
    """Digest of the names and the content of all files behind the rows of a paper."""
    digest = hashlib.sha256()
    for root in (folder, *(ROOT / name for name in _BESIDE)):
        files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
        for file in [*files, *root.glob(f"results/{_VERDICTS}")]:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _folder(paper: str) -> Path:
    return Path(folders_of(papers.installed()[paper])[0])


if __name__ == "__main__":
    write(_folder(name) / "results" for name in papers.installed())
