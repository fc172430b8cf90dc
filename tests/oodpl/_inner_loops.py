"""One inner loop of OOD-PL in plain loops, and claims with smaller bounds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from experiments.oodpl.theory.bilevel import Policy, Reward, System, TanhReward
from experiments.oodpl.theory.inner import Inner


def inner_loop(seed: int, X: int = 2, p: int = 2, q: int = 2, smooth: bool = False) -> Inner:
    """B = 1, three answers, two steps, any sampling distribution."""
    rng = np.random.default_rng(seed)
    policy = Policy(psi=rng.normal(size=(1, X, 3, p)), log_h=rng.normal(size=(1, X, 3)))
    kind = TanhReward if smooth else Reward
    reward = kind(xi=rng.normal(size=(1, X, 3, q)), r0=rng.normal(size=(1, X, 3)))
    system = System(
        policy=policy,
        reward=reward,
        prompts=rng.dirichlet(np.ones(X), size=1),
        mu_hat=rng.dirichlet(np.ones(3), size=(1, X)),
        beta=np.array([1.7]),
    )
    phi = rng.normal(size=(1, q)) / 3
    return Inner(
        system=system,
        phi=phi,
        theta_0=rng.normal(size=(1, p)),
        theta_star=system.optimum(phi),
        alpha=np.array([0.2]),
        reach=np.ones(1),
        D=2,
    )


def one_pair(X: int = 2) -> np.ndarray:
    """All weight on the pair (x, y, y') = (0, 2, 1)."""
    pairs = np.zeros((1, X, 3, 3))
    pairs[0, 0, 2, 1] = 1.0
    return pairs


def last_iterate(run: Inner, phi: np.ndarray, z: tuple[int, ...]) -> np.ndarray:
    """theta_D for the samples z, whole numbers Y x + y, shape (p,)."""
    path = run.system.path(phi[None], run.theta_0, np.array([z]), run.alpha)
    return np.asarray(path[-1][0])


def sequences(run: Inner) -> list[tuple[float, tuple[int, ...]]]:
    """The chances and samples of all paths, in the order of the enumeration."""
    chance = run.system.chance[0].ravel()
    every = product(range(chance.size), repeat=run.D)
    return [(float(np.prod(chance[list(z)])), z) for z in every]


def differences(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Central differences by phi, a row for each of its entries."""
    steps = 1e-5 * np.eye(len(at))
    return np.stack([(function(at + h) - function(at - h)) / 2e-5 for h in steps])
