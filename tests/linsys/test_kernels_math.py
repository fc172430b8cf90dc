"""Elementary functions, random numbers and alias tables of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numba
import numpy as np
import pytest
from scipy import stats

from linsys.kernels import draw
from linsys.kernels._finite import _alias_tables
from linsys.kernels.lanes_math import (
    _LEAST_BITS,
    exp2,
    floor_positive,
    minus_two_log,
    normal_pair,
    normal_radius,
    sincos,
    unit_interval,
)
from linsys.kernels.random import lane_states, load_state, next_bits, store_state
from linsys.kernels.simd import LANES, load, load_bits, lookup, store, store_bits
from tests.linsys._examples import finite_system

MASK = (1 << 64) - 1
#: Probability that a statistical test below fails by chance, each.
CHANCE = 1e-6

loop = numba.njit(error_model="numpy")

ITEMS = np.arange(16) ** 2 + 0.5
some_items = lookup("some_items", ITEMS.view(np.uint64).tolist())


@loop
def exp2_rows(x: Any, y: Any, rows: Any) -> None:
    for k in range(rows):
        store(y, k, exp2(load(x, k)))


@loop
def log_rows(x: Any, y: Any, rows: Any) -> None:
    for k in range(rows):
        store(y, k, minus_two_log(load(x, k)))


@loop
def sincos_rows(f: Any, sixteenth: Any, sine: Any, cosine: Any, rows: Any) -> None:
    for k in range(rows):
        s, c = sincos(load(f, k), load_bits(sixteenth, k))
        store(sine, k, s)
        store(cosine, k, c)


@loop
def item_rows(index: Any, y: Any, rows: Any) -> None:
    for k in range(rows):
        store(y, k, some_items(load_bits(index, k)))


@loop
def uniform_rows(bits: Any, y: Any, rows: Any) -> None:
    for k in range(rows):
        store(y, k, unit_interval(load_bits(bits, k)))


@loop
def floor_rows(x: Any, whole: Any, rest: Any, rows: Any) -> None:
    for k in range(rows):
        w, r = floor_positive(load(x, k))
        store_bits(whole, k, w)
        store(rest, k, r)


@loop
def normal_rows(radius: Any, angle: Any, first: Any, second: Any, rows: Any) -> None:
    for k in range(rows):
        a, b = normal_pair(normal_radius(load_bits(radius, k)), load_bits(angle, k))
        store(first, k, a)
        store(second, k, b)


@loop
def random_rows(rng: Any, out: Any, rows: Any) -> None:
    state = load_state(rng)
    for k in range(rows):
        bits, state = next_bits(state)
        store_bits(out, k, bits)
    store_state(rng, state)


def apply(rows: Any, *inputs: np.ndarray, outputs: int = 1) -> list[np.ndarray]:
    """Run a loop over rows of lanes on flat arrays of any length."""
    size = inputs[0].size
    count = -(-size // LANES)
    padded = [np.resize(v, (count, LANES)) for v in inputs]
    results = [np.empty((count, LANES)) for _ in range(outputs)]
    rows(*(v.ctypes.data for v in (*padded, *results)), count)
    return [v.reshape(-1)[:size] for v in results]


def worst_ulps(computed: np.ndarray, x: np.ndarray, exact: Callable[[Any], Any]) -> float:
    """Largest distance to the exact value at 40 digits, in units in its last place."""
    worst = 0.0
    with mpmath.workdps(40):
        for value, at in zip(computed.tolist(), x.tolist(), strict=True):
            truth = exact(at if isinstance(at, list) else mpmath.mpf(at))
            if truth == 0:
                assert value == 0, f"f({at!r}) = {value!r} is not zero"
                continue
            worst = max(worst, float(abs(value - truth)) / float(np.spacing(abs(float(truth)))))
    return worst


EXPONENTS = np.concatenate(
    [
        np.random.default_rng(0).uniform(-1022, 1023.4, 1500),
        np.random.default_rng(1).uniform(-2, 2, 1500),
        np.arange(-1022, 1024, 31) + np.arange(66) % 16 / 16 + 1 / 32,  # where rounding turns over
        np.array([-1022.0, -1021.5, -1e-300, -0.0, 0.0, 5e-324, 1e-17, 0.5, -0.5, 1.0, 1023.0]),
    ]
)


def test_items_are_found_by_the_low_four_bits() -> None:
    rng = np.random.default_rng(7)
    index = np.concatenate([np.arange(16, dtype=np.uint64), rng.integers(0, MASK, 500, np.uint64)])
    (outputs,) = apply(item_rows, index)
    assert (outputs == ITEMS[index % 16]).all()
    assert (outputs != ITEMS[index // 2 % 16]).any()


def test_exp2_is_within_one_ulp_and_a_tenth() -> None:
    """Half an ulp each from the table's and the last rounding, and what the polynomial adds."""
    (outputs,) = apply(exp2_rows, EXPONENTS)
    worst = worst_ulps(outputs, EXPONENTS, lambda v: mpmath.power(2, v))
    assert worst <= 1.1
    # An argument that is off by 1e-15 must not pass.
    (off,) = apply(exp2_rows, EXPONENTS + 1e-15)
    assert worst_ulps(off, EXPONENTS, lambda v: mpmath.power(2, v)) > 1.1


