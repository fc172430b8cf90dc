"""Affinity-aware personalised collaborative learning (AffPCL), Algorithm 1 and its variants.

Every agent corrects its own residual by a control variate: the residual that it would have for the
*central* problem on the same sample, whose low-variance average over all agents is added back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from linsys.algorithms._round import (
    Collaborative,
    agent_mean,
    agent_sizes,
    keep_inactive,
    sent_mean,
    start_of,
)
from linsys.algorithms.steps import StepSizes
from linsys.oracle import Observation, sized
from linsys.validate import InputError, check_choice

__all__ = ["AffPCL", "AffPCLState", "RatioEstimator"]


@runtime_checkable
class RatioEstimator(Protocol):
    """Density-ratio estimation that runs beside AffPCL (Section 6.1)."""

    def init(self, x0: Any) -> Any:
        """Initial state for n agents; ``x0`` (..., n, d) gives the batch, the namespace and n."""

    def ratio(self, state: Any, seen: Observation) -> Any:
        """The current estimate of rho^i(s^j), shape (..., n, n)."""

    def update(self, state: Any, seen: Observation, alpha: float, active: Any = None) -> Any:
        """State after one more round of samples; inactive agents are not seen and keep theirs."""


class AffPCLState(NamedTuple):
    """x (..., n, d); center (..., 1, d); theta (..., 1, p); the estimator's state; rounds done."""

    x: Any
    center: Any
    theta: Any
    ratio: Any = None
    t: int = 0


