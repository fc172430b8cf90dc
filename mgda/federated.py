"""What the federated multi-objective algorithms share: states, local steps, aggregation, bytes.

C clients ascend J with parameters of their own, theta^c <- theta^c + alpha sum_j lambda^{j,c}
g^{j,c}, and every K steps all of them go on from the mean. How the weights lambda^c come about
makes the algorithm. (Algorithm 1 of FIRM prints a minus, as if g were gradients of losses; its
theory, from equation (5) on, ascends.)

Two things that the algorithms of FIRM do not print are optional here. A *common* gradient, (..., C,
d), is added after the weights are found: what holds a policy near the one it started from belongs
to no objective, and inside of all of them it would enter their Gram matrix. And clients may step
with *Adam* for alpha sum_j lambda^{j,c} g^{j,c}: the experiments run on a library of PPO (Appendix
A.1), whose default it is, while Algorithms 1 and 2 and the theory have plain steps.

An algorithm sees arrays only: parameters (..., C, d) with axes of replicates in front, gradients
(..., C, d, M) with one column for each objective, in NumPy or torch. Weights are small and stay in
NumPy's float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from linsys.optimizers import Moments, adamw
from linsys.validate import Array, InputError, check_choice, check_integer, check_number, real_array
from mgda.simplex import min_norm, regulariser

__all__ = [
    "Federated",
    "MinNorm",
    "Oracle",
    "Start",
    "State",
    "Traffic",
    "apart",
    "as_numpy",
    "check_simplex",
    "client_mean",
    "finite_rows",
    "joined",
    "like",
]

Memory = TypeVar("Memory")
#: Rounding of sums of weights, which the caller may have computed.
_SUM = 1e-9


class Oracle(Protocol[Memory]):
    """Gradients of clients, one column for each objective: see :mod:`mgda.actor_critic`.

    Clients whose numbers are not 0, 1, .. have them in an attribute ``names``, for errors.
    """

    def init(self) -> Memory:
        """What the clients keep at the start."""

    def jac(self, theta: Any, memory: Memory) -> tuple[Any, Memory] | tuple[Any, Memory, Any]:
        """Gradients (..., C, d, M) at theta (..., C, d), and what the clients keep.

        A third entry is the gradient (..., C, d) that is common to all objectives, see
        :meth:`Federated.step`.
        """


class Start(NamedTuple):
    """Where a run starts.

    Attributes:
        theta0: parameters of the clients, shape (..., C, d).
        weights: lambda_0 on the simplex, shape (..., C, M); equal weights without them.
    """

    theta0: Any
    weights: Array | None = None


class State(NamedTuple):
    """Everything a run goes on from.

    Attributes:
        theta: parameters of the clients, shape (..., C, d).
        weights: lambda of the last step, shape (..., C, M); None before the first one, which
            stands for equal weights.
        t: local steps taken.
        memory: what the oracle keeps.
        moments: what Adam remembers of every client, shapes (..., C, d); None for plain steps.
    """

    theta: Any
    weights: Array | None
    t: int = 0
    memory: Any = None
    moments: Moments | None = None


class Traffic(NamedTuple):
    """Bytes of all clients together: ``up`` to the server and ``down`` from it."""

    up: int
    down: int


def as_numpy(array: Any) -> Array:
    """An array of any namespace, or nested lists, as float64 of NumPy."""
    on_host = array.detach().cpu() if hasattr(array, "detach") else array
    return np.asarray(on_host, dtype=np.float64)


def finite_rows(name: str, value: Any, shape: str) -> Array:
    """A finite float64 array with as many axes as ``shape`` names, or more; none of them empty.

    >>> finite_rows("theta", [1.0, 2.0], "(..., C, d)")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `theta` must have shape (..., C, d); found (2,)
    """
    try:
        rows = as_numpy(value)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of real numbers; found {type(value).__name__}"
        ) from None
    if rows.ndim < shape.count(",") or rows.size == 0:
        raise InputError(f"`{name}` must have shape {shape}; found {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    return rows


def client_mean(rows: Any) -> Any:
    """Mean over the clients of (..., C, k), repeated for each of them."""
    xp = array_namespace(rows)
    return xp.mean(rows, axis=-2, keepdims=True) + xp.zeros_like(rows)


def apart(stack: Any) -> list[Any]:
    """Matrices (..., C, a, b) in the parts that are multiplied at once: torch's, of each client.

    A client has the same last bits alone, on a machine of its own, as among others: MKL, which
    multiplies for torch, has other code for a stack of one matrix than for several. So every client
    is a stack of one, in memory of its own, which is aligned. NumPy multiplies one by one.
    """
    if not is_torch_array(stack):
        return [stack]
    return [stack[..., c : c + 1, :, :].clone().contiguous() for c in range(stack.shape[-3])]


def joined(parts: Sequence[Any], axis: int) -> Any:
    """What was computed from :func:`apart`, along the axis of the clients."""
    if len(parts) == 1:
        return parts[0]
    return array_namespace(*parts).concat(parts, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Federated(ABC):
    """Local steps and aggregation; a subclass says what the weights are.

    Args:
        alpha: step size.
        K: local steps between aggregations.
        restart: where local steps start from the server's parameters. "aggregation" is Algorithm 1:
            after each aggregation. "step" is what Algorithm 2 prints, at every step t: only the
            last step before an aggregation then counts, the others are thrown away. Algorithm 2
            also aggregates when t mod K = 0, first after a single step; here it is always after K
            of them.
        optimizer: "sgd" for theta + alpha direction, or "adam".
        moments: Adam's at an aggregation. They stay with the client and are "kept", or "reset" to
            zero with its parameters; the paper says neither. No moments are sent.
    """

    #: How server and clients share a round: :meth:`step`, or with FedCMOO its ``compress``,
    #: ``resolve`` and :meth:`move`.
    split: ClassVar[str] = "objectives"
    #: Whether the server weighs the gradients of all clients, for which it asks before their steps.
    weighs_on_server: ClassVar[bool] = False

    alpha: float
    K: int = 1
    restart: str = "aggregation"
    optimizer: str = "sgd"
    moments: str = "kept"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0, low_open=True)
        check_integer("K", self.K, low=1)
        check_choice("restart", self.restart, ("aggregation", "step"))
        check_choice("optimizer", self.optimizer, ("sgd", "adam"))
        check_choice("moments", self.moments, ("kept", "reset"))

    def init(self, start: Any, oracle: Oracle[Any] | None = None) -> State:
        """Start at the mean of theta0 (..., C, d), which the server broadcasts.

        Args:
            start: theta0, an array of floats, or a :class:`Start`.
            oracle: says what it keeps; None where :meth:`step` gets gradients of somebody else.

        Raises:
            InputError: parameters or weights of another kind, NaN or infinity among them.
        """
        theta0, weights = start if isinstance(start, tuple) else (start, None)
        memory = None if oracle is None else oracle.init()
        _check("theta0", theta0, 2, "(..., C, d)")
        theta, moments = client_mean(theta0), None
        if self.optimizer == "adam":
            moments = _zeros(theta)
        if weights is None:
            return State(theta, None, 0, memory, moments)
        _check("weights", weights, 2, "(..., C, M)")
        given = as_numpy(weights)
        if given.shape[:-1] != tuple(theta0.shape[:-1]):
            raise InputError(
                f"`weights` must have shape {(*theta0.shape[:-1], 'M')}; found {given.shape}"
            )
        return State(theta, check_simplex("weights", given), 0, memory, moments)

    def round(self, state: State, oracle: Oracle[Any]) -> tuple[State, Array]:
        """Local steps up to the next aggregation, K of them, and their weights (K, ..., C, M)."""
        weights: list[Any] = []
        while not weights or state.t % self.K:
            state, _ = self.local_step(state, oracle)
            weights.append(state.weights)
        return state, np.array(weights)

    def local_step(self, state: State, oracle: Oracle[Any]) -> tuple[State, Any]:
        """:meth:`step` along the gradients that an oracle gives, and these gradients."""
        gradients, *kept = oracle.jac(state.theta, state.memory)
        after = self.step(state, gradients, *kept, names=getattr(oracle, "names", None))
        return after, gradients

    def step(
        self,
        state: State,
        gradients: Any,
        memory: Any = None,
        common: Any = None,
        *,
        names: Sequence[int] | None = None,
    ) -> State:
        """One local step of every client, and the aggregation where it is due.

        Args:
            state: the current one.
            gradients: g^{j,c} at ``state.theta``, shape (..., C, d, M).
            memory: what the oracle keeps from now on.
            common: a gradient that no weight applies to, shape (..., C, d): the direction is
                sum_j lambda^{j,c} g^{j,c} + common. It has no part in the weights.
            names: numbers of the clients, for errors; 0, 1, .. without them.

        Returns:
            The next state; its ``weights`` are those of this step.

        Raises:
            InputError: gradients of another shape, or NaN or infinity among them; not as many
                numbers as clients; a step that overflows.
        """
        self._check_gradients(state, gradients, names)
        weights = self.weigh(state, gradients)
        return self._stepped(state, gradients, weights, memory, common, names)

    def move(
        self,
        state: State,
        gradients: Any,
        weights: Array,
        memory: Any = None,
        common: Any = None,
        *,
        names: Sequence[int] | None = None,
    ) -> State:
        """:meth:`step` with given weights (..., C, M), such as a server's that has found them.

        The clients may be some of all, or one: what is before the aggregation mixes no clients.
        """
        self._check_gradients(state, gradients, names)
        return self._stepped(state, gradients, weights, memory, common, names)

    def _stepped(
        self,
        state: State,
        gradients: Any,
        weights: Array,
        memory: Any,
        common: Any,
        names: Sequence[int] | None,
    ) -> State:
        xp = array_namespace(state.theta)
        if common is not None:
            self._check_gradients(state, common, names, "common")
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            columns = apart(like(gradients, weights)[..., None])
            moves = [g @ w for g, w in zip(apart(gradients), columns, strict=True)]
            direction = joined(moves, -3)[..., 0]
            if common is not None:
                direction = direction + common
            if self.optimizer == "sgd":
                moved, moments = state.theta + self.alpha * direction, None
            else:
                before = state.moments or _zeros(state.theta)
                moved, moments = adamw(state.theta, -direction, before, self.alpha, 0.0)
        # Adam's steps stay short: an infinite second moment would silently end them
        if place := _not_finite(moved if moments is None else moments.second, state, names):
            raise InputError(
                f"a step must not overflow; found infinity or NaN {place}: lower alpha"
            )
        if (state.t + 1) % self.K == 0:
            theta = client_mean(moved)
            if moments is not None and self.moments == "reset":
                moments = _zeros(theta)
        else:
            theta = moved if self.restart == "aggregation" else state.theta
        return State(xp.astype(theta, state.theta.dtype), weights, state.t + 1, memory, moments)

    @abstractmethod
    def weigh(self, state: State, gradients: Any) -> Array:
        """lambda^c of this step, shape (..., C, M)."""

    @abstractmethod
    def solve(self, gradients: Any) -> Array:
        """Weights (..., M) that the algorithm's own problem gives for gradients (..., d, M)."""

    def bytes_per_round(self, clients: int, d: int, M: int, *, itemsize: int = 4) -> Traffic:
        """Bytes of one round: every client sends its parameters, and receives their mean.

        Args:
            clients: C.
            d: number of parameters.
            M: number of objectives.
            itemsize: bytes of a float.
        """
        numbers = check_integer("clients", clients, low=1) * check_integer("d", d, low=1)
        check_integer("M", M, low=1)
        total = numbers * check_integer("itemsize", itemsize, low=1)
        return Traffic(total, total)

    def _check_gradients(
        self, state: State, array: Any, names: Sequence[int] | None, name: str = "gradients"
    ) -> None:
        """Check gradients (..., C, d, M) of the objectives, or their common one, (..., C, d)."""
        expected: tuple[Any, ...] = tuple(state.theta.shape)
        if names is not None and len(names) != expected[-2]:
            raise InputError(
                f"`names` must be the numbers of {expected[-2]} clients; found {len(names)}"
            )
        sizes = tuple(getattr(array, "shape", ()))
        if name == "gradients":
            M = None if state.weights is None else state.weights.shape[-1]
            expected = (*expected, "M" if M is None else M)
            fits = sizes[:-1] == expected[:-1] and sizes[-1] != 0 and M in (None, sizes[-1])
        else:
            fits = sizes == expected
        if not fits:
            shape = ", ".join(str(size) for size in expected)
            raise InputError(f"`{name}` must have shape ({shape}); found {sizes}")
        try:
            xp = array_namespace(state.theta, array)
            real = xp.isdtype(array.dtype, ("real floating", "integral"))
        except TypeError:
            raise InputError(
                f"`{name}` must be an array of the same library as the parameters, "
                f"{type(state.theta).__module__}; found {type(array).__module__}"
            ) from None
        if not real:
            raise InputError(f"`{name}` must hold real numbers; found dtype {array.dtype}")
        if place := _not_finite(array, state, names):
            raise InputError(f"`{name}` must be finite; found NaN or infinity {place}")


