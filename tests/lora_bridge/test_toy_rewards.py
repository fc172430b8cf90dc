"""The front of the letters' rewards, against every response that there is."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from linsys import InputError
from lora_bridge import toy_rewards
from lora_bridge.rewards import scores
from lora_bridge.toy_rewards import front_gap, letter_rewards, pareto_front


def _all_rewards(length: int) -> Any:
    """Both rewards of every text of up to length + 1 letters, one per class and one of neither."""
    texts = ["".join(t) for n in range(length + 2) for t in product("anx", repeat=n)]
    return scores(letter_rewards(length), [["?"] * len(texts)], [texts])[0].numpy()


def _gap(values: Any, points: Any) -> float:
    """The most that a mixture of points has more of both than values: a linear program."""
    n, M = points.shape
    cost = np.append(np.zeros(n), -1.0)
    more = np.hstack([-points.T, np.ones((M, 1))])  # t - mixture <= -values
    total = np.append(np.ones(n), 0.0)[None]
    bounds = [(0, None)] * n + [(None, None)]
    optimum = linprog(cost, more, -np.asarray(values), total, [1.0], bounds)
    assert optimum.status == 0
    return float(-optimum.fun)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_front_is_that_of_all_mixtures_of_all_responses(length: int) -> None:
    points, front = _all_rewards(length), pareto_front(length)
    for vertex in front:  # a response has it, and no mixture has more of both
        assert np.abs(points - vertex).max(1).min() < 1e-12
        assert _gap(vertex, points) == pytest.approx(0.0, abs=1e-9)
    between = np.random.default_rng(0).dirichlet(np.ones(2), 5)
    for share in between:  # edges, too, are on the front
        for pair in pairwise(front):
            assert _gap(share @ np.stack(pair), points) == pytest.approx(0.0, abs=1e-9)
    inside = np.random.default_rng(1).uniform(0, 0.7, (20, 2))
    expected = [_gap(values, points) for values in inside]
    np.testing.assert_allclose(front_gap(inside, length), expected, atol=1e-9)


def test_a_front_that_leaves_out_a_vertex_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = _all_rewards(3)
    whole = pareto_front(3)
    monkeypatch.setattr(toy_rewards, "pareto_front", lambda length: np.delete(whole, 1, 0))
    assert front_gap(whole[1], 3) < -0.01
    assert _gap(whole[1], points) == pytest.approx(0.0, abs=1e-9)


def test_gaps_have_the_shape_of_their_values() -> None:
    assert front_gap(np.zeros((4, 3, 2)), 5).shape == (4, 3)
    assert front_gap([0.0, 1.0], 5) == pytest.approx(0.0, abs=1e-12)
    assert front_gap([0.8, 0.8], 5) < 0


def test_letters_count_once_up_to_the_length_and_in_either_case() -> None:
    first, second = letter_rewards(4, ("ae", "n"))
    texts = ["AEan", "nnnnnn", "", "xaxxaaaa", "İİİİ"]
    np.testing.assert_allclose(np.square(first([], texts)), [0.75, 0, 0, 0.25, 0])
    np.testing.assert_allclose(np.square(second([], texts)), [0.25, 1, 0, 0, 0])


@pytest.mark.parametrize("classes", ["aeiou", (), None, [1, 2], [{"a", "b"}, {"c"}]])
def test_classes_that_are_none_are_refused(classes: Any) -> None:
    with pytest.raises(InputError, match=r"`classes` must be (a list of texts|disjoint sets)"):
        letter_rewards(4, classes)


def test_classes_may_come_one_by_one() -> None:
    names = [reward.name for reward in letter_rewards(4, (part for part in ("ae", "n")))]  # type: ignore[arg-type]
    assert names == ["ae", "n"]


@pytest.mark.parametrize("values", ["ab", None, [0.1, 0.2, 0.3], 0.5, [float("nan"), 0.5]])
def test_values_without_a_gap_are_refused(values: Any) -> None:
    with pytest.raises(InputError, match="`values` must"):
        front_gap(values, 2)


@pytest.mark.parametrize("classes", [("aei", "ei"), ("aa", "n"), ("", "n"), ("A", "n")])
def test_classes_that_share_letters_are_refused(classes: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="disjoint sets of lower-case letters"):
        letter_rewards(4, classes)
