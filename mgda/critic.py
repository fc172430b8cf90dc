"""Linear critics v^j(s) = phi(s)'w^j: temporal differences in mini-batches (Algorithm 3 of FIRM).

With z the law of s, A = E[(gamma phi(s') - phi(s)) phi(s)'] as Assumption 2(c) prints it, and b^j =
E[r^j phi(s)], the mean step at w is b + A'w: the transpose is TD's matrix, E[phi (gamma phi' -
phi)'], and the fixed point w_* = -(A')^{-1} b. Both have the same symmetric part, hence one
lambda_A. Weights are (..., d2, M), a column for each objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.compiled import compiled
from linsys.linalg import lambda_min
from linsys.validate import Array, InputError, check_integer, check_number, real_array
from mgda.instances import generator
from mgda.momdp import SoftmaxPolicy
from mgda.trajectories import Clients, Transitions, td_errors

__all__ = ["LinearCritic", "project", "random_features"]

#: How far |phi| may exceed one: rounding of a normalised vector.
_UNIT = 1e-12


@compiled
def _learn(
    states: Any,
    actions: Any,
    after: Any,
    phi: Any,
    r: Any,
    gamma: Any,
    step: Any,
    radius: Any,
    batch: Any,
    mean: Any,
    w: Any,
) -> None:
    """Mini-batch TD along transitions (R, C, N D): w (R, C, d2, M) is moved in place."""
    replicates, clients, length = states.shape
    d2, M = mean.shape
    for k in range(replicates):
        for c in range(clients):
            for start in range(0, length, batch):
                mean[:] = 0.0
                for at in range(start, start + batch):
                    s, a, t = states[k, c, at], actions[k, c, at], after[k, c, at]
                    for j in range(M):
                        error = r[c, s, a, t, j]
                        for i in range(d2):
                            error += (gamma * phi[t, i] - phi[s, i]) * w[k, c, i, j]
                        for i in range(d2):
                            mean[i, j] += error * phi[s, i]
                for j in range(M):
                    square = 0.0
                    for i in range(d2):
                        w[k, c, i, j] += step / batch * mean[i, j]
                        square += w[k, c, i, j] ** 2
                    if square > radius[k, c] ** 2:
                        for i in range(d2):
                            w[k, c, i, j] *= radius[k, c] / np.sqrt(square)


def project(w: Array, radius: Array | float) -> Array:
    """Each column of w (..., d2, M) to the nearest point with |w^j| <= ``radius`` (...).

    >>> project(np.array([[3.0, 0.1], [4.0, 0.1]]), 1.0)
    array([[0.6, 0.1],
           [0.8, 0.1]])
    """
    length = np.linalg.norm(w, axis=-2, keepdims=True)
    limit = np.asarray(radius)[..., None, None]
    if not (limit > 0.0).all():
        raise InputError(f"`radius` must be positive; found {limit.min():g}")
    return np.asarray(w * np.where(length > limit, limit / np.where(length > 0, length, 1.0), 1.0))


@dataclass(frozen=True, eq=False)
class LinearCritic:
    """Features shared by the critics of all objectives.

    Args:
        phi: phi(s), shape (S, d2), of rank d2 and length at most one (Assumption 2).

    Raises:
        InputError: wrong shape, NaN, dependent columns, or features longer than one.

    >>> from mgda.instances import sample_momdp
    >>> policy = sample_momdp(0, states=3).at(np.zeros(9))
    >>> tabular = LinearCritic(np.eye(3))
    >>> bool(np.allclose(tabular.fixed_point(policy), policy.V))
    True
    """

    phi: Array

    def __post_init__(self) -> None:
        phi = real_array("phi", self.phi, ("S", "d2"))
        rank = int(np.linalg.matrix_rank(phi))
        if rank < phi.shape[1]:
            raise InputError(
                f"`phi` must have rank {phi.shape[1]}, its number of columns; found {rank}"
            )
        length = np.linalg.norm(phi, axis=1)
        if length.max() > 1.0 + _UNIT:
            raise InputError(
                f"`phi` must have rows of length at most 1; found {length.max():.6g} in row "
                f"{int(length.argmax())}"
            )
        object.__setattr__(self, "phi", phi)

    @property
    def d2(self) -> int:
        """Dimension of the weights."""
        return int(self.phi.shape[1])

    def values(self, w: Array) -> Array:
        """phi(s)'w^j, shape (..., S, M), for weights (..., d2, M)."""
        if np.ndim(w) < 2 or np.shape(w)[-2] != self.d2:
            raise InputError(f"`w` must have shape (..., {self.d2}, M); found {np.shape(w)}")
        return np.asarray(self.phi @ w)

    def matrix(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """A as printed in Assumption 2(c), shape (..., d2, d2); by default d_pi.

        Negative definite: x'Ax <= -(1 - gamma) E (phi'x)^2 under the stationary law, and <=
        -(1 - sqrt(gamma)) E (phi'x)^2 under the occupancy nu, since nu P_pi <= nu / gamma.
        """
        z = self._law(policy, law)
        after = policy.momdp.gamma * policy.kernel @ self.phi - self.phi
        return np.asarray(np.swapaxes(after, -1, -2) @ (z[..., None] * self.phi))

    def reward_vector(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """b^j = E[r^j(s, a) phi(s)], shape (..., d2, M)."""
        mean = (policy.pi[..., None, :] @ policy.momdp.mean_r)[..., 0, :]
        return np.asarray(self.phi.T @ (self._law(policy, law)[..., None] * mean))

    def fixed_point(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """w_*^j, where b + A'w = 0, shape (..., d2, M)."""
        A = self.matrix(policy, law)
        return np.asarray(-np.linalg.solve(np.swapaxes(A, -1, -2), self.reward_vector(policy, law)))

    def lambda_A(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """The largest lambda with x'(A + A')x <= -2 lambda |x|^2, Assumption 2(c), shape (...)."""
        return np.asarray(lambda_min(-self.matrix(policy, law)))

    def lambda_A_everywhere(self, policy: SoftmaxPolicy) -> float:
        """A lower bound of lambda_A under the stationary laws of all policies of the process.

        d_pi(s') >= p(s') = min_{s, a} P(s'|s, a), hence lambda_A >= (1 - gamma) lambda_min(sum_s
        p(s) phi phi'); zero where P has too many zeros.
        """
        m = policy.momdp
        least = m.P.min(axis=(0, 1))
        return float((1.0 - m.gamma) * lambda_min(self.phi.T @ (least[:, None] * self.phi)))

    def radius(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """R_w = 2 r_max / lambda_A, shape (...). |w_*| <= r_max / lambda_A is half of it."""
        return np.asarray(2.0 * policy.momdp.r_max / self.lambda_A(policy, law))

    def approximation_error(self, policy: SoftmaxPolicy, law: Array | None = None) -> Array:
        """E[(V^j(s) - phi(s)'w_*^j)^2] at this policy, shape (..., M).

        zeta_approx is its largest value over all objectives and policies; it is zero for d2 = S.
        """
        error = policy.V - self.values(self.fixed_point(policy, law))
        return np.asarray((self._law(policy, law)[..., None] * error**2).sum(axis=-2))

    def mean_step(
        self, w: Array, policy: SoftmaxPolicy, step: float, law: Array | None = None
    ) -> Array:
        """E[w + step delta phi] = w + step (b + A'w) for s ~ law, before any projection."""
        check_number("step", step, low=0.0, low_open=True)
        if np.ndim(w) < 2 or np.shape(w)[-2:] != (self.d2, policy.momdp.M):
            raise InputError(
                f"`w` must have shape (..., {self.d2}, {policy.momdp.M}); found {np.shape(w)}"
            )
        A = self.matrix(policy, law)
        mean = self.reward_vector(policy, law) + np.swapaxes(A, -1, -2) @ w
        return np.asarray(w + step * mean)

    def step(
        self, w: Array, clients: Clients, batch: Transitions, step: float, radius: Array | float
    ) -> Array:
        """One iteration, lines 10 to 13 of Algorithm 3, of weights w (R, C, d2, M).

        w + (step / D) sum_l delta_l phi(s_l), projected on the ball; the text prints the step size
        alpha' as beta there, and the set as open.
        """
        w = self._weights(w, clients, batch)
        check_number("step", step, low=0.0, low_open=True)
        delta = td_errors(clients, batch, self.values(w))
        phi = self.phi[batch.states]
        move = np.swapaxes(phi, -1, -2) @ delta / batch.states.shape[-1]
        return project(w + step * move, radius)

    def learn(
        self,
        w: Array,
        clients: Clients,
        transitions: Transitions,
        size: int,
        step: float,
        radius: Array | float,
    ) -> Array:
        """Algorithm 3 along N ``size`` transitions (R, C, N size): N iterations, compiled.

        Args:
            w: initial weights, shape (R, C, d2, M).
            clients: the processes.
            transitions: from :func:`mgda.trajectories.sample`.
            size: D, samples of one iteration.
            step: alpha' > 0.
            radius: R_w, one number or shape (R, C); infinity for no projection.
        """
        result = self._weights(w, clients, transitions)
        size, step = (
            check_integer("size", size, low=1),
            check_number("step", step, low=0.0, low_open=True),
        )
        length = transitions.states.shape[-1]
        if length % size != 0:
            raise InputError(f"`size` must divide the {length} transitions; found {size}")
        given = np.asarray(radius, dtype=np.float64)
        if given.shape not in ((), result.shape[:2]):
            raise InputError(
                f"`radius` must be a number or of shape {result.shape[:2]}; found {given.shape}"
            )
        limit = np.broadcast_to(given, result.shape[:2])
        if not (limit > 0.0).all():
            raise InputError(f"`radius` must be positive; found {limit.min():g}")
        gamma, mean = clients.model.gamma, np.empty(result.shape[2:])
        _learn(*transitions, self.phi, clients.r, gamma, step, limit, size, mean, result)
        return result

    def _weights(self, w: Array, clients: Clients, batch: Transitions) -> Array:
        """A copy of w (R, C, d2, M), checked to fit, as kernels check no index."""
        S, replicates = clients.model.n_states, batch.states.shape[0]
        if len(self.phi) != S:
            raise InputError(f"`phi` must have a row for each of {S} states; found {len(self.phi)}")
        if batch.states.shape[1] != len(clients):
            raise InputError(
                f"`transitions` must be of {len(clients)} clients; found {batch.states.shape[1]}"
            )
        return real_array("w", w, (replicates, len(clients), self.d2, clients.model.M)).copy()

    def _law(self, policy: SoftmaxPolicy, law: Array | None) -> Array:
        if len(self.phi) != policy.momdp.n_states:
            raise InputError(
                f"`phi` must have a row for each of {policy.momdp.n_states} states; "
                f"found {len(self.phi)}"
            )
        if law is not None and np.shape(law)[-1:] != (len(self.phi),):
            raise InputError(f"`law` must have shape (..., {len(self.phi)}); found {np.shape(law)}")
        return policy.stationary if law is None else law


def random_features(rng: np.random.Generator | int, states: int, d2: int) -> Array:
    """Features (S, d2) that are independent and of length one, from a generator or a seed.

    >>> random_features(0, 5, 2).shape
    (5, 2)
    """
    states = check_integer("states", states, low=1)
    drawn = generator(rng).standard_normal((states, check_integer("d2", d2, low=1, high=states)))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
