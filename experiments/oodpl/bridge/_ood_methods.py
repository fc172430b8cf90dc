"""The policy of every method of an instance: OOD-PL's, its rivals', and those of the controls.

With T the held-out domain, :mod:`experiments.oodpl._domains` says what each of them sees, whose
list this is; all but SFT start from SFT's policy. Rivals make as many steps of Adam as told; OOD-PL
makes steps of gradient descent, as Algorithms 1 and 2 say. "MLE, fitted beta" takes that one of
five beta around ``beta`` which fits the training pairs best after Algorithm 2's steps.

With a folder, every round of Algorithm 1 is kept, and whatever else has been trained: a run that
was killed goes on from there to the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.bridge.models import Values
from experiments.oodpl.bridge._ood import CurvesConfig, RivalsConfig
from experiments.oodpl.bridge._ood_texts import Domains, DomainSetup
from linsys import InputError
from linsys.bilevel import MetaTraining, Start, meta_test

if TYPE_CHECKING:
    from lora_bridge.bilevel import TextDomain
    from lora_bridge.rivals import Steps
    from lora_bridge.runs import Adapters, Labels

#: Factors of beta that are tried for the control.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class Methods:
    """What is trained in an instance.

    Args:
        config: the set-up.
        instance: its number.
        folder: where to keep what is trained, or None.
    """

    config: CurvesConfig
    instance: int
    folder: Path | None

    @property
    def domains(self) -> Domains:
        """Those of the instance."""
        return DomainSetup(self.config).domains(self.instance)

    @cached_property
    def start(self) -> Any:
        """SFT's policy on all domains, from which the others start."""
        from lora_bridge.rivals import sft

        known, theta = self.domains.known, self.domains.models.theta()
        return self._whole("SFT", theta, lambda: sft(known, theta, self._adam(self.config.warmup)))

    def training(self, beta: float, eta: float) -> MetaTraining:
        """Algorithm 1."""
        config = self.config
        return MetaTraining(
            alpha=config.alpha,
            beta=beta,
            D=config.D,
            eta=eta,
            K=config.K,
            inner_batch=config.inner_batch,
            outer_batch=config.outer_batch,
            seed=config.derive("training", self.instance),
        )

    def tuned(self, domain: TextDomain, phi: Any, beta: float) -> Any:
        """The policy at the end of Algorithm 2."""
        config = self.config
        oracle = domain.oracle(
            beta=beta,
            inner_batch=config.inner_batch,
            seed=config.derive("test", domain.name),
        )
        made = meta_test(
            oracle, phi, self.start, alpha=config.alpha, steps=config.adapt, tolerance=0.0
        )
        return made.theta

    def _adam(self, count: int) -> Steps:
        """Steps of a rival."""
        from lora_bridge.rivals import Steps

        config, seed = self.config, self.config.derive("rival", self.instance) % 2**32
        return Steps(count=count, gamma=config.gamma, batch=config.batch, seed=seed)

    def _policy(self, theta: Any) -> Adapters:
        """A policy as adapters that can be saved; a reward's head is none of the model's."""
        policy = self.domains.models.policy
        return {"policy": (policy.bank, policy.rows(theta[None])[0])}

    def _whole(
        self, name: str, like: Any, train: Callable[[], Any], *, reward: bool = False
    ) -> Any:
        """What a training ends with, a vector like another one; it is a run of one round."""
        import torch

        from lora_bridge.runs import repeated

        def advance(_: Any, t: int) -> Any:
            return train()

        def end(vector: Any) -> dict[str, Any]:
            return {"end": vector.cpu().numpy()}

        policies = None if reward else self._policy
        trained = repeated(name, advance, like, [1], end, adapters=policies, folder=self.folder)
        return torch.from_numpy(trained["end"][0]).to(like)


@dataclass(frozen=True, eq=False)
class Compared(Methods):
    """All methods that the paper compares: Algorithms 1 and 2, SFT and the rivals.

    Args:
        config: the set-up.
    """

    config: RivalsConfig

    def learn(
        self, measure: Callable[[Any], Mapping[str, ArrayLike]], labels: Labels
    ) -> dict[str, Values]:
        """Algorithm 1: what ``measure`` says of phi after the rounds of the curve, along axis 0."""
        from lora_bridge.runs import recorded

        config = self.config
        training = self.training(config.beta, config.eta)
        oracles = training.oracles(self.domains.train)

        def adapters(state: Any) -> Adapters:
            return self._policy(self.tuned(self.domains.test, state.phi, config.beta))

        return recorded(
            "OOD-PL",
            training,
            oracles,
            training.init(Start(self.domains.models.phi(), self.start), oracles),
            config.times,
            lambda state: measure(state.phi),
            adapters=adapters,
            labels=labels,
            folder=self.folder,
            every=1,
        )

    def rivals(self) -> dict[str, Any]:
        """Policies of baselines and controls for the held-out domain."""
        from lora_bridge.rivals import dpo, hpl, reward_mle, rlhf

        config, start = self.config, self.start
        train, test, plain = self.domains.train, self.domains.test, self.domains.models.phi()
        steps, every = self._adam(config.steps), [*train, test]
        phi = self._whole("MLE", plain, lambda: reward_mle(train, plain, steps), reward=True)
        climb: dict[str, Any] = {
            "steps": self._adam(config.rollouts),
            "beta": config.beta,
            "length": max(int(d.policy.lengths.max()) for d in self.domains.known),
        }
        made: dict[str, Callable[[], Any]] = {
            "SFT": lambda: start,
            "DPO": lambda: dpo(train, start, steps, beta=config.beta),
            "PPO (TR)": lambda: rlhf(train, phi, start, **climb),
            "PPO (TR+TE)": lambda: rlhf(every, phi, start, **climb),
            "HPL": lambda: hpl(every, start, steps),
            "HPL (TR)": lambda: hpl(train, start, steps),
            "MLE + (10)": lambda: self.tuned(test, phi, config.beta),
            "MLE, fitted beta": lambda: self.tuned(test, phi, self._fitted_beta(phi)),
        }
        return {name: self._whole(name, start, train) for name, train in made.items()}

    def _fitted_beta(self, phi: Any) -> float:
        """The beta with which Algorithm 2 and a given reward fit the training pairs best."""

        def loss(beta: float) -> float:
            try:
                losses = [
                    domain.oracle(beta=beta).outer_loss(self.tuned(domain, phi, beta))
                    for domain in self.domains.train
                ]
            except InputError:  # weights so large that the steps diverge
                return np.inf
            return float(np.mean(losses))

        betas = [factor * self.config.beta for factor in FACTORS]
        return min(betas, key=loss)
