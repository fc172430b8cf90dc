"""The mean of |grad f^S|^2 over T rounds against T: slope -1/2 with the step of Corollary 4.5.

Problem: the least-squares family of :mod:`experiments.fslora.rates._rates_systems`, identical
devices, noise from sketches and batches, from modules B = A' away from the minimiser.

Algorithms: H local steps, with one sketch a round (Algorithm 1) and with fresh ones. (a) runs of T
rounds with gamma = sqrt(N / (T H L (r/k)^2)); (b) one run with a given step, its mean up to T.

Guarantee: (7), O(T^(-1/2)) with that step; by (6) at a given one O(1/T) down to a floor. Upper
bounds.

Derived here. With F(A) = f^S(A', A) and a round A -> A - D - noise, D = gamma H (G - gamma (H - 1)
b / 2), the mean of F(A^+) - F(A) to second order gives, summed over rounds (G, b, P and Sigma as in
_rates_floors, E|grad f^S|^2 = 2 E|G|^2),

    gamma H sum_t E|grad f^S|^2 = F(A^0) - E F(A^T) + sum_t (<D, P D> + gamma^2 H (H - 1) <G, b>
                                  + (gamma^2 H/N) (m tr(P Sigma_s) + tr(P Sigma_g))),

whose leading order for small steps, once the run has come near the minimiser, is

    mean = (F(A^0) - min F) / (gamma H T) + (gamma/N) (m tr(P Sigma_s) + tr(P Sigma_g)):

a 1 where (6) has a 4, and both terms of order T^(-1/2) with the step of the corollary, for either
kind of sketch; m is H for one sketch a round and 1 for fresh ones.

Regime: T from 256 on. The sums are taken along the run without noise, and F(A^T) - min F is that of
the stationary law, (gamma/(2 N)) (m tr Sigma_s + tr Sigma_g): :func:`expected`. By how much this
differs from the leading order in slope is a part of the tolerance. The rest is what is left out,
with e = gamma H times the largest eigenvalue p of P: the noise in <D, P D>, (gamma H)^2 tr(P P C P)
<= e/2 of the term of noise, and about as much in <G, b>; ``Floor.rest`` of that term; and e^2 for
the third derivatives of F. In (b) the fit begins after ``RELAX`` relaxation times.

References: FSLoRA, Theorem 4.4, Corollary 4.5, equations (6) and (7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.fslora.rates._rates_checks import floor_series
from experiments.fslora.rates._rates_floors import LEVEL, RELAX, Floor
from experiments.fslora.rates._rates_systems import Squares, rounds
from linsys.validate import Array, InputError
from ratecheck import RESOLUTION

FIXED, FRESH = "one sketch a round", "fresh sketches"
TUNED, GIVEN = "(a) step of Corollary 4.5", "(b) given step"
#: Exponents in T: of the mean with the step size of the corollary; and of the mean less its floor
#: at a given step size.
STATED, OPTIMISATION = -0.5, -1.0
#: A run without noise has converged once the gradient is below this share of its size at first.
ARRIVED = 1e-3


@dataclass(frozen=True, kw_only=True)
class RateTConfig(rc.Config):
    """Identical devices."""

    r: int = rc.param(3, low=2, doc="rank of the modules.")
    k: int = rc.param(2, low=1, high="r", doc="rank of every sketch.")
    devices: int = rc.param(4, low=1, doc="N.")
    H: int = rc.param(4, low=1, doc="local steps in a round.")
    noise: float = rc.param(0.5, above=0.0, doc="sigma of batches.")
    gamma: float = rc.param(0.01, above=0.0, doc="the given step, in (b).")
    times: tuple[int, ...] = rc.param(
        (256, 512, 1024, 2048),
        low=1,
        increasing=True,
        doc=(
            "T, increasing: the first not too small for the step of the corollary, two of them "
            'not too small for the given one; see "Regime" above.'
        ),
    )
    start: float = rc.param(
        0.4,
        above=0.0,
        doc="modules at the start, relative to the minimiser; a tenth of it at random.",
    )
    replicates: int = rc.param(32, low=rc.MIN_REPLICATES, doc="runs.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for T in (self.times[0], None):
            floor = self.floor(FIXED, T)
            step = floor.gamma * floor.H * floor.rates[1]
            if step**2 > RESOLUTION:
                raise InputError(
                    "`times`, `gamma`, `H` and `devices` must keep gamma H times the largest "
                    f"eigenvalue of P at most {RESOLUTION**0.5:g}, in (a) at the first T; found "
                    f"{step:.3g} in {GIVEN if T is None else TUNED}"
                )
        if self.late.sum() < 2:
            raise InputError(
                f"`times` must have 2 from {RELAX:g} relaxation times on, these being "
                f"{1.0 / (self.gamma * self.H * floor.rates[0]):.4g} rounds; found {self.times}"
            )

    @property
    def late(self) -> NDArray[np.bool_]:
        """The times T that are fitted at the given step size, a mask of shape (times,)."""
        rate = self.gamma * self.H * self.floor(FIXED).rates[0]
        return np.asarray(np.array(self.times) * rate >= RELAX)

    @property
    def system(self) -> Squares:
        """The devices."""
        return Squares(r=self.r, n=self.r - 1, ranks=(self.k,), noise=self.noise)

    @property
    def first(self) -> Array:
        """The first iterate A^0, shape (r, n, 1)."""
        A = self.system.minimiser()
        rng = np.random.default_rng(self.derive("start"))
        moved = self.start * (A + 0.1 * np.abs(A).max() * rng.standard_normal(A.shape))
        return np.asarray(moved[..., None])

    def floor(self, sketches: str, T: int | None = None) -> Floor:
        """The floor with the step for T rounds, or with the given one."""
        smooth = 2.0 * self.system.d * (self.r / self.k) ** 2
        gamma = self.gamma if T is None else np.sqrt(self.devices / (T * self.H * smooth))
        return Floor(
            system=self.system,
            gamma=float(gamma),
            H=self.H,
            devices=self.devices,
            fresh=sketches == FRESH,
        )


def expected(floors: Sequence[Floor], A: Array, times: Array) -> Array:
    """The mean of |grad f^S|^2 over T rounds from A (r, n, 1), for pairs of floors and T; (pairs,).

    See the module's text; all floors are of one kind.
    """
    one = floors[0]
    system, H, N = one.system, one.H, one.devices
    gamma = np.array([floor.gamma for floor in floors])
    A = np.repeat(A, len(floors), axis=2)
    first, size = system.loss(A), system.squared_norm(A)
    total, last = np.zeros(len(floors)), np.zeros(len(floors))
    losses = np.zeros(len(floors))
    for t in range(int(times.max())):
        G, b = system.gradient(A), one.drag(A)
        D = gamma * H * (G - 0.5 * gamma * (H - 1) * b)
        last = (D * system.derivative(A, D)).sum(axis=(0, 1))
        last += gamma**2 * H * ((H - 1) * (G * b).sum(axis=(0, 1)) + one.steepness(A) / N)
        total += np.where(t < times, last, 0.0)
        A = A - D
        losses = np.where(t < times, system.loss(A), losses)
        if (system.squared_norm(A) < ARRIVED**2 * size).all():
            total += last * np.maximum(times - t - 1, 0)
            break
    spread = 0.5 * gamma / N * one.spread
    return np.asarray((first - losses - spread + total) / (gamma * H * times))


def leading(floors: Sequence[Floor], A: Array, times: Array) -> Array:
    """The mean of |grad f^S|^2 over T rounds, to leading order, for pairs of floors and T."""
    system = floors[0].system
    drop = float(system.loss(A)[0] - system.loss(system.minimiser()[..., None])[0])
    return np.array(
        [drop / (f.gamma * f.H * T) + f.noise for f, T in zip(floors, times, strict=True)]
    )


def relative_remainder(floors: Sequence[Floor], law: Array) -> Array:
    """The terms that :func:`expected` omits, over the law, (pairs,): see the module's text."""
    step = np.array([floor.gamma * floor.H * floor.rates[1] for floor in floors])
    rest = np.array([floor.rest * floor.total for floor in floors])
    noise = np.array([floor.noise for floor in floors])
    return np.asarray((noise * step + rest) / law + step**2)


