"""Domains: prompts, answers, a sampling distribution and preferences.

A domain T holds what OOD-PL calls D^T and D_PL^T on finite sets: prompts x with weights, the
sampling distribution mu_hat(y|x) of its fine-tuning data, and preferences (x, y, y'), of y over y',
with weights. Expectations over both are exact sums; samples come from Philox streams. Where the
true reward is known, so are win rates.

Preferences follow Bradley and Terry on the true reward: two answers are drawn from mu_hat until
they differ, and y wins with probability sigma(r(x, y) - r(x, y')).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.bilevel.arrays import pad, sigmoid
from linsys.bilevel.policies import ExponentialPolicy
from linsys.bilevel.rewards import Reward
from linsys.validate import (
    Array,
    InputError,
    check_integer,
    distributions,
    plain,
    real_array,
    shown,
)

__all__ = [
    "Domain",
    "DomainData",
    "Preferences",
    "bradley_terry",
    "check_domains",
    "sampled_preferences",
    "uniforms",
]

Indices = NDArray[np.int64]

#: Streams of random numbers of one seed.
INNER, OUTER, TASK = 0, 1, 2


def uniforms(seed: int, stream: int, k: int, t: int, count: int, size: int) -> Array:
    """Rows t, ..., t + count - 1 of uniform numbers (count, size) of outer round k.

    Row t is a function of (seed, stream, k, t) and ``size``: rows may be asked for one by one or
    together.

    >>> together = uniforms(7, INNER, k=2, t=0, count=5, size=3)
    >>> (uniforms(7, INNER, k=2, t=4, count=1, size=3) == together[4:]).all()
    np.True_
    """
    check_integer("seed", seed, high=(1 << 128) - 1)
    row = pad(size)  # Philox makes four numbers for every count of its counter
    counter = [t * (row // 4), stream, k, 0]
    generator = np.random.Generator(np.random.Philox(key=seed, counter=counter))
    return generator.random((count, row))[:, :size]


class Preferences(NamedTuple):
    """Pairs of answers as index arrays (n,): y is preferred to y' at prompt x, and its weight."""

    x: Indices
    y: Indices
    y_other: Indices
    weights: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class DomainData:
    """The data of a domain, without models of a policy or a reward.

    Args:
        name: what reports call it.
        prompts: weights of the prompts, shape (X,), of sum one.
        mu_hat: the sampling distribution of answers, shape (X, Y), rows of sum one.
        preferences: (x, y, y', weights), weights of sum one; none for a domain that has
            fine-tuning data only.
        truth: the true reward, shape (X, Y), or none where it is not known.

    Raises:
        InputError: shapes that do not fit, probabilities that do not sum to one, no pairs where
            some were promised, a pair of an answer with itself.
    """

    name: str
    prompts: Array
    mu_hat: Array
    preferences: Preferences | None = None
    truth: Array | None = None

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        mu_hat = distributions("mu_hat", real_array("mu_hat", self.mu_hat, ("X", "Y"), sizes))
        object.__setattr__(self, "mu_hat", mu_hat)
        X, Y = mu_hat.shape
        weights = real_array("prompts", self.prompts, (X,))
        distributions("prompts", weights[None])
        object.__setattr__(self, "prompts", weights)
        if self.truth is not None:
            object.__setattr__(self, "truth", real_array("truth", self.truth, (X, Y)))
        if self.preferences is not None:
            checked = _preferences(self.name, self.preferences, X, Y)
            object.__setattr__(self, "preferences", checked)

    @cached_property
    def law(self) -> Array:
        """The probability of every (x, y) in the fine-tuning data, shape (X, Y)."""
        return np.asarray(self.prompts[:, None] * self.mu_hat)

    @property
    def pairs(self) -> Preferences:
        """The preferences.

        Raises:
            InputError: the domain has none.
        """
        if self.preferences is None:
            raise InputError(
                f"domain `{self.name}` must have preference pairs for the outer objective; "
                "found none"
            )
        return self.preferences

    @property
    def true_reward(self) -> Array:
        """The true reward, shape (X, Y).

        Raises:
            InputError: it is not known.
        """
        if self.truth is None:
            raise InputError(f"domain `{self.name}` must know the true reward; found none")
        return self.truth

    def draw_inner(self, seed: int, k: int, t: int, size: int) -> tuple[Indices, Indices]:
        """z_{k,t}: ``size`` samples (x, y) of the fine-tuning data, as index arrays (size,)."""
        x, y = self.draws_inner(seed, k, t, 1, size)
        return x[0], y[0]

    def draws_inner(
        self, seed: int, k: int, t: int, steps: int, size: int
    ) -> tuple[Indices, Indices]:
        """z_{k,t}, ..., z_{k,t+steps-1} at once, as index arrays (steps, size)."""
        flat = _inverse(self._inner_law, uniforms(seed, INNER, k, t, steps, size))
        x, y = np.divmod(flat, self.mu_hat.shape[1])
        return x, y

    def draw_outer(self, seed: int, k: int, size: int) -> tuple[Indices, Indices, Indices]:
        """z_k: ``size`` preferences (x, y, y'), as index arrays (size,)."""
        drawn = _inverse(self._outer_law, uniforms(seed, OUTER, k, 0, 1, size)[0])
        return self.pairs.x[drawn], self.pairs.y[drawn], self.pairs.y_other[drawn]

    @cached_property
    def _inner_law(self) -> Array:
        return np.cumsum(self.law)

    @cached_property
    def _outer_law(self) -> Array:
        return np.cumsum(self.pairs.weights)


