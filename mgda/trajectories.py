"""Sampled transitions of MOMDPs and the stochastic gradients (10) of FIRM made of them.

*Random numbers.* Step ``time`` of client c in replicate k uses the block of Philox4x64-10 (Salmon
et al., 2011) with key ``seed`` and counter (time, c, k, 0), and nothing else: results depend
neither on batches nor on threads nor on what else is simulated. A caller lets time go on over all
its draws.

*Chains.* Before a step its state is replaced, with probability ``fresh``, by a draw of ``law``:

============  =========  ====  ==========================================================
sampling      fresh      law   states follow
============  =========  ====  ==========================================================
markov        0          -     P_pi, Algorithm 3 as printed; stationary law d_pi
restarted     1 - gamma  mu0   gamma P_pi + (1 - gamma) 1 mu0', stationary law nu, of which
                               the policy gradient theorem speaks (Xu et al., 2020)
stationary    1          d_pi  independent draws of d_pi
============  =========  ====  ==========================================================

The next state of a transition is always a draw of P, as TD errors need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linsys.compiled import compiled
from linsys.validate import Array, InputError, check_choice, check_integer
from mgda.momdp import MOMDP, SoftmaxPolicy

__all__ = [
    "SAMPLINGS",
    "Clients",
    "Transitions",
    "check_clients",
    "error_sums",
    "gradients",
    "sample",
    "td_errors",
]

SAMPLINGS = ("markov", "restarted", "stationary")

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_UNIT = 2.0**-53
#: Times and replicates are counted up to here, so that sums of them remain in range.
_COUNTED = 1 << 62


@compiled
def _high(a: Any, b: Any) -> Any:
    """The upper 64 bits of a product of two 64-bit integers."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


