"""P-ShareLoRA's stochastic algorithm, and the ways to train that it is compared with.

Every user has LoRA modules, the rows X_i (r, w) of :mod:`linsys.sketching.adapters`: row j is
column j of B and row j of A. What a method shares are *coordinates* of the rows, a mask of w:

=============  ==============================================  =======================
method         shared by all users                             warm-up
=============  ==============================================  =======================
SI             "up", the B parts: the paper's method            none
G              "up"                                            two thirds of the epochs
WU             "up"                                            a tenth of the epochs
down           "down", the A parts: an ablation                none
LoRA-global    "all"                                           none
LoRA-local     "none"                                          none
Share-Rep      "modules", the first 70 % of them, frozen        none
=============  ==============================================  =======================

In a step every user computes a gradient of the mean loss on a batch of its own. Shared coordinates
move along the mean of the N gradients, personal ones along the user's. In the *warm-up* everything
is shared; AdamW then begins again from zero moments. The loss is minus the log-likelihood, which
the paper's Algorithm 2 descends on where it means to ascend. One learning rate falls linearly over
all epochs: after two epochs of three it is a third of the first, the paper's 1.67e-5.

State is explicit, and the algorithm knows no model: rows are NumPy arrays or torch tensors. A user
whose gradient is not finite is rejected and named; it counts as one with gradient 0, its personal
coordinates stay, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj
from numpy.typing import NDArray

from linsys.optimizers import Moments, adamw, clipped
from linsys.rounds import rounds
from linsys.sketching.adapters import Modules
from linsys.validate import Array, InputError, check_choice, check_integer, check_number

__all__ = ["METHODS", "Oracle", "ShareLoRA", "State", "method"]

Mask = NDArray[np.bool_]

#: What each method shares, and the part of its epochs that is warm-up.
METHODS: Mapping[str, tuple[str, float]] = {
    "SI": ("up", 0.0),
    "G": ("up", 2.0 / 3.0),
    "WU": ("up", 0.1),
    "down": ("down", 0.0),
    "LoRA-global": ("all", 0.0),
    "LoRA-local": ("none", 0.0),
    "Share-Rep": ("modules", 0.0),
}


class Oracle(Protocol):
    """Gradients of users: see :class:`linsys.preference.oracle.ComparisonOracle`.

    An oracle may have a method ``grads(X, epoch, step)`` too, for those of all users at the rows
    X (N, r, w) together, of their shape.
    """

    @property
    def modules(self) -> Modules:
        """The adapted matrices."""

    @property
    def users(self) -> int:
        """N."""

    @property
    def steps(self) -> int:
        """Batches in an epoch."""

    def grad(self, user: int, X: Any, epoch: int, step: int) -> Any:
        """A stochastic gradient of the user's mean loss at the rows X (r, w), of their shape."""


class State(NamedTuple):
    """Between two steps.

    Attributes:
        X: the rows of all users, shape (N, r, w), equal where they are shared.
        t: steps done.
        moments: of AdamW.
    """

    X: Any
    t: int
    moments: Moments


