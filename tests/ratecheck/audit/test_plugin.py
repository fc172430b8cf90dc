"""Claims as tests: what the plugin collects, what it says of a failure, and what makes one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from latex2mathml.exceptions import DoubleSubscriptsError

import ratecheck as rc
from linsys import InputError
from linsys.linalg import is_precise
from ratecheck import Known, Options, check_claim, pytest_plugin
from ratecheck._conformance.claims import kept_ratios
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts.replay import replay_file
from tests._slow import slow_but
from tests.ratecheck.audit._waiting import Waiting, waiting

MINE = Path(__file__).parent / "files" / "mine.py"
ROOT = Path(__file__).parents[3]
FOUR = ("norm", "mass", "mass_corrected", "taste")
WRONG = '''
"""A section with a mistake, and a neighbour that is imported."""
from dataclasses import replace
import mine

MASS = replace(mine.mass, id="mine.wrong", expect="holds")
NORM = mine.norm
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's project: two sections and what a longer search found before."""
    root = tmp_path_factory.mktemp("project")
    (root / "sections").mkdir()
    (root / "results").mkdir()
    (root / "sections" / "mine.py").write_text(MINE.read_text())
    (root / "sections" / "wrong.py").write_text(WRONG)
    (root / "sections" / "_helper.py").write_text("1 / 0\n")
    kept = [{"id": "mine.norm", "verdict": "holds", "ratio": 1.0}]
    (root / "results" / "verdicts.json").write_text(json.dumps({"claims": kept}))
    return root


#: Of every run: without the other plugins that are installed, whose import takes as long as a test.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
_process: list[Waiting | None] = []


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    """One process for all runs that need no interpreter of their own."""
    with waiting(ENVIRONMENT) as one:
        _process[:] = [one]
        yield
        _process.clear()


