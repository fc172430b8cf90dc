"""The small linear algebra is as accurate as float64 allows, and high precision as it says.

References are mpmath's own algorithms on exactly the same numbers, with 60 digits beyond the range
that the scales take. Errors are counted in ``eps ||M||``, times the condition number for solutions:
what a backward stable algorithm leaves, with a factor of a few per dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from linsys import InputError
from linsys.linalg import (
    _loops,
    inverse,
    is_precise,
    lambda_max,
    lambda_min,
    no_floats,
    norm,
    operator_norm,
    precise,
    precision,
    solve,
    stationary,
    stretch,
    transpose,
)

Array = NDArray[np.float64]
EPS = np.finfo(float).eps
#: Errors in units of eps ||M|| that rounding may leave, per dimension.
ULPS = 4
SIZES = (1, 2, 3, 4, 8, 9)
SCALES = (1.0, 1e-150, 1e150)


@pytest.fixture(autouse=True)
def reference_digits() -> Iterator[None]:
    """References in the global context of mpmath, which the module under test does not use."""
    with mpmath.workdps(60):
        yield


def shapes(d: int) -> dict[str, Array]:
    """Matrices that are hard in one way each."""
    rng = np.random.default_rng(d)
    dense = rng.standard_normal((d, d))
    axes = np.linalg.qr(dense)[0]
    spread = 10.0 ** -np.linspace(0, 15, d)
    return {
        "dense": dense,
        "zero": np.zeros((d, d)),
        "identity": np.eye(d),
        "one equal to all": np.ones((d, d)),
        "rank one": np.outer(dense[0], dense[-1]),
        "one dimension lost": dense @ np.diag([0.0] + [1.0] * (d - 1)),
        "rotation": axes,
        "rotation, one axis stretched": axes @ np.diag([2.0] + [1.0] * (d - 1)),
        "almost equal eigenvalues": np.eye(d) + 1e-9 * (dense + dense.T),
        "almost singular": axes * spread @ axes.T,
        "graded": dense * spread,
        "indefinite": axes * np.where(np.arange(d) % 2, -1.0, 1.0) @ axes.T,
        "nilpotent": np.triu(dense, 1),
    }


def stack(d: int, scale: float) -> Array:
    return scale * np.array(list(shapes(d).values()))


def exact(matrix: Array) -> Any:
    """The same numbers, not their shortest decimals."""
    return mpmath.matrix([[mpmath.mpf(x) for x in row] for row in matrix.tolist()])


def array(matrix: Any) -> NDArray[Any]:
    return np.array(matrix.tolist(), dtype=object)


def reference_norm(matrix: Array) -> Any:
    return max(mpmath.svd_r(exact(matrix), compute_uv=False))


def reference_range(matrix: Array) -> tuple[Any, Any]:
    values = list(mpmath.eigsy((exact(matrix) + exact(matrix).T) / 2, eigvals_only=True))
    return min(values), max(values)


def reference_stretch(matrix: Array) -> NDArray[Any]:
    _, values, axes = mpmath.svd_r(exact(matrix))
    return array(axes.T * mpmath.diag(list(values)) * axes)


def errors(
    results: NDArray[Any], matrices: Array, reference: Callable[[Array], Any]
) -> NDArray[np.float64]:
    """The largest error of each matrix in units of eps ||M|| d; 0 / 0 counts as none."""
    counted = []
    for got, matrix in zip(results, matrices, strict=True):
        gap = np.abs(np.atleast_1d(got).astype(object) - reference(matrix)).max()
        unit = EPS * reference_norm(matrix) * len(matrix)
        counted.append(float(gap / unit) if unit else float(gap))
    return np.array(counted)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "d", [*SIZES[:-2], *(pytest.param(d, marks=pytest.mark.slow) for d in SIZES[-2:])]
)
def test_norms_eigenvalues_and_roots_are_accurate(d: int, scale: float) -> None:
    matrices = stack(d, scale)
    ends = np.stack([lambda_min(matrices), lambda_max(matrices)], axis=-1)
    assert errors(operator_norm(matrices), matrices, reference_norm).max() <= ULPS
    assert errors(ends, matrices, reference_range).max() <= ULPS
    assert errors(stretch(matrices), matrices, reference_stretch).max() <= ULPS


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("d", SIZES)
def test_solutions_are_accurate_up_to_the_condition(d: int, scale: float) -> None:
    rng = np.random.default_rng(d)
    names = ("dense", "identity", "rotation", "almost equal eigenvalues", "almost singular")
    matrices = scale * np.array([shapes(d)[name] for name in names])
    vectors = rng.standard_normal((len(names), d))
    for matrix, vector, x, inverted in zip(
        matrices, vectors, solve(matrices, vectors), inverse(matrices), strict=True
    ):
        truth = array(exact(matrix) ** -1)
        values = mpmath.svd_r(exact(matrix), compute_uv=False)
        unit = ULPS * d * EPS * max(values) / min(values)
        assert np.abs(inverted - truth).max() <= unit / min(values)
        assert np.abs(x - truth @ vector).max() <= unit * np.linalg.norm(vector) / min(values)


entries = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 1e-8]), st.floats(-1, 1, allow_subnormal=False)
)


@st.composite
def matrices_of_all_kinds(draw: st.DrawFn) -> Array:
    d = draw(st.integers(1, 5))
    flat = draw(st.lists(entries, min_size=d * d, max_size=d * d))
    return 10.0 ** draw(st.integers(-140, 140)) * np.array(flat).reshape(1, d, d)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(matrices_of_all_kinds())
def test_any_matrix_is_treated_accurately(matrices: Array) -> None:
    ends = np.stack([lambda_min(matrices), lambda_max(matrices)], axis=-1)
    assert errors(operator_norm(matrices), matrices, reference_norm).max() <= ULPS
    assert errors(ends, matrices, reference_range).max() <= ULPS
    assert errors(stretch(matrices), matrices, reference_stretch).max() <= ULPS


@pytest.mark.slow
@pytest.mark.parametrize("digits", [25, 40])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_high_precision_is_accurate_to_its_last_digits(d: int, digits: int) -> None:
    matrices = np.concatenate([stack(d, scale) for scale in SCALES])
    regular = np.array([shapes(d)[name] for name in ("dense", "rotation", "almost singular")])
    unit = 10.0 ** (1 - digits)
    with precision(digits):
        numbers = precise(np.vectorize(Fraction, otypes=[object])(matrices))
        ends = np.stack([lambda_min(numbers), lambda_max(numbers)], axis=-1)
        assert errors(operator_norm(numbers), matrices, reference_norm).max() * EPS * d <= unit
        assert errors(ends, matrices, reference_range).max() * EPS * d <= unit
        assert errors(stretch(numbers), matrices, reference_stretch).max() * EPS * d <= unit
        numbers = precise(np.vectorize(Fraction, otypes=[object])(regular))
        gap = np.abs(inverse(numbers) @ numbers - np.eye(d, dtype=int)).max()
        assert gap <= 1e16 * unit  # the condition number is at most 1e15
        halves = solve(numbers, numbers.sum(axis=-1) / 2)
        assert np.abs(2 * halves - 1).max() <= 1e16 * unit


def test_precise_numbers_are_what_they_were_written_as() -> None:
    with precision(30):
        tenth, third, four = precise([0.1])[0], precise([Fraction(1, 3)])[0], precise([4])[0]
        assert tenth * 10 == 1
        assert str(third) == "0." + 30 * "3"
        assert four == 4
        again = precise(precise([[0.1, 2.0]]))
        assert is_precise(again)
        assert again[0, 0] == tenth
        assert not is_precise(np.ones(2))
        assert np.isnan(float(precise([np.nan])[0]))


@pytest.mark.parametrize(
    "convert", [float, complex, round, math.sqrt, math.floor, np.float64, np.complex128]
)
def test_numbers_refuse_to_become_floats_where_they_are_told(convert: Callable[[Any], Any]) -> None:
    """Those of mpmath's other contexts do not, and all convert again after the block."""
    number, other = precise([2.25])[0], mpmath.mpf(2.25)
    root = np.sqrt(precise([2.25]))[0]

    def block() -> None:
        with no_floats("outer"):
            with no_floats("inner"), pytest.raises(TypeError, match="inner"):
                convert(number)
            assert convert(other) == convert(2.25)
            convert(root)

    with pytest.raises(TypeError, match="outer"):
        block()
    assert convert(number) == convert(2.25)


