"""Rewards in conflict that need no model, and all values that policies can reach.

Each reward wants letters of its own class, and a response has room for only so many. The Pareto
front over all policies is known: see :func:`pareto_front`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import InputError, check_integer, finite_array
from lora_bridge._checks import texts
from lora_bridge.rewards import Declared

__all__ = ["front_gap", "letter_rewards", "pareto_front"]

Array = NDArray[np.float64]


def letter_rewards(length: int, classes: Sequence[str] = ("aeiou", "nrst")) -> tuple[Declared, ...]:
    """One reward in [0, 1] for each class of letters: sqrt(its letters / length).

    Only the first ``length`` characters of a response count. Classes have no letter in common, so
    that a letter serves one of them only; the root makes a mixture worth more than its parts on
    average, so that a compromise is better than a lottery between the extremes.

    Raises:
        InputError: no classes, or one text in their place; an empty class, or two with a letter in
            common.

    >>> [float(reward(["?"], ["Atone..."])[0]) for reward in letter_rewards(8)]
    [0.6124, 0.5]
    """
    check_integer("length", length, low=1)
    classes = texts("classes", classes)
    all_letters = "".join(classes)
    if (
        not classes
        or not all(classes)
        or len(set(all_letters)) != len(all_letters)
        or all_letters != all_letters.lower()
    ):
        raise InputError(f"`classes` must be disjoint sets of lower-case letters; found {classes}")

    def share(counted: str) -> Callable[[Sequence[str], Sequence[str]], Array]:
        def values(prompts: Sequence[str], responses: Sequence[str]) -> Array:
            counts = [sum(c in counted for c in text[:length].lower()) for text in responses]
            return np.sqrt(np.minimum(counts, length) / length)

        return values

    return tuple(Declared(kind, share(kind), 0.0, 1.0) for kind in classes)


def pareto_front(length: int) -> Array:
    """The vertices of the Pareto front of two :func:`letter_rewards`, shape (length + 1, 2).

    A response with k letters of the first class and l of the second has the rewards
    (sqrt(k / L), sqrt(l / L)), k + l <= L, and the expected rewards of policies fill the convex
    hull of these points. Raising k or l helps, so the front is that of k + l = L; these points lie
    on the unit circle, hence each is a vertex, and the front is the polygon through them in order.
    It is over all policies: adapters of a given model reach what they can.

    >>> pareto_front(2)
    array([[0.    , 1.    ],
           [0.7071, 0.7071],
           [1.    , 0.    ]])
    """
    share = np.arange(check_integer("length", length, low=1) + 1) / length
    return np.sqrt(np.stack([share, 1.0 - share], 1))


def front_gap(values: ArrayLike, length: int) -> Array:
    """How far expected rewards (.., 2) are inside the front: the largest t >= 0, shape (..), such
    that some policy has t more of both.

    The edge from vertex v to the next has a normal w > 0, and t is the least
    w.(v - values) / (w_1 + w_2) of all edges. Negative for values that no policy has.

    >>> front_gap([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]], 2).round(4)
    array([0.7071, 0.2071, 0.    ])
    """
    front = pareto_front(length)
    run = np.diff(front, axis=0)
    normal = np.stack([-run[:, 1], run[:, 0]], 1)
    normal /= normal.sum(1, keepdims=True)
    height = (normal * front[:-1]).sum(1)
    points = finite_array("values", values)
    if points.shape[-1:] != (2,):
        raise InputError(f"`values` must have shape (.., 2); found {points.shape}")
    return np.asarray((height - points @ normal.T).min(-1))
