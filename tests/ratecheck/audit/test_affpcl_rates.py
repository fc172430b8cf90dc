"""The rates of AffPCL are measured where they are attained, and a wrong exponent is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl import _rates_systems
from experiments.affpcl.claims import _regimes, rates_examples
from experiments.affpcl.theory.ratio_error import stationary_error
from linsys import heterogeneity
from ratecheck._discover.catalogue import find_claims
from ratecheck._rates.regimes import of_regimes

#: Main statements, and variables in which the stated exponent is attained.
ATTAINED = {
    "affpcl.prop1": {"t", "n"},
    "affpcl.prop2": {"t", "n", "1/delta"},
    "affpcl.coe_rate": {"t", "n"},
    "affpcl.thm1_main_rate": {"t", "n", "1/delta"},
    "affpcl.thm1_c3_rate": {"1/sigma"},
    "affpcl.ex1": {"t", "1/(delta_env d)"},
    "affpcl.ex2_rate": {"t", "1/delta_env"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTAINED)
def test_the_exponent_is_attained_and_a_larger_one_refuted(name: str) -> None:
    (entry,) = (item.entry for item in find_claims([name]))
    assert isinstance(entry, rc.RateClaim)
    regimes = list(entry.regimes())
    assert of_regimes(regimes)[0] == "consistent"
    attained = {r.variable for r in regimes if of_regimes([r])[0] == "consistent"}
    assert attained == ATTAINED[name]
    for variable in attained:
        wrong = [
            replace(r, predicted=r.predicted - 0.1) if r.variable == variable else r
            for r in regimes
        ]
        assert of_regimes(wrong)[0] == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["affpcl.eq9", *(f"affpcl.thm1_c{k}" for k in (1, 2, 3, 4))])
def test_noise_of_objectives_refutes_central_affinity_and_nothing_else_does(name: str) -> None:
    (entry,) = (item.entry for item in find_claims([name]))
    assert isinstance(entry, rc.RateClaim)
    *others, hidden = entry.regimes()
    assert of_regimes(others)[0] == "consistent"
    assert hidden.variable == "1/delta_cen"
    assert hidden.measured == pytest.approx(0, abs=1e-9)  # no better than learning alone
    assert of_regimes([hidden])[0] == "violated"


@pytest.mark.slow
def test_a_far_centre_refutes_theorem_1_and_nothing_else_does() -> None:
    (entry,) = (item.entry for item in find_claims(["affpcl.thm1_main"]))
    assert isinstance(entry, rc.RateClaim)
    *others, far = entry.regimes()
    assert of_regimes(others)[0] == "consistent"
    assert {r.variable for r in others if of_regimes([r])[0] == "consistent"} == {
        "t",
        "n",
        "1/delta",
    }
    assert far.measured == pytest.approx(0, abs=1e-9)  # no better than learning alone
    assert of_regimes([far])[0] == "violated"


def test_objectives_with_a_far_centre_are_what_the_note_says() -> None:
    level = 0.01
    types = _regimes.turned_objectives(_regimes.pieces(0), 8, level)
    system = types.system
    assert heterogeneity.nu(system).value == pytest.approx(1)
    assert types.heterogeneity == pytest.approx((level, level / 0.9), rel=1e-3)
    assert heterogeneity.sigma(system, definition="weights").value == pytest.approx(2, rel=1e-3)
    assert heterogeneity.lambda_min(system).value == pytest.approx(level**2)
    assert heterogeneity.lambda_b(system).value == pytest.approx(level**2)
    assert np.abs(system.x_star_central).max() < 1e-12
    assert np.abs(system.theta_star_central).max() < 1e-12
    assert np.linalg.norm(system.Phi, 2, axis=(1, 2)).max() <= 1
    assert _regimes.nu_of_both(types) * level == pytest.approx(1, rel=1e-3)


def test_a_slow_centre_is_what_the_note_says() -> None:
    system = _regimes.slow_objectives(_regimes.pieces(0), 16, 0.01).system
    assert heterogeneity.lambda_min(system).value == pytest.approx(1)
    assert heterogeneity.lambda_b(system).value == pytest.approx(0.01)


def test_hidden_objectives_are_what_the_note_says() -> None:
    level = 0.01
    types = _regimes.hidden_objectives(_regimes.pieces(0), 8, level)
    system = types.system
    assert heterogeneity.nu(system).value == pytest.approx(1)
    assert heterogeneity.delta_obj(system, "weights").value == pytest.approx(1)
    assert _regimes.from_centre(types) == pytest.approx(level / 2)
    assert np.abs(system.x_star).max() == pytest.approx(level)
    assert np.linalg.norm(system.Phi, 2, axis=(1, 2)).max() <= 1
    noise = system.b[0] - system.mu[0] @ system.b[0]
    assert np.abs(noise).min() > 0.98


def test_the_horizon_of_temporal_differences_enters_squared() -> None:
    horizons = [r for r in rates_examples.c6_rate() if r.variable == "1/(1-gamma)"]
    assert len(horizons) == 2  # agents alike and far apart
    for horizon in horizons:
        assert horizon.measured == pytest.approx(2, abs=0.05)
        assert of_regimes([horizon])[0] == "faster than stated"
        assert of_regimes([replace(horizon, predicted=1.9)])[0] == "violated"


@pytest.mark.parametrize("build", [_regimes.short_objectives, _regimes.short_opposites])
def test_short_objectives_are_as_stated(build: Callable[..., _rates_systems.Types]) -> None:
    types = build(_regimes.pieces(0), 16, 0.1)
    system = types.system
    assert _regimes.nu_of_both(types) == pytest.approx(1)
    assert float(heterogeneity.sigma(system, definition="weights")) == pytest.approx(0.2)
    assert float(heterogeneity.lambda_b(system)) == pytest.approx(0.75)
    alpha = np.log(_regimes.FAR) / (0.75 * _regimes.FAR)
    assert _regimes.alone(types) / alpha == pytest.approx(0.1**2 / 32)
    if build is _regimes.short_opposites:
        assert heterogeneity.delta_cen(system).value == pytest.approx(3 / 8)
        assert np.allclose([system.x_star_central, system.theta_star_central], 0, atol=1e-12)
    else:
        error = stationary_error(system, 0, [0.0, 0.0], alpha)
        assert error / alpha == pytest.approx(0.1**2 / (32 * 16))


def test_short_objectives_refute_the_fourth_power_of_sigma() -> None:
    (entry,) = (item.entry for item in find_claims(["affpcl.thm1_dre_scale"]))
    assert isinstance(entry, rc.RateClaim)
    regimes = list(entry.regimes())
    assert all(of_regimes([r])[0] == "violated" for r in regimes)
    assert of_regimes([replace(r, predicted=-2.0) for r in regimes])[0] == "consistent"


def test_diminishing_steps_start_where_the_corollaries_allow_it() -> None:
    system = _regimes.pieces(0).types(20, **_regimes.MIXED).system
    first = _regimes.diminishing_steps(system).at(0)
    own = heterogeneity.lambda_agent(system).value
    of_centre = float(heterogeneity.lambda_c(system))
    of_objective = float(heterogeneity.lambda_b(system))
    scaled = [*(first.x[:, 0] * own), first.center * of_centre, first.objective * of_objective]
    assert np.allclose(scaled, scaled[0])  # synchronised, as in Appendix G.1
    stretch = float(heterogeneity.G_A(system)) ** 2
    shares = [  # of what Corollaries G.2, F.2 and E.1 allow
        float((first.x[:, 0] * 40 * stretch / own).max()),
        first.center * 8 * stretch / of_centre,
        first.objective * 4 / of_objective,
    ]
    assert 0.98 < max(shares) <= 1
