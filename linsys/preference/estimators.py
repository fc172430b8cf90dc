"""Maximum-likelihood estimates of the users' Delta_i, equation (3.3), with and without sharing.

=========================  =====================================================================
:func:`fit_shared`         Delta_i = B W_i with one B for all: P-ShareLoRA's estimator
:func:`fit_global`         one Delta of rank k for all users, from all comparisons (LoRA-global)
:func:`fit_local`          Delta_i of rank k, each from the user's own comparisons (LoRA-local)
:func:`fit_full`           Delta_i without a constraint, each from the user's own comparisons
:func:`fit_representation` B frozen as the pooled fit has it, heads W_i of the users' own
=========================  =====================================================================

All maximise F - ridge / 2 sum ||Delta_i||_F^2 over ||Delta_i||_F <= bound; the sum and the bound
are over the matrices that are fitted, which is a single one in a global fit. ``fit_full`` and the
heads of ``fit_representation`` are concave programs. The others are not where k is below the
dimensions: they start from leading singular vectors of the first gradient (a spectral start), end
at a local maximum, and say by their gradient how exactly.

*Separable comparisons.* Without ridge and bound there is no maximum for a user whose comparisons
some reward of the model predicts without exception: the likelihood grows for ever as that reward is
multiplied. By ``separable="error"`` such users are named in an :class:`linsys.InputError`; by
``"report"`` in the result. They then have no part in the shared factor, and their Delta is one that
separates, of no particular size. :mod:`linsys.preference.separability` has the proofs.

With few comparisons a *factor* can come to separate users: the likelihood has then climbed to where
it is not attained, and whether it has a maximum elsewhere, and higher, is not decided. Such
users are named too; their heads are the best for the factor that the others have found. The paper's
model has a bound, with which all of this is no question.

*What comparisons do not show* stays undetermined: where a user's features do not span, the Delta of
least norm given B is returned.

*Options* of all estimators, with their defaults:

=====================  =========================================================================
``ridge=0.0``          weight of the squared norms
``bound=None``         of every ||Delta_i||_F, at least 1e-100
``separable="error"``  what becomes of separable comparisons, "error" or "report"
``tol=1e-9``           the angle by which the next step may still turn the factor
``limit=100``          most Newton steps of the factor
``threads=1``          that share the users; the result does not depend on them
=====================  =========================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.preference import kernels
from linsys.preference._newton import Maximum, maximise
from linsys.preference.comparisons import Comparisons, linear_comparisons, users_named
from linsys.preference.likelihood import log_likelihood
from linsys.preference.profile import Heads, Profile
from linsys.validate import Array, InputError, check_choice, check_integer, check_number, real_array

__all__ = ["Fit", "fit_full", "fit_global", "fit_local", "fit_representation", "fit_shared"]


#: Smaller bounds have squares that are beyond double precision, or near it.
_SMALLEST_BOUND = 1e-100


@dataclass(frozen=True)
class Fit:
    """An estimate.

    Attributes:
        B: the factor, orthonormal columns: shape (d1, k), or of every user (N, d1, k) if local.
        W: the heads, shape (N, k, d2).
        Delta: B W, shape (N, d1, d2).
        loglik: F at Delta, without the ridge.
        iterations: Newton steps of the factor, the most that one took; 0 where none was fitted.
        gradient_norm: of the objective by all free parameters, without users that are separable.
        converged: whether the next step would have changed nothing of note, for all users.
        separable: users whose maximum-likelihood estimate does not exist.
    """

    B: Array
    W: Array
    Delta: Array
    loglik: float
    iterations: int
    gradient_norm: float
    converged: bool
    separable: tuple[int, ...]


@dataclass(frozen=True)
class _Options:
    """How to maximise, see the text of the module."""

    ridge: float = 0.0
    bound: float | None = None
    separable: str = "error"
    tol: float = 1e-9
    limit: int = 100
    threads: int = 1

    def __post_init__(self) -> None:
        check_number("ridge", self.ridge, low=0.0)
        if self.bound is not None:
            check_number("bound", self.bound, low=_SMALLEST_BOUND)
        check_choice("separable", self.separable, ("error", "report"))
        check_number("tol", self.tol, low=0.0, low_open=True)
        check_integer("limit", self.limit, low=1)
        check_integer("threads", self.threads, low=1)

    def profile(self, data: Comparisons) -> Profile:
        bound = math.inf if self.bound is None else float(self.bound)
        return Profile(data, float(self.ridge), bound, self.threads)


def fit_shared(data: Comparisons, k: int, *, start: ArrayLike | None = None, **options: Any) -> Fit:
    """Delta_i = B W_i with one factor B (d1, k) for all users.

    Args:
        data: the comparisons.
        k: the rank, at most min(d1, N d2).
        start: of B, shape (d1, k); the spectral one without it.
        **options: those of all estimators, see :mod:`linsys.preference.estimators`.

    Raises:
        InputError: k larger than the dimensions, options out of range, separable comparisons,
            rewards that are not linear.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((4, 200, 3, 1))
    >>> o = rng.random((4, 200)) < 1 / (1 + np.exp(-X[:, :, 0, 0]))  # all want the first feature
    >>> fit = fit_shared(Comparisons.of_users(X, o.astype(float)), k=1)
    >>> fit.converged, bool(abs(fit.B[0, 0]) > 0.98)
    (True, True)
    """
    data, settings = linear_comparisons(data), _Options(**options)
    d1, d2 = data.shape
    k = check_integer("k", k, low=1, high=min(d1, data.users * d2))
    B = None if start is None else real_array("start", start, (d1, k))
    profile = settings.profile(data)
    return _finish(settings, data, [_best(settings, profile, k, B)])


def fit_global(data: Comparisons, k: int, **options: Any) -> Fit:
    """One Delta of rank min(k, d1, d2) for all users.

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))] * 2, [[1], [0]])
    >>> fit_global(data, 1).Delta.tolist()  # one for and one against
    [[[0.0], [0.0]], [[0.0], [0.0]]]
    """
    data, settings = linear_comparisons(data), _Options(**options)
    rank = min(_rank(data, k), *data.shape)
    pooled = data.pooled()
    fit = _finish(settings, pooled, [_best(settings, settings.profile(pooled), rank, None)])
    return replace(
        fit,
        W=np.repeat(fit.W, data.users, axis=0),
        Delta=np.repeat(fit.Delta, data.users, axis=0),
        separable=tuple(range(data.users)) if fit.separable else (),
    )


def fit_local(data: Comparisons, k: int, **options: Any) -> Fit:
    """Delta_i of rank min(k, d1, d2), of every user alone."""
    data, settings = linear_comparisons(data), _Options(**options)
    rank = min(_rank(data, k), *data.shape)
    maxima = [
        _best(settings, settings.profile(data.user(i)), rank, None) for i in range(data.users)
    ]
    return _finish(settings, data, maxima)


def fit_full(data: Comparisons, **options: Any) -> Fit:
    """Delta_i in R^(d1 x d2), of every user alone; B is the identity."""
    data, settings = linear_comparisons(data), _Options(**options)
    return _finish(settings, data, [_heads(settings.profile(data), np.eye(data.shape[0]))])


def fit_representation(data: Comparisons, k: int, **options: Any) -> Fit:
    """Heads on the factor of :func:`fit_global`, of rank min(k, d1, d2)."""
    data, settings = linear_comparisons(data), _Options(**options)
    B = fit_global(data, k, **options).B
    return _finish(settings, data, [_heads(settings.profile(data), B)])


def _rank(data: Comparisons, k: Any) -> int:
    return check_integer("k", k, low=1, high=data.shape[0])


def _best(settings: _Options, profile: Profile, k: int, start: Array | None) -> Maximum:
    """The maximum over Delta_i = B W_i with B (d1, k)."""
    data = profile.data
    d1, d2 = data.shape
    if k == min(d1, data.users * d2):  # no constraint: a concave program
        full = _heads(profile, np.eye(d1))
        Delta = full.heads.W.mT
        B = np.linalg.svd(np.concatenate(list(Delta), axis=1))[0][:, :k]
        heads = full.heads._replace(B=B, W=np.ascontiguousarray((B.T @ Delta).mT))
        return replace(full, heads=heads)
    none_left_out = np.zeros(data.users, dtype=np.bool_)
    B = profile.spectral_start(k) if start is None else start
    maximum = maximise(profile, B, none_left_out, settings.tol, settings.limit)
    if maximum.left_out.any():
        # a factor on the way separated them: does the final one?
        final = _heads(profile, maximum.heads.B)
        if (maximum.left_out & ~final.left_out).any():
            maximum = maximise(
                profile, maximum.heads.B, final.left_out, settings.tol, settings.limit
            )
            final = _heads(profile, maximum.heads.B)
        heads = maximum.heads._replace(W=_merged(maximum, final.heads))
        maximum = replace(maximum, heads=heads)
    return maximum


def _merged(maximum: Maximum, final: Heads) -> Array:
    """Heads of users that were left out are what they would choose now."""
    return np.where(maximum.left_out[:, None, None], final.W, maximum.heads.W)


def _heads(profile: Profile, B: Array) -> Maximum:
    """The best heads for B; users that it separates are ``left_out``."""
    N, d2 = profile.data.users, profile.data.shape[1]
    none_left_out = np.zeros(N, dtype=np.bool_)
    heads = profile.heads(B, np.zeros((N, d2, B.shape[1])), none_left_out, derivative=False)
    apart = heads.status == kernels.SEPARATED
    _, rest = profile.gradients(heads._replace(W=np.where(apart[:, None, None], 0.0, heads.W)))
    return Maximum(heads, apart, 0, rest, True)


def _finish(settings: _Options, data: Comparisons, maxima: list[Maximum]) -> Fit:
    """The result of one maximum for all users, or of one for each."""
    apart = np.concatenate([each.left_out for each in maxima])
    separable = np.flatnonzero(apart)
    if len(separable) and settings.separable == "error":
        raise InputError(
            "the likelihood has no maximum where some reward predicts all labels of a user "
            f"(separable comparisons), here of {users_named(separable)}; set `bound` or `ridge`, "
            "add comparisons, or pass separable='report'"
        )
    W = np.concatenate([each.heads.W for each in maxima]).mT
    B = maxima[0].heads.B if len(maxima) == 1 else np.stack([each.heads.B for each in maxima])
    Delta = B @ W
    if len(separable):
        loglik = float(log_likelihood(data, Delta, threads=settings.threads).sum())
    else:
        loglik = float(sum(each.heads.values.sum() for each in maxima))
    settled = np.concatenate([each.heads.status for each in maxima]) == kernels.CONVERGED
    return Fit(
        B=B,
        W=np.ascontiguousarray(W),
        Delta=Delta,
        loglik=loglik,
        iterations=max(each.iterations for each in maxima),
        gradient_norm=math.hypot(*(each.gradient_norm for each in maxima)),
        converged=all(each.converged for each in maxima) and bool((settled | apart).all()),
        separable=tuple(int(i) for i in separable),
    )
