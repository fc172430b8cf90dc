"""What the rates over k/r and over r share: one local step, noise from sketches or from batches.

Problem: the family of :mod:`experiments.fslora.rates._rates_systems` with n = 1: f_i(b, a) =
E(b'a - y)^2 / 2 for b, a in R^r, devices with targets d + R and d - R in turn, one local step.
Either y has no noise and sketches alone move the devices, or R = 0, y has the noise sigma and
batches do.

Guarantee: (6), its terms of noise, with L = 2 d, the largest curvature of f at its minimiser. There
sigma_s^2 = 2 d R^2 (r/k - 1), sigma_h^2 = 2 d R^2 and sigma_g^2 = 2 d sigma^2 r/k, as sketches
magnify the noise of batches. So the term of (6) with sigma_s^2 grows like (r/k)^2 (r/k - 1), that
with sigma_g^2 like (r/k)^2 (r/k). The rank itself is not in (6).

Derived here. At the minimiser all components carry the same share, b_j a_j = d/r. Any sketch then
leaves b'S a = d unchanged, so that noise lies along a (curvature 2 d of P) from batches and across
it from sketches, where f^S is curved by its penalty only: 2 lambda d, lambda = (r/k - 1)/(r - 1).
With c = r/k - 1, tr(P Sigma) is 2 d^2 R^2 c^2/(r - 1) and 2 d^2 sigma^2 (1 + c^2/(r - 1)), hence

    E|grad f^S|^2 = (gamma/N) 2 d^2 R^2 c^2/(r - 1)               with sketches,
    E|grad f^S|^2 = (gamma/N) 2 d^2 sigma^2 (1 + c^2/(r - 1))     with batches.

Regime: gamma times the largest eigenvalue of P, 2 d, is 0.04, which makes what the laws leave out
(``Floor.refined``, ``Floor.relative_error``) small; tolerances are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_checks import floor_checks, floor_series
from experiments.fslora.rates._rates_floors import LEVEL, Floor
from experiments.fslora.rates._rates_systems import Squares
from linsys.validate import Array, InputError
from ratecheck import exact_slope

__all__ = [
    "BATCHES",
    "SKETCHES",
    "OneStepConfig",
    "bound",
    "closed_form",
    "compare_with_law",
    "compute",
    "term",
]

SKETCHES, BATCHES = "sketches", "batches"
#: r and k of a run.
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class OneStepConfig(rc.Config):
    """Devices that make one step."""

    apart: float = rc.param(0.3, above=0.0, high=1.0, doc="R, relative to d = 1.")
    noise: float = rc.param(0.3, above=0.0, high=1.0, doc="sigma.")
    gamma: float = rc.param(0.02, above=0.0, high=1.0, doc="step size.")
    devices: int = rc.param(8, low=2, doc="N, even.")
    replicates: int = rc.param(64, low=rc.MIN_REPLICATES, doc="runs.")
    relaxations: float = rc.param(
        8.0, low=1.0, doc="length of the mean over time in relaxation times."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.devices % 2:
            raise InputError(f"`devices` must be even; found {self.devices}")

    def floor(self, source: str, r: int, k: int) -> Floor:
        """The floor of one run."""
        R, sigma = (self.apart, 0.0) if source == SKETCHES else (0.0, self.noise)
        system = Squares(r=r, n=1, ranks=(k, k), targets=(1.0 + R, 1.0 - R), noise=sigma)
        return Floor(system=system, gamma=self.gamma, H=1, devices=self.devices, fresh=False)


def compute(config: OneStepConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The floor of every replicate, for the r and k of a block."""
    floors = []
    for source in (SKETCHES, BATCHES):
        rng = np.random.default_rng(config.derive("runs", source, block["r"], block["k"]))
        floor = config.floor(source, block["r"], block["k"])
        floors.append(floor.measured(config.replicates, config.relaxations, rng))
    axes = {"source": np.array([SKETCHES, BATCHES]), "replicate": np.arange(config.replicates)}
    return rc.long_table(axes, floor=np.array(floors))


def closed_form(config: OneStepConfig, source: str, r: int, k: int) -> float:
    """The floor of the module's text."""
    spread = (r / k - 1.0) ** 2 / (r - 1.0)
    noise = config.apart**2 * spread, config.noise**2 * (1.0 + spread)
    return 2.0 * config.gamma / config.devices * noise[source != SKETCHES]


def term(source: str, c: Array) -> Array:
    """(r/k)^2 times sigma_s^2 or sigma_g^2 up to a constant, for c = r/k - 1."""
    return np.asarray((1.0 + c) ** 2 * (c if source == SKETCHES else 1.0 + c))


def bound(config: OneStepConfig, source: str, c: Array) -> Array:
    """The terms of noise in (6) with L = 2 d, d = 1, for c = r/k - 1."""
    if source == SKETCHES:
        noise, apart = 2.0 * config.apart**2 * c, 2.0 * config.apart**2
    else:
        noise, apart = 2.0 * config.noise**2 * (1.0 + c), 0.0
    first, second = 6.0 * (1.0 + c) * noise, 12.0 * (1.0 + c) ** 2 * (noise + 3.0 * apart)
    return np.asarray(config.gamma / config.devices * 2.0 * (first + second))


def compare_with_law(
    config: OneStepConfig,
    table: rc.Table,
    source: str,
    panel: str,
    pairs: Sequence[Pair],
    x: tuple[str, Array],
    shown: Array,
) -> tuple[list[rc.Series], list[rc.Check], str]:
    """Floors over a variable (its name and values): curves over ``shown``, checks and a note."""
    variable, values = x
    c = np.array([r / k - 1.0 for r, k in pairs])
    # at a given ratio (6) is constant: its exponent is zero, which rounding errors would hide
    stated = round(exact_slope(values, term(source, c)).value, 12) + 0.0
    floors = [config.floor(source, r, k) for r, k in pairs]
    measured = np.stack(
        [table.where(r=r, k=k, source=source).grid("floor", "replicate") for r, k in pairs],
        axis=1,
    )
    law = np.array([closed_form(config, source, r, k) for r, k in pairs])
    what = f"{source}, {panel[4:]}"
    checks, slope = floor_checks(what, values, measured, floors, stated, law=law)
    largest = rc.largest_mean((measured / bound(config, source, c)).T, LEVEL)
    checks.append(rc.at_most(f"{what}: floor / (6)", "at most 1", largest, 1.0))
    note = (
        f"{what}: exponent {slope.value:.3f} of {variable}, law "
        f"{exact_slope(values, law).value:.3f}, (6) {stated:.3f}"
    )
    return floor_series(source, panel, shown, measured, law), checks, note
