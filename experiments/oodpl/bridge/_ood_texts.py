"""The domains of an instance as texts, and the model with two adapters that is trained on them.

*Model.* A folder of the user's, or the built-in byte-level model in a small size. Policy and reward
are adapters of it, the reward with a score head on top: see :mod:`lora_bridge.bilevel`. Attention
is eager, as second derivatives need.

*Domains.* Without a file: generated ones, whose true rewards are known, see
:func:`lora_bridge.domains.generated_answers`. With a file of questions with choices, or of
preference pairs, whose records name their ``domain``: the right or chosen answer is preferred.
Methods see ``pairs`` noisy preferences of generated domains; all are scored on other prompts of a
domain than they saw.

*Instances.* One is one draw of domains, preferences, minibatches and adapters' first numbers; it
holds out one domain, the next instance the next. Differences are formed within an instance, 95 %
intervals (Student) are over instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from experiments.bridge.setup import SMALL, Setup, kept
from experiments.oodpl.bridge._ood import OODConfig
from linsys import InputError
from linsys.validate import check_integer

if TYPE_CHECKING:
    from lora_bridge.bilevel import TextDomain
    from lora_bridge.policy_reward import Models


@dataclass(frozen=True, eq=False)
class Domains:
    """The domains of an instance.

    Attributes:
        known: with the prompts and pairs that methods see.
        judges: the same domains with the prompts that methods are scored on.
        held: number of the held-out domain.
        name: of model and data.
    """

    known: Sequence[TextDomain]
    judges: Sequence[TextDomain]
    held: int
    name: str

    @property
    def models(self) -> Models:
        """Policy and reward."""
        return self.known[0].models

    @property
    def train(self) -> list[TextDomain]:
        """The training domains."""
        return [domain for i, domain in enumerate(self.known) if i != self.held]

    @property
    def test(self) -> TextDomain:
        """The held-out domain."""
        return self.known[self.held]


class DomainSetup(Setup):
    """The model of policy and reward, and the domains of instances."""

    config: OODConfig
    attention: ClassVar[str] = "eager"
    autocast: ClassVar[bool] = True
    sizes: ClassVar[tuple[int, ...]] = SMALL

    @kept(4)
    def domains(self, instance: int) -> Domains:
        """Domains and models of an instance."""
        from lora_bridge.data import Example
        from lora_bridge.tokens import encode_examples

        config, tokenizer = self.config, self.loaded.tokenizer
        models, (texts, left_out) = self._models(instance), _answers(config, instance)
        made = [
            [part.domain(tokenizer, models, config.max_length) for part in pair] for pair in texts
        ]
        known, judges = zip(*made, strict=True)
        shown = [
            Example(prompt, answer)
            for part in chain.from_iterable(texts)
            for prompt, answers in zip(part.prompts, part.answers, strict=True)
            for answer in answers
        ]
        encoded = self.encoded(encode_examples, shown)
        name = self.described("generated domains", encoded, left_out=left_out)
        return Domains(known, judges, instance % config.domains, name)

    def _models(self, instance: int) -> Models:
        from lora_bridge.policy_reward import Adapter, Models

        config = self.config
        rng = np.random.default_rng(config.derive("start", instance))

        def adapter(name: str, rank: int) -> Adapter:
            try:
                bank = self.bank(getattr(config, name))
            except InputError as error:  # the bank calls its modules `targets`
                raise InputError(str(error).replace("`targets`", f"`{name}`")) from None
            return Adapter(bank, self.tensor(bank.modules.start(rank, rng)))

        return Models(
            policy=adapter("targets", config.rank),
            reward=adapter("reward_targets", config.reward_rank),
            bound=config.bound,
            at_once=config.at_once,
        )


def _answers(config: OODConfig, instance: int) -> tuple[list[tuple[Any, Any]], int]:
    """Training and scoring texts of every domain, and how many pairs of a file were left out."""
    from lora_bridge.domains import TOPICS, answers_of, generated_answers, read_domains

    seed = config.derive("domains", instance)
    if config.data is None:
        check_integer("domains", config.domains, low=2, high=len(TOPICS))
        generated = generated_answers(
            seed,
            config.domains,
            prompts=config.prompts,
            own=config.own,
            strength=config.strength,
            pairs=config.pairs,
            tests=config.tests,
        )
        return list(generated), 0
    groups = read_domains(config.data)
    if len(groups) < config.domains:
        raise InputError(
            f"`data` must hold domains = {config.domains} or more; found {', '.join(groups)}"
        )
    rng, made, wanted = np.random.default_rng(seed), [], config.prompts + config.tests
    for name, items in list(groups.items())[: config.domains]:
        by_prompt: dict[str, list[Any]] = {}
        for item in items:
            by_prompt.setdefault(item.prompt, []).append(item)
        if len(by_prompt) < wanted:
            raise InputError(
                f"domain `{name}` must have prompts + tests = {wanted} prompts; "
                f"found {len(by_prompt)}"
            )
        prompts = [list(by_prompt)[j] for j in rng.permutation(len(by_prompt))[:wanted]]
        both = [
            answers_of(name, [item for p in part for item in by_prompt[p]], config.wrong)
            for part in (prompts[: config.prompts], prompts[config.prompts :])
        ]
        made.append((both[0], both[1]))
    return made, groups.left_out
