"""Bracketing numbers, error terms and levels against their definitions, step by step."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from experiments.psharelora.theory import bracketing
from experiments.psharelora.theory.error_terms import ErrorTerms, error_terms, zeta
from linsys import InputError
from linsys.preference.subspace import Diversity


@pytest.mark.parametrize("N", [1, 2, 5])
def test_bracketing_bound_is_above_the_volume_bound(N: int) -> None:
    """Scalars, psi = L1 and -L1: probabilities fill a cube of side F = 2 sigmoid(2 L1 B) - 1.

    A bracket with sides w_i has length sum 2 w_i <= epsilon, hence a volume of at most (epsilon /
    (2 N))^N, and at least (2 N F / epsilon)^N of them are needed.
    """
    for B, L1, epsilon in product((0.1, 1.0), (0.3, 1.0), (1e-1, 1e-4)):
        F = np.tanh(L1 * B)
        needed = N * np.log(2 * N * F / epsilon)
        for kind in bracketing.KINDS:
            assert bracketing.bound(kind, N, 1, 1, 1, B=B, L1=L1, epsilon=epsilon) >= needed
    # without the factor N in the resolution, or with a quarter of the constant, it would be wrong
    sizes = {"k": 1, "d1": 1, "d2": 1, "B": 0.1, "L1": 1.0}
    needed = N * np.log(2 * N * np.tanh(0.1) / 1e-4)
    assert bracketing.bound("full", N, epsilon=4e-4, **sizes) < needed
    if N > 2:
        assert bracketing.bound("full", N, epsilon=N * 1e-4, **sizes) < needed


def test_every_step_of_the_bracketing_bound() -> None:
    rng = np.random.default_rng(0)
    N, d1, d2, k, L1, B, epsilon = 3, 5, 4, 2, 1.3, 2.0, 0.01
    e = epsilon / (2 * N * L1)
    psi = rng.normal(size=(20, d1, d2))
    psi *= L1 / np.linalg.norm(psi, axis=(1, 2), keepdims=True)
    psi[1] = -psi[0]
    Theta = rng.normal(size=(N, d1, d2))
    Theta[0] = 0.5 * e * psi[0] / L1  # around zero, where the sigmoid is steepest
    move = rng.normal(size=(N, d1, d2))
    move[0] = -psi[0]
    move *= e / np.linalg.norm(move, axis=(1, 2), keepdims=True)

    def f(Theta: np.ndarray) -> np.ndarray:
        r = np.tensordot(Theta, psi, axes=([1, 2], [1, 2]))
        return 1 / (1 + np.exp(r[:, None, :] - r[:, :, None]))

    off = np.abs(f(Theta + move) - f(Theta))
    assert off.max() <= epsilon / (4 * N)
    assert off.max() > 0.999 * epsilon / (4 * N)  # the resolution e may not be larger
    for _ in range(200):
        Q, Q2 = (np.linalg.qr(rng.normal(size=(d1, k)))[0] for _ in range(2))
        W, W2 = rng.normal(size=(2, k, d2))
        W *= B / np.linalg.norm(W)
        apart = B * np.linalg.norm(Q - Q2, 2) + np.linalg.norm(W - W2)
        assert np.linalg.norm(Q @ W - Q2 @ W2) <= apart


def test_parameters_are_those_of_proposition_1() -> None:
    sizes = {"N": 7, "d1": 6, "d2": 4, "k": 2}
    assert [bracketing.parameters(kind, **sizes) for kind in bracketing.KINDS] == [
        2 * (6 + 7 * 4),
        7 * 2 * (6 + 4),
        7 * 6 * 4,
    ]
    N, N_p = 7, 50
    bound = bracketing.bound("shared", **sizes, B=0.5, L1=2.0, epsilon=1 / (N * N_p))
    assert bound == pytest.approx(2 * (6 + 7 * 4) * np.log(1 + 8 * 0.5 * 2.0 * N**2 * N_p))


def test_levels_are_the_printed_formulas() -> None:
    users = Diversity(nu=0.5, tail=2.0, b=np.array([0.1, 0.7, 1.2]))
    least, most = (error_terms(users, 2, 3, 40, 25.0, 0.05, b=b) for b in ("min", "max"))
    rest = (25.0 + np.log(1 / 0.05)) / (3 * 40 * 0.5)
    rest += np.sqrt(2.0 / 3) / 0.5 + (2 * 3 + np.log(3 / 0.05)) / 40
    assert least.total == pytest.approx(0.1 + rest, rel=1e-14)
    assert most.total == pytest.approx(1.2 + rest, rel=1e-14)
    assert zeta(most, 1.5) == pytest.approx(1.5 * most.total)
    assert zeta(most, 1.5, form="B.1", L1=2.0) == pytest.approx(
        np.sqrt(1.5 / (2 * 2.0**2) * most.total)
    )
    assert zeta(most, 1.5, form="C.3") == pytest.approx(1.5 * np.sqrt(most.total))
    small = ErrorTerms(0.0, 1e-4, 0.0, 0.0)
    assert zeta(small, 1.0, form="C.3") > 50 * zeta(small, 1.0)


def test_bad_input_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^`k` must be a whole number of at least 1 and at most"):
        bracketing.bound("local", 5, 4, 2, 3, B=1.0, L1=1.0, epsilon=0.1)
    with pytest.raises(
        InputError, match=r"^`kind` must be one of shared, local, full; found 'all'"
    ):
        bracketing.parameters("all", 5, 4, 2, 3)
    with pytest.raises(InputError, match=r"^`b` must be one of max, min; found 'mean'"):
        error_terms(Diversity(1.0, 0.0, np.ones(2)), 1, 1, 10, 1.0, 0.1, b="mean")
    with pytest.raises(InputError, match=r"^`nu` must be a number in \(0, inf\); found 0"):
        error_terms(Diversity(0.0, 0.0, np.ones(2)), 1, 1, 10, 1.0, 0.1)
