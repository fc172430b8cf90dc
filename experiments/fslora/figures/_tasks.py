"""The tasks that FSLoRA's figures share: classification with a teacher, devices, instances.

*The counterpart.* A pre-trained model that is adapted to a task is one frozen matrix W0 (m, n), the
task a teacher W* = W0 + D whose D is what fine-tuning has to find: inputs are x ~ N(0, I_n), labels
one of m classes drawn from softmax(W* x). The model answers with the largest entry of
(W0 + B A) x; its test accuracy and cross entropy are those of inputs that no device has. D has full
rank m > r, so that a small rank is felt: most where its singular values are equal ("flat").
``TASKS`` names what takes the place of the data sets. Devices have few samples, as in fine-tuning:
about as many altogether as W has entries.

*Devices.* Device i draws its mix of classes from a Dirichlet law and then its samples; test inputs
have the mix of the teacher. A gradient uses all samples of the device (the paper: 16 of them), so
that the sketches are the only noise.

*Sizes.* The paper's ranks are divided by 4: r = 16 in the place of 64. Ratios, numbers of devices
and the four levels {1/8, 1/4, 1/2, 3/4} dealt out in turn are the paper's.

*Instances.* An instance is one draw of all tasks, devices, sketches and of the first modules. The
tasks of an instance are adapted side by side, as the modules of one system, and share sketches.
Differences are formed within an instance; 95 % intervals (Student) are over instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.fslora.figures._classifiers import Classifiers, Instance
from linsys import InputError

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A data set of the simulated tasks.

    Attributes:
        decay: ratio of neighbouring singular values of D; 1 for equal ones.
        mix: concentration of the devices' Dirichlet mixes of classes; small for few classes each.
        size: standard deviation of the entries of D x; those of W0 x have the same.
        noise: share of the devices' labels that are drawn uniformly.
    """

    decay: float = 0.8
    mix: float = 1.0
    size: float = 2.5
    noise: float = 0.0


TASKS = {
    "steep": Task(),
    "flat": Task(decay=1.0),
    "skewed": Task(mix=0.3),
    "noisy": Task(noise=0.2),
}


@dataclass(frozen=True, kw_only=True)
class TaskConfig(rc.Config):
    """The set-up."""

    tasks: tuple[str, ...] = rc.param(("steep", "flat", "skewed"), doc="names in ``TASKS``.")
    devices: int = rc.param(20, low=1, doc="N.")
    classes: int = rc.param(20, low=2, doc="m.")
    features: int = rc.param(32, low=1, doc="n.")
    samples: int = rc.param(40, low=1, doc="of every device and task.")
    test: int = rc.param(1000, low=1, doc="test samples of every task.")
    H: int = rc.param(5, low=1, doc="local steps in a round.")
    instances: int = rc.param(5, low=3, doc="draws for the comparison.")
    tuning: int = rc.param(2, low=1, doc="further draws, on which step sizes are chosen.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for task in self.tasks:
            rc.check_name("task", task, list(TASKS))

    def ranks(self, r: int, ratios: Sequence[float]) -> list[int]:
        """k_i of every device for a global rank, with the ratios k_i / r dealt out in turn.

        Raises:
            InputError: for a ratio that gives no whole rank.
        """
        cycle = []
        for ratio in ratios:
            k = round(ratio * r)
            if k < 1 or abs(k - ratio * r) > 1e-9:
                raise InputError(f"k_i must be whole ranks; found {ratio:g} of r = {r}")
            cycle.append(k)
        return [cycle[i % len(cycle)] for i in range(self.devices)]

    def draw(self, use: str, instance: int) -> Instance:
        """Instance number ``instance`` for "test" or "tuning"; the same object again if asked."""
        names = ("seed", "tasks", "devices", "classes", "features", "samples", "test")
        # figures that differ in other parameters share their instances
        return _drawn(TaskConfig(**{n: getattr(self, n) for n in names}), use, instance)

    def _draw(self, task: Task, seed: int) -> tuple[Any, ...]:
        """W0, the devices' inputs and targets, test inputs and labels, the teacher's accuracy."""
        rng = np.random.default_rng(seed)
        m, n, rank = self.classes, self.features, min(self.classes, self.features)
        W0 = rng.normal(scale=task.size / np.sqrt(n), size=(m, n))
        left, right = (np.linalg.qr(rng.normal(size=(d, rank)))[0] for d in (m, n))
        values = task.decay ** np.arange(rank)
        values *= task.size * np.sqrt(m / (values**2).sum())
        teacher = W0 + (left * values) @ right.T

        def label(x: Values) -> NDArray[np.int64]:
            noise = rng.gumbel(size=(m, x.shape[-1]))
            return np.asarray((teacher @ x + noise).argmax(axis=0))

        test = rng.normal(size=(n, self.test))
        labels = label(test)
        pool = rng.normal(size=(n, 20 * self.devices * self.samples))
        order = label(pool)
        wrong = rng.random(order.size) < task.noise
        order[wrong] = rng.integers(m, size=int(wrong.sum()))
        x, y = np.empty((self.devices, n, self.samples)), np.zeros((self.devices, m, self.samples))
        of_class = [np.flatnonzero(order == c) for c in range(m)]
        nonempty = np.array([bool(len(members)) for members in of_class])
        for i in range(self.devices):
            mix = rng.dirichlet(np.full(m, task.mix)) * nonempty
            chosen = rng.choice(m, size=self.samples, p=mix / mix.sum())
            x[i] = pool[:, [rng.choice(of_class[c]) for c in chosen]]
            y[i, chosen, np.arange(self.samples)] = 1.0
        right_answers = float(((teacher @ test).argmax(axis=0) == labels).mean())
        return W0, x, y, test, labels, np.array(right_answers)


@dataclass(frozen=True, kw_only=True)
class RankConfig(TaskConfig):
    """Simulated tasks, with modules of one global rank."""

    r: int = rc.param(16, low=1, doc="rank of the global modules.")


#: Options that the profiles "paper" of the figures and tables share.
PAPER: dict[str, Any] = {
    "tasks": ("steep", "flat", "skewed", "noisy"),
    "instances": 12,
    "tuning": 3,
    "test": 2000,
}


@lru_cache(maxsize=64)
def _drawn(config: TaskConfig, use: str, instance: int) -> Instance:
    drawn = [
        config._draw(TASKS[name], config.derive("task", use, instance, name))
        for name in config.tasks
    ]
    W0, x, y, inputs, labels, teacher = (np.stack(part) for part in zip(*drawn, strict=True))
    system = Classifiers(W0, tuple(x.swapaxes(0, 1)), tuple(y.swapaxes(0, 1)))
    return Instance(system, inputs, labels, teacher)