def run_pytest(
    folder: Path, *options: str, cache: bool = False, flags: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    workers = "-n" in options
    arguments = ["--rootdir", str(folder), "-p", "ratecheck.pytest_plugin"]
    arguments += ["-p", "xdist"] * workers + ["-p", "no:cacheprovider"] * (not cache)
    arguments += options
    (one,) = _process
    if one is not None and not (workers or flags):
        return one.run(folder, arguments)
    return subprocess.run(
        [sys.executable, *flags, "-m", "pytest", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_claims_of_collected_files_are_tests(folder: Path) -> None:
    done = run_pytest(folder, "-v", "--ratecheck", "--ratecheck-seed=1", "sections")
    matches = re.findall(r"^(\S+::\S+) ([A-Z]+)", done.stdout, re.MULTILINE)
    assert dict(matches) == {
        "sections/mine.py::mine.norm": "PASSED",
        "sections/mine.py::mine.mass": "PASSED",
        "sections/mine.py::mine.mass_corrected": "PASSED",
        "sections/mine.py::mine.taste": "PASSED",
        "sections/wrong.py::mine.wrong": "FAILED",  # and of the other one no second test
    }
    told = done.stdout.partition("= FAILURES =")[2]
    assert "mine.wrong (my paper, Lemma 2) is expected to hold, is violated" in told
    assert "measured 0.7, bound 0.58, ratio 1.2069" in told
    assert '"instance": {"p": [0.3, 0.7]}' in told
    assert "Traceback" not in told
    assert "_conformance" not in told


def test_results_lie_beside_the_folder_of_claims() -> None:
    beside = pytest_plugin._results_beside
    assert beside(Path("/paper/claims/mine.py")) == Path("/paper/results")
    assert beside(Path("/mine.py")) == Path("/results")  # the root has nothing above it


@pytest.mark.parametrize("kind", ["Fault", "InputError"])
def test_what_cannot_be_checked_is_told_in_a_line(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine.py").write_text(MINE.read_text())
    (tmp_path / "conftest.py").write_text(
        "from linsys import InputError\n"
        "from ratecheck._claims.space import Fault\n"
        "from ratecheck._conformance import claims\n"
        "def refuse(*arguments, **options):\n"
        f"    raise {kind}('a side must be a number;\\n  found a word')\n"
        "claims.check_claim = refuse\n"
    )
    done = run_pytest(tmp_path, "mine.py", "-k", "norm")
    told = done.stdout.partition("= FAILURES =")[2].splitlines()[2:3]
    assert told == ["mine.norm cannot be checked: a side must be a number; found a word"]
    assert "refuse" not in done.stdout


def test_the_line_to_replay_names_the_file_of_a_changed_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # whose files are run without being given
    (tmp_path / "half.py").write_text(
        "import ratecheck as rc\n"
        "@rc.Paper('mine', 'mine').upper('half', ref='1', on={'x': rc.interval()})\n"
        "def half(x, most=1):\n"
        "    'At most one.'\n"
        "    return x, most\n"
    )
    for text in (
        "QUARTER = half.changed('quarter', {'most': 0.25}, text='t', expect='holds')\n",
        "half.changed('quarter', {'most': 0.25}, text='t', expect='holds')\n",
        "QUARTER = replace(half.changed('third', {'most': 0.25}, text='t'), id='mine.quarter', "
        "expect='holds')\n",
    ):
        path = tmp_path / "other.py"
        path.write_text(f"from dataclasses import replace\nfrom half import half\n{text}")
        done = run_pytest(tmp_path, "--ratecheck", "other.py", "-k", "quarter")
        line = next(one for one in done.stdout.splitlines() if one.startswith('{"id"'))
        assert json.loads(line)["file"] == str(path)
        (tmp_path / "again.json").write_text(line)
        assert replay_file(tmp_path / "again.json").ok


def test_claims_of_a_loop_are_tests(tmp_path: Path) -> None:
    text = """import ratecheck as rc
def make(k):
    @rc.Paper("mine", "mine").upper(f"power_{k}", ref="Lemma", on={"x": rc.interval()})
    def power(x):
        "x^k is at most one."
        return x**k, 1
for k in (1, 2):
    make(k)
"""
    (tmp_path / "mine.py").write_text(text)
    done = run_pytest(tmp_path, "--ratecheck", "-v", "mine.py")
    assert re.findall(r"mine\.py::(\S+) PASSED", done.stdout) == ["mine.power_1", "mine.power_2"]
    (tmp_path / "mine.py").write_text(text.replace("power_{k}", "power"))
    done = run_pytest(tmp_path, "--ratecheck", "mine.py")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert f"mine.power twice in {tmp_path / 'mine.py'}:3: a loop or a function" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_claims_that_are_passed_over_are_mentioned(tmp_path: Path, workers: Any) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "mine.py").write_text(MINE.read_text())
    (tmp_path / "claims" / "other.py").write_text("import ratecheck\n1 / 0\n")
    done = run_pytest(tmp_path, *workers)
    assert "no tests ran" in done.stdout
    said = "not judged: claims of 1 file (claims/mine.py); give pytest the path, or name it in "
    assert said + "`files` of [tool.ratecheck] in pyproject.toml" in done.stdout.splitlines()
    (tmp_path / "pytest.ini").write_text("[pytest]\nratecheck_claims = elsewhere/*.py\n")
    assert "not judged" not in run_pytest(tmp_path, *workers).stdout


def test_files_that_make_claims_are_imported_and_no_others(tmp_path: Path) -> None:
    for name, text in {
        "claims/mine.py": MINE.read_text(),
        "claims/made.py": "import ratecheck as rc\n"
        'TASTE = rc.NotChecked(id="made.taste", source="p", text="t", note="why")\n',
        "claims/program.py": "import ratecheck as rc\n1 / 0\n",
        "claims/_mine.py": MINE.read_text() + "1 / 0\n",
        "test_mine.py": MINE.read_text().replace('"mine.', '"tests.'),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    given = [f"claims/mine.py::mine.{name}" for name in FOUR] + ["claims/made.py::made.taste"]
    imported_anyway = [f"test_mine.py::tests.{name}" for name in FOUR]
    code, names = collected(tmp_path, "claims")
    assert (code, sorted(names)) == (0, sorted(given))
    assert collected(tmp_path) == (0, imported_anyway)
    assert sorted(collected(tmp_path, ".")[1]) == sorted(given + imported_anyway)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = claims\n")
    assert sorted(collected(tmp_path)[1]) == sorted(given)
    assert collected(tmp_path, "--ratecheck", "claims")[0] == 2  # all files that are given


HALF = """import ratecheck as rc
PAPER = rc.Paper("mine", "mine")
@PAPER.upper("half", ref="1", on={"x": rc.interval()})
def half(x, most=1):
    "At most one."
    return x, most
"""
THIRD = "def third(x):\n    'At most one third.'\n    return x, 1 / 3\n"
#: Files beside the one above, and what they make.
FORMS = {
    "a call": '@rc.Paper("mine", "My paper").upper("third", ref="2", on={"x": rc.interval()})\n',
    "a neighbour": "third = half.changed('third', {'most': 0.3}, text='t')\n",
    "a loop": "for most in (0.3,):\n    half.changed('third', {'most': most}, text='t')\n",
    "a name": 'third = PAPER.upper("third", ref="2", on={"x": rc.interval()})\n@third\n',
    "a copy": "from dataclasses import replace\nthird = replace(half, id='mine.third')\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_claim_is_seen_in_the_text(tmp_path: Path, form: str) -> None:
    text = FORMS[form]
    beside = "import half as h\nfrom half import (\n    PAPER,\n    half,\n)\n"
    if "rc." in text:
        beside = f"import ratecheck as rc\n{beside}"
    (tmp_path / "half.py").write_text(HALF)
    (tmp_path / "third.py").write_text(beside + text + (THIRD if "@" in text else ""))
    (tmp_path / "program.py").write_text(f"{beside}print('A'.lower(), [].count(1))\n1 / 0\n")
    expected = ["half.py::mine.half", "third.py::mine.third"]
    assert collected(tmp_path, ".") == (0, expected)


def test_what_no_text_shows_is_judged_by_its_path_and_counted_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(
        "import ratecheck as rc\n"
        "def made(name):\n"
        "    def declare(function):\n"
        "        space = {'x': rc.interval()}\n"
        "        return rc.Paper('mine', 'm').upper(name, ref='1', on=space)(function)\n"
        "    return declare\n"
    )
    (tmp_path / "claims").mkdir()
    text = f"# of ratecheck\nfrom helper import made\n@made('third')\n{THIRD}"
    (tmp_path / "claims" / "third.py").write_text(text)
    (tmp_path / "claims" / "plain.py").write_text("text = 'A'.lower()\n")
    (tmp_path / "claims" / "test_it.py").write_text("import ratecheck\n")
    assert collected(tmp_path, "claims/third.py") == (0, ["claims/third.py::mine.third"])
    said = (
        "not imported: 1 file (claims/third.py), whose text mentions ratecheck and makes no "
        "claim; give pytest the path, or --ratecheck"
    )
    assert said in run_pytest(tmp_path, "claims").stdout.splitlines()
    assert said in run_pytest(tmp_path, "-n", "2", "claims").stdout.splitlines()
    assert collected(tmp_path, "claims/plain.py") == (5, [])


def test_the_option_of_the_limit_is_named(tmp_path: Path) -> None:
    slow = HALF.replace("    return", "    sum(range(300_000))\n    return")
    (tmp_path / "slow.py").write_text(slow)
    done = run_pytest(tmp_path, "--ratecheck-limit=0.5", "slow.py")
    assert "a larger limit (--ratecheck-limit) allows more" in done.stdout
    said = audited(tmp_path, "slow.py", "--limit=0.5")
    assert "a larger limit (--limit) allows more" in " ".join(said.split())


def test_whole_numbers_of_an_instance_are_written_as_such(tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(
        "import ratecheck as rc\n"
        "ON = {'k': rc.whole_numbers(low=1, high=9), 'x': rc.interval(low=1, high=1)}\n"
        "@rc.Paper('mine', 'mine').upper('k', ref='1', on=ON)\n"
        "def k(k, x):\n"
        "    'Less than one.'\n"
        "    return k, x / 2\n"
    )
    said = audited(tmp_path, "whole.py").splitlines()
    assert {"  k = 1", "  x = 1.0"} <= set(said), said


def test_an_argument_that_a_space_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match=r"found field \(did you mean `fields`\?\)"):
        rc.Space(field={"x": rc.interval()})  # type: ignore[call-arg]


def audited(folder: Path, *options: str) -> str:
    """What the command says."""
    line = [sys.executable, "-m", "ratecheck", "audit", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        line, cwd=folder, env=env, capture_output=True, text=True, check=False
    ).stdout


def test_two_files_with_one_id_are_refused(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(HALF)
    (tmp_path / "other.py").write_text(HALF)
    (tmp_path / "same.py").write_text("import ratecheck\nfrom half import half\nclaim = (half,)\n")
    assert collected(tmp_path, "half.py", "same.py")[0] == 0
    for wrong in (HALF, "from half import half\nhalf.changed('half', {'most': 2}, text='t')\n"):
        (tmp_path / "other.py").write_text(wrong)
        done = run_pytest(tmp_path, ".")
        assert done.returncode == pytest.ExitCode.INTERRUPTED
        assert "ids of claims must be distinct; found mine.half in" in done.stdout
        assert re.search(r"\b1 error in", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("effort", "huge", "must be one of quick, normal, hunt"),
        ("seed", "-1", "must be a whole number of at least 0"),
        ("limit", "-1", "must be a positive number of seconds"),
        ("limit", "soon", "must be a positive number of seconds"),
    ],
)
def test_an_option_that_nothing_can_be_judged_with_is_refused(
    tmp_path: Path, name: str, value: str, expected: str
) -> None:
    (tmp_path / "mine.py").write_text(MINE.read_text())
    given = run_pytest(tmp_path, "--ratecheck", f"--ratecheck-{name}={value}", "mine.py")
    said = f"ERROR: `--ratecheck-{name}` {expected}; found '{value}'"
    assert (given.returncode, given.stderr.strip()) == (pytest.ExitCode.USAGE_ERROR, said)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nratecheck_{name} = {value}\n")
    kept = run_pytest(tmp_path, "--ratecheck", "mine.py")
    assert kept.stderr.strip() == said.replace("--ratecheck-", "ratecheck_")


@pytest.mark.slow
def test_nothing_is_collected_that_was_not_asked_for(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nratecheck_claims = sections/m*.py\n")
    named = run_pytest(folder, "-q", "--collect-only")
    (folder / "pytest.ini").write_text("[pytest]\n")
    plain = run_pytest(folder, "-q", "--collect-only")
    assert [line for line in named.stdout.splitlines() if "::" in line] == [
        f"sections/mine.py::mine.{name}" for name in ("norm", "mass", "mass_corrected", "taste")
    ]
    assert "no tests collected" in plain.stdout


def collected(folder: Path, *options: str) -> tuple[int, list[str]]:
    """Exit code and names of the tests that there would be."""
    done = run_pytest(folder, "-q", "--collect-only", *options)
    return done.returncode, [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with claims, a test, and programs that nothing should import."""
    files = {
        "pytest.ini": "[pytest]\n",
        "train.py": "1 / 0\n",
        "paper/claims/lemmas.py": MINE.read_text(),
        "notes/others.py": MINE.read_text().replace('"mine.', '"notes.'),
        "tests/test_one.py": "def test_one():\n    pass\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


OF_PAPER = [f"paper/claims/lemmas.py::mine.{name}" for name in FOUR]
OF_NOTES = [f"notes/others.py::notes.{name}" for name in FOUR]
ONE = ["tests/test_one.py::test_one"]


@pytest.mark.slow
def test_without_a_path_files_that_mention_ratecheck_are_imported(project: Path) -> None:
    assert collected(project, "--ratecheck") == (0, OF_NOTES + OF_PAPER + ONE)
    code, _ = collected(project, "--ratecheck", ".")
    assert code == 2  # who names a folder means all of its files


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_without_a_path_those_of_the_project_are_the_ones(project: Path, workers: Any) -> None:
    (project / "pyproject.toml").write_text('[tool.ratecheck]\nfiles = ["paper"]\n')
    if workers:
        done = run_pytest(project, "-q", "--ratecheck", *workers)
        assert done.stdout.splitlines()[-1].startswith("5 passed"), done.stdout
        return
    assert collected(project, "--ratecheck") == (0, OF_PAPER + ONE)
    (project / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    assert collected(project, "--ratecheck") == (0, ONE + OF_PAPER)
    assert collected(project) == (0, ONE)  # who says where tests are means these folders alone
    (project / "pytest.ini").write_text("[pytest]\n")
    assert collected(project) == (0, OF_PAPER + ONE)
    assert collected(project, "notes") == (0, OF_NOTES)
    assert collected(project, "--ratecheck", "notes") == (0, OF_NOTES)
    (project / "pyproject.toml").write_text("[tool.ratecheck]\nfiles = 1\n")
    done = run_pytest(project, "--ratecheck")
    assert done.returncode == 4
    assert "`files` in" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_claims_that_a_file_imports_are_tests_of_their_own_file(folder: Path) -> None:
    done = run_pytest(folder, "-q", "--collect-only", "--ratecheck", "sections/wrong.py")
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert collected == ["sections/wrong.py::mine.wrong"]


@pytest.mark.slow
def test_a_claim_called_as_those_of_an_installed_paper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.read_text().replace('"mine', '"affpcl'))
    done = run_pytest(tmp_path, "mine.py")
    assert "claim affpcl." in done.stdout
    assert "must have an id that no installed paper has; found that of experiments" in done.stdout
    assert done.returncode == 2


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "mine.py").write_text("import ratecheck as rc\nrc.Paper(\n")
    for place in ("claims/mine.py", "claims"):
        done = run_pytest(tmp_path, "--ratecheck", place)
        assert "SyntaxError: '(' was never closed" in done.stdout
        assert re.search(r"\b1 error in", done.stdout), done.stdout


def test_a_long_compilation_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.4, 0.5, 10.0, 10.4, 11.0, 11.5])
    monkeypatch.setattr(pytest_plugin.time, "process_time", lambda: next(clock))
    said: list[str] = []
    listener = pytest_plugin._Compiling(lambda: said.append("compiling"))
    listener.begins()  # at 0.0
    listener.begins()  # within it, at 0.4
    listener.ends()
    listener.ends()  # at 0.5: so far half a second, which the next ones add to
    listener.begins()  # at 10.0
    listener.begins()  # at 10.4
    assert said == []
    listener.begins()  # at 11.0
    assert said == ["compiling"]
    listener.begins()
    assert said == ["compiling"]


@pytest.mark.slow
def test_a_terminal_is_told_of_compilation(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    (tmp_path / "mine.py").write_text("""
import numpy as np
import ratecheck as rc
PAPER = rc.Paper("mine", "my paper")

@PAPER.upper("half", ref="1", on={"C": rc.contraction("d", "d"), "x": rc.ball("d")})
def half(C, x):
    "At most twice as long."
    A = np.eye(len(x)) + C / 2
    return rc.linalg.norm(rc.linalg.solve(A, x)), 2 * rc.linalg.norm(x)
""")

    def told() -> bool:
        ours, theirs = pty.openpty()
        line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "mine.py"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        environment.pop("NUMBA_CACHE_DIR", None)
        with subprocess.Popen(
            line, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment
        ) as process:
            os.close(theirs)
            seen = b""
            while True:
                try:
                    part = os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                seen += part
        assert process.returncode == 0, seen.decode()
        return b"(compiling, the first time)" in seen

    assert told()
    assert not told()


def test_claims_that_take_long_can_be_marked(folder: Path) -> None:
    lines = ("[pytest]", "ratecheck_slow = mine.mass*", "markers =\n    slow: takes long")
    (folder / "pytest.ini").write_text("\n".join(lines))
    quick = run_pytest(folder, "-q", "--collect-only", "--ratecheck", "-m", "not slow", "sections")
    assert "mine.norm" in quick.stdout
    assert "mine.mass" not in quick.stdout
    slow = run_pytest(folder, "-q", "--collect-only", "--ratecheck", "-m", "slow", "sections")
    assert "mine.mass_corrected" in slow.stdout
    assert "mine.norm" not in slow.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_what_passed_is_judged_again_when_it_changes(tmp_path: Path, workers: Any) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    mine, wrong, helper = (tmp_path / name for name in ("mine.py", "wrong.py", "helper.py"))
    mine.write_text(
        MINE.read_text().replace("import ratecheck as rc", "import ratecheck as rc\nimport helper")
    )
    wrong.write_text(WRONG)
    helper.write_text("one = 1\n")

    def said(*options: str) -> tuple[str, str]:
        options = "-q", "--ratecheck", *workers, *options, "."
        done = run_pytest(tmp_path, *options, cache=True).stdout
        counts = re.search(r"(\d+ failed, )?(\d+) passed", done)
        assert counts is not None, done
        unchanged = re.search(r"(\d+) claims have not changed since the last pass", done)
        return counts[0], unchanged[1] if unchanged else "0"

    first = said()
    assert first == ("1 failed, 4 passed", "0")  # what fails is judged each time
    assert said() == ("1 failed, 4 passed", "4")
    assert said("--ratecheck-seed=1") == ("1 failed, 4 passed", "0")
    helper.write_text("one = 2\n")
    assert said() == ("1 failed, 4 passed", "0")
    assert said("--cache-clear") == ("1 failed, 4 passed", "0")
    mine.write_text(mine.read_text() + "\n# another line\n")
    assert said() == ("1 failed, 4 passed", "0")
    assert said() == ("1 failed, 4 passed", "4")


@pytest.mark.parametrize("in_package", slow_but([True], [False, True]))
def test_a_file_imports_what_it_imports_in_the_command(tmp_path: Path, in_package: bool) -> None:
    project, claims = tmp_path / "project", tmp_path / "project" / "claims"
    for name, text in {
        "pyproject.toml": "",
        "mine_values/one.py": "ONE = 1\n",
        "claims/beside.py": "TWO = 2\n",
        "claims/mine.py": MINE.read_text() + "from mine_values.one import ONE\n"
        "from beside import TWO\nfrom here import THREE\n",
        "../elsewhere/here.py": "THREE = 3\n",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    if in_package:
        (claims / "__init__.py").touch()
    elsewhere = tmp_path / "elsewhere"
    # the script `pytest`, unlike `python -m pytest`, does not put the current folder on the path
    done = run_pytest(elsewhere, "-q", str(claims), flags=("-P",))
    assert "4 passed" in done.stdout, done.stdout
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    audit = [sys.executable, "-P", "-m", "ratecheck", "audit", str(claims / "mine.py"), "--list"]
    done = subprocess.run(audit, cwd=elsewhere, env=env, capture_output=True, text=True, check=True)
    assert "mine.norm" in done.stdout


def test_the_plugin_costs_nothing_before_it_is_used() -> None:
    code = "import sys, ratecheck.pytest_plugin as _; print({'numpy', 'linsys'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# What makes a claim fail, one mistake at a time.

NUMBERS = rc.Space(fields={"x": rc.interval(), "y": rc.interval(low=0.1)}, sizes={})


def claim(measure: Callable[..., Any], **options: Any) -> rc.Claim:
    given = {"id": "my.claim", "source": "p", "text": "t", "kind": "upper", "space": NUMBERS}
    return rc.Claim(**{**given, "measure": measure, **options})


def rate(lo: float, hi: float, **options: Any) -> rc.RateClaim:
    regimes = [rc.Regime("late", "t", predicted=-1.0, measured=(lo + hi) / 2, lo=lo, hi=hi)]
    return rc.RateClaim(id="my.rate", source="p", text="t", regimes=lambda: regimes, **options)


def half(x: Any, y: Any) -> Any:
    """At most three quarters of its bound."""
    return 3 * x * y, 4 * y


def only_in_float64(x: Any, y: Any) -> Any:
    """High precision finds another number, too small to matter for the verdict."""
    return x / 2, y * 0 + (1 if is_precise(np.asarray(y)) else 2)


RIGHT: dict[str, Any] = {
    "a bound": claim(half, latex=r"\tfrac34 xy\le y"),
    "lists": claim(lambda x, y: ([3 * x * y, x], (4 * y, 2 * x))),
    "lists of a lower bound": claim(lambda x, y: ([4 * y, y], (3 * x * y, y / 2)), kind="lower"),
    "lists of zeros": claim(lambda x, y: ([-x * y, -y], [0 * x, 0 * x])),
    "a lower bound": claim(lambda x, y: (4 * y, 3 * x * y), kind="lower"),
    "a sign": claim(lambda x, y: (-x * y, 0 * x)),
    "an identity": claim(lambda x, y: (x * (x + y), x**2 + x * y), kind="identity"),
    "a false one": claim(lambda x, y: (x, y), expect="violated"),
    "a rate": rate(-1.01, -0.99),
    "a faster rate": rate(-2.01, -1.99, expect="faster than stated"),
    "a taste": rc.NotChecked(id="my.taste", source="p", text="t", note="why"),
}
MISTAKES: dict[str, tuple[Any, str]] = {
    "no statement": (claim(half, text=""), "my.claim must say what it states"),
    "no source": (claim(half, source=""), "my.claim must say where it is from"),
    "another verdict": (claim(lambda x, y: (x, y)), "is expected to hold, is violated: t"),
    "true after all": (
        claim(half, expect="violated", note="why"),
        r"is expected to be violated, holds on [\d,]+ instances: t",
    ),
    "float64 alone": (claim(only_in_float64), "bound is 2 in float64 and 1 in high precision"),
    "nothing stated": (claim(lambda x, y: (0 * x, 0 * y)), "a little too strong is not refused"),
    "nothing equal": (
        claim(lambda x, y: (0 * x, 0 * y), kind="identity"),
        "a little too strong is not refused",
    ),
    "a wide interval": (rate(-1.5, -0.5), "is expected to be consistent, is not decided"),
    "another exponent": (rate(-0.5, -0.4), "is expected to be consistent, is violated"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str) -> None:
    check_claim(RIGHT[name], Options(seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_one_mistake_is_enough_to_fail(name: str) -> None:
    entry, said = MISTAKES[name]
    with pytest.raises(AssertionError, match=said):
        check_claim(entry)


def test_a_claim_is_checked_by_its_id_as_well() -> None:
    name = "affpcl.sec52_rho"
    check_claim(name)
    with pytest.raises(AssertionError, match=rf"{name}: .* known is 1\.2"):
        check_claim(name, known=Known(1.2))
    with pytest.raises(InputError, match=r"`claim` must be a claim or an id; found 7"):
        check_claim(7)  # type: ignore[arg-type]


def test_latex_must_be_readable() -> None:
    with pytest.raises(DoubleSubscriptsError):
        check_claim(claim(half, latex="x_a_b"))


def test_what_corrects_a_false_claim_must_be_true() -> None:
    false = claim(lambda x, y: (x, y), expect="violated", note="why", corrected="my.better")
    better = claim(half, id="my.better")
    check_claim(false, others={"my.better": better})
    with pytest.raises(AssertionError, match=r"my\.better must correct my\.claim"):
        check_claim(false, others={"my.better": replace(better, expect="violated")})


def test_a_bound_stays_as_tight_as_it_is_known_to_be() -> None:
    check_claim(claim(half), known=Known(0.75))
    check_claim(claim(half), known=Known(0.8))
    with pytest.raises(AssertionError, match=r"has the ratio 0\.75, known is 0\.9") as raised:
        check_claim(claim(half), known=Known(0.9))
    lines = str(raised.value).splitlines()
    assert lines[1] == "the statement (p): t"
    assert lines[2].startswith("measured ")
    assert json.loads(lines[-1]).keys() == {"x", "y"}
    with pytest.raises(AssertionError, match=r"has the ratio 0\.75, known is 0\.5"):
        check_claim(claim(half), known=Known(0.5))


@pytest.mark.slow
def test_an_instance_that_no_search_finds_can_be_kept(tmp_path: Path) -> None:
    hidden = claim(lambda x, y: (1 + 3 * (abs(x - 0.123456) < 1e-9), 4))
    near = {"x": 0.123456, "y": 0.5}
    kept = [{"id": "my.claim", "verdict": "holds", "ratio": 1.0}]
    (tmp_path / "verdicts.json").write_text(json.dumps({"claims": kept}))
    with pytest.raises(AssertionError, match=r"ratio 0\.25, known is 1\.0"):
        check_claim(hidden, known=kept_ratios(tmp_path)["my.claim"])
    (tmp_path / "near.json").write_text(json.dumps({"my.claim": {"ratio": 1.0, "instance": near}}))
    check_claim(hidden, known=kept_ratios(tmp_path)["my.claim"])
    with pytest.raises(AssertionError, match=r"known is an instance of 1\.0"):
        check_claim(replace(hidden, measure=lambda x, y: (1, 4)), known=Known(1.0, 1.0, near))
    check_claim(hidden, known=Known(1.0, 0.25))
    with pytest.raises(AssertionError, match=r"known is 0\.3"):
        check_claim(hidden, known=Known(1.0, 0.3))
    assert kept_ratios(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("paper", ["affpcl", "firm", "fslora", "ood", "psl"])
def test_every_kept_instance_is_of_a_claim(paper: str) -> None:
    items = {item.id: item for item in find_claims([paper])}
    package = next(iter(items.values())).origin.partition(".claims")[0]
    path = ROOT.joinpath(*package.split("."), "results", "near.json")
    for name, kept in json.loads(path.read_text()).items() if path.is_file() else ():
        entry = items[name].entry
        assert isinstance(entry, rc.Claim)
        assert set(kept.get("instance", entry.space.fields)) == set(entry.space.fields)
