"""Random multi-objective Markov decision processes that satisfy Assumption 1 by construction.

All transitions have positive probability, so that every policy's chain is irreducible and
aperiodic, and rewards are mixtures of numbers in [0, r_max].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linsys.validate import InputError, check_integer, check_number
from mgda.momdp import MOMDP

__all__ = ["generator", "heterogeneous", "sample_momdp"]


def sample_momdp(
    rng: np.random.Generator | int,
    *,
    states: int = 5,
    actions: int = 3,
    objectives: int = 2,
    gamma: float = 0.9,
    common: float = 0.0,
) -> MOMDP:
    """Draw a process whose transitions are all possible: rows of P uniform on the simplex.

    Args:
        rng: generator or seed.
        states, actions, objectives: S, A and M.
        gamma: discount factor.
        common: r^j = (1 - common) u^j + common u^0 with rewards u uniform on [0, 1]: at one all
            objectives are the same and their gradients collinear.

    >>> sample_momdp(0, states=4).r.shape
    (4, 3, 4, 2)
    """
    rng = generator(rng)
    S, A = check_integer("states", states, low=1), check_integer("actions", actions, low=1)
    M, share = (
        check_integer("objectives", objectives, low=1),
        check_number("common", common, low=0.0, high=1.0),
    )
    P = rng.dirichlet(np.ones(S), size=(S, A))
    u = rng.random((S, A, M + 1))
    return MOMDP(
        P=P,
        r=(1.0 - share) * u[..., 1:] + share * u[..., :1],
        gamma=gamma,
        mu0=rng.dirichlet(np.ones(S)),
    )


def heterogeneous(
    momdp: MOMDP,
    rng: np.random.Generator | int,
    *,
    clients: int,
    env: float = 0.0,
    obj: float = 0.0,
) -> tuple[MOMDP, ...]:
    """Clients around one process: P_c = (1 - env) P + env P', r_c = (1 - obj) r + obj r'.

    P' has rows uniform on the simplex and r' is uniform on [0, r_max], drawn for each client; the
    same seed gives the same ones for all levels.

    >>> two = heterogeneous(sample_momdp(0), 1, clients=2, obj=0.5)
    >>> bool((two[0].P == two[1].P).all()), bool((two[0].r == two[1].r).any())
    (True, False)
    """
    if not isinstance(momdp, MOMDP):
        raise InputError(f"`momdp` must be a MOMDP; found {type(momdp).__name__}")
    rng = generator(rng)
    env, obj = (
        check_number("env", env, low=0.0, high=1.0),
        check_number("obj", obj, low=0.0, high=1.0),
    )
    S = momdp.n_states
    processes = []
    for _ in range(check_integer("clients", clients, low=1)):
        P = rng.dirichlet(np.ones(S), size=momdp.P.shape[:2])
        r = momdp.r_max * rng.random((*momdp.P.shape[:2], 1, momdp.M))
        processes.append(
            replace(momdp, P=(1.0 - env) * momdp.P + env * P, r=(1.0 - obj) * momdp.r + obj * r)
        )
    return tuple(processes)


def generator(rng: np.random.Generator | int) -> np.random.Generator:
    """The generator itself, or a new one of this seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(check_integer("rng", rng))
