"""What a user's file imports: the user's modules, whatever else has their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import experiments
import mgda
import ratecheck as rc
from linsys import InputError
from ratecheck._store import revision

PICTURE = Path(__file__).parent / "extra" / "toy" / "figures" / "picture.py"
CLAIM = """
{top}
import ratecheck as rc

@rc.claim(
    id="mine.mass", source="Lemma 1", kind="upper", text="p <= 1", fields={{"p": rc.simplex("k")}}
)
def mass(p):
    {inside}
    return p, {bound}
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below a folder of the user's: a claim with these parts, or this text."""

    def write(name: str = "claims.py", text: str | None = None, **parts: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = {"top": "", "inside": "", "bound": "1"} | parts
        path.write_text(CLAIM.format(**shape) if text is None else text)
        return path

    return write


def bound(path: Path) -> float:
    """The bound of the claim in a file."""
    (item,) = rc.find_claims([str(path)])
    assert isinstance(item.entry, rc.Claim)
    return float(item.entry(np.array([1.0]))[1])


PACKAGES = {
    "a package": ("experiments/__init__.py", "experiments/own.py"),
    "a folder": ("experiments/own.py",),
    "a folder of folders": ("experiments/deep/own.py",),
}
IMPORTS = {"at the top": "top", "inside a function": "inside"}


@pytest.mark.parametrize("when", IMPORTS)
@pytest.mark.parametrize("what", PACKAGES)
def test_a_package_called_as_one_of_ours(what: str, when: str, write: Write) -> None:
    *_, last = [write(name, "VALUE = 7") for name in PACKAGES[what]]
    module = ".".join(last.relative_to(last.parents[len(PACKAGES[what][-1].split("/")) - 1]).parts)
    statement = f"from {module.removesuffix('.py')} import VALUE"
    assert bound(write(bound="VALUE", **{IMPORTS[when]: statement})) == 7
    assert sys.modules["experiments"] is experiments
    assert "experiments.own" not in sys.modules


def test_an_attribute_of_the_package_as_python_has_it(write: Write) -> None:
    write("mgda/__init__.py", "")
    write("mgda/own.py", "import mgda.other as other\nVALUE = other.VALUE")
    write("mgda/other.py", "VALUE = 3")
    assert bound(write(top="import mgda.own, mgda", bound="mgda.own.VALUE")) == 3
    assert not hasattr(mgda, "own")


def test_ours_are_ours_where_the_user_has_none(write: Write) -> None:
    (write().parent / "experiments").mkdir()  # of results
    top = "import experiments.affpcl.paper as paper"
    assert bound(write(top=top, bound='float(paper.PAPER.id == "affpcl")')) == 1


@pytest.mark.parametrize("init", [True, False])
def test_what_the_user_s_package_lacks_is_ours(init: bool, write: Write) -> None:
    """The very module that everybody else has, and below a folder of the user's, too."""
    for name in ("experiments/own.py", "experiments/affpcl/own.py"):
        write(name, "VALUE = 7")
    if init:
        write("experiments/__init__.py", "")
    top = """
import experiments.own, experiments.affpcl.own
import experiments.firm.paper
from experiments.affpcl import theory
from experiments.affpcl.theory.stack import FiniteStack

import sys
assert experiments.firm.paper is sys.modules["experiments.firm.paper"]
assert theory is sys.modules["experiments.affpcl.theory"]
assert FiniteStack.__module__ == "experiments.affpcl.theory.stack"
"""
    path = write(top=top, bound="experiments.own.VALUE + experiments.affpcl.own.VALUE")
    assert bound(path) == 14
    assert "experiments.own" not in sys.modules
    with pytest.raises(InputError, match=r"No module named 'experiments\.nowhere'"):
        bound(write(top="import experiments.own, experiments.nowhere"))


def test_our_modules_keep_what_they_import(write: Write) -> None:
    write("mgda/__init__.py", "WHOSE = 'theirs'")
    top = "import mgda\nfrom lora_bridge.flower._objectives import client_mean"
    whose = "mgda.WHOSE == 'theirs' and client_mean.__module__ == 'mgda.federated'"
    assert bound(write(top=top, bound=f"float({whose})")) == 1
    assert sys.modules["mgda"] is mgda


def test_files_beside_each_other_import_each_other(write: Write) -> None:
    write("helper.py", "import claims\ndef value():\n    return claims.ONE")
    assert bound(write(top="ONE = 1\nimport helper", bound="helper.value()")) == 1
    write("beside.py", "VALUE = 5")
    assert bound(write(top="from .beside import VALUE", bound="VALUE")) == 5


def test_helpers_of_two_folders_have_one_name(write: Write) -> None:
    for value, folder in ((1, "a"), (2, "b")):
        write(f"{folder}/helper.py", f"VALUE = {value}")
        path = write(f"{folder}/claims.py", top="import helper", bound="helper.VALUE")
        assert bound(path) == value
    assert "helper" not in sys.modules


@pytest.mark.slow
def test_machine_code_is_kept_for_every_name_of_a_module(write: Write) -> None:
    text = "import numba\n\n@numba.njit(cache=True)\ndef half(x):\n    return x / 2\n"
    folder = write("kernels.py", text).parent
    path = write(top="import kernels", bound="kernels.half(2.0)")
    assert bound(path) == 1
    plainly = [sys.executable, "-c", "import kernels; print(kernels.half(2.0))"]
    for _ in range(2):  # compiled, and loaded
        done = subprocess.run(plainly, cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout == "1.0\n"
    assert rc.find_claims([str(path)])
    (folder / "kernels.py").touch()
    assert bound(path) == 1


def test_an_edited_module_is_read_again(write: Write) -> None:
    helper = write("experiments/own.py", "VALUE = 1")
    path = write(top="from experiments.own import VALUE", bound="VALUE")
    assert bound(path) == 1
    same = rc.find_claims([str(path)])[0].entry
    assert rc.find_claims([str(path)])[0].entry is same
    helper.write_text("VALUE = 9")
    assert bound(path) == 9


def test_a_module_that_comes_later_is_found(write: Write) -> None:
    path = write(top="import late_helper", bound="late_helper.VALUE")
    with pytest.raises(InputError, match="No module named 'late_helper'"):
        bound(path)
    write("late_helper.py", "VALUE = 4")
    assert bound(path) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/0", "ZeroDivisionError: division by zero at .*own.py:1"),
        ("def", "SyntaxError: invalid syntax at .*own.py:1"),
        ("import experiments.none", "No module named 'experiments.none' at .*own.py:1"),
        (
            "from experiments import none",
            r"cannot import name 'none' from 'experiments' \(.*own.py:1",
        ),
    ],
)
def test_a_fault_is_where_it_is(text: str, said: str, write: Write) -> None:
    write("experiments/__init__.py", "")
    write("experiments/own.py", text)
    with pytest.raises(InputError, match=f"claims file must import without error; found .*{said}"):
        bound(write(top="import experiments.own"))


def test_a_figure_s_configuration_may_be_the_package_s(write: Write, tmp_path: Path) -> None:
    text = PICTURE.read_text()
    head, config, rest = (
        text[: text.index("@dataclass")],
        text[text.index("@dataclass") : text.index("def blocks")],
        text[text.index("def blocks") :],
    )
    conf = write("experiments/conf.py", head + config)
    path = write("picture.py", head + "from experiments.conf import *\n\n" + rest)
    experiment = rc.find_experiment(str(path))
    before = revision.revision(experiment)
    config = experiment.profiles["quick"]
    result = rc.run(experiment, config, rc.Store(tmp_path), threads=2, reference=str(path))
    assert result.rows > 0
    conf.write_text(conf.read_text() + "\n# changed\n")
    assert revision.revision(rc.find_experiment(str(path))) != before
