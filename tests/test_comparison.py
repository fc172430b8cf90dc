"""The programs that the comparison with PEPit and hypothesis is about say what its page says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import ratecheck as rc

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "comparison.md").read_text()
PROGRAMS = ROOT / "examples" / "comparison"


def program(name: str) -> ModuleType:
    """The module of one of the programs."""
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_are_counted() -> None:
    counts = []
    for name in ("pepit", "gram", "hypothesis", "ratecheck"):
        text = (PROGRAMS / f"with_{name}.py").read_text()
        counts.append(sum(bool(line.strip()) for line in text.splitlines()))
    assert f"| {' | '.join(map(str, counts))} |" in PAGE


@pytest.mark.slow
def test_hypothesis_refutes_the_wrong_constant_alone() -> None:
    output = program("with_hypothesis")
    output.theorem_1()
    output.theorem_2()
    with pytest.raises(AssertionError):
        output.wrong_constant()


@pytest.mark.slow
def test_ratecheck_does_too_and_attains_both_bounds() -> None:
    items = rc.find_claims([str(PROGRAMS / "with_ratecheck.py")])
    verdicts = {item.id: rc.judge(item.entry) for item in items}
    first, wrong, second = verdicts.values()
    assert [first.verdict, wrong.verdict, second.verdict] == ["holds", "violated", "holds"]
    assert first.ratio == pytest.approx(1, abs=1e-9)
    assert second.ratio == pytest.approx(1, abs=1e-9)
    # hypothesis takes numbers from the sources of all modules, and so their count depends on these
    stated = [int(n.replace(",", "")) for n in re.findall(r"some ([\d,]+) instances", PAGE)]
    assert stated == pytest.approx([first.instances, second.instances], rel=0.05)
    assert wrong.counterexample == {"weights": [1.0], "knees": [0.1], "start": 1.0}
    assert re.search(r"knee 0\.1 and start 1, measured 0\.045, bound 0\.0417", PAGE)
    assert (wrong.measured, wrong.bound[:6]) == ("0.045", "0.0416")


def test_both_theorems_are_proved_and_the_wrong_constant_is_not() -> None:
    output = program("with_gram")
    for problem in (output.theorem_1(), output.theorem_2()):
        proof = rc.gram.prove(problem)
        proof.check()
        assert proof.excess == 0
    assert rc.gram.worst_case(output.theorem_1(24)).value == pytest.approx(24 / 22, rel=1e-6)
    with pytest.raises(rc.gram.Unproved):
        rc.gram.prove(output.theorem_1(24))


if importlib.util.find_spec("PEPit"):  # which is no library that we ask for

    @pytest.mark.slow
    def test_pepit_finds_the_worst_case() -> None:
        output = program("with_pepit")
        assert output.theorem_1() == pytest.approx(1 / 22, rel=1e-4)
        assert output.theorem_2() == pytest.approx(0.81, rel=1e-4)
