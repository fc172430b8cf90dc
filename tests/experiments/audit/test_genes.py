"""Random genes: the same instance in every batch, and the distribution that is promised."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from experiments.audit import Space, reals, simplex
from experiments.audit._genes import SNAPPED, TIED, key_of, random_genes
from experiments.audit._space import Layout

KEY = key_of("test")
SPACE = Space(fields={"mu": simplex("n", "S"), "x": reals("n", "d")}, sizes={
    "n": (1, 4), "S": (1, 5), "d": (1, 3)
})  # fmt: skip
MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def layout() -> Layout:
    return SPACE.layout({"n": 3, "S": 4, "d": 2})


@pytest.fixture(scope="module")
def genes(layout: Layout) -> NDArray[np.float64]:
    return random_genes(KEY, 0, layout, 20_000)


def is_end(genes: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (genes == 0) | (genes == 0.5) | (genes == 1)


def test_an_instance_depends_on_its_number_alone(
    layout: Layout, genes: NDArray[np.float64]
) -> None:
    for first, count in ((0, 1), (17, 1), (5, 40), (19_990, 10)):
        part = random_genes(KEY, first, layout, count)
        assert np.array_equal(part, genes[first : first + count])
    assert len(np.unique(genes[:, -1])) > 10_000  # not the same one again and again
    far = random_genes(KEY, (1 << 63) + 5, layout, 3)
    assert np.array_equal(far[1:], random_genes(KEY, (1 << 63) + 6, layout, 2))
    assert not np.array_equal(far, genes[:3])
    assert random_genes(KEY, 3, layout, 0).shape == (0, layout.genes)


def test_another_key_is_another_sequence(layout: Layout, genes: NDArray[np.float64]) -> None:
    names = (0, 1, "0", "0/1", "random")
    keys = {key_of(*pair) for pair in ((0, "a"), (1, "a"), (0, "b"))}
    assert len(keys) == 3
    assert all(0 <= key_of(name) < 1 << 64 for name in names)
    other = random_genes(KEY + 1, 0, layout, 20_000)
    # genes of instances that are neither snapped nor tied
    plain = ~(is_end(genes).any(axis=1) | is_end(other).any(axis=1))
    both = np.corrcoef(genes[plain, 1], other[plain, 1])[0, 1]
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

    layout = Space(fields={"x": reals()}).layout({})
    found = random_genes(KEY, 0, layout, 200)
    seen = set()
    for k, row in enumerate(found):
        snapped = uniform(k, 0) < SNAPPED
        for gene, value in enumerate(row):
            place = 2 + 3 * gene
            end = snapped and uniform(k, place) < uniform(k, 1)
            seen.add(end)
            expected = np.floor(2 * uniform(k, place + 1) + 0.5) / 2 if end else None
            assert value == (uniform(k, place + 2) if expected is None else expected)
    assert seen == {False, True}
    assert key_of("test") == int(hashlib.sha256(b"test").hexdigest()[:16], 16)


def test_the_shares_are_those_promised(layout: Layout, genes: NDArray[np.float64]) -> None:
    count, size = genes.shape
    places = np.arange(size)[None]
    for axis in layout.sizes:
        source = layout.tie(places, axis)[0]
        tied = (genes == genes[:, source]).all(axis=1)
        # an instance whose genes are all ends may look tied; three axes are drawn apart
        chance = stats.binomtest(int((tied & ~is_end(genes).any(axis=1)).sum()), count,
                                 TIED * (1 - SNAPPED))  # fmt: skip
        assert chance.pvalue > 1e-6, axis
    # a snapped instance has no ends at all with chance E (1 - share)^m = 1 / (m + 1), untied
    free = np.all([(genes != genes[:, layout.tie(places, a)[0]]).any(axis=1)
                   for a in layout.sizes], axis=0)  # fmt: skip
    some = is_end(genes[free]).any(axis=1)
    expected = SNAPPED * size / (size + 1)
    assert stats.binomtest(int(some.sum()), len(some), expected).pvalue > 1e-6
    ends = genes[free][is_end(genes[free])]
    shares = [int((ends == value).sum()) for value in (0.0, 0.5, 1.0)]
    assert abs(shares[1] / len(ends) - 0.5) < 0.02  # rounding 2 u: a quarter, a half, a quarter
    assert abs(shares[0] / len(ends) - 0.25) < 0.02


def test_what_is_not_snapped_is_uniform_and_independent() -> None:
    layout = Space(fields={"x": reals(12)}).layout({})  # nothing to tie
    genes = random_genes(KEY, 0, layout, 20_000)
    plain = genes[~is_end(genes).any(axis=1)]
    for gene in (0, 1, 12):
        assert stats.kstest(plain[:, gene], "uniform").pvalue > 1e-6
    correlation = np.corrcoef(plain.T) - np.eye(layout.genes)
    assert np.abs(correlation).max() < 6 / np.sqrt(len(plain))
    following = np.corrcoef(plain[:-1, 2], plain[1:, 2])[0, 1]
    assert abs(following) < 6 / np.sqrt(len(plain))
