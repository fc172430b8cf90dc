"""The lower end of a constant, at a point of the boxes of its formula."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._certify import check_constant, constant_formula, constant_point
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.check_constant import Open, at_a_point, unpacked
from ratecheck._certify.constant_point import check_instance, points
from ratecheck._certify.cover import Cover
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.formula import packed
from ratecheck._discover import papers
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts import certificates as kept
from tests._slow import slow_but
from tests.ratecheck.certify.test_check import alone
from tests.ratecheck.certify.test_constant_formula import (
    BOUNDS,
    CHECKER,
    QUARTER,
    certificate,
    given,
    proved,
)

UNIT = [[["0", "1"]]]


def at(
    numbers: list[str], low: str, program: str, boxes: Any, whole: Any = None, q: str = "9"
) -> dict[str, Any]:
    """A certificate of a lower end at a point."""
    content = given(program, boxes, q, whole)
    return {**content, "ratio": [low, q], "at": numbers}


def is_shown(*content: Any, **more: Any) -> bool:
    """Whether the lower end is shown; refused otherwise, or undecided."""
    try:
        return bool(at_a_point(at(*content, **more)))
    except Open:
        return False


def test_a_lower_end_is_shown_at_its_point_and_no_larger_one() -> None:
    assert is_shown(["1/2"], "1/4", QUARTER, UNIT)
    assert not is_shown(["1/2"], "0.2500000001", QUARTER, UNIT)
    assert is_shown(["0.4"], "0.24", QUARTER, UNIT)
    assert not is_shown(["0.4"], "0.2400000001", QUARTER, UNIT)
    for low in ("0", "-1"):
        with pytest.raises(ValueError, match="above zero"):
            at_a_point(at(["1/2"], low, QUARTER, UNIT))


@pytest.mark.parametrize(
    ("numbers", "boxes", "whole"),
    [
        (["3/2"], UNIT, None),
        (["-1/1000000"], UNIT, None),
        (["1/2"], [[["0", "1/4"]], [["3/4", "1"]]], None),
        (["1/2"], UNIT, [True]),
        (["1/2", "1/2"], UNIT, None),
        (["1/2"], UNIT, [None]),
        ([0.5], UNIT, None),
        ("x", UNIT, None),
        (None, UNIT, None),
    ],
)
def test_a_point_outside_of_the_boxes_or_none_is_refused(
    numbers: Any, boxes: Any, whole: Any
) -> None:
    with pytest.raises(check_constant.ILL):
        at_a_point(at(numbers, "1/5", QUARTER, boxes, whole))


def test_a_point_of_any_box_counts_and_whole_numbers_are_whole() -> None:
    boxes = [[["0", "1/4"]], [["3/4", "1"]]]
    assert is_shown(["7/8"], "0.1", QUARTER, boxes)
    program = "in >=\nconst 3\n= 0 1"
    assert is_shown(["2"], "2/3", program, [[["1", "3"]]], [True])
    with pytest.raises(ValueError, match="a point of a box"):
        at_a_point(at(["5/2"], "2/3", program, [[["1", "3"]]], [True]))


#: x / 1 below 1/2; a leaf without entries, of no instance, from there on.
HALF = "in >=\nconst 1\nconst 1/2\n? < 0 2\n= 0 1\n="


def test_a_leaf_of_no_instance_shows_nothing() -> None:
    assert is_shown(["1/3"], "1/3", HALF, UNIT)
    assert not is_shown(["2/3"], "1/3", HALF, UNIT)
    assert not is_shown(["1/2"], "1/3", HALF, UNIT)


def test_every_leaf_that_an_open_comparison_leaves_counts() -> None:
    # root(x)^2 < x, which no enclosure decides where the root is no rational
    both = "in >=\nroot 1\n* 1 1\nconst 1\nconst 2\n? < 2 0\n= {} 3\n= {} 3"
    for first, second, shown in ((4, 4, True), (4, 3, False), (3, 4, False)):
        assert is_shown(["1/3"], "3/2", both.format(first, second), UNIT) == shown
    # of a number that is exact it is decided
    assert is_shown(["1"], "3/2", both.format(3, 4), UNIT)
    # and a comparison with what has no value is open
    none = "in\nconst 0\n/ 2 1\nconst 1\nconst 2\n? < 2 3\n= {} 3\n= {} 3"
    assert is_shown(["0"], "3/2", none.format(4, 4), [[["-1", "1"]]])
    assert not is_shown(["0"], "3/2", none.format(4, 3), [[["-1", "1"]]])


def test_the_bound_has_to_be_above_zero() -> None:
    program = "in\nin\n= 0 1"
    boxes = [[["-2", "2"], ["-2", "2"]]]
    assert is_shown(["1", "2"], "1/2", program, boxes)
    for numbers in (["0", "0"], ["1", "0"], ["-1", "-2"], ["2", "-1"], ["-1", "2"]):
        assert not is_shown(numbers, "1/2", program, boxes)


def test_both_sides_are_those_with_their_common_factors() -> None:
    """x^2 / x^2 without them is 1 / 1, which says nothing of x = 0."""
    content = given("in\n* 1 1\nconst 1\n= 1 1", [[["-1", "1"]]])
    text = unpacked(content["formula"]).replace("= 1 1 1 1", "= 1 1 2 2")
    content = {**content, "formula": packed(text), "ratio": ["1", "1"]}
    assert check_constant.constant(content) == 1
    assert at_a_point({**content, "at": ["1/3"]})
    with pytest.raises(Open):
        at_a_point({**content, "at": ["0"]})


def test_any_entry_is_enough() -> None:
    program = "in\nconst 1\nconst 2\n= {}"
    for leaf in ("0 1 0 1 1 2 1 2", "1 2 1 2 0 1 0 1"):
        content = given(program.format("0 1"), UNIT)
        head = unpacked(content["formula"]).split("\n")[0]
        content["formula"] = packed(f"{head}\n{program.format(leaf)}")
        assert at_a_point({**content, "ratio": ["1/2", "9"], "at": ["0"]})
        with pytest.raises(Open):
            at_a_point({**content, "ratio": ["2/3", "9"], "at": ["0"]})


def test_all_values_of_a_rounded_constant_count() -> None:
    program, boxes = "in\nin\nconst 1\n* 3 2\n= 3 2", [[["0", "1"], ["1/2", "3/5"]]]
    assert is_shown(["1"], "0.4999", program, boxes, [False, None])
    assert not is_shown(["1"], "0.51", program, boxes, [False, None])
    with pytest.raises(ValueError, match="a point of a box"):
        at_a_point(at(["1", "3/5"], "0.51", program, boxes, [False, None]))


def test_what_is_equal_in_rationals_is_seen_to_be() -> None:
    """x / 3 + x / 3 + x / 3 and x, and a root that is squared."""
    thirds = "in >=\nconst 3\n/ 2 1\n+ 1 1\n+ 1 2\n= 4 0"
    assert is_shown(["1/7"], "1", thirds, UNIT)
    root = "in >=\nroot 1\n* 1 1\n= 2 0"
    assert is_shown(["1/4"], "1", root, UNIT)
    assert not is_shown(["1/3"], "1", root, UNIT)
    assert is_shown(["1/3"], "0.999999999999", root, UNIT)


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["scaled", "nearly"], ["mean", "product", "cosh", "scaled", "whole", "nearly", "entries"]
    ),
)
def test_a_certificate_names_a_point_and_edits_are_refused(name: str) -> None:
    content = certificate(name)
    assert at_a_point(content)
    assert verify(content)
    high = str(Fraction(content["ratio"][1]))
    with pytest.raises(Open):
        at_a_point({**content, "ratio": [high, high]})
    first, *rest = content["at"]
    for edit in (
        [first],
        [*content["at"], "1"],
        ["1000", *rest],
        [f"{first}/1", *rest],
        [Fraction(first).numerator, *rest],
        dict.fromkeys(content["at"]),
        "",
        None,
    ):
        if edit != content["at"]:
            with pytest.raises(Refused):
                verify({**content, "at": edit})
    with pytest.raises(Refused, match="beside a `formula`"):
        verify({name: value for name, value in content.items() if name != "formula"})
    assert verify({name: value for name, value in content.items() if name != "at"})


def test_a_point_of_the_boxes_that_is_no_instance_is_refused_by_who_knows_the_claim() -> None:
    """Of three numbers from 1/100 to 100 the boxes have the first at 1, up to scaling."""
    (item,) = find_claims([f"{BOUNDS}::bounds.share"])
    weights = [(Fraction(1), Fraction(1), Fraction(1))]
    cover = Cover(item.entry.space, {}, weights)
    low, high = cover.roots()
    assert (low[1, 0], high[1, 0]) == pytest.approx((1e-4, 1e4))
    for numbers in (("1", "1/10000", "1/10000"), ("1", "10000", "1"), ("1", "1/100", "100")):
        check_instance(cover, [*map(Fraction, numbers)])
    none = [("1", "10000", "1/10000"), ("1", "1/20000", "1"), ("1", "1/101", "100")]
    for numbers in none:
        with pytest.raises(Unprovable, match="up to scaling"):
            check_instance(cover, [*map(Fraction, numbers)])
    content = {**certificate("share"), "at": [*none[0]]}
    content["ratio"] = ["1/20000", content["ratio"][1]]
    assert at_a_point(content)
    with pytest.raises(Refused, match="of an instance, up to scaling"):
        verify(content)


def test_the_sides_at_a_point_are_the_claims_own() -> None:
    """Of min(s, t) |x| and (s + t) |x| nothing is shown at x = 0, whatever s and t are."""
    content = certificate("scaled")
    whole, boxes = json.loads(unpacked(content["formula"]).split("\n")[0][2:])
    assert (whole, ["0", "0"] in [box[0] for box in boxes]) == ([False] * 3, True)
    _, s, t = content["at"]
    assert (s, t) == ("1", "1")
    with pytest.raises(Open):
        at_a_point({**content, "at": ["0", s, t]})


def test_the_ranges_of_differences_and_assumptions_are_looked_at() -> None:
    space = rc.Space({"x": rc.interval(), "y": rc.interval()})
    cover = Cover(space, {}, charts=[("from", 0, 1)])
    check_instance(cover, [Fraction(1, 2), Fraction(1, 2)])
    with pytest.raises(Unprovable):
        check_instance(cover, [Fraction(1, 2), Fraction(3, 4)])  # x = 5/4
    with pytest.raises(Unprovable):
        check_instance(cover, [Fraction(1, 2)])
    low = rc.Space({"x": rc.interval()}, given={"x is small": lambda one: one.x <= 0.5})
    check_instance(Cover(low, {}), [Fraction(1, 2)])
    with pytest.raises(Unprovable):
        check_instance(Cover(low, {}), [Fraction(3, 4)])


def test_what_is_scaled_lies_in_its_ball() -> None:
    """With r = 1 the boxes hold every v of size 1/r, r from 1/2 on, and more: v = (3/2, 3/2)."""
    space = rc.Space({"r": rc.positive(low=0.5, high=2.0), "v": rc.ball("n")})
    weights = [(Fraction(1), Fraction(1), Fraction(1))]
    cover = Cover(space, {"n": 2}, weights)
    for v in ((1, 1), (2, 0), (Fraction(6, 5), Fraction(8, 5))):
        check_instance(cover, [*map(Fraction, (1, *v))])
    assert cover.roots()[1][:, 0] == pytest.approx([1, 2, 2])
    for v in ((Fraction(3, 2), Fraction(3, 2)), (2, Fraction(1, 10**6))):
        with pytest.raises(Unprovable):
            check_instance(cover, [*map(Fraction, (1, *v))])
    pulled = Cover(rc.Space({"v": rc.ball("n")}), {"n": 2})
    check_instance(pulled, [Fraction(1), Fraction(1)])  # which is pulled onto the ball


SPACES: dict[str, tuple[rc.Space, list[Any]]] = {
    "intervals": (rc.Space({"x": rc.interval("n"), "k": rc.whole_numbers(low=1, high=9)}), []),
    "shares": (rc.Space({"mu": rc.simplex("n", "S")}), []),
    "balls": (rc.Space({"v": rc.ball("n", "S"), "u": rc.sphere("n", "S")}), []),
    "reals": (rc.Space({"v": rc.reals("n", "S")}), []),
    "differences": (rc.Space({"x": rc.interval(), "y": rc.interval()}), [("from", 0, 1)]),
    "sizes": (rc.Space({"v": rc.reals("S")}), [("from", 1, 0), ("size", 1, 2)]),
}


@pytest.mark.parametrize("name", SPACES)
def test_coordinates_of_an_instance_are_those_that_make_it(name: str) -> None:
    space, charts = SPACES[name]
    sizes = {axis: 3 for axis in space.sizes}
    rng = np.random.default_rng(3)
    cover = Cover(space, sizes, charts=charts)
    low, high = (ends.T.tolist() for ends in cover.roots())
    for _ in range(20):
        drawn = {
            field: domain.repair(rng.uniform(-1, 3, (1, *domain.shape(sizes))))
            for field, domain in space.fields.items()
        }
        instance = {field: values[0].tolist() for field, values in drawn.items()}
        *_, point = points(cover, instance)
        made = cover.fields([float(x) for x in point])
        for field, values in made.items():
            assert values.astype(float) == pytest.approx(drawn[field], abs=1e-12)
        assert any(
            all(a <= x <= b for a, x, b in zip(*box, strict=True))
            for box in ((one, point, other) for one, other in zip(low, high, strict=True))
        )
        check_instance(cover, point)


def test_scaled_coordinates_are_those_of_the_instance_up_to_scaling() -> None:
    space = rc.Space({"x": rc.positive(), "y": rc.positive(), "v": rc.reals("n")})
    weights = [
        (Fraction(1), Fraction(2), Fraction(0), Fraction(0)),
        (Fraction(0), Fraction(0), Fraction(1), Fraction(1)),
    ]
    cover = Cover(space, {"n": 2}, weights)
    *_, point = points(cover, {"x": 3.0, "y": 5.0, "v": [2.0, -7.0]})
    x, y, *v = point
    assert (x, y) == (1, Fraction(5, 9))
    assert v == [Fraction(200, 7), -100]
    check_instance(cover, point)


def both_ends(paper: str) -> list[dict[str, Any]]:
    folder = Path(*papers.installed()[paper].split(".")) / "results"
    return [dict(copy.deepcopy(one)) for one in kept.read(folder)["certificates"] if "at" in one]


@pytest.mark.parametrize("paper", slow_but(["psl"], [*papers.installed()]))
def test_both_ends_are_shown_without_the_project(paper: str, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    some = sorted(both_ends(paper), key=lambda one: (one["boxes"], len(one["formula"])))[:3]
    path.write_text(json.dumps({"certificates": some}))
    code, said = alone(CHECKER, path)
    assert code == 0, said
    for one, line in zip(some, said.splitlines(), strict=True):
        low, high = one["ratio"]
        assert line.startswith(f"{one['id']}: {check_constant.SHOWN}, q = {high}; ")
        assert f"; {check_constant.FOUND}, low = {low}. Not decided: " in line
        assert "that the point is one up to scaling" in line
    one, (low, high) = some[0], some[0]["ratio"]
    for change, code, told in (
        ({"ratio": [high, high]}, 2, "not decided here: T >= low B and B > 0 is not seen"),
        ({"at": ["1e9"]}, 1, "refused: "),
        ({"at": ["1000000000"] * len(one["at"])}, 1, "refused: `at` must be a point of a box"),
    ):
        path.write_text(json.dumps({**one, **change}))
        found, said = alone(CHECKER, path)
        assert (found, told in said) == (code, True), said
    del one["at"]
    path.write_text(json.dumps(one))
    code, said = alone(CHECKER, path)
    assert (code, "; the lower end" in said, check_constant.FOUND in said) == (0, True, False)


def test_a_constant_without_a_point_keeps_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_formula, "points", lambda *_: [])
    content = proved("product")
    assert "formula" in content
    assert "at" not in content
    assert verify(content)


def test_simple_numbers_are_tried_first_and_stay_in_their_ranges() -> None:
    space = rc.Space({"x": rc.interval(low=0.1, high=0.9)})
    found = [*points(Cover(space, {}), {"x": 0.123456})]
    assert found[0] == [Fraction(1, 10)]
    assert found[-1] == [Fraction(123456, 10**6)]
    assert all(Fraction(1, 10) <= x <= Fraction(9, 10) for (x,) in found)
    assert tuple(sorted(constant_point._MOST)) == constant_point._MOST
