"""A user's file that does not end when it is imported is a line, within the limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from ratecheck._discover import user_file
from ratecheck._verdicts.certificates import revision
from tests._slow import slow_but
from tests.ratecheck.conftest import CLAIMS

#: Seconds of CPU time, or of waiting.
LIMIT = 0.5


@pytest.mark.parametrize(
    "text",
    slow_but(
        ["while True: pass", "import time\nwhile True: time.sleep(0.01)"],
        [
            "while True: pass",
            "import time\nwhile True: time.sleep(0.01)",
            "import inside_of_it",
            "try:\n while True: pass\nexcept Exception: pass",
            "class A:\n def __init_subclass__(cls):\n  while True: pass\nclass B(A): pass",
        ],
    ),
)
def test_an_endless_import_is_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "inside_of_it.py").write_text("x = 0\nwhile True: x += 1\n")
    path = tmp_path / "endless.py"
    path.write_text(text)
    with (
        user_file.importing_within(LIMIT),
        pytest.raises(InputError, match="claims file must import without error; found TimeLimit"),
    ):
        user_file.load(path, "claims file")
    path.write_text("x = 1\n")  # mended, it is read
    assert user_file.load(path, "claims file").x == 1


@pytest.mark.parametrize("command", [["audit"], ["certify"], ["certify", "--constant"]])
def test_the_limit_of_a_claim_covers_the_import(
    command: list[str], ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "endless.py"
    path.write_text("while True: pass\n")
    said = ratecheck(*command, path, "--limit", LIMIT, "--out", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("ratecheck: claims file must import without error; found TimeLimit:")
    assert said.err.endswith(f"at {path}:1\n")


@pytest.mark.slow
def test_the_limit_of_a_check_covers_the_import(
    ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    """The file has to be of the revision that the certificate states before it is imported."""
    path, certificate = tmp_path / "mine.py", tmp_path / "mine.two.json"
    path.write_text(CLAIMS)
    assert ratecheck("certify", path, "--out", tmp_path, "--results", tmp_path).code == 0
    path.write_text(f"{CLAIMS}while True: pass\n")
    content = json.loads(certificate.read_text()) | {"revision": revision(str(path))}
    certificate.write_text(json.dumps(content))
    said = ratecheck("certify", "--check", certificate, path, "--limit", 1)
    assert (said.code, said.err) == (1, "")
    assert "mine.two: refused: claims file must import without error; found Time" in said.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rc.Space(field={})", "found field (did you mean `fields`?) at"),
        ("rc.Panel(logs='x')", "argument 'logs' (did you mean `log`?) at"),
        ("rc.Panel(nothing_like=1)", "argument 'nothing_like' (it has x, y, log, slope, "),
        ("(lambda a: a)(b=1)", "argument 'b' at"),
    ],
)
def test_a_misspelt_parameter_is_answered_with_the_nearest(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"import ratecheck as rc\n{text}\n")
    with pytest.raises(InputError, match=re.escape(said)):
        user_file.load(path, "claims file")
