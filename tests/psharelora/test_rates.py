"""Rates of P-ShareLoRA at small configurations, and verdicts that can turn."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.psharelora.rates import rate_nu, rate_rank, rate_samples, rate_tail, rate_users
from experiments.psharelora.rates._rate_laws import Expansion
from linsys import InputError
from tests._small_runs import tables_of

SMALL: dict[ModuleType, Any] = {
    rate_users: rate_users.RateUsersConfig(seed=2, copies=(2, 4, 8, 16, 32), replicates=60),
    rate_samples: rate_samples.RateSamplesConfig(
        seed=2, sizes=(512, 4096, 32768), many=32, many_sizes=(64, 128), replicates=30
    ),
    rate_nu: rate_nu.RateNuConfig(
        nu=(0.0625, 0.25, 1.0, 8.0, 32.0, 256.0), replicates=60, per_block=20
    ),
    rate_rank: rate_rank.RateRankConfig(trajectories=13, replicates=60),
    rate_tail: rate_tail.RateTailConfig(
        exact=(1e-7, 1e-6, 1e-5, 1e-3, 1e-1), tails=(1e-4, 1e-2), replicates=30
    ),
}


WRONG: list[tuple[Any, ...]] = [
    (rate_samples, "SQUARED", -2.0, "no tail: as stated"),
    (rate_samples, "FIRST", -1.0, "no tail: dist"),
    (
        rate_nu,
        "EXPONENTS",
        {"isotropic": -1.0, "random": -1.0},
        "floor, isotropic: exponent, small nu",
    ),
    (rate_nu, "EXPONENTS", {"isotropic": 1.0, "random": -2.0}, "floor, random: exponent, small nu"),
    (rate_nu, "STATED", -2.0, "variance, small nu: as stated"),
    (rate_rank, "STATED", -0.5, "equal singular values: as stated"),
    (rate_rank, "STATED", -0.5, "equal singular values: exponent up to d1/2"),
    (rate_tail, "STATED", 1.0, "random features: as stated"),
    (rate_tail, "STATED", 0.6, "isotropic features: exponent"),
    (rate_tail, "DERIVED", 0.25, "random features: as derived"),
    (rate_tail, "DERIVED", 1.0, "isotropic features: as derived"),
]


def flat(table: rc.Table) -> rc.Table:
    """Distances that do not fall with the number of users."""
    return rc.Table({**table, "squared": table["squared"] * table["N"]})


class TestRates(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    contradicted = (
        (rate_users, flat, "alike on both sides: as derived"),
        (rate_users, flat, "random: as derived"),
    )
    slow = frozenset(SMALL)


computed, failed = TestRates.table, TestRates.failed


_tables = tables_of(TestRates)


HEADS_COUNTED = {
    rate_users: "alike on both sides: as derived",
    rate_samples: "no tail: dist² / law, mean",
    rate_rank: "equal singular values: dist² / law, mean",
    rate_nu: "variance: dist² / law, mean",
    rate_tail: "N_p = 262144: dist² / (floor + variance), mean",
}


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_a_law_that_counts_the_heads_parameters_fails(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed shape: a variance k d2 / (N_p nu) more, which no number of users averages."""
    right = Expansion.expected

    def printed(self: Expansion, N: Any, N_p: Any) -> Any:
        return right(self, N, N_p) * (1.0 + self.W.shape[2] * np.asarray(N) / self.B.shape[0])

    monkeypatch.setattr(Expansion, "expected", printed)
    monkeypatch.setattr(
        Expansion, "relative_error", lambda self, N, N_p: self.next_order / N_p + 0.0 * N
    )
    assert HEADS_COUNTED[module] in failed(module)


@pytest.mark.slow
def test_wrong_biases_and_bounds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Expansion.without_tail(
        rate_samples.RateSamplesConfig(seed=2).family(rate_samples.TURN)
    ).bias
    for factor in (0.25, 6.0):
        monkeypatch.setattr(Expansion, "bias", factor * right)
        names = failed(rate_samples)
        assert "many users: bias / law, first point" in names
    table = computed(rate_tail)
    cut = rc.Table({**table, "cap": 1e-3 * table["cap"]})
    assert "random features: dist / bound derived here" in failed(rate_tail, cut)
    turned = rc.Table({**table, "mirror": table["mirror"] + 1e-3})
    assert "features alike under reflections: dist" in failed(rate_tail, turned)
    table = computed(rate_nu)
    doubled = rc.Table({**table, "law": 2.0 * table["law"]})
    names = failed(rate_nu, doubled)
    assert names >= {f"floor, {kind}: first order" for kind in rate_nu.FEATURES}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rate_users.RateUsersConfig(copies=(4, 2)), "`copies`"),
        (lambda: rate_users.RateUsersConfig(copies=(4,)), "`copies`"),
        (lambda: rate_users.RateUsersConfig(k=4), "`k`"),
        (lambda: rate_users.RateUsersConfig(trajectories=4), "`trajectories`"),
        (lambda: rate_users.RateUsersConfig(replicates=29), "`replicates`"),
        (lambda: rate_nu.RateNuConfig(k=2), "`d2` and `k` must be 1; found 1 and 2"),
        (lambda: rate_tail.RateTailConfig(exact=(1e-8, 1e-6, 0.7)), "`exact`"),
    ],
)
def test_impossible_set_ups_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
