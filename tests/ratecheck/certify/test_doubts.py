"""Nothing is called proved on a doubt: false identities that are true nearly everywhere."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from linsys.linalg import degrees, object_numbers, ranges, tapes
from linsys.linalg.branching import Branching
from linsys.linalg.degree_arithmetic import rational_arithmetic
from linsys.linalg.degrees import Rational
from linsys.linalg.ranges import NULL, Range
from ratecheck._certify import at_a_point, enclosures, identities
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.certificate import of_identity
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.every_branch import every_branch
from ratecheck._certify.identities import decide
from ratecheck._certify.prove import prove
from ratecheck._verdicts.certificates import in_words
from ratecheck._verdicts.evidence import Evidence, of_certificate
from ratecheck._verdicts.verdict import judge
from tests.ratecheck.certify._files import ClaimsOf

claim = ClaimsOf("doubts.py")
ITEMS = claim.items


@pytest.mark.parametrize("name", ["infinite", "opposite"])
def test_an_infinite_side_is_equal_to_no_other(name: str) -> None:
    with pytest.raises(Broken, match="the sides differ at an instance") as told:
        every_branch(claim(name), {}, secrets.randbelow)
    assert told.value.instance == {"x": 0.5}


def test_sides_that_are_infinite_alike_are_equal() -> None:
    outcome = decide(claim("alike"))
    assert (outcome.every, outcome.ways) == (({},), 2)


def test_a_side_that_is_not_compared_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_a_point, "_difference", lambda one, other, of_a_branch: 0)  # mutation
    assert every_branch(claim("infinite"), {}, secrets.randbelow).count == 4


def test_the_ends_of_an_interval_may_be_whole_numbers_of_python() -> None:
    assert decide(claim("ends")).chance < -100


def test_the_product_of_two_roots_of_negative_numbers_has_no_value() -> None:
    verdict = judge(claim("roots"))
    assert verdict.verdict == "error"
    assert "measure returned NaN as measured (`given=`" in verdict.reason


def test_a_quotient_by_nothing_but_zero_has_any_value() -> None:
    nothing = Range(0.0, 0.0, NULL)
    assert ranges.over(Range(1.0, 2.0), nothing) == Range(-float("inf"), float("inf"))


def counted(same: bool) -> int:
    """What a product of two numbers adds to the chance, which are taken for one if they are equal.

    Of x x and y y one is taken for a square, and so for a number that is not negative.
    """
    with rational_arithmetic(Branching((), secrets.randbelow, 200, False)):
        x, y = Rational(3, 5, 1), Rational(3, 4, 2)
        before = degrees.compared()
        product = x * (x if same else y)
        assert product.range is not None
        return degrees.compared() - before


def test_that_two_numbers_are_taken_for_one_is_counted() -> None:
    """x - y has a numerator of degree 5 + 2 at most."""
    assert counted(same=True) == 0
    assert counted(same=False) == 7


def test_a_number_that_is_taken_for_one_that_was_compared_before_is_counted() -> None:
    branching = Branching((), secrets.randbelow, 200, False)
    with rational_arithmetic(branching):
        x, y = Rational(3, 50), Rational(3, 60)
        assert x > 0
        before = branching.compared
        assert y > 0
    assert branching.taken == [True]
    assert branching.compared - before >= 60 + 2 * 61


@pytest.mark.parametrize("name", ["one_count", "one_pair"])
def test_whole_numbers_are_tried_in_all_combinations(name: str) -> None:
    with pytest.raises(Broken, match="the sides differ by 1"):
        decide(claim(name))


def test_whole_numbers_are_tried_in_all_combinations_on_every_branch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Broken, match="the sides differ at an instance that a search finds"):
        decide(claim("one_branch"))
    monkeypatch.setattr(identities, "_search", lambda claim, seconds: None)
    with pytest.raises(Broken, match="the sides differ at an instance where doubts"):
        decide(claim("one_branch"))


def test_whole_numbers_that_are_drawn_would_miss_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 numbers 12 are drawn; here none of them is the one."""
    monkeypatch.setattr(identities, "whole_numbers", lambda space, sizes: None)  # mutation

    def below(limit: int) -> int:
        return secrets.randbelow(limit if limit != 100 else 37)

    content = certificate(decide(claim("one_count"), below), "one_count")
    assert content["drawn"] == ["k"]
    assert of_certificate(content) == Evidence.WHOLE


def certificate(decided: identities.Decided, name: str) -> dict[str, Any]:
    return of_identity(ITEMS[name], decided)


def said(name: str) -> tuple[dict[str, Any], str]:
    """A certificate, and what it says in words; the checker says as much."""
    content = prove(ITEMS[name], None).certificate
    assert content is not None
    return dict(content), f"{in_words(content)}; {verify(content)}"