@dataclass(frozen=True, kw_only=True)
class ShareLoRA:
    """LoRA modules of which users share some coordinates.

    Args:
        gamma: the first learning rate.
        shared: "up", "down", "all", "none" or "modules".
        warmup: epochs in which all is shared.
        epochs: of warm-up and method together; not necessarily whole.
        schedule: "linear", falling to 0, or "constant".
        optimizer: "adamw" or "sgd".
        decay: weight decay of AdamW.
        representation: which part of the modules, the first of them, "modules" shares.
        clip: largest norm of a user's gradient in a step; None for any.

    Raises:
        InputError: a learning rate that is not positive, no epochs, a longer warm-up than there are
            epochs, unknown names.
    """

    #: How server and clients share a round: :meth:`gradients`, :meth:`pool`, :meth:`move`.
    split: ClassVar[str] = "users"

    gamma: float
    shared: str = "up"
    warmup: float = 0.0
    epochs: float = 3.0
    schedule: str = "linear"
    optimizer: str = "adamw"
    decay: float = 0.0
    representation: float = 0.7
    clip: float | None = None

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, low=0.0, low_open=True)
        check_choice("shared", self.shared, ("up", "down", "all", "none", "modules"))
        check_number("epochs", self.epochs, low=0.0, low_open=True)
        check_number("warmup", self.warmup, low=0.0, high=float(self.epochs))
        check_choice("schedule", self.schedule, ("linear", "constant"))
        check_choice("optimizer", self.optimizer, ("adamw", "sgd"))
        check_number("decay", self.decay, low=0.0)
        check_number("representation", self.representation, low=0.0, high=1.0, low_open=True)
        if self.clip is not None:
            check_number("clip", self.clip, low=0.0, low_open=True)

    def mask(self, modules: Modules) -> Mask:
        """The shared coordinates after the warm-up, shape (w,).

        >>> ShareLoRA(gamma=1.0, shared="up").mask(Modules([(2, 1)])).tolist()
        [True, True, False]
        """
        return _mask(self.shared, self.representation, tuple(modules.shapes)).copy()

    def start(self, modules: Modules, users: int, r: int, rng: np.random.Generator) -> Array:
        """LoRA's start for all users, shape (N, r, w): B = 0, and A normal.

        Personal factors differ between users, unless a warm-up shares them first.
        """
        N = check_integer("users", users, low=1)
        smallest = min(min(shape) for shape in modules.shapes)
        check_integer("r", r, low=1, high=smallest)
        X = np.stack([modules.start(r, rng) for _ in range(N)])
        common = self.mask(modules) | (self.warmup > 0)
        return np.where(common, X[0], X)

    def init(self, X: Any, oracle: Oracle) -> State:
        """The state before the first step, from rows (N, r, w), or (r, w) for all users alike.

        Raises:
            InputError: rows of another shape than the oracle's, or that are not finite, or that
                differ between users where they are shared at first; all modules frozen from the
                start.
        """
        if not is_array_api_obj(X) or X.ndim not in (2, 3) or X.shape[-1] != oracle.modules.width:
            shape = tuple(X.shape) if is_array_api_obj(X) else type(X).__name__
            raise InputError(
                f"`X` must be an array of shape (N, r, w) or (r, w) with w = "
                f"{oracle.modules.width}; found {shape}"
            )
        xp = array_namespace(X)
        if X.ndim == 2:
            X = xp.stack([X] * oracle.users)
        if X.shape[0] != oracle.users:
            raise InputError(f"`X` must have rows of {oracle.users} users; found {X.shape[0]}")
        if not xp.isdtype(X.dtype, "real floating") or not bool(xp.all(xp.isfinite(X))):
            raise InputError("`X` must hold finite floating point numbers; found others")
        if self.shared == "modules" and self.warm(oracle) == 0 and self.mask(oracle.modules).all():
            raise InputError(
                f"`representation` must leave a module to train; found {self.representation:g} of "
                f"{len(oracle.modules.shapes)}, to the nearest whole number all"
            )
        common = self.mask(oracle.modules) | (self.warmup > 0)
        if bool(xp.any((X[:1, :, :] != X) & _mask_like(xp, common, X))):
            raise InputError("`X` must be equal for all users where they share; found differences")
        return State(X, 0, self._fresh(X))

    def total(self, oracle: Oracle) -> int:
        """Steps of all epochs."""
        return max(1, round(self.epochs * oracle.steps))

    def rate(self, t: int, total: int) -> float:
        """The learning rate of step t out of ``total``."""
        return self.gamma * (1.0 - t / total) if self.schedule == "linear" else self.gamma

    def round(self, state: State, oracle: Oracle) -> tuple[State, dict[int, str]]:
        """One step of all users, and who was rejected, with the reason.

        Raises:
            InputError: all epochs are done.
        """
        self._check_left(state, oracle)
        G, missing = self.gradients(state, oracle)
        return self.move(state, oracle, self.pool(G), G, missing), missing

    def pool(self, G: Any) -> Any:
        """The mean (1, r, w) of gradients (N, r, w), which the server computes."""
        return array_namespace(G).sum(G, axis=0, keepdims=True) / G.shape[0]

    def together(self, t: int, oracle: Any) -> Mask:
        """The coordinates (w,) that move along the mean in step t."""
        return self.mask(oracle.modules) | (t < self.warm(oracle))

    def move(
        self, state: State, oracle: Any, mean: Any, G: Any, missing: Collection[int] = ()
    ) -> State:
        """The rest of :meth:`round`, coordinate by coordinate and user by user.

        A user on a machine of its own moves its personal coordinates with it, and a server the
        shared ones; the other coordinates of the result are then meaningless.

        Args:
            state: of all users or of some.
            oracle: is asked for its modules and for the steps of an epoch.
            mean: of the gradients of all users, (1, r, w): :meth:`pool`.
            G: gradients of the users of the state, of the shape of its rows.
            missing: positions of those of them whose gradient is not used.

        Raises:
            InputError: all epochs are done.
        """
        total = self._check_left(state, oracle)
        X, t, moments = state
        xp = array_namespace(X)
        warm = self.warm(oracle)
        if t == warm:
            moments = self._fresh(X)
        together = _mask_like(xp, self.together(t, oracle), X)
        frozen = _mask_like(
            xp, self.mask(oracle.modules) & (self.shared == "modules" and t >= warm), X
        )
        G = xp.where(together, mean, G)
        lost = np.zeros((X.shape[0], 1, 1), dtype=np.bool_)
        lost[list(missing)] = True
        still = frozen | (_mask_like(xp, lost, X) & ~together)
        gamma = self.rate(t, total)
        if self.optimizer == "sgd":
            moved = X - gamma * G
        else:
            moved, new = adamw(X, G, moments, gamma, self.decay)
            kept = zip(moments, new, strict=True)
            moments = Moments(*(xp.where(still, old, now) for old, now in kept))
        return State(xp.where(still, X, moved), t + 1, moments)

    def run(self, state: State, oracle: Oracle) -> tuple[State, dict[int, int]]:
        """All rounds that are left, and how many of them rejected which user."""
        rejected: dict[int, int] = {}
        for after in rounds(self, oracle, state, self.total(oracle) - state.t):
            state, missing = after
            for user in missing:
                rejected[user] = rejected.get(user, 0) + 1
        return state, rejected

    def warm(self, oracle: Any) -> int:
        """Steps of the warm-up."""
        return int(np.rint(self.warmup * oracle.steps))

    def _check_left(self, state: State, oracle: Any) -> int:
        """The number of all steps; refuses a state that has made them all."""
        total = self.total(oracle)
        if state.t >= total:
            raise InputError(f"`state` must have steps left; found all {total} done")
        return total

    def gradients(self, state: State, oracle: Any) -> tuple[Any, dict[int, str]]:
        """Gradients (N, r, w), clipped to the largest norm allowed; zero for rejected users."""
        xp = array_namespace(state.X)
        epoch, step = divmod(state.t, oracle.steps)
        together = getattr(oracle, "grads", None)
        if together is not None:
            G = together(state.X, epoch, step)
        else:
            users = range(oracle.users)
            G = xp.stack([oracle.grad(i, state.X[i, :, :], epoch, step) for i in users])
        sound = xp.all(xp.isfinite(G), axis=(1, 2))
        missing = {
            user: "rejected: its gradient is not finite"
            for user, fine in enumerate(sound)
            if not bool(fine)
        }
        return clipped(xp.where(sound[:, None, None], G, xp.zeros_like(G)), self.clip), missing

    @staticmethod
    def _fresh(X: Any) -> Moments:
        xp = array_namespace(X)
        steps = xp.zeros((X.shape[0], 1, X.shape[2]), dtype=xp.float64, device=device(X))
        return Moments(xp.zeros_like(X), xp.zeros_like(X), steps)


def method(name: str, gamma: float, *, epochs: float = 3.0, **options: Any) -> ShareLoRA:
    """A method of the table by its name.

    >>> method("G", 5e-5).warmup
    2.0
    """
    shared, part = METHODS[check_choice("name", name, tuple(METHODS))]
    check_number("epochs", epochs, low=0.0, low_open=True)
    return ShareLoRA(gamma=gamma, shared=shared, warmup=part * epochs, epochs=epochs, **options)


@lru_cache(maxsize=64)
def _mask(shared: str, representation: float, shapes: tuple[tuple[int, int], ...]) -> Mask:
    """The shared coordinates of modules (m, n)."""
    parts = []
    for index, (m, n) in enumerate(shapes):
        up, down = shared in ("up", "all"), shared in ("down", "all")
        if shared == "modules":
            up = down = index < round(representation * len(shapes))
        parts += [np.full(m, up), np.full(n, down)]
    return np.concatenate(parts)


def _mask_like(xp: Any, values: Mask, like: Any) -> Any:
    return xp.asarray(values, device=device(like))