def test_exp2_is_exact_at_whole_numbers() -> None:
    whole = np.arange(-1022.0, 1024.0)
    (outputs,) = apply(exp2_rows, whole)
    assert (outputs == np.ldexp(1.0, whole.astype(int))).all()


def minus_two_log_exactly(v: Any) -> Any:
    return -2 * mpmath.log(v)


def test_log_is_within_two_ulps() -> None:
    rng = np.random.default_rng(2)
    # Where the mantissa's sixteenth turns over, and the exponent with the first one.
    edges = (_LEAST_BITS + (np.arange(17) << 48)).view(np.float64)
    x = np.concatenate(
        [
            1.0 - rng.random(1500),
            1.0 - np.ldexp(1.0, -np.arange(1, 53)),  # near 1, where the logarithm vanishes
            1.0 + np.ldexp(1.0, -np.arange(1, 53)),
            np.ldexp(1.0, -np.arange(0, 1022, 7)),  # down to the least normal number
            np.exp2(rng.uniform(-1022, 1023, 1000)),
            (edges[:, None] * (1 + np.arange(-4, 5) * 2.3e-16)).ravel(),
            np.array([1.0, 2.0**-52, 2.0**-1022]),
        ]
    )
    (outputs,) = apply(log_rows, x)
    worst = worst_ulps(outputs, x, minus_two_log_exactly)
    assert worst <= 2.0
    x = x[x != 1]
    (off,) = apply(log_rows, x * (1 + 2e-15))
    assert worst_ulps(off, x, minus_two_log_exactly) > 2.0


def test_sine_and_cosine_are_within_three_ulps() -> None:
    """The rounding of a table counts twice where the other term halves its value."""
    rng = np.random.default_rng(3)
    near = np.ldexp(1.0, -np.arange(2, 53))
    edges = np.concatenate([near, -near, [0.0, 0.5, -0.5]])
    f = np.concatenate([rng.uniform(-0.5, 0.5, 2000), np.tile(edges, 16)])
    sixteenth = rng.integers(0, MASK, 2000, np.uint64)
    sixteenth = np.concatenate([sixteenth, np.repeat(np.arange(16, dtype=np.uint64), edges.size)])
    sine, cosine = apply(sincos_rows, f, sixteenth, outputs=2)
    # f and a number of sixteenths below 16 do not fit into one double: the angle is a pair.
    angles = np.stack([f, (sixteenth % 16).astype(float)], axis=1)

    def turn(v: Any) -> Any:
        return (mpmath.mpf(v[0]) + mpmath.mpf(v[1])) / 8

    assert worst_ulps(sine, angles, lambda v: mpmath.sinpi(turn(v))) <= 3.0
    assert worst_ulps(cosine, angles, lambda v: mpmath.cospi(turn(v))) <= 3.0
    off, _ = apply(sincos_rows, f + 1e-14, sixteenth, outputs=2)
    assert worst_ulps(off[:2000], angles[:2000], lambda v: mpmath.sinpi(turn(v))) > 3.0


def test_unit_interval_is_the_upper_bits() -> None:
    rng = np.random.default_rng(4)
    edges = np.array([0, 1, 4095, 4096, MASK], dtype=np.uint64)
    bits = np.concatenate([rng.integers(0, MASK, 500, dtype=np.uint64), edges])
    (outputs,) = apply(uniform_rows, bits)
    assert (outputs == [(int(b) >> 12) / 2**52 for b in bits]).all()
    assert outputs.min() == 0.0
    assert outputs.max() == 1.0 - 2.0**-52


