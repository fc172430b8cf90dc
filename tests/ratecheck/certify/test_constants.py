"""Intervals for the best constants of bounds, and certificates of them that are false."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import math
import re
import time
import zlib
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ratecheck as rc
from linsys import InputError
from linsys.linalg.boxes import coordinates
from linsys.linalg.boxes_arithmetic import box_arithmetic
from ratecheck._certify import constant_search, constants, ratios
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.branch import Branching, grown, is_over
from ratecheck._certify.check import apart
from ratecheck._certify.cover import Coordinate, Cover, charts_of
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import problem
from ratecheck._certify.prove import prove_constant
from ratecheck._certify.stated import check_sizes
from ratecheck._certify.workers import Note
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Space
from ratecheck._commands import certify_constants
from ratecheck._commands.app import app
from ratecheck._commands.certify_constants import line, sizes_of_text
from ratecheck._discover.catalogue import find_claims
from ratecheck._processes.limit import TimeLimit
from ratecheck._search.search import Effort
from ratecheck._verdicts import certificates as kept
from ratecheck._verdicts.evidence import Evidence, of_certificate
from tests._slow import slow_but
from tests.ratecheck.certify._files import ClaimsOf

claim_of = ClaimsOf("bounds.py")
ITEMS = claim_of.items
FILE = claim_of.file


@cache
def is_verified(name: str) -> bool:
    return bool(verify(certificate(name)))


@cache
def enclosed(name: str, limit: float = 20.0) -> tuple[dict[str, Any] | None, str]:
    return constant_search.constant(ITEMS[name], limit=limit)


def certificate(name: str) -> dict[str, Any]:
    content, reason = enclosed(name)
    assert content is not None, reason
    return copy.deepcopy(content)


@pytest.mark.parametrize(
    ("name", "best"),
    slow_but(["mean", "cosh", "branch"], [
        ("mean", 1.0), ("product", 0.25), ("cosh", 0.5), ("difference", 0.5), ("scaled", 0.5),
        ("branch", 1.0), ("slope", math.exp(2) / 9), ("sizes", 1.0),
    ]),
)  # fmt: skip
def test_the_best_constant_is_in_the_interval(name: str, best: float) -> None:
    content = certificate(name)
    low, high = map(Fraction, content["ratio"])
    assert low <= Fraction(best) <= high
    assert high - low <= Fraction(best) / 50
    assert verify(content) == constants.said(content)


def test_a_loop_over_a_whole_number_is_followed_number_by_number() -> None:
    content = certificate("whole")
    best = sum(1 / k**2 for k in range(1, 31)) / 2
    assert float(content["ratio"][0]) <= best <= float(content["ratio"][1]) <= best * 1.02


def test_sizes_are_the_smallest_at_which_the_claim_says_something() -> None:
    assert certificate("mean")["sizes"] == {"n": 1}
    assert certificate("difference")["sizes"] == {"n": 2, "d": 1}  # with n = 1 both sides are 0
    content = rc.certify(claim_of("mean"), constant=True, sizes={"n": 3}).certificate
    assert content is not None
    assert content["sizes"] == {"n": 3}
    assert verify(content).startswith("ratio in [0.99999") or verify(content).startswith(
        "ratio in [1,"
    )


def test_what_is_not_enclosed_says_why() -> None:
    content, reason = enclosed("leaves")
    assert content is None
    line = FILE.read_text().splitlines().index("    return x, np.sin(x / 2) * 4") + 1
    assert f"bounds.py:{line}, `return x, np.sin(x / 2) * 4`: TypeError" in reason
    content, reason = enclosed("vanishes", 2.0)
    assert content is None
    assert reason.startswith("the limit ended it; nothing is known where x in [")
    assert reason.endswith("; both sides are near zero there")


@pytest.mark.parametrize("name", slow_but(["wedge", "point"], ["disk", "wedge", "point"]))
def test_a_bound_that_is_false_in_a_small_place_is_broken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = prove_constant(ITEMS[name], limit=20.0)
    assert proof.certificate is not None
    assert proof.certificate["kind"] == "counterexample"
    assert proof.reason.startswith("the attempt at a proof broke the claim: ")
    assert verify(dict(proof.certificate)).startswith("violated: ")
    assert of_certificate(proof.certificate) == Evidence.FALSE
    assert "proved false by exact rationals; " in line(proof)
    monkeypatch.setattr(constant_search, "_tightest", lambda *_, **__: None)  # mutation
    proof = prove_constant(ITEMS[name], limit=1.0)
    assert proof.certificate is None or proof.certificate["kind"] == "constant"


def test_of_a_bound_that_is_known_to_be_false_the_largest_ratio_is_looked_for() -> None:
    content = certificate("count")
    assert of_certificate(content) == Evidence.FALSE
    assert content["ratio"][0] == "5"
    assert 5 <= float(content["ratio"][1]) < 5.1


def test_a_larger_ratio_in_a_small_place_is_what_is_enclosed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = certificate("peak")
    low, high = map(Fraction, content["ratio"])
    assert low <= Fraction(9, 10) <= high <= Fraction(91, 100)
    assert low > Fraction(89, 100)
    monkeypatch.setattr(constant_search, "_tightest", lambda *_, **__: None)  # mutation
    proof = prove_constant(ITEMS["peak"], limit=4.0)
    assert proof.certificate is not None
    assert proof.certificate["ratio"][0] == "0.5"
    assert float(proof.certificate["ratio"][1]) >= 0.9
    told = re.fullmatch(r"the gap is where x in \[(.*), (.*)\], y in .*", proof.reason)
    assert told is not None, proof.reason
    assert float(told[1]) < 0.3141 + 2e-9
    assert float(told[2]) > 0.3141 - 2e-9
    assert proof.reason in line(proof)


def test_the_middle_of_a_box_is_an_instance_of_the_space() -> None:
    """Scaled into the ranges where the first box is one of many scales."""
    rng = np.random.default_rng(7)
    for name in ("scaled", "wedge", "difference", "sizes"):
        claim = claim_of(name)
        for sizes in claim.space.all_sizes()[:3]:
            made = problem(claim, sizes)
            low, high = made.cover.roots()
            for _ in range(10):
                at = rng.uniform(low[:, 0], high[:, 0])
                fields = made.cover.instance(at)
                assert claim.space.meets(fields)[0]
                if name != "wedge":
                    continue
                assert fields["y"][0] / fields["x"][0] == pytest.approx(at[1] / at[0], rel=1e-9)


def test_the_ratio_of_several_entries_is_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = map(Fraction, certificate("entries")["ratio"])
    assert low == Fraction(1, 2) <= high <= Fraction(501, 1000)
    instance = {"a": 0.5, "b": 0.5}
    assert ratios.at_least(claim_of("entries"), instance) == Fraction(1, 2)
    monkeypatch.setattr(ratios, "_quotient", apart)  # mutation: the entry 0 <= 0 is nearest
    assert ratios.at_least(claim_of("entries"), instance) is None


@pytest.mark.parametrize(
    ("ratio", "word"),
    [
        (["1", "1"], Evidence.SIZES),
        (["0.5", "0.6"], Evidence.ENCLOSED),
        (["1", "1.0005"], Evidence.FACTOR),
        (["0.5", "100"], Evidence.FACTOR),
        (["1.2", "1.3"], Evidence.FALSE),
    ],
)
def test_the_word_for_a_constant_says_whether_the_bound_is_proved(
    ratio: list[str], word: Evidence
) -> None:
    one = {"kind": "constant", "ratio": ratio, "sizes": {}}
    assert of_certificate(one) is word
    assert kept.in_words(one).startswith(f"{word}: ratio in [")


def test_bad_input_is_one_line() -> None:
    with pytest.raises(InputError, match=r"`sizes` must be of \['n'\]; found \['m'\]"):
        rc.certify(claim_of("mean"), constant=True, sizes={"m": 2})
    with pytest.raises(InputError, match="size `n` must be from 1 to 4; found 9"):
        rc.certify(claim_of("mean"), constant=True, sizes={"n": 9})
    with pytest.raises(InputError, match="`constant` must be True with `sizes`; found False"):
        rc.certify(claim_of("mean"), sizes={"n": 2})
    with pytest.raises(InputError, match="`instance` must be left out with `constant`"):
        rc.certify(claim_of("mean"), {"x": [1.0]}, constant=True)
    with pytest.raises(InputError, match="must be an upper or a lower bound"):
        rc.certify("fslora.unbiased", constant=True)
    with pytest.raises(InputError, match="must look like n=2,d=1, in 1 to 640 digits; found 'n:2'"):
        sizes_of_text(["n:2"])
    for size in ("²", "٢", "-1", "", "10^20", "9" * 5_000):
        with pytest.raises(InputError, match="n=2,d=1, in 1 to 640 digits; found 'n=") as said:
            sizes_of_text([f"n={size},d=1"])
        assert len(str(said.value)) < 130
    assert sizes_of_text(["n=2,d=1", "S=3"]) == {"n": 2, "d": 1, "S": 3}
    # a size is compared with its range also where others are missing, and has any number of digits
    large = sizes_of_text([f"n={10**20}"])
    with pytest.raises(InputError, match="`n` must be from 1 to 4; found 1000000000"):
        check_sizes(claim_of("mean"), large)
    with pytest.raises(InputError, match="size `n` must be from 1 to 4; found 9"):
        check_sizes(find_claims("affpcl.d1a")[0].entry, {"n": 9})


def without_a_leaf(content: dict[str, Any]) -> None:
    codes = zlib.decompress(base64.b85decode(content["tree"]))
    content["tree"] = base64.b85encode(zlib.compress(codes[:-1])).decode()


def with_an_early_leaf(content: dict[str, Any]) -> None:
    """The first division left out: a box is said to be done that is not."""
    codes = zlib.decompress(base64.b85decode(content["tree"]))
    roots = next(k for k, code in enumerate(codes) if code)
    content["tree"] = base64.b85encode(zlib.compress(bytes(roots + 1))).decode()


def with_another_coordinate(content: dict[str, Any]) -> None:
    codes = bytes(200 if code else 0 for code in zlib.decompress(base64.b85decode(content["tree"])))
    content["tree"] = base64.b85encode(zlib.compress(codes)).decode()


def with_a_leaf_more(content: dict[str, Any]) -> None:
    codes = zlib.decompress(base64.b85decode(content["tree"])) + b"\0"
    content["tree"] = base64.b85encode(zlib.compress(codes)).decode()


def tightened(content: dict[str, Any]) -> None:
    content["target"], content["ratio"] = "0.24", ["0.2", "0.24"]


def set_to(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update({name: value})


FALSE = {
    "a leaf is missing": (without_a_leaf, "must say what becomes of"),
    "a box is not divided": (with_an_early_leaf, "a leaf of the tree is proved with the constant"),
    "a division that there is not": (with_another_coordinate, "a coordinate that there is not"),
    "a leaf too many": (with_a_leaf_more, "the tree must have"),
    "no tree": (set_to("tree", "!"), "the tree is not readable"),
    "a tightened constant": (tightened, "a leaf of the tree is proved with the constant"),
    "a target above the constant": (set_to("target", "0.3"), "`target` not above them"),
    "ends out of order": (set_to("ratio", ["0.3", "0.2502"]), "must be in order"),
    "a ratio that no instance has": (set_to("ratio", ["0.2501", "0.2502"]), "the ratio at `inst"),
    "another instance": (set_to("instance", {"x": 0.0, "y": 0.0}), "the ratio at `instance`"),
    "more scalings than there are": (set_to("alike", []), "do not scale alike in all boxes"),
    "scalings of other numbers": (set_to("alike", [["1"]]), "`alike` must have rows of 2"),
    "another number of boxes": (set_to("boxes", 1), "`boxes` must be"),
    "another revision": (set_to("revision", "0123456789abcdef"), "`revision` must be"),
    "another relation": (set_to("relation", ">="), "`relation` must be <="),
    "other sizes": (set_to("sizes", {"n": 1}), "`sizes` must be of"),
    "another arithmetic": (set_to("arithmetic", "balls"), "`arithmetic` must be"),
    "no numbers": (set_to("ratio", ["one", "two"]), "must be numbers"),
    "an infinite one": (set_to("ratio", ["0", "1e999"]), "must be numbers"),
    "an endless one": (set_to("ratio", ["0", "1e20000000"]), "must be numbers"),
    "an infinite target": (set_to("target", "inf"), "`target` not above them"),
    "another sign": (set_to("bound", "positive"), "`bound` must be that of the boxes"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_certificate_is_refused(what: str) -> None:
    change, reason = FALSE[what]
    assert is_verified("product")
    content = certificate("product")
    change(content)
    with pytest.raises((Refused, InputError), match=reason):
        verify(content)


def test_a_constant_below_one_is_a_proof_where_the_bound_is_not_negative() -> None:
    """-0.95 x <= -x is false, though -0.95 x <= 0.9 (-x): the evidence is weaker, and says so."""
    assert certificate("product")["bound"] == "not negative"
    assert of_certificate(certificate("product")) is Evidence.SIZES
    one = certificate("negative")
    assert Fraction(one["ratio"][1]) < 1
    assert "bound" not in one
    assert of_certificate(one) is Evidence.ENCLOSED
    assert "where the bound is not negative" in verify(one)
    with pytest.raises(Refused, match="`bound` must be that of the boxes; found 'not negative'"):
        verify(one | {"bound": "not negative"})


def test_a_constant_is_not_that_of_other_numbers_than_float64() -> None:
    """With float64 the ratio is four times that of the boxes."""
    entry = claim_of("product")

    def measure(s: Any) -> rc.Sides:
        measured, bound = entry.measure(s)
        return measured * (4 if isinstance(s.x, float) else 1), bound

    assert constants.replayed(certificate("product"), entry)
    with pytest.raises(Unprovable, match=r"at most 0.25\d* in float64 as well"):
        constants.replayed(certificate("product"), dataclasses.replace(entry, measure=measure))


def test_a_tightened_bound_has_no_certificate() -> None:
    """0.24 instead of 1/4: the search is above it, and no tree proves it."""
    branching = Branching(problem(claim_of("product"), {}), 0.24)
    for _ in range(6):
        branching.step()
    assert not branching.done
    assert branching.proved >= 0.25


def test_a_search_that_is_stopped_has_what_it_knows_and_goes_on(tmp_path: Path) -> None:
    whole = Branching(problem(claim_of("product"), {}), 0.2501)
    steps = [whole.proved]
    while not whole.done:
        whole.step()
        steps.append(whole.proved)
    assert steps == sorted(steps, reverse=True)
    part = Branching(problem(claim_of("product"), {}), 0.2501)
    part.step()
    part.save(tmp_path / "state.npz", "key")
    later = Branching(problem(claim_of("product"), {}), 0.2501)
    assert not later.load(tmp_path / "state.npz", "another key")
    assert not later.load(tmp_path / "none.npz", "key")
    assert later.load(tmp_path / "state.npz", "key")
    while not later.done:
        later.step()
    assert later.tree() == whole.tree()


@pytest.mark.slow
def test_a_tree_that_is_not_confirmed_is_found_level_by_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a box was closed because of others that were evaluated together with it."""
    roots = bytes(Branching(problem(claim_of("product"), {}), 0.2501).roots)
    undivided = base64.b85encode(zlib.compress(roots)).decode()
    monkeypatch.setattr(Branching, "tree", lambda self: undivided)
    content, reason = constant_search.constant(ITEMS["product"], limit=20.0)
    assert content is not None, reason
    assert content["tree"] != undivided
    assert verify(content)
    with pytest.raises(Unprovable, match="has more than 3 boxes"):
        grown(problem(claim_of("product"), {}), 0.2501, 0.2501, 3)
    monkeypatch.setattr(constant_search, "_GROWN", 0)
    content, reason = constant_search.constant(ITEMS["product"], limit=20.0)
    assert (content, reason.partition(" that")[0]) == (None, "the tree")


