"""Exact moments of any algorithm whose round is affine in its state, read off its own ``round``.

In a round that is affine in the state, every outcome s of what is drawn, one *oracle* each, maps
the state's numbers z to A(s) z + b(s). Rounds from zero and from the basis vectors tell A(s) and
b(s); they are taken in arithmetic of 40 digits, so that small steps lose none. The moments are
those of the :class:`~linsys.recursions.LinearRecursion` with these coefficients, at any number of
rounds. The algorithm stays as it was written: nothing is stated twice.

:func:`linsys.moments.exact_moments` knows the maps of AffPCL, FedAvg and independent agents agent
by agent, for any number of agents, and is hundreds of times faster. Here all that is drawn in a
round is one outcome: n agents on S states with H local steps have S^(n H).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.algorithms import Sampling, Steps
from linsys.linalg import Numbers, no_floats, precise, precision
from linsys.recursions import LinearRecursion, Moments
from linsys.systems.finite import FiniteSystem
from linsys.validate import (
    Array,
    InputError,
    check_instance,
    check_integer,
    distributions,
    real_array,
)

__all__ = ["AffineRounds", "affine_rounds", "outcomes"]

#: Digits of the arithmetic in which maps are read, and to which they must be affine.
_DIGITS, _AFFINE = 40, 1e-25
#: With a smaller condition number, moments are computed around the solution of the mean round.
_WELL_POSED = 1e12
#: Most outcomes, and most coefficients of the recursion of second moments for all of them.
MOST_OUTCOMES, _MOST_COEFFICIENTS = 4096, 10**8


def outcomes(system: FiniteSystem, steps: Steps, local_steps: int = 1) -> tuple[list[Any], Array]:
    """All that n agents on S states may observe in one round, and the law of these outcomes.

    Args:
        system: agents that draw their states independently, from their own distributions.
        steps: step sizes, constant over the rounds.
        local_steps: samples of each agent in one round, H.

    Returns:
        S^(n H) oracles, each of which always shows the same samples, and their probabilities.

    Raises:
        InputError: no finite system, or more than 4,096 outcomes.
    """
    check_instance("system", system, FiniteSystem, "a FiniteSystem")
    draws = check_integer("local_steps", local_steps, low=1) * system.n
    if draws * np.log(system.n_states) > np.log(MOST_OUTCOMES) + 1e-9:
        raise InputError(
            f"`system` must have at most {MOST_OUTCOMES} outcomes of a round; found "
            f"{system.n_states}^{draws}"
        )
    oracles, law = [], []
    for drawn in itertools.product(range(system.n_states), repeat=draws):
        states = np.reshape(drawn, (local_steps, system.n))
        seen = [system.observe(row) for row in states]
        oracles.append(Sampling(partial(_one_of, seen), steps, local_steps))
        law.append(system.mu[np.arange(system.n), states].prod())
    return oracles, np.array(law)


@dataclass(frozen=True)
class AffineRounds:
    """An algorithm's rounds, z <- z + G(s) z + g(s) on the D numbers z of its state.

    Attributes:
        G, g: what a round adds, for every outcome s, shapes (S, D, D) and (S, D).
        law: probabilities of the outcomes, shape (S,).
        state: the state before the first round.
    """

    G: Array
    g: Array
    law: Array
    state: Any

    def moments(
        self, t: ArrayLike, read: Callable[[Any], Any] | None = None, around: ArrayLike = 0.0
    ) -> Moments:
        """First and second moments after t rounds, of what ``read`` says of the state.

        Args:
            t: numbers of rounds, of any shape.
            read: an affine function of the state, such as ``algorithm.personal``; by default all
                of the state's numbers.
            around: a point that is taken away, such as the solution, of the same shape as what is
                read; errors that are small beside it keep their digits.

        Raises:
            InputError: what is read is not affine in the state.

        >>> from linsys.algorithms import Independent
        >>> system = FiniteSystem(  # x <- x - 0.1 (x - b(s)), with b = -1 or 1
        ...     A=np.ones((2, 1, 1)), Phi=np.ones((2, 1, 1)), b=np.array([[[-1.0], [1.0]]]),
        ...     mu=np.array([[0.5, 0.5]]))
        >>> alone = Independent()
        >>> rounds = affine_rounds(
        ...     alone, alone.init(np.ones((1, 1))), *outcomes(system, Steps.constant(0.1)))
        >>> error = rounds.moments([0, 10, 10**9], alone.personal, around=system.x_star).square()
        >>> [float(value) for value in error.round(6)]
        [1.0, 0.167809, 0.052632]
        """
        E, e = _read_off(self.state, read or _numbers)
        start, D = _numbers(self.state), self.G.shape[-1]
        # What no round changes is known, and what neither a round nor `read` looks at is not
        # needed; both would cost digits.
        fixed = np.asarray(~(self.G.any(axis=(0, 2)) | self.g.any(axis=0)))
        seen = (self.G + np.eye(D)).any(axis=(0, 1)) | E.any(axis=0)
        kept = np.asarray(seen & ~fixed)
        if not kept.any():  # a recursion has at least one number
            kept[0], fixed[0] = True, False
        offset = e + E[:, fixed] @ start[fixed] - np.asarray(around, dtype=float).ravel()
        g = self.g[:, kept] + self.G[:, kept][:, :, fixed] @ start[fixed]
        G, E, start = self.G[:, kept][:, :, kept], E[:, kept], start[kept]
        recursion = LinearRecursion.of_increments(G, g, law=self.law)
        if np.linalg.cond(np.tensordot(self.law, G, 1)) < _WELL_POSED:
            center = recursion.solution
            recursion, start, offset = recursion.around(center), start - center, offset + E @ center
        state = recursion.moments(start, t)
        mean = state.mean @ E.T
        cross = mean[..., :, None] * offset
        second = E @ state.second @ E.T + cross + np.swapaxes(cross, -1, -2)
        return Moments(mean + offset, second + offset[:, None] * offset)


def affine_rounds(
    algorithm: Any, state: Any, oracles: Sequence[Any], law: ArrayLike
) -> AffineRounds:
    """Read the maps of an algorithm's round off the round itself.

    Args:
        algorithm: any with ``round(state, oracle) -> state, report`` (:mod:`linsys.rounds`).
        state: where it starts, a named tuple; its NumPy arrays of floating-point numbers are what
            changes.
        oracles: one for each outcome s of what a round draws; each must always show the same.
        law: their probabilities, shape (S,).

    Raises:
        InputError: a law that is no distribution; a round that is not affine in the state (seen at
            three points of both signs and several sizes), that is another one in later rounds, or
            that computes with anything but NumPy's arithmetic; too many numbers or outcomes.

    >>> from linsys.algorithms import AffPCL
    >>> system = FiniteSystem.from_objectives(
    ...     A=np.array([[[1.0]], [[3.0]]]), Phi=np.ones((2, 1, 1)),
    ...     theta=np.array([[1.0], [1.2]]), mu=np.array([[0.5, 0.5], [0.4, 0.6]]))
    >>> algorithm = AffPCL()
    >>> start = algorithm.init(np.zeros((2, 1)))
    >>> rounds = affine_rounds(algorithm, start, *outcomes(system, Steps.constant(1e-8)))
    >>> errors = rounds.moments(10**9, algorithm.personal, around=system.x_star)
    >>> np.diag(errors.second)  # E(x^i - x_*^i)^2, as by exact_moments
    array([3.19428343e-10, 3.18601978e-10])
    """
    probabilities = distributions("law", real_array("law", law, (len(oracles),))[None])[0]
    D = len(_numbers(state))
    if len(oracles) * (D * (D + 3) // 2) ** 2 > _MOST_COEFFICIENTS:
        raise InputError(
            f"`state` must have fewer numbers, or a round fewer outcomes; found {D} numbers and "
            f"{len(oracles)} outcomes"
        )
    maps = [_read_off(state, partial(_increment, algorithm, oracle)) for oracle in oracles]
    G, g = (np.stack(part) for part in zip(*maps, strict=True))
    return AffineRounds(G, g, probabilities, state)


def _one_of(seen: Sequence[Any], step: int) -> Any:
    """The observation of a local step; every round has the same ones."""
    return seen[step % len(seen)]


def _increment(algorithm: Any, oracle: Any, state: Any) -> Numbers:
    """What a round adds to the state's numbers."""
    after, _ = algorithm.round(state, oracle)
    if _shapes(after) != _shapes(state):
        raise InputError(
            f"`algorithm.round` must keep the shapes of its state's arrays, {_shapes(state)}; "
            f"found {_shapes(after)}"
        )
    if hasattr(after, "t"):
        later, _ = algorithm.round(state._replace(t=after.t), oracle)
        if not np.array_equal(_numbers(later), _numbers(after)):
            raise InputError(
                "`algorithm.round` must do the same in every round; found one that depends on `t`"
            )
    return np.asarray(_numbers(after) - _numbers(state))


