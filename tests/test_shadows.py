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

import nbformat
import numpy as np
import pytest

from ratecheck._packages import PACKAGES
from tests._notebooks import run

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
        text = "" if "experiments" in name else "raise RuntimeError('nobody imports this')"
        (folder / name / "__init__.py").write_text(text)
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
INNER = "return _run_later(find_ours(name))\n        if top"
OUTER = "return None if path else find_ours(name)\n        if top"
LIST = ("audit", "my_paper.py", "--list")
AUDIT = ("audit", "my_paper.py", "--threads", 2)
OWN = ("audit", "ratecheck.py", "--threads", 2)
OURS = ("audit", "firm.eq18_sharper", "--list")
RUN = ("run", "picture.py", "--threads", 2, "--no-figures")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
@pytest.mark.parametrize("init", [True, False], ids=["with init", "without init"])
def test_the_command_and_its_workers_have_our_packages(
    kind: str, init: bool, folder: Path, tmp_path: Path, wheel_file: Path
) -> None:
    for name in () if init else PACKAGES:
        (folder / name / "__init__.py").unlink()
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


#: A folder of each of these names; none of them shadows another one.
NAMES = (*PACKAGES, "tests")
#: What a user's program may say. Ours have a `simplex`, `validate`, `affpcl` and `firm`, too.
PROCESS = """
import sys
import ratecheck as rc
import experiments.mine, linsys.mine, lora_bridge.mine, mgda.mine, tests.mine
import experiments.affpcl, linsys.validate, mgda.simplex, lora_bridge.firm
from my_paper import mass
from experiments import mine
users = [experiments.affpcl, linsys.validate, lora_bridge.firm, mgda.simplex, mine, tests.mine]
users += [sys.modules[f"{name}.mine"] for name in ("experiments", "linsys", "lora_bridge", "mgda")]
assert {module.WHOSE for module in users} == {"theirs"}
rc.assert_holds(mass)
rc.assert_holds("firm.eq18_sharper")
rc.assert_holds("affpcl.d1a")
import experiments.firm.paper, linsys.linalg, mgda.firm
from linsys.linalg import norm
# what theirs lack is ours, the very modules that ours have
(item,) = rc.find_claims(["firm.eq18_sharper"])
assert experiments.firm.paper.PAPER.id == item.entry.paper == "firm"
assert norm.__module__ == "ratecheck._own.linsys.linalg"
assert sys.modules[norm.__module__] is linsys.linalg
experiment = rc.find_experiment("affpcl/fig1")
assert experiment.source.startswith("Figure 1")
"""


TEST = "def test_all():" + PROCESS.replace("\n", "\n    ")


def researchers(folder: Path, init: bool) -> Path:
    """A researcher's folder with packages of our names, some of whose modules are called alike."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        if init:
            (folder / name / "__init__.py").touch()
        (folder / name / "mine.py").write_text("WHOSE = 'theirs'")
    for module in ("experiments/affpcl", "linsys/validate", "lora_bridge/firm", "mgda/simplex"):
        (folder / f"{module}.py").write_text("WHOSE = 'theirs'")
    (folder / "neighbour.py").write_text("WHOSE = 'theirs'")
    (folder / "my_paper.py").write_text(CLAIM)
    (folder / "experiments" / "firm").mkdir()  # of results
    (folder / "tests" / "test_mine.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")  # not that of a folder above
    return folder


def said(command: list[object], folder: Path) -> str:
    """What a program prints that runs in this folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
@pytest.mark.parametrize("init", [True, False], ids=["with init", "without init"])
def test_the_user_s_files_import_theirs_and_our_modules_ours(
    kind: str, init: bool, tmp_path: Path, wheel_file: Path
) -> None:
    """In a process of the user's: a program, pytest in both forms, and a notebook."""
    ours = installed(tmp_path / "environment", wheel_file if kind == "wheel" else None)
    folder = researchers(tmp_path / "folder", init)
    assert said([ours.python, "-c", PROCESS], folder) == ""
    script = ours.script.with_name("pytest")
    script.write_text("import pytest\nraise SystemExit(pytest.main())")
    # pytest itself puts the folder above packages on the path, of other files their own folder
    arguments = [] if init else ["-o", f"pythonpath={folder}"]
    for command in ([script, *arguments], ["-m", "pytest"]):
        options = ["-q", "-p", "no:cacheprovider", "tests"]
        assert "1 passed" in said([ours.python, *command, *options], folder)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PROCESS)])
    run(notebook, ours.python, "", folder, tmp_path)
    assert notebook.cells[0].outputs == []


