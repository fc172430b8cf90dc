"""Users for the rates of P-ShareLoRA: a few types, each of which occurs equally often.

A family has ``types`` of users; N users are N / types copies of them with data of their own. Every
copy has the same nu, Sigma_tail / N and B_diamond, so that against N nothing changes but N.

A user's comparisons are counts: how often each pair was shown and how often tau0 was preferred.
The likelihood of Comparisons with the shares of preferences as labels and the numbers as weights is
that of the single comparisons.

Features come in three kinds. *Random* ones are cubes of exponential variables, so that a few
trajectories stick out. *Isotropic* ones have a multiple of I for the Gram matrix of their
differences. *Mirrored* ones are normal, and each trajectory has an image with the opposite sign in
all that is orthogonal to B_diamond: nothing tells the two sides of B_diamond apart. All are scaled
such that the entries of a difference have mean square 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from linsys.preference.counts import Fits, fit_counts, fit_population
from linsys.preference.instances import isotropic_features, shared_users
from linsys.preference.subspace import BestRank, best_rank, distance
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array

__all__ = ["Counts", "Family", "Kind", "factors", "family"]

Kind = Literal["random", "isotropic", "mirrored"]

#: How often each user was shown each pair, and how often preferred tau0: both (N, P).
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]

#: The radius B of (3.1), far above the norms of all Delta_i.
BOUND = 1e3
#: A fit ends when the next step would turn the factor by less than this many radians; the distances
#: that are measured are above 1e-4.
TOL = 1e-7


@dataclass(frozen=True, eq=False)
class Family:
    """Types of users.

    Args:
        psi: features, shape (T, d1, d2).
        Delta: of every type, shape (types, d1, d2).
        k: the rank of the factor.
    """

    psi: Array
    Delta: Array
    k: int

    @cached_property
    def system(self) -> PreferenceSystem:
        """One user of every type."""
        return PreferenceSystem(self.psi, np.zeros(self.psi.shape[1:]), self.Delta)

    @cached_property
    def best(self) -> BestRank:
        """B_diamond and W_diamond of every type."""
        return best_rank(self.Delta, self.k)

    @cached_property
    def differences(self) -> Array:
        """psi(tau0) - psi(tau1) of every pair, shape (P, d1, d2)."""
        return np.asarray(np.subtract(*self.psi[self.system.pairs.T]))

    @cached_property
    def population(self) -> Fits:
        """The estimate from infinitely many comparisons of every user, from B_diamond."""
        return fit_population(self.system, self.k, start=self.best.B, tol=1e-13)

    def error(self, B: Array) -> float:
        """The distance dist(B, B_diamond)."""
        return distance(B, self.best.B, "sine")

    def tilt(self, B: Array) -> Array:
        """C (d1 - k, k) of the span of B_diamond + B_perp C, which is that of B."""
        return np.asarray(self.complement.T @ B @ np.linalg.inv(self.best.B.T @ B))

    @cached_property
    def complement(self) -> Array:
        """B_perp of B_diamond, shape (d1, d1 - k)."""
        return np.linalg.qr(self.best.B, mode="complete")[0][:, self.k :]

    def counts(
        self, copies: int, sizes: Sequence[int], rng: np.random.Generator
    ) -> Iterator[Counts]:
        """Data of ``copies`` users of every type for every N_p; larger N_p extend smaller ones."""
        # A trajectory and its image are preferred equally often. NumPy draws from the rarer side,
        # and the rounding of products, another on every processor, must not say which that is.
        P = np.tile(self.system.probabilities().round(12), (copies, 1))
        comparisons = np.zeros(P.shape, dtype=np.int64)
        preferred = np.zeros_like(comparisons)
        for more in np.diff([0, *sizes]):
            new = rng.multinomial(more, self.system.pair_weights, size=len(P))
            comparisons, preferred = comparisons + new, preferred + rng.binomial(new, P)
            yield comparisons, preferred


def family(
    kind: Kind,
    seed: int,
    *,
    trajectories: int,
    d1: int,
    d2: int,
    k: int,
    types: int,
    nu: float,
    tail: float = 0.0,
    condition: float = 1.0,
    tail_rank: int | None = None,
) -> Family:
    """Users with this nu and this Sigma_tail / N, whatever the number of copies.

    Features and the spaces of B_diamond and of the tail do not depend on nu, the tail's size or the
    condition number. A tail must be below nu times its rank.

    >>> one = family("random", 0, trajectories=9, d1=3, d2=2, k=1, types=4, nu=2.0, tail=0.1)
    >>> from linsys.preference.subspace import diversity
    >>> spread = diversity(np.tile(one.Delta, (5, 1, 1)), 1)
    >>> round(spread.nu, 12), round(spread.tail / 20, 12)
    (2.0, 0.1)
    """
    users, features = (np.random.default_rng([seed, part]) for part in (0, 1))
    # drawn with half of what a tail of rank 1 may have at most, so that spaces depend on no size
    unit = best_rank(
        drawn := shared_users(
            types, d1, d2, k, 1.0, 0.5 * types, users, condition=condition, tail_rank=tail_rank
        ),
        k,
    )
    Delta = np.sqrt(nu) * unit.Theta + np.sqrt(2.0 * tail) * (drawn - unit.Theta)
    if kind == "isotropic":
        psi = isotropic_features(trajectories, d1, d2, features)
    elif kind == "random":
        psi = features.exponential(size=(trajectories, d1, d2)) ** 3
    else:
        psi = features.standard_normal((trajectories // 2, d1, d2))
    unscaled = Family(psi, Delta, k)
    if kind == "mirrored":
        B = unscaled.best.B
        unscaled = replace(unscaled, psi=np.concatenate([psi, 2.0 * B @ (B.T @ psi) - psi]))
    return replace(unscaled, psi=unscaled.psi / np.sqrt((unscaled.differences**2).mean()))


def factors(one: Family, data: Sequence[Counts]) -> Array:
    """The maximum-likelihood B from each of these data of as many users, shape (R, d1, k).

    With ||Delta_i||_F <= ``BOUND`` as in (3.1): users whose data are separable have an estimate of
    that length; all others never come near it.
    """
    shown, preferred = map(np.stack, zip(*data, strict=True))
    return fit_counts(one.differences, shown, preferred, one.k, bound=BOUND, tol=TOL).B
