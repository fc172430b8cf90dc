"""The exact engine, made ready for one system and algorithm: moments of the errors at any time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.algorithms.steps import Steps, StepSizes
from linsys.moments._maps import Start, Supported
from linsys.moments._trajectory import ExactRun, ExactTrajectory
from linsys.moments._views import build_views, report_blocks
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array, InputError, check_number, increasing_times, real_array

#: Most steps that are taken one by one.
MAX_STEPS = 20_000_000


class ExactMoments:
    """Exact error moments of one algorithm on one finite-state system; see :func:`exact_moments`.

    Attributes:
        system, algorithm, steps: as given.
        agents: the agents reported, shape (n_agents,).
        views: the closed recursions, one per type of agent (one in all for FedAvg and the implicit
            centre).
    """

    def __init__(
        self,
        system: FiniteSystem,
        algorithm: Supported,
        steps: Steps | None,
        start: Start,
        agents: NDArray[np.int64],
    ) -> None:
        self.system, self.algorithm, self.steps, self.agents = system, algorithm, steps, agents
        multipliers = steps if steps is not None else Steps.constant(1.0)
        sizes = StepSizes(
            multipliers.multipliers(system.n), multipliers.center, multipliers.objective, 1.0
        )
        self.views, kind = build_views(system, algorithm, sizes, start, agents.tolist())
        self._kind = np.asarray(kind, dtype=np.int64)

    @cached_property
    def stability_limit(self) -> float:
        """The step size, before multipliers, from which on some agent's second moments diverge."""
        return min(view.recursion.stability_limit for view in self.views)

    def at(
        self, times: ArrayLike, alpha: ArrayLike | None = None, *, allow_unstable: bool = False
    ) -> ExactTrajectory:
        """Moments at the given times under a constant step size.

        All times share one squaring of an m x m matrix per binary digit of the largest, where m =
        D(D + 1)/2 is 136 at d = 5; each takes one matrix-vector product per binary one.

        Args:
            times: strictly increasing whole numbers from 0 on.
            alpha: step size before the multipliers of ``steps``, or one per time (as alpha =
                ln t/(lambda t) asks for); default that of ``steps``.
            allow_unstable: follow step sizes at which the second moments grow without bound.

        Raises:
            InputError: times or step sizes of the wrong form, or a step size beyond
                :attr:`stability_limit`.
        """
        when = increasing_times(times)
        rates = self._rates(alpha, when.size)
        moments = np.empty((when.size, *self._shape))
        for rate in np.unique(rates).tolist():
            if not allow_unstable:
                self._check_stable(rate)
            chosen = rates == rate
            moments[chosen] = self._read(
                [view.recursion.at(view.start, when[chosen], rate) for view in self.views]
            )
        return self._trajectory(when, moments)

    def stationary(self, alpha: float | None = None) -> ExactTrajectory:
        """The limit of :meth:`at` as t grows, by one solve; its time is the largest int64."""
        (rate,) = self._rates(alpha, 1).tolist()
        limits = self._check_stable(rate)
        forever = np.full(1, np.iinfo(np.int64).max)
        return self._trajectory(forever, self._read([limit[None] for limit in limits]))

    def run(
        self,
        times: ArrayLike,
        alphas: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> ExactRun:
        """Moments step by step, for step sizes that change with time.

        Args:
            times: strictly increasing whole numbers from 0 on; the last one is the number of steps.
            alphas: step sizes alpha_0, alpha_1, ..., at least one per step; default those of
                ``steps``.
            weights: w_0, w_1, ... of the two averages, one more than steps; default tau + t0 for a
                diminishing step (Lemma D.5) and equal weights otherwise.

        Raises:
            InputError: shapes or values that do not fit. Single steps may be large: nothing is
                assumed about stability. No more than 2 * 10^7 steps.
        """
        when = increasing_times(times)
        last = int(when[-1])
        if last > MAX_STEPS:
            raise InputError(f"`times` must be at most {MAX_STEPS} step by step; found {last}")
        if alphas is None:
            steps = self._steps("alphas")
            taken: Array = steps.numerator / (
                steps.offset + steps.slope * np.arange(last, dtype=float)
            )
        else:
            taken = real_array("alphas", alphas, ("steps",)) if last else np.empty(0)
        if taken.size < last or (taken < 0).any():
            raise InputError(
                f"`alphas` must hold at least {last} step sizes of at least 0; found {taken.size}, "
                f"the smallest {taken.min(initial=np.inf):g}"
            )
        if weights is None:
            weighed = self._lemma_weights(last + 1)
        else:
            weighed = real_array("weights", weights, ("steps + 1",))
        if weighed.size <= last or (weighed < 0).any() or weighed[: when[0] + 1].sum() <= 0:
            raise InputError(
                f"`weights` must hold at least {last + 1} numbers of at least 0, some positive up "
                f"to the first time; found {weighed.size}, the smallest {weighed.min():g}"
            )
        results = [view.recursion.walk(view.start, when, taken, weighed) for view in self.views]
        current, weighted, averaged = (
            self._read(list(part)) for part in zip(*results, strict=True)
        )
        return ExactRun(
            **vars(self._trajectory(when, current)),
            weighted=self._trajectory(when, weighted),
            averaged=self._trajectory(when, averaged),
        )

    @property
    def _shape(self) -> tuple[int, int, int]:
        reports = [report for view in self.views for report in view.reports]
        size = reports[0].matrix.shape[0]
        return len(reports), size, size

    def _steps(self, name: str) -> Steps:
        if self.steps is None:
            raise InputError(
                f"`{name}` must be given where the engine was made without `steps`; found None"
            )
        return self.steps

    def _rates(self, alpha: ArrayLike | None, count: int) -> Array:
        if alpha is None:
            steps = self._steps("alpha")
            if steps.slope != 0:
                raise InputError(
                    "`alpha` must be given where `steps` diminish (or use `run`); found None"
                )
            return np.full(count, steps.base(0))
        if np.ndim(alpha) == 0:
            return np.full(count, check_number("alpha", alpha, low=0.0, low_open=True, high=1e300))
        rates = real_array("alpha", alpha, (count,))
        if (rates <= 0).any():
            raise InputError(f"`alpha` must be positive; found {rates.min():g}")
        return rates

    def _check_stable(self, alpha: float) -> list[Array]:
        """The stationary moments of every view; an error where there are none."""
        limits = []
        for view in self.views:
            limit = view.recursion.stationary(alpha)
            if limit is None:
                system = self.system
                symmetric = 0.5 * (system.A_bar + np.swapaxes(system.A_bar, 1, 2))
                bound = np.linalg.eigvalsh(symmetric).min() / np.square(
                    np.linalg.norm(system.A, 2, axis=(1, 2)).max()
                )
                raise InputError(
                    f"`alpha` must be below {self.stability_limit:.6g}, where second moments stop "
                    f"converging (for orientation: lambda/G_A^2 = {bound:.3g}); found {alpha:.6g}"
                )
            limits.append(limit)
        return limits

    def _lemma_weights(self, count: int) -> Array:
        """tau + t0 where alpha_tau is proportional to 1/(tau + t0 + 1), else equal weights."""
        if self.steps is None or self.steps.slope == 0:
            return np.ones(count)
        t0 = max(self.steps.offset / self.steps.slope - 1.0, 0.0)
        return np.asarray(t0 + np.arange(count), dtype=np.float64)

    def _read(self, moments: list[Array]) -> Array:
        """Reported moments R E[y y'] R', shape (T, K, r + 1, r + 1)."""
        read = [
            report.matrix @ moment @ report.matrix.T
            for view, moment in zip(self.views, moments, strict=True)
            for report in view.reports
        ]
        return np.stack(read, axis=1)

    def _trajectory(self, times: NDArray[np.int64], moments: Array) -> ExactTrajectory:
        return ExactTrajectory(
            times=times,
            agents=self.agents,
            kind=self._kind,
            moments=moments,
            blocks=report_blocks(self.algorithm, self.system.d),
            targets=np.stack([report.target for view in self.views for report in view.reports]),
        )
