"""AffPCL, Lemma D.1 and Sections 1.2 and 5.1: differences of means, and residuals.

A difference of means is E over mu^i less E over mu^j; as a product of two vectors of R^states: the
signs of mu^i - mu^j times a unit vector, and what is averaged, both times roots of |mu^i - mu^j|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.proofs.affinities import over_states
from experiments.affpcl.proofs.condition import longest
from experiments.affpcl.theory import directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, apply, norm
from ratecheck import gram as g


def _apart(stack: FiniteStack, change: Numbers, level: Numbers) -> dict[str, Any]:
    """Both vectors of (mu^i - mu^j) A x, x the vector of the norm, for change (B, ..., S)."""
    rows = change.reshape(len(change), -1, change.shape[-1])
    matrices = np.einsum("brs,bsij->brij", rows, stack.A)
    x = longest(matrices)
    image = apply(matrices, x)
    length = norm(image)[..., None]
    unit = image / np.where(length > 0, length, 1 + length)
    root, sign = np.sqrt(np.abs(rows))[..., None], np.where(rows < 0, -1, 1)[..., None]
    images = apply(stack.A[:, None], x[:, :, None]) / stack.G_A[:, None, None, None]
    shape = (*change.shape[:-1], -1)
    return {
        "signs": (root * sign * unit[:, :, None]).reshape(shape),
        "images": (root * images).reshape(shape),
        "G": stack.G_A.reshape(-1, *[1] * (change.ndim - 2)),
        "level": level,
    }


def _pairs(stack: FiniteStack) -> dict[str, Any]:
    every = np.concatenate([stack.mu0[:, None], stack.mu], axis=1)
    return _apart(stack, every[:, :, None] - every[:, None], stack.delta_env[:, None, None])


def _from_average(stack: FiniteStack) -> dict[str, Any]:
    return _apart(stack, stack.mu - stack.mu0[:, None], stack.delta_env_agent)


def _total_variation(p: g.Problem, distance: str) -> None:
    """sum_s (mu^i - mu^j)(s) <y, A(s) x> <= 2 G_A TV for unit vectors x and y."""
    signs, images = p.vectors("signs images", "states")
    G, level = p.parameters_named("G level")
    p.assume(signs.squared <= 2 * level, f"{distance} is sum |mu^i - mu^j|/2 or more")
    p.assume(images.squared <= 2 * level, "the same with ||A(s) x|| <= G_A")
    p.show(G * (signs @ images) <= 2 * G * level)


@g.theorem("affpcl.d1g", at=_pairs)
def d1g(p: g.Problem) -> None:
    """<y, (Abar^i - Abar^j) x> <= 2 G_A delta_env for the vectors of the norm."""
    _total_variation(p, "delta_env")


@g.theorem("affpcl.d1h", at=_from_average)
def d1h(p: g.Problem) -> None:
    """<y, (Abar^i - Abar^0) x> <= 2 G_A delta_env^i for the vectors of the norm."""
    _total_variation(p, "delta_env^i")


def _moved(
    stack: FiniteStack, means: Numbers, centre: Numbers, own: Numbers, central: Numbers
) -> dict[str, Any]:
    """(M^0 - M^i) v and bbar^i - bbar^0: v the solution of the centre for j = i, of i for j = 0."""
    change = centre[:, None] - means
    score = stack.b_bar - stack.b_bar0[:, None]
    moved = np.stack([apply(change, central[:, None]), apply(change, own)], axis=1)
    return {
        "moved": moved,
        "score": score[:, None],
        "sigma": stack.sigma[:, None, None],
        "level": stack.delta_cen[:, None],
    }


def _half_each(p: g.Problem, moved_by: str) -> None:
    """||(M^0 - M^i) v + bbar^i - bbar^0|| <= 2 sigma delta_cen^i, squared."""
    moved, score = p.vectors("moved score")
    sigma, level = p.parameters_named("sigma level")
    p.bounded(moved, sigma * level, moved_by)
    p.bounded(score, sigma * level, "what delta_cen^i is, and 2 G_b <= sigma")
    p.cauchy_schwarz(moved, score, "Cauchy-Schwarz")
    p.show((moved + score).squared <= (2 * sigma * level) ** 2)


@g.theorem(
    "affpcl.d1e",
    at=lambda stack: _moved(
        stack, stack.Phi_bar, stack.Phi_bar0, stack.theta, stack.theta_star_central
    ),
    power=2,
)
def d1e(p: g.Problem) -> None:
    """||Phibar^j (theta^i - theta_*^c)|| <= 2 sigma delta_cen^i, squared."""
    _half_each(p, "affpcl.d1h for Phi, with ||Phi(s)|| <= 1 and 2 G_b <= sigma")


@g.theorem(
    "affpcl.d1i",
    at=lambda stack: _moved(stack, stack.A_bar, stack.A_bar0, stack.x_star, stack.x_star_central),
    power=2,
)
def d1i(p: g.Problem) -> None:
    """||Abar^j (x_*^i - x_*^c)|| <= 2 sigma delta_cen^i, squared."""
    _half_each(p, "affpcl.d1h, and 2 G_A G_x <= sigma")


def _largest(stack: FiniteStack, *parts: Numbers) -> list[Numbers]:
    """Where the sum of parts (B, agents, S, d) is the longest, over states that occur, (B, d)."""
    length = norm(sum(parts[1:], parts[0])) * stack.visited[:, None]
    at = np.argmax(length.reshape(len(length), -1), axis=1)
    rows = np.arange(len(length))
    d = stack.d
    return [np.broadcast_to(x, (*length.shape, d)).reshape(len(x), -1, d)[rows, at] for x in parts]


def _residuals(stack: FiniteStack) -> dict[str, Any]:
    """A(s) x_*^c, and b^i(s) or b^c(s), of the longest residual."""
    image = apply(stack.A, stack.x_star_central[:, None])[:, None]
    pairs = [_largest(stack, image, -b) for b in (stack.b, stack.b_central[:, None])]
    first, second = (np.stack([pair[k] for pair in pairs], axis=1) for k in range(2))
    G_b = stack.G_b[:, None]
    return {"first": first, "second": second, "a": (stack.G_A * stack.G_x)[:, None], "b": G_b}


def _scores(stack: FiniteStack) -> dict[str, Any]:
    """b^c(s) and -b^i(s) where they are the farthest apart."""
    first, second = _largest(stack, stack.b_central[:, None], -stack.b)
    return {"first": first, "second": second, "a": stack.G_b, "b": stack.G_b}


def _triangle(p: g.Problem, one: str, other: str) -> None:
    first, second = p.vectors("first second")
    a, b = p.parameters_named("a b")
    p.bounded(first, a, one)
    p.bounded(second, b, other)
    p.cauchy_schwarz(first, second, "Cauchy-Schwarz")
    p.show((first + second).squared <= (a + b) ** 2)


@g.theorem("affpcl.const_sigma_central_corrected", at=_residuals, power=2)
def const_sigma_central_corrected(p: g.Problem) -> None:
    """||A(s) x_*^c - b(s)|| <= G_A G_x + G_b for b^i and b^c, squared."""
    _triangle(p, "||A(s)|| <= G_A and ||x_*^c|| <= G_x", "||Phi(s)|| <= 1, and weights up to G_b")


@g.theorem("affpcl.sec51_bc_far_maximum", at=_scores, power=2)
def sec51_bc_far_maximum(p: g.Problem) -> None:
    """||b^c(s) - b^i(s)|| <= 2 G_b, squared."""
    _triangle(p, "||Phi(s) theta_*^c|| <= G_b", "||Phi(s) theta^i|| <= G_b")


# Ratios of densities: second moments under mu^0.


def _increase(stack: FiniteStack) -> dict[str, Any]:
    """g^{c->i} and (rho^i - 1) g^{c->i} at the central solutions."""
    mu0, excess = stack.mu0[:, None], (stack.rho - 1)[..., None]
    values = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)[:, None]
    return {
        "whole": over_states(mu0, values + 0 * excess),
        "excess": over_states(mu0, excess * values),
        "sigma": stack.sigma[:, None],
        "chi2": stack.chi2_agent,
        "level": stack.delta_env_agent,
    }


@g.theorem(
    "affpcl.sec52_chi2_extra_corrected",
    at=_increase,
    scale=lambda stack: stack.n + 0 * stack.mu[:, :, 0],
)
def sec52_chi2_extra_corrected(p: g.Problem) -> None:
    """E (rho^i)^2 ||g||^2 <= E ||g||^2 + sigma^2 (chi^2(mu^i, mu^0) + 2 delta_env^i)."""
    whole, excess = p.vectors("whole excess", "E R^d")
    sigma, chi2, level = p.parameters_named("sigma chi2 level")
    p.assume(excess.squared <= sigma**2 * chi2, "what chi^2 is, and ||g|| <= sigma")
    p.assume(whole @ excess <= sigma**2 * level, "E (rho - 1)_+ is delta_env^i, ||g|| <= sigma")
    p.show((whole + excess).squared <= whole.squared + sigma**2 * (chi2 + 2 * level))


def _weighed(stack: Any) -> dict[str, Any]:
    """One and rho^i as vectors of R^states, and rho^i g^{c->i}."""
    mu0 = stack.mu0[:, None]
    length = ((stack.central**2).sum(axis=-1) * stack.visited).max(axis=-1)
    return {
        "one": np.sqrt(mu0) + 0 * stack.rho,
        "rho": np.sqrt(mu0) * stack.rho,
        "weighed": over_states(mu0, stack.rho[..., None] * stack.central[:, None]),
        "length": np.sqrt(length)[:, None],
        "rate": stack.rate,
    }


@g.theorem("affpcl.g2_chi_sharper", at=_weighed)
def g2_chi_sharper(p: g.Problem) -> None:
    """E (rho^i)^2 ||g||^2 / n <= H_3^2 (1 + E (rho^i - 1)^2) / n, as E rho^i = 1."""
    one, rho = p.vectors("one rho", "states")
    weighed = p.vector("weighed", "E R^d")
    length, rate = p.parameters_named("length rate")
    p.equal(one.squared, 1, "E 1 = 1")
    p.equal(one @ rho, 1, "E rho^i = 1")
    p.assume(weighed.squared <= length**2 * rho.squared, "H_3 is the largest ||g||")
    p.show(rate * weighed.squared <= length**2 * rate * (1 + (rho - one).squared))


def _three_parts(stack: Any) -> dict[str, Any]:
    """rho^i times what the solutions, dx^c and dtheta^c make of g^{c->i}."""
    rho, mu0 = stack.rho[..., None], stack.mu0[:, None]
    solved = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)
    x, theta = apply(stack.A, stack.dx_c[:, None]), apply(stack.Phi, stack.dtheta[:, None])
    return {
        "solved": over_states(mu0, rho * solved[:, None]),
        "x": over_states(mu0, rho * x[:, None]),
        "theta": over_states(mu0, -rho * theta[:, None]),
        "sigma": stack.sigma[:, None],
        "level": stack.rate + stack.delta_env_agent,
        "rate": stack.rate,
        "a": np.sqrt(stack.centre_error),
        "b": np.sqrt(stack.objective_error),
    }


@g.theorem("affpcl.g2_H1_sharper", at=_three_parts)
def g2_H1_sharper(p: g.Problem) -> None:
    """H_1 <= 2 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 4 sigma^2 (1/n + delta_env^i)."""
    solved, x, theta = p.vectors("solved x theta", "E R^d")
    sigma, level, rate, a, b = p.parameters_named("sigma level rate a b")
    moment = "E (rho^i)^2 / n = (1 + chi^2)/n <= 1/n + delta_env^i by affpcl.d3"
    p.assume(rate * solved.squared <= sigma**2 * level, f"{moment}; ||g|| <= sigma")
    p.assume(rate * x.squared <= a**2, "the same, at most 1; ||A(s) dx^c|| <= G_A ||dx^c||")
    p.assume(rate * theta.squared <= b**2, "the same, at most 1; ||Phi(s)|| <= 1")
    p.show(rate * (solved + x + theta).squared <= 2 * a**2 + 4 * b**2 + 4 * sigma**2 * level)


def _halves(mu: Numbers, other: Numbers) -> dict[str, Any]:
    """Roots of both halves of mu - mu', and the same times roots of |mu/mu' - 1|."""
    ratio = mu / np.where(other == 0, 1, other)
    more, less = np.maximum(mu - other, 0 * mu), np.maximum(other - mu, 0 * mu)
    return {
        "more": np.sqrt(more),
        "less": np.sqrt(less),
        "of_more": np.sqrt(more * np.maximum(ratio - 1, 0 * ratio)),
        "of_less": np.sqrt(less * np.maximum(1 - ratio, 0 * ratio)),
        "excess": np.maximum(ratio.max(axis=-1) - 1, 0),
        "tv": more.sum(axis=-1),
    }


@g.theorem("affpcl.d3", at=_halves)
def d3(p: g.Problem) -> None:
    """sum (mu/mu' - 1)(mu - mu') <= max{||mu/mu'||_inf, 1} TV."""
    more, less, of_more, of_less = p.vectors("more less of_more of_less", "states")
    excess, tv = p.parameters_named("excess tv")
    p.equal(more.squared, tv, "the positive part of mu - mu'")
    p.equal(less.squared, tv, "the negative part")
    p.assume(of_more.squared <= excess * more.squared, "mu/mu' <= 1 + excess")
    p.assume(of_less.squared <= less.squared, "mu/mu' >= 0")
    p.show(of_more.squared + of_less.squared <= (1 + excess) * tv)
