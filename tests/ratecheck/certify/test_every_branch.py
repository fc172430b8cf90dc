"""Identities are decided on every branch of their formulas, or it is said that they are not."""

from __future__ import annotations

import contextlib
import copy
import json
import secrets
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import flint
import pytest

from linsys.linalg import branching, degrees, formal, formal_functions
from linsys.linalg.branching import Branching
from linsys.linalg.degree_arithmetic import rational_arithmetic
from linsys.linalg.degrees import Rational
from linsys.linalg.ranges import Range
from ratecheck._certify import at_a_point, every_branch as module, on_a_branch
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.every_branch import Open, every_branch
from ratecheck._certify.identities import decide
from ratecheck._certify.prove import prove
from ratecheck._verdicts import certificates as kept
from ratecheck._verdicts.certificates import in_words
from ratecheck._verdicts.evidence import Evidence, of_certificate
from tests.ratecheck.certify._files import ClaimsOf

claim = ClaimsOf("branches.py")
ITEMS = claim.items


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an instance is found, that takes far less."""
    monkeypatch.setattr(module, "_SECONDS", 0.2)


def below_half(limit: int) -> int:
    """Draws from the lower half, so that numbers from [-1, 1] are negative."""
    return secrets.randbelow(limit // 2 or 1)


@cache
def written(name: str) -> str:
    """The certificate of a claim, as text."""
    return json.dumps(prove(ITEMS[name], None).certificate)


def proved(name: str) -> dict[str, Any]:
    content = json.loads(written(name))
    assert content is not None
    return dict(content)


@pytest.mark.parametrize(
    ("name", "sizes", "count", "free"),
    [
        ("softmax", {"d": 3}, 1, True),
        ("scaled", {"d": 3}, 1, True),
        ("largest", {"d": 2}, 4, False),
        ("mass", {"S": 3}, 1, True),
        ("divided", {"S": 3}, 1, True),
        ("beyond", {"S": 3}, 1, True),
        ("sigmoid", {"d": 1}, 2, False),
        ("root", {"d": 2}, 1, True),
        ("compared", {"d": 2}, 4, True),
        ("within", {"d": 1}, 1, True),
    ],
)
def test_a_true_identity_holds_on_every_branch(
    name: str, sizes: dict[str, int], count: int, free: bool
) -> None:
    found = every_branch(claim(name), sizes, secrets.randbelow)
    assert (found.count, found.free) == (count, free)
    assert found.chance < -100


def test_branches_are_those_of_all_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two numbers chooses one of k + 2 states: j of the k + 1 comparisons come out true."""
    ways = {k: (k + 2) ** 2 for k in (1, 2, 3)}
    assert every_branch(claim("draw"), {"n": 2}, secrets.randbelow).count == sum(ways.values())
    monkeypatch.setattr(module, "whole_numbers", lambda space, sizes: None)  # too many
    for k, count in ways.items():

        def draw(limit: int, k: int = k) -> int:
            return k - 1 if limit == len(ways) else secrets.randbelow(limit)

        assert every_branch(claim("draw"), {"n": 2}, draw).count == count


@pytest.mark.parametrize(
    ("name", "sizes", "reason"),
    [
        ("hidden", {"d": 1}, "the sides differ by .*no instance there is known"),
        ("last", {"d": 3}, "the sides differ by .*no instance there is known"),
        ("unsure", {"d": 1}, "a rule needs a sign"),
    ],
)
def test_what_is_not_known_on_some_branch_is_left_open(
    name: str, sizes: dict[str, int], reason: str
) -> None:
    with pytest.raises(Open, match=reason):
        every_branch(claim(name), sizes, secrets.randbelow)


@pytest.mark.parametrize(
    ("name", "sizes", "where"),
    [
        (
            "rare",
            {"d": 1},
            "`return np.where(np.abs(x - 1) <= near, x + 1, x), x`: >= is false, <= is true",
        ),
        ("signed", {"d": 1}, "on a branch"),
        ("thin", {}, "`return np.where(a < 0.0002, 2 * a, a), a`: < is true"),
        ("corner", {"n": 2}, "`thin = (np.abs(a - 0.37) < 0.00001) & (wall > 0)"),
    ],
)
def test_an_instance_is_found_on_a_branch_that_no_random_point_meets(
    name: str, sizes: dict[str, int], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 30.0)
    with pytest.raises(Broken, match="the sides differ at an instance ") as told:
        every_branch(claim(name), sizes, secrets.randbelow)
    assert where in str(told.value)
    found = prove(ITEMS[name], told.value.instance).certificate
    assert found is not None
    assert verify(dict(found)).startswith("violated: ")
    monkeypatch.setattr(module, "instance_on", lambda *arguments: None)  # mutation
    with pytest.raises(Open, match="no instance there is known") as left:
        every_branch(claim(name), sizes, secrets.randbelow)
    assert left.value.differ


