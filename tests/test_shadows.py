"""The command as it is installed, in a folder whose own packages have the names of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ratecheck._packages import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "tests" / "ratecheck" / "extra" / "toy" / "figures" / "picture.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLAIM = """
import experiments.mine, neighbour
from ratecheck import claim, simplex

@claim(id="mine.mass", source="Lemma 1", kind="upper", text="p <= 1", fields={"p": simplex("k")})
def mass(instance):
    return instance.p.max(), 1

assert experiments.mine.WHOSE == neighbour.WHOSE == "theirs"
"""


@dataclass(frozen=True)
class Installed:
    """An environment that has ratecheck."""

    python: Path
    script: Path
    packages: Path

    def mutate(self, file: str, line: str, other: str) -> None:
        """Put another line into a file of ours."""
        path = self.packages / file
        text = path.read_text()
        assert text.count(line) == 1
        path.write_text(text.replace(line, other))


def installed(folder: Path, wheel: Path | None) -> Installed:
    """An environment with this wheel, or with our sources as ``pip install -e`` has them."""
    venv.create(folder, symlinks=os.name != "nt")
    places = {"base": str(folder), "platbase": str(folder)}
    packages, scripts = (
        Path(sysconfig.get_path(name, "venv", places)) for name in ("purelib", "scripts")
    )
    lines = [str(Path(np.__file__).parents[1])]  # the libraries; what is installed there is not run
    if wheel is None:
        lines.append(str(ROOT))
    else:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    (packages / "libraries.pth").write_text("\n".join(lines))
    module, _, name = PROJECT["project"]["scripts"]["ratecheck"].partition(":")
    script = scripts / "ratecheck"
    script.write_text(f"from {module} import {name}\nif __name__ == '__main__':\n    {name}()\n")
    return Installed(scripts / Path(sys.executable).name, script, packages)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A researcher's folder, with packages of the names that are ours."""
    folder = tmp_path / "folder"
    for name in (*PACKAGES, "experiments/firm"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    write_modules(folder)
    (folder / "my_paper.py").write_text(CLAIM)
    (folder / "picture.py").write_text(
        PICTURE.read_text().replace("import os", "import os\nimport experiments.mine")
    )
    return folder


def write_modules(folder: Path) -> None:
    """The modules that the user's claims import: one with a name of ours, one beside the file."""
    for name in ("experiments/mine.py", "neighbour.py"):
        (folder / name).write_text("WHOSE = 'theirs'")


def fails(command: list[object], folder: Path, path: str = "") -> str:
    """What is wrong with a command that is to succeed in the folder; empty if nothing is."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command), "--out", "results"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment | ({"PYTHONPATH": path} if path else {}),
    )
    return "" if (done.returncode, done.stderr) == (0, "") else f"{done.returncode} {done.stderr}"


HOOK = 'module.__dict__["__builtins__"] = self.modules.builtins()'
OUTER = "None if path else find_ours(name)"
LIST = ("audit", "my_paper.py", "--list")
AUDIT = ("audit", "my_paper.py", "--threads", 2)
OWN = ("audit", "ratecheck.py", "--threads", 2)
OURS = ("audit", "firm.eq18_sharper", "--list")
RUN = ("run", "picture.py", "--threads", 2, "--no-figures")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_command_and_its_workers_have_our_packages(
    kind: str, folder: Path, tmp_path: Path, wheel_file: Path
) -> None:
    ours = installed(tmp_path / "environment", wheel_file if kind == "wheel" else None)
    script, module = [ours.python, ours.script], [ours.python, "-m", "ratecheck"]
    assert fails([*script, *AUDIT], folder) == ""
    assert fails([*script, *RUN], folder, path=".") == ""
    shutil.rmtree(folder / "results")
    # what else is in the folder comes before what is installed, as for any program
    (ours.packages / "bounds.py").write_text("raise ImportError('installed')")
    (folder / "bounds.py").write_text("")
    (folder / "my_paper.py").write_text(f"import bounds{CLAIM}")
    assert fails([*module, *AUDIT], folder, path=".") == ""
    assert fails([*module, *RUN], folder) == ""


PROCESS = """
import experiments.mine, mgda.mine
import ratecheck as rc
from my_paper import mass
assert experiments.mine.WHOSE == mgda.mine.WHOSE == "theirs"
rc.assert_holds(mass)
rc.assert_holds("firm.eq18_sharper")
import experiments.firm.paper, mgda.firm
"""


TEST = """
import experiments.mine, tests
import ratecheck as rc
from my_paper import mass

def test_mass():
    assert experiments.mine.WHOSE == "theirs"
    rc.assert_holds(mass)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
@pytest.mark.parametrize("init", [True, False], ids=["with init", "without init"])
def test_a_process_of_the_user_s_has_the_user_s_packages_and_judges_the_user_s_claims(
    kind: str, init: bool, tmp_path: Path, wheel_file: Path
) -> None:
    """As in pytest and notebooks, where the current folder comes first: modules of both."""
    ours = installed(tmp_path / "environment", wheel_file if kind == "wheel" else None)
    folder = tmp_path / "folder"
    for name in ("experiments", "mgda", "tests"):
        (folder / name).mkdir(parents=True)
        if init:
            (folder / name / "__init__.py").touch()
        (folder / name / "mine.py").write_text("WHOSE = 'theirs'")
    write_modules(folder)
    (folder / "my_paper.py").write_text(CLAIM)
    (folder / "experiments" / "firm").mkdir()  # of results
    process = {"capture_output": True, "text": True, "check": False, "cwd": folder}
    done = subprocess.run([ours.python, "-c", PROCESS], **process)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (folder / "tests" / "test_mine.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")  # not that of a folder above
    script = ours.script.with_name("pytest")
    script.write_text("import pytest\nraise SystemExit(pytest.main())")
    # pytest itself puts the folder above packages on the path, of other files their own folder
    found = [] if init else ["-o", f"pythonpath={folder}"]
    for command in ([script, *found], ["-m", "pytest"]):
        done = subprocess.run(
            [ours.python, *command, "-q", "-p", "no:cacheprovider", "tests"], **process
        )
        assert "1 passed" in done.stdout, done.stdout + done.stderr
    if kind == "wheel" and init:
        (folder / "experiments" / "firm").rmdir()
        ours.mutate("ratecheck/_fallback.py", "sys.meta_path.insert(0, _OursBeside())", "")
        done = subprocess.run([ours.python, "-c", PROCESS], **process)
        line = "paper firm must be found as package experiments.firm; found experiments in "
        assert line + str(folder / "experiments") in done.stderr


NAMED = "import ratecheck as rc; rc.assert_holds('firm.eq18_sharper')"


def test_a_paper_of_the_user_s_in_the_place_of_ours_is_named_in_a_line(tmp_path: Path) -> None:
    theirs = tmp_path / "experiments" / "firm"
    theirs.mkdir(parents=True)
    process = {"capture_output": True, "text": True, "check": False, "cwd": tmp_path}
    (tmp_path / "experiments" / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", NAMED], **process)
    assert (done.returncode, done.stderr) == (0, "")
    (theirs / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", NAMED], **process)
    line = f"must be found as package experiments.firm; found experiments.firm in {theirs}:"
    assert line in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_file_called_as_the_command_is_not_taken_for_it(
    kind: str, folder: Path, tmp_path: Path, wheel_file: Path
) -> None:
    ours = installed(tmp_path / "environment", wheel_file if kind == "wheel" else None)
    (folder / "ratecheck.py").write_text("raise SystemExit('of the folder')")
    (folder / "random.py").write_text("raise SystemExit('of the folder')")
    assert fails([ours.python, ours.script, *AUDIT], folder) == ""
    assert fails([ours.python, ours.script, *RUN], folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "other", "arguments", "path"),
    [
        ("ratecheck/_packages.py", "sys.meta_path.insert(0, _OurPackages())", "", LIST, "."),
        ("ratecheck/_processes/pool.py", "preload([FIRST, ", "preload([", AUDIT, "."),
        ("ratecheck/_processes/pool.py", "preload([FIRST, ", "preload([", RUN, "."),
        ("ratecheck/_user_modules.py", HOOK, "pass", LIST, ""),
        ("ratecheck/_user_modules.py", HOOK, "pass", RUN, ""),
        ("ratecheck/_packages.py", "find_ours(name)", OUTER, OURS, "."),
        ("ratecheck/cli.py", 'os.environ["PYTHONSAFEPATH"] = "1"', "", OWN, ""),
    ],
    ids=[
        "command",
        "audit",
        "run",
        "a claim's imports",
        "a figure's imports",
        "inside",
        "own name",
    ],
)
def test_without_the_finder_they_would_have_the_folder_s(
    file: str,
    line: str,
    other: str,
    arguments: tuple[object, ...],
    path: str,
    folder: Path,
    tmp_path: Path,
    wheel_file: Path,
) -> None:
    ours = installed(tmp_path / "environment", wheel_file)
    command = [ours.python, ours.script, *arguments]
    if arguments == OWN:
        shutil.copy(folder / "my_paper.py", folder / "ratecheck.py")
    assert fails(command, folder, path) == ""
    shutil.rmtree(folder / "results", ignore_errors=True)
    ours.mutate(file, line, other)
    assert fails(command, folder, path) != ""


def test_a_stranger_that_is_there_already_is_named_in_a_line(
    folder: Path, tmp_path: Path, wheel_file: Path
) -> None:
    ours = installed(tmp_path / "environment", wheel_file)
    code = "import experiments; from ratecheck.cli import main; main()"
    done = subprocess.run(
        [ours.python, "-c", code, "version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    expected, found = (
        place / "experiments" / "__init__.py" for place in (ours.packages, folder.resolve())
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ratecheck: package experiments must be {expected}; "
        f"found {found}, which was imported before\n"
    )


def test_all_packages_of_the_wheel_are_found_beside() -> None:
    built = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(built) == sorted((*PACKAGES, "ratecheck"))
