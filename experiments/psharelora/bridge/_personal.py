"""Reward models of users trained by P-ShareLoRA's methods, and how far their factors are apart.

*The score head* is one more adapted module, the last one. ``head`` says whether it is frozen, the
same for all users, or each user's own; whatever the method does with the other modules. A frozen
head has the numbers it was given, random ones unless the model has a head. (A warm-up, in which all
is shared, shares personal heads too.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values
from experiments.psharelora.bridge._users import HEADS, Draw, UserConfig, UserSetup
from linsys.preference import sharelora
from linsys.preference.sharelora import Mask, ShareLoRA, State
from linsys.sketching.adapters import Modules
from linsys.validate import check_choice


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
        check_choice("head", self.head, HEADS)

    def mask(self, modules: Modules) -> Mask:
        """The shared coordinates after the warm-up, shape (w,); not a head beside what is frozen.

        Share-Rep freezes what it shares: its shared head is none of that, see :meth:`together`.
        """
        if self.head == "frozen":
            return super().mask(modules)
        body = Modules(modules.shapes[:-1])
        shared = self.head == "shared" and self.shared != "modules"
        return np.concatenate([super().mask(body), np.full(modules.width - body.width, shared)])

    def together(self, t: int, oracle: Any) -> Mask:
        """The coordinates (w,) that move along the mean in step t."""
        shared = super().together(t, oracle)
        if self.head == "shared":
            shared[-sum(oracle.modules.shapes[-1]) :] = True
        return shared


@dataclass(frozen=True, eq=False)
class Run:
    """A method trained on one draw.

    Attributes:
        draw: the users.
        epochs: the measured times, (times,).
        far: distances of up and down factors there, (2, times).
        accuracy: every user's at the end, (users,).
        loss: at the end.
        missing: how often a user was left out.
    """

    draw: Draw
    epochs: Values
    far: Values
    accuracy: Values
    loss: float
    missing: int


def method(config: UserConfig, name: str, gamma: float, head: str) -> Headed:
    """A method of P-ShareLoRA's table with a score head."""
    plain = sharelora.method(name, gamma, epochs=config.epochs)
    return Headed(
        gamma=gamma, shared=plain.shared, warmup=plain.warmup, epochs=plain.epochs, head=head
    )


def start(setup: UserSetup, algorithm: ShareLoRA, oracle: Any, seed: int) -> Any:
    """LoRA's start, where what is not shared differs between users.

    As :meth:`ShareLoRA.start`, which has no head in mind and no rank above a module's.
    """
    config, modules, rng = setup.config, oracle.modules, np.random.default_rng(seed)
    X = np.stack([modules.start(config.rank, rng) for _ in range(config.users)])
    common = algorithm.together(0, oracle) | (algorithm.warmup > 0)
    return setup.tensor(np.where(common, X[0], X))


def train(
    setup: UserSetup, context: rc.Context, name: str, head: str, gamma: float, use: str, k: int
) -> Run:
    """A method on draw k for "test" or "tuning", with the distances along its way."""
    from lora_bridge.peft_io import by_client
    from lora_bridge.runs import recorded

    config, draw = setup.config, setup.draw(head, use, k)
    algorithm = method(config, name, gamma, head)
    X = start(setup, algorithm, draw.oracle, config.derive("run", use, k))
    total = algorithm.total(draw.oracle)
    times = np.unique(np.rint(np.linspace(0, total, config.points + 1)).astype(int))

    def measure(state: State) -> dict[str, Any]:
        accuracy, loss = np.full(config.users, np.nan), np.nan
        if state.t in (0, total):  # all tests: at the start so that a plan knows what they take
            accuracy, loss = draw.tested(state.X)
        far = distances(draw.oracle.modules, state.X, head)
        return {"far": far, "accuracy": accuracy, "loss": loss}

    curves = recorded(
        f"{algorithm} {use} {k}",
        algorithm,
        draw.oracle,
        algorithm.init(X, draw.oracle),
        times.tolist(),
        measure,
        sums={"missing": lambda before, after, missing: len(missing)},
        labels={"far": [["up", "down"]], "accuracy": [draw.names]},
        adapters=lambda now: by_client(draw.oracle.task.bank, now.X),
        folder=context.folder,
    )
    accuracy, loss, missing = (curves[key][-1] for key in ("accuracy", "loss", "missing"))
    epochs = times / draw.oracle.steps
    return Run(draw, epochs, curves["far"].T, accuracy, float(loss), int(missing))


def distances(modules: Modules, X: Any, head: str) -> tuple[float, float]:
    """Of users' up and down factors, over unrelated ones, without the head; nan with all zero."""
    from lora_bridge.measure import adapter_spread

    body = modules if head == "frozen" else Modules(modules.shapes[:-1])
    each = [adapter_spread(body, X[..., : body.width], factor) for factor in ("up", "down")]
    up, down = (float(np.mean(v[~np.isnan(v)])) if np.isfinite(v).any() else np.nan for v in each)
    return up, down
