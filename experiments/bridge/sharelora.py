"""P-ShareLoRA and its rivals as reward models: accuracy of every user's, on a language model.

Problem and assumptions: users compare pairs of texts, and a reward model with adapters of its own
for every user is trained on -log sigmoid(r(chosen) - r(rejected)). Without a file, texts are words,
and the reward of user i is <theta_i, phi> over four properties phi in {-1, 1} of a word ("long",
"first", ..): theta_i = sqrt(1 - own) c + sqrt(own) v_i with independent c, v_i of the same length,
so that the users agree on 1 - own of what they want on average. What they have in common besides is
which properties there are to be read: the assumption of the paper. Answers are drawn by Bradley and
Terry. With a file: pairs with ``user``.

Algorithms: those of :mod:`linsys.preference.sharelora`, on :class:`lora_bridge.oracles.Users`.

*The score head* is one more adapted module, the last one. ``head`` says whether it is frozen, the
same for all users, or each user's own; whatever the method does with the other modules. A frozen
head has the numbers it was given, random ones unless the model has a head. (With Share-Rep, which
trains nothing that it shares, a shared head is a frozen one; a warm-up shares even personal heads.)

Claims (Section 6, Appendix D.3): P-ShareLoRA beats LoRA-global and LoRA-local, G and WU are at
least as good as SI, and it is the up factor that should be shared. *Measured*: the distance between
users' factors as subspaces, the mean squared sine of their angles over that of random subspaces,
1 - r / m, without the head: 0 for the same, 1 for unrelated ones. If the assumption holds,
LoRA-local, where nothing but the common model makes them alike, has up factors below 1.

What the text leaves open, and the choices here: every method has its own first step size, see
``_federated``. Accuracies are those of held-out answers, which are as random as the others: a note
says how many the true rewards get right.

References: P-ShareLoRA, Section 6 and Appendix D.

The picture shows means over seeds, with 90 % intervals but by user; checks are paired within seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from experiments._intervals import mean_interval
from experiments._model import Analysis, Block, Check, Columns, Context, Experiment, Series
from experiments._plots import look, panels
from experiments._rates import below, mean_band
from experiments._table import Table, long_table
from experiments.bridge._federated import (
    PROPERTIES,
    ModelConfig,
    Values,
    gap,
    said,
    threads,
    word,
)
from linsys import InputError
from linsys._validate import choice, number, whole
from linsys.preference.sharelora import METHODS, Mask, ShareLoRA, method
from linsys.sketching.adapters import Modules

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.data import Pair
    from lora_bridge.oracles import Users

Head = Literal["frozen", "shared", "personal"]
HEADS: tuple[Head, ...] = ("frozen", "shared", "personal")
OURS, LEAST = "SI", 1e-6
#: The name of the head in transformers' models for sequences.
SCORE = "score"


@dataclass(frozen=True, kw_only=True)
class Headed(ShareLoRA):
    """ShareLoRA with a score head, the last module, that is shared or personal by itself.

    Args:
        head: "frozen" where the head is no module at all.

    >>> modules = Modules([(2, 1), (1, 2)])
    >>> Headed(gamma=1.0, shared="up", head="shared").mask(modules).tolist()
    [True, True, False, True, True, True]
    """

    head: str = "frozen"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("head", self.head, HEADS)

    def mask(self, modules: Modules) -> Mask:
        """The shared coordinates after the warm-up, shape (w,)."""
        if self.head == "frozen":
            return super().mask(modules)
        body = Modules(modules.shapes[:-1])
        end = np.full(modules.width - body.width, self.head == "shared")
        return np.concatenate([super().mask(body), end])


@dataclass(frozen=True, kw_only=True)
class ShareConfig(ModelConfig):
    """The set-up.

    Attributes:
        users: how many; of a file, the first ones by name.
        pairs: training pairs of a user.
        own: share of a user's wishes that is its own.
        size: length of theta_i times 2, the size of logits.
        epochs: of every method.
        head: under which the methods are compared; ``OURS`` is tried with the others too. Frozen,
            it leaves the methods as they are: with a personal one LoRA-global is not all global.
    """

    rank: int = 4
    gammas: tuple[float, ...] = (0.015, 0.04)
    batch: int = 16
    tests: int = 100
    seeds: int = 5
    users: int = 5
    pairs: int = 160
    own: float = 0.3
    size: float = 3.0
    epochs: float = 5.0
    head: Head = "frozen"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low in (("users", 2), ("pairs", 1)):
            whole(name, getattr(self, name), low=low)
        number("own", self.own, low=0.0, high=1.0)
        for name in ("size", "epochs"):
            number(name, getattr(self, name), low=0.0, low_open=True)
        choice("head", self.head, HEADS)


@dataclass(frozen=True, eq=False)
class Draw:
    """Users with their pairs.

    Attributes:
        oracle: the users.
        tests: their held-out pairs, encoded.
        users: their names.
        best: share of the held-out answers that the true rewards get right; nan if unknown.
        name: of model and data.
    """

    oracle: Users
    tests: Sequence[Mapping[str, Any]]
    users: Sequence[str]
    best: float
    name: str

    def accuracy(self, X: Any) -> Values:
        """On every user's held-out pairs, (users,)."""
        from lora_bridge.losses import reward_error
        from lora_bridge.tasks import Task

        task = Task(self.oracle.task.bank, self.tests, reward_error)
        return np.array([1.0 - task.evaluate(i, X[i]) for i in range(len(X))])

    def loss(self, X: Any) -> float:
        """Mean loss on the held-out pairs of all users."""
        from lora_bridge.losses import reward_preference_loss
        from lora_bridge.tasks import Task

        task = Task(self.oracle.task.bank, self.tests, reward_preference_loss)
        return float(np.mean([task.evaluate(i, X[i]) for i in range(len(X))]))


