"""Whole runs of Algorithm 1, inner optima and policy gradients in compiled loops.

At the sizes of experiments, a few answers and parameters, a call of NumPy takes longer than what it
computes. Here a lane is an answer, see :mod:`linsys.kernels.simd`: the scores of a prompt are one
vector, and so is a feature of its answers. The numbers are those of :mod:`linsys.bilevel`, to
rounding and on the same samples, and a test holds them to each other. :mod:`linsys.bilevel` also
computes what the loops do not take: more answers than lanes, domains of several sizes or rewards,
balls, other derivatives, and every error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from experiments.oodpl import _lanes_loops as loops
from linsys.bilevel import baselines, inner, reinforcement
from linsys.bilevel.domains import Domain
from linsys.bilevel.meta import MetaTraining, Start, State
from linsys.bilevel.oracle import DomainOracle
from linsys.bilevel.rewards import LinearReward, Reward, TanhReward
from linsys.kernels.simd import LANES
from linsys.rounds import rounds
from linsys.validate import Array, InputError, check_integer, check_number

__all__ = [
    "hypergradients",
    "minima",
    "optimum",
    "policy_gradient",
    "run",
    "run_while_finite",
    "sft",
]

#: A score beside which no other counts, of lanes without an answer.
_NEVER = -1e300
#: The lower word of a seed.
_WORD = (1 << 64) - 1


def run(training: MetaTraining, domains: Sequence[Domain], start: Start) -> Array:
    """phi before and after each of the K rounds of :meth:`MetaTraining.run`, shape (K + 1, q).

    Raises:
        InputError: what :meth:`MetaTraining.round` raises.

    >>> from linsys.bilevel import meta_distribution
    >>> training = MetaTraining(alpha=0.1, beta=2.0, D=20, eta=0.5, K=5)
    >>> run(training, meta_distribution(0).train, Start(np.zeros(4), np.zeros(4))).shape
    (6, 4)
    """
    phis = run_while_finite(training, domains, start)
    if len(phis) <= training.K:  # says why
        refused = State(phis[-1], start.theta_0, len(phis) - 1)
        rest = replace(training, K=training.K - refused.t)
        more = rest.run(refused, training.oracles(domains))
        phis = np.concatenate([phis, [state.phi for state in more[1:]]])
    return phis


def run_while_finite(training: MetaTraining, domains: Sequence[Domain], start: Start) -> Array:
    """phi before and after each round of :func:`run` until one is refused, (K + 1, q) or fewer."""
    oracles = training.oracles(domains)
    first = training.init(start, oracles)
    made = None
    if training.way == "adjoint" and training.theta_radius is training.phi_radius is None:
        made = _rounds(training, domains, first, training.K, training.eta)
    if made is not None:
        return made.phis
    phis = [first.phi]
    with suppress(InputError):
        phis += (state.phi for state, _ in rounds(training, oracles, first, training.K))
    return np.array(phis)


def hypergradients(
    training: MetaTraining, domain: Domain, phi: Array, theta_0: Array, count: int = 1
) -> tuple[Array, Array]:
    """:meth:`MetaTraining.hypergradient` of rounds 0, 1, .. at one phi, shape (count, q).

    And the end of the last inner loop, theta_D, shape (p,).

    Raises:
        InputError: an inner loop that diverges.

    >>> from linsys.bilevel import meta_distribution
    >>> training = MetaTraining(alpha=0.1, beta=2.0, D=20, eta=0.5, K=5)
    >>> domain = meta_distribution(0).train[0]
    >>> slopes, theta = hypergradients(training, domain, np.zeros(4), np.zeros(4), count=3)
    >>> slopes.shape, theta.shape
    ((3, 4), (4,))
    """
    [oracle] = training.oracles([domain])
    first = training.init(Start(phi, theta_0), [oracle])
    made = None
    if training.way == "adjoint" and training.theta_radius is None:
        made = _rounds(training, [domain], first, count, 0.0)
    if made is not None and len(made.phis) > count:
        return made.slopes, made.theta
    found = [training.hypergradient(first._replace(t=t), oracle) for t in range(count)]
    return np.array([slope for slope, _ in found]), found[-1][1]


class _Rounds(NamedTuple):
    """phi of so many rounds and before them, their hypergradients, and the last theta_D."""

    phis: Array
    slopes: Array
    theta: Array


def _rounds(
    training: MetaTraining, domains: Sequence[Domain], first: State, count: int, eta: float
) -> _Rounds | None:
    """Rounds with steps of another size; None where the loops do not take these domains."""
    bound = _bound([domain.reward for domain in domains])
    if bound is None or not _serve(domains):
        return None
    policy, X, D = domains[0].policy, len(domains[0].prompts), training.D
    batch = training.inner_batch or loops.EXACT
    steps = D * (batch or X)
    pairs = [domain.pairs for domain in domains]
    phis, slopes = np.empty((count + 1, len(first.phi))), np.empty((count, len(first.phi)))
    phis[0], path = first.phi, np.empty((D + 1, policy.p))
    made = loops.rounds(
        phis,
        slopes,
        np.ascontiguousarray(first.theta_0),
        np.stack([_table(domain) for domain in domains]),
        np.stack([domain.reward.xi for domain in domains]),
        np.stack([domain.law for domain in domains]),
        np.stack([np.cumsum(domain.law) for domain in domains]),
        np.stack([domain.policy.diameters**2 / 4.0 for domain in domains]),
        np.concatenate([np.stack(one[:3], axis=1) for one in pairs]),
        np.concatenate([one.weights for one in pairs]),
        np.concatenate([np.cumsum(one.weights) for one in pairs]),
        np.cumsum([0, *(len(one.weights) for one in pairs)]),
        bound,
        float(training.beta),
        float(training.alpha),
        float(eta),
        first.t,
        np.array([training.seed & _WORD, training.seed >> 64], dtype=np.uint64),
        batch,
        training.outer_batch or loops.EXACT,
        training.every_task,
        np.eye(LANES),
        *np.zeros((4, X, LANES)),
        np.empty(X),
        path,
        np.empty((steps, LANES)),
        *np.empty((2, steps), dtype=np.int64),
        np.empty(policy.p),
        np.empty((policy.p, LANES)),
        np.empty(4),
    )
    return _Rounds(phis[: made + 1], slopes[:made], path[-1].copy())


def optimum(oracle: DomainOracle, phi: Array) -> Array:
    """:func:`linsys.bilevel.inner.optimum`, with the same errors and result.

    >>> from linsys.bilevel import meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> both = (f(oracle, np.ones(4)) for f in (optimum, inner.optimum))
    >>> bool(np.allclose(*both, rtol=1e-12))
    True
    """
    with np.errstate(over="ignore"):  # refused below
        W = oracle.domain.law * np.exp(oracle.domain.reward.value(phi) / oracle.beta)
    theta = minima([oracle.domain], W[None])
    return np.asarray(inner.optimum(oracle, phi)) if theta is None else theta[0]


def sft(domains: Sequence[Domain]) -> Array:
    """:func:`linsys.bilevel.sft` without a penalty, with the same errors and result.

    >>> from linsys.bilevel import meta_distribution
    >>> domains = meta_distribution(0).train
    >>> bool(np.allclose(sft(domains), baselines.sft(domains), rtol=1e-12))
    True
    """
    theta = None
    if _serve(domains):
        theta = minima(domains, np.concatenate([domain.law for domain in domains])[None])
    return baselines.sft(domains) if theta is None else theta[0]


def minima(domains: Sequence[Domain], W: Array) -> Array | None:
    """The minimisers (n, p) of -sum W log pi_theta for weights W (n, X, Y) of the data.

    X are the prompts of all the domains. None where the loops do not take the domains or do not
    find one of the minimisers: :func:`linsys.bilevel.optimum` does, or says why.

    >>> from linsys.bilevel import meta_distribution
    >>> domain = meta_distribution(0).train[0]
    >>> minima([domain], np.stack([domain.law, 2.0 * domain.law])).shape
    (2, 4)
    """
    if not (_serve(domains) and np.isfinite(W).all()):
        return None
    p = domains[0].policy.p
    theta = np.zeros((len(W), p))
    found = loops.minima(
        theta,
        np.concatenate([_table(domain) for domain in domains]),
        _padded(W, 0.0),
        W.sum(axis=2),
        *np.empty((4, p)),
        np.empty((p, p)),
        np.empty((p * (p + 2), LANES)),
    )
    return theta if found == len(theta) else None


def policy_gradient(
    domains: Sequence[Domain],
    phi: Array,
    reference: Array,
    *,
    beta: float,
    eta: float,
    steps: int,
) -> Array:
    """:func:`linsys.bilevel.policy_gradient`, with the same errors and result.

    >>> from linsys.bilevel import meta_distribution, sft
    >>> domains = meta_distribution(0)
    >>> options = {"beta": 1.0, "eta": 0.1, "steps": 50}
    >>> given = domains.train, domains.phi, sft(domains.train)
    >>> both = (f(*given, **options) for f in (policy_gradient, reinforcement.policy_gradient))
    >>> bool(np.allclose(*both, rtol=1e-12))
    True
    """
    if not _serve(domains):
        options: dict[str, Any] = {"beta": beta, "eta": eta, "steps": steps}
        return reinforcement.policy_gradient(domains, phi, reference, **options)
    objective = reinforcement.Objective.of(domains, phi, reference, beta)
    check_number("eta", eta, low=0.0, low_open=True)
    theta = objective.reference.copy()
    loops.climb(
        theta,
        np.stack([_table(domain) for domain in domains]),
        _padded(np.stack(objective.rewards), 0.0),
        _padded(np.stack(objective.log_references), 0.0),
        np.stack([domain.prompts for domain in domains]),
        float(beta),
        float(eta),
        check_integer("steps", steps, low=1),
        np.empty((len(theta), LANES)),
    )
    objective.check_ascent(theta, eta)
    return theta


def _serve(domains: Sequence[Domain]) -> bool:
    """Whether the compiled loops take these domains together."""
    sizes = {domain.policy.psi.shape for domain in domains}
    return len(sizes) == 1 and domains[0].law.shape[1] <= LANES


def _bound(rewards: Sequence[Reward]) -> float | None:
    """The s of all the rewards, infinite of linear ones; None where they are of several kinds."""
    bounds = {
        np.inf if type(r) is LinearReward else r.s if type(r) is TanhReward else None
        for r in rewards
    }
    return bounds.pop() if len(bounds) == 1 else None


def _table(domain: Domain) -> Array:
    """log h and the features of a domain's answers over log 2, shape (X, 1 + p, LANES)."""
    policy = domain.policy
    X, Y, p = policy.psi.shape
    rows = np.zeros((X, 1 + p, LANES))
    rows[:, 0], rows[:, 0, :Y] = _NEVER, policy.log_h
    rows[:, 1:, :Y] = np.swapaxes(policy.psi, 1, 2)
    return np.asarray(rows / np.log(2.0))


def _padded(values: Array, fill: float) -> Array:
    """Values (.., Y) in lanes, shape (.., LANES)."""
    lanes = np.full((*values.shape[:-1], LANES), fill)
    lanes[..., : values.shape[-1]] = values
    return lanes
