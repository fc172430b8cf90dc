"""The formula of a constant, and the file that shows both its ends by it: here the upper one."""

from __future__ import annotations

import contextlib
import inspect
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import flint
import pytest

from linsys.linalg.recorded import Recorded, State, given as numbers_given, made
from linsys.linalg.tapes import ANY, NOT_NEGATIVE, POSITIVE, Tape
from ratecheck._certify import check_constant, constant_formula
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.check_constant import Enclosed, Open, Program, constant, unpacked
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.formula import packed, recorded
from ratecheck._certify.prove import prove_constant
from ratecheck._discover.catalogue import find_claims
from tests._slow import slow_but

CHECKER = Path(check_constant.__file__)
BOUNDS = "tests/ratecheck/certify/bounds.py"
CARRIED = ["mean", "product", "cosh", "scaled", "whole", "nearly"]


def proved(name: str) -> dict[str, Any]:
    (item,) = find_claims([f"{BOUNDS}::bounds.{name}"])
    found = prove_constant(item, limit=20).certificate
    assert found is not None
    return dict(found)


@cache
def text_of(name: str) -> str:
    return json.dumps(proved(name))


def certificate(name: str) -> dict[str, Any]:
    """What is proved of a constant, once."""
    return dict(json.loads(text_of(name)))


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
    # sides without a factor that both do not have, or none
    at = next(k for k, line in enumerate(lines) if line.startswith("= "))
    top, bottom, t, b, *others = lines[at].split(" ")[1:]
    for sides in ([b, t], [t, t], [top, top], ["0", b], [t, b, t, b], []):
        leaf = " ".join(["=", *([top, bottom, *sides] if sides else []), *others])
        edits.append([head, *lines[:at], leaf, *lines[at + 1 :]])
    for edit in (edit for edit in edits if edit != [head, *lines]):
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


def misses(count: int) -> Iterator[str]:
    """Lines of random programs whose value at a point of a box is not in their enclosure."""
    rng, seen = random.Random(1), 0
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
                            yield f"{lines} {place} {x}"
    assert seen > 10 * count


def test_random_formulas_lie_in_their_enclosures() -> None:
    assert not [*misses(1500)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "max", "abs", "length", "exp", "log", "neg"])
def test_a_wrong_derivative_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = check_constant.derivatives

    def wrong(one: str, values: Any, result: Any, slopes: Any) -> dict[int, Any]:
        found = right(one, values, result, slopes)
        return {i: 0 * x for i, x in found.items()} if one == name else found

    monkeypatch.setattr(check_constant, "derivatives", wrong)  # mutation
    assert any(misses(1500))


def test_a_rounding_or_a_leaf_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_constant, "around", lambda *ends: flint.arb(float(ends[0])))
    assert any(misses(300))
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


def falsely_shown(count: int) -> Iterator[str]:
    """Random bounds that are shown over a box, and that a point of the box breaks."""
    rng, shown = random.Random(2), 0
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
                    if share < 1:
                        yield f"{lines} {box} {max(ratios)}"
    assert shown > count / 20


def test_no_bound_is_shown_that_a_point_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_constant, "WORK", 20_000)
    assert not [*falsely_shown(40)]
    least = Enclosed.least

    def most(known: Enclosed, each: Any) -> Any:
        return least(known, [{i: -slope for i, slope in one.items()} for one in each])

    monkeypatch.setattr(Enclosed, "least", most)  # mutation
    assert any(falsely_shown(40))


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


def sides_without_common_factors(form: Callable[..., Any]) -> list[str]:
    """The lines of a program of x, y >= 0 and z > 0, and a leaf of T, B, t and b."""
    tape = Tape()
    with recorded(tape):
        numbers = [numbers_given(None, sign) for sign in (ANY, NOT_NEGATIVE, POSITIVE)]
        top, bottom = (Recorded(0) + side for side in form(*numbers))
        short = constant_formula.Short(tape)
        tape.leaf(top.place, bottom.place, *short.of(top.place, bottom.place))
    return tape.text().split("\n")


def of_two(name: str, a: Any, b: Any) -> Recorded:
    """An operation of two numbers, by its name."""
    return made(State.tape.place(name, Recorded(a).place, Recorded(b).place), None)


