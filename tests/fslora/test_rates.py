"""Rates of FSLoRA at small configurations, and verdicts that can turn."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.fslora.rates import (
    _rates_one_step,
    rate_bias,
    rate_devices,
    rate_local,
    rate_rank,
    rate_sketch,
    rate_t,
)
from experiments.fslora.rates._rates_floors import Floor
from linsys import InputError
from tests._small_runs import table_of, tables_of

SMALL: dict[ModuleType, Any] = {
    rate_bias: rate_bias.RateBiasConfig(r=6, m=3, n=2, instances=2),
    rate_local: rate_local.RateLocalConfig(
        gamma=0.02, steps=(1, 2, 4), devices=8, replicates=30, relaxations=4.0
    ),
    rate_devices: rate_devices.RateDevicesConfig(
        gamma=0.02, counts=(4, 8, 16), replicates=30, relaxations=4.0
    ),
    rate_sketch: rate_sketch.RateSketchConfig(
        r=4, k=(3, 2, 1), gamma=0.04, replicates=30, relaxations=6.0
    ),
    rate_rank: rate_rank.RateRankConfig(
        ranks=(2, 4, 6), gamma=0.04, replicates=30, relaxations=6.0
    ),
    rate_t: rate_t.RateTConfig(times=(256, 512, 1024), replicates=30),
}


LOCAL = "one sketch a round"


def stated(module: ModuleType, **changes: float) -> dict[str, float]:
    return {**module.STATED, **{getattr(module, panel): value for panel, value in changes.items()}}


WRONG: list[tuple[Any, ...]] = [
    (rate_bias, "POINT", 1.5, "gradient (instance 0)"),
    (rate_bias, "GAP", 1.0, "f - min f at the minimiser (instance 1)"),
    (rate_local, "STATED", stated(rate_local, TUNED=3.0), f"{LOCAL}, step ~ 1/√H: exponent"),
    (rate_local, "STATED", stated(rate_local, ALLOWED=0.5), f"{LOCAL}, step ~ 1/H²: exponent"),
    (rate_local, "STATED", stated(rate_local, GIVEN=-0.5), "fresh sketches, given step: as stated"),
    (rate_local, "IN_H", 1.0, "one sketch a round: bias in H - 1, as derived"),
    (
        rate_local,
        "IN_GAMMA",
        {rate_local.FIXED: 2.0, rate_local.FRESH: 2.0},
        "fresh sketches: bias in gamma, as derived",
    ),
    (rate_devices, "STATED", stated(rate_devices, GIVEN=0.5), f"{LOCAL}, given step: exponent"),
    (
        rate_devices,
        "STATED",
        stated(rate_devices, TUNED=-1.0),
        "one step, sketches and batches, step ~ √N: as stated",
    ),
    (
        _rates_one_step,
        "term",
        lambda source, c: np.ones_like(c),
        "batches, against k/r: as stated",
        rate_sketch,
    ),
    (
        _rates_one_step,
        "bound",
        lambda config, source, c: np.full(c.shape, 1e-6),
        "sketches, against k/r: floor / (6)",
        rate_sketch,
    ),
    (
        _rates_one_step,
        "closed_form",
        lambda config, source, r, k: 1.0 / k,
        "sketches, against k/r: as derived",
        rate_sketch,
    ),
    (
        _rates_one_step,
        "term",
        lambda source, c: np.ones_like(c),
        "batches, against r, k given: as stated",
        rate_rank,
    ),
    (
        _rates_one_step,
        "closed_form",
        lambda config, source, r, k: float(r),
        "sketches, against r, k/r given: as derived",
        rate_rank,
    ),
    (
        _rates_one_step,
        "closed_form",
        lambda config, source, r, k: 1.0,
        "sketches, against r, k given: as derived",
        rate_rank,
    ),
    (rate_t, "STATED", -1.0, "fresh sketches, step of Corollary 4.5: as stated"),
    (rate_t, "STATED", 0.0, "one sketch a round, step of Corollary 4.5: as derived"),
    (rate_t, "OPTIMISATION", -0.5, "fresh sketches, given step: without the floor, as derived"),
    (
        rate_t,
        "expected",
        lambda floors, A, times: 1.3 * rate_t.leading(floors, A, times),
        "one sketch a round, given step: mean / law, last T",
    ),
]


class TestRates(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    slow = frozenset(SMALL)


computed, failed = TestRates.table, TestRates.failed


_tables = tables_of(TestRates)


def test_a_floor_above_its_bound_is_told_beside_a_noisy_one() -> None:
    """A point that is uncertain reaches furthest, another one is surely above (6)."""
    config, pairs = SMALL[rate_rank], [(2, 1), (4, 2)]
    most = _rates_one_step.bound(config, _rates_one_step.SKETCHES, np.ones(2))
    spread = np.linspace(-1.0, 1.0, config.replicates)
    points = {(2, 1): 1.5 + 0.01 * spread, (4, 2): 1.2 + 1.199 * spread}
    table = rc.Table(
        {
            "source": np.repeat([_rates_one_step.SKETCHES], 2 * config.replicates),
            "r": np.repeat([r for r, _ in pairs], config.replicates),
            "k": np.repeat([k for _, k in pairs], config.replicates),
            "replicate": np.tile(np.arange(config.replicates), 2),
            "floor": np.concatenate([most[0] * points[pair] for pair in pairs]),
        }
    )
    x = np.array([1.0, 3.0])
    _, checks, _ = _rates_one_step.compare_with_law(
        config, table, _rates_one_step.SKETCHES, "(a) x", pairs, ("r - 1", x), x
    )
    [check] = [check for check in checks if "floor / (6)" in check.name]
    assert check.ok is False


@pytest.mark.parametrize(
    ("column", "check"),
    [
        ("least", "min f^S / closed form - 1 (instance 0)"),
        ("law", "f - min f at the minimiser (instance 0): deviation over its uncertainty"),
    ],
)
def test_a_wrong_closed_form_fails(column: str, check: str) -> None:
    table = computed(rate_bias)
    changed = rc.Table({**table, column: 0.999 * table[column]})
    assert check in failed(rate_bias, changed)


@pytest.mark.slow
@pytest.mark.parametrize("module", [rate_local, rate_devices])
def test_floors_with_the_factor_of_the_paper_fail(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law of fresh sketches does not describe fixed ones."""
    config = type(SMALL[module])
    floor = config.floor

    def mistaken(self: Any, panel: str, name: str, x: int) -> Floor:
        level: Floor = floor(self, panel, module.FRESH, x)
        return level

    monkeypatch.setattr(config, "floor", mistaken)
    names = failed(module)
    assert f"{LOCAL}, given step: as derived" in names
    assert f"{LOCAL}, given step: floor / law, last point" in names


