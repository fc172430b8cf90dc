"""AffPCL, Example 6 and Appendix C.6: temporal differences, for features of any dimension.

u and v are phi'x and phi''x as random numbers, with the inner product E u v over one transition.
The chain may have any number of states, as only its stationarity is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import apply
from ratecheck import gram as g


def _features(stack: FiniteStack) -> dict[str, Any]:
    """phi'x, phi''x and A x over all transitions, times the roots of their chances."""
    size = stack.phi.shape[1]
    here, there = np.repeat(stack.phi, size, axis=1), np.tile(stack.phi, (1, size, 1))
    root = np.sqrt(stack.mu)
    x = stack.x[:, None]
    image = apply(stack.A, x)
    return {
        "u": root * (here * x).sum(axis=-1)[:, None],
        "v": root * (there * x).sum(axis=-1)[:, None],
        "image": root[..., None] * image[:, None],
        "gamma": stack.gamma[:, None],
    }


def _stationary(p: g.Problem) -> tuple[Any, ...]:
    u, v = p.vectors("u v", "transitions")
    gamma = p.parameter("gamma")
    p.equal(u.squared, v.squared, "pi is stationary")
    p.assume(gamma <= 1, "gamma <= 1")
    return u, v, gamma


@g.theorem("affpcl.c6_moment", at=_features)
def c6_moment(p: g.Problem) -> None:
    """E||A x||^2 <= (1 + gamma) <x, Abar x>, where ||phi|| <= 1."""
    u, v, gamma = _stationary(p)
    image = p.vector("image", "R^d")
    p.assume(image.squared <= (u - gamma * v).squared, "||phi|| <= 1")
    p.show(image.squared <= (1 + gamma) * (u @ (u - gamma * v)))


def _forms(stack: FiniteStack) -> dict[str, Any]:
    every = _features(stack)
    return {name: every[name] for name in ("u", "v", "gamma")}


@g.theorem("affpcl.ex6_mean", at=_forms)
def ex6_mean(p: g.Problem) -> None:
    """<x, Abar x> >= (1 - gamma) E (phi'x)^2."""
    u, v, gamma = _stationary(p)
    p.show((1 - gamma) * u.squared <= u @ (u - gamma * v))
