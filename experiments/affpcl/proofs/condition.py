"""AffPCL, Lemma D.2, Examples 6 and 7 and Appendix C.6: mean matrices, their norms and nu.

An operator norm is that of the image of one unit vector; the random matrix A(s) makes a random
vector of it, with the inner product E<., .>.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.affpcl.proofs.affinities import over_states
from experiments.affpcl.theory import affinity, bellman
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, apply, inverse, lambda_min, norm, stretch, transpose
from ratecheck import gram as g

#: A matrix is squared so often that its second eigenvalue is nothing beside its first one.
_SQUARED = 40


def longest(matrices: Numbers) -> Numbers:
    """A unit vector whose image is the longest, of each matrix (..., p, d), (..., d).

    A power of M'M has the eigenvector in its columns; an eigenvalue that is nearly the largest one
    has vectors that are nearly as good.

    >>> longest(np.array([[[3.0, 0.0], [0.0, 2.0]]])).tolist()
    [[1.0, 0.0]]
    """
    power = transpose(matrices) @ matrices
    for _ in range(_SQUARED):
        size = np.trace(power, axis1=-2, axis2=-1)[..., None, None]
        power = power / np.where(size > 0, size, 1 + size)
        power = power @ power
    column = np.argmax(np.diagonal(power, axis1=-2, axis2=-1), axis=-1)
    vector = np.take_along_axis(power, column[..., None, None], axis=-1)[..., 0]
    first = np.arange(vector.shape[-1]) == 0
    vector = np.where((norm(vector) > 0)[..., None], vector, first + 0 * vector)
    return np.asarray(vector / norm(vector)[..., None])


def lowest(matrices: Numbers) -> Numbers:
    """A unit vector x with the least x'Mx, of each matrix (..., d, d), (..., d).

    >>> lowest(np.array([[[3.0, 0.0], [0.0, 2.0]]])).tolist()
    [[0.0, 1.0]]
    """
    both = matrices + transpose(matrices)
    most = np.sqrt((both * both).sum(axis=(-2, -1)))[..., None, None]
    return longest(most * np.eye(both.shape[-1], dtype=int) - both)


def random_image(stack: FiniteStack, vectors: Numbers) -> Numbers:
    """A(s) v^i under mu^i, times the roots of the chances, (B, n, S d) for v (B, n, d)."""
    image = apply(stack.A[:, None], vectors[:, :, None])
    return over_states(stack.mu, image)


# Appendix C.6 and Examples 6 and 7.


def _least(stack: FiniteStack) -> dict[str, Any]:
    """phi'x and phi''x over the transitions, x the vector of lambda^i."""
    size = stack.phi.shape[1]
    here, there = np.repeat(stack.phi, size, axis=1), np.tile(stack.phi, (1, size, 1))
    x, root = lowest(stack.A_bar), np.sqrt(stack.mu)
    return {
        "u": root * (here[:, None] * x[:, :, None]).sum(axis=-1),
        "v": root * (there[:, None] * x[:, :, None]).sum(axis=-1),
        "gamma": stack.gamma[:, None],
        "lam": stack.lambda_agent,
        "w": np.maximum(lambda_min(stack.Phi_bar), 0),
    }


def _of_nu(stack: FiniteStack, K: Numbers) -> dict[str, Any]:
    """x, Abar x and Dbar x where ||Dbar x|| is nu ||Abar x||, and A(s) x."""
    D_bar = stack.mean(stretch(stack.A))
    image = longest(D_bar @ inverse(stack.A_bar))
    x = apply(inverse(stack.A_bar), image)
    return {
        "x": x,
        "image": image,
        "mean": apply(D_bar, x),
        "each": random_image(stack, x),
        "lam": stack.lambda_agent,
        "K": K,
    }


@g.theorem("affpcl.c6_lambda", at=_least)
def c6_lambda(p: g.Problem) -> None:
    """(1 - gamma) w <= x'Abar x = lambda^i for the unit vector x of lambda^i."""
    u, v = p.vectors("u v", "transitions")
    gamma, lam, w = p.parameters_named("gamma lam w")
    p.equal(u.squared, v.squared, "pi is stationary")
    p.equal(u @ (u - gamma * v), lam, "x is the vector of lambda^i")
    p.assume(w <= u.squared, "w is the least eigenvalue of E phi phi'")
    p.assume(gamma <= 1, "gamma <= 1")
    p.multiply("gamma <= 1", "w is the least eigenvalue of E phi phi'")
    p.show((1 - gamma) * w <= lam)


def _conditioned(moments: str) -> Callable[[g.Problem], None]:
    def state(p: g.Problem) -> None:
        """lambda^i nu^2 <= K by Jensen's inequality, ||Abar x|| = 1 and ||Dbar x|| = nu."""
        x, image, mean = p.vectors("x image mean")
        each = p.vector("each", "E R^d")
        lam, K = p.parameters_named("lam K")
        p.equal(image.squared, 1, "||Abar x|| = 1")
        p.assume(lam * x.squared <= x @ image, "lambda^i is the least of sym(Abar)")
        p.assume(mean.squared <= each.squared, "||E D x|| <= E ||D x||, and ||D x|| = ||A x||")
        p.assume(each.squared <= K * (x @ image), moments)
        p.show(lam * mean.squared <= K)

    return state


def _lambda(stack: FiniteStack) -> Numbers:
    return stack.lambda_agent


c6_nu_corrected = g.theorem(
    "affpcl.c6_nu_corrected",
    at=lambda stack: _of_nu(stack, bellman.moment_factor(stack)),
    power=2,
    scale=_lambda,
)(_conditioned("affpcl.c6_moment, K = 1 + gamma"))

