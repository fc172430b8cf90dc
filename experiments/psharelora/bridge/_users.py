"""Users with pairs of texts, for reward models of which they share a part.

*Pairs.* Without a file, texts are words, and the reward of user i is <theta_i, phi> over four
properties phi in {-1, 1} of a word ("long", "first", ..): with independent c, v_i of one length
theta_i = sqrt(1 - own_i) c + sqrt(own_i) v_i, so that the share own_i of what a user wants is its
own. Besides, users have in common which properties there are to be read (rows that A could share)
and, with a head that is not personal, what the head reads (a direction that B could share, as the
paper assumes). Answers are drawn by Bradley and Terry. With a file: preference pairs or dialogues
with ``user``, of the users who have the most pairs, all capped to as many as the one with the
fewest.

The model and how step sizes are chosen: see ``models`` in ``experiments/bridge``; its words:
``questions`` there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

import ratecheck as rc
from experiments.bridge.models import FederatedConfig, TunedConfig, Values
from experiments.bridge.questions import PROPERTIES, word
from experiments.bridge.setup import Setup, divided, kept
from linsys import InputError

if TYPE_CHECKING:
    from lora_bridge.data import Pair
    from lora_bridge.oracles import Users

Head = Literal["frozen", "shared", "personal"]
HEADS: tuple[Head, ...] = ("frozen", "shared", "personal")
#: Two words whose rewards differ by less are not compared.
LEAST = 1e-6


@dataclass(frozen=True, kw_only=True)
class UserConfig(TunedConfig, FederatedConfig):
    """Users and their reward models."""

    rank: int = 4
    batch: int = 16
    tests: int = 300
    users: int = rc.param(5, low=2, doc="how many; of a file, those with the most pairs.")
    users_by: str = rc.param(
        "",
        doc='who prefers where a file does not say: "domain", "longer" (two users: of longer and '
        'of shorter answers) or "hash:5".',
    )
    pairs: int = rc.param(160, low=1, doc="training pairs of a user, at most.")
    own: tuple[float, ...] = rc.param(
        (0.02, 0.1, 0.25, 0.45, 0.7),
        low=0.0,
        high=1.0,
        doc="share of a user's wishes that is its own, dealt out to the users in turn.",
    )
    size: float = rc.param(3.0, above=0.0, doc="length of theta_i times 2, the size of logits.")
    epochs: float = rc.param(5.0, above=0.0, doc="of every method.")
    points: int = rc.param(10, low=1, doc="times at which distances are measured, but the start.")
    head: Head = rc.param(
        "frozen",
        doc=(
            'score head under which methods are compared, "frozen", "shared" or '
            '"personal". Frozen, it leaves the methods as they are: with a personal one LoRA-'
            "global is not all global."
        ),
    )

    def owns(self) -> list[float]:
        """Every user's share of its own."""
        return [self.own[i % len(self.own)] for i in range(self.users)]


@dataclass(frozen=True, eq=False)
class Draw:
    """Users with their pairs.

    Attributes:
        oracle: the users.
        tests: their held-out pairs, encoded.
        names: theirs.
        best: share of the held-out answers of every user that its true rewards get right, (users,);
            nan if unknown.
        what: model and data.
    """

    oracle: Users
    tests: Sequence[Mapping[str, Any]]
    names: Sequence[str]
    best: Values
    what: str

    def tested(self, X: Any) -> tuple[Values, float]:
        """The accuracy on every user's held-out pairs, (users,), and the mean loss on all."""
        from lora_bridge.losses import reward_error
        from lora_bridge.tasks import Task

        loss = self.oracle.task.loss
        task = Task(self.oracle.task.bank, self.tests, loss)
        each = [task.evaluate_all(i, X[i], (reward_error, loss)) for i in range(len(X))]
        errors, losses = np.array(each).T
        return 1.0 - errors, float(losses.mean())


