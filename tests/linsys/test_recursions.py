"""Moments of linear recursions: against every sequence of states, at any t, in any precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.linalg import precise, precision, stationary
from linsys.recursions import LinearRecursion
from tests._slow import slow_but

KINDS = ["independent", "chain", "transitions", "started"]
S, D, BATCH = 3, 2, 2


def arrays(kind: str, seed: int = 0) -> dict[str, Any]:
    """Coefficients of two recursions that contract in mean square."""
    rng = np.random.default_rng(seed)
    states = (S, S) if kind == "transitions" else (S,)
    made: dict[str, Any] = {
        "A": rng.uniform(-0.4, 0.4, (BATCH, *states, D, D)),
        "b": rng.normal(size=(BATCH, *states, D)),
    }
    if kind == "independent":
        return made | {"law": rng.dirichlet(np.ones(S), BATCH)}
    made["kernel"] = rng.dirichlet(np.ones(S), (BATCH, S))
    return made | ({"start": np.eye(S)[:BATCH]} if kind == "started" else {})


def by_hand(given: dict[str, Any], k: int, x0: Any, t: int) -> list[Any]:
    """E[x], E[x x'] of x_t, then of the average: every sequence of states with its probability."""
    A, b, kernel = given["A"][k], given["b"][k], given.get("kernel")
    first = given["law"][k] if kernel is None else given.get("start", stationary(kernel))[k]
    sums = [np.zeros(D), np.zeros((D, D)), np.zeros(D), np.zeros((D, D))]
    for states in itertools.product(range(S), repeat=t + 1):
        chance, x, total = first[states[0]], x0, 0 * x0
        for here, there in itertools.pairwise(states):
            chance = chance * (first[there] if kernel is None else kernel[k, here, there])
            of = (here, there) if A.ndim == 4 else here
            total, x = total + x, A[of] @ x + b[of]
        mean = total / t
        for i, value in enumerate((x, np.outer(x, x), mean, np.outer(mean, mean))):
            sums[i] = sums[i] + chance * value
    return sums


def off(given: dict[str, Any], other: dict[str, Any]) -> float:
    """How far moments of one recursion are from those of another, computed by hand."""
    recursion, x0 = LinearRecursion(**given), np.array([[1.0, -2.0], [0.5, 0.0]])
    last, average = recursion.moments(x0, 5), recursion.average(x0, 5)
    mine = (last.mean, last.second, average.mean, average.second)
    return max(
        float(np.abs(one[k] - hand).max())
        for k in range(BATCH)
        for one, hand in zip(mine, by_hand(other, k, x0[k], 5), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_all_sequences(kind: str) -> None:
    given = arrays(kind)
    assert off(given, given) < 1e-13
    assert off(given, given | {"b": 1.001 * given["b"]}) > 1e-4
    chances = "law" if kind == "independent" else "kernel"
    assert off(given, given | {chances: given[chances][::-1]}) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_where_moments_go(kind: str) -> None:
    given = arrays(kind)
    recursion = LinearRecursion(**given)
    limit, late = recursion.limit(), recursion.moments(np.ones((BATCH, D)), 10**9)
    np.testing.assert_allclose(limit.second, late.second, rtol=1e-12)
    np.testing.assert_allclose(limit.mean, late.mean, rtol=1e-12)
    early = recursion.moments(np.ones((BATCH, D)), 2)
    assert np.abs(early.second / limit.second - 1).max() > 1e-3


@pytest.mark.parametrize("growth", [0.97, 1.03])
@pytest.mark.parametrize("kind", ["independent", "chain"])
def test_the_limit_is_nan_where_there_is_none(kind: str, growth: float) -> None:
    """At the edge of stability in mean square, which the spectral radius of the map says."""
    given = {name: value[:1] for name, value in arrays(kind).items()}
    A = given["A"][0]
    squares = np.array([np.kron(one, one) for one in A])
    if kind == "independent":
        radius = np.abs(np.linalg.eigvals(np.tensordot(given["law"][0], squares, 1))).max()
    else:
        blocks = given["kernel"][0].T[:, :, None, None] * squares  # to s' from s
        radius = np.abs(np.linalg.eigvals(np.block([[*row] for row in blocks]))).max()
    scaled = LinearRecursion(**given | {"A": given["A"] * growth / np.sqrt(radius)})
    assert np.isnan(scaled.limit().second).all() == (growth > 1)
    assert np.isnan(scaled.limit().mean).all() == (growth > 1)


@pytest.mark.parametrize("kind", slow_but(["independent"], KINDS))
def test_high_precision_agrees(kind: str) -> None:
    given = {name: value[:1] for name, value in arrays(kind).items()}
    plain, x0 = LinearRecursion(**given), np.ones((1, D))
    with precision(40):
        exact = LinearRecursion(**{name: precise(value) for name, value in given.items()})
        for of in (exact.moments(precise(x0), 20), exact.average(precise(x0), 20)):
            assert all(type(x) is type(precise(1.0)[()]) for x in of.second.ravel())
        pairs = [
            (plain.moments(x0, 20).second, exact.moments(precise(x0), 20).second),
            (plain.average(x0, 20).second, exact.average(precise(x0), 20).second),
            (plain.limit().second, exact.limit().second),
            (plain.solution, exact.solution),
        ]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs.astype(float), rtol=1e-11)
        # digits beyond those of float64 are right as well
        t, step = 7, exact.moments(precise(x0), 7)
        with precision(80):
            longer = LinearRecursion(**{name: precise(value) for name, value in given.items()})
            more = longer.moments(precise(x0), t)
            assert 0 < np.abs(step.second - more.second).max() < 1e-35


@pytest.mark.parametrize("t", [10, 10**4, 10**6, 10**9, 10**12])
def test_no_digits_are_lost_at_long_times(t: int) -> None:
    G, g = -1e-6 * np.array([[[1.0]], [[2.0]]]), 1e-6 * np.array([[1.0], [-1.0]])
    law, x0 = np.array([0.5, 0.5]), np.ones(1)
    plain = LinearRecursion.of_increments(G, g, law=law)
    lossy = LinearRecursion(1 + G, g, law=law)
    with precision(50):
        exact = LinearRecursion.of_increments(precise(G), precise(g), law=precise(law))
        last, mean = (
            float(of(precise(x0), t).second[0, 0]) for of in (exact.moments, exact.average)
        )
    assert plain.moments(x0, t).second[0, 0] == pytest.approx(last, rel=1e-13, abs=0)
    assert plain.average(x0, t).second[0, 0] == pytest.approx(mean, rel=1e-13, abs=0)
    if t >= 10**6:  # 1 + G has lost six digits of G
        assert lossy.moments(x0, t).second[0, 0] != pytest.approx(last, rel=1e-13, abs=0)


def test_a_chain_keeps_its_probability_for_ever() -> None:
    given = arrays("chain")
    one = LinearRecursion(**given | {"A": 0 * given["A"], "b": 0 * given["b"] + 1})
    np.testing.assert_allclose(one.moments(np.zeros(D), 10**15).mean, 1, rtol=1e-14)


def test_every_entry_has_its_own_time() -> None:
    given = arrays("independent")
    recursion, x0 = LinearRecursion(**given), np.ones(D)
    several = recursion.moments(x0, np.array([[0, 7], [1, 100]]))
    assert several.second.shape == (2, 2, D, D)
    for (i, k), t in np.ndenumerate([[0, 7], [1, 100]]):
        alone = recursion.moments(x0, int(t)).second[k]
        np.testing.assert_allclose(several.second[i, k], alone, rtol=1e-13)
    assert (several.second[0, 0] == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_around_a_point(kind: str) -> None:
    recursion, x0 = LinearRecursion(**arrays(kind)), np.ones((BATCH, D))
    star = recursion.solution
    centred = recursion.around(star)
    np.testing.assert_allclose(centred.solution, 0, atol=1e-14)
    W = np.array([[2.0, 0.5], [0.5, 1.0]])
    last, error = recursion.moments(x0, 6), centred.moments(x0 - star, 6)
    np.testing.assert_allclose(error.mean, last.mean - star, atol=1e-13)
    np.testing.assert_allclose(error.covariance, last.covariance, atol=1e-12)
    np.testing.assert_allclose(error.square(), np.trace(error.second, axis1=1, axis2=2))
    weighted = np.einsum("ij,bij->b", W, error.second)
    np.testing.assert_allclose(error.square(W), weighted, rtol=1e-13)
    assert np.abs(error.square() / weighted - 1).max() > 0.01


def test_the_solution_is_that_of_the_mean_equation() -> None:
    given = arrays("transitions")
    law = stationary(given["kernel"])[..., None] * given["kernel"]
    A = (law[..., None, None] * given["A"]).sum((1, 2))
    b = (law[..., None] * given["b"]).sum((1, 2))
    star = LinearRecursion(**given).solution
    np.testing.assert_allclose((A @ star[..., None])[..., 0] + b, star, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"law": None}, "`law` or `kernel` must say how states are drawn; found neither"),
        ({"kernel": np.eye(S)}, "`law` or `kernel` must say how .* found both"),
        ({"start": np.ones(S)}, "`start` must be left out where states are independent"),
        ({"A": np.ones((S, D))}, r"`A` must have shape \(\.\.\., S, d, d\); found \(3, 2\)"),
        ({"A": np.ones((4, D, D))}, r"`A` must have shape .* with S = 3, d = 2; found \(4, 2, 2\)"),
        ({"b": np.ones((S, 5))}, r"`b` must have shape .* with S = 3, d = 2; found \(3, 5\)"),
        ({"law": None, "kernel": np.ones((2, 3))}, r"`kernel` must have shape .*; found \(2, 3\)"),
        (
            {"law": None, "kernel": np.eye(S), "start": np.ones(2)},
            r"`start` must have shape \(\.\.\., 3\); found \(2,\)",
        ),
    ],
)
def test_wrong_shapes_are_refused(change: dict[str, Any], message: str) -> None:
    given = {"A": np.ones((S, D, D)), "b": np.ones((S, D)), "law": np.ones(S) / S}
    with pytest.raises(InputError, match=message):
        LinearRecursion(**given | change)