def test_arrays_refuse_floats_as_their_numbers_do() -> None:
    numbers = precise(np.eye(2) / 3)
    with no_floats("not here"):
        for convert in (
            lambda: numbers.astype(float),
            lambda: np.asarray(numbers, dtype=float),
            lambda: operator_norm(numbers.astype(np.float64)),
            lambda: np.array(0.0).__setitem__((), numbers[0, 0]),
        ):
            with pytest.raises(TypeError, match="not here"):
                convert()
        assert operator_norm(numbers) == inverse(3 * numbers)[0, 0] / 3
    assert (numbers.astype(float) == np.eye(2) / 3).all()


@pytest.mark.parametrize("d", [1, 3, 8, 9])
def test_one_bad_matrix_is_nan_and_touches_no_other(d: int) -> None:
    rng = np.random.default_rng(0)
    good = rng.standard_normal((70, d, d))
    for bad in (np.nan, np.inf):
        for at in ((0, 0), (0, d - 1), (d - 1, 0), (d - 1, d - 1)):
            mixed = good.copy()
            mixed[(33, *at)] = bad
            others = np.arange(70) != 33
            for function in (operator_norm, lambda_min, lambda_max, stretch):
                result = function(mixed)
                assert np.isnan(result[33]).all()
                assert (result[others] == function(good)[others]).all()
            if np.isnan(bad):
                assert np.isnan(inverse(mixed)[33]).all()
                assert np.isnan(solve(mixed, good[:, 0])[33]).all()
                assert (inverse(mixed)[others] == inverse(good)[others]).all()


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_high_precision_knows_nan(d: int) -> None:
    with precision(20):
        numbers = precise(np.ones((2, d, d)))
        numbers[1, 0, d - 1] = precise([np.nan])[0]
        for function in (operator_norm, lambda_min, lambda_max, stretch):
            result = function(numbers)
            assert np.all(result[1] != result[1])
            assert np.all(result[0] == result[0])


