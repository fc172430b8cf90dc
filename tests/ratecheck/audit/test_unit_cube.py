"""Random coordinates: the same instance in every batch, and the distribution that is promised."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import ratecheck as rc
from ratecheck._claims.space import Layout
from ratecheck._claims.unit_cube import SNAPPED, TIED

KEY = rc.key_of("test")
SPACE = rc.Space(fields={"mu": rc.simplex("n", "S"), "x": rc.reals("n", "d")}, sizes={
    "n": (1, 4), "S": (1, 5), "d": (1, 3)
})  # fmt: skip
MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def layout() -> Layout:
    return SPACE.layout({"n": 3, "S": 4, "d": 2})


@pytest.fixture(scope="module")
def coordinates(layout: Layout) -> NDArray[np.float64]:
    return rc.random_coordinates(KEY, 0, layout, 20_000)


def is_end(coordinates: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (coordinates == 0) | (coordinates == 0.5) | (coordinates == 1)


def test_an_instance_depends_on_its_number_alone(
    layout: Layout, coordinates: NDArray[np.float64]
) -> None:
    for first, count in ((0, 1), (17, 1), (5, 40), (19_990, 10)):
        part = rc.random_coordinates(KEY, first, layout, count)
        assert np.array_equal(part, coordinates[first : first + count])
    assert len(np.unique(coordinates[:, -1])) > 10_000  # not the same one again and again
    far = rc.random_coordinates(KEY, (1 << 63) + 5, layout, 3)
    assert np.array_equal(far[1:], rc.random_coordinates(KEY, (1 << 63) + 6, layout, 2))
    assert not np.array_equal(far, coordinates[:3])
    assert rc.random_coordinates(KEY, 3, layout, 0).shape == (0, layout.coordinates)


def test_another_key_is_another_sequence(layout: Layout, coordinates: NDArray[np.float64]) -> None:
    names = (0, 1, "0", "0/1", "random")
    keys = {rc.key_of(*pair) for pair in ((0, "a"), (1, "a"), (0, "b"))}
    assert len(keys) == 3
    assert all(0 <= rc.key_of(name) < 1 << 64 for name in names)
    other = rc.random_coordinates(KEY + 1, 0, layout, 20_000)
    # coordinates of instances that are neither snapped nor tied
    plain = ~(is_end(coordinates).any(axis=1) | is_end(other).any(axis=1))
    both = np.corrcoef(coordinates[plain, 1], other[plain, 1])[0, 1]
    assert abs(both) < 5 / np.sqrt(plain.sum())


def test_the_numbers_are_split_mix_of_the_counter() -> None:
    """The same, written a second time with Python's own integers."""

    def mixed(value: int) -> int:
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
        value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
        return value ^ value >> 31

    def uniform(instance: int, place: int) -> float:
        stream = mixed(KEY ^ mixed(instance))
        return (mixed(stream + (place + 1) * 0x9E3779B97F4A7C15 & MASK) >> 11) / 2**53

    layout = rc.Space(fields={"x": rc.reals()}).layout({})
    cube = rc.random_coordinates(KEY, 0, layout, 200)
    seen = set()
    for k, row in enumerate(cube):
        snapped = uniform(k, 0) < SNAPPED
        for coordinate, value in enumerate(row):
            place = 2 + 3 * coordinate
            end = snapped and uniform(k, place) < uniform(k, 1)
            seen.add(end)
            expected = np.floor(2 * uniform(k, place + 1) + 0.5) / 2 if end else None
            assert value == (uniform(k, place + 2) if expected is None else expected)
    assert seen == {False, True}
    assert rc.key_of("test") == int(hashlib.sha256(b"test").hexdigest()[:16], 16)


def test_the_shares_are_those_promised(layout: Layout, coordinates: NDArray[np.float64]) -> None:
    count, size = coordinates.shape
    places = np.arange(size)[None]
    for axis in layout.sizes:
        source = layout.tie(places, axis)[0]
        tied = (coordinates == coordinates[:, source]).all(axis=1)
        # an instance whose coordinates are all ends may look tied; three axes are drawn apart
        chance = stats.binomtest(int((tied & ~is_end(coordinates).any(axis=1)).sum()), count,
                                 TIED * (1 - SNAPPED))  # fmt: skip
        assert chance.pvalue > 1e-6, axis
    # a snapped instance has no ends at all with chance E (1 - share)^m = 1 / (m + 1), untied
    free = np.all([(coordinates != coordinates[:, layout.tie(places, a)[0]]).any(axis=1)
                   for a in layout.sizes], axis=0)  # fmt: skip
    some = is_end(coordinates[free]).any(axis=1)
    expected = SNAPPED * size / (size + 1)
    assert stats.binomtest(int(some.sum()), len(some), expected).pvalue > 1e-6
    ends = coordinates[free][is_end(coordinates[free])]
    shares = [int((ends == value).sum()) for value in (0.0, 0.5, 1.0)]
    assert abs(shares[1] / len(ends) - 0.5) < 0.02  # rounding 2 u: a quarter, a half, a quarter
    assert abs(shares[0] / len(ends) - 0.25) < 0.02


def test_what_is_not_snapped_is_uniform_and_independent() -> None:
    layout = rc.Space(fields={"x": rc.reals(12)}).layout({})  # nothing to tie
    coordinates = rc.random_coordinates(KEY, 0, layout, 20_000)
    plain = coordinates[~is_end(coordinates).any(axis=1)]
    for coordinate in (0, 1, 12):
        assert stats.kstest(plain[:, coordinate], "uniform").pvalue > 1e-6
    correlation = np.corrcoef(plain.T) - np.eye(layout.coordinates)
    assert np.abs(correlation).max() < 6 / np.sqrt(len(plain))
    following = np.corrcoef(plain[:-1, 2], plain[1:, 2])[0, 1]
    assert abs(following) < 6 / np.sqrt(len(plain))


def test_instances_are_drawn_without_compiled_code() -> None:
    """Loading a kernel takes longer than judging a claim of ten lines."""
    program = """import sys
import ratecheck as rc
@rc.claim(id="my.a", source="", text="", kind="upper", fields={"x": rc.interval("n")})
def a(x):
    return x.mean() ** 2, (x**2).mean()
assert rc.judge(a).ratio == 1
print(sorted({"numba.np.arraymath", "scipy.optimize"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