def test_a_tightened_bound_has_no_tree_level_by_level_either() -> None:
    with pytest.raises(Unprovable, match="has more than 2,000 boxes"):
        grown(problem(claim_of("product"), {}), 0.24, 0.24, 2_000)


def test_the_cover_holds_every_instance() -> None:
    """Coordinates of instances that the space draws are in a box to start with."""
    space = Space(
        {"p": rc.simplex("k"), "s": rc.positive(), "x": rc.reals("k"), "b": rc.ball("k"),
         "t": rc.whole_numbers(low=1, high=9), "u": rc.sphere("k")},
        {"k": (2, 2)},
    )  # fmt: skip
    cover = Cover(space, {"k": 2})
    low, high = cover.roots()
    layout = space.layout({"k": 2})
    drawn = layout.decode(np.random.default_rng(0).random((200, layout.coordinates)))
    for k in range(200):
        p, s, x, b, t = (drawn[name][k] for name in ("p", "s", "x", "b", "t"))
        face = drawn["u"][k] / np.abs(drawn["u"][k]).max()
        numbers = np.array([p[0], s, *x, *b, t, *face])
        slack = 1e-12 * np.abs(numbers)[:, None]
        inside = (low - slack <= numbers[:, None]) & (numbers[:, None] <= high + slack)
        assert inside.all(axis=0).any(), numbers


