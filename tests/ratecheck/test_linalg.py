"""``rc.linalg``: linsys' algebra, and stationary laws also of chains with transient states."""

from __future__ import annotations

import numpy as np
import pytest

import ratecheck as rc
from linsys import linalg as of_linsys

#: Two states that are left for good, around a class of two that are not.
CHAIN = np.array(
    [
        [0.25, 0.25, 0.5, 0.0],
        [0.0, 0.5, 0.5, 0.0],
        [0.0, 0.25, 0.75, 0.0],
        [0.5, 0.0, 0.0, 0.5],
    ]
)
LAW = np.array([0.0, 1 / 3, 2 / 3, 0.0])


def is_stationary(law: np.ndarray, kernel: np.ndarray) -> bool:
    """Whether it is a law that the kernel keeps, up to the roundings of a few sums."""
    return bool(np.allclose(law @ kernel, law, rtol=0, atol=1e-15) and abs(law.sum() - 1) < 1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_with_transient_states_has_its_law_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(4)
    kernel = CHAIN[np.ix_(order, order)]
    law = rc.linalg.stationary(kernel)
    np.testing.assert_allclose(law, LAW[order], rtol=1e-15)
    assert is_stationary(law, kernel)
    assert not is_stationary(law[::-1], kernel)


def test_of_irreducible_chains_it_is_linsys_own_to_the_last_bit() -> None:
    kernels = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 5))
    np.testing.assert_array_equal(rc.linalg.stationary(kernels), of_linsys.stationary(kernels))


def test_a_stack_keeps_its_shape_and_each_chain_its_law() -> None:
    kernels = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4))
    kernels[1, 2] = CHAIN
    kernels[0, 1, 0, 0] = np.nan
    laws = rc.linalg.stationary(kernels)
    assert laws.shape == (2, 3, 4)
    np.testing.assert_allclose(laws[1, 2], LAW, rtol=1e-15)
    assert np.isnan(laws[0, 1]).all()
    assert is_stationary(laws[0, 0], kernels[0, 0])


def test_in_high_precision_as_well() -> None:
    with rc.linalg.precision(40):
        law = rc.linalg.stationary(rc.linalg.precise(CHAIN))
        assert abs(law[1] * 3 - 1) < 1e-38
    assert [float(p) for p in law[[0, 3]]] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (np.eye(2), r"one class of states that is never left, .* found \{0\} and \{1\}"),
        (
            [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0.5, 0.5], [0, 0, 1, 0]],
            r"found \{0\} and \{2, 3\}",
        ),
        ([[0.5, 0.4], [0.5, 0.5]], r"rows that sum to 1, none below 0; found \[0.5 0.4\]"),
        ([[1.5, -0.5], [0.5, 0.5]], r"none below 0; found \[ 1.5 -0.5\]"),
        ([0.5, 0.5], r"must have shape \(..., S, S\); found \(2,\)"),
    ],
)
def test_what_has_no_law_or_several_is_said(kernel: object, said: str) -> None:
    with pytest.raises(rc.InputError, match=said):
        rc.linalg.stationary(np.asarray(kernel, dtype=float))


def test_everything_else_is_linsys_own() -> None:
    assert rc.linalg.norm is of_linsys.norm
    assert set(rc.linalg.__all__) == set(of_linsys.__all__)
