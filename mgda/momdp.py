"""Tabular multi-objective Markov decision processes under softmax policies, exactly.

States s, actions a, a kernel P(s'|s, a) and M rewards r^j in [0, r_max] (Definition 1 of FIRM). The
policy is pi_theta(a|s) proportional to exp(x(s, a)'theta), one logit per pair without features.
Everything here is a finite sum or a linear solve; arrays have the objectives on their last axis, as
gradients do: a Jacobian is (d, M).

*Returns.* J = E sum_{t>=0} gamma^t r(s_t, a_t) with s_0 ~ mu0 is unnormalised. The paper's sum
starts at t = 1. Its Algorithm 3 calls the reward of (s_t, a_t) r_{t+1}, hence the sum is gamma J:
``first=1``. (Were that reward r_t, the sum would be J less the mean of the first reward.)

What a policy implies, from values to Hessians, is in :class:`mgda.softmax.SoftmaxPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError, check_number, distributions, real_array
from mgda.softmax import SoftmaxPolicy, check_ergodic

__all__ = ["MOMDP"]


@dataclass(frozen=True, eq=False)
class MOMDP:
    """One client's decision process; see the module's text for the conventions.

    Args:
        P: kernel P(s'|s, a), shape (S, A, S). Under a softmax policy, which takes every action,
            the chain of the states must be irreducible and aperiodic.
        r: rewards, shape (S, A, M), or (S, A, S, M) where they depend on the next state; kept in
            the latter shape.
        gamma: discount factor in [0, 1).
        mu0: law of s_0, shape (S,); uniform without it.
        features: x(s, a) of the policy, shape (S, A, d), d independent columns; one logit per pair
            without them, theta[s A + a].
        r_max: the largest reward there may be.

    Raises:
        InputError: wrong shapes, NaN, rows that are no distributions, a chain that is not ergodic,
            rewards outside [0, r_max], gamma outside [0, 1), dependent features.

    >>> momdp = MOMDP(P=np.full((2, 2, 2), 0.5), r=np.eye(4).reshape(2, 2, 4), gamma=0.5)
    >>> momdp.J(np.zeros(4))  # a quarter of the time for ever: 0.25 / (1 - gamma)
    array([0.5, 0.5, 0.5, 0.5])
    """

    P: Array
    r: Array
    gamma: float
    mu0: Array | None = None
    features: Array | None = None
    r_max: float = 1.0

    def __post_init__(self) -> None:
        store, sizes = object.__setattr__, dict[str, int]()
        P = real_array("P", self.P, ("S", "A", "S"), sizes)
        S, A = sizes["S"], sizes["A"]
        distributions("P (rows s A + a)", P.reshape(S * A, S))
        check_ergodic("P", P.mean(axis=1))
        store(self, "P", P)
        store(self, "gamma", check_number("gamma", self.gamma, low=0.0, high=1.0, high_open=True))
        store(self, "r_max", check_number("r_max", self.r_max, low=0.0, low_open=True))
        try:
            after = np.ndim(self.r) == 4
        except ValueError:  # nested lists of different lengths, refused below
            after = False
        r = real_array("r", self.r, ("S", "A", "S", "M") if after else ("S", "A", "M"), sizes)
        if r.min() < 0.0 or r.max() > self.r_max:
            worst = np.abs(r - 0.5 * self.r_max).argmax()
            where = tuple(int(k) for k in np.unravel_index(worst, r.shape))
            raise InputError(
                f"`r` must be in [0, {self.r_max:g}]; found {r[where]:.6g} at index {where}"
            )
        whole_r = np.array(r if after else np.broadcast_to(r[:, :, None], (S, A, *r.shape[::2])))
        whole_r.setflags(write=False)
        store(self, "r", whole_r)
        mu0 = np.full(S, 1.0 / S) if self.mu0 is None else real_array("mu0", self.mu0, (S,))
        distributions("mu0", mu0[None])
        store(self, "mu0", mu0)
        if self.features is None:
            x = np.eye(S * A).reshape(S, A, S * A)
        else:
            x = real_array("features", self.features, ("S", "A", "d"), sizes)
            rank = int(np.linalg.matrix_rank(x.reshape(S * A, -1)))
            if rank < x.shape[-1]:
                raise InputError(
                    f"`features` must have rank {x.shape[-1]}, its number of columns; found {rank}"
                )
        store(self, "features", x)

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return int(self.P.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return int(self.P.shape[1])

    @property
    def M(self) -> int:
        """Number of objectives."""
        return int(self.r.shape[-1])

    @property
    def x(self) -> Array:
        """The features in use, shape (S, A, d)."""
        assert self.features is not None
        return self.features

    @property
    def start(self) -> Array:
        """mu0 in use, shape (S,)."""
        assert self.mu0 is not None
        return self.mu0

    @cached_property
    def flat_x(self) -> Array:
        """Features over pairs s A + a, shape (S A, d)."""
        return self.x.reshape(-1, self.d)

    @property
    def d(self) -> int:
        """Dimension of theta."""
        return int(self.x.shape[-1])

    @cached_property
    def mean_r(self) -> Array:
        """E[r(s, a, s') | s, a], shape (S, A, M)."""
        return np.asarray((self.P[:, :, None] @ self.r)[:, :, 0])

    def at(self, theta: ArrayLike) -> SoftmaxPolicy:
        """The policies of parameters theta, shape (..., d)."""
        try:
            raw = np.asarray(theta)
        except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors that need gradients
            raise InputError(
                f"`theta` must be an array of shape (..., {self.d}); "
                f"found {type(theta).__name__} that NumPy cannot read"
            ) from None
        if raw.dtype.kind not in "iuf" or raw.shape[-1:] != (self.d,) or raw.size == 0:
            raise InputError(
                f"`theta` must be real numbers of shape (..., {self.d}); "
                f"found shape {raw.shape} of {raw.dtype}"
            )
        if not np.isfinite(raw).all():
            raise InputError("`theta` must be finite; found NaN or infinity")
        return SoftmaxPolicy(self, raw.astype(np.float64))

    def J(self, theta: ArrayLike, first: int = 0) -> Array:
        """Returns, shape (..., M); see :meth:`mgda.softmax.SoftmaxPolicy.J`."""
        return self.at(theta).J(first)

    def jac(self, theta: ArrayLike, first: int = 0) -> Array:
        """Gradients in columns, shape (..., d, M); see :meth:`mgda.softmax.SoftmaxPolicy.jac`."""
        return self.at(theta).jac(first)
