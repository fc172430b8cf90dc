"""Help texts have examples that can be typed, and shells complete what there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from ratecheck._commands import completion, listing
from ratecheck._commands.app import app
from ratecheck._discover import papers, registry

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def examples(name: str) -> list[str]:
    """What the help of a command shows."""
    first, *lines = (COMMANDS[name].epilog or "").split("\n\n")
    assert first in ("Examples:", "")
    return lines


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"version"}))
def test_examples_are_commands_of_that_name(name: str) -> None:
    assert examples(name)
    for line in examples(name):
        program, command, *arguments = shlex.split(line)
        assert (program, command) == ("ratecheck", name)
        with COMMANDS[name].make_context(name, arguments) as context:  # refuses unknown options
            assert not context.args
    wrong = [*shlex.split(examples(name)[0])[2:], "--no-such-option"]
    with pytest.raises(Exception, match="No such option"):
        COMMANDS[name].make_context(name, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMMANDS, ""])
def test_help_fits_into_eighty_columns(name: str) -> None:
    command = [sys.executable, "-m", "ratecheck", *name.split(), "--help"]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert max(map(len, done.stdout.splitlines())) <= 80
    for line in examples(name) if name else ():
        assert line in done.stdout


def test_ids_are_completed() -> None:
    assert completion.experiments("affpcl/fig") == [f"affpcl/fig{k}" for k in range(1, 7)]
    assert set(completion.experiments("")) == {*registry.names(), *registry.on_models()}
    assert completion.bridges("shared") == []
    assert "affpcl" in completion.bridges("aff")
    assert completion.claims("firm/lem") == ["firm/lemma8"]
    assert set(papers.installed()) <= set(completion.claims(""))
    assert completion.papers_of("f") == ["firm", "fslora"]


def test_ids_of_the_project_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = tmp_path / "claims.py"
    text = """
import sys
import ratecheck as rc
print("a file may print", file=sys.stderr)
PAPER = rc.Paper("mine", "My paper")
@PAPER.upper("{name}", ref="Lemma 1", on={{"x": rc.interval()}})
def lemma(x):
    "x <= 1"
    return x, 1
"""
    claims.write_text(text.format(name="first"))
    decay = Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py"
    (tmp_path / "decay.py").write_text(decay.read_text().replace("toy/decay", "mine/decay"))
    (tmp_path / "pyproject.toml").write_text('[tool.ratecheck]\nfiles = ["claims.py", "decay.py"]')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert completion.claims("mi") == ["mine", "mine.first"]
    assert completion.experiments("mi") == ["mine/decay"]
    assert completion.papers_of("mi") == ["mine"]
    claims.write_text(text.format(name="another"))
    assert completion.claims("mine.") == ["mine.another"]
    claims.write_text("1 / 0")
    assert completion.claims("mine.") == []
    assert completion.experiments("mine") == ["mine/decay"]
    assert capsys.readouterr() == ("", "")


def test_single_claims_are_completed_once_they_were_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert completion.claims("affpcl.d1") == []
    listing.called("Lemma D.1", print)
    assert completion.claims("affpcl.d1f") == [
        *("affpcl.d1f", "affpcl.d1f_sec12", "affpcl.d1f_sharper"),
    ]


def test_a_shell_asks_for_them_without_a_numerical_library() -> None:
    program = (
        "import sys; from ratecheck._commands import app, completion; completion.claims('');"
        "completion.experiments(''); print({'numpy', 'linsys'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
    asked = {"_RATECHECK_COMPLETE": "complete_bash", "COMP_WORDS": "ratecheck rates f"}
    done = subprocess.run(
        [sys.executable, "-m", "ratecheck"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked, "COMP_CWORD": "2"},
    )
    assert done.stdout.split() == ["firm", "fslora"]


def test_the_version_is_an_option_and_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for arguments in (["version"], ["--version"]):
        assert not app(args=arguments, standalone_mode=False)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert re.search(r"^ratecheck \d", printed[0], re.MULTILINE)