@pytest.mark.slow
def test_means_with_the_noise_of_fresh_sketches_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    floor = rate_t.RateTConfig.floor

    def mistaken(self: Any, sketches: str, T: int | None = None) -> Floor:
        return floor(self, rate_t.FRESH, T)

    monkeypatch.setattr(rate_t.RateTConfig, "floor", mistaken)
    names = failed(rate_t)
    assert names >= {f"{LOCAL}, {p[4:]}: mean / law, last T" for p in (rate_t.TUNED, rate_t.GIVEN)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rate_sketch.RateSketchConfig(devices=3), "`devices` must be even; found 3"),
        (lambda: rate_sketch.RateSketchConfig(k=(4, 4)), "`k`"),
        (lambda: rate_rank.RateRankConfig(ranks=(2, 5)), "`ranks` must be even"),
        (lambda: rate_rank.RateRankConfig(ranks=(4, 2)), "`ranks`"),
        (lambda: rate_rank.RateRankConfig(k=2), "`k`"),
    ],
)
def test_impossible_set_ups_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_an_exponent_as_near_to_the_stated_one_as_the_law_may_be_off_contradicts_nothing() -> None:
    """With few devices noise decides, and the exponent of the law is the stated one."""
    config = rate_devices.RateDevicesConfig(
        gamma=0.02, counts=(1, 2), replicates=30, relaxations=4.0
    )
    checks = rate_devices.analyse(config, table_of(rate_devices, config)).checks
    exponents = [c for c in checks if c.name.endswith("exponent")]
    assert [c.ok for c in exponents] == [None, None]
