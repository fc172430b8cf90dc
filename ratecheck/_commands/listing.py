"""``ratecheck list``: what there is and how much of it is stored, remembered between commands.

To know what is stored the code of every paper is imported and read, which takes seconds. The rows
are therefore kept in the user's cache, with the names, sizes and times of all files that they were
made from; where one of these differs they are made anew. Nothing numerical is imported before. The
rows of a user's project are kept apart, with all Python files below its pyproject.toml. So are the
names of all claims and experiments, for ``ratecheck list TEXT``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ratecheck._commands import listed
from ratecheck._discover import papers, references
from ratecheck._discover.table import FILE, find_table
from ratecheck._fallback import folders_of
from ratecheck._report.terminal import show_list
from ratecheck._report.words import in_words
from ratecheck._store.files import DAMAGED

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
    made_from = _fingerprint(out)
    listed = _kept(_cache(), made_from, lambda broken: _read(out, broken), warn)
    table = find_table(warn)
    if table is not None:
        place = _cache().with_name("list-project.json")
        made_from = made_from and _of_files(made_from, _below(table[0].parent))
        listed = listed + _kept(place, made_from, lambda broken: _read_project(out, broken), warn)
    return sorted(listed, key=lambda row: bool(row["kind"] == "claims"))


def called(text: str, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every claim and experiment that a paper calls so, or of a paper; its id as well.

    Args:
        text: as of :mod:`ratecheck._discover.references`; or a file or folder, for all in it.
        warn: told of every module that cannot be read.

    Raises:
        InputError: there is none.
    """
    if _is_place(text):
        from ratecheck._discover import project

        with project.alone([Path(text)]):
            return _read_names_of_project(warn)
    known = [*_kept(_names(), _fingerprint(None), _read_names, warn), *of_project(warn)]
    paper, rest = references.split_paper(
        text, {row["paper"]: row["source"].partition(",")[0] for row in known}
    )
    of_paper = [row for row in known if paper in (None, row["paper"])]
    matching = [row for row in of_paper if not rest or references.names(rest, row["source"])]
    matching.sort(key=lambda row: references.distance(rest, row["source"]) if rest else 0)
    matching = matching or [row for row in known if fnmatchcase(row["id"], text)]
    if not matching:
        from ratecheck._names import check_name, check_no_path

        ids = [row["id"] for row in known]
        check_no_path("text", text, ids)
        check_name("text", text, ids)
    return matching


def _is_place(text: str) -> bool:
    """Whether a text is the path of a user's file or folder, and not a paper's name."""
    is_file = text.endswith(".py") and os.path.isfile(text)
    return is_file or (text not in papers.installed() and os.path.isdir(text))


def is_paper(text: str, warn: Callable[[str], None]) -> bool:
    """Whether a text is the short name of a paper, installed or of the project, or a folder."""
    if text in papers.installed() or os.path.isdir(text):
        return True
    return any(row["paper"] == text for row in of_project(warn))


def names_claims_alone(text: str, warn: Callable[[str], None]) -> bool:
    """Whether a paper calls claims so, and nothing else."""
    from linsys.validate import InputError

    try:
        rows = called(text, warn) if references.is_reference(text) else []
    except InputError:
        return False
    return bool(rows) and all("." in row["id"] for row in rows)


