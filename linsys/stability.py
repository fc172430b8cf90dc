"""Which step sizes the recursions of AffPCL and its baselines bear.

A linear recursion e <- (I - alpha A(s)) e with fresh samples s has second moments S_t = E[e_t e_t']
with

    S <- T_alpha(S) = E[(I - alpha A(s)) S (I - alpha A(s))'] = S - alpha L(S) + alpha^2 M(S),
    L(S) = Abar S + S Abar',    M(S) = E[A(s) S A(s)'],

and it is stable in mean square where the spectral radius of T_alpha is below one.  T_alpha and M
preserve positive semidefinite matrices, and so does L^{-1} as -Abar is stable.  T_alpha(P) < P for
some P > 0 means alpha M(P) < L(P), so that the stable steps are exactly the interval

    0 < alpha < 1 / r(M L^{-1}).

Likewise r(T_alpha) = 1 - alpha c for the one c with alpha r(M (L - c)^{-1}) = 1. Neither needs more
than a few products with d x d matrices. Stability in mean square implies stability in the mean,
|1 - alpha lambda| < 1 for the eigenvalues lambda of Abar.

What this says about whole algorithms with one local step and all agents taking part:

- AffPCL with an explicit centre, FedAvg, Ditto, fine-tuning and independent learning are block
  triangular, x^i driven by x^c and theta, so that they are stable in mean square if and only if the
  recursions of x^i, x^c and theta are.
- pFedMe couples x^i and w both ways, and the recursion of (x^1, .., x^n, w) is taken as a whole: it
  has the form above with (n + 1) d rows, so that the answer is exact as well.
- AffPCL with an implicit centre, in a common environment and with one step size for all x^i:
  stability of one agent's recursion is sufficient, not necessary. For x^i - x^0 is the projection
  of n copies of it, x^0 follows their average, and neither increases the Lyapunov function sum_i
  z^i' Q z^i that one Q gives for all agents. In different environments there is no such Q; there a
  finite system is answered by the exact joint recursion of :mod:`linsys.moments`, and any other is
  refused.
- Clustered methods: the recursion of every agent that has a model of its own. Models that agents of
  different environments share are not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsys._cone import LyapunovSolver, perron, perron_bound
from linsys._sample_moments import sample_moments
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Collaborative,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    Steps,
)
from linsys.algorithms.steps import StepSizes
from linsys.moments import exact_moments
from linsys.systems.finite import FiniteSystem
from linsys.systems.gaussian import GaussianSystem
from linsys.systems.regression import RegressionSystem
from linsys.validate import Array, InputError, check_integer, check_number

#: No system bears a larger step, and its square is still far from overflow.
LARGEST = 1e100

__all__ = [
    "PerPart",
    "check_steps",
    "largest_stable_step",
    "mean_square_radius",
    "stable_steps",
]


class PerPart(NamedTuple):
    """One value per recursion: all x^i (n,), x^c, and theta (NaN where there is none)."""

    agents: Array
    center: float
    objective: float


@dataclass(frozen=True)
class _Recursion:
    """e <- (I - alpha A(s)) e, with E A(s) and S -> E[A(s) S A(s)']."""

    name: str
    mean: Array
    square: Callable[[Array], Array]

    def _propagated(self, c: float = 0.0) -> Callable[[Array], Array]:
        """The map M (L - c)^{-1}."""
        solve = LyapunovSolver(self.mean)
        return lambda q: self.square(solve(q, c))

    def stable_step(self) -> float:
        """The step at which stability in mean square ends."""
        return 1.0 / perron(self._propagated(), len(self.mean))

    def surely_stable_step(self) -> float:
        """A step that is certainly stable, at the cost of one application of the map."""
        return 1.0 / perron_bound(self._propagated(), len(self.mean))

    def mean_radius(self, alpha: float) -> float:
        """max |1 - alpha lambda(Abar)|."""
        return float(np.abs(1.0 - alpha * np.linalg.eigvals(self.mean)).max())

    def radius(self, alpha: float) -> float:
        """r(T_alpha)."""
        from scipy.optimize import brentq  # slow to import, and rarely needed

        eye = np.eye(len(self.mean))

        def excess(c: float) -> float:
            return alpha * perron(self._propagated(c), len(eye)) - 1.0

        one_step = eye - alpha * (self.mean + self.mean.T) + alpha**2 * self.square(eye)
        low = (1.0 - float(np.linalg.eigvalsh(one_step)[-1])) / alpha
        high = (1.0 - self.mean_radius(alpha) ** 2) / alpha
        if excess(high) <= 0.0:  # no noise at all: the second moments follow the mean
            return 1.0 - alpha * high
        if excess(low) >= 0.0:  # one step in the worst direction is the asymptotic rate
            return 1.0 - alpha * low
        return 1.0 - alpha * float(brentq(excess, low, high, xtol=1e-12 * (high - low)))


def _minibatch(
    mean: Array, square: Callable[[Array], Array], size: int
) -> Callable[[Array], Array]:
    """S -> E[A S A'] of the average A of ``size`` independent samples."""
    if size == 1:
        return square
    return lambda s: square(s) / size + (1.0 - 1.0 / size) * (mean @ s @ mean.T)


def _regularised(
    mean: Array, square: Callable[[Array], Array], r: float
) -> Callable[[Array], Array]:
    """S -> E[(A + r I) S (A + r I)']."""

    def regularised(s: Array) -> Array:
        cross = mean @ s
        return square(s) + r * (cross + cross.T) + r**2 * s

    return regularised


def _personal(
    system: Any, regularization: float = 0.0, batch_size: int = 1
) -> Iterator[_Recursion]:
    """x^i of every agent, with A(s) + r I for the methods that draw x^i to a common point."""
    moments = sample_moments(system, "A")
    for i, mean in enumerate(moments.mean):
        square = _minibatch(mean, partial(moments.square, i), batch_size)
        if regularization:
            square = _regularised(mean, square, regularization)
        yield _Recursion(f"agent {i}", mean + regularization * np.eye(len(mean)), square)


def _averaged(system: Any, matrix: str, batch_size: int = 1) -> _Recursion:
    """The recursion with (1/n) sum_i A(s^i): x^c for A, theta for Phi."""
    moments = sample_moments(system, matrix)
    n = len(moments.mean)
    center = moments.mean.mean(axis=0)

    def square(s: Array) -> Array:
        means = (moments.mean @ s @ np.swapaxes(moments.mean, -1, -2)).sum(axis=0)
        result: Array = center @ s @ center.T + (moments.total(s) - means) / (n**2 * batch_size)
        return result

    return _Recursion("the centre" if matrix == "A" else "the central objective", center, square)


def _pfedme_recursion(
    system: Any, regularization: float, sizes: StepSizes, batch_size: int
) -> _Recursion:
    """(x^1, .., x^n, w) of pFedMe, every row scaled by the multiplier of its step size.

    Modules with multiplier 0 stay where they are and only drive the others.
    """
    moments = sample_moments(system, "A")
    n, d, r = len(moments.mean), moments.mean.shape[-1], regularization
    multipliers = np.append(sizes.x, sizes.center if r > 0.0 else 0.0)
    mean = np.zeros((n + 1, d, n + 1, d))
    for i in range(n):
        mean[i, :, i] = moments.mean[i] + r * np.eye(d)
        mean[i, :, n] = -r * np.eye(d)
        mean[n, :, i] = -r / n * np.eye(d)
    mean[n, :, n] = r * np.eye(d)
    moving = np.flatnonzero(multipliers)
    mean = (multipliers[:, None, None, None] * mean)[moving][:, :, moving]
    size = len(moving) * d
    flat = mean.reshape(size, size)

    def square(s: Array) -> Array:
        result: Array = flat @ s @ flat.T
        for k, i in enumerate(moving):
            if i < n:  # w has no samples of its own
                rows = slice(k * d, (k + 1) * d)
                own, drift = s[rows, rows], moments.mean[i]
                noise = moments.square(int(i), own) - drift @ own @ drift.T
                result[rows, rows] += multipliers[i] ** 2 / batch_size * noise
        return result

    return _Recursion("the pair (x, w)", flat, square)


def _common_environment(system: Any) -> bool:
    """Whether all agents sample A(s) from one distribution."""
    if isinstance(system, FiniteSystem):
        return bool((system.mu == system.mu[0]).all())
    if isinstance(system, GaussianSystem):
        return bool((system.means == system.means[0]).all())
    return bool(all(np.array_equal(rows, system.features[0]) for rows in system.features))


def _joint_limit(
    system: Any, algorithm: AffPCL, steps: Steps | None, batch_size: int
) -> float | None:
    """The limit of AffPCL with an implicit centre, from its joint recursion.

    None where one agent's recursion is enough to judge it.
    """
    multipliers = steps.x if steps is not None else 1.0
    sample_moments(system, "A")  # refuses other kinds of systems
    alike = not isinstance(multipliers, tuple) or len(set(multipliers)) == 1
    if _common_environment(system) and alike and isinstance(algorithm.ratio, str):
        return None
    if not isinstance(system, FiniteSystem) or batch_size > 1:
        raise InputError(
            "`system` must be a FiniteSystem, with one sample per step, to judge the implicit "
            "centre in different environments or with different steps of the agents; "
            f"found {type(system).__name__}, batch_size={batch_size}"
        )
    return exact_moments(system, algorithm, steps=steps).stability_limit


def _has_objective(system: Any) -> bool:
    return not isinstance(system, RegressionSystem) or system.objective is not None


def mean_square_radius(system: Any, alpha: float, *, batch_size: int = 1) -> PerPart:
    """Spectral radius of S -> E[(I - alpha A(s)) S (I - alpha A(s))'] of every recursion.

    E||e_t||^2 decays like its t-th power, and grows without bound where it is above one.

    Args:
        system: a finite, Gaussian or regression system.
        alpha: step size, positive, at most 1e100.
        batch_size: samples per agent and step, averaged.

    Raises:
        InputError: a step that is not positive or too large, or another kind of system.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> A = np.array([[[1.0]], [[3.0]]])
    >>> system = FiniteSystem.from_objectives(A=A, Phi=A, theta=[[1.0]] * 2, mu=[[0.5] * 2] * 2)
    >>> mean_square_radius(system, 0.1).agents  # 1 - 0.1 * 4 + 0.01 * 5
    array([0.65, 0.65])
    >>> mean_square_radius(system, 0.1).center  # 1 - 0.1 * 4 + 0.01 * (4 + (5 - 4) / 2)
    0.645
    """
    alpha = check_number("alpha", alpha, low=0.0, low_open=True, high=LARGEST)
    check_integer("batch_size", batch_size, low=1)
    return PerPart(
        np.array([r.radius(alpha) for r in _personal(system, batch_size=batch_size)]),
        _averaged(system, "A", batch_size).radius(alpha),
        _averaged(system, "Phi", batch_size).radius(alpha) if _has_objective(system) else np.nan,
    )


def stable_steps(system: Any, *, regularization: float = 0.0, batch_size: int = 1) -> PerPart:
    """The step from which on each recursion is not stable in mean square.

    Args:
        system: a finite, Gaussian or regression system.
        regularization: r >= 0 of a method that draws x^i to a common point.
        batch_size: samples per agent and step, averaged.

    Raises:
        InputError: options out of range, or another kind of system.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> A = np.array([[[1.0]], [[3.0]]])
    >>> system = FiniteSystem.from_objectives(A=A, Phi=A, theta=[[1.0]], mu=[[0.5, 0.5]])
    >>> stable_steps(system).agents  # 2 * 2 / 5
    array([0.8])
    """
    check_number("regularization", regularization, low=0.0, high=np.inf, high_open=True)
    check_integer("batch_size", batch_size, low=1)
    personal = _personal(system, regularization, batch_size)
    return PerPart(
        np.array([r.stable_step() for r in personal]),
        _averaged(system, "A", batch_size).stable_step(),
        _averaged(system, "Phi", batch_size).stable_step() if _has_objective(system) else np.nan,
    )


def _parts(
    system: Any, algorithm: Collaborative[Any] | None, sizes: StepSizes, batch_size: int
) -> Iterator[tuple[float, _Recursion]]:
    """The recursions of an algorithm and the step size that each of them takes.

    ``sizes`` holds those of the modules, its ``x`` in shape (n,).
    """
    if isinstance(algorithm, PFedMe):
        if sizes.x.any() or (sizes.center and algorithm.regularization):
            largest = max(sizes.x.max(), sizes.center)
            relative = StepSizes(sizes.x / largest, sizes.center / largest, 0.0, 0.0)
            yield largest, _pfedme_recursion(system, algorithm.regularization, relative, batch_size)
        return
    regularization = getattr(algorithm, "regularization", 0.0)
    if not isinstance(algorithm, FedAvg):
        for i, recursion in enumerate(_personal(system, regularization, batch_size)):
            yield float(sizes.center if isinstance(algorithm, Clustered) else sizes.x[i]), recursion
    centred = isinstance(algorithm, (FedAvg, FineTuning, Ditto)) or algorithm is None
    if centred or (isinstance(algorithm, AffPCL) and algorithm.center == "explicit"):
        yield sizes.center, _averaged(system, "A", batch_size)
    estimated = isinstance(algorithm, AffPCL) and algorithm.objective == "estimated"
    if (estimated or algorithm is None) and _has_objective(system):
        yield sizes.objective, _averaged(system, "Phi", batch_size)


def _check_known(algorithm: Any) -> None:
    known = (AffPCL, Independent, FedAvg, FineTuning, PFedMe, Ditto, Clustered)
    if algorithm is not None and not isinstance(algorithm, known):
        raise InputError(
            f"`algorithm` must be one of {', '.join(k.__name__ for k in known)} or None; "
            f"found {type(algorithm).__name__}"
        )


def largest_stable_step(
    system: Any, algorithm: Collaborative[Any] | None = None, *, batch_size: int = 1
) -> float:
    """The step below which all recursions of an algorithm are stable in mean square, one step for
    all.

    See the module's text for the cases in which that is a sufficient condition only (implicit
    centre in a common environment), or does not say everything (Clustered). For PFedMe the cost
    grows like ((n + 1) d)^3.

    Args:
        system: a finite, Gaussian or regression system.
        algorithm: one of :mod:`linsys.algorithms`, or None for agents, centre and central objective
            together.
        batch_size: samples per agent and step, averaged.

    Raises:
        InputError: another kind of system or algorithm, or an implicit centre that cannot be
            judged: in different environments on a system that is not finite, or too large for
            :func:`linsys.moments.exact_moments`.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> A = np.array([[[1.0]], [[3.0]]])
    >>> system = FiniteSystem.from_objectives(A=A, Phi=A / 9, theta=[[1.0]], mu=[[0.5, 0.5]])
    >>> largest_stable_step(system)
    0.8
    """
    _check_known(algorithm)
    check_integer("batch_size", batch_size, low=1)
    if isinstance(algorithm, AffPCL) and algorithm.center == "implicit":
        joint = _joint_limit(system, algorithm, None, batch_size)
        if joint is not None:
            return joint
    n = len(sample_moments(system, "A").mean)
    ones = StepSizes(np.ones(n), 1.0, 1.0, 1.0)
    return min(r.stable_step() for _, r in _parts(system, algorithm, ones, batch_size))


def check_steps(
    system: Any,
    steps: Steps | float,
    algorithm: Collaborative[Any] | None = None,
    *,
    batch_size: int = 1,
) -> None:
    """Refuse a step size with which an algorithm diverges on a system.

    Diminishing steps are judged by their first, largest one.

    Args:
        system: a finite, Gaussian or regression system.
        steps: the step sizes, or one number for all.
        algorithm: as for :func:`largest_stable_step`.
        batch_size: samples per agent and step, averaged.

    Raises:
        InputError: "step size beyond stability", with the worst recursion, the bound it breaks
            (mean iteration or mean square), its spectral radius, and the largest stable step; or
            what :func:`largest_stable_step` refuses.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> A = np.array([[[1.0]], [[3.0]]])
    >>> system = FiniteSystem.from_objectives(A=A, Phi=A, theta=[[1.0]], mu=[[0.5, 0.5]])
    >>> check_steps(system, 0.5)
    >>> check_steps(system, 0.9)
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: step size beyond stability: agent 0 must have a step below 0.8;
    found 0.9, ...
    """
    _check_known(algorithm)
    check_integer("batch_size", batch_size, low=1)
    sizes = steps if isinstance(steps, Steps) else Steps.constant(steps)
    n = len(sample_moments(system, "A").mean)
    if isinstance(algorithm, AffPCL) and algorithm.center == "implicit":
        sizes.multipliers(n)
        joint = _joint_limit(system, algorithm, sizes, batch_size)
        if joint is not None:
            if sizes.base(0) >= joint:
                raise InputError(
                    "step size beyond stability: the joint recursion of all agents with the "
                    f"implicit centre must have a step below {joint:.6g} before the multipliers; "
                    f"found {sizes.base(0):.6g}"
                )
            return
    first = sizes.at(0)._replace(x=sizes.multipliers(n) * sizes.base(0))
    broken: list[tuple[float, float, _Recursion]] = []
    for alpha, recursion in _parts(system, algorithm, first, batch_size):
        if alpha == 0.0 or alpha < recursion.surely_stable_step():
            continue
        if alpha >= (stable := recursion.stable_step()):
            broken.append((stable / alpha, alpha, recursion))
    if not broken:
        return
    share, alpha, worst = min(broken, key=lambda entry: entry[0])
    in_mean = worst.mean_radius(alpha)
    bound = (
        f"the mean iteration has spectral radius max|1 - alpha lambda| = {in_mean:.6g} >= 1"
        if in_mean >= 1.0
        else f"the mean-square iteration has spectral radius {worst.radius(alpha):.6g} >= 1"
    )
    raise InputError(
        f"step size beyond stability: {worst.name} must have a step below {share * alpha:.6g}; "
        f"found {alpha:.6g}, with which {bound}"
    )