@lru_cache(maxsize=16)
def _drawn(config: ShareConfig, head: str, use: str, k: int) -> Draw:
    from lora_bridge.losses import reward_preference_loss
    from lora_bridge.oracles import Users
    from lora_bridge.tasks import Task
    from lora_bridge.tokens import encode_pairs

    seed = config.derive("draw", use, k)
    pairs, best = _pairs(config, np.random.default_rng(seed))
    loaded = config.load("reward")
    made = encode_pairs(
        loaded.tokenizer, [p for own in pairs.values() for p in own], config.max_length, "cut"
    )
    sizes, shards, at = [len(own) for own in pairs.values()], [], 0
    for size in sizes:
        shards.append({name: value[at : at + size] for name, value in made.items()})
        at += size
    targets = config.targets if head == "frozen" else (*config.targets, SCORE)
    bank = config.bank(loaded, targets)
    train = [{name: value[config.tests :] for name, value in shard.items()} for shard in shards]
    tests = [{name: value[: config.tests] for name, value in shard.items()} for shard in shards]
    task = Task(bank, train, reward_preference_loss, config.batch, seed)
    data = "generated words" if config.data is None else config.data.name
    return Draw(Users(task), tests, list(pairs), best, f"model {loaded.name}, data: {data}")


def _pairs(config: ShareConfig, rng: np.random.Generator) -> tuple[dict[str, list[Pair]], float]:
    """Every user's pairs, the held-out ones first, and how many of those true rewards get right."""
    from lora_bridge.data import Pair, read_pairs
    from lora_bridge.splits import by_key

    count = config.tests + config.pairs
    if config.data is not None:
        groups = by_key(read_pairs(config.data), lambda pair: pair.user)
        if len(groups) < config.users:
            raise InputError(f"`data` must have {config.users} users; found {len(groups)}")
        found = {}
        for user in list(groups)[: config.users]:
            if len(groups[user]) <= config.tests:
                raise InputError(
                    f"`data` must have more than tests = {config.tests} pairs of user {user}; "
                    f"found {len(groups[user])}"
                )
            found[user] = [groups[user][j] for j in rng.permutation(len(groups[user]))[:count]]
        return found, float("nan")
    directions = rng.normal(size=(config.users + 1, len(PROPERTIES)))
    directions *= 0.5 * config.size / np.linalg.norm(directions, axis=1, keepdims=True)
    made, right = {}, []
    for i in range(config.users):
        theta = np.sqrt(1 - config.own) * directions[-1] + np.sqrt(config.own) * directions[i]
        pairs = []
        for j in range(count):
            first, second, gain = _differing(theta, rng)
            if rng.random() > 1.0 / (1.0 + np.exp(-gain)):
                first, second, gain = second, first, -gain
            pairs.append(Pair("", first, second, user=f"user {i}"))
            if j < config.tests:
                right.append(gain > 0)
        made[f"user {i}"] = pairs
    return made, float(np.mean(right))


def _differing(theta: Values, rng: np.random.Generator) -> tuple[str, str, float]:
    """Two words of different rewards, and by how much the first one's is larger."""
    while True:
        first, second = word(rng), word(rng)
        gain = float(theta @ (_properties(first) - _properties(second)))
        if abs(gain) > LEAST:
            return first, second, gain


