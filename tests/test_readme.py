"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def printed(program: str) -> list[str]:
    """Lines that a program prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "README.md", "exec"), {})
    return output.getvalue().splitlines()


def example(title: str) -> str:
    """The first program of a section."""
    found = re.search(r"```python\n(.*?)```", README.partition(f"## {title}\n")[2], re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "change", "mutant"),
    [
        ("Your own agents", "[0.4, 0.6]", "[0.2, 0.8]"),
        ("Objectives in conflict", "beta=5.0", "beta=0.05"),
        ("Users with a factor in common", "nu=1.0", "nu=2.0"),
        ("The same algorithm on a language model", "gamma=0.01", "gamma=0.001"),
    ],
)
def test_examples_print_what_they_say(title: str, change: str, mutant: str) -> None:
    program = example(title)
    said = [line[2:] for line in program.splitlines() if line.startswith("# ")]
    assert said
    assert printed(program) == said
    assert change in program
    assert printed(program.replace(change, mutant)) != said


def audited(program: str, folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of ``ratecheck audit my_paper.py``."""
    (folder / "my_paper.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "ratecheck", "audit", "my_paper.py", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_the_claim_is_refuted_as_it_says(tmp_path: Path) -> None:
    section = README.partition("## Audit a paper's claims")[2]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    shown = re.search(r"\n((?:    .*\n)+)", section.partition("finds, after")[2])
    assert program is not None
    assert shown is not None
    verdict, decided, text, sides, *arrays, again = textwrap.dedent(shown[1]).splitlines()
    code, output = audited(program[1], tmp_path)
    assert code == 1
    assert {verdict, text, again} <= set(output.splitlines())
    assert f"\n{decided.partition('; ')[0]}; " in output
    # Another search may find another instance first; the one that is shown stays one.
    instance = {k.strip(): json.loads(v) for k, v in (line.split(" = ") for line in arrays)}
    shown_file = tmp_path / "shown.json"
    stated = {"id": "mine.lemma_3", "verdict": "violated", "instance": instance}
    shown_file.write_text(json.dumps(stated))
    code, output = audited(program[1], tmp_path, "--replay", "shown.json")
    assert (code, sides in output.splitlines()) == (0, True)
    # In one dimension, as it goes on, the lemma holds.
    sized = 'on=rc.Space(sizes={"d": (1, 1), "n": (1, 4)}, fields={'
    line = program[1].replace("on={", sized).replace("\n    },", "\n    }),")
    code, output = audited(line, tmp_path)
    assert (code, "1 claim: 1 holds" in output) == (0, True)


def test_every_file_it_names_exists() -> None:
    root = Path(__file__).parents[1]
    named = re.findall(r"`((?:tests|notebooks|docs|experiments|linsys)/[\w/.]+\.\w+)`", README)
    named += re.findall(r"\]\((docs/[\w/.-]+)\)", README)
    assert len(named) > 4
    assert [name for name in named if not (root / name).is_file()] == []
