"""Command lines drawn with a seed: each ends with an answer or a line, and writes below its folder.

Names, options and values are known ones and odd ones, in any order. Commands that fetch models,
talk or take minutes are left out, and so are options that open connections. ``RATECHECK_LINES`` is
the number of lines, for longer trials than the tests make.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ratecheck.conftest import CLAIMS, DECAY, Said
from tests.test_odd_parameters import within

SEED = 8
NUMBER = int(os.environ.get("RATECHECK_LINES", "1000"))
#: What commands take, and which options.
COMMANDS = {
    "list": "--json --out",
    "show": "--json --profile",
    "run": "--json --out --set --seed --threads --profile --redraw --no-figures",
    "sweep": "--json --out --set --seed --threads --profile --map --by --mean",
    "rates": "--json --out --seed --threads --profile",
    "report": "--json --out --profile --verbose",
    "audit": "--json --out --effort --limit --seed --threads --list --show --replay --constant",
    "certify": "--json --out --check --limit --sizes",
    "version": "--json",
}
KNOWN = [
    *("mine.py", "mine.py::mine.one", "decay.py", "toy/decay", "toy", "toy.x", "out", "made.json"),
    *("quick", "paper", "hunt", "seed=1", "rates=0.5", "rates=0.5,1", "seed", "1", "2", "20"),
]
#: What a shell can give: no byte of zero. The tests' own streams take no half of a surrogate pair.
ODD = [
    *(
        "",
        " ",
        "-",
        "--",
        "-1",
        "0",
        "1e9",
        "nan",
        "inf",
        "1e400",
        str(10**30),
        "x=",
        "=x",
        "=",
        "é",
    ),
    *("none", "[", "*", "**", "mine.*", "../mine.py", "/", ".", "..", "~", "no/such.py", "a=b=c"),
    *("\N{RIGHT-TO-LEFT OVERRIDE}", "--no-such", "-x", "--help", "::", "mine.py::"),
    *("x" * 5000, "x" * 5000 + ".py"),
]


def line(rng: random.Random) -> list[str]:
    """A command with words, options and their values, some known and some odd."""
    command = rng.choice(list(COMMANDS))
    words = [rng.choice(KNOWN) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    for option in rng.choices(COMMANDS[command].split(), k=rng.randrange(3)):
        words += [option, *([rng.choice(KNOWN)] if rng.random() < 0.7 else [])]
    for _ in range(rng.choice([0, 1, 1, 2])):
        words.insert(rng.randrange(len(words) + 1), rng.choice(ODD))
    return [command, *words]


def files(folder: Path) -> dict[str, bytes]:
    """All files of a folder but those below ``place/out``."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[:2] != ("place", "out")
    }


@pytest.mark.slow
@pytest.mark.usefixtures("toys")
def test_every_line_ends_with_an_answer_or_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratecheck: Callable[..., Said]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    Path("mine.py").write_text(CLAIMS)
    Path("made.json").write_text("{}")
    shutil.copy(DECAY, "decay.py")
    rng, wrong, refused = random.Random(SEED), [], 0
    before = files(tmp_path)
    for _ in range(NUMBER):
        arguments = line(rng)
        if "--out" in arguments:  # elsewhere files are what was asked for
            arguments = [a for a in arguments if a != "--out"]
        if arguments[0] in ("run", "sweep", "rates", "report", "audit", "certify"):
            arguments += ["--out", "out"]
        try:
            with within(120, str(arguments)):
                said = ratecheck(*arguments)
        except Exception as error:
            wrong.append(f"{arguments}: {error!r}")
            continue
        refused += said.code == 2
        if said.code not in (0, 1, 2) or "Traceback" in said.out + said.err:
            wrong.append(f"{arguments}: exit code {said.code}\n{said.err[-500:]}")
        elif said.code == 2 and not said.err.strip():
            wrong.append(f"{arguments}: refused without a word")
        if files(tmp_path) != before:
            made = sorted(files(tmp_path).keys() ^ before.keys())
            wrong.append(f"{arguments}: wrote {made}")
            before = files(tmp_path)
    assert refused > NUMBER / 4
    assert not wrong, f"{len(wrong)} of {NUMBER}\n" + "\n".join(wrong)