def test_floor_splits_a_number() -> None:
    x = np.concatenate([np.random.default_rng(5).uniform(0, 1e6, 500), [0.0, 1.0, 2.0**52 - 1]])
    whole, rest = apply(floor_rows, x, outputs=2)
    assert (whole.view(np.int64) == np.floor(x)).all()
    assert (rest == x - np.floor(x)).all()


def test_normal_pair_at_the_ends() -> None:
    """The least radius bits are the largest radius; the least angle is half a sixteenth below 0."""
    radius = np.array([0, 1, MASK, MASK - 1], dtype=np.uint64)
    quarter = 0x8000000000000004  # four sixteenths, and the middle of one
    angle = np.array([0, 0, 0, quarter], dtype=np.uint64)
    first, second = apply(normal_rows, radius, angle, outputs=2)
    largest = np.sqrt(128 * np.log(2))
    assert (first[2:] == 0).all()
    assert (second[2:] == 0).all()
    np.testing.assert_allclose(first[:2], -largest * np.sin(np.pi / 16), rtol=1e-15)
    np.testing.assert_allclose(second[:2], largest * np.cos(np.pi / 16), rtol=1e-15)
    upwards, along = apply(normal_rows, radius[:1], angle[3:], outputs=2)
    np.testing.assert_allclose(upwards, largest, rtol=1e-15)
    assert along == 0


def normals() -> tuple[np.ndarray, np.ndarray]:
    bits = np.random.default_rng(6).integers(0, MASK, (2, 1 << 17), dtype=np.uint64, endpoint=True)
    first, second = apply(normal_rows, bits[0], bits[1], outputs=2)
    return first, second


def assert_standard_normal(z: np.ndarray) -> None:
    """Kolmogorov-Smirnov and four moments, each with a two-sided failure probability of CHANCE."""
    assert stats.kstest(z, "norm").pvalue > CHANCE
    bound = stats.norm.isf(CHANCE / 2)
    # Means and variances of z, z^2, z^3, z^4 of a standard normal.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        score = ((z**power).mean() - mean) / np.sqrt(variance / z.size)
        assert abs(score) < bound, f"moment {power} is {score:.2f} standard errors off"


def test_normal_pair_is_two_independent_standard_normals() -> None:
    first, second = normals()
    assert_standard_normal(np.concatenate([first, second]))
    assert_standard_normal((first + second) / np.sqrt(2))
    assert_standard_normal((first - second) / np.sqrt(2))
    bound = stats.norm.isf(CHANCE / 2) / np.sqrt(first.size)
    assert abs((first * second).mean()) < bound
    assert abs(((first**2 - 1) * (second**2 - 1)).mean() / 2) < bound


@pytest.mark.parametrize("wrong", [lambda z: 1.02 * z, lambda z: z + 0.02, np.abs])
def test_the_normal_test_sees_a_wrong_law(wrong: Callable[[np.ndarray], np.ndarray]) -> None:
    with pytest.raises(AssertionError):
        assert_standard_normal(wrong(normals()[0]))


def xoshiro256pp(state: list[int], count: int) -> list[int]:
    """Blackman and Vigna's generator, word for word, on Python's integers."""

    def rotl(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & MASK

    s, out = list(state), []
    for _ in range(count):
        out.append((rotl((s[0] + s[3]) & MASK, 23) + s[0]) & MASK)
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
    return out


def generated(states: np.ndarray, count: int) -> np.ndarray:
    states = states.copy()
    out = np.empty((count, LANES), dtype=np.uint64)
    random_rows(states.ctypes.data, out.ctypes.data, count)
    return out


def test_generator_has_the_published_first_numbers() -> None:
    """The known first outputs of the state (1, 2, 3, 4)."""
    states = np.repeat(np.arange(1, 5, dtype=np.uint64)[:, None], LANES, axis=1)
    known = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]
    assert (generated(states, 5) == np.array(known, dtype=np.uint64)[:, None]).all()


def test_generator_is_xoshiro256pp_in_every_lane() -> None:
    states = lane_states(11, 5)[0]
    draws = generated(states, 200)
    for lane in range(LANES):
        assert draws[:, lane].tolist() == xoshiro256pp(states[:, lane].tolist(), 200)
    assert draws[1:, 0].tolist() != xoshiro256pp(states[:, 0].tolist(), 199)


