"""How well a policy follows the preferences of a domain: exact sums over prompts and answers.

A policy is given by its parameters theta (p,), NumPy or torch; results are numbers. A domain is a
:class:`linsys.bilevel.domains.Domain`, or other :class:`DomainData` with a policy that lists the
log-probabilities of its answers: :class:`Scored`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from linsys.bilevel.arrays import finite, sigmoid
from linsys.bilevel.domains import Domain, Preferences
from linsys.bilevel.hypergradient import implicit
from linsys.bilevel.inner import optimum
from linsys.bilevel.oracle import DomainOracle
from linsys.validate import (
    Array,
    InputError,
    check_choice,
    check_number,
    distributions,
    plain,
    real_array,
)

__all__ = [
    "MetaLoss",
    "Scored",
    "answer_law",
    "expected_reward",
    "meta_loss",
    "pl_accuracy",
    "policy_kl",
    "target",
    "win_rate",
]

#: How a judge who knows the true reward compares two answers.
JUDGES = ("bradley_terry", "better")


class AnswerPolicy(Protocol):
    """A policy on listed answers."""

    @property
    def lengths(self) -> Any:
        """|y| of every answer, shape (X, Y)."""

    def log_prob(self, theta: Any) -> Any:
        """log pi_theta(y|x), shape (X, Y); its rows need not sum to one in probability."""


class Scored(Protocol):
    """What of a domain a metric looks at."""

    @property
    def prompts(self) -> Array:
        """Weights of the prompts, shape (X,)."""

    @property
    def pairs(self) -> Preferences:
        """The preferences."""

    @property
    def true_reward(self) -> Array:
        """Shape (X, Y)."""

    @property
    def policy(self) -> AnswerPolicy:
        """pi_theta."""


def pl_accuracy(domain: Scored, theta: Any) -> float:
    """A_PL (26): the share of pairs with log pi(y|x) / |y| > log pi(y'|x) / |y'|.

    Equal scores are no success: a policy that cannot tell the answers apart has A_PL = 0, not 1/2.
    At equal lengths 1 - A_PL <= L_PL / log 2: a pair in the wrong order costs at least log 2.

    Raises:
        InputError: the domain has no pairs.

    >>> from linsys.bilevel import meta_distribution
    >>> domain = meta_distribution(0).train[0]
    >>> pl_accuracy(domain, np.zeros(4))
    0.355
    """
    x, y, y_other, weights = domain.pairs
    scores = domain.policy.log_prob(_parameters(theta)) / domain.policy.lengths
    return float(weights[scores[x, y] > scores[x, y_other]].sum())


def answer_law(domain: Scored, theta: Any, temperature: float = 1.0) -> Array:
    """Probabilities of the answers at a sampling temperature, pi^(1 / temperature), shape (X, Y).

    Among the answers that are listed: rows sum to one.

    >>> from linsys.bilevel import meta_distribution
    >>> domain = meta_distribution(0).train[0]
    >>> cold, hot = (answer_law(domain, np.zeros(4), t).max() for t in (0.25, 1.0))
    >>> bool(cold > hot)
    True
    """
    check_number("temperature", temperature, low=0.0, low_open=True)
    return _tempered(domain.policy.log_prob(_parameters(theta)), temperature)


class RewardSpread(NamedTuple):
    """Mean and standard deviation of the true reward."""

    mean: float
    std: float


def expected_reward(domain: Scored, theta: Any, temperature: float = 1.0) -> RewardSpread:
    """The true reward of a random prompt's sampled answer: its mean and standard deviation.

    Raises:
        InputError: the true reward is not known.

    >>> from linsys.bilevel import meta_distribution
    >>> expected_reward(meta_distribution(0).train[0], np.zeros(4))
    RewardSpread(mean=-0.333, std=1.553)
    """
    law = domain.prompts[:, None] * answer_law(domain, theta, temperature)
    mean = float((law * domain.true_reward).sum())
    return RewardSpread(mean, float(np.sqrt((law * (domain.true_reward - mean) ** 2).sum())))


def win_rate(
    domain: Scored, theta: Any, temperature: float = 1.0, judge: str = "bradley_terry"
) -> float:
    """How often a sampled answer beats the preferred answer of a random pair at the same prompt.

    Args:
        domain: with pairs and the true reward r.
        theta: the policy.
        temperature: of the sampling.
        judge: "bradley_terry" prefers y to y_ref with probability sigma(r(y) - r(y_ref)); "better"
            always prefers the larger reward. An answer against itself counts one half.

    Raises:
        InputError: no pairs, or no true reward.

    >>> from linsys.bilevel import meta_distribution
    >>> win_rate(meta_distribution(0).train[0], np.zeros(4))
    0.357
    """
    check_choice("judge", judge, JUDGES)
    pairs, r = domain.pairs, domain.true_reward
    gaps = r[pairs.x] - r[pairs.x, pairs.y][:, None]
    wins = sigmoid(gaps) if judge == "bradley_terry" else (np.sign(gaps) + 1.0) / 2.0
    law = answer_law(domain, theta, temperature)[pairs.x]
    return float(pairs.weights @ (law * wins).sum(axis=1))


def target(domain: Domain, phi: Any, beta: float) -> Array:
    """pi_*(y|x) = mu_hat(y|x) exp(r_phi / beta) / Z(x) of (9) and (28), shape (X, Y).

    >>> from linsys.bilevel import meta_distribution
    >>> domain = meta_distribution(0).train[0]
    >>> bool(np.allclose(target(domain, np.zeros(4), 1.0), domain.mu_hat))
    True
    """
    check_number("beta", beta, low=0.0, low_open=True)
    # the best answer may be one that is never sampled, beside which all others vanish
    r = np.where(domain.mu_hat > 0.0, domain.reward.value(_parameters(phi, "phi")), -np.inf)
    weights = domain.mu_hat * _tempered(r, beta)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def policy_kl(domain: Domain, p: Array, q: Array) -> float:
    """E_x KL(p(.|x) || q(.|x)) of two conditional distributions (X, Y).

    Raises:
        InputError: no distributions; q is zero where p is not, so that the divergence is infinite.

    >>> from linsys.bilevel import meta_distribution
    >>> domain = meta_distribution(0).train[0]
    >>> policy_kl(domain, domain.mu_hat, domain.mu_hat)
    0.0
    """
    p, q = (
        distributions(name, real_array(name, law, domain.mu_hat.shape))
        for name, law in (("p", p), ("q", q))
    )
    if ((q <= 0.0) & (p > 0.0)).any():
        x, y = (int(i) for i in np.argwhere((q <= 0.0) & (p > 0.0))[0])
        raise InputError(f"`q` must be positive where `p` is; found 0 at index ({x}, {y})")
    safe = np.where(p > 0.0, p, 1.0)
    ratio = np.where(p > 0.0, np.log(safe) - np.log(np.where(p > 0.0, q, 1.0)), 0.0)
    return float(domain.prompts @ (p * ratio).sum(axis=1))


class MetaLoss(NamedTuple):
    """L(phi) and its gradient (q,)."""

    value: float
    gradient: Any


def meta_loss(oracles: Sequence[DomainOracle], phi: Any) -> MetaLoss:
    """L(phi) of (11) and its gradient: the mean over domains at the exact inner optima.

    Raises:
        InputError: no domain, a domain without pairs, or an inner loss without a unique minimum.

    >>> from linsys.bilevel import meta_distribution
    >>> oracles = [DomainOracle(domain=d, beta=1.0) for d in meta_distribution(0).train]
    >>> round(meta_loss(oracles, np.zeros(4)).value, 3)
    0.955
    """
    if not oracles:
        raise InputError("`oracles` must hold at least one domain; found none")
    value, gradient = 0.0, 0.0 * finite("phi", phi)
    for oracle in oracles:
        theta = optimum(oracle, phi)
        value += oracle.outer_loss(theta) / len(oracles)
        gradient = gradient + implicit(oracle, phi, theta) / len(oracles)
    return MetaLoss(value, gradient)


def _parameters(theta: Any, name: str = "theta") -> Array:
    return real_array(name, theta, (plain(theta).size,))


def _tempered(logits: Array, temperature: float) -> Array:
    """Probabilities in proportion to exp(logits / temperature), of every row."""
    with np.errstate(over="ignore"):  # what is infinitely less likely than the best has no chance
        law = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
    return np.asarray(law / law.sum(axis=-1, keepdims=True))
