"""Labelers with many comparisons: what the figures on accuracy share.

*The counterpart.* A reward model of several modules (d, d): rewards are <Theta_i, psi(tau)> with
Theta_i = Theta_init + Delta_i and Delta_i = [L_i1 R_i1' | L_i2 R_i2' | ..], factors (d, k). What a
module is worth does not depend on its place. Features psi are normal, logits have about the spread
at which the best possible accuracy is that of the paper, and Theta_init knows some of it.

*Structures.* A labeler has the share ``own`` of its own: for two labelers with the same one,
E <Delta_i, Delta_j> = 1 - own of E ||Delta_i||^2, whatever the structure:

- "left": L is common, R_i = sqrt(1 - own) R_0 + sqrt(own) R'_i. What the paper assumes.
- "right": R is common, and L_i mixed like that.
- "neither": both factors are mixed, each with sqrt(1 - own) in the place of 1 - own.

*Training* is the paper's: epochs, batches and alpha / r as printed, AdamW with a rate that falls
linearly. Its first rate, 5e-5, belongs to language models. Here every method has the one with the
best accuracy on instances that are used for nothing else, as one rate for all would favour some.

*Accuracy* is exact: the mean probability over all pairs of trajectories that no labeler has seen of
agreeing with the labeler's next answer. An instance is a draw of labelers, trajectories, data and
first modules, the same for all methods: differences are formed within an instance, and intervals
are Student's over instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

import ratecheck as rc
from linsys.preference.comparisons import Comparisons
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.sharelora import METHODS, method
from linsys.preference.systems import PreferenceSystem
from linsys.sketching.adapters import Modules
from linsys.validate import Array

__all__ = [
    "BEST",
    "LEGEND",
    "OURS",
    "REFERENCES",
    "START",
    "LabelerConfig",
    "Structure",
    "Test",
    "accuracies",
    "compute",
    "count",
    "label_factors",
    "over_labelers",
    "per_labeler",
    "rate_note",
]

Structure = Literal["left", "right", "neither"]

#: The three methods of the paper.
OURS = ("SI", "G", "WU")
#: Instances of a block. A process chooses learning rates once for all blocks of a case, which takes
#: as long as some of them.
_TOGETHER = 6
#: Names of the references in figures.
BEST, START = "best possible", "no training"
REFERENCES = {BEST: rc.Look("#000000", line=":"), START: rc.Look("#7F7F7F", line="--")}
#: What legends call methods: the paper's names, and what these stand for.
LEGEND = {
    "SI": "P-ShareLoRA(SI), standard initialization",
    "G": "P-ShareLoRA(G), global pre-training",
    "WU": "P-ShareLoRA(WU), short warm-up",
    "down": "P-ShareLoRA(SI) with A shared, not B",
    "LoRA-global": "LoRA-global, one module for all",
    "LoRA-local": "LoRA-local, one module each",
    "Share-Rep": "Share-Rep, first layers frozen",
}


@dataclass(frozen=True, kw_only=True)
class LabelerConfig(rc.Config):
    """The set-up."""

    #: What is trained.
    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)

    modules: int = rc.param(10, low=1, doc="blocks (d, d) of Theta_i.")
    d: int = rc.param(6, low=1, doc="rows and columns of a block.")
    k: int = rc.param(2, low=1, high="d", doc="rank of the blocks of Delta_i.")
    r: int = rc.param(2, low=1, high="d", doc="rank of the trained modules.")
    scale: float = rc.param(0.5, above=0.0, doc="alpha / r.")
    samples: int = rc.param(2560, low=1, doc="N_p, comparisons of a labeler.")
    batch: int = rc.param(128, low=1, doc="comparisons of a step.")
    epochs: float = rc.param(
        3.0, above=0.0, doc="how often a labeler's comparisons are gone through."
    )
    trajectories: int = rc.param(500, low=2, doc="those whose pairs are compared.")
    test: int = rc.param(200, low=2, doc="trajectories whose pairs are the test.")
    size: float = rc.param(
        1.4, above=0.0, doc="||Delta_i||_F; logits then have the variance 2 size^2."
    )
    known: float = rc.param(0.5, low=0.0, doc="||Theta_init||_F / size.")
    rates: tuple[float, ...] = rc.param(
        (0.04, 0.08, 0.16, 0.32), doc="first learning rates to choose from."
    )
    instances: int = rc.param(6, low=3, doc="draws for the comparison.")
    tuning: int = rc.param(1, low=1, doc="further draws, on which learning rates are chosen.")

    def pieces(self, structures: Sequence[str], cases: Sequence[float]) -> list[rc.Block]:
        """The instances of every structure and case, some at a time."""
        firsts = range(0, self.instances, _TOGETHER)
        return [
            {"structure": structure, "case": case, "first": first}
            for structure in structures
            for case in cases
            for first in firsts
        ]

    def draw(self, structure: Structure, own: Sequence[float], instance: int) -> Instance:
        """One instance; negative numbers are those for tuning."""
        return _drawn(self, structure, tuple(own), instance)


@dataclass(frozen=True, eq=False)
class Test:
    """All pairs of trajectories that no labeler has seen.

    Args:
        system: the labelers on these trajectories.
    """

    __test__ = False  # not one of pytest's

    system: PreferenceSystem

    def accuracy(self, Theta: Array) -> Array:
        """The accuracy of estimates (N, d1, d2) for their labelers, shape (N,); a tie is a half."""
        tau0, tau1 = self.system.pairs.T
        rewards = self.system.rewards(Theta)
        says = np.sign(rewards[..., tau0] - rewards[..., tau1])
        return np.asarray((0.5 + says * (self._probabilities - 0.5)) @ self.system.pair_weights)

    @cached_property
    def _probabilities(self) -> Array:
        return self.system.probabilities()

    @property
    def best(self) -> Array:
        """The accuracy of the true parameters, shape (N,)."""
        return self.accuracy(self.system.Theta)

    @property
    def slope(self) -> float:
        """E[p (1 - p)], what one comparison tells about a logit."""
        P = self._probabilities
        return float((P * (1.0 - P)).mean(axis=0) @ self.system.pair_weights)


@dataclass(frozen=True, eq=False)
class Instance:
    """Labelers with what they said, and pairs to be judged by."""

    data: Comparisons
    test: Test


def label_factors(
    structure: Structure, own: Sequence[float], shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Array, Array]:
    """L and R of every labeler, both (N, *shape), entries of variance one."""
    share = np.asarray(own).reshape(-1, *[1] * len(shape))
    common = np.sqrt(1.0 - share) if structure == "neither" else 1.0 - share
    factors = []
    for side in ("left", "right"):
        everybody, each = rng.normal(size=shape), rng.normal(size=(len(share), *shape))
        if structure == side:
            factors.append(np.broadcast_to(everybody, each.shape))
        else:
            factors.append(np.sqrt(common) * everybody + np.sqrt(1.0 - common) * each)
    return factors[0], factors[1]


@lru_cache(maxsize=16)
def _drawn(
    config: LabelerConfig, structure: Structure, own: tuple[float, ...], instance: int
) -> Instance:
    rng = np.random.default_rng(config.derive("labelers", structure, instance))
    d, width = config.d, config.modules * config.d
    L, R = label_factors(structure, own, (config.modules, d, config.k), rng)
    Delta = np.moveaxis(L @ R.mT, 1, 2).reshape(len(own), d, width)
    Delta *= config.size / np.linalg.norm(Delta, axis=(1, 2), keepdims=True)
    start = rng.normal(size=(d, width))
    start *= config.known * config.size / np.linalg.norm(start)
    seen, unseen = (rng.normal(size=(n, d, width)) for n in (config.trajectories, config.test))
    data = PreferenceSystem(seen, start, Delta).sample(
        config.samples, config.derive("data", structure, instance)
    )
    return Instance(data, Test(PreferenceSystem(unseen, start, Delta)))


@dataclass(eq=False)
class _Answers:
    """An oracle that has been asked already, for the runs that are trained together."""

    modules: Modules
    users: int
    steps: int
    gradients: Array | None = None

    def grads(self, X: Array, epoch: int, step: int) -> Array | None:
        """The answer to one run's question."""
        return self.gradients

    def grad(self, user: int, X: Array, epoch: int, step: int) -> Array:
        """A user's part of the answer."""
        assert self.gradients is not None
        return np.asarray(self.gradients[user])


