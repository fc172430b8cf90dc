"""What all algorithms share: what they ask, their round, and averages over the agents in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from array_api_compat import array_namespace

from linsys.algorithms.steps import Steps, StepSizes
from linsys.oracle import Observation
from linsys.validate import InputError, check_instance, check_integer

__all__ = [
    "Collaborative",
    "Sampling",
    "Start",
    "State",
    "agent_mean",
    "agent_sizes",
    "check_start",
    "keep_inactive",
    "sent_mean",
    "start_of",
]


class Counted(Protocol):
    """What all states have."""

    @property
    def t(self) -> int:
        """Rounds done."""


State = TypeVar("State", bound=Counted)


class Start(NamedTuple):
    """Where agents start: x (..., n, d), and theta (..., p) of the central objective or None."""

    x0: Any
    theta0: Any = None


@dataclass(frozen=True, eq=False)
class Sampling:
    """The oracle of all algorithms of this package: samples, step sizes and who takes part.

    Args:
        observe: called once per local step with its index 0, 1, ...; gives that step's samples.
        steps: step sizes, constant within a round.
        local_steps: samples per agent between two communications.
        participate: maps a round to a 0/1 array (..., n, 1) with at least one agent, or None for
            all agents always. Where an algorithm is said to be unbiased with partial participation,
            agents must be chosen uniformly, given their number.

    Raises:
        InputError: ``local_steps`` that are no positive whole number; in a round, a participation
            that is no 0/1 array with an agent in it.

    >>> import numpy as np
    >>> from linsys import GaussianSystem
    >>> from linsys.algorithms import AffPCL, Steps
    >>> from linsys.rounds import rounds
    >>> system = GaussianSystem(np.zeros((3, 2)), np.ones((3, 2)), np.eye(2), np.eye(2))
    >>> rng = np.random.default_rng(0)
    >>> agents = Sampling(lambda t: system.observe(system.sample(rng)), Steps.constant(0.05))
    >>> algorithm = AffPCL()
    >>> state = algorithm.init(np.zeros((3, 2)))
    >>> for state, _ in rounds(algorithm, agents, state, 200): pass
    >>> state.t, bool(np.abs(algorithm.personal(state) - system.x_star).max() < 0.5)
    (200, True)
    """

    observe: Callable[[int], Observation]
    steps: Steps
    local_steps: int = 1
    participate: Callable[[int], Any] | None = None

    def __post_init__(self) -> None:
        check_integer("local_steps", self.local_steps, low=1)


class Collaborative(ABC, Generic[State]):
    """A collaborative algorithm; its states have a counter ``t`` of rounds."""

    @abstractmethod
    def init(self, start: Any, oracle: Any = None) -> State:
        """The state before the first round, from x (..., n, d) or a :class:`Start`."""

    def round(self, state: State, oracle: Sampling) -> tuple[State, None]:
        """One communication round on the next samples; there is nothing to report."""
        t, local = state.t, oracle.local_steps
        seen = [oracle.observe(t * local + k) for k in range(local)]
        active = None if oracle.participate is None else _check_active(oracle.participate(t))
        return self.update(state, seen, oracle.steps.at(t), active), None

    @abstractmethod
    def update(
        self, state: State, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> State:
        """The state after a round with one observation per local step.

        ``active`` is None (all agents take part) or a 0/1 array of shape (..., n, 1).
        """

    @abstractmethod
    def personal(self, state: State) -> Any:
        """The agents' decision variables x^i, shape (..., n, d)."""


def start_of(start: Any, oracle: Any) -> Start:
    """Check a start; x alone becomes a :class:`Start` without theta.

    Raises:
        InputError: a start that is no finite array of floats, an oracle that is no Sampling.
    """
    if oracle is not None:
        check_instance("oracle", oracle, Sampling, "a Sampling")
    x0, theta0 = start if isinstance(start, tuple) else (start, None)
    check_start("x0", x0, 2)
    if theta0 is not None:
        check_start("theta0", theta0, 1)
    return Start(x0, theta0)