@dataclass(frozen=True, kw_only=True)
class MinNorm(Federated):
    """Weights from min lambda'(G + R) lambda over the simplex, :mod:`mgda.simplex`.

    Args:
        beta: R = (beta / 2) I, equation (1).
        preference: p > 0 with R = Diag(1 / p) in its place, equation (3), and ``beta`` zero.
        normalise: divide the Gram matrix by (1/M) tr G, equation (9).
    """

    beta: float = 0.0
    preference: Sequence[float] | None = None
    normalise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        size = 1
        if self.preference is not None:
            size = len(real_array("preference", self.preference, ("M",)))
        regulariser(size, self.beta, self.preference)
        if not isinstance(self.normalise, bool):
            raise InputError(f"`normalise` must be True or False; found {self.normalise!r}")

    def solve(self, gradients: Any) -> Array:
        """lambda^* of gradients (..., d, M), shape (..., M)."""
        solution = min_norm(
            gradients, beta=self.beta, preference=self.preference, normalise=self.normalise
        )
        return solution.weights


def check_simplex(name: str, weights: Array) -> Array:
    """Return weights (..., M) that are not negative and sum to one."""
    if (weights < 0).any() or (np.abs(weights.sum(axis=-1) - 1.0) > _SUM).any():
        raise InputError(
            f"`{name}` must be non-negative and sum to 1; found the least {weights.min():.6g} "
            f"and sums from {weights.sum(axis=-1).min():.6g} to {weights.sum(axis=-1).max():.6g}"
        )
    return weights