def accuracies(
    config: LabelerConfig, drawn: Instance, runs: Sequence[tuple[str, float]], seed: int
) -> Array:
    """After training by each of these methods with its rate, by labeler: shape (runs, N).

    All runs see the same comparisons in the same order, and their gradients are computed together.
    """
    oracle = ComparisonOracle(
        drawn.data, config.batch, seed, config.scale, [config.d] * config.modules
    )
    algorithms = [method(name, rate, epochs=config.epochs) for name, rate in runs]
    answers = _Answers(oracle.modules, oracle.users, oracle.steps)
    states = []
    for algorithm in algorithms:
        rng = np.random.default_rng(seed)
        X = algorithm.start(oracle.modules, oracle.users, config.r, rng)
        states.append(algorithm.init(X, oracle))
    for t in range(algorithms[0].total(oracle)):
        X = np.stack([state.X for state in states])
        G = oracle.gradients(X, *divmod(t, oracle.steps))
        for i, algorithm in enumerate(algorithms):
            answers.gradients = G[i]
            states[i], _ = algorithm.round(states[i], answers)
    start = drawn.test.system.Theta_init
    return np.stack([drawn.test.accuracy(start + oracle.delta(state.X)) for state in states])


def _trained(
    config: LabelerConfig,
    structure: Structure,
    own: tuple[float, ...],
    runs: Sequence[tuple[str, float]],
    instance: int,
) -> Array:
    """After training on an instance by these methods with their rates: shape (runs, N)."""
    drawn = config.draw(structure, own, instance)
    return accuracies(config, drawn, runs, config.derive("run", instance))


