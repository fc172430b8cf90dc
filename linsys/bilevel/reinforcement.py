"""RLHF on finite answer sets: policy gradients of a learned reward, exact or by PPO on samples.

The objective (3) is not concave in theta. What is found is where the steps lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linsys.bilevel.baselines import reward_mle, sft
from linsys.bilevel.domains import Domain, check_domains
from linsys.bilevel.policies import ExponentialPolicy
from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["Objective", "clipped_gradient", "policy_gradient", "ppo", "rlhf"]


def policy_gradient(
    domains: Sequence[Domain],
    phi: Array,
    reference: Array,
    *,
    beta: float,
    eta: float,
    steps: int,
) -> Array:
    """Exact gradient ascent on (3) from the reference, over theta, shape (p,).

    J = E_x [E_pi r_phi - beta KL(pi || pi_reference)], the mean over domains, with

        grad J = sum_x P(x) sum_y pi(y|x) (r - beta log(pi / pi_reference)) grad log pi(y|x).

    The paper prints the maximum over phi.

    Raises:
        InputError: no domain, beta <= 0, steps that end lower than they started.

    >>> from linsys.bilevel import meta_distribution
    >>> domains = meta_distribution(0)
    >>> theta = sft(domains.train)
    >>> policy_gradient(domains.train, domains.phi, theta, beta=1.0, eta=0.1, steps=50).shape
    (4,)
    """
    objective = Objective.of(domains, phi, reference, beta)
    check_number("eta", eta, low=0.0, low_open=True)
    theta = objective.reference
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        for _ in range(check_integer("steps", steps, low=1)):
            theta = theta + eta * objective(theta)[1]
    objective.check_ascent(theta, eta)
    return np.asarray(theta)


class Objective(NamedTuple):
    """J of :func:`policy_gradient`.

    domains: of which it is the mean. rewards: r_phi of each, shape (X, Y). log_references: log
    pi_reference of each. reference: its parameters, shape (p,). beta: the factor of the divergence.
    """

    domains: Sequence[Domain]
    rewards: Sequence[Array]
    log_references: Sequence[Array]
    reference: Array
    beta: float

    @classmethod
    def of(cls, domains: Sequence[Domain], phi: Array, reference: Array, beta: float) -> Objective:
        """The objective of these arguments of :func:`policy_gradient`, which are checked."""
        check_domains(domains)
        check_number("beta", beta, low=0.0, low_open=True)
        start = real_array("reference", reference, (domains[0].policy.p,))
        reward = real_array("phi", phi, (domains[0].reward.q,))
        rewards = [domain.reward.value(reward) for domain in domains]
        return cls(domains, rewards, [d.policy.log_prob(start) for d in domains], start, beta)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """J and its gradient (p,)."""
        value, slope = 0.0, np.zeros_like(theta)
        for domain, r, log_reference in zip(*self[:3], strict=True):
            log_pi = domain.policy.log_prob(theta)
            pi = np.exp(log_pi)
            flow = domain.prompts[:, None] * pi / len(self.domains)
            gain = r - self.beta * (log_pi - log_reference)
            value += float((flow * gain).sum())
            slope += np.tensordot(flow * gain, domain.policy.score(theta, pi=pi), axes=2)
        return value, slope

    def check_ascent(self, theta: Array, eta: float) -> None:
        """Refuse an end of steps of size eta that is lower than their start, or not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            before, after = self(self.reference)[0], self(theta)[0]
        if not after >= before:
            raise InputError(
                f"`eta` must let the objective grow; found {eta:g}, which took it from "
                f"{before:.6g} to {after:.6g}"
            )


