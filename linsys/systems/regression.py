"""Linear regression on real data: agents whose environments are the samples they hold.

Agent i holds features phi(z) and targets y^i(z) and solves E_{mu^i}[phi phi'] x = E_{mu^i}[phi
y^i], the system of the real-world experiment of AffPCL (Appendix B), with A(z) = phi(z) phi(z)' and
b^i(z) = phi(z) y^i(z). As mu^i is a finite sum, all means and solutions are exact.

The central objective is parametrised by objective features psi(z): b^c(z) = phi(z) psi(z)'theta, so
that the central residual is phi (phi'x - psi'theta), and central objective estimation (7) is least
squares, psi (psi'theta - y^i). They must not be the features themselves. With psi = phi the same
equation determines x_*^c and theta_*^c, the central residual vanishes at the centre for every
single sample, and nothing is left that could correlate with an agent's noise: AffPCL becomes
independent learning. What helps is a psi that sees more of the targets than phi does, best of all
one that realises them, y^i = psi'theta^i: the indicators of the classes, or of the properties that
the targets are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from linsys.linalg import apply
from linsys.oracle import sized
from linsys.systems.linear import LinearSystem, solve
from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["RegressionObservation", "RegressionSystem", "SquaredLoss"]

#: A second-moment matrix is singular if its smallest eigenvalue is below this share of its largest.
SINGULAR = 1e-12


def _mean_over_batch(rows: Any, weights: Any) -> Any:
    """(1/B) sum_k rows_k weights_k: (..., B, d) and (..., B) -> (..., d)."""
    return (weights[..., None, :] @ rows)[..., 0, :] / rows.shape[-2]


@dataclass(frozen=True)
class RegressionObservation:
    """One minibatch per agent, seen through residuals averaged over it; any array namespace.

    Args:
        features: phi, shape (..., n, B, d).
        targets: y^i, shape (..., n, B).
        objective: psi, shape (..., n, B, p), or None where no central objective is estimated.
        ridge: added to phi phi' as a multiple of the identity.
        rho: rho^i at the agents' samples, shape (..., n, n), or None; only for minibatches of one
            sample, since the ratio belongs to a sample and does not factor out of an average of
            several.

    >>> import numpy as np
    >>> seen = RegressionObservation(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]))
    >>> seen.residual(np.zeros((1, 1)))
    array([[-0.5]])
    """

    features: Any
    targets: Any
    objective: Any = None
    ridge: float = 0.0
    rho: Any = None

    def residual(self, x: Any) -> Any:
        """Mean of phi (phi'x^i - y^i) over the minibatch, shape (..., n, d)."""
        return self._fit(x, self.targets)

    def central_residual(self, x: Any, theta: Any) -> Any:
        """Mean of phi (phi'x^i - psi'theta^i) over the minibatch, shape (..., n, d)."""
        return self._fit(x, self._central_target(theta))

    def objective_residual(self, theta: Any) -> Any:
        """Mean of psi (psi'theta^i - y^i) over the minibatch, shape (..., n, p)."""
        return _mean_over_batch(self._psi(), self._central_target(theta) - self.targets)

    def density_ratio(self) -> Any:
        """rho^i(s^j), shape (..., n, n).

        Raises:
            InputError: if no ratio is known.
        """
        if self.rho is None:
            raise InputError(
                "`density_ratio` must be known, and minibatches hold one sample, "
                f"for the importance correction; found minibatches of {self.features.shape[-2]}: "
                "use ratio='none'"
            )
        return self.rho

    def _fit(self, x: Any, targets: Any) -> Any:
        along = apply(self.features, sized("x", x, self.features.shape[-1]))
        gradient = _mean_over_batch(self.features, along - targets)
        return gradient + self.ridge * x if self.ridge else gradient

    def _central_target(self, theta: Any) -> Any:
        """psi'theta, shape (..., n, B)."""
        psi = self._psi()
        return apply(psi, sized("theta", theta, psi.shape[-1]))

    def _psi(self) -> Any:
        return _check_objective(self.objective)


@dataclass(frozen=True, eq=False)
class RegressionSystem(LinearSystem):
    """Agents i = 1..n that each solve a least-squares problem on their own samples.

    Args:
        features: phi at agent i's samples, one array (N_i, d) per agent.
        targets: y^i at these samples, one array (N_i,) per agent.
        objective: psi at these samples, one array (N_i, p) per agent, or None; see the module's
            text for what to pass.
        density_ratio: rho^k = mu^k / mu^0 of all agents k at agent i's samples, one array (N_i, n)
            per agent, or None.
        ridge: multiple of the identity that is added to every second-moment matrix, at least 0.

    Raises:
        InputError: lists of different lengths, wrong shapes, NaN, or a singular E_{mu^i}[phi phi']
            or E_{mu^0}[psi psi'].

    >>> import numpy as np
    >>> system = RegressionSystem(
    ...     features=[np.array([[1.0], [2.0]]), np.array([[1.0]])],
    ...     targets=[np.array([1.0, 2.0]), np.array([3.0])],
    ... )
    >>> system.x_star
    array([[1.],
           [3.]])
    """

    features: Sequence[Array]
    targets: Sequence[Array]
    objective: Sequence[Array] | None = None
    density_ratio: Sequence[Array] | None = None
    ridge: float = 0.0

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {"n": _agents("features", self.features)}
        columns: dict[str, tuple[str, ...]] = {"features": ("d",), "targets": ()}
        for name in ("objective", "density_ratio"):
            if getattr(self, name) is not None:
                columns[name] = ("p",) if name == "objective" else ("n",)
        for name in columns:
            if (count := _agents(name, getattr(self, name))) != sizes["n"]:
                raise InputError(
                    f"`{name}` must hold one array per agent, {sizes['n']}; found {count}"
                )
        checked: dict[str, list[Array]] = {name: [] for name in columns}
        for i in range(sizes["n"]):
            own = {**sizes}
            for name, last in columns.items():
                value = real_array(f"{name}[{i}]", getattr(self, name)[i], ("N_i", *last), own)
                if name == "density_ratio" and (value < 0).any():
                    raise InputError(
                        f"`density_ratio[{i}]` must be non-negative; found {value.min():.6g}"
                    )
                checked[name].append(value)
            sizes.update({key: own[key] for key in ("d", "p") if key in own})
        for name, arrays in checked.items():
            object.__setattr__(self, name, tuple(arrays))
        object.__setattr__(self, "ridge", check_number("ridge", self.ridge, low=0.0))
        for i, matrix in enumerate(self.A_bar):
            _regular(
                f"E[phi phi'] of agent {i}", matrix, "give more samples than features, or a `ridge`"
            )
        if self.objective is not None:
            _regular(
                "E[psi psi'] of all agents",
                self.Phi_bar0,
                "drop objective features that never vary",
            )

    @property
    def n(self) -> int:
        """Number of agents."""
        return len(self.features)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.features[0].shape[1])

    @property
    def p(self) -> int:
        """Number of objective features; 0 where none are given."""
        return 0 if self.objective is None else int(self.objective[0].shape[1])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """N_i, shape (n,)."""
        return np.array([len(rows) for rows in self.features], dtype=np.int64)

    @cached_property
    def A_bar(self) -> Array:
        """Abar^i = E_{mu^i}[phi phi'] + ridge I, shape (n, d, d)."""
        return _moments(self.features, self.features) + self.ridge * np.eye(self.d)

    @cached_property
    def b_bar(self) -> Array:
        """bbar^i = E_{mu^i}[phi y^i], shape (n, d)."""
        return _moments(self.features, self.targets)

    @cached_property
    def cross(self) -> Array:
        """E_{mu^i}[phi psi'], which takes theta to agent i's view of it, shape (n, d, p)."""
        return _moments(self.features, self._psi())

    @cached_property
    def Phi_bar(self) -> Array:
        """E_{mu^i}[psi psi'], the matrix of central objective estimation (6); (n, p, p)."""
        return _moments(self._psi(), self._psi())

    @cached_property
    def theta_star_central(self) -> Array:
        """Central objective: least squares of the targets on psi over all agents, shape (p,)."""
        return solve(self.Phi_bar0, _moments(self._psi(), self.targets).mean(axis=0))

    @cached_property
    def x_limit_uncorrected(self) -> Array:
        """Limit of AffPCL (8) without the importance correction for small steps, shape (n, d).

        With rho = 1 the corrected direction is zero on average at Abar^i x = bbar^i - hbar^0 +
        hbar^i with the mean central residuals hbar^i = Abar^i x_*^c - E_{mu^i}[phi psi'] theta_*^c
        and hbar^0 = (1/n) sum_i hbar^i. In a common environment this is x_*^i. Otherwise it is the
        central solution plus the regression of what the agent's targets have that the central ones
        have not: no longer the least-squares solution on the agent's samples, but one that borrows
        the others' samples for the common part.
        """
        central = self.A_bar @ self.x_star_central - self.cross @ self.theta_star_central
        right = self.b_bar - central.mean(axis=0) + central
        return solve(self.A_bar, right)

    def sample(
        self, rng: np.random.Generator, batch: tuple[int, ...] = (), batch_size: int = 32
    ) -> NDArray[np.int64]:
        """Draw minibatches from mu^i (with replacement), as positions (*batch, n, batch_size)."""
        batch_size = check_integer("batch_size", batch_size, low=1)
        high = self.counts[:, None]
        return rng.integers(0, high, size=(*batch, self.n, batch_size), dtype=np.int64)

    def observe(self, indices: ArrayLike, like: Any = None) -> RegressionObservation:
        """See the agents' samples at ``indices``, shape (..., n, B), through residuals.

        Args:
            indices: as :meth:`sample` draws them.
            like: an array whose namespace, dtype and device the observation takes; NumPy float64 if
                None.

        Raises:
            InputError: if the indices are not whole numbers in [0, N_i), or of another shape.
        """
        index = np.asarray(indices)
        if index.dtype.kind not in "iu" or index.ndim < 2 or index.shape[-2] != self.n:
            raise InputError(
                f"`indices` must be whole numbers of shape (..., {self.n}, B); "
                f"found {index.dtype} {index.shape}"
            )
        bad = (index < 0) | (index >= self.counts[:, None])
        if bad.any():
            agent = int(np.argwhere(bad)[0][-2])
            raise InputError(
                f"`indices` of agent {agent} must lie in [0, {self.counts[agent]}); "
                f"found {int(index[bad][0])}"
            )
        position = index + self._offsets[:, None]
        gathered = {name: rows.take(position, axis=0) for name, rows in self._rows.items()}
        ratio = gathered.pop("density_ratio", None)
        if ratio is not None and index.shape[-1] == 1:
            gathered["rho"] = np.ascontiguousarray(np.swapaxes(ratio[..., 0, :], -1, -2))
        if like is not None:
            xp = array_namespace(like)
            device = getattr(like, "device", None)
            gathered = {
                name: xp.asarray(value, dtype=like.dtype, device=device)
                for name, value in gathered.items()
            }
        return RegressionObservation(**gathered, ridge=self.ridge)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])

    @cached_property
    def _rows(self) -> dict[str, Array]:
        """All agents' samples below each other, by name."""
        names = ("features", "targets", "objective", "density_ratio")
        values = {name: getattr(self, name) for name in names}
        return {name: np.concatenate(rows) for name, rows in values.items() if rows is not None}

    def _psi(self) -> Sequence[Array]:
        psi: Sequence[Array] = _check_objective(self.objective)
        return psi