def _properties(text: str) -> Values:
    return np.array([1.0 if has(text) else -1.0 for has in PROPERTIES.values()])


def spread(modules: Modules, X: Any, r: int) -> tuple[float, float]:
    """How far users' up and down factors are from each other, over what random ones are.

    The mean of 1 - ||U_i' U_j||^2 / r over pairs of users and modules with m > r, over 1 - r / m;
    a module whose factors are zero, as B is before it is trained, is left out. NaN with none left.
    """
    means = []
    for side in (0, 1):
        found = []
        for pair in modules.split(np.asarray(X)):
            factors = pair[0] if side == 0 else pair[1].mT
            m = factors.shape[1]
            if m <= r or not np.linalg.norm(factors, axis=(1, 2)).all():
                continue
            Q = np.linalg.qr(factors)[0]
            i, j = np.triu_indices(len(Q), 1)
            common = ((Q[i].mT @ Q[j]) ** 2).sum(axis=(1, 2)).mean() / r
            found.append((1.0 - common) / (1.0 - r / m))
        means.append(float(np.mean(found)) if found else float("nan"))
    return means[0], means[1]


def blocks(config: ShareConfig) -> list[Block]:
    """One method at a time, then the paper's with the other heads."""
    others = [head for head in HEADS if head != config.head]
    arms = [*((name, config.head) for name in METHODS), *((OURS, head) for head in others)]
    return [{"method": name, "head": head} for name, head in arms]


def compute(config: ShareConfig, block: Block, context: Context) -> Columns:
    """Choose a method's step size, then train it on all seeds."""
    with threads(context):
        return _compute(config, block["method"], block["head"])


def _compute(config: ShareConfig, name: str, head: str) -> Columns:
    def run(gamma: float, use: str, k: int) -> tuple[Draw, Any, int]:
        draw = _drawn(config, head, use, k)
        plain = method(name, gamma, epochs=config.epochs)
        algorithm = Headed(
            gamma=gamma,
            shared=plain.shared,
            warmup=plain.warmup,
            epochs=plain.epochs,
            head=head,
        )
        start = _start(algorithm, draw.oracle.modules, config, config.derive("run", use, k))
        state, rejected = algorithm.run(algorithm.init(config.tensor(start), draw.oracle))
        return draw, state.X, sum(rejected.values())

    def score(gamma: float, k: int) -> float:
        draw, X, _ = run(gamma, "tuning", k)
        return draw.loss(X)

    gamma = config.best(score)
    found = [run(gamma, "test", k) for k in range(config.seeds)]
    far = [_far(d.oracle.modules, X.double().cpu().numpy(), config, head) for d, X, _ in found]
    up, down = np.array(far).T[..., None]
    axes: dict[str, Any] = {"draw": np.arange(config.seeds), "user": list(found[0][0].users)}
    return long_table(
        axes,
        accuracy=np.array([d.accuracy(X) for d, X, _ in found]),
        loss=np.array([[d.loss(X)] for d, X, _ in found]),
        up=up,
        down=down,
        best=np.array([[d.best] for d, _, _ in found]),
        missing=np.array([[lost] for _, _, lost in found]),
        gamma=gamma,
        what=found[0][0].name,
    )


def _far(modules: Modules, X: Values, config: ShareConfig, head: str) -> tuple[float, float]:
    """:func:`spread` without the head."""
    body = modules if head == "frozen" else Modules(modules.shapes[:-1])
    return spread(body, X[..., : body.width], config.rank)


def _start(algorithm: ShareLoRA, modules: Modules, config: ShareConfig, seed: int) -> Values:
    """LoRA's start: personal factors differ; a head of one row may have more components than rows.

    As :meth:`ShareLoRA.start`, which has no head in mind and no rank above a module's.
    """
    rng = np.random.default_rng(seed)
    X = np.stack([modules.start(config.rank, rng) for _ in range(config.users)])
    return np.where(algorithm.mask(modules) | (algorithm.warmup > 0), X[0], X)


MEAN, BY_USER, AT_HEADS, FAR = (
    "accuracy, mean over users",
    "accuracy by user",
    f"accuracy of {OURS} by score head",
    "distance of users' factors",
)