@pytest.mark.slow
@pytest.mark.parametrize("init", [True, False], ids=["with init", "without init"])
@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("sys.meta_path.insert(0, _Finder())", ""),
        ('module.__dict__["__builtins__"] = _BUILTINS', ""),
        ("return _same_as(name, OWN + name)\n\n", "return None\n\n"),
    ],
    ids=["no finder", "plain imports", "nothing beside"],
)
def test_without_it_one_shadows_the_other(
    line: str, other: str, init: bool, tmp_path: Path, wheel_file: Path
) -> None:
    ours = installed(tmp_path / "environment", wheel_file)
    folder = researchers(tmp_path / "folder", init)
    assert said([ours.python, "-c", PROCESS], folder) == ""
    ours.mutate("ratecheck/_fallback.py", line, other)
    assert "Error" in said([ours.python, "-c", PROCESS], folder)


LATER = """
import sys
import ratecheck as rc
rc.assert_holds("firm.eq18_sharper")
sys.path.insert(0, "folder")
import mgda.mine, experiments.mine, linsys.mine
import mgda.firm
assert mgda.mine.WHOSE == experiments.mine.WHOSE == linsys.mine.WHOSE == "theirs"
assert mgda.firm.FIRM.__module__ == "mgda.firm"
rc.assert_holds("firm.eq18_sharper")
"""
EARLIER = """
import mgda.simplex, mgda.mine, mgda.momdp
assert mgda.simplex.WHOSE == mgda.mine.WHOSE == "theirs"
import ratecheck as rc
rc.assert_holds("firm.eq18_sharper")
(item,) = rc.find_claims(["firm.eq18_sharper"])
import sys
assert sys.modules["ratecheck._own.mgda.momdp"] is mgda.momdp
"""


@pytest.mark.parametrize(
    "init",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["with init", "without init"],
)
def test_a_folder_that_comes_onto_the_path_later(init: bool, tmp_path: Path) -> None:
    researchers(tmp_path / "folder", init)
    program = f"import sys; sys.path.append({str(ROOT)!r}){LATER}"
    assert said([sys.executable, "-c", program], tmp_path) == ""


@pytest.mark.slow
def test_a_user_s_module_that_is_imported_before_ratecheck(tmp_path: Path) -> None:
    folder = researchers(tmp_path / "folder", init=False)
    program = f"import sys; sys.path.append({str(ROOT)!r}){EARLIER}"
    assert said([sys.executable, "-c", program], folder) == ""


REVISION = """
import sys
sys.path.append({root!r})
import ratecheck as rc
from ratecheck._store.revision import revision
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts.records import Records
experiment = rc.find_experiment("firm/fig1")
(item,) = find_claims(["firm.eq18_sharper"])
print(experiment.compute.__module__, revision(experiment), item.origin)
print(Records("out", writable=False).path(item, "quick", 0).name)
"""


@pytest.mark.slow
def test_results_are_stored_under_the_same_key_beside_a_user_s_package(tmp_path: Path) -> None:
    program = [sys.executable, "-c", REVISION.format(root=str(ROOT))]
    (tmp_path / "empty").mkdir()
    one = said(program, tmp_path / "empty").split()
    two = said(program, researchers(tmp_path / "folder", init=True)).split()
    assert two == [f"ratecheck._own.{one[0]}", *one[1:]]


NAMED = "import ratecheck as rc; rc.assert_holds('firm.eq18_sharper')"


@pytest.mark.slow
def test_a_paper_of_the_user_s_changes_nothing_of_ours_that_has_its_name(tmp_path: Path) -> None:
    theirs = tmp_path / "experiments" / "firm"
    theirs.mkdir(parents=True)
    for place in (theirs.parent, theirs):
        (place / "__init__.py").write_text("raise ImportError('theirs')")
        program = [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r}); {NAMED}"]
        assert said(program, tmp_path) == ""


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
        ("ratecheck/_packages.py", "\n\ntake_plain_names()\n", "", AUDIT, "."),
        ("ratecheck/_processes/pool.py", "preload([FIRST, ", "preload([", AUDIT, "."),
        ("ratecheck/_processes/pool.py", "preload([FIRST, ", "preload([", RUN, "."),
        ("ratecheck/_user_modules.py", HOOK, "pass", LIST, ""),
        ("ratecheck/_user_modules.py", HOOK, "pass", RUN, ""),
        ("ratecheck/_fallback.py", INNER, OUTER, OURS, "."),
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
    expected, shown = (
        place / "experiments" / "__init__.py" for place in (ours.packages, folder.resolve())
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ratecheck: package experiments must be {expected}; "
        f"found {shown}, which was imported before\n"
    )


def test_all_packages_of_the_wheel_are_found_beside() -> None:
    built = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(built) == sorted((*PACKAGES, "ratecheck"))
