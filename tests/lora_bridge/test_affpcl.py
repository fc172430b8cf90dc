"""AffPCL's observation on a model: its residuals are gradients, its centre does not degenerate, and
the algorithms are those that run on linear systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import GaussianSystem, InputError
from linsys.algorithms import (
    AffPCL,
    AffPCLState,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    Sampling,
    Start,
    Steps,
    StepSizes,
)
from linsys.oracle import Observation
from linsys.rounds import rounds
from lora_bridge.affpcl import (
    Agents,
    class_logits,
    policy_logits,
    reward_logits,
    soft_cross_entropy,
)
from lora_bridge.bank import AdapterBank
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model

N, CLASSES, Q = 3, 3, 4
ALGORITHMS: dict[str, Any] = {
    "AffPCL": AffPCL(),
    "AffPCL, no ratios": AffPCL(ratio="none"),
    "AffPCL, bias": AffPCL(correction="bias"),
    "AffPCL, implicit centre": AffPCL(center="implicit"),
    "AffPCL, estimated direction": AffPCL(central_direction="estimate"),
    "Independent": Independent(),
    "FedAvg": FedAvg(),
    "Fine-tuning": FineTuning(2),
    "Ditto": Ditto(1.0),
}


def _agents(equal: bool = False, samples: int = 6, batch: int = 3, ratios: bool = True) -> Agents:
    """Agents with a BERT-shaped classifier of three classes."""
    bank = AdapterBank(small_model("bert", torch.float64), ["query", "classifier"], scaling=2.0)
    shards = []
    for i in range(N):
        made = small_batch(1, samples, seed=0 if equal else i)
        generator = torch.Generator().manual_seed(10 if equal else 10 + i)
        draw = torch.rand(samples, CLASSES + Q + N, generator=generator, dtype=torch.float64)
        wanted, features, ratio = torch.split(draw, [CLASSES, Q, N], 1)
        shard = {name: made[name][0] for name in ("input_ids", "attention_mask")}
        shard |= {"label_probabilities": wanted / wanted.sum(1, keepdim=True)}
        shard |= {"features": torch.cat([features[:, :1] * 0 + 1, features[:, 1:]], 1)}
        if ratios:
            shard |= {"log_ratio": torch.log_softmax(ratio, 1) + np.log(N)}
        shards.append(shard)
    return Agents(Task(bank, shards, soft_cross_entropy(), batch=batch))


def _point(agents: Agents, rank: int = 2) -> Tensor:
    """Where training starts: B = 0 and A random, (r, w)."""
    start = agents.task.bank.modules.start(rank, np.random.default_rng(0))
    return torch.from_numpy(start)


def _points(agents: Agents) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    size = (N, _point(agents).numel())
    x = 0.2 * torch.randn(size, generator=generator, dtype=torch.float64)
    return x, torch.randn(N, agents.p, generator=generator, dtype=torch.float64)


def test_residuals_are_gradients_of_cross_entropies() -> None:
    agents = _agents()
    seen = agents.observe(0)
    assert isinstance(seen, Observation)
    x, theta = _points(agents)

    def losses(at: Tensor, wanted: Tensor) -> Tensor:
        output = agents.task.bank.output(agents.rows(at), seen.batch)
        logs = torch.log_softmax(output.logits, -1).reshape(N, -1, CLASSES)
        return torch.mean(-(wanted * logs).sum(-1), -1)

    for residual, wanted in (
        (seen.residual(x), seen.batch["label_probabilities"]),
        (seen.central_residual(x, theta), seen.predicted(theta)),
    ):
        at = x.clone().requires_grad_()
        (true,) = torch.autograd.grad(losses(at, wanted).sum(), at)
        torch.testing.assert_close(residual, true)
        assert true.norm() > 1e-2
    at = theta.clone().requires_grad_()
    gap = seen.batch["label_probabilities"] - seen.predicted(at)
    head = (gap**2).sum(-1).mean(-1) / 2
    (true,) = torch.autograd.grad(head.sum(), at)
    torch.testing.assert_close(seen.objective_residual(theta), true)


def test_one_point_for_all_agents_is_the_same_point_n_times() -> None:
    agents = _agents()
    seen = agents.observe(0)
    x, theta = _points(agents)
    for one, many in (
        (seen.residual(x[:1]), seen.residual(x[:1].repeat(N, 1))),
        (
            seen.central_residual(x[:1], theta[:1]),
            seen.central_residual(x[[0] * N], theta[[0] * N]),
        ),
        (seen.objective_residual(theta[:1]), seen.objective_residual(theta[[0] * N])),
    ):
        torch.testing.assert_close(one, many)


def test_the_central_gradient_does_not_vanish_where_training_starts() -> None:
    """It would, were theta an adapter at the same point: the model against its own words."""
    agents = _agents()
    x, theta = agents.start(_point(agents))
    seen = agents.observe(0)
    own = seen.central_residual(x[:1], theta[None])
    assert (own.norm(dim=1) > 0.05 * seen.residual(x[:1]).norm(dim=1)).all()
    logits = agents.task.bank.output(agents.rows(x), seen.batch).logits
    itself = torch.softmax(logits, -1).reshape(N, -1, CLASSES)
    batch = {**seen.batch, "label_probabilities": itself}
    _, second = agents.task.bank.gradients(agents.rows(x), batch, agents.task.loss)
    assert second.abs().max() < 1e-12


def test_equal_agents_estimate_their_common_objective() -> None:
    """With a head that can say everything theta predicts the targets, and h becomes g."""
    agents = _agents(equal=True, batch=6)
    for shard in agents.task.shards:
        shard["features"] = 2.0 * torch.eye(6, dtype=torch.float64)  # type: ignore[index]
    x, theta = agents.start(_point(agents))
    assert theta.shape == (agents.p,) == (CLASSES * 6,)
    theta = agents.objective(theta, 100, 1.0)  # 1 - 4 / 6 a step, as E z z' = (4 / 6) I
    seen = agents.observe(0)
    torch.testing.assert_close(
        seen.predicted(theta[None]), seen.batch["label_probabilities"], atol=1e-12, rtol=0
    )
    g, h = seen.residual(x), seen.central_residual(x, theta[None])
    assert (h - g).norm() < 1e-12 * g.norm()


def test_different_agents_estimate_the_mean_objective() -> None:
    """Where all have the same texts, the central objective is the mean of what they want."""
    agents = _agents(equal=True, batch=6)
    wanted = torch.softmax(torch.randn(N, 6, CLASSES, dtype=torch.float64), -1)
    for shard, own in zip(agents.task.shards, wanted, strict=True):
        shard["features"] = 2.0 * torch.eye(6, dtype=torch.float64)  # type: ignore[index]
        shard["label_probabilities"] = own  # type: ignore[index]
    theta = agents.objective(torch.zeros(agents.p, dtype=torch.float64), 100, 1.0)
    everything = 1 / CLASSES + 2.0 * theta.reshape(CLASSES, 6).mT
    torch.testing.assert_close(everything, wanted.mean(0), atol=1e-12, rtol=0)


def _noise_case(equal: bool) -> tuple[Agents, AffPCLState]:
    agents = _agents(equal, samples=6, batch=2)
    x, theta = agents.start(_point(agents))
    if not equal:
        x = x + _points(agents)[0]
    state = AffPCL().init(Start(x, agents.objective(theta, 20, 0.2)))
    return agents, state


def test_noise_is_that_of_the_algorithms_own_step() -> None:
    agents, state = _noise_case(equal=False)
    variance = agents.noise(state, draws=5)
    sizes = StepSizes(0.1, 0.1, 0.1, 0.1)
    for algorithm, start, noise in (
        (AffPCL(), state, variance.together),
        (Independent(), Independent().init(state.x), variance.alone),
    ):
        moved = torch.stack(
            [algorithm.update(start, [agents.observe(t, 2)], sizes).x for t in range(5)]
        )
        torch.testing.assert_close(noise, (moved / 0.1).var(0).sum(-1))
    assert (variance.left - variance.alone).abs().min() > 1e-6


@pytest.mark.slow
def test_agents_that_do_not_differ_keep_an_nth_of_their_noise() -> None:
    """g - h vanishes, and (1/n) sum_j h^j has an n-th of the variance: 8 % at 300 draws."""
    agents, _ = _noise_case(equal=True)
    for shard in agents.task.shards:
        shard["features"] = 2.0 * torch.eye(6, dtype=torch.float64)  # type: ignore[index]
        shard["log_ratio"] = torch.zeros(6, N, dtype=torch.float64)  # type: ignore[index]
    x, theta = agents.start(_point(agents))
    theta = agents.objective(theta, 200, 0.5)
    variance = agents.noise(AffPCL().init(Start(x, theta)), draws=300)
    assert variance.left.max() < 1e-12 * variance.alone.min()
    share = float(variance.together.mean() / variance.alone.mean())
    assert abs(share * N - 1) < 4 * 0.08


class _Counted:
    """Which questions an algorithm asks, in order."""

    def __init__(self, seen: Any, asked: list[str]) -> None:
        self.seen, self.asked = seen, asked

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.seen, name)


def _run(algorithm: Any, start: Any, observe: Any, sizes: float, steps: int) -> Any:
    agents = Sampling(observe, Steps.constant(sizes), local_steps=steps)
    *_, (state, _) = rounds(algorithm, agents, algorithm.init(start, agents), 4)
    return algorithm.personal(state)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_one_code_path_for_a_linear_system_and_for_a_model(name: str, steps: int) -> None:
    rng = np.random.default_rng(0)
    system = GaussianSystem(np.zeros((N, 2)), np.ones((N, 2)), np.eye(2), np.eye(2))
    asked: dict[str, list[str]] = {"linear": [], "model": []}
    start = Start(np.zeros((N, 2)), np.zeros(2))
    linear = _run(
        ALGORITHMS[name],
        start,
        lambda t: _Counted(system.observe(system.sample(rng)), asked["linear"]),
        0.05,
        steps,
    )
    agents = _agents()
    first = agents.start(_point(agents))
    model = _run(
        ALGORITHMS[name],
        first,
        lambda t: _Counted(agents.observe(t), asked["model"]),
        0.05,
        steps,
    )
    assert asked["linear"] == asked["model"] != []
    assert linear.shape == start.x0.shape
    assert model.shape == first.x0.shape
    assert (model - first.x0).abs().max() > 1e-4
    same = name == "FedAvg"
    assert torch.equal(model[0], model[1]) == same


def test_equal_agents_that_see_the_same_texts_are_fedavg() -> None:
    agents = _agents(equal=True, batch=6, ratios=False)
    first = agents.start(_point(agents))
    ours, theirs = (
        _run(algorithm, first, agents.observe, 0.05, 1)
        for algorithm in (AffPCL(ratio="none"), FedAvg())
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("logits", "task"), [(reward_logits, "reward"), (policy_logits, "lm")])
def test_preferences_are_probabilities_of_two_answers(logits: Any, task: str) -> None:
    """The softmax of both answers is Bradley and Terry's sigmoid of the margin."""
    model = small_model("bert" if task == "reward" else "gpt2", torch.float64)
    if task == "reward":
        model.classifier = torch.nn.Linear(16, 1, dtype=torch.float64)
    bank = AdapterBank(model, ["query"] if task == "reward" else ["c_attn"])
    made = {k: v.reshape(N, 2, 2, -1) for k, v in small_batch(N, 4).items() if k != "label"}
    made["target_mask"] = made["attention_mask"]
    p = torch.rand(N, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made["label_probabilities"] = torch.cat([p, 1 - p], -1)
    X = 0.1 * torch.randn(N, 2, bank.width, dtype=torch.float64)
    loss = bank.losses(X, made, soft_cross_entropy(logits))
    output = bank.output(X, made)
    flat = {k: v.flatten(0, 2 if v.ndim == 4 else 1) for k, v in made.items()}
    first, second = logits(output, flat).reshape(N, 2, 2).unbind(-1)
    margin = first - second
    log = torch.nn.functional.logsigmoid
    true = -(p[..., 0] * log(margin) + (1 - p[..., 0]) * log(-margin)).mean(1)
    torch.testing.assert_close(loss, true)
    assert margin.abs().max() > 1e-3


def test_bad_input_is_named() -> None:
    agents = _agents(ratios=False)
    seen = agents.observe(0)
    x, theta = _points(agents)
    with pytest.raises(InputError, match=r"`log_ratio` must be in the shards.*ratio='none'"):
        seen.density_ratio()
    with pytest.raises(InputError, match=r"`x` must have shape \(3 or 1, a multiple of"):
        seen.residual(x[:2])
    with pytest.raises(InputError, match="`theta` must have 12 entries"):
        seen.objective_residual(theta[:, :-1])
    task = agents.task
    bare = [{k: v for k, v in shard.items() if k != "features"} for shard in task.shards]
    with pytest.raises(InputError, match="shards must hold `features`"):
        Agents(Task(task.bank, bare, task.loss))
    wrong = [{**shard, "log_ratio": shard["features"]} for shard in task.shards]
    with pytest.raises(InputError, match=r"`log_ratio` must have 3 columns.*\(6, 4\)"):
        Agents(Task(task.bank, wrong, task.loss))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("label_probabilities", lambda v: 7 * v, "`label_probabilities` must have rows with sum 1"),
        (
            "label_probabilities",
            lambda v: 2 * v - 1 / 3,
            "`label_probabilities` must be at least 0",
        ),
        ("label_probabilities", lambda v: v * torch.nan, "`label_probabilities` must be finite"),
        (
            "label_probabilities",
            lambda v: (v > 1).long(),
            "must be a tensor of floating-point numb",
        ),
        (
            "features",
            torch.Tensor.float,
            r"`features` must be of torch\.float64",
        ),
        ("features", lambda v: v / 0.0, "`features` must be finite"),
        ("log_ratio", torch.exp, r"density ratios must be in \[0, 3\]|must have mean 1"),
        ("log_ratio", lambda v: v + 0.1, "density ratios must (have mean 1|be in)"),
    ],
)
def test_targets_and_ratios_that_are_none(name: str, change: Any, message: str) -> None:
    task = _agents().task
    shards = [{**shard, name: change(shard[name])} for shard in task.shards]
    with pytest.raises(InputError, match=message):
        Agents(Task(task.bank, shards, task.loss))


