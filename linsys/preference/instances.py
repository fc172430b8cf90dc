"""Users and trajectories with diversity, tail and coverage exactly as asked."""

from __future__ import annotations

import numpy as np

from linsys.validate import Array, InputError, check_integer, check_number

__all__ = ["isotropic_features", "random_features", "shared_users"]


def shared_users(
    N: int,
    d1: int,
    d2: int,
    k: int,
    nu: float,
    tail: float,
    rng: np.random.Generator,
    *,
    condition: float = 1.0,
    tail_rank: int | None = None,
    unequal: float = 0.0,
    B: float | None = None,
) -> Array:
    """Users' matrices Delta_i that share a left factor up to a tail, shape (N, d1, d2).

    [Delta_1, .., Delta_N] = U diag(sigma) V' with random orthonormal U and V, sigma_k^2 = N nu and
    the tail's sum of squares ``tail``, to rounding (Definition 4.1).

    Args:
        N, d1, d2: users, rows and columns.
        k: the rank that is shared.
        nu: sigma_k^2 / N, positive.
        tail: Sigma_tail = sum_{j>k} sigma_j^2, not divided by N.
        rng: where U and V come from.
        condition: sigma_1 / sigma_k; the values between fall geometrically.
        tail_rank: the number of equal singular values that make up the tail; without it all that
            are left, min(d1, N d2) - k.
        unequal: standard deviation of the logarithm of users' sizes before V is made orthonormal:
            0 gives users of similar norms, 1 a few who dominate, and b_i that differ as much.
        B: a bound on ||Delta_i||_F that the users must keep.

    Raises:
        InputError: k above min(d1, N d2), a tail without singular values to hold it or whose values
            would be larger than sigma_k, a user beyond B.

    >>> from linsys.preference.subspace import diversity
    >>> Delta = shared_users(50, 6, 3, k=2, nu=0.5, tail=4.0, rng=np.random.default_rng(0))
    >>> measured = diversity(Delta, 2)
    >>> round(measured.nu, 12), round(measured.tail, 12)
    (0.5, 4.0)
    """
    N, d1, d2 = (
        check_integer("N", N, low=1),
        check_integer("d1", d1, low=1),
        check_integer("d2", d2, low=1),
    )
    most = min(d1, N * d2)
    k = check_integer("k", k, low=1, high=most)
    sigma_k = np.sqrt(N * check_number("nu", nu, low=0.0, low_open=True))
    tail, unequal = check_number("tail", tail, low=0.0), check_number("unequal", unequal, low=0.0)
    condition = check_number("condition", condition, low=1.0)
    left = most - k if tail_rank is None else check_integer("tail_rank", tail_rank, high=most - k)
    if tail > 0.0 and tail > left * sigma_k**2:
        raise InputError(
            f"`tail` must be at most {left * sigma_k**2:.6g}, {left} squares of at most sigma_k^2 "
            f"= N nu; found {tail:g}"
        )
    lead = sigma_k * condition ** np.linspace(1.0, 0.0, k) if k > 1 else np.array([sigma_k])
    rest = np.full(left, np.sqrt(tail / left)) if tail > 0.0 else np.zeros(0)
    sigma = np.concatenate([lead, rest])
    sizes = np.exp(unequal * _checked_generator(rng).normal(size=N))
    U = _orthonormal(d1, len(sigma), rng)
    V, _ = np.linalg.qr(
        (sizes[:, None, None] * rng.normal(size=(N, d2, len(sigma)))).reshape(N * d2, len(sigma))
    )
    Delta: Array = ((U * sigma) @ V.T).reshape(d1, N, d2).swapaxes(0, 1).copy()
    if B is not None:
        norms = np.linalg.norm(Delta, axis=(1, 2))
        if norms.max() > check_number("B", B, low=0.0, low_open=True):
            raise InputError(
                f"`B` must be at least ||Delta_i||_F of all users; found {B:g} with "
                f"{norms.max():.6g} of user {int(norms.argmax())}"
            )
    return Delta


def random_features(
    T: int,
    d1: int,
    d2: int,
    rng: np.random.Generator,
    *,
    rank: int | None = None,
    rows: int | None = None,
    L1: float = 1.0,
) -> Array:
    """Normal features psi of T trajectories, the longest of length L1: shape (T, d1, d2).

    Args:
        T, d1, d2: the sizes.
        rng: where they come from.
        rank: their differences span a random subspace of min(T - 1, rank) dimensions; all without
            it. Below d1 d2 no data determines all of Theta, but it may still determine users who
            share a factor, see :func:`linsys.preference.coverage.subspace_information`.
        rows: all psi have their columns in one random subspace of R^d1 of this dimension; d1
            without it. What is orthogonal to it in a shared factor never shows.
        L1: max_tau ||psi(tau)||_F.

    >>> random_features(4, 2, 1, np.random.default_rng(0)).shape
    (4, 2, 1)
    """
    d1, d2, T = (
        check_integer("d1", d1, low=1),
        check_integer("d2", d2, low=1),
        check_integer("T", T, low=2),
    )
    rows = d1 if rows is None else check_integer("rows", rows, low=1, high=d1)
    rank = rows * d2 if rank is None else check_integer("rank", rank, low=1, high=rows * d2)
    psi = _checked_generator(rng).normal(size=(T, rank)) @ _orthonormal(rows * d2, rank, rng).T
    return _scaled(_orthonormal(d1, rows, rng) @ psi.reshape(T, rows, d2), L1)


def isotropic_features(
    T: int, d1: int, d2: int, rng: np.random.Generator, *, L1: float = 1.0
) -> Array:
    """Features that cover every direction alike, the longest of length L1: shape (T, d1, d2).

    The Gram matrix of differences under equal weights of all pairs is a multiple of I.

    Raises:
        InputError: T at most d1 d2, as differences of T features span T - 1 directions.

    >>> psi = isotropic_features(5, 2, 2, np.random.default_rng(0)).reshape(5, 4)
    >>> gram = psi.T @ psi / 5 - np.outer(psi.mean(axis=0), psi.mean(axis=0))
    >>> bool(np.abs(gram - gram[0, 0] * np.eye(4)).max() < 1e-15)
    True
    """
    D = check_integer("d1", d1, low=1) * check_integer("d2", d2, low=1)
    check_integer("T", T, low=D + 1)
    # orthonormal columns that are orthogonal to the constant one
    basis, _ = np.linalg.qr(
        np.column_stack([np.ones(T), _checked_generator(rng).normal(size=(T, D))])
    )
    return _scaled(basis[:, 1:].reshape(T, d1, d2), L1)


def _checked_generator(rng: np.random.Generator) -> np.random.Generator:
    """``rng`` if it can draw: a seed, as other functions take it, cannot."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(
            f"`rng` must be a numpy.random.Generator, as default_rng(0); found {rng!r}"
        )
    return rng


def _orthonormal(d: int, k: int, rng: np.random.Generator) -> Array:
    """k random orthonormal columns in R^d."""
    return np.linalg.qr(rng.normal(size=(d, k)))[0]


def _scaled(psi: Array, L1: float) -> Array:
    """Features (T, d1, d2) times one number, so that the longest has length L1."""
    longest = np.linalg.norm(psi, axis=(1, 2)).max()
    return np.asarray(psi * (check_number("L1", L1, low=0.0, low_open=True) / longest))
