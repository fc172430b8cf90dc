"""Where FSLoRA ends against the number N of devices.

Problem: the least-squares family of :mod:`experiments.fslora.rates._rates_systems`, identical
devices.

Algorithms: H local steps with one sketch a round (Algorithm 1) and with fresh sketches, both
without noise in the data; and one local step, with sketches and batches both at work.

Guarantee: the noise in (6) falls like 1/N at a given step, and like N^(-1/2) with the step of
Corollary 4.5, which grows like N^(1/2): "a linear speed-up in the number of devices".

Derived in :mod:`experiments.fslora.rates._rates_floors`:

    E|grad f^S|^2 = (gamma (H - 1))^2 |b|^2 / 2
                    + (gamma/N) (m tr(P Sigma_s) + tr(P Sigma_g)).

With H = 1 or fresh sketches the first term is not there for identical devices, and both exponents
are as stated. With one sketch for H > 1 steps it does not know N: at a given step more devices help
down to the bias only, and with the step of the corollary the bias grows like N. No contradiction:
gamma <= 1/(N H^2 L), the condition of Theorem 4.4, excludes such steps. It keeps the bias below the
noise, and makes the step fall like 1/N where the corollary's grows: that one satisfies it for T of
the order (N H)^3 on, and this is how far the speed-up goes.

Regime: gamma H times the largest eigenvalue of P is at most 0.23. What the laws leave out in that
and in gamma/N is known (``Floor.refined``, ``Floor.relative_error``) and makes the tolerances.

References: FSLoRA, Algorithm 1, Theorem 4.4, Corollary 4.5, equations (6) and (7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_checks import floor_checks, floor_series
from experiments.fslora.rates._rates_floors import Floor
from experiments.fslora.rates._rates_systems import Squares
from linsys.validate import check_integer
from ratecheck import exact_slope

FIXED, FRESH = "one sketch a round", "fresh sketches"
BATCHES = "one step, sketches and batches"
GIVEN, TUNED = "(a) given step", "(b) step ~ √N"
#: Exponents of N that (6) and (7) state.
STATED = {GIVEN: -1.0, TUNED: -0.5}
AGAINST = "the step is above 1/(N H^2 L)"


@dataclass(frozen=True, kw_only=True)
class RateDevicesConfig(rc.Config):
    """Identical devices."""

    r: int = rc.param(3, low=2, doc="rank of the modules.")
    k: int = rc.param(2, doc="rank of every sketch, less than r.")
    H: int = rc.param(4, low=2, doc="local steps but for the third curve, which has one.")
    gamma: float = rc.param(
        0.02, above=0.0, doc="the given step; the other one agrees with it at the last N but one."
    )
    noise: float = rc.param(0.3, above=0.0, doc="sigma of the third curve.")
    counts: tuple[int, ...] = rc.param(
        (2, 4, 8, 16, 32), low=1, increasing=True, doc="N, increasing."
    )
    replicates: int = rc.param(64, low=rc.MIN_REPLICATES, doc="runs.")
    relaxations: float = rc.param(
        8.0, low=1.0, doc="length of the mean over time in relaxation times."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k, low=1, high=self.r - 1)

    def floor(self, panel: str, name: str, N: int) -> Floor:
        """The floor of one run."""
        noise = self.noise if name == BATCHES else 0.0
        system = Squares(r=self.r, n=self.r - 1, ranks=(self.k,), noise=noise)
        return Floor(
            system=system,
            gamma=self.gamma * (np.sqrt(N / self.counts[-2]) if panel == TUNED else 1.0),
            H=1 if name == BATCHES else self.H,
            devices=N,
            fresh=name == FRESH,
        )


def compute(config: RateDevicesConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The floor of every replicate."""
    floors = []
    names = [FIXED, FRESH, BATCHES]
    for name in names:
        rng = np.random.default_rng(config.derive("runs", block["panel"], name, block["N"]))
        floor = config.floor(block["panel"], name, block["N"])
        floors.append(floor.measured(config.replicates, config.relaxations, rng))
    axes = {"curve": np.array(names), "replicate": np.arange(config.replicates)}
    return rc.long_table(axes, floor=np.array(floors))


def analyse(config: RateDevicesConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of N, as stated and as derived."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes = []
    N = np.array(config.counts, dtype=np.float64)
    for panel in (GIVEN, TUNED):
        for name in (FIXED, FRESH, BATCHES):
            floors = [config.floor(panel, name, count) for count in config.counts]
            measured = table.where(panel=panel, curve=name).grid("floor", "replicate", "N")
            law = np.array([floor.total for floor in floors])
            what = f"{name}, {panel[4:]}"
            against = AGAINST if name == FIXED else ""
            more, slope = floor_checks(what, N, measured, floors, STATED[panel], against=against)
            checks += more
            series += floor_series(name, panel, N, measured, law)
            notes.append(f"{what}: exponent {slope.value:.3f}, law {exact_slope(N, law).value:.3f}")
    last = config.floor(TUNED, FIXED, config.counts[-1])
    notes.append(
        f"bias with one sketch a round at the largest N: {last.bias / last.total:.0%} of the floor "
        "in (b)"
    )
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="fslora/rate_devices",
    title="Where FSLoRA ends against the number of devices",
    source="Theorem 4.4, Corollary 4.5",
    kind="rate",
    variable="N",
    profiles={
        "quick": RateDevicesConfig(),
        "paper": RateDevicesConfig(counts=(2, 4, 8, 16, 32, 64), replicates=100, relaxations=30.0),
    },
    blocks=lambda config: [
        {"panel": panel, "N": count} for panel in (GIVEN, TUNED) for count in config.counts
    ],
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            "devices $N$",
            r"$E\|\nabla f^S\|^2$",
            log="xy",
            slope=rc.Guide(slope, "stated: {}", span=(0.0, 1.0), line="--"),
            ticks="points",
        )
        for panel, slope in STATED.items()
    },
    layout=rc.Layout(width=3.7, height=3.0),
    parallel="blocks",
)