def charts() -> tuple[Space, list[Any]]:
    """A space, and all charts that are tried on it."""
    space = Space(
        {"x": rc.reals("k", "d"), "y": rc.reals("k", "d"), "b": rc.ball("d"), "p": rc.simplex("k"),
         "q": rc.simplex("k")},
        {"k": (2, 2), "d": (2, 2)},
    )  # fmt: skip
    return space, charts_of(space, {"k": 2, "d": 2})


def in_a_chart(cover: Cover, numbers: list[float]) -> list[float]:
    """Coordinates of an instance after the charts of a cover."""
    for name, *at in cover.charts:
        if name == "from":
            numbers[at[0]] -= numbers[at[1]]
            continue
        ends = [cover.coordinates[i].high for i in at]
        size = max(abs(numbers[i]) / end for i, end in zip(at, ends, strict=True)) or 1.0
        for i in at:
            numbers[i] /= size
        numbers.append(size)
    return numbers


def is_covered(cover: Cover, low: Any, high: Any, numbers: list[float]) -> bool:
    """Whether a box to start with holds an instance, and is not said to be without any."""
    at = np.array(in_a_chart(cover, list(numbers)))[:, None]
    slack = 1e-12 * np.maximum(np.abs(at), 1e-3)
    inside = ((low - slack <= at) & (at <= high + slack)).all(axis=0)
    with box_arithmetic():
        return bool((inside & ~cover.outside(low, high)).any())