@pytest.mark.parametrize("t", [-1, 0.5, "two", 2.0**63, np.nan])
def test_wrong_times_are_refused(t: Any) -> None:
    recursion = LinearRecursion(**arrays("independent"))
    with pytest.raises(InputError, match=r"`t` must be whole numbers from 0 to 2\^62; found"):
        recursion.moments(np.ones(D), t)
    with pytest.raises(InputError, match=r"`t` must be whole numbers from 1 to 2\^62; found 0"):
        recursion.average(np.ones(D), 0)
    with pytest.raises(InputError, match=r"`x0` must have shape \(\.\.\., 2\); found \(3,\)"):
        recursion.moments(np.ones(3), 1)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"law": [0.5]}, "law"),
        ({"law": [1.5, -0.5]}, "law"),
        ({"kernel": [[0.5, 0.6], [0.5, 0.5]]}, "kernel"),
        ({"kernel": [[0.5, 0.5], [0.5, 0.5]], "start": [3.0, 0.0]}, "start"),
    ],
)
def test_rows_that_are_no_distributions_are_refused(given: dict[str, Any], name: str) -> None:
    S = np.shape(given.get("law", [0, 0]))[-1]
    with pytest.raises(InputError, match=f"`{name}` must have rows that sum to 1"):
        LinearRecursion(np.full((S, 1, 1), 0.5), np.ones((S, 1)), **given)


