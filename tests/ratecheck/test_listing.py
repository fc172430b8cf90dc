"""``ratecheck list`` remembers what it read, as long as nothing of it has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratecheck._commands import listed, listing
from ratecheck._discover import papers

ROW = {"id": "a/b", "kind": "figure", "title": "t", "source": "s", "stored": {"quick": "0/1"}}


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every folder of results for which the papers were read; there is one small paper."""
    package = tmp_path / "packages" / "little_paper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(papers, "installed", lambda *_: {"little": "little_paper"})
    asked: list[Path] = []

    def read(out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
        asked.append(out)
        if (package / "broken.py").exists():
            broken("a module is broken")
        return [ROW]

    monkeypatch.setattr(listing, "_read", read)
    return asked


def list_(out: Path) -> list[str]:
    said: list[str] = []
    assert listing.rows(out, said.append) == [ROW]
    return said


def test_nothing_is_read_twice(reads: list[Path], tmp_path: Path) -> None:
    for _ in range(3):
        assert list_(tmp_path / "out") == []
    assert reads == [tmp_path / "out"]
    list_(tmp_path / "other")
    list_(tmp_path / "other")
    assert len(reads) == 2


@pytest.mark.parametrize(
    "changed",
    ["packages/little_paper/new.py", "packages/little_paper/results/x.json", "out/a/b/1/2.parquet"],
)
def test_what_changes_is_read_again(changed: str, reads: list[Path], tmp_path: Path) -> None:
    path = tmp_path / changed
    path.parent.mkdir(parents=True, exist_ok=True)
    list_(tmp_path / "out")
    for number, content in enumerate(["", "1", "2"], 2):
        path.write_text(content)
        os.utime(path, ns=(number, number))
        list_(tmp_path / "out")
        list_(tmp_path / "out")
        assert len(reads) == number
    path.unlink()
    list_(tmp_path / "out")
    assert len(reads) == 5


def test_a_fault_is_said_every_time(reads: list[Path], tmp_path: Path) -> None:
    (tmp_path / "packages" / "little_paper" / "broken.py").touch()
    assert list_(tmp_path) == list_(tmp_path) == ["a module is broken"]
    assert len(reads) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"made_from": 1}', "\xff"])
def test_a_damaged_cache_is_made_anew(content: str, reads: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "ratecheck" / "list.json"
    list_(tmp_path / "out")
    cache.write_bytes(content.encode("latin-1"))
    list_(tmp_path / "out")
    list_(tmp_path / "out")
    assert len(reads) == 2
    assert json.loads(cache.read_text())["rows"] == [ROW]


def test_a_cache_that_cannot_be_written_is_no_fault(reads: list[Path], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert list_(tmp_path / "out") == []
    assert len(reads) == 1


def test_a_folder_of_many_results_is_read_every_time(
    reads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_FILES", 2)
    (tmp_path / "out").mkdir()
    for name in "abc":
        (tmp_path / "out" / f"{name}.json").touch()
    list_(tmp_path / "out")
    list_(tmp_path / "out")
    assert len(reads) == 2


def test_asking_loads_nothing_numerical() -> None:
    program = (
        "import sys; from pathlib import Path; from ratecheck._commands import app, listing; "
        "listing._fingerprint(Path('results')); "
        "print(sorted({'numpy', 'numba', 'linsys', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"


def test_a_project_is_read_again_when_one_of_its_files_changes(
    reads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"id": "mine/a", "kind": "claims", "title": "t", "claims": 1, "verdicts": {}}
    asked: list[Path] = []

    def read(out: Path, broken: Callable[[str], None]) -> list[dict[str, Any]]:
        asked.append(out)
        return [own]

    monkeypatch.setattr(listing, "_read_project", read)
    root = tmp_path / "project"
    (root / ".venv" / "lib").mkdir(parents=True)
    (root / "env").mkdir()
    (root / "env" / "pyvenv.cfg").touch()
    (root / "pyproject.toml").write_text("[tool.ratecheck]\nfiles = ['a.py']\n")
    monkeypatch.chdir(root)

    def listed() -> int:
        assert listing.rows(tmp_path / "out", pytest.fail) == [ROW, own]
        return len(asked)

    assert [listed(), listed()] == [1, 1]
    for number, name in enumerate(["a.py", "deep/b.py", "pyproject.toml"], 2):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + "# more\n")
        assert [listed(), listed()] == [number, number]
    for name in (".venv/lib/c.py", "env/d.py", "notes.txt"):
        (root / name).write_text("x")
        assert listed() == 4
    assert len(reads) == 1  # those of the papers are kept


SECTION = {"id": "little/a", "paper": "little", "title": "t", "kind": "claims", "claims": 1}
KEPT = [{**ROW, "id": "little/fig"}, {**SECTION, "verdicts": {"holds": 1}}]


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A paper that keeps its rows; whoever imports it gets others."""
    package = tmp_path / "packages" / "little_paper"
    (package / "claims").mkdir(parents=True)
    (package / "results").mkdir()
    for name in ("__init__.py", "claims/a.py", "results/verdicts.json"):
        (package / name).touch()
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(papers, "installed", lambda *_: {"little": "little_paper"})
    monkeypatch.setattr(listed, "read_paper", lambda *_: KEPT)
    listed.write([package / "results"])
    monkeypatch.setattr(listed, "read_paper", lambda *_: [ROW])
    return package


def test_what_a_paper_keeps_is_listed_while_its_files_are_the_same(
    little: Path, tmp_path: Path
) -> None:
    def read() -> list[dict[str, Any]]:
        return listing._read(tmp_path / "out", pytest.fail)

    assert sorted(map(str, read())) == sorted(map(str, KEPT))
    for name in ("claims/a.py", "claims/_new.py", "results/verdicts.json"):
        path = little / name
        before = path.read_text() if path.exists() else None
        path.write_text("1")
        assert read() == [ROW]
        path.unlink() if before is None else path.write_text(before)
        assert len(read()) == 2
    (little / "results" / listed.FILE).write_text("{")
    assert read() == [ROW]


@pytest.mark.parametrize("stored", ["little/fig", "audit/little"])
def test_a_paper_of_which_something_is_stored_is_read(
    stored: str, little: Path, tmp_path: Path
) -> None:
    (tmp_path / "out" / stored).mkdir(parents=True)
    assert listing._read(tmp_path / "out", pytest.fail) == [ROW]


def test_nothing_is_kept_of_a_paper_elsewhere(little: Path, tmp_path: Path) -> None:
    before = (little / "results" / listed.FILE).read_bytes()
    (tmp_path / "other").mkdir()
    listed.write([tmp_path / "other", tmp_path / "none"])
    assert not list((tmp_path / "other").iterdir())
    assert (little / "results" / listed.FILE).read_bytes() == before


def test_the_first_listing_loads_nothing_numerical(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ratecheck._commands import listing; "
        f"assert listing.rows(Path({str(tmp_path / 'out')!r}), sys.exit); "
        "print(sorted({'numpy', 'numba', 'linsys', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.stdout.decode().strip() == "[]"