@pytest.mark.parametrize("name", ["one_in_a_million", "one_root"])
def test_whole_numbers_that_are_drawn_are_named(name: str) -> None:
    content, words = said(name)
    assert content["drawn"] == ["k"]
    assert "whole" not in content
    assert words.startswith(of_certificate(content))
    assert of_certificate(content) in (Evidence.WHOLE, Evidence.MET)
    assert words.count("for the whole numbers k that were drawn") == 2


def test_whole_numbers_of_a_polynomial_are_numbers() -> None:
    content, words = said("cube")
    assert (content["drawn"], content["whole"]) == ([], {"k": "every one"})
    assert of_certificate(content) == Evidence.SIZES
    assert words.count("for every whole number k") == 2


def test_whole_numbers_that_a_repair_leaves_are_those_found() -> None:
    content, words = said("no_pair")
    assert content["whole"] == dict.fromkeys("kn", "every one found in an instance")
    assert words.count("for every whole number k, n found in an instance") == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"whole": {"k": "every one"}, "drawn": []}, r"`drawn` must be \['k'\]; found \[\]"),
        ({"whole": {"k": "every one"}}, "`whole` must not be there"),
    ],
)
def test_a_certificate_that_says_more_of_whole_numbers_is_refused(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        verify({**said("one_in_a_million")[0], **change})


def test_a_tie_at_the_end_of_an_interval_is_met_by_a_search() -> None:
    with pytest.raises(Broken, match="the sides differ at an instance that a search finds"):
        decide(claim("end"))


@pytest.mark.parametrize(
    "name", ["equal", "between", "power", "infinitely_low", "power_of_infinity"]
)
def test_ties_that_are_a_case_of_their_own_are_named(name: str) -> None:
    content, words = said(name)
    assert (content["branches"], content["ties"]) == ("every one", "left out")
    assert of_certificate(content) == Evidence.TIES
    assert words.startswith("proved but for ties: ")
    assert words.count("but where numbers that it compares are equal") == 2
    assert "formula" not in content  # whose checker leaves nothing out
    del content["ties"]
    with pytest.raises(Refused, match="`ties` must be left out; found None"):
        verify(content)


@pytest.mark.parametrize("name", ["last", "clipped"])
def test_what_numpy_does_otherwise_is_not_called_proved(name: str) -> None:
    content, _ = said(name)
    assert of_certificate(content) == Evidence.MET
    assert "formula" not in content


def test_nan_that_is_clipped_is_nan() -> None:
    content, _ = said("clipped_nan")
    assert (content["kind"], content["branches"]) == ("identity", "every one")


def test_a_function_that_sorts_is_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (degrees, tapes):
        monkeypatch.setattr(module, "is_written", lambda: True)  # mutation
    assert of_certificate(said("last")[0]) == Evidence.SIZES


def test_what_a_negated_outcome_breaks_is_proved_false() -> None:
    content, _ = said("negated")
    assert of_certificate(content) == Evidence.FALSE


@pytest.mark.parametrize("name", ["without_nan", "without_nan_by_name"])
def test_what_becomes_a_number_of_nan_is_refused(name: str) -> None:
    proof = prove(ITEMS[name], None)
    assert proof.certificate is None
    assert "np.nan_to_num of what is no float" in proof.reason


@pytest.mark.parametrize("name", ["not_negative", "either"])
def test_outcomes_are_negated_and_added_as_numpys(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(claim(name)).verdict == "holds"
    item = ITEMS[name]
    assert prove(item, {"x": 0.5}).certificate is None
    monkeypatch.setattr(object_numbers, "numpys_answer", lambda answer: answer)  # mutation
    assert "the type of numbers" in prove(item, {"x": 0.5}).reason
    monkeypatch.setattr(enclosures, "_check_types", lambda *arguments: None)  # mutation
    broken = prove(item, {"x": 0.5}).certificate
    assert broken is not None
    assert broken["kind"] == "counterexample"


def test_a_maximum_of_nan_is_nan() -> None:
    assert prove(ITEMS["largest"], {"x": 0.25}).certificate is None


@pytest.mark.parametrize("name", ["sides", "power_of_a_size"])
def test_ties_that_belong_to_a_side_are_proved(name: str) -> None:
    content, words = said(name)
    assert of_certificate(content) == Evidence.SIZES
    assert "ties" not in content
    assert "equal" not in words


@pytest.mark.parametrize("name", ["by_type", "by_kind", "by_exception"])
def test_a_function_that_is_another_one_in_float64_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unprovable, match="must be the same in float64 and in exact numbers"):
        decide(claim(name))
    monkeypatch.setattr(at_a_point, "_check_floats", lambda claim, floats, exact: None)  # mutation
    assert decide(claim(name)).chance < -100
