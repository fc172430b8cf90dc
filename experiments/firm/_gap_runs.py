"""Processes with a strict maximum, runs of T-FIRM around it, and verdicts against the law.

The policy is steered by two features that all states share, so that the maximum of the mean
objective is at a finite theta: see :mod:`experiments.firm._gaps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

import ratecheck as rc
from experiments.firm._drift import law_slope
from experiments.firm._gaps import Floor, GapTerms
from experiments.firm._systems import InstancesConfig
from experiments.firm._words import LAW
from linsys import InputError
from linsys.validate import Array
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.runs import Trace, run
from mgda.trajectories import Clients

#: The measured quantity, as a formula in the figures.
GAP = r"$\|\nabla J\,\lambda_t\|^2$"
#: The largest number of draws until a process has a strict maximum; nearly all of them do.
_DRAWS = 20
#: Level of the confidence intervals of ratios.
_LEVEL = 0.95


@dataclass(frozen=True)
class Curve:
    """One way to run.

    Attributes:
        eta: smoothing of the weights.
        slower: the factor by which the step is smaller and the run longer.
        sampling: "restarted", where (10) has the mean grad J here, or "markov", as printed.
    """

    eta: float | str = "1/t"
    slower: float = 1.0
    sampling: str = "restarted"


SMOOTHED, SLOW, PLAIN, MARKOV = "T-FIRM", "T-FIRM, α/4", "FIRM, η = 1", "T-FIRM, Markov"
CURVES = {
    PLAIN: Curve(eta=1.0),
    SMOOTHED: Curve(),
    MARKOV: Curve(sampling="markov"),
    SLOW: Curve(slower=4.0),
}


@dataclass(frozen=True, kw_only=True)
class SteeredConfig(InstancesConfig):
    """Processes steered by two shared features."""

    states: int = 4
    actions: int = rc.param(5, low=4)
    gamma: float = 0.5
    replicates: int = rc.param(32, low=30)
    jitter: float = rc.param(
        0.15, low=0.0, doc="how far features of a state are from the common ones."
    )
    target: float = rc.param(
        0.4, low=0.0, high=1.0, doc="distance of the objectives' favourite points from the middle."
    )
    beta: float = rc.param(0.1, above=0.0, doc="regularisation of the raw Gram matrix.")
    step: float = rc.param(
        0.25, above=0.0, high=1.0, doc="a times L_J, the largest ||grad^2 J^j|| at the fixed point."
    )

    def __post_init__(self) -> None:
        super().__post_init__()

    def floor(self, instance: int) -> Floor:
        """A process and its fixed point: one moderate action, the others on a circle around it.

        r^j = 1 - |x - o_j|^2 / max: every objective has its favourite point o_j on a small circle,
        where no action is. Random kernels and turns of the circle make the states differ; runs
        start in the first one, so that the stationary law is not the discounted one.
        """
        for draw in range(_DRAWS):
            rng = np.random.default_rng(self.derive("steered", instance, draw))
            S, A, M = self.states, self.actions, self.objectives
            base = sample_momdp(rng, states=S, actions=A, objectives=M, gamma=self.gamma)
            around = _circle(np.arange(A - 1) / (A - 1) + rng.random((S, 1)))
            x = np.concatenate([np.zeros((S, 1, 2)), around], axis=1)
            x += self.jitter * rng.standard_normal(x.shape)
            favourites = self.target * _circle(np.arange(M) / M + rng.random())
            squared_distances = ((x[:, :, None] - favourites) ** 2).sum(axis=-1)
            r, first = 1.0 - squared_distances / squared_distances.max(), np.eye(S)[0]
            floor = Floor.find(replace(base, r=r, features=x, mu0=first), self.beta)
            if floor is not None:
                return floor
        raise InputError(f"`seed` must give a strict maximum; found none in {_DRAWS} processes")

    def step_size(self, floor: Floor, chosen: Curve) -> float:
        """The step a of a curve."""
        return self.step / floor.L / chosen.slower

    def law(self, floor: Floor, chosen: Curve, clients: int, B: int) -> GapTerms:
        """The floor of a curve with restarted sampling."""
        a = self.step_size(floor, chosen)
        return floor.law(clients=clients, B=B, a=a, eta=chosen.eta)

    def steps(self, floor: Floor, chosen: Curve, relaxations: float) -> int:
        """A number of relaxation times as a number of steps."""
        return int(np.ceil(relaxations / (self.step_size(floor, chosen) * floor.curvature)))

    def trace(
        self,
        floor: Floor,
        chosen: Curve,
        instance: int,
        clients: int,
        B: int,
        start: Array,
        steps: int,
        times: ArrayLike,
    ) -> Trace:
        """Runs from ``start`` with running means at ``times``."""
        alike = Clients(floor.momdp, clients)
        oracle = self.oracle(
            alike, instance, B=B, replicates=self.replicates, sampling=chosen.sampling
        )
        return run(
            FIRM(
                alpha=self.step_size(floor, chosen),
                beta=self.beta,
                normalise=False,
                eta=chosen.eta,
            ),
            oracle,
            np.broadcast_to(start, (self.replicates, clients, start.size)),
            steps,
            times=times,
            averages=True,
        )


@dataclass(frozen=True, kw_only=True)
class FloorConfig(SteeredConfig):
    """Runs that start at the fixed point, for what the gap is there."""

    relax: float = rc.param(
        2.0,
        low=1.0,
        doc=(
            "length of the burn-in in relaxation times 1 / (a h), with h the least curvature of "
            "J_u at the fixed point; a share exp(-2 relax) of the variance is then still "
            "missing. The window is twice as long."
        ),
    )

    def measure(self, floor: Floor, chosen: Curve, instance: int, clients: int, B: int) -> Array:
        """Mean of ||grad J lambda_t||^2 over the window, shape (replicates,).

        Runs start where the curve's own mean direction is zero.
        """
        length = self.steps(floor, chosen, self.relax)
        start = floor.biased if chosen.sampling == "markov" else floor.theta
        times = [length - 1, 3 * length - 1]
        trace = self.trace(floor, chosen, instance, clients, B, start, 3 * length, times)
        before, after = trace.means["weighted_gap"]
        return np.asarray(1.5 * after - 0.5 * before)


def _circle(turns: Array) -> Array:
    """Points on the unit circle, shape (..., 2)."""
    angle = 2.0 * np.pi * turns
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def slack(x: Sequence[float] | Array, laws: Sequence[GapTerms]) -> float:
    """The largest change of a least-squares exponent by the remainders of the law."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    centred = log_x - log_x.mean()
    remainders = np.array([law.remainder for law in laws])
    return float(np.abs(centred) @ remainders / (centred @ centred))