@pytest.mark.slow
def test_the_search_for_an_instance_goes_by_what_the_comparisons_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the distance from the branch there is nothing to go by, and none is found."""
    monkeypatch.setattr(on_a_branch, "_missed", lambda *arguments: 1.0)  # mutation
    with pytest.raises(Open, match="no instance there is known"):
        every_branch(claim("corner"), {"n": 2}, secrets.randbelow)


def test_an_identity_that_is_false_on_a_thin_branch_is_proved_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 30.0)
    content = proved("thin")
    assert content["kind"] == "counterexample"
    assert 0 < content["instance"]["a"] < 0.0002
    assert verify(content).startswith("violated: ")
    monkeypatch.setattr(module, "instance_on", lambda *arguments: None)  # mutation
    written.cache_clear()
    content = proved("thin")
    written.cache_clear()
    assert (content["kind"], content["differ"]) == ("identity", True)
    assert of_certificate(content) == Evidence.MET


@pytest.mark.slow
def test_what_holds_on_the_branches_met_is_not_counted_as_proved() -> None:
    """Where the sides differ on a branch without a known instance; `last` has a proved size."""
    for name in ("hidden", "last"):
        content = proved(name)
        assert content["differ"] is True
        assert of_certificate(content) == Evidence.MET
        assert "proved" not in Evidence.MET
        whole = {"certificates": [content], "unproved": []}
        assert kept.counts(whole)["identities"] == (0, 1)
        assert content["open"] in kept.tables(whole)
        assert content["open"] in in_words(content)
        counted = {**content, "branches": "every one"}  # mutation
        assert kept.counts({**whole, "certificates": [counted]})["identities"] == (1, 1)


def test_sizes_on_every_branch_are_proved_where_others_are_open() -> None:
    """Of one number the sign of a conjugate is known."""
    content = {**proved("unsure"), "every_branch": [{"d": 1}]}
    content["open"] = content["open"].replace("2 of", "1 of")
    assert of_certificate(content) == Evidence.SIZES
    assert in_words(content).startswith("proved at sizes: 1 combinations, on every branch")
    assert of_certificate({**content, "differ": True}) == Evidence.MET


@pytest.mark.slow
def test_an_identity_takes_its_limit_once() -> None:
    started = time.process_time()
    found = decide(claim("slow"), limit=2.0)
    assert time.process_time() - started < 3.0  # one evaluation may end after the limit
    assert found.open.startswith("1 of the sizes: no answer within")


def test_branches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 40)
    with pytest.raises(Open, match="there are more than 40 branches"):
        every_branch(claim("many"), {}, secrets.randbelow)


@pytest.mark.parametrize("name", ["equal", "undefined"])
def test_points_that_are_all_on_one_side_do_not_hide_the_other(name: str) -> None:
    """Of negative numbers sqrt(x^2) = x is false, and log x is none."""
    with pytest.raises((Open, Broken)):
        every_branch(claim(name), {"d": 1}, below_half)


@pytest.mark.parametrize("name", ["hidden", "unsure"])
def test_an_identity_on_the_branches_met_alone_says_so(name: str) -> None:
    content = proved(name)
    assert content["branches"] == "those that the points met"
    assert "every_branch" not in content
    assert of_certificate(content) == Evidence.MET
    assert "every branch" not in in_words(content)
    assert verify(content).startswith(
        "identity: true for all sizes on the branches that the points"
    )


def test_an_identity_on_every_branch_says_so() -> None:
    content = proved("softmax")
    assert content["branches"] == "every one"
    assert content["ways"] == 3
    assert of_certificate(content) == Evidence.SIZES
    said = "proved at sizes: all of its space (d 1-3), on every branch (3 ways), but for a chance"
    assert in_words(content).startswith(said)
    assert verify(content).startswith("identity: true for all sizes on every branch, 3 together")


def test_some_sizes_on_every_branch_are_named() -> None:
    """The last of one number is the first."""
    content = proved("last")
    assert content["every_branch"] == [{"d": 1}]
    assert of_certificate(content) == Evidence.MET
    assert ", for 1 of its sizes on every branch (2 ways)" in in_words(content)
    assert ", for 1 of them on every branch, 2 together" in verify(content)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("hidden", {"branches": "every one"}, "equal on every branch; found the sides differ"),
        ("hidden", {"every_branch": [{"d": 1}]}, "equal on every branch; found the sides differ"),
        ("unsure", {"branches": "every one"}, "equal on every branch; found a rule needs a sign"),
        ("hidden", {"open": "2 of the sizes: x"}, "`open` must begin with '3 of the sizes: '"),
        ("hidden", {"open": ""}, "`open` must begin with '3 of the sizes: '"),
        ("hidden", {"differ": 1}, "`differ` must be true or not be there; found 1"),
        ("softmax", {"open": "1 of the sizes: x"}, "`open` must not be there"),
        ("softmax", {"differ": True}, "`differ` must not be there"),
        ("hidden", {"branches": "none"}, "`branches` must be those that the points met"),
        ("hidden", {"every_branch": [{"d": 9}]}, "`every_branch` must be some of"),
        ("softmax", {"ways": 9}, "`ways` must be 3; found 9"),
        ("softmax", {"branches": "none"}, "`branches` must be those that the points met"),
    ],
)
def test_a_false_certificate_of_branches_is_refused(
    name: str, change: dict[str, Any], reason: str
) -> None:
    """Of an identity that is true on the branches met, and false or not known on another."""
    content = copy.deepcopy(proved(name)) | change
    with pytest.raises(Refused, match=reason):
        verify(content)


@pytest.mark.parametrize("name", ["either", "_possible"])
def test_a_branch_that_is_left_out_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If comparisons come out as at the point alone, or ranges are too narrow."""

    def as_at_the_point(self: Branching, natural: bool | None) -> bool:
        return bool(natural)

    def positive(number: Any) -> frozenset[int]:
        return frozenset((1,))

    if name == "either":
        monkeypatch.setattr(Branching, name, as_at_the_point)
    else:
        monkeypatch.setattr(branching, name, positive)
    wrong = claim("rare" if name == "either" else "last")
    sizes = {"d": 1 if name == "either" else 3}
    assert every_branch(wrong, sizes, secrets.randbelow).count == 1