def ppo(
    domains: Sequence[Domain],
    phi: Array,
    reference: Array,
    *,
    beta: float,
    eta: float,
    rounds: int,
    batch: int = 64,
    epochs: int = 4,
    clip: float = 0.2,
    seed: int = 0,
) -> Array:
    """PPO on the objective of :func:`policy_gradient`, from samples, shape (p,).

    In every round ``batch`` prompts and answers are drawn, y from the current policy pi_old, and
    ``epochs`` ascent steps made on the mean of min(rho A, clip(rho, 1 - clip, 1 + clip) A), with
    rho = pi(y|x) / pi_old(y|x) and A = r - beta log(pi_old / pi_reference) less its mean under
    pi_old, which is known exactly here. The gradient is that of rho A where the minimum is the
    first of them, and zero elsewhere.

    Raises:
        InputError: no domain, beta <= 0, sizes below one.

    >>> from linsys.bilevel import meta_distribution
    >>> domains = meta_distribution(0)
    >>> theta = sft(domains.train)
    >>> ppo(domains.train, domains.phi, theta, beta=1.0, eta=0.05, rounds=5).shape
    (4,)
    """
    check_domains(domains)
    for label, value in (("beta", beta), ("eta", eta), ("clip", clip)):
        check_number(label, value, low=0.0, low_open=True)
    for label, size in (("rounds", rounds), ("batch", batch), ("epochs", epochs)):
        check_integer(label, size, low=1)
    key = check_integer("seed", seed, high=(1 << 128) - 1)
    start = theta = real_array("reference", reference, (domains[0].policy.p,))
    learned = real_array("phi", phi, (domains[0].reward.q,))
    rewards = [domain.reward.value(learned) for domain in domains]
    references = [domain.policy.log_prob(start) for domain in domains]
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        for k in range(rounds):
            rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, k, 0]))
            task = int(rng.integers(len(domains)))
            policy = domains[task].policy
            x = rng.choice(len(domains[task].prompts), size=batch, p=domains[task].prompts)
            log_old = policy.log_prob(theta, x)
            gain = rewards[task][x] - beta * (log_old - references[task][x])
            law, rows = np.exp(log_old), np.arange(batch)
            y = np.minimum(
                (law.cumsum(axis=1) < rng.random((batch, 1))).sum(axis=1), law.shape[1] - 1
            )
            advantage = gain[rows, y] - (law * gain).sum(axis=1)
            for _ in range(epochs):
                slope = clipped_gradient(policy, theta, (x, y), log_old, advantage, clip)
                theta = theta + eta * slope
            if not np.isfinite(theta).all():
                raise InputError(
                    f"`eta` must keep the policy finite; found {eta:g}, overflow in round {k}"
                )
    return np.asarray(theta)


def clipped_gradient(
    policy: ExponentialPolicy,
    theta: Array,
    z: tuple[Any, Any],
    log_old: Array,
    advantage: Array,
    clip: float,
) -> Array:
    """The gradient (p,) of PPO's clipped objective at theta on samples z = (x, y), arrays (m,).

    log_old: log pi_old(.|x), shape (m, Y); advantage: A of the samples, shape (m,).
    """
    x, y = z
    rows = np.arange(len(x))
    rho = np.exp(policy.log_prob(theta, x)[rows, y] - log_old[rows, y])
    inside = np.where(advantage > 0, rho < 1.0 + clip, rho > 1.0 - clip)
    weights = np.where(inside, rho * advantage, 0.0) / len(x)
    return np.asarray(weights @ policy.score(theta, x)[rows, y])


def rlhf(
    rewarded: Sequence[Domain],
    tuned: Sequence[Domain],
    *,
    beta: float,
    eta: float,
    steps: int,
    ridge: float = 0.0,
) -> Array:
    """RLHF in full: reward (2) on some domains, SFT and exact policy gradients (3) on others.

    PPO (TR) of the experiments has the training domains for both; PPO (TR+TE) has them for the
    reward, and tunes on training and test domains.

    >>> from linsys.bilevel import meta_distribution
    >>> train, held_out, _ = meta_distribution(0)
    >>> rlhf(train, train + held_out, beta=1.0, eta=0.1, steps=50).shape
    (4,)
    """
    phi, reference = reward_mle(rewarded, ridge=ridge), sft(tuned, ridge=ridge)
    return policy_gradient(tuned, phi, reference, beta=beta, eta=eta, steps=steps)