def test_a_weight_of_another_dimension_is_refused() -> None:
    moments = LinearRecursion(np.full((1, 2, 2), 0.1), np.ones((1, 2)), law=[1.0]).moments(
        np.zeros(2), 3
    )
    with pytest.raises(InputError, match=r"`weight` must have shape \(..., 2, 2\); found \(3, 3\)"):
        moments.square(np.eye(3))


def with_transient(kind: str, order: list[int], precise_: bool = False) -> tuple[Any, Any]:
    """A chain of S states that a growing transient one leads to, in this order, and it alone."""
    given = arrays(kind)
    states = (S + 1, S + 1) if kind == "transitions" else (S + 1,)
    wide: dict[str, Any] = {
        "A": np.full((BATCH, *states, D, D), 3.0),
        "b": np.ones((BATCH, *states, D)),
        "kernel": np.zeros((BATCH, S + 1, S + 1)),
    }
    inner = (slice(None), *[slice(S)] * len(states))
    wide["A"][inner], wide["b"][inner] = given["A"], given["b"]
    wide["kernel"][:, :S, :S], wide["kernel"][:, S] = given["kernel"], [0, 0.25, 0, 0.75]
    for axis in range(1, 1 + len(states)):
        wide["A"], wide["b"] = (np.take(wide[name], order, axis=axis) for name in ("A", "b"))
    for axis in (1, 2):
        wide["kernel"] = np.take(wide["kernel"], order, axis=axis)
    if precise_:
        # of one recursion: what is shown of several in float64 need not be in slow numbers
        wide, given = ({k: precise(v[:1]) for k, v in one.items()} for one in (wide, given))
        for one in (wide, given):  # in high precision the rows of float64 do not sum to one
            one["kernel"] = one["kernel"] / one["kernel"].sum(axis=-1, keepdims=True)
    return LinearRecursion(**wide), LinearRecursion(**given)


