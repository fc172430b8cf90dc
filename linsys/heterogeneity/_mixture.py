"""Gaussian mixtures with unit covariance and equal weights: distance of a component from the whole.

With mu^i = N(m_i, I), every ratio of densities depends on s only through its projection on the
directions in which the means differ. So the integrals have dimension r = rank of the centred
means, at most min(n - 1, d).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linsys.heterogeneity._measured import Integration, MeasuredArray, from_replicates
from linsys.validate import Array

#: Half-width in standard deviations around the outermost means; the mass outside is below 1e-32.
_TAIL = 12.0
_TOLERANCE = 1e-11
#: Largest number of (sample, component, component) triples held at once: 32 MiB in float64.
_BLOCK = 1 << 22
_NEWTON_STEPS = 200


def reduced_means(means: Array) -> Array:
    """Centred means in coordinates of their span, shape (n, r), most spread direction first."""
    centred = means - means.mean(axis=0)
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    # Rounding of the centring is of the order of the means, not of their differences.
    floor = np.finfo(np.float64).eps * max(means.shape) * max(np.abs(means).max(), 1.0)
    keep = spread > floor
    return np.asarray((left * spread)[:, keep])


def normal_points(dimension: int, integration: Integration) -> Iterator[Array]:
    """One scrambled Sobol net of standard normal points (points, dimension) per scramble."""
    from scipy.special import ndtri
    from scipy.stats import qmc  # half a second to import, and only used here

    bits = 30
    log_points = integration.points.bit_length() - 1
    for scramble in range(integration.scrambles):
        rng = np.random.default_rng([integration.seed, scramble])
        net = qmc.Sobol(dimension, scramble=True, bits=bits, rng=rng).random_base2(log_points)
        # Points are multiples of 2^-bits and may be 0, where the normal quantile is infinite: take
        # cell centres.
        yield np.asarray(ndtri(net + 0.5 ** (bits + 1)))


def divergences(means: Array, integration: Integration) -> tuple[MeasuredArray, MeasuredArray]:
    """||mu^i - mu^0||_TV and chi^2(mu^i, mu^0), each of shape (n,).

    Rank 0: no difference. Rank 1: adaptive quadrature to about 1e-11. Higher: scrambled Sobol
    points.
    """
    n = len(means)
    reduced = reduced_means(means)
    rank = reduced.shape[1]
    if rank == 0:
        zero = MeasuredArray.of(np.zeros(n), method="closed form")
        return zero, zero
    if rank == 1:
        both = _by_quadrature(reduced[:, 0])
    else:
        both = from_replicates(
            np.stack([_mixture_average(reduced, z) for z in normal_points(rank, integration)])
        )
    tv, chi2 = both.value, both.error
    return (
        MeasuredArray.of(np.minimum(tv[0], 1.0), chi2[0], both.method),
        MeasuredArray.of(tv[1], chi2[1], both.method),
    )


def _by_quadrature(centres: Array) -> MeasuredArray:
    """Shape (2, n): integrals of |rho^i - 1| mu^0 / 2 and (rho^i - 1)^2 mu^0 over the line."""
    from scipy.integrate import quad_vec  # slow to import
    from scipy.special import log_softmax

    n = len(centres)

    def integrand(u: float) -> Array:
        log_mu = -0.5 * (u - centres) ** 2
        gap = n * np.exp(log_softmax(log_mu)) - 1.0
        mu0 = np.exp(log_mu).mean() / np.sqrt(2.0 * np.pi)
        return np.asarray(mu0 * np.stack([0.5 * np.abs(gap), gap * gap]))

    # Starting from the means, the points half-way and the ends of empty stretches, no bump of the
    # integrand is narrower than an interval.
    means = np.unique(centres)
    empty = np.diff(means) > 2.0 * _TAIL
    ends = np.concatenate([means[:-1][empty] + _TAIL, means[1:][empty] - _TAIL])
    knots = np.concatenate([means, 0.5 * (means[1:] + means[:-1]), ends])
    low, high = float(centres.min() - _TAIL), float(centres.max() + _TAIL)
    value, error = quad_vec(
        integrand, low, high, epsabs=_TOLERANCE, epsrel=0.0, norm="max", points=np.sort(knots)
    )
    return MeasuredArray.of(value, max(float(error), _TOLERANCE), "quadrature")


def _mixture_average(centres: Array, z: Array) -> Array:
    """The integrals of :func:`_by_quadrature`, (2, n), averaged over samples centres_j + z.

    log mu^k - log mu^j there is (c_k - c_j)'z - |c_k - c_j|^2 / 2: distances, not positions.
    """
    from scipy.special import log_softmax

    n = len(centres)
    total = np.zeros((2, n))
    half_squares = 0.5 * np.array([((centres - c) ** 2).sum(axis=-1) for c in centres])[:, None]
    for block in np.array_split(z, max(1, len(z) * n * n // _BLOCK)):
        along = block @ centres.T
        logs = along - along.T[:, :, None] - half_squares
        gap = n * np.exp(log_softmax(logs, axis=-1)) - 1.0
        total += np.stack([0.5 * np.abs(gap).sum(axis=(0, 1)), (gap * gap).sum(axis=(0, 1))])
    return total / (n * len(z))


def ratio_bounds(means: Array) -> MeasuredArray:
    """sup_s rho^i(s), shape (n,): n exp(-f) at the infimum of a convex f, by Newton's method.

    f(u) = log sum_k mu^k(u) / mu^i(u) is a log-sum-exp of affine functions. Where m_i is a corner
    of the convex hull of the means the infimum is at infinity; f then tends to it exponentially,
    one factor of e per Newton step.
    """
    # agents with one mean are one component: rounding of reduced means would tell them apart
    means, owner, counts = np.unique(means, axis=0, return_inverse=True, return_counts=True)
    reduced = reduced_means(means)
    # f has no units: with as much spread in every direction, Newton's equations drop none
    spread = np.linalg.norm(reduced, axis=0)
    infima = np.array([_infimum(reduced, np.log(counts), spread, i) for i in range(len(means))])
    infima = infima[owner.ravel()]
    value = counts.sum() * np.exp(-infima[:, 0])
    return MeasuredArray.of(value, value * infima[:, 1], "optimisation")


def _infimum(centres: Array, logs: Array, spread: Array, i: int) -> tuple[float, float]:
    """Infimum of f for component i, and the squared Newton decrement: what is left to gain.

    ``logs`` are those of how many agents a component stands for. Over u in units of 1 / ``spread``,
    shape (r,), the size of each coordinate of the centres.
    """
    from scipy.special import log_softmax, logsumexp

    slopes = (centres - centres[i]) / spread
    offsets = logs + 0.5 * ((centres[i] ** 2).sum() - (centres * centres).sum(axis=-1))
    u = centres[i] * spread
    value = float(logsumexp(slopes @ u + offsets))
    decrement = 0.0
    for _ in range(_NEWTON_STEPS):
        weights = np.exp(log_softmax(slopes @ u + offsets))
        gradient = weights @ slopes
        centred = slopes - gradient
        hessian = (weights[:, None] * centred).T @ centred
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        decrement = float(max(-gradient @ step, 0.0))
        if decrement < 1e-12:
            break
        length = 1.0
        while length > 1e-8:
            trial = float(logsumexp(slopes @ (u + length * step) + offsets))
            if trial <= value - 0.25 * length * decrement:
                break
            length *= 0.5
        else:  # rounding leaves nothing to gain along the step
            break
        u = u + length * step
        value = trial
    return value, decrement