@lru_cache(maxsize=16)
def _chosen(
    config: LabelerConfig, structure: Structure, own: tuple[float, ...]
) -> tuple[tuple[str, float], ...]:
    """Every method with the rate that is best for it."""
    names = config.methods
    tried = [(name, rate) for name in names for rate in config.rates]
    drawn = [-1 - j for j in range(config.tuning)]
    each = [_trained(config, structure, own, tried, i).mean(axis=1) for i in drawn]
    best = np.mean(each, axis=0).reshape(len(names), -1).argmax(axis=1)
    return tuple((name, config.rates[j]) for name, j in zip(names, best, strict=True))


def compute(config: Any, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Choose the rate of every method, then train all on the instances of the block.

    Blocks have ``structure``, ``case`` and the ``first`` instance; ``config.own_of(case)`` are the
    shares. A row is a method, an instance and a labeler.
    """
    structure, own = block["structure"], config.own_of(block["case"])
    instances = range(block["first"], min(block["first"] + _TOGETHER, config.instances))
    runs = _chosen(config, structure, own)
    tests = [config.draw(structure, own, i).test for i in instances]
    return rc.long_table(
        {
            "method": [name for name, _ in runs],
            "instance": list(instances),
            "labeler": np.arange(len(own)),
        },
        accuracy=np.stack([_trained(config, structure, own, runs, i) for i in instances], axis=1),
        best=np.stack([test.best for test in tests]),
        start=np.stack([test.accuracy(test.system.Theta_init) for test in tests]),
        slope=np.array([[test.slope] for test in tests]),
        rate=np.array([rate for _, rate in runs])[:, None, None],
        **block,
    )


def per_labeler(table: rc.Table, value: str = "accuracy", **where: Any) -> Array:
    """A value, (instances, labelers)."""
    return np.asarray(table.where(**where).grid(value, "instance", "labeler"))


def over_labelers(table: rc.Table, value: str = "accuracy", **where: Any) -> Array:
    """A value averaged over labelers, (instances,)."""
    return np.asarray(per_labeler(table, value, **where).mean(axis=-1))


def count(name: str, predicted: str, differences: Array) -> rc.Check:
    """The claim that most labelers have positive values (instances, labelers).

    The interval goes from those who surely have to those who may have.
    """
    intervals = [rc.mean_interval(column) for column in differences.T]
    sure, mean, possible = (
        float(sum(getattr(one, end) > 0 for one in intervals)) for end in ("lo", "value", "hi")
    )
    most = len(intervals) // 2 + 1
    return rc.at_least(name, predicted, rc.Interval(mean, sure, possible), float(most))


def rate_note(config: LabelerConfig, table: rc.Table, *names: str) -> str:
    """The first learning rate of every arm, and whether one is at the end of what was tried."""
    arms = dict.fromkeys(zip(*(table[name] for name in names), table["rate"], strict=True))
    text = ", ".join(f"{' '.join(map(str, arm[:-1]))}: {arm[-1]:g}" for arm in arms)
    ends = sum(arm[-1] in (min(config.rates), max(config.rates)) for arm in arms)
    return f"first learning rates, {ends} of {len(arms)} at an end of what was tried: {text}"
