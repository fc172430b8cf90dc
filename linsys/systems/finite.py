"""Multi-agent linear systems on a finite state space, where every expectation is a finite sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.oracle import LinearObservation
from linsys.systems.linear import LinearSystem
from linsys.validate import Array, InputError, distributions, real_array

__all__ = ["FiniteSystem"]


@dataclass(frozen=True, eq=False)
class FiniteSystem(LinearSystem):
    """Agents i = 1..n that each solve Abar^i x = bbar^i, equation (2) of AffPCL, on S states.

    All agents share the feature matrices A(s), Phi(s); agent i has its own environment mu^i and
    objective b^i.

    Args:
        A: feature embedding matrices, shape (S, d, d).
        Phi: objective features, shape (S, d, d).
        b: objectives b^i(s), shape (n, S, d).
        mu: environment distributions, shape (n, S); rows sum to one.
        theta: objective weights with b^i(s) = Phi(s) theta^i, shape (n, d), or None where b is not
            of this form.
        psi: measure basis on which density ratios are estimated, shape (S, q), or None for one-hot
            states, with which the weights are the density ratios themselves (Appendix C.2).

    Raises:
        InputError: wrong shapes, NaN, a row of ``mu`` that is no distribution, a theta that does
            not reproduce ``b``, or a mean matrix Abar^i (or Phibar^0) whose symmetric part is not
            positive definite.

    >>> import numpy as np
    >>> system = FiniteSystem.from_objectives(
    ...     A=np.array([[[1.0]], [[3.0]]]),
    ...     Phi=np.ones((2, 1, 1)),
    ...     theta=np.array([[1.0], [2.0]]),
    ...     mu=np.array([[0.5, 0.5], [1.0, 0.0]]),
    ... )
    >>> system.x_star
    array([[0.5],
           [2. ]])
    """

    A: Array
    Phi: Array
    b: Array
    mu: Array
    theta: Array | None = None
    psi: Array | None = None

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        store = object.__setattr__
        store(self, "A", real_array("A", self.A, ("S", "d", "d"), sizes))
        store(self, "Phi", real_array("Phi", self.Phi, ("S", "d", "d"), sizes))
        store(self, "b", real_array("b", self.b, ("n", "S", "d"), sizes))
        store(self, "mu", distributions("mu", real_array("mu", self.mu, ("n", "S"), sizes)))
        if self.theta is not None:
            theta = real_array("theta", self.theta, ("n", "d"), sizes)
            store(self, "theta", theta)
            gap = np.abs(np.einsum("sij,nj->nsi", self.Phi, theta) - self.b).max()
            if gap > 1e-9 * (1.0 + np.abs(self.b).max()):
                raise InputError(f"`b` must equal Phi(s) theta^i; found a difference of {gap:.3g}")
        if self.psi is not None:
            store(self, "psi", real_array("psi", self.psi, ("S", "q"), sizes))
        self._check_monotone()

    @classmethod
    def from_objectives(
        cls,
        *,
        A: ArrayLike,
        Phi: ArrayLike,
        theta: ArrayLike,
        mu: ArrayLike,
        psi: ArrayLike | None = None,
    ) -> FiniteSystem:
        """Build the system with linear objectives b^i(s) = Phi(s) theta^i (Section 4)."""
        sizes: dict[str, int] = {}
        raw: dict[str, Any] = {"A": A, "mu": mu, "psi": psi}  # checked with all others
        features = real_array("Phi", Phi, ("S", "d", "d"), sizes)
        weights = real_array("theta", theta, ("n", "d"), sizes)
        return cls(
            Phi=features,
            b=np.einsum("sij,nj->nsi", features, weights),
            theta=weights,
            **raw,
        )

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.mu.shape[0])

    @property
    def d(self) -> int:
        """Dimension of a decision variable."""
        return int(self.A.shape[-1])

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return int(self.mu.shape[1])

    @cached_property
    def mu0(self) -> Array:
        """mu^0 = (1/n) sum_i mu^i, shape (S,)."""
        return np.asarray(self.mu.mean(axis=0))

    @cached_property
    def rho(self) -> Array:
        """rho^i(s) = mu^i(s) / mu^0(s) <= n, shape (n, S); 0 on states that no agent visits."""
        return np.divide(self.mu, self.mu0, out=np.zeros_like(self.mu), where=self.mu0 > 0)

    @cached_property
    def features(self) -> Array:
        """The measure basis psi(s), shape (S, q); one-hot states unless another one was given."""
        return np.eye(self.n_states) if self.psi is None else self.psi

    @cached_property
    def A_bar(self) -> Array:
        """Abar^i = E_{mu^i} A(s), shape (n, d, d)."""
        return np.asarray(np.einsum("ns,sij->nij", self.mu, self.A))

    @cached_property
    def Phi_bar(self) -> Array:
        """Phibar^i = E_{mu^i} Phi(s), shape (n, d, d)."""
        return np.asarray(np.einsum("ns,sij->nij", self.mu, self.Phi))

    @cached_property
    def b_bar(self) -> Array:
        """bbar^i = E_{mu^i} b^i(s), shape (n, d)."""
        return np.asarray(np.einsum("ns,nsi->ni", self.mu, self.b))

    def sample(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Draw s^i ~ mu^i for every agent: states of shape (*batch, n)."""
        cumulative = np.cumsum(self.mu, axis=1)
        # The last entry is 1 up to rounding; clipping keeps a uniform of almost one inside the
        # state space.
        u = rng.random((*batch, self.n))
        states = np.empty((*batch, self.n), dtype=np.int64)
        for i in range(self.n):
            states[..., i] = np.searchsorted(cumulative[i], u[..., i], side="right")
        return np.minimum(states, self.n_states - 1)

    def couple(
        self, states: NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw s^{0,i} ~ mu^0 given s^i by a maximal coupling.

        P(s^{0,i} = s^i) = 1 - ||mu^i - mu^0||_TV, which no coupling exceeds: s^i is
        kept with probability min(1, mu^0(s^i) / mu^i(s^i)); otherwise s^{0,i} is drawn from the
        positive part of mu^0 - mu^i, normalised.

        Args:
            states: the agents' samples s^i ~ mu^i, shape (..., n).
            rng: source of the coupling's own randomness.

        Raises:
            InputError: states that are no integers in [0, S) with one column per agent.

        >>> import numpy as np
        >>> one = np.ones((2, 1, 1))
        >>> mu = np.array([[1.0, 0.0], [0.5, 0.5]])
        >>> system = FiniteSystem.from_objectives(A=one, Phi=one, theta=np.ones((2, 1)), mu=mu)
        >>> rng = np.random.default_rng(0)
        >>> states = system.sample(rng, (10000,))
        >>> bool(abs((system.couple(states, rng) == states).mean() - 0.75) < 0.01)
        True
        """
        s = self._checked(states)
        excess = np.maximum(self.mu0 - self.mu, 0.0)
        totals = excess.sum(axis=1, keepdims=True)
        # An agent with mu^i = mu^0 keeps every sample; its row is never used.
        cumulative = np.cumsum(np.divide(excess, totals, where=totals > 0, out=excess), axis=1)
        keep, u = rng.random((2, *s.shape))
        partners = s.astype(np.int64)
        for i in range(self.n):
            kept = keep[..., i] * self.mu[i, s[..., i]] < self.mu0[s[..., i]]
            other = np.searchsorted(cumulative[i], u[..., i] * cumulative[i, -1], side="right")
            partners[..., i] = np.where(kept, s[..., i], np.minimum(other, self.n_states - 1))
        return partners

    def observe(
        self,
        states: NDArray[np.integer[Any]],
        coupled: NDArray[np.integer[Any]] | None = None,
    ) -> LinearObservation:
        """Evaluate features, objectives and density ratios at given states, shape (..., n).

        Args:
            states: the agents' samples s^i, shape (..., n).
            coupled: samples s^{0,i} of mu^0 from :meth:`couple`, shape (..., n), for the coupled
                ratio estimator.

        Raises:
            InputError: if the states are not integers in [0, S) with one column per agent.
        """
        s = self._checked(states)
        partners = None if coupled is None else self._checked(coupled)
        agents = np.arange(self.n)
        return LinearObservation(
            A=self.A[s],
            Phi=self.Phi[s],
            b=self.b[agents, s],
            rho=np.moveaxis(self.rho[:, s], 0, -2),
            psi=lambda: self.features[s],
            psi_coupled=None if partners is None else lambda: self.features[partners],
        )

    def _checked(self, states: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """States (..., n) that are whole numbers in [0, S)."""
        s = np.asarray(states)
        if s.dtype.kind not in "iu" or s.ndim == 0 or s.shape[-1] != self.n:
            raise InputError(
                f"`states` must be whole numbers of shape (..., {self.n}); "
                f"found {s.dtype} {s.shape}"
            )
        if s.size and (s.min() < 0 or s.max() >= self.n_states):
            raise InputError(
                f"`states` must lie in [0, {self.n_states}); found [{s.min()}, {s.max()}]"
            )
        return s
