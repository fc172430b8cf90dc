"""The users of Figure 2: who has which images of characters, and the two properties that they are
asked about.

A *source* is a data set with its feature extractor, trained on images that no user has. ``draw``
deals the remaining images to the users of one replicate: a training set, and images to be tested
on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from experiments.affpcl.figures._images import (
    CHARACTERS,
    Array,
    Characters,
    Extractor,
    Labels,
    handwritten_digits,
    pretrain,
    read_leaf,
)
from linsys import InputError

#: Digits with a closed loop; a 4 is mostly written open.
LOOPS = (0, 6, 8, 9)
#: Letters whose printed form has a curved stroke. The paper does not list its own.
CURVED = "BCDGJOPQRSUabcdefghjmnopqrstu"


class User(NamedTuple):
    """One user: features (N, d) and labels (N,) to train on, the same to be tested on, and weights
    of the test samples."""

    features: Array
    labels: Labels
    test_features: Array
    test_labels: Labels
    test_weights: Array


class Source(Protocol):
    """A data set behind its feature extractor."""

    @property
    def properties(self) -> Array:
        """Which of the two properties a character of each label has, (labels, 2) zeros and ones."""

    def draw(self, rng: np.random.Generator, agents: int) -> list[User]:
        """The users of one replicate."""


@dataclass(frozen=True, eq=False)
class Digits:
    """scikit-learn's digits: users hold disjoint parts of them and are tested on what is left.

    Properties: the digit is even; it has a closed loop.

    Args:
        features: phi of the images that the extractor has not seen, shape (N, d).
        labels: their labels, shape (N,).
        samples: training images per user, on average.
        mix: every class is divided among the users in proportions drawn from a symmetric Dirichlet
            distribution with this concentration (a large one gives all the same class mix), and a
            user's test images are weighted to its own class mix.
    """

    features: Array
    labels: Labels
    samples: int
    mix: float

    @property
    def properties(self) -> Array:
        """Shape (10, 2): even, closed loop."""
        digit = np.arange(10)
        return np.column_stack([digit % 2 == 0, np.isin(digit, LOOPS)]).astype(np.float64)

    def draw(self, rng: np.random.Generator, agents: int) -> list[User]:
        """The users of one replicate."""
        order = rng.permutation(len(self.labels))
        pool, test = np.split(order, [agents * self.samples])
        available = np.bincount(self.labels[test], minlength=10)
        users = []
        for part in self._divide(rng, pool, agents):
            counts = np.bincount(self.labels[part], minlength=10)
            weights = (counts / np.maximum(available, 1))[self.labels[test]]
            features, labels = self.features[part], self.labels[part]
            users.append(User(features, labels, self.features[test], self.labels[test], weights))
        return users

    def _divide(self, rng: np.random.Generator, pool: Labels, agents: int) -> list[Labels]:
        """Divide every class in Dirichlet proportions."""
        shares: list[list[Labels]] = [[] for _ in range(agents)]
        for digit in range(10):
            members = pool[self.labels[pool] == digit]
            cuts = np.cumsum(rng.dirichlet(np.full(agents, self.mix)))[:-1] * len(members)
            for share, part in zip(
                shares, np.split(members, np.rint(cuts).astype(int)), strict=True
            ):
                share.append(part)
        return [np.concatenate(share) for share in shares]


@dataclass(frozen=True, eq=False)
class Femnist:
    """FEMNIST: every user is a writer with its own images, of which a quarter is kept for the test.

    Properties: the character is a digit; it is a curved letter.

    Args:
        writers: features (N, d) and labels (N,) of each writer that the extractor has not seen.
        samples: training images per user at most, None for all.
    """

    writers: Sequence[tuple[Array, Labels]]
    samples: int | None = None

    @property
    def properties(self) -> Array:
        """Shape (62, 2): digit, curved letter."""
        return np.array([[c.isdigit(), c in CURVED] for c in CHARACTERS], dtype=np.float64)

    def draw(self, rng: np.random.Generator, agents: int) -> list[User]:
        """The users of one replicate: writers drawn without replacement."""
        users = []
        for w in rng.choice(len(self.writers), size=agents, replace=False):
            features, labels = self.writers[w]
            test, train = np.split(rng.permutation(len(labels)), [max(1, len(labels) // 4)])
            train = train[: self.samples]
            users.append(
                User(
                    features[train], labels[train], features[test], labels[test], np.ones(len(test))
                )
            )
        return users


@lru_cache(maxsize=2)
def digits_source(
    *, features: int, norm: float, pretraining: int, samples: int, mix: float, agents: int
) -> Digits:
    """The digits after pre-training on the first ``pretraining`` of them in a fixed random order.

    Raises:
        InputError: if fewer than 100 images are left for the test.
    """
    everything = handwritten_digits()
    total = len(everything.labels)
    needed = pretraining + agents * samples + 100
    if needed > total:
        raise InputError(
            f"`pretraining` + agents * `samples_per_user` + 100 images to test on must be at most "
            f"{total}; found {needed}"
        )
    order = np.random.default_rng(0).permutation(total)
    seen, rest = np.split(order, [pretraining])
    extract = _extractor(
        Characters(everything.images[seen], everything.labels[seen]), features, norm
    )
    return Digits(extract(everything.images[rest]), everything.labels[rest], samples, mix)


@lru_cache(maxsize=2)
def femnist_source(
    path: Path, *, features: int, norm: float, pretraining: int, samples: int | None, agents: int
) -> Femnist:
    """FEMNIST from LEAF json after pre-training on the first writers, as many as hold
    ``pretraining`` images together.

    At least one writer is used for it; the others, at least ``agents``, are those that replicates
    draw their users from.

    Raises:
        InputError: what :func:`experiments.affpcl.figures._images.read_leaf` raises; too few
            writers with more training images than features.
    """
    least = 4 * (features + 1) // 3 + 2
    writers = list(read_leaf(path, users=agents + 1, min_samples=least).values())
    totals = np.cumsum([len(writer.labels) for writer in writers])
    first = min(int(np.searchsorted(totals, pretraining)) + 1, len(writers) - agents)
    seen = Characters(
        np.concatenate([writer.images for writer in writers[:first]])[:pretraining],
        np.concatenate([writer.labels for writer in writers[:first]])[:pretraining],
    )
    extract = _extractor(seen, features, norm)
    return Femnist([(extract(w.images), w.labels) for w in writers[first:]], samples)


def _extractor(characters: Characters, features: int, norm: float) -> Extractor:
    return pretrain(characters, features=features, norm=norm, seed=0)
