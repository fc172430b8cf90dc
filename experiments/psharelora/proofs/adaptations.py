"""P-ShareLoRA: what Lipschitz rewards and the triangle inequality say of adaptations."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.psharelora.theory.subspace import Adaptation, energy
from linsys.linalg import Numbers, norm
from ratecheck import gram as g


def _rewards(hat: Numbers, truth: Numbers, diamond: Numbers, psi: Numbers) -> dict[str, Any]:
    """Two differences of a reward, each a vector of R, and what the second one comes from."""
    change = psi[:, 0] - psi[:, 1]

    def reward(theta: Numbers) -> Numbers:
        return np.asarray((theta * change).sum(axis=-1, keepdims=True))

    return {
        "near": reward(hat) - reward(diamond),
        "far": reward(diamond) - reward(truth),
        "d": truth - diamond,
        "L": norm(psi).max(axis=-1),
    }


@g.theorem("psl.eq_B3_corrected", at=_rewards)
def eq_B3_corrected(p: g.Problem) -> None:
    """(B.3): |near + far|^2 <= 2 |near|^2 + 8 L1^2 ||Theta* - Theta_diamond||^2."""
    near, far = p.vectors("near far", "R")
    d = p.vector("d", "parameters")
    L = p.parameter("L")
    p.assume(far.squared <= 4 * L**2 * d.squared, "rewards are L1-Lipschitz: a difference is 2 L1")
    p.show((near + far).squared <= 2 * near.squared + 8 * L**2 * d.squared)


def _largest(users: Adaptation, init: Numbers) -> dict[str, Any]:
    """The longest adaptation, its sum with Theta_init, and the bounds of both norms."""
    count = len(init)
    flat = users.delta.reshape(count, users.delta.shape[1], -1)
    longest = np.argmax((flat**2).sum(axis=-1), axis=1)
    start = init.reshape(count, -1)
    own = flat[np.arange(count), longest]
    return {"whole": own + start, "start": start, "B": energy(users, init)[1], "n": norm(start)}


@g.theorem("psl.S_sets_ball_corrected", at=_largest, power=2)
def S_sets_ball_corrected(p: g.Problem) -> None:
    """||Theta* - Theta_init|| <= B + ||Theta_init||, squared."""
    whole, start = p.vectors("whole start", "parameters")
    B, n = p.parameter("B"), p.parameter("n")
    p.bounded(whole, B, "||Theta*||")
    p.bounded(start, n, "||Theta_init||")
    p.cauchy_schwarz(whole, -start, "Cauchy-Schwarz")
    p.show((whole - start).squared <= (B + n) ** 2)


def _all_users(users: Adaptation, init: Numbers) -> dict[str, Any]:
    """The users' matrices in one vector, times the root of 1/N, and Theta_init as often."""
    count, N = len(init), users.delta.shape[1]
    share = np.sqrt((1 + 0 * init.reshape(count, -1)[:, :1]) / N)
    own = users.delta.reshape(count, N, -1)
    start = np.repeat(init.reshape(count, 1, -1), N, axis=1)
    return {
        "whole": share * (own + start).reshape(count, -1),
        "start": share * start.reshape(count, -1),
        "B": energy(users, init)[1],
        "n": norm(init.reshape(count, -1)),
        "spectrum": users.k * users.nu + users.tail / users.users,
    }


@g.theorem("psl.remark_1", at=_all_users)
def remark_1(p: g.Problem) -> None:
    """k nu + Sigma_tail/N <= (1/N) sum ||Theta*_i - Theta_init||^2 <= (B + ||Theta_init||)^2."""
    whole, start = p.vectors("whole start", "parameters")
    B, n, spectrum = (p.parameter(name) for name in ("B", "n", "spectrum"))
    p.bounded(whole, B, "||Theta*_i|| <= B")
    p.bounded(start, n, "||Theta_init||")
    p.cauchy_schwarz(whole, -start, "Cauchy-Schwarz")
    p.assume(spectrum <= (whole - start).squared, "nu is the least of k squares of sigma, over N")
    p.show(spectrum <= (B + n) ** 2)


def _spread(users: Adaptation) -> dict[str, Any]:
    """The root of Sigma_tail/N, and B over the root of 3."""
    largest = energy(users, 0 * users.delta[:, 0])[0]
    return {
        "nu": users.nu,
        "tail": np.sqrt(users.tail / users.users),
        "third": np.sqrt(largest**2 / 3),
        "k": users.k + 0 * users.nu,
    }


@g.theorem("psl.corollary_B1_condition", at=_spread, scale=lambda users: users.k + 0 * users.nu)
def corollary_B1_condition(p: g.Problem) -> None:
    """k nu t <= t (3 b^2 - t^2) <= 2 b^3 for t^2 = Sigma_tail/N and b = B/sqrt(3)."""
    nu, tail, third, k = p.parameters_named("nu tail third k")
    p.assume(k * nu + tail**2 <= 3 * third**2, "psl.remark_1", factors=[tail])
    square = tail**2 - 2 * tail * third + third**2
    p.assume(square >= 0, "(t - b)^2 >= 0, times t + 2 b", factors=[tail, third])
    p.show(k * nu * tail <= 2 * third**3)
