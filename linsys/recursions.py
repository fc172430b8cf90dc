"""Exact moments of any linear recursion with random coefficients, in float64 or high precision.

A recursion x_{t+1} = A(s_t) x_t + b(s_t) draws its coefficients from finitely many states s: every
time anew, or along a Markov chain. The first and second moments of x_t then follow a linear
recursion themselves, on the d(d+3)/2 different entries of E[x] and E[x x'] (for each state of a
chain), whose t-th power takes log2(t) squarings: any t, without randomness. In float64 about 14
digits remain at any t where states are independent, because powers are formed from what a step
changes (:mod:`linsys.moments._doubling` says why). Those of a chain lose as many digits as a step
is smaller than the chain's own. Arrays of ``mpf`` are computed as they are, so that a claim's
measure may use this as it uses :mod:`linsys.linalg`.

All arrays may have leading axes, one recursion for each entry, which broadcast.

>>> import numpy as np
>>> A, b = np.full((2, 1, 1), 0.9), np.array([[-0.1], [0.1]])  # x <- 0.9 x + noise
>>> walk = LinearRecursion(A, b, law=np.array([0.5, 0.5]))
>>> float(walk.moments(np.ones(1), 10**6).second[0, 0].round(6))
0.052632
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linsys.linalg import Numbers, is_precise, lambda_min, precise, solve, stationary
from linsys.moments.halfvec import pairs
from linsys.validate import PROBABILITY_TOLERANCE, InputError

__all__ = ["LinearRecursion", "Moments"]

#: Where a power is formed from its difference to I, until a diagonal entry of that is this large.
_SWITCH = 0.25
_MOST_STEPS = 2**62


@dataclass(frozen=True)
class Moments:
    """First and second moments of a random vector.

    Attributes:
        mean: E[x], shape (..., d).
        second: E[x x'], shape (..., d, d).
    """

    mean: Numbers
    second: Numbers

    @property
    def covariance(self) -> Numbers:
        """E[x x'] - E[x] E[x]'; digits are lost where it is small beside E[x] E[x]'."""
        return np.asarray(self.second - self.mean[..., :, None] * self.mean[..., None, :])

    def square(self, weight: Numbers | None = None) -> Numbers:
        """E ||x||^2, or E[x' W x] for symmetric W (..., d, d)."""
        if weight is None:
            return np.asarray(np.trace(self.second, axis1=-2, axis2=-1))
        d = self.second.shape[-1]
        if np.shape(weight)[-2:] != (d, d):
            raise InputError(f"`weight` must have shape (..., {d}, {d}); found {np.shape(weight)}")
        return np.asarray((weight * self.second).sum(axis=(-2, -1)))


def _check_laws(name: str, p: Numbers) -> None:
    """Refuse rows (..., S) of float64 that are no distributions; other numbers may not compare."""
    if p.dtype == object:
        return
    off = np.maximum(-p.min(axis=-1), np.abs(p.sum(axis=-1) - 1))
    if (off > PROBABILITY_TOLERANCE).any():
        row = p.reshape(-1, p.shape[-1])[int(off.argmax())]
        raise InputError(f"`{name}` must have rows that sum to 1, none below 0; found {row}")


def _stationary(kernel: Numbers) -> Numbers:
    """The stationary law (..., S) of chains with one recurrent class, zero on transient states."""
    with np.errstate(invalid="ignore"):  # NaN, where a state does not lead to those before it
        law = stationary(kernel)
    unknown = np.asarray(law != law, dtype=bool).any(axis=-1) & np.asarray(
        kernel == kernel, dtype=bool
    ).all(axis=(-2, -1))
    if not unknown.any():
        return law
    # States are left out down to the first one, which all others must lead to: another one first.
    P = kernel[unknown]
    leads = np.asarray(P > 0, dtype=bool) | np.eye(P.shape[-1], dtype=bool)
    for _ in range(int(P.shape[-1]).bit_length()):
        leads = leads @ leads
    always = leads.all(axis=-2)  # states that every state leads to
    if not always.any(axis=-1).all():
        raise InputError(
            "`kernel` must have one class of states that every state leads to, or the limit "
            f"depends on the start; found {P[int(np.argmin(always.any(axis=-1)))].astype(float)}"
        )
    order = np.argsort(~always, axis=-1, kind="stable")
    turned = np.take_along_axis(
        np.take_along_axis(P, order[..., :, None], -2), order[..., None, :], -1
    )
    found = np.take_along_axis(stationary(turned), np.argsort(order, axis=-1), -1)
    law = law.copy()
    law[unknown] = found
    return law


class LinearRecursion:
    """x_{t+1} = A(s_t) x_t + b(s_t) with random states s_t.

    Args:
        A: of every state, shape (..., S, d, d); of a chain also of every transition (s_t, s_{t+1}),
            shape (..., S, S, d, d).
        b: the same with shape (..., S, d) or (..., S, S, d).
        law: of independent states, shape (..., S).
        kernel: or of a chain, shape (..., S, S): the probability of s_{t+1} given s_t.
        start: the law of a chain's s_0, shape (..., S); its stationary law by default, which is
            zero on transient states.

    Raises:
        InputError: shapes that do not fit; both a law and a kernel, or neither; rows that are no
            distributions; where the stationary law is asked for, explicitly or by default, of a
            chain that has several.

    >>> A, b = np.full((2, 1, 1), 0.9), np.array([[-0.1], [0.3]])  # x <- 0.9 x + noise
    >>> LinearRecursion(A, b, law=np.array([0.5, 0.5])).solution
    array([1.])
    """

    def __init__(
        self,
        A: Any,
        b: Any,
        *,
        law: Any = None,
        kernel: Any = None,
        start: Any = None,
    ) -> None:
        A, b = np.asarray(A), np.asarray(b)
        if A.ndim < 3 or A.shape[-1] != A.shape[-2]:
            raise InputError(f"`A` must have shape (..., S, d, d); found {A.shape}")
        self._set(A - np.eye(A.shape[-1], dtype=int), b, law, kernel, start)

    @classmethod
    def of_increments(
        cls, G: Any, g: Any, *, law: Any = None, kernel: Any = None, start: Any = None
    ) -> LinearRecursion:
        """The recursion x_{t+1} = x_t + G(s_t) x_t + g(s_t).

        In float64 with small steps more digits of G survive than in A = I + G.

        >>> A = np.array([[[0.5]], [[0.25]]])
        >>> one = LinearRecursion.of_increments(A - 1, np.ones((2, 1)), law=np.array([0.5, 0.5]))
        >>> one.solution
        array([1.6])
        """
        made = cls.__new__(cls)
        made._set(np.asarray(G), np.asarray(g), law, kernel, start)
        return made

    def _set(self, G: Any, g: Any, law: Any, kernel: Any, start: Any) -> None:
        if (law is None) == (kernel is None):
            given = "neither" if law is None else "both: `start` is a chain's first law"
            raise InputError(f"`law` or `kernel` must say how states are drawn; found {given}")
        if law is not None and start is not None:
            raise InputError("`start` must be left out where states are independent; found one")
        self._chain = kernel is not None
        p = np.asarray(kernel if self._chain else law)
        named = "kernel" if self._chain else "law"
        axes = 1 + self._chain
        if p.ndim < axes or p.shape[-1] != p.shape[-axes]:
            shape = "(..., S, S)" if self._chain else "(..., S)"
            raise InputError(f"`{named}` must have shape {shape}; found {p.shape}")
        _check_laws(named, p)
        S = p.shape[-1]
        if G.ndim < 3 or G.shape[-1] != G.shape[-2]:
            raise InputError(f"`A` must have shape (..., S, d, d); found {G.shape}")
        self.d = G.shape[-1]
        transitions = self._chain and self._of_transitions(G, g, p)
        wanted = (S, S) if transitions else (S,)
        for name, array, tail in (("A", G, (self.d, self.d)), ("b", g, (self.d,))):
            count = len(wanted) + len(tail)
            if array.shape[array.ndim - count :] != (*wanted, *tail):
                said = ", ".join(["...", *"S" * len(wanted), *"d" * len(tail)])
                raise InputError(
                    f"`{name}` must have shape ({said}) with S = {S}, d = {self.d}; "
                    f"found {array.shape}"
                )
        if self._chain and not transitions:  # the same for every next state
            G, g = np.expand_dims(G, -3), np.expand_dims(g, -2)
        self.G, self.g, self.p = G, g, p
        self._start = None if start is None else np.asarray(start)
        if self._start is not None and self._start.shape[-1:] != (S,):
            raise InputError(f"`start` must have shape (..., {S}); found {self._start.shape}")
        if self._start is not None:
            _check_laws("start", self._start)

    @staticmethod
    def _of_transitions(G: Numbers, g: Numbers, p: Numbers) -> bool:
        """Whether coefficients are of transitions: only then have they two axes of states."""
        S = p.shape[-1]
        return (
            G.ndim >= 4
            and g.ndim >= 3
            and G.shape[-4] in (S, 1)
            and g.shape[-3:-1] == (S, S)
            and G.ndim - p.ndim >= 2
        )

    @cached_property
    def _states(self) -> Numbers:
        """The law of s_0 (..., S)."""
        if not self._chain:
            return self.p
        return _stationary(self.p) if self._start is None else self._start

    @cached_property
    def solution(self) -> Numbers:
        """x* with E[A(s)] x* + E[b(s)] = x*, under the (stationary) law of the states (..., d)."""
        G, g = self._means()
        return solve(-G, g)

    def _means(self) -> tuple[Numbers, Numbers]:
        """E[A] - I and E[b]."""
        if not self._chain:
            p = self.p
            return (p[..., None, None] * self.G).sum(axis=-3), (p[..., None] * self.g).sum(axis=-2)
        p = _stationary(self.p)[..., :, None] * self.p
        G = (p[..., None, None] * self.G).sum(axis=(-4, -3))
        return G, (p[..., None] * self.g).sum(axis=(-3, -2))

    def around(self, point: Any) -> LinearRecursion:
        """The recursion of x_t - point (..., d), which keeps the digits of small differences."""
        point = np.asarray(point)
        moved = point[..., None, None, :, None] if self._chain else point[..., None, :, None]
        g = self.g + (self.G @ moved)[..., 0]
        made = LinearRecursion.__new__(LinearRecursion)
        made.__dict__.update(
            d=self.d, G=self.G, g=g, p=self.p, _chain=self._chain, _start=self._start
        )
        return made

    def moments(self, x0: Any, t: Any) -> Moments:
        """Of x_t, from x_0 = x0 (..., d) after t steps; t may have leading axes, too.

        >>> half = LinearRecursion([[[0.5]]], [[1.0]], law=[1.0])
        >>> half.moments(np.zeros(1), [0, 1, 2]).mean[:, 0]
        array([0. , 1. , 1.5])
        """
        x0 = self._point(x0)
        one = self._visited
        return one._moments(one._last, self._started(x0), t)

    def average(self, x0: Any, t: Any) -> Moments:
        """Of (x_0 + ... + x_{t-1}) / t, for t of at least one.

        >>> half = LinearRecursion([[[0.5]]], [[1.0]], law=[1.0])
        >>> half.average(np.zeros(1), 3).mean
        array([0.83333333])
        """
        x0, d = self._point(x0), self.d
        steps = _times(t, 1)
        z = np.concatenate([0 * x0, self._started(x0)], axis=-1)
        one = self._visited
        summed = one._moments(one._with_sum, z, steps)
        mean, second = summed.mean[..., :d], summed.second[..., :d, :d]
        count = precise(steps) if is_precise(mean) else steps.astype(float)
        return Moments(mean / count[..., None], second / count[..., None, None] ** 2)

    def limit(self) -> Moments:
        """Of the stationary distribution; NaN where the recursion is not stable in mean square.

        >>> walk = LinearRecursion([[[0.5]], [[1.5]]], np.ones((2, 1)), law=[0.5, 0.5])
        >>> walk.limit().second  # E[A^2] = 1.25
        array([[nan]])

        Transient states of a chain have no part in it, whatever happens in them.
        """
        law = _stationary(self.p) if self._chain else 0 * self.p[..., :1] + 1
        return self._without_transient(law)._limit(law)

    @cached_property
    def _visited(self) -> LinearRecursion:
        """This recursion; from the stationary law, as if transient states did nothing."""
        fixed = not self._chain or self._start is not None
        return self if fixed else self._without_transient(self._states)

    def _without_transient(self, law: Numbers) -> LinearRecursion:
        """This recursion with x = 0 after steps from states that a chain never is in."""
        transient = np.asarray(law == 0, dtype=bool)
        if not self._chain or not transient.any():
            return self
        made, left = LinearRecursion.__new__(LinearRecursion), transient[..., :, None]
        zero = -np.eye(self.d, dtype=int) + 0 * self.G
        G, g = np.where(left[..., None, None], zero, self.G), np.where(left[..., None], 0, self.g)
        made.__dict__.update(d=self.d, G=G, g=g, p=self.p, _chain=True, _start=self._start)
        made.__dict__["_states"] = law
        return made

    def _limit(self, law: Numbers) -> Moments:
        K, D, S = self._last, self.d + 1, self._blocks
        rows, columns = pairs(D)
        known = np.tile((rows == self.d) & (columns == self.d), S)  # the law of the states
        pushed = (_part(K, ~known, known) @ law[..., None])[..., 0]
        moments = _filled(solve(-_part(K, ~known, ~known), pushed), ~known)
        result = self._read(moments + _filled(law, known))
        # A step maps second moments linearly, M -> T(M), and T keeps the order of matrices.
        # Therefore T contracts if and only if M - T(M) = I has a solution that is positive
        # definite in every state.
        second = np.tile((rows < self.d) & (columns < self.d), S)
        taken = np.tile(rows == columns, S)[second].astype(int) + 0 * pushed[..., : second.sum()]
        M = _filled(solve(-_part(K, second, second), taken), second)
        of_states = _unpacked(M.reshape(*M.shape[:-1], S, -1), D)[..., : self.d, : self.d]
        stable = np.asarray((lambda_min(of_states) > 0).all(axis=-1))
        nan = precise(np.nan) if is_precise(moments) else np.nan
        return Moments(
            np.asarray(np.where(stable[..., None], result.mean, nan)),
            np.asarray(np.where(stable[..., None, None], result.second, nan)),
        )

    @property
    def _blocks(self) -> int:
        """Of how many states moments are kept: all of a chain, one where they are drawn anew."""
        return int(self.p.shape[-1]) if self._chain else 1

    @cached_property
    def _last(self) -> Numbers:
        """What a step adds to the moments of (x, 1)."""
        d = self.d
        N = _zeros((*self.G.shape[:-2], d + 1, d + 1), self.G, self.g)
        N = N + 0 * self.g[..., :1, None]
        N[..., :d, :d] += self.G
        N[..., :d, d] += self.g
        return self._of_steps(N)

    @cached_property
    def _with_sum(self) -> Numbers:
        """What a step adds to the moments of (x_0 + ... + x_{t-1}, x_t, 1)."""
        d = self.d
        N = _zeros((*self.G.shape[:-2], 2 * d + 1, 2 * d + 1), self.G, self.g)
        N = N + 0 * self.g[..., :1, None]
        N[..., :d, d : 2 * d] += np.eye(d, dtype=int)
        N[..., d : 2 * d, d : 2 * d] += self.G
        N[..., d : 2 * d, 2 * d] += self.g
        return self._of_steps(N)

    def _of_steps(self, N: Numbers) -> Numbers:
        """E[(I + N) x (I + N)] - I on half-vectorised moments; of a chain, for its states."""
        D = N.shape[-1]
        unit = np.eye(D, dtype=int)
        one = N[..., :, :, None, None] * unit
        other = unit[:, :, None, None] * N[..., None, None, :, :]
        both = N[..., :, :, None, None] * N[..., None, None, :, :]
        K = _packed(one + other + both)  # (..., states, H, H)
        H = K.shape[-1]
        if not self._chain:
            return np.asarray((self.p[..., None, None] * K).sum(axis=-3))
        S = self.p.shape[-1]
        stay = (self.p - np.eye(S, dtype=int))[..., None, None] * np.eye(H, dtype=int)
        moved = self.p[..., None, None] * K + stay  # (..., from, to, H, H)
        turned = np.moveaxis(moved, (-4, -3, -2, -1), (-2, -4, -3, -1))  # (..., to, H, from, H)
        return np.asarray(turned).reshape(*turned.shape[:-4], S * H, S * H)

    def _point(self, x0: Any) -> Numbers:
        point = np.asarray(x0)
        if point.shape[-1:] != (self.d,):
            raise InputError(f"`x0` must have shape (..., {self.d}); found {point.shape}")
        return point

    @staticmethod
    def _started(x0: Numbers) -> Numbers:
        return np.concatenate([x0, 0 * x0[..., :1] + 1], axis=-1)

    def _moments(self, K: Numbers, z: Numbers, t: Any) -> Moments:
        """Of z after t steps."""
        rows, columns = pairs(z.shape[-1])
        start = z[..., rows] * z[..., columns]
        if self._chain:
            start = self._states[..., :, None] * start[..., None, :]
            start = start.reshape(*start.shape[:-2], -1)
        if not self._chain:
            return self._read(_propagated(K, start, _times(t, 0)), z.shape[-1])
        # Replace the first state's probability by the sum of all, which then stays exactly 1: as
        # an eigenvalue it would be 1 up to rounding, and t steps multiply that error by t.
        K, start = K.copy(), start.copy()
        ones = np.arange(1, self._blocks) * len(rows)
        start[..., 0] += start[..., ones].sum(axis=-1)
        K[..., :, ones] -= K[..., :, :1]
        K[..., 0, :] = 0 * K[..., 0, :]
        after = _propagated(K, start, _times(t, 0))
        after[..., 0] -= after[..., ones].sum(axis=-1)
        return self._read(after, z.shape[-1])

    def _read(self, h: Numbers, D: int | None = None) -> Moments:
        """The moments in half-vectorised ones, summed over a chain's states."""
        D = self.d + 1 if D is None else D
        S = self._blocks
        summed = h.reshape(*h.shape[:-1], S, h.shape[-1] // S).sum(axis=-2)
        second = _unpacked(summed, D)
        return Moments(second[..., : D - 1, D - 1], second[..., : D - 1, : D - 1])


def _propagated(K: Numbers, start: Numbers, t: Numbers) -> Numbers:
    """(I + K)^t start, with the t of every entry."""
    lead = np.broadcast_shapes(K.shape[:-2], start.shape[:-1], t.shape)
    size = start.shape[-1]
    result = np.broadcast_to(start, (*lead, size)).copy()
    left = np.broadcast_to(t, lead).copy()
    power, unit = K, np.eye(size, dtype=int)
    small = np.ones((*K.shape[:-2], 1, 1), dtype=bool)  # `power` is that of I + K less I
    while True:
        pushed = (power @ result[..., None])[..., 0]
        moved = np.where(small[..., 0], result + pushed, pushed)
        result = np.where((left % 2 == 1)[..., None], moved, result)
        left = left // 2
        if not left.any():
            return np.asarray(result)
        diagonal = np.abs(np.diagonal(power, axis1=-2, axis2=-1))
        large = np.asarray(diagonal.max(axis=-1) > _SWITCH, dtype=bool)
        switch = small & large[..., None, None]
        power, small = np.where(switch, power + unit, power), small & ~switch
        squared = power @ power
        power = np.where(small, squared + 2 * power, squared)


def _times(t: Any, low: int) -> Numbers:
    """Numbers of steps as integers."""
    steps = np.asarray(t)
    try:
        whole = np.array([int(one) for one in steps.ravel()], dtype=np.int64).reshape(steps.shape)
        fine = bool((whole == steps).all()) and bool((whole >= low).all())
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine or bool((whole > _MOST_STEPS).any()):
        raise InputError(f"`t` must be whole numbers from {low} to 2^62; found {t!r:.60}")
    return whole


def _zeros(shape: tuple[int, ...], *others: Numbers) -> Numbers:
    """Zeros of the kind of the others' numbers."""
    return precise(np.zeros(shape)) if any(map(is_precise, others)) else np.zeros(shape)


def _part(K: Numbers, rows: Numbers, columns: Numbers) -> Numbers:
    """The rows and columns of matrices (..., m, m) where these (m,) are True."""
    return np.asarray(K[..., rows, :][..., columns])


def _filled(values: Numbers, where: Numbers) -> Numbers:
    """Vectors (..., m) with these values where (m,) is True and zero elsewhere."""
    vectors = _zeros((*values.shape[:-1], len(where)), values)
    vectors[..., where] = values
    return vectors


def _packed(coefficients: Numbers) -> Numbers:
    """The matrix (..., H, H) of S -> sum_cd K[a, c, b, d] S[c, d] on half-vectorised S."""
    D = coefficients.shape[-1]
    a, b = (index[:, None] for index in pairs(D))
    c, d = (index[None, :] for index in pairs(D))
    return np.asarray(
        coefficients[..., a, c, b, d] + (c != d).astype(int) * coefficients[..., a, d, b, c]
    )


def _unpacked(vector: Numbers, D: int) -> Numbers:
    """Symmetric matrices (..., D, D) from half-vectorised ones (..., H)."""
    rows, columns = pairs(D)
    place = np.empty((D, D), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return vector[..., place]