@pytest.mark.parametrize("S", [1, 2, 5])
def test_stationary_laws(S: int) -> None:
    kernels = np.random.default_rng(S).dirichlet(np.ones(S), size=(3, S))
    laws = stationary(kernels)
    assert np.abs((laws[:, None] @ kernels)[:, 0] - laws).max() <= 4e-16
    with precision(50):
        exact = precise(kernels)
        exact = exact / exact.sum(axis=-1, keepdims=True)
        law = stationary(exact)
        assert np.abs((law[:, None] @ exact)[:, 0] - law).max() < 1e-48
        assert np.abs(law - laws).max() < 1e-15
    if S > 1:
        kernels[1] = np.eye(S)
        mixed = stationary(kernels)
        assert np.isnan(mixed[1]).all()
        assert (mixed[[0, 2]] == laws[[0, 2]]).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 9])
def test_a_singular_matrix_has_no_inverse(d: int) -> None:
    matrices = np.array([np.zeros((d, d)), np.diag(np.arange(d) * 1.0), np.eye(d)])
    with precision(20):
        for stacked in (matrices, precise(matrices)):
            for result in (inverse(stacked), solve(stacked, stacked[:, :, 0])):
                assert (result[:2] != result[:2]).reshape(2, -1).all()
                assert (result[2] == result[2]).all()


def test_a_result_depends_on_its_matrix_alone() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 3, 6):
        matrices = rng.standard_normal((5, 9, d, d)) * 10.0 ** rng.integers(-9, 9, (5, 9, 1, 1))
        vectors = rng.standard_normal((5, 9, d))
        for function in (operator_norm, lambda_min, stretch, inverse):
            whole = function(matrices)
            assert all((function(matrices[k]) == whole[k]).all() for k in np.ndindex(5, 9))
        whole = solve(matrices, vectors)
        assert all((solve(matrices[k], vectors[k]) == whole[k]).all() for k in np.ndindex(5, 9))


def test_stacks_broadcast_and_keep_their_shape() -> None:
    rng = np.random.default_rng(2)
    matrices, vectors = rng.standard_normal((4, 1, 3, 3)), rng.standard_normal((5, 3))
    solutions = solve(matrices, vectors)
    assert solutions.shape == (4, 5, 3)
    assert np.allclose((matrices @ solutions[..., None])[..., 0], vectors, rtol=0, atol=1e-12)
    for function, shape in ((operator_norm, (4, 1)), (inverse, (4, 1, 3, 3))):
        assert function(matrices).shape == shape
        assert function(transpose(matrices)).shape == shape  # not contiguous
    assert operator_norm(np.empty((0, 3, 3))).shape == (0,)
    frozen = matrices.copy()
    frozen.setflags(write=False)
    assert (stretch(frozen) == stretch(matrices)).all()
    for loop in (_loops.operator_norms, _loops.stretches, _loops.linear_solutions):
        assert len(loop.signatures) == 1  # whatever the memory layout, compiled once
    assert (operator_norm(2 * np.eye(3, dtype=int)) == 2).all()
    with precision(20):
        assert np.allclose(solve(precise(matrices), vectors).astype(float), solutions, rtol=1e-12)


def test_lengths() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert norm(vectors).tolist() == [5.0, 0.0]
    assert norm(1e150 * vectors)[0] == pytest.approx(5e150, rel=2 * EPS)
    assert norm(1e-150 * vectors)[0] == pytest.approx(5e-150, rel=2 * EPS)
    with precision(30):
        assert norm(precise(vectors)).tolist() == [5, 0]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 0, 0)])
def test_only_square_matrices_are_taken(shape: tuple[int, ...]) -> None:
    for function in (operator_norm, lambda_min, stretch, inverse):
        with pytest.raises(InputError, match=r"`matrices` must have shape \(\.\.\., d, d\)"):
            function(np.ones(shape))
