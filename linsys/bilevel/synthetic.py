"""A distribution of random domains whose true rewards are known, with knobs for their shift."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsys.bilevel.domains import Domain, bradley_terry, sampled_preferences
from linsys.bilevel.policies import ExponentialPolicy
from linsys.bilevel.rewards import LinearReward, TanhReward
from linsys.validate import Array, check_choice, check_integer, check_number

__all__ = ["MetaDistribution", "meta_distribution"]


class MetaDistribution(NamedTuple):
    """Domains to train on and held-out ones, and the part of the true reward that they share."""

    train: tuple[Domain, ...]
    held_out: tuple[Domain, ...]
    phi: Array


def meta_distribution(
    seed: int,
    *,
    train: int = 4,
    held_out: int = 2,
    prompts: int = 6,
    answers: int = 5,
    p: int = 4,
    q: int = 4,
    shift: float = 0.5,
    specific: float = 0.2,
    strength: float = 2.0,
    longest: int = 1,
    pairs: int | None = None,
    reward: str = "linear",
) -> MetaDistribution:
    """Random domains for which everything is known.

    Answers have features f_T(x, y) of independent normal entries of variance one. Rewards are about
    the first q of them and policies about the first p, so that a policy with p >= q can do what a
    linear reward asks. With common f_0, own g_T, and s = ``shift``,

        f_T = sqrt(1 - s^2) f_0 + s g_T,    r_T = ((1 - c) phi + c w_T) . f_T[:q],

    where c = ``specific``, and phi and the domains' own w_T are random of norm ``strength``. The
    logits of the prompts' weights are s times a domain's own normal numbers, and those of mu_hat
    are common ones plus s times its own. Policies start from h = exp(the common logits). At s = 0
    the domains differ by their w_T alone; at c = 0 one reward is right for all of them.

    Args:
        seed: of everything; a domain depends on (seed, its number) and the sizes alone.
        train: domains to train on.
        held_out: further ones.
        prompts: X of every domain.
        answers: Y of every domain, at least two.
        p: parameters of the policy.
        q: parameters of the reward.
        shift: how far features, prompts and sampling distributions differ, in [0, 1].
        specific: the share of the true reward that is a domain's own, in [0, 1].
        strength: ||phi||, of the true reward.
        longest: lengths |y| are uniform on 1, ..., longest.
        pairs: number of sampled preferences; all of them with exact weights without it.
        reward: "linear" or "tanh" (with s = 2), what is learned; the truth is of the same kind.

    >>> domains = meta_distribution(0, train=3, held_out=1)
    >>> [domain.name for domain in domains.train + domains.held_out]
    ['domain 0', 'domain 1', 'domain 2', 'domain 3']
    """
    sizes = {"train": train, "held_out": held_out, "prompts": prompts, "p": p, "q": q}
    for label, value in sizes.items():
        check_integer(label, value, low=0 if label == "held_out" else 1)
    check_integer("answers", answers, low=2)
    check_integer("longest", longest, low=1)
    check_choice("reward", reward, ("linear", "tanh"))
    s, c = (
        check_number("shift", shift, low=0, high=1),
        check_number("specific", specific, low=0, high=1),
    )
    norm = check_number("strength", strength, low=0)
    shape = (prompts, answers)
    rng = _generator(seed, 0)
    phi = _direction(rng, q, norm)
    common, logits = rng.standard_normal((*shape, max(p, q))), rng.standard_normal(shape)

    def domain(number_: int) -> Domain:
        own = _generator(seed, number_ + 1)
        f = np.sqrt(1.0 - s**2) * common + s * own.standard_normal(common.shape)
        mu_hat = _softmax(logits + s * own.standard_normal(shape))
        weights = _softmax(s * own.standard_normal(prompts))
        model = LinearReward(f[..., :q]) if reward == "linear" else TanhReward(f[..., :q], s=2.0)
        truth = model.value((1.0 - c) * phi + c * _direction(own, q, norm))
        lengths = own.integers(1, longest, size=shape, endpoint=True)
        preferences = bradley_terry(weights, mu_hat, truth)
        if pairs is not None:
            preferences = sampled_preferences(preferences, pairs, int(own.integers(1 << 62)))
        return Domain(
            name=f"domain {number_}",
            policy=ExponentialPolicy(f[..., :p], logits, lengths.astype(float)),
            reward=model,
            prompts=weights,
            mu_hat=mu_hat,
            preferences=preferences,
            truth=truth,
        )

    made = tuple(domain(number_) for number_ in range(train + held_out))
    return MetaDistribution(made[:train], made[train:], phi)


def _generator(seed: int, number_: int) -> np.random.Generator:
    key = check_integer("seed", seed, high=(1 << 128) - 1)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, number_, 0]))


def _direction(rng: np.random.Generator, size: int, norm: float) -> Array:
    """A random vector of a given norm."""
    vector = rng.standard_normal(size)
    return np.asarray(norm * vector / np.sqrt((vector**2).sum()))


def _softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