@dataclass(frozen=True, eq=False, kw_only=True)
class Domain(DomainData):
    """One distribution of prompts, answers and preferences, with an exponential family on it.

    Args:
        policy: pi_theta on the domain's prompts and answers.
        reward: r_phi on them.

    The others are those of :class:`DomainData`.

    Raises:
        InputError: as there; a policy or a reward of other sizes.

    >>> from linsys.bilevel import LinearReward
    >>> domain = Domain(
    ...     name="books",
    ...     policy=ExponentialPolicy(psi=[[[0.0], [1.0]]], log_h=[[0.0, 0.0]]),
    ...     reward=LinearReward(xi=[[[1.0], [0.0]]]),
    ...     prompts=[1.0],
    ...     mu_hat=[[0.5, 0.5]],
    ...     preferences=([0], [1], [0], [1.0]),
    ... )
    >>> domain.law.tolist(), domain.pairs.y.tolist()
    ([[0.5, 0.5]], [1])
    """

    policy: ExponentialPolicy
    reward: Reward

    def __post_init__(self) -> None:
        X, Y = self.policy.log_h.shape
        if self.reward.xi.shape[:2] != (X, Y):
            raise InputError(
                f"`reward` must be about {X} prompts and {Y} answers, as `policy` is; "
                f"found {self.reward.xi.shape[:2]}"
            )
        real_array("mu_hat", self.mu_hat, (X, Y))
        super().__post_init__()


def _inverse(cumulative: Array, uniform: Array) -> Indices:
    """Indices whose cumulative probability first exceeds the numbers; never one of weight zero."""
    return np.asarray(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))


def check_domains(domains: Sequence[Domain]) -> None:
    """Refuse what is no list of domains, or of domains that cannot share a policy and a reward.

    >>> check_domains([])
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `domains` must hold at least one domain; found none
    """
    if isinstance(domains, Domain) or not isinstance(domains, Sequence):
        raise InputError(f"`domains` must be a list of domains; found {type(domains).__name__}")
    if not domains:
        raise InputError("`domains` must hold at least one domain; found none")
    for domain in domains:
        if not isinstance(domain, Domain):
            raise InputError(f"`domains` must hold domains; found {shown(domain)}")
    sizes = [(domain.policy.p, domain.reward.q) for domain in domains]
    for size, domain in zip(sizes, domains, strict=True):
        if size != sizes[0]:
            raise InputError(
                f"`domains` must have p = {sizes[0][0]} parameters of the policy and q = "
                f"{sizes[0][1]} of the reward; found {size} of domain `{domain.name}`"
            )


