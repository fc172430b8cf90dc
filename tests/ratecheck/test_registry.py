"""Experiments are found by name, by pattern and by file; a wrong name suggests the right one."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from linsys import InputError
from ratecheck._discover import papers, registry
from ratecheck._report.describe import description

DECAY = Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py"


@pytest.mark.usefixtures("toys")
def test_names_and_patterns() -> None:
    assert registry.names() == ["toy/decay", "toy/picture"]
    assert registry.match(["toy/p*", "toy/*", "toy/decay"]) == ["toy/picture", "toy/decay"]
    assert registry.find_experiment("toy/decay").id == "toy/decay"
    with pytest.raises(InputError, match="pattern must match an id; found 'toy/x\\*'"):
        registry.match(["toy/x*"])


@pytest.mark.usefixtures("toys")
def test_a_wrong_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"found 'toy/dekay' \(did you mean toy/decay\?\)"):
        registry.find_experiment("toy/dekay")


def test_every_public_module_is_an_experiment_described_by_its_own_text() -> None:
    for name, place in {**registry._synthetic(), **registry._on_models()}.items():
        experiment = registry.find_experiment(name)
        assert experiment.id == name
        module = sys.modules[place]
        assert description(experiment)["about"] == inspect.cleandoc(module.__doc__ or "")


def test_two_papers_experiments_on_models_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("one_paper", "other_paper"):
        (tmp_path / package / "bridge").mkdir(parents=True)
        for place in ("__init__.py", "bridge/__init__.py", f"bridge/{package}.py"):
            (tmp_path / package / place).touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = {"one": "one_paper", "other": "other_paper"}
    monkeypatch.setattr(papers, "installed", lambda group=papers.PAPERS: names)
    assert registry.on_models() == ["bridge/one_paper", "bridge/other_paper"]
    (tmp_path / "other_paper" / "bridge" / "one_paper.py").touch()
    said = r"distinct names, .* found one_paper\.bridge\.one_paper and other_paper\.bridge\.one_p"
    with pytest.raises(InputError, match=said):
        registry.on_models()


def test_names_import_nothing() -> None:
    code = (
        "import sys; from ratecheck._discover import registry; names = registry.names();"
        "print([m for m in sys.modules if m.startswith('experiments.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_are_read_anew_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(DECAY.read_text())
    first = registry.find_experiment(str(path))
    assert registry.find_experiment(str(path)) is first
    path.write_text(DECAY.read_text().replace("Power-law decay", "Another title"))
    assert registry.find_experiment(str(path)).title == "Another title"


def test_files_without_an_experiment_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    with pytest.raises(InputError, match=r"experiment file must exist; found no file .*mine\.py"):
        registry.find_experiment(str(path))
    path.write_text("EXPERIMENT = 3")
    folder = tmp_path / "folder.py"
    folder.mkdir()
    with pytest.raises(InputError, match=r"mine\.py must define EXPERIMENT; found int"):
        registry.find_experiment(str(path))
    with pytest.raises(InputError, match=r"experiment file must be readable; found .*: Is a dir"):
        registry.find_experiment(str(folder))


def test_a_file_of_claims_alone_is_told_what_shows_them(tmp_path: Path) -> None:
    def written(*names: str) -> str:
        each = (f"{n} = rc.NotChecked(id='my.{n}', source='s', text='t', note='n')" for n in names)
        path = tmp_path / f"{names[0]}.py"
        path.write_text("\n".join(["import ratecheck as rc", *each]))
        return str(path)

    said = r"one\.py must define EXPERIMENT; found none, but claims \(my\.one, my\.two\)"
    with pytest.raises(InputError, match=rf"{said}: ratecheck audit .*/one\.py --show$"):
        registry.find_experiment(written("one", "two"))
    with pytest.raises(InputError, match=r"but claims \(my\.a, my\.b, my\.c, \.\.\): ratecheck"):
        registry.find_experiment(written("a", "b", "c", "d"))


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (b"x = 1\nraise RuntimeError('broken\\nin two')", r"RuntimeError: broken in two at .*y:2"),
        (b"x = 1\n\ndef f(:\n", r"SyntaxError: invalid syntax at .*mine\.py:3"),
        (b"x = 1\nname = '\xff'\n", r"SyntaxError: .* at .*mine\.py:"),
        (b"x = 1\0", r"(SyntaxError|ValueError): source code .* at .*mine\.py"),
        (b"import no_such_module", r"ModuleNotFoundError: .*'no_such_module' at .*mine\.py:1"),
        (b"\nimport json\njson.loads('{')", r"JSONDecodeError: .* at .*mine\.py:3"),
        (b"import sys\nsys.exit()", r"SystemExit: exit with None at .*mine\.py:2"),
        (b"import pytest\npytest.importorskip('no_such')", r"Skipped: .* at .*mine\.py:2"),
    ],
)
def test_a_broken_file_is_one_line_with_its_place(
    tmp_path: Path, source: bytes, fault: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(source)
    for _ in range(2):  # also the second time: nothing half-made is left behind
        with pytest.raises(InputError, match=f"must import without error; found {fault}") as raised:
            registry.find_experiment(str(path))
        assert len(str(raised.value).splitlines()) == 1


def test_ctrl_c_during_an_import_is_no_fault_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        registry.find_experiment(str(path))


def test_what_a_file_prints_is_no_part_of_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(DECAY.read_text() + "\nprint('loud')\n")
    registry.find_experiment(str(path))
    assert capsys.readouterr() == ("", "loud\n")


def test_an_edit_of_the_same_size_in_the_same_second_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for title in ("Power-law decay", "Power-law dekay"):
        path.write_text(DECAY.read_text().replace("Power-law decay", title))
        os.utime(path, (1e9, 1e9))
        assert registry.find_experiment(str(path)).title == title
