"""Tabular processes under softmax policies, many at once, in either precision: FIRM, Appendix D-G.

What :mod:`mgda.momdp` and :mod:`mgda.critic` compute for one process, for stacks of B small ones
and for numbers beyond float64, with the exact moments of the stochastic gradients (10).

*A batch* is B_t consecutive transitions of the chain, or independent ones. With Z(s, a, s') =
delta psi a sample's gradient, the second moment of a batch's sum follows from the last transition
back to the first: after Z at (s, a, s') the chain goes on from s', so that E||Z + rest||^2 from s
is an average over one step of ||Z||^2 + 2 <Z, E[rest | s']> + E[||rest||^2 | s'].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linsys.linalg import Numbers, lambda_min, norm, solve, transpose

__all__ = ["Chains"]


@dataclass(frozen=True, eq=False)
class Chains:
    """B processes with one policy and the critics' features each; one parameter per pair, d = S A.

    Attributes:
        P: P(s'|s, a) > 0, shape (B, S, A, S).
        r: r^j(s, a), shape (B, S, A, M), in [0, r_max].
        gamma: shape (B,).
        theta: logits, shape (B, S, A).
        phi: critics' features, shape (B, S, d2), of length at most one.
        start: law mu0 of s_0, shape (B, S).
        scale: length c of the policy's features, shape (B,): the parameters are theta / c, and all
            scores and gradients are c times those of the logits.

    >>> ones = np.ones
    >>> chains = Chains(
    ...     P=ones((1, 2, 2, 2)) / 2, r=np.eye(4).reshape(1, 2, 2, 4), gamma=ones(1) / 2,
    ...     theta=np.zeros((1, 2, 2)), phi=np.eye(2)[None], start=ones((1, 2)) / 2,
    ... )
    >>> chains.J[0]  # gamma times a quarter for ever
    array([0.25, 0.25, 0.25, 0.25])
    """

    P: Numbers
    r: Numbers
    gamma: Numbers
    theta: Numbers
    phi: Numbers
    start: Numbers
    scale: Numbers | int = 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """S, A and M."""
        return self.r.shape[1], self.r.shape[2], self.r.shape[3]

    @cached_property
    def pi(self) -> Numbers:
        """pi(a|s), shape (B, S, A)."""
        weights = np.exp(self.theta - self.theta.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    @cached_property
    def psi(self) -> Numbers:
        """Scores grad log pi(a|s), shape (B, S, A, S A)."""
        S, A, _ = self.sizes
        here = np.eye(S, dtype=np.int64)[:, None, :, None]
        own = np.eye(A, dtype=np.int64)[None, :, None, :]
        length = np.asarray(self.scale).reshape(-1, 1, 1, 1, 1)
        scores = length * here * (own - self.pi[:, :, None, None, :])
        return np.asarray(scores.reshape(*self.pi.shape, S * A))

    @cached_property
    def joint(self) -> Numbers:
        """pi(a|s) P(s'|s, a), shape (B, S, A, S)."""
        return np.asarray(self.pi[..., None] * self.P)

    @cached_property
    def kernel(self) -> Numbers:
        """P_pi(s'|s), shape (B, S, S)."""
        return np.asarray(self.joint.sum(axis=2))

    @cached_property
    def stationary(self) -> Numbers:
        """d_pi, shape (B, S)."""
        S = self.sizes[0]
        system = np.eye(S, dtype=np.int64) - transpose(self.kernel) + 1
        return np.asarray(solve(system, 1 + 0 * self.start))

    @cached_property
    def _bellman(self) -> Numbers:
        S = self.sizes[0]
        return np.asarray(np.eye(S, dtype=np.int64) - self.gamma[:, None, None] * self.kernel)

    @cached_property
    def occupancy(self) -> Numbers:
        """nu = (1 - gamma) sum_t gamma^t P(s_t = .), shape (B, S)."""
        return np.asarray((1 - self.gamma)[:, None] * solve(transpose(self._bellman), self.start))

    @cached_property
    def V(self) -> Numbers:
        """V^j(s) = E sum_{t >= 0} gamma^t r^j, shape (B, S, M)."""
        mean = (self.pi[..., None] * self.r).sum(axis=2)
        return transpose(_solve_columns(self._bellman, mean))

    @cached_property
    def J(self) -> Numbers:
        """The paper's returns, whose sums start at t = 1: gamma mu0'V, shape (B, M)."""
        return np.asarray(self.gamma[:, None] * (self.start[..., None] * self.V).sum(axis=1))

    @cached_property
    def jac(self) -> Numbers:
        """grad J^j, a row for each objective, shape (B, M, d)."""
        factor = (self.gamma / (1 - self.gamma))[:, None, None]
        return np.asarray(factor * self.direction(self.V, self.occupancy))

    # The critic.

    @cached_property
    def A(self) -> Numbers:
        """A_pi = E[phi (gamma phi' - phi)'] under d_pi, so that A w_* = -b, (B, d2, d2)."""
        step = self.gamma[:, None, None] * (self.kernel @ self.phi) - self.phi
        return np.asarray(transpose(self.phi) @ (self.stationary[..., None] * step))

    @cached_property
    def lambda_A(self) -> Numbers:
        """The largest lambda with x'(A + A')x <= -2 lambda |x|^2, shape (B,)."""
        return lambda_min(-(self.A + transpose(self.A)) / 2)

    @cached_property
    def w_star(self) -> Numbers:
        """w_*^j, shape (B, M, d2)."""
        mean = (self.pi[..., None] * self.r).sum(axis=2)
        b = transpose(self.phi) @ (self.stationary[..., None] * mean)
        return _solve_columns(-self.A, b)

    def values(self, w: Numbers) -> Numbers:
        """phi(s)'w^j for w (B, M, d2), shape (B, S, M)."""
        return np.asarray(self.phi @ transpose(w))

    @cached_property
    def zeta(self) -> Numbers:
        """E[(V^j - phi'w_*^j)^2] under d_pi, shape (B, M)."""
        error = self.V - self.values(self.w_star)
        return np.asarray((self.stationary[..., None] * error**2).sum(axis=1))

    # The stochastic gradients (10).

    def errors(self, values: Numbers) -> Numbers:
        """delta^j(s, a, s') = r + gamma v(s') - v(s) for v (B, S, M), shape (B, S, A, S, M)."""
        after = self.gamma[:, None, None] * values
        return np.asarray(
            self.r[:, :, :, None] + after[:, None, None] - values[:, :, None, None, :]
        )

    def direction(self, values: Numbers, law: Numbers | None = None) -> Numbers:
        """Delta^j = E[delta^j psi] for s ~ law, else d_pi, shape (B, M, d)."""
        states = self.stationary if law is None else law
        mean = (self.P[..., None] * self.errors(values)).sum(axis=3)
        weights = (states[..., None] * self.pi)[..., None] * mean
        flat = self.psi.reshape(len(self.P), -1, self.psi.shape[-1])
        return np.asarray(transpose(weights.reshape(len(self.P), flat.shape[1], -1)) @ flat)

    def samples(self, values: Numbers, weights: Numbers) -> Numbers:
        """sum_j lambda^j delta^j psi for lambda (B, M), shape (B, S, A, S, d)."""
        error = (self.errors(values) * weights[:, None, None, None]).sum(axis=-1)
        return np.asarray(error[..., None] * self.psi[:, :, :, None])

    def second_moment(self, samples: Numbers, size: int, markov: bool = True) -> Numbers:
        """E||(1/size) sum_l (Z_l - E Z)||^2 of a batch's mean, shape (B,), exactly.

        Args:
            samples: Z(s, a, s'), shape (B, S, A, S, k).
            size: transitions of the batch.
            markov: consecutive ones of the stationary chain, or independent ones.
        """
        if markov:
            return np.asarray(self.second_moments(samples, size)[:, -1])
        return np.asarray(self.second_moments(samples, 1)[:, 0] / size)

    def second_moments(self, samples: Numbers, last: int, law: Numbers | None = None) -> Numbers:
        """E||(1/n) sum_{l <= n} Z_l - E Z||^2 for n = 1 .. last consecutive transitions, (B, last).

        Args:
            samples: Z(s, a, s'), shape (B, S, A, S, k).
            last: transitions of the longest batch.
            law: of the first state, (B, S); without it, d_pi. E Z is the mean under d_pi anyhow.
        """
        states = self.stationary if law is None else law
        centred = samples - self.mean(samples)[:, None, None, None]
        own = (self.joint * (centred**2).sum(axis=-1)).sum(axis=(2, 3))
        now = (self.joint[..., None] * centred).sum(axis=(2, 3))
        # E||sum||^2 and E sum of the last n transitions, by the state at which they begin
        square, total, squares = own, now, [own]
        for _ in range(last - 1):
            ahead = 2 * (centred * total[:, None, None]).sum(axis=-1) + square[:, None, None]
            square = own + (self.joint * ahead).sum(axis=(2, 3))
            total = now + self.kernel @ total
            squares.append(square)
        lengths = np.arange(1, last + 1)
        return np.asarray((states[:, None] * np.stack(squares, axis=1)).sum(axis=-1) / lengths**2)

    def mean(self, samples: Numbers, law: Numbers | None = None) -> Numbers:
        """E Z for s ~ law, else d_pi, shape (B, k)."""
        states = self.stationary if law is None else law
        steps = states[:, :, None, None] * self.joint
        return np.asarray((steps[..., None] * samples).sum(axis=(1, 2, 3)))

    def batch_law(self, law: Numbers, size: int) -> Numbers:
        """The mean law of the states of a batch whose first one is drawn from ``law``, (B, S)."""
        total = law
        for _ in range(size - 1):
            law = (law[:, None] @ self.kernel)[:, 0]
            total = total + law
        return np.asarray(total / size)

    # Mixing, and constants.

    def distances(self, last: int) -> Numbers:
        """max_s ||P(s_t = . | s_0 = s) - d_pi||_TV, half the l1 norm, for t = 0 .. last, (B, T)."""
        power = np.eye(self.sizes[0], dtype=np.int64) - self.stationary[:, None]
        step = self.kernel - self.stationary[:, None]  # without 1 d', in which rounding would stay
        distances = []
        for _ in range(last + 1):
            distances.append(np.abs(power).sum(axis=-1).max(axis=-1) / 2)
            power = power @ step
        return np.stack(distances, axis=1)

    @cached_property
    def score_bound(self) -> Numbers:
        """max |psi(a|s)| at this policy, shape (B,); below :attr:`C_psi`."""
        return np.asarray(norm(self.psi).max(axis=(1, 2)))

    @cached_property
    def score_variance(self) -> Numbers:
        """max_s E|psi(a|s)|^2, shape (B,): at most c^2 (1 - 1/A), half or less of C_psi^2."""
        return np.asarray((self.pi * (self.psi**2).sum(axis=-1)).sum(axis=-1).max(axis=-1))

    @cached_property
    def C_psi(self) -> Numbers:
        """sqrt(2) c, above the length of every score of every policy, shape (B,)."""
        return np.asarray(np.sqrt(0 * self.gamma + 2) * self.scale)

    def R_w(self, r_max: Numbers) -> Numbers:
        """2 r_max / lambda_A, the radius of H, with the policy's own lambda_A; shape (B,)."""
        return np.asarray(2 * r_max / self.lambda_A)

    @cached_property
    def lambda_A_of_all(self) -> Numbers:
        """A lambda of Assumption 2(c) that serves every policy, shape (B,); at most lambda_A.

        -x'A x >= (1 - gamma) sum_s d_pi(s) (phi(s)'x)^2, and d_pi(s) is at least the smallest
        P(s|s', a). Where transitions do not depend on the action all policies have one lambda_A.
        """
        least = self.P.min(axis=(1, 2))[..., None]
        common = (1 - self.gamma) * lambda_min(transpose(self.phi) @ (least * self.phi))
        alike = (self.P[:, :, :1] == self.P).all(axis=(1, 2, 3))
        return np.asarray(np.where(alike, self.lambda_A, common))

    def R_w_of_all(self, r_max: Numbers) -> Numbers:
        """2 r_max / lambda_A, the radius of H, with one lambda_A for every policy; shape (B,)."""
        return np.asarray(2 * r_max / self.lambda_A_of_all)

    @cached_property
    def overlap(self) -> Numbers:
        """rho = max ||P(.|s, a) - P(.|s', a')||_TV, with which kappa = 1 is valid in Lemma 2, (B,).

        Rows of P_pi are averages of these rows, so this contraction holds for every policy.
        """
        rows = self.P.reshape(len(self.P), -1, self.P.shape[-1])
        return np.asarray(
            np.abs(rows[:, :, None] - rows[:, None]).sum(axis=-1).max(axis=(1, 2)) / 2
        )

    @cached_property
    def dependence(self) -> Numbers:
        """1 - sum_s' min P(s'|s, a), the share of a step that depends on (s, a) at all, (B,).

        With the other share the next state is drawn afresh, whatever was done; ``overlap`` or more.
        """
        rows = self.P.reshape(len(self.P), -1, self.P.shape[-1])
        return np.asarray(1 - rows.min(axis=1).sum(axis=-1))


def _solve_columns(matrix: Numbers, columns: Numbers) -> Numbers:
    """matrix^{-1} of every column of (B, n, k), as rows: shape (B, k, n)."""
    return solve(matrix[:, None], transpose(columns))
