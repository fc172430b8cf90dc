"""Help texts have examples that can be typed, and shells complete what there is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer

from ratecheck._commands import completion
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
