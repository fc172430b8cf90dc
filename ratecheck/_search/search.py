"""The search for the tightest instance: corners, random batches, hypothesis, ascent.

All stages look at the same unit cube of coordinates (:class:`ratecheck._claims.space.Layout`) and
push the tightness of :mod:`ratecheck._claims.certificates` up. Everything is derived from the
seed and from names, so that a search repeats whatever else runs beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.linalg import precision
from linsys.validate import InputError
from ratecheck._claims.certificates import (
    CANDIDATE,
    COLLAPSED,
    DIGITS,
    SAME,
    Certificate,
    EvaluatedSides,
    Watch,
    certify,
    collapsed,
    evaluate,
    float64_agrees,
    in_high_precision,
    ratio,
    repeat,
)
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.samples import CORNERS, SHARED, Batch, batches, draw, generator
from ratecheck._claims.space import Fault, Fields, Imprecise, Layout, Sizes, Unsettled
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._search.ascent import Climb
from ratecheck._search.reservoir import Reservoir

#: Instances by the id of the claim whose counterexamples they are.
Families = Mapping[str, Sequence[Mapping[str, ArrayLike]]]


@dataclass(frozen=True)
class Effort:
    """How hard to try: random instances, hypothesis examples, ascents and evaluations of each."""

    random: int
    examples: int
    ascents: int
    budget: int


EFFORTS = {
    "quick": Effort(random=3_000, examples=10, ascents=2, budget=2_000),
    "normal": Effort(random=15_000, examples=60, ascents=16, budget=5_000),
    "hunt": Effort(random=120_000, examples=400, ascents=40, budget=15_000),
}
#: Of every combination of sizes, so many of the tightest instances are kept.
_KEPT = 4
#: Tightness of a violation that leaves room for rounding its numbers.
_CLEAR_VIOLATION = 1.05
#: Tightness from which a bound counts as attained: ascents from there are wasted, one is enough.
_ATTAINED = 1 - 1e-7
#: So many candidates are re-checked in high precision after each stage.
_CHECKED = 4
_CHECKED_IN_ALL = 24
#: Where the tightest ones are rounding, a violation may hide among the others: of the candidates
#: among corners and among random instances, so many are kept by chance.
_CORNERS, _OTHERS = 16, 32
#: Where more than this share of the instances is doubtful, so many of them are evaluated in high
#: precision, to see whether float64 is right.
_DOUBTFUL, _PROBES = 0.01, 3
#: Where `given` excludes all random instances, so many are drawn before it counts as never met.
_MOST_DRAWN = 60_000
#: So many of the first instances are measured again, at once and at the end.
_MEASURED_TWICE = 32
#: Where four calls of the measure take less CPU time than this, high precision is tried first.
_QUICK = 0.05
#: CPU seconds that it may take.
_PATIENCE = 1.0
#: Seconds of a batch that is measured part by part, so that a limit does not lose all of it.
_LONG = 1.0
#: A call that computes for less than this share of the time waits.
_IDLE = 0.01


@dataclass
class ScoredInstance:
    """One instance and its tightness; ``fields`` are stacks of one.

    Where it exceeds the bound, ``call`` is what measure got when it was found, and the answer.
    """

    tightness: float
    fields: Fields
    sizes: Sizes
    coordinates: Numbers | None = None
    checked: bool = False
    call: tuple[Batch, EvaluatedSides] | None = None

    @property
    def rank(self) -> float:
        """What instances are ordered by; :func:`_rank` of one number."""
        return _CLEAR_VIOLATION if abs(self.tightness - 2) < COLLAPSED else self.tightness

    @property
    def attained(self) -> bool:
        """Whether the two sides are equal, up to rounding."""
        return _ATTAINED <= self.tightness <= CANDIDATE

    @property
    def numbers(self) -> int:
        """How many numbers the instance has."""
        return sum(values.size for values in self.fields.values())


def _binary_fractions(count: int) -> list[float]:
    """1/2, 1/4, 3/4, 1/8, ...: wherever it is cut off, it is spread over (0, 1)."""
    return [
        sum(((k >> place) & 1) / 2 ** (place + 1) for place in range(k.bit_length()))
        for k in range(1, count + 1)
    ]


def _now() -> tuple[float, float]:
    """Seconds by the clock and of CPU time."""
    return time.perf_counter(), time.process_time()


def _rank(tightness: Numbers) -> Numbers:
    """Tightness, with bounds of zero below other violations that are clear."""
    return np.where(collapsed(tightness), _CLEAR_VIOLATION, tightness)


class Search:
    """One search of one claim: what was tried, and the tightest instances.

    Attributes:
        instances: how many passed ``given`` and were measured.
        before: how many a search before this one measured, for who counts both.
        sampled: how many were tried, with those that ``given`` rules out.
        passed: how many passed each predicate of ``given``.
        violation: a candidate that high precision confirmed.
        certificate: both of its sides in high precision.
        rejected: how many candidates high precision did not confirm.
        looseness: the smallest bound / trivial.
        bounded: whether the bound was finite on some instance.
        current: the batch under evaluation and the number in it, for whoever reports a failure.
        began: when the last call of the measure began, in seconds by the clock and of CPU time.
        families: by the id of a claim that is used, how many of its counterexamples are instances
            of this claim's space ("tried"), and how many of these violate it, too ("violated").
    """

    def __init__(
        self,
        claim: Claim,
        seed: int,
        watch: Watch | None = None,
        families: Families | None = None,
        violated: Callable[[Search], None] = lambda search: None,
    ) -> None:
        self.claim, self.seed, self._tell, self._violated = claim, seed, watch, violated
        self._families = families or {}
        self.families: dict[str, dict[str, int]] = {}
        self.before = 0
        self.rejected = 0
        self.violation: ScoredInstance | None = None
        self.certificate: Certificate | None = None
        self.looseness = np.inf
        self.bounded = False
        self.current: tuple[Fields, int | None] | None = None
        self.trusted = False
        self.began = _now()
        self._pace = np.inf  # seconds for an instance, as long as none is known
        self._parts: list[EvaluatedSides] = []
        self._restart()

    def run(self, effort: Effort, enough: float = np.inf) -> None:
        """All stages; each starts from what the earlier ones found, a violation ends them.

        So does an instance that is at least as tight as ``enough``.
        """
        self._try_out(effort.random)
        self._run(effort, enough)
        for batch, sides in self._first:
            self._repeat(batch, sides)

    def _try_out(self, total: int) -> None:
        """Refuse at once what would only be noticed when an instance is measured again.

        The first two instances to come are measured twice, and a larger one in high precision.
        """
        to_come = self._to_come(total)
        if not to_come:
            return
        few = to_come[0].subset(np.arange(len(to_come[0]))[:2])
        begun = time.process_time()
        try:
            sides = self._evaluated(few)
            self._repeat(few, sides)
            if time.process_time() - begun < _QUICK:
                self._parts = [sides]  # what is told where the limit ends it
                self._try_high_precision(to_come)
        except (Imprecise, Unsettled):
            raise
        except Fault:  # the search says where, and whether it matters
            pass
        self._parts, self._pace = [], np.inf  # as if nothing had been measured yet

    def _try_high_precision(self, to_come: Sequence[Batch]) -> None:
        """Measure one instance in high precision, which a slow measure need not end."""
        wanted = {axis: min(2, high) for axis, (_, high) in self.claim.space.sizes.items()}
        larger = [b for b in to_come if all(b.sizes[axis] >= n for axis, n in wanted.items())]
        batch = (larger or to_come)[0]
        one = batch.subset(np.arange(len(batch))[[min(CORNERS, len(batch) - 1)]])
        self._watch(one.fields, 0)
        own = None
        try:
            with time_limit(_PATIENCE) as own:
                in_high_precision(self.claim, one.fields, DIGITS[0])
        except TimeLimit as error:
            if error.meter is not own:  # the limit of the whole search
                raise

    def _to_come(self, total: int) -> list[Batch]:
        """The instances that will be looked at, by their sizes, without those that are left out."""
        space = self.claim.space
        every = space.every_instance()
        if every is not None:
            drawn = [Batch(space, stack, space.sizes_of(stack)) for stack in every]
        else:
            drawn = list(batches(space, self.seed, min(total, SHARED)))
        chosen = [batch if batch.passed.all() else batch.subset(batch.passed) for batch in drawn]
        return [batch for batch in chosen if len(batch)]

    def _run(self, effort: Effort, enough: float) -> None:
        for stage in self._stages(effort):
            stage()
            self._confirm()
            self._confirm_kept_by_chance()
            if self.violation is not None:
                self._climb_from(self.violation, effort.budget)
                return
            if self._attains(enough):
                return

    def _attains(self, tightness: float) -> bool:
        """Whether an instance is so tight in high precision, and not by rounding."""
        for instance in self.best[:_CHECKED]:
            if instance.tightness < tightness:
                break
            try:
                sides = certify(self.claim, instance.fields)
            except Fault:
                continue
            same = abs(sides.tightness - instance.tightness) <= SAME  # or float64 knows too little
            if same and ratio(self.claim.relation, sides) is not None:
                return True
        return False

    def _climb_from(self, instance: ScoredInstance, budget: int) -> None:
        """Climb on from a slight violation: the larger it is, the simpler its numbers can be."""
        if instance.tightness < _CLEAR_VIOLATION and instance.coordinates is not None:
            self._ascend(instance, -1, budget)
            self._confirm()

    def _stages(self, effort: Effort) -> Iterator[Callable[[], None]]:
        if self.claim.space.every_instance() is not None:
            yield lambda: self._sample(0)
            return
        yield lambda: self._sample(effort.random)
        yield lambda: self._hypothesis(effort.examples)
        before = self.sampled
        for number, start in enumerate(self._starts(effort.ascents)):
            yield partial(self._ascend, start, number, effort.budget)
        yield lambda: self._finish(effort.budget * max(1, effort.ascents // 4))
        # where the bound is attained almost everywhere, there is nothing to climb
        left = before + effort.ascents * effort.budget - self.sampled
        yield lambda: self._sample_more(left // 2)

    def is_stuck(self, seconds: float) -> bool:
        """Whether the last call of the measure has been running or waiting for so many seconds."""
        clock, cpu = (now - then for now, then in zip(_now(), self.began, strict=True))
        return cpu > seconds or (clock > seconds and cpu < _IDLE * clock)

    @property
    def examined(self) -> int:
        """How many instances were measured, also in a batch that is not complete, and before."""
        return self.before + self.instances + sum(len(sides.tightness) for sides in self._parts)

    @property
    def open_candidates(self) -> int:
        """How many instances exceed the bound in float64 and were not asked for in high precision.

        Of those in batches that are complete, only the tightest ones count.
        """
        parts = sum(int((sides.tightness > CANDIDATE).sum()) for sides in self._parts)
        return parts + sum(one.tightness > CANDIDATE and not one.checked for one in self.best)

    @property
    def unchecked(self) -> int:
        """How many candidates among corners and random instances were not re-checked."""
        asked = self._corners.asked + self._others.asked
        return asked - self._checked_by_chance

    @property
    def best(self) -> list[ScoredInstance]:
        """The tightest instances of every combination of sizes, the tightest and smallest first."""
        kept = [instance for group in self._best.values() for instance in group]
        return sorted(kept, key=lambda instance: (-round(instance.rank, 9), instance.numbers))

    def look(self, batch: Batch) -> Numbers:
        """Evaluate B instances, keep the best; tightness (B,), 0 where ``given`` rules one out."""
        self.sampled += len(batch)
        self.current = batch.fields, None
        passed = batch.passed
        for name, mask in batch.passing.items():
            self.passed[name] += int(mask.sum())
        tight = np.zeros(len(batch))
        if passed.any():
            chosen = batch if passed.all() else batch.subset(np.flatnonzero(passed))
            try:
                sides = self._evaluated(chosen)
            except Fault as fault:
                self.current = self._failing_instance(chosen, fault.index)
                raise
            tight[passed] = sides.tightness
            self.instances += len(chosen)
            self._call, self._passed = (chosen, sides), passed
            self._repeat_first(chosen, sides)
            self._count_doubtful(chosen, sides.doubtful)
            self.looseness = min(self.looseness, float(sides.looseness.min()))
            self.bounded = self.bounded or bool(np.isfinite(sides.bound).any())
            self._keep_tightest(
                batch, tight if chosen is batch else np.where(passed, tight, -np.inf)
            )
        return tight

    def _repeat_first(self, batch: Batch, sides: EvaluatedSides) -> None:
        """Measure the first instances again, and remember them."""
        left = _MEASURED_TWICE - sum(len(one) for one, _ in self._first)
        if left > 0:
            rows = np.arange(min(left, len(batch)))
            few = batch.subset(rows)
            first_sides = self._evaluated(few) if self.claim.space.batched else sides.subset(rows)
            self._repeat(few, first_sides)
            self._first.append((few, first_sides))

    def repeat_one(self, fields: Fields) -> None:
        """Refuse a measure that finds something else on one instance when it is asked again."""
        one = Batch(self.claim.space, fields, self.claim.space.sizes_of(fields))
        self._repeat(one, self._evaluated(one))

    def _evaluated(self, batch: Batch) -> EvaluatedSides:
        """Both sides; those of a slow measure part by part, so that progress can be seen."""
        done = 0
        while done < len(batch):
            size = len(batch) - done
            if not self.claim.space.batched and self._pace * size > _LONG:
                size = max(1, int(_LONG / self._pace))
            complete = size == len(batch)
            part = batch if complete else batch.subset(np.arange(done, done + size))
            begun = time.perf_counter()
            try:
                sides = evaluate(self.claim, part, self._watch, trusted=self.trusted)
            except Fault as fault:
                fault.index += done
                raise
            self._pace = (time.perf_counter() - begun) / size
            self._parts.append(sides)
            done += size
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else EvaluatedSides.joined(parts)

    def _repeat(self, batch: Batch, sides: EvaluatedSides) -> None:
        try:
            repeat(self.claim, batch, sides, self._watch, trusted=self.trusted)
        except Unsettled as fault:
            self.current = batch.fields, fault.index
            raise

    def _failing_instance(self, batch: Batch, index: int) -> tuple[Fields, int]:
        """The instance on which evaluation fails; of a batch, one that fails by itself."""
        while self.claim.space.batched and len(batch) > 1:
            middle = len(batch) // 2
            for rows in (np.arange(middle), np.arange(middle, len(batch))):
                half = batch.subset(rows)
                try:
                    evaluate(self.claim, half)
                except Fault as fault:
                    batch, index = half, fault.index
                    break
            else:
                break
        return batch.fields, index

    def _watch(self, fields: Fields, index: int | None) -> None:
        self.current = fields, index
        self.began = _now()
        if self._tell is not None:
            self._tell(fields, index)

    def _keep_tightest(self, batch: Batch, tight: Numbers) -> None:
        group = self._best.setdefault(tuple(batch.sizes.items()), [])
        worst = group[-1].rank if len(group) == _KEPT else -np.inf
        if tight.max() <= worst:  # as of most batches; no rank is above the tightness
            return
        rank = _rank(tight)
        order = np.argsort(-rank, kind="stable")
        equal = (tight >= _ATTAINED) & (tight <= CANDIDATE)
        # of instances on which the two sides are equal, one is as good as all
        order = order[~equal[order] | (np.cumsum(equal[order]) == 1)]
        for index in order[:2]:
            if rank[index] <= worst:
                break
            group.append(self._scored_instance(batch, index, tight))
        group.sort(key=lambda instance: -instance.rank)
        attained = [k for k, instance in enumerate(group) if instance.attained]
        for index in reversed(attained[1:]):
            del group[index]
        del group[_KEPT:]

    def _confirm(self) -> None:
        """Re-check new candidates in high precision."""
        fresh = [f for f in self.best if f.tightness > CANDIDATE and not f.checked]
        first = [f for k, f in enumerate(fresh) if f.sizes not in [g.sizes for g in fresh[:k]]]
        allowed = min(_CHECKED, _CHECKED_IN_ALL - self.rejected)
        self._check((first or fresh)[: max(allowed, 0)])

    def _confirm_kept_by_chance(self) -> None:
        """Re-check candidates whatever their tightness, once float64 proved wrong about some."""
        if self.rejected and self.violation is None:
            kept = [*self._corners.kept, *self._others.kept]
            fresh = [instance for instance in kept if not instance.checked]
            self._check(fresh)
            self._checked_by_chance += len(fresh)

    def _check(self, candidates: Sequence[ScoredInstance]) -> None:
        for instance in candidates:
            instance.checked = True
            self.current = instance.fields, 0
            try:
                sides = certify(self.claim, instance.fields)
            except Unsettled:
                raise
            except Fault as fault:
                raise Fault(f"float64 exceeds the bound, but {fault.reason}") from fault
            if sides.violated:
                self.violation, self.certificate = instance, sides
                self._violated(self)
                return
            self.rejected += 1
            if instance.call is not None and not any(
                instance.call is call for call in self._repeated
            ):
                self._repeat(*instance.call)  # rounding is the same each time
                self._repeated.append(instance.call)

    def _explore(self, batch: Batch) -> Numbers:
        """Look at a batch that was drawn without regard to the bound, and keep some candidates.

        Its tightness, as :meth:`look` has it.
        """
        tight = self.look(batch)
        for index in np.flatnonzero(tight > CANDIDATE).tolist():
            corner = batch.coordinates is None or np.ptp(batch.coordinates[index]) == 0
            others = self._corners if corner else self._others
            place = others.place()
            if place is not None:
                others.put(place, self._scored_instance(batch, index, tight))
        return tight

    def _scored_instance(self, batch: Batch, index: int, tight: Numbers) -> ScoredInstance:
        one = batch.subset(np.array([index]))
        coordinates = None if one.coordinates is None else one.coordinates[0]
        instance = ScoredInstance(float(tight[index]), one.fields, batch.sizes, coordinates)
        if instance.tightness > CANDIDATE:
            row = np.count_nonzero(self._passed[:index])
            alone = one, self._call[1].subset(np.array([row]))
            instance.call = self._call if self.claim.space.batched else alone
        return instance

    def _sample(self, total: int) -> None:
        """Corners and random instances, or all that there are; again if float64 is right where it
        was doubted."""
        self._try_corners_and_random(total)
        if self._doubtful > _DOUBTFUL * self.instances and self._float64_is_right():
            self.trusted = True
            self._restart()
            self._try_corners_and_random(total)

    def _restart(self) -> None:
        self.instances = self.sampled = self._doubtful = 0
        self.passed = dict.fromkeys(self.claim.space.given, 0)
        self._best: dict[tuple[Any, ...], list[ScoredInstance]] = {}
        self._probes: list[Batch] = []
        self._first: list[tuple[Batch, EvaluatedSides]] = []
        self._repeated: list[tuple[Batch, EvaluatedSides]] = []
        self._checked_by_chance = 0
        chance = generator(self.seed, self.claim.id, "candidates")
        self._corners, self._others = (
            Reservoir[ScoredInstance](n, chance) for n in (_CORNERS, _OTHERS)
        )

    def _count_doubtful(self, batch: Batch, doubtful: Numbers) -> None:
        """Count doubtful instances, and keep one of a batch; the first ones are corners."""
        places = np.flatnonzero(doubtful)
        self._doubtful += len(places)
        if places.size and not self.trusted:
            self._probes.append(batch.subset(places[-1:]))

    def _float64_is_right(self) -> bool:
        """Whether high precision finds the tightness of doubtful instances as float64 has it."""
        picks = {int(share * len(self._probes)) for share in _binary_fractions(_PROBES)}
        return all(float64_agrees(self.claim, self._probes[pick].fields) for pick in sorted(picks))

    def _try_families(self) -> None:
        """The counterexamples of the claims that this one uses."""
        for name, instances in self._families.items():
            own = list(filter(None, map(self._of_own_space, instances)))
            tight = [float(self._explore(one)[0]) for one in own]
            near = [o.fields for o, t in zip(own, tight, strict=True) if t > CANDIDATE]
            violated = sum(certify(self.claim, fields).violated for fields in near)
            self.families[name] = {"tried": len(own), "violated": violated}

    def _of_own_space(self, instance: Mapping[str, ArrayLike]) -> Batch | None:
        """An instance of another claim's space, if it is one of this claim's, too."""
        space = self.claim.space
        if set(instance) != set(space.fields):
            return None
        fields = {name: np.asarray(instance[name], dtype=float)[None] for name in space.fields}
        try:
            sizes = space.sizes_of(fields)
        except InputError:
            return None
        return Batch(space, fields, sizes) if space.meets(fields).all() else None

    def _try_corners_and_random(self, total: int) -> None:
        space = self.claim.space
        self._try_families()
        every = space.every_instance()
        chosen: Iterator[Batch]
        if every is not None:
            chosen = (Batch(space, stack, space.sizes_of(stack)) for stack in every)
        else:
            for corner in space.corner_fields:
                self._explore(Batch(space, space.complete(corner), space.sizes_of(corner)))
            chosen = batches(space, self.seed, total)
        for batch in chosen:
            self._explore(batch)
            batch.freeze()
            self._check_space(batch)
        if not self.instances and every is None:
            for batch in draw(space, self.seed, max(total, SHARED), _MOST_DRAWN):
                self._explore(batch)

    def _sample_more(self, total: int) -> None:
        """Random instances that no other claim shares."""
        for batch in draw(self.claim.space, f"{self.seed}/{self.claim.id}", 0, total):
            self._explore(batch)

    def _check_space(self, batch: Batch) -> None:
        """A space whose own instances break its assumptions cannot judge anything."""
        if batch.broken is None:
            return
        name, index = batch.broken
        one = batch.subset(np.array([index]))
        self.current = one.fields, 0
        # float64 may miss an assumption by rounding; then the exact instance meets it
        with precision(DIGITS[0]):
            exact = self.claim.space.precise(one.fields)
            if self.claim.space.first_broken(exact) is not None:
                raise Fault(f"the space's own instance breaks its assumption {name!r}")

    def _hypothesis(self, examples: int) -> None:
        # hypothesis takes a while to import, and who lists claims searches for nothing
        from ratecheck._search.hypothesis_search import search_examples

        layouts = [self.claim.space.layout(sizes) for sizes in self.claim.space.all_sizes()]
        seed = int(generator(self.seed, self.claim.id, "hypothesis").integers(2**63))
        search_examples(
            layouts,
            lambda layout, coordinates: float(self._decoded(layout, coordinates)[0]),
            examples,
            seed,
        )

    def _decoded(self, layout: Layout, coordinates: Numbers) -> Numbers:
        return self.look(
            Batch(self.claim.space, layout.decode(coordinates), layout.sizes, coordinates)
        )

    def _starts(self, count: int) -> list[ScoredInstance]:
        """Where to climb from, by turns: tight instances of different sizes, and of all sizes.

        The sizes on which random instances are tight are often not those of the best ones.
        """
        groups = [[f for f in group if f.coordinates is not None] for group in self._best.values()]
        groups = sorted((g for g in groups if g), key=lambda group: -group[0].tightness)
        ranked = [group[k] for k in range(_KEPT) for group in groups if k < len(group)]
        attained = [instance for instance in ranked if instance.attained]
        tight = attained[:1] + [instance for instance in ranked if not instance.attained]
        sizes = sorted((group[-1] for group in groups), key=lambda instance: instance.numbers)
        spread = [sizes[int(k * len(sizes))] for k in _binary_fractions(len(sizes))]
        turns = [instance for pair in zip(tight, spread, strict=False) for instance in pair]
        return [f for k, f in enumerate(turns) if not any(f is g for g in turns[:k])][:count]

    def _finish(self, budget: int) -> None:
        """Climb on from where the other ascents came highest."""
        known = [
            instance
            for instance in self.best
            if instance.coordinates is not None and not instance.attained
        ]
        if known and not self.best[0].attained:
            self._ascend(known[0], -2, budget)

    def _ascend(self, start: ScoredInstance, number: int, budget: int) -> None:
        layout = self.claim.space.layout(start.sizes)
        assert start.coordinates is not None
        rng = generator(self.seed, self.claim.id, "ascent", number)
        Climb(lambda points: self._decoded(layout, points), start.coordinates, budget, rng).run()
