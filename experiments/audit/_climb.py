"""Local ascent on genes: gradients at shrinking widths, then single genes one by one.

Tightness is a maximum over entries of quotients with maxima inside, so it has kinks. Differences
over a wide step smooth them; when the quasi-Newton steps come to rest, a pattern search moves
single genes to the ends, the middle and nearby values, which both ends on kinks and rounds genes to
simple values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from experiments.audit._fields import Numbers

#: Genes (B, m) to scores (B,), larger is better.
Score = Callable[[Numbers], Numbers]
_WIDTHS = (1e-2, 1e-4, 1e-6)
_STEPS = (0.1, 0.01, 1e-3)
_GAIN = 1e-10


def climb(score: Score, start: Numbers, steps: int, rng: np.random.Generator) -> Numbers:
    """The best genes (m,) found from one point."""
    best = np.clip(start, 0, 1)
    value = float(score(best[None])[0])
    for _ in range(2):
        before = value
        for width in _WIDTHS:
            best, value = _smooth(score, best, value, width, steps)
        best, value = _pattern(score, best, value, steps, rng)
        if value - before <= 1e-6:
            break
    return best


def _smooth(
    score: Score, start: Numbers, value: float, width: float, steps: int
) -> tuple[Numbers, float]:
    """Quasi-Newton ascent with one-sided differences, each gradient from one batch."""
    seen = [(value, start)]

    def downhill(genes: Numbers) -> tuple[float, Numbers]:
        forward = np.where(genes + width <= 1, width, -width)
        points = np.vstack([genes, genes + np.diag(forward)])
        values = score(points)
        top = int(values.argmax())
        seen.append((float(values[top]), points[top]))
        return -float(values[0]), -(values[1:] - values[0]) / forward

    minimize(
        downhill,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * start.size,
        options={"maxiter": steps, "ftol": 1e-12, "gtol": 1e-10},
    )
    best = max(seen, key=lambda pair: pair[0])
    return best[1], best[0]


def _pattern(
    score: Score, best: Numbers, value: float, steps: int, rng: np.random.Generator
) -> tuple[Numbers, float]:
    """Move one gene, or a random direction, at a time; the best move of each batch is taken."""
    m = best.size
    for _ in range(steps):
        moves = []
        for to in (0.0, 0.5, 1.0):
            moves.append(np.where(np.eye(m, dtype=bool), to, best))
        for step in _STEPS:
            moves += [best + step * np.eye(m), best - step * np.eye(m)]
            moves.append(best + step * rng.standard_normal((m, m)))
        points = np.clip(np.vstack(moves), 0, 1)
        values = score(points)
        top = int(values.argmax())
        if not values[top] > value + _GAIN:
            break
        best, value = points[top], float(values[top])
    return best, value
