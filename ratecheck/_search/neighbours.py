"""How generic a counterexample is: the share of its neighbours that violate the claim as well."""

from __future__ import annotations

import numpy as np

from ratecheck._claims.certificates import CANDIDATE, certify, collapsed, evaluate
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.samples import Batch, generator
from ratecheck._claims.space import Fault, Fields

#: By how much every number of an instance is moved, relative to its size.
NEAR, FAR = 0.01, 0.1
#: How many neighbours are looked at, and how many where each needs high precision.
_COUNT, _PRECISE_COUNT = 200, 12


def share(claim: Claim, fields: Fields, by: float, count: int = _COUNT) -> float:
    """The share of the neighbours of a counterexample (B = 1) that are counterexamples, too.

    Every number is moved by at most ``by`` times its size, a zero by the size of the largest number
    of its field (one, if all are zero). Neighbours outside the space are moved back into its
    domains, and those that break an assumption or ``given`` do not count.
    """
    trusted = trust(claim, fields)
    if trusted is None:
        return _precise_share(claim, neighbours(claim, fields, by, _PRECISE_COUNT))
    tight = measured(claim, neighbours(claim, fields, by, count), trusted=trusted)[0]
    return _share(tight > CANDIDATE, np.isfinite(tight))


def neighbours(claim: Claim, fields: Fields, by: float, count: int) -> Fields:
    """Instances (B = count) whose numbers are those of one instance, moved at random."""
    rng = generator(claim.id, "neighbours", by)
    moved = {}
    for name, values in fields.items():
        size = np.abs(values)
        size = np.where(size > 0, size, size.max(initial=0) or 1.0)
        moved[name] = values + by * size * rng.uniform(-1, 1, (count, *values.shape[1:]))
    return claim.space.complete(moved)


def trust(claim: Claim, fields: Fields) -> bool | None:
    """Whether sides are to be taken as float64 has them, for it to see a certain violation.

    None if it does not see it in either way; see :func:`ratecheck._claims.certificates.evaluate`.
    """
    for trusted in (False, True):
        if measured(claim, fields, trusted=trusted)[0, 0] > 1:
            return trusted
    return None


def measured(claim: Claim, fields: Fields, *, trusted: bool) -> Numbers:
    """Tightness and the sizes of the larger and of the smaller side, (3, B).

    Tightness is -inf where an assumption or a filter is not met or a measure fails.
    """
    count = len(next(iter(fields.values())))
    results = np.zeros((3, count))
    results[0] = -np.inf
    try:
        batch = Batch(claim.space, fields, {})
        # what predicates compute of an instance is not computed again for the measure
        views = batch.views if claim.space.assumes or claim.space.given else None
        kept = np.flatnonzero(claim.space.meets(fields, views))
        if kept.size:
            batch = batch if kept.size == count else batch.subset(kept)
            sides = evaluate(claim, batch, trusted=trusted)
            sizes = np.abs([sides.measured, sides.bound])
            smaller = sizes.min(axis=0)
            if claim.relation == "==":  # of vectors, where an entry may well be zero
                smaller = np.where(collapsed(sides.tightness), 0.0, sizes.max(axis=0))
            results[:, kept] = sides.tightness, sizes.max(axis=0), smaller
    except Fault:
        if count > 1:  # find out which
            halves = [slice(None, count // 2), slice(count // 2, None)]
            parts = [{name: v[half] for name, v in fields.items()} for half in halves]
            return np.hstack([measured(claim, part, trusted=trusted) for part in parts])
    return results


def _precise_share(claim: Claim, around: Fields) -> float:
    inside = np.flatnonzero(claim.space.meets(around))
    violated = np.zeros(len(inside), dtype=bool)
    for place, row in enumerate(inside):
        try:
            violated[place] = certify(claim, {k: v[[row]] for k, v in around.items()}).violated
        except Fault:
            continue
    return _share(violated, np.ones(len(inside), dtype=bool))


def _share(violated: Numbers, inside: Numbers) -> float:
    return float(violated.sum() / max(int(inside.sum()), 1))
