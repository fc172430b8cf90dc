"""Local ascent in the unit cube: an evolution strategy, quasi-Newton steps, single coordinates.

Tightness has kinks (maxima over entries and inside bounds) and several local maxima. Adapting the
covariance of a cloud of points (CMA-ES, in the form of N. Hansen, "The CMA Evolution Strategy: A
Tutorial", 2016) follows ridges at which gradients fail; L-BFGS-B finishes where it is smooth;
moving single coordinates to the ends and the middle finishes in corners, and makes instances
simple.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ratecheck._claims.fields import Numbers

#: Coordinates (B, m) to scores (B,), larger is better.
Score = Callable[[Numbers], Numbers]
#: Standard deviation of the first cloud of points.
_SPREAD = 0.15
#: Step of the one-sided differences.
_WIDTH = 1e-6
#: Moving single coordinates ends where a pass over all of them gains no more than this.
_GAIN = 1e-10
#: The range of scores at which a bound is attained and nothing is left to climb.
_ATTAINED = (1 - 1e-9, 1 + 1e-9)


class Climb:
    """One ascent: calls ``score`` about ``budget`` times, and remembers the best point."""

    def __init__(self, score: Score, start: Numbers, budget: int, rng: np.random.Generator) -> None:
        self._score, self._left, self._rng = score, budget, rng
        self.best = np.clip(start, 0, 1)
        self.value = -np.inf
        self._evaluate(self.best[None])

    def run(self) -> None:
        """All three stages."""
        self._evolve(self._left * 3 // 4)
        self._newton()
        self._snap()

    @property
    def _done(self) -> bool:
        return self._left <= 0 or _ATTAINED[0] <= self.value <= _ATTAINED[1]

    def _evaluate(self, points: Numbers) -> Numbers:
        values = self._score(points)
        self._left -= len(points)
        top = int(values.argmax())
        if values[top] > self.value:
            self.best, self.value = points[top].copy(), float(values[top])
        return values

    def _evolve(self, budget: int) -> None:
        """CMA-ES with points clipped to the box; one batch is one generation."""
        m = self.best.size
        size = 32 if budget < 5_000 else 64
        weights = np.log(size / 2 + 0.5) - np.log(np.arange(1, size // 2 + 1))
        weights /= weights.sum()
        mass = 1 / (weights**2).sum()
        slow = (mass + 2) / (m + mass + 5)
        damping = 1 + 2 * max(0, np.sqrt((mass - 1) / (m + 1)) - 1) + slow
        path_rate = (4 + mass / m) / (m + 4 + 2 * mass / m)
        rank_one = 2 / ((m + 1.3) ** 2 + mass)
        rank_mu = min(1 - rank_one, 2 * (mass - 2 + 1 / mass) / ((m + 2) ** 2 + mass))
        usual = np.sqrt(m) * (1 - 1 / (4 * m) + 1 / (21 * m**2))

        centre, spread = self.best.copy(), _SPREAD
        covariance, lengths, axes = np.eye(m), np.ones(m), np.eye(m)
        step_path, path = np.zeros(m), np.zeros(m)
        last = self._left - budget
        for generation in range(1, budget // size + 1):
            if self._done or self._left <= last or spread < 1e-8:
                return
            steps = self._rng.standard_normal((size, m)) * lengths @ axes.T
            raw = centre + spread * steps
            points = np.clip(raw, 0, 1)
            # points outside count as their nearest point inside, a little worse
            fitness = self._evaluate(points) - 0.1 * ((raw - points) ** 2).sum(axis=1)
            chosen = steps[np.argsort(-fitness, kind="stable")[: size // 2]]
            move = weights @ chosen
            centre = centre + spread * move
            step_path = (1 - slow) * step_path
            step_path += np.sqrt(slow * (2 - slow) * mass) * (axes @ (axes.T @ move / lengths))
            length = np.sqrt((step_path**2).sum())
            short = (
                length / np.sqrt(1 - (1 - slow) ** (2 * generation)) < (1.4 + 2 / (m + 1)) * usual
            )
            path = (1 - path_rate) * path + short * np.sqrt(
                path_rate * (2 - path_rate) * mass
            ) * move
            covariance = (1 - rank_one - rank_mu) * covariance
            covariance += rank_one * np.outer(path, path) + rank_mu * (chosen.T * weights) @ chosen
            spread = min(spread * float(np.exp(slow / damping * (length / usual - 1))), 0.5)
            if generation % 5 == 0:
                squares, axes = np.linalg.eigh((covariance + covariance.T) / 2)
                lengths = np.sqrt(np.maximum(squares, 1e-20))

    def _newton(self) -> None:
        """L-BFGS-B with one-sided differences, each gradient from one batch."""
        if self._done:
            return
        from scipy.optimize import minimize

        def downhill(coordinates: Numbers) -> tuple[float, Numbers]:
            if self._done:
                raise StopIteration
            forward = np.where(coordinates + _WIDTH <= 1, _WIDTH, -_WIDTH)
            values = self._evaluate(np.vstack([coordinates, coordinates + np.diag(forward)]))
            return -float(values[0]), -(values[1:] - values[0]) / forward

        try:
            minimize(
                downhill,
                self.best,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0, 1)] * self.best.size,
                options={"ftol": 1e-13, "gtol": 1e-11},
            )
        except StopIteration:
            return

    def _snap(self) -> None:
        """Move single coordinates to the ends or the middle, as long as that helps."""
        before = -np.inf
        while not self._done and self.value > before + _GAIN:
            before = self.value
            one = np.eye(self.best.size, dtype=bool)
            self._evaluate(np.vstack([np.where(one, to, self.best) for to in (0.0, 0.5, 1.0)]))
