"""Density-ratio estimation beside AffPCL (Section 6.1, Appendix C.4).

All estimators here write the ratio in a measure basis psi(s) in R^q, rhohat^i(s) = offset +
psi(s)'eta^i, and match its moments: E_{mu^0} rho^i psi = E_{mu^i} psi holds for the true ratio, so
that each of them follows

    eta^i <- eta^i - alpha (E^{mu^0}[rhohat^i(s) psi(s)] - psi(s^i)).

They differ in the offset (0: linear, 1: shifted), in the samples that stand for mu^0 (those of all
agents, or one that is coupled with s^i) and in the structure put on eta^i.  With one-hot psi the
ratio is tabular, eta_*^i = (rho^i(s) - offset)_s (Appendix C.2).  Where the basis does not span the
ratio, eta_*^i gives its L^2(mu^0) projection, and AffPCL keeps a bias of E_{mu^0}[(rhohat^i -
rho^i) h].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from linsys.algorithms._round import check_start, keep_inactive, sent_mean
from linsys.algorithms.affpcl import RatioEstimator
from linsys.algorithms.steps import Steps
from linsys.oracle import FeatureObservation, Observation
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array, InputError, check_integer, check_number

__all__ = [
    "CoupledRatio",
    "FrozenRatio",
    "LinearRatio",
    "ShiftedRatio",
    "SparseRatio",
    "learn_ratio",
    "ratio_gram",
    "ratio_weights",
]


def _features(seen: Observation, q: int) -> Any:
    """psi(s^j), shape (..., n, q), checked."""
    if not isinstance(seen, FeatureObservation):
        raise InputError(
            "`observation` must show ratio_features() to estimate a density ratio; "
            f"found {type(seen).__name__}"
        )
    return _checked(seen.ratio_features(), q)


def _checked(psi: Any, q: int) -> Any:
    if psi.shape[-1] != q:
        raise InputError(
            f"`psi` must have {q} features, the q of the estimator; found {psi.shape[-1]}"
        )
    return psi


def _evaluate(eta: Any, psi: Any, offset: float, clip: bool) -> Any:
    """offset + psi(s^j)'eta^i, shape (..., n, n), in [0, n] if clipped."""
    xp = array_namespace(eta)
    rho = eta @ xp.matrix_transpose(psi) + offset
    return xp.clip(rho, 0.0, float(eta.shape[-2])) if clip else rho