def _preferences(name: str, given: Any, X: int, Y: int) -> Preferences:
    """Index arrays within the domain and weights of sum one."""
    if not isinstance(given, Sequence) or len(given) != 4:
        raise InputError(f"`preferences` must be x, y, y_other and weights; found {shown(given)}")
    x, y, y_other = (plain(part) for part in given[:3])
    if x.size == 0:
        raise InputError(f"domain `{name}` must have preference pairs; found an empty list")
    for label, part, limit in (("x", x, X), ("y", y, Y), ("y_other", y_other, Y)):
        if part.dtype.kind not in "iu" or part.shape != (x.size,):
            raise InputError(
                f"`preferences.{label}` must be {x.size} whole numbers; found {shown(part)}"
            )
        if part.min() < 0 or part.max() >= limit:
            raise InputError(
                f"`preferences.{label}` must be between 0 and {limit - 1}; "
                f"found {part.min()} and {part.max()}"
            )
    if (y == y_other).any():
        at = int(np.argmax(y == y_other))
        raise InputError(
            f"a pair must be of two different answers; found answer {y[at]} twice in pair {at}"
        )
    weights = real_array("preferences.weights", given[3], (x.size,))
    distributions("preferences.weights", weights[None])
    x, y, y_other = (part.astype(np.int64) for part in (x, y, y_other))
    return Preferences(x, y, y_other, weights)


def bradley_terry(prompts: ArrayLike, mu_hat: ArrayLike, truth: ArrayLike) -> Preferences:
    """All pairs with their probabilities under the true reward (X, Y): the population.

    Raises:
        InputError: shapes that do not fit; a prompt whose sampling distribution has one answer.

    >>> pairs = bradley_terry([1.0], [[0.5, 0.5]], np.log([[3.0, 1.0]]))
    >>> pairs.y.tolist(), pairs.y_other.tolist(), pairs.weights.round(6).tolist()
    ([0, 1], [1, 0], [0.75, 0.25])
    """
    sizes: dict[str, int] = {}
    mu = distributions("mu_hat", real_array("mu_hat", mu_hat, ("X", "Y"), sizes))
    r = real_array("truth", truth, ("X", "Y"), sizes)
    weights = distributions("prompts", real_array("prompts", prompts, ("X",), sizes)[None])[0]
    if (mu.max(axis=1) >= 1.0).any():
        raise InputError(
            "`mu_hat` must give two answers to every prompt, for pairs of them; "
            f"found one at prompt {int(mu.max(axis=1).argmax())}"
        )
    wins = sigmoid(r[:, :, None] - r[:, None, :])
    both = mu[:, :, None] * mu[:, None, :] * (1.0 - np.eye(mu.shape[1]))
    joint = (weights / both.sum(axis=(1, 2)))[:, None, None] * 2.0 * both * wins
    x, y, y_other = np.nonzero(joint)
    chances = joint[x, y, y_other]
    return Preferences(x, y, y_other, chances / chances.sum())


def sampled_preferences(population: Preferences, size: int, seed: int) -> Preferences:
    """A data set of ``size`` pairs drawn from a population, each of weight 1 / size.

    >>> pairs = bradley_terry([1.0], [[0.5, 0.5]], [[0.0, 0.0]])
    >>> sampled_preferences(pairs, size=4, seed=0).y.shape
    (4,)
    """
    drawn = _inverse(
        np.cumsum(population.weights),
        uniforms(seed, OUTER, 0, 0, 1, check_integer("size", size, low=1))[0],
    )
    x, y, y_other = (part[drawn] for part in population[:3])
    return Preferences(x, y, y_other, np.full(size, 1.0 / size))
