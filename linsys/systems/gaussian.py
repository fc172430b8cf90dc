"""The paper's synthetic system: Gaussian environments, multiplicative noise (Appendix B)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from linsys.oracle import sized
from linsys.systems.linear import LinearSystem
from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["GaussianObservation", "GaussianSystem", "sample_gaussian_system"]


@dataclass(frozen=True, eq=False)
class GaussianSystem(LinearSystem):
    """Agents with states s ~ N(m_i, I) and multiplicative noise along s.

    A(s) = (I + eps_A s s') A_base, Phi(s) = (I + eps_b s s') Phi_base, b^i(s) = Phi(s) theta_*^i.

    Since E[s s'] = I + m_i m_i', every mean and every solution has a closed form.

    Args:
        means: m_i, shape (n, d).
        theta: objective weights theta_*^i, shape (n, d).
        A_base: shape (d, d).
        Phi_base: shape (d, d).
        eps_A: noise level of A(s), at least 0; the paper's synthetic figures use 1.
        eps_b: noise level of Phi(s), at least 0; the paper's synthetic figures use 0.5.

    Raises:
        InputError: wrong shapes, NaN, or a mean matrix whose symmetric part is not positive
            definite.

    >>> import numpy as np
    >>> system = GaussianSystem(np.zeros((3, 2)), np.ones((3, 2)), np.eye(2), np.eye(2))
    >>> system.x_star[0]  # (1 + eps_b) / (1 + eps_A)
    array([0.75, 0.75])
    """

    means: Array
    theta: Array
    A_base: Array
    Phi_base: Array
    eps_A: float = 1.0
    eps_b: float = 0.5

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        store = object.__setattr__
        store(self, "means", real_array("means", self.means, ("n", "d"), sizes))
        store(self, "theta", real_array("theta", self.theta, ("n", "d"), sizes))
        store(self, "A_base", real_array("A_base", self.A_base, ("d", "d"), sizes))
        store(self, "Phi_base", real_array("Phi_base", self.Phi_base, ("d", "d"), sizes))
        store(self, "eps_A", check_number("eps_A", self.eps_A, low=0.0))
        store(self, "eps_b", check_number("eps_b", self.eps_b, low=0.0))
        self._check_monotone()

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.means.shape[0])

    @property
    def d(self) -> int:
        """Dimension of states and of decision variables."""
        return int(self.means.shape[1])

    @cached_property
    def state_second_moment(self) -> Array:
        """E_{mu^i}[s s'] = I + m_i m_i', shape (n, d, d)."""
        with np.errstate(over="ignore"):  # what overflows is refused where it is used
            return np.eye(self.d) + self.means[:, :, None] * self.means[:, None, :]

    @cached_property
    def A_bar(self) -> Array:
        """Abar^i = (I + eps_A (I + m_i m_i')) A_base, shape (n, d, d)."""
        return self._multiplied(self.eps_A, self.A_base)

    @cached_property
    def Phi_bar(self) -> Array:
        """Phibar^i = (I + eps_b (I + m_i m_i')) Phi_base, shape (n, d, d)."""
        return self._multiplied(self.eps_b, self.Phi_base)

    def _multiplied(self, eps: float, base: Array) -> Array:
        """(I + eps (I + m_i m_i')) B, shape (n, d, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.eye(self.d) + eps * self.state_second_moment) @ base

    @cached_property
    def b_bar(self) -> Array:
        """bbar^i = Phibar^i theta_*^i, shape (n, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (self.Phi_bar @ self.theta[..., None])[..., 0]

    def sample(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> Array:
        """Draw s^i ~ N(m_i, I) for every agent: shape (*batch, n, d)."""
        return self.means + rng.standard_normal((*batch, self.n, self.d))

    def observe(self, states: Any) -> GaussianObservation:
        """See the samples ``states``, (..., n, d) of any array namespace, through residuals."""
        shape = tuple(getattr(states, "shape", ()))
        if shape[-2:] != (self.n, self.d):
            raise InputError(
                f"`states` must be an array of shape (..., {self.n}, {self.d}); found "
                + (str(shape) if hasattr(states, "shape") else type(states).__name__)
            )
        xp = array_namespace(states)
        device = getattr(states, "device", None)
        constants = {
            name: xp.asarray(getattr(self, name).copy(), dtype=states.dtype, device=device)
            for name in ("means", "theta", "A_base", "Phi_base")
        }
        return GaussianObservation(states, eps_A=self.eps_A, eps_b=self.eps_b, **constants)


@dataclass(frozen=True)
class GaussianObservation:
    """Samples of a :class:`GaussianSystem`: with y = A_base x, A(s) x = y + eps_A s (s'y)."""

    states: Any
    means: Any
    theta: Any
    A_base: Any
    Phi_base: Any
    eps_A: float
    eps_b: float

    def _multiplicative(self, y: Any, eps: float) -> Any:
        """(I + eps s s') y for every agent."""
        return y + eps * self.states * (self.states * y).sum(-1)[..., None]

    def residual(self, x: Any) -> Any:
        """A(s^i) x^i - b^i(s^i), shape (..., n, d)."""
        return self.central_residual(x, self.theta)

    def central_residual(self, x: Any, theta: Any) -> Any:
        """A(s^i) x^i - Phi(s^i) theta^i, shape (..., n, d)."""
        d = self.states.shape[-1]
        along_A = self._multiplicative(sized("x", x, d) @ self.A_base.T, self.eps_A)
        return along_A - self._multiplicative(
            sized("theta", theta, d) @ self.Phi_base.T, self.eps_b
        )

    def objective_residual(self, theta: Any) -> Any:
        """Phi(s^i) theta^i - b^i(s^i), shape (..., n, d)."""
        gap = sized("theta", theta, self.states.shape[-1]) - self.theta
        return self._multiplicative(gap @ self.Phi_base.T, self.eps_b)

    def density_ratio(self) -> Any:
        """rho^i(s^j), shape (..., n, n).

        log mu^k(s^j) / mu^j(s^j) is at most 0 for k = j, so the mean over k is at least 1/n and
        never vanishes; it exceeds 700, where exp overflows, with probability below e^-700.
        """
        xp = array_namespace(self.states)
        # seen from the mean of the means: what all positions have in common would cost digits
        centre = self.means.sum(0) / self.means.shape[0]
        means, states = self.means - centre, self.states - centre
        half_squares = (means * means).sum(-1) / 2
        log_mu = means @ xp.matrix_transpose(states) - half_squares[:, None]
        own = xp.linalg.diagonal(log_mu)
        likelihood = xp.exp(log_mu - own[..., None, :])
        return likelihood * (likelihood.shape[-2] / likelihood.sum(-2)[..., None, :])


def sample_gaussian_system(
    rng: np.random.Generator | int,
    *,
    n: int = 20,
    d: int = 5,
    delta_env: float = 0.0,
    delta_obj: float = 0.0,
    eps_A: float = 1.0,
    eps_b: float = 0.5,
    mean_scale: float = 4.0,
    normalise_theta: bool = True,
    anchor_first: bool = True,
) -> GaussianSystem:
    """Draw an instance of the paper's synthetic family (Appendix B).

    m_i = delta_env C_A v_i and theta_*^i = theta_base + delta_obj u_i with random unit vectors v_i,
    u_i; A_base = U'U + d I with U uniform, Phi_base = N'N + d I with N normal.  ``delta_env`` and
    ``delta_obj`` are the paper's labels, not total-variation or objective distances:
    :mod:`linsys.heterogeneity` computes those. The same seed gives the same bases and directions
    for every level, and the first agents are the same for every n.

    Args:
        rng: generator or seed.
        n: number of agents.
        d: dimension.
        delta_env: label of environment heterogeneity, at least 0.
        delta_obj: label of objective heterogeneity, at least 0.
        eps_A: see :class:`GaussianSystem`.
        eps_b: see :class:`GaussianSystem`.
        mean_scale: C_A.
        normalise_theta: whether theta_base is scaled to length one.  The text draws theta_base ~
            N(0, I); with length one, delta_obj is relative to the size of the objective.
        anchor_first: whether agent 1 sits at m_1 = 0, theta_*^1 = theta_base, closest to the
            centre.

    >>> system = sample_gaussian_system(0, n=4, d=3, delta_env=0.2, delta_obj=0.2)
    >>> system.means.shape, bool((system.means[0] == 0).all())
    ((4, 3), True)
    """
    if not isinstance(rng, np.random.Generator):
        rng = np.random.default_rng(check_integer("rng", rng))
    n, d = check_integer("n", n, low=1), check_integer("d", d, low=1)
    delta_env = check_number("delta_env", delta_env, low=0.0)
    delta_obj = check_number("delta_obj", delta_obj, low=0.0)
    mean_scale = check_number("mean_scale", mean_scale, low=0.0)
    uniform = rng.random((d, d))
    normal = rng.standard_normal((d, d))
    theta_base = rng.standard_normal(d)
    if normalise_theta:
        theta_base /= np.linalg.norm(theta_base)
    directions = rng.standard_normal((n, 2, d))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    if anchor_first:
        directions[0] = 0.0
    return GaussianSystem(
        means=delta_env * mean_scale * directions[:, 0],
        theta=theta_base + delta_obj * directions[:, 1],
        A_base=uniform.T @ uniform + d * np.eye(d),
        Phi_base=normal.T @ normal + d * np.eye(d),
        eps_A=eps_A,
        eps_b=eps_b,
    )