def analyse(config: ShareConfig, table: Table) -> Analysis:
    """Accuracies by method, user and head, distances, and the claims."""
    found = {name: _grid(table, "accuracy", name, config.head) for name in METHODS}
    users = np.arange(1, config.users + 1)
    means = np.stack([values.mean(axis=1) for values in found.values()], axis=1)
    places = np.arange(len(METHODS))
    series = [Series("mean", MEAN, places, *mean_band(means))]
    series += [Series(n, BY_USER, users, values.mean(axis=0)) for n, values in found.items()]
    heads = [_grid(table, "accuracy", OURS, head).mean(axis=1) for head in HEADS]
    series.append(
        Series("mean", AT_HEADS, np.arange(len(HEADS)), *mean_band(np.stack(heads, axis=1)))
    )
    for side in ("up", "down"):
        far = [_grid(table, side, name, config.head)[:, 0] for name in METHODS]
        series.append(Series(side, FAR, places, *mean_band(np.stack(far, axis=1))))
    mean = {name: values.mean(axis=1) for name, values in found.items()}
    return Analysis(series, _claims(config, table, mean), _notes(config, table, mean))


def _claims(config: ShareConfig, table: Table, mean: Mapping[str, Values]) -> list[Check]:
    pairs = [
        *((OURS, other) for other in ("LoRA-global", "LoRA-local", "down")),
        ("G", OURS),
        ("WU", OURS),
    ]
    checks = [
        gap(f"accuracy over users, {one} − {other}", "above 0", mean[one], mean[other])
        for one, other in pairs
    ]
    local = _grid(table, "up", "LoRA-local", config.head)[:, 0]
    checks.append(
        below(
            "distance of LoRA-local's up factors, over random ones",
            "a common factor: below 1",
            mean_interval(local),
        )
    )
    frozen, *trained = (_grid(table, "accuracy", OURS, head).mean(axis=1) for head in HEADS)
    return checks + [
        gap(f"accuracy of {OURS}, {head} head − frozen head", "above 0", values, frozen)
        for head, values in zip(HEADS[1:], trained, strict=True)
    ]


def _notes(config: ShareConfig, table: Table, mean: Mapping[str, Values]) -> list[str]:
    best = table["best"]
    known = [f"the true rewards get {best.mean():.3f} of the held-out answers right"]
    return [
        f"score head: {config.head}",
        f"accuracies: {', '.join(f'{name} {v.mean():.3f}' for name, v in mean.items())}",
        *(known if np.isfinite(best).all() else []),
        *said(config, table, "method", "head"),
    ]


def _grid(table: Table, value: str, name: str, head: str) -> Values:
    """A value (seeds, users)."""
    return np.asarray(table.where(method=name, head=head).grid(value, "draw", "user"))


def draw(config: ShareConfig, analysis: Analysis) -> Figure:
    """Means and distances with their intervals, users as lines."""
    figure, axes = panels(analysis.series, columns=2, width=3.5, height=2.6, share_y=False)
    for panel, ax in axes.items():
        inside = [s for s in analysis.series if s.panel == panel]
        names = list(HEADS) if panel == AT_HEADS else list(METHODS)
        for position, one in enumerate(inside):
            shape = look(one.name, position)
            x, y = np.asarray(one.x), np.asarray(one.y)
            ends = None
            if one.lo is not None and one.hi is not None:
                ends = np.abs(np.stack([y - np.asarray(one.lo), np.asarray(one.hi) - y]))
            shift = 0.08 * (position - 0.5 * (len(inside) - 1))
            ax.errorbar(
                x + shift,
                y,
                yerr=ends,
                color=shape.colour,
                marker=shape.marker,
                linestyle="none",
                elinewidth=0.8,
                label=one.name,
            )
        if panel == BY_USER:
            ax.set_xticks(range(1, config.users + 1))
            ax.set_xlabel("user")
        else:
            ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
        if len(inside) > 1:
            ax.legend(fontsize=6, ncols=2)
    return figure


EXPERIMENT = Experiment(
    id="bridge/sharelora",
    title="Reward models of users who share a factor, on a language model",
    source="Figures 1 and 2, Section 6, Appendix D",
    kind="figure",
    config_type=ShareConfig,
    profiles={
        "quick": ShareConfig(),
        "paper": ShareConfig(
            targets=("q_proj", "k_proj", "v_proj", "o_proj"),
            rank=32,
            scaling=0.5,
            batch=128,
            pairs=5373,
            tests=1238,
            epochs=3.0,
            gammas=(5e-5, 2e-4),
            seeds=5,
            chunk=1,
            dtype="bfloat16",
            device="cuda",
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
