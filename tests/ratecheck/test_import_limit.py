"""A user's file that does not end when it is imported is a line, within the limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from ratecheck._discover import user_file
from ratecheck._processes import rehearsal
from ratecheck._verdicts.certificates import revision
from tests._slow import slow_but
from tests.ratecheck.conftest import CLAIMS

#: Seconds of CPU time, or of waiting.
LIMIT = 0.5
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs copies of a process")
#: A copy is made only of a process that has one thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


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


INTERRUPTED = "ratecheck: interrupted; the same command resumes\n"
#: What a signal handler of Python's cannot end, or what ends the process, and what is said of it.
ENDINGS = {
    "x = sum(range(10**12))": "did not end within 0.5 s",
    "import os\nprint('so far', flush=True)\nos._exit(0)": "ended the process with exit code 0",
    "import ctypes\nctypes.string_at(0)": "ended the process with signal 11 (SIGSEGV)",
}


@on_linux
@pytest.mark.parametrize("text", ENDINGS)
@pytest.mark.parametrize("name", slow_but(["audit"], ["audit", "certify"]))
def test_an_import_that_python_cannot_end_is_a_line(
    name: str, text: str, command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    process = command(name, path, "--limit", LIMIT, **ONE_THREAD)
    out, err = process.communicate(timeout=120)
    line = (
        "ratecheck: claims file must import without error; found an import that "
        f"{ENDINGS[text]} at {path}\n"
    )
    printed = "so far\n" if "so far" in text else ""
    assert (process.returncode, out, err) == (2, "", printed + line)


@on_linux
def test_a_file_is_tried_once_and_others_go_on_after_one_that_ends_its_copy(tmp_path: Path) -> None:
    first, second, mark = tmp_path / "first.py", tmp_path / "second.py", tmp_path / "mark"
    first.write_text("import os\nos._exit(0)\n")
    second.write_text(f"import os\nopen({str(mark)!r}, 'a').write(f'{{os.getpid()}}\\n')\n")
    code = f"""
import os
from pathlib import Path
from linsys import InputError
from ratecheck._discover.user_file import load
forks, fork = [], os.fork
os.fork = lambda: forks.append(0) or fork()
try:
    load(Path({str(first)!r}), "project file")
except InputError as error:
    print(error)
for _ in range(3):
    load(Path({str(second)!r}), "project file")
print(os.getpid(), len(forks))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **ONE_THREAD},
    )
    fault, end = done.stdout.splitlines()
    itself, forks = end.split()
    assert forks == "2"
    assert fault.endswith(f"found an import that ended the process with exit code 0 at {first}")
    copy, imported = mark.read_text().split()
    assert copy != itself == imported


@on_linux
@pytest.mark.parametrize("name", slow_but(["SIGINT"], ["SIGINT", "SIGTERM", "SIGKILL"]))
def test_a_signal_ends_an_import_in_compiled_code(
    name: str, command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Also the copy, which has Python's lock and runs in the same group."""
    number = getattr(signal, name)
    path, mark = tmp_path / "mine.py", tmp_path / "copy"
    path.write_text(
        f"import os, pathlib\npathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\n"
        "x = sum(range(10**12))\n"
    )
    process = command("audit", path, "--limit", 50, **ONE_THREAD)
    _wait_until(lambda: mark.exists() and mark.read_text() != "")
    assert int(mark.read_text()) != process.pid
    process.send_signal(number)
    err = process.communicate(timeout=40)[1]
    assert process.returncode == -number
    assert err == ("" if number == signal.SIGKILL else INTERRUPTED)
    _wait_until(lambda: not Path(f"/proc/{mark.read_text()}").exists())


@on_linux
@pytest.mark.parametrize("text", [text for text in ENDINGS if "import" in text])
def test_an_experiment_that_ends_the_process_is_a_line(
    text: str, command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    process = command("run", path, **ONE_THREAD)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err.endswith(
        "ratecheck: experiment file must import without error; found an import that "
        f"{ENDINGS[text]} at {path}\n"
    )


def _wait_until(happens: Callable[[], bool]) -> None:
    late = time.monotonic() + 40
    while not happens():
        assert time.monotonic() < late
        time.sleep(0.05)


@pytest.mark.parametrize("why", ["another system", "a second thread"])
def test_no_copy_is_made_where_it_is_not_safe(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "another system":
        monkeypatch.setattr(sys, "platform", "darwin")
        assert not rehearsal.is_possible()
        return
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert not rehearsal.is_possible()
    finally:
        over.set()
        thread.join()


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


@pytest.mark.parametrize(
    "words",
    slow_but(
        ["list"],
        ["list", "list mine", "show mine", "show mine.m", "audit mine.m mine.m --list"],
    ),
)
@pytest.mark.parametrize("fault", ["1 / 0", "while True: pass"])
def test_a_command_imports_a_file_that_fails_once_and_says_so_once(
    words: str,
    fault: str,
    ratecheck: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ratecheck]\nfiles = ['bad.py', 'good.py']\n")
    (tmp_path / "good.py").write_text(
        "import ratecheck as rc\nPAPER = rc.Paper('mine', 'mine')\n"
        "@PAPER.upper('m', ref='Lemma 1', on={'x': rc.interval()})\n"
        "def m(x):\n  'Stated.'\n  return x, x\n"
    )
    bad, mark = tmp_path / "bad.py", tmp_path / "mark"
    bad.write_text(f"with open({str(mark)!r}, 'a') as file: file.write('x')\n{fault}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rehearsal, "is_possible", lambda: False)
    with user_file.importing_within(LIMIT):
        for number in (1, 2):  # another command reads it anew
            said = ratecheck(*words.split(), "--out", tmp_path / "out")
            assert said.code == 0, said.err
            assert said.err.count("ratecheck: project file must import without error") == 1
            assert mark.read_text() == "x" * number
    bad.write_text("x = 1\n")
    assert ratecheck(*words.split(), "--out", tmp_path / "out").err == ""


def test_outside_of_a_command_a_file_that_failed_is_imported_again(tmp_path: Path) -> None:
    path, beside = tmp_path / "mine.py", tmp_path / "beside_of_it.py"
    path.write_text("import beside_of_it\n")
    with pytest.raises(InputError):
        user_file.load(path, "claims file")
    beside.write_text("x = 1\n")
    assert user_file.load(path, "claims file").beside_of_it.x == 1
