"""Tabular multi-objective Markov decision processes under softmax policies, exactly.

States s, actions a, a kernel P(s'|s, a) and M rewards r^j in [0, r_max] (Definition 1 of FIRM). The
policy is pi_theta(a|s) proportional to exp(x(s, a)'theta), one logit per pair without features.
Everything here is a finite sum or a linear solve; arrays have the objectives on their last axis, as
gradients do: a Jacobian is (d, M).

*Returns.* J = E sum_{t>=0} gamma^t r(s_t, a_t) with s_0 ~ mu0 is unnormalised. The paper's sum
starts at t = 1. Its Algorithm 3 calls the reward of (s_t, a_t) r_{t+1}, hence the sum is gamma J:
``first=1``. (Were that reward r_t, the sum would be J less the mean of the first reward.)

*Laws.* What a policy implies, from values to Hessians, is in :class:`SoftmaxPolicy`. Three laws of
the states are easily confused: ``stationary`` d_pi, what one long trajectory visits; ``occupancy``
nu, the normalised discounted law (1 - gamma) sum_t gamma^t P(s_t = .), which the policy gradient
theorem is about; and mu0, the first state's. See :meth:`SoftmaxPolicy.direction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from linsys.linalg import stationary
from linsys.validate import (
    Array,
    InputError,
    check_integer,
    check_number,
    distributions,
    finite_array,
    real_array,
)
from mgda.chains import check_ergodic

__all__ = ["MOMDP", "SoftmaxPolicy"]


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
        """Returns, shape (..., M); see :meth:`SoftmaxPolicy.J`."""
        return self.at(theta).J(first)

    def jac(self, theta: ArrayLike, first: int = 0) -> Array:
        """Gradients in columns, shape (..., d, M); see :meth:`SoftmaxPolicy.jac`."""
        return self.at(theta).jac(first)


@dataclass(frozen=True, eq=False)
class SoftmaxPolicy:
    """What follows from a MOMDP and parameters theta (..., d); leading axes are batches.

    >>> from mgda.instances import sample_momdp
    >>> momdp = sample_momdp(0, states=3, actions=2, objectives=2, gamma=0.5)
    >>> policy = momdp.at(np.zeros((5, momdp.d)))
    >>> policy.jac().shape, policy.stationary.shape
    ((5, 6, 2), (5, 3))
    """

    momdp: MOMDP
    theta: Array

    @cached_property
    def pi(self) -> Array:
        """pi(a|s), shape (..., S, A)."""
        m = self.momdp
        with np.errstate(over="ignore", invalid="ignore"):  # infinite logits are refused
            logits = self.theta @ m.flat_x.T
            if not np.isfinite(logits).all():
                raise InputError("`theta` must give finite logits x'theta; found an overflow")
            logits = logits.reshape(*self.theta.shape[:-1], m.n_states, m.n_actions)
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    @cached_property
    def psi(self) -> Array:
        """The score psi(a|s) = grad log pi(a|s) = x(s, a) - E_pi x(s, .), shape (..., S, A, d)."""
        x = self.momdp.x
        return np.asarray(x - self.pi[..., None, :] @ x)

    @cached_property
    def kernel(self) -> Array:
        """P_pi(s'|s), shape (..., S, S)."""
        return np.asarray((self.pi[..., None, :] @ self.momdp.P)[..., 0, :])

    @cached_property
    def stationary(self) -> Array:
        """d_pi with d_pi P_pi = d_pi, shape (..., S).

        Raises:
            InputError: parameters so large that actions have probability zero in floating point,
                and the chain falls apart.
        """
        for broken in self.kernel[(self.pi == 0.0).any(axis=(-2, -1))]:
            check_ergodic("theta", broken)
        law = stationary(self.kernel)
        if np.isnan(law).any():
            raise InputError("`theta` must give an irreducible chain; found one that underflows")
        return law

    @cached_property
    def _bellman(self) -> Array:
        """I - gamma P_pi."""
        return np.asarray(np.eye(self.momdp.n_states) - self.momdp.gamma * self.kernel)

    @cached_property
    def occupancy(self) -> Array:
        """nu = (1 - gamma) sum_t gamma^t P(s_t = .) for s_0 ~ mu0, shape (..., S)."""
        m = self.momdp
        start = np.broadcast_to(m.start[:, None], (*self._bellman.shape[:-1], 1))
        unnormalised = np.linalg.solve(np.swapaxes(self._bellman, -1, -2), start)[..., 0]
        return np.asarray((1.0 - m.gamma) * unnormalised)

    @cached_property
    def V(self) -> Array:
        """V^j(s) = E[sum_{t>=0} gamma^t r^j_t | s_0 = s], shape (..., S, M)."""
        mean = (self.pi[..., None, :] @ self.momdp.mean_r)[..., 0, :]
        return np.asarray(np.linalg.solve(self._bellman, mean))

    @cached_property
    def Q(self) -> Array:
        """Q^j(s, a), shape (..., S, A, M)."""
        return self.momdp.mean_r + self.momdp.gamma * self._next(self.V)

    def _next(self, values: Array) -> Array:
        """E[v(s') | s, a] for values (..., S, k), shape (..., S, A, k)."""
        m = self.momdp
        flat = m.P.reshape(-1, m.n_states) @ values
        return flat.reshape(*values.shape[:-2], m.n_states, m.n_actions, values.shape[-1])

    def J(self, first: int = 0) -> Array:
        """gamma^first E sum_{t>=0} gamma^t r(s_t, a_t), shape (..., M); the paper has first = 1."""
        return np.asarray(_shift(self.momdp, first) * self.momdp.start @ self.V)

    def jac(self, first: int = 0) -> Array:
        """grad J in columns, shape (..., d, M), by the policy gradient theorem.

        grad J = 1 / (1 - gamma) E[psi(a|s) Q(s, a)] with s ~ nu, the *discounted* occupancy.
        """
        factor = _shift(self.momdp, first) / (1.0 - self.momdp.gamma)
        return factor * self.direction(self.V, self.occupancy)

    def direction(self, values: Array, law: Array | None = None) -> Array:
        """Delta = E[delta psi], the mean of the paper's stochastic gradient (10), (..., d, M).

        delta^j = r^j + gamma v^j(s') - v^j(s) with s ~ ``law``, a ~ pi, s' ~ P.

        *What it is the gradient of.* With v = V and the stationary law, which trajectories sample,
        it is (1 - gamma) grad J for mu0 = d_pi *held fixed*, since the occupancy from d_pi is d_pi.
        It is not grad J for a given mu0, however exact the critic, nor the gradient of the average
        reward eta = d_pi'r: Delta = grad eta - (1 - gamma) sum_s grad d_pi(s) V(s) (Baxter and
        Bartlett, 2001). With the occupancy as law it is (1 - gamma) grad J.

        Args:
            values: v^j(s), shape (..., S, M), such as a critic's.
            law: law of s, shape (..., S); the stationary law without it.
        """
        m = self.momdp
        values = self._batch("values", values, (m.n_states, m.M))
        weights = self.stationary if law is None else self._batch("law", law, (m.n_states,))
        delta = m.mean_r + m.gamma * self._next(values) - values[..., :, None, :]
        return self.score_sum((weights[..., None] * self.pi)[..., None] * delta)

    def score_sum(self, table: Array) -> Array:
        """sum_{s, a} psi(a|s) table(s, a, j), shape (..., d, M), for tables (..., S, A, M)."""
        m = self.momdp
        table = self._batch("table", table, (m.n_states, m.n_actions, m.M))
        centred = table - self.pi[..., None] * table.sum(axis=-2, keepdims=True)
        return np.asarray(m.flat_x.T @ centred.reshape(*centred.shape[:-3], -1, m.M))

    def _batch(self, name: str, value: Array, shape: tuple[int, ...]) -> Array:
        """A finite array (..., *shape) whose batch axes go with those of theta."""
        array = finite_array(name, value)
        k, lead = array.ndim - len(shape), self.theta.shape[:-1]
        axes = ", ".join(str(size) for size in shape)
        if k < 0 or array.shape[k:] != shape:
            raise InputError(f"`{name}` must have shape (..., {axes}); found {array.shape}")
        try:
            np.broadcast_shapes(array.shape[:k], lead)
        except ValueError:
            raise InputError(
                f"`{name}` must have batch axes like those of `theta`, {lead}; "
                f"found {array.shape[:k]}"
            ) from None
        return array

    def hessian(self, first: int = 0) -> Array:
        """Second derivatives of J^j, shape (..., M, d, d), exactly.

        From V = sum_a pi Q and grad^2 pi = pi (psi psi' - Cov_pi x): with D the unnormalised
        occupancy and A = Q - V, of which pi has mean zero,
        grad^2 J = sum_s D(s) sum_a pi (A psi psi' + psi grad Q' + grad Q psi'),
        grad Q(s, a) = gamma E[grad V(s')].
        """
        m, lead = self.momdp, self.theta.shape[:-1]
        S, A, d, M = m.n_states, m.n_actions, m.d, m.M
        advantage = self.Q - self.V[..., :, None, :]
        psi = self.psi.reshape(*lead, S * A, d)
        # grad V = (I - gamma P)^{-1} sum_a pi psi A, one column per objective and parameter
        local = np.swapaxes(self.psi, -1, -2) @ (self.pi[..., None] * advantage)
        grad_V = np.asarray(np.linalg.solve(self._bellman, local.reshape(*lead, S, d * M)), float)
        grad_Q = m.gamma * self._next(grad_V).reshape(*lead, S * A, d, M)
        weights = (self.occupancy[..., None] * self.pi).reshape(*lead, S * A) / (1.0 - m.gamma)
        half = weights[..., None, None] * grad_Q + 0.5 * (
            (weights[..., None] * advantage.reshape(*lead, S * A, M))[..., None, :] * psi[..., None]
        )
        product = np.swapaxes(psi, -1, -2)[..., None, :, :] @ np.moveaxis(half, -1, -3)
        return np.asarray(_shift(m, first) * (product + np.swapaxes(product, -1, -2)))


def _shift(momdp: MOMDP, first: int) -> float:
    return float(momdp.gamma ** check_integer("first", first, high=1))