@dataclass(frozen=True)
class AffPCL(Collaborative[AffPCLState]):
    """AffPCL in the form (8) by default, in the form (5) with ``correction="bias"``.

    With central residual h^i(x, theta) = A(s^i) x - Phi(s^i) theta and step alpha, one round is

        x^i  <- x^i - alpha (g^i(x^i) + c^i - h^i(x^c, theta))               (8) or (5)
        c^i   = (1/n) sum_j rho^i(s^j) h^j(x^c, theta)                       "importance", (8)
        c^i   = (1/n) sum_j g^j(x^c)                                         "bias", (5)
        x^c  <- x^c - alpha^c (1/n) sum_j (g^j(x^c) or h^j(x^c, theta))      (22-1) or (22-2)
        theta <- theta - alpha^b (1/n) sum_j (Phi(s^j) theta - b^j(s^j))     (7)

    Guarantee: E||x_t^i - x_*^i||^2 = O~((kappa^i)^2 / t * max{1/n, delta_cen^i}) (Theorem 1 and
    equation 9).

    Between two communications each agent may take several local steps: its own residual moves x^i
    at once; the corrections c^i - h^i of all samples of the round, at the x^c and theta of its
    start, are added when the server has aggregated them.  Under "importance" they have mean zero
    for *any* x^c and theta, so that x_*^i stays the fixed point of the mean iteration, also where
    x^c and theta, which follow local SGD, drift from theirs in different environments; under "bias"
    they have for any x^c, but only at theta = theta_*^c.  With one local step this is exactly the
    round above.

    With partial participation only active agents move and are averaged over; see :func:`sent_mean`
    for the weights that keep c^i - h^i unbiased given that agent i is active.

    Args:
        correction: "importance" (8), for agents with different environments, or "bias" (5), for a
            common one.
        center: "explicit" x^c that follows (22), or "implicit" x^0 = (1/n) sum_i x^i, valid for a
            common environment.
        central_direction: "objective" (22-1) or "estimate" (22-2); only used by the explicit
            centre.
        objective: "estimated" by (7), or "known": theta stays at the value given to :meth:`init`.
        ratio: "known", "none" (rho = 1, the importance correction is left out), or a
            :class:`RatioEstimator`.

    Raises:
        InputError: an unknown option, or a density ratio asked of the form (5), which has none.

    >>> import numpy as np
    >>> from linsys.oracle import LinearObservation
    >>> one = np.ones((1, 1, 1))
    >>> seen = LinearObservation(A=one, Phi=one, b=np.ones((1, 1)), rho=np.ones((1, 1)))
    >>> algorithm = AffPCL()
    >>> start = algorithm.init(np.zeros((1, 1)))
    >>> state = algorithm.update(start, [seen], StepSizes(0.5, 0.5, 0.5, 0.5))
    >>> algorithm.personal(state)
    array([[0.5]])
    """

    correction: str = "importance"
    center: str = "explicit"
    central_direction: str = "objective"
    objective: str = "estimated"
    ratio: str | RatioEstimator = "known"

    def __post_init__(self) -> None:
        check_choice("correction", self.correction, ("importance", "bias"))
        check_choice("center", self.center, ("explicit", "implicit"))
        check_choice("central_direction", self.central_direction, ("objective", "estimate"))
        check_choice("objective", self.objective, ("estimated", "known"))
        # A class has the methods of its instances and would pass for one.
        if isinstance(self.ratio, type) or not isinstance(self.ratio, RatioEstimator):
            check_choice("ratio", self.ratio, ("known", "none"))
        elif self.correction == "bias":
            raise InputError(
                "`ratio` must not be an estimator for correction='bias', which has no density ratio"
            )

    def init(self, start: Any, oracle: Any = None) -> AffPCLState:
        """Start at x (..., n, d), x^c at its mean over agents, and theta (..., p) or zero.

        Raises:
            InputError: if the objective is "known" and no theta is given, or a start is no finite
                array.
        """
        x0, theta0 = start_of(start, oracle)
        if theta0 is None and self.objective == "known":
            raise InputError("`theta0` must be the known central objective theta_*^c; found None")
        center = agent_mean(x0)
        theta = center * 0.0 if theta0 is None else theta0[..., None, :] + center[..., :1] * 0.0
        estimator = self.ratio if isinstance(self.ratio, RatioEstimator) else None
        return AffPCLState(x0, center, theta, estimator.init(x0) if estimator else None)

    def update(
        self,
        state: AffPCLState,
        seen: Sequence[Observation],
        sizes: StepSizes,
        active: Any = None,
    ) -> AffPCLState:
        """One communication round with one observation per local step.

        Raises:
            InputError: x or theta of another length than the observation has features.
        """
        center = agent_mean(state.x, active) if self.center == "implicit" else state.center
        step = agent_sizes(sizes.x, state.x)
        x = state.x
        centers = center + 0.0 * x
        thetas = state.theta + 0.0 * x[..., :1]
        ratio = state.ratio
        correction = 0.0 * x
        for one in seen:
            own = one.central_residual(center, state.theta)
            correction = correction + (self._central(one, ratio, center, own, active) - own)
            x = x - step * one.residual(x)
            if self.center == "explicit":
                at_center = (
                    one.residual(centers)
                    if self.central_direction == "objective"
                    else one.central_residual(centers, thetas)
                )
                centers = centers - sizes.center * at_center
            if self.objective == "estimated":
                residual = one.objective_residual(thetas)
                thetas = sized("theta", thetas, residual.shape[-1]) - sizes.objective * residual
            if isinstance(self.ratio, RatioEstimator):
                ratio = self.ratio.update(ratio, one, sizes.ratio, active)
        return AffPCLState(
            keep_inactive(x - step * correction, state.x, active),
            agent_mean(centers, active) if self.center == "explicit" else center,
            agent_mean(thetas, active) if self.objective == "estimated" else state.theta,
            ratio,
            state.t + 1,
        )

    def _central(self, seen: Observation, ratio: Any, center: Any, own: Any, active: Any) -> Any:
        """The central direction c^i of every agent, (..., n, d) or one row for all."""
        if self.correction == "bias":
            return sent_mean(seen.residual(center), own, active)
        if isinstance(self.ratio, RatioEstimator):
            return sent_mean(own, own, active, self.ratio.ratio(ratio, seen))
        return sent_mean(own, own, active, None if self.ratio == "none" else seen.density_ratio())

    def personal(self, state: AffPCLState) -> Any:
        """The agents' decision variables x^i, shape (..., n, d)."""
        return state.x