def test_a_tree_without_its_last_branch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch of the rare outcome is one of those that are looked at."""
    seen: list[tuple[bool, ...]] = []

    def at(*args: Any) -> Any:
        found = at_a_point.at(*args)
        seen.append(tuple(args[-1].branching.taken))
        return found

    monkeypatch.setattr(module, "at", at)
    every_branch(claim("largest"), {"d": 2}, secrets.randbelow)
    forced = seen[-4:]
    assert sorted(forced) == [(False, False), (False, True), (True, False), (True, True)]


def outcomes(ask: Callable[[Any, Any], list[bool]], free: bool = False) -> set[tuple[bool, ...]]:
    """All that comparisons of two numbers can be, as they are asked."""
    left: list[tuple[bool, ...]] = [()]
    found = set()
    while left:
        forced = left.pop()
        ways = Branching(forced, secrets.randbelow, 64, free)
        with rational_arithmetic(ways):
            x, y = Rational(Fraction(3, 7), 1), Rational(Fraction(5, 11), 1)
            found.add(tuple(ask(x, y)))
        left += [(*ways.taken[:k], not ways.taken[k]) for k in range(len(forced), len(ways.taken))]
    return found


def test_what_was_compared_before_decides() -> None:
    """x < y, -x > -y, x >= y and x - y + 1 > 0 are no four questions."""
    assert outcomes(lambda x, y: [x < y, -x > -y, x >= y, x == y]) == {
        (True, True, False, False),
        (False, False, True, False),
    }
    assert outcomes(lambda x, y: [x < y, x < y + 1, x > y + 2]) == {
        (True, True, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    }


def test_a_sign_at_the_point_is_none_at_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Open, match="a rule needs a sign"):
        every_branch(claim("lower"), {}, below_half)
    monkeypatch.setattr(
        formal, "_way", lambda coefficient: 1 if coefficient > 0 else -1
    )  # mutation
    assert every_branch(claim("lower"), {}, below_half).count == 1


@pytest.mark.parametrize("name", ["root", "compared", "within"])
def test_without_signs_at_all_points_a_rule_needs_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (formal, formal_functions):
        monkeypatch.setattr(each, "everywhere", lambda element: 0)
    with pytest.raises(Open):
        every_branch(claim(name), {"d": 1}, secrets.randbelow)


def test_an_equality_with_a_new_coordinate_is_tried_both_ways() -> None:
    """Not so without one: two quotients are equal on a null set, or everywhere."""
    import numpy as np

    def ask(x: Any, y: Any) -> list[bool]:
        most = np.maximum(np.array([x, x]), np.array([y, y]))
        assert most[0].value == most[1].value
        return [bool(most[0] == x), bool(x == y)]

    assert outcomes(ask, free=True) == {(True, False), (False, False)}


def test_a_plain_sign_is_one_of_exponentials_alone() -> None:
    with rational_arithmetic():
        x = Rational(Fraction(3, 7), 1)
        for number, sign in ((x.exp(), 1), (-2 * x.exp() - 1, -1), (x.exp() - 1, 0), (x.sqrt(), 0)):
            assert formal.plain_sign(Rational(number).element) == sign
        y = Rational(Fraction(2**70 + 1, 3**50), 1)
        assert formal.plain_sign(Rational(y * x.exp()).element) == 0


def test_where_a_root_is_at_another_point_no_enclosure_counts() -> None:
    """At x = -3/7, where sqrt(x) is none, sqrt(x)^2 = x is a rule and sqrt(x) > 0 no fact."""
    with rational_arithmetic(Branching((True,), secrets.randbelow, 64, False)):
        x = Rational(Fraction(-3, 7), 1)
        root = x.sqrt()
        assert formal.ring.elsewhere
        assert (root * root).value == flint.fmpq(-3, 7)


@pytest.mark.parametrize("value", [Fraction(3, 7), Fraction(-3, 7)])
def test_the_root_of_a_square_is_the_number_where_its_sign_is_known(value: Fraction) -> None:
    """At all points, be it another one at this point; without a known sign it is a root."""
    for least, formally in ((0.0, False), (-1.0, True)):
        with rational_arithmetic(Branching((True,), secrets.randbelow, 64, False)):
            x = Rational(value, 1, 0, Range(least, 1.0))
            number = 100 * x
            formal.ring.signs |= dict.fromkeys(range(1000), 1)
            numbers = formal.ring.numbers
            root = (number * number).sqrt()
            assert root.formal is formally
            assert formally or root.value == number.value
            # it may have been taken for the root of another square
            assert formally or formal.ring.numbers - numbers >= 1000
            assert formally or degrees.compared() > 1000**2


def test_the_sign_of_a_function_without_a_degree_is_a_branch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every: tuple[Any, ...] = ()
    with contextlib.suppress(Broken):  # where an instance in the disc is found
        every = decide(claim("fourth")).every
    assert every == ()
    monkeypatch.setattr(formal_functions, "is_constant", lambda inside: not inside.top)  # mutation
    assert not decide(claim("fourth")).compares


def test_what_may_be_no_number_is_not_equal_to_itself() -> None:
    """What may be 0 / 0 at many points is compared both ways."""
    found = decide(claim("none"))
    assert (len(found.sizes), found.every) == (1, ())


def test_a_limit_leaves_branches_open() -> None:
    found = decide(claim("many"), limit=0.2)
    assert found.compares
    assert found.every == ()


def test_a_logarithm_or_a_sine_depends_on_the_point() -> None:
    with rational_arithmetic():
        x = Rational(3, 1)
        assert not any(one.constant for one in (x.log(), x.sin(), x.log().sin(), x.sqrt()))
        assert all(one.constant for one in (Rational(5).log(), Rational(2).sqrt()))


@pytest.mark.slow
def test_a_weaker_result_does_not_replace_what_is_kept(
    ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["certify", f"{claim.file}::ways.many", "--write", "kept", "--out", "out"]

    def branches(folder: str = "kept") -> str:
        (one,) = json.loads(Path(folder, "certificates.json").read_text())["certificates"]
        return str(one["branches"])

    ratecheck(*command, "--limit", "60")
    assert branches() == "every one"
    said = " ".join(ratecheck(*command, "--limit", "0.2").out.split())
    assert branches() == "every one"
    assert "kept from before, as what was proved now says less; it would be: " in said
    (one,) = Path("out").iterdir()
    assert json.loads(one.read_text())["branches"] == "every one"
    fresh = ["--write", "fresh", "--out", "other", "--limit", "0.2"]
    ratecheck("certify", f"{claim.file}::ways.many", *fresh)
    assert branches("fresh") == "those that the points met"  # as there is nothing to keep
    text = Path("fresh/certificates.json").read_text()
    Path("kept/certificates.json").write_text(
        text.replace("those that the points met", "every one")
    )
    one.unlink()
    ratecheck(*command, "--limit", "0.2")  # what is not verified does not stay
    assert branches() == "those that the points met"
