"""Estimates from many data sets at a time, where all users are shown the same few pairs.

R data sets of N users are then arrays of counts (R, N, P): how often each pair was shown, and how
often tau0 was preferred. :func:`fit_counts` is :func:`linsys.preference.estimators.fit_shared` for
all of them, as products of arrays: a faster body, which leaves the few data sets that it cannot
finish to that function.

*Newton's method for factor and heads together.* With B_perp an orthonormal basis of what is
orthogonal to B, Delta_i = (B + B_perp C) W_i. A factor is kept as an orthogonal U (R, d1, d1) whose
first k columns are B, and the features are turned by U: then Delta_i is W_i in the first k rows,
and C adds C W_i below them. Gradient and Hessian of every user's likelihood by Delta_i are products
of the P features, and of their products, with slopes and curvatures at the pairs. The heads are
eliminated from Newton's system (a Schur complement), the step of C is found from what is left, and
B + B_perp C is made orthonormal. Where the bound on ||W_i|| binds, the step of a head maximises its
quadratic model over the ball, and its multiplier enters as in :mod:`linsys.preference.kernels`.

*Far from a maximum*, where a step turns the factor by more than a little, heads are found anew for
each factor that is tried, and the step is that of :mod:`linsys.preference._newton`, so that both
climb to the same maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.preference.comparisons import Comparisons, users_named
from linsys.preference.estimators import fit_full, fit_shared
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["Fits", "as_comparisons", "fit_counts", "fit_population"]

#: Numbers of an array (R, N, P) that is worked on at a time, so that it stays in the cache.
_PIECE = 1 << 16
#: Steps after which a data set is left, and steps of heads alone.
_LIMIT, _ALONE = 40, 60
#: A step that turns the factor by more is far from the maximum; heads are found anew there, until
#: a step changes no logit by more than ``_ROUGH``, and the next one none of note.
_FAR, _ROUGH = 0.1, 1.0
#: Part of the predicted gain that a step must bring there, and the shortest part of a step.
_SUFFICIENT, _SHORTEST = 1e-4, 1e-10
#: Rounding of a sum of log-likelihoods; a predicted gain below the smaller part of it is rounding
#: of the gradient.
_ROUNDING, _NO_GAIN = 1e-13, 1e-20
#: Heads whose last step changes no logit by more than this are exact to rounding.
_STILL = 3e-6
#: Logits beyond this are those of certain preferences, to rounding.
_CERTAIN = 700.0
#: Below this part of the largest eigenvalue a Hessian counts as singular.
_SINGULAR = 1e-10
_TINY = 1e-300
#: As in :mod:`linsys.preference.estimators`.
_SMALLEST_BOUND = 1e-100


@dataclass(frozen=True)
class Fits:
    """Estimates from R data sets; one of a population has no R in front.

    Attributes:
        B: the factors, orthonormal columns, shape (R, d1, k).
        W: the heads, shape (R, N, k, d2).
        left: how many data sets were left to ``fit_shared``, or to ``fit_full`` where k = d1.
        converged: where the next step would have changed nothing of note, shape (R,).
    """

    B: Array
    W: Array
    left: int
    converged: NDArray[np.bool_]

    @property
    def Delta(self) -> Array:
        """B W, shape (R, N, d1, d2)."""
        return np.asarray(self.B[..., None, :, :] @ self.W)


def as_comparisons(features: ArrayLike, shown: ArrayLike, preferred: ArrayLike) -> Comparisons:
    """The data of N users with these counts (N, P), as soft labels with weights.

    Raises:
        InputError: shapes that do not fit, and what :class:`Comparisons` refuses.
    """
    sizes: dict[str, int] = {}
    X = real_array("features", features, ("P", "d1", "d2"), sizes)
    numbers = real_array("shown", shown, ("N", "P"), sizes)
    yes = real_array("preferred", preferred, ("N", "P"), sizes)
    user, pair = np.nonzero(numbers)
    n = numbers[user, pair]
    return Comparisons(
        X,
        labels=yes[user, pair] / n,
        starts=np.searchsorted(user, np.arange(len(numbers) + 1)),
        weights=n,
        pairs=pair,
        soft=True,
    )


def fit_counts(
    features: ArrayLike,
    shown: ArrayLike,
    preferred: ArrayLike,
    k: int,
    *,
    start: ArrayLike | None = None,
    bound: float = math.inf,
    tol: float = 1e-9,
) -> Fits:
    """Delta_i = B W_i with one factor B (d1, k) for all users of a data set, and ||W_i|| <= bound.

    Args:
        features: differences of every pair, shape (P, d1, d2).
        shown: how often each pair was shown, or its weight, shape (R, N, P).
        preferred: how often tau0 was preferred, shape (R, N, P).
        k: the rank, at most min(d1, N d2), or d1.
        start: of every B, shape (d1, k); the spectral one without it.
        bound: of every ||Delta_i||_F.
        tol: the angle by which a step may still turn the factor.

    Raises:
        InputError: shapes that do not fit, numbers that are not finite, k larger than the
            dimensions, a bound or an angle that is not positive, counts that are negative,
            preferences of more comparisons than were shown, users without comparisons; of data
            sets that are left, what ``fit_shared`` refuses, such as separable comparisons.

    >>> features = np.random.default_rng(0).normal(size=(9, 2, 1))
    >>> shown = np.full((1, 3, 9), 100)
    >>> preferred = shown / (1.0 + np.exp(-features[:, 0, 0]))  # all want the first feature
    >>> fits = fit_counts(features, shown, preferred, k=1)
    >>> fits.Delta[0, 0].round(9).T.tolist(), fits.left
    ([[1.0, 0.0]], 0)
    """
    X, numbers, yes = _checked(features, shown, preferred)
    (R, N, P), (d1, d2) = numbers.shape, X.shape[1:]
    k = check_integer("k", k, low=1, high=d1)
    if k < d1:
        check_integer("k", k, low=1, high=N * d2)
    first_B = None if start is None else real_array("start", start, (d1, k))
    check_number("tol", tol, low=0.0, low_open=True)
    if bound != math.inf:
        bound = check_number("bound", bound, low=_SMALLEST_BOUND)
    if k < d1 and k == N * d2:  # no constraint: a concave program
        full = fit_counts(X, numbers, yes, d1, bound=bound, tol=tol)
        B = np.linalg.svd(np.concatenate(list(np.moveaxis(full.Delta, 1, 0)), axis=2))[0][..., :k]
        return replace(full, B=B, W=B.mT[:, None] @ full.Delta)
    B, W = np.empty((R, d1, k)), np.empty((R, N, k, d2))
    converged = np.ones(R, dtype=np.bool_)
    pairs = _Pairs(np.ascontiguousarray(X.mT))
    step, left = max(1, _PIECE // (N * P)), 0
    for first in range(0, R, step):
        at = slice(first, first + step)
        data = _Data(pairs, numbers[at], yes[at], bound)
        try:
            with np.errstate(all="ignore"):  # what is not a number is no maximum
                done = _maximise(data, first_B, tol, B[at], W[at])
        except np.linalg.LinAlgError:  # a singular matrix
            done = np.zeros(len(data.n), dtype=np.bool_)
        for r in first + np.flatnonzero(~done):
            one = as_comparisons(X, numbers[r], yes[r])
            options = {"bound": None if math.isinf(bound) else bound, "tol": tol}
            if k == d1:
                fit = fit_full(one, **options)
            else:
                fit = fit_shared(one, k, start=first_B, **options)
            B[r], W[r], converged[r] = fit.B, fit.W, fit.converged
            left += 1
    return Fits(B, W, left, converged)


def _checked(
    features: ArrayLike, shown: ArrayLike, preferred: ArrayLike
) -> tuple[Array, Array, Array]:
    """The arguments of :func:`fit_counts` as arrays whose shapes and numbers fit."""
    sizes: dict[str, int] = {}
    X = real_array("features", features, ("P", "d1", "d2"), sizes)
    n = real_array("shown", shown, ("R", "N", "P"), sizes)
    o = real_array("preferred", preferred, ("R", "N", "P"), sizes)
    if (n < 0).any():
        at = _place(n < 0)
        raise InputError(f"`shown` must be non-negative; found {n[at]:.6g} at index {at}")
    if ((o < 0) | (o > n)).any():
        at = _place((o < 0) | (o > n))
        raise InputError(
            "`preferred` must be from 0 to as often as `shown`; "
            f"found {o[at]:.6g} of {n[at]:.6g} at index {at}"
        )
    asked = np.asarray(n.any(axis=2))
    if not asked.all():
        r, _ = _place(~asked)
        raise InputError(
            "every user must have a comparison with positive weight; "
            f"found none of {users_named(np.flatnonzero(~asked[r]))} in data set {r}"
        )
    return X, n, o


def _place(where: NDArray[np.bool_]) -> tuple[int, ...]:
    """The first place that is meant."""
    return tuple(int(i) for i in np.argwhere(where)[0])


def fit_population(
    system: PreferenceSystem, k: int, *, start: ArrayLike | None = None, tol: float = 1e-9
) -> Fits:
    """The estimate from infinitely many comparisons of every user, with linear rewards.

    >>> psi = np.random.default_rng(0).normal(size=(5, 2, 1))
    >>> system = PreferenceSystem(psi, np.zeros((2, 1)), [[[1.0], [2.0]]])
    >>> fit_population(system, 2).Delta[0].round(9).T.tolist()
    [[1.0, 2.0]]
    """
    if system.link != "linear" or system.Theta_init.any():
        raise InputError("`system` must have linear rewards and Theta_init = 0 to be fitted here")
    P = system.probabilities()
    shown = np.broadcast_to(system.pair_weights, (1, *P.shape))
    X = np.subtract(*system.psi[system.pairs.T])
    fits = fit_counts(X, shown, shown * P, k, start=start, tol=tol)
    return Fits(fits.B[0], fits.W[0], fits.left, fits.converged[0])


class _Point(NamedTuple):
    """Factors and heads of data sets, with the likelihoods there and their derivatives.

    Attributes:
        U: shape (R, d1, d1).
        heads: shape (R, N, d2, k).
        value: the log-likelihood of all users, shape (R,).
        G: its gradient by Delta_i in the coordinates of U, shape (R, N, d2, d1).
        H: minus the Hessian, shape (R, N, d2, d1, d2, d1).
        curvature: of all comparisons, the sum, shape (R,).
    """

    U: Array
    heads: Array
    value: Array
    G: Array
    H: Array
    curvature: Array

    def of(self, which: NDArray[Any]) -> _Point:
        return _Point(*(array[which] for array in self))


@dataclass(frozen=True)
class _Pairs:
    """The features ``columns`` (P, d2, d1) of pairs, and their products, each only once."""

    columns: Array

    @cached_property
    def flat(self) -> Array:
        """The features as rows (P, d2 d1)."""
        return self.columns.reshape(len(self.columns), -1)

    @cached_property
    def reach(self) -> float:
        """The largest norm of features: what a head moves, times this, bounds what logits do."""
        return float(np.linalg.norm(self.flat, axis=1).max())

    @cached_property
    def products(self) -> Array:
        """Products of two entries, the first no later than the second, (P, D (D + 1) / 2)."""
        first, second = np.triu_indices(self.flat.shape[1])
        return np.ascontiguousarray(self.flat[:, first] * self.flat[:, second])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Which of these each entry of a matrix (D, D) is, shape (D D,)."""
        D = self.flat.shape[1]
        places = np.zeros((D, D), dtype=np.int64)
        places[np.triu_indices(D)] = np.arange(D * (D + 1) // 2)
        return np.maximum(places, places.T).ravel()


@dataclass(frozen=True)
class _Data:
    """Counts n and o (R, N, P) of pairs, and the bound."""

    pairs: _Pairs
    n: Array
    o: Array
    bound: float

    def of(self, which: NDArray[Any]) -> _Data:
        return _Data(self.pairs, self.n[which], self.o[which], self.bound)

    def _slopes(self, Q: Array, heads: Array) -> tuple[Array, Array, Array, Array]:
        """Logits of features Q (R, P, d2 k), their odds, and likelihoods' two derivatives."""
        logits = heads.reshape(*self.n.shape[:2], -1) @ Q.mT
        np.clip(logits, -_CERTAIN, _CERTAIN, out=logits)
        # in place where an array is not needed any more: the time is that of memory
        odds = -logits
        np.exp(odds, out=odds)
        p = 1.0 + odds
        np.divide(1.0, p, out=p)
        likely = self.n * p
        bends = np.subtract(1.0, p, out=p)
        bends *= likely
        return logits, odds, np.subtract(self.o, likely, out=likely), bends

    def _turned(self, B: Array) -> Array:
        """The features in the coordinates B (R, d1, k), shape (R, P, d2 k)."""
        Q = self.pairs.columns @ B[:, None]
        return Q.reshape(*Q.shape[:2], -1)

    def at(self, U: Array, heads: Array) -> _Point:
        """The point."""
        (R, N, d2, k), d1 = heads.shape, U.shape[1]
        logits, odds, slopes, bends = self._slopes(self._turned(U[..., :k]), heads)
        value = ((self.o - self.n) * logits - self.n * np.log1p(odds)).sum(axis=(1, 2))
        G = (slopes @ self.pairs.flat).reshape(R, N * d2, d1) @ U
        H = (bends @ self.pairs.products)[..., self.pairs.places].reshape(R, -1, d1) @ U
        H = np.ascontiguousarray(H.reshape(R, N, d2, d1, d2, d1).swapaxes(3, 5))
        H = (H.reshape(R, -1, d1) @ U).reshape(R, N, d2, d1, d2, d1).swapaxes(3, 5)
        return _Point(U, heads, value, G.reshape(R, N, d2, d1), H, bends.sum(axis=(1, 2)))

    def alone(self, Q: Array, heads: Array) -> Array:
        """Newton's step of heads for features Q (R, P, d2 k)."""
        (R, N), p = self.n.shape[:2], Q.shape[2]
        _, _, slopes, bends = self._slopes(Q, heads)
        if p > N:
            J = (bends[:, :, None] * Q.mT[:, None]) @ Q[:, None]
        else:
            J = bends @ (Q[..., None] * Q[..., None, :]).reshape(R, -1, p * p)
        return _own_steps(J.reshape(R, N, p, p), slopes @ Q, heads, self.bound)[0]

    def settled(self, U: Array, heads: Array) -> _Point:
        """The point with the best heads for its factor, from these or from zero.

        From zero no step is too long; where the first one from elsewhere may be, zero is better.
        """
        Q = self._turned(U[..., : heads.shape[3]])
        for turn in range(_ALONE):
            step = self.alone(Q, heads)
            sizes = self.pairs.reach * _sizes(step)
            heads = heads + step
            if turn == 0:
                heads[~(sizes <= _ROUGH)] = 0.0
            elif not sizes.max() > _ROUGH:
                break
        return self.at(U, heads)

    def scatter(self) -> Array:
        """Second moments of the features' columns, shape (R, d1, d1)."""
        P, d2, d1 = self.pairs.columns.shape
        squares = (self.pairs.columns.mT @ self.pairs.columns).reshape(P, -1)
        shown = self.n.sum(axis=1)
        moments = shown @ squares / (d2 * np.maximum(shown.sum(axis=1), _TINY))[:, None]
        return np.asarray(moments.reshape(-1, d1, d1))


def _maximise(
    data: _Data, start: Array | None, tol: float, B: Array, W: Array
) -> NDArray[np.bool_]:
    """Fill in B and W where Newton's method ends at a maximum, and say where."""
    (R, N, _), k = data.n.shape, B.shape[2]
    done, at, reach = np.zeros(R, dtype=np.bool_), np.arange(R), data.pairs.reach
    scatter = data.scatter()
    if start is None:
        U = _spectral_start(data, scatter, k)
    else:
        U = np.repeat(np.linalg.qr(start, mode="complete")[0][None], R, axis=0)
    here = data.settled(U, np.zeros((R, N, data.pairs.columns.shape[1], k)))
    for _ in range(_LIMIT):
        turn, move, gain, regular = _newton(here, scatter, data.bound)
        size, rounding = np.linalg.norm(turn, axis=(1, 2)), _ROUNDING * np.abs(here.value)
        still = regular & ((size <= tol) | (gain <= _NO_GAIN * np.abs(here.value)))
        still &= reach * _sizes(move).max(axis=1) <= _STILL
        there = data.at(*_turned(here.U, here.heads + move, turn, data.bound))
        near = regular & (size <= _FAR) & (there.value >= here.value - rounding)
        lost = _climb(data, here, there, (turn, move, gain), np.flatnonzero(~near & ~still))
        if still.any():
            B[at[still]], W[at[still]] = there.U[still, :, :k], there.heads[still].mT
            done[at[still]] = True
        go = ~still
        go[lost] = False
        if not go.any():
            break
        here = there
        if not go.all():
            at, scatter, data, here = at[go], scatter[go], data.of(go), here.of(go)
    return done


def _climb(
    data: _Data,
    here: _Point,
    there: _Point,
    step: tuple[Array, Array, Array],
    which: NDArray[Any],
) -> NDArray[Any]:
    """Set the points ``which`` of ``there`` to where part of a step gains enough; return others."""
    (turn, move, gain), part = step, 1.0
    while len(which) and part > _SHORTEST:
        at = here.of(which)
        ahead = at.heads + part * move[which]
        trial = data.of(which).settled(*_turned(at.U, ahead, part * turn[which], data.bound))
        least = at.value + _SUFFICIENT * part * gain[which] - _ROUNDING * np.abs(at.value)
        ok = trial.value >= least
        for new, old in zip(trial, there, strict=True):
            old[which[ok]] = new[ok]
        which, part = which[~ok], 0.5 * part
    return which


def _own_steps(J: Array, g: Array, heads: Array, bound: float) -> tuple[Array, Array, Array]:
    """Newton's steps of heads (R, N, d2, k) alone, the multipliers of the bound (R, N), and J^-1.

    J (R, N, p, p) is minus the Hessian, g (R, N, p) the gradient. Where the bound binds, J^-1 is
    that on the directions orthogonal to the head.
    """
    shape = heads.shape
    inverse = _inverse(J)
    steps = np.einsum("rnab,rnb->rna", inverse, g)
    multiplier = np.zeros(shape[:2])
    if not math.isinf(bound):
        w = heads.reshape(g.shape)
        far = np.linalg.norm(w + steps, axis=2) > bound
        if far.any():
            steps[far], multiplier[far], inverse[far] = _on_sphere(J[far], g[far], w[far], bound)
    return steps.reshape(shape), multiplier, inverse


def _inverse(J: Array) -> Array:
    """J^-1 (R, N, p, p); if one is singular, of matrices nearby: then heads are not at rest."""
    if J.shape[3] == 1:
        return np.asarray(1.0 / J)
    try:
        return np.asarray(np.linalg.inv(J), dtype=np.float64)
    except np.linalg.LinAlgError:
        little = 1e-3 * _SINGULAR * np.trace(J, axis1=2, axis2=3) + _TINY
        return np.asarray(np.linalg.inv(J + little[..., None, None] * np.eye(J.shape[3])))


def _on_sphere(J: Array, g: Array, w: Array, bound: float) -> tuple[Array, Array, Array]:
    """As :func:`_own_steps`, for heads w (n, p) whose model is largest on the sphere."""
    values, axes = np.linalg.eigh(J)
    values = np.maximum(values, 0.0)
    target = np.einsum("nab,na->nb", axes, g + np.einsum("nab,nb->na", J, w))
    multiplier = np.zeros(len(J))
    # Newton's method on 1 / ||v|| - 1 / bound, which is concave: its steps stay on one side
    for _ in range(_ALONE):
        shifted = np.maximum(values + multiplier[:, None], _TINY)
        v = target / shifted
        size = np.linalg.norm(v, axis=1)
        change = size**2 / (v**2 / shifted).sum(axis=1) * (size / bound - 1.0)
        multiplier = np.maximum(multiplier + change, 0.0)
        if (np.abs(change) <= 1e-15 * multiplier).all():
            break
    inverse = (axes / (values + multiplier[:, None])[:, None]) @ axes.mT
    v = np.einsum("nab,nb->na", axes, v)
    image = np.einsum("nab,nb->na", inverse, v)
    inverse -= image[:, :, None] * image[:, None] / (image * v).sum(axis=1)[:, None, None]
    return v - w, multiplier, inverse


def _newton(
    at: _Point, scatter: Array, bound: float
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """The step C (R, d1 - k, k) of factors, that of heads, what C gains, and where it is Newton's.

    Elsewhere the Hessian is indefinite, and C is a step of :func:`_uphill`, scaled as by
    :meth:`linsys.preference.profile.Profile.preconditioner`.
    """
    heads, H = at.heads, at.H
    (R, N, d2, k), d1 = heads.shape, at.G.shape[3]
    p, m = d2 * k, (d1 - k) * k
    J, g = H[:, :, :, :k, :, :k].reshape(R, N, p, p), at.G[..., :k].reshape(R, N, p)
    own, multiplier, inverse = _own_steps(J, g, heads, bound)
    condition = np.abs(J).max(axis=(2, 3)) * np.abs(inverse).max(axis=(2, 3))
    regular = (condition < 1.0 / _SINGULAR).all(axis=1)
    if not m:
        return np.zeros((R, 0, k)), own, np.zeros(R), regular
    # along C the logits' gradient is W_i times the features beyond B
    along = np.einsum("rnbj,rnbcxy->rncjxy", heads, H[:, :, :, k:])
    cross = along[..., :k].copy()
    for j in range(k):
        cross[:, :, :, j, :, j] -= at.G[..., k:].mT
    cross = cross.reshape(R, N, m, p)
    response = cross @ inverse
    hessian = np.einsum("rncjxe,rnxl->rcjel", along[..., k:], heads)
    if not math.isinf(bound):
        squares = np.einsum("rn,rnxj,rnxl->rjl", multiplier, heads, heads)
        hessian += np.einsum("rjl,ce->rcjel", squares, np.eye(d1 - k))
    hessian = hessian.reshape(R, m, m) - np.einsum("rnap,rnbp->rab", response, cross)
    pull = np.einsum("rnxc,rnxj->rcj", at.G[..., k:], heads)
    gradient = pull.reshape(R, m) - np.einsum("rnap,rnp->ra", cross, own.reshape(R, N, p))
    values, axes = np.linalg.eigh(0.5 * (hessian + hessian.mT))
    definite = values[:, 0] > _SINGULAR * values[:, -1]
    scaled = np.einsum("rab,ra->rb", axes, gradient) / np.where(definite[:, None], values, 1.0)
    turn = np.einsum("rab,rb->ra", axes, scaled).reshape(R, d1 - k, k)
    for r in np.flatnonzero(~definite):
        left = np.linalg.inv(scatter[r] * at.curvature[r] / N)
        left = (at.U[r].T @ left @ at.U[r])[k:, k:]
        right = np.linalg.inv(np.einsum("nxj,nxl->jl", heads[r], heads[r]))
        turn[r] = _uphill(hessian[r], gradient[r], np.kron(left, right)).reshape(turn[r].shape)
    move = own - np.einsum("rnap,ra->rnp", response, turn.reshape(R, m)).reshape(heads.shape)
    return turn, move, (gradient * turn.reshape(R, m)).sum(axis=1), regular & definite


def _uphill(hessian: Array, gradient: Array, preconditioner: Array) -> Array:
    """The step (m,) of :mod:`linsys.preference._newton`: conjugate gradients, up to a bend down."""
    step, residual = np.zeros_like(gradient), gradient
    along = scaled = preconditioner @ residual
    now = start = residual @ scaled
    forcing = min(0.1, float(np.linalg.norm(scaled)))
    for turn in range(len(gradient)):
        if turn and now <= forcing**2 * start:
            break
        image = hessian @ along
        curvature = along @ image
        if not curvature > 0.0:
            return step if turn else np.asarray(along)
        step = step + now / curvature * along
        residual = residual - now / curvature * image
        scaled = preconditioner @ residual
        now, before = residual @ scaled, now
        along = scaled + now / before * along
    return step


def _turned(U: Array, heads: Array, turn: Array, bound: float) -> tuple[Array, Array]:
    """U and heads after the turn of B to B + B_perp C: its orthonormal basis, and one beside it."""
    if turn.size:
        R, _, k = turn.shape
        graph = np.concatenate([np.broadcast_to(np.eye(k), (R, k, k)), turn], axis=1)
        Q, upper = np.linalg.qr(graph, mode="complete")
        U, heads = U @ Q, heads @ upper[:, None, :k].mT
    if math.isinf(bound):
        return U, heads
    return U, heads * np.minimum(1.0, bound / np.maximum(_sizes(heads), _TINY))[..., None, None]


def _sizes(heads: Array) -> Array:
    """||W_i||, shape (R, N)."""
    return np.asarray(np.sqrt(np.einsum("rnbj,rnbj->rn", heads, heads)))


def _spectral_start(data: _Data, scatter: Array, k: int) -> Array:
    """Orthogonal U (R, d1, d1), as :meth:`linsys.preference.profile.Profile.spectral_start`."""
    slopes = (data.o - 0.5 * data.n) @ data.pairs.flat
    slopes = slopes.reshape(len(data.n), -1, scatter.shape[1])
    values, axes = np.linalg.eigh(scatter)
    values = np.maximum(values, _SINGULAR * values[:, -1:])
    half = (axes / np.sqrt(values)[:, None]) @ axes.mT
    white = slopes @ half
    _, vectors = np.linalg.eigh(white.mT @ white)
    return np.linalg.qr(half @ vectors[..., ::-1])[0]