class SquaredLoss:
    """Mean squared error of phi'x^i against y^i on each agent's (held-out) samples.

    The factor R of a QR decomposition of the rows (phi', y) gives the mean of (phi'x - y)^2 as
    |R (x, -1)|^2, in O(d^2) however many samples there are: never negative, and without the
    cancellation of the expanded square.

    Args:
        features: one array (N_i, d) per agent.
        targets: one array (N_i,) per agent.
        weights: non-negative weights of the samples, one array (N_i,) per agent with a positive
            sum, or None.

    >>> import numpy as np
    >>> loss = SquaredLoss([np.array([[1.0], [1.0]])], [np.array([0.0, 2.0])])
    >>> float(loss(np.array([[1.0]]))[0])
    1.0
    """

    def __init__(
        self,
        features: Sequence[ArrayLike],
        targets: Sequence[ArrayLike],
        weights: Sequence[ArrayLike] | None = None,
    ) -> None:
        n = _agents("features", features)
        for name, value in (("targets", targets), ("weights", weights)):
            if value is not None and (count := _agents(name, value)) != n:
                raise InputError(f"`{name}` must hold one array per agent, {n}; found {count}")
        factors = []
        sizes: dict[str, int] = {}
        for i in range(n):
            sizes.pop("N_i", None)
            phi = real_array(f"features[{i}]", features[i], ("N_i", "d"), sizes)
            y = real_array(f"targets[{i}]", targets[i], ("N_i",), sizes)
            given = np.ones(len(y)) if weights is None else weights[i]
            w = real_array(f"weights[{i}]", given, ("N_i",), sizes)
            if (w < 0).any() or w.sum() <= 0:
                raise InputError(
                    f"`weights[{i}]` must be non-negative with a positive sum; "
                    f"found least {w.min():.6g}, sum {w.sum():.6g}"
                )
            rows = np.sqrt(w / w.sum())[:, None] * np.column_stack([phi, y])
            factor = np.zeros((phi.shape[1] + 1,) * 2)
            upper = np.linalg.qr(rows, mode="r")
            factor[: len(upper)] = upper
            factors.append(factor)
        self._factors = np.stack(factors)

    def __call__(self, x: ArrayLike) -> Array:
        """The mean squared error of every agent at x, shape (..., n, d) -> (..., n)."""
        points = np.asarray(x, dtype=np.float64)
        n, d = self._factors.shape[0], self._factors.shape[1] - 1
        if points.ndim < 2 or points.shape[-2:] != (n, d):
            raise InputError(f"`x` must have shape (..., {n}, {d}); found {points.shape}")
        left, right = self._factors[..., :-1], self._factors[..., -1]
        gap = (left @ points[..., None])[..., 0] - right
        value: Array = (gap * gap).sum(-1)
        return value


def _check_objective(objective: Any) -> Any:
    if objective is None:
        raise InputError(
            "`objective` must be given for the central objective; found None: "
            "pass features psi that realise the targets, such as class indicators"
        )
    return objective


def _agents(name: str, value: Any) -> int:
    """The number of agents in a list of arrays."""
    if not isinstance(value, (list, tuple)) or len(value) == 0:
        kind = "an empty list" if isinstance(value, (list, tuple)) else type(value).__name__
        raise InputError(f"`{name}` must be a list of one array per agent; found {kind}")
    return len(value)


def _moments(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """E_{mu^i} of left (N_i, d) times right (N_i, ...), one per agent."""
    return np.array([a.T @ b / len(a) for a, b in zip(left, right, strict=True)])


def _regular(name: str, matrix: Array, advice: str) -> None:
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] <= SINGULAR * max(eigenvalues[-1], np.finfo(np.float64).tiny):
        raise InputError(
            f"{name} must be positive definite; "
            f"found smallest eigenvalue {eigenvalues[0]:.3g}: {advice}"
        )