ex6_corrected = g.theorem(
    "affpcl.ex6_corrected",
    at=lambda stack: _of_nu(stack, bellman.moment_factor_embedded(stack)),
    power=2,
    scale=_lambda,
)(_conditioned("E A'A <= K sym(Abar), K = (1 + gamma)^2/(1 - gamma)"))


def _multiplied(stack: FiniteStack) -> dict[str, Any]:
    """Dbar Abar^{-1} y of length nu, and y, A(s) Abar^{-1} y - y as random vectors."""
    known = _of_nu(stack, stack.lambda_agent)
    y = over_states(stack.mu, known["image"][:, :, None])
    return {"mean": known["mean"], "y": y, "noise": known["each"] - y, "e": stack.eps[:, None]}


def _noisy(p: g.Problem) -> tuple[Any, Any]:
    mean = p.vector("mean", "R^d")
    y, noise = p.vectors("y noise", "E R^d")
    e = p.parameter("e")
    p.equal(y.squared, 1, "||y|| = 1")
    p.equal(y @ noise, 0, "E U = 0")
    p.assume(noise.squared <= e**2, "||U(s)|| <= eps")
    p.assume(mean.squared <= (y + noise).squared, "||E D x|| <= E ||D x||, and ||D x|| = ||A x||")
    return mean, e


@g.theorem("affpcl.ex7_sharp", at=_multiplied, power=2)
def ex7_sharp(p: g.Problem) -> None:
    """nu^2 <= 1 + eps^2."""
    mean, e = _noisy(p)
    p.show(mean.squared <= 1 + e**2)


@g.theorem("affpcl.ex7", at=_multiplied, power=2)
def ex7(p: g.Problem) -> None:
    """nu^2 <= (1 + eps)^2."""
    mean, e = _noisy(p)
    p.show(mean.squared <= (1 + e) ** 2)


# Lemma D.2: the smaller of two bounds. What is chosen is a parameter, 1 or 0, and what is not.


def _near(
    stack: FiniteStack, gap: Numbers, matrices: Numbers, limits: tuple[Numbers, Numbers], level: Any
) -> dict[str, Any]:
    """v and Dbar v, M(s) v as a random vector, and which of the two bounds is the smaller one.

    Args:
        stack: B systems.
        gap: v, (B, n, d).
        matrices: M(s).
        limits: of ||M(s)|| and of ||v||.
        level: what is compared with one, without delta_cen^i.
    """
    limit, length = (value[:, None] for value in limits)
    image = apply(matrices[:, None], gap[:, :, None])
    near = level * stack.delta_cen < 1
    return {
        "v": gap,
        "mean": apply(stack.mean(stretch(matrices)), gap),
        "each": over_states(stack.mu, image),
        "limit": limit,
        "length": length,
        "sigma": stack.sigma[:, None],
        "level": level * stack.delta_cen,
        "far": np.where(near, 0 * stack.delta_cen, 1),
        "near": np.where(near, 1 + 0 * stack.delta_cen, 0),
    }


def _of_features(stack: FiniteStack, level: Numbers) -> dict[str, Any]:
    limits = stack.G_A, 2 * stack.G_x
    return _near(stack, affinity.decision_gap(stack), stack.A, limits, level)


def _of_objectives(stack: FiniteStack) -> dict[str, Any]:
    limits = 1 + 0 * stack.G_b, 2 * stack.G_b
    level = stack.nu_Phi[:, None]
    return _near(stack, affinity.objective_gap(stack), stack.Phi, limits, level)


def _smaller(p: g.Problem, twice: int, steps: str) -> None:
    """E||M v||^2 <= sigma^2 and <= ||v|| ||Dbar v|| max ||M(s)||."""
    v, mean = p.vectors("v mean")
    each = p.vector("each", "E R^d")
    limit, length, sigma, level, far, near = p.parameters_named("limit length sigma level far near")
    p.assume(each.squared <= limit * (v @ mean), "M'M <= ||M|| D", [near])
    p.assume(each.squared <= limit**2 * v.squared, "the largest ||M(s)||", [far])
    p.bounded(v, length, "the larger of both norms, twice")
    p.bounded(mean, twice * sigma * level, steps)
    p.cauchy_schwarz(v, mean, "Cauchy-Schwarz")
    p.assume(limit * length <= sigma, "what sigma is")
    p.assume(far + near >= 1, "one of both bounds is chosen")
    p.show(each.squared <= twice * sigma**2 * (far + near * level))


@g.theorem("affpcl.d2_A", at=lambda stack: _of_features(stack, stack.nu[:, None]))
def d2_A(p: g.Problem) -> None:
    """E||A v||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, the minimum as a choice."""
    _smaller(p, 2, "affpcl.d1i, and nu is ||Dbar Abar^{-1}|| or more")


@g.theorem("affpcl.d2_A_sharper", at=lambda stack: _of_features(stack, 2 * stack.nu_agent))
def d2_A_sharper(p: g.Problem) -> None:
    """E||A v||^2 <= sigma^2 min{1, 2 nu^i delta_cen^i}."""
    _smaller(p, 1, "affpcl.d1i, and nu^i is ||Dbar Abar^{-1}||, half of the level")


@g.theorem("affpcl.d2_Phi_corrected", at=_of_objectives)
def d2_Phi_corrected(p: g.Problem) -> None:
    """E||Phi v||^2 <= 2 sigma^2 min{1, nu_Phi delta_cen^i}."""
    _smaller(p, 2, "affpcl.d1e, and nu_Phi is ||Dbar Phibar^{-1}|| or more")