def of_project(warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every claim and experiment of the user's project, as :func:`called` has them."""
    table = find_table(warn)
    if table is None:
        return []
    made_from = _fingerprint(None)
    made_from = made_from and _of_files(made_from, _below(table[0].parent))
    place = _cache().with_name("names-project.json")
    return _kept(place, made_from, _read_names_of_project, warn)


def last_of_papers() -> list[dict[str, Any]]:
    """Every claim and experiment of installed papers as :func:`called` had them last; no wait."""
    with contextlib.suppress(*DAMAGED):
        return list(json.loads(_names().read_bytes())["rows"])
    return []


def show_called(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what :func:`called` gave."""
    cells = [[row[key] for key in ("id", "kind", "source", "title")] for row in rows]
    show_list(("id", "kind", "source", "what it says"), cells, ("source", "what it says"))


def _read_names(broken: Callable[[str], None]) -> list[dict[str, Any]]:
    from ratecheck._discover import catalogue, registry

    rows = [_named(paper, one) for paper, one in registry.of_papers(broken)]
    claims = catalogue.of_papers(catalogue.with_claims(), broken)
    return [*rows, *(_named(item.entry.paper, item.entry) for item in claims)]


def _read_names_of_project(broken: Callable[[str], None]) -> list[dict[str, Any]]:
    from ratecheck._discover import catalogue, registry

    experiments = registry.of_project(broken)
    of_models = registry.papers_of_models()
    rows = [_named(of_models.get(one.id, one.paper), one) for one in experiments]
    return [*rows, *(_named(i.entry.paper, i.entry) for i in catalogue.of_project(broken))]


def _named(paper: str, one: Any) -> dict[str, Any]:
    """The row of a claim or an experiment."""
    title = one.title if hasattr(one, "title") else " ".join(one.text.split())
    about = {"id": one.id, "paper": paper, "kind": one.kind, "source": one.source}
    return {**about, "title": title}


def _kept(
    path: Path,
    made_from: str,
    read: Callable[[Callable[[str], None]], list[dict[str, Any]]],
    warn: Callable[[str], None],
) -> list[dict[str, Any]]:
    """The rows that are kept if they were made from this, else those that are read now."""
    with contextlib.suppress(*DAMAGED):
        content = json.loads(path.read_bytes())
        if made_from and content["made_from"] == made_from:
            return list(content["rows"])
    faults: dict[str, None] = {}  # of one file once
    fresh = read(faults.setdefault)
    for fault in faults:
        warn(fault)
    if made_from and not faults:
        _keep(path, {"made_from": made_from, "rows": fresh})
    return fresh


def plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What :func:`rows` gave with the same keys in every row: empty where a kind has none.

    >>> [row] = plain([{"id": "mine/fig", "kind": "figure", "stored": {"quick": "4/4"}}])
    >>> row["stored"], row["claims"], row["verdicts"]
    ({'quick': '4/4'}, 0, {})
    """
    texts = dict.fromkeys(("id", "paper", "kind", "title", "source", "variable"), "")
    empty: dict[str, Any] = {**texts, "stored": {}, "claims": 0, "verdicts": {}}
    return [{**empty, **row} for row in rows]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what :func:`rows` gave: a table of experiments and one of sections of claims."""
    of_claims = [row for row in rows if row["kind"] == "claims"]
    of_experiments = [row for row in rows if row["kind"] != "claims"]
    headers = ("experiment", "kind", "title", "source", "stored blocks")
    cells = [
        [
            *(row[key] for key in ("id", "kind", "title", "source")),
            ", ".join(f"{profile} {count}" for profile, count in row["stored"].items()),
        ]
        for row in of_experiments
    ]
    show_list(headers, cells, ("title", "source"))
    sections = [[row["id"], row["title"], in_words(row["verdicts"])] for row in of_claims]
    show_list(("claims", "section", "last verdicts"), sections, ("section", "last verdicts"))


def _read(out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for paper in papers.installed():
        kept = listed.known(paper)
        if kept is None or (out / "audit" / paper).is_dir() or _has_any(out, kept):
            kept = listed.read_paper(paper, out, broken)
        rows += kept
    return sorted(rows, key=_order)


def _has_any(out: Path, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether something of these experiments is stored."""
    return any((out / row["id"]).is_dir() for row in rows if row["kind"] != "claims")


def _order(row: Mapping[str, Any]) -> tuple[bool, str]:
    """Experiments by their ids, those on language models last; sections as they are."""
    name = "" if row["kind"] == "claims" else str(row["id"])
    return name.startswith("bridge/"), name


def _read_project(out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of the user's project."""
    from ratecheck._discover import catalogue, registry
    from ratecheck._report import experiments, verdicts
    from ratecheck._store.store import Store
    from ratecheck._verdicts.records import Records

    store = Store(out, writable=False)
    rows = [experiments.listing(one, store) for one in registry.of_project(broken)]
    return [*rows, *verdicts.sections(catalogue.of_project(broken), Records(out, writable=False))]


def _keep(path: Path, content: dict[str, Any]) -> None:
    from ratecheck._store.files import write_whole

    with contextlib.suppress(OSError):  # a cache that cannot be written costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(content).encode())


def _names() -> Path:
    return _cache().with_name("names.json")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ratecheck" / "list.json"


def _fingerprint(out: Path | None) -> str:
    """Digest of the names, sizes and times of all files behind the rows; "" of too many.

    Of no results if ``out`` is None.
    """
    place = "" if out is None else out.absolute()
    digest = hashlib.sha256(f"{platform.python_version()} {place}\0".encode())
    packages = {*_OURS, *(package.partition(".")[0] for package in papers.installed().values())}
    digest.update("".join(f"{name} {p}\0" for name, p in papers.installed().items()).encode())
    for package in sorted(packages):
        for root in folders_of(package):
            for line in _files(root, _OF_PACKAGES):
                digest.update(line.encode(errors="surrogateescape"))
    return _of_files(digest.hexdigest(), _files(str(out), _OF_RESULTS) if out else ())


def _of_files(begin: str, lines: Iterable[str]) -> str:
    """Digest of a text and of the lines on files; "" of too many."""
    digest = hashlib.sha256(begin.encode())
    for number, line in enumerate(lines):
        if number == _MOST_FILES:
            return ""
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _below(root: Path) -> Iterator[str]:
    """Name, size and time of every Python file of a project, and of its pyproject.toml.

    Without those in hidden folders and in environments with packages.
    """
    yield _about(root / FILE)
    for folder, folders, names in os.walk(root):
        place = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not (place / name / "pyvenv.cfg").exists()
        )
        yield from (_about(place / name) for name in sorted(names) if name.endswith(".py"))


def _about(path: Path) -> str:
    about = path.stat()
    return f"{path} {about.st_size} {about.st_mtime_ns}\0"


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