def _read_off(state: Any, function: Callable[[Any], Any]) -> tuple[Array, Array]:
    """E (k, D) and e (k,) of an affine function of the state, whose values have k numbers."""
    start = _numbers(state)
    D = len(start)
    with precision(_DIGITS), no_floats("a round in high precision becomes a float"):

        def at(z: Numbers) -> Numbers:
            value = function(_with_numbers(state, z))
            return np.asarray(value).ravel()

        try:
            e = at(precise(np.zeros(D)))
            E = np.stack([at(row) - e for row in precise(np.eye(D))], axis=1)
            points = [scale * precise(_point(D)) for scale in (1, -1, 1000)]
            off = np.stack([np.abs(at(point) - E @ point - e) for point in points])
        except (TypeError, AttributeError, np.linalg.LinAlgError) as error:
            raise InputError(
                f"`algorithm.round` must compute with NumPy's arithmetic, in any precision; found "
                f"{type(error).__name__}: {error}"
            ) from error
        affine = bool((off <= _AFFINE * (1 + np.abs(E).sum() + np.abs(e).sum())).all())
    if not affine:
        raise InputError("`algorithm.round` must be affine in the state; found one that is not")
    return E.astype(float), e.astype(float)


def _point(D: int) -> Numbers:
    """Fractions of both signs, of which none is a simple combination of the others."""
    return np.array([Fraction((-1) ** k * (k % 7 + 1), k + 2) for k in range(D)], dtype=object)


def _arrays(state: Any) -> list[str]:
    """The fields that hold floating-point arrays, or such in high precision."""
    if not hasattr(state, "_fields"):
        raise InputError(f"`state` must be a named tuple; found {type(state).__name__}")
    values = {name: getattr(state, name) for name in state._fields}
    return [n for n, v in values.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fO"]


def _shapes(state: Any) -> dict[str, tuple[int, ...]]:
    return {name: getattr(state, name).shape for name in _arrays(state)}


def _numbers(state: Any) -> Numbers:
    """The numbers of the state's arrays, one after another."""
    parts = [getattr(state, name).ravel() for name in _arrays(state)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _with_numbers(state: Any, z: Numbers) -> Any:
    """The state with these numbers."""
    shapes = _shapes(state)
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
    parts = np.split(z, ends[:-1])
    return state._replace(
        **{n: part.reshape(shapes[n]) for n, part in zip(shapes, parts, strict=True)}
    )