def against_law(
    name: str, x: Array, y: Array, laws: Sequence[GapTerms], seed: int
) -> list[rc.Check]:
    """Exponent and constant of y (replicates, points) against those of the law."""
    derived = [law.total for law in laws]
    predicted, measured = law_slope(x, derived), rc.slope_interval(x, y, rng=seed)
    ratio, relative_error = (
        (y / derived).mean(axis=1),
        float(np.mean([law.remainder for law in laws])),
    )
    return [
        rc.rate_check(f"{name}: as derived", predicted, measured, tolerance=slack(x, laws)),
        near_one(f"{name}: measured / derived", ratio, relative_error),
    ]


def plateau(name: str, x: Array, y: Array, laws: Sequence[GapTerms], bias: float) -> list[rc.Check]:
    """The exponent of y over the last octave, against zero, and the limit over the bias.

    y = bias + v / x: the noise is the law's up to its remainder, and what it adds to the bias turns
    the exponent by at most its share.
    """
    measured = rc.slope_interval(x[-2:], y[:, -2:], rng=0)
    share = x[-2] / x[-1]
    limit = (y[:, -1] - share * y[:, -2]) / (1.0 - share) / bias
    return [
        rc.rate_check(f"{name}: as derived", 0.0, measured, tolerance=laws[-2].total / bias),
        near_one(f"{name}: limit / derived", limit, laws[-2].remainder),
    ]


def near_one(name: str, ratio: Array, relative_error: float) -> rc.Check:
    """The mean of replicates against one, up to what the law leaves out."""
    value, lo, hi = (float(v[0]) for v in rc.mean_band(ratio[:, None], level=_LEVEL))
    return rc.within(
        name,
        f"1 within {relative_error:.2g}",
        rc.Interval(value, lo, hi),
        1.0 - relative_error,
        1.0 + relative_error,
    )


def series_of(
    name: str, panel: str, x: Array, y: Array, laws: Sequence[GapTerms] | None = None
) -> list[rc.Series]:
    """The measured mean with its band, and the law."""
    series = [rc.Series(name, panel, x, *rc.mean_band(y))]
    if laws is not None:
        series.append(rc.Series(LAW, panel, x, [law.total for law in laws]))
    return series
