"""The search for the tightest instance: corners, random batches, hypothesis, ascent.

All stages look at the same box of genes (:class:`experiments.audit._space.Layout`) and push the
tightness of :mod:`experiments.audit._judge` up. Everything is derived from the seed and from names,
so that a search repeats whatever else runs beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

from experiments.audit._claim import Claim
from experiments.audit._fields import Numbers
from experiments.audit._judge import CANDIDATE, evaluate
from experiments.audit._space import Fields, Layout, Sizes, Space


@dataclass(frozen=True)
class Effort:
    """How hard to try: numbers of random instances, hypothesis examples, ascents and their steps."""

    random: int
    examples: int
    ascents: int
    steps: int


EFFORTS = {
    "quick": Effort(random=3_000, examples=20, ascents=2, steps=15),
    "normal": Effort(random=20_000, examples=100, ascents=6, steps=60),
    "hunt": Effort(random=120_000, examples=500, ascents=24, steps=150),
}
#: At most so many combinations of sizes get a batch each.
_COMBINATIONS = 16
_BATCH = 2_000
_KEPT = 6


@dataclass(order=True)
class Found:
    """One instance and its tightness; ``fields`` are stacks of one."""

    tightness: float
    fields: Fields = field(compare=False)
    sizes: Sizes = field(compare=False)
    genes: Numbers | None = field(compare=False, default=None)


class Search:
    """One search of one claim: what was tried, and the tightest instances."""

    def __init__(self, claim: Claim, seed: int) -> None:
        self.claim, self.seed = claim, seed
        self.instances = 0
        self.sampled = 0
        self.best: list[Found] = []
        #: the batch under evaluation, for whoever has to report a failure
        self.current: Fields | None = None

    @property
    def space(self) -> Space:
        """Where the search takes place."""
        return self.claim.space

    def run(self, effort: Effort) -> None:
        """All stages; each starts from what the earlier ones found."""
        self._corners()
        self._random(effort.random)
        self._hypothesis(effort.examples)
        self._ascend(effort.ascents, effort.steps)

    def look(self, fields: Fields, sizes: Sizes, genes: Numbers | None = None) -> Numbers:
        """Evaluate B instances, keep the best; tightness (B,), 0 where ``given`` rules one out."""
        self.current = fields
        count = len(next(iter(fields.values())))
        self.sampled += count
        tight = np.zeros(count)
        passed = self.space.passing(fields) if self.space.given else np.ones(count, dtype=bool)
        if passed.any():
            chosen = fields if passed.all() else {k: v[passed] for k, v in fields.items()}
            tight[passed] = evaluate(self.claim, chosen).tightness
            self.instances += int(passed.sum())
            self._keep(fields, sizes, genes, tight)
        return tight

    def _keep(self, fields: Fields, sizes: Sizes, genes: Numbers | None, tight: Numbers) -> None:
        for index in np.argsort(-tight, kind="stable")[:2]:
            one = {name: values[index : index + 1].copy() for name, values in fields.items()}
            own = None if genes is None else genes[index].copy()
            self.best.append(Found(float(tight[index]), one, sizes, own))
        self.best.sort(reverse=True)
        del self.best[4 * _KEPT :]

    def candidates(self) -> list[Found]:
        """The tightest instances above one, the tightest first."""
        return [found for found in self.best if found.tightness > CANDIDATE][:_KEPT]

    def _rng(self, *names: object) -> np.random.Generator:
        text = "/".join(map(str, (self.seed, self.claim.id, *names)))
        return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))

    def _corners(self) -> None:
        for corner in self.space.corner_fields:
            self.look(self.space.complete(corner), self.space.sizes_of(corner))
        for sizes in self.space.all_sizes():
            layout = self.space.layout(sizes)
            genes = np.repeat([[0.0], [0.5], [1.0]], layout.genes, axis=1)
            self.look(layout.decode(genes), sizes, genes)

    def _random(self, total: int) -> None:
        every = self.space.all_sizes()
        pick = np.linspace(0, len(every) - 1, min(len(every), _COMBINATIONS)).round().astype(int)
        per = -(-total // len(pick))
        for index in pick:
            layout = self.space.layout(every[index])
            for start in range(0, per, _BATCH):
                count = min(_BATCH, per - start)
                genes = random_genes(self._rng("random", int(index), start), layout, count)
                self.look(layout.decode(genes), layout.sizes, genes)

    def _hypothesis(self, examples: int) -> None:
        layouts = [self.space.layout(sizes) for sizes in self.space.all_sizes()]
        gene = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, width=32))

        @st.composite
        def points(draw: st.DrawFn) -> tuple[Layout, Numbers]:
            layout = draw(st.sampled_from(layouts))
            genes = draw(st.lists(gene, min_size=layout.genes, max_size=layout.genes))
            return layout, np.array([genes])

        def aim(point: tuple[Layout, Numbers]) -> None:
            layout, genes = point
            hypothesis.target(float(self.look(layout.decode(genes), layout.sizes, genes)[0]))

        number = int.from_bytes(
            hashlib.sha256(f"{self.seed}/{self.claim.id}".encode()).digest()[:8]
        )
        aimed = hypothesis.given(points())(aim)
        hypothesis.seed(number)(
            hypothesis.settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=(hypothesis.Phase.generate, hypothesis.Phase.target),
                suppress_health_check=list(hypothesis.HealthCheck),
            )(aimed)
        )()

    def _ascend(self, ascents: int, steps: int) -> None:
        starts = [found for found in self.best if found.genes is not None][:ascents]
        for start in starts:
            layout = self.space.layout(start.sizes)
            climb(
                lambda genes, lay=layout: self.look(lay.decode(genes), lay.sizes, genes),
                start,
                steps,
            )


def random_genes(rng: np.random.Generator, layout: Layout, count: int) -> Numbers:
    """Genes (count, m): uniform, or drawn to the ends of [0, 1], some with an axis tied."""
    genes = rng.random((count, layout.genes))
    snapped = rng.random((count, 1)) < 0.4
    share = rng.random((count, 1))
    ends = np.round(rng.random((count, layout.genes)) * 2) / 2
    genes = np.where(snapped & (rng.random(genes.shape) < share), ends, genes)
    for axis in layout.sizes:
        rows = rng.random(count) < 0.1
        if rows.any():
            genes[rows] = layout.tie(genes[rows], axis)
    return genes


def climb(look: Callable[[Numbers], Numbers], start: Found, steps: int) -> None:
    """Maximise tightness over the box from one point, with gradients from one batch each."""
    assert start.genes is not None
    width = 1e-6

    def downhill(genes: Numbers) -> tuple[float, Numbers]:
        forward = np.where(genes + width <= 1, width, -width)
        points = np.vstack([genes, genes + np.diag(forward)])
        values = look(points)
        return -float(values[0]), -(values[1:] - values[0]) / forward

    minimize(
        downhill,
        np.clip(start.genes, 0, 1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * start.genes.size,
        options={"maxiter": steps, "ftol": 1e-13, "gtol": 1e-12},
    )
