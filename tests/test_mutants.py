"""The mutants of `tests/_mutants.py`: which there are, how they are written, who meets them."""

from __future__ import annotations

import ast
import itertools
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from tests import _mutants
from tests._mutants_draw import Mutant, draw, edit

TEXT = '''"""Numbers 1, 2 and 3 of a docstring are no code."""

LIMIT = 3


def clipped(x: "float | 7", low: float = 2) -> float:
    """Return x between low and LIMIT, 1 and 5."""
    if x < low:
        raise ValueError(f"at least {low + 1}")
    rows = [x, (x
        + 2) * 3]
    rows[0] = min(x, LIMIT)
    return sum(rows, 0.5)


class Pair:
    def first(self) -> int:
        return not self.seen and 2 ** 3
'''
PROJECT = """
[tool.pytest.ini_options]
addopts = ["-p", "no:ratecheck"]

[[tool.mypy.overrides]]
module = ["linsys.kernels"]
ignore_errors = true
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A file in each group."""
    for name in ("linsys/numbers.py", "ratecheck/numbers.py", "lora_bridge/numbers.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(TEXT)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def paths(tree: Path) -> list[str]:
    return sorted(file.relative_to(tree).as_posix() for file in tree.rglob("*.py"))


def drawn(tree: Path, seeds: int = 60) -> set[Mutant]:
    """All mutants of the lines of a file, nearly surely."""
    several = (draw(tree, paths(tree), None, 15, seed) for seed in range(seeds))
    return set(itertools.chain.from_iterable(several))


def test_code_is_changed_and_no_text_type_or_message(tree: Path) -> None:
    found = {(one.old, one.new) for one in drawn(tree) if one.path.startswith("linsys")}
    assert found == {
        ("x < low", "x <= low"),
        ("x < low", "not (x < low)"),
        ('raise ValueError(f"at least {low + 1}")', "None"),
        ("(x\n        + 2) * 3", "(x + 2) / 3"),
        ("x\n        + 2", "x - 2"),
        ("2", "3"),
        ("3", "4"),
        ("0", "1"),
        ("rows[0] = min(x, LIMIT)", "None"),
        ("sum(rows, 0.5)", "sum(0.5, rows)"),
        ("sum(rows, 0.5)", "None"),
        ("0.5", "1.5"),
        ("not self.seen and 2 ** 3", "None"),
        ("not self.seen and 2 ** 3", "not self.seen or 2 ** 3"),
        ("not self.seen", "self.seen"),
        ("2 ** 3", "2 * 3"),
    }


def test_groups_have_as_many_and_a_seed_draws_the_same(tree: Path) -> None:
    mutants = draw(tree, paths(tree), None, 15, 7)
    assert mutants == draw(tree, paths(tree), None, 15, 7) != draw(tree, paths(tree), None, 15, 8)
    assert set(Counter(one.group for one in mutants).values()) == {5}
    assert len({one.group for one in mutants[:3]}) == 3  # any first ones are a fair sample


def test_only_functions_are_changed_that_are_the_same_elsewhere(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for path in paths(tree):
        (other / path).parent.mkdir(parents=True)
        (other / path).write_text("# moved\n" + TEXT.replace("2 ** 3", "2 ** 4"))
    some = draw(tree, paths(tree), other, 9, 0)
    assert {one.function for one in some} == {"clipped"}
    before = (other / some[0].path).read_text().count("\n")
    edit(other, {0: some[0]}, probes=False)
    assert (other / some[0].path).read_text().count("\n") == before


def test_every_mutant_can_be_written_and_keeps_the_lines(tree: Path) -> None:
    for number, one in enumerate(drawn(tree)):
        file = tree / one.path
        edit(tree, {number: one}, probes=False)
        changed = file.read_text()
        assert changed != TEXT
        assert changed.count("\n") == TEXT.count("\n")
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(TEXT))
        file.write_text(TEXT)


def test_probes_change_no_value_and_say_what_is_met(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = Counter[int]()
    probe = types.SimpleNamespace(hit=lambda number: hits.update([number]))
    monkeypatch.setitem(sys.modules, "_mutants_probe", probe)
    mutants = {n: one for n, one in enumerate(drawn(tree)) if one.path.startswith("linsys")}
    edit(tree, mutants, probes=True)
    plain: dict[str, object] = {}
    probed: dict[str, object] = {}
    exec(TEXT, plain)
    exec((tree / "linsys/numbers.py").read_text(), probed)
    assert not hits  # at import
    assert probed["clipped"](2.5) == plain["clipped"](2.5)  # type: ignore[operator]
    met = {mutants[number].old for number in hits}
    assert {"x < low", "x\n        + 2", "rows[0] = min(x, LIMIT)"} <= met
    assert not met & {'raise ValueError(f"at least {low + 1}")', "2 ** 3"}
    with pytest.raises(ValueError, match="at least 3"):
        probed["clipped"](1)  # type: ignore[operator]
    assert {mutants[n].old for n in hits} - met == {'raise ValueError(f"at least {low + 1}")'}


@pytest.mark.slow
def test_a_mutant_is_killed_survives_or_is_met_by_no_test(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = "from linsys.numbers import clipped\n\ndef test_it():\n    assert clipped(3) == 18.5\n"
    looks = (
        f"\n\ndef test_text():\n    assert open(clipped.__code__.co_filename).read() == {TEXT!r}\n"
    )
    (tree / "test_numbers.py").write_text(test + looks)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.check_call(["git", *who, *words], cwd=tree)
    monkeypatch.setattr(_mutants, "ROOT", tree)
    mutants = dict(enumerate(sorted(drawn(tree), key=str)))
    shop = _mutants.Workshop(tmp_path / "shop", "HEAD")
    seen = _mutants.made_map(shop, mutants, ["test_numbers.py"])
    assert list(seen.times) == ["test_numbers.py::test_it"]
    assert list(seen.failed) == ["test_numbers.py::test_text"]  # it looks at the source
    chosen = {"x < low": "passed", "0.5": "failed", "2 ** 3": "no tests"}
    for number, one in mutants.items():
        if one.path.startswith("linsys") and one.old in chosen and one.kind != "condition":
            row = _mutants.tried(shop, number, one, seen)
            assert row["outcome"] == chosen[one.old], row
            assert row["by"] == "test_numbers.py::test_it" * (row["outcome"] == "failed")
    shop.close()
