"""Environment heterogeneity: distances between the mu^i and to their mixture mu^0."""

from __future__ import annotations

from numpy.typing import ArrayLike

from linsys.heterogeneity._finite import chi_square, total_variation
from linsys.heterogeneity._measured import Measured, MeasuredArray
from linsys.heterogeneity._view import System, view_of
from linsys.validate import Array, distributions, real_array

__all__ = [
    "chi2",
    "chi2_agent",
    "chi2_matrix",
    "delta_env",
    "delta_env_agent",
    "density_ratio_bound",
    "tv",
    "tv_matrix",
]


def _pair(mu: ArrayLike, reference: ArrayLike) -> tuple[Array, Array]:
    sizes: dict[str, int] = {}
    first = real_array("mu", mu, ("S",), sizes)
    second = real_array("reference", reference, ("S",), sizes)
    return distributions("mu", first[None])[0], distributions("reference", second[None])[0]


def tv(mu: ArrayLike, reference: ArrayLike) -> float:
    """Total variation ||mu - mu'||_TV = (1/2) sum_s |mu(s) - mu'(s)| of distributions (S,).

    Raises:
        InputError: shapes that differ, or an argument that is no distribution.

    >>> tv([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    first, second = _pair(mu, reference)
    return float(total_variation(first - second))


def chi2(mu: ArrayLike, reference: ArrayLike) -> float:
    """chi^2(mu, mu') = sum_s (1 - mu(s)/mu'(s))^2 mu'(s) of two distributions of shape (S,).

    Infinite where mu has mass on a state that mu' never visits. Lemma D.3 bounds it by
    max{||mu/mu'||_inf, 1} ||mu - mu'||_TV.

    Raises:
        InputError: shapes that differ, or an argument that is no distribution.

    >>> chi2([1.0, 0.0], [0.5, 0.5])
    1.0
    """
    first, second = _pair(mu, reference)
    return float(chi_square(first - second, second))


def tv_matrix(system: System) -> MeasuredArray:
    """||mu^i - mu^j||_TV for all pairs of agents, shape (n, n).

    Finite: exact. Gaussian: 2 F(|m_i - m_j| / 2) - 1 with F the standard normal distribution
        function.
    """
    return view_of(system).tv_matrix


def chi2_matrix(system: System) -> MeasuredArray:
    """chi^2(mu^i, mu^j) for all pairs of agents, shape (n, n).

    Infinite where mu^i is not dominated by mu^j. Finite: exact. Gaussian: exp(|m_i - m_j|^2) - 1.
    """
    return view_of(system).chi2_matrix


def delta_env(system: System) -> Measured:
    """Environment heterogeneity delta_env = max_ij ||mu^i - mu^j||_TV in [0, 1] (Definition 2).

    >>> from linsys import sample_gaussian_system
    >>> float(delta_env(sample_gaussian_system(0, delta_env=0.0)))
    0.0
    """
    return view_of(system).tv_matrix.max()


def delta_env_agent(system: System) -> MeasuredArray:
    """delta_env^i = ||mu^i - mu^0||_TV, shape (n,) (Lemma D.1); at most delta_env, by convexity.

    Finite: exact. Gaussian: adaptive quadrature where the means lie on a line, scrambled Sobol
        points with a standard error otherwise.
    """
    return view_of(system).mixture_divergences[0]


def chi2_agent(system: System) -> MeasuredArray:
    """chi^2(mu^i, mu^0), shape (n,), of the term sigma^2 chi^2 / n in Section 5.2.

    At most n - 1, since rho^i <= n. Computed as :func:`delta_env_agent`.
    """
    return view_of(system).mixture_divergences[1]


def density_ratio_bound(system: System) -> MeasuredArray:
    """||rho^i||_inf = sup_s mu^i(s) / mu^0(s), shape (n,), between 1 and n (Section 5.2).

    Finite: exact. Gaussian: a convex minimisation; n for an agent whose mean is a corner of the
        convex hull of all means (approached far away, where no other agent has as much mass).
    """
    return view_of(system).ratio_bound
