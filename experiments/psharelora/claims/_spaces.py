"""Instances that the statements of P-ShareLoRA are about: users' matrices and trajectories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.subspace import Adaptation, Kinds
from experiments.psharelora.theory.unseen import seen_columns, turned
from linsys.linalg import lambda_min, transpose

#: Users, trajectories, the sizes of a user's matrix, and the rank; k is cut to min(d1, N d2).
SIZES = {"N": (1, 3), "T": (2, 3), "d1": (1, 3), "d2": (1, 2), "k": (1, 2)}
_RANGE = (0.1, 3.0)
#: Delta Theta* = left right + rest: of rank k but for a rest of any size.
USERS: dict[str, rc.Field] = {
    "left": rc.reals("d1", "k", magnitude=_RANGE),
    "right": rc.reals("N", "k", "d2", magnitude=_RANGE),
    "rest": rc.reals("N", "d1", "d2", magnitude=(0.001, 3.0)),
}
#: Features of the trajectories, and the laws mu0, mu1 of the first and the second of a pair.
TRAJECTORIES: dict[str, rc.Field] = {
    "psi": rc.reals("T", "d1", "d2", magnitude=_RANGE),
    "mu0": rc.simplex("T"),
    "mu1": rc.simplex("T"),
}
MEANING = {
    "left": "B of Delta Theta* = B W + rest",
    "right": "its W_i",
    "rest": "its rest",
    "psi": "features of the trajectories",
    "mu0": "the law of the first trajectory of a pair",
    "mu1": "the law of the second one",
}


def adaptation(left: Any, right: Any, rest: Any) -> Adaptation:
    """Delta Theta*, with the rank k of ``left`` cut to min(d1, N d2)."""
    delta = left[:, None] @ right + rest
    N, d1, d2 = delta.shape[1:]
    return Adaptation(delta, min(left.shape[-1], d1, N * d2))


def unlike(low: float) -> Callable[[Any], Any]:
    """The predicate that sigma_k of Delta Theta* is at least ``low``: B_diamond is of rank k."""
    return lambda s: np.sqrt(s.users.nu * s.users.users) >= low


def view(*, left: Any, right: Any, rest: Any, **others: Any) -> SimpleNamespace:
    """``users``, the :class:`Adaptation`, and the further fields as they are."""
    return SimpleNamespace(users=adaptation(left, right, rest), **others)


def users(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    view: Callable[..., Any] = view,
    **options: Any,
) -> rc.Space:
    """Users with ``extra`` fields, such as ``TRAJECTORIES``; ``sizes`` replaces ranges of SIZES."""
    fields = {**USERS, **(extra or {})}
    axes = {axis for field in fields.values() for axis in field.axes if isinstance(axis, str)}
    ranges = {name: limits for name, limits in SIZES.items() if name in axes}
    meaning = {name: said for name, said in MEANING.items() if name in fields}
    return rc.Space(
        fields=fields,
        sizes={**ranges, **(sizes or {})},
        view=view,
        batched=True,
        meaning={**meaning, **options.pop("meaning", {})},
        **options,
    )


def of_rank_k(*, left: Any, right: Any, **others: Any) -> SimpleNamespace:
    """``users`` without a rest, and the further fields as they are."""
    return SimpleNamespace(users=adaptation(left, right, 0), **others)


def _independent(s: Any) -> Any:
    """Trajectories' differences that are not nearly dependent: the least of their Gram matrix."""
    columns = seen_columns(s.psi)
    return lambda_min(transpose(columns) @ columns) >= 0.01


def _same_preferences(s: Any) -> Any:
    """Delta Theta* and its mirror image agree on every difference of features, up to rounding."""
    columns = transpose(seen_columns(s.psi))[..., None, :, :]
    gaps = columns @ (turned(s.users, s.psi).delta - s.users.delta)
    same = 10**9 * np.abs(gaps).max(axis=(-3, -2, -1)) <= 1
    return same | ~_independent(s)  # dependent ones are filtered out


def unseen(
    extra: Mapping[str, rc.Field], view: Callable[..., Any] = of_rank_k, **options: Any
) -> rc.Space:
    """Users of rank k, and fewer trajectories than would show all columns."""
    return rc.Space(
        fields={
            "left": USERS["left"],
            "right": USERS["right"],
            "psi": TRAJECTORIES["psi"],
            **extra,
        },
        sizes={"N": (1, 2), "T": (2, 3), "d1": (2, 4), "d2": (1, 1), "k": (1, 2)},
        view=view,
        assumes={"Delta Theta* and its mirror image have the same preferences": _same_preferences},
        given={"sigma_k >= 0.1": unlike(0.1), "the trajectories differ": _independent},
        batched=True,
        meaning={
            "left": "B of Delta Theta* = B W",
            "right": "its W_i",
            "psi": "features of the trajectories",
            "C": "the constant",
        },
        **options,
    )


#: Users of N kinds, a power of ten of each: few numbers for any number of users.
KINDS: dict[str, rc.Field] = {
    "left": rc.reals("d1", "k", magnitude=(0.1, 1.0)),
    "right": rc.reals("N", "k", "d2", magnitude=(0.1, 1.0)),
    "rest": rc.reals("N", "d1", "d2", magnitude=(0.1, 1.0)),
    "power": rc.whole_numbers("N", low=0, high=6),
}
KINDS_SIZES = {"N": (2, 2), "d1": (2, 2), "d2": (1, 1), "k": (1, 1)}
KINDS_MEANING = {"power": "ten to this power is how many users have each of these Theta*"}


def kinds_of_users(*, left: Any, right: Any, rest: Any, power: Any, **others: Any) -> Any:
    """``kinds`` and the further fields as they are."""
    users = adaptation(left, right, rest)
    return SimpleNamespace(kinds=Kinds(users.delta, (10 + 0 * power) ** power, users.k), **others)


def crowd_case(power: float) -> dict[str, Any]:
    """A power of ten of users with Theta* = (1, 0)' and one with (1, 1)'."""
    return {
        "left": [[1.0], [0.0]],
        "right": [[[1.0]], [[1.0]]],
        "rest": [[[0.0], [0.0]], [[0.0], [1.0]]],
        "power": [power, 0.0],
    }
