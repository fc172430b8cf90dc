"""``ratecheck list``: what there is and how much of it is stored, remembered between commands.

To know what is stored the code of every paper is imported and read, which takes seconds. The rows
are therefore kept in the user's cache, with the names, sizes and times of all files that they were
made from; where one of these differs they are made anew. Nothing numerical is imported before. The
files of a user's project are read each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratecheck._discover import papers
from ratecheck._discover.table import find_table
from ratecheck._report.terminal import console, tabulate
from ratecheck._report.words import in_words

#: Packages that what is listed is computed from, besides the papers.
_OURS = ("ratecheck", "linsys", "mgda", "lora_bridge")
#: Files that count, by their endings: of packages, and of results.
_OF_PACKAGES, _OF_RESULTS = (".py", ".pyi", ".json"), (".json", ".parquet")
#: A folder of results with more files than this is read anew every time.
_MOST_FILES = 20_000


def rows(out: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every experiment, then every section of claims, with what is stored below ``out``.

    Args:
        out: folder of results.
        warn: told of every module that cannot be read.
    """
    found = [*_of_papers(out, warn), *_of_project(out, warn)]
    return sorted(found, key=lambda row: row["kind"] == "claims")


def _of_papers(out: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of the papers that are installed."""
    made_from = _fingerprint(out)
    kept = _cache()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(kept.read_bytes())
        if made_from and content["made_from"] == made_from:
            return list(content["rows"])
    faults: list[str] = []
    found = _read(out, faults.append)
    for fault in faults:
        warn(fault)
    if made_from and not faults:
        _keep(kept, {"made_from": made_from, "rows": found})
    return found


def _of_project(out: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of the user's project, if there is one."""
    if find_table(warn) is None:
        return []
    from ratecheck._commands import audits
    from ratecheck._discover import catalogue, registry
    from ratecheck._report import experiments
    from ratecheck._store.store import Store

    faults: dict[str, None] = {}  # of one file once
    listed = registry.of_project(faults.setdefault)
    sections = audits.sections(catalogue.of_project(faults.setdefault), out)
    for fault in faults:
        warn(fault)
    store = Store(out, writable=False)
    return [*(experiments.listing(experiment, store) for experiment in listed), *sections]


def show(found: Sequence[Mapping[str, Any]]) -> None:
    """Print what :func:`rows` gave: a table of experiments and one of sections of claims."""
    of_claims = [row for row in found if row["kind"] == "claims"]
    of_experiments = [row for row in found if row["kind"] != "claims"]
    headers = ("experiment", "kind", "title", "source", "stored blocks")
    cells = [
        [
            *(row[key] for key in ("id", "kind", "title", "source")),
            ", ".join(f"{profile} {count}" for profile, count in row["stored"].items()),
        ]
        for row in of_experiments
    ]
    screen = console()
    screen.print(tabulate(headers, cells))
    sections = [[row["id"], row["title"], in_words(row["verdicts"])] for row in of_claims]
    screen.print(tabulate(("claims", "section", "last verdicts"), sections))


def _read(out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
    from ratecheck._commands import audits
    from ratecheck._discover import catalogue, registry
    from ratecheck._report import experiments
    from ratecheck._store.store import Store

    store = Store(out, writable=False)
    listed = [registry.find_experiment(name) for name in registry.of_papers()]
    of_experiments = [experiments.listing(experiment, store) for experiment in listed]
    claims = catalogue.of_papers(catalogue.with_claims(), broken)
    return [*of_experiments, *audits.sections(claims, out)]


def _keep(path: Path, content: dict[str, Any]) -> None:
    from ratecheck._store.files import write_whole

    with contextlib.suppress(OSError):  # a cache that cannot be written costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(content).encode())


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ratecheck" / "list.json"


def _fingerprint(out: Path) -> str:
    """Digest of the names, sizes and times of all files behind the rows; "" of too many."""
    digest = hashlib.sha256(f"{platform.python_version()} {out.absolute()}\0".encode())
    packages = {*_OURS, *(package.partition(".")[0] for package in papers.installed().values())}
    digest.update("".join(f"{name} {p}\0" for name, p in papers.installed().items()).encode())
    for package in sorted(packages):
        spec = importlib.util.find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            for line in _files(root, _OF_PACKAGES):
                digest.update(line.encode(errors="surrogateescape"))
    for number, line in enumerate(_files(str(out), _OF_RESULTS)):
        if number == _MOST_FILES:
            return ""
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Name, size and time of every file below a folder with one of these endings."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(entry.path, endings)
        elif entry.name.endswith(endings):
            about = entry.stat()
            yield f"{entry.path} {about.st_size} {about.st_mtime_ns}\0"