def test_charts_hold_every_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    space, tried = charts()
    assert {chart[0] for one in tried for chart in one} == {"from", "size"}
    rng, sizes = np.random.default_rng(1), {"k": 2, "d": 2}
    plain = Cover(space, sizes).coordinates
    drawn = [[rng.uniform(one.low, one.high) for one in plain] for _ in range(20)]
    for one in tried:
        cover = Cover(space, sizes, charts=one)
        low, high = cover.roots()
        assert all(is_covered(cover, low, high, numbers) for numbers in drawn), one
    # without one of the faces, or with the range of a difference as that of the number, it is not
    cover = Cover(space, sizes, charts=[("size", 0, 1, 2, 3)])
    low, high = cover.roots()
    assert not all(is_covered(cover, low[:, 1:], high[:, 1:], numbers) for numbers in drawn)
    cover = Cover(space, sizes, charts=[("from", 11, 10)])
    low, high = cover.roots()
    low[11] = 0.0
    assert not all(is_covered(cover, low, high, numbers) for numbers in drawn)


def test_boxes_without_an_instance_are_left_out_and_numbers_stay_in_their_range() -> None:
    space = Space({"p": rc.simplex("k"), "q": rc.simplex("k")}, {"k": (2, 2)})
    cover = Cover(space, {"k": 2}, charts=[("from", 1, 0)])
    low, high = np.array([[0.2, 0.2], [-0.3, -0.5]]), np.array([[0.4, 0.4], [0.9, -0.41]])
    with box_arithmetic():
        assert cover.outside(low, high).tolist() == [False, True]
        q = cover.fields(coordinates(low[:, :1], high[:, :1]))["q"][0]
        assert (q[0].lo[0], q[0].hi[0]) == (0.0, 1.0)