def blocks(config: RateTConfig) -> list[rc.Block]:
    """Every T with its step size; T = 0 stands for the given step size."""
    return [{"T": T} for T in (*config.times, 0)]


def compute(config: RateTConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Means over T rounds of all replicates."""
    T = block["T"]
    means = []
    times = np.array([T] if T else config.times)
    for sketches in (FIXED, FRESH):
        floor = config.floor(sketches, T or None)
        runs = rounds(
            config.system,
            np.repeat(config.first, config.replicates, axis=2),
            int(times[-1]),
            gamma=floor.gamma,
            H=config.H,
            devices=config.devices,
            fresh=floor.fresh,
            rng=np.random.default_rng(config.derive("runs", sketches, T)),
        )
        means.append(np.cumsum(runs, axis=0)[times - 1] / times[:, None])
    axes = {
        "sketches": np.array([FIXED, FRESH]),
        "time": times,
        "replicate": np.arange(config.replicates),
    }
    return rc.long_table(axes, mean=np.array(means))


def analyse(config: RateTConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of T, and the constants at the last T."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes = []
    T = np.array(config.times, dtype=np.float64)
    for panel in (TUNED, GIVEN):
        part = table if panel == TUNED else table.where(T=0)
        for sketches in (FIXED, FRESH):
            floors = [config.floor(sketches, t if panel == TUNED else None) for t in config.times]
            law, known = (rule(floors, config.first, T) for rule in (leading, expected))
            relative_error = relative_remainder(floors, law)
            name = f"{sketches}, {panel[4:]}"
            if panel == TUNED:
                measured = np.stack(
                    [
                        table.where(T=t, sketches=sketches).grid("mean", "replicate")
                        for t in config.times
                    ],
                    axis=1,
                )
                slope = rc.slope_interval(T, measured, rng=config.seed, level=LEVEL)
                tolerance = abs(rc.exact_slope(T, known / law).value) + rc.slope_error(
                    T, relative_error
                )
                for words, bound in (("as derived", False), ("as stated", True)):
                    what = f"{name}: {words}"
                    checks.append(
                        rc.rate_check(what, STATED, slope, tolerance=tolerance, bound=bound)
                    )
            else:
                measured = part.where(sketches=sketches).grid("mean", "replicate", "time")
                late = config.late
                end = np.array([floor.noise for floor in floors])
                slope = rc.slope_interval(
                    T[late], (measured - end)[:, late], rng=config.seed, level=LEVEL
                )
                off = rc.exact_slope(T[late], ((known - end) / (law - end))[late]).value
                tolerance = abs(off) + rc.slope_error(
                    T[late], (relative_error * law / (law - end))[late]
                )
                what = f"{name}: without the floor, as derived"
                checks.append(
                    rc.our_own(rc.rate_check(what, OPTIMISATION, slope, tolerance=tolerance))
                )
            size = rc.ratio(measured[:, -1], float(known[-1]), LEVEL)
            what = f"{name}: mean / law, last T"
            checks.append(
                rc.our_own(rc.rate_check(what, 1.0, size, tolerance=float(relative_error[-1])))
            )
            series += floor_series(sketches, panel, T, measured, law)
            notes.append(f"{name}: exponent {slope.value:.3f}")
    notes.append(
        "the law is drawn to leading order; one sketch a round has the same exponent as fresh "
        "ones, with H times their noise"
    )
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="fslora/rate_t",
    title="The mean squared gradient against time",
    source="Theorem 4.4, Corollary 4.5",
    kind="rate",
    variable="T",
    profiles={
        "quick": RateTConfig(),
        "paper": RateTConfig(times=(256, 512, 1024, 2048, 4096, 8192), replicates=100),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            "rounds $T$",
            r"mean of $E\|\nabla f^S\|^2$",
            log="xy",
            slope=rc.Guide(slope, span=(0.0, 1.0)),
            ticks="points",
        )
        for panel, slope in ((TUNED, STATED), (GIVEN, OPTIMISATION))
    },
    layout=rc.Layout(width=3.7, height=3.0, share_y=True),
    parallel="blocks",
)
