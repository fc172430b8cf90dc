"""What the experiments of OOD-PL on language models share: domains, models, every method's policy.

*Model.* A folder of the user's, or the built-in byte-level model in a small size. Policy and reward
are adapters of it, the reward with a score head on top: see :mod:`lora_bridge.bilevel`. Attention
is eager, as second derivatives need.

*Domains.* Without a file: generated ones, whose true rewards are known, see
:func:`lora_bridge.domains.generated_answers`. With a file of questions with choices, or of
preference pairs, whose records name their ``domain``: the right or chosen answer is preferred.
Methods see ``pairs`` noisy preferences of generated domains; all are scored on other prompts of a
domain than they saw.

*Methods*, with T the held-out domain: see :mod:`experiments.ood._domains`, whose list this is; all
but SFT start from SFT's policy. Rivals make as many steps of Adam as told; OOD-PL makes steps of
gradient descent, as Algorithms 1 and 2 say. "MLE, fitted beta" takes that one of five beta around
``beta`` which fits the training pairs best after Algorithm 2's steps.

*Instances.* One is one draw of domains, preferences, minibatches and adapters' first numbers; it
holds out one domain, the next instance the next. Differences are formed within an instance, 95 %
intervals (Student) are over instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments._model import Config
from linsys import InputError
from linsys._validate import number, whole
from linsys.bilevel import MetaTraining, meta_test

if TYPE_CHECKING:
    from lora_bridge.bilevel import TextDomain
    from lora_bridge.models import Loaded
    from lora_bridge.policy_reward import Models
    from lora_bridge.rivals import Steps

Values = NDArray[np.float64]
#: Factors of beta that are tried for the control.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Sizes for a real model on a GPU; alpha, beta and D as in the paper (Section 4.1).
PAPER: Mapping[str, Any] = {
    "targets": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "reward_targets": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "rank": 16,
    "reward_rank": 16,
    "prompts": 400,
    "tests": 100,
    "pairs": 1000,
    "alpha": 5e-5,
    "D": 50,
    "eta": 5e-3,
    "adapt": 200,
    "warmup": 400,
    "gamma": 1e-4,
    "dtype": "bfloat16",
    "device": "cuda",
}


@dataclass(frozen=True, kw_only=True)
class OODConfig(Config):
    """The set-up.

    Attributes:
        model: folder of a model; None: the built-in one, which learns from the prompts of data.
        data: a file of questions or pairs with domains; None: generated ones.
        hidden: width of the built-in model.
        targets, reward_targets: adapted modules of the policy and of the reward.
        rank, reward_rank, scaling: of the adapters; factor of B A.
        bound: what rewards lie between.
        domains: how many, one of them held out; of a file its first ones.
        prompts, tests: of a domain to train on, and to be scored on.
        pairs: sampled preferences of a generated domain.
        own, strength: of the generated true rewards.
        wrong: chance of wrong answers in a file's fine-tuning data.
        beta: factor of the reward of every method.
        alpha, D, inner_batch: inner steps.
        eta, K, outer_batch: outer steps.
        adapt: steps of Algorithm 2.
        warmup, steps, gamma, batch: Adam's steps for SFT and for each rival, their size and
            samples.
        rollouts: of PPO.
        instances: draws.
        max_length: tokens of a prompt with its answer; the beginning of a longer prompt is cut.
        at_once: sequences that go through the model together.
        dtype: of the model and the adapters; "bfloat16" computes the model's products in it.
        device: "cpu" or "cuda".
    """

    model: Path | None = None
    data: Path | None = None
    hidden: int = 32
    targets: tuple[str, ...] = ("o_proj", "down_proj", "lm_head")
    reward_targets: tuple[str, ...] = ("q_proj", "v_proj", "o_proj", "down_proj")
    rank: int = 8
    reward_rank: int = 8
    scaling: float = 1.0
    bound: float = 2.0
    domains: int = 4
    prompts: int = 30
    tests: int = 20
    pairs: int = 100
    own: float = 0.2
    strength: float = 4.0
    wrong: float = 0.5
    beta: float = 1.0
    alpha: float = 0.005
    D: int = 10
    inner_batch: int | None = 8
    eta: float = 0.1
    K: int = 40
    outer_batch: int = 16
    adapt: int = 20
    warmup: int = 120
    steps: int = 60
    gamma: float = 0.01
    batch: int = 8
    rollouts: int = 20
    instances: int = 4
    max_length: int = 512
    at_once: int = 128
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("prompts", "tests", "pairs", "D", "K", "outer_batch", "adapt", "warmup"):
            whole(name, getattr(self, name), low=1)
        for name in ("hidden", "rank", "reward_rank", "steps", "batch", "rollouts", "at_once"):
            whole(name, getattr(self, name), low=1)
        if self.inner_batch is not None:
            whole("inner_batch", self.inner_batch, low=1)
        whole("domains", self.domains, low=2)
        whole("instances", self.instances, low=3)
        for name in ("scaling", "bound", "strength", "beta", "alpha", "eta", "gamma"):
            number(name, getattr(self, name), low=0.0, low_open=True)
        for name in ("own", "wrong"):
            number(name, getattr(self, name), low=0.0, high=1.0)

    def draw(self, instance: int) -> Draw:
        """Domains and models of an instance; the same object again if asked."""
        return _drawn(self, instance)

    def adam(self, count: int, instance: int) -> Steps:
        """Steps of a rival."""
        from lora_bridge.rivals import Steps

        seed = self.derive("rival", instance) % 2**32
        return Steps(count=count, gamma=self.gamma, batch=self.batch, seed=seed)

    def training(self, instance: int, beta: float, eta: float) -> MetaTraining:
        """Algorithm 1."""
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

    def tuned(self, domain: TextDomain, phi: Any, start: Any, beta: float | None = None) -> Any:
        """The policy at the end of Algorithm 2."""
        oracle = domain.oracle(
            beta=self.beta if beta is None else beta,
            inner_batch=self.inner_batch,
            seed=self.derive("test", domain.name),
        )
        steps = self.adapt
        return meta_test(oracle, phi, start, alpha=self.alpha, steps=steps, tolerance=0.0).theta


@dataclass(frozen=True, eq=False)
class Draw:
    """An instance.

    Attributes:
        config: whose.
        instance: its number.
        known: the domains with the prompts and pairs that methods see.
        judges: the same domains with the prompts that methods are scored on.
        held: number of the held-out domain.
        name: of model and data.
    """

    config: OODConfig
    instance: int
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

    def start(self) -> Any:
        """SFT's policy on all domains, from which the others start."""
        from lora_bridge.rivals import sft

        steps = self.config.adam(self.config.warmup, self.instance)
        return sft(self.known, self.models.theta(), steps)

    def learn(self, start: Any, at: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Algorithm 1: the rounds asked for, increasing, and phi after each of them."""
        training = self.config.training(self.instance, self.config.beta, self.config.eta)
        for state in training.states(training.init(self.train, self.models.phi(), start)):
            if state.k in at:
                yield state.k, state.phi

    def rivals(self, start: Any) -> dict[str, Any]:
        """Policies of baselines and controls for the held-out domain."""
        from lora_bridge.rivals import dpo, hpl, reward_mle, rlhf

        config, train, test = self.config, self.train, self.test
        steps = config.adam(config.steps, self.instance)
        phi = reward_mle(train, self.models.phi(), steps)
        climb: dict[str, Any] = {
            "steps": config.adam(config.rollouts, self.instance),
            "beta": config.beta,
            "length": max(int(d.policy.lengths.max()) for d in self.known),
        }
        every = [*train, test]
        return {
            "SFT": start,
            "DPO": dpo(train, start, steps, beta=config.beta),
            "PPO (TR)": rlhf(train, phi, start, **climb),
            "PPO (TR+TE)": rlhf(every, phi, start, **climb),
            "HPL": hpl(every, start, steps),
            "HPL (TR)": hpl(train, start, steps),
            "MLE + (10)": config.tuned(test, phi, start),
            "MLE, fitted beta": config.tuned(test, phi, start, self.fitted_beta(phi, start)),
        }

    def fitted_beta(self, phi: Any, start: Any) -> float:
        """The beta with which Algorithm 2 and a given reward fit the training pairs best."""

        def loss(beta: float) -> float:
            try:
                found = [
                    domain.oracle(beta=beta).outer_loss(self.config.tuned(domain, phi, start, beta))
                    for domain in self.train
                ]
            except InputError:  # weights so large that the steps diverge
                return np.inf
            return float(np.mean(found))

        betas = [factor * self.config.beta for factor in FACTORS]
        return min(betas, key=loss)


@lru_cache(maxsize=1)
def _load(config: OODConfig) -> Loaded:
    import torch

    from lora_bridge.built_in import BuiltIn, built_in
    from lora_bridge.models import load_model
    from lora_bridge.prompts import prompt_texts

    made = BuiltIn(hidden=config.hidden, layers=1, heads=2)
    folder = config.model or built_in(prompt_texts(config.data), made)
    dtype = torch.float64 if config.dtype == "float64" else torch.float32
    return load_model(folder, dtype=dtype, device=config.device, attention="eager")


@lru_cache(maxsize=4)
def _drawn(config: OODConfig, instance: int) -> Draw:
    import torch

    from lora_bridge.bank import AdapterBank
    from lora_bridge.data import Example
    from lora_bridge.policy_reward import Adapter, Models
    from lora_bridge.tokens import encode_examples, said

    loaded = _load(config)
    rng = np.random.default_rng(config.derive("start", instance))
    autocast = torch.bfloat16 if config.dtype == "bfloat16" else None

    def adapter(name: str, rank: int) -> Adapter:
        targets = getattr(config, name)
        try:
            bank = AdapterBank(loaded.model, targets, config.scaling, autocast=autocast)
        except InputError as error:  # it knows one adapter, and calls its modules `targets`
            raise InputError(str(error).replace("`targets`", f"`{name}`")) from None
        start = torch.from_numpy(bank.modules.start(rank, rng))
        return Adapter(
            bank, start.to(dtype=next(loaded.model.parameters()).dtype, device=config.device)
        )

    models = Models(
        policy=adapter("targets", config.rank),
        reward=adapter("reward_targets", config.reward_rank),
        bound=config.bound,
        at_once=config.at_once,
    )
    texts, source = _answers(config, instance)
    made = [
        [part.domain(loaded.tokenizer, models, config.max_length) for part in pair]
        for pair in texts
    ]
    known, judges = zip(*made, strict=True)
    parts = [part for pair in texts for part in pair]
    shown = [
        Example(p, a)
        for one in parts
        for p, row in zip(one.prompts, one.answers, strict=True)
        for a in row
    ]
    cut = said(encode_examples(loaded.tokenizer, shown, config.max_length, "cut"))
    name = f"model {loaded.name}, data: {source}{cut}"
    return Draw(config, instance, known, judges, instance % config.domains, name)


def _answers(config: OODConfig, instance: int) -> tuple[list[tuple[Any, Any]], str]:
    """Training and scoring texts of every domain, and where they come from."""
    from lora_bridge.domains import TOPICS, answers_of, generated_answers, read_domains

    seed = config.derive("domains", instance)
    if config.data is None:
        whole("domains", config.domains, low=2, high=len(TOPICS))
        found = generated_answers(
            seed,
            config.domains,
            prompts=config.prompts,
            own=config.own,
            strength=config.strength,
            pairs=config.pairs,
            tests=config.tests,
        )
        return list(found), "generated domains"
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
    return made, config.data.name