def answers(one: LinearRecursion, digits: int | None) -> list[Any]:
    x0 = precise(np.ones(D)) if digits else np.ones(D)
    parts = [one.limit(), one.moments(x0, 7), one.average(x0, 7)]
    return [one.solution, *(part.mean for part in parts), *(part.second for part in parts)]


@cache  # whatever the order of the states of the other chain
def answers_without_transient(kind: str, digits: int | None) -> list[Any]:
    return answers(with_transient(kind, [0, 1, 2, 3], digits is not None)[1], digits)


@pytest.mark.parametrize("kind", ["chain", "transitions"])
@pytest.mark.parametrize(
    ("order", "digits"),
    [
        ([0, 1, 2, 3], None),
        ([3, 0, 1, 2], None),
        ([1, 3, 2, 0], None),
        pytest.param([1, 3, 2, 0], 40, marks=pytest.mark.slow),
    ],
)
def test_transient_states_have_no_part_in_what_is_stationary(
    kind: str, order: list[int], digits: int | None
) -> None:
    with precision(digits or 15):
        wide, _ = with_transient(kind, order, digits is not None)
        found, plain = answers(wide, digits), answers_without_transient(kind, digits)
        for one, other in zip(found, plain, strict=True):
            assert np.abs(one - other).max() < (1e-30 if digits else 1e-12)
        if digits is None:  # as long as the transient state counts, the second moments grow
            assert np.isnan(found[4] - wide._limit(wide._states).second).all()


def test_chains_with_several_stationary_laws_are_refused_where_one_is_needed() -> None:
    given = arrays("chain") | {"kernel": np.stack([np.full((S, S), 1 / S), np.eye(S)])}
    said = r"`kernel` must have one class of states .* depends on the start; found \[\[1. 0. 0.\]"
    asked: list[Callable[[LinearRecursion], Any]] = [
        lambda one: one.limit(),
        lambda one: one.solution,
        lambda one: one.moments(np.ones(D), 3),
        lambda one: one.average(np.ones(D), 3),
    ]
    for ask in asked:
        with pytest.raises(InputError, match=said):
            ask(LinearRecursion(**given))
    started = given | {"start": np.eye(S)[:BATCH]}
    assert off(started, started) < 1e-13
