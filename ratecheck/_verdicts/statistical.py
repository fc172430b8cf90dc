"""What is said of a statement about means that are sampled: see :class:`StatisticalClaim`.

On each instance two bets run: that measured exceeds the bound, and that it does so by less than
``within``. Whichever is won first decides the instance. The error probability is shared out over
all instances and bets, so that it bounds that of the whole verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratecheck._claims.certificates import STEADY
from ratecheck._claims.claim import StatisticalClaim
from ratecheck._claims.samples import COMBINATIONS, CORNERS, Batch, draw, generator
from ratecheck._claims.space import Fault, Space, Unsettled, call, quiet
from ratecheck._processes.limit import TimeLimit
from ratecheck._rates.betting import Bet
from ratecheck._search.small_numbers import with_small_numbers

#: Instances that are sampled, by effort.
INSTANCES = {"quick": 12, "normal": 40, "hunt": 120}
#: At an effort that samples few, at most so many more are looked at with one call of the measure
#: each, and so many of them, those with the largest means, are sampled as well.
LOOKED_AT = {"quick": (200, 6)}
#: The first instances of each combination of sizes are ends, which are sampled anyway.
_PAST_CORNERS = CORNERS * COMBINATIONS
#: How often inner instances are drawn where ``given`` rules some out.
_ATTEMPTS = 16
#: By what samples are multiplied so that they must have no positive mean.
_SIGNS = {"<=": (1,), ">=": (-1,), "==": (1, -1)}


@dataclass
class Sampled:
    """What samples say of one instance: "violated", "within" or "not decided"."""

    batch: Batch
    said: str
    samples: int
    mean: float
    calls: int


def instances_of(claim: StatisticalClaim, effort: str, seed: int) -> list[Batch]:
    """The instances that are sampled, each alone: inner ones, corners, ends of the fields, others.

    Inner ones are spread over the fields and sizes, with no number set to an end or to the middle
    on purpose. The others are those of every search: of many of them some numbers lie at ends.
    Half of both have small whole numbers as often as large ones, where ranges are wide.
    """
    space, count = claim.space, INSTANCES[effort]
    corners = [
        Batch(space, space.complete(corner), space.sizes_of(corner))
        for corner in space.corner_fields
    ]
    every = space.all_sizes()
    layouts = [space.layout(sizes) for sizes in (every[:1] + every[-1:])[: len(every)]]
    ends = [Batch(space, one.decode(one.ends()), one.sizes) for one in layouts]
    small = with_small_numbers(claim)
    spaces = [space] if small is None else [space, small.space]
    first: list[Batch] = []
    others: list[Batch] = []
    for one in spaces:
        some = count // len(spaces)
        first += _inner(one, some - some // 2, seed)
        drawn = _alone(one, draw(one, seed, _PAST_CORNERS, _PAST_CORNERS + 4 * some))
        pick = np.linspace(0, len(drawn) - 1, min(some // 2, len(drawn))).round().astype(int)
        others += [drawn[k] for k in pick]
    return [*first, *_alone(space, [*corners, *ends]), *others]


def _suspects(claim: StatisticalClaim, looks: int, most: int, seed: int) -> list[Batch]:
    """Of inner instances those on which one call of the measure speaks most against the claim.

    What is drawn for this look is not drawn again for a test, whose error probability it leaves as
    it is. An instance on which the measure fails comes first.
    """
    looked = []
    for number, batch in enumerate(_inner(claim.space, looks, seed, "look")):
        try:
            mean = float(_samples(claim, batch, generator(seed, claim.id, "look", number)).mean())
            seen = max(sign * mean for sign in _SIGNS[claim.relation])
        except Fault:
            seen = np.inf
        looked.append((seen, batch))
    looked.sort(key=lambda one: -one[0])
    return [batch for _, batch in looked[:most]]


def _inner(space: Space, count: int, seed: int, name: str = "inner") -> list[Batch]:
    """Instances whose coordinates are spread evenly: a Latin hypercube over all sizes.

    Where ``given`` rules some out, more are drawn, some of which may be ruled out as well.
    """
    every = space.all_sizes()
    pick = np.linspace(0, len(every) - 1, count).round().astype(int)
    layouts = [space.layout(every[k]) for k in pick]
    shape = (count, max(one.coordinates for one in layouts))
    found: list[Batch] = []
    for attempt in range(_ATTEMPTS):
        rng = generator(seed, name, attempt)
        strata = rng.permuted(np.tile(np.arange(count)[:, None], shape[1]), axis=0)
        rows = (strata + rng.random(shape)) / count
        pairs = zip(layouts, rows, strict=True)
        batches = (
            Batch(space, one.decode(row[None, : one.coordinates]), one.sizes) for one, row in pairs
        )
        found += _alone(space, batches)
        if len(found) >= count:
            break
    return found[:count]


def _alone(space: Space, batches: Iterable[Batch]) -> list[Batch]:
    """The instances of which the claim speaks, one by one."""
    return [
        batch.subset(np.array([row]))
        for batch in batches
        for row in np.flatnonzero(space.passing(batch.fields))
    ]


def sampled(
    claim: StatisticalClaim, batches: Sequence[Batch], seed: int, effort: str = "hunt"
) -> tuple[list[Sampled], str]:
    """The tests on these instances up to the first violation, and why they are unfinished.

    At an effort of :data:`LOOKED_AT` others follow, which are looked for with at most as many calls
    of the measure as the tests took. The second is the message of the limit that ended them, or ""
    where none did.
    """
    looks, suspects = LOOKED_AT.get(effort, (0, 0))
    alpha = claim.alpha / ((len(batches) + suspects) * len(_SIGNS[claim.relation]))
    said: list[Sampled] = []

    def test(more: Sequence[Batch]) -> None:
        for batch in more:
            if not said or said[-1].said != "violated":
                names = (seed, claim.id, "samples", len(said))
                said.append(_on_instance(claim, batch, alpha, names))

    try:
        _check_generator(claim, batches, seed)
        test(batches)
        if suspects and said[-1].said != "violated":
            calls = sum(one.calls for one in said)
            test(_suspects(claim, min(looks, calls), suspects, seed))
    except TimeLimit as late:
        return said, str(late)
    return said, ""


def _on_instance(
    claim: StatisticalClaim, batch: Batch, alpha: float, names: tuple[object, ...]
) -> Sampled:
    low, high = claim.between
    bets: list[tuple[int, Bet, Bet]] = []
    for sign in _SIGNS[claim.relation]:
        ends = sorted((sign * low, sign * high))
        below = Bet(claim.within - ends[1], claim.within - ends[0])
        bets.append((sign, Bet(ends[0], ends[1]), below))
    rng, total, count, calls = generator(*names), 0.0, 0, 0
    while count < claim.most:
        samples = _samples(claim, batch, rng)
        total, count, calls = total + float(samples.sum()), count + len(samples), calls + 1
        for sign, above, below in bets:
            above.see(sign * samples)
            below.see(claim.within - sign * samples)
        if any(above.rejects(alpha) for _, above, _ in bets):
            return Sampled(batch, "violated", count, total / count, calls)
        if all(below.rejects(alpha) for _, _, below in bets):
            return Sampled(batch, "within", count, total / count, calls)
    return Sampled(batch, "not decided", count, total / count, calls)


def _check_generator(claim: StatisticalClaim, batches: Sequence[Batch], seed: int) -> None:
    """Refuse samples that differ for equal generators, or that no instance draws from its own."""
    for batch in batches:  # a coin that never shows heads needs no generator
        rng = generator(seed, claim.id, "generator")
        before = rng.bit_generator.state
        samples = _samples(claim, batch, rng)
        if not np.array_equal(
            samples, _samples(claim, batch, generator(seed, claim.id, "generator"))
        ):
            what = STEADY.format("the instance and its generator")
            raise Unsettled(f"measure returned other samples for equal generators; {what}")
        others = _samples(claim, batch, generator(seed, claim.id, "another"))
        if before != rng.bit_generator.state or not np.array_equal(samples, others):
            return
    if batches:
        raise Fault("measure must draw its samples from `rng`; found that it drew nothing from it")


def _samples(
    claim: StatisticalClaim, batch: Batch, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Some samples of measured - bound, each within the bounds that the claim states."""
    view: Any = batch.views if claim.space.batched else batch.views[0]
    with quiet():
        answer = call("measure", claim.sampler(rng), view)
        try:
            both = answer if isinstance(answer, tuple) else (answer, 0.0)
            measured, bound = (np.asarray(side, dtype=float) for side in both)
            samples = np.ravel(measured - bound)
        except (TypeError, ValueError):
            samples = np.empty(0)
    if not samples.size:
        raise Fault(
            "measure must return samples of measured - bound, or of both sides; found "
            + " ".join(f"{answer!r:.80}".split())
        )
    low, high = claim.between
    outside = samples[~((samples >= low) & (samples <= high))]
    if outside.size:
        raise Fault(
            f"samples of measured - bound must lie `between` {low:g} and {high:g}; "
            f"found {outside[0]:g}"
        )
    return samples
