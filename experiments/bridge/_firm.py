"""What the text versions of FIRM's figures share: a model, prompts, rewards, runs, comparisons.

*Model.* A folder of the user's, or the built-in byte-level model. It is frozen and the reference of
the divergence; adapters of rank 16 are on its attention, as in the paper.

*Prompts.* Without a file: four words of docstrings each, in ten domains. With one: questions,
prompts or dialogues of :func:`lora_bridge.prompts.read_prompts`. Some are held out for tests.

*Rewards.* Without reward models two that need none and pull apart: :mod:`lora_bridge.letters`,
shares of two classes of letters in a response, whose Pareto front over all policies is known. With
``reward_models``: local folders of sequence classifiers with one output.

*Training.* As the paper says where it does: 16 rounds, a rollout of 16 prompts in each, three
epochs of minibatches of 8, hence K = 6 local steps; rank 16, scaling 2; the divergence's target .03
per token; the trace-normalised Gram matrix. What it leaves open is chosen in
:mod:`lora_bridge.firm` and a field of the configuration here. Dropout is 0, so that PPO's ratios
begin at 1. Clients step with Adam.

*Step sizes.* The paper's 6e-5 is for models of 10^9 parameters. That of the built-in model was
taken from (.003, .01, .03) once, as the one after whose 16 rounds FIRM (beta = .01, 8 clients) has
the largest mean reward on a draw that is used for nothing else; with several ``gammas`` that choice
is made anew. Critics step by 1e-3, ten times as far as the paper's, so that they know the mean
reward after a rollout or two: hidden states have entries of about 1.

*Seeds.* One of ``seeds`` is one draw of prompts, clients, responses and first adapters; the model
is the same. Arms of a comparison share them, up to where their policies part. Differences are
formed within a seed; 95 % intervals (Student) are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments import _rates
from experiments._intervals import mean_interval
from experiments._model import Analysis, Block, Check, Columns, Context, Series
from experiments._plots import curves, legend, panels
from experiments._rates import Interval, mean_band
from experiments._table import Table, long_table
from experiments.bridge._federated import ModelConfig, threads
from linsys import InputError
from linsys._validate import number, whole
from mgda.firm import FIRM
from mgda.simplex import gram, simplex_qp, trace_normalised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.bank import AdapterBank
    from lora_bridge.data import Example
    from lora_bridge.firm import Alignment
    from lora_bridge.rewards import Reward
    from mgda._federated import Federated, State

Values = NDArray[np.float64]
#: An algorithm of a step size.
Method = Callable[[float], "Federated"]

#: Rewards "match" if they differ by at most this share of what training gains, as in ``firm``.
MATCH = 0.1
#: Classes of letters of the two objectives, and of what others take for the first one (Figure 4).
CLASSES, OTHER = ("aeiou", "nrst"), "aioly"
#: Drifts that a logarithmic axis tells from zero.
TINY = 1e-12
#: Responses that are judged at a time.
_AT_ONCE = 128
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
class FirmConfig(ModelConfig):
    """A run of alignment.

    Attributes:
        reward_models: folders of the rewards' models; letters without them.
        reward_scaling: how their outputs become numbers in [0, 1].
        clients: C.
        tests: prompts that are held out, but at most a quarter of all.
        prompts: of each client, on average.
        rounds: aggregations; a rollout of ``batch`` prompts in each.
        minibatch, epochs, length, temperature: of PPO.
        beta: of FIRM.
        optimizer, moments: of the clients, see :class:`mgda._federated.Federated`.
        kl, kl_kind, kl_unit, whitened, average, clip, gamma, lam: see :mod:`lora_bridge.firm`.
        kl_start, kl_target, kl_horizon: of the divergence's coefficient; a target of None fixes it.
        critic_step: step size of the critics.
        half_life: of the moving average that weights of single runs are drawn with, local steps.
    """

    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    scaling: float = 2.0
    gammas: tuple[float, ...] = (0.003,)
    seeds: int = 5
    batch: int = 16
    tests: int = 512
    max_length: int = 24
    reward_models: tuple[Path, ...] = ()
    reward_scaling: Literal["range", "sigmoid"] = "sigmoid"
    clients: int = 8
    prompts: int = 64
    rounds: int = 16
    minibatch: int = 8
    epochs: int = 3
    length: int = 16
    temperature: float = 1.0
    beta: float = 0.01
    optimizer: Literal["adam", "sgd"] = "adam"
    moments: Literal["kept", "reset"] = "kept"
    kl: Literal["outside", "inside"] = "outside"
    kl_kind: Literal["k1", "k2", "k3"] = "k1"
    kl_unit: Literal["token", "sequence"] = "token"
    kl_start: float = 0.2
    kl_target: float | None = 0.03
    kl_horizon: int = 10_000
    whitened: bool = True
    average: Literal["token", "sequence", "sum"] = "token"
    clip: float = 0.2
    gamma: float = 1.0
    lam: float = 0.95
    critic_step: float = 1e-3
    half_life: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("clients", "prompts", "minibatch", "epochs", "length"):
            whole(name, getattr(self, name), low=1)
        whole("rounds", self.rounds, low=4)
        number("beta", self.beta, low=0.0)
        number("half_life", self.half_life, low=0.0, low_open=True)
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
    def K(self) -> int:
        """Local steps of a round."""
        return self.epochs * self.batch // self.minibatch

    @property
    def steps(self) -> NDArray[np.int64]:
        """All local steps, from 1."""
        return np.arange(1, self.rounds * self.K + 1)

    @property
    def alike(self) -> dict[str, Any]:
        """What all algorithms have in common but for their step size."""
        return {"K": self.K, "optimizer": self.optimizer, "moments": self.moments}

    def firm(self, **options: Any) -> Method:
        """FIRM as the experiments have it."""
        given = {"beta": self.beta, **self.alike, **options}
        return lambda alpha: FIRM(alpha=alpha, **given)

    def rewards(self) -> tuple[Reward, ...]:
        """The rewards of the figure, two of them and what it adds."""
        return _rewards(self)

    @property
    def objectives(self) -> tuple[str, str]:
        """The two rewards in words."""
        if not self.reward_models:
            return tuple(f"share of {letters}" for letters in CLASSES)  # type: ignore[return-value]
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


@lru_cache(maxsize=2)
def _rewards(config: FirmConfig) -> tuple[Reward, ...]:
    from lora_bridge.letters import letter_rewards
    from lora_bridge.rewards import RewardModel

    if not config.reward_models:
        return (*letter_rewards(config.length, CLASSES), *letter_rewards(config.length, (OTHER,)))
    return tuple(RewardModel(folder, device=config.device) for folder in config.reward_models)


@lru_cache(maxsize=8)
def _prompts(config: FirmConfig, use: str, k: int) -> tuple[list[Example], list[str]]:
    """Prompts for training and for tests of a draw."""
    from lora_bridge.prompts import built_in_prompts, read_prompts

    seed = config.derive("prompts", use, k)
    if config.data is None:
        known = built_in_prompts(config.clients * config.prompts + config.tests, seed=seed)
    else:
        found = read_prompts(config.data)
        known = [found[i] for i in np.random.default_rng(seed).permutation(len(found))]
    tests = min(config.tests, len(known) // 4)
    if len(known) - tests < config.clients:
        raise InputError(
            f"`data` must hold prompts for clients = {config.clients} and tests; found {len(known)}"
        )
    wanted = tests + config.clients * config.prompts
    return known[tests:wanted], [example.prompt for example in known[:tests]]


def alignment(config: FirmConfig, bank: AdapterBank, arm: Arm, use: str, k: int) -> Alignment:
    """The oracle of an arm on a draw."""
    from lora_bridge.critics import Critics
    from lora_bridge.firm import Alignment
    from lora_bridge.ppo import Controller
    from lora_bridge.splits import dirichlet, evenly

    train, _ = _prompts(config, use, k)
    C, seed = arm.clients or config.clients, config.derive("split", use, k)
    if arm.shares is None:
        shares = evenly(train, C, seed)
    else:
        shares = dirichlet(train, C, lambda example: example.domain, arm.shares, seed)
    first, second, *_ = known = config.rewards()
    chosen = arm.rewards or (lambda client, rewards: (first, second))
    return Alignment(
        bank=bank,
        tokenizer=config.load("lm").tokenizer,
        prompts=[[example.prompt for example in share] for share in shares],
        rewards=[chosen(client, known) for client in range(C)],
        scaling="range" if not config.reward_models else config.reward_scaling,
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


def train(
    config: FirmConfig,
    arm: Arm,
    use: str,
    k: int,
    context: Context,
    *,
    alpha: float,
    betas: Sequence[float] = (),
    name: str = "",
) -> dict[str, Values]:
    """One draw trained to the end; what is seen of every step along axis 0, steps in all.

    ``name`` is the arm's: what is kept for a run to go on belongs to it.

    Returns:
        ``weights`` (steps, C, 2), ``scores`` (steps, C, 2) of the rollout in use, ``kl_token`` and
        ``kl_sequence`` (steps, C) of it; ``drift`` (steps,), the disagreement; ``others`` (steps,
        len(betas)), what it would be with other betas for the same gradients; ``cosine`` (steps,
        C), between a client's gradients; ``ends`` (steps, R), what the last policy gets on the
        tests of all rewards of the figure, the same in all steps.
    """
    from lora_bridge.firm import from_kept, to_keep
    from lora_bridge.runs import recorded

    bank = config.bank(config.load("lm"), config.targets)
    oracle = alignment(config, bank, arm, use, k)
    algorithm = arm.method(alpha)
    state = beginning(config, oracle, algorithm, use, k)
    C = oracle.C
    seen = {
        "weights": np.zeros((C, 2)),
        "scores": np.zeros((C, 2)),
        "kl_token": np.zeros(C),
        "kl_sequence": np.zeros(C),
        "drift": np.zeros(()),
        "others": np.zeros(len(betas)),
        "cosine": np.zeros(C),
        "ends": np.zeros(len(config.rewards())),
    }

    def advance(now: tuple[Any, dict[str, Any]], t: int) -> tuple[Any, dict[str, Any]]:
        import torch

        before = from_kept(now[0])
        gradients, *kept = oracle.jac(before.theta, before.memory)
        after = algorithm.step(before, gradients, *kept)
        report = after.memory.report
        assert after.weights is not None
        found = {name: report[name].double().cpu().numpy() for name in _REPORTED}
        found |= looked_at(gradients[0], after.weights[0], betas)
        found["ends"] = seen["ends"]
        if t + 1 == config.steps[-1]:
            found["ends"] = judge(config, bank, after.theta[0, :1], use, k)
        return to_keep(after), {n: torch.from_numpy(np.array(v)) for n, v in found.items()}

    def measure(now: tuple[Any, dict[str, Any]]) -> dict[str, Values]:
        return {name: value.numpy() for name, value in now[1].items()}

    import torch

    first = (to_keep(state), {name: torch.from_numpy(v) for name, v in seen.items()})
    run = f"{name} {algorithm} {oracle.choices} {use} {k}"
    times = config.steps.tolist()
    found = recorded(run, advance, first, times, measure, folder=context.folder, every=25)
    found["ends"] = np.broadcast_to(found["ends"][-1], found["ends"].shape)
    return found


def beginning(
    config: FirmConfig, oracle: Alignment, algorithm: Federated, use: str, k: int
) -> State:
    """The first state of a draw: the same adapters for all clients, of zero effect."""
    rng = np.random.default_rng(config.derive("start", use, k))
    start = config.tensor(oracle.bank.modules.start(config.rank, rng)).reshape(1, 1, -1)
    return algorithm.init(start.expand(1, oracle.C, -1), memory=oracle.init())


_REPORTED = ("scores", "kl_token", "kl_sequence")


def looked_at(gradients: Any, weights: Values, betas: Sequence[float]) -> dict[str, Values]:
    """Drift, what it would be with other betas, and cosines, of gradients (C, d, 2).

    All are functions of inner products, so that gradients are read once.
    """
    C, d, M = gradients.shape
    flat = gradients.swapaxes(0, 1).reshape(d, C * M)
    G = gram(flat)
    own = G.reshape(C, M, C, M)[np.arange(C), :, np.arange(C)]
    lengths = np.sqrt(np.einsum("cjj->cj", own))
    others = [simplex_qp(trace_normalised(own), beta=beta).weights for beta in betas]
    return {
        "weights": weights,
        "drift": np.array(_drift(G, weights)),
        "others": np.array([_drift(G, w) for w in others]),
        "cosine": own[:, 0, 1] / np.maximum(lengths[:, 0] * lengths[:, 1], 1e-300),
    }


def _drift(G: Values, weights: Values) -> float:
    """The disagreement of weights (C, M) for gradients with inner products G (C M, C M)."""
    apart = weights - weights[:1]  # exactly zero where all are the same
    v = (apart - apart.mean(axis=0)).ravel() / len(weights)
    return max(float(v @ G @ v), 0.0)


def judge(config: FirmConfig, bank: AdapterBank, theta: Any, use: str, k: int) -> Values:
    """Mean rewards (R,) of one policy on the prompts for tests; all policies use the same numbers.

    All rewards of the figure, two or more.

    Args:
        config: the set-up.
        bank: of the model.
        theta: the adapter, shape (1, d).
        use, k: the draw.
    """
    from lora_bridge.rewards import scores
    from lora_bridge.rollouts import encode_prompts, responses, sample

    tokenizer, tests = config.load("lm").tokenizer, _prompts(config, use, k)[1]
    X = theta.reshape(1, config.rank, -1)
    scaling = "range" if not config.reward_models else config.reward_scaling
    total = np.zeros(len(config.rewards()))
    for start in range(0, len(tests), _AT_ONCE):
        texts = [tests[start : start + _AT_ONCE]]
        batch = sample(
            bank,
            X,
            encode_prompts(tokenizer, texts, config.max_length, too_long="cut"),
            length=config.length,
            temperature=config.temperature,
            seed=config.derive("judge", use, k),
            round_=start,
        )
        found = scores(config.rewards(), texts, responses(tokenizer, batch), scaling)
        total += found.numpy()[0].sum(axis=0)
    return total / len(tests)


def step_size(config: FirmConfig, context: Context) -> float:
    """That of the largest mean reward of FIRM on other draws, where there is a choice."""
    arm = Arm(config.firm())

    def score(alpha: float, k: int) -> float:
        return -float(train(config, arm, "tuning", k, context, alpha=alpha)["ends"][-1].mean())

    return config.best(score)


def columns(
    config: FirmConfig, arms: dict[str, Arm], k: int, context: Context, betas: Sequence[float] = ()
) -> Columns:
    """All arms of draw k: one row per arm and step; ``start`` and ``end`` are on the tests."""
    with threads(context):
        alpha = step_size(config, context)
        runs = [
            train(config, arm, "test", k, context, alpha=alpha, betas=betas, name=name)
            for name, arm in arms.items()
        ]
        bank = config.bank(config.load("lm"), config.targets)
        zero = config.tensor(np.zeros((1, config.rank * bank.width)))
        start = judge(config, bank, zero, "test", k)
    values: dict[str, Any] = {
        "closest": np.stack([run["cosine"].max(axis=1) for run in runs]),
        "weight": np.stack([run["weights"][..., 0].mean(axis=1) for run in runs]),
        "spread": np.stack([run["weights"][..., 0].std(axis=1) for run in runs]),
        "client_1": np.stack([run["weights"][:, 0, 0] for run in runs]),
        "client_2": np.stack([run["weights"][:, -1, 0] for run in runs]),
        "drift": np.stack([run["drift"] for run in runs]),
        "cosine": np.stack([run["cosine"].mean(axis=1) for run in runs]),
        "kl_token": np.stack([run["kl_token"].mean(axis=1) for run in runs]),
        "kl_sequence": np.stack([run["kl_sequence"].mean(axis=1) for run in runs]),
    }
    for j in (0, 1):
        values[f"reward_{j + 1}"] = np.stack([run["scores"][..., j].mean(axis=1) for run in runs])
    for j in range(len(start)):
        values[f"end_{j + 1}"] = np.stack([run["ends"][:, j] for run in runs])
        values[f"start_{j + 1}"] = start[j]
    for i, beta in enumerate(betas):
        values[f"drift_at_{beta:g}"] = np.stack([run["others"][:, i] for run in runs])
    axes: dict[str, Any] = {"arm": list(arms), "t": config.steps}
    return long_table(axes, **values, alpha=alpha, what=said_of_model(config))


def said_of_model(config: FirmConfig) -> str:
    """Model, prompts and rewards."""
    data = "built-in prompts" if config.data is None else config.data.name
    rewards = " and ".join(config.objectives)
    return f"model {config.load('lm').name}, {data}; rewards: {rewards}"


def gain(table: Table, j: int, arm: str) -> Values:
    """What training adds to reward j = 1, 2, .. on the tests, (seeds,)."""
    part = table.where(arm=arm, t=1)
    return np.asarray(part.grid(f"end_{j}", "draw") - part.grid(f"start_{j}", "draw"))


def mean_gain(table: Table, arm: str) -> float:
    """The same, averaged over both rewards and seeds: the scale of all differences."""
    found = float(np.mean([gain(table, j, arm) for j in (1, 2)]))
    if found <= 0.0:
        raise InputError(
            f"`gammas` and `rounds` must be such that training helps; found that {arm} changes the "
            f"mean reward by {found:.3g}"
        )
    return found


def advantage(table: Table, j: int, ours: str, theirs: str) -> Interval:
    """How much more of reward j ``ours`` gains, as a share of the mean gain of ``theirs``."""
    return mean_interval((gain(table, j, ours) - gain(table, j, theirs)) / mean_gain(table, theirs))


def rewards_match(config: FirmConfig, table: Table, ours: str, theirs: str) -> list[Check]:
    """The claims that both rewards end alike."""
    return [
        _rates.within(
            f"{title}: ({ours} − {theirs}) / gain",
            f"matches: within {MATCH:g} of the gain",
            advantage(table, j, ours, theirs),
            -MATCH,
            MATCH,
        )
        for j, title in enumerate(config.objectives, start=1)
    ]


def curves_of(table: Table, column: str, arm: str) -> Values:
    """A column of one arm, (seeds, steps)."""
    return np.asarray(table.where(arm=arm).grid(column, "draw", "t"))


def weights_match(table: Table, ours: str, theirs: str) -> Check:
    """The claim that mean weights are "nearly identical": no further apart than two runs are.

    The mean distance of two runs with one seed over that of two runs of ``theirs`` with two seeds,
    root mean squares over time. A ratio below one cannot be told from noise in single runs.
    """
    a, b = curves_of(table, "weight", ours), curves_of(table, "weight", theirs)
    apart = np.sqrt(((a - b) ** 2).mean(axis=1))
    pairs = np.sqrt(2.0 * b.var(axis=0, ddof=1).mean())
    return _rates.at_most(
        f"distance of the weights of {ours} and {theirs} / distance of two runs",
        "nearly identical: at most 1",
        mean_interval(apart / pairs),
        1.0,
    )


def log_band(values: Values) -> tuple[Values, Values, Values]:
    """Geometric means over seeds with 90 % bands, for logarithmic axes; zero counts as tiny."""
    mean, lo, hi = mean_band(np.log(np.maximum(values, TINY)))
    return np.exp(mean), np.exp(lo), np.exp(hi)


def rewards_shown(config: FirmConfig, table: Table, arms: Iterable[str]) -> list[Series]:
    """Both rewards of the rollouts against rounds: means over seeds with 90 % bands."""
    rounds = np.arange(config.rounds)
    return [
        Series(arm, title, rounds, *mean_band(curves_of(table, f"reward_{j}", arm)[:, :: config.K]))
        for j, title in enumerate(config.objectives, start=1)
        for arm in arms
    ]


def shown(
    config: FirmConfig, table: Table, column: str, title: str, arms: Iterable[str]
) -> list[Series]:
    """A column averaged over the steps of a round, against rounds, with 90 % bands over seeds."""
    rounds = np.arange(config.rounds)
    found = []
    for arm in arms:
        values = curves_of(table, column, arm)
        each = values.reshape(len(values), config.rounds, config.K).mean(axis=-1)
        found.append(Series(arm, title, rounds, *mean_band(each)))
    return found


def said(config: FirmConfig, table: Table) -> list[str]:
    """Model, data, seeds, switches, and how far policies went."""
    last = table.where(t=int(config.steps[-1]))
    switches = (
        f"K = {config.K}, {config.optimizer} (moments {config.moments}), KL {config.kl} the "
        f"weights ({config.kl_kind}, target {config.kl_target} per {config.kl_unit}, from "
        f"{config.kl_start:g}), advantages {'' if config.whitened else 'not '}whitened, mean of "
        f"tokens by {config.average}"
    )
    return [
        f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}",
        f"step size {table['alpha'][0]:g}; {switches}",
        f"last rollouts: KL {last['kl_token'].mean():.3f} per token, "
        f"{last['kl_sequence'].mean():.2f} per response",
    ]


#: Panels of a comparison of two arms.
WEIGHT, SPREAD, DRIFT = "mean weight", "spread of weights", "disagreement drift"


def blocks(config: FirmConfig) -> list[Block]:
    """One draw at a time."""
    return [{"draw": k} for k in range(config.seeds)]


def comparison(config: FirmConfig, table: Table, arms: Sequence[str]) -> list[Series]:
    """Weights, their spread and both rewards of some arms."""
    return [
        *shown(config, table, "weight", f"{WEIGHT} of {config.objectives[0]}", arms),
        *shown(config, table, "spread", SPREAD, arms),
        *rewards_shown(config, table, arms),
    ]


def picture(config: FirmConfig, analysis: Analysis) -> Figure:
    """Two panels to a row, against rounds."""
    figure, axes = panels(analysis.series, columns=2, width=3.2, share_y=False)
    curves(axes, analysis.series)
    for ax in axes.values():
        ax.set_xticks(np.arange(0, config.rounds + 1, -(-config.rounds // 4)))
    for ax in list(axes.values())[-2:]:
        ax.set_xlabel("round")
    legend(figure, axes, columns=3)
    return figure
