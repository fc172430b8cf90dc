"""A bound that is a tenth too small is always found out.

Each claim here holds, and TIGHTEST says how close to its bound some instance comes. With the bound
multiplied by 0.9 times that ratio the claim is false, by a margin of a ninth; a search that misses
the violation could also miss a wrong constant in a paper. The other claims of the catalogue are
tested in the same way by :mod:`ratecheck._conformance.claims`.
"""

from __future__ import annotations

import pytest

import ratecheck as rc
from ratecheck._conformance.claims import tightened
from ratecheck._discover.catalogue import find_claims
from tests._slow import slow_but
from tests.ratecheck.audit._known import CLAIMS, declared

#: Claims of the catalogue by id, and the tightest ratio known for each.
TIGHTEST = {
    "affpcl.const_sigma": 1.0,
    "affpcl.dcen_range": 0.75,
    "affpcl.nu_le_kappa_corrected": 1.0,
    "affpcl.sec51_bc_far_maximum": 1.0,
    "affpcl.sec52_chi2": 1.0,
    "affpcl.sec52_chi2_tv": 0.75,
    "affpcl.ex6_corrected": 1.0,
    "affpcl.ex7_sharp": 1.0,
    "affpcl.c6_nu_corrected": 1.0,
    "affpcl.d1a": 1.0,
    "affpcl.d1b": 1.0,
    "affpcl.d1c": 1.0,
    "affpcl.d1d": 1.0,
    "affpcl.d1e": 1.0,
    "affpcl.d1f": 0.375,
    "affpcl.d1f_sharper": 1.0,
    "affpcl.d1g": 1.0,
    "affpcl.d1h": 1.0,
    "affpcl.d1i": 1.0,
    "affpcl.d1j": 0.375,
    "affpcl.d1j_sharper": 1.0,
    "affpcl.d3": 1.0,
    "affpcl.d5_dim_explicit_corrected": 0.8137,
    "affpcl.e2_sharper": 1.0,
    "affpcl.f4_sharper": 1.0,
    "affpcl.g1_norm": 1.0,
    "affpcl.g2_chi": 0.5,
    "affpcl.corG2_E_corrected": 0.5,
    "affpcl.free_ride": 1.0,
    "affpcl.never_worse_corrected": 1.0,
}
#: Of the planted ones: attained, and with sides that a factor changes.
PLANTED = [
    name
    for name, (_, kind, attained, _) in CLAIMS.items()
    if kind == "upper" and attained and name != "order_of_sums_huge"
]


@pytest.mark.parametrize("name", slow_but(PLANTED[::3], PLANTED))
def test_a_smaller_bound_on_a_known_claim_is_violated(name: str) -> None:
    assert rc.judge(tightened(declared(name), 1.0)).verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, ratio in TIGHTEST.items() if ratio < 1])
def test_nothing_is_tighter_than_is_proved(name: str) -> None:
    (item,) = find_claims([name])
    assert isinstance(item.entry, rc.Claim)
    verdict = rc.judge(item.entry)
    assert verdict.verdict == "holds"
    assert verdict.ratio is not None
    assert verdict.ratio <= TIGHTEST[name] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", TIGHTEST)
def test_a_smaller_bound_is_violated_whatever_the_seed(name: str, seed: int) -> None:
    (item,) = find_claims([name])
    assert isinstance(item.entry, rc.Claim)
    assert rc.judge(tightened(item.entry, TIGHTEST[name]), "normal", seed).verdict == "violated"