def test_generator_continues_where_it_stopped() -> None:
    states = lane_states(3, 0)[0]
    whole = generated(states, 12)
    out = np.empty((6, LANES), dtype=np.uint64)
    random_rows(states.ctypes.data, out.ctypes.data, 6)
    assert (out == whole[:6]).all()
    random_rows(states.ctypes.data, out.ctypes.data, 6)
    assert (out == whole[6:]).all()


def test_states_are_hashed_by_splitmix() -> None:
    """The states of one replicate, computed with Python's integers."""

    def mix(value: int) -> int:
        value = (value + 0x9E3779B97F4A7C15) & MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return value ^ (value >> 31)

    # The first output of SplitMix64 from the state 0.
    assert mix(0) == 0xE220A8397B1DCDAF
    for seed, replicate in ((0, 0), (2**70 + 5, 12), (3, 2**40)):
        key = mix(seed & MASK) ^ mix((seed >> 64) ^ 0x5851F42D4C957F2D)
        expected = [mix(key ^ mix(4 * replicate + word)) for word in range(4)]
        assert lane_states(seed, replicate)[0, :, 0].tolist() == expected


def test_streams_are_keyed_by_seed_and_replicate_alone() -> None:
    together = np.concatenate(list(lane_states(7, 0, 3)), axis=1)
    for first in range(2 * LANES + 1):
        assert (lane_states(7, first)[0] == together[:, first : first + LANES]).all()
    keys = [
        tuple(lane_states(seed, 8 * block)[0, :, lane].tolist())
        for seed in (0, 1, 2, 2**32, 2**64, 2**64 + 1, 2**128 - 1)
        for block in (0, 1, 1000)
        for lane in range(LANES)
    ]
    assert len(set(keys)) == len(keys)
    assert all(any(key) for key in keys)


@pytest.mark.parametrize("states", [1, 2, 3, 7, 64])
def test_alias_tables_hold_the_distribution(states: int) -> None:
    mu = np.random.default_rng(states).dirichlet(np.full(states, 0.5), 6)
    mu[1] = 1 / states
    mu[2] = np.eye(states)[states // 2]
    if states > 2:
        mu[3, ::2] = 0.0
        mu[3] /= mu[3].sum()
    keep, alias = _alias_tables(mu)
    assert_alias_tables(mu, keep, alias)
    if states > 1:
        wrong = keep.copy()
        wrong[0, 0] += 1e-6 if keep[0, 0] < 0.5 else -1e-6
        if alias[0, 0] != 0:
            with pytest.raises(AssertionError):
                assert_alias_tables(mu, wrong, alias)
        with pytest.raises(AssertionError):
            assert_alias_tables(mu, np.ones_like(keep), alias)


def assert_alias_tables(mu: np.ndarray, keep: np.ndarray, alias: np.ndarray) -> None:
    """The law of "a uniform column, kept or replaced" is mu, and never a state of probability 0."""
    n, size = mu.shape
    for i in range(n):
        law = keep[i] / size
        np.add.at(law, alias[i].astype(int), (1 - keep[i]) / size)
        assert np.abs(law - mu[i]).max() <= 4e-16 * size
        assert (law[mu[i] == 0] == 0).all()


def assert_follows(states: np.ndarray, mu: np.ndarray) -> None:
    """Pearson's chi-squared test per agent, (rounds, R, n) against (n, S); CHANCE in total."""
    n = len(mu)
    for i in range(n):
        counts = np.bincount(states[..., i].ravel(), minlength=mu.shape[1])
        expected = mu[i] * counts.sum()
        seen = expected > 0
        assert (counts[~seen] == 0).all(), "a state of probability zero was drawn"
        statistic = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
        if seen.sum() > 1:
            assert statistic < stats.chi2.isf(CHANCE / n, seen.sum() - 1)


def test_finite_samples_follow_mu() -> None:
    from linsys import FiniteSystem

    base = finite_system(8, n=5, d=2, states=6)
    mu = base.mu.copy()
    mu[1] = [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]
    mu[2] = np.eye(6)[3]
    system = FiniteSystem.from_objectives(A=base.A, Phi=base.Phi, theta=base.theta, mu=mu)
    states = draw(system, rounds=400, replicates=100, seed=12)
    assert states.shape == (400, 100, 5)
    assert_follows(states, mu)
    with pytest.raises(AssertionError):
        assert_follows(states, mu[::-1])
    wrong = mu.copy()
    wrong[0] = 0.97 * mu[0] + 0.03 * np.eye(6)[mu[0].argmin()]
    with pytest.raises(AssertionError):
        assert_follows(states, wrong)
