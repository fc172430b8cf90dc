"""Users who compare trajectories: rewards, preference probabilities, sampled and exact data.

Users i = 0 .. N - 1 have Theta_i = Theta_init_i + Delta_i (d1, d2) and the reward g(<Theta_i,
psi(tau)>_F) for a trajectory tau with features psi(tau). They prefer tau0 to tau1 with probability
sigmoid(r_i(tau0) - r_i(tau1)) (Bradley-Terry). The set of trajectories is finite, so everything
that P-ShareLoRA takes an expectation of is a sum here.

Vectors of matrices are row by row, ``Theta.ravel()``; the paper's vec goes column by column, which
permutes Gram matrices and changes no eigenvalue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.preference.comparisons import LINKS, Comparisons
from linsys.preference.coverage import Coverage, coverage
from linsys.validate import (
    Array,
    InputError,
    check_choice,
    check_integer,
    check_number,
    finite_array,
    plain,
    real_array,
    shown,
)

__all__ = ["PreferenceSystem"]

Indices = NDArray[np.int64]
#: Pairs whose features are subtracted at a time, so that they stay in the cache.
_PIECE = 256


@dataclass(frozen=True, eq=False)
class PreferenceSystem:
    """N users on T trajectories.

    Args:
        psi: features, shape (T, d1, d2).
        Theta_init: where the users start, shape (d1, d2) for all alike or (N, d1, d2).
        Delta: Theta*_i - Theta_init_i, shape (N, d1, d2).
        weights: how often tau0 is compared with tau1, in proportion, shape (T, T); without it all
            pairs tau0 < tau1 alike. See
            :func:`linsys.preference.coverage.pair_weights` for lists of pairs.
        link: ``"linear"``, g(x) = x, or ``"tanh"``, g(x) = R tanh(x / R).
        R: bound of the rewards under ``"tanh"``.

    Raises:
        InputError: shapes that do not fit, NaN, negative weights or none at all.

    >>> psi = np.array([[[1.0]], [[0.0]]])
    >>> system = PreferenceSystem(psi, Theta_init=[[0.0]], Delta=np.log([[[3.0]], [[1.0]]]))
    >>> system.probabilities().tolist()  # of preferring trajectory 0 to 1, by user
    [[0.75], [0.5]]
    """

    psi: Array
    Theta_init: Array
    Delta: Array
    weights: Array | None = None
    link: str = "linear"
    R: float = 1.0

    def __post_init__(self) -> None:
        store, sizes = object.__setattr__, dict[str, int]()
        store(self, "psi", real_array("psi", self.psi, ("T", "d1", "d2"), sizes))
        store(self, "Delta", real_array("Delta", self.Delta, ("N", "d1", "d2"), sizes))
        by_user = ("N",) if plain(self.Theta_init).ndim == 3 else ()
        start = real_array("Theta_init", self.Theta_init, (*by_user, "d1", "d2"), sizes)
        store(self, "Theta_init", np.broadcast_to(start, self.Delta.shape))
        check_choice("link", self.link, LINKS)
        store(self, "R", check_number("R", self.R, low=0.0, low_open=True))
        T = check_integer("T, the number of trajectories,", sizes["T"], low=2)
        if self.weights is None:
            store(self, "weights", np.triu(np.ones((T, T)), 1) * (2.0 / (T * (T - 1))))
        else:
            weights = real_array("weights", self.weights, (T, T))
            if weights.min() < 0 or weights.sum() <= 0:
                raise InputError(
                    "`weights` must be non-negative with a positive sum; "
                    f"found smallest {weights.min():.6g} and sum {weights.sum():.6g}"
                )
            store(self, "weights", weights / weights.sum())

    @property
    def N(self) -> int:
        """Number of users."""
        return len(self.Delta)

    @property
    def T(self) -> int:
        """Number of trajectories."""
        return len(self.psi)

    @cached_property
    def Theta(self) -> Array:
        """Theta*_i, shape (N, d1, d2)."""
        return self.Theta_init + self.Delta

    @cached_property
    def pairs(self) -> Indices:
        """(tau0, tau1) of the P pairs with positive weight, shape (P, 2)."""
        assert self.weights is not None
        return np.argwhere(self.weights > 0)

    @cached_property
    def pair_weights(self) -> Array:
        """Their weights, which sum to one, shape (P,)."""
        assert self.weights is not None
        return np.asarray(self.weights[tuple(self.pairs.T)])

    @property
    def L1(self) -> float:
        """The least L1 of Assumption 1 for all Theta: max_tau ||psi(tau)||_F, as max |g'| = 1."""
        return float(np.linalg.norm(self.psi, axis=(1, 2)).max())

    @property
    def L2(self) -> float:
        """The least L2 of Assumption 1 for all Theta: 0 if linear, 4 L1^2 / (3 sqrt(3) R) if tanh.

        g'' = -(2 / R) t (1 - t^2) with t = tanh(x / R), which is largest where t^2 = 1/3.
        """
        return 0.0 if self.link == "linear" else 4.0 * self.L1**2 / (3.0 * np.sqrt(3.0) * self.R)

    def reward_bound(self, B: float) -> float:
        """max |r_Theta(tau)| over all tau and ||Theta||_F <= B: the paper's R, attained."""
        largest = check_number("B", B, low=0.0) * self.L1
        return largest if self.link == "linear" else float(self.R * np.tanh(largest / self.R))

    def rewards(self, Theta: ArrayLike | None = None) -> Array:
        """r_Theta(tau), shape (..., T) for Theta (..., d1, d2); of all users without it, (N, T)."""
        x = self._products(Theta)
        return x if self.link == "linear" else self.R * np.tanh(x / self.R)

    def slopes(self, Theta: ArrayLike | None = None) -> tuple[Array, Array]:
        """g' and g'' at <Theta, psi(tau)>, both (..., T).

        The gradient of r_Theta(tau) is g' psi(tau), its Hessian g'' psi(tau) psi(tau)'.
        """
        x = self._products(Theta)
        if self.link == "linear":
            return np.ones_like(x), np.zeros_like(x)
        t = np.tanh(x / self.R)
        return 1.0 - t**2, -2.0 / self.R * t * (1.0 - t**2)

    def probabilities(self, Theta: ArrayLike | None = None) -> Array:
        """P(tau0 preferred) of all pairs, shape (..., P); of all users without Theta, (N, P)."""
        from scipy.special import expit

        return np.asarray(expit(self._differences(self.rewards(Theta))))

    def coverage(self) -> Coverage:
        """The Gram matrix of the weighted pairs; with linear rewards, what can be identified.

        >>> features = np.array([[[1.0], [1.0]], [[0.0], [1.0]]])  # second entry never differs
        >>> seen = PreferenceSystem(features, [[0.0], [0.0]], [[[1.0], [1.0]]]).coverage()
        >>> seen.rank, seen.complete, np.abs(seen.blind).tolist()
        (1, False, [[0.0, 1.0]])
        """
        w, flat = np.asarray(self.weights), self.psi.reshape(self.T, -1)
        # sum_ab w_ab (psi_a - psi_b)(psi_a - psi_b)' through the Laplacian of the graph of pairs
        centred = flat - flat.mean(axis=0)
        degrees = w.sum(axis=0) + w.sum(axis=1)
        return coverage(centred.T @ (degrees[:, None] * centred - (w + w.T) @ centred))

    def sample(
        self, N_p: int | Sequence[int], seed: int = 0, users: Sequence[int] | None = None
    ) -> Comparisons:
        """Comparisons drawn from ``weights``, with preferences drawn from the users.

        User i's are a function of (seed, i) alone, and its first n are the same for every N_p >= n:
        more users or more data extend what there was.

        Args:
            N_p: comparisons of every user, or one number for each of ``users``.
            seed: of all draws.
            users: whose; all without it. Entry j of the result is ``users[j]``.

        Raises:
            InputError: a user without data, a number that is no user's.

        The result holds psi(tau0) - psi(tau1) and starts from Theta_init. Its likelihood is that of
        linear rewards; under ``"tanh"``, a model that is not quite right, it says so by its
        ``link``, and the estimators refuse it.

        >>> psi = np.arange(3.0).reshape(3, 1, 1)
        >>> data = PreferenceSystem(psi, [[0.0]], np.ones((2, 1, 1))).sample(4, seed=1)
        >>> data.labels.tolist(), data.counts.tolist()
        ([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [4, 4])
        """
        from scipy.special import expit

        who = self._users(users)
        counts = list(N_p) if np.iterable(N_p) else [N_p] * len(who)
        if len(counts) != len(who):
            raise InputError(
                f"`N_p` must be a number or {len(who)} numbers, one a user; found {len(counts)}"
            )
        counts = [check_integer("N_p", n, low=1) for n in counts]
        seed = check_integer("seed", seed, high=(1 << 64) - 1)
        owner = np.repeat(who, counts)
        uniform = np.concatenate([_uniforms(seed, i, n) for i, n in zip(who, counts, strict=True)])
        edges = np.cumsum(self.pair_weights)
        drawn = np.searchsorted(edges / edges[-1], uniform[:, 0], side="right")
        shown_pairs, rows = np.unique(drawn, return_inverse=True)
        tau0, tau1 = self.pairs[drawn].T
        rewards, start = self.rewards(), self._products(self.Theta_init)
        prefer = expit(rewards[owner, tau0] - rewards[owner, tau1])
        return Comparisons(
            features=self._shown(shown_pairs),
            labels=(uniform[:, 1] < prefer).astype(np.float64),
            starts=np.concatenate([[0], np.cumsum(counts)]),
            initial=start[owner, tau0] - start[owner, tau1],
            pairs=rows,
            link=self.link,
        )

    def population(self, users: Sequence[int] | None = None) -> Comparisons:
        """Every pair with its weight and the probability that tau0 is preferred as a soft label.

        The likelihood of these comparisons is the expectation of one comparison's, for every user.

        >>> psi = np.array([[[1.0]], [[0.0]]])
        >>> data = PreferenceSystem(psi, [[0.0]], np.log([[[3.0]]])).population()
        >>> data.labels.tolist(), data.weights.tolist()
        ([0.75], [1.0])
        """
        who, P = self._users(users), len(self.pairs)
        return Comparisons(
            features=np.subtract(*self.psi[self.pairs.T]),
            labels=self.probabilities(self.Theta[who]).ravel(),
            starts=P * np.arange(len(who) + 1),
            weights=np.tile(self.pair_weights, len(who)),
            initial=self._differences(self._products(self.Theta_init[who])).ravel(),
            pairs=np.tile(np.arange(P), len(who)),
            soft=True,
            link=self.link,
        )

    def _products(self, Theta: ArrayLike | None) -> Array:
        """<Theta, psi(tau)>_F, shape (..., T)."""
        Theta = self.Theta if Theta is None else finite_array("Theta", Theta)
        if Theta.shape[-2:] != self.psi.shape[1:]:
            wanted = ", ".join(map(str, self.psi.shape[1:]))
            raise InputError(f"`Theta` must have shape (..., {wanted}); found {Theta.shape}")
        # one product at a time: a user's rewards are the same bits whoever else is there
        flat = Theta.reshape(*Theta.shape[:-2], 1, -1)
        return np.asarray(np.vecdot(flat, self.psi.reshape(self.T, -1)))

    def _shown(self, which: Indices) -> Array:
        """psi(tau0) - psi(tau1) of these pairs, shape (n, d1, d2).

        This may be by far the largest array of all: laid out as Comparisons keep it, read-only, so
        that they need no copy, and made in pieces, so that there is no second one of this size.
        """
        columns, (first, second) = np.ascontiguousarray(self.psi.mT), self.pairs[which].T
        features = np.empty((len(which), *columns.shape[1:]))
        for at in range(0, len(which), _PIECE):
            piece = slice(at, at + _PIECE)
            np.subtract(columns[first[piece]], columns[second[piece]], out=features[piece])
        features.setflags(write=False)
        return np.asarray(features.mT)

    def _differences(self, values: Array) -> Array:
        """Values (..., T) of tau0 less those of tau1, shape (..., P)."""
        tau0, tau1 = self.pairs.T
        return np.asarray(values[..., tau0] - values[..., tau1])

    def _users(self, users: Sequence[int] | None) -> Indices:
        if users is None:
            return np.arange(self.N)
        who = np.atleast_1d(plain(users))
        if who.dtype.kind not in "iu" or not who.size or who.min() < 0 or who.max() >= self.N:
            raise InputError(
                f"`users` must be numbers from 0 to {self.N - 1}; found {shown(users)}"
            )
        return who.astype(np.int64)


def _uniforms(seed: int, user: int, n: int) -> Array:
    """Which pair and which preference, uniform in [0, 1), shape (n, 2)."""
    key = np.array([seed, user], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random((n, 2))
