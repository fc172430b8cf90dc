"""A disk that takes no more is a line, and leaves no file that is part of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from linsys import InputError
from ratecheck._store.files import temporary_folder

CLAIM = """
from ratecheck import claim, interval

@claim(id="mine.one", source="s", kind="upper", fields={"x": interval()}, text="at most one")
def one(instance):
    return instance.x, 1
"""


def test_no_place_for_temporary_files_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with (
        pytest.raises(InputError, match=r"\(TMPDIR\) must be writable; found No space left"),
        temporary_folder("ratecheck-"),
    ):
        pass


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("command", [("audit", "mine.py"), ("run", "affpcl/rate_t")])
@pytest.mark.parametrize("limit", [0, 2000])
def test_files_that_cannot_grow_are_lines(
    command: tuple[str, ...], limit: int, tmp_path: Path
) -> None:
    """As on a full disk: no file may be longer than so many bytes."""
    import resource

    (tmp_path / "mine.py").write_text(CLAIM)
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "ratecheck", *command, "--threads", "1", "--out", str(out)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # Python would keep halves of its own
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert "Traceback" not in said
    assert "File too large" in said or "must be writable" in said
    assert not list(out.rglob("*.tmp"))
