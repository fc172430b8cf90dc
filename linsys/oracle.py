"""What an algorithm may ask of the agents: residuals on one round of samples, and nothing about the
model behind.

An algorithm of :mod:`linsys.algorithms` never sees a system, a data set or a network.  In every
round it gets an :class:`Observation`, evaluates residuals at points of its choice and moves flat
vectors.  The synthetic systems give a :class:`LinearObservation`; any other backend implements the
same four methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from linsys.linalg import apply
from linsys.validate import InputError

__all__ = ["FeatureObservation", "LinearObservation", "Observation", "given_ratio", "sized"]


def sized(name: str, points: Any, size: int) -> Any:
    """Return ``points`` (..., size) as they are; arrays of another length would broadcast silently.

    >>> import numpy as np
    >>> sized("theta", np.zeros((3, 1)), 2)
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `theta` must have 2 entries per agent, as many as the observation
    has features; found 1
    """
    if points.shape[-1] != size:
        raise InputError(
            f"`{name}` must have {size} entries per agent, as many as the observation has "
            f"features; found {points.shape[-1]}"
        )
    return points


@runtime_checkable
class Observation(Protocol):
    """One sample s^i per agent, seen through residuals.

    Rows are agents: points have shape (..., n, d), or (..., 1, d) for a point that all agents
    share.
    """

    def residual(self, x: Any) -> Any:
        """g^i(x^i) = A(s^i) x^i - b^i(s^i), shape (..., n, d)."""

    def central_residual(self, x: Any, theta: Any) -> Any:
        """h^i(x^i) = A(s^i) x^i - Phi(s^i) theta^i, shape (..., n, d): the central objective."""

    def objective_residual(self, theta: Any) -> Any:
        """Phi(s^i) theta^i - b^i(s^i), shape (..., n, p): the residual of equation (7)."""

    def density_ratio(self) -> Any:
        """rho^i(s^j) = mu^i(s^j) / mu^0(s^j), shape (..., n, n): rows are agents."""


@runtime_checkable
class FeatureObservation(Observation, Protocol):
    """An observation that also shows the measure basis psi(s) of density-ratio estimation."""

    def ratio_features(self) -> Any:
        """psi(s^i), shape (..., n, q)."""

    def coupled_features(self) -> Any:
        """psi(s^{0,i}), shape (..., n, q): of a sample of mu^0 coupled with agent i's own."""


def given_ratio(rho: Any) -> Any:
    """The density ratios of an observation, which must know them."""
    if rho is None:
        raise InputError(
            "`rho` must be given for the importance correction; found None: "
            "use ratio='none', or an estimated density ratio"
        )
    return rho


@dataclass(frozen=True)
class LinearObservation:
    """Sampled matrices and vectors of a linear system, in any array namespace.

    Args:
        A: A(s^i), shape (..., n, d, d).
        Phi: Phi(s^i), shape (..., n, d, p).
        b: b^i(s^i), shape (..., n, d).
        rho: rho^i(s^j), shape (..., n, n), or None where no density ratio is known.
        psi: gives psi(s^i), shape (..., n, q), when called, or None where there is no measure
            basis; a function because few algorithms ask and q may be the number of states.
        psi_coupled: the same for samples of mu^0 that are coupled with the agents' own.

    >>> import numpy as np
    >>> seen = LinearObservation(A=np.eye(2)[None], Phi=np.eye(2)[None], b=np.ones((1, 2)))
    >>> seen.residual(np.zeros((1, 2)))
    array([[-1., -1.]])
    """

    A: Any
    Phi: Any
    b: Any
    rho: Any = None
    psi: Callable[[], Any] | None = None
    psi_coupled: Callable[[], Any] | None = None

    def residual(self, x: Any) -> Any:
        """A(s^i) x^i - b^i(s^i), shape (..., n, d)."""
        return apply(self.A, sized("x", x, self.A.shape[-1])) - self.b

    def central_residual(self, x: Any, theta: Any) -> Any:
        """A(s^i) x^i - Phi(s^i) theta^i, shape (..., n, d)."""
        along_A = apply(self.A, sized("x", x, self.A.shape[-1]))
        return along_A - apply(self.Phi, sized("theta", theta, self.Phi.shape[-1]))

    def objective_residual(self, theta: Any) -> Any:
        """Phi(s^i) theta^i - b^i(s^i), shape (..., n, d)."""
        return apply(self.Phi, sized("theta", theta, self.Phi.shape[-1])) - self.b

    def density_ratio(self) -> Any:
        """rho^i(s^j), shape (..., n, n).

        Raises:
            InputError: if the system behind knows no density ratio.
        """
        return given_ratio(self.rho)

    def ratio_features(self) -> Any:
        """psi(s^i), shape (..., n, q).

        Raises:
            InputError: if the system behind has no measure basis.
        """
        if self.psi is None:
            raise InputError("`psi` must be given to estimate a density ratio; found None")
        return self.psi()

    def coupled_features(self) -> Any:
        """psi(s^{0,i}), shape (..., n, q).

        Raises:
            InputError: if no coupled samples of mu^0 were observed.
        """
        if self.psi_coupled is None:
            raise InputError(
                "`psi_coupled` must be given for the coupled estimator; found None: "
                "observe coupled samples of the average environment too"
            )
        return self.psi_coupled()
