"""One loop for the algorithms of all five papers, on synthetic oracles and on a language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from linsys import GaussianSystem, algorithms, bilevel
from linsys.algorithms import AffPCL, Sampling, Steps
from linsys.bilevel import MetaTraining, meta_distribution
from linsys.preference.comparisons import Comparisons
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.sharelora import method
from linsys.rounds import rounds
from linsys.sketching import FedStackLoRA, FSLoRA, LeastSquares
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
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.trajectories import Clients

N, COUNT = 3, 4


class Run(NamedTuple):
    """Where a run starts, and what its algorithm asks."""

    start: Any
    oracle: Any


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The built-in model, trained for no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        sizes = BuiltIn(hidden=8, layers=1, heads=2, length=24, steps=2)
        return load_model(built_in("some text " * 20, sizes), attention="eager")


def texts(loaded: Any, pairs: bool = False) -> list[dict[str, torch.Tensor]]:
    """Tokens of every client, with marks of the answers."""
    shards = []
    for i in range(N):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(97, 122, (6, 2, 8) if pairs else (6, 8), generator=generator)
        mask = torch.ones_like(ids)
        target = (torch.arange(8) >= 5).long().expand(ids.shape).contiguous()
        shards.append({"input_ids": ids, "attention_mask": mask, "target_mask": target})
    return shards


def bank_of(loaded: Any) -> AdapterBank:
    return AdapterBank(loaded.model, ["q_proj", "v_proj"])


def rows(modules: Any, r: int = 2) -> np.ndarray:
    return np.asarray(modules.start(r, np.random.default_rng(1)))


def agents_of_a_system(loaded: Any) -> Run:
    system = GaussianSystem(np.zeros((N, 2)), np.ones((N, 2)), np.eye(2), np.eye(2))

    def observe(t: int) -> Any:
        return system.observe(system.sample(np.random.default_rng(t)))

    oracle = Sampling(observe, Steps.constant(0.05), local_steps=2)
    return Run(algorithms.Start(np.zeros((N, 2)), np.zeros(2)), oracle)


def agents_of_a_model(loaded: Any) -> Run:
    shards = []
    for i, shard in enumerate(texts(loaded)):
        generator = torch.Generator().manual_seed(10 + i)
        wanted = torch.rand((6, 2), generator=generator).softmax(-1)
        features = torch.rand((6, 2), generator=generator)
        more = {"label_probabilities": wanted, "features": features}
        shards.append({**shard, **more, "log_ratio": torch.zeros(6, N)})

    def two(output: Any, batch: Any) -> torch.Tensor:
        return class_logits(output, batch)[:, -1, :2]

    agents = Agents(Task(bank_of(loaded), shards, soft_cross_entropy(two), batch=2))
    start = torch.from_numpy(rows(agents.task.bank.modules)).float()
    oracle = Sampling(agents.observe, Steps.constant(0.05), local_steps=2)
    return Run(agents.start(start), oracle)


def devices_of_matrices(loaded: Any) -> Run:
    rng = np.random.default_rng(0)
    inputs, targets = (tuple(rng.normal(size=(N, 8, k))) for k in (4, 3))
    oracle = LeastSquares(rng.normal(size=(3, 4)), inputs, targets, batch=2)
    return Run(rows(oracle.modules, 3), oracle)


def devices_of_a_model(loaded: Any) -> Run:
    oracle = Devices(Task(bank_of(loaded), texts(loaded), losses.answer_loss, batch=2))
    return Run(torch.from_numpy(rows(oracle.modules, 3)).float(), oracle)


def users_of_comparisons(loaded: Any) -> Run:
    rng = np.random.default_rng(0)
    data = Comparisons.of_users(list(rng.normal(size=(N, 6, 3, 4))), rng.integers(0, 2, (N, 6)))
    oracle = ComparisonOracle(data, batch=2, blocks=[2, 2])
    return Run(rows(oracle.modules), oracle)


def users_of_a_model(loaded: Any) -> Run:
    loss = losses.policy_preference_loss
    oracle = Users(Task(bank_of(loaded), texts(loaded, pairs=True), loss, batch=2))
    return Run(torch.from_numpy(rows(oracle.modules)).float(), oracle)


TRAINING = MetaTraining(alpha=0.05, beta=2.0, D=3, eta=0.2, K=COUNT)


def domains_that_are_finite(loaded: Any) -> Run:
    oracles = TRAINING.oracles(meta_distribution(0).train)
    return Run(bilevel.Start(np.zeros(4), np.zeros(4)), oracles)


def domains_of_a_model(loaded: Any) -> Run:
    bank = bank_of(loaded)
    adapters = [torch.from_numpy(rows(bank.modules, 1)).float() for _ in range(2)]
    policy, reward = (Adapter(bank, adapter) for adapter in adapters)
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
        for i, shard in enumerate(texts(loaded))
    ]
    return Run(bilevel.Start(models.phi(), models.theta()), TRAINING.oracles(domains))


def clients_of_processes(loaded: Any) -> Run:
    clients = Clients(sample_momdp(0, states=3, actions=2), N)
    oracle = ActorCritic(clients, LinearCritic(np.eye(3)), B=4, D=2, N=2, replicates=2)
    return Run(np.zeros((2, N, 6)), oracle)


def clients_of_a_model(loaded: Any) -> Run:
    oracle = Alignment(
        bank=bank_of(loaded),
        tokenizer=loaded.tokenizer,
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


#: Of every paper, and of a method that changes frozen matrices: an algorithm and its two backends.
CASES: dict[str, tuple[Any, Callable[[Any], Run], Callable[[Any], Run]]] = {
    "AffPCL": (AffPCL(), agents_of_a_system, agents_of_a_model),
    "FSLoRA": (FSLoRA(gamma=0.1, H=2, ranks=[1, 2, 3]), devices_of_matrices, devices_of_a_model),
    "FedStackLoRA": (
        FedStackLoRA(gamma=0.1, H=2, ranks=[1, 2, 3]),
        devices_of_matrices,
        devices_of_a_model,
    ),
    "P-ShareLoRA": (method("G", 0.05), users_of_comparisons, users_of_a_model),
    "OOD-PL": (TRAINING, domains_that_are_finite, domains_of_a_model),
    "FIRM": (FIRM(alpha=0.1, K=2), clients_of_processes, clients_of_a_model),
}
each_case = pytest.mark.parametrize("name", list(CASES))
each_backend = pytest.mark.parametrize("backend", ["synthetic", "model"])


def begun(name: str, backend: str, loaded: Any) -> tuple[Any, Run]:
    algorithm, synthetic, model = CASES[name]
    return algorithm, (synthetic if backend == "synthetic" else model)(loaded)


def leaves(state: Any) -> list[Any]:
    """What a state is made of: arrays, numbers and None."""
    if isinstance(state, dict):
        return [leaf for key in sorted(state) for leaf in leaves(state[key])]
    if isinstance(state, tuple | list):
        return [leaf for part in state for leaf in leaves(part)]
    return [state]


def arrays(state: Any) -> list[Any]:
    return [leaf for leaf in leaves(state) if isinstance(leaf, np.ndarray | torch.Tensor)]


def same(one: Any, other: Any) -> bool:
    a, b = leaves(one), leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


#: A state has no oracle, no generator and no optimizer.
PLAIN = (np.ndarray, torch.Tensor, int, float, type(None))


@each_backend
@each_case
def test_one_loop_runs_every_algorithm_on_every_oracle(
    name: str, backend: str, loaded: Any
) -> None:
    algorithm, (start, oracle) = begun(name, backend, loaded)
    first = algorithm.init(start, oracle)
    states = [state for state, _ in rounds(algorithm, oracle, first, COUNT)]
    steps = algorithm.K if name == "FIRM" else 1
    assert [state.t for state in states] == [steps * (k + 1) for k in range(COUNT)]
    for before, after in zip([first, *states], states, strict=False):
        assert not same(arrays(before), arrays(after))
    assert all(isinstance(leaf, PLAIN) for leaf in leaves(states[-1]))


@each_backend
@each_case
def test_a_checkpoint_and_a_new_oracle_are_all_that_a_run_needs(
    name: str, backend: str, loaded: Any, tmp_path: Path
) -> None:
    algorithm, (start, oracle) = begun(name, backend, loaded)
    *_, (whole, _) = rounds(algorithm, oracle, algorithm.init(start, oracle), COUNT)
    _, (start, oracle) = begun(name, backend, loaded)
    *_, (half, _) = rounds(algorithm, oracle, algorithm.init(start, oracle), COUNT // 2)
    kept = checkpoint.save(tmp_path, half, COUNT // 2, name)
    _, (start, oracle) = begun(name, backend, loaded)
    back, done = checkpoint.restore(kept, algorithm.init(start, oracle), name)
    *_, (resumed, _) = rounds(algorithm, oracle, back, COUNT - done)
    assert same(resumed, whole)
    assert not same(half, whole)