class UserSetup(Setup):
    """The reward model of users, and draws of them."""

    config: UserConfig
    task: ClassVar[str] = "reward"

    @kept(16)
    def draw(self, head: str, use: str, k: int) -> Draw:
        """Draw number k for "test" or "tuning"."""
        from lora_bridge.losses import reward_preference_loss
        from lora_bridge.oracles import Users
        from lora_bridge.tasks import Task
        from lora_bridge.tokens import encode_pairs

        config, seed = self.config, self.config.derive("draw", use, k)
        pairs, best, left_out = pairs_of_users(config, np.random.default_rng(seed))
        made = self.encoded(encode_pairs, [pair for own in pairs.values() for pair in own])
        shards = divided(made, map(len, pairs.values()))
        train, tests = (
            [{n: v[part] for n, v in shard.items()} for shard in shards]
            for part in (slice(config.tests, None), slice(config.tests))
        )
        score = () if head == "frozen" else (score_of(self.loaded.model),)
        bank = self.bank((*config.targets, *score))
        task = Task(bank, train, reward_preference_loss, config.batch, seed, config.on_nan)
        what = self.described("generated words", made, left_out=left_out)
        return Draw(Users(task), tests, list(pairs), best, what)


def score_of(model: Any) -> str:
    """The name of the last matrix of a model for sequences, which makes the reward."""
    from lora_bridge.targets import adaptable

    body = f"{model.base_model_prefix}."
    return [name for name in adaptable(model) if not name.startswith(body)][-1]


def pairs_of_users(
    config: UserConfig, rng: np.random.Generator
) -> tuple[dict[str, list[Pair]], Values, int]:
    """Every user's pairs, held-out ones first, the share of these that true rewards order
    correctly, and how many pairs of a file were left out.
    """
    if config.data is not None:
        dealt, left_out = _read(config, rng)
        return dealt, np.full(config.users, np.nan), left_out
    from lora_bridge.data import Pair

    directions = rng.normal(size=(config.users + 1, len(PROPERTIES)))
    directions *= 0.5 * config.size / np.linalg.norm(directions, axis=1, keepdims=True)
    pairs_by_user, right = {}, np.zeros((config.users, config.tests))
    for i, own in enumerate(config.owns()):
        theta = np.sqrt(1 - own) * directions[-1] + np.sqrt(own) * directions[i]
        pairs = []
        for j in range(config.tests + config.pairs):
            first, second, gain = _differing(theta, rng)
            if rng.random() > 1.0 / (1.0 + np.exp(-gain)):
                first, second, gain = second, first, -gain
            pairs.append(Pair("", first, second, user=f"user {i}"))
            if j < config.tests:
                right[i, j] = gain > 0
        pairs_by_user[f"user {i}"] = pairs
    return pairs_by_user, right.mean(axis=1), 0


def _read(config: UserConfig, rng: np.random.Generator) -> tuple[dict[str, list[Pair]], int]:
    """The pairs of a file, shuffled, as many of each user, and how many were left out."""
    from lora_bridge.data import read_preferences
    from lora_bridge.splits import by_key

    file = config.data
    assert file is not None
    pairs = read_preferences(file, users=True, rule=config.users_by)
    groups = by_key(pairs, lambda pair: pair.user)
    if len(groups) < config.users:
        raise InputError(
            f"`data` must have pairs of users = {config.users} users; found {len(groups)} in "
            f"{file}: {', '.join(list(groups)[:8])}"
        )
    largest = sorted(groups, key=lambda user: -len(groups[user]))[: config.users]
    fewest = min(largest, key=lambda user: len(groups[user]))
    if len(groups[fewest]) <= config.tests:
        raise InputError(
            f"`data` must have more than tests = {config.tests} pairs of every user; "
            f"found {len(groups[fewest])} pairs of user {fewest!r} in {file}: lower tests"
        )
    count = min(config.tests + config.pairs, len(groups[fewest]))
    dealt = {
        user: [groups[user][j] for j in rng.permutation(len(groups[user]))[:count]]
        for user in largest
    }
    return dealt, pairs.left_out


def _differing(theta: Values, rng: np.random.Generator) -> tuple[str, str, float]:
    """Two words of different rewards, and by how much the first one's is larger."""
    while True:
        first, second = word(rng), word(rng)
        gain = float(theta @ (properties(first) - properties(second)))
        if abs(gain) > LEAST:
            return first, second, gain


def properties(text: str) -> Values:
    """The features phi of a word, (4,)."""
    return np.array([1.0 if has(text) else -1.0 for has in PROPERTIES.values()])
