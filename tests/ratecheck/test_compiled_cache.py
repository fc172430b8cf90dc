"""Machine code that is kept: used when whole, made anew when damaged, let go when not writable."""

from __future__ import annotations

import random
import shutil
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from linsys import compiled as decorator
from ratecheck._processes import compiled_cache
from tests._damages import damages

SEED = 6


def doubled(x: float) -> float:
    return 2.0 * x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    compiled_cache.init()
    folder = tmp_path / "ratecheck" / "0123456789abcdef"
    folder.mkdir(parents=True)
    monkeypatch.setattr(decorator, "_FOLDER", str(folder))
    return folder


def loaded() -> bool:
    """Whether a new dispatcher of the function, called once, finds its machine code."""
    function: Any = decorator.compiled(doubled)
    assert function(1.5) == 3.0
    hits: int = sum(function.stats.cache_hits.values())
    return hits == 1


def test_numba_is_told_by_an_entry_point() -> None:
    names = [one.value for one in entry_points(group="numba_extensions", name="init")]
    assert "ratecheck._processes.compiled_cache:init" in names


def test_whole_code_is_used_and_damaged_code_is_made_anew(folder: Path, tmp_path: Path) -> None:
    assert not loaded()
    assert loaded()
    shutil.copytree(folder, sound := tmp_path / "sound")
    files = sorted(path.relative_to(sound) for path in sound.rglob("*.nb?"))
    assert [path.suffix for path in files] == [".nbc", ".nbi"]
    rng = random.Random(SEED)
    for file in files:
        for content in damages((sound / file).read_bytes(), rng):
            shutil.rmtree(folder)
            shutil.copytree(sound, folder)
            (folder / file).unlink()
            if content is None:
                (folder / file).mkdir()
            else:
                (folder / file).write_bytes(content)
            assert not loaded(), f"{file} = {(content or b'')[:40]!r}"
            assert content is None or loaded()


def test_every_byte_of_the_machine_code_counts(folder: Path) -> None:
    loaded()
    (path,) = folder.rglob("*.nbc")
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 16):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not loaded(), at


def test_code_that_cannot_be_kept_is_used_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.open", full, raising=False)
    assert not loaded()
    assert not list(folder.rglob("*.nb?"))


def test_files_of_other_packages_are_left_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_cache.init()
    monkeypatch.setattr(decorator, "_FOLDER", str(tmp_path / "others"))
    monkeypatch.setattr(compiled_cache, "_is_whole", lambda path: pytest.fail(f"read {path}"))
    assert not loaded()
    assert loaded()
