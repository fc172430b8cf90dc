"""What N users prefer: differences of features, labels and weights, packed user after user.

A comparison shows user i two trajectories; with a linear reward only X = psi(tau0) - psi(tau1)
counts, and P(o = 1) = sigmoid(<Theta_i, X>_F). Users may have different numbers of comparisons, so
all are rows of one array, those of user i from ``starts[i]`` to ``starts[i + 1]``. Where many
comparisons show the same pair, ``features`` may list each pair once, and ``pairs`` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import (
    Array,
    InputError,
    check_choice,
    check_flag,
    check_integer,
    plain,
    real_array,
    shown,
)

__all__ = ["LINKS", "Comparisons", "linear_comparisons"]

#: Rewards as functions of <Theta, psi>: see :class:`linsys.preference.systems.PreferenceSystem`.
LINKS = ("linear", "tanh")
#: Features outside have squares that are beyond double precision, or near it.
_SMALLEST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Preference data of N users.

    Args:
        features: X of every comparison, shape (n, d1, d2), or of every pair with ``pairs``.
        labels: o, shape (n,): 1 where tau0 was preferred, 0 where tau1 was; with ``soft``, any
            probability between them.
        starts: where each user's comparisons begin, and n at the end, shape (N + 1,).
        weights: how much each comparison counts, shape (n,), non-negative; 1 without it.
        initial: the logit <Theta_init, X> of each comparison, shape (n,), to which that of Delta_i
            is added; 0 without it. See :meth:`starting_from`.
        pairs: which row of ``features`` a comparison shows, shape (n,).
        soft: labels are probabilities.
        link: of the rewards that gave the labels, ``"linear"`` or ``"tanh"``. The likelihood here
            is that of linear ones in any case, and the estimators refuse others.

    Raises:
        InputError: shapes that do not fit, numbers that are not finite, features that are all below
            1e-100 or not all below 1e100, labels that are no labels,
            negative weights, users without data or whose weights are all zero.

    >>> data = Comparisons(np.ones((3, 2, 1)), labels=[1, 0, 1], starts=[0, 2, 3])
    >>> data.users, data.counts.tolist(), data.shape
    (2, [2, 1], (2, 1))
    """

    features: Array
    labels: Array
    starts: NDArray[np.int64]
    weights: Any = None
    initial: Any = None
    pairs: Any = None
    soft: bool = False
    link: str = "linear"

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        columns = _columns(self.features, sizes)
        features = columns.mT
        largest = float(max(columns.max(initial=0.0), -columns.min(initial=0.0)))
        if largest > _LARGEST or 0.0 < largest < _SMALLEST:
            raise InputError(
                "`features` must have their largest entry between 1e-100 and 1e100: scale them; "
                f"found {largest:.3g}"
            )
        if self.pairs is not None:
            rows = _indices("pairs", self.pairs)
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(features):
                raise InputError(
                    f"`pairs` must be rows of `features`, 0 to {len(features) - 1}; "
                    f"found {rows.min()} to {rows.max()}"
                )
            object.__setattr__(self, "pairs", rows)
            sizes["n"] = len(rows)
        n = sizes["n"]
        whole_or = {"weights": np.ones(n), "initial": np.zeros(n)}
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", real_array("labels", self.labels, ("n",), sizes))
        for name, default in whole_or.items():
            value = getattr(self, name)
            value = real_array(name, default if value is None else value, ("n",), sizes)
            object.__setattr__(self, name, value)
        check_flag("soft", self.soft)
        check_choice("link", self.link, LINKS)
        self._check_labels()
        self._check_users(n)

    def _check_labels(self) -> None:
        o = self.labels
        bad = (o < 0) | (o > 1) if self.soft else (o != 0) & (o != 1)
        if bad.any():
            at = int(bad.argmax())
            wanted = "in [0, 1]" if self.soft else "0 or 1 (probabilities need soft=True)"
            raise InputError(f"`labels` must be {wanted}; found {o[at]:.6g} at index {at}")
        if (self.weights < 0).any():
            at = int(self.weights.argmin())
            raise InputError(
                f"`weights` must be non-negative; found {self.weights[at]:.6g} at index {at}"
            )

    def _check_users(self, n: int) -> None:
        starts = _indices("starts", self.starts)
        object.__setattr__(self, "starts", starts)
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != n or (np.diff(starts) < 0).any():
            raise InputError(
                f"`starts` must increase from 0 to n = {n}, one entry more than users; "
                f"found {shown(starts.tolist())}"
            )
        empty = np.flatnonzero(np.diff(starts) == 0)
        if len(empty):
            raise InputError(
                f"every user must have comparisons; found none of {users_named(empty)}"
            )
        unweighted = np.flatnonzero(np.add.reduceat(self.weights, starts[:-1]) == 0)
        if len(unweighted):
            raise InputError(
                "every user must have a comparison with positive weight; "
                f"found none of {users_named(unweighted)}"
            )

    @classmethod
    def of_users(
        cls,
        features: Sequence[ArrayLike] | NDArray[Any],
        labels: Sequence[ArrayLike] | NDArray[Any],
        weights: Sequence[ArrayLike] | NDArray[Any] | None = None,
        *,
        soft: bool = False,
    ) -> Comparisons:
        """From one entry a user: X (n_i, d1, d2), o (n_i,), weights (n_i,); arrays (N, n, ..) too.

        >>> Comparisons.of_users(np.ones((2, 5, 3, 1)), np.ones((2, 5))).counts.tolist()
        [5, 5]
        """
        given: dict[str, Any] = {"features": features, "labels": labels}
        if weights is not None:
            given["weights"] = weights
        for name, value in given.items():
            if not np.iterable(value):
                raise InputError(
                    f"`{name}` must have an entry for every user; found {shown(value)}"
                )
        parts = {name: [plain(part) for part in value] for name, value in given.items()}
        if not parts["features"]:
            raise InputError("`features` must have an entry for every user; found none")
        counts = {name: [len(np.atleast_1d(p)) for p in value] for name, value in parts.items()}
        for name in counts:
            if counts[name] != counts["features"]:
                raise InputError(
                    f"`{name}` must have as many entries of every user as `features`, "
                    f"{shown(counts['features'])}; found {shown(counts[name])}"
                )
        for i, part in enumerate(parts["features"]):
            if part.ndim != 3 or part.shape[1:] != parts["features"][0].shape[1:]:
                raise InputError(
                    "`features` of every user must have shape (n_i, d1, d2); "
                    f"found {part.shape} of user {i}"
                )
        for name in counts:
            for i, part in enumerate(parts[name]):
                if name != "features" and part.ndim != 1:
                    raise InputError(
                        f"`{name}` of every user must have shape (n_i,); "
                        f"found {part.shape} of user {i}"
                    )
        packed: dict[str, Any] = {name: np.concatenate(value) for name, value in parts.items()}
        starts = np.concatenate([[0], np.cumsum(counts["features"])])
        return cls(starts=starts, soft=soft, **packed)

    @property
    def users(self) -> int:
        """N."""
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(d1, d2)."""
        return self.features.shape[1], self.features.shape[2]

    @property
    def counts(self) -> NDArray[np.int64]:
        """n_i of every user, shape (N,)."""
        return np.diff(self.starts)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The user of every comparison, shape (n,)."""
        return np.repeat(np.arange(self.users), self.counts)

    def user(self, i: int) -> Comparisons:
        """The comparisons of user i alone."""
        i = check_integer("i", i, high=self.users - 1)
        rows = slice(self.starts[i], self.starts[i + 1])
        shared = self.pairs is not None
        return replace(
            self,
            features=self.features if shared else self.features[rows],
            labels=self.labels[rows],
            starts=np.array([0, rows.stop - rows.start]),
            weights=self.weights[rows],
            initial=self.initial[rows],
            pairs=self.pairs[rows] if shared else None,
        )

    def pooled(self) -> Comparisons:
        """All comparisons as those of one user."""
        return replace(self, starts=self.starts[[0, -1]])

    def starting_from(self, Theta_init: ArrayLike) -> Comparisons:
        """With logits <Theta_init, X> at Delta = 0, from (d1, d2) or one a user, (N, d1, d2).

        >>> data = Comparisons(np.ones((1, 2, 2)), labels=[1], starts=[0, 1])
        >>> data.starting_from(np.ones((2, 2))).initial.tolist()
        [4.0]
        """
        shape: tuple[int, ...] = self.shape
        if plain(Theta_init).ndim == 3:
            shape = (self.users, *shape)
        start = np.broadcast_to(
            real_array("Theta_init", Theta_init, shape), (self.users, *self.shape)
        )
        rows = self.features if self.pairs is None else self.features[self.pairs]
        return replace(self, initial=np.einsum("nab,nab->n", rows, start[self.owner]))