def written(lines: list[str]) -> list[str]:
    """The numbers of a leaf in plain words."""
    texts: list[str] = []
    inputs = iter("xyz")
    for line in lines[:-1]:
        name, *rest = line.split(" ")
        if name in ("in", "const"):
            texts.append(next(inputs) if name == "in" else rest[0])
            continue
        a, *b = [texts[len(texts) - int(word)] for word in rest]
        infix = name in ("+", "-", "*", "/")
        texts.append(f"({a} {name} {b[0]})" if infix else f"{name}({', '.join([a, *b])})")
    return [texts[int(word)] for word in lines[-1].split(" ")[1:]]


@pytest.mark.parametrize(
    ("form", "top", "bottom"),
    [
        # powers, also of a divisor
        (lambda x, y, z: (x * y**3 / z, y / z**3), "(x * ((y * y) * (z * z)))", "1"),
        (lambda x, y, z: (x**3 * y, x**2 * z), "(x * y)", "z"),
        (lambda x, y, z: (x * x, x), "(abs(x) * abs(x))", "x"),
        # sums in any order and scale, and their terms that cancel
        (lambda x, y, z: ((x - y) ** 2, abs(2 * y - 2 * x)), "(abs((x - y)) * 1/2)", "1"),
        (lambda x, y, z: ((x + z * y) - x, 3 * y), "(z * 1/3)", "1"),
        (lambda x, y, z: (x * y + z * y, y * y), "(x + z)", "y"),
        (lambda x, y, z: (x - x, y), "0", "y"),
        # common denominators
        (lambda x, y, z: (x / z + y / z, 1 / z), "(x + y)", "1"),
        # what stands before a root and a maximum
        (lambda x, y, z: ((4 * x * x * y).sqrt(), abs(x)), "(2 * root(y))", "1"),
        (lambda x, y, z: (of_two("max", x * z, y * z), z), "max(x, y)", "1"),
        (lambda x, y, z: (of_two("min", x * y, Recorded(0)), y), "min(x, 0)", "1"),
        (lambda x, y, z: (z * of_two("max", x, 1 / z), 1 + y), "max((x * z), 1)", "(y + 1)"),
        # a factor that may be negative stays
        (lambda x, y, z: (x * z, x * x * x), "(x * z)", "(x * (abs(x) * abs(x)))"),
        (lambda x, y, z: (x * of_two("max", x, y), 1 + y), "(x * max(x, y))", "(y + 1)"),
        # what is divided by an exponential function
        (lambda x, y, z: (y, z * x.exp()), "(y * exp(neg(x)))", "z"),
        (lambda x, y, z: (y / x.exp(), z / x.exp()), "y", "z"),
    ],
)
def test_sides_are_written_without_the_factors_that_they_have_in_common(
    form: Callable[..., Any], top: str, bottom: str
) -> None:
    *_, t, b = written(sides_without_common_factors(form))
    assert (t, b) == (top, bottom)


def random_form(rng: random.Random) -> Callable[..., Any]:
    """Two sides of few different numbers, so that they have some in common."""
    seed = rng.random()

    def form(*numbers: Recorded) -> tuple[Any, Any]:
        again = random.Random(seed)
        made = [*numbers, Recorded(again.choice([2, 4, Fraction(1, 3), -1]))]
        for _ in range(again.randrange(4, 12)):
            name = again.choice([*"++-**/", "max", "min", "abs", "root", "exp", "neg", "cancel"])
            a, b = again.choice(made), again.choice(made)
            if name == "cancel":
                made.append((a + 2 * b) * numbers[0] - a * numbers[0])
            elif name in ("exp", "abs", "neg", "root"):
                made.append(
                    {"exp": a.exp, "abs": a.__abs__, "neg": a.__neg__, "root": (a * a * b).sqrt}[
                        name
                    ]()
                )
            elif name != "/" or b.known != 0:
                made.append(of_two(name, a, b) if a.known is None or b.known is None else a)
        common, a, b = again.choice(made[-3:]), made[-1], again.choice(made)
        return common * a, common * b

    return form