@pytest.mark.parametrize(
    "chart",
    [("size", 0, 9), ("size",), ("from", 0, 0), ("turn", 0, 1), (), ("size", 2), ("from", 0)],
)
def test_charts_of_other_coordinates_are_refused(chart: Any) -> None:
    space = Space({"x": rc.reals("k"), "s": rc.positive()}, {"k": (2, 2)})
    with pytest.raises(Unprovable, match="`charts` must be of the coordinates"):
        Cover(space, {"k": 2}, charts=[chart])


@pytest.mark.slow
def test_where_both_sides_vanish_on_a_line_a_chart_shows_the_constant() -> None:
    sizes = {"n": 3}
    content, reason = constant_search.constant(ITEMS["apart"], sizes, limit=40.0)
    assert content is not None, reason
    assert content["charts"]
    low, high = map(Fraction, content["ratio"])
    assert Fraction(99, 100) <= low <= 1 <= high <= low * Fraction(102, 100)
    assert verify(content)
    false = (
        (lambda c: c.pop("charts"), "`alike` must have rows of 4"),
        (set_to("charts", []), "`alike` must have rows of 4"),
        (set_to("charts", [["size", 0, 1, 2]]), "a leaf of the tree|must say what|scale alike"),
        (set_to("charts", [["size", 0, 7]]), "`charts` must be of the coordinates"),
        (set_to("charts", 1), "must be numbers"),
        (lambda c: c.update(target="0.97", ratio=["0.9", "0.97"]), "a leaf of the tree is proved"),
    )
    for change, message in false:
        other = copy.deepcopy(content)
        change(other)
        with pytest.raises(Refused, match=message):
            verify(other)
    # and the tightened bound has none
    made = problem(claim_of("apart"), sizes, charts=[tuple(c) for c in content["charts"]])
    branching = Branching(made, 0.97)
    for _ in range(6):
        if not branching.done:
            branching.step()
    assert not branching.done