@dataclass(frozen=True)
class LinearRatio:
    """rho^i(s) = psi(s)'eta^i, from E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi; mu^0 by all samples.

    The expectation under mu^0 is estimated by the average over the agents' samples.  Its MSE is
    O(1/t); by Theorem 2 no estimator gains from environments that are close in total variation.

    Args:
        q: number of features psi.
        start: value of all weights at t = 0; with one-hot psi, 1 starts at the ratio one.
        clip: whether estimates are projected on [0, n], where the true ratio lies.  That moves no
            estimate away from the truth, and it gives the bounded error that Assumption 1 asks for;
            the recursion itself is not clipped.

    Raises:
        InputError: options out of range, or an observation whose features are missing or not q.

    >>> import numpy as np
    >>> from linsys.oracle import LinearObservation
    >>> one = np.ones((2, 1, 1))
    >>> seen = LinearObservation(A=one, Phi=one, b=one[0], psi=lambda: np.eye(2))
    >>> estimator = LinearRatio(q=2)
    >>> estimator.update(estimator.init(np.zeros((2, 1))), seen, 0.5)  # eta^i + 0.5 psi(s^i)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    q: int
    start: float = 0.0
    clip: bool = True
    offset: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_integer("q", self.q, low=1)
        check_number(
            "start", self.start, low=-math.inf, low_open=True, high=math.inf, high_open=True
        )

    def init(self, x0: Any) -> Any:
        """All weights at ``start``, shape (..., n, q)."""
        xp = array_namespace(x0)
        shape = (*x0.shape[:-1], self.q)
        return xp.full(shape, self.start, dtype=x0.dtype, device=getattr(x0, "device", None))

    def weights(self, state: Any) -> Any:
        """eta^i as they enter the ratio, shape (..., n, q)."""
        return state

    def ratio(self, state: Any, seen: Observation) -> Any:
        """rhohat^i(s^j), shape (..., n, n)."""
        return _evaluate(self.weights(state), _features(seen, self.q), self.offset, self.clip)

    def residual(self, state: Any, seen: Observation, active: Any = None) -> Any:
        """(1/n) sum_j rhohat^i(s^j) psi(s^j) - psi(s^i), shape (..., n, q); zero mean at eta_*."""
        psi = _features(seen, self.q)
        rho = _evaluate(state, psi, self.offset, clip=False)
        return sent_mean(psi, psi, active, rho) - psi

    def update(self, state: Any, seen: Observation, alpha: float, active: Any = None) -> Any:
        """One step of size alpha; an agent that is alone in its round learns nothing."""
        return keep_inactive(state - alpha * self.residual(state, seen, active), state, active)


@dataclass(frozen=True)
class ShiftedRatio(LinearRatio):
    """rho^i(s) - 1 = psi(s)'eta^i, from E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi - E_{mu^0} psi.

    It starts at the ratio one, eta_*^i is small for agents close to the average, and a single agent
    keeps its exact ratio one.  With one-hot psi it is :class:`LinearRatio` with ``start`` = 1.
    Arguments are the same.

    >>> import numpy as np
    >>> ShiftedRatio(q=3).init(np.zeros((2, 1))).shape
    (2, 3)
    """

    offset: ClassVar[float] = 1.0


@dataclass(frozen=True)
class CoupledRatio(ShiftedRatio):
    """Example 2: the shifted estimator on a sample s^{0,i} of mu^0 that is coupled with s^i.

    eta^i <- eta^i - alpha (psi(s^{0,i}) psi(s^{0,i})'eta^i - psi(s^i) + psi(s^{0,i})).  With a
    maximal coupling, such as :meth:`linsys.FiniteSystem.couple`, and ||psi|| <= 1 the second moment
    of the residual at eta_*^i is at most 2 chi^2(mu^i, mu^0) + 8 P(s^i != s^{0,i}), which vanishes
    with the distance of the environments.  Arguments are those of :class:`LinearRatio`; the
    observation has to show ``coupled_features()``.

    >>> CoupledRatio(q=3).clip
    True
    """

    def residual(self, state: Any, seen: Observation, active: Any = None) -> Any:
        """rhohat^i(s^{0,i}) psi(s^{0,i}) - psi(s^i), shape (..., n, q); mean zero at eta_*^i."""
        psi = _features(seen, self.q)
        coupled = _checked(seen.coupled_features(), self.q)  # type: ignore[attr-defined]
        return (self.offset + (coupled * state).sum(-1)[..., None]) * coupled - psi


@dataclass(frozen=True)
class SparseRatio(ShiftedRatio):
    """Example 1: shifted weights of which few differ from zero, by one of two constraints.

    Both constrain what is read, not the recursion: ``keep`` = k keeps the k largest |eta|, and for
    a k-sparse eta_*^i only the errors z - eta of 2k coordinates count, ||H_k(z) - eta|| <= 2 ||(z -
    eta)_T|| with T the union of both supports; ``penalty`` = l takes the proximal step argmin_eta
    ||eta - z||^2 / 2 + l ||eta||_1, soft thresholding, which costs a bias of at most l each. Inside
    a stochastic recursion neither would select: a coordinate that is cut at every step never grows
    into the support, and a shrinkage of alpha l drowns in steps of size alpha.

    Args:
        q: number of features psi.
        start: value of all weights at t = 0.
        clip: whether estimates are projected on [0, n].
        keep: number of weights per agent that may differ from zero (more only where sizes tie).
        penalty: l >= 0 of the l1 norm.

    Raises:
        InputError: unless exactly one of ``keep`` in [1, q] and ``penalty`` is given.

    >>> import numpy as np
    >>> SparseRatio(q=3, keep=1).weights(np.array([[0.1, -2.0, 1.0]]))
    array([[ 0., -2.,  0.]])
    """

    keep: int | None = None
    penalty: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.keep is None) == (self.penalty is None):
            raise InputError(
                "exactly one of `keep` and `penalty` must be given; "
                f"found keep={self.keep}, penalty={self.penalty}"
            )
        if self.keep is not None:
            check_integer("keep", self.keep, low=1, high=self.q)
        if self.penalty is not None:
            check_number("penalty", self.penalty, low=0.0, high=math.inf, high_open=True)

    def weights(self, state: Any) -> Any:
        """eta^i, cut to the ``keep`` largest or shrunk by ``penalty``, shape (..., n, q)."""
        xp = array_namespace(state)
        size = xp.abs(state)
        if self.keep is None:
            shrunk = size - self.penalty
            return xp.sign(state) * xp.where(shrunk > 0, shrunk, 0.0 * shrunk)
        smallest = xp.sort(size, axis=-1)[..., self.q - self.keep, None]
        return xp.where(size >= smallest, state, 0.0 * state)


@dataclass(frozen=True, eq=False)
class FrozenRatio:
    """A ratio that is given and kept: learned in an earlier phase, known from elsewhere, or wrong
    on purpose.

    Args:
        weights: eta^i, shape (n, q) or (..., n, q) with one set per replicate; with one-hot psi the
            table of the ratios minus the offset.
        offset: 0 for rho^i(s) = psi(s)'eta^i, 1 for one more.
        clip: whether the ratio is projected on [0, n].

    Raises:
        InputError: weights that are no finite array (..., n, q), or for another number of agents or
            features.

    >>> import numpy as np
    >>> frozen = FrozenRatio(np.ones((3, 5)))
    >>> frozen.init(np.zeros((3, 2))).shape
    (3, 5)
    """

    weights: Any = field(repr=False)
    offset: float = 0.0
    clip: bool = False

    def __post_init__(self) -> None:
        check_start("weights", self.weights, 2)
        check_number(
            "offset", self.offset, low=-math.inf, low_open=True, high=math.inf, high_open=True
        )

    @classmethod
    def of(cls, estimator: LinearRatio, state: Any) -> FrozenRatio:
        """Keep what ``estimator`` knows in ``state``."""
        return cls(estimator.weights(state), estimator.offset, estimator.clip)

    def init(self, x0: Any) -> Any:
        """The weights, in the namespace of x0 (..., n, d)."""
        if self.weights.shape[-2] != x0.shape[-2]:
            raise InputError(
                f"`weights` must have one row for each of {x0.shape[-2]} agents; "
                f"found {self.weights.shape[-2]}"
            )
        xp = array_namespace(x0)
        return xp.asarray(self.weights, dtype=x0.dtype, device=getattr(x0, "device", None))

    def ratio(self, state: Any, seen: Observation) -> Any:
        """The given rho^i(s^j), shape (..., n, n)."""
        return _evaluate(state, _features(seen, self.weights.shape[-1]), self.offset, self.clip)

    def update(self, state: Any, seen: Observation, alpha: float, active: Any = None) -> Any:
        """Nothing changes."""
        return state


def learn_ratio(
    estimator: RatioEstimator,
    x0: Any,
    observe: Callable[[int], Observation],
    steps: Steps,
    rounds: int,
) -> Any:
    """Run an estimator alone for ``rounds`` rounds, the first phase before a :class:`FrozenRatio`.

    Args:
        estimator: of this module, or any other.
        x0: array (..., n, d) whose leading axes, namespace and n are taken.
        observe: gives the samples of round 0, 1, ...
        steps: step sizes, of which the ``ratio`` module counts.
        rounds: number of rounds.

    Returns:
        The estimator's state.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> one = np.ones((2, 1, 1))
    >>> mu = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> system = FiniteSystem.from_objectives(A=one, Phi=one, theta=np.ones((2, 1)), mu=mu)
    >>> rng = np.random.default_rng(0)
    >>> eta = learn_ratio(ShiftedRatio(q=2), np.zeros((2, 1)),
    ...                   lambda t: system.observe(system.sample(rng)), Steps.constant(0.02), 2000)
    >>> bool(np.abs(1 + eta - system.rho).max() < 0.3)
    True
    """
    rounds = check_integer("rounds", rounds)
    state = estimator.init(check_start("x0", x0, 2))
    for t in range(rounds):
        state = estimator.update(state, observe(t), steps.at(t).ratio)
    return state


def ratio_gram(system: FiniteSystem) -> Array:
    """E_{mu^0}[psi psi'], shape (q, q); its smallest eigenvalue is lambda^rho of synchronised
    steps.

    >>> import numpy as np
    >>> one = np.ones((2, 1, 1))
    >>> mu = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> ratio_gram(FiniteSystem.from_objectives(A=one, Phi=one, theta=np.ones((2, 1)), mu=mu))
    array([[0.6, 0. ],
           [0. , 0.4]])
    """
    psi = system.features
    gram: Array = psi.T @ (system.mu0[:, None] * psi)
    return gram


def ratio_weights(system: FiniteSystem, *, shifted: bool = False) -> Array:
    """eta_*^i of all agents, shape (n, q): of rho^i, or of rho^i - 1 if ``shifted``.

    The weights of least norm where E_{mu^0}[psi psi'] is singular.

    >>> import numpy as np
    >>> one = np.ones((2, 1, 1))
    >>> mu = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> system = FiniteSystem.from_objectives(A=one, Phi=one, theta=np.ones((2, 1)), mu=mu)
    >>> bool(np.allclose(ratio_weights(system), system.rho))
    True
    """
    target = (system.mu - system.mu0 if shifted else system.mu) @ system.features
    solution: Array = target @ np.linalg.pinv(ratio_gram(system), hermitian=True)
    return solution
