"""The formula of a constant, and the file that shows both its ends by it: here the upper one."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
import pytest

from ratecheck._certify import check_constant
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.check_constant import Enclosed, Open, Program, constant, unpacked
from ratecheck._certify.formula import packed
from ratecheck._certify.prove import prove_constant
from ratecheck._discover.catalogue import find_claims
from tests._slow import slow_but

CHECKER = Path(check_constant.__file__)
BOUNDS = "tests/ratecheck/certify/bounds.py"
CARRIED = ["mean", "product", "cosh", "scaled", "whole", "nearly"]


def certificate(name: str) -> dict[str, Any]:
    (item,) = find_claims([f"{BOUNDS}::bounds.{name}"])
    found = prove_constant(item, limit=20).certificate
    assert found is not None
    return found


def entry(pair: str) -> str:
    """An entry of a leaf, of two sides without factors in common."""
    return f"{pair} {pair}"


def given(program: str, boxes: Any, q: str = "1", whole: Any = None) -> dict[str, Any]:
    """A certificate with a program over boxes, whose sides have no factors in common."""
    whole = [False] * len(boxes[0]) if whole is None else whole
    program = re.sub(r"(?m)^= (.+)$", lambda leaf: f"= {entry(leaf[1])}", program)
    text = f"@ {json.dumps([whole, boxes])}\n{program}"
    return {"format": 1, "kind": "constant", "ratio": ["0", q], "formula": packed(text)}


#: x (1 - x) and 1, of which 1/4 is the best constant.
QUARTER = "in >=\nconst 1\n- 1 2\n* 3 1\n= 3 1"


def test_the_file_is_short_and_imports_nothing_of_ours() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) < 300
    assert "ratecheck" not in text
    assert "linsys" not in text
    assert "numpy" not in text


def test_what_is_printed_and_the_exit_codes(tmp_path: Path) -> None:
    good, wrong = given(QUARTER, [[["0", "1"]]], "0.2501"), given(QUARTER, [[["0", "1"]]], "0.2499")
    ill = {**good, "formula": good["formula"][:-5]}
    for content, said, code in (
        (good, check_constant.SHOWN, 0),
        (wrong, "not decided here", 2),
        (ill, "refused", 1),
        ({**good, "kind": "identity"}, "NOTHING WAS DECIDED", 2),
    ):
        (tmp_path / "one.json").write_text(json.dumps(content))
        command = [sys.executable, "-I", str(CHECKER), "one.json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said in done.stdout, done
        assert done.returncode == code
    assert "Not decided: that T, B, t and b are the claim's" in check_constant.LEFT


def test_a_constant_that_is_too_small_is_not_shown() -> None:
    assert constant(given(QUARTER, [[["0", "1"]]], "0.25001")) > 1
    for q in ("0.24999", "0.1", "0"):
        with pytest.raises(Open):
            constant(given(QUARTER, [[["0", "1"]]], q))


def test_every_box_and_every_branch_counts() -> None:
    assert constant(given(QUARTER, [[["0", "1/4"]]], "0.2")) >= 1
    with pytest.raises(Open):
        constant(given(QUARTER, [[["0", "1/4"]], [["1/4", "1"]]], "0.2"))
    both = "in\nconst 1\nconst 2\n? < 0 1\n= 0 1\n= 2 1"
    assert constant(given(both, [[["0", "1/2"]]])) == 1
    with pytest.raises(Open):
        constant(given(both, [[["0", "1"]]]))


def test_whole_numbers_are_taken_one_by_one() -> None:
    # 9 (x - 1/3) (2/3 - x) is below zero at whole numbers alone
    program = "in\nconst 1/3\n- 2 1\nconst 2/3\n- 1 4\n* 3 1\nconst 0\n= 5 6"
    assert constant(given(program, [[["-3", "3"]]], whole=[True])) > 1
    with pytest.raises(Open):
        constant(given(program, [[["-3", "3"]]]))
    with pytest.raises(ValueError, match="boxes of its inputs"):
        constant(given(program, [[["1/2", "3"]]], whole=[True]))


@pytest.mark.parametrize(
    ("program", "boxes"),
    [
        (QUARTER, []),
        (QUARTER, [[["-1", "1"]]]),
        (QUARTER, [[["1", "0"]]]),
        (QUARTER, [[["0", "1"], ["0", "1"]]]),
        (QUARTER.replace("in >=", "in >"), [[["0", "1"]]]),
        (QUARTER.replace("* 3 1", "* -1 1"), [[["0", "1"]]]),
        (QUARTER.replace("* 3 1", "* 9 1"), [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "= 3 9"), [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "= -1 1"), [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "? < -1 1\n= 3 1\n= 3 1"), [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "= 3"), [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "? < 3 1\n= 3 1"), [[["0", "1"]]]),
        (QUARTER + "\n= 3 1", [[["0", "1"]]]),
        (QUARTER.replace("= 3 1", "\n= 3 1"), [[["0", "1"]]]),
        (QUARTER.replace("* 3 1", "sin 1"), [[["0", "1"]]]),
        (QUARTER.replace("const 1", "const 1e9"), [[["0", "1"]]]),
    ],
)
def test_what_is_no_program_is_refused(program: str, boxes: Any) -> None:
    content = given(program, boxes or [[]])
    with pytest.raises(check_constant.ILL):
        constant(content)


@pytest.mark.parametrize("name", slow_but(CARRIED[:4], CARRIED))
def test_a_constant_carries_its_formula_and_edits_are_refused(name: str) -> None:
    content = certificate(name)
    assert constant(content) >= 1
    assert verify(content)
    head, *lines = unpacked(content["formula"]).split("\n")
    whole, boxes = json.loads(head[2:])
    edits = [[f"@ {json.dumps([whole, boxes[1:]], separators=(',', ':'))}", *lines]]
    for number, line in enumerate(lines):
        words = line.split(" ")
        other = {"+": "-", "*": "+", "max": "min", "min": "max", "neg": "abs"}.get(words[0], "neg")
        edits.append([head, *lines[:number], " ".join([other, *words[1:]]), *lines[number + 1 :]])
        edits.append([head, *lines[:number], *lines[number + 1 :]])
    for edit in edits:
        with pytest.raises(Refused, match="`formula` must be the program of the claim"):
            verify({**content, "formula": packed("\n".join(edit))})
    small = str(Fraction(content["ratio"][0]) * Fraction(99, 100))
    with pytest.raises(Open):
        constant({**content, "ratio": ["0", small]})


def random_program(rng: random.Random) -> list[str]:
    """A program of two inputs with some of all operations."""
    lines = ["in", "in >", "const 1/3", "const 2"]
    for _ in range(rng.randrange(3, 12)):
        name = rng.choice([*"+-**/", "max", "min", "neg", "abs", "length", "exp", "log"])
        count = check_constant._TAKES[name]
        lines.append(
            " ".join([name, *(str(rng.randrange(1, len(lines) + 1)) for _ in range(count))])
        )
    return lines


def value(lines: list[str], x: list[Fraction]) -> list[Any]:
    """All lines at a point, in 200 digits; nan where there is none."""
    made: list[Any] = []
    inputs = iter(x)
    for line in lines:
        name, *rest = line.split(" ")
        if name == "in":
            made.append(flint.arb(flint.fmpq(*next(inputs).as_integer_ratio())))
            continue
        if name == "const":
            made.append(flint.arb(flint.fmpq(*Fraction(rest[0]).as_integer_ratio())))
            continue
        a, b = [*(made[len(made) - int(word)] for word in rest), None][:2]
        made.append(
            {
                "+": lambda a=a, b=b: a + b,
                "-": lambda a=a, b=b: a - b,
                "*": lambda a=a, b=b: a * b,
                "/": lambda a=a, b=b: a / b,
                "max": lambda a=a, b=b: a.max(b),
                "min": lambda a=a, b=b: a.min(b),
                "neg": lambda a=a: -a,
                "abs": lambda a=a: abs(a),
                "length": lambda a=a: flint.arb(0) if a == 0 else a.sqrt(),
                "exp": lambda a=a: a.exp(),
                "log": lambda a=a: a.log(),
            }[name]()
        )
    return made


def misses(count: int) -> list[str]:
    """Lines of random programs whose value at a point of a box is not in their enclosure."""
    rng, found, seen = random.Random(1), [], 0
    for _ in range(count):
        lines = random_program(rng)
        ends = sorted(Fraction(rng.randrange(-64, 65), 16) for _ in range(2))
        size = Fraction(1, 4 ** rng.randrange(6))
        low = Fraction(rng.randrange(1, 64), 16)
        box = [(ends[0], ends[0] + (ends[1] - ends[0]) * size), (low, low + size)]
        texts = [[[str(a), str(b)] for a, b in box]]
        tree = " ".join(entry(f"{k} {k}") for k in range(len(lines)))
        program = Program(
            f"@ {json.dumps([[False, False], texts])}\n" + "\n".join([*lines, f"= {tree}"])
        )
        with flint.ctx.workprec(check_constant.BITS):
            known = Enclosed(program, box)
            near = [known.near(*ends) for ends in zip(known.centre, known.slopes, strict=True)]
        for share in (0, 1, Fraction(1, 2), Fraction(rng.randrange(100), 99)):
            x = [a + (b - a) * min(share, 1) for a, b in box]
            with flint.ctx.workprec(700):
                true = value(lines, x)
            for place, one in enumerate(true):
                for enclosure in map(flint.arb, (known.over[place], near[place])):
                    if one.is_finite() and enclosure.is_finite():
                        seen += 1
                        if not enclosure.overlaps(one):
                            found.append(f"{lines} {place} {x}")
    assert seen > 10 * count
    return found


def test_random_formulas_lie_in_their_enclosures() -> None:
    assert not misses(1500)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "max", "abs", "length", "exp", "log", "neg"])
def test_a_wrong_derivative_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = check_constant.derivatives

    def wrong(one: str, values: Any, result: Any, slopes: Any) -> dict[int, Any]:
        found = right(one, values, result, slopes)
        return {i: 0 * x for i, x in found.items()} if one == name else found

    monkeypatch.setattr(check_constant, "derivatives", wrong)  # mutation
    assert misses(1500)


def test_a_rounding_or_a_leaf_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_constant, "around", lambda *ends: flint.arb(float(ends[0])))
    assert misses(300)
    monkeypatch.undo()
    both = given("in\nconst 1\nconst 2\n? < 0 1\n= 0 2\n= 2 1", [[["0", "1"]]])
    with pytest.raises(Open):
        constant(both)
    always = dict.fromkeys(check_constant._RELATIONS, (lambda *_: True, lambda *_: False))
    monkeypatch.setattr(check_constant, "_RELATIONS", always)  # mutation
    assert constant(both) == 1


def test_a_square_is_not_negative_and_has_a_value_around_zero() -> None:
    program = Program('@ [[false], [[["-1", "1"]]]]\nin\n* 1 1\n- 1 2\n* 1 1\n= 1 3 1 3')
    known = Enclosed(program, program.boxes[0])
    for square in (known.over[1], known.over[3]):
        assert square.is_finite()
        assert square >= 0


def falsely_shown(count: int) -> list[str]:
    """Random bounds that are shown over a box, and that a point of the box breaks."""
    rng, found, shown = random.Random(2), [], 0
    for _ in range(count):
        lines = [*random_program(rng), "const 1"]
        top = len(lines) - 2
        lines += [f"abs {rng.randrange(2, 6)}", "+ 2 1"]  # a bound that is at least 1
        box = [[str(-Fraction(rng.randrange(5), 2)), "2"], ["1/4", str(rng.randrange(1, 5))]]
        ends = [(Fraction(a), Fraction(b)) for a, b in box]
        ratios = [Fraction(0)]
        for _ in range(20):
            x = [a + (b - a) * Fraction(rng.choice((0, 1, rng.random()))) for a, b in ends]
            with flint.ctx.workprec(300):
                true = value(lines, x)
                ratio = true[top] / true[-1]
                ratios += [Fraction(float(ratio.lower()))] if abs(ratio) < 1e300 else []
        program = "\n".join([*lines, f"= {top} {len(lines) - 1}"])
        for share in (Fraction(999, 1000), 2):
            content = given(program, [box], str(max(ratios) * share))
            with contextlib.suppress(Open, ValueError):
                if max(ratios) > 0 and constant(content):
                    shown += 1
                    found += [f"{lines} {box} {max(ratios)}"] if share < 1 else []
    assert shown > count / 20
    return found


def test_no_bound_is_shown_that_a_point_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_constant, "WORK", 20_000)
    assert not falsely_shown(80)
    least = Enclosed.least

    def most(known: Enclosed, each: Any) -> Any:
        return least(known, [{i: -slope for i, slope in one.items()} for one in each])

    monkeypatch.setattr(Enclosed, "least", most)  # mutation
    assert falsely_shown(80)


def test_an_end_of_a_range_is_enough_where_derivatives_have_one_sign() -> None:
    # x y z over the unit cube: three steps to the corner, and no division
    cube = "in >=\nin >=\nin >=\n* 3 2\n* 1 2\nconst 1\n= 4 5"
    assert constant(given(cube, [[["0", "1"]] * 3], "1.0001")) <= 2
    assert constant(given(cube, [[["0", "3/4"]] * 3], "0.43")) <= 2
    with pytest.raises(Open):
        constant(given(cube, [[["0", "3/4"]] * 3], "0.42"))
    # below 1/2 one leaf is reached, above it the other one: no end says anything of both
    both = "in\nconst 1/2\nconst 1\n- 1 3\n? < 0 1\n= 0 2\n= 3 2"
    assert constant(given(both, [[["0", "1"]]], "0.501")) > 3
    with pytest.raises(Open):
        constant(given(both, [[["0", "1"]]], "0.499"))


def test_a_rounded_constant_is_an_input_that_is_any_number_near_it() -> None:
    head = unpacked(certificate("nearly")["formula"]).split("\n")[0]
    whole, [[_, ends]] = json.loads(head[2:])
    low, high = map(Fraction, ends)
    assert low < Fraction(2, 3) < high
    assert high - low == Fraction(2e-12)
    assert whole == [False, None]


def test_sides_that_are_one_number_are_equal() -> None:
    same = "in\n* 1 1\n= 1 1"
    assert constant(given(same, [[["-1", "1"]]], "1.0001")) == 1
    with pytest.raises(Open):
        constant(given(same, [[["-1", "1"]]], "0.9999"))
    with pytest.raises(Open):
        constant(given("in\n= 0 0", [[["-1", "1"]]], "1.0001"))


#: 1/2 or 5, by a comparison of a root that has no value below zero, where NumPy says no.
ROOT = "in\nroot 1\nconst -1\nconst 1/2\nconst 1\nconst 5\n? >= 1 2\n= 3 4\n= 5 4"


@pytest.mark.parametrize("name", ["root", "length"])
def test_a_comparison_of_what_may_have_no_value_is_open(name: str) -> None:
    program = ROOT.replace("root", name)
    assert constant(given(program, [[["0", "1"]]])) == 1
    with pytest.raises(Open):
        constant(given(program, [[["-1", "1"]]]))


def test_what_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must not be below zero"):
        constant(given("in\nconst 0\n= 1 0", [[["0", "1"]]], "-1"))
    with pytest.raises(ValueError, match="with sides"):
        constant(given("in\n=", [[["0", "1"]]]))
    for text in ('{"certificates": 5}', "null", "[]"):
        (tmp_path / "one.json").write_text(text)
        ((said, code),) = check_constant.answers(tmp_path / "one.json")
        assert code == 1, said
