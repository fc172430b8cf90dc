"""One loop for the algorithms of all five papers, on synthetic oracles and on a language model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import ratecheck as rc
from linsys import GaussianSystem, algorithms, bilevel
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    Sampling,
    Steps,
)
from linsys.bilevel import MetaTraining, meta_distribution
from linsys.preference.comparisons import Comparisons
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.sharelora import METHODS, method
from linsys.rounds import rounds
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA, LeastSquares
from lora_bridge import checkpoint, losses
from lora_bridge.affpcl import Agents, class_logits, soft_cross_entropy
from lora_bridge.bank import AdapterBank
from lora_bridge.bilevel import TextDomain
from lora_bridge.built_in import BuiltIn, built_in
from lora_bridge.firm import Alignment
from lora_bridge.models import load_model
from lora_bridge.oracles import Devices, Users
from lora_bridge.policy_reward import Adapter, Models
from lora_bridge.tasks import Task
from lora_bridge.toy_rewards import letter_rewards
from mgda.actor_critic import ActorCritic
from mgda.critic import LinearCritic
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.scalarization import LinearScalarization, SingleObjective
from mgda.trajectories import Clients
from ratecheck._conformance.algorithms import same

N, COUNT = 3, 4


class Run(NamedTuple):
    """Where a run starts, and what its algorithm asks."""

    start: Any
    oracle: Any


@functools.cache
def loaded() -> Any:
    """The built-in model, trained for no time."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as cache:
        patch.setenv("XDG_CACHE_HOME", cache)
        sizes = BuiltIn(hidden=8, layers=1, heads=2, length=24, steps=2)
        return load_model(built_in("some text " * 20, sizes), attention="eager")


def texts(pairs: bool = False) -> list[dict[str, torch.Tensor]]:
    """Tokens of every client, with marks of the answers."""
    shards = []
    for i in range(N):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(97, 122, (6, 2, 8) if pairs else (6, 8), generator=generator)
        mask = torch.ones_like(ids)
        target = (torch.arange(8) >= 5).long().expand(ids.shape).contiguous()
        shards.append({"input_ids": ids, "attention_mask": mask, "target_mask": target})
    return shards


def bank() -> AdapterBank:
    return AdapterBank(loaded().model, ["q_proj", "v_proj"])


def rows(modules: Any, r: int = 2) -> np.ndarray:
    return np.asarray(modules.start(r, np.random.default_rng(1)))


def agents_of_a_system() -> Run:
    system = GaussianSystem(np.zeros((N, 2)), np.ones((N, 2)), np.eye(2), np.eye(2))

    def observe(t: int) -> Any:
        return system.observe(system.sample(np.random.default_rng(t)))

    oracle = Sampling(observe, Steps.constant(0.05), local_steps=2)
    return Run(algorithms.Start(np.zeros((N, 2)), np.zeros(2)), oracle)


def agents_of_a_model() -> Run:
    shards = []
    for i, shard in enumerate(texts()):
        generator = torch.Generator().manual_seed(10 + i)
        wanted = torch.rand((6, 2), generator=generator).softmax(-1)
        features = torch.rand((6, 2), generator=generator)
        more = {"label_probabilities": wanted, "features": features}
        shards.append({**shard, **more, "log_ratio": torch.zeros(6, N)})

    def two(output: Any, batch: Any) -> torch.Tensor:
        return class_logits(output, batch)[:, -1, :2]

    agents = Agents(Task(bank(), shards, soft_cross_entropy(two), batch=2))
    start = torch.from_numpy(rows(agents.task.bank.modules)).float()
    oracle = Sampling(agents.observe, Steps.constant(0.05), local_steps=2)
    return Run(agents.start(start), oracle)


def devices_of_matrices() -> Run:
    rng = np.random.default_rng(0)
    inputs, targets = (tuple(rng.normal(size=(N, 8, k))) for k in (4, 3))
    oracle = LeastSquares(rng.normal(size=(3, 4)), inputs, targets, batch=2)
    return Run(rows(oracle.modules, 3), oracle)


def devices_of_a_model() -> Run:
    oracle = Devices(Task(bank(), texts(), losses.answer_loss, batch=2))
    return Run(torch.from_numpy(rows(oracle.modules, 3)).float(), oracle)


def users_of_comparisons() -> Run:
    rng = np.random.default_rng(0)
    data = Comparisons.of_users(list(rng.normal(size=(N, 6, 3, 4))), rng.integers(0, 2, (N, 6)))
    oracle = ComparisonOracle(data, batch=2, blocks=[2, 2])
    return Run(rows(oracle.modules), oracle)


def users_of_a_model() -> Run:
    loss = losses.policy_preference_loss
    oracle = Users(Task(bank(), texts(pairs=True), loss, batch=2))
    return Run(torch.from_numpy(rows(oracle.modules)).float(), oracle)


TRAINING = MetaTraining(alpha=0.05, beta=2.0, D=3, eta=0.2, K=COUNT)


def domains_that_are_finite() -> Run:
    oracles = TRAINING.oracles(meta_distribution(0).train)
    return Run(bilevel.Start(np.zeros(4), np.zeros(4)), oracles)