@compiled
def philox(k0: Any, k1: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """Philox4x64-10: four random 64-bit words of a key and a counter."""
    for _ in range(10):
        h0, h1 = _high(_M0, c0), _high(_M1, c2)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, _M1 * c2, h0 ^ c3 ^ k1, _M0 * c0
        k0, k1 = k0 + _W0, k1 + _W1
    return c0, c1, c2, c3


@compiled
def _uniform(bits: Any) -> Any:
    return np.float64(bits >> np.uint64(11)) * _UNIT


@compiled
def _draw(cumulative: Any, u: Any) -> Any:
    """The first k with u < cumulative[k]; the last one where rounding leaves none."""
    k = 0
    while k < len(cumulative) - 1 and u >= cumulative[k]:
        k += 1
    return k


@compiled
def _walk(
    key: Any,
    time: Any,
    first: Any,
    pi: Any,
    P: Any,
    law: Any,
    fresh: Any,
    state: Any,
    states: Any,
    actions: Any,
    after: Any,
) -> None:
    """Fill states, actions, after (R, C, B); ``pi``, ``P``, ``law`` are cumulative."""
    replicates, clients, length = states.shape
    for k in range(replicates):
        for c in range(clients):
            s = state[k, c]
            for step in range(length):
                b0, b1, b2, b3 = philox(
                    key[0],
                    key[1],
                    np.uint64(time + step),
                    np.uint64(c),
                    np.uint64(first + k),
                    np.uint64(0),
                )
                if _uniform(b2) < fresh:
                    s = _draw(law[k, c], _uniform(b3))
                a = _draw(pi[k, c, s], _uniform(b0))
                states[k, c, step], actions[k, c, step] = s, a
                s = _draw(P[c, s, a], _uniform(b1))
                after[k, c, step] = s
            state[k, c] = s


@compiled
def _sum_errors(
    states: Any, actions: Any, after: Any, r: Any, gamma: Any, values: Any, sums: Any
) -> None:
    """Add the TD errors of each pair to sums (R, C, S, A, M)."""
    replicates, clients, length = states.shape
    for k in range(replicates):
        for c in range(clients):
            for step in range(length):
                s, a, t = states[k, c, step], actions[k, c, step], after[k, c, step]
                for j in range(values.shape[-1]):
                    error = r[c, s, a, t, j] + gamma * values[k, c, t, j] - values[k, c, s, j]
                    sums[k, c, s, a, j] += error


class Transitions(NamedTuple):
    """States, actions and next states, each (R, C, B): replicates, clients, time."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    after: NDArray[np.int64]


class Clients:
    """The processes of C clients, all the same one or one each, side by side for the kernels.

    Args:
        momdps: one process for all clients, or one for each.
        count: C; needed for one process only.

    Raises:
        InputError: processes of different sizes, discounts or policy features, or another number
            of them than ``count``.

    >>> from mgda.instances import sample_momdp
    >>> clients = Clients(sample_momdp(0, states=3, actions=2), 4)
    >>> clients.jac(np.zeros((10, 4, 6))).shape  # replicates, clients, d, M
    (10, 4, 6, 2)
    """

    def __init__(self, momdps: MOMDP | Sequence[MOMDP], count: int | None = None) -> None:
        same = isinstance(momdps, MOMDP)
        if isinstance(momdps, MOMDP):
            self.momdps = (momdps,) * check_integer("count", 1 if count is None else count, low=1)
        elif isinstance(momdps, Iterable):
            self.momdps = tuple(momdps)
        else:
            raise InputError(
                f"`momdps` must be a MOMDP, or a list of them; found {type(momdps).__name__}"
            )
        for given in self.momdps:
            if not isinstance(given, MOMDP):
                raise InputError(f"`momdps` must hold MOMDPs; found {type(given).__name__}")
        self.same = same
        if not self.momdps or (not same and count not in (None, len(self.momdps))):
            raise InputError(
                f"`momdps` must be one process for each of {'C' if count is None else count} "
                f"clients; found {len(self.momdps)}"
            )
        first = self.momdps[0]
        for other in self.momdps[1:]:
            if other.r.shape != first.r.shape or other.gamma != first.gamma:
                raise InputError("`momdps` must have one shape and gamma; found different ones")
            if not np.array_equal(other.x, first.x):
                raise InputError("`momdps` must have the same features; found different ones")
        # one copy for all clients where they are the same: a view with a stride of zero
        kept = self.momdps[:1] if same else self.momdps
        self.P = self._shared(np.cumsum([m.P for m in kept], axis=-1))
        self.r = self._shared(np.array([m.r for m in kept]))

    def _shared(self, arrays: Array) -> Array:
        return np.broadcast_to(arrays, (len(self), *arrays.shape[1:]))

    def __len__(self) -> int:
        return len(self.momdps)

    @property
    def model(self) -> MOMDP:
        """The first client's process, for what all of them share."""
        return self.momdps[0]

    def policies(self, theta: Array) -> list[SoftmaxPolicy]:
        """Policies of theta (..., C, d): one stack of all clients, or one for each."""
        theta = np.asarray(theta)
        if theta.shape[-2:] != (len(self), self.model.d):
            raise InputError(
                f"`theta` must have shape (..., {len(self)}, {self.model.d}) for "
                f"{len(self)} clients; found {theta.shape}"
            )
        if self.same:
            return [self.model.at(theta)]
        return [m.at(theta[..., c, :]) for c, m in enumerate(self.momdps)]

    def gather(self, parts: list[Array]) -> Array:
        """Join what the policies gave, shape (R, C, ...)."""
        return parts[0] if self.same else np.stack(parts, axis=1)

    def jac(self, theta: Array, first: int = 0) -> Array:
        """Exact gradients of the clients' own returns at theta (R, C, d), shape (R, C, d, M)."""
        return self.gather([policy.jac(first) for policy in self.policies(theta)])


def check_clients(value: object) -> None:
    """Refuse anything but :class:`Clients`, such as a single process."""
    if not isinstance(value, Clients):
        raise InputError(
            f"`clients` must be mgda.trajectories.Clients; found {type(value).__name__}"
        )


def sample(
    clients: Clients,
    policies: list[SoftmaxPolicy],
    state: NDArray[np.int64],
    length: int,
    *,
    seed: int,
    time: int = 0,
    sampling: str = "markov",
    first_replicate: int = 0,
) -> tuple[Transitions, NDArray[np.int64]]:
    """``length`` transitions of every replicate and client from their states; and the last states.

    Args:
        clients: the processes.
        policies: their policies at theta (R, C, d), from :meth:`Clients.policies`.
        state: shape (R, C).
        length: B.
        seed: below 2^128.
        time: number of steps that this seed was used for already.
        sampling: markov, restarted or stationary, see the module's text.
        first_replicate: number of the first of the R replicates.

    >>> from mgda.instances import sample_momdp
    >>> clients = Clients(sample_momdp(0, states=3), 2)
    >>> policies = clients.policies(np.zeros((5, 2, clients.model.d)))
    >>> batch, last = sample(clients, policies, np.zeros((5, 2), dtype=np.int64), 7, seed=1)
    >>> batch.states.shape, bool((batch.after[..., :-1] == batch.states[..., 1:]).all())
    ((5, 2, 7), True)
    """
    check_choice("sampling", sampling, SAMPLINGS)
    length, seed = (
        check_integer("length", length, low=1),
        check_integer("seed", seed, high=(1 << 128) - 1),
    )
    time = check_integer("time", time, high=_COUNTED)
    first = check_integer("first_replicate", first_replicate, high=_COUNTED)
    pi = clients.gather([p.pi for p in policies])
    if pi.ndim != 4 or pi.shape[1] != len(clients):
        raise InputError(
            f"`policies` must be those of theta (R, {len(clients)}, {clients.model.d}); "
            f"found probabilities of shape {pi.shape}"
        )
    shape = (pi.shape[0], len(clients))
    raw, S = np.asarray(state), clients.model.n_states
    if raw.dtype.kind not in "iu" or raw.shape != shape or raw.min() < 0 or raw.max() >= S:
        raise InputError(
            f"`state` must hold whole numbers from 0 to {S - 1} in shape {shape}; "
            f"found shape {raw.shape} of {raw.dtype}"
            + (f", from {raw.min()} to {raw.max()}" if raw.size and raw.dtype.kind in "iuf" else "")
        )
    last = np.array(raw, dtype=np.int64)
    law, fresh = np.ones((*shape, S)), 0.0
    if sampling == "restarted":
        starts = np.array([m.start for m in clients.momdps])
        law, fresh = np.broadcast_to(starts, law.shape), 1.0 - clients.model.gamma
    elif sampling == "stationary":
        law, fresh = clients.gather([p.stationary for p in policies]), 1.0
    key = np.array([seed & (2**64 - 1), seed >> 64], dtype=np.uint64)
    batch = Transitions(*(np.empty((*shape, length), dtype=np.int64) for _ in range(3)))
    policy, fresh_law = np.cumsum(pi, axis=-1), np.cumsum(law, axis=-1)
    _walk(key, time, first, policy, clients.P, fresh_law, fresh, last, *batch)
    return batch, last


def td_errors(clients: Clients, batch: Transitions, values: Array) -> Array:
    """delta^j = r^j + gamma v^j(s') - v^j(s) of equation (10), shape (R, C, B, M).

    Args:
        clients: the processes.
        batch: transitions (R, C, B).
        values: v^j(s) of the critics, shape (R, C, S, M).
    """
    _check_values(clients, batch, values)
    own = np.arange(len(clients))[:, None]
    r = clients.r[own, batch.states, batch.actions, batch.after]
    now = np.take_along_axis(values, batch.states[..., None], axis=2)
    then = np.take_along_axis(values, batch.after[..., None], axis=2)
    return np.asarray(r + clients.model.gamma * then - now)


def _check_values(clients: Clients, batch: Transitions, values: Array) -> None:
    """Check the shapes that the kernels rely on, as they check no index."""
    replicates, count = batch.states.shape[:2]
    if count != len(clients):
        raise InputError(f"`batch` must be of {len(clients)} clients; found {count}")
    expected = (replicates, count, clients.model.n_states, clients.model.M)
    if np.shape(values) != expected:
        raise InputError(f"`values` must have shape {expected}; found {np.shape(values)}")


def error_sums(clients: Clients, batch: Transitions, values: Array) -> Array:
    """TD errors summed over the batch for each pair, shape (R, C, S, A, M)."""
    _check_values(clients, batch, values)
    m = clients.model
    sums = np.zeros((*batch.states.shape[:2], m.n_states, m.n_actions, m.M))
    _sum_errors(*batch, clients.r, m.gamma, np.ascontiguousarray(values), sums)
    return sums


def gradients(
    clients: Clients, policies: list[SoftmaxPolicy], batch: Transitions, values: Array
) -> Array:
    """g^j = (1/B) sum_l delta_l^j psi(a_l|s_l), equation (10) of FIRM, shape (R, C, d, M)."""
    sums = error_sums(clients, batch, values) / batch.states.shape[-1]
    if clients.same:
        return policies[0].score_sum(sums)
    return clients.gather([p.score_sum(sums[:, c]) for c, p in enumerate(policies)])
