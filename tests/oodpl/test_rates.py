"""Rates of OOD-PL at small configurations, and verdicts that can turn."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.oodpl.rates import rate_beta, rate_inner, rate_outer
from linsys import InputError

SMALL: dict[ModuleType, Any] = {
    rate_inner: rate_inner.RateInnerConfig(
        steps=(0.95,), betas=(2.0, 4.0), sampled=(0.02, 0.04, 0.08), share=0.95, replicates=6
    ),
    rate_outer: rate_outer.RateOuterConfig(
        K=40, steps=(0.1, 0.2), floor_rounds=40, bounds=(2, 20, 2000), step_rounds=6, late=12
    ),
    rate_beta: rate_beta.RateBetaConfig(
        betas=(1, 4, 128, 512), scaled=(1, 64), unit=1.0, train=1, D=20, K=20
    ),
}


CONTRACTION = "exact, 0.95 of 2/Λ, β = 2: -log of the factor / derived"
WRONG: list[tuple[Any, ...]] = [
    (rate_inner, "FLOOR", 2.0, "sampled: exponent of the floor in α"),
    (rate_inner, "STATED", 0.5, "sampled: exponent of the floor, against V of order α²"),
    (rate_inner, "CONTRACTION", 0.9, CONTRACTION),
    (rate_inner, "CONTRACTION", 1.2, CONTRACTION),
    (rate_outer, "ROUNDS", -0.5, "all domains: exponent in K"),
    (rate_outer, "FLOOR", 0.0, "one domain: exponent in η"),
    (rate_outer, "FLOOR", 2.0, "one domain, sampled pairs: exponent in η"),
    (rate_outer, "STATED", 2.0, "one domain: exponent in η, against a constant floor"),
    (rate_outer, "UNIT", 0.0, "(1/(4P)) P_L: exponent in s"),
    (
        rate_outer,
        "CONTRACTION",
        0.5,
        "floor in D: -log of the factor of ||grad L|| / derived",
    ),
    (rate_beta, "FLAT", -1.0, "linear rewards: ||grad L||^2 at a given phi"),
    (rate_beta, "FLAT", -1.0, "bounded rewards: ||grad L||^2 at a given phi"),
    (rate_beta, "FLAT", 0.0, "given η: ||grad L||^2 after training"),
    (rate_beta, "FLAT", -1.0, "given η: share gained"),
    (rate_beta, "EFFECT", -2.0, "linear rewards: |L(phi) - L(0)|"),
    (
        rate_beta,
        "FLAT",
        -1.0,
        "η ~ β², exact steps: β² ||grad L||^2, largest relative difference",
    ),
]


class TestRates(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    slow = frozenset({rate_beta, rate_inner, rate_outer})


computed, failed = TestRates.table, TestRates.failed


BY_STEP, BY_K = rate_outer.BY_STEP, rate_outer.BY_K
MEAN = "mean over its bound, any K"
CHANGED: list[tuple[ModuleType, str, dict[str, Any], Any, str]] = [
    # twice the law of the factor D, of a floor, and half of a bound
    (
        rate_inner,
        "growth_law",
        {"kind": "exact"},
        lambda v: 1.1 * v,
        "exact, 0.95 of 2/Λ, β = 2: factor D / derived",
    ),
    (rate_inner, "floor", {}, lambda v: 3.0 * v, "sampled: floor / law, least α"),
    (rate_inner, "printed", {}, lambda v: v / 3.0, "q with constants that suit it best"),
    (rate_inner, "asked", {}, lambda v: v + 10.0, "D that Theorem 1 asks for"),
    (rate_outer, "law", {"panel": BY_K}, lambda v: 0.5 * v, MEAN),
    (rate_outer, "law", {"panel": rate_outer.BY_ETA}, lambda v: 2.0 * v, "one domain: floor / law"),
    (
        rate_outer,
        "value",
        {"panel": BY_STEP, "kind": rate_outer.PRINTED},
        lambda v: 0.01 * v,
        "log of mean ||grad L||^2, 1/(4P) over 1/P_L, least s",
    ),
    (
        rate_beta,
        "effect",
        {"curve": rate_beta.SCALED, "beta": 64.0},
        lambda v: v * (1.0 + 1e-8),
        "η ~ β², exact steps: share gained",
    ),
    (
        rate_beta,
        "accuracy",
        {"curve": "samples", "beta": 10.0},
        lambda v: v + 0.01,
        "η ~ β², Algorithm 1 as printed: A_PL",
    ),
    (
        rate_beta,
        "square",
        {"curve": rate_beta.GIVEN, "beta": 1.0},
        lambda v: 1e3 * v,
        "given η: log ||grad L||^2",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "column", "where", "change", "start"), CHANGED)
def test_a_changed_measurement_fails(
    module: ModuleType, column: str, where: dict[str, Any], change: Any, start: str
) -> None:
    table = computed(module)
    rows = np.ones(len(table[column]), dtype=bool)
    for name, value in where.items():
        rows &= table[name] == value
    values = np.where(rows, change(table[column]), table[column])
    failures = failed(module, rc.Table({**table, column: values}))
    assert any(name.startswith(start) for name in failures)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rate_inner.RateInnerConfig(instances=10), "`instances`"),
        (lambda: rate_inner.RateInnerConfig(sampled=(0.0, 0.1)), "`sampled`"),
        (lambda: rate_outer.RateOuterConfig(train=1), "`train`"),
        (
            lambda: rate_outer.RateOuterConfig(steps=(0.2, 0.1)),
            "`steps` must be at least 2 increasing values",
        ),
        (
            lambda: rate_beta.RateBetaConfig(betas=(4, 1)),
            "`betas` must be at least 2 increasing values",
        ),
        (
            lambda: rate_beta.RateBetaConfig(scaled=(1,)),
            "`scaled` must be at least 2 increasing values",
        ),
    ],
)
def test_impossible_set_ups_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