def wrongly_shortened(count: int) -> str | None:
    """The first of random sides T and B that t <= q b says nothing of, and a point."""
    rng, seen = random.Random(4), 0
    for _ in range(count):
        try:
            lines = sides_without_common_factors(random_form(rng))
        except Unprovable:  # division by zero
            continue
        for _ in range(3):
            point = [Fraction(rng.randrange(-20, 20), 7), *(Fraction(rng.randrange(1, 30), 9),) * 2]
            point[2] += Fraction(rng.randrange(5), 3)
            with flint.ctx.workprec(300):
                every = value([line.replace("root", "length") for line in lines[:-1]], point)
                top, bottom, t, b = (every[int(k)] for k in lines[-1].split(" ")[1:])
                if not all(one.is_finite() for one in (top, bottom, t, b)):
                    continue
                seen += 1
                tiny = flint.arb("1e-60")
                same = (top * b).overlaps(t * bottom)
                turned = top * t < 0 or bottom * b < 0
                gone = max(abs(t), abs(b)) < tiny and max(abs(top), abs(bottom)) > tiny**0.5
                if not same or turned or gone:
                    return f"{written(lines)} {point}"
    assert seen > count
    return None


def test_what_is_left_of_random_sides_says_the_same() -> None:
    assert wrongly_shortened(300) is None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # powers
        ("_times(factors, outside, -2)", "_times(factors, outside, -1)"),
        ("_times(f, g, -1)) if b", "_times(f, g, 1)) if b"),
        ("0 if self._tape.signs[k] else 2 * int(n / 2)", "2 * int((n + 1) / 2)"),
        # factors in common, which are nowhere negative
        ("for k in f | g if self._tape.signs[k]}", "for k in f | g}"),
        ("scale = abs(b) if b else 1", "scale = b if b else 1"),
        # sums and common denominators
        ('1 if name == "+" else -1', "1"),
        ("total + part if share / scale > 0 else total - part", "total + part"),
        ("terms.get(term, 0) + scale * x", "scale * x"),
        ("todo += [(x * y, ", "todo += [(x, "),
        # the larger and the smaller one
        ("if n and not (signed and not self._tape.signs[k])", "if n"),
        ("scale > 0 and all(map(self._sign, left))", "scale > 0"),
        ("scale = abs(a) or abs(b)", "scale = a or b"),
        ("{self._tape.place(name, *places): 1}", '{self._tape.place("max", *places): 1}'),
        ('(max if name == "max" else min)(left', "max(left"),
        # exp
        ("(-made(self._tape.lines[k][1], None)).place", "self._tape.lines[k][1]"),
        # roots
        ("before, scale = Recorded(Fraction(*roots)).known, before", "scale = before"),
    ],
)
def test_a_wrong_rule_of_factors_is_noticed(
    right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inspect.getsource(constant_formula.Short)
    assert source.count(right) == 1
    names = dict(vars(constant_formula))
    exec(source.replace(right, wrong), names)  # mutation
    monkeypatch.setattr(constant_formula, "Short", names["Short"])
    assert wrongly_shortened(600)


def test_products_lie_between_those_of_their_ends() -> None:
    """A ball is a middle and a radius, so that a product of balls from 0 to 1 begins below 0."""
    program = Program(
        '@ [[false, false], [[["0", "1"], ["1", "4"]]]]\nin\nin\nexp 2\n* 1 1\n/ 4 3\n= 3 4 3 4'
    )
    known = Enclosed(program, program.boxes[0])
    square, quotient = known.over[3], known.over[4]
    assert 0.999 < float(square.lower()) < 1 < float(square.upper()) < 7.39
    assert float(quotient.lower()) >= 0
    assert float(quotient.upper()) < 1.001


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("and a >= 0 and b >= 0:", "and a >= 0:"),
        ("and a >= 0 and b >= 0:", "and b >= 0:"),
        ("a.upper(), d", "a.lower(), d"),
        ('1 if name == "*" else -1', "1"),
        ('1 if name == "*" else -1', "-1"),
    ],
)
def test_a_wrong_end_of_a_product_is_noticed(
    right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inspect.getsource(check_constant.operation)
    assert right in source
    names = vars(check_constant).copy()
    exec(source.replace(right, wrong), names)  # mutation
    monkeypatch.setattr(check_constant, "operation", names["operation"])
    assert any(misses(300))


def test_products_without_an_end_show_nothing() -> None:
    for program in (
        "in >=\nin >=\n/ 2 1\nconst 1\n= 2 3",  # x / y near y = 0
        "in >=\nin >=\nlog 1\nneg 1\n* 4 1\nconst 1\n= 4 5",  # -x log y near y = 0
        "in >=\nin >=\nconst inf\n* 2 1\nconst 1\n= 3 4",  # infinity in a product
    ):
        with pytest.raises(Open):
            constant(given(program, [[["0", "1"], ["0", "1"]]], "1000000000"))
