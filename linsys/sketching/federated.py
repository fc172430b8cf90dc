"""What the federated LoRA algorithms share: rounds, local steps, devices that fail, bytes.

One round: every device receives some components of the modules, makes H local steps on them, and
sends the result, of which the server makes the next modules. The algorithm says which components,
and what the server does. State is explicit, and no algorithm knows a model: it sees rows X (k, w)
of :mod:`linsys.sketching.adapters`, as NumPy arrays or torch tensors, and an oracle.

*A device that fails* does not end the round. An oracle that raises :class:`DeviceLost` has a device
drop out; one whose numbers, or products of them, are not finite is rejected. Both are named in the
round's :class:`Report` with the reason, and the server goes on with the rest, with the weights that
the algorithm states: unchanged, so that the missing device counts as one that did not move.

*Server and devices apart.* :meth:`Federated.round` is :meth:`Federated.offer` and
:meth:`Federated.train` of every device and then :meth:`Federated.join`. Where devices are other
machines, each calls the second and the server the other two, and the numbers are the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
from array_api_compat import array_namespace, device as get_device, is_array_api_obj

from linsys.optimizers import AdamW, clipped
from linsys.sketching.adapters import Modules
from linsys.sketching.sketch import top_k
from linsys.validate import InputError, check_choice, check_integer, check_number

__all__ = ["DeviceLost", "Federated", "Oracle", "Report", "Sent", "State"]

#: The largest number in single precision.
_SINGLE = 3.4e38


class DeviceLost(RuntimeError):
    """Raised by an oracle whose device has dropped out; the text is the reason."""


class Oracle(Protocol):
    """Gradients of devices: see :class:`linsys.sketching.systems.MatrixSystem`.

    An oracle may have a method ``descend(device, X, scale, round_, gamma, H)`` too, for X after H
    steps along ``grad`` at a stretch; without an optimizer of their own devices then use it. Or one
    ``grads(devices, rows, scales, round_, step)`` for a list of what ``grad`` gives to several
    devices, computed together; a device that has dropped out has its :class:`DeviceLost` there.
    """

    @property
    def modules(self) -> Modules:
        """The adapted matrices."""

    @property
    def devices(self) -> int:
        """N."""

    def grad(self, device: int, X: Any, scale: float, round_: int, step: int) -> Any:
        """A stochastic gradient at W0 + scale B A of the rows X (k, w), of their shape."""

    def merged(self, products: Sequence[Any]) -> tuple[Any, ...]:
        """The frozen matrices with products added, as :meth:`with_frozen` takes them."""

    def with_frozen(self, frozen: tuple[Any, ...]) -> Any:
        """This oracle with these frozen matrices."""


class State(NamedTuple):
    """The server's side between two rounds.

    Attributes:
        X: the global modules, shape (r, w).
        t: rounds done.
        frozen: the matrices that FedStackLoRA has merged products into; without any, the oracle's.
    """

    X: Any
    t: int = 0
    frozen: tuple[Any, ...] = ()

    def merged_into(self, oracle: Any) -> Any:
        """The oracle with the frozen matrices of this state."""
        return oracle.with_frozen(self.frozen) if self.frozen else oracle


class Ask(NamedTuple):
    """A device in the middle of its local steps asks for the gradient of its rows X (k, w)."""

    X: Any
    scale: float
    step: int


#: A device's round: it asks for gradients, and returns the rows it began and ended with.
Training = Generator[Ask, Any, tuple[Any, Any]]
#: Those rows, or why there are none.
Outcome = tuple[Any, Any] | DeviceLost


class Sent(NamedTuple):
    """What reaches the server of a device's rows: an array (k, w), and the bytes it takes."""

    values: Any
    bytes: int