def test_scalings_fix_a_positive_number_or_put_the_others_on_a_surface() -> None:
    made = problem(claim_of("scaled"), {"d": 1})
    weights = {tuple(map(int, w)) for w in made.cover.symmetries}
    assert weights == {(1, 0, 0), (0, 1, 1)}
    low, high = made.cover.roots()
    assert sorted(low[0].tolist()) == [-100.0, 0.0, 100.0]
    assert (low[1] == high[1]).all()  # s is fixed, and t has all quotients
    assert low[2].max() <= 1e-4
    assert high[2].min() >= 1e4


def test_parts_of_a_range_leave_out_nothing() -> None:
    from ratecheck._certify.branch import divided

    zooms = [("zoom", *ends) for ends in ((-3.0, 5.0), (0.0, 5.0), (0.5, 5.0), (-5.0, 0.0))]
    for kind, low, high in (("even", 0.0, 1.0), ("ratio", 0.01, 100.0), *zooms):
        one = Coordinate("x", low, high, kind)  # type: ignore[arg-type]
        lows, highs = divided([one], np.array([[low]]), np.array([[high]]), [0])
        assert lows[0, 0] == low
        assert highs[0, 0] == lows[0, 1]
        assert highs[0, 1] == high
        assert low < highs[0, 0] < high
    whole = Coordinate("t", 1.0, 30.0, "whole")
    lows, highs = divided([whole], np.array([[1.0]]), np.array([[30.0]]), [0])
    assert lows[0, 1] == highs[0, 0] + 1


def test_the_command_prints_writes_and_checks(tmp_path: Path) -> None:
    run = CliRunner().invoke
    result = run(app, ["certify", f"{FILE}::bounds.mean", "--sizes", "n=2", "--out", str(tmp_path)])
    assert "`--sizes` must stand beside `--constant`" in str(result.exception)
    arguments = ["certify", f"{FILE}::bounds.mean", "--constant", "--sizes", "n=2"]
    result = run(app, [*arguments, "--out", str(tmp_path), "--limit", "20"])
    assert result.exit_code == 0, result.output
    assert "bounds.mean: ratio in [" in result.output
    assert "for n = 2" in result.output
    path = tmp_path / "bounds.mean.constant.json"
    assert json.loads(path.read_text())["kind"] == "constant"
    result = run(app, ["certify", "--check", str(path)])
    assert result.exit_code == 0
    assert "ratio in [" in result.output
    result = run(app, ["certify", "fslora.unbiased", "--constant", "--out", str(tmp_path)])
    assert result.exit_code != 0


def test_an_attempt_that_breaks_the_claim_is_written_as_what_it_is(tmp_path: Path) -> None:
    run = CliRunner().invoke
    common = ["--out", str(tmp_path / "out"), "--write", str(tmp_path), "--limit", "20"]
    assert run(app, ["certify", f"{FILE}::bounds.disk", *common]).exit_code == 0
    assert kept.read(tmp_path)["certificates"] == []
    result = run(app, ["certify", f"{FILE}::bounds.disk", "--constant", *common])
    assert "the attempt at a proof broke the claim" in " ".join(result.output.split())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bounds.disk.json"]
    (one,) = kept.read(tmp_path)["certificates"]
    assert (one["kind"], kept.read(tmp_path)["unproved"]) == ("counterexample", [])