def agent_mean(rows: Any, active: Any = None) -> Any:
    """Mean over the agents that take part, kept as a row: (..., n, d) -> (..., 1, d)."""
    if active is None:
        return rows.sum(-2)[..., None, :] / rows.shape[-2]
    return (rows * active).sum(-2)[..., None, :] / active.sum(-2)[..., None, :]


def sent_mean(rows: Any, like: Any, active: Any = None, weights: Any = None) -> Any:
    """What the server sends to agent i in place of (1/n) sum_j w^i_j rows^j, shape (..., n, d).

    With partial participation the plain mean over the active agents is biased *given that agent i
    is one of them*, and only then does it use what it is sent: its own row appears always, the
    others' only sometimes.  For m of n agents chosen uniformly,

        (1/n) w^i_i rows^i + (n - 1) / (n (m - 1)) sum_{j active, j != i} w^i_j rows^j

    is unbiased given that i is active, and it is the plain mean when m = n.  Alone among others,
    m = 1 < n, an agent learns nothing about them; it is sent ``like``.

    Args:
        rows: one row per sample, (..., n, d).
        like: what an agent that is alone receives, (..., n, d).
        active: 0/1 array (..., n, 1), or None.
        weights: w^i_j, (..., n, n), or None for one.
    """
    if active is None:
        return agent_mean(rows) if weights is None else weights @ rows / rows.shape[-2]
    xp = array_namespace(rows)
    n = rows.shape[-2]
    m = active.sum(-2)[..., None, :]
    eye = xp.eye(n, dtype=rows.dtype, device=getattr(rows, "device", None))
    share = (n - 1) / (n * xp.where(m > 1, m - 1, 1))
    own_and_others = eye / n + (1 - eye) * xp.matrix_transpose(active) * share
    mixed = (own_and_others if weights is None else own_and_others * weights) @ rows
    return xp.where(m >= min(n, 2), mixed, like)


def keep_inactive(new: Any, old: Any, active: Any) -> Any:
    """Rows of ``new`` where the agent takes part, of ``old`` elsewhere."""
    return new if active is None else array_namespace(new).where(active > 0, new, old)


def agent_sizes(size: Any, x: Any) -> Any:
    """Personal step sizes as a number, or as an array (n, 1) of the namespace of x (..., n, d)."""
    if isinstance(size, (int, float)):
        return size
    if tuple(size.shape) != (x.shape[-2], 1):
        raise InputError(
            f"step sizes of the agents must be a number or have shape ({x.shape[-2]}, 1); "
            f"found {tuple(size.shape)}"
        )
    return array_namespace(x).asarray(size, dtype=x.dtype, device=getattr(x, "device", None))


def check_start(name: str, start: Any, ndim: int) -> Any:
    """Return ``start`` if it is a finite array of floats with ``ndim`` axes or more, none empty."""
    try:
        xp = array_namespace(start)
    except TypeError:
        raise InputError(f"`{name}` must be an array; found {type(start).__name__}") from None
    wanted = "(..., n, d)" if ndim == 2 else "(..., p)"
    if not xp.isdtype(start.dtype, "real floating"):
        raise InputError(f"`{name}` must hold real floating numbers; found dtype {start.dtype}")
    if start.ndim < ndim or 0 in tuple(start.shape):
        raise InputError(f"`{name}` must have shape {wanted}; found {tuple(start.shape)}")
    if not bool(xp.all(xp.isfinite(start))):
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    return start


def _check_active(active: Any) -> Any:
    """Return ``active`` if it is a 0/1 array (..., n, 1) with at least one agent, or None."""
    if active is None:
        return None
    shape = tuple(getattr(active, "shape", ()))
    if len(shape) < 2 or shape[-1] != 1:
        raise InputError(f"`participate` must give an array of shape (..., n, 1); found {shape}")
    if not bool(((active == 0) | (active == 1)).all()):
        raise InputError("`participate` must give zeros and ones; found another value")
    if not bool((active.sum(-2) > 0).all()):
        raise InputError("`participate` must give at least one agent; found none")
    return active
