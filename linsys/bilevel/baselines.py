"""Rivals of OOD-PL whose minimum is known exactly: SFT, reward models, DPO and HPL.

SFT, DPO, HPL and the maximum likelihood of a linear reward are convex in their parameters, because
log pi(y|x) - log pi(y'|x) is affine in theta; Newton's method gives their minimum exactly.

Several domains share parameters and count the same. Where a data set can be ordered without error
the minimum lies at infinity: ``ridge``, which adds ridge / 2 times the squared norm, makes it
finite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linsys.bilevel._newton import minimise
from linsys.bilevel.arrays import sigmoid
from linsys.bilevel.domains import Domain, check_domains
from linsys.bilevel.oracle import DomainOracle
from linsys.bilevel.rewards import LinearReward
from linsys.validate import Array, InputError, check_number, real_array

__all__ = ["dpo", "hpl", "reward_mle", "sft"]

#: Relative rounding of a sum of losses.
_ROUNDING = 1e-13


def sft(domains: Sequence[Domain], *, ridge: float = 0.0) -> Array:
    """Supervised fine-tuning (1): the minimiser of the mean of E -log pi_theta(y|x), shape (p,).

    It is the inner loss (10) of a reward that is zero.

    Raises:
        InputError: no domain; no minimum, or several.

    >>> from linsys.bilevel import meta_distribution
    >>> sft(meta_distribution(0).train).shape
    (4,)
    """
    check_domains(domains)
    check_number("ridge", ridge, low=0.0)
    oracles = [DomainOracle(domain=domain, beta=1.0) for domain in domains]
    phi = np.zeros(oracles[0].q)

    def evaluate(theta: Array) -> tuple[float, Array, Array]:
        terms = [
            (
                o.inner_loss(phi, theta, None),
                o.inner_grad(phi, theta, None),
                o.inner_hessian(phi, theta),
            )
            for o in oracles
        ]
        value, gradient, hessian = (sum(part) / len(terms) for part in zip(*terms, strict=True))
        return _penalised(theta, ridge, value, gradient, hessian)

    return np.asarray(minimise("the loss of SFT", evaluate, np.zeros(oracles[0].p)))


def hpl(domains: Sequence[Domain], *, ridge: float = 0.0) -> Array:
    """HPL: the policy that minimises the preference loss (7) on the pairs themselves, shape (p,).

    Raises:
        InputError: no domain, one without pairs; no minimum, or several.

    >>> from linsys.bilevel import meta_distribution
    >>> hpl(meta_distribution(0).train).shape
    (4,)
    """
    check_domains(domains)
    check_number("ridge", ridge, low=0.0)
    oracles = [DomainOracle(domain=domain, beta=1.0) for domain in domains]
    weights, contrasts = _stacked(domains, [o.contrasts for o in oracles])
    offsets = np.concatenate([o.log_h_ratios for o in oracles])
    return _logistic("the loss of HPL", weights, offsets, contrasts, ridge)


def dpo(domains: Sequence[Domain], reference: Array, *, beta: float, ridge: float = 0.0) -> Array:
    """DPO: minimise E -log sigma(beta (log pi/pi_ref (y|x) - log pi/pi_ref (y'|x))), shape (p,).

    With pi_ref = pi_reference of the same family the argument is beta (theta - reference) .
    (psi(x, y) - psi(x, y')): the minimiser is reference + w / beta with a w that depends on the
    preferences alone. ``ridge`` is on w.

    Raises:
        InputError: no domain, one without pairs, beta <= 0; no minimum, or several.

    >>> from linsys.bilevel import meta_distribution
    >>> domains = meta_distribution(0).train
    >>> reference = sft(domains)
    >>> near, far = (dpo(domains, reference, beta=beta) for beta in (2.0, 1.0))
    >>> bool(np.allclose(2 * (near - reference), far - reference))
    True
    """
    check_domains(domains)
    check_number("ridge", ridge, low=0.0)
    check_number("beta", beta, low=0.0, low_open=True)
    centre = real_array("reference", reference, (domains[0].policy.p,))
    oracles = [DomainOracle(domain=domain, beta=1.0) for domain in domains]
    weights, contrasts = _stacked(domains, [o.contrasts for o in oracles])
    moved = _logistic("the loss of DPO", weights, np.zeros(len(weights)), contrasts, ridge)
    return np.asarray(centre + moved / beta)


def reward_mle(domains: Sequence[Domain], *, ridge: float = 0.0) -> Array:
    """A reward by maximum likelihood (2) on the pairs of all domains, shape (q,).

    A linear reward by Newton's method; another by BFGS from zero, to a stationary point.

    Raises:
        InputError: no domain, one without pairs; no minimum, or several.

    >>> from linsys.bilevel import meta_distribution
    >>> shared = meta_distribution(0, specific=0.0)
    >>> bool(np.allclose(reward_mle(shared.train), shared.phi))  # the population finds the truth
    True
    """
    from scipy.optimize import minimize

    check_domains(domains)
    check_number("ridge", ridge, low=0.0)
    if all(isinstance(domain.reward, LinearReward) for domain in domains):
        features = [
            d.reward.xi[d.pairs.x, d.pairs.y] - d.reward.xi[d.pairs.x, d.pairs.y_other]
            for d in domains
        ]
        weights, contrasts = _stacked(domains, features)
        zeros = np.zeros(len(weights))
        return _logistic("the likelihood of the reward", weights, zeros, contrasts, ridge)

    def evaluate(phi: Array) -> tuple[float, Array]:
        value, gradient = ridge / 2.0 * float(phi @ phi), ridge * phi
        for domain in domains:
            x, y, y_other, weights = domain.pairs
            r, slopes = domain.reward.value(phi), domain.reward.gradient(phi)
            u, share = r[x, y] - r[x, y_other], weights / len(domains)
            value += float(share @ np.logaddexp(0.0, -u))
            wrong = share * sigmoid(-u)
            gradient = gradient - wrong @ (slopes[x, y] - slopes[x, y_other])
        return value, gradient

    start, options = np.zeros(domains[0].reward.q), {"gtol": 1e-9}
    optimum = minimize(evaluate, start, jac=True, method="BFGS", options=options)
    # rounding of the loss may end a line search at slopes of its square root
    if not np.abs(optimum.jac).max() <= 1e-6:
        raise InputError(
            "the likelihood of the reward must have a maximum; found a slope of "
            f"{np.abs(optimum.jac).max():.3g} after {optimum.nit} steps: give `ridge`"
        )
    # a maximum at infinity has small slopes too, but the loss still falls on the way there
    if evaluate(1.1 * optimum.x)[0] < optimum.fun - _ROUNDING * abs(optimum.fun):
        raise InputError(
            "the likelihood of the reward must have a maximum; found one that grows still where "
            f"||phi|| = {float(np.sqrt(optimum.x @ optimum.x)):.3g}: give `ridge`"
        )
    return np.asarray(optimum.x)


def _stacked(domains: Sequence[Domain], contrasts: Sequence[Array]) -> tuple[Array, Array]:
    """Weights and rows of the pairs of all domains, each domain of the same total weight."""
    weights = np.concatenate([domain.pairs.weights / len(domains) for domain in domains])
    return weights, np.concatenate(contrasts)


def _logistic(what: str, weights: Array, offsets: Array, rows: Array, ridge: float) -> Array:
    """The minimiser of sum_i w_i log(1 + exp(-u_i)) + ridge / 2 ||.||^2, u = offsets + rows . w."""

    def evaluate(point: Array) -> tuple[float, Array, Array]:
        u = offsets + rows @ point
        wrong = sigmoid(-u)
        hessian = rows.T @ ((weights * wrong * (1.0 - wrong))[:, None] * rows)
        value = float(weights @ np.logaddexp(0.0, -u))
        return _penalised(point, ridge, value, -(weights * wrong) @ rows, hessian)

    return np.asarray(minimise(what, evaluate, np.zeros(rows.shape[1])))


def _penalised(
    point: Array, ridge: float, value: float, gradient: Array, hessian: Array
) -> tuple[float, Array, Array]:
    norm = float(point @ point)
    return (
        value + ridge / 2.0 * norm,
        gradient + ridge * point,
        hessian + ridge * np.eye(len(point)),
    )
