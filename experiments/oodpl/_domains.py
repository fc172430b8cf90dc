"""What the figures of OOD-PL share: domains with a known truth, all methods, and exact scores.

*Domains.* Random domains whose true rewards are known, see :mod:`linsys.bilevel.synthetic`: they
differ in features, prompts and sampling distributions (``shift``) and share a part of the true
reward (all but ``specific``). Methods see ``pairs`` sampled preferences of a domain, with the noise
of Bradley and Terry; they are scored on the population: all pairs with their exact weights. All
answers have the same length. Rewards are s tanh(phi . xi / s) with s = 2, in truth as well, so that
Assumption 3 holds whatever phi is; policies are linear in the same features, and cannot express
such a reward exactly. Fine-tuning data are plenty: mu_hat is known.

*Methods*, as the paper's Section 4.1 describes them, with T the held-out domain:

=================  ==================================================================
SFT                supervised data of all domains, T as well
DPO                pairs of the training domains, from SFT's policy
PPO (TR)           reward by maximum likelihood on their pairs, RLHF on the training domains
PPO (TR+TE)        the same reward, RLHF on T as well
HPL                the preference loss itself, on pairs of the training domains *and of T*
OOD-PL             Algorithm 1 on the training domains, Algorithm 2 on T
=================  ==================================================================

HPL hence sees preferences of T, which no other method does. Baselines are solved exactly, RLHF by
exact policy gradients, Algorithm 2 by Newton's method: methods differ by their objectives and data,
and not by how long they were trained. Algorithm 1 takes stochastic steps.

*Controls*, which the paper does not have: "HPL (TR)" without the pairs of T; "MLE + (10)", the
maximum likelihood reward of PPO with Algorithm 2 on T; the same with a beta that minimises the
preference loss of the training domains ("MLE, fitted beta"). The last one matters: exp(r / beta)
has one scale, which OOD-PL's phi fits to the preferences, whatever beta is, and the rivals' beta
does not. "oracle" is RLHF on T with the true reward, "oracle, beta/10" the same with a
tenth of the penalty.

*Instances.* One instance is one draw of all domains and samples. Differences are formed within an
instance; 95 % intervals (Student) are over instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.oodpl import _lanes as lanes
from linsys.bilevel import (
    Domain,
    DomainOracle,
    LinearReward,
    MetaTraining,
    Start,
    dpo,
    hpl,
    meta_distribution,
    reward_mle,
)

__all__ = [
    "CONTROLS",
    "HPL",
    "ORACLES",
    "OURS",
    "RIVALS",
    "DomainConfig",
    "MethodsConfig",
    "columns",
]

Values = NDArray[np.float64]
Policies = dict[str, Values]

OURS = "OOD-PL"
RIVALS = ("SFT", "DPO", "PPO (TR)", "PPO (TR+TE)", "HPL")
CONTROLS = ("HPL (TR)", "MLE + (10)", "MLE, fitted beta")
ORACLES = ("oracle", "oracle, beta/10")
#: Why HPL may be ahead where the paper has it behind.
HPL = "HPL sees pairs of the held-out domain, as in the paper; here policies transfer as rewards do"


class Trained(NamedTuple):
    """What methods without Algorithm 1 learn before they see the held-out domain.

    train: the training domains. phi: the reward of maximum likelihood. beta: fitted to it.
    policies: those that need no held-out domain.
    """

    train: Sequence[Domain]
    phi: Values
    beta: float
    policies: Policies


@dataclass(frozen=True, kw_only=True)
class DomainConfig(rc.Config):
    """The set-up."""

    prompts: int = rc.param(8, low=1, doc="X of every domain.")
    answers: int = rc.param(6, low=2, doc="Y of every domain.")
    p: int = rc.param(4, low=1, doc="parameters of the policy.")
    q: int = rc.param(4, low=1, doc="parameters of the reward.")
    shift: float = rc.param(
        0.5,
        low=0.0,
        high=1.0,
        doc="how far features, prompts and sampling distributions differ, in [0, 1].",
    )
    specific: float = rc.param(
        0.2, low=0.0, high=1.0, doc="share of the true reward that is a domain's own, in [0, 1]."
    )
    strength: float = rc.param(2.0, above=0.0, doc="norm of the true reward's parameters.")
    pairs: int = rc.param(100, low=1, doc="sampled preferences of every domain.")
    alpha: float = rc.param(0.05, above=0.0, doc="size of an inner step.")
    D: int = rc.param(60, low=1, doc="inner steps of a round.")
    inner_batch: int | None = rc.param(
        4, low=1, doc="samples of an inner step; exact ones without it."
    )
    eta: float = rc.param(0.5, above=0.0, doc="size of an outer step.")
    K: int = rc.param(400, low=1, doc="outer steps, which are rounds.")
    outer_batch: int = rc.param(16, low=1, doc="pairs of an outer step.")
    instances: int = rc.param(6, low=3, doc="draws for the comparison.")

    def domains(
        self, instance: int, count: int, reward: str = "tanh", turned: bool = False
    ) -> tuple[list[Domain], list[Domain]]:
        """The domains of an instance: with sampled pairs, and the same with all pairs.

        ``turned`` gives the policy features of every domain a random orthogonal basis of its own.
        """

        def drawn(pairs: int | None) -> list[Domain]:
            names = ("prompts", "answers", "p", "q", "shift", "specific", "strength")
            sizes: dict[str, Any] = {name: getattr(self, name) for name in names}
            seed = self.derive("domains", instance)
            domains = meta_distribution(
                seed, train=count, held_out=0, pairs=pairs, reward=reward, **sizes
            )
            if not turned:
                return list(domains.train)
            return [_turned(d, self.derive("basis", instance, d.name)) for d in domains.train]

        return drawn(self.pairs), drawn(None)

    def training(self, instance: int, beta: float, eta: float) -> MetaTraining:
        """Algorithm 1 of an instance."""
        return MetaTraining(
            alpha=self.alpha,
            beta=beta,
            D=self.D,
            eta=eta,
            K=self.K,
            inner_batch=self.inner_batch,
            outer_batch=self.outer_batch,
            seed=self.derive("training", instance),
        )


@dataclass(frozen=True, kw_only=True)
class MethodsConfig(DomainConfig):
    """The set-up of a comparison with other methods."""

    beta: float = rc.param(1.0, above=0.0, doc="factor of the reward of every method.")
    climb: float = rc.param(0.5, above=0.0, doc="size of a step of RLHF.")
    steps: int = rc.param(100, low=1, doc="number of RLHF's steps.")
    ridge: float = rc.param(
        1e-3,
        above=0.0,
        doc="a penalty that keeps estimates finite where pairs can be ordered without error.",
    )

    def learn(
        self, train: Sequence[Domain], instance: int, at: Sequence[int]
    ) -> Iterator[tuple[int, Values]]:
        """Algorithm 1: the rounds asked for, increasing, and phi after each of them."""
        training = self.training(instance, self.beta, self.eta)
        phis = lanes.run(training, train, Start(np.zeros(self.q), np.zeros(self.p)))
        return ((t, phis[t]) for t in at)

    def tuned(self, domain: Domain, phi: Values, beta: float | None = None) -> Values:
        """The policy at the end of Algorithm 2."""
        beta = self.beta if beta is None else beta
        return lanes.optimum(DomainOracle(domain=domain, beta=beta), phi)

    def climbed(self, domains: Sequence[Domain], phi: Values, start: Values, beta: float) -> Values:
        """The policy at the end of RLHF."""
        return lanes.policy_gradient(
            domains, phi, start, beta=beta, eta=self.climb, steps=self.steps
        )

    def trained(self, train: Sequence[Domain]) -> Trained:
        """What baselines and controls take from the training domains."""
        phi = reward_mle(train, ridge=self.ridge)
        return Trained(
            train,
            phi,
            self.fitted_beta(train, phi),
            {
                "PPO (TR)": self.climbed(train, phi, lanes.sft(train), self.beta),
                "HPL (TR)": hpl(train, ridge=self.ridge),
            },
        )

    def rivals(self, trained: Trained, test: Domain) -> Policies:
        """Policies of the baselines, controls and oracles for a held-out domain."""
        train, phi, every = trained.train, trained.phi, [*trained.train, test]
        common, one = lanes.sft(every), np.ones(1)
        true = replace(test, reward=LinearReward(test.true_reward[..., None]))
        return {
            **trained.policies,
            "SFT": common,
            "DPO": dpo(train, common, beta=self.beta, ridge=self.ridge),
            "PPO (TR+TE)": self.climbed(every, phi, common, self.beta),
            "HPL": hpl(every, ridge=self.ridge),
            "MLE + (10)": self.tuned(test, phi),
            "MLE, fitted beta": self.tuned(test, phi, trained.beta),
            "oracle": self.climbed([true], one, common, self.beta),
            "oracle, beta/10": self.climbed([true], one, common, self.beta / 10.0),
        }

    def policies(self, train: Sequence[Domain], test: Domain, instance: int) -> Policies:
        """All policies for a held-out domain, with what Algorithm 1 has learned in the end."""
        *_, (_, phi) = self.learn(train, instance, [self.K])
        return {**self.rivals(self.trained(train), test), OURS: self.tuned(test, phi)}

    def fitted_beta(self, train: Sequence[Domain], phi: Values) -> float:
        """The beta for which Algorithm 2 with a given reward fits the training pairs best."""
        from scipy.optimize import minimize_scalar

        def loss(log_beta: float) -> float:
            oracles = [DomainOracle(domain=d, beta=float(np.exp(log_beta))) for d in train]
            return float(np.mean([o.outer_loss(lanes.optimum(o, phi)) for o in oracles]))

        around = np.log(self.beta) + np.array([-1.5, 1.5])  # a factor of 4.5 either way
        minimum = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 0.05})
        return float(np.exp(minimum.x))


def _turned(domain: Domain, seed: int) -> Domain:
    """The domain with its policy's features in another basis, for which theta must be another."""
    p = domain.policy.p
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(p, p)))[0]
    return replace(domain, policy=replace(domain.policy, psi=domain.policy.psi @ basis))


def columns(rows: Sequence[Mapping[str, Any]]) -> rc.Columns:
    """Rows of the same names as columns."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def ahead(what: str, name: str, ours: Values, theirs: Values) -> rc.Check:
    """OOD-PL against a rival: ahead, unless the rival has pairs of the held-out domain.

    The paper has OOD-PL ahead of HPL too, which sees more.
    """
    if name == "HPL":
        check = rc.mean_above(f"{what}{name} − {OURS}", "above 0", theirs, ours, HPL)
        return rc.our_own(check, paper="below 0")
    return rc.mean_above(f"{what}{OURS} − {name}", "above 0", ours, theirs)