def domains_of_a_model() -> Run:
    shared = bank()
    adapters = [torch.from_numpy(rows(shared.modules, 1)).float() for _ in range(2)]
    policy, reward = (Adapter(shared, adapter) for adapter in adapters)
    models = Models(policy=policy, reward=reward)
    pairs: Any = ([0, 1, 2], [0, 1, 1], [1, 0, 0], [0.2, 0.3, 0.5])
    domains = [
        TextDomain(
            name=f"domain {i}",
            prompts=np.full(3, 1.0 / 3.0),
            mu_hat=np.full((3, 2), 0.5),
            preferences=pairs,
            tokens={name: value.reshape(3, 2, 8) for name, value in shard.items()},
            models=models,
        )
        for i, shard in enumerate(texts())
    ]
    return Run(bilevel.Start(models.phi(), models.theta()), TRAINING.oracles(domains))


def clients_of_processes() -> Run:
    clients = Clients(sample_momdp(0, states=3, actions=2), N)
    oracle = ActorCritic(clients, LinearCritic(np.eye(3)), B=4, D=2, N=2, replicates=2)
    return Run(np.zeros((2, N, 6)), oracle)


def clients_of_a_model() -> Run:
    oracle = Alignment(
        bank=bank(),
        tokenizer=loaded().tokenizer,
        prompts=[["one", "two"]] * N,
        rewards=letter_rewards(4, ("aeiou", "nrst")),
        rank=2,
        length=4,
        batch=2,
        minibatch=2,
        epochs=1,
    )
    X = torch.from_numpy(rows(oracle.bank.modules)).float()
    return Run(X.reshape(1, 1, -1).expand(1, N, -1), oracle)


class Family(NamedTuple):
    """Algorithms, by name, that ask the same oracle; and that oracle, of data of a kind."""

    data: str
    synthetic: Callable[[], Run]
    model: Callable[[], Run]
    algorithms: dict[str, Any]


DEVICES: dict[str, Any] = {"gamma": 0.1, "H": 2, "ranks": [1, 2, 3]}
CLIENTS: dict[str, Any] = {"alpha": 0.1, "K": 2}
AGENTS = {
    "AffPCL": AffPCL(),
    "Independent": Independent(),
    "FedAvg": FedAvg(),
    "FineTuning": FineTuning(switch=COUNT - 1),  # the last round is another one
    "PFedMe": PFedMe(),
    "Ditto": Ditto(),
    "Clustered": Clustered(clusters=2),
}
OBJECTIVES = {
    "FIRM": FIRM(**CLIENTS),
    "FedCMOO": FedCMOO(**CLIENTS),
    "compressed FedCMOO": FedCMOO(**CLIENTS, lambda_rule="projected", rank=1),
    "LinearScalarization": LinearScalarization(**CLIENTS, weights=[0.25, 0.75]),
    "SingleObjective": SingleObjective(**CLIENTS, objective=1),
}
SKETCHES = {A.__name__: A(**DEVICES) for A in (FSLoRA, FedStackLoRA, FlexLoRA, HeteroLoRA)}
SHARED = {f"P-ShareLoRA {name}": method(name, 0.05) for name in METHODS}
FAMILIES = [
    Family("system", agents_of_a_system, agents_of_a_model, AGENTS),
    Family("matrices", devices_of_matrices, devices_of_a_model, SKETCHES),
    Family("comparisons", users_of_comparisons, users_of_a_model, SHARED),
    Family("finite domains", domains_that_are_finite, domains_of_a_model, {"OOD-PL": TRAINING}),
    Family("processes", clients_of_processes, clients_of_a_model, OBJECTIVES),
]
EACH = [(family, *named) for family in FAMILIES for named in family.algorithms.items()]
SYNTHETIC = {f"{name}, {of.data}": (algorithm, of.synthetic) for of, name, algorithm in EACH}
MODEL = {f"{name}, model": (algorithm, of.model) for of, name, algorithm in EACH}
CASES: dict[str, tuple[Any, Callable[[], Run]]] = SYNTHETIC | MODEL
#: On a model every day: algorithms of devices and of users, and one that changes frozen matrices.
DAILY = {
    f"{name}, model": MODEL[f"{name}, model"]
    for name in ("FSLoRA", "FedStackLoRA", "P-ShareLoRA G")
}
OTHERS = {name: case for name, case in MODEL.items() if name not in DAILY}


class TestRounds(rc.AlgorithmSuite):
    cases = SYNTHETIC | DAILY
    count = COUNT


@pytest.mark.slow
class TestRoundsOfOthersOnAModel(rc.AlgorithmSuite):
    cases = OTHERS
    count = COUNT


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_a_checkpoint_and_a_new_oracle_are_all_that_a_run_needs(name: str, tmp_path: Path) -> None:
    algorithm, make = CASES[name]
    start, oracle = make()
    first = algorithm.init(start, oracle)
    (half, _), (whole, _) = list(rounds(algorithm, oracle, first, COUNT))[COUNT // 2 - 1 :: 2]
    kept = checkpoint.save(tmp_path, half, COUNT // 2, name)
    start, oracle = make()
    back, done = checkpoint.restore(kept, algorithm.init(start, oracle), name)
    *_, (resumed, _) = rounds(algorithm, oracle, back, COUNT - done)
    assert same(resumed, whole)
    assert not same(half, whole)
