"""Where FSLoRA ends against the number H of local steps, for one sketch a round and for fresh ones.

Problem: the least-squares family of :mod:`experiments.fslora.rates._rates_systems` with identical
devices without noise in the data: sketches are all that moves them.

Algorithms: Algorithm 1, which keeps S_i^t for the H steps of a round; and the one that the proof of
Theorem 4.4 is about, with a fresh sketch in every step ((13) and Lemma D.2 take the deviations of
the H gradients for martingale differences).

Guarantee: in (6) no term of noise has an H: exponent 0 at a given step; and with the step of
Corollary 4.5, which falls like H^(-1/2), exponent -1/2, a linear speed-up by local steps.

Derived in :mod:`experiments.fslora.rates._rates_floors`, for a run that has forgotten its start:

    E|grad f^S|^2 = (gamma (H - 1))^2 |b|^2 / 2 + (gamma m / N) tr(P Sigma_s),
    m = H and b = E g_S'[g_S] for fixed sketches; m = 1 and b = 0 for fresh ones.

A fixed sketch repeats its deviation H times, and its local steps descend on f~(.; S), not on f^S.
So the exponent at a given step is between 1 (noise) and 2 (bias), which N does not help against;
with gamma ~ H^(-1/2) it is at least 1/2: local steps do not speed Algorithm 1 up, they cost. With
fresh sketches there is no H at a given step and -1/2 with that of the corollary, as stated.

Theorem 4.4 asks for gamma <= 1/(N H^2 L). At such steps, (c), the bias is below the noise, and (6)
falls like H^-2; so do fresh sketches. One sketch a round falls like H^-1 there: the noise has its
factor H at any step, so that (6) is false for Algorithm 1 from an H on that depends on the slack of
its constants, and the speed-up of (7) in H with it.

The own bias of fresh sketches comes from the spread of local steps, gamma^2 h Sigma_s at step h,
and the third derivative of f^S. It is of order gamma^4 (H - 1)^2; (d) has infinitely many devices.

Regime: gamma H times the largest eigenvalue of P, 2, is at most 0.32, and the laws are series in
that. L in (c) is the largest curvature of f at its minimiser, 2 d, and the step half of what is
allowed. What their first terms leave out in the floors is known (``Floor.refined``,
``Floor.relative_error``) and makes the tolerances; in the exact biases it is of the relative order
gamma H P.

References: FSLoRA, Algorithm 1, Theorem 4.4, Corollary 4.5, equations (6), (7) and (13).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_checks import LAW, floor_checks, floor_series
from experiments.fslora.rates._rates_floors import Floor
from experiments.fslora.rates._rates_systems import Squares
from linsys.validate import Array, check_integer
from ratecheck import exact_slope

FIXED, FRESH = "one sketch a round", "fresh sketches"
GIVEN, TUNED = "(a) given step", "(b) step ~ 1/√H"
ALLOWED, BIAS = "(c) step ~ 1/H²", "(d) infinitely many devices"
#: Exponents of H that (6) and (7) state.
STATED = {GIVEN: 0.0, TUNED: -0.5, ALLOWED: -2.0}
#: Why the exponent of Algorithm 1 differs there.
AGAINST = {
    GIVEN: "the step is above 1/(N H^2 L)",
    TUNED: "the step is above 1/(N H^2 L)",
    ALLOWED: "against the noise in (6)",
}
#: Exponents of the bias in H - 1 and in gamma, as derived.
IN_H, IN_GAMMA = 2.0, {FIXED: 2.0, FRESH: 4.0}


@dataclass(frozen=True, kw_only=True)
class RateLocalConfig(rc.Config):
    """Identical devices."""

    r: int = rc.param(3, low=2, doc="rank of the modules.")
    k: int = rc.param(2, doc="rank of every sketch, less than r.")
    devices: int = rc.param(16, low=1, doc="N in (a) and (b).")
    few: int = rc.param(4, low=1, doc="N in (c).")
    gamma: float = rc.param(
        0.01,
        above=0.0,
        doc=(
            "the step in (a); that of (b) agrees with it at the last H, those of (d) are near it."
        ),
    )
    steps: tuple[int, ...] = rc.param(
        (1, 2, 4, 8, 16),
        low=1,
        least=3,
        increasing=True,
        doc="H, from 1 on and increasing, in (c) without the last.",
    )
    replicates: int = rc.param(48, low=rc.MIN_REPLICATES, doc="runs.")
    relaxations: float = rc.param(
        7.0, low=1.0, doc="length of the mean over time in relaxation times."
    )
    bias_steps: int = rc.param(4, low=2, doc="H of panel (d).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k, low=1, high=self.r - 1)
        check_integer("first of steps", self.steps[0], low=1, high=1)

    def floor(self, panel: str, sketches: str, H: int) -> Floor:
        """The floor of one run."""
        system = Squares(r=self.r, n=self.r - 1, ranks=(self.k,))
        N = self.few if panel == ALLOWED else self.devices
        gamma = {
            GIVEN: self.gamma,
            TUNED: self.gamma * np.sqrt(self.steps[-1] / H),
            ALLOWED: 0.5 / (N * H**2 * 2.0 * system.d),
        }[panel]
        return Floor(system=system, gamma=gamma, H=H, devices=N, fresh=sketches == FRESH)

    def counts(self, panel: str) -> tuple[int, ...]:
        """The values of H of a panel."""
        return self.steps[:-1] if panel == ALLOWED else self.steps


def compute(config: RateLocalConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The floor of every replicate."""
    panel, H = block["panel"], block["H"]
    floors = []
    for sketches in (FIXED, FRESH):
        rng = np.random.default_rng(config.derive("runs", panel, sketches, H))
        floor = config.floor(panel, sketches, H)
        floors.append(floor.measured(config.replicates, config.relaxations, rng))
    axes = {"sketches": np.array([FIXED, FRESH]), "replicate": np.arange(config.replicates)}
    return rc.long_table(axes, floor=np.array(floors))