def _not_finite(array: Any, state: State, numbers: Sequence[int] | None) -> str:
    """Which client's entries of (..., C, ...) are not all finite, in words; empty if all are.

    A replicate is named where there are several. So is a client whose number is not known: one
    alone has place 0 here, whichever it is elsewhere.
    """
    xp = array_namespace(array)
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(array))):  # it is not where an entry is not
            return ""
    finite = xp.isfinite(array)
    if bool(xp.all(finite)):
        return ""
    clients = as_numpy(finite).reshape(*state.theta.shape[:-1], -1).all(-1)
    where = tuple(int(k) for k in np.argwhere(~clients)[0])
    *replicates, C = clients.shape
    number = where[-1] if numbers is None else numbers[where[-1]]
    names = [f"client {number}"] if C > 1 or numbers is not None else []
    names += [f"replicate {where[:-1]}"] if any(size > 1 for size in replicates) else []
    return f"at {' of '.join(names)}{', ' if names else ''}step {state.t}"


def _zeros(theta: Any) -> Moments:
    """Adam's moments before its first step."""
    xp = array_namespace(theta)
    return Moments(xp.zeros_like(theta), xp.zeros_like(theta), 0)


def _check(name: str, value: Any, ndim: int, shape: str) -> None:
    """A finite array of floats with ``ndim`` axes or more, none of them empty."""
    try:
        xp = array_namespace(value)
    except TypeError:
        raise InputError(f"`{name}` must be an array; found {type(value).__name__}") from None
    if not xp.isdtype(value.dtype, "real floating"):
        raise InputError(f"`{name}` must hold real floating numbers; found dtype {value.dtype}")
    if value.ndim < ndim or 0 in tuple(value.shape):
        raise InputError(f"`{name}` must have shape {shape}; found {tuple(value.shape)}")
    if not bool(xp.all(xp.isfinite(value))):
        raise InputError(f"`{name}` must be finite; found NaN or infinity")


def like(array: Any, weights: Array) -> Any:
    """A copy of weights in the namespace, dtype and device of an array."""
    xp = array_namespace(array)
    return xp.asarray(np.array(weights), dtype=array.dtype, device=getattr(array, "device", None))