def test_other_certificates_are_written_beside_those_of_constants(tmp_path: Path) -> None:
    run = CliRunner().invoke
    common = ["--out", str(tmp_path / "out"), "--write", str(tmp_path), "--limit", "20"]
    for more in ([], ["--constant"], []):
        result = run(app, ["certify", f"{FILE}::bounds.mean", *more, *common])
        assert result.exit_code == 0, result.output
    whole = kept.read(tmp_path)
    assert [one["kind"] for one in whole["certificates"]] == ["constant"]
    assert whole["unproved"] == []
    assert kept.enclosed(whole) == 1
    assert "| `bounds.mean` | n = 1 | 1 | 1.0005" in (tmp_path / kept.TABLES).read_text()
    said = kept.in_words(whole["certificates"][0])
    assert said.startswith("proved up to a factor: ratio in [1, 1.0005")


@pytest.mark.slow
def test_a_claim_is_written_beside_the_others_and_a_file_anew(tmp_path: Path) -> None:
    run = CliRunner().invoke
    file = tmp_path / "mine.py"
    measure = "import ratecheck as rc\n" + "".join(
        f"""
@rc.claim(id="mine.{name}", source="s", kind="upper", fields={{"x": rc.interval()}}, text="t")
def {name}(i):
    return i.x + 1, i.x
"""
        for name in ("one", "two", "three")
    )
    file.write_text(measure)
    common = ["--out", str(tmp_path / "out"), "--write", str(tmp_path)]

    def names(reference: str) -> list[str]:
        result = run(app, ["certify", reference, *common])
        assert result.exit_code == 0, result.output
        return sorted(one["id"] for one in kept.read(tmp_path)["certificates"])

    every = ["mine.one", "mine.three", "mine.two"]
    assert names(str(file)) == every
    assert names(f"{file}::mine.two") == every
    assert names(f"{file}::mine.t*") == every
    file.write_text(measure.replace('"mine.three"', '"mine.four"'))
    assert names(str(file)) == ["mine.four", "mine.one", "mine.two"]


