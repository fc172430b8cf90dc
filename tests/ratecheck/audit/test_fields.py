"""Domains: every coordinate decodes into them, and repair leaves alone what lies in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS
from linsys import InputError
from linsys.linalg import precise, precision
from ratecheck._report.verdicts import assumptions

FIELDS = {
    "reals": rc.reals("a", "b"),
    "interval": rc.interval("a", low=-2, high=3),
    "positive": rc.positive("a", "b"),
    "whole": rc.whole_numbers("a", low=-3, high=12),
    "whole, logarithmic": rc.whole_numbers("a", low=0, high=100, log=True),
    "simplex": rc.simplex("a", "b"),
    "ball": rc.ball("a", "b"),
    "sphere": rc.sphere("a", "b"),
    "contraction": rc.contraction("a", "b", "b"),
}
SIZES = {"a": 3, "b": 2}


def decoded(field: rc.Field) -> np.ndarray:
    rng = np.random.default_rng(0)
    coordinates = np.round(3 * rng.random((500, 40))) / 3  # many at the ends
    coordinates[250:] = rng.random((250, 40))
    count = int(np.prod(field.shape(SIZES)))
    elements = coordinates[:, field.controls : field.controls + count]
    return np.asarray(
        field.decode(coordinates[:, : field.controls], elements.reshape(500, *field.shape(SIZES)))
    )


def test_real_numbers_are_drawn_from_the_magnitude_that_is_documented() -> None:
    """e^(log 3) is above 3 in float64, where 9 - x^2 would be negative."""
    for largest in (3.0, 10.0, 100.0):
        drawn = rc.reals(magnitude=(1.0, largest)).decode(np.ones((1, 1)), np.array([1.0]))
        assert drawn == largest


@pytest.mark.parametrize("name", FIELDS)
def test_all_genes_decode_into_the_domain(name: str) -> None:
    values = decoded(FIELDS[name])
    assert values.shape == (500, *FIELDS[name].shape(SIZES))
    assert FIELDS[name].holds(values).all()


@pytest.mark.parametrize("name", FIELDS)
def test_repair_leaves_its_results_alone(name: str) -> None:
    values = FIELDS[name].repair(decoded(FIELDS[name]))
    assert np.array_equal(FIELDS[name].repair(values), values)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "reals"])
def test_what_lies_outside_is_seen_and_repaired(name: str) -> None:
    outside = 200 * np.ones((1, *FIELDS[name].shape(SIZES)))
    assert not FIELDS[name].holds(outside).any()
    assert FIELDS[name].holds(FIELDS[name].repair(outside)).all()


@pytest.mark.parametrize("name", FIELDS)
def test_repair_is_exact_in_high_precision(name: str) -> None:
    with precision(40):
        values = FIELDS[name].repair(precise(decoded(FIELDS[name])[::100]))
        assert FIELDS[name].holds(values).all()
        if name == "simplex":
            assert max(abs(row - 1) for row in values.sum(axis=-1).ravel()) < 10.0**-38


def test_a_simplex_reaches_its_corners() -> None:
    assert (decoded(FIELDS["simplex"]).max(axis=-1) == 1).any()


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_rounded_rows_of_a_simplex_sum_to_one(digits: int) -> None:
    field = FIELDS["simplex"]
    rounded = field.rounded(decoded(field), digits)
    assert field.holds(rounded).all()
    assert np.array_equal(np.round(rounded, digits), rounded)


def test_high_precision_instances_are_made_of_high_precision_numbers() -> None:
    space = rc.Space(
        fields={"x": rc.positive(low=0.1), "p": rc.simplex("k")},
        sizes={"k": (2, 2)},
        repair=lambda f: {"x": np.maximum(f["x"], 0.3), "p": np.where(f["p"] > 2, 1, f["p"])},
    )
    with precision(40):
        exact = space.precise({"x": np.array([0.01]), "p": np.array([[0.0, 5.0]])})
        number = type(precise([1.0])[0])
        assert all(isinstance(x, number) for values in exact.values() for x in values.ravel())
        assert exact["x"][0] * 10 == 3  # the limit counts as a decimal


def test_ties_make_all_alike_along_an_axis() -> None:
    layout = SYSTEMS.layout({"n": 3, "S": 2, "d": 2})
    coordinates = np.random.default_rng(0).random((4, layout.coordinates))
    theta = layout.decode(layout.tie(coordinates, "n"))["theta"]
    assert np.ptp(theta, axis=1).max() == 0
    assert np.ptp(theta, axis=2).min() > 0


def test_a_space_has_a_field() -> None:
    with pytest.raises(InputError, match="`fields` must be at least one; found none"):
        rc.Space(fields={})


def test_sizes_must_fit_the_axes() -> None:
    assert rc.Space(fields={"p": rc.simplex("k")}).sizes == {"k": (1, 4)}
    with pytest.raises(InputError, match=r"`sizes` must be of the axes \['k'\]; found \['n'\]"):
        rc.Space(fields={"p": rc.simplex("k")}, sizes={"n": (1, 2)})
    with pytest.raises(InputError, match="field `p` must be a domain such as interval"):
        rc.Space(fields={"p": 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="must have 1 <= low <= high"):
        rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (3, 2)})


def test_an_axis_has_at_least_one_entry() -> None:
    for make in (rc.reals, rc.interval, rc.simplex, rc.ball, rc.sphere, rc.positive):
        assert make(1).axes == (1,)
        with pytest.raises(InputError, match="names or whole numbers of at least 1; found 0"):
            make(2, 0)


def test_a_meaning_must_be_of_a_field() -> None:
    fields, sizes = {"p": rc.simplex("k")}, {"k": (1, 2)}
    told = assumptions(rc.Space(fields=fields, sizes=sizes, meaning={"p": "chances of heads"}))
    assert told == ["k from 1 to 2", "p: probability distributions (k); chances of heads"]
    with pytest.raises(InputError, match=r"`meaning` must be about .* \['p'\]; found \['q'\]"):
        rc.Space(fields=fields, sizes=sizes, meaning={"q": "chances"})


def halve(fields: rc.Fields, *, times: int) -> rc.Fields:
    """Halve x several times.

    So that it is small.
    """
    return {"x": fields["x"] / 2**times}


# Leave x as it is.
def leave(fields: rc.Fields, *, times: int) -> rc.Fields:
    return fields


def bare(fields: rc.Fields, *, times: int) -> rc.Fields:
    return fields


@pytest.mark.parametrize(
    ("function", "told"),
    [(halve, "Halve x several times."), (leave, "Leave x as it is."), (bare, "bare")],
)
def test_what_a_repair_does_is_told_of_its_function(function: Any, told: str) -> None:
    for repair in (function, partial(function, times=2), partial(partial(function), times=2)):
        space = rc.Space(fields={"x": rc.interval()}, repair=repair)
        assert assumptions(space)[-1] == f"then: {told}"


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("part", ["given", "assumes"])
def test_a_predicate_that_is_not_a_number_is_an_error(part: str, batched: bool) -> None:
    def measure(s: Any) -> tuple[Any, Any]:
        return s.x, s.x + 1

    def judged(predicate: Any) -> rc.Verdict:
        options: dict[str, Any] = {part: {"odd": predicate}}
        space = rc.Space(fields={"x": rc.interval()}, batched=batched, **options)
        claim = rc.Claim(id="my.a", source="", text="", kind="upper", space=space, measure=measure)
        return rc.judge(claim)

    verdict = judged(lambda s: s.x * np.nan)
    assert verdict.verdict == "error"
    assert verdict.reason == "the predicate 'odd' must be true or false; found NaN"
    assert judged(lambda s: s.x <= 1).verdict == "holds"


@pytest.mark.parametrize("low", [-3, 0, 1])
def test_whole_numbers_on_a_logarithmic_scale_reach_both_ends_and_are_often_small(low: int) -> None:
    domain = rc.whole_numbers(low=low, high=low + 1000, log=True)
    drawn = domain.decode(np.zeros((1, 0)), np.linspace(0, 1, 10_001))
    assert (drawn.min(), drawn.max()) == (low, low + 1000)
    assert set(range(low, low + 30)) <= set(drawn.tolist())
    assert 0.3 < (drawn < low + 10).mean() < 0.4


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("interval", {"low": 1, "high": 0}, "low at most high; found low=1, high=0"),
        ("interval", {"high": np.inf}, "be finite numbers, .*; found low=0.0, high=inf"),
        ("positive", {"low": None}, "be finite numbers, .*; found low=None, high=100.0"),
        ("whole_numbers", {"low": 0.5, "high": 3}, "be whole numbers; found low=0.5, high=3"),
        ("whole_numbers", {"low": 0, "high": 2.5}, "be whole numbers; found low=0, high=2.5"),
    ],
)
def test_ends_that_do_not_fit_are_refused_when_made(
    kind: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        getattr(rc, kind)(**options)


def test_what_fits_is_left_alone() -> None:
    one = {"low": np.float64(1.0), "high": 1}
    makers: list[Any] = [rc.interval, rc.whole_numbers]
    made = [make(np.int64(2), **one) for make in makers]
    assert [(field.low, field.high, field.axes) for field in made] == [(1, 1, (2,))] * 2


def test_an_axis_is_no_fraction() -> None:
    with pytest.raises(InputError, match=r"names or whole numbers of at least 1; found 3\.5"):
        rc.ball(3.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", [rc.interval, rc.positive])
def test_ends_of_a_range_in_the_place_of_axes_are_told_apart(domain: Callable[..., object]) -> None:
    with pytest.raises(rc.InputError, match=r"found -1 \(ends .* as `low=\.\.\., high=\.\.\.`\)"):
        domain(-1, 1)
    with pytest.raises(rc.InputError, match=r"found \[2\]$"):
        domain([2])


def test_of_what_has_no_ends_nothing_is_said_of_them() -> None:
    with pytest.raises(rc.InputError, match=r"found -1$"):
        rc.reals(-1)


@pytest.mark.parametrize(
    "kind", [bool, np.bool_, float, int, lambda met: np.array([met, True]), lambda met: [[met]]]
)
def test_a_predicate_may_answer_by_any_type(kind: Any) -> None:
    space = rc.Space(fields={"x": rc.interval()}, given={"low": lambda s: kind(s.x < 0.5)})
    for x in ([0.2, 0.7, 0.4], [0.9], []):
        met = space.passes("low", space.views({"x": np.array(x)}))
        assert met.dtype == bool
        assert met.tolist() == [one < 0.5 for one in x]


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (rc.interval(low=1, high=2), "numbers from 1 to 2"),
        (rc.whole_numbers(low=1, high=2), "whole numbers from 1 to 2"),
        (rc.simplex("k"), "probability distributions (k)"),
        (rc.contraction("d", "d"), "matrices of operator norm at most 1 (d, d)"),
        (rc.sphere("d"), "vectors of length 1 (d)"),
        (rc.ball("n", "d"), "vectors of length at most 1 (n, d)"),
        (rc.reals("d", magnitude=(0.1, 10.0)), "real numbers of magnitude up to 10 (d)"),
    ],
)
def test_every_domain_is_said_in_words(domain: Any, words: str) -> None:
    space = rc.Space(fields={"x": domain}, sizes={axis: (2, 2) for axis in domain.axes})
    assert assumptions(space)[-1] == f"x: {words}"