def _columns(features: Any, sizes: dict[str, int]) -> Array:
    """Features (n, d1, d2) as a read-only array of their columns (n, d2, d1).

    So a product with B' runs over numbers that lie side by side. Features that lie so already are
    not turned around, and not copied where nobody can write them: they may be large.
    """
    given = plain(features)
    kept = given.ndim == 3 and given.size > 0 and given.mT.flags.c_contiguous
    if kept and given.dtype == np.float64 and np.isfinite(given.mT).all():
        columns = given.mT if _is_fixed(given) else np.array(given.mT)
        sizes.update(zip(("n", "d1", "d2"), given.shape, strict=True))
    else:
        array = real_array("features", given, ("n", "d1", "d2"), sizes)
        columns = np.ascontiguousarray(array.mT)
    columns.setflags(write=False)
    return columns


def _is_fixed(array: NDArray[Any]) -> bool:
    """Whether the array and what it is a view of are read-only, and NumPy's own."""
    fixed, base = not array.flags.writeable, array.base
    while isinstance(base, np.ndarray):
        fixed, base = fixed and not base.flags.writeable, base.base
    return fixed and base is None


def linear_comparisons(data: Any) -> Comparisons:
    """``data`` if it is comparisons by linear rewards, the model of the likelihood.

    Raises:
        InputError: something else, or comparisons by rewards of another link.
    """
    if not isinstance(data, Comparisons):
        raise InputError(
            "`data` must be Comparisons, as from Comparisons.of_users(features, labels); "
            f"found {type(data).__name__}"
        )
    if data.link != "linear":
        raise InputError(
            f"`data` must come from linear rewards, the model that is fitted; found link="
            f"{data.link!r}: dataclasses.replace(data, link='linear') fits that model all the same"
        )
    return data


def _indices(name: str, value: Any) -> NDArray[np.int64]:
    raw = plain(value)
    if raw.ndim != 1 or raw.dtype.kind not in "iu":
        raise InputError(f"`{name}` must be a list of whole numbers; found {shown(value)}")
    array = raw.astype(np.int64)
    array.setflags(write=False)
    return array


def users_named(which: NDArray[np.int64]) -> str:
    """Users by number, the first eight of them."""
    more = f" and {len(which) - 8} more" if len(which) > 8 else ""
    return ("user " if len(which) == 1 else "users ") + ", ".join(map(str, which[:8])) + more