def long_search(state: Path, doing: constant_search.Doing, limit: float = 60.0) -> Any:
    return constant_search.constant(ITEMS["product"], limit=limit, state=state, doing=doing)


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between two steps loses what came after the search was kept, and nothing else."""
    monkeypatch.setattr(constant_search, "_FIRST", 0.0)  # only the search in the end is kept
    monkeypatch.setattr(constant_search, "_KEPT", 0.0)
    state, counts = tmp_path / "one.npz", list[int]()

    def killed(boxes: int, left: int, gap: tuple[float, float]) -> None:
        assert 0 < gap[0] <= gap[1]
        counts.append(boxes)
        if len(counts) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        long_search(state, killed)
    kept_state = state.read_bytes()
    assert not is_over(state)
    assert counts[0] < counts[1] < counts[2]
    again: list[int] = []
    content, reason = long_search(state, lambda boxes, left, gap: again.append(boxes))
    assert content is not None, reason
    assert again[0] == counts[2]  # two steps were kept, and the third is done again
    # it is over, and goes on from its end until the certificate is stored, whose search is removed
    assert is_over(state)
    assert long_search(state, lambda boxes, left, gap: None) == (content, reason)
    with monkeypatch.context() as patched:
        patched.setattr(constant_search, "_LITTLE", -1.0)  # without a second, closer one
        again.clear()
        assert long_search(state, lambda boxes, left, gap: again.append(boxes))[0] is not None
        assert again == []
    certify_constants._write(content, tmp_path)
    assert is_over(state)  # of another claim
    state.rename(tmp_path / f"{content['id']}.npz")
    certify_constants._write(content, tmp_path)
    assert list(tmp_path.glob("*.npz")) == []
    for damaged in (kept_state[: len(kept_state) // 2], b"PK", b""):
        state.write_bytes(damaged)
        again.clear()
        assert long_search(state, lambda boxes, left, gap: again.append(boxes))[0] == content
        assert again[0] == counts[0]  # from the beginning
    monkeypatch.setattr(constant_search, "_KEPT", 60.0)
    state.unlink()
    assert long_search(state, lambda boxes, left, gap: None)[0] == content
    assert is_over(state)  # also where it took no time


@pytest.mark.slow
def test_what_a_folder_has_is_checked_and_not_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CliRunner().invoke
    arguments = ["certify", f"{FILE}::bounds.mean", "--constant", "--out", str(tmp_path)]
    first = run(app, [*arguments, "--limit", "20"])
    path = tmp_path / "bounds.mean.constant.json"
    content = json.loads(path.read_text())

    def searched(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("searched again")

    def again(sizes: Any = None) -> Any:
        note = Note(tmp_path / "note")
        return certify_constants._prove(ITEMS["mean"], sizes, tmp_path, 20.0, note)

    assert run(app, [*arguments, "--limit", "20"]).output == first.output
    monkeypatch.setattr("ratecheck._certify.prove.enclose_constant", searched)
    assert again().certificate == content
    with monkeypatch.context() as late:
        late.setattr(constants, "verify", lambda *arguments: time.sleep(60))
        not_verified = certify_constants._known(ITEMS["mean"], None, path, 0.5)
    assert not_verified is not None
    assert not_verified.certificate is None  # so that nothing takes the place of what is there
    assert "is there is not verified: no answer while it waited for 0.5 s" in not_verified.reason
    # other sizes, another ratio, or another revision: what is there does not count
    with pytest.raises(AssertionError, match="searched again"):
        again({"n": 2})
    others = [
        {**content, name: value}
        for name, value in (("ratio", ["1", "1.0001"]), ("revision", "0"), ("id", "bounds.other"))
    ]
    for other in (*others, [content, content], [], None):
        path.write_text(json.dumps(other))
        with pytest.raises(AssertionError, match="searched again"):
            again()


LITTLE = Effort(random=100, examples=1, ascents=1, budget=100)


def long_vectors(x: Any) -> rc.Sides:
    """The mean is at most the largest entry, times a number that is zero up to 12 entries."""
    return max(len(x) - 12, 0) * x.mean(), max(len(x) - 12, 0) * x.max()


@pytest.mark.slow
def test_where_a_side_is_zero_at_the_smallest_sizes_all_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ratios, "EFFORT", LITTLE)
    monkeypatch.setattr(ratios, "_ALL", LITTLE)
    space = rc.Space({"x": rc.interval("n", low=0.5)}, sizes={"n": (1, 15)})
    claim = rc.Paper("mine", "my paper").upper("long", ref="1", on=space)(long_vectors)
    near = ratios.found(claim)["found"]
    assert Fraction(near["ratio"]) > Fraction(99, 100)
    assert near["sizes"]["n"] > 12
    assert len(near["instance"]["x"]) == near["sizes"]["n"]
    least = ratios.largest

    def at_some(claim: Claim, sizes: Any, *others: Any) -> ratios.Largest:
        return least(claim, sizes or {"n": 1}, *others)

    monkeypatch.setattr(ratios, "largest", at_some)  # mutation: without that search
    assert ratios.found(claim) == {}


def peak(x: Any) -> rc.Sides:
    """1/2 <= 1, and 1 <= 1 at one place that no search meets."""
    return x * 0 + (1 if abs(x - 0.123456789) < 1e-12 else 0.5), 1


def test_an_instance_that_was_found_before_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    below_half = {"at most 1/2": lambda i: i.x <= 0.5}
    space = rc.Space({"x": rc.interval(high=0.5)}, assumes=below_half)
    claim = rc.Paper("mine", "my paper").upper("peak", ref="1", on=space)(peak)
    monkeypatch.setattr(ratios, "EFFORT", LITTLE)
    monkeypatch.setattr(ratios, "_ALL", LITTLE)
    searched = Fraction(ratios.found(claim)["found"]["ratio"])
    assert searched == Fraction(1, 2)
    top = {"x": 0.123456789}
    strangers = [{"y": 1.0}, {"x": [0.1]}, {"x": "one"}, {"x": 0.9}, 3]
    assert [ratios._evaluated(claim, one) for one in strangers] == [None] * len(strangers)
    near = ratios.found(claim, [*strangers, top])["found"]
    assert near == {"ratio": "1", "sizes": {}, "instance": top}
    assert Fraction(ratios.found(claim, strangers)["found"]["ratio"]) == searched

    def late(*arguments: Any) -> ratios.Largest:
        raise TimeLimit("no answer within 1 s of CPU time")

    monkeypatch.setattr(ratios, "largest", late)
    assert ratios.found(claim, [top])["found"] == near
    assert ratios.found(claim) == {}