def test_targets_may_be_less_precise_than_features() -> None:
    agents = _agents()
    names = "label_probabilities", "log_ratio"
    shards = [{**s, **{name: s[name].float() for name in names}} for s in agents.task.shards]
    less = Agents(replace(agents.task, shards=shards))
    _, theta = _points(agents)
    rounded, wanted = (each.observe(0).objective_residual(theta) for each in (less, agents))
    torch.testing.assert_close(rounded, wanted, rtol=1e-6, atol=1e-6)


def test_calls_that_make_no_sense() -> None:
    agents = _agents()
    x, theta = _points(agents)
    with pytest.raises(InputError, match="`task` must be a Task of the agents"):
        Agents(agents.task.bank)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`x` must be a tensor of floating-point numbers"):
        agents.rows(x.numpy())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`x` must have shape \(r, "):
        agents.start(_point(agents)[:, :-1])
    for step in (float("nan"), "0.1"):
        with pytest.raises(InputError, match=r"`step` must be a number in \[0"):
            agents.objective(theta[0], 2, step)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`logits` must be a function of \(output, batch\)"):
        soft_cross_entropy("class")  # type: ignore[arg-type]


def test_class_logits_are_the_models() -> None:
    agents = _agents()
    output = agents.task.bank.output(agents.rows(_points(agents)[0]), agents.observe(0).batch)
    assert class_logits(output, {}) is output.logits
