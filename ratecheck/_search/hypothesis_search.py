"""Hypothesis as a searcher: examples whose tightness it pushes up with ``target``.

Hypothesis mixes numbers from the source of whatever is imported into its examples, and no public
setting leaves them out: a ``backend`` of one's own would, but with it hypothesis chooses other
examples, which miss the counterexample of FIRM's Lemma 10. So :func:`_without_source_constants`
changes two private objects of hypothesis while a search runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Layout
from ratecheck._processes.limit import limit_in

#: Coordinates are multiples of 1 / _STEPS: hypothesis draws and climbs whole numbers fastest.
_STEPS = 256


def search_examples(
    layouts: Sequence[Layout],
    score: Callable[[Layout, Numbers], float],
    examples: int,
    seed: int,
) -> None:
    """Call ``score`` on so many points (layout, coordinates (1, m)) that hypothesis chooses.

    Whatever score raises ends the search and is raised here, as it is.
    """
    step = st.integers(0, _STEPS)
    raised: list[Exception] = []

    @st.composite
    def points(draw: st.DrawFn) -> tuple[Layout, Numbers]:
        layout = draw(st.sampled_from(layouts))
        return layout, np.array([[draw(step) / _STEPS for _ in range(layout.coordinates)]])

    def test(point: tuple[Layout, Numbers]) -> None:
        if raised:  # hypothesis would repeat a failing example
            return
        try:
            hypothesis.target(score(*point))
        except Exception as error:
            raised.append(error)

    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.target),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        with _without_source_constants():
            hypothesis.seed(seed)(settings(hypothesis.given(points())(test)))()
    except hypothesis.errors.Flaky as error:
        raise limit_in(error) or error from None
    if raised:
        raise raised[0]


@contextmanager
def _without_source_constants() -> Iterator[None]:
    """Keep numbers found in the source of loaded modules out of the examples."""
    provider: Any = providers.HypothesisProvider
    cache = vars(providers)["CONSTANTS_CACHE"]
    inherited = provider.__dict__["_local_constants"]
    cache.cache.clear()
    provider._local_constants = vars(providers)["Constants"]()
    try:
        yield
    finally:
        provider._local_constants = inherited
        cache.cache.clear()
