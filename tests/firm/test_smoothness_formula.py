"""The constant L_J below equation (49), as printed and as cited, against exact smoothness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.firm.theory.smoothness import smoothness_formula
from linsys import InputError
from mgda.constants import Mixing, mixing_everywhere, smoothness_at, smoothness_everywhere
from mgda.instances import sample_momdp
from tests._walks import walk


def test_the_printed_smoothness_constant_is_none() -> None:
    """(49) with 1 / (1 - rho) outside of C_pi / 2 (..), long features, and a valid uniform pair."""
    momdp = walk(41, 0.98, 400.0, 0.999)
    pair = mixing_everywhere(momdp)
    np.testing.assert_allclose(pair, (1.0, 0.98), rtol=1e-12)
    thetas = np.linspace(0.1, 0.4, 31)[:, None] / 400.0
    largest = smoothness_at(momdp.at(thetas)).max()
    assert largest > 1.9 * smoothness_formula(momdp, pair)
    assert largest < smoothness_formula(momdp, pair, "xu")
    # no difference of two gradients is excused either
    gradients = momdp.jac(np.array([[0.2], [0.25]]) / 400.0)[:, 0, 0]
    slope = abs(gradients[1] - gradients[0]) / (0.05 / 400.0)
    assert slope > 1.5 * smoothness_formula(momdp, pair)


def test_only_the_cited_constant_scales_like_a_second_derivative() -> None:
    pair = Mixing(2.0, 0.9)
    short, long = walk(5, 0.9, 1.0, 0.9), walk(5, 0.9, 2.0, 0.9)
    ratio = smoothness_formula(long, pair, "xu") / smoothness_formula(short, pair, "xu")
    np.testing.assert_allclose(ratio, 4.0, rtol=1e-12)
    assert smoothness_formula(long, pair) < 3.9 * smoothness_formula(short, pair)
    np.testing.assert_allclose(
        smoothness_at(long.at([0.1])), 4 * smoothness_at(short.at([0.2])), rtol=1e-12
    )


def test_the_cited_constant_holds_for_restarted_chains() -> None:
    """kappa = 1 and rho = gamma are valid for them; then the formula exceeds the bound above."""
    for gamma in (0.0001, 0.5, 0.9, 0.999):
        momdp = sample_momdp(0, gamma=gamma)
        formula = smoothness_formula(momdp, Mixing(1.0, gamma), "xu")
        assert formula >= smoothness_everywhere(momdp)
        assert formula / 9 < smoothness_everywhere(momdp)


def test_formula_by_hand() -> None:
    """D = sqrt(2), gamma = 1/2, kappa = 3, rho = 1/2: log_rho(1/kappa) = 1.6, hence 2."""
    momdp = sample_momdp(0, gamma=0.5)
    C_psi, C_pi, L_psi = math.sqrt(2), math.sqrt(2) / 4, 0.5
    printed = 2 * (4 * (0.5 * C_pi * 3 + 2) * C_psi + L_psi)
    cited = 2 * (4 * (0.5 * C_pi * 5) * C_psi + L_psi)
    np.testing.assert_allclose(smoothness_formula(momdp, Mixing(3.0, 0.5)), printed)
    np.testing.assert_allclose(smoothness_formula(momdp, Mixing(3.0, 0.5), "xu"), cited)
    # kappa below one counts as one
    assert smoothness_formula(momdp, Mixing(0.3, 0.5)) == smoothness_formula(
        momdp, Mixing(1.0, 0.5)
    )
    with pytest.raises(InputError, match="`form`"):
        smoothness_formula(momdp, Mixing(1.0, 0.5), "other")
    with pytest.raises(InputError, match="`rho` must be"):
        smoothness_formula(momdp, Mixing(1.0, 1.0))
