"""What the text versions of FIRM's figures share: a model, prompts, rewards, clients.

*Model.* A folder of the user's, or the built-in byte-level model. It is frozen and the reference of
the divergence; adapters of rank 16 are on its attention, as in the paper.

*Prompts.* Without a file: four words of docstrings each, in ten domains. With one: questions,
prompts or dialogues of :func:`lora_bridge.prompts.read_prompts`. Some are held out for tests.

*Rewards.* Without reward models two that need none and pull apart, :mod:`lora_bridge.toy_rewards`:
the roots of the shares of two classes of letters in a response, whose Pareto front over all
policies is known. With ``reward_models``: local folders of sequence classifiers with one output.

*Training.* As the paper says where it does: 16 rounds, a rollout of 16 prompts in each, three
epochs of minibatches of 8, hence K = 6 local steps; rank 16, scaling 2; the divergence's target .03
per token; the trace-normalised Gram matrix. What it leaves open is chosen in
:mod:`lora_bridge.firm` and a field of the configuration here. Dropout is 0, so that PPO's ratios
begin at 1. Clients step with Adam.

*Step sizes.* The paper's 6e-5 is for models of 10^9 parameters. That of the built-in model was
taken from (.003, .01, .03) once, as the one after whose 16 rounds FIRM (beta = .01, 8 clients) has
the largest mean reward on a draw that is used for nothing else; with several ``gammas`` that choice
is made anew. That of the laptop profile was taken from (.001, .003, .01) in the same way, with
SmolLM2-135M-Instruct and two clients: mean rewards of .485, .511 and .500 after six rounds, and
.508 before them. Critics step by 1e-3, ten times as far as the paper's, so that they know the mean
reward after a rollout or two: hidden states have entries of about 1.

*The laptop profile* is sized by its time on two cores. The last two layers are adapted, and what is
below them is computed once for a response, so that most of the time goes into drawing responses:
they are short for that, and of two clients.

*Seeds.* One of ``seeds`` is one draw of prompts, clients, responses and first adapters; the model
is the same. Arms of a comparison share them, up to where their policies part. Differences are
formed within a seed; 95 % intervals (Student) are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.bridge.models import TunedConfig
from experiments.bridge.setup import Setup, kept
from linsys import InputError
from mgda.firm import FIRM

if TYPE_CHECKING:
    from lora_bridge.data import Example
    from lora_bridge.firm import Alignment
    from lora_bridge.rewards import Reward
    from mgda.federated import Federated, State

#: An algorithm of a step size.
Method = Callable[[float], "Federated"]

#: Classes of letters of the two objectives, and of what others take for the first one (Figure 4).
CLASSES, OTHER = ("aeiou", "nrst"), "aioly"
#: Sizes for a model of 10^8 parameters on two cores: see the module's text.
LAPTOP: dict[str, Any] = {
    "layers": 2,
    "gammas": (3e-3,),
    "seeds": 3,
    "clients": 2,
    "prompts": 16,
    "tests": 64,
    "length": 8,
    "max_length": 64,
    "rounds": 6,
    "batch": 8,
}
#: The paper's sizes for a real model on a GPU (Appendix A.1).
PAPER: dict[str, Any] = {
    "gammas": (6e-5,),
    "critic_step": 1e-4,
    "length": 64,
    "prompts": 512,
    "tests": 256,
    "max_length": 512,
    "chunk": 4,
    "dtype": "bfloat16",
    "device": "cuda",
}


@dataclass(frozen=True, kw_only=True)
class FirmConfig(TunedConfig):
    """A run of alignment."""

    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    scaling: float = 2.0
    gammas: tuple[float, ...] = (0.003,)
    seeds: int = 5
    batch: int = 16
    tests: int = rc.param(
        512,
        doc="prompts that are held out, but at most a quarter of all; without a file these are "
        "clients x prompts and as many as are to be held out.",
    )
    max_length: int = rc.param(24, low=1)
    reward_models: tuple[Path, ...] = rc.param(
        (), doc="folders of the rewards' models; letters without them."
    )
    reward_scaling: Literal["range", "sigmoid"] = rc.param(
        "sigmoid", doc="how their outputs become numbers in [0, 1]."
    )
    clients: int = rc.param(8, low=1, doc="C.")
    prompts: int = rc.param(64, low=1, doc="of each client, on average.")
    rounds: int = rc.param(16, low=4, doc="aggregations; a rollout of ``batch`` prompts in each.")
    minibatch: int = rc.param(8, low=1, doc="responses of a step; divides ``batch``.")
    epochs: int = rc.param(3, low=1, doc="passes over a rollout.")
    length: int = rc.param(16, low=1, doc="most tokens of a response.")
    temperature: float = rc.param(1.0, above=0.0, doc="of the policy.")
    beta: float = rc.param(0.01, low=0.0, doc="of FIRM.")
    optimizer: Literal["adam", "sgd"] = rc.param("adam", doc='of the clients, "adam" or "sgd".')
    moments: Literal["kept", "reset"] = rc.param(
        "kept", doc='Adam\'s at an aggregation: "kept" by the client, or "reset" to zero.'
    )
    kl: Literal["outside", "inside"] = rc.param(
        "outside",
        doc=(
            'the divergence is "outside" of the weights, or "inside" every objective; for '
            "this and what follows see lora_bridge.firm."
        ),
    )
    kl_kind: Literal["k1", "k2", "k3"] = rc.param(
        "k1", doc='estimator of the divergence: "k1", "k2" or "k3".'
    )
    kl_unit: Literal["token", "sequence"] = rc.param(
        "token", doc='what ``kl_target`` is of: a "token" or a "sequence".'
    )
    kl_start: float = rc.param(0.2, low=0.0, doc="the divergence's first coefficient.")
    kl_target: float | None = rc.param(
        0.03,
        above=0.0,
        doc="the divergence that the coefficient aims at; None: the coefficient is fixed.",
    )
    kl_horizon: int = rc.param(
        10_000, low=1, doc="responses after which the coefficient may have changed by a fifth."
    )
    whitened: bool = rc.param(
        True, doc="whether every objective's advantages have mean 0 and variance 1 in a rollout."
    )
    average: Literal["token", "sequence", "sum"] = rc.param(
        "token", doc='what the mean of a minibatch is over: a "token", a "sequence" or the "sum".'
    )
    clip: float = rc.param(0.2, above=0.0, doc="of PPO's ratios.")
    gamma: float = rc.param(1.0, low=0.0, high=1.0, doc="discount factor.")
    lam: float = rc.param(0.95, low=0.0, high=1.0, doc="of the advantages.")
    critic_step: float = rc.param(1e-3, above=0.0, doc="step size of the critics.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch % self.minibatch:
            raise InputError(
                f"`minibatch` must divide batch = {self.batch}; found {self.minibatch}"
            )
        if len(self.reward_models) not in (0, *self.folders):
            raise InputError(
                f"`reward_models` must be {' or '.join(map(str, self.folders))} folders or none; "
                f"found {len(self.reward_models)}"
            )

    @property
    def folders(self) -> tuple[int, ...]:
        """How many reward models a figure takes."""
        return (2,)

    @property
    def most_clients(self) -> int:
        """C of the arm that has most of them."""
        return self.clients

    @property
    def K(self) -> int:
        """Local steps of a round."""
        return self.epochs * self.batch // self.minibatch

    @property
    def steps(self) -> NDArray[np.int64]:
        """All local steps, from 1."""
        return np.arange(1, self.rounds * self.K + 1)

    @property
    def alike(self) -> dict[str, Any]:
        """The options that all algorithms have in common, except the step size."""
        return {"K": self.K, "optimizer": self.optimizer, "moments": self.moments}

    def firm(self, **options: Any) -> Method:
        """FIRM as the experiments have it."""
        given = {"beta": self.beta, **self.alike, **options}
        return lambda alpha: FIRM(alpha=alpha, **given)

    @property
    def output_scaling(self) -> Literal["range", "sigmoid"]:
        """How the rewards of the figure become numbers in [0, 1]; letters have a range."""
        return self.reward_scaling if self.reward_models else "range"

    @property
    def objectives(self) -> tuple[str, str]:
        """The two rewards in words."""
        if not self.reward_models:
            return tuple(f"reward for {letters}" for letters in CLASSES)  # type: ignore[return-value]
        return tuple(folder.name for folder in self.reward_models[:2])  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Arm:
    """One setting of a comparison.

    Attributes:
        method: the algorithm.
        clients: C, if not that of the configuration.
        shares: concentration of Dirichlet-distributed domains; None: prompts are dealt evenly.
        rewards: those of a client by its number; without it the first two, the same for all.
    """

    method: Method
    clients: int | None = None
    shares: float | None = None
    rewards: Callable[[int, Sequence[Reward]], Sequence[Reward]] | None = None


class FirmSetup(Setup):
    """The policy's model, rewards, and draws of clients."""

    config: FirmConfig

    @kept(2)
    def rewards(self) -> tuple[Reward, ...]:
        """The rewards of the figure, two of them and what it adds."""
        from lora_bridge.rewards import RewardModel
        from lora_bridge.toy_rewards import letter_rewards

        config = self.config
        if not config.reward_models:
            others = letter_rewards(config.length, (OTHER,))
            return (*letter_rewards(config.length, CLASSES), *others)
        try:
            folders = config.reward_models
            return tuple(RewardModel(folder, device=config.device) for folder in folders)
        except InputError as error:
            raise InputError(f"`reward_models`: {error}") from None

    @kept(8)
    def prompts(self, use: str, k: int) -> tuple[list[Example], list[str]]:
        """Prompts for training and for tests of a draw."""
        from lora_bridge.prompts import built_in_prompts, read_prompts

        config, seed = self.config, self.config.derive("prompts", use, k)
        wanted = config.clients * config.prompts
        if config.data is None:
            known = built_in_prompts(wanted + config.tests, seed=seed)
        else:
            prompts = read_prompts(config.data)
            known = [prompts[i] for i in np.random.default_rng(seed).permutation(len(prompts))]
        tests = min(config.tests, len(known) // 4)
        train = known[tests : tests + wanted]
        if len(train) < config.most_clients:
            name = "prompts" if wanted < config.most_clients else "data"
            raise InputError(
                f"`{name}` must give one to each of {config.most_clients} clients; found "
                f"{len(train)}, and {tests} for tests"
            )
        return train, [example.prompt for example in known[:tests]]

    def alignment(self, arm: Arm, use: str, k: int) -> Alignment:
        """The oracle of an arm on a draw."""
        from lora_bridge.critics import Critics
        from lora_bridge.firm import Alignment
        from lora_bridge.ppo import Controller
        from lora_bridge.splits import dirichlet, evenly

        config, (train, _) = self.config, self.prompts(use, k)
        C, seed = arm.clients or config.clients, config.derive("split", use, k)
        if arm.shares is None:
            shares = evenly(train, C, seed)
        else:
            shares = dirichlet(train, C, lambda example: example.domain, arm.shares, seed)
        first, second, *_ = known = self.rewards()
        chosen = arm.rewards or (lambda client, rewards: (first, second))
        return Alignment(
            bank=self.bank(),
            tokenizer=self.loaded.tokenizer,
            prompts=[[example.prompt for example in share] for share in shares],
            rewards=[chosen(client, known) for client in range(C)],
            scaling=config.output_scaling,
            rank=config.rank,
            length=config.length,
            batch=config.batch,
            minibatch=config.minibatch,
            epochs=config.epochs,
            temperature=config.temperature,
            clip=config.clip,
            gamma=config.gamma,
            lam=config.lam,
            kl=config.kl,
            kl_kind=config.kl_kind,
            kl_unit=config.kl_unit,
            controller=Controller(
                start=config.kl_start, target=config.kl_target, horizon=config.kl_horizon
            ),
            whitened=config.whitened,
            average=config.average,
            critics=Critics(step=config.critic_step),
            max_length=config.max_length,
            too_long="cut",
            seed=config.derive("responses", use, k),
        )

    def beginning(self, oracle: Alignment, algorithm: Federated, use: str, k: int) -> State:
        """The first state of a draw: the same adapters for all clients, of zero effect."""
        config = self.config
        rng = np.random.default_rng(config.derive("start", use, k))
        start = self.tensor(oracle.bank.modules.start(config.rank, rng)).reshape(1, 1, -1)
        return algorithm.init(start.expand(1, oracle.C, -1), oracle)

    def said_of_model(self) -> str:
        """Model, prompts and how many of the first draw lose their beginnings, and rewards."""
        from lora_bridge.rollouts import prompt_tokens
        from lora_bridge.tokens import Encoded

        config, (train, tests) = self.config, self.prompts("test", 0)
        texts = [*(example.prompt for example in train), *tests]
        tokens = (prompt_tokens(self.loaded.tokenizer, text)[0] for text in texts)
        cut = sum(len(each) > config.max_length for each in tokens)
        data = self.source("built-in prompts", Encoded({}, config.max_length, cut, len(texts)))
        rewards = " and ".join(config.objectives)
        if not config.reward_models:
            rewards += ", sqrt(share of these letters in a response)"
        return f"model {self.loaded.name}, {data}; rewards: {rewards}"
