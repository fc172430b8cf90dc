"""The rates of AffPCL are measured where they are attained, and a wrong exponent is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.audit import RateClaim
from experiments.audit._catalogue import select
from experiments.audit._rates import of_regimes
from experiments.claims.affpcl import rates

#: Main statements, and variables in which the stated exponent is attained.
ATTAINED = {
    "affpcl.prop1": {"t", "n"},
    "affpcl.prop2": {"t", "n", "1/delta"},
    "affpcl.coe_rate": {"t", "n"},
    "affpcl.thm1_main": {"t", "n", "1/delta"},
    "affpcl.eq9": {"t", "n", "1/delta_cen"},
    "affpcl.thm1_c2": {"t", "n", "1/delta_cen"},
    "affpcl.ex1": {"t", "1/(delta_env d)"},
    "affpcl.ex2_rate": {"t", "1/delta_env"},
}


@pytest.mark.parametrize("name", ATTAINED)
def test_the_exponent_is_attained_and_a_larger_one_refuted(name: str) -> None:
    (entry,) = (item.entry for item in select([name]))
    assert isinstance(entry, RateClaim)
    regimes = list(entry.regimes())
    assert of_regimes(regimes)[0] == "consistent"
    found = {r.variable for r in regimes if of_regimes([r])[0] == "consistent"}
    assert found == ATTAINED[name]
    for variable in found:
        wrong = [
            replace(r, predicted=r.predicted - 0.1) if r.variable == variable else r
            for r in regimes
        ]
        assert of_regimes(wrong)[0] == "violated"


def test_the_horizon_of_temporal_differences_enters_squared() -> None:
    (horizon,) = (r for r in rates.td_rates() if r.variable == "1/(1-gamma)")
    assert horizon.measured == pytest.approx(2, abs=0.05)
    assert of_regimes([horizon])[0] == "faster than stated"
    assert of_regimes([replace(horizon, predicted=1.9)])[0] == "violated"
