"""A claim says of an instance in a batch what it says of it alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._claims.space import Fields, quiet
from ratecheck._claims.unit_cube import key_of, random_coordinates

#: Instances of a batch, how many of them are looked at alone, and of how many the zero is one.
COUNT, ALONE, ZEROS = 12, 3, 6


def batch(claim: rc.Claim) -> Fields:
    """Instances of the largest sizes; numbers of the last ones lie at the ends of their ranges."""
    layout = claim.space.layout(claim.space.all_sizes()[-1])
    coordinates = random_coordinates(key_of(claim.id), 0, layout, COUNT)
    coordinates[-ZEROS:][coordinates[-ZEROS:] < 0.3] = 0.0
    return layout.decode(coordinates)


def differing(claim: rc.Claim) -> Iterator[str]:
    """Predicates and sides that are others for an instance alone than in a batch."""
    space, together = claim.space, batch(claim)
    predicates = {**space.assumes, **space.given}
    for k in range(ALONE):
        one = {name: values[k : k + 1] for name, values in together.items()}
        for name, predicate in predicates.items():
            answers = [
                space._evaluate_predicate(name, predicate, space.views(fields))[place]
                for fields, place in ((together, k), (one, 0))
            ]
            if answers[0] != answers[1]:
                yield name
        if not space.passing(one)[0]:
            continue
        passing = space.passing(together)
        passing[k] = True
        kept = {name: values[passing] for name, values in together.items()}
        place = int(passing[:k].sum())
        with quiet():
            sides = zip(
                claim.measure(space.views(kept)), claim.measure(space.views(one)), strict=True
            )
            for which, (whole, alone) in zip(("measured", "bound"), sides, strict=True):
                if is_coupled(whole, alone, place):
                    yield which


def is_coupled(whole: Any, alone: Any, place: int) -> bool:
    """Whether a side of one instance is another one in a batch; a side without numbers is none."""
    if np.size(whole) == 0 or np.size(alone) == 0:
        return np.size(whole) != np.size(alone)
    whole, alone = np.asarray(whole), np.asarray(alone)
    return not same(whole[place] if whole.ndim else whole, alone[0] if alone.ndim else alone)


def same(one: Any, other: Any) -> bool:
    """Whether arrays agree up to what another order of sums changes."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    finite = np.abs(other[np.isfinite(other)])
    return np.allclose(one, other, rtol=1e-6, atol=1e-9 * finite.max(initial=1.0), equal_nan=True)


@pytest.mark.slow
def test_no_claim_looks_at_other_instances_of_a_batch() -> None:
    entries = [item.entry for item in rc.find_claims([])]
    claims = [entry for entry in entries if isinstance(entry, rc.Claim) and entry.space.batched]
    assert len(claims) > 500
    assert {claim.id: instances for claim in claims if (instances := list(differing(claim)))} == {}


def test_a_claim_that_does_is_seen() -> None:
    def plain(x: Any) -> Any:
        return x, 1 + 0 * x

    def coupled(x: Any) -> Any:
        return x, x.min() + 0 * x

    space = rc.Space(fields={"x": rc.interval()}, batched=True)
    claim = rc.claim(id="mine.a", source="", kind="upper", text="", space=space)(plain)
    assert list(differing(claim)) == []
    assert set(differing(replace(claim, measure=coupled))) == {"bound"}
    given = replace(space, given={"small": lambda s: s.x * s.x.min() > 0})
    assert "small" in set(differing(replace(claim, space=given)))