def analyse(config: RateLocalConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of H in floors and biases, as stated and as derived."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes = []
    for panel, stated in STATED.items():
        H = np.array(config.counts(panel), dtype=np.float64)
        for sketches in (FIXED, FRESH):
            floors = [config.floor(panel, sketches, int(h)) for h in H]
            part = table.where(panel=panel, sketches=sketches)
            measured = part.grid("floor", "replicate", "H")
            law = np.array([floor.total for floor in floors])
            name = f"{sketches}, {panel[4:]}"
            against = AGAINST[panel] if sketches == FIXED else ""
            more, slope = floor_checks(name, H, measured, floors, stated, against=against)
            checks += more
            series += floor_series(sketches, panel, H, measured, law)
            notes.append(f"{name}: exponent {slope.value:.3f}, law {exact_slope(H, law).value:.3f}")
    more, biases = _biases(config)
    series += biases
    checks += more
    notes.append(
        "derived: the exponents with one sketch a round mix 1 (noise) and 2 (bias) in (a), 1/2 and "
        "1 in (b)"
    )
    return rc.Analysis(series, checks, notes)


def _biases(config: RateLocalConfig) -> tuple[list[rc.Check], list[rc.Series]]:
    """The bias of infinitely many devices in H - 1 at the given step, and in the step."""
    checks, series = [], []
    H = np.array(config.steps[1:], dtype=np.float64)
    floors = [config.floor(GIVEN, FIXED, int(h)) for h in H]
    bias = np.array([floor.exact_bias for floor in floors])
    steep = config.gamma * floors[0].rates[1]
    checks.append(
        rc.our_own(
            rc.rate_check(
                f"{FIXED}: bias in H - 1, as derived",
                IN_H,
                exact_slope(H - 1.0, bias),
                tolerance=rc.slope_shift(H - 1.0, steep * H),
            )
        )
    )
    series.append(rc.Series(f"{FIXED}, bias", GIVEN, H, bias))
    gammas = config.gamma * 2.0 ** np.arange(-3, 2)
    for sketches in (FIXED, FRESH):
        floor = config.floor(GIVEN, sketches, config.bias_steps)
        exact = np.array([replace(floor, gamma=float(g)).exact_bias for g in gammas])
        off = gammas * config.bias_steps * floor.rates[1]
        checks.append(
            rc.our_own(
                rc.rate_check(
                    f"{sketches}: bias in gamma, as derived",
                    IN_GAMMA[sketches],
                    exact_slope(gammas, exact),
                    tolerance=rc.slope_shift(gammas, off),
                )
            )
        )
        series.append(rc.Series(sketches, BIAS, gammas, exact))
        if sketches == FIXED:
            law: Array = np.array([replace(floor, gamma=float(g)).bias for g in gammas])
            series.append(rc.Series(LAW, BIAS, gammas, law))
    return checks, series


def panels(config: RateLocalConfig) -> dict[str, rc.Panel]:
    """Floors with the stated exponents, and biases."""
    floors = {
        panel: rc.Panel(
            "steps $H$",
            r"$E\|\nabla f^S\|^2$" if panel == GIVEN else "",
            log="xy",
            slope=rc.Guide(slope, "stated: {}", beside=FRESH, span=(0.0, 1.0), line="--"),
            ticks="points",
        )
        for panel, slope in STATED.items()
    }
    return floors | {BIAS: rc.Panel(f"step $\\gamma$, $H = {config.bias_steps}$", log="xy")}


EXPERIMENT = rc.Experiment(
    id="fslora/rate_local",
    title="Where FSLoRA ends against the number of local steps",
    source="Theorem 4.4, Corollary 4.5",
    kind="rate",
    variable="H",
    profiles={
        "quick": RateLocalConfig(),
        "paper": RateLocalConfig(
            gamma=0.005, steps=(1, 2, 4, 8, 16, 32), replicates=100, relaxations=40.0
        ),
    },
    blocks=lambda config: [
        {"panel": panel, "H": H} for panel in STATED for H in config.counts(panel)
    ],
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=rc.Layout(width=2.8, height=2.7, legend=4),
    parallel="blocks",
)