@dataclass(frozen=True)
class Report:
    """What a round cost and who was missing.

    Attributes:
        up: bytes from every device, 0 from one that failed.
        down: bytes to every device.
        missing: device to reason.
    """

    up: tuple[int, ...]
    down: tuple[int, ...]
    missing: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Federated(ABC):
    """A federated LoRA algorithm.

    Args:
        gamma: step size of the local steps.
        H: local steps in a round.
        ranks: k_i of every device, at most r.
        optimizer: "sgd", or "adamw" with PyTorch's betas and epsilon.
        decay: weight decay of AdamW.
        compression: share of an update's entries that is sent, the largest ones; None for all.
        seed: of the sketches and of fresh modules.
        clip: largest norm of a device's gradient in a local step; None for any.

    Raises:
        InputError: no devices, ranks that are no positive whole numbers, a step size that is not
            positive, H < 1, a share outside (0, 1].
    """

    gamma: float
    H: int
    ranks: Sequence[int]
    optimizer: str = "sgd"
    decay: float = 0.0
    compression: float | None = None
    seed: int = 0
    clip: float | None = None

    #: How server and clients share a round: :meth:`offer`, :meth:`train`, :meth:`join`.
    split: ClassVar[str] = "devices"
    #: Whether devices send their modules, instead of what has changed in them.
    sends_modules: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, low=0.0, low_open=True)
        check_integer("H", self.H, low=1)
        try:
            ranks = tuple(self.ranks)
        except TypeError:
            raise InputError(
                f"`ranks` must be a list, one for each device; found {self.ranks!r}"
            ) from None
        if not ranks:
            raise InputError("`ranks` must name at least one device; found none")
        object.__setattr__(self, "ranks", tuple(check_integer("ranks", k, low=1) for k in ranks))
        check_choice("optimizer", self.optimizer, ("sgd", "adamw"))
        check_number("decay", self.decay, low=0.0)
        if self.compression is not None:
            check_number("compression", self.compression, low=0.0, high=1.0, low_open=True)
        check_integer("seed", self.seed, high=(1 << 64) - 1)
        if self.clip is not None:
            check_number("clip", self.clip, low=0.0, low_open=True)

    def init(self, X: Any, oracle: Oracle) -> State:
        """The state before the first round, from the global modules X (r, w).

        Raises:
            InputError: modules of another width than the oracle's or that are no finite floating
                point numbers, other devices than the oracle's, a rank above r.
        """
        if not is_array_api_obj(X):
            raise InputError(f"`X` must be an array; found a {type(X).__name__}")
        r = X.shape[0] if X.ndim == 2 else 0
        if r == 0 or X.shape[1] != oracle.modules.width:
            raise InputError(
                f"`X` must have shape (r, {oracle.modules.width}); found {tuple(X.shape)}"
            )
        if not array_namespace(X).isdtype(X.dtype, "real floating"):
            raise InputError(f"`X` must hold floating point numbers; found dtype {X.dtype}")
        if not _finite(X):
            raise InputError("`X` must be finite; found an entry that is not")
        if len(self.ranks) != oracle.devices:
            raise InputError(
                f"`ranks` must be {oracle.devices}, one for each device; found {len(self.ranks)}"
            )
        if max(self.ranks) > r:
            device = self.ranks.index(max(self.ranks))
            raise InputError(
                f"`ranks` must be at most r = {r}; found {max(self.ranks)} at device {device}"
            )
        return State(X)

    def round(self, state: State, oracle: Oracle) -> tuple[State, Report]:
        """One round: local steps of all devices, then the server's."""
        devices = state.merged_into(oracle)
        trained = self._all_at_once if hasattr(devices, "grads") else self._one_by_one
        outcomes = {
            device: self._sent(state, outcome) for device, outcome in trained(state, devices)
        }
        return self.join(state, outcomes, oracle)

    def rows(self, device: int, round_: int, r: int) -> Any:
        """Which components of r a device trains in a round, increasing: here the first k_i."""
        return np.arange(self.ranks[device])

    def offer(self, state: State, device: int) -> Any:
        """What the server sends a device: the rows of X (k, w) that it trains."""
        return state.X[self.rows(device, state.t, state.X.shape[0]), :]

    def train(
        self, offered: Any, device: int, *, round_: int, r: int, oracle: Any
    ) -> Sent | DeviceLost:
        """A device's part of a round, from what the server has sent.

        Args:
            offered: of :meth:`offer`.
            device: its number.
            round_: the server's t.
            r: the rank of the global modules.
            oracle: answers for this device.
        """
        X, rows = offered, self.rows(device, round_, r)
        if len(rows) == len(offered) < r:  # the other components are not the device's to see
            X = array_namespace(offered).zeros(
                (r, offered.shape[1]), dtype=offered.dtype, device=get_device(offered)
            )
            X[rows, :] = offered
        state = State(X, round_)
        return self._sent(state, self._outcome_of_one(state, device, oracle))

    def join(
        self, state: State, outcomes: Mapping[int, Sent | DeviceLost], oracle: Any
    ) -> tuple[State, Report]:
        """The server's part of a round: it looks at what has arrived before it uses it.

        Args:
            state: the server's.
            outcomes: device to what it has sent, or why there is nothing.
            oracle: is asked for its modules, and by FedStackLoRA for what merging gives.
        """
        sent: dict[int, Any] = {}
        missing: dict[int, str] = {}
        up = [0] * len(self.ranks)
        for device in range(len(self.ranks)):
            outcome = outcomes.get(device, DeviceLost("no answer"))
            if isinstance(outcome, DeviceLost):
                missing[device] = f"dropped out: {outcome}"
            elif (reason := self._refusal(state, device, outcome.values)) is not None:
                missing[device] = f"rejected: its update {reason}"
            else:
                sent[device], up[device] = outcome
        report = Report(tuple(up), tuple(self._download(state)), missing)
        return self._aggregate(state, sent, oracle), report

    def _sent(self, state: State, outcome: Outcome) -> Sent | DeviceLost:
        """What goes to the server, from the rows that a device began and ended with."""
        if isinstance(outcome, DeviceLost):
            return outcome
        start, end = outcome
        # gradients of a finer type leave rows of that type; what is sent is of the modules'
        end = array_namespace(end).astype(end, state.X.dtype, copy=False)
        end -= start  # local steps end in an array of their own
        update = top_k(end, 1.0 if self.compression is None else self.compression)
        values = start + update.values if self.sends_modules else update.values
        return Sent(values, update.bytes)

    def _refusal(self, state: State, device: int, values: Any) -> str | None:
        """Why the server cannot use what a device has sent."""
        rows = self.rows(device, state.t, state.X.shape[0])
        wanted, shape = (len(rows), state.X.shape[1]), tuple(values.shape)
        if shape != wanted:
            return f"has shape {shape} where {wanted} was expected"
        if values.dtype != state.X.dtype:
            return f"has dtype {values.dtype} where {state.X.dtype} was expected"
        return _unusable(values if self.sends_modules else state.X[rows, :] + values)

    def _one_by_one(self, state: State, oracle: Any) -> Iterator[tuple[int, Outcome]]:
        """Train one device after the other; the rows of each, or why there are none."""
        for device in range(len(self.ranks)):
            yield device, self._outcome_of_one(state, device, oracle)

    def _outcome_of_one(self, state: State, device: int, oracle: Any) -> Outcome:
        """Train one device; its rows, or why there are none."""
        training, gradient = self._device(state, device, oracle), None
        while True:
            try:
                ask = training.send(gradient)
                gradient = oracle.grad(device, ask.X, ask.scale, state.t, ask.step)
            except StopIteration as done:
                return cast(Outcome, done.value)
            except DeviceLost as lost:
                return lost

    def _all_at_once(self, state: State, oracle: Any) -> Iterator[tuple[int, Outcome]]:
        """Train all devices, the gradients of a local step computed for all of them at once."""
        devices = range(len(self.ranks))
        training = {device: self._device(state, device, oracle) for device in devices}
        gradients: dict[int, Any] = dict.fromkeys(devices)
        while gradients:
            asks: dict[int, Ask] = {}
            for device, gradient in gradients.items():
                if isinstance(gradient, DeviceLost):
                    yield device, gradient
                    continue
                try:
                    asks[device] = training[device].send(gradient)
                except StopIteration as done:
                    yield device, done.value
                except DeviceLost as lost:
                    yield device, lost
            gradients = {}
            if asks:
                step = next(iter(asks.values())).step
                rows, scales = [a.X for a in asks.values()], [a.scale for a in asks.values()]
                answers = oracle.grads(list(asks), rows, scales, state.t, step)
                gradients = dict(zip(asks, answers, strict=True))

    @abstractmethod
    def _device(self, state: State, device: int, oracle: Any) -> Training:
        """A device's round: asks for gradients, returns the rows (k, w) it began and ended with."""

    @abstractmethod
    def _aggregate(self, state: State, sent: Mapping[int, Any], oracle: Any) -> State:
        """The server's step, from what the devices that are left have sent."""

    def _download(self, state: State) -> list[int]:
        """Bytes to every device: its rows."""
        row = row_bytes(state.X)
        return [k * row for k in self.ranks]

    def _local(self, state: State, device: int, oracle: Any, X: Any, scale: float) -> Training:
        """From X (k, w): X itself, and the rows after H local steps."""
        start, descend = X, getattr(oracle, "descend", None)
        if descend is not None and self.optimizer == "sgd" and self.clip is None:
            return start, descend(device, X, scale, state.t, self.gamma, self.H)
        move = self._optimizer()
        for step in range(self.H):
            X = move(X, (yield Ask(X, scale, step)))
        return start, X

    def _optimizer(self) -> Any:
        if self.optimizer == "adamw":
            move: Any = AdamW(self.gamma, self.decay)
        else:
            move = self._gradient_step
        return lambda X, gradient: move(X, clipped(gradient, self.clip))

    def _gradient_step(self, X: Any, gradient: Any) -> Any:
        return X - self.gamma * gradient


def row_bytes(X: Any) -> int:
    """Bytes of one component of all modules."""
    item = getattr(X, "itemsize", None) or X.element_size()
    return int(math.prod(X.shape[1:]) * item)


def _finite(X: Any) -> bool:
    xp = array_namespace(X)
    return bool(xp.all(xp.isfinite(X)))


def _unusable(X: Any) -> str | None:
    """Why the server cannot use a device's rows.

    It multiplies B by A and squares what comes out: |B A|^2 is at most |X|^4, which has to be a
    number. Half precision is multiplied in single precision.
    """
    xp = array_namespace(X)
    largest = max(float(xp.max(X)), -float(xp.min(X)))
    if not math.isfinite(largest):
        return "is not finite"
    limit = max(float(xp.finfo(X.dtype).max), _SINGLE)
    if largest > limit**0.25 / math.sqrt(math.prod(X.shape)):
        return "is so large that its products are not finite"
    return None
