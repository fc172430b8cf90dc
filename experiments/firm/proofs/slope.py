"""FIRM, Lemma 1 with 2 R sqrt(M)/beta: the derivative of the weights, and the path between clients.

Vectors with an entry for each objective and coordinate are of the space R^{d M}; those of one
client's gradients count the objectives of its support alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from experiments.firm.claims.slope import slope, support
from experiments.firm.theory import simplex as at
from experiments.firm.theory.program import root, weights
from linsys.linalg import Numbers, apply, norm, squared, transpose
from ratecheck import gram as g


def _moves(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    """The derivative's parts, (B, M, d) as vectors."""
    lam, speed = weights(A, beta), slope(A, other, beta)
    mean, moved = apply(A, lam), apply(A, speed)
    on, count = support(lam), len(A)

    def each(weight: Numbers, vector: Numbers) -> Numbers:
        return np.asarray((weight[:, :, None] * vector).reshape(count, -1))

    return {
        "D": transpose(other - A).reshape(count, -1),
        "turned": each(speed, mean[:, None]),
        "carried": each(lam, moved[:, None]),
        "grads": each(on, transpose(A)),
        "means": each(on, mean[:, None]),
        "beta": beta,
        "R": R,
        "k": on.sum(axis=-1),
        "speed": norm(speed),
        "moved": norm(moved),
        "length": norm(mean),
        "size": norm(lam),
    }


def _on_support(A: Numbers, beta: Numbers, R: Numbers) -> Numbers:
    return np.asarray(support(weights(A, beta)).sum(axis=-1) * (R * beta) ** 2)


@g.theorem("firm.law_slope", at=_moves, power=2, scale=_on_support)
def law_slope(p: g.Problem) -> None:
    """beta ||y|| <= 2 R ||D||_F for the derivative y, squared, for every beta, M and d."""
    D, turned, carried, grads, means = p.vectors("D turned carried grads means", "R^{d M}")
    beta, R, k, speed, moved, length, size = p.parameters_named("beta R k speed moved length size")
    once, twice = [k * beta**2], [beta**2 * speed**2, beta * moved**2]
    p.equal(turned.squared, (speed * length) ** 2, "|y_j A lambda| for all j", once)
    p.equal(carried.squared, (size * moved) ** 2, "|lambda_j A y| for all j", once)
    p.assume(
        turned @ carried <= 0, "<A lambda, A y> = -(beta/2) lambda.y: lambda* is optimal", once
    )
    left = D @ turned + D @ carried + moved**2 + beta * speed**2 / 2
    p.equal(left, 0, "the derivative of lambda* is optimal, times y", [k * beta * R**2])
    p.assume(grads.squared <= k * R**2, "Lemma 7", twice)
    p.equal(means.squared, k * length**2, "|A lambda| for all j", twice)
    summed = k * length**2 + beta * (k * size**2 - 1) / 2
    p.equal(grads @ means, summed, "lambda* is optimal, summed over its support", twice)
    p.assume(moved**2 <= speed**2 * (grads - means).squared, "Cauchy-Schwarz: A y", [beta**2])
    p.assume(k * size**2 >= 1, "k ||lambda||^2 >= 1", [beta**3 * speed**2])
    p.show(k * (R * beta * speed) ** 2 <= 4 * k * R**4 * D.squared)


#: A path from one client's gradients to the other's is looked at in so many pieces.
_PIECES = 4


def _path(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    """How far apart the weights are, and the length of a polygon through those on the way."""
    points = [weights(A + (other - A) * k / _PIECES, beta) for k in range(_PIECES + 1)]
    pieces = [norm(second - first) for first, second in pairwise(points)]
    return {
        "apart": norm(points[-1] - points[0]),
        "way": sum(pieces[1:], pieces[0]),
        "beta": beta,
        "R": R,
        "spread": np.sqrt(squared(other - A).sum(axis=-1)),
    }


@g.theorem("firm.law_lipschitz", at=_path, scale=lambda beta: beta)
def law_lipschitz(p: g.Problem) -> None:
    """beta ||lambda* - lambda'*|| <= 2 R ||A - A'||_F, by the path between them."""
    apart, way, beta, R, spread = p.parameters_named("apart way beta R spread")
    p.assume(apart <= way, "a path is no shorter than its ends are apart")
    p.assume(beta * way <= 2 * R * spread, "firm.law_slope, along every piece of A + t (A' - A)")
    p.show(beta * apart <= 2 * R * spread)


def _gaps(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    pair = _path(A, other, beta, R)
    return {**pair, "root": root(A.shape[-1], R), "gap": at.gradient_gap(A, other)}


@g.theorem("firm.lemma1_sharper", at=_gaps, scale=lambda beta: beta)
def lemma1_sharper(p: g.Problem) -> None:
    """beta ||lambda* - lambda'*|| <= 2 R sqrt(M) gap, for every beta, M and d."""
    apart, beta, R, spread, root_of_M, gap = p.parameters_named("apart beta R spread root gap")
    p.assume(beta * apart <= 2 * R * spread, "firm.law_lipschitz")
    p.assume(spread <= root_of_M * gap, "||D||_F <= sqrt(M) max_j ||d_j||")
    p.show(beta * apart <= 2 * R * root_of_M * gap)
